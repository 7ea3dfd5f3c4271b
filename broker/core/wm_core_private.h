/* wm_core_private.h - the nouns inside wm_core, for its own files and the simulator.

   inputs --< events --< batches; workers >-- leases --< batches; producers --< claimed inputs.
   Lists are intrusive and lookups are tables, so that a message costs the same whatever is in
   flight. The batches of an event are one allocation: a million returned batches are about 96 MB
   and a few thousand allocations. An event that no producer has announced since the broker started
   has only the batches whose results are here, so that a message takes memory for itself only,
   however many batches it claims for its event.

   A file calls files below it only, never one beside it or above:

       wm_core.c              entry points, the core's time, effects of durable records
       wm_core_messages.c     the table of messages; calls handlers by their rows
       wm_core_restore.c      takes over what the ledger knows
       wm_core_on_session.c  wm_core_on_control.c  wm_core_on_input.c
       wm_core_on_event.c    wm_core_on_worker.c       handlers, one file for each noun
       wm_core_arithmetic.c   signatures of classes; its own handlers, and HELLO and RESULT ask it
       wm_core_distrust.c     workers whose scores were wrong; HELLO asks it
       wm_core_dispatch.c     decides which TASKs and NEEDs go out
       wm_core_orphan.c       batches that a worker holds when it connects again
       wm_core_session.c      begin, end and refusal of sessions
       wm_core_worker.c       blame, what a worker leaves behind
       wm_core_input.c        inputs and claims
       wm_core_batch.c        states of events and batches
       wm_core_check.c        sampled batches, scored again by another machine
       wm_core_breaker.c      sends workers away that fail too often
       wm_core_machine.c      machines of workers
       wm_core_lease.c        leases, credit, the ring of eligible workers
       wm_core_budget.c       bytes of payloads
       wm_core_base.c         messages out, records out, log
       wm_queue.c wm_rate.c

   wm_core_status.c reads everything and changes nothing. A handler never waits for an effect: it
   appends a record, or an answer that waits for one, and wm_core.c carries the effect out. A call
   to wm_core_refuse ends the session: its pointer must not be used after it.

   Transitions, and the functions that perform them (wm_core_ left out). A batch:

       NONE       -> QUEUED      on_submit (batch_announce)
       QUEUED     -> READY       on_batch (batch_take_payload)
       QUEUED     -> QUEUED      needs_tick (needs_take_back): asked for and not sent in time
       QUEUED     -> NONE        event_unannounce: its claim ended
       READY      -> RUNNING     dispatch_tasks (task_send)
       any        -> RUNNING     worker_welcome, worker_adopt: a worker holds it
       RUNNING    -> READY, QUEUED or NONE   batch_back: no live lease is left
       any        -> COMMITTING  on_result
       COMMITTING -> RETURNED    batch_durable (batch_return)
       any        -> HOLDING     batch_hold: too many failures, or two results differ
       HOLDING    -> HELD        batch_durable (batch_held)
       RETURNED   -> HELD        the same, after an alarm
       RETURNED   -> NONE        damaged (batch_lose_result)
       any        -> freed       events_free: its input is written, held, lost or kicked

   An input (the record's effect is carried out by input_durable):

       -       -> ADDING   on_input (input_pin): appends INPUT
       ADDING  -> OPEN     INPUT is durable
       OPEN    -> WRITTEN  on_file_written appends FILE_WRITTEN, durable_written
       WRITTEN -> OPEN     on_file_lost appends FILE_LOST, durable_lost
       any     -> HELD     input_hold appends HELD, durable_held
       any     -> OPEN     input_kick appends KICK, durable_kick; the next INPUT pins it (ADDING)

   A session:

       -    -> NEW    open (session_new)
       NEW  -> LIVE   on_hello
       LIVE -> LOST   closed (session_lose): a worker with leases
       any  -> freed  session_end: BYE, refused, silent, closed, lost too long, replaced by a new
                      session of its instance  */
#ifndef WM_CORE_PRIVATE_H
#define WM_CORE_PRIVATE_H

#include "broker/core/wm_core.h"
#include "broker/core/wm_input_set.h"
#include "broker/core/wm_queue.h"
#include "broker/core/wm_rate.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_table.h"
#include "schema/session/wm_join.h"

#include <assert.h>
#include <stdbool.h>

/* ---- nouns ----------------------------------------------------------------------------------- */

typedef struct session_t session_t;
typedef struct input_t input_t;
typedef struct event_t event_t;
typedef struct batch_t batch_t;
typedef struct lease_t lease_t;
typedef struct check_t check_t; /* wm_core_check_private.h, both */
typedef struct machine_t machine_t;

typedef enum {
    BATCH_NONE,       /* not announced by a live claim (perhaps known from before) */
    BATCH_QUEUED,     /* announced, its payload is not here */
    BATCH_READY,      /* its payload is here, no worker has it (but perhaps an expired lease) */
    BATCH_RUNNING,    /* at least one worker has it */
    BATCH_COMMITTING, /* its RESULT is not durable yet */
    BATCH_RETURNED,
    BATCH_HOLDING, /* its HELD is not durable yet */
    BATCH_HELD,
} batch_state_t;

enum {
    BATCH_DIGEST = 1,    /* digest and n_hit are known */
    BATCH_ASKED = 2,     /* NEED was sent, BATCH has not come: raw_bytes are reserved */
    BATCH_ALONE = 4,     /* blamed for a lost worker: send it to a worker that has nothing else */
    BATCH_WORKERS = 8,   /* it failed on at least two workers */
    BATCH_ALARM = 16,    /* two results differ */
    BATCH_VANISHED = 32, /* the worker that it failed on last vanished */
    BATCH_LATE = 64,     /* an earlier NEED of it is among its producer's late ones */
    BATCH_SECOND = 128,  /* its last failure was the first on a second worker */
};

/* A payload, in the budget until its last owner drops it: its batch, and each TASK in flight.  */
typedef struct {
    void *handle;
    uint32_t bytes, refs;
} payload_t;

/* What a TASK sends.  */
typedef struct {
    wm_key_t key;
    uint8_t digest[16];
    uint32_t n_batch, n_hit, attempt;
    payload_t *payload;
} work_t;

struct batch_t {
    event_t *event;
    union {
        wm_queue_item_t link; /* in the one queue it is in: a producer's wants, ready, running */
        wm_place_t place;     /* RETURNED: of its result */
        char *held;           /* HELD: why; NULL where memory was short */
    };
    payload_t *payload;   /* NULL: not here */
    lease_t *lease;       /* the first; the others by lease->other */
    uint64_t result_hash; /* 0: unknown */
    uint8_t digest[16];
    uint32_t n_hit;
    union {
        uint32_t raw_bytes; /* announced */
        uint32_t number;    /* while its event is sparse: of the batch in the event */
    };
    uint32_t n_held;    /* hits of its result that have no scores */
    uint32_t failed_on; /* tag of the worker it failed on last, 0: none */
    uint16_t signature; /* of the engine that scored it */
    uint16_t attempt;   /* TASKs sent */
    uint8_t state, flags, n_fail, n_lost;
    uint32_t turn;     /* of a client's batch: the ready queue is in this order */
    uint32_t since_ms; /* when its last step (wm_step_t) ended, of the core's time; 0: unknown */
};
static_assert (sizeof (batch_t) <= 96, "a million batches have to fit");

enum {
    EVENT_KNOWN = 1,     /* its manifest came: n_hit and n_bad are set */
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
    uint32_t n_stray; /* batches that RESULTs made and that count in the core's n_stray */
    uint32_t n_slot;  /* below n_batch: the event is sparse, and its batches may move in memory */
    batch_t *batch;   /* n_slot, by number */
};

struct input_t {
    uint32_t id, generation;
    uint64_t size;
    int64_t mtime_ns;
    char *path, *name;
    char *text;       /* why it is held or changed; NULL */
    const char *lost; /* how its output is, by wm_core_compare_output; lent; NULL */
    wm_ledger_input_state_t state;
    bool changed, ended;
    uint8_t reasons; /* a bit for each status of its held hits; of those before a restart none */
    bool closing, holding, kicking; /* that record is not durable yet */
    bool unpinned; /* kicked, or not staged yet: its next INPUT gives size and time */
    int64_t kick_size, kick_mtime_ns; /* while kicking; size below 0: unpinned */
    session_t *claim;
    input_t *claim_prev, *claim_next;
    event_t *all, *open;
    uint64_t end_count;
    uint64_t n_event, n_done; /* known; done */
    uint64_t n_hit, n_hit_done,
        n_hit_held;                 /* announced; in returned batches; bad or in held ones */
    uint64_t n_hit_empty;           /* nothing but zeros in their patch; WRITTEN, or about to be */
    uint64_t n_batch, n_batch_held; /* held: whole or in part */
    uint64_t out_size;
    int64_t out_mtime_ns;
    uint8_t out_digest[16];
    uint32_t told; /* the session that wrote it, or was told last that it is written: only it may
                      report that the output is lost */
};

struct lease_t {
    batch_t *batch;
    session_t *worker;
    lease_t *other;       /* the next lease of the batch */
    lease_t *prev, *next; /* of the worker, in the order they were sent */
    int64_t sent_ms;
    uint64_t number;    /* of its TASK in the session; 0: adopted */
    uint64_t hits_lent; /* its worker's, with this one */
    bool expired;
};

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
    bool reads_only;            /* an operator's, by a monitor's key */
    char key[WM_JOIN_ID_BYTES]; /* id of its key; "" without keys */
    uint8_t instance[16];
    uint32_t tag; /* of the instance, never 0 */
    char label[64];
    bool is_gone; /* idle, and lost */
    int64_t opened_ms, heard_ms, sent_ms, lost_ms;
    char report[WM_TEXT_BYTES_MAX + 1]; /* of heartbeats: its GPU, or what a producer waits for */
    wm_wait_t wait;                     /* that it reports */
    int64_t wait_ms;                    /* since then */

    union {      /* by its role; an operator has neither */
        struct { /* a worker */
            uint64_t credit, sent;
            uint64_t received;   /* TASKs that it has shown to have received */
            int64_t received_ms; /* since when it has shown no more; while sent > received */
            payload_t
                *in_flight[WM_CREDIT_MAX]; /* of the others, by number: perhaps in its queue */
            lease_t *lease_head, *lease_tail;
            uint32_t n_lease;
            session_t *eligible_prev, *eligible_next;
            bool eligible, draining; /* draining: it sent DRAIN, or gave a batch back */
            bool dismissed;          /* it was sent DRAIN: it gets nothing more in this session */
            char why[120];           /* why it was dismissed */
            bool has_failed;         /* that was for its failures */
            uint16_t outcomes;       /* its last ten answers, a bit each: 1 is a failure */
            bool stalled;            /* a lease of it expired and it has not advanced since */
            bool alone;              /* it has a batch that was sent alone */
            uint64_t window;         /* its share of the core's */
            int64_t result_ms;       /* of its last RESULT */
            wm_key_t executing;
            uint64_t progress;
            int64_t progress_ms;
            uint16_t signature;
            arithmetic_t arithmetic; /* class "": it may not work */
            uint64_t n_batch_done, n_hit_done;
            int64_t busy_ms, busy_since_ms; /* with a lease, until the last ended; while n_lease */
            uint64_t hits_lent, hits_back;  /* of all leases it ever had; of those that ended */
            wm_speed_t speed;
            wm_rate_t rate;
            wm_hello_held_t *orphan; /* held by it, of events not announced yet */
            uint32_t n_orphan;
            uint32_t n_stray;    /* its RESULTs of events not announced yet */
            bool set_aside;      /* one of them was not taken */
            uint64_t model_next; /* the first byte of the model that it may ask for */
            bool has_trial;      /* it has been sent the sample */
            machine_t *machine;  /* NULL: it may not work, or there was no memory */
            check_t *check;      /* it is asked for an answer of; NULL: of none */
            bool over_check;     /* its connection ended over a check sent before its leases */
        };
        struct { /* a producer, or a client */
            input_t *claims;
            wm_queue_t wants; /* batches to ask it for */
            uint32_t n_open;
            session_t *want_prev, *want_next;
            bool wanting; /* in the ring of producers to ask */
            bool asking;  /* counted in n_asking */
            bool late;    /* a NEED passed its deadline and no BATCH has come since */
            uint32_t n_asked;
            uint64_t asked_bytes; /* reserved for n_asked */
            uint32_t n_late;      /* BATCHes that may come of NEEDs that no batch waits for */
            uint64_t late_bytes;  /* of them, at most */
            int64_t late_ms;      /* when the last of them became late */
            uint32_t n_ready;     /* of a client: its batches that are READY */
            uint32_t turn;        /* of a client: behind that of its last batch */
            uint64_t n_owed;      /* NEEDs that it was sent, less BATCHes that came; >= n_asked */
            bool was_told;        /* of an output that is written: it may report it as touched */
            int64_t answered_ms; /* of its last BATCH, or the first NEED after a time without any */
            int64_t probed_ms;   /* while late: of the last NEED */
            uint32_t last_input;
        };
    };
};

/* An effect that waits for a record.  */
typedef struct {
    uint8_t type;   /* wm_record_type_t, of the record it waits for */
    bool is_record; /* false: another answer that waits for the record before it */
    uint8_t code;
    uint32_t session;
    wm_key_t key;
} pending_t;

#define SIGNATURES_MAX 1024
#define SKIP_BATCHES 16 /* batches that one message may skip in search of one that fits */
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

    bool paused, draining, disk_full;
    char why[240]; /* why it is paused */

    struct {
        session_t *first, *last;
        wm_table_t by_id, by_instance; /* the latter also by role, after HELLO */
        uint32_t last_id, n, n_worker, n_producer, n_lost;
    } sessions;
    struct {
        input_t **at; /* by id - 1 */
        uint32_t n;
        size_t capacity;
        wm_table_t by_path, by_name, events;
        uint64_t n_written, n_held, n_closed; /* closed: became either since the start */
    } inputs;
    struct {
        wm_queue_t ready, failed, alone;
        wm_queue_t running, bare; /* oldest first: with their payload here, without */
    } queues;
    struct {
        session_t *eligible;  /* a ring */
        session_t *alone_for; /* gets nothing until it is empty, then what waits in alone */
        wm_table_t orphans;   /* those that hold a batch of an event not announced */
        uint64_t window;      /* all leases and free credit */
        wm_speed_t speed;     /* of the latest results of all */
        uint32_t n_busy;      /* with a lease */
        uint32_t n_stray;     /* batches that RESULTs made in events not announced since */
        uint32_t n_tripped;   /* that the circuit breaker dismissed since the last resume */
    } workers;
    struct {
        session_t *wanting; /* a ring */
        uint32_t n_asking;  /* on time that are asked, or wait to be asked */
        uint32_t turn;      /* of clients: of the last batch that was sent */
    } producers;
    struct {
        lease_t *pool;
        uint32_t duration_ms[DURATIONS];
        uint32_t n_duration;
        int64_t ms, measured_ms; /* how long one lasts; when that was measured */
    } leases;
    struct {
        uint64_t used;
        uint64_t late_bytes;  /* of all sessions */
        uint64_t asked_bytes; /* reserved for NEEDs, of all sessions; in `used` */
        uint64_t asked_total; /* bytes of all NEEDs since the start */
        uint64_t n_asked;
        bool is_short; /* a NEED waits for room */
    } budget;
    struct { /* effects that wait for a record */
        pending_t *ring;
        size_t head, count, capacity;
    } pending;
    struct {
        char *signature[SIGNATURES_MAX];
        arithmetic_t at[WM_CLASSES_MAX];
        row_count_t rows[ROW_COUNTS_MAX];
        uint32_t n_signature, n, n_rows;
        bool has_sample, takes_sample; /* the latter: its SAMPLE is not durable yet */
        wm_place_t sample_place;
        uint64_t n_again; /* batches that strict fp32 scored again */
    } arithmetic;
    struct {
        machine_t *first;
        uint32_t n, n_live;
        uint64_t n_left;
    } machines;
    struct {
        check_t *first, *last; /* open, oldest first */
        uint32_t n;
        size_t bytes, payload_bytes; /* of all answers they may have; of their payloads */
        uint64_t n_sampled, n_good, n_differ;
    } checks;
    struct {
        bool has_verdict;       /* a machine was named, and not all that follows is carried out */
        bool owes_kicks;        /* what was begun again for that is not all durable */
        wm_input_set_t to_redo; /* inputs to begin again for that, or whose KICK is not durable */
        char suspects[160];     /* two whose scores differed last; a third has not decided yet */
    } distrust;
    struct {
        uint32_t n[WM_WAIT_END];     /* sessions that report it */
        int64_t own_ms[WM_WAIT_END]; /* since when the broker itself waits for it; 0: it does not */
        wm_wait_t what;              /* the campaign's, as of the last tick */
        int64_t since_ms;
    } waits;
    struct {
        uint64_t n_by_state[BATCH_HELD + 1];
        uint64_t events_known, events_done, events_written;
        uint64_t hits_known, hits_done, hits_held;
        uint64_t hits_empty; /* of written inputs */
        uint64_t n_summed;   /* hits whose scores are in the next */
        double score_sum[WM_SUMMARY_SCORES_MAX];
        uint64_t written_batches, written_batches_held;
        uint64_t n_fail, n_lost, n_preempt, n_duplicate, n_late, n_alarm, n_copy, n_dismissed;
        uint64_t payload_in, task_out, result_in;
        wm_tally_t tally; /* what the other counters do not have */
        wm_rate_t hit_rate, event_rate;
    } totals;
    struct { /* rings */
        struct {
            wm_key_t key;
            char text[200];
        } reason[REASONS_MAX]; /* why batches are held */
        struct {
            int64_t ms;
            char text[WM_SUMMARY_LOGGED_BYTES];
        } logged[WM_SUMMARY_LOGGED_MAX]; /* what was logged last */
        uint64_t n_reason, n_logged;
    } log;
    uint8_t have[WM_EVENT_BATCHES_MAX]; /* a SUBMIT_ACK in the making */
};

/* Whether a turn comes behind another; they count on through 0.  */
static inline bool wm_core_turn_behind (uint32_t turn, uint32_t other)
{
    return (int32_t) (turn - other) > 0;
}

/* The batch of a link; NULL of NULL.  */
static inline batch_t *batch_of (wm_queue_item_t *link)
{
    return link ? (batch_t *) (void *) ((char *) link - offsetof (batch_t, link)) : NULL;
}

static inline wm_key_t wm_core_batch_key (const batch_t *batch)
{
    const event_t *event = batch->event;
    const uint32_t number =
        event->n_slot < event->n_batch ? batch->number : (uint32_t) (batch - event->batch);
    return (wm_key_t){ event->input->id, event->ordinal, number, event->input->generation };
}

/* ---- the table of messages ------------------------------------------------------------------- */

enum {
    BY_WORKER = 1 << WM_ROLE_WORKER,
    BY_PRODUCER = 1 << WM_ROLE_PRODUCER,
    BY_OPERATOR = 1 << WM_ROLE_OPERATOR,
    BY_MONITOR = 1 << WM_ROLE_MONITOR, /* a session of an operator that may only read */
    BY_ALL = BY_WORKER | BY_PRODUCER | BY_OPERATOR | BY_MONITOR,
    WHILE_NEW = 1 << SESSION_NEW,
    WHILE_LIVE = 1 << SESSION_LIVE,
};

/* payload: NULL where payload_bytes_max is 0, else there.  */
typedef void wm_core_handler_t (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                                const wm_payload_t *payload);

typedef struct {
    wm_msg_type_t type;
    unsigned roles, states;   /* of sessions that may send it: BY_..., WHILE_... */
    size_t payload_bytes_max; /* 0: it has none */
    wm_core_handler_t *handler;
} wm_core_row_t;

/* One array at the end of each file of handlers; a zeroed row ends it.  */
extern const wm_core_row_t wm_core_session_rows[], wm_core_control_rows[], wm_core_input_rows[],
    wm_core_event_rows[], wm_core_worker_rows[], wm_core_arithmetic_rows[];

/* The row of a message from a session of this role; NULL: it may never send it.  */
const wm_core_row_t *wm_core_row_of (wm_msg_type_t type, wm_role_t role);
const char *wm_core_role_name (wm_role_t role);

/* The role whose rows hold for a session.  */
static inline wm_role_t wm_core_session_role (const session_t *session)
{
    return session->reads_only ? WM_ROLE_MONITOR : session->role;
}

/* ---- effects of durable records: wm_core_on_input.c, _on_event.c, _on_control.c -------------- */

void wm_core_input_durable (wm_core_t *self, const pending_t *pending);
void wm_core_batch_durable (wm_core_t *self, const pending_t *pending, const wm_place_t *place);
/* place->segment 0: a broker for clients goes on without a disk, and keeps the record later. place
   NULL: of an answer that waited for the record before it.  */
void wm_core_standing_durable (wm_core_t *self, const pending_t *pending, const wm_place_t *place);

/* ---- wm_core_arithmetic.c -------------------------------------------------------------------- */

/* Whether a worker's HELLO may bring its arithmetic; false: the worker was refused.  */
bool wm_core_arithmetic_admit (wm_core_t *self, session_t *worker, const wm_msg_t *msg);
/* Before a result is committed: the first of its class sets the campaign's signature for it. false:
   the worker was refused.  */
bool wm_core_arithmetic_bring (wm_core_t *self, session_t *worker);
/* Take ARITHMETIC, and SAMPLE at its place.  */
void wm_core_arithmetic_restore (wm_core_t *self, const wm_record_t *record);
void wm_core_sample_restore (wm_core_t *self, const wm_place_t *place);
/* The sample of this producer (NULL: it has left) is durable; place NULL: an earlier one was.  */
void wm_core_sample_durable (wm_core_t *self, session_t *producer, const wm_place_t *place);
void wm_core_arithmetic_count (wm_core_t *self, const char *signature, uint32_t n_row);
void wm_core_arithmetic_restore_rows (wm_core_t *self, const char *name, uint64_t value);
void wm_core_arithmetic_summary (const wm_core_t *self, wm_summary_t *summary);

/* ---- wm_core_dispatch.c ---------------------------------------------------------------------- */

void wm_core_dispatch_tasks (wm_core_t *self);
/* Sends NEEDs as budget and credit allow.  */
void wm_core_dispatch_needs (wm_core_t *self);
/* Takes NEEDs back that a producer has not answered within need_ms, and asks a late producer for
   one batch now and then. Returns whether its session is to end: its late bytes take room that
   others need.  */
bool wm_core_needs_tick (wm_core_t *self, session_t *producer);
/* Sends copies of the slowest batches, when nothing is ready.  */
void wm_core_dispatch_copies (wm_core_t *self);

/* ---- wm_core_session.c ----------------------------------------------------------------------- */

session_t *wm_core_session_find (const wm_core_t *self, uint32_t id);
/* NULL without memory.  */
session_t *wm_core_session_new (wm_core_t *self, wm_role_t role);
/* Enters the session among the instances; *old: the session of its instance before it, or NULL.
   false without memory.  */
bool wm_core_session_enter (wm_core_t *self, session_t *session, session_t **old);
/* Ends a session and frees it; a worker's leases go back at once. blame: as
   wm_core_worker_give_back.  */
void wm_core_session_end (wm_core_t *self, session_t *session, bool blame);
/* The connection is closed: ends the session, but a worker's leases wait for its instance.  */
void wm_core_session_lose (wm_core_t *self, session_t *session);
/* Logs, sends REJECT and ends the session.  */
void wm_core_refuse (wm_core_t *self, session_t *session, wm_reason_t reason, const char *format,
                     ...) __attribute__ ((format (printf, 4, 5)));
/* The input of this message if the session has its claim. NULL: there is nothing to do; a session
   that never had the claim is refused, one whose claim ended is ignored.  */
input_t *wm_core_session_claim (wm_core_t *self, session_t *session, const wm_msg_t *msg);

/* ---- wm_core_orphan.c ------------------------------------------------------------------------ */

/* Adopts what HELLO lists; old: the session of its instance before it, or NULL.  */
void wm_core_worker_welcome (wm_core_t *self, session_t *worker, session_t *old,
                             const wm_hello_held_t *held, uint32_t n_held);
/* An event was announced: its orphans become leases.  */
void wm_core_worker_adopt (wm_core_t *self, event_t *event);
/* The worker answered for this batch, so it does not hold it any more.  */
void wm_core_worker_forget_orphan (wm_core_t *self, session_t *worker, const wm_key_t *key);
/* Notes that the result of this orphan cannot be taken now: the worker keeps the result, and its
   session ends when the event is announced, so that the worker sends the result again. Returns
   whether the batch is an orphan of the worker.  */
bool wm_core_worker_set_aside (session_t *worker, const wm_key_t *key);

/* ---- wm_core_worker.c ------------------------------------------------------------------------ */

/* Forgets line i of what it holds of events that are not announced.  */
void wm_core_worker_drop_orphan (wm_core_t *self, session_t *worker, uint32_t i);
/* Its leases go back to the queues. blame: the batch that it was executing has failed there.  */
void wm_core_worker_give_back (wm_core_t *self, session_t *worker, bool blame);
/* Describes its session; strings are lent.  */
wm_core_worker_t wm_core_worker_of (const wm_core_t *self, const session_t *worker);
/* Removes its connection's part: credit, payloads in flight, orphans.  */
void wm_core_worker_forget (wm_core_t *self, session_t *worker);
/* Ends the leases of a worker that has not advanced for leases.ms.  */
void wm_core_worker_tick (wm_core_t *self, session_t *worker);

/* ---- wm_core_breaker.c ----------------------------------------------------------------------- */

/* Sends DRAIN; the worker gets nothing more in this session.  */
void wm_core_worker_dismiss (wm_core_t *self, session_t *worker, const char *why);
/* One more answer of this worker; why: of a failure, NULL of a success.  */
void wm_core_worker_note_outcome (wm_core_t *self, session_t *worker, const char *why);

/* ---- wm_core_input.c ------------------------------------------------------------------------- */

input_t *wm_core_input_find (const wm_core_t *self, uint32_t id);
input_t *wm_core_input_of_path (const wm_core_t *self, const char *path);
/* By its path, or its number.  */
input_t *wm_core_input_named (const wm_core_t *self, const char *text);
/* The name for its output, not yet taken; the caller's. NULL without memory.  */
char *wm_core_input_name (const wm_core_t *self, const char *proposed, const char *path);
/* Adds an input; takes the strings. NULL without memory (the strings are freed).  */
input_t *wm_core_input_add (wm_core_t *self, char *path, char *name);
void wm_core_input_free (wm_core_t *self, input_t *input);
/* In a broker for clients: an input that no session has, for one that begins. NULL without
   memory.  */
input_t *wm_core_input_lend (wm_core_t *self);
/* Its session ends: forgets what was not answered. The totals keep what was.  */
void wm_core_input_take_back (wm_core_t *self, input_t *input);
/* Sets why it is held or changed; without memory the old text stays.  */
void wm_core_input_set_text (input_t *input, const char *text);

/* Notes the status of one of its hits that have no score.  */
static inline void wm_core_input_note_held (input_t *input, uint32_t status)
{
    input->reasons = (uint8_t) (input->reasons | 1u << status);
}
static_assert (WM_HIT_STATUSES <= 8, "a bit for each");
/* Gives the claim to the session, if no session has it.  */
void wm_core_input_claim (session_t *session, input_t *input);
void wm_core_input_unclaim (wm_core_t *self, input_t *input);
/* Whether a message is for a claim that the broker ended (input held or kicked): the sender did
   nothing wrong, and the message is no longer wanted.  */
bool wm_core_input_claim_is_over (const input_t *input, const wm_msg_t *msg);
/* Appends HELD of the whole input; code: whether the session gets an ACK when it is durable.  */
void wm_core_input_hold (wm_core_t *self, input_t *input, session_t *session, uint32_t code,
                         const char *text);
/* Appends KICK. size below 0: the next INPUT gives size and time. session: is answered then; NULL:
   the broker kicks.  */
void wm_core_input_kick (wm_core_t *self, input_t *input, const session_t *session, int64_t size,
                         int64_t mtime_ns, const char *why);
/* Notes whether the file, as it is now, differs from the one pinned. `last`: which of the files of
   an input with planes elsewhere was modified last; "": not known.  */
void wm_core_input_compare (const wm_core_t *self, input_t *input, uint64_t size, int64_t mtime_ns,
                            const char *last);
/* Removes the input's part from the totals.  */
void wm_core_input_forget_totals (wm_core_t *self, input_t *input);
/* Forgets its events and claim: all of it is to be scored.  */
void wm_core_input_reopen (wm_core_t *self, input_t *input);

/* ---- wm_core_batch.c ------------------------------------------------------------------------- */

uint64_t wm_core_event_hash (uint32_t input, uint32_t ordinal);
event_t *wm_core_event_find (const wm_core_t *self, uint32_t input, uint32_t ordinal);
/* Adds an event without batches yet. NULL without memory.  */
event_t *wm_core_event_new (wm_core_t *self, input_t *input, uint32_t ordinal, uint32_t n_batch);
/* Returns the batch of this number; NULL: it is not known (yet).  */
batch_t *wm_core_event_batch (const event_t *event, uint32_t number);
/* Adds a batch that is not there yet; those of the event may move. NULL without memory.  */
batch_t *wm_core_event_add (wm_core_t *self, event_t *event, uint32_t number);
/* Adds all missing batches of an event that was announced. Returns false without memory.  */
bool wm_core_event_fill (wm_core_t *self, event_t *event);
/* Stops counting the stray batches of an event that was announced or is freed.  */
void wm_core_event_forget_stray (wm_core_t *self, event_t *event);
/* Enters the event among those announced and not done.  */
void wm_core_event_open (event_t *event);
/* Its claim ended: nothing of it is asked for any more.  */
void wm_core_event_unannounce (wm_core_t *self, event_t *event);
void wm_core_event_send_done (wm_core_t *self, const event_t *event);
/* Sends EVENT_DONE if every batch is returned or held.  */
void wm_core_event_check_done (wm_core_t *self, event_t *event);
/* In a broker for clients: sends a batch that was returned or is held to its session.  */
void wm_core_batch_answer (wm_core_t *self, const batch_t *batch, const wm_place_t *place);
/* Frees all events of an input; leases are revoked.  */
void wm_core_events_free (wm_core_t *self, input_t *input);
/* NULL: unknown, or of another generation.  */
batch_t *wm_core_batch_find (const wm_core_t *self, const wm_key_t *key);
/* Leaves the queue of the old state, if that has one; the caller enters that of the new one.  */
void wm_core_batch_set_state (wm_core_t *self, batch_t *batch, batch_state_t state);
/* A payload arrived for a batch that is wanted: it is ready, or runs on with its payload here.  */
void wm_core_batch_take_payload (wm_core_t *self, batch_t *batch, payload_t *payload);
void wm_core_batch_drop_payload (wm_core_t *self, batch_t *batch);
/* A lease of it ended: it goes back to a queue unless another lease is live.  */
void wm_core_batch_back (wm_core_t *self, batch_t *batch);
/* Counts a failure of this batch on this worker and holds it after too many; before
   wm_core_batch_back. lost: the worker is lost or stalled, else it reported the failure.  */
void wm_core_batch_blame (wm_core_t *self, batch_t *batch, const session_t *worker, bool lost,
                          const char *why);
/* A worker has come back with this batch in hand: that it vanished was the network's fault, if it
   is the last that was blamed for it.  */
void wm_core_batch_absolve (batch_t *batch, const session_t *worker);
/* Appends HELD of the batch.  */
void wm_core_batch_hold (wm_core_t *self, batch_t *batch, const char *text);
/* The effects of a durable RESULT and HELD.  */
void wm_core_batch_return (wm_core_t *self, batch_t *batch, const wm_place_t *place);
void wm_core_batch_held (wm_core_t *self, batch_t *batch, const char *text);
/* The result of a returned batch cannot be read: it is to be scored again.  */
void wm_core_batch_lose_result (wm_core_t *self, batch_t *batch);
/* Puts the producer into the ring of those that have wants, or removes it.  */
void wm_core_producer_update (wm_core_t *self, session_t *producer);

/* ---- wm_core_lease.c ------------------------------------------------------------------------- */

/* Sets what follows from its leases and credit: its place in the ring, its share of the window.  */
void wm_core_worker_update (wm_core_t *self, session_t *worker);
/* The worker has received so many TASKs: their payloads are no longer in flight.  */
void wm_core_worker_received (wm_core_t *self, session_t *worker, uint64_t count);

/* The worker has answered this lease of its, so it has received the TASK; where its batch was sent
   to it twice and none of the two has been shown to have arrived, the first of them.  */
void wm_core_worker_answered (wm_core_t *self, session_t *worker, const lease_t *lease);
/* Sends a TASK: number worker->sent of its session; the payload is in flight. The caller makes a
   lease or calls wm_core_worker_update.  */
void wm_core_task_send (wm_core_t *self, session_t *worker, const work_t *task);
/* Makes room for one lease, which wm_core_lease_new takes; false without memory.  */
bool wm_core_lease_reserve (wm_core_t *self);
void wm_core_lease_new (wm_core_t *self, batch_t *batch, session_t *worker);
void wm_core_lease_end (wm_core_t *self, lease_t *lease);
/* Sends REVOKE and ends the lease; of all leases of a batch.  */
void wm_core_lease_revoke (wm_core_t *self, lease_t *lease);
void wm_core_lease_revoke_all (wm_core_t *self, batch_t *batch);
/* The worker's lease of this batch, or NULL.  */
lease_t *wm_core_lease_of (const batch_t *batch, const session_t *worker);
/* Sets leases.ms from recent durations, once a second.  */
void wm_core_lease_measure (wm_core_t *self);

/* ---- wm_core_budget.c ------------------------------------------------------------------------ */

/* Takes a reference to the bytes, with one owner. NULL without memory.  */
payload_t *wm_core_payload_take (wm_core_t *self, const wm_payload_t *from);
/* One owner less.  */
void wm_core_payload_drop (wm_core_t *self, payload_t *payload);
/* Returns whether the budget has room for so many bytes more.  */
bool wm_core_budget_room (const wm_core_t *self, uint64_t bytes);
/* Bytes that a NEED of this batch reserves; they are reserved; they no longer are, as its BATCH is
   here; they are late (if they were reserved).  */
uint64_t wm_core_budget_need_bytes (const batch_t *batch);
void wm_core_budget_reserve_need (wm_core_t *self, batch_t *batch);
void wm_core_budget_end_need (wm_core_t *self, batch_t *batch);
void wm_core_budget_forget_need (wm_core_t *self, batch_t *batch);
/* One more late BATCH may come, of this batch; n of so many bytes no longer may (n_late: all).  */
void wm_core_budget_add_late (wm_core_t *self, session_t *producer, batch_t *batch);
void wm_core_budget_end_late (wm_core_t *self, session_t *producer, uint32_t n, uint64_t bytes);
/* Counts this producer among those that share what may be asked for, or no longer. Called after
   each change of its queue, its NEEDs or `late`.  */
void wm_core_budget_count_asking (wm_core_t *self, session_t *producer);

/* ---- wm_core_base.c -------------------------------------------------------------------------- */

void wm_core_send (wm_core_t *self, session_t *session, wm_msg_t *msg, const wm_payload_t *payload);
/* Sends a message that has nothing but a key.  */
void wm_core_send_key (wm_core_t *self, session_t *worker, wm_msg_type_t type, wm_key_t key);
void wm_core_log (wm_core_t *self, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

/* The same, as a warning.  */
#define wm_core_warn(...) (wm_log_level (WM_LOG_WARNING), wm_core_log (__VA_ARGS__))

/* Marks the time line of the campaign.  */
void wm_core_mark (wm_core_t *self, wm_mark_kind_t kind, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));

/* Names a batch in the status; the text of a batch that was named, else "held".  */
void wm_core_note_reason (wm_core_t *self, wm_key_t key, const char *text);
const char *wm_core_reason_of (const wm_core_t *self, const wm_key_t *key);
/* Returns how many scores of a hit are summed for the status; 0: none.  */
uint32_t wm_core_summed (const wm_core_t *self);
/* Interns an engine signature; 0: no room (and for "").  */
uint16_t wm_core_signature (wm_core_t *self, const char *text);
/* Of what scored this RESULT: its text names a strict engine where that scored the batch again; no
   other is believed.  */
uint16_t wm_core_result_signature (wm_core_t *self, const session_t *worker, const wm_msg_t *msg);
/* Whether engines of this signature compute in strict fp32 or better.  */
bool wm_core_is_strict (const char *signature);
/* Pauses the campaign until an operator resumes it.  */
void wm_core_pause (wm_core_t *self, const char *why);
/* Makes room for every effect of one call; false without memory.  */
bool wm_core_pending_reserve (wm_core_t *self);
bool wm_core_has_room (const wm_core_t *self);
/* Appends the record, and its effect when it is durable. Room was reserved by the entry point.  */
void wm_core_append (wm_core_t *self, wm_record_t *record, const wm_payload_t *body,
                     const session_t *session, uint8_t code);
/* Another answer, when the last record appended is durable; after this call if none is pending.  */
void wm_core_also (wm_core_t *self, wm_record_type_t type, wm_key_t key, const session_t *session,
                   uint8_t code);

/* ---- wm_core_waits.c ------------------------------------------------------------------------- */

/* Takes what a HEARTBEAT reports: the session's text, and what it waits for.  */
void wm_core_wait_reported (wm_core_t *self, session_t *session, const wm_msg_t *msg);

/* The session ends, or is lost: it waits for nothing any more.  */
void wm_core_wait_over (wm_core_t *self, session_t *session);

/* Notes since when the campaign waits for what it waits for.  */
void wm_core_waits_tick (wm_core_t *self);

/* Adds all waits, and what follows from them: `waiting_for`, the state, no estimate of time.  */
void wm_core_waits_summary (const wm_core_t *self, wm_summary_t *summary);
void wm_core_waits_brief (const wm_core_t *self, wm_brief_t *brief);

#endif
