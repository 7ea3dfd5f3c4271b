/* wm_shared.c - a list of regions, each an open file; the gateway maps none of them.  */
#include "producer/serving/wm_shared.h"
#include "schema/base/wm_text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_BYTES_MAX 255
#define NAME_BYTES_MAX 1024 /* as in requests (wm_infer.h) */

struct wm_shared_region_t {
    wm_shared_region_t *next;
    char *name, *key;
    int fd;
    uint64_t offset, bytes; /* in the file */
    uint32_t n_user;        /* parts, and the list */
};

struct wm_shared_t {
    const char *folder;
    wm_shared_region_t *first;
    uint32_t n_region;
};

wm_shared_t *wm_shared_new (const char *folder)
{
    wm_shared_t *self = calloc (1, sizeof *self);
    assert (self);
    self->folder = folder;
    return self;
}

void wm_shared_destroy (wm_shared_t **self_p)
{
    if (!*self_p)
        return;
    wm_shared_unregister (*self_p, "", NULL);
    free (*self_p);
    *self_p = NULL;
}

static void release (wm_shared_region_t *region)
{
    if (--region->n_user)
        return;
    close (region->fd);
    free (region->name);
    free (region->key);
    free (region);
}

static wm_shared_region_t *find (const wm_shared_t *self, const char *name)
{
    wm_shared_region_t *region = self->first;
    while (region && strcmp (region->name, name) != 0)
        region = region->next;
    return region;
}

static wm_ks_code_t is_off (wm_ks_error_t *error)
{
    return wm_ks_fail (error, WM_KS_UNIMPLEMENTED,
                       "shared memory is switched off: send the tensors in the request, or have "
                       "the gateway started with --shared-memory");
}

wm_ks_code_t wm_shared_cuda (const wm_shared_t *self, bool of_none, wm_ks_error_t *error)
{
    if (self && of_none)
        return WM_KS_OK;
    return wm_ks_fail (error, WM_KS_UNIMPLEMENTED,
                       "CUDA shared memory is not supported: send the tensors in the request");
}

/* ---- registering ----------------------------------------------------------------------------- */

/* Reads a number that is not negative; where it is missing, 0.  */
static bool take_number (const json_t *request, const char *field, uint64_t *number)
{
    const json_t *value = json_object_get (request, field);
    const json_int_t given = json_integer_value (value);
    *number = (uint64_t) given;
    return (!value || json_is_integer (value)) && given >= 0;
}

wm_ks_code_t wm_shared_cuda_register (const wm_shared_t *self, const char *name,
                                      const json_t *request, wm_ks_error_t *error)
{
    uint64_t bytes;
    if (!take_number (request, "byte_size", &bytes) || !bytes)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "failed to register shared memory region '%.100s': invalid args: "
                           "'byte_size' must be an integer above 0",
                           name);
    return wm_shared_cuda (self, false, error);
}

/* Returns the file's name in the folder: the key, of which shm_open would take away the "/" at its
   beginning. NULL: it could name something else.  */
static const char *file_of (const char *key)
{
    const char *file = key + (*key == '/');
    const size_t n = strlen (file);
    return n && n <= KEY_BYTES_MAX && !strchr (file, '/') && strcmp (file, ".") != 0 &&
                   strcmp (file, "..") != 0
               ? file
               : NULL;
}

/* Opens the file of a key. -1 with *error, which is INTERNAL as that of Triton.  */
static int open_key (const wm_shared_t *self, const char *key, const char *file, struct stat *stat,
                     wm_ks_error_t *error)
{
    const int folder = open (self->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int fd =
        folder < 0 ? -1
                   : openat (folder, file, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    const int why = errno;
    if (folder >= 0)
        close (folder);
    if (fd >= 0 && fstat (fd, stat) == 0 && S_ISREG (stat->st_mode) && stat->st_uid == geteuid ())
        return fd;
    if (fd < 0)
        wm_ks_fail (error, WM_KS_INTERNAL, "Unable to open shared memory region: '%.255s': %s", key,
                    why == ELOOP ? "it is a symbolic link" : strerror (why));
    else if (S_ISREG (stat->st_mode))
        wm_ks_fail (error, WM_KS_INTERNAL,
                    "Unable to open shared memory region: '%.255s' belongs to user %u, the gateway "
                    "is user %u's: run both as one user",
                    key, (unsigned) stat->st_uid, (unsigned) geteuid ());
    else
        wm_ks_fail (error, WM_KS_INTERNAL,
                    "Unable to open shared memory region: '%.255s' is no regular file", key);
    if (fd >= 0)
        close (fd);
    return -1;
}

static void add (wm_shared_t *self, const char *name, const char *key, int fd, uint64_t offset,
                 uint64_t bytes)
{
    wm_shared_region_t *region = calloc (1, sizeof *region), **at = &self->first;
    assert (region);
    *region = (wm_shared_region_t){ .name = strdup (name),
                                    .key = strdup (key),
                                    .fd = fd,
                                    .offset = offset,
                                    .bytes = bytes,
                                    .n_user = 1 };
    assert (region->name && region->key);
    while (*at)
        at = &(*at)->next;
    *at = region;
    self->n_region++;
}

wm_ks_code_t wm_shared_register (wm_shared_t *self, const char *name, const json_t *request,
                                 wm_ks_error_t *error)
{
    const char *key = json_string_value (json_object_get (request, "key"));
    const char *file = key ? file_of (key) : NULL;
    struct stat stat = { 0 };
    uint64_t offset = 0, bytes = 0, end = 0;
    if (!self)
        return is_off (error);
    if (!*name || !wm_text_is_utf8 (name, strlen (name)))
        return wm_ks_fail (error, WM_KS_INVALID, "a shared memory region needs a name of UTF-8");
    if (strlen (name) >= NAME_BYTES_MAX)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "the name of a shared memory region has at most %d bytes",
                           NAME_BYTES_MAX - 1);
    if (!file)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "shared memory region '%.100s': 'key' must be a file's name in "
                           "/dev/shm, without a folder and of at most %d bytes",
                           name, KEY_BYTES_MAX);
    if (find (self, name))
        return wm_ks_fail (error, WM_KS_INVALID, "shared memory region '%.100s' already in manager",
                           name);
    if (self->n_region == WM_SHARED_REGIONS_MAX)
        return wm_ks_fail (error, WM_KS_EXHAUSTED,
                           "there are %u shared memory regions already: unregister some",
                           self->n_region);
    const int fd = open_key (self, key, file, &stat, error);
    if (fd < 0)
        return WM_KS_INTERNAL;
    wm_ks_code_t code = WM_KS_OK;
    if (!take_number (request, "offset", &offset) || !take_number (request, "byte_size", &bytes) ||
        !bytes || __builtin_add_overflow (offset, bytes, &end))
        code = wm_ks_fail (error, WM_KS_INVALID,
                           "shared memory region '%.100s': 'byte_size' must be an integer above 0, "
                           "'offset' one of 0 or more",
                           name);
    else if (end > (uint64_t) stat.st_size)
        code = wm_ks_fail (error, WM_KS_INVALID,
                           "shared memory region '%.100s': 'offset' and 'byte_size' want %llu "
                           "bytes of '%.255s', which has %lld",
                           name, (unsigned long long) end, key, (long long) stat.st_size);
    if (code)
        close (fd);
    else
        add (self, name, key, fd, offset, bytes);
    return code;
}

wm_ks_code_t wm_shared_unregister (wm_shared_t *self, const char *name, wm_ks_error_t *error)
{
    if (!self)
        return is_off (error);
    for (wm_shared_region_t **at = &self->first; *at;) {
        wm_shared_region_t *region = *at;
        if (*name && strcmp (region->name, name) != 0) {
            at = &region->next;
            continue;
        }
        *at = region->next;
        self->n_region--;
        release (region);
    }
    return WM_KS_OK;
}

json_t *wm_shared_status (const wm_shared_t *self, const char *name, wm_ks_error_t *error)
{
    if (!self)
        is_off (error);
    else if (*name && !find (self, name))
        wm_ks_fail (error, WM_KS_NOT_FOUND, "Unable to find system shared memory region: '%.100s'",
                    name);
    else {
        json_t *all = json_object ();
        for (const wm_shared_region_t *region = self->first; region; region = region->next)
            if (!*name || strcmp (region->name, name) == 0)
                json_object_set_new (all, region->name,
                                     json_pack ("{s:s, s:s, s:I, s:I}", "name", region->name, "key",
                                                region->key, "offset", (json_int_t) region->offset,
                                                "byte_size", (json_int_t) region->bytes));
        return all;
    }
    return NULL;
}

/* ---- tensors --------------------------------------------------------------------------------- */

wm_ks_code_t wm_shared_take (wm_shared_t *self, const wm_shared_wish_t *wish, const char *tensor,
                             wm_shared_part_t *part, wm_ks_error_t *error)
{
    wm_shared_region_t *region = self ? find (self, wish->region) : NULL;
    uint64_t end;
    if (!self)
        return is_off (error);
    if (!region)
        return wm_ks_fail (error, WM_KS_INVALID, "Unable to find shared memory region: '%.100s'",
                           wish->region);
    if (wish->offset < 0 || wish->bytes < 0 ||
        __builtin_add_overflow ((uint64_t) wish->offset, (uint64_t) wish->bytes, &end) ||
        end > region->bytes)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "Invalid offset + byte size for shared memory region '%.100s': tensor "
                           "'%.100s' wants %lld bytes from %lld on, the region has %llu",
                           region->name, tensor, (long long) wish->bytes, (long long) wish->offset,
                           (unsigned long long) region->bytes);
    region->n_user++;
    *part = (wm_shared_part_t){ region, (uint64_t) wish->offset, (size_t) wish->bytes };
    return WM_KS_OK;
}

void wm_shared_drop (wm_shared_part_t *part)
{
    if (part->region)
        release (part->region);
    *part = (wm_shared_part_t){ 0 };
}

static wm_ks_code_t cut_short (const wm_shared_region_t *region, wm_ks_error_t *error)
{
    return wm_ks_fail (error, WM_KS_INVALID,
                       "shared memory region '%.100s': '%.255s' is shorter than when it was "
                       "registered; unregister it, and register it again",
                       region->name, region->key);
}

wm_ks_code_t wm_shared_read (const wm_shared_part_t *part, size_t at, void *to, size_t bytes,
                             wm_ks_error_t *error)
{
    const wm_shared_region_t *region = part->region;
    uint8_t *next = to;
    uint64_t from = region->offset + part->offset + at;
    assert (at <= part->bytes && bytes <= part->bytes - at);
    for (ssize_t n; bytes; bytes -= (size_t) n, next += n, from += (uint64_t) n)
        if ((n = pread (region->fd, next, bytes, (off_t) from)) <= 0)
            return cut_short (region, error);
    return WM_KS_OK;
}

/* A file that its client has cut short would grow again by pwrite: only what it has is written.  */
wm_ks_code_t wm_shared_write (const wm_shared_part_t *part, size_t at, const void *from,
                              size_t bytes, wm_ks_error_t *error)
{
    const wm_shared_region_t *region = part->region;
    const uint8_t *next = from;
    uint64_t to = region->offset + part->offset + at;
    struct stat stat;
    assert (at <= part->bytes && bytes <= part->bytes - at);
    if (fstat (region->fd, &stat) || (uint64_t) stat.st_size < to + bytes)
        return cut_short (region, error);
    for (ssize_t n; bytes; bytes -= (size_t) n, next += n, to += (uint64_t) n)
        if ((n = pwrite (region->fd, next, bytes, (off_t) to)) <= 0)
            return wm_ks_fail (error, WM_KS_EXHAUSTED,
                               "shared memory region '%.100s': '%.255s' cannot be written: %s",
                               region->name, region->key, n ? strerror (errno) : "it is full");
    return WM_KS_OK;
}
