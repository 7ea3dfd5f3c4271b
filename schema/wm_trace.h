/* wm_trace.h - timestamps of each batch's steps, for `wiremill bench`.

   WM_TRACE=FOLDER in the environment: each process writes FOLDER/<program>-<pid>, a line for each
   message of a session and for each step of a worker with a batch:
     NS WHAT INPUT ORDINAL BATCH AMOUNT     CLOCK_MONOTONIC, the same for all processes of a machine
   and, when it ends by itself, two last lines, "NS cpu 0 0 0 NS" with the CPU time that it used and
   "NS memory 0 0 0 BYTES" with the largest resident memory; an engine process before them "busy"
   and "idle", NS of its threads (wm_device_busy). Without the variable a step costs a load and a
   branch. Thread: any.  */
#ifndef WM_TRACE_H
#define WM_TRACE_H

#include "schema/wm_batch.h"

#include <stdio.h>

/* The open file; NULL: no trace.  */
extern FILE *wm_trace_file;

int64_t wm_trace_now_ns (void);
void wm_trace_write (int64_t ns, const char *what, const wm_key_t *key, int64_t amount);

/* What happened just now; the amount is its nanoseconds, or its bytes.  */
#define WM_TRACE(what, key, amount)                                                                \
    do {                                                                                           \
        if (__builtin_expect (wm_trace_file != 0, 0))                                              \
            wm_trace_write (wm_trace_now_ns (), what, key, amount);                                \
    } while (0)

#endif
