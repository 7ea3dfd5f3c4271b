/* wm_stage_dead.h - removes what killed stagers left that no other one follows (wm_stage.h).

   Here: each stager holds the lock of its folder in --scratch as long as it lives. In a folder that
   is not locked outputs on their way go, which are made again from the broker's results, and
   copies of inputs that are older than a day; younger ones are for the same command.
   On the server: partial files, NAME.HASH.part. They go where HASH is of such a folder here, or
   where they are older than three days: a stager ends each copy after four hours. A partial file
   of a stager that lives is younger, and of another HASH; if one were removed all the same, it
   would be copied once more.  */
#ifndef WM_STAGE_DEAD_H
#define WM_STAGE_DEAD_H

#include "producer/staging/wm_stage_private.h"

#include <stdbool.h>
#include <stdint.h>

#define WM_DEAD_HASHES_MAX 64u
#define WM_DEAD_NAMES_MAX 64u /* for one stager; the next one removes others */

typedef struct {
    uint32_t hash[WM_DEAD_HASHES_MAX];
    uint32_t n_hash;
    char name[WM_DEAD_NAMES_MAX][340]; /* on the server */
    uint32_t n_name;
    wm_tool_t tool; /* removes the last of them */
} wm_dead_t;

/* What a stager with this folder has in the names of its partial files on servers.  */
uint32_t wm_dead_hash (const char *folder);

/* Empties folders in `scratch` that are not locked; `own` is the caller's, in it. Begins *self,
   with the hashes of those.  */
void wm_dead_slots (wm_dead_t *self, const char *scratch, const char *own);

/* The server lists a file, changed at this time (seconds since 1970; -1: unknown).  */
void wm_dead_listed (wm_dead_t *self, const char *name, int64_t changed_s);

/* Goes on with removing files in the folder `url`; one that cannot be removed stays. Returns
   whether there are more.  */
bool wm_dead_remove_some (wm_dead_t *self, const char *url);

#endif
