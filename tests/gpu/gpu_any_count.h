/* gpu_any_count.h - what the kernels for any CNN do for a network: counted on the stand-in.  */
#ifndef GPU_ANY_COUNT_H
#define GPU_ANY_COUNT_H

#include "kernels/cudnn/wm_any.h"
#include "tests/standin/wm_gpu_fake.h"

typedef struct {
    wm_gpu_precision_t precision;
    uint32_t rows;                           /* patches a launch */
    wm_gpu_fake_work_t work[WM_GPU_KERNELS]; /* of one launch of all of them */
    uint32_t launches;                       /* of our kernels */
    double read, written;                    /* bytes a patch, by our kernels */
    double wide;                             /* share of them by accesses of 16 bytes */
} gpu_any_counted_t;

/* Counts; no convolution is computed. False with *error where the engine cannot be made.  */
bool gpu_any_count (const wm_any_net_t *net, wm_gpu_precision_t precision, uint32_t rows,
                    gpu_any_counted_t *counted, wm_error_t *error);

/* Prints a row a kernel, and one of all; the head of the table beforehand.  */
void gpu_any_counted_head (void);
void gpu_any_counted_print (const gpu_any_counted_t *counted, const char *what);

#endif
