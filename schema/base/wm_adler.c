/* wm_adler.c - reads a file for its adler32.  */
#include "schema/base/wm_adler.h"

#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_BYTES (1u << 20)

int wm_adler_file (const char *path, uint32_t *adler, struct stat *status)
{
    /* a pipe would wait for a writer */
    const int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int failed = fd < 0 || fstat (fd, status) ? errno : S_ISREG (status->st_mode) ? 0 : EINVAL;
    uint8_t *buffer = failed ? NULL : malloc (READ_BYTES);
    ssize_t n = 0;
    *adler = 1;
    if (!failed && !buffer)
        failed = ENOMEM;
    while (!failed && ((n = read (fd, buffer, READ_BYTES)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0)
            *adler = libdeflate_adler32 (*adler, buffer, (size_t) n);
    if (n < 0)
        failed = errno;
    free (buffer);
    if (fd >= 0)
        close (fd);
    return failed;
}
