/* wm_stage.h - copies remote inputs to this machine, ahead of the process that reads them, and
   outputs from here to a server.

   `wiremill-producer produce` with a URL among its inputs or for its outputs becomes two processes:

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
   it still has the size and checksum in its name, and the server's file has them too. The folder
   `out` has outputs that are written and not yet copied (wm_stage_store.h). What stagers left that
   no other one follows goes, too (wm_stage_dead.h).  */
#ifndef WM_STAGE_H
#define WM_STAGE_H

#include "schema/base/wm_fault.h"
#include "schema/wm_limits.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define WM_STAGE_AHEAD_MAX 64u
#define WM_STAGE_OUT "out" /* in the stager's folder: outputs on their way */

typedef enum {
    WM_STAGE_WANT = 1,   /* reader: stage this line */
    WM_STAGE_DROP = 2,   /* reader: it is not wanted any more, staged or not */
    WM_STAGE_READY = 3,  /* stager: text is its path here, size and adler its identity */
    WM_STAGE_FAILED = 4, /* stager: text explains why it cannot be staged, or its output stored */
    /* outputs; text is the name in their folders */
    WM_STAGE_LOOK = 5,   /* reader: fetch what has this name there; how not PLAIN: its size only */
    WM_STAGE_THERE = 6,  /* stager: text is its path here, "" if it is not there; size and adler */
    WM_STAGE_STORE = 7,  /* reader: copy it there; size and adler of what THERE showed */
    WM_STAGE_STORED = 8, /* stager: it is there, whole; size and adler its identity */
    WM_STAGE_FORGET = 9, /* reader: stop that */
    WM_STAGE_REFUSED = 10, /* stager: text explains why it can never be stored */
    WM_STAGE_TROUBLE = 11, /* stager: text explains why none can be stored now; "": it can again */
    WM_STAGE_GONE = 12,    /* stager: what was to be stored is no longer here: write it again */
    WM_STAGE_MOVE = 13,    /* reader: rename what has this name there NAME.changed-N */
    WM_STAGE_MOVED = 14,   /* stager: text is what it is called now, "" where it was gone */
    WM_STAGE_SIDECAR = 15, /* reader: this one has no sidecar there: fetch it, then store one */
    WM_STAGE_FETCHED = 16, /* stager: its copy is here, for the sidecar; STORED or GONE follows */
    WM_STAGE_WAITS = 18,   /* stager: how is a wm_wait_t, what the copying of inputs waits for */
    WM_STAGE_DENIED = 17,  /* stager: text explains what the server refuses, for good */
} wm_stage_kind_t;

/* What STORE does where a file has the name already.  */
typedef enum {
    WM_STAGE_PLAIN,   /* shows it to the reader, unless it is the same */
    WM_STAGE_REPLACE, /* removes it: this campaign wrote it */
} wm_stage_how_t;

typedef struct {
    uint32_t kind, line; /* line: of the list of inputs, from 0 */
    uint32_t adler, how; /* how: wm_stage_how_t, of WAITS wm_wait_t */
    uint64_t size;
    char text[1024];
} wm_stage_msg_t;

/* A file that the server listed.  */
typedef struct {
    const char *name;
    uint64_t size;
} wm_stage_there_t;

typedef struct {
    const char *scratch;
    uint64_t bytes_max;
    char **line; /* as they were given; the reader's copies lose their credentials */
    uint32_t n_line;
    const char *store; /* root:// folder for outputs; NULL: they stay here */
    bool sidecars;     /* a process writes NAME.json beside each output NAME here: it goes there */
} wm_stage_options_t;

/* What the reader gets.  */
typedef struct {
    int fd;                        /* its end of the socket; -1: there is no stager */
    char folder[PATH_MAX];         /* where staged files will lie */
    const wm_stage_there_t *there; /* (n_there) in the outputs' folder, in the order of names */
    uint32_t n_there;
    bool is_away; /* in the stager: the outputs' server does not answer, nothing was begun */
} wm_stage_reader_t;

/* Forks, where a line is a URL or outputs are stored. Returns -1 in the reader, and where nothing
   lies elsewhere in the only process. In the stager returns an exit code when the reader has ended,
   WM_EXIT_AGAIN if the outputs' server does not answer; it prints errors.  */
int wm_stage_split (const wm_stage_options_t *options, wm_stage_reader_t *reader);

#endif
