/* wm_onnx_write.c - writes a network of the EmTrkMichelId family as ONNX.

   The messages are built over the network's own arrays, which are copied once, when the file is
   packed; only a convolution's weights are turned around first.  */
#include "kernels/onnx/wm_onnx_write.h"
#include "kernels/onnx/wm_maker.h"
#include "schema/wm_limits.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX (4 + 4 * (WM_MODEL_CONVS_MAX + WM_MODEL_DENSES_MAX) + WM_MODEL_PORTS_MAX)
#define TENSORS_MAX (1 + 4 * (WM_MODEL_CONVS_MAX + WM_MODEL_DENSES_MAX))

typedef struct {
    const wm_net_t *net;
    const wm_port_t *out;
    uint32_t n_out;
    wm_arena_t arena;
    Onnx__NodeProto *node[NODES_MAX];
    Onnx__TensorProto *tensor[TENSORS_MAX];
    size_t n_node, n_tensor;
    int newer; /* an activation is an operator only since operator set 14, 18 or 20 */
    char *layer[WM_MODEL_DENSES_MAX]; /* name of each dense layer's result */
} writer_t;

/* Without memory the builders below do nothing; arena.failed is checked before packing.  */
static void *take (writer_t *self, size_t n, size_t size)
{
    void *memory = wm_arena_take (&self->arena, n, size);
    self->arena.failed |= !memory;
    return memory;
}

static char *name (writer_t *self, const char *format, ...) __attribute__ ((format (printf, 2, 3)));
static char *name (writer_t *self, const char *format, ...)
{
    char *text = take (self, 192, 1);
    va_list arguments;
    va_start (arguments, format);
    if (text)
        vsnprintf (text, 192, format, arguments);
    va_end (arguments);
    return text;
}

/* A node with up to three inputs (NULL ends them); returns the name of its output.  */
static char *add_node (writer_t *self, const char *op, char *output, char *a, char *b, char *c)
{
    Onnx__NodeProto *node = wm_maker_node (&self->arena, op, output, a, b, c);
    if (node) {
        node->name = output;
        self->node[self->n_node++] = node;
    }
    return output;
}

/* The only attribute of the last node, still empty, or NULL.  */
static Onnx__AttributeProto *attribute (writer_t *self, const char *key,
                                        Onnx__AttributeProto__AttributeType type)
{
    Onnx__NodeProto *last = self->n_node ? self->node[self->n_node - 1] : NULL;
    return wm_maker_attribute (&self->arena, last, key, type);
}

static void add_float (writer_t *self, const char *key, float value)
{
    Onnx__AttributeProto *a = attribute (self, key, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    if (!a)
        return;
    a->has_f = 1;
    a->f = value;
}

static void add_text (writer_t *self, const char *key, const char *text)
{
    Onnx__AttributeProto *a = attribute (self, key, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    if (!a)
        return;
    a->has_s = 1;
    a->s = (ProtobufCBinaryData){ .len = strlen (text), .data = (uint8_t *) (uintptr_t) text };
}

static void add_integers (writer_t *self, const char *key, const int64_t *value, size_t n)
{
    int64_t *copy = take (self, n, sizeof *copy);
    Onnx__AttributeProto *a =
        copy ? attribute (self, key, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS) : NULL;
    if (!a)
        return;
    a->n_ints = n;
    a->ints = memcpy (copy, value, n * sizeof *copy);
}

/* An initializer over memory that outlives the writer; returns its name.  */
static char *add_tensor (writer_t *self, char *label, int type, const void *bytes, size_t size,
                         const int64_t *dim, size_t n_dim)
{
    Onnx__TensorProto *t = take (self, 1, sizeof *t);
    int64_t *dims = take (self, n_dim, sizeof *dims);
    if (!t || !dims)
        return label;
    memcpy (dims, dim, n_dim * sizeof *dims);
    onnx__tensor_proto__init (t);
    t->name = label;
    t->has_data_type = 1;
    t->data_type = type;
    t->n_dims = n_dim;
    t->dims = dims;
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){ .len = size, .data = (uint8_t *) bytes };
    self->tensor[self->n_tensor++] = t;
    return label;
}

static char *add_floats (writer_t *self, char *label, const float *f, const int64_t *dim,
                         size_t n_dim)
{
    size_t size = sizeof *f;
    for (size_t d = 0; d < n_dim; d++)
        size *= (size_t) dim[d];
    return add_tensor (self, label, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, f, size, dim, n_dim);
}

static char *add_scalar (writer_t *self, const char *layer, const char *what, float value)
{
    float *copy = take (self, 1, sizeof *copy);
    if (copy)
        *copy = value;
    return add_floats (self, name (self, "%s_%s", layer, what), copy, &(int64_t){ 0 }, 0);
}

/* The activation behind `value`, or `value` itself; the result is called `output`.  */
static char *add_activation (writer_t *self, wm_act_t act, float bend, char *value, char *output)
{
    static const char *const op[] = {
        [WM_ACT_RELU] = "Relu",           [WM_ACT_SIGMOID] = "Sigmoid",
        [WM_ACT_TANH] = "Tanh",           [WM_ACT_SOFTMAX] = "Softmax",
        [WM_ACT_LEAKY] = "LeakyRelu",     [WM_ACT_ELU] = "Elu",
        [WM_ACT_CLIP] = "Clip",           [WM_ACT_GELU] = "Gelu",
        [WM_ACT_GELU_TANH] = "Gelu",      [WM_ACT_MISH] = "Mish",
        [WM_ACT_HARDSWISH] = "HardSwish", [WM_ACT_SOFTPLUS] = "Softplus"
    };
    if (act == WM_ACT_NONE)
        return value;
    if (act == WM_ACT_SWISH) { /* an operator only since operator set 24 */
        char *scaled = add_node (self, "Mul", name (self, "%s_scaled", output), value,
                                 add_scalar (self, output, "bend", bend), NULL);
        char *gate = add_node (self, "Sigmoid", name (self, "%s_gate", output), scaled, NULL, NULL);
        return add_node (self, "Mul", output, value, gate, NULL);
    }
    if (act == WM_ACT_CLIP)
        return add_node (self, op[act], output, value, add_scalar (self, output, "from", 0),
                         add_scalar (self, output, "to", bend));
    add_node (self, op[act], output, value, NULL, NULL); /* Softmax: over the last axis */
    if (act == WM_ACT_LEAKY || act == WM_ACT_ELU)
        add_float (self, "alpha", bend);
    self->newer |= act >= WM_ACT_GELU && act != WM_ACT_SOFTPLUS;
    if (act == WM_ACT_GELU_TANH)
        add_text (self, "approximate", "tanh");
    return output;
}

static char *write_conv (writer_t *self, uint32_t i, char *value)
{
    const wm_conv_t *k = &self->net->conv[i];
    size_t area = (size_t) k->kh * k->kw;
    float *w = take (self, area * k->c_in, sizeof *w * k->c_out); /* (kh, kw, c, o) to (o, c, ..) */
    if (!w)
        return value;
    for (size_t a = 0; a < area; a++)
        for (size_t c = 0; c < k->c_in; c++)
            for (size_t o = 0; o < k->c_out; o++)
                w[(o * k->c_in + c) * area + a] = k->weight[(a * k->c_in + c) * k->c_out + o];
    char *weight = add_floats (self, name (self, "conv%u_w", i), w,
                               (int64_t[]){ k->c_out, k->c_in, k->kh, k->kw }, 4);
    char *bias = add_floats (self, name (self, "conv%u_b", i), k->bias, (int64_t[]){ k->c_out }, 1);
    value = add_node (self, "Conv", name (self, "conv%u", i), value, weight, bias);
    add_integers (self, "kernel_shape", (int64_t[]){ k->kh, k->kw }, 2);
    return add_activation (self, k->act, k->bend, value, name (self, "conv%u_act", i));
}

static char *write_convs (writer_t *self, const wm_port_t *in)
{
    const wm_net_t *net = self->net;
    char *value = (char *) in->name;
    if (in->n_dim != 3 || in->dim[0] != net->height || in->dim[1] != net->width ||
        in->dim[2] != net->channel) {
        int64_t *shape = take (self, 4, sizeof *shape);
        if (!shape)
            return value;
        memcpy (shape, (int64_t[]){ -1, net->height, net->width, net->channel }, 32);
        char *target =
            add_tensor (self, name (self, "patch_shape"), ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
                        shape, 32, (int64_t[]){ 4 }, 1);
        value = add_node (self, "Reshape", name (self, "patch"), value, target, NULL);
    }
    value = add_node (self, "Transpose", name (self, "nchw"), value, NULL, NULL);
    add_integers (self, "perm", (int64_t[]){ 0, 3, 1, 2 }, 4);
    for (uint32_t i = 0; i < net->n_conv && !self->arena.failed; i++)
        value = write_conv (self, i, value);
    value = add_node (self, "Transpose", name (self, "nhwc"), value, NULL, NULL);
    add_integers (self, "perm", (int64_t[]){ 0, 2, 3, 1 }, 4);
    return add_node (self, "Flatten", name (self, "flat"), value, NULL, NULL);
}

/* The port whose columns a layer alone fills, or NULL.  */
static const wm_port_t *own_port (const writer_t *self, const wm_dense_t *k)
{
    int64_t column = 0;
    for (uint32_t i = 0; i < self->n_out; column += self->out[i++].n_value)
        if (k->output == column && k->n_out == self->out[i].n_value)
            return &self->out[i];
    return NULL;
}

static void write_dense (writer_t *self, uint32_t i, char *flat)
{
    const wm_dense_t *k = &self->net->dense[i];
    const wm_port_t *port = own_port (self, k);
    char *result = port ? (char *) port->name : name (self, "dense%u_out", i);
    char *sum = k->act == WM_ACT_NONE ? result : name (self, "dense%u", i);
    char *weight = add_floats (self, name (self, "dense%u_w", i), k->weight,
                               (int64_t[]){ k->n_in, k->n_out }, 2);
    char *bias =
        add_floats (self, name (self, "dense%u_b", i), k->bias, (int64_t[]){ k->n_out }, 1);
    add_node (self, "Gemm", sum, k->parent < 0 ? flat : self->layer[k->parent], weight, bias);
    self->layer[i] = add_activation (self, k->act, k->bend, sum, result);
}

/* An output that several layers fill side by side; 0 where none do so exactly.  */
static bool write_concat (writer_t *self, const wm_port_t *port, int64_t column)
{
    char **heads = take (self, WM_MODEL_DENSES_MAX, sizeof *heads);
    size_t n = 0;
    int64_t end = column + port->n_value;
    for (int64_t at = column; heads && at < end;) {
        uint32_t i = 0;
        while (i < self->net->n_dense && self->net->dense[i].output != at)
            i++;
        if (i == self->net->n_dense)
            return false;
        heads[n++] = self->layer[i];
        at += self->net->dense[i].n_out;
        if (at > end)
            return false;
    }
    add_node (self, "Concat", (char *) port->name, heads ? heads[0] : NULL, NULL, NULL);
    wm_maker_int (&self->arena, self->node[self->n_node - 1], "axis", 1);
    if (!self->arena.failed) {
        self->node[self->n_node - 1]->input = heads;
        self->node[self->n_node - 1]->n_input = n;
    }
    return true;
}

static Onnx__ValueInfoProto *port_info (writer_t *self, const wm_port_t *port)
{
    struct {
        Onnx__ValueInfoProto info;
        Onnx__TypeProto type;
        Onnx__TypeProto__Tensor tensor;
        Onnx__TensorShapeProto shape;
        Onnx__TensorShapeProto__Dimension dim[1 + WM_MODEL_DIMS_MAX], *list[1 + WM_MODEL_DIMS_MAX];
    } *p = take (self, 1, sizeof *p);
    if (!p)
        return NULL;
    onnx__value_info_proto__init (&p->info);
    onnx__type_proto__init (&p->type);
    onnx__type_proto__tensor__init (&p->tensor);
    onnx__tensor_shape_proto__init (&p->shape);
    for (uint32_t d = 0; d <= port->n_dim; d++) {
        onnx__tensor_shape_proto__dimension__init (&p->dim[d]);
        p->dim[d].value_case = d ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE
                                 : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        if (d)
            p->dim[d].dim_value = port->dim[d - 1];
        else
            p->dim[d].dim_param = (char *) "N";
        p->list[d] = &p->dim[d];
    }
    p->info.name = (char *) port->name;
    p->info.type = &p->type;
    p->type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    p->type.tensor_type = &p->tensor;
    p->tensor.has_elem_type = 1;
    p->tensor.elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    p->tensor.shape = &p->shape;
    p->shape.n_dim = port->n_dim + 1;
    p->shape.dim = p->list;
    return &p->info;
}

static wm_fault_t pack (writer_t *self, const wm_port_t *in, uint8_t **bytes, size_t *size,
                        wm_error_t *error)
{
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = { &opset };
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    Onnx__ValueInfoProto *input = port_info (self, in), *output[WM_MODEL_PORTS_MAX];
    for (uint32_t i = 0; i < self->n_out; i++)
        output[i] = port_info (self, &self->out[i]);
    if (self->arena.failed)
        return wm_fault (error, WM_EHOST, "no memory to write a model as ONNX");
    opset.has_version = 1;
    opset.version = self->newer ? 20 : 13;
    graph.name = (char *) "emtrkmichel";
    graph.n_node = self->n_node;
    graph.node = self->node;
    graph.n_initializer = self->n_tensor;
    graph.initializer = self->tensor;
    graph.n_input = 1;
    graph.input = &input;
    graph.n_output = self->n_out;
    graph.output = output;
    model.has_ir_version = 1;
    model.ir_version = self->newer ? 9 : 7; /* those of the operator sets */
    model.producer_name = (char *) "wiremill";
    model.graph = &graph;
    model.n_opset_import = 1;
    model.opset_import = opsets;
    *size = onnx__model_proto__get_packed_size (&model);
    if (*size > WM_MODEL_BYTES_MAX)
        return wm_fault (error, WM_EBATCH, "a model of %zu bytes is more than the limit, %llu",
                         *size, WM_MODEL_BYTES_MAX);
    *bytes = malloc (*size);
    if (!*bytes)
        return wm_fault (error, WM_EHOST, "no memory to write a model of %zu bytes", *size);
    onnx__model_proto__pack (&model, *bytes);
    return WM_OK;
}

wm_fault_t wm_onnx_write (const wm_net_t *net, const wm_port_t *in, const wm_port_t *out,
                          uint32_t n_out, uint8_t **bytes, size_t *size, wm_error_t *error)
{
    uint64_t columns = 0, filled = 0;
    int fits = n_out <= WM_MODEL_PORTS_MAX;
    for (uint32_t i = 0; i < n_out; i++) {
        columns += out[i].n_value;
        fits &= out[i].n_dim == 1;
    }
    for (uint32_t i = 0; i < net->n_dense; i++)
        filled += net->dense[i].output >= 0 ? net->dense[i].n_out : 0;
    fits &= columns == filled && in->n_value == (uint64_t) net->height * net->width * net->channel;
    writer_t *self = calloc (1, sizeof *self);
    if (!self)
        return wm_fault (error, WM_EHOST, "no memory to write a model as ONNX");
    self->net = net;
    self->out = out;
    self->n_out = n_out;
    char *flat = write_convs (self, in);
    for (uint32_t i = 0; fits && i < net->n_dense && !self->arena.failed; i++)
        write_dense (self, i, flat);
    int64_t column = 0;
    for (uint32_t i = 0; fits && i < n_out && !self->arena.failed; column += out[i++].n_value) {
        uint32_t k = 0;
        while (k < net->n_dense && own_port (self, &net->dense[k]) != &out[i])
            k++;
        if (k == net->n_dense)
            fits = write_concat (self, &out[i], column);
    }
    wm_fault_t fault =
        fits ? pack (self, in, bytes, size, error)
             : wm_fault (error, WM_EBATCH, "the model's ports do not fit its network");
    wm_arena_clear (&self->arena);
    free (self);
    return fault;
}
