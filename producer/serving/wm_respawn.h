/* wm_respawn.h - programs that the gateway starts and keeps running.

   A service is started again whenever it ends, after a pause that doubles from 0.1 s while it
   keeps ending within 5 s, or before it works: to 5 s where it is killed, to 60 s where it ends
   by itself (the disk is full, there is no memory). From the third such end in a row on, the
   gateway calls `ended`, so that people learn of it. One whose exit code states that its engine
   cannot run (a self-test fails, a GPU is away) reports that at once, and pauses for a second at
   least. It is not started again after the fifth such end in a row, nor is a service whose exit
   code states that the same again would fail the same way (a damaged model, a wrong key); `ended`
   has that as an argument. The kernel kills a service when the gateway ends. The gateway reads
   what a service writes to standard error, and appends it to a file where the disk takes it; the
   last line is the reason of its end. Thread: the loop's.  */
#ifndef WM_RESPAWN_H
#define WM_RESPAWN_H

#include "producer/net/wm_loop.h"
#include "schema/base/wm_fault.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#define WM_RESPAWN_WORDS_MAX 95 /* of a command line */

typedef struct wm_respawn_t wm_respawn_t;
/* is_over: it is not started again. Only then may the call destroy the service.  */
typedef void wm_respawn_ended_t (void *argument, const char *reason, bool is_over);
/* A line of its standard error, without its time.  */
typedef void wm_respawn_log_t (void *argument, const char *line);

/* Starts argv[0], a program beside this one; `what` names it for people; all words are copied.
   `ended` and `says` may be called until the service is destroyed, never before this returns.  */
wm_respawn_t *wm_respawn_new (wm_loop_t *loop, const char *what, const char *const argv[],
                              const char *log, wm_respawn_ended_t *ended, wm_respawn_log_t *says,
                              void *argument);

/* The same for a program that is to end: `ended` is called with NULL after exit code 0, and it is
   not started again then.  */
wm_respawn_t *wm_respawn_once (wm_loop_t *loop, const char *what, const char *const argv[],
                               const char *log, wm_respawn_ended_t *ended, void *argument);

/* Whether it ended last because no engine can run, or passes its self-test.  */
bool wm_respawn_lacks_engine (const wm_respawn_t *self);

/* The service has done something: if it ends later, that counts as the first end.  */
void wm_respawn_works (wm_respawn_t *self);

/* Starts it at once where it pauses; returns whether it did.  */
bool wm_respawn_now (wm_respawn_t *self);

/* Asks it to end (SIGTERM), or kills it; it is not started again.  */
void wm_respawn_stop (wm_respawn_t *self, bool kills);

/* Whether it runs, or will be started again.  */
bool wm_respawn_runs (const wm_respawn_t *self);

/* Waits at most `ms` for the end of one that was asked to. The loop need not run.  */
void wm_respawn_await (wm_respawn_t *self, int64_t ms);

/* Kills it where it still runs.  */
void wm_respawn_destroy (wm_respawn_t **self_p);

/* Waits in the loop for the end of a process, which is not reported; *self_p is NULL
   afterwards. The second kills it if it still runs.  */
typedef struct wm_reaped_t wm_reaped_t;
void wm_respawn_reap (wm_loop_t *loop, pid_t pid, wm_reaped_t **self_p);
void wm_respawn_reap_now (wm_reaped_t **self_p);

#endif
