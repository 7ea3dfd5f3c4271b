/* wm_family_layers.c - convolutions and dense layers, with weights in the order of wm_model.h.  */
#include "kernels/family/wm_family_private.h"

#include <math.h>
#include <string.h>

static bool all_are (const Onnx__AttributeProto *a, int64_t value)
{
    for (size_t i = 0; a && i < a->n_ints; i++)
        if (a->ints[i] != value)
            return false;
    return true;
}

static bool check_conv (family_t *self, const wm_tensor_t *w)
{
    const Onnx__AttributeProto *pad = wm_onnx_attribute (self->node, "auto_pad"),
                               *kernel = wm_onnx_attribute (self->node, "kernel_shape");
    if (!all_are (wm_onnx_attribute (self->node, "strides"), 1))
        return wm_family_outside (self, self->node, "its stride is not 1");
    if (!all_are (wm_onnx_attribute (self->node, "dilations"), 1))
        return wm_family_outside (self, self->node, "it is dilated");
    if (wm_onnx_int (self->node, "group", 1) != 1)
        return wm_family_outside (self, self->node, "it is grouped");
    if (!all_are (wm_onnx_attribute (self->node, "pads"), 0) ||
        (pad && !wm_onnx_attribute_is (pad, "VALID") && !wm_onnx_attribute_is (pad, "NOTSET")))
        return wm_family_outside (self, self->node, "it is padded");
    if (self->nothing)
        return wm_family_lacks (self);
    if (!w || !w->f || w->n_dim != 4)
        return wm_family_outside (self, self->node,
                                  "its weights are no constant of four dimensions");
    if (kernel &&
        (kernel->n_ints != 2 || kernel->ints[0] != w->dim[2] || kernel->ints[1] != w->dim[3]))
        return wm_family_outside (self, self->node, "its kernel_shape is not that of its weights");
    return true;
}

/* The chain's next convolution must see (channel, row, column) of channels-last memory.  */
static bool check_conv_input (family_t *self, const state_t *in, const wm_tensor_t *w)
{
    const wm_layer_view_t *v = &in->view;
    if (v->n_dim != 3 || wm_view_size (v, 0) != w->dim[1])
        return wm_family_outside (self, self->node, "its input is no image of %lld channels",
                                  (long long) w->dim[1]);
    uint32_t c = wm_view_size (v, 0), rows = wm_view_size (v, 1), columns = wm_view_size (v, 2);
    if (!wm_view_is (v, 0, c, 1) || !wm_view_is (v, 1, rows, (uint64_t) columns * c) ||
        !wm_view_is (v, 2, columns, c))
        return wm_family_outside (self, self->node, "its input is not channels last, or turned");
    if (w->dim[2] > rows || w->dim[3] > columns)
        return wm_family_outside (self, self->node, "its kernel is larger than its input");
    if (w->dim[3] > WM_MODEL_KERNEL_COLUMNS_MAX)
        return wm_family_outside (self, self->node, "its kernel has more than %d columns",
                                  WM_MODEL_KERNEL_COLUMNS_MAX);
    int next = in->source == PATCH ? self->net->n_conv == 0
                                   : in->source == CONV && in->layer[0] == self->net->n_conv - 1;
    if (!next || self->net->n_dense)
        return wm_family_outside (self, self->node, "the convolutions form no chain");
    if (self->net->n_conv == WM_MODEL_CONVS_MAX)
        return wm_family_outside (self, self->node, "more than %d convolutions",
                                  WM_MODEL_CONVS_MAX);
    return true;
}

/* Allocates a layer's weights and bias; false: no memory (arena.failed).  */
static bool layer_new (family_t *self, layer_t *layer, uint64_t n_in, uint32_t n_out)
{
    *layer = (layer_t){ .n_in = n_in,
                        .n_out = n_out,
                        .weight = wm_arena_take (self->arena, n_in, 4 * (size_t) n_out),
                        .bias = wm_arena_take (self->arena, n_out, 4) };
    return layer->weight && layer->bias ? 1
                                        : wm_family_outside (self, self->node, "it is too large");
}

/* Takes what waits behind the inputs of a new layer into its weights; inputs run over `channels`
   again and again. Engines then sum what this takes away again: it must be small.  */
static bool take_affine (family_t *self, const affine_t *a, layer_t *layer, uint32_t channels)
{
    double most = 0;
    for (uint32_t o = 0; a && o < layer->n_out; o++) {
        double moved = 0, square = 0;
        for (uint64_t k = 0; k < layer->n_in; k++) {
            float *w = &layer->weight[k * layer->n_out + o];
            uint32_t c = a->n == 1 ? 0 : (uint32_t) (k % channels);
            const double product = (double) *w * a->shift[c];
            moved += product;
            square += product * product;
            most = fmax (most, fabs (moved));
            *w = (float) ((double) *w * a->scale[c]);
        }
        most = fmax (most, sqrt (square));
        layer->bias[o] = (float) ((double) layer->bias[o] + moved);
    }
    return most <= MOVED_MAX ||
           wm_family_outside (self, self->node,
                              "a constant before it moves its sums by %.3g, beyond %d", most,
                              MOVED_MAX);
}

bool wm_family_conv (family_t *self, state_t *out)
{
    const state_t *in = self->in[0];
    const wm_tensor_t *w = wm_family_constant (self, 1), *b = wm_family_constant (self, 2);
    if (!check_conv (self, w) || !check_conv_input (self, in, w))
        return false;
    uint32_t o_n = (uint32_t) w->dim[0], c_n = (uint32_t) w->dim[1], kh = (uint32_t) w->dim[2],
             kw = (uint32_t) w->dim[3];
    if (self->n_in > 2 && self->in[2] && (!b || !b->f || b->n != o_n))
        return wm_family_outside (self, self->node, "its bias does not fit");
    uint32_t rows = wm_view_size (&in->view, 1), columns = wm_view_size (&in->view, 2);
    if ((uint64_t) (rows - kh + 1) * (columns - kw + 1) > UINT32_MAX / o_n)
        return wm_family_outside (self, self->node, "it is too large");
    uint32_t index = self->net->n_conv++;
    layer_t *layer = &self->conv[index];
    if (!layer_new (self, layer, (uint64_t) kh * kw * c_n, o_n))
        return false;
    if (b)
        memcpy (layer->bias, b->f, o_n * sizeof *b->f);
    size_t area = (size_t) kh * kw; /* (o, c, kh, kw) to (kh, kw, c, o) */
    for (size_t o = 0; o < o_n; o++)
        for (size_t c = 0; c < c_n; c++)
            for (size_t k = 0; k < area; k++)
                layer->weight[(k * c_n + c) * o_n + o] = w->f[(o * c_n + c) * area + k];
    if (!take_affine (self, in->affine, layer, c_n))
        return false;
    self->net->conv[index] = (wm_conv_t){ .kh = kh, .kw = kw, .c_in = c_n, .c_out = o_n };
    if (index == 0) {
        self->net->height = rows;
        self->net->width = columns;
        self->net->channel = c_n;
    } else
        wm_family_use (self, wm_family_layer (self, in), in->version);
    *out = (state_t){ .kind = VIEW, .source = CONV, .n_layer = 1, .layer = { index } };
    uint32_t hwc[3] = { rows - kh + 1, columns - kw + 1, o_n };
    out->view = wm_view_plain (hwc, 3);
    wm_view_transpose (&out->view, (uint32_t[]){ 2, 0, 1 });
    return true;
}

/* Appends a dense layer that reads state `in`: weight element (k, o) at w[k * k_step + o * o_step],
   k in the order of the view, times alpha.  */
static bool add_dense (family_t *self, const wm_tensor_t *w, int transposed, float alpha,
                       state_t *out)
{
    const state_t *in = self->in[0];
    if (in->kind != VIEW || in->view.n_dim != 1 || !w || !w->f || w->n_dim != 2)
        return wm_family_outside (self, self->node,
                                  "it is no product of a flat tensor and constant weights");
    uint32_t n_in = wm_view_size (&in->view, 0), n_out = (uint32_t) w->dim[transposed ? 0 : 1];
    if (w->dim[transposed ? 1 : 0] != n_in)
        return wm_family_outside (self, self->node, "its weights do not fit its %u inputs", n_in);
    if (in->source == PATCH || in->n_layer != 1)
        return wm_family_outside (self, self->node,
                                  "it reads neither the convolutions nor a dense layer");
    if (in->source == CONV && in->layer[0] != self->net->n_conv - 1)
        return wm_family_outside (self, self->node, "it reads a convolution that is not the last");
    if (self->net->n_dense == WM_MODEL_DENSES_MAX)
        return wm_family_outside (self, self->node, "more than %d dense layers",
                                  WM_MODEL_DENSES_MAX);
    uint32_t index = self->net->n_dense++;
    layer_t *layer = &self->dense[index];
    if (!layer_new (self, layer, n_in, n_out))
        return false;
    size_t k_step = transposed ? 1 : n_out, o_step = transposed ? n_in : 1;
    for (size_t k = 0; k < n_in; k++) {
        float *row = layer->weight + wm_view_offset (&in->view, k) * n_out;
        for (size_t o = 0; o < n_out; o++)
            row[o] = alpha * w->f[k * k_step + o * o_step];
    }
    if (!take_affine (self, in->affine, layer,
                      in->source == CONV ? self->conv[in->layer[0]].n_out : n_in))
        return false;
    wm_family_use (self, wm_family_layer (self, in), in->version);
    self->net->dense[index] =
        (wm_dense_t){ .parent = in->source == CONV ? -1 : (int32_t) in->layer[0],
                      .n_in = n_in,
                      .n_out = n_out,
                      .output = -1 };
    *out = (state_t){ .kind = VIEW,
                      .source = DENSE,
                      .n_layer = 1,
                      .layer = { index },
                      .view = wm_view_plain (&n_out, 1) };
    return true;
}

bool wm_family_matmul (family_t *self, state_t *out)
{
    return add_dense (self, wm_family_constant (self, 1), 0, 1, out);
}

bool wm_family_gemm (family_t *self, state_t *out)
{
    if (wm_onnx_int (self->node, "transA", 0))
        return wm_family_outside (self, self->node, "transA");
    if (!add_dense (self, wm_family_constant (self, 1), wm_onnx_int (self->node, "transB", 0) != 0,
                    wm_family_float (self, "alpha", 1), out))
        return false;
    const wm_tensor_t *c = wm_family_constant (self, 2);
    if (self->n_in < 3 || !self->in[2])
        return true;
    layer_t *layer = &self->dense[out->layer[0]];
    if (!c || !c->f || (c->n != 1 && c->n != layer->n_out) ||
        (c->n > 1 && c->dim[c->n_dim - 1] != (int64_t) c->n))
        return wm_family_outside (self, self->node, "its bias does not fit");
    float beta = wm_family_float (self, "beta", 1);
    for (uint32_t o = 0; o < layer->n_out; o++)
        layer->bias[o] += beta * c->f[c->n == 1 ? 0 : o];
    return true;
}
