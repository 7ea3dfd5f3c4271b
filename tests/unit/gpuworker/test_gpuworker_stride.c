/* test_gpuworker_stride.c - which lane computes next: clients first, bulk campaigns a stated share,
   by weight within a kind. Seconds are given, not measured.  */
#include "gpuworker/wm_stride.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { LANES = 4 };

static wm_stride_t *stride;
static int holder; /* -1: nobody */

static bool is_signalled (unsigned lane)
{
    struct pollfd item = { .fd = wm_stride_fd (stride, lane), .events = POLLIN };
    return poll (&item, 1, 0) == 1;
}

static void start (unsigned n_clients, const unsigned weight[LANES], unsigned bulk_percent)
{
    stride = wm_stride_new (LANES, weight, bulk_percent);
    for (unsigned i = 0; i < n_clients; i++)
        wm_stride_serves_clients (stride, i);
    holder = -1;
}

static void ask (unsigned lane)
{
    if (wm_stride_request (stride, lane))
        holder = (int) lane;
}

/* The holder's round ends; whoever is next learns of it. Returns who that is.  */
static int next (double seconds, bool has_more)
{
    const int last = holder;
    holder = -1;
    wm_stride_release (stride, (unsigned) last, seconds, has_more);
    for (unsigned i = 0; i < LANES; i++)
        if ((int) i != last && is_signalled (i)) {
            assert_int_equal (holder, -1);
            assert_true (wm_stride_request (stride, i));
            holder = (int) i;
        }
    if (holder < 0 && has_more) {
        assert_true (wm_stride_request (stride, (unsigned) last)); /* its own again, unsignalled */
        holder = last;
    }
    return holder;
}

/* ---- lanes of one kind ----------------------------------------------------------------------- */

static void time_goes_by_weight (void **state)
{
    const unsigned weight[] = { 1, 3, 2 };
    unsigned had[3] = { 0 };
    stride = wm_stride_new (3, weight, 5);
    holder = -1;
    for (unsigned i = 0; i < 3; i++)
        if (wm_stride_request (stride, i))
            holder = (int) i;
    assert_int_equal (holder, 0); /* it came first */
    for (int round = 0; round < 600; round++) {
        had[holder]++;
        wm_stride_release (stride, (unsigned) holder, 0.01, false);
        assert_int_equal (wm_stride_request (stride, (unsigned) holder), 0); /* the others wait */
        int given = -1;
        for (unsigned i = 0; i < 3; i++)
            if (is_signalled (i)) {
                assert_int_equal (given, -1); /* one at a time */
                given = (int) i;
                assert_int_equal (wm_stride_request (stride, i), 1);
                assert_int_equal (is_signalled (i), 0);
            }
        assert_int_not_equal (given, -1);
        holder = given;
    }
    for (unsigned i = 0; i < 3; i++)
        assert_in_range (had[i], 100 * weight[i] - 5, 100 * weight[i] + 5);
    wm_stride_destroy (&stride);
    wm_stride_destroy (&stride);
}

static void a_pause_gives_no_claim (void **state)
{
    const unsigned weight[] = { 1, 1 };
    stride = wm_stride_new (2, weight, 5);
    for (int i = 0; i < 100; i++) { /* alone: never refused */
        assert_int_equal (wm_stride_request (stride, 0), 1);
        wm_stride_release (stride, 0, 1, false);
    }
    assert_int_equal (wm_stride_request (stride, 0), 1);
    assert_int_equal (wm_stride_request (stride, 1), 0);
    wm_stride_release (stride, 0, 1, false);
    assert_int_equal (wm_stride_request (stride, 1), 1);
    assert_int_equal (wm_stride_request (stride, 0), 0);
    wm_stride_release (stride, 1, 1.5, true);
    assert_int_equal (is_signalled (0), 1);  /* not a hundred rounds for the other first */
    wm_stride_release (stride, 0, 0, false); /* and no longer wanted: it is free */
    assert_int_equal (is_signalled (0), 0);
    assert_int_equal (wm_stride_request (stride, 1), 1);
    assert_int_equal (wm_stride_request (stride, 0), 0);
    wm_stride_release (stride, 0, 0, false); /* no longer waits either */
    wm_stride_release (stride, 1, 1, false);
    assert_int_equal (is_signalled (0), 0);
    wm_stride_destroy (&stride);
}

/* ---- clients and bulk ------------------------------------------------------------------------ */

static const unsigned equal[LANES] = { 1, 1, 1, 1 };

/* A client's batch waits for the round that has begun, and for no other.  */
static void test_clients_first (void **state)
{
    start (1, equal, 5);
    int rounds[LANES] = { 0 };
    ask (2);
    ask (1);
    for (int i = 0; i < 1000; i++) {
        rounds[holder]++; /* of bulk lanes */
        assert_false (wm_stride_is_urgent (stride, (unsigned) holder));
        ask (0);
        assert_true (wm_stride_is_urgent (stride, (unsigned) holder));
        assert_int_equal (next (1, true), 0);
        assert_false (wm_stride_is_urgent (stride, 0));
        next (0.5, false);
    }
    assert_int_equal (rounds[1], 500);
    assert_int_equal (rounds[2], 500);
    assert_int_equal (wm_stride_counts (stride, 0).n_behind, 0);
    assert_int_equal (wm_stride_counts (stride, 0).n_round, 1000);
    assert_true (wm_stride_counts (stride, 1).n_behind > 1000);
    wm_stride_destroy (&stride);
    wm_stride_destroy (&stride);
}

/* Returns bulk's share of the time while clients always have more.  */
static double bulk_share (unsigned percent)
{
    double spent[LANES] = { 0 };
    start (1, equal, percent);
    ask (1);
    ask (0);
    while (spent[0] + spent[1] < 10000) {
        const double seconds = holder ? 1 : 0.1;
        spent[holder] += seconds;
        next (seconds, true);
    }
    wm_stride_destroy (&stride);
    return spent[1] / (spent[0] + spent[1]);
}

/* Under a flood of clients bulk campaigns get what was stated.  */
static void test_flood (void **state)
{
    static const unsigned percent[] = { 1, 5, 30, 50, 99 };
    for (size_t i = 0; i < sizeof percent / sizeof *percent; i++)
        assert_true (fabs (bulk_share (percent[i]) - 0.01 * percent[i]) < 0.002);
    assert_true (bulk_share (0) < 0.0002); /* the round that had begun */
}

static int quiet; /* an eventfd: clients of other workers wait, or not */

static void others_wait (bool do_wait)
{
    uint64_t one = 1;
    assert_int_equal (do_wait ? read (quiet, &one, sizeof one) : write (quiet, &one, sizeof one),
                      sizeof one);
}

static void start_beside (unsigned bulk_percent)
{
    start (1, equal, bulk_percent);
    quiet = eventfd (1, EFD_NONBLOCK);
    assert_true (quiet >= 0);
    wm_stride_await (stride, quiet);
}

static void end_beside (void)
{
    wm_stride_destroy (&stride);
    close (quiet);
}

/* While clients of other workers wait a bulk lane begins no round, and learns of their end; lanes
   with clients of this worker do not care.  */
static void test_elsewhere (void **state)
{
    start_beside (0);
    for (int i = 0; i < 100; i++) {
        ask (1);
        assert_int_equal (holder, 1);
        assert_false (wm_stride_is_urgent (stride, 1));
        others_wait (true);
        assert_true (wm_stride_is_urgent (stride, 1));
        ask (2); /* behind the round of 1 */
        holder = -1;
        wm_stride_release (stride, 1, 1, true);
        assert_false (is_signalled (1) || is_signalled (2));
        ask (1);
        assert_int_equal (holder, -1);
        ask (0);
        assert_int_equal (holder, 0);
        assert_false (wm_stride_is_urgent (stride, 0));
        others_wait (false);
        const unsigned first = (unsigned) next (1, false), left = 3 - first;
        assert_in_range (first, 1, 2);
        others_wait (true);
        assert_int_equal (next (1, false), -1);
        assert_false (is_signalled (left));
        others_wait (false);
        assert_true (is_signalled (left));
        ask (left);
        assert_int_equal (holder, (int) left);
        assert_false (is_signalled (left) || is_signalled (first));
        assert_int_equal (next (1, false), -1);
    }
    assert_int_equal (wm_stride_counts (stride, 0).n_behind, 0);
    end_beside ();
}

/* It gets its share of the time of this worker's own clients; where there are none, nothing.  */
static void test_elsewhere_share (void **state)
{
    double spent[LANES] = { 0 };
    start_beside (30);
    others_wait (true);
    ask (1);
    for (int i = 0; i < 10; i++) {
        wm_stride_release (stride, 1, 0, true);
        ask (1);
    }
    assert_int_equal (holder, -1);
    ask (0);
    while (spent[0] + spent[1] < 1000) {
        spent[holder] += 1;
        next (1, true);
    }
    assert_in_range (spent[1], 295, 305);
    end_beside ();
}

/* A kind that paused has no claim to the time it missed.  */
static void test_pause (void **state)
{
    start (1, equal, 50);
    ask (0);
    for (int i = 0; i < 100; i++)
        next (1, true);
    ask (1); /* clients were alone for 100 s */
    int bulk = 0;
    for (int i = 0; i < 10; i++)
        bulk += next (1, true) == 1;
    assert_int_equal (bulk, 5);
    wm_stride_destroy (&stride);
}

/* Weights count among lanes of one kind, clients' and bulk's.  */
static void test_weights (void **state)
{
    static const unsigned weight[LANES] = { 3, 1, 1, 4 };
    double spent[LANES] = { 0 };
    start (2, weight, 20);
    for (unsigned i = LANES; i-- > 0;)
        ask (i);
    for (int i = 0; i < 10000; i++) {
        spent[holder] += 1;
        next (1, true);
    }
    static const double want[LANES] = { 6000, 2000, 400, 1600 };
    for (unsigned i = 0; i < LANES; i++)
        assert_true (fabs (spent[i] - want[i]) < 3);
    wm_stride_destroy (&stride);
}

/* A lane that waits no more is passed over; one that neither holds nor waits releases nothing.  */
static void test_leaves (void **state)
{
    start (1, equal, 5);
    ask (1);
    ask (0);
    ask (2);
    wm_stride_release (stride, 2, 0, true); /* goes on waiting */
    wm_stride_release (stride, 0, 0, false);
    wm_stride_release (stride, 3, 5, false);
    assert_int_equal (holder, 1);
    assert_int_equal (next (1, false), 2);
    assert_int_equal (next (1, false), -1);
    ask (0);
    assert_int_equal (holder, 0);
    wm_stride_destroy (&stride);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (time_goes_by_weight),  cmocka_unit_test (a_pause_gives_no_claim),
        cmocka_unit_test (test_clients_first),   cmocka_unit_test (test_flood),
        cmocka_unit_test (test_pause),           cmocka_unit_test (test_weights),
        cmocka_unit_test (test_leaves),          cmocka_unit_test (test_elsewhere),
        cmocka_unit_test (test_elsewhere_share),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
