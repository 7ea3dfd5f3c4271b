/* wm_h5.h - reads HDF5 files of unknown origin.

   The library follows external links, external storage and virtual datasets and loads filter
   plugins by default; all of that is refused here, and every dataset's type and size is checked
   before a byte of it is read. What remains is that a damaged file may crash the library: the
   producer is the process that may die of it.

   A column is a dataset of rows: (n), (n, 1), (n, 3) or, for patches, (n, ...). Tables are read by
   spans of rows, never whole. The library's caches of chunks of all files together hold at most
   32 MiB; columns that were not read for long are closed for that, and opened and checked again.
   Texts of errors name file and dataset. Thread: one for all files (the library is not ours).  */
#ifndef WM_H5_H
#define WM_H5_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wm_h5_t wm_h5_t;

/* Rows first .. first+count-1 of a table.  */
typedef struct {
    uint32_t first, count;
} wm_h5_range_t;

typedef enum { WM_H5_INTEGER, WM_H5_FLOAT } wm_h5_class_t;

/* What a column is read as. An integer that does not fit is refused; with I32_CLIPPED it becomes
   the nearest that does: for numbers of things, of which none has that one.  */
typedef enum { WM_H5_I32, WM_H5_I32_CLIPPED, WM_H5_I64, WM_H5_F32, WM_H5_F64 } wm_h5_type_t;

typedef struct wm_dataset_t wm_dataset_t;

typedef struct {
    wm_h5_t *file;      /* lent */
    wm_dataset_t *data; /* NULL: none */
    char name[96];
    uint64_t n_row;
    uint32_t width, n_dim; /* values a row */
    uint64_t dim[8];
    bool half; /* stored as IEEE float16, little-endian */
} wm_column_t;

/* Switches off links out of a file and filter plugins; once, before any other call. Idempotent.  */
void wm_h5_init (void);

/* Whether so much address space is left; errno says if not. Below WM_H5_ROOM_BYTES no file may be
   opened or made: HDF5 1.10 crashes where it finds no memory for a file's cache (H5AC_create).  */
#define WM_H5_ROOM_BYTES (8u << 20)
bool wm_h5_has_room (size_t bytes);

/* Opens for reading. NULL with WM_EBATCH: not readable, truncated, not HDF5; WM_EHOST: no
   memory.  */
wm_h5_t *wm_h5_open (const char *path, wm_error_t *error);
void wm_h5_close (wm_h5_t **self_p);

/* Takes a file that the library has open, closed on failure too; `path` is its name for people,
   `bytes` what it holds. NULL: WM_EHOST.  */
wm_h5_t *wm_h5_take (int64_t file, const char *path, uint64_t bytes, wm_error_t *error);
const char *wm_h5_path (const wm_h5_t *self);

/* Whether an object of that name is there (links of any kind count).  */
bool wm_h5_has (const wm_h5_t *self, const char *name);

/* Text attribute of the root group into `text`, control characters as '?'; false: not there, or no
   text that fits.  */
bool wm_h5_text (const wm_h5_t *self, const char *name, char *text, size_t bytes_max);

/* Reads a text as wm_h5_text does, but keeps its line breaks.  */
bool wm_h5_lines (const wm_h5_t *self, const char *name, char *text, size_t bytes_max);

/* Whole-number attribute of the root group, or, as "GROUP/NAME", of another; false: not there.  */
bool wm_h5_number (const wm_h5_t *self, const char *name, int64_t *number);

/* Calls `take` with each text of a list of fixed-length texts; nothing where that is not there.  */
void wm_h5_texts (const wm_h5_t *self, const char *name, void (*take) (void *arg, const char *text),
                  void *arg);

/* Opens a column. class INTEGER takes integers, FLOAT integers and floats. width: 1, 3, or 0 for
   rows of any shape. WM_EBATCH: missing, another type or shape, external, or larger than its file
   can hold. Close with wm_h5_column_close (NULL-safe, idempotent).  */
wm_fault_t wm_h5_column (wm_h5_t *self, const char *name, wm_h5_class_t class, uint32_t width,
                         wm_column_t *column, wm_error_t *error);
void wm_h5_column_close (wm_column_t *column);

/* *id: the library's number of the column's dataset, good until another column is read; for what
   leaves its cache of chunks empty, as H5Dread_chunk does. WM_EBATCH: it had been closed for its
   cache, and is no longer what it was.  */
wm_fault_t wm_h5_dataset (const wm_column_t *column, int64_t *id, wm_error_t *error);

/* Notes that every event reads all of the column, because its rows are in no order: more of it is
   kept.  */
void wm_h5_whole (const wm_column_t *column);

/* Takes a note about a file that is read as it is, although a person should look: chunks that were
   never written, and read as 0 or as their fill value. Without a call notes are printed as
   warnings; NULL: they are dropped.  */
typedef void wm_h5_note_t (const char *path, const char *text);
void wm_h5_notes (wm_h5_note_t *take);

/* Returns what the caches of all columns may hold now: for tests.  */
size_t wm_h5_cached_bytes (void);

/* Writes which datasets a group has, with their shapes, for people; "": the whole file.  */
#define WM_H5_LIST_BYTES 240
const char *wm_h5_list (const wm_h5_t *self, const char *group, char text[WM_H5_LIST_BYTES]);

/* Writes "(48, 48, 500)", and with `first` "N" "(N, 48, 48, 500)", for people.  */
const char *wm_h5_shape (char text[200], const char *first, const uint64_t *dim, uint32_t n);

/* Name of the only dataset of at least two dimensions in the root group; false: none, or several.
 */
bool wm_h5_only_dataset (const wm_h5_t *self, char *name, size_t bytes_max);

/* Calls `take` with each name in a group ("/": the root's), until it returns false. Names of links
   out of the file count too: whoever opens them is refused.  */
void wm_h5_names (const wm_h5_t *self, const char *group,
                  bool (*take) (void *arg, const char *name), void *arg);

/* Reads rows as `type` into `to` (count x width). WM_EBATCH: they cannot be read, lie in a chunk
   that holds less than a chunk (wm_chunks.h), or an integer does not fit.  */
wm_fault_t wm_h5_read (const wm_column_t *column, uint64_t first, uint64_t count, wm_h5_type_t type,
                       void *to, wm_error_t *error);

/* Reads the rows of spans, one after another. Near spans are read together.  */
wm_fault_t wm_h5_read_spans (const wm_column_t *column, const wm_h5_range_t *span, uint64_t n_span,
                             wm_h5_type_t type, void *to, wm_error_t *error);

/* IEEE half to float, `count` values.  */
void wm_half_to_float (const uint16_t *half, size_t count, float *to);

#endif
