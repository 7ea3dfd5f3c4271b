/* wm_live.h - the pages of `wiremill serve`, made from what wm_top_poll knows of campaigns.

   The server writes all of it, so it is complete without a script; page.js only asks for it again
   and changes what differs. It names nothing outside itself. What comes from peers is escaped.
   Thread: one at a time.  */
#ifndef WM_LIVE_H
#define WM_LIVE_H

#include "ops/ask/wm_history_query.h"
#include "ops/view/wm_top.h"

#include <stdbool.h>

/* Returns the page of a campaign, freed by the caller. `past` is lent; base: what the paths of its
   files begin with, "" or "/c/NAME" if "/" is a list; every_s: how often the page is to be
   fetched.  */
char *wm_live_page (const wm_top_campaign_t *campaign, const wm_history_query_t *past,
                    const char *base, double every_s, size_t *bytes);

/* The same of a list of campaigns (n), of which n_left_out more are not shown.  */
typedef struct {
    const char *name; /* in its path, /c/NAME/ */
    const wm_top_campaign_t *campaign;
    wm_history_query_work_t work; /* of its whole history */
} wm_live_row_t;
char *wm_live_list (const wm_live_row_t *row, int n, int n_left_out, double every_s, size_t *bytes);

/* The same of what is held of a campaign, a form and a table. now: the status, NULL if none is
   known; list: one with "held" and "held_files" that is age_s old, NULL while it is read; query: of
   the request.  */
char *wm_live_held_page (const json_t *now, const json_t *list, double age_s, const char *base,
                         const char *query, size_t *bytes);

/* The same of single hits: those with the lowest scores, and held ones; list: one with
   "worst_files".  */
char *wm_live_worst_page (const json_t *now, const json_t *list, double age_s, const char *base,
                          const char *query, size_t *bytes);

/* Returns a page's Content-Security-Policy, which admits its own script and style by their hash;
   has_form: of one that has a form, and no script.  */
const char *wm_live_policy (bool has_form);

#endif
