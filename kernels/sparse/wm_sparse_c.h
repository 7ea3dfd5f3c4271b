/* wm_sparse_c.h - what the exact-sparse loops need of portable C: vectors of four.  */
#include <stdint.h>

typedef float vec __attribute__ ((vector_size (16), may_alias));

#define LANES 4
#define CONV_VECS 2
#define V_LOAD(p) (*(const vec *) (p))
#define V_STORE(p, x) (*(vec *) (p) = (x))
#define V_SET1(p) ((vec){ *(p), *(p), *(p), *(p) })
#define V_ADD(a, b) ((a) + (b))
#define V_SUB(a, b) ((a) - (b))
#define V_FMA(a, b, c) ((a) * (b) + (c))
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
