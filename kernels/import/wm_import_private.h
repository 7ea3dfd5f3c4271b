/* wm_import_private.h - the two steps of an import, in the calling process: between them it is
   known which model it is. wm_import_open and wm_import_make have them done in a process that can
   do nothing else (wm_import_apart.c).  */
#ifndef WM_IMPORT_PRIVATE_H
#define WM_IMPORT_PRIVATE_H

#include "kernels/import/wm_import.h"
#include "kernels/onnx/wm_onnx.h"

typedef struct {
    wm_import_choices_t choices;
    wm_onnx_t onnx; /* wm_onnx_clear, also after a fault */
    uint8_t sha256[32];
    bool alone; /* it keeps no data in other files */
} wm_import_original_t;

/* Opens and reads the file, and computes the model's identity. choices, wmm_path: may be NULL. No
   file of the model's may be wmm_path.  */
wm_fault_t wm_import_original_open (wm_import_original_t *self, const char *path,
                                    const wm_import_choices_t *choices, const char *wmm_path,
                                    wm_error_t *error);

wm_fault_t wm_import_original_write (wm_import_original_t *self, const char *wmm_path,
                                     char why[480], wm_error_t *error);

#endif
