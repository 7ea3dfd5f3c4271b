/* wm_folder.h - the folders that `wiremill` and its programs make for each other.

   Where a campaign lies is something that the command and the broker must agree on. Defined in
   wm_file.c (making, syncing, removing) and wm_folder_campaign.c (which campaign).
   Thread: any.  */
#ifndef WM_FOLDER_H
#define WM_FOLDER_H

#include "schema/base/wm_fault.h"

#include <limits.h>
#include <stdbool.h>
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

/* Name of the network file system that holds `path`: locks and fsync are promises of a server
   there. NULL: a local one, or unknown.  */
const char *wm_folder_network (const char *path);

/* Makes a folder of this process's own, NAME-XXXXXX, in `place` or with NULL in TMPDIR, else /tmp.
   WM_EAGAIN: the disk is full; WM_EHOST: it cannot be made. Both have advice; *folder is "".  */
wm_fault_t wm_folder_temporary (char folder[PATH_MAX], const char *place, const char *name,
                                wm_error_t *error);

/* Removes a folder with all that is in it. False: something of it is left.  */
bool wm_folder_remove (const char *path);

/* ---- the campaign of an output folder -------------------------------------------------------- */

/* Returns whether there is a campaign: a journal or a ledger, since one of them may be lost.  */
bool wm_folder_has_campaign (const char *folder);

/* Returns whether an existing file is one of a campaign's own, which no other program replaces: it
   is in the campaign's folder, or in one of the folders there (journal, keys, log, models), or is
   one of its outputs, NAME.scores.h5. Fills in the campaign's folder.  */
bool wm_folder_is_of_campaign (const char *file, char campaign[PATH_MAX]);

/* Names the folder of a new campaign of this output folder, OUTPUT.wiremill by its real path (of a
   URL .../NAME: NAME.wiremill in the current folder), or of the one that is there (also in
   OUTPUT/.wiremill, where earlier versions had it). Makes nothing.
   WM_EUSAGE: the output folder is the top of a file system, so that nothing lies beside it.  */
wm_fault_t wm_folder_campaign (const char *output, char campaign[PATH_MAX], wm_error_t *error);

/* Finds the campaign that `folder` stands for: that of this output folder, which need not be there
   any more, or the one in it. false: no campaign is found, and `campaign` is "".  */
bool wm_folder_find (const char *folder, char campaign[PATH_MAX]);

/* WM_EBATCH: the folder of a campaign is there, and this user may not read it.  */
wm_fault_t wm_folder_readable (const char *campaign, wm_error_t *error);

/* Names the output folder of a campaign by its name alone: "/out" of "/out.wiremill" and of
   "/out/.wiremill"; of any other name the folder itself.  */
void wm_folder_output (const char *campaign, char output[PATH_MAX]);

/* Returns whether the real path `inner` is `outer` or lies in it.  */
bool wm_folder_is_in (const char *inner, const char *outer);

#endif
