/* wm_slots.h - the memory that a worker and its engine process share.

   One anonymous memory file: first a control block and the results, which both write, then the
   batches, which the worker decodes straight into and the engine process can only read. So an
   engine that runs wild can spoil its answer, never a batch that is scored again after it died, and
   nothing that the worker decides by: it reads states, counters and bounded texts here, no pointer
   and no size.

   A slot goes round:  FREE --worker: decoded--> READY --engine--> RUNNING --engine--> DONE --> FREE
   READY can be taken back (FREE) as long as the engine has not begun. Where the engine gains by it,
   several READY slots are scored together (wm_engine.c), but for those that are marked as alone: if
   the engine dies, those that are RUNNING go back to READY so marked. Each side writes a byte to
   the other's end of a socket pair when it has changed a state; the bytes mean nothing else.

   Thread: a slot belongs to whoever its state says.  */
#ifndef WM_SLOTS_H
#define WM_SLOTS_H

#include "schema/wm_batch.h"
#include "schema/wm_limits.h"
#include "schema/wm_pins.h"

#include <limits.h>
#include <stdatomic.h>
#include <sys/types.h>

#define WM_SLOTS_ONE                                                                               \
    2u               /* used where batches are scored one by one: one in the engine, one waiting */
#define WM_SLOTS 16u /* where they go together: as many as fill a GPU, and as many waiting */

typedef enum { WM_SLOT_FREE, WM_SLOT_READY, WM_SLOT_RUNNING, WM_SLOT_DONE } wm_slot_state_t;

typedef struct {
    _Atomic uint32_t state;
    uint32_t first, count; /* the hits to score: all, or a part while a bad one is looked for */
    uint64_t serial;       /* the lowest is scored first */
    uint32_t alone;        /* not together with others */
    uint64_t draw;         /* of the batch's key: whether strict fp32 looks at hits of it */
    /* the batch that lies in this slot */
    uint32_t kind, n_hit, plane, n_wire, n_col, n_run, n_value, patch_values;
    /* the answer */
    wm_error_t error; /* its fault WM_OK with a text: why strict fp32 scored it again */
    double seconds;
    uint32_t again; /* it was */
} wm_slot_t;

typedef struct {
    /* the worker's words, before the process starts */
    pid_t worker;
    char engine[16], precision[8];
    double max_error;     /* of split and fast */
    char trial[PATH_MAX]; /* a TRIAL's payload (wire.abnf); "": of fp32 */
    int32_t threads, pin;
    uint32_t n_output, n_value;
    char model[65]; /* SHA-256 that the model must say it has */
    char model_path[PATH_MAX];
    char spec[sizeof ((wm_pins_t *) 0)->spec];
    /* the process's */
    _Atomic uint64_t progress; /* hits finished */
    _Atomic uint64_t calls;    /* of the device, each with a batch or several */
    _Atomic uint32_t is_ready; /* it has proved itself */
    char signature[64], class[64];
    char strict[64];                        /* signature of what watches it and scores again; "" */
    char taken_precision[8], taken_isa[32]; /* by the first process, and so by all after it; "" */
    double measured;                        /* largest error of n_measured hits; 0: nothing was */
    uint32_t n_measured;
    char refused[160]; /* kernels that were not precise enough */
    struct {
        uint64_t n_hit, n_batch, n_violated;
        double worst, seconds;
    } watch;
    double test_s;    /* the known-answer test took it */
    uint32_t fill;    /* hits that fill its device; 0: it gains nothing by batches together */
    wm_error_t error; /* why it ends, where it knows */
    wm_slot_t slot[WM_SLOTS];
} wm_control_t;

typedef struct {
    int fd;
    wm_control_t *control;
    unsigned n;      /* slots that have memory: address space is scarce where it is capped */
    uint8_t *result; /* n times WM_SLOT_BYTES: status, then scores from WM_SLOT_SCORES */
    uint8_t *batch;  /* n times WM_SLOT_BYTES: the columns */
} wm_slots_t;

/* Status bytes are at most a result's size divided by 5, scores at most all of it.  */
#define WM_SLOT_SCORES (1u << 20)
#define WM_SLOT_BYTES (WM_RAW_BYTES_MAX + WM_SLOT_SCORES)

/* Makes the memory of n slots, at most WM_SLOTS, zeroed. WM_EHOST: none.  */
wm_fault_t wm_slots_make (wm_slots_t *self, unsigned n, wm_error_t *error);

/* Maps it in the engine process, the batches to read only. WM_EHOST: fd is not such memory.  */
wm_fault_t wm_slots_map (wm_slots_t *self, int fd, wm_error_t *error);
void wm_slots_clear (wm_slots_t *self); /* NULL-safe, idempotent */

/* Makes `batch` lie in the slot's memory: decoding into it allocates nothing.  */
void wm_slots_lend (const wm_slots_t *self, unsigned slot, wm_batch_t *batch);

/* Worker: notes what batch lies in the slot.  Engine: points `batch` at the hits to score.  */
void wm_slots_note (const wm_slots_t *self, unsigned slot, const wm_batch_t *batch);
void wm_slots_part (const wm_slots_t *self, unsigned slot, wm_batch_t *batch);

static inline uint8_t *wm_slots_status (const wm_slots_t *self, unsigned slot)
{
    return self->result + (size_t) slot * WM_SLOT_BYTES;
}

static inline float *wm_slots_scores (const wm_slots_t *self, unsigned slot)
{
    return (float *) (void *) (wm_slots_status (self, slot) + WM_SLOT_SCORES);
}

#endif
