/* wm_past.c - see wm_past.h.  */
#include "ops/serve/wm_past.h"

#include <string.h>

/* The place of a column; -1: the history has none of that name.  */
static int column_of (const json_t *history, const char *name)
{
    size_t i;
    const json_t *one;
    json_array_foreach (json_object_get (history, "columns"), i, one)
    {
        if (json_is_string (one) && strcmp (json_string_value (one), name) == 0)
            return (int) i;
    }
    return -1;
}

/* 0 where the column is not there, too: json_array_get takes any place.  */
static double number (const json_t *row, int column)
{
    return column < 0 ? 0 : json_number_value (json_array_get (row, (size_t) column));
}

double wm_past_begin (const json_t *history)
{
    size_t i;
    const json_t *row;
    const int begin = column_of (history, "begin_s");
    json_array_foreach (json_object_get (history, "rows"), i, row)
    {
        if (number (row, begin) > 0)
            return number (row, begin);
    }
    return 0;
}

double wm_past_sum (const json_t *history, const char *column, double from_s)
{
    size_t i;
    const json_t *row;
    double sum = 0;
    const int begin = column_of (history, "begin_s"), at = column_of (history, column);
    json_array_foreach (json_object_get (history, "rows"), i, row)
    {
        sum += number (row, begin) >= from_s ? number (row, at) : 0;
    }
    return sum;
}

/* A row's hits are spread evenly over the seconds that a broker served, from its begin on.  */
void wm_past_rate (const json_t *history, double from_s, double to_s, float *rate, int n)
{
    size_t i;
    const json_t *row;
    const int begin = column_of (history, "begin_s"), up = column_of (history, "up_s"),
              hits = column_of (history, "hits"), span = column_of (history, "span_s");
    const double part_s = (to_s - from_s) / n;
    for (int k = 0; k < n; k++)
        rate[k] = -1;
    if (!(part_s > 0))
        return;
    json_array_foreach (json_object_get (history, "rows"), i, row)
    {
        const double first = number (row, begin), up_s = number (row, up);
        const double last =
            first + (up_s > 0 && up_s < number (row, span) ? up_s : number (row, span));
        if (first <= 0 || last <= first || last <= from_s || first >= to_s)
            continue;
        const double per_s = number (row, hits) / (last - first);
        int k = first > from_s ? (int) ((first - from_s) / part_s) : 0;
        for (; k < n && from_s + k * part_s < last; k++) {
            const double a = from_s + k * part_s > first ? from_s + k * part_s : first;
            const double b = from_s + (k + 1) * part_s < last ? from_s + (k + 1) * part_s : last;
            if (b > a)
                rate[k] = (rate[k] < 0 ? 0 : rate[k]) + (float) (per_s * (b - a) / part_s);
        }
    }
}

void wm_past_latency (const json_t *history, const char *column, double from_s,
                      wm_past_latency_t *latency)
{
    size_t i;
    const json_t *row;
    const int begin = column_of (history, "begin_s"), at = column_of (history, column);
    memset (latency, 0, sizeof *latency);
    json_array_foreach (json_object_get (history, "rows"), i, row)
    {
        const json_t *one = at < 0 ? NULL : json_array_get (row, (size_t) at);
        if (number (row, begin) < from_s || !json_is_array (one))
            continue;
        latency->count += json_number_value (json_array_get (one, 0));
        latency->sum_s += json_number_value (json_array_get (one, 1));
        for (size_t k = 0; k < WM_PAST_BINS; k++)
            latency->bin[k] += json_number_value (json_array_get (json_array_get (one, 2), k));
    }
}

double wm_past_below_ms (const wm_past_latency_t *latency, double share)
{
    double all = 0, below = 0, ms = 1;
    for (int k = 0; k < WM_PAST_BINS; k++)
        all += latency->bin[k];
    for (int k = 0; k < WM_PAST_BINS - 1; k++, ms *= 2)
        if ((below += latency->bin[k]) >= share * all)
            return all > 0 ? ms : 0;
    return 0;
}
