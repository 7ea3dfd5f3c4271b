/* wm_file_source.h - files that a workflow system hands out one by one: --files-from-command.

   The command is run for the next file until it prints nothing. It prints a line, "DID PFN RSE" or
   only a PFN: a path, or a URL as --input takes them. A file that it gave is taken from the
   workflow system; so each is noted in a record before anything else happens with it, and who is
   killed and started again has the same files, and asks for others only after them.

   The command's standard output is a file beside the record, so that what it gave while this
   process was killed is found, too. Its standard error is ours. It fails by an exit code, a signal
   or a time limit; after such a failure the feed runs it again, FEED_TRIES_MAX times in all. If the
   command prints anything but one such line, or repeats old files too often, the feed stops calling
   it at once: each further call might take a file that is then never processed.

   Without the command it has the files that were given otherwise, each a PFN. Thread: one.  */
#ifndef WM_FILE_SOURCE_H
#define WM_FILE_SOURCE_H

#include "ops/campaign/wm_setup.h"
#include "schema/base/wm_restart.h"
#include "schema/base/wm_table.h"
#include "schema/option/wm_option.h"

#include <stdint.h>
#include <sys/types.h>

typedef enum {
    WM_FILE_SOURCE_WAITS,
    WM_FILE_SOURCE_WRITTEN,
    WM_FILE_SOURCE_HELD,
    WM_FILE_SOURCE_CHANGED, /* its output is written, and the input was changed since */
    WM_FILE_SOURCE_EDITED,  /* its output was changed by others since it was written */
    WM_FILE_SOURCE_STATES,
} wm_file_source_is_t;

typedef struct {
    char *did;   /* "": it has none */
    char *pfn;   /* as it was given */
    char *path;  /* the same file has the same */
    bool is_bad; /* nothing here can copy it: no producer gets it, and it is not in the record */
    wm_file_source_is_t is;
    uint32_t next_same; /* number of another file with this path, after the first; 0: no more */
} wm_file_source_file_t;

typedef struct {
    const char *verb, *command; /* NULL: files are given otherwise */
    wm_file_source_file_t *file;
    uint32_t n_file, n_is[WM_FILE_SOURCE_STATES]; /* n_is: of each wm_file_source_is_t */
    size_t room;
    wm_table_t by_path, by_did; /* the first file of each; its number + 1 */
    int record, answer;
    char record_path[PATH_MAX], answer_path[PATH_MAX + 8];
    pid_t pid; /* of the command; 0: it does not run */
    int64_t began_ms, next_ms, limit_ms;
    wm_restart_t tries;
    uint32_t n_repeat;             /* files in a row that it gave before */
    bool has_ended;                /* nothing is asked for any more */
    int code;                      /* why: WM_EXIT_OK, there are no more files */
    void (*before_message) (void); /* called before anything is printed */
} wm_file_source_t;

/* Takes --files-from-command, and what is in the record: CAMPAIGN/files-asked, or, without a
   campaign here, .wiremill-files-asked in the current folder, unless --asked-files names it.
   WM_EAGAIN: another process asks for files with this record.  */
wm_fault_t wm_file_source_open (wm_file_source_t *self, const wm_args_t *args, const char *verb,
                                const char *campaign, wm_error_t *error);

/* Takes the files of a list instead.  */
wm_fault_t wm_file_source_take (wm_file_source_t *self, const wm_inputs_t *inputs,
                                wm_error_t *error);

/* Makes the list for a producer, of n files from `first` on.  */
wm_fault_t wm_file_source_list (const wm_file_source_t *self, uint32_t first, uint32_t n,
                                wm_inputs_t *inputs, wm_error_t *error);

/* Runs the command where another file is `wanted`, and reads what it printed. Returns whether there
   is a new file, the last.  */
bool wm_file_source_step (wm_file_source_t *self, bool wanted);

/* Ends the command, if it runs.  */
void wm_file_source_stop (wm_file_source_t *self);

/* Says how far a file is.  */
void wm_file_source_mark (wm_file_source_t *self, wm_file_source_file_t *file,
                          wm_file_source_is_t is);

/* Counts files.  */
uint32_t wm_file_source_count (const wm_file_source_t *self, wm_file_source_is_t is);

#endif
