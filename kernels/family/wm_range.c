/* wm_range.c - intervals through the convolutions.  */
#include "kernels/family/wm_range.h"
#include "kernels/model/wm_act.h"

#include <math.h>
#include <stdlib.h>

#define NEED_MIN 0x1p-10
#define ROUNDING (1. / 512) /* of a product: three roundings to half, 2^-11 each, and some more */

/* Returns the extremum of an activation: it is monotonic below and above.  */
static double turn_of (const wm_conv_t *conv)
{
    switch (conv->act) {
    case WM_ACT_GELU:
        return -0.7517916;
    case WM_ACT_GELU_TANH:
        return -0.7524614;
    case WM_ACT_SWISH:
        return -1.2784645 / (double) conv->bend;
    case WM_ACT_HARDSWISH:
        return -1.5;
    case WM_ACT_MISH:
        return -1.1924491;
    default:
        return 0;
    }
}

/* The interval of an activation.  */
static void bound_activation (const wm_conv_t *conv, double low, double high, double out[2])
{
    const double end[3] = { low, fmin (fmax (low, turn_of (conv)), high), high };
    out[0] = INFINITY, out[1] = -INFINITY;
    for (int i = 0; i < 3; i++) {
        double value = wm_sparse_activated (conv->act, conv->bend, end[i]);
        out[0] = fmin (out[0], value), out[1] = fmax (out[1], value);
    }
}

/* The largest |value| of any filter of a convolution, from the intervals of its input channels;
   out: the intervals of its outputs, after its activation. What rounding adds is counted from each
   product's size, since a sum of large products may be small.  */
static double bound_conv (const wm_conv_t *conv, const double *in, double *out)
{
    double worst = 0;
    for (uint32_t o = 0; o < conv->c_out; o++) {
        double low = (double) conv->bias[o], high = low, size = fabs (low);
        for (size_t i = 0; i < (size_t) conv->kh * conv->kw * conv->c_in; i++) {
            double w = (double) conv->weight[i * conv->c_out + o];
            const double *c = in + 2 * (i % conv->c_in);
            low += w < 0 ? w * c[1] : w * c[0];
            high += w < 0 ? w * c[0] : w * c[1];
            size += fabs (w) * fmax (fabs (c[0]), fabs (c[1]));
        }
        low -= size * ROUNDING, high += size * ROUNDING;
        worst = fmax (worst, fmax (fabs (low), fabs (high)));
        bound_activation (conv, low, high, out + 2 * o);
    }
    return worst;
}

/* The largest |value| any convolution can reach where the patch's values are within +-limit; *where
   it does. Infinite without memory.  */
static double bound_convs (const wm_net_t *net, double limit, uint32_t *where)
{
    size_t channels = net->channel;
    for (uint32_t i = 0; i < net->n_conv; i++)
        channels = net->conv[i].c_out > channels ? net->conv[i].c_out : channels;
    double worst = 0, *interval = calloc (4 * channels, sizeof *interval);
    double *in = interval, *out = interval + 2 * channels;
    *where = 0;
    for (uint32_t c = 0; interval && c < net->channel; c++)
        in[2 * c] = -limit, in[2 * c + 1] = limit;
    for (uint32_t i = 0; interval && i < net->n_conv; i++) {
        double most = bound_conv (&net->conv[i], in, out), *swap = in;
        if (!(most <= worst))
            worst = most, *where = i;
        in = out, out = swap;
    }
    if (!interval)
        worst = INFINITY;
    free (interval);
    return worst;
}

static double largest (const float *x, size_t n, double most)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs ((double) x[i]) <= most))
            most = fabs ((double) x[i]);
    return most;
}

/* Of what is held in half: convolutions, and the layers that read them.  */
static double largest_weight (const wm_net_t *net)
{
    double most = 0;
    for (uint32_t i = 0; i < net->n_conv; i++) {
        const wm_conv_t *c = &net->conv[i];
        most = largest (c->weight, (size_t) c->kh * c->kw * c->c_in * c->c_out, most);
        most = largest (c->bias, c->c_out, most);
    }
    for (uint32_t i = 0; i < net->n_dense; i++)
        if (net->dense[i].parent < 0)
            most = largest (net->dense[i].weight, (size_t) net->dense[i].n_in * net->dense[i].n_out,
                            most);
    return most;
}

wm_fault_t wm_range_half (const wm_net_t *net, double need, double *limit, wm_error_t *error)
{
    uint32_t where;
    double most = largest_weight (net);
    need = fmax (need, NEED_MIN);
    if (!(most <= WM_HALF_MAX))
        return wm_fault (error, WM_EBATCH,
                         "a weight of %.3g cannot be held in half precision (65,504 at most): use "
                         "--precision fp32",
                         most);
    most = bound_convs (net, need, &where);
    if (!(most <= WM_HALF_MAX))
        return wm_fault (error, WM_EBATCH,
                         "half precision ends at 65,504, and convolution %u can reach %.3g on "
                         "values within +-%.3g: use --precision fp32",
                         where, most, need);
    for (*limit = 32768; *limit > need; *limit /= 2)
        if (bound_convs (net, *limit, &where) <= WM_HALF_MAX)
            return WM_OK;
    *limit = need;
    return WM_OK;
}

double wm_range_bound (const wm_net_t *net, double limit)
{
    uint32_t where;
    return bound_convs (net, limit, &where);
}
