/* wm_gpu_fake.h - a GPU made of host memory, deliberately adversarial.

   - Device memory can be read and written only while work of a stream is carried out: a host
     pointer to it is a crash. It lies between pages that can never be touched, and begins as NaN.
   - Asynchronous work is queued, and carried out only when the host waits for it, and no more of it
     than the host waited for. The target of a copy to the host is NaN until then.
   - A kernel's blocks and threads run in another order every time, shared memory begins as NaN;
     wm_gpu_fake_block.c has what the threads of a block do together.
   - Convolutions take factors as tensor cores do: halves, or float32 cut off to 10 bits
     of mantissa (tf32); sums in float32.
   - Two streams that use the same memory, one of them writing, must be ordered by an event or by
     the host (wm_gpu_fake_order.h); what races is an error of the call.
   - Any call can be made to fail, also the run of a graph by a file that holds its number
     (WM_STANDIN_FAIL). Errors are sticky.

   Thread: one. Every call of the table reads the controls.  */
#ifndef WM_GPU_FAKE_H
#define WM_GPU_FAKE_H

#include "kernels/gpu/wm_gpu_api.h"

/* What a kernel did (wm_gpu_fake_count.h).  */
typedef struct {
    uint32_t launches;
    double written, flop, l2; /* bytes to the device's memory; bytes that Dense-1 read */
    double read;              /* bytes, by the kernels for any CNN, and how they read and write: */
    uint64_t accesses, wide;  /* wide: those of 16 bytes */
} wm_gpu_fake_work_t;

typedef struct {
    uint32_t fail_at;     /* the call that fails, from 1; 0: none */
    uint32_t fail_run;    /* the run of a graph that fails, from 1; 0: none */
    bool late;            /* it is accepted, and fails when it is carried out */
    uint32_t bad_convs;   /* candidates whose bits depend on a row's place */
    uint32_t candidates;  /* that there are; 0 is taken for 1 */
    uint32_t greedy;      /* convolutions before this one ask for much workspace */
    size_t free_bytes;    /* 0: 2 GiB */
    size_t shared_bytes;  /* that a block may have; 0: 227 KiB */
    bool no_halves;       /* there is nothing for any convolution in half */
    bool pins_nothing;    /* memory that is there cannot be pinned */
    bool absent;          /* there is no GPU */
    bool captures;        /* calls of cuDNN can be kept in a graph */
    bool forgets;         /* a graph keeps nothing */
    bool no_libraries;    /* there is no cuDNN */
    bool turing;          /* it is sm_75 */
    uint64_t restless;    /* seed: work is also carried out at random times; 0: it is not */
    bool counts;          /* work is counted; Dense-1 gives zeros instead of sums, any
                             convolution ones */
    uint32_t spoil_conv;  /* the run of any convolution, from 1, that makes a value infinite; */
    uint32_t spoil_row;   /* of this row, */
    double spoil_place;   /* so far in it: 0 to 1 */
    uint32_t flip_launch; /* after this dense launch, from 1, a bit of its sums flips */
    /* What it counted.  */
    uint64_t lent_bytes; /* copied from memory that was pinned where it lay */
    uint32_t calls, launches, broken_guards, graph_runs, dense_launches, anyconvs;
    uint32_t misaligned; /* accesses of any CNN's kernels */
    uint32_t infinite;   /* runs of any convolution in half whose row spoil_row is not finite */
    uint64_t mmas, bank_conflicts; /* tensor core instructions; reads of shared memory that wait */
    uint64_t copied_bytes;         /* by threads, asynchronously: through the L2 cache */
    wm_gpu_fake_work_t work[WM_GPU_KERNELS];
    double copied_in; /* bytes, from the host */
    int32_t ranges;   /* begun and not ended */
    uint32_t ranges_begun;
} wm_gpu_fake_t;

extern wm_gpu_fake_t wm_gpu_fake;
extern const wm_gpu_api_t wm_gpu_stand_in;

/* A convolution's arithmetic (wm_gpu_fake_math.c). `bad`: bits depend on the row.  */
void wm_gpu_fake_conv (const wm_gpu_anyconv_t *conv, bool bad, const void *x, const void *weight,
                       const void *bias, void *y);

#endif
