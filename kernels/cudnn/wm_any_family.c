/* wm_any_family.c - a network of the family as steps of any CNN.

   Patches and convolutions lie channels last, as wm_net_t has them, and a dense layer is a
   convolution of 1x1 over one place. A sum of 92,928 products in one chain of float32 is off by
   3.7e-6 in a score. So a strict first dense layer is cut by the rows of the last convolution: a
   group of channels each, whose sums a pool adds, as their mean, in order.  */
#include "kernels/cudnn/wm_any_net.h"

#include <stdio.h>
#include <stdlib.h>

#define ALIGN 64u /* floats; cuDNN's tensors begin at 16 bytes and more */

/* Room for n constants; returns where they begin.  */
static size_t place (wm_any_net_t *self, size_t n)
{
    const size_t at = (self->n_constant + ALIGN - 1) / ALIGN * ALIGN;
    self->n_constant = at + n;
    return at;
}

/* A step, to a buffer of its own of `size` floats a patch (0: in place).  */
static wm_any_step_t *add (wm_any_net_t *self, wm_any_kind_t kind, uint32_t from, uint32_t size,
                           const char *layer, uint32_t index)
{
    wm_any_step_t *step = &self->step[self->n_step++];
    *step = (wm_any_step_t){ .kind = kind, .from = from, .to = from, .second = WM_ANY_NONE };
    snprintf (step->name, sizeof step->name, "%s %u", layer, index);
    if (size > 0) {
        step->to = self->n_buffer++;
        self->size[step->to] = size;
    }
    return step;
}

/* A convolution, the sum of its groups, and its activation; weight (groups, run, n) becomes
   (groups, n, run). Returns the buffer of the result.  */
static uint32_t add_layer (wm_any_net_t *self, uint32_t from, const wm_gpu_anyconv_t *conv,
                           const float *weight, const float *bias, wm_act_t act, float bend,
                           const char *layer, uint32_t index)
{
    const uint32_t groups = conv->groups, n = conv->c_out / groups;
    const size_t run = wm_any_run (conv);
    const uint32_t size = conv->out[0] * conv->out[1] * n;
    wm_any_step_t *step = add (self, WM_ANY_CONV, from, groups * size, layer, index);
    step->conv = *conv;
    step->conv.relu = groups == 1 && act == WM_ACT_RELU;
    step->weight = place (self, groups * run * n), step->bias = place (self, conv->c_out);
    for (size_t i = 0; i < groups * run; i++)
        for (size_t o = 0; o < n; o++)
            self->constant[step->weight + (i / run * n + o) * run + i % run] = weight[i * n + o];
    for (size_t o = 0; o < n; o++)
        self->constant[step->bias + o] = bias[o];
    if (groups > 1) {
        step = add (self, WM_ANY_POOL, step->to, size, layer, index);
        step->pool = (wm_gpu_pool_t){ .channels = n,
                                      .mean = 1,
                                      .in = { groups, 1 },
                                      .out = { 1, 1 },
                                      .kernel = { groups, 1 },
                                      .stride = { 1, 1 } };
    }
    if (groups > 1 || (act != WM_ACT_RELU && act != WM_ACT_NONE && act != WM_ACT_SOFTMAX)) {
        step = add (self, WM_ANY_JOIN, step->to, size, layer, index);
        step->join = (wm_gpu_join_t){ .n = size,
                                      .act = act == WM_ACT_SOFTMAX ? WM_ACT_NONE : act,
                                      .bend = bend,
                                      .scale = (float) groups,
                                      .gain = 1 };
    }
    if (act == WM_ACT_SOFTMAX)
        add (self, WM_ANY_SPREAD, step->to, 0, layer, index)->spread =
            (wm_gpu_spread_t){ .groups = 1, .n = size };
    return step->to;
}

/* Sets the rows of the last convolution, too.  */
static uint32_t add_convs (wm_any_net_t *self, const wm_net_t *net, uint32_t *rows)
{
    uint32_t h = net->height, w = net->width, from = WM_ANY_INPUT;
    for (uint32_t i = 0; i < net->n_conv; i++) {
        const wm_conv_t *c = &net->conv[i];
        const wm_gpu_anyconv_t conv = { .c_in = c->c_in,
                                        .c_out = c->c_out,
                                        .groups = 1,
                                        .in = { h, w },
                                        .out = { h - c->kh + 1, w - c->kw + 1 },
                                        .kernel = { c->kh, c->kw },
                                        .stride = { 1, 1 },
                                        .dilation = { 1, 1 } };
        from = add_layer (self, from, &conv, c->weight, c->bias, c->act, c->bend, "convolution", i);
        h = conv.out[0], w = conv.out[1];
    }
    *rows = h;
    return from;
}

/* splits: of the first ones.  */
static void add_denses (wm_any_net_t *self, const wm_net_t *net, uint32_t flat, uint32_t splits)
{
    uint32_t result[WM_MODEL_DENSES_MAX];
    for (uint32_t i = 0; i < net->n_dense; i++) {
        const wm_dense_t *d = &net->dense[i];
        const uint32_t groups = d->parent < 0 ? splits : 1;
        const wm_gpu_anyconv_t product = wm_any_product (d->n_in, d->n_out * groups, groups);
        result[i] = add_layer (self, d->parent < 0 ? flat : result[d->parent], &product, d->weight,
                               d->bias, d->act, d->bend, "dense layer", i);
    }
    for (uint32_t i = 0; i < net->n_dense; i++)
        if (net->dense[i].output >= 0)
            self->size[WM_ANY_SCORES] += net->dense[i].n_out;
    for (uint32_t i = 0; i < net->n_dense; i++) {
        const uint32_t n = net->dense[i].n_out;
        if (net->dense[i].output < 0)
            continue;
        wm_any_step_t *step = add (self, WM_ANY_COPY, result[i], 0, "output", i);
        step->to = WM_ANY_SCORES;
        step->copy =
            wm_any_columns (1, n, self->size[WM_ANY_SCORES], (uint32_t) net->dense[i].output);
    }
}

/* Counts the constants with their gaps. False: a layer is too large.  */
static bool count (wm_any_net_t *self, const wm_net_t *net, wm_error_t *error)
{
    uint32_t h = net->height, w = net->width;
    size_t n = 0;
    for (uint32_t i = 0; i < net->n_conv; i++) {
        const wm_conv_t *c = &net->conv[i];
        h -= c->kh - 1, w -= c->kw - 1;
        n += (size_t) c->kh * c->kw * c->c_in * c->c_out + c->c_out + 2 * (size_t) ALIGN;
        if ((uint64_t) h * w > WM_ANY_VALUES_MAX / c->c_out) {
            wm_fault (error, WM_EBATCH,
                      "the cuda engine takes layers of %u values at most, not convolution %u: use "
                      "--engine sparse",
                      WM_ANY_VALUES_MAX, i);
            return false;
        }
    }
    for (uint32_t i = 0; i < net->n_dense; i++)
        n += (size_t) (net->dense[i].n_in + h) * net->dense[i].n_out + 2 * (size_t) ALIGN;
    self->constants_max = n;
    return true;
}

wm_any_net_t *wm_any_family_new (const wm_net_t *net, bool strict, wm_error_t *error)
{
    uint32_t rows;
    wm_any_net_t *self = calloc (1, sizeof *self);
    const bool fits = !self || count (self, net, error);
    if (self && fits)
        self->constant = calloc (self->constants_max, sizeof *self->constant);
    if (self && self->constant) {
        self->n_buffer = 2;
        self->size[WM_ANY_INPUT] = net->height * net->width * net->channel;
        const uint32_t flat = add_convs (self, net, &rows);
        add_denses (self, net, flat, strict ? rows : 1);
        return self;
    }
    if (fits)
        wm_fault (error, WM_EHOST, "no memory for the model's weights");
    wm_any_net_destroy (&self);
    return NULL;
}

void wm_any_net_destroy (wm_any_net_t **self_p)
{
    if (*self_p) {
        free ((*self_p)->constant);
        free (*self_p);
        *self_p = NULL;
    }
}
