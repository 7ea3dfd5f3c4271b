/* wm_live_worst.c - the page of single hits that a person would look at: those whose truth has the
   lowest scores, the least sure ones where there is no truth, and held ones. */
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/serve/wm_live_filter.h"
#include "schema/page/wm_page.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NO_SCORE 2 /* of held hits: behind the others */

/* Takes the hit of a list of "worst" or "kept". false: it names no hit.  */
static bool take_hit (const json_t *hit, wm_live_filter_row_t *row)
{
    for (size_t k = 0; k < 4; k++)
        if (!json_is_integer (json_array_get (hit, k)))
            return false;
    snprintf (row->what, sizeof row->what, "%lld:%lld:%lld:%lld",
              (long long) json_integer_value (json_array_get (hit, 0)),
              (long long) json_integer_value (json_array_get (hit, 1)),
              (long long) json_integer_value (json_array_get (hit, 2)),
              (long long) json_integer_value (json_array_get (hit, 3)));
    row->is_hit = true;
    if (json_is_integer (json_array_get (hit, 4)))
        snprintf (row->place, sizeof row->place, "wire %lld, time %.9g",
                  (long long) json_integer_value (json_array_get (hit, 4)),
                  json_number_value (json_array_get (hit, 5)));
    return true;
}

static bool take_worst (const json_t *hit, wm_live_filter_row_t *row)
{
    const char *truth = json_string_value (json_array_get (hit, 7)),
               *called = json_string_value (json_array_get (hit, 8));
    if (!take_hit (hit, row) || !called)
        return false;
    row->value = json_number_value (json_array_get (hit, 6));
    snprintf (row->number, sizeof row->number, "%.4g", row->value);
    snprintf (row->class, sizeof row->class, "%s%scalled %s", truth ? truth : "", truth ? " " : "",
              called);
    return true;
}

static bool take_kept (const json_t *hit, wm_live_filter_row_t *row)
{
    const char *reason = json_string_value (json_array_get (hit, 6));
    if (!take_hit (hit, row) || !reason)
        return false;
    row->value = NO_SCORE;
    strcpy (row->number, "&#8211;");
    snprintf (row->class, sizeof row->class, "held: %s", reason);
    return true;
}

static int by_score (const void *a, const void *b)
{
    const double one = ((const wm_live_filter_row_t *) a)->value,
                 other = ((const wm_live_filter_row_t *) b)->value;
    return (one > other) - (one < other);
}

/* All rows, the lowest score first; the caller's, NULL: no memory.  */
static wm_live_filter_row_t *take_rows (const json_t *files, size_t *n)
{
    size_t i, k, room = 1;
    const json_t *file, *hit;
    json_array_foreach (files, i, file)
    {
        room += json_array_size (json_object_get (file, "worst")) +
                json_array_size (json_object_get (file, "kept"));
    }
    wm_live_filter_row_t *row = calloc (room, sizeof *row);
    *n = 0;
    json_array_foreach (files, i, file)
    {
        const wm_live_filter_row_t empty = { .path = wm_ask_text (file, "path"),
                                             .output = wm_ask_text (file, "output"),
                                             .page = wm_ask_text (file, "page") };
        json_array_foreach (json_object_get (file, "worst"), k, hit)
        {
            if (row && (row[*n] = empty, take_worst (hit, &row[*n])))
                ++*n;
        }
        json_array_foreach (json_object_get (file, "kept"), k, hit)
        {
            if (row && (row[*n] = empty, take_kept (hit, &row[*n])))
                ++*n;
        }
    }
    if (row)
        qsort (row, *n, sizeof *row, by_score);
    return row;
}

/* What was read, and what was not.  */
static void put_about (FILE *out, const json_t *list, const json_t *files)
{
    size_t i, n_true = 0, n_unread = 0, n_left_out = 0;
    char all[64], rows[64];
    int64_t hits = 0;
    const json_t *file;
    const char *why = "it cannot be read";
    json_array_foreach (files, i, file)
    {
        const bool is_left_out = json_is_true (json_object_get (file, "left_out"));
        const bool is_unread = !is_left_out && !json_is_array (json_object_get (file, "worst"));
        if (is_unread && !n_unread++ && *wm_ask_text (file, "why"))
            why = wm_ask_text (file, "why");
        n_true += json_is_true (json_object_get (file, "has_truth"));
        n_left_out += is_left_out;
        hits += is_unread || is_left_out ? 0 : wm_ask_int (file, "hits");
    }
    const size_t n = json_array_size (files) - n_unread - n_left_out;
    fputs ("<div id=\"state\" class=\"state\"><strong>", out);
    wm_page_print (out, "%s of %zu of %s", wm_show_rows (hits, wm_ask_rows (list), rows), n,
                   wm_show_rows (wm_ask_int (list, "inputs.written"), "outputs", all));
    fputs ("</strong></div>\n", out);
    if (n_true)
        wm_page_put (out, "p",
                     "Truth is known for %zu: the score is that of the truth, the lowest first.",
                     n_true);
    if (n > n_true)
        wm_page_put (out, "p",
                     "Truth is not known for %zu: the score is that of what a hit is called, the "
                     "least sure first.",
                     n - n_true);
    if (wm_ask_int (list, "worst_changed"))
        wm_page_put (out, "p class=\"bad-text\"", "Not read, since they have changed: %s.",
                     wm_show_count (wm_ask_int (list, "worst_changed"), all));
    if (n_left_out)
        wm_page_put (out, "p",
                     "Left out: %zu output%s, because all together have too many hits for a page.",
                     n_left_out, n_left_out == 1 ? "" : "s");
    if (n_unread)
        wm_page_put (out, "p class=\"bad-text\"", "Not read: %zu output%s. The first: %s.",
                     n_unread, n_unread == 1 ? "" : "s", why);
}

static void put_list (FILE *out, const json_t *list, double age_s, const char *base,
                      const char *query)
{
    static const wm_live_filter_t filter = { "worst", "Worst hits",
                                             "Input|Hit|#Score|Truth, and what it is called",
                                             "Kind", "in" };
    size_t n;
    char age[32];
    const json_t *files = json_object_get (list, "worst_files");
    wm_live_filter_row_t *row = take_rows (files, &n);
    put_about (out, list, files);
    wm_live_filter (out, &filter, row, n, base, query);
    wm_page_put (out, "p class=\"faint\"",
                 "Read %s ago: of at most 64 outputs, evenly spaced, each with at most 200 hits of "
                 "either kind. A hit is named RUN:SUBRUN:EVENT:HIT. Wire and time are those of its "
                 "input, where that is here; wiremill show OUTPUT --hit draws it, and a page of "
                 "events beside its output is linked here.",
                 wm_show_time (age_s, age));
    free (row);
}

char *wm_live_worst_page (const json_t *now, const json_t *list, double age_s, const char *base,
                          const char *query, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream (&text, bytes);
    const bool has_some = now && wm_ask_int (now, "inputs.written"), is_read = has_some && !list;
    assert (out);
    wm_live_filter_begin (out, now, "worst hits", base, is_read);
    if (!now)
        fputs ("<p>No broker has answered yet.</p>\n", out);
    else if (!has_some)
        fputs ("<p>No output is written yet.</p>\n", out);
    else if (is_read)
        fputs ("<p>The outputs are being read; the page loads itself again.</p>\n", out);
    else if (!json_is_true (json_object_get (list, "worst_is_here")))
        fputs ("<p>The outputs are not on this machine: start wiremill serve where they are.</p>\n",
               out);
    else
        put_list (out, list, age_s, base, query);
    wm_live_filter_end (out);
    fclose (out);
    assert (text);
    return text;
}
