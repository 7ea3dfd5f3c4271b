/* test_gpuworker_together.c - batches that a worker's engine scores together: who gains, who is to
   blame (made_worker.h).  */
#include "tests/unit/made_worker.h"

/* The worker runs to its end, and each batch was scored once.  */
static void every_batch_is_scored (run_t *run, fake_t *broker, play_t *play)
{
    run_start (run, broker);
    assert_int_equal (run_wait_bye (run, play), WM_EXIT_OK);
    for (int b = 1; b <= N_BATCH; b++)
        assert_int_equal (play->got[b], 1);
}

/* An engine that gains by it gets several batches at once, up to as many hits as fill it; another
   one never.  */
static void batches_go_together (void **state)
{
    static const int fills[] = { 0, 3 * N_HIT, 1000 };
    for (int i = 0; i < 3; i++) {
        play_t play = { .n_batch = N_BATCH };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->score_ms = 3;
        told->fill = fills[i];
        every_batch_is_scored (&run, broker, &play);
        assert_int_equal (told->n_score, N_BATCH);
        assert_int_equal (play.progress, N_BATCH * N_HIT);
        assert_int_equal (told->n_many > 0, i > 0);
        assert_in_range (told->most, i == 0 ? 0 : i == 1 ? 3 : 4, i == 0 ? 0 : i == 1 ? 3 : 16);
        broker_gone (&broker, &play);
    }
}

/* Of a batch that is refused among others only that one is.  */
static void one_is_refused_among_others (void **state)
{
    play_t play = { .n_batch = 30 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->score_ms = 3;
    told->fill = 1000;
    told->refused = 20;
    run_start (&run, broker);
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
    for (int b = 1; b <= 30; b++) {
        assert_int_equal (play.got[b], b != 20);
        assert_int_equal (play.nacked[b], b == 20);
    }
    assert_int_equal (play.nack_code[20], WM_EBATCH);
    assert_true (told->n_many > 0);
    assert_int_equal (told->n_open, 1);
    broker_gone (&broker, &play);
}

/* Waits for the end of a run in which four hits kill the engine: every batch came back once, and no
   hit but these is held.  */
static void holds_four_hits (run_t *run, play_t *play)
{
    assert_int_equal (run_wait_bye (run, play), WM_EXIT_OK);
    for (int b = 1; b <= N_BATCH; b++)
        assert_int_equal (play->got[b], 1);
    assert_int_equal (play->n_poison, 4);
    assert_int_equal (nacks (play, WM_EHOST) + nacks (play, WM_EBATCH), 0);
}

/* Hits that kill it among batches of others: found, and neither neighbours nor the machine
   suffer.  */
static void poison_is_found_among_others (void **state)
{
    play_t play = { .n_batch = N_BATCH };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->score_ms = 2;
    told->fill = 1000;
    static const int bad[] = { 20003, 30000, 30006, 45001 };
    for (int k = 0; k < 4; k++)
        told->bad[k] = bad[k];
    run_start (&run, broker);
    holds_four_hits (&run, &play);
    assert_true (told->most > 1);
    forget_replays ();
    broker_gone (&broker, &play);
}

/* One that fails on batches together, and on none of them alone: an accident; three are too
   many.  */
static void accidents_of_batches_together (void **state)
{
    for (int always = 0; always < 2; always++) {
        play_t play = { .n_batch = N_BATCH };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->score_ms = 2;
        told->fill = 1000;
        told->many_failing = always ? -1 : 1;
        run_start (&run, broker);
        assert_int_equal (run_wait_bye (&run, &play), always ? WM_EXIT_FAILURE : WM_EXIT_OK);
        assert_int_equal (nacks (&play, WM_EHOST) + play.n_poison, 0);
        assert_true (told->n_many >= 3);
        assert_in_range (told->n_open, always ? 4 : 2, always ? 5 : 2); /* one may be on its way */
        for (int b = 1; b <= N_BATCH; b++)
            assert_int_equal (play.got[b], b <= play.n_got);
        broker_gone (&broker, &play);
    }
}

/* An engine that takes two calls at once has two batches whenever there are two.  */
static void two_batches_in_hand (void **state)
{
    for (int fill = 0; fill < 2 * N_HIT; fill += N_HIT) {
        play_t play = { .n_batch = N_BATCH };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->score_ms = 3;
        told->hands = 2;
        told->fill = fill;
        every_batch_is_scored (&run, broker, &play);
        assert_int_equal (told->n_score, N_BATCH);
        assert_int_equal (play.progress, N_BATCH * N_HIT);
        assert_int_equal (told->at_once, 2);
        assert_int_equal (told->n_open, 1);
        broker_gone (&broker, &play);
    }
}

/* Of two in hand one kills the engine: each then goes alone, and exactly the bad hits are held.  */
static void poison_is_found_in_two_hands (void **state)
{
    for (int manner = SEGV; manner <= SPOILS; manner++) {
        play_t play = { .n_batch = N_BATCH };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->score_ms = 2;
        told->hands = 2;
        told->fill = 1;
        told->manner = manner;
        static const int bad[] = { 20003, 30000, 30006, 31001 };
        for (int k = 0; k < 4; k++)
            told->bad[k] = bad[k];
        run_start (&run, broker);
        holds_four_hits (&run, &play);
        assert_int_equal (told->at_once, 2);
        assert_int_equal (told->n_mixed, 0);
        forget_replays ();
        broker_gone (&broker, &play);
    }
}

/* A call that hangs beside one that goes on: found at once, and exactly the bad hit is held.  */
static void one_of_two_hands_hangs (void **state)
{
    play_t play = { .n_batch = N_BATCH };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->score_ms = 2;
    told->hands = 2;
    told->fill = 1;
    told->manner = HANGS;
    told->bad[0] = 20003;
    every_batch_is_scored (&run, broker, &play);
    assert_true (told->hung > 1);
    assert_false (told->outlived);
    assert_int_equal (play.n_poison, 1); /* 20003: the broker checks which */
    assert_int_equal (nacks (&play, WM_EHOST) + nacks (&play, WM_EBATCH), 0);
    assert_int_equal (told->n_mixed, 0);
    forget_replays ();
    broker_gone (&broker, &play);
}

/* A call that fails beside another: the engine process ends after both, and only the failed batch
   is scored again.  */
static void one_of_two_hands_fails (void **state)
{
    play_t play = { .n_batch = N_BATCH };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->score_ms = 3;
    told->hands = 2;
    told->fill = 1;
    told->failing = 1 << 20;
    every_batch_is_scored (&run, broker, &play);
    assert_int_equal (told->n_open, 2);
    assert_int_equal (told->n_close, 2); /* the worker has to kill none */
    assert_int_equal (play.n_poison, 0);
    assert_int_equal (told->at_once, 2);
    broker_gone (&broker, &play);
}

int main (int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (batches_go_together),
        cmocka_unit_test (one_is_refused_among_others),
        cmocka_unit_test (poison_is_found_among_others),
        cmocka_unit_test (accidents_of_batches_together),
        cmocka_unit_test (two_batches_in_hand),
        cmocka_unit_test (poison_is_found_in_two_hands),
        cmocka_unit_test (one_of_two_hands_hangs),
        cmocka_unit_test (one_of_two_hands_fails),
    };
    return made_worker_main (argc, argv, tests);
}
