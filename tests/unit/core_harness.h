/* core_harness.h - a wm_core to drive by hand: messages in, everything it says and appends kept.

   say () looks at the summary and at the core's state after each message, so that every test checks
   the budget and core_state.h all along.  */
#ifndef CORE_HARNESS_H
#define CORE_HARNESS_H

#include "tests/core_state.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    long handles;              /* references held by the core */
    uint64_t tasks[2048];      /* sent, by session: an honest worker received them all */
    int64_t quiet_ms;          /* since bytes of any session arrived; 0: unknown */
    uint32_t deaf;             /* the session of one that did not */
    uint32_t fetched, n_model; /* MODEL_GETs that were answered */
    uint64_t model_offset;     /* the last of them */
    wm_place_t fetched_place;
    char log[1024];
    char mark[200]; /* of the time line: the last */
    wm_mark_kind_t mark_kind;
    uint32_t n_mark;
    wm_record_t standing[64]; /* that it appended, or is to be given; their texts are copies */
    size_t n_standing;
    uint32_t suspects; /* the first bits of the last DISTRUST's inputs */
    int cannot_keep;   /* nor read the sample */
    int pretends;      /* a test has changed the core's own counters */
    int measures, mixed, for_clients, is_ragged;
    double check_share, max_error;
    uint32_t stray_max;
} harness_t;

static inline void sink_send (void *context, uint32_t session, const wm_msg_t *msg,
                              const wm_payload_t *payload)
{
    harness_t *t = context;
    if (t->n_sent == t->max_sent) {
        t->max_sent = t->max_sent ? t->max_sent * 2 : 64;
        t->sent = realloc (t->sent, t->max_sent * sizeof *t->sent);
    }
    sent_t *sent = &t->sent[t->n_sent++];
    memset (sent, 0, sizeof *sent);
    sent->session = session;
    sent->msg = *msg;
    t->tasks[session % 2048] += msg->type == WM_MSG_TASK;
    assert_int_equal (payload != NULL, wm_msg_has_payload (msg->type));
    if (!payload)
        return;
    sent->has_payload = 1;
    sent->bytes = payload->bytes;
    if (!payload->handle && payload->bytes)
        memcpy (sent->payload, payload->data,
                payload->bytes < sizeof sent->payload ? payload->bytes : sizeof sent->payload);
}

static inline bool is_same_name (const wm_record_t *a, const wm_record_t *b)
{
    return a->type == b->type && a->name_bytes == b->name_bytes &&
           memcmp (a->name_bytes ? a->name : "", b->name_bytes ? b->name : "", a->name_bytes) == 0;
}

static inline void *copy_of (const void *from, size_t bytes)
{
    char *copy = calloc (1, bytes + 1);
    return bytes ? memcpy (copy, from, bytes) : copy;
}

/* The latest of each type and name, as the ledger keeps them.  */
static inline void stand (harness_t *t, const wm_record_t *record)
{
    const char *text = copy_of (record->text, record->text_bytes),
               *name = copy_of (record->name, record->name_bytes);
    size_t i = 0;
    while (i < t->n_standing && !is_same_name (&t->standing[i], record))
        i++;
    assert_true (i < 64);
    if (i < t->n_standing) {
        free ((void *) (uintptr_t) t->standing[i].text);
        free ((void *) (uintptr_t) t->standing[i].name);
        memmove (&t->standing[i], &t->standing[i + 1], (--t->n_standing - i) * sizeof *record);
    }
    wm_record_t *last = &t->standing[t->n_standing++];
    *last = *record;
    last->text = text;
    last->name = name;
    last->payload = NULL;
}

/* The record of this type that stands, and was the last of them; NULL: none does.  */
static inline const wm_record_t *standing (const harness_t *t, wm_record_type_t type)
{
    for (size_t i = t->n_standing; i-- > 0;)
        if (t->standing[i].type == type)
            return &t->standing[i];
    return NULL;
}

static inline void sink_append (void *context, const wm_record_t *record, const wm_payload_t *body)
{
    harness_t *t = context;
    assert_true (t->n_appended < 512);
    appended_t *appended = &t->appended[t->n_appended++];
    appended->record = *record;
    snprintf (appended->text, sizeof appended->text, "%.*s", (int) record->text_bytes,
              record->text ? record->text : "");
    if (record->type == WM_RECORD_DISTRUST && body)
        memcpy (&t->suspects, body->data, 4);
    if (wm_record_stands (record->type)) {
        stand (t, record);
        return;
    }
    assert_int_equal (body != NULL, record->type == WM_RECORD_RESULT);
    const batch_t *batch = t->core ? wm_core_batch_find (t->core, &record->key) : NULL;
    if (record->type != WM_RECORD_RESULT && (record->type != WM_RECORD_HELD || !batch))
        return;
    assert_memory_equal (record->digest, batch->digest, 16);
    assert_int_equal (record->n_batch, batch->event->n_batch);
    assert_int_equal (record->n_hit, batch->n_hit);
    if (body)
        assert_int_equal (record->n_held, batch->n_held);
    else
        assert_int_equal (record->code, WM_HIT_HELD);
}

static inline void sink_fetch (void *context, uint32_t session, const wm_msg_t *results,
                               const wm_place_t *place)
{
    harness_t *t = context;
    assert_int_equal (results->type, WM_MSG_RESULTS);
    t->fetched = session;
    t->fetched_place = *place;
}

static inline void sink_model (void *context, uint32_t session, uint64_t offset)
{
    (void) session;
    ((harness_t *) context)->n_model++;
    ((harness_t *) context)->model_offset = offset;
}

static inline void sink_status (void *context, uint32_t session)
{
    (void) context, (void) session;
}

static inline int64_t sink_quiet (void *context, uint32_t session)
{
    const harness_t *t = context;
    (void) session;
    return t->quiet_ms ? t->quiet_ms : INT64_MAX;
}

static inline void sink_drop (void *context, uint32_t session)
{
    harness_t *t = context;
    t->dropped[t->n_dropped++ % 64] = session;
}

static inline int sink_sample (void *context, uint32_t session, const wm_msg_t *trial,
                               const char *table, const wm_place_t *place)
{
    assert_int_not_equal (place->segment, 0);
    const wm_payload_t payload = { NULL, table, strlen (table) + 1 };
    if (((harness_t *) context)->cannot_keep)
        return -1;
    sink_send (context, session, trial, &payload);
    return 0;
}

static inline void sink_hold (void *context, void *handle)
{
    (void) handle;
    ((harness_t *) context)->handles++;
}

static inline void sink_release (void *context, void *handle)
{
    (void) handle;
    ((harness_t *) context)->handles--;
}

static inline void sink_log (void *context, const char *text)
{
    snprintf (((harness_t *) context)->log, 1024, "%s", text);
}

static inline void sink_mark (void *context, wm_mark_kind_t kind, const char *text)
{
    harness_t *t = context;
    snprintf (t->mark, sizeof t->mark, "%s", text);
    t->mark_kind = kind;
    t->n_mark++;
}

static inline wm_core_t *core_make (harness_t *t, uint64_t epoch, uint64_t budget)
{
    wm_core_config_t config = { .campaign = { 7 },
                                .pins_digest = { 9 },
                                .pins = "pins",
                                .pins_bytes = 4,
                                .n_output = N_OUTPUT,
                                .peers_max = WM_PEERS_MAX,
                                .epoch = epoch,
                                .budget_bytes = budget,
                                .now_ms = t->now_ms };
    config.times = (wm_times_t){ .heartbeat_ms = 2000,
                                 .silence_ms = 30000,
                                 .reconnect_ms = 3000,
                                 .lease_ms = 30000,
                                 .engine_ms = 20000,
                                 .disk_full_ms = 500,
                                 .handshake_ms = 3000,
                                 .need_ms = 5000,
                                 .gap_ms = 2000,
                                 .group_commit_ms = 10 };
    config.measures = t->measures;
    config.mixed = t->mixed;
    config.for_clients = t->for_clients;
    config.is_ragged = t->is_ragged;
    config.check_share = t->check_share;
    config.max_error = t->max_error;
    config.stray_max = t->stray_max;
    wm_core_sink_t sink = { .context = t,
                            .send = sink_send,
                            .append = sink_append,
                            .fetch = sink_fetch,
                            .model = sink_model,
                            .sample = sink_sample,
                            .status = sink_status,
                            .quiet = sink_quiet,
                            .drop = sink_drop,
                            .hold = sink_hold,
                            .release = sink_release,
                            .mark = sink_mark,
                            .log = sink_log };
    wm_core_t *core = wm_core_new (&config, &sink);
    assert_non_null (core);
    for (size_t i = 0; i < t->n_standing; i++)
        wm_core_restore_standing (core, &t->standing[i], &(wm_place_t){ 1 << 24, 8, 8 });
    return core;
}

static inline harness_t *harness_new (uint64_t budget)
{
    harness_t *t = calloc (1, sizeof *t);
    t->now_ms = 1000000;
    t->core = core_make (t, 1, budget);
    return t;
}

static inline void harness_end (harness_t *t)
{
    wm_core_destroy (&t->core);
    assert_null (t->core);
    assert_int_equal (t->handles, 0);
    for (size_t i = 0; i < t->n_standing; i++) {
        free ((void *) (uintptr_t) t->standing[i].text);
        free ((void *) (uintptr_t) t->standing[i].name);
    }
    free (t->sent);
    free (t);
}

/* The next message of this type to this session, taken out; NULL: none was sent.  */
static inline sent_t *take (harness_t *t, uint32_t session, wm_msg_type_t type)
{
    for (size_t i = 0; i < t->n_sent; i++)
        if (t->sent[i].session == session && t->sent[i].msg.type == type) {
            t->sent[i].session = 0;
            return &t->sent[i];
        }
    return NULL;
}

static inline sent_t *must (harness_t *t, uint32_t session, wm_msg_type_t type)
{
    sent_t *sent = take (t, session, type);
    if (!sent)
        fail_msg ("no %s to session %u; last said: %s", wm_msg_name (type), session, t->log);
    return sent;
}

static inline int count (const harness_t *t, uint32_t session, wm_msg_type_t type)
{
    int n = 0;
    for (size_t i = 0; i < t->n_sent; i++)
        n += t->sent[i].session == session && t->sent[i].msg.type == type;
    return n;
}

static inline wm_summary_t look (const harness_t *t)
{
    static wm_summary_t summary;
    wm_core_summary (t->core, &summary);
    assert_true (summary.budget_used_bytes <= summary.budget_bytes);
    if (t->core->inputs.events.count <= 1000 && !t->pretends) /* it looks at all of them */
        assert_string_equal (core_state_of (t->core).text, "");
    return summary;
}

static inline void say (harness_t *t, uint32_t session, const wm_msg_t *msg, const void *payload,
                        size_t bytes)
{
    wm_payload_t body = { t, payload, bytes };
    wm_core_message (t->core, session, msg, payload ? &body : NULL, t->now_ms);
    look (t);
}

static inline void durable (harness_t *t)
{
    while (t->n_durable < t->n_appended) {
        wm_place_t place = { 1 << 24, (uint32_t) t->n_durable, 100 };
        t->n_durable++;
        wm_core_durable (t->core, &place, t->now_ms);
    }
}

static inline uint64_t received (const harness_t *t, uint32_t session)
{
    return session == t->deaf ? 0 : t->tasks[session % 2048];
}

/* Time passes in steps below gap_ms, with everybody in `alive` (0-ended) saying a heartbeat.  */
static inline void pass (harness_t *t, int64_t ms, const uint32_t *alive)
{
    for (; ms > 0; ms -= 500) {
        t->now_ms += ms < 500 ? ms : 500;
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_HEARTBEAT);
        for (const uint32_t *session = alive; session && *session; session++) {
            msg.received = received (t, *session);
            say (t, *session, &msg, NULL, 0);
        }
        wm_core_tick (t->core, t->now_ms);
        look (t);
    }
}

static inline uint32_t hello (harness_t *t, wm_role_t role, uint8_t instance, const void *held,
                              size_t bytes)
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
    strcpy (msg.class, role == WM_ROLE_WORKER ? "x86-64" : "");
    say (t, session, &msg, held ? held : "", bytes);
    sent_t *welcome = must (t, session, WM_MSG_WELCOME);
    assert_memory_equal (welcome->payload, "pins", 4);
    return session;
}

static inline uint32_t producer (harness_t *t, uint8_t instance)
{
    return hello (t, WM_ROLE_PRODUCER, instance, NULL, 0);
}

static inline void credit (harness_t *t, uint32_t worker, uint64_t count_)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CREDIT);
    msg.count = count_;
    say (t, worker, &msg, NULL, 0);
}

static inline uint32_t worker (harness_t *t, uint8_t instance, uint64_t credit_)
{
    uint32_t session = hello (t, WM_ROLE_WORKER, instance, NULL, 0);
    credit (t, session, credit_);
    return session;
}

static inline sent_t *input_ask (harness_t *t, uint32_t session, const char *path, const char *name,
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

static inline wm_key_t claim (harness_t *t, uint32_t session)
{
    sent_t *sent = input_ask (t, session, "/data/a.h5", "a.scores.h5", 1000, 1);
    assert_int_equal (sent->msg.code, WM_INPUT_CLAIMED);
    return sent->msg.key;
}

static inline void digest_of (uint32_t ordinal, uint32_t batch, uint8_t digest[16])
{
    memset (digest, 0, 16);
    memcpy (digest, &ordinal, 4);
    memcpy (digest + 4, &batch, 4);
    digest[15] = 1;
}

/* An event of n batches of 10 hits and `raw` raw bytes, and one bad hit.  */
static inline void submit_raw (harness_t *t, uint32_t session, wm_key_t input, uint32_t ordinal,
                               uint32_t n, uint32_t raw)
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

static inline void submit (harness_t *t, uint32_t session, wm_key_t input, uint32_t ordinal,
                           uint32_t n)
{
    submit_raw (t, session, input, ordinal, n, 1000);
}

/* Answers every NEED of this session; returns how many.  */
static inline int answer_needs (harness_t *t, uint32_t session)
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

static inline void result_of (harness_t *t, uint32_t session, const wm_msg_t *task, uint8_t score)
{
    uint8_t payload[10 * (1 + 4 * N_OUTPUT)] = { 0 };
    payload[sizeof payload - 1] = score;
    wm_msg_t msg = *task;
    msg.type = WM_MSG_RESULT;
    say (t, session, &msg, payload, sizeof payload);
}

static inline void nack (harness_t *t, uint32_t session, const wm_msg_t *task, wm_fault_t code)
{
    wm_msg_t msg = *task;
    msg.type = WM_MSG_NACK;
    msg.code = code;
    strcpy (msg.text, "why");
    say (t, session, &msg, NULL, 0);
}

static inline void heartbeat (harness_t *t, uint32_t session, wm_key_t key, uint64_t count_)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HEARTBEAT);
    msg.key = key;
    msg.count = count_;
    msg.received = received (t, session);
    say (t, session, &msg, NULL, 0);
}

/* This is the n-th mark.  */
static inline void marked (const harness_t *t, uint32_t n, wm_mark_kind_t kind, const char *text)
{
    assert_int_equal (t->n_mark, n);
    assert_string_equal (t->mark, text);
    assert_int_equal (t->mark_kind, kind);
}

static inline void bye (harness_t *t, uint32_t session, wm_reason_t reason)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_BYE);
    msg.code = reason;
    say (t, session, &msg, NULL, 0);
}

static inline void refused (harness_t *t, uint32_t session, wm_reason_t reason)
{
    assert_int_equal (must (t, session, WM_MSG_REJECT)->msg.code, reason);
    assert_int_equal (t->dropped[(t->n_dropped - 1) % 64], session);
}

#endif
