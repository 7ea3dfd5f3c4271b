/* wm_live.h - the page of `wiremill serve`, made from what wm_top_poll knows of a campaign.

   The server writes all of it, so it is complete without a script; page.js only asks for it again
   and changes what differs. It names nothing outside itself. What comes from peers is escaped.
   Thread: one at a time.  */
#ifndef WM_LIVE_H
#define WM_LIVE_H

#include "ops/ask/wm_history_query.h"
#include "ops/view/wm_top.h"

/* Returns the page, freed by the caller. `past` is lent; every_s: how often the page is to
   be fetched.  */
char *wm_live_page (const wm_top_campaign_t *campaign, const wm_history_query_t *past,
                    double every_s, size_t *bytes);

/* Returns its Content-Security-Policy, which admits its own script and style by their hash.  */
const char *wm_live_policy (void);

#endif
