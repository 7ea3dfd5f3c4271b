/* wm_cache.h - the models that a worker has fetched, by hash.

   A folder of files named <sha256>.wmm. A worker uses a file only if its content has the hash; else
   it fetches the model from the broker, 4 MiB at a time, writes it beside, verifies and renames it.
   With a lock file per model the workers of a machine fetch it once. Thread: the client's.  */
#ifndef WM_CACHE_H
#define WM_CACHE_H

#include "schema/session/wm_client.h"

#define WM_CACHE_PATH_MAX 4096

/* Fills in $XDG_CACHE_HOME/wiremill, else ~/.cache/wiremill; WM_EHOST if neither variable is
   set.  */
wm_fault_t wm_cache_default (char folder[WM_CACHE_PATH_MAX], wm_error_t *error);

/* Checks a model in `folder` before its broker is reached: wm_cache_model then need not read the
   same file once more. was: one (wm_file_stamp) of the file when its content had the hash, or
   NULL: while it is its own, the file is not read. Called before there are threads.  */
void wm_cache_check (const char *folder, const char *sha256, const char *was);

/* Makes sure that the model is in `folder`, which it creates, and fetches it through the open
   session if needed; `path` names the file. WM_EAGAIN: the session ended, or a signal came;
   WM_EPEER: the broker sends another file than the hash names; WM_EHOST: this machine's disk.  */
wm_fault_t wm_cache_model (const char *folder, const char *sha256, wm_client_t *client,
                           char path[WM_CACHE_PATH_MAX], wm_error_t *error);

#endif
