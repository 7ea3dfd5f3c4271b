/* wm_arena.h - bounded memory that is freed all at once. Private to kernels/.
   Thread: one at a time.  */
#ifndef WM_ARENA_H
#define WM_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `failed`: an allocation failed.  */
typedef struct {
    void *last;
    size_t bytes;
    bool failed;
} wm_arena_t;

/* Allocates n elements of size bytes, zeroed, 64-byte aligned. NULL, and `failed` is set: no
   memory, or the arena would hold more than four models (a hostile graph).  */
void *wm_arena_take (wm_arena_t *self, uint64_t n, size_t size);
void wm_arena_clear (wm_arena_t *self);

#endif
