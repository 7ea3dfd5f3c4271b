/* wm_live.c - see wm_live.h. Sections are always there, empty ones hidden: so the script finds each
   at its place. What changes with each answer is not in the live region (#state), or readers of
   screens would hear it every few seconds.  */
#include "ops/serve/wm_live.h"
#include "ops/serve/wm_past.h"
#include "ops/wm_account.h"
#include "ops/wm_ask.h"
#include "ops/wm_show.h"
#include "schema/base/wm_page.h"

#include <assert.h>
#include <math.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HOUR_S 3600
#define PARTS 180 /* of a graph */

static const char style[] = "\n"
#include "page.css.inc"
    ;
static const char script[] = "\n"
#include "page.js.inc"
    ;

/* ---- policy ---------------------------------------------------------------------------------- */

static void print_hash (FILE *out, const char *text)
{
    uint8_t hash[crypto_hash_sha256_BYTES];
    char base64[64];
    crypto_hash_sha256 (hash, (const uint8_t *) text, strlen (text));
    sodium_bin2base64 (base64, sizeof base64, hash, sizeof hash, sodium_base64_VARIANT_ORIGINAL);
    fprintf (out, "'sha256-%s'", base64);
}

const char *wm_live_policy (void)
{
    static char policy[400];
    if (*policy)
        return policy;
    FILE *out = fmemopen (policy, sizeof policy, "w");
    assert (out);
    fputs ("default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
           "form-action 'none'; frame-ancestors 'none'; style-src ",
           out);
    print_hash (out, style);
    fputs ("; script-src ", out);
    print_hash (out, script);
    fclose (out);
    return policy;
}

/* ---- elements -------------------------------------------------------------------------------- */

/* A section, hidden where there is nothing to show.  */
static void begin (FILE *out, const char *id, const char *heading, bool is_shown)
{
    fprintf (out, "<section aria-labelledby=\"%s-h\"%s>\n<h2 id=\"%s-h\">%s</h2>\n", id,
             is_shown ? "" : " hidden", id, heading);
}

static void end (FILE *out)
{
    fputs ("</section>\n", out);
}

/* Heads are separated by "|"; "#" begins one of numbers, "-" one that a narrow screen leaves out. A
   table that is too wide scrolls, also by keys.  */
static void begin_table (FILE *out, const char *id, const char *class, const char *heads,
                         const char *caption)
{
    fprintf (out,
             "<div class=\"table\" role=\"region\" aria-labelledby=\"%s-h\" tabindex=\"0\">"
             "<table class=\"%s\">\n",
             id, class);
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

static void end_table (FILE *out)
{
    fputs ("</tbody>\n</table></div>\n", out);
}

/* A cell with a number, by which its column is sorted.  */
static void put_number (FILE *out, const char *class, double value, const char *text)
{
    fprintf (out, "<td class=\"n%s\" data-v=\"%.9g\">%s</td>", class, value, text);
}

static void put_fact (FILE *out, const char *name, const char *class, const char *value,
                      const char *more)
{
    fprintf (out, "<div><dt>%s</dt><dd><b class=\"%s\">", name, class);
    wm_page_print (out, "%s", value);
    fputs ("</b> ", out);
    wm_page_print (out, "%s", more);
    fputs ("</dd></div>\n", out);
}

/* ---- state and progress ---------------------------------------------------------------------- */

static const char *class_of (const char *state)
{
    static const char *const classes[][2] = {
        { "running", "good" },  { "busy", "good" },    { "finished", "good" }, { "paused", "warn" },
        { "draining", "warn" }, { "stopped", "warn" }, { "no answer", "bad" }, { "refused", "bad" },
        { "disk full", "bad" }, { "lost", "bad" },
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp (state, classes[i][0]) == 0)
            return classes[i][1];
    return "";
}

static void put_state (FILE *out, const wm_top_campaign_t *campaign, const char *state)
{
    const json_t *s = campaign->status;
    const char *waiting = wm_ask_text (s, "waiting_for"), *paused = wm_ask_text (s, "paused");
    const bool is_away = strcmp (state, "no answer") == 0,
               is_here = s && *wm_ask_text (s, "endpoint");
    char text[32];
    fprintf (out, "<div id=\"state\" class=\"state %s\" role=\"status\"><strong>%s</strong> ",
             class_of (state), state);
    if (is_away)
        fputs ("the broker does not answer; what follows is old", out);
    else if (*paused && is_here)
        wm_page_print (out, "%s", paused);
    else if (*waiting && is_here && strcmp (waiting, state) != 0)
        wm_page_print (out, "waiting for: %s", waiting);
    else if (s && !is_here)
        fputs ("no broker runs; what follows is what the campaign has on disk", out);
    fputs ("</div>\n<p class=\"faint\">", out);
    if (*campaign->note)
        wm_page_print (out, "%s. ", campaign->note);
    if (s)
        wm_page_print (out, is_here ? "The broker answered %s ago." : "Read %s ago.",
                       wm_show_time (campaign->age_s, text));
    fputs ("</p>\n", out);
}

static void put_progress (FILE *out, const json_t *s)
{
    char text[32];
    const double share = wm_account_share (s);
    if (share < 0)
        fputs ("<p>How much there is to score is not known yet.</p>\n", out);
    else
        fprintf (out,
                 "<p><label for=\"bar\">%.1f %% of the hits are scored or held</label>"
                 "<progress id=\"bar\" max=\"1\" value=\"%.4f\"></progress></p>\n",
                 share < 1 && share > 0.999 ? 99.9 : 100 * share, share);
    const double eta_s = wm_ask_real (s, "eta_s");
    fprintf (out, "<p>Time left: <b>%s</b></p>\n",
             eta_s > 0 && *wm_ask_text (s, "endpoint") ? wm_show_time (eta_s, text)
             : wm_ask_int (s, "inputs.open")           ? "not known"
                                                       : "nothing is left");
}

static void put_facts (FILE *out, const json_t *s)
{
    char a[32], b[32], c[32], more[160];
    const int64_t held = wm_ask_int (s, "hits.held"), alarms = wm_ask_int (s, "counters.alarm"),
                  rows = wm_ask_int (s, "held_total");
    fputs ("<dl>\n", out);
    snprintf (more, sizeof more, "%s events/s",
              wm_show_short (wm_ask_real (s, "rate.events_s"), a));
    snprintf (c, sizeof c, "%.24s hits/s", wm_show_short (wm_ask_real (s, "rate.hits_s"), b));
    put_fact (out, "Rate", "", c, more);
    snprintf (more, sizeof more, "of %s announced",
              wm_show_count (wm_ask_int (s, "hits.announced"), a));
    put_fact (out, "Hits scored", "", wm_show_count (wm_ask_int (s, "hits.done"), b), more);
    snprintf (more, sizeof more, "hits; %s inputs and batches need a person",
              wm_show_count (rows, a));
    put_fact (out, "Held", held || rows ? "bad-text" : "", wm_show_count (held, b), more);
    put_fact (out, "Alarms", alarms ? "bad-text" : "", wm_show_count (alarms, a), "");
    snprintf (more, sizeof more, "%s busy, %s idle",
              wm_show_count (wm_ask_int (s, "workers_by_state.busy"), a),
              wm_show_count (wm_ask_int (s, "workers_by_state.idle"), b));
    put_fact (out, "Workers", "", wm_show_count (wm_ask_int (s, "workers_total"), c), more);
    snprintf (more, sizeof more, "of %s done",
              wm_show_count (wm_ask_int (s, "events.announced"), a));
    put_fact (out, "Events", "", wm_show_count (wm_ask_int (s, "events.done"), b), more);
    if (strcmp (wm_ask_text (s, "campaign.serves"), "clients") == 0)
        put_fact (out, "Clients", "", wm_show_count (wm_ask_int (s, "inputs.open"), a),
                  "connected");
    else {
        snprintf (more, sizeof more, "of %s written, %s held, %s changed",
                  wm_show_count (wm_ask_int (s, "inputs.total"), a),
                  wm_show_count (wm_ask_int (s, "inputs.held"), b),
                  wm_show_count (wm_ask_int (s, "inputs.changed"), c));
        char written[32];
        put_fact (out, "Inputs", "", wm_show_count (wm_ask_int (s, "inputs.written"), written),
                  more);
    }
    snprintf (more, sizeof more, "run; %s queued, %s asked of producers",
              wm_show_count (wm_ask_int (s, "batches.queued"), a),
              wm_show_count (wm_ask_int (s, "batches.asked"), b));
    put_fact (out, "Batches", "", wm_show_count (wm_ask_int (s, "batches.running"), c), more);
    fputs ("</dl>\n", out);
}

/* Machines whose scores were wrong, and checks; as `wiremill status` prints them.  */
static void put_checks (FILE *out, const json_t *s)
{
    char *text = NULL, *rest = NULL;
    size_t bytes;
    FILE *lines = open_memstream (&text, &bytes);
    assert (lines);
    wm_account_checks (lines, s, "checked: ");
    fclose (lines);
    begin (out, "checks", "Checks by a second machine", *text);
    for (const char *line = strtok_r (text, "\n", &rest); line; line = strtok_r (NULL, "\n", &rest))
        wm_page_put (out,
                     strncmp (line, "WRONG", 5) && strncmp (line, "SCORES", 6)
                         ? "p"
                         : "p class=\"bad-text\"",
                     "%s", line);
    end (out);
    free (text);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Steps over n parts, the latest last; parts that are not known (below 0) stay empty.  */
static void put_graph (FILE *out, const char *id, const char *title, const char *from,
                       const char *to, const float *rate, int n)
{
    float most = 0;
    double sum = 0;
    int known = 0;
    char a[32], b[32];
    for (int i = 0; i < n; i++) {
        most = rate[i] > most ? rate[i] : most;
        sum += rate[i] > 0 ? (double) rate[i] : 0;
        known += rate[i] >= 0;
    }
    fprintf (out,
             "<figure id=\"%s\">\n<div class=\"plot\"><svg role=\"img\" aria-label=\"%s\" "
             "viewBox=\"0 0 %d 100\" preserveAspectRatio=\"none\"><path d=\"",
             id, title, n);
    for (int i = 0; i < n; i++)
        if (rate[i] > 0)
            fprintf (out, "M%d 100V%.1fh1V100z", i, 100 - 92 * (double) (rate[i] / most));
    fprintf (out,
             "\"/></svg><span>%s hits/s</span></div>\n"
             "<div class=\"ends\"><span>%s</span><span>%s</span></div>\n<figcaption>%s: ",
             wm_show_short ((double) most / 0.92, a), from, to, title);
    if (known)
        fprintf (out, "most %s, on average %s%s", wm_show_short ((double) most, a),
                 wm_show_short (sum / known, b),
                 known < n ? "; where it is flat nothing was scored, or measured" : "");
    else
        fputs ("nothing is measured yet", out);
    fputs ("</figcaption>\n</figure>\n", out);
}

static const char *date_of (double time_s, char text[32])
{
    struct tm local;
    const time_t whole = (time_t) time_s;
    if (!localtime_r (&whole, &local) || !strftime (text, 32, "%b %d %H:%M", &local))
        *text = 0;
    return text;
}

static void put_graphs (FILE *out, const wm_top_campaign_t *campaign, const json_t *history)
{
    char from[32];
    float rate[PARTS];
    const double now_s = (double) time (NULL), begin_s = wm_past_begin (history);
    begin (out, "rate", "Rate", true);
    fputs ("<div class=\"graphs\">\n", out);
    put_graph (out, "minutes", "Hits per second, last 15 minutes", "15 minutes ago", "now",
               campaign->rate, WM_TOP_BUCKETS);
    if (begin_s > 0) {
        wm_past_rate (history, begin_s, now_s, rate, PARTS);
        put_graph (out, "hours", "Hits per second, since the campaign began",
                   date_of (begin_s, from), "now", rate, PARTS);
    }
    fputs ("</div>\n", out);
    end (out);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void put_gpu (FILE *out, const json_t *worker, const char *class, const char *name,
                     const char *unit)
{
    char text[32];
    const json_t *value = json_object_get (json_object_get (worker, "gpu"), name);
    snprintf (text, sizeof text, "%.0f%s", json_number_value (value), unit);
    put_number (out, class, json_is_number (value) ? json_number_value (value) : -1,
                json_is_number (value) ? text : "&#8211;");
}

static void put_worker (FILE *out, const json_t *worker)
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
    put_number (out, "", rate, wm_show_short (rate, text));
    put_gpu (out, worker, "", "temperature_c", "&nbsp;&deg;C");
    put_gpu (out, worker, " more", "load", "&nbsp;%");
    put_gpu (out, worker, " more", "power_w", "&nbsp;W");
    put_number (out, "", runs, wm_show_short (runs, text));
    put_number (out, " more", batches, wm_show_short (batches, text));
    put_number (out, " more", hits, wm_show_short (hits, text));
    fputs ("<td>", out);
    wm_page_put (out, *why || *class_of (state) == 'b' ? "span class=\"bad-text\"" : "span",
                 "%s%s%s", state, *why ? ": " : "", why);
    fputs ("</td></tr>\n", out);
}

static void put_workers (FILE *out, const json_t *s)
{
    size_t i;
    char n[32], caption[160];
    const json_t *one, *list = json_object_get (s, "workers");
    const int64_t total = wm_ask_int (s, "workers_total"),
                  listed = (int64_t) json_array_size (list);
    begin (out, "workers", "Workers", true);
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
        begin_table (
            out, "workers", "sortable",
            "Worker|GPU, engine|#Hits/s|#Temp.|-#Load|-#Power|#Runs|-#Batches|-#Hits|State",
            caption);
        json_array_foreach (list, i, one)
        {
            put_worker (out, one);
        }
        end_table (out);
    }
    end (out);
}

static void put_held_row (FILE *out, const json_t *held)
{
    char n[32];
    const char *reason = wm_ask_text (held, "reason");
    fputs ("<tr><th scope=\"row\">", out);
    wm_page_print (out, "%s", wm_ask_text (held, "path"));
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
    put_number (out, "", wm_ask_real (held, "hits"), wm_show_count (wm_ask_int (held, "hits"), n));
    wm_page_put (out, "td", "%s", *reason ? reason : "no reason given");
    fputs ("</tr>\n", out);
}

static void put_held (FILE *out, const json_t *s)
{
    size_t i;
    char a[32], b[32], caption[200];
    const json_t *one, *list = json_object_get (s, "held");
    const size_t n = json_array_size (list);
    const bool any = wm_ask_int (s, "hits.held") || wm_ask_int (s, "held_total");
    begin (out, "held", "Held", any);
    if (n) {
        snprintf (caption, sizeof caption,
                  "%s of %s; wiremill held lists all, wiremill why explains one",
                  wm_show_count ((int64_t) n, a), wm_show_count (wm_ask_int (s, "held_total"), b));
        begin_table (out, "held", "", "Input|What|#Hits|Reason", caption);
        json_array_foreach (list, i, one)
        {
            put_held_row (out, one);
        }
        end_table (out);
    } else if (any)
        fputs ("<p>Single hits only: wiremill held lists their files.</p>\n", out);
    end (out);
}

static void put_said (FILE *out, const json_t *s)
{
    size_t i;
    char ago[32];
    const json_t *one, *list = json_object_get (s, "said");
    begin (out, "said", "What the broker logged last", json_array_size (list));
    fputs ("<ol>\n", out);
    json_array_foreach (list, i, one)
    {
        fputs ("<li>", out);
        wm_page_put (out, "span class=\"faint\"", "%s ago",
                     wm_show_time (wm_ask_real (one, "ago_s"), ago));
        wm_page_print (out, "%s", wm_ask_text (one, "text"));
        fputs ("</li>\n", out);
    }
    fputs ("</ol>\n", out);
    end (out);
}

/* One of the two is empty where nothing is left, or no producer is there.  */
static void put_inputs (FILE *out, const json_t *s)
{
    size_t i;
    char n[32], late[32];
    const json_t *one, *open = json_object_get (s, "open"),
                       *list = json_object_get (s, "producers");
    begin (out, "producers", "Producers, and who waits", json_array_size (list));
    begin_table (out, "producers", "", "Producer|Input|#Asked|Waits for", "connected producers");
    json_array_foreach (list, i, one)
    {
        fputs ("<tr>", out);
        wm_page_put (out, "th scope=\"row\"", "%s", wm_ask_text (one, "label"));
        wm_page_put (out, "td", "%s", wm_ask_text (one, "input"));
        put_number (out, "", wm_ask_real (one, "asked"),
                    wm_show_count (wm_ask_int (one, "asked"), n));
        if (json_is_number (json_object_get (one, "late_s")))
            wm_page_put (out, "td class=\"bad-text\"",
                         "does not answer: for %s it has sent nothing that the broker asked for",
                         wm_show_time (wm_ask_real (one, "late_s"), late));
        else
            wm_page_put (out, "td", "%s", wm_ask_text (one, "waits"));
        fputs ("</tr>\n", out);
    }
    end_table (out);
    end (out);
    begin (out, "open", "Open inputs", json_array_size (open));
    snprintf (n, sizeof n, "%zu of %lld", json_array_size (open),
              (long long) wm_ask_int (s, "inputs.open"));
    begin_table (out, "open", "", "Input|Output|#Hits done|Note", n);
    json_array_foreach (open, i, one)
    {
        fputs ("<tr>", out);
        wm_page_put (out, "th scope=\"row\"", "%s", wm_ask_text (one, "path"));
        wm_page_put (out, "td", "%s", wm_ask_text (one, "output"));
        put_number (out, "", wm_ask_real (one, "hits"),
                    wm_show_count (wm_ask_int (one, "hits"), late));
        wm_page_put (out, "td", "%s", wm_ask_text (one, "why"));
        fputs ("</tr>\n", out);
    }
    end_table (out);
    end (out);
}

/* ---- latencies and faults -------------------------------------------------------------------- */

static void put_below (FILE *out, const wm_past_latency_t *latency, double share)
{
    char text[48], time[32];
    const double ms = wm_past_below_ms (latency, share);
    if (!(latency->count > 0))
        snprintf (text, sizeof text, "&#8211;");
    else if (ms >= 1000 || !(ms > 0))
        snprintf (text, sizeof text, "%s %s", ms > 0 ? "below" : "above",
                  wm_show_time (ms > 0 ? ms / 1e3 : 16.384, time));
    else
        snprintf (text, sizeof text, "below %.0f ms", ms);
    put_number (out, "", ms > 0 ? ms : 1e6, text);
}

static void put_latencies (FILE *out, const json_t *history)
{
    static const char *const steps[][2] = {
        { "stage", "asked of the producer until it is at the broker" },
        { "queue", "at the broker until it is sent to a worker" },
        { "compute", "sent until its result is back, with the network and the worker's own queue" },
        { "commit", "result here until it is safe on disk" },
    };
    char n[32], mean[32];
    wm_past_latency_t latency;
    double from_s = (double) time (NULL) - HOUR_S;
    const bool is_recent = wm_past_sum (history, "batches", from_s) > 0;
    from_s = is_recent ? from_s : 0;
    begin (out, "latency", "Latency", wm_past_sum (history, "batches", from_s) > 0);
    begin_table (out, "latency", "short", "Step of a batch|#Batches|#Mean|#Half are|#95 % are",
                 is_recent ? "the last hour" : "all of the campaign; nothing in the last hour");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        wm_past_latency (history, steps[i][0], from_s, &latency);
        const double mean_s = latency.count > 0 ? latency.sum_s / latency.count : 0;
        fprintf (out, "<tr><th scope=\"row\">%s: %s</th>", steps[i][0], steps[i][1]);
        put_number (out, "", latency.count, wm_show_count ((int64_t) latency.count, n));
        if (mean_s < 1)
            snprintf (mean, sizeof mean, "%.1f ms", 1e3 * mean_s);
        put_number (out, "", mean_s, mean_s < 1 ? mean : wm_show_time (mean_s, mean));
        put_below (out, &latency, 0.5);
        put_below (out, &latency, 0.95);
        fputs ("</tr>\n", out);
    }
    end_table (out);
    end (out);
}

static void put_faults (FILE *out, const json_t *s, const json_t *history)
{
    static const struct {
        const char *name, *path, *column;
    } faults[] = {
        { "batches that failed on a worker", "counters.n_fail", "fail" },
        { "batches whose worker was lost", "counters.n_lost", "lost" },
        { "batches that a worker gave back when it left", "counters.n_preempt", "preempt" },
        { "batches given to a second worker near the end", "counters.copies", "copies" },
        { "results that came twice", "counters.duplicate", "duplicate" },
        { "results that came after their lease", "counters.late", "late" },
        { "batches that a worker itself scored a second time", "counters.again", "again" },
        { "alarms: results of one engine that differ", "counters.alarm", "alarm" },
    };
    char n[32];
    const double from_s = (double) time (NULL) - HOUR_S;
    begin (out, "faults", "Faults", true);
    begin_table (out, "faults", "short", history ? "What|#Last hour|#In all" : "What|#In all",
                 "nothing is lost by these: what failed is scored again, or held");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const double recent = wm_past_sum (history, faults[i].column, from_s);
        fprintf (out, "<tr><th scope=\"row\">%s</th>", faults[i].name);
        if (history)
            put_number (out, "", recent, wm_show_count ((int64_t) recent, n));
        put_number (out, "", wm_ask_real (s, faults[i].path),
                    wm_show_count (wm_ask_int (s, faults[i].path), n));
        fputs ("</tr>\n", out);
    }
    end_table (out);
    end (out);
}

static void put_about (FILE *out, const json_t *s)
{
    char up[32], a[32], b[32];
    begin (out, "about", "Campaign", true);
    wm_page_put (out, "p", "Folder %s, output %s, id %s.", wm_ask_text (s, "dir"),
                 wm_ask_text (s, "campaign.output"), wm_ask_text (s, "campaign.id"));
    wm_page_put (out, "p", "Model %s, precision %s.", wm_ask_text (s, "campaign.model"),
                 wm_ask_text (s, "campaign.precision"));
    if (*wm_ask_text (s, "endpoint"))
        wm_page_put (out, "p", "Broker %s, version %s, up %s.", wm_ask_text (s, "endpoint"),
                     wm_ask_text (s, "version"), wm_show_time (wm_ask_real (s, "up_s"), up));
    wm_page_put (out, "p", "Received %s of hits, sent %s to workers; journal %s.",
                 wm_show_bytes (wm_ask_real (s, "bytes.payload_in"), a),
                 wm_show_bytes (wm_ask_real (s, "bytes.task_out"), b),
                 wm_show_bytes (wm_ask_real (s, "bytes.journal"), up));
    end (out);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void put_head (FILE *out, const char *name, const wm_top_campaign_t *campaign,
                      double every_s)
{
    const double share = wm_account_share (campaign->status);
    fputs ("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
           out);
    wm_page_print (out, "%s: %s", name, wm_top_state (campaign));
    if (campaign->status && share >= 0)
        wm_page_print (out, ", %d %%", (int) (100 * share));
    fprintf (out,
             "</title>\n<link rel=\"icon\" href=\"data:,\">\n"
             "<noscript><meta http-equiv=\"refresh\" content=\"%.0f\"></noscript>\n"
             "<style>%s</style>\n</head>\n<body data-every=\"%g\">\n"
             "<a class=\"skip\" href=\"#main\">Skip to the state</a>\n<header>\n",
             ceil (every_s), style, every_s);
    wm_page_put (out, "h1", "%s", name);
    fputs ("<nav aria-label=\"Sections\"><a href=\"#rate-h\">rate</a> "
           "<a href=\"#workers-h\">workers</a> <a href=\"#faults-h\">faults</a> "
           "<a href=\"#about-h\">campaign</a></nav>\n"
           "<p id=\"contact\" role=\"status\"></p>\n</header>\n"
           "<main id=\"main\" tabindex=\"-1\">\n",
           out);
}

char *wm_live_page (const wm_top_campaign_t *campaign, const json_t *history, double every_s,
                    size_t *bytes)
{
    char name[64], *text = NULL;
    const json_t *s = campaign->status;
    FILE *out = open_memstream (&text, bytes);
    assert (out);
    if (s)
        wm_account_name (s, name);
    else
        snprintf (name, sizeof name, "wiremill");
    put_head (out, name, campaign, every_s);
    put_state (out, campaign, wm_top_state (campaign));
    if (s) {
        put_progress (out, s);
        put_facts (out, s);
        put_checks (out, s);
        put_graphs (out, campaign, history);
        put_workers (out, s);
        put_held (out, s);
        put_said (out, s);
        put_inputs (out, s);
        put_latencies (out, history);
        put_faults (out, s, history);
        put_about (out, s);
    }
    fprintf (out,
             "</main>\n<footer><p><a href=\"/status.json\">status.json</a> "
             "<a href=\"/metrics\">metrics</a>. The page only reads; wiremill top changes.</p>"
             "</footer>\n<script>%s</script>\n</body>\n</html>\n",
             script);
    fclose (out);
    assert (text);
    return text;
}
