/* wm_pause.c - see wm_pause.h.  */
#include "broker/wm_pause.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4200

static int sync_folder (const char *dir)
{
    int fd = open (dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0 || fsync (fd);
    if (fd >= 0)
        close (fd);
    return failed ? -1 : 0;
}

int wm_pause_note (const char *dir, const char *why)
{
    char path[PATH_BYTES], temporary[PATH_BYTES];
    snprintf (path, sizeof path, "%s/paused", dir);
    snprintf (temporary, sizeof temporary, "%s/paused.new", dir);
    if (!why)
        return unlink (path) && errno != ENOENT ? -1 : sync_folder (dir);
    int fd = open (temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    size_t bytes = strlen (why);
    int failed = write (fd, why, bytes) != (ssize_t) bytes || write (fd, "\n", 1) != 1 ||
                 fsync (fd) || rename (temporary, path);
    int error = errno;
    close (fd);
    if (failed)
        unlink (temporary);
    errno = error;
    return failed ? -1 : sync_folder (dir);
}

int wm_pause_read (const char *dir, char *why, size_t bytes)
{
    char path[PATH_BYTES];
    snprintf (path, sizeof path, "%s/paused", dir);
    FILE *file = fopen (path, "re");
    if (!file)
        return 0;
    size_t n = fread (why, 1, bytes - 1, file);
    fclose (file);
    why[n] = 0;
    why[strcspn (why, "\n")] = 0;
    return 1;
}
