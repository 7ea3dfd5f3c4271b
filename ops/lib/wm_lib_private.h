/* wm_lib_private.h - what the files of libwiremill share.  */
#ifndef WM_LIB_PRIVATE_H
#define WM_LIB_PRIVATE_H

#include "ops/lib/wiremill.h"
#include "schema/base/wm_fault.h"
#include "schema/session/wm_library.h"

#include <stdbool.h>

/* Patches in one call of the engine. More gain nothing, and take more memory.  */
#define WM_LIB_CALL_MAX 1024u

/* Copies a fault to the caller's struct, which may be NULL, and returns its number.  */
wiremill_fault_t wm_lib_fault (wiremill_error_t *error, const wm_error_t *from);

/* Patches of n_value values, where a patch has the shape dim (n_dim).  */
wm_fault_t wm_lib_wrong_size (size_t n_value, const uint32_t *dim, uint32_t n_dim,
                              wm_error_t *error);

/* Whether all values are finite.  */
bool wm_lib_is_finite (const float *value, size_t n);

/* Starts a helper of a client (schema/session/wm_library.h) and waits for READY. helper: its path;
   NULL: it is looked for. join_file may be NULL. *fd: our end of the pair. *labels: (n_output), the
   caller's.  */
wm_fault_t wm_lib_helper_start (const char *helper, const char *broker, const char *join_file,
                                uint32_t patience_ms, int *fd, wm_library_facts_t *facts,
                                char (**labels)[WM_LIBRARY_LABEL_BYTES], wm_error_t *error);

#endif
