/* wm_cache.h - models a worker has fetched, by hash.

   A folder of files named <sha256>.wmm. A file is used only if its content has the hash; one that
   has not is fetched again from the broker, 4 MiB at a time, written beside it, verified, renamed.
   A lock file per model makes the workers of a machine fetch it once. Thread: the client's.  */
#ifndef WM_CACHE_H
#define WM_CACHE_H

#include "schema/wm_client.h"

#define WM_CACHE_PATH_MAX 4096

/* $XDG_CACHE_HOME/wiremill, else ~/.cache/wiremill; WM_EHOST if neither variable is set.  */
wm_fault_t wm_cache_default (char folder[WM_CACHE_PATH_MAX], wm_error_t *error);

/* Makes sure that the model is in `folder` (which is made), fetching it through the open session if
   it is not; `path` names it. WM_EAGAIN: the session ended, or a signal came; WM_EPEER: the broker
   sends another file than the hash names; WM_EHOST: this machine's disk.  */
wm_fault_t wm_cache_model (const char *folder, const char *sha256, wm_client_t *client,
                           char path[WM_CACHE_PATH_MAX], wm_error_t *error);

#endif
