/* test_kernels_sparse_hands.c - several calls of the exact-sparse engine at once, on its threads or
   on the callers': the same bits, none waits for the other's end, and the time in which threads
   wait is counted.  */
#include "schema/wm_limits.h"
#include "tests/unit/sparse_net.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

typedef struct {
    wm_sparse_t *engine;
    const wm_batch_t *batch;
    const float *want;
    uint32_t from, to; /* of its slices */
    bool is_same;
} caller_t;

/* Scores slices of a plane, all with the bits that the whole plane has.  */
static void *score_slices (void *arg)
{
    caller_t *caller = arg;
    const uint32_t n_hit = caller->batch->n_hit, n = caller->engine->n_output;
    float *scores = calloc ((size_t) n_hit * n, sizeof *scores);
    _Atomic uint64_t progress = 0;
    uint64_t n_scored = 0;
    wm_error_t error;
    caller->is_same = true;
    for (uint32_t slices = caller->from; slices <= caller->to; slices++)
        for (uint32_t k = 0; k < slices; k++) {
            const uint32_t first = n_hit * k / slices;
            wm_batch_t slice = *caller->batch;
            slice.hit_wire += first, slice.hit_col += first;
            slice.n_hit = n_hit * (k + 1) / slices - first;
            n_scored += slice.n_hit;
            caller->is_same &=
                !wm_sparse_score (caller->engine, &slice, scores, &progress, &error) &&
                !memcmp (scores, caller->want + (size_t) first * n,
                         (size_t) slice.n_hit * n * sizeof *scores);
        }
    caller->is_same &= progress == n_scored;
    free (scores);
    return NULL;
}

static void two_calls_at_once_change_no_bits (void **state)
{
    static const uint32_t threads[] = { 1, 2, 3, 7 };
    const wm_sparse_kernel_t *kernel;
    wm_net_t net = net_new (&shapes[0]);
    wm_spec_t spec = spec_of (&shapes[0], WM_FULL_VIEW, WM_MEAN);
    wm_batch_t batch = plane_new (&spec, 40, 90, 300, TRACKS);
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        wm_sparse_t *one = engine_new (&net, &spec, 1, kernel);
        result_t want = score_with (one, &batch);
        for (uint32_t t = 0; t < 4; t++) {
            wm_sparse_t *engine = engine_new (&net, &spec, threads[t], kernel);
            caller_t caller[2] = { { engine, &batch, want.scores, 1, 6, false },
                                   { engine, &batch, want.scores, 3, 7, false } };
            pthread_t other;
            const bool beside = threads[t] > 1; /* one thread takes one call */
            if (beside)
                assert_int_equal (pthread_create (&other, NULL, score_slices, &caller[1]), 0);
            score_slices (&caller[0]);
            if (beside)
                pthread_join (other, NULL);
            assert_true (caller[0].is_same);
            assert_true (!beside || caller[1].is_same);
            wm_sparse_destroy (&engine);
        }
        result_free (&want);
        wm_sparse_destroy (&one);
    }
    plane_free (&batch);
    net_free (&net);
}

enum { CALLERS = 5 };

/* An engine without threads, of each kernel, on planes in both views: it has a job for each call
   that ran beside others, and no more.  */
static void calls_compute_in_their_own_threads (void **state)
{
    const wm_sparse_kernel_t *kernel;
    wm_error_t error;
    wm_net_t net = net_new (&shapes[0]);
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which / 2)) != NULL; which++) {
        wm_spec_t spec = spec_of (&shapes[0], which % 2 ? WM_OWN_VIEW : WM_FULL_VIEW, WM_MEAN);
        wm_batch_t batch =
            plane_new (&spec, 40, 90 * (which % 2 ? spec.drift_window : 1), 300, TRACKS);
        const wm_sparse_config_t config = { .kernel = kernel, .on_callers = true };
        wm_sparse_t *one = engine_new (&net, &spec, 1, kernel),
                    *engine = wm_sparse_new (&net, &spec, &config, &error);
        assert_non_null (engine);
        assert_null (engine->other);
        result_t want = score_with (one, &batch);
        pthread_t thread[CALLERS];
        caller_t caller[CALLERS];
        for (uint32_t t = 0; t < CALLERS; t++) {
            caller[t] = (caller_t){ engine, &batch, want.scores, 1 + t % 2, 6, false };
            assert_int_equal (pthread_create (&thread[t], NULL, score_slices, &caller[t]), 0);
        }
        for (uint32_t t = 0; t < CALLERS; t++) {
            pthread_join (thread[t], NULL);
            assert_true (caller[t].is_same);
        }
        uint32_t n_job = 0, n_later = 0;
        for (const wm_sparse_t *job = engine->other; job; job = job->other)
            n_job++;
        assert_in_range (n_job, 1, CALLERS);
        caller[0] = (caller_t){ engine, &batch, want.scores, 1, 1, false };
        score_slices (&caller[0]);
        assert_true (caller[0].is_same);
        for (const wm_sparse_t *job = engine->other; job; job = job->other)
            n_later++;
        assert_int_equal (n_later, n_job);
        const wm_device_busy_t busy = wm_sparse_pool_busy (engine->pool);
        assert_true (busy.busy_s == 0 && busy.idle_s == 0);
        wm_sparse_destroy (&engine);
        wm_sparse_destroy (&one);
        result_free (&want);
        plane_free (&batch);
    }
    net_free (&net);
}

/* What a new engine has counted, by each number of threads: nothing is counted twice.  */
static void a_new_engine_counts_once (void **state)
{
    wm_net_t net = net_new (&shapes[0]);
    wm_spec_t spec = spec_of (&shapes[0], WM_FULL_VIEW, WM_MEAN);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        wm_sparse_t *engine = engine_new (&net, &spec, threads, wm_sparse_kernel (0));
        assert_int_equal (wm_sparse_stats (engine).allocations, threads); /* of each its own */
        wm_sparse_destroy (&engine);
    }
    net_free (&net);
}

/* ---- the pool -------------------------------------------------------------------------------- */

typedef struct {
    wm_sparse_pool_t *pool;
    bool is_serial;          /* the first job ends with a serial part, else with a task */
    atomic_int begun, ended; /* the first job's end has begun; the second job has ended */
} jobs_t;

static void wait_for (atomic_int *flag)
{
    while (!atomic_load (flag))
        usleep (100);
}

/* What ends after the whole second job.  */
static void last_part (void *arg, uint32_t task, uint32_t thread)
{
    jobs_t *jobs = arg;
    if (task == 0)
        return;
    atomic_store (&jobs->begun, 1);
    wait_for (&jobs->ended);
}

static void first_job (void *arg, uint32_t task, uint32_t thread)
{
    jobs_t *jobs = arg;
    wm_sparse_pool_run (jobs->pool, last_part, jobs, jobs->is_serial ? 1 : 2);
    if (jobs->is_serial)
        last_part (jobs, 1, thread);
}

static void count_task (void *arg, uint32_t task, uint32_t thread)
{
    atomic_fetch_add ((atomic_int *) arg, 1);
}

static void second_job (void *arg, uint32_t task, uint32_t thread)
{
    jobs_t *jobs = arg;
    atomic_int n = 0;
    for (int phase = 1; phase <= 5; phase++) {
        wm_sparse_pool_run (jobs->pool, count_task, &n, 100);
        assert_int_equal (n, 100 * phase); /* a phase begins after all tasks of the one before */
    }
    atomic_store (&jobs->ended, 1);
}

static void *call_first (void *arg)
{
    jobs_t *jobs = arg;
    wm_sparse_pool_run (jobs->pool, first_job, jobs, 1);
    return NULL;
}

static void a_job_passes_beside_the_end_of_another (void **state)
{
    for (uint32_t i = 0; i < 5; i++) { /* of two threads one may wait for the other's last task */
        const uint32_t threads = i < 3 ? 2 + i : i;
        jobs_t jobs = { .pool = wm_sparse_pool_new (threads, false), .is_serial = i < 3 };
        pthread_t first;
        assert_non_null (jobs.pool);
        assert_int_equal (pthread_create (&first, NULL, call_first, &jobs), 0);
        wait_for (&jobs.begun);
        wm_sparse_pool_run (jobs.pool, second_job, &jobs, 1);
        pthread_join (first, NULL);
        wm_sparse_pool_destroy (&jobs.pool);
    }
}

static void nap (void *arg, uint32_t task, uint32_t thread)
{
    usleep (20000);
}

/* While one of n threads has a task, the others are idle; without a job none is.  */
static void idle_time_is_counted (void **state)
{
    for (uint32_t threads = 1; threads <= 4; threads++) {
        wm_sparse_pool_t *pool = wm_sparse_pool_new (threads, false);
        const double start_s = wm_now_s ();
        wm_device_busy_t busy;
        do { /* a thread that has not started yet does not wait yet */
            wm_sparse_pool_run (pool, nap, NULL, 1);
            busy = wm_sparse_pool_busy (pool);
        } while (threads > 1 && busy.idle_s == 0);
        const double took_s = wm_now_s () - start_s;
        const double all_s = busy.busy_s + busy.idle_s;
        assert_true (all_s >= 0.02 * threads && all_s <= took_s * threads);
        assert_true (busy.busy_s >= 0.02 && busy.idle_s >= 0);
        usleep (10000);
        const wm_device_busy_t later = wm_sparse_pool_busy (pool);
        assert_true (later.busy_s == busy.busy_s && later.idle_s == busy.idle_s);
        wm_sparse_pool_destroy (&pool);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (two_calls_at_once_change_no_bits),
        cmocka_unit_test (calls_compute_in_their_own_threads),
        cmocka_unit_test (a_new_engine_counts_once),
        cmocka_unit_test (a_job_passes_beside_the_end_of_another),
        cmocka_unit_test (idle_time_is_counted),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
