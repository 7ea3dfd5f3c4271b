/* wm_family_curve.c - activations that exporters write as several nodes: x sigmoid (x), GELU by erf
   or tanh, x relu6 (x + 3) / 6, x tanh (softplus (x)).

   Exporters differ in the order of the nodes and in the places of constants, so the search does not
   match graphs. What the nodes compute of a layer is a function of one number; it is represented by
   a CURVE, its values at fixed points. If a curve equals a known activation at every point, it is
   that activation. This is done where several nodes compute on a layer; an activation of one node
   is recognised by its name (wm_family_affine.c).  */
#include "kernels/family/wm_family_private.h"
#include "kernels/model/wm_act.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define POINTS 101
#define ALIKE 1e-6 /* constants of the graph are rounded to float32 */

/* From -5e25 to 5e25, dense near 0: a curve that bends away far out is another.  */
static double point (size_t i)
{
    const double k = (double) i - POINTS / 2;
    return sinh (k / 5 + k * k * k / 2500);
}

/* ---- what nodes compute ---------------------------------------------------------------------- */

static double negated (double x)
{
    return -x;
}
static double inverse (double x)
{
    return 1 / x;
}
static double rectified (double x)
{
    return fmax (x, 0);
}
static double sigmoid (double x)
{
    return 1 / (1 + exp (-x));
}
static double softplus (double x)
{
    return fmax (x, 0) + log1p (exp (-fabs (x)));
}
static double plus (double a, double b)
{
    return a + b;
}
static double minus (double a, double b)
{
    return a - b;
}
static double times (double a, double b)
{
    return a * b;
}
static double over (double a, double b)
{
    return a / b;
}
static double between (double x, const float limit[2])
{
    return fmin (fmax (x, (double) limit[0]), (double) limit[1]);
}
static double hard_sigmoid (double x, const float line[2])
{
    return fmin (fmax ((double) line[0] * x + (double) line[1], 0), 1);
}

typedef struct {
    const char *op;
    double (*one) (double x);
    double (*two) (double a, double b);
    double (*with) (double x, const float number[2]); /* its limits, or its attributes */
} maths_t;

static const maths_t *maths_of (const char *op)
{
    static const maths_t table[] = {
        { "Add", .two = plus },
        { "Clip", .with = between },
        { "Div", .two = over },
        { "Erf", .one = erf },
        { "Erfc", .one = erfc }, /* of frozen graphs */
        { "Exp", .one = exp },
        { "HardSigmoid", .with = hard_sigmoid },
        { "Log", .one = log },
        { "Max", .two = fmax },
        { "Min", .two = fmin },
        { "Mul", .two = times },
        { "Neg", .one = negated },
        { "Pow", .two = pow },
        { "Reciprocal", .one = inverse },
        { "Relu", .one = rectified },
        { "Sigmoid", .one = sigmoid },
        { "Softplus", .one = softplus },
        { "Sub", .two = minus },
        { "Tanh", .one = tanh },
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (!strcmp (op, table[k].op))
            return &table[k];
    return NULL;
}

/* How often such nodes read each value, or NULL without memory.  */
static const uint32_t *count_readers (family_t *self)
{
    const wm_onnx_t *onnx = self->onnx;
    uint32_t *count = wm_arena_take (self->arena, onnx->n_value, sizeof *count);
    for (size_t i = 0; count && i < onnx->n_node; i++) {
        const Onnx__NodeProto *node = onnx->node[i];
        for (size_t k = 0; maths_of (wm_onnx_op (node)) && k < node->n_input; k++) {
            const int64_t v = wm_onnx_find (onnx, node->input[k]);
            if (v >= 0)
                count[v]++;
        }
    }
    return count;
}

bool wm_family_follows (family_t *self)
{
    int follows = 0;
    if (!self->readers)
        self->readers = count_readers (self);
    for (size_t k = 0; maths_of (wm_onnx_op (self->node)) && self->readers && k < self->n_in; k++) {
        const state_t *s = self->in[k];
        if (!s || s->kind != VIEW || follows)
            continue;
        const layer_t *layer =
            s->source == PATCH || s->n_layer != 1 ? NULL : wm_family_layer (self, s);
        follows = s->curve || (layer && layer->act == WM_ACT_NONE && layer->version == s->version &&
                               self->readers[wm_onnx_find (self->onnx, self->node->input[k])] > 1);
    }
    return follows;
}

/* ---- which activation it is ------------------------------------------------------------------ */

static bool is_curve (const double *curve, wm_act_t act, double bend)
{
    size_t i = 0;
    while (i < POINTS && isfinite (curve[i]) &&
           fabs (curve[i] - wm_sparse_activated (act, (float) bend, point (i))) <=
               ALIKE * fmax (1, fabs (curve[i])))
        i++;
    return i == POINTS;
}

/* Puts the activation on the layer if the curve is one's.  */
static bool recognise (family_t *self, state_t *out, const double *curve)
{
    static const wm_act_t plain[] = { WM_ACT_GELU, WM_ACT_GELU_TANH, WM_ACT_HARDSWISH,
                                      WM_ACT_MISH };
    for (size_t k = 0; k < sizeof plain / sizeof *plain; k++)
        if (is_curve (curve, plain[k], 0))
            return wm_family_put (self, out, plain[k], 0);
    const size_t at = POINTS / 2 + 4; /* x / (1 + e^(-bend x)) solved for bend */
    const double bend = -log (point (at) / curve[at] - 1) / point (at);
    if (fabs (bend) > 1e-3 && fabs (bend) < FLT_MAX && /* x / 2, on the way to others, is of none */
        is_curve (curve, WM_ACT_SWISH, bend))
        return wm_family_put (self, out, WM_ACT_SWISH, (float) bend);
    out->curve = curve;
    out->maker = self->node;
    return true;
}

/* ---- following ------------------------------------------------------------------------------- */

/* The values of input k; 0 where it is no number and nothing of the layer of `out`.  */
static bool operand (family_t *self, const state_t *out, size_t k, double value[POINTS])
{
    const state_t *s = self->in[k];
    const wm_tensor_t *c = wm_family_constant (self, k);
    if (c && c->f && c->n == 1 && c->n_dim <= out->view.n_dim + 1) {
        for (size_t i = 0; i < POINTS; i++)
            value[i] = (double) c->f[0];
        return true;
    }
    if (!s || s->kind != VIEW || s->source != out->source || s->n_layer != 1 ||
        s->layer[0] != out->layer[0] || s->version != out->version || s->affine ||
        !wm_view_same (&s->view, &out->view))
        return false;
    for (size_t i = 0; i < POINTS; i++)
        value[i] = s->curve ? s->curve[i] : point (i);
    return true;
}

bool wm_family_curve (family_t *self, state_t *out)
{
    const maths_t *maths = maths_of (wm_onnx_op (self->node));
    double value[2][POINTS], *curve = wm_arena_take (self->arena, POINTS, sizeof *curve);
    float number[2] = { -FLT_MAX, FLT_MAX };
    const size_t n = maths->two ? 2 : 1;
    if (!curve)
        return wm_family_outside (self, self->node, "no memory");
    if (!strcmp (maths->op, "HardSigmoid"))
        number[0] = wm_family_float (self, "alpha", 0.2f),
        number[1] = wm_family_float (self, "beta", 0.5f);
    else if (maths->with && (!wm_family_limit (self, "min", 1, &number[0]) ||
                             !wm_family_limit (self, "max", 2, &number[1])))
        return false;
    size_t first = 0; /* input that is a view: there is one */
    while (!self->in[first] || self->in[first]->kind != VIEW)
        first++;
    *out = *self->in[first];
    out->curve = NULL;
    for (size_t k = 0; k < n; k++)
        if (self->n_in < n || (maths->two && self->n_in != 2) || !self->in[k] ||
            !operand (self, out, k, value[k]))
            return wm_family_outside (
                self, self->node, "it computes on a layer with something that is no single number");
    for (size_t i = 0; i < POINTS; i++)
        curve[i] = maths->one   ? maths->one (value[0][i])
                   : maths->two ? maths->two (value[0][i], value[1][i])
                                : maths->with (value[0][i], number);
    return recognise (self, out, curve);
}
