/* wm_sparse_bf16.h - the roots' weights in bf16, two filters to a word, as they are multiplied.
   A file that includes this has FUSE (wm_sparse_kernel.h).  */
#include "kernels/sparse/wm_sparse.h"

#include <string.h>

static float rounded (float x)
{
    uint32_t raw;
    memcpy (&raw, &x, sizeof raw);
    raw = (raw + 0x7fff + (raw >> 16 & 1)) & 0xffff0000;
    memcpy (&x, &raw, sizeof x);
    return x;
}

static size_t kernel_panel_words (uint32_t c_out, uint32_t n_pad)
{
    return (size_t) FUSE * ((c_out + 1) / 2) * n_pad;
}

static void kernel_pack (const wm_sparse_root_t *root, const float *weight, uint32_t c_out,
                         uint32_t f, float *used, uint32_t *panel)
{
    const size_t n = root->n_pad;
    panel += f * ((c_out + 1) / 2) * n;
    for (uint32_t k = 0; k < c_out; k++, used += n, weight += n) {
        uint32_t *word = panel + k / 2 * n;
        for (size_t i = 0; i < n; i++) {
            uint32_t raw;
            used[i] = rounded (weight[i]);
            memcpy (&raw, &used[i], sizeof raw);
            word[i] = k % 2 ? word[i] | raw : raw >> 16;
        }
    }
}

#define KERNEL_MORE .panel_words = kernel_panel_words, .pack = kernel_pack,
