/* wm_override.h - a load whose model comes with the request: parameters "config" and "file:...".

   "config" is a model's configuration as JSON, in place of config.pbtxt. "file:1/model.onnx" is the
   file of a version, "file:labels.txt" one beside the configuration: with such files nothing is
   read of the repository, and the model need not be in it. Files go to a folder below the gateway's
   state folder, which goes with the last version that is loaded from it. Thread: the loop's.  */
#ifndef WM_OVERRIDE_H
#define WM_OVERRIDE_H

#include "producer/serving/wm_kserve.h"
#include "schema/base/wm_fault.h"

#include <limits.h>

#define WM_OVERRIDE_FILES_MAX 64
#define WM_OVERRIDE_NAME_MAX 128 /* bytes of a file's name */

struct wm_override_t {
    char *config; /* JSON; NULL: none came */
    uint32_t n_file;
    struct {
        char name[WM_OVERRIDE_NAME_MAX + 24]; /* "1/model.onnx", "labels.txt" */
        const uint8_t *data;                  /* lent by the request */
        size_t bytes;
    } file[WM_OVERRIDE_FILES_MAX];
};

/* Read the parameters of a load: a request's JSON, whose base64 is decoded in place; a
   RepositoryModelLoadRequest. INVALID, and *self is empty: they are none. Without such parameters
   *self is empty, too.  */
wm_ks_code_t wm_override_json (wm_override_t *self, uint8_t *body, size_t bytes,
                               wm_ks_error_t *error);
wm_ks_code_t wm_override_proto (wm_override_t *self, const uint8_t *body, size_t bytes,
                                wm_ks_error_t *error);
void wm_override_clear (wm_override_t *self);
bool wm_override_is_empty (const wm_override_t *self);

/* Makes of a configuration in JSON what wm_pbtxt_parse makes of the same in protobuf's text; the
   caller's. NULL with WM_EBATCH.  */
json_t *wm_override_config (const char *text, wm_error_t *error);

/* ---- files ----------------------------------------------------------------------------------- */

/* What the files of all models that came with loads have together, and may.  */
typedef struct {
    size_t bytes, bytes_max;
} wm_loaded_sum_t;

/* A folder of files that came, and how many use it.  */
typedef struct wm_loaded_t {
    unsigned n_user;
    size_t bytes;
    wm_loaded_sum_t *sum; /* in which they are counted; lent */
    char path[PATH_MAX];
} wm_loaded_t;

/* Writes the files to a new folder below `state`, whose name has this number. NULL: they are
   too many bytes beside those of *sum, the disk is full, or it cannot be written.  */
wm_loaded_t *wm_loaded_new (const char *state, uint32_t number, wm_loaded_sum_t *sum,
                            const wm_override_t *override, wm_error_t *error);
wm_loaded_t *wm_loaded_use (wm_loaded_t *self); /* NULL of NULL */
/* The last one removes the folder.  */
void wm_loaded_drop (wm_loaded_t **self_p);
/* Removes what a gateway that was killed left below `state`.  */
void wm_loaded_sweep (const char *state);

#endif
