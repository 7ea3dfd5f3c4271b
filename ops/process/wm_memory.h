/* wm_memory.h - files in memory, which programs that are started from here may read.

   Thread: any.  */
#ifndef WM_MEMORY_H
#define WM_MEMORY_H

#include "schema/base/wm_fault.h"

#include <stddef.h>

/* A memory file, by the name in `path`. Programs that are started from here have it where that name
   is among their arguments (wm_process_t), and no others: the list of inputs has the tokens of
   URLs.  */
wm_fault_t wm_memory_file (const char *name, const char *text, size_t bytes, int *fd,
                           char path[32], wm_error_t *error);

#endif
