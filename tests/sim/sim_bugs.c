/* sim_bugs.c - mistakes that can be planted (sim.bug), and what they are called.

   The product's code is as it is: a bug sits at one of its doors, in a function that the linker
   puts before the real one (-Wl,--wrap), or between the core and the links. Those of the disk are
   in sim_disk.c.  */
#include "tests/sim/sim.h"

#include <string.h>

#define SEEN 4096

const bug_text_t bug_text[BUG_END] = {
    [BUG_ACK_BEFORE_SYNC] = { "ack-before-sync", "effects leave before the fdatasync" },
    [BUG_RECORD_FORGOTTEN] = { "record-forgotten", "one RESULT in 8 never enters the journal" },
    [BUG_FULL_DISK_DROPS] = { "full-disk-drops", "a record met by a full disk is dropped" },
    [BUG_FSYNC_IGNORED] = { "fsync-ignored", "a failed fdatasync is passed over" },
    [BUG_LEDGER_AHEAD] = { "ledger-ahead", "the ledger commits before the journal's fdatasync" },
    [BUG_TAIL_TRUNCATED] = { "tail-truncated", "a torn tail is cut off, and more with it" },
    [BUG_DUPLICATE_JOURNALLED] = { "duplicate-journalled", "a repeated RESULT is appended again" },
    [BUG_HELD_FORGOTTEN] = { "held-forgotten", "HELD of a batch never enters the journal" },
    [BUG_WRITTEN_ACKED_EARLY] = { "written-acked-early",
                                  "FILE_WRITTEN is answered before it is durable" },
    [BUG_NEED_FORGOTTEN] = { "need-forgotten", "no second NEED when a producer comes back" },
    [BUG_LEASE_OUTLIVES] = { "lease-outlives", "leases outlive their worker's session" },
    [BUG_LATE_RESULT_IGNORED] = { "late-result-ignored", "a late RESULT is dropped" },
    [BUG_CREDIT_ACROSS_SESSIONS] = { "credit-across-sessions", "credit outlives its session" },
    [BUG_BLAME_THE_WAITING] = { "blame-the-waiting", "what waited at a lost worker is blamed" },
    [BUG_WALL_CLOCK] = { "wall-clock", "deadlines run on while the broker is stopped" },
    [BUG_REPEAT_ACKED_EARLY] = { "repeat-acked-early",
                                 "a repeat is acknowledged before the first is durable" },
    [BUG_DONE_ONE_EARLY] = { "done-one-early", "EVENT_DONE with one batch on its way" },
    [BUG_DONE_FORGOTTEN] = { "done-forgotten", "one EVENT_DONE in 16 is not sent" },
    [BUG_BUDGET_IGNORED] = { "budget-ignored", "four times the byte budget" },
    [BUG_QUEUE_IGNORED] = { "queue-ignored",
                            "payloads in the queue to a worker are not in the budget" },
    [BUG_CLAIM_OUTLIVES] = { "claim-outlives", "a claim outlives its session" },
    [BUG_DISK_STAYS_FULL] = { "disk-stays-full", "room on the disk is not noticed" },
    [BUG_WRONG_PAYLOAD] = { "wrong-payload", "a TASK with the payload of another" },
    [BUG_TASK_TWICE] = { "task-twice", "a TASK is sent twice, on one credit" },
    [BUG_RESULT_OF_A_NEIGHBOUR] = { "result-of-a-neighbour", "a batch is given the wrong place" },
    [BUG_NO_SECOND_ACK] = { "no-second-ack", "a repeated RESULT is not acknowledged" },
    [BUG_NO_FDATASYNC] = { "no-fdatasync", "the journal's fdatasync is left out" },
    [BUG_SEAL_IGNORED] = { "seal-ignored", "a message damaged in transit is accepted" },
    [BUG_LOSS_UNNOTICED] = { "loss-unnoticed", "a message that the link dropped is not missed" },
    [BUG_ROT_ANSWERED] = { "rot-answered", "a result that rotted on the disk is answered" },
    [BUG_NO_COPIES] = { "no-copies", "no copy of what a stopped worker holds" },
    [BUG_PAUSE_FORGOTTEN] = { "pause-forgotten", "PAUSE never enters the journal" },
    [BUG_PAUSE_UNAPPLIED] = { "pause-unapplied", "a replay passes PAUSE over" },
    [BUG_PAUSE_AGAIN] = { "pause-again", "after each PAUSE the first one is applied again" },
    [BUG_ARITHMETIC_FORGOTTEN] = { "arithmetic-forgotten", "ARITHMETIC never enters the journal" },
    [BUG_ARITHMETIC_UNAPPLIED] = { "arithmetic-unapplied", "a replay passes ARITHMETIC over" },
    [BUG_SAMPLE_FORGOTTEN] = { "sample-forgotten", "SAMPLE never enters the journal" },
    [BUG_SAMPLE_UNAPPLIED] = { "sample-unapplied", "a replay passes SAMPLE over" },
    [BUG_DISTRUST_FORGOTTEN] = { "distrust-forgotten", "DISTRUST never enters the journal" },
    [BUG_DISTRUST_UNAPPLIED] = { "distrust-unapplied", "a replay passes DISTRUST over" },
    [BUG_DISTRUST_AGAIN] = { "distrust-again", "after a KICK the first DISTRUST is applied again" },
    [BUG_TOLD_FORGOTTEN] = { "told-forgotten", "TOLD never enters the journal" },
    [BUG_TOLD_UNAPPLIED] = { "told-unapplied", "a replay passes TOLD over" },
    [BUG_TOLD_AGAIN] = { "told-again", "after each TOLD the first one is applied again" },
    [BUG_STANDING_UNSYNCED] = { "standing-unsynced",
                                "what follows a record that stands is not kept waiting for it" },
    [BUG_KICK_FORGOTTEN] = { "kick-forgotten", "KICK never enters the journal" },
    [BUG_BREAKER_STUCK] = { "breaker-stuck", "a worker that fails and fails gets more" },
    [BUG_LEDGER_EMPTY] = { "ledger-empty",
                           "a missing ledger begins empty, and the journal is not read into it" },
    [BUG_ALARM_FORGOTTEN] = { "alarm-forgotten", "two different results raise no alarm" },
    [BUG_HELD_BY_ONE] = { "held-by-one", "three failures of one worker hold a batch" },
    [BUG_WRONG_BLAME] = { "wrong-blame", "a failure is blamed on another worker" },
    [BUG_TRIED_FOR_EVER] = { "tried-for-ever", "what every worker refuses is never held" },
    [BUG_CACHE_TRUSTED] = { "cache-trusted",
                            "after a failed fdatasync the journal is read from memory" },
    [BUG_NEED_FOR_EVER] = { "need-for-ever", "a NEED that is not answered is not taken back" },
    [BUG_NEVER_ASKED_AGAIN] = { "never-asked-again", "a producer that was late gets no NEED" },
    [BUG_CHECK_PASSED] = { "check-passed",
                           "what two machines scored differently is taken for good" },
    [BUG_CHECK_BLAMES_FIRST] = { "check-blames-first",
                                 "of two that differ the other one is named" },
    [BUG_LATE_FORGOTTEN] = { "late-forgotten",
                             "a BATCH of an event that was answered and forgotten is refused" },
    [BUG_BUDGET_TWICE] = { "budget-twice", "a late BATCH gives the bytes of its NEED back again" },
    [BUG_BUDGET_KEPT] = { "budget-kept", "an event that is answered keeps the bytes of its NEEDs" },
    [BUG_LATE_TAKEN_FOR_ANOTHER] = { "late-taken-for-another",
                                     "a late payload becomes that of another event" },
    [BUG_ANSWERED_TWICE] = { "answered-twice", "the answer of a copy is sent to its client too" },
    [BUG_ANSWER_FORGOTTEN] = { "answer-forgotten", "one answer in 16 is not sent to its client" },
    [BUG_HELD_UNANSWERED] = { "held-unanswered", "a batch that is held is not answered" },
    [BUG_ANNOUNCED_ONCE] = { "announced-once",
                             "what a client announces again in a new session is passed over" },
    [BUG_OWED_FOR_EVER] = { "owed-for-ever", "a late BATCH answers no NEED" },
    [BUG_SILENT_FROM_HELLO] = { "silent-from-hello", "a client's messages are no sign of life" },
    [BUG_ENDED_WITH_ANOTHER] = { "ended-with-another", "a client's end ends other clients" },
    [BUG_ENDED_AS_LATE] = { "ended-as-late", "a client that is late once is ended" },
    [BUG_TURN_BY_BATCHES] = { "turn-by-batches", "a large batch takes one turn" },
    [BUG_TURN_KEPT] = { "turn-kept", "a client keeps its turn" },
    [BUG_TURN_LAST] = { "turn-last", "batches go out as they come" },
    [BUG_TURN_FIRST] = { "turn-first", "the newest batch goes out first" },
    [BUG_TURN_SAVED] = { "turn-saved", "an idle client saves its turns" },
    [BUG_TURN_STUCK] = { "turn-stuck", "the turn that is served does not count on" },
    [BUG_TURN_PENALTY] = { "turn-penalty", "a client waits for turns that it never had" },
    [BUG_LATE_REFUSED] = { "late-refused", "a BATCH that comes late is refused" },
    [BUG_STRAY_DROPPED] = { "stray-dropped",
                            "a RESULT before its event is announced is acknowledged and dropped" },
    [BUG_LOST_BY_ANYONE] = { "lost-by-anyone", "any producer's FILE_LOST opens a written input" },
    [BUG_LEDGER_BEHIND] = { "ledger-behind", "a ledger of some epochs ago is not brought up" },
};

/* One chance in n.  */
static bool nth (uint32_t n)
{
    return ++sim.n_bug % n == 0;
}

/* ---- before the real functions --------------------------------------------------------------- */

wm_fault_t __real_wm_journal_append (wm_journal_t *, wm_record_t *, wm_place_t *, wm_error_t *);
wm_fault_t __wrap_wm_journal_append (wm_journal_t *, wm_record_t *, wm_place_t *, wm_error_t *);
void __real_wm_journal_sync (wm_journal_t *);
void __wrap_wm_journal_sync (wm_journal_t *);
wm_fault_t __real_wm_journal_read (wm_journal_t *, const wm_place_t *, wm_record_t *, wm_error_t *);
wm_fault_t __wrap_wm_journal_read (wm_journal_t *, const wm_place_t *, wm_record_t *, wm_error_t *);
void __real_wm_ledger_apply (wm_ledger_t *, const wm_record_t *, const wm_place_t *);
void __wrap_wm_ledger_apply (wm_ledger_t *, const wm_record_t *, const wm_place_t *);
wm_fault_t __real_wm_ledger_catch_up (wm_ledger_t *, wm_journal_t *, wm_journal_found_t *,
                                      wm_error_t *);
wm_fault_t __wrap_wm_ledger_catch_up (wm_ledger_t *, wm_journal_t *, wm_journal_found_t *,
                                      wm_error_t *);
void __real_wm_core_durable (wm_core_t *, const wm_place_t *, int64_t);
void __wrap_wm_core_durable (wm_core_t *, const wm_place_t *, int64_t);
void __real_wm_core_disk_full (wm_core_t *, bool, int64_t);
void __wrap_wm_core_disk_full (wm_core_t *, bool, int64_t);
void __real_wm_core_dispatch_copies (wm_core_t *);
void __wrap_wm_core_dispatch_copies (wm_core_t *);
bool __real_wm_core_needs_tick (wm_core_t *, session_t *);
bool __wrap_wm_core_needs_tick (wm_core_t *, session_t *);
void __real_wm_core_batch_take_payload (wm_core_t *, batch_t *, payload_t *);
void __wrap_wm_core_batch_take_payload (wm_core_t *, batch_t *, payload_t *);
void __real_wm_core_budget_forget_need (wm_core_t *, batch_t *);
void __wrap_wm_core_budget_forget_need (wm_core_t *, batch_t *);

/* The bug sits in a broker that runs, not in its start.  */
static bool has (bug_t bug)
{
    return sim.bug == bug && broker_is_up ();
}

/* What happens to records that stand.  */
typedef enum { NOTHING, FORGOTTEN, UNAPPLIED, AGAIN } standing_bug_t;

static standing_bug_t bug_of (const wm_record_t *record)
{
    static const struct {
        wm_record_type_t type;
        bug_t bug;
        standing_bug_t what;
    } rows[] = {
        { WM_RECORD_PAUSE, BUG_PAUSE_FORGOTTEN, FORGOTTEN },
        { WM_RECORD_PAUSE, BUG_PAUSE_UNAPPLIED, UNAPPLIED },
        { WM_RECORD_PAUSE, BUG_PAUSE_AGAIN, AGAIN },
        { WM_RECORD_ARITHMETIC, BUG_ARITHMETIC_FORGOTTEN, FORGOTTEN },
        { WM_RECORD_ARITHMETIC, BUG_ARITHMETIC_UNAPPLIED, UNAPPLIED },
        { WM_RECORD_SAMPLE, BUG_SAMPLE_FORGOTTEN, FORGOTTEN },
        { WM_RECORD_SAMPLE, BUG_SAMPLE_UNAPPLIED, UNAPPLIED },
        { WM_RECORD_DISTRUST, BUG_DISTRUST_FORGOTTEN, FORGOTTEN },
        { WM_RECORD_DISTRUST, BUG_DISTRUST_UNAPPLIED, UNAPPLIED },
        { WM_RECORD_KICK, BUG_DISTRUST_AGAIN, AGAIN },
        { WM_RECORD_TOLD, BUG_TOLD_FORGOTTEN, FORGOTTEN },
        { WM_RECORD_TOLD, BUG_TOLD_UNAPPLIED, UNAPPLIED },
        { WM_RECORD_TOLD, BUG_TOLD_AGAIN, AGAIN },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].bug == sim.bug && rows[i].type == record->type)
            return rows[i].what;
    return NOTHING;
}

static bool last_stands; /* the last record that was appended */

wm_fault_t __wrap_wm_journal_append (wm_journal_t *self, wm_record_t *record, wm_place_t *place,
                                     wm_error_t *error)
{
    if ((has (BUG_RECORD_FORGOTTEN) && record->type == WM_RECORD_RESULT && nth (8)) ||
        (has (BUG_HELD_FORGOTTEN) && record->type == WM_RECORD_HELD) ||
        (has (BUG_KICK_FORGOTTEN) && record->type == WM_RECORD_KICK) ||
        (broker_is_up () && bug_of (record) == FORGOTTEN))
        return WM_OK;
    if (sim.stood && sim.stood == sim.n_sync)
        fail ("a %s record follows one that stands, and that is not durable",
              wm_record_name (record->type));
    wm_fault_t fault = __real_wm_journal_append (self, record, place, error);
    last_stands = fault == WM_OK && wm_record_stands (record->type);
    sim.stood = last_stands ? sim.n_sync : 0;
    if (fault == WM_OK && has (BUG_LEDGER_AHEAD))
        __real_wm_ledger_apply (broker_campaign ()->ledger, record, place);
    return fault == WM_EAGAIN && has (BUG_FULL_DISK_DROPS) ? WM_OK : fault;
}

void __wrap_wm_journal_sync (wm_journal_t *self)
{
    wm_error_t error;
    if (has (BUG_LEDGER_AHEAD))
        (void) wm_ledger_commit (broker_campaign ()->ledger, &error);
    if (has (BUG_STANDING_UNSYNCED) && last_stands) {
        last_stands = false;
        return;
    }
    if (!has (BUG_ACK_BEFORE_SYNC) || nth (2))
        __real_wm_journal_sync (self);
}

wm_fault_t __wrap_wm_journal_read (wm_journal_t *self, const wm_place_t *place, wm_record_t *record,
                                   wm_error_t *error)
{
    static const uint8_t nothing[64 * (1 + 4 * N_OUTPUT)];
    wm_fault_t fault = __real_wm_journal_read (self, place, record, error);
    if (fault == WM_OK || !has (BUG_ROT_ANSWERED) || !sim.rotten)
        return fault;
    wm_record_init (record, WM_RECORD_RESULT);
    record->key = sim.fetched;
    record->payload = nothing;
    record->payload_bytes = (uint32_t) wm_result_bytes (
        truth_unit_of_key (&sim.fetched) ? truth_unit_of_key (&sim.fetched)->n_hit : 1, N_OUTPUT);
    return WM_OK;
}

/* Applies the first record of this type of the seed again, as if it was this one.  */
static void apply_first (wm_ledger_t *self, const wm_record_t *record, const wm_place_t *place)
{
    static wm_record_t first;
    static char text[256], name[256];
    static uint8_t payload[4096];
    static uint64_t seed;
    const bool is_first = seed != sim.seed || sim.n_bug == 0;
    if (sim.bug == BUG_DISTRUST_AGAIN && is_first && record->type != WM_RECORD_DISTRUST)
        return;
    if (is_first) {
        sim.n_bug = 1;
        seed = sim.seed;
        first = *record;
        first.text = memcpy (text, record->text_bytes ? record->text : "", record->text_bytes);
        first.name = memcpy (name, record->name_bytes ? record->name : "", record->name_bytes);
        if (record->payload && record->payload_bytes <= sizeof payload)
            first.payload = memcpy (payload, record->payload, record->payload_bytes);
    }
    first.epoch = record->epoch;
    first.sequence = record->sequence;
    __real_wm_ledger_apply (self, &first, place);
}

void __wrap_wm_ledger_apply (wm_ledger_t *self, const wm_record_t *record, const wm_place_t *place)
{
    if (has (BUG_LEDGER_AHEAD) || bug_of (record) == UNAPPLIED)
        return;
    __real_wm_ledger_apply (self, record, place);
    if (bug_of (record) == AGAIN ||
        (sim.bug == BUG_DISTRUST_AGAIN && record->type == WM_RECORD_DISTRUST))
        apply_first (self, record, place);
}

/* Whether a ledger of this age is taken as it is.  */
static bool is_passed_over (wm_ledger_t *self, const wm_journal_t *journal)
{
    uint64_t epoch, sequence;
    wm_ledger_position (self, &epoch, &sequence);
    return (sim.bug == BUG_LEDGER_EMPTY && !epoch && sim.count.spoils) ||
           (sim.bug == BUG_LEDGER_BEHIND && epoch && epoch + 1 < wm_journal_epoch (journal));
}

wm_fault_t __wrap_wm_ledger_catch_up (wm_ledger_t *self, wm_journal_t *journal,
                                      wm_journal_found_t *found, wm_error_t *error)
{
    if (!is_passed_over (self, journal))
        return __real_wm_ledger_catch_up (self, journal, found, error);
    *found = (wm_journal_found_t){ 0 };
    return WM_OK;
}

void __wrap_wm_core_durable (wm_core_t *self, const wm_place_t *place, int64_t now_ms)
{
    static wm_place_t last;
    const pending_t *pending = &self->pending.ring[self->pending.head];
    const wm_place_t here = *place;
    if (has (BUG_RESULT_OF_A_NEIGHBOUR) && pending->type == WM_RECORD_RESULT && last.segment)
        place = &last;
    __real_wm_core_durable (self, place, now_ms);
    last = here;
}

void __wrap_wm_core_disk_full (wm_core_t *self, bool full, int64_t now_ms)
{
    if (full || !has (BUG_DISK_STAYS_FULL))
        __real_wm_core_disk_full (self, full, now_ms);
}

void __wrap_wm_core_dispatch_copies (wm_core_t *self)
{
    if (!has (BUG_NO_COPIES))
        __real_wm_core_dispatch_copies (self);
}

bool __wrap_wm_core_needs_tick (wm_core_t *self, session_t *producer)
{
    if (has (BUG_NEVER_ASKED_AGAIN))
        producer->probed_ms = self->now_ms;
    if (has (BUG_ENDED_AS_LATE) && producer->late)
        return true;
    return !has (BUG_NEED_FOR_EVER) && __real_wm_core_needs_tick (self, producer);
}

void __wrap_wm_core_budget_forget_need (wm_core_t *self, batch_t *batch)
{
    if (!has (BUG_BUDGET_KEPT) || !(batch->event->flags & EVENT_DONE))
        __real_wm_core_budget_forget_need (self, batch);
}

/* A client's batch gets its turn.  */
void __wrap_wm_core_batch_take_payload (wm_core_t *self, batch_t *batch, payload_t *payload)
{
    session_t *client = batch->event->input->claim;
    const bool is_new = batch->state != BATCH_RUNNING && !batch->attempt && !batch->failed_on;
    const uint32_t turn = client->turn, saved = self->producers.turn - 8;
    __real_wm_core_batch_take_payload (self, batch, payload);
    if (!is_new || batch->state != BATCH_READY)
        return;
    if (has (BUG_TURN_BY_BATCHES))
        client->turn = batch->turn + 1;
    if (has (BUG_TURN_KEPT))
        client->turn = batch->turn;
    if (has (BUG_TURN_PENALTY))
        client->turn += 50;
    if (has (BUG_TURN_SAVED) && turn != batch->turn)
        batch->turn = wm_core_turn_behind (saved, turn) ? saved : turn;
    if (!has (BUG_TURN_LAST) && !has (BUG_TURN_FIRST))
        return;
    wm_queue_remove (&self->queues.ready, &batch->link);
    (has (BUG_TURN_LAST) ? wm_queue_push : wm_queue_push_front) (&self->queues.ready, &batch->link);
}

/* ---- what goes out --------------------------------------------------------------------------- */

/* A NEED that was sent before.  */
static bool is_second (const wm_msg_t *msg)
{
    static wm_key_t asked[SEEN];
    static size_t n_asked;
    if (sim.count.messages == 0)
        n_asked = 0;
    for (size_t i = 0; i < n_asked; i++)
        if (memcmp (&asked[i], &msg->key, sizeof msg->key) == 0)
            return true;
    if (n_asked < SEEN)
        asked[n_asked++] = msg->key;
    return false;
}

/* Sends the payload of an earlier TASK.  */
static bool send_another (link_t *link, const wm_msg_t *msg, const wm_payload_t *payload)
{
    static handle_t *kept;
    static uint64_t seed;
    if (seed != sim.seed)
        kept = NULL; /* it went with its world */
    seed = sim.seed;
    if (kept && kept != payload->handle && nth (8)) {
        broker_transmit (link, msg, &(wm_payload_t){ kept, kept->data, kept->bytes });
        return true;
    }
    if (!kept) {
        kept = payload->handle;
        handle_ref (NULL, kept);
    }
    return false;
}

bool bug_sends (link_t *link, const wm_msg_t *msg, const wm_payload_t *payload)
{
    if (sim.bug == BUG_NEED_FORGOTTEN && msg->type == WM_MSG_NEED)
        return is_second (msg);
    if (sim.bug == BUG_DONE_FORGOTTEN && msg->type == WM_MSG_EVENT_DONE)
        return nth (16);
    if (sim.bug == BUG_ANSWER_FORGOTTEN && msg->type == WM_MSG_RESULTS)
        return nth (16);
    if (sim.bug == BUG_HELD_UNANSWERED && msg->type == WM_MSG_RESULTS)
        return msg->code != 0;
    if (sim.bug == BUG_WRONG_PAYLOAD && msg->type == WM_MSG_TASK)
        return send_another (link, msg, payload);
    if (sim.bug == BUG_TURN_STUCK && msg->type == WM_MSG_HEARTBEAT)
        broker_core ()->producers.turn = 0;
    if (sim.bug == BUG_TASK_TWICE && msg->type == WM_MSG_TASK && nth (8))
        broker_transmit (link, msg, payload);
    return false;
}

/* ---- what comes in --------------------------------------------------------------------------- */

static void send_early (const link_t *link, const wm_msg_t *msg, wm_msg_type_t type, uint32_t code)
{
    wm_msg_t early;
    wm_msg_init (&early, type);
    early.key = msg->key;
    early.code = code;
    link_t *to = link_of_session (link->session);
    if (to)
        broker_transmit (to, &early, NULL);
}

static void journal_again (const wm_msg_t *msg, const wm_payload_t *payload)
{
    wm_record_t record;
    wm_place_t place;
    wm_error_t error;
    wm_record_init (&record, WM_RECORD_RESULT);
    record.key = msg->key;
    memcpy (record.digest, msg->digest, 16);
    record.n_batch = msg->n_batch;
    record.n_hit = msg->n_hit;
    record.payload = payload->data;
    record.payload_bytes = (uint32_t) payload->bytes;
    check_appended (&record, payload->data, payload->bytes);
    (void) __real_wm_journal_append (broker_campaign ()->journal, &record, &place, &error);
}

static void carry_credit_over (const link_t *link, wm_msg_t *msg)
{
    static uint64_t before[PEERS];
    uint32_t i = link->peer ? link->peer->index : 0;
    uint64_t granted = msg->count;
    if (link->peer && link->peer->serial)
        msg->count += before[i];
    if (link->tasks == 0)
        before[i] = granted;
}

/* One batch of the event of this RESULT is missing, and its producer is connected.  */
static void send_done_early (const wm_msg_t *msg, const batch_t *batch)
{
    const event_t *event = batch->event;
    link_t *to = event->input->claim ? link_of_session (event->input->claim->id) : NULL;
    if (event->n_batch - event->n_returned - event->n_held != 1 || !to ||
        !(event->flags & EVENT_ANNOUNCED) || batch->state >= BATCH_COMMITTING)
        return;
    wm_msg_t done;
    wm_msg_init (&done, WM_MSG_EVENT_DONE);
    done.key = (wm_key_t){ msg->key.input, msg->key.ordinal, 0, msg->key.generation };
    broker_transmit (to, &done, NULL);
}

/* The core gets the NACK; then the failure is blamed on another worker.  */
static bool blame_another (const link_t *link, const wm_msg_t *msg, batch_t *batch)
{
    wm_core_t *core = broker_core ();
    const uint32_t tag = batch->failed_on;
    wm_core_message (core, link->session, msg, NULL, sim.now_ms);
    for (const session_t *other = core->sessions.first; other && batch->failed_on != tag;
         other = other->next)
        if (other->role == WM_ROLE_WORKER && other->tag != link->tag) {
            batch->failed_on = other->tag;
            break;
        }
    return true;
}

/* Gives a late BATCH, of which there is only the digest in its payload, the name of another batch
   of its client that waits to be asked for.  */
static void take_for_another (const session_t *session, wm_msg_t *msg, size_t bytes)
{
    const batch_t *other = session->wants.head ? batch_of (session->wants.head) : NULL;
    if (!other || session->n_owed == session->n_asked || bytes > wm_core_budget_need_bytes (other))
        return;
    msg->key = wm_core_batch_key (other);
    memcpy (msg->digest, other->digest, 16);
}

/* Sends the result of a batch whose event is answered to the client that has its input.  */
static void answer_again (const wm_msg_t *msg, const wm_payload_t *payload)
{
    const input_t *input = wm_core_input_find (broker_core (), msg->key.input);
    link_t *to = input && input->claim && input->generation == msg->key.generation
                     ? link_of_session (input->claim->id)
                     : NULL;
    wm_msg_t again = *msg;
    again.type = WM_MSG_RESULTS;
    *again.text = 0;
    if (to)
        broker_transmit (to, &again, &(wm_payload_t){ NULL, payload->data, payload->bytes });
}

/* A client's BATCH for which no NEED holds bytes any more.  */
static void bug_late (wm_core_t *core, session_t *session, const batch_t *batch, wm_msg_t *msg,
                      const wm_payload_t *payload)
{
    if (session->role != WM_ROLE_PRODUCER || msg->type != WM_MSG_BATCH ||
        (batch && batch->flags & BATCH_ASKED))
        return;
    if (sim.bug == BUG_LATE_FORGOTTEN && !batch)
        session->n_owed = session->n_asked;
    else if (sim.bug == BUG_BUDGET_TWICE && session->n_owed > session->n_asked)
        core->budget.used -= WM_FRAME_OVERHEAD;
    else if (sim.bug == BUG_LATE_TAKEN_FOR_ANOTHER)
        take_for_another (session, msg, payload->bytes);
    else if (sim.bug == BUG_OWED_FOR_EVER)
        session->n_owed++;
}

/* A SUBMIT that begins with this batch has come in an earlier session of the same client.  */
static bool is_announced (const session_t *client, const wm_payload_t *payload)
{
    static struct {
        uint8_t instance[16], line[sizeof (wm_manifest_batch_t)];
        uint32_t session;
    } seen[SEEN];
    static size_t n_seen;
    static uint64_t seed;
    const size_t bytes = sizeof seen->line;
    if (seed != sim.seed)
        n_seen = 0;
    seed = sim.seed;
    if (payload->bytes < bytes)
        return false;
    for (size_t i = 0; i < n_seen; i++)
        if (memcmp (seen[i].line, payload->data, bytes) == 0 &&
            memcmp (seen[i].instance, client->instance, 16) == 0)
            return seen[i].session != client->id;
    if (n_seen < SEEN) {
        memcpy (seen[n_seen].line, payload->data, bytes);
        memcpy (seen[n_seen].instance, client->instance, 16);
        seen[n_seen++].session = client->id;
    }
    return false;
}

bool bug_receives (link_t *link, wm_msg_t *msg, const wm_payload_t *payload)
{
    wm_core_t *core = broker_core ();
    session_t *session = wm_core_session_find (core, link->session);
    if (!session)
        return false;
    batch_t *batch = wm_core_batch_find (core, &msg->key);
    bool is_result = msg->type == WM_MSG_RESULT;
    bool leased = false;
    for (const lease_t *lease = batch ? batch->lease : NULL; lease; lease = lease->other)
        leased |= lease->worker == session && !lease->expired;
    bug_late (core, session, batch, msg, payload);
    switch (sim.bug) {
    case BUG_LATE_RESULT_IGNORED:
        return is_result && !leased && batch && batch->state < BATCH_COMMITTING;
    case BUG_NO_SECOND_ACK:
        return is_result && batch &&
               (batch->state == BATCH_RETURNED || batch->state == BATCH_COMMITTING);
    case BUG_REPEAT_ACKED_EARLY:
        if (!is_result || !batch || batch->state != BATCH_COMMITTING)
            return false;
        send_early (link, msg, WM_MSG_RESULT_ACK, 0);
        return true;
    case BUG_STRAY_DROPPED:
        if (!is_result || batch)
            return false;
        send_early (link, msg, WM_MSG_RESULT_ACK, 0);
        return true;
    case BUG_LOST_BY_ANYONE:
        if (msg->type == WM_MSG_FILE_LOST && wm_core_input_find (core, msg->key.input))
            wm_core_input_find (core, msg->key.input)->told = session->id;
        return false;
    case BUG_WRITTEN_ACKED_EARLY:
        if (msg->type == WM_MSG_FILE_WRITTEN)
            send_early (link, msg, WM_MSG_ACK, WM_MSG_FILE_WRITTEN);
        return false;
    case BUG_DUPLICATE_JOURNALLED:
        if (is_result && batch && batch->state == BATCH_RETURNED)
            journal_again (msg, payload);
        return false;
    case BUG_CREDIT_ACROSS_SESSIONS:
        if (msg->type == WM_MSG_CREDIT)
            carry_credit_over (link, msg);
        return false;
    case BUG_DONE_ONE_EARLY:
        if (is_result && batch)
            send_done_early (msg, batch);
        return false;
    case BUG_ALARM_FORGOTTEN:
        if (is_result && batch)
            batch->result_hash = 0;
        return false;
    case BUG_HELD_BY_ONE:
        if (batch)
            batch->flags |= BATCH_WORKERS;
        return false;
    case BUG_TRIED_FOR_EVER:
        if (msg->type == WM_MSG_NACK && batch)
            batch->n_fail = batch->n_lost = 0;
        return false;
    case BUG_WRONG_BLAME:
        return msg->type == WM_MSG_NACK && batch && blame_another (link, msg, batch);
    case BUG_QUEUE_IGNORED:
        if (session->role == WM_ROLE_WORKER)
            wm_core_worker_received (core, session, session->sent);
        return false;
    case BUG_ANSWERED_TWICE:
        if (is_result && !batch)
            answer_again (msg, payload);
        return false;
    case BUG_ANNOUNCED_ONCE:
        return msg->type == WM_MSG_SUBMIT && is_announced (session, payload);
    case BUG_LATE_REFUSED:
        if (session->role == WM_ROLE_PRODUCER)
            session->n_owed = session->n_asked;
        return false;
    case BUG_CHECK_PASSED:
        if (session->role == WM_ROLE_WORKER && is_result && session->check &&
            session->check->n_answer == 1 &&
            payload->bytes == wm_result_bytes (session->check->task.n_hit, N_OUTPUT))
            memcpy (session->check->answer[0].result, payload->data, payload->bytes);
        return false;
    case BUG_CHECK_BLAMES_FIRST:
        if (session->role == WM_ROLE_WORKER && is_result && session->check &&
            session->check->n_answer == 2) {
            machine_t *first = session->check->answer[0].machine;
            session->check->answer[0].machine = session->check->answer[1].machine;
            session->check->answer[1].machine = first;
        }
        return false;
    case BUG_BREAKER_STUCK:
        if (session->role == WM_ROLE_WORKER)
            session->outcomes = 0;
        return false;
    default:
        return false;
    }
}

/* ---- ends and time --------------------------------------------------------------------------- */

static bool ghost_of (wm_role_t role)
{
    return sim.bug == (role == WM_ROLE_WORKER ? BUG_LEASE_OUTLIVES : BUG_CLAIM_OUTLIVES);
}

static void blame_the_waiting (const link_t *link)
{
    wm_core_t *core = broker_core ();
    const session_t *session = wm_core_session_find (core, link->session);
    wm_msg_t nack;
    wm_msg_init (&nack, WM_MSG_NACK);
    nack.code = WM_EHOST;
    while (session && session->role == WM_ROLE_WORKER && session->n_lease > 1) {
        nack.key = wm_core_batch_key (session->lease_tail->batch);
        wm_core_message (core, link->session, &nack, NULL, sim.now_ms);
        session = wm_core_session_find (core, link->session);
    }
}

bool bug_closes (link_t *link)
{
    if (sim.bug == BUG_BLAME_THE_WAITING)
        blame_the_waiting (link);
    if (sim.bug == BUG_ENDED_WITH_ANOTHER && link->role == WM_ROLE_PRODUCER)
        for (size_t i = 0; i < LINKS; i++)
            if (&sim.link[i] != link && sim.link[i].used && sim.link[i].session &&
                sim.link[i].role == WM_ROLE_PRODUCER)
                wm_core_closed (broker_core (), sim.link[i].session, sim.now_ms);
    return ghost_of (link->role);
}

void bug_ticks (int64_t ticked_ms)
{
    wm_core_t *core = broker_core ();
    for (session_t *client = core->sessions.first; client && sim.bug == BUG_SILENT_FROM_HELLO;
         client = client->next)
        if (client->role == WM_ROLE_PRODUCER)
            client->heard_ms = client->opened_ms;
    if (sim.bug == BUG_WALL_CLOCK) /* it sees no gap: time passes in small steps */
        for (int64_t ms = ticked_ms; ms < sim.now_ms; ms += 1000)
            wm_core_tick (core, ms);
    /* The sessions of those whose end was not noticed go on saying that they advance.  */
    wm_msg_t beat;
    wm_msg_init (&beat, WM_MSG_HEARTBEAT);
    const session_t *next;
    for (const session_t *session = core->sessions.first; session; session = next) {
        next = session->next;
        if (session->state != SESSION_LIVE || !ghost_of (session->role) ||
            link_of_session (session->id))
            continue;
        beat.key.input = session->role == WM_ROLE_WORKER;
        beat.count = (uint64_t) sim.now_ms;
        wm_core_message (core, session->id, &beat, NULL, sim.now_ms);
    }
}
