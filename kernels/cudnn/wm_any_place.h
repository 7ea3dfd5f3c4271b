/* wm_any_place.h - where the buffers of any CNN lie, and of what type they are. Pure C.

   Buffers share memory: one is given a slot when the first step writes it, and leaves it after the
   last one that reads it. The patches and the scores have memory of their own (wm_any_chunks.c).

   In half, a buffer is float32 all the same where half does not hold its values (`beyond`), and
   from the last convolution(s), or the last pool behind them, on, because small errors in the input
   of a softmax change scores. A convolution that reads or writes such a buffer runs in tf32; what
   it reads is converted to its type.

   A value that is not finite, in a patch or as half stores it, holds its patch. Our kernels check
   what they read and write anyway (wm_gpu_args.h); only what none of them reads is scanned. Even
   that is not read in a row whose values before that convolution, or a few of them, are so small
   that its weights cannot make anything infinite of them. Private to kernels/cuda/. Thread:
   any.  */
#ifndef WM_ANY_PLACE_H
#define WM_ANY_PLACE_H

#include "kernels/cudnn/wm_any_net.h"

#define WM_ANY_SLOTS_MAX 48u
#define WM_ANY_ROWS_MAX 1024u

typedef struct {
    bool half[WM_ANY_BUFFERS_MAX]; /* a buffer's type */
    bool conv[WM_ANY_STEPS_MAX];   /* a convolution that runs in half */
    uint8_t slot_of[WM_ANY_BUFFERS_MAX];
    uint32_t n_slot;
    size_t slot_bytes[WM_ANY_SLOTS_MAX]; /* a patch */
    size_t scratch_bytes;                /* a patch: what is converted */
    bool scanned[WM_ANY_BUFFERS_MAX];    /* checked by a launch of its own, */
    uint32_t only[WM_ANY_BUFFERS_MAX];   /* in rows in doubt by this buffer; WM_ANY_NONE: in all */
    float bound[WM_ANY_BUFFERS_MAX];     /* a row with a value beyond is in doubt; 0: no matter */
    uint16_t doubt[WM_ANY_BUFFERS_MAX];  /* its flags' number, from 0 */
    uint32_t n_doubt;
} wm_any_place_t;

/* Explains why half cannot hold the weights and biases of a convolution (a text that follows the
   node's name); NULL where it can. Half has no bits below 2^-24, so a filter of tiny weights loses
   its own.  */
const char *wm_any_place_refuse (const wm_any_net_t *net, const wm_any_step_t *conv);

/* beyond (n_buffer), NULL: none is. False without memory, or with more than WM_ANY_SLOTS_MAX
   buffers at once.  */
bool wm_any_place (wm_any_place_t *self, const wm_any_net_t *net, bool half, const bool *beyond);

/* Returns how many patches a launch needs to fill a GPU of n_sm multiprocessors. A tile is 128
   places by 64 channels of a convolution's result. With the least power of two that is enough, of
   WM_ANY_ROWS to WM_ANY_ROWS_MAX, nine tenths of the network's multiply-adds lie in convolutions of
   two tiles or more for each multiprocessor. The number decides bits, so that it depends on network
   and device alone.  */
uint32_t wm_any_rows (const wm_any_net_t *net, int n_sm);

#endif
