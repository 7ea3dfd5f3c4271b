/* wm_sparse_amx.c - the exact-sparse loops with the roots on AMX tiles.

   The tile instructions are our own asm: gcc 12's _tile_loadd and _tile_stored do not say that they
   touch memory, and its _tile_loadconfig names 8 of the 64 bytes that it reads, so that stores
   before them are dropped. The permission to use tiles (wm_sparse_choose.c) is the process's, the
   configuration each thread's.  */
#define KERNEL_SHARED
#include "kernels/sparse/wm_sparse_avx512.h"
#include "kernels/sparse/wm_sparse_kernel.h"

#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::: "memory")
#define TILE_LOAD(t, p, stride)                                                                    \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"((const void *) (p)),                    \
                     "r"((size_t) (stride))                                                        \
                     : "memory")
#define TILE_STORE(t, p, stride)                                                                   \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"((void *) (p)),                      \
                     "r"((size_t) (stride))                                                        \
                     : "memory")
#define TILE_DOT(c, a, b)                                                                          \
    __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory")

static void tiles_begin (void)
{
    struct {
        uint8_t palette, start, zero[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = { .palette = 1 };
    for (int t = 0; t < 8; t++)
        config.row_bytes[t] = 64, config.rows[t] = 16;
    __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
}

/* Threads that use no tiles are switched faster.  */
static void tiles_end (void)
{
    __asm__ volatile("tilerelease" ::: "memory");
}

#define ISA_TEXT "amx"
#define TWIN false
#define TABLE(precision) wm_sparse_kernel_amx_##precision
#include "kernels/sparse/wm_sparse_amx.h"
