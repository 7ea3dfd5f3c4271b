/* wm_region.c - a memory file, and a sorted list of the pieces that are taken.  */
#include "producer/serving/wm_region.h"
#include "schema/base/wm_grow.h"
#include "schema/session/wm_library.h"

#include <czmq.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE_BYTES ((size_t) 64)

typedef struct {
    size_t from, to;
} piece_t;

struct wm_region_t {
    int fd;
    uint8_t *memory;
    size_t bytes;
    piece_t *piece; /* in their order */
    size_t n_piece, piece_max;
};

wm_region_t *wm_region_new (size_t bytes)
{
    wm_region_t *self = zmalloc (sizeof *self);
    self->bytes = bytes;
    const int fd = memfd_create ("wiremill-rows", MFD_CLOEXEC);
    self->fd = fcntl (fd, F_DUPFD_CLOEXEC, WM_LIBRARY_FD + 1);
    if (fd >= 0)
        close (fd);
    self->memory = MAP_FAILED;
    if (self->fd >= 0 && ftruncate (self->fd, (off_t) bytes) == 0)
        self->memory = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
    if (self->memory == MAP_FAILED)
        wm_region_destroy (&self);
    return self;
}

void wm_region_destroy (wm_region_t **self_p)
{
    wm_region_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    if (self->memory != MAP_FAILED)
        munmap (self->memory, self->bytes);
    if (self->fd >= 0)
        close (self->fd);
    free (self->piece);
    free (self);
}

void *wm_region_take (wm_region_t *self, size_t bytes)
{
    size_t from = 0, i = 0;
    if (!self || !bytes || bytes > self->bytes)
        return NULL;
    const size_t whole = (bytes + LINE_BYTES - 1) & ~(LINE_BYTES - 1);
    while (i < self->n_piece && self->piece[i].from - from < whole)
        from = self->piece[i++].to;
    if (i == self->n_piece && self->bytes - from < whole)
        return NULL;
    wm_must_grow (&self->piece, &self->piece_max, self->n_piece + 1, sizeof *self->piece);
    memmove (self->piece + i + 1, self->piece + i, (self->n_piece - i) * sizeof *self->piece);
    self->piece[i] = (piece_t){ from, from + whole };
    self->n_piece++;
    return self->memory + from;
}

bool wm_region_give (wm_region_t *self, const void *piece)
{
    uint64_t place;
    size_t i = 0;
    if (!wm_region_place (self, piece, &place))
        return false;
    while (self->piece[i].from != place)
        i++;
    memmove (self->piece + i, self->piece + i + 1, (--self->n_piece - i) * sizeof *self->piece);
    return true;
}

bool wm_region_place (const wm_region_t *self, const void *piece, uint64_t *place)
{
    const uintptr_t at = (uintptr_t) piece, from = self ? (uintptr_t) self->memory : 0;
    if (!self || at < from || at >= from + self->bytes)
        return false;
    *place = at - from;
    return true;
}

int wm_region_fd (const wm_region_t *self)
{
    return self->fd;
}
