/* wm_cuda_curve.h - hits in the order of a curve, so that neighbours share what they read.

   Private to kernels/cuda/.  */
#ifndef WM_CUDA_CURVE_H
#define WM_CUDA_CURVE_H

#include <stdint.h>

/* A hit of a job. Its key: its unit (a strip of a band), then its place on a Z-curve there.  */
typedef struct {
    uint64_t key;
    uint32_t hit, job;
} wm_cuda_place_t;

/* row and col are within their unit, below 65,536.  */
static inline uint64_t wm_cuda_curve_key (uint32_t unit, uint32_t row, uint32_t col)
{
    uint64_t z = (uint64_t) row << 32 | col;
    z = (z | z << 8) & UINT64_C (0x00ff00ff00ff00ff);
    z = (z | z << 4) & UINT64_C (0x0f0f0f0f0f0f0f0f);
    z = (z | z << 2) & UINT64_C (0x3333333333333333);
    z = (z | z << 1) & UINT64_C (0x5555555555555555);
    return (uint64_t) unit << 32 | (z >> 31 | (z & 0xffffffff));
}

/* Sorts by key; spare has room for n. Returns where they are, either of the two. A radix sort that
   skips the bytes in which all keys are equal.  */
static inline wm_cuda_place_t *wm_cuda_curve_sort (wm_cuda_place_t *place, wm_cuda_place_t *spare,
                                                   uint32_t n)
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

#endif
