/* wm_metrics_workers.c - workers and their GPUs in Prometheus' text format.

   The status lists 100 workers at most, so that a farm of thousands makes no more series than a
   small one; wiremill_workers counts all. Of workers on one GPU the first reports it.  */
#include "ops/ask/wm_ask.h"
#include "ops/serve/wm_metrics_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LISTED "; of the workers that are listed, 100 at most."
#define SINCE_LOAD " since its driver was loaded."

/* clang-format off */
static const wm_metrics_row_t worker_rows[] = {
    {"wiremill_worker_hits_per_second", "gauge",
     "Hits that a worker scores per second now" LISTED, NULL, NULL, "hits_s", 0},
    {"wiremill_worker_batches_running", "gauge",
     "Batches that a worker has" LISTED, NULL, NULL, "running", 0},
    {"wiremill_worker_batches_total", "counter",
     "Batches that a worker scored in its session" LISTED, NULL, NULL, "batches", 0},
    {"wiremill_worker_hits_total", "counter",
     "Hits that a worker scored in its session" LISTED, NULL, NULL, "hits", 0},
    {"wiremill_worker_cpu_seconds_total", "counter",
     "CPU time of a worker with its engine" LISTED, NULL, NULL, "cpu_s", 0},
};
static const wm_metrics_row_t dismissed_row =
    {"wiremill_worker_dismissed", "gauge",
     "1: the broker gives a worker nothing more (wiremill why)" LISTED,
     NULL, NULL, "why", 0};

static const wm_metrics_row_t gpu_rows[] = {
    {"wiremill_gpu_temperature_celsius", "gauge", "Temperature of a GPU.",
     NULL, NULL, "gpu.temperature_c", 0},
    {"wiremill_gpu_power_watts", "gauge", "Power that a GPU takes.",
     NULL, NULL, "gpu.power_w", 0},
    {"wiremill_gpu_power_limit_watts", "gauge", "Power that a GPU may take.",
     NULL, NULL, "gpu.power_limit_w", 0},
    {"wiremill_gpu_energy_joules_total", "counter", "Energy that a GPU took" SINCE_LOAD,
     NULL, NULL, "gpu.energy_j", 0},
    {"wiremill_gpu_load_ratio", "gauge", "Share of the last second in which a GPU computed.",
     NULL, NULL, "gpu.load", 0.01},
    {"wiremill_gpu_memory_used_bytes", "gauge", "Memory of a GPU that is taken.",
     NULL, NULL, "gpu.memory_used_mb", 1048576},
    {"wiremill_gpu_memory_bytes", "gauge", "Memory of a GPU.",
     NULL, NULL, "gpu.memory_mb", 1048576},
    {"wiremill_gpu_ecc_errors_total", "counter", "Errors of a GPU's memory" SINCE_LOAD,
     "kind", "corrected", "gpu.ecc_corrected", 0},
    {NULL, NULL, NULL, "kind", "uncorrected", "gpu.ecc_uncorrected", 0},
};
static const wm_metrics_row_t throttled_row =
    {"wiremill_gpu_throttled", "gauge",
     "1: a GPU lowers its clocks for heat, power or a fault.", NULL, NULL, "gpu.throttled", 0};

/* Triton's names, units and label.  */
static const wm_metrics_row_t triton_rows[] = {
    {"nv_gpu_utilization", "gauge", "Share of the last second in which the GPU computed, 0 to 1.",
     NULL, NULL, "gpu.load", 0.01},
    {"nv_gpu_memory_total_bytes", "gauge", "Bytes of the GPU's memory.",
     NULL, NULL, "gpu.memory_mb", 1048576},
    {"nv_gpu_memory_used_bytes", "gauge", "Bytes of it that are taken.",
     NULL, NULL, "gpu.memory_used_mb", 1048576},
    {"nv_gpu_power_usage", "gauge", "Watts that the GPU takes.",
     NULL, NULL, "gpu.power_w", 0},
    {"nv_gpu_power_limit", "gauge", "Watts that it may take.",
     NULL, NULL, "gpu.power_limit_w", 0},
    {"nv_energy_consumption", "counter", "Joules that the GPU took" SINCE_LOAD,
     NULL, NULL, "gpu.energy_j", 0},
};
/* clang-format on */

#define COUNT(a) (sizeof (a) / sizeof *(a))

enum { OF_WORKER, OF_GPU, OF_TRITON, KINDS };

typedef struct {
    const json_t *worker;
    bool prints[KINDS];
    wm_metric_labels_t labels[KINDS];
} one_t;

/* Whether an earlier worker has the same text there: two samples of one series are an error.  */
static bool is_again (const one_t *all, size_t i, const char *path)
{
    const char *text = wm_ask_text (all[i].worker, path);
    for (size_t j = 0; j < i; j++)
        if (strcmp (wm_ask_text (all[j].worker, path), text) == 0)
            return true;
    return false;
}

/* What the i-th worker reports: of itself, and of a GPU that no worker before it has. A GPU keeps
   its series when its worker is another process. One whose UUID is not known is the worker's own,
   and Triton has no name for it.  */
static void label_one (one_t *all, size_t i, const wm_metric_labels_t *campaign)
{
    one_t *one = &all[i];
    const char *label = wm_ask_text (one->worker, "label");
    const char *uuid = wm_ask_text (one->worker, "gpu.uuid");
    const bool is_new = !is_again (all, i, "label");
    one->prints[OF_WORKER] = is_new;
    one->prints[OF_TRITON] = *uuid && !is_again (all, i, "gpu.uuid");
    one->prints[OF_GPU] = *uuid ? one->prints[OF_TRITON]
                                : is_new && json_is_object (wm_metrics_at (one->worker, "gpu"));
    for (int k = 0; k < KINDS; k++)
        one->labels[k] = *campaign;
    wm_labels_add (&one->labels[OF_WORKER], "worker", label);
    char machine[64]; /* a label is MACHINE:PID/JOB */
    snprintf (machine, sizeof machine, "%.*s", (int) strcspn (label, ":"), label);
    wm_labels_add (&one->labels[OF_GPU], "machine", machine);
    if (!*uuid)
        wm_labels_add (&one->labels[OF_GPU], "worker", label);
    wm_labels_add (&one->labels[OF_GPU], "gpu", wm_ask_text (one->worker, "gpu.gpu"));
    wm_labels_add (&one->labels[OF_GPU], "uuid", uuid);
    wm_labels_add (&one->labels[OF_TRITON], "gpu_uuid", uuid);
}

/* Samples of one metric belong together: a row, then its workers.  */
static void print_rows (FILE *out, const wm_metrics_row_t *rows, size_t n, const one_t *all,
                        size_t n_all, int kind)
{
    const wm_metrics_row_t *metric = rows;
    for (size_t r = 0; r < n; r++) {
        const wm_metrics_row_t *row = &rows[r];
        if (row->name)
            wm_metrics_head (out, metric = row);
        for (size_t i = 0; i < n_all; i++) {
            wm_metric_labels_t labels = all[i].labels[kind];
            double value;
            if (!all[i].prints[kind] || !wm_metrics_find (all[i].worker, row->path, &value))
                continue;
            if (row->label)
                wm_labels_add (&labels, row->label, row->value);
            wm_metrics_sample (out, metric, "", &labels, wm_metrics_scaled (row, value));
        }
    }
}

/* A metric that is 1 where the worker has a text there, 0 where it is empty or null.  */
static void print_texts (FILE *out, const wm_metrics_row_t *row, const one_t *all, size_t n_all,
                         int kind)
{
    wm_metrics_head (out, row);
    for (size_t i = 0; i < n_all; i++)
        if (all[i].prints[kind] && wm_metrics_at (all[i].worker, row->path))
            wm_metrics_sample (out, row, "", &all[i].labels[kind],
                               *wm_ask_text (all[i].worker, row->path) != 0);
}

void wm_metrics_workers (FILE *out, const json_t *status, const wm_metric_labels_t *campaign)
{
    const json_t *workers = json_object_get (status, "workers");
    const size_t n = json_array_size (workers);
    one_t *all = calloc (n + 1, sizeof *all);
    assert (all);
    for (size_t i = 0; i < n; i++)
        all[i].worker = json_array_get (workers, i);
    for (size_t i = 0; i < n; i++)
        label_one (all, i, campaign);
    print_rows (out, worker_rows, COUNT (worker_rows), all, n, OF_WORKER);
    print_texts (out, &dismissed_row, all, n, OF_WORKER);
    print_rows (out, gpu_rows, COUNT (gpu_rows), all, n, OF_GPU);
    print_texts (out, &throttled_row, all, n, OF_GPU);
    print_rows (out, triton_rows, COUNT (triton_rows), all, n, OF_TRITON);
    free (all);
}
