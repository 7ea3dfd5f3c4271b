/* onnx_graph.h - builds small ONNX files, for tests of the importer.

   A graph_t collects nodes, initializers and ports in an arena, by names as ONNX has them; `packed`
   makes the file's bytes. Failure is the test's failure.  */
#ifndef ONNX_GRAPH_H
#define ONNX_GRAPH_H

#include "kernels/onnx/wm_tensor.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    wm_arena_t arena;
    Onnx__NodeProto *node[64];
    Onnx__TensorProto *tensor[64];
    Onnx__ValueInfoProto *in[16], *out[4];
    Onnx__FunctionProto *function[8];
    size_t n_node, n_tensor, n_in, n_out, n_function;
    unsigned ways;
    int64_t set; /* operator set; 0: 13 */
} graph_t;

static void *take (graph_t *g, size_t n, size_t size)
{
    void *memory = wm_arena_take (&g->arena, n ? n : 1, size);
    assert_non_null (memory);
    return memory;
}

static char *copy (graph_t *g, const char *text)
{
    return strcpy (take (g, strlen (text) + 1, 1), text);
}

/* Names separated by spaces; "-" is one left out.  */
static char **split (graph_t *g, const char *names, size_t *n)
{
    char **list = take (g, 8, sizeof *list), *save = NULL, *all = copy (g, names);
    *n = 0;
    for (char *s = strtok_r (all, " ", &save); s; s = strtok_r (NULL, " ", &save))
        list[(*n)++] = strcmp (s, "-") ? s : copy (g, "");
    return list;
}

static Onnx__NodeProto *node (graph_t *g, const char *op, const char *in, const char *out)
{
    Onnx__NodeProto *n = take (g, 1, sizeof *n);
    onnx__node_proto__init (n);
    n->op_type = copy (g, op);
    n->input = split (g, in, &n->n_input);
    n->output = split (g, out, &n->n_output);
    n->attribute = take (g, 8, sizeof *n->attribute);
    assert_true (g->n_node < 64);
    return g->node[g->n_node++] = n;
}

static Onnx__AttributeProto *attribute (graph_t *g, Onnx__NodeProto *n, const char *name)
{
    Onnx__AttributeProto *a = take (g, 1, sizeof *a);
    onnx__attribute_proto__init (a);
    a->name = copy (g, name);
    return n->attribute[n->n_attribute++] = a;
}

static inline void set_int (graph_t *g, Onnx__NodeProto *n, const char *name, int64_t value)
{
    Onnx__AttributeProto *a = attribute (g, n, name);
    a->has_type = 1;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    a->has_i = 1;
    a->i = value;
}

static inline void set_float (graph_t *g, Onnx__NodeProto *n, const char *name, float value)
{
    Onnx__AttributeProto *a = attribute (g, n, name);
    a->has_f = 1;
    a->f = value;
}

static inline void set_ints (graph_t *g, Onnx__NodeProto *n, const char *name, size_t count,
                             const int64_t *value)
{
    Onnx__AttributeProto *a = attribute (g, n, name);
    a->has_type = 1;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    a->n_ints = count;
    a->ints = memcpy (take (g, count, 8), value, count * 8);
}
#define INTS(...)                                                                                  \
    sizeof ((int64_t[]){ __VA_ARGS__ }) / 8, (int64_t[])                                           \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static inline Onnx__TensorProto *tensor (graph_t *g, const char *name, int type, size_t n_dim,
                                         const int64_t *dim)
{
    Onnx__TensorProto *t = take (g, 1, sizeof *t);
    onnx__tensor_proto__init (t);
    t->name = copy (g, name);
    t->has_data_type = 1;
    t->data_type = type;
    t->n_dims = n_dim;
    t->dims = take (g, n_dim, 8);
    for (size_t d = 0; d < n_dim; d++)
        t->dims[d] = dim[d];
    return t;
}

static inline void add_tensor (graph_t *g, Onnx__TensorProto *t)
{
    assert_true (g->n_tensor < 64);
    g->tensor[g->n_tensor++] = t;
}

static Onnx__ValueInfoProto *port (graph_t *g, const char *name, int type, size_t n_dim,
                                   const int64_t *dim)
{
    Onnx__ValueInfoProto *info = take (g, 1, sizeof *info);
    onnx__value_info_proto__init (info);
    info->name = copy (g, name);
    onnx__type_proto__init (info->type = take (g, 1, sizeof *info->type));
    info->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    Onnx__TypeProto__Tensor *t = info->type->tensor_type = take (g, 1, sizeof *t);
    onnx__type_proto__tensor__init (t);
    t->has_elem_type = 1;
    t->elem_type = type;
    onnx__tensor_shape_proto__init (t->shape = take (g, 1, sizeof *t->shape));
    t->shape->n_dim = n_dim;
    t->shape->dim = take (g, n_dim, sizeof *t->shape->dim);
    for (size_t d = 0; d < n_dim; d++) {
        Onnx__TensorShapeProto__Dimension *one = t->shape->dim[d] = take (g, 1, sizeof *one);
        onnx__tensor_shape_proto__dimension__init (one);
        if (dim[d] < 0) { /* dynamic */
            one->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            one->dim_param = copy (g, "N");
        } else {
            one->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            one->dim_value = dim[d];
        }
    }
    return info;
}

static inline void input (graph_t *g, const char *name, size_t n_dim, const int64_t *dim)
{
    g->in[g->n_in++] = port (g, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, n_dim, dim);
}

static inline void output (graph_t *g, const char *name, size_t n_dim, const int64_t *dim)
{
    g->out[g->n_out++] = port (g, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, n_dim, dim);
}

/* Makes a function of domain "my" of all nodes that there are, which are no more the graph's.  */
static inline Onnx__FunctionProto *function (graph_t *g, const char *name, const char *in,
                                             const char *out)
{
    Onnx__FunctionProto *f = take (g, 1, sizeof *f);
    onnx__function_proto__init (f);
    f->name = copy (g, name);
    f->domain = copy (g, "my");
    f->input = split (g, in, &f->n_input);
    f->output = split (g, out, &f->n_output);
    f->n_node = g->n_node;
    f->node = memcpy (take (g, g->n_node, sizeof *f->node), g->node, g->n_node * sizeof *f->node);
    g->n_node = 0;
    assert_true (g->n_function < 8);
    return g->function[g->n_function++] = f;
}

/* A node that calls a function.  */
static inline Onnx__NodeProto *call (graph_t *g, const char *name, const char *in, const char *out)
{
    Onnx__NodeProto *n = node (g, name, in, out);
    n->domain = copy (g, "my");
    return n;
}

static uint8_t *packed (graph_t *g, size_t *size)
{
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = { &opset };
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    opset.has_version = 1;
    opset.version = g->set ? g->set : 13;
    graph.node = g->node;
    graph.n_node = g->n_node;
    graph.initializer = g->tensor;
    graph.n_initializer = g->n_tensor;
    graph.input = g->in;
    graph.n_input = g->n_in;
    graph.output = g->out;
    graph.n_output = g->n_out;
    model.graph = &graph;
    model.has_ir_version = 1;
    model.ir_version = 7;
    model.n_opset_import = 1;
    model.opset_import = opsets;
    model.functions = g->function;
    model.n_functions = g->n_function;
    *size = onnx__model_proto__get_packed_size (&model);
    uint8_t *bytes = malloc (*size);
    assert_non_null (bytes);
    onnx__model_proto__pack (&model, bytes);
    return bytes;
}

#endif
