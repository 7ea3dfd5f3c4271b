/* wm_peak.c - see wm_peak.h. As many chains of multiply-adds as hide the latency of any core so
   far.  */
#include "kernels/judge/wm_peak.h"
#include "kernels/sparse/wm_sparse_tiles.h"

#if defined __x86_64__
#include <immintrin.h>
#define VECTOR "v" /* asm's letter of a vector register */
#else
#define VECTOR "w"
#endif
#include <stdint.h>
#include <time.h>

#define CHAINS 12
#define ROUNDS 1000000L
#define TRIES 5

static double cpu_seconds (void)
{
    struct timespec now;
    clock_gettime (CLOCK_THREAD_CPUTIME_ID, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

/* STEP (sum, x, y): one instruction of `flops` multiply-adds.  */
#define PEAK(name, target_text, bytes, flops, STEP)                                                \
    __attribute__ ((target (target_text), optimize ("fp-contract=fast"))) static double name (     \
        void)                                                                                      \
    {                                                                                              \
        typedef float vec __attribute__ ((vector_size (bytes)));                                   \
        vec sum[CHAINS] = { { 0 } }, x = { 0 }, y = { 0 }; /* hidden from the compiler: */         \
        for (int i = 0; i < CHAINS; i++)                                                           \
            __asm__ volatile("" : "+" VECTOR (sum[i]), "+" VECTOR (x), "+" VECTOR (y));            \
        const double start = cpu_seconds ();                                                       \
        for (long r = 0; r < ROUNDS; r++) {                                                        \
            _Pragma ("GCC unroll 12") for (int i = 0; i < CHAINS; i++) STEP (sum[i], x, y);        \
        }                                                                                          \
        for (int i = 0; i < CHAINS; i++)                                                           \
            __asm__ volatile("" ::VECTOR (sum[i]));                                                \
        return 2e-9 * CHAINS * (flops) * (double) ROUNDS / (cpu_seconds () - start);               \
    }

static double best_of (double (*measure) (void))
{
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        const double once = measure ();
        best = once > best ? once : best;
    }
    return best;
}

#define FMA(sum, x, y) (sum) = (sum) * (x) + (y)
#if defined __x86_64__
#define DOT_BF16(sum, x, y)                                                                        \
    (sum) = (vec) _mm512_dpbf16_ps ((__m512) (sum), (__m512bh) (x), (__m512bh) (y))
#define DOT_INT16(sum, x, y)                                                                       \
    (sum) = (vec) _mm512_dpwssd_epi32 ((__m512i) (sum), (__m512i) (x), (__m512i) (y))
PEAK (peak_avx512, "avx512f,fma", 64, 16, FMA)
PEAK (peak_avx2, "avx2,fma", 32, 8, FMA)
PEAK (peak_bf16, "avx512f,avx512bf16", 64, 32, DOT_BF16)
PEAK (peak_vnni, "avx512f,avx512vnni", 64, 32, DOT_INT16)

#define TILE_MADDS (16 * 16 * 32)

/* Four tiles of sums, as in the engine. Multiplies ones: products of zeros are faster by a
   fifth.  */
static double peak_amx (void)
{
    static uint16_t one[16 * 32];
    for (int i = 0; i < 16 * 32; i++)
        one[i] = 0x3f80;
    tiles_begin ();
    __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\t"
                     "tilezero %%tmm2\n\ttilezero %%tmm3\n\t"
                     "tileloadd (%0,%1,1), %%tmm4\n\ttileloadd (%0,%1,1), %%tmm5\n\t"
                     "tileloadd (%0,%1,1), %%tmm6\n\ttileloadd (%0,%1,1), %%tmm7" ::"r"(one),
                     "r"((size_t) 64)
                     : "memory");
    const double start = cpu_seconds ();
    for (long r = 0; r < ROUNDS; r++)
        __asm__ volatile("tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                         "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::
                             : "memory");
    const double took = cpu_seconds () - start;
    tiles_end ();
    return 2e-9 * 4 * TILE_MADDS * (double) ROUNDS / took;
}

double wm_peak_gflops (wm_peak_t what)
{
    if (what == WM_PEAK_FP32)
        return __builtin_cpu_supports ("avx512f") ? best_of (peak_avx512)
               : __builtin_cpu_supports ("fma")   ? best_of (peak_avx2)
                                                  : 0;
    if (what == WM_PEAK_AMX)
        return tiles_allowed () ? best_of (peak_amx) : 0;
    const double bf16 = __builtin_cpu_supports ("avx512bf16") ? best_of (peak_bf16) : 0;
    const double vnni = __builtin_cpu_supports ("avx512vnni") ? best_of (peak_vnni) : 0;
    return bf16 > vnni ? bf16 : vnni;
}
#else
PEAK (peak_neon, "+simd", 16, 4, FMA)

double wm_peak_gflops (wm_peak_t what)
{
    return what == WM_PEAK_FP32 ? best_of (peak_neon) : 0;
}
#endif
