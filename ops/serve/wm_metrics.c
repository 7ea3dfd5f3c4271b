/* wm_metrics.c - see wm_metrics.h.  */
#include "ops/serve/wm_metrics.h"
#include "ops/wm_ask.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name, *type, *help;   /* NULL: the same metric as the row before */
    const char *label, *value, *path; /* path in the status; label NULL: none */
} row_t;

/* clang-format off */
static const row_t rows[] = {
    {"wiremill_batches", "gauge",
     "Batches that are known, by state.", "state", "queued", "batches.queued"},
    {NULL, NULL, NULL, "state", "asked", "batches.asked"},
    {NULL, NULL, NULL, "state", "running", "batches.running"},
    {NULL, NULL, NULL, "state", "returned", "batches.returned"},
    {NULL, NULL, NULL, "state", "held", "batches.held"},
    {"wiremill_workers", "gauge",
     "Workers, by state; lost: expected back.", "state", "busy", "workers_by_state.busy"},
    {NULL, NULL, NULL, "state", "idle", "workers_by_state.idle"},
    {NULL, NULL, NULL, "state", "starting", "workers_by_state.starting"},
    {NULL, NULL, NULL, "state", "draining", "workers_by_state.draining"},
    {NULL, NULL, NULL, "state", "lost", "workers_by_state.lost"},
    {"wiremill_inputs", "gauge",
     "Inputs (files), by state.", "state", "open", "inputs.open"},
    {NULL, NULL, NULL, "state", "written", "inputs.written"},
    {NULL, NULL, NULL, "state", "held", "inputs.held"},
    {"wiremill_events_announced", "gauge",
     "Events that producers have announced.", NULL, NULL, "events.announced"},
    {"wiremill_events_scored", "gauge",
     "Events all of whose hits are scored or held.", NULL, NULL, "events.done"},
    {"wiremill_events_written", "gauge",
     "Events that are in an output file.", NULL, NULL, "events.written"},
    {"wiremill_hits_announced", "gauge",
     "Hits that producers have announced.", NULL, NULL, "hits.announced"},
    {"wiremill_hits_expected", "gauge",
     "Hits of all inputs, estimated from those announced.", NULL, NULL, "hits.expected"},
    {"wiremill_hits_scored", "gauge",
     "Hits that are scored.", NULL, NULL, "hits.done"},
    {"wiremill_hits_held", "gauge",
     "Hits that are not scored without a person.", NULL, NULL, "hits.held"},
    {"wiremill_hits_scored_per_second", "gauge",
     "Hits scored per second now.", NULL, NULL, "rate.hits_s"},
    {"wiremill_remaining_seconds", "gauge",
     "Seconds until the workers there are have finished.", NULL, NULL, "eta_s"},
    {"wiremill_held", "gauge",
     "Inputs, and batches of other inputs, that need a person.", NULL, NULL, "held_total"},
    {"wiremill_batch_failures_total", "counter",
     "Batches that failed on a worker.", NULL, NULL, "counters.n_fail"},
    {"wiremill_batches_lost_total", "counter",
     "Batches whose worker was lost.", NULL, NULL, "counters.n_lost"},
    {"wiremill_batches_preempted_total", "counter",
     "Batches that a worker gave back when it left.", NULL, NULL, "counters.n_preempt"},
    {"wiremill_batches_copied_total", "counter",
     "Batches given to a second worker near the end.", NULL, NULL, "counters.copies"},
    {"wiremill_results_duplicate_total", "counter",
     "Results that came twice; one was taken.", NULL, NULL, "counters.duplicate"},
    {"wiremill_results_late_total", "counter",
     "Results that came after their lease.", NULL, NULL, "counters.late"},
    {"wiremill_checks_total", "counter",
     "Batches that a second machine scored, by outcome.", "outcome", "agreed", "checks.good"},
    {NULL, NULL, NULL, "outcome", "differed", "checks.differ"},
    {"wiremill_payload_received_bytes_total", "counter",
     "Bytes of batches that came from producers.", NULL, NULL, "bytes.payload_in"},
    {"wiremill_task_sent_bytes_total", "counter",
     "Bytes of batches that were sent to workers.", NULL, NULL, "bytes.task_out"},
    {"wiremill_result_received_bytes_total", "counter",
     "Bytes of results that came from workers.", NULL, NULL, "bytes.result_in"},
    {"wiremill_budget_bytes", "gauge",
     "Bytes of payloads that the broker may keep.", NULL, NULL, "bytes.budget"},
    {"wiremill_budget_used_bytes", "gauge",
     "Bytes of payloads that it keeps or has asked for.", NULL, NULL, "bytes.budget_used"},
    {"wiremill_journal_bytes", "gauge",
     "Size of the campaign's journal.", NULL, NULL, "bytes.journal"},
    {"wiremill_ledger_bytes", "gauge",
     "Size of the campaign's ledger.", NULL, NULL, "bytes.ledger"},
    {"wiremill_broker_uptime_seconds", "gauge",
     "Seconds since the broker was started.", NULL, NULL, "up_s"},
};
/* clang-format on */

/* ---- one metric ------------------------------------------------------------------------------ */

static void print_head (FILE *out, const char *name, const char *type, const char *help)
{
    fprintf (out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_label (FILE *out, const char *name, const char *value)
{
    fprintf (out, "%s=\"", name);
    for (; *value; value++)
        if (*value == '\n')
            fputs ("\\n", out);
        else {
            if (*value == '"' || *value == '\\')
                fputc ('\\', out);
            fputc (*value, out);
        }
    fputc ('"', out);
}

static void print_number (FILE *out, double value)
{
    if (value == floor (value) && fabs (value) < 1e15)
        fprintf (out, " %lld\n", (long long) value);
    else
        fprintf (out, " %.9g\n", value);
}

/* What is unknown (null) has no sample.  */
static const json_t *find (const json_t *status, const char *path)
{
    char name[64];
    const char *dot = strchr (path, '.');
    if (dot) {
        snprintf (name, sizeof name, "%.*s", (int) (dot - path), path);
        status = json_object_get (status, name);
        path = dot + 1;
    }
    const json_t *value = json_object_get (status, path);
    return json_is_number (value) ? value : NULL;
}

static void print_rows (FILE *out, const json_t *status, const char *campaign)
{
    const char *name = "";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row_t *row = &rows[i];
        const json_t *value = find (status, row->path);
        name = row->name ? row->name : name;
        if (row->name)
            print_head (out, row->name, row->type, row->help);
        if (!value)
            continue;
        fprintf (out, "%s{", name);
        print_label (out, "campaign", campaign);
        if (row->label) {
            fputc (',', out);
            print_label (out, row->label, row->value);
        }
        fputc ('}', out);
        print_number (out, json_number_value (value));
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static void print_one (FILE *out, const char *name, const char *help, const char *campaign,
                       double value)
{
    print_head (out, name, "gauge", help);
    fprintf (out, "%s{", name);
    print_label (out, "campaign", campaign);
    fputc ('}', out);
    print_number (out, value);
}

static void print_info (FILE *out, const json_t *status, const char *campaign)
{
    static const char name[] = "wiremill_campaign_info";
    print_head (out, name, "gauge", "The campaign's precision and model, the broker's version.");
    fprintf (out, "%s{", name);
    print_label (out, "campaign", campaign);
    fputc (',', out);
    print_label (out, "precision", wm_ask_text (status, "campaign.precision"));
    fputc (',', out);
    print_label (out, "model", wm_ask_text (status, "campaign.model"));
    fputc (',', out);
    print_label (out, "version", wm_ask_text (status, "version"));
    fputs ("} 1\n", out);
}

char *wm_metrics_text (const json_t *status, const char *campaign, double age_s)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream (&text, &bytes);
    assert (out);
    print_one (out, "wiremill_up", "Whether the broker answers.", campaign, status ? 1 : 0);
    if (status) {
        print_one (out, "wiremill_status_age_seconds", "Seconds since the broker answered.",
                   campaign, age_s);
        print_one (out, "wiremill_paused",
                   "Whether the campaign hands out no work: paused, draining, or its disk is full.",
                   campaign, !wm_ask_takes_work (status));
        print_one (out, "wiremill_demand_batches",
                   "Batches for workers to score, queued, asked for or running; 0 while paused.",
                   campaign, wm_ask_takes_work (status) ? (double) wm_ask_demand (status) : 0);
        print_info (out, status, campaign);
        print_rows (out, status, campaign);
    }
    fclose (out);
    assert (text);
    return text;
}
