/* wm_gpu_fake_order.h - what is ordered before what on the stand-in for a GPU.

   Two operations on different streams that touch the same memory, one of them writing, must be
   ordered: by an event that one stream recorded and the other one waits for, or by a wait of the
   host between them. On a real GPU they race else, mostly unseen. Here it is an error of the call
   that queues the second one, whatever order the stand-in would carry them out in. Each stream and
   the host have a vector clock (Mattern 1989): for each stream the number of its operations that
   are known to have ended. Memory is watched by allocation.  */
#ifndef WM_GPU_FAKE_ORDER_H
#define WM_GPU_FAKE_ORDER_H

#include "kernels/gpu/wm_gpu_api.h"

#define FAKE_STREAMS_MAX 8

typedef struct {
    uint32_t ended[FAKE_STREAMS_MAX]; /* operations of each stream, counted from 1 */
} fake_clock_t;

/* Who used an allocation last.  */
typedef struct {
    uint32_t read[FAKE_STREAMS_MAX]; /* the last operation of each stream that read it */
    uint32_t written, writer;        /* the last that wrote it, of stream `writer`; 0: none */
} fake_use_t;

typedef struct {
    fake_clock_t host, stream[FAKE_STREAMS_MAX];
} fake_order_t;

/* Counts an operation on `stream`.  */
void fake_order_begin (fake_order_t *self, uint32_t stream);

/* The operation counted last on `stream` uses this allocation. false: it races.  */
bool fake_order_use (const fake_order_t *self, uint32_t stream, fake_use_t *use, bool writes);

/* What `clock` knows is known to `stream`, or to the host, from now on.  */
void fake_order_join (fake_clock_t *to, const fake_clock_t *clock);

/* Returns whether the kernel writes to the pointer at this offset of its arguments. A kernel that
   is not in the table only reads: a new kernel needs its row.  */
bool fake_order_writes (wm_gpu_kernel_t kernel, size_t offset);

#endif
