/* wm_core.h - decides everything that a broker does: state + message + time in, actions out.

   Authoritative state: what is announced, asked for, running, returned and held, and which peers
   are connected. The core does no I/O and has no clock: the reactor gives it messages, closed
   connections, durable records and ticks, each with the time, and it answers at once through its
   sink. So the same code runs in the broker, in unit tests and in the simulator.

   A batch goes through these states (as operators see them in brackets; wm_core_private.h names the
   function of each transition):

       NONE --SUBMIT--> QUEUED --NEED,BATCH--> READY --TASK--> RUNNING
                 [queued]                [queued]        [running]
       any of these --RESULT--> COMMITTING --durable--> RETURNED   [returned]
       any of these --too many failures--> HOLDING --durable--> HELD   [held]
       RUNNING --lease lost, NACK--> READY or QUEUED; QUEUED --claim ends--> NONE
       any of these --KICK of its input--> forgotten; messages of an older generation are ignored

   An effect (RESULT_ACK, EVENT_DONE, ACK, INPUT_ACK of a new input) is sent only from
   wm_core_durable, after the record it rests on. What is to outlive the broker and is of no input
   (that an operator paused the campaign) is a record that stands (wm_record_stands): the core
   acts on it at once, and a core that is made later is given it back.

   A broker for clients (for_clients) keeps nothing of its inputs. An input is what one producer
   session sends; it begins with INPUT and ends with the session, without a record. Its batches go
   through the same states, but a result is sent (RESULTS) as soon as it is here, and the event is
   forgotten when all of its batches are answered. The recorder carries their effects out at once.
   Records that stand are kept, but they wait for no room: then their place is 0 in wm_core_durable.

   Invariants. Each but I16 and I17, which all of the core keeps, is named where the code keeps it,
   and each where tests/sim and tests/core_state.h watch it:

     I1   What rests on a record leaves after the record is durable: an answer, a TASK, a count.
     I2   A batch of a generation counts once: one RESULT or HELD of it is appended; a second result
          is compared, not counted.
     I3   A batch is in the one queue of its state, or in none: wanted, ready, failed, alone,
          running, bare.
     I4   A batch has at most two leases. From COMMITTING on it has none, and no payload.
     I5   The budget is the sum of the NEEDs reserved and of all payloads here and in flight, each
          once. Nothing is asked for that does not fit.
     I6   A payload counts until its worker has shown that it received the TASK. (An answer names a
          batch: one that crosses a REVOKE and the TASK of the same batch shows the later one.)
     I7   A session sends at most as many BATCHes as it was sent NEEDs.
     I8   A worker is sent at most as many TASKs as it gave credit for.
     I9   A batch is held only for failures of its own on workers, or because two results differ.
     I10  EVENT_DONE is sent when every batch of the event is returned or held, and then always.
     I11  An input has events only while it is open, and at most one claim. A message of an ended
          claim changes nothing.
     I12  A check's answers come from different machines, and a check delays and changes no result.
     I13  A machine is named only if two others agree against it; the inputs that it scored since
          its last good check begin again.
     I14  No client waits longer than for what it has here, and the batch that was sent last.
     I15  No worker idles while a batch could be asked for, sent, or copied from a worker that has
          stopped.
     I16  Every counter is what a count of the nouns gives.
     I17  What a broker restores is what the journal has.

   Memory that cannot be had, in all of broker/:
     - a message that needs it is refused with BUSY, or its peer is disconnected: it tries again;
     - a text for people is left out, or stays as it was;
     - a copy at the tail, a lease, a hold wait for the next occasion;
     - a record cannot wait: the recorder fails as it does of a bad disk, and the process ends
       (nothing acknowledged is lost);
     - at start, and for a few bytes per peer, the process ends (assert, or WM_EHOST).
   Thread: one at a time.  */
#ifndef WM_CORE_H
#define WM_CORE_H

#include "schema/session/wm_msg.h"
#include "schema/wm_history.h"
#include "schema/wm_ledger_row.h"
#include "schema/wm_record.h"
#include "schema/wm_wait.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wm_core_t wm_core_t;

/* Bytes beside a header. handle: the reactor's refcounted owner of the bytes; NULL: they are valid
   during the call only.  */
typedef struct {
    void *handle;
    const void *data;
    size_t bytes;
} wm_payload_t;

/* A session of a worker; strings are lent.  */
typedef struct {
    uint32_t session;
    const char *label, *signature, *why; /* why: it was dismissed; "" */
    const char *health;                  /* as it reports it: JSON; "" */
    int64_t age_ms, busy_ms;             /* since it connected; of that, with a batch */
    uint64_t n_batch, n_hit;             /* of its results */
} wm_core_worker_t;

/* Where the core's actions go, in the order they happen. No function may call back into the core.
   A send that fails is reported later through wm_core_closed.  */
typedef struct {
    void *context;
    /* Sends header and payload (NULL: none) to a session.  */
    void (*send) (void *context, uint32_t session, const wm_msg_t *msg,
                  const wm_payload_t *payload);
    /* Appends a record. Each is answered by one wm_core_durable, in the order of appending. body: a
       payload or NULL. Never refused: with a full disk it waits (wm_core_disk_full).  */
    void (*append) (void *context, const wm_record_t *record, const wm_payload_t *body);
    /* Reads the result at `place` in the journal and sends it as `results`, filling in text. In a
       broker for clients it is the result whose effect is carried out now.  */
    void (*fetch) (void *context, uint32_t session, const wm_msg_t *results,
                   const wm_place_t *place);
    /* Sends MODEL: the piece of the .wmm from this offset.  */
    void (*model) (void *context, uint32_t session, uint64_t offset);
    /* Sends TRIAL: its payload is `table`, a NUL, and that of SAMPLE at `place`. -1: it cannot be
       read.  */
    int (*sample) (void *context, uint32_t session, const wm_msg_t *trial, const char *table,
                   const wm_place_t *place);
    /* Sends STATUS_REPLY; may read the core (wm_core_summary).  */
    void (*status) (void *context, uint32_t session);
    /* Sends STATUS_REPLY with a page of inputs, from input `from` on: those that `name` names (see
       wm_core_named_from), or, where it is NULL, those of wm_core_held_from.  */
    void (*files) (void *context, uint32_t session, uint32_t from, const char *name);
    /* Sends STATUS_REPLY with a page of the history: of its minutes from this Unix time on, or of
       its workers from this id on.  */
    void (*history) (void *context, uint32_t session, bool is_of_workers, uint64_t from);
    /* Has the ledger copied, then sends STATUS_REPLY with the copy's name, or REJECT.  */
    void (*copy) (void *context, uint32_t session);
    /* A worker's session is about to be over; lent. NULL: not called.  */
    void (*left) (void *context, const wm_core_worker_t *worker);
    /* Something for the time line. NULL: not called.  */
    void (*mark) (void *context, wm_mark_kind_t kind, const char *text);
    /* Milliseconds since parts of a message of this session arrived that is not whole yet;
       INT64_MAX: unknown. Asked before a session is ended as silent; NULL: none is known.  */
    int64_t (*quiet) (void *context, uint32_t session);
    /* The session is over: forget its id, ignore its connection from now on.  */
    void (*drop) (void *context, uint32_t session);
    /* Add and remove a reference.  */
    void (*hold) (void *context, void *handle);
    void (*release) (void *context, void *handle);
    /* One line for people.  */
    void (*log) (void *context, const char *text);
} wm_core_sink_t;

typedef struct {
    uint8_t campaign[16], pins_digest[16];
    const char *pins; /* canonical text; copied */
    size_t pins_bytes;
    uint32_t n_value;  /* of a patch */
    uint32_t n_output; /* scores per hit */
    bool is_ragged;    /* results are ragged rows (schema/wm_ragged.h) of n_output at most */
    uint64_t epoch;
    uint64_t budget_bytes; /* payloads asked for and not dropped; at least 16 MiB */
    uint32_t peers_max;
    uint32_t stray_max;    /* results of events not announced, in all; 0: WM_STRAY_ALL_MAX */
    const char *shape;     /* of a ready-made patch, "3x32x32"; NULL: any; lent for life */
    bool measures;         /* split or fast: workers measure their kernels on a sample */
    bool mixed;            /* workers of a class may bring different signatures */
    bool for_clients;      /* results go to the session that sent the patches, nothing is kept */
    double check_share;    /* of batches that a second machine scores, 0 to 1 */
    uint8_t check_key[16]; /* secret: which batches these are */
    double max_error;      /* of a score in split and fast; 0: fp32 */
    wm_times_t times;
    int64_t now_ms;
} wm_core_config_t;

/* NULL without memory.  */
wm_core_t *wm_core_new (const wm_core_config_t *config, const wm_core_sink_t *sink);
void wm_core_destroy (wm_core_t **self_p);

/* ---- what the ledger knows (wm_restore.h); before any session -------------------------------- */

/* -1 without memory.  */
int wm_core_restore_input (wm_core_t *self, const wm_ledger_input_t *input);
int wm_core_restore_batch (wm_core_t *self, const wm_ledger_batch_t *batch, const char *signature);
void wm_core_restore_counter (wm_core_t *self, const char *name, uint64_t value);

/* A record that stands (wm_record_stands), and its place. One that is not the core's (TOLD) is
   ignored.  */
void wm_core_restore_standing (wm_core_t *self, const wm_record_t *record, const wm_place_t *place);

/* Returns what is known of input `id`, from 1 on; false: there are no more. Strings are lent.  */
typedef struct {
    const char *path, *name;
    const char *state; /* "open", "written", "held", "changed" (since it was written or added) */
    const char *why;   /* it is held or changed, or its output is to be made again; "" */
    bool is_written;
    uint64_t out_size;
    int64_t out_mtime_ns;
    const uint8_t *out_digest;                 /* (16) */
    uint64_t n_event, n_hit, n_scored, n_held; /* hits that are announced; scored; held */
    uint64_t n_empty;                          /* nothing but zeros in their patch, once written */
    uint8_t reasons; /* of an open one: a bit for each status that a held hit is known to have */
} wm_core_known_t;
bool wm_core_known (const wm_core_t *self, uint32_t id, wm_core_known_t *known);

/* Returns the first input from `id` on that `name` names: its number, its path, the path's last
   parts, also without ":/dataset", or the name of its output; "" names all. 0: none.  */
uint32_t wm_core_named_from (const wm_core_t *self, uint32_t id, const char *name);

/* Returns the first from `id` on that has held hits, is held or has changed. 0: none.  */
uint32_t wm_core_held_from (const wm_core_t *self, uint32_t id);

/* Compare with the files as they are now, and record nothing. The first: an output is gone
   (`what`, lent, explains it): it is to be made again, as after FILE_LOST. The second: the input's
   file has this size and time, as the next INPUT would give them; `last` (""): of an input of
   several files the one that was modified last. The third, after it: the output was changed,
   which stays (`what` is copied).  */
void wm_core_compare_output (wm_core_t *self, uint32_t id, const char *what);
void wm_core_compare_input (wm_core_t *self, uint32_t id, uint64_t size, int64_t mtime_ns,
                            const char *last);
void wm_core_output_changed (wm_core_t *self, uint32_t id, const char *what);

/* ---- sessions and time ----------------------------------------------------------------------- */

/* Opens a session for a new peer of this role's listener. Returns its id, or 0: too many peers, or
   no memory (ignore the peer).  */
uint32_t wm_core_open (wm_core_t *self, wm_role_t port, int64_t now_ms);

/* Lets an operator's session only read, as a monitor's key does.  */
void wm_core_reads_only (wm_core_t *self, uint32_t session);

/* Gives the core the key by which a session was opened, before its first message.  */
void wm_core_key (wm_core_t *self, uint32_t session, const char *id);

/* Handles a message of a session; payload NULL if it has none. Ignored where the session is over.
 */
void wm_core_message (wm_core_t *self, uint32_t session, const wm_msg_t *msg,
                      const wm_payload_t *payload, int64_t now_ms);

/* The session sent something undecodable; `text` explains it. Sends REJECT and ends the session. */
void wm_core_reject (wm_core_t *self, uint32_t session, wm_reason_t reason, const char *text);

/* The connection of a session is closed (or refused a send).  */
void wm_core_closed (wm_core_t *self, uint32_t session, int64_t now_ms);

/* The oldest record appended and not yet reported is on disk, at `place`.  */
void wm_core_durable (wm_core_t *self, const wm_place_t *place, int64_t now_ms);

/* Lets time pass: heartbeats, silences, leases. Call it several times a heartbeat, after all
   waiting messages were read. A gap between calls above gap_ms moves all deadlines by the gap.  */
void wm_core_tick (wm_core_t *self, int64_t now_ms);

/* The disk is full (nothing more is handed out or asked for), or has room again.  */
void wm_core_disk_full (wm_core_t *self, bool full, int64_t now_ms);

/* The broker itself waits for this, or no longer; DISK_SLOW is reported for a minute.  */
void wm_core_waits (wm_core_t *self, wm_wait_t wait, bool is_so);

/* The result of this batch cannot be read back: the batch is scored again, and the session that
   fetched it is refused with BUSY, so that it announces the event again.  */
void wm_core_damaged (wm_core_t *self, wm_key_t key, uint32_t session, int64_t now_ms);

/* Returns the name of the i-th counter that outlives the broker, and its value; NULL past the last.
 */
const char *wm_core_counter (const wm_core_t *self, size_t i, uint64_t *value);

/* Copies what was counted since the core was made (of a broker for clients also hits, batches and
   held ones); *n_worker: how many are connected now.  */
void wm_core_tally (const wm_core_t *self, wm_tally_t *tally, uint32_t *n_worker);

/* Calls `take` with each worker that has said HELLO.  */
void wm_core_workers (const wm_core_t *self,
                      void (*take) (void *argument, const wm_core_worker_t *worker),
                      void *argument);

/* Returns the largest error that was measured of a signature on the sample; 0: none was, or it is
   strict.  */
double wm_core_error (const wm_core_t *self, const char *signature);

/* Sends BYE to all and ends every session.  */
void wm_core_stop (wm_core_t *self, const char *text);

/* ---- what people see ------------------------------------------------------------------------- */

#define WM_SUMMARY_PEERS_MAX 100
#define WM_SUMMARY_HELD_MAX 100
#define WM_SUMMARY_OPEN_MAX 16
#define WM_SUMMARY_LOGGED_MAX 16
#define WM_SUMMARY_LOGGED_BYTES 240

typedef struct {
    char label[64], signature[128];
    char health[WM_TEXT_BYTES_MAX + 1]; /* of its GPU: JSON, as the worker reports it; "" */
    const char *state;                  /* "starting", "idle", "busy", "draining", "lost" */
    char why[120];                      /* why it was dismissed; "" */
    bool has_failed;                    /* it was dismissed for its failures */
    uint32_t running;
    uint64_t credit, batches, hits;
    double hits_s;
} wm_summary_worker_t;

/* Workers by state; and the jobs of a batch system whose workers have an engine, which a worker's
   label names behind its "/": all of them, also of workers that are not listed.  */
enum { WM_STATE_STARTING, WM_STATE_IDLE, WM_STATE_BUSY, WM_STATE_DRAINING, WM_STATE_LOST };
#define WM_SUMMARY_STATES 5
#define WM_SUMMARY_JOB_BYTES 25

typedef struct {
    char label[64];
    const char *input;                 /* path of the input it works on; lent; NULL */
    char waits[WM_TEXT_BYTES_MAX + 1]; /* what it reports to wait for (a full disk); "" */
    wm_wait_t wait;                    /* the same by number */
    uint32_t asked;                    /* batches asked for and not sent, within their deadline */
    double late_s; /* since when it has sent nothing of what it was asked; < 0: it is not late */
} wm_summary_producer_t;

/* What the campaign or one of its peers waits for.  */
#define WM_SUMMARY_WAITS_MAX 32
typedef struct {
    wm_wait_t wait;
    const char *label; /* of the peer; lent; NULL: of the campaign */
    const char *text;  /* what a peer reports of it, a worker within JSON; lent; "" */
    double since_s;
} wm_summary_wait_t;

/* An input that is held or changed, or a batch that is held or raised an alarm.  */
typedef struct {
    wm_key_t key; /* ordinal, batch WM_ALL: of the whole input */
    const char
        *state;       /* "input", "changed" (since its output was written, or was added), "batch" */
    const char *path; /* of the input; lent */
    int64_t run, subrun, event;
    uint64_t n_hit;                     /* held, as far as they are known */
    char reason[WM_TEXT_BYTES_MAX + 1]; /* with the command that helps: never cut */
} wm_summary_held_t;

/* An input whose output is to be written, and how many of its hits are scored or held.  */
typedef struct {
    uint32_t input;
    const char *path, *name; /* lent */
    const char *why;         /* its output was written and has changed; lent; NULL */
    uint64_t n_hit;
} wm_summary_open_t;

/* A line that was logged.  */
typedef struct {
    double ago_s;
    char text[WM_SUMMARY_LOGGED_BYTES];
} wm_summary_logged_t;

/* What the campaign has for a class of machines, and rows that a signature committed; lent.  */
typedef struct {
    const char *class, *signature;
    double error;
    uint32_t n_hit;
} wm_summary_arithmetic_t;
typedef struct {
    const char *signature;
    uint64_t n;
} wm_summary_rows_t;
#define WM_SUMMARY_ROWS_MAX 16
#define WM_SUMMARY_SCORES_MAX 16

/* A machine whose scores were wrong.  */
#define WM_SUMMARY_EARLIER_MAX 32
typedef struct {
    char label[64], host[64], key[16], signature[64]; /* its worker; key "" without keys */
    char why[240];
    /* Inputs with scores of it from before its last good check, which stay; so many are listed.  */
    uint32_t n_earlier, earlier[WM_SUMMARY_EARLIER_MAX];
} wm_summary_named_t;
#define WM_SUMMARY_NAMED_MAX 16

typedef struct {
    const char *state;       /* "running", "waiting" (until a person acts), "paused", "draining",
                                "finished" (every input is written or held), "idle" (there are
                                none); without a broker "stopped", "finished", "idle" */
    const char *waiting_for; /* the name of `waiting`; NULL: nothing */
    wm_wait_t waiting;       /* what the campaign as a whole waits for */
    const char *paused;      /* why it is paused; lent; NULL */
    uint64_t epoch;
    uint64_t inputs, inputs_open, inputs_written, inputs_held;
    uint64_t events_announced, events_done, events_written;
    uint64_t batches_queued, batches_asked, batches_running, batches_returned, batches_held;
    uint64_t hits_announced, hits_done, hits_held;
    uint64_t hits_empty; /* of written inputs: nothing but zeros in their patch */
    uint64_t payload_in_bytes, task_out_bytes, result_in_bytes, budget_used_bytes, budget_bytes;
    double hits_expected; /* of all inputs, estimated from those announced; < 0: unknown */
    double hits_s, events_s, eta_s; /* eta_s < 0: unknown */
    uint64_t n_summed; /* hits scored since the broker started; below: the sums of their scores */
    double score_sum[WM_SUMMARY_SCORES_MAX];
    uint32_t n_score; /* 0: not summed, as of more than WM_SUMMARY_SCORES_MAX, and for clients */
    uint64_t n_fail, n_lost, n_preempt, n_duplicate, n_late, n_alarm, n_copy, n_dismissed;
    wm_latency_t step[WM_STEPS]; /* since the broker started */
    uint32_t n_worker, n_worker_listed, n_producer_listed, n_held, n_open, n_logged;
    uint32_t n_state[WM_SUMMARY_STATES], n_job;
    char job[WM_PEERS_MAX][WM_SUMMARY_JOB_BYTES];
    wm_summary_arithmetic_t arithmetic[WM_CLASSES_MAX];
    wm_summary_rows_t rows[WM_SUMMARY_ROWS_MAX];
    uint32_t n_arithmetic, n_rows;
    uint64_t n_again; /* batches scored again by strict fp32 */
    /* Batches that were sampled; whose second score agreed; differed; that wait for one now.  */
    uint64_t n_sampled, n_check_good, n_check_differ, n_check_open;
    double check_share;
    const char *suspects; /* two workers that differed last, undecided; lent; NULL */
    uint32_t n_named;     /* of which WM_SUMMARY_NAMED_MAX are listed */
    wm_summary_named_t named[WM_SUMMARY_NAMED_MAX];
    uint64_t inputs_changed, held_total;          /* of which n_held are named */
    uint32_t n_wait, n_by_wait[WM_WAIT_END];      /* listed; all, by wait */
    wm_summary_wait_t wait[WM_SUMMARY_WAITS_MAX]; /* the campaign's, then by severity */
    wm_summary_worker_t worker[WM_SUMMARY_PEERS_MAX];
    wm_summary_producer_t producer[WM_SUMMARY_PEERS_MAX];
    wm_summary_held_t held[WM_SUMMARY_HELD_MAX];       /* inputs, then the latest batches */
    wm_summary_open_t open[WM_SUMMARY_OPEN_MAX];       /* the first of inputs_open */
    wm_summary_logged_t logged[WM_SUMMARY_LOGGED_MAX]; /* the latest first */
} wm_summary_t;

extern const char *const wm_core_states[WM_SUMMARY_STATES];
void wm_core_summary (const wm_core_t *self, wm_summary_t *summary);
void wm_summary_add_wait (wm_summary_t *summary, wm_wait_t wait, const char *label,
                          const char *text, double since_s);

/* What notifications and systemd need of the campaign at each tick; it costs no walk.  */
#define WM_BRIEF_STOPS_MAX 8
typedef struct {
    wm_wait_t wait;
    const char *text; /* lent */
} wm_brief_stop_t;
typedef struct {
    wm_brief_stop_t stop[WM_BRIEF_STOPS_MAX]; /* pauses (schema/wm_wait.h), critical ones first */
    uint32_t n_stop;
    uint64_t inputs, inputs_written, inputs_held, hits_done, hits_held, hits_announced;
    uint64_t n_closed; /* inputs that were written or held since the core was made */
    double hits_s;
    uint32_t n_worker, n_producer; /* connected */
} wm_brief_t;
void wm_core_brief (const wm_core_t *self, wm_brief_t *brief);

/* Returns the bytes of payloads that are here, or were asked for and may come; *asked: of all that
   were asked for since the start, each as often as it was.  */
uint64_t wm_core_payloads (const wm_core_t *self, uint64_t *asked);

#endif
