/* gpu_event.h - an event as `wiremill synth` makes it, as the batches that a producer sends of it.

   From a seed, in memory: no file, no HDF5, nothing compressed. Event 1 of seed 1 with 55,000 hits
   is the default synthetic event, batch by batch what a campaign under protodune-2021 scores.  */
#ifndef GPU_EVENT_H
#define GPU_EVENT_H

#include "kernels/patch/wm_spec.h"
#include "producer/files/wm_event.h"
#include "schema/wm_batch.h"

typedef struct {
    wm_batch_t *batch;
    uint32_t n_batch, n_hit;
} gpu_event_t;

/* `number`: of the event, from 1. Asserts on memory.  */
void gpu_event_new (gpu_event_t *self, const wm_spec_t *spec, double hits, uint64_t seed,
                    uint64_t number);
/* The batches of any event.  */
void gpu_event_cut (gpu_event_t *self, const wm_spec_t *spec, const wm_event_t *event);
void gpu_event_free (gpu_event_t *self);

#endif
