/* wm_fault.h - fault classes, their texts, and exit codes.

   A fault's class states who must act, because the decision to retry needs exactly that. The text
   is written once, where the fault is known, and is meant for a person: what, where, why, what
   next. Thread: any; a wm_error_t belongs to its caller.  */
#ifndef WM_FAULT_H
#define WM_FAULT_H

#include <stdbool.h>

typedef enum {
    WM_OK = 0,
    WM_EAGAIN = 1, /* no one's: try later (disk full, no memory for a batch, broker away) */
    WM_EPEER = 2,  /* the peer broke the protocol: drop it */
    WM_EBATCH = 3, /* this input is bad: never retry */
    WM_EHOST = 4,  /* this machine is bad: retry elsewhere */
    WM_EUSAGE = 5, /* the command is wrong, such as the name of a file; never between processes */
    WM_EKEY = 6,   /* the broker refused this process's key: a person must give another */
} wm_fault_t;

typedef struct {
    wm_fault_t fault;
    char text[480];
} wm_error_t;

/* Exit codes of every program.  */
enum {
    WM_EXIT_OK = 0,          /* all done */
    WM_EXIT_FAILURE = 1,     /* anything not below */
    WM_EXIT_USAGE = 2,       /* the command line; a file on it that does not exist */
    WM_EXIT_HELD = 3,        /* finished, some events or hits are held */
    WM_EXIT_UNREACHABLE = 4, /* no broker */
    WM_EXIT_INPUT = 5,       /* bad model, input, specification or campaign folder */
    WM_EXIT_ENGINE = 6,      /* the engine asked for cannot run on this machine */
    WM_EXIT_REFUSED = 7,     /* the broker refused this process's key */
    WM_EXIT_AGAIN = 75,      /* try again later; also: drained by a signal */
};

/* Returns the exit code of a command that ended with this fault.  */
int wm_exit_of (wm_fault_t fault);

/* Whether a program that ended with this code would end so again, on any machine: its command line,
   its input or its key was refused. WM_EXIT_ENGINE is so on this machine only.  */
bool wm_exit_is_final (int code);

/* Explains an exit code in a few words ("no broker answers"); NULL for one that no program of ours
   has.  */
const char *wm_exit_meaning (int code);

/* Fills *error (may be NULL) and returns `fault`, so that `return wm_fault (...)` reads well.  */
wm_fault_t wm_fault (wm_error_t *error, wm_fault_t fault, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));

#endif
