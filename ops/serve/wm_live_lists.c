/* wm_live_lists.c - the tables of the page of `wiremill serve`. */
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/serve/wm_live_private.h"
#include "schema/page/wm_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HOUR_S 3600

/* ---- elements -------------------------------------------------------------------------------- */

void wm_live_begin (FILE *out, const char *id, const char *heading, bool is_shown)
{
    fprintf (out, "<section aria-labelledby=\"%s-h\"%s>\n<h2 id=\"%s-h\">%s</h2>\n", id,
             is_shown ? "" : " hidden", id, heading);
}

void wm_live_end (FILE *out)
{
    fputs ("</section>\n", out);
}

void wm_live_table (FILE *out, const char *id, const char *class, const char *heads,
                    const char *caption)
{
    fprintf (out,
             "<div class=\"table %s-box\" role=\"region\" aria-labelledby=\"%s-h\" tabindex=\"0\">"
             "<table class=\"%s\">\n",
             id, id, class);
    wm_page_put (out, "caption", "%s", caption);
    fputs ("<thead><tr>", out);
    for (const char *head = heads; *head; head += strcspn (head, "|"), head += *head == '|') {
        const bool is_more = *head == '-', is_number = head[is_more] == '#';
        const int skip = is_more + is_number;
        fprintf (out, "<th scope=\"col\" class=\"%s%s\">%.*s</th>", is_number ? "n" : "",
                 is_more ? " more" : "", (int) strcspn (head + skip, "|"), head + skip);
    }
    fputs ("</tr></thead>\n<tbody>\n", out);
}

void wm_live_table_end (FILE *out)
{
    fputs ("</tbody>\n</table></div>\n", out);
}

void wm_live_number (FILE *out, const char *class, double value, const char *text)
{
    fprintf (out, "<td class=\"n%s\" data-v=\"%.9g\">%s</td>", class, value, text);
}

const char *wm_live_class (const char *state)
{
    static const char *const classes[][2] = {
        { "running", "good" },  { "busy", "good" },   { "finished", "good" }, { "stopped", "warn" },
        { "no answer", "bad" }, { "refused", "bad" }, { "waiting", "bad" },   { "lost", "bad" },
    };
    static const char *const of_severity[] = { "", "warn", "bad" };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp (state, classes[i][0]) == 0)
            return classes[i][1];
    return of_severity[wm_waits[wm_wait_find (state)].severity];
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void put_gpu (FILE *out, const json_t *worker, const char *class, const char *name,
                     const char *unit)
{
    char text[32];
    const json_t *value = json_object_get (json_object_get (worker, "gpu"), name);
    snprintf (text, sizeof text, "%.0f%s", json_number_value (value), unit);
    wm_live_number (out, class, json_is_number (value) ? json_number_value (value) : -1,
                    json_is_number (value) ? text : "&#8211;");
}

static bool has_gpu (const json_t *workers)
{
    size_t i;
    const json_t *one;
    json_array_foreach (workers, i, one)
    {
        if (json_is_object (json_object_get (one, "gpu")))
            return true;
    }
    return false;
}

static void put_worker (FILE *out, const json_t *worker, bool with_gpu)
{
    char device[160], text[32];
    const char *state = wm_ask_text (worker, "state"), *why = wm_ask_text (worker, "why");
    const double rate = wm_ask_real (worker, "hits_s"), hits = wm_ask_real (worker, "hits"),
                 batches = wm_ask_real (worker, "batches"), runs = wm_ask_real (worker, "running");
    wm_top_device (worker, device);
    fputs ("<tr><th scope=\"row\">", out);
    wm_page_print (out, "%s", wm_ask_text (worker, "label"));
    fputs ("</th><td>", out);
    wm_page_print (out, "%s", device);
    fputs ("</td>", out);
    wm_live_number (out, "", rate, wm_show_short (rate, text));
    if (with_gpu) {
        put_gpu (out, worker, "", "temperature_c", "&nbsp;&deg;C");
        put_gpu (out, worker, " more", "load", "&nbsp;%");
        put_gpu (out, worker, " more", "power_w", "&nbsp;W");
    }
    wm_live_number (out, " more", runs, wm_show_short (runs, text));
    wm_live_number (out, " more", batches, wm_show_short (batches, text));
    wm_live_number (out, " more", hits, wm_show_short (hits, text));
    fputs ("<td>", out);
    wm_page_put (out, *why || *wm_live_class (state) == 'b' ? "span class=\"bad-text\"" : "span",
                 "%s%s%s", state, *why ? ": " : "", why);
    fputs ("</td></tr>\n", out);
}

/* The workers of one machine, which their labels name: HOST:PID.  */
typedef struct {
    const char *name;
    size_t length;
    uint32_t n, n_busy;
    double hits_s, batches, hits;
} host_t;

/* Adds up the workers by host; the caller's, NULL: no memory.  */
static host_t *take_hosts (const json_t *workers, size_t *n)
{
    size_t i, k;
    const json_t *one;
    host_t *host = calloc (json_array_size (workers) + 1, sizeof *host);
    *n = 0;
    json_array_foreach (workers, i, one)
    {
        const char *label = wm_ask_text (one, "label"), *colon = strrchr (label, ':');
        const size_t length = colon ? (size_t) (colon - label) : strlen (label);
        if (!host)
            break;
        for (k = 0; k < *n && (host[k].length != length || strncmp (host[k].name, label, length));)
            k++;
        *n += k == *n;
        host[k].name = label;
        host[k].length = length;
        host[k].n++;
        host[k].n_busy += strcmp (wm_ask_text (one, "state"), "busy") == 0;
        host[k].hits_s += wm_ask_real (one, "hits_s");
        host[k].batches += wm_ask_real (one, "batches");
        host[k].hits += wm_ask_real (one, "hits");
    }
    return host;
}

/* Nothing where each worker is on a host of its own.  */
static void put_hosts (FILE *out, const json_t *workers)
{
    size_t n;
    char text[32];
    host_t *host = take_hosts (workers, &n);
    wm_live_begin (out, "hosts", "Hosts", n < json_array_size (workers));
    wm_live_table (out, "hosts", "short", "Host|#Workers|-#Busy|#Hits/s|-#Batches|#Hits",
                   "the workers above, added up");
    for (size_t k = 0; k < n && n < json_array_size (workers); k++) {
        fputs ("<tr><th scope=\"row\">", out);
        wm_page_print (out, "%.*s", (int) host[k].length, host[k].name);
        fputs ("</th>", out);
        wm_live_number (out, "", host[k].n, wm_show_count (host[k].n, text));
        wm_live_number (out, " more", host[k].n_busy, wm_show_count (host[k].n_busy, text));
        wm_live_number (out, "", host[k].hits_s, wm_show_short (host[k].hits_s, text));
        wm_live_number (out, " more", host[k].batches, wm_show_short (host[k].batches, text));
        wm_live_number (out, "", host[k].hits, wm_show_short (host[k].hits, text));
        fputs ("</tr>\n", out);
    }
    wm_live_table_end (out);
    wm_live_end (out);
    free (host);
}

void wm_live_workers (FILE *out, const json_t *s)
{
    size_t i;
    char n[32], caption[160];
    const json_t *one, *list = json_object_get (s, "workers");
    const int64_t total = wm_ask_int (s, "workers_total"),
                  listed = (int64_t) json_array_size (list);
    wm_live_begin (out, "workers", "Workers", true);
    if (!listed)
        fputs ("<p>No worker is connected.</p>\n", out);
    else {
        if (total > listed)
            snprintf (caption, sizeof caption,
                      "%lld of %s workers: the broker lists those that it sends away first, and no "
                      "more than these",
                      (long long) listed, wm_show_count (total, n));
        else
            snprintf (caption, sizeof caption, "%s worker%s", wm_show_count (total, n),
                      total == 1 ? "" : "s");
        const bool with_gpu = has_gpu (list);
        wm_live_table (
            out, "workers", "sortable",
            with_gpu
                ? "Worker|GPU, engine|#Hits/s|#Temp.|-#Load|-#Power|-#Runs|-#Batches|-#Hits|State"
                : "Worker|Engine|#Hits/s|-#Runs|-#Batches|-#Hits|State",
            caption);
        json_array_foreach (list, i, one)
        {
            put_worker (out, one, with_gpu);
        }
        wm_live_table_end (out);
    }
    wm_live_end (out);
    put_hosts (out, list);
}

static void put_held_row (FILE *out, const json_t *held)
{
    char n[32];
    const char *reason = wm_ask_text (held, "reason"), *path = wm_ask_text (held, "path");
    const size_t length = strlen (path);
    if (length && strncmp (reason, path, length) == 0 && strncmp (reason + length, ": ", 2) == 0)
        reason += length + 2; /* many a reason names its file too */
    fputs ("<tr><th scope=\"row\">", out);
    wm_page_print (out, "%s", path);
    fputs ("</th><td>", out);
    if (json_is_integer (json_object_get (held, "event")))
        wm_page_print (out, "event %lld:%lld:%lld ", (long long) wm_ask_int (held, "run"),
                       (long long) wm_ask_int (held, "subrun"),
                       (long long) wm_ask_int (held, "event"));
    if (json_is_integer (json_object_get (held, "batch")))
        wm_page_print (out, "batch %lld", (long long) wm_ask_int (held, "batch"));
    else
        wm_page_print (out, "%s",
                       strcmp (wm_ask_text (held, "state"), "changed")
                           ? "all of it"
                           : "changed since it was scored");
    fputs ("</td>", out);
    wm_live_number (out, "", wm_ask_real (held, "hits"),
                    wm_show_count (wm_ask_int (held, "hits"), n));
    wm_page_put (out, "td", "%s", *reason ? reason : "no reason given");
    fputs ("</tr>\n", out);
}

void wm_live_held (FILE *out, const json_t *s, const char *base)
{
    size_t i;
    char a[32], b[32], text[64], caption[200];
    const json_t *one, *list = json_object_get (s, "held");
    const size_t n = json_array_size (list);
    int64_t listed = 0; /* hits of the rows */
    const bool any = wm_ask_int (s, "hits.held") || wm_ask_int (s, "held_total");
    wm_live_begin (out, "held", "Held", any);
    if (n) {
        snprintf (caption, sizeof caption,
                  "%s of %s inputs, events and batches; wiremill held lists all, wiremill why "
                  "explains one",
                  wm_show_count ((int64_t) n, a), wm_show_count (wm_ask_int (s, "held_total"), b));
        wm_live_table (out, "held", "", "Input|What|#Hits|Reason", caption);
        json_array_foreach (list, i, one)
        {
            put_held_row (out, one);
            listed += wm_ask_int (one, "hits");
        }
        wm_live_table_end (out);
    }
    if (wm_ask_int (s, "hits.held") > listed)
        wm_page_put (out, "p", "Held one by one: %s; wiremill held lists their files.",
                     wm_show_rows (wm_ask_int (s, "hits.held") - listed, wm_ask_rows (s), text));
    fprintf (out, "<p><a href=\"%s/held\">all that is held, to search and filter</a></p>\n", base);
    wm_live_end (out);
}

void wm_live_said (FILE *out, const json_t *s)
{
    size_t i;
    char ago[32];
    const json_t *one, *list = json_object_get (s, "said");
    wm_live_begin (out, "said", "What the broker logged last", json_array_size (list));
    fputs ("<ol>\n", out);
    json_array_foreach (list, i, one)
    {
        fputs ("<li>", out);
        wm_page_put (out, "span class=\"faint\"", "%s ago",
                     wm_show_time (wm_ask_real (one, "ago_s"), ago));
        wm_page_put (out, "span", "%s", wm_ask_text (one, "text"));
        fputs ("</li>\n", out);
    }
    fputs ("</ol>\n", out);
    wm_live_end (out);
}

/* One of the two is empty where nothing is left, or no producer is there.  */
void wm_live_inputs (FILE *out, const json_t *s)
{
    size_t i;
    char n[32], late[32];
    const json_t *one, *open = json_object_get (s, "open"),
                       *list = json_object_get (s, "producers");
    wm_live_begin (out, "producers", "Producers, and who waits", json_array_size (list));
    wm_live_table (out, "producers", "", "Producer|Input|#Asked|Waits for", "connected producers");
    json_array_foreach (list, i, one)
    {
        wm_page_row (out, "%s", wm_ask_text (one, "label"));
        wm_page_put (out, "td", "%s", wm_ask_text (one, "input"));
        wm_live_number (out, "", wm_ask_real (one, "asked"),
                        wm_show_count (wm_ask_int (one, "asked"), n));
        if (json_is_number (json_object_get (one, "late_s")))
            wm_page_put (out, "td class=\"bad-text\"",
                         "does not answer: for %s it has sent nothing that the broker asked for",
                         wm_show_time (wm_ask_real (one, "late_s"), late));
        else
            wm_page_put (out, "td", "%s", wm_ask_text (one, "waits"));
        fputs ("</tr>\n", out);
    }
    wm_live_table_end (out);
    wm_live_end (out);
    wm_live_begin (out, "open", "Open inputs", json_array_size (open));
    snprintf (n, sizeof n, "%zu of %lld", json_array_size (open),
              (long long) wm_ask_int (s, "inputs.open"));
    wm_live_table (out, "open", "", "Input|Output|#Hits done or held|Note", n);
    json_array_foreach (open, i, one)
    {
        wm_page_row (out, "%s", wm_ask_text (one, "path"));
        wm_page_put (out, "td", "%s", wm_ask_text (one, "output"));
        wm_live_number (out, "", wm_ask_real (one, "hits"),
                        wm_show_count (wm_ask_int (one, "hits"), late));
        wm_page_put (out, "td", "%s", wm_ask_text (one, "why"));
        fputs ("</tr>\n", out);
    }
    wm_live_table_end (out);
    wm_live_end (out);
}

/* ---- latencies and faults -------------------------------------------------------------------- */

static void put_below (FILE *out, const wm_history_query_latency_t *latency, double share)
{
    char text[48];
    const double at_s = wm_history_query_quantile (latency, share);
    wm_live_number (out, "", isinf (at_s) ? 1e6 : at_s,
                    wm_history_query_quantile_text (latency, share, text));
}

void wm_live_latencies (FILE *out, const wm_history_query_t *past)
{
    char n[32], mean[48];
    wm_history_query_row_t sum;
    wm_history_query_sum (past, (double) time (NULL) - HOUR_S, &sum);
    const bool is_recent = sum.step[WM_HISTORY_QUERY_COMPUTE].n > 0;
    if (!is_recent)
        wm_history_query_sum (past, 0, &sum);
    wm_live_begin (out, "latency", "Latency", sum.step[WM_HISTORY_QUERY_COMPUTE].n > 0);
    wm_live_table (out, "latency", "short", "Step of a batch|-#Batches|#Mean|#Half are|#95 % are",
                   is_recent ? "the last hour" : "all of the campaign; nothing in the last hour");
    for (size_t i = 0; i < WM_HISTORY_QUERY_STEPS; i++) {
        const wm_history_query_latency_t *latency = &sum.step[i];
        fprintf (out, "<tr><th scope=\"row\">%s<span class=\"more\">: %s</span></th>",
                 wm_history_query_step[i].name, wm_history_query_step[i].what);
        wm_live_number (out, " more", latency->n, wm_show_count ((int64_t) latency->n, n));
        wm_live_number (out, "", latency->n > 0 ? latency->sum_s / latency->n : 0,
                        wm_history_query_mean_text (latency, mean));
        put_below (out, latency, 0.5);
        put_below (out, latency, 0.95);
        fputs ("</tr>\n", out);
    }
    wm_live_table_end (out);
    wm_live_end (out);
}

void wm_live_faults (FILE *out, const json_t *s, const wm_history_query_t *past)
{
    char n[32];
    wm_history_query_row_t sum, all;
    wm_history_query_sum (past, (double) time (NULL) - HOUR_S, &sum);
    wm_history_query_sum (past, 0, &all);
    wm_live_begin (out, "faults", "Faults", true);
    wm_live_table (out, "faults", "short", "What|#Last hour|#In all",
                   "nothing is lost by these: what failed is scored again, or held");
    for (size_t i = 0; i < WM_HISTORY_QUERY_FAULTS; i++) {
        const char *path = wm_history_query_fault[i].path;
        const double recent = wm_history_query_fault_of (&sum, i),
                     ever =
                         past->n_row ? wm_history_query_fault_of (&all, i) : wm_ask_real (s, path);
        fprintf (out, "<tr><th scope=\"row\">%s</th>", wm_history_query_fault[i].what);
        wm_live_number (out, "", recent, wm_show_count ((int64_t) recent, n));
        wm_live_number (out, "", ever, wm_show_count ((int64_t) ever, n));
        fputs ("</tr>\n", out);
    }
    wm_live_table_end (out);
    wm_live_end (out);
}
