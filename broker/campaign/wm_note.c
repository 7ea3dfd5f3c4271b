/* wm_note.c - writes and reads the small files of a campaign's folder.  */
#include "broker/campaign/wm_note.h"
#include "broker/core/wm_core.h"
#include "schema/base/wm_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4200

int wm_note_write (const char *dir, const char *name, const void *data, size_t bytes)
{
    char path[PATH_BYTES], temporary[PATH_BYTES];
    snprintf (path, sizeof path, "%s/%s", dir, name);
    snprintf (temporary, sizeof temporary, "%s/%s.new", dir, name);
    if (!data)
        return unlink (path) && errno != ENOENT ? -1 : wm_folder_sync (dir);
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
    return failed ? -1 : wm_folder_sync (dir);
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

void wm_notes_read (wm_notes_t *self, const char *dir)
{
    *self = (wm_notes_t){ .arithmetic = wm_note_read (dir, "arithmetic", 1u << 16, NULL),
                          .distrusted =
                              wm_note_read (dir, "distrusted", WM_DISTRUSTED_BYTES_MAX, NULL) };
}

void wm_notes_free (wm_notes_t *self)
{
    free (self->arithmetic);
    free (self->distrusted);
}
