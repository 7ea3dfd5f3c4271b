/* test_gpuworker_worker.c - a whole worker against a scripted broker, with a made-up engine
   (made_worker.h).  */
#include "tests/unit/made_worker.h"

/* ---- the tests ------------------------------------------------------------------------------- */

/* Sends stderr to a file without a name.  */
static int listen_in (int *before)
{
    char path[] = "/tmp/wm-said-XXXXXX";
    const int at = mkstemp (path);
    unlink (path);
    *before = dup (2);
    dup2 (at, 2);
    return at;
}

/* Ends that; returns what was printed.  */
static const char *all_heard (int at, int before)
{
    static char text[1 << 16];
    dup2 (before, 2);
    close (before);
    const ssize_t n = pread (at, text, sizeof text - 1, 0);
    close (at);
    text[n < 0 ? 0 : n] = 0;
    return text;
}

/* The line at the end has what was done. Each call took 20 ms.  */
static void heard (int at, int before)
{
    unsigned n_batch, n_hit, n_held;
    double engine_s;
    const char *line = strstr (all_heard (at, before), " leaves ");
    assert_non_null (line);
    assert_int_equal (sscanf (line, " leaves %*s after %*f s: %u batches, %u hits (%u held), %lf",
                              &n_batch, &n_hit, &n_held, &engine_s),
                      4);
    assert_int_equal (n_batch, N_BATCH);
    assert_int_equal (n_hit, N_BATCH * N_HIT);
    assert_int_equal (n_held, 0);
    assert_true (engine_s >= 0.02 * N_BATCH - 0.1);
}

static void scores_everything_and_leaves (void **state)
{
    for (int i = 0; i < 2; i++) { /* the second time from the cache */
        play_t play = { .n_batch = N_BATCH };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->score_ms = 20; /* three heartbeats and more while it works */
        int before;
        const int at = listen_in (&before);
        run_start (&run, broker);
        const int code = run_wait_bye (&run, &play);
        heard (at, before);
        assert_int_equal (code, WM_EXIT_OK);
        for (int b = 1; b <= N_BATCH; b++)
            assert_int_equal (play.got[b], 1);
        assert_int_equal (play.n_model, i == 0 ? 2 : 0);
        assert_int_equal (play.bye_code, WM_REASON_DRAINED);
        assert_int_equal (told->n_test, 1);
        assert_true (play.n_working >= 3);
        assert_int_equal (play.progress, N_BATCH * N_HIT);
        assert_int_equal (broker->undecodable, 0);
        broker_gone (&broker, &play);
    }
}

static void damaged_cache (void **state)
{
    play_t play = { .n_batch = 1 };
    run_t run;
    char path[256];
    fake_t *broker = broker_for (&play);
    snprintf (path, sizeof path, "%s/cache/deep/%s.wmm", folder, model_hash);
    FILE *file = fopen (path, "r+");
    assert_non_null (file);
    fputs ("damage", file);
    fclose (file);
    run_start (&run, broker);
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
    assert_int_equal (play.n_model, 2);
    assert_int_equal (play.n_got, 1);
    broker_gone (&broker, &play);
}

static void wrong_models (void **state)
{
    char path[256];
    snprintf (path, sizeof path, "%s/cache/deep/%s.wmm", folder, model_hash);
    for (int what = 1; what <= 4; what++) {
        play_t play = { .n_batch = 1, .wrong_model = what };
        run_t run;
        fake_t *broker = broker_for (&play);
        if (what == 4)
            strcpy (told->identity, "cccc");
        else
            unlink (path);
        run_start_idle (&run, broker, 60); /* it fails first, on any machine */
        assert_int_equal (run_wait (&run), what == 4 ? WM_EXIT_INPUT : WM_EXIT_FAILURE);
        assert_int_equal (play.hellos, 0);
        if (what < 4)
            assert_int_not_equal (access (path, F_OK), 0);
        broker_gone (&broker, &play);
        if (what == 3) { /* for those after us */
            play_t good = { 0 };
            broker = broker_for (&good);
            run_start (&run, broker);
            assert_int_equal (run_wait (&run), WM_EXIT_OK);
            broker_gone (&broker, &good);
        }
    }
}

/* A worker whose time is up without a broker is told what to start, one that is interrupted or
   refused is not.  */
static void no_broker (void **state)
{
    enum { ABSENT, INTERRUPTED, REFUSES };
    for (int how = ABSENT; how <= REFUSES; how++) {
        play_t play = { .refuses = how == REFUSES ? WM_REASON_ROLE : 0 };
        run_t run;
        fake_t *broker = broker_for (&play);
        if (how != REFUSES)
            fake_stop (broker);
        zsys_interrupted = how == INTERRUPTED;
        int before;
        const int at = listen_in (&before);
        run_start_idle (&run, broker, 60);
        const int code = run_wait (&run);
        const char *text = all_heard (at, before);
        assert_int_equal (code, how == ABSENT    ? WM_EXIT_UNREACHABLE
                                : how == REFUSES ? WM_EXIT_FAILURE
                                                 : WM_EXIT_AGAIN);
        assert_non_null (strstr (text, how == REFUSES ? "said the test" : broker->endpoint));
        assert_int_equal (strstr (text, "gives up after 2 s: start") != NULL, how == ABSENT);
        broker_gone (&broker, &play);
    }
}

/* A session that ends before the model is there is followed by another one, unless the worker has
   been idle for its idle time by then.  */
static void a_session_ends_before_the_model_is_there (void **state)
{
    char path[256];
    snprintf (path, sizeof path, "%s/cache/deep/%s.wmm", folder, model_hash);
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        play_t play = { .n_batch = 3, .leaves = goes_on ? 2 : 1000 };
        run_t run;
        unlink (path);
        fake_t *broker = broker_for (&play);
        if (goes_on)
            play.say_at = 3, play.say = WM_MSG_DRAIN;
        run_start_idle (&run, broker, goes_on ? 60 : 0.3);
        assert_int_equal (run_wait (&run), WM_EXIT_OK);
        assert_int_equal (play.n_got, goes_on ? 3 : 0);
        assert_int_equal (play.leaves, goes_on ? 0 : 999);
        broker_gone (&broker, &play);
    }
}

static void self_test_first (void **state)
{
    play_t play = { .n_batch = 1 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->test_failing = 1;
    run_start_idle (&run, broker, 60);
    assert_int_equal (run_wait (&run), WM_EXIT_FAILURE);
    assert_int_equal (play.hellos, 0); /* it never asked for work */
    broker_gone (&broker, &play);
}

static void keeps_until_acknowledged (void **state)
{
    play_t play = { .n_batch = N_BATCH, .mute_acks = 1, .late_revoke = 1 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->score_ms = 3;
    run_start (&run, broker);
    wait_for (&play.n_got, 20);
    fake_stop (broker); /* killed: nothing was acknowledged */
    int before = play.n_got;
    play.mute_acks = 0;
    zclock_sleep (20);
    fake_start (broker);
    assert_int_equal (run_wait (&run), WM_EXIT_OK);
    assert_int_equal (play.hellos, 2);
    assert_true (play.held_unacked >= before);
    assert_int_equal (play.held_key[1], 2); /* REVOKE ends work, no result */
    assert_int_equal (play.n_over, 0);      /* what it received is counted by session */
    int lost = 0;
    for (int b = 1; b <= play.sent; b++) {
        lost +=
            !play.got[b]; /* its TASK was on the way when the broker died: the broker's business */
        assert_true (!play.held_key[b] || (play.got[b] && play.acked[b]));
        assert_true (play.held_key[b] || play.got[b] <= 1);
    }
    assert_true (play.n_got >= before + play.sent - lost); /* each of the first came again */
    assert_int_equal (told->n_score, play.sent - lost);    /* and none was computed twice */
    broker_gone (&broker, &play);
}

static void bad_batches_are_refused_by_name (void **state)
{
    for (int damage = 1; damage <= 3; damage++) {
        play_t play = { .n_batch = 30, .damage = damage };
        run_t run;
        fake_t *broker = broker_for (&play);
        run_start (&run, broker);
        assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
        for (int b = 1; b <= 30; b++) {
            assert_int_equal (play.got[b], b % 3 != 0);
            assert_int_equal (play.nacked[b], b % 3 == 0);
            assert_int_equal (play.nack_code[b], b % 3 == 0 ? WM_EBATCH : 0);
        }
        assert_int_equal (told->n_open, 1); /* the engine never saw them */
        broker_gone (&broker, &play);
    }
}

/* An engine that fails once, without any hit that would explain it: nobody notices.  */
static void accidents (void **state)
{
    for (int i = 0; i < 3; i++) {
        play_t play = { .n_batch = 10 };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->failing = i == 0; /* the first call fails, or hangs */
        told->hangs = i == 1;
        told->score_ms = 20;
        run_start (&run, broker);
        if (i == 2) { /* or it is killed from outside */
            wait_for (&play.n_got, 2);
            kill (told->engine, SIGKILL);
        }
        assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
        assert_int_equal (play.n_got, 10);
        assert_int_equal (told->n_open, 2);
        assert_int_equal (nacks (&play, WM_EHOST) + play.n_poison, 0);
        broker_gone (&broker, &play);
    }
}

/* Results name the engine that scored them: one that comes back as another ends the worker,
   and none of its scores are returned.  */
static void an_engine_that_comes_back_as_another (void **state)
{
    play_t play = { .n_batch = 10 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->changes = 2;
    told->failing = 8; /* the fourth call */
    run_start_idle (&run, broker, 60);
    assert_int_equal (run_wait (&run), WM_EXIT_FAILURE);
    assert_int_equal (told->n_open, 2);
    assert_int_equal (play.n_got, 3);
    broker_gone (&broker, &play);
}

/* One that fails whatever it is given: after three batches the worker leaves.  */
static void a_machine_that_always_fails (void **state)
{
    play_t play = { .n_batch = 10 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->failing = -1;
    run_start (&run, broker);
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_FAILURE);
    assert_int_equal (nacks (&play, WM_EHOST), 3);
    assert_int_equal (told->n_score, 21); /* seven deaths of each */
    assert_int_equal (play.n_got, 0);
    assert_int_equal (play.bye_code, WM_REASON_FAILED);
    assert_true (play.sent <= 4); /* a black hole eats little */
    broker_gone (&broker, &play);
}

/* One that has no memory for a batch: the worker leaves and nothing is held against a batch. Where
   there is memory for a part, all is scored in parts.  */
static void a_machine_without_memory (void **state)
{
    char vmstat[sizeof folder + 16];
    snprintf (vmstat, sizeof vmstat, "%s/vmstat", folder);
    setenv ("WM_VMSTAT", vmstat, 1);
    for (int manner = ENDS; manner <= KILLED; manner++)
        for (int fits = 0; fits <= 2; fits += 2) {
            play_t play = { .n_batch = 6 };
            run_t run;
            unlink (vmstat);
            fake_t *broker = broker_for (&play);
            told->starves = manner;
            told->fits = fits;
            run_start (&run, broker);
            assert_int_equal (run_wait_bye (&run, &play), fits ? WM_EXIT_OK : WM_EXIT_FAILURE);
            assert_int_equal (play.n_got, fits ? 6 : 0);
            assert_int_equal (nacks (&play, WM_EHOST) + nacks (&play, WM_EBATCH) + play.n_poison,
                              0);
            assert_int_equal (nacks (&play, WM_EAGAIN) > 0, !fits);
            broker_gone (&broker, &play);
        }
    unsetenv ("WM_VMSTAT");
}

/* A worker that gave a batch back for want of memory gets no other before it grants credit: it
   does, although it has granted more than it wants by now.  */
static void credit_after_a_batch_that_came_back (void **state)
{
    char vmstat[sizeof folder + 16];
    play_t play = { .n_batch = 5 };
    run_t run;
    snprintf (vmstat, sizeof vmstat, "%s/vmstat", folder);
    setenv ("WM_VMSTAT", vmstat, 1);
    fake_t *broker = broker_for (&play);
    run_start_idle (&run, broker, 60);
    wait_for (&play.n_got, 5); /* its window has grown */
    told->starves = ENDS;
    play.n_batch = 6;
    for (int i = 0; i < 15000 && !nacks (&play, WM_EAGAIN); i++)
        zclock_sleep (2);
    assert_int_equal (nacks (&play, WM_EAGAIN), 1);
    told->starves = 0;
    play.n_batch = 8;
    wait_for (&play.n_got, 7);
    zsys_interrupted = 1;
    assert_int_equal (run_wait (&run), WM_EXIT_AGAIN);
    broker_gone (&broker, &play);
    unsetenv ("WM_VMSTAT");
}

static void failed_tests_after_a_failure (void **state)
{
    for (int leaves = 0; leaves < 2; leaves++) {
        play_t play = { .n_batch = 10 };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->failing = 1;
        told->test_failing = leaves ? 14 : 2; /* from the second start on: three times, or once */
        run_start (&run, broker);
        assert_int_equal (run_wait_bye (&run, &play), leaves ? WM_EXIT_FAILURE : WM_EXIT_OK);
        assert_int_equal (told->n_open, leaves ? 4 : 3);
        assert_int_equal (play.n_got, leaves ? 0 : 10);
        assert_int_equal (play.bye_code, leaves ? WM_REASON_FAILED : WM_REASON_DRAINED);
        assert_int_equal (nacks (&play, WM_EHOST), 0); /* given back, blamed on nobody */
        broker_gone (&broker, &play);
    }
}

static void an_engine_that_cannot_start (void **state)
{
    const wm_fault_t faults[] = { WM_EHOST, WM_EBATCH };
    for (int i = 0; i < 2; i++) {
        play_t play = { .n_batch = 1 };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->refuses = (int) faults[i];
        run_start (&run, broker);
        assert_int_equal (run_wait (&run), i ? WM_EXIT_INPUT : WM_EXIT_ENGINE);
        assert_int_equal (told->n_open, 1); /* and it is not tried again */
        assert_int_equal (play.hellos, 0);
        broker_gone (&broker, &play);
    }
}

/* ---- poison ---------------------------------------------------------------------------------- */

/* Hits that kill the engine are held, their neighbours keep their bits, a file shows it again.  */
static void poison_is_found (void **state)
{
    for (int manner = SEGV; manner <= SPOILS; manner++) {
        play_t play = { .n_batch = 12 };
        run_t run;
        char path[512];
        n_cell = manner == SEGV ? 3 : 1;
        fake_t *broker = broker_for (&play);
        told->manner = manner;
        told->bad[0] = 1003;
        told->bad[1] = manner == SPOILS ? 0 : 5000;
        told->bad[2] = manner == SPOILS ? 0 : 5006;
        run_start (&run, broker);
        assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
        assert_int_equal (play.n_got, 12);
        assert_int_equal (play.n_poison, manner == SPOILS ? 1 : 3);
        assert_int_equal (nacks (&play, WM_EHOST) + nacks (&play, WM_EBATCH), 0);
        replay_path (path);
        assert_int_equal (wm_replay_run (path, NULL), WM_EXIT_HELD);
        memset (told->bad, 0, sizeof told->bad); /* mended */
        assert_int_equal (wm_replay_run (path, NULL), WM_EXIT_OK);
        told->refuses = WM_EHOST;
        assert_int_equal (wm_replay_run (path, NULL), WM_EXIT_ENGINE);
        forget_replays ();
        broker_gone (&broker, &play);
    }
}

static void replay_files_are_checked (void **state)
{
    char path[sizeof folder + 16];
    snprintf (path, sizeof path, "%s/none", folder);
    assert_int_equal (wm_replay_run (path, NULL), WM_EXIT_INPUT);
    static const char *const texts[] = { "x", "wiremill-replay 2\n",
                                         "wiremill-replay 1\nengine auto\n",
                                         "wiremill-replay 1\nengine auto\nthreads 0\n"
                                         "hit 1\nhow x\npins 99999\n" };
    for (int i = 0; i < 4; i++) {
        FILE *file = fopen (path, "w");
        fputs (texts[i], file);
        fclose (file);
        assert_int_equal (wm_replay_run (path, NULL), WM_EXIT_INPUT);
    }
}

/* A drain does not wait for a search: the batch is somebody else's.  */
static void a_drain_ends_the_search (void **state)
{
    play_t play = { .n_batch = 1 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->bad[0] = 1003;
    told->score_ms = 100;
    run_start (&run, broker);
    wait_for (&told->n_open, 2);
    zsys_interrupted = 1;
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_AGAIN);
    assert_int_equal (play.n_got, 0);
    assert_int_equal (nacks (&play, WM_EAGAIN), 1);
    broker_gone (&broker, &play);
}

static void signal_drains (void **state)
{
    play_t play = { .n_batch = 8 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->score_ms = 30;
    run_start (&run, broker);
    wait_for (&play.sent, 8);
    zsys_interrupted = 1;
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_AGAIN);
    assert_int_equal (play.bye_code, WM_REASON_DRAINED);
    int back = 0;
    for (int b = 1; b <= 8; b++) {
        assert_int_equal (play.got[b] + play.nacked[b], 1); /* done, or given back */
        assert_int_equal (play.nack_code[b], play.nacked[b] ? WM_EAGAIN : 0);
        back += play.nacked[b];
    }
    assert_true (back >= 1);
    assert_int_equal (told->n_score, play.n_got);
    broker_gone (&broker, &play);
}

/* The GPU loses bits of its memory while it works: everything is given back, with the reason.  */
static void an_error_of_memory_drains (void **state)
{
    char library[64], path[64], line[256];
    play_t play = { .n_batch = N_BATCH };
    run_t run;
    snprintf (library, sizeof library, "%s/nvml.so", folder);
    snprintf (path, sizeof path, "%s/ecc", folder);
    snprintf (line, sizeof line, "${CC:-gcc} -shared -fPIC -x c tests/unit/fake_nvml.h -o %s",
              library);
    assert_int_equal (system (line), 0);
    setenv ("WM_NVML_SO", library, 1);
    setenv ("WM_FAKE_NVML_ECC", path, 1);
    fake_t *broker = broker_for (&play);
    told->score_ms = 30;
    run_start (&run, broker);
    wait_for (&play.n_working, 3);
    FILE *file = fopen (path, "w");
    fputs ("1", file);
    fclose (file);
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_FAILURE);
    assert_int_equal (play.bye_code, WM_REASON_FAILED);
    assert_true (play.n_got < N_BATCH);
    int had = play.sent; /* but for those that were on their way when it left */
    while (had > 0 && !play.got[had] && !play.nacked[had])
        had--;
    assert_true (had >= 3);
    for (int b = 1; b <= had; b++)
        assert_int_equal (play.got[b] + play.nacked[b], 1);
    assert_int_equal (nacks (&play, WM_EAGAIN), had - play.n_got);
    assert_int_equal (told->n_open, 1);
    unsetenv ("WM_NVML_SO");
    unsetenv ("WM_FAKE_NVML_ECC");
    broker_gone (&broker, &play);
}

static void broker_says_so (void **state)
{
    static const wm_msg_type_t words[] = { WM_MSG_DRAIN, WM_MSG_BYE };
    for (int i = 0; i < 2; i++) {
        play_t play = { .n_batch = N_BATCH, .say_at = 5, .say = words[i] };
        run_t run;
        fake_t *broker = broker_for (&play);
        told->score_ms = 10;
        run_start (&run, broker);
        assert_int_equal (run_wait (&run), WM_EXIT_OK);
        assert_true (told->n_score < N_BATCH);
        broker_gone (&broker, &play);
    }
}

/* A worker that leaves reports what it has scored since its last heartbeat.  */
static void the_last_heartbeat_has_all (void **state)
{
    play_t play = { .n_batch = 5, .say_at = 5, .say = WM_MSG_DRAIN };
    run_t run;
    fake_t *broker = broker_for (&play);
    run_start_idle (&run, broker, 60);
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
    assert_int_equal (play.progress, 5 * N_HIT);
    broker_gone (&broker, &play);
}

static void revoked_work_is_dropped (void **state)
{
    play_t play = { .n_batch = 10, .revoke = 1 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->score_ms = 10;
    run_start (&run, broker);
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
    assert_int_equal (play.n_got, 9);
    assert_int_equal (play.got[5] + play.nacked[5], 0);
    assert_int_equal (told->n_score, 9);
    broker_gone (&broker, &play);
}

/* An acknowledgement of a batch that it has not answered, as of an earlier session, ends
   nothing.  */
static void an_early_acknowledgement_ends_nothing (void **state)
{
    play_t play = { .n_batch = 10, .early_ack = 1 };
    run_t run;
    fake_t *broker = broker_for (&play);
    told->score_ms = 10;
    run_start (&run, broker);
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
    assert_int_equal (play.n_got, 10);
    assert_int_equal (play.got[5], 1);
    broker_gone (&broker, &play);
}

/* A TASK of a batch whose result it has still: the same batch is answered by that result, another
   one under its key is not taken.  */
static void a_repeated_task (void **state)
{
    play_t play = { .n_batch = 2, .mute_acks = 1, .repeat = 1 };
    run_t run;
    fake_t *broker = broker_for (&play);
    run_start (&run, broker);
    assert_int_equal (run_wait_bye (&run, &play), WM_EXIT_OK);
    assert_int_equal (play.got[1], 2);
    assert_int_equal (play.nacked[1], 1);
    assert_int_equal (play.nack_code[1], WM_EAGAIN);
    assert_int_equal (play.got[2], 1);
    assert_int_equal (told->n_score, 2);
    broker_gone (&broker, &play);
}

static void another_campaign (void **state)
{
    play_t play = { .n_batch = 5 };
    run_t run;
    fake_t *broker = broker_for (&play);
    run_start (&run, broker);
    wait_for (&play.n_got, 5);
    fake_stop (broker);
    broker->campaign[0] ^= 1;
    fake_start (broker);
    assert_int_equal (run_wait (&run), WM_EXIT_FAILURE);
    broker_gone (&broker, &play);
}

int main (int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (scores_everything_and_leaves),
        cmocka_unit_test (damaged_cache),
        cmocka_unit_test (wrong_models),
        cmocka_unit_test (no_broker),
        cmocka_unit_test (a_session_ends_before_the_model_is_there),
        cmocka_unit_test (self_test_first),
        cmocka_unit_test (keeps_until_acknowledged),
        cmocka_unit_test (bad_batches_are_refused_by_name),
        cmocka_unit_test (accidents),
        cmocka_unit_test (an_engine_that_comes_back_as_another),
        cmocka_unit_test (a_machine_that_always_fails),
        cmocka_unit_test (a_machine_without_memory),
        cmocka_unit_test (credit_after_a_batch_that_came_back),
        cmocka_unit_test (failed_tests_after_a_failure),
        cmocka_unit_test (an_engine_that_cannot_start),
        cmocka_unit_test (poison_is_found),
        cmocka_unit_test (replay_files_are_checked),
        cmocka_unit_test (a_drain_ends_the_search),
        cmocka_unit_test (signal_drains),
        cmocka_unit_test (an_error_of_memory_drains),
        cmocka_unit_test (broker_says_so),
        cmocka_unit_test (the_last_heartbeat_has_all),
        cmocka_unit_test (revoked_work_is_dropped),
        cmocka_unit_test (an_early_acknowledgement_ends_nothing),
        cmocka_unit_test (a_repeated_task),
        cmocka_unit_test (another_campaign),
    };
    return made_worker_main (argc, argv, tests);
}
