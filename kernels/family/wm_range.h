/* wm_range.h - whether half precision, which ends at 65,504, can hold a network's convolutions.

   Interval arithmetic over all patches whose values are within +-limit: a proof, not a sample.
   Engines sum in float32, so only the values stored between layers and the weights must fit.
   Private to kernels/.  Thread: any.  */
#ifndef WM_RANGE_H
#define WM_RANGE_H

#include "kernels/model/wm_model.h"

#define WM_HALF_MAX 65504.0

/* Sets *limit to the largest power of two (2^15 at most; or `need`, if that is more) within which
   half holds. WM_EBATCH names a weight that is too large, or the convolution that can be beyond it
   on patches within +-need already (0: within +-2^-10).  */
wm_fault_t wm_range_half (const wm_net_t *net, double need, double *limit, wm_error_t *error);

/* Returns the largest magnitude that a convolution can reach on patches within +-limit; infinite
   without memory.  */
double wm_range_bound (const wm_net_t *net, double limit);

#endif
