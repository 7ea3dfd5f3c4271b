/* wm_import.h - makes a .wmm from an ONNX file or a TensorFlow frozen graph, and a seeded model from
   nothing.

   The importer bounds size and nesting before it parses, sorts nodes topologically, folds
   constants, strips no-ops, and recognises the EmTrkMichelId family: one or more valid convolutions
   with activations, Flatten, a tree of dense layers. Any other model is kept as it is for the
   general engine. Thread: one at a time.  */
#ifndef WM_IMPORT_H
#define WM_IMPORT_H

#include "schema/wm_fault.h"

#include <stddef.h>
#include <stdint.h>

/* Reads the model at `path`, writes `wmm_path` (temporary name, fsync, rename). `why` says which
   engine the model gets and why, by node and operator. WM_EBATCH: damaged, data outside the model's
   folder, too deep, unsupported shapes; WM_EHOST: files.  */
wm_fault_t wm_import (const char *path, const char *wmm_path, char why[480], wm_error_t *error);

/* The identity that `path` would be imported under: the SHA-256 of the file and of the data it keeps
   in files beside it. Faults as above.  */
wm_fault_t wm_import_sha256 (const char *path, char hex[65], wm_error_t *error);

/* Writes a seeded EmTrkMichelId network (11,900,420 parameters, He-like scales so that scores vary)
   as ONNX. wire, bin: patch size (48, 48).  */
wm_fault_t wm_model_new_emtrkmichel (uint64_t seed, uint32_t wire, uint32_t bin, const char *path,
                                     wm_error_t *error);

#endif
