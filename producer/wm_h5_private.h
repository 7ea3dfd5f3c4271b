/* wm_h5_private.h - what the files of wm_h5 share.

   wm_h5.c         files: opening them, names, attributes, texts
   wm_h5_column.c  columns: checks, the library's caches of chunks, rows  */
#ifndef WM_H5_PRIVATE_H
#define WM_H5_PRIVATE_H

#include "producer/wm_h5.h"

#include <hdf5.h>

struct wm_h5_t {
    hid_t file;
    uint64_t file_bytes;
    char *path;
    void *space; /* of wm_h5_read_spans: TOGETHER_ROWS of TOGETHER_WIDTH_MAX doubles */
};

/* Returns the first link on the way to `name` that is no hard one, and may lead out of this file;
   H5L_TYPE_HARD: none, H5L_TYPE_ERROR: one cannot be read.  */
H5L_type_t wm_h5_link_odd (const wm_h5_t *self, const char *name);

/* Reads as H5Dread does; no other function here calls that. Of what was never written it leaves
   `to` as it was, unless it has a fill value: with `leaves` it is 0 then. `bytes`: of `to`.  */
bool wm_h5_dataset_read (hid_t id, bool leaves, hid_t type, hid_t memory, hid_t file,
                         hid_t transfer, void *to, size_t bytes);

#endif
