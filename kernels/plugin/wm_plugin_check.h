/* wm_plugin_check.h - tries the contract of a plug-in (gpuworker/wiremill_engine.h): one finding
   for each thing that wiremill relies on.

   Each trial has a process of its own, which opens the plug-in again and may crash or hang. Rows
   are drawn from a seed, so that a second check sees the same. Thread: one.  */
#ifndef WM_PLUGIN_CHECK_H
#define WM_PLUGIN_CHECK_H

#include "schema/base/wm_fault.h"

#include <stdint.h>

typedef enum {
    WM_PLUGIN_GOOD,
    WM_PLUGIN_WARN, /* it works, but its author should know */
    WM_PLUGIN_FAIL, /* wiremill would hold rows, or refuse it */
} wm_plugin_verdict_t;

typedef struct {
    const char *what; /* a word or two; static */
    wm_plugin_verdict_t verdict;
    char seen[480], advice[200]; /* advice: "" of a good one */
} wm_plugin_finding_t;

#define WM_PLUGIN_FINDINGS_MAX 16

/* Fills in the findings and returns their number. If it cannot be loaded and described there is one
   alone; after two trials that hang there are no more. data: the file that it takes, NULL: none.
   patience_s: for each trial.  */
uint32_t wm_plugin_check (const char *path, const char *data, unsigned patience_s,
                          wm_plugin_finding_t finding[WM_PLUGIN_FINDINGS_MAX]);

#endif
