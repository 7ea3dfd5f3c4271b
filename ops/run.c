/* run.c - `wiremill run`: a whole campaign with one command, and again with the same command; and
   `wiremill produce`: only the producer of one.

   It starts a broker, a producer and workers (wm_processes), shows how far they are, stops them and
   reports the result. If it is killed at any moment, the same command continues. With --broker, or
   as `produce`, it starts a producer only, and a farm does the work.  */

#include "kernels/plugin/wm_plugin.h"
#include "kernels/wm_device.h"
#include "ops/ask/wm_account.h"
#include "ops/ask/wm_arithmetic.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/campaign/wm_clients.h"
#include "ops/campaign/wm_processes.h"
#include "ops/campaign/wm_import_cache.h"
#include "ops/campaign/wm_setup.h"
#include "ops/campaign/wm_urls.h"
#include "ops/process/wm_command.h"
#include "ops/process/wm_complain.h"
#include "ops/verbs.h"
#include "ops/view/wm_run_line.h"
#include "ops/view/wm_waits.h"
#include "ops/workflow/wm_workflow.h"
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_url.h"
#include "schema/wm_defaults.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASK_EVERY_MS 200
#define LAST_ANSWER_MS 2000
#define HELD_SHOWN_MAX 5
#define WORKER_THREADS 4

/* clang-format off */
#define PRINT_OPTIONS \
    {.name = "json", .task = "what is printed", .help = "the summary as JSON on stdout"}, \
    {.name = "quiet", .letter = 'q', .help = "no progress"}

static const wm_option_t options[] = {
    INPUT_OPTIONS,
    RETRY_OPTION,
    {.name = "clients", .task = "in place of inputs",
     .help = "score the patches that programs on this machine send (wiremill.Client() in Python, "
             "libwiremill), until Ctrl-C; nothing of them is kept (default of --campaign: "
             WM_CLIENTS_FOLDER ")"},
    WORKFLOW_OPTIONS,
    CAMPAIGN_OPTIONS,
    NOTIFY_OPTIONS,
    {.name = "workers", .letter = 'w', .value = "N", .task = "who computes", .least = 1,
     .most = WM_PROCESSES_WORKERS_MAX,
     .help = "worker processes (default: one for every 4 cores; 2 with a GPU)"},
    {.name = "threads", .letter = 't', .value = "N", .least = 1, .most = 1024,
     .help = "threads a worker (default: the CPUs it may use / workers, see wiremill doctor)"},
    {.name = "engine", .letter = 'e', .value = WM_ENGINE_NAMES, .one_of = true,
     .path = WM_PATH_READ,
     .fallback = "auto",
     .help = "auto: a GPU that passes its self-test, else sparse where the model is of its "
             "family, else openvino"},
    DEVICE_OPTION,
    ISA_OPTION,
    ENGINE_MEMORY_OPTION,
    {.name = "pin", .help = "keep each thread of a worker on a CPU of its own"},
    BULK_OPTIONS,
    {.name = "broker", .letter = 'b', .value = "ENDPOINT",
     .help = "send to a farm's broker instead, which has model, specification and output; without "
             "--model WM_BROKER stands for it"},
    WM_JOIN_OPTION,
    PRINT_OPTIONS,
    {.name = NULL},
};

static const char run_text[] =
    "  wiremill run --model m.onnx --input 'data/*.h5' --output out/\n"
    "  wiremill run --clients --model m.onnx\n\n"
    "Killed at any moment, the same command continues; every hit is scored exactly once.\n"
    "The first Ctrl-C drains and prints the command that resumes, the second kills.\n"
    WM_IMPORT_CACHE_HELP;

static int run_main (const wm_args_t *args), produce_main (const wm_args_t *args);
const wm_verb_t wm_verb_run = {
    .name = "run", .task = SCORE_TASK, .rest = "[FILES]",
    .summary = "score files on this machine, or continue", .text = run_text,
    .common = "input input-list model output spec precision planes channels retry-held workers "
              "engine broker join-file json quiet",
    .options = options, .run = run_main };

static const wm_option_t produce_options[] = {
    INPUT_OPTIONS,
    WORKFLOW_OPTIONS,
    {.name = "broker", .letter = 'b', .value = "ENDPOINT", .task = "where to",
     .help = "the broker's base address (default: WM_BROKER, else the campaign here, else "
             WM_ASK_DEFAULT ")"},
    WM_JOIN_OPTION,
    {.name = "campaign", .letter = 'c', .value = "DIR", .path = WM_PATH_FOLDER,
     .help = "or the campaign's folder, or that of its output, if this machine shares it"},
    {.name = "output", .letter = 'o', .value = "URL", .path = WM_PATH_FOLDER,
     .help = "where the campaign's outputs go, if that is a root:// folder"},
    RETRY_OPTION,
    {.name = "give-up", .value = "TIME", .real_least = 1,
     .help = "give up after so long without a broker (default: " WM_DEFAULT_PRODUCER_GIVE_UP ")"},
    PRINT_OPTIONS,
    {.name = NULL},
};
const wm_verb_t wm_verb_produce = {
    .name = "produce", .task = SPREAD_TASK, .rest = "[FILES]",
    .summary = "send files, write their scores",
    .text = "  wiremill produce --broker tcp://head:5555 --input 'data/*.h5'\n\n"
            "The same command again continues. Progress and summary are the whole campaign's; the "
            "line above the summary counts the files of this command.\n",
    .common = "input input-list broker join-file campaign output retry-held json quiet",
    .options = produce_options, .run = produce_main };

/* What has no effect with --broker, because others have it.  */
static const char *const of_broker[] = { "model", "spec", "precision", "max-error", "mixed",
                                         "check-share", "batch-hits", "campaign", "planes",
                                         "channels", "hit-time", "hit-offset", "pedestal",
                                         "layout", "on-done", "on-held", "on-pause", NULL };
static const char *const of_worker[] = { "workers", "threads",       "engine", "device",
                                         "isa",     "engine-memory", "pin",    NULL };
/* clang-format on */

typedef struct {
    const wm_args_t *args;
    wm_setup_t *setup; /* NULL with --broker */
    wm_inputs_t inputs;
    wm_processes_t crew;
    wm_workflow_t workflow;
    wm_client_t *client;        /* operator session, open or not */
    json_t *status;             /* the latest, NULL before */
    bool for_clients, has_told; /* that a worker can score */
    uint64_t waits_told;        /* a bit of each wm_wait_t that was reported */
    unsigned owed;              /* answers that have not come yet */
    int64_t asked_ms, status_ms, started_ms;
    int64_t open_ms;                                   /* no session is tried before */
    int64_t hits_before, first_ms, last_ms, hits_last; /* for hits/s while there was work */
    int64_t paused_ms, pause_ms; /* of that; of a pause after which nothing was scored yet */
    int64_t events_before, events_last;
    int64_t sent_last, sent_bytes; /* task payloads in this run; a restarted broker counts from 0 */
} run_t;

static volatile int stops; /* Ctrl-C, TERM and HUP so far */
static wm_progress_t progress;

static void before_message (void)
{
    wm_progress_clear (&progress);
}

/* ---- listening to the broker ----------------------------------------------------------------- */

/* For the gateway, whose model is ready then.  */
static void tell_scores (run_t *self, const json_t *status)
{
    const json_t *one;
    size_t i;
    json_array_foreach (json_object_get (status, "workers"), i, one)
    {
        if (self->has_told || !*wm_ask_text (one, "signature"))
            continue;
        self->has_told = true;
        before_message ();
        fputs ("wiremill run: a worker can score\n", stderr);
    }
}

static void take_status (run_t *self, json_t *status)
{
    const int64_t now = wm_now_ms (), done = wm_ask_int (status, "hits.done");
    const int64_t events = wm_ask_int (status, "events.done");
    const int64_t sent = wm_ask_int (status, "bytes.task_out");
    if (!self->status) {
        self->hits_before = self->hits_last = done;
        self->events_before = self->events_last = events;
        self->sent_last = self->setup ? 0 : sent;
    }
    if (sent != self->sent_last && !self->first_ms)
        self->first_ms = self->status_ms; /* no worker had work then */
    self->sent_bytes += sent - (sent < self->sent_last ? 0 : self->sent_last);
    self->sent_last = sent;
    if (done < self->hits_last) /* kicked, or their output is lost: they are scored again */
        self->hits_before -= self->hits_last - done;
    if (events < self->events_last)
        self->events_before -= self->events_last - events;
    self->events_last = events;
    const char *paused = wm_ask_text (status, "paused");
    if (*paused && *wm_ask_text (self->status, "paused") && !wm_ask_int (status, "batches.running"))
        self->pause_ms += self->first_ms ? now - self->status_ms : 0;
    if (done != self->hits_last) {
        self->last_ms = now;
        self->paused_ms += self->pause_ms;
        self->pause_ms = 0;
    }
    self->hits_last = done;
    self->crew.progress = wm_ask_settled (status) + events + wm_ask_int (status, "hits.announced") +
                          wm_ask_int (status, "inputs.written");
    self->status_ms = now;
    if (*paused && !*wm_ask_text (self->status, "paused")) {
        before_message ();
        fprintf (stderr, "wiremill %s: paused: %s; run ", self->crew.verb, paused);
        wm_command_verb (stderr, "resume", "", " to continue");
    }
    if (self->for_clients)
        tell_scores (self, status);
    json_decref (self->status);
    self->status = status;
}

/* Asks once, opening a session if none is open. A farm's broker may be far away: a session takes
   several round trips, and one that failed is tried again later, since meanwhile nothing else is
   done.  */
static void ask (run_t *self, int64_t patience_ms)
{
    wm_error_t error;
    self->asked_ms = wm_now_ms ();
    if (!wm_client_is_open (self->client)) {
        const int64_t handshake_ms = wm_times ()->handshake_ms;
        self->owed = 0;
        if (self->asked_ms < self->open_ms)
            return;
        if (wm_client_open (self->client, NULL, 0,
                            self->setup || patience_ms > handshake_ms ? patience_ms : handshake_ms,
                            &error)) {
            const int64_t now = wm_now_ms ();
            const bool was_long = !self->setup && now - self->asked_ms > ASK_EVERY_MS;
            self->open_ms = now + (was_long ? 2 * handshake_ms : 0);
            return;
        }
    }
    json_t *status = wm_ask_status (self->client, patience_ms, &self->owed);
    if (status)
        take_status (self, status);
}

/* Asks once, then sleeps until the next time to ask, or until a child ends.  */
static void listen_once (run_t *self)
{
    ask (self, ASK_EVERY_MS);
    if (self->status && !self->for_clients)
        wm_waits_print_changes (self->status, &self->waits_told, before_message);
    const int64_t left = self->asked_ms + ASK_EVERY_MS - wm_now_ms ();
    wm_processes_nap (left > 20 ? left : 20);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void left_out (const run_t *self)
{
    char n[32];
    if (self->inputs.n_left_out)
        fprintf (stderr, "%s left out: outputs (*.scores.h5), or no regular files\n",
                 wm_show_count ((int64_t) self->inputs.n_left_out, n));
    if (self->inputs.n_repeated)
        fprintf (stderr, "%s left out: given already\n",
                 wm_show_count ((int64_t) self->inputs.n_repeated, n));
}

/* A producer's broker, as its first and last lines name it: by the campaign's folder if that was
   given (file://FOLDER/endpoint.json), else by its address.  */
static const char *broker_of (const run_t *self, char text[300])
{
    static const char head[] = "file://", tail[] = "/endpoint.json";
    const char *at = self->crew.endpoint;
    const bool is_file = strncmp (at, head, sizeof head - 1) == 0;
    const int n = (int) strlen (at) - (is_file ? (int) (sizeof head + sizeof tail) - 2 : 0);
    snprintf (text, 300, "%s %.*s", is_file ? "of" : "at", n, is_file ? at + sizeof head - 1 : at);
    return text;
}

static void first_line (const run_t *self)
{
    char n[32], broker[300];
    const char *files =
        self->workflow.feed.command ? " asked for before, more from the command," : "";
    if (!self->setup) {
        fprintf (stderr, "wiremill %s: %s file%s%s to the broker %s\n", WM_VERSION,
                 wm_show_count ((int64_t) self->inputs.n_file, n),
                 self->inputs.n_file == 1 ? "" : "s", files, broker_of (self, broker));
        wm_allowance_print (wm_allowance (), 0, "");
        if (!wm_join_suffices (WM_ROLE_OPERATOR))
            wm_words_print (stderr, "a producer's key shows neither progress nor summary: give a "
                                    "monitor's too, by a second --join-file");
        left_out (self);
        return;
    }
    char promise[80];
    wm_arithmetic_promise (self->setup->pins.precision, self->setup->pins.max_error, promise);
    if (self->for_clients)
        fprintf (stderr, "wiremill %s: for clients,", WM_VERSION);
    else
        fprintf (stderr, "wiremill %s: %s file%s%s", WM_VERSION,
                 wm_show_count ((int64_t) self->inputs.n_file, n),
                 self->inputs.n_file == 1 ? "" : "s", *files ? files : ",");
    fprintf (stderr, " spec %s, %s, %d worker%s x %s thread%s\n", self->setup->spec_name, promise,
             self->crew.n_worker, self->crew.n_worker == 1 ? "" : "s", self->crew.threads,
             strcmp (self->crew.threads, "1") == 0 ? "" : "s");
    wm_allowance_print (wm_allowance (),
                        (int) wm_args_number (self->args, "threads") * self->crew.n_worker, "");
    static const char family[] = " family, ";
    const char *why = self->setup->why, *more = strstr (why, family);
    wm_words_print (stderr, "model %.12s: %.*s", self->setup->pins.model,
                    (int) (more ? (size_t) (more - why) + sizeof family - 3 : strlen (why)),
                    why); /* `wiremill import` prints all */
    wm_words_print (stderr, "%s", self->setup->columns);
    if (self->setup->family && strcmp (self->crew.engine, "auto") == 0 &&
        strncmp (self->crew.device, "cuda", 4) != 0 &&
        strncmp (self->crew.device, "opencl", 6) != 0 && !getenv ("WM_ISA"))
        wm_arithmetic_advise (stderr, self->setup->pins.precision);
    left_out (self);
}

/* ---- the end --------------------------------------------------------------------------------- */

static const char *output_folder (const run_t *self)
{
    return self->setup          ? self->setup->output
           : *self->crew.output ? self->crew.output
                                : wm_ask_text (self->status, "campaign.output");
}

/* A file of scores to show people how to read one: the first input's, else any.  */
static bool example_file (const run_t *self, char path[PATH_MAX])
{
    char stem[256];
    glob_t found;
    const char *slash = strrchr (self->inputs.first, '/');
    snprintf (stem, sizeof stem, "%.255s", slash ? slash + 1 : self->inputs.first);
    char *dot = strrchr (stem, '.');
    if (dot)
        *dot = 0;
    snprintf (path, PATH_MAX, "%.3800s/%.255s.scores.h5", output_folder (self), stem);
    if (access (path, R_OK) == 0)
        return true;
    snprintf (path, PATH_MAX, "%.3800s/*.scores.h5", output_folder (self));
    if (glob (path, 0, NULL, &found))
        return false;
    snprintf (path, PATH_MAX, "%s", found.gl_pathv[0]);
    globfree (&found);
    return true;
}

static void print_reading (const run_t *self)
{
    char path[PATH_MAX];
    if (!example_file (self, path))
        return;
    printf ("  read it with     ");
    wm_command_word (stdout, program_invocation_name);
    printf (" show ");
    wm_command_word (stdout, path);
    putchar ('\n');
}

static double hits_per_second (const run_t *self)
{
    const int64_t span = self->last_ms - self->first_ms - self->paused_ms;
    return span > 0 ? 1e3 * (double) (self->hits_last - self->hits_before) / (double) span : 0;
}

static double bytes_per_event (const run_t *self)
{
    const int64_t events = self->events_last - self->events_before;
    return events > 0 ? (double) self->sent_bytes / (double) events : 0;
}

static void print_count (int64_t count, const char *what)
{
    char n[32];
    if (count)
        printf (", %s %s", wm_show_count (count, n), what);
}

static const char *clock_of (time_t unix_s, char text[32])
{
    struct tm local;
    if (!localtime_r (&unix_s, &local) || !strftime (text, 32, "%H:%M:%S", &local))
        strcpy (text, "-");
    return text;
}

static void print_table (const run_t *self, int code, double seconds)
{
    char a[32], b[32], per_s[32], broker[300];
    const json_t *s = self->status;
    putchar ('\n');
    if (!self->setup)
        printf ("  the campaign of the broker %s\n", broker_of (self, broker));
    printf ("  files            %s written", wm_show_count (wm_ask_int (s, "inputs.written"), a));
    printf (", %s held", wm_show_count (wm_ask_int (s, "inputs.held"), a));
    print_count (wm_ask_int (s, "inputs.open"), "open");
    print_count (wm_ask_int (s, "inputs.changed") + wm_workflow_edited (&self->workflow),
                 "changed");
    putchar ('\n');
    printf ("  events           %s\n", wm_show_count (wm_ask_int (s, "events.written"), a));
    printf ("  %-16s ", wm_ask_rows (s));
    wm_account_hits (stdout, s);
    putchar ('\n');
    if (self->hits_last > self->hits_before || self->sent_bytes) {
        printf ("  %-16s %s while there was work\n", wm_ask_rows_s (s, 16, per_s),
                wm_show_count ((int64_t) hits_per_second (self), a));
        const double each = bytes_per_event (self);
        printf ("  sent%s   %s to workers\n", each > 0 ? " per event" : "          ",
                wm_show_bytes (each > 0 ? each : (double) self->sent_bytes, a));
    } else if (code != WM_EXIT_OK)
        puts ("  nothing was scored: --retry-held scores what is held or changed");
    else
        puts (wm_ask_int (s, "hits.done") ? "  nothing was left to do" : "  nothing was scored");
    wm_arithmetic_rows (stdout, s, "  scored by        ");
    wm_account_checks (stdout, s, "  checked          ");
    printf ("  time             %s, from %s", wm_show_time (seconds, a),
            clock_of (time (NULL) - (time_t) (seconds + 0.5), b));
    printf (" to %s\n", clock_of (time (NULL), b));
    printf ("  output           %s\n", output_folder (self));
    print_reading (self);
}

static void print_json (const run_t *self, int code, double seconds)
{
    json_t *summary = json_pack ("{s:s, s:s, s:i, s:f, s:f, s:f, s:s, s:O?, s:o*}", "schema",
                                 "wiremill-run-1", "version", WM_VERSION, "exit", code, "seconds",
                                 seconds, "hits_s", hits_per_second (self), "bytes_per_event",
                                 bytes_per_event (self), "output", output_folder (self), "status",
                                 self->status, "workflow", wm_workflow_json (&self->workflow));
    json_dumpf (summary, stdout, JSON_INDENT (2));
    putchar ('\n');
    json_decref (summary);
}

/* What is held, except changed inputs: the producer has reported those.  */
static void print_held (const run_t *self)
{
    const json_t *one;
    size_t i;
    int64_t shown = 0;
    const int64_t changed = wm_ask_int (self->status, "inputs.changed");
    const int64_t n = wm_ask_int (self->status, "held_total") - changed;
    json_array_foreach (json_object_get (self->status, "held"), i, one)
    {
        if (shown < HELD_SHOWN_MAX && strcmp (wm_ask_text (one, "state"), "changed") != 0) {
            wm_ask_held (stderr, one);
            shown++;
        }
    }
    if (n > shown) {
        fprintf (stderr, "held: and %lld more; run ", (long long) (n - shown));
        wm_command_verb (stderr, "held", "", " for the list");
    }
    wm_account_held (stderr, self->status, HELD_SHOWN_MAX);
    if (n + changed <= 0 && !wm_account_misses (self->status))
        return; /* a retry cannot help bad hits */
    wm_words_print (stderr, "do what each reason names (repair, convert or restore the file, under "
                            "its name, or change an option below), then type:");
    fputs ("  ", stderr);
    wm_command_print (stderr, self->args,
                      wm_args_given (self->args, "retry-held") ? NULL : "--retry-held");
}

/* The exit code for the caller: --held-ok takes what is held for done.  */
static int last_code (const run_t *self, int code)
{
    return code == WM_EXIT_HELD && wm_args_given (self->args, "held-ok") ? WM_EXIT_OK : code;
}

/* What the workers still finished after the last answer: by now it is in the ledger.  */
static void take_drained (run_t *self)
{
    int code;
    if (!self->status || !self->setup || self->for_clients)
        return;
    json_t *status = wm_ask_ledger ("run", "--status", self->setup->campaign, NULL, &code);
    if (!status)
        return;
    json_decref (self->status);
    self->status = status;
}

static int finish (run_t *self, int code)
{
    const double seconds = (double) (wm_now_ms () - self->started_ms) / 1e3;
    if (code == WM_EXIT_AGAIN)
        take_drained (self);
    /* the producer reads held hits of earlier runs in the outputs, where these lie here */
    if (code == WM_EXIT_OK && self->crew.store && wm_ask_int (self->status, "hits.held"))
        code = WM_EXIT_HELD;
    before_message ();
    if (self->for_clients && stops && code == WM_EXIT_AGAIN)
        code = WM_EXIT_OK; /* that is how it ends, and nothing is left to be continued */
    if (wm_args_given (self->args, "json"))
        print_json (self, last_code (self, code), seconds);
    else if (self->for_clients)
        wm_clients_summary (self->status, seconds);
    else if ((code == WM_EXIT_OK || code == WM_EXIT_HELD) && self->status)
        print_table (self, code, seconds);
    if (code == WM_EXIT_HELD || (code == WM_EXIT_INPUT && self->status))
        print_held (self);
    if (self->for_clients)
        return code;
    if (code == WM_EXIT_AGAIN || code == WM_EXIT_FAILURE || code == WM_EXIT_UNREACHABLE) {
        if (code == WM_EXIT_UNREACHABLE)
            fputs ("is `wiremill broker` running? It prints what to type after --broker.\n",
                   stderr);
        fprintf (stderr, "what was done is kept; %stype this to continue:\n  ",
                 code == WM_EXIT_FAILURE ? "correct that, then " : "");
        wm_command_print (stderr, self->args, NULL);
    }
    code = last_code (self, code);
    if (!wm_args_given (self->args, "json"))
        wm_workflow_last_line (&self->workflow, code, self->status, output_folder (self));
    return code;
}

/* ---- together -------------------------------------------------------------------------------- */

static int work (run_t *self)
{
    char line[WM_WORDS_WIDTH_MAX + 1];
    int code = self->setup ? wm_processes_start_broker (&self->crew, &stops) : WM_PROCESSES_WORKING;
    if (code == WM_PROCESSES_WORKING && stops)
        code = WM_EXIT_AGAIN;
    if (code == WM_PROCESSES_WORKING) {
        ask (self, LAST_ANSWER_MS); /* what was done before: hits/s and bytes count this run only */
        code = wm_processes_start_rest (&self->crew);
        if (self->for_clients && code == WM_PROCESSES_WORKING)
            wm_clients_print (self->crew.endpoint, self->setup->campaign);
    }
    while (code == WM_PROCESSES_WORKING && !stops) {
        listen_once (self);
        if (self->status) {
            wm_run_line (self->status, self->for_clients, wm_progress_width (&progress), line);
            wm_progress_show (&progress, line, wm_now_ms ());
        }
        const int ended = wm_workflow_step (&self->workflow);
        code = ended == WM_PROCESSES_WORKING ? wm_processes_step (&self->crew) : ended;
    }
    if (stops) {
        before_message ();
        fputs (self->setup
                   ? "stopping: workers finish the batches they execute; press Ctrl-C again "
                     "to kill them\n"
                   : "stopping; what was sent is scored meanwhile\n",
               stderr);
        code = WM_EXIT_AGAIN;
    }
    return code;
}

/* Memory of a worker, with what the broker has of large patches for it.  */
static uint64_t worker_bytes (const run_t *self)
{
    const char *engine = wm_args_text (self->args, "engine");
    const bool is_general =
        strcmp (engine, "openvino") == 0 ||
        (strcmp (engine, "auto") == 0 && *self->setup->wmm && !self->setup->family);
    return WM_PROCESSES_WORKER_BYTES + (is_general ? WM_PROCESSES_GENERAL_BYTES : 0) +
           12ull * wm_large_bytes (self->setup->pins.n_value, self->setup->pins.n_output);
}

/* Workers that the memory is enough for, at least 1.  */
static long workers_that_fit (const run_t *self)
{
    const uint64_t bytes = wm_allowance ()->memory_bytes;
    const long n = bytes > WM_PROCESSES_BYTES
                       ? (long) ((bytes - WM_PROCESSES_BYTES) / worker_bytes (self))
                       : 0;
    return !bytes || n > WM_PROCESSES_WORKERS_MAX ? WM_PROCESSES_WORKERS_MAX : n > 1 ? n : 1;
}

/* Number of worker processes. By default: the threads of one share the work on a batch but for
   about 1 %, so 4 would be idle 3 % of the time and 32 a quarter (calculated); on two cores one
   worker of two threads takes 5 to 11 % less time than two of one (measured). A GPU needs two.  */
static long count_workers (const run_t *self)
{
    const long asked = wm_args_number (self->args, "workers"), cores = wm_allowance ()->cpus,
               given = wm_args_number (self->args, "threads");
    const char *engine = wm_args_text (self->args, "engine"),
               *device = wm_args_text (self->args, "device");
    if (asked)
        return asked;
    const bool may_take =
        strcmp (engine, "auto") == 0 && strcmp (device, "auto") == 0 && wm_device_gpu_likely ();
    if (wm_device_engine (engine)->is_gpu || strncmp (device, "cuda", 4) == 0 ||
        strncmp (device, "opencl", 6) == 0 || may_take)
        return cores > 1 ? 2 : 1;
    const long each = given ? given : WORKER_THREADS;
    const long n = given ? cores / each : (cores + each - 1) / each;
    const long most = workers_that_fit (self);
    return n < 1 ? 1 : n < most ? n : most;
}

/* WM_EHOST: the memory is not enough for the workers, so that nothing should begin.  */
static wm_fault_t check_memory (const run_t *self, wm_error_t *error)
{
    char what[64];
    const long n = count_workers (self);
    snprintf (what, sizeof what, "a run with %ld worker%s", n, n == 1 ? "" : "s");
    const bool asks = wm_args_given (self->args, "files-from-command");
    return wm_allowance_check (wm_allowance (),
                               WM_PROCESSES_BYTES + (asks ? WM_PROCESSES_SENDER_BYTES : 0) +
                                   (uint64_t) n * worker_bytes (self),
                               what, error);
}

/* Producers beside each other have a part each of the space for copies.  */
static void share_copies (run_t *self, char bytes[24])
{
    const long given = wm_args_number (self->args, "stage-bytes");
    const long part = (given ? given : (long) WM_DEFAULT_STAGE_BYTES) / WM_PROCESSES_SENDERS_MAX;
    self->crew.stage_bytes = wm_args_text (self->args, "stage-bytes");
    if (!self->workflow.feed.command)
        return;
    snprintf (bytes, 24, "%ld", part ? part : 1);
    self->crew.stage_bytes = bytes;
}

/* Fills in how many workers with how many threads.  */
static void choose_workers (run_t *self, char threads[16])
{
    const long cores = wm_allowance ()->cpus, n = count_workers (self);
    const long given = wm_args_number (self->args, "threads");
    snprintf (threads, 16, "%ld", given ? given : cores / n > 1 ? cores / n : 1);
    if (given && n * given > cores)
        fprintf (stderr,
                 "wiremill run: %ld worker%s x %ld thread%s on %ld core%s: leave --threads out for "
                 "one thread a core, which is faster\n",
                 n, n == 1 ? "" : "s", given, given == 1 ? "" : "s", cores, cores == 1 ? "" : "s");
    if (cores == 1 && !given && n == 1 && wm_allowance ()->kernel_cpus > 1)
        setenv ("WM_CPU_LIMIT", "1", 1); /* nothing else keeps all of them within one CPU */
    else
        unsetenv ("WM_CPU_LIMIT");
    self->crew.n_worker = (int) n;
    self->crew.threads = threads;
    const char *engine = wm_args_text (self->args, "engine"),
               *model = wm_args_text (self->args, "model");
    const bool follows = strcmp (engine, "auto") == 0 && model && wm_plugin_is (model);
    self->crew.engine = follows ? model : engine; /* --model ./x.so names a plug-in, too */
    self->crew.device = wm_args_text (self->args, "device");
    self->crew.mixed = wm_args_given (self->args, "mixed");
    self->crew.check_share = wm_args_text (self->args, "check-share");
    self->crew.on_done = wm_args_text (self->args, "on-done");
    self->crew.on_held = wm_args_text (self->args, "on-held");
    self->crew.on_pause = wm_args_text (self->args, "on-pause");
    self->crew.pin = wm_args_given (self->args, "pin");
    if (self->for_clients)
        wm_clients_bulk (self->args, &self->crew);
}

/* The root:// folder that outputs are copied to; NULL: they stay in a folder. error->fault is
   WM_OK where that is fine. With a farm's broker the producer must have it before it can ask.  */
static const char *store_of (const wm_args_t *args, const char *broker, const wm_setup_t *setup,
                             wm_error_t *error)
{
    static char url[PATH_MAX];
    const char *given = broker ? wm_args_text (args, "output") : setup->output;
    error->fault = WM_OK;
    if (!given || (!broker && !wm_url_of (given)))
        return NULL;
    if (!wm_url_of (given))
        wm_fault (
            error, WM_EUSAGE,
            "--output has no effect with --broker: wiremill broker was given it; repeat it here "
            "only where it is a root:// folder");
    else
        wm_urls_output (given, url, error);
    return url;
}

static wm_choices_t choices_of (const wm_args_t *args, bool for_clients)
{
    wm_choices_t choices = wm_setup_choices (args);
    if (wm_device_is_plugin (wm_args_text (args, "engine")))
        choices.plugin = wm_args_text (args, "engine");
    choices.for_clients = for_clients;
    if (for_clients && !choices.campaign)
        choices.campaign = WM_CLIENTS_FOLDER;
    return choices;
}

/* `broker`: of a farm, else NULL.  */
static int campaign (const wm_args_t *args, const char *verb, const char *broker)
{
    wm_error_t error;
    wm_choices_t choices;
    char threads[16], bytes[24];
    static wm_setup_t setup;
    static run_t run;
    run = (run_t){ .args = args,
                   .setup = broker ? NULL : &setup,
                   .for_clients = strcmp (verb, "run") == 0 && wm_args_given (args, "clients"),
                   .started_ms = wm_now_ms () };
    zsys_handler_set (NULL); /* signals are ours */
    wm_progress_init (&progress, wm_args_given (args, "quiet"));
    const bool has_keys = broker || wm_args_given (args, "bulk");
    if (!has_keys)
        unsetenv ("WM_JOIN_FILE"); /* ours, whom no key concerns, need not find it */
    wm_fault_t fault = !has_keys || wm_join_path (0) ? WM_OK : wm_join_take (args, &error);
    if (!fault)
        fault = wm_join_hand_on (&error);
    if (!fault && !broker)
        fault = check_memory (&run, &error);
    if (!fault && !run.for_clients && !wm_args_given (args, "files-from-command"))
        fault = wm_setup_inputs (&run.inputs, args, 0, &error);
    if (!fault && !broker) {
        choices = choices_of (args, run.for_clients);
        fault = wm_setup (&setup, &choices, &error);
        if (!fault)
            fault = check_memory (&run, &error); /* now that the model is known */
    }
    if (!fault)
        fault = wm_workflow_open (&run.workflow, args, verb, broker ? "" : setup.campaign,
                                  &run.inputs, &error);
    if (!fault)
        fault = wm_processes_init (&run.crew, verb, run.setup, &run.inputs, broker, &error);
    if (!fault)
        fault =
            wm_command_keep (args, broker ? "" : setup.campaign, NULL, run.crew.command, &error);
    if (fault)
        return wm_complain (verb, &error);
    if (!broker)
        choose_workers (&run, threads);
    else if (strcmp (verb, "produce") == 0)
        run.crew.give_up = wm_args_text (args, "give-up");
    run.crew.retry_held = wm_args_given (args, "retry-held");
    run.crew.stage_ahead = wm_args_text (args, "stage-ahead");
    share_copies (&run, bytes);
    run.crew.store = store_of (args, broker, &setup, &error);
    if (error.fault)
        return wm_complain (verb, &error);
    if (run.inputs.n_url || run.workflow.feed.command || run.crew.store)
        wm_urls_scratch (args, broker ? "" : setup.campaign, run.crew.scratch);
    run.crew.before_message = before_message;
    wm_workflow_join (&run.workflow, &run.crew);
    run.crew.more |= run.for_clients;
    if (!progress.quiet)
        first_line (&run);
    wm_processes_signals (&stops);
    run.client = wm_client_new (run.crew.endpoint, WM_ROLE_OPERATOR, "wiremill-run", NULL, NULL);
    int code = work (&run);
    if (!run.setup || run.crew.broker.pid)
        ask (&run, LAST_ANSWER_MS);
    if (run.status && (!run.setup || run.crew.broker.pid))
        wm_account_add (run.status, "run", run.crew.endpoint, broker ? "" : setup.campaign, false);
    wm_processes_stop (&run.crew, &stops, 2);
    code = wm_workflow_end (&run.workflow, code, &stops);
    code = finish (&run, code);
    wm_client_destroy (&run.client);
    json_decref (run.status);
    return code;
}

/* Refuses what has no effect with --broker. -1: nothing of it was given.  */
static int refuse_useless (const wm_args_t *args)
{
    for (const char *const *name = of_broker; *name; name++)
        if (wm_args_given (args, *name))
            return wm_args_refuse (args,
                                   "--%s has no effect with --broker: leave it out; the campaign "
                                   "has what `wiremill broker` was given",
                                   *name);
    for (const char *const *name = of_worker; *name; name++)
        if (wm_args_given (args, *name))
            return wm_args_refuse (args,
                                   "--%s has no effect with --broker, where others score: give it "
                                   "to `wiremill work`",
                                   *name);
    return -1;
}

static int run_main (const wm_args_t *args)
{
    char endpoint[256], folder[4096];
    wm_error_t error;
    const char *broker = wm_args_text (args, "broker"), *env = getenv ("WM_BROKER");
    const bool clients = wm_args_given (args, "clients");
    if (clients && broker)
        return wm_args_refuse (args, "--clients starts a broker here: leave --broker out");
    if ((clients ? wm_clients_refused (args) : wm_clients_missed (args)) || wm_share_refused (args))
        return WM_EXIT_USAGE;
    if (clients && wm_args_rest (args, 0))
        return wm_args_refuse (args, "%.200s: --clients reads no files", wm_args_rest (args, 0));
    if (!broker && !clients && env && *env && !wm_args_text (args, "model")) {
        if (wm_ask_at (args, NULL, endpoint, folder, &error))
            return wm_complain ("run", &error);
        broker = endpoint;
    }
    if (!broker && !wm_args_text (args, "model") &&
        !wm_device_is_plugin (wm_args_text (args, "engine")))
        return wm_args_refuse (args, "--model FILE is missing");
    if (!broker && !clients && !wm_args_text (args, "output"))
        return wm_args_refuse (args, "--output DIR is missing");
    const bool bulk = wm_args_given (args, "bulk");
    if (!broker && !bulk && wm_args_given (args, "join-file"))
        return wm_args_refuse (args, "--join-file is for --broker: without it no key is needed");
    const int code = broker ? refuse_useless (args) : -1;
    if (code >= 0)
        return code;
    if (wm_device_heeds (wm_args_text (args, "engine"), wm_args_text (args, "device"),
                         wm_args_text (args, "precision"), wm_args_text (args, "isa"), &error))
        return wm_args_refuse (args, "%s", error.text);
    if (wm_workflow_refuse (args) >= 0)
        return WM_EXIT_USAGE;
    if (wm_args_given (args, "engine-memory") && !broker &&
        !wm_device_is_plugin (wm_args_text (args, "engine")) &&
        !(wm_args_text (args, "model") && wm_plugin_is (wm_args_text (args, "model"))))
        return wm_args_refuse (args, "--engine-memory limits a plug-in: --engine ./x.so or torch");
    take_isa (args);
    take_engine_memory (args);
    return campaign (args, "run", broker);
}

static int produce_main (const wm_args_t *args)
{
    char endpoint[256];
    wm_error_t error;
    if (wm_args_given (args, "campaign") && wm_args_given (args, "broker"))
        return wm_args_refuse (args, "give --broker or --campaign, not both");
    if (wm_workflow_refuse (args) >= 0)
        return WM_EXIT_USAGE;
    if (wm_ask_lasting (args, wm_args_text (args, "campaign"), endpoint, &error))
        return wm_complain ("produce", &error);
    return campaign (args, "produce", endpoint);
}
