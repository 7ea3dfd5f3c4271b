/* wm_npy.h - the header of a .npy file: one array of numbers.

   Format: numpy.lib.format, versions 1.0 and 2.0. Big-endian numbers, texts, records and pickled
   objects are refused by name. Thread: any.  */
#ifndef WM_NPY_H
#define WM_NPY_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WM_NPY_HEAD_MAX 4096u /* bytes of a header we take or write */
#define WM_NPY_DIMS_MAX 8u

typedef struct {
    uint32_t head_bytes;  /* where the values begin */
    uint32_t value_bytes; /* 4: float32, 2: float16 */
    char kind;            /* 'f' float, 'i' integer, 'u' unsigned */
    bool is_fortran;      /* the first index runs fastest */
    uint32_t n_dim;
    uint64_t dim[WM_NPY_DIMS_MAX];
} wm_npy_t;

/* Parses the first `bytes` of a file of any numbers of 1 to 8 bytes, in either order. WM_EBATCH
   names what is wrong; `where` names the file.  */
wm_fault_t wm_npy_parse_any (wm_npy_t *self, const void *head, size_t bytes, const char *where,
                             wm_error_t *error);

/* The same of a C-ordered array of float32 or float16; others are refused.  */
wm_fault_t wm_npy_parse (wm_npy_t *self, const void *head, size_t bytes, const char *where,
                         wm_error_t *error);

/* Writes the header of a float32 array of these dimensions; returns its length, a multiple of 64
   and at least `least`.  */
size_t wm_npy_print (const uint64_t *dim, uint32_t n_dim, size_t least, char head[WM_NPY_HEAD_MAX]);

#endif
