/* wm_gpu_fake_memory.c - the memory of the stand-in for a GPU.  */
#include "tests/standin/wm_gpu_fake_memory.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLANK ((size_t) 16 << 20) /* bytes, of whole pages */

static size_t page_bytes (void)
{
    return (size_t) sysconf (_SC_PAGESIZE);
}

/* A file of NaN, in half and in float32: what nothing has written takes no memory.  */
static int blank (void)
{
    static int fd = -1;
    static char ones[1 << 16];
    if (fd < 0) {
        fd = memfd_create ("blank", MFD_CLOEXEC);
        assert (fd >= 0);
        memset (ones, 0xff, sizeof ones);
        for (size_t at = 0; at < BLANK; at += sizeof ones)
            assert (write (fd, ones, sizeof ones) == sizeof ones);
    }
    return fd;
}

void *fake_memory_new (fake_memory_t *self, size_t bytes, bool device)
{
    const size_t page = page_bytes (), rounded = (bytes + FAKE_ALIGN - 1) / FAKE_ALIGN * FAKE_ALIGN;
    const size_t inside = (rounded + page - 1) / page * page;
    assert (self->n < FAKE_REGIONS_MAX && bytes > 0);
    char *base = mmap (NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert (base != MAP_FAILED);
    for (size_t at = 0; at < inside; at += BLANK) {
        const size_t n = inside - at < BLANK ? inside - at : BLANK;
        assert (mmap (base + page + at, n, device ? PROT_NONE : PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_FIXED, blank (), 0) != MAP_FAILED);
    }
    fake_region_t *region = &self->region[self->n++];
    *region = (fake_region_t){ .page = base,
                               .data = base + page + inside - rounded,
                               .bytes = bytes,
                               .inside = inside,
                               .device = device };
    return region->data;
}

static bool untouched (const char *from, const char *to)
{
    while (from < to && *from == (char) 0xff)
        from++;
    return from == to;
}

/* Whether the guard bytes around the data, inside its pages, are unchanged.  */
static bool guards_hold (const fake_region_t *region)
{
    const char *first = region->page + page_bytes (), *end = region->data + region->bytes;
    return untouched (first, region->data) && untouched (end, first + region->inside);
}

uint32_t fake_memory_clear (fake_memory_t *self)
{
    uint32_t broken = 0;
    fake_memory_open (self, true);
    while (self->n > 0) {
        const fake_region_t *r = &self->region[--self->n];
        broken += !guards_hold (r);
        munmap (r->page, r->inside + 2 * page_bytes ());
    }
    return broken;
}

void fake_memory_open (const fake_memory_t *self, bool open)
{
    for (uint32_t i = 0; i < self->n; i++)
        if (self->region[i].device)
            assert (mprotect (self->region[i].page + page_bytes (), self->region[i].inside,
                              open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
}

fake_region_t *fake_memory_find (fake_memory_t *self, const void *p)
{
    const char *c = p;
    for (uint32_t i = 0; i < self->n; i++) {
        fake_region_t *r = &self->region[i];
        if (c >= r->data && c < r->data + r->bytes)
            return r;
    }
    return NULL;
}

bool fake_memory_holds (const fake_memory_t *self, const void *p, size_t bytes, bool device)
{
    const char *c = p;
    for (uint32_t i = 0; i < self->n; i++) {
        const fake_region_t *r = &self->region[i];
        if (r->device == device && c >= r->data && c + bytes <= r->data + r->bytes)
            return true;
    }
    return false;
}

bool fake_memory_is_lent (const fake_memory_t *self, const void *p, size_t bytes)
{
    const char *c = p;
    return self->lent && c >= self->lent && c + bytes <= self->lent + self->lent_bytes;
}
