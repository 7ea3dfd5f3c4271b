/* wm_top_history.c - the graph of `wiremill top` and of the page of `wiremill serve`: rates as they
   are measured, and before them those of the campaign's history.  */
#include "ops/view/wm_top.h"

#include <math.h>
#include <string.h>

void wm_top_rate (wm_top_campaign_t *campaign, double hits_s, int64_t now_ms, int64_t *bucket)
{
    const int64_t now = now_ms / (1000 * WM_TOP_BUCKET_S);
    if (!*bucket)
        for (int i = 0; i < WM_TOP_BUCKETS; i++)
            campaign->rate[i] = -1;
    int64_t by = *bucket ? now - *bucket : 0;
    by = by < 0 ? 0 : by > WM_TOP_BUCKETS ? WM_TOP_BUCKETS : by;
    memmove (campaign->rate, campaign->rate + by,
             (size_t) (WM_TOP_BUCKETS - by) * sizeof *campaign->rate);
    for (int64_t i = WM_TOP_BUCKETS - by; i < WM_TOP_BUCKETS; i++)
        campaign->rate[i] = -1;
    *bucket = now;
    if (hits_s >= 0)
        campaign->rate[WM_TOP_BUCKETS - 1] = (float) hits_s;
}

void wm_top_history (wm_top_campaign_t *campaign, const wm_history_query_t *past, double now_s)
{
    wm_history_query_part_t part[WM_TOP_BUCKETS];
    wm_history_query_work_t did;
    wm_history_query_work (past, &did);
    const double end_s = now_s > 0 ? now_s : did.to_s;
    campaign->did = now_s > 0 ? (wm_history_query_work_t){ 0 } : did;
    wm_history_query_spread (past, end_s - WM_TOP_BUCKETS * WM_TOP_BUCKET_S, WM_TOP_BUCKET_S, part,
                             WM_TOP_BUCKETS);
    for (int i = 0; i < WM_TOP_BUCKETS; i++)
        if (campaign->rate[i] < 0)
            campaign->rate[i] = (float) wm_history_query_rate (&part[i]);
}
