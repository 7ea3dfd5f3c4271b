/* test_producer_match.c - hits that find no charge are noticed, and those of sound events are not,
   whatever these are. The bound is compared with the binomial distribution itself.  */
#include "producer/layouts/wm_match.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

enum { WIRES = 200, TICKS = 4000 };

static uint64_t random_state;
static double random_one (void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double) ((z ^ z >> 31) >> 11) * 0x1p-53;
}

static double random_normal (void)
{
    return sqrt (-2 * log (1 - random_one ())) * cos (6.283185307179586 * random_one ());
}

/* An event, and what is wrong with its hits.  */
typedef struct {
    const char *name;
    uint32_t n_hit, pulses; /* pulses: on each wire; hits are on pulses, the first ones */
    double noise;           /* sigma; 0: samples between pulses are zero and not there */
    double adc;             /* of a pulse's peak, and as much again by chance */
    double lost;            /* share of hits whose pulse is below the threshold: it is not there */
    double dead;            /* share of wires without samples */
    double most;            /* ADC beyond are cut to it; 0: none */
    double shift;           /* ticks, of hits' times */
    bool other;             /* hits are of another event */
    bool us;                /* times are in us, of ticks of 0.5 */
    int doubt;              /* 0: as it is to be, 1: warned of at least, 2: held */
} case_t;

static float image[WIRES][TICKS];
static wm_event_t event;

static void hit_add (uint32_t wire, double time)
{
    assert_int_equal (
        wm_event_reserve (&event.hit, &event.hit_max, event.n_hit + 1ull, sizeof *event.hit, NULL),
        WM_OK);
    event.hit[event.n_hit] = (wm_hit_t){ 0, 0, 0, (int32_t) wire, (float) time, event.n_hit };
    event.n_hit++;
}

/* Regions where the image is not zero.  */
static void regions_make (void)
{
    for (uint32_t w = 0; w < WIRES; w++)
        for (uint32_t t = 0, first; t < TICKS; t++) {
            if (image[w][t] == 0)
                continue;
            for (first = t; t < TICKS && image[w][t] != 0;)
                t++;
            const wm_roi_t roi = { 0, w, first, t - first, event.n_sample };
            assert_int_equal (wm_event_reserve (&event.sample, &event.sample_max,
                                                event.n_sample + t - first, 4, NULL),
                              WM_OK);
            memcpy (event.sample + event.n_sample, &image[w][first], (t - first) * sizeof (float));
            event.n_sample += t - first;
            assert_int_equal (wm_event_add_roi (&event, &roi, NULL), WM_OK);
        }
    assert_int_equal (wm_event_arrange (&event, "test", NULL), WM_OK);
}

static void event_make (const case_t *c)
{
    memset (image, 0, sizeof image);
    wm_event_reset (&event);
    event.n_tick = TICKS;
    assert_int_equal (
        wm_event_reserve (&event.plane, &event.plane_max, 1, sizeof *event.plane, NULL), WM_OK);
    event.plane[event.n_plane++] = (wm_event_plane_t){ 0, 0, 0, WIRES, 0, 0, 0, 0 };
    for (uint32_t i = 0; i < WIRES * c->pulses; i++) {
        const uint32_t wire = i % WIRES;
        const double at = 20 + random_one () * (TICKS - 40), adc = c->adc * (1 + random_one ());
        const bool is_lost = random_one () < c->lost;
        for (int t = -12; t <= 12 && !is_lost; t++)
            image[wire][(int) at + t] += (float) (adc * exp (-t * t / 40.));
        const double hit_at = c->other ? 20 + random_one () * (TICKS - 40) : at;
        if (event.n_hit < c->n_hit)
            hit_add (wire, (hit_at + c->shift) * (c->us ? 0.5 : 1));
    }
    for (uint32_t w = 0; w < WIRES; w++)
        for (uint32_t t = 0; t < TICKS; t++) {
            const double v =
                (double) image[w][t] + (c->noise > 0 ? c->noise * random_normal () : 0);
            image[w][t] = w < c->dead * WIRES ? 0 : (float) (c->most > 0 ? fmin (v, c->most) : v);
        }
    regions_make ();
}

/* Hits on what a hit finder takes for pulses in noise: samples above three sigma.  */
static void noise_hits_add (uint32_t n)
{
    for (uint32_t w = 0; w < WIRES; w++)
        for (uint32_t t = 30; t < TICKS - 30 && event.n_hit < n; t++)
            if (image[w][t] > 3)
                hit_add (w, t), t += 30;
}

static const case_t list[] = {
    /* sound */
    { .name = "no hits", .pulses = 2, .adc = 20 },
    { .name = "one hit", .n_hit = 1, .pulses = 1, .adc = 20 },
    { .name = "few hits", .n_hit = 5, .pulses = 1, .adc = 20 },
    { .name = "few hits, all of another event", .n_hit = 5, .pulses = 1, .adc = 20, .other = true },
    { .name = "zero suppressed", .n_hit = 2000, .pulses = 10, .adc = 20 },
    { .name = "dense", .n_hit = 20000, .pulses = 100, .adc = 20 },
    { .name = "noise", .n_hit = 2000, .pulses = 10, .adc = 20, .noise = 2 },
    { .name = "strong noise", .n_hit = 2000, .pulses = 10, .adc = 10, .noise = 5 },
    { .name = "saturated", .n_hit = 4000, .pulses = 20, .adc = 200, .most = 50 },
    { .name = "most pulses suppressed", .n_hit = 2000, .pulses = 10, .adc = 20, .lost = 0.6 },
    { .name = "half of the wires dead", .n_hit = 2000, .pulses = 10, .adc = 20, .dead = 0.5 },
    { .name = "all wires dead", .n_hit = 2000, .pulses = 10, .adc = 20, .dead = 1 },
    { .name = "shifted by 4 us", .n_hit = 2000, .pulses = 10, .adc = 20, .shift = 8 },
    { .name = "noise alone", .noise = 1, .n_hit = 0, .pulses = 1, .adc = 0 }, /* hits below */
    /* not */
    { .name = "another event", .n_hit = 400, .pulses = 2, .adc = 20, .other = true, .doubt = 2 },
    { .name = "a small other event",
      .n_hit = 60,
      .pulses = 1,
      .adc = 20,
      .other = true,
      .doubt = 1 },
    { .name = "another dense one",
      .n_hit = 20000,
      .pulses = 100,
      .adc = 20,
      .other = true,
      .doubt = 2 },
    { .name = "another noisy one",
      .n_hit = 2000,
      .pulses = 10,
      .adc = 20,
      .noise = 2,
      .other = true,
      .doubt = 2 },
    { .name = "shifted by 250 us",
      .n_hit = 2000,
      .pulses = 10,
      .adc = 20,
      .shift = 500,
      .doubt = 2 },
    { .name = "in us", .n_hit = 2000, .pulses = 10, .adc = 20, .us = true, .doubt = 2 },
};

static void doubt_is_where_it_belongs (void **state)
{
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            const case_t *c = &list[i];
            random_state = seed;
            event_make (c);
            if (c->adc == 0)
                noise_hits_add (2000);
            wm_match_t match = { 0 };
            wm_match_add (&match, &event, 0.5);
            const double p = wm_match_chance (&match);
            if (c->doubt == 2 ? p >= WM_MATCH_SURE
                              : (p < WM_MATCH_WARN) != (c->doubt == 1) || p < WM_MATCH_SURE)
                fail_msg ("%s: %g (%llu hits, %llu find more, %llu less)", c->name, p,
                          (unsigned long long) match.n, (unsigned long long) match.n_more,
                          (unsigned long long) match.n_less);
            assert_int_equal (wm_match_is_other (&match), c->us);
        }
    wm_event_clear (&event);
}

/* P (at most m of n), term by term.  */
static double exact (uint64_t n, uint64_t m, double p)
{
    double sum = 0;
    for (uint64_t k = 0; k <= m; k++)
        sum +=
            exp (lgamma ((double) n + 1) - lgamma ((double) k + 1) - lgamma ((double) (n - k) + 1) +
                 (double) k * log (p) + (double) (n - k) * log (1 - p));
    return sum;
}

/* Sound data is held no more often than stated, and what is far from it is.  */
static void bound_holds (void **state)
{
    for (uint64_t n = 1; n <= 400; n += n < 20 ? 1 : 19)
        for (uint64_t m = 0; m <= n; m++) {
            const wm_match_t found = { .n = n, .n_more = m }, more = { n, m, n - m, 0 };
            const double a = wm_match_chance (&found), b = wm_match_chance (&more),
                         empty = wm_match_empty_chance (n, n - m);
            assert_true (a >= exact (n, m, 0.25) * (1 - 1e-9));
            assert_true (b >= fmin (exact (n, m, 0.65), exact (n, m, 0.25)) * (1 - 1e-9));
            assert_true (empty >= exact (n, m, 0.75) * (1 - 1e-9) &&
                         (empty == 1 || 2 * (n - m) > n));
            assert_true (m < n || (a == 1 && b == 1 && empty == 1));
        }
    const wm_match_t none = { 0 }, least = { .n = 73 }, fewer = { .n = 72 };
    assert_true (wm_match_chance (&none) == 1 && wm_match_empty_chance (0, 0) == 1);
    assert_true (wm_match_chance (&least) < WM_MATCH_SURE &&
                 wm_match_chance (&fewer) > WM_MATCH_SURE);
    assert_true (wm_match_empty_chance (15, 15) < WM_MATCH_SURE);
    assert_true (wm_match_empty_chance (14, 14) > WM_MATCH_SURE);
    assert_true (wm_match_empty_chance (100000, 49999) == 1);
    assert_true (wm_match_empty_chance (100000, 50001) < WM_MATCH_SURE);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (doubt_is_where_it_belongs),
        cmocka_unit_test (bound_holds),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
