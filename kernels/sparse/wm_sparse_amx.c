/* wm_sparse_amx.c - the exact-sparse loops with the roots on AMX tiles.

   The tile instructions are our own asm: gcc 12's _tile_loadd and _tile_stored do not declare that
   they touch memory, so that gcc drops stores before them.  */
#define KERNEL_SHARED
#include "kernels/sparse/wm_sparse_avx512.h"
#include "kernels/sparse/wm_sparse_kernel.h"
#include "kernels/sparse/wm_sparse_tiles.h"

#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::: "memory")
#define TILE_LOAD(t, p, stride)                                                                    \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"((const void *) (p)),                    \
                     "r"((size_t) (stride))                                                        \
                     : "memory")
#define TILE_STREAM(t, p, stride)                                                                  \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #t ::"r"((const void *) (p)),                  \
                     "r"((size_t) (stride))                                                        \
                     : "memory")
#define TILE_STORE(t, p, stride)                                                                   \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"((void *) (p)),                      \
                     "r"((size_t) (stride))                                                        \
                     : "memory")
#define TILE_DOT(c, a, b)                                                                          \
    __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory")

#define ISA_TEXT "amx"
#define TABLE(precision) wm_sparse_kernel_amx_##precision
#include "kernels/sparse/wm_sparse_amx.h"
