/* wm_outputs.h - compares a campaign's outputs and inputs with what they were: every byte for
   `wiremill verify` and wm_rebuild, size and time for the status of a campaign that no broker
   serves.  */
#ifndef WM_OUTPUTS_H
#define WM_OUTPUTS_H

#include "broker/campaign/wm_campaign.h"
#include "broker/core/wm_core.h"

typedef enum {
    WM_OUTPUT_FINE,
    WM_OUTPUT_TOUCHED, /* every byte as it was written, but another time: a copy */
    WM_OUTPUT_DAMAGED, /* other bytes, or none that can be read */
    WM_OUTPUT_MISSING,
} wm_output_state_t;

#define WM_OUTPUT_STATES (WM_OUTPUT_MISSING + 1)

typedef struct {
    wm_output_state_t state;
    int64_t size, mtime_ns; /* now; not of a missing one */
    int error;              /* errno where it cannot be read; 0 */
} wm_output_now_t;

/* Reports that so many more bytes were read.  */
typedef void wm_output_progress_t (void *argument, size_t bytes);

/* Compares a file with the ledger's size, digest and time; reads all of it if the size is right.
   progress may be NULL. Thread: one (it has one buffer).  */
wm_output_now_t wm_output_compare (const char *path, const wm_ledger_input_t *row,
                                   wm_output_progress_t *progress, void *argument);

/* Reports how many bytes of all outputs were read, and of how many.  */
typedef void wm_outputs_progress_t (uint64_t n_read, uint64_t n_all);

/* Reads every output, or in `copies` (may be NULL) what was copied there, and compares it.
   {"schema": "wiremill-outputs-1", "pins": TEXT, "left_out": N, "written":
   [{"input": PATH, "output": PATH, "bytes": N, "state": WORD, "why": TEXT,
   "input_changed": BOOL}]}, the caller's. bytes: as written; state: fine, touched, damaged, missing
   or unreadable; why: "" of a fine one; left_out: outputs, not among the others, whose path is no
   UTF-8. NULL with *error: WM_EAGAIN, as of wm_campaign_lock; WM_EHOST. It releases the
   campaign's lock while it reads, and takes it again where an output differs from the ledger: a
   run may have written it again meanwhile. On return the campaign is closed.  */
char *wm_outputs_json (wm_campaign_t *campaign, const char *copies, wm_outputs_progress_t *progress,
                       wm_error_t *error);

/* Compares the outputs, in `folder`, and the inputs of a core that was restored from a ledger with
   the files, by size and time, as a producer does. A file that cannot be reached from here counts
   as unchanged, so do outputs on a server; an outputs' folder that cannot be read is logged, with
   the campaign's folder, `dir` (NULL: it is not).
   Blocks on file systems that hang: release the lock before.  */
void wm_outputs_compare (wm_core_t *core, const wm_pins_t *pins, const char *dir);

#endif
