/* wm_test_patches.h - the patches of self-tests: drawn from a seed, the same on every machine.

   Private to kernels/.  */
#ifndef WM_TEST_PATCHES_H
#define WM_TEST_PATCHES_H

#include "kernels/model/wm_model.h"

/* Draws the next patch (height, width, channel) of *state, which begins with 1, like those of a
   detector: mostly `zero`, a few tracks up to 15 `unit` high, little noise.  */
void wm_test_patches_draw (uint64_t *state, const wm_net_t *net, float zero, float unit,
                           float *patch);

#endif
