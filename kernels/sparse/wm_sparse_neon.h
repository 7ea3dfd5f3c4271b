/* wm_sparse_neon.h - what the exact-sparse loops need of NEON.  */
#include <arm_neon.h>
#include <stdint.h>

typedef float32x4_t vec;

#define LANES 4
#define CONV_VECS 4
#define FULL_CELLS 4
#define FULL_VECS 4
#define V_LOAD(p) vld1q_f32 (p)
#define V_STORE(p, x) vst1q_f32 (p, x)
#define V_SET1(p) vld1q_dup_f32 (p)
#define V_ADD(a, b) vaddq_f32 (a, b)
#define V_SUB(a, b) vsubq_f32 (a, b)
#define V_FMA(a, b, c) vfmaq_f32 (c, a, b)
#define V_RELU(x) relu (x)
#define V_KEEP(x) __asm__("" : "+w"(x))
#define V_NONZERO(x) nonzero (x)

static inline vec relu (vec x) /* not vmaxq, which makes +0 of -0 */
{
    return vreinterpretq_f32_u32 (vbicq_u32 (vreinterpretq_u32_f32 (x), vcltzq_f32 (x)));
}

static inline uint32_t nonzero (vec x)
{
    static const uint32_t bit[4] = { 1, 2, 4, 8 };
    return vaddvq_u32 (vbicq_u32 (vld1q_u32 (bit), vceqzq_f32 (x)));
}
