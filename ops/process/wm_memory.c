/* wm_memory.c - see wm_memory.h. */
#include "ops/process/wm_memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

wm_fault_t wm_memory_file (const char *name, const char *text, size_t bytes, int *fd,
                           char path[32], wm_error_t *error)
{
    *fd = memfd_create (name, MFD_CLOEXEC);
    if (*fd < 0)
        return wm_fault (error, WM_EHOST, "memfd_create: %s", strerror (errno));
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write (*fd, text + done, bytes - done);
        if (n <= 0)
            return wm_fault (error, WM_EHOST, "memory for %s: %s", name, strerror (errno));
        done += (size_t) n;
    }
    snprintf (path, 32, "/proc/self/fd/%d", *fd);
    return WM_OK;
}
