/* wm_file_opener.h - opens a few files for a process that has given up the folders they are in.

   endpoint.json and join files are replaced by others while a process runs, so that a confined
   process (wm_confine.h) would need the whole of their folder, which has a campaign's keys too. The
   courier is a process of its own, forked before that. It knows their paths, opens one to read when
   it is asked for it by number, and passes the descriptor on; nothing else can be had from it.

   Whatever kills one process (a kill -9, the kernel if memory ran out) kills no
   question: beside the courier waits a spare, which takes its place when it is killed and answers
   what it has not answered. Either has the other replaced, any number of times, by a process that
   is not confined. Where both are killed at once, the process that they serve prints that and ends
   by SIGKILL, which `wiremill run` and `wiremill produce` answer as if it had been killed itself.
   Courier and spare end with the process that they serve.

   Thread: wm_file_opener_start before there is another thread, once; the rest any.  */
#ifndef WM_FILE_OPENER_H
#define WM_FILE_OPENER_H

#include "schema/base/wm_fault.h"

#include <stddef.h>
#include <stdint.h>

#define WM_FILE_OPENER_FILES_MAX 20
#define WM_FILE_OPENER_NAME "wm-courier" /* in /proc/PID/comm */
#define WM_FILE_OPENER_SPARE "wm-spare"

/* Forks the courier for these files (lent to the end of the process).  */
wm_fault_t wm_file_opener_start (const char *const *path, size_t n, int64_t patience_ms,
                                 wm_error_t *error);

/* Opens a file to read, by the courier where it has it. As open(2), but ends this process where
   courier and spare are gone, and fails with ETIMEDOUT where the courier does not answer within
   patience_ms: it is stopped, or its file system hangs.  */
int wm_file_opener_open (const char *path, int flags);

#endif
