/* wm_folder.h - the folders that `wiremill` and its programs make for each other.

   Where a campaign may lie is something that the command and the broker must agree on.
   Thread: any.  */
#ifndef WM_FOLDER_H
#define WM_FOLDER_H

#include "schema/base/wm_fault.h"

#include <sys/types.h>

/* mkdir -p; a folder that is there keeps its mode. The names are on disk then: the parents of what
   it made, and that of `path`, are synced. WM_EAGAIN: the disk is full; WM_EHOST names the part of
   the path that cannot be made or synced, or is no folder.  */
wm_fault_t wm_folder_make (const char *path, mode_t mode, wm_error_t *error);

/* fsync of a folder: names made, renamed or removed in it are on disk then. -1 and errno.  */
int wm_folder_sync (const char *path);

/* The same for the folder that holds `path`. A folder that may not be read, and a file system
   without fsync of folders, are passed over: only a failed write is -1 and errno.  */
int wm_folder_sync_parent (const char *path);

/* Name of the network file system that holds `path`: locks and fsync are promises of somebody else
   there. NULL: a local one, or unknown.  */
const char *wm_folder_network (const char *path);

#endif
