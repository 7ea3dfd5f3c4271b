/* sparse_net.h - small random nets and planes for the tests of the exact-sparse engine, and their
   judge.

   The judge is written here, from the plain definition of a patch, in double. Nets are small and
   random, so that hundreds of (net, plane) pairs run in seconds; the shapes cover what the engine
   treats apart: paddings, several words of filters or columns, every activation, several
   convolutions and roots, any zero level.  */
#ifndef SPARSE_NET_H
#define SPARSE_NET_H

#include "kernels/sparse/wm_sparse.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- random nets and planes ------------------------------------------------------------------ */

static uint64_t seed = 1;

static inline uint32_t random_below (uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) ((seed >> 33) % n);
}

static inline float random_float (double scale) /* about normal */
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += random_below (1u << 20) / (double) (1u << 20) - 0.5;
    return (float) (sum * 1.7 * scale);
}

static inline float *random_floats (size_t n, double scale)
{
    float *p = aligned_alloc (64, (n * sizeof *p + 63) / 64 * 64);
    assert_non_null (p);
    for (size_t i = 0; i < n; i++)
        p[i] = random_float (scale);
    return p;
}

typedef struct {
    uint32_t height, width, channel;
    uint32_t n_conv, kh[3], kw[3], c_out[3];
    wm_act_t act;
    uint32_t n_root, n_out; /* outputs of the first root; the second has 5 */
    float zero;
    double bias; /* scale; negative: every bias is below 0 */
    float bend;
} shape_t;

static const shape_t shapes[] = {
    { 12, 11, 1, 1, { 5 }, { 5 }, { 48 }, WM_ACT_RELU, 1, 128, 0, 0.2, 0 },
    { 12, 11, 1, 1, { 5 }, { 5 }, { 48 }, WM_ACT_RELU, 1, 128, 3, 0.2, 0 },
    { 12, 11, 1, 1, { 5 }, { 5 }, { 48 }, WM_ACT_RELU, 1, 128, 0, -0.2, 0 },
    { 9, 14, 1, 1, { 3 }, { 4 }, { 20 }, WM_ACT_TANH, 1, 24, 3, 0.2, 0 },
    { 9, 14, 1, 1, { 3 }, { 4 }, { 7 }, WM_ACT_NONE, 2, 144, 0, 0.2, 0 },
    { 9, 14, 1, 1, { 1 }, { 1 }, { 130 }, WM_ACT_SIGMOID, 1, 176, -1, 0.2, 0 },
    { 9, 9, 1, 2, { 3, 3 }, { 3, 3 }, { 32, 32 }, WM_ACT_RELU, 1, 64, 0, 0.2, 0 },
    { 10, 9, 1, 3, { 2, 3, 2 }, { 3, 2, 2 }, { 17, 70, 33 }, WM_ACT_RELU, 2, 16, 3, 0.2, 0 },
    { 8, 150, 1, 2, { 3, 2 }, { 3, 5 }, { 8, 12 }, WM_ACT_RELU, 1, 40, 0, 0.2, 0 },
    { 7, 70, 1, 1, { 7 }, { 64 }, { 16 }, WM_ACT_RELU, 1, 16, 3, 0.2, 0 },
    { 9, 14, 1, 1, { 3 }, { 4 }, { 20 }, WM_ACT_LEAKY, 1, 24, 0, 0.2, 0.1f },
    { 9, 14, 1, 2, { 3, 2 }, { 2, 3 }, { 17, 20 }, WM_ACT_ELU, 1, 24, 3, 0.2, 1.7f },
    { 9, 14, 1, 1, { 3 }, { 4 }, { 48 }, WM_ACT_CLIP, 1, 24, 0, 0.2, 0.4f },
    { 9, 14, 1, 1, { 3 }, { 4 }, { 20 }, WM_ACT_GELU, 1, 24, 3, 0.2, 0 },
    { 9, 14, 1, 2, { 3, 2 }, { 2, 3 }, { 17, 20 }, WM_ACT_GELU_TANH, 1, 24, 0, 0.2, 0 },
    { 9, 14, 1, 1, { 3 }, { 4 }, { 48 }, WM_ACT_SWISH, 2, 24, -1, 0.2, 1.7f },
    { 9, 14, 1, 2, { 3, 2 }, { 2, 3 }, { 17, 20 }, WM_ACT_HARDSWISH, 1, 24, 3, 0.2, 0 },
    { 9, 14, 1, 2, { 3, 2 }, { 2, 3 }, { 17, 20 }, WM_ACT_SOFTPLUS, 1, 24, 3, 0.2, 0 },
    { 9, 14, 1, 1, { 3 }, { 4 }, { 20 }, WM_ACT_MISH, 1, 24, 3, -0.2, 0 },
    { 10, 12, 1, 1, { 3 }, { 5 }, { 8 }, WM_ACT_NONE, 2, 40, -1, 0.2, 0 },
    { 6, 66, 1, 1, { 2 }, { 3 }, { 64 }, WM_ACT_RELU, 2, 100, 3, 0.2, 0 },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static inline float *biases (uint32_t n, double scale)
{
    float *p = random_floats (n, fabs (scale));
    for (uint32_t i = 0; i < n && scale < 0; i++)
        p[i] = -fabsf (p[i]) - 1e-3f;
    return p;
}

/* Of the roots' weights: outputs are about as steep as the real network's, so that every kernel
   keeps its promise. Where nets are steeper: a_kernel_is_taken_where_it_is_precise_enough.  */
#define ROOT_SCALE 0.2

static inline wm_dense_t dense_new (int32_t parent, uint32_t n_in, uint32_t n_out, wm_act_t act,
                                    int32_t output)
{
    return (wm_dense_t){ parent,
                         n_in,
                         n_out,
                         act,
                         0,
                         output,
                         random_floats ((size_t) n_in * n_out,
                                        (parent < 0 ? ROOT_SCALE : 1.5) / sqrt (n_in)),
                         random_floats (n_out, 0.2) };
}

/* conv(s) -> root (relu) -> 12 relu -> softmax 3, sigmoid 1; a second root -> 5 tanh outputs.  */
static inline wm_net_t net_new (const shape_t *shape)
{
    wm_net_t net = { .height = shape->height,
                     .width = shape->width,
                     .channel = shape->channel,
                     .n_conv = shape->n_conv };
    uint32_t rows = net.height, cols = net.width, c_in = net.channel;
    for (uint32_t i = 0; i < net.n_conv; i++) {
        uint32_t n = shape->kh[i] * shape->kw[i] * c_in;
        net.conv[i] = (wm_conv_t){ shape->kh[i],
                                   shape->kw[i],
                                   c_in,
                                   shape->c_out[i],
                                   shape->act,
                                   shape->bend,
                                   random_floats ((size_t) n * shape->c_out[i], 1 / sqrt (n)),
                                   biases (shape->c_out[i], shape->bias) };
        rows -= shape->kh[i] - 1, cols -= shape->kw[i] - 1, c_in = shape->c_out[i];
    }
    uint32_t flat = rows * cols * c_in;
    net.dense[net.n_dense++] = dense_new (-1, flat, shape->n_out, WM_ACT_RELU, -1);
    net.dense[net.n_dense++] = dense_new (0, shape->n_out, 12, WM_ACT_RELU, -1);
    net.dense[net.n_dense++] = dense_new (1, 12, 3, WM_ACT_SOFTMAX, 0);
    net.dense[net.n_dense++] = dense_new (1, 12, 1, WM_ACT_SIGMOID, 3);
    if (shape->n_root > 1)
        net.dense[net.n_dense++] = dense_new (-1, flat, 5, WM_ACT_TANH, 4);
    return net;
}

static inline void net_free (wm_net_t *net)
{
    for (uint32_t i = 0; i < net->n_conv; i++) {
        free ((void *) (uintptr_t) net->conv[i].weight);
        free ((void *) (uintptr_t) net->conv[i].bias);
    }
    for (uint32_t i = 0; i < net->n_dense; i++) {
        free ((void *) (uintptr_t) net->dense[i].weight);
        free ((void *) (uintptr_t) net->dense[i].bias);
    }
}

static inline uint32_t n_output_of (const wm_net_t *net)
{
    return net->n_dense > 4 ? 9 : 4;
}

static inline wm_spec_t spec_of (const shape_t *shape, wm_spec_view_t view,
                                 wm_downscale_t downscale)
{
    wm_spec_t spec;
    wm_error_t error;
    assert_int_equal (wm_spec_preset (&spec, "protodune-2021", &error), WM_OK);
    spec.patch_wire = shape->height, spec.patch_bin = shape->width;
    spec.view = view, spec.downscale = downscale;
    spec.adc_min = -10, spec.adc_max = 30;
    spec.out_min = -5 + (double) shape->zero, spec.out_max = 15 + (double) shape->zero;
    return spec;
}

typedef enum { EMPTY, TRACKS, NOISE } fill_t;

/* A plane with runs as `fill` says, and hits everywhere, some far outside, some twice.  */
static inline wm_batch_t plane_new (const wm_spec_t *spec, uint32_t n_wire, uint32_t n_col,
                                    uint32_t n_hit, fill_t fill)
{
    wm_batch_t batch = { .kind = spec->view == WM_FULL_VIEW ? WM_BATCH_BINS : WM_BATCH_TICKS,
                         .n_hit = n_hit,
                         .n_wire = n_wire,
                         .n_col = n_col };
    const float zero = batch.kind == WM_BATCH_BINS ? wm_spec_zero (spec) : 0;
    const uint32_t most = n_wire * (n_col / 2 + 1);
    batch.run_wire = calloc (most, sizeof (uint32_t));
    batch.run_first = calloc (most, sizeof (uint32_t));
    batch.run_length = calloc (most, sizeof (uint32_t));
    batch.value = calloc ((size_t) n_wire * n_col, sizeof (float));
    batch.hit_wire = calloc (n_hit, sizeof (uint32_t));
    batch.hit_col = calloc (n_hit, sizeof (int32_t));
    for (uint32_t w = 0; w < n_wire && fill != EMPTY; w++)
        for (uint32_t c = fill == NOISE ? 0 : random_below (n_col); c < n_col;) {
            uint32_t length = fill == NOISE ? n_col : 1 + random_below (9);
            length = length < n_col - c ? length : n_col - c;
            batch.run_wire[batch.n_run] = w, batch.run_first[batch.n_run] = c;
            batch.run_length[batch.n_run++] = length;
            for (uint32_t i = 0; i < length; i++)
                batch.value[batch.n_value++] =
                    random_below (9) ? zero + random_float (2) : zero; /* a zero inside a run */
            c += length + 1 + random_below (n_col);
        }
    for (uint32_t i = 0; i < n_hit; i++) {
        batch.hit_wire[i] = random_below (n_wire);
        batch.hit_col[i] = (int32_t) random_below (n_col + 40) - 20;
        if (i % 17 == 5)
            batch.hit_col[i] = i % 2 ? INT32_MAX : INT32_MIN;
        if (i % 7 == 3)
            batch.hit_wire[i] = batch.hit_wire[i - 1], batch.hit_col[i] = batch.hit_col[i - 1];
    }
    return batch;
}

static inline void plane_free (wm_batch_t *batch)
{
    free (batch->run_wire);
    free (batch->run_first);
    free (batch->run_length);
    free (batch->value);
    free (batch->hit_wire);
    free (batch->hit_col);
    free (batch->patch);
}

/* The same hits as dense patches.  */
static inline wm_batch_t cut_patches (const wm_spec_t *spec, const wm_batch_t *plane)
{
    size_t each = (size_t) spec->patch_wire * spec->patch_bin;
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                         .n_hit = plane->n_hit,
                         .patch_values = (uint32_t) each,
                         .patch = calloc (plane->n_hit, each * sizeof (float)) };
    for (uint32_t i = 0; i < plane->n_hit; i++)
        wm_image_patch_reference (spec, plane, i, batch.patch + i * each);
    return batch;
}

/* ---- the judge ------------------------------------------------------------------------------- */

/* By their definitions, as PyTorch's pages give them.  */
static inline double judge_gated (wm_act_t act, double bend, double x)
{
    const double softplus = log (1 + exp (x));
    return act == WM_ACT_GELU ? 0.5 * x * (1 + erf (x / sqrt (2)))
           : act == WM_ACT_GELU_TANH
               ? 0.5 * x * (1 + tanh (sqrt (2 / M_PI) * (x + 0.044715 * pow (x, 3))))
           : act == WM_ACT_SWISH     ? x * (1 / (1 + exp (-bend * x)))
           : act == WM_ACT_HARDSWISH ? x * fmin (fmax (x + 3, 0), 6) / 6
           : act == WM_ACT_SOFTPLUS  ? softplus
                                     : x * tanh (softplus);
}

static inline void judge_act (wm_act_t act, double bend, double *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = act == WM_ACT_RELU      ? fmax (x[i], 0)
               : act == WM_ACT_SIGMOID ? 1 / (1 + exp (-x[i]))
               : act == WM_ACT_TANH    ? tanh (x[i])
               : act == WM_ACT_SOFTMAX ? exp (x[i])
               : act == WM_ACT_LEAKY   ? fmax (x[i], 0) + bend * fmin (x[i], 0)
               : act == WM_ACT_ELU     ? fmax (x[i], 0) + bend * (exp (fmin (x[i], 0)) - 1)
               : act == WM_ACT_CLIP    ? fmin (fmax (x[i], 0), bend)
               : act == WM_ACT_NONE    ? x[i]
                                       : judge_gated (act, bend, x[i]);
        sum += x[i];
    }
    for (uint32_t i = 0; i < n && act == WM_ACT_SOFTMAX; i++)
        x[i] /= sum;
}

static inline void judge (const wm_net_t *net, const float *patch, double *scores)
{
    static double now[1u << 16], next[1u << 16], out[8][512];
    uint32_t rows = net->height, cols = net->width;
    for (uint32_t i = 0; i < rows * cols * net->channel; i++)
        now[i] = (double) patch[i];
    for (uint32_t l = 0; l < net->n_conv; l++) {
        const wm_conv_t *conv = &net->conv[l];
        uint32_t r = rows - conv->kh + 1, c = cols - conv->kw + 1;
        for (uint32_t y = 0; y < r; y++)
            for (uint32_t x = 0; x < c; x++)
                for (uint32_t f = 0; f < conv->c_out; f++) {
                    double sum = (double) conv->bias[f];
                    for (uint32_t dy = 0; dy < conv->kh; dy++)
                        for (uint32_t dx = 0; dx < conv->kw; dx++)
                            for (uint32_t i = 0; i < conv->c_in; i++)
                                sum +=
                                    now[((y + dy) * cols + x + dx) * conv->c_in + i] *
                                    (double) conv->weight[((dy * conv->kw + dx) * conv->c_in + i) *
                                                              conv->c_out +
                                                          f];
                    next[(y * c + x) * conv->c_out + f] = sum;
                }
        judge_act (conv->act, (double) conv->bend, next, r * c * conv->c_out);
        memcpy (now, next, sizeof now);
        rows = r, cols = c;
    }
    for (uint32_t i = 0; i < net->n_dense; i++) {
        const wm_dense_t *dense = &net->dense[i];
        const double *in = dense->parent < 0 ? now : out[dense->parent];
        for (uint32_t o = 0; o < dense->n_out; o++) {
            double sum = (double) dense->bias[o];
            for (uint32_t k = 0; k < dense->n_in; k++)
                sum += in[k] * (double) dense->weight[(size_t) k * dense->n_out + o];
            out[i][o] = sum;
        }
        judge_act (dense->act, (double) dense->bend, out[i], dense->n_out);
        if (dense->output >= 0)
            memcpy (scores + dense->output, out[i], dense->n_out * sizeof (double));
    }
}

/* What every hit scores, by the judge; the caller's to free.  */
static inline double *judge_batch (const wm_net_t *net, const wm_spec_t *spec,
                                   const wm_batch_t *batch)
{
    const uint32_t n = n_output_of (net);
    float *patch = calloc ((size_t) net->height * net->width, sizeof *patch);
    double *want = calloc ((size_t) batch->n_hit * n, sizeof *want);
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        wm_image_patch_reference (spec, batch, i, patch);
        judge (net, patch, want + (size_t) i * n);
    }
    free (patch);
    return want;
}

/* NaN where a score is none.  */
static inline double largest_difference (const double *want, const float *scores, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs ((double) scores[i] - want[i]);
        if (isnan (d))
            return d;
        worst = fmax (worst, d);
    }
    return worst;
}

/* Largest difference of a score from the judge.  */
static inline double worst_of (const wm_net_t *net, const wm_spec_t *spec, const wm_batch_t *batch,
                               const float *scores)
{
    double *want = judge_batch (net, spec, batch);
    const double worst =
        largest_difference (want, scores, (size_t) batch->n_hit * n_output_of (net));
    free (want);
    return worst;
}

/* ---- helpers --------------------------------------------------------------------------------- */

typedef struct {
    float *scores;
    uint32_t n, n_output;
} result_t;

static inline result_t score_with (wm_sparse_t *engine, const wm_batch_t *batch)
{
    wm_error_t error = { 0 };
    result_t result = { .n = batch->n_hit, .n_output = engine->n_output };
    _Atomic uint64_t progress = 0;
    result.scores = calloc ((size_t) batch->n_hit * engine->n_output, sizeof (float));
    if (wm_sparse_score (engine, batch, result.scores, &progress, &error))
        fail_msg ("%s", error.text);
    assert_int_equal (progress, batch->n_hit);
    return result;
}

static inline void result_free (result_t *result)
{
    free (result->scores);
}

static inline const wm_sparse_kernel_t *strict_here (void)
{
    const wm_sparse_kernel_t *rank[WM_SPARSE_RANKS];
    wm_error_t error;
    assert_int_equal (wm_sparse_kernel_rank ("fp32", NULL, rank, &error), 1);
    return rank[0];
}

/* kernel NULL: this CPU's strict fp32.  */
static inline wm_sparse_t *engine_new (const wm_net_t *net, const wm_spec_t *spec, uint32_t threads,
                                       const wm_sparse_kernel_t *kernel)
{
    wm_error_t error = { 0 };
    const wm_sparse_config_t config = { .kernel = kernel ? kernel : strict_here (),
                                        .threads = threads };
    wm_sparse_t *engine = wm_sparse_new (net, spec, &config, &error);
    if (!engine)
        fail_msg ("%s", error.text);
    return engine;
}

#endif
