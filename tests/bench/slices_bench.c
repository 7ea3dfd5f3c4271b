/* slices_bench.c - a dense layer on AMX by three products of bfloat16 halves, which `split` takes,
   beside six products of int8 slices.

   A value is the sum of three slices: the upper bits below the largest value of its row, and twice
   the seven that follow (K. Ozaki and others, Numerical Algorithms 59, 2012). Products of slices
   are exact in int32, so that no order of a sum changes a bit. Rows are as behind a ReLU: half of
   their values are zero, one in a hundred is thirty times as large as the others.

   Prints for each the time of a row, with and without the splitting of its values, the largest and
   the mean error in parts of the sum of the products' sizes, and whether another order has the same
   bits. Exit 6 without AMX.  */
#include "schema/base/wm_fault.h"

#include <stdio.h>

#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROWS 1024
#define DEEP 2048 /* values of a row */
#define WIDE 128  /* filters */
#define TIMES 30
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18
#define AMX                                                                                        \
    __attribute__ ((target ("amx-tile,amx-int8,amx-bf16,avx512f,avx512bf16,avx512bw,avx512dq,fma")))

static float a[ROWS][DEEP], b[DEEP][WIDE], got[ROWS][WIDE];
static double want[ROWS][WIDE], size[ROWS][WIDE];
static uint16_t a_half[2][ROWS][DEEP];        /* upper, lower */
static uint16_t b_half[2][DEEP / 2][WIDE][2]; /* as TDPBF16PS takes them */
static uint8_t a_slice[3][ROWS][DEEP];        /* none is negative */
static int8_t b_slice[3][DEEP / 4][WIDE][4];  /* as TDPBUSD takes them */
static float a_scale[ROWS], b_scale[WIDE];    /* powers of two above the largest value */

static uint16_t half_of (float x)
{
    uint32_t bits;
    memcpy (&bits, &x, sizeof bits);
    return (uint16_t) ((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float whole_of (uint16_t half)
{
    const uint32_t bits = (uint32_t) half << 16;
    float x;
    memcpy (&x, &bits, sizeof x);
    return x;
}

static float scale_of (float most)
{
    int exponent;
    frexpf (most, &exponent);
    return ldexpf (1, most > 0 ? exponent : 0);
}

static void split_weights (void)
{
    for (int n = 0; n < WIDE; n++) {
        float most = 0;
        for (int k = 0; k < DEEP; k++)
            most = fmaxf (most, fabsf (b[k][n]));
        b_scale[n] = scale_of (most * 1.01f); /* so that the first slice rounds to 127 at most */
        for (int k = 0; k < DEEP; k++) {
            const uint16_t upper = half_of (b[k][n]);
            b_half[0][k / 2][n][k % 2] = upper;
            b_half[1][k / 2][n][k % 2] = half_of (b[k][n] - whole_of (upper));
            float x = b[k][n] / b_scale[n] * 128;
            for (int s = 0; s < 3; s++) {
                const float slice = nearbyintf (x);
                b_slice[s][k / 4][n][k % 4] = (int8_t) slice;
                x = (x - slice) * 128;
            }
        }
    }
}

AMX static void make_halves (void)
{
    for (int m = 0; m < ROWS; m++)
        for (int k = 0; k < DEEP; k += 16) {
            const __m512 x = _mm512_loadu_ps (&a[m][k]);
            const __m256i upper = (__m256i) _mm512_cvtneps_pbh (x);
            const __m512i wide = _mm512_slli_epi32 (_mm512_cvtepu16_epi32 (upper), 16);
            const __m512 rest = _mm512_sub_ps (x, _mm512_castsi512_ps (wide));
            _mm256_storeu_si256 ((__m256i *) &a_half[0][m][k], upper);
            _mm256_storeu_si256 ((__m256i *) &a_half[1][m][k], (__m256i) _mm512_cvtneps_pbh (rest));
        }
}

AMX static void make_slices (void)
{
    for (int m = 0; m < ROWS; m++) {
        __m512 most = _mm512_setzero_ps ();
        for (int k = 0; k < DEEP; k += 16)
            most = _mm512_max_ps (most, _mm512_loadu_ps (&a[m][k]));
        a_scale[m] = scale_of (_mm512_reduce_max_ps (most));
        for (int k = 0; k < DEEP; k += 16) {
            __m512 x =
                _mm512_mul_ps (_mm512_loadu_ps (&a[m][k]), _mm512_set1_ps (256 / a_scale[m]));
            for (int s = 0; s < 3; s++) {
                const __m512i slice = _mm512_cvttps_epi32 (x);
                _mm_storeu_si128 ((__m128i *) &a_slice[s][m][k], _mm512_cvtepi32_epi8 (slice));
                x = _mm512_mul_ps (_mm512_sub_ps (x, _mm512_cvtepi32_ps (slice)),
                                   _mm512_set1_ps (128));
            }
        }
    }
}

/* 32 rows by 32 filters: tiles 0 to 3. The sum begins at `from`.  */
AMX static void by_halves (int from)
{
#define A(to, s, r) _tile_loadd (to, &a_half[s][m + 16 * (r)][k], DEEP * 2)
#define B(to, s, c) _tile_loadd (to, &b_half[s][k / 2][n + 16 * (c)], WIDE * 4)
#define FOUR                                                                                       \
    _tile_dpbf16ps (0, 4, 6);                                                                      \
    _tile_dpbf16ps (1, 4, 7);                                                                      \
    _tile_dpbf16ps (2, 5, 6);                                                                      \
    _tile_dpbf16ps (3, 5, 7)
    for (int n = 0; n < WIDE; n += 32)
        for (int m = 0; m < ROWS; m += 32) {
            _tile_zero (0);
            _tile_zero (1);
            _tile_zero (2);
            _tile_zero (3);
            for (int i = 0; i < DEEP; i += 32) {
                const int k = (i + from) % DEEP;
                A (4, 0, 0);
                A (5, 0, 1);
                B (6, 1, 0);
                B (7, 1, 1);
                FOUR;
                B (6, 0, 0);
                B (7, 0, 1);
                FOUR;
                A (4, 1, 0);
                A (5, 1, 1);
                FOUR;
            }
            _tile_stored (0, &got[m][n], WIDE * 4);
            _tile_stored (1, &got[m][n + 16], WIDE * 4);
            _tile_stored (2, &got[m + 16][n], WIDE * 4);
            _tile_stored (3, &got[m + 16][n + 16], WIDE * 4);
        }
#undef A
#undef B
}

/* 16 rows by 32 filters: tiles 0 to 2, and 3 to 5, for what has no, one and two lower slices.  */
AMX static void by_slices (int from)
{
#define A(s) _tile_loadd (6, &a_slice[s][m][k], DEEP)
#define B(s, c) _tile_loadd (7, &b_slice[s][k / 4][n + 16 * (c)], WIDE * 4)
#define ADD(to) _tile_dpbusd (to, 6, 7)
    static int32_t sum[6][16][16];
    for (int n = 0; n < WIDE; n += 32)
        for (int m = 0; m < ROWS; m += 16) {
            _tile_zero (0);
            _tile_zero (1);
            _tile_zero (2);
            _tile_zero (3);
            _tile_zero (4);
            _tile_zero (5);
            for (int i = 0; i < DEEP; i += 64) {
                const int k = (i + from) % DEEP;
                A (0);
                B (2, 0);
                ADD (2);
                B (1, 0);
                ADD (1);
                B (2, 1);
                ADD (5);
                B (1, 1);
                ADD (4);
                B (0, 1);
                ADD (3);
                B (0, 0);
                ADD (0);
                A (1);
                ADD (1);
                B (1, 0);
                ADD (2);
                B (1, 1);
                ADD (5);
                B (0, 1);
                ADD (4);
                A (2);
                ADD (5);
                B (0, 0);
                ADD (2);
            }
            _tile_stored (0, sum[0], 64);
            _tile_stored (1, sum[1], 64);
            _tile_stored (2, sum[2], 64);
            _tile_stored (3, sum[3], 64);
            _tile_stored (4, sum[4], 64);
            _tile_stored (5, sum[5], 64);
            for (int i = 0; i < 32; i++) {
                const int r = i / 2, c = i % 2;
                __m512 x = _mm512_setzero_ps ();
                for (int s = 2; s >= 0; s--)
                    x = _mm512_fmadd_ps (
                        x, _mm512_set1_ps (0x1p-7f),
                        _mm512_cvtepi32_ps (_mm512_loadu_si512 (sum[3 * c + s][r])));
                x = _mm512_mul_ps (x, _mm512_set1_ps (0x1p-15f * a_scale[m + r]));
                _mm512_storeu_ps (&got[m + r][n + 16 * c],
                                  _mm512_mul_ps (x, _mm512_loadu_ps (&b_scale[n + 16 * c])));
            }
        }
#undef A
#undef B
}

static void make_layer (void)
{
    srand48 (1);
    for (int k = 0; k < DEEP; k++)
        for (int n = 0; n < WIDE; n++)
            b[k][n] = (float) ((drand48 () + drand48 () + drand48 () - 1.5) * 0.05);
    for (int m = 0; m < ROWS; m++)
        for (int k = 0; k < DEEP; k++) {
            const double kind = drand48 (), length = -log (drand48 ());
            a[m][k] = kind < 0.5 ? 0 : (float) (length * (kind > 0.99 ? 30 : 1));
            for (int n = 0; n < WIDE && a[m][k] > 0; n++) {
                want[m][n] += (double) a[m][k] * (double) b[k][n];
                size[m][n] += fabs ((double) a[m][k] * (double) b[k][n]);
            }
        }
    split_weights ();
}

/* Returns the least time of a row, in us.  */
static double time_of (void (*split) (void), void (*multiply) (int))
{
    double least = HUGE_VAL;
    for (int i = 0; i < TIMES; i++) {
        struct timespec begin, end;
        clock_gettime (CLOCK_MONOTONIC, &begin);
        if (split)
            split ();
        multiply (0);
        clock_gettime (CLOCK_MONOTONIC, &end);
        least = fmin (least, (double) (end.tv_sec - begin.tv_sec) * 1e6 +
                                 (double) (end.tv_nsec - begin.tv_nsec) * 1e-3);
    }
    return least / ROWS;
}

static void judge (const char *name, void (*split) (void), void (*multiply) (int))
{
    static float first[ROWS][WIDE];
    double worst = 0, mean = 0;
    split ();
    multiply (0);
    memcpy (first, got, sizeof got);
    for (int m = 0; m < ROWS; m++)
        for (int n = 0; n < WIDE; n++) {
            const double off = fabs ((double) got[m][n] - want[m][n]) / size[m][n];
            worst = fmax (worst, off);
            mean += off / (ROWS * WIDE);
        }
    multiply (DEEP / 2);
    const char *bits = memcmp (first, got, sizeof got) ? "other bits" : "the same bits";
    printf ("%s: %.2f us a row, %.2f with its splitting; off by %.1e, %.1e on average; in another "
            "order %s\n",
            name, time_of (NULL, multiply), time_of (split, multiply), worst, mean, bits);
}

AMX static void configure (void)
{
    static volatile struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } tiles;
    tiles.palette = 1;
    for (int i = 0; i < 8; i++)
        tiles.bytes[i] = 64, tiles.rows[i] = 16;
    _tile_loadconfig ((const void *) &tiles);
}

int main (void)
{
    if (!syscall (SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)) {
        configure ();
        make_layer ();
        judge ("bf16x3", make_halves, by_halves);
        judge ("int8x6", make_slices, by_slices);
        return WM_EXIT_OK;
    }
#else
int main (void)
{
#endif
    fprintf (stderr, "slices_bench: this CPU has no AMX\n");
    return WM_EXIT_ENGINE;
}
