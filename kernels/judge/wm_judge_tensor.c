/* wm_judge_tensor.c - tensors that go into a probe, and how far those that come out are apart.  */
#include "kernels/judge/wm_judge_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST 2e-5 /* a score may always be off by this, ... */
#define SHARE 1e-5 /* ... and by this share of its range */
#define SHARE_HALF 2e-3
#define SHARE_BF16 2e-2
#define MOVED 4 /* a score may differ by so many times what a rounding of its patch does */

/* ---- tensors that go in ---------------------------------------------------------------------- */

/* The inputs of `rows` dense patches, which are gathered by port into `gathered` (NULL: one).  */
void wm_judge_put_dense (const wm_judge_t *self, uint32_t rows, float *patch, float *gathered,
                         wm_probe_tensor_t in[WM_MODEL_PORTS_MAX])
{
    size_t from = 0;
    for (uint32_t i = 0; i < self->parts->n_input; i++) {
        const wm_port_t *port = &self->parts->input[i];
        in[i] = (wm_probe_tensor_t){ .n_dim = port->n_dim + !self->whole,
                                     .dim = { rows },
                                     .n_value = (uint64_t) rows * port->n_value,
                                     .value = patch + from };
        for (uint32_t d = 0; d < port->n_dim; d++)
            in[i].dim[d + !self->whole] = port->dim[d];
        for (uint32_t r = 0; r < rows && gathered; r++)
            memcpy (gathered + rows * from + (size_t) r * port->n_value,
                    patch + (size_t) r * self->n_value + from, port->n_value * sizeof *patch);
        if (gathered)
            in[i].value = gathered + rows * from;
        from += port->n_value;
    }
}

/* The inputs of a ragged row.  */
void wm_judge_put_ragged (const wm_judge_t *self, float *row, uint32_t n,
                          wm_probe_tensor_t in[WM_MODEL_PORTS_MAX])
{
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    uint32_t n_tensor;
    wm_ragged_read (row, n, &n_tensor, tensor);
    for (uint32_t i = 0; i < self->parts->n_input; i++) {
        in[i] = (wm_probe_tensor_t){ .n_dim = tensor[i].n_dim + !self->whole,
                                     .dim = { 1 },
                                     .n_value = tensor[i].n_value,
                                     .value = row + tensor[i].at };
        for (uint32_t d = 0; d < tensor[i].n_dim; d++)
            in[i].dim[d + !self->whole] = tensor[i].dim[d];
    }
}

void wm_judge_free_tensors (wm_probe_tensor_t *tensor, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        free (tensor[i].value);
        tensor[i].value = NULL;
    }
}

bool wm_judge_has_free (const wm_port_t *port, uint32_t n)
{
    bool is_free = false;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < port[i].n_dim; d++)
            is_free |= !port[i].dim[d];
    return is_free;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Whether the model computes in half precision somewhere, and so may round differently.  */
double wm_judge_find_share (const wm_onnx_t *onnx)
{
    double share = SHARE;
    for (size_t i = 0; onnx->graph && i < onnx->graph->n_initializer; i++) {
        const int type = onnx->graph->initializer[i]->data_type;
        if (type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16)
            share = fmax (share, SHARE_HALF);
        if (type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16)
            share = fmax (share, SHARE_BF16);
    }
    for (size_t i = 0; i < onnx->n_node; i++) {
        const int64_t to = strcmp (wm_onnx_op (onnx->node[i]), "Cast") == 0
                               ? wm_onnx_int (onnx->node[i], "to", 0)
                               : 0;
        if (to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16)
            share = fmax (share, SHARE_HALF);
        if (to == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16)
            share = fmax (share, SHARE_BF16);
    }
    return share;
}

double wm_judge_allowed (const wm_judge_t *self, uint16_t type, const wm_judge_range_t *range)
{
    const double share =
        type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16    ? fmax (self->share, SHARE_HALF)
        : type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 ? fmax (self->share, SHARE_BF16)
                                                          : self->share;
    return wm_type_is_real (type) ? fmax (LEAST, share * wm_judge_width (range)) : 0;
}

void wm_judge_widen (wm_judge_range_t *self, const float *value, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (isfinite (value[k])) {
            self->least = fmin (self->least, (double) value[k]);
            self->most = fmax (self->most, (double) value[k]);
        }
}

double wm_judge_width (const wm_judge_range_t *self)
{
    return self->most > self->least ? self->most - self->least : 0;
}

double wm_judge_distance (float a, float b)
{
    if (a == b || (isnan (a) && isnan (b)))
        return 0;
    const double off = fabs ((double) a - (double) b);
    return isnan (off) ? INFINITY : off;
}

double wm_judge_beyond (const float *value, const float *right, const float *shake, size_t n,
                        double allowed, double *off)
{
    double most = 0;
    for (size_t k = 0; k < n; k++) {
        const double d = wm_judge_distance (value[k], right[k]),
                     excused = shake ? (allowed > 0 ? MOVED : 1) * (double) shake[k] : 0;
        *off = isfinite (d) ? fmax (*off, d) : *off;
        if (!(d <= allowed + excused))
            most = fmax (most, d);
    }
    return most;
}
