/* wm_arena.c - memory that is freed all at once.  */
#include "kernels/onnx/wm_arena.h"
#include "schema/wm_limits.h"

#include <stdlib.h>
#include <string.h>

void *wm_arena_take (wm_arena_t *self, uint64_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow (n, size, &bytes) || bytes > 4 * (size_t) WM_MODEL_BYTES_MAX ||
        self->bytes + bytes > 4 * (size_t) WM_MODEL_BYTES_MAX)
        return NULL;
    bytes = (bytes + 127) / 64 * 64; /* one line in front holds the chain */
    char *block = aligned_alloc (64, bytes);
    if (!block) {
        self->failed = true;
        return NULL;
    }
    memset (block, 0, bytes);
    *(void **) block = self->last;
    self->last = block;
    self->bytes += bytes;
    return block + 64;
}

void wm_arena_clear (wm_arena_t *self)
{
    while (self->last) {
        void *next = *(void **) self->last;
        free (self->last);
        self->last = next;
    }
    *self = (wm_arena_t){ 0 };
}
