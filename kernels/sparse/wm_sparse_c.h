/* wm_sparse_c.h - what the exact-sparse loops need of portable C: vectors of four.

   fp32 has the same bits on every CPU, and AVX2 and AVX-512 round a b + c once. V_FMA must do the
   same without such an instruction (a library's fmaf does, at a call a number):

   1. The product of two floats has at most 48 bits: it is exact in double.
   2. The sum of product and c may need more than the 53 bits of a double. Rounding it to double and
      then to float can be one unit off: if the first rounding ends exactly half way between two
      floats, the second cannot know on which side the true sum was.
   3. So the sum is rounded to odd instead: an exact sum stays, an inexact one becomes whichever of
      its two neighbours in double has an odd last bit. A point half way between two floats is an
      even double, so an inexact sum never becomes one, and stays on its side of it.
   4. In code: s is the sum rounded to nearest and `off` its exact error (Knuth's two-sum). Where
      off is not 0 and s is even, s moves by one unit towards the true sum, which makes it odd: up
      in magnitude if off has the sign of s, else down. Where s is not finite, off is not a number,
      both comparisons are false, and s stays.

   Proof: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
   rounding to odd", 2008.

   A file that defines PLAIN first rounds twice, which is faster.  */
#include <stdint.h>

typedef float vec __attribute__ ((vector_size (16), may_alias));

#define LANES 4
#define CONV_VECS 2
#define V_LOAD(p) (*(const vec *) (p))
#define V_STORE(p, x) (*(vec *) (p) = (x))
#define V_SET1(p) ((vec){ *(p), *(p), *(p), *(p) })
#define V_ADD(a, b) ((a) + (b))
#define V_SUB(a, b) ((a) - (b))
#ifdef PLAIN
#define V_FMA(a, b, c) ((a) * (b) + (c))
#else
#define V_FMA(a, b, c) fused (a, b, c)
#endif
#define V_RELU(x) relu (x)
#define V_KEEP(x) (void) (x)
#define V_NONZERO(x) nonzero (x)

static inline vec relu (vec x)
{
    for (int l = 0; l < LANES; l++)
        x[l] = x[l] < 0 ? 0 : x[l]; /* a NaN stays */
    return x;
}

static inline uint32_t nonzero (vec x)
{
    uint32_t bits = 0;
    for (int l = 0; l < LANES; l++)
        bits |= (uint32_t) (x[l] != 0) << l;
    return bits;
}

#ifndef PLAIN
typedef double wide_vec __attribute__ ((vector_size (16)));
typedef int64_t long_vec __attribute__ ((vector_size (16)));
typedef float half_vec __attribute__ ((vector_size (8)));

/* Two sums p + c of an exact product, rounded to odd.  */
static inline __attribute__ ((always_inline)) half_vec fused_half (half_vec a, half_vec b,
                                                                   half_vec c)
{
    const wide_vec p = __builtin_convertvector(a, wide_vec) * __builtin_convertvector(b, wide_vec);
    const wide_vec z = __builtin_convertvector(c, wide_vec), zero = { 0, 0 };
    const wide_vec s = p + z, t = s - p, off = (p - (s - t)) + (z - t);
    const long_vec above = off > zero, below = off < zero; /* neither: exact, or not finite */
    const long_vec even = ((long_vec) s & 1) - 1;          /* all bits where it is */
    const long_vec away = ~(above ^ (s > zero));           /* all bits: towards a larger one */
    const long_vec step = (away & 2) - 1;
    return __builtin_convertvector((wide_vec) ((long_vec) s + (step & even & (above | below))),
                                   half_vec);
}

static inline __attribute__ ((always_inline)) vec fused (vec a, vec b, vec c)
{
    const half_vec low =
        fused_half (__builtin_shufflevector (a, a, 0, 1), __builtin_shufflevector (b, b, 0, 1),
                    __builtin_shufflevector (c, c, 0, 1));
    const half_vec high =
        fused_half (__builtin_shufflevector (a, a, 2, 3), __builtin_shufflevector (b, b, 2, 3),
                    __builtin_shufflevector (c, c, 2, 3));
    return (vec){ low[0], low[1], high[0], high[1] };
}
#endif
