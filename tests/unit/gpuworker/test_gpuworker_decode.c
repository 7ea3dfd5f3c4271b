/* test_gpuworker_decode.c - batches that threads decode are what was encoded; a broken one is
   refused, and costs the others nothing; one that is given up does not come back.  */

#include "gpuworker/engine/wm_decode.h"
#include "tests/unit/unit.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 64, VALUES = 9, SLOTS = 6, JOBS = 1500 };

typedef struct {
    uint8_t *frame, digest[16];
    size_t bytes;
    wm_batch_t batch;
} made_t;

static const uint8_t pins_digest[16] = "pins";

/* Patches: `number` of them, and a bit.  */
static void make (made_t *made, uint32_t number, wm_coder_t *coder)
{
    wm_error_t error;
    wm_batch_t *batch = &made->batch;
    batch->kind = WM_BATCH_PATCHES;
    batch->n_hit = 20 * number + 1;
    batch->patch_values = VALUES;
    assert_int_equal (wm_batch_reserve (batch, &error), WM_OK);
    for (uint32_t i = 0; i < batch->n_hit * VALUES; i++)
        batch->patch[i] = (float) (i * 7 % 31 + number);
    const size_t bound = wm_batch_encode_bound (batch);
    made->frame = malloc (bound);
    assert_int_equal (wm_batch_encode (batch, coder, made->frame, bound, &made->bytes, &error),
                      WM_OK);
    wm_batch_digest (batch, pins_digest, made->digest);
}

static wm_decode_job_t job_of (const made_t *made, wm_batch_t *to)
{
    return (wm_decode_job_t){ .batch = to,
                              .payload = made->frame,
                              .payload_bytes = made->bytes,
                              .digest = made->digest,
                              .n_hit = made->batch.n_hit };
}

/* What job `i` is, by which one in seven is broken in one of three ways.  */
static wm_decode_job_t nth_job (const made_t *made, wm_batch_t *to, uint32_t i)
{
    static uint8_t other[16];
    wm_decode_job_t job = job_of (&made[i % FRAMES], to);
    if (i % 7 == 0 && i % 3 == 0)
        job.digest = other;
    else if (i % 7 == 0 && i % 3 == 1)
        job.n_hit++;
    else if (i % 7 == 0)
        job.payload_bytes /= 2;
    return job;
}

static void compare (const made_t *made, const wm_decode_job_t *job, uint32_t i)
{
    static const char *const why[] = { "does not match its digest", "task names", "" };
    const wm_batch_t *batch = &made[i % FRAMES].batch;
    if (i % 7 == 0) {
        assert_int_equal (job->error.fault, i % 3 < 2 ? WM_EBATCH : WM_EPEER);
        assert_non_null (strstr (job->error.text, why[i % 3]));
        return;
    }
    assert_int_equal (job->error.fault, WM_OK);
    assert_true (job->ns >= 0);
    assert_int_equal (job->batch->n_hit, batch->n_hit);
    assert_memory_equal (job->batch->patch, batch->patch, batch->n_hit * VALUES * sizeof (float));
}

static bool is_readable (int fd, int ms)
{
    struct pollfd item = { .fd = fd, .events = POLLIN };
    return poll (&item, 1, ms) > 0;
}

/* Jobs of all kinds, SLOTS at a time; one in eleven is given up.  */
static void decoded_beside (void **state)
{
    made_t made[FRAMES] = { 0 };
    wm_batch_t to[SLOTS] = { 0 };
    wm_decode_job_t job[SLOTS];
    uint32_t number[SLOTS];
    wm_coder_t *coder = wm_coder_new ();
    for (uint32_t i = 0; i < FRAMES; i++)
        make (&made[i], i, coder);
    for (uint32_t threads = 0; threads <= WM_DECODE_THREADS_MAX; threads++) {
        wm_decode_t *decode = wm_decode_new (threads, pins_digest);
        bool is_busy[SLOTS] = { 0 };
        uint32_t begun = 0, ended = 0;
        assert_null (wm_decode_next (decode));
        while (ended < JOBS) {
            for (uint32_t k = 0; k < SLOTS && begun < JOBS; k++)
                if (!is_busy[k]) {
                    number[k] = begun++;
                    job[k] = nth_job (made, &to[k], number[k]);
                    is_busy[k] = true;
                    wm_decode_begin (decode, &job[k]);
                    if (number[k] % 11 == 0) {
                        wm_decode_cancel (decode, &job[k]);
                        is_busy[k] = false;
                        ended++;
                    }
                }
            wm_decode_job_t *one = wm_decode_next (decode);
            if (!one && ended < JOBS)
                assert_true (is_readable (wm_decode_fd (decode), 60000));
            for (; one; one = wm_decode_next (decode), ended++) {
                const size_t k = (size_t) (one - job);
                assert_true (is_busy[k]);
                is_busy[k] = false;
                compare (made, one, number[k]);
            }
        }
        assert_null (wm_decode_next (decode));
        assert_false (is_readable (wm_decode_fd (decode), 0));
        for (uint32_t k = 0; k < SLOTS; k++) { /* ends with these begun */
            job[k] = job_of (&made[k], &to[k]);
            wm_decode_begin (decode, &job[k]);
        }
        wm_decode_destroy (&decode);
        assert_null (decode);
        wm_decode_destroy (&decode);
    }
    for (uint32_t k = 0; k < SLOTS; k++)
        wm_batch_clear (&to[k]);
    for (uint32_t i = 0; i < FRAMES; i++) {
        wm_batch_clear (&made[i].batch);
        free (made[i].frame);
    }
    wm_coder_destroy (&coder);
}

/* A job that is given up while a thread works on it is the caller's again: the thread neither
   returns it nor touches its batch. The thread that ends a job takes the next one at once.  */
static void one_is_given_up_under_its_thread (void **state)
{
    enum { ROUNDS = 30 };
    made_t brief = { 0 }, lengthy = { 0 };
    wm_batch_t to[3] = { 0 };
    wm_coder_t *coder = wm_coder_new ();
    make (&brief, 0, coder);
    make (&lengthy, 3000, coder);
    wm_decode_t *decode = wm_decode_new (1, pins_digest);
    for (int round = 0; round < ROUNDS; round++) {
        wm_decode_job_t job[3] = { job_of (&brief, &to[0]), job_of (&lengthy, &to[1]),
                                   job_of (&brief, &to[2]) };
        const bool is_late = round % 3 == 2; /* it has ended when it is given up */
        for (int k = 0; k < 2; k++)
            wm_decode_begin (decode, &job[k]);
        wm_decode_job_t *one;
        while (!(one = wm_decode_next (decode)))
            assert_true (is_readable (wm_decode_fd (decode), 60000));
        assert_ptr_equal (one, &job[0]);
        if (is_late)
            assert_true (is_readable (wm_decode_fd (decode), 60000));
        wm_decode_cancel (decode, &job[1]);
        assert_false (job[1].is_taken);
        to[1].n_hit = 12345;
        wm_decode_begin (decode, &job[2]);
        while (!(one = wm_decode_next (decode)))
            assert_true (is_readable (wm_decode_fd (decode), 60000));
        assert_ptr_equal (one, &job[2]);
        assert_null (wm_decode_next (decode));
        assert_int_equal (to[1].n_hit, 12345);
    }
    wm_decode_destroy (&decode);
    for (int k = 0; k < 3; k++)
        wm_batch_clear (&to[k]);
    for (made_t *made = &brief; made; made = made == &brief ? &lengthy : NULL) {
        free (made->frame);
        wm_batch_clear (&made->batch);
    }
    wm_coder_destroy (&coder);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (decoded_beside),
                                        cmocka_unit_test (one_is_given_up_under_its_thread) };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("decode", tests, NULL, NULL);
}
