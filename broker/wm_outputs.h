/* wm_outputs.h - what a campaign wrote: for `wiremill verify`; and whether that and its inputs are still
   as they were: for the status of a campaign that nobody serves.  */
#ifndef WM_OUTPUTS_H
#define WM_OUTPUTS_H

#include "broker/wm_campaign.h"
#include "broker/wm_core.h"

/* {"schema": "wiremill-outputs-1", "pins": TEXT, "written": [{"input": PATH, "output": PATH}]}, the
   caller's; NULL with *error without memory.  */
char *wm_outputs_json (const wm_campaign_t *campaign, wm_error_t *error);

/* Tells a core that was restored from a campaign's ledger how its outputs, in `folder`, and inputs are now:
   by size and time, as a producer looks at them. What cannot be seen from here is taken to be as it was; a
   folder that cannot is said on stderr. It waits for file systems that hang: let go of the lock before. */
void wm_outputs_look (wm_core_t *core, const char *folder);

#endif
