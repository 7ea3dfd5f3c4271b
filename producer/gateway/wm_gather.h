/* wm_gather.h - gathers the rows of many requests into batches, and scatters their scores.

   Requests wait in the order of their priority, then of their clients' turns: a turn counts the
   rows that a client has had sent, so that one with little to do goes before one with much, and
   none waits for ever. Batches are cut from the front: at once where no batch is under way, else
   when one is full or the oldest request has waited max_delay; a large request becomes several. At
   most in_flight bytes are under way: all other requests stay with their transports, which then
   read no more. A row's score does not depend on its batch.

   A row with a non-finite value is not sent: its scores are NaN, and it counts as held. A batch
   that the broker gives up is sent again, each request's rows alone, RETRIES times: a row that
   kills engines costs the others nothing. Rows of a request that was cancelled are not
   sent, or their scores are dropped. Thread: the loop's.  */
#ifndef WM_GATHER_H
#define WM_GATHER_H

#include "producer/gateway/wm_kserve.h"
#include "producer/gateway/wm_link.h"
#include "producer/gateway/wm_signature.h"

typedef struct wm_gather_t wm_gather_t;

typedef struct {
    const char *model, *version; /* as answers name them */
    const wm_signature_t *signature;
    int64_t max_delay_us;
    size_t in_flight_bytes;
    uint32_t default_priority;
} wm_gather_how_t;

/* What statistics are made of. Times in microseconds.  */
#define WM_GATHER_SIZES 10 /* batches of up to 1, 2, 4 ... rows; the last: of more */
typedef struct {
    uint64_t n_success, n_fail, n_cancel, n_row, n_batch, n_held, n_again;
    uint64_t success_us, fail_us, queue_us, infer_us;
    int64_t last_ms; /* of 1970 */
    uint64_t size_n[WM_GATHER_SIZES], size_us[WM_GATHER_SIZES];
} wm_gather_counts_t;

/* `how` is copied, what it points to is lent. The link's calls `answered` go to
   wm_gather_answered.  */
wm_gather_t *wm_gather_new (wm_loop_t *loop, wm_link_t *link, const wm_gather_how_t *how);

/* Answers what is left as UNAVAILABLE with `text`.  */
void wm_gather_destroy (wm_gather_t **self_p, const char *text);

/* Takes a request, whose `backend` it sets; answers it where it is refused.  */
void wm_gather_add (wm_gather_t *self, wm_ks_request_t *request);
/* The request was taken and not answered.  */
void wm_gather_cancel (wm_ks_request_t *request);

void wm_gather_answered (wm_gather_t *self, wm_link_batch_t *batch, const uint8_t *status,
                         const uint8_t *score, const char *text);

uint32_t wm_gather_n_request (const wm_gather_t *self); /* not answered */
uint32_t wm_gather_n_waiting (const wm_gather_t *self); /* of those, not all in batches */
const wm_gather_counts_t *wm_gather_counts (const wm_gather_t *self);

#endif
