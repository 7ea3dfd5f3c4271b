/* wm_metrics.c - a campaign's own metrics: the table of what the status has, the states of broker
   and campaign, and how long batches took. Workers are in wm_metrics_workers.c, Triton's names of a
   model in wm_metrics_triton.c.  */
#include "ops/serve/wm_metrics.h"
#include "kernels/patch/wm_spec.h"
#include "ops/ask/wm_ask.h"
#include "ops/serve/wm_metrics_private.h"
#include "ops/view/wm_waits.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* clang-format off */
static const wm_metrics_row_t rows[] = {
    {"wiremill_batches", "gauge",
     "Batches that are known, by state.", "state", "queued", "batches.queued", 0},
    {NULL, NULL, NULL, "state", "asked", "batches.asked", 0},
    {NULL, NULL, NULL, "state", "running", "batches.running", 0},
    {NULL, NULL, NULL, "state", "returned", "batches.returned", 0},
    {NULL, NULL, NULL, "state", "held", "batches.held", 0},
    {"wiremill_workers", "gauge",
     "Workers, by state; lost: expected back.", "state", "busy", "workers_by_state.busy", 0},
    {NULL, NULL, NULL, "state", "idle", "workers_by_state.idle", 0},
    {NULL, NULL, NULL, "state", "starting", "workers_by_state.starting", 0},
    {NULL, NULL, NULL, "state", "draining", "workers_by_state.draining", 0},
    {NULL, NULL, NULL, "state", "lost", "workers_by_state.lost", 0},
    {"wiremill_inputs", "gauge",
     "Inputs (files), by state.", "state", "open", "inputs.open", 0},
    {NULL, NULL, NULL, "state", "written", "inputs.written", 0},
    {NULL, NULL, NULL, "state", "held", "inputs.held", 0},
    {"wiremill_inputs_changed", "gauge",
     "Inputs that changed after their output was written.", NULL, NULL, "inputs.changed", 0},
    {"wiremill_events_announced", "gauge",
     "Events that producers have announced.", NULL, NULL, "events.announced", 0},
    {"wiremill_events_scored", "gauge",
     "Events all of whose hits are scored or held.", NULL, NULL, "events.done", 0},
    {"wiremill_events_written", "gauge",
     "Events that are in an output file.", NULL, NULL, "events.written", 0},
    {"wiremill_hits_announced", "gauge",
     "Hits that producers have announced.", NULL, NULL, "hits.announced", 0},
    {"wiremill_hits_expected", "gauge",
     "Hits of all inputs, estimated from those announced.", NULL, NULL, "hits.expected", 0},
    {"wiremill_hits_scored", "gauge",
     "Hits that are scored.", NULL, NULL, "hits.done", 0},
    {"wiremill_hits_held", "gauge",
     "Hits that are not scored without a person.", NULL, NULL, "hits.held", 0},
    {"wiremill_hits_scored_per_second", "gauge",
     "Hits scored per second now.", NULL, NULL, "rate.hits_s", 0},
    {"wiremill_events_scored_per_second", "gauge",
     "Events scored per second now.", NULL, NULL, "rate.events_s", 0},
    {"wiremill_remaining_seconds", "gauge",
     "Seconds until the workers there are have finished.", NULL, NULL, "eta_s", 0},
    {"wiremill_held", "gauge",
     "Inputs, and batches of other inputs, that need a person.", NULL, NULL, "held_total", 0},
    {"wiremill_batch_failures_total", WM_METRICS_KEPT,
     "Batches that failed on a worker.", NULL, NULL, "counters.n_fail", 0},
    {"wiremill_batches_lost_total", WM_METRICS_KEPT,
     "Batches that were in the engine when their worker was lost.", NULL, NULL,
     "counters.n_lost", 0},
    {"wiremill_batches_preempted_total", WM_METRICS_KEPT,
     "Batches that a worker gave back when it left.", NULL, NULL, "counters.n_preempt", 0},
    {"wiremill_alarms_total", WM_METRICS_KEPT,
     "Batches of which two results of one engine signature differed.",
     NULL, NULL, "counters.alarm", 0},
    {"wiremill_batches_scored_again_total", WM_METRICS_KEPT,
     "Batches that a worker scored again by another engine.", NULL, NULL, "counters.again", 0},
    {"wiremill_workers_dismissed_total", WM_METRICS_KEPT,
     "Workers that the broker gave nothing more because their batches failed.", NULL, NULL,
     "counters.dismissed", 0},
    {"wiremill_batches_copied_total", "counter",
     "Batches given to a second worker near the end.", NULL, NULL, "counters.copies", 0},
    {"wiremill_results_duplicate_total", WM_METRICS_KEPT,
     "Results that came twice; one was taken.", NULL, NULL, "counters.duplicate", 0},
    {"wiremill_results_late_total", WM_METRICS_KEPT,
     "Results that came after their lease.", NULL, NULL, "counters.late", 0},
    {"wiremill_checks_total", WM_METRICS_KEPT,
     "Batches that a second machine scored, by outcome.", "outcome", "agreed", "checks.good", 0},
    {NULL, NULL, NULL, "outcome", "differed", "checks.differ", 0},
    {"wiremill_payload_received_bytes_total", "counter",
     "Bytes of batches that came from producers.", NULL, NULL, "bytes.payload_in", 0},
    {"wiremill_task_sent_bytes_total", "counter",
     "Bytes of batches that were sent to workers.", NULL, NULL, "bytes.task_out", 0},
    {"wiremill_result_received_bytes_total", "counter",
     "Bytes of results that came from workers.", NULL, NULL, "bytes.result_in", 0},
    {"wiremill_checks_open", "gauge",
     "Checks of batches that have no outcome yet.", NULL, NULL, "checks.open", 0},
    {"wiremill_distrusted", "gauge",
     "Machines, by key or signature, whose scores were wrong.",
     NULL, NULL, "checks.named_total", 0},
    {"wiremill_budget_bytes", "gauge",
     "Bytes of payloads that the broker may keep.", NULL, NULL, "bytes.budget", 0},
    {"wiremill_budget_used_bytes", "gauge",
     "Bytes of payloads that it keeps or has asked for.", NULL, NULL, "bytes.budget_used", 0},
    {"wiremill_journal_bytes", "gauge",
     "Size of the campaign's journal.", NULL, NULL, "bytes.journal", 0},
    {"wiremill_ledger_bytes", "gauge",
     "Size of the campaign's ledger.", NULL, NULL, "bytes.ledger", 0},
    {"wiremill_disk_free_bytes", "gauge",
     "Free bytes of the disk that has the campaign's folder.", NULL, NULL, "bytes.disk_free", 0},
    {"wiremill_broker_starts", "gauge",
     "How often a broker was started for the campaign.", NULL, NULL, "epoch", 0},
    {"wiremill_campaign_submitted_timestamp_seconds", "gauge",
     "When the campaign began, as Unix time.", NULL, NULL, "campaign.submitted", 0},
    {"wiremill_broker_uptime_seconds", "gauge",
     "Seconds since the broker was started.", NULL, NULL, "up_s", 0},
};

/* What is not one number of the status.  */
static const wm_metrics_row_t up_row =
    {"wiremill_up", "gauge", "Whether the broker answers.", NULL, NULL, "", 0};
static const wm_metrics_row_t age_row =
    {"wiremill_status_age_seconds", "gauge", "Seconds since the broker answered.",
     NULL, NULL, "", 0};
static const wm_metrics_row_t paused_row =
    {"wiremill_paused", "gauge",
     "Whether the campaign hands out no work: paused, draining, or its disk is full.",
     NULL, NULL, "", 0};
static const wm_metrics_row_t demand_row =
    {"wiremill_demand_batches", "gauge",
     "Batches for workers to score, queued, asked for or running; 0 while paused.",
     NULL, NULL, "", 0};
static const wm_metrics_row_t info_row =
    {"wiremill_campaign_info", "gauge",
     "What the campaign is pinned to, and the broker's version.", NULL, NULL, "", 0};
static const wm_metrics_row_t state_row =
    {"wiremill_campaign_state", "gauge", "1: the campaign is in this state.",
     NULL, NULL, "campaign.state", 0};
static const wm_metrics_row_t waiting_row =
    {"wiremill_waiting", "gauge",
     "1: the campaign, or one of its processes, waits for this; \"disk full\": any disk.",
     NULL, NULL, "waiting_for", 0};
static const wm_metrics_row_t signature_row =
    {"wiremill_rows_scored_total", WM_METRICS_KEPT,
     "Hits whose scores came, by the signature of the engine; again after a kick.",
     NULL, NULL, "", 0};
static const wm_metrics_row_t producers_row =
    {"wiremill_producers", "gauge", "Producers that are connected, at most 100.",
     NULL, NULL, "", 0};
static const wm_metrics_row_t late_row =
    {"wiremill_producers_late", "gauge",
     "Those of them that do not send what they are asked for.", NULL, NULL, "", 0};
static const wm_metrics_row_t score_row =
    {"wiremill_score", "summary",
     "Scores that came since the broker was started: sum by count is their mean.",
     NULL, NULL, "scores", 0};
static const wm_metrics_row_t duration_row =
    {"wiremill_batch_duration_seconds", "histogram",
     "How long batches took: stage (asked of the producer until it came), queue (until it was "
     "sent to a worker), compute (until its result came), commit (until that is on disk).",
     NULL, NULL, "latency", 0};
/* clang-format on */

#define COUNT(a) (sizeof (a) / sizeof *(a))

static void print_one (FILE *out, const wm_metrics_row_t *row, const wm_metric_labels_t *labels,
                       double value)
{
    wm_metrics_head (out, row);
    wm_metrics_sample (out, row, "", labels, value);
}

static void print_info (FILE *out, const json_t *status, const wm_metric_labels_t *campaign)
{
    static const char *const label[] = { "precision", "model", "serves" };
    wm_metric_labels_t labels = *campaign;
    for (size_t i = 0; i < COUNT (label); i++) {
        char path[32];
        snprintf (path, sizeof path, "campaign.%s", label[i]);
        wm_labels_add (&labels, label[i], wm_ask_text (status, path));
    }
    wm_labels_add (&labels, "version", wm_ask_text (status, "version"));
    print_one (out, &info_row, &labels, 1);
}

/* One sample for each state there is, so that a rule sees the end of each.  */
static void print_states (FILE *out, const wm_metrics_row_t *row, const char *name,
                          const char *const *states, const json_t *status,
                          const wm_metric_labels_t *campaign)
{
    wm_metrics_head (out, row);
    for (; *states; states++) {
        wm_metric_labels_t labels = *campaign;
        wm_labels_add (&labels, name, *states);
        wm_metrics_sample (out, row, "", &labels,
                           strcmp (wm_ask_text (status, row->path), *states) == 0);
    }
}

static void print_signatures (FILE *out, const json_t *status, const wm_metric_labels_t *campaign)
{
    const char *signature;
    json_t *n;
    wm_metrics_head (out, &signature_row);
    json_object_foreach (json_object_get (status, "rows"), signature, n)
    {
        wm_metric_labels_t labels = *campaign;
        wm_labels_add (&labels, "signature", signature);
        wm_metrics_sample (out, &signature_row, "", &labels, json_number_value (n));
    }
}

/* The name of the i-th of n scores, as outputs have it.  */
static const char *name_of (const wm_spec_t *spec, size_t n, size_t i, char name[48])
{
    if (spec->n_label == n)
        snprintf (name, 48, "%s", spec->label[i]);
    else
        snprintf (name, 48, "out_%zu", i);
    return name;
}

static void print_scores (FILE *out, const json_t *status, const wm_metric_labels_t *campaign)
{
    static wm_spec_t spec;
    char name[48];
    size_t i;
    wm_error_t error;
    const json_t *one, *all = json_object_get (status, "scores");
    const char *text = wm_ask_text (status, "campaign.specification");
    if (wm_spec_parse (&spec, text, strlen (text), "the status", &error))
        spec.n_label = 0;
    wm_metrics_head (out, &score_row);
    json_array_foreach (all, i, one)
    {
        wm_metric_labels_t labels = *campaign;
        wm_labels_add (&labels, "score", name_of (&spec, json_array_size (all), i, name));
        wm_metrics_sample (out, &score_row, "_sum", &labels, wm_ask_real (one, "sum"));
        wm_metrics_sample (out, &score_row, "_count", &labels, wm_ask_real (one, "hits"));
    }
}

static void print_producers (FILE *out, const json_t *status, const wm_metric_labels_t *campaign)
{
    const json_t *producers = json_object_get (status, "producers");
    size_t n_late = 0;
    for (size_t i = 0; i < json_array_size (producers); i++)
        n_late += json_is_number (json_object_get (json_array_get (producers, i), "late_s"));
    print_one (out, &producers_row, campaign, (double) json_array_size (producers));
    print_one (out, &late_row, campaign, (double) n_late);
}

/* ---- how long batches took ------------------------------------------------------------------- */

#define BUCKETS_MAX 40 /* the status has 16 */

/* The status counts in each bucket what is in no bucket before it, Prometheus what is below.  */
static void print_stage (FILE *out, const json_t *latency, const wm_metric_labels_t *labels)
{
    const json_t *buckets = json_object_get (latency, "buckets");
    const size_t n =
        json_array_size (buckets) < BUCKETS_MAX ? json_array_size (buckets) : BUCKETS_MAX;
    double below = 0;
    for (size_t i = 0; i < n; i++) {
        wm_metric_labels_t with = *labels;
        char le[32] = "+Inf";
        if (i + 1 < n)
            snprintf (le, sizeof le, "%.3f", ldexp (1e-3, (int) i));
        wm_labels_add (&with, "le", le);
        below += json_number_value (json_array_get (buckets, i));
        wm_metrics_sample (out, &duration_row, "_bucket", &with, below);
    }
    wm_metrics_sample (out, &duration_row, "_sum", labels, wm_ask_real (latency, "sum_s"));
    wm_metrics_sample (out, &duration_row, "_count", labels, below);
}

static void print_durations (FILE *out, const json_t *status, const wm_metric_labels_t *campaign)
{
    static const char *const stage[] = { "stage", "queue", "compute", "commit" };
    const json_t *all = json_object_get (status, "latency");
    wm_metrics_head (out, &duration_row);
    for (size_t i = 0; i < COUNT (stage); i++) {
        const json_t *latency = json_object_get (all, stage[i]);
        wm_metric_labels_t labels = *campaign;
        wm_labels_add (&labels, "stage", stage[i]);
        if (latency)
            print_stage (out, latency, &labels);
    }
}

/* Of each wait there can be, so that an alert may ask for its absence.  */
static void print_waits (FILE *out, const json_t *status, const wm_metric_labels_t *campaign)
{
    wm_metrics_head (out, &waiting_row);
    for (int i = 1; i < WM_WAIT_END; i++) {
        wm_metric_labels_t labels = *campaign;
        wm_labels_add (&labels, "reason", wm_waits[i].name);
        wm_metrics_sample (out, &waiting_row, "", &labels, wm_waits_has (status, wm_waits[i].name));
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static void print_all (FILE *out, const json_t *status, const wm_metric_labels_t *labels,
                       double age_s)
{
    static const char *const states[] = { "running", "waiting",  "idle", "finished",
                                          "paused",  "draining", NULL };
    const bool takes = wm_ask_takes_work (status);
    print_one (out, &age_row, labels, age_s);
    print_one (out, &paused_row, labels, !takes);
    print_one (out, &demand_row, labels, takes ? (double) wm_ask_demand (status) : 0);
    print_info (out, status, labels);
    print_states (out, &state_row, "state", states, status, labels);
    print_waits (out, status, labels);
    wm_metrics_rows (out, rows, COUNT (rows), status, labels);
    print_signatures (out, status, labels);
    print_scores (out, status, labels);
    print_producers (out, status, labels);
    print_durations (out, status, labels);
    wm_metrics_workers (out, status, labels);
    wm_metrics_triton (out, status, labels);
}

char *wm_metrics_text (const json_t *status, const char *campaign, double age_s)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream (&text, &bytes);
    assert (out);
    wm_metric_labels_t labels = { "" };
    wm_labels_add (&labels, "campaign", campaign);
    print_one (out, &up_row, &labels, status ? 1 : 0);
    if (status)
        print_all (out, status, &labels, age_s);
    fclose (out);
    assert (text);
    return text;
}
