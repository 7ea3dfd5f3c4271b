/* test_kernels_sparse_fused.c - portable C's sum of a product rounds once, as fmaf does.

   Rounding to double first and to float then differs from that only where the double is halfway
   between two floats and was itself rounded: about once in 2^29 sums of drawn numbers, so that the
   scores of networks do not notice. These operands are made to lie there.  */
#include "kernels/sparse/wm_sparse_c.h"
#include "tests/unit/unit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void assert_fused (float a, float b, float c)
{
    const vec x = { a, -a, a, -a }, y = { b, b, -b, -b }, z = { c, -c, -c, c };
    const vec sum = V_FMA (x, y, z);
    for (int l = 0; l < LANES; l++) {
        const float right = fmaf (x[l], y[l], z[l]), got = sum[l];
        if (isnan (right))
            assert_true (isnan (got));
        else
            assert_memory_equal (&got, &right, sizeof right);
    }
}

static uint64_t draw (uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* (1 + 2^-12)^2 is halfway between two floats; what is added is too small for a double.  */
static void a_half_is_rounded_once (void **state)
{
    const float half = 1 + 0x1p-12f;
    for (int power = -126; power < -30; power++) {
        assert_fused (half, half, ldexpf (1, power));
        assert_fused (half, half, -ldexpf (1, power));
        assert_fused (half, half * 2, ldexpf (1.5f, power));
        assert_fused (half + 0x1p-11f, half, -ldexpf (1.25f, power));
    }
}

/* Products near a half, and sums that cancel all but their last bits.  */
static void drawn_operands_too (void **state)
{
    uint64_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        const uint64_t bits = draw (&seed);
        const float a = 1 + (float) (bits & 0xfff) * 0x1p-12f,
                    b = 1 + (float) (bits >> 12 & 0xfff) * 0x1p-12f;
        const int power = (int) (bits >> 24 & 0x7f) - 100;
        assert_fused (a, b, ldexpf (1 + (float) (bits >> 40 & 0x7fffff) * 0x1p-23f, power));
        assert_fused (a, b, -a * b);
    }
}

static void what_is_not_finite_stays_so (void **state)
{
    assert_fused (INFINITY, 1, 1);
    assert_fused (FLT_MAX, 2, 1);
    assert_fused (FLT_MAX, 2, -FLT_MAX);
    assert_fused (INFINITY, 1, -INFINITY);
    assert_fused (NAN, 1, 1);
    assert_fused (0, 1, 0);
    assert_fused (FLT_MIN, 0x1p-20f, FLT_TRUE_MIN);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (a_half_is_rounded_once),
        cmocka_unit_test (drawn_operands_too),
        cmocka_unit_test (what_is_not_finite_stays_so),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
