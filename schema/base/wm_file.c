/* wm_file.c - a whole file: mapped, digested, written at once; and folders, made and synced.  */
#include "schema/base/wm_file.h"

#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

_Static_assert(WM_FILE_PATH_BYTES == PATH_MAX, "wm_file.h");

bool wm_file_is_full (int failed)
{
    return failed == ENOSPC || failed == EDQUOT;
}

/* What a person can do about it; `other`: about what is not known here.  */
static const char *advice (int failed, const char *other)
{
    return wm_file_is_full (failed) ? "; free some space there"
           : failed == EFBIG
               ? "; ulimit -f of this shell, or that file system, allows no larger file"
               : other;
}

static wm_fault_t cannot (wm_error_t *error, const char *verb, const char *path)
{
    return wm_fault (error, wm_file_is_full (errno) ? WM_EAGAIN : WM_EHOST,
                     "%.300s: cannot %s: %s%s", path, verb,
                     errno ? strerror (errno) : "a library failed", advice (errno, ""));
}

wm_fault_t wm_file_unwritten (const char *path, int failed, wm_error_t *error)
{
    errno = failed;
    return cannot (error, "write", path);
}

void wm_file_warn_open (const char *what, const char *path, unsigned mode, const char *risk)
{
    if (S_ISREG (mode) && mode & 077)
        fprintf (stderr,
                 "warning: %s %s may be read by others (mode %03o)%s%s; type: chmod 600 %s\n", what,
                 path, mode & 0777, risk ? ": " : "", risk ? risk : "", path);
}

const char *wm_file_irregular (unsigned mode)
{
    return S_ISREG (mode)    ? NULL
           : S_ISDIR (mode)  ? "a folder"
           : S_ISFIFO (mode) ? "a pipe"
           : S_ISSOCK (mode) ? "a socket"
                             : "a device";
}

const char *wm_file_why (int failed)
{
    return failed == EISDIR    ? "it is a folder"
           : failed == ENOTDIR ? "a part of that path is a file, where a folder is needed"
                               : strerror (failed);
}

wm_fault_t wm_file_missing (const char *path, wm_error_t *error)
{
    struct stat st;
    char part[PATH_MAX];
    const int failed = errno;
    if (failed == ENOENT && lstat (path, &st) == 0)
        return wm_fault (error, WM_EUSAGE,
                         "%.300s is a symbolic link to a file that does not exist", path);
    if (failed == ENOENT)
        return wm_fault (error, WM_EUSAGE, "%.300s does not exist", path);
    if (failed != ENOTDIR)
        return wm_fault (error, WM_EUSAGE, "%.300s cannot be read: %s", path, wm_file_why (failed));
    snprintf (part, sizeof part, "%s", path);
    for (char *slash; stat (part, &st) && (slash = strrchr (part, '/')) && slash > part;)
        *slash = 0;
    return wm_fault (error, WM_EUSAGE, "%.220s does not exist: %.220s is a file, no folder", path,
                     part);
}

wm_fault_t wm_file_expect (const char *name, bool is_folder, bool may_lack, wm_error_t *error)
{
    struct stat st;
    char path[PATH_MAX], saved[PATH_MAX];
    snprintf (path, sizeof path, "%.*s", (int) wm_path_length (name), name);
    if (stat (path, &st)) {
        const bool is_lacking = errno == ENOENT && lstat (path, &st) && errno == ENOENT;
        return is_lacking && may_lack ? WM_OK : wm_file_missing (path, error);
    }
    if (is_folder == S_ISDIR (st.st_mode))
        return WM_OK;
    if (is_folder)
        return wm_fault (error, WM_EUSAGE, "%.300s is %s; a folder is needed", path,
                         wm_file_irregular (st.st_mode) ? wm_file_irregular (st.st_mode)
                                                        : "a file");
    const int n = snprintf (saved, sizeof saved, "%s/saved_model.pb", path);
    if (n < (int) sizeof saved && access (saved, F_OK) == 0)
        return wm_fault (error, WM_EUSAGE,
                         "%.200s is a folder, a TensorFlow SavedModel; convert it to ONNX (python3 "
                         "-m tf2onnx.convert --saved-model DIR --output m.onnx) and give that file",
                         path);
    return wm_fault (error, WM_EUSAGE, "%.300s is a folder; a file is needed", path);
}

wm_fault_t wm_file_exist (const char *const path[], size_t n, wm_error_t *error)
{
    for (size_t i = 0; i < n; i++)
        if (path[i] && wm_file_expect (path[i], false, false, error))
            return error->fault;
    return WM_OK;
}

int wm_file_open (const char *path, uint64_t *bytes, wm_error_t *error)
{
    struct stat status;
    const char *is = NULL;
    const bool there = stat (path, &status) == 0; /* opening a device may do something */
    int fd = -1;
    if (!there || !(is = wm_file_irregular (status.st_mode)))
        fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat (fd, &status) == 0 && !(is = wm_file_irregular (status.st_mode))) {
        if (bytes)
            *bytes = (uint64_t) status.st_size;
        return fd;
    }
    if (is)
        wm_fault (error, WM_EBATCH, "%.300s: %s; it must be a regular file", path, is);
    else
        wm_fault (error, WM_EBATCH, "%.300s: cannot open: %s", path, strerror (errno));
    if (fd >= 0)
        close (fd);
    return -1;
}

wm_fault_t wm_file_map (const char *path, size_t bytes_max, const uint8_t **bytes, size_t *size,
                        wm_error_t *error)
{
    int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would wait for a writer */
    if (fd < 0)
        return cannot (error, "open", path);
    struct stat stat;
    wm_fault_t fault = WM_OK;
    void *map = MAP_FAILED;
    if (fstat (fd, &stat))
        fault = cannot (error, "stat", path);
    else if (!S_ISREG (stat.st_mode))
        fault = wm_fault (error, WM_EBATCH, "%s: not a regular file", path);
    else if (stat.st_size == 0)
        fault = wm_fault (error, WM_EBATCH, "%s: empty file", path);
    else if ((uintmax_t) stat.st_size > bytes_max)
        fault = wm_fault (error, WM_EBATCH, "%s: %jd bytes, more than the limit of %zu", path,
                          (intmax_t) stat.st_size, bytes_max);
    else {
        map = mmap (NULL, (size_t) stat.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            fault = cannot (error, "map", path);
    }
    close (fd);
    if (!fault) {
        *bytes = map;
        *size = (size_t) stat.st_size;
    }
    return fault;
}

#define SETTLED_NS 2000000000ll

bool wm_file_stamp (const char *path, char stamp[WM_FILE_STAMP_BYTES])
{
    struct stat st;
    struct timespec now;
    clock_gettime (CLOCK_REALTIME, &now);
    *stamp = 0;
    if (stat (path, &st) || !S_ISREG (st.st_mode) || wm_folder_network (path) ||
        wm_path_ns (now) - wm_path_ns (st.st_mtim) < SETTLED_NS)
        return false;
    snprintf (stamp, WM_FILE_STAMP_BYTES, "%jx:%jx:%jd:%" PRId64 ":%" PRId64, (uintmax_t) st.st_dev,
              (uintmax_t) st.st_ino, (intmax_t) st.st_size, wm_path_ns (st.st_mtim),
              wm_path_ns (st.st_ctim));
    return true;
}

/* OpenSSL's, because it uses what the CPU has for it: five times libsodium's speed.  */
wm_digest_t *wm_digest_new (void)
{
    EVP_MD_CTX *self = EVP_MD_CTX_new ();
    if (self && EVP_DigestInit_ex (self, EVP_sha256 (), NULL) != 1) {
        EVP_MD_CTX_free (self);
        self = NULL;
    }
    return self;
}

void wm_digest_add (wm_digest_t *self, const void *bytes, size_t size)
{
    if (self)
        EVP_DigestUpdate (self, bytes, size);
}

wm_fault_t wm_digest_finish (wm_digest_t **self_p, uint8_t digest[32], wm_error_t *error)
{
    bool ok = *self_p && EVP_DigestFinal_ex (*self_p, digest, NULL) == 1;
    EVP_MD_CTX_free (*self_p);
    *self_p = NULL;
    return ok ? WM_OK : wm_fault (error, WM_EHOST, "libcrypto cannot compute a SHA-256");
}

int wm_file_append (int fd, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size) {
        const ssize_t n = TEMP_FAILURE_RETRY (write (fd, at, size));
        if (n < 0)
            return -1;
        at += n;
        size -= (size_t) n;
    }
    return 0;
}

#define READ_BYTES (1u << 20)
#define TEXT_BYTES (1u << 16)

int wm_file_copy (const char *from, const char *to)
{
    uint8_t *buffer = malloc (READ_BYTES);
    const int in = buffer ? open (from, O_RDONLY | O_CLOEXEC) : -1;
    const int out = in < 0 ? -1 : open (to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int failed = out < 0 ? errno : 0;
    ssize_t got = 0;
    while (!failed && ((got = read (in, buffer, READ_BYTES)) > 0 || (got < 0 && errno == EINTR)))
        if (got > 0 && wm_file_append (out, buffer, (size_t) got))
            failed = errno;
    if (!failed && got < 0)
        failed = errno;
    if (out >= 0 && close (out) && !failed)
        failed = errno;
    if (in >= 0)
        close (in);
    free (buffer);
    return failed;
}

/* A rename is on disk only when its folder is.  */
static int sync_folder (const char *path)
{
    char copy[PATH_MAX];
    snprintf (copy, sizeof copy, "%s", path);
    return wm_folder_sync (dirname (copy));
}

/* Reads the file from its begin to its end; `take` gets each piece. Returns 0, or errno.  */
static int read_pieces (const char *path,
                        void (*take) (void *argument, const void *bytes, size_t n), void *argument)
{
    const int fd = open (path, O_RDONLY | O_CLOEXEC);
    uint8_t *buffer = fd < 0 ? NULL : malloc (READ_BYTES);
    int failed = fd < 0 ? errno : buffer ? 0 : ENOMEM;
    ssize_t got = 0;
    while (!failed && ((got = read (fd, buffer, READ_BYTES)) > 0 || (got < 0 && errno == EINTR)))
        if (got > 0)
            take (argument, buffer, (size_t) got);
    if (!failed && got < 0)
        failed = errno;
    free (buffer);
    if (fd >= 0)
        close (fd);
    return failed;
}

char *wm_file_text (const char *path, size_t bytes_max, size_t *bytes)
{
    FILE *file = fopen (path, "re");
    char *text = NULL;
    size_t room = 0, n = 1;
    *bytes = 0;
    if (!file)
        return NULL;
    while (n && *bytes <= bytes_max && wm_grow (&text, &room, *bytes + TEXT_BYTES, 1))
        *bytes += n = fread (text + *bytes, 1, room - *bytes - 1, file);
    const int failed = ferror (file) ? errno : !n ? 0 : *bytes > bytes_max ? EFBIG : ENOMEM;
    fclose (file);
    if (!failed)
        return text[*bytes] = 0, text;
    free (text);
    errno = failed;
    return NULL;
}

typedef struct {
    XXH3_state_t *state;
    void (*progress) (void *argument, size_t bytes);
    void *argument;
} digest_t;

static void digest_take (void *argument, const void *bytes, size_t n)
{
    const digest_t *self = argument;
    XXH3_128bits_update (self->state, bytes, n);
    if (self->progress)
        self->progress (self->argument, n);
}

int wm_file_digest (const char *path, uint8_t digest[16],
                    void (*progress) (void *argument, size_t bytes), void *argument)
{
    digest_t self = { XXH3_createState (), progress, argument };
    if (!self.state)
        return ENOMEM;
    XXH3_128bits_reset (self.state);
    const int failed = read_pieces (path, digest_take, &self);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash (&canonical, XXH3_128bits_digest (self.state));
    memcpy (digest, canonical.digest, 16);
    XXH3_freeState (self.state);
    return failed;
}

static void sha256_take (void *argument, const void *bytes, size_t n)
{
    wm_digest_add (argument, bytes, n);
}

wm_fault_t wm_file_sha256 (const char *path, char hex[65], wm_error_t *error)
{
    uint8_t digest[32];
    wm_digest_t *state = wm_digest_new ();
    const int failed = read_pieces (path, sha256_take, state);
    wm_fault_t fault = wm_digest_finish (&state, digest, error);
    if (failed) {
        errno = failed;
        return cannot (error, "read", path);
    }
    for (size_t i = 0; i < sizeof digest && !fault; i++)
        snprintf (hex + 2 * i, 3, "%02x", digest[i]);
    return fault;
}

/* ---- temporary files ---------------------------------------------------------------------------
   PATH.PID.tmp (or a random number), locked by its writer: a file without a lock was left behind by
   a killed writer.  */

bool wm_file_is_still (int fd, const char *name)
{
    struct stat ours, there;
    return fstat (fd, &ours) == 0 && stat (name, &there) == 0 && ours.st_ino == there.st_ino &&
           ours.st_dev == there.st_dev;
}

/* Made and locked, with what was in it: until we have the lock it may be another's, of our pid in
   another container. A sweeper that came between the two has taken it away again. -1 and errno.  */
static int open_temporary (const char *name)
{
    for (;;) {
        const int fd = open (name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0)
            return -1;
        TEMP_FAILURE_RETRY (flock (fd, LOCK_EX)); /* no locks there: nothing is swept */
        if (wm_file_is_still (fd, name))
            return fd;
        close (fd);
    }
}

static bool random_name (const char *path, char name[PATH_MAX])
{
    uint64_t random;
    if (getrandom (&random, sizeof random, 0) != (ssize_t) sizeof random)
        return false;
    if (snprintf (name, PATH_MAX, "%s.%" PRIu64 ".tmp", path, random) < PATH_MAX)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

/* The same under a random name that did not exist before, as a secret needs.  */
static int open_random (const char *path, mode_t mode, char name[PATH_MAX])
{
    while (random_name (path, name)) {
        const int fd = open (name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd < 0)
            return -1;
        TEMP_FAILURE_RETRY (flock (fd, LOCK_EX));
        if (wm_file_is_still (fd, name))
            return fd;
        close (fd);
    }
    return -1;
}

void wm_file_sweep (const char *path)
{
    char folder[PATH_MAX], name[PATH_MAX];
    snprintf (folder, sizeof folder, "%s", path);
    const char *slash = strrchr (path, '/'), *base = slash ? slash + 1 : path;
    const size_t n = strlen (base);
    DIR *list = opendir (dirname (folder));
    for (struct dirent *entry; list && (entry = readdir (list));) {
        const char *tail = entry->d_name + n;
        if (strncmp (entry->d_name, base, n) != 0 || *tail++ != '.' ||
            strcmp (tail + strspn (tail, "0123456789"), ".tmp") != 0 ||
            snprintf (name, sizeof name, "%s/%s", folder, entry->d_name) >= (int) sizeof name)
            continue;
        const int fd = open (name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && flock (fd, LOCK_EX | LOCK_NB) == 0 && wm_file_is_still (fd, name))
            unlink (name);
        if (fd >= 0)
            close (fd);
    }
    if (list)
        closedir (list);
}

/* Checks that no folder or device has the name: root could replace /dev/null.  */
static wm_fault_t check_place (const char *path, struct stat *there, wm_error_t *error)
{
    there->st_mode = 0;
    if (stat (path, there) == 0 && !S_ISREG (there->st_mode))
        return wm_fault (error, WM_EUSAGE,
                         "%s: not a regular file, so that it is not replaced; name a file", path);
    return WM_OK;
}

/* Gives a whole file its name and closes it. rc: what writing it returned.  */
static wm_fault_t name_file (int fd, const char *temporary, const char *path, int rc,
                             wm_error_t *error)
{
    WM_FAILPOINT ("file-rename");
    rc = rc || fsync (fd) || rename (temporary, path) || sync_folder (path) ? -1 : 0;
    WM_FAILPOINT ("file-renamed");
    wm_fault_t fault = rc ? cannot (error, "write", path) : WM_OK;
    if (fault)
        unlink (temporary); /* while it is locked: later it may be another's */
    close (fd);
    return fault;
}

static wm_fault_t write_whole (const char *path, const wm_part_t *part, size_t n_part,
                               bool is_secret, wm_error_t *error)
{
    char temporary[PATH_MAX];
    struct stat there;
    int length = snprintf (temporary, sizeof temporary, "%s.%ld.tmp", path, (long) getpid ());
    if (length < 0 || length >= (int) sizeof temporary)
        return wm_fault (error, WM_EHOST, "%s: the name is too long", path);
    if (check_place (path, &there, error))
        return error->fault;
    wm_file_sweep (path);
    int fd = is_secret ? open_random (path, 0600, temporary) : open_temporary (temporary);
    if (fd < 0)
        return cannot (error, "write", path);
    int rc = ftruncate (fd, 0);
    for (size_t i = 0; i < n_part && !rc; i++)
        rc = wm_file_append (fd, part[i].bytes, part[i].size);
    return name_file (fd, temporary, path, rc, error);
}

wm_fault_t wm_file_write (const char *path, const wm_part_t *part, size_t n_part, wm_error_t *error)
{
    return write_whole (path, part, n_part, false, error);
}

wm_fault_t wm_file_write_secret (const char *path, const void *bytes, size_t size,
                                 wm_error_t *error)
{
    return write_whole (path, &(wm_part_t){ bytes, size }, 1, true, error);
}

/* ---- a file in the making -------------------------------------------------------------------- */

wm_fault_t wm_file_begin (wm_file_new_t *self, const char *path, bool is_named, wm_error_t *error)
{
    struct stat there;
    char copy[PATH_MAX];
    self->fd = -1;
    self->temporary[0] = 0;
    if (snprintf (self->path, sizeof self->path, "%s", path) >= (int) sizeof self->path)
        return wm_fault (error, WM_EUSAGE, "%.300s: the name is too long", path);
    if (check_place (path, &there, error))
        return error->fault;
    wm_file_sweep (path);
    snprintf (copy, sizeof copy, "%s", path);
    const mode_t mode = there.st_mode ? (there.st_mode & 0777) | 0600 : 0666; /* but the umask */
    if (!is_named && access ("/proc/self/fd", X_OK) == 0) /* a name is given to it by that */
        self->fd = open (dirname (copy), O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    if (self->fd < 0)
        self->fd = open_random (path, mode, self->temporary);
    if (self->fd < 0)
        return cannot (error, "write", path);
    return WM_OK;
}

wm_fault_t wm_file_commit (wm_file_new_t *self, wm_error_t *error)
{
    char link[32];
    const int fd = self->fd;
    int rc = fsync (fd);
    self->fd = -1;
    if (!self->temporary[0])
        flock (fd, LOCK_EX | LOCK_NB); /* so that no sweep removes it under its temporary name */
    snprintf (link, sizeof link, "/proc/self/fd/%d", fd);
    while (!rc && !self->temporary[0]) {
        rc = !random_name (self->path, self->temporary) ||
             linkat (AT_FDCWD, link, AT_FDCWD, self->temporary, AT_SYMLINK_FOLLOW);
        if (rc)
            self->temporary[0] = 0;
        if (rc && errno == EEXIST)
            rc = 0;
    }
    return name_file (fd, self->temporary, self->path, rc, error);
}

void wm_file_abort (wm_file_new_t *self)
{
    if (self->fd >= 0 && self->temporary[0])
        unlink (self->temporary); /* while it is locked */
    if (self->fd >= 0)
        close (self->fd);
    self->fd = -1;
}

/* ---- folders --------------------------------------------------------------------------------- */

wm_fault_t wm_folder_make (const char *path, mode_t mode, wm_error_t *error)
{
    char part[PATH_MAX];
    if (snprintf (part, sizeof part, "%s", path) >= (int) sizeof part)
        return wm_fault (error, WM_EHOST, "the folder's name is too long: %.200s...", path);
    for (char *at = part + 1;; at++) {
        const char here = *at;
        if (here && here != '/')
            continue;
        *at = 0;
        const bool made = mkdir (part, mode) == 0;
        if (!made && errno != EEXIST)
            return wm_fault (error, wm_file_is_full (errno) ? WM_EAGAIN : WM_EHOST,
                             "the folder %s cannot be made: %s%s", part, strerror (errno),
                             advice (errno, errno == EACCES || errno == EPERM || errno == EROFS
                                                ? "; choose one where this user may write"
                                                : ""));
        if ((made || !here) && wm_folder_sync_parent (part))
            return wm_fault (
                error, wm_file_is_full (errno) ? WM_EAGAIN : WM_EHOST,
                "the folder %s is not surely on disk: fsync of the folder it is in: %s", part,
                strerror (errno));
        if (!here)
            break;
        *at = here;
    }
    struct stat status;
    if (stat (path, &status) || !S_ISDIR (status.st_mode))
        return wm_fault (error, WM_EHOST, "%s is not a folder", path);
    return WM_OK;
}

int wm_folder_sync (const char *path)
{
    const int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    const int result = fsync (fd), failed = errno;
    close (fd);
    errno = failed;
    return result;
}

int wm_folder_sync_parent (const char *path)
{
    char parent[PATH_MAX];
    if (snprintf (parent, sizeof parent, "%s", path) >= (int) sizeof parent) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (wm_folder_sync (dirname (parent)) == 0)
        return 0;
    return errno == EIO || errno == ENOSPC || errno == EDQUOT ? -1 : 0;
}

const char *wm_folder_network (const char *path)
{
    /* statfs(2), linux/magic.h */
    static const struct {
        uint32_t magic;
        const char *name;
    } network[] = {
        { 0x6969, "NFS" },       { 0xff534d42, "CIFS" },  { 0xfe534d42, "SMB2" },
        { 0x517b, "SMB" },       { 0x65735546, "FUSE" },  { 0x0bd00bd0, "Lustre" },
        { 0x47504653, "GPFS" },  { 0x5346414f, "AFS" },   { 0x6b414653, "kAFS" },
        { 0x00c36400, "Ceph" },  { 0x01021997, "9p" },    { 0x19830326, "BeeGFS" },
        { 0x7461636f, "OCFS2" }, { 0x01161970, "GFS2" },  { 0x564c, "NCP" },
        { 0x73757245, "Coda" },  { 0xaad7aaea, "PanFS" }, { 0x6e66736f, "NFS" },
        { 0x013111a8, "IBRIX" },
    };
    struct statfs info;
    if (statfs (path, &info))
        return NULL;
    for (size_t i = 0; i < sizeof network / sizeof *network; i++)
        if ((uint32_t) info.f_type == network[i].magic)
            return network[i].name;
    return NULL;
}

wm_fault_t wm_folder_temporary (char folder[PATH_MAX], const char *place, const char *name,
                                wm_error_t *error)
{
    const char *usual = getenv ("TMPDIR"), *in = place ? place : usual && *usual ? usual : "/tmp";
    snprintf (folder, PATH_MAX, "%.4000s/%s-XXXXXX", in, name);
    if (mkdtemp (folder))
        return WM_OK;
    *folder = 0;
    return wm_fault (error, wm_file_is_full (errno) ? WM_EAGAIN : WM_EHOST,
                     "no folder can be made in %.300s: %s%s", in, strerror (errno),
                     advice (errno, place ? "; choose a folder where this user may write"
                                          : "; set TMPDIR to a folder where this user may write"));
}

static int remove_one (const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void) status, (void) type, (void) place;
    return remove (path), 0;
}

bool wm_folder_remove (const char *path)
{
    nftw (path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return access (path, F_OK) != 0;
}
