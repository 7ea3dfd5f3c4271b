/* wm_notify.h - runs a command of the operator when the campaign is done, when something is held,
   and when the broker hands out nothing any more.

   Events, each at most once in again_ms, but all that are due when the broker stops:

     done    every input is written or held, and no producer is connected; again only after an
             input was open
     held    more hits and inputs are held than when its command ran last
     pause   a wait that is a pause (schema/wm_wait.h): an operator or the circuit breaker paused
             the campaign, its workers are drained, or a disk is full, also that of one producer
             of several. Once for each such wait, again only after that ended, and at most once in
             again_ms. No command runs for a pause that ended before its turn came

   Once the command of an event has ended, also if it failed, the broker records the event (TOLD).
   So it does not run the command for a campaign again that was done before; and a broker that is
   killed between the event and that record runs it again when it is started: at least once.

   A command is `sh -c COMMAND` in a session of its own, one at a time: standard input is
   /dev/null, the first WM_NOTIFY_OUTPUT_BYTES of what it prints go to the broker's log, it inherits
   no descriptor and no credentials (wm_process_drop_credentials). The facts are in its environment,
   WIREMILL_...: text of peers is never a part of the command line, is never the whole of a
   variable, and has no control characters. It is killed with its process group after limit_ms, and
   dies with the broker. How it failed is one line of the log and changes nothing else.
   Thread: one, which must live as long as the process (the command dies with it).  */
#ifndef WM_NOTIFY_H
#define WM_NOTIFY_H

#include "broker/core/wm_core.h"

#include <signal.h>

enum { WM_NOTIFY_PAUSE, WM_NOTIFY_HELD, WM_NOTIFY_DONE };
#define WM_NOTIFY_EVENTS 3 /* in the order of their commands */
#define WM_NOTIFY_LIMIT_MS 30000
#define WM_NOTIFY_AGAIN_MS 300000
#define WM_NOTIFY_OUTPUT_BYTES 65536 /* of one command */

typedef struct {
    const char *dir;                       /* the campaign's */
    const char *output;                    /* the outputs' folder or URL, "" if it has none */
    const char *command[WM_NOTIFY_EVENTS]; /* NULL, "": none for this event */
    /* Keeps TOLD, which is lent; false: it cannot be kept yet.  */
    bool (*keep) (const wm_record_t *told);
    int64_t limit_ms, again_ms;
} wm_notify_config_t;

typedef struct wm_notify_t wm_notify_t;

/* `config` is copied, its texts are lent for life. NULL: there is no
   command, or no memory (which is logged); the others accept that.  */
wm_notify_t *wm_notify_new (const wm_notify_config_t *config);

/* Takes what an earlier broker has told (TOLD).  */
void wm_notify_restore (wm_notify_t *self, const wm_record_t *record);

/* Kills a command that runs; the next broker runs it again.  */
void wm_notify_destroy (wm_notify_t **self_p);

/* Looks at the campaign, at each tick: ends, notes and starts commands. Never waits for one.  */
void wm_notify_turn (wm_notify_t *self, const wm_brief_t *brief, int64_t now_ms);

/* The broker stops: waits for the command that runs, and runs those that are due, for limit_ms at
   most and until *signals is 2 (a second signal came). brief NULL: no further command runs.  */
void wm_notify_stop (wm_notify_t *self, const wm_brief_t *brief,
                     const volatile sig_atomic_t *signals);

#endif
