/* frozen_graph.h - the small network of small_net.h as a frozen graph, in every way that TensorFlow
   and Keras freeze it.  */
#ifndef FROZEN_GRAPH_H
#define FROZEN_GRAPH_H

#include "kernels/onnx/graphdef.pb-c.h"
#include "kernels/onnx/wm_arena.h"
#include "tests/unit/small_net.h"

typedef struct {
    wm_arena_t arena;
    Graphdef__Node *node[96];
    size_t n_node;
    unsigned ways;
} tf_t;

enum {
    DT_FLOAT = 1,
    DT_DOUBLE = 2,
    DT_INT32 = 3,
    DT_STRING = 7,
    DT_INT64 = 9,
    DT_BOOL = 10,
    DT_HALF = 19
};

#define WAYS(X)                                                                                    \
    X (FIRST)      /* the convolution on channels-first images, between transposes */              \
    X (PROD)       /* flattened as Keras 2: Shape, StridedSlice, Prod, Pack, Reshape */            \
    X (STACK)      /* flattened as Keras 3: Shape, StridedSlice, Pack, Reshape */                  \
    X (CONCAT)     /* flattened as slim: Shape, StridedSlice, ConcatV2, Reshape */                 \
    X (ADD)        /* AddV2 for BiasAdd */                                                         \
    X (SQUEEZED)   /* the convolution's bias through Reshape and Squeeze, as Keras 3 */            \
    X (READ)       /* constants behind Identity */                                                 \
    X (PORTS)      /* inputs by "name:0" */                                                        \
    X (TURNED)     /* MatMul with transpose_b */                                                   \
    X (TYPED)      /* typed values for content, the last one repeated */                           \
    X (DOUBLE)     /* double weights, cast */                                                      \
    X (DROPOUT)    /* a conditional dropout whose phase is a placeholder with a default */         \
    X (LEFTOVER)   /* a placeholder nobody reads, a NoOp, an Assert, waits */                      \
    X (REVERSED)   /* nodes in reverse order */                                                    \
    X (FLAT_INPUT) /* input (N, h w), reshaped */                                                  \
    X (RANK3)      /* input (N, h, w), ExpandDims */                                               \
    X (RESCALED)   /* (x - 3) + 3 first, by integers that are cast, as Keras 3 */

#include "tests/unit/ways.h"

/* ---- a writer of frozen graphs --------------------------------------------------------------- */

static void *take (tf_t *g, size_t n, size_t size)
{
    void *memory = wm_arena_take (&g->arena, n ? n : 1, size);
    assert_non_null (memory);
    return memory;
}

static char *copy (tf_t *g, const char *text)
{
    return strcpy (take (g, strlen (text) + 4, 1), text);
}

/* A node; `in`: names separated by spaces.  */
static Graphdef__Node *node (tf_t *g, const char *op, const char *name, const char *in)
{
    Graphdef__Node *n = take (g, 1, sizeof *n);
    graphdef__node__init (n);
    n->name = copy (g, name);
    n->op = copy (g, op);
    n->input = take (g, 8, sizeof *n->input);
    n->attr = take (g, 12, sizeof *n->attr);
    char *save = NULL, *all = copy (g, in);
    for (char *s = strtok_r (all, " ", &save); s; s = strtok_r (NULL, " ", &save)) {
        n->input[n->n_input] = copy (g, s);
        if (g->ways & PORTS && *s != '^' && !strchr (s, ':'))
            strcat (n->input[n->n_input], ":0");
        n->n_input++;
    }
    assert_true (g->n_node < 96);
    return g->node[g->n_node++] = n;
}

static Graphdef__Value *attr (tf_t *g, Graphdef__Node *n, const char *key)
{
    Graphdef__Node__Attr *a = take (g, 1, sizeof *a);
    graphdef__node__attr__init (a);
    graphdef__value__init (a->value = take (g, 1, sizeof *a->value));
    a->key = copy (g, key);
    n->attr[n->n_attr++] = a;
    return a->value;
}

static void set_int (tf_t *g, Graphdef__Node *n, const char *key, int64_t value)
{
    Graphdef__Value *v = attr (g, n, key);
    v->has_i = 1;
    v->i = value;
}

static void set_true (tf_t *g, Graphdef__Node *n, const char *key)
{
    Graphdef__Value *v = attr (g, n, key);
    v->has_b = v->b = 1;
}

static void set_type (tf_t *g, Graphdef__Node *n, const char *key, int type)
{
    Graphdef__Value *v = attr (g, n, key);
    v->has_type = 1;
    v->type = type;
}

static void set_text (tf_t *g, Graphdef__Node *n, const char *key, const char *text)
{
    Graphdef__Value *v = attr (g, n, key);
    v->has_s = 1;
    v->s = (ProtobufCBinaryData){ strlen (text), (uint8_t *) copy (g, text) };
}

static void set_list (tf_t *g, Graphdef__Node *n, const char *key, size_t count,
                      const int64_t *value)
{
    Graphdef__Value *v = attr (g, n, key);
    graphdef__value__list__init (v->list = take (g, 1, sizeof *v->list));
    v->list->n_i = count;
    v->list->i = memcpy (take (g, count, 8), value, count * 8);
}
#define INTS(...)                                                                                  \
    sizeof ((int64_t[]){ __VA_ARGS__ }) / 8, (int64_t[])                                           \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static Graphdef__Shape *shape (tf_t *g, size_t n_dim, const int64_t *dim)
{
    Graphdef__Shape *s = take (g, 1, sizeof *s);
    graphdef__shape__init (s);
    s->n_dim = n_dim;
    s->dim = take (g, n_dim, sizeof *s->dim);
    for (size_t d = 0; d < n_dim; d++) {
        graphdef__shape__dim__init (s->dim[d] = take (g, 1, sizeof **s->dim));
        s->dim[d]->has_size = 1;
        s->dim[d]->size = dim[d];
    }
    return s;
}

static Graphdef__Tensor *constant (tf_t *g, const char *name, int type, size_t n_dim,
                                   const int64_t *dim)
{
    Graphdef__Node *n = node (g, "Const", name, "");
    Graphdef__Value *v = attr (g, n, "value");
    Graphdef__Tensor *t = v->tensor = take (g, 1, sizeof *t);
    graphdef__tensor__init (t);
    t->has_dtype = 1;
    t->dtype = type;
    t->shape = shape (g, n_dim, dim);
    set_type (g, n, "dtype", type);
    return t;
}

static void content (tf_t *g, Graphdef__Tensor *t, const void *bytes, size_t size)
{
    t->has_content = 1;
    t->content = (ProtobufCBinaryData){ size, memcpy (take (g, size, 1), bytes, size) };
}

/* int32, as the shapes and axes of TensorFlow are; scalar: n_dim 0.  */
static void integers (tf_t *g, const char *name, size_t n_dim, size_t n, const int64_t *value)
{
    Graphdef__Tensor *t = constant (g, name, DT_INT32, n_dim, &(int64_t){ (int64_t) n });
    int32_t *list = take (g, n, sizeof *list);
    for (size_t k = 0; k < n; k++)
        list[k] = (int32_t) value[k];
    if (n > 1)
        content (g, t, list, 4 * n);
    else
        t->n_int_val = n, t->int_val = list;
}

/* A weight in the form that `ways` asks for; the name to read it by.  */
static const char *weights (tf_t *g, const char *name, size_t n_dim, const int64_t *dim,
                            const float *value)
{
    size_t n = 1, typed;
    for (size_t d = 0; d < n_dim; d++)
        n *= (size_t) dim[d];
    for (typed = n; typed > 1 && value[typed - 2] == value[n - 1]; typed--)
        ;
    Graphdef__Tensor *t = constant (g, name, g->ways & DOUBLE ? DT_DOUBLE : DT_FLOAT, n_dim, dim);
    if (g->ways & DOUBLE) {
        double *d = take (g, n, sizeof *d);
        for (size_t k = 0; k < n; k++)
            d[k] = (double) value[k];
        if (g->ways & TYPED)
            t->n_double_val = typed, t->double_val = d;
        else
            content (g, t, d, 8 * n);
    } else if (g->ways & TYPED)
        t->n_float_val = typed, t->float_val = memcpy (take (g, n, 4), value, 4 * n);
    else
        content (g, t, value, 4 * n);
    const char *from = name;
    if (g->ways & DOUBLE) {
        char *cast = take (g, strlen (name) + 8, 1);
        sprintf (cast, "%s/Cast", name);
        set_type (g, node (g, "Cast", cast, from), "DstT", DT_FLOAT);
        from = cast;
    }
    if (g->ways & READ) {
        char *read = take (g, strlen (name) + 8, 1);
        sprintf (read, "%s/read", name);
        node (g, "Identity", read, from);
        from = read;
    }
    return from;
}

static void save_graph (tf_t *g)
{
    Graphdef__Graph graph = GRAPHDEF__GRAPH__INIT;
    graph.n_node = g->n_node;
    graph.node = g->node;
    size_t size = graphdef__graph__get_packed_size (&graph);
    uint8_t *bytes = malloc (size);
    assert_non_null (bytes);
    graphdef__graph__pack (&graph, bytes);
    save (bytes, size);
    free (bytes);
    wm_arena_clear (&g->arena);
}

/* ---- the network ----------------------------------------------------------------------------- */

static void placeholder (tf_t *g, size_t n_dim, const int64_t *dim)
{
    Graphdef__Node *n = node (g, "Placeholder", "main_input", "");
    set_type (g, n, "dtype", DT_FLOAT);
    attr (g, n, "shape")->shape = shape (g, n_dim, dim);
}

static const char *rescale (tf_t *g, const char *image)
{
    char in[100];
    if (!(g->ways & RESCALED))
        return image;
    integers (g, "minus/x", 0, INTS (-3));
    set_type (g, node (g, "Cast", "minus", "minus/x"), "DstT", DT_FLOAT);
    snprintf (in, sizeof in, "%s minus", image);
    node (g, "AddV2", "below", in);
    node (g, "Sub", "rescaled", "below minus");
    return "rescaled";
}

static const char *add_input (tf_t *g)
{
    if (g->ways & FLAT_INPUT) {
        placeholder (g, INTS (-1, H * W));
        integers (g, "image_shape", 1, INTS (-1, H, W, 1));
        node (g, "Reshape", "image", "main_input image_shape");
        return "image";
    }
    if (g->ways & RANK3) {
        placeholder (g, INTS (-1, H, W));
        integers (g, "image_axis", 0, INTS (-1));
        node (g, "ExpandDims", "image", "main_input image_axis");
        return "image";
    }
    placeholder (g, INTS (-1, H, W, 1));
    return "main_input";
}

static const char *add_conv (tf_t *g, const char *image)
{
    float w[K * K * F], b[F];
    char in[200];
    for (unsigned f = 0; f < F; f++) {
        b[f] = (float) weight (1, f);
        for (unsigned y = 0; y < K; y++)
            for (unsigned x = 0; x < K; x++)
                w[(y * K + x) * F + f] = (float) conv_weight (f, y, x);
    }
    if (g->ways & FIRST) {
        integers (g, "to_first", 1, INTS (0, 3, 1, 2));
        snprintf (in, sizeof in, "%s to_first", image);
        node (g, "Transpose", "first", in);
        image = "first";
    }
    const char *format = g->ways & FIRST ? "NCHW" : "NHWC";
    snprintf (in, sizeof in, "%s %s", image, weights (g, "conv/kernel", INTS (K, K, 1, F), w));
    Graphdef__Node *conv = node (g, "Conv2D", "conv/Conv2D", in);
    set_text (g, conv, "data_format", format);
    set_text (g, conv, "padding", "VALID");
    set_list (g, conv, "strides", INTS (1, 1, 1, 1));
    const char *bias = weights (g, "conv/bias", INTS (F), b);
    if (g->ways & SQUEEZED) {
        integers (g, "conv/bias/shape", 1, INTS (1, 1, 1, F));
        snprintf (in, sizeof in, "%s conv/bias/shape", bias);
        node (g, "Reshape", "conv/bias/Reshape", in);
        set_list (g, node (g, "Squeeze", "conv/bias/Squeeze", "conv/bias/Reshape"), "squeeze_dims",
                  INTS (0, 1, 2));
        bias = "conv/bias/Squeeze";
    }
    snprintf (in, sizeof in, "conv/Conv2D %s", bias);
    if (g->ways & ADD && !(g->ways & FIRST))
        node (g, "AddV2", "conv/BiasAdd", in);
    else
        set_text (g, node (g, "BiasAdd", "conv/BiasAdd", in), "data_format", format);
    node (g, "Relu", "conv/Relu", "conv/BiasAdd");
    if (!(g->ways & FIRST))
        return "conv/Relu";
    integers (g, "to_last", 1, INTS (0, 2, 3, 1));
    node (g, "Transpose", "last", "conv/Relu to_last");
    return "last";
}

/* Dropout in a conditional: Switch, one branch that multiplies, one that does not, Merge.  */
static const char *add_dropout (tf_t *g, const char *value)
{
    char in[100];
    if (!(g->ways & DROPOUT))
        return value;
    Graphdef__Tensor *t = constant (g, "phase/input", DT_BOOL, 0, NULL);
    t->n_bool_val = 1;
    t->bool_val = take (g, 1, sizeof *t->bool_val);
    node (g, "PlaceholderWithDefault", "phase", "phase/input");
    node (g, "Switch", "cond/Switch", "phase phase");
    node (g, "Identity", "cond/switch_t", "cond/Switch:1");
    node (g, "Identity", "cond/pred", "phase");
    snprintf (in, sizeof in, "%s cond/pred", value);
    node (g, "Switch", "cond/drop/Switch", in);
    integers (g, "cond/keep", 0, INTS (2));
    node (g, "Mul", "cond/drop", "cond/drop/Switch:1 cond/keep");
    node (g, "Switch", "cond/same/Switch", in);
    node (g, "Identity", "cond/same", "cond/same/Switch");
    node (g, "Merge", "cond/Merge", "cond/same cond/drop");
    return "cond/Merge";
}

static const char *add_flatten (tf_t *g, const char *value)
{
    char in[200];
    if (g->ways & (PROD | STACK | CONCAT)) {
        node (g, "Shape", "flat/Shape", value);
        integers (g, "flat/zero", 1, INTS (0));
        integers (g, "flat/one", 1, INTS (1));
        integers (g, "flat/rest", !(g->ways & (PROD | STACK)), INTS (-1));
    }
    if (g->ways & PROD) {
        Graphdef__Node *n =
            node (g, "StridedSlice", "flat/sizes", "flat/Shape flat/one flat/zero flat/one");
        set_int (g, n, "end_mask", 1);
        integers (g, "flat/axis", 1, INTS (0));
        node (g, "Prod", "flat/Prod", "flat/sizes flat/axis");
        node (g, "Pack", "flat/target", "flat/rest flat/Prod");
    } else if (g->ways & STACK) {
        Graphdef__Node *n =
            node (g, "StridedSlice", "flat/batch", "flat/Shape flat/zero flat/one flat/one");
        set_int (g, n, "shrink_axis_mask", 1);
        node (g, "Pack", "flat/target", "flat/batch flat/rest");
    } else if (g->ways & CONCAT) {
        Graphdef__Node *n =
            node (g, "StridedSlice", "flat/batch", "flat/Shape flat/zero flat/one flat/one");
        set_int (g, n, "begin_mask", 1);
        integers (g, "flat/at", 0, INTS (0));
        node (g, "ConcatV2", "flat/target", "flat/batch flat/rest flat/at");
    } else
        integers (g, "flat/target", 1, INTS (-1, FLAT));
    snprintf (in, sizeof in, "%s flat/target", value);
    node (g, "Reshape", "flat", in);
    return "flat";
}

static void add_dense (tf_t *g, const char *in, const char *out, unsigned n_in, unsigned n_out,
                       const float *w, const float *b)
{
    char name[4][64], both[300];
    snprintf (name[0], 64, "%s/kernel", out);
    snprintf (name[1], 64, "%s/bias", out);
    snprintf (name[2], 64, "%s/MatMul", out);
    int turned = (g->ways & TURNED) != 0;
    float *v = take (g, (size_t) n_in * n_out, 4);
    for (unsigned k = 0; k < n_in; k++)
        for (unsigned o = 0; o < n_out; o++)
            v[turned ? o * n_in + k : k * n_out + o] = w[k * n_out + o];
    const int64_t dim[2] = { turned ? n_out : n_in, turned ? n_in : n_out };
    snprintf (both, sizeof both, "%s %s", in, weights (g, name[0], 2, dim, v));
    Graphdef__Node *product = node (g, "MatMul", name[2], both);
    if (turned)
        set_true (g, product, "transpose_b");
    snprintf (both, sizeof both, "%s %s", name[2], weights (g, name[1], INTS (n_out), b));
    node (g, g->ways & ADD ? "AddV2" : "BiasAdd", out, both);
}

static tf_t family (unsigned ways)
{
    tf_t g = { .ways = ways };
    const denses_t d = denses (0);
    add_dense (&g, add_flatten (&g, add_dropout (&g, add_conv (&g, rescale (&g, add_input (&g))))),
               "fc", FLAT, D, d.fc, d.fc_bias);
    node (&g, "Tanh", "fc/Tanh", "fc");
    add_dense (&g, "fc/Tanh", "cls", D, 3, d.cls, d.cls_bias);
    node (&g, "Softmax", "em_trk_none", "cls");
    add_dense (&g, "fc/Tanh", "mic", D, 1, d.mic, d.mic_bias);
    node (&g, "Sigmoid", "michel", "mic");
    if (ways & LEFTOVER) {
        Graphdef__Node *n = node (&g, "Placeholder", "learning_phase", "");
        set_type (&g, n, "dtype", DT_BOOL);
        node (&g, "NoOp", "init", "^michel");
        g.node[g.n_node - 1]->n_input = 0;
        node (&g, "Assert", "check", "michel");
        node (&g, "Identity", "out", "michel ^check");
    }
    for (size_t i = 0; ways & REVERSED && i < g.n_node / 2; i++) {
        Graphdef__Node *n = g.node[i];
        g.node[i] = g.node[g.n_node - 1 - i];
        g.node[g.n_node - 1 - i] = n;
    }
    return g;
}

#endif
