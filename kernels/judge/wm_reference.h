/* wm_reference.h - the reference arithmetic: a family network on patches, in double.

   Private to kernels/: the reference engine and the importer's known answers use it.
   Thread: one at a time per object; the network is lent.  */
#ifndef WM_REFERENCE_H
#define WM_REFERENCE_H

#include "kernels/model/wm_model.h"

#define WM_REFERENCE_BLOCK 16 /* patches that share a pass over the weights, at most */

typedef struct wm_reference_t wm_reference_t;

/* NULL without memory.  */
wm_reference_t *wm_reference_new (const wm_net_t *net);
void wm_reference_destroy (wm_reference_t **self_p);

/* Scores `count` patches: patches (count, height, width, channel), scores (count, n_output). A
   non-finite pixel or weight gives non-finite scores.  */
void wm_reference_run (wm_reference_t *self, const float *patches, uint32_t count, float *scores,
                       uint32_t n_output);

/* Returns the largest magnitude of a layer's sums in all runs so far. Engines hold these sums in
   float32.  */
double wm_reference_peak (const wm_reference_t *self);

#endif
