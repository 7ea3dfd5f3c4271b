/* wm_tensor.c - reads and folds the constants of an ONNX graph.  */
#include "kernels/onnx/wm_tensor.h"
#include "schema/wm_limits.h"

#include <math.h>
#include <string.h>

#define INTS_MAX 4096 /* folded integers are shapes and axes: never long */

/* ---- reading --------------------------------------------------------------------------------- */

/* IEEE half to single, exact.  */
static float half_to_float (uint16_t half)
{
    uint32_t sign = (uint32_t) (half & 0x8000) << 16, exponent = half >> 10 & 31,
             mantissa = half & 1023, bits;
    float f;
    if (exponent == 0) { /* zero or subnormal: mantissa x 2^-24 */
        f = (float) mantissa * 0x1p-24f;
        memcpy (&bits, &f, 4);
        bits |= sign;
    } else
        bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | mantissa << 13;
    memcpy (&f, &bits, 4);
    return f;
}

/* Element k of a tensor as a double or an integer; raw: little-endian bytes, or NULL.  */
static float float_at (const Onnx__TensorProto *p, const uint8_t *raw, size_t k)
{
    if (p->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16) {
        uint16_t half = raw ? 0 : (uint16_t) p->int32_data[k];
        if (raw)
            memcpy (&half, raw + 2 * k, 2);
        return half_to_float (half);
    }
    if (p->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16) { /* the upper half of a float */
        uint32_t bits = raw ? 0 : (uint32_t) p->int32_data[k] << 16;
        if (raw)
            memcpy ((uint8_t *) &bits + 2, raw + 2 * k, 2);
        float f;
        memcpy (&f, &bits, 4);
        return f;
    }
    double value = raw ? 0 : p->double_data[k];
    if (raw)
        memcpy (&value, raw + 8 * k, 8);
    return (float) value;
}

static int64_t int_at (const Onnx__TensorProto *p, const uint8_t *raw, size_t k)
{
    if (!raw)
        return p->int32_data[k];
    if (p->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL)
        return raw[k];
    int32_t value;
    memcpy (&value, raw + 4 * k, 4);
    return value;
}

/* Bytes an element in raw_data, and how many the typed field has; 0: a type that is not read.  */
static size_t element (const Onnx__TensorProto *p, size_t *n_typed)
{
    switch (p->data_type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
        *n_typed = p->n_float_data;
        return 4;
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
        *n_typed = p->n_int32_data;
        return 2;
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
        *n_typed = p->n_double_data;
        return 8;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
        *n_typed = p->n_int64_data;
        return 8;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
        *n_typed = p->n_int32_data;
        return 4;
    case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
        *n_typed = p->n_int32_data;
        return 1;
    default:
        return 0;
    }
}

static bool set_shape (wm_tensor_t *out, const int64_t *dim, size_t n_dim)
{
    if (n_dim > WM_TENSOR_DIMS_MAX)
        return false;
    out->n_dim = (uint32_t) n_dim;
    out->n = 1;
    for (size_t d = 0; d < n_dim; d++) {
        if (dim[d] < 1 || __builtin_mul_overflow (out->n, (size_t) dim[d], &out->n) ||
            out->n > WM_MODEL_BYTES_MAX)
            return false;
        out->dim[d] = dim[d];
    }
    return true;
}

bool wm_tensor_read (wm_arena_t *arena, const Onnx__TensorProto *p, wm_tensor_t *out)
{
    *out = (wm_tensor_t){ .is_other = p->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
    size_t n_typed, size = element (p, &n_typed);
    const uint8_t *raw = p->has_raw_data ? p->raw_data.data : NULL;
    if (!size || !set_shape (out, p->dims, p->n_dims) ||
        (raw ? p->raw_data.len != out->n * size : n_typed != out->n))
        return false;
    if (p->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
        out->f = raw ? (const float *) (const void *) raw : p->float_data;
    else if (p->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64)
        out->i = raw ? (const int64_t *) (const void *) raw : p->int64_data;
    else if (p->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32 ||
             p->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL) {
        int64_t *i = out->n <= INTS_MAX ? wm_arena_take (arena, out->n, sizeof *i) : NULL;
        for (size_t k = 0; i && k < out->n; k++)
            i[k] = int_at (p, raw, k);
        out->i = i;
    } else {
        float *f = wm_arena_take (arena, out->n, sizeof *f);
        for (size_t k = 0; f && k < out->n; k++)
            f[k] = float_at (p, raw, k);
        out->f = f;
    }
    return out->f || out->i;
}

/* ---- folding --------------------------------------------------------------------------------- */

const int64_t *wm_tensor_list (const Onnx__NodeProto *node, const char *name,
                               const wm_tensor_t *const *in, size_t n_in, size_t k, size_t *n)
{
    const Onnx__AttributeProto *a = wm_onnx_attribute (node, name);
    if (a && a->n_ints) {
        *n = a->n_ints;
        return a->ints;
    }
    if (k < n_in && in[k] && in[k]->i) {
        *n = in[k]->n;
        return in[k]->i;
    }
    *n = 0;
    return NULL;
}

typedef struct {
    wm_arena_t *arena;
    const Onnx__NodeProto *node;
    const wm_tensor_t *const *in;
    size_t n_in;
} fold_t;

static const wm_tensor_t *input (const fold_t *self, size_t k)
{
    return k < self->n_in ? self->in[k] : NULL;
}

static bool fold_constant (const fold_t *self, wm_tensor_t *out)
{
    const Onnx__AttributeProto *a = wm_onnx_attribute (self->node, "value");
    if (a && a->t)
        return wm_tensor_read (self->arena, a->t, out);
    *out = (wm_tensor_t){ .n = 1 };
    if ((a = wm_onnx_attribute (self->node, "value_int")) && a->has_i)
        out->i = &a->i;
    else if ((a = wm_onnx_attribute (self->node, "value_float")) && a->has_f)
        out->f = &a->f;
    else if ((a = wm_onnx_attribute (self->node, "value_ints")) && a->n_ints)
        *out = (wm_tensor_t){
            .n_dim = 1, .dim = { (int64_t) a->n_ints }, .n = a->n_ints, .i = a->ints
        };
    else if ((a = wm_onnx_attribute (self->node, "value_floats")) && a->n_floats)
        *out = (wm_tensor_t){
            .n_dim = 1, .dim = { (int64_t) a->n_floats }, .n = a->n_floats, .f = a->floats
        };
    return out->i || out->f;
}

static bool fold_same (const fold_t *self, wm_tensor_t *out)
{
    *out = *input (self, 0);
    return true;
}

/* Integers that a float32 holds: Keras writes the -1 of a Rescaling layer so. Not the batch.  */
static bool cast_to_floats (const fold_t *self, wm_tensor_t *out)
{
    float *f = out->n <= INTS_MAX ? wm_arena_take (self->arena, out->n, sizeof *f) : NULL;
    for (size_t k = 0; f && k < out->n; k++) {
        if (out->i[k] < -(1 << 24) || out->i[k] > 1 << 24)
            return false;
        f[k] = (float) out->i[k];
    }
    out->f = f, out->i = NULL;
    return f != NULL;
}

static bool fold_cast (const fold_t *self, wm_tensor_t *out)
{
    int64_t to = wm_onnx_int (self->node, "to", 0);
    int to_int =
        to == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 || to == ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
    int to_float = to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    *out = *input (self, 0);
    out->is_other &= !to_float;
    if (out->i && to_float)
        return cast_to_floats (self, out);
    return out->i ? to_int : to_float;
}

static bool fold_reshape (const fold_t *self, wm_tensor_t *out)
{
    const wm_tensor_t *in = input (self, 0);
    size_t n_dim;
    const int64_t *shape = wm_tensor_list (self->node, "shape", self->in, self->n_in, 1, &n_dim);
    if (!shape || n_dim > WM_TENSOR_DIMS_MAX)
        return false;
    int64_t dim[WM_TENSOR_DIMS_MAX], known = 1;
    int free_dim = -1;
    for (size_t d = 0; d < n_dim; d++) {
        dim[d] = shape[d] == 0 && d < in->n_dim ? in->dim[d] : shape[d];
        if (dim[d] == -1 && free_dim < 0)
            free_dim = (int) d;
        else if (dim[d] < 1 || __builtin_mul_overflow (known, dim[d], &known))
            return false;
    }
    if (free_dim >= 0)
        dim[free_dim] = (int64_t) in->n / known;
    *out = *in;
    return set_shape (out, dim, n_dim) && out->n == in->n;
}

static bool fold_transpose (const fold_t *self, wm_tensor_t *out)
{
    const wm_tensor_t *in = input (self, 0);
    const Onnx__AttributeProto *perm = wm_onnx_attribute (self->node, "perm");
    if (!in->f || (perm && perm->n_ints != in->n_dim))
        return false;
    size_t stride[WM_TENSOR_DIMS_MAX], step[WM_TENSOR_DIMS_MAX], all = 1;
    for (uint32_t d = in->n_dim; d-- > 0; all *= (size_t) in->dim[d])
        stride[d] = all;
    int64_t dim[WM_TENSOR_DIMS_MAX];
    uint32_t seen = 0;
    for (uint32_t d = 0; d < in->n_dim; d++) {
        int64_t from = perm ? perm->ints[d] : in->n_dim - 1 - d;
        if (from < 0 || from >= in->n_dim || seen >> from & 1)
            return false;
        seen |= 1u << from;
        dim[d] = in->dim[from];
        step[d] = stride[from];
    }
    float *f = wm_arena_take (self->arena, in->n, sizeof *f);
    out->is_other = in->is_other;
    if (!f || !set_shape (out, dim, in->n_dim))
        return false;
    int64_t at[WM_TENSOR_DIMS_MAX] = { 0 };
    size_t from = 0;
    for (size_t k = 0; k < in->n; k++) {
        f[k] = in->f[from];
        for (uint32_t d = out->n_dim; d-- > 0;) { /* count up, last dimension first */
            from += step[d];
            if (++at[d] < dim[d])
                break;
            from -= step[d] * (size_t) dim[d];
            at[d] = 0;
        }
    }
    out->f = f;
    return true;
}

/* Squeeze and Unsqueeze of constants: same values, new shape.  */
static bool fold_axes (const fold_t *self, wm_tensor_t *out)
{
    const wm_tensor_t *in = input (self, 0);
    int insert = !strcmp (wm_onnx_op (self->node), "Unsqueeze");
    size_t n_axis = 0;
    const int64_t *axis = wm_tensor_list (self->node, "axes", self->in, self->n_in, 1, &n_axis);
    int64_t rank = in->n_dim + (insert ? (int64_t) n_axis : 0), dim[WM_TENSOR_DIMS_MAX];
    if ((insert && !axis) || n_axis > WM_TENSOR_DIMS_MAX || rank > WM_TENSOR_DIMS_MAX)
        return false;
    uint32_t marked = 0;
    for (size_t k = 0; k < n_axis; k++) {
        int64_t a = axis[k] < 0 ? axis[k] + rank : axis[k];
        if (a < 0 || a >= rank)
            return false;
        marked |= 1u << a;
    }
    size_t n_dim = 0;
    uint32_t from = 0;
    for (int64_t d = 0; d < rank; d++) {
        int hit = axis ? (marked >> d & 1) != 0 : in->dim[d] == 1;
        if (insert)
            dim[n_dim++] = hit || from >= in->n_dim ? 1 : in->dim[from++];
        else if (!hit)
            dim[n_dim++] = in->dim[d];
    }
    *out = *in;
    return set_shape (out, dim, n_dim) && out->n == in->n;
}

static bool fold_shape (const fold_t *self, wm_tensor_t *out)
{
    const wm_tensor_t *in = input (self, 0);
    if (self->node->n_attribute || !in->n_dim)
        return false;
    int64_t *i = wm_arena_take (self->arena, in->n_dim, sizeof *i);
    if (i)
        memcpy (i, in->dim, in->n_dim * sizeof *i);
    *out = (wm_tensor_t){ .n_dim = 1, .dim = { in->n_dim }, .n = in->n_dim, .i = i };
    return i != NULL;
}

/* Elements of a list of integers by a list of indices, or by one, which then gives a scalar.  */
static bool fold_gather (const fold_t *self, wm_tensor_t *out)
{
    const wm_tensor_t *in = input (self, 0), *index = input (self, 1);
    if (!index || !in->i || !index->i || in->n_dim != 1 || index->n_dim > 1 ||
        index->n > INTS_MAX || wm_onnx_int (self->node, "axis", 0))
        return false;
    int64_t *i = wm_arena_take (self->arena, index->n, sizeof *i);
    if (!i)
        return false;
    for (size_t k = 0; k < index->n; k++) {
        int64_t from = index->i[k] < 0 ? index->i[k] + in->dim[0] : index->i[k];
        if (from < 0 || from >= in->dim[0])
            return false;
        i[k] = in->i[from];
    }
    *out = *index;
    out->i = i;
    return true;
}

/* A run of a list of integers.  */
static bool fold_slice (const fold_t *self, wm_tensor_t *out)
{
    const wm_tensor_t *in = input (self, 0), *step = input (self, 4);
    size_t n_start, n_end;
    const int64_t *start = wm_tensor_list (self->node, "starts", self->in, self->n_in, 1, &n_start);
    const int64_t *end = wm_tensor_list (self->node, "ends", self->in, self->n_in, 2, &n_end);
    if (!in->i || in->n_dim != 1 || !start || !end || n_start != 1 || n_end != 1 ||
        (step && (!step->i || step->i[0] != 1)))
        return false;
    int64_t n = in->dim[0], a = *start < 0 ? *start + n : *start, b = *end < 0 ? *end + n : *end;
    b = b > n ? n : b;
    if (a < 0 || a >= b)
        return false;
    *out = (wm_tensor_t){ .n_dim = 1, .dim = { b - a }, .n = (size_t) (b - a), .i = in->i + a };
    return true;
}

static bool fold_concat (const fold_t *self, wm_tensor_t *out)
{
    size_t n = 0;
    for (size_t k = 0; k < self->n_in; k++) {
        const wm_tensor_t *in = input (self, k);
        if (!in || !in->i || in->n_dim != 1 || in->n > INTS_MAX || n > INTS_MAX)
            return false;
        n += in->n;
    }
    int64_t *i = wm_arena_take (self->arena, n, sizeof *i);
    if (!i)
        return false;
    *out = (wm_tensor_t){ .n_dim = 1, .dim = { (int64_t) n }, .n = n, .i = i };
    for (size_t k = 0; k < self->n_in; k++) {
        memcpy (i, input (self, k)->i, input (self, k)->n * sizeof *i);
        i += input (self, k)->n;
    }
    return true;
}

/* The product of a list of integers: how many values lie behind the batch dimension.  */
static bool fold_product (const fold_t *self, wm_tensor_t *out)
{
    const wm_tensor_t *in = input (self, 0);
    int64_t *i = wm_arena_take (self->arena, 1, sizeof *i);
    if (!i || !in->i || in->n_dim != 1)
        return false;
    *i = 1;
    for (size_t k = 0; k < in->n; k++)
        if (in->i[k] < 1 || __builtin_mul_overflow (*i, in->i[k], i))
            return false;
    *out = (wm_tensor_t){ .n = 1, .i = i };
    if (wm_onnx_int (self->node, "keepdims", 1)) {
        out->n_dim = 1;
        out->dim[0] = 1;
    }
    return true;
}

static double calculate (const char *op, double a, double b)
{
    return !strcmp (op, "Add")   ? a + b
           : !strcmp (op, "Sub") ? a - b
           : !strcmp (op, "Mul") ? a * b
                                 : a / b;
}

/* Numbers of one shape, or of any shape with one number, as weights are normalised with; and the
   product of two sizes.  */
static bool fold_arithmetic (const fold_t *self, wm_tensor_t *out)
{
    const wm_tensor_t *a = input (self, 0), *b = input (self, 1);
    if (!b || (a->n != 1 && b->n != 1 &&
               (a->n_dim != b->n_dim || memcmp (a->dim, b->dim, a->n_dim * sizeof *a->dim))))
        return false;
    *out = a->n > b->n || (a->n == b->n && a->n_dim > b->n_dim) ? *a : *b;
    if (a->f && b->f) {
        if (a->is_other || b->is_other) /* its results are rounded to its type */
            return false;
        float *f = wm_arena_take (self->arena, out->n, sizeof *f);
        for (size_t k = 0; f && k < out->n; k++)
            f[k] = (float) calculate (wm_onnx_op (self->node), (double) a->f[a->n == 1 ? 0 : k],
                                      (double) b->f[b->n == 1 ? 0 : k]);
        out->f = f;
        return f != NULL;
    }
    int64_t *i = wm_arena_take (self->arena, 1, sizeof *i);
    out->i = i;
    return i && a->i && b->i && out->n == 1 && a->i[0] >= 0 && b->i[0] >= 0 &&
           !strcmp (wm_onnx_op (self->node), "Mul") &&
           !__builtin_mul_overflow (a->i[0], b->i[0], i);
}

/* Sqrt and Reciprocal.  */
static bool fold_root (const fold_t *self, wm_tensor_t *out)
{
    int root = !strcmp (wm_onnx_op (self->node), "Sqrt");
    *out = *input (self, 0);
    float *f = out->f && !out->is_other ? wm_arena_take (self->arena, out->n, sizeof *f) : NULL;
    for (size_t k = 0; f && k < out->n; k++)
        f[k] = root ? sqrtf (out->f[k]) : 1 / out->f[k];
    out->f = f;
    return f != NULL;
}

bool wm_tensor_fold (wm_arena_t *arena, const Onnx__NodeProto *node, const wm_tensor_t *const *in,
                     size_t n_in, wm_tensor_t *out)
{
    static const struct {
        const char *op;
        bool (*fold) (const fold_t *self, wm_tensor_t *out);
    } table[] = {
        { "Add", fold_arithmetic },      { "Cast", fold_cast },
        { "Concat", fold_concat },       { "Gather", fold_gather },
        { "Dropout", fold_same },        { "Identity", fold_same },
        { "Div", fold_arithmetic },      { "Mul", fold_arithmetic },
        { "Reciprocal", fold_root },     { "ReduceProd", fold_product },
        { "Reshape", fold_reshape },     { "Shape", fold_shape },
        { "Slice", fold_slice },         { "Sqrt", fold_root },
        { "Squeeze", fold_axes },        { "Sub", fold_arithmetic },
        { "Transpose", fold_transpose }, { "Unsqueeze", fold_axes },
    };
    fold_t self = { arena, node, in, n_in };
    *out = (wm_tensor_t){ 0 };
    if (!strcmp (wm_onnx_op (node), "Constant"))
        return fold_constant (&self, out);
    if (!n_in || !in[0])
        return false;
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (!strcmp (wm_onnx_op (node), table[k].op))
            return table[k].fold (&self, out);
    return false;
}
