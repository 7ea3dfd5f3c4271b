/* wm_sparse_open.c - what a net and a kernel fix: convolutions, constants, each thread's memory.
 */
#include "kernels/model/wm_act.h"
#include "kernels/sparse/wm_sparse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAIRED_FILTERS_MAX 512u     /* more are left in their order */
#define BLOCK_FLOATS (2048u * 128u) /* accumulators of a block at most: 1 MB, twice */

static uint32_t padded (uint32_t n)
{
    return (n + 15) / 16 * 16;
}

/* ---- the order of filters -------------------------------------------------------------------- */

/* alike[f][g]: how much filters f and g answer alike to an image that varies slowly, that is, under
   a Gaussian covariance (width 1) between pixels.  */
static void find_alike (const wm_conv_t *conv, float *smooth, float *alike)
{
    const uint32_t n = conv->c_out, taps = conv->kh * conv->kw, size = taps * conv->c_in;
    for (uint32_t a = 0; a < taps; a++)
        for (uint32_t b = 0; b < taps; b++) {
            double dy = (double) (a / conv->kw) - b / conv->kw;
            double dx = (double) (a % conv->kw) - b % conv->kw;
            float weight = (float) wm_sparse_exp (-(dy * dy + dx * dx) / 2);
            for (uint32_t i = 0; i < conv->c_in * n; i++)
                smooth[(size_t) a * conv->c_in * n + i] +=
                    weight * conv->weight[(size_t) b * conv->c_in * n + i];
        }
    for (uint32_t f = 0; f < n; f++)
        for (uint32_t i = 0; i < size; i++)
            for (uint32_t g = 0; g < n; g++)
                alike[(size_t) f * n + g] +=
                    conv->weight[(size_t) i * n + f] * smooth[(size_t) i * n + g];
    for (uint32_t f = 0; f < n; f++)
        smooth[f] = alike[(size_t) f * n + f] > 0 ? sqrtf (alike[(size_t) f * n + f]) : 1;
    for (uint32_t i = 0; i < n * n; i++)
        alike[i] /= smooth[i / n] * smooth[i % n];
}

/* Which filters share a word: a word is skipped where both are 0, so they should be on together;
   the most alike are matched first. On the real event 15.9 words of 24 are left at an active
   position, 18.1 in the model's own order. Fixed by the model alone.  */
static void pair_filters (uint32_t n, const float *alike, uint32_t *filter)
{
    uint32_t free_filter[PAIRED_FILTERS_MAX], left = n, done = 0;
    for (uint32_t f = 0; f < n; f++)
        free_filter[f] = f;
    for (; left > 1; done += 2) {
        uint32_t first = 0, second = 1;
        for (uint32_t a = 0; a < left; a++)
            for (uint32_t b = a + 1; b < left; b++)
                if (alike[free_filter[a] * n + free_filter[b]] >
                    alike[free_filter[first] * n + free_filter[second]])
                    first = a, second = b;
        filter[done] = free_filter[first], filter[done + 1] = free_filter[second];
        free_filter[second] = free_filter[--left];
        free_filter[first] = free_filter[--left];
    }
    if (left)
        filter[done] = free_filter[0];
}

static wm_fault_t order_filters (wm_sparse_t *self, wm_error_t *error)
{
    const wm_conv_t *conv = &self->net.conv[self->net.n_conv - 1];
    const uint32_t n = conv->c_out, size = conv->kh * conv->kw * conv->c_in;
    self->filter = calloc (n, sizeof *self->filter);
    if (!self->filter)
        return wm_fault (error, WM_EHOST, "no memory for %u filters", n);
    for (uint32_t f = 0; f < n; f++)
        self->filter[f] = f;
    if (self->kernel->unit == 1 || !self->kernel->skips || n > PAIRED_FILTERS_MAX)
        return WM_OK;
    float *smooth = calloc ((size_t) n * size, sizeof *smooth);
    float *alike = calloc ((size_t) n * n, sizeof *alike);
    if (smooth && alike) {
        find_alike (conv, smooth, alike);
        pair_filters (n, alike, self->filter);
    }
    wm_fault_t fault = smooth && alike ? WM_OK : WM_EHOST;
    free (smooth), free (alike);
    return fault ? wm_fault (error, fault, "no memory to order %u filters", n) : WM_OK;
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* The convolution where its window holds the constant of the layer below (Z for the first).  */
static void find_constant (wm_sparse_conv_t *conv, const float *below, float zero)
{
    for (uint32_t f = 0; f < conv->c_pad; f++) {
        double sum = (double) conv->bias[f];
        for (uint32_t i = 0; i < conv->kh * conv->kw * conv->c_in; i++)
            sum += (double) (below ? below[i % conv->c_in] : zero) *
                   (double) conv->weight[(size_t) i * conv->c_pad + f];
        conv->constant[f] = (float) wm_sparse_activated (conv->act, conv->bend, sum);
    }
}

static wm_fault_t open_conv (wm_sparse_t *self, uint32_t i, wm_error_t *error)
{
    const wm_conv_t *from = &self->net.conv[i];
    wm_sparse_conv_t *conv = &self->conv[i];
    uint32_t n = from->kh * from->kw * from->c_in;
    *conv = (wm_sparse_conv_t){
        .kh = from->kh,
        .kw = from->kw,
        .c_in = from->c_in,
        .c_out = from->c_out,
        .c_pad = padded (from->c_out),
        .act = from->act,
        .bend = from->bend,
        .n_span = i == 0 ? from->kh : from->kh * from->kw,
        .span = i == 0 ? from->kw * from->c_in : from->c_in,
    };
    conv->weight = wm_sparse_floats ((size_t) n * conv->c_pad);
    conv->bias = wm_sparse_floats (conv->c_pad);
    conv->constant = wm_sparse_floats (conv->c_pad);
    conv->reference = wm_sparse_floats (conv->c_pad);
    if (!conv->weight || !conv->bias || !conv->constant || !conv->reference)
        return wm_fault (error, WM_EHOST, "no memory for convolution %u", i);
    const bool last = i + 1 == self->net.n_conv;
    for (uint32_t f = 0; f < conv->c_out; f++) {
        uint32_t source = last ? self->filter[f] : f;
        conv->bias[f] = from->bias[source];
        for (uint32_t k = 0; k < n; k++)
            conv->weight[(size_t) k * conv->c_pad + f] =
                from->weight[(size_t) k * conv->c_out + source];
    }
    find_constant (conv, i ? conv[-1].constant : NULL, self->zero);
    if (last && (conv->act != WM_ACT_RELU || !self->kernel->skips))
        memcpy (conv->reference, conv->constant, conv->c_pad * sizeof (float));
    return WM_OK;
}

static wm_fault_t open_root (wm_sparse_t *self, uint32_t dense_index, wm_error_t *error)
{
    const wm_dense_t *dense = &self->net.dense[dense_index];
    const uint32_t n_row =
        self->pos_rows * self->pos_cols * self->net.conv[self->net.n_conv - 1].c_out;
    wm_sparse_root_t *root = &self->root[self->n_root++];
    *root = (wm_sparse_root_t){
        .n_out = dense->n_out,
        .n_pad = padded (dense->n_out),
        .offset = self->stride,
        .dense = dense_index,
        .weight = dense->weight,
    };
    self->stride += root->n_pad;
    if (dense->n_in != n_row)
        return wm_fault (error, WM_EBATCH, "dense layer %u takes %u values, the convolution has %u",
                         dense_index, dense->n_in, n_row);
    return wm_sparse_fold (self, root, error);
}

/* Reserves the memory of as many threads.  */
wm_fault_t wm_sparse_open_threads (wm_sparse_t *self, wm_error_t *error)
{
    uint32_t n_span = 0, c_pad = 0;
    for (uint32_t i = 0; i < self->net.n_conv; i++) {
        n_span = self->conv[i].n_span > n_span ? self->conv[i].n_span : n_span;
        c_pad = self->conv[i].c_pad > c_pad ? self->conv[i].c_pad : c_pad;
    }
    const wm_sparse_kernel_t *kernel = self->kernel;
    const size_t cells = self->cells_max, list = cells + 32;
    const size_t accumulators = cells * self->stride;
    const size_t values = WM_SPARSE_POSITIONS * (size_t) c_pad;
    const size_t scratch =
        kernel->scratch_bytes
            ? kernel->scratch_bytes (self->conv[self->net.n_conv - 1].c_out) / sizeof (float)
            : 0;
    const size_t count = (kernel->fold ? 2 : 1) * accumulators + 2 * cells + cells + 3 * list +
                         values + (self->tail_floats + 15) / 16 * 16 + scratch +
                         2 * WM_SPARSE_POSITIONS * (size_t) n_span;
    self->thread = calloc (self->threads, sizeof *self->thread);
    for (uint32_t t = 0; self->thread && t < self->threads; t++) {
        wm_sparse_thread_t *mine = &self->thread[t];
        if (!wm_sparse_reserve (&mine->memory, count, sizeof (float), &self->stats.allocations))
            return wm_fault (error, WM_EHOST, "no memory for thread %u", t);
        float *p = mine->memory.data;
        mine->row = p, p += kernel->fold ? accumulators : 0;
        mine->total = p, p += accumulators;
        mine->mask = (void *) p, p += 2 * cells;
        mine->slot = (void *) p, p += cells;
        mine->list.cell = (void *) p, p += list;
        mine->list.slot = (void *) p, p += list;
        mine->list.live = (void *) p, p += list;
        mine->list.scratch = (void *) p, p += scratch;
        mine->value = p, p += values;
        mine->tail = p, p += (self->tail_floats + 15) / 16 * 16;
        mine->span = (void *) p;
    }
    return self->thread ? WM_OK : wm_fault (error, WM_EHOST, "no memory for threads");
}

void wm_sparse_close_threads (wm_sparse_t *self)
{
    for (uint32_t t = 0; self->thread && t < self->threads; t++)
        wm_sparse_release (&self->thread[t].memory);
    free (self->thread);
}

wm_fault_t wm_sparse_open (wm_sparse_t *self, wm_error_t *error)
{
    wm_fault_t fault = order_filters (self, error);
    self->pos_rows = self->net.height, self->pos_cols = self->net.width;
    for (uint32_t i = 0; i < self->net.n_conv && !fault; i++) {
        self->pos_rows -= self->net.conv[i].kh - 1;
        self->pos_cols -= self->net.conv[i].kw - 1;
        fault = open_conv (self, i, error);
    }
    self->panel_cols = (self->pos_cols + self->kernel->fuse - 1) / self->kernel->fuse;
    for (uint32_t i = 0; i < self->net.n_dense && !fault; i++) {
        const wm_dense_t *dense = &self->net.dense[i];
        if (dense->output >= 0 && (uint32_t) dense->output + dense->n_out > self->n_output)
            self->n_output = (uint32_t) dense->output + dense->n_out;
        if (dense->parent < 0)
            fault = open_root (self, i, error);
    }
    if (!fault)
        fault = wm_sparse_tail_new (self, error);
    const wm_sparse_conv_t *conv = &self->conv[self->net.n_conv - 1];
    self->values.stride_bytes =
        (size_t) conv->c_pad / self->kernel->unit * sizeof (uint32_t) + self->kernel->slot_extra;
    self->values.n_mask = (conv->c_out + 64 * self->kernel->unit - 1) / (64 * self->kernel->unit);
    if (fault)
        return fault;
    self->cells_max = BLOCK_FLOATS / self->stride / 16 * 16;
    if (self->cells_max < 64)
        self->cells_max = 64;
    if (!self->on_callers && (fault = wm_sparse_open_threads (self, error)))
        return fault;
    self->pool = wm_sparse_pool_new (self->on_callers ? 0 : self->threads, self->pin);
    return self->pool ? WM_OK
                      : wm_fault (error, WM_EHOST, "cannot start %u threads", self->threads);
}

void wm_sparse_close (wm_sparse_t *self)
{
    wm_sparse_pool_destroy (&self->pool);
    if (!self->on_callers)
        wm_sparse_close_threads (self);
    for (uint32_t i = 0; i < self->net.n_conv; i++) {
        free (self->conv[i].weight);
        free (self->conv[i].bias);
        free (self->conv[i].constant);
        free (self->conv[i].reference);
    }
    for (uint32_t i = 0; i < self->n_root; i++)
        wm_sparse_unfold (&self->root[i]);
    free (self->filter);
    wm_sparse_tail_destroy (self);
}
