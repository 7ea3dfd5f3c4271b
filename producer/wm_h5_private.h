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

#endif
