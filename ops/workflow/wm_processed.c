/* wm_processed.c - see wm_processed.h.  */
#include "ops/workflow/wm_processed.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_url.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_MAX (64l << 20)

static wm_fault_t failed (const wm_processed_list_t *self, wm_error_t *error)
{
    return wm_fault (error, wm_file_is_full (errno) ? WM_EAGAIN : WM_EHOST,
                     "the list of processed files %s cannot be written: %s", self->path,
                     strerror (errno));
}

/* Appends a text, whole or not at all, and waits until it is on disk.  */
static wm_fault_t append (wm_processed_list_t *self, const char *text, wm_error_t *error)
{
    const off_t end = lseek (self->fd, 0, SEEK_END);
    if (wm_file_append (self->fd, text, strlen (text)) || fdatasync (self->fd)) {
        failed (self, error);
        if (end >= 0 && ftruncate (self->fd, end) == 0)
            lseek (self->fd, end, SEEK_SET);
        return error->fault;
    }
    return WM_OK;
}

static bool has_line (const wm_processed_list_t *self, const char *name)
{
    const uint64_t hash = wm_table_text (name);
    size_t at;
    const char *line = wm_table_first (&self->lines, hash, &at);
    while (line && strcmp (line, name) != 0)
        line = wm_table_next (&self->lines, hash, &at);
    return line != NULL;
}

/* Takes a line, which must stay where it is. Returns whether there is memory for it.  */
static bool take_line (wm_processed_list_t *self, char *line)
{
    if (has_line (self, line))
        return true;
    if (wm_table_reserve (&self->lines))
        return false;
    wm_table_put (&self->lines, wm_table_text (line), line);
    return true;
}

/* As lists and people may see it: without what opens a URL.  */
static char *public_name (const char *name)
{
    char *copy = strdup (name);
    if (copy)
        wm_url_redact (copy);
    return copy;
}

static bool begins (const char *name, const char *part)
{
    char *copy = public_name (name);
    const bool yes = copy && strncmp (copy, part, strlen (part)) == 0;
    free (copy);
    return yes;
}

/* A last line without an end.  */
static wm_fault_t mend (wm_processed_list_t *self, char *text, const wm_file_source_t *feed,
                        wm_error_t *error)
{
    char *last = strrchr (text, '\n');
    last = last ? last + 1 : text;
    if (!*last)
        return WM_OK;
    bool torn = false;
    for (uint32_t i = 0; i < feed->n_file && !torn; i++)
        torn = begins (feed->file[i].pfn, last) || begins (feed->file[i].did, last);
    if (!torn)
        return append (self, "\n", error);
    *last = 0;
    return ftruncate (self->fd, last - text) ? failed (self, error) : WM_OK;
}

static wm_fault_t list_open (wm_processed_list_t *self, const char *path,
                             const wm_file_source_t *feed, wm_error_t *error)
{
    struct stat st;
    self->fd = -1;
    if (!path)
        return WM_OK;
    snprintf (self->path, sizeof self->path, "%.4000s", path);
    self->fd = open (path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (self->fd < 0 || fstat (self->fd, &st))
        return wm_fault (error, WM_EUSAGE, "the list of processed files %s cannot be opened: %s",
                         path, strerror (errno));
    if (!S_ISREG (st.st_mode) || st.st_size > BYTES_MAX)
        return wm_fault (error, WM_EUSAGE,
                         "%s is no list of processed files: give a file of lines, or a new name",
                         path);
    char *text = calloc ((size_t) st.st_size + 1, 1); /* the lines stay in it */
    if (!text)
        return wm_fault (error, WM_EHOST, "no memory for %s", path);
    const ssize_t n = pread (self->fd, text, (size_t) st.st_size, 0);
    if (strlen (text) != (n > 0 ? (size_t) n : 0))
        return wm_fault (error, WM_EUSAGE, "%s is no list of processed files: it has NULs", path);
    if (wm_folder_sync_parent (path)) /* its name, too */
        return failed (self, error);
    const wm_fault_t fault = mend (self, text, feed, error);
    for (char *line; !fault && (line = strsep (&text, "\n"));)
        if (!take_line (self, line))
            return wm_fault (error, WM_EHOST, "no memory for %s", path);
    return fault;
}

wm_fault_t wm_processed_open (wm_processed_t *self, const wm_args_t *args,
                              const wm_file_source_t *feed, wm_error_t *error)
{
    self->dids.fd = -1;
    const wm_fault_t fault =
        list_open (&self->pfns, wm_args_text (args, "processed-pfns"), feed, error);
    return fault ? fault
                 : list_open (&self->dids, wm_args_text (args, "processed-dids"), feed, error);
}

static wm_fault_t add_line (wm_processed_list_t *self, const char *name, wm_error_t *error)
{
    char *line = NULL, *copy = self->fd >= 0 && *name ? public_name (name) : NULL;
    wm_fault_t fault = WM_OK;
    if (copy && !has_line (self, copy) && asprintf (&line, "%s\n", copy) > 0) {
        fault = append (self, line, error);
        if (!fault && take_line (self, copy))
            copy = NULL; /* it stays in the table */
        else if (!fault)
            fault = wm_fault (error, WM_EHOST, "no memory for %s", self->path);
    }
    free (line);
    free (copy);
    return fault;
}

wm_fault_t wm_processed_add (wm_processed_t *self, const wm_file_source_file_t *file,
                             wm_error_t *error)
{
    WM_FAILPOINT ("processed-add");
    wm_fault_t fault = add_line (&self->pfns, file->pfn, error);
    WM_FAILPOINT ("processed-pfn");
    if (!fault)
        fault = add_line (&self->dids, file->did, error);
    WM_FAILPOINT ("processed-did");
    return fault;
}
