/* wm_arena.h - memory that is freed all at once, and cannot be made to explode. Private to
   kernels/.  Thread: one at a time.  */
#ifndef WM_ARENA_H
#define WM_ARENA_H

#include <stddef.h>
#include <stdint.h>

/* `failed`: something could not be had.  */
typedef struct {
    void *last;
    size_t bytes;
    int failed;
} wm_arena_t;

/* n elements of size bytes, zeroed, 64-byte aligned. NULL where there is no memory (`failed` is
   set) or where the arena would hold more than four models (a graph made to explode).  */
void *wm_arena_take (wm_arena_t *self, uint64_t n, size_t size);
void wm_arena_clear (wm_arena_t *self);

#endif
