/* wm_steps.h - the steps of each batch, read from the traces of a campaign's processes.  */
#ifndef WM_STEPS_H
#define WM_STEPS_H

#include "schema/base/wm_fault.h"

#include <jansson.h>

/* Reads every trace in a folder (schema/wm_trace.h) into p50_ms ... commit_ms, cpu_..._s,
   memory_..._mb, lead_s, tail_s and idle_share of a point. The campaign ran from start_ns to end_ns
   (wm_trace_now_ns). Returns WM_EHOST where the folder cannot be read, or where no batch was
   followed from the producer to its acknowledgement.  */
wm_fault_t wm_steps_read (const char *folder, int64_t start_ns, int64_t end_ns, json_t *point,
                          wm_error_t *error);

#endif
