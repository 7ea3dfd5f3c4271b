/* wm_sparse_memory.c - memory of the sparse engine: aligned floats, and buffers that only grow.  */
#include "kernels/sparse/wm_sparse.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES (2u << 20)

bool wm_sparse_reserve (wm_sparse_buffer_t *self, size_t count, size_t each, uint64_t *allocations)
{
    size_t bytes, align;
    if (__builtin_mul_overflow (count, each, &bytes) || bytes > SIZE_MAX / 4)
        return false;
    if (bytes <= self->bytes && self->data)
        return true;
    bytes += bytes / 4 + 256; /* so that planes that grow a little do not allocate every time */
    align = bytes >= 2 * HUGE_BYTES ? HUGE_BYTES : 64;
    bytes = (bytes + align - 1) / align * align;
    wm_sparse_release (self);
    self->data = aligned_alloc (align, bytes);
    if (!self->data)
        return false;
    if (align == HUGE_BYTES)
        madvise (self->data, bytes, MADV_HUGEPAGE); /* a wish */
    self->bytes = bytes;
    ++*allocations;
    return true;
}

void wm_sparse_release (wm_sparse_buffer_t *self)
{
    free (self->data);
    *self = (wm_sparse_buffer_t){ 0 };
}

float *wm_sparse_floats (size_t count)
{
    float *p = aligned_alloc (64, (count * sizeof *p + 63) / 64 * 64);
    if (p)
        memset (p, 0, count * sizeof *p);
    return p;
}
