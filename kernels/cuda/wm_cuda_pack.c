/* wm_cuda_pack.c - weights in panels, their checksum, and what an empty window gives.

   With c the convolution's output where its window holds only the zero level,

       y = [b + W^T c] + sum over active positions of W^T (relu (conv) - c)

   the bracket is the roots' bias in version 3, in double from the weights as they are; in version 2
   c is 0 here and the bias the network's own.

   The checksum of Dense-1: the sum of all outputs must equal the output of one more column, whose
   weights are the sums over all columns of W. These sums are of the rounded weights, and are kept
   in two parts, because they have more bits than one value holds. The two may differ by what adding
   in float32 loses: K steps a split that may truncate, each by 2^-23 of the magnitude of the terms,
   which a third column measures.  */
#include "kernels/cuda/wm_cuda_pack.h"
#include "kernels/cuda/wm_gpu_kernels.cuh"

#include <math.h>
#include <stdlib.h>

#define ROWS_SPLIT 4u
#define HALF_MAX 65504.0
#define ALIGN 256u

const char *wm_cuda_pack_refuse (const wm_net_t *net, wm_gpu_precision_t precision)
{
    const uint32_t each = precision == WM_GPU_F16 ? 2 : 4;
    uint32_t n = 0;
    for (uint32_t l = 0; l < net->n_dense; l++)
        if (net->dense[l].parent < 0)
            n += net->dense[l].n_out <= WM_GPU_OUTPUTS ? net->dense[l].n_out : WM_GPU_OUTPUTS + 1;
    if (precision == WM_GPU_F32)
        return "strict float32 has no tensor cores";
    if (net->n_conv != 1 || net->channel != 1)
        return "it takes one convolution, of one channel";
    if (net->conv[0].act != WM_ACT_RELU && net->conv[0].act != WM_ACT_NONE)
        return "it takes ReLU or nothing behind the convolution";
    if (net->conv[0].c_out * each % 16 || net->conv[0].c_out * each > 4096)
        return "its filters must be a multiple of 8 (tf32: 4), of 4,096 bytes at most";
    if (net->width - net->conv[0].kw + 1 > WM_GPU_COLUMNS_MAX)
        return "its patches are wider than 64 positions";
    if (n > WM_GPU_OUTPUTS)
        return "its first dense layers have more than 128 outputs";
    return NULL;
}

/* ---- weights, as the device has them --------------------------------------------------------- */

static float rounded (wm_gpu_precision_t precision, float x)
{
    return precision == WM_GPU_F16 ? wm_half_value (wm_half (x)) : wm_tf32 (x);
}

/* Row `i` of the first dense layers' weights, side by side, rounded. Returns how many.  */
static uint32_t row_of (const wm_cuda_pack_t *self, size_t i, float row[WM_GPU_OUTPUTS])
{
    const wm_net_t *net = self->net.net;
    uint32_t n = 0;
    for (uint32_t l = 0; l < net->n_dense; l++)
        for (uint32_t o = 0; net->dense[l].parent < 0 && o < net->dense[l].n_out; o++)
            row[n++] =
                rounded (self->net.precision, net->dense[l].weight[i * net->dense[l].n_out + o]);
    return n;
}

/* The checksum's weights beside a row: high, low, magnitude.  */
static void sum_row (const wm_cuda_pack_t *self, const float *row, uint32_t n, float sum[3])
{
    double all = 0, magnitude = 0;
    for (uint32_t o = 0; o < n; o++)
        all += (double) row[o], magnitude += fabs ((double) row[o]);
    sum[0] = rounded (self->net.precision, (float) all);
    sum[1] = rounded (self->net.precision, (float) (all - (double) sum[0]));
    sum[2] = rounded (self->net.precision, (float) magnitude);
}

/* The output of an inactive window, in double.  */
static double constant_of (const wm_cuda_pack_t *self, uint32_t filter)
{
    const wm_conv_t *c = &self->net.net->conv[0];
    double sum = (double) c->bias[filter];
    for (uint32_t i = 0; i < c->kh * c->kw; i++)
        sum += (double) self->zero * (double) c->weight[i * c->c_out + filter];
    if (!self->sparse)
        return 0;
    return c->act == WM_ACT_RELU && sum < 0 ? 0 : sum;
}

/* ---- plan ------------------------------------------------------------------------------------ */

static size_t place (wm_cuda_pack_t *self, size_t bytes)
{
    size_t at = self->bytes;
    self->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static void plan_shapes (wm_cuda_pack_t *self, uint32_t starts, uint32_t band)
{
    const wm_net_t *net = self->net.net;
    const wm_conv_t *c = &net->conv[0];
    const uint32_t each = (uint32_t) self->net.each, width = starts + net->width,
                   n_col = width - c->kw + 1, n_word = (n_col + 31) / 32 + 2;
    self->conv = self->net.conv[0];
    self->conv.rows = 1, self->conv.h = band + c->kh - 1, self->conv.w = width;
    self->active = (wm_gpu_active_t){
        .n_col = n_col,
        .n_word = n_word,
        .in_col = width,
        .kh = c->kh,
        .kw = c->kw,
        .c_out = c->c_out,
        .half = self->net.precision == WM_GPU_F16,
        .clear = self->sparse && c->c_out * each % WM_GPU_SEGMENT != 0,
    };
    memcpy (&self->active.zero, &self->zero, sizeof self->zero);
    if (self->active.half)
        self->active.zero = wm_half (self->zero);
    self->dense = (wm_gpu_dense_t){
        .n_col = n_col,
        .n_word = n_word,
        .patch_row = net->height - c->kh + 1,
        .patch_col = net->width - c->kw + 1,
        .rows_split = ROWS_SPLIT,
        .position_bytes = c->c_out * each,
    };
    wm_gpu_dense_t *d = &self->dense;
    d->splits = (d->patch_row + ROWS_SPLIT - 1) / ROWS_SPLIT;
    d->segments = (d->patch_col * d->position_bytes + WM_GPU_SEGMENT - 1) / WM_GPU_SEGMENT;
    self->tail = self->net.tail;
    self->tail.splits = d->splits, self->tail.n = WM_GPU_SUMS;
    self->tail.n_col = n_col, self->tail.n_word = n_word;
    self->tail.patch_row = d->patch_row, self->tail.patch_col = d->patch_col;
    self->tolerance =
        (double) (ROWS_SPLIT * d->segments * WM_GPU_STEPS + d->splits + 128) * 0x1p-23;
}

/* Whether every checksum can be held in half.  */
static wm_fault_t check_sums (const wm_cuda_pack_t *self, wm_error_t *error)
{
    const size_t n_in = (size_t) self->dense.patch_row * self->dense.patch_col * self->active.c_out;
    float row[WM_GPU_OUTPUTS], sum[3];
    for (size_t i = 0; i < n_in && self->active.half; i++) {
        sum_row (self, row, row_of (self, i, row), sum);
        if (!((double) sum[2] <= HALF_MAX))
            return wm_fault (
                error, WM_EBATCH,
                "the weights of input %zu of the first dense layer add up to more than "
                "half precision holds (65,504): use --precision fp32",
                i);
    }
    return WM_OK;
}

wm_fault_t wm_cuda_pack_plan (wm_cuda_pack_t *self, const wm_net_t *net, const wm_spec_t *spec,
                              wm_gpu_precision_t precision, uint32_t version, uint32_t starts,
                              uint32_t band, wm_error_t *error)
{
    *self = (wm_cuda_pack_t){ .sparse = version == 3, .zero = spec ? wm_spec_zero (spec) : 0 };
    wm_fault_t fault = wm_cuda_net_plan (&self->net, net, spec, precision, 1, false, error);
    if (fault)
        return fault;
    plan_shapes (self, starts, band);
    for (uint32_t l = 0; l < net->n_dense; l++)
        self->tail.n_sum += net->dense[l].parent < 0 ? net->dense[l].n_out : 0;
    self->bytes = self->net.bytes;
    self->panel =
        place (self, (size_t) self->dense.patch_row * self->dense.segments * WM_GPU_PANEL);
    self->constant = place (self, self->active.c_out * sizeof (float));
    self->subtracts = precision == WM_GPU_TF32 || self->active.clear;
    for (uint32_t f = 0; f < self->active.c_out; f++)
        self->subtracts = self->subtracts || constant_of (self, f) != 0;
    return check_sums (self, error);
}

/* ---- fill ------------------------------------------------------------------------------------ */

/* Where byte `byte` of a segment, for output o, lies in the panel: with the lane that multiplies
   it.  */
static size_t panel_at (uint32_t byte, uint32_t o)
{
    const uint32_t step = byte / 32, word = byte % 32 / 4, lane = o % 8 * 4 + word % 4;
    return ((size_t) (step * 8 + o / 16) * 32 + lane) * 16 + (o % 16 / 8 + word / 4 * 2) * 4 +
           byte % 4;
}

/* The same of column k of the checksum.  */
static size_t check_at (uint32_t byte, uint32_t k)
{
    const uint32_t step = byte / 32, word = byte % 32 / 4, lane = k * 4 + word % 4;
    return WM_GPU_CHECK + ((size_t) (step * 16 + lane) * 2 + word / 4) * 4 + byte % 4;
}

static void put (const wm_cuda_pack_t *self, char *at, float value)
{
    const uint16_t half = wm_half (value);
    if (self->active.half)
        memcpy (at, &half, sizeof half);
    else
        memcpy (at, &value, sizeof value);
}

static void fill_panels (const wm_cuda_pack_t *self, char *panels)
{
    const wm_gpu_dense_t *d = &self->dense;
    const uint32_t each = (uint32_t) self->net.each, n_row = d->patch_col * self->active.c_out;
    float row[WM_GPU_OUTPUTS], sum[3];
    for (uint32_t r = 0; r < d->patch_row; r++)
        for (uint32_t v = 0; v < n_row; v++) {
            const uint32_t segment = v * each / WM_GPU_SEGMENT, byte = v * each % WM_GPU_SEGMENT;
            char *panel = panels + ((size_t) r * d->segments + segment) * WM_GPU_PANEL;
            const uint32_t n = row_of (self, (size_t) r * n_row + v, row);
            sum_row (self, row, n, sum);
            for (uint32_t o = 0; o < n; o++)
                put (self, panel + panel_at (byte, o), row[o]);
            for (uint32_t k = 0; k < 3; k++)
                put (self, panel + check_at (byte, k), sum[k]);
        }
}

/* The roots' bias becomes b + W^T c.  */
static void fill_bias (const wm_cuda_pack_t *self, uint32_t layer, const double *constant,
                       float *bias)
{
    const wm_dense_t *dense = &self->net.net->dense[layer];
    const uint32_t c_out = self->active.c_out, positions = dense->n_in / c_out;
    for (uint32_t o = 0; o < dense->n_out; o++) {
        double sum = (double) dense->bias[o];
        for (uint32_t f = 0; f < c_out; f++)
            for (uint32_t p = 0; p < positions && constant[f] != 0; p++)
                sum += constant[f] *
                       (double) dense->weight[((size_t) p * c_out + f) * dense->n_out + o];
        bias[o] = (float) sum;
    }
}

void wm_cuda_pack_fill (const wm_cuda_pack_t *self, void *block)
{
    const wm_net_t *net = self->net.net;
    double constant[2048]; /* c_out is 1,024 at most in tf32, 2,048 in half */
    char *bytes = block;
    memset (bytes, 0, self->bytes);
    wm_cuda_net_fill (&self->net, block);
    fill_panels (self, bytes + self->panel);
    float *c = (float *) (void *) (bytes + self->constant);
    for (uint32_t f = 0; f < self->active.c_out; f++) {
        constant[f] = constant_of (self, f);
        c[f] = (float) constant[f];
    }
    for (uint32_t l = 0; l < net->n_dense; l++)
        if (net->dense[l].parent < 0)
            fill_bias (self, l, constant, (float *) (void *) (bytes + self->net.dense_bias[l]));
}
