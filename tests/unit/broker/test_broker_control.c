/* test_broker_control.c - wm_core: pause, resume, drain, and the circuit breaker.  */
#include "tests/unit/core_harness.h"

#include "broker/wm_status.h"

#include <jansson.h>

static void control (harness_t *t, uint32_t session, const char *name, const char *text)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CONTROL);
    strcpy (msg.name, name);
    strcpy (msg.text, text);
    say (t, session, &msg, NULL, 0);
}

/* The order is carried out; it is answered once that is durable.  */
static void done (harness_t *t, uint32_t session)
{
    if (t->n_durable < t->n_appended)
        assert_null (take (t, session, WM_MSG_ACK));
    durable (t);
    assert_int_equal (must (t, session, WM_MSG_ACK)->msg.code, WM_MSG_CONTROL);
}

/* ---- the operator ---------------------------------------------------------------------------- */

static void test_pause (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 1);
    control (t, o, "pause", "lunch");
    done (t, o);
    submit (t, p, input, 0, 2);
    assert_int_equal (count (t, p, WM_MSG_NEED), 0);
    assert_string_equal (look (t).state, "paused");
    assert_string_equal (look (t).waiting_for, "paused");
    assert_string_equal (look (t).paused, "by host:9: lunch");
    assert_string_equal (standing (t, WM_RECORD_PAUSE)->text, "by host:9: lunch");
    control (t, o, "pause", ""); /* without a reason of its own it takes none away */
    done (t, o);
    assert_string_equal (look (t).paused, "by host:9: lunch");
    assert_string_equal (standing (t, WM_RECORD_PAUSE)->text, "by host:9: lunch");
    control (t, o, "pause", "dinner");
    done (t, o);
    assert_string_equal (look (t).paused, "by host:9: dinner");
    control (t, o, "resume", "");
    done (t, o);
    assert_null (look (t).paused);
    assert_int_equal (standing (t, WM_RECORD_PAUSE)->code, 0);
    assert_string_equal (standing (t, WM_RECORD_PAUSE)->text, "by host:9");
    answer_needs (t, p);
    assert_int_equal (count (t, w, WM_MSG_TASK), 1);
    control (t, o, "explode", "");
    refused (t, o, WM_REASON_PROTOCOL);
    harness_end (t);
}

/* The next broker of the campaign knows. On a full disk the operator hears that it may not.  */
static void test_pause_survives (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    control (t, o, "pause", "");
    done (t, o);
    wm_core_destroy (&t->core);
    t->core = core_make (t, 2, 64 * MIB);
    assert_string_equal (look (t).paused, "by host:9");
    o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    control (t, o, "resume", "");
    done (t, o);
    wm_core_destroy (&t->core);
    t->core = core_make (t, 3, 64 * MIB);
    assert_null (look (t).paused);
    wm_core_disk_full (t->core, true, t->now_ms);
    o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    control (t, o, "pause", "");
    refused (t, o, WM_REASON_BUSY);
    assert_string_equal (look (t).state, "paused"); /* all the same */
    durable (t);
    wm_core_destroy (&t->core);
    t->for_clients = 1; /* its recorder goes on without a disk, and names no place then */
    t->core = core_make (t, 4, 64 * MIB);
    t->n_appended = t->n_durable = 0;
    o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    control (t, o, "resume", "");
    wm_core_durable (t->core, &(wm_place_t){ 0 }, t->now_ms);
    refused (t, o, WM_REASON_BUSY);
    assert_null (look (t).paused);
    harness_end (t);
}

/* What a producer waits for is what its last heartbeat said.  */
static void test_producer_waits (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    claim (t, p);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HEARTBEAT);
    strcpy (msg.text, "out: disk full");
    say (t, p, &msg, NULL, 0);
    assert_string_equal (look (t).producer[0].waits, "out: disk full");
    assert_string_equal (look (t).producer[0].input, look (t).open[0].path);
    msg.text[0] = 0;
    say (t, p, &msg, NULL, 0);
    assert_string_equal (look (t).producer[0].waits, "");
    harness_end (t);
}

static void waits (harness_t *t, uint32_t producer, wm_wait_t wait, const char *text)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HEARTBEAT);
    msg.key.ordinal = wait;
    strcpy (msg.text, text);
    say (t, producer, &msg, NULL, 0);
}

/* A full disk of all producers that have an input stops the campaign, that of one of them does not;
   either is reported.  */
static void test_one_of_two_waits (void **state)
{
    wm_brief_t brief;
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), q = producer (t, 2);
    claim (t, p);
    input_ask (t, q, "/data/b.h5", "b.scores.h5", 1000, 1);
    worker (t, 3, 1);
    waits (t, p, WM_WAIT_OUTPUT_DISK, "/out: disk full");
    assert_int_equal (look (t).n_by_wait[WM_WAIT_OUTPUT_DISK], 1);
    assert_string_equal (look (t).state, "running");
    assert_string_equal (look (t).wait[1].text, "/out: disk full");
    wm_core_brief (t->core, &brief);
    assert_int_equal (brief.n_stop, 1);
    assert_int_equal (brief.stop[0].wait, WM_WAIT_OUTPUT_DISK);
    waits (t, q, 0, "out: disk full"); /* of a release without numbers */
    assert_string_equal (look (t).waiting_for, "disk full (output)");
    assert_string_equal (look (t).state, "waiting");
    waits (t, p, WM_WAIT_NONE, "");
    waits (t, q, WM_WAIT_END + 7, "");                       /* of a later release */
    assert_int_equal (look (t).n_by_wait[WM_WAIT_MODEL], 0); /* nor does one load a model */
    assert_int_equal (look (t).n_by_wait[WM_WAIT_OUTPUT_DISK], 0);
    assert_string_equal (look (t).state, "running");
    wm_core_brief (t->core, &brief);
    assert_int_equal (brief.n_stop, 0);
    for (int first = 0; first < 2; first++) { /* of two the graver, whichever came first */
        waits (t, first ? p : q, WM_WAIT_OUTPUT_DISK, "disk full");
        waits (t, first ? q : p, WM_WAIT_PRODUCER_WAITS, "waits");
        assert_string_equal (look (t).waiting_for, "disk full (output)");
    }
    harness_end (t);
}

/* A summary says how long the campaign has waited, also where nothing but time passes.  */
static void test_how_long_it_waits (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), alive[] = { p, 0 };
    submit (t, p, claim (t, p), 0, 1);
    pass (t, 20000, alive);
    const wm_summary_t s = look (t);
    assert_string_equal (s.waiting_for, "no worker");
    assert_int_equal (s.wait[0].wait, WM_WAIT_NO_WORKER);
    assert_in_range ((int) s.wait[0].since_s, 19, 20);
    const uint32_t w = worker (t, 2, 1);
    answer_needs (t, p);
    must (t, w, WM_MSG_TASK);
    assert_null (look (t).waiting_for);
    wm_core_closed (t->core, w, t->now_ms);
    pass (t, 300000, alive);
    wm_core_closed (t->core, p, t->now_ms); /* the payload is here: a worker is what it lacks */
    assert_int_equal (look (t).waiting, WM_WAIT_NO_WORKER);
    harness_end (t);
}

static void count_one (void *argument, const wm_core_worker_t *worker)
{
    ++*(int *) argument;
}

static void test_who_is_a_worker (void **state)
{
    int n = 0;
    harness_t *t = harness_new (64 * MIB);
    producer (t, 1);
    hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    worker (t, 2, 1);
    wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms); /* its HELLO has not come */
    wm_core_workers (t->core, count_one, &n);
    assert_int_equal (n, 1);
    harness_end (t);
}

static void test_drain (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 1);
    submit (t, p, input, 0, 9);
    answer_needs (t, p);
    control (t, o, "drain", "");
    done (t, o);
    marked (t, 1, WM_MARK_DRAINED, "all workers, by host:9");
    must (t, w, WM_MSG_DRAIN);
    assert_null (take (t, p, WM_MSG_DRAIN)); /* its work is to be sent later */
    credit (t, w, 5);
    assert_int_equal (count (t, w, WM_MSG_TASK), 1);
    uint32_t w2 = worker (t, 3, 5); /* who joins now is told */
    must (t, w2, WM_MSG_DRAIN);
    assert_int_equal (count (t, w2, WM_MSG_TASK), 0);
    assert_string_equal (look (t).state, "draining");
    control (t, o, "resume", "");
    done (t, o);
    assert_int_equal (count (t, w2, WM_MSG_TASK), 0); /* they are on their way out */
    uint32_t w3 = worker (t, 4, 1);
    assert_int_equal (count (t, w3, WM_MSG_TASK), 1);
    harness_end (t);
}

static void test_drain_one (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    wm_key_t input = claim (t, p);
    uint32_t w2 = worker (t, 2, 1), w3 = worker (t, 3, 1);
    submit (t, p, input, 0, 9);
    answer_needs (t, p);
    control (t, o, "drain", "host:2");
    done (t, o);
    marked (t, 1, WM_MARK_DRAINED, "host:2, by host:9");
    assert_string_equal (must (t, w2, WM_MSG_DRAIN)->msg.text, "drained by host:9");
    assert_null (take (t, w3, WM_MSG_DRAIN));
    credit (t, w2, 9);
    credit (t, w3, 2);
    assert_int_equal (count (t, w2, WM_MSG_TASK), 1);
    assert_int_equal (count (t, w3, WM_MSG_TASK), 2);
    assert_string_equal (look (t).worker[0].state, "draining");
    assert_string_equal (look (t).worker[0].why, "drained by host:9");
    assert_false (look (t).worker[0].has_failed);
    assert_string_equal (look (t).state, "running");
    control (t, o, "drain", "host:77");
    refused (t, o, WM_REASON_STALE);
    o = hello (t, WM_ROLE_OPERATOR, 8, NULL, 0);
    control (t, o, "drain", "host:1"); /* a producer */
    refused (t, o, WM_REASON_STALE);
    assert_int_equal (t->n_mark, 1);
    assert_null (take (t, p, WM_MSG_DRAIN));
    harness_end (t);
}

/* ---- the circuit breaker --------------------------------------------------------------------- */

typedef struct {
    harness_t *t;
    uint32_t producer, n_event;
    wm_key_t input;
} works_t;

static works_t works_new (void)
{
    works_t works = { .t = harness_new (64 * MIB) };
    works.producer = producer (works.t, 1);
    works.input = claim (works.t, works.producer);
    return works;
}

/* One batch for this worker, which fails or scores it; 0: it gets none.  */
static int one (works_t *works, uint32_t w, uint64_t *credit_, int fails)
{
    harness_t *t = works->t;
    submit (t, works->producer, works->input, works->n_event++, 1);
    answer_needs (t, works->producer);
    credit (t, w, ++*credit_);
    answer_needs (t, works->producer);
    sent_t *task = take (t, w, WM_MSG_TASK);
    if (!task)
        return 0;
    wm_msg_t msg = task->msg;
    if (fails)
        nack (t, w, &msg, WM_EHOST);
    else {
        result_of (t, w, &msg, 1);
        durable (t);
    }
    return 1;
}

/* One batch that this worker fails, and another scores.  */
static void fail_one (works_t *works, uint32_t bad, uint64_t *c, uint32_t good, uint64_t *c2)
{
    harness_t *t = works->t;
    assert_true (one (works, bad, c, 1));
    credit (t, good, ++*c2);
    wm_msg_t msg = must (t, good, WM_MSG_TASK)->msg;
    result_of (t, good, &msg, 1);
    durable (t);
}

/* Workers that were sent away for their failures, as the status has it.  */
static int n_failed (harness_t *t)
{
    const wm_summary_t summary = look (t);
    int n = 0;
    for (int i = 0; i < 2; i++)
        n += summary.worker[i].has_failed && *summary.worker[i].why;
    return n;
}

/* How many failures in a row send a worker away, after this many failures and then successes.  */
static int failures_until_sent_away (int failures, int successes)
{
    works_t works = works_new ();
    harness_t *t = works.t;
    uint64_t c = 0, c2 = 0;
    uint32_t bad = worker (t, 2, 0), good = worker (t, 3, 0);
    assert_true (one (&works, good, &c2, 0));
    for (int i = 0; i < failures; i++)
        fail_one (&works, bad, &c, good, &c2);
    for (int i = 0; i < successes; i++)
        assert_true (one (&works, bad, &c, 0));
    int n = 0;
    while (!count (t, bad, WM_MSG_DRAIN)) {
        fail_one (&works, bad, &c, good, &c2);
        assert_true (++n < 20);
    }
    assert_non_null (strstr (must (t, bad, WM_MSG_DRAIN)->msg.text, "failed, the last: why"));
    assert_false (one (&works, bad, &c, 1)); /* it gets nothing more */
    assert_null (look (t).paused);           /* it is the only one that says so */
    assert_int_equal (n_failed (t), 1);
    harness_end (t);
    return n;
}

static void test_bad_worker (void **state)
{
    assert_int_equal (failures_until_sent_away (0, 0), 6);
    assert_int_equal (failures_until_sent_away (0, 2), 6);
    assert_int_equal (failures_until_sent_away (0, 10), 6);
    /* Its last ten answers count: successes clear the failures before them.  */
    assert_int_equal (failures_until_sent_away (5, 10), 6);
    assert_int_equal (failures_until_sent_away (5, 5), 6);
    assert_int_equal (failures_until_sent_away (5, 1), 1);
}

static void fail_until_sent_away (works_t *works, uint32_t w)
{
    uint64_t c = 0;
    for (int i = 0; i < 20 && !count (works->t, w, WM_MSG_DRAIN); i++)
        one (works, w, &c, 1);
    must (works->t, w, WM_MSG_DRAIN);
}

static void test_two_agree (void **state)
{
    works_t works = works_new ();
    harness_t *t = works.t;
    fail_until_sent_away (&works, worker (t, 2, 0));
    assert_null (look (t).paused);
    fail_until_sent_away (&works, worker (t, 3, 0));
    assert_non_null (strstr (look (t).paused, "2 workers fail more often than they score"));
    assert_null (standing (t, WM_RECORD_PAUSE)); /* a restarted broker tries again */
    uint64_t c = 0;
    uint32_t w = worker (t, 4, 0), o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    assert_false (one (&works, w, &c, 0));
    control (t, o, "resume", "");
    done (t, o);
    assert_null (look (t).paused);
    assert_true (one (&works, w, &c, 0));
    fail_until_sent_away (&works, worker (t, 5, 0)); /* it is counted from the beginning */
    assert_null (look (t).paused);
    harness_end (t);
}

/* One that fails as often as it scores does well enough: two others are not as many as do well.  */
static void test_half_is_well (void **state)
{
    works_t works = works_new ();
    harness_t *t = works.t;
    uint64_t c[3] = { 0 };
    const uint32_t half = worker (t, 20, 0), good[2] = { worker (t, 21, 0), worker (t, 22, 0) };
    for (int i = 0; i < 2; i++)
        assert_true (one (&works, good[i], &c[1 + i], 0));
    for (int i = 0; i < 5; i++)
        fail_one (&works, half, &c[0], good[0], &c[1]);
    for (int i = 0; i < 5; i++)
        assert_true (one (&works, half, &c[0], 0));
    for (int i = 0; i < 2; i++)
        fail_until_sent_away (&works, worker (t, (uint8_t) (2 + i), 0));
    assert_null (look (t).paused);
    harness_end (t);
}

/* A worker is not sent away for hits that kill engines, as long as it scores others.  */
static void test_poison_is_no_failure (void **state)
{
    for (int all = 0; all < 2; all++) {
        works_t works = works_new ();
        harness_t *t = works.t;
        const uint32_t w = worker (t, 2, 12);
        for (int i = 0; i < 8 && !count (t, w, WM_MSG_DRAIN); i++) {
            uint8_t payload[10 * (1 + 4 * N_OUTPUT)] = { 0 };
            memset (payload, WM_HIT_POISON, all ? 10 : 9);
            submit (t, works.producer, works.input, works.n_event++, 1);
            answer_needs (t, works.producer);
            wm_msg_t msg = must (t, w, WM_MSG_TASK)->msg;
            msg.type = WM_MSG_RESULT;
            say (t, w, &msg, payload, sizeof payload);
            durable (t);
        }
        assert_int_equal (count (t, w, WM_MSG_DRAIN), all);
        harness_end (t);
    }
}

/* Two bad machines among many good ones are their own fault.  */
static void test_two_of_many (void **state)
{
    works_t works = works_new ();
    harness_t *t = works.t;
    for (int i = 0; i < 3; i++) {
        uint64_t c = 0;
        assert_true (one (&works, worker (t, (uint8_t) (20 + i), 0), &c, 0));
    }
    for (int i = 0; i < 3; i++) {
        assert_null (look (t).paused);
        fail_until_sent_away (&works, worker (t, (uint8_t) (2 + i), 0));
    }
    assert_non_null (look (t).paused); /* as many as do well */
    harness_end (t);
}

/* Workers that have scored nothing yet do not count as doing well, nor those that were sent away,
   though they have scored something.  */
static void test_who_does_well (void **state)
{
    works_t works = works_new ();
    harness_t *t = works.t;
    uint32_t bad[2];
    for (uint8_t i = 0; i < 4; i++) { /* two of these stay good */
        uint64_t c = 0;
        const uint32_t w = worker (t, (uint8_t) (20 + i), 0);
        assert_true (one (&works, w, &c, 0));
        worker (t, (uint8_t) (30 + i), 0);
        if (i < 2)
            bad[i] = w;
    }
    fail_until_sent_away (&works, bad[0]);
    assert_null (look (t).paused);
    fail_until_sent_away (&works, bad[1]);
    assert_non_null (look (t).paused);
    harness_end (t);
}

/* What failed goes first to a worker whose last answer was a result, whatever it failed before; a
   worker that has not scored yet gets it when no other batch is here or asked for.  */
static void test_who_gets_what_failed (void **state)
{
    works_t works = works_new ();
    harness_t *t = works.t;
    uint64_t ca = 0, cb = 0;
    const uint32_t a = worker (t, 2, 0), b = worker (t, 3, 0), c = worker (t, 4, 0);
    fail_one (&works, b, &cb, a, &ca);
    assert_true (one (&works, b, &cb, 0));
    assert_true (one (&works, a, &ca, 1));
    const uint32_t failed = works.n_event - 1;
    submit (t, works.producer, works.input, works.n_event++, 1);
    credit (t, c, 1);
    assert_null (take (t, c, WM_MSG_TASK));
    answer_needs (t, works.producer);
    assert_int_equal (must (t, c, WM_MSG_TASK)->msg.key.ordinal, failed + 1);
    submit (t, works.producer, works.input, works.n_event++, 1);
    answer_needs (t, works.producer);
    credit (t, b, ++cb);
    assert_int_equal (must (t, b, WM_MSG_TASK)->msg.key.ordinal, failed);
    harness_end (t);
}

/* An engine that dies of every hit answers with results; they are failures all the same, also where
   it has no finite score of some.  */
static void test_poison_is_a_failure (void **state)
{
    works_t works = works_new ();
    harness_t *t = works.t;
    uint32_t w = worker (t, 2, 20);
    submit (t, works.producer, works.input, 0, 20);
    for (int n = 0; n < 6; n++) {
        assert_int_equal (count (t, w, WM_MSG_DRAIN), 0);
        answer_needs (t, works.producer);
        wm_msg_t msg = must (t, w, WM_MSG_TASK)->msg;
        uint8_t payload[10 * (1 + 4 * N_OUTPUT)] = { 0 };
        memset (payload, WM_HIT_POISON, 10);
        if (n % 2)
            payload[n] = WM_HIT_NONFINITE;
        msg.type = WM_MSG_RESULT;
        say (t, w, &msg, payload, sizeof payload);
        durable (t);
    }
    must (t, w, WM_MSG_DRAIN);
    harness_end (t);
}

/* Two bad machines and nobody else: each batch fails once, and who scores something gets what
   failed.  */
static void test_failed_elsewhere (void **state)
{
    works_t works = works_new ();
    harness_t *t = works.t;
    uint64_t c = 0;
    int failed[16] = { 0 };
    submit (t, works.producer, works.input, 0, 16);
    for (uint8_t i = 0; i < 2; i++) {
        uint32_t w = worker (t, (uint8_t) (2 + i), 0);
        for (c = 0; !count (t, w, WM_MSG_DRAIN);) {
            credit (t, w, ++c);
            answer_needs (t, works.producer);
            wm_msg_t msg = must (t, w, WM_MSG_TASK)->msg;
            failed[msg.key.batch]++;
            nack (t, w, &msg, i ? WM_EHOST : WM_EBATCH);
        }
    }
    for (int i = 0; i < 16; i++)
        assert_int_equal (failed[i], i < 12);
    uint32_t o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0), w = worker (t, 4, 0);
    control (t, o, "resume", "");
    c = 0;
    for (int i = 0; i < 16; i++) {
        credit (t, w, ++c);
        answer_needs (t, works.producer);
        wm_msg_t msg = must (t, w, WM_MSG_TASK)->msg;
        assert_int_equal (failed[msg.key.batch], i >= 1 && i < 13); /* one proves it */
        result_of (t, w, &msg, 1);
        durable (t);
    }
    must (t, works.producer, WM_MSG_EVENT_DONE);
    harness_end (t);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void restore (harness_t *t, uint32_t id, const char *path, const char *name,
                     wm_ledger_input_state_t state, uint64_t n_held)
{
    const wm_ledger_input_t row = { .id = id,
                                    .state = state,
                                    .path = path,
                                    .name = name,
                                    .n_event = 1,
                                    .n_hit = 10,
                                    .n_held = n_held,
                                    .text = "torn" };
    assert_int_equal (wm_core_restore_input (t->core, &row), 0);
}

static void test_names (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    restore (t, 1, "/a/b/x.h5", "x.scores.h5", WM_LEDGER_WRITTEN, 0);
    restore (t, 2, "/a/c/x.h5:/patches", "x-1.scores.h5", WM_LEDGER_WRITTEN, 3);
    restore (t, 3, "/a/c/yx.h5", "1", WM_LEDGER_HELD, 0);
    static const struct {
        const char *name;
        uint32_t from, found;
    } rows[] = { { "/a/b/x.h5", 1, 1 }, { "x.h5", 1, 1 },       { "x.h5", 2, 2 },
                 { "x.h5", 3, 0 },      { "c/x.h5", 1, 2 },     { "c/x.h5:/patches", 1, 2 },
                 { "/c/yx.h5", 1, 3 },  { "/x.h5", 1, 1 },      { "x-1.scores.h5", 1, 2 },
                 { "2", 1, 2 },         { "1", 2, 3 },          { "4", 1, 0 },
                 { "", 3, 3 },          { "", 4, 0 },           { "", 0, 0 },
                 { "h5", 1, 0 },        { "99999999999", 1, 0 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal (wm_core_named_from (t->core, rows[i].from, rows[i].name), rows[i].found);
    assert_int_equal (wm_core_held_from (t->core, 1), 2);
    assert_int_equal (wm_core_held_from (t->core, 3), 3);
    assert_int_equal (wm_core_held_from (t->core, 4), 0);
    wm_core_known_t known;
    assert_true (wm_core_known (t->core, 2, &known));
    assert_int_equal (known.n_scored, 7);
    assert_true (wm_core_known (t->core, 3, &known));
    assert_string_equal (known.why, "torn");
    harness_end (t);
}

/* However long its names are, a page fits a message, and each input is in one page.  */
static void test_pages (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    static char path[WM_PATH_BYTES_MAX + 1], name[256];
    enum { N = 700 };
    for (uint32_t id = 1; id <= N; id++) {
        memset (path, '"', sizeof path - 1); /* two bytes in JSON */
        path[id < 650 ? 20 : WM_PATH_BYTES_MAX] = 0;
        snprintf (name, sizeof name, "%u", id);
        memcpy (path, name, strlen (name));
        restore (t, id, path, name, WM_LEDGER_WRITTEN, 0);
    }
    uint32_t n = 0, n_page = 0;
    for (uint32_t from = 1, next; from; from = next, n_page++) {
        char *text = wm_status_files (t->core, from, "", &next);
        assert_non_null (text);
        assert_true (strlen (text) <= WM_STATUS_BYTES_MAX);
        json_t *page = json_loads (text, 0, NULL), *row;
        size_t i;
        assert_int_equal (json_integer_value (json_object_get (page, "next")), next);
        json_array_foreach (json_object_get (page, "files"), i, row)
            assert_int_equal (json_integer_value (json_object_get (row, "input")), ++n);
        json_decref (page);
        free (text);
    }
    assert_int_equal (n, N);
    assert_in_range (n_page, 4, 12);
    harness_end (t);
}

static void refused_files (harness_t *t, const char *name, const char *text)
{
    uint32_t o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    control (t, o, name, text);
    assert_int_equal (must (t, o, WM_MSG_REJECT)->msg.code, WM_REASON_PROTOCOL);
}

static void test_files_are_asked_by_number (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    static const char *const bad[] = { "", "x", "0", "-1", "1x", "4294967295", " name" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused_files (t, "files", bad[i]);
    refused_files (t, "held-files", "1 name");
    harness_end (t);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_pause),
        cmocka_unit_test (test_pause_survives),
        cmocka_unit_test (test_producer_waits),
        cmocka_unit_test (test_one_of_two_waits),
        cmocka_unit_test (test_how_long_it_waits),
        cmocka_unit_test (test_who_is_a_worker),
        cmocka_unit_test (test_drain),
        cmocka_unit_test (test_drain_one),
        cmocka_unit_test (test_bad_worker),
        cmocka_unit_test (test_two_agree),
        cmocka_unit_test (test_two_of_many),
        cmocka_unit_test (test_who_does_well),
        cmocka_unit_test (test_who_gets_what_failed),
        cmocka_unit_test (test_half_is_well),
        cmocka_unit_test (test_poison_is_no_failure),
        cmocka_unit_test (test_poison_is_a_failure),
        cmocka_unit_test (test_failed_elsewhere),
        cmocka_unit_test (test_names),
        cmocka_unit_test (test_pages),
        cmocka_unit_test (test_files_are_asked_by_number),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("broker_control", tests, NULL, NULL);
}
