/* main.c - wiremill-broker: the one writer of a campaign, until SIGTERM or SIGINT.

   Usually started by `wiremill run` or `wiremill broker`, which make the pins and the model's
   file.  */
#include "broker/campaign/wm_campaign.h"
#include "broker/campaign/wm_old_notes.h"
#include "broker/campaign/wm_outputs.h"
#include "broker/campaign/wm_rebuild.h"
#include "broker/campaign/wm_restore.h"
#include "broker/core/wm_core.h"
#include "broker/listen/wm_advertise.h"
#include "broker/listen/wm_listener.h"
#include "broker/wm_notify.h"
#include "broker/wm_snapshot.h"
#include "broker/wm_query.h"
#include "broker/wm_reactor.h"
#include "broker/wm_resident.h"
#include "broker/wm_status.h"
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_systemd.h"
#include "schema/option/wm_option.h"
#include "schema/option/wm_share.h"
#include "schema/wm_defaults.h"
#include "schema/wm_trace.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MIN 64  /* descriptors: its own, libzmq's and of a few peers */
#define BUDGET_PART 4 /* of the memory that this process may use */
static_assert (WM_BUDGET_BYTES == 1ull << 30, "as --help states");

/* clang-format off */
static const wm_option_t option_table[] = {
    {.name = "campaign", .value = "DIR",
     .path = WM_PATH_FOLDER, .is_needed = true, .task = "the campaign",
     .help = "its folder, on a local disk (made if it is not there)"},
    {.name = "pins", .value = "FILE",
     .path = WM_PATH_READ, .help = "what the campaign is pinned to"},
    {.name = "wmm", .value = "FILE",
     .path = WM_PATH_READ, .help = "the imported model that workers fetch"},
    {.name = "checked", .value = "STAMP", .may_be_empty = true,
     .help = "of `wiremill`, which has just checked that file: it is checked again only if the "
             "stamp is not its own any more"},
    {.name = "shape", .value = "AxB", .may_be_empty = true,
     .help = "of a ready-made patch, as 3x32x32: producers refuse others (default: any)"},
    {.name = "budget", .value = "BYTES", .least = WM_BUDGET_BYTES_LEAST, .most = LONG_MAX,
     .help = "payloads held in memory at most (default: a quarter of the memory that this process "
             "may use, and at most 1 GiB)"},
    {.name = "command", .value = "FILE", .path = WM_PATH_READ,
     .help = "kept as DIR/command: how people go on with the campaign"},
    {.name = "mixed",
     .help = "admit workers that score by another engine than the campaign has for their class of "
             "machines; outputs state which engine made which row"},
    {.name = "check-share", .value = "X", .fallback = WM_DEFAULT_CHECK_SHARE,
     .help = "share of batches, from 0 to 100%, that a worker on another machine scores too; where "
             "they differ, a third decides, and the one that is wrong gets no more work"},
    {.name = "listen", .value = "ENDPOINT", .task = "listeners",
     .help = "tcp://HOST:PORT (and +1, +2) or ipc://PATH; HOST also * or an interface, PORT also a "
             "range 5500-5600 or 0 (free ones); several with commas"},
    {.name = "advertise", .value = "ENDPOINT",
     .help = "what other machines connect to, behind a port forward or NAT: tcp://HOST:PORT (and "
             "+1, +2), or with three ports tcp://HOST:W/P/O; several with commas"},
    {.name = "keys", .help = "ask for keys on loopback too (on other addresses it always does)"},
    {.name = "insecure", .help = "ask for no keys and encrypt nothing, on any address"},
    {.name = "advise", .value = "COMMAND",
     .help = "print the commands that use this broker; COMMAND is what starts `wiremill`"},
    {.name = "parent", .help = "end when the parent process ends"},
    {.name = "on-done", .value = "CMD", .may_be_empty = true, .task = "notifications",
     .help = "run by sh when every input is written or held"},
    {.name = "on-held", .value = "CMD", .may_be_empty = true,
     .help = "run by sh when something new is held, at most every 5 minutes"},
    {.name = "on-pause", .value = "CMD", .may_be_empty = true,
     .help = "run by sh when nothing is handed out: paused, drained, or the disk is full"},
    {.name = "status", .task = "instead of serving, where no broker has the campaign",
     .help = "print the campaign's status as JSON"},
    {.name = "files",
     .help = "print its inputs as JSON, a page of them a line; with --name only those of that "
             "name, with --held those with something held or changed"},
    {.name = "name", .value = "NAME",
     .help = "with --files: an input's path or the last parts of it, or an output"},
    {.name = "held", .help = "with --files: those with something held or changed"},
    {.name = "history",
     .help = "print the history of rates, faults, marks and workers as JSON, a page of it a line"},
    {.name = "sql", .value = "QUERY", .may_be_empty = true,
     .help = "print what the ledger answers; empty: which views it has"},
    {.name = "json", .help = "with --sql: as JSON"},
    {.name = "copy", .help = "with --sql: of the copy that the campaign's broker has just made"},
    {.name = "outputs",
     .help = "read every output and print as JSON whether each byte is as it was written; where "
             "that takes long, print now and then how many bytes were read"},
    {.name = "rebuild", .help = "check journal, ledger and every output, and repair them"},
    {.name = "output", .value = "DIR", .path = WM_PATH_PRESENT,
     .help = "with --rebuild, --outputs: where they are now"},
    {.name = "dry-run", .help = "with --rebuild: only report what is wrong"},
    {.name = NULL},
};

static const char help_text[] =
    "Takes batches from producers, hands them to workers, keeps results in DIR/journal and\n"
    "progress in DIR/ledger.db. A broker that was killed continues when it is started again.\n"
    "Serving needs --listen, --pins and --wmm.\n\n"
    "exit codes\n"
    "   0  stopped by a signal\n"
    "   1  failure (--dry-run: also where something is wrong)\n"
    "   2  usage\n"
    "   5  the folder is not this campaign's: other pins, another model, a copy that needs\n"
    "      --rebuild, or made by a newer wiremill\n"
    "  75  try again: another broker has the campaign, or the disk is full\n";

static int broker_main (const wm_args_t *args);
static const wm_verb_t verb = {
    .program = "wiremill-broker", .name = "",
    .summary = "serves one campaign until SIGTERM or SIGINT; `wiremill run` or `wiremill broker` "
               "starts it",
    .text = help_text, .options = option_table, .run = broker_main };
static const wm_verb_t *const verbs[] = { &verb, NULL };

static const wm_program_t program = {
    .name = "wiremill-broker", .version = WM_VERSION, .summary = "holds one campaign",
    .verbs = verbs };
/* clang-format on */

typedef struct {
    const char *campaign, *listen, *advertise, *pins, *wmm, *checked, *shape;
    const char *command, *output, *advise, *on[WM_NOTIFY_EVENTS];
    uint64_t budget_bytes;
    double check_share;
    const char *name, *sql;
    bool json, copy;
    bool keys, insecure, mixed, parent, status, files, held, history, outputs, rebuild, dry_run;
} options_t;

typedef wm_fault_t print_t (const options_t *options, wm_campaign_t *campaign, wm_error_t *error);
static print_t *printer_of (const options_t *options);

static volatile sig_atomic_t stop;

static void on_signal (int signal)
{
    (void) signal;
    stop = stop + 1;
}

static const char *typed = "wiremill-broker"; /* the command that people gave */

static int fail (const wm_error_t *error)
{
    wm_log_level (WM_LOG_ERROR);
    fprintf (stderr, "%s: %s\n", typed, error->text);
    return error->fault == WM_EAGAIN   ? WM_EXIT_AGAIN
           : error->fault == WM_EUSAGE ? WM_EXIT_USAGE
           : error->fault == WM_EBATCH ? WM_EXIT_INPUT
                                       : WM_EXIT_FAILURE;
}

static wm_listener_mode_t mode_of (const options_t *options)
{
    return options->keys       ? WM_LISTENER_KEYS
           : options->insecure ? WM_LISTENER_PLAIN
                               : WM_LISTENER_AUTO;
}

/* Takes the default, or refuses a budget that is too small for this campaign's patches.  */
static wm_fault_t take_budget (options_t *options, const wm_pins_t *pins, wm_error_t *error)
{
    const uint64_t least = wm_budget_least (pins->n_value, pins->n_output);
    const uint64_t part = wm_allowance_part (wm_allowance (), BUDGET_PART, WM_BUDGET_BYTES);
    if (!options->budget_bytes)
        options->budget_bytes = part > least ? part : least;
    if (options->budget_bytes >= least)
        return WM_OK;
    return wm_fault (error, WM_EUSAGE,
                     "--budget %llu is too little for patches of up to %u bytes: give --budget "
                     "%llu or more, and the broker as much memory",
                     (unsigned long long) options->budget_bytes,
                     wm_row_bytes_max (pins->n_value, pins->n_output), (unsigned long long) least);
}

/* -1: go on; else the exit code.  */
static int take_options (const wm_args_t *args, options_t *options)
{
    *options = (options_t){ .campaign = wm_args_text (args, "campaign"),
                            .listen = wm_args_text (args, "listen"),
                            .advertise = wm_args_text (args, "advertise"),
                            .pins = wm_args_text (args, "pins"),
                            .wmm = wm_args_text (args, "wmm"),
                            .checked = wm_args_text (args, "checked"),
                            .shape = wm_args_text (args, "shape"),
                            .command = wm_args_text (args, "command"),
                            .output = wm_args_text (args, "output"),
                            .advise = wm_args_text (args, "advise"),
                            .on = { wm_args_text (args, "on-pause"), wm_args_text (args, "on-held"),
                                    wm_args_text (args, "on-done") },
                            .budget_bytes = wm_args_given (args, "budget")
                                                ? (uint64_t) wm_args_number (args, "budget")
                                                : 0,
                            .keys = wm_args_given (args, "keys"),
                            .insecure = wm_args_given (args, "insecure"),
                            .mixed = wm_args_given (args, "mixed"),
                            .parent = wm_args_given (args, "parent"),
                            .status = wm_args_given (args, "status"),
                            .files = wm_args_given (args, "files"),
                            .history = wm_args_given (args, "history"),
                            .name = wm_args_text (args, "name"),
                            .sql = wm_args_text (args, "sql"),
                            .json = wm_args_given (args, "json"),
                            .copy = wm_args_given (args, "copy"),
                            .held = wm_args_given (args, "held"),
                            .outputs = wm_args_given (args, "outputs"),
                            .rebuild = wm_args_given (args, "rebuild"),
                            .dry_run = wm_args_given (args, "dry-run") };
    typed = options->sql ? "wiremill sql" : typed;
    if (!options->rebuild && (options->dry_run || (options->output && !options->outputs)))
        return wm_args_refuse (args, "--dry-run and --output go with --rebuild");
    if (!printer_of (options) && !options->rebuild &&
        (!options->listen || !options->pins || !options->wmm))
        return wm_args_refuse (args, "--%s is missing",
                               !options->listen ? "listen ENDPOINT"
                               : !options->pins ? "pins FILE"
                                                : "wmm FILE");
    wm_error_t error;
    if (wm_share_parse (wm_args_text (args, "check-share"), &options->check_share))
        return wm_args_refuse (args,
                               "--check-share %.40s: give 0 to 1, or 0%% to 100%%, such as 0.1%%",
                               wm_args_text (args, "check-share"));
    if (options->keys && options->insecure)
        return wm_args_refuse (args, "--keys and --insecure exclude each other");
    if (options->listen && wm_listener_check (options->listen, mode_of (options), &error))
        return wm_args_refuse (args, "%s", error.text);
    return -1;
}

static wm_fault_t read_pins (const char *path, wm_pins_t *pins, wm_error_t *error)
{
    char text[WM_PINS_BYTES_MAX + 1];
    FILE *file = fopen (path, "re");
    if (!file)
        return wm_fault (error, WM_EHOST, "cannot read the pins in %s: %s", path, strerror (errno));
    size_t bytes = fread (text, 1, sizeof text, file);
    fclose (file);
    if (bytes == sizeof text)
        return wm_fault (error, WM_EHOST, "%s is larger than %u bytes", path, WM_PINS_BYTES_MAX);
    wm_error_t why;
    if (wm_pins_parse (pins, text, bytes, &why))
        return wm_fault (error, WM_EHOST, "%s: %.400s", path, why.text);
    return WM_OK;
}

/* The model's file is the one pinned, byte for byte: workers would refuse another. checked: a stamp
   of the file when it was; "" or NULL for none.  */
static wm_fault_t check_wmm (const char *path, const wm_pins_t *pins, const char *checked,
                             wm_error_t *error)
{
    char hex[65], stamp[WM_FILE_STAMP_BYTES];
    if (checked && wm_file_stamp (path, stamp) && strcmp (checked, stamp) == 0)
        return WM_OK;
    wm_fault_t fault = wm_file_sha256 (path, hex, error);
    if (fault)
        return fault;
    if (strcmp (hex, pins->wmm) != 0)
        return wm_fault (error, WM_EBATCH, "%s has SHA-256 %s, the pins name %s", path, hex,
                         pins->wmm);
    return WM_OK;
}

/* check_wmm in a thread of its own, while the campaign is opened.  */
typedef struct {
    const char *path, *checked;
    const wm_pins_t *pins;
    pthread_t thread;
    wm_fault_t fault;
    wm_error_t error;
} check_t;

static void *run_check (void *argument)
{
    check_t *self = argument;
    self->fault = check_wmm (self->path, self->pins, self->checked, &self->error);
    return NULL;
}

static void start_check (check_t *self)
{
    if (pthread_create (&self->thread, NULL, run_check, self)) {
        run_check (self);
        self->thread = 0;
    }
}

static wm_fault_t end_check (check_t *self, wm_error_t *error)
{
    if (self->thread)
        pthread_join (self->thread, NULL);
    self->thread = 0;
    if (self->fault)
        *error = self->error;
    return self->fault;
}

/* ---- --status -------------------------------------------------------------------------------- */

static void ignore_drop (void *context, uint32_t session)
{
    (void) context;
    (void) session;
}

static void ignore_log (void *context, const char *text)
{
    (void) context;
    (void) text;
}

static wm_fault_t restore_note (void *core, wm_record_t *record, wm_error_t *error)
{
    (void) error;
    wm_core_restore_standing (core, record, &(wm_place_t){ 0 });
    return WM_OK;
}

/* Makes a core with the current state of the campaign. The lock is released before any output is
   inspected: a file system that hangs then blocks no one. logs: also an outputs' folder that cannot
   be read: with the status alone, so that a command that asks for more prints it once.  */
static wm_core_t *make_core (wm_campaign_t *campaign, bool logs, wm_error_t *error)
{
    static const wm_core_sink_t sink = { .drop = ignore_drop, .log = ignore_log };
    uint64_t epoch, sequence; /* the journal's own is not there in a private copy */
    wm_ledger_position (campaign->ledger, &epoch, &sequence);
    wm_core_config_t config = { .pins = "",
                                .epoch = campaign->journal ? wm_journal_epoch (campaign->journal)
                                                           : epoch,
                                .times = *wm_times () };
    wm_core_t *core = wm_core_new (&config, &sink);
    if (!core)
        wm_fault (error, WM_EHOST, "no memory");
    else if (wm_restore (core, campaign->ledger, NULL, NULL, error) ||
             wm_old_notes_read (campaign->dir, campaign->ledger, restore_note, core, error))
        wm_core_destroy (&core);
    wm_campaign_close (campaign);
    if (core)
        wm_outputs_compare (core, &campaign->pins, logs ? campaign->dir : NULL);
    return core;
}

/* The journal on disk: it is not open in a private copy.  */
static uint64_t journal_bytes (const char *dir)
{
    char path[PATH_MAX];
    struct stat status;
    uint64_t bytes = 0;
    snprintf (path, sizeof path, "%.4000s/journal", dir);
    DIR *folder = opendir (path);
    for (const struct dirent *entry; folder && (entry = readdir (folder));)
        if (!fstatat (dirfd (folder), entry->d_name, &status, 0) && S_ISREG (status.st_mode))
            bytes += (uint64_t) status.st_size;
    if (folder)
        closedir (folder);
    return bytes;
}

static wm_fault_t print_status (const options_t *options, wm_campaign_t *campaign,
                                wm_error_t *error)
{
    (void) options;
    const wm_status_about_t about = { .dir = campaign->dir,
                                      .campaign = campaign->id,
                                      .pins = &campaign->pins,
                                      .submitted_s = campaign->created_ns / 1000000000,
                                      .journal_bytes = journal_bytes (campaign->dir),
                                      .ledger_bytes = wm_ledger_bytes (campaign->ledger) };
    wm_core_t *core = make_core (campaign, true, error);
    if (!core)
        return error->fault;
    wm_summary_t *summary = malloc (sizeof *summary);
    char *json = NULL;
    if (summary) {
        wm_core_summary (core, summary);
        summary->n_wait = 0;
        memset (summary->n_by_wait, 0, sizeof summary->n_by_wait);
        summary->waiting = summary->inputs_open ? WM_WAIT_NO_BROKER : WM_WAIT_NONE;
        summary->waiting_for = summary->waiting ? wm_waits[summary->waiting].name : NULL;
        if (summary->waiting)
            wm_summary_add_wait (summary, summary->waiting, NULL, "", 0);
        summary->state = summary->inputs_open ? "stopped" : summary->inputs ? "finished" : "idle";
        json = wm_status_json (summary, &about);
    }
    if (json)
        puts (json);
    const wm_fault_t fault = json ? WM_OK : wm_fault (error, WM_EHOST, "no memory");
    free (json);
    free (summary);
    wm_core_destroy (&core);
    return fault;
}

static wm_fault_t print_files (const options_t *options, wm_campaign_t *campaign, wm_error_t *error)
{
    wm_core_t *core = make_core (campaign, false, error);
    if (!core)
        return error->fault;
    wm_fault_t fault = WM_OK;
    const char *name = options->held ? NULL : options->name ? options->name : "";
    for (uint32_t from = 1, next = 0; from && !fault; from = next) {
        char *json = wm_status_files (core, from, name, &next);
        if (json)
            puts (json);
        else
            fault = wm_fault (error, WM_EHOST, "no memory");
        free (json);
    }
    wm_core_destroy (&core);
    return fault;
}

/* Its minutes, then the sessions of its workers.  */
static wm_fault_t print_history (const options_t *options, wm_campaign_t *campaign,
                                 wm_error_t *error)
{
    (void) options;
    for (int i = 0; i < 2; i++)
        for (uint64_t from = 0, next = 1; next; from = next) {
            char *json = wm_status_history (campaign->ledger, i, 0, from, &next);
            if (!json)
                return wm_fault (error, WM_EHOST, "the ledger's history cannot be read");
            puts (json);
            free (json);
        }
    return WM_OK;
}

/* For `wiremill verify`, which shows it.  */
static void print_progress (uint64_t n_read, uint64_t n_all)
{
    printf ("{\"read\": %llu, \"of\": %llu}\n", (unsigned long long) n_read,
            (unsigned long long) n_all);
    fflush (stdout);
}

static wm_fault_t print_outputs (const options_t *options, wm_campaign_t *campaign,
                                 wm_error_t *error)
{
    char *json = wm_outputs_json (campaign, options->output, print_progress, error);
    if (json)
        puts (json);
    free (json);
    return json ? WM_OK : error->fault;
}

static wm_fault_t print_query (const options_t *options, wm_campaign_t *campaign, wm_error_t *error)
{
    return wm_query_print (wm_ledger_database (campaign->ledger), options->sql, options->json,
                           stdout, error);
}

/* Of the copy that the broker has made.  */
static int print_copy (const options_t *options)
{
    wm_error_t error;
    return wm_query_copy (options->campaign, options->sql, options->json, stdout, &error)
               ? fail (&error)
               : WM_EXIT_OK;
}

/* Returns what prints what was asked for; NULL: nothing was.  */
static print_t *printer_of (const options_t *options)
{
    return options->status    ? print_status
           : options->sql     ? print_query
           : options->files   ? print_files
           : options->history ? print_history
           : options->outputs ? print_outputs
                              : NULL;
}

/* Shows a campaign that no broker serves.  */
static int show (const options_t *options, print_t *print)
{
    wm_campaign_t campaign;
    wm_error_t error;
    if (!wm_folder_has_campaign (options->campaign)) {
        wm_fault (&error, WM_EBATCH, "there is no campaign in %s", options->campaign);
        return fail (&error);
    }
    int code = WM_EXIT_OK;
    if (!options->outputs && wm_snapshot_is_needed (options->campaign)) {
        static wm_snapshot_t copy;
        if (wm_snapshot_open (&copy, options->campaign, &error) ||
            print (options, &copy.campaign, &error))
            code = fail (&error);
        wm_snapshot_close (&copy);
        return code;
    }
    if (wm_campaign_lock (&campaign, options->campaign, WM_CAMPAIGN_READ, wm_times ()->lock_ms / 5,
                          &error) ||
        wm_campaign_open (&campaign, NULL, NULL, &error) || print (options, &campaign, &error))
        code = fail (&error);
    wm_campaign_close (&campaign);
    return code;
}

static int rebuild (const options_t *options)
{
    const wm_rebuild_options_t what = { options->campaign, options->output, options->dry_run };
    bool is_whole;
    wm_error_t error;
    if (wm_rebuild (&what, &is_whole, &error))
        return fail (&error);
    return is_whole ? WM_EXIT_OK : WM_EXIT_FAILURE;
}

/* ---- serving --------------------------------------------------------------------------------- */

static wm_fault_t inspect (void *context, wm_error_t *error)
{
    return wm_campaign_check (context, error);
}

static wm_notify_t *notify;   /* NULL: no command was given */
static wm_reactor_t *reactor; /* NULL: not yet */

static bool keep_told (const wm_record_t *told)
{
    if (reactor)
        wm_reactor_note (reactor, told);
    return reactor != NULL;
}

static void load_told (void *argument, const wm_record_t *record, const wm_place_t *place)
{
    (void) argument, (void) place;
    if (record->type == WM_RECORD_TOLD)
        wm_notify_restore (notify, record);
}

/* For `systemctl status`: one line.  */
static void describe (const wm_brief_t *brief, char text[WM_SYSTEMD_STATUS_BYTES])
{
    const double all = brief->hits_announced ? (double) brief->hits_announced : 1;
    const double hits = (double) (brief->hits_done + brief->hits_held);
    int n = snprintf (text, WM_SYSTEMD_STATUS_BYTES,
                      "%llu of %llu inputs written, %.1f %% of %llu hits, %.0f hits/s, workers: %u",
                      (unsigned long long) brief->inputs_written,
                      (unsigned long long) brief->inputs, 100 * hits / all,
                      (unsigned long long) brief->hits_announced, brief->hits_s, brief->n_worker);
    if (brief->inputs_held + brief->hits_held)
        n += snprintf (text + n, WM_SYSTEMD_STATUS_BYTES - (size_t) n,
                       ", held: %llu inputs, %llu hits", (unsigned long long) brief->inputs_held,
                       (unsigned long long) brief->hits_held);
    const wm_brief_stop_t *pause = &brief->stop[0];
    if (brief->n_stop && wm_waits[pause->wait].by == WM_WAIT_BY_BROKER)
        snprintf (text + n, WM_SYSTEMD_STATUS_BYTES - (size_t) n, ", hands out nothing: %.240s",
                  pause->text);
    else if (brief->n_stop)
        snprintf (text + n, WM_SYSTEMD_STATUS_BYTES - (size_t) n, ", waits, %s: %.240s",
                  wm_waits[pause->wait].name, pause->text);
}

static void watch (const wm_core_t *core)
{
    wm_brief_t brief;
    char text[WM_SYSTEMD_STATUS_BYTES];
    wm_core_brief (core, &brief);
    wm_notify_turn (notify, &brief, wm_now_ms ());
    if (!wm_systemd_is_due (wm_now_ms ()))
        return;
    describe (&brief, text);
    wm_systemd_serves (text);
}

/* A full disk is the one WM_EAGAIN that a broker waits out. Logs a text that is new, and
   sleeps.  */
static bool waits_for_room (const wm_error_t *error, char logged[sizeof error->text])
{
    if (error->fault != WM_EAGAIN || strncmp (error->text, "disk full", 9) != 0 || stop)
        return false;
    if (strcmp (logged, error->text) != 0)
        fprintf (stderr, "wiremill-broker: %s\n", strcpy (logged, error->text));
    const wm_brief_t full = { .stop = { { WM_WAIT_DISK, error->text } }, .n_stop = 1 };
    wm_notify_turn (notify, &full, wm_now_ms ());
    wm_systemd_status (error->text);
    usleep ((useconds_t) (wm_times ()->disk_full_ms * 1000));
    return true;
}

static wm_fault_t open_it (wm_campaign_t *campaign, wm_error_t *error)
{
    wm_fault_t fault;
    char logged[sizeof error->text] = "";
    while ((fault = wm_campaign_open (campaign, NULL, NULL, error)) != WM_OK &&
           waits_for_room (error, logged)) {
        wm_ledger_destroy (&campaign->ledger);
        wm_journal_destroy (&campaign->journal);
    }
    return fault;
}

/* Keeps the command that continues the campaign: `wiremill status` prints it while no broker runs.
   Without the file (the disk is full) status prints a general hint.  */
static void keep_command (const options_t *options)
{
    char path[4200], temporary[4200], text[16384];
    FILE *from = options->command ? fopen (options->command, "re") : NULL;
    const size_t bytes = from ? fread (text, 1, sizeof text, from) : 0;
    if (from)
        fclose (from);
    snprintf (path, sizeof path, "%.4100s/command", options->campaign);
    snprintf (temporary, sizeof temporary, "%.4100s/command.new", options->campaign);
    FILE *to = bytes ? fopen (temporary, "we") : NULL;
    if (!to)
        return;
    const bool failed = fwrite (text, 1, bytes, to) != bytes;
    if (fclose (to) || failed || rename (temporary, path))
        unlink (temporary);
}

static wm_fault_t serve (const options_t *options, const wm_pins_t *pins, wm_campaign_t *campaign,
                         wm_error_t *error)
{
    wm_brief_t brief;
    wm_reactor_config_t config = { .check = inspect,
                                   .context = campaign,
                                   .watch = watch,
                                   .where = &campaign->where,
                                   .endpoint = options->listen,
                                   .keys = mode_of (options),
                                   .mixed = options->mixed,
                                   .check_share = options->check_share,
                                   .dir = options->campaign,
                                   .wmm = options->wmm,
                                   .shape = options->shape,
                                   .pins = pins,
                                   .budget_bytes = options->budget_bytes };
    wm_fault_t fault;
    char logged[sizeof error->text] = "";
    while ((fault = wm_campaign_start (campaign, pins, error)) && waits_for_room (error, logged))
        ;
    const wm_ledger_load_t told = { .standing = load_told };
    if (fault || wm_ledger_load (campaign->ledger, NULL, &told, NULL, NULL, error))
        return error->fault;
    config.epoch = campaign->epoch;
    memcpy (config.campaign, campaign->id, 16);
    config.submitted_s = campaign->created_ns / 1000000000;
    config.journal = campaign->journal;
    config.ledger = campaign->ledger;
    reactor = wm_reactor_new (&config, error);
    wm_resident_begin (config.budget_bytes);
    if (!reactor)
        return error->fault;
    const wm_listener_t *listener = wm_reactor_listener (reactor);
    wm_advertise (&campaign->where, wm_listener_endpoint (listener), wm_listener_listens (listener),
                  options->advertise);
    campaign->where.has_keys = wm_listener_has_keys (listener);
    fault = wm_campaign_announce (campaign, error);
    if (fault == WM_OK) {
        keep_command (options);
        if (options->advise)
            wm_advertise_print (&campaign->where, options->campaign, options->advise,
                                *pins->serves != 0);
        fault = wm_reactor_run (reactor, &stop, error);
        if (fault != WM_EBATCH) /* it is not ours any more */
            wm_campaign_unannounce (campaign);
        wm_systemd_stops ();
        wm_reactor_brief (reactor, &brief);
        if (fault != WM_EBATCH)
            wm_notify_stop (notify, fault ? NULL : &brief, &stop);
    }
    wm_reactor_destroy (&reactor);
    return fault;
}

static int broker_main (const wm_args_t *args)
{
    options_t options;
    int code = take_options (args, &options);
    if (code >= 0)
        return code;
    struct sigaction action = { .sa_handler = on_signal };
    sigaction (SIGTERM, &action, NULL);
    sigaction (SIGINT, &action, NULL);
    signal (SIGPIPE, SIG_IGN);
    if (options.parent && !wm_process_follow (0, SIGTERM))
        return WM_EXIT_AGAIN; /* it ended before this took effect */
    if (sodium_init () < 0) {
        fprintf (stderr, "wiremill-broker: libsodium cannot start\n");
        return WM_EXIT_FAILURE;
    }
    wm_error_t error;
    if (options.sql && options.copy)
        return print_copy (&options);
    if (printer_of (&options))
        return show (&options, printer_of (&options));
    if (options.rebuild)
        return rebuild (&options);
    wm_log_start ();
    if (!options.parent) { /* `wiremill run` has printed it, and is what systemd started */
        wm_allowance_print (wm_allowance (), 0, "wiremill-broker: ");
        wm_systemd_start ();
    }
    struct rlimit files; /* a descriptor a peer and a few of our own */
    if (getrlimit (RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max < 8192 ? files.rlim_max : 8192;
        setrlimit (RLIMIT_NOFILE, &files);
    }
    if (getrlimit (RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_MIN) {
        fprintf (stderr,
                 "wiremill-broker: this process may open only %llu files at a time and needs %d, "
                 "and one more for each peer; raise `ulimit -n`\n",
                 (unsigned long long) files.rlim_cur, FILES_MIN);
        return WM_EXIT_FAILURE;
    }
    if (options.insecure)
        fprintf (stderr,
                 "wiremill-broker: INSECURE: whoever can reach %s can read and write this "
                 "campaign; nothing is encrypted and no peer is asked for a key\n",
                 options.listen);
    static wm_pins_t pins;
    static wm_campaign_t campaign;
    if (read_pins (options.pins, &pins, &error) || take_budget (&options, &pins, &error))
        return fail (&error);
    check_t check = { .path = options.wmm, .checked = options.checked, .pins = &pins };
    start_check (&check);
    campaign.lock_fd = -1;
    wm_fault_t fault = wm_campaign_lock (&campaign, options.campaign, WM_CAMPAIGN_SERVE,
                                         wm_times ()->lock_ms, &error);
    const wm_notify_config_t notices = { .dir = options.campaign,
                                         .output = pins.output,
                                         .command = { options.on[0], options.on[1], options.on[2] },
                                         .keep = keep_told,
                                         .limit_ms = WM_NOTIFY_LIMIT_MS,
                                         .again_ms = WM_NOTIFY_AGAIN_MS };
    if (!fault)
        notify = wm_notify_new (&notices);
    if (!fault)
        fault = open_it (&campaign, &error);
    if (end_check (&check, fault ? &check.error : &error) && !fault)
        fault = check.fault;
    if (!fault)
        fault = serve (&options, &pins, &campaign, &error);
    code = fault ? fail (&error) : WM_EXIT_OK;
    wm_notify_destroy (&notify); /* while the lock is held */
    wm_campaign_close (&campaign);
    return code;
}

int main (int argc, char **argv)
{
    const wm_key_t none = { 0 };
    WM_TRACE ("begin", &none, 0); /* links what adds CPU time and memory at the end */
    return wm_program_run (&program, argc, argv);
}
