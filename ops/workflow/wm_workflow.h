/* wm_workflow.h - what a workflow system sees of a campaign: files that it hands out
   (wm_file_source.h), lists of those that are processed (wm_processed.h), sidecars (wm_sidecar.h),
   the last line, and whether held hits are a failure.

   Files are taken one by one, and each gets a producer; those of an earlier process have one
   together. The next is asked for when half of the events of all before are scored, or as
   --files-ahead says. Thread: one.  */
#ifndef WM_WORKFLOW_H
#define WM_WORKFLOW_H

#include "ops/campaign/wm_processes.h"
#include "ops/workflow/wm_processed.h"
#include "ops/workflow/wm_sidecar_queue.h"

#include <jansson.h>

_Static_assert(WM_PROCESSES_SENDERS_MAX == 4, "the help of --files-ahead names its range");

/* clang-format off */
#define WORKFLOW_OPTIONS \
    {.name = "files-from-command", .value = "CMD", .task = "under a workflow system", \
     .help = "ask this shell command for the next file until it prints nothing; it prints a " \
             "line, \"DID PFN RSE\" or only a path or URL"}, \
    {.name = "files-ahead", .value = "N", .most = WM_PROCESSES_SENDERS_MAX - 1, \
     .help = "ask while no more than N files, 0 to 3, wait for their output (default: when half " \
             "of the events of all files in hand are scored)"}, \
    {.name = "command-timeout", .value = "TIME", .fallback = "10m", .real_least = 1, \
     .help = "how long the command may take"}, \
    {.name = "asked-files", .value = "FILE", .path = WM_PATH_WRITTEN, .writes = &wm_made_names, \
     .help = "record of the files that the command gave, to continue with (default: of run " \
             "CAMPAIGN/files-asked, of produce .wiremill-files-asked here)"}, \
    {.name = "processed-pfns", .value = "FILE", .path = WM_PATH_WRITTEN, .writes = &wm_made_names, \
     .help = "append the name of each file there when its output is safely written"}, \
    {.name = "processed-dids", .value = "FILE", \
     .path = WM_PATH_WRITTEN, .writes = &wm_made_names, .help = "... its DID"}, \
    {.name = "sidecars", \
     .help = "write OUTPUT.json beside each output: size, adler32, parents, core.* keys"}, \
    {.name = "sidecar-metadata", .value = "FILE", .path = WM_PATH_READ, .text = "a JSON object", \
     .help = "JSON object of keys for the metadata of each sidecar"}, \
    {.name = "held-ok", .help = "exit with 0 where it would be 3, as some is held"}
/* clang-format on */

typedef struct {
    const wm_args_t *args;
    const char *verb;
    wm_file_source_t feed;
    wm_processed_t processed;
    wm_sidecar_queue_t sidecars;
    wm_processes_t *crew; /* NULL: it has no files, as it scores for clients */
    int code;             /* WM_PROCESSES_WORKING, or what ends the campaign */
} wm_workflow_t;

/* Refuses options that do not go together. -1: they do.  */
int wm_workflow_refuse (const wm_args_t *args);

/* Opens lists and record. `inputs`: with --files-from-command filled in with what an earlier
   process asked for, else what was given.  */
wm_fault_t wm_workflow_open (wm_workflow_t *self, const wm_args_t *args, const char *verb,
                             const char *campaign, wm_inputs_t *inputs, wm_error_t *error);

/* Lets the crew tell what becomes of its inputs. The crew is lent.  */
void wm_workflow_join (wm_workflow_t *self, wm_processes_t *crew);

/* Asks for the next file when it is time to, and starts a producer for it. Returns
   WM_PROCESSES_WORKING, or the exit code that ends the campaign.  */
int wm_workflow_step (wm_workflow_t *self);

/* Ends the command, when the sidecars of all outputs are written or *stop has changed; `code` is
   the crew's. Returns the exit code.  */
int wm_workflow_end (wm_workflow_t *self, int code, const volatile int *stop);

/* Prints the line for wrappers: "wiremill-result exit=0 files=2 ...", always with all keys: counts
   of this command's files, then the campaign's (status; NULL: "-", not known). output: "" for not
   known.  */
void wm_workflow_last_line (const wm_workflow_t *self, int code, const json_t *status,
                            const char *output);

/* The counts of that line as JSON; NULL: it scores for clients.  */
json_t *wm_workflow_json (const wm_workflow_t *self);

/* Counts outputs that others changed while their inputs stayed as they were: the broker does not
   know of them.  */
uint32_t wm_workflow_edited (const wm_workflow_t *self);

#endif
