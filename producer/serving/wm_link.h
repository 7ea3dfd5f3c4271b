/* wm_link.h - the gateway's session with one broker, through a helper process.

   `wiremill-producer client` has the session and keeps it through faults of the broker; frames of
   schema/session/wm_library.h go to it and come from it over a pair of sockets that never blocks
   here; rows in the region are not sent, it reads them there.
   Where the helper ends another is started, and every batch that was not answered is sent again,
   in its old order. A batch is answered once. Thread: the loop's.  */
#ifndef WM_LINK_H
#define WM_LINK_H

#include "producer/net/wm_loop.h"
#include "producer/serving/wm_region.h"
#include "schema/base/wm_fault.h"
#include "schema/session/wm_library.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct wm_link_t wm_link_t;

/* A batch on its way. Its maker owns it, and lends it from wm_link_send until it is answered or
   taken back.  */
typedef struct wm_link_batch_t {
    struct wm_link_batch_t *prev, *next;
    wm_library_frame_t frame;
    const float *value; /* (frame.n, n_value), all numbers; or one ragged row */
    uint64_t place;     /* of these in the region, where they are in it */
    const void *body;   /* what is sent behind the frame */
} wm_link_batch_t;

typedef struct {
    /* The first helper has a session: the facts of the campaign. Once.  */
    void (*ready) (void *argument, const wm_library_facts_t *facts);
    /* A batch is answered: statuses (n) and scores (n, n_output), aligned as floats; of a
       ragged row its status and its scores, as many as it states, or NULL if the row is held;
       or NULL, NULL: the broker gave it up, `text` is why. The batch is its maker's again.  */
    void (*answered) (void *argument, wm_link_batch_t *batch, const uint8_t *status,
                      const uint8_t *score, const char *text);
    /* What the session waits for; "": for nothing any more.  */
    void (*waits) (void *argument, const char *text);
    /* The broker refused a session that it had served, or a helper gave up: another is started, and
       is sent all that was not answered. n: so often since the last answer.  */
    void (*refused) (void *argument, const char *text, unsigned n);
    /* The broker refused the first session or the key, or another model is there now. Batches are
       not answered any more.  */
    void (*failed) (void *argument, wm_fault_t fault, const char *text);
} wm_link_calls_t;

/* Starts the helper. join_file, region (lent): NULL, none. Texts and calls are copied.  */
wm_link_t *wm_link_new (wm_loop_t *loop, const char *endpoint, const char *join_file,
                        const wm_region_t *region, const wm_link_calls_t *calls, void *argument);

/* Ends the session; batches that are lent are their makers' again.  */
void wm_link_destroy (wm_link_t **self_p);

/* Sends n rows of n_value values each once the session is ready.  */
void wm_link_send (wm_link_t *self, wm_link_batch_t *batch, const float *value, uint32_t n,
                   size_t n_value);

/* Takes back a batch of which nothing was sent in this session. false: it is on its way.  */
bool wm_link_take_back (wm_link_t *self, wm_link_batch_t *batch);

#endif
