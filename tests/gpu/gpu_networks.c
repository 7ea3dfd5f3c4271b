/* gpu_networks.c - how fast the engine for any CNN scores a network of an ONNX file.

   usage: gpu_networks FILE.onnx NAME [SECONDS]
          gpu_networks counts FILE.onnx NAME
   Prints a row of a Markdown table for half and for strict float32: patches a second over the whole
   way, from patches in host memory, which the engine has pinned as a worker's is, to scores there;
   and whether a launch is a CUDA graph. Scores come of random patches: only time is measured here.
   counts: what our kernels read and write, counted on the stand-in, so that it needs no GPU. Exits
   1 if no row could be measured.  */
#include "kernels/model/wm_seed.h"
#include "schema/wm_limits.h"
#include "tests/gpu/gpu_any_count.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAUNCHES 4u /* of two slots each, a call */

extern const wm_gpu_api_t WM_GPU_TABLE;

static bool measure (const wm_any_net_t *net, const char *name, wm_gpu_precision_t precision,
                     double seconds)
{
    static const char *const precisions[] = { "fp32", "tf32", "fp16" };
    wm_error_t error = { 0 };
    wm_cuda_t *any = wm_any_new (&WM_GPU_TABLE, net, NULL, precision, 0, &error);
    const uint32_t n = any ? LAUNCHES * wm_cuda_fill (any) : 0, n_value = net->size[WM_ANY_INPUT];
    float *patch = calloc ((size_t) n * n_value + 1, sizeof *patch);
    float *scores = calloc ((size_t) n * net->size[WM_ANY_SCORES] + 1, sizeof *scores);
    uint64_t seed = 1;
    for (size_t i = 0; patch && i < (size_t) n * n_value; i++)
        patch[i] = (float) (wm_seed_next (&seed) >> 40) * 0x1p-24f;
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = n, .patch_values = n_value, .patch = patch
    };
    bool fine = any && patch && scores &&
                !wm_cuda_lend (any, patch, (size_t) n * n_value * sizeof *patch, &error) &&
                !wm_cuda_score (any, &batch, scores, NULL, &error);
    uint32_t calls = 0;
    const double start = wm_now_s ();
    for (; fine && (calls == 0 || wm_now_s () - start < seconds); calls++)
        fine = !wm_cuda_score (any, &batch, scores, NULL, &error);
    const double rate = calls * n / (wm_now_s () - start);
    if (fine)
        printf ("| %s | ours, %s, from host memory%s | %u | %.0f | %s %s |\n", name,
                precisions[precision], wm_any_captured (any) ? ", CUDA graph" : "",
                wm_cuda_fill (any) / 2, rate, wm_cuda_signature (any), wm_cuda_choice (any));
    else
        printf ("| %s | ours, %s | | | %s |\n", name, precisions[precision], error.text);
    fflush (stdout);
    wm_cuda_destroy (&any);
    free (patch);
    free (scores);
    return fine;
}

/* One patch a launch: bytes a patch do not depend on it.  */
static bool count (const wm_any_net_t *net, const char *name)
{
    static const wm_gpu_precision_t precision[] = { WM_GPU_F32, WM_GPU_F16 };
    gpu_any_counted_t counted;
    wm_error_t error = { 0 };
    bool fine = true;
    gpu_any_counted_head ();
    for (int p = 0; p < 2 && fine; p++) {
        fine = gpu_any_count (net, precision[p], 1, &counted, &error);
        if (fine)
            gpu_any_counted_print (&counted, name);
        else
            printf ("| %s | | %s | | | | |\n", name, error.text);
    }
    return fine;
}

int main (int argc, char **argv)
{
    const bool counts = argc > 1 && strcmp (argv[1], "counts") == 0;
    wm_error_t error = { 0 };
    argc -= counts, argv += counts;
    if (argc < 3) {
        fputs ("usage: gpu_networks FILE.onnx NAME [SECONDS]\n"
               "       gpu_networks counts FILE.onnx NAME\n",
               stderr);
        return 2;
    }
    const double seconds = argc > 3 ? atof (argv[3]) : 2;
    wm_any_net_t *net = wm_any_net_new (argv[1], NULL, 0, &error);
    if (!net)
        printf ("| %s | ours | | | %s |\n", argv[2], error.text);
    bool fine =
        net && (counts ? count (net, argv[2]) : measure (net, argv[2], WM_GPU_F16, seconds));
    if (net && !counts)
        fine = measure (net, argv[2], WM_GPU_F32, seconds) || fine;
    wm_any_net_destroy (&net);
    return fine ? 0 : 1;
}
