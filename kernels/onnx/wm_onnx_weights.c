/* wm_onnx_weights.c - see wm_onnx_weights.h.

   ONNX lets a writer put elements into raw_data (little-endian, as in memory), or into the list of
   their type: 8- and 16-bit types, also floats, bit by bit into int32_data, UINT32 into
   uint64_data, two elements of 4 bits into one entry. Readers differ in which they know: OpenVINO
   2026.4 takes the bits of a BFLOAT16 in int32_data for a whole number. After this file there is
   one encoding, which all of them read.

   Lists that have the layout of raw_data are handed over without a copy; the message's memory is
   malloc's.  */
#include "kernels/onnx/wm_onnx_weights.h"
#include "kernels/onnx/wm_onnx_walk.h"
#include "schema/wm_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists of a TensorProto, as bits of a set.  */
enum { FLOATS = 1, INTS = 2, LONGS = 4, DOUBLES = 8, UNSIGNED = 16, STRINGS = 32, RAW = 64 };

/* By data_type: the list that its elements may be in, its bits an element; 0 bits: none in
   raw_data.  */
static const struct {
    const char *name;
    uint8_t list, bits;
} types[] = {
    [1] = { "FLOAT", FLOATS, 32 },      [2] = { "UINT8", INTS, 8 },
    [3] = { "INT8", INTS, 8 },          [4] = { "UINT16", INTS, 16 },
    [5] = { "INT16", INTS, 16 },        [6] = { "INT32", INTS, 32 },
    [7] = { "INT64", LONGS, 64 },       [8] = { "STRING", STRINGS, 0 },
    [9] = { "BOOL", INTS, 8 },          [10] = { "FLOAT16", INTS, 16 },
    [11] = { "DOUBLE", DOUBLES, 64 },   [12] = { "UINT32", UNSIGNED, 32 },
    [13] = { "UINT64", UNSIGNED, 64 },  [14] = { "COMPLEX64", 0, 0 },
    [15] = { "COMPLEX128", 0, 0 },      [16] = { "BFLOAT16", INTS, 16 },
    [17] = { "FLOAT8E4M3FN", INTS, 8 }, [18] = { "FLOAT8E4M3FNUZ", INTS, 8 },
    [19] = { "FLOAT8E5M2", INTS, 8 },   [20] = { "FLOAT8E5M2FNUZ", INTS, 8 },
    [21] = { "UINT4", INTS, 4 },        [22] = { "INT4", INTS, 4 },
    [23] = { "FLOAT4E2M1", INTS, 4 },   [24] = { "FLOAT8E8M0", INTS, 8 },
};

typedef struct {
    wm_onnx_t *onnx;
    bool changed;
} normaliser_t;

static bool is_known (const Onnx__TensorProto *t)
{
    return t->data_type > 0 && t->data_type < (int) (sizeof types / sizeof *types);
}

/* false: more than a model may have.  */
static bool count (const int64_t *dim, size_t n_dim, uint64_t *n)
{
    *n = 1;
    for (size_t d = 0; d < n_dim; d++)
        if (dim[d] == 0)
            return *n = 0, true;
    for (size_t d = 0; d < n_dim; d++)
        if (dim[d] < 0 || __builtin_mul_overflow (*n, (uint64_t) dim[d], n) ||
            *n > 8 * WM_MODEL_BYTES_MAX)
            return false;
    return true;
}

bool wm_onnx_weight_bytes (const Onnx__TensorProto *t, uint64_t *bytes)
{
    uint64_t n;
    if (!is_known (t) || !types[t->data_type].bits || !count (t->dims, t->n_dims, &n))
        return false;
    *bytes = (n * types[t->data_type].bits + 7) / 8;
    return *bytes <= WM_MODEL_BYTES_MAX;
}

static wm_fault_t refuse (const normaliser_t *self, const Onnx__TensorProto *t,
                          const Onnx__NodeProto *node, wm_error_t *error, const char *what)
{
    const bool is_named = t->name && *t->name;
    return wm_fault (error, WM_EBATCH, "%s: %s '%.100s' %s", self->onnx->path,
                     is_named ? "tensor" : "the tensor of node",
                     is_named ? t->name
                     : node   ? wm_onnx_node_name (node)
                              : "",
                     what);
}

/* ---- one tensor ------------------------------------------------------------------------------ */

/* Which lists have something.  */
static unsigned lists_of (const Onnx__TensorProto *t)
{
    return (t->n_float_data ? FLOATS : 0u) | (t->n_int32_data ? INTS : 0u) |
           (t->n_int64_data ? LONGS : 0u) | (t->n_double_data ? DOUBLES : 0u) |
           (t->n_uint64_data ? UNSIGNED : 0u) | (t->n_string_data ? STRINGS : 0u) |
           (t->has_raw_data && t->raw_data.len ? RAW : 0u);
}

/* Puts `bytes` bytes, which become the message's, into raw_data.  */
static void set_raw (Onnx__TensorProto *t, void *data, uint64_t bytes)
{
    if (t->has_raw_data)
        free (t->raw_data.data);
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){ .len = bytes, .data = data };
}

/* Hands a list over whose elements lie as in raw_data.  */
static void hand_over (Onnx__TensorProto *t, void *list_p, size_t *n, uint64_t bytes)
{
    void *list;
    memcpy (&list, list_p, sizeof list);
    set_raw (t, list, bytes);
    memset (list_p, 0, sizeof list);
    *n = 0;
}

/* Entry k of a list of whole numbers.  */
static int64_t whole_at (const Onnx__TensorProto *t, size_t k)
{
    return t->n_int32_data ? t->int32_data[k] : (int64_t) t->uint64_data[k];
}

/* Narrows a list of whole numbers: each has the bits of an element, or of two.  */
static wm_fault_t narrow (normaliser_t *self, Onnx__TensorProto *t, const Onnx__NodeProto *node,
                          size_t n, uint64_t bytes, wm_error_t *error)
{
    const size_t size = bytes / (n ? n : 1);
    const int64_t end = (int64_t) 1 << 8 * size; /* of 1, 2 or 4 bytes */
    uint8_t *data = malloc (bytes ? bytes : 1);
    if (!data)
        return wm_fault (error, WM_EHOST, "%s: no memory for its weights", self->onnx->path);
    for (size_t k = 0; k < n; k++) {
        int64_t value = whole_at (t, k);
        const int64_t least = t->n_uint64_data ? 0 : -end / 2; /* signed or not: the same bits */
        if (value >= end || value < least) {
            char what[120];
            snprintf (what, sizeof what,
                      "has %lld as element %zu, beyond its type %s: a damaged model",
                      (long long) value, k, types[t->data_type].name);
            free (data);
            return refuse (self, t, node, error, what);
        }
        value = t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL ? value != 0 : value;
        memcpy (data + k * size, &value, size);
    }
    set_raw (t, data, bytes);
    free (t->int32_data);
    free (t->uint64_data);
    t->int32_data = NULL, t->uint64_data = NULL;
    t->n_int32_data = t->n_uint64_data = 0;
    return WM_OK;
}

/* A byte of a BOOL that is neither 0 nor 1 is true.  */
static void make_bools (normaliser_t *self, const Onnx__TensorProto *t)
{
    for (size_t i = 0; i < t->raw_data.len; i++)
        if (t->raw_data.data[i] > 1) {
            t->raw_data.data[i] = 1;
            self->changed = true;
        }
}

/* Whether every reader takes the elements from their list: a file with no other encoding stays as
   it is.  */
static bool is_plain (const Onnx__TensorProto *t)
{
    return t->n_float_data || t->n_int64_data || t->n_double_data ||
           t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
}

static wm_fault_t move (normaliser_t *self, Onnx__TensorProto *t, const Onnx__NodeProto *node,
                        uint64_t bytes, wm_error_t *error)
{
    const unsigned bits = types[t->data_type].bits;
    const size_t n = t->n_float_data + t->n_int32_data + t->n_int64_data + t->n_double_data +
                     t->n_uint64_data, /* one of them */
        want = bits < 8 ? bytes : bytes / (bits / 8);
    if (n != want)
        return refuse (self, t, node, error,
                       "does not have the data of its shape and type: a damaged model");
    self->changed |= n > 0 && !is_plain (t);
    switch (types[t->data_type].list) {
    case FLOATS:
        hand_over (t, &t->float_data, &t->n_float_data, bytes);
        return WM_OK;
    case LONGS:
        hand_over (t, &t->int64_data, &t->n_int64_data, bytes);
        return WM_OK;
    case DOUBLES:
        hand_over (t, &t->double_data, &t->n_double_data, bytes);
        return WM_OK;
    default:
        break;
    }
    if (bits == 32 && types[t->data_type].list == INTS)
        hand_over (t, &t->int32_data, &t->n_int32_data, bytes);
    else if (bits == 64)
        hand_over (t, &t->uint64_data, &t->n_uint64_data, bytes);
    else
        return narrow (self, t, node, n, bytes, error);
    return WM_OK;
}

static wm_fault_t visit_tensor (void *argument, Onnx__TensorProto *t, const Onnx__NodeProto *node,
                                wm_error_t *error)
{
    normaliser_t *self = argument;
    const unsigned lists = lists_of (t);
    uint64_t bytes;
    char what[160];
    if (t->segment)
        return refuse (self, t, node, error,
                       "is one segment of a larger one, which is not read: export it whole");
    if (!is_known (t) || !types[t->data_type].list) {
        snprintf (what, sizeof what,
                  "is of type %d%s%s, which no engine computes: export the model "
                  "with another type",
                  t->data_type, is_known (t) ? ", " : "",
                  is_known (t) ? types[t->data_type].name : "");
        return refuse (self, t, node, error, what);
    }
    if (lists & (lists - 1))
        return refuse (self, t, node, error,
                       "has data in two fields, and which of them count is not known: a damaged "
                       "model");
    if (lists & ~((types[t->data_type].bits ? RAW : 0u) | types[t->data_type].list)) {
        snprintf (what, sizeof what,
                  "is of type %s and has its data in the field of another type: a "
                  "damaged model",
                  types[t->data_type].name);
        return refuse (self, t, node, error, what);
    }
    if (types[t->data_type].list == STRINGS)
        return WM_OK; /* an engine that does not know text refuses it */
    if (!wm_onnx_weight_bytes (t, &bytes) || ((lists & RAW) && t->raw_data.len != bytes))
        return refuse (self, t, node, error,
                       "does not have the data of its shape and type: a damaged model");
    if (!(lists & RAW) && !(t->has_raw_data && !bytes))
        return move (self, t, node, bytes, error);
    if (t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL)
        make_bools (self, t);
    return WM_OK;
}

/* ---- sparse tensors -------------------------------------------------------------------------- */

/* Where element k of a sparse tensor lies; false: outside, or there are no such indices.  */
static bool place (const Onnx__SparseTensorProto *s, size_t k, size_t n, uint64_t *at)
{
    const bool is_linear = s->indices->n_dims == 1;
    const size_t each = is_linear ? 1 : s->n_dims;
    uint64_t all;
    *at = 0;
    for (size_t d = 0; d < each; d++) {
        int64_t index;
        memcpy (&index, s->indices->raw_data.data + 8 * (k * each + d), 8);
        const int64_t end = s->dims[d];
        if (index < 0 || (!is_linear && index >= end))
            return false;
        *at = is_linear ? (uint64_t) index : *at * (uint64_t) end + (uint64_t) index;
    }
    return count (s->dims, s->n_dims, &all) && *at < all && k < n;
}

/* The elements of a sparse tensor; NULL: damaged, `what` explains it, or no memory (""). */
static uint8_t *scatter (const Onnx__SparseTensorProto *s, uint64_t bytes, unsigned size,
                         const char **what)
{
    const Onnx__TensorProto *index = s->indices;
    const size_t n = s->values->raw_data.len / size;
    const bool fits =
        index && index->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 &&
        s->values->n_dims == 1 && (size_t) s->values->dims[0] == n &&
        (index->n_dims == 1 || (index->n_dims == 2 && (size_t) index->dims[1] == s->n_dims)) &&
        (size_t) index->dims[0] == n;
    uint8_t *data = fits ? calloc (bytes ? bytes : 1, 1) : NULL;
    uint8_t *seen = fits ? calloc (bytes / size / 8 + 1, 1) : NULL;
    *what = fits ? ""
                 : "is sparse, and its indices do not fit its values and shape: a damaged "
                   "model";
    for (size_t k = 0; data && seen && k < n; k++) {
        uint64_t at;
        if (!place (s, k, n, &at) || (seen[at / 8] >> at % 8 & 1)) {
            *what = "is sparse, and an index of it lies outside its shape, or comes twice: a "
                    "damaged model";
            free (data);
            data = NULL;
            break;
        }
        seen[at / 8] = (uint8_t) (seen[at / 8] | 1u << at % 8);
        memcpy (data + at * size, s->values->raw_data.data + k * size, size);
    }
    free (seen);
    if (data && fits)
        return data;
    free (data);
    return NULL;
}

/* Makes a sparse tensor dense. *made is the caller's, in the message's memory.  */
static wm_fault_t densify (normaliser_t *self, const Onnx__SparseTensorProto *s,
                           const Onnx__NodeProto *node, Onnx__TensorProto **made, wm_error_t *error)
{
    static const Onnx__TensorProto unnamed = ONNX__TENSOR_PROTO__INIT;
    const char *what = "is sparse, and has no values: a damaged model";
    if (!s->values || !s->values->has_raw_data)
        return refuse (self, s->values ? s->values : &unnamed, node, error, what);
    const unsigned bits = types[s->values->data_type].bits;
    if (bits < 8)
        return refuse (self, s->values, node, error,
                       "is sparse, of a type that is not read so: export it dense");
    Onnx__TensorProto *t = calloc (1, sizeof *t);
    int64_t *dims = calloc (s->n_dims + 1, sizeof *dims);
    char *name = strdup (s->values->name ? s->values->name : "");
    uint8_t *data = NULL;
    uint64_t bytes;
    what = "";
    if (t && dims && name) {
        onnx__tensor_proto__init (t);
        memcpy (dims, s->dims, s->n_dims * sizeof *dims);
        t->name = name, t->dims = dims, t->n_dims = s->n_dims;
        t->has_data_type = 1, t->data_type = s->values->data_type;
        data = wm_onnx_weight_bytes (t, &bytes)
                   ? scatter (s, bytes, bits / 8, &what)
                   : (what = "is sparse, and larger than a model may be", NULL);
    }
    if (data) {
        set_raw (t, data, bytes);
        *made = t;
        self->changed = true;
        return WM_OK;
    }
    const wm_fault_t fault =
        *what ? refuse (self, s->values, node, error, what)
              : wm_fault (error, WM_EHOST, "%s: no memory for its weights", self->onnx->path);
    free (t);
    free (dims);
    free (name);
    return fault;
}

/* ---- empty tensors --------------------------------------------------------------------------- */

/* Whether a name is that of an empty constant of this graph.  */
static bool is_empty (const Onnx__GraphProto *g, const char *name)
{
    uint64_t n;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (strcmp (g->initializer[i]->name ? g->initializer[i]->name : "", name) == 0)
            return count (g->initializer[i]->dims, g->initializer[i]->n_dims, &n) && n == 0;
    for (size_t i = 0; i < g->n_node; i++)
        if (strcmp (wm_onnx_op (g->node[i]), "Constant") == 0 && g->node[i]->n_output &&
            strcmp (g->node[i]->output[0], name) == 0) {
            const Onnx__AttributeProto *a = wm_onnx_attribute (g->node[i], "value");
            return a && a->t && count (a->t->dims, a->t->n_dims, &n) && n == 0;
        }
    return false;
}

static bool has_empty (const Onnx__GraphProto *g)
{
    uint64_t n;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (count (g->initializer[i]->dims, g->initializer[i]->n_dims, &n) && n == 0)
            return true;
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__AttributeProto *a = strcmp (wm_onnx_op (g->node[i]), "Constant") == 0
                                            ? wm_onnx_attribute (g->node[i], "value")
                                            : NULL;
        if (a && a->t && count (a->t->dims, a->t->n_dims, &n) && n == 0)
            return true;
    }
    return false;
}

/* Operators for which OpenVINO takes an empty input k as ONNX does: a list of no axes, a shape of
   no dimensions, nothing to join.  */
static bool takes_empty (const char *op, size_t k)
{
    static const char *const behind[] = { "Expand", "Pad",     "Reduce",    "Reshape", "Resize",
                                          "Slice",  "Squeeze", "Unsqueeze", "Upsample" };
    for (size_t i = 0; k > 0 && i < sizeof behind / sizeof *behind; i++)
        if (strncmp (op, behind[i], strlen (behind[i])) == 0)
            return true;
    return strcmp (op, "Concat") == 0 || strcmp (op, "ConstantOfShape") == 0;
}

/* OpenVINO 2026.4 takes a constant of no element for one number, 0.  */
static wm_fault_t refuse_empty (const normaliser_t *self, const Onnx__GraphProto *g,
                                wm_error_t *error)
{
    static const char why[] = "which OpenVINO takes for a number: export the model without it";
    if (!has_empty (g))
        return WM_OK;
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_input; k++)
            if (!takes_empty (wm_onnx_op (g->node[i]), k) && is_empty (g, g->node[i]->input[k]))
                return wm_fault (error, WM_EBATCH,
                                 "%s: node '%.100s' (%.60s) reads the empty tensor '%.100s', %s",
                                 self->onnx->path, wm_onnx_node_name (g->node[i]),
                                 wm_onnx_op (g->node[i]), g->node[i]->input[k], why);
    for (size_t i = 0; i < g->n_output; i++)
        if (g->output[i]->name && is_empty (g, g->output[i]->name))
            return wm_fault (error, WM_EBATCH, "%s: an output is the empty tensor '%.100s', %s",
                             self->onnx->path, g->output[i]->name, why);
    return WM_OK;
}

static wm_fault_t visit_graph (void *argument, Onnx__GraphProto *g, wm_error_t *error)
{
    normaliser_t *self = argument;
    if (!g->n_sparse_initializer)
        return refuse_empty (self, g, error);
    Onnx__TensorProto **all =
        realloc (g->initializer, (g->n_initializer + g->n_sparse_initializer) * sizeof *all);
    if (!all)
        return wm_fault (error, WM_EHOST, "%s: no memory for its weights", self->onnx->path);
    g->initializer = all;
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        const wm_fault_t fault =
            densify (self, g->sparse_initializer[i], NULL, &all[g->n_initializer], error);
        if (fault)
            return fault;
        g->n_initializer++;
    }
    for (size_t i = 0; i < g->n_sparse_initializer; i++)
        onnx__sparse_tensor_proto__free_unpacked (g->sparse_initializer[i], NULL);
    free (g->sparse_initializer);
    g->sparse_initializer = NULL;
    g->n_sparse_initializer = 0;
    return refuse_empty (self, g, error);
}

/* A reference has no value outside of a function. Only Constant has an attribute that is sparse,
   sparse_value: it becomes value.  */
static wm_fault_t visit_attribute (void *argument, Onnx__AttributeProto *a,
                                   const Onnx__NodeProto *node, wm_error_t *error)
{
    normaliser_t *self = argument;
    if (a->ref_attr_name && *a->ref_attr_name && !self->onnx->model->n_functions)
        return wm_fault (
            error, WM_EBATCH,
            "%s: node '%.100s' (%.60s) takes its attribute '%.60s' from a function, and "
            "lies in none: a damaged model",
            self->onnx->path, wm_onnx_node_name (node), wm_onnx_op (node), a->name ? a->name : "");
    if (!a->sparse_tensor || a->t || strcmp (wm_onnx_op (node), "Constant") != 0)
        return WM_OK;
    char *name = strdup ("value");
    wm_fault_t fault =
        name ? densify (self, a->sparse_tensor, node, &a->t, error)
             : wm_fault (error, WM_EHOST, "%s: no memory for its weights", self->onnx->path);
    if (fault) {
        free (name);
        return fault;
    }
    free (a->name);
    a->name = name;
    a->has_type = 1;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
    onnx__sparse_tensor_proto__free_unpacked (a->sparse_tensor, NULL);
    a->sparse_tensor = NULL;
    return WM_OK;
}

wm_fault_t wm_onnx_weights (wm_onnx_t *onnx, bool *changed, wm_error_t *error)
{
    normaliser_t self = { .onnx = onnx };
    const wm_fault_t fault = wm_onnx_walk (
        &(wm_onnx_walk_t){ visit_tensor, visit_attribute, visit_graph, &self }, onnx->model, error);
    *changed = self.changed;
    return fault;
}
