/* gpu_floor.h - what the engine has to do for an event: counted, not measured.  */
#ifndef GPU_FLOOR_H
#define GPU_FLOOR_H

#include "tests/gpu/gpu_net.h"
#include "tests/standin/wm_gpu_fake.h"

typedef struct {
    double tensor_flop;  /* executed by tensor cores, padding and checksum included */
    double memory_bytes; /* each array once in, once out */
    double l2_bytes;     /* that the first dense layer's blocks read */
    double active;       /* share of (hit, position) pairs */
} gpu_work_t;

/* Work in half for the network of gpu_shape_real.  */
void gpu_count_work (const wm_batch_t *batch, const wm_spec_t *spec, gpu_work_t *work);

/* What our kernels do for an event, as counted by the stand-in.  */
typedef struct {
    uint32_t n_hit;
    wm_gpu_fake_work_t work[WM_GPU_KERNELS];
    double copied_in; /* bytes, from the host */
} gpu_counted_t;

/* Lays these batches out as the engine does and counts; no sum is computed. Asserts on memory.
   free: bytes of the GPU, which decide how much a launch takes.  */
void gpu_count_kernels (const wm_net_t *net, const wm_spec_t *spec, wm_gpu_precision_t precision,
                        uint32_t n, const wm_batch_t *const *batch, size_t free_bytes,
                        gpu_counted_t *counted);

/* Bytes that the kernels and the copies write for 55,000 hits.  */
double gpu_counted_written (const gpu_counted_t *counted);

/* Prints a row a kernel.  */
void gpu_counted_print (const gpu_counted_t *counted, const char *what);

#endif
