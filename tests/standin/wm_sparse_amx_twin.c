/* wm_sparse_amx_twin.c - the AMX kernels on tiles in memory: what AMX computes, on any machine.

   The tile operations do what Intel's manual specifies, to the bit: a product of
   tiles sums the even and the odd filters of 32 apart, by fused multiply-adds from 0 on, adds the
   two and then adds that to the tile; roundings are to the nearest, and denormals are zeros before
   and after every operation. Slow.

   The product has no twin. A unit test links this file, and a whole campaign preloads it as
   wm_amx_twin.so (LD_PRELOAD, as in tests/e2e/precision.t); both then know the instruction set
   amx-twin.  */
#include "tests/standin/wm_sparse_amx_twin.h"

#include "kernels/sparse/wm_sparse_c.h"

#define KERNEL_SHARED
#include "kernels/sparse/wm_sparse_kernel.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { ROWS = 16, LINE = 16 }; /* a row of a tile is 16 words */

typedef union {
    float sum[ROWS][LINE];
    uint32_t pair[ROWS][LINE]; /* of bf16, the first in the low half */
} tile_t;

static _Thread_local tile_t tiles[8];

static void tile_load (tile_t *tile, const char *from, size_t stride)
{
    for (int r = 0; r < ROWS; r++)
        memcpy (tile->pair[r], from + (size_t) r * stride, sizeof tile->pair[r]);
}

static void tile_store (const tile_t *tile, char *to, size_t stride)
{
    for (int r = 0; r < ROWS; r++)
        memcpy (to + (size_t) r * stride, tile->pair[r], sizeof tile->pair[r]);
}

static inline float flushed (float x)
{
    return fabsf (x) < FLT_MIN ? copysignf (0, x) : x;
}

static inline float half_of (uint32_t pair, int odd)
{
    uint32_t raw = odd ? pair & 0xffff0000 : pair << 16;
    float x;
    memcpy (&x, &raw, sizeof x);
    return flushed (x);
}

/* sum += x w, fused. A product of two bf16 is exact in fp32 unless it is denormal, so that only
   then it takes fmaf.  */
static void add_products (float x, const float *w, float *sum)
{
    float product[LINE];
    int tiny = 0;
    for (int n = 0; n < LINE; n++) {
        product[n] = x * w[n];
        tiny |= (fabsf (product[n]) < FLT_MIN) & (w[n] != 0);
    }
    for (int n = 0; n < LINE; n++)
        sum[n] = flushed (tiny && x != 0 ? fmaf (x, w[n], sum[n]) : sum[n] + product[n]);
}

static void tile_dot (tile_t *c, const tile_t *a, const tile_t *b)
{
    static _Thread_local float weight[2][ROWS][LINE];
    for (int odd = 0; odd < 2; odd++)
        for (int k = 0; k < ROWS; k++)
            for (int n = 0; n < LINE; n++)
                weight[odd][k][n] = half_of (b->pair[k][n], odd);
    for (int m = 0; m < ROWS; m++) {
        float sum[2][LINE] = { { 0 } };
        for (int k = 0; k < ROWS; k++)
            for (int odd = 0; odd < 2; odd++)
                add_products (half_of (a->pair[m][k], odd), weight[odd][k], sum[odd]);
        for (int n = 0; n < LINE; n++)
            c->sum[m][n] = flushed (flushed (c->sum[m][n]) + flushed (sum[0][n] + sum[1][n]));
    }
}

#define TILE_ZERO(t) memset (&tiles[t], 0, sizeof tiles[t])
#define TILE_LOAD(t, p, stride) tile_load (&tiles[t], (const char *) (p), stride)
#define TILE_STREAM(t, p, stride) TILE_LOAD (t, p, stride)
#define TILE_STORE(t, p, stride) tile_store (&tiles[t], (char *) (p), stride)
#define TILE_DOT(c, a, b) tile_dot (&tiles[c], &tiles[a], &tiles[b])

/* As with AMX, tiles are zeros at the start, whatever the thread computed before.  */
static void tiles_begin (void)
{
    memset (tiles, 0, sizeof tiles);
}

static void tiles_end (void)
{
    memset (tiles, 0xff, sizeof tiles); /* NaN */
}

#define ISA_TEXT "amx-twin"
#define TABLE(precision) wm_sparse_kernel_amx_twin_##precision
#include "kernels/sparse/wm_sparse_amx.h"

/* Programs without kernels are preloaded, too: they have nothing to add to.  */
#pragma weak wm_sparse_kernel_add

__attribute__ ((constructor)) static void add_twins (void)
{
    if (!wm_sparse_kernel_add)
        return;
    wm_sparse_kernel_add (&wm_sparse_kernel_amx_twin_bf16);
    wm_sparse_kernel_add (&wm_sparse_kernel_amx_twin_bf16x3);
}
