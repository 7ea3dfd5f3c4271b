/* wm_sidecar.h - OUTPUT.json beside each output, for a catalogue of files (MetaCat of DUNE).

     {"name": "a.scores.h5", "size": 1234, "checksums": {"adler32": "0a1b2c3d"},
      "parents": [{"did": "scope:a.h5"}],
      "metadata": {"core.event_count": 2, "core.runs": [1], ...}}

   parents is empty where the workflow system gave no DID. A sidecar is written at once, after its
   output, and made up for where a kill came between. Where outputs go to a server, it is written
   beside the output that is on its way there; the producer copies both. Thread: one.  */
#ifndef WM_SIDECAR_H
#define WM_SIDECAR_H

#include "schema/base/wm_fault.h"

#include <jansson.h>

/* Reads --sidecar-metadata: keys that every sidecar's metadata gets. WM_EUSAGE: no JSON object.  */
wm_fault_t wm_sidecar_metadata (const char *path, json_t **metadata, wm_error_t *error);

/* Writes FOLDER/NAME.json, unless it is there and of this output. metadata may be NULL. WM_EAGAIN:
   the disk is full, or the process that reads the output was killed or takes over a minute.  */
wm_fault_t wm_sidecar_write (const char *verb, const char *folder, const char *name,
                             const char *did, json_t *metadata, wm_error_t *error);

#endif
