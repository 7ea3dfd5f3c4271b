/* powercut.h - a disk in memory that loses its power.

   It keeps what was synced and, of what was not, any part: each 512-byte sector of a write, the
   size of a file, a name made or removed, by the throw of a die. disk_ops is its face for the
   journal. Every operation that changes the disk counts down operations_left; at 0 the power goes:
   the includer's disk_power_gone is called, and should it return, that operation and all after it
   fail with EIO until disk_come_back. Names are without their folders.

   For one file of a test program: include it once, set DISK_DATA_BYTES and DISK_FILES before if
   the world is to be larger, and point `disk` at zeroed memory (shared, if children live on it). */
#ifndef POWERCUT_H
#define POWERCUT_H

#include "broker/disk/wm_journal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifndef DISK_FILES
#define DISK_FILES 192
#endif
#ifndef DISK_DATA_BYTES
#define DISK_DATA_BYTES (128u << 10) /* kept of a file; a write behind them meets a full disk */
#endif
#ifndef DISK_ALLOCATED_BYTES
#define DISK_ALLOCATED_BYTES (2 * DISK_DATA_BYTES) /* of a file at most, whatever is asked for */
#endif
#define DISK_SECTOR 512u

typedef struct {
    char name[32];
    int there, there_durably;
    int64_t size, size_durable;
    size_t touched; /* sectors that were ever written lie below */
    uint8_t dirty[DISK_DATA_BYTES / DISK_SECTOR];
    uint8_t data[DISK_DATA_BYTES], durable[DISK_DATA_BYTES];
} disk_file_t;

typedef struct {
    disk_file_t file[DISK_FILES];
    uint64_t operations_left; /* until the power goes */
    uint64_t random;
    uint32_t full_one_in;  /* one allocation of so many meets a full disk; 0: none */
    uint32_t short_one_in; /* one write of so many writes half; 0: none */
    int full;              /* nothing can be allocated or made */
    int gone;              /* the power */
} disk_t;

static disk_t *disk;

static void disk_power_gone (void);

static uint32_t disk_roll (uint32_t sides)
{
    disk->random = disk->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (disk->random >> 33) % sides;
}

/* -1: the power is gone.  */
static int disk_tick (void)
{
    if (!disk->gone && disk->operations_left-- == 0) {
        disk->gone = 1;
        disk_power_gone ();
    }
    errno = EIO;
    return disk->gone ? -1 : 0;
}

static const char *disk_name (const char *path)
{
    const char *slash = strrchr (path, '/');
    return slash ? slash + 1 : path;
}

static disk_file_t *disk_find (const char *path)
{
    for (size_t i = 0; i < DISK_FILES; i++)
        if (disk->file[i].there && strcmp (disk->file[i].name, disk_name (path)) == 0)
            return &disk->file[i];
    return NULL;
}

static int disk_make_folder (void *context, const char *path)
{
    (void) context, (void) path;
    return disk->gone ? -1 : 0;
}

static int disk_list (void *context, const char *path, void (*each) (void *, const char *),
                      void *argument)
{
    (void) context, (void) path;
    for (size_t i = 0; i < DISK_FILES; i++)
        if (disk->file[i].there)
            each (argument, disk->file[i].name);
    return 0;
}

static int disk_open (void *context, const char *path)
{
    (void) context;
    const disk_file_t *file = disk_find (path);
    errno = ENOENT;
    return file ? (int) (file - disk->file) : -1;
}

static void disk_wipe (disk_file_t *file)
{
    memset (file->dirty, 0, file->touched);
    memset (file->data, 0, file->touched * DISK_SECTOR);
    memset (file->durable, 0, file->touched * DISK_SECTOR);
    file->touched = 0;
    file->size = file->size_durable = 0;
    file->there = file->there_durably = 0;
}

static int disk_create (void *context, const char *path)
{
    (void) context;
    if (disk_tick ())
        return -1;
    errno = EEXIST;
    if (disk_find (path))
        return -1;
    errno = ENOSPC;
    for (size_t i = 0; i < DISK_FILES && !disk->full; i++) {
        disk_file_t *file = &disk->file[i];
        if (file->there || file->there_durably)
            continue;
        disk_wipe (file);
        snprintf (file->name, sizeof file->name, "%s", disk_name (path));
        file->there = 1;
        return (int) i;
    }
    return -1;
}

static int disk_close (void *context, int fd)
{
    (void) context, (void) fd;
    return 0;
}

static int64_t disk_size (void *context, int fd)
{
    (void) context;
    return disk->file[fd].size;
}

static int disk_allocate (void *context, int fd, int64_t offset, int64_t bytes)
{
    (void) context;
    if (disk_tick ())
        return -1;
    errno = ENOSPC;
    if (disk->full || (disk->full_one_in && disk_roll (disk->full_one_in) == 0))
        return -1;
    /* A smaller world than the journal's steps of 16 MiB, so that a life takes milliseconds.  */
    const int64_t size = offset + bytes;
    disk_file_t *file = &disk->file[fd];
    const int64_t least = size < DISK_ALLOCATED_BYTES ? size : DISK_ALLOCATED_BYTES;
    file->size = file->size > least ? file->size : least;
    return 0;
}

static ssize_t disk_read (void *context, int fd, void *buffer, size_t bytes, int64_t offset)
{
    (void) context;
    const disk_file_t *file = &disk->file[fd];
    if (offset >= file->size)
        return 0;
    if ((int64_t) bytes > file->size - offset)
        bytes = (size_t) (file->size - offset);
    memset (buffer, 0, bytes);
    if (offset < DISK_DATA_BYTES)
        memcpy (buffer, file->data + offset,
                bytes < DISK_DATA_BYTES - (size_t) offset ? bytes
                                                          : DISK_DATA_BYTES - (size_t) offset);
    return (ssize_t) bytes;
}

static ssize_t disk_write (void *context, int fd, const void *buffer, size_t bytes, int64_t offset)
{
    (void) context;
    if (disk_tick ())
        return -1;
    disk_file_t *file = &disk->file[fd];
    errno = ENOSPC;
    if ((uint64_t) offset + bytes > DISK_DATA_BYTES ||
        (disk->full && offset + (int64_t) bytes > file->size))
        return -1;
    if (bytes > 1 && disk->short_one_in && disk_roll (disk->short_one_in) == 0)
        bytes /= 2;
    memcpy (file->data + offset, buffer, bytes);
    const size_t end = ((size_t) offset + bytes + DISK_SECTOR - 1) / DISK_SECTOR;
    for (size_t at = (size_t) offset / DISK_SECTOR; at < end; at++)
        file->dirty[at] = 1;
    if (end > file->touched)
        file->touched = end;
    if (offset + (int64_t) bytes > file->size)
        file->size = offset + (int64_t) bytes;
    return (ssize_t) bytes;
}

static int disk_sync (void *context, int fd)
{
    (void) context;
    if (disk_tick ())
        return -1;
    disk_file_t *file = &disk->file[fd];
    for (size_t i = 0; i < file->touched; i++)
        if (file->dirty[i])
            memcpy (file->durable + i * DISK_SECTOR, file->data + i * DISK_SECTOR, DISK_SECTOR);
    memset (file->dirty, 0, file->touched);
    file->size_durable = file->size;
    return 0;
}

static int disk_forget (void *context, int fd)
{
    (void) context, (void) fd;
    return 0;
}

static int disk_sync_folder (void *context, const char *path)
{
    (void) context, (void) path;
    if (disk_tick ())
        return -1;
    for (size_t i = 0; i < DISK_FILES; i++)
        disk->file[i].there_durably = disk->file[i].there;
    return 0;
}

static int disk_remove (void *context, const char *path)
{
    (void) context;
    if (disk_tick ())
        return -1;
    disk_file_t *file = disk_find (path);
    errno = ENOENT;
    if (!file)
        return -1;
    file->there = 0;
    return 0;
}

static const wm_storage_ops_t disk_ops = {
    .make_folder = disk_make_folder,
    .list = disk_list,
    .create = disk_create,
    .open = disk_open,
    .close = disk_close,
    .size = disk_size,
    .allocate = disk_allocate,
    .read = disk_read,
    .write = disk_write,
    .sync = disk_sync,
    .forget = disk_forget,
    .sync_folder = disk_sync_folder,
    .remove = disk_remove,
    .segment_bytes_max = 32u << 10, /* so that an epoch has many */
};

/* The power comes back: what was not synced is there or not. The same after a kill, where all of
   it is there, but still not durable.  */
static void disk_come_back (int is_power_cut)
{
    disk->gone = 0;
    for (size_t i = 0; i < DISK_FILES && is_power_cut; i++) {
        disk_file_t *file = &disk->file[i];
        if (!file->there && !file->there_durably)
            continue;
        if (file->there != file->there_durably && disk_roll (2))
            file->there = file->there_durably;
        file->there_durably = file->there;
        if (disk_roll (2))
            file->size = file->size_durable;
        file->size_durable = file->size;
        for (size_t at = 0; at < file->touched; at++) {
            uint8_t *data = file->data + at * DISK_SECTOR;
            uint8_t *durable = file->durable + at * DISK_SECTOR;
            if (!file->dirty[at] || disk_roll (2))
                memcpy (data, durable, DISK_SECTOR);
            else
                memcpy (durable, data, DISK_SECTOR);
            file->dirty[at] = 0;
        }
    }
}

#endif
