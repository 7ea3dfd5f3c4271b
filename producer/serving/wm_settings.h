/* wm_settings.h - what Triton's clients ask for as settings of traces and logs.

   Both are as they are: nothing is traced, and the log is stderr. Clients can read that, and may
   set what is so already. Thread: any.  */
#ifndef WM_SETTINGS_H
#define WM_SETTINGS_H

#include "producer/serving/wm_kserve.h"

#include <jansson.h>

typedef enum { WM_SETTINGS_TRACE, WM_SETTINGS_LOG } wm_settings_t;

/* Returns the settings, the caller's. wanted: what a client sets, NULL: nothing; a list of one is
   as the one, null as the default. NULL with *error: it would change something.  */
json_t *wm_settings_answer (wm_settings_t of, const json_t *wanted, wm_ks_error_t *error);

/* The same over gRPC: `request` is the message of TraceSetting or LogSettings, and the answer has
   the form of its response (wm_service.h).  */
json_t *wm_settings_proto (wm_settings_t of, const void *request, size_t bytes,
                           wm_ks_error_t *error);

#endif
