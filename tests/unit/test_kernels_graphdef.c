/* test_kernels_graphdef.c - TensorFlow frozen graphs: the small network in every way that TensorFlow
   and Keras freeze it, what is kept for the general engine, and what is refused.  */
#include "tests/unit/small_net.h"
#include "kernels/import/graphdef.pb-c.h"
#include "kernels/import/wm_arena.h"

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

enum {
#define BIT(name) BIT_##name,
    WAYS (BIT)
#undef BIT
        N_WAY
};
enum {
#define WAY(name) name = 1 << BIT_##name,
    WAYS (WAY)
#undef WAY
};
static const char *const way_name[] = {
#define NAME(name) #name,
    WAYS (NAME)
#undef NAME
};

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
    float w[FLAT * D], b[D], cls[D * 3], cls_b[3], mic[D], mic_b[1] = { (float) weight (7, 0) };
    for (unsigned o = 0; o < D; o++)
        for (unsigned k = 0; k < FLAT; k++)
            w[k * D + o] = (float) dense_weight (k, o);
    for (unsigned k = 0; k < D; k++) {
        b[k] = (float) weight (3, k);
        mic[k] = (float) weight (6, k);
        for (unsigned o = 0; o < 3; o++)
            cls[k * 3 + o] = (float) weight (4, k * 3 + o);
    }
    for (unsigned o = 0; o < 3; o++)
        cls_b[o] = (float) weight (5, o);
    add_dense (&g, add_flatten (&g, add_dropout (&g, add_conv (&g, rescale (&g, add_input (&g))))),
               "fc", FLAT, D, w, b);
    node (&g, "Tanh", "fc/Tanh", "fc");
    add_dense (&g, "fc/Tanh", "cls", D, 3, cls, cls_b);
    node (&g, "Softmax", "em_trk_none", "cls");
    add_dense (&g, "fc/Tanh", "mic", D, 1, mic, mic_b);
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

/* ---- recognised ------------------------------------------------------------------------------ */

static void check_family (unsigned ways)
{
    char label[200] = "";
    for (int i = 0; i < N_WAY; i++)
        if (ways >> i & 1)
            snprintf (label + strlen (label), sizeof label - strlen (label), " %s", way_name[i]);
    tf_t g = family (ways);
    save_graph (&g);
    check_is_family (label, 2);
}

/* Reversed, the outputs are in the other order: those are looked at by name.  */
static void outputs_are_in_the_files_order (void **state)
{
    (void) state;
    char why[480];
    wm_error_t error = { 0 };
    tf_t g = family (REVERSED);
    save_graph (&g);
    if (wm_import (model_path, NULL, wmm_path, why, &error))
        fail_msg ("%s", error.text);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    assert_non_null (model);
    assert_non_null (wm_model_net (model));
    assert_string_equal (wm_model_output (model, 0)->name, "michel");
    assert_string_equal (wm_model_output (model, 1)->name, "em_trk_none");
    assert_string_equal (wm_model_input (model, 0)->name, "main_input");
    wm_model_destroy (&model);
}

static void every_way_alone_and_in_pairs (void **state)
{
    (void) state;
    check_family (0);
    for (int i = 0; i < N_WAY; i++)
        for (int j = i; j < N_WAY; j++)
            if (((1u << i | 1u << j) & REVERSED) == 0)
                check_family (1u << i | 1u << j);
    check_family (PROD | READ | DROPOUT | LEFTOVER | TYPED);   /* Keras 2 on TensorFlow 1 */
    check_family (STACK | READ | SQUEEZED | PORTS | LEFTOVER); /* Keras 3 */
    check_family (FIRST | PROD | READ | TURNED | DOUBLE | DROPOUT | FLAT_INPUT);
}

/* ---- for the general engine, or refused ------------------------------------------------------- */

static Graphdef__Node *find (tf_t *g, const char *op)
{
    for (size_t i = 0; i < g->n_node; i++)
        if (!strcmp (g->node[i]->op, op))
            return g->node[i];
    fail_msg ("no %s", op);
    return NULL;
}

/* Everything that keeps a graph out of the family is said by node and operator. (A .pb does not say
   the shapes of its outputs: only the general engine can.)  */
static void check_outside (tf_t *g, const char *word)
{
    char why[480] = "";
    wm_error_t error = { 0 };
    save_graph (g);
    wm_import (model_path, NULL, wmm_path, why, &error);
    if (!strstr (why, word) || strncmp (why, "general engine: ", 16))
        fail_msg ("no '%s' in: %s", word, why);
}

static void nodes_outside_the_family (void **state)
{
    (void) state;
    tf_t g = family (0);
    find (&g, "Relu")->op = copy (&g, "Softsign");
    check_outside (&g, "node 'conv/Relu' (Softsign) is not of the EmTrkMichelId family");
    g = family (0);
    Graphdef__Node *conv = find (&g, "Conv2D");
    conv->n_attr = 0;
    set_text (&g, conv, "padding", "SAME");
    check_outside (&g, "padded");
    g = family (0);
    conv = find (&g, "Conv2D");
    conv->n_attr = 1;
    set_text (&g, conv, "padding", "VALID");
    set_list (&g, conv, "strides", INTS (1, 2, 1, 1));
    check_outside (&g, "stride");
    g = family (0);
    set_list (&g, find (&g, "Conv2D"), "dilations", INTS (1, 1, 2, 1));
    check_outside (&g, "dilated");
    g = family (FLAT_INPUT);
    find (&g, "MatMul")->input[0] = copy (&g, "image");
    check_outside (&g, "");
    g = family (0);
    set_true (&g, find (&g, "MatMul"), "transpose_a");
    check_outside (&g, "transA");
    g = family (DROPOUT); /* in training: the branch with the Mul */
    find (&g, "Const");   /* there is one */
    for (size_t i = 0; i < g.n_node; i++)
        if (!strcmp (g.node[i]->name, "phase/input"))
            g.node[i]->attr[0]->value->tensor->bool_val[0] = 1;
    check_outside (&g, "'cond/drop' (Mul)");
    g = family (STACK); /* a mask that nothing here knows */
    set_int (&g, find (&g, "StridedSlice"), "new_axis_mask", 1);
    check_outside (&g, "(StridedSlice)");
}

/* Activations of several nodes, as Keras writes them: SiLU behind the IdentityN of its gradient, GELU
   by erf and by tanh with a square, softplus.  */
static void activations_of_several_nodes (void **state)
{
    (void) state;
    static const struct {
        wm_act_t act;
        const char *node[9]; /* operator, name, inputs; x is the convolution with its bias */
    } form[] = {
        { WM_ACT_SWISH,
          { "Sigmoid gate x", "Mul product x gate", "IdentityN conv/Relu product x" } },
        { WM_ACT_GELU,
          { "RealDiv small x root", "Erf erf small", "AddV2 share one erf", "Mul half_x half x",
            "Mul conv/Relu half_x share" } },
        { WM_ACT_GELU, /* Keras 3 */
          { "Neg minus x", "RealDiv small minus root", "Erfc share small", "Mul half_x half x",
            "Mul conv/Relu half_x share" } },
        { WM_ACT_GELU_TANH,
          { "Square square x", "Mul cube square x", "Mul part cubic cube", "AddV2 inner x part",
            "Mul scaled factor inner", "Tanh tanh scaled", "AddV2 share one tanh",
            "Mul half_x half x", "Mul conv/Relu half_x share" } },
        { WM_ACT_SOFTPLUS, { "Softplus conv/Relu x" } },
    };
    for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
        tf_t g = family (0);
        Graphdef__Node *relu = find (&g, "Relu");
        relu->op = copy (&g, "Identity"), relu->name = copy (&g, "x");
        weights (&g, "root", 0, NULL, (float[]){ 1.41421356f });
        weights (&g, "one", 0, NULL, (float[]){ 1 });
        weights (&g, "half", 0, NULL, (float[]){ 0.5f });
        weights (&g, "cubic", 0, NULL, (float[]){ 0.044715f });
        weights (&g, "factor", 0, NULL, (float[]){ 0.7978845608f });
        for (size_t k = 0; k < 9 && form[i].node[k]; k++) {
            char op[16], name[16], in[32];
            assert_int_equal (sscanf (form[i].node[k], "%15s %15s %31[^\n]", op, name, in), 3);
            node (&g, op, name, in);
        }
        char why[480];
        wm_error_t error = { 0 };
        save_graph (&g);
        if (wm_import (model_path, NULL, wmm_path, why, &error))
            fail_msg ("%zu: %s", i, error.text);
        wm_model_t *model = wm_model_open (wmm_path, &error);
        assert_non_null (model);
        if (!wm_model_net (model))
            fail_msg ("%zu: %s", i, why);
        assert_int_equal (wm_model_net (model)->conv[0].act, form[i].act);
        wm_model_destroy (&model);
    }
}

/* OpenVINO reads the same file by its own code: the same network.  */
static void the_general_engine_reads_the_same (void **state)
{
    (void) state;
    static const unsigned ways[] = { 0, PROD | READ | TYPED, STACK | SQUEEZED | PORTS | LEFTOVER,
                                     CONCAT | TURNED | ADD | DOUBLE, REVERSED | RANK3 };
    const wm_import_choices_t choices = { .general = 1, .outputs = "em_trk_none:0,michel" };
    unsetenv ("WM_OPENVINO_SO");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char why[480], known[65];
        wm_error_t error = { 0 };
        tf_t g = family (ways[i]);
        save_graph (&g);
        if (wm_import (model_path, &choices, wmm_path, why, &error))
            fail_msg ("%zu: %s", i, error.text);
        wm_model_t *model = wm_model_open (wmm_path, &error);
        assert_non_null (model);
        assert_null (wm_model_net (model));
        assert_int_equal (wm_model_output (model, 0)->n_value, 3);
        check_known (model, 1e-6, why);
        if (wm_model_madds (model) != R * C * F * K * K + FLAT * D + D * 4)
            fail_msg ("%zu: %s", i, why);
        assert_int_equal (wm_import_sha256 (model_path, &choices, known, &error), WM_OK);
        assert_string_equal (known, wm_model_sha256 (model));
        assert_int_equal (wm_import_sha256 (model_path, NULL, known, &error), WM_OK);
        assert_string_not_equal (known, wm_model_sha256 (model));
        wm_model_destroy (&model);
    }
    setenv ("WM_OPENVINO_SO", "/nowhere/wm_openvino.so", 1);
}

/* Outside the family, a frozen graph needs OpenVINO already when it is imported.  */
static void a_general_graph (void **state)
{
    (void) state;
    char why[480];
    wm_error_t error = { 0 };
    tf_t g = family (0);
    find (&g, "Relu")->op = copy (&g, "Softsign");
    save_graph (&g);
    assert_int_equal (wm_import (model_path, NULL, wmm_path, why, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "'conv/Relu' (Softsign)"));
    assert_non_null (strstr (error.text, "`make` fetches and builds it"));
    unsetenv ("WM_OPENVINO_SO");
    if (wm_import (model_path, NULL, wmm_path, why, &error))
        fail_msg ("%s", error.text);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    assert_non_null (model);
    assert_null (wm_model_net (model));
    assert_string_equal (wm_model_output (model, 1)->name, "michel");
    assert_int_equal (wm_model_n_output (model), 4);
    wm_model_destroy (&model);
    setenv ("TMPDIR", "/nowhere", 1);
    assert_int_equal (wm_import (model_path, NULL, wmm_path, why, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "set TMPDIR"));
    unsetenv ("TMPDIR");
    g = family (0);
    find (&g, "Relu")->op = copy (&g, "NoSuchOperator");
    save_graph (&g);
    assert_int_equal (wm_import (model_path, NULL, wmm_path, why, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "node 'conv/Relu' (NoSuchOperator) is not known to the "));
    assert_non_null (strstr (error.text, "OpenVINO cannot"));
    setenv ("WM_OPENVINO_SO", "/nowhere/wm_openvino.so", 1);
}

/* Layers that only the general engine has, whose multiply-adds were counted by hand.  */
static void other_layers (void **state)
{
    (void) state;
    static const float zero[100];
    char why[480];
    wm_error_t error = { 0 };
    tf_t g = { .ways = 0 };
    placeholder (&g, INTS (-1, 8, 10, 1));
    weights (&g, "depth_w", INTS (3, 3, 1, 2), zero);
    Graphdef__Node *n = node (&g, "DepthwiseConv2dNative", "depth", "main_input depth_w");
    set_text (&g, n, "padding", "VALID"); /* (N, 6, 8, 2): 96 * 9 */
    set_list (&g, n, "strides", INTS (1, 1, 1, 1));
    weights (&g, "up_w", INTS (2, 2, 3, 2), zero);
    integers (&g, "up_sizes", 1, INTS (1, 12, 16, 3));
    n = node (&g, "Conv2DBackpropInput", "up", "up_sizes up_w depth");
    set_text (&g, n, "padding", "VALID"); /* (N, 12, 16, 3): 96 * 12 */
    set_list (&g, n, "strides", INTS (1, 2, 2, 1));
    integers (&g, "last", 0, INTS (-1));
    node (&g, "ExpandDims", "volume", "up last");
    weights (&g, "conv_w", INTS (3, 3, 3, 1, 2), zero);
    n = node (&g, "Conv3D", "conv", "volume conv_w");
    set_text (&g, n, "padding", "VALID"); /* (N, 10, 14, 1, 2): 280 * 27 */
    set_list (&g, n, "strides", INTS (1, 1, 1, 1, 1));
    integers (&g, "rows", 1, INTS (-1, 10, 28));
    node (&g, "Reshape", "matrix", "conv rows");
    weights (&g, "product_w", INTS (3, 28), zero);
    set_true (&g, node (&g, "BatchMatMulV2", "product", "matrix product_w"), "adj_y"); /* 30 * 28 */
    integers (&g, "flat", 1, INTS (-1, 30));
    node (&g, "Reshape", "scores", "product flat");
    save_graph (&g);
    unsetenv ("WM_OPENVINO_SO");
    if (wm_import (model_path, NULL, wmm_path, why, &error))
        fail_msg ("%s", error.text);
    setenv ("WM_OPENVINO_SO", "/nowhere/wm_openvino.so", 1);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    assert_non_null (model);
    assert_int_equal (wm_model_madds (model), 96 * 9 + 96 * 12 + 280 * 27 + 30 * 28);
    wm_model_destroy (&model);
}

static void graphs_refused (void **state)
{
    (void) state;
    tf_t g = family (0);
    find (&g, "Relu")->input[0] = copy (&g, "nowhere:0");
    save_graph (&g);
    check_refused ("'nowhere:0', which nothing makes");
    g = family (0);
    find (&g, "Relu")->input[0] = copy (&g, "conv/BiasAdd:1");
    save_graph (&g);
    check_refused ("'conv/BiasAdd:1', which nothing makes");
    g = family (0);
    find (&g, "Conv2D")->input[0] = copy (&g, "fc");
    save_graph (&g);
    check_refused ("which may be a loop (an LSTM's): convert the model to ONNX by tf2onnx");
    g = family (0);
    find (&g, "Tanh")->name = copy (&g, "fc");
    save_graph (&g);
    check_refused ("defined twice");
    g = family (0);
    Graphdef__Node *input = find (&g, "Placeholder");
    input->n_attr = 1;
    save_graph (&g);
    check_refused ("input 'main_input' has no shape");
    g = family (0);
    find (&g, "Placeholder")->attr[0]->value->type = DT_STRING;
    save_graph (&g);
    check_refused ("input 'main_input' is not a tensor of numbers");
}

/* A shape whose product would overflow, or that asks for more than a model: no constant.  */
static void constants_that_lie (void **state)
{
    (void) state;
    static const int64_t wrong[][2] = {
        { INT64_MAX, 4 }, { 1ll << 40, 1 }, { -1, 1 }, { 0, 1 }, { FLAT, D + 1 }
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tf_t g = family (i % 2 ? TYPED : 0);
        for (size_t k = 0; k < g.n_node; k++)
            if (!strcmp (g.node[k]->name, "fc/kernel"))
                g.node[k]->attr[0]->value->tensor->shape = shape (&g, 2, wrong[i]);
        check_outside (&g, "fc/MatMul");
    }
}

static void truncated_and_changed_files (void **state)
{
    (void) state;
    tf_t g = family (PROD | DROPOUT | READ);
    save_graph (&g);
    FILE *file = fopen (model_path, "rb");
    assert_non_null (file);
    static uint8_t bytes[1 << 16];
    size_t size = fread (bytes, 1, sizeof bytes, file);
    fclose (file);
    char why[480];
    wm_error_t error = { 0 };
    for (size_t n = 1; n < size; n += 7) { /* cut between nodes: a graph, with other outputs */
        save (bytes, n);
        if (wm_import (model_path, NULL, wmm_path, why, &error) || strncmp (why, "sparse", 6))
            continue;
        wm_model_t *model = wm_model_open (wmm_path, &error);
        assert_non_null (model);
        assert_true (wm_model_n_output_port (model) != 2 ||
                     strcmp (wm_model_output (model, 1)->name, "michel"));
        wm_model_destroy (&model);
    }
    uint64_t z = 1;
    for (int i = 0; i < 1000; i++) {
        z = z * 6364136223846793005u + 1442695040888963407u;
        size_t at = (size_t) (z >> 33) % size;
        uint8_t old = bytes[at];
        bytes[at] = (uint8_t) (z >> 20);
        save (bytes, size);
        wm_import (model_path, NULL, wmm_path, why, &error);
        bytes[at] = old;
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (every_way_alone_and_in_pairs),
        cmocka_unit_test (outputs_are_in_the_files_order),
        cmocka_unit_test (nodes_outside_the_family),
        cmocka_unit_test (activations_of_several_nodes),
        cmocka_unit_test (the_general_engine_reads_the_same),
        cmocka_unit_test (a_general_graph),
        cmocka_unit_test (other_layers),
        cmocka_unit_test (graphs_refused),
        cmocka_unit_test (constants_that_lie),
        cmocka_unit_test (truncated_and_changed_files),
    };
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
