/* wm_stage_private.h - what wm_stage.c (which file when, checks, removal) and wm_stage_tool.c (the
   programs that copy: their arguments, limits and last words) share.  */
#ifndef WM_STAGE_PRIVATE_H
#define WM_STAGE_PRIVATE_H

#include "producer/wm_stage.h"
#include "schema/base/wm_url.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* One try of one step: a program that runs.  */
typedef struct {
    pid_t pid; /* 0: none */
    int said;  /* memory file with what it prints */
    int64_t began_ms, grew_ms;
    uint64_t seen; /* bytes of the file when it grew last */
    bool stalled;  /* it was ended because the file did not grow */
    char part[PATH_MAX], head[PATH_MAX], fresh[PATH_MAX]; /* fresh: head of a try that resumes */
    bool resumes;
} wm_tool_t;

typedef enum {
    WM_TOOL_DONE,
    WM_TOOL_AGAIN,   /* may help later */
    WM_TOOL_RESTART, /* what is there of the file is of no use: it changed */
    WM_TOOL_FINAL,   /* the server says no */
} wm_tool_end_t;

/* Starts the program that asks for the size (root:// only) or that copies. -1: cannot start, errno.
 */
int wm_tool_stat (wm_tool_t *self, const char *url);
int wm_tool_copy (wm_tool_t *self, const char *url);

/* Whether it has ended; ends one that is over its limits. size: of the file, or UINT64_MAX.  */
bool wm_tool_ended (wm_tool_t *self, uint64_t size, int *status);
void wm_tool_kill (wm_tool_t *self);

/* What became of it, from its status and what it said. *size, *adler (-1: not said): what the
   server says of the file; text: one line for people, without credentials.  */
wm_tool_end_t wm_tool_stat_result (wm_tool_t *self, int status, uint64_t *size, char text[400]);
wm_tool_end_t wm_tool_copy_result (wm_tool_t *self, const char *url, int status, uint64_t *size,
                                   int64_t *adler, char text[400]);

#endif
