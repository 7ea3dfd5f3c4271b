/* test_schema_exact.c - values that float32 does not hold survive in rows of float32.  */
#include "schema/wm_exact.h"
#include "tests/unit/unit.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    FLOAT = 1,
    UINT8 = 2,
    INT32 = 6,
    INT64 = 7,
    STRING = 8,
    DOUBLE = 11,
    UINT32 = 12,
    UINT64 = 13
};

/* Values of `bytes` bytes come back as they were; what carries an integer is a count.  */
static void survives (int type, const void *value, size_t bytes)
{
    const uint32_t each = wm_exact_each (type);
    float row[WM_EXACT_EACH_MAX + 1] = { -7, -7, -7, -7, -7 };
    uint8_t found[9] = { 0 }, moved[9];
    memcpy (moved + 1, value, bytes); /* on no boundary */
    wm_exact_put (type, moved + 1, 1, row);
    assert_true (row[each] == -7.0f);
    for (uint32_t i = 0; i < each && type != DOUBLE; i++)
        assert_true (row[i] >= 0 && row[i] < 0x1p24f && row[i] == truncf (row[i]));
    for (uint32_t i = 0; i < each && type == DOUBLE; i++)
        assert_true (i == 0 || (isfinite (row[i]) && (row[i] == 0 || fabsf (row[i]) >= FLT_MIN)));
    assert_true (wm_exact_take (type, row, 1, found + 1));
    assert_memory_equal (found + 1, value, bytes);
}

static void limits_survive (void **state)
{
    static const int of[] = { INT32, UINT32, INT64, UINT64 };
    for (size_t t = 0; t < 4; t++)
        for (int bit = 0; bit < 64; bit++)
            for (int off = -1; off <= 1; off++) {
                const uint64_t value = (UINT64_C (1) << bit) + (uint64_t) off, minus = -value;
                const uint32_t low = (uint32_t) value, low_minus = (uint32_t) minus;
                survives (of[t], t < 2 ? (const void *) &low : &value, t < 2 ? 4 : 8);
                survives (of[t], t < 2 ? (const void *) &low_minus : &minus, t < 2 ? 4 : 8);
            }
    static const double real[] = { 0,       0x1p-1074,  DBL_MIN,  DBL_MAX,     1e-16,  1e300,
                                   1 / 3.0, 0x1p53 - 1, INFINITY, DBL_EPSILON, 350.99, 0x1.5fp8 };
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        const double minus = -real[i];
        survives (DOUBLE, &real[i], 8);
        survives (DOUBLE, &minus, 8);
    }
}

static void any_bits_survive (void **state)
{
    uint64_t bits = 1;
    for (int i = 0; i < 200000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        const uint64_t value = bits ^ bits >> 29;
        double real;
        memcpy (&real, &value, sizeof real);
        survives (INT64, &value, 8);
        survives (UINT32, &value, 4);
        if (!isnan (real))
            survives (DOUBLE, &real, 8);
    }
}

/* What compares rows (self-tests, canaries) allows 1e-4: two values that are a rounding apart
   differ by less in each float32.  */
static void a_rounding_stays_one (void **state)
{
    for (double value = 1e-300; value < 1e300; value *= 1.9) {
        const double pair[4] = { value, value * (1 + 4 * DBL_EPSILON), -value, 1 };
        float row[16];
        wm_exact_put (DOUBLE, pair, 4, row);
        for (int k = 0; k < 4; k++)
            assert_true (fabsf (row[k] - row[4 + k]) <= 1e-4f);
    }
    const double near[2] = { 256, nextafter (256, 0) }; /* a power of two is no turn */
    float row[8];
    wm_exact_put (DOUBLE, near, 2, row);
    for (int k = 0; k < 4; k++)
        assert_true (fabsf (row[k] - row[4 + k]) <= 1e-4f);
}

static void what_is_held_is_nan (void **state)
{
    const float nan[4] = { NAN, NAN, NAN, NAN };
    float row[4];
    double real = NAN;
    int64_t whole = 5;
    wm_exact_put (DOUBLE, &real, 1, row);
    assert_true (isnan (row[0]) && isnan (row[1]) && isnan (row[2]) && isnan (row[3]));
    real = 1;
    assert_true (wm_exact_take (DOUBLE, nan, 1, &real) && isnan (real));
    assert_true (wm_exact_take (INT64, nan, 1, &whole) && whole == 0);
}

static void one_value_is_read_as_a_double (void **state)
{
    const int32_t less = -5;
    const int64_t least = INT64_MIN;
    const uint32_t most_32 = UINT32_MAX;
    const uint64_t most = UINT64_MAX;
    const double huge = -1e300;
    const struct {
        int type;
        const void *value;
        double want;
    } rows[] = { { INT32, &less, -5 },
                 { INT64, &least, -0x1p63 },
                 { UINT32, &most_32, 4294967295. },
                 { UINT64, &most, 0x1p64 },
                 { DOUBLE, &huge, -1e300 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float row[4];
        wm_exact_put (rows[i].type, rows[i].value, 1, row);
        assert_true (wm_exact_real (rows[i].type, row) == rows[i].want);
        row[1] = NAN;
        assert_true (isnan (wm_exact_real (rows[i].type, row)));
    }
    assert_true (wm_exact_real (FLOAT, (const float[]){ 0.5f }) == 0.5);
}

static void hostile_rows_are_refused (void **state)
{
    static const float whole[][3] = { { -1, 0, 0 },      { 0.5f, 0, 0 },      { 0x1p22f, 0, 0 },
                                      { 0, 0x1p22f, 0 }, { 0, 0, 0x1p20f },   { INFINITY, 0, 0 },
                                      { 0, 1e38f, 0 },   { 0, 0, -0x1p-149f } };
    static const float real[][4] = { { 1, NAN, 0, 0 },      { 1, INFINITY, 0, 0 },
                                     { INFINITY, 1, 0, 0 }, { 1, 0, 0, 0.5f },
                                     { 1, 0, 0, 1e30f },    { NAN, 0, 0, 64 },
                                     { 1, 0, 0, INFINITY }, { 1, 0, 0, NAN } };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        int64_t value = 5;
        assert_false (wm_exact_take (INT64, whole[i], 1, &value));
        assert_int_equal (value, 0);
        assert_true (isnan (wm_exact_real (INT64, whole[i])));
    }
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        double value = 5;
        assert_false (wm_exact_take (DOUBLE, real[i], 1, &value));
        assert_true (isnan (value));
        assert_true (isnan (wm_exact_real (DOUBLE, real[i])));
    }
    uint32_t value = 5;
    assert_false (wm_exact_take (UINT32, (const float[]){ 0, 65536 }, 1, &value));
    assert_int_equal (value, 0);
}

static void floats_become_the_nearest (void **state)
{
    const float from[6] = { -INFINITY, -1.5f, 0x1p24f, 0x1p31f, 3e38f, NAN };
    int32_t word[6];
    uint32_t natural[6];
    int64_t whole[6];
    uint64_t large[6];
    wm_exact_of_floats (INT32, from, 6, word);
    wm_exact_of_floats (UINT32, from, 6, natural);
    wm_exact_of_floats (INT64, from, 6, whole);
    wm_exact_of_floats (UINT64, from, 6, large);
    const int32_t w[6] = { INT32_MIN, -2, 1 << 24, INT32_MAX, INT32_MAX, 0 };
    const uint32_t n[6] = { 0, 0, 1 << 24, 1u << 31, UINT32_MAX, 0 };
    const int64_t i[6] = { INT64_MIN, -2, 1 << 24, 1l << 31, INT64_MAX, 0 };
    const uint64_t l[6] = { 0, 0, 1 << 24, 1ul << 31, UINT64_MAX, 0 };
    assert_memory_equal (word, w, sizeof w);
    assert_memory_equal (natural, n, sizeof n);
    assert_memory_equal (whole, i, sizeof i);
    assert_memory_equal (large, l, sizeof l);
    assert_int_equal (wm_exact_each (FLOAT), 1);
    assert_int_equal (wm_exact_each (UINT8), 1);
    assert_int_equal (wm_exact_each (STRING), 1);
    assert_int_equal (wm_exact_each (0), 1);
    assert_int_equal (wm_exact_each (-1), 1);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (limits_survive),
        cmocka_unit_test (any_bits_survive),
        cmocka_unit_test (a_rounding_stays_one),
        cmocka_unit_test (what_is_held_is_nan),
        cmocka_unit_test (one_value_is_read_as_a_double),
        cmocka_unit_test (hostile_rows_are_refused),
        cmocka_unit_test (floats_become_the_nearest),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
