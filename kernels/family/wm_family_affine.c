/* wm_family_affine.c - constants and activations behind a layer.

   A constant that is added to a layer without an activation, or multiplied with it, goes into the
   layer's weights; after an activation it is pending in the state, and the layers that read it take
   it (exact for convolutions too, because they are not padded). A bounded activation is Clip from 0
   on, shifted there and back.  */
#include "kernels/family/wm_family_private.h"

#include <float.h>
#include <math.h>

/* ---- scale and shift ------------------------------------------------------------------------- */

/* The layer behind a view, if a constant or an activation may still be put on it.  */
static layer_t *growing (family_t *self, const state_t *in)
{
    if (in->kind != VIEW || in->source == PATCH || in->n_layer != 1) {
        wm_family_outside (self, self->node, "it follows no single layer");
        return NULL;
    }
    layer_t *layer = wm_family_layer (self, in);
    if (layer->act != WM_ACT_NONE || layer->version != in->version) {
        wm_family_outside (self, self->node, "it follows a layer that is already complete");
        return NULL;
    }
    return layer;
}

static uint32_t channels (family_t *self, const state_t *s)
{
    return s->source == PATCH ? 1 : wm_family_layer (self, s)->n_out;
}

/* Makes an affine_t that changes nothing.  */
static affine_t *affine_new (family_t *self, uint32_t n)
{
    affine_t *a = wm_arena_take (self->arena, 1, sizeof *a);
    if (!a || !(a->scale = wm_arena_take (self->arena, 2 * (uint64_t) n, sizeof *a->scale))) {
        wm_family_outside (self, self->node, "it is too large");
        return NULL;
    }
    a->n = n;
    a->shift = a->scale + n;
    for (uint32_t c = 0; c < n; c++)
        a->scale[c] = 1;
    return a;
}

static void grow (layer_t *layer, const affine_t *a)
{
    for (uint64_t k = 0; k < layer->n_in; k++)
        for (uint32_t o = 0; o < layer->n_out; o++)
            layer->weight[k * layer->n_out + o] *= (float) a->scale[o];
    for (uint32_t o = 0; o < layer->n_out; o++)
        layer->bias[o] = (float) (a->scale[o] * (double) layer->bias[o] + a->shift[o]);
    layer->version++;
}

/* Applies `a` to the values of `out`, and takes `a`.  */
static bool apply (family_t *self, state_t *out, affine_t *a)
{
    if (out->n_layer != 1)
        return wm_family_outside (self, self->node, "it follows no single layer");
    layer_t *layer = out->source == PATCH ? NULL : wm_family_layer (self, out);
    if (layer && layer->act == WM_ACT_NONE && layer->version == out->version) {
        grow (layer, a);
        out->version = layer->version;
        return true;
    }
    for (uint32_t c = 0; out->affine && c < a->n; c++) {
        a->shift[c] += a->scale[c] * out->affine->shift[c];
        a->scale[c] *= out->affine->scale[c];
    }
    out->affine = a;
    return true;
}

/* Whether a constant has one value, or one for each channel of the view.  */
static bool by_channel (const wm_layer_view_t *v, const wm_tensor_t *c, uint32_t n)
{
    if (c->n_dim > v->n_dim + 1 || (c->n != 1 && c->n != n))
        return false;
    for (uint32_t d = 0; d < c->n_dim; d++) { /* shapes are aligned at their ends */
        int64_t size = c->dim[c->n_dim - 1 - d];
        if (size > 1 && (d >= v->n_dim || !wm_view_is (v, v->n_dim - 1 - d, n, 1)))
            return false;
    }
    return true;
}

bool wm_family_arithmetic (family_t *self, state_t *out)
{
    size_t data = self->in[0]->kind == VIEW || self->n_in != 2 || !self->in[1] ? 0 : 1;
    const wm_tensor_t *c = wm_family_constant (self, 1 - data);
    *out = *self->in[data];
    if (out->kind != VIEW || !c || !c->f)
        return wm_family_outside (self, self->node, "it has no constant");
    uint32_t n = channels (self, out);
    if (!by_channel (&out->view, c, n))
        return wm_family_outside (self, self->node, "its constant does not run along the channels");
    if (data == 1 && wm_family_is (self, "Div"))
        return wm_family_outside (self, self->node, "it divides a constant");
    affine_t *a = affine_new (self, n);
    if (!a)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        double value = (double) c->f[c->n == 1 ? 0 : i];
        if (wm_family_is (self, "Mul"))
            a->scale[i] = value;
        else if (wm_family_is (self, "Div"))
            a->scale[i] = 1 / value;
        else if (wm_family_is (self, "Add"))
            a->shift[i] = value;
        else { /* Sub */
            a->scale[i] = data ? -1 : 1;
            a->shift[i] = data ? value : -value;
        }
    }
    return apply (self, out, a);
}

bool wm_family_batchnorm (family_t *self, state_t *out)
{
    const wm_tensor_t *p[4]; /* scale, bias, mean, variance */
    *out = *self->in[0];
    uint32_t n = channels (self, out);
    if (!wm_onnx_int (self->node, "spatial", 1) || out->view.n_dim < 1 ||
        !wm_view_is (&out->view, 0, n, 1))
        return wm_family_outside (self, self->node, "it does not run along the channels");
    for (size_t k = 0; k < 4; k++) {
        p[k] = wm_family_constant (self, k + 1);
        if (!p[k] || !p[k]->f || p[k]->n != n)
            return wm_family_outside (self, self->node, "its constants do not fit");
    }
    double epsilon = (double) wm_family_float (self, "epsilon", 1e-5f);
    affine_t *a = affine_new (self, n);
    for (uint32_t c = 0; a && c < n; c++) {
        a->scale[c] = (double) p[0]->f[c] / sqrt ((double) p[3]->f[c] + epsilon);
        a->shift[c] = (double) p[1]->f[c] - a->scale[c] * (double) p[2]->f[c];
    }
    return a && apply (self, out, a);
}

/* ---- activations ----------------------------------------------------------------------------- */

/* One scale and shift for all channels.  */
static bool apply_all (family_t *self, state_t *out, double scale, double shift)
{
    affine_t *a = affine_new (self, channels (self, out));
    for (uint32_t c = 0; a && c < a->n; c++)
        a->scale[c] = scale, a->shift[c] = shift;
    return a && apply (self, out, a);
}

bool wm_family_put (family_t *self, state_t *out, wm_act_t act, float bend)
{
    layer_t *layer = growing (self, out);
    if (!layer)
        return false;
    layer->act = act;
    layer->bend = bend;
    out->version = ++layer->version;
    return isfinite (bend) || wm_family_outside (self, self->node, "its factor is not finite");
}

/* From `low` to `high`: moved to begin at 0.  */
static bool put_between (family_t *self, state_t *out, double low, double high)
{
    if (!(low <= high))
        return wm_family_outside (self, self->node, "its limits are crossed");
    if (low != 0 && !apply_all (self, out, 1, -low))
        return false;
    return wm_family_put (self, out, WM_ACT_CLIP, (float) (high - low)) &&
           (low == 0 || apply_all (self, out, 1, low));
}

bool wm_family_limit (family_t *self, const char *name, size_t k, float *value)
{
    *value = wm_family_float (self, name, *value);
    if (k >= self->n_in || !self->in[k])
        return true;
    const wm_tensor_t *c = wm_family_constant (self, k);
    if (!c || !c->f || c->n != 1)
        return wm_family_outside (self, self->node, "a limit is no constant");
    *value = c->f[0];
    return true;
}

static bool put_clip (family_t *self, state_t *out)
{
    float low = -FLT_MAX, high = FLT_MAX;
    if (!wm_family_limit (self, "min", 1, &low) || !wm_family_limit (self, "max", 2, &high))
        return false;
    if (low == 0 && high >= FLT_MAX)
        return wm_family_put (self, out, WM_ACT_RELU, 0);
    if (low <= -FLT_MAX || high >= FLT_MAX)
        return wm_family_outside (self, self->node, "it has one limit, and that is not 0");
    return put_between (self, out, (double) low, (double) high);
}

static bool put_prelu (family_t *self, state_t *out)
{
    const wm_tensor_t *slope = wm_family_constant (self, 1);
    if (!slope || !slope->f)
        return wm_family_outside (self, self->node, "its slope is no constant");
    for (size_t k = 1; k < slope->n; k++)
        if (slope->f[k] != slope->f[0])
            return wm_family_outside (self, self->node, "it has several slopes");
    return wm_family_put (self, out, WM_ACT_LEAKY, slope->f[0]);
}

static bool put_gelu (family_t *self, state_t *out)
{
    const Onnx__AttributeProto *a = wm_onnx_attribute (self->node, "approximate");
    if (a && !wm_onnx_attribute_is (a, "none") && !wm_onnx_attribute_is (a, "tanh"))
        return wm_family_outside (self, self->node, "its approximation is not known");
    return wm_family_put (
        self, out, a && wm_onnx_attribute_is (a, "tanh") ? WM_ACT_GELU_TANH : WM_ACT_GELU, 0);
}

static bool put_softmax (family_t *self, state_t *out)
{
    int64_t axis = wm_onnx_int (self->node, "axis", 1);
    if (out->source != DENSE || out->view.n_dim != 1 || (axis != 1 && axis != -1))
        return wm_family_outside (self, self->node,
                                  "it does not run over the outputs of a dense layer");
    return wm_family_put (self, out, WM_ACT_SOFTMAX, 0);
}

bool wm_family_activation (family_t *self, state_t *out)
{
    *out = *self->in[0];
    if (!growing (self, out))
        return false;
    if (wm_family_is (self, "Relu"))
        return wm_family_put (self, out, WM_ACT_RELU, 0);
    if (wm_family_is (self, "Sigmoid"))
        return wm_family_put (self, out, WM_ACT_SIGMOID, 0);
    if (wm_family_is (self, "Tanh"))
        return wm_family_put (self, out, WM_ACT_TANH, 0);
    if (wm_family_is (self, "LeakyRelu"))
        return wm_family_put (self, out, WM_ACT_LEAKY, wm_family_float (self, "alpha", 0.01f));
    if (wm_family_is (self, "PRelu"))
        return put_prelu (self, out);
    if (wm_family_is (self, "Elu"))
        return wm_family_put (self, out, WM_ACT_ELU, wm_family_float (self, "alpha", 1));
    if (wm_family_is (self, "Selu"))
        return wm_family_put (self, out, WM_ACT_ELU,
                              wm_family_float (self, "alpha", 1.67326319f)) &&
               apply_all (self, out, (double) wm_family_float (self, "gamma", 1.05070102f), 0);
    if (wm_family_is (self, "HardSigmoid"))
        return apply_all (self, out, (double) wm_family_float (self, "alpha", 0.2f),
                          (double) wm_family_float (self, "beta", 0.5f)) &&
               put_between (self, out, 0, 1);
    if (wm_family_is (self, "Gelu"))
        return put_gelu (self, out);
    if (wm_family_is (self, "HardSwish"))
        return wm_family_put (self, out, WM_ACT_HARDSWISH, 0);
    if (wm_family_is (self, "Mish"))
        return wm_family_put (self, out, WM_ACT_MISH, 0);
    if (wm_family_is (self, "Softplus"))
        return wm_family_put (self, out, WM_ACT_SOFTPLUS, 0);
    if (wm_family_is (self, "Swish"))
        return wm_family_put (self, out, WM_ACT_SWISH, wm_family_float (self, "alpha", 1));
    return wm_family_is (self, "Clip") ? put_clip (self, out) : put_softmax (self, out);
}
