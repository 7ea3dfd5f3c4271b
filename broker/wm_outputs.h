/* wm_outputs.h - what a finished campaign wrote: for `wiremill verify`.  */
#ifndef WM_OUTPUTS_H
#define WM_OUTPUTS_H

#include "broker/wm_campaign.h"

/* {"schema": "wiremill-outputs-1", "pins": TEXT, "written": [{"input": PATH, "output": PATH}]}, the
   caller's; NULL with *error without memory.  */
char *wm_outputs_json (const wm_campaign_t *campaign, wm_error_t *error);

#endif
