/* wm_nan.c - see wm_nan.h.

   Nodes are visited in their order. Where a node would lose a NaN, the value that it came from is
   watched, as far up as every node between keeps it: the output of a division, not of each layer
   behind it. From there on the value counts as a number, and the nodes are visited again.

   Operators that are not in the table may make a NaN and lose one. Which ones keep it was measured
   in OpenVINO 2026.4 and ONNX Runtime 1.31, with AMX, AVX2 and SSE (tests/golden/nan.t).  */
#include "kernels/import/wm_nan.h"
#include "kernels/import/wm_tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LARGE 0x1p40   /* no value of a patch is larger */
#define MODEST 0x1p24  /* a factor that counts as a weight: a gate, 1 / sqrt (variance + 1e-12) */
#define OVER 0x1p127   /* may be infinite in float32 */
#define UNDER 0x1p-126 /* may be 0 in float32 */
#define EXP_OVER 88.0  /* Exp of more may be infinite */

/* What a value may be. An infinite bound: it may be infinite.  */
typedef struct {
    double low, high;
    bool is_nan;   /* it may be NaN */
    bool is_made;  /* by the node itself, of inputs that are none */
    bool is_whole; /* integers or truth values, which are never NaN */
    bool is_fixed; /* no patch decides it */
    bool is_seen;  /* it is watched */
    size_t origin; /* which value it is NaN with */
    size_t place;  /* of its node in onnx->node */
} seen_t;

typedef struct {
    wm_onnx_t *onnx;
    seen_t *value; /* (onnx->n_value) */
    wm_nan_t *watch;
    size_t n_watch;
    const Onnx__NodeProto *node; /* that is visited */
} eye_t;

static const seen_t ordinary = { .low = -LARGE, .high = LARGE },
                    any = { .low = -INFINITY, .high = INFINITY }, unit = { .low = 0, .high = 1 };

/* ---- bounds ---------------------------------------------------------------------------------- */

static bool has_zero (seen_t a)
{
    return a.low <= 0 && a.high >= 0;
}

static bool may_overflow (seen_t a)
{
    return isinf (a.low) || isinf (a.high);
}

static double magnitude (seen_t a)
{
    return fmax (fabs (a.low), fabs (a.high));
}

/* Bounds as float32 keeps them.  */
static double rounded (double bound)
{
    return fabs (bound) >= OVER ? copysign (INFINITY, bound) : fabs (bound) < UNDER ? 0 : bound;
}

static seen_t between (double low, double high)
{
    return (seen_t){ .low = rounded (low), .high = rounded (high) };
}

/* A bound that sums, weights and norms let grow no further than `most`, or LARGE.  */
static double grown (double bound, double most)
{
    most = fmax (most, LARGE);
    return isfinite (bound) && fabs (bound) > most ? copysign (most, bound) : bound;
}

static seen_t kept (double low, double high, double most)
{
    return between (grown (low, most), grown (high, most));
}

static seen_t joined (seen_t a, seen_t b)
{
    return between (fmin (a.low, b.low), fmax (a.high, b.high));
}

static seen_t negated (seen_t a)
{
    return between (-a.high, -a.low);
}

static seen_t added (seen_t a, seen_t b, bool *is_made)
{
    const double most = fmax (isfinite (magnitude (a)) ? magnitude (a) : 0,
                              isfinite (magnitude (b)) ? magnitude (b) : 0);
    *is_made |=
        (a.high == INFINITY && b.low == -INFINITY) || (a.low == -INFINITY && b.high == INFINITY);
    return kept (a.low == -INFINITY || b.low == -INFINITY ? -INFINITY : a.low + b.low,
                 a.high == INFINITY || b.high == INFINITY ? INFINITY : a.high + b.high, most);
}

/* The hull of f at the corners.  */
static seen_t corners (seen_t a, seen_t b, double (*f) (double a, double b))
{
    const double all[4] = { f (a.low, b.low), f (a.low, b.high), f (a.high, b.low),
                            f (a.high, b.high) };
    seen_t out = { .low = INFINITY, .high = -INFINITY };
    for (size_t k = 0; k < 4; k++) {
        const double one = isnan (all[k]) ? 0 : all[k]; /* 0 times an infinity: 0, or NaN */
        out.low = fmin (out.low, one), out.high = fmax (out.high, one);
    }
    return out;
}

static double product (double a, double b)
{
    return a * b;
}

static double quotient (double a, double b)
{
    return a / b;
}

static seen_t multiplied (seen_t a, seen_t b, bool *is_made)
{
    const seen_t out = corners (a, b, product);
    *is_made |= (may_overflow (a) && has_zero (b)) || (may_overflow (b) && has_zero (a));
    if (may_overflow (a) || may_overflow (b) ||
        !(a.is_fixed || b.is_fixed || fmin (magnitude (a), magnitude (b)) <= MODEST))
        return between (out.low, out.high);
    return kept (out.low, out.high,
                 a.is_fixed   ? magnitude (b)
                 : b.is_fixed ? magnitude (a)
                              : fmax (magnitude (a), magnitude (b)));
}

static seen_t divided (seen_t a, seen_t b, bool *is_made)
{
    *is_made |= (may_overflow (a) && may_overflow (b)) || (has_zero (a) && has_zero (b));
    if (has_zero (b))
        return a.low >= 0 && b.low >= 0 ? between (0, INFINITY) : any;
    const seen_t out = corners (a, b, quotient);
    return may_overflow (a) ? between (out.low, out.high) : kept (out.low, out.high, magnitude (a));
}

static seen_t squared (seen_t a)
{
    const double least = has_zero (a) ? 0 : fmin (fabs (a.low), fabs (a.high));
    return between (least * least, magnitude (a) * magnitude (a));
}

/* ---- constants ------------------------------------------------------------------------------- */

static seen_t of_tensor (const wm_tensor_t *t)
{
    seen_t out = { .low = INFINITY, .high = -INFINITY, .is_whole = t->i != NULL };
    for (size_t k = 0; k < t->n; k++) {
        const double one = t->f ? (double) t->f[k] : (double) t->i[k];
        out.is_nan |= isnan (one);
        out.low = fmin (out.low, one), out.high = fmax (out.high, one); /* but for NaN */
    }
    if (!(out.low <= out.high))
        out.low = out.high = 0;
    out.is_made = out.is_nan;
    return out;
}

static seen_t of_constant (eye_t *self, const Onnx__TensorProto *proto)
{
    wm_tensor_t tensor;
    if (wm_tensor_read (&self->onnx->arena, proto, &tensor))
        return of_tensor (&tensor);
    seen_t out = ordinary;
    out.is_whole = proto->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT &&
                   proto->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 &&
                   proto->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 &&
                   proto->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE;
    return out;
}

/* ---- operators ------------------------------------------------------------------------------- */

static const seen_t *value_of (const eye_t *self, const char *name)
{
    const int64_t v = wm_onnx_find (self->onnx, name);
    return v < 0 ? NULL : &self->value[v];
}

/* Input k of the node; one that it has not: an ordinary constant.  */
static seen_t in (const eye_t *self, size_t k)
{
    const seen_t *value = k < self->node->n_input ? value_of (self, self->node->input[k]) : NULL;
    seen_t out = value ? *value : ordinary;
    out.is_fixed |= !value;
    return out;
}

static bool has_input (const eye_t *self, size_t k)
{
    return k < self->node->n_input && *self->node->input[k];
}

static double number (const eye_t *self, const char *name, double otherwise)
{
    const Onnx__AttributeProto *a = wm_onnx_attribute (self->node, name);
    return a && a->has_f ? (double) a->f : otherwise;
}

static bool is_op (const eye_t *self, const char *op)
{
    return !strcmp (wm_onnx_op (self->node), op);
}

/* Each returns what the node's first result may be; *is_made: it may make a NaN of numbers.  */
typedef seen_t see_t (eye_t *self, bool *is_made);

static seen_t see_same (eye_t *self, bool *is_made)
{
    (void) is_made;
    return in (self, 0);
}

static seen_t see_all (eye_t *self, bool *is_made)
{
    seen_t out = in (self, 0);
    (void) is_made;
    for (size_t k = 1; k < self->node->n_input; k++)
        out = joined (out, in (self, k));
    return out;
}

/* ScatterElements; Pad, without a value of 0.  */
static seen_t see_updated (eye_t *self, bool *is_made)
{
    const seen_t zero = { 0 };
    (void) is_made;
    return joined (in (self, 0), has_input (self, 2) ? in (self, 2) : zero);
}

static seen_t see_where (eye_t *self, bool *is_made)
{
    (void) is_made;
    return joined (in (self, 1), in (self, 2));
}

static seen_t see_one_hot (eye_t *self, bool *is_made)
{
    (void) is_made;
    return in (self, 2);
}

static seen_t see_zero_too (eye_t *self, bool *is_made)
{
    (void) is_made;
    return joined (in (self, 0), (seen_t){ 0 });
}

static seen_t see_constant (eye_t *self, bool *is_made)
{
    wm_tensor_t tensor;
    const Onnx__AttributeProto *a = wm_onnx_attribute (self->node, "value");
    seen_t out = a && a->t                   ? of_constant (self, a->t)
                 : !is_op (self, "Constant") ? (seen_t){ 0 }
                 : wm_tensor_fold (&self->onnx->arena, self->node, NULL, 0, &tensor)
                     ? of_tensor (&tensor)
                     : ordinary;
    *is_made |= out.is_nan;
    return out;
}

static seen_t see_finite (eye_t *self, bool *is_made)
{
    (void) self, (void) is_made;
    return ordinary;
}

static seen_t see_unit (eye_t *self, bool *is_made)
{
    (void) self, (void) is_made;
    return unit;
}

static seen_t see_cast (eye_t *self, bool *is_made)
{
    const int64_t to = wm_onnx_int (self->node, "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    seen_t out = in (self, 0);
    (void) is_made;
    out.is_whole = to != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT &&
                   to != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 &&
                   to != ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 &&
                   to != ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE;
    return out;
}

static seen_t see_add (eye_t *self, bool *is_made)
{
    seen_t out = in (self, 0);
    for (size_t k = 1; k < self->node->n_input; k++)
        out = added (out, in (self, k), is_made);
    return out;
}

static seen_t see_sub (eye_t *self, bool *is_made)
{
    return added (in (self, 0), negated (in (self, 1)), is_made);
}

static seen_t see_mul (eye_t *self, bool *is_made)
{
    const Onnx__NodeProto *node = self->node;
    if (node->n_input > 1 && !strcmp (node->input[0], node->input[1]))
        return squared (in (self, 0));
    return multiplied (in (self, 0), in (self, 1), is_made);
}

static seen_t see_div (eye_t *self, bool *is_made)
{
    return divided (in (self, 0), in (self, 1), is_made);
}

static seen_t see_reciprocal (eye_t *self, bool *is_made)
{
    return divided ((seen_t){ .low = 1, .high = 1 }, in (self, 0), is_made);
}

static seen_t see_mod (eye_t *self, bool *is_made)
{
    const seen_t by = in (self, 1);
    *is_made |= has_zero (by) || may_overflow (in (self, 0));
    return between (-magnitude (by), magnitude (by));
}

static seen_t see_pow (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0), to = in (self, 1);
    const bool is_one = to.is_fixed && to.low == to.high && to.low == nearbyint (to.low),
               is_even = is_one && fmod (to.low, 2) == 0;
    *is_made |= a.low < 0 && !is_one;
    if (a.low > 0) {
        const seen_t out = corners (a, to, pow);
        return between (out.low, out.high);
    }
    if (to.low < 0)
        return is_even || a.low >= 0 ? between (0, INFINITY) : any;
    const double most = fmax (pow (magnitude (a), to.high), pow (magnitude (a), to.low));
    return between (is_even || a.low >= 0 ? 0 : -most, most);
}

static seen_t see_max (eye_t *self, bool *is_made)
{
    seen_t out = in (self, 0);
    (void) is_made;
    for (size_t k = 1; k < self->node->n_input; k++) {
        const seen_t b = in (self, k);
        out = between (fmax (out.low, b.low), fmax (out.high, b.high));
    }
    return out;
}

static seen_t see_min (eye_t *self, bool *is_made)
{
    seen_t out = in (self, 0);
    (void) is_made;
    for (size_t k = 1; k < self->node->n_input; k++) {
        const seen_t b = in (self, k);
        out = between (fmin (out.low, b.low), fmin (out.high, b.high));
    }
    return out;
}

static seen_t see_clip (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0), low = in (self, 1), high = in (self, 2);
    double from = number (self, "min", -INFINITY), to = number (self, "max", INFINITY);
    (void) is_made;
    if (has_input (self, 1))
        from = low.low;
    if (has_input (self, 2))
        to = high.high;
    return between (fmin (fmax (a.low, from), to), fmin (fmax (a.high, from), to));
}

static seen_t see_relu (eye_t *self, bool *is_made)
{
    (void) is_made;
    return between (fmax (in (self, 0).low, 0), fmax (in (self, 0).high, 0));
}

/* LeakyRelu, PRelu: as far as its argument, with any sign.  */
static seen_t see_leaky (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0);
    *is_made |= may_overflow (a); /* 0 times an infinity */
    return between (a.low < 0 ? -magnitude (a) : 0, magnitude (a));
}

/* Elu, Celu and the like: the argument, or a little below 0.  */
static seen_t see_elu (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0);
    (void) is_made;
    return between (fmin (a.low, 0) < 0 ? -LARGE : 0, fmax (a.high, 0));
}

/* Swish, Gelu and the like: a product with what becomes 0.  */
static seen_t see_gated (eye_t *self, bool *is_made)
{
    *is_made |= in (self, 0).low == -INFINITY;
    return see_elu (self, is_made);
}

static seen_t see_abs (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0);
    (void) is_made;
    return between (has_zero (a) ? 0 : fmin (fabs (a.low), fabs (a.high)), magnitude (a));
}

static seen_t see_neg (eye_t *self, bool *is_made)
{
    (void) is_made;
    return negated (in (self, 0));
}

static seen_t see_floor (eye_t *self, bool *is_made)
{
    (void) is_made;
    return between (floor (in (self, 0).low), ceil (in (self, 0).high));
}

static seen_t see_sqrt (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0);
    *is_made |= a.low < 0;
    return between (sqrt (fmax (a.low, 0)), sqrt (fmax (a.high, 0)));
}

static seen_t see_log (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0);
    *is_made |= a.low < 0;
    return between (a.low > 0 ? log (a.low) : -INFINITY, a.high > 0 ? log (a.high) : -INFINITY);
}

static seen_t see_exp (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0);
    (void) is_made;
    return between (exp (a.low), a.high > EXP_OVER ? INFINITY : exp (a.high));
}

static seen_t see_sinh (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0);
    (void) is_made;
    return magnitude (a) > EXP_OVER ? between (is_op (self, "Cosh") ? 1 : -INFINITY, INFINITY)
                                    : between (is_op (self, "Cosh") ? 1 : -LARGE, LARGE);
}

static seen_t see_softplus (eye_t *self, bool *is_made)
{
    (void) is_made;
    return between (0, fmax (in (self, 0).high, 1) + 1);
}

static seen_t see_tanh (eye_t *self, bool *is_made)
{
    (void) self, (void) is_made;
    return between (-1, 1);
}

static seen_t see_sin (eye_t *self, bool *is_made)
{
    *is_made |= may_overflow (in (self, 0));
    return is_op (self, "Tan") ? ordinary : between (-1, 1);
}

static seen_t see_acos (eye_t *self, bool *is_made)
{
    *is_made |= magnitude (in (self, 0)) > 1;
    return is_op (self, "Atanh") ? any : between (-4, 4);
}

static seen_t see_acosh (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0);
    *is_made |= a.low < 1;
    return between (0, a.high);
}

static seen_t see_softmax (eye_t *self, bool *is_made)
{
    *is_made |= may_overflow (in (self, 0)); /* also where all are -inf */
    return unit;
}

static seen_t see_log_softmax (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0);
    *is_made |= may_overflow (a);
    return between (-2 * fmax (magnitude (a), LARGE), 0);
}

/* Sums with weights of any sign: convolutions, matrices.  */
static seen_t see_linear (eye_t *self, bool *is_made)
{
    double most = 0; /* of all inputs that patches decide */
    for (size_t k = 0; k < self->node->n_input; k++) {
        const seen_t a = in (self, k);
        *is_made |= may_overflow (a);
        if (!a.is_fixed || may_overflow (a))
            most = most > MODEST && magnitude (a) > MODEST ? most * magnitude (a)
                                                           : fmax (most, magnitude (a));
    }
    most = fmax (most, LARGE);
    return between (-most, most);
}

/* Weighted by what lies around: Resize, AveragePool.  */
static seen_t see_mean (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0);
    *is_made |= a.low == -INFINITY && a.high == INFINITY;
    return a;
}

static seen_t see_resize (eye_t *self, bool *is_made)
{
    const double most = 4 * magnitude (in (self, 0)),
                 outside = number (self, "extrapolation_value", 0);
    *is_made |= may_overflow (in (self, 0)) || isnan (outside);
    return between (-fmax (most, fabs (outside)), fmax (most, fabs (outside)));
}

static seen_t see_pool (eye_t *self, bool *is_made)
{
    return joined (see_mean (self, is_made), (seen_t){ 0 });
}

static seen_t see_sum (eye_t *self, bool *is_made)
{
    const seen_t a = see_mean (self, is_made);
    return between (a.low < 0 ? fmin (a.low, -LARGE) : a.low,
                    a.high > 0 ? fmax (a.high, LARGE) : a.high);
}

static seen_t see_sum_too (eye_t *self, bool *is_made)
{
    return joined (see_sum (self, is_made), (seen_t){ 0 });
}

static seen_t see_l1 (eye_t *self, bool *is_made)
{
    const seen_t a = see_abs (self, is_made);
    return between (a.low, fmax (a.high, LARGE));
}

static seen_t see_square_sum (eye_t *self, bool *is_made)
{
    const seen_t a = squared (in (self, 0));
    (void) is_made;
    return between (a.low, fmax (a.high, LARGE));
}

static seen_t see_l2 (eye_t *self, bool *is_made)
{
    const seen_t a = see_square_sum (self, is_made);
    return between (sqrt (a.low), sqrt (a.high));
}

static seen_t see_prod (eye_t *self, bool *is_made)
{
    const bool is_small = magnitude (in (self, 0)) <= 1;
    *is_made |= !is_small;
    return is_small ? between (-1, 1) : any;
}

static seen_t see_log_sum (eye_t *self, bool *is_made)
{
    const seen_t a = see_sum (self, is_made);
    *is_made |= a.low < 0;
    return between (a.low > 0 ? log (a.low) : -INFINITY, a.high > 0 ? log (a.high) : -INFINITY);
}

/* By exponentials of the values themselves.  */
static seen_t see_log_sum_exp (eye_t *self, bool *is_made)
{
    *is_made |= may_overflow (in (self, 0));
    return any;
}

/* Divided by the root of a variance, with something added.  */
static seen_t see_norm (eye_t *self, bool *is_made)
{
    *is_made |= number (self, "epsilon", 1e-5) <= 0 || may_overflow (in (self, 0)) ||
                may_overflow (in (self, 1)) || may_overflow (in (self, 2));
    return ordinary;
}

static seen_t see_batch_norm (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0), variance = in (self, 4);
    *is_made |= variance.low + number (self, "epsilon", 1e-5) <= 0;
    for (size_t k = 0; k < 4; k++)
        *is_made |= may_overflow (in (self, k));
    return between (-fmax (magnitude (a), LARGE), fmax (magnitude (a), LARGE));
}

static seen_t see_lrn (eye_t *self, bool *is_made)
{
    const seen_t a = in (self, 0);
    *is_made |=
        may_overflow (a) || number (self, "alpha", 1e-4) < 0 || number (self, "bias", 1) <= 0;
    return between (-fmax (magnitude (a), LARGE), fmax (magnitude (a), LARGE));
}

static seen_t see_lp_norm (eye_t *self, bool *is_made)
{
    (void) self;
    *is_made = true;
    return between (-1, 1);
}

/* Its own, which saturate.  */
static seen_t see_rnn (eye_t *self, bool *is_made)
{
    for (size_t k = 0; k < self->node->n_input; k++)
        *is_made |= may_overflow (in (self, k));
    return ordinary;
}

static seen_t see_unknown (eye_t *self, bool *is_made)
{
    (void) self;
    *is_made = true;
    return any;
}

/* What an operator does with a NaN that it reads.  */
typedef enum {
    LOSES,     /* may make a number of it */
    KEEPS,     /* makes it NaN in each result that it decides */
    DROPS,     /* only where the model chose other values; or asks whether it is NaN */
    LOSES_INT, /* LOSES; its result is integers, or truth values */
    DROPS_INT
} way_t;

static const struct {
    const char *op;
    see_t *see;
    way_t way;
} table[] = {
    { "Abs", see_abs, KEEPS },
    { "Acos", see_acos, KEEPS },
    { "Acosh", see_acosh, KEEPS },
    { "Add", see_add, KEEPS },
    { "And", see_unit, LOSES_INT },
    { "ArgMax", see_finite, LOSES_INT },
    { "ArgMin", see_finite, LOSES_INT },
    { "Asin", see_acos, KEEPS },
    { "Asinh", see_same, KEEPS },
    { "Atan", see_tanh, KEEPS },
    { "Atanh", see_acos, KEEPS },
    { "AveragePool", see_pool, KEEPS },
    { "BatchNormalization", see_batch_norm, KEEPS },
    { "BitShift", see_finite, LOSES_INT },
    { "BitwiseAnd", see_finite, LOSES_INT },
    { "BitwiseNot", see_finite, LOSES_INT },
    { "BitwiseOr", see_finite, LOSES_INT },
    { "BitwiseXor", see_finite, LOSES_INT },
    { "Cast", see_cast, KEEPS },
    { "CastLike", see_same, LOSES },
    { "Ceil", see_floor, KEEPS },
    { "Celu", see_elu, LOSES },
    { "CenterCropPad", see_zero_too, DROPS },
    { "Clip", see_clip, LOSES },
    { "Compress", see_same, DROPS },
    { "Concat", see_all, KEEPS },
    { "Constant", see_constant, KEEPS },
    { "ConstantOfShape", see_constant, KEEPS },
    { "Conv", see_linear, KEEPS },
    { "ConvInteger", see_finite, LOSES_INT },
    { "ConvTranspose", see_linear, KEEPS },
    { "Cos", see_sin, KEEPS },
    { "Cosh", see_sinh, KEEPS },
    { "CumSum", see_sum_too, KEEPS },
    { "DepthToSpace", see_same, KEEPS },
    { "DequantizeLinear", see_finite, LOSES },
    { "Div", see_div, KEEPS },
    { "Dropout", see_same, KEEPS },
    { "DynamicQuantizeLinear", see_finite, LOSES_INT },
    { "Einsum", see_linear, KEEPS },
    { "Elu", see_elu, KEEPS },
    { "Equal", see_unit, LOSES_INT },
    { "Erf", see_tanh, KEEPS },
    { "Exp", see_exp, LOSES },
    { "Expand", see_same, KEEPS },
    { "EyeLike", see_unit, DROPS },
    { "Flatten", see_same, KEEPS },
    { "Floor", see_floor, KEEPS },
    { "GRU", see_rnn, LOSES },
    { "Gather", see_same, DROPS },
    { "GatherElements", see_same, DROPS },
    { "GatherND", see_same, DROPS },
    { "Gelu", see_gated, KEEPS },
    { "Gemm", see_linear, KEEPS },
    { "GlobalAveragePool", see_mean, KEEPS },
    { "GlobalLpPool", see_l2, KEEPS },
    { "GlobalMaxPool", see_same, LOSES },
    { "Greater", see_unit, LOSES_INT },
    { "GreaterOrEqual", see_unit, LOSES_INT },
    { "GridSample", see_resize, LOSES },
    { "GroupNormalization", see_norm, KEEPS },
    { "HardSigmoid", see_unit, LOSES },
    { "HardSwish", see_gated, KEEPS },
    { "Hardmax", see_unit, LOSES },
    { "Identity", see_same, KEEPS },
    { "InstanceNormalization", see_norm, KEEPS },
    { "IsInf", see_unit, DROPS_INT },
    { "IsNaN", see_unit, DROPS_INT },
    { "LRN", see_lrn, KEEPS },
    { "LSTM", see_rnn, LOSES },
    { "LayerNormalization", see_norm, KEEPS },
    { "LeakyRelu", see_leaky, KEEPS },
    { "Less", see_unit, LOSES_INT },
    { "LessOrEqual", see_unit, LOSES_INT },
    { "Log", see_log, KEEPS },
    { "LogSoftmax", see_log_softmax, KEEPS },
    { "LpNormalization", see_lp_norm, KEEPS },
    { "LpPool", see_l2, KEEPS },
    { "MatMul", see_linear, KEEPS },
    { "MatMulInteger", see_finite, LOSES_INT },
    { "Max", see_max, LOSES },
    { "MaxPool", see_same, LOSES },
    { "Mean", see_add, KEEPS },
    { "MeanVarianceNormalization", see_norm, KEEPS },
    { "Min", see_min, LOSES },
    { "Mish", see_gated, KEEPS },
    { "Mod", see_mod, KEEPS },
    { "Mul", see_mul, KEEPS },
    { "Neg", see_neg, KEEPS },
    { "NonMaxSuppression", see_finite, LOSES_INT },
    { "NonZero", see_finite, LOSES_INT },
    { "Not", see_unit, LOSES_INT },
    { "OneHot", see_one_hot, DROPS },
    { "Or", see_unit, LOSES_INT },
    { "PRelu", see_leaky, KEEPS },
    { "Pad", see_updated, DROPS },
    { "Pow", see_pow, KEEPS },
    { "QLinearConv", see_finite, LOSES_INT },
    { "QLinearMatMul", see_finite, LOSES_INT },
    { "QuantizeLinear", see_finite, LOSES_INT },
    { "RMSNormalization", see_norm, KEEPS },
    { "RNN", see_rnn, LOSES },
    { "Range", see_all, KEEPS },
    { "Reciprocal", see_reciprocal, KEEPS },
    { "ReduceL1", see_l1, KEEPS },
    { "ReduceL2", see_l2, KEEPS },
    { "ReduceLogSum", see_log_sum, KEEPS },
    { "ReduceLogSumExp", see_log_sum_exp, LOSES },
    { "ReduceMax", see_same, LOSES },
    { "ReduceMean", see_mean, KEEPS },
    { "ReduceMin", see_same, LOSES },
    { "ReduceProd", see_prod, KEEPS },
    { "ReduceSum", see_sum, KEEPS },
    { "ReduceSumSquare", see_square_sum, KEEPS },
    { "Relu", see_relu, LOSES },
    { "Reshape", see_same, KEEPS },
    { "Resize", see_resize, KEEPS },
    { "ReverseSequence", see_same, KEEPS },
    { "RoiAlign", see_zero_too, LOSES },
    { "Round", see_floor, KEEPS },
    { "Scatter", see_updated, DROPS },
    { "ScatterElements", see_updated, DROPS },
    { "ScatterND", see_updated, DROPS },
    { "Selu", see_elu, KEEPS },
    { "SequenceAt", see_all, DROPS },
    { "SequenceConstruct", see_all, DROPS },
    { "SequenceInsert", see_all, DROPS },
    { "Shape", see_finite, DROPS_INT },
    { "Shrink", see_zero_too, LOSES },
    { "Sigmoid", see_unit, KEEPS },
    { "Sign", see_tanh, LOSES },
    { "Sin", see_sin, KEEPS },
    { "Sinh", see_sinh, KEEPS },
    { "Size", see_finite, DROPS_INT },
    { "Slice", see_same, DROPS },
    { "Softmax", see_softmax, KEEPS },
    { "Softplus", see_softplus, KEEPS },
    { "Softsign", see_tanh, KEEPS },
    { "SpaceToDepth", see_same, KEEPS },
    { "Split", see_same, DROPS },
    { "SplitToSequence", see_same, DROPS },
    { "Sqrt", see_sqrt, KEEPS },
    { "Squeeze", see_same, KEEPS },
    { "Sub", see_sub, KEEPS },
    { "Sum", see_add, KEEPS },
    { "Swish", see_gated, KEEPS },
    { "Tan", see_sin, KEEPS },
    { "Tanh", see_tanh, KEEPS },
    { "ThresholdedRelu", see_zero_too, LOSES },
    { "Tile", see_same, KEEPS },
    { "TopK", see_same, LOSES },
    { "Transpose", see_same, KEEPS },
    { "Trilu", see_zero_too, DROPS },
    { "Unsqueeze", see_same, KEEPS },
    { "Upsample", see_resize, KEEPS },
    { "Where", see_where, DROPS },
    { "Xor", see_unit, LOSES_INT },
};
#define ROWS (sizeof table / sizeof *table)

static int by_op (const void *op, const void *row)
{
    return strcmp (op, *(const char *const *) row);
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* The row of a node; ROWS: its operator is not known.  */
static size_t row_of (const Onnx__NodeProto *node)
{
    const char *domain = node->domain ? node->domain : "";
    const void *row = !*domain || !strcmp (domain, "ai.onnx")
                          ? bsearch (wm_onnx_op (node), table, ROWS, sizeof *table, by_op)
                          : NULL;
    return row ? (size_t) ((const char *) row - (const char *) table) / sizeof *table : ROWS;
}

static bool has_graph (const Onnx__NodeProto *node)
{
    for (size_t k = 0; k < node->n_attribute; k++)
        if (node->attribute[k]->g || node->attribute[k]->n_graphs)
            return true;
    return false;
}

static bool loses (const eye_t *self, size_t row, const seen_t *out)
{
    if (is_op (self, "Cast"))
        return out->is_whole;
    if (is_op (self, "Equal") && self->node->n_input > 1 &&
        !strcmp (self->node->input[0], self->node->input[1]))
        return false; /* whether it is NaN */
    return row == ROWS || table[row].way == LOSES || table[row].way == LOSES_INT;
}

static bool is_whole (const eye_t *self, size_t row, const seen_t *out)
{
    if (row == ROWS || is_op (self, "DequantizeLinear"))
        return false;
    if (table[row].see == see_cast || table[row].see == see_constant)
        return out->is_whole;
    return table[row].way == LOSES_INT || table[row].way == DROPS_INT ||
           in (self, table[row].see == see_where     ? 1
                     : table[row].see == see_one_hot ? 2
                     : is_op (self, "CastLike")      ? 1
                                                     : 0)
               .is_whole;
}

/* Whether result o > 0 of a node is integers or truth values: places, a mask.  */
static bool is_list (const eye_t *self, size_t o)
{
    static const char *const lists[] = { "Dropout", "MaxPool", "TopK", "Unique" };
    for (size_t k = 0; k < sizeof lists / sizeof *lists && o; k++)
        if (is_op (self, lists[k]))
            return true;
    return false;
}

/* Finds what the node's results may be.  */
static seen_t visited (eye_t *self, size_t i, size_t row)
{
    bool is_made = false;
    seen_t out = row < ROWS ? table[row].see (self, &is_made) : see_unknown (self, &is_made);
    const bool whole = is_whole (self, row, &out), lost = loses (self, row, &out);
    out = (seen_t){ .low = out.low, .high = out.high, .is_whole = whole, .place = i };
    out.is_fixed = !has_graph (self->node);
    out.origin = SIZE_MAX;
    for (size_t k = 0; k < self->node->n_input; k++) {
        const seen_t a = in (self, k);
        out.is_fixed &= a.is_fixed;
        if (!a.is_nan || lost)
            continue;
        is_made |= out.is_nan && out.origin != a.origin; /* of several: looked at where they meet */
        out.is_nan = true;
        out.origin = a.origin;
    }
    out.is_nan = (out.is_nan || is_made) && !whole;
    if (is_made || row == ROWS || table[row].way != KEEPS)
        out.origin = SIZE_MAX; /* its own */
    return out;
}

/* Watches what a node would lose. Returns where to go on: at what is now watched, or at `next`.  */
static size_t watch (eye_t *self, const char *name, size_t k, size_t next)
{
    const int64_t v = wm_onnx_find (self->onnx, name);
    if (v < 0 || !self->value[v].is_nan)
        return next;
    seen_t *origin = &self->value[self->value[v].origin];
    if (!origin->is_seen)
        self->watch[self->n_watch++] =
            (wm_nan_t){ .value = (char *) (uintptr_t) self->onnx->value[self->value[v].origin].name,
                        .node = self->node,
                        .input = k };
    origin->is_seen = true;
    origin->is_nan = false;
    return origin->place < next ? origin->place : next;
}

/* The same for all that graphs inside the node read of this one.  */
static size_t watch_inside (eye_t *self, const Onnx__NodeProto *node, size_t next)
{
    for (size_t k = 0; k < node->n_attribute; k++) {
        const Onnx__AttributeProto *a = node->attribute[k];
        for (size_t g = 0; g < a->n_graphs + (a->g != NULL); g++) {
            const Onnx__GraphProto *graph = g < a->n_graphs ? a->graphs[g] : a->g;
            for (size_t i = 0; i < graph->n_node; i++) {
                for (size_t j = 0; j < graph->node[i]->n_input; j++)
                    next = watch (self, graph->node[i]->input[j], 0, next);
                next = watch_inside (self, graph->node[i], next);
            }
            for (size_t o = 0; o < graph->n_output; o++)
                next = watch (self, graph->output[o]->name, 0, next);
        }
    }
    return next;
}

/* Visits node i. Returns which is next.  */
static size_t visit (eye_t *self, size_t i)
{
    self->node = self->onnx->node[i];
    const size_t row = row_of (self->node);
    const seen_t out = visited (self, i, row);
    size_t next = i + 1;
    if (loses (self, row, &out))
        for (size_t k = 0; k < self->node->n_input; k++)
            next = watch (self, self->node->input[k], k, next);
    next = watch_inside (self, self->node, next);
    for (size_t o = 0; o < self->node->n_output && next > i; o++) {
        const int64_t v = wm_onnx_find (self->onnx, self->node->output[o]);
        if (v < 0)
            continue;
        seen_t *value = &self->value[v];
        const bool is_seen = value->is_seen;
        *value = is_list (self, o) ? ordinary : out;
        value->is_whole |= is_list (self, o);
        value->place = i;
        value->is_seen = is_seen;
        value->is_nan &= !is_seen;
        if (value->origin == SIZE_MAX || is_list (self, o))
            value->origin = (size_t) v;
    }
    return next;
}

static bool is_float (const Onnx__ValueInfoProto *info)
{
    const bool is_tensor =
        info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    const int type =
        is_tensor ? info->type->tensor_type->elem_type : ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    return type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
           type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
           type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 ||
           type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE;
}

wm_fault_t wm_nan_find (wm_onnx_t *onnx, const wm_nan_t **list, size_t *n, wm_error_t *error)
{
    eye_t self = { .onnx = onnx };
    self.value = wm_arena_take (&onnx->arena, onnx->n_value + 1, sizeof *self.value);
    self.watch = wm_arena_take (&onnx->arena, onnx->n_value + 1, sizeof *self.watch);
    if (!self.value || !self.watch)
        return wm_fault (error, WM_EHOST, "%s: no memory to follow its values", onnx->path);
    for (size_t v = 0; v < onnx->n_value; v++) {
        self.value[v] = ordinary;
        if (onnx->value[v].initializer) {
            self.value[v] = of_constant (&self, onnx->value[v].initializer);
            self.value[v].is_fixed = true;
        }
        self.value[v].origin = v;
    }
    for (size_t k = 0; k < onnx->graph->n_input; k++) {
        const int64_t v = wm_onnx_find (onnx, onnx->graph->input[k]->name);
        if (v >= 0 && !onnx->value[v].initializer)
            self.value[v].is_whole = !is_float (onnx->graph->input[k]);
    }
    for (size_t i = 0; i < onnx->n_node && !onnx->tensorflow;)
        i = visit (&self, i);
    *list = self.watch;
    *n = self.n_watch;
    return WM_OK;
}
