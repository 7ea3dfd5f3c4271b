/* wm_sparse_tail.c - from a cell's accumulators to its scores: the layers behind the roots.  */
#include "kernels/model/wm_act.h"
#include "kernels/sparse/wm_sparse.h"

#include <stdlib.h>
#include <string.h>

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
        wm_sparse_activate_layer (layer->act, layer->bend, y, layer->n_out);
        if (layer->output >= 0)
            memcpy (scores + layer->output, y, layer->n_out * sizeof *y);
    }
}
