/* test_gpuworker_hands.c - the two threads of an engine process that score: which of them wakes for
   what, and what one does while the other cannot go on; and what a process that ended in a GPU's
   driver leaves to the next one.

   The test is the worker: it drives a scorer, whose engine process is this program in another mode,
   with the engine of made_worker.h.  */
#include "gpuworker/engine/wm_scorer.h"
#include "tests/unit/made_worker.h"

#include <poll.h>
#include <sys/syscall.h>

/* How the engine process waits, as the test tells it. The test shares this with its children.  */
static struct {
    atomic_int is_gated;  /* a thread that has nothing to do stops before it sleeps */
    atomic_int n_reading; /* threads that came there */
    atomic_int passes;    /* so many may go on */
    atomic_int holds_poll, n_polling;
    atomic_int tries_gpu, n_start, n_left; /* processes that begin, those that find what is left */
} * gate;

static wm_pins_t pins;

/* ---- the engine process ---------------------------------------------------------------------- */

ssize_t read (int fd, void *to, size_t n)
{
    if (n == 1 && gate && gate->is_gated) {
        gate->n_reading++;
        for (int passes = gate->passes;
             gate->is_gated &&
             (passes <= 0 || !atomic_compare_exchange_strong (&gate->passes, &passes, passes - 1));
             passes = gate->passes)
            usleep (1000);
    }
    return syscall (SYS_read, fd, to, n);
}

int ppoll (struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    if (gate && gate->holds_poll) {
        gate->n_polling++;
        while (gate->holds_poll)
            usleep (1000);
    }
    return poll (fds, n, (int) (timeout->tv_nsec / 1000000));
}

static void gate_map (void)
{
    char path[512];
    snprintf (path, sizeof path, "%s-gate", getenv ("WM_TEST_TOLD"));
    const int fd = open (path, O_RDWR | O_CREAT, 0600);
    CHECK (fd >= 0 && !ftruncate (fd, sizeof *gate));
    gate = mmap (NULL, sizeof *gate, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK (gate != MAP_FAILED);
    close (fd);
}

/* The first process ends in CUDA's driver, the second in OpenCL's, both behind a trial.  */
static void try_gpu (const char *files)
{
    static const uint32_t tried[] = { WM_GPU_TRIED_CUDA, WM_GPU_TRIED_OPENCL },
                          known[] = { WM_GPU_UNTRIED, WM_GPU_NOT_BY_CUDA, WM_GPU_DECLINED };
    int memory;
    wm_slots_t slots;
    CHECK (sscanf (files, "%d", &memory) == 1 && !wm_slots_map (&slots, memory, NULL));
    wm_control_t *control = slots.control;
    const int n = gate->n_start++;
    gate->n_left += *control->taken_precision || *control->taken_isa || *control->refused ||
                    *control->class || *control->signature || *control->strict ||
                    control->measured != 0 || control->n_measured ||
                    control->gpu != known[n < 2 ? n : 2];
    if (n < 2) {
        strcpy (control->taken_precision, "split"), strcpy (control->taken_isa, "avx512");
        strcpy (control->refused, "fast"), strcpy (control->class, "gpu");
        strcpy (control->signature, "cuda/split"), strcpy (control->strict, "cuda/fp32");
        control->measured = 0.5, control->n_measured = 7;
        control->gpu = tried[n];
        raise (SIGKILL);
    }
    slots.fd = -1; /* the process maps it again */
    wm_slots_clear (&slots);
}

/* ---- the worker ------------------------------------------------------------------------------ */

/* Returns the next event, which comes within 20 s.  */
static wm_scorer_event_t next_event (wm_scorer_t *scorer, uint64_t *slot, wm_error_t *error)
{
    wm_scorer_event_t event = WM_SCORER_NOTHING;
    for (int i = 0; i < 10000 && !event; i++) {
        event = wm_scorer_poll (scorer, slot, error);
        if (!event)
            zclock_sleep (2);
    }
    return event;
}

/* Starts an engine process with two threads that score. `told` says how it is, but for these.  */
static wm_scorer_t *scorer_new (int fill)
{
    char path[sizeof folder + 80];
    wm_error_t error;
    uint64_t slot;
    snprintf (path, sizeof path, "%s/%s", folder, model_hash);
    FILE *file = fopen (path, "we");
    assert_true (file && fwrite (model_bytes, 1, MODEL_BYTES, file) == MODEL_BYTES);
    fclose (file);
    strcpy (told->identity, pins.model);
    told->hands = 2;
    told->fill = fill;
    const wm_scorer_config_t config = {
        .engine = told->streams ? "cuda" : "auto", .threads = 2, .pins = &pins, .model_path = path
    };
    wm_scorer_t *scorer = wm_scorer_new (&config, &error);
    assert_non_null (scorer);
    assert_int_equal (next_event (scorer, &slot, &error), WM_SCORER_READY);
    return scorer;
}

static void submit (wm_scorer_t *scorer, unsigned slot, uint32_t number, bool alone)
{
    fill_batch (wm_scorer_batch (scorer, slot), number);
    wm_scorer_submit (scorer, slot, 0, N_HIT, alone);
}

/* Takes the results of n slots. Slot i had batch i + 1.  */
static void take_results (wm_scorer_t *scorer, unsigned n)
{
    uint8_t status[N_HIT];
    float scores[N_HIT * N_OUTPUT];
    for (unsigned i = 0; i < n; i++) {
        wm_error_t error = { 0 };
        double seconds;
        uint64_t slot;
        bool again;
        assert_int_equal (next_event (scorer, &slot, &error), WM_SCORER_SCORED);
        assert_int_equal (
            wm_scorer_answer (scorer, (unsigned) slot, status, scores, &seconds, &again, &error),
            WM_OK);
        assert_true (scores[N_OUTPUT] == (float) (1000 * (slot + 101) + 1));
    }
}

static int setup (void **state)
{
    wm_spec_t spec;
    wm_error_t error;
    if (!gate)
        gate_map ();
    memset (told, 0, sizeof *told);
    memset (gate, 0, sizeof *gate);
    pins = (wm_pins_t){ .precision = "fp32", .n_output = N_OUTPUT, .n_value = 9 };
    memset (pins.model, 'a', 64);
    if (wm_spec_preset (&spec, "protodune-2021", &error))
        return 1;
    wm_spec_print (&spec, pins.spec, sizeof pins.spec);
    return 0;
}

/* A thread that waits for more batches takes the wake of one, so that the next batch, for which it
   has no room, wakes the other thread.  */
static void a_batch_wakes_one_thread (void **state)
{
    gate->is_gated = 1;
    wm_scorer_t *scorer = scorer_new (2 * N_HIT);
    wait_for (&gate->n_reading, 2);
    gate->holds_poll = 1;
    gate->passes = 1;
    told->hold = 0xe;
    submit (scorer, 0, 1, false);
    wait_for (&gate->n_polling, 1); /* one thread has batch 1, and room for another */
    submit (scorer, 1, 2, false);
    submit (scorer, 2, 3, false);
    gate->holds_poll = 0;
    wait_for (&told->n_many, 1); /* it has two */
    gate->is_gated = 0;
    wait_for (&told->at_once, 2); /* the other thread has the third */
    told->hold = 0;
    take_results (scorer, 3);
    wm_scorer_destroy (&scorer);
}

/* A thread that came while a batch went alone goes on when that ends, not when a batch comes.  */
static void a_thread_goes_on_after_one_alone (void **state)
{
    wm_scorer_t *scorer = scorer_new (1);
    told->hold = 0xe;
    submit (scorer, 0, 1, true);
    wait_for (&told->n_score, 1);
    submit (scorer, 1, 2, false);
    submit (scorer, 2, 3, false);
    zclock_sleep (100); /* the other thread wakes for both, and must not begin */
    assert_int_equal (told->n_score, 1);
    told->hold = 0xc;
    wait_for (&told->at_once, 2);
    told->hold = 0;
    take_results (scorer, 3);
    wm_scorer_destroy (&scorer);
}

/* A batch that goes alone waits for the one before it, and the one after it waits for that.  */
static void one_alone_between_two (void **state)
{
    wm_scorer_t *scorer = scorer_new (1);
    told->hold = 0xe;
    submit (scorer, 0, 1, false);
    wait_for (&told->n_score, 1);
    submit (scorer, 1, 2, true);
    submit (scorer, 2, 3, false);
    for (int i = 1; i <= 3; i++) {
        wait_for (&told->n_score, i);
        zclock_sleep (20);
        assert_int_equal (told->n_score, i);
        told->hold &= ~(1 << i);
    }
    take_results (scorer, 3);
    assert_int_equal (told->at_once, 1);
    const double idle_s = 0.1 * 3, share = idle_s / (8 + idle_s);
    for (int i = 0; i < 15000 && wm_scorer_idle (scorer) != share; i++)
        zclock_sleep (2); /* the call ends after its results are there */
    assert_true (wm_scorer_idle (scorer) == share);
    wm_scorer_destroy (&scorer);
}

/* A thread that has room for more takes no batch along that goes alone.  */
static void one_alone_is_not_taken_along (void **state)
{
    gate->is_gated = 1;
    wm_scorer_t *scorer = scorer_new (2 * N_HIT);
    wait_for (&gate->n_reading, 2);
    submit (scorer, 0, 1, false);
    submit (scorer, 1, 2, true);
    gate->is_gated = 0;
    take_results (scorer, 2);
    assert_int_equal (told->n_many, 0);
    wm_scorer_destroy (&scorer);
}

/* Two calls fail: what the first one reports is why the process ended.  */
static void the_first_failure_is_the_reason (void **state)
{
    wm_error_t error = { 0 };
    uint64_t slots;
    wm_scorer_t *scorer = scorer_new (1);
    told->hold = 0x6;
    told->failing = 0x3;
    submit (scorer, 0, 1, false);
    wait_for (&told->n_score, 1);
    submit (scorer, 1, 2, false);
    wait_for (&told->n_score, 2);
    told->hold = 0x2;
    wait_for (&told->n_busy, 1); /* the call of batch 2 has failed, and said so */
    told->hold = 0;
    assert_int_equal (next_event (scorer, &slots, &error), WM_SCORER_ENDED_MANY);
    assert_int_equal (slots, 0x3);
    assert_string_equal (error.text, "the engine says no to batch 2");
    told->failing = 0;
    assert_int_equal (next_event (scorer, &slots, &error), WM_SCORER_READY);
    take_results (scorer, 2);
    wm_scorer_destroy (&scorer);
}

/* While strict fp32 checks one batch, the other thread scores the next one, and the worker does not
   take it for one that hangs when it waits for its own check.  */
static void a_check_holds_nobody_up (void **state)
{
    wm_error_t error;
    uint64_t slot;
    strcpy (pins.precision, "fast");
    strcpy (pins.max_error, "5e-03");
    setenv ("WM_WATCH_SHARE", "1", 1); /* every hit */
    told->judges = told->holds_judge = 1;
    wm_scorer_t *scorer = scorer_new (1);
    unsetenv ("WM_WATCH_SHARE");
    submit (scorer, 0, 1, false);
    wait_for (&told->n_judged, 1);
    submit (scorer, 1, 2, false);
    wait_for (&told->n_score, 2);
    const int64_t end_ms =
        zclock_mono () + 3000; /* after 2 s without progress it would be killed */
    while (zclock_mono () < end_ms) {
        assert_int_equal (wm_scorer_poll (scorer, &slot, &error), WM_SCORER_NOTHING);
        zclock_sleep (2);
    }
    assert_int_equal (told->n_judged, 1);
    told->holds_judge = 0;
    take_results (scorer, 2);
    assert_int_equal (told->n_judged, 2);
    wm_scorer_destroy (&scorer);
}

/* What is READY when a GPU's thread comes back goes to the GPU together, as much as keeps it
   busy.  */
static void what_is_ready_goes_together (void **state)
{
    enum { N = 12 };
    told->streams = 1;
    wm_scorer_t *scorer = scorer_new (4 * N_HIT); /* three launches are twelve batches */
    assert_true (wm_scorer_slots (scorer) == WM_SLOTS && wm_scorer_enough (scorer) > N * N_HIT);
    told->hold = 0x2;
    submit (scorer, 0, 1, false);
    wait_for (&told->n_score, 1);
    for (unsigned i = 1; i <= N + 1; i++)
        submit (scorer, i, i + 1, false);
    told->hold = 0;
    take_results (scorer, N + 2);
    assert_int_equal (told->most, N);
    assert_in_range (told->n_submit, 3, 4); /* one, twelve, and one as soon as there is room */
    wm_scorer_destroy (&scorer);
}

/* Of a GPU, too: what is checked does not hold the next batches up, each result leaves when its own
   check has ended, and one that goes alone waits for the checks.  */
static void a_check_holds_no_gpu_up (void **state)
{
    wm_error_t error;
    uint64_t slot;
    strcpy (pins.precision, "fast");
    strcpy (pins.max_error, "5e-03");
    setenv ("WM_WATCH_SHARE", "1", 1); /* every hit */
    told->judges = told->holds_judge = told->streams = 1;
    wm_scorer_t *scorer = scorer_new (100 * N_HIT);
    unsetenv ("WM_WATCH_SHARE");
    submit (scorer, 0, 1, false);
    wait_for (&told->n_judged, 1);
    submit (scorer, 1, 2, false);
    submit (scorer, 2, 3, false);
    wait_for (&told->n_score, 3);
    submit (scorer, 3, 4, true);
    const int64_t end_ms =
        zclock_mono () + 3000; /* after 2 s without progress it would be killed */
    while (zclock_mono () < end_ms) {
        assert_int_equal (wm_scorer_poll (scorer, &slot, &error), WM_SCORER_NOTHING);
        zclock_sleep (2);
    }
    assert_int_equal (told->n_judged, 1);
    assert_int_equal (told->n_score, 3);
    told->holds_judge = 0;
    take_results (scorer, 4);
    assert_int_equal (told->n_judged, 4);
    wm_scorer_destroy (&scorer);
}

/* A batch whose check disagrees, and which strict fp32 cannot score either, ends the process: what
   was scored by then leaves only after it was scored and checked again.  */
static void a_failed_check_hands_nothing_on (void **state)
{
    wm_error_t error = { 0 };
    uint64_t slots;
    strcpy (pins.precision, "fast");
    strcpy (pins.max_error, "5e-03");
    setenv ("WM_WATCH_SHARE", "1", 1); /* every hit */
    told->judges = told->holds_judge = told->streams = told->judge_lies = 1;
    wm_scorer_t *scorer = scorer_new (100 * N_HIT);
    for (unsigned i = 0; i < 3; i++)
        submit (scorer, i, i + 1, false);
    wait_for (&told->n_score, 3);
    told->holds_judge = 0;
    assert_int_equal (next_event (scorer, &slots, &error), WM_SCORER_ENDED_MANY);
    assert_int_equal (slots, 0x7);
    assert_string_equal (error.text, "the judge says no");
    assert_int_equal (told->n_judged, 2);
    assert_int_equal (next_event (scorer, &slots, &error), WM_SCORER_READY);
    take_results (scorer, 3);
    assert_int_equal (told->n_judged, 5);
    unsetenv ("WM_WATCH_SHARE");
    wm_scorer_destroy (&scorer);
}

/* An engine that ends while it tries a GPU leaves its trial's outcome to no other.  */
static void a_gpu_tried_in_vain_is_forgotten (void **state)
{
    const char *refused;
    uint32_t n_hit;
    gate->tries_gpu = 1;
    wm_scorer_t *scorer = scorer_new (1);
    assert_int_equal (gate->n_start, 3);
    assert_int_equal (gate->n_left, 0);
    assert_string_equal (wm_scorer_strict (scorer), "");
    assert_true (wm_scorer_measured (scorer, &n_hit, &refused) == 0 && !n_hit && !*refused);
    submit (scorer, 0, 1, false);
    take_results (scorer, 1);
    wm_scorer_destroy (&scorer);
}

int main (int argc, char **argv)
{
    if (argc > 2 && !strcmp (argv[1], WM_ENGINE_MODE)) {
        gate_map ();
        if (gate->tries_gpu)
            try_gpu (argv[2]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup (a_batch_wakes_one_thread, setup),
        cmocka_unit_test_setup (a_thread_goes_on_after_one_alone, setup),
        cmocka_unit_test_setup (one_alone_between_two, setup),
        cmocka_unit_test_setup (one_alone_is_not_taken_along, setup),
        cmocka_unit_test_setup (the_first_failure_is_the_reason, setup),
        cmocka_unit_test_setup (a_check_holds_nobody_up, setup),
        cmocka_unit_test_setup (what_is_ready_goes_together, setup),
        cmocka_unit_test_setup (a_check_holds_no_gpu_up, setup),
        cmocka_unit_test_setup (a_failed_check_hands_nothing_on, setup),
        cmocka_unit_test_setup (a_gpu_tried_in_vain_is_forgotten, setup),
    };
    return made_worker_main (argc, argv, tests);
}
