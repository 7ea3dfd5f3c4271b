/* wm_top_history.c - what the broker's history adds to `wiremill top`: the graph before top began,
   and what a campaign did that no broker serves.  */
#include "ops/wm_ask.h"
#include "ops/wm_top.h"

#include <string.h>
#include <time.h>

/* Places of the columns that are used, in the order of `name`; -1: there is no such column.  */
enum { BEGIN_S, SPAN_S, UP_S, HITS, WORKERS_MAX, COLUMNS };
static const char *const name[COLUMNS] = { "begin_s", "span_s", "up_s", "hits", "workers_max" };

static void find_columns (const json_t *columns, int place[COLUMNS])
{
    size_t i;
    const json_t *column;
    for (int k = 0; k < COLUMNS; k++)
        place[k] = -1;
    json_array_foreach (columns, i, column)
    {
        for (int k = 0; k < COLUMNS; k++)
            if (json_is_string (column) && strcmp (json_string_value (column), name[k]) == 0)
                place[k] = (int) i;
    }
}

static double cell (const json_t *row, int place)
{
    return place < 0 ? 0 : json_number_value (json_array_get (row, (size_t) place));
}

/* The rate of a minute while a broker served stands in each bucket that shares time with it and
   has no rate of its own.  */
static void fill (wm_top_campaign_t *campaign, const json_t *row, const int place[COLUMNS],
                  double end_s)
{
    const double begin_s = cell (row, place[BEGIN_S]), up_s = cell (row, place[UP_S]);
    for (int i = 0; i < WM_TOP_BUCKETS && begin_s > 0 && up_s > 0; i++) {
        const double to_s = end_s - WM_TOP_BUCKET_S * (WM_TOP_BUCKETS - 1 - i);
        if (campaign->rate[i] < 0 && to_s >= begin_s &&
            to_s - WM_TOP_BUCKET_S < begin_s + cell (row, place[SPAN_S]))
            campaign->rate[i] = (float) (cell (row, place[HITS]) / up_s);
    }
}

void wm_top_history (wm_top_campaign_t *campaign, const json_t *history, int64_t now_s)
{
    int place[COLUMNS];
    size_t i;
    const json_t *row, *rows = json_object_get (history, "rows");
    find_columns (json_object_get (history, "columns"), place);
    wm_top_did_t did = { 0 };
    json_array_foreach (rows, i, row)
    {
        const double begin_s = cell (row, place[BEGIN_S]),
                     end_s = begin_s + cell (row, place[SPAN_S]);
        if (begin_s <= 0 || !(end_s < 1e11) || cell (row, place[HITS]) <= 0)
            continue; /* of a time that is not known, or without work */
        did.from_s = did.from_s ? did.from_s : (int64_t) begin_s;
        did.to_s = (int64_t) end_s;
        did.up_s += cell (row, place[UP_S]);
        did.hits += cell (row, place[HITS]);
        const int64_t workers = (int64_t) cell (row, place[WORKERS_MAX]);
        did.workers = workers > did.workers ? workers : did.workers;
    }
    campaign->did = now_s ? (wm_top_did_t){ 0 } : did;
    json_array_foreach (rows, i, row)
        fill (campaign, row, place, (double) (now_s ? now_s : did.to_s));
}

json_t *wm_top_ask_recent (wm_client_t *client)
{
    wm_error_t error;
    const int64_t from_s = time (NULL) - WM_TOP_BUCKETS * WM_TOP_BUCKET_S;
    return wm_ask_history_page (client, false, (uint64_t) from_s, &error);
}
