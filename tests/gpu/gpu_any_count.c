/* gpu_any_count.c - what the kernels for any CNN do for a network: counted on the stand-in.

   Each access of a kernel is counted as it happens: what a pool reads twice counts twice, although
   a cache may have it. What cuDNN reads and writes is not counted.  */
#include "tests/gpu/gpu_any_count.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FREE_BYTES ((size_t) 64 << 30)

bool gpu_any_count (const wm_any_net_t *net, wm_gpu_precision_t precision, uint32_t rows,
                    gpu_any_counted_t *counted, wm_error_t *error)
{
    const uint32_t n = net->size[WM_ANY_INPUT];
    float *patch = calloc ((size_t) rows * n, sizeof *patch),
          *scores = calloc ((size_t) rows * net->size[WM_ANY_SCORES], sizeof *scores);
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = rows, .patch_values = n, .patch = patch
    };
    *counted = (gpu_any_counted_t){ .precision = precision, .rows = rows };
    wm_gpu_fake = (wm_gpu_fake_t){ .free_bytes = FREE_BYTES, .counts = true };
    wm_cuda_t *any = wm_any_new (&wm_gpu_stand_in, net, NULL, precision, rows, error);
    bool fine = any && patch && scores;
    memset (wm_gpu_fake.work, 0, sizeof wm_gpu_fake.work);
    fine = fine && !wm_cuda_score (any, &batch, scores, NULL, error);
    memcpy (counted->work, wm_gpu_fake.work, sizeof counted->work);
    double wide = 0;
    for (int k = 0; k < WM_GPU_KERNELS; k++) {
        const wm_gpu_fake_work_t *work = &counted->work[k];
        counted->launches += work->launches;
        counted->read += work->read / rows, counted->written += work->written / rows;
        wide += 16. * (double) work->wide / rows;
    }
    counted->wide = wide / (counted->read + counted->written);
    wm_cuda_destroy (&any);
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    free (patch);
    free (scores);
    return fine;
}

void gpu_any_counted_head (void)
{
    printf (
        "| network | precision | kernel | launches | kB read a patch | kB written | by 16 bytes "
        "at once, %% |\n|---|---|---|---|---|---|---|\n");
}

static void print_row (const char *what, const char *precision, const char *kernel,
                       uint32_t launches, double read, double written, double wide)
{
    printf ("| %s | %s | %s | %u | %.1f | %.1f | %.0f |\n", what, precision, kernel, launches,
            read / 1e3, written / 1e3, 100 * wide);
}

void gpu_any_counted_print (const gpu_any_counted_t *counted, const char *what)
{
    static const char *const precisions[] = { "fp32", "tf32", "fp16" };
    static const char *const name[WM_GPU_KERNELS] = {
        [WM_GPU_FILL] = "fill", [WM_GPU_COPY] = "copy", [WM_GPU_SPREAD] = "spread",
        [WM_GPU_POOL] = "pool", [WM_GPU_JOIN] = "join", [WM_GPU_SCAN] = "scan"
    };
    const char *precision = precisions[counted->precision];
    for (int k = 0; k < WM_GPU_KERNELS; k++) {
        const wm_gpu_fake_work_t *work = &counted->work[k];
        const double bytes = work->read + work->written;
        if (work->launches)
            print_row (what, precision, name[k], work->launches, work->read / counted->rows,
                       work->written / counted->rows,
                       bytes > 0 ? 16. * (double) work->wide / bytes : 0);
    }
    print_row (what, precision, "all of ours", counted->launches, counted->read, counted->written,
               counted->wide);
    fflush (stdout);
}
