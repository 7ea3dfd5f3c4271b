/* wm_sparse_memory.c - memory of the sparse engine: aligned floats, and buffers that only grow.  */
#include "kernels/sparse/wm_sparse.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES (2u << 20)

/* In units of the alignment, which `bytes` becomes a multiple of: huge pages where it is large.  */
static void *take (size_t *bytes)
{
    const size_t align = *bytes >= 2 * HUGE_BYTES ? HUGE_BYTES : 64;
    *bytes = (*bytes + align - 1) / align * align;
    void *memory = aligned_alloc (align, *bytes);
    if (memory && align == HUGE_BYTES)
        madvise (memory, *bytes, MADV_HUGEPAGE); /* a wish */
    return memory;
}

bool wm_sparse_reserve (wm_sparse_buffer_t *self, size_t count, size_t each, uint64_t *allocations)
{
    size_t bytes;
    if (__builtin_mul_overflow (count, each, &bytes) || bytes > SIZE_MAX / 4)
        return false;
    if (bytes <= self->bytes && self->data)
        return true;
    bytes += bytes / 4 + 256; /* so that planes that grow a little do not allocate every time */
    wm_sparse_release (self);
    self->data = take (&bytes);
    if (!self->data)
        return false;
    self->bytes = bytes;
    ++*allocations;
    return true;
}

void wm_sparse_release (wm_sparse_buffer_t *self)
{
    free (self->data);
    *self = (wm_sparse_buffer_t){ 0 };
}

void *wm_sparse_room (size_t bytes)
{
    return take (&bytes);
}

float *wm_sparse_floats (size_t count)
{
    float *p = aligned_alloc (64, (count * sizeof *p + 63) / 64 * 64);
    if (p)
        memset (p, 0, count * sizeof *p);
    return p;
}
