/* sim_check.c - what must hold, judged by what the world did and not by what the broker believes.

   The truth of a batch is made from the seed; promises are noted when an acknowledgement leaves the
   broker; the journal is read again at every start and must keep them all.  */
#include "tests/core_state.h"
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define TAIL_MS 12000
#define FAILURES_BAD 6

/* ---- the truth ------------------------------------------------------------------------------- */

void truth_new (void)
{
    for (uint32_t i = 0; i < sim.n_input; i++) {
        truth_input_t *input = &sim.input[i];
        const bool is_served = sim.kind == CLIENTS; /* each event has a batch, and no bad hit */
        input->n_event = is_served ? 1 + roll (EVENTS) : roll (EVENTS + 1);
        input->bad_at = !is_served && chance (60) ? 1 + roll (input->n_event + 1) : 0;
        for (uint32_t e = 0; e < input->n_event; e++) {
            truth_event_t *event = &input->event[e];
            event->n_batch = is_served ? 1 + roll (BATCHES) : roll (BATCHES + 1);
            event->n_bad = !is_served && chance (200) ? 1 + roll (3) : 0;
            event->n_hit = event->n_bad;
            for (uint32_t b = 0; b < event->n_batch; b++) {
                unit_t *unit = &event->unit[b];
                unit->n_hit = 1 + roll (12);
                if (is_served && unit->n_hit > 8)
                    unit->n_hit = 64; /* which takes two turns */
                unit->raw_bytes = 1 + roll (chance (500) ? WM_RAW_BYTES_MAX : 4096);
                unit->payload_bytes = 1 + roll (unit->raw_bytes + (60u << 10));
                uint64_t salt[2] = { (uint64_t) i << 32 | e << 8 | b, wm_table_mix (sim.random) };
                memcpy (unit->digest, salt, 16);
                event->n_hit += unit->n_hit;
            }
        }
    }
}

bool truth_place (const uint8_t digest[16], uint32_t *input, uint32_t *event, uint32_t *batch)
{
    uint64_t salt;
    memcpy (&salt, digest, 8);
    uint32_t i = (uint32_t) (salt >> 32), e = salt >> 8 & 0xffffff, b = salt & 0xff;
    if (i >= sim.n_input || e >= sim.input[i].n_event || b >= sim.input[i].event[e].n_batch ||
        memcmp (sim.input[i].event[e].unit[b].digest, digest, 16) != 0)
        return false;
    *input = i, *event = e, *batch = b;
    return true;
}

unit_t *truth_unit (const uint8_t digest[16])
{
    uint32_t i, e, b;
    return truth_place (digest, &i, &e, &b) ? &sim.input[i].event[e].unit[b] : NULL;
}

truth_input_t *truth_input_of_id (uint32_t id)
{
    for (uint32_t i = 0; id && i < sim.n_input; i++)
        if (sim.input[i].id == id || (!sim.input[i].id && sim.input[i].promised_id == id))
            return &sim.input[i];
    return NULL;
}

unit_t *truth_unit_of_key (const wm_key_t *key)
{
    if (sim.kind == CLIENTS)
        return served_unit (key);
    truth_input_t *input = truth_input_of_id (key->input);
    return input && key->ordinal < input->n_event && key->batch < input->event[key->ordinal].n_batch
               ? &input->event[key->ordinal].unit[key->batch]
               : NULL;
}

size_t truth_result (const uint8_t digest[16], uint32_t n_hit, uint32_t signature, uint8_t *result)
{
    uint64_t hash = XXH3_64bits_withSeed (digest, 16, signature);
    for (uint32_t i = 0; i < n_hit; i++)
        result[i] = wm_table_mix (hash + i) % 16 == 0 ? WM_HIT_BAD_PIXEL : WM_HIT_SCORED;
    for (uint32_t i = 0; i < n_hit * N_OUTPUT; i++) {
        float score = (float) (wm_table_mix (hash + 100 + i) % 1000) / 1000;
        memcpy (result + n_hit + 4 * i, &score, 4);
    }
    return wm_result_bytes (n_hit, N_OUTPUT);
}

/* ---- the journal at a start ------------------------------------------------------------------ */

static truth_input_t before_reading[INPUTS]; /* while the journal is read */
static standing_t standing_before;
static bool is_reading;

void check_journal_begin (void)
{
    memcpy (before_reading, sim.input, sizeof before_reading);
    standing_before = sim.standing;
    standing_begin ();
    is_reading = true;
    sim.stood = 0;
    for (uint32_t i = 0; i < sim.n_input; i++) {
        truth_input_t *input = &sim.input[i];
        input->id = input->n_lost = input->generation = 0;
        input->state = WM_RECORD_TYPE_END;
        input->ended = false;
        for (uint32_t e = 0; e < EVENTS; e++)
            for (uint32_t b = 0; b < BATCHES; b++) {
                unit_t *unit = &input->event[e].unit[b];
                unit->n_record = 0;
                unit->engine = 0;
                unit->held = unit->alarmed = false;
            }
    }
}

void unit_blame (unit_t *unit, uint32_t tag)
{
    unit->failures++;
    for (uint32_t i = 0; i < unit->n_blamed && i < BLAMED; i++)
        if (unit->blamed[i] == tag)
            return;
    if (unit->n_blamed < BLAMED)
        unit->blamed[unit->n_blamed] = tag;
    unit->n_blamed++;
}

/* I9: whether the unit failed on a worker of this tag.  */
static bool may_be_blamed (const unit_t *unit, uint32_t tag)
{
    for (uint32_t i = 0; i < unit->n_blamed && i < BLAMED; i++)
        if (unit->blamed[i] == tag)
            return true;
    return unit->n_blamed > BLAMED;
}

/* I2: the journal has one RESULT of a generation.  */
static void note_result (const wm_record_t *record, const uint8_t *body, size_t bytes)
{
    unit_t *unit = truth_unit_of_key (&record->key);
    if (!unit || memcmp (unit->digest, record->digest, 16) != 0) {
        fail ("a RESULT record %u.%u.%u of no batch that exists", record->key.input,
              record->key.ordinal, record->key.batch);
        return;
    }
    unit->hash = XXH3_64bits (body, bytes);
    if (++unit->n_record > 1)
        fail ("batch %u.%u.%u is in the journal twice", record->key.input, record->key.ordinal,
              record->key.batch);
}

static void forget_results (truth_input_t *input)
{
    for (uint32_t e = 0; e < EVENTS; e++)
        for (uint32_t b = 0; b < BATCHES; b++) {
            input->event[e].unit[b].n_record = 0;
            input->event[e].unit[b].held = input->event[e].unit[b].alarmed = false;
        }
}

static void note (const wm_record_t *record, const uint8_t *body, size_t bytes)
{
    standing_note (record, body, bytes);
    if (wm_record_stands (record->type) || record->type == WM_RECORD_CAMPAIGN ||
        sim.kind == CLIENTS) /* whose broker keeps nothing */
        return;
    if (record->type == WM_RECORD_INPUT) {
        uint32_t i = record->text_bytes > 6 ? (uint32_t) (record->text[6] - '0') : INPUTS;
        if (i >= sim.n_input) {
            fail ("an INPUT record of a path that no producer gave");
            return;
        }
        for (uint32_t j = 0; j < sim.n_input; j++)
            if (j == i ? sim.input[i].id && !record->key.generation /* a kicked one is pinned */
                       : sim.input[j].id == record->key.input)
                fail ("input %u has two INPUT records, or two inputs one id", record->key.input);
        sim.input[i].id = record->key.input;
        sim.input[i].state = WM_RECORD_INPUT;
        return;
    }
    truth_input_t *input = truth_input_of_id (record->key.input);
    if (!input) {
        fail ("a %s record of input %u, which does not exist", wm_record_name (record->type),
              record->key.input);
        return;
    }
    if (record->key.generation < input->generation)
        return; /* on its way when its input was kicked */
    if (record->type == WM_RECORD_RESULT)
        note_result (record, body, bytes);
    else if (record->type == WM_RECORD_INPUT_END)
        input->ended = true;
    else if (record->type == WM_RECORD_HELD && record->key.batch != WM_ALL) {
        unit_t *unit = truth_unit_of_key (&record->key);
        if (unit && unit->held)
            fail ("batch %u.%u.%u is held twice", record->key.input, record->key.ordinal,
                  record->key.batch);
        if (unit)
            unit->held = true;
    } else {
        bool is_kick = record->type == WM_RECORD_KICK;
        if (is_kick || record->type == WM_RECORD_HELD)
            standing_begins_again (record->key.input);
        input->state = is_kick ? WM_RECORD_INPUT : record->type;
        if (is_kick) {
            input->generation = record->key.generation;
            input->ended = false;
        }
        if (is_kick || record->type == WM_RECORD_FILE_LOST) {
            input->n_lost++;
            input->lost_ms = sim.now_ms;
            forget_results (input);
        }
    }
}

void check_journal_record (const wm_record_t *record)
{
    note (record, record->payload, record->payload_bytes);
}

void check_appended (const wm_record_t *record, const uint8_t *body, size_t bytes)
{
    sim.count.records++;
    note (record, body, bytes);
    const truth_input_t *lost =
        record->type == WM_RECORD_FILE_LOST ? truth_input_of_id (record->key.input) : NULL;
    const input_t *written = wm_core_input_find (broker_core (), record->key.input);
    if (lost && lost->there && lost->out_size == written->out_size &&
        lost->out_mtime_ns == written->out_mtime_ns)
        fail ("output %u is as it was written, and is to be made again", record->key.input);
    if (record->type == WM_RECORD_RESULT && truth_unit_of_key (&record->key))
        truth_unit_of_key (&record->key)->engine =
            record->text_bytes == 8 ? (uint32_t) (record->text[7] - '0') : 0;
    if (record->type != WM_RECORD_HELD)
        return;
    if (record->key.batch == WM_ALL) {
        const truth_input_t *input = truth_input_of_id (record->key.input);
        if (input && input->bad_at)
            return;
        fail ("input %u is held as a whole, and no producer asked for it: %.*s", record->key.input,
              (int) record->text_bytes, record->text);
        return;
    }
    sim.count.held++;
    const unit_t *unit = truth_unit_of_key (&record->key);
    if (unit && !sim.reuses && !unit->alarm && unit->failures < WM_ATTEMPTS_MAX &&
        (unit->failures < WM_FAILURES_MAX || unit->n_blamed < 2))
        fail (
            "batch %u.%u.%u is held after %u things that may be blamed on it, of %u workers: %.*s",
            record->key.input, record->key.ordinal, record->key.batch, unit->failures,
            unit->n_blamed, (int) record->text_bytes, record->text);
}

/* The truth is again what it was before: RESULTS that an earlier broker sent may arrive still.  */
void check_journal_abandon (void)
{
    if (is_reading) {
        memcpy (sim.input, before_reading, sizeof before_reading);
        sim.standing = standing_before;
    }
    is_reading = false;
}

void check_journal_end (void)
{
    is_reading = false;
    standing_end ();
    for (uint32_t i = 0; i < sim.n_input; i++) {
        truth_input_t *input = &sim.input[i];
        if (input->promised_id && input->id != input->promised_id)
            fail ("input %u was acknowledged as %u and is %u now", i, input->promised_id,
                  input->id);
        if (input->generation < input->promised_generation)
            fail ("the kick of input %u was acknowledged and is lost", input->id);
        bool over = input->state == WM_RECORD_FILE_WRITTEN || input->state == WM_RECORD_HELD;
        if (input->promised_written > input->n_lost && input->state != WM_RECORD_FILE_WRITTEN)
            fail ("FILE_WRITTEN of input %u was acknowledged and is lost", input->id);
        if (input->promised_end > input->n_lost && !input->ended)
            fail ("INPUT_END of input %u was acknowledged and is lost", input->id);
        for (uint32_t e = 0; e < input->n_event; e++)
            for (uint32_t b = 0; b < input->event[e].n_batch; b++) {
                unit_t *unit = &input->event[e].unit[b];
                if (unit->promised > input->n_lost && !unit->n_record && !unit->held && !over &&
                    !sim.rotten)
                    fail ("the result of %u.%u.%u was acknowledged and is lost", input->id, e, b);
            }
    }
}

/* ---- the core after a start: what the journal has, it has ------------------------------------ */

/* I17.  */
void check_restored (const wm_core_t *core)
{
    standing_restored (core);
    for (uint32_t i = 0; i < sim.n_input; i++) {
        const truth_input_t *truth = &sim.input[i];
        if (!truth->id)
            continue;
        const input_t *input = wm_core_input_find (core, truth->id);
        if (!input) {
            fail ("input %u is in the journal and not in the core", truth->id);
            continue;
        }
        wm_ledger_input_state_t want = truth->state == WM_RECORD_FILE_WRITTEN ? WM_LEDGER_WRITTEN
                                       : truth->state == WM_RECORD_HELD       ? WM_LEDGER_HELD
                                                                              : WM_LEDGER_OPEN;
        if (input->state != want || (want == WM_LEDGER_OPEN && truth->ended && !input->ended))
            fail ("input %u: the journal has %s%s, the core %d%s", truth->id,
                  wm_record_name (truth->state), truth->ended ? ", ended" : "", (int) input->state,
                  input->ended ? ", ended" : "");
        for (uint32_t e = 0; want == WM_LEDGER_OPEN && e < truth->n_event; e++)
            for (uint32_t b = 0; b < truth->event[e].n_batch; b++) {
                const unit_t *unit = &truth->event[e].unit[b];
                wm_key_t key = { truth->id, e, b, input->generation };
                const batch_t *batch = wm_core_batch_find (core, &key);
                int state = batch ? batch->state : BATCH_NONE;
                int must = unit->held ? BATCH_HELD : unit->n_record ? BATCH_RETURNED : BATCH_NONE;
                if (state != must && !(sim.rotten && state == BATCH_RETURNED))
                    fail ("batch %u.%u.%u: %u results and %u holds in the journal, state %d in the "
                          "core",
                          truth->id, e, b, unit->n_record, unit->held, state);
            }
    }
}

/* ---- what goes out --------------------------------------------------------------------------- */

/* I8 and I11: a TASK is of a batch that exists, and within what was granted.  */
static void check_task (link_t *link, const wm_msg_t *msg, const wm_payload_t *payload)
{
    unit_t *unit = truth_unit (msg->digest);
    const handle_t *handle = payload->handle;
    if (!unit || unit != truth_unit_of_key (&msg->key))
        fail ("TASK %u.%u.%u of no batch that exists", msg->key.input, msg->key.ordinal,
              msg->key.batch);
    if (!handle || memcmp (handle->data, msg->digest, 16) != 0)
        fail ("TASK %u.%u.%u carries the payload of another batch", msg->key.input,
              msg->key.ordinal, msg->key.batch);
    if (link->peer)
        worker_lent (link->peer, &msg->key, true);
    if (unit && (!link->peer || link->mourned)) { /* its worker is gone, which is not known yet */
        sim.blames++;
        unit_blame (unit, link->tag);
    }
    if (++link->tasks > link->granted)
        fail ("%llu TASKs in a session that was granted %llu", (unsigned long long) link->tasks,
              (unsigned long long) link->granted);
    if (link->n_failed >= FAILURES_BAD)
        fail ("a worker that failed %u times on end is sent another TASK", link->n_failed);
}

/* I10: it comes once, and not early.  */
static void check_event_done (link_t *link, const wm_msg_t *msg)
{
    truth_input_t *input = truth_input_of_id (msg->key.input);
    if (!input || msg->key.ordinal >= input->n_event) {
        fail ("EVENT_DONE %u.%u of no event", msg->key.input, msg->key.ordinal);
        return;
    }
    if (msg->key.generation < input->generation)
        return; /* its KICK is on its way */
    const truth_event_t *event = &input->event[msg->key.ordinal];
    for (uint32_t b = 0; b < event->n_batch; b++)
        if (!event->unit[b].n_record && !event->unit[b].held && !sim.rotten)
            fail ("EVENT_DONE %u.%u while batch %u is neither returned nor held", msg->key.input,
                  msg->key.ordinal, b);
    bool *sent = &link->done_sent[input - sim.input][msg->key.ordinal];
    if (*sent)
        fail ("EVENT_DONE %u.%u twice in one session", msg->key.input, msg->key.ordinal);
    *sent = true;
}

/* No race, no restart and no slow link makes the broker refuse an honest peer for good. For now: a
   worker whose results come before their events are announced, a producer of whose results one
   cannot be read back.  */
static void check_refused (const link_t *link, const wm_msg_t *msg)
{
    const peer_t *peer = link->peer;
    const bool may_try_later =
        msg->code == WM_REASON_BUSY && sim.kind != CLIENTS &&
        (link->role == WM_ROLE_WORKER || sim.rotten || sim.bug == BUG_ROT_ANSWERED);
    const bool is_found_wrong =
        msg->code == WM_REASON_FAILED && link->role == WM_ROLE_WORKER && (!peer || peer->lies);
    if (!link->hostile && !may_try_later && !is_found_wrong)
        fail ("%s kept every rule and is refused: %s", peer ? peer->label : "a peer that has gone",
              msg->text);
}

/* I1: each answer, by what the journal has on disk.  */
void check_sent (link_t *link, const wm_msg_t *msg, const wm_payload_t *payload)
{
    truth_input_t *input = truth_input_of_id (msg->key.input);
    unit_t *unit = truth_unit_of_key (&msg->key);
    switch (msg->type) {
    case WM_MSG_RESULT_ACK:
        sim.count.acked++;
        if (link->peer)
            worker_lent (link->peer, &msg->key, false);
        if (unit && input && msg->key.generation == input->generation && !unit->compared &&
            input->lost_ms != sim.now_ms)
            unit->promised = 1 + unit->came; /* else it is not wanted any more */
        return;
    case WM_MSG_INPUT_ACK:
        if (!input)
            return;
        input->promised_id = input->id;
        if (msg->key.generation > input->promised_generation) { /* it begins again */
            input->promised_generation = msg->key.generation;
            for (size_t i = 0; i < LINKS; i++)
                memset (sim.link[i].done_sent[input - sim.input], 0, sizeof link->done_sent[0]);
        }
        return;
    case WM_MSG_ACK:
        if (input && msg->code == WM_MSG_FILE_WRITTEN)
            input->promised_written = 1 + input->came_written;
        if (input && msg->code == WM_MSG_INPUT_END)
            input->promised_end = 1 + input->came_end;
        sim.standing.promises_sample |= msg->code == WM_MSG_SAMPLE;
        return;
    case WM_MSG_REJECT:
        check_refused (link, msg);
        return;
    case WM_MSG_NEED:
        link->starved_ms = 0;
        link->n_need++;
        /* fall through */
    case WM_MSG_TASK:
        if (sim.paused_promised)
            fail ("%s while the campaign is paused", wm_msg_name (msg->type));
        if (msg->type == WM_MSG_TASK)
            check_task (link, msg, payload);
        return;
    case WM_MSG_BYE:
        if (msg->code == WM_REASON_STALE && link->up.head && link->up.head->at_ms <= sim.now_ms)
            fail ("a peer is ended as silent although its messages wait unread");
        return;
    case WM_MSG_EVENT_DONE:
        check_event_done (link, msg);
        return;
    default:
        return;
    }
}

void check_answered (link_t *link, bool failed)
{
    link->n_failed = failed ? link->n_failed + 1 : 0;
}

/* The check that this RESULT answers, or NULL.  */
static const check_t *checked_by (const wm_core_t *core, const link_t *link, const wm_msg_t *msg)
{
    const session_t *session = wm_core_session_find (core, link->session);
    const check_t *check = session && session->role == WM_ROLE_WORKER ? session->check : NULL;
    return check && msg->type == WM_MSG_RESULT &&
                   memcmp (&check->task.key, &msg->key, sizeof msg->key) == 0
               ? check
               : NULL;
}

void check_came (const wm_core_t *core, const link_t *link, const wm_msg_t *msg)
{
    truth_input_t *input = truth_input_of_id (msg->key.input);
    unit_t *unit = truth_unit_of_key (&msg->key);
    if (input && msg->type == WM_MSG_INPUT_END)
        input->came_end = input->n_lost;
    if (input && msg->type == WM_MSG_FILE_WRITTEN)
        input->came_written = input->n_lost;
    if (input && unit && msg->type == WM_MSG_RESULT) {
        const check_t *check = checked_by (core, link, msg);
        const batch_t *batch = wm_core_batch_find (core, &msg->key);
        sim.unserved |= batch && batch->state == BATCH_READY;
        unit->came = input->n_lost;
        unit->compared = check && check->n_answer;
    }
}

check_before_t check_compare_begin (const wm_core_t *core, const link_t *link, const wm_msg_t *msg)
{
    const check_t *check = checked_by (core, link, msg);
    const truth_input_t *input = truth_input_of_id (msg->key.input);
    const unit_t *unit = truth_unit_of_key (&msg->key);
    check_before_t before = { .core_good = core->checks.n_good,
                              .core_differ = core->checks.n_differ };
    if (!check || !input || !unit || !link->peer || link->peer->hostile)
        return before;
    before.n_answer = check->n_answer;
    before.key = msg->key;
    before.first = check->answer[0].machine;
    /* After a kick the record at hand is another.  */
    before.hash = msg->key.generation == input->generation && unit->n_record ? unit->hash : 0;
    return before;
}

/* A first result and a second differ exactly where their bytes do; a machine that is found wrong
   has its inputs begun again (that it is the liar, the liar's REJECT shows: sim_worker.c).
   (I13)  */
void check_compare_end (const wm_core_t *core, const check_before_t *before,
                        const wm_payload_t *payload)
{
    const input_t *input = wm_core_input_find (core, before->key.input);
    if (before->n_answer == 1 && before->hash && payload) {
        const bool differ = XXH3_64bits (payload->data, payload->bytes) != before->hash;
        sim.count.checked++;
        if (core->checks.n_differ - before->core_differ != differ ||
            core->checks.n_good - before->core_good != !differ)
            fail ("two machines gave %s scores for %u.%u.%u, and the check found otherwise",
                  differ ? "different" : "the same", before->key.input, before->key.ordinal,
                  before->key.batch);
    }
    if (before->n_answer != 2 || !before->first->distrusted)
        return;
    sim.count.named++;
    if (input && input->generation == before->key.generation && !input->kicking &&
        !core->distrust.has_verdict && !input->unpinned &&
        (input->state == WM_LEDGER_OPEN || input->state == WM_LEDGER_WRITTEN))
        fail ("%s gave wrong scores for %u.%u.%u, and its input is not begun again",
              before->first->label, before->key.input, before->key.ordinal, before->key.batch);
}

void check_taken (const wm_core_t *core, const link_t *link, const wm_msg_t *msg)
{
    const batch_t *batch = wm_core_batch_find (core, &msg->key);
    if (msg->type == WM_MSG_RESULT && batch && batch->state < BATCH_COMMITTING && link->peer &&
        !link->peer->hostile && wm_core_session_find (core, link->session) &&
        memcmp (batch->digest, msg->digest, 16) == 0 && !batch->event->input->kicking)
        fail ("the result of %u.%u.%u came from worker %u, and does not count", msg->key.input,
              msg->key.ordinal, msg->key.batch, link->peer->index);
}

bool check_alarm_due (const link_t *link, const wm_msg_t *msg, const wm_payload_t *payload)
{
    const truth_input_t *input = truth_input_of_id (msg->key.input);
    const unit_t *unit = truth_unit_of_key (&msg->key);
    return msg->type == WM_MSG_RESULT && payload && unit && link->peer && !link->peer->hostile &&
           input && !checked_by (broker_core (), link, msg) &&
           msg->key.generation == input->generation && unit->n_record && !unit->held &&
           !unit->alarmed && unit->engine == link->peer->signature &&
           (input->state == WM_RECORD_INPUT || input->state == WM_RECORD_FILE_LOST) &&
           XXH3_64bits (payload->data, payload->bytes) != unit->hash;
}

void check_alarm (const wm_core_t *core, const wm_msg_t *msg, bool due, uint64_t n_alarm)
{
    unit_t *unit = truth_unit_of_key (&msg->key);
    const batch_t *batch = wm_core_batch_find (core, &msg->key);
    if (due && !n_alarm)
        fail ("two results of %u.%u.%u differ, and no alarm was raised", msg->key.input,
              msg->key.ordinal, msg->key.batch);
    if (n_alarm && (!unit || !unit->alarm))
        fail ("an alarm for %u.%u.%u, which was answered rightly", msg->key.input, msg->key.ordinal,
              msg->key.batch);
    if (n_alarm && batch && !unit->held && !(batch->event->flags & EVENT_DONE) &&
        !batch->event->input->closing)
        fail ("an alarm for %u.%u.%u, which is not held", msg->key.input, msg->key.ordinal,
              msg->key.batch);
    if (n_alarm && unit)
        unit->alarmed = true;
}

void check_unreadable (const wm_key_t *key, const char *why)
{
    unit_t *unit = truth_unit_of_key (key);
    if (sim_disk_is_gone ())
        return;
    if (!sim.rotten || !unit)
        fail ("the result of %u.%u.%u cannot be read back: %s", key->input, key->ordinal,
              key->batch, why);
    else /* it is scored again */
        unit->n_record = unit->promised = 0;
}

/* How long so many hits take this worker, as it did others; where it did none, as all did.  */
static double expected_ms (const wm_core_t *core, const session_t *worker, double hits)
{
    const wm_speed_t *speed = worker->speed.hits > 0 ? &worker->speed : &core->workers.speed;
    return hits * speed->ms / speed->hits;
}

/* Whether this worker could do the batch within this time, as it did others.  */
static bool could (const wm_core_t *core, const session_t *worker, const batch_t *batch,
                   double within_ms)
{
    if (worker->role != WM_ROLE_WORKER)
        return false;
    double hits = (double) (worker->hits_lent - worker->hits_back) + batch->n_hit;
    return worker->eligible && worker->tag != batch->failed_on && worker->speed.hits > 0 &&
           expected_ms (core, worker, hits) < within_ms;
}

/* A stopped worker is late only where it should have answered long ago: a large batch may take
   longer than a tail. (I15)  */
void check_tail (const wm_core_t *core)
{
    if (core->paused || core->draining || core->disk_full || core->queues.ready.head ||
        core->queues.alone.head)
        return;
    for (size_t i = 0; i < LINKS; i++) {
        const link_t *link = &sim.link[i];
        const session_t *worker = wm_core_session_find (core, link->session);
        const lease_t *lease = worker && worker->role == WM_ROLE_WORKER ? worker->lease_head : NULL;
        int64_t stopped_ms = link->used && link->peer ? sim.now_ms - link->peer->stopped_ms : 0;
        if (!lease || sim.now_ms >= (link->peer ? link->peer->frozen_ms : 0) ||
            stopped_ms < TAIL_MS || core->now_ms - lease->sent_ms < TAIL_MS ||
            core->now_ms - worker->result_ms < TAIL_MS || lease->other ||
            lease->batch->lease != lease || !lease->batch->payload ||
            lease->batch->state != BATCH_RUNNING || lease->batch->flags & BATCH_ALONE ||
            !(expected_ms (core, worker, lease->batch->n_hit) < TAIL_MS / 2))
            continue;
        for (const session_t *other = core->sessions.first; other; other = other->next)
            if (other != worker && could (core, other, lease->batch, TAIL_MS / 4))
                fail ("%s is stopped, and %s is idle and has no copy of %u.%u.%u", worker->label,
                      other->label, wm_core_batch_key (lease->batch).input,
                      wm_core_batch_key (lease->batch).ordinal,
                      wm_core_batch_key (lease->batch).batch);
    }
}

/* Whether a message of this type is on its way.  */
static bool is_on_the_way (const pipe_t *pipe, wm_msg_type_t type)
{
    for (const packet_t *packet = pipe->head; packet; packet = packet->next)
        if (packet->type == type)
            return true;
    return false;
}

/* Whether this producer answers, waits to be asked, and could be: nothing is ready for workers, and
   payloads, and those that are late, fill less than half of the budget; where links are slow, with
   those that are on their way.  */
static bool is_passed_over (const wm_core_t *core, const link_t *link, const session_t *session)
{
    const peer_t *peer = link->peer;
    const uint64_t used =
        core->budget.late_bytes + (sim.faults.slow_link_ms ? core->budget.used : sim.held_bytes);
    if (core->paused || core->draining || core->disk_full || core->queues.ready.head ||
        core->queues.alone.head || !session->wants.head || session->n_asked || session->n_ready ||
        sim.now_ms < peer->frozen_ms || sim.now_ms < peer->mute_ms || sim.now_ms < peer->encoded_ms)
        return false;
    return used + wm_core_budget_need_bytes (batch_of (session->wants.head)) <= BUDGET_BYTES / 2 &&
           !is_on_the_way (&link->down, WM_MSG_NEED) && !is_on_the_way (&link->up, WM_MSG_BATCH);
}

/* How long a producer that waits to be asked may wait: one that was late is asked the more rarely,
   the longer it has sent nothing.  */
static int64_t asked_within_ms (const wm_core_t *core, const session_t *session)
{
    const int64_t need_ms = core->config.times.need_ms;
    const int64_t pause_ms = session->late ? (session->probed_ms - session->answered_ms) / 4 : 0;
    return need_ms + (pause_ms > need_ms ? pause_ms : need_ms);
}

/* I15: producers that are passed over.  */
void check_needs (const wm_core_t *core)
{
    const int64_t need_ms = core->config.times.need_ms;
    for (size_t i = 0; i < LINKS; i++) {
        link_t *link = &sim.link[i];
        const session_t *session = wm_core_session_find (core, link->session);
        if (!link->used || !session || !link->peer || link->peer->hostile ||
            link->role != WM_ROLE_PRODUCER || session->state != SESSION_LIVE)
            continue;
        if (!session->n_asked)
            link->owed_ms = 0;
        else if (!link->owed_ms)
            link->owed_ms = core->now_ms;
        else if (core->now_ms - link->owed_ms > 2 * need_ms)
            fail ("%s has sent nothing for %lld ms, and %u batches are reserved for it",
                  link->peer->label, (long long) (core->now_ms - link->owed_ms), session->n_asked);
        if (!is_passed_over (core, link, session))
            link->starved_ms = 0;
        else if (!link->starved_ms)
            link->starved_ms = core->now_ms;
        else if (core->now_ms - link->starved_ms > asked_within_ms (core, session))
            fail ("%s starves: it has not been asked for anything for %lld ms", link->peer->label,
                  (long long) (core->now_ms - link->starved_ms));
    }
}

/* ---- the inside of the core, after every step ------------------------------------------------ */

/* Returns the bytes that are reserved for this batch.  */
static uint64_t check_batch (const batch_t *batch)
{
    wm_key_t key = wm_core_batch_key (batch);
    const unit_t *unit = truth_unit_of_key (&key);
    if (batch->failed_on && unit && !sim.reuses && !may_be_blamed (unit, batch->failed_on))
        fail ("batch %u.%u.%u is blamed on a worker to which nothing happened", key.input,
              key.ordinal, key.batch);
    return batch->flags & BATCH_ASKED ? batch->raw_bytes + WM_FRAME_OVERHEAD : 0;
}

/* The producer of an event that is done has been sent EVENT_DONE. (I10)  */
static void check_event (const event_t *event)
{
    const session_t *claim = event->input->claim;
    if (!(event->flags & EVENT_DONE) || !(event->flags & EVENT_ANNOUNCED) || !claim)
        return;
    const truth_input_t *truth = truth_input_of_id (event->input->id);
    for (size_t i = 0; truth && i < LINKS; i++) {
        const link_t *link = &sim.link[i];
        if (link->used && link->session == claim->id &&
            !link->done_sent[truth - sim.input][event->ordinal])
            fail ("event %u.%u is done and its producer did not get EVENT_DONE", event->input->id,
                  event->ordinal);
    }
}

/* Payloads in the queue to a worker are in the budget. (Not so where an answer seems to show the
   receipt of another TASK of its key: of an event that has its number from an earlier one, or of a
   batch that the worker had, was told to drop, and is sent again.) (I6)  */
static void check_queue (const link_t *link, const session_t *session)
{
    uint64_t queued = 0, counted = 0;
    if (!session || session->role != WM_ROLE_WORKER || sim.reuses)
        return;
    for (const packet_t *packet = link->down.head; packet; packet = packet->next)
        queued += packet->type == WM_MSG_TASK && !packet->is_again ? packet->bytes : 0;
    for (uint64_t n = session->received + 1; n <= session->sent; n++)
        counted += session->in_flight[n % WM_CREDIT_MAX]->bytes;
    if (queued > counted)
        fail ("%llu bytes are on their way to %s, %llu of them in the budget",
              (unsigned long long) queued, session->label, (unsigned long long) counted);
}

/* What a session was asked for: each BATCH of an honest one answers a NEED, whatever has become of
   its event meanwhile. (I7)  */
static void check_owed (const link_t *link, const session_t *session)
{
    if (!session || link->hostile || session->role != WM_ROLE_PRODUCER)
        return;
    if (session->n_owed != link->n_need - link->n_batch || session->n_asked > session->n_owed)
        fail ("%s was sent %llu NEEDs and has sent %llu BATCHes; the broker expects %llu more, and "
              "holds bytes for %u",
              session->label, (unsigned long long) link->n_need, (unsigned long long) link->n_batch,
              (unsigned long long) session->n_owed, session->n_asked);
}

/* Payloads that honest producers have sent take memory before the broker reads them. Returns the
   bytes of this one's.  */
static uint64_t arriving (const link_t *link, const session_t *session)
{
    uint64_t bytes = 0;
    for (const packet_t *packet = link->up.head; packet; packet = packet->next)
        bytes += session && !link->hostile && packet->type == WM_MSG_BATCH ? packet->bytes : 0;
    return bytes;
}

/* Returns the bytes that sessions owe late. (I5, I8)  */
static uint64_t check_sessions (const wm_core_t *core)
{
    uint64_t bytes = sim.held_bytes, late_bytes = 0;
    for (size_t i = 0; i < LINKS; i++) {
        const session_t *session = wm_core_session_find (core, sim.link[i].session);
        check_queue (&sim.link[i], session);
        check_owed (&sim.link[i], session);
        bytes += arriving (&sim.link[i], session);
    }
    if (bytes > BUDGET_BYTES)
        fail ("%llu bytes of payloads are here and on their way, in a budget of %llu",
              (unsigned long long) bytes, (unsigned long long) BUDGET_BYTES);
    for (const session_t *session = core->sessions.first; session; session = session->next) {
        late_bytes += session->role == WM_ROLE_PRODUCER ? session->late_bytes : 0;
        if (session->role != WM_ROLE_WORKER)
            continue;
        if (session->state == SESSION_LIVE && session->n_lease && !link_of_session (session->id))
            fail ("%s has %u batches, and no connection", session->label, session->n_lease);
        if (session->sent > session->credit &&
            strncmp (session->label, "hostile", 7) != 0) /* it may lower its own */
            fail ("%s was sent %llu batches on a credit of %llu", session->label,
                  (unsigned long long) session->sent, (unsigned long long) session->credit);
    }
    return late_bytes;
}

/* I3 to I5 and I16, which core_state_of counts; and what crosses sessions.  */
void check_core (const wm_core_t *core)
{
    uint64_t asked_bytes = 0;
    const core_state_t state = core_state_of (core);
    if (*state.text)
        fail ("%s", state.text);
    for (uint32_t i = 0; i < core->inputs.n; i++)
        for (const event_t *event = core->inputs.at[i]->all; event; event = event->all_next) {
            check_event (event);
            for (uint32_t b = 0; b < event->n_slot; b++)
                asked_bytes += check_batch (&event->batch[b]);
        }
    const uint64_t late_bytes = check_sessions (core);
    if (asked_bytes + sim.held_bytes != core->budget.used)
        fail ("%llu bytes asked for and %llu here, counted %llu", (unsigned long long) asked_bytes,
              (unsigned long long) sim.held_bytes, (unsigned long long) core->budget.used);
    if (core->budget.used + late_bytes > BUDGET_BYTES || late_bytes != core->budget.late_bytes)
        fail ("%llu bytes asked for, %llu here and %llu late (counted %llu), in a budget of %llu",
              (unsigned long long) asked_bytes, (unsigned long long) sim.held_bytes,
              (unsigned long long) late_bytes, (unsigned long long) core->budget.late_bytes,
              (unsigned long long) BUDGET_BYTES);
    if (sim.kind == CLIENTS)
        served_check (core);
    if (core->totals.n_fail + core->totals.n_lost > sim.blames)
        fail ("%llu failures and %llu lost were blamed; %llu things happened",
              (unsigned long long) core->totals.n_fail, (unsigned long long) core->totals.n_lost,
              (unsigned long long) sim.blames);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Whether these scores are what one of the engines gives: a producer may have fetched them before
   the output of another was lost and all was scored again.  */
static bool is_right (const unit_t *unit, uint64_t hash)
{
    uint8_t result[64 * (1 + 4 * N_OUTPUT)];
    for (uint32_t signature = 1; signature <= 2; signature++) {
        size_t bytes = truth_result (unit->digest, unit->n_hit, signature, result);
        if (hash == XXH3_64bits (result, bytes))
            return true;
    }
    return false;
}

/* Every hit is in its output exactly once, with the right scores, or held. (I2)  */
void check_end (void)
{
    if (sim.kind == CLIENTS)
        return; /* clients see what they get */
    for (uint32_t i = 0; i < sim.n_input; i++) {
        const truth_input_t *input = &sim.input[i];
        if (input->bad_at && input->state == WM_RECORD_HELD)
            continue;
        if (input->bad_at || input->state != WM_RECORD_FILE_WRITTEN) {
            fail ("input %u ended %s", input->id, wm_record_name (input->state));
            continue;
        }
        if (!input->there)
            fail ("the output of input %u is not there", input->id);
        for (uint32_t e = 0; e < input->n_event; e++)
            for (uint32_t b = 0; b < input->event[e].n_batch; b++) {
                const unit_t *unit = &input->event[e].unit[b];
                uint64_t hash = input->out_hash[e][b];
                if (!(hash ? is_right (unit, hash) : unit->held) && !unit->alarm)
                    fail ("output %u has wrong scores for %u.%u", input->id, e, b);
                if (unit->lasting && hash)
                    fail ("output %u has scores for %u.%u, which no worker scored", input->id, e,
                          b);
            }
    }
}
