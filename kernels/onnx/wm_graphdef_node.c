/* wm_graphdef_node.c - each node of a TensorFlow graph that the family is made of, as ONNX
   nodes.  */
#include "kernels/onnx/wm_graphdef_private.h"
#include "kernels/onnx/wm_maker.h"
#include "kernels/onnx/wm_tensor.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { DT_FLOAT = 1, DT_DOUBLE = 2, DT_INT32 = 3, DT_INT64 = 9, DT_BOOL = 10, DT_HALF = 19 };

#define STEPS_MAX 64 /* of a walk back along nodes that hand on their first input */

/* ---- reading the file
   ------------------------------------------------------------------------- */

static int64_t attr_int (const Graphdef__Node *node, const char *key)
{
    const Graphdef__Value *v = wm_graphdef_attr (node, key);
    return v && v->has_i ? v->i : 0;
}

static float attr_float (const Graphdef__Node *node, const char *key, float otherwise)
{
    const Graphdef__Value *v = wm_graphdef_attr (node, key);
    return v && v->has_f ? v->f : otherwise;
}

static int attr_bool (const Graphdef__Node *node, const char *key)
{
    const Graphdef__Value *v = wm_graphdef_attr (node, key);
    return v && v->has_b && v->b;
}

static bool attr_is (const Graphdef__Node *node, const char *key, const char *word)
{
    const Graphdef__Value *v = wm_graphdef_attr (node, key);
    return v && v->has_s && v->s.len == strlen (word) && !memcmp (v->s.data, word, v->s.len);
}

/* Returns the constant behind an input, through nodes that pass it on; NULL: not a constant.  */
static const Graphdef__Tensor *constant (const wm_rewriter_t *self, const char *input)
{
    for (int step = 0; step < STEPS_MAX; step++) {
        uint32_t output;
        const wm_named_t *found = wm_graphdef_find (self, input, &output);
        if (!found || output)
            return NULL;
        const char *op = wm_onnx_text (found->node->op);
        const Graphdef__Value *value = wm_graphdef_attr (found->node, "value");
        if (!strcmp (op, "Const"))
            return value ? value->tensor : NULL;
        if ((strcmp (op, "Identity") && strcmp (op, "PlaceholderWithDefault")) ||
            !found->node->n_input)
            return NULL;
        input = found->node->input[0];
    }
    return NULL;
}

/* Reads a short list of integers (or a boolean) from an input. Returns how many, 0 for another
   value.  */
static size_t integers (const wm_rewriter_t *self, const char *input, int64_t value[8])
{
    const Graphdef__Tensor *t = constant (self, input);
    size_t n = 1, size = t && t->dtype == DT_INT64 ? 8 : t && t->dtype == DT_INT32 ? 4 : 1;
    if (!t || (size == 1 && t->dtype != DT_BOOL))
        return 0;
    for (size_t d = 0; t->shape && d < t->shape->n_dim; d++) {
        int64_t dim = t->shape->dim[d]->size;
        if (dim < 1 || dim > 8 || (n *= (size_t) dim) > 8)
            return 0;
    }
    if (t->has_content && t->content.len != n * size)
        return 0;
    for (size_t k = 0; k < n; k++) {
        value[k] = 0;
        if (t->has_content) /* little-endian, as we are */
            memcpy (&value[k], t->content.data + k * size, size);
        else if (size == 8 && t->n_int64_val)
            value[k] = t->int64_val[k < t->n_int64_val ? k : t->n_int64_val - 1];
        else if (size == 4 && t->n_int_val)
            value[k] = t->int_val[k < t->n_int_val ? k : t->n_int_val - 1];
        else if (size == 1 && t->n_bool_val)
            value[k] = t->bool_val[0];
        if (size == 4)
            value[k] = (int32_t) value[k];
    }
    return n;
}

/* ---- building
   --------------------------------------------------------------------------------- */

/* Adds a node with inputs a, b, c (NULL ends them).  */
static Onnx__NodeProto *emit (wm_rewriter_t *self, const char *op, char *output, char *a, char *b,
                              char *c)
{
    Onnx__NodeProto *node = wm_maker_node (&self->onnx->arena, op, output, a, b, c);
    if (!node || self->graph->n_node == self->node_max) {
        self->onnx->arena.failed = true;
        return NULL;
    }
    node->name = self->from->name ? self->from->name : output;
    self->graph->node[self->graph->n_node++] = node;
    return node;
}

static Onnx__AttributeProto *set (wm_rewriter_t *self, Onnx__NodeProto *node, const char *key)
{
    enum { SET_MAX = 4 };
    Onnx__AttributeProto *a = wm_graphdef_take (self, 1, sizeof *a);
    if (node && !node->attribute)
        node->attribute = wm_graphdef_take (self, SET_MAX, sizeof *node->attribute);
    if (!a || !node || !node->attribute)
        return NULL;
    onnx__attribute_proto__init (a);
    a->name = (char *) key;
    return node->attribute[node->n_attribute++] = a;
}

static void set_int (wm_rewriter_t *self, Onnx__NodeProto *node, const char *key, int64_t value)
{
    Onnx__AttributeProto *a = set (self, node, key);
    if (a) {
        a->has_i = 1;
        a->i = value;
    }
}

static void set_float (wm_rewriter_t *self, Onnx__NodeProto *node, const char *key, float value)
{
    Onnx__AttributeProto *a = set (self, node, key);
    if (a) {
        a->has_f = 1;
        a->f = value;
    }
}

static void set_ints (wm_rewriter_t *self, Onnx__NodeProto *node, const char *key,
                      const int64_t *value, size_t n)
{
    Onnx__AttributeProto *a = set (self, node, key);
    int64_t *list = wm_graphdef_take (self, n, sizeof *list);
    if (a && list) {
        a->ints = memcpy (list, value, n * sizeof *list);
        a->n_ints = n;
    }
}

static Onnx__TensorProto *add_tensor (wm_rewriter_t *self, char *called)
{
    Onnx__TensorProto *t = wm_graphdef_take (self, 1, sizeof *t);
    if (!t || self->graph->n_initializer == self->tensor_max) {
        self->onnx->arena.failed = true;
        return NULL;
    }
    onnx__tensor_proto__init (t);
    t->name = called;
    t->has_data_type = 1;
    return self->graph->initializer[self->graph->n_initializer++] = t;
}

/* A list of one integer as an initializer.  */
static char *add_integer (wm_rewriter_t *self, const char *part, int64_t value)
{
    Onnx__TensorProto *t = add_tensor (self, wm_graphdef_name (self, part));
    int64_t *both = wm_graphdef_take (self, 2, sizeof *both);
    if (!t || !both)
        return (char *) "";
    both[0] = 1;
    both[1] = value;
    t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
    t->n_dims = 1;
    t->dims = both;
    t->n_int64_data = 1;
    t->int64_data = both + 1;
    return t->name;
}

static char *permuted (wm_rewriter_t *self, char *value, char *into, int64_t a, int64_t b,
                       int64_t c, int64_t d)
{
    set_ints (self, emit (self, "Transpose", into, value, NULL, NULL), "perm",
              (int64_t[]){ a, b, c, d }, 4);
    return into;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Keeps a node without a rewriting rule: its name, its operator, inputs and outputs.  */
static void keep (wm_rewriter_t *self)
{
    Onnx__NodeProto *node =
        emit (self, wm_onnx_text (self->from->op), wm_graphdef_name (self, ""), NULL, NULL, NULL);
    uint32_t ignored;
    const wm_named_t *found = wm_graphdef_find (self, wm_onnx_text (self->from->name), &ignored);
    uint32_t n = found && found->n_output > 1 ? found->n_output : 1;
    char **out = wm_graphdef_take (self, n, sizeof *out);
    if (!node || !out)
        return;
    node->domain = (char *) "tensorflow";
    node->input = self->in;
    node->n_input = self->n_in;
    out[0] = node->output[0];
    for (uint32_t k = 1; k < n; k++) {
        size_t bytes = strlen (out[0]) + 12;
        if ((out[k] = wm_graphdef_take (self, bytes, 1)))
            snprintf (out[k], bytes, "%s:%u", out[0], k);
    }
    node->output = out;
    node->n_output = n;
}

static void rewrite_same (wm_rewriter_t *self)
{
    emit (self, "Identity", wm_graphdef_name (self, ""), self->in[0], NULL, NULL);
}

static void rewrite_same_n (wm_rewriter_t *self)
{
    for (size_t k = 0; k < self->n_in; k++) {
        char *own = wm_graphdef_name (self, ""),
             *name = wm_graphdef_take (self, strlen (own) + 24, 1);
        if (name)
            snprintf (name, strlen (own) + 24, k ? "%s:%zu" : "%s", own, k);
        emit (self, "Identity", name, self->in[k], NULL, NULL);
    }
}

static void rewrite_square (wm_rewriter_t *self)
{
    emit (self, "Mul", wm_graphdef_name (self, ""), self->in[0], self->in[0], NULL);
}

static void rewrite_unary (wm_rewriter_t *self)
{
    Onnx__NodeProto *node = emit (self, wm_onnx_text (self->from->op), wm_graphdef_name (self, ""),
                                  self->in[0], NULL, NULL);
    if (!strcmp (wm_onnx_text (self->from->op), "Softmax"))
        set_int (self, node, "axis", -1);
}

/* The sizes in `dim` of an image of the node's data format are (row, column).  */
static void image_sizes (const Graphdef__Node *node, const char *key, int first, int64_t out[2])
{
    const Graphdef__Value *v = wm_graphdef_attr (node, key);
    out[0] = out[1] = 1;
    if (v && v->list && v->list->n_i == 4)
        memcpy (out, v->list->i + (first ? 2 : 1), 2 * sizeof *out);
}

static void rewrite_conv (wm_rewriter_t *self)
{
    int first = attr_is (self->from, "data_format", "NCHW");
    int64_t stride[2], dilation[2];
    image_sizes (self->from, "strides", first, stride);
    image_sizes (self->from, "dilations", first, dilation);
    char *image = self->in[0],
         *weight = permuted (self, self->in[1], wm_graphdef_name (self, "weight"), 3, 2, 0, 1);
    if (!first)
        image = permuted (self, image, wm_graphdef_name (self, "image"), 0, 3, 1, 2);
    Onnx__NodeProto *node =
        emit (self, "Conv", wm_graphdef_name (self, first ? "" : "conv"), image, weight, NULL);
    set_ints (self, node, "strides", stride, 2);
    set_ints (self, node, "dilations", dilation, 2);
    Onnx__AttributeProto *pad = set (self, node, "auto_pad");
    const char *mode = attr_is (self->from, "padding", "VALID") ? "VALID" : "SAME_UPPER";
    if (pad) {
        pad->has_s = 1;
        pad->s = (ProtobufCBinaryData){ strlen (mode), (uint8_t *) (uintptr_t) mode };
    }
    if (!first)
        permuted (self, wm_graphdef_name (self, "conv"), wm_graphdef_name (self, ""), 0, 2, 3, 1);
}

static void set_inputs (Onnx__NodeProto *node, char **in, size_t n)
{
    if (node) {
        node->input = in;
        node->n_input = n;
    }
}

static void rewrite_leaky (wm_rewriter_t *self)
{
    set_float (self, emit (self, "LeakyRelu", wm_graphdef_name (self, ""), self->in[0], NULL, NULL),
               "alpha", attr_float (self->from, "alpha", 0.2f));
}

static void rewrite_relu6 (wm_rewriter_t *self)
{
    Onnx__NodeProto *node =
        emit (self, "Clip", wm_graphdef_name (self, ""), self->in[0], NULL, NULL);
    set_float (self, node, "min", 0);
    set_float (self, node, "max", 6);
}

/* Its first output; a node with statistics as outputs is kept.  */
static void rewrite_batchnorm (wm_rewriter_t *self)
{
    uint32_t ignored;
    const wm_named_t *found = wm_graphdef_find (self, wm_onnx_text (self->from->name), &ignored);
    const Graphdef__Value *training = wm_graphdef_attr (self->from, "is_training");
    int first = attr_is (self->from, "data_format", "NCHW");
    char **in = wm_graphdef_take (self, 5, sizeof *in);
    if (!in || !found || found->n_output > 1) {
        keep (self);
        return;
    }
    memcpy (in, self->in, 5 * sizeof *in);
    if (!first)
        in[0] = permuted (self, in[0], wm_graphdef_name (self, "image"), 0, 3, 1, 2);
    Onnx__NodeProto *node = emit (self, "BatchNormalization",
                                  wm_graphdef_name (self, first ? "" : "norm"), NULL, NULL, NULL);
    set_inputs (node, in, 5);
    set_int (self, node, "training_mode", !training || training->b);
    set_float (self, node, "epsilon", attr_float (self->from, "epsilon", 1e-4f));
    if (!first)
        permuted (self, wm_graphdef_name (self, "norm"), wm_graphdef_name (self, ""), 0, 2, 3, 1);
}

static void rewrite_rsqrt (wm_rewriter_t *self)
{
    char *root = wm_graphdef_name (self, "root");
    emit (self, "Sqrt", root, self->in[0], NULL, NULL);
    emit (self, "Reciprocal", wm_graphdef_name (self, ""), root, NULL, NULL);
}

static void rewrite_arithmetic (wm_rewriter_t *self)
{
    const char *op = wm_onnx_text (self->from->op);
    emit (self, !strcmp (op, "RealDiv") ? "Div" : op, wm_graphdef_name (self, ""), self->in[0],
          self->in[1], NULL);
}

static void rewrite_add (wm_rewriter_t *self)
{
    char *bias = self->in[1];
    if (attr_is (self->from, "data_format", "NCHW")) { /* BiasAdd: along the second dimension */
        bias = wm_graphdef_name (self, "bias");
        set_ints (self, emit (self, "Unsqueeze", bias, self->in[1], NULL, NULL), "axes",
                  (int64_t[]){ 1, 2 }, 2);
    }
    emit (self, "Add", wm_graphdef_name (self, ""), self->in[0], bias, NULL);
}

static void rewrite_matmul (wm_rewriter_t *self)
{
    int a = attr_bool (self->from, "transpose_a"), b = attr_bool (self->from, "transpose_b");
    Onnx__NodeProto *node = emit (self, a || b ? "Gemm" : "MatMul", wm_graphdef_name (self, ""),
                                  self->in[0], self->in[1], NULL);
    if (a)
        set_int (self, node, "transA", 1);
    if (b)
        set_int (self, node, "transB", 1);
}

static void rewrite_reshape (wm_rewriter_t *self)
{
    emit (self, "Reshape", wm_graphdef_name (self, ""), self->in[0], self->in[1], NULL);
}

static void rewrite_squeeze (wm_rewriter_t *self)
{
    const Graphdef__Value *v = wm_graphdef_attr (self->from, "squeeze_dims");
    Onnx__NodeProto *node =
        emit (self, "Squeeze", wm_graphdef_name (self, ""), self->in[0], NULL, NULL);
    if (v && v->list && v->list->n_i)
        set_ints (self, node, "axes", v->list->i, v->list->n_i);
}

/* Nodes whose second input is a list of axes, which is an attribute in operator set 11.  */
static void rewrite_axes (wm_rewriter_t *self)
{
    int64_t axis[8];
    size_t n = integers (self, self->in[1], axis);
    const char *op = wm_onnx_text (self->from->op);
    if (!n)
        keep (self);
    else if (!strcmp (op, "Transpose"))
        set_ints (self, emit (self, op, wm_graphdef_name (self, ""), self->in[0], NULL, NULL),
                  "perm", axis, n);
    else if (!strcmp (op, "ExpandDims"))
        set_ints (self,
                  emit (self, "Unsqueeze", wm_graphdef_name (self, ""), self->in[0], NULL, NULL),
                  "axes", axis, n);
    else { /* Prod */
        Onnx__NodeProto *node =
            emit (self, "ReduceProd", wm_graphdef_name (self, ""), self->in[0], NULL, NULL);
        set_int (self, node, "keepdims", attr_bool (self->from, "keep_dims"));
    }
}

/* shape[k], or shape[a:b].  */
static void rewrite_slice (wm_rewriter_t *self)
{
    const Graphdef__Node *node = self->from;
    int64_t shrink = attr_int (node, "shrink_axis_mask"), begin[8];
    if (self->n_in != 4 || attr_int (node, "ellipsis_mask") || attr_int (node, "new_axis_mask") ||
        (shrink && shrink != 1) || integers (self, self->in[1], begin) != 1) {
        keep (self);
        return;
    }
    if (shrink) {
        char *at = wm_graphdef_name (self, "at");
        emit (self, "Squeeze", at, self->in[1], NULL, NULL);
        set_int (self, emit (self, "Gather", wm_graphdef_name (self, ""), self->in[0], at, NULL),
                 "axis", 0);
        return;
    }
    char *from = attr_int (node, "begin_mask") & 1 ? add_integer (self, "from", 0) : self->in[1];
    char *to = attr_int (node, "end_mask") & 1 ? add_integer (self, "to", INT64_MAX) : self->in[2];
    Onnx__NodeProto *slice =
        emit (self, "Slice", wm_graphdef_name (self, ""), self->in[0], from, to);
    char **in = wm_graphdef_take (self, 5, sizeof *in);
    if (!slice || !in)
        return;
    memcpy (in, slice->input, 3 * sizeof *in);
    in[3] = (char *) ""; /* axes: the first */
    in[4] = self->in[3];
    slice->input = in;
    slice->n_input = 5;
}

static void rewrite_pack (wm_rewriter_t *self)
{
    char **in = wm_graphdef_take (self, self->n_in, sizeof *in);
    if (!in || attr_int (self->from, "axis")) {
        keep (self);
        return;
    }
    for (size_t k = 0; k < self->n_in; k++) {
        char part[32];
        snprintf (part, sizeof part, "%zu", k);
        in[k] = wm_graphdef_name (self, part);
        set_ints (self, emit (self, "Unsqueeze", in[k], self->in[k], NULL, NULL), "axes",
                  (int64_t[]){ 0 }, 1);
    }
    Onnx__NodeProto *node = emit (self, "Concat", wm_graphdef_name (self, ""), NULL, NULL, NULL);
    set_inputs (node, in, self->n_in);
    set_int (self, node, "axis", 0);
}

static void rewrite_concat (wm_rewriter_t *self)
{
    int v2 = !strcmp (wm_onnx_text (self->from->op), "ConcatV2");
    int64_t axis[8];
    if (integers (self, self->in[v2 ? self->n_in - 1 : 0], axis) != 1) {
        keep (self);
        return;
    }
    Onnx__NodeProto *node = emit (self, "Concat", wm_graphdef_name (self, ""), NULL, NULL, NULL);
    set_inputs (node, self->in + !v2, self->n_in - 1);
    set_int (self, node, "axis", axis[0]);
}

static void rewrite_cast (wm_rewriter_t *self)
{
    const Graphdef__Value *v = wm_graphdef_attr (self->from, "DstT");
    int32_t type = v ? v->type : 0;
    set_int (self, emit (self, "Cast", wm_graphdef_name (self, ""), self->in[0], NULL, NULL), "to",
             wm_graphdef_type (type));
}

/* A Switch on a known condition hands its data on through one output; nothing leaves the other.  */
static void rewrite_switch (wm_rewriter_t *self)
{
    int64_t phase[8];
    if (integers (self, self->in[1], phase) != 1) {
        keep (self);
        return;
    }
    char *out[2] = { wm_graphdef_name (self, ""), NULL };
    size_t bytes = strlen (out[0]) + 3;
    if (!(out[1] = wm_graphdef_take (self, bytes, 1)))
        return;
    snprintf (out[1], bytes, "%s:1", out[0]);
    emit (self, "Identity", out[phase[0] != 0], self->in[0], NULL, NULL);
    Onnx__NodeProto *dead = emit (self, "Switch", out[phase[0] == 0], NULL, NULL, NULL);
    if (dead)
        dead->domain = (char *) "tensorflow";
}

/* Whether a branch comes out of the side of a Switch that its condition takes.  */
static bool is_live (const wm_rewriter_t *self, const char *input)
{
    for (int step = 0; step < STEPS_MAX; step++) {
        uint32_t output;
        int64_t phase[8];
        const wm_named_t *found = wm_graphdef_find (self, input, &output);
        if (!found || !found->node->n_input)
            return false;
        if (!strcmp (wm_onnx_text (found->node->op), "Switch"))
            return found->node->n_input > 1 && integers (self, found->node->input[1], phase) == 1 &&
                   (phase[0] != 0) == (output == 1);
        input = found->node->input[0];
    }
    return false;
}

/* The remains of a conditional: dropout, in training or not.  */
static void rewrite_merge (wm_rewriter_t *self)
{
    int live[2] = { is_live (self, self->in[0]), is_live (self, self->in[1]) };
    if (self->n_in != 2 || live[0] + live[1] != 1)
        keep (self);
    else
        emit (self, "Identity", wm_graphdef_name (self, ""), self->in[live[1]], NULL, NULL);
}

static void rewrite_shape (wm_rewriter_t *self)
{
    emit (self, "Shape", wm_graphdef_name (self, ""), self->in[0], NULL, NULL);
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Typed values may be fewer than the shape holds: the last one stands for the rest.  */
static void fill_values (wm_rewriter_t *self, Onnx__TensorProto *out, const Graphdef__Tensor *t,
                         uint64_t n)
{
    const void *list = t->dtype == DT_FLOAT    ? (const void *) t->float_val
                       : t->dtype == DT_DOUBLE ? (const void *) t->double_val
                       : t->dtype == DT_INT64  ? (const void *) t->int64_val
                       : t->dtype == DT_BOOL   ? (const void *) t->bool_val
                       : t->dtype == DT_HALF   ? (const void *) t->half_val
                                               : (const void *) t->int_val;
    size_t have = t->dtype == DT_FLOAT    ? t->n_float_val
                  : t->dtype == DT_DOUBLE ? t->n_double_val
                  : t->dtype == DT_INT64  ? t->n_int64_val
                  : t->dtype == DT_BOOL   ? t->n_bool_val
                  : t->dtype == DT_HALF   ? t->n_half_val
                                          : t->n_int_val;
    size_t size = t->dtype == DT_DOUBLE || t->dtype == DT_INT64 ? 8 : 4;
    static_assert (sizeof (protobuf_c_boolean) == 4, "copied as 32-bit values");
    if (have > n)
        have = (size_t) n;
    uint8_t *values = have == n ? (uint8_t *) (uintptr_t) list : wm_graphdef_take (self, n, size);
    if (!values)
        return;
    if (have && have < n) {
        memcpy (values, list, have * size);
        for (size_t k = have; k < n; k++)
            memcpy (values + k * size, values + (have - 1) * size, size);
    }
    if (t->dtype == DT_FLOAT)
        out->n_float_data = n, out->float_data = (float *) (void *) values;
    else if (t->dtype == DT_DOUBLE)
        out->n_double_data = n, out->double_data = (double *) (void *) values;
    else if (t->dtype == DT_INT64)
        out->n_int64_data = n, out->int64_data = (int64_t *) (void *) values;
    else
        out->n_int32_data = n, out->int32_data = (int32_t *) (void *) values;
}

/* A constant of an unsupported type or shape becomes one without type, which cannot be folded.  */
static void rewrite_const (wm_rewriter_t *self)
{
    const Graphdef__Value *value = wm_graphdef_attr (self->from, "value");
    const Graphdef__Tensor *t = value ? value->tensor : NULL;
    Onnx__TensorProto *out = add_tensor (self, wm_graphdef_name (self, ""));
    size_t n_dim = t && t->shape ? t->shape->n_dim : 0;
    int64_t *dim = wm_graphdef_take (self, n_dim, sizeof *dim);
    uint64_t n = 1;
    if (!out || !dim || !t || n_dim > WM_TENSOR_DIMS_MAX)
        return;
    for (size_t d = 0; d < n_dim; d++) {
        dim[d] = t->shape->dim[d]->size;
        if (dim[d] < 1 || __builtin_mul_overflow (n, (uint64_t) dim[d], &n) ||
            n > WM_MODEL_BYTES_MAX / 4)
            return;
    }
    out->data_type = wm_graphdef_type (t->dtype);
    out->dims = dim;
    out->n_dims = n_dim;
    if (!out->data_type)
        return;
    out->has_raw_data = t->has_content && t->content.len;
    if (out->has_raw_data)
        out->raw_data = t->content;
    else
        fill_values (self, out, t, n);
}

/* ---- all of them
   ------------------------------------------------------------------------------- */

static const struct {
    const char *op;
    size_t least; /* data inputs */
    void (*rewrite) (wm_rewriter_t *self);
} table[] = {
    { "Add", 2, rewrite_add },
    { "AddV2", 2, rewrite_add },
    { "BiasAdd", 2, rewrite_add },
    { "Cast", 1, rewrite_cast },
    { "Concat", 2, rewrite_concat },
    { "ConcatV2", 2, rewrite_concat },
    { "Const", 0, rewrite_const },
    { "Conv2D", 2, rewrite_conv },
    { "Elu", 1, rewrite_unary },
    { "Erf", 1, rewrite_unary },
    { "Erfc", 1, rewrite_unary },
    { "Exp", 1, rewrite_unary },
    { "ExpandDims", 2, rewrite_axes },
    { "FusedBatchNorm", 5, rewrite_batchnorm },
    { "FusedBatchNormV2", 5, rewrite_batchnorm },
    { "FusedBatchNormV3", 5, rewrite_batchnorm },
    { "Identity", 1, rewrite_same },
    { "IdentityN", 1, rewrite_same_n },
    { "LeakyRelu", 1, rewrite_leaky },
    { "MatMul", 2, rewrite_matmul },
    { "Merge", 2, rewrite_merge },
    { "Mul", 2, rewrite_arithmetic },
    { "Neg", 1, rewrite_unary },
    { "Pack", 1, rewrite_pack },
    { "Placeholder", 0, wm_graphdef_input },
    { "PlaceholderWithDefault", 1, rewrite_same },
    { "Pow", 2, rewrite_arithmetic },
    { "Prod", 2, rewrite_axes },
    { "RealDiv", 2, rewrite_arithmetic },
    { "Relu", 1, rewrite_unary },
    { "Relu6", 1, rewrite_relu6 },
    { "Reshape", 2, rewrite_reshape },
    { "Rsqrt", 1, rewrite_rsqrt },
    { "Selu", 1, rewrite_unary },
    { "Shape", 1, rewrite_shape },
    { "Sigmoid", 1, rewrite_unary },
    { "Softmax", 1, rewrite_unary },
    { "Softplus", 1, rewrite_unary },
    { "Square", 1, rewrite_square },
    { "Squeeze", 1, rewrite_squeeze },
    { "StopGradient", 1, rewrite_same },
    { "StridedSlice", 4, rewrite_slice },
    { "Sub", 2, rewrite_arithmetic },
    { "Switch", 2, rewrite_switch },
    { "Tanh", 1, rewrite_unary },
    { "Transpose", 2, rewrite_axes },
};

/* Data inputs by the names that values have here.  */
static void take_inputs (wm_rewriter_t *self, const Graphdef__Node *node)
{
    self->from = node;
    self->n_in = 0;
    self->in = wm_graphdef_take (self, node->n_input, sizeof *self->in);
    for (size_t k = 0; self->in && k < node->n_input; k++) {
        char *input = node->input[k];
        size_t length = strlen (input);
        if (*input == '^')
            continue;
        if (length > 2 && !strcmp (input + length - 2, ":0")) {
            char *own = wm_graphdef_take (self, length, 1);
            if (own)
                memcpy (own, input, length - 2);
            input = own ? own : input;
        }
        self->in[self->n_in++] = input;
    }
}

void wm_graphdef_rewrite (wm_rewriter_t *self, const Graphdef__Node *node)
{
    const char *op = wm_onnx_text (node->op);
    if (!strcmp (op, "NoOp"))
        return;
    take_inputs (self, node);
    for (size_t k = 0; self->in && k < sizeof table / sizeof *table; k++)
        if (!strcmp (op, table[k].op) && self->n_in >= table[k].least) {
            table[k].rewrite (self);
            return;
        }
    if (self->in)
        keep (self);
}
