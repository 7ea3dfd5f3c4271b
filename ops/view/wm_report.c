/* wm_report.c - the page of `wiremill report`: how the campaign is, what was scored, what is held,
   what it cost, and where all of it comes from. What has a time is in wm_report_time.c and
   wm_report_workers.c.  */
#include "ops/view/wm_report_private.h"

#include "ops/ask/wm_account.h"
#include "ops/ask/wm_arithmetic.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/process/wm_command.h"
#include "ops/view/wm_top.h"
#include "ops/view/wm_waits.h"
#include "schema/page/wm_page.h"
#include "schema/wm_limits.h"

#include <stdlib.h>
#include <string.h>

#define HELD_LISTED 50 /* inputs, events and batches; and files with held hits */
#define REASONS_MAX 64

const char *wm_report_date (double unix_s, char text[32])
{
    struct tm utc;
    const time_t seconds = (time_t) unix_s;
    if (!gmtime_r (&seconds, &utc) || !strftime (text, 32, "%Y-%m-%d %H:%M:%S UTC", &utc))
        snprintf (text, 32, "?");
    return text;
}

const char *wm_report_rows (const json_t *status, char text[32])
{
    snprintf (text, 32, "%.31s", wm_ask_rows (status));
    *text = (char) (*text >= 'a' && *text <= 'z' ? *text - 'a' + 'A' : *text);
    return text;
}

static void put_row (FILE *out, const char *name, const char *value)
{
    fputs ("<tr>", out);
    wm_page_put (out, "th scope=\"row\"", "%s", name);
    wm_page_put (out, "td", "%s", *value ? value : "-");
    fputs ("</tr>\n", out);
}

/* What a function prints for a terminal, a paragraph for each line.  */
static void put_lines (FILE *out, void (*print) (FILE *to, const json_t *status, const char *head),
                       const json_t *status, const char *head)
{
    char *text = NULL, *line, *rest;
    size_t bytes = 0;
    FILE *memory = open_memstream (&text, &bytes);
    if (!memory)
        return;
    print (memory, status, head);
    fclose (memory);
    for (line = strtok_r (text, "\n", &rest); line; line = strtok_r (NULL, "\n", &rest))
        wm_page_put (out, "p", "%s", line);
    free (text);
}

/* ---- how it is ------------------------------------------------------------------------------- */

static void write_progress (const json_t *s, FILE *out)
{
    char done[64], all[32], eta[32];
    const double share = wm_account_share (s);
    if (wm_ask_serves_clients (s)) {
        wm_page_print (out,
                       "It serves programs that wait for scores, %s of them now. It has scored %s, "
                       "and keeps nothing of them.",
                       wm_page_count (wm_ask_int (s, "inputs.open"), all),
                       wm_show_rows (wm_ask_int (s, "hits.done"), wm_ask_rows (s), done));
        return;
    }
    if (!wm_ask_int (s, "inputs.total")) {
        wm_page_print (out, "No input has been announced yet.");
        return;
    }
    wm_page_print (out, "%s of %s inputs are written",
                   wm_page_count (wm_ask_int (s, "inputs.written"), done),
                   wm_page_count (wm_ask_int (s, "inputs.total"), all));
    if (share >= 0 && wm_ask_int (s, "inputs.open"))
        wm_page_print (out, ", %.1f %% of the %s that are known are scored", wm_account_percent (s),
                       wm_ask_rows (s));
    if (wm_ask_real (s, "eta_s") > 0)
        wm_page_print (out, "; it takes about %s more",
                       wm_show_time (wm_ask_real (s, "eta_s"), eta));
    fputs (". ", out);
}

/* All that waits, and what to do.  */
static void write_waits (const json_t *s, FILE *out)
{
    char text[WM_WAITS_TEXT_BYTES];
    json_t *list = wm_waits_of (s);
    for (size_t i = 0; i < json_array_size (list); i++)
        wm_page_print (out, "Waits: %s. ", wm_waits_text (json_array_get (list, i), true, text));
    json_decref (list);
}

static void write_verdict (const wm_report_t *self, FILE *out)
{
    const json_t *s = self->status;
    char text[64];
    const char *state = wm_top_state (&(wm_top_campaign_t){ .status = (json_t *) (uintptr_t) s }),
               *paused = wm_ask_text (s, "paused"), *waiting = wm_ask_text (s, "waiting_for");
    const bool is_clean = wm_account_is_clean (s), is_running = *wm_ask_text (s, "endpoint"),
               is_finished = !strcmp (state, "finished"),
               is_bad =
                   wm_ask_int (s, "counters.alarm") > 0 || wm_wait_stops (wm_waits_campaign (s));
    fprintf (out, "<p class=\"verdict %s\"><strong>",
             is_bad                    ? "bad"
             : is_finished && is_clean ? "good"
                                       : "");
    wm_page_print (out, "%c%s.", *state >= 'a' && *state <= 'z' ? *state - 'a' + 'A' : *state,
                   *state ? state + 1 : "");
    fputs ("</strong> ", out);
    write_progress (s, out);
    if (*paused)
        wm_page_print (out, "Paused: %s. ", paused);
    else if (is_running && *waiting && !is_finished)
        wm_page_print (out, "It waits for: %s. ", waiting);
    if (is_running)
        write_waits (s, out);
    if (!is_running && wm_ask_int (s, "inputs.open") && !wm_ask_serves_clients (s))
        wm_page_print (out, "No broker runs; what is done is kept. ");
    if (is_clean && is_finished)
        wm_page_print (out, "Nothing is held.");
    if (wm_ask_int (s, "held_total"))
        wm_page_print (out, "Inputs, events or batches that are held or changed: %s. ",
                       wm_page_count (wm_ask_int (s, "held_total"), text));
    if (wm_ask_int (s, "hits.held"))
        wm_page_print (out, "Held: %s. ",
                       wm_show_rows (wm_ask_int (s, "hits.held"), wm_ask_rows (s), text));
    if (wm_ask_int (s, "counters.alarm"))
        wm_page_print (out, "ALARMS: %s. ", wm_page_count (wm_ask_int (s, "counters.alarm"), text));
    fputs ("</p>\n", out);
    wm_page_put (out, "p", "As of %s%s.", wm_report_date ((double) self->now_s, text),
                 is_running ? ", while a broker serves the campaign" : "");
    if (self->note && *self->note)
        wm_page_put (out, "p", "%s", self->note);
}

/* ---- what was scored ------------------------------------------------------------------------- */

static void write_inputs (const json_t *s, FILE *out)
{
    char n[32], text[400];
    static const struct {
        const char *path, *what;
    } parts[] = { { "inputs.written", "written" },
                  { "inputs.open", "open" },
                  { "inputs.held", "held" },
                  { "inputs.changed", "changed" } };
    int at = snprintf (text, sizeof text, "%s:", wm_page_count (wm_ask_int (s, "inputs.total"), n));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        at += snprintf (text + at, sizeof text - (size_t) at, "%s %s %s", i ? "," : "",
                        wm_page_count (wm_ask_int (s, parts[i].path), n), parts[i].what);
    put_row (out, "Inputs", text);
    put_row (out, "Events", wm_page_count (wm_ask_int (s, "events.done"), n));
}

static void write_hits (const json_t *s, FILE *out)
{
    char *text = NULL, heading[32];
    size_t bytes = 0;
    FILE *memory = open_memstream (&text, &bytes);
    if (!memory)
        return;
    wm_report_rows (s, heading);
    wm_account_hits (memory, s);
    fclose (memory);
    put_row (out, heading, text);
    free (text);
}

static void write_engines (const json_t *s, FILE *out)
{
    const char *signature;
    json_t *count;
    char n[32], rows[32];
    if (!json_object_size (json_object_get (s, "rows")))
        return;
    wm_page_table (out, "Engines: instruction set, precision and version that made the scores");
    fprintf (out, "<tr><th scope=\"col\">Engine</th><th scope=\"col\" class=\"n\">%s</th></tr>\n",
             wm_report_rows (s, rows));
    json_object_foreach (json_object_get (s, "rows"), signature, count)
    {
        fputs ("<tr>", out);
        wm_page_put (out, "th scope=\"row\"", "%s", signature);
        wm_page_put (out, "td class=\"n\"", "%s", wm_page_count (json_integer_value (count), n));
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
}

/* Every key of the patch specification.  */
static void write_specification (const json_t *s, FILE *out)
{
    char *text = strdup (wm_ask_text (s, "campaign.specification")), *line, *rest = NULL;
    if (!text || !*text) {
        free (text);
        return;
    }
    fputs ("<h3>Patch specification</h3>\n<pre class=\"columns\">", out);
    for (line = strtok_r (text, "\n", &rest); line; line = strtok_r (NULL, "\n", &rest)) {
        fputs ("<span>", out);
        wm_page_print (out, "%s", line);
        fputs ("\n</span>", out);
    }
    fputs ("</pre>\n", out);
    free (text);
}

static void write_scored (const wm_report_t *self, FILE *out)
{
    const json_t *s = self->status;
    char promise[80], most[16] = "", version[64];
    const double error = wm_ask_real (s, "campaign.max_error");
    if (error > 0)
        snprintf (most, sizeof most, "%.0e", error);
    wm_arithmetic_promise (wm_ask_text (s, "campaign.precision"), most, promise);
    snprintf (version, sizeof version, "wiremill %.40s", wm_ask_text (s, "version"));
    fputs ("<section><h2>What was scored</h2>\n", out);
    wm_page_table (out, NULL);
    if (!wm_ask_serves_clients (s))
        write_inputs (s, out);
    write_hits (s, out);
    put_row (out, "Model (SHA-256)", wm_ask_text (s, "campaign.model"));
    put_row (out, "Precision", promise);
    put_row (out, "Code", version);
    wm_page_table_end (out);
    write_engines (s, out);
    write_specification (s, out);
    put_lines (out, wm_account_checks, s, "Checked: ");
    fputs ("</section>\n", out);
}

/* ---- what is held ---------------------------------------------------------------------------- */

static void put_event (FILE *out, const json_t *held)
{
    char event[80] = "-", batch[32] = "-";
    if (json_is_integer (json_object_get (held, "event")))
        snprintf (event, sizeof event, "%lld:%lld:%lld", (long long) wm_ask_int (held, "run"),
                  (long long) wm_ask_int (held, "subrun"), (long long) wm_ask_int (held, "event"));
    if (json_is_integer (json_object_get (held, "batch")))
        snprintf (batch, sizeof batch, "%lld", (long long) wm_ask_int (held, "batch"));
    wm_page_put (out, "td class=\"w\"", "%s", event);
    wm_page_put (out, "td class=\"n\"", "%s", batch);
}

static size_t list_held (const json_t *s, FILE *out)
{
    const json_t *list = json_object_get (s, "held"), *one;
    char n[32], rows[32];
    size_t i, shown = 0;
    if (!json_array_size (list))
        return 0;
    wm_page_table (out, "Inputs, events and batches");
    fprintf (out,
             "<tr><th scope=\"col\">Input</th><th scope=\"col\">Event</th><th scope=\"col\" "
             "class=\"n\">Batch</th><th scope=\"col\">State</th><th scope=\"col\" "
             "class=\"n\">%s</th><th scope=\"col\">Reason</th></tr>\n",
             wm_report_rows (s, rows));
    json_array_foreach (list, i, one)
    {
        if (shown == HELD_LISTED)
            break;
        shown++;
        fputs ("<tr>", out);
        wm_page_put (out, "th scope=\"row\"", "%s", wm_ask_text (one, "path"));
        put_event (out, one);
        wm_page_put (out, "td", "%s", wm_ask_text (one, "state"));
        wm_page_put (out, "td class=\"n\"", "%s", wm_page_count (wm_ask_int (one, "hits"), n));
        wm_page_put (out, "td", "%s", wm_ask_held_reason (one));
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
    return shown;
}

/* Hits of written outputs by reason, of the files whose reasons were read.  */
static void list_reasons (const json_t *files, const char *rows, FILE *out)
{
    json_t *sum = json_object (), *count;
    const json_t *file;
    const char *reason;
    char n[32];
    size_t i;
    json_array_foreach (files, i, file)
    {
        json_object_foreach (json_object_get (file, "reasons"), reason, count)
        {
            const json_int_t before = json_integer_value (json_object_get (sum, reason));
            if (json_object_size (sum) < REASONS_MAX || before)
                json_object_set_new (sum, reason,
                                     json_integer (before + json_integer_value (count)));
        }
    }
    if (json_object_size (sum)) {
        wm_page_table (out, "Held by reason, of the files below");
        fprintf (out,
                 "<tr><th scope=\"col\">Reason</th><th scope=\"col\" class=\"n\">%s</th></tr>\n",
                 rows);
        json_object_foreach (sum, reason, count)
        {
            fputs ("<tr>", out);
            wm_page_put (out, "th scope=\"row\"", "%s", reason);
            wm_page_put (out, "td class=\"n\"", "%s",
                         wm_page_count (json_integer_value (count), n));
            fputs ("</tr>\n", out);
        }
        wm_page_table_end (out);
    }
    json_decref (sum);
}

static void list_files (const json_t *s, FILE *out)
{
    const json_t *files = json_object_get (s, "held_files"), *file;
    json_t *count;
    const char *reason;
    char n[32], of[32], caption[120];
    size_t i;
    if (!json_array_size (files))
        return;
    list_reasons (files, wm_report_rows (s, of), out);
    snprintf (caption, sizeof caption,
              "Files with held %s; the table \"held\" of each output names them", wm_ask_rows (s));
    wm_page_table (out, caption);
    fputs ("<tr><th scope=\"col\">Input</th><th scope=\"col\" class=\"n\">Held</th><th "
           "scope=\"col\" class=\"n\">Of</th><th scope=\"col\">Reasons</th></tr>\n",
           out);
    json_array_foreach (files, i, file)
    {
        const char *comma = "";
        fputs ("<tr>", out);
        wm_page_put (out, "th scope=\"row\"", "%s", wm_ask_text (file, "path"));
        wm_page_put (out, "td class=\"n\"", "%s", wm_page_count (wm_ask_int (file, "held"), n));
        wm_page_put (out, "td class=\"n\"", "%s", wm_page_count (wm_ask_int (file, "hits"), of));
        fputs ("<td>", out);
        json_object_foreach (json_object_get (file, "reasons"), reason, count)
        {
            wm_page_print (out, "%s%s %s", comma, wm_page_count (json_integer_value (count), n),
                           reason);
            comma = ", ";
        }
        fputs (*comma ? "</td></tr>\n" : "not read</td></tr>\n", out);
    }
    wm_page_table_end (out);
}

static void write_held (const wm_report_t *self, FILE *out)
{
    const json_t *s = self->status;
    char n[32];
    fputs ("<section><h2>Held</h2>\n", out);
    if (wm_account_is_clean (s))
        wm_page_put (out, "p", "Nothing is held.");
    else {
        const int64_t shown = (int64_t) list_held (s, out),
                      more = wm_ask_int (s, "held_total") - shown,
                      files = wm_ask_int (s, "held_files_left_out");
        list_files (s, out);
        if (more > 0)
            wm_page_put (out, "p", "Not shown: %s more inputs, events or batches.",
                         wm_page_count (more, n));
        if (files > 0)
            wm_page_put (out, "p", "Not shown: %s more files with held %s.",
                         wm_page_count (files, n), wm_ask_rows (s));
        wm_page_put (out, "p",
                     "wiremill held %s lists them; what is repaired is scored again by "
                     "wiremill run --retry-held, or wiremill kick.",
                     self->where ? self->where : "");
    }
    fputs ("</section>\n", out);
}

/* ---- what it cost ---------------------------------------------------------------------------- */

typedef struct {
    double cpu_s, gpu_s, gpu_busy_s;
    size_t n_unknown; /* workers whose CPU time is not known */
} cost_t;

static cost_t cost_of (const wm_history_query_t *h)
{
    cost_t cost = { 0 };
    for (size_t i = 0; i < h->n_worker; i++) {
        const wm_history_query_worker_t *w = &h->worker[i];
        const bool is_gpu = wm_history_query_is_gpu (w);
        cost.cpu_s += w->cpu_s > 0 ? w->cpu_s : 0;
        cost.n_unknown += w->cpu_s < 0;
        cost.gpu_s += is_gpu ? w->to_s - w->from_s : 0;
        cost.gpu_busy_s += is_gpu ? w->busy_s : 0;
    }
    return cost;
}

static const char *hours (double seconds, char text[32])
{
    if (seconds < 360)
        snprintf (text, 32, "%.3g s", seconds);
    else
        snprintf (text, 32, "%.*f h", seconds < 360000 ? 3 : 0, seconds / 3600);
    return text;
}

static void put_hours (FILE *out, const char *what, double seconds, double hits)
{
    char text[32];
    fputs ("<tr>", out);
    wm_page_put (out, "th scope=\"row\"", "%s", what);
    wm_page_put (out, "td class=\"n\"", "%s", hours (seconds, text));
    wm_page_put (out, "td class=\"n\"", "%s", hits > 0 ? hours (1e6 * seconds / hits, text) : "-");
    fputs ("</tr>\n", out);
}

static void put_bytes (FILE *out, const char *what, double bytes, double hits)
{
    char text[32];
    fputs ("<tr>", out);
    wm_page_put (out, "th scope=\"row\"", "%s", what);
    wm_page_put (out, "td class=\"n\"", "%s", wm_show_bytes (bytes, text));
    wm_page_put (out, "td class=\"n\"", "%s",
                 hits > 0 ? wm_show_bytes (1e6 * bytes / hits, text) : "-");
    fputs ("</tr>\n", out);
}

static void write_cost (const wm_report_t *self, FILE *out)
{
    const json_t *s = self->status;
    const wm_history_query_t *h = &self->history;
    const cost_t cost = cost_of (h);
    wm_history_query_row_t sum;
    wm_history_query_sum (h, 0, &sum);
    const bool is_known = h->n_row > 0;
    const double hits = is_known ? sum.hits : wm_ask_real (s, "hits.done");
    fputs ("<section><h2>Cost</h2>\n", out);
    const bool is_running = *wm_ask_text (s, "endpoint");
    wm_page_table (out, is_known     ? "Since the history began"
                        : is_running ? "Bytes since the broker started; times are not known"
                                     : "Times and bytes sent are not known");
    fprintf (out,
             "<tr><th scope=\"col\">What</th><th scope=\"col\" class=\"n\">In all</th><th "
             "scope=\"col\" class=\"n\">For a million %s</th></tr>\n",
             wm_ask_rows (s));
    if (is_known) {
        put_hours (out, "CPU time of workers and their engines", cost.cpu_s, hits);
        put_hours (out, "CPU time of the broker", sum.broker_cpu_s, hits);
        put_hours (out, "Workers connected", sum.worker_s, hits);
        put_hours (out, "GPUs of workers connected", cost.gpu_s, hits);
        put_hours (out, "GPUs of workers with a batch", cost.gpu_busy_s, hits);
    }
    if (is_known || is_running) {
        put_bytes (out, "From producers",
                   is_known ? sum.payload_in : wm_ask_real (s, "bytes.payload_in"), hits);
        put_bytes (out, "To workers", is_known ? sum.task_out : wm_ask_real (s, "bytes.task_out"),
                   hits);
        put_bytes (out, "From workers",
                   is_known ? sum.result_in : wm_ask_real (s, "bytes.result_in"), hits);
    }
    put_bytes (out, "Journal now", wm_ask_real (s, "bytes.journal"), 0);
    put_bytes (out, "Ledger now", wm_ask_real (s, "bytes.ledger"), 0);
    wm_page_table_end (out);
    if (cost.n_unknown)
        wm_page_put (out, "p", "%zu of %zu workers did not report their CPU time.", cost.n_unknown,
                     h->n_worker);
    wm_page_put (out, "p", "The CPU time of producers is not counted.");
    fputs ("</section>\n", out);
}

/* ---- where it comes from --------------------------------------------------------------------- */

static void write_command (const wm_report_t *self, FILE *out)
{
    char *text = NULL, *line, *rest;
    size_t bytes = 0;
    FILE *memory = open_memstream (&text, &bytes);
    if (!memory)
        return;
    const bool is_known = wm_command_show (memory, self->folder);
    fclose (memory);
    if (is_known) {
        wm_page_put (out, "p", "%s",
                     wm_ask_serves_clients (self->status)
                         ? "The command that started the broker:"
                         : "The command that makes this campaign. Typed again, it continues; with "
                           "another --output, it scores the same again:");
        fputs ("<pre>", out);
        for (line = strtok_r (text, "\n", &rest); line; line = strtok_r (NULL, "\n", &rest)) {
            wm_page_print (out, "%s", line);
            fputc ('\n', out);
        }
        fputs ("</pre>\n", out);
    } else
        wm_page_put (out, "p", "The command that made this campaign is not known here.");
    free (text);
}

static void write_provenance (const wm_report_t *self, FILE *out)
{
    const json_t *s = self->status;
    char date[32];
    fputs ("<section><h2>Provenance</h2>\n", out);
    wm_page_table (out, NULL);
    put_row (out, "Campaign", wm_ask_text (s, "campaign.id"));
    put_row (out, "Its folder", wm_ask_text (s, "dir"));
    if (!wm_ask_serves_clients (s))
        put_row (out, "Its outputs", wm_ask_text (s, "campaign.output"));
    put_row (out, "Begun", wm_report_date (wm_ask_real (s, "campaign.submitted"), date));
    if (*wm_ask_text (s, "endpoint"))
        put_row (out, "Broker", wm_ask_text (s, "endpoint"));
    wm_page_table_end (out);
    write_command (self, out);
    fputs ("</section>\n", out);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void write_scores (const wm_report_t *self, FILE *out)
{
    char n[32], all[32];
    if (wm_ask_serves_clients (self->status))
        return;
    fputs ("<h2>Scores</h2>\n", out);
    if (self->scores_bytes) {
        wm_page_put (out, "p",
                     "Scores and pictures are of %s of %s outputs, evenly spaced over the inputs.",
                     wm_page_count ((int64_t) self->n_read, n),
                     wm_page_count ((int64_t) self->n_output, all));
        fwrite (self->scores, 1, self->scores_bytes, out);
    } else
        wm_page_put (out, "p", "%s", self->no_scores);
}

void wm_report_write (const wm_report_t *self, FILE *out)
{
    char name[64], title[80];
    wm_account_name (self->status, name);
    snprintf (title, sizeof title, "Campaign %s", name);
    wm_page_begin (out, title);
    write_verdict (self, out);
    write_scored (self, out);
    wm_report_throughput (self, out);
    wm_report_workers (self, out);
    wm_report_latency (self, out);
    wm_report_faults (self, out);
    write_held (self, out);
    write_scores (self, out);
    write_cost (self, out);
    write_provenance (self, out);
    fputs ("<footer><p>Written by wiremill report " WM_VERSION
           "; all times are UTC.</p></footer>\n",
           out);
    wm_page_end (out);
}
