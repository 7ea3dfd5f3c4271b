/* wm_import_cache.h - models that this user imported before, so that the next campaign starts at
   once.

   A folder, $XDG_CACHE_HOME/wiremill/models, else ~/.cache/wiremill/models, of
     MODEL.wmm    an imported model; MODEL is the SHA-256 of what was imported
     MODEL.known  a line: which build of wiremill imported it, how the .wmm begins, its SHA-256
     file-NN.hash a line: device, inode, size, times and SHA-256 of a model's file
   Nothing in it is believed unseen: who opens a .wmm checks its content, and what belongs to
   another user, or what others may write, is not used. Nothing in it is synced: what a power
   cut damaged is made again. Whatever cannot be read or written there only costs the import.
   WM_MODEL_CACHE=off switches it off. Thread: one at a time; any number of processes.  */
#ifndef WM_IMPORT_CACHE_H
#define WM_IMPORT_CACHE_H

#include "kernels/model/wm_model.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#define WM_IMPORT_CACHE_BYTES_MAX                                                                  \
    2000000000ull /* then those that were unused longest are removed */

/* For --help of what imports.  */
#define WM_IMPORT_CACHE_HELP                                                                       \
    "\nImported models are kept for the next campaign, up to 2 GB, in\n"                           \
    "$XDG_CACHE_HOME/wiremill/models (~/.cache/wiremill/models), where only you may write;\n"      \
    "WM_MODEL_CACHE=off switches that off.\n"

typedef struct {
    char folder[PATH_MAX]; /* "": nothing is kept, and the functions below do nothing */
} wm_import_cache_t;

/* Makes the folder, for this user alone; warns if it is another's.  */
void wm_import_cache_init (wm_import_cache_t *self);

/* What identifies a file's content without reading it. false: that cannot be relied upon, since the
   file changed within the last 2 s, or lies on another machine.  */
bool wm_import_cache_is_settled (const char *path, struct stat *status);

/* Fills in the SHA-256 of a file that is unchanged since wm_import_cache_remember. false: not
   known.  */
bool wm_import_cache_recall (const wm_import_cache_t *self, const char *path, char hex[65]);

/* Remembers the SHA-256 of a file; `before`: its status before it was read.  */
void wm_import_cache_remember (const wm_import_cache_t *self, const char *path,
                               const struct stat *before, const char *hex);

/* Fills in the path of the .wmm that this build made of `model`. false: none is kept. Warns of one
   that another user made.  */
bool wm_import_cache_find (const wm_import_cache_t *self, const char *model, char path[PATH_MAX]);

/* Fills in the SHA-256 of an opened .wmm of which a copy is kept. false: not known.  */
bool wm_import_cache_sha256 (const wm_import_cache_t *self, const wm_model_t *model, char hex[65]);

/* Keeps the .wmm at `path`, opened as `model`, of SHA-256 `hex`: as a second name of the same file,
   or as a copy.  */
void wm_import_cache_add (const wm_import_cache_t *self, const char *path, const wm_model_t *model,
                          const char *hex);

/* Removes one that turned out to be damaged, and warns.  */
void wm_import_cache_remove (const wm_import_cache_t *self, const char *model);

/* Makes `to` a second name of the file `from`, replacing what is there; a copy if that cannot be or
   is not wanted. Faults as wm_file_write.  */
wm_fault_t wm_import_cache_put (const char *from, const char *to, bool copy, wm_error_t *error);

#endif
