/* check_harness.h - a wm_core that has batches scored by a second machine, and its workers.  */
#ifndef CHECK_HARNESS_H
#define CHECK_HARNESS_H

#include "tests/unit/core_harness.h"

#define BYTES (10 * (1 + 4 * N_OUTPUT))

static inline harness_t *checked (double share, double max_error)
{
    harness_t *t = harness_new (64 * MIB);
    wm_core_destroy (&t->core);
    t->check_share = share;
    t->max_error = max_error;
    t->measures = max_error > 0;
    wm_record_t sample;
    wm_record_init (&sample, WM_RECORD_SAMPLE);
    stand (t, &sample);
    t->core = core_make (t, 1, 64 * MIB);
    return t;
}

static inline wm_msg_t hello_of (uint8_t instance, const char *host, const char *signature)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL;
    msg.role = WM_ROLE_WORKER;
    msg.instance[0] = instance;
    snprintf (msg.name, sizeof msg.name, "%s:%u", host, instance);
    snprintf (msg.text, sizeof msg.text, "%s", signature);
    snprintf (msg.class, sizeof msg.class, "of %s", signature);
    msg.error = strstr (signature, "amx") ? 1e-3 : 0; /* measured */
    return msg;
}

/* A worker on this host, by this key; 0 credit: it takes nothing yet.  */
static inline uint32_t joins_by (harness_t *t, uint8_t instance, const char *host, const char *key,
                                 const char *signature, uint64_t credit_)
{
    const uint32_t session = wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms);
    const wm_msg_t msg = hello_of (instance, host, signature);
    wm_core_key (t->core, session, key);
    say (t, session, &msg, "", 0);
    must (t, session, WM_MSG_WELCOME);
    if (credit_)
        credit (t, session, credit_);
    return session;
}

static inline uint32_t joins (harness_t *t, uint8_t instance, const char *host, uint64_t credit_)
{
    return joins_by (t, instance, host, "", "sparse/fp32/v1", credit_);
}

/* Its HELLO is refused.  */
static inline void is_refused (harness_t *t, uint8_t instance, const char *host, const char *key)
{
    const uint32_t session = wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms);
    const wm_msg_t msg = hello_of (instance, host, "sparse/fp32/v1");
    wm_core_key (t->core, session, key);
    say (t, session, &msg, "", 0);
    const sent_t *reject = must (t, session, WM_MSG_REJECT);
    assert_int_equal (reject->msg.code, WM_REASON_FAILED);
    assert_non_null (strstr (reject->msg.text, "not trusted"));
    assert_non_null (strstr (reject->msg.text, "wiremill trust"));
}

/* RESULT with this score in one place of N_SCORE, and 0 in all others.  */
#define N_SCORE (10 * N_OUTPUT)
static inline void scores_at (harness_t *t, uint32_t session, const wm_msg_t *task, size_t at,
                              float score)
{
    uint8_t payload[BYTES] = { 0 };
    memcpy (payload + 10 + 4 * at, &score, 4);
    wm_msg_t msg = *task;
    msg.type = WM_MSG_RESULT;
    say (t, session, &msg, payload, sizeof payload);
    durable (t);
}

static inline void scores (harness_t *t, uint32_t session, const wm_msg_t *task, float score)
{
    scores_at (t, session, task, N_SCORE - 1, score);
}

/* The producer's batch is scored so by this worker; returns its TASK.  */
static inline wm_msg_t first (harness_t *t, uint32_t p, uint32_t w, wm_key_t input,
                              uint32_t ordinal, float score)
{
    submit (t, p, input, ordinal, 1);
    answer_needs (t, p);
    const wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    scores (t, w, &task, score);
    must (t, w, WM_MSG_RESULT_ACK);
    return task;
}

static inline uint32_t records (const harness_t *t, wm_record_type_t type)
{
    uint32_t n = 0;
    for (size_t i = 0; i < t->n_appended; i++)
        n += t->appended[i].record.type == type;
    return n;
}

#endif
