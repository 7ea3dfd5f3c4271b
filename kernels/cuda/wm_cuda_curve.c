/* wm_cuda_curve.c - a radix sort that skips the bytes in which all keys are equal.  */
#include "kernels/cuda/wm_cuda_curve.h"

wm_cuda_place_t *wm_cuda_curve_sort (wm_cuda_place_t *place, wm_cuda_place_t *spare, uint32_t n)
{
    uint64_t varies = 0;
    for (uint32_t i = 1; i < n; i++)
        varies |= place[i].key ^ place[0].key;
    for (unsigned shift = 0; shift < 64; shift += 8) {
        uint32_t at[257] = { 0 };
        if (!(varies >> shift & 255))
            continue;
        for (uint32_t i = 0; i < n; i++)
            at[(place[i].key >> shift & 255) + 1]++;
        for (uint32_t d = 0; d < 256; d++)
            at[d + 1] += at[d];
        for (uint32_t i = 0; i < n; i++)
            spare[at[place[i].key >> shift & 255]++] = place[i];
        wm_cuda_place_t *swap = place;
        place = spare, spare = swap;
    }
    return place;
}
