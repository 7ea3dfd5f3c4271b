/* test_broker_arithmetic.c - one signature for each class of machines: who binds it, who is
   refused, the sample, the table, rows by signature.  */
#include "tests/unit/core_harness.h"

#include <math.h>

static wm_msg_t hello_of (uint8_t instance, const char *class, const char *signature)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL;
    msg.role = WM_ROLE_WORKER;
    msg.instance[0] = instance;
    snprintf (msg.name, sizeof msg.name, "host:%u", instance);
    snprintf (msg.text, sizeof msg.text, "%s", signature);
    snprintf (msg.class, sizeof msg.class, "%s", class);
    return msg;
}

static uint32_t says_hello (harness_t *t, const wm_msg_t *msg)
{
    const uint32_t session = wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms);
    say (t, session, msg, "", 0);
    return session;
}

static uint32_t comes (harness_t *t, uint8_t instance, const char *class, const char *signature)
{
    const wm_msg_t msg = hello_of (instance, class, signature);
    const uint32_t session = says_hello (t, &msg);
    must (t, session, WM_MSG_WELCOME);
    return session;
}

static uint64_t credits[256]; /* granted, by session */
static uint32_t feeder;       /* the producer's session */

/* An input with an event of n batches.  */
static void with_work (harness_t *t, uint32_t n_batch)
{
    feeder = producer (t, 100);
    submit (t, feeder, claim (t, feeder), 1, n_batch);
}

static wm_msg_t takes_one (harness_t *t, uint32_t worker_)
{
    credit (t, worker_, ++credits[worker_]);
    answer_needs (t, feeder);
    return must (t, worker_, WM_MSG_TASK)->msg;
}

static void returns_one (harness_t *t, uint32_t worker_, uint8_t score)
{
    const wm_msg_t task = takes_one (t, worker_);
    result_of (t, worker_, &task, score);
}

static void the_first_result_binds_a_class (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    with_work (t, 4);
    const uint32_t loud = comes (t, 1, "x86-64", "strange/v1"); /* a HELLO alone binds nobody */
    const uint32_t first = comes (t, 2, "x86-64", "sparse/v1");
    returns_one (t, first, 1);
    const wm_record_t *record = standing (t, WM_RECORD_ARITHMETIC);
    assert_string_equal (record->name, "x86-64");
    assert_string_equal (record->text, "sparse/v1");
    assert_int_equal (t->appended[1].record.type, WM_RECORD_ARITHMETIC); /* INPUT, and then */
    assert_int_equal (t->appended[2].record.type, WM_RECORD_RESULT);
    const wm_msg_t task = takes_one (t, loud);
    result_of (t, loud, &task, 1); /* and now it is too late */
    const sent_t *reject = must (t, loud, WM_MSG_REJECT);
    assert_int_equal (reject->msg.code, WM_REASON_PINS);
    assert_non_null (strstr (reject->msg.text, "--mixed"));
    const wm_msg_t other = hello_of (3, "x86-64", "other/v1");
    refused (t, says_hello (t, &other), WM_REASON_PINS);
    const uint32_t gpu = comes (t, 4, "H200", "cuda/v1"); /* another class has its own */
    returns_one (t, gpu, 1); /* the batch that was taken back among them */
    const uint32_t same = comes (t, 5, "x86-64", "sparse/v1");
    returns_one (t, same, 1);
    assert_int_equal (look (t).n_rows, 0); /* counted with the record, when it is durable */
    durable (t);
    const wm_summary_t summary = look (t);
    assert_int_equal (summary.n_arithmetic, 2);
    assert_string_equal (summary.arithmetic[1].class, "H200");
    assert_int_equal (summary.n_rows, 2);
    assert_true (summary.rows[0].n == 2 * summary.rows[1].n);
    assert_in_range (summary.rows[1].n, 1, 100);
    assert_string_equal (summary.rows[0].signature, "sparse/v1");

    uint64_t value; /* another broker of the campaign knows */
    wm_core_t *old = t->core, *next = core_make (t, 2, 64 * MIB);
    const char *name;
    for (size_t i = 0; (name = wm_core_counter (old, i, &value)) != NULL; i++)
        wm_core_restore_counter (next, name, value);
    t->core = next;
    refused (t, says_hello (t, &other), WM_REASON_PINS);
    wm_core_restore_standing (next, record, &(wm_place_t){ 0 }); /* twice is once */
    assert_int_equal (look (t).n_arithmetic, 2);
    assert_true (look (t).rows[0].n == summary.rows[0].n);
    wm_core_destroy (&t->core);
    t->core = old;
    memset (credits, 0, sizeof credits);
    harness_end (t);
}

static void mixed_admits_what_differs (void **state)
{
    harness_t *t = calloc (1, sizeof *t);
    t->now_ms = 1000000, t->mixed = 1;
    t->core = core_make (t, 1, 64 * MIB);
    with_work (t, 2);
    returns_one (t, comes (t, 1, "x86-64", "sparse/v1"), 1);
    returns_one (t, comes (t, 2, "x86-64", "other/v1"), 1);
    durable (t);
    assert_int_equal (look (t).n_arithmetic, 1);
    assert_int_equal (look (t).n_rows, 2);
    wm_core_arithmetic_count (t->core, "", 3); /* of a worker without a signature */
    assert_int_equal (t->core->arithmetic.n_rows, 2);
    memset (credits, 0, sizeof credits);
    harness_end (t);
}

static void what_is_no_class_is_refused (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t fetching = comes (t, 1, "", "fetching");
    credit (t, fetching, 1);
    refused (t, fetching, WM_REASON_PROTOCOL);
    wm_msg_t bad[5];
    bad[0] = hello_of (2, "a\tb", "sparse/v1");
    bad[1] = hello_of (2, "x86-64", "");
    bad[2] = hello_of (2, "x86-64", "sparse\n/v1");
    bad[3] = hello_of (2, "x86-64", "sparse/v1"), bad[3].error = NAN;
    bad[4] = hello_of (2, "x86-64", "sparse/v1"), bad[4].error = -1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused (t, says_hello (t, &bad[i]), WM_REASON_PROTOCOL);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SAMPLE);
    const uint32_t p = producer (t, 3);
    say (t, p, &msg, "x", 1); /* fp32 measures nothing */
    refused (t, p, WM_REASON_PROTOCOL);
    memset (credits, 0, sizeof credits);
    harness_end (t);
}

/* Without room in the table nothing is committed that nobody will know of.  */
static void one_class_too_many (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    with_work (t, WM_CLASSES_MAX + 1);
    for (uint8_t i = 0; i < WM_CLASSES_MAX; i++) {
        char class[16];
        snprintf (class, sizeof class, "class-%u", i);
        returns_one (t, comes (t, (uint8_t) (i + 2), class, "sparse/v1"), 1);
    }
    const uint32_t w = comes (t, 90, "one too many", "sparse/v1");
    returns_one (t, w, 1);
    refused (t, w, WM_REASON_PINS);
    assert_int_equal (t->n_standing, WM_CLASSES_MAX);
    memset (credits, 0, sizeof credits);
    harness_end (t);
}

static int n_samples (const harness_t *t)
{
    int n = 0;
    for (size_t i = 0; i < t->n_appended; i++)
        n += t->appended[i].record.type == WM_RECORD_SAMPLE;
    return n;
}

static void split_and_fast_wait_for_a_sample (void **state)
{
    harness_t *t = calloc (1, sizeof *t);
    t->now_ms = 1000000, t->measures = 1;
    t->core = core_make (t, 1, 64 * MIB);
    wm_msg_t msg;
    const uint32_t w = comes (t, 1, "", "fetching");
    wm_msg_init (&msg, WM_MSG_TRIAL_GET);
    say (t, w, &msg, NULL, 0);
    assert_int_equal (must (t, w, WM_MSG_TRIAL)->msg.code, WM_TRIAL_WAIT);
    const wm_msg_t early = hello_of (2, "amx", "sparse/amx/v1");
    refused (t, says_hello (t, &early), WM_REASON_BUSY);

    const uint32_t p = wm_core_open (t->core, WM_ROLE_PRODUCER, t->now_ms);
    wm_msg_t first = hello_of (3, "", WM_VERSION);
    first.role = WM_ROLE_PRODUCER;
    say (t, p, &first, "", 0);
    assert_int_equal (must (t, p, WM_MSG_WELCOME)->msg.code, 1); /* it is to send one */
    wm_msg_init (&msg, WM_MSG_SAMPLE);
    say (t, p, &msg, "hits", 4);
    uint32_t second = producer (t, 12);
    say (t, second, &msg, "more", 4);
    assert_null (take (t, p, WM_MSG_ACK)); /* it is not durable */
    refused (t, says_hello (t, &early), WM_REASON_BUSY);
    wm_core_durable (t->core, &(wm_place_t){ 0 }, t->now_ms); /* as of clients on a full disk */
    t->n_durable++;
    assert_int_equal (must (t, p, WM_MSG_REJECT)->msg.code, WM_REASON_BUSY);
    refused (t, second, WM_REASON_BUSY);
    uint32_t again = producer (t, 4);
    say (t, again, &msg, "hits", 4);
    assert_int_equal (n_samples (t), 2);
    second = producer (t, 13);
    say (t, second, &msg, "more", 4); /* the first one stays */
    assert_null (take (t, again, WM_MSG_ACK));
    durable (t);
    assert_int_equal (must (t, again, WM_MSG_ACK)->msg.code, WM_MSG_SAMPLE);
    assert_int_equal (must (t, second, WM_MSG_ACK)->msg.code, WM_MSG_SAMPLE);
    say (t, again, &msg, "more", 4);
    assert_int_equal (must (t, again, WM_MSG_ACK)->msg.code, WM_MSG_SAMPLE);
    assert_int_equal (n_samples (t), 2);
    char *largest = calloc (1, WM_RAW_BYTES_MAX + 1);
    say (t, again, &msg, largest, WM_RAW_BYTES_MAX); /* as many bytes as its row has, and no more */
    assert_int_equal (must (t, again, WM_MSG_ACK)->msg.code, WM_MSG_SAMPLE);
    say (t, again, &msg, largest, WM_RAW_BYTES_MAX + 1);
    refused (t, again, WM_REASON_PROTOCOL);
    free (largest);
    again = producer (t, 9);

    feeder = again;
    submit (t, again, claim (t, again), 1, 4);
    wm_msg_t measured = hello_of (5, "amx", "sparse/amx/v1");
    measured.error = 1.5e-3, measured.n_hit = 2000;
    const uint32_t good = says_hello (t, &measured);
    must (t, good, WM_MSG_WELCOME);
    returns_one (t, good, 1);
    assert_true (wm_core_error (t->core, "sparse/amx/v1") == 1.5e-3);
    assert_true (wm_core_error (t->core, "sparse/v1") == 0);
    returns_one (t, comes (t, 6, "avx2", "sparse/v2"), 1);
    returns_one (t, comes (t, 8, "vnni", "sparse/v3"), 1);
    wm_msg_init (&msg, WM_MSG_TRIAL_GET);
    say (t, w, &msg, NULL, 0);
    const sent_t *trial = must (t, w, WM_MSG_TRIAL);
    assert_int_equal (trial->msg.code, WM_TRIAL_READY);
    assert_string_equal (trial->payload, "amx\tsparse/amx/v1\t0.0015\t2000\n"
                                         "avx2\tsparse/v2\t0\t0\nvnni\tsparse/v3\t0\t0\n");

    say (t, w, &msg, NULL, 0); /* it may not have read the first one yet */
    refused (t, w, WM_REASON_PROTOCOL);
    assert_null (take (t, w, WM_MSG_TRIAL));

    t->cannot_keep = 1; /* it cannot be read */
    const uint32_t late = comes (t, 7, "", "fetching");
    say (t, late, &msg, NULL, 0);
    assert_int_equal (must (t, late, WM_MSG_TRIAL)->msg.code, WM_TRIAL_WAIT);
    t->cannot_keep = 0;
    const int n = n_samples (t); /* and so the next producer's is taken */
    wm_msg_init (&msg, WM_MSG_SAMPLE);
    say (t, producer (t, 14), &msg, "hits", 4);
    assert_int_equal (n_samples (t), n + 1);

    wm_msg_t task = takes_one (t, good); /* scored again by strict fp32: its signature */
    uint8_t result[1024] = { 0 };
    task.type = WM_MSG_RESULT;
    strcpy (task.text, "sparse/fma/fp32/v1");
    strcpy (task.name, "hit 3 is off by 0.1");
    say (t, good, &task, result, wm_result_bytes (task.n_hit, N_OUTPUT));
    const wm_summary_t summary = look (t);
    assert_int_equal (summary.n_again, 1);
    assert_string_equal (t->appended[t->n_appended - 1].text, "sparse/fma/fp32/v1");
    assert_non_null (strstr (summary.logged[0].text, "hit 3 is off by 0.1"));
    memset (credits, 0, sizeof credits);
    harness_end (t);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (the_first_result_binds_a_class),
        cmocka_unit_test (mixed_admits_what_differs),
        cmocka_unit_test (what_is_no_class_is_refused),
        cmocka_unit_test (one_class_too_many),
        cmocka_unit_test (split_and_fast_wait_for_a_sample),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("broker/arithmetic", tests, NULL, NULL);
}
