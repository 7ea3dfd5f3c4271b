/* wm_top_history.c - the graph of `wiremill top` and of the page of `wiremill serve`, of the
   campaign's history.  */
#include "ops/view/wm_marks.h"
#include "ops/view/wm_top.h"

#include <math.h>

void wm_top_history (wm_top_campaign_t *campaign, const wm_history_query_t *past, double now_s)
{
    wm_history_query_part_t part[WM_TOP_BUCKETS];
    wm_history_query_work_t did;
    wm_history_query_work (past, &did);
    const double to_s = now_s > 0 ? now_s : did.to_s,
                 end_s = ceil (to_s / WM_TOP_BUCKET_S) * WM_TOP_BUCKET_S;
    campaign->did = now_s > 0 ? (wm_history_query_work_t){ 0 } : did;
    wm_history_query_spread (past, end_s - WM_TOP_BUCKETS * WM_TOP_BUCKET_S, WM_TOP_BUCKET_S, part,
                             WM_TOP_BUCKETS);
    part[WM_TOP_BUCKETS - 1].width_s = fmax (1, WM_TOP_BUCKET_S - (end_s - to_s)); /* so far */
    for (int i = 0; i < WM_TOP_BUCKETS; i++)
        campaign->rate[i] = (float) wm_history_query_rate (&part[i]);
    wm_marks_row (past, end_s - WM_TOP_BUCKETS * WM_TOP_BUCKET_S, end_s, campaign->mark,
                  WM_TOP_BUCKETS);
}
