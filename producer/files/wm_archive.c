/* wm_archive.c - see wm_archive.h. The stream first, then tar's headers: those of POSIX (ustar and
   pax) and of GNU tar.  */
#include "producer/files/wm_archive.h"

#include "schema/base/wm_file.h"

#include <bzlib.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define STORED_BYTES (128u << 10)
#define UNPACKED_TIMES                                                                             \
    2000u /* so many times its file a stream may always be: gzip's most is 1032 */
#define EXTRA_BYTES_MAX 65536 /* of a header's continuation: a long name, pax records */
#define BLOCK 512u

typedef enum { PLAIN, GZIP, BZIP2 } how_t;

struct wm_archive_t {
    char *path;
    int fd;
    how_t how;
    uint64_t bytes_max, at, next; /* next: where the header behind the last member begins */
    uint32_t n_rewind;
    bool is_open;    /* zlib or libbz2 holds memory */
    bool is_between; /* a packed stream ended, and another one may follow */
    bool has_ended;  /* the file */
    z_stream gzip;
    bz_stream bzip2;
    size_t n_stored, stored_at; /* in `stored`, and how many of them are taken */
    uint8_t stored[STORED_BYTES];
};

/* ---- the stream ------------------------------------------------------------------------------ */

static void unpacker_close (wm_archive_t *self)
{
    if (self->is_open && self->how == GZIP)
        inflateEnd (&self->gzip);
    if (self->is_open && self->how == BZIP2)
        BZ2_bzDecompressEnd (&self->bzip2);
    self->is_open = false;
}

/* Both start at the first byte of a stream of theirs; a file may hold several.  */
static wm_fault_t unpacker_open (wm_archive_t *self, wm_error_t *error)
{
    unpacker_close (self);
    memset (&self->gzip, 0, sizeof self->gzip);
    memset (&self->bzip2, 0, sizeof self->bzip2);
    self->is_open = self->how == GZIP    ? inflateInit2 (&self->gzip, 15 + 16) == Z_OK
                    : self->how == BZIP2 ? BZ2_bzDecompressInit (&self->bzip2, 0, 0) == BZ_OK
                                         : false;
    return self->is_open || self->how == PLAIN ? WM_OK
                                               : wm_fault (error, WM_EHOST, "out of memory");
}

static wm_fault_t rewind_stream (wm_archive_t *self, wm_error_t *error)
{
    self->n_stored = self->stored_at = 0;
    self->at = 0;
    self->has_ended = self->is_between = false;
    if (lseek (self->fd, 0, SEEK_SET))
        return wm_fault (error, WM_EBATCH, "%.300s: cannot be read: %s", self->path,
                         strerror (errno));
    return unpacker_open (self, error);
}

static wm_fault_t damaged (const wm_archive_t *self, wm_error_t *error)
{
    return wm_fault (error, WM_EBATCH, "%.300s: damaged: its %s data is not valid near byte %lld",
                     self->path, self->how == GZIP ? "gzip" : "bzip2",
                     (long long) lseek (self->fd, 0, SEEK_CUR));
}

static wm_fault_t stored_read (wm_archive_t *self, wm_error_t *error)
{
    ssize_t n;
    do
        n = read (self->fd, self->stored, sizeof self->stored);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return wm_fault (error, WM_EBATCH, "%.300s: cannot be read: %s", self->path,
                         strerror (errno));
    self->n_stored = (size_t) n;
    self->stored_at = 0;
    return WM_OK;
}

/* Unpacks to `to` what is stored; *n: how much that was.  */
static wm_fault_t unpack (wm_archive_t *self, uint8_t *to, unsigned room, size_t *n,
                          wm_error_t *error)
{
    uint8_t *from = self->stored + self->stored_at;
    const unsigned there = (unsigned) (self->n_stored - self->stored_at);
    int rc;
    if (self->how == GZIP) {
        z_stream *z = &self->gzip;
        z->next_in = from, z->avail_in = there;
        z->next_out = to, z->avail_out = room;
        rc = inflate (z, Z_NO_FLUSH);
        self->is_between = rc == Z_STREAM_END;
        *n = room - z->avail_out;
        self->stored_at += there - z->avail_in;
        if (rc == Z_MEM_ERROR)
            return wm_fault (error, WM_EHOST, "out of memory");
        return rc == Z_OK || rc == Z_BUF_ERROR || self->is_between ? WM_OK : damaged (self, error);
    }
    bz_stream *b = &self->bzip2;
    b->next_in = (char *) from, b->avail_in = there;
    b->next_out = (char *) to, b->avail_out = room;
    rc = BZ2_bzDecompress (b);
    self->is_between = rc == BZ_STREAM_END;
    *n = room - b->avail_out;
    self->stored_at += there - b->avail_in;
    if (rc == BZ_MEM_ERROR)
        return wm_fault (error, WM_EHOST, "out of memory");
    return rc == BZ_OK || self->is_between ? WM_OK : damaged (self, error);
}

/* Reads at most `bytes`; *n is less only where the stream ends.  */
static wm_fault_t stream_read (wm_archive_t *self, void *to, size_t bytes, size_t *n,
                               wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    *n = 0;
    while (*n < bytes && !self->has_ended && !fault) {
        size_t got = 0;
        if (self->stored_at == self->n_stored && (fault = stored_read (self, error)))
            break;
        if (!self->n_stored) {
            self->has_ended = true;
            if (self->how != PLAIN && !self->is_between)
                fault =
                    wm_fault (error, WM_EBATCH, "%.300s: cut off: copy the file again", self->path);
        } else if (self->how == PLAIN) {
            got = self->n_stored - self->stored_at;
            got = got < bytes - *n ? got : bytes - *n;
            memcpy ((uint8_t *) to + *n, self->stored + self->stored_at, got);
            self->stored_at += got;
        } else if (self->is_between && self->stored[self->stored_at] == 0) {
            self->stored_at++; /* padding, as of a tape's blocks */
        } else {
            const size_t room = bytes - *n < 1u << 30 ? bytes - *n : 1u << 30;
            if (self->is_between && (fault = unpacker_open (self, error)))
                break;
            fault = unpack (self, (uint8_t *) to + *n, (unsigned) room, &got, error);
        }
        *n += got;
        self->at += got;
    }
    return fault;
}

static bool is_zero (const uint8_t *block)
{
    return !block[0] && !memcmp (block, block + 1, BLOCK - 1);
}

/* Reads what lies behind the archive's end to the end of the file, because only there a packed
   stream's sum shows that all of it is sound: damage may look like an end.  */
static wm_fault_t drain (wm_archive_t *self, wm_error_t *error)
{
    uint8_t block[BLOCK];
    for (;;) {
        size_t n;
        memset (block, 0, sizeof block);
        const wm_fault_t fault = stream_read (self, block, sizeof block, &n, error);
        if (fault || !n)
            return fault;
        if (!is_zero (block) || self->at > self->bytes_max)
            return wm_fault (error, WM_EBATCH, "%.300s: damaged: more follows behind its end",
                             self->path);
    }
}

wm_fault_t wm_archive_read (wm_archive_t *self, void *to, size_t bytes, wm_error_t *error)
{
    size_t n;
    const wm_fault_t fault = stream_read (self, to, bytes, &n, error);
    if (!fault && n < bytes)
        return wm_fault (error, WM_EBATCH, "%.300s: cut off: copy the file again", self->path);
    return fault;
}

wm_fault_t wm_archive_seek (wm_archive_t *self, uint64_t at, wm_error_t *error)
{
    static uint8_t waste[64u << 10];
    wm_fault_t fault = WM_OK;
    if (at < self->at) {
        self->n_rewind++;
        fault = rewind_stream (self, error);
    }
    while (self->at < at && !fault) {
        const uint64_t left = at - self->at;
        fault = wm_archive_read (self, waste, left < sizeof waste ? left : sizeof waste, error);
    }
    return fault;
}

/* ---- opening --------------------------------------------------------------------------------- */

typedef enum { NONE, IS_PLAIN, IS_GZIP, IS_BZIP2, IS_ZIP, IS_XZ, IS_ZSTD } kind_t;

static kind_t kind_of (const uint8_t *head, size_t n)
{
    static const struct {
        kind_t kind;
        unsigned at, n;
        const char *bytes;
    } list[] = { { IS_GZIP, 0, 2, "\x1f\x8b" },
                 { IS_BZIP2, 0, 3, "BZh" },
                 { IS_ZIP, 0, 4, "PK\3\4" },
                 { IS_XZ, 0, 5,
                   "\xfd"
                   "7zXZ" },
                 { IS_ZSTD, 0, 4, "\x28\xb5\x2f\xfd" },
                 { IS_PLAIN, 257, 5, "ustar" } };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (n >= list[i].at + list[i].n && !memcmp (head + list[i].at, list[i].bytes, list[i].n))
            return list[i].kind;
    return NONE;
}

static kind_t kind_of_file (int fd)
{
    uint8_t head[BLOCK];
    const ssize_t n = fd < 0 ? -1 : pread (fd, head, sizeof head, 0);
    return n < 0 ? NONE : kind_of (head, (size_t) n);
}

bool wm_archive_is (const char *path)
{
    wm_error_t error;
    const int fd = wm_file_open (path, NULL, &error); /* of a pipe it does not wait for a writer */
    const kind_t kind = kind_of_file (fd);
    if (fd >= 0)
        close (fd);
    return kind != NONE;
}

static wm_fault_t open_file (wm_archive_t *self, uint64_t bytes_max, wm_error_t *error)
{
    struct stat status;
    self->fd = open (self->path, O_RDONLY | O_CLOEXEC);
    if (self->fd < 0 || fstat (self->fd, &status))
        return wm_fault (error, WM_EBATCH, "%.300s: cannot open: %s", self->path, strerror (errno));
    const kind_t kind = kind_of_file (self->fd);
    if (kind == NONE || kind > IS_BZIP2)
        return wm_fault (error, WM_EBATCH,
                         "%.300s: %s; wiremill reads .tar, .tar.gz and .tar.bz2: pack it so",
                         self->path,
                         kind == IS_ZIP    ? "a zip archive"
                         : kind == IS_XZ   ? "packed by xz"
                         : kind == IS_ZSTD ? "packed by zstd"
                                           : "not an archive");
    self->how = kind == IS_GZIP ? GZIP : kind == IS_BZIP2 ? BZIP2 : PLAIN;
    self->bytes_max = (uint64_t) status.st_size * UNPACKED_TIMES;
    if (self->bytes_max < bytes_max)
        self->bytes_max = bytes_max;
    return rewind_stream (self, error);
}

wm_archive_t *wm_archive_open (const char *path, uint64_t bytes_max, wm_error_t *error)
{
    wm_archive_t *self = calloc (1, sizeof *self);
    if (self)
        self->fd = -1;
    if (!self || !(self->path = strdup (path)))
        wm_fault (error, WM_EHOST, "out of memory");
    else if (!open_file (self, bytes_max, error))
        return self;
    wm_archive_close (&self);
    return NULL;
}

void wm_archive_close (wm_archive_t **self_p)
{
    wm_archive_t *self = *self_p;
    *self_p = NULL;
    if (!self)
        return;
    unpacker_close (self);
    if (self->fd >= 0)
        close (self->fd);
    free (self->path);
    free (self);
}

const char *wm_archive_path (const wm_archive_t *self)
{
    return self->path;
}

uint32_t wm_archive_rewinds (const wm_archive_t *self)
{
    return self->n_rewind;
}

/* ---- headers --------------------------------------------------------------------------------- */

/* What a header's continuation says of the next member.  */
typedef struct {
    char name[4096];
    bool has_name, has_size;
    uint64_t size;
} extra_t;

/* An octal number, or GNU tar's binary one; false: neither, or above 2^62.  */
static bool number_take (const uint8_t *field, size_t width, uint64_t *number)
{
    size_t i = 0;
    *number = 0;
    if (field[0] & 0x80) {
        *number = field[0] & 0x7f;
        for (i = 1; i < width && *number >> 54 == 0; i++)
            *number = *number << 8 | field[i];
        return i == width;
    }
    while (i < width && field[i] == ' ')
        i++;
    for (; i < width && field[i] >= '0' && field[i] <= '7'; i++)
        *number = *number << 3 | (uint64_t) (field[i] - '0'); /* at most 12 digits */
    return i == width || field[i] == 0 || field[i] == ' ';
}

/* Old programs summed signed bytes; names of frames have no others than those below 128.  */
static bool sum_fits (const uint8_t *block)
{
    uint64_t wanted, sum = 0;
    for (unsigned i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : block[i];
    return number_take (block + 148, 8, &wanted) && wanted == sum;
}

/* Records "LENGTH KEY=VALUE\n".  */
static bool pax_take (const char *text, size_t bytes, extra_t *extra)
{
    for (size_t at = 0; at < bytes && text[at];) {
        char *end;
        const unsigned long length = strtoul (text + at, &end, 10); /* text ends with a NUL */
        if (*end != ' ' || length > bytes - at || text + at + length < end + 3 ||
            text[at + length - 1] != '\n')
            return false;
        const char *key = end + 1;
        const size_t n = (size_t) (text + at + length - 1 - key);
        if (n > 5 && !memcmp (key, "path=", 5)) {
            extra->has_name = true;
            snprintf (extra->name, sizeof extra->name, "%.*s", (int) (n - 5), key + 5);
        } else if (n > 5 && !memcmp (key, "size=", 5)) {
            extra->has_size = true;
            extra->size = strtoull (key + 5, &end, 10);
            if (end != key + n || extra->size >> 62)
                return false;
        }
        at += length;
    }
    return true;
}

/* Reads the continuation of the next member's header.  */
static wm_fault_t extra_read (wm_archive_t *self, char type, uint64_t bytes, extra_t *extra,
                              wm_error_t *error)
{
    char *text = bytes <= EXTRA_BYTES_MAX ? calloc (1, bytes + 1) : NULL;
    wm_fault_t fault = text ? wm_archive_read (self, text, bytes, error)
                            : wm_fault (error, WM_EBATCH, "%.300s: a header of %llu bytes",
                                        self->path, (unsigned long long) bytes);
    if (!fault && type == 'L') {
        extra->has_name = true;
        snprintf (extra->name, sizeof extra->name, "%s", text);
    } else if (!fault && type == 'x' && !pax_take (text, bytes, extra))
        fault = wm_fault (error, WM_EBATCH, "%.300s: damaged: a header's records are not valid",
                          self->path);
    free (text);
    return fault;
}

static void name_take (const uint8_t *block, extra_t *extra)
{
    if (extra->has_name)
        return;
    const bool has_prefix = block[345] && !memcmp (block + 257, "ustar", 6); /* not GNU's */
    snprintf (extra->name, sizeof extra->name, "%.*s%s%.*s", has_prefix ? 155 : 0,
              (const char *) block + 345, has_prefix ? "/" : "", 100, (const char *) block);
}

/* Nothing is extracted, but who makes such names means no good.  */
static bool leaves (const char *name)
{
    for (const char *at = name; at; at = strchr (at, '/'), at = at ? at + 1 : NULL)
        if (!strncmp (at, "..", 2) && (at[2] == '/' || !at[2]))
            return true;
    return *name == '/';
}

/* A name for messages: it may hold anything.  */
static void name_show (const char *name, char text[80])
{
    size_t i = 0;
    for (; i < 79 && name[i]; i++)
        text[i] = name[i] >= ' ' && name[i] < 127 ? name[i] : '?';
    text[i] = 0;
}

/* Judges a member by its header. *is_file: it is a plain file, not a folder.  */
static wm_fault_t member_check (const wm_archive_t *self, char type, const extra_t *extra,
                                uint64_t size, bool *is_file, wm_error_t *error)
{
    char name[80];
    name_show (extra->name, name);
    *is_file = type == '0' || type == 0 || type == '7';
    if (!*is_file && type != '5')
        return wm_fault (error, WM_EBATCH, "%.300s: member %s is a link or a device: refused",
                         self->path, name);
    if (leaves (extra->name))
        return wm_fault (error, WM_EBATCH, "%.300s: member %s lies outside of the archive: refused",
                         self->path, name);
    if (size > self->bytes_max || self->at > self->bytes_max - size)
        return wm_fault (error, WM_EBATCH,
                         "%.300s: member %s of %llu bytes: the archive would unpack to more than "
                         "%llu MiB: refused",
                         self->path, name, (unsigned long long) size,
                         (unsigned long long) (self->bytes_max >> 20));
    return WM_OK;
}

bool wm_archive_next (wm_archive_t *self, wm_member_t *member, wm_error_t *error)
{
    static extra_t extra;
    uint8_t block[BLOCK];
    uint64_t size;
    size_t n;
    wm_fault_t fault;
    *error = (wm_error_t){ .fault = WM_OK };
    extra.has_name = extra.has_size = false;
    while (!(fault = wm_archive_seek (self, self->next, error)) &&
           !(fault = stream_read (self, block, sizeof block, &n, error))) {
        if (!n || (n == BLOCK && is_zero (block))) {
            if (n)
                drain (self, error);
            return false;
        }
        if (n < BLOCK || !sum_fits (block) || !number_take (block + 124, 12, &size)) {
            wm_fault (error, WM_EBATCH,
                      n < BLOCK ? "%.300s: cut off: copy the file again"
                                : "%.300s: damaged: a member's header is not "
                                  "valid",
                      self->path);
            return false;
        }
        const char type = (char) block[156];
        bool is_file = false;
        const bool is_extra = type == 'x' || type == 'g' || type == 'L' || type == 'K';
        if (extra.has_size && !is_extra)
            size = extra.size;
        if (is_extra)
            fault = extra_read (self, type, size, &extra, error);
        else {
            name_take (block, &extra);
            fault = member_check (self, type, &extra, size, &is_file, error);
        }
        if (fault)
            return false;
        const uint64_t at = is_extra ? self->at - size : self->at;
        self->next = at + (size + BLOCK - 1) / BLOCK * BLOCK;
        if (is_file) {
            const char *slash = strrchr (extra.name, '/');
            snprintf (member->name, sizeof member->name, "%.255s", slash ? slash + 1 : extra.name);
            member->bytes = size;
            member->at = at;
            return true;
        }
        if (!is_extra)
            extra.has_name = extra.has_size = false;
    }
    return false;
}
