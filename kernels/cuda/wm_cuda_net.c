/* wm_cuda_net.c - a family network as the CUDA engine holds it.  */
#include "kernels/cuda/wm_cuda_net.h"
#include "kernels/cuda/wm_gpu_kernels.cuh"
#include "kernels/wm_range.h"

#include <float.h>
#include <math.h>

#define ALIGN 256u /* what cudaMalloc gives, and cuBLASLt asks for by default */

/* Sets the limit of a patch's values.  */
static wm_fault_t check_range (wm_cuda_net_t *self, const wm_spec_t *spec, wm_error_t *error)
{
    double limit = (double) FLT_MAX;
    double need = spec ? fmax (fmax (fabs (spec->out_min), fabs (spec->out_max)),
                               fabs ((double) wm_spec_zero (spec)))
                       : 0;
    wm_fault_t fault =
        self->precision == WM_GPU_F16 ? wm_range_half (self->net, need, &limit, error) : WM_OK;
    self->limit = (float) limit;
    return fault;
}

/* ---- shapes and places ----------------------------------------------------------------------- */

static size_t place (wm_cuda_net_t *self, size_t count, size_t each)
{
    size_t at = self->bytes;
    self->bytes += (count * each + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static wm_fault_t plan_convs (wm_cuda_net_t *self, uint32_t rows, wm_error_t *error)
{
    const wm_net_t *net = self->net;
    uint32_t h = net->height, w = net->width;
    /* Tf32 is for the first dense layers, where most products are. In a convolution the rounding of
       a weight is the same at every place and adds up: it stays strict float32.  */
    const wm_gpu_precision_t precision =
        self->precision == WM_GPU_TF32 ? WM_GPU_F32 : self->precision;
    if (net->n_conv == 0)
        return wm_fault (error, WM_EBATCH, "the cuda engine needs a convolution in front");
    if ((uint64_t) h * w * net->channel > UINT32_MAX / 2 / rows)
        return wm_fault (error, WM_EBATCH,
                         "the cuda engine takes %u patches at a time, not so large", rows);
    for (uint32_t i = 0; i < net->n_conv; i++) {
        const wm_conv_t *c = &net->conv[i];
        self->conv[i] =
            (wm_gpu_conv_t){ precision, c->act == WM_ACT_RELU, rows, h, w, c->c_in, c->kh, c->kw,
                             c->c_out };
        self->conv_weight[i] =
            place (self, (size_t) c->kh * c->kw * c->c_in * c->c_out, self->each);
        self->conv_bias[i] = place (self, c->c_out, self->each);
        h -= c->kh - 1, w -= c->kw - 1;
    }
    uint32_t row = w * net->conv[net->n_conv - 1].c_out; /* of the last convolution's output */
    self->gemm =
        (wm_gpu_gemm_t){ .precision = self->precision, .rows = rows, .k = row, .splits = h };
    return WM_OK;
}

static wm_fault_t plan_denses (wm_cuda_net_t *self, uint32_t rows, bool library, wm_error_t *error)
{
    const wm_net_t *net = self->net;
    wm_gpu_tail_t *tail = &self->tail;
    tail->n_layer = net->n_dense;
    for (uint32_t i = 0; i < net->n_dense; i++) {
        const wm_dense_t *d = &net->dense[i];
        wm_gpu_layer_t *layer = &tail->layer[i];
        *layer = (wm_gpu_layer_t){
            .n_out = d->n_out, .output = d->output, .act = d->act, .bend = d->bend
        };
        layer->at = tail->n_value;
        if (d->n_out > WM_CUDA_TAIL_VALUES_MAX ||
            (tail->n_value += d->n_out) > WM_CUDA_TAIL_VALUES_MAX)
            return wm_fault (error, WM_EBATCH,
                             "the cuda engine takes dense layers of %u outputs together: use "
                             "--engine sparse",
                             WM_CUDA_TAIL_VALUES_MAX);
        if (d->parent < 0) {
            layer->from = self->gemm.n;
            self->gemm.n += d->n_out;
        } else {
            layer->from = tail->layer[d->parent].at;
            layer->n_in = d->n_in;
            self->dense_weight[i] = place (self, (size_t) d->n_in * d->n_out, sizeof (float));
        }
        if (d->output >= 0 && (uint32_t) d->output + d->n_out > tail->n_output)
            tail->n_output = (uint32_t) d->output + d->n_out;
        self->dense_bias[i] = place (self, d->n_out, sizeof (float));
    }
    self->gemm.n = (self->gemm.n + 7) / 8 * 8; /* rows of 16 bytes in half: tensor cores */
    self->library = library;
    if (library)
        self->gemm_weight =
            place (self, (size_t) self->gemm.k * self->gemm.splits * self->gemm.n, self->each);
    tail->splits = self->gemm.splits, tail->rows = rows, tail->n = self->gemm.n;
    return WM_OK;
}

wm_fault_t wm_cuda_net_plan (wm_cuda_net_t *self, const wm_net_t *net, const wm_spec_t *spec,
                             wm_gpu_precision_t precision, uint32_t rows, bool library,
                             wm_error_t *error)
{
    *self = (wm_cuda_net_t){ .net = net, .precision = precision };
    self->each = precision == WM_GPU_F16 ? sizeof (uint16_t) : sizeof (float);
    wm_fault_t fault = plan_convs (self, rows, error);
    if (!fault)
        fault = plan_denses (self, rows, library, error);
    if (!fault)
        fault = check_range (self, spec, error);
    return fault;
}

/* ---- filling --------------------------------------------------------------------------------- */

static void put (const wm_cuda_net_t *self, void *block, size_t offset, size_t i, float value)
{
    char *at = (char *) block + offset;
    if (self->each == sizeof (uint16_t))
        ((uint16_t *) (void *) at)[i] = wm_half (value);
    else
        ((float *) (void *) at)[i] = value;
}

/* (kh, kw, c_in, c_out) -> (c_out, kh, kw, c_in).  */
static void fill_conv (const wm_cuda_net_t *self, uint32_t index, void *block)
{
    const wm_conv_t *c = &self->net->conv[index];
    const size_t run = (size_t) c->kh * c->kw * c->c_in;
    for (size_t i = 0; i < run; i++)
        for (size_t o = 0; o < c->c_out; o++)
            put (self, block, self->conv_weight[index], o * run + i, c->weight[i * c->c_out + o]);
    for (size_t o = 0; o < c->c_out; o++)
        put (self, block, self->conv_bias[index], o, c->bias[o]);
}

void wm_cuda_net_fill (const wm_cuda_net_t *self, void *block)
{
    const bool tf32 = self->precision == WM_GPU_TF32; /* which a library may cut off, not round */
    memset (block, 0, self->bytes);
    for (uint32_t i = 0; i < self->net->n_conv; i++)
        fill_conv (self, i, block);
    for (uint32_t l = 0; l < self->net->n_dense; l++) {
        const wm_dense_t *d = &self->net->dense[l];
        const wm_gpu_layer_t *layer = &self->tail.layer[l];
        memcpy ((char *) block + self->dense_bias[l], d->bias, d->n_out * sizeof (float));
        if (d->parent >= 0) {
            memcpy ((char *) block + self->dense_weight[l], d->weight,
                    (size_t) d->n_in * d->n_out * sizeof (float));
            continue;
        }
        for (size_t i = 0; i < d->n_in && self->library; i++)
            for (size_t o = 0; o < d->n_out; o++)
                put (self, block, self->gemm_weight, i * self->gemm.n + layer->from + o,
                     tf32 ? wm_tf32 (d->weight[i * d->n_out + o]) : d->weight[i * d->n_out + o]);
    }
}
