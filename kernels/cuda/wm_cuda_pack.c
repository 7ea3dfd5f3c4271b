/* wm_cuda_pack.c - weights in panels, their checksum, and what an empty window gives.

   With c the convolution's output where its window holds only the zero level, and any r,

       y = [b + W^T c] + sum over active positions of [W^T (r - c)] + W^T (relu (conv) - r)

   where the first bracket is the roots' bias, in double from the weights as they are. In halves r
   is c. In strict fp32 it is 0 behind ReLU, so that the second bracket, the BASE of a position, is
   there: weights of a value that is 1 at each active position, ahead of the filters (WM_GPU_LEAD).

   Two halves. A weight and a value are the sum of two halves each, 22 bits of mantissa, as long as
   the lower half is not subnormal. So both are multiplied by powers of two that bring the largest
   of them, by interval arithmetic, below 32,768: what half cannot hold is then 2^-40 of that.

   The checksum of Dense-1: the sum of all outputs must equal the output of one more column, whose
   weights are the sums over all columns of W. These sums are of the rounded weights, and are kept
   in two parts, because they have more bits than one value holds. The two may differ by what adding
   in float32 loses: a chain of steps that may cut off, each 2^-23 of the magnitude of the terms,
   which a third column measures; and with two halves by the product of the lower ones.  */
#include "kernels/cuda/wm_cuda_pack.h"
#include "kernels/family/wm_range.h"
#include "kernels/gpu/wm_cuda.h"
#include "kernels/gpu/wm_gpu_kernels.cuh"

#include <math.h>

#define SPARE 16.0            /* split: how far beyond its specification a value may be */
#define UNKNOWN 1024.0        /* and how large, without one */
#define LARGEST 0x1p60        /* fp32: with larger values the checksum may overflow */
#define SUM_MAX 0x1p120       /* fp32: what those within the limit may add up to */
#define TAIL_VALUES_MAX 8192u /* floats of a patch in the tail: 32 KiB of shared memory */
#define ROWS_GROUP 4u
#define BANDS 4u /* so that a launch of 16,384 hits fills every GPU, and others' blocks wait less */
#define SCALED_MAX 32768.0 /* of what is multiplied by a scale; half of it is spare */
#define ALIGN 256u         /* what cudaMalloc gives */

const char *wm_cuda_refuse (const wm_net_t *net, wm_gpu_precision_t precision)
{
    const wm_conv_t *c = &net->conv[0];
    uint32_t n = 0;
    for (uint32_t l = 0; l < net->n_dense; l++)
        if (net->dense[l].parent < 0)
            n += net->dense[l].n_out <= WM_GPU_OUTPUTS ? net->dense[l].n_out : WM_GPU_OUTPUTS + 1;
    if (precision == WM_GPU_TF32)
        return "it has no tf32: use fp32, split or fast";
    if (net->n_conv != 1 || net->channel != 1)
        return "it takes one convolution, of one channel";
    if (c->act != WM_ACT_RELU && c->act != WM_ACT_NONE)
        return "it takes ReLU or nothing behind the convolution";
    if (c->c_out % 8 || c->c_out > WM_CUDA_FILTERS_MAX)
        return "its filters must be a multiple of 8, at most 1,024";
    if (c->kw > 32)
        return "its filters are wider than 32 columns";
    if (net->width - c->kw + 1 > WM_GPU_COLUMNS_MAX)
        return "its patches are wider than 64 positions";
    if (n > WM_GPU_OUTPUTS)
        return "its first dense layers have more than 128 outputs";
    return NULL;
}

/* ---- weights, as the device has them --------------------------------------------------------- */

/* A number's parts as the device multiplies them.  */
static void split (const wm_cuda_pack_t *self, double x, float part[2])
{
    const float value = (float) x;
    part[0] = self->precision == WM_GPU_F32 ? value : wm_half_value (wm_half (value));
    part[1] = self->precision == WM_GPU_SPLIT
                  ? wm_half_value (wm_half ((float) (x - (double) part[0])))
                  : 0;
}

static double rounded (const wm_cuda_pack_t *self, double x)
{
    float part[2];
    split (self, x, part);
    return (double) part[0] + (double) part[1];
}

/* Row `i` of the first dense layers' weights, side by side, scaled. Returns how many.  */
static uint32_t row_of (const wm_cuda_pack_t *self, size_t i, float row[WM_GPU_OUTPUTS])
{
    const wm_net_t *net = self->net;
    uint32_t n = 0;
    for (uint32_t l = 0; l < net->n_dense; l++)
        for (uint32_t o = 0; net->dense[l].parent < 0 && o < net->dense[l].n_out; o++)
            row[n++] = self->weight_scale * net->dense[l].weight[i * net->dense[l].n_out + o];
    return n;
}

/* The base of a position, likewise.  */
static uint32_t base_of (const wm_cuda_pack_t *self, size_t position, float row[WM_GPU_OUTPUTS])
{
    const uint32_t c_out = self->active.c_out;
    double sum[WM_GPU_OUTPUTS] = { 0 };
    uint32_t n = 0;
    for (uint32_t f = 0; f < c_out; f++) {
        n = row_of (self, position * c_out + f, row);
        for (uint32_t o = 0; o < n; o++)
            sum[o] += (0 - (double) self->c[f]) * (double) row[o];
    }
    for (uint32_t o = 0; o < n; o++)
        row[o] = (float) sum[o];
    return n;
}

/* Weights of the k-th value of a position's entry; none of what fills up.  */
static uint32_t weights_of (const wm_cuda_pack_t *self, size_t position, uint32_t k,
                            float row[WM_GPU_OUTPUTS])
{
    const uint32_t lead = self->has_base ? WM_GPU_LEAD / sizeof (float) : 0;
    return k >= lead ? row_of (self, position * self->active.c_out + k - lead, row)
           : k == 0  ? base_of (self, position, row)
                     : 0;
}

/* The checksum's weights beside a row: high, low, magnitude.  */
static void sum_row (const wm_cuda_pack_t *self, const float *row, uint32_t n, double sum[3])
{
    double all = 0, magnitude = 0;
    for (uint32_t o = 0; o < n; o++) {
        const double weight = rounded (self, (double) row[o]);
        all += weight, magnitude += fabs (weight);
    }
    sum[0] = rounded (self, all);
    sum[1] = rounded (self, all - sum[0]);
    sum[2] = rounded (self, magnitude);
}

/* Sets c: the outputs of an inactive window.  */
static void plan_constants (wm_cuda_pack_t *self)
{
    const wm_conv_t *conv = &self->net->conv[0];
    for (uint32_t f = 0; f < conv->c_out; f++) {
        double sum = (double) conv->bias[f];
        for (uint32_t i = 0; i < conv->kh * conv->kw; i++)
            sum += (double) self->zero * (double) conv->weight[i * conv->c_out + f];
        self->c[f] = (float) (conv->act == WM_ACT_RELU && sum < 0 ? 0 : sum);
        self->has_base |= self->precision == WM_GPU_F32 && conv->act == WM_ACT_RELU &&
                          self->c[f] != 0;
    }
}

/* ---- plan ------------------------------------------------------------------------------------ */

static size_t place (wm_cuda_pack_t *self, size_t bytes)
{
    size_t at = self->bytes;
    self->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

/* Sets the limit of a patch's values.  */
static wm_fault_t check_range (wm_cuda_pack_t *self, const wm_spec_t *spec, wm_error_t *error)
{
    double limit = LARGEST;
    double need =
        spec ? fmax (fmax (fabs (spec->out_min), fabs (spec->out_max)), fabs ((double) self->zero))
             : 0;
    if (self->precision == WM_GPU_SPLIT)
        limit = need > 0 ? SPARE * need : UNKNOWN;
    wm_fault_t fault =
        self->precision == WM_GPU_F16 ? wm_range_half (self->net, need, &limit, error) : WM_OK;
    self->limit = (float) limit;
    return fault;
}

static wm_fault_t plan_tail (wm_cuda_pack_t *self, wm_error_t *error)
{
    wm_gpu_tail_t *tail = &self->tail;
    tail->n_layer = self->net->n_dense;
    for (uint32_t i = 0; i < tail->n_layer; i++) {
        const wm_dense_t *d = &self->net->dense[i];
        wm_gpu_layer_t *layer = &tail->layer[i];
        *layer = (wm_gpu_layer_t){
            .n_out = d->n_out, .output = d->output, .act = d->act, .bend = d->bend
        };
        layer->at = tail->n_value;
        if (d->n_out > TAIL_VALUES_MAX || (tail->n_value += d->n_out) > TAIL_VALUES_MAX)
            return wm_fault (error, WM_EBATCH,
                             "the cuda engine takes dense layers of %u outputs together: use "
                             "--engine sparse",
                             TAIL_VALUES_MAX);
        if (d->parent < 0) {
            layer->from = tail->n_sum;
            tail->n_sum += d->n_out;
        } else {
            layer->from = tail->layer[d->parent].at;
            layer->n_in = d->n_in;
            self->dense_weight[i] = place (self, (size_t) d->n_in * d->n_out * sizeof (float));
        }
        if (d->output >= 0 && (uint32_t) d->output + d->n_out > tail->n_output)
            tail->n_output = (uint32_t) d->output + d->n_out;
        self->dense_bias[i] = place (self, d->n_out * sizeof (float));
    }
    return WM_OK;
}

void wm_cuda_pack_bands (wm_cuda_pack_t *self, uint32_t bands)
{
    self->dense.bands = bands;
    self->tail.bands = self->precision == WM_GPU_F32 ? self->dense.patch_row : bands;
}

static void plan_shapes (wm_cuda_pack_t *self, uint32_t starts)
{
    const wm_net_t *net = self->net;
    const wm_conv_t *c = &net->conv[0];
    const wm_gpu_precision_t precision = self->precision;
    self->parts = precision == WM_GPU_SPLIT ? 2 : 1;
    self->each = precision == WM_GPU_F32 ? sizeof (float) : sizeof (uint16_t);
    self->width = starts + net->width;
    const uint32_t n_word = (self->width - c->kw + 1 + 31) / 32,
                   part = c->c_out * self->each + (self->has_base ? WM_GPU_LEAD : 0);
    self->active = (wm_gpu_active_t){
        .kh = c->kh,
        .kw = c->kw,
        .c_out = c->c_out,
        .relu = c->act == WM_ACT_RELU,
        .form = precision == WM_GPU_F32     ? WM_GPU_FLOATS
                : precision == WM_GPU_SPLIT ? WM_GPU_HALVES_TWICE
                                            : WM_GPU_HALVES,
        .entry_bytes = self->parts * part,
        .lead = self->has_base,
        .limit = self->limit,
        .scale = 1,
    };
    memcpy (&self->active.zero, &self->zero, sizeof self->zero);
    self->dense = (wm_gpu_dense_t){
        .n_word = n_word,
        .patch_row = net->height - c->kh + 1,
        .patch_col = net->width - c->kw + 1,
        .rows_group = ROWS_GROUP,
        .position_chunks = part / 16,
        .entry_bytes = self->parts * part,
        .unscale = 1,
    };
    wm_gpu_dense_t *d = &self->dense;
    wm_cuda_pack_bands (self, d->patch_row < BANDS ? 1 : BANDS);
    self->tail.strict = precision == WM_GPU_F32;
    if (d->position_chunks > 1)
        d->position_magic = UINT32_MAX / d->position_chunks + 1;
    d->segments = (d->patch_col * part + WM_GPU_SEGMENT - 1) / WM_GPU_SEGMENT;
    self->tail.n_word = n_word;
    self->tail.patch_row = d->patch_row, self->tail.patch_col = d->patch_col;
    const uint32_t segments = d->patch_row * d->segments, n_row = d->patch_col * part / self->each;
    self->tolerance = (double) (precision == WM_GPU_F16   ? segments * WM_GPU_STEPS + 128
                                : precision == WM_GPU_F32 ? d->patch_row + n_row + 128
                                                          : segments + WM_GPU_SEGMENT + 128) *
                      0x1p-23;
}

/* The largest power of two that keeps `most` within SCALED_MAX; 1 for nothing.  */
static float scale_of (double most)
{
    return most > 0 ? ldexpf (1, ilogb (SCALED_MAX / most)) : 1;
}

/* Chooses the scales of values and of weights.  */
static void plan_scales (wm_cuda_pack_t *self)
{
    const size_t n_in = (size_t) self->dense.patch_row * self->dense.patch_col * self->active.c_out;
    double value = wm_range_bound (self->net, (double) self->limit), weight = 0;
    for (uint32_t f = 0; f < self->active.c_out; f++)
        value = fmax (value, fabs ((double) self->c[f]));
    self->active.scale = scale_of (2 * value);
    for (size_t i = 0; i < n_in; i++) {
        float row[WM_GPU_OUTPUTS];
        const uint32_t n = row_of (self, i, row);
        double magnitude = 0;
        for (uint32_t o = 0; o < n; o++)
            magnitude += fabs ((double) row[o]);
        weight = fmax (weight, magnitude);
    }
    self->weight_scale = scale_of (weight);
    self->dense.unscale = 1 / self->active.scale / self->weight_scale;
}

/* Whether every checksum can be held in half. In float32 the limit is lowered until none of those
   of values within it overflows.  */
static wm_fault_t check_sums (wm_cuda_pack_t *self, wm_error_t *error)
{
    const size_t n_in = (size_t) self->dense.patch_row * self->dense.patch_col * self->active.c_out;
    float row[WM_GPU_OUTPUTS];
    double sum[3], all = 0;
    for (size_t i = 0; i < n_in && self->precision != WM_GPU_SPLIT; i++) {
        sum_row (self, row, row_of (self, i, row), sum);
        all += sum[2];
        if (self->precision == WM_GPU_F16 && !(sum[2] <= WM_HALF_MAX))
            return wm_fault (
                error, WM_EBATCH,
                "the weights of input %zu of the first dense layer add up to more than "
                "half precision holds (65,504): use --precision fp32",
                i);
    }
    while (self->precision == WM_GPU_F32 && self->limit > 0 &&
           !(2 * all * wm_range_bound (self->net, (double) self->limit) <= SUM_MAX))
        self->limit *= 0x1p-16f;
    self->active.limit = self->limit;
    return WM_OK;
}

wm_fault_t wm_cuda_pack_plan (wm_cuda_pack_t *self, const wm_net_t *net, const wm_spec_t *spec,
                              wm_gpu_precision_t precision, uint32_t starts, wm_error_t *error)
{
    *self = (wm_cuda_pack_t){ .net = net,
                              .precision = precision,
                              .zero = spec ? wm_spec_zero (spec) : 0,
                              .weight_scale = 1 };
    if (spec &&
        (spec->n_channel > 1 || spec->patch_wire != net->height || spec->patch_bin != net->width))
        return wm_fault (error, WM_EBATCH,
                         "the cuda engine's own kernels take a patch of one channel of %u x %u, "
                         "the specification's is %u x %u x %u",
                         net->height, net->width, spec->n_channel > 1 ? spec->n_channel : 1,
                         spec->patch_wire, spec->patch_bin);
    wm_fault_t fault = plan_tail (self, error);
    if (!fault)
        fault = check_range (self, spec, error);
    if (fault)
        return fault;
    plan_constants (self);
    plan_shapes (self, starts);
    if (precision == WM_GPU_SPLIT)
        plan_scales (self);
    const uint32_t c_out = self->active.c_out;
    self->panel = place (self, (size_t) self->dense.patch_row * self->dense.segments * self->parts *
                                   WM_GPU_PANEL);
    self->kernel = place (self, self->active.kh * self->active.kw * c_out * sizeof (float));
    self->bias = place (self, c_out * sizeof (float));
    self->reference = place (self, c_out * sizeof (float));
    return check_sums (self, error);
}

/* ---- fill ------------------------------------------------------------------------------------ */

/* Where byte `byte` of a segment, for output o, lies in the panel: with the lane that multiplies
   it.  */
static size_t panel_at (const wm_cuda_pack_t *self, uint32_t byte, uint32_t o)
{
    if (self->each == sizeof (float))
        return (size_t) byte / 4 * 512 + o * 4;
    if (self->wide)
        return (size_t) byte / 16 * (WM_GPU_OUTPUTS * 16) + o * 16 + byte % 16;
    const uint32_t step = byte / 32, word = byte % 32 / 4, lane = o % 8 * 4 + word % 4;
    return ((size_t) (step * 8 + o / 16) * 32 + lane) * 16 + (o % 16 / 8 + word / 4 * 2) * 4 +
           byte % 4;
}

/* The same of column k of the checksum.  */
static size_t check_at (const wm_cuda_pack_t *self, uint32_t byte, uint32_t k)
{
    if (self->each == sizeof (float))
        return WM_GPU_CHECK + (byte / 16 * 4 + k) * 16 + byte % 16;
    const uint32_t step = byte / 32, word = byte % 32 / 4, lane = k * 4 + word % 4;
    return WM_GPU_CHECK + ((size_t) (step * 16 + lane) * 2 + word / 4) * 4 + byte % 4;
}

/* Puts a weight at `at` of a panel, and what its half lacks into the panel behind.  */
static void put (const wm_cuda_pack_t *self, char *at, double value)
{
    float part[2];
    split (self, value, part);
    const uint16_t half[2] = { wm_half (part[0]), wm_half (part[1]) };
    if (self->each == sizeof (float))
        memcpy (at, &part[0], sizeof part[0]);
    else
        memcpy (at, &half[0], sizeof half[0]);
    if (self->precision == WM_GPU_SPLIT)
        memcpy (at + WM_GPU_PANEL, &half[1], sizeof half[1]);
}

static void fill_panels (const wm_cuda_pack_t *self, char *panels)
{
    const wm_gpu_dense_t *d = &self->dense;
    const uint32_t entry = self->active.entry_bytes / self->each / self->parts; /* values */
    float row[WM_GPU_OUTPUTS];
    double sum[3];
    for (uint32_t r = 0; r < d->patch_row; r++)
        for (uint32_t v = 0; v < d->patch_col * entry; v++) {
            const uint32_t segment = v * self->each / WM_GPU_SEGMENT,
                           byte = v * self->each % WM_GPU_SEGMENT;
            char *panel =
                panels + ((size_t) r * d->segments + segment) * self->parts * WM_GPU_PANEL;
            const uint32_t n =
                weights_of (self, (size_t) r * d->patch_col + v / entry, v % entry, row);
            sum_row (self, row, n, sum);
            for (uint32_t o = 0; o < n; o++)
                put (self, panel + panel_at (self, byte, o), (double) row[o]);
            for (uint32_t k = 0; k < 3; k++)
                put (self, panel + check_at (self, byte, k), sum[k]);
        }
}

/* The roots' bias becomes b + W^T c.  */
static void fill_bias (const wm_cuda_pack_t *self, uint32_t layer, float *bias)
{
    const wm_dense_t *dense = &self->net->dense[layer];
    double sum[WM_GPU_OUTPUTS];
    for (uint32_t o = 0; o < dense->n_out; o++)
        sum[o] = (double) dense->bias[o];
    for (uint32_t i = 0; i < dense->n_in; i++)
        for (uint32_t o = 0; o < dense->n_out; o++)
            sum[o] += (double) self->c[i % self->active.c_out] *
                      (double) dense->weight[(size_t) i * dense->n_out + o];
    for (uint32_t o = 0; o < dense->n_out; o++)
        bias[o] = (float) sum[o];
}

/* Copies floats to a place of the block; returns where they are on the device.  */
static const float *put_floats (char *block, const char *d_block, size_t at, const float *from,
                                size_t n)
{
    memcpy (block + at, from, n * sizeof *from);
    return (const float *) (const void *) (d_block + at);
}

void wm_cuda_pack_fill (wm_cuda_pack_t *self, void *block, const char *d_block)
{
    const wm_net_t *net = self->net;
    const wm_conv_t *conv = &net->conv[0];
    const bool is_0 = self->precision == WM_GPU_F32 && conv->act == WM_ACT_RELU;
    static const float zeros[WM_CUDA_FILTERS_MAX];
    float bias[WM_GPU_OUTPUTS];
    char *h = block;
    memset (h, 0, self->bytes);
    fill_panels (self, h + self->panel);
    self->dense.weight = d_block + self->panel;
    self->active.weight = put_floats (h, d_block, self->kernel, conv->weight,
                                      (size_t) conv->kh * conv->kw * conv->c_out);
    self->active.bias = put_floats (h, d_block, self->bias, conv->bias, conv->c_out);
    self->active.reference =
        put_floats (h, d_block, self->reference, is_0 ? zeros : self->c, conv->c_out);
    for (uint32_t l = 0; l < net->n_dense; l++) {
        const wm_dense_t *d = &net->dense[l];
        wm_gpu_layer_t *layer = &self->tail.layer[l];
        if (d->parent < 0)
            fill_bias (self, l, bias);
        else
            layer->weight = put_floats (h, d_block, self->dense_weight[l], d->weight,
                                        (size_t) d->n_in * d->n_out);
        layer->bias =
            put_floats (h, d_block, self->dense_bias[l], d->parent < 0 ? bias : d->bias, d->n_out);
    }
}
