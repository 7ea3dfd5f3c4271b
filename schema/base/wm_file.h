/* wm_file.h - a whole file: mapped, digested, written at once.

   Thread: any.  */
#ifndef WM_FILE_H
#define WM_FILE_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns what a file of this st_mode is ("a folder", "a pipe"); NULL: a regular one.  */
const char *wm_file_irregular (unsigned mode);

/* Explains by errno why a name of a command line cannot be read, and returns WM_EUSAGE. The text
   begins with the name: it does not exist, is a link to nothing, cannot be read.  */
wm_fault_t wm_file_missing (const char *path, wm_error_t *error);

/* Returns whether errno says that a disk, or the share of a user (quota), is full: that passes.  */
bool wm_file_is_full (int failed);

/* Explains by errno why a file cannot be written. WM_EAGAIN with advice: no room; WM_EHOST: else.
   0: a library failed without an errno.  */
wm_fault_t wm_file_unwritten (const char *path, int failed, wm_error_t *error);

/* Warns on standard error where others than its owner may read a file with a secret, whose
   st_mode this is. what: "the join file"; risk: what they could do, or NULL.  */
void wm_file_warn_open (const char *what, const char *path, unsigned mode, const char *risk);

/* Checks what a name of a command line leads to: a file, or a dataset in one (wm_path.h), or with
   is_folder a folder; with may_lack also nothing. The text begins with the name: it does not exist,
   is a folder, is a file. WM_EUSAGE.  */
wm_fault_t wm_file_expect (const char *name, bool is_folder, bool may_lack, wm_error_t *error);

/* Checks that the files of a command line exist, before anything is read: these names (n), each a
   file or a dataset in one; a NULL is passed over. WM_EUSAGE as wm_file_expect.  */
wm_fault_t wm_file_exist (const char *const path[], size_t n, wm_error_t *error);

/* Returns why a file that people named cannot be read, by errno: "it is a folder", or strerror's
   text.  */
const char *wm_file_why (int failed);

/* Opens a regular file to read, and waits for no writer. -1 with WM_EBATCH: it cannot be read, or
   is a folder, a pipe, a socket, a device; *bytes (may be NULL): its size.  */
int wm_file_open (const char *path, uint64_t *bytes, wm_error_t *error);

/* Maps `path` read-only, shared between processes; undo with munmap. WM_EBATCH for an empty file or
   one of more than bytes_max, WM_EHOST for one that cannot be read.  */
wm_fault_t wm_file_map (const char *path, size_t bytes_max, const uint8_t **bytes, size_t *size,
                        wm_error_t *error);

/* SHA-256 of bytes that come one after another. wm_digest_new returns NULL without memory; the
   others accept that, and finish then returns WM_EHOST.  */
typedef struct evp_md_ctx_st wm_digest_t;
wm_digest_t *wm_digest_new (void);
void wm_digest_add (wm_digest_t *self, const void *bytes, size_t size);
wm_fault_t wm_digest_finish (wm_digest_t **self_p, uint8_t digest[32], wm_error_t *error);

/* SHA-256 of a file, hex (65 bytes with NUL).  */
wm_fault_t wm_file_sha256 (const char *path, char hex[65], wm_error_t *error);

/* Fills in what changes when a file is written to: "device:inode:bytes:mtime:ctime". A process
   that has just checked a file passes this to another, which then need not check it again. false:
   there is no such file; it was written within two seconds, so that one more write might not show;
   or it is on a network, whose attributes may be old.  */
#define WM_FILE_STAMP_BYTES 112
bool wm_file_stamp (const char *path, char stamp[WM_FILE_STAMP_BYTES]);

/* Computes the XXH3-128 of a file, as journal and ledger keep it of outputs; `progress` (may be
   NULL) is called with the number of bytes that each step read. Returns 0, or errno.  */
int wm_file_digest (const char *path, uint8_t digest[16],
                    void (*progress) (void *argument, size_t bytes), void *argument);

/* Reads a whole file, which may be a pipe; a NUL is behind it. The caller's; NULL and errno: it
   cannot be read, has more than bytes_max (EFBIG), or there is no memory.  */
char *wm_file_text (const char *path, size_t bytes_max, size_t *bytes);

/* Part of a file to write.  */
typedef struct {
    const void *bytes;
    size_t size;
} wm_part_t;

/* Copies a file to a new one that only this user may read. Returns 0, or errno.  */
int wm_file_copy (const char *from, const char *to);

/* Writes all bytes at the position of `fd`. Returns 0, or -1 and errno.  */
int wm_file_append (int fd, const void *bytes, size_t size);

/* Writes the parts one after another under a temporary name beside `path`, fsyncs, renames, fsyncs
   the folder: after a crash there is the old file or the new one. WM_EAGAIN for a full disk,
   WM_EUSAGE where a folder or a device has the name, WM_EHOST for any other failure; nothing is
   left behind but by a crash, and that is swept the next time.  */
wm_fault_t wm_file_write (const char *path, const wm_part_t *part, size_t n_part,
                          wm_error_t *error);

/* The same for a file that only this user may read, whatever the umask.  */
wm_fault_t wm_file_write_secret (const char *path, const void *bytes, size_t size,
                                 wm_error_t *error);

#define WM_FILE_PATH_BYTES 4096 /* PATH_MAX; NVRTC, which reads this header, has no limits.h */

/* A file that is written piece by piece. It gets its name when it is whole, so that a command that
   fails or is killed leaves what had the name before. Where the file system can (O_TMPFILE), it has
   no name until then, and a killed command leaves nothing; elsewhere it is swept as above.  */
typedef struct {
    char path[WM_FILE_PATH_BYTES];
    char temporary[WM_FILE_PATH_BYTES]; /* "": it has no name */
    int fd;                             /* to read and write; -1: none is being made */
} wm_file_new_t;

/* Begins a file that will have the name `path`, no more open to others than what has it now.
   is_named: it has a temporary name, by which a library can open it. Faults as wm_file_write.  */
wm_fault_t wm_file_begin (wm_file_new_t *self, const char *path, bool is_named, wm_error_t *error);

/* Ends it: fsyncs, renames, fsyncs the folder. It is closed also after a fault, which leaves
   nothing behind. */
wm_fault_t wm_file_commit (wm_file_new_t *self, wm_error_t *error);

/* Drops it, if one is being made: what has the name stays.  */
void wm_file_abort (wm_file_new_t *self);

/* Returns whether an open file or folder still has this name: whoever sweeps may have been faster
   than the lock of its maker.  */
bool wm_file_is_still (int fd, const char *name);

/* Removes temporary files that killed writers of this path left behind; running writers keep
   theirs.  */
void wm_file_sweep (const char *path);

#endif
