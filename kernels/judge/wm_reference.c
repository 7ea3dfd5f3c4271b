/* wm_reference.c - the reference engine: a family network in double precision, plain loops.

   Every sum is a double that starts at the bias and takes its terms in one fixed order: kernel row,
   kernel column, channel for a convolution; input index ascending for a dense layer. Inputs that
   are exactly zero are skipped, which changes no sum. Patches are only interleaved to share the
   reading of weights (48 MB for the first dense layer), so that no bit depends on the grouping or
   the number of threads.

   Products are not contracted to fused ones (-std=c11), and the loops over outputs, which are
   independent sums, are left to the compiler to vectorise.  */
#include "kernels/judge/wm_reference.h"
#include "kernels/patch/wm_image.h"
#include "kernels/wm_backend_private.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_DOUBLES (1u << 22) /* of flattened convolutions: 32 MB a thread */
#define THREADS_MAX 256

struct wm_reference_t {
    const wm_net_t *net;
    uint32_t block;                     /* patches at a time */
    size_t stage_size;                  /* of the largest convolution's input or output */
    size_t flat_size;                   /* of the flattened convolution */
    double *stage[2];                   /* one patch between convolutions */
    double *flat;                       /* (block, flat_size) */
    double *dense[WM_MODEL_DENSES_MAX]; /* (block, n_out) */
    double peak;
};

/* acc += v w, over the outputs of a layer.  */
static void add_product (double *restrict acc, double v, const float *restrict w, uint32_t n)
{
    for (uint32_t o = 0; o < n; o++)
        acc[o] += v * (double) w[o];
}

static double gated (wm_act_t act, double bend, double x)
{
    switch (act) {
    case WM_ACT_GELU:
        return x / 2 * erfc (-x * M_SQRT1_2);
    case WM_ACT_GELU_TANH:
        return x / 2 * (1 + tanh (sqrt (2 / M_PI) * (x + 0.044715 * x * x * x)));
    case WM_ACT_SWISH:
        return x / (1 + exp (-bend * x));
    case WM_ACT_HARDSWISH:
        return x < -3 ? 0 : x > 3 ? x : x * (x + 3) / 6;
    default: /* WM_ACT_MISH */
        return x * tanh (log1p (exp (x)));
    }
}

/* NaN stays NaN: relu (NaN) is NaN, never 0.  */
static void activate (wm_act_t act, double bend, double *x, size_t n)
{
    double sum = 0, top = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (act == WM_ACT_RELU)
            x[i] = x[i] < 0 ? 0 : x[i];
        else if (act == WM_ACT_SIGMOID)
            x[i] = 1 / (1 + exp (-x[i]));
        else if (act == WM_ACT_TANH)
            x[i] = tanh (x[i]);
        else if (act == WM_ACT_LEAKY)
            x[i] = x[i] < 0 ? bend * x[i] : x[i];
        else if (act == WM_ACT_ELU)
            x[i] = x[i] < 0 ? bend * expm1 (x[i]) : x[i];
        else if (act == WM_ACT_CLIP)
            x[i] = x[i] < 0 ? 0 : x[i] > bend ? bend : x[i];
        else if (act == WM_ACT_SOFTPLUS)
            x[i] = fmax (x[i], 0) + log1p (exp (-fabs (x[i]))); /* a NaN: by the second */
        else if (act > WM_ACT_SOFTMAX)
            x[i] = gated (act, bend, x[i]);
        else if (act == WM_ACT_SOFTMAX && !(x[i] <= top))
            top = x[i];
    }
    if (act != WM_ACT_SOFTMAX)
        return;
    for (size_t i = 0; i < n; i++)
        sum += x[i] = exp (x[i] - top);
    for (size_t i = 0; i < n; i++)
        x[i] /= sum;
}

static void note_peak (wm_reference_t *self, const double *sum, size_t n)
{
    for (size_t i = 0; i < n; i++)
        self->peak = fmax (self->peak, fabs (sum[i]));
}

double wm_reference_peak (const wm_reference_t *self)
{
    return self->peak;
}

/* in (h, w, c_in) -> out (h - kh + 1, w - kw + 1, c_out).  */
static void convolve (wm_reference_t *self, const wm_conv_t *k, const double *in, uint32_t h,
                      uint32_t w, double *out)
{
    uint32_t rows = h - k->kh + 1, columns = w - k->kw + 1;
    for (size_t y = 0; y < rows; y++)
        for (size_t x = 0; x < columns; x++) {
            double *acc = out + (y * columns + x) * k->c_out;
            for (uint32_t o = 0; o < k->c_out; o++)
                acc[o] = (double) k->bias[o];
            for (size_t ky = 0; ky < k->kh; ky++) {
                size_t run = (size_t) k->kw * k->c_in; /* contiguous in the input and in w */
                const double *v = in + ((y + ky) * w + x) * k->c_in;
                const float *weight = k->weight + ky * run * k->c_out;
                for (size_t i = 0; i < run; i++)
                    if (v[i] != 0)
                        add_product (acc, v[i], weight + i * k->c_out, k->c_out);
            }
        }
    note_peak (self, out, (size_t) rows * columns * k->c_out);
    activate (k->act, (double) k->bend, out, (size_t) rows * columns * k->c_out);
}

/* One patch through the convolutions to `flat`.  */
static void run_convs (wm_reference_t *self, const float *patch, double *flat)
{
    const wm_net_t *net = self->net;
    uint32_t h = net->height, w = net->width;
    double *in = self->stage[0];
    for (size_t i = 0; i < (size_t) h * w * net->channel; i++)
        in[i] = (double) patch[i];
    for (uint32_t i = 0; i < net->n_conv; i++) {
        double *out = i + 1 == net->n_conv ? flat : self->stage[(i + 1) % 2];
        convolve (self, &net->conv[i], in, h, w, out);
        h -= net->conv[i].kh - 1;
        w -= net->conv[i].kw - 1;
        in = out;
    }
}

static void run_dense (wm_reference_t *self, uint32_t index, uint32_t count)
{
    const wm_dense_t *k = &self->net->dense[index];
    const double *in = k->parent < 0 ? self->flat : self->dense[k->parent];
    double *out = self->dense[index];
    for (size_t p = 0; p < count; p++)
        for (size_t o = 0; o < k->n_out; o++)
            out[p * k->n_out + o] = (double) k->bias[o];
    for (size_t i = 0; i < k->n_in; i++)
        for (size_t p = 0; p < count; p++) {
            double v = in[p * k->n_in + i];
            if (v != 0)
                add_product (out + p * k->n_out, v, k->weight + i * k->n_out, k->n_out);
        }
    note_peak (self, out, (size_t) count * k->n_out);
    for (size_t p = 0; p < count; p++)
        activate (k->act, (double) k->bend, out + p * k->n_out, k->n_out);
}

void wm_reference_run (wm_reference_t *self, const float *patches, uint32_t count, float *scores,
                       uint32_t n_output)
{
    const wm_net_t *net = self->net;
    size_t n_value = (size_t) net->height * net->width * net->channel;
    for (uint32_t first = 0, n; first < count; first += n) {
        n = count - first < self->block ? count - first : self->block;
        for (size_t p = 0; p < n; p++)
            run_convs (self, patches + (first + p) * n_value, self->flat + p * self->flat_size);
        for (uint32_t i = 0; i < net->n_dense; i++) {
            const wm_dense_t *k = &net->dense[i];
            run_dense (self, i, n);
            for (size_t p = 0; k->output >= 0 && p < n; p++)
                for (size_t o = 0; o < k->n_out; o++)
                    scores[(first + p) * n_output + (size_t) k->output + o] =
                        (float) self->dense[i][p * k->n_out + o];
        }
    }
}

/* Sizes were bounded when the model was opened: 2^26 values a layer.  */
wm_reference_t *wm_reference_new (const wm_net_t *net)
{
    wm_reference_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->net = net;
    size_t h = net->height, w = net->width;
    self->stage_size = h * w * net->channel;
    for (uint32_t i = 0; i < net->n_conv; i++) {
        h -= net->conv[i].kh - 1;
        w -= net->conv[i].kw - 1;
        self->flat_size = h * w * net->conv[i].c_out;
        if (self->flat_size > self->stage_size && i + 1 < net->n_conv)
            self->stage_size = self->flat_size;
    }
    size_t block = BLOCK_DOUBLES / self->flat_size;
    self->block = block < 1                    ? 1
                  : block > WM_REFERENCE_BLOCK ? WM_REFERENCE_BLOCK
                                               : (uint32_t) block;
    int ok = 1;
    for (int i = 0; i < 2; i++)
        ok &= (self->stage[i] = calloc (self->stage_size, sizeof (double))) != NULL;
    ok &= (self->flat = calloc (self->block * self->flat_size, sizeof (double))) != NULL;
    for (uint32_t i = 0; i < net->n_dense; i++)
        ok &= (self->dense[i] =
                   calloc ((size_t) self->block * net->dense[i].n_out, sizeof (double))) != NULL;
    if (!ok)
        wm_reference_destroy (&self);
    return self;
}

void wm_reference_destroy (wm_reference_t **self_p)
{
    wm_reference_t *self = *self_p;
    if (!self)
        return;
    free (self->stage[0]);
    free (self->stage[1]);
    free (self->flat);
    for (uint32_t i = 0; i < WM_MODEL_DENSES_MAX; i++)
        free (self->dense[i]);
    free (self);
    *self_p = NULL;
}

/* ---- the engine
 * ----------------------------------------------------------------------------------- */

typedef struct engine_t engine_t;

/* One thread: its network and the patches that it cuts.  */
typedef struct {
    engine_t *engine;
    wm_reference_t *reference;
    float *patch; /* (WM_REFERENCE_BLOCK, n_value) */
    pthread_t thread;
    int started;
} share_t;

struct engine_t {
    const wm_spec_t *spec;
    uint32_t n_value, n_output;
    int n_share;
    share_t *share;
    /* the batch at work */
    const wm_batch_t *batch;
    float *scores;
    atomic_uint_fast64_t next; /* first hit that no thread has taken */
    _Atomic uint64_t *progress;
};

static void close_engine (void *engine)
{
    engine_t *self = engine;
    for (int i = 0; self->share && i < self->n_share; i++) {
        wm_reference_destroy (&self->share[i].reference);
        free (self->share[i].patch);
    }
    free (self->share);
    free (self);
}

static void *open_engine (const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    const wm_net_t *net = wm_model_net (model);
    if (!net) {
        wm_fault (error, WM_EBATCH,
                  "the reference engine runs the EmTrkMichelId family only (%.200s): use openvino",
                  wm_model_why (model));
        return NULL;
    }
    engine_t *self = calloc (1, sizeof *self);
    int ok = self != NULL;
    if (ok) {
        self->spec = spec;
        self->n_value = wm_model_n_value (model);
        self->n_output = wm_model_n_output (model);
        self->n_share = config->threads < THREADS_MAX ? config->threads : THREADS_MAX;
        self->share = calloc ((size_t) self->n_share, sizeof *self->share);
        ok = self->share != NULL;
    }
    for (int i = 0; ok && i < self->n_share; i++) {
        share_t *share = &self->share[i];
        share->engine = self;
        share->reference = wm_reference_new (net);
        share->patch = calloc ((size_t) WM_REFERENCE_BLOCK * self->n_value, sizeof (float));
        ok = share->reference && share->patch;
    }
    if (!ok) {
        wm_fault (error, WM_EHOST, "no memory for the reference engine with %d threads",
                  config->threads);
        if (self)
            close_engine (self);
        return NULL;
    }
    snprintf (signature, 64, "reference/double/v1");
    return self;
}

static void *work (void *argument)
{
    share_t *share = argument;
    engine_t *self = share->engine;
    const wm_batch_t *batch = self->batch;
    for (;;) {
        uint64_t first = atomic_fetch_add (&self->next, WM_REFERENCE_BLOCK);
        if (first >= batch->n_hit)
            return NULL;
        uint32_t n = batch->n_hit - (uint32_t) first < WM_REFERENCE_BLOCK
                         ? batch->n_hit - (uint32_t) first
                         : WM_REFERENCE_BLOCK;
        const float *patches = share->patch;
        if (batch->kind == WM_BATCH_PATCHES)
            patches = batch->patch + first * self->n_value;
        else
            for (uint32_t i = 0; i < n; i++)
                wm_image_patch_reference (self->spec, batch, (uint32_t) first + i,
                                          share->patch + (size_t) i * self->n_value);
        wm_reference_run (share->reference, patches, n, self->scores + first * self->n_output,
                          self->n_output);
        atomic_fetch_add (self->progress, n);
    }
}

/* If a thread cannot be started, the others do its work.  */
static wm_fault_t score (void *engine, const wm_batch_t *batch, uint8_t *status, float *scores,
                         _Atomic uint64_t *progress, wm_error_t *error)
{
    (void) status; /* wm_device.c checks the scores */
    (void) error;
    engine_t *self = engine;
    self->batch = batch;
    self->scores = scores;
    self->progress = progress;
    atomic_store (&self->next, 0);
    for (int i = 1; i < self->n_share; i++)
        self->share[i].started =
            pthread_create (&self->share[i].thread, NULL, work, &self->share[i]) == 0;
    work (&self->share[0]);
    for (int i = 1; i < self->n_share; i++)
        if (self->share[i].started)
            pthread_join (self->share[i].thread, NULL);
    return WM_OK;
}

const wm_backend_t wm_backend_reference = {
    .open = open_engine,
    .close = close_engine,
    .score = score,
};
