/* wm_opencl_pack.c - a network on the device: weights, and the constants of steps 1 and 4 of the
   contract (kernels/README.md), which the host computes.  */
#include "kernels/model/wm_act.h"
#include "kernels/model/wm_half.h"
#include "kernels/opencl/wm_opencl_private.h"

#include <stdlib.h>
#include <string.h>

static wm_fault_t no_room (const wm_opencl_t *self, const char *what, uint32_t i, wm_error_t *error)
{
    return wm_fault (error, WM_EHOST, "the OpenCL device %.90s has no memory for %s %u",
                     self->device.info.name, what, i);
}

/* A buffer that holds n floats. NULL: there is no memory.  */
static wm_cl_object hold (wm_opencl_t *self, const float *value, size_t n)
{
    wm_cl_object buffer = wm_opencl_buffer (&self->device, n * sizeof *value);
    if (buffer)
        wm_opencl_write (&self->device, buffer, value, n * sizeof *value);
    return buffer;
}

/* As hold, of weights that are rounded to half: in `value`, too.  */
static wm_cl_object hold_half (wm_opencl_t *self, float *value, size_t n)
{
    uint16_t *half = malloc (n * sizeof *half);
    wm_cl_object buffer = half ? wm_opencl_buffer (&self->device, n * sizeof *half) : NULL;
    for (size_t i = 0; half && i < n; i++) {
        half[i] = wm_half (value[i]);
        value[i] = wm_half_value (half[i]);
    }
    if (buffer)
        wm_opencl_write (&self->device, buffer, half, n * sizeof *half);
    free (half);
    return buffer;
}

/* Step 1: c of convolution i, from that below (NULL: Z).  */
static void find_constant (const wm_opencl_t *self, uint32_t i, const float *below, float *constant)
{
    const wm_conv_t *conv = &self->net.conv[i];
    for (uint32_t f = 0; f < conv->c_out; f++) {
        double sum = (double) conv->bias[f];
        for (uint32_t k = 0; k < conv->kh * conv->kw * conv->c_in; k++)
            sum += (double) (below ? below[k % conv->c_in] : self->zero) *
                   (double) conv->weight[(size_t) k * conv->c_out + f];
        constant[f] = (float) wm_sparse_activated (conv->act, conv->bend, sum);
    }
}

static wm_fault_t pack_conv (wm_opencl_t *self, uint32_t i, const float *constant,
                             const float *reference, wm_error_t *error)
{
    const wm_conv_t *from = &self->net.conv[i];
    wm_opencl_conv_t *conv = &self->conv[i];
    conv->weight = hold (self, from->weight,
                         (size_t) from->kh * from->kw * from->c_in * from->c_out);
    conv->bias = hold (self, from->bias, from->c_out);
    conv->constant = hold (self, constant, from->c_out);
    conv->reference = hold (self, reference, from->c_out);
    return conv->weight && conv->bias && conv->constant && conv->reference
               ? WM_OK
               : no_room (self, "convolution", i, error);
}

/* The weights of a root, as the device has them. NULL: there is no memory.  */
static float *hold_root (wm_opencl_t *self, uint32_t i, size_t n)
{
    float *weight = malloc (n * sizeof *weight);
    if (!weight)
        return NULL;
    memcpy (weight, self->net.dense[i].weight, n * sizeof *weight);
    self->dense[i].weight =
        self->is_half ? hold_half (self, weight, n) : hold (self, weight, n);
    return weight;
}

/* Step 4: what inactive positions give, and what a live one has not: of the weights as the device
   has them, so that where a value is close to c the rounding of a weight to half cancels.  */
static wm_fault_t pack_root (wm_opencl_t *self, uint32_t i, const float *c, const float *r,
                             wm_error_t *error)
{
    const wm_dense_t *from = &self->net.dense[i];
    const uint32_t n = from->n_out, filters = self->net.conv[self->net.n_conv - 1].c_out,
                   positions = self->pos_rows * self->pos_cols;
    float *weight = hold_root (self, i, (size_t) positions * filters * n),
          *inactive = calloc (n, sizeof *inactive),
          *base = calloc ((size_t) positions * n, sizeof *base);
    double *all = calloc (2 * (size_t) n, sizeof *all), *here = all ? all + n : NULL;
    bool has_base = false;
    for (uint32_t o = 0; all && o < n; o++)
        all[o] = (double) from->bias[o];
    for (uint32_t p = 0; all && base && weight && p < positions; p++) {
        for (uint32_t o = 0; o < n; o++)
            here[o] = 0;
        for (uint32_t f = 0; f < filters; f++)
            for (uint32_t o = 0; o < n; o++) {
                const size_t k = ((size_t) p * filters + f) * n + o;
                all[o] += (double) c[f] * (double) from->weight[k];
                here[o] += ((double) r[f] - (double) c[f]) * (double) weight[k];
            }
        for (uint32_t o = 0; o < n; o++) {
            base[(size_t) p * n + o] = (float) here[o];
            has_base |= here[o] != 0;
        }
    }
    for (uint32_t o = 0; all && inactive && o < n; o++)
        inactive[o] = (float) all[o];
    wm_opencl_dense_t *dense = &self->dense[i];
    const bool is_here = inactive && base && all && weight;
    if (is_here) {
        dense->bias = hold (self, inactive, n);
        dense->base = has_base ? hold (self, base, (size_t) positions * n) : NULL;
    }
    free (inactive), free (base), free (all), free (weight);
    return is_here && dense->weight && dense->bias && (dense->base || !has_base)
               ? WM_OK
               : no_room (self, "dense layer", i, error);
}

static wm_fault_t pack_dense (wm_opencl_t *self, uint32_t i, wm_error_t *error)
{
    const wm_dense_t *from = &self->net.dense[i];
    wm_opencl_dense_t *dense = &self->dense[i];
    dense->weight = hold (self, from->weight, (size_t) from->n_in * from->n_out);
    dense->bias = hold (self, from->bias, from->n_out);
    return dense->weight && dense->bias ? WM_OK : no_room (self, "dense layer", i, error);
}

wm_fault_t wm_opencl_pack (wm_opencl_t *self, wm_error_t *error)
{
    uint32_t filters = 1;
    for (uint32_t i = 0; i < self->net.n_conv; i++)
        filters = self->net.conv[i].c_out > filters ? self->net.conv[i].c_out : filters;
    float *c = calloc (3 * (size_t) filters, sizeof *c), *below = NULL;
    if (!c)
        return wm_fault (error, WM_EHOST, "no memory for the OpenCL engine");
    float *zeros = c + 2 * (size_t) filters, *reference = zeros, *here = c;
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < self->net.n_conv && !fault; i++) {
        here = i % 2 ? c + filters : c;
        find_constant (self, i, below, here);
        if (i + 1 == self->net.n_conv && self->net.conv[i].act != WM_ACT_RELU)
            reference = here;
        fault = pack_conv (self, i, here, reference, error);
        below = here;
    }
    for (uint32_t i = 0; i < self->net.n_dense && !fault; i++) {
        self->dense[i].offset = self->floats;
        self->floats += self->net.dense[i].n_out;
        fault = self->net.dense[i].parent < 0 ? pack_root (self, i, here, reference, error)
                                              : pack_dense (self, i, error);
    }
    free (c);
    return fault ? fault : wm_opencl_check (&self->device, error);
}
