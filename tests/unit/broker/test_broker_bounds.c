/* test_broker_bounds.c - wm_core: each deadline and each size, on the bound and one beside it; what
   an operator's questions become; what is logged.  */
#include "broker/core/wm_rate.h"
#include "tests/unit/core_harness.h"

#include <limits.h>
#include <math.h>

/* ---- deadlines ------------------------------------------------------------------------------- */

static void tick_at (harness_t *t, int64_t ms)
{
    while (ms - t->now_ms > 1000) /* no gap */
        wm_core_tick (t->core, t->now_ms += 1000);
    wm_core_tick (t->core, t->now_ms = ms);
    look (t);
}

/* A peer in this situation: returns its session.  */
typedef uint32_t situation_t (harness_t *t);

static uint32_t no_hello (harness_t *t)
{
    return wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms);
}

static uint32_t idle_producer (harness_t *t)
{
    return producer (t, 1);
}

static uint32_t idle_worker (harness_t *t)
{
    return worker (t, 2, 1);
}

static uint32_t busy_worker (harness_t *t)
{
    const uint32_t p = producer (t, 1), w = worker (t, 2, 1);
    submit (t, p, claim (t, p), 0, 1);
    answer_needs (t, p);
    must (t, w, WM_MSG_TASK);
    return w;
}

static uint32_t lost_worker (harness_t *t)
{
    const uint32_t w = busy_worker (t);
    wm_core_closed (t->core, w, t->now_ms);
    t->n_sent = 0;
    return w;
}

/* What happens to it after so many ms, and not a millisecond before: a message to it, or (0) no
   message but the end of its session.  */
static void test_deadlines (void **state)
{
    static const struct {
        situation_t *situation;
        int64_t ms;
        wm_msg_type_t sends;
        uint32_t code;
        const char *text;
    } rows[] = {
        { no_hello, 3001, WM_MSG_REJECT, WM_REASON_PROTOCOL, "no HELLO within 3000 ms" },
        { idle_producer, 2000, WM_MSG_HEARTBEAT, 0, "" },
        { idle_worker, 2000, WM_MSG_HEARTBEAT, 0, "" },
        { idle_producer, 30001, WM_MSG_BYE, WM_REASON_STALE, "silent for 30001 ms" },
        { idle_worker, 30001, WM_MSG_BYE, WM_REASON_STALE, "silent for 30001 ms" },
        { lost_worker, 3000, 0, 0, NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        harness_t *t = harness_new (64 * MIB);
        const int64_t since_ms = t->now_ms;
        const uint32_t session = rows[i].situation (t);
        tick_at (t, since_ms + rows[i].ms - 1);
        if (rows[i].sends)
            assert_int_equal (count (t, session, rows[i].sends), 0);
        assert_non_null (wm_core_session_find (t->core, session));
        tick_at (t, since_ms + rows[i].ms);
        if (rows[i].sends) {
            const wm_msg_t msg = must (t, session, rows[i].sends)->msg;
            assert_int_equal (msg.code, rows[i].code);
            assert_string_equal (msg.text, rows[i].text);
        }
        assert_int_equal (wm_core_session_find (t->core, session) != NULL,
                          rows[i].sends == WM_MSG_HEARTBEAT);
        harness_end (t);
    }
}

/* Each heartbeat of the broker begins the next wait anew, whatever else it sent.  */
static void test_heartbeats_after_what_was_sent (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const int64_t since_ms = t->now_ms;
    const uint32_t p = producer (t, 1);
    tick_at (t, since_ms + 1500);
    claim (t, p); /* it is answered */
    tick_at (t, since_ms + 3499);
    assert_int_equal (count (t, p, WM_MSG_HEARTBEAT), 0);
    tick_at (t, since_ms + 3500);
    assert_int_equal (count (t, p, WM_MSG_HEARTBEAT), 1);
    tick_at (t, since_ms + 5499);
    assert_int_equal (count (t, p, WM_MSG_HEARTBEAT), 1);
    tick_at (t, since_ms + 5500);
    assert_int_equal (count (t, p, WM_MSG_HEARTBEAT), 2);
    harness_end (t);
}

/* Heartbeats come, but the TASK that it was sent stays in its queue.  */
static void test_what_is_not_received (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const int64_t since_ms = t->now_ms;
    const uint32_t w = busy_worker (t);
    t->deaf = w;
    const uint32_t alive[] = { w, t->core->sessions.first->id, 0 };
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HEARTBEAT);
    pass (t, 59500, alive);
    msg.key = (wm_key_t){ 1, 0, 0, 0 };
    say (t, w, &msg, NULL, 0);
    tick_at (t, since_ms + 60000);
    assert_int_equal (count (t, w, WM_MSG_BYE), 0);
    tick_at (t, since_ms + 60001);
    assert_string_equal (must (t, w, WM_MSG_BYE)->msg.text,
                         "has received nothing of what it was sent for 60001 ms");
    harness_end (t);
}

/* A worker that does not advance keeps the batch that it executes, whose lease expires; what only
   waited there is sent elsewhere at once.  */
static void test_a_worker_that_does_not_advance (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const int64_t since_ms = t->now_ms;
    const uint32_t p = producer (t, 1), w = worker (t, 2, 2);
    submit (t, p, claim (t, p), 0, 2);
    answer_needs (t, p);
    const wm_key_t first = must (t, w, WM_MSG_TASK)->msg.key;
    const uint32_t alive[] = { p, 0 };
    for (int i = 0; i < 60; i++) {
        heartbeat (t, w, first, i == 0);
        if (i < 59)
            pass (t, 500, alive);
    }
    tick_at (t, since_ms + 30000);
    assert_false (wm_core_session_find (t->core, w)->stalled);
    tick_at (t, since_ms + 30001);
    assert_true (wm_core_session_find (t->core, w)->stalled);
    assert_int_equal (must (t, w, WM_MSG_REVOKE)->msg.key.batch, 1);
    assert_int_equal (count (t, w, WM_MSG_REVOKE), 0);
    assert_int_equal (look (t).n_lost, 1);
    assert_int_equal (look (t).batches_queued, 2);
    /* It advances: what it executes is its own still, and the other one may come again.  */
    heartbeat (t, w, first, 7);
    assert_false (wm_core_session_find (t->core, w)->stalled);
    assert_int_equal (must (t, w, WM_MSG_TASK)->msg.key.batch, 1);
    harness_end (t);
}

/* A gap of the broker's own moves all deadlines; time that passes in steps does not.  */
static void test_gaps (void **state)
{
    for (int64_t step_ms = 1999; step_ms <= 2001; step_ms++) {
        harness_t *t = harness_new (64 * MIB);
        const uint32_t p = producer (t, 1);
        for (int i = 0; i < 20; i++)
            wm_core_tick (t->core, t->now_ms += step_ms);
        assert_int_equal (count (t, p, WM_MSG_BYE), step_ms <= 2000);
        assert_int_equal (t->core->skipped_ms, step_ms <= 2000 ? 0 : 20 * step_ms);
        wm_core_tick (t->core, t->now_ms - 5000); /* a clock that went back */
        assert_int_equal (t->core->now_ms, t->now_ms - t->core->skipped_ms);
        harness_end (t);
    }
}

/* A producer that owes more than half of the budget, or what another lacks, ends after silence_ms;
   one that leaves room does not.  */
static void test_what_is_owed (void **state)
{
    static const struct {
        uint32_t n, raw; /* batches that it is asked for */
        uint32_t other;  /* raw bytes of a batch of another producer */
        bool ends;
    } rows[] = { { 3, WM_RAW_BYTES_MAX, WM_RAW_BYTES_MAX, true },
                 { 3, WM_RAW_BYTES_MAX, 1000, true }, /* its own next one has no room */
                 { 1, 1000, 1000, false } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        harness_t *t = harness_new (16 * MIB);
        const int64_t since_ms = t->now_ms;
        const uint32_t w = worker (t, 1, 8), p = producer (t, 2);
        submit_raw (t, p, input_ask (t, p, "/p", "p", 1, 1)->msg.key, 0, rows[i].n, rows[i].raw);
        assert_int_equal (count (t, p, WM_MSG_NEED), rows[i].n);
        const uint32_t q = producer (t, 3), alive[] = { w, p, q, 0 };
        submit_raw (t, q, input_ask (t, q, "/q", "q", 1, 1)->msg.key, 0, 1, rows[i].other);
        pass (t, 29500, alive);
        tick_at (t, since_ms + 30000);
        assert_int_equal (count (t, p, WM_MSG_BYE), 0);
        tick_at (t, since_ms + 30001);
        assert_int_equal (count (t, p, WM_MSG_BYE), rows[i].ends);
        if (rows[i].ends)
            assert_string_equal (
                must (t, p, WM_MSG_BYE)->msg.text,
                "fills the budget with payloads that it has not sent for 30001 ms");
        assert_int_equal (count (t, q, WM_MSG_BYE), 0);
        harness_end (t);
    }
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* HELLO may list so many batches, of a worker alone, in whole lines.  */
static void test_hellos (void **state)
{
    enum { LINE = sizeof (wm_hello_held_t), MOST = 4 * WM_CREDIT_MAX };
    static const struct {
        wm_role_t port;
        uint32_t role;
        size_t bytes;
        uint32_t code; /* 0: it is welcome */
        const char *text;
    } rows[] = {
        { WM_ROLE_WORKER, WM_ROLE_WORKER, 0, 0, "" },
        { WM_ROLE_WORKER, WM_ROLE_WORKER, LINE, 0, "" },
        { WM_ROLE_WORKER, WM_ROLE_WORKER, LINE + 1, WM_REASON_PROTOCOL, "HELLO with a payload of" },
        { WM_ROLE_WORKER, WM_ROLE_WORKER, LINE - 1, WM_REASON_PROTOCOL, "HELLO with a payload of" },
        { WM_ROLE_WORKER, WM_ROLE_WORKER, MOST * LINE, 0, "" },
        { WM_ROLE_WORKER, WM_ROLE_WORKER, (MOST + 1) * LINE, WM_REASON_PROTOCOL, "HELLO with a" },
        { WM_ROLE_PRODUCER, WM_ROLE_PRODUCER, LINE, WM_REASON_PROTOCOL, "HELLO with a payload of" },
        { WM_ROLE_OPERATOR, WM_ROLE_OPERATOR, LINE, WM_REASON_PROTOCOL, "HELLO with a payload of" },
        { WM_ROLE_WORKER, WM_ROLE_OPERATOR, 0, WM_REASON_ROLE,
          "this port is for workers, not for an operator: the port in --broker is 2 too low;" },
        { WM_ROLE_OPERATOR, WM_ROLE_PRODUCER, 0, WM_REASON_ROLE,
          "this port is for operators, not for a producer: the port in --broker is 1 too high;" },
        { WM_ROLE_PRODUCER, 4, 0, WM_REASON_ROLE, "this port is for producers, not for a ?:" },
        { WM_ROLE_PRODUCER, 0, 0, WM_REASON_ROLE, "this port is for producers, not for a ?:" },
    };
    static uint8_t payload[(MOST + 1) * LINE];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        harness_t *t = harness_new (64 * MIB);
        const uint32_t session = wm_core_open (t->core, rows[i].port, t->now_ms);
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_HELLO);
        msg.protocol = WM_PROTOCOL;
        msg.role = rows[i].role;
        msg.instance[0] = 1;
        say (t, session, &msg, payload, rows[i].bytes);
        if (rows[i].code) {
            const wm_msg_t answer = must (t, session, WM_MSG_REJECT)->msg;
            assert_int_equal (answer.code, rows[i].code);
            assert_memory_equal (answer.text, rows[i].text, strlen (rows[i].text));
        } else
            must (t, session, WM_MSG_WELCOME);
        assert_int_equal (look (t).n_worker, !rows[i].code);
        harness_end (t);
    }
}

/* Sessions that are lost may come back, and are at most as many again.  */
static void test_lost_sessions_are_few (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    t->core->config.peers_max = 2;
    const uint32_t p = producer (t, 1);
    submit (t, p, claim (t, p), 0, 4);
    for (uint8_t i = 0; i < 3; i++) {
        const uint32_t w = worker (t, (uint8_t) (2 + i), 1);
        assert_int_equal (wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms), 0);
        answer_needs (t, p);
        must (t, w, WM_MSG_TASK);
        wm_core_closed (t->core, w, t->now_ms);
    }
    assert_int_equal (t->core->sessions.n_lost, 3);
    assert_int_equal (wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms), 0);
    harness_end (t);
}

/* Who leaves, how, and with a batch: what is logged and what is counted.  */
static void test_leaving (void **state)
{
    static const struct {
        wm_role_t role;
        wm_reason_t code;
        const char *text, *log; /* log: "": nothing */
        unsigned preempt, lost;
    } rows[] = {
        { WM_ROLE_WORKER, WM_REASON_STOPPING, "slurm", "host:2 leaves: slurm", 1, 0 },
        { WM_ROLE_WORKER, WM_REASON_STOPPING, "", "host:2 leaves", 1, 0 },
        { WM_ROLE_WORKER, WM_REASON_DONE, "", "", 1, 0 },
        { WM_ROLE_WORKER, WM_REASON_FAILED, "no GPU", "host:2 leaves: no GPU", 0, 1 },
        { WM_ROLE_PRODUCER, WM_REASON_DONE, "", "", 0, 0 },
        { WM_ROLE_PRODUCER, WM_REASON_STOPPING, "", "", 0, 0 },
        { WM_ROLE_PRODUCER, WM_REASON_FAILED, "", "host:1 leaves", 0, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        harness_t *t = harness_new (64 * MIB);
        const uint32_t w = busy_worker (t);
        t->log[0] = 0;
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_BYE);
        msg.code = rows[i].code;
        strcpy (msg.text, rows[i].text);
        say (t, rows[i].role == WM_ROLE_WORKER ? w : t->core->sessions.first->id, &msg, NULL, 0);
        assert_string_equal (t->log, rows[i].log);
        assert_int_equal (look (t).n_preempt, rows[i].preempt);
        assert_int_equal (look (t).n_lost, rows[i].lost);
        assert_int_equal (look (t).batches_running, rows[i].role != WM_ROLE_WORKER);
        harness_end (t);
    }
}

/* Records on their way are at most so many; without room for one more a batch that failed too often
   is held at its next failure.  */
static void test_no_room_for_a_record (void **state)
{
    enum { MOST = 1 << 16 };
    static const struct {
        size_t n, room; /* on their way; for so many more without memory */
        unsigned held;
    } rows[] = { { MOST + 1, 0, 0 }, { MOST + 1, 1, 1 }, { MOST, 0, 1 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        harness_t *t = harness_new (64 * MIB);
        wm_core_t *core = t->core;
        const uint32_t p = producer (t, 1), alive[] = { p, 0 };
        submit (t, p, claim (t, p), 0, 1);
        answer_needs (t, p);
        pending_t *const ring = core->pending.ring;
        const size_t capacity = core->pending.capacity;
        for (uint8_t k = 0; k < 3; k++) {
            const uint32_t w = worker (t, (uint8_t) (2 + k), 1);
            must (t, w, WM_MSG_TASK);
            wm_core_closed (core, w, t->now_ms);
            pass (t, 2500, alive);
            if (k == 2) {
                core->pending.head = 0;
                core->pending.count = rows[i].n;
                core->pending.capacity = rows[i].n + rows[i].room;
                core->pending.ring = calloc (core->pending.capacity, sizeof *core->pending.ring);
                core->pending.ring[0].is_record = true;
            }
            pass (t, 500, alive);
        }
        const wm_summary_t s = look (t);
        assert_int_equal (s.batches_held, rows[i].held);
        assert_int_equal (s.batches_queued, !rows[i].held);
        assert_int_equal (core->pending.count, rows[i].n + rows[i].held);
        if (rows[i].held)
            assert_int_equal (core->pending.ring[rows[i].n].type, WM_RECORD_HELD);
        free (core->pending.ring);
        core->pending.ring = ring;
        core->pending.capacity = capacity;
        core->pending.count = 0;
        harness_end (t);
    }
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static void test_inputs (void **state)
{
    static const struct {
        const char *path, *name;
        uint32_t code;
        uint64_t size;
        int answer; /* -1: it is refused */
    } rows[] = {
        { "/z", "z", 0, 1, WM_INPUT_OPEN },
        { "/z", "z", 1, 1, WM_INPUT_CLAIMED },
        { "/z", "z", 2, 1, WM_INPUT_OPEN },
        { "/z", "z", 3, 1, -1 },
        { "", "z", 0, 1, -1 },
        { "/z", "", 0, 1, -1 },
        { "/z", ".z", 0, 1, -1 },
        { "/z", "z.", 0, 1, WM_INPUT_OPEN },
        { "/z", "a/z", 0, 1, -1 },
        { "/z", "a\x1fz", 0, 1, -1 },
        { "/z", "a z", 0, 1, WM_INPUT_OPEN },
        { "/z", "a\x7fz", 0, 1, -1 },
        { "/z", "a\x7ez", 0, 1, WM_INPUT_OPEN },
        { "/z", "\xc3\xa9", 0, 1, WM_INPUT_OPEN },
        { "/z", "z", 0, INT64_MAX, WM_INPUT_OPEN },
        { "/z", "z", 0, 1 + (uint64_t) INT64_MAX, -1 },
        { "/z", "z", 0, WM_SIZE_UNKNOWN - 1, -1 },
        { "/z", "z", 0, WM_SIZE_UNKNOWN, WM_INPUT_OPEN },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        harness_t *t = harness_new (64 * MIB);
        const uint32_t p = producer (t, 1);
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_INPUT);
        msg.code = rows[i].code;
        msg.size = rows[i].size;
        msg.mtime_ns = 7;
        strcpy (msg.path, rows[i].path);
        strcpy (msg.name, rows[i].name);
        say (t, p, &msg, NULL, 0);
        durable (t);
        if (rows[i].answer < 0) {
            refused (t, p, WM_REASON_PROTOCOL);
            assert_int_equal (t->n_appended, 0);
        } else {
            const wm_msg_t answer = must (t, p, WM_MSG_INPUT_ACK)->msg;
            assert_int_equal (answer.code, rows[i].answer);
            assert_string_equal (answer.name, rows[i].name);
            assert_string_equal (answer.path, rows[i].path);
            const wm_record_t *record = &t->appended[0].record;
            assert_int_equal (record->size, (int64_t) rows[i].size);
            assert_int_equal (record->mtime_ns, 7);
            assert_string_equal (t->appended[0].text, rows[i].path);
            assert_int_equal (record->name_bytes, strlen (rows[i].name));
        }
        harness_end (t);
    }
}

/* ---- what an operator asks ------------------------------------------------------------------- */

static char asked[100]; /* what the core passed on */

static void sink_files (void *context, uint32_t session, uint32_t from, const char *name)
{
    snprintf (asked, sizeof asked, "files %u %s", from, name ? name : "held");
}

static void sink_history (void *context, uint32_t session, bool is_of_workers, uint64_t from)
{
    snprintf (asked, sizeof asked, "history %d %llu", is_of_workers, (unsigned long long) from);
}

static void test_controls (void **state)
{
    static const struct {
        const char *name, *text, *asked; /* NULL: it is refused */
        int monitor;                     /* whether one that only reads may ask it */
        const char *log;
    } rows[] = {
        { "files", "1", "files 1 ", 1, "" },
        { "files", "4294967294", "files 4294967294 ", 1, "" },
        { "files", "4294967295", NULL, 1, NULL },
        { "files", "0", NULL, 1, NULL },
        { "files", "7 x.h5", "files 7 x.h5", 1, "" },
        { "files", "7x", NULL, 1, NULL },
        { "files", "", NULL, 1, NULL },
        { "held-files", "7", "files 7 held", 1, "" },
        { "held-files", "7 x", NULL, 1, NULL },
        { "history", "0", "history 0 0", 1, "" },
        { "history", "9223372036854775807", "history 0 9223372036854775807", 1, "" },
        { "history", "9223372036854775808", NULL, 1, NULL },
        { "history", "-1", NULL, 1, NULL },
        { "history", "", NULL, 1, NULL },
        { "history", "1 ", NULL, 1, NULL },
        { "workers", "12", "history 1 12", 1, "" },
        { "pause", "", "", 0, "paused: by host:9" },
        { "drain", "", "", 0, "host:9: drain" },
        { "resume", "", "", 0, "host:9: resume" },
        { "trust", "host", NULL, 0, NULL },
        { "kick", "1", "", 0, "kicked by host:9: /data/a.h5" },
        { "kick", "2", NULL, 0, NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int reads_only = 0; reads_only < 2; reads_only++) {
            harness_t *t = harness_new (64 * MIB);
            t->core->sink.files = sink_files;
            t->core->sink.history = sink_history;
            claim (t, producer (t, 1));
            const uint32_t o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
            wm_msg_t msg;
            wm_msg_init (&msg, WM_MSG_CONTROL);
            strcpy (msg.name, rows[i].name);
            strcpy (msg.text, rows[i].text);
            asked[0] = t->log[0] = 0;
            if (reads_only)
                wm_core_reads_only (t->core, o);
            say (t, o, &msg, NULL, 0);
            if (reads_only && !rows[i].monitor)
                refused (t, o, WM_REASON_ROLE);
            else if (!rows[i].asked)
                assert_int_not_equal (must (t, o, WM_MSG_REJECT)->msg.code, WM_REASON_ROLE);
            else {
                assert_int_equal (count (t, o, WM_MSG_REJECT), 0);
                assert_string_equal (asked, rows[i].asked);
                assert_string_equal (t->log, rows[i].log);
                durable (t);
                assert_int_equal (count (t, o, WM_MSG_ACK), !*rows[i].asked);
            }
            harness_end (t);
        }
}

/* A second kick while the first is on its way waits for the same record.  */
static void test_kicked_twice (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    claim (t, producer (t, 1));
    const uint32_t o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CONTROL);
    strcpy (msg.name, "kick");
    strcpy (msg.text, "/data/a.h5");
    const size_t n = t->n_appended;
    say (t, o, &msg, NULL, 0);
    say (t, o, &msg, NULL, 0);
    assert_int_equal (t->n_appended, n + 1);
    assert_int_equal (count (t, o, WM_MSG_ACK), 0);
    durable (t);
    assert_int_equal (count (t, o, WM_MSG_ACK), 2);
    harness_end (t);
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* A rate is a mean over the last ten seconds, this one included; over fewer in the first ten. After
   a pause of ten seconds the mean starts afresh, after one of nine it does not.  */
static void test_rates (void **state)
{
    wm_rate_t rate = { .start_ms = 100000, .second = 100 };
    wm_rate_add (&rate, 100400, 6);
    assert_true (wm_rate_per_s (&rate, 100500) == 6); /* less than a second counts as one */
    wm_rate_add (&rate, 102000, 4);
    assert_true (wm_rate_per_s (&rate, 104000) == 10. / 4);
    for (int64_t s = 103; s < 120; s++)
        wm_rate_add (&rate, 1000 * s, 3);
    assert_true (wm_rate_per_s (&rate, 119000) == 3);
    assert_true (wm_rate_per_s (&rate, 122000) == 21. / 10); /* of seconds 113 to 119 */
    assert_true (wm_rate_per_s (&rate, 128999) == 3. / 10);
    assert_true (wm_rate_per_s (&rate, 129000) == 0);
    wm_rate_add (&rate, 128000, 5); /* nine seconds later */
    assert_true (wm_rate_per_s (&rate, 128000) == 8. / 10);
    wm_rate_add (&rate, 138000, 7); /* ten */
    assert_true (wm_rate_per_s (&rate, 138000) == 7);
}

/* Older results count less: by a tenth with each that follows.  */
static void test_speeds (void **state)
{
    wm_speed_t speed = { 0 };
    wm_speed_add (&speed, 100, 10);
    assert_true (wm_speed_ms (&speed, 3) == 30);
    wm_speed_add (&speed, 10, 10); /* (0.9 100 + 10) ms of 0.9 10 + 10 hits */
    assert_true (fabs (wm_speed_ms (&speed, 19) - 100) < 1e-9);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_deadlines),
        cmocka_unit_test (test_heartbeats_after_what_was_sent),
        cmocka_unit_test (test_what_is_not_received),
        cmocka_unit_test (test_a_worker_that_does_not_advance),
        cmocka_unit_test (test_gaps),
        cmocka_unit_test (test_what_is_owed),
        cmocka_unit_test (test_hellos),
        cmocka_unit_test (test_lost_sessions_are_few),
        cmocka_unit_test (test_leaving),
        cmocka_unit_test (test_no_room_for_a_record),
        cmocka_unit_test (test_inputs),
        cmocka_unit_test (test_controls),
        cmocka_unit_test (test_kicked_twice),
        cmocka_unit_test (test_rates),
        cmocka_unit_test (test_speeds),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("broker_bounds", tests, NULL, NULL);
}
