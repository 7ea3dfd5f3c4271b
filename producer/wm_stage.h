/* wm_stage.h - copies inputs that lie elsewhere to this machine, ahead of the process that reads
   them.

   `wiremill-producer produce` with a URL among its inputs becomes two processes:

     stager   the one that was started. Never reads an event file; starts xrdfs and xrdcp (root://)
              or curl (http, https) for one file each, checks what they copied, removes it when it
              is no longer wanted. It ends as the reader ends, so that who watches it sees that.
     reader   its fork, which goes on as a producer does: confined, without credentials.

   They send each other wm_stage_msg_t over a socket. What comes from the reader is checked: a file
   may have taken it over.

   In --scratch each stager locks a folder of its own, 1, 2, ... There HASH.part is a file on its
   way (HASH: XXH3 of the URL), HASH.head an HTTP server's answer about it, and
   HASH-ADLER32-SIZE-NAME a whole one: it got this name when its size was the server's and the
   checksum was checked. A killed stager's files are found by the next one; a whole file is taken if
   it still has the size and checksum in its name.  */
#ifndef WM_STAGE_H
#define WM_STAGE_H

#include "schema/base/wm_fault.h"

#include <limits.h>
#include <stdint.h>

#define WM_STAGE_AHEAD 4u
#define WM_STAGE_AHEAD_MAX 64u
#define WM_STAGE_BYTES (20ull << 30)

typedef enum {
    WM_STAGE_WANT = 1,   /* reader: stage this line */
    WM_STAGE_DROP = 2,   /* reader: it is not wanted any more, staged or not */
    WM_STAGE_READY = 3,  /* stager: text is its path here, size and adler its identity */
    WM_STAGE_FAILED = 4, /* stager: text explains why it cannot be staged */
} wm_stage_kind_t;

typedef struct {
    uint32_t kind, line; /* line: of the list of inputs, from 0 */
    uint32_t adler, unused;
    uint64_t size;
    char text[1024];
} wm_stage_msg_t;

typedef struct {
    const char *scratch;
    uint64_t bytes_max;
    char **line; /* as they were given; the reader's copies lose their credentials */
    uint32_t n_line;
} wm_stage_options_t;

/* Forks, where a line is a URL. Returns -1 in the reader: *fd is its end of the socket and `folder`
   where staged files will lie; without a URL there is one process and *fd is -1. In the stager
   returns an exit code when the reader has ended; it prints errors.  */
int wm_stage_split (const wm_stage_options_t *options, int *fd, char folder[PATH_MAX]);

#endif
