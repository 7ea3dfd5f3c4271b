/* wm_sparse_tiles.h - AMX tiles: whether this process may use them, and a thread's configuration.

   Eight tiles of 16 rows of 64 bytes. The instructions are our own asm: gcc 12's _tile_loadconfig
   names 8 of the 64 bytes that it reads, so that stores before it are dropped. The permission is
   the process's, the configuration each thread's.  */
#ifndef WM_SPARSE_TILES_H
#define WM_SPARSE_TILES_H

#if defined __x86_64__
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_TILES 18

/* Linux gives tiles to a process that asks; using them before is a fault.  */
static inline bool tiles_allowed (void)
{
    return __builtin_cpu_supports ("amx-tile") && __builtin_cpu_supports ("amx-bf16") &&
           syscall (SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILES) == 0;
}

static inline void tiles_begin (void)
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
static inline void tiles_end (void)
{
    __asm__ volatile("tilerelease" ::: "memory");
}
#endif

#endif
