/* wm_layer_view.h - a tensor of the graph as a view of a layer's own memory. Private to kernels/.

   Exporters transpose, reshape and flatten between layers. Here none of that moves data: a view
   holds, per dimension behind the batch, the strides in the layer's channels-last memory. A
   dimension is a list of factors (size, stride), slowest first, because a flattened transpose has
   no single stride: (c, h, w) flattened from (h, w, c) memory is one dimension of three factors.
   Dimensions of size 1 have none.  Thread: any.  */
#ifndef WM_LAYER_VIEW_H
#define WM_LAYER_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#define WM_VIEW_DIMS_MAX 8
#define WM_VIEW_FACTORS_MAX 16

typedef struct {
    uint32_t size, stride;
} wm_factor_t;

typedef struct {
    uint32_t n_dim;                          /* without the batch dimension */
    uint32_t n_factor[WM_VIEW_DIMS_MAX];     /* factors of each dimension */
    wm_factor_t factor[WM_VIEW_FACTORS_MAX]; /* of all dimensions, in order */
} wm_layer_view_t;

/* Returns the view of row-major memory (dim[0], dim[1], ...), at most WM_MODEL_DIMS_MAX
   dimensions.  */
wm_layer_view_t wm_view_plain (const uint32_t *dim, uint32_t n_dim);

uint32_t wm_view_size (const wm_layer_view_t *self, uint32_t dim); /* of one dimension */
uint64_t wm_view_values (const wm_layer_view_t *self);             /* of all */

/* Returns whether dimension `dim` has `size` values, `stride` apart (any stride for size 1).  */
bool wm_view_is (const wm_layer_view_t *self, uint32_t dim, uint32_t size, uint64_t stride);

/* Returns whether both have the same values in the same order and shape.  */
bool wm_view_same (const wm_layer_view_t *a, const wm_layer_view_t *b);

/* Gives the same order of values new dimensions. false: no factors express it.  */
bool wm_view_reshape (wm_layer_view_t *self, const uint32_t *dim, uint32_t n_dim);

/* Dimension d becomes what dimension from[d] was; `from` is a permutation.  */
void wm_view_transpose (wm_layer_view_t *self, const uint32_t *from);

/* Returns where value k of the flattened view lies in memory.  */
uint64_t wm_view_offset (const wm_layer_view_t *self, uint64_t k);

#endif
