/* wm_live_campaigns.c - the list of several campaigns, as the page of `wiremill serve`: those that
   go on, then those that are finished. */
#include "ops/ask/wm_account.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/serve/wm_live_private.h"
#include "ops/view/wm_waits.h"
#include "schema/page/wm_page.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define STATES_MAX 16

static bool is_finished (const wm_live_row_t *row)
{
    return strcmp (wm_top_state (row->campaign), "finished") == 0;
}

static const char *class_of (const wm_live_row_t *row)
{
    return is_finished (row) && !wm_account_is_clean (row->campaign->status)
               ? "warn"
               : wm_live_class (wm_top_state (row->campaign));
}

/* "1 running, 2 finished", in the order of the rows.  */
static void put_states (FILE *out, const wm_live_row_t *row, int n)
{
    const char *state[STATES_MAX];
    int count[STATES_MAX] = { 0 }, n_state = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        const char *of_row = wm_top_state (row[i].campaign);
        while (k < n_state && strcmp (state[k], of_row) != 0)
            k++;
        if (k == STATES_MAX)
            continue;
        state[k] = of_row;
        n_state += k == n_state;
        count[k]++;
    }
    for (int k = 0; k < n_state; k++)
        wm_page_print (out, "%s%d %s", k ? ", " : "", count[k], state[k]);
}

static void put_summary (FILE *out, const wm_live_row_t *row, int n)
{
    const char *class = "good";
    for (int i = 0; i < n; i++) {
        const char *of_row = class_of (&row[i]);
        if (*of_row == 'b' || (*of_row == 'w' && *class != 'b'))
            class = of_row;
    }
    fprintf (out,
             "<div id=\"state\" class=\"state %s\" role=\"status\"><strong>%d campaign%s</strong> ",
             class, n, n == 1 ? "" : "s");
    put_states (out, row, n);
    fputs ("</div>\n", out);
}

/* The first cell: its name, with a link to its page, and where it is.  */
static void put_name (FILE *out, const wm_live_row_t *row)
{
    char name[64];
    const json_t *s = row->campaign->status;
    if (s)
        wm_account_name (s, name);
    fprintf (out, "<tr><th scope=\"row\"><a href=\"/c/%s/\">", row->name);
    wm_page_print (out, "%s", s ? name : row->name);
    fputs ("</a>", out);
    wm_page_put (out, "small class=\"more\"", "%s",
                 s ? wm_ask_text (s, "campaign.output") : row->campaign->given);
    fputs ("</th>", out);
}

static void put_state (FILE *out, const wm_live_row_t *row)
{
    char did[256];
    const wm_top_campaign_t *campaign = row->campaign;
    const json_t *s = campaign->status;
    const char *class = class_of (row), *state = wm_top_state (campaign);
    const bool is_here = *wm_ask_text (s, "endpoint");
    const char *more = *campaign->note ? campaign->note
                       : is_here       ? wm_waits_short (s)
                                       : wm_top_did (s, &row->work, did);
    fprintf (out, "<td><span class=\"word %s%s\">", class, *class ? "-text" : "");
    wm_page_print (out, "%s", state);
    fputs ("</span>", out);
    if (strcmp (more, state) != 0)
        wm_page_put (out, "small", "%s", more);
    fputs ("</td>", out);
}

static void put_done (FILE *out, const json_t *s)
{
    const double share = s ? wm_account_share (s) : -1;
    fprintf (out, "<td class=\"n\" data-v=\"%.6f\">", share);
    if (share < 0)
        fputs ("&#8211;", out);
    else
        fprintf (out, "<label>%.1f&nbsp;%%<progress max=\"1\" value=\"%.4f\"></progress></label>",
                 wm_account_percent (s), share);
    fputs ("</td>", out);
}

static void put_count (FILE *out, const json_t *s, const char *class, const char *path)
{
    char text[32];
    const int64_t n = wm_ask_int (s, path);
    wm_live_number (out, class, (double) n, s ? wm_show_count (n, text) : "&#8211;");
}

/* Hits that are held, and inputs or batches, with a link to their list.  */
static void put_held (FILE *out, const wm_live_row_t *row)
{
    char n[32];
    const json_t *s = row->campaign->status;
    const int64_t held = wm_ask_int (s, "hits.held"), rows = wm_ask_int (s, "held_total");
    fprintf (out, "<td class=\"n\" data-v=\"%lld\">", (long long) (held + rows));
    if (held || rows)
        fprintf (out,
                 "<a class=\"bad-text\" href=\"/c/%s/held\" aria-label=\"%s: what is held\">%s</a>",
                 row->name, row->name, wm_show_count (held, n));
    else
        fputs (s ? "0" : "&#8211;", out);
    if (rows)
        wm_page_put (out, "small", "and %s %s", wm_show_count (rows, n), wm_live_held_rows (rows));
    fputs ("</td>", out);
}

/* A number that is known only while a broker answers.  */
static void put_now (FILE *out, const char *class, double value, const char *text, const char *unit)
{
    fprintf (out, "<td class=\"n%s\" data-v=\"%.9g\">", class, text ? value : -1);
    if (text)
        wm_page_print (out, "%s%s%s", text, *unit ? " " : "", unit);
    else
        fputs ("&#8211;", out);
    fputs ("</td>", out);
}

static void put_row (FILE *out, const wm_live_row_t *row)
{
    char a[32], per_s[32];
    const json_t *s = row->campaign->status;
    const bool is_here = *wm_ask_text (s, "endpoint") && !*row->campaign->note;
    const double rate = wm_ask_real (s, "rate.hits_s"), eta_s = wm_ask_real (s, "eta_s"),
                 workers = wm_ask_real (s, "workers_total");
    put_name (out, row);
    put_state (out, row);
    put_done (out, s);
    put_count (out, s, " more", "hits.done");
    put_now (out, "", rate, is_here ? wm_show_short (rate, a) : NULL, wm_ask_rows_s (s, 30, per_s));
    put_now (out, " more", workers, is_here ? wm_show_short (workers, a) : NULL, "");
    put_held (out, row);
    put_now (out, "", eta_s, is_here && eta_s > 0 ? wm_show_time (eta_s, a) : NULL, "");
    fputs ("</tr>\n", out);
}

static void put_open (FILE *out, const wm_live_row_t *row, int n)
{
    int n_open = 0;
    for (int i = 0; i < n; i++)
        n_open += !is_finished (&row[i]);
    wm_live_begin (out, "campaigns", "Campaigns that are not finished", n_open > 0);
    wm_live_table (out, "campaigns", "sortable",
                   "Campaign|State|#Done|-#Scored|#Rate|-#Workers|#Held|#Time left",
                   "each name leads to the campaign's page");
    for (int i = 0; i < n; i++)
        if (!is_finished (&row[i]))
            put_row (out, &row[i]);
    wm_live_table_end (out);
    wm_live_end (out);
}

static int by_end (const void *a, const void *b)
{
    const double one = (*(const wm_live_row_t *const *) a)->work.to_s,
                 other = (*(const wm_live_row_t *const *) b)->work.to_s;
    return (one < other) - (one > other);
}

/* The latest first.  */
static void put_finished (FILE *out, const wm_live_row_t *row, int n)
{
    char did[256];
    size_t n_finished = 0;
    const wm_live_row_t **list = calloc ((size_t) n + 1, sizeof *list);
    for (int i = 0; list && i < n; i++)
        if (is_finished (&row[i]))
            list[n_finished++] = &row[i];
    if (n_finished)
        qsort (list, n_finished, sizeof *list, by_end);
    wm_live_begin (out, "finished", "Finished", n_finished > 0);
    wm_live_table (out, "finished", "", "Campaign|Worked on|#Scored|#Held|-#Inputs written",
                   "the latest first");
    for (size_t i = 0; i < n_finished; i++) {
        const json_t *s = list[i]->campaign->status;
        put_name (out, list[i]);
        wm_page_put (out, "td", "%s",
                     *wm_top_did (s, &list[i]->work, did) ? did : "when is not known");
        put_count (out, s, "", "hits.done");
        put_held (out, list[i]);
        put_count (out, s, " more", "inputs.written");
        fputs ("</tr>\n", out);
    }
    wm_live_table_end (out);
    wm_live_end (out);
    free (list);
}

char *wm_live_list (const wm_live_row_t *row, int n, int n_left_out, double every_s, size_t *bytes)
{
    char *text = NULL, title[80];
    int n_running = 0;
    FILE *out = open_memstream (&text, bytes);
    assert (out);
    for (int i = 0; i < n; i++)
        n_running += strcmp (wm_top_state (row[i].campaign), "running") == 0;
    snprintf (title, sizeof title, "wiremill: %d campaign%s, %d running", n, n == 1 ? "" : "s",
              n_running);
    wm_live_head (out, title, "Campaigns", every_s, true);
    fputs ("</header>\n<main id=\"main\" tabindex=\"-1\">\n", out);
    put_summary (out, row, n);
    put_open (out, row, n);
    put_finished (out, row, n);
    if (n_left_out)
        wm_page_put (out, "p", "%d older campaigns of the folder are left out: name them.",
                     n_left_out);
    fputs ("</main>\n<footer><p>The page only reads; wiremill top changes.</p></footer>\n", out);
    wm_live_foot (out);
    fclose (out);
    assert (text);
    return text;
}
