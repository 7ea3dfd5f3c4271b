/* wm_spawn.h - a program of ours as a part of a pipe: started, and how it ended.

   It has its own session, so that a Ctrl-C reaches only this program, and dies with it. It
   inherits as a wm_process_t does. Thread: one.  */
#ifndef WM_SPAWN_H
#define WM_SPAWN_H

#include <sys/types.h>

/* Starts argv[0], which lies beside this program, with these as standard input and output. Returns
   -1 after an error, printed as `verb`'s.  */
pid_t wm_spawn (const char *verb, const char *const argv[], int in, int out);

/* The same, with a pipe as its standard output, whose reading end is *fd.  */
pid_t wm_spawn_reader (const char *verb, const char *const argv[], int *fd);

/* Waits for the exit code of `program`; WM_EXIT_FAILURE for an invalid pid and for a signal, which
   is printed as `verb`'s, but WM_EXIT_OK for a writer whose reader has ended (SIGPIPE).  */
int wm_spawn_code (const char *verb, const char *program, pid_t pid);

#endif
