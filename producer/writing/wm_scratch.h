/* wm_scratch.h - the scores of one input while its events come back.

   A file beside the output, without a name, so that nothing is left of it whatever happens;
   mapped into memory, and allocated at once, because a full disk met in a mapping would be a
   SIGBUS. Few rows are kept in memory, without a file. Rows are those of the input. What was never
   written reads as: no event, no engine.
   Thread: one at a time.  */
#ifndef WM_SCRATCH_H
#define WM_SCRATCH_H

#include "schema/base/wm_fault.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t n_row;
    uint32_t n_output;
    float *score;     /* (n_row, n_output); of no meaning unless state says scored */
    uint16_t *engine; /* number of the engine's signature, from 1; 0: none */
    uint8_t *state;   /* status + 1; 0: its event is not in the event table */
    uint8_t *in_fiducial;
    void *map;
    size_t bytes;
} wm_scratch_t;

/* WM_EAGAIN: the disk is full, try again; WM_EHOST: no file can be made in `folder`.  */
wm_fault_t wm_scratch_open (wm_scratch_t *self, const char *folder, uint64_t n_row,
                            uint32_t n_output, wm_error_t *error);

/* NULL-safe, idempotent.  */
void wm_scratch_close (wm_scratch_t *self);

static inline void wm_scratch_hold (wm_scratch_t *self, uint32_t row, uint8_t status)
{
    self->state[row] = (uint8_t) (status + 1);
    self->engine[row] = 0;
}

#endif
