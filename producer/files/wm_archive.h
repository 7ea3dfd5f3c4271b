/* wm_archive.h - a tar archive, plain or packed by gzip or bzip2, read from front to back.

   The bytes of all members together, unpacked, are one stream; a position in it is where reading
   goes on. Neither gzip nor bzip2 can be entered in the middle, so that a position behind the
   present one is reached by unpacking what lies between, and one before it by unpacking from the
   beginning again. Nothing is written to disk: the stream is fifty times the file.

   zlib and libbz2 unpack. libarchive would read tar too, but brings libxml2 and ICU, 38 MB, into
   every process and bundle for it.

   Archives are of unknown origin. Members are never extracted. Sizes are checked before a byte is
   taken, and a stream that is longer than any archive of frames is refused. Thread: one.  */
#ifndef WM_ARCHIVE_H
#define WM_ARCHIVE_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wm_archive_t wm_archive_t;

/* A plain file of the archive.  */
typedef struct {
    char name[256]; /* without folders; a longer one is cut */
    uint64_t bytes;
    uint64_t at; /* position of its first byte */
} wm_member_t;

/* Whether the file begins as an archive does, one that is not read here included.  */
bool wm_archive_is (const char *path);

/* The least unpacked bytes that are too many, whatever the file's size: a hostile archive then
   takes minutes, not days.  */
#define WM_ARCHIVE_BYTES_MAX (16ull << 30)

/* Opens for reading. `bytes_max`: WM_ARCHIVE_BYTES_MAX, but in tests. NULL with WM_EBATCH: not
   readable, or packed in another way.  */
wm_archive_t *wm_archive_open (const char *path, uint64_t bytes_max, wm_error_t *error);
void wm_archive_close (wm_archive_t **self_p);
const char *wm_archive_path (const wm_archive_t *self);

/* Moves to the next plain file behind the last one that was returned; folders are passed over.
   false: the archive ends, or a fault (error->fault is WM_OK at the end). Faults are WM_EBATCH:
   damaged, cut off, a link or device, a name that leaves the archive.  */
bool wm_archive_next (wm_archive_t *self, wm_member_t *member, wm_error_t *error);

/* Moves to a position, forward or back.  */
wm_fault_t wm_archive_seek (wm_archive_t *self, uint64_t at, wm_error_t *error);

/* Reads from the position on. WM_EBATCH: damaged, or the archive ends before.  */
wm_fault_t wm_archive_read (wm_archive_t *self, void *to, size_t bytes, wm_error_t *error);

/* Returns how often the stream was begun again: for tests.  */
uint32_t wm_archive_rewinds (const wm_archive_t *self);

#endif
