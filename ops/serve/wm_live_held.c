/* wm_live_held.c - the page of what is held. */
#include "ops/ask/wm_account.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/serve/wm_live_filter.h"
#include "ops/serve/wm_live_private.h"
#include "schema/page/wm_page.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 10000

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_number (wm_live_filter_row_t *row, double hits)
{
    row->value = hits;
    wm_show_count ((int64_t) hits, row->number);
}

static void take_held (const json_t *held, wm_live_filter_row_t *row)
{
    int n = 0;
    const char *reason = wm_ask_held_reason (held), *state = wm_ask_text (held, "state");
    *row = (wm_live_filter_row_t){ .path = wm_ask_text (held, "path"),
                                   .output = "",
                                   .page = "",
                                   .reason = *reason ? reason : "no reason given" };
    put_number (row, (double) wm_ask_int (held, "hits"));
    wm_live_filter_class (row->reason, row->class);
    if (strcmp (state, "batch") != 0)
        snprintf (row->what, sizeof row->what, "%s",
                  strcmp (state, "changed") == 0 ? "changed since it was scored" : "all of it");
    else if (json_is_integer (json_object_get (held, "event")))
        n = snprintf (row->what, sizeof row->what, "event %lld:%lld:%lld, ",
                      (long long) wm_ask_int (held, "run"), (long long) wm_ask_int (held, "subrun"),
                      (long long) wm_ask_int (held, "event"));
    if (json_is_integer (json_object_get (held, "batch")))
        snprintf (row->what + n, sizeof row->what - (size_t) n, "batch %lld",
                  (long long) wm_ask_int (held, "batch"));
}

/* Hits of a file, a row for each reason. Returns how many.  */
static size_t take_file (const json_t *file, wm_live_filter_row_t *row, size_t room)
{
    size_t n = 0;
    const char *reason;
    size_t i;
    json_t *count, *reasons = json_object_get (file, "reasons");
    const json_t *known = json_object_get (file, "known_reasons");
    const bool is_open = strcmp (wm_ask_text (file, "state"), "open") == 0;
    const wm_live_filter_row_t hits = {
        .path = wm_ask_text (file, "path"),
        .output = is_open ? "" : wm_ask_text (file, "output"),
        .page = wm_ask_text (file, "page"),
        .reason = !is_open ? "not known: its output cannot be read"
                  : json_array_size (known)
                      ? "others may follow; counts are known once its output is written"
                      : "known once its output is written",
        .what = "single hits"
    };
    json_object_foreach (reasons, reason, count)
    {
        if (n == room)
            break;
        row[n] = hits;
        row[n].reason = reason;
        put_number (&row[n], fmin (fmax (json_number_value (count), 0), 0x1p53));
        wm_live_filter_class (reason, row[n++].class);
    }
    json_array_foreach (known, i, count)
    {
        if (n == room)
            break;
        reason = json_string_value (count);
        row[n] = hits;
        row[n].reason = reason ? reason : "";
        strcpy (row[n].number, "&#8211;");
        wm_live_filter_class (row[n].reason, row[n].class);
        n++;
    }
    if (!json_object_size (reasons) && n < room) {
        row[n] = hits;
        put_number (&row[n], (double) wm_ask_int (file, "held"));
        wm_live_filter_class (row[n].reason, row[n].class);
        n++;
    }
    return n;
}

/* All rows; the caller's.  */
static wm_live_filter_row_t *take_rows (const json_t *list, size_t *n)
{
    size_t i;
    const json_t *one;
    wm_live_filter_row_t *row = calloc (ROWS_MAX, sizeof *row);
    *n = 0;
    json_array_foreach (json_object_get (list, "held"), i, one)
    {
        if (row && *n < ROWS_MAX)
            take_held (one, &row[(*n)++]);
    }
    json_array_foreach (json_object_get (list, "held_files"), i, one)
    {
        if (row)
            *n += take_file (one, &row[*n], ROWS_MAX - *n);
    }
    return row;
}

/* ---- the page -------------------------------------------------------------------------------- */

/* What the list does not have.  */
static void put_rest (FILE *out, const json_t *list)
{
    char n[64];
    const int64_t rows = wm_ask_int (list, "held_total") -
                         (int64_t) json_array_size (json_object_get (list, "held")),
                  files = wm_ask_int (list, "held_files_left_out");
    if (rows > 0)
        wm_page_put (out, "p", "Not in the list: %s %s.", wm_show_count (rows, n),
                     wm_live_held_rows (rows));
    if (files > 0)
        wm_page_put (out, "p", "Not in the list: the hits of %s.",
                     wm_show_rows (files, "files", n));
}

static void put_list (FILE *out, const json_t *list, double age_s, const char *base,
                      const char *query)
{
    static const wm_live_filter_t filter = { "held", "What is held", "Input|What|#Hits|Reason",
                                             "Reason", "named in the table \"held\" of" };
    size_t n;
    char text[32];
    wm_live_filter_row_t *row = take_rows (list, &n);
    wm_live_filter (out, &filter, row, n, base, query);
    put_rest (out, list);
    wm_page_put (out, "p class=\"faint\"",
                 "Read %s ago. wiremill held lists all, wiremill why explains one, and wiremill "
                 "kick has an input scored again.",
                 wm_show_time (age_s, text));
    free (row);
}

static void put_state (FILE *out, const json_t *s)
{
    char held[64], n[32];
    const int64_t rows = wm_ask_int (s, "held_total");
    fprintf (out, "<div id=\"state\" class=\"state %s\"><strong>",
             !s                        ? "bad"
             : wm_account_is_clean (s) ? "good"
                                       : "warn");
    if (!s)
        fputs ("no broker has answered yet</strong>", out);
    else if (wm_account_is_clean (s))
        fputs ("nothing is held</strong>", out);
    else {
        wm_page_print (out, "%s",
                       wm_show_rows (wm_ask_int (s, "hits.held"), wm_ask_rows (s), held));
        wm_page_print (out, " held");
        fprintf (out, "</strong> and %s %s", wm_show_count (rows, n), wm_live_held_rows (rows));
    }
    fputs ("</div>\n", out);
}

char *wm_live_held_page (const json_t *now, const json_t *list, double age_s, const char *base,
                         const char *query, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream (&text, bytes);
    const bool has_more = now && !wm_account_is_clean (now), is_read = has_more && !list;
    assert (out);
    wm_live_filter_begin (out, now, "held", base, is_read);
    put_state (out, now);
    if (is_read)
        fputs ("<p>The list is being read; the page loads itself again.</p>\n", out);
    else if (has_more)
        put_list (out, list, age_s, base, query);
    wm_live_filter_end (out);
    fclose (out);
    assert (text);
    return text;
}
