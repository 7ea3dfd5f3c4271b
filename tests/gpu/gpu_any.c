/* gpu_any.c - a CNN of every step that the engine for any CNN has, on the GPU and on the stand-in.

   Built in code, because this program has no reader of ONNX: patches of (3, 20, 24) -> channels
   last -> convolution 5x5, stride 2, padded, ReLU -> three ways: maximum, mean with padding, the
   sum with a convolution in groups, dilated; a fourth is a convolution of the patch as it came,
   taken as one channel of (60, 24) -> concatenated -> 1x1 over the flattened rest, in ONNX's order
   -> softmax and tanh.  */
#include "kernels/cudnn/wm_any.h"
#include "kernels/model/wm_seed.h"
#include "tests/gpu/gpu_check.h"
#include "tests/standin/wm_gpu_fake.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 64u
#define HITS 100u

static wm_any_step_t *add (wm_any_net_t *net, wm_any_kind_t kind, uint32_t from, uint32_t to,
                           uint32_t size)
{
    wm_any_step_t *step = &net->step[net->n_step++];
    *step = (wm_any_step_t){ .kind = kind, .from = from, .to = to, .second = WM_ANY_NONE };
    net->size[to] = size;
    net->n_buffer = net->n_buffer > to ? net->n_buffer : to + 1;
    return step;
}

static size_t draw (wm_any_net_t *net, size_t n, float scale, uint64_t *seed)
{
    const size_t at = (net->n_constant + 63) / 64 * 64;
    net->n_constant = at + n;
    for (size_t i = at; i < at + n; i++)
        net->constant[i] = scale * ((float) (wm_seed_next (seed) >> 40) * 0x1p-23f - 1);
    return at;
}

static void add_conv (wm_any_net_t *net, uint32_t from, uint32_t to, wm_gpu_anyconv_t conv,
                      uint64_t *seed)
{
    const uint32_t run = conv.kernel[0] * conv.kernel[1] * conv.c_in / conv.groups;
    wm_any_step_t *step = add (net, WM_ANY_CONV, from, to, conv.out[0] * conv.out[1] * conv.c_out);
    step->conv = conv;
    step->weight = draw (net, (size_t) run * conv.c_out, 1.7f / sqrtf ((float) run), seed);
    step->bias = draw (net, conv.c_out, 0.3f, seed);
}

/* (rows, places, channels) between channels last and not, or into a wider row.  */
static void add_copy (wm_any_net_t *net, uint32_t from, uint32_t to, uint32_t size,
                      const uint32_t dim[2], const uint32_t from_stride[2],
                      const uint32_t to_stride[2], uint32_t first)
{
    const uint32_t n = dim[0] * dim[1];
    add (net, WM_ANY_COPY, from, to, size)->copy =
        (wm_gpu_copy_t){ .from_row = n,
                         .to_row = size,
                         .to_first = first,
                         .n = n,
                         .dim = { 1, 1, 1, dim[0], dim[1] },
                         .from_stride = { 0, 0, 0, from_stride[0], from_stride[1] },
                         .to_stride = { 0, 0, 0, to_stride[0], to_stride[1] } };
}

static wm_any_net_t *make_net (void)
{
    enum { X = 2, CONV, MOST, MEAN, GROUPS, SUM, RAW, JOINED, FLAT, DENSE };
    uint64_t seed = 1;
    wm_any_net_t *net = calloc (1, sizeof *net);
    if (!net || !(net->constant = calloc (1 << 16, sizeof (float)))) {
        wm_any_net_destroy (&net);
        return NULL;
    }
    const uint32_t in = 3 * 20 * 24, places = 10 * 12, one = 8 * places, all = 32 * places;
    net->size[WM_ANY_INPUT] = in;
    add_copy (net, WM_ANY_INPUT, X, in, (uint32_t[]){ 480, 3 }, (uint32_t[]){ 1, 480 },
              (uint32_t[]){ 3, 1 }, 0);
    add_conv (net, X, CONV,
              (wm_gpu_anyconv_t){ .relu = true,
                                  .c_in = 3,
                                  .c_out = 8,
                                  .groups = 1,
                                  .in = { 20, 24 },
                                  .out = { 10, 12 },
                                  .kernel = { 5, 5 },
                                  .stride = { 2, 2 },
                                  .dilation = { 1, 1 },
                                  .before = { 2, 2 },
                                  .after = { 2, 2 } },
              &seed);
    for (uint32_t mean = 0; mean < 2; mean++)
        add (net, WM_ANY_POOL, CONV, MOST + mean, one)->pool =
            (wm_gpu_pool_t){ .channels = 8,
                             .mean = mean,
                             .count_padding = mean,
                             .in = { 10, 12 },
                             .out = { 10, 12 },
                             .kernel = { 3, 3 },
                             .stride = { 1, 1 },
                             .before = { 1, 1 } };
    add_conv (net, CONV, GROUPS,
              (wm_gpu_anyconv_t){ .c_in = 8,
                                  .c_out = 8,
                                  .groups = 4,
                                  .in = { 10, 12 },
                                  .out = { 10, 12 },
                                  .kernel = { 3, 3 },
                                  .stride = { 1, 1 },
                                  .dilation = { 2, 2 },
                                  .before = { 2, 2 },
                                  .after = { 2, 2 } },
              &seed);
    wm_any_step_t *sum = add (net, WM_ANY_JOIN, GROUPS, SUM, one);
    sum->second = CONV,
    sum->join = (wm_gpu_join_t){ .n = one, .act = WM_ACT_SIGMOID, WM_GPU_JOIN_PLAIN };
    add_conv (net, WM_ANY_INPUT, RAW,
              (wm_gpu_anyconv_t){ .relu = true,
                                  .c_in = 1,
                                  .c_out = 8,
                                  .groups = 1,
                                  .in = { 60, 24 },
                                  .out = { 10, 12 },
                                  .kernel = { 6, 2 },
                                  .stride = { 6, 2 },
                                  .dilation = { 1, 1 } },
              &seed);
    for (uint32_t k = 0; k < 4; k++)
        add_copy (net, (uint32_t[]){ MOST, MEAN, SUM, RAW }[k], JOINED, all,
                  (uint32_t[]){ places, 8 }, (uint32_t[]){ 8, 1 }, (uint32_t[]){ 32, 1 }, 8 * k);
    add_copy (net, JOINED, FLAT, all, (uint32_t[]){ 32, places }, (uint32_t[]){ 1, 32 },
              (uint32_t[]){ places, 1 }, 0);
    add_conv (net, FLAT, DENSE,
              (wm_gpu_anyconv_t){ .c_in = all,
                                  .c_out = 10,
                                  .groups = 1,
                                  .in = { 1, 1 },
                                  .out = { 1, 1 },
                                  .kernel = { 1, 1 },
                                  .stride = { 1, 1 },
                                  .dilation = { 1, 1 } },
              &seed);
    wm_any_step_t *tanh_of = add (net, WM_ANY_JOIN, DENSE, DENSE + 1, 10);
    tanh_of->join = (wm_gpu_join_t){ .n = 10, .act = WM_ACT_TANH, WM_GPU_JOIN_PLAIN };
    add (net, WM_ANY_SPREAD, DENSE, DENSE, 10)->spread = (wm_gpu_spread_t){ .groups = 2, .n = 5 };
    for (uint32_t k = 0; k < 2; k++)
        add_copy (net, DENSE + k, WM_ANY_SCORES, 20, (uint32_t[]){ 1, 10 }, (uint32_t[]){ 0, 1 },
                  (uint32_t[]){ 0, 1 }, 10 * k);
    return net;
}

bool gpu_any_agrees (wm_gpu_precision_t precision, char text[400])
{
    wm_error_t error = { 0 };
    uint64_t seed = 2;
    wm_any_net_t *net = make_net ();
    const uint32_t n = 3 * 20 * 24;
    float *patch = calloc (HITS * n, sizeof *patch), *scores = calloc (2 * HITS, 20 * 4);
    for (uint32_t i = 0; patch && i < HITS * n; i++)
        patch[i] = (float) (wm_seed_next (&seed) >> 40) * 0x1p-23f - 1;
    wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = HITS, .patch_values = n, .patch = patch
    };
    const wm_gpu_api_t *const api[2] = { &wm_gpu_real, &wm_gpu_stand_in };
    double worst = 0;
    bool fine = net && patch && scores, captured = false;
    for (int k = 0; k < 2 && fine; k++) {
        wm_cuda_t *any = wm_any_new (api[k], net, NULL, k ? WM_GPU_F32 : precision, ROWS, &error);
        captured = k ? captured : any && wm_any_captured (any);
        fine = any && !wm_cuda_score (any, &batch, scores + (size_t) k * HITS * 20, NULL, &error);
        wm_cuda_destroy (&any);
    }
    for (uint32_t i = 0; i < HITS * 20 && fine; i++) {
        double d = fabs ((double) scores[i] - (double) scores[HITS * 20 + i]);
        worst = d <= worst ? worst : d;
    }
    if (fine)
        snprintf (text, 400, "off by %.1e, %s", worst,
                  captured ? "as a CUDA graph" : "step by step");
    else
        snprintf (text, 400, "%.390s", error.text);
    wm_any_net_destroy (&net);
    free (patch);
    free (scores);
    return fine && worst <= (precision == WM_GPU_F32 ? 1e-5 : 5e-3);
}
