/* wm_import.h - makes a .wmm from an ONNX file or a TensorFlow frozen graph, and a seeded model
   from nothing.

   The importer bounds size and nesting before it parses, sorts nodes topologically, folds
   constants, strips no-ops, and recognises the EmTrkMichelId family: one or more valid convolutions
   with activations, Flatten, a tree of dense layers. Any other model is kept as it is for the
   general engine. Files of others are read in a process of their own, which can do nothing else
   (wm_import_apart.c): one that crashes it is refused. Thread: one at a time.  */
#ifndef WM_IMPORT_H
#define WM_IMPORT_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The user's choices; NULL, or all zero, for none. A choice is part of the model's identity.  */
typedef struct {
    const char *outputs; /* names with commas between: which outputs, in which order; NULL: all */
    bool whole;          /* inputs and outputs have no batch dimension: one patch is all of them */
    bool general;        /* a general model, also if it is of the family */
    bool accept;         /* OpenVINO scores it, also where it does not compute what ONNX defines */
    bool exact;          /* values that float32 does not hold are kept as they are (wm_exact.h);
                            part of the identity only of a model that has a type of them */
    uint32_t row_values; /* of a model with free dimensions, float32s of a row at most: from
                            WM_RAGGED_VALUES to WM_RAGGED_VALUES_MAX; 0: WM_RAGGED_VALUES. Any
                            other model is refused with it */
} wm_import_choices_t;

/* In `why`, after "; ", if a general model's multiply-adds are not known; the reason follows.  */
#define WM_IMPORT_UNCOUNTED "multiply-adds not counted: "

/* Reads the model at `path` and writes `wmm_path` (temporary name, fsync, rename). `why` names the
   engine for the model and the reason, by node and operator; the .wmm file contains it. A general
   model gets its outputs' shapes and its known answers from OpenVINO; without OpenVINO the file
   must state the shapes, and there are no known answers. WM_EBATCH: damaged, data outside the
   model's folder, too deep, unsupported shapes, or no engine runs it; WM_EUSAGE: wmm_path holds the
   model's weights; WM_EHOST: files, memory.  */
wm_fault_t wm_import (const char *path, const wm_import_choices_t *choices, const char *wmm_path,
                      char why[480], wm_error_t *error);

/* The same in this process: a file that exploits a mistake of the importer has all that this
   process has. For the library, which must not fork the program that uses it.  */
wm_fault_t wm_import_here (const char *path, const wm_import_choices_t *choices,
                           const char *wmm_path, char why[480], wm_error_t *error);

/* The same in two steps, with the file opened and read once: a caller that has the model already
   does not make it again.  */
typedef struct wm_import wm_import_t;

/* Opens the file and computes the model's identity: the SHA-256 of the file, of the data that it
   keeps in files beside it, and of the choices. *alone (may be NULL): it keeps no data in other
   files. `path` must outlive what is returned. `place`: a name in the folder of the .wmm that
   wm_import_make will write, which no file of the model's may be; NULL: none will be written. NULL
   and faults as wm_import.  */
wm_import_t *wm_import_open (const char *path, const wm_import_choices_t *choices,
                             const char *place, char hex[65], bool *alone, wm_error_t *error);

/* Writes the .wmm, once.  */
wm_fault_t wm_import_make (wm_import_t *self, const char *wmm_path, char why[480],
                           wm_error_t *error);
void wm_import_destroy (wm_import_t **self_p);

/* Writes a seeded EmTrkMichelId network (11,900,420 parameters, He-like scales so that scores vary)
   as ONNX. wire, bin: patch size (48, 48).  */
wm_fault_t wm_model_new_emtrkmichel (uint64_t seed, uint32_t wire, uint32_t bin, const char *path,
                                     wm_error_t *error);

#endif
