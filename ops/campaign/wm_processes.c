/* wm_processes.c - see wm_processes.h. */

#include "ops/campaign/wm_processes.h"

#include "ops/ask/wm_ask.h"
#include "ops/campaign/wm_crash_hold.h"
#include "ops/process/wm_command.h"
#include "ops/process/wm_complain.h"
#include "ops/process/wm_memory.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_text.h"
#include "schema/session/wm_join.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define IPC_PATH_BYTES_MAX 90 /* sun_path holds 108, libzmq and ".w" need some of it */
#define TICK_MS 20
#define SLOW_TICK_MS 200                       /* where something else wakes us */
#define WORKER_WORKS ": session with "         /* logged by one whose engine can score */
#define BEGINS_AGAIN ": it begins again with " /* logged by a broker whose campaign does */
#define STOP_MS 60000
#define PRODUCER_DEATHS_MAX 3
#define HEAR_MS 20
#define LOG_MS 500
#define AWAY_WAITS_MAX 64 /* pauses of 2 s to 128 s */
#define SAME_INPUT_CRASHES_MAX 10 /* it is held from the second on */

/* It is started again at once, five times in a row; ends that are 12 s apart at most are a row.  */
static const wm_restart_rule_t broker_rule = { .quick = 12000, .give_up = 6 };

static void report (const wm_processes_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));
static void report_end (const wm_processes_t *self, const wm_child_t *child, const char *format,
                        ...) __attribute__ ((format (printf, 3, 4)));

static void report (const wm_processes_t *self, const char *format, ...)
{
    va_list args;
    char time[WM_LOG_TIME_BYTES];
    if (self->before_message)
        self->before_message ();
    fprintf (stderr, "%swiremill %s: ", wm_log_time (time), self->verb);
    va_start (args, format);
    vfprintf (stderr, format, args);
    va_end (args);
    fputc ('\n', stderr);
}

/* Shows what a child has logged since the last time.  */
static void show_log (const wm_processes_t *self, wm_child_t *child)
{
    if (self->before_message)
        self->before_message ();
    wm_child_show (child, "", stderr);
}

/* Reports how a child ended, and what follows from that.  */
static void report_end (const wm_processes_t *self, const wm_child_t *child, const char *format,
                        ...)
{
    va_list args;
    char next[PATH_MAX + 256], how[WM_CHILD_HOW_BYTES];
    va_start (args, format);
    vsnprintf (next, sizeof next, format, args);
    va_end (args);
    const char *log = self->setup ? child->log : ""; /* else it is in memory */
    report (self, "%s%s ended by %s%s; %s%s%s", strchr (child->name, '-') ? "" : "the ",
            child->name, wm_child_how (child, how),
            wm_child_has_logged (child) ? "" : " and logged nothing", next,
            *log ? "; its log: " : "", log);
}

static int code_of (const wm_child_t *child)
{
    return WIFEXITED (child->status) ? WEXITSTATUS (child->status) : WM_EXIT_AGAIN;
}

static int failed (const wm_processes_t *self, const wm_error_t *error)
{
    if (self->before_message)
        self->before_message ();
    return wm_complain (self->verb, error);
}

/* ---- signals --------------------------------------------------------------------------------- */

static volatile int *stop_count;

static void on_signal (int signal)
{
    if (signal != SIGCHLD)
        ++*stop_count;
}

void wm_processes_signals (volatile int *stop)
{
    static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD };
    struct sigaction action = { .sa_handler = on_signal };
    sigset_t set;
    stop_count = stop;
    sigemptyset (&set);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        sigaction (wanted[i], &action, NULL);
        sigaddset (&set, wanted[i]);
    }
    sigprocmask (SIG_BLOCK, &set, NULL);
    signal (SIGPIPE, SIG_IGN);
}

/* Sleeps until a signal comes, or `fd` (-1: none) can be read.  */
static void nap (int fd, int64_t ms)
{
    sigset_t none;
    sigemptyset (&none);
    struct pollfd item = { .fd = fd, .events = POLLIN };
    const struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
    ppoll (&item, 1, &time, &none);
}

void wm_processes_nap (int64_t ms)
{
    nap (-1, ms);
}

/* ---- producers: starting ---------------------------------------------------------------------

   A place of self->sender is free while its list of inputs is empty. Exit codes 0, 3 and 5 are
   about a producer's own inputs only: the others go on. Any other code ends the campaign.  */

/* Fills in the next producer, which is not started yet.  */
static wm_fault_t sender_init (wm_processes_t *self, const wm_inputs_t *inputs, uint32_t first,
                               wm_error_t *error)
{
    char name[24] = "producer", memory[32];
    int fd, i = 0;
    while (i < self->n_sender && self->sender[i].inputs.n_file)
        i++;
    if (i)
        snprintf (name, sizeof name, "producer-%d", i + 1);
    assert (i < WM_PROCESSES_SENDERS_MAX); /* wm_processes_has_room */
    self->n_sender = i == self->n_sender ? i + 1 : self->n_sender;
    wm_sender_t *sender = &self->sender[i];
    *sender = (wm_sender_t){ .child = sender->child, .inputs = *inputs, .first = first };
    if (sender->child.name[0]) /* an earlier one's place, with its log */
        return WM_OK;
    if (self->setup)
        return wm_child_init (&sender->child, name, self->log_folder, error);
    /* a farm's broker: there is no campaign here to keep a log in */
    wm_fault_t fault = wm_child_init (&sender->child, name, NULL, error);
    if (!fault)
        fault = wm_memory_file ("producer.log", "", 0, &fd, memory, error);
    strcpy (sender->child.log, fault ? "" : memory);
    return fault;
}

/* A pipe of its own for each start, so that nothing of an earlier process is mixed up with it.  */
static wm_fault_t tell_open (wm_sender_t *sender, wm_error_t *error)
{
    for (int i = 0; i < 2; i++)
        if (sender->tell[i])
            close (sender->tell[i]);
    sender->n_line = 0;
    sender->low = sender->is_away = false;
    if (pipe2 (sender->tell, O_CLOEXEC) || fcntl (sender->tell[0], F_SETFL, O_NONBLOCK)) {
        sender->tell[0] = sender->tell[1] = 0;
        return wm_fault (error, WM_EHOST, "a pipe for the producer: %s", strerror (errno));
    }
    snprintf (sender->tell_name, sizeof sender->tell_name, "/proc/self/fd/%d", sender->tell[1]);
    return WM_OK;
}

static wm_fault_t start_producer (wm_processes_t *self, wm_sender_t *sender, wm_error_t *error)
{
    const char *argv[28 + 2 * WM_JOIN_FILES_MAX] = {
        "wiremill-producer", "produce",   "--broker",    self->endpoint, "--input-list",
        sender->inputs.path, "--command", self->command, "--parent"
    };
    int n = 9;
    if (tell_open (sender, error))
        return error->fault;
    argv[n++] = "--tell";
    argv[n++] = sender->tell_name;
    sender->retry_held |= self->retry_held;
    self->retry_held = false;
    if (sender->retry_held && sender->n_retry++ <= PRODUCER_DEATHS_MAX)
        argv[n++] = "--retry-held";
    if (self->give_up) {
        argv[n++] = "--give-up";
        argv[n++] = self->give_up;
    }
    const char *const stage[][2] = { { "--scratch", *self->scratch ? self->scratch : NULL },
                                     { "--stage-ahead", self->stage_ahead },
                                     { "--stage-bytes", self->stage_bytes },
                                     { "--output", self->store } };
    for (size_t i = 0; i < sizeof stage / sizeof *stage; i++)
        if (stage[i][1]) {
            argv[n++] = stage[i][0];
            argv[n++] = stage[i][1];
        }
    if (self->store && self->sidecars)
        argv[n++] = "--sidecars";
    if (!self->setup && !self->asks)
        argv[n++] = "--summary";
    const bool has_own = wm_join_suffices (WM_ROLE_PRODUCER);
    for (size_t i = 0; !self->setup && wm_join_path (i); i++) {
        if (has_own && !wm_join_fits (i, WM_ROLE_PRODUCER))
            continue; /* a hostile event file shall not find an operator's key */
        argv[n++] = "--join-file";
        argv[n++] = wm_join_give (i);
    }
    return wm_child_start (&sender->child, argv[0], argv, error);
}

bool wm_processes_has_room (const wm_processes_t *self, bool when_low)
{
    bool room = self->n_sender < WM_PROCESSES_SENDERS_MAX, low = true;
    for (int i = 0; i < self->n_sender; i++) {
        const wm_sender_t *sender = &self->sender[i];
        room |= !sender->inputs.n_file;
        low &= !sender->inputs.n_file || sender->low;
    }
    return room && (low || !when_low);
}

int wm_processes_add (wm_processes_t *self, const wm_inputs_t *inputs, uint32_t first)
{
    wm_error_t error;
    wm_sender_t *sender = NULL;
    if (sender_init (self, inputs, first, &error))
        return failed (self, &error);
    for (int i = 0; i < self->n_sender; i++)
        if (self->sender[i].inputs.n_file && self->sender[i].first == first)
            sender = &self->sender[i];
    return start_producer (self, sender, &error) ? failed (self, &error) : WM_PROCESSES_WORKING;
}

/* ---- producers: listening -------------------------------------------------------------------- */

/* A producer logs warnings only: held inputs, a full disk. They are shown as they come.  */
static void show_producer_log (wm_processes_t *self, wm_sender_t *sender)
{
    struct stat st;
    const int64_t now = wm_now_ms ();
    if (now < sender->log_ms)
        return;
    sender->log_ms = now + LOG_MS;
    if (stat (sender->child.log, &st) || st.st_size <= sender->child.shown)
        return;
    show_log (self, &sender->child);
}

static bool is_name (const char *name)
{
    return *name && *name != '.' && !strchr (name, '/');
}

/* "SLOT NAME" of an output on its way to a server: SLOT is a number.  */
static void placed (wm_processes_t *self, uint32_t input, char *rest)
{
    char *name, folder[PATH_MAX + 40];
    const unsigned long slot = strtoul (rest, &name, 10);
    if (name == rest || *name != ' ' || !self->store || !self->sidecars || !is_name (name + 1))
        return;
    snprintf (folder, sizeof folder, "%s/%lu/out", self->scratch, slot);
    self->placed (self->told_argument, input, folder, name + 1);
}

/* Acts on a line of a producer, which a hostile file may have taken over: an output is named
   without its folder, and its input by a number of this producer's.  */
static void heard (wm_processes_t *self, wm_sender_t *sender, char *line)
{
    static const struct {
        const char *word;
        wm_file_source_is_t is;
    } words[] = { { "placed ", WM_FILE_SOURCE_WAITS },
                  { "written ", WM_FILE_SOURCE_WRITTEN },
                  { "held ", WM_FILE_SOURCE_HELD },
                  { "changed ", WM_FILE_SOURCE_CHANGED },
                  { "edited ", WM_FILE_SOURCE_EDITED } };
    char *end;
    size_t word = 0;
    if (strncmp (line, "output ", 7) == 0 && !self->output[0])
        snprintf (self->output, sizeof self->output, "%s", line + 7);
    sender->low |= strcmp (line, "low") == 0;
    sender->is_away |= strcmp (line, "away") == 0;
    while (word < sizeof words / sizeof *words &&
           strncmp (line, words[word].word, strlen (words[word].word)) != 0)
        word++;
    if (word == sizeof words / sizeof *words)
        return;
    const wm_file_source_is_t is = words[word].is;
    const char *number = line + strlen (words[word].word);
    const unsigned long n = strtoul (number, &end, 10);
    const bool has_name = is == WM_FILE_SOURCE_WAITS || is == WM_FILE_SOURCE_WRITTEN;
    if (end == number || n >= sender->inputs.n_file || *end != (has_name ? ' ' : 0))
        return;
    const uint32_t input = sender->first + (uint32_t) n;
    if (is == WM_FILE_SOURCE_WAITS)
        placed (self, input, end + 1);
    else if (!has_name || is_name (end + 1))
        self->told (self->told_argument, input, is, has_name ? end + 1 : NULL);
}

/* Acts on lines for HEAR_MS, since each may wait for a disk: a Ctrl-C is taken between calls.
   Returns whether there may be more.  */
static bool hear (wm_processes_t *self, wm_sender_t *sender)
{
    char text[512];
    ssize_t n = 1;
    for (const int64_t end_ms = wm_now_ms () + HEAR_MS; n > 0 && wm_now_ms () <= end_ms;) {
        n = sender->tell[0] ? read (sender->tell[0], text, sizeof text) : 0;
        for (ssize_t i = 0; i < n; i++)
            if (text[i] == '\n') {
                sender->line[sender->n_line] = 0;
                sender->n_line = 0;
                heard (self, sender, sender->line);
            } else if (sender->n_line < sizeof sender->line - 1)
                sender->line[sender->n_line++] = text[i];
    }
    return n > 0;
}

static void read_reports (wm_processes_t *self)
{
    for (int i = 0; i < self->n_sender; i++) {
        show_log (self, &self->sender[i].child);
        while (hear (self, &self->sender[i]))
            ;
    }
}

/* ---- producers: restarting them -------------------------------------------------------------- */

/* The outputs' server, which has answered another producer, does not answer this one: it is started
   again after a pause.  */
static int producer_waits (wm_processes_t *self, wm_sender_t *sender)
{
    const int64_t wait_ms = wm_times ()->stage_wait_ms, now = wm_now_ms ();
    const wm_restart_rule_t rule = { .first = wait_ms, .most = AWAY_WAITS_MAX * wait_ms };
    wm_restart_failed (&sender->away, &rule, now, false);
    sender->child.restart.at = sender->away.at;
    report (self,
            "the outputs' server does not answer %s; starting it again in %.1f s, its "
            "inputs wait",
            sender->child.name, (double) (sender->away.at - now) / 1e3);
    return WM_PROCESSES_WORKING;
}

/* A producer was ended from outside, or crashed while it read no input: it is started again, but
   only PRODUCER_DEATHS_MAX times while the campaign makes no progress.  */
static int producer_killed (wm_processes_t *self, wm_sender_t *sender)
{
    wm_error_t error;
    static const wm_restart_rule_t rule = { .give_up = PRODUCER_DEATHS_MAX + 1 };
    const bool has_worked = self->progress != sender->progress;
    sender->progress = self->progress;
    if (!wm_restart_failed (&sender->killed, &rule, 0, has_worked)) {
        report_end (self, &sender->child,
                    "that was %d times without progress: it is not started again",
                    sender->killed.in_row);
        return wm_child_crashed (&sender->child) ? WM_EXIT_FAILURE : WM_EXIT_AGAIN;
    }
    report_end (self, &sender->child, "starting it again");
    return start_producer (self, sender, &error) ? failed (self, &error) : WM_PROCESSES_WORKING;
}

/* A producer has ended. WM_PROCESSES_WORKING if it was started again.  */
static int producer_ended (wm_processes_t *self, wm_sender_t *sender)
{
    char how[WM_CHILD_HOW_BYTES];
    wm_error_t error;
    wm_child_t *child = &sender->child;
    const int code = code_of (child);
    show_log (self, child);
    if (sender->is_away && code == WM_EXIT_AGAIN && *self->output)
        return producer_waits (self, sender);
    if (WIFEXITED (child->status)) {
        if (!wm_child_has_logged (child) && code != WM_EXIT_OK && code != WM_EXIT_HELD)
            report_end (self, child, "it is not started again");
        return code;
    }
    if (WTERMSIG (child->status) == SIGTERM) { /* before it could take it as a request */
        report_end (self, child, "it is not started again");
        return WM_EXIT_AGAIN;
    }
    const bool has_crashed = wm_child_crashed (child);
    const char *input = has_crashed ? wm_crash_hold_input (child) : "";
    if (!*input)
        return producer_killed (self, sender);
    wm_child_how (child, how);
    static const wm_restart_rule_t rule = { .give_up = SAME_INPUT_CRASHES_MAX };
    const bool again = strcmp (input, sender->crashed) == 0;
    if (!wm_restart_failed (&child->restart, &rule, wm_now_ms (), !again)) {
        report_end (self, child, "it is not started again");
        return WM_EXIT_FAILURE;
    }
    if (again) {
        report (self, "the producer crashed a second time on %s (%s): held as bad", input, how);
        sender->retry_held = false; /* else this input would be tried again */
        if (wm_crash_hold_hold (self->endpoint, input, how, &error))
            return failed (self, &error);
    } else
        report (self, "the producer crashed by %s on %s; starting it again", how, input);
    snprintf (sender->crashed, sizeof sender->crashed, "%s", input);
    return start_producer (self, sender, &error) ? failed (self, &error) : WM_PROCESSES_WORKING;
}

/* A producer has ended for good, and its exit code describes only its inputs.  */
static void sender_done (wm_processes_t *self, wm_sender_t *sender, int code)
{
    self->ended[code == WM_EXIT_OK ? 0 : code == WM_EXIT_HELD ? 1 : 2]++;
    close (sender->inputs.fd);
    sender->inputs.n_file = 0;
    for (int i = 0; i < 2; i++)
        if (sender->tell[i])
            close (sender->tell[i]);
    sender->tell[0] = sender->tell[1] = 0;
}

/* The exit code of all producers together, once all have ended.  */
static int code_of_all (const wm_processes_t *self)
{
    for (int i = 0; i < self->n_sender; i++)
        if (self->sender[i].inputs.n_file)
            return WM_PROCESSES_WORKING;
    if (self->more)
        return WM_PROCESSES_WORKING;
    if (self->ended[2] && !self->ended[0] && !self->ended[1])
        return WM_EXIT_INPUT;
    return self->ended[1] || self->ended[2] ? WM_EXIT_HELD : WM_EXIT_OK;
}

/* Returns WM_PROCESSES_WORKING, or an exit code that ends the campaign.  */
static int step_producers (wm_processes_t *self)
{
    wm_error_t error;
    for (int i = 0; i < self->n_sender; i++) {
        wm_sender_t *sender = &self->sender[i];
        if (!sender->inputs.n_file)
            continue;
        if (wm_restart_is_due (&sender->child.restart, wm_now_ms ()) &&
            start_producer (self, sender, &error))
            return failed (self, &error);
        sender->has_ended |= wm_child_ended (&sender->child);
        show_producer_log (self, sender);
        if (hear (self, sender) || !sender->has_ended)
            continue;
        sender->has_ended = false;
        const int code = producer_ended (self, sender);
        if (code == WM_EXIT_OK || code == WM_EXIT_HELD || code == WM_EXIT_INPUT)
            sender_done (self, sender, code);
        else if (code != WM_PROCESSES_WORKING)
            return code;
    }
    return code_of_all (self);
}

/* ---- where things go ------------------------------------------------------------------------- */

/* Makes a folder that only this user may enter, on a short path.  */
static wm_fault_t make_temporary (wm_processes_t *self, wm_error_t *error)
{
    const char *runtime = getenv ("XDG_RUNTIME_DIR");
    if (!runtime || !*runtime || strlen (runtime) > IPC_PATH_BYTES_MAX / 2)
        runtime = "/tmp";
    snprintf (self->temporary, sizeof self->temporary, "%s/wiremill-XXXXXX", runtime);
    if (mkdtemp (self->temporary))
        return WM_OK;
    self->temporary[0] = 0;
    return wm_fault (
        error, WM_EHOST,
        "no folder can be made in %s: %s; a campaign with a path of more than %d characters "
        "has its sockets there: choose a shorter --campaign, or set XDG_RUNTIME_DIR",
        runtime, strerror (errno), IPC_PATH_BYTES_MAX - (int) sizeof "/broker.w");
}

/* Sockets lie in the campaign, or, where its path is too long for a socket, in a temporary folder.
 */
static wm_fault_t choose_endpoint (wm_processes_t *self, wm_error_t *error)
{
    const char *folder = self->setup->campaign;
    if (strlen (folder) + strlen ("/broker.w") >= IPC_PATH_BYTES_MAX) {
        if (make_temporary (self, error))
            return error->fault;
        folder = self->temporary;
    }
    snprintf (self->endpoint, sizeof self->endpoint, "ipc://%.*s/broker", IPC_PATH_BYTES_MAX,
              folder);
    return WM_OK;
}

wm_fault_t wm_processes_init (wm_processes_t *self, const char *verb, const wm_setup_t *setup,
                              const wm_inputs_t *inputs, const char *broker, wm_error_t *error)
{
    char name[24];
    memset (self, 0, sizeof *self);
    self->verb = verb;
    self->setup = setup;
    if (!setup) {
        snprintf (self->endpoint, sizeof self->endpoint, "%s", broker);
        wm_command_at ("", broker);
        return sender_init (self, inputs, 0, error);
    }
    if (snprintf (self->log_folder, PATH_MAX, "%s/log", setup->campaign) >= PATH_MAX)
        return wm_fault (error, WM_EHOST, "the path is too long: %.200s...", setup->campaign);
    wm_fault_t fault = wm_folder_make (self->log_folder, 0777, error);
    if (!fault)
        fault = choose_endpoint (self, error);
    if (!fault)
        fault = wm_child_init (&self->broker, "broker", self->log_folder, error);
    if (!fault)
        fault = sender_init (self, inputs, 0, error);
    for (int i = 0; i < WM_PROCESSES_WORKERS_MAX && !fault; i++) {
        snprintf (name, sizeof name, "worker-%d", i + 1);
        fault = wm_child_init (&self->worker[i], name, self->log_folder, error);
    }
    wm_command_at (setup->campaign, "");
    return fault;
}

/* ---- starting -------------------------------------------------------------------------------- */

static wm_fault_t start_broker (wm_processes_t *self, wm_error_t *error)
{
    self->is_awaited = true;
    const char *argv[WM_SETUP_BROKER_WORDS + 11];
    const char *const own[] = { "--parent",
                                "--check-share",
                                self->check_share,
                                "--on-done",
                                self->on_done ? self->on_done : "",
                                "--on-held",
                                self->on_held ? self->on_held : "",
                                "--on-pause",
                                self->on_pause ? self->on_pause : "",
                                self->mixed ? "--mixed" : NULL,
                                NULL };
    const unsigned n = wm_setup_broker (self->setup, self->endpoint, self->command, argv);
    memcpy (argv + n, own, sizeof own);
    return wm_child_start (&self->broker, argv[0], argv, error);
}

static wm_fault_t start_worker (wm_processes_t *self, wm_child_t *worker, wm_error_t *error)
{
    char cache[PATH_MAX + 8], gate[16];
    snprintf (cache, sizeof cache, "%s/models", self->setup->campaign);
    snprintf (gate, sizeof gate, "%d", self->gate[0]);
    const char *argv[24 + 2 * WM_PROCESSES_BULK_MAX + 2 * WM_JOIN_GIVEN_MAX] = {
        "wiremill-worker",
        "--broker",
        self->endpoint,
        "--engine",
        self->engine,
        "--device",
        self->device,
        "--threads",
        self->threads,
        "--cache",
        cache,
        "--model",
        self->setup->pins.wmm,
        "--checked",
        self->setup->checked,
        "--after",
        gate,
        "--parent",
    };
    unsigned n = 18;
    if (self->pin)
        argv[n++] = "--pin";
    if (self->bulk[0] && self->bulk_share) {
        argv[n++] = "--bulk-share";
        argv[n++] = self->bulk_share;
    }
    if (self->bulk_when) {
        argv[n++] = "--bulk-when";
        argv[n++] = self->bulk_when;
    }
    for (unsigned i = 0; self->bulk[i]; i++) {
        argv[n++] = "--beside";
        argv[n++] = self->bulk[i];
    }
    for (size_t i = 0; self->bulk[0] && i < WM_JOIN_GIVEN_MAX && wm_join_path (i); i++) {
        argv[n++] = "--join-file";
        argv[n++] = wm_join_give (i);
    }
    return wm_child_start (worker, argv[0], argv, error);
}

/* The broker has ended: reports why, and starts it again if that can help.  */
static int broker_ended (wm_processes_t *self)
{
    wm_error_t error;
    const int code = code_of (&self->broker);
    const bool by_itself = WIFEXITED (self->broker.status);
    show_log (self, &self->broker);
    if (by_itself && (code == WM_EXIT_USAGE || code == WM_EXIT_INPUT || code == WM_EXIT_AGAIN ||
                      (code == WM_EXIT_FAILURE && !self->has_served))) {
        if (!wm_child_has_logged (&self->broker))
            report_end (self, &self->broker, "it is not started again");
        return code;
    }
    if (by_itself && code == WM_EXIT_OK) {
        report (self, "the broker was asked to stop");
        return WM_EXIT_AGAIN;
    }
    if (!wm_restart_failed (&self->broker.restart, &broker_rule, wm_now_ms (), !self->is_awaited)) {
        report_end (self, &self->broker, "that was %d times in a row: it is not started again",
                    self->broker.restart.in_row);
        return WM_EXIT_FAILURE;
    }
    report_end (self, &self->broker, "starting it again");
    return start_broker (self, &error) ? failed (self, &error) : WM_PROCESSES_WORKING;
}

/* Shows what a broker logs that does not serve yet: it waits for the lock, and names the owner, or
   for room on its disk.  */
static void heed_broker (wm_processes_t *self)
{
    char endpoint[256];
    long pid = 0;
    self->is_awaited =
        !wm_ask_endpoint (self->setup->campaign, endpoint, &pid) || pid != self->broker.pid;
    if (self->is_awaited && wm_now_ms () - self->broker.restart.started > 500)
        show_log (self, &self->broker);
}

/* Waits until the broker serves. `changes` can be read when a file got its name in the campaign;
   -1: the folder is inspected every TICK_MS.  */
static int await_broker (wm_processes_t *self, int changes, const volatile int *stop)
{
    char events[4096];
    while (!*stop) {
        if (wm_child_ended (&self->broker)) {
            const int code = broker_ended (self);
            if (code != WM_PROCESSES_WORKING)
                return code;
        }
        if (changes >= 0 && read (changes, events, sizeof events) < 0 && errno != EAGAIN)
            changes = -1;
        heed_broker (self);
        self->has_served = !self->is_awaited;
        if (self->has_served) {
            wm_child_show (&self->broker, BEGINS_AGAIN, stderr);
            return WM_PROCESSES_WORKING;
        }
        nap (changes, changes < 0 ? TICK_MS : SLOW_TICK_MS);
    }
    return WM_EXIT_AGAIN;
}

static wm_fault_t start_workers (wm_processes_t *self, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    if (pipe2 (self->gate, O_CLOEXEC))
        return wm_fault (error, WM_EHOST, "a pipe for the workers: %s", strerror (errno));
    for (int i = 0; i < self->n_worker && !fault; i++) {
        self->worker[i].keep = self->gate[0];
        if (self->pin)
            wm_child_share (&self->worker[i], i, self->n_worker);
        fault = start_worker (self, &self->worker[i], error);
    }
    return fault;
}

static void open_gate (wm_processes_t *self)
{
    if (self->gate[1] > 0)
        close (self->gate[1]);
    self->gate[1] = -1;
}

int wm_processes_start_broker (wm_processes_t *self, const volatile int *stop)
{
    wm_error_t error;
    int changes = inotify_init1 (IN_CLOEXEC | IN_NONBLOCK);
    if (changes >= 0 && inotify_add_watch (changes, self->setup->campaign, IN_MOVED_TO) < 0) {
        close (changes);
        changes = -1;
    }
    const bool started = !start_broker (self, &error) && !start_workers (self, &error);
    const int code = started ? await_broker (self, changes, stop) : failed (self, &error);
    if (changes >= 0)
        close (changes);
    return code;
}

int wm_processes_start_rest (wm_processes_t *self)
{
    wm_error_t error;
    open_gate (self);
    return self->sender[0].inputs.n_file && start_producer (self, &self->sender[0], &error)
               ? failed (self, &error)
               : WM_PROCESSES_WORKING;
}

/* ---- restarting them ------------------------------------------------------------------------- */

/* A worker does not come back: WM_PROCESSES_WORKING while another runs or will, else this code.
   `why` ends the sentence.  */
static int one_less (wm_processes_t *self, wm_child_t *worker, int code, const char *why)
{
    worker->restart.at = 0;
    for (int i = 0; i < self->n_worker; i++)
        if (self->worker[i].pid || self->worker[i].restart.at)
            return WM_PROCESSES_WORKING;
    report (self, "no worker is left%s", why);
    return code;
}

/* A worker fails again and again. One that has never scored has no engine here.  */
static int give_up (wm_processes_t *self, wm_child_t *worker, bool has_worked)
{
    char how[WM_CHILD_HOW_BYTES], why[sizeof worker->said + 8];
    const bool by_itself = WIFEXITED (worker->status);
    const int code = by_itself ? code_of (worker) : WM_EXIT_FAILURE;
    if (by_itself && *worker->said)
        snprintf (why, sizeof why, ": %s", worker->said);
    else
        snprintf (why, sizeof why, ": %s ended by %s", worker->name, wm_child_how (worker, how));
    report_end (self, worker, "that was %d times in a row: it is not started again",
                worker->restart.in_row);
    return one_less (self, worker, code == WM_EXIT_FAILURE && !has_worked ? WM_EXIT_ENGINE : code,
                     why);
}

/* A worker has ended: plans its return. Returns WM_PROCESSES_WORKING unless none is left.  */
static int worker_ended (wm_processes_t *self, wm_child_t *worker)
{
    const int code = code_of (worker);
    show_log (self, worker);
    /* a command line, a model or an engine that is refused here is refused for every worker */
    if (WIFEXITED (worker->status) && (wm_exit_is_final (code) || code == WM_EXIT_ENGINE)) {
        if (!wm_child_has_logged (worker))
            report_end (self, worker, "other workers would fail identically");
        return code;
    }
    if (WIFEXITED (worker->status) && code == WM_EXIT_OK) { /* the broker asked it to leave */
        report (self, "%s was sent away and is not started again; see %s", worker->name,
                worker->log);
        return one_less (self, worker, WM_EXIT_AGAIN, "; type the same command to continue");
    }
    const bool has_worked = worker->began < 0 || wm_child_log_contains (worker, WORKER_WORKS);
    if (!wm_child_plan_return (worker, has_worked) &&
        (WIFEXITED (worker->status) || wm_child_crashed (worker)))
        return give_up (self, worker, has_worked);
    report_end (self, worker, "starting it again in %.1f s",
                (double) (worker->restart.at - wm_now_ms ()) / 1e3);
    return WM_PROCESSES_WORKING;
}

int wm_processes_step (wm_processes_t *self)
{
    wm_error_t error;
    int code = step_producers (self);
    if (code != WM_PROCESSES_WORKING)
        return code;
    if (self->setup && wm_child_ended (&self->broker) &&
        (code = broker_ended (self)) != WM_PROCESSES_WORKING)
        return code;
    if (self->is_awaited)
        heed_broker (self);
    for (int i = 0; i < self->n_worker; i++) {
        wm_child_t *worker = &self->worker[i];
        if (wm_child_ended (worker) && (code = worker_ended (self, worker)) != WM_PROCESSES_WORKING)
            return code;
        if (wm_restart_is_due (&worker->restart, wm_now_ms ()) &&
            start_worker (self, worker, &error))
            return failed (self, &error);
    }
    return WM_PROCESSES_WORKING;
}

/* ---- stopping -------------------------------------------------------------------------------- */

static int running (wm_processes_t *self)
{
    int n = 0;
    for (int i = 0; i < self->n_sender; i++) {
        wm_child_ended (&self->sender[i].child);
        n += self->sender[i].child.pid != 0;
    }
    for (int i = 0; i < self->n_worker; i++) {
        wm_child_ended (&self->worker[i]);
        n += self->worker[i].pid != 0;
    }
    return n;
}

static void signal_rest (const wm_processes_t *self, int signal)
{
    for (int i = 0; i < self->n_sender; i++)
        wm_child_signal (&self->sender[i].child, signal);
    for (int i = 0; i < self->n_worker; i++)
        wm_child_signal (&self->worker[i], signal);
}

static void remove_temporary (const wm_processes_t *self)
{
    static const char *const names[] = { "broker.w", "broker.p", "broker.o" };
    char path[160];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf (path, sizeof path, "%s/%s", self->temporary, names[i]);
        unlink (path);
    }
    rmdir (self->temporary);
}

void wm_processes_stop (wm_processes_t *self, const volatile int *stop, int kill_at)
{
    const int64_t end = wm_now_ms () + STOP_MS;
    WM_FAILPOINT ("ops-stop");
    signal_rest (self, SIGTERM);
    while (running (self)) {
        wm_child_ended (&self->broker);
        if (*stop >= kill_at || wm_now_ms () > end)
            signal_rest (self, SIGKILL);
        wm_processes_nap (TICK_MS);
    }
    WM_FAILPOINT ("ops-stop-broker");
    wm_child_signal (&self->broker, SIGTERM);
    while (self->broker.pid && !wm_child_ended (&self->broker)) {
        if (*stop >= kill_at || wm_now_ms () > end + STOP_MS)
            wm_child_signal (&self->broker, SIGKILL);
        wm_processes_nap (TICK_MS);
    }
    wm_child_show (&self->broker, "wiremill-broker: --on-", stderr); /* how a command failed */
    read_reports (self);
    if (self->temporary[0])
        remove_temporary (self);
}
