/* wm_any_place.h - where the buffers of any CNN lie, and of what type they are. Pure C.

   Buffers share memory: one is given a slot when the first step writes it, and leaves it after the
   last one that reads it. The patches and the scores have memory of their own (wm_cuda_chunks.h).

   In half, a buffer is float32 all the same where half does not hold its values (`beyond`), and
   from the last convolution(s), or the last pool behind them, on, because small errors in the input
   of a softmax change scores. A convolution that reads or writes such a buffer runs in tf32; what
   it reads is converted to its type. Private to kernels/cuda/. Thread: any.  */
#ifndef WM_ANY_PLACE_H
#define WM_ANY_PLACE_H

#include "kernels/cuda/wm_any_net.h"

#define WM_ANY_SLOTS_MAX 48u

typedef struct {
    bool half[WM_ANY_BUFFERS_MAX]; /* a buffer's type */
    bool conv[WM_ANY_STEPS_MAX];   /* a convolution that runs in half */
    uint8_t slot_of[WM_ANY_BUFFERS_MAX];
    uint32_t n_slot;
    size_t slot_bytes[WM_ANY_SLOTS_MAX]; /* a patch */
    size_t scratch_bytes;                /* a patch: what is converted */
} wm_any_place_t;

/* Explains why half cannot hold the weights and biases of a convolution (a text that follows the
   node's name); NULL where it can. Half has no bits below 2^-24, so a filter of tiny weights loses
   its own.  */
const char *wm_any_place_refuse (const wm_any_net_t *net, const wm_any_step_t *conv);

/* beyond (n_buffer), NULL: none is. False without memory, or with more than WM_ANY_SLOTS_MAX
   buffers at once.  */
bool wm_any_place (wm_any_place_t *self, const wm_any_net_t *net, bool half, const bool *beyond);

static inline size_t wm_any_each (bool half)
{
    return half ? sizeof (uint16_t) : sizeof (float);
}

#endif
