/* test_broker_memory.c - what a message may make the broker's core keep: results of events that
   nobody has announced take memory for themselves only, up to a limit; none of them is lost.  */
#include "tests/unit/core_harness.h"

#include "broker/wm_resident.h"

#include <malloc.h>
#include <unistd.h>

#define MANY 400
#define RESULT_MEMORY 512 /* bytes that a result may take, the tables' growth included */

static wm_msg_t task_of (wm_key_t key, uint32_t n_batch)
{
    wm_msg_t task;
    wm_msg_init (&task, WM_MSG_TASK);
    task.key = key;
    digest_of (key.ordinal, key.batch, task.digest);
    task.n_batch = n_batch;
    task.n_hit = 10;
    return task;
}

/* A worker that holds the unacknowledged results of these batches.  */
static uint32_t holder (harness_t *t, uint8_t instance, const wm_key_t *key, uint32_t n)
{
    wm_hello_held_t held[8];
    for (uint32_t i = 0; i < n; i++) {
        held[i] = (wm_hello_held_t){ key[i], { 0 }, 10, 1 };
        digest_of (key[i].ordinal, key[i].batch, held[i].digest);
    }
    return hello (t, WM_ROLE_WORKER, instance, held, n * sizeof *held);
}

static void sends (harness_t *t, uint32_t worker, wm_key_t key, uint32_t n_batch)
{
    const wm_msg_t task = task_of (key, n_batch);
    result_of (t, worker, &task, 1);
    durable (t);
}

static void is_taken (harness_t *t, uint32_t worker, wm_key_t key, uint32_t n_batch)
{
    sends (t, worker, key, n_batch);
    must (t, worker, WM_MSG_RESULT_ACK);
}

static void is_kept_by_its_worker (harness_t *t, uint32_t worker, wm_key_t key, uint32_t n_batch)
{
    const size_t appended = t->n_appended;
    sends (t, worker, key, n_batch);
    assert_null (take (t, worker, WM_MSG_RESULT_ACK));
    assert_int_equal (t->n_appended, appended);
}

static void announce (harness_t *t, uint32_t producer_, wm_key_t input, uint32_t ordinal,
                      uint32_t n)
{
    wm_manifest_batch_t *lines = calloc (n, sizeof *lines);
    for (uint32_t i = 0; i < n; i++) {
        digest_of (ordinal, i, lines[i].digest);
        lines[i].n_hit = 10;
        lines[i].raw_bytes = 1000;
    }
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = input;
    msg.key.ordinal = ordinal;
    msg.n_batch = n;
    msg.n_hit = 10 * n;
    say (t, producer_, &msg, lines, n * sizeof *lines);
    free (lines);
}

/* RESULTs of unannounced events that claim to have as many batches as an event may have.  */
static void test_claimed_batches_take_no_memory (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 0);
    wm_key_t input = claim (t, p);
    is_taken (t, w, (wm_key_t){ 1, 0, 7, 0 }, WM_EVENT_BATCHES_MAX);
    t->sent = realloc (t->sent, (t->max_sent = 4 * MANY) * sizeof *t->sent);
    const size_t before = mallinfo2 ().uordblks + mallinfo2 ().hblkhd;
    for (uint32_t i = 1; i < MANY; i++)
        is_taken (t, w, (wm_key_t){ 1, i, 7, 0 }, WM_EVENT_BATCHES_MAX);
    assert_true (mallinfo2 ().uordblks + mallinfo2 ().hblkhd - before < MANY * RESULT_MEMORY);
    assert_int_equal (look (t).batches_returned, MANY);
    announce (t, p, input, 0, WM_EVENT_BATCHES_MAX); /* an honest event of this size */
    const sent_t *ack = must (t, p, WM_MSG_SUBMIT_ACK);
    assert_int_equal (ack->bytes, WM_EVENT_BATCHES_MAX);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal (ack->payload[i], i == 7 ? WM_HAVE : WM_WANT);
    assert_int_equal (look (t).batches_queued, WM_EVENT_BATCHES_MAX - 1);
    assert_int_equal (look (t).batches_returned, MANY);
    harness_end (t);
}

/* The batches of an unannounced event come in any order, one of them twice.  */
static void test_any_order (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 0);
    wm_key_t input = claim (t, p);
    for (uint32_t i = 0; i < 59; i++) /* all but those that 17 does not reach yet */
        is_taken (t, w, (wm_key_t){ 1, 0, i * 17 % 61, 0 }, 61);
    is_taken (t, w, (wm_key_t){ 1, 0, 17, 0 }, 61);
    assert_int_equal (look (t).n_duplicate, 1);
    sends (t, w, (wm_key_t){ 1, 0, 60, 0 },
           62); /* it has another number of batches: nobody wants it */
    must (t, w, WM_MSG_RESULT_ACK);
    announce (t, p, input, 0, 61);
    const sent_t *ack = must (t, p, WM_MSG_SUBMIT_ACK);
    for (uint32_t i = 0; i < 61; i++)
        assert_int_equal (ack->payload[i],
                          i == 59 * 17 % 61 || i == 60 * 17 % 61 ? WM_WANT : WM_HAVE);
    assert_int_equal (look (t).batches_returned, 59);
    harness_end (t);
}

/* What the ledger restores before an event is announced is as small.  */
static void test_restored (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    wm_ledger_input_t row = { .id = 1,
                              .path = "/data/a.h5",
                              .name = "a.scores.h5",
                              .size = 1000,
                              .mtime_ns = 5,
                              .state = WM_LEDGER_OPEN,
                              .n_event = -1 };
    assert_int_equal (wm_core_restore_input (t->core, &row), 0);
    const size_t before = mallinfo2 ().uordblks + mallinfo2 ().hblkhd;
    for (uint32_t i = 0; i < MANY; i++) {
        wm_ledger_batch_t batch = { .key = { 1, i, i % 3, 0 },
                                    .n_batch = WM_EVENT_BATCHES_MAX,
                                    .n_hit = 10,
                                    .state = i % 2 ? WM_LEDGER_BATCH_HELD : WM_LEDGER_RETURNED,
                                    .text = "poison" };
        digest_of (i, i % 3, batch.digest);
        assert_int_equal (wm_core_restore_batch (t->core, &batch, ""), 0);
    }
    assert_true (mallinfo2 ().uordblks + mallinfo2 ().hblkhd - before < MANY * RESULT_MEMORY);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    for (uint32_t i = 0; i < 4; i++) {
        announce (t, p, input, i, WM_EVENT_BATCHES_MAX);
        const sent_t *ack = must (t, p, WM_MSG_SUBMIT_ACK);
        for (uint32_t b = 0; b < 4; b++)
            assert_int_equal (ack->payload[b], b != i % 3 ? WM_WANT : i % 2 ? WM_HELD : WM_HAVE);
    }
    harness_end (t);
}

/* A session's results of unannounced events have a limit; its worker keeps what is above it.  */
static void test_limit_of_a_session (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 0);
    claim (t, p);
    for (uint32_t i = 0; i < WM_STRAY_MAX; i++) {
        is_taken (t, w, (wm_key_t){ 1, i, 0, 0 }, 3);
        t->n_appended = t->n_durable = 0; /* the harness keeps 512 records */
    }
    is_kept_by_its_worker (t, w, (wm_key_t){ 1, WM_STRAY_MAX, 0, 0 }, 3);
    refused (t, w, WM_REASON_BUSY);
    w = worker (t, 2, 0);
    is_taken (t, w, (wm_key_t){ 1, WM_STRAY_MAX, 0, 0 }, 3);
    harness_end (t);
}

/* So have those of all sessions. A worker that held a result before goes on with other work, and is
   told to send it again when the event is announced.  */
static void test_limit_of_all (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    wm_core_destroy (&t->core);
    t->stray_max = 4;
    t->core = core_make (t, 1, 64 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 0);
    wm_key_t input = claim (t, p);
    for (uint32_t i = 0; i < 4; i++)
        is_taken (t, w, (wm_key_t){ 1, i, 0, 0 }, 3);
    is_taken (t, w, (wm_key_t){ 1, 0, 0, 0 }, 3); /* once more: it takes no more room */
    const wm_key_t kept[2] = { { 1, 8, 0, 0 }, { 1, 9, 1, 0 } };
    uint32_t honest = holder (t, 3, kept, 2);
    is_kept_by_its_worker (t, honest, kept[0], 3);
    assert_non_null (strstr (t->log, "start the producers again"));
    t->log[0] = 0;
    is_kept_by_its_worker (t, honest, kept[0], 3); /* it is said once */
    assert_string_equal (t->log, "");
    assert_null (take (t, honest, WM_MSG_REJECT));
    is_kept_by_its_worker (t, w, kept[0], 3); /* who does not hold it must come back later */
    refused (t, w, WM_REASON_BUSY);

    credit (t, honest, 10); /* it is given other work meanwhile */
    submit (t, p, input, 20, 1);
    assert_int_equal (answer_needs (t, p), 1);
    sent_t *task = must (t, honest, WM_MSG_TASK);
    result_of (t, honest, &task->msg, 1);
    durable (t);
    must (t, honest, WM_MSG_RESULT_ACK);

    submit (t, p, input, 9, 3); /* not sent yet: it becomes a lease */
    assert_null (take (t, honest, WM_MSG_REJECT));
    submit (t, p, input, 8, 3);
    refused (t, honest, WM_REASON_BUSY);
    honest = holder (t, 3, kept, 2);
    is_taken (t, honest, kept[0], 3);
    is_taken (t, honest, kept[1], 3);

    const wm_key_t other = { 1, 10, 0, 0 };
    w = holder (t, 4, &other, 1);
    is_kept_by_its_worker (t, w, other, 3);
    submit (t, p, input, 2, 3); /* one of the four counts no longer */
    is_taken (t, w, other, 3);
    harness_end (t);
}

/* Those of an input that is held count no longer.  */
static void test_limit_and_held_input (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    wm_core_destroy (&t->core);
    t->stray_max = 2;
    t->core = core_make (t, 1, 64 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 0);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT_HELD);
    msg.key = claim (t, p);
    for (uint32_t i = 0; i < 2; i++)
        is_taken (t, w, (wm_key_t){ 1, i, 0, 0 }, 3);
    assert_int_equal (input_ask (t, p, "/data/b.h5", "b.scores.h5", 1000, 1)->msg.key.input, 2);
    is_kept_by_its_worker (t, w, (wm_key_t){ 2, 0, 0, 0 }, 3);
    refused (t, w, WM_REASON_BUSY);
    say (t, p, &msg, NULL, 0);
    durable (t);
    w = worker (t, 2, 0);
    is_taken (t, w, (wm_key_t){ 2, 0, 0, 0 }, 3);
    harness_end (t);
}

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* they have their own malloc */
/* ---- memory that malloc keeps ---------------------------------------------------------------- */

static uint64_t resident (void)
{
    unsigned long long all, file;
    FILE *statm = fopen ("/proc/self/statm", "re");
    assert_non_null (statm);
    assert_int_equal (fscanf (statm, "%*u %llu %llu", &all, &file), 2);
    fclose (statm);
    return (all - file) * (uint64_t) sysconf (_SC_PAGESIZE);
}

/* Freed blocks between others that stay are not at the heap's end, where malloc returns them by
   itself.  */
static void test_kept_by_malloc_is_returned (void **state)
{
    enum { BLOCKS = 600, BLOCK = 100000 };
    harness_t *t = harness_new (16 * MIB);
    uint32_t p = producer (t, 1), alive[] = { p, 0 };
    static char *block[BLOCKS], *between[BLOCKS];
    wm_resident_begin (16 * MIB);
    const uint64_t before = resident ();
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = malloc (BLOCK);
        between[i] = malloc (1000);
        assert_non_null (block[i]);
        assert_non_null (between[i]);
        memset (block[i], 1, BLOCK);
    }
    for (int i = 0; i < BLOCKS; i++)
        free (block[i]);
    assert_true (resident () > before + 50 * MIB);
    submit_raw (t, p, claim (t, p), 0, 4, WM_RAW_BYTES_MAX);
    pass (t, 100, alive);
    assert_true (count (t, p, WM_MSG_NEED) > 1);
    assert_true (wm_resident_check (t->core));
    assert_true (resident () < before + 16 * MIB);
    for (int i = 0; i < BLOCKS; i++)
        free (between[i]);
    harness_end (t);
}

/* What is in use is not returned, and what malloc cannot return is tried once: small blocks that
   stay, one in each page, keep all pages.  */
static void test_nothing_to_return (void **state)
{
    enum { BLOCKS = 80000, BLOCK = 1000 };
    static char *block[BLOCKS];
    for (int keeps = 0; keeps < 2; keeps++) {
        harness_t *t = harness_new (16 * MIB);
        const uint32_t p = producer (t, 1);
        unsigned n_trim = 0;
        wm_resident_begin (16 * MIB);
        for (int i = 0; i < BLOCKS; i++) {
            block[i] = malloc (BLOCK);
            assert_non_null (block[i]);
            memset (block[i], 1, BLOCK);
        }
        for (int i = 0; i < BLOCKS; i++)
            if (keeps && i % 3) {
                free (block[i]);
                block[i] = NULL;
            }
        submit_raw (t, p, claim (t, p), 0, 4, WM_RAW_BYTES_MAX);
        t->core->budget.asked_total = 0;
        for (int i = 0; i < 100; i++) {
            t->core->budget.asked_total += 4 * MIB;
            n_trim += wm_resident_check (t->core);
        }
        assert_int_equal (n_trim, keeps);
        for (int i = 0; i < BLOCKS; i++)
            free (block[i]);
        harness_end (t);
    }
}
#endif

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_claimed_batches_take_no_memory),
        cmocka_unit_test (test_any_order),
        cmocka_unit_test (test_restored),
        cmocka_unit_test (test_limit_of_a_session),
        cmocka_unit_test (test_limit_of_all),
        cmocka_unit_test (test_limit_and_held_input),
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
        cmocka_unit_test (test_kept_by_malloc_is_returned),
        cmocka_unit_test (test_nothing_to_return),
#endif
    };
    return cmocka_run_group_tests_name ("broker_memory", tests, NULL, NULL);
}
