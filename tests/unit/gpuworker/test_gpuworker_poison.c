/* test_gpuworker_poison.c - the search for the hits that an engine dies of.  */

#include "gpuworker/engine/wm_poison.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

enum { HITS_MAX = 3000 };
static uint8_t bad[HITS_MAX];     /* the engine dies of these */
static uint32_t scored[HITS_MAX]; /* how often each hit passed */

/* Searches until a verdict; the engine dies of a part with a bad hit, or, where `chance` is not 0,
   by itself once in so many parts.  */
static wm_poison_verdict_t search (wm_poison_t *poison, int chance)
{
    wm_poison_verdict_t verdict = WM_POISON_MORE;
    memset (scored, 0, sizeof scored);
    while (verdict == WM_POISON_MORE) {
        uint32_t first, count;
        wm_poison_part (poison, &first, &count);
        int dies = chance && rand () % chance == 0;
        for (uint32_t i = first; i < first + count; i++)
            dies |= bad[i];
        for (uint32_t i = first; !dies && i < first + count; i++)
            scored[i]++;
        verdict = dies ? wm_poison_died (poison) : wm_poison_passed (poison);
    }
    return verdict;
}

static void finds_exactly_the_bad_ones (void **state)
{
    const uint32_t sizes[] = { 2, 3, 7, 100, 455, 1693, HITS_MAX };
    srand (1);
    for (int round = 0; round < 400; round++) {
        const uint32_t n_hit = sizes[round % 7];
        uint32_t n_bad = 1 + (uint32_t) rand () % (n_hit < 20 ? 1 : 10);
        memset (bad, 0, sizeof bad);
        const int near = round % 2; /* bad hits lie side by side, or anywhere */
        const uint32_t at = (uint32_t) rand () % (n_hit - n_bad + 1);
        for (uint32_t k = 0; k < n_bad; k++)
            bad[near ? at + k : (uint32_t) rand () % n_hit] = 1;
        wm_poison_t *poison = wm_poison_new (n_hit);
        wm_poison_verdict_t verdict = search (poison, 0);
        const uint32_t *hit;
        uint32_t n = wm_poison_hits (poison, &hit);
        if (verdict == WM_POISON_MACHINE) { /* four quarters, a bad one in each: nothing passed */
            assert_true (n_bad >= 4 && !near && wm_poison_deaths (poison) == 7);
            wm_poison_destroy (&poison);
            continue;
        }
        assert_int_equal (verdict, WM_POISON_FOUND);
        for (uint32_t k = 0; k < n; k++)
            assert_true (bad[hit[k]]);
        for (uint32_t i = 0; i < n_hit; i++) {
            n -= bad[i];
            assert_int_equal (scored[i], !bad[i]); /* once, or never */
        }
        assert_int_equal (n, 0);
        wm_poison_destroy (&poison);
        wm_poison_destroy (&poison);
    }
}

static void an_accident_is_no_bad_hit (void **state)
{
    memset (bad, 0, sizeof bad);
    wm_poison_t *poison = wm_poison_new (1693);
    assert_int_equal (wm_poison_died (poison), WM_POISON_MORE);
    assert_int_equal (search (poison, 0), WM_POISON_NONE);
    assert_int_equal (wm_poison_deaths (poison), 1);
    wm_poison_destroy (&poison);
    /* It must die of one hit twice: once may be chance.  */
    poison = wm_poison_new (4);
    assert_int_equal (wm_poison_died (poison), WM_POISON_MORE);   /* 0 to 3 */
    assert_int_equal (wm_poison_passed (poison), WM_POISON_MORE); /* 0 1 */
    assert_int_equal (wm_poison_died (poison), WM_POISON_MORE);   /* 2 3 */
    assert_int_equal (wm_poison_died (poison), WM_POISON_MORE);   /* 2 */
    assert_int_equal (wm_poison_passed (poison), WM_POISON_MORE); /* 3 */
    assert_int_equal (wm_poison_passed (poison), WM_POISON_NONE); /* 2 again */
    wm_poison_destroy (&poison);
}

static void a_machine_that_always_dies (void **state)
{
    const uint32_t sizes[] = { 1, 2, 3, 1693 }, deaths[] = { 2, 5, 7, 7 };
    memset (bad, 1, sizeof bad);
    for (int i = 0; i < 4; i++) {
        wm_poison_t *poison = wm_poison_new (sizes[i]);
        assert_int_equal (search (poison, 0), i ? WM_POISON_MACHINE : WM_POISON_ONLY);
        assert_int_equal (wm_poison_deaths (poison), deaths[i]);
        wm_poison_destroy (&poison);
    }
    /* Too many bad hits: given up as well, in bounded time.  */
    memset (bad, 0, sizeof bad);
    for (int i = 0; i < HITS_MAX / 2; i += 3)
        bad[i] = 1;
    wm_poison_t *poison = wm_poison_new (HITS_MAX);
    assert_int_equal (search (poison, 0), WM_POISON_MACHINE);
    assert_int_equal (wm_poison_deaths (poison), 256);
    wm_poison_destroy (&poison);
}

/* An engine that ends because memory is short never blames a hit; parts that fit are scored.  */
static void hunger_blames_nobody (void **state)
{
    const uint32_t sizes[] = { 1, 2, 100, 1693 };
    for (int i = 0; i < 4; i++)
        for (uint32_t fits = 0; fits < 8; fits++) { /* hits there is memory for */
            wm_poison_t *poison = wm_poison_new (sizes[i]);
            wm_poison_verdict_t verdict = WM_POISON_MORE;
            uint32_t n_scored = 0, first, count;
            while (verdict == WM_POISON_MORE) {
                wm_poison_part (poison, &first, &count);
                n_scored += count <= fits ? count : 0;
                verdict = count <= fits ? wm_poison_passed (poison) : wm_poison_starved (poison);
            }
            const uint32_t *hit;
            assert_int_equal (wm_poison_hits (poison, &hit), 0);
            assert_int_equal (verdict, n_scored == sizes[i] ? WM_POISON_NONE : WM_POISON_STARVED);
            assert_int_equal (wm_poison_has_starved (poison), sizes[i] > fits);
            assert_true (sizes[i] < 4 * fits || !n_scored == (sizes[i] > 4 * fits));
            wm_poison_destroy (&poison);
        }
    /* A bad hit is found beside it, unless memory ends where there is one hit only.  */
    wm_poison_t *poison = wm_poison_new (4);
    assert_int_equal (wm_poison_starved (poison), WM_POISON_MORE); /* 0 to 3 */
    assert_int_equal (wm_poison_passed (poison), WM_POISON_MORE);  /* 0 1 */
    assert_int_equal (wm_poison_died (poison), WM_POISON_MORE);    /* 2 3 */
    assert_int_equal (wm_poison_died (poison), WM_POISON_MORE);    /* 2 */
    assert_int_equal (wm_poison_starved (poison), WM_POISON_STARVED);
    wm_poison_destroy (&poison);
}

static void chance_never_blames_many (void **state)
{
    srand (2);
    memset (bad, 0, sizeof bad);
    uint32_t blamed = 0;
    for (int round = 0; round < 300; round++) {
        wm_poison_t *poison = wm_poison_new (1693);
        const uint32_t *hit;
        wm_poison_died (poison);
        search (poison, 20); /* every twentieth process dies by itself */
        blamed += wm_poison_hits (poison, &hit);
        wm_poison_destroy (&poison);
    }
    assert_true (blamed < 15);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (finds_exactly_the_bad_ones), cmocka_unit_test (an_accident_is_no_bad_hit),
        cmocka_unit_test (a_machine_that_always_dies), cmocka_unit_test (hunger_blames_nobody),
        cmocka_unit_test (chance_never_blames_many),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
