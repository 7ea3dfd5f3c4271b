/* wm_writer_place.c - complete files become durable and get their names, many together.  */
#include "producer/writing/wm_writer_private.h"
#include "schema/base/wm_failpoint.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Syncs a folder; a failure must end the process.  */
static wm_fault_t sync_path (const char *path, wm_error_t *error)
{
    int fd = open (path, O_RDONLY | O_CLOEXEC);
    int rc = fd < 0 || fsync (fd) ? errno : 0;
    if (fd >= 0)
        close (fd);
    return rc ? wm_fault (error, WM_EHOST, "%s: fsync failed: %s", path, strerror (rc)) : WM_OK;
}

bool wm_writer_is_ready (const wm_writer_t *self)
{
    return self->phase == READY || self->phase == SYNCED;
}

wm_fault_t wm_writer_sync (wm_writer_t *self, wm_error_t *error)
{
    if (self->phase != READY)
        return WM_OK;
    WM_FAILPOINT ("producer-output-sync");
    if (fsync (self->fd))
        return wm_fault (error, WM_EHOST, "%s: fsync failed: %s", self->part, strerror (errno));
    self->phase = SYNCED;
    return WM_OK;
}

/* Gives the synced file its name.  */
static wm_fault_t output_rename (wm_writer_t *self, wm_error_t *error)
{
    struct stat status;
    assert (self->phase == SYNCED);
    WM_FAILPOINT ("producer-output-rename");
    if (rename (self->part, self->job.path))
        return wm_fault (error, WM_EHOST, "%s: cannot rename %s to it: %s", self->job.path,
                         self->part, strerror (errno));
    WM_FAILPOINT ("producer-output-renamed");
    if (fstat (self->fd, &status))
        return wm_fault (error, WM_EHOST, "%s: cannot inspect it: %s", self->job.path,
                         strerror (errno));
    self->result.size = (uint64_t) status.st_size;
    self->result.mtime_ns = (int64_t) status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    self->result.n_held = self->n_held;
    return WM_OK;
}

static void folder_of (const char *path, char folder[1500])
{
    snprintf (folder, 1500, "%s", path);
    char *slash = strrchr (folder, '/');
    if (slash)
        *(slash == folder ? slash + 1 : slash) = 0;
    else
        strcpy (folder, ".");
}

void wm_writer_digest (wm_writer_t *self)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash (&canonical, XXH3_128bits_digest (self->hash));
    memcpy (self->result.digest, canonical.digest, 16);
    self->phase = DONE;
}

wm_fault_t wm_writer_place (wm_writer_t *const *writer, uint32_t n, wm_error_t *error)
{
    char folder[1500], next[1500];
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < n && !fault; i++)
        fault = output_rename (writer[i], error);
    for (uint32_t i = 0; i < n && !fault; i++) { /* one sync for neighbours of one folder */
        folder_of (writer[i]->job.path, next);
        if (i && !strcmp (folder, next))
            continue;
        memcpy (folder, next, sizeof folder);
        fault = sync_path (folder, error);
        WM_FAILPOINT ("producer-output-placed");
    }
    for (uint32_t i = 0; i < n && !fault; i++) {
        writer[i]->phase = HASH;
        if (writer[i]->is_small)
            wm_writer_digest (writer[i]);
    }
    return fault;
}
