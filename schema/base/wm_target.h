/* wm_target.h - the one rule for a file that a command line names to be written (a target).

   A target is never an input of the same command, nor another target of it, and its name ends in no
   format but those that the verb writes: "report.pdf" would be HTML. What lies there already
   is replaced only if it is empty or of the kind that the verb writes, or by --force, which spares
   what is a campaign's. It is written beside its name and renamed (wm_file.h). Options state what
   they name (wm_option.h), and parsing applies the rule to all of them before a verb begins.
   Thread: any.  */
#ifndef WM_TARGET_H
#define WM_TARGET_H

#include "schema/base/wm_fault.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

/* What a verb writes: texts for people, and how an earlier file of the kind is recognised. A file
   that is not recognised needs --force, so a kind is rather too narrow than too wide.  */
typedef struct {
    const char *name;          /* "page of wiremill report" */
    const char *const *begins; /* as what such a file begins; NULL at the end. NULL: any */
    bool (*is) (const char *begin, size_t bytes); /* ... and what its first 64 KiB must be; NULL:
                                                     anything, but without `begins` nothing is */
    const char *ends; /* ".svg or .html": endings of what is written, the usual one first. Those of
                         other formats are refused, unknown ones are not. NULL: any */
    bool streams;      /* stdout (-), a pipe or a device may be the target, and gets it as it is */
    bool appends;      /* lines are added to an earlier file */
    bool has_campaign; /* campaigns keep files of the kind, which are never replaced there */
} wm_target_kind_t;

/* Checks that `path` may become a file of this kind: its folder is there, and what has the name may
   be replaced. `force`: 1 typed, 0 not typed, -1 the verb has no --force. The text begins with the
   path. WM_EUSAGE: it may not.  */
wm_fault_t wm_target_check (const char *path, const wm_target_kind_t *kind, int force,
                            wm_error_t *error);

/* Returns whether both names lead to the same file, through symbolic and hard links; of names that
   lead to no file yet, whether they are the same name in the same folder.  */
bool wm_target_same (const char *a, const char *b);

/* Fills in where the file is written, and returns it: `path`, or where a symbolic link leads.  */
const char *wm_target_place (const char *path, char place[PATH_MAX]);

/* Returns whether what is written to the target goes to stdout, a pipe or a device at once.  */
bool wm_target_is_stream (const char *path);

#endif
