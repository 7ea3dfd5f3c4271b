/* wm_processes.c - see wm_processes.h. */

#include "ops/campaign/wm_processes.h"
#include "ops/ask/wm_ask.h"
#include "ops/campaign/wm_processes_private.h"
#include "ops/process/wm_command.h"
#include "ops/process/wm_complain.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_text.h"
#include "schema/session/wm_join.h"
#include "schema/wm_limits.h"

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

/* Five times at once.  */
static const wm_restart_rule_t broker_rule = { .quick = 12000, .give_up = 6 };

void wm_processes_report (const wm_processes_t *self, const char *format, ...)
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
void wm_processes_show_log (const wm_processes_t *self, wm_child_t *child)
{
    if (self->before_message)
        self->before_message ();
    wm_child_show (child, "", stderr);
}

/* Reports how a child ended, and what follows from that.  */
void wm_processes_report_end (const wm_processes_t *self, const wm_child_t *child,
                              const char *format, ...)
{
    va_list args;
    char next[PATH_MAX + 256], how[WM_CHILD_HOW_BYTES];
    va_start (args, format);
    vsnprintf (next, sizeof next, format, args);
    va_end (args);
    const char *log = self->setup ? child->log : ""; /* else it is in memory */
    wm_processes_report (
        self, "%s%s ended by %s%s; %s%s%s", strchr (child->name, '-') ? "" : "the ", child->name,
        wm_child_how (child, how), wm_child_has_logged (child) ? "" : " and logged nothing", next,
        *log ? "; its log: " : "", log);
}

int wm_processes_code_of (const wm_child_t *child)
{
    return WIFEXITED (child->status) ? WEXITSTATUS (child->status) : WM_EXIT_AGAIN;
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
    char name[24], word[PATH_MAX];
    memset (self, 0, sizeof *self);
    self->verb = verb;
    self->setup = setup;
    if (!setup) {
        snprintf (self->endpoint, sizeof self->endpoint, "%s", broker);
        wm_command_at ("", broker);
        return wm_processes_sender_init (self, inputs, 0, error);
    }
    if (snprintf (self->log_folder, PATH_MAX, "%s/log", setup->campaign) >= PATH_MAX)
        return wm_fault (error, WM_EHOST, "the path is too long: %.200s...", setup->campaign);
    wm_fault_t fault = wm_folder_make (self->log_folder, 0777, error);
    if (!fault && access (self->log_folder, W_OK))
        fault = wm_fault (
            error, WM_EBATCH,
            "this user may not write in the campaign %s: %s; inspect it with `wiremill "
            "status %s`, or choose another --output",
            setup->campaign, strerror (errno), wm_text_word (word, sizeof word, setup->campaign));
    if (!fault)
        fault = choose_endpoint (self, error);
    if (!fault)
        fault = wm_child_init (&self->broker, "broker", self->log_folder, error);
    if (!fault)
        fault = wm_processes_sender_init (self, inputs, 0, error);
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
    const char *const argv[] = { "wiremill-broker",
                                 "--campaign",
                                 self->setup->campaign,
                                 "--listen",
                                 self->endpoint,
                                 "--pins",
                                 self->setup->pins_path,
                                 "--wmm",
                                 self->setup->wmm,
                                 "--checked",
                                 self->setup->checked,
                                 "--shape",
                                 self->setup->shape,
                                 "--command",
                                 self->command,
                                 "--parent",
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

int wm_processes_failed (const wm_processes_t *self, const wm_error_t *error)
{
    if (self->before_message)
        self->before_message ();
    return wm_complain (self->verb, error);
}

/* The broker has ended: reports why, and starts it again if that can help.  */
static int broker_ended (wm_processes_t *self)
{
    wm_error_t error;
    const int code = wm_processes_code_of (&self->broker);
    const bool by_itself = WIFEXITED (self->broker.status);
    wm_processes_show_log (self, &self->broker);
    if (by_itself && (code == WM_EXIT_USAGE || code == WM_EXIT_INPUT || code == WM_EXIT_AGAIN ||
                      (code == WM_EXIT_FAILURE && !self->has_served))) {
        if (!wm_child_has_logged (&self->broker))
            wm_processes_report_end (self, &self->broker, "it is not started again");
        return code;
    }
    if (by_itself && code == WM_EXIT_OK) {
        wm_processes_report (self, "the broker was asked to stop");
        return WM_EXIT_AGAIN;
    }
    if (!wm_restart_failed (&self->broker.restart, &broker_rule, wm_now_ms (), !self->is_awaited)) {
        wm_processes_report_end (self, &self->broker,
                                 "that was %d times in a row: it is not started again",
                                 self->broker.restart.in_row);
        return WM_EXIT_FAILURE;
    }
    wm_processes_report_end (self, &self->broker, "starting it again");
    return start_broker (self, &error) ? wm_processes_failed (self, &error) : WM_PROCESSES_WORKING;
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
        wm_processes_show_log (self, &self->broker);
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
    const int code =
        started ? await_broker (self, changes, stop) : wm_processes_failed (self, &error);
    if (changes >= 0)
        close (changes);
    return code;
}

int wm_processes_start_rest (wm_processes_t *self)
{
    wm_error_t error;
    open_gate (self);
    return self->sender[0].inputs.n_file &&
                   wm_processes_start_producer (self, &self->sender[0], &error)
               ? wm_processes_failed (self, &error)
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
    wm_processes_report (self, "no worker is left%s", why);
    return code;
}

/* A worker fails again and again. One that has never scored has no engine here.  */
static int give_up (wm_processes_t *self, wm_child_t *worker, bool has_worked)
{
    char how[WM_CHILD_HOW_BYTES], why[sizeof worker->said + 8];
    const bool by_itself = WIFEXITED (worker->status);
    const int code = by_itself ? wm_processes_code_of (worker) : WM_EXIT_FAILURE;
    if (by_itself && *worker->said)
        snprintf (why, sizeof why, ": %s", worker->said);
    else
        snprintf (why, sizeof why, ": %s ended by %s", worker->name, wm_child_how (worker, how));
    wm_processes_report_end (self, worker, "that was %d times in a row: it is not started again",
                             worker->restart.in_row);
    return one_less (self, worker, code == WM_EXIT_FAILURE && !has_worked ? WM_EXIT_ENGINE : code,
                     why);
}

/* A worker has ended: plans its return. Returns WM_PROCESSES_WORKING unless none is left.  */
static int worker_ended (wm_processes_t *self, wm_child_t *worker)
{
    const int code = wm_processes_code_of (worker);
    wm_processes_show_log (self, worker);
    /* a command line, a model or an engine that is refused here is refused for every worker */
    if (WIFEXITED (worker->status) && (wm_exit_is_final (code) || code == WM_EXIT_ENGINE)) {
        if (!wm_child_has_logged (worker))
            wm_processes_report_end (self, worker, "other workers would fail identically");
        return code;
    }
    if (WIFEXITED (worker->status) && code == WM_EXIT_OK) { /* the broker asked it to leave */
        wm_processes_report (self, "%s was sent away and is not started again; see %s",
                             worker->name, worker->log);
        return one_less (self, worker, WM_EXIT_AGAIN, "; type the same command to continue");
    }
    const bool has_worked = worker->began < 0 || wm_child_log_contains (worker, WORKER_WORKS);
    if (!wm_child_plan_return (worker, has_worked) &&
        (WIFEXITED (worker->status) || wm_child_crashed (worker)))
        return give_up (self, worker, has_worked);
    wm_processes_report_end (self, worker, "starting it again in %.1f s",
                             (double) (worker->restart.at - wm_now_ms ()) / 1e3);
    return WM_PROCESSES_WORKING;
}

int wm_processes_step (wm_processes_t *self)
{
    wm_error_t error;
    int code = wm_processes_step_producers (self);
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
            return wm_processes_failed (self, &error);
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
    wm_processes_read_reports (self);
    if (self->temporary[0])
        remove_temporary (self);
}
