/* wm_core_private.h - the nouns inside wm_core, for its own files only.

   inputs --< events --< batches; workers >-- leases --< batches; producers --< claimed inputs.
   Lists are intrusive and lookups are tables, so that a message costs the same whatever is in
   flight. An event and its batches are one allocation: a million returned batches are about
   96 MB and a few thousand allocations.  */
#ifndef WM_CORE_PRIVATE_H
#define WM_CORE_PRIVATE_H

#include "broker/wm_core.h"
#include "broker/wm_table.h"

#include <assert.h>

/* ---- nouns
 ------------------------------------------------------------------------------------  */
typedef struct session_t session_t;
typedef struct input_t input_t;
typedef struct event_t event_t;
typedef struct batch_t batch_t;
typedef struct lease_t lease_t;

typedef enum {
    BATCH_NONE,       /* not announced by a live claim (perhaps known from before) */
    BATCH_QUEUED,     /* announced, its payload is not here */
    BATCH_READY,      /* its payload is here, no worker has it (but perhaps an expired lease) */
    BATCH_RUNNING,    /* at least one worker has it */
    BATCH_COMMITTING, /* its RESULT is on the way to the disk */
    BATCH_RETURNED,
    BATCH_HOLDING, /* its HELD is on the way to the disk */
    BATCH_HELD,
} batch_state_t;

enum {
    BATCH_DIGEST = 1,  /* digest and n_hit are known */
    BATCH_ASKED = 2,   /* NEED was sent, BATCH has not come: raw_bytes are reserved */
    BATCH_ALONE = 4,   /* blamed for a lost worker: send it to a worker that has nothing else */
    BATCH_WORKERS = 8, /* it failed on at least two workers */
    BATCH_ALARM = 16,  /* two results with other bytes: HELD is on its way */
};

typedef struct {
    batch_t *head, *tail;
    size_t count;
} queue_t;

/* A payload, in the budget from here to the last who needs it: its batch, and each worker that it is
   on its way to.  */
typedef struct {
    void *handle;
    uint32_t bytes, refs;
} payload_t;

struct batch_t {
    event_t *event;
    union {
        struct {
            batch_t *prev,
                *next; /* of the one queue it is in: a producer's wants, ready, running */
        };
        wm_place_t place; /* RETURNED: of its result */
        struct {          /* HELD */
            char *text;   /* NULL where memory was short */
            uint32_t code;
        } held;
    };
    payload_t *payload;   /* NULL: not here */
    lease_t *lease;       /* who has it */
    uint64_t result_hash; /* 0: unknown */
    uint8_t digest[16];
    uint32_t n_hit, raw_bytes;
    uint32_t n_held;    /* hits of its result that have no scores */
    uint32_t failed_on; /* tag of the worker it failed on last, 0: none */
    uint16_t signature; /* of the engine that scored it */
    uint16_t attempt;   /* TASKs sent */
    uint8_t state, flags, n_fail, n_lost;
};
static_assert (sizeof (batch_t) <= 96, "a million batches have to fit");

enum {
    EVENT_KNOWN = 1,     /* its manifest was seen: n_hit and n_bad are true */
    EVENT_ANNOUNCED = 2, /* by the session that holds the claim now */
    EVENT_DONE = 4,
};

struct event_t {
    input_t *input;
    event_t *all_next;              /* all events of the input */
    event_t *open_prev, *open_next; /* those announced and not done */
    int64_t run, subrun, event;
    uint32_t ordinal, n_batch, n_hit, n_bad, n_returned, n_held;
    uint32_t flags;
    batch_t batch[];
};

typedef enum { INPUT_ADDING, INPUT_OPEN, INPUT_WRITTEN, INPUT_HELD } input_state_t;

struct input_t {
    uint32_t id, generation;
    uint64_t size;
    int64_t mtime_ns;
    char *path, *name;
    char *text;       /* why it is held or changed; NULL */
    const char *lost; /* how its output is, seen by wm_core_look_output; lent; NULL */
    input_state_t state;
    uint8_t changed, ended;
    uint8_t closing, holding, kicking; /* that record is on its way */
    uint8_t unpinned;                  /* kicked: its next INPUT says size and time */
    int64_t kick_size, kick_mtime_ns;  /* while kicking; size below 0: unpinned */
    session_t *claim;
    input_t *claim_prev, *claim_next;
    event_t *all, *open;
    uint64_t end_count;
    uint64_t n_event, n_done; /* known; done */
    uint64_t n_hit, n_hit_done,
        n_hit_held;                 /* announced; in returned batches; bad or in held ones */
    uint64_t n_batch, n_batch_held; /* held: whole or in part */
    uint64_t out_size;
    int64_t out_mtime_ns;
    uint8_t out_digest[16];
};

struct lease_t {
    batch_t *batch;
    session_t *worker;
    lease_t *other;       /* the next lease of the batch */
    lease_t *prev, *next; /* of the worker, in the order they were sent */
    int64_t sent_ms;
    uint64_t number;    /* of its TASK in the session; 0: the worker said that it holds it */
    uint64_t hits_lent; /* its worker's, with this one */
    uint16_t attempt;
    uint8_t expired;
};

/* Time and hits of results, older ones counting less and less.  */
#define SPEED_KEEP 0.9
typedef struct {
    double ms, hits;
} speed_t;

/* Counts of the last ten seconds, or since it began after a pause longer than that.  */
#define RATE_SECONDS 10
typedef struct {
    int64_t start_ms, second;
    uint32_t bucket[RATE_SECONDS];
} rate_t;

typedef enum {
    SESSION_FREE,
    SESSION_NEW, /* HELLO has not come */
    SESSION_LIVE,
    SESSION_LOST, /* a worker's connection is closed; its leases wait for its instance */
} session_state_t;

/* What the campaign has for a class of machines.  */
typedef struct {
    char class[WM_CLASS_BYTES_MAX + 1], signature[64];
    double error; /* largest on n_hit hits of the sample */
    uint32_t n_hit;
} arithmetic_t;

struct session_t {
    uint32_t id;
    session_t *prev, *next; /* all of them, in the order they came */
    session_state_t state;
    wm_role_t role;
    uint8_t instance[16];
    uint32_t tag; /* of the instance, never 0 */
    char label[64];
    int64_t opened_ms, heard_ms, sent_ms, lost_ms;
    char says[WM_TEXT_BYTES_MAX + 1]; /* in heartbeats: of its GPU, or what a producer waits for */

    /* worker */
    uint64_t credit, sent;
    uint64_t seen;                 /* TASKs that it has shown to have received */
    int64_t seen_ms;               /* since when it has shown no more; while sent > seen */
    payload_t *way[WM_CREDIT_MAX]; /* of the others, by number: they may lie in its queue */
    lease_t *lease_head, *lease_tail;
    uint32_t n_lease;
    session_t *hungry_prev, *hungry_next;
    uint8_t hungry, draining; /* draining: it said so, or gave something back */
    uint8_t dismissed;        /* it was told to go: it gets nothing more */
    char why[120];            /* it was dismissed */
    uint16_t outcomes;        /* its last ten answers, a bit each: 1 is a failure */
    uint8_t stalled;          /* a lease of it expired and it has not advanced since */
    uint8_t alone;            /* it has a batch that was sent alone */
    uint64_t window;          /* its share of the core's */
    int64_t result_ms;        /* of its last RESULT */
    wm_key_t executing;
    uint64_t progress;
    int64_t progress_ms;
    uint16_t signature;
    arithmetic_t arithmetic; /* class "": it may not work */
    uint64_t n_batch_done, n_hit_done;
    uint64_t hits_lent, hits_back; /* of all leases it ever had; of those that ended */
    speed_t speed;
    rate_t rate;
    wm_hello_held_t *orphan; /* held by it, of events not announced yet */
    uint32_t n_orphan;

    /* producer */
    input_t *claims;
    queue_t wants; /* batches to ask it for */
    uint32_t n_open;
    session_t *want_prev, *want_next;
    uint8_t wanting;
    uint32_t last_input;
};

/* An effect that waits for a record.  */
typedef struct {
    uint8_t type;      /* wm_record_type_t, of the record it waits for */
    uint8_t is_record; /* 0: only another answer after the record before it */
    uint8_t code;
    uint32_t session;
    wm_key_t key;
} pending_t;

#define SIGNATURES_MAX 1024
#define LOOK_BATCHES 16 /* how far one message may look past what does not fit */
#define REASONS_MAX 64
#define DURATIONS 128

/* Rows committed by a signature: by its hash, which is all that a counter of the ledger can
   name.  */
#define ROW_COUNTS_MAX WM_SUMMARY_ROWS_MAX
typedef struct {
    uint32_t hash;
    uint64_t n;
    char name[16];
} row_count_t;

struct wm_core_t {
    wm_core_config_t config;
    wm_core_sink_t sink;
    char *pins;

    int64_t now_ms;     /* the core's time: the caller's less all gaps */
    int64_t entry_ms;   /* the caller's, at the last call */
    int64_t skipped_ms; /* all gaps */

    session_t *first, *last;
    wm_table_t sessions, instances; /* by id; by instance and role, once it said HELLO */
    wm_table_t orphans;             /* the workers that hold a batch of an event not announced */
    uint32_t last_id;
    uint32_t n_session, n_worker, n_producer, n_lost_worker;

    input_t **input; /* by id - 1 */
    uint32_t n_input, input_capacity;
    wm_table_t paths, names, events;

    queue_t ready, failed, alone;
    queue_t running, bare;       /* running, oldest first: with their payload here, without */
    session_t *hungry, *wanting; /* rings */
    session_t *alone_for;        /* gets nothing until it is empty, then what waits in alone */
    lease_t *lease_pool;
    uint64_t window; /* all workers' leases and free credit */
    speed_t speed;   /* of the latest results, whoever sent them */

    pending_t *pending; /* a ring */
    size_t pending_head, pending_count, pending_capacity;

    char *signature[SIGNATURES_MAX];
    uint32_t n_signature;
    arithmetic_t arithmetic[WM_CLASSES_MAX];
    uint32_t n_arithmetic, n_rows;
    row_count_t rows[ROW_COUNTS_MAX];
    uint8_t has_sample;
    uint64_t n_again; /* batches that strict fp32 scored again */

    uint32_t duration_ms[DURATIONS];
    uint32_t n_duration;
    int64_t lease_ms, lease_looked_ms;

    uint64_t budget_used;
    uint8_t paused, draining, disk_full;
    char why[240];      /* it is paused */
    uint32_t n_tripped; /* workers sent away by the circuit breaker since somebody resumed */

    /* totals */
    uint64_t n_asked, n_by_state[BATCH_HELD + 1];
    uint64_t n_input_written, n_input_held;
    uint64_t events_known, events_done, events_written;
    uint64_t hits_known, hits_done, hits_held;
    uint64_t written_batches, written_batches_held;
    uint64_t n_fail, n_lost, n_preempt, n_duplicate, n_late, n_alarm, n_copy;
    uint64_t payload_in, task_out, result_in;
    rate_t hit_rate, event_rate;
    struct {
        wm_key_t key;
        char text[200];
    } reason[REASONS_MAX]; /* why batches are held; a ring */
    struct {
        int64_t ms;
        char text[WM_SUMMARY_SAID_BYTES];
    } said[WM_SUMMARY_SAID_MAX]; /* what was logged last; a ring */
    uint64_t n_reason, n_said;
    uint8_t have[WM_EVENT_BATCHES_MAX]; /* a SUBMIT_ACK in the making */
};

/* ---- wm_core.c
 --------------------------------------------------------------------------------  */
void core_send (wm_core_t *self, session_t *session, wm_msg_t *msg, const wm_payload_t *payload);
void core_refuse (wm_core_t *self, session_t *session, wm_reason_t reason, const char *format, ...)
    __attribute__ ((format (printf, 4, 5)));
void core_log (wm_core_t *self, const char *format, ...) __attribute__ ((format (printf, 2, 3)));
/* Appends the record, with an effect after it. Room was made at the entry.  */
void core_append (wm_core_t *self, wm_record_t *record, const wm_payload_t *body,
                  const session_t *session, uint8_t code);
/* Another answer when the last record appended is durable; at once if none is on its way.  */
void core_also (wm_core_t *self, wm_record_type_t type, wm_key_t key, const session_t *session,
                uint8_t code);
int core_has_room (const wm_core_t *self);
/* Hands nothing out and asks for nothing until somebody resumes.  */
void core_pause (wm_core_t *self, const char *why);
session_t *core_session (const wm_core_t *self, uint32_t id);
/* Names a batch in the status.  */
void core_reason (wm_core_t *self, wm_key_t key, const char *text);
/* Interns an engine signature; 0: no room (and for ""). */
uint16_t core_signature (wm_core_t *self, const char *text);
void rate_add (rate_t *rate, int64_t now_ms, uint32_t count);
double rate_per_s (const rate_t *rate, int64_t now_ms);

void queue_push (queue_t *queue, batch_t *batch);
void queue_push_front (queue_t *queue, batch_t *batch);
void queue_remove (queue_t *queue, batch_t *batch);

/* ---- wm_core_input.c
 --------------------------------------------------------------------------  */
input_t *input_find (const wm_core_t *self, uint32_t id);
void input_on_input (wm_core_t *self, session_t *session, const wm_msg_t *msg);
void input_on_end (wm_core_t *self, session_t *session, const wm_msg_t *msg);
void input_on_written (wm_core_t *self, session_t *session, const wm_msg_t *msg);
void input_on_lost (wm_core_t *self, session_t *session, const wm_msg_t *msg);
void input_on_held (wm_core_t *self, session_t *session, const wm_msg_t *msg);
void input_on_kick (wm_core_t *self, session_t *session, const wm_msg_t *msg);
void input_durable (wm_core_t *self, const pending_t *pending);
/* Appends HELD of the whole input; its claim is told when that is durable.  */
void input_hold (wm_core_t *self, input_t *input, session_t *session, uint32_t code,
                 const char *text);
input_t *input_claimed (wm_core_t *self, session_t *session, const wm_msg_t *msg);
/* Whether a message speaks for a claim that the broker ended (input held or kicked): no fault of
   its sender's, and of no use any more.  */
int input_claim_is_over (const input_t *input, const wm_msg_t *msg);
void input_unclaim (wm_core_t *self, input_t *input);
void input_free (wm_core_t *self, input_t *input);

/* ---- wm_core_event.c
 --------------------------------------------------------------------------  */
uint64_t event_hash (uint32_t input, uint32_t ordinal);
event_t *event_find (const wm_core_t *self, uint32_t input, uint32_t ordinal);
event_t *event_new (wm_core_t *self, input_t *input, uint32_t ordinal, uint32_t n_batch);
batch_t *batch_find (const wm_core_t *self, const wm_key_t *key);
wm_key_t batch_key (const batch_t *batch);
void event_on_submit (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                      const wm_payload_t *payload);
void event_on_batch (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                     const wm_payload_t *payload);
void event_on_fetch (wm_core_t *self, session_t *session, const wm_msg_t *msg);
/* Forgets that a live claim announced it: nothing of it is asked for any more.  */
void event_unannounce (wm_core_t *self, event_t *event);
void event_check_done (wm_core_t *self, event_t *event);
void events_free (wm_core_t *self, input_t *input);
void batch_set_state (wm_core_t *self, batch_t *batch, batch_state_t state);
void batch_drop_payload (wm_core_t *self, batch_t *batch);
void payload_drop (wm_core_t *self, payload_t *payload);
void batch_forget_need (wm_core_t *self, batch_t *batch);
/* Back to where it can be sent again: ready with a payload, else to be asked for, else none.  */
void batch_requeue (wm_core_t *self, batch_t *batch);
void batch_hold (wm_core_t *self, batch_t *batch, const char *text);
void batch_durable (wm_core_t *self, const pending_t *pending, const wm_place_t *place);
/* Sends NEEDs as budget and credit allow.  */
void batch_ask (wm_core_t *self);
/* Asks for a running batch's payload once more, if there is room and somebody to ask.  */
void batch_ask_again (wm_core_t *self, batch_t *batch);
void producer_wants (wm_core_t *self, session_t *producer);

/* ---- wm_core_worker.c
 -------------------------------------------------------------------------  */
void worker_on_hello (wm_core_t *self, session_t *worker, session_t *old,
                      const wm_hello_held_t *held, uint32_t n_held);
void worker_on_credit (wm_core_t *self, session_t *worker, const wm_msg_t *msg);
void worker_on_result (wm_core_t *self, session_t *worker, const wm_msg_t *msg,
                       const wm_payload_t *payload);
void worker_on_drain (wm_core_t *self, session_t *worker);
void worker_on_nack (wm_core_t *self, session_t *worker, const wm_msg_t *msg);
void worker_on_heartbeat (wm_core_t *self, session_t *worker, const wm_msg_t *msg);
/* Tells it to finish what it executes and go; it gets nothing more in this session.  */
void worker_dismiss (wm_core_t *self, session_t *worker, const char *why);
/* Its leases go back. blame: the oldest is blamed for it.  */
void worker_give_back (wm_core_t *self, session_t *worker, int blame);
void worker_forget (wm_core_t *self, session_t *worker);
/* It has received so many TASKs: their payloads are on their way no more.  */
void worker_saw (wm_core_t *self, session_t *worker, uint64_t count);
void worker_tick (wm_core_t *self, session_t *worker);
void workers_look_at_durations (wm_core_t *self);
void worker_adopt (wm_core_t *self, event_t *event);
/* A message that has nothing but a key.  */
void worker_send_key (wm_core_t *self, session_t *worker, wm_msg_type_t type, wm_key_t key);
/* Sets what follows from its leases and credit: its place in the ring, its share of the window.  */
void worker_update (wm_core_t *self, session_t *worker);

/* Room for one lease; -1 without memory. lease_new needs it.  */
int lease_reserve (wm_core_t *self);
void lease_new (wm_core_t *self, batch_t *batch, session_t *worker);
void lease_end (wm_core_t *self, lease_t *lease);
lease_t *lease_of (const batch_t *batch, const session_t *worker);
void leases_revoke (wm_core_t *self, batch_t *batch, const session_t *except);

/* ---- wm_core_arithmetic.c
 ---------------------------------------------------------------------  */
/* Whether a worker's HELLO may bring its arithmetic; -1: it was refused.  */
int arithmetic_admit (wm_core_t *self, session_t *worker, const wm_msg_t *msg);
/* Before a result of it is committed: the first of its class is the campaign's. -1: it was
   refused.  */
int arithmetic_bring (wm_core_t *self, session_t *worker);
void arithmetic_on_sample (wm_core_t *self, session_t *producer, const wm_msg_t *msg,
                           const wm_payload_t *payload);
void arithmetic_on_trial_get (wm_core_t *self, session_t *worker);
/* Takes the table that was kept; lines that make no sense are left out.  */
void arithmetic_restore (wm_core_t *self, const char *text);
void arithmetic_count (wm_core_t *self, const char *signature, uint32_t n_row);
void arithmetic_restore_rows (wm_core_t *self, const char *name, uint64_t value);
void arithmetic_summary (const wm_core_t *self, wm_summary_t *summary);

/* ---- wm_core_dispatch.c
 -----------------------------------------------------------------------  */
void worker_dispatch (wm_core_t *self);
/* Copies of the slowest, when nothing is ready.  */
void worker_dispatch_tail (wm_core_t *self);

#endif
