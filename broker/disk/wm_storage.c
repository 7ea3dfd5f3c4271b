/* wm_storage.c - the journal's file operations as POSIX has them (wm_storage_ops_t).  */
#include "broker/disk/wm_journal.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_folder (void *context, const char *path)
{
    (void) context;
    return mkdir (path, 0777) == 0 || errno == EEXIST ? 0 : -1;
}

static int list (void *context, const char *path, void (*each) (void *, const char *),
                 void *argument)
{
    (void) context;
    DIR *folder = opendir (path);
    if (!folder)
        return -1;
    errno = 0;
    for (const struct dirent *entry; (entry = readdir (folder)); errno = 0)
        each (argument, entry->d_name);
    const int failed = errno;
    closedir (folder);
    errno = failed;
    return failed ? -1 : 0;
}

static int create (void *context, const char *path)
{
    (void) context;
    WM_FAILPOINT ("broker-segment-create");
    const int fd = open (path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    WM_FAILPOINT ("broker-segment-created");
    return fd;
}

static int open_old (void *context, const char *path)
{
    (void) context;
    return open (path, O_RDWR | O_CLOEXEC);
}

static int close_file (void *context, int fd)
{
    (void) context;
    return close (fd);
}

static int64_t size_of (void *context, int fd)
{
    (void) context;
    struct stat status;
    return fstat (fd, &status) == 0 ? status.st_size : -1;
}

static int allocate (void *context, int fd, int64_t offset, int64_t bytes)
{
    (void) context;
    do
        errno = posix_fallocate (fd, offset, bytes);
    while (errno == EINTR);
    const int failed = errno;
    WM_FAILPOINT ("broker-segment-allocated");
    errno = failed;
    return failed ? -1 : 0;
}

static ssize_t read_at (void *context, int fd, void *buffer, size_t bytes, int64_t offset)
{
    (void) context;
    return pread (fd, buffer, bytes, offset);
}

static ssize_t write_at (void *context, int fd, const void *buffer, size_t bytes, int64_t offset)
{
    (void) context;
    WM_FAILPOINT ("broker-journal-write");
    const ssize_t wrote = pwrite (fd, buffer, bytes, offset);
    WM_FAILPOINT ("broker-journal-wrote");
    return wrote;
}

static int sync_file (void *context, int fd)
{
    (void) context;
    WM_FAILPOINT ("broker-journal-sync");
    const int result = fdatasync (fd);
    WM_FAILPOINT ("broker-journal-synced");
    return result;
}

static int forget (void *context, int fd)
{
    (void) context;
    errno = posix_fadvise (fd, 0, 0, POSIX_FADV_DONTNEED);
    return errno ? -1 : 0;
}

static int sync_folder (void *context, const char *path)
{
    (void) context;
    return wm_folder_sync (path);
}

static int remove_file (void *context, const char *path)
{
    (void) context;
    WM_FAILPOINT ("broker-segment-remove");
    const int result = unlink (path);
    WM_FAILPOINT ("broker-segment-removed");
    return result;
}

const wm_storage_ops_t wm_storage_posix = {
    .make_folder = make_folder,
    .list = list,
    .create = create,
    .open = open_old,
    .close = close_file,
    .size = size_of,
    .allocate = allocate,
    .read = read_at,
    .write = write_at,
    .sync = sync_file,
    .forget = forget,
    .sync_folder = sync_folder,
    .remove = remove_file,
};
