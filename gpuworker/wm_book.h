/* wm_book.h - the batches a worker holds, from TASK to RESULT_ACK.

     QUEUED --decoded--> STAGED --scored--> RETURNED --RESULT_ACK--> forgotten
     (REVOKE, drain and failures forget earlier.)

   A result is kept until it is acknowledged, whatever happens to the connection meanwhile. At most
   WM_CREDIT_MAX batches; the memory of a forgotten one is reused by the next.
   Thread: one at a time.  */
#ifndef WM_BOOK_H
#define WM_BOOK_H

#include "schema/wm_msg.h"

typedef enum {
    WM_TASK_FREE,
    WM_TASK_QUEUED,   /* payload as it came */
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
    char again[240]; /* why strict fp32 scored it again; "": it did not */
    size_t result_bytes;
    uint8_t *result_memory;
    size_t result_bytes_max;
} wm_task_t;

typedef struct wm_book_t wm_book_t;

/* Never NULL (asserts on memory).  */
wm_book_t *wm_book_new (uint32_t n_output);
void wm_book_destroy (wm_book_t **self_p);

/* Enters a TASK with a copy of its payload as QUEUED, with room for its result. WM_EAGAIN: the book
   is full or the key is in it; WM_EBATCH: a result of so many hits does not fit a frame; WM_EHOST:
   memory.  */
wm_fault_t wm_book_add (wm_book_t *self, const wm_msg_t *task, const uint8_t *payload, size_t bytes,
                        wm_error_t *error);

/* NULL if not held.  */
wm_task_t *wm_book_find (wm_book_t *self, const wm_key_t *key);

/* The oldest task in this state, NULL for none.  */
wm_task_t *wm_book_oldest (wm_book_t *self, wm_task_state_t state);

void wm_book_forget (wm_book_t *self, wm_task_t *task);

uint32_t wm_book_count (const wm_book_t *self, wm_task_state_t state);
uint32_t wm_book_in_hand (const wm_book_t *self); /* not RETURNED */
uint32_t wm_book_held (const wm_book_t *self);    /* all */

/* Calls `visit` for every task in this state, in order of arrival; visit may forget it.  */
void wm_book_each (wm_book_t *self, wm_task_state_t state, void (*visit) (wm_task_t *, void *),
                   void *argument);

/* The payload of HELLO; returns its entries.  */
uint32_t wm_book_hello (const wm_book_t *self, wm_hello_held_t list[WM_CREDIT_MAX]);

#endif
