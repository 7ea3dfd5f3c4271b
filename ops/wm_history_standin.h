/* wm_history_standin.h - stands in for wm_ask_history (ops/wm_ask.h) until the ledger has it.  */
#ifndef WM_HISTORY_STANDIN_H
#define WM_HISTORY_STANDIN_H
#include <jansson.h>
json_t *wm_ask_history (const char *verb, const char *endpoint, const char *campaign, int *code);
#endif
