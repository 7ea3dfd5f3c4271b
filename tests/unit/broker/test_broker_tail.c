/* test_broker_tail.c - wm_core at the end of a campaign: a slow or stopped worker holds it back by
   about one batch, measured in virtual time; what copies may not do; workers that are cut off.  */
#include "tests/proof.h"
#include "tests/unit/core_harness.h"

#define WORKERS 8
#define WINDOW 4
#define BATCH_MS 100
#define STEP_MS 10

typedef struct {
    uint32_t session;
    int ms;           /* a batch */
    int64_t stops_ms; /* from then on it does nothing; its connection stays */
    wm_msg_t task[64];
    int n_task, n_sent, n_done;
    int64_t finish_ms, beat_ms;
} man_t;

typedef struct {
    harness_t *bench;
    uint32_t producer;
    man_t man[WORKERS];
    size_t seen; /* of bench->sent */
    int n_batch, n_done;
} mill_t;

static man_t *man_of (mill_t *mill, uint32_t session)
{
    for (int i = 0; i < WORKERS; i++)
        if (mill->man[i].session == session)
            return &mill->man[i];
    return NULL;
}

static void revoked (man_t *man, const wm_key_t *key)
{
    for (int i = 1; i < man->n_task; i++) /* [0] is executing */
        if (memcmp (&man->task[i].key, key, sizeof *key) == 0) {
            memmove (&man->task[i], &man->task[i + 1],
                     (size_t) (man->n_task - i - 1) * sizeof *man->task);
            man->n_task--;
        }
}

/* What the core said since the last time reaches whom it is for.  */
static void deliver (mill_t *mill)
{
    harness_t *t = mill->bench;
    static uint8_t payload[1000];
    for (; mill->seen < t->n_sent; mill->seen++) {
        const uint32_t session = t->sent[mill->seen].session;
        wm_msg_t msg = t->sent[mill->seen].msg;
        man_t *man = man_of (mill, session);
        if (msg.type == WM_MSG_NEED) {
            msg.type = WM_MSG_BATCH;
            say (t, mill->producer, &msg, payload, sizeof payload);
        } else if (msg.type == WM_MSG_TASK) {
            if (!man->n_task)
                man->finish_ms = t->now_ms + man->ms;
            assert_true (man->n_task < 64);
            man->task[man->n_task++] = msg;
            man->n_sent++;
        } else if (msg.type == WM_MSG_REVOKE && t->now_ms < man->stops_ms)
            revoked (man, &msg.key);
        else if (msg.type == WM_MSG_EVENT_DONE)
            mill->n_done++;
    }
}

static void work (mill_t *mill, man_t *man)
{
    harness_t *t = mill->bench;
    if (t->now_ms >= man->stops_ms)
        return;
    if (man->n_task && t->now_ms >= man->finish_ms) {
        wm_msg_t task = man->task[0];
        memmove (man->task, man->task + 1, (size_t) --man->n_task * sizeof *man->task);
        man->finish_ms = t->now_ms + man->ms;
        man->n_done++;
        result_of (t, man->session, &task, 1);
        durable (t);
        t->n_appended = t->n_durable = 0;
        credit (t, man->session, (uint64_t) (man->n_sent - man->n_task + WINDOW));
    }
    if (t->now_ms - man->beat_ms >= 1000) {
        man->beat_ms = t->now_ms;
        heartbeat (t, man->session, man->n_task ? man->task[0].key : (wm_key_t){ 0 },
                   (uint64_t) t->now_ms);
    }
}

static mill_t mill_new (void)
{
    mill_t mill = { .bench = harness_new (64 * MIB) };
    mill.producer = producer (mill.bench, 1);
    for (int i = 0; i < WORKERS; i++)
        mill.man[i] = (man_t){ .ms = BATCH_MS, .stops_ms = INT64_MAX };
    return mill;
}

/* Runs a campaign of this many events of 16 batches to its end; returns how long it took.  */
static double mill_run (mill_t *mill, int n_event)
{
    harness_t *t = mill->bench;
    int64_t start_ms = t->now_ms;
    wm_key_t input = claim (t, mill->producer);
    for (int i = 0; i < WORKERS; i++)
        mill->man[i].session = worker (t, (uint8_t) (2 + i), WINDOW);
    for (int i = 0; i < n_event; i++)
        submit (t, mill->producer, input, (uint32_t) i, 16);
    while (mill->n_done < n_event) {
        deliver (mill);
        t->now_ms += STEP_MS;
        for (int i = 0; i < WORKERS; i++)
            work (mill, &mill->man[i]);
        if (t->now_ms % 250 == 0) {
            heartbeat (t, mill->producer, (wm_key_t){ 0 }, 0);
            wm_core_tick (t->core, t->now_ms);
        }
        assert_true (t->now_ms - start_ms < 600000);
    }
    return (double) (t->now_ms - start_ms);
}

static void test_stopped_worker (void **state)
{
    double worst = 0, start = proof_clock ();
    unsigned long survived = 0;
    for (int n = 1; n <= 20; n++) {
        int n_event = n % 2 ? 16 : 8;
        mill_t mill = mill_new ();
        mill.man[n % WORKERS].stops_ms = mill.bench->now_ms + 130 + 70 * n;
        double took = mill_run (&mill, n_event);
        double ideal = (16.0 * n_event - mill.man[n % WORKERS].n_done) * BATCH_MS / (WORKERS - 1);
        worst = took / ideal > worst ? took / ideal : worst;
        survived += took / ideal <= 1.5;
        wm_summary_t s = look (mill.bench);
        assert_int_equal (s.batches_returned, 16 * n_event);
        assert_int_equal (s.n_lost + s.n_fail, 0); /* nobody was waited for until its lease ended */
        harness_end (mill.bench);
    }
    printf ("a stopped worker: at most %.2f of the ideal time\n", worst);
    proof_line ("P8", 20, survived, start);
    assert_true (worst <= 1.5);
}

static void test_slow_worker (void **state)
{
    for (int slow = 3; slow <= 300; slow *= 10) {
        mill_t mill = mill_new ();
        mill.man[3].ms = slow * BATCH_MS;
        double took = mill_run (&mill, 16);
        double ideal = 256.0 * BATCH_MS / (WORKERS - 1 + 1.0 / slow);
        printf ("a worker %d times slower: %.2f of the ideal time, %d copies\n", slow, took / ideal,
                (int) look (mill.bench).n_copy);
        assert_true (took / ideal <= 1.5);
        harness_end (mill.bench);
    }
}

/* Equal workers need no copies: what they have they finish sooner themselves.  */
static void test_no_copies_in_vain (void **state)
{
    mill_t mill = mill_new ();
    mill_run (&mill, 16);
    assert_true (look (mill.bench).n_copy <= 8);
    assert_int_equal (look (mill.bench).n_duplicate, 0);
    harness_end (mill.bench);
}

/* Two workers, two batches: the second worker, proven and idle, is sent a copy of what the first
   sits on.  */
typedef struct {
    harness_t *t;
    uint32_t producer, slow, idle;
    wm_msg_t stuck;
} pair_t;

static pair_t pair_new (void)
{
    pair_t pair = { .t = harness_new (64 * MIB) };
    harness_t *t = pair.t;
    pair.producer = producer (t, 1);
    wm_key_t input = claim (t, pair.producer);
    pair.slow = worker (t, 2, 1);
    submit (t, pair.producer, input, 0, 2);
    answer_needs (t, pair.producer);
    pair.stuck = must (t, pair.slow, WM_MSG_TASK)->msg;
    pair.idle = worker (t, 3, 1);
    wm_msg_t own = must (t, pair.idle, WM_MSG_TASK)->msg;
    t->now_ms += 100;
    result_of (t, pair.idle, &own, 1);
    durable (t);
    return pair;
}

static void test_copy_and_revoke (void **state)
{
    pair_t pair = pair_new ();
    harness_t *t = pair.t;
    uint32_t newcomer = worker (t, 4, 1), alive[] = { pair.producer, pair.slow, pair.idle, 0 };
    pass (t, 500, alive);
    assert_null (take (t, newcomer, WM_MSG_TASK));  /* it has proven nothing */
    assert_null (take (t, pair.idle, WM_MSG_TASK)); /* it has no credit */
    credit (t, pair.idle, 2);
    pass (t, 1, alive);
    wm_msg_t copy = must (t, pair.idle, WM_MSG_TASK)->msg;
    assert_int_equal (copy.key.batch, pair.stuck.key.batch);
    credit (t, pair.idle, 9);
    pass (t, 1000, alive);
    assert_null (take (t, pair.idle, WM_MSG_TASK)); /* two leases, not more */
    assert_null (take (t, newcomer, WM_MSG_TASK));
    assert_int_equal (look (t).n_copy, 1);
    result_of (t, pair.idle, &copy, 1);
    assert_int_equal (must (t, pair.slow, WM_MSG_REVOKE)->msg.key.batch, copy.key.batch);
    durable (t);
    must (t, pair.producer, WM_MSG_EVENT_DONE);
    size_t appended = t->n_appended;
    result_of (t, pair.slow, &pair.stuck, 1); /* late: acknowledged and dropped */
    must (t, pair.slow, WM_MSG_RESULT_ACK);
    assert_int_equal (t->n_appended, appended);
    wm_summary_t s = look (t);
    assert_int_equal (s.n_duplicate, 1);
    assert_int_equal (s.n_alarm + s.n_lost + s.n_fail, 0);
    harness_end (t);
}

/* Whoever is late, and whether the first is durable by then: both are acknowledged, one counts.  */
static void test_late_results (void **state)
{
    const unsigned long n = 500;
    unsigned long survived = 0;
    const double start = proof_clock ();
    for (unsigned long i = 0; i < n; i++) {
        pair_t pair = pair_new ();
        harness_t *t = pair.t;
        uint32_t alive[] = { pair.producer, pair.slow, pair.idle, 0 };
        credit (t, pair.idle, 2);
        pass (t, 500 + 100 * (int64_t) i, alive); /* up to beyond its lease */
        wm_msg_t copy = must (t, pair.idle, WM_MSG_TASK)->msg;
        uint32_t first = i % 2 ? pair.slow : pair.idle, late = i % 2 ? pair.idle : pair.slow;
        size_t appended = t->n_appended;
        result_of (t, first, &copy, 1);
        if (i % 4 < 2)
            durable (t);
        result_of (t, late, &pair.stuck, 1);
        durable (t);
        must (t, pair.slow, WM_MSG_RESULT_ACK);
        must (t, pair.idle, WM_MSG_RESULT_ACK);
        wm_summary_t s = look (t);
        survived += t->n_appended == appended + 1 && s.batches_returned == 2 && s.hits_done == 20 &&
                    s.n_duplicate == 1 && s.n_alarm == 0;
        harness_end (t);
    }
    proof_line ("P8", n, survived, start);
    assert_int_equal (survived, n);
}

/* Who sits on a batch has credit left, and was quick before: a copy to itself would help
   nobody.  */
static void test_no_copy_to_its_own_holder (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 1), alive[] = { p, w, 0 };
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    wm_msg_t quick = must (t, w, WM_MSG_TASK)->msg;
    t->now_ms += 100;
    result_of (t, w, &quick, 1);
    durable (t);
    credit (t, w, 4);
    must (t, w, WM_MSG_TASK);
    pass (t, 5000, alive);
    assert_null (take (t, w, WM_MSG_TASK));
    assert_int_equal (look (t).n_copy, 0);
    harness_end (t);
}

/* The first to answer may be the slow one; and one of the two may fail or go.  */
static void test_copy_is_not_needed (void **state)
{
    for (int way = 0; way < 3; way++) {
        pair_t pair = pair_new ();
        harness_t *t = pair.t;
        uint32_t alive[] = { pair.producer, pair.slow, pair.idle, 0 };
        pass (t, 500, alive);
        credit (t, pair.idle, 2);
        pass (t, 1, alive);
        wm_msg_t copy = must (t, pair.idle, WM_MSG_TASK)->msg;
        if (way == 0) {
            result_of (t, pair.slow, &pair.stuck, 1);
            must (t, pair.idle, WM_MSG_REVOKE);
        } else if (way == 1)
            nack (t, pair.idle, &copy, WM_EHOST);
        else
            wm_core_closed (t->core, pair.idle, t->now_ms);
        wm_summary_t s = look (t);
        assert_int_equal (s.batches_running, 1);
        assert_int_equal (s.batches_queued, 0);
        if (way)
            result_of (t, pair.slow, &pair.stuck, 1);
        durable (t);
        must (t, pair.producer, WM_MSG_EVENT_DONE);
        harness_end (t);
    }
}

/* A payload that is not here is asked for once more, and then its copy is sent.  */
static void test_copy_without_a_payload (void **state)
{
    /* After a restart a lease has no payload here. */
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    wm_hello_held_t held = { .key = input, .n_hit = 10 };
    held.key.ordinal = 0;
    digest_of (0, 0, held.digest);
    uint32_t slow = hello (t, WM_ROLE_WORKER, 2, &held, sizeof held), idle = worker (t, 3, 1);
    submit (t, p, input, 0, 2);
    assert_int_equal (answer_needs (t, p), 1);
    wm_msg_t own = must (t, idle, WM_MSG_TASK)->msg;
    t->now_ms += 100;
    result_of (t, idle, &own, 1);
    credit (t, idle, 2);
    uint32_t all[] = { p, slow, idle, 0 };
    pass (t, 1000, all);
    assert_int_equal (answer_needs (t, p), 1);
    pass (t, 500, all);
    assert_int_equal (must (t, idle, WM_MSG_TASK)->msg.key.batch, 0);
    harness_end (t);
}

/* Workers that are cut off for long lose a batch, which is blamed, and come back with it in hand:
   it is to blame no longer, and no number of such cuts holds it.  */
static void test_cut_off_is_no_failure (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w[2] = { worker (t, 2, 1) };
    wm_key_t input = claim (t, p);
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    wm_hello_held_t held = { .key = must (t, w[0], WM_MSG_TASK)->msg.key, .n_hit = 10 };
    digest_of (0, 0, held.digest);
    w[1] = worker (t, 3, 1);
    const size_t appended = t->n_appended;
    for (int i = 0; i < 8; i++) {
        uint32_t alive[] = { p, w[1 - i % 2], 0 };
        wm_core_closed (t->core, w[i % 2], t->now_ms);
        pass (t, 4000, alive);
        assert_int_equal (look (t).n_lost, 1 + i);
        w[i % 2] = hello (t, WM_ROLE_WORKER, (uint8_t) (2 + i % 2), &held, sizeof held);
        assert_int_equal (look (t).batches_running, 1);
    }
    assert_int_equal (t->n_appended, appended);
    /* One that comes back without it is to blame, and so is one that refuses it.  */
    wm_core_closed (t->core, w[0], t->now_ms);
    pass (t, 4000, (uint32_t[]){ p, w[1], 0 });
    hello (t, WM_ROLE_WORKER, 2, NULL, 0);
    wm_core_closed (t->core, w[1], t->now_ms);
    pass (t, 4000, (uint32_t[]){ p, 0 });
    uint32_t last = worker (t, 4, 1);
    wm_msg_t task = must (t, last, WM_MSG_TASK)->msg;
    nack (t, last, &task, WM_EHOST);
    assert_int_equal (t->n_appended, appended + 1); /* its third: it is held */
    harness_end (t);
}

/* A copy would help, but neither is its payload here nor a producer that could send it again.  */
static void test_no_copy_without_a_producer (void **state)
{
    pair_t pair = pair_new ();
    harness_t *t = pair.t;
    const uint32_t alive[] = { pair.slow, pair.idle, 0 };
    wm_core_batch_drop_payload (t->core, wm_core_batch_find (t->core, &pair.stuck.key));
    wm_core_closed (t->core, pair.producer, t->now_ms);
    credit (t, pair.idle, 2);
    pass (t, 5000, alive);
    assert_int_equal (count (t, pair.idle, WM_MSG_TASK), 0);
    assert_int_equal (look (t).batches_asked, 0);
    assert_int_equal (look (t).batches_running, 1);
    harness_end (t);
}

/* ---- which copies help ----------------------------------------------------------------------- */

/* Time passes without a tick.  */
static void until (harness_t *t, uint32_t producer_, int64_t ms)
{
    while (t->now_ms < ms) {
        t->now_ms += ms - t->now_ms < 500 ? ms - t->now_ms : 500;
        heartbeat (t, producer_, (wm_key_t){ 0 }, 0);
    }
}

/* A slow worker, of 100 ms a hit, has one batch of 10 hits or two; a fast one, of 10 ms a hit, is
   idle or has one. It gets a copy of what it finishes sooner by more than an eighth of a heartbeat
   (250 ms), or of what should have been back twice as long ago.  */
static void test_which_copies_help (void **state)
{
    static const struct {
        int proven;         /* whether the slow one's speed is known; else it is taken for fast */
        int n_slow, n_fast; /* batches that they have */
        int64_t spent_ms;
        int copy; /* of the slow one's first or second batch; 0: of none */
    } rows[] = {
        { 1, 1, 0, 0, 1 },    { 1, 1, 0, 649, 1 },  { 1, 1, 0, 650, 0 },  { 1, 1, 0, 2000, 0 },
        { 1, 1, 0, 2001, 1 }, { 1, 1, 1, 549, 1 },  { 1, 1, 1, 550, 0 },  { 1, 2, 0, 649, 1 },
        { 1, 2, 0, 650, 2 },  { 1, 2, 0, 1649, 2 }, { 1, 2, 0, 1650, 0 }, { 1, 2, 0, 2001, 1 },
        { 0, 1, 0, 350, 0 },  { 0, 1, 0, 351, 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        harness_t *t = harness_new (64 * MIB);
        const uint32_t p = producer (t, 1);
        const wm_key_t input = claim (t, p);
        submit (t, p, input, 0, (uint32_t) (1 + rows[i].proven + rows[i].n_slow + rows[i].n_fast));
        const uint32_t slow = worker (t, 2, (uint64_t) rows[i].proven);
        answer_needs (t, p);
        if (rows[i].proven) {
            const wm_msg_t task = must (t, slow, WM_MSG_TASK)->msg;
            until (t, p, t->now_ms + 1000);
            result_of (t, slow, &task, 1);
            durable (t);
        }
        const uint32_t fast = worker (t, 3, 1);
        answer_needs (t, p);
        const wm_msg_t task = must (t, fast, WM_MSG_TASK)->msg;
        until (t, p, t->now_ms + 100);
        result_of (t, fast, &task, 1);
        durable (t);
        credit (t, slow, (uint64_t) (rows[i].proven + rows[i].n_slow));
        answer_needs (t, p);
        wm_key_t key[3] = { { 0 } };
        for (int k = 1; k <= rows[i].n_slow; k++)
            key[k] = must (t, slow, WM_MSG_TASK)->msg.key;
        credit (t, fast, (uint64_t) (1 + rows[i].n_fast));
        answer_needs (t, p);
        for (int k = 0; k < rows[i].n_fast; k++)
            must (t, fast, WM_MSG_TASK);
        credit (t, fast, (uint64_t) (2 + rows[i].n_fast));
        until (t, p, t->now_ms + rows[i].spent_ms);
        assert_int_equal (count (t, fast, WM_MSG_TASK), 0);
        wm_core_tick (t->core, t->now_ms);
        sent_t *copy = take (t, fast, WM_MSG_TASK);
        assert_int_equal (copy != NULL, rows[i].copy != 0);
        if (copy) {
            assert_memory_equal (&copy->msg.key, &key[rows[i].copy], sizeof *key);
            assert_int_equal (copy->msg.attempt, 2);
        }
        assert_int_equal (look (t).n_copy, rows[i].copy != 0);
        harness_end (t);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_which_copies_help),
        cmocka_unit_test (test_no_copy_without_a_producer),
        cmocka_unit_test (test_stopped_worker),
        cmocka_unit_test (test_slow_worker),
        cmocka_unit_test (test_no_copies_in_vain),
        cmocka_unit_test (test_copy_and_revoke),
        cmocka_unit_test (test_late_results),
        cmocka_unit_test (test_no_copy_to_its_own_holder),
        cmocka_unit_test (test_copy_is_not_needed),
        cmocka_unit_test (test_copy_without_a_payload),
        cmocka_unit_test (test_cut_off_is_no_failure),
    };
    return cmocka_run_group_tests_name ("broker_tail", tests, NULL, NULL);
}
