/* wm_lib_private.h - what the files of libwiremill share.  */
#ifndef WM_LIB_PRIVATE_H
#define WM_LIB_PRIVATE_H

#include "ops/lib/wiremill.h"
#include "schema/base/wm_fault.h"

/* Patches in one call of the engine. More gain nothing, and take more memory.  */
#define WM_LIB_CALL_MAX 1024u

/* Copies a fault to the caller's struct, which may be NULL, and returns its number.  */
wiremill_fault_t wm_lib_fault (wiremill_error_t *error, const wm_error_t *from);

#endif
