/* wm_sparse_tail.c - from a cell's accumulators to its scores: the layers behind the roots.

   exp is our own (double, error below 1e-14) because libm's may differ between machines.  */
#include "kernels/wm_sparse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* e^x = 2^k e^r with |r| <= ln 2 / 2, Taylor to r^12.  */
static double exponential (double x)
{
    static const double term[] = { 1.0 / 479001600,
                                   1.0 / 39916800,
                                   1.0 / 3628800,
                                   1.0 / 362880,
                                   1.0 / 40320,
                                   1.0 / 5040,
                                   1.0 / 720,
                                   1.0 / 120,
                                   1.0 / 24,
                                   1.0 / 6,
                                   0.5,
                                   1,
                                   1 };
    if (isnan (x))
        return x;
    if (x < -700)
        return 0;
    if (x > 700)
        return INFINITY;
    double k = floor (x * 1.4426950408889634 + 0.5);
    double r = x - k * 0.693147180369123816490 - k * 1.90821492927058770002e-10;
    double sum = 0;
    for (size_t i = 0; i < sizeof term / sizeof term[0]; i++)
        sum = sum * r + term[i];
    uint64_t raw = (uint64_t) ((int64_t) k + 1023) << 52;
    double power;
    memcpy (&power, &raw, sizeof power);
    return sum * power;
}

double wm_sparse_activated (wm_act_t act, float bend, double value)
{
    switch (act) {
    case WM_ACT_RELU:
        return value < 0 ? 0 : value; /* a NaN stays */
    case WM_ACT_SIGMOID:
        return 1 / (1 + exponential (-value));
    case WM_ACT_TANH:
        return 1 - 2 / (exponential (2 * value) + 1);
    case WM_ACT_LEAKY:
        return value < 0 ? (double) bend * value : value;
    case WM_ACT_ELU:
        return value < 0 ? (double) bend * (exponential (value) - 1) : value;
    case WM_ACT_CLIP:
        return value < 0 ? 0 : value > (double) bend ? (double) bend : value;
    default:
        return value;
    }
}

void wm_sparse_activate (wm_act_t act, float bend, float *value, uint32_t n)
{
    if (act == WM_ACT_RELU) {
        for (uint32_t i = 0; i < n; i++)
            value[i] = value[i] < 0 ? 0 : value[i]; /* a NaN stays */
        return;
    }
    if (act != WM_ACT_SOFTMAX) {
        for (uint32_t i = 0; i < n && act != WM_ACT_NONE; i++)
            value[i] = (float) wm_sparse_activated (act, bend, (double) value[i]);
        return;
    }
    float most = value[0];
    double sum = 0;
    for (uint32_t i = 1; i < n; i++)
        most = value[i] > most ? value[i] : most;
    for (uint32_t i = 0; i < n; i++)
        sum += exponential ((double) value[i] - (double) most);
    for (uint32_t i = 0; i < n; i++)
        value[i] = (float) (exponential ((double) value[i] - (double) most) / sum);
}

wm_fault_t wm_sparse_tail_new (wm_sparse_t *self, wm_error_t *error)
{
    for (uint32_t i = 0; i < self->net.n_dense; i++) {
        const wm_dense_t *dense = &self->net.dense[i];
        wm_sparse_layer_t *layer = &self->layer[i];
        *layer = (wm_sparse_layer_t){
            .n_in = dense->n_in,
            .n_out = dense->n_out,
            .n_pad = (dense->n_out + 15) / 16 * 16,
            .offset = self->tail_floats,
            .parent = dense->parent,
            .output = dense->output,
            .act = dense->act,
            .bend = dense->bend,
        };
        self->tail_floats += layer->n_pad;
        if (dense->parent < 0)
            continue;
        layer->weight = wm_sparse_floats ((size_t) layer->n_in * layer->n_pad);
        layer->bias = wm_sparse_floats (layer->n_pad);
        if (!layer->weight || !layer->bias)
            return wm_fault (error, WM_EHOST, "no memory for dense layer %u", i);
        for (uint32_t k = 0; k < layer->n_in; k++)
            memcpy (layer->weight + (size_t) k * layer->n_pad,
                    dense->weight + (size_t) k * layer->n_out, layer->n_out * sizeof (float));
        memcpy (layer->bias, dense->bias, layer->n_out * sizeof (float));
    }
    return WM_OK;
}

void wm_sparse_tail_destroy (wm_sparse_t *self)
{
    for (uint32_t i = 0; i < self->net.n_dense; i++) {
        free (self->layer[i].weight);
        free (self->layer[i].bias);
    }
}

void wm_sparse_tail (const wm_sparse_t *self, const float *total, float *memory, float *scores)
{
    const wm_sparse_root_t *root = self->root;
    for (uint32_t i = 0; i < self->net.n_dense; i++) {
        const wm_sparse_layer_t *layer = &self->layer[i];
        float *y = memory + layer->offset;
        if (layer->parent < 0) {
            const float *sum = total + root->offset;
            for (uint32_t k = 0; k < layer->n_out; k++)
                y[k] = root->inactive[k] + (root->scale ? root->scale[k] * sum[k] : sum[k]);
            root++;
        } else
            self->kernel->layer (layer, memory + self->layer[layer->parent].offset, y);
        wm_sparse_activate (layer->act, layer->bend, y, layer->n_out);
        if (layer->output >= 0)
            memcpy (scores + layer->output, y, layer->n_out * sizeof *y);
    }
}
