/* wm_tasks.h - the batches that a lane has, from TASK to RESULT_ACK.

     QUEUED --decoded--> STAGED --scored--> RETURNED --RESULT_ACK--> forgotten
     (REVOKE, drain and failures forget a batch earlier.)

   A result is kept until the broker acknowledges it, whatever happens to the connection meanwhile.
   At most WM_CREDIT_MAX batches; the next batch reuses the memory of a forgotten one.
   Thread: one at a time.  */
#ifndef WM_TASKS_H
#define WM_TASKS_H

#include "schema/session/wm_msg.h"

typedef enum {
    WM_TASK_FREE,
    WM_TASK_QUEUED,   /* payload as received */
    WM_TASK_STAGED,   /* decoded into a slot: next for the engine, or in it */
    WM_TASK_RETURNED, /* result sent, not acknowledged */
} wm_task_state_t;

typedef struct {
    wm_task_state_t state;
    wm_key_t key;
    uint8_t digest[16];
    uint32_t n_batch, n_hit, attempt;
    uint64_t serial; /* order of arrival */
    uint8_t *payload;
    size_t payload_bytes, payload_bytes_max;
    uint8_t *status; /* (n_hit), then the scores: one result frame of result_bytes */
    float *scores;   /* (n_hit, n_output) */
    char again[240]; /* why strict fp32 scored the batch again; "": it did not */
    size_t result_bytes;
    uint8_t *result_memory;
    size_t result_bytes_max;
} wm_task_t;

typedef struct wm_tasks_t wm_tasks_t;

/* Never NULL (asserts on memory).  */
wm_tasks_t *wm_tasks_new (uint32_t n_output);
void wm_tasks_destroy (wm_tasks_t **self_p);

/* Adds a TASK as QUEUED with a copy of its payload and room for its result. WM_EAGAIN: the table is
   full or has the key; WM_EBATCH: a result of so many hits does not fit a frame; WM_EHOST: no
   memory.  */
wm_fault_t wm_tasks_add (wm_tasks_t *self, const wm_msg_t *task, const uint8_t *payload,
                         size_t bytes, wm_error_t *error);

/* Returns the batch of this key, NULL for none.  */
wm_task_t *wm_tasks_find (wm_tasks_t *self, const wm_key_t *key);

/* Returns the oldest task in this state, NULL for none.  */
wm_task_t *wm_tasks_oldest (wm_tasks_t *self, wm_task_state_t state);

void wm_tasks_forget (wm_tasks_t *self, wm_task_t *task);

uint32_t wm_tasks_count (const wm_tasks_t *self, wm_task_state_t state);
uint32_t wm_tasks_unscored (const wm_tasks_t *self); /* not RETURNED */
uint32_t wm_tasks_all (const wm_tasks_t *self);

/* Calls `visit` for every task in this state, in order of arrival; visit may forget it.  */
void wm_tasks_each (wm_tasks_t *self, wm_task_state_t state, void (*visit) (wm_task_t *, void *),
                    void *argument);

/* Fills in the payload of HELLO. Returns the number of its entries.  */
uint32_t wm_tasks_hello (const wm_tasks_t *self, wm_hello_held_t list[WM_CREDIT_MAX]);

#endif
