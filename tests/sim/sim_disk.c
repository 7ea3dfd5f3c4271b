/* sim_disk.c - the disk that loses its power, with a second face for SQLite.

   The VFS has no shared memory: the ledger takes exclusive locking before WAL, and so needs none.
 */
#define DISK_FILES 320
#define DISK_DATA_BYTES (6u << 20)       /* the ledger is one of its files */
#define DISK_ALLOCATED_BYTES (64u << 10) /* so that a start has little to read */
#include "tests/powercut.h"

#include "tests/sim/sim.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <sys/mman.h>

static int fail_sync;     /* the next fdatasync fails, once */
static bool lazy_wal;     /* SQLite's synchronous=NORMAL */
static int wal_fd = -1;   /* lazy: to be synced before the database is written */
static int lying_fd = -1; /* BUG_FSYNC_IGNORED: nothing of it reaches the disk any more */

static void disk_power_gone (void)
{
    if (broker_is_up ())
        log_event ("disk", "the power goes");
}

/* What Linux does with what it could not write: it is clean in memory and wrong, or right, on the
   disk, and no later sync reports it.  */
static void give_up (int fd)
{
    disk_file_t *file = &disk->file[fd];
    for (size_t at = 0; at < file->touched; at++)
        if (file->dirty[at]) {
            if (disk_roll (2))
                memcpy (file->durable + at * DISK_SECTOR, file->data + at * DISK_SECTOR,
                        DISK_SECTOR);
            file->dirty[at] = 0;
        }
}

static int forget (void *context, int fd)
{
    (void) context;
    disk_file_t *file = &disk->file[fd];
    for (size_t at = 0; at < file->touched && sim.bug != BUG_CACHE_TRUSTED; at++)
        if (!file->dirty[at])
            memcpy (file->data + at * DISK_SECTOR, file->durable + at * DISK_SECTOR, DISK_SECTOR);
    return 0;
}

static int sync_or_fail (void *context, int fd)
{
    if (sim.bug == BUG_NO_FDATASYNC)
        return disk->gone ? -1 : 0;
    if (fail_sync && !disk->gone) {
        fail_sync = 0;
        errno = EIO;
        log_event ("disk", "an fdatasync fails");
        if (sim.bug != BUG_FSYNC_IGNORED) {
            give_up (fd);
            return -1;
        }
        lying_fd = fd;
    }
    sim.n_sync++;
    if (fd == lying_fd && !disk->gone)
        return 0;
    return disk_sync (context, fd);
}

const wm_storage_ops_t sim_disk_ops = {
    .make_folder = disk_make_folder,
    .list = disk_list,
    .create = disk_create,
    .open = disk_open,
    .close = disk_close,
    .size = disk_size,
    .allocate = disk_allocate,
    .read = disk_read,
    .write = disk_write,
    .sync = sync_or_fail,
    .forget = forget,
    .sync_folder = disk_sync_folder,
    .remove = disk_remove,
    .segment_bytes_max = 4u << 10, /* so that an epoch has many, begun between two syncs too */
};

/* ---- SQLite's face --------------------------------------------------------------------------- */

typedef struct {
    sqlite3_file base;
    int fd;
    int name_dirty; /* made here, and its name not synced yet */
} vfs_file_t;

static int fd_of (sqlite3_file *file)
{
    return ((vfs_file_t *) file)->fd;
}

static int vfs_close (sqlite3_file *file)
{
    (void) file;
    return SQLITE_OK;
}

static int vfs_read (sqlite3_file *file, void *buffer, int bytes, sqlite3_int64 offset)
{
    if (disk->gone)
        return SQLITE_IOERR_READ;
    ssize_t got = disk_read (NULL, fd_of (file), buffer, (size_t) bytes, offset);
    if (got == bytes)
        return SQLITE_OK;
    memset ((char *) buffer + got, 0, (size_t) (bytes - got));
    return SQLITE_IOERR_SHORT_READ;
}

static int vfs_write (sqlite3_file *file, const void *buffer, int bytes, sqlite3_int64 offset)
{
    if (wal_fd >= 0 && fd_of (file) != wal_fd) {
        if (disk_sync (NULL, wal_fd))
            return SQLITE_IOERR_FSYNC;
        wal_fd = -1;
    }
    for (int done = 0; done < bytes;) {
        ssize_t put = disk_write (NULL, fd_of (file), (const char *) buffer + done,
                                  (size_t) (bytes - done), offset + done);
        if (put < 0)
            return errno == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE;
        done += (int) put;
    }
    return SQLITE_OK;
}

static int vfs_truncate (sqlite3_file *file, sqlite3_int64 size)
{
    if (disk_tick ())
        return SQLITE_IOERR_TRUNCATE;
    disk_file_t *f = &disk->file[fd_of (file)];
    if (size < f->size && (size_t) size < f->touched * DISK_SECTOR) {
        memset (f->data + size, 0, f->touched * DISK_SECTOR - (size_t) size);
        for (size_t i = (size_t) size / DISK_SECTOR; i < f->touched; i++)
            f->dirty[i] = 1;
    }
    f->size = size;
    return SQLITE_OK;
}

static int vfs_sync (sqlite3_file *file, int flags)
{
    (void) flags;
    vfs_file_t *f = (vfs_file_t *) file;
    if (lazy_wal && !f->name_dirty && strstr (disk->file[f->fd].name, "-wal")) {
        wal_fd = f->fd;
        return disk->gone ? SQLITE_IOERR_FSYNC : SQLITE_OK;
    }
    if (disk_sync (NULL, f->fd))
        return SQLITE_IOERR_FSYNC;
    if (f->name_dirty) {
        if (disk_tick ())
            return SQLITE_IOERR_DIR_FSYNC;
        disk->file[f->fd].there_durably = disk->file[f->fd].there;
        f->name_dirty = 0;
    }
    return SQLITE_OK;
}

static int vfs_size (sqlite3_file *file, sqlite3_int64 *size)
{
    *size = disk->file[fd_of (file)].size;
    return SQLITE_OK;
}

static int vfs_lock (sqlite3_file *file, int level)
{
    (void) file, (void) level;
    return SQLITE_OK;
}

static int vfs_reserved (sqlite3_file *file, int *is)
{
    (void) file;
    *is = 0;
    return SQLITE_OK;
}

static int vfs_control (sqlite3_file *file, int what, void *argument)
{
    (void) file, (void) what, (void) argument;
    return SQLITE_NOTFOUND;
}

static int vfs_sector (sqlite3_file *file)
{
    (void) file;
    return DISK_SECTOR;
}

static int vfs_character (sqlite3_file *file)
{
    (void) file;
    return 0;
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = vfs_close,
    .xRead = vfs_read,
    .xWrite = vfs_write,
    .xTruncate = vfs_truncate,
    .xSync = vfs_sync,
    .xFileSize = vfs_size,
    .xLock = vfs_lock,
    .xUnlock = vfs_lock,
    .xCheckReservedLock = vfs_reserved,
    .xFileControl = vfs_control,
    .xSectorSize = vfs_sector,
    .xDeviceCharacteristics = vfs_character,
};

static int vfs_open (sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    (void) vfs;
    vfs_file_t *f = (vfs_file_t *) file;
    memset (f, 0, sizeof *f);
    f->fd = name && !disk->gone ? disk_open (NULL, name) : -1;
    if (f->fd < 0 && name && flags & SQLITE_OPEN_CREATE) {
        f->fd = disk_create (NULL, name);
        f->name_dirty = 1;
        if (f->fd < 0 && errno == ENOSPC)
            return SQLITE_FULL;
    }
    if (f->fd < 0)
        return SQLITE_CANTOPEN;
    f->base.pMethods = &methods;
    if (out)
        *out = flags;
    return SQLITE_OK;
}

static int vfs_delete (sqlite3_vfs *vfs, const char *name, int sync)
{
    (void) vfs;
    disk_file_t *file = disk_find (name);
    if (!file)
        return SQLITE_IOERR_DELETE_NOENT;
    if (disk_tick ())
        return SQLITE_IOERR_DELETE;
    file->there = 0;
    if (sync && disk_sync_folder (NULL, name))
        return SQLITE_IOERR_DIR_FSYNC;
    return SQLITE_OK;
}

static int vfs_access (sqlite3_vfs *vfs, const char *name, int flags, int *is)
{
    (void) vfs, (void) flags;
    *is = disk_find (name) != NULL;
    return SQLITE_OK;
}

static int vfs_path (sqlite3_vfs *vfs, const char *name, int bytes, char *out)
{
    (void) vfs;
    snprintf (out, (size_t) bytes, "%s", name);
    return SQLITE_OK;
}

static int vfs_random (sqlite3_vfs *vfs, int bytes, char *out)
{
    (void) vfs;
    for (int i = 0; i < bytes; i++)
        out[i] = (char) disk_roll (256);
    return bytes;
}

static int vfs_sleep (sqlite3_vfs *vfs, int us)
{
    (void) vfs;
    return us;
}

static int vfs_time (sqlite3_vfs *vfs, double *days)
{
    (void) vfs;
    *days = 2461000;
    return SQLITE_OK;
}

static int vfs_error (sqlite3_vfs *vfs, int bytes, char *text)
{
    (void) vfs, (void) bytes, (void) text;
    return 0;
}

/* ---- the ledger ------------------------------------------------------------------------------ */

static const char *const ledger_names[] = { "/sim/ledger.db", "/sim/ledger.db-wal" };
static struct {
    bool there;
    int64_t size;
    size_t touched;
    uint8_t *data;
} kept[2];

void sim_disk_keep_ledger (void)
{
    for (int i = 0; i < 2; i++) {
        const disk_file_t *file = disk_find (ledger_names[i]);
        kept[i].there = file != NULL;
        if (!file)
            continue;
        kept[i].size = file->size;
        kept[i].touched = file->touched;
        kept[i].data = realloc (kept[i].data, file->touched * DISK_SECTOR + 1);
        if (!kept[i].data)
            abort ();
        memcpy (kept[i].data, file->data, file->touched * DISK_SECTOR);
    }
}

/* What was done to a file is what the disk has.  */
static void settle (disk_file_t *file)
{
    memcpy (file->durable, file->data, file->touched * DISK_SECTOR);
    memset (file->dirty, 0, file->touched);
    file->size_durable = file->size;
    file->there_durably = file->there;
}

static void put_back_ledger (void)
{
    const int full = disk->full;
    disk->full = 0; /* a copy needs room */
    for (int i = 0; i < 2; i++) {
        disk_file_t *file = disk_find (ledger_names[i]);
        if (!file && kept[i].there)
            file = &disk->file[disk_create (NULL, ledger_names[i])];
        if (!file)
            continue;
        disk_wipe (file);
        file->there = kept[i].there;
        if (kept[i].there) {
            memcpy (file->data, kept[i].data, kept[i].touched * DISK_SECTOR);
            file->touched = kept[i].touched;
            file->size = kept[i].size;
        }
        settle (file);
    }
    disk->full = full;
}

/* At random places of what was ever written: cut short, bits flipped, pages of zeros.  */
static void spoil_file (disk_file_t *file, uint32_t how)
{
    const uint32_t bytes = (uint32_t) (file->touched * DISK_SECTOR);
    const uint32_t at = roll (bytes);
    if (how == 0) {
        memset (file->data + at, 0, bytes - at);
        file->size = at;
    }
    for (uint32_t n = 1 + roll (8); how == 1 && n > 0; n--)
        file->data[roll (bytes)] ^= (uint8_t) (1 << roll (8));
    if (how == 2)
        memset (file->data + at / 4096 * 4096, 0, bytes - at < 4096 ? bytes - at : 4096);
    settle (file);
}

void sim_disk_spoil_ledger (void)
{
    static const char *const words[] = { "cut short", "damaged by bits", "damaged by zeros" };
    disk_file_t *file[2] = { disk_find (ledger_names[0]), disk_find (ledger_names[1]) };
    if (!file[0])
        return;
    sim.count.spoils++;
    const uint32_t how = roll (8);
    if (how >= 3 && how < 7 && kept[0].there) {
        log_event ("disk", "the ledger is an earlier one");
        put_back_ledger ();
    } else if (how >= 3) {
        log_event ("disk", "the ledger is gone");
        for (int i = 0; i < 2; i++)
            if (file[i])
                disk_wipe (file[i]);
    } else {
        const int i = file[1] && file[1]->touched && chance (500);
        log_event ("disk", "the ledger's %s is %s", i ? "WAL" : "file", words[how]);
        if (file[i]->touched)
            spoil_file (file[i], how);
    }
}

/* Of the ledger only, which is renamed so and not read again.  */
int __real_rename (const char *from, const char *to);
int __wrap_rename (const char *from, const char *to);
int __wrap_rename (const char *from, const char *to)
{
    if (strncmp (from, "/sim/", 5) != 0)
        return __real_rename (from, to);
    disk_file_t *file = disk_find (from);
    errno = ENOENT;
    if (!file || disk_tick ())
        return -1;
    disk_wipe (file);
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

void sim_disk_new (uint64_t seed, bool lazy)
{
    static sqlite3_vfs vfs = { .iVersion = 1,
                               .szOsFile = sizeof (vfs_file_t),
                               .mxPathname = 512,
                               .zName = SIM_VFS,
                               .xOpen = vfs_open,
                               .xDelete = vfs_delete,
                               .xAccess = vfs_access,
                               .xFullPathname = vfs_path,
                               .xRandomness = vfs_random,
                               .xSleep = vfs_sleep,
                               .xCurrentTime = vfs_time,
                               .xGetLastError = vfs_error };
    if (!disk)
        disk = mmap (NULL, sizeof *disk, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (disk == MAP_FAILED)
        abort ();
    disk->random = seed * 2862933555777941757u + 3037000493u;
    disk->operations_left = UINT64_MAX;
    disk->short_one_in = 50;
    fail_sync = 0;
    kept[0].there = kept[1].there = false;
    lazy_wal = lazy;
    lying_fd = wal_fd = -1;
    sqlite3_vfs_register (&vfs, 1);
    sqlite3_randomness (0, NULL); /* seeded again, by ours: a seed replays exactly */
}

void sim_disk_free (void)
{
    for (size_t i = 0; i < DISK_FILES; i++) /* what was never touched is zero, and costs nothing */
        if (disk->file[i].name[0])
            disk_wipe (&disk->file[i]);
    disk->full = disk->gone = 0;
}

void sim_disk_full (bool full)
{
    disk->full = full;
}

bool sim_disk_is_full (void)
{
    return disk->full != 0;
}

bool sim_disk_is_gone (void)
{
    return disk->gone != 0;
}

void sim_disk_power (uint64_t operations_left)
{
    disk->operations_left = operations_left;
}

void sim_disk_fail_sync (void)
{
    fail_sync = 1;
}

void sim_disk_come_back (bool is_power_cut)
{
    disk->operations_left = UINT64_MAX;
    fail_sync = 0;
    lying_fd = wal_fd = -1;
    disk_come_back (is_power_cut);
}

bool sim_disk_rot (void)
{
    const uint32_t first = roll (DISK_FILES);
    for (uint32_t i = 0; i < DISK_FILES; i++) {
        disk_file_t *file = &disk->file[(first + i) % DISK_FILES];
        if (!file->there || !strstr (file->name, ".result") || file->touched < 2)
            continue;
        const size_t at = DISK_SECTOR + roll ((uint32_t) (file->touched - 1) * DISK_SECTOR);
        const uint8_t bit = (uint8_t) (1 << roll (8));
        if (file->data[at] & bit)
            return false; /* bits only rise: what rotted does not heal */
        file->data[at] |= bit;
        file->durable[at] |= bit;
        log_event ("disk", "a bit of %s rots at %zu", file->name, at);
        return true;
    }
    return false;
}

/* BUG_TAIL_TRUNCATED: "repairs" the newest segment of results at what it takes for its end.  */
void sim_disk_truncate_tail (void)
{
    disk_file_t *newest = NULL;
    for (size_t i = 0; i < DISK_FILES; i++) {
        disk_file_t *file = &disk->file[i];
        if (file->there && strstr (file->name, ".result") && file->touched &&
            (!newest || strcmp (file->name, newest->name) > 0))
            newest = file;
    }
    if (!newest || newest->touched < 2)
        return;
    size_t at = newest->touched / 2 * DISK_SECTOR, bytes = newest->touched * DISK_SECTOR - at;
    memset (newest->data + at, 0, bytes);
    memset (newest->durable + at, 0, bytes);
}
