/* wm_loaded.c - files that came with a load, in a folder of the state folder (wm_override.h).  */
#include "producer/serving/wm_override.h"
#include "schema/base/wm_folder.h"

#include <czmq.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "wiremill-loaded-" /* and a number */

static wm_fault_t write_file (const char *path, const uint8_t *data, size_t bytes,
                              wm_error_t *error)
{
    const int file = open (path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t n = file < 0 ? -1 : 0;
    for (size_t at = 0; n >= 0 && at < bytes; at += (size_t) n)
        n = write (file, data + at, bytes - at);
    const int failed = errno;
    if (file >= 0)
        close (file);
    return n >= 0 ? WM_OK
                  : wm_fault (error, WM_EHOST, "%.300s cannot be written: %s", path,
                              strerror (failed));
}

wm_loaded_t *wm_loaded_new (const char *state, uint32_t number, wm_loaded_sum_t *sum,
                            const wm_override_t *override, wm_error_t *error)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < override->n_file; i++)
        bytes += override->file[i].bytes;
    if (bytes > sum->bytes_max - sum->bytes) {
        wm_fault (error, WM_EHOST,
                  "the files of this load have %zu bytes, and those of models that came with loads "
                  "%zu: all together may have %zu (--memory); unload one of them first",
                  bytes, sum->bytes, sum->bytes_max);
        return NULL;
    }
    wm_loaded_t *self = zmalloc (sizeof *self);
    char path[PATH_MAX];
    wm_fault_t fault = WM_OK;
    *self = (wm_loaded_t){ .n_user = 1, .bytes = bytes, .sum = sum };
    sum->bytes += bytes;
    snprintf (self->path, sizeof self->path, "%.3800s/" NAME "%u", state, number);
    for (uint32_t i = 0; i < override->n_file && !fault; i++) {
        const char *name = override->file[i].name, *slash = strchr (name, '/');
        snprintf (path, sizeof path, "%.3900s/%.*s", self->path, slash ? (int) (slash - name) : 0,
                  name);
        fault = wm_folder_make (path, 0700, error);
        snprintf (path, sizeof path, "%.3900s/%.160s", self->path, name);
        if (!fault)
            fault = write_file (path, override->file[i].data, override->file[i].bytes, error);
    }
    if (fault)
        wm_loaded_drop (&self);
    return self;
}

wm_loaded_t *wm_loaded_use (wm_loaded_t *self)
{
    if (self)
        self->n_user++;
    return self;
}

void wm_loaded_drop (wm_loaded_t **self_p)
{
    wm_loaded_t *self = *self_p;
    *self_p = NULL;
    if (!self || --self->n_user)
        return;
    self->sum->bytes -= self->bytes;
    wm_folder_remove (self->path);
    free (self);
}

void wm_loaded_sweep (const char *state)
{
    char path[PATH_MAX];
    DIR *folder = opendir (state);
    for (const struct dirent *item; folder && (item = readdir (folder));) {
        const char *number = item->d_name + strlen (NAME);
        if (strncmp (item->d_name, NAME, strlen (NAME)) != 0 ||
            number[strspn (number, "0123456789")])
            continue;
        snprintf (path, sizeof path, "%.3800s/%.200s", state, item->d_name);
        wm_folder_remove (path);
    }
    if (folder)
        closedir (folder);
}
