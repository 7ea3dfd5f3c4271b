/* wm_import.h - makes a .wmm from an ONNX file or a TensorFlow frozen graph, and a seeded model from
   nothing.

   The importer bounds size and nesting before it parses, sorts nodes topologically, folds
   constants, strips no-ops, and recognises the EmTrkMichelId family: one or more valid convolutions
   with activations, Flatten, a tree of dense layers. Any other model is kept as it is for the
   general engine. Thread: one at a time.  */
#ifndef WM_IMPORT_H
#define WM_IMPORT_H

#include "schema/base/wm_fault.h"

#include <stddef.h>
#include <stdint.h>

/* What a person chose; NULL, or all zero, for nothing. A choice is part of the model's identity. */
typedef struct {
    const char *outputs; /* names with commas between: which outputs, in which order; NULL: all */
    int whole;   /* its inputs and outputs have no batch dimension: one patch is all of them */
    int general; /* for the general engine, of the family or not */
} wm_import_choices_t;

/* Follows "; " at the end of `why` where a general model's multiply-adds are not known, before why.  */
#define WM_IMPORT_UNCOUNTED "multiply-adds not counted: "

/* Reads the model at `path`, writes `wmm_path` (temporary name, fsync, rename). `why` says which
   engine the model gets and why, by node and operator. A general model gets its outputs' shapes and
   its known answers from the general engine; where that is not here, shapes must be in the file, and
   there are no known answers. WM_EBATCH: damaged, data outside the model's folder, too deep,
   unsupported shapes, or no engine takes it; WM_EHOST: files, memory.  */
wm_fault_t wm_import (const char *path, const wm_import_choices_t *choices, const char *wmm_path,
                      char why[480], wm_error_t *error);

/* The identity that `path` would be imported under: the SHA-256 of the file, of the data it keeps in
   files beside it, and of what was chosen. Faults as above.  */
wm_fault_t wm_import_sha256 (const char *path, const wm_import_choices_t *choices, char hex[65],
                             wm_error_t *error);

/* Writes a seeded EmTrkMichelId network (11,900,420 parameters, He-like scales so that scores vary)
   as ONNX. wire, bin: patch size (48, 48).  */
wm_fault_t wm_model_new_emtrkmichel (uint64_t seed, uint32_t wire, uint32_t bin, const char *path,
                                     wm_error_t *error);

#endif
