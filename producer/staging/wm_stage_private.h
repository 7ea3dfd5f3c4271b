/* wm_stage_private.h - what wm_stage.c (which file when, checks, removal) and wm_stage_tool.c (the
   programs that copy: their arguments, limits and last words) share with wm_stage_store.c.  */
#ifndef WM_STAGE_PRIVATE_H
#define WM_STAGE_PRIVATE_H

#include "producer/staging/wm_stage.h"
#include "schema/base/wm_adler.h"
#include "schema/base/wm_restart.h"
#include "schema/base/wm_url.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* One try of one step: a program that runs.  */
typedef struct {
    pid_t pid; /* 0: none */
    int said;  /* memory file with what it prints */
    int64_t began_ms, grew_ms;
    uint64_t seen; /* bytes of the file when it grew last, or that were read of one that is sent */
    bool sends;    /* a file of here is copied elsewhere */
    bool stalled;  /* it was ended because no bytes came or went */
    char part[PATH_MAX], head[PATH_MAX], fresh[PATH_MAX]; /* fresh: head of a try that resumes */
    bool resumes;
} wm_tool_t;

typedef enum {
    WM_TOOL_DONE,
    WM_TOOL_AGAIN,   /* may help later */
    WM_TOOL_RESTART, /* what is there of the file is of no use: it changed */
    WM_TOOL_FINAL,   /* the server says no */
} wm_tool_end_t;

/* Start a program. -1: cannot start, errno.
   wm_tool_fs    xrdfs on the server of a root:// URL: `command`, `option`, the URL's path, and
                 `to`, another path there (option and to may be NULL)
   wm_tool_head  curl asks an HTTP server about the file
   wm_tool_copy  copies the file to self->part
   wm_tool_send  copies `file`, which has this checksum, to a root:// URL, and lets the server
                 confirm the checksum  */
int wm_tool_fs (wm_tool_t *self, const char *url, const char *command, const char *option,
                const char *to);
int wm_tool_head (wm_tool_t *self, const char *url);
int wm_tool_copy (wm_tool_t *self, const char *url);
int wm_tool_send (wm_tool_t *self, const char *file, uint32_t adler, const char *url);

/* Whether it has ended; ends one that is over its limits. size: of the file, or UINT64_MAX.  */
bool wm_tool_ended (wm_tool_t *self, uint64_t size, int *status);
void wm_tool_kill (wm_tool_t *self);

/* What became of it, from its status and what it said. *size, *adler (-1: not said): what the
   server says of the file; text: one line for people, without credentials. Of xrdfs: stat, query
   checksum (a server that has none: WM_TOOL_DONE and -1), any other command.  */
wm_tool_end_t wm_tool_stat_result (wm_tool_t *self, int status, uint64_t *size, char text[400]);
wm_tool_end_t wm_tool_sum_result (wm_tool_t *self, int status, int64_t *adler, char text[400]);
wm_tool_end_t wm_tool_fs_result (wm_tool_t *self, int status, char text[400]);
wm_tool_end_t wm_tool_copy_result (wm_tool_t *self, const char *url, int status, uint64_t *size,
                                   int64_t *adler, char text[400]);
/* WM_TOOL_RESTART: the server does not answer such a question.  */
wm_tool_end_t wm_tool_head_result (wm_tool_t *self, int status, uint64_t *size, int64_t *adler,
                                   char text[400]);
/* WM_TOOL_FINAL only where the program is missing: everything else may be put right there.  */
wm_tool_end_t wm_tool_send_result (wm_tool_t *self, int status, char text[400]);

/* Whether `text` of a result has the server's word that there is no such file.  */
bool wm_tool_is_missing (const char *text);

/* Whether `text` of a result has the server's word that it will not do this for us: it forbids it,
   it does not believe our credentials, it cannot do it, or a folder has the name. A full disk, a
   quota and a server in trouble pass.  */
bool wm_tool_is_refused (const char *text);

/* All that it printed, the caller's; closes the memory file, in place of one of the functions
   above. NULL: no memory.  */
char *wm_tool_said (wm_tool_t *self);

/* The path of a root:// URL on its server, in the form in which the server lists it.  */
bool wm_tool_path (const char *url, char path[PATH_MAX]);

/* adler32 and size of a file here. false: it cannot be read.  */
static inline bool wm_stage_adler (const char *path, uint32_t *adler, uint64_t *size)
{
    struct stat st;
    errno = wm_adler_file (path, adler, &st);
    *size = errno ? 0 : (uint64_t) st.st_size;
    return !errno;
}

#endif
