/* wm_same_bits.h - whether two ways of computing a general model give one patch the same bits.

   An engine pins one way, whose bits are a campaign's. Another way (other sizes of a block, more
   threads on it) may be faster, and rounds as the pinned one only if it adds in the same order.
   That depends on the model's layers and on the library's kernels, never on the patch. So it is
   shown once, on patches that round: their scores are compared bit by bit. Scores that are whole,
   or the same for every patch, show nothing, as those of a saturated softmax: then the answer is
   no. Private to kernels/.  Thread: one at a time.  */
#ifndef WM_SAME_BITS_H
#define WM_SAME_BITS_H

#include "kernels/wm_device.h"

/* As score of wm_backend_t, without progress.  */
typedef wm_fault_t (wm_same_bits_fn) (void *engine, const wm_batch_t *batch, uint8_t *status,
                                      float *scores, wm_error_t *error);

/* Scores patches one by one, by the pinned way once and by the other twice. Dense models only.
   false also if either fails.  */
bool wm_same_bits (const wm_model_t *model, wm_same_bits_fn *pinned, wm_same_bits_fn *other,
                   void *engine);

#endif
