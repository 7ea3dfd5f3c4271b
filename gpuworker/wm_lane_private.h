/* wm_lane_private.h - what the files of a lane share: wm_lane.c (sessions, time, drain),
   wm_lane_prepare.c (model and engine), wm_lane_work.c (batches). Nobody else includes it.  */
#ifndef WM_LANE_PRIVATE_H
#define WM_LANE_PRIVATE_H

#include "schema/wm_client.h"
#include "gpuworker/wm_book.h"
#include "gpuworker/wm_credit.h"
#include "gpuworker/wm_health.h"
#include "gpuworker/wm_lane.h"
#include "gpuworker/wm_poison.h"
#include "gpuworker/wm_scorer.h"

#define LANE_FAILURES_MAX 3u /* that no hit explains, within failures_ms */

typedef struct {
    wm_task_t *task;     /* NULL: the slot is free */
    int submitted;       /* it, or a part of it, is the engine's */
    wm_poison_t *poison; /* an engine died of it: the part that is scored */
    int alone;           /* an engine died of it and others together: it goes by itself */
    double seconds;      /* it has been computed so far */
} lane_slot_t;

struct wm_lane_t {
    const wm_worker_config_t *config;
    const char *endpoint;
    wm_stride_t *turn; /* NULL: alone on this machine */
    unsigned seat;
    _Atomic int64_t *busy_ms; /* last time there was work, in any lane */
    int64_t turn_ms;          /* our turn began; 0: it is not ours */
    uint64_t turn_hits;       /* submitted in it */
    char label[128];
    int64_t start_ms;

    wm_pins_t pins; /* what the first broker said; another one is refused */
    uint8_t pins_digest[16], campaign[16];
    int knows_pins;
    char cache[4096], trial[4096]; /* trial: a file in it, while the first engine starts */

    wm_scorer_t *scorer;
    wm_client_t *client;
    wm_book_t *book;
    wm_credit_t credit;
    lane_slot_t slot[WM_SLOTS];
    wm_coder_t *coder;                     /* the decoder's work space */
    int64_t failure_ms[LANE_FAILURES_MAX]; /* the last ones; 0: none */
    uint64_t n_end;                        /* of engines: each is a sign of life as well */
    char together[160]; /* how one died of batches together that nothing explains yet; "" none */

    wm_health_t *health; /* of the GPU; NULL: not known */

    int in_session; /* until wait has said CLOSED: acknowledgements may come after the last send */
    int64_t lost_ms, retry_ms, delay_ms; /* without a session: since when, next attempt, back-off */
    int64_t beat_ms;                     /* last heartbeat */

    int done, draining, code;
    int64_t drained_ms; /* since when only acknowledgements are waited for; 0: not yet */
    char why[WM_TEXT_BYTES_MAX + 1]; /* of the drain */
    uint64_t n_batch, n_hit, n_poison;
    double engine_s; /* it computed */
};

/* One line on stderr.  */
void lane_say (const char *format, ...) __attribute__ ((format (printf, 1, 2)));

/* wm_lane.c  */
int lane_same_campaign (wm_lane_t *self, wm_client_t *client);
void lane_drain (wm_lane_t *self, int code, const char *why);
/* Milliseconds until the lane leaves by itself, 0 or less: now; *why: for what. is_busy: it has work,
   or is the only one and waits for its broker, so that the idle time begins anew.  */
int64_t lane_time_left (wm_lane_t *self, int is_busy, const char **why);

/* wm_lane_prepare.c: an exit code, or -1: go on.  */
int lane_prepare (wm_lane_t *self);

/* wm_lane_work.c  */
void lane_take_message (wm_lane_t *self);
void lane_look (wm_lane_t *self);      /* what the engine did */
void lane_feed (wm_lane_t *self);      /* gives it more */
void lane_give_back (wm_lane_t *self); /* all that does not execute */
void lane_send_result (wm_task_t *task, void *self);
const wm_task_t *lane_executes (const wm_lane_t *self); /* NULL: nothing */

/* wm_replay.c: a file in the cache that shows what the engine dies of; path: of the file, or of the
   one that could not be written.  */
wm_fault_t lane_keep_replay (const wm_lane_t *self, unsigned slot, uint32_t hit, const char *how,
                             char path[4096], wm_error_t *error);

#endif
