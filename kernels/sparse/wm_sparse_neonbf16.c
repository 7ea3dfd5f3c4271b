/* wm_sparse_neonbf16.c - as wm_sparse_bf16.c, by BFDOT of Armv8.6.

   BFDOT rounds its sums in a way of its own, the same on each CPU that has it.  */
#define NAME neon_bf16
#define ISA_TEXT "neon"
#define PRECISION_TEXT "bf16"
#define OFF 3e-3
#define UNIT 2
#define FUSE 2
#include "kernels/sparse/wm_sparse_neon.h"

#define V_DOT(x, w, c)                                                                             \
    vbfdotq_f32 (c, vreinterpretq_bf16_f32 (x), vreinterpretq_bf16_f32 (w))

#include "kernels/sparse/wm_sparse_bf16.h"

#define KERNEL_STORE
static void kernel_store (const float *value, uint32_t c_out, uint32_t c_pad, void *slot,
                          uint64_t *mask)
{
    memset (mask, 0, (c_out + 127) / 128 * sizeof *mask);
    for (uint32_t k = 0; k < c_pad; k += LANES) {
        const uint64_t words =
            vget_lane_u64 (vreinterpret_u64_bf16 (vcvt_bf16_f32 (V_LOAD (value + k))), 0);
        memcpy ((uint32_t *) slot + k / 2, &words, sizeof words);
        const uint64_t on = ((uint32_t) words != 0) | (words >> 32 != 0) << 1;
        mask[k / 128] |= on << k / 2 % 64;
    }
}

#include "kernels/sparse/wm_sparse_kernel.h"
