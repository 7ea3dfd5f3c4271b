/* wm_failpoint.h - points at which a test kills the process.

   WM_FAILPOINT=NAME:N in the environment: the N-th pass through the point of that name is the
   process's last (SIGKILL to itself: nothing is flushed or sent). With NAME:N:FILE it dies only
   where it can create that file, so that a restarted process does not die again; where FILE ends
   with ".stop" it is stopped instead (SIGSTOP). Such points stand before and after every step that
   must be durable, or that another process learns of; tests/fault finds them in the sources by
   their name, "room-step". Without the variable a point costs a load and a branch. Thread: any.  */
#ifndef WM_FAILPOINT_H
#define WM_FAILPOINT_H

/* The name asked for; NULL: none.  */
extern const char *wm_failpoint_armed;

void wm_failpoint_pass (const char *name);

#define WM_FAILPOINT(name)                                                                         \
    do {                                                                                           \
        if (__builtin_expect (wm_failpoint_armed != 0, 0))                                         \
            wm_failpoint_pass (name);                                                              \
    } while (0)

#endif
