/* wm_metrics.c - Triton's names for what Triton's dashboards show, ours for the rest.  */
#include "producer/gateway/wm_metrics.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
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

/* A row of nv_*: where the statistics have it, `path` by dots, divided.  */
static const struct {
    const char *name, *help, *path;
    int divisor;
} rows[] = {
    { "nv_inference_request_success", "Number of successful inference requests",
      "inference_stats.success.count", 1 },
    { "nv_inference_request_failure", "Number of failed inference requests",
      "inference_stats.fail.count", 1 },
    { "nv_inference_count", "Number of inferences performed", "inference_count", 1 },
    { "nv_inference_exec_count", "Number of model executions performed", "execution_count", 1 },
    { "nv_inference_request_duration_us", "Cumulative inference request duration in microseconds",
      "inference_stats.success.ns", 1000 },
    { "nv_inference_queue_duration_us", "Cumulative inference queuing duration in microseconds",
      "inference_stats.queue.ns", 1000 },
    { "nv_inference_compute_infer_duration_us",
      "Cumulative compute inference duration in microseconds", "inference_stats.compute_infer.ns",
      1000 },
};

static json_int_t number_at (const json_t *object, const char *path)
{
    char name[40];
    for (size_t n; object; path += n + 1) {
        n = strcspn (path, ".");
        snprintf (name, sizeof name, "%.*s", (int) n, path);
        object = json_object_get (object, name);
        if (!path[n])
            break;
    }
    return json_integer_value (object);
}

static void print_models (FILE *to, const json_t *all)
{
    size_t i;
    json_t *model;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        fprintf (to, "# HELP %s %s\n# TYPE %s counter\n", rows[row].name, rows[row].help,
                 rows[row].name);
        json_array_foreach (all, i, model)
        {
            fprintf (to, "%s{model=\"", rows[row].name);
            print_label (to, json_string_value (json_object_get (model, "name")));
            fputs ("\",version=\"", to);
            print_label (to, json_string_value (json_object_get (model, "version")));
            fprintf (to, "\"} %lld\n",
                     (long long) number_at (model, rows[row].path) / rows[row].divisor);
        }
    }
}

static void print_one (FILE *to, const char *name, const char *type, const char *help,
                       unsigned long long value)
{
    fprintf (to,
             "# HELP wiremill_gateway_%s %s\n# TYPE wiremill_gateway_%s %s\n"
             "wiremill_gateway_%s %llu\n",
             name, help, name, type, name, value);
}

static void print_gateway (FILE *to, const wm_front_t *front)
{
    static const char *const kinds[] = { "grpc", "http" };
    fputs ("# HELP wiremill_gateway_requests Requests answered, by what came of them\n"
           "# TYPE wiremill_gateway_requests counter\n",
           to);
    for (int kind = 0; kind < 2; kind++)
        for (wm_ks_code_t code = 0; code < WM_KS_CODES; code++)
            fprintf (to, "wiremill_gateway_requests{protocol=\"%s\",code=\"%s\"} %llu\n",
                     kinds[kind], wm_ks_code_name (code),
                     (unsigned long long) front->requests[kind][code]);
    fputs ("# HELP wiremill_gateway_connections Connections of clients\n"
           "# TYPE wiremill_gateway_connections gauge\n",
           to);
    for (int kind = 0; kind < 2; kind++)
        fprintf (to, "wiremill_gateway_connections{protocol=\"%s\"} %zu\n", kinds[kind],
                 front->connections[kind]);
    print_one (to, "received_bytes", "counter", "Bytes of requests", front->bytes_in);
    print_one (to, "sent_bytes", "counter", "Bytes of answers", front->bytes_out);
    print_one (to, "memory_bytes", "gauge", "Memory that requests and answers hold",
               wm_budget_bytes (front->budget));
    print_one (to, "memory_limit_bytes", "gauge", "Memory that they may hold",
               wm_budget_max (front->budget));
}

char *wm_metrics_page (wm_front_t *front)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream (&text, &bytes);
    assert (to);
    json_t *statistics = wm_models_statistics (front->models, "", "", NULL);
    print_models (to, json_object_get (statistics, "model_stats"));
    json_decref (statistics);
    print_gateway (to, front);
    fclose (to);
    return text;
}
