/* wm_view.h - how a tensor of the graph looks at the memory of ours. Private to kernels/.

   Exporters transpose, reshape and flatten between layers. None of that moves data here: a view
   says, per dimension behind the batch, which strides of the layer's own channels-last memory it
   runs over. A dimension is a list of factors (size, stride), slowest first, because a flattened
   transpose has no single stride: (c, h, w) flattened from (h, w, c) memory is one dimension of
   three factors. Dimensions of size 1 have none.  Thread: any.  */
#ifndef WM_VIEW_H
#define WM_VIEW_H

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
} wm_view_t;

/* Memory as it lies: (dim[0], dim[1], ...), row-major. At most WM_MODEL_DIMS_MAX dimensions.  */
wm_view_t wm_view_plain (const uint32_t *dim, uint32_t n_dim);

uint32_t wm_view_size (const wm_view_t *self, uint32_t dim); /* of one dimension */
uint64_t wm_view_values (const wm_view_t *self);             /* of all */

/* True if dimension `dim` has `size` values, one `stride` apart (any stride for size 1).  */
int wm_view_is (const wm_view_t *self, uint32_t dim, uint32_t size, uint64_t stride);

/* Whether both look at the same values in the same way.  */
int wm_view_same (const wm_view_t *a, const wm_view_t *b);

/* New dimensions over the same order of values; 0 where no factors express it.  */
int wm_view_reshape (wm_view_t *self, const uint32_t *dim, uint32_t n_dim);

/* Dimension d becomes what dimension from[d] was; `from` is a permutation.  */
void wm_view_transpose (wm_view_t *self, const uint32_t *from);

/* Where value k of the flattened view lies in memory.  */
uint64_t wm_view_offset (const wm_view_t *self, uint64_t k);

#endif
