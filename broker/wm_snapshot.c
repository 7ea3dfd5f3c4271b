/* wm_snapshot.c - see wm_snapshot.h.  */
#include "broker/wm_snapshot.h"
#include "schema/base/wm_text.h"

#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

bool wm_snapshot_is_needed (const char *dir)
{
    return access (dir, R_OK | X_OK) == 0 && access (dir, W_OK) != 0;
}

/* is_needed: that it is missing is a fault.  */
static wm_fault_t copy_file (const char *from, const char *to, bool is_needed, wm_error_t *error)
{
    if (access (from, R_OK))
        return errno == ENOENT && !is_needed
                   ? WM_OK
                   : wm_fault (error, WM_EBATCH,
                               "%s cannot be read: %s; ask its owner to allow it (chmod -R go+rX)",
                               from, strerror (errno));
    const int failed = wm_file_copy (from, to);
    return failed
               ? wm_fault (error, WM_EHOST, "cannot copy %s to %s: %s", from, to, strerror (failed))
               : WM_OK;
}

/* A broker holds the lock for itself as long as it runs.  */
static wm_fault_t lock_shared (const char *dir, int *fd, wm_error_t *error)
{
    char path[PATH_MAX];
    snprintf (path, sizeof path, "%.4000s/lock", dir);
    *fd = open (path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return wm_fault (error, WM_EBATCH,
                         "%s cannot be read: %s; ask its owner to allow it (chmod -R go+rX)", path,
                         strerror (errno));
    for (int i = 0; flock (*fd, LOCK_SH | LOCK_NB); i++) {
        if (i == 20)
            return wm_fault (error, WM_EAGAIN,
                             "a broker serves the campaign in %s; ask that broker", dir);
        usleep (50000);
    }
    return WM_OK;
}

static void take_campaign (void *argument, const wm_ledger_campaign_t *row)
{
    wm_campaign_t *campaign = argument;
    wm_error_t ignored;
    memcpy (campaign->id, row->id, 16);
    if (!wm_pins_parse (&campaign->pins, row->pins, row->pins_bytes, &ignored))
        campaign->created_ns = row->created_ns;
}

wm_fault_t wm_snapshot_open (wm_snapshot_t *self, const char *dir, wm_error_t *error)
{
    static const char *const names[] = { "ledger.db", "ledger.db-wal" };
    static char from[PATH_MAX + 32], to[PATH_MAX + 32];
    int lock_fd;
    *self = (wm_snapshot_t){ .campaign = { .dir = dir, .lock_fd = -1 } };
    wm_fault_t fault = lock_shared (dir, &lock_fd, error);
    if (!fault)
        fault = wm_folder_temporary (self->folder, NULL, "wiremill", error);
    for (size_t i = 0; i < 2 && !fault; i++) {
        snprintf (from, sizeof from, "%s/%s", dir, names[i]);
        snprintf (to, sizeof to, "%s/%s", self->folder, names[i]);
        fault = copy_file (from, to, i == 0, error);
    }
    if (lock_fd >= 0)
        close (lock_fd);
    if (fault)
        return fault;
    self->campaign.ledger = wm_ledger_open (self->folder, NULL, error);
    if (!self->campaign.ledger)
        return error->fault;
    const wm_ledger_load_t to_load = { .campaign = take_campaign };
    fault = wm_ledger_load (self->campaign.ledger, NULL, &to_load, &self->campaign, NULL, error);
    char word[PATH_MAX];
    if (!fault && (*wm_ledger_set_aside (self->campaign.ledger) || !self->campaign.created_ns))
        fault = wm_fault (error, WM_EBATCH,
                          "the ledger in %s is damaged; ask its owner to run `wiremill rebuild %s`",
                          dir, wm_text_word (word, sizeof word, dir));
    return fault;
}

void wm_snapshot_close (wm_snapshot_t *self)
{
    static char path[2 * PATH_MAX];
    const struct dirent *entry;
    wm_campaign_close (&self->campaign);
    DIR *folder = *self->folder ? opendir (self->folder) : NULL;
    while (folder && (entry = readdir (folder))) {
        snprintf (path, sizeof path, "%s/%s", self->folder, entry->d_name);
        unlink (path);
    }
    if (folder)
        closedir (folder);
    if (*self->folder)
        rmdir (self->folder);
}
