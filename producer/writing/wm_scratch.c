/* wm_scratch.c - makes and frees the scratch file of an input.  */
#include "producer/writing/wm_scratch.h"

#include "schema/base/wm_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEAP_BYTES_MAX (32u << 10) /* below it a file costs more than its memory: 4 MiB in all */

/* A file without a name. Some file systems, of networks above all, have none such: there a process
   that is killed between two calls leaves the file behind. -1: errno.  */
static int file_open (const char *folder)
{
    char name[1200];
    int fd = open (folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    snprintf (name, sizeof name, "%.1100s/.wiremill-scratch-XXXXXX", folder);
    fd = mkostemp (name, O_CLOEXEC);
    if (fd >= 0)
        unlink (name);
    return fd;
}

static wm_fault_t file_map (wm_scratch_t *self, int fd, const char *folder, wm_error_t *error)
{
    int rc = posix_fallocate (fd, 0, (off_t) self->bytes);
    if (wm_file_is_full (rc))
        return wm_fault (
            error, WM_EAGAIN,
            "%s: disk full: it has no room for %zu bytes of scores; free space there, and it "
            "goes on by itself",
            folder, self->bytes);
    if (rc)
        return wm_fault (error, WM_EHOST, "%s: no scratch file of %zu bytes: %s", folder,
                         self->bytes, strerror (rc));
    self->map = mmap (NULL, self->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (self->map == MAP_FAILED) {
        self->map = NULL;
        return wm_fault (error, WM_EHOST, "cannot map %zu bytes: %s", self->bytes,
                         strerror (errno));
    }
    return WM_OK;
}

static void lay_out (wm_scratch_t *self)
{
    self->score = self->map;
    self->engine = (uint16_t *) (void *) (self->score + self->n_row * self->n_output);
    self->state = (uint8_t *) (self->engine + self->n_row);
    self->in_fiducial = self->state + self->n_row;
}

wm_fault_t wm_scratch_open (wm_scratch_t *self, const char *folder, uint64_t n_row,
                            uint32_t n_output, wm_error_t *error)
{
    memset (self, 0, sizeof *self);
    self->n_row = n_row;
    self->n_output = n_output;
    uint64_t bytes; /* n_row < 2^32, n_output <= 1024: cannot pass 64 bits */
    bytes = n_row * (4ull * n_output + 4);
    self->bytes = bytes ? bytes : 1;
    if (self->bytes <= HEAP_BYTES_MAX) {
        if (!(self->map = calloc (1, self->bytes)))
            return wm_fault (error, WM_EHOST, "out of memory");
        lay_out (self);
        return WM_OK;
    }
    const int fd = file_open (folder);
    if (fd < 0)
        return wm_fault (error, wm_file_is_full (errno) ? WM_EAGAIN : WM_EHOST,
                         "%s: no scratch file: %s", folder, strerror (errno));
    wm_fault_t fault = file_map (self, fd, folder, error);
    close (fd);
    if (fault)
        return fault;
    lay_out (self);
    return WM_OK;
}

void wm_scratch_close (wm_scratch_t *self)
{
    if (self && self->bytes <= HEAP_BYTES_MAX)
        free (self->map);
    else if (self && self->map)
        munmap (self->map, self->bytes);
    if (self)
        memset (self, 0, sizeof *self);
}
