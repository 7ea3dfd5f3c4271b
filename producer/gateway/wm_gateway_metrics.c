/* wm_gateway_metrics.c - Triton's names for what Triton's dashboards show, ours for the rest.  */
#include "producer/gateway/wm_gateway_metrics.h"
#include "producer/serving/wm_models.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* Prints a label's value: quotes, backslashes and line ends are escaped.  */
static void print_label (FILE *to, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            fputs ("\\n", to);
        else {
            if (*text == '"' || *text == '\\')
                putc ('\\', to);
            putc (*text, to);
        }
}

/* ---- of each model --------------------------------------------------------------------------- */

#define COUNT(member) offsetof (wm_gather_counts_t, member)
#define NONE SIZE_MAX /* a value that is always 0 */

/* Counters of each version: where wm_gather_counts_t has them, and a label that some have.  */
static const struct {
    const char *name, *help, *label;
    size_t at;
} rows[] = {
    { "nv_inference_request_success", "Number of successful inference requests", "",
      COUNT (n_success) },
    { "nv_inference_request_failure", "Number of failed inference requests", ",reason=\"REJECTED\"",
      COUNT (n_late) },
    { "nv_inference_request_failure", "", ",reason=\"CANCELED\"", COUNT (n_cancel) },
    { "nv_inference_request_failure", "", ",reason=\"BACKEND\"", COUNT (n_fault) },
    { "nv_inference_request_failure", "", ",reason=\"OTHER\"", COUNT (n_other) },
    { "nv_inference_count", "Number of inferences performed (does not include cached requests)", "",
      COUNT (n_row) },
    { "nv_inference_exec_count",
      "Number of model executions performed (does not include cached requests)", "",
      COUNT (n_batch) },
    { "nv_inference_request_duration_us", "Cumulative inference request duration in microseconds",
      "", COUNT (success_us) },
    { "nv_inference_queue_duration_us", "Cumulative inference queuing duration in microseconds", "",
      COUNT (queue_us) },
    { "nv_inference_compute_input_duration_us",
      "Always 0: transfers to workers are in the infer duration", "", NONE },
    { "nv_inference_compute_infer_duration_us",
      "Cumulative compute inference duration in microseconds", "", COUNT (infer_us) },
    { "nv_inference_compute_output_duration_us",
      "Always 0: transfers from workers are in the infer duration", "", NONE },
    { "wiremill_gateway_rows_held_total", "Rows answered without scores (NaN)", "",
      COUNT (n_held) },
    { "wiremill_gateway_batches_again_total",
      "Batches that the broker gave up and the gateway sent again", "", COUNT (n_again) },
};

typedef struct {
    FILE *to;
    size_t row;
} printer_t;

static void print_labels (FILE *to, const char *name, const char *model, const char *version)
{
    fprintf (to, "%s{model=\"", name);
    print_label (to, model);
    fputs ("\",version=\"", to);
    print_label (to, version);
}

static void print_count (void *argument, const char *model, const char *version,
                         const wm_gather_counts_t *counts, uint32_t n_waiting, bool is_ready)
{
    const printer_t *self = argument;
    const size_t at = rows[self->row].at;
    uint64_t value = 0;
    (void) n_waiting, (void) is_ready;
    if (at != NONE)
        memcpy (&value, (const char *) counts + at, sizeof value);
    print_labels (self->to, rows[self->row].name, model, version);
    fprintf (self->to, "\"%s} %llu\n", rows[self->row].label, (unsigned long long) value);
}

static void print_waiting (void *argument, const char *model, const char *version,
                           const wm_gather_counts_t *counts, uint32_t n_waiting, bool is_ready)
{
    (void) counts, (void) is_ready;
    print_labels (argument, "nv_inference_pending_request_count", model, version);
    fprintf (argument, "\"} %u\n", n_waiting);
}

static void print_ready (void *argument, const char *model, const char *version,
                         const wm_gather_counts_t *counts, uint32_t n_waiting, bool is_ready)
{
    (void) counts, (void) n_waiting;
    print_labels (argument, "wiremill_gateway_model_ready", model, version);
    fprintf (argument, "\"} %d\n", is_ready);
}

static void print_head (FILE *to, const char *name, const char *type, const char *help)
{
    fprintf (to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_models (FILE *to, const wm_models_t *models)
{
    printer_t printer = { to, 0 };
    for (; printer.row < sizeof rows / sizeof rows[0]; printer.row++) {
        if (*rows[printer.row].help)
            print_head (to, rows[printer.row].name, "counter", rows[printer.row].help);
        wm_models_counts (models, print_count, &printer);
    }
    print_head (to, "nv_inference_pending_request_count", "gauge",
                "Instantaneous number of pending requests awaiting execution per-model");
    wm_models_counts (models, print_waiting, to);
    print_head (to, "wiremill_gateway_model_ready", "gauge",
                "Whether the model is loaded and its broker answers");
    wm_models_counts (models, print_ready, to);
}

/* ---- of the gateway -------------------------------------------------------------------------- */

static void print_one (FILE *to, const char *name, const char *type, const char *help,
                       unsigned long long value)
{
    print_head (to, name, type, help);
    fprintf (to, "%s %llu\n", name, value);
}

static void print_gateway (FILE *to, const wm_front_t *front)
{
    static const char *const kinds[] = { "grpc", "http" };
    print_head (to, "wiremill_gateway_requests_total", "counter",
                "Requests of every method that have ended, by what came of them");
    for (int kind = 0; kind < 2; kind++)
        for (wm_ks_code_t code = 0; code < WM_KS_CODES; code++)
            fprintf (to, "wiremill_gateway_requests_total{protocol=\"%s\",code=\"%s\"} %llu\n",
                     kinds[kind], wm_ks_code_name (code),
                     (unsigned long long) front->requests[kind][code]);
    print_head (to, "wiremill_gateway_connections", "gauge", "Connections of clients");
    for (int kind = 0; kind < 2; kind++)
        fprintf (to, "wiremill_gateway_connections{protocol=\"%s\"} %zu\n", kinds[kind],
                 front->connections[kind]);
    print_one (to, "wiremill_gateway_connections_refused_total", "counter",
               "Connections closed because their address has as many as it may",
               wm_addresses_n_refused (front->addresses));
    print_one (to, "wiremill_gateway_received_bytes_total", "counter",
               "Bytes of requests that have ended", front->bytes_in);
    print_one (to, "wiremill_gateway_sent_bytes_total", "counter", "Bytes of their answers",
               front->bytes_out);
    print_one (to, "wiremill_gateway_memory_bytes", "gauge",
               "Memory that requests and answers hold", wm_budget_bytes (front->budget));
    print_one (to, "wiremill_gateway_connections_memory_bytes", "gauge",
               "Memory that connections hold beside them", wm_budget_aside (front->budget));
    print_one (to, "wiremill_gateway_memory_limit_bytes", "gauge",
               "Memory that all of them may hold (--memory)", wm_budget_max (front->budget));
}

char *wm_metrics_page (wm_front_t *front)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream (&text, &bytes);
    assert (to);
    print_models (to, front->models);
    print_gateway (to, front);
    fclose (to);
    return text;
}
