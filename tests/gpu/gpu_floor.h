/* gpu_floor.h - what each version of the engine has to do for an event: counted, not measured.  */
#ifndef GPU_FLOOR_H
#define GPU_FLOOR_H

#include "tests/gpu/gpu_net.h"

typedef struct {
    double tensor_flop;  /* executed by tensor cores, padding and checksum included */
    double memory_bytes; /* each array once in, once out */
    double l2_bytes;     /* that the first dense layer's blocks read; version 1: not counted, 0 */
    double active;       /* share of (hit, position) pairs */
} gpu_work_t;

/* Work of versions 1 to 3 in half, in work[1] to work[3], for the network of gpu_shape_real.  */
void gpu_count_work (const wm_batch_t *batch, const wm_spec_t *spec, gpu_work_t work[4]);

#endif
