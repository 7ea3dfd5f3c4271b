/* wm_batch.h - a batch of patches: the unit of dispatch, lease and retry, and its payload.

   A batch is one plane of one event with its hits (or a slice of its hits), or N ready-made
   patches of one event. It travels as a payload frame:

     PLANE   the zero-suppressed runs of the plane and the cells of the hits; the worker
             cuts the patches. In drift bins (full view: values are downscaled and scaled, Z
             between the runs) or in ticks (own view: values are adc x lifetime factor, 0 between).
     STACK   patches of several channels: the planes of the channels, one below the other in one
             plane of runs in drift bins, and n_cell cells a hit, one for each channel. Between the
             planes lie so many wires without runs that no patch reaches from one into the next. A
             channel that is Z everywhere has a cell outside the plane.
     PATCHES dense patches, float32, the model's inputs one after another per hit.

   Runs are in (wire, first) order, do not overlap, and lie inside the plane.
   Hits are in (wire, col) order as the producer sorted them; row i of a result is hit i.
   The digest covers the raw columns and the specification, never encoded bytes, so that a rerun
   of the same input gives the same digest whatever the compressor does.

   Thread: one at a time per object.  */
#ifndef WM_BATCH_H
#define WM_BATCH_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Identifies a batch in its campaign. generation: `kick` adds one, the highest wins.  */
typedef struct {
    uint32_t input, ordinal, batch, generation;
} wm_key_t;

typedef enum {
    WM_BATCH_BINS = 1,    /* plane in drift bins */
    WM_BATCH_TICKS = 2,   /* plane in ticks */
    WM_BATCH_PATCHES = 3, /* dense patches */
    WM_BATCH_STACK = 4,   /* planes of several channels, in drift bins */
} wm_batch_kind_t;

#define WM_BATCH_CELLS_MAX 8u /* channels of a patch */

/* Status of one hit: 0 scored, else held with this reason and NaN scores.  */
typedef enum {
    WM_HIT_SCORED = 0,
    WM_HIT_BAD_TIME = 1,  /* peak time not finite, or beyond 2^30 ticks */
    WM_HIT_BAD_WIRE = 2,  /* wire outside its plane, or no such plane */
    WM_HIT_BAD_PIXEL = 3, /* its patch holds a non-finite pixel */
    WM_HIT_POISON = 4,    /* it kills the engine */
    WM_HIT_HELD = 5,      /* its batch is held: attempts used up, or an alarm; or the model does not
                             take it (a refusal, wm_ragged.h) */
    WM_HIT_NONFINITE = 6, /* the engine answered with a non-finite score; clients': with a NaN */
    WM_HIT_NO_EVENT = 7,  /* its event is not in the file */
} wm_hit_status_t;
#define WM_HIT_STATUSES 8u /* those above; a larger one in a message is refused */

/* One word per reason, for tables and messages ("scored", "bad time", ...). Never NULL.  */
const char *wm_hit_status_text (uint8_t status);

typedef struct {
    wm_batch_kind_t kind;
    uint32_t n_hit; /* rows of the result */

    /* WM_BATCH_BINS, WM_BATCH_TICKS, WM_BATCH_STACK */
    uint32_t plane;         /* 0 of a STACK; index into the specification's amplitudes */
    uint32_t n_wire, n_col; /* size of the plane: wires, and drift bins or ticks */
    uint32_t n_run, n_value;
    uint32_t *run_wire, *run_first, *run_length; /* (n_run) */
    float *value;                                /* (n_value): the runs' values, run after run */
    uint32_t *hit_wire;                          /* (n_hit, cells), < n_wire */
    int32_t
        *hit_col; /* likewise: (int)((float) t / W) in bins, (int) t in ticks; may lie outside */

    union {
        uint32_t patch_values; /* WM_BATCH_PATCHES: values a patch */
        uint32_t n_cell;       /* WM_BATCH_STACK: 2 to WM_BATCH_CELLS_MAX, cells a hit */
    };
    float *patch; /* WM_BATCH_PATCHES: (n_hit, patch_values) */

    /* Memory behind the pointers after wm_batch_reserve or wm_batch_decode; owned, reused.  */
    void *memory;
    size_t memory_bytes;
    bool is_lent; /* the memory is another's, and never grows */
} wm_batch_t;

/* Returns the cells of a hit of this batch, 1 where it is no stack; 0 of ready patches.  */
static inline uint32_t wm_batch_cells (const wm_batch_t *self)
{
    return self->kind == WM_BATCH_PATCHES ? 0 : self->kind == WM_BATCH_STACK ? self->n_cell : 1;
}

/* Returns whether a hit has the cells of the hit before it, and so its patch.  */
bool wm_batch_repeats (const wm_batch_t *self, uint32_t hit);

/* Frees the memory and zeroes the batch. NULL-safe, idempotent.  */
void wm_batch_clear (wm_batch_t *self);

/* Points the columns of `self` at memory of its own for the counts already set in it (kind, n_hit,
   n_run, n_value or patch_values). Grows only; nothing is allocated when the memory is large
   enough. WM_EBATCH where the raw size would pass WM_RAW_BYTES_MAX, WM_EHOST without memory.  */
wm_fault_t wm_batch_reserve (wm_batch_t *self, wm_error_t *error);

/* Raw bytes of the columns: what the limits count. UINT64_MAX where 64 bits do not hold them.  */
uint64_t wm_batch_raw_bytes (const wm_batch_t *self);

/* XXH3-128 over the raw columns and `pins_digest`.  */
void wm_batch_digest (const wm_batch_t *self, const uint8_t pins_digest[16], uint8_t digest[16]);

/* Compression contexts and work space for encoding and decoding, reused from call to call.
   Thread: one at a time.  */
typedef struct wm_coder_t wm_coder_t;
wm_coder_t *wm_coder_new (void); /* never NULL (without memory the process ends) */
/* Its frames stay on this machine: speed counts, their size little.  */
void wm_coder_stays_here (wm_coder_t *self);
void wm_coder_destroy (wm_coder_t **self_p);

/* Largest encoded size of this batch; at most WM_FRAME_BYTES_MAX for a batch within the limits.  */
size_t wm_batch_encode_bound (const wm_batch_t *self);

/* Encodes into `frame` (capacity at least wm_batch_encode_bound), sets *bytes. Columns are
   delta-coded and byte-shuffled, then everything is compressed with zstd (level 1).  */
wm_fault_t wm_batch_encode (const wm_batch_t *self, wm_coder_t *coder, uint8_t *frame,
                            size_t bytes_max, size_t *bytes, wm_error_t *error);

/* Decodes a frame from a peer into `self`, reusing its memory. Everything that this header
   promises of a batch is checked: WM_EPEER names the first broken rule. Compare wm_batch_digest
   with the digest of the message that brought it: the frame itself carries no checksum.  */
wm_fault_t wm_batch_decode (wm_batch_t *self, wm_coder_t *coder, const uint8_t *frame, size_t bytes,
                            wm_error_t *error);

/* A result: status (n_hit) then float32 scores (n_hit, n_output), one raw frame.  */
static inline size_t wm_result_bytes (uint32_t n_hit, uint32_t n_output)
{
    return (size_t) n_hit * (1 + 4 * (size_t) n_output);
}

#endif
