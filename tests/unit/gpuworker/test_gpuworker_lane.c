/* test_gpuworker_lane.c - how long a lane may go on, what it tells of a shortage, and files of
   replays that are damaged.  */
#include "gpuworker/wm_lane_private.h"
#include "gpuworker/wm_replay.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void time_that_is_left (void **state)
{
    static const struct {
        double wall_s, idle_s;
        int64_t started_s, busy_s; /* ago */
        bool is_busy;
        int64_t left_s; /* -1: for ever */
        const char *why;
    } list[] = {
        { 0, 0, 5000, 5000, false, -1, "no work for its idle time" },
        { 0, 5000, 9000, 5000, false, 0, "no work for its idle time" }, /* on the millisecond */
        { 5000, 0, 5000, 9000, true, 0, "its wall time is over" },
        { 7000, 5000, 5000, 3000, false, 2000, "no work for its idle time" }, /* both at once */
        { 90000, 0, 5000, 3000, false, 85000, "its wall time is over" },
        { 0, 90000, 5000, 3000, false, 87000, "no work for its idle time" },
        { 0, 90000, 5000, 3000, true, 90000, "no work for its idle time" },
        { 90000, 80000, 5000, 3000, false, 77000, "no work for its idle time" },
        { 80000, 90000, 5000, 3000, false, 75000, "its wall time is over" },
        { 80000, 75000, 5000, 0, true, 75000, "no work for its idle time" },
        { 1000, 90000, 5000, 3000, false, -4000, "its wall time is over" },
        { 90000, 1000, 5000, 3000, false, -2000, "no work for its idle time" },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const wm_worker_config_t config = { .wall_s = list[i].wall_s, .idle_s = list[i].idle_s };
        const int64_t now = INT64_C (1) << 40;
        _Atomic int64_t busy_ms = now - 1000 * list[i].busy_s;
        wm_lane_t lane = { .config = &config,
                           .busy_ms = &busy_ms,
                           .start_ms = now - 1000 * list[i].started_s };
        const char *why = NULL;
        const int64_t left = wm_lane_time_left (&lane, now, list[i].is_busy, &why);
        assert_string_equal (why, list[i].why);
        if (left != (list[i].left_s == -1 ? INT64_MAX : 1000 * list[i].left_s))
            fail_msg ("row %zu: %lld ms", i, (long long) left);
        assert_int_equal (busy_ms, list[i].is_busy ? now : now - 1000 * list[i].busy_s);
        _Atomic unsigned n_main = 1; /* one that is beside others ends with them */
        lane.n_main = &n_main;
        assert_true (wm_lane_time_left (&lane, now, false, &why) == left);
        assert_string_equal (why, list[i].why);
        n_main = 0;
        assert_int_equal (wm_lane_time_left (&lane, now, false, &why), 0);
        assert_string_equal (why, "the brokers beside which it is served have ended");
    }
}

/* Three failures drain a lane whose first and last are failures_ms apart at most; each later one
   counts with the two before it. Times in ms, as differences to the one before.  */
static void failures_that_drain (void **state)
{
    const int64_t most = wm_times ()->failures_ms;
    const struct {
        int64_t after[5], ms[5]; /* -1: the lane goes on */
    } list[] = {
        { { 1000, 0, 0, 0, 0 }, { -1, -1, 0, 0, 0 } },
        { { 1000, 999, 1, 0, 500 }, { -1, -1, 1000, 1, 500 } },
        { { 1000, most, 0, 0, 1 }, { -1, -1, most, 0, 1 } },
        { { 1000, most, 1, most - 1, 1 }, { -1, -1, -1, most, most } },
        { { 1000, 1, most, most, most }, { -1, -1, -1, -1, -1 } },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        wm_lane_t lane = { .n_end = 0 };
        int64_t now = 0;
        for (int k = 0; k < 5; k++) {
            now += list[i].after[k];
            const int64_t ms = wm_lane_note_failure (&lane, now);
            if (ms != list[i].ms[k])
                fail_msg ("row %zu, failure %d: %lld ms", i, k, (long long) ms);
        }
    }
}

/* The text goes into JSON, and stays within its 160 bytes.  */
static void what_is_short (void **state)
{
    char large[400];
    wm_lane_t lane = { .short_ms = 0 };
    const int64_t now = wm_now_ms ();
    wm_lane_is_short (&lane, "no \"memory\" of C:\\x\n\t for 3 batches~ \x1f");
    assert_string_equal (lane.short_of, "no 'memory' of C:'x'' for 3 batches~ '");
    assert_true (lane.short_ms >= now && lane.short_ms <= wm_now_ms ());
    memset (large, 'x', sizeof large);
    large[sizeof large - 1] = 0;
    wm_lane_is_short (&lane, large);
    assert_int_equal (strlen (lane.short_of), 159);
    const wm_worker_config_t config = { .engine = "openvino" };
    lane.config = &config;
    assert_string_equal (wm_lane_starts (&lane), "the engine openvino starts");
}

/* ---- replays --------------------------------------------------------------------------------- */

/* What wm_replay_run prints on stderr of a file with this content, which it refuses.  */
static const char *refusal (const char *content, const char *cache)
{
    static char text[1000];
    char path[] = "/tmp/wm-replay-XXXXXX", said[] = "/tmp/wm-said-XXXXXX";
    const int to = mkstemp (path), at = mkstemp (said), before = dup (2);
    assert_int_equal (write (to, content, strlen (content)), strlen (content));
    close (to);
    fflush (stderr);
    dup2 (at, 2);
    const int code = wm_replay_run (path, cache);
    dup2 (before, 2);
    close (before);
    const ssize_t n = pread (at, text, sizeof text - 1, 0);
    close (at);
    text[n < 0 ? 0 : n] = 0;
    unlink (path), unlink (said);
    assert_int_equal (code, WM_EXIT_INPUT);
    return text;
}

static void replays_that_are_damaged (void **state)
{
    static const char version[] = "is not a replay file of this version",
                      damaged[] = "is a damaged replay file";
    static const struct {
        const char *content, *text;
    } list[] = {
        { "x", version },
        { "wiremill-replay 2\n", version },
        { "wiremill-replay 1", version },
        { "wiremill-replays 1\n", version },
        { "wiremill-replay 12345678\n", version },
        { "wiremill-replay 1\n", damaged },
        { "wiremill-replay 1\nengine 0123456789abcdef\nthreads 1\nhit 1\nhow h\npins 0\nframe 0\n",
          damaged },
        { "wiremill-replay 1\nengine e\nhit 1\nhow h\npins 0\nframe 0\n", damaged },
        { "wiremill-replay 1\nengine e\nthreads 1\nhow h\npins 0\nframe 0\n", damaged },
        { "wiremill-replay 1\nengine e\nthreads 1\nhit 1\npins 0\nframe 0\n", damaged },
        { "wiremill-replay 1\nengine e\nthreads 1\nhit 1\nhow h\nframe 0\n", damaged },
        { "wiremill-replay 1\nengine e\nthreads 1\nhit 1\nhow h\npins 0\n", damaged },
        { "wiremill-replay 1\nengine e\nthreads 1\nhit 1\nhow h\npins 99\nframe 0\n", damaged },
        { "wiremill-replay 1\nengine e\nthreads 1\nhit 1\nhow h\npins 0\nframe 1\n", damaged },
        { "wiremill-replay 1\nengine e\nthreads 0\nhit 1\nhow h\npins 0\nframe 0\n", damaged },
        { "wiremill-replay 1\nengine e\nthreads 1025\nhit 1\nhow h\npins 0\nframe 0\n", damaged },
        { "wiremill-replay 1\nengine e\nthreads x\nhit 1\nhow h\npins 0\nframe 0\n", damaged },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strstr (refusal (list[i].content, NULL), list[i].text))
            fail_msg ("row %zu: %s", i, refusal (list[i].content, NULL));
    /* complete, as far as its pins, which are those of no campaign */
    static const char *const whole[] = {
        "wiremill-replay 1\nengine e\nthreads 1\nhit 1\nhow h\npins 0\nframe 0\n",
        "wiremill-replay 1\nengine 0123456789abcde\nthreads 1024\nhit 1\nhow h\n"
        "pins 2\n{}frame 1\nx",
    };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        const char *text = refusal (whole[i], NULL);
        if (strstr (text, damaged) || strstr (text, version))
            fail_msg ("whole %zu: %s", i, text);
        assert_memory_equal (text, "wiremill-worker: ", 17);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (time_that_is_left),
                                        cmocka_unit_test (failures_that_drain),
                                        cmocka_unit_test (what_is_short),
                                        cmocka_unit_test (replays_that_are_damaged) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
