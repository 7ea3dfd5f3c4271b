/* wm_h5_private.h - what the files of wm_h5 share.

   wm_h5.c         files: opening them, attributes, texts
   wm_h5_column.c  columns: checks, the library's caches of chunks, rows
   wm_h5_reason.c  links; why the library could not open something, and what helps  */
#ifndef WM_H5_PRIVATE_H
#define WM_H5_PRIVATE_H

#include "producer/files/wm_h5.h"

#include <hdf5.h>

/* The largest chunk that is read, as a whole, and the most that the library allocates at once.  */
#define WM_H5_CHUNK_BYTES_MAX (1ull << 30)

/* The group that was looked into last, reached by hard links alone.  */
typedef struct {
    hid_t id; /* 0: none */
    char name[96];
} wm_h5_group_t;

struct wm_h5_t {
    hid_t file;
    wm_h5_group_t *group;
    uint64_t file_bytes;
    char *path;
    void *space; /* of wm_h5_read_spans: TOGETHER_ROWS of TOGETHER_WIDTH_MAX doubles */
};

/* Returns what `*last`, the end of `name`, is to be looked up in: a group, which stays open because
   most columns lie beside the one before; the file, if `name` is of no group, or of one that hard
   links do not lead to.  */
hid_t wm_h5_place (const wm_h5_t *self, const char *name, const char **last);

/* Returns the first link on the way to `name` that is no hard one, and may lead out of this file;
   H5L_TYPE_HARD: none, H5L_TYPE_ERROR: one cannot be read.  */
H5L_type_t wm_h5_link_odd (const wm_h5_t *self, const char *name);

/* Reads as H5Dread does; no other function here calls that. Of what was never written it leaves
   `to` as it was, unless it has a fill value: with `leaves` it is 0 then. `bytes`: of `to`.  */
bool wm_h5_dataset_read (hid_t id, bool leaves, hid_t type, hid_t memory, hid_t file,
                         hid_t transfer, void *to, size_t bytes);

/* A command that copies datasets, wherever their bytes lie, and the file's attributes into a new
   file, whose format h5py of any HDF5 keeps old.  */
#define WM_H5_CONVERT                                                                              \
    "python3 -c 'import h5py,sys;a,b=map(h5py.File,sys.argv[1:],\"rw\");b.attrs.update(a.attrs);"  \
    "a.visititems(lambda n,o:b.update({n:o[()]})if hasattr(o,\"dtype\")else None)' OLD NEW"

/* Each right after the library's call that failed, whose messages the next call drops.
   wm_h5_reason_file: why this file cannot be opened; false: for no reason that is known here.
   wm_h5_reason_dataset: what an object is that was opened as a dataset ("no dataset, or ...").  */
#define WM_H5_REASON_BYTES 440
bool wm_h5_reason_file (const char *path, char text[WM_H5_REASON_BYTES]);
void wm_h5_reason_dataset (char text[WM_H5_REASON_BYTES]);

/* Returns a path, or the end of a long one behind dots, for messages whose command must fit.  */
#define WM_H5_SHORT_BYTES 121
const char *wm_h5_short (const char *path, char text[WM_H5_SHORT_BYTES]);

/* What a group, or the file, has where there is no dataset of that name.  */
void wm_h5_reason_missing (const wm_h5_t *self, const char *name, char text[WM_H5_REASON_BYTES]);

/* Returns what a dataset of this type contains, where a column does not take it.  */
const char *wm_h5_reason_type (hid_t type, bool takes_floats);

#endif
