/* wm_child.h - a program that `run` started and watches.

   Each child has its own session, so that a Ctrl-C on the terminal reaches only `run`, and dies
   with `run` (parent-death signal, set before exec; the programs' --parent chooses which signal).
   What it prints goes to a log file that outlives everybody; `run` reads the file's tail when the
   child ends. Where the disk of that file is full when the child starts, the child writes where
   `run` does. Thread: one.  */
#ifndef WM_CHILD_H
#define WM_CHILD_H

#include "schema/base/wm_fault.h"
#include "schema/base/wm_restart.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct {
    char name[24]; /* "broker", "worker-1": also of its log */
    char log[PATH_MAX];
    pid_t pid;            /* 0: not running */
    wm_restart_t restart; /* in ms */
    FILE *reader;         /* of the log; it works also where the folder was removed; NULL */
    long began;           /* how long it was when the child was started */
    long shown;           /* how much of it has been shown */
    char said[320];       /* the last line that was shown, without time and name; "": none */
    int status;           /* of the last exit, as waitpid gave it */
    cpu_set_t cpus;       /* it may use these only; none: all that we may */
    int keep;             /* a descriptor that it inherits; 0: none */
} wm_child_t;

/* Names the child and its log FOLDER/<name>.log; without a folder it writes where we do.  */
wm_fault_t wm_child_init (wm_child_t *self, const char *name, const char *folder,
                          wm_error_t *error);

/* Gives it the i-th of n equal shares of the CPUs that we may use, so that pinned threads of
   several children do not meet on one. With fewer CPUs than children nothing is shared out.  */
void wm_child_share (wm_child_t *self, int i, int n);

/* Starts `program` (beside this one) with the NULL-terminated argv.  */
wm_fault_t wm_child_start (wm_child_t *self, const char *program, const char *const argv[],
                           wm_error_t *error);

/* Returns whether it has ended since the last call: pid is 0 and status is set.  */
bool wm_child_ended (wm_child_t *self);

/* Sends a signal if it runs.  */
void wm_child_signal (const wm_child_t *self, int signal);

/* Names how a process ended, from what waitpid gave: "signal 11 (SIGSEGV: Segmentation fault)" or
   "exit code 4 (no broker answers)".  */
#define WM_CHILD_HOW_BYTES 120
const char *wm_child_how_ended (int status, char text[WM_CHILD_HOW_BYTES]);
const char *wm_child_how (const wm_child_t *self, char text[WM_CHILD_HOW_BYTES]);

/* Whether it ended by a signal that a bad file can cause (SEGV, ABRT, BUS, FPE, ILL, SYS).  */
bool wm_child_crashed (const wm_child_t *self);

/* Plans the return of a child that has failed: after a pause that doubles from 0.2 s to 10 s while
   it keeps ending within 10 s, or before it has worked. false: it did five times in a row; the
   caller decides.  */
bool wm_child_plan_return (wm_child_t *self, bool has_worked);

/* Returns whether a line of its log, since it was started, contains `text`.  */
bool wm_child_log_contains (const wm_child_t *self, const char *text);

/* Copies what is new in the log to `out`, after how many lines were left out: the last 20 at most
   of those that contain `with` ("": all). A line that has no end yet is left for the next call,
   unless the child has ended.  */
void wm_child_show (wm_child_t *self, const char *with, FILE *out);

/* Returns whether the child has logged anything that was shown.  */
bool wm_child_has_logged (const wm_child_t *self);

#endif
