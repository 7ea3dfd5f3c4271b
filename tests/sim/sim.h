/* sim.h - one campaign in virtual time: the real core, journal and ledger among modelled peers.

   Everything random is thrown by one die, so a seed replays exactly. The rooms of the simulator:
     sim_disk.c      the disk that loses its power, for the journal and for SQLite; a ledger spoilt
     sim_bus.c       the die, the story, links between peers and broker
     sim_broker.c    drives wm_core and wm_recorder as broker/wm_reactor.c does
     sim_bugs.c      planted bugs
     sim_producer.c  announces, answers NEED, fetches, writes outputs
     sim_client.c    asks a broker for clients, answers NEED, takes answers
     sim_worker.c    executes, answers; hangs, fails and gives wrong results on command
     sim_check.c     what must hold after every step; what the world promised
     sim_served.c    the same of a broker for clients
     sim.c           faults, the loop
     sim_main.c      the command line: many seeds, power cuts, planted bugs
   One world at a time: `sim`. Thread: one.  */
#ifndef SIM_H
#define SIM_H

#include "broker/campaign/wm_campaign.h"
#include "broker/core/wm_core_check_private.h"

#include <stdbool.h>

#define N_OUTPUT 1u
#define INPUTS 4u
#define EVENTS 8u
#define BATCHES 4u
#define WORKERS 5u
#define PRODUCERS 2u
#define PEERS (WORKERS + PRODUCERS + 1)
#define LINKS 128u
#define TASKS 16u
#define BUDGET_BYTES (16ull << 20)
#define BLAMED 8

#define NEVER INT64_MAX

/* ---- bugs that can be planted ---------------------------------------------------------------- */

typedef enum {
    BUG_NONE,
    BUG_ACK_BEFORE_SYNC,
    BUG_RECORD_FORGOTTEN,
    BUG_FULL_DISK_DROPS,
    BUG_FSYNC_IGNORED,
    BUG_LEDGER_AHEAD,
    BUG_TAIL_TRUNCATED,
    BUG_DUPLICATE_JOURNALLED,
    BUG_HELD_FORGOTTEN,
    BUG_WRITTEN_ACKED_EARLY,
    BUG_NEED_FORGOTTEN,
    BUG_LEASE_OUTLIVES,
    BUG_LATE_RESULT_IGNORED,
    BUG_CREDIT_ACROSS_SESSIONS,
    BUG_BLAME_THE_WAITING,
    BUG_WALL_CLOCK,
    BUG_REPEAT_ACKED_EARLY,
    BUG_DONE_ONE_EARLY,
    BUG_DONE_FORGOTTEN,
    BUG_BUDGET_IGNORED,
    BUG_QUEUE_IGNORED,
    BUG_CLAIM_OUTLIVES,
    BUG_DISK_STAYS_FULL,
    BUG_WRONG_PAYLOAD,
    BUG_TASK_TWICE,
    BUG_RESULT_OF_A_NEIGHBOUR,
    BUG_NO_SECOND_ACK,
    BUG_NO_FDATASYNC,
    BUG_SEAL_IGNORED,
    BUG_LOSS_UNNOTICED,
    BUG_ROT_ANSWERED,
    BUG_NO_COPIES,
    BUG_PAUSE_FORGOTTEN,
    BUG_PAUSE_UNAPPLIED,
    BUG_PAUSE_AGAIN,
    BUG_ARITHMETIC_FORGOTTEN,
    BUG_ARITHMETIC_UNAPPLIED,
    BUG_SAMPLE_FORGOTTEN,
    BUG_SAMPLE_UNAPPLIED,
    BUG_DISTRUST_FORGOTTEN,
    BUG_DISTRUST_UNAPPLIED,
    BUG_DISTRUST_AGAIN,
    BUG_TOLD_FORGOTTEN,
    BUG_TOLD_UNAPPLIED,
    BUG_TOLD_AGAIN,
    BUG_STANDING_UNSYNCED,
    BUG_KICK_FORGOTTEN,
    BUG_BREAKER_STUCK,
    BUG_LEDGER_EMPTY,
    BUG_LEDGER_BEHIND,
    BUG_STRAY_DROPPED,
    BUG_LOST_BY_ANYONE,
    BUG_ALARM_FORGOTTEN,
    BUG_HELD_BY_ONE,
    BUG_WRONG_BLAME,
    BUG_TRIED_FOR_EVER,
    BUG_CACHE_TRUSTED,
    BUG_NEED_FOR_EVER,
    BUG_NEVER_ASKED_AGAIN,
    BUG_LATE_REFUSED,
    BUG_CHECK_PASSED,
    BUG_CHECK_BLAMES_FIRST,
    BUG_FIRST_OF_CLIENTS,
    BUG_LATE_FORGOTTEN = BUG_FIRST_OF_CLIENTS,
    BUG_BUDGET_TWICE,
    BUG_BUDGET_KEPT,
    BUG_LATE_TAKEN_FOR_ANOTHER,
    BUG_ANSWERED_TWICE,
    BUG_ANSWER_FORGOTTEN,
    BUG_HELD_UNANSWERED,
    BUG_ANNOUNCED_ONCE,
    BUG_OWED_FOR_EVER,
    BUG_SILENT_FROM_HELLO,
    BUG_ENDED_WITH_ANOTHER,
    BUG_ENDED_AS_LATE,
    BUG_TURN_BY_BATCHES,
    BUG_TURN_KEPT,
    BUG_TURN_LAST,
    BUG_TURN_FIRST,
    BUG_TURN_SAVED,
    BUG_TURN_STUCK,
    BUG_TURN_PENALTY,
    BUG_END,
} bug_t;

typedef struct {
    const char *name, *what;
} bug_text_t;
extern const bug_text_t bug_text[BUG_END];

/* ---- the truth ------------------------------------------------------------------------------- */

/* A batch: its truth, and everything that was reported of it.  */
typedef struct {
    uint8_t digest[16];
    uint32_t n_hit, raw_bytes, payload_bytes;
    /* 1 + its input's files lost when the result came that was acknowledged last; 0: none. An
       acknowledgement may wait for the disk while another file is lost.  */
    uint32_t promised;
    uint32_t came;     /* the files lost when a result came last */
    bool compared;     /* that one was the second of a check, which is not kept */
    uint32_t n_record; /* RESULT records of it in the journal now */
    uint64_t hash;     /* of the one */
    bool held;         /* there is a HELD record */
    bool alarm;        /* two answers with other bytes exist */
    bool alarmed;      /* and that was reported */
    bool lasting;      /* every worker refuses it, for ever */
    uint32_t engine;   /* of the one record, where this broker's life appended it; 0 */
    uint32_t failures; /* times that something happened which may be blamed on it */
    uint32_t blamed[BLAMED], n_blamed; /* tags of the workers it happened to; more than fit: any */
} unit_t;

typedef struct {
    uint32_t n_batch, n_bad, n_hit;
    unit_t unit[BATCHES];
} truth_event_t;

typedef struct {
    uint32_t n_event;
    uint32_t bad_at; /* 1 + event at which its producer finds it unreadable; 0: it is good */
    truth_event_t event[EVENTS];
    uint32_t id;     /* as the journal gives it; 0: not yet */
    uint32_t n_lost; /* FILE_LOST and KICK records in the journal */
    int64_t lost_ms; /* when the last of them was appended */
    uint32_t generation, promised_generation;
    wm_record_type_t state; /* last of INPUT, FILE_WRITTEN, FILE_LOST, HELD (whole) */
    uint32_t promised_id;   /* an INPUT_ACK named it so */
    uint32_t promised_written, promised_end; /* as unit_t.promised */
    uint32_t came_written, came_end;         /* as unit_t.came */
    bool ended;
    /* the output file */
    bool there;
    uint64_t out_size;
    int64_t out_mtime_ns;
    uint64_t out_hash[EVENTS][BATCHES]; /* 0: held */
} truth_input_t;

/* ---- links ----------------------------------------------------------------------------------- */

typedef struct packet_t {
    struct packet_t *next;
    int64_t at_ms;
    size_t header_bytes, bytes, data_bytes; /* bytes: as the payload pretends */
    bool has_payload;
    bool is_again;   /* TASK of a batch that this worker was told to drop before */
    uint64_t number; /* of messages sent before over this link */
    wm_msg_type_t type;
    uint8_t data[]; /* header, then payload */
} packet_t;

typedef struct {
    packet_t *head, *tail;
    int64_t last_ms; /* nothing arrives before what was sent before it */
} pipe_t;

typedef struct peer_t peer_t;
typedef struct {
    bool used, hostile;
    uint32_t serial;
    peer_t *peer; /* NULL: that end is gone */
    wm_role_t role;
    bool is_known;
    uint32_t session;              /* at the broker; 0: none, or over */
    bool broker_end;               /* the broker's end is there */
    pipe_t up, down;               /* to the broker, to the peer */
    uint64_t n_sent[2], n_read[2]; /* messages down, up */
    int64_t up_closed_ms;          /* when the broker learns that it is closed; NEVER */
    int64_t down_closed_ms;
    /* what must hold in a session */
    uint64_t granted, tasks;
    uint32_t tag; /* of its peer, as the core makes it of the instance */
    bool done_sent[INPUTS][EVENTS];
    uint64_t n_need, n_batch;    /* NEEDs sent to it, BATCHes that arrived */
    bool mourned;                /* its end was counted among what may be blamed */
    int64_t heard_ms;            /* of the core's time: its last message */
    uint32_t n_failed;           /* NACKs of its leases, one after another */
    wm_key_t revoked[8]; /* the last of its REVOKEs */
    uint32_t n_revoked;
    int64_t owed_ms, starved_ms; /* since when its producer owes a BATCH, is not asked; 0: not so */
} link_t;

/* ---- peers ----------------------------------------------------------------------------------- */

typedef enum { TASK_FREE, TASK_QUEUED, TASK_EXECUTING, TASK_RETURNED } task_state_t;
typedef struct {
    task_state_t state;
    wm_msg_t msg; /* TASK */
    uint64_t serial;
    bool wrong; /* its result has other bytes than it should */
} task_t;

typedef enum {
    IN_NEW,
    IN_ASKED,
    IN_OPEN,
    IN_OURS,
    IN_BUSY,
    IN_LOST,
    IN_ENDING,
    IN_WRITTEN,
    IN_HELD
} in_t;
typedef struct {
    in_t is;
    uint32_t id, generation;
    int64_t retry_ms;
    uint32_t next, n_done, n_complete;
    bool end_sent, end_acked, placed, written_sent;
    bool announced[EVENTS], done[EVENTS], complete[EVENTS];
    uint32_t n_fetched[EVENTS];
    uint64_t hash[EVENTS][BATCHES];
} in_work_t;

/* What a client asks for: an event of the truth.  */
#define REQUESTS 8u
typedef struct {
    bool is_open, announced;
    uint32_t ordinal, input, event, n_answer;
    bool answered[BATCHES];
} request_t;

struct peer_t {
    wm_role_t role;
    uint32_t index;
    char label[24];
    bool alive, welcome, hostile;
    bool broken;   /* its engine fails on everything, for ever */
    uint32_t lies; /* of a thousand answers so many are wrong */
    int64_t wake_ms, retry_ms, opened_ms, heard_ms, beat_ms, frozen_ms, back_ms;
    int64_t stopped_ms; /* since when it is frozen */
    uint8_t instance[16];
    uint32_t n_instance;
    link_t *link;
    uint64_t epoch;
    /* worker */
    task_t task[TASKS];
    uint64_t serial, received, granted, progress;
    int64_t finish_ms;
    uint32_t window, speed_ms, n_busy;
    uint32_t signature;
    bool draining, hangs;
    int64_t drained_ms;
    bool lent[INPUTS][EVENTS][BATCHES]; /* sent to it, and no answer acknowledged */
    /* producer */
    in_work_t in[INPUTS];
    uint32_t asked, asked_code, n_open, open_max; /* asked: 1 + input */
    bool fetching;
    int64_t full_ms;
    /* client */
    request_t request[REQUESTS];
    uint32_t n_call, last_ordinal, next_input, next_event; /* n_call: requests yet to be opened */
    bool has_ours;
    wm_key_t ours;
    int64_t mute_ms, encoded_ms; /* until then it loses NEEDs; has no time for messages */
};

/* ---- the world ------------------------------------------------------------------------------- */

/* Bytes that outlive a message; what the core holds.  */
typedef struct {
    uint32_t refs, held; /* held: of them by the core */
    bool is_batch;
    size_t bytes, data_bytes;
    uint8_t data[];
} handle_t;

typedef struct {
    uint32_t cut, worker_dies, worker_freezes, worker_hangs, producer_dies, producer_freezes;
    uint32_t broker_killed, broker_stops, disk_full, hostile, output_lost, fsync_fails,
        operator_acts;
    uint32_t rots;               /* a bit of a result on the disk */
    uint32_t nack, twice, wrong; /* per thousand answers */
    uint32_t flipped;            /* per ten thousand messages: a bit of it, or its COMMAND bit */
    uint32_t late_ms;            /* how long what is under way may be late */
    uint32_t slow_ms;            /* one pass of the broker's loop takes up to so long */
    uint32_t worker_drains, broker_ends;
    uint32_t producer_mute;        /* it loses what it is asked, for a while */
    uint32_t encode_ms;            /* how long a producer takes for a batch, up to; 0: no time */
    uint32_t slow_link_ms;         /* how long a BATCH is under way, up to */
    uint32_t ledger_spoils;        /* the ledger, at one start of so many */
    uint32_t power_cut_operations; /* the power goes within so many after each start; 0: not so */
} faults_t;

/* Of a world.  */
typedef enum {
    A_CAMPAIGN,
    ONLY_CUTS, /* of all faults the power cuts, many of them, in odd seeds with a ledger that is
                  synced as SQLite's synchronous=NORMAL does */
    CLIENTS,   /* a broker for clients */
} kind_t;

/* Records that stand: how many the journal has, and what the last says; how many it must have.  */
typedef struct {
    uint32_t n_pause, promised_pause;
    bool paused, has_sample, promises_sample;
    uint64_t sample_sum; /* of its payload, whose sender may be hostile */
    uint32_t classes, distrusted, suspects; /* bits: engines, workers, inputs */
    uint64_t told;
} standing_t;

/* Whose order is not answered yet.  */
typedef struct {
    uint32_t session; /* 0: none */
    bool pauses, is_answered;
    uint32_t n_pause; /* with that of its order */
} operator_t;

typedef struct {
    uint64_t seed, random;
    bug_t bug;
    kind_t kind;
    bool story;
    int64_t now_ms, faults_end_ms, resumed_ms;
    bool calm; /* faults are over */
    uint64_t order;
    char failure[600];
    faults_t faults;
    uint32_t n_input, n_worker, n_producer;
    truth_input_t input[INPUTS];
    link_t link[LINKS];
    uint32_t serial;
    peer_t peer[PEERS];
    uint64_t blames; /* what may be blamed, since the broker's start */
    uint64_t held_bytes;
    bool is_ordered;      /* an operator's word is being carried out */
    bool paused_promised; /* acknowledged to an operator */
    standing_t standing;
    bool reuses;        /* clients give numbers of answered requests to others: what workers report
                             of the one (NACK names no bytes) may be blamed on the other */
    bool unserved;      /* a batch with a turn left it otherwise: a worker had it already */
    uint64_t n_sync, stood; /* of files; before a record that stands was appended last, or 0 */
    bool rotten;        /* bits of results on the disk are wrong */
    wm_key_t fetched;   /* BUG_ROT_ANSWERED */
    double check_share; /* of batches that a second machine scores */
    uint64_t n_bug;     /* chances that a planted bug had */
    struct {
        uint64_t steps, messages, restarts, powercuts, cuts, kills, acked, records, held, spoils;
        uint64_t answers, late;  /* batches that clients got; BATCHes whose NEED held no bytes */
        uint64_t checked, named; /* checks that were compared; workers that were found wrong */
    } count;
} sim_t;
extern sim_t sim;

/* ---- sim.c ----------------------------------------------------------------------------------- */

/* Runs one seed. false: it broke, sim.failure explains it.  */
bool sim_run (uint64_t seed, bug_t bug, kind_t kind, bool story);

/* ---- sim_standing.c -------------------------------------------------------------------------- */

/* The journal is read from its begin: a record of it, or one that is appended later; its end.  */
void standing_begin (void);
void standing_note (const wm_record_t *record, const uint8_t *body, size_t bytes);
/* The scores of this input count no more.  */
void standing_begins_again (uint32_t input);
void standing_end (void);
/* A core that has just been restored.  */
void standing_restored (const wm_core_t *core);
/* An operator has ordered a pause or its end; was acknowledged.  */
void standing_ordered (operator_t *operator, bool pauses);
void standing_acked (const operator_t *operator);
/* A command of --on-done, perhaps, has ended.  */
wm_record_t standing_tell (void);

/* ---- sim_bus.c ------------------------------------------------------------------------------- */

uint32_t roll (uint32_t sides);
bool chance (uint32_t permille);
/* Prints a line of the story of one seed; nothing where many run.  */
void log_event (const char *who, const char *format, ...) __attribute__ ((format (printf, 2, 3)));
/* The seed has failed; the first text counts.  */
void fail (const char *format, ...) __attribute__ ((format (printf, 1, 2)));
const char *msg_text (const wm_msg_t *msg, size_t bytes);

/* NULL: no broker there, or no link free.  */
link_t *link_open (peer_t *peer);
uint32_t tag_of (const peer_t *peer);
/* Sends; bytes: what the payload pretends to be.  */
void link_send (link_t *link, bool up, const wm_msg_t *msg, const void *data, size_t data_bytes,
                size_t bytes);
/* The next packet that has arrived by now, or NULL; the caller frees it.  */
packet_t *link_take (link_t *link, bool up);
/* The peer closes (or dies): what it sent may still arrive.  */
void link_leave (link_t *link, bool lossy);
/* The network ends it: both sides learn of it, sooner or later.  */
void link_cut (link_t *link);
void link_broker_died (link_t *link);
void link_free_if_over (link_t *link);
int64_t link_next_ms (const link_t *link, bool up);
/* The broker hangs up.  */
void link_hang_up (link_t *link);
/* The size of the next packet's header, or 0: a bit of it flipped, or one before it was lost.  */
size_t packet_unseal (link_t *link, bool up, const packet_t *packet);
void links_clear (void);

/* ---- sim_disk.c ------------------------------------------------------------------------------ */

extern const wm_storage_ops_t sim_disk_ops;
#define SIM_VFS "powercut"
/* lazy: what SQLite syncs in its WAL is synced only before its database is written.  */
void sim_disk_new (uint64_t seed, bool lazy);
void sim_disk_free (void);
void sim_disk_full (bool full);
bool sim_disk_is_full (void);
bool sim_disk_is_gone (void);
void sim_disk_power (uint64_t operations_left);
void sim_disk_fail_sync (void);
void sim_disk_come_back (bool is_power_cut);
void sim_disk_truncate_tail (void);
/* Keeps the ledger as it is at this moment, in place of what was kept before.  */
void sim_disk_keep_ledger (void);
/* The ledger is gone, cut short, full of flipped bits or zeroed pages, or what was kept of it.  */
void sim_disk_spoil_ledger (void);
/* Sets a bit in a segment of results; false: it was set, or there is none.  */
bool sim_disk_rot (void);

/* ---- sim_broker.c ---------------------------------------------------------------------------- */

bool broker_is_up (void);
int64_t broker_next_ms (void);
void broker_step (void);
void broker_kill (bool is_power_cut);
void broker_stop (void);
void broker_control (const char *word, const char *text);
void broker_stall (int64_t ms);
void broker_wake (int64_t at_ms);
void broker_new (void);
void broker_free (void);
wm_core_t *broker_core (void);
const wm_campaign_t *broker_campaign (void);
link_t *link_of_session (uint32_t session);
void broker_transmit (link_t *link, const wm_msg_t *msg, const wm_payload_t *payload);
void handle_ref (void *context, void *handle);
void handle_unref (void *context, void *handle);

/* ---- sim_bugs.c ------------------------------------------------------------------------------ */

/* true: the message is not sent; the core never sees it; the end is not reported to the core.  */
bool bug_sends (link_t *link, const wm_msg_t *msg, const wm_payload_t *payload);
bool bug_receives (link_t *link, wm_msg_t *msg, const wm_payload_t *payload);
bool bug_closes (link_t *link);
void bug_ticks (int64_t ticked_ms);

/* ---- sim_producer.c, sim_client.c, sim_worker.c ---------------------------------------------- */

void producer_step (peer_t *peer);
void producer_begin (peer_t *peer);
bool producer_is_done (const peer_t *peer);
void client_step (peer_t *peer);
void client_begin (peer_t *peer);
bool client_is_done (const peer_t *peer);
void worker_step (peer_t *peer);
void worker_begin (peer_t *peer);
bool worker_is_clear (const peer_t *peer);
void worker_hang (peer_t *peer);
void worker_drain (peer_t *peer);
void hostile_step (peer_t *peer);
/* Something happened to it (its link ended, if one is given): what it had may be blamed.  */
void worker_misfortune (peer_t *peer, link_t *link);
void worker_lent (peer_t *peer, const wm_key_t *key, bool lent);
/* Ends its process; it comes back after a while as another instance.  */
void peer_die (peer_t *peer, int64_t back_ms);
void peer_send (peer_t *peer, const wm_msg_t *msg, const void *data, size_t data_bytes,
                size_t bytes);
/* Session keeping that all peers share: opens, waits for WELCOME, beats. true: it is in session. */
bool peer_session (peer_t *peer, const void *held, size_t held_bytes);
/* The next message, decoded; false: none. Sessions end inside.  */
bool peer_receive (peer_t *peer, wm_msg_t *msg, packet_t **packet);
void peer_lose (peer_t *peer);
/* A producer or client wakes up for what it wants to do, or what comes.  */
void peer_sleep (peer_t *peer);

/* ---- sim_check.c ----------------------------------------------------------------------------- */

void truth_new (void);
unit_t *truth_unit (const uint8_t digest[16]);
/* Which batch of which event of which input has this digest; false: none.  */
bool truth_place (const uint8_t digest[16], uint32_t *input, uint32_t *event, uint32_t *batch);
unit_t *truth_unit_of_key (const wm_key_t *key);
truth_input_t *truth_input_of_id (uint32_t id);
/* The bytes a result must have; returns its size.  */
size_t truth_result (const uint8_t digest[16], uint32_t n_hit, uint32_t signature, uint8_t *result);
/* What the broker found in its journal, before any effect leaves.  */
void check_journal_begin (void);
void check_journal_record (const wm_record_t *record);
void check_journal_abandon (void); /* the broker ended while it read */
void check_journal_end (void);
void check_restored (const wm_core_t *core);
/* A message of a peer, before the core handles it.  */
void check_came (const wm_core_t *core, const link_t *link, const wm_msg_t *msg);
/* What goes out, and what is appended.  */
void check_sent (link_t *link, const wm_msg_t *msg, const wm_payload_t *payload);
void check_appended (const wm_record_t *record, const uint8_t *body, size_t bytes);
void check_core (const wm_core_t *core);
/* A stopped worker does not delay others that could do its work.  */
void check_tail (const wm_core_t *core);
/* Nobody starves: what a producer does not answer is reserved for a while only, and one that
   answers is asked while workers have nothing ready.  */
void check_needs (const wm_core_t *core);
/* A result cannot be read back.  */
void check_unreadable (const wm_key_t *key, const char *why);
/* Two different results of one engine must raise an alarm, and nothing else may: before and after
   the core sees this message.  */
typedef struct {
    uint64_t core_good, core_differ, hash; /* hash: of the first result; 0: not known */
    uint32_t n_answer;                     /* of the check that is answered; 0: none is */
    wm_key_t key;
    const machine_t *first;
} check_before_t;
check_before_t check_compare_begin (const wm_core_t *core, const link_t *link, const wm_msg_t *msg);
void check_compare_end (const wm_core_t *core, const check_before_t *before,
                        const wm_payload_t *payload);
bool check_alarm_due (const link_t *link, const wm_msg_t *msg, const wm_payload_t *payload);
void check_alarm (const wm_core_t *core, const wm_msg_t *msg, bool due, uint64_t n_alarm);
/* Something happened to the worker of this tag that may be blamed on the batch.  */
void unit_blame (unit_t *unit, uint32_t tag);
/* A NACK (not of a drain) or RESULT of a leased batch.  */
void check_answered (link_t *link, bool failed);
/* The core has seen this message: what an honest worker scored counts, if nothing else has.  */
void check_taken (const wm_core_t *core, const link_t *link, const wm_msg_t *msg);
void check_end (void);

/* ---- sim_served.c ---------------------------------------------------------------------------- */

void served_clear (void);
/* A client's SUBMIT arrives.  */
void served_submitted (const wm_msg_t *msg, const wm_payload_t *payload);
/* Which batch of the truth the newest SUBMIT of this key announced; NULL: none.  */
unit_t *served_unit (const wm_key_t *key);
bool served_is_quiet (const wm_core_t *core);
void served_check (const wm_core_t *core);
/* The core ends the session of this link by itself.  */
void served_ended (const wm_core_t *core, const link_t *link);

#endif
