/* test_broker_late.c - wm_core and payloads that come late: after their event was answered and
   forgotten, after its number is another event's, after the claim is over. No honest session ends
   for one; a session that sends more BATCHes than it was sent NEEDs does.  */
#include "tests/unit/core_harness.h"

#define RAW 1000u

/* One core with a producer or client, and a worker.  */
typedef struct {
    harness_t *t;
    uint32_t p, w;
    uint64_t credit;
    wm_key_t input;
} world_t;

static world_t world_new (int for_clients, uint64_t budget, uint64_t credit_)
{
    world_t self = { .t = calloc (1, sizeof *self.t), .credit = credit_ };
    self.t->now_ms = 1000000;
    self.t->for_clients = for_clients;
    self.t->core = core_make (self.t, 1, budget);
    self.p = producer (self.t, 1);
    self.w = worker (self.t, 2, credit_);
    self.input = claim (self.t, self.p);
    return self;
}

/* Announces an event of n batches; `life` makes their digests.  */
static void announce (const world_t *self, uint32_t ordinal, uint32_t n, uint32_t raw, uint8_t life)
{
    wm_manifest_batch_t line[8];
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = self->input;
    msg.key.ordinal = ordinal;
    msg.n_batch = n;
    msg.n_hit = 10 * n;
    for (uint32_t i = 0; i < n; i++) {
        line[i] = (wm_manifest_batch_t){ .n_hit = 10, .raw_bytes = raw };
        digest_of (ordinal, i, line[i].digest);
        line[i].digest[14] = life;
    }
    say (self->t, self->p, &msg, line, n * sizeof *line);
}

static void answer (const world_t *self, const wm_msg_t *need, size_t bytes)
{
    static const uint8_t payload[WM_RAW_BYTES_MAX];
    wm_msg_t msg = *need;
    msg.type = WM_MSG_BATCH;
    say (self->t, self->p, &msg, payload, bytes);
}

static wm_msg_t need_of (const world_t *self)
{
    return must (self->t, self->p, WM_MSG_NEED)->msg;
}

/* Scores the next TASK; returns it.  */
static wm_msg_t score (world_t *self)
{
    const wm_msg_t task = must (self->t, self->w, WM_MSG_TASK)->msg;
    result_of (self->t, self->w, &task, 1);
    durable (self->t);
    credit (self->t, self->w, ++self->credit);
    return task;
}

static void wait_s (const world_t *self, int64_t s)
{
    const uint32_t alive[] = { self->p, self->w, 0 };
    pass (self->t, s * 1000, alive);
}

/* The session goes on, nothing of the budget is in use, and its next BATCH is one too many.  */
static void quiet_then_one_too_many (const world_t *self, const wm_msg_t *need)
{
    assert_int_equal (count (self->t, self->p, WM_MSG_REJECT), 0);
    assert_int_equal (look (self->t).budget_used_bytes, 0);
    assert_int_equal (look (self->t).batches_asked, 0);
    answer (self, need, RAW);
    refused (self->t, self->p, WM_REASON_PROTOCOL);
}

/* A slow client is asked again, and answers both NEEDs: its event is answered after the first.  */
static void test_answered_meanwhile (void **state)
{
    for (int for_clients = 0; for_clients < 2; for_clients++) {
        world_t self = world_new (for_clients, 64 * MIB, 1);
        announce (&self, 0, 1, RAW, 1);
        const wm_msg_t need = need_of (&self);
        wait_s (&self, 12); /* taken back, then asked again */
        assert_int_equal (count (self.t, self.p, WM_MSG_NEED), 1);
        need_of (&self);
        answer (&self, &need, RAW);
        score (&self);
        answer (&self, &need, RAW);
        quiet_then_one_too_many (&self, &need);
        harness_end (self.t);
    }
}

/* A payload of no bytes is an answer to nothing.  */
static void test_no_bytes (void **state)
{
    world_t self = world_new (0, 64 * MIB, 1);
    announce (&self, 0, 1, RAW, 1);
    const wm_msg_t need = need_of (&self);
    answer (&self, &need, 0);
    refused (self.t, self.p, WM_REASON_PROTOCOL);
    assert_int_equal (look (self.t).budget_used_bytes, 0);
    harness_end (self.t);
}

/* What is known of a batch stays known while it is asked for again: another digest contradicts
   it.  */
static void test_asked_again_and_contradicted (void **state)
{
    world_t self = world_new (1, 64 * MIB, 1);
    announce (&self, 0, 1, RAW, 1);
    need_of (&self);
    wait_s (&self, 12);
    need_of (&self);
    announce (&self, 0, 1, RAW, 2);
    refused (self.t, self.p, WM_REASON_DIGEST);
    harness_end (self.t);
}

/* The budget is full, so the payload of a batch that runs is dropped; then the batch is asked for
   once more, for a copy at the tail; and the slow worker answers first.  */
static void test_full_budget_and_a_copy (void **state)
{
    enum { N = 8 };
    for (int for_clients = 0; for_clients < 2; for_clients++) {
        world_t self = world_new (for_clients, 16 * MIB, 1);
        harness_t *t = self.t;
        announce (&self, 0, 1, WM_RAW_BYTES_MAX, 1);
        wm_msg_t need = need_of (&self);
        answer (&self, &need, WM_RAW_BYTES_MAX);
        const wm_msg_t slow = must (t, self.w, WM_MSG_TASK)->msg;
        const uint32_t slow_one = self.w;
        heartbeat (t, slow_one, slow.key, 1); /* it has the payload */
        self.w = worker (t, 3, 1);
        self.credit = 1;
        for (uint32_t i = 1; i < N; i++)
            announce (&self, i, 1, WM_RAW_BYTES_MAX, 1);
        for (sent_t *next; (next = take (t, self.p, WM_MSG_NEED));) {
            need = next->msg;
            answer (&self, &need, WM_RAW_BYTES_MAX);
            t->now_ms += 10;
            if (count (t, self.w, WM_MSG_TASK))
                score (&self);
            heartbeat (t, self.w, (wm_key_t){ 0 }, 0);
        }
        while (count (t, self.w, WM_MSG_TASK))
            score (&self);
        const uint32_t alive[] = { self.p, slow_one, self.w, 0 };
        for (uint64_t i = 1; i < 10 && !count (t, self.p, WM_MSG_NEED); i++) {
            heartbeat (t, slow_one, slow.key, 1 + i);
            pass (t, 500, alive);
        }
        need = need_of (&self);
        assert_int_equal (need.key.ordinal, 0);
        assert_true (look (t).budget_used_bytes > 0);
        result_of (t, slow_one, &slow, 1);
        durable (t);
        if (for_clients) /* the event is forgotten, and its payload may still come */
            assert_int_equal (look (t).budget_used_bytes, WM_RAW_BYTES_MAX + WM_FRAME_OVERHEAD);
        answer (&self, &need, WM_RAW_BYTES_MAX);
        quiet_then_one_too_many (&self, &need);
        harness_end (t);
    }
}

/* A late payload of an event whose number the client has given to another event by now: it neither
   ends the session nor is taken for the other event's.  */
static void test_a_number_used_again (void **state)
{
    for (int way = 0; way < 8; way++) {
        const bool is_same = way & 1, comes_last = way & 2, is_smaller = way & 4;
        world_t self = world_new (1, 64 * MIB, 4);
        announce (&self, 5, 2, RAW, 1);
        const wm_msg_t first = need_of (&self), second = need_of (&self);
        wait_s (&self, 12);
        answer (&self, &first, RAW);
        answer (&self, &second, RAW);
        score (&self);
        score (&self);
        wm_msg_t late[4];
        int n_late = 0;
        for (sent_t *more; (more = take (self.t, self.p, WM_MSG_NEED));)
            late[n_late++] = more->msg;
        assert_int_equal (n_late, 2); /* of the first while it was late, of the second afterwards */
        announce (&self, 5, is_smaller ? 1 : 2, is_same ? RAW : RAW / 2, is_same ? 1 : 2);
        for (int i = 0; i < n_late && !comes_last; i++)
            answer (&self, &late[i], RAW);
        const wm_msg_t need = need_of (&self);
        answer (&self, &need, RAW);
        if (!is_smaller) {
            const wm_msg_t other = need_of (&self);
            answer (&self, &other, RAW);
        }
        for (int i = 0; i < n_late && comes_last; i++)
            answer (&self, &late[i], RAW);
        for (int i = is_smaller; i < 2; i++) {
            const wm_msg_t task = score (&self);
            assert_int_equal (task.digest[14], is_same ? 1 : 2);
        }
        quiet_then_one_too_many (&self, &need);
        harness_end (self.t);
    }
}

/* Ways in which a campaign forgets what it has asked a producer for. `early`: the BATCH comes while
   that waits for its record.  */
enum { KICKED, HELD, CONTRADICTED, LOST_CLAIM_ENDS };

static void claim_ends (const world_t *self, int how)
{
    wm_msg_t msg;
    if (how == KICKED) {
        const uint32_t o = hello (self->t, WM_ROLE_OPERATOR, 9, NULL, 0);
        wm_msg_init (&msg, WM_MSG_CONTROL);
        strcpy (msg.name, "kick");
        strcpy (msg.text, "1");
        say (self->t, o, &msg, NULL, 0);
    } else if (how == HELD) {
        wm_msg_init (&msg, WM_MSG_INPUT_HELD);
        msg.key = self->input;
        say (self->t, self->p, &msg, NULL, 0);
    } else
        announce (self, 0, 2, RAW, 2);
}

static void test_the_claim_is_over (void **state)
{
    for (int how = KICKED; how < LOST_CLAIM_ENDS; how++)
        for (int early = 0; early < 2; early++) {
            world_t self = world_new (0, 64 * MIB, 0);
            announce (&self, 0, 2, RAW, 1);
            const wm_msg_t need[2] = { need_of (&self), need_of (&self) };
            claim_ends (&self, how);
            if (early)
                answer (&self, &need[0], RAW);
            durable (self.t);
            for (int i = early; i < 2; i++)
                answer (&self, &need[i], RAW);
            assert_int_equal (count (self.t, self.p, WM_MSG_REJECT), 0);
            assert_int_equal (look (self.t).budget_used_bytes, 0);
            if (how == KICKED) { /* and it begins again */
                while (take (self.t, self.p, WM_MSG_INPUT_ACK))
                    continue;
                self.input = claim (self.t, self.p);
                announce (&self, 0, 1, RAW, 1);
                const wm_msg_t again = need_of (&self);
                answer (&self, &again, RAW);
                credit (self.t, self.w, ++self.credit);
                score (&self);
                quiet_then_one_too_many (&self, &again);
            }
            harness_end (self.t);
        }
}

/* What a producer was asked for a second time comes when its output is written already.  */
static void test_written_meanwhile (void **state)
{
    world_t self = world_new (0, 64 * MIB, 1);
    wm_msg_t msg;
    announce (&self, 0, 1, RAW, 1);
    const wm_msg_t need = need_of (&self);
    wait_s (&self, 12);
    answer (&self, &need, RAW);
    score (&self);
    wm_msg_init (&msg, WM_MSG_INPUT_END);
    msg.key = self.input;
    msg.count = 1;
    say (self.t, self.p, &msg, NULL, 0);
    durable (self.t);
    wm_msg_init (&msg, WM_MSG_FILE_WRITTEN);
    msg.key = self.input;
    msg.size = 10;
    say (self.t, self.p, &msg, NULL, 0);
    durable (self.t);
    must (self.t, self.p, WM_MSG_ACK);
    answer (&self, &need, RAW);
    assert_int_equal (count (self.t, self.p, WM_MSG_REJECT), 0);
    answer (&self, &need, RAW);
    refused (self.t, self.p, WM_REASON_STALE); /* it was asked twice */
    harness_end (self.t);
}

/* A client that announces other patches under a number whose event is not answered yet is refused,
   and the next client has nothing of it.  */
static void test_a_client_contradicts_itself (void **state)
{
    world_t self = world_new (1, 64 * MIB, 1);
    const size_t appended = self.t->n_appended;
    announce (&self, 0, 1, RAW, 1);
    announce (&self, 0, 1, RAW, 2);
    durable (self.t);
    refused (self.t, self.p, WM_REASON_DIGEST);
    assert_int_equal (self.t->n_appended, appended);
    self.p = producer (self.t, 3);
    self.input = claim (self.t, self.p); /* which checks that it is CLAIMED */
    announce (&self, 0, 1, RAW, 2);
    const wm_msg_t need = need_of (&self);
    answer (&self, &need, RAW);
    score (&self);
    quiet_then_one_too_many (&self, &need);
    harness_end (self.t);
}

/* A producer that holds an input announces others at once, as many events as it may have open, also
   while a full disk keeps the record of the hold waiting.  */
static void test_open_events_of_a_held_input (void **state)
{
    world_t self = world_new (0, 64 * MIB, 1);
    const wm_key_t first = self.input;
    const wm_key_t other =
        input_ask (self.t, self.p, "/data/b.h5", "b.scores.h5", 1000, 1)->msg.key;
    for (uint32_t i = 0; i < WM_OPEN_EVENTS_MAX; i++)
        announce (&self, i, 1, RAW, 1);
    wm_core_disk_full (self.t->core, true, self.t->now_ms);
    claim_ends (&self, HELD);
    self.input = other;
    for (uint32_t i = 0; i < WM_OPEN_EVENTS_MAX; i++)
        announce (&self, i, 1, RAW, 1);
    assert_int_equal (count (self.t, self.p, WM_MSG_REJECT), 0);
    wm_core_disk_full (self.t->core, false, self.t->now_ms);
    durable (self.t);
    assert_int_equal (look (self.t).inputs_held, 1);
    self.input = first;
    announce (&self, 0, 1, RAW, 1); /* on its way when it was held */
    assert_int_equal (count (self.t, self.p, WM_MSG_REJECT), 0);
    self.input = other;
    announce (&self, WM_OPEN_EVENTS_MAX, 1, RAW, 1); /* one too many */
    refused (self.t, self.p, WM_REASON_PROTOCOL);
    harness_end (self.t);
}

/* After a restart of a broker for clients a worker may hold a batch of the one before: another
   client has its input and number now, and gets nothing of it.  */
static void test_keys_of_the_broker_before (void **state)
{
    world_t self = world_new (1, 64 * MIB, 1);
    announce (&self, 0, 1, RAW, 1);
    wm_msg_t need = need_of (&self);
    answer (&self, &need, RAW);
    const wm_msg_t old = must (self.t, self.w, WM_MSG_TASK)->msg;
    wm_hello_held_t held = { .key = old.key, .n_hit = old.n_hit };
    memcpy (held.digest, old.digest, 16);
    wm_core_destroy (&self.t->core);
    self.t->core = core_make (self.t, 2, 64 * MIB);
    self.t->n_sent = 0;
    self.p = producer (self.t, 7);
    self.input = claim (self.t, self.p);
    announce (&self, 0, 1, RAW, 2);
    need = need_of (&self);
    answer (&self, &need, RAW);
    self.w = hello (self.t, WM_ROLE_WORKER, 2, &held, sizeof held);
    must (self.t, self.w, WM_MSG_REVOKE);
    credit (self.t, self.w, self.credit = 2);
    assert_int_equal (count (self.t, self.w, WM_MSG_TASK), 1);
    result_of (self.t, self.w, &old, 1); /* the engine had begun it */
    must (self.t, self.w, WM_MSG_RESULT_ACK);
    assert_int_equal (count (self.t, self.w, WM_MSG_TASK), 1); /* it still has that one */
    assert_int_equal (score (&self).digest[14], 2);
    quiet_then_one_too_many (&self, &need);
    harness_end (self.t);
}

/* NEEDs that are not answered allow as many BATCHes, of anything, and not one more; none of them
   takes anything of the budget.  */
static void test_more_than_needs (void **state)
{
    for (int for_clients = 0; for_clients < 2; for_clients++) {
        world_t self = world_new (for_clients, 64 * MIB, 0);
        announce (&self, 0, 2, RAW, 1);
        wm_msg_t need = need_of (&self);
        need_of (&self);
        wait_s (&self, 6);
        assert_int_equal (look (self.t).batches_asked, 0);
        need.key.ordinal = 77;
        answer (&self, &need, RAW);
        assert_int_equal (count (self.t, self.p, WM_MSG_REJECT), 0);
        /* it answers, so it is asked again: what holds bytes does not allow others */
        assert_int_equal (look (self.t).batches_asked, 2);
        answer (&self, &need, RAW);
        assert_int_equal (count (self.t, self.p, WM_MSG_REJECT), 0);
        answer (&self, &need, RAW);
        refused (self.t, self.p, WM_REASON_PROTOCOL);
        harness_end (self.t);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_answered_meanwhile),
        cmocka_unit_test (test_no_bytes),
        cmocka_unit_test (test_asked_again_and_contradicted),
        cmocka_unit_test (test_full_budget_and_a_copy),
        cmocka_unit_test (test_a_number_used_again),
        cmocka_unit_test (test_the_claim_is_over),
        cmocka_unit_test (test_written_meanwhile),
        cmocka_unit_test (test_a_client_contradicts_itself),
        cmocka_unit_test (test_open_events_of_a_held_input),
        cmocka_unit_test (test_keys_of_the_broker_before),
        cmocka_unit_test (test_more_than_needs),
    };
    return cmocka_run_group_tests_name ("broker_late", tests, NULL, NULL);
}
