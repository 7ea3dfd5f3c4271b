/* wm_decode.h - decodes batches beside the thread that talks to the broker: where a GPU scores,
   decoding alone would keep that one busier than the GPU.

   Thread: all calls by one thread; the decoder has `threads` of its own. Without any, each batch is
   decoded when it is begun.  */
#ifndef WM_DECODE_H
#define WM_DECODE_H

#include "schema/wm_batch.h"

#define WM_DECODE_THREADS_MAX 3u

/* A task's payload, and the batch that it becomes; all lent until the job has ended.  */
typedef struct wm_decode_job_t wm_decode_job_t;
struct wm_decode_job_t {
    wm_batch_t *batch;
    const uint8_t *payload, *digest; /* digest: of the task's message */
    size_t payload_bytes;
    uint32_t n_hit; /* that the task names */
    /* Of a job that has ended: */
    wm_error_t error; /* its fault: the payload is broken, or not the task's; or WM_OK */
    int64_t ns;       /* that decoding took */
    /* The decoder's: */
    wm_decode_job_t *next;
    bool is_taken; /* a thread is at it */
};

typedef struct wm_decode_t wm_decode_t;

/* With fewer threads where the system gives no more. Never NULL (without memory the process
   ends).  */
wm_decode_t *wm_decode_new (uint32_t threads, const uint8_t pins_digest[16]);

/* Gives up jobs that have not ended.  */
void wm_decode_destroy (wm_decode_t **self_p);

/* Becomes readable when a job has ended, until wm_decode_next returns NULL.  */
int wm_decode_fd (const wm_decode_t *self);

/* Begins a job: the payload is decoded into the batch, and its digest checked.  */
void wm_decode_begin (wm_decode_t *self, wm_decode_job_t *job);

/* Returns a job that has ended, NULL for none.  */
wm_decode_job_t *wm_decode_next (wm_decode_t *self);

/* Gives up a job that was begun and not returned; waits for a thread that is at it.  */
void wm_decode_cancel (wm_decode_t *self, wm_decode_job_t *job);

#endif
