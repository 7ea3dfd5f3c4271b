/* wm_opencl_finish.c - steps 5 and 6 of the contract (kernels/README.md) on the host, for devices
   without float64: some thousand products a hit.  */
#include "kernels/model/wm_act.h"
#include "kernels/opencl/wm_opencl_private.h"

#include <math.h>
#include <string.h>

void wm_opencl_finish (const wm_opencl_t *self, uint32_t n_hit, float *layers, float *scores)
{
    for (uint32_t hit = 0; hit < n_hit; hit++, layers += self->floats, scores += self->n_output)
        for (uint32_t i = 0; i < self->net.n_dense; i++) {
            const wm_dense_t *dense = &self->net.dense[i];
            float *y = layers + self->dense[i].offset;
            if (dense->parent >= 0)
                memcpy (y, dense->bias, dense->n_out * sizeof *y);
            for (uint32_t k = 0; dense->parent >= 0 && k < dense->n_in; k++) {
                const float x = layers[self->dense[dense->parent].offset + k];
                for (uint32_t o = 0; o < dense->n_out; o++)
                    y[o] = fmaf (x, dense->weight[(size_t) k * dense->n_out + o], y[o]);
            }
            wm_sparse_activate_layer (dense->act, dense->bend, y, dense->n_out);
            if (dense->output >= 0)
                memcpy (scores + dense->output, y, dense->n_out * sizeof *y);
        }
}
