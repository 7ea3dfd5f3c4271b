/* report.c - `wiremill report`: a campaign on one page, also while it runs.

   Asks for the status, the history and the inputs, has a producer read a sample of the outputs, and
   writes the page whole or not at all. The sample is the same for the same inputs: outputs that
   are evenly spaced over those that are written.  */
#include "ops/ask/wm_account.h"
#include "ops/ask/wm_ask.h"
#include "ops/process/wm_command.h"
#include "ops/process/wm_complain.h"
#include "ops/process/wm_spawn.h"
#include "ops/verbs.h"
#include "ops/view/wm_report.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_url.h"
#include "schema/page/wm_page_event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "output", .letter = 'o', .value = "FILE",
     .path = WM_PATH_WRITTEN, .writes = &wm_made_report, .is_needed = true, .task = "the page",
     .help = "where it goes, such as report.html; an earlier page is replaced"},
    {.name = "outputs", .value = "N", .fallback = "24", .least = 0, .most = 500,
     .help = "how many outputs are read for the distributions of scores"},
    {.name = "pictures", .value = "N", .fallback = "3", .least = 0, .most = 20,
     .help = "how many of their events are drawn"},
    {.name = "note", .value = "TEXT", .help = "a line on the page, such as what it is for"},
    WM_OPTION_FORCE,
    WHERE_OPTIONS,
    {.name = NULL},
};

static int report_main (const wm_args_t *args);
const wm_verb_t wm_verb_report = {
    .name = "report", .task = WATCH_TASK, .rest = "[DIR]",
    .summary = "a campaign on one page: what, how fast, what it cost",
    .text = "  wiremill report out/ -o report.html\n\n"
            "One HTML file that needs no other, for a browser or a printer, also while the\n"
            "campaign runs: what was scored, throughput and workers over time, latencies, faults,\n"
            "what is held and why, scores by label and plane, truth, events, cost, the command.\n"
            "Scores and events are of a sample of outputs, which is the same each time.\n",
    .options = options, .run = report_main };
/* clang-format on */

#define SAMPLE_MAX 500 /* of --outputs */
#define PIECE_BYTES 65536

/* Outputs that are written, evenly spaced: every step-th of them, from the first. When there are
   twice as many as can be kept, every other one is dropped.  */
typedef struct {
    const wm_args_t *args; /* NULL: no file has the page's name yet */
    const char *folder;    /* of the outputs */
    wm_error_t spared;     /* the page would replace one of the files */
    wm_report_files_t *files;
    wm_page_events_t pages;
    size_t n_output, step, n;
    char *name[2 * SAMPLE_MAX];
} sample_t;

static bool take_output (void *argument, const json_t *file)
{
    sample_t *self = argument;
    char output[PATH_MAX], url[WM_PAGE_EVENT_URL_BYTES];
    snprintf (output, sizeof output, "%.3000s/%.1000s", self->folder, wm_ask_text (file, "output"));
    if (self->args &&
        (wm_args_spare (self->args, wm_ask_text (file, "path"), "an input of the campaign",
                        &self->spared) ||
         wm_args_spare (self->args, output, "an output of the campaign", &self->spared)))
        return false;
    if (self->files)
        wm_report_files_add (self->files, file, wm_page_events_link (&self->pages, output, url));
    if (strcmp (wm_ask_text (file, "state"), "written") != 0)
        return true;
    if (self->n == 2 * SAMPLE_MAX) {
        for (size_t i = 0; i < self->n; i++)
            if (i % 2)
                free (self->name[i]);
            else
                self->name[i / 2] = self->name[i];
        self->n /= 2;
        self->step *= 2;
    }
    if (self->n_output++ % self->step == 0)
        self->name[self->n++] = strdup (wm_ask_text (file, "output"));
    return true;
}

/* Reads what the producer writes; NULL: nothing.  */
static char *read_part (int fd, size_t *bytes)
{
    char *text = NULL, piece[PIECE_BYTES];
    FILE *memory = open_memstream (&text, bytes);
    for (ssize_t got; memory && ((got = read (fd, piece, sizeof piece)) > 0 || errno == EINTR);)
        fwrite (piece, 1, got > 0 ? (size_t) got : 0, memory);
    close (fd);
    if (!memory || (ferror (memory) | fclose (memory))) {
        free (text);
        text = NULL;
    }
    return text;
}

/* Adds where planes and channel map lie, as options of the producer; returns how many words.  */
static size_t add_frames (const json_t *status, const char **argv)
{
    static const char *const names[][2] = { { "campaign.frames.planes", "--planes" },
                                            { "campaign.frames.channels", "--channels" },
                                            { "campaign.frames.hit_time", "--hit-time" },
                                            { "campaign.frames.hit_offset", "--hit-offset" },
                                            { "campaign.frames.pedestal", "--pedestal" } };
    size_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (*wm_ask_text (status, names[i][0])) {
            argv[n++] = names[i][1];
            argv[n++] = wm_ask_text (status, names[i][0]);
        }
    return n;
}

/* Has a producer read the outputs (n) of the sample.  */
static void ask_producer (wm_report_t *report, const sample_t *sample, const char *folder, size_t n,
                          const char *pictures)
{
    const char *argv[SAMPLE_MAX + 15] = { "wiremill-producer", "report", "--pictures", pictures };
    const size_t first = 4 + add_frames (report->status, argv + 4);
    size_t k = first;
    int fd;
    char *path;
    for (size_t i = 0; i < n; i++)
        if (sample->name[i * sample->n / n] &&
            asprintf (&path, "%s/%s", folder, sample->name[i * sample->n / n]) >= 0)
            argv[k++] = path;
    report->n_read = k - first;
    report->no_scores = "No outputs could be read: the process that reads them failed.";
    const pid_t pid = k > first ? wm_spawn_reader ("report", argv, &fd) : -1;
    if (pid >= 0) {
        report->scores = read_part (fd, &report->scores_bytes);
        if (wm_spawn_code ("report", argv[0], pid) || !report->scores)
            report->scores_bytes = 0;
    }
    for (size_t i = first; i < k; i++)
        free ((char *) (uintptr_t) argv[i]);
}

/* Fills in the part about scores, or why it is missing. Returns an exit code.  */
static int add_scores (wm_report_t *report, const wm_args_t *args, const char *endpoint,
                       const char *campaign, wm_report_files_t *files)
{
    static char why[480];
    static sample_t sample;
    const char *folder = wm_ask_text (report->status, "campaign.output");
    sample = (sample_t){ .step = 1,
                         .args = access (wm_args_text (args, "output"), F_OK) ? NULL : args,
                         .files = files,
                         .folder = folder };
    wm_page_events_begin (&sample.pages, wm_args_text (args, "output"));
    size_t n = (size_t) wm_args_number (args, "outputs");
    report->no_scores = why;
    const int code = wm_ask_files ("report", endpoint, campaign, "", take_output, &sample);
    if (sample.spared.fault)
        return wm_args_refuse (args, "%s", sample.spared.text);
    report->n_output = sample.n_output;
    n = n < sample.n ? n : sample.n;
    if (!sample.n_output)
        snprintf (why, sizeof why, "No output is written yet.");
    else if (wm_url_of (folder))
        snprintf (why, sizeof why,
                  "The outputs are on a server: copy some here; wiremill show draws them.");
    else if (access (folder, R_OK | X_OK))
        snprintf (why, sizeof why, "The outputs cannot be read here: %.300s: %s", folder,
                  strerror (errno));
    else if (n)
        ask_producer (report, &sample, folder, n, wm_args_text (args, "pictures"));
    else
        snprintf (why, sizeof why, "No outputs were read (--outputs 0).");
    for (size_t i = 0; i < sample.n; i++)
        free (sample.name[i]);
    return code;
}

static wm_fault_t store (const wm_report_t *report, const char *path, wm_error_t *error)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream (&text, &bytes);
    if (memory)
        wm_report_write (report, memory);
    wm_fault_t fault = !memory || (ferror (memory) | fclose (memory))
                           ? wm_fault (error, WM_EHOST, "out of memory for the page")
                           : wm_file_write (path, &(wm_part_t){ text, bytes }, 1, error);
    free (text);
    return fault;
}

/* How a command names the campaign, as a shell reads it; NULL: no memory.  */
static char *where_of (const char *endpoint, const char *campaign)
{
    char *text = NULL, output[PATH_MAX];
    size_t bytes;
    FILE *memory = open_memstream (&text, &bytes);
    if (!memory)
        return NULL;
    wm_folder_output (campaign, output);
    if (!*campaign)
        fputs ("--broker ", memory);
    wm_command_word (memory, *campaign ? output : endpoint);
    fclose (memory);
    return text;
}

static int report_main (const wm_args_t *args)
{
    char endpoint[256], campaign[PATH_MAX];
    char place[PATH_MAX];
    const char *path = wm_args_place (args, "output", place);
    wm_error_t error;
    int code;
    if (wm_ask_where (args, endpoint, campaign, &error))
        return wm_complain ("report", &error);
    json_t *status = wm_ask_anyhow ("report", endpoint, campaign, &code);
    if (!status)
        return code;
    wm_account_add (status, "report", endpoint, campaign, false);
    wm_report_t report = { .status = status,
                           .folder = campaign,
                           .where = where_of (endpoint, campaign),
                           .note = wm_args_text (args, "note"),
                           .history.made_s = wm_ask_real (status, "campaign.submitted"),
                           .now_s = time (NULL) };
    wm_report_files_t *files = wm_report_files_new ();
    report.files = files;
    json_t *history = wm_ask_history ("report", endpoint, campaign, &code);
    wm_fault_t fault = WM_OK;
    if (history)
        code = add_scores (&report, args, endpoint, campaign, files);
    if (!code && !(wm_history_query_take (&report.history, history, 0) &&
                   wm_history_query_take_workers (&report.history, history)))
        fault = wm_fault (&error, WM_EHOST, "out of memory for the history");
    if (!code && !fault)
        fault = store (&report, path, &error);
    if (fault)
        code = wm_complain ("report", &error);
    else if (!code && isatty (STDERR_FILENO))
        fprintf (stderr, "wiremill report: wrote %s; open it in a browser\n", path);
    wm_history_query_clear (&report.history);
    wm_report_files_free (files);
    free ((char *) (uintptr_t) report.scores);
    free ((char *) (uintptr_t) report.where);
    json_decref (history);
    json_decref (status);
    return code;
}
