/* wm_nan_rule.c - what each operator makes of bounds, and of a NaN.

   Which operators keep a NaN was measured in OpenVINO 2026.4 and ONNX Runtime 1.31, with AMX, AVX2
   and SSE (tests/golden/nan.t). Those that are not in the table may make one and lose one.  */
#include "kernels/onnx/wm_nan_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LARGE WM_NAN_LARGE
#define MODEST 0x1p24  /* a factor that counts as a weight: a gate, 1 / sqrt (variance + 1e-12) */
#define OVER 0x1p127   /* may be infinite in float32 */
#define UNDER 0x1p-126 /* may be 0 in float32 */
#define EXP_OVER 88.0  /* Exp of more may be infinite */

typedef wm_nan_eye_t eye_t;
typedef wm_nan_seen_t seen_t;

static wm_nan_seen_t bounds_of (const wm_tensor_t *t)
{
    wm_nan_seen_t out = { .low = INFINITY, .high = -INFINITY, .is_whole = t->i != NULL };
    for (size_t k = 0; k < t->n; k++) {
        const double one = t->f ? (double) t->f[k] : (double) t->i[k];
        out.is_nan |= isnan (one) != 0;
        out.low = one < out.low ? one : out.low; /* but for NaN */
        out.high = one > out.high ? one : out.high;
    }
    if (!(out.low <= out.high))
        out.low = out.high = 0;
    return out;
}

wm_nan_seen_t wm_nan_constant (wm_nan_eye_t *self, const Onnx__TensorProto *proto)
{
    wm_tensor_t tensor;
    if (wm_tensor_read (&self->onnx->arena, proto, &tensor))
        return bounds_of (&tensor);
    wm_nan_seen_t out = { .low = -WM_NAN_LARGE, .high = WM_NAN_LARGE };
    out.is_whole = !wm_type_is_real (proto->data_type);
    return out;
}

static const seen_t ordinary = { .low = -LARGE, .high = LARGE },
                    any = { .low = -INFINITY, .high = INFINITY };

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

/* ---- operators ------------------------------------------------------------------------------- */

static const seen_t *value_of (const eye_t *self, const char *name)
{
    const int64_t v = wm_onnx_find (self->onnx, name);
    return v < 0 ? NULL : &self->value[v];
}

seen_t wm_nan_limited (seen_t value)
{
    value.low = isinf (value.low) ? copysign (LARGE, value.low) : value.low;
    value.high = isinf (value.high) ? copysign (LARGE, value.high) : value.high;
    return value;
}

seen_t wm_nan_input (const eye_t *self, size_t k)
{
    const seen_t *value = k < self->node->n_input ? value_of (self, self->node->input[k]) : NULL;
    seen_t out = value ? *value : ordinary;
    out.is_fixed |= !value;
    return self->is_limited ? wm_nan_limited (out) : out;
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

/* Each returns what the node's first result may be, and sets is_made where that may be NaN of
   numbers.  */
typedef seen_t see_t (eye_t *self);

static seen_t see_same (eye_t *self)
{
    return wm_nan_input (self, 0);
}

static seen_t see_all (eye_t *self)
{
    seen_t out = wm_nan_input (self, 0);
    for (size_t k = 1; k < self->node->n_input; k++)
        out = joined (out, wm_nan_input (self, k));
    return out;
}

/* ScatterElements; Pad, without a value of 0.  */
static seen_t see_updated (eye_t *self)
{
    const seen_t zero = { 0 };
    return joined (wm_nan_input (self, 0), has_input (self, 2) ? wm_nan_input (self, 2) : zero);
}

static seen_t see_where (eye_t *self)
{
    return joined (wm_nan_input (self, 1), wm_nan_input (self, 2));
}

static seen_t see_one_hot (eye_t *self)
{
    return wm_nan_input (self, 2);
}

static seen_t see_zero_too (eye_t *self)
{
    return joined (wm_nan_input (self, 0), (seen_t){ 0 });
}

static seen_t see_constant (eye_t *self)
{
    wm_tensor_t tensor;
    const Onnx__AttributeProto *a = wm_onnx_attribute (self->node, "value");
    seen_t out = a && a->t                   ? wm_nan_constant (self, a->t)
                 : !is_op (self, "Constant") ? (seen_t){ 0 }
                 : wm_tensor_fold (&self->onnx->arena, self->node, NULL, 0, &tensor)
                     ? bounds_of (&tensor)
                     : ordinary;
    self->is_made |= out.is_nan;
    return out;
}

static seen_t see_finite (eye_t *self)
{
    (void) self;
    return ordinary;
}

static seen_t see_unit (eye_t *self)
{
    (void) self;
    return (seen_t){ .low = 0, .high = 1 };
}

static seen_t see_cast (eye_t *self)
{
    const int64_t to = wm_onnx_int (self->node, "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    seen_t out = wm_nan_input (self, 0);
    out.is_whole = !wm_type_is_real ((int) to);
    return out;
}

static seen_t see_add (eye_t *self)
{
    seen_t out = wm_nan_input (self, 0);
    for (size_t k = 1; k < self->node->n_input; k++)
        out = added (out, wm_nan_input (self, k), &self->is_made);
    return out;
}

static seen_t see_sub (eye_t *self)
{
    return added (wm_nan_input (self, 0), negated (wm_nan_input (self, 1)), &self->is_made);
}

static seen_t see_mul (eye_t *self)
{
    const Onnx__NodeProto *node = self->node;
    if (node->n_input > 1 && !strcmp (node->input[0], node->input[1]))
        return squared (wm_nan_input (self, 0));
    return multiplied (wm_nan_input (self, 0), wm_nan_input (self, 1), &self->is_made);
}

static seen_t see_div (eye_t *self)
{
    return divided (wm_nan_input (self, 0), wm_nan_input (self, 1), &self->is_made);
}

static seen_t see_reciprocal (eye_t *self)
{
    return divided ((seen_t){ .low = 1, .high = 1 }, wm_nan_input (self, 0), &self->is_made);
}

static seen_t see_mod (eye_t *self)
{
    const seen_t by = wm_nan_input (self, 1);
    self->is_made |= has_zero (by) || may_overflow (wm_nan_input (self, 0));
    return between (-magnitude (by), magnitude (by));
}

static seen_t see_pow (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0), to = wm_nan_input (self, 1);
    const bool is_one = to.is_fixed && to.low == to.high && to.low == nearbyint (to.low),
               is_even = is_one && fmod (to.low, 2) == 0;
    self->is_made |= a.low < 0 && !is_one;
    if (a.low > 0) {
        const seen_t out = corners (a, to, pow);
        return between (out.low, out.high);
    }
    if (to.low < 0)
        return is_even || a.low >= 0 ? between (0, INFINITY) : any;
    const double most = fmax (pow (magnitude (a), to.high), pow (magnitude (a), to.low));
    return between (is_even || a.low >= 0 ? 0 : -most, most);
}

static seen_t see_max (eye_t *self)
{
    seen_t out = wm_nan_input (self, 0);
    for (size_t k = 1; k < self->node->n_input; k++) {
        const seen_t b = wm_nan_input (self, k);
        out = between (fmax (out.low, b.low), fmax (out.high, b.high));
    }
    return out;
}

static seen_t see_min (eye_t *self)
{
    seen_t out = wm_nan_input (self, 0);
    for (size_t k = 1; k < self->node->n_input; k++) {
        const seen_t b = wm_nan_input (self, k);
        out = between (fmin (out.low, b.low), fmin (out.high, b.high));
    }
    return out;
}

static seen_t see_clip (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0), low = wm_nan_input (self, 1),
                 high = wm_nan_input (self, 2);
    double from = number (self, "min", -INFINITY), to = number (self, "max", INFINITY);
    if (has_input (self, 1))
        from = low.low;
    if (has_input (self, 2))
        to = high.high;
    return between (fmin (fmax (a.low, from), to), fmin (fmax (a.high, from), to));
}

static seen_t see_relu (eye_t *self)
{
    return between (fmax (wm_nan_input (self, 0).low, 0), fmax (wm_nan_input (self, 0).high, 0));
}

/* LeakyRelu, PRelu: as far as its argument, with any sign.  */
static seen_t see_leaky (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0);
    self->is_made |= may_overflow (a); /* 0 times an infinity */
    return between (a.low < 0 ? -magnitude (a) : 0, magnitude (a));
}

/* Elu, Celu and the like: the argument, or a little below 0.  */
static seen_t see_elu (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0);
    return between (fmin (a.low, 0) < 0 ? -LARGE : 0, fmax (a.high, 0));
}

/* Swish, Gelu and the like: a product with what becomes 0.  */
static seen_t see_gated (eye_t *self)
{
    self->is_made |= wm_nan_input (self, 0).low == -INFINITY;
    return see_elu (self);
}

static seen_t see_abs (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0);
    return between (has_zero (a) ? 0 : fmin (fabs (a.low), fabs (a.high)), magnitude (a));
}

static seen_t see_neg (eye_t *self)
{
    return negated (wm_nan_input (self, 0));
}

static seen_t see_floor (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0);
    return between (floor (a.low), ceil (a.high));
}

static seen_t see_sqrt (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0);
    self->is_made |= a.low < 0;
    return between (sqrt (fmax (a.low, 0)), sqrt (fmax (a.high, 0)));
}

static seen_t logarithm (seen_t a, bool *is_made)
{
    *is_made |= a.low < 0;
    return between (a.low > 0 ? log (a.low) : -INFINITY, a.high > 0 ? log (a.high) : -INFINITY);
}

static seen_t see_log (eye_t *self)
{
    return logarithm (wm_nan_input (self, 0), &self->is_made);
}

static seen_t see_exp (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0);
    return between (exp (a.low), a.high > EXP_OVER ? INFINITY : exp (a.high));
}

static seen_t see_sinh (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0);
    return magnitude (a) > EXP_OVER ? between (is_op (self, "Cosh") ? 1 : -INFINITY, INFINITY)
                                    : between (is_op (self, "Cosh") ? 1 : -LARGE, LARGE);
}

static seen_t see_softplus (eye_t *self)
{
    return between (0, fmax (wm_nan_input (self, 0).high, 1) + 1);
}

static seen_t see_tanh (eye_t *self)
{
    (void) self;
    return between (-1, 1);
}

static seen_t see_sin (eye_t *self)
{
    self->is_made |= may_overflow (wm_nan_input (self, 0));
    return is_op (self, "Tan") ? ordinary : between (-1, 1);
}

static seen_t see_acos (eye_t *self)
{
    self->is_made |= magnitude (wm_nan_input (self, 0)) > 1;
    return is_op (self, "Atanh") ? any : between (-4, 4);
}

static seen_t see_acosh (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0);
    self->is_made |= a.low < 1;
    return between (0, a.high);
}

static seen_t see_softmax (eye_t *self)
{
    self->is_made |= may_overflow (wm_nan_input (self, 0)); /* also where all are -inf */
    return see_unit (self);
}

static seen_t see_log_softmax (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0);
    self->is_made |= may_overflow (a);
    return between (-2 * fmax (magnitude (a), LARGE), 0);
}

/* Sums with weights of any sign: convolutions, matrices.  */
static seen_t see_linear (eye_t *self)
{
    double most = 0; /* of all inputs that patches decide */
    for (size_t k = 0; k < self->node->n_input; k++) {
        const seen_t a = wm_nan_input (self, k);
        self->is_made |= may_overflow (a);
        if (!a.is_fixed || may_overflow (a))
            most = most > MODEST && magnitude (a) > MODEST ? most * magnitude (a)
                                                           : fmax (most, magnitude (a));
    }
    most = fmax (most, LARGE);
    return between (-most, most);
}

/* Weighted by what lies around: Resize, AveragePool.  */
static seen_t see_mean (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0);
    self->is_made |= a.low == -INFINITY && a.high == INFINITY;
    return a;
}

static seen_t see_resize (eye_t *self)
{
    const double most = magnitude (wm_nan_input (self, 0)),
                 outside = number (self, "extrapolation_value", 0);
    self->is_made |= may_overflow (wm_nan_input (self, 0)) || isnan (outside);
    return between (-fmax (most, fabs (outside)), fmax (most, fabs (outside)));
}

static seen_t see_pool (eye_t *self)
{
    return joined (see_mean (self), (seen_t){ 0 });
}

static seen_t see_sum (eye_t *self)
{
    const seen_t a = see_mean (self);
    return between (a.low < 0 ? fmin (a.low, -LARGE) : a.low,
                    a.high > 0 ? fmax (a.high, LARGE) : a.high);
}

static seen_t see_sum_too (eye_t *self)
{
    return joined (see_sum (self), (seen_t){ 0 });
}

static seen_t see_l1 (eye_t *self)
{
    const seen_t a = see_abs (self);
    return between (a.low, fmax (a.high, LARGE));
}

static seen_t see_square_sum (eye_t *self)
{
    const seen_t a = squared (wm_nan_input (self, 0));
    return between (a.low, fmax (a.high, LARGE));
}

static seen_t see_l2 (eye_t *self)
{
    const seen_t a = see_square_sum (self);
    return between (sqrt (a.low), sqrt (a.high));
}

static seen_t see_prod (eye_t *self)
{
    const bool is_small = magnitude (wm_nan_input (self, 0)) <= 1;
    self->is_made |= !is_small;
    return is_small ? between (-1, 1) : any;
}

static seen_t see_log_sum (eye_t *self)
{
    return logarithm (see_sum (self), &self->is_made);
}

/* By exponentials of the values themselves.  */
static seen_t see_log_sum_exp (eye_t *self)
{
    self->is_made |= may_overflow (wm_nan_input (self, 0));
    return any;
}

/* Divided by the root of a variance, with something added.  */
static seen_t see_norm (eye_t *self)
{
    self->is_made |= number (self, "epsilon", 1e-5) <= 0 || may_overflow (wm_nan_input (self, 0)) ||
                     may_overflow (wm_nan_input (self, 1)) || may_overflow (wm_nan_input (self, 2));
    return ordinary;
}

static seen_t see_batch_norm (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0), variance = wm_nan_input (self, 4);
    self->is_made |= variance.low + number (self, "epsilon", 1e-5) <= 0;
    for (size_t k = 0; k < 4; k++)
        self->is_made |= may_overflow (wm_nan_input (self, k));
    return between (-fmax (magnitude (a), LARGE), fmax (magnitude (a), LARGE));
}

static seen_t see_lrn (eye_t *self)
{
    const seen_t a = wm_nan_input (self, 0);
    self->is_made |=
        may_overflow (a) || number (self, "alpha", 1e-4) < 0 || number (self, "bias", 1) <= 0;
    return between (-fmax (magnitude (a), LARGE), fmax (magnitude (a), LARGE));
}

static seen_t see_lp_norm (eye_t *self)
{
    (void) self;
    self->is_made = true;
    return between (-1, 1);
}

/* Its own, which saturate.  */
static seen_t see_rnn (eye_t *self)
{
    for (size_t k = 0; k < self->node->n_input; k++)
        self->is_made |= may_overflow (wm_nan_input (self, k));
    return ordinary;
}

static const struct {
    const char *op;
    see_t *see;
    wm_nan_way_t way;
    bool is_whole; /* its results are integers, or truth values */
} table[] = {
    { "Abs", see_abs, WM_NAN_KEEPS, false },
    { "Acos", see_acos, WM_NAN_KEEPS, false },
    { "Acosh", see_acosh, WM_NAN_KEEPS, false },
    { "Add", see_add, WM_NAN_KEEPS, false },
    { "And", see_unit, WM_NAN_LOSES, true },
    { "ArgMax", see_finite, WM_NAN_LOSES, true },
    { "ArgMin", see_finite, WM_NAN_LOSES, true },
    { "Asin", see_acos, WM_NAN_KEEPS, false },
    { "Asinh", see_same, WM_NAN_KEEPS, false },
    { "Atan", see_tanh, WM_NAN_KEEPS, false },
    { "Atanh", see_acos, WM_NAN_KEEPS, false },
    { "AveragePool", see_pool, WM_NAN_KEEPS, false },
    { "BatchNormalization", see_batch_norm, WM_NAN_KEEPS, false },
    { "BitShift", see_finite, WM_NAN_LOSES, true },
    { "BitwiseAnd", see_finite, WM_NAN_LOSES, true },
    { "BitwiseNot", see_finite, WM_NAN_LOSES, true },
    { "BitwiseOr", see_finite, WM_NAN_LOSES, true },
    { "BitwiseXor", see_finite, WM_NAN_LOSES, true },
    { "Cast", see_cast, WM_NAN_KEEPS, false },
    { "CastLike", see_same, WM_NAN_LOSES, false },
    { "Ceil", see_floor, WM_NAN_KEEPS, false },
    { "Celu", see_elu, WM_NAN_LOSES, false },
    { "CenterCropPad", see_zero_too, WM_NAN_DROPS, false },
    { "Clip", see_clip, WM_NAN_LOSES, false },
    { "Compress", see_same, WM_NAN_DROPS, false },
    { "Concat", see_all, WM_NAN_KEEPS, false },
    { "Constant", see_constant, WM_NAN_KEEPS, false },
    { "ConstantOfShape", see_constant, WM_NAN_KEEPS, false },
    { "Conv", see_linear, WM_NAN_KEEPS, false },
    { "ConvInteger", see_finite, WM_NAN_LOSES, true },
    { "ConvTranspose", see_linear, WM_NAN_KEEPS, false },
    { "Cos", see_sin, WM_NAN_KEEPS, false },
    { "Cosh", see_sinh, WM_NAN_KEEPS, false },
    { "CumSum", see_sum_too, WM_NAN_KEEPS, false },
    { "DepthToSpace", see_same, WM_NAN_KEEPS, false },
    { "DequantizeLinear", see_finite, WM_NAN_LOSES, false },
    { "Div", see_div, WM_NAN_KEEPS, false },
    { "Dropout", see_same, WM_NAN_KEEPS, false },
    { "DynamicQuantizeLinear", see_finite, WM_NAN_LOSES, true },
    { "Einsum", see_linear, WM_NAN_KEEPS, false },
    { "Elu", see_elu, WM_NAN_KEEPS, false },
    { "Equal", see_unit, WM_NAN_LOSES, true },
    { "Erf", see_tanh, WM_NAN_KEEPS, false },
    { "Exp", see_exp, WM_NAN_LOSES, false },
    { "Expand", see_same, WM_NAN_KEEPS, false },
    { "EyeLike", see_unit, WM_NAN_DROPS, false },
    { "Flatten", see_same, WM_NAN_KEEPS, false },
    { "Floor", see_floor, WM_NAN_KEEPS, false },
    { "GRU", see_rnn, WM_NAN_LOSES, false },
    { "Gather", see_same, WM_NAN_DROPS, false },
    { "GatherElements", see_same, WM_NAN_DROPS, false },
    { "GatherND", see_same, WM_NAN_DROPS, false },
    { "Gelu", see_gated, WM_NAN_KEEPS, false },
    { "Gemm", see_linear, WM_NAN_KEEPS, false },
    { "GlobalAveragePool", see_mean, WM_NAN_KEEPS, false },
    { "GlobalLpPool", see_l2, WM_NAN_KEEPS, false },
    { "GlobalMaxPool", see_same, WM_NAN_LOSES, false },
    { "Greater", see_unit, WM_NAN_LOSES, true },
    { "GreaterOrEqual", see_unit, WM_NAN_LOSES, true },
    { "GridSample", see_resize, WM_NAN_LOSES, false },
    { "GroupNormalization", see_norm, WM_NAN_KEEPS, false },
    { "HardSigmoid", see_unit, WM_NAN_LOSES, false },
    { "HardSwish", see_gated, WM_NAN_KEEPS, false },
    { "Hardmax", see_unit, WM_NAN_LOSES, false },
    { "Identity", see_same, WM_NAN_KEEPS, false },
    { "InstanceNormalization", see_norm, WM_NAN_KEEPS, false },
    { "IsInf", see_unit, WM_NAN_DROPS, true },
    { "IsNaN", see_unit, WM_NAN_DROPS, true },
    { "LRN", see_lrn, WM_NAN_KEEPS, false },
    { "LSTM", see_rnn, WM_NAN_LOSES, false },
    { "LayerNormalization", see_norm, WM_NAN_KEEPS, false },
    { "LeakyRelu", see_leaky, WM_NAN_KEEPS, false },
    { "Less", see_unit, WM_NAN_LOSES, true },
    { "LessOrEqual", see_unit, WM_NAN_LOSES, true },
    { "Log", see_log, WM_NAN_KEEPS, false },
    { "LogSoftmax", see_log_softmax, WM_NAN_KEEPS, false },
    { "LpNormalization", see_lp_norm, WM_NAN_KEEPS, false },
    { "LpPool", see_l2, WM_NAN_KEEPS, false },
    { "MatMul", see_linear, WM_NAN_KEEPS, false },
    { "MatMulInteger", see_finite, WM_NAN_LOSES, true },
    { "Max", see_max, WM_NAN_LOSES, false },
    { "MaxPool", see_same, WM_NAN_LOSES, false },
    { "Mean", see_add, WM_NAN_KEEPS, false },
    { "MeanVarianceNormalization", see_norm, WM_NAN_KEEPS, false },
    { "Min", see_min, WM_NAN_LOSES, false },
    { "Mish", see_gated, WM_NAN_KEEPS, false },
    { "Mod", see_mod, WM_NAN_KEEPS, false },
    { "Mul", see_mul, WM_NAN_KEEPS, false },
    { "Neg", see_neg, WM_NAN_KEEPS, false },
    { "NonMaxSuppression", see_finite, WM_NAN_LOSES, true },
    { "NonZero", see_finite, WM_NAN_LOSES, true },
    { "Not", see_unit, WM_NAN_LOSES, true },
    { "OneHot", see_one_hot, WM_NAN_DROPS, false },
    { "Or", see_unit, WM_NAN_LOSES, true },
    { "PRelu", see_leaky, WM_NAN_KEEPS, false },
    { "Pad", see_updated, WM_NAN_DROPS, false },
    { "Pow", see_pow, WM_NAN_KEEPS, false },
    { "QLinearConv", see_finite, WM_NAN_LOSES, true },
    { "QLinearMatMul", see_finite, WM_NAN_LOSES, true },
    { "QuantizeLinear", see_finite, WM_NAN_LOSES, true },
    { "RMSNormalization", see_norm, WM_NAN_KEEPS, false },
    { "RNN", see_rnn, WM_NAN_LOSES, false },
    { "Range", see_all, WM_NAN_KEEPS, false },
    { "Reciprocal", see_reciprocal, WM_NAN_KEEPS, false },
    { "ReduceL1", see_l1, WM_NAN_KEEPS, false },
    { "ReduceL2", see_l2, WM_NAN_KEEPS, false },
    { "ReduceLogSum", see_log_sum, WM_NAN_KEEPS, false },
    { "ReduceLogSumExp", see_log_sum_exp, WM_NAN_LOSES, false },
    { "ReduceMax", see_same, WM_NAN_LOSES, false },
    { "ReduceMean", see_mean, WM_NAN_KEEPS, false },
    { "ReduceMin", see_same, WM_NAN_LOSES, false },
    { "ReduceProd", see_prod, WM_NAN_KEEPS, false },
    { "ReduceSum", see_sum, WM_NAN_KEEPS, false },
    { "ReduceSumSquare", see_square_sum, WM_NAN_KEEPS, false },
    { "Relu", see_relu, WM_NAN_LOSES, false },
    { "Reshape", see_same, WM_NAN_KEEPS, false },
    { "Resize", see_resize, WM_NAN_KEEPS, false },
    { "ReverseSequence", see_same, WM_NAN_KEEPS, false },
    { "RoiAlign", see_zero_too, WM_NAN_LOSES, false },
    { "Round", see_floor, WM_NAN_KEEPS, false },
    { "Scatter", see_updated, WM_NAN_DROPS, false },
    { "ScatterElements", see_updated, WM_NAN_DROPS, false },
    { "ScatterND", see_updated, WM_NAN_DROPS, false },
    { "Selu", see_elu, WM_NAN_KEEPS, false },
    { "SequenceAt", see_all, WM_NAN_DROPS, false },
    { "SequenceConstruct", see_all, WM_NAN_DROPS, false },
    { "SequenceInsert", see_all, WM_NAN_DROPS, false },
    { "Shape", see_finite, WM_NAN_DROPS, true },
    { "Shrink", see_zero_too, WM_NAN_LOSES, false },
    { "Sigmoid", see_unit, WM_NAN_KEEPS, false },
    { "Sign", see_tanh, WM_NAN_LOSES, false },
    { "Sin", see_sin, WM_NAN_KEEPS, false },
    { "Sinh", see_sinh, WM_NAN_KEEPS, false },
    { "Size", see_finite, WM_NAN_DROPS, true },
    { "Slice", see_same, WM_NAN_DROPS, false },
    { "Softmax", see_softmax, WM_NAN_KEEPS, false },
    { "Softplus", see_softplus, WM_NAN_KEEPS, false },
    { "Softsign", see_tanh, WM_NAN_KEEPS, false },
    { "SpaceToDepth", see_same, WM_NAN_KEEPS, false },
    { "Split", see_same, WM_NAN_DROPS, false },
    { "SplitToSequence", see_same, WM_NAN_DROPS, false },
    { "Sqrt", see_sqrt, WM_NAN_KEEPS, false },
    { "Squeeze", see_same, WM_NAN_KEEPS, false },
    { "Sub", see_sub, WM_NAN_KEEPS, false },
    { "Sum", see_add, WM_NAN_KEEPS, false },
    { "Swish", see_gated, WM_NAN_KEEPS, false },
    { "Tan", see_sin, WM_NAN_KEEPS, false },
    { "Tanh", see_tanh, WM_NAN_KEEPS, false },
    { "ThresholdedRelu", see_zero_too, WM_NAN_LOSES, false },
    { "Tile", see_same, WM_NAN_KEEPS, false },
    { "TopK", see_same, WM_NAN_LOSES, false },
    { "Transpose", see_same, WM_NAN_KEEPS, false },
    { "Trilu", see_zero_too, WM_NAN_DROPS, false },
    { "Unsqueeze", see_same, WM_NAN_KEEPS, false },
    { "Upsample", see_resize, WM_NAN_KEEPS, false },
    { "Where", see_where, WM_NAN_DROPS, false },
    { "Xor", see_unit, WM_NAN_LOSES, true },
};
#define ROWS (sizeof table / sizeof *table)

static int by_op (const void *op, const void *row)
{
    return strcmp (op, *(const char *const *) row);
}

static bool is_whole (const eye_t *self, size_t row, const seen_t *out)
{
    see_t *const see = table[row].see;
    if (see == see_cast || see == see_constant)
        return out->is_whole;
    if (is_op (self, "DequantizeLinear"))
        return false;
    const size_t k = see == see_where || is_op (self, "CastLike") ? 1 : see == see_one_hot ? 2 : 0;
    return table[row].is_whole || wm_nan_input (self, k).is_whole;
}

seen_t wm_nan_see (eye_t *self, wm_nan_way_t *way)
{
    const Onnx__NodeProto *node = self->node;
    const char *domain = node->domain ? node->domain : "";
    const char *const *found = !*domain || !strcmp (domain, "ai.onnx")
                                   ? bsearch (wm_onnx_op (node), table, ROWS, sizeof *table, by_op)
                                   : NULL;
    *way = WM_NAN_LOSES;
    self->is_made = !found;
    if (!found)
        return any;
    const size_t row = (size_t) ((const char *) found - (const char *) table) / sizeof *table;
    seen_t out = table[row].see (self);
    out.is_whole = is_whole (self, row, &out);
    *way = table[row].way;
    if (is_op (self, "Cast") && out.is_whole)
        *way = WM_NAN_LOSES;
    if (is_op (self, "Equal") && node->n_input > 1 && !strcmp (node->input[0], node->input[1]))
        *way = WM_NAN_DROPS; /* it asks for a NaN */
    return out;
}
