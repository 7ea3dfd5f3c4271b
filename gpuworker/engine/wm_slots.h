/* wm_slots.h - the memory that a worker and its engine process share.

   One anonymous memory file: a control block and the results, which both sides write, and the
   batches, which the worker decodes into and the engine process can only read. An engine that
   writes to wrong addresses can therefore spoil its own answer only: not a batch, which is scored
   again after a crash, and no decision of the worker, which reads states, counters and bounded
   texts here, but no pointers and no sizes.

   Hand-over of a slot. Its state decides which side may touch the rest of the slot:

     state    owner    next state
     FREE     worker   READY: the worker has decoded a batch into the slot and submits it
     READY    neither  RUNNING: the engine process takes it; or FREE: the worker takes it back. Both
                       use compare-and-swap, so that exactly one of them succeeds.
     RUNNING  engine   DONE: status and scores are written
     DONE     worker   FREE: the worker has copied the answer

   If the engine process dies, the worker owns the slots that are RUNNING: a single one becomes FREE
   and is reported as the one it died of; several become READY again, marked `alone`. An engine that
   gains by it scores several READY slots in one call (wm_engine_process.c), and a GPU has many of
   them RUNNING, but never one that is marked `alone` with others. A state is stored after the data
   that it hands over (sequentially consistent atomics). Whoever changes a state then writes a byte
   to the socket pair, which wakes the other side; the bytes carry no information, so that a lost
   one only costs time.  */
#ifndef WM_SLOTS_H
#define WM_SLOTS_H

#include "schema/wm_batch.h"
#include "schema/wm_limits.h"
#include "schema/wm_pins.h"

#include <limits.h>
#include <stdatomic.h>
#include <sys/types.h>

/* Of an engine that scores batches one by one: one in the engine, one that waits.  */
#define WM_SLOTS_ONE 2u
/* Of one that gathers batches: as many as fill it, and as many that wait. Of large batches three
   are staged (wm_lane_work.c): two in the engine (wm_device_hands), one that waits.  */
#define WM_SLOTS_GATHER 16u
#define WM_SLOTS_LARGE 3u
/* Of a GPU: the batches of several launches. So many launches' hits are submitted to it: one
   computes, one waits behind it, one is laid out.  */
#define WM_SLOTS 64u
#define WM_LAUNCHES 3u

typedef enum { WM_SLOT_FREE, WM_SLOT_READY, WM_SLOT_RUNNING, WM_SLOT_DONE } wm_slot_state_t;

typedef struct {
    _Atomic uint32_t state;
    uint32_t first, count; /* the hits to score: all, or a part while a bad one is searched */
    uint64_t serial;       /* the lowest is scored first */
    uint32_t alone;        /* not together with others */
    uint64_t draw;         /* hash of the batch's key: chooses hits that strict fp32 checks */
    /* shape of the batch in this slot */
    uint32_t kind, n_hit, plane, n_wire, n_col, n_run, n_value, patch_values;
    /* the answer */
    wm_error_t error; /* fault WM_OK with a text: why strict fp32 scored the batch again */
    double seconds;
    uint32_t again; /* 1: strict fp32 scored it again */
} wm_slot_t;

/* A thread of the engine process that calls the device, or beside a GPU the one that checks its
   scores. The worker watches each of them, so that a call that hangs shows beside one that goes
   on.  */
#define WM_HANDS 2u
typedef struct {
    _Atomic uint64_t serial;   /* of a slot at work; 0: no call, or it waits */
    _Atomic uint64_t progress; /* hits finished */
} wm_hand_t;

/* What the engine auto knows of this machine's GPU. A process that ends while it tries the GPU, by
   CUDA first, then by OpenCL, leaves TRIED; the next one goes on behind that (wm_scorer.c).  */
typedef enum {
    WM_GPU_UNTRIED,
    WM_GPU_TRIED_CUDA,
    WM_GPU_NOT_BY_CUDA, /* OpenCL is untried */
    WM_GPU_TRIED_OPENCL,
    WM_GPU_DECLINED,
    WM_GPU_TAKEN_CUDA,
    WM_GPU_TAKEN_OPENCL,
} wm_gpu_try_t;

typedef struct {
    /* written by the worker, before the process starts */
    pid_t worker;
    char engine[PATH_MAX], precision[8]; /* engine: also a plug-in's file */
    double max_error;     /* of split and fast */
    char trial[PATH_MAX]; /* file with a TRIAL's payload (wire.abnf), of has_trial; "": fp32 */
    int32_t threads, pin, keeps_infinite;
    uint32_t n_output, n_value;
    char model[65]; /* SHA-256 of the network that the model file must name */
    char model_path[PATH_MAX];
    char spec[sizeof ((wm_pins_t *) 0)->spec];
    /* written by the worker, later */
    _Atomic uint32_t has_trial;
    /* written by the engine process */
    wm_hand_t hand[WM_HANDS];  /* the first also counts hits before the process is ready */
    _Atomic uint64_t calls;    /* of the device, or launches, each with a batch or several */
    _Atomic uint32_t is_ready; /* it has passed its self-test */
    char signature[64], class[64];
    char by[16];     /* the engine that was opened, of "auto" the one that it took */
    char strict[64];                        /* signature of the engine that checks it; "" */
    char taken_precision[8], taken_isa[32]; /* of the first process and all after it; "" */
    double measured;                        /* largest error of n_measured hits */
    uint32_t n_measured;
    char refused[160]; /* kernels that were not precise enough */
    uint32_t gpu;      /* WM_GPU_...: what became of it, of the engine auto */
    struct {
        uint64_t n_hit, n_batch, n_violated;
        double worst, seconds;
    } watch;
    double busy_s, idle_s; /* of its threads, as wm_device_busy */
    double test_s;         /* duration of the self-test */
    uint32_t fill;         /* hits needed to saturate the device; 0: one batch is enough */
    uint32_t most_slots;   /* to use, where there are so many */
    uint64_t enough;       /* hits to have in slots: those at work, and those that wait */
    wm_error_t error;      /* why it ends, if it knows */
    uint32_t n_slot;
    uint64_t slot_bytes; /* written before the engine process begins */
    wm_slot_t slot[WM_SLOTS];
} wm_control_t;

typedef struct {
    int fd;
    wm_control_t *control;
    unsigned n;      /* slots that have memory: a batch system may limit address space */
    size_t bytes;    /* of a slot's result and of its batch: WM_SLOT_BYTES, more for an image */
    uint8_t *result; /* n times `bytes`: status, then scores from WM_SLOT_SCORES */
    uint8_t *batch;  /* n times `bytes`: the columns */
} wm_slots_t;

/* Status bytes are at most a result's size divided by 5, scores at most all of it.  */
#define WM_SLOT_SCORES (1u << 20)
#define WM_SLOT_BYTES (WM_RAW_BYTES_MAX + WM_SLOT_SCORES)

/* Returns the bytes of a slot in a campaign.  */
size_t wm_slots_bytes (uint64_t n_value, uint64_t n_output);

/* Creates the memory of n slots, at most WM_SLOTS, zeroed. WM_EHOST: no memory.  */
wm_fault_t wm_slots_make (wm_slots_t *self, unsigned n, size_t bytes, wm_error_t *error);

/* Maps it in the engine process, the batches read-only. WM_EHOST: fd is not such memory.  */
wm_fault_t wm_slots_map (wm_slots_t *self, int fd, wm_error_t *error);
void wm_slots_clear (wm_slots_t *self); /* NULL-safe, idempotent */

/* Forgets what an engine that is not taken found out: the next one measures by itself.  */
void wm_slots_forget_engine (wm_control_t *control);

/* Points `batch` at the slot's memory: decoding into it allocates nothing.  */
void wm_slots_lend (const wm_slots_t *self, unsigned slot, wm_batch_t *batch);

/* Worker: writes the batch's shape into the slot.  */
void wm_slots_note (const wm_slots_t *self, unsigned slot, const wm_batch_t *batch);

/* Engine process: points `batch` at the hits to score.  */
void wm_slots_part (const wm_slots_t *self, unsigned slot, wm_batch_t *batch);

static inline uint8_t *wm_slots_status (const wm_slots_t *self, unsigned slot)
{
    return self->result + slot * self->bytes;
}

static inline float *wm_slots_scores (const wm_slots_t *self, unsigned slot)
{
    return (float *) (void *) (wm_slots_status (self, slot) + WM_SLOT_SCORES);
}

#endif
