/* wm_workflow.c - see wm_workflow.h.  */
#include "ops/workflow/wm_workflow.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/process/wm_complain.h"
#include "ops/workflow/wm_sidecar.h"
#include "schema/wm_limits.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define NAP_MS 100
#define SLOW_MS 1000

int wm_workflow_refuse (const wm_args_t *args)
{
    static const char *const of_command[] = { "files-ahead", "command-timeout", "asked-files" };
    const bool command = wm_args_given (args, "files-from-command");
    for (size_t i = 0; i < sizeof of_command / sizeof *of_command && !command; i++)
        if (wm_args_given (args, of_command[i]))
            return wm_args_refuse (args, "--%s goes with --files-from-command", of_command[i]);
    if (command && (wm_args_given (args, "input") || wm_args_given (args, "input-list") ||
                    wm_args_rest (args, 0)))
        return wm_args_refuse (args, "give either inputs or --files-from-command, not both");
    if (wm_args_given (args, "processed-dids") && !command)
        return wm_args_refuse (args, "--processed-dids goes with --files-from-command, which gives "
                                     "each file's DID");
    if (wm_args_given (args, "sidecar-metadata") && !wm_args_given (args, "sidecars"))
        return wm_args_refuse (args, "--sidecar-metadata goes with --sidecars");
    return -1;
}

wm_fault_t wm_workflow_open (wm_workflow_t *self, const wm_args_t *args, const char *verb,
                             const char *campaign, wm_inputs_t *inputs, wm_error_t *error)
{
    const char *more = wm_args_text (args, "sidecar-metadata");
    self->args = args;
    self->verb = verb;
    self->code = WM_PROCESSES_WORKING;
    self->processed.pfns.fd = self->processed.dids.fd = -1;
    wm_fault_t fault = wm_file_source_open (&self->feed, args, verb, campaign, error);
    if (!fault && self->feed.command)
        fault = wm_file_source_list (&self->feed, 0, self->feed.n_file, inputs, error);
    else if (!fault && *inputs->path)
        fault = wm_file_source_take (&self->feed, inputs, error);
    if (!fault)
        fault = wm_processed_open (&self->processed, args, &self->feed, error);
    if (!fault && more)
        fault = wm_sidecar_metadata (more, &self->sidecars.metadata, error);
    return fault;
}

static void complain (wm_workflow_t *self, const wm_error_t *error)
{
    if (self->crew->before_message)
        self->crew->before_message ();
    if (self->code == WM_PROCESSES_WORKING)
        self->code = wm_complain (self->verb, error);
}

/* An input is done, its sidecar, too.  */
static void settle (wm_workflow_t *self, uint32_t input, wm_file_source_is_t is)
{
    wm_error_t error;
    wm_fault_t fault = WM_OK;
    uint32_t i = input;
    do { /* it, and its other names */
        wm_file_source_file_t *file = &self->feed.file[i];
        wm_file_source_mark (&self->feed, file, is);
        if (is == WM_FILE_SOURCE_WRITTEN && !fault)
            fault = wm_processed_add (&self->processed, file, &error);
        i = file->next_same;
    } while (i);
    if (fault)
        complain (self, &error);
}

/* An output on its way to a server goes with a producer that was killed, or is replaced: the
   producer that makes it again reports it again.  */
static bool is_gone (const wm_sidecar_item_t *item)
{
    char path[PATH_MAX + 256];
    if (!item->folder)
        return false;
    snprintf (path, sizeof path, "%s/%s", item->folder, item->output);
    return access (path, F_OK) != 0;
}

static void sidecar_done (void *argument, const wm_sidecar_item_t *item, const wm_error_t *error)
{
    if (error->fault && !is_gone (item))
        complain (argument, error);
    else if (!item->folder)
        settle (argument, item->input, WM_FILE_SOURCE_WRITTEN);
}

/* What became of an input of the crew. Outputs on a server have their sidecars by then.  */
static void told (void *argument, uint32_t input, wm_file_source_is_t is, const char *output)
{
    wm_workflow_t *self = argument;
    if (is == WM_FILE_SOURCE_WRITTEN && wm_args_given (self->args, "sidecars") &&
        !self->crew->store)
        wm_sidecar_queue_add (&self->sidecars, input, NULL, output, self->feed.file[input].did);
    else
        settle (self, input, is);
}

/* An output is on its way to a server, and waits for its sidecar.  */
static void placed (void *argument, uint32_t input, const char *folder, const char *output)
{
    wm_workflow_t *self = argument;
    wm_sidecar_queue_add (&self->sidecars, input, folder, output, self->feed.file[input].did);
}

void wm_workflow_join (wm_workflow_t *self, wm_processes_t *crew)
{
    if (!self->feed.command && !self->feed.n_file)
        return;
    self->crew = crew;
    self->sidecars.verb = self->verb;
    self->sidecars.folder = crew->output;
    self->feed.before_message = crew->before_message;
    crew->asks = self->feed.command != NULL;
    crew->told = told;
    crew->placed = placed;
    crew->sidecars = wm_args_given (self->args, "sidecars");
    crew->told_argument = self;
    crew->more = !self->feed.has_ended;
}

int wm_workflow_step (wm_workflow_t *self)
{
    wm_inputs_t inputs;
    wm_error_t error;
    if (self->crew)
        wm_sidecar_queue_step (&self->sidecars, sidecar_done, self);
    if (!self->crew || self->code != WM_PROCESSES_WORKING)
        return self->code;
    const long ahead = wm_args_number (self->args, "files-ahead");
    const bool by_number = wm_args_given (self->args, "files-ahead");
    const bool wanted = wm_processes_has_room (self->crew, !by_number) &&
                        (!by_number || wm_file_source_count (&self->feed, WM_FILE_SOURCE_WAITS) <=
                                           (uint32_t) ahead);
    if (wm_file_source_step (&self->feed, wanted)) {
        const uint32_t last = self->feed.n_file - 1;
        if (wm_file_source_list (&self->feed, last, 1, &inputs, &error))
            self->code = wm_complain (self->verb, &error);
        else
            self->code = wm_processes_add (self->crew, &inputs, last);
    }
    self->crew->more = !self->feed.has_ended || self->feed.pid;
    return self->code;
}

/* A producer that cannot go on reports nothing of its inputs: those were not tried.  */
static int code_of_rest (const wm_workflow_t *self, int code)
{
    const wm_file_source_t *feed = &self->feed;
    const uint32_t n_left = feed->command ? wm_file_source_count (feed, WM_FILE_SOURCE_WAITS) : 0;
    uint32_t first = 0;
    if (!n_left)
        return code;
    while (feed->file[first].is != WM_FILE_SOURCE_WAITS)
        first++;
    if (self->crew && self->crew->before_message)
        self->crew->before_message ();
    fprintf (stderr,
             "wiremill %s: %u of %u files that the command gave were not tried; the messages of\n"
             "the producer above say why. Correct that, then type the same command. The first:\n"
             "  %s\n",
             self->verb, n_left, feed->n_file, feed->file[first].path);
    return WM_EXIT_INPUT;
}

/* Waits for the sidecars of the last outputs; the first Ctrl-C may have ended the run already.
   Returns how many it leaves to the next run.  */
static size_t finish_sidecars (wm_workflow_t *self, const volatile int *stop)
{
    const int leave_at = *stop ? 2 : 1;
    const int64_t began_ms = wm_now_ms ();
    bool is_said = false;
    size_t n;
    while ((n = wm_sidecar_queue_step (&self->sidecars, sidecar_done, self)) && *stop < leave_at) {
        if (!is_said && wm_now_ms () - began_ms > SLOW_MS) {
            if (self->crew->before_message)
                self->crew->before_message ();
            fprintf (stderr,
                     "wiremill %s: sidecars of %zu outputs are still to be written; press Ctrl-C "
                     "to leave\nthem to the next run\n",
                     self->verb, n);
            is_said = true;
        }
        wm_processes_nap (NAP_MS);
    }
    wm_sidecar_queue_stop (&self->sidecars);
    return n;
}

int wm_workflow_end (wm_workflow_t *self, int code, const volatile int *stop)
{
    uint32_t n_bad = 0;
    wm_file_source_stop (&self->feed);
    const size_t n_left = self->crew ? finish_sidecars (self, stop) : 0;
    if (code != WM_EXIT_OK && code != WM_EXIT_HELD && code != WM_EXIT_INPUT)
        return code;
    if (n_left)
        return WM_EXIT_AGAIN;
    if (self->code != WM_PROCESSES_WORKING && self->code != WM_EXIT_OK)
        return self->code;
    if (self->feed.code != WM_EXIT_OK)
        return self->feed.code;
    for (uint32_t i = 0; i < self->feed.n_file; i++)
        n_bad += self->feed.file[i].is_bad;
    if (n_bad && code == WM_EXIT_OK)
        code = n_bad == self->feed.n_file ? WM_EXIT_INPUT : WM_EXIT_HELD;
    return code == WM_EXIT_INPUT ? code : code_of_rest (self, code);
}

static const char *asking (const wm_workflow_t *self)
{
    return !self->feed.command    ? "none"
           : self->feed.code      ? "failed"
           : self->feed.has_ended ? "ended"
                                  : "stopped";
}

/* Counts as people have them: an output that is written stays so, whatever was changed since.  */
typedef struct {
    uint32_t files, written, held, left, changed;
} counts_t;

static counts_t counts_of (const wm_workflow_t *self)
{
    const wm_file_source_t *feed = &self->feed;
    const uint32_t changed = wm_file_source_count (feed, WM_FILE_SOURCE_CHANGED) +
                             wm_file_source_count (feed, WM_FILE_SOURCE_EDITED);
    return (counts_t){ .files = feed->n_file,
                       .written = wm_file_source_count (feed, WM_FILE_SOURCE_WRITTEN) + changed,
                       .held = wm_file_source_count (feed, WM_FILE_SOURCE_HELD),
                       .left = wm_file_source_count (feed, WM_FILE_SOURCE_WAITS),
                       .changed = changed };
}

/* A number of the campaign's; "-": it is not known here.  */
static void print_known (const char *key, const json_t *status, const char *path)
{
    if (status)
        printf (" %s=%lld", key, (long long) wm_ask_int (status, path));
    else
        printf (" %s=-", key);
}

void wm_workflow_last_line (const wm_workflow_t *self, int code, const json_t *status,
                            const char *output)
{
    const counts_t n = counts_of (self);
    const bool is_dim = wm_show_has_colors (STDOUT_FILENO); /* a line for programs */
    printf ("%swiremill-result exit=%d files=%u written=%u held=%u left=%u changed=%u asking=%s",
            is_dim ? "\033[2m" : "", code, n.files, n.written, n.held, n.left, n.changed,
            asking (self));
    print_known ("hits", status, "hits.done");
    print_known ("hits_held", status, "hits.held");
    printf (" output=%s%s\n", *output ? output : "-", is_dim ? "\033[0m" : "");
}

json_t *wm_workflow_json (const wm_workflow_t *self)
{
    const counts_t n = counts_of (self);
    return self->crew
               ? json_pack ("{s:i, s:i, s:i, s:i, s:i, s:s}", "files", (int) n.files, "written",
                            (int) n.written, "held", (int) n.held, "left", (int) n.left, "changed",
                            (int) n.changed, "asking", asking (self))
               : NULL;
}

uint32_t wm_workflow_edited (const wm_workflow_t *self)
{
    return wm_file_source_count (&self->feed, WM_FILE_SOURCE_EDITED);
}
