/* wm_family.c - recognises the EmTrkMichelId family.

   The nodes are visited in topological order and every value gets a state: a folded constant, or a
   view (wm_view.h) of the patch or of a layer's output, or nothing. The first node that does to a
   view what the family does not know ends the search with its name.

   A bias or an activation changes a layer in place, so each change raises the layer's version and
   every reader remembers the version it read: a layer that grew after somebody had read it is no
   layer of ours, and is refused at the end.  */
#include "kernels/wm_family.h"
#include "kernels/wm_view.h"
#include "schema/wm_limits.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USES_MAX 256

typedef enum { PATCH, CONV, DENSE } source_t;

/* One layer being built: both kinds have the same parts.  */
typedef struct {
    uint32_t n_out;
    wm_act_t act;
    float *weight, *bias;
    uint32_t version;
} layer_t;

typedef enum { NOTHING, CONSTANT, VIEW } kind_t;

typedef struct {
    kind_t kind;
    const Onnx__NodeProto *maker; /* of NOTHING: the node that could not be folded, or NULL */
    wm_tensor_t tensor;           /* CONSTANT */
    wm_view_t view;               /* VIEW, with the rest: */
    source_t source;
    uint32_t version;
    uint32_t n_layer; /* 1, or the heads that were concatenated */
    uint32_t layer[WM_MODEL_DENSES_MAX];
} state_t;

typedef struct {
    const wm_onnx_t *onnx;
    wm_arena_t *arena;
    int fixed_batch;
    wm_net_t *net;
    layer_t conv[WM_MODEL_CONVS_MAX], dense[WM_MODEL_DENSES_MAX];
    struct {
        const layer_t *layer;
        uint32_t version;
        const Onnx__NodeProto *reader;
    } use[USES_MAX];
    uint32_t n_use;
    state_t **state;             /* per value of the graph */
    const Onnx__NodeProto *node; /* being visited */
    state_t *in[8];
    size_t n_in;
    const state_t *nothing; /* one of `in` that is neither view nor constant, or NULL */
    char *why;
} family_t;

/* Why the graph is not of the family; returns 0.  */
static int outside (family_t *self, const Onnx__NodeProto *node, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));
static int outside (family_t *self, const Onnx__NodeProto *node, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    int n = snprintf (self->why, 480,
                      "general engine: node '%.100s' (%.60s) is not of the EmTrkMichelId family",
                      wm_onnx_node_name (node), wm_onnx_op (node));
    if (format && n > 0 && n < 470) {
        n += snprintf (self->why + n, 480 - (size_t) n, ": ");
        vsnprintf (self->why + n, 480 - (size_t) n, format, arguments);
    }
    va_end (arguments);
    return 0;
}

static int is (const family_t *self, const char *op)
{
    return !strcmp (wm_onnx_op (self->node), op);
}

static layer_t *layer_of (family_t *self, const state_t *s)
{
    return s->source == CONV ? &self->conv[s->layer[0]] : &self->dense[s->layer[0]];
}

static void use (family_t *self, const layer_t *layer, uint32_t version)
{
    if (self->n_use < USES_MAX) {
        self->use[self->n_use].layer = layer;
        self->use[self->n_use].version = version;
        self->use[self->n_use].reader = self->node;
    }
    self->n_use++;
}

/* The node needs a constant that could not be folded.  */
static int lacks_constant (family_t *self)
{
    return self->nothing->maker
               ? outside (self, self->nothing->maker, "it cannot be folded to a constant")
               : outside (self, self->node, "a constant has a type that is not read");
}

static const wm_tensor_t *constant (const family_t *self, size_t k)
{
    return k < self->n_in && self->in[k] && self->in[k]->kind == CONSTANT ? &self->in[k]->tensor
                                                                          : NULL;
}

/* The node's inputs as constants, for lists of axes and sizes.  */
static const int64_t *list (const family_t *self, const char *name, size_t k, size_t *n)
{
    const wm_tensor_t *in[8];
    for (size_t i = 0; i < self->n_in; i++)
        in[i] = constant (self, i);
    return wm_tensor_list (self->node, name, in, self->n_in, k, n);
}

/* ---- nodes that only look differently - */

static int visit_same (family_t *self, state_t *out)
{
    const wm_tensor_t *training = is (self, "Dropout") ? constant (self, 2) : NULL;
    if (training && !(training->i && training->i[0] == 0))
        return outside (self, self->node, "it drops values at random (training mode)");
    if (is (self, "Cast") &&
        wm_onnx_int (self->node, "to", 0) != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
        return outside (self, self->node, "a cast to another type than float32");
    *out = *self->in[0];
    return 1;
}

static int visit_shape (family_t *self, state_t *out)
{
    const wm_view_t *view = &self->in[0]->view;
    uint32_t n = view->n_dim + 1;
    int64_t *size = wm_arena_take (self->arena, n, sizeof *size);
    if (!size || self->node->n_attribute)
        return outside (self, self->node, "a part of a shape");
    size[0] = WM_TENSOR_BATCH;
    for (uint32_t d = 0; d < view->n_dim; d++)
        size[d + 1] = wm_view_size (view, d);
    *out = (state_t){ .kind = CONSTANT, .tensor = { .n_dim = 1, .dim = { n }, .n = n, .i = size } };
    return 1;
}

static int visit_transpose (family_t *self, state_t *out)
{
    const Onnx__AttributeProto *perm = wm_onnx_attribute (self->node, "perm");
    *out = *self->in[0];
    uint32_t n = out->view.n_dim, from[WM_VIEW_DIMS_MAX], seen = 0;
    if (!perm || perm->n_ints != n + 1 || perm->ints[0] != 0)
        return outside (self, self->node, "it moves the batch dimension");
    for (uint32_t d = 0; d < n; d++) {
        int64_t p = perm->ints[d + 1];
        if (p < 1 || p > n || seen >> p & 1)
            return outside (self, self->node, "no permutation");
        seen |= 1u << p;
        from[d] = (uint32_t) p - 1;
    }
    wm_view_transpose (&out->view, from);
    return 1;
}

static int reshape_to (family_t *self, state_t *out, const uint32_t *dim, uint32_t n_dim)
{
    if (!wm_view_reshape (&out->view, dim, n_dim))
        return outside (self, self->node, "it mixes dimensions");
    return 1;
}

/* One size of a Reshape's target: copied (0), or given.  */
static int64_t target_size (const wm_view_t *view, const int64_t *shape, size_t d)
{
    return shape[d] == 0 && d >= 1 && d <= view->n_dim ? wm_view_size (view, (uint32_t) d - 1)
                                                       : shape[d];
}

static int visit_reshape (family_t *self, state_t *out)
{
    size_t n;
    const int64_t *shape = list (self, "shape", 1, &n);
    *out = *self->in[0];
    if (!shape || n < 2 || n > WM_VIEW_DIMS_MAX + 1)
        return outside (self, self->node,
                        "its target is not known or has no dimension but the batch");
    uint64_t values = wm_view_values (&out->view), known = 1;
    size_t free_dim = 0;
    uint32_t dim[WM_VIEW_DIMS_MAX];
    for (size_t d = 1; d < n; d++) {
        int64_t size = target_size (&out->view, shape, d);
        if (size == -1 && !free_dim)
            free_dim = d;
        else if (size < 1 || size > UINT32_MAX || (known *= (uint64_t) size) > values)
            return outside (self, self->node, "its target does not fit");
        dim[d - 1] = (uint32_t) size;
    }
    if (free_dim)
        dim[free_dim - 1] = (uint32_t) (values / known);
    int keeps_batch = shape[0] == WM_TENSOR_BATCH || shape[0] == 0 ||
                      (shape[0] == -1 && !free_dim) || (shape[0] == 1 && self->fixed_batch);
    if (!keeps_batch || (!free_dim && known != values))
        return outside (self, self->node, "it does not keep the batch dimension");
    return reshape_to (self, out, dim, (uint32_t) n - 1);
}

static int visit_flatten (family_t *self, state_t *out)
{
    *out = *self->in[0];
    int64_t axis = wm_onnx_int (self->node, "axis", 1);
    if (axis != 1 && axis != -(int64_t) out->view.n_dim)
        return outside (self, self->node, "axis %lld", (long long) axis);
    uint32_t values = (uint32_t) wm_view_values (&out->view);
    return reshape_to (self, out, &values, 1);
}

/* Squeeze and Unsqueeze: reshapes, said by axes.  */
static int visit_axes (family_t *self, state_t *out)
{
    int insert = is (self, "Unsqueeze");
    size_t n_axis;
    const int64_t *axis = list (self, "axes", 1, &n_axis);
    *out = *self->in[0];
    const wm_view_t view = out->view;
    int64_t rank = view.n_dim + 1 + (insert ? (int64_t) n_axis : 0);
    if (!axis || n_axis > WM_VIEW_DIMS_MAX || rank > WM_VIEW_DIMS_MAX + 1)
        return outside (self, self->node, "its axes are not known");
    uint32_t marked = 0, dim[WM_VIEW_DIMS_MAX + 1], n_dim = 0, from = 0;
    for (size_t k = 0; k < n_axis; k++) {
        int64_t a = axis[k] < 0 ? axis[k] + rank : axis[k];
        if (a < 1 || a >= rank || (!insert && wm_view_size (&view, (uint32_t) a - 1) != 1))
            return outside (self, self->node, "axis %lld", (long long) axis[k]);
        marked |= 1u << a;
    }
    for (int64_t d = 1; d < rank; d++) {
        int hit = (marked >> d & 1) != 0;
        if (insert)
            dim[n_dim++] = hit || from >= view.n_dim ? 1 : wm_view_size (&view, from++);
        else if (!hit)
            dim[n_dim++] = wm_view_size (&view, (uint32_t) d - 1);
    }
    return reshape_to (self, out, dim, n_dim);
}

/* ---- layers
 * -------------------------------------------------------------------------------------- */

static int all_are (const Onnx__AttributeProto *a, int64_t value)
{
    for (size_t i = 0; a && i < a->n_ints; i++)
        if (a->ints[i] != value)
            return 0;
    return 1;
}

static int attribute_is (const Onnx__AttributeProto *a, const char *text)
{
    return a && a->has_s && a->s.len == strlen (text) && !memcmp (a->s.data, text, a->s.len);
}

static int check_conv (family_t *self, const wm_tensor_t *w)
{
    const Onnx__AttributeProto *pad = wm_onnx_attribute (self->node, "auto_pad"),
                               *kernel = wm_onnx_attribute (self->node, "kernel_shape");
    if (!all_are (wm_onnx_attribute (self->node, "strides"), 1))
        return outside (self, self->node, "its stride is not 1");
    if (!all_are (wm_onnx_attribute (self->node, "dilations"), 1))
        return outside (self, self->node, "it is dilated");
    if (wm_onnx_int (self->node, "group", 1) != 1)
        return outside (self, self->node, "it is grouped");
    if (!all_are (wm_onnx_attribute (self->node, "pads"), 0) ||
        (pad && !attribute_is (pad, "VALID") && !attribute_is (pad, "NOTSET")))
        return outside (self, self->node, "it is padded");
    if (self->nothing)
        return lacks_constant (self);
    if (!w || !w->f || w->n_dim != 4)
        return outside (self, self->node, "its weights are no constant of four dimensions");
    if (kernel &&
        (kernel->n_ints != 2 || kernel->ints[0] != w->dim[2] || kernel->ints[1] != w->dim[3]))
        return outside (self, self->node, "its kernel_shape is not that of its weights");
    return 1;
}

/* The chain's next convolution must see (channel, row, column) of channels-last memory.  */
static int check_conv_input (family_t *self, const state_t *in, const wm_tensor_t *w)
{
    const wm_view_t *v = &in->view;
    if (v->n_dim != 3 || wm_view_size (v, 0) != w->dim[1])
        return outside (self, self->node, "its input is no image of %lld channels",
                        (long long) w->dim[1]);
    uint32_t c = wm_view_size (v, 0), rows = wm_view_size (v, 1), columns = wm_view_size (v, 2);
    if (!wm_view_is (v, 0, c, 1) || !wm_view_is (v, 1, rows, (uint64_t) columns * c) ||
        !wm_view_is (v, 2, columns, c))
        return outside (self, self->node, "its input is not channels last, or turned");
    if (w->dim[2] > rows || w->dim[3] > columns)
        return outside (self, self->node, "its kernel is larger than its input");
    int next = in->source == PATCH ? self->net->n_conv == 0
                                   : in->source == CONV && in->layer[0] == self->net->n_conv - 1;
    if (!next || self->net->n_dense)
        return outside (self, self->node, "the convolutions form no chain");
    if (self->net->n_conv == WM_MODEL_CONVS_MAX)
        return outside (self, self->node, "more than %d convolutions", WM_MODEL_CONVS_MAX);
    return 1;
}

/* Room for a layer's weights and bias; the arena says why there is none.  */
static int layer_new (family_t *self, layer_t *layer, uint64_t n_in, uint32_t n_out)
{
    *layer = (layer_t){ .n_out = n_out,
                        .weight = wm_arena_take (self->arena, n_in, 4 * (size_t) n_out),
                        .bias = wm_arena_take (self->arena, n_out, 4) };
    return layer->weight && layer->bias ? 1 : outside (self, self->node, "it is too large");
}

static int visit_conv (family_t *self, state_t *out)
{
    const state_t *in = self->in[0];
    const wm_tensor_t *w = constant (self, 1), *b = constant (self, 2);
    if (in->kind != VIEW || !check_conv (self, w) || !check_conv_input (self, in, w))
        return in->kind == VIEW ? 0 : outside (self, self->node, "its input is a constant");
    uint32_t o_n = (uint32_t) w->dim[0], c_n = (uint32_t) w->dim[1], kh = (uint32_t) w->dim[2],
             kw = (uint32_t) w->dim[3];
    if (b && (!b->f || b->n != o_n))
        return outside (self, self->node, "its bias does not fit");
    uint32_t rows = wm_view_size (&in->view, 1), columns = wm_view_size (&in->view, 2);
    if ((uint64_t) (rows - kh + 1) * (columns - kw + 1) > UINT32_MAX / o_n)
        return outside (self, self->node, "it is too large");
    uint32_t index = self->net->n_conv++;
    layer_t *layer = &self->conv[index];
    if (!layer_new (self, layer, (uint64_t) kh * kw * c_n, o_n))
        return 0;
    if (b)
        memcpy (layer->bias, b->f, o_n * sizeof *b->f);
    size_t area = (size_t) kh * kw; /* (o, c, kh, kw) to (kh, kw, c, o) */
    for (size_t o = 0; o < o_n; o++)
        for (size_t c = 0; c < c_n; c++)
            for (size_t k = 0; k < area; k++)
                layer->weight[(k * c_n + c) * o_n + o] = w->f[(o * c_n + c) * area + k];
    self->net->conv[index] = (wm_conv_t){ .kh = kh, .kw = kw, .c_in = c_n, .c_out = o_n };
    if (index == 0) {
        self->net->height = rows;
        self->net->width = columns;
        self->net->channel = c_n;
    } else
        use (self, layer_of (self, in), in->version);
    *out = (state_t){ .kind = VIEW, .source = CONV, .n_layer = 1, .layer = { index } };
    uint32_t hwc[3] = { rows - kh + 1, columns - kw + 1, o_n };
    out->view = wm_view_plain (hwc, 3);
    wm_view_transpose (&out->view, (uint32_t[]){ 2, 0, 1 });
    return 1;
}

/* Appends a dense layer that reads state `in`: weight element (k, o) at w[k * k_step + o * o_step],
   k in the order of the view, times alpha.  */
static int add_dense (family_t *self, const wm_tensor_t *w, int transposed, float alpha,
                      state_t *out)
{
    const state_t *in = self->in[0];
    if (in->kind != VIEW || in->view.n_dim != 1 || !w || !w->f || w->n_dim != 2)
        return outside (self, self->node, "it is no product of a flat tensor and constant weights");
    uint32_t n_in = wm_view_size (&in->view, 0), n_out = (uint32_t) w->dim[transposed ? 0 : 1];
    if (w->dim[transposed ? 1 : 0] != n_in)
        return outside (self, self->node, "its weights do not fit its %u inputs", n_in);
    if (in->source == PATCH || in->n_layer != 1)
        return outside (self, self->node, "it reads neither the convolutions nor a dense layer");
    if (in->source == CONV && in->layer[0] != self->net->n_conv - 1)
        return outside (self, self->node, "it reads a convolution that is not the last");
    if (self->net->n_dense == WM_MODEL_DENSES_MAX)
        return outside (self, self->node, "more than %d dense layers", WM_MODEL_DENSES_MAX);
    uint32_t index = self->net->n_dense++;
    layer_t *layer = &self->dense[index];
    if (!layer_new (self, layer, n_in, n_out))
        return 0;
    size_t k_step = transposed ? 1 : n_out, o_step = transposed ? n_in : 1;
    for (size_t k = 0; k < n_in; k++) {
        float *row = layer->weight + wm_view_offset (&in->view, k) * n_out;
        for (size_t o = 0; o < n_out; o++)
            row[o] = alpha * w->f[k * k_step + o * o_step];
    }
    use (self, layer_of (self, in), in->version);
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
    return 1;
}

static int visit_matmul (family_t *self, state_t *out)
{
    return add_dense (self, constant (self, 1), 0, 1, out);
}

static float float_attribute (const family_t *self, const char *name, float otherwise)
{
    const Onnx__AttributeProto *a = wm_onnx_attribute (self->node, name);
    return a && a->has_f ? a->f : otherwise;
}

static int visit_gemm (family_t *self, state_t *out)
{
    if (wm_onnx_int (self->node, "transA", 0))
        return outside (self, self->node, "transA");
    if (!add_dense (self, constant (self, 1), wm_onnx_int (self->node, "transB", 0) != 0,
                    float_attribute (self, "alpha", 1), out))
        return 0;
    const wm_tensor_t *c = constant (self, 2);
    if (self->n_in < 3 || !self->in[2])
        return 1;
    layer_t *layer = &self->dense[out->layer[0]];
    if (!c || !c->f || (c->n != 1 && c->n != layer->n_out) ||
        (c->n > 1 && c->dim[c->n_dim - 1] != (int64_t) c->n))
        return outside (self, self->node, "its bias does not fit");
    float beta = float_attribute (self, "beta", 1);
    for (uint32_t o = 0; o < layer->n_out; o++)
        layer->bias[o] = beta * c->f[c->n == 1 ? 0 : o];
    return 1;
}

/* The layer behind a view, if a bias or an activation may still be put on it.  */
static layer_t *growing (family_t *self, const state_t *in)
{
    if (in->kind != VIEW || in->source == PATCH || in->n_layer != 1) {
        outside (self, self->node, "it follows no single layer");
        return NULL;
    }
    layer_t *layer = layer_of (self, in);
    if (layer->act != WM_ACT_NONE || layer->version != in->version) {
        outside (self, self->node, "it follows a layer that is already complete");
        return NULL;
    }
    return layer;
}

/* A bias by its own node: the constant runs along the layer's channels.  */
static int visit_add (family_t *self, state_t *out)
{
    size_t data = self->in[0]->kind == VIEW ? 0 : 1;
    const wm_tensor_t *c = constant (self, 1 - data);
    *out = *self->in[data];
    layer_t *layer = c && c->f ? growing (self, out) : NULL;
    if (!layer)
        return c && c->f ? 0 : outside (self, self->node, "it adds no constant");
    const wm_view_t *v = &out->view;
    if (c->n_dim > v->n_dim + 1 || (c->n != 1 && c->n != layer->n_out))
        return outside (self, self->node, "it adds no bias");
    for (uint32_t d = 0; d < c->n_dim; d++) { /* shapes are aligned at their ends */
        int64_t size = c->dim[c->n_dim - 1 - d];
        if (size > 1 && (d >= v->n_dim || !wm_view_is (v, v->n_dim - 1 - d, layer->n_out, 1)))
            return outside (self, self->node, "it adds no bias");
    }
    for (uint32_t o = 0; o < layer->n_out; o++)
        layer->bias[o] += c->f[c->n == 1 ? 0 : o];
    out->version = ++layer->version;
    return 1;
}

static int visit_activation (family_t *self, state_t *out)
{
    *out = *self->in[0];
    layer_t *layer = growing (self, out);
    if (!layer)
        return 0;
    layer->act = is (self, "Relu")      ? WM_ACT_RELU
                 : is (self, "Sigmoid") ? WM_ACT_SIGMOID
                 : is (self, "Tanh")    ? WM_ACT_TANH
                                        : WM_ACT_SOFTMAX;
    if (layer->act == WM_ACT_SOFTMAX) {
        int64_t axis = wm_onnx_int (self->node, "axis", 1);
        if (out->source != DENSE || out->view.n_dim != 1 || (axis != 1 && axis != -1))
            return outside (self, self->node, "it does not run over the outputs of a dense layer");
    }
    out->version = ++layer->version;
    return 1;
}

/* Heads side by side.  */
static int visit_concat (family_t *self, state_t *out)
{
    int64_t axis = wm_onnx_int (self->node, "axis", 1);
    uint32_t width = 0;
    *out = (state_t){ .kind = VIEW, .source = DENSE };
    for (size_t k = 0; k < self->n_in; k++) {
        const state_t *in = self->in[k];
        if (!in || in->kind != VIEW || in->source != DENSE || in->n_layer != 1 ||
            in->view.n_dim != 1 || (axis != 1 && axis != -1) || out->n_layer == WM_MODEL_DENSES_MAX)
            return outside (self, self->node, "it joins other things than heads");
        use (self, layer_of (self, in), in->version);
        out->layer[out->n_layer++] = in->layer[0];
        width += wm_view_size (&in->view, 0);
    }
    out->view = wm_view_plain (&width, 1);
    return 1;
}

/* ---- the visit
 * ----------------------------------------------------------------------------------- */

static int visit_view (family_t *self, state_t *out)
{
    static const struct {
        const char *op;
        int (*visit) (family_t *self, state_t *out);
    } table[] = {
        { "Add", visit_add },
        { "Cast", visit_same },
        { "Concat", visit_concat },
        { "Conv", visit_conv },
        { "Dropout", visit_same },
        { "Flatten", visit_flatten },
        { "Gemm", visit_gemm },
        { "Identity", visit_same },
        { "MatMul", visit_matmul },
        { "Relu", visit_activation },
        { "Reshape", visit_reshape },
        { "Shape", visit_shape },
        { "Sigmoid", visit_activation },
        { "Softmax", visit_activation },
        { "Squeeze", visit_axes },
        { "Tanh", visit_activation },
        { "Transpose", visit_transpose },
        { "Unsqueeze", visit_axes },
    };
    const char *domain = self->node->domain;
    size_t k = 0, n = sizeof table / sizeof *table;
    while (k < n && !is (self, table[k].op))
        k++;
    if (k == n || (domain && *domain && strcmp (domain, "ai.onnx")) || !self->in[0])
        return outside (self, self->node, NULL);
    if (self->nothing && table[k].visit != visit_conv) /* which has better reasons to give first */
        return lacks_constant (self);
    return table[k].visit (self, out);
}

/* The state of a value, made when first asked for. NULL without memory.  */
static state_t *state_at (family_t *self, int64_t v)
{
    state_t **s = &self->state[v];
    if (*s)
        return *s;
    *s = wm_arena_take (self->arena, 1, sizeof **s);
    const wm_onnx_value_t *value = &self->onnx->value[v];
    if (*s && value->initializer && wm_tensor_read (self->arena, value->initializer, &(*s)->tensor))
        (*s)->kind = CONSTANT;
    if (*s)
        (*s)->maker = value->node;
    return *s;
}

/* A node without a view among its inputs: folded, or nothing until somebody needs it.  */
static int visit_constant (family_t *self, state_t *out)
{
    const wm_tensor_t *in[8] = { 0 };
    for (size_t k = 0; k < self->n_in; k++) {
        in[k] = constant (self, k);
        if (self->in[k] && !in[k]) { /* reads something that could not be folded */
            out->maker = self->in[k]->maker ? self->in[k]->maker : out->maker;
            return 1;
        }
    }
    if (wm_tensor_fold (self->arena, self->node, in, self->n_in, &out->tensor))
        out->kind = CONSTANT;
    return 1;
}

static int visit (family_t *self, const Onnx__NodeProto *node)
{
    self->node = node;
    self->n_in = node->n_input;
    int64_t result = node->n_output ? wm_onnx_find (self->onnx, node->output[0]) : -1;
    const state_t *view = NULL, *nothing = NULL;
    for (size_t k = 0; k < node->n_input; k++) {
        int64_t v = wm_onnx_find (self->onnx, node->input[k]);
        state_t *s = v < 0 ? NULL : state_at (self, v);
        if (v >= 0 && !s)
            return outside (self, node, "no memory");
        view = s && s->kind == VIEW ? s : view;
        nothing = s && s->kind == NOTHING ? s : nothing;
        if (k < 8)
            self->in[k] = s;
    }
    state_t *out = result < 0 ? NULL : state_at (self, result);
    if (!out)
        return result < 0 ? !view || outside (self, node, NULL) : outside (self, node, "no memory");
    self->nothing = nothing;
    if (node->n_input > 8)
        return !view || outside (self, node, NULL);
    return view ? visit_view (self, out) : visit_constant (self, out);
}

/* ---- the result
 * ---------------------------------------------------------------------------------- */

static int take_outputs (family_t *self, wm_port_t *output, uint32_t *n_output)
{
    const wm_onnx_t *o = self->onnx;
    uint32_t column = 0;
    if (!self->node || o->n_output < 1 || o->n_output > WM_MODEL_PORTS_MAX) {
        snprintf (self->why, 480, "general engine: %zu outputs, of %zu nodes", o->n_output,
                  o->n_node);
        return 0;
    }
    for (*n_output = 0; *n_output < o->n_output; ++*n_output) {
        const char *name = o->output[*n_output]->name ? o->output[*n_output]->name : "";
        int64_t v = wm_onnx_find (self->onnx, name);
        const state_t *s = v < 0 ? NULL : self->state[v];
        wm_port_t *port = &output[*n_output];
        if (v >= 0 && self->onnx->value[v].node)
            self->node = self->onnx->value[v].node;
        if (!s || s->kind != VIEW || s->source != DENSE || s->view.n_dim != 1 ||
            strlen (name) >= sizeof port->name)
            return outside (self, self->node, "output '%.100s' is not the end of a dense layer",
                            name);
        *port = (wm_port_t){ .n_dim = 1, .dim = { wm_view_size (&s->view, 0) } };
        port->n_value = port->dim[0];
        strcpy (port->name, name);
        for (uint32_t k = 0; k < s->n_layer; k++) {
            wm_dense_t *dense = &self->net->dense[s->layer[k]];
            if (dense->output >= 0)
                return outside (self, self->node, "output '%.100s' repeats another", name);
            dense->output = (int32_t) column;
            column += dense->n_out;
            if (s->n_layer == 1)
                use (self, &self->dense[s->layer[k]], s->version);
        }
        if (column > WM_OUTPUTS_MAX)
            return outside (self, self->node, "more than %u scores", WM_OUTPUTS_MAX);
    }
    return 1;
}

static int check_uses (family_t *self)
{
    if (self->n_use > USES_MAX)
        return outside (self, self->node, "too many branches");
    for (uint32_t i = 0; i < self->n_use; i++)
        if (self->use[i].version != self->use[i].layer->version)
            return outside (self, self->use[i].reader,
                            "it reads a layer before its bias or activation");
    return 1;
}

static wm_fault_t check_finite (const family_t *self, const char *kind, uint32_t index,
                                const layer_t *layer, uint64_t n_in, wm_error_t *error)
{
    for (uint64_t k = 0; k < (n_in + 1) * layer->n_out; k++) {
        uint64_t n_weight = n_in * layer->n_out;
        float x = k < n_weight ? layer->weight[k] : layer->bias[k - n_weight];
        if (!isfinite (x))
            return wm_fault (error, WM_EBATCH,
                             "%s: %s layer %u has a weight that is not finite: a damaged model",
                             self->onnx->path, kind, index + 1);
    }
    return WM_OK;
}

/* Moves the layers into the network and says what was found.  */
static wm_fault_t finish (family_t *self, wm_error_t *error)
{
    wm_net_t *net = self->net;
    wm_fault_t fault = WM_OK;
    uint64_t parameters = 0;
    for (uint32_t i = 0; i < net->n_conv && !fault; i++) {
        wm_conv_t *k = &net->conv[i];
        const layer_t *layer = &self->conv[i];
        uint64_t n_in = (uint64_t) k->kh * k->kw * k->c_in;
        k->act = layer->act;
        k->weight = layer->weight;
        k->bias = layer->bias;
        parameters += (n_in + 1) * k->c_out;
        fault = check_finite (self, "convolution", i, layer, n_in, error);
    }
    for (uint32_t i = 0; i < net->n_dense && !fault; i++) {
        wm_dense_t *k = &net->dense[i];
        const layer_t *layer = &self->dense[i];
        k->act = layer->act;
        k->weight = layer->weight;
        k->bias = layer->bias;
        parameters += ((uint64_t) k->n_in + 1) * k->n_out;
        fault = check_finite (self, "dense", i, layer, k->n_in, error);
    }
    snprintf (self->why, 480,
              "sparse engine: of the EmTrkMichelId family, %u convolution%s, %u dense layers, %llu "
              "parameters",
              net->n_conv, net->n_conv > 1 ? "s" : "", net->n_dense,
              (unsigned long long) parameters);
    return fault;
}

wm_fault_t wm_family_find (const wm_onnx_t *onnx, wm_arena_t *arena, const wm_port_t *input,
                           int fixed_batch, wm_net_t *net, wm_port_t output[WM_MODEL_PORTS_MAX],
                           uint32_t *n_output, int *found, char why[480], wm_error_t *error)
{
    *found = 0;
    *net = (wm_net_t){ .n_conv = 0 };
    family_t *self = calloc (1, sizeof *self);
    if (self)
        self->state = calloc (onnx->n_value, sizeof *self->state);
    if (!self || !self->state) {
        free (self);
        return wm_fault (error, WM_EHOST, "%s: no memory to look at it", onnx->path);
    }
    self->onnx = onnx;
    self->arena = arena;
    self->fixed_batch = fixed_batch;
    self->net = net;
    self->why = why;
    state_t *patch = state_at (self, wm_onnx_find (onnx, input->name));
    int ok = patch != NULL;
    if (ok)
        *patch = (state_t){ .kind = VIEW,
                            .source = PATCH,
                            .n_layer = 1,
                            .view = wm_view_plain (input->dim, input->n_dim) };
    for (size_t i = 0; ok && i < onnx->n_node; i++)
        ok = visit (self, onnx->node[i]);
    ok = ok && take_outputs (self, output, n_output) && check_uses (self);
    wm_fault_t fault = WM_OK;
    if (arena->failed)
        fault = wm_fault (error, WM_EHOST, "%s: no memory for its weights", onnx->path);
    else if (ok)
        fault = finish (self, error);
    *found = ok && !fault;
    free (self->state);
    free (self);
    return fault;
}
