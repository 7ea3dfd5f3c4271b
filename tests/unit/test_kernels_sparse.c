/* test_kernels_sparse.c - the exact-sparse engine against double, in every instruction set here.

   The judge is written here, from the plain definition of a patch, in double. Nets are small and
   random, so that hundreds of (net, plane) pairs run in seconds; the shapes cover what the engine
   treats apart: paddings, several words of filters or columns, every activation, several
   convolutions and roots, any zero level.  */
#include "kernels/wm_sparse.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- random nets and planes ------------------------------------------------------------------ */

static uint64_t seed = 1;

static uint32_t random_below (uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) ((seed >> 33) % n);
}

static float random_float (double scale) /* about normal */
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += random_below (1u << 20) / (double) (1u << 20) - 0.5;
    return (float) (sum * 1.7 * scale);
}

static float *random_floats (size_t n, double scale)
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
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static float *biases (uint32_t n, double scale)
{
    float *p = random_floats (n, fabs (scale));
    for (uint32_t i = 0; i < n && scale < 0; i++)
        p[i] = -fabsf (p[i]) - 1e-3f;
    return p;
}

static wm_dense_t dense_new (int32_t parent, uint32_t n_in, uint32_t n_out, wm_act_t act,
                             int32_t output)
{
    return (wm_dense_t){ parent,
                         n_in,
                         n_out,
                         act,
                         0,
                         output,
                         random_floats ((size_t) n_in * n_out, 1.5 / sqrt (n_in)),
                         random_floats (n_out, 0.2) };
}

/* conv(s) -> root (relu) -> 12 relu -> softmax 3, sigmoid 1; a second root -> 5 tanh outputs.  */
static wm_net_t net_new (const shape_t *shape)
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

static void net_free (wm_net_t *net)
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

static uint32_t n_output_of (const wm_net_t *net)
{
    return net->n_dense > 4 ? 9 : 4;
}

static wm_spec_t spec_of (const shape_t *shape, wm_view_t view, wm_downscale_t downscale)
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
static wm_batch_t plane_new (const wm_spec_t *spec, uint32_t n_wire, uint32_t n_col, uint32_t n_hit,
                             fill_t fill)
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

static void plane_free (wm_batch_t *batch)
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
static wm_batch_t cut_patches (const wm_spec_t *spec, const wm_batch_t *plane)
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
static double judge_gated (wm_act_t act, double bend, double x)
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

static void judge_act (wm_act_t act, double bend, double *x, uint32_t n)
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

static void judge (const wm_net_t *net, const float *patch, double *scores)
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

/* Largest difference of a score from the judge.  */
static double worst_of (const wm_net_t *net, const wm_spec_t *spec, const wm_batch_t *batch,
                        const float *scores)
{
    const uint32_t n = n_output_of (net);
    float *patch = calloc ((size_t) net->height * net->width, sizeof *patch);
    double worst = 0, want[16];
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        wm_image_patch_reference (spec, batch, i, patch);
        judge (net, patch, want);
        for (uint32_t k = 0; k < n; k++)
            worst = fmax (worst, fabs ((double) scores[i * n + k] - want[k]));
    }
    free (patch);
    return worst;
}

/* ---- helpers --------------------------------------------------------------------------------- */

typedef struct {
    float *scores;
    uint32_t n, n_output;
} result_t;

static result_t score_with (wm_sparse_t *engine, const wm_batch_t *batch)
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

static void result_free (result_t *result)
{
    free (result->scores);
}

static wm_sparse_t *engine_new (const wm_net_t *net, const wm_spec_t *spec, uint32_t threads,
                                const wm_sparse_kernel_t *kernel)
{
    wm_error_t error = { 0 };
    const wm_sparse_config_t config = { .kernel = kernel, .threads = threads };
    wm_sparse_t *engine = wm_sparse_new (net, spec, &config, &error);
    if (!engine)
        fail_msg ("%s", error.text);
    return engine;
}

/* Says which kernels this machine cannot run, so that a green test is not taken for more.  */
static int name_the_untested (void **state)
{
    const wm_sparse_kernel_t *const known[] = { &wm_sparse_kernel_c,
                                                &wm_sparse_kernel_avx2,
                                                &wm_sparse_kernel_avx512,
                                                &wm_sparse_kernel_avx512_bf16,
                                                &wm_sparse_kernel_amx_bf16,
                                                &wm_sparse_kernel_amx_bf16x3,
                                                &wm_sparse_kernel_avx2_int16,
                                                &wm_sparse_kernel_avx_vnni_int16,
                                                &wm_sparse_kernel_avx512_vnni_int16 };
    (void) state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const wm_sparse_kernel_t *kernel = NULL;
        for (uint32_t k = 0; (kernel = wm_sparse_kernel (k)) != NULL && kernel != known[i]; k++)
            ;
        if (!kernel)
            print_message ("NOT TESTED, this machine cannot run it: %s/%s\n", known[i]->isa,
                           known[i]->precision);
    }
    return 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static double tolerance (const wm_sparse_kernel_t *kernel)
{
    return strcmp (kernel->precision, "fp32") == 0     ? 2e-6
           : strcmp (kernel->precision, "bf16x3") == 0 ? 5e-5
           : strcmp (kernel->precision, "int16") == 0  ? 1e-3
                                                       : 2e-2; /* wild random nets */
}

static void equals_double_on_planes (void **state)
{
    (void) state;
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        const uint32_t hits = kernel->twin ? 40 : 60; /* twins are slow */
        double worst = 0;
        for (uint32_t s = 0; s < SHAPES; s++) {
            wm_net_t net = net_new (&shapes[s]);
            wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
            wm_sparse_t *engine = engine_new (&net, &spec, 1 + s % 2, kernel);
            for (fill_t fill = EMPTY; fill <= NOISE; fill++) {
                wm_batch_t batch = plane_new (&spec, 30, 75, fill == EMPTY ? 1 : hits, fill);
                result_t result = score_with (engine, &batch);
                double d = worst_of (&net, &spec, &batch, result.scores);
                worst = fmax (worst, d);
                if (!(d <= tolerance (kernel)))
                    fail_msg ("shape %u, fill %d, %s/%s: %g from double", s, (int) fill,
                              kernel->isa, kernel->precision, d);
                result_free (&result);
                plane_free (&batch);
            }
            wm_sparse_destroy (&engine);
            assert_null (engine);
            net_free (&net);
        }
        print_message ("%s/%s: largest difference from double %.2g\n", kernel->isa,
                       kernel->precision, worst);
    }
}

static void equals_double_in_own_view (void **state)
{
    (void) state;
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++)
        for (wm_downscale_t d = WM_MEAN; d <= WM_MAXMEAN; d++)
            for (uint32_t window = 3; window <= 6; window += 3) { /* 3 x 11 ticks: an odd number */
                wm_net_t net = net_new (&shapes[0]);
                wm_spec_t spec = spec_of (&shapes[0], WM_OWN_VIEW, d);
                spec.drift_window = window;
                wm_sparse_t *engine = engine_new (&net, &spec, 2, kernel);
                wm_batch_t batch = plane_new (&spec, 20, 333, 80, TRACKS);
                result_t result = score_with (engine, &batch);
                double far = worst_of (&net, &spec, &batch, result.scores);
                if (!(far <= tolerance (kernel)))
                    fail_msg ("downscale %d, window %u, %s: %g from double", (int) d, window,
                              kernel->isa, far);
                result_free (&result);
                plane_free (&batch);
                wm_sparse_destroy (&engine);
                net_free (&net);
            }
}

/* Bits: the whole plane by one thread, against random slices by two or three, against dense
   patches, against groups of a few cells.  */
static void grouping_never_changes_bits (void **state)
{
    (void) state;
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++)
        for (uint32_t s = 0; s < SHAPES; s++) {
            wm_net_t net = net_new (&shapes[s]);
            wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
            wm_sparse_t *one = engine_new (&net, &spec, 1, kernel);
            wm_sparse_t *many = engine_new (&net, &spec, 2 + s % 2, kernel);
            wm_batch_t batch = plane_new (&spec, 40, 90, kernel->twin ? 90 : 500, TRACKS);
            wm_batch_t dense = cut_patches (&spec, &batch);
            result_t whole = score_with (one, &batch), again = score_with (many, &batch);
            result_t patches = score_with (many, &dense);
            const size_t bytes = batch.n_hit * whole.n_output * sizeof (float);
            assert_memory_equal (whole.scores, again.scores, bytes);
            assert_memory_equal (whole.scores, patches.scores, bytes);
            for (uint32_t first = 0; first < batch.n_hit;) {
                wm_batch_t slice = batch;
                uint32_t left = batch.n_hit - first;
                slice.n_hit = 1 + random_below (random_below (2) ? 3 : 200);
                slice.n_hit = slice.n_hit < left ? slice.n_hit : left;
                slice.hit_wire += first, slice.hit_col += first;
                many->slot_bytes_max = random_below (2) ? 128u << 20 : 1 + random_below (200000);
                many->full_from = random_below (3) * 0.8; /* always, sometimes, never */
                result_t part = score_with (many, &slice);
                assert_memory_equal (whole.scores + (size_t) first * whole.n_output, part.scores,
                                     slice.n_hit * whole.n_output * sizeof (float));
                first += slice.n_hit;
                result_free (&part);
            }
            result_free (&whole), result_free (&again), result_free (&patches);
            plane_free (&batch), plane_free (&dense);
            wm_sparse_destroy (&one), wm_sparse_destroy (&many);
            net_free (&net);
        }
}

/* Bits again: any hits of a plane in any order, some of them several times, by 1 to 4 threads.  */
static void any_grouping_gives_the_same_bits (void **state)
{
    (void) state;
    const wm_sparse_kernel_t *kernel;
    uint32_t groupings = 0;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++)
        for (uint32_t s = 0; s < SHAPES; s++) {
            wm_net_t net = net_new (&shapes[s]);
            wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
            wm_batch_t batch = plane_new (&spec, 40, 90, 60, s % 3 ? TRACKS : NOISE);
            wm_sparse_t *engine[4];
            for (uint32_t t = 0; t < 4; t++)
                engine[t] = engine_new (&net, &spec, t + 1, kernel);
            result_t whole = score_with (engine[0], &batch);
            const size_t each = whole.n_output * sizeof (float);
            uint32_t wire[64], from[64];
            int32_t col[64];
            for (uint32_t round = 0; round < (kernel->twin ? 4 : 100); round++, groupings++) {
                wm_batch_t part = batch;
                part.n_hit = 1 + random_below (round % 4 ? 6 : 64);
                part.hit_wire = wire, part.hit_col = col;
                for (uint32_t i = 0; i < part.n_hit; i++) {
                    from[i] = random_below (batch.n_hit);
                    wire[i] = batch.hit_wire[from[i]], col[i] = batch.hit_col[from[i]];
                }
                result_t result = score_with (engine[round % 4], &part);
                for (uint32_t i = 0; i < part.n_hit; i++)
                    assert_memory_equal (result.scores + i * whole.n_output,
                                         whole.scores + from[i] * whole.n_output, each);
                result_free (&result);
            }
            result_free (&whole);
            for (uint32_t t = 0; t < 4; t++)
                wm_sparse_destroy (&engine[t]);
            plane_free (&batch);
            net_free (&net);
        }
    print_message ("%u groupings\n", groupings);
}

/* On a machine with AMX: tiles and their twins give the same bits.  */
static void twins_equal_the_tiles (void **state)
{
    (void) state;
    const wm_sparse_kernel_t *const pairs[][2] = {
        { &wm_sparse_kernel_amx_bf16, &wm_sparse_kernel_amx_twin_bf16 },
        { &wm_sparse_kernel_amx_bf16x3, &wm_sparse_kernel_amx_twin_bf16x3 },
    };
    const wm_sparse_kernel_t *kernel;
    uint32_t which = 0, compared = 0;
    for (; (kernel = wm_sparse_kernel (which)) != NULL; which++)
        for (size_t p = 0; p < 2; p++)
            for (uint32_t s = 0; s < SHAPES && kernel == pairs[p][0]; s++, compared++) {
                wm_net_t net = net_new (&shapes[s]);
                wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
                wm_sparse_t *real = engine_new (&net, &spec, 2, kernel);
                wm_sparse_t *twin = engine_new (&net, &spec, 2, pairs[p][1]);
                wm_batch_t batch = plane_new (&spec, 30, 75, 60, s % 2 ? TRACKS : NOISE);
                result_t a = score_with (real, &batch), b = score_with (twin, &batch);
                assert_memory_equal (a.scores, b.scores, a.n * a.n_output * sizeof (float));
                result_free (&a), result_free (&b);
                plane_free (&batch);
                wm_sparse_destroy (&real), wm_sparse_destroy (&twin);
                net_free (&net);
            }
    if (compared == 0)
        skip ();
}

/* Integers are exact, and all else has one order: every instruction set gives the same bits.  */
static void integers_are_the_same_everywhere (void **state)
{
    (void) state;
    for (uint32_t s = 0; s < SHAPES; s++) {
        wm_net_t net = net_new (&shapes[s]);
        wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
        wm_batch_t batch = plane_new (&spec, 30, 75, 60, s % 2 ? TRACKS : NOISE);
        const wm_sparse_kernel_t *kernel;
        result_t first = { 0 };
        for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
            if (kernel->sum_max == 0)
                continue;
            wm_sparse_t *engine = engine_new (&net, &spec, 1, kernel);
            result_t one = score_with (engine, &batch);
            wm_sparse_destroy (&engine);
            if (!first.scores) {
                first = one;
                continue;
            }
            assert_memory_equal (one.scores, first.scores, one.n * one.n_output * sizeof (float));
            result_free (&one);
        }
        result_free (&first);
        plane_free (&batch);
        net_free (&net);
    }
}

/* The sums of integers at their very largest: all filters of a position alike, all its weights of
   one sign, every value the largest. Beside each, an output with one large weight among small.  */
static void integers_never_overflow (void **state)
{
    (void) state;
    for (int act = 0; act < 2; act++) {
        shape_t shape = { 6, 6,  1, 1,   { 1 }, { 1 }, { 130 }, act ? WM_ACT_NONE : WM_ACT_RELU,
                          2, 16, 0, 0.2, 0 };
        wm_net_t net = net_new (&shape);
        float *conv = (float *) (uintptr_t) net.conv[0].weight;
        float *bias = (float *) (uintptr_t) net.conv[0].bias;
        float *dense = (float *) (uintptr_t) net.dense[4].weight;
        for (uint32_t f = 0; f < 130; f++)
            conv[f] = 1, bias[f] = 0;
        for (uint32_t i = 0; i < net.dense[4].n_in * 5; i++) {
            const float sign = i % 5 % 2 ? -1 : 1, small = i / 5 % 130 ? 1e-4f : 1;
            dense[i] = sign * 1e-3f * (i % 5 < 3 ? 1 : small) * (i / 5 / 130 == 7 ? 4 : 1);
        }
        wm_spec_t spec = spec_of (&shape, WM_FULL_VIEW, WM_MEAN);
        wm_batch_t batch = plane_new (&spec, 30, 75, 60, NOISE);
        const wm_sparse_kernel_t *kernel;
        for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
            if (kernel->sum_max == 0)
                continue;
            wm_sparse_t *engine = engine_new (&net, &spec, 1, kernel);
            result_t result = score_with (engine, &batch);
            double d = worst_of (&net, &spec, &batch, result.scores);
            if (!(d <= tolerance (kernel)))
                fail_msg ("%s/%s: %g from double", kernel->isa, kernel->precision, d);
            result_free (&result);
            wm_sparse_destroy (&engine);
        }
        plane_free (&batch);
        net_free (&net);
    }
}

/* 200,000 hits at once, of 12,000 places: some against double, all against batches of few.  */
static void many_hits_are_scored_at_once (void **state)
{
    (void) state;
    enum { HITS = 200000, LOOKS = 400 };
    const wm_sparse_kernel_t *kernel;
    wm_net_t net = net_new (&shapes[3]);
    wm_spec_t spec = spec_of (&shapes[3], WM_FULL_VIEW, WM_MEAN);
    wm_batch_t batch = plane_new (&spec, 120, 100, HITS, TRACKS);
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        if (kernel->twin)
            continue;
        wm_sparse_t *engine = engine_new (&net, &spec, 2, kernel);
        result_t all = score_with (engine, &batch);
        for (uint32_t look = 0; look < LOOKS; look++) {
            wm_batch_t few = batch;
            uint32_t first = random_below (HITS - 3);
            few.hit_wire += first, few.hit_col += first, few.n_hit = 1 + look % 3;
            result_t some = score_with (engine, &few);
            assert_memory_equal (some.scores, all.scores + (size_t) first * all.n_output,
                                 some.n * some.n_output * sizeof (float));
            assert_true (worst_of (&net, &spec, &few, some.scores) <= tolerance (kernel));
            result_free (&some);
        }
        result_free (&all);
        wm_sparse_destroy (&engine);
    }
    plane_free (&batch);
    net_free (&net);
}

static void channels_are_taken_dense (void **state)
{
    (void) state;
    shape_t shape = shapes[6];
    shape.channel = 3;
    wm_net_t net = net_new (&shape);
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES, .n_hit = 9, .patch_values = 9 * 9 * 3 };
    batch.patch = random_floats (9 * 9 * 9 * 3, 1);
    for (uint32_t i = 0; i < batch.n_hit * batch.patch_values; i++)
        if (random_below (3))
            batch.patch[i] = 0;
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        wm_sparse_t *engine = engine_new (&net, NULL, 2, kernel);
        result_t result = score_with (engine, &batch);
        for (uint32_t i = 0; i < batch.n_hit; i++) {
            double want[16];
            judge (&net, batch.patch + i * batch.patch_values, want);
            for (uint32_t k = 0; k < 4; k++)
                assert_true (fabs (want[k] - (double) result.scores[i * 4 + k]) <=
                             tolerance (kernel));
        }
        result_free (&result);
        wm_sparse_destroy (&engine);
    }
    plane_free (&batch);
    net_free (&net);
}

static void nonfinite_is_never_a_number (void **state)
{
    (void) state;
    wm_net_t net = net_new (&shapes[0]);
    uint32_t each = net.height * net.width;
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES, .n_hit = 3, .patch_values = each };
    batch.patch = random_floats (3 * each, 1);
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++)
        for (int bad = 0; bad < 2; bad++) {
            wm_sparse_t *engine = engine_new (&net, NULL, 1, kernel);
            batch.patch[each + 40] = bad ? NAN : INFINITY;
            result_t result = score_with (engine, &batch);
            bool finite = true;
            for (uint32_t i = 0; i < 4; i++) {
                finite &= isfinite (result.scores[4 + i]) != 0;
                assert_true (isfinite (result.scores[i]) && isfinite (result.scores[8 + i]));
            }
            assert_false (finite); /* the door then holds it */
            result_free (&result);
            wm_sparse_destroy (&engine);
        }
    plane_free (&batch);
    net_free (&net);
}

static void nothing_is_allocated_after_warm_up (void **state)
{
    (void) state;
    wm_net_t net = net_new (&shapes[0]);
    wm_spec_t spec = spec_of (&shapes[0], WM_FULL_VIEW, WM_MEAN);
    wm_sparse_t *engine = engine_new (&net, &spec, 2, NULL);
    wm_batch_t batch = plane_new (&spec, 60, 100, 300, NOISE);
    uint64_t before = 0;
    for (int i = 0; i < 5; i++) {
        result_t result = score_with (engine, &batch);
        result_free (&result);
        if (i == 0)
            before = wm_sparse_stats (engine).allocations;
        assert_int_equal (wm_sparse_stats (engine).allocations, before);
    }
    assert_true (before > 0);
    plane_free (&batch);
    wm_sparse_destroy (&engine);
    net_free (&net);
}

static size_t size_of (const char *path)
{
    struct stat stat_;
    return stat (path, &stat_) ? 0 : (size_t) stat_.st_size;
}

/* Packed weights are one file for all; a file that is another's is not believed.  */
static void packed_weights_are_shared (void **state)
{
    (void) state;
    char folder[] = "/tmp/wm-sparse-XXXXXX", path[128], prefix[64];
    assert_non_null (mkdtemp (folder));
    snprintf (prefix, sizeof prefix, "%s/model", folder);
    wm_net_t net = net_new (&shapes[4]); /* two roots */
    wm_spec_t spec = spec_of (&shapes[4], WM_FULL_VIEW, WM_MEAN);
    wm_batch_t batch = plane_new (&spec, 30, 75, 40, TRACKS);
    wm_error_t error = { 0 };
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        wm_sparse_config_t config = { .kernel = kernel, .cache = prefix };
        wm_sparse_t *alone = engine_new (&net, &spec, 1, kernel);
        result_t want = score_with (alone, &batch);
        wm_sparse_destroy (&alone);
        snprintf (path, sizeof path, "%s.%s-%s-0", prefix, kernel->isa, kernel->precision);
        enum { FIRST, SECOND, DAMAGED, SHORT, UNWRITABLE, TIMES };
        for (int time = FIRST; time < TIMES; time++) {
            if (time == DAMAGED && kernel->pack) {
                int fd = open (path, O_WRONLY);
                assert_int_equal (pwrite (fd, "X", 1, (off_t) size_of (path) / 2), 1);
                close (fd);
            }
            if (time == SHORT && kernel->pack)
                assert_int_equal (truncate (path, (off_t) size_of (path) - 1), 0);
            if (time == UNWRITABLE)
                config.cache = "/dev/null/nowhere";
            wm_sparse_t *engine = wm_sparse_new (&net, &spec, &config, &error);
            assert_non_null (engine);
            for (uint32_t r = 0; r < engine->n_root; r++)
                assert_int_equal (engine->root[r].mapped_bytes > 0,
                                  kernel->pack && time != UNWRITABLE);
            assert_int_equal (size_of (path), engine->root[0].mapped_bytes
                                                  ? engine->root[0].mapped_bytes
                                                  : size_of (path));
            result_t result = score_with (engine, &batch);
            assert_memory_equal (result.scores, want.scores,
                                 want.n * want.n_output * sizeof (float));
            result_free (&result);
            wm_sparse_destroy (&engine);
        }
        result_free (&want);
        for (uint32_t root = 0; root < 5 && kernel->pack; root += 4) {
            snprintf (path, sizeof path, "%s.%s-%s-%u", prefix, kernel->isa, kernel->precision,
                      root);
            assert_int_equal (unlink (path), 0);
        }
    }
    assert_int_equal (rmdir (folder), 0); /* nothing else was left */
    plane_free (&batch);
    net_free (&net);
}

static void look_where (void *arg, uint32_t task, uint32_t thread)
{
    cpu_set_t set;
    (void) task;
    sched_getaffinity (0, sizeof set, &set);
    ((int *) arg)[thread] = CPU_COUNT (&set);
}

/* Asked to, each thread stays on one CPU; threads beyond the CPUs share them.  */
static void threads_are_pinned (void **state)
{
    (void) state;
    cpu_set_t before;
    assert_int_equal (sched_getaffinity (0, sizeof before, &before), 0);
    for (int pin = 0; pin < 2; pin++) {
        int count[3] = { 0 };
        wm_sparse_pool_t *pool = wm_sparse_pool_new (3, pin);
        assert_non_null (pool);
        wm_sparse_pool_run (pool, look_where, count, 1000);
        for (int i = 0; i < 3; i++) /* a thread may come too late for any task */
            assert_true (count[i] == 0 || count[i] == (pin ? 1 : CPU_COUNT (&before)));
        assert_true (count[0] > 0);
        wm_sparse_pool_destroy (&pool);
    }
    assert_int_equal (sched_setaffinity (0, sizeof before, &before), 0);
}

static void wrong_dense (const wm_sparse_root_t *root, uint32_t panel, uint32_t c_out,
                         const wm_sparse_values_t *values, const wm_sparse_list_t *list, float *row,
                         size_t row_stride)
{
    wm_sparse_kernel_c.dense (root, panel, c_out, values, list, row, row_stride);
    row[5] *= 1.01f;
}

static void what_computes_wrongly_is_not_chosen (void **state)
{
    (void) state;
    wm_sparse_kernel_t wrong = wm_sparse_kernel_c;
    wrong.dense = wrong_dense;
    assert_true (isinf (wm_sparse_kernel_try (&wrong)));
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++)
        assert_true (wm_sparse_kernel_try (kernel) < 1);
}

static void what_it_cannot_run_is_refused (void **state)
{
    (void) state;
    wm_error_t error = { 0 };
    const wm_sparse_config_t config = { .threads = 1 };
    wm_net_t net = net_new (&shapes[0]), bad;
    wm_spec_t spec = spec_of (&shapes[0], WM_FULL_VIEW, WM_MEAN);
    float scores[16], values[12 * 11] = { 0 }, *many = wm_sparse_floats (200000 * 16);
    const wm_sparse_kernel_t *kernel;

    bad = net, bad.n_conv = 0;
    assert_null (wm_sparse_new (&bad, &spec, &config, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    bad = net, bad.dense[0].n_in -= 1;
    assert_null (wm_sparse_new (&bad, &spec, &config, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    bad = net, bad.conv[0].kh = 13;
    assert_null (wm_sparse_new (&bad, NULL, &config, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    assert_non_null (strstr (error.text, "13 x 5 does not fit 12 x 11"));
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        const wm_sparse_config_t whole = { .kernel = kernel };
        bad = net, bad.conv[0].c_out = 200000, bad.conv[0].kh = bad.conv[0].kw = 1;
        bad.conv[0].weight = bad.conv[0].bias = many, bad.height = bad.width = 1;
        bad.dense[0].n_in = 200000, bad.dense[0].n_out = 16, bad.dense[0].weight = many;
        wm_sparse_t *wide = wm_sparse_new (&bad, NULL, &whole, &error);
        assert_int_equal (wide == NULL, kernel->sum_max > 0);
        assert_true (wide || strstr (error.text, "200000 filters are too many"));
        wm_sparse_destroy (&wide);
    }
    free (many);
    bad = net, bad.conv[0].kw = 65;
    assert_null (wm_sparse_new (&bad, NULL, &config, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    spec.patch_bin++;
    assert_null (wm_sparse_new (&net, &spec, &config, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    assert_non_null (strstr (error.text, "12 x 12"));
    spec.patch_bin--;

    wm_sparse_t *engine = engine_new (&net, NULL, 1, NULL);
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = 131 };
    batch.patch = values;
    assert_int_equal (wm_sparse_score (engine, &batch, scores, NULL, &error), WM_EBATCH);
    batch.kind = WM_BATCH_BINS;
    assert_int_equal (wm_sparse_score (engine, &batch, scores, NULL, &error), WM_EBATCH);
    wm_sparse_destroy (&engine);
    engine = engine_new (&net, &spec, 1, NULL);
    batch.kind = WM_BATCH_TICKS;
    assert_int_equal (wm_sparse_score (engine, &batch, scores, NULL, &error), WM_EBATCH);
    batch.kind = WM_BATCH_PATCHES, batch.patch_values = 132, batch.n_hit = 0;
    assert_int_equal (wm_sparse_score (engine, &batch, scores, NULL, &error), WM_OK);
    wm_sparse_destroy (&engine);

    setenv ("WM_ISA", "c", 1);
    assert_string_equal (wm_sparse_kernel_choose ("fp32", &error)->isa, "c");
    assert_string_equal (wm_sparse_kernel_choose ("fast", &error)->precision, "fp32");
    setenv ("WM_ISA", "amx-twin", 1);
    assert_string_equal (wm_sparse_kernel_choose ("fp32", &error)->precision, "bf16x3");
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        char name[64];
        snprintf (name, sizeof name, "%s/%s", kernel->isa, kernel->precision);
        setenv ("WM_ISA", name, 1);
        assert_ptr_equal (wm_sparse_kernel_choose ("fast", &error), kernel);
        assert_ptr_equal (wm_sparse_kernel_choose ("fp32", &error),
                          kernel->off <= 1e-5 ? kernel : NULL);
    }
    setenv ("WM_ISA", "c/int16", 1);
    assert_null (wm_sparse_kernel_choose ("fast", &error));
    assert_non_null (strstr (error.text, "c/int16"));
    setenv ("WM_ISA", "pentium", 1);
    assert_null (wm_sparse_kernel_choose ("fp32", &error));
    assert_int_equal (error.fault, WM_EHOST);
    assert_non_null (strstr (error.text, "pentium"));
    unsetenv ("WM_ISA");
    assert_false (wm_sparse_kernel_choose ("fp32", &error)->twin);
    assert_true (wm_sparse_kernel_choose ("fp32", &error)->off <= 1e-5);
    assert_non_null (wm_sparse_kernel_choose ("fast", &error)); /* by timing */
    net_free (&net);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (equals_double_on_planes),
        cmocka_unit_test (equals_double_in_own_view),
        cmocka_unit_test (grouping_never_changes_bits),
        cmocka_unit_test (any_grouping_gives_the_same_bits),
        cmocka_unit_test (twins_equal_the_tiles),
        cmocka_unit_test (integers_are_the_same_everywhere),
        cmocka_unit_test (integers_never_overflow),
        cmocka_unit_test (many_hits_are_scored_at_once),
        cmocka_unit_test (channels_are_taken_dense),
        cmocka_unit_test (nonfinite_is_never_a_number),
        cmocka_unit_test (nothing_is_allocated_after_warm_up),
        cmocka_unit_test (packed_weights_are_shared),
        cmocka_unit_test (threads_are_pinned),
        cmocka_unit_test (what_computes_wrongly_is_not_chosen),
        cmocka_unit_test (what_it_cannot_run_is_refused),
    };
    return cmocka_run_group_tests_name ("kernels/sparse", tests, name_the_untested, NULL);
}
