/* test_broker_jobs.c - the status names the jobs of all workers, also of those that it does not
   list, and counts workers by state.  */
#include "tests/unit/core_harness.h"

#include "broker/wm_status.h"

#include <jansson.h>

#define N 300

/* A worker whose label is `label`, with credit or without.  */
static uint32_t named_worker (harness_t *t, int number, const char *label, uint64_t credit_)
{
    const uint32_t session = wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms);
    assert_int_not_equal (session, 0);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL;
    msg.role = WM_ROLE_WORKER;
    memcpy (msg.instance, &number, sizeof number);
    strcpy (msg.name, label);
    strcpy (msg.text, "engine/fp32");
    strcpy (msg.class, "x86-64");
    say (t, session, &msg, "", 0);
    must (t, session, WM_MSG_WELCOME);
    if (credit_)
        credit (t, session, credit_);
    return session;
}

static json_t *status_of (const wm_summary_t *summary)
{
    static const uint8_t id[16];
    static const wm_pins_t pins;
    char *text = wm_status_json (summary, &(wm_status_about_t){ .campaign = id, .pins = &pins });
    assert_non_null (text);
    assert_true (strlen (text) <= WM_STATUS_BYTES_MAX);
    json_t *json = json_loads (text, 0, NULL);
    free (text);
    return json;
}

static void test_all_are_named (void **state)
{
    static wm_summary_t summary;
    harness_t *t = harness_new (64 * MIB);
    char label[64];
    for (int i = 0; i < N; i++) {
        snprintf (label, sizeof label, "node%d:%d/12_%d", i, i, i);
        named_worker (t, i + 1, label, 1);
    }
    named_worker (t, N + 1, "node:1/99_1", 0); /* its engine is still starting */
    named_worker (t, N + 2, "node:2", 1);      /* no batch system's */
    named_worker (t, N + 3, "node:3/a\"b", 1); /* nor is that a job's id */
    named_worker (t, N + 4, "node:4/", 1);
    wm_core_summary (t->core, &summary);
    json_t *json = status_of (&summary);
    const json_t *jobs = json_object_get (json, "jobs"), *states, *one;
    size_t i, n_right = 0;
    assert_int_equal (json_array_size (jobs), N);
    assert_int_equal (json_array_size (json_object_get (json, "workers")), WM_SUMMARY_PEERS_MAX);
    for (int k = 0; k < N; k++) {
        snprintf (label, sizeof label, "12_%d", k);
        json_array_foreach (jobs, i, one) n_right += !strcmp (json_string_value (one), label);
    }
    assert_int_equal (n_right, N);
    states = json_object_get (json, "workers_by_state");
    assert_int_equal (json_integer_value (json_object_get (states, "idle")), N + 3);
    assert_int_equal (json_integer_value (json_object_get (states, "starting")), 1);
    assert_int_equal (json_integer_value (json_object_get (states, "busy")), 0);
    json_decref (json);
    harness_end (t);
}

/* Whoever the broker sends away is among those listed, however many others there are.  */
static void test_who_is_sent_away_is_listed (void **state)
{
    static wm_summary_t summary;
    harness_t *t = harness_new (64 * MIB);
    char label[64];
    for (int i = 0; i < N; i++) {
        snprintf (label, sizeof label, "node:%d", i);
        named_worker (t, i + 1, label, 1);
    }
    for (int i = 0; i < N; i += N - 1) { /* the first and the last that came */
        const uint32_t o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_CONTROL);
        strcpy (msg.name, "drain");
        snprintf (msg.text, sizeof msg.text, "node:%d", i);
        say (t, o, &msg, NULL, 0);
        must (t, o, WM_MSG_ACK);
    }
    wm_core_summary (t->core, &summary);
    json_t *json = status_of (&summary);
    const json_t *list = json_object_get (json, "workers"), *one;
    size_t i, n_why = 0;
    json_array_foreach (list, i, one) n_why += json_is_string (json_object_get (one, "why"));
    assert_int_equal (n_why, 2);
    assert_int_equal (json_array_size (list), WM_SUMMARY_PEERS_MAX);
    json_decref (json);
    harness_end (t);
}

/* As many jobs as there can be, with the longest ids: the status stays as short as promised.  */
static void test_most_jobs (void **state)
{
    static wm_summary_t summary;
    summary.state = "running";
    summary.n_worker = summary.n_job = WM_PEERS_MAX;
    summary.n_worker_listed = WM_SUMMARY_PEERS_MAX;
    for (uint32_t i = 0; i < WM_PEERS_MAX; i++)
        memset (summary.job[i], 'j', WM_SUMMARY_JOB_BYTES - 1);
    for (int i = 0; i < WM_SUMMARY_PEERS_MAX; i++) {
        summary.worker[i].state = "busy";
        memset (summary.worker[i].label, '"', sizeof summary.worker[i].label - 1);
        memset (summary.worker[i].signature, '"', sizeof summary.worker[i].signature - 1);
    }
    summary.worker[1].has_failed = true;
    json_t *json = status_of (&summary);
    const json_t *list = json_object_get (json, "workers");
    assert_true (json_is_false (json_object_get (json_array_get (list, 0), "failed")));
    assert_true (json_is_true (json_object_get (json_array_get (list, 1), "failed")));
    assert_int_equal (json_array_size (json_object_get (json, "jobs")), WM_PEERS_MAX);
    assert_true (json_array_size (json_object_get (json, "workers")) > 10);
    json_decref (json);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_all_are_named),
        cmocka_unit_test (test_who_is_sent_away_is_listed),
        cmocka_unit_test (test_most_jobs),
    };
    return cmocka_run_group_tests_name ("broker_jobs", tests, NULL, NULL);
}
