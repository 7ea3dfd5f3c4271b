/* wm_stage_store.h - copies outputs to a root:// folder, for the stager (wm_stage.h).

   An output gets its name there when all of it has arrived and the server has confirmed its
   checksum; with sidecars, when the sidecar has its name, too. Only then does the stager report it
   to the reader. It gives up no output: it repeats each failed step, with pauses, until the reader
   ends. If the server refuses for good, the stager makes the reader end.  */
#ifndef WM_STAGE_STORE_H
#define WM_STAGE_STORE_H

#include "producer/staging/wm_stage.h"
#include "producer/staging/wm_stage_dead.h"

#include <stdbool.h>

typedef struct wm_store_t wm_store_t;

/* The options are lent; `folder` is that of the stager here; `dead` has the stagers here that have
   ended.  */
wm_store_t *wm_store_new (const wm_stage_options_t *options, const char *folder,
                          const wm_dead_t *dead);
void wm_store_destroy (wm_store_t **self_p);

/* Makes both folders, empties the one here, and lists the one there. Blocks, for minutes where the
   server is away. WM_EHOST: the server refuses, or does not answer.  */
wm_fault_t wm_store_open (wm_store_t *self, wm_error_t *error);

/* What the server had, in the order of names.  */
const wm_stage_there_t *wm_store_there (const wm_store_t *self, uint32_t *n);

/* Does what a message of the reader asks for; answers go to `fd`.  */
void wm_store_handle (wm_store_t *self, int fd, const wm_stage_msg_t *msg);

/* Goes on with all copies. Returns whether there are any.  */
bool wm_store_step (wm_store_t *self);

#endif
