/* wm_sidecar_queue.h - sidecars of a run, written by a process beside it.

   A sidecar's output is read twice, for its checksum and for its counts, which may take a minute
   each. So a fork writes them one after another (wm_sidecar.h) and reports each on a pipe, while
   the run goes on answering signals and asking the broker. There is one such process at a time, and
   it dies with the run. If something else ends it, another takes its place, three times without a
   sidecar in between; if one cannot be written now, it is tried three times. Thread: one.  */
#ifndef WM_SIDECAR_QUEUE_H
#define WM_SIDECAR_QUEUE_H

#include "schema/base/wm_fault.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    uint32_t input;
    char *folder; /* NULL: the run's */
    char *output; /* its name in the folder */
    const char *did;
} wm_sidecar_item_t;

typedef struct {
    const char *verb, *folder;
    json_t *metadata; /* more keys for each; may be NULL */
    wm_sidecar_item_t *item;
    size_t n, room, n_done, n_given; /* n_given: of items that the process has or had */
    pid_t pid;                       /* 0: no process runs */
    int from, deaths;
} wm_sidecar_queue_t;

/* Notes the output of an input, in `folder` (NULL: the run's). `did` is lent for as long as the
   queue exists.  */
void wm_sidecar_queue_add (wm_sidecar_queue_t *self, uint32_t input, const char *folder,
                           const char *output, const char *did);

/* Calls `done` for each sidecar that is written since the last call, or could not be (fault is not
   WM_OK), and starts a process for those that were added. Returns how many are not done yet.  */
size_t wm_sidecar_queue_step (wm_sidecar_queue_t *self,
                              void (*done) (void *argument, const wm_sidecar_item_t *item,
                                            const wm_error_t *error),
                              void *argument);

/* Ends the process and forgets what is not done: a later run writes those sidecars.  */
void wm_sidecar_queue_stop (wm_sidecar_queue_t *self);

#endif
