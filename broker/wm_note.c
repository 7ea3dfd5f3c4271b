/* wm_note.c - writes and reads the small files of a campaign's folder.  */
#include "broker/wm_note.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

int wm_note_write (const char *dir, const char *name, const void *data, size_t bytes)
{
    char path[PATH_BYTES], temporary[PATH_BYTES];
    snprintf (path, sizeof path, "%s/%s", dir, name);
    snprintf (temporary, sizeof temporary, "%s/%s.new", dir, name);
    if (!data)
        return unlink (path) && errno != ENOENT ? -1 : sync_folder (dir);
    int fd = open (temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    errno = ENOSPC; /* of a short write, which sets none */
    int failed =
        write (fd, data, bytes) != (ssize_t) bytes || fsync (fd) || rename (temporary, path);
    int error = errno;
    close (fd);
    if (failed)
        unlink (temporary);
    errno = error;
    return failed ? -1 : sync_folder (dir);
}

char *wm_note_read (const char *dir, const char *name, size_t most, size_t *bytes)
{
    char path[PATH_BYTES];
    snprintf (path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen (path, "re");
    char *data = file ? malloc (most + 2) : NULL;
    size_t n = data ? fread (data, 1, most + 1, file) : 0;
    if (data && (n > most || ferror (file))) {
        free (data);
        data = NULL;
    }
    if (file)
        fclose (file);
    if (data)
        data[n] = 0;
    if (bytes)
        *bytes = data ? n : 0;
    return data;
}
