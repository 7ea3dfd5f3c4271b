/* wm_gather.h - gathers the rows of many requests into batches, and scatters their scores.

   Requests wait in the order of their priority, then of their clients' turns: a turn counts the
   rows that a client has had sent, so that one with little to do goes before one with much, and
   each has its turn. Batches are cut from the front: at once where no batch is under way, else
   when one is full or the oldest request has waited max_delay; a large request becomes several.
   Where the configuration states its own delay (wm_batching_t) so many rows are full, and a batch
   waits for them, too, where none is under way. At
   most in_flight bytes are under way: all other requests stay with their transports, which then
   read no more. A row's score does not depend on its batch.

   A row with a NaN, or an infinity that the model does not take, is not sent: its scores are NaN,
   and it counts as held. A request
   with held rows is refused where it is_strict, or where it wants integers of them: an integer
   cannot be NaN. A batch
   that the broker gives up is sent again, each request's rows alone, RETRIES times: a row that
   kills engines costs the others nothing. A ragged row goes alone in its batch; one that the model
   does not take fails its request, with the reason. Rows of a request that was cancelled are not
   sent, or their scores are dropped.

   Scores are put into the answer's tensors as they come. These are counted as the request's memory
   from the beginning (`keep` of wm_transport_calls_t), with the classes that take their place. The
   length of a ragged row of scores shows when it comes: it is counted then, and while memory is
   short ragged rows go one at a time. Thread: the loop's.  */
#ifndef WM_GATHER_H
#define WM_GATHER_H

#include "producer/serving/wm_kserve.h"
#include "producer/serving/wm_link.h"
#include "producer/serving/wm_signature.h"

typedef struct wm_gather_t wm_gather_t;

/* What config.pbtxt states of dynamic_batching; 0: it does not.  */
typedef struct {
    bool has_delay; /* else the next two are 0 */
    int64_t delay_us;
    uint32_t full;      /* rows of the smallest batch that is preferred, or of the largest */
    uint32_t queue_max; /* requests that wait; a further one is refused */
} wm_batching_t;

typedef struct {
    const char *model, *version; /* as answers name them */
    const wm_signature_t *signature;
    int64_t max_delay_us;
    wm_batching_t batching;
    size_t in_flight_bytes;
    wm_region_t *region; /* lent, for the rows of batches; NULL: none */
    uint32_t default_priority;
    bool is_strict; /* a request with a held row is refused */
    /* NULL, or called when the queue was worked off and all requests are answered, some perhaps
       without a batch (of rows that are not finite).  */
    wm_due_t *is_empty;
    /* NULL, or called where a first request has come, or the last one has gone.  */
    wm_due_t *turns;
    void *argument;
} wm_gather_how_t;

/* What statistics are made of. Times in microseconds.  */
#define WM_GATHER_SIZES 9 /* batches of up to 1, 2, 4 ... 256 rows, the most */
typedef struct {
    uint64_t n_success, n_row, n_batch, n_held, n_again;
    uint64_t n_fault, n_other; /* answered by an error: the engine's; any other */
    uint64_t n_cancel,
        n_late; /* taken back: the client went away; its deadline was over, or the queue full */
    uint64_t success_us, fail_us, queue_us, infer_us;
    int64_t last_ms; /* of 1970 */
    uint64_t size_n[WM_GATHER_SIZES], size_us[WM_GATHER_SIZES];
} wm_gather_counts_t;

/* `how` is copied, what it points to is lent. The link's calls `answered` go to
   wm_gather_answered.  */
wm_gather_t *wm_gather_new (wm_loop_t *loop, wm_link_t *link, const wm_gather_how_t *how);

/* Calls `left` for each request whose scores are not all there. Its `backend` is cleared: it may be
   given to another gatherer, or to this one. The scores of its rows that are under way are dropped.
   True: others have all their scores, and their answers are still made; is_empty is called when
   they are sent. wm_gather_destroy waits for none.  */
typedef void wm_gather_left_t (void *argument, wm_ks_request_t *request);
bool wm_gather_leave (wm_gather_t *self, wm_gather_left_t *left, void *argument);
void wm_gather_destroy (wm_gather_t **self_p, wm_gather_left_t *left, void *argument);

/* Returns the bytes that it will keep for the request's answer; 0: it would refuse the request.  */
size_t wm_gather_need (const wm_gather_t *self, const wm_ks_request_t *request);
/* Takes a request, whose `backend` it sets; answers it where it is refused.  */
void wm_gather_add (wm_gather_t *self, wm_ks_request_t *request);
/* The request was taken and not answered.  */
void wm_gather_cancel (wm_ks_request_t *request);

/* score: aligned as floats are.  */
void wm_gather_answered (wm_gather_t *self, wm_link_batch_t *batch, const uint8_t *status,
                         const uint8_t *score, const char *text);

uint32_t wm_gather_n_request (const wm_gather_t *self); /* not answered, or left under way */
bool wm_gather_is_asked (const wm_gather_t *self);      /* one is not scored */
uint32_t wm_gather_n_waiting (const wm_gather_t *self); /* of those, not all in batches */
const wm_gather_counts_t *wm_gather_counts (const wm_gather_t *self);

#endif
