/* test_producer_pedestal.c - pedestals: the median as NumPy has it, one value, and raw ADC that is
   noticed.  */
#include "producer/layouts/wm_pedestal.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3000 };

static int compare (const void *a_v, const void *b_v)
{
    const float a = *(const float *) a_v, b = *(const float *) b_v;
    return (a > b) - (a < b);
}

/* `span` different values; 0: ascending, descending, or all the same.  */
static void fill (float *value, uint32_t n, unsigned span, unsigned *seed)
{
    for (uint32_t i = 0; i < n; i++) {
        *seed = *seed * 1664525 + 1013904223;
        value[i] = span         ? (float) (*seed >> 8) / (1 << 24) * (float) span - 7
                   : n % 3 == 0 ? (float) i
                   : n % 3 == 1 ? (float) (n - i)
                                : 7;
        if (span > 1 && span < 100)
            value[i] = floorf (value[i]);
    }
}

static void the_median_is_that_of_all_finite_samples (void **state)
{
    static const uint32_t count[] = { 1, 2, 3, 16, 17, 18, 100, 101, 2999, N };
    static float value[N + 2], sorted[N];
    wm_pedestal_t pedestal = { 0 };
    wm_error_t error;
    unsigned seed = 1;
    wm_pedestal_choose (&pedestal, "median");
    for (unsigned span = 0; span < 4; span++)
        for (size_t c = 0; c < sizeof count / sizeof *count; c++) {
            const uint32_t n = count[c];
            const float *adc = value;
            fill (value, n, span == 3 ? 100000 : span * span * 4, &seed);
            memcpy (sorted, value, n * sizeof *value);
            qsort (sorted, n, sizeof *sorted, compare);
            const float middle = n % 2 ? sorted[n / 2] : (sorted[n / 2] + sorted[n / 2 - 1]) / 2;
            value[n] = NAN, value[n + 1] = INFINITY;
            assert_int_equal (wm_pedestal_take (&pedestal, &adc, n + 2, &error), WM_OK);
            for (uint32_t i = 0; i < n; i++)
                assert_true (adc[i] == value[i] - middle);
            assert_true (isnan (adc[n]) && isinf (adc[n + 1]));
        }
    const float *adc = value;
    value[0] = value[1] = NAN;
    assert_int_equal (wm_pedestal_take (&pedestal, &adc, 2, &error), WM_OK);
    wm_pedestal_clear (&pedestal);
}

/* Feeds `n` channels, of which n_raw lie around 900; returns whether a pedestal was missed.  */
static bool missed (const char *text, unsigned n_raw, unsigned n)
{
    static float value[5];
    wm_pedestal_t pedestal = { 0 };
    wm_error_t error;
    wm_pedestal_choose (&pedestal, text);
    wm_pedestal_start (&pedestal);
    for (unsigned k = 0; k < n; k++) {
        const float *adc = value;
        for (int i = 0; i < 5; i++)
            value[i] = i == 4 ? 3000 : k < n_raw ? 900 : 0;
        assert_int_equal (wm_pedestal_take (&pedestal, &adc, 5, &error), WM_OK);
        assert_true ((adc == value) == (!*text || !strcmp (text, "none")));
        if (!strcmp (text, "900") && k < n_raw)
            assert_true (adc[0] == 0 && adc[4] == 2100);
    }
    const bool is_missed = wm_pedestal_is_missed (&pedestal);
    wm_pedestal_clear (&pedestal);
    return is_missed;
}

static void raw_adc_is_noticed (void **state)
{
    assert_true (missed ("", 1, 1));
    assert_true (missed ("", 9, 16));
    assert_true (missed ("", 100, 100));
    assert_false (missed ("", 0, 16));
    assert_false (missed ("", 8, 16)); /* half of the channels */
    assert_false (missed ("", 0, 0));
    assert_false (missed ("none", 16, 16));
    assert_false (missed ("median", 16, 16));
    assert_false (missed ("900", 16, 16));
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (the_median_is_that_of_all_finite_samples),
        cmocka_unit_test (raw_adc_is_noticed),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
