/* wm_gpu_fake.h - a GPU made of host memory, deliberately adversarial.

   - Device memory can be read and written only while work of a stream is carried out: a host
     pointer to it is a crash. It lies between pages that can never be touched, and begins as NaN.
   - Asynchronous work is queued, and carried out only when the host waits for it, and no more of it
     than the host waited for. The target of a copy to the host is NaN until then.
   - A kernel's blocks and threads run in another order every time, shared memory begins as NaN;
     wm_gpu_fake_block.c has what the threads of a block do together.
   - Convolution and product take factors as tensor cores do: halves, or float32 cut off to 10 bits
     of mantissa (tf32); sums in float32.
   - Any call can be made to fail, also the run of a graph by a file that holds its number
     (WM_STANDIN_FAIL). Errors are sticky.

   Thread: one. Every call of the table reads the controls.  */
#ifndef WM_GPU_FAKE_H
#define WM_GPU_FAKE_H

#include "kernels/cuda/wm_gpu_api.h"

typedef struct {
    uint32_t fail_at;              /* the call that fails, from 1; 0: none */
    uint32_t fail_run;             /* the run of a graph that fails, from 1; 0: none */
    bool late;                     /* it is accepted, and fails when it is carried out */
    uint32_t bad_convs, bad_gemms; /* candidates whose bits depend on a row's place */
    uint32_t candidates;           /* that there are of each; 0 is taken for 1 */
    uint32_t greedy;               /* convolutions before this one ask for much workspace */
    size_t free_bytes;             /* 0: plenty */
    size_t shared_bytes;           /* that a block may have; 0: 227 KiB */
    bool no_halves;                /* there is nothing for any convolution in half */
    bool pins_nothing;             /* memory that is there cannot be pinned */
    bool absent;                   /* there is no GPU */
    bool turing;                   /* it is sm_75 */
    uint32_t flip_launch;          /* after this dense launch, from 1, a bit of its sums flips */
    /* What it counted.  */
    uint64_t lent_bytes; /* copied from memory that was pinned where it lay */
    uint32_t calls, launches, broken_guards, graph_runs, dense_launches;
    uint64_t mmas, bank_conflicts; /* tensor core instructions; reads of shared memory that wait */
    uint64_t copied_bytes;         /* by threads, asynchronously: through the L2 cache */
    int32_t ranges;                /* begun and not ended */
    uint32_t ranges_begun;
} wm_gpu_fake_t;

extern wm_gpu_fake_t wm_gpu_fake;
extern const wm_gpu_api_t wm_gpu_stand_in;

/* `n` factors of the precision's type as float32, rounded as it multiplies; the caller frees
   them.  */
float *wm_gpu_fake_factors (wm_gpu_precision_t precision, const void *from, size_t n);

/* The arithmetic (wm_gpu_fake_math.c). `bad`: rows from the eighth on are summed backwards.  */
void wm_gpu_fake_conv (const wm_gpu_conv_t *conv, bool bad, const void *x, const void *weight,
                       const void *bias, void *y);
void wm_gpu_fake_anyconv (const wm_gpu_anyconv_t *conv, bool bad, const void *x, const void *weight,
                          const void *bias, void *y);
void wm_gpu_fake_gemm (const wm_gpu_gemm_t *gemm, bool bad, const void *a, const void *b, float *c);

#endif
