/* test_gpuworker_stream.c - a worker whose engine is a GPU: batches are submitted and collected,
   and come back in random order (made_worker.h).  */
#include "tests/unit/made_worker.h"

/* A broker, and a GPU that takes `fill` hits a launch.  */
static fake_t *gpu_broker (play_t *play, int fill)
{
    fake_t *broker = broker_for (play);
    told->streams = 1;
    told->fill = fill;
    told->score_ms = 2;
    return broker;
}

/* The worker runs to its end, and each batch came back once.  */
static void every_batch_comes_back_once (run_t *run, fake_t *broker, play_t *play)
{
    run_start (run, broker);
    assert_int_equal (run_wait_bye (run, play), WM_EXIT_OK);
    for (int b = 1; b <= N_BATCH; b++)
        assert_int_equal (play->got[b], 1);
    assert_int_equal (nacks (play, WM_EHOST) + nacks (play, WM_EBATCH), 0);
    assert_int_equal (told->n_mixed, 0);
}

/* No more are under way than three launches hold, or all that there are; none is scored twice.  */
static void batches_come_back_once (void **state)
{
    for (int fill = N_HIT; fill <= 100 * N_HIT; fill *= 100) {
        play_t play = { .n_batch = N_BATCH };
        run_t run;
        fake_t *broker = gpu_broker (&play, fill);
        every_batch_comes_back_once (&run, broker, &play);
        assert_int_equal (told->n_score, N_BATCH);
        assert_int_equal (play.progress, N_BATCH * N_HIT);
        assert_in_range (told->most, 1, fill == N_HIT ? 3 : N_BATCH);
        assert_in_range (told->n_submit, 1, N_BATCH);
        assert_int_equal (told->n_open, 1);
        broker_gone (&broker, &play);
    }
}

/* A batch that is refused, among others under way: only that one is.  */
static void one_is_refused (void **state)
{
    play_t play = { .n_batch = 30 };
    run_t run;
    fake_t *broker = gpu_broker (&play, 1000);
    told->refused = 20;
    run_start (&run, broker);
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
    for (int b = 1; b <= 30; b++) {
        assert_int_equal (play.got[b], b != 20);
        assert_int_equal (play.nacked[b], b == 20);
    }
    assert_int_equal (play.nack_code[20], WM_EBATCH);
    assert_int_equal (told->n_score, 30); /* the others were not scored again */
    assert_int_equal (told->n_open, 1);
    broker_gone (&broker, &play);
}

/* The GPU fails once, with many under way: all of those are scored again, each alone, and no other;
   nobody is to blame.  */
static void a_fault_discards_what_is_under_way (void **state)
{
    for (int call = 0; call < 24; call += 6) {
        play_t play = { .n_batch = N_BATCH };
        run_t run;
        fake_t *broker = gpu_broker (&play, 1000);
        told->failing = 1 << call;
        every_batch_comes_back_once (&run, broker, &play);
        assert_int_equal (play.n_poison, 0);
        assert_int_equal (told->n_open, 2);
        /* the call that failed scored nothing; a batch that was alone then comes in two parts */
        assert_in_range (told->n_score, N_BATCH + 1, N_BATCH + 2);
        broker_gone (&broker, &play);
    }
}

/* Hits that kill the GPU while others are under way, at any time: exactly those are held.  */
static void poison_is_found (void **state)
{
    static const int bad[] = { 20003, 30000, 30006, 45001 };
    for (int manner = SEGV; manner <= SPOILS; manner++) {
        play_t play = { .n_batch = N_BATCH };
        run_t run;
        fake_t *broker = gpu_broker (&play, 1000);
        told->manner = manner;
        for (int k = 0; k < 4; k++)
            told->bad[k] = bad[k];
        every_batch_comes_back_once (&run, broker, &play);
        assert_int_equal (play.n_poison, 4); /* the broker checks which */
        forget_replays ();
        broker_gone (&broker, &play);
    }
}

/* A GPU that hangs with many under way is killed, and started again.  */
static void one_that_hangs_is_killed (void **state)
{
    play_t play = { .n_batch = N_BATCH };
    run_t run;
    fake_t *broker = gpu_broker (&play, 1000);
    told->hangs = 10;
    every_batch_comes_back_once (&run, broker, &play);
    assert_int_equal (told->n_open, 2);
    assert_int_equal (play.n_poison, 0);
    broker_gone (&broker, &play);
}

/* A drain collects all that is under way, and gives back the rest.  */
static void a_drain_collects_what_is_under_way (void **state)
{
    play_t play = { .n_batch = N_BATCH, .say_at = 10, .say = WM_MSG_DRAIN };
    run_t run;
    fake_t *broker = gpu_broker (&play, 2 * N_HIT);
    told->score_ms = 5;
    run_start (&run, broker);
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
    assert_int_equal (told->n_job, 0);
    assert_int_equal (told->n_score, play.n_got);
    for (int b = 1; b <= play.sent; b++)
        assert_int_equal (play.got[b] + play.nacked[b], 1);
    assert_int_equal (told->n_open, 1);
    assert_int_equal (told->n_close, 1);
    broker_gone (&broker, &play);
}

int main (int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (batches_come_back_once),
        cmocka_unit_test (one_is_refused),
        cmocka_unit_test (a_fault_discards_what_is_under_way),
        cmocka_unit_test (poison_is_found),
        cmocka_unit_test (one_that_hangs_is_killed),
        cmocka_unit_test (a_drain_collects_what_is_under_way),
    };
    return made_worker_main (argc, argv, tests);
}
