/* test_broker_core.c - wm_core driven by hand: messages in, actions out, refusals as much as
   successes. Every test also checks, after each step, that budget and credit are kept.  */
#include "broker/wm_core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_OUTPUT 4
#define MIB (1u << 20)

typedef struct {
    uint32_t session;
    wm_msg_t msg;
    int has_payload;
    size_t bytes;
    uint8_t payload[512];
} sent_t;

typedef struct {
    wm_record_t record;
    char text[512];
} appended_t;

/* One core with everything it said.  */
typedef struct {
    wm_core_t *core;
    int64_t now_ms;
    sent_t *sent; /* in order; those taken have session 0 */
    size_t n_sent, max_sent;
    appended_t appended[512];
    size_t n_appended, n_durable;
    uint32_t dropped[64];
    size_t n_dropped;
    long handles; /* references held by the core */
    uint32_t fetched;
    wm_place_t fetched_place;
    char log[1024];
} bench_t;

static void sink_send (void *context, uint32_t session, const wm_msg_t *msg,
                       const wm_payload_t *payload)
{
    bench_t *t = context;
    if (t->n_sent == t->max_sent) {
        t->max_sent = t->max_sent ? t->max_sent * 2 : 64;
        t->sent = realloc (t->sent, t->max_sent * sizeof *t->sent);
    }
    sent_t *sent = &t->sent[t->n_sent++];
    memset (sent, 0, sizeof *sent);
    sent->session = session;
    sent->msg = *msg;
    assert_int_equal (payload != NULL, wm_msg_has_payload (msg->type));
    if (!payload)
        return;
    sent->has_payload = 1;
    sent->bytes = payload->bytes;
    if (!payload->handle && payload->bytes)
        memcpy (sent->payload, payload->data,
                payload->bytes < sizeof sent->payload ? payload->bytes : sizeof sent->payload);
}

static void sink_append (void *context, const wm_record_t *record, const wm_payload_t *body)
{
    bench_t *t = context;
    assert_true (t->n_appended < 512);
    appended_t *appended = &t->appended[t->n_appended++];
    appended->record = *record;
    snprintf (appended->text, sizeof appended->text, "%.*s", (int) record->text_bytes,
              record->text ? record->text : "");
    assert_int_equal (body != NULL, record->type == WM_RECORD_RESULT);
}

static void sink_fetch (void *context, uint32_t session, const wm_msg_t *results,
                        const wm_place_t *place)
{
    bench_t *t = context;
    assert_int_equal (results->type, WM_MSG_RESULTS);
    t->fetched = session;
    t->fetched_place = *place;
}

static void sink_model (void *context, uint32_t session, uint64_t offset)
{
    (void) context, (void) session, (void) offset;
}

static void sink_status (void *context, uint32_t session)
{
    (void) context, (void) session;
}

static void sink_drop (void *context, uint32_t session)
{
    bench_t *t = context;
    t->dropped[t->n_dropped++ % 64] = session;
}

static void sink_hold (void *context, void *handle)
{
    (void) handle;
    ((bench_t *) context)->handles++;
}

static void sink_release (void *context, void *handle)
{
    (void) handle;
    ((bench_t *) context)->handles--;
}

static void sink_log (void *context, const char *text)
{
    snprintf (((bench_t *) context)->log, 1024, "%s", text);
}

static wm_core_t *core_make (bench_t *t, uint64_t epoch, uint64_t budget)
{
    wm_core_config_t config = { .campaign = { 7 },
                                .pins_digest = { 9 },
                                .pins = "pins",
                                .pins_bytes = 4,
                                .n_output = N_OUTPUT,
                                .epoch = epoch,
                                .budget_bytes = budget,
                                .now_ms = t->now_ms };
    config.times = (wm_times_t){ .heartbeat_ms = 2000,
                                 .silence_ms = 30000,
                                 .reconnect_ms = 3000,
                                 .lease_ms = 30000,
                                 .handshake_ms = 3000,
                                 .gap_ms = 2000,
                                 .group_commit_ms = 10 };
    wm_core_sink_t sink = { t,           sink_send, sink_append, sink_fetch,   sink_model,
                            sink_status, sink_drop, sink_hold,   sink_release, sink_log };
    wm_core_t *core = wm_core_new (&config, &sink);
    assert_non_null (core);
    return core;
}

static bench_t *bench_new (uint64_t budget)
{
    bench_t *t = calloc (1, sizeof *t);
    t->now_ms = 1000000;
    t->core = core_make (t, 1, budget);
    return t;
}

static void bench_end (bench_t *t)
{
    wm_core_destroy (&t->core);
    assert_null (t->core);
    assert_int_equal (t->handles, 0);
    free (t->sent);
    free (t);
}

/* The next message of this type to this session, taken out; NULL: none was sent.  */
static sent_t *take (bench_t *t, uint32_t session, wm_msg_type_t type)
{
    for (size_t i = 0; i < t->n_sent; i++)
        if (t->sent[i].session == session && t->sent[i].msg.type == type) {
            t->sent[i].session = 0;
            return &t->sent[i];
        }
    return NULL;
}

static sent_t *must (bench_t *t, uint32_t session, wm_msg_type_t type)
{
    sent_t *sent = take (t, session, type);
    if (!sent)
        fail_msg ("no %s to session %u; last said: %s", wm_msg_name (type), session, t->log);
    return sent;
}

static int count (const bench_t *t, uint32_t session, wm_msg_type_t type)
{
    int n = 0;
    for (size_t i = 0; i < t->n_sent; i++)
        n += t->sent[i].session == session && t->sent[i].msg.type == type;
    return n;
}

static wm_summary_t look (const bench_t *t)
{
    static wm_summary_t summary;
    wm_core_summary (t->core, &summary);
    assert_true (summary.budget_used_bytes <= summary.budget_bytes);
    return summary;
}

static void say (bench_t *t, uint32_t session, const wm_msg_t *msg, const void *payload,
                 size_t bytes)
{
    wm_payload_t body = { t, payload, bytes };
    wm_core_message (t->core, session, msg, payload ? &body : NULL, t->now_ms);
    look (t);
}

static void durable (bench_t *t)
{
    while (t->n_durable < t->n_appended) {
        wm_place_t place = { 1 << 24, (uint32_t) t->n_durable, 100 };
        t->n_durable++;
        wm_core_durable (t->core, &place, t->now_ms);
    }
    assert_int_equal (wm_core_pending (t->core), 0);
}

/* Time passes in steps below gap_ms, with everybody in `alive` (0-ended) saying a heartbeat.  */
static void pass (bench_t *t, int64_t ms, const uint32_t *alive)
{
    for (; ms > 0; ms -= 500) {
        t->now_ms += ms < 500 ? ms : 500;
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_HEARTBEAT);
        for (const uint32_t *session = alive; session && *session; session++)
            say (t, *session, &msg, NULL, 0);
        wm_core_tick (t->core, t->now_ms);
        look (t);
    }
}

static uint32_t hello (bench_t *t, wm_role_t role, uint8_t instance, const void *held, size_t bytes)
{
    uint32_t session = wm_core_open (t->core, role, t->now_ms);
    assert_int_not_equal (session, 0);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL;
    msg.role = role;
    msg.instance[0] = instance;
    snprintf (msg.name, sizeof msg.name, "host:%u", instance);
    strcpy (msg.text, role == WM_ROLE_WORKER ? "engine/fp32" : WM_VERSION);
    say (t, session, &msg, held ? held : "", bytes);
    sent_t *welcome = must (t, session, WM_MSG_WELCOME);
    assert_memory_equal (welcome->payload, "pins", 4);
    return session;
}

static uint32_t producer (bench_t *t, uint8_t instance)
{
    return hello (t, WM_ROLE_PRODUCER, instance, NULL, 0);
}

static void credit (bench_t *t, uint32_t worker, uint64_t count_)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CREDIT);
    msg.count = count_;
    say (t, worker, &msg, NULL, 0);
}

static uint32_t worker (bench_t *t, uint8_t instance, uint64_t credit_)
{
    uint32_t session = hello (t, WM_ROLE_WORKER, instance, NULL, 0);
    credit (t, session, credit_);
    return session;
}

static sent_t *input_ask (bench_t *t, uint32_t session, const char *path, const char *name,
                          uint64_t size, uint32_t claim)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = claim;
    msg.size = size;
    msg.mtime_ns = 5;
    strcpy (msg.path, path);
    strcpy (msg.name, name);
    say (t, session, &msg, NULL, 0);
    durable (t);
    return must (t, session, WM_MSG_INPUT_ACK);
}

static wm_key_t claim (bench_t *t, uint32_t session)
{
    sent_t *sent = input_ask (t, session, "/data/a.h5", "a.scores.h5", 1000, 1);
    assert_int_equal (sent->msg.code, WM_INPUT_CLAIMED);
    return sent->msg.key;
}

static void digest_of (uint32_t ordinal, uint32_t batch, uint8_t digest[16])
{
    memset (digest, 0, 16);
    memcpy (digest, &ordinal, 4);
    memcpy (digest + 4, &batch, 4);
    digest[15] = 1;
}

/* An event of n batches of 10 hits and `raw` raw bytes, and one bad hit.  */
static void submit_raw (bench_t *t, uint32_t session, wm_key_t input, uint32_t ordinal, uint32_t n,
                        uint32_t raw)
{
    struct {
        wm_manifest_batch_t batch[64];
        wm_manifest_held_t held;
    } lines;
    assert_true (n <= 64);
    for (uint32_t i = 0; i < n; i++) {
        digest_of (ordinal, i, lines.batch[i].digest);
        lines.batch[i].n_hit = 10;
        lines.batch[i].raw_bytes = raw;
    }
    wm_manifest_held_t bad = { 0, WM_HIT_BAD_TIME };
    memcpy (&lines.batch[n], &bad, sizeof bad);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = input;
    msg.key.ordinal = ordinal;
    msg.run = 1;
    msg.event = ordinal;
    msg.n_batch = n;
    msg.n_hit = 10 * n + 1;
    msg.n_held = 1;
    say (t, session, &msg, &lines, n * sizeof *lines.batch + sizeof lines.held);
}

static void submit (bench_t *t, uint32_t session, wm_key_t input, uint32_t ordinal, uint32_t n)
{
    submit_raw (t, session, input, ordinal, n, 1000);
}

/* Answers every NEED of this session; returns how many.  */
static int answer_needs (bench_t *t, uint32_t session)
{
    int n = 0;
    static uint8_t payload[1000];
    for (sent_t *need; (need = take (t, session, WM_MSG_NEED)); n++) {
        wm_msg_t msg = need->msg;
        msg.type = WM_MSG_BATCH;
        say (t, session, &msg, payload, sizeof payload);
    }
    return n;
}

static void result_of (bench_t *t, uint32_t session, const wm_msg_t *task, uint8_t score)
{
    uint8_t payload[10 * (1 + 4 * N_OUTPUT)] = { 0 };
    payload[sizeof payload - 1] = score;
    wm_msg_t msg = *task;
    msg.type = WM_MSG_RESULT;
    say (t, session, &msg, payload, sizeof payload);
}

static void nack (bench_t *t, uint32_t session, const wm_msg_t *task, wm_fault_t code)
{
    wm_msg_t msg = *task;
    msg.type = WM_MSG_NACK;
    msg.code = code;
    strcpy (msg.text, "why");
    say (t, session, &msg, NULL, 0);
}

static void heartbeat (bench_t *t, uint32_t session, wm_key_t key, uint64_t count_)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HEARTBEAT);
    msg.key = key;
    msg.count = count_;
    say (t, session, &msg, NULL, 0);
}

static void bye (bench_t *t, uint32_t session, wm_reason_t reason)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_BYE);
    msg.code = reason;
    say (t, session, &msg, NULL, 0);
}

static void refused (bench_t *t, uint32_t session, wm_reason_t reason)
{
    assert_int_equal (must (t, session, WM_MSG_REJECT)->msg.code, reason);
    assert_int_equal (t->dropped[(t->n_dropped - 1) % 64], session);
}

/* ---- the normal flow ---------------------------------------------------------------------------
 */
static void test_flow (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    assert_int_equal (input.input, 1);
    uint32_t w = worker (t, 2, 2);
    submit (t, p, input, 0, 3);
    sent_t *ack = must (t, p, WM_MSG_SUBMIT_ACK);
    assert_int_equal (ack->bytes, 3);
    assert_int_equal (ack->payload[0], WM_WANT);
    assert_int_equal (answer_needs (t, p), 3);
    assert_int_equal (count (t, w, WM_MSG_TASK), 2); /* its credit, not more */
    wm_msg_t first = must (t, w, WM_MSG_TASK)->msg;
    assert_int_equal (first.n_batch, 3);
    assert_int_equal (first.attempt, 1);
    assert_int_equal (first.key.batch, 0); /* first in, first out */
    result_of (t, w, &first, 1);
    assert_null (take (t, w, WM_MSG_RESULT_ACK)); /* not before it is durable */
    assert_int_equal (t->appended[t->n_appended - 1].record.type, WM_RECORD_RESULT);
    assert_string_equal (t->appended[t->n_appended - 1].text, "engine/fp32");
    durable (t);
    assert_int_equal (must (t, w, WM_MSG_RESULT_ACK)->msg.key.batch, 0);
    credit (t, w, 3);
    for (sent_t *task; (task = take (t, w, WM_MSG_TASK));) {
        wm_msg_t msg = task->msg;
        result_of (t, w, &msg, 1);
    }
    assert_null (take (t, p, WM_MSG_EVENT_DONE));
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_EVENT_DONE)->msg.n_held, 0);

    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_FETCH);
    msg.key = first.key;
    say (t, p, &msg, NULL, 0);
    assert_int_equal (t->fetched, p);
    assert_int_equal (t->fetched_place.offset, 1); /* the second record */

    wm_msg_init (&msg, WM_MSG_INPUT_END);
    msg.key = input;
    msg.count = 1;
    say (t, p, &msg, NULL, 0);
    assert_null (take (t, p, WM_MSG_ACK));
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_INPUT_END);
    wm_msg_init (&msg, WM_MSG_FILE_WRITTEN);
    msg.key = input;
    msg.size = 77;
    say (t, p, &msg, NULL, 0);
    const wm_record_t *record = &t->appended[t->n_appended - 1].record;
    assert_int_equal (record->n_hit, 31);
    assert_int_equal (record->n_held, 1);
    assert_int_equal (record->n_event, 1);
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_FILE_WRITTEN);
    sent_t *again = input_ask (t, p, "/data/a.h5", "a.scores.h5", 1000, 1);
    assert_int_equal (again->msg.code, WM_INPUT_WRITTEN);
    assert_int_equal (again->msg.size, 77);
    wm_summary_t s = look (t);
    assert_int_equal (s.inputs_written, 1);
    assert_int_equal (s.hits_done, 30);
    assert_int_equal (s.hits_held, 1);
    assert_int_equal (s.batches_returned, 3);
    assert_int_equal (s.budget_used_bytes, 0);
    assert_string_equal (s.state, "idle");

    /* The output is lost: the input is open again, and all of it is wanted.  */
    wm_msg_init (&msg, WM_MSG_FILE_LOST);
    msg.key = input;
    say (t, p, &msg, NULL, 0);
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_FILE_LOST);
    claim (t, p);
    submit (t, p, input, 0, 3);
    assert_int_equal (must (t, p, WM_MSG_SUBMIT_ACK)->payload[2], WM_WANT);
    assert_int_equal (look (t).hits_done, 0);
    bench_end (t);
}

static void test_empty_event_is_done_at_once (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    submit (t, p, input, 5, 0);
    assert_int_equal (must (t, p, WM_MSG_SUBMIT_ACK)->bytes, 0);
    assert_int_equal (must (t, p, WM_MSG_EVENT_DONE)->msg.key.ordinal, 5);
    submit (t, p, input, 5, 0); /* idempotent */
    must (t, p, WM_MSG_SUBMIT_ACK);
    must (t, p, WM_MSG_EVENT_DONE);
    assert_int_equal (look (t).events_done, 1);
    bench_end (t);
}

/* ---- results that come twice, late, differently ------------------------------------------------
 */
static void test_duplicates (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 2);
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    result_of (t, w, &task, 1);
    size_t appended = t->n_appended;
    result_of (t, w, &task, 1); /* while the first is on its way: acknowledged after it */
    assert_int_equal (count (t, w, WM_MSG_RESULT_ACK), 0);
    durable (t);
    assert_int_equal (count (t, w, WM_MSG_RESULT_ACK), 2);
    result_of (t, w, &task, 1); /* after it: at once, and not journalled */
    assert_int_equal (count (t, w, WM_MSG_RESULT_ACK), 3);
    assert_int_equal (t->n_appended, appended);
    assert_int_equal (look (t).n_duplicate, 2);
    assert_int_equal (look (t).n_alarm, 0);
    assert_int_equal (look (t).hits_done, 10);

    result_of (t, w, &task, 2); /* other bytes from the same engine: held, named */
    durable (t);
    wm_summary_t s = look (t);
    assert_int_equal (s.n_alarm, 1);
    assert_int_equal (s.batches_held, 1);
    assert_int_equal (s.hits_done, 0);
    assert_non_null (strstr (s.held[0].reason, "ALARM"));
    wm_msg_t second = must (t, w, WM_MSG_TASK)->msg;
    result_of (t, w, &second, 1);
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_EVENT_DONE)->msg.n_held, 1);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_FETCH);
    msg.key = task.key;
    say (t, p, &msg, NULL, 0);
    sent_t *held = must (t, p, WM_MSG_RESULTS);
    assert_int_equal (held->msg.code, WM_HIT_HELD);
    assert_int_equal (held->bytes, 0);
    bench_end (t);
}

static void test_result_of_nothing_known (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t w = worker (t, 2, 2);
    wm_msg_t task;
    wm_msg_init (&task, WM_MSG_TASK);
    task.key = (wm_key_t){ 9, 0, 0, 0 };
    task.n_batch = 1;
    task.n_hit = 10;
    result_of (t, w, &task, 1); /* an input that was never added: not wanted */
    must (t, w, WM_MSG_RESULT_ACK);
    assert_int_equal (t->n_appended, 0);
    assert_int_equal (look (t).n_late, 1);
    bench_end (t);
}

/* ---- workers that go ---------------------------------------------------------------------------
 */
static void test_lost_worker (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w1 = worker (t, 2, 2);
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    wm_msg_t first = must (t, w1, WM_MSG_TASK)->msg, second = must (t, w1, WM_MSG_TASK)->msg;
    uint32_t w2 = worker (t, 3, 4), alive[] = { p, w2, 0 };
    wm_core_closed (t->core, w1, t->now_ms);
    pass (t, 2900, alive);
    assert_int_equal (count (t, w2, WM_MSG_TASK), 0); /* its instance may come back */
    assert_int_equal (look (t).batches_running, 2);
    pass (t, 600, alive);
    wm_summary_t s = look (t);
    assert_int_equal (s.n_lost, 1); /* only the oldest is blamed */
    /* The blamed one goes alone: the other waits until it is done. */
    sent_t *task = must (t, w2, WM_MSG_TASK);
    assert_int_equal (task->msg.key.batch, first.key.batch);
    assert_int_equal (task->msg.attempt, 2);
    assert_int_equal (count (t, w2, WM_MSG_TASK), 0);
    wm_msg_t msg = task->msg;
    result_of (t, w2, &msg, 1);
    assert_int_equal (must (t, w2, WM_MSG_TASK)->msg.key.batch, second.key.batch);
    /* A late result of the first worker, in a new session, is accepted; the holder is revoked. */
    w1 = hello (t, WM_ROLE_WORKER, 2, NULL, 0);
    result_of (t, w1, &second, 1);
    assert_int_equal (must (t, w2, WM_MSG_REVOKE)->msg.key.batch, second.key.batch);
    durable (t);
    must (t, w1, WM_MSG_RESULT_ACK);
    must (t, p, WM_MSG_EVENT_DONE);
    result_of (t, w2, &second, 1);
    must (t, w2, WM_MSG_RESULT_ACK);
    assert_int_equal (look (t).batches_returned, 2);
    bench_end (t);
}

static void test_same_instance_comes_back (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 3);
    submit (t, p, input, 0, 3);
    answer_needs (t, p);
    wm_msg_t task[3];
    for (int i = 0; i < 3; i++)
        task[i] = must (t, w, WM_MSG_TASK)->msg;
    wm_core_closed (t->core, w, t->now_ms);
    uint32_t alive[] = { p, 0 };
    pass (t, 1000, alive);
    wm_hello_held_t held[3] = { { task[0].key, { 0 }, 10, 0 }, { { 9, 9, 9, 0 }, { 0 }, 10, 0 } };
    memcpy (held[0].digest, task[0].digest, 16);
    held[2] = held[0];
    held[2].key.batch = 2;
    held[2].digest[0] ^= 1; /* not what the broker knows */
    uint32_t again = hello (t, WM_ROLE_WORKER, 2, held, sizeof held);
    assert_int_not_equal (again, w);
    assert_int_equal (count (t, again, WM_MSG_REVOKE), 2);
    wm_summary_t s = look (t);
    assert_int_equal (s.batches_running,
                      1); /* the others never arrived: back, and nobody's fault */
    assert_int_equal (s.batches_queued, 2);
    assert_int_equal (s.n_lost, 0);
    uint32_t alive2[] = { p, again, 0 };
    pass (t, 5000, alive2);
    assert_int_equal (look (t).batches_running, 1);
    credit (t, again, 5);
    assert_int_equal (count (t, again, WM_MSG_TASK), 2);
    result_of (t, again, &task[0], 1);
    durable (t);
    assert_int_equal (look (t).n_late, 0);
    bench_end (t);
}

static void test_takeover_of_a_live_session (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t p2 = producer (t, 1); /* the same process: the old session ends, its claim with it */
    assert_int_equal (t->dropped[0], p);
    submit (t, p, input, 0, 1); /* the old one is not heard any more */
    assert_int_equal (look (t).events_announced, 0);
    claim (t, p2);
    bench_end (t);
}

static void test_silent_worker (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 1), alive[] = { p, 0 };
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    must (t, w, WM_MSG_TASK);
    pass (t, 29000, alive);
    assert_null (take (t, w, WM_MSG_BYE));
    pass (t, 2000, alive);
    must (t, w, WM_MSG_BYE);
    assert_int_equal (look (t).batches_queued, 1);
    assert_int_equal (look (t).n_lost, 1);
    assert_int_equal (look (t).n_worker, 0);
    bench_end (t);
}

static void test_hung_worker (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w1 = worker (t, 2, 2);
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    wm_msg_t first = must (t, w1, WM_MSG_TASK)->msg, second = must (t, w1, WM_MSG_TASK)->msg;
    uint32_t w2 = worker (t, 3, 4);
    for (int i = 0; i < 50; i++) { /* its counter advances: it keeps its work */
        heartbeat (t, w1, first.key, (uint64_t) i + 1);
        uint32_t alive[] = { p, w2, 0 };
        pass (t, 1000, alive);
    }
    assert_int_equal (count (t, w2, WM_MSG_TASK), 0);
    for (int i = 0; i < 32; i++) { /* its I/O thread lives, its device does not */
        heartbeat (t, w1, first.key, 50);
        uint32_t alive[] = { p, w2, 0 };
        pass (t, 1000, alive);
    }
    assert_int_equal (count (t, w2, WM_MSG_TASK), 2);
    assert_int_equal (look (t).n_lost, 1);
    assert_int_equal (must (t, w1, WM_MSG_REVOKE)->msg.key.batch, second.key.batch); /* waiting */
    assert_null (take (t, w1, WM_MSG_REVOKE)); /* the hung one may still finish */
    result_of (t, w1, &first, 1);
    durable (t);
    assert_int_equal (look (t).n_late, 1);
    assert_int_equal (look (t).batches_returned, 1);
    assert_int_equal (must (t, w2, WM_MSG_REVOKE)->msg.key.batch, first.key.batch);
    bench_end (t);
}

/* The worker that was picked for a batch to be sent alone hangs before it is empty.  */
static void test_alone_is_not_stuck (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w1 = worker (t, 2, 1);
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    wm_msg_t hung = must (t, w1, WM_MSG_TASK)->msg;
    uint32_t w2 = worker (t, 3, 1);
    wm_msg_t blamed = must (t, w2, WM_MSG_TASK)->msg;
    credit (t, w1, 5);
    wm_core_closed (t->core, w2, t->now_ms);
    uint32_t w3 = 0;
    for (int i = 0; i < 40; i++) {
        heartbeat (t, w1, hung.key, 1);
        uint32_t alive[] = { p, w3, 0 };
        pass (t, 1000, alive);
        if (i == 5) {
            assert_int_equal (count (t, w1, WM_MSG_TASK), 0); /* it is to be empty first */
            w3 = worker (t, 4, 1);
        }
    }
    assert_int_equal (must (t, w3, WM_MSG_TASK)->msg.key.batch, blamed.key.batch);
    bench_end (t);
}

static void test_gap_moves_deadlines (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 1);
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    t->now_ms += 3600000; /* the broker was stopped for an hour */
    wm_core_tick (t->core, t->now_ms);
    assert_null (take (t, w, WM_MSG_BYE));
    assert_int_equal (look (t).n_worker, 1);
    result_of (t, w, &task, 1);
    durable (t);
    assert_int_equal (look (t).n_late, 0);
    bench_end (t);
}

/* ---- NACKs -------------------------------------------------------------------------------------
 */
static void test_given_back (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w1 = worker (t, 2, 4);
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    wm_msg_t first = must (t, w1, WM_MSG_TASK)->msg, second = must (t, w1, WM_MSG_TASK)->msg;
    nack (t, w1, &second, WM_EAGAIN);
    assert_null (take (t, w1, WM_MSG_TASK)); /* it is draining, though it has credit */
    assert_int_equal (look (t).n_preempt, 1);
    uint32_t w2 = worker (t, 3, 1);
    assert_int_equal (must (t, w2, WM_MSG_TASK)->msg.key.batch, second.key.batch);
    bye (t, w1, WM_REASON_DRAINED); /* at once, without waiting for its instance */
    wm_summary_t s = look (t);
    assert_int_equal (s.n_preempt, 2);
    assert_int_equal (s.n_lost + s.n_fail, 0);
    credit (t, w2, 2);
    assert_int_equal (must (t, w2, WM_MSG_TASK)->msg.key.batch, first.key.batch);
    bench_end (t);
}

/* Fails on `workers` workers in turn until it is held; returns how often.  */
static int failures_until_held (int workers)
{
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1), w[2];
    wm_key_t input = claim (t, p);
    for (int i = 0; i < workers; i++)
        w[i] = worker (t, (uint8_t) (2 + i), 100);
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    int failures = 0;
    for (; failures < 20 && !look (t).batches_held; failures++) {
        sent_t *task = NULL;
        int i = 0;
        for (; i < workers && !(task = take (t, w[i], WM_MSG_TASK)); i++)
            ;
        assert_non_null (task);
        wm_msg_t msg = task->msg;
        nack (t, w[i], &msg, failures % 2 ? WM_EHOST : WM_EBATCH);
    }
    assert_null (take (t, p, WM_MSG_EVENT_DONE)); /* not before HELD is durable */
    const appended_t *held = &t->appended[t->n_appended - 1];
    assert_int_equal (held->record.type, WM_RECORD_HELD);
    assert_non_null (strstr (held->text, "why"));
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_EVENT_DONE)->msg.n_held, 1);
    wm_summary_t s = look (t);
    assert_int_equal (s.hits_held, 11);
    assert_int_equal (s.n_held, 1);
    bench_end (t);
    return failures;
}

static void test_held_after_failures (void **state)
{
    (void) state;
    assert_int_equal (failures_until_held (2), WM_FAILURES_MAX);
    assert_int_equal (failures_until_held (1), WM_ATTEMPTS_MAX);
}

/* ---- the epoch ---------------------------------------------------------------------------------
 */
static void restore (bench_t *t, uint64_t epoch)
{
    wm_core_destroy (&t->core);
    t->n_sent = 0;
    t->n_appended = t->n_durable = 0;
    t->core = core_make (t, epoch, 64 * MIB);
    wm_ledger_input_t input = { .id = 1,
                                .state = WM_LEDGER_OPEN,
                                .path = "/data/a.h5",
                                .name = "a.scores.h5",
                                .size = 1000,
                                .mtime_ns = 5,
                                .n_event = -1,
                                .text = "" };
    assert_int_equal (wm_core_restore_input (t->core, &input), 0);
    wm_ledger_batch_t batch = { .key = { 1, 0, 0, 0 },
                                .state = WM_LEDGER_RETURNED,
                                .n_batch = 3,
                                .n_hit = 10,
                                .place = { 1 << 24, 4711, 100 },
                                .text = "" };
    digest_of (0, 0, batch.digest);
    assert_int_equal (wm_core_restore_batch (t->core, &batch, "engine/fp32"), 0);
}

static void test_restart (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    restore (t, 2);
    assert_int_equal (look (t).hits_done, 10);
    /* A worker comes first, with a task, an unacknowledged result, and something in vain. */
    wm_hello_held_t held[3] = { { { 1, 0, 1, 0 }, { 0 }, 10, 0 },
                                { { 1, 0, 2, 0 }, { 0 }, 10, 1 },
                                { { 1, 0, 0, 0 }, { 0 }, 10, 0 } };
    for (uint32_t i = 0; i < 3; i++)
        digest_of (0, held[i].key.batch, held[i].digest);
    uint32_t w = hello (t, WM_ROLE_WORKER, 2, held, sizeof held);
    assert_int_equal (must (t, w, WM_MSG_REVOKE)->msg.key.batch, 0);
    assert_null (take (t, w, WM_MSG_REVOKE));
    /* A result of a known input counts before its event is announced again. */
    wm_msg_t task;
    wm_msg_init (&task, WM_MSG_TASK);
    task.key = held[1].key;
    memcpy (task.digest, held[1].digest, 16);
    task.n_batch = 3;
    task.n_hit = 10;
    result_of (t, w, &task, 1);
    durable (t);
    must (t, w, WM_MSG_RESULT_ACK);
    /* Then the producer announces: only what nobody has is wanted, and nothing is asked for. */
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    credit (t, w, 2);
    submit (t, p, input, 0, 3);
    sent_t *ack = must (t, p, WM_MSG_SUBMIT_ACK);
    assert_int_equal (ack->payload[0], WM_HAVE);
    assert_int_equal (ack->payload[1], WM_WANT);
    assert_int_equal (ack->payload[2], WM_HAVE);
    assert_int_equal (count (t, p, WM_MSG_NEED), 0);
    assert_int_equal (look (t).batches_running, 1);
    task.key = held[0].key;
    memcpy (task.digest, held[0].digest, 16);
    result_of (t, w, &task, 1);
    durable (t);
    must (t, p, WM_MSG_EVENT_DONE);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_FETCH);
    msg.key = (wm_key_t){ 1, 0, 0, 0 };
    say (t, p, &msg, NULL, 0);
    assert_int_equal (t->fetched_place.offset, 4711);
    bench_end (t);
}

static void test_digest_conflict (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    restore (t, 2);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    wm_manifest_batch_t line[3] = { { { 99 }, 10, 100 }, { { 98 }, 10, 100 }, { { 97 }, 10, 100 } };
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = input;
    msg.n_batch = 3;
    msg.n_hit = 30;
    say (t, p, &msg, line, sizeof line);
    assert_null (take (t, p, WM_MSG_SUBMIT_ACK));
    assert_null (take (t, p, WM_MSG_INPUT_ACK)); /* not before it is durable */
    durable (t);
    sent_t *held = must (t, p, WM_MSG_INPUT_ACK);
    assert_int_equal (held->msg.code, WM_INPUT_HELD);
    assert_non_null (strstr (held->msg.text, "event 0 batch 0"));
    msg.key.ordinal = 1; /* what was on its way already is ignored, not refused */
    say (t, p, &msg, line, sizeof line);
    assert_null (take (t, p, WM_MSG_REJECT));
    assert_int_equal (look (t).inputs_held, 1);
    assert_int_equal (input_ask (t, p, "/data/a.h5", "a.scores.h5", 1000, 1)->msg.code,
                      WM_INPUT_HELD);
    bench_end (t);
}

static void test_damaged_result (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    restore (t, 2);
    uint32_t p = producer (t, 1);
    wm_core_damaged (t->core, (wm_key_t){ 1, 0, 0, 0 }, p, t->now_ms);
    refused (t, p, WM_REASON_BUSY);
    p = producer (t, 1);
    wm_key_t input = claim (t, p);
    submit (t, p, input, 0, 3);
    assert_int_equal (must (t, p, WM_MSG_SUBMIT_ACK)->payload[0], WM_WANT);
    bench_end (t);
}

/* ---- inputs ------------------------------------------------------------------------------------
 */
static void test_inputs (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1), q = producer (t, 2);
    sent_t *a = input_ask (t, p, "/x/a.h5", "a.scores.h5", 10, 0);
    assert_int_equal (a->msg.code, WM_INPUT_OPEN);
    assert_int_equal (a->msg.key.input, 1);
    assert_string_equal (a->msg.name, "a.scores.h5");
    sent_t *b = input_ask (t, p, "/y/a.h5", "a.scores.h5", 10, 0);
    assert_int_equal (b->msg.key.input, 2);
    assert_string_not_equal (b->msg.name, "a.scores.h5");
    assert_non_null (strstr (b->msg.name, ".scores.h5"));
    size_t appended = t->n_appended;
    assert_int_equal (input_ask (t, q, "/x/a.h5", "a.scores.h5", 10, 1)->msg.code,
                      WM_INPUT_CLAIMED); /* twice counts once */
    assert_int_equal (t->n_appended, appended);
    assert_int_equal (input_ask (t, p, "/x/a.h5", "a.scores.h5", 10, 1)->msg.code, WM_INPUT_BUSY);
    assert_int_equal (input_ask (t, p, "/y/a.h5", "a.scores.h5", 11, 1)->msg.code, WM_INPUT_HELD);
    assert_int_equal (input_ask (t, p, "/y/a.h5", "a.scores.h5", 10, 1)->msg.code,
                      WM_INPUT_CLAIMED);    /* the file is back */
    wm_core_closed (t->core, q, t->now_ms); /* a claim dies with its session */
    assert_int_equal (input_ask (t, p, "/x/a.h5", "a.scores.h5", 10, 1)->msg.code,
                      WM_INPUT_CLAIMED);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT_HELD);
    msg.key.input = 1;
    strcpy (msg.text, "truncated");
    say (t, p, &msg, NULL, 0);
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_INPUT_ACK)->msg.code, WM_INPUT_HELD);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_INPUT_HELD);
    wm_summary_t s = look (t);
    assert_int_equal (s.inputs_held, 1);
    assert_string_equal (s.held[0].reason, "truncated");
    static const char *const bad[] = { "../a", ".a", "a/b", "", "a\nb" };
    for (size_t i = 0; i < 5; i++) {
        uint32_t r = producer (t, (uint8_t) (10 + i));
        wm_msg_init (&msg, WM_MSG_INPUT);
        strcpy (msg.path, "/z");
        strcpy (msg.name, bad[i]);
        say (t, r, &msg, NULL, 0);
        refused (t, r, WM_REASON_PROTOCOL);
    }
    bench_end (t);
}

static void test_claim_dies_and_another_goes_on (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 1);
    submit (t, p, input, 0, 3);
    must (t, p, WM_MSG_SUBMIT_ACK);
    assert_int_equal (count (t, p, WM_MSG_NEED), 3);
    wm_msg_t need = must (t, p, WM_MSG_NEED)->msg, msg = need;
    msg.type = WM_MSG_BATCH;
    say (t, p, &msg, "x", 1);
    must (t, w, WM_MSG_TASK); /* one runs, two are asked for */
    wm_core_closed (t->core, p, t->now_ms);
    wm_summary_t s = look (t);
    assert_int_equal (s.batches_asked, 0);
    assert_int_equal (s.batches_running, 1);
    assert_int_equal (s.batches_queued, 0);
    assert_int_equal (s.budget_used_bytes, 1);
    uint32_t q = producer (t, 3);
    claim (t, q);
    submit (t, q, input, 0, 3);
    assert_int_equal (must (t, q, WM_MSG_SUBMIT_ACK)->payload[0], WM_WANT);
    assert_int_equal (count (t, q, WM_MSG_NEED), 2);
    bench_end (t);
}

/* ---- budget, credit, control -------------------------------------------------------------------
 */
static void test_budget (void **state)
{
    (void) state;
    bench_t *t = bench_new (20 * MIB); /* room for four of the largest */
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 10), alive[] = { p, w, 0 };
    submit_raw (t, p, input, 0, 20, WM_RAW_BYTES_MAX);
    must (t, p, WM_MSG_SUBMIT_ACK);
    int needs = count (t, p, WM_MSG_NEED);
    assert_int_equal (needs, 4);
    static uint8_t payload[WM_RAW_BYTES_MAX];
    for (int batches = 0; batches < 20; batches++) { /* say () checks the budget each time */
        wm_msg_t msg = must (t, p, WM_MSG_NEED)->msg;
        msg.type = WM_MSG_BATCH;
        say (t, p, &msg, payload, sizeof payload);
        if (batches >= 12) { /* running payloads give way before that */
            wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
            result_of (t, w, &task, 1);
            durable (t);
            credit (t, w, (uint64_t) batches);
        }
    }
    pass (t, 1000, alive);
    assert_true (t->handles <= 5);
    /* The worker vanishes: what was dropped is asked for again. */
    wm_core_closed (t->core, w, t->now_ms);
    uint32_t left[] = { p, 0 };
    pass (t, 4000, left);
    uint32_t w2 = worker (t, 3, 100);
    int asked_again = 0;
    for (int i = 0; i < 100 && look (t).batches_returned < 20; i++) {
        for (sent_t *need; (need = take (t, p, WM_MSG_NEED)); asked_again++) {
            wm_msg_t msg = need->msg;
            msg.type = WM_MSG_BATCH;
            say (t, p, &msg, payload, sizeof payload);
        }
        sent_t *task = take (t, w2, WM_MSG_TASK);
        if (task) {
            wm_msg_t msg = task->msg;
            result_of (t, w2, &msg, 1);
            durable (t);
        }
    }
    assert_true (asked_again > 0);
    assert_int_equal (look (t).batches_returned, 20);
    assert_int_equal (look (t).budget_used_bytes, 0);
    must (t, p, WM_MSG_EVENT_DONE);
    bench_end (t);
}

static void test_asks_only_ahead (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    submit (t, p, input, 0, 60);
    assert_int_equal (count (t, p, WM_MSG_NEED), 2); /* no worker yet */
    uint32_t w = worker (t, 2, 4);
    assert_int_equal (count (t, p, WM_MSG_NEED), 6);
    answer_needs (t, p);
    assert_int_equal (count (t, w, WM_MSG_TASK), 4);
    assert_true (look (t).batches_asked + look (t).batches_queued > 0);
    credit (t, w, 0); /* taken back: nothing more is sent */
    answer_needs (t, p);
    assert_int_equal (count (t, w, WM_MSG_TASK), 4);
    credit (t, w, 1000000); /* more than anybody may hold */
    for (int i = 0; i < 40; i++)
        answer_needs (t, p);
    assert_int_equal (count (t, w, WM_MSG_TASK), 60);
    bench_end (t);
}

static void control (bench_t *t, uint32_t session, const char *name)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CONTROL);
    strcpy (msg.name, name);
    say (t, session, &msg, NULL, 0);
}

static void test_control (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1), o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 1);
    control (t, o, "pause");
    assert_int_equal (must (t, o, WM_MSG_ACK)->msg.code, WM_MSG_CONTROL);
    submit (t, p, input, 0, 2);
    assert_int_equal (count (t, p, WM_MSG_NEED), 0);
    assert_string_equal (look (t).state, "paused");
    assert_string_equal (look (t).waiting_for, "paused");
    control (t, o, "resume");
    answer_needs (t, p);
    assert_int_equal (count (t, w, WM_MSG_TASK), 1);
    control (t, o, "drain");
    must (t, w, WM_MSG_DRAIN);
    credit (t, w, 5);
    assert_int_equal (count (t, w, WM_MSG_TASK), 1);
    uint32_t w2 = worker (t, 3, 5); /* who joins now is told */
    must (t, w2, WM_MSG_DRAIN);
    assert_int_equal (count (t, w2, WM_MSG_TASK), 0);
    control (t, o, "resume");
    control (t, o, "explode");
    refused (t, o, WM_REASON_PROTOCOL);
    bench_end (t);
}

static void test_disk_full (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 1);
    submit (t, p, input, 0, 3);
    answer_needs (t, p);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    wm_core_disk_full (t->core, 1, t->now_ms);
    result_of (t, w, &task, 1); /* it waits in the reactor; nothing is said */
    credit (t, w, 3);
    assert_int_equal (count (t, w, WM_MSG_TASK), 0);
    assert_string_equal (look (t).waiting_for, "disk full");
    assert_null (take (t, w, WM_MSG_RESULT_ACK));
    wm_core_disk_full (t->core, 0, t->now_ms);
    durable (t);
    must (t, w, WM_MSG_RESULT_ACK);
    assert_int_equal (count (t, w, WM_MSG_TASK), 2);
    bench_end (t);
}

/* ---- refusals ----------------------------------------------------------------------------------
 */
static void test_refused_hellos (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL + 1;
    msg.role = WM_ROLE_WORKER;
    uint32_t s = wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms);
    say (t, s, &msg, "", 0);
    sent_t *reject = must (t, s, WM_MSG_REJECT);
    assert_int_equal (reject->msg.code, WM_REASON_PROTOCOL);
    assert_non_null (strstr (reject->msg.text, WM_VERSION));
    msg.protocol = WM_PROTOCOL;
    s = wm_core_open (t->core, WM_ROLE_PRODUCER, t->now_ms);
    say (t, s, &msg, "", 0);
    refused (t, s, WM_REASON_ROLE);
    s = wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms);
    say (t, s, &msg, "odd", 3);
    refused (t, s, WM_REASON_PROTOCOL);
    s = wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms); /* something before HELLO */
    credit (t, s, 5);
    refused (t, s, WM_REASON_PROTOCOL);
    s = wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms); /* nothing at all */
    pass (t, 4000, NULL);
    refused (t, s, WM_REASON_PROTOCOL);
    s = worker (t, 2, 1); /* HELLO twice */
    wm_msg_init (&msg, WM_MSG_HELLO);
    say (t, s, &msg, "", 0);
    refused (t, s, WM_REASON_PROTOCOL);
    s = worker (t, 2, 1); /* a payload where none belongs */
    wm_msg_init (&msg, WM_MSG_CREDIT);
    say (t, s, &msg, "x", 1);
    refused (t, s, WM_REASON_PROTOCOL);
    uint32_t n = 0;
    while (n <= WM_PEERS_MAX && wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms))
        n++;
    assert_int_equal (n, WM_PEERS_MAX);
    bench_end (t);
}

/* Sends SUBMIT with these numbers and expects a refusal.  */
static void bad_submit (uint32_t n_batch, uint32_t n_hit, uint32_t n_held, uint32_t batch_hits,
                        uint32_t raw, size_t bytes, uint32_t row)
{
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    struct {
        wm_manifest_batch_t batch;
        wm_manifest_held_t held;
    } lines = { { { 1 }, batch_hits, raw }, { row, WM_HIT_BAD_TIME } };
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = input;
    msg.n_batch = n_batch;
    msg.n_hit = n_hit;
    msg.n_held = n_held;
    say (t, p, &msg, &lines, bytes);
    refused (t, p, WM_REASON_PROTOCOL);
    assert_int_equal (look (t).events_announced, 0);
    bench_end (t);
}

static void test_refused_submits (void **state)
{
    (void) state;
    bad_submit (1, 11, 1, 10, 100, 31, 0);                  /* a byte is missing */
    bad_submit (2, 11, 1, 10, 100, 32, 0);                  /* a batch is missing */
    bad_submit (1, 12, 1, 10, 100, 32, 0);                  /* hits do not add up */
    bad_submit (1, 1, 1, 0, 100, 32, 0);                    /* an empty batch */
    bad_submit (1, 11, 1, 10, WM_RAW_BYTES_MAX + 1, 32, 0); /* too large */
    bad_submit (1, 1 + (4 * MIB), 1, 4 * MIB, 100, 32, 0);  /* its result is too large */
    bad_submit (1, 11, 1, 10, 100, 32, 11);                 /* a bad hit that does not exist */
    bad_submit (WM_EVENT_BATCHES_MAX + 1, 11, 1, 10, 100, 32, 0);
}

static void test_refused_in_turn (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t p = producer (t, 1);
    submit (t, p, (wm_key_t){ .input = 1 }, 0, 1); /* of no claim */
    refused (t, p, WM_REASON_STALE);

    p = producer (t, 1);
    wm_key_t input = claim (t, p);
    submit (t, p, input, 0, 1);
    wm_msg_t need = must (t, p, WM_MSG_NEED)->msg, msg = need;
    msg.type = WM_MSG_BATCH;
    say (t, p, &msg, "x", 1);
    say (t, p, &msg, "x", 1); /* twice: not asked for */
    refused (t, p, WM_REASON_PROTOCOL);

    uint32_t w = worker (t, 2, 1);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg; /* its payload survived the session */
    p = producer (t, 1);
    claim (t, p);
    submit (t, p, input, 1, 1);
    msg = must (t, p, WM_MSG_NEED)->msg;
    msg.type = WM_MSG_BATCH;
    msg.digest[3] ^= 1;
    say (t, p, &msg, "x", 1);
    refused (t, p, WM_REASON_DIGEST);

    p = producer (t, 1);
    claim (t, p);
    submit (t, p, input, 1, 1);
    msg = must (t, p, WM_MSG_NEED)->msg;
    msg.type = WM_MSG_BATCH;
    static uint8_t large[1000 + (64 << 10) + 1];
    say (t, p, &msg, large, sizeof large); /* more than was announced */
    refused (t, p, WM_REASON_PROTOCOL);

    p = producer (t, 1);
    claim (t, p);
    wm_msg_init (&msg, WM_MSG_FETCH);
    msg.key = input;
    say (t, p, &msg, NULL, 0); /* of an event that is not done */
    refused (t, p, WM_REASON_PROTOCOL);

    p = producer (t, 1);
    claim (t, p);
    wm_msg_init (&msg, WM_MSG_FILE_WRITTEN);
    msg.key = input;
    say (t, p, &msg, NULL, 0); /* of an input that is not done */
    refused (t, p, WM_REASON_PROTOCOL);

    p = producer (t, 1);
    claim (t, p);
    for (uint32_t i = 0; i <= WM_OPEN_EVENTS_MAX; i++)
        submit (t, p, input, 100 + i, 1);
    refused (t, p, WM_REASON_PROTOCOL);

    msg = task;
    msg.type = WM_MSG_RESULT;
    say (t, w, &msg, "short", 5);
    refused (t, w, WM_REASON_PROTOCOL);
    assert_int_equal (look (t).batches_returned, 0);
    w = worker (t, 2, 0);
    submit (t, w, input, 0, 1); /* a worker is no producer */
    refused (t, w, WM_REASON_PROTOCOL);
    bench_end (t);
}

static void test_heartbeats_and_stop (void **state)
{
    (void) state;
    bench_t *t = bench_new (64 * MIB);
    uint32_t w = worker (t, 2, 1), alive[] = { w, 0 };
    pass (t, 1500, alive);
    assert_null (take (t, w, WM_MSG_HEARTBEAT));
    pass (t, 1000, alive);
    must (t, w, WM_MSG_HEARTBEAT);
    wm_core_stop (t->core, "stops");
    assert_int_equal (must (t, w, WM_MSG_BYE)->msg.code, WM_REASON_STOPPING);
    assert_int_equal (look (t).n_worker, 0);
    bench_end (t);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_flow),
        cmocka_unit_test (test_empty_event_is_done_at_once),
        cmocka_unit_test (test_duplicates),
        cmocka_unit_test (test_result_of_nothing_known),
        cmocka_unit_test (test_lost_worker),
        cmocka_unit_test (test_same_instance_comes_back),
        cmocka_unit_test (test_takeover_of_a_live_session),
        cmocka_unit_test (test_silent_worker),
        cmocka_unit_test (test_hung_worker),
        cmocka_unit_test (test_alone_is_not_stuck),
        cmocka_unit_test (test_gap_moves_deadlines),
        cmocka_unit_test (test_given_back),
        cmocka_unit_test (test_held_after_failures),
        cmocka_unit_test (test_restart),
        cmocka_unit_test (test_digest_conflict),
        cmocka_unit_test (test_damaged_result),
        cmocka_unit_test (test_inputs),
        cmocka_unit_test (test_claim_dies_and_another_goes_on),
        cmocka_unit_test (test_budget),
        cmocka_unit_test (test_asks_only_ahead),
        cmocka_unit_test (test_control),
        cmocka_unit_test (test_disk_full),
        cmocka_unit_test (test_refused_hellos),
        cmocka_unit_test (test_refused_submits),
        cmocka_unit_test (test_refused_in_turn),
        cmocka_unit_test (test_heartbeats_and_stop),
    };
    return cmocka_run_group_tests_name ("broker_core", tests, NULL, NULL);
}
