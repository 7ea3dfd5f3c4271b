/* wm_cuda_curve.h - hits in the order of a curve, so that neighbours share what they read.

   Private to kernels/cuda/.  */
#ifndef WM_CUDA_CURVE_H
#define WM_CUDA_CURVE_H

#include <stdbool.h>
#include <stddef.h>
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

/* Sorts by key; spare has room for n. Returns where they are, either of the two.  */
wm_cuda_place_t *wm_cuda_curve_sort (wm_cuda_place_t *place, wm_cuda_place_t *spare, uint32_t n);

#endif
