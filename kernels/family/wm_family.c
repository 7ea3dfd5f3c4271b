/* wm_family.c - recognises the EmTrkMichelId family.

   The nodes are visited in topological order and every value gets a state: a folded constant, or a
   view (wm_layer_view.h) of the patch or of a layer's output, or nothing. The first node that the
   family does not have on a view ends the search, and the message names it.

   A bias or an activation changes a layer in place, so each change raises the layer's version and
   every reader records the version that it read: a layer that changed after a node had read it is
   refused at the end.  */
#include "kernels/family/wm_family_private.h"
#include "schema/wm_limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In which the family's operators have the meaning that is read here: earlier sets join shapes by
   other rules, later ones are not known.  */
enum { SETS_FROM = 7, SETS_TO = 27 };

/* The node's inputs as constants, for lists of axes and sizes.  */
static const int64_t *list (const family_t *self, const char *name, size_t k, size_t *n)
{
    const wm_tensor_t *in[8];
    for (size_t i = 0; i < self->n_in; i++)
        in[i] = wm_family_constant (self, i);
    return wm_tensor_list (self->node, name, in, self->n_in, k, n);
}

typedef bool (visit_fn) (family_t *self, state_t *out);

/* ---- nodes that change views only ------------------------------------------------------------ */

static bool visit_same (family_t *self, state_t *out)
{
    const wm_tensor_t *training =
        wm_family_is (self, "Dropout") ? wm_family_constant (self, 2) : NULL;
    if (training && !(training->i && training->i[0] == 0))
        return wm_family_outside (self, self->node, "it drops values at random (training mode)");
    if (wm_family_is (self, "Cast") &&
        wm_onnx_int (self->node, "to", 0) != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
        return wm_family_outside (self, self->node, "a cast to another type than float32");
    *out = *self->in[0];
    return true;
}

static bool visit_shape (family_t *self, state_t *out)
{
    const wm_layer_view_t *view = &self->in[0]->view;
    uint32_t n = view->n_dim + 1;
    int64_t *size = wm_arena_take (self->arena, n, sizeof *size),
            start = wm_onnx_int (self->node, "start", 0), end = wm_onnx_int (self->node, "end", n);
    start = start < 0 ? start + n : start;
    end = end < 0 ? end + n : end > n ? n : end;
    if (!size || start < 0 || start >= end)
        return wm_family_outside (self, self->node, "a part of a shape");
    size[0] = WM_TENSOR_BATCH;
    for (uint32_t d = 0; d < view->n_dim; d++)
        size[d + 1] = wm_view_size (view, d);
    *out = (state_t){ .kind = CONSTANT,
                      .tensor = { .n_dim = 1,
                                  .dim = { end - start },
                                  .n = (size_t) (end - start),
                                  .i = size + start } };
    return true;
}

static bool visit_transpose (family_t *self, state_t *out)
{
    const Onnx__AttributeProto *perm = wm_onnx_attribute (self->node, "perm");
    *out = *self->in[0];
    uint32_t n = out->view.n_dim, from[WM_VIEW_DIMS_MAX], seen = 0;
    if (!perm || perm->n_ints != n + 1 || perm->ints[0] != 0)
        return wm_family_outside (self, self->node, "it moves the batch dimension");
    for (uint32_t d = 0; d < n; d++) {
        int64_t p = perm->ints[d + 1];
        if (p < 1 || p > n || seen >> p & 1)
            return wm_family_outside (self, self->node, "no permutation");
        seen |= 1u << p;
        from[d] = (uint32_t) p - 1;
    }
    wm_view_transpose (&out->view, from);
    return true;
}

static bool reshape_to (family_t *self, state_t *out, const uint32_t *dim, uint32_t n_dim)
{
    if (!wm_view_reshape (&out->view, dim, n_dim))
        return wm_family_outside (self, self->node, "it mixes dimensions");
    return true;
}

/* One size of a Reshape's target: copied (0), or given.  */
static int64_t target_size (const wm_layer_view_t *view, const int64_t *shape, size_t d)
{
    return shape[d] == 0 && d >= 1 && d <= view->n_dim ? wm_view_size (view, (uint32_t) d - 1)
                                                       : shape[d];
}

static bool visit_reshape (family_t *self, state_t *out)
{
    size_t n;
    const int64_t *shape = list (self, "shape", 1, &n);
    *out = *self->in[0];
    if (!shape || n < 2 || n > WM_VIEW_DIMS_MAX + 1)
        return wm_family_outside (self, self->node,
                                  "its target is not known or has no dimension but the batch");
    uint64_t values = wm_view_values (&out->view), known = 1;
    size_t free_dim = 0;
    uint32_t dim[WM_VIEW_DIMS_MAX];
    for (size_t d = 1; d < n; d++) {
        int64_t size = target_size (&out->view, shape, d);
        if (size == -1 && !free_dim)
            free_dim = d;
        else if (size < 1 || size > UINT32_MAX || (known *= (uint64_t) size) > values)
            return wm_family_outside (self, self->node, "its target does not fit");
        dim[d - 1] = (uint32_t) size;
    }
    if (free_dim)
        dim[free_dim - 1] = (uint32_t) (values / known);
    int keeps_batch = shape[0] == WM_TENSOR_BATCH || shape[0] == 0 ||
                      (shape[0] == -1 && !free_dim) || (shape[0] == 1 && self->fixed_batch);
    if (!keeps_batch || (!free_dim && known != values))
        return wm_family_outside (self, self->node, "it does not keep the batch dimension");
    return reshape_to (self, out, dim, (uint32_t) n - 1);
}

static bool visit_flatten (family_t *self, state_t *out)
{
    *out = *self->in[0];
    int64_t axis = wm_onnx_int (self->node, "axis", 1);
    if (axis != 1 && axis != -(int64_t) out->view.n_dim)
        return wm_family_outside (self, self->node, "axis %lld", (long long) axis);
    uint32_t values = (uint32_t) wm_view_values (&out->view);
    return reshape_to (self, out, &values, 1);
}

/* Squeeze and Unsqueeze: reshapes, given by axes.  */
static bool visit_axes (family_t *self, state_t *out)
{
    int insert = wm_family_is (self, "Unsqueeze");
    size_t n_axis;
    const int64_t *axis = list (self, "axes", 1, &n_axis);
    *out = *self->in[0];
    const wm_layer_view_t view = out->view;
    int64_t rank = view.n_dim + 1 + (insert ? (int64_t) n_axis : 0);
    if (!axis || n_axis > WM_VIEW_DIMS_MAX || rank > WM_VIEW_DIMS_MAX + 1)
        return wm_family_outside (self, self->node, "its axes are not known");
    uint32_t marked = 0, dim[WM_VIEW_DIMS_MAX + 1], n_dim = 0, from = 0;
    for (size_t k = 0; k < n_axis; k++) {
        int64_t a = axis[k] < 0 ? axis[k] + rank : axis[k];
        if (a < 1 || a >= rank || (!insert && wm_view_size (&view, (uint32_t) a - 1) != 1))
            return wm_family_outside (self, self->node, "axis %lld", (long long) axis[k]);
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

/* Heads side by side.  */
static bool visit_concat (family_t *self, state_t *out)
{
    int64_t axis = wm_onnx_int (self->node, "axis", 1);
    uint32_t width = 0;
    *out = (state_t){ .kind = VIEW, .source = DENSE };
    for (size_t k = 0; k < self->n_in; k++) {
        const state_t *in = self->in[k];
        if (!in || in->kind != VIEW || in->source != DENSE || in->n_layer != 1 ||
            in->view.n_dim != 1 || in->affine || (axis != 1 && axis != -1) ||
            out->n_layer == WM_MODEL_DENSES_MAX)
            return wm_family_outside (self, self->node, "it joins other things than heads");
        wm_family_use (self, wm_family_layer (self, in), in->version);
        out->layer[out->n_layer++] = in->layer[0];
        width += wm_view_size (&in->view, 0);
    }
    out->view = wm_view_plain (&width, 1);
    return true;
}

/* ---- the visit ------------------------------------------------------------------------------- */

static bool no_activation (family_t *self, const state_t *s)
{
    return wm_family_outside (self, s->maker,
                              "what is computed of its layer is no activation that is known");
}

/* Whether a node passes its input's values on unchanged.  */
static bool is_moved (visit_fn *visit)
{
    return visit == visit_same || visit == visit_shape || visit == visit_transpose ||
           visit == visit_reshape || visit == visit_flatten || visit == visit_axes;
}

static bool visit_view (family_t *self, state_t *out)
{
    static const struct {
        const char *op;
        visit_fn *visit;
    } table[] = {
        { "Add", wm_family_arithmetic },
        { "BatchNormalization", wm_family_batchnorm },
        { "Cast", visit_same },
        { "Concat", visit_concat },
        { "Clip", wm_family_activation },
        { "Conv", wm_family_conv },
        { "Div", wm_family_arithmetic },
        { "Dropout", visit_same },
        { "Elu", wm_family_activation },
        { "Flatten", visit_flatten },
        { "Gelu", wm_family_activation },
        { "Gemm", wm_family_gemm },
        { "HardSigmoid", wm_family_activation },
        { "HardSwish", wm_family_activation },
        { "Identity", visit_same },
        { "LeakyRelu", wm_family_activation },
        { "MatMul", wm_family_matmul },
        { "Mish", wm_family_activation },
        { "Mul", wm_family_arithmetic },
        { "PRelu", wm_family_activation },
        { "Relu", wm_family_activation },
        { "Reshape", visit_reshape },
        { "Selu", wm_family_activation },
        { "Shape", visit_shape },
        { "Sigmoid", wm_family_activation },
        { "Softmax", wm_family_activation },
        { "Softplus", wm_family_activation },
        { "Squeeze", visit_axes },
        { "Sub", wm_family_arithmetic },
        { "Swish", wm_family_activation },
        { "Tanh", wm_family_activation },
        { "Transpose", visit_transpose },
        { "Unsqueeze", visit_axes },
    };
    const char *domain = self->node->domain;
    size_t k = 0, n = sizeof table / sizeof *table;
    while (k < n && !wm_family_is (self, table[k].op))
        k++;
    const int own = domain && *domain && strcmp (domain, "ai.onnx") != 0;
    if (!own && !self->nothing && wm_family_follows (self))
        return wm_family_curve (self, out);
    if (k == n || own || !self->in[0])
        return wm_family_outside (self, self->node, NULL);
    if (self->nothing &&
        table[k].visit != wm_family_conv) /* which has better reasons to give first */
        return wm_family_lacks (self);
    if (self->in[0]->kind != VIEW && table[k].visit != wm_family_arithmetic &&
        table[k].visit != visit_concat)
        return wm_family_outside (self, self->node, "its first input is a constant");
    for (size_t i = 0; i < self->n_in && !is_moved (table[k].visit); i++)
        if (self->in[i] && self->in[i]->kind == VIEW && self->in[i]->curve)
            return no_activation (self, self->in[i]);
    return table[k].visit (self, out);
}

/* Returns the state of a value, made at the first call. NULL without memory.  */
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

/* A node without a view among its inputs: folded, or nothing until a node needs it.  */
static bool visit_constant (family_t *self, state_t *out)
{
    const wm_tensor_t *in[8] = { 0 };
    for (size_t k = 0; k < self->n_in; k++) {
        in[k] = wm_family_constant (self, k);
        if (self->in[k] && !in[k]) { /* reads something that could not be folded */
            out->maker = self->in[k]->maker ? self->in[k]->maker : out->maker;
            return true;
        }
    }
    if (wm_tensor_fold (self->arena, self->node, in, self->n_in, &out->tensor))
        out->kind = CONSTANT;
    return true;
}

static bool visit (family_t *self, const Onnx__NodeProto *node)
{
    self->node = node;
    self->n_in = node->n_input;
    int64_t result = node->n_output ? wm_onnx_find (self->onnx, node->output[0]) : -1;
    const state_t *view = NULL, *nothing = NULL;
    for (size_t k = 0; k < node->n_input; k++) {
        int64_t v = wm_onnx_find (self->onnx, node->input[k]);
        state_t *s = v < 0 ? NULL : state_at (self, v);
        if (v >= 0 && !s)
            return wm_family_outside (self, node, "no memory");
        view = s && s->kind == VIEW ? s : view;
        nothing = s && s->kind == NOTHING ? s : nothing;
        if (k < 8)
            self->in[k] = s;
    }
    state_t *out = result < 0 ? NULL : state_at (self, result);
    if (!out)
        return result < 0 ? !view || wm_family_outside (self, node, NULL)
                          : wm_family_outside (self, node, "no memory");
    self->nothing = nothing;
    if (node->n_input > 8)
        return !view || wm_family_outside (self, node, NULL);
    return view ? visit_view (self, out) : visit_constant (self, out);
}

/* ---- the result ------------------------------------------------------------------------------ */

static bool take_outputs (family_t *self, wm_port_t *output, uint32_t *n_output)
{
    const wm_onnx_t *o = self->onnx;
    uint32_t column = 0;
    if (!self->node || o->n_output < 1 || o->n_output > WM_MODEL_PORTS_MAX) {
        snprintf (self->why, 480, "general engine: %zu outputs, of %zu nodes", o->n_output,
                  o->n_node);
        return false;
    }
    for (*n_output = 0; *n_output < o->n_output; ++*n_output) {
        const char *name = o->output[*n_output]->name ? o->output[*n_output]->name : "";
        int64_t v = wm_onnx_find (self->onnx, name);
        const state_t *s = v < 0 ? NULL : self->state[v];
        wm_port_t *port = &output[*n_output];
        if (v >= 0 && self->onnx->value[v].node)
            self->node = self->onnx->value[v].node;
        if (s && s->kind == VIEW && s->curve)
            return no_activation (self, s);
        if (!s || s->kind != VIEW || s->source != DENSE || s->view.n_dim > 1 || s->affine ||
            strlen (name) >= sizeof port->name)
            return wm_family_outside (self, self->node,
                                      "output '%.100s' is not the end of a dense layer", name);
        *port = (wm_port_t){ .n_dim = 1, .dim = { (uint32_t) wm_view_values (&s->view) } };
        port->n_value = port->dim[0];
        strcpy (port->name, name);
        for (uint32_t k = 0; k < s->n_layer; k++) {
            wm_dense_t *dense = &self->net->dense[s->layer[k]];
            if (dense->output >= 0)
                return wm_family_outside (self, self->node, "output '%.100s' repeats another",
                                          name);
            dense->output = (int32_t) column;
            column += dense->n_out;
            if (s->n_layer == 1)
                wm_family_use (self, &self->dense[s->layer[k]], s->version);
        }
        if (column > WM_OUTPUTS_MAX)
            return wm_family_outside (self, self->node, "more than %u scores", WM_OUTPUTS_MAX);
    }
    return true;
}

static bool check_uses (family_t *self)
{
    if (self->n_use > USES_MAX)
        return wm_family_outside (self, self->node, "too many branches");
    for (uint32_t i = 0; i < self->n_use; i++)
        if (self->use[i].version != self->use[i].layer->version)
            return wm_family_outside (self, self->use[i].reader,
                                      "it reads a layer before its bias or activation");
    return true;
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

/* Moves the layers into the network and describes it in `why`.  */
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
        k->bend = layer->bend;
        k->weight = layer->weight;
        k->bias = layer->bias;
        parameters += (n_in + 1) * k->c_out;
        fault = check_finite (self, "convolution", i, layer, n_in, error);
    }
    for (uint32_t i = 0; i < net->n_dense && !fault; i++) {
        wm_dense_t *k = &net->dense[i];
        const layer_t *layer = &self->dense[i];
        k->act = layer->act;
        k->bend = layer->bend;
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
                           bool fixed_batch, wm_net_t *net, wm_port_t output[WM_MODEL_PORTS_MAX],
                           uint32_t *n_output, bool *found, char why[480], wm_error_t *error)
{
    *found = false;
    *net = (wm_net_t){ .n_conv = 0 };
    if (!onnx->tensorflow && (onnx->opset < SETS_FROM || onnx->opset > SETS_TO)) {
        snprintf (why, 480,
                  "general engine: the model states operator set %lld, and the EmTrkMichelId "
                  "family is known in sets %d to %d",
                  (long long) onnx->opset, SETS_FROM, SETS_TO);
        return WM_OK;
    }
    family_t *self = calloc (1, sizeof *self);
    if (self)
        self->state = calloc (onnx->n_value, sizeof *self->state);
    if (!self || !self->state) {
        free (self);
        return wm_fault (error, WM_EHOST, "%s: no memory to read it", onnx->path);
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
