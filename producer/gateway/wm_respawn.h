/* wm_respawn.h - programs that the gateway starts and keeps running.

   A service is started again whenever it ends: at once, and with a pause that doubles from 0.1 s to
   5 s while it keeps ending within 5 s. One whose exit code states that the same again would fail
   the same way is not: `ended` is called. It dies with the gateway. What it prints goes to a file;
   of the last line the gateway makes the reason. Thread: the loop's.  */
#ifndef WM_RESPAWN_H
#define WM_RESPAWN_H

#include "producer/gateway/wm_loop.h"
#include "schema/base/wm_fault.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct wm_respawn_t wm_respawn_t;
typedef void wm_respawn_ended_t (void *argument, const char *reason);

/* Names the program `name` beside this one.  */
void wm_respawn_beside (char path[PATH_MAX], const char *name);

/* Starts argv[0], a program beside this one; `what` names it for people; all words are copied.
   `ended` may be called until the service is destroyed, never before this returns; it may destroy
   the service.  */
wm_respawn_t *wm_respawn_new (wm_loop_t *loop, const char *what, const char *const argv[],
                              const char *log, wm_respawn_ended_t *ended, void *argument);

/* The same for a program that is to end: `ended` is called with NULL after exit code 0, else with
   the reason; it is not started again.  */
wm_respawn_t *wm_respawn_once (wm_loop_t *loop, const char *what, const char *const argv[],
                               const char *log, wm_respawn_ended_t *ended, void *argument);

/* Asks it to end (SIGTERM), or kills it; it is not started again.  */
void wm_respawn_stop (wm_respawn_t *self, bool kills);

/* Whether it runs, or will be started again.  */
bool wm_respawn_runs (const wm_respawn_t *self);

/* Waits at most `ms` for the end of one that was asked to. The loop need not run.  */
void wm_respawn_await (wm_respawn_t *self, int64_t ms);

/* Kills it where it still runs.  */
void wm_respawn_destroy (wm_respawn_t **self_p);

/* Waits in the loop for the end of a process that nobody needs to know of.  */
void wm_respawn_reap (wm_loop_t *loop, pid_t pid);

#endif
