/* wm_spawn.h - a program of ours as a part of a pipe: started, and how it ended.

   It has its own session, so that a Ctrl-C reaches only this program, and dies with it. What should
   not reach it is open with O_CLOEXEC. Thread: one.  */
#ifndef WM_SPAWN_H
#define WM_SPAWN_H

#include <sys/types.h>

/* Starts argv[0], which lies beside this program, with these as standard input and output. Returns
   -1 after an error, printed as `verb`'s.  */
pid_t wm_spawn (const char *verb, const char *const argv[], int in, int out);

/* Waits for the exit code of `program`; WM_EXIT_FAILURE for an invalid pid and for a signal, which
   is printed as `verb`'s, but WM_EXIT_OK for a writer whose reader has ended (SIGPIPE).  */
int wm_spawn_code (const char *verb, const char *program, pid_t pid);

#endif
