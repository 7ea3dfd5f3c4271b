/* wm_steps.h - what the traces of a campaign's processes say of its batches.  */
#ifndef WM_STEPS_H
#define WM_STEPS_H

#include "schema/base/wm_fault.h"

#include <jansson.h>

/* Reads every trace in a folder (schema/wm_trace.h) into p50_ms ... commit_ms, cpu_..._s, memory_..._mb, lead_s and
   tail_s of a point; the campaign was from start_ns to end_ns (wm_trace_now_ns). WM_EHOST: it cannot
   be read, or not one batch went all the way.  */
wm_fault_t wm_steps_read (const char *folder, int64_t start_ns, int64_t end_ns, json_t *point,
                          wm_error_t *error);

#endif
