/* wm_metrics_triton.c - a campaign under the names by which Triton counts a model, for boards that
   were made for Triton (GPUs: wm_metrics_workers.c).

   All of a model have the same labels, since boards divide one by another. A request is a batch.
   `model` is the SHA-256 of the model's file, by which a campaign knows it; a campaign has one
   model, which has no versions, so there is no `version`. What the broker does not know has no name
   here: Triton's times of input and output, and its numbers of the CPU (`wiremill help metrics` has
   the table).  */
#include "ops/ask/wm_ask.h"
#include "ops/serve/wm_metrics_private.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

/* clang-format off */
static const wm_metrics_row_t rows[] = {
    {"nv_inference_request_success", "counter",
     "Requests that succeeded: batches whose result is on disk.",
     NULL, NULL, "latency.commit.n", 0},
    {"nv_inference_request_failure", WM_METRICS_KEPT,
     "Requests that failed: batches that failed on a worker, and are tried again.",
     NULL, NULL, "counters.n_fail", 0},
    {"nv_inference_exec_count", "counter",
     "Executions of the model: batches whose result came.",
     NULL, NULL, "latency.compute.n", 0},
    {"nv_inference_request_duration_us", "counter",
     "Microseconds of all requests: from a batch at the broker to its result on disk.",
     NULL, NULL, "latency.queue.sum_s+latency.compute.sum_s+latency.commit.sum_s", 1e6},
    {"nv_inference_queue_duration_us", "counter",
     "Microseconds of all requests in the queue: until the batch was sent to a worker.",
     NULL, NULL, "latency.queue.sum_s", 1e6},
    {"nv_inference_compute_infer_duration_us", "counter",
     "Microseconds of all requests at workers: from then until the result came, with transfers.",
     NULL, NULL, "latency.compute.sum_s", 1e6},
    {"nv_inference_pending_request_count", "gauge",
     "Requests that wait now: batches for which no worker is found yet.",
     NULL, NULL, "batches.queued", 0},
};
static const wm_metrics_row_t count_row =
    {"nv_inference_count", WM_METRICS_KEPT,
     "Inferences: hits whose scores came.", NULL, NULL, "", 0};
/* clang-format on */

void wm_metrics_triton (FILE *out, const json_t *status, const wm_metric_labels_t *campaign)
{
    const char *signature;
    json_t *n, *all = json_object_get (status, "rows");
    double sum = 0;
    wm_metric_labels_t labels = *campaign;
    wm_labels_add (&labels, "model", wm_ask_text (status, "campaign.model"));
    wm_metrics_rows (out, rows, COUNT (rows), status, &labels);
    json_object_foreach (all, signature, n) sum += json_number_value (n);
    wm_metrics_head (out, &count_row);
    if (all)
        wm_metrics_sample (out, &count_row, "", &labels, sum);
}
