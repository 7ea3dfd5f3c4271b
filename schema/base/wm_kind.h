/* wm_kind.h - what a file is by its first bytes, for messages about a file that is something else.

   Thread: any.  */
#ifndef WM_KIND_H
#define WM_KIND_H

typedef enum {
    WM_KIND_OTHER,
    WM_KIND_EMPTY, /* 0 bytes */
    WM_KIND_HDF5,
    WM_KIND_NPY,
    WM_KIND_GZIP,
    WM_KIND_ZIP,    /* also .npz, PyTorch's .pt and Keras's .keras */
    WM_KIND_PICKLE, /* of Python, also an old .pt */
    WM_KIND_ROOT,   /* of CERN's ROOT */
    WM_KIND_BROKEN, /* a symbolic link to nothing */
    WM_KIND_MODEL,  /* a .wmm by its bytes; .onnx and .pb, which have no mark, by their names */
} wm_kind_t;

/* Returns the kind; WM_KIND_OTHER also where it cannot be read, or is no regular file.  */
wm_kind_t wm_kind_of (const char *path);

/* Returns what it is, with its article ("an HDF5 file"); NULL: it may be a text.  */
const char *wm_kind_name (wm_kind_t kind);

/* Returns whether the name is a URL or an endpoint: "http://host/file", no path.  */
int wm_kind_is_url (const char *name);

#endif
