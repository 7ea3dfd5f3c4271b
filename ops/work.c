/* work.c - `wiremill work`: one worker, or one a GPU, kept alive.

   With neither --gpus nor --workers this process becomes the worker. Else it stays and restarts
   them: one that fails is started again with a pause that doubles, up to five quick failures in a
   row; one that leaves with success (idle, wall time, drained, its campaign done, no broker) is
   not. The first Ctrl-C or SIGTERM drains all of them, the second kills.  */

#include "kernels/wm_device.h"
#include "ops/ask/wm_ask.h"
#include "ops/campaign/wm_processes.h"
#include "ops/campaign/wm_gpus.h"
#include "ops/process/wm_beside.h"
#include "ops/process/wm_child.h"
#include "ops/process/wm_complain.h"
#include "ops/verbs.h"
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_systemd.h"
#include "schema/wm_defaults.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define BROKERS_MAX 16 /* the worker's own limit */
#define WORDS_MAX (2 * BROKERS_MAX + 2 * WM_JOIN_FILES_MAX + 32)
#define NAP_MS 50

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "broker", .letter = 'b', .value = "ENDPOINT", .task = "which brokers",
     .help = "the broker's base address (default: WM_BROKER, else the campaign here, else "
             WM_ASK_DEFAULT "); of several, those for clients go first, and those of a kind are "
             "served in rounds, ENDPOINT=3 three times as often"},
    {.name = "bulk-share", .value = "PERCENT", .least = 0, .most = 99,
     .help = "of the time, for bulk campaigns while clients of other brokers wait (default: "
             WM_DEFAULT_BULK_PERCENT "; "
             "0: none)"},
    WM_JOIN_OPTION,
    {.name = "campaign", .letter = 'c', .value = "DIR", .path = WM_PATH_FOLDER,
     .help = "or the campaign's folder, or that of its output, if this machine shares it"},
    {.name = "engine", .letter = 'e', .value = WM_ENGINE_NAMES, .one_of = true,
     .path = WM_PATH_READ,
     .fallback = "auto", .task = "how",
     .help = "auto: a GPU that passes its self-test, else sparse where the model is of its "
             "family, else openvino"},
    DEVICE_OPTION,
    ISA_OPTION,
    ENGINE_MEMORY_OPTION,
    {.name = "gpus", .letter = 'g', .value = "LIST",
     .help = "one worker for each of these GPUs: all, or 0,1"},
    {.name = "workers", .letter = 'w', .value = "N", .least = 1, .most = WM_PROCESSES_WORKERS_MAX,
     .help = "so many workers, which share the CPUs"},
    {.name = "threads", .letter = 't', .value = "N", .least = 1, .most = 1024,
     .help = "threads a worker computes with (default: the CPUs it may use, shared out)"},
    {.name = "pin", .help = "keep each thread on a CPU of its own"},
    {.name = "cache", .value = "DIR", .path = WM_PATH_FOLDER,
     .help = "where fetched models are kept (default: $XDG_CACHE_HOME/wiremill)"},
    {.name = "idle-timeout", .value = "TIME", .real_least = 1, .task = "until when",
     .help = "leave after so long without work"},
    {.name = "wall-time", .value = "TIME", .real_least = 1,
     .help = "drain and leave after so long"},
    {.name = "give-up", .value = "TIME", .real_least = 1,
     .help = "give up after so long without a broker (default: " WM_DEFAULT_WORKER_GIVE_UP ")"},
    {.name = "state-file", .value = "FILE",
     .path = WM_PATH_WRITTEN, .writes = &wm_made_worker_state, .task = "for a batch system",
     .help = "written as JSON once a broker has a worker of this command that can score, "
             "{\"connected\": true ...}; wiremill farm reads it"},
    {.name = NULL},
};

static int work_main (const wm_args_t *args);
const wm_verb_t wm_verb_work = {
    .name = "work", .task = SPREAD_TASK, .rest = "[DIR]",
    .summary = "score what a broker hands out",
    .text = "  wiremill work --broker tcp://head:5555\n"
            "  wiremill work out/\n"
            "  wiremill work --broker tcp://head:5555 --gpus all --idle-timeout 600\n",
    .common = "broker join-file campaign engine device gpus workers threads idle-timeout wall-time",
    .options = options, .run = work_main };
/* clang-format on */

typedef struct {
    const char *argv[WORDS_MAX];
    unsigned n_word, n;
    bool has_gpus, is_pinned;
    char gpu[WM_GPUS_MAX][WM_GPU_BYTES];
    wm_child_t worker[WM_PROCESSES_WORKERS_MAX];
} team_t;

static volatile int stops;

/* ---- the command line of a worker ------------------------------------------------------------ */

static void add (team_t *self, const char *name, const char *value)
{
    self->argv[self->n_word++] = name;
    if (value)
        self->argv[self->n_word++] = value;
}

/* The worker refuses too many brokers: one too many is passed on.  */
static void add_words (team_t *self, const wm_args_t *args, const char *endpoint)
{
    static const char *const names[][2] = {
        { "engine", "--engine" },
        { "cache", "--cache" },
        { "idle-timeout", "--idle-timeout" },
        { "device", "--device" },
        { "isa", "--isa" },
        { "threads", "--threads" },
        { "wall-time", "--wall-time" },
        { "give-up", "--give-up" },
        { "state-file", "--state-file" },
        { "bulk-share", "--bulk-share" },
    };
    const char *broker;
    add (self, "wiremill-worker", NULL);
    for (int i = 0; i <= BROKERS_MAX && (broker = wm_args_each (args, "broker", i)); i++)
        add (self, "--broker", broker);
    if (!wm_args_given (args, "broker"))
        add (self, "--broker", endpoint);
    for (size_t i = 0; wm_join_path (i); i++)
        add (self, "--join-file", wm_join_give (i));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (wm_args_text (args, names[i][0]) &&
            !(self->has_gpus && strcmp (names[i][0], "device") == 0))
            add (self, names[i][1], wm_args_text (args, names[i][0]));
    self->is_pinned = wm_args_given (args, "pin");
    if (self->is_pinned)
        add (self, "--pin", NULL);
}

/* Without --threads each worker gets its share of the CPUs.  */
static void add_threads (team_t *self, const wm_args_t *args, char threads[16])
{
    const int share = wm_allowance ()->cpus / (int) self->n;
    if (wm_args_text (args, "threads"))
        return;
    snprintf (threads, 16, "%d", share > 1 ? share : 1);
    add (self, "--threads", threads);
}

/* ---- the team -------------------------------------------------------------------------------- */

static wm_fault_t start (team_t *self, unsigned i, wm_error_t *error)
{
    if (self->has_gpus)
        setenv ("CUDA_VISIBLE_DEVICES", self->gpu[i],
                1); /* of the child: this process has no GPU */
    return wm_child_start (&self->worker[i], self->argv[0], self->argv, error);
}

/* A worker has ended. The exit code of all if that ends all, else -1.  */
static int worker_ended (team_t *self, unsigned i, int *worst)
{
    char how[WM_CHILD_HOW_BYTES];
    wm_child_t *worker = &self->worker[i];
    const bool by_itself = WIFEXITED (worker->status);
    const int code = WEXITSTATUS (worker->status);
    wm_child_how (worker, how);
    if (by_itself && (wm_exit_is_final (code) || code == WM_EXIT_ENGINE))
        return code; /* other workers would fail identically */
    if (stops || (by_itself && code != WM_EXIT_FAILURE)) {
        if (code && *worst != WM_EXIT_FAILURE)
            *worst = code;
        return -1;
    }
    if (!wm_child_plan_return (worker, true) && by_itself) {
        fprintf (stderr,
                 "wiremill work: %s ended by %s five times in a row and is not started again\n",
                 worker->name, how);
        *worst = WM_EXIT_FAILURE;
        worker->restart.at = 0;
        return -1;
    }
    fprintf (stderr, "wiremill work: %s ended by %s; starting it again in %.1f s\n", worker->name,
             how, (double) (worker->restart.at - wm_now_ms ()) / 1e3);
    return -1;
}

static void signal_all (team_t *self, int number)
{
    for (unsigned i = 0; i < self->n; i++) {
        wm_child_signal (&self->worker[i], number);
        self->worker[i].restart.at = 0;
    }
}

/* Restarts workers until none is left. Returns the exit code.  */
static int tend (team_t *self)
{
    wm_error_t error;
    int worst = WM_EXIT_OK, over = -1, n_signalled = 0;
    for (unsigned left = self->n; left;) {
        wm_processes_nap (NAP_MS);
        if (stops > n_signalled || (over >= 0 && !n_signalled)) {
            signal_all (self, stops > 1 ? SIGKILL : SIGTERM);
            n_signalled = stops > 1 ? stops : 1;
        }
        left = 0;
        for (unsigned i = 0; i < self->n; i++) {
            wm_child_t *worker = &self->worker[i];
            int code = wm_child_ended (worker) ? worker_ended (self, i, &worst) : -1;
            if (code >= 0 && over < 0)
                over = code;
            if (!n_signalled && wm_restart_is_due (&worker->restart, wm_now_ms ()) &&
                start (self, i, &error) && over < 0)
                over = wm_complain ("work", &error);
            left += worker->pid || (worker->restart.at && !n_signalled);
        }
    }
    return over >= 0 ? over : stops ? WM_EXIT_AGAIN : worst;
}

static int work_together (team_t *self)
{
    wm_error_t error;
    char name[24], status[WM_SYSTEMD_STATUS_BYTES];
    for (unsigned i = 0; i < self->n; i++) {
        if (self->has_gpus)
            snprintf (name, sizeof name, "GPU %.16s", self->gpu[i]);
        else
            snprintf (name, sizeof name, "worker-%u", i + 1);
        if (wm_child_init (&self->worker[i], name, NULL, &error))
            return wm_complain ("work", &error);
        if (self->is_pinned)
            wm_child_share (&self->worker[i], (int) i, (int) self->n);
    }
    wm_log_start ();
    wm_systemd_start ();
    wm_allowance_print (wm_allowance (), 0, "wiremill work: ");
    wm_processes_signals (&stops);
    for (unsigned i = 0; i < self->n && !stops; i++)
        if (start (self, i, &error)) {
            signal_all (self, SIGTERM);
            return wm_complain ("work", &error);
        }
    snprintf (status, sizeof status, "works for %s, with %u workers", self->argv[2], self->n);
    wm_systemd_serves (status);
    return tend (self);
}

static int work_main (const wm_args_t *args)
{
    static team_t team;
    char threads[16];
    static char endpoint[256];
    wm_error_t error;
    const char *folder = wm_args_text (args, "campaign");
    if (folder && wm_args_rest (args, 0))
        return wm_args_refuse (args, "--campaign names the folder already: leave '%s' out",
                               wm_args_rest (args, 0));
    folder = folder ? folder : wm_args_rest (args, 0);
    if (folder && wm_args_given (args, "broker"))
        return wm_args_refuse (args, "give --broker or a campaign's folder, not both");
    if (wm_device_heeds (wm_args_text (args, "engine"), wm_args_text (args, "device"), NULL,
                         wm_args_text (args, "isa"), &error))
        return wm_args_refuse (args, "%s", error.text);
    if (wm_args_given (args, "engine-memory") &&
        !wm_device_is_plugin (wm_args_text (args, "engine")))
        return wm_args_refuse (args, "--engine-memory limits a plug-in: --engine ./x.so or torch");
    take_engine_memory (args);
    if (wm_ask_lasting (args, folder, endpoint, &error))
        return wm_complain ("work", &error);
    const char *gpus = wm_args_text (args, "gpus");
    const bool is_cuda = wm_device_engine (wm_args_text (args, "engine"))->is_gpu;
    team.n = (unsigned) wm_args_number (args, "workers");
    if (gpus && (team.n || wm_args_given (args, "device")))
        return wm_args_refuse (args, "--gpus goes with neither --workers nor --device");
    if (gpus && strcmp (wm_args_text (args, "engine"), "opencl") == 0)
        return wm_args_refuse (args, "--gpus counts NVIDIA's GPUs; by OpenCL start a worker for "
                                     "each device, with --device opencl:N");
    if (gpus) {
        team.has_gpus = true;
        team.n = wm_gpus_list (gpus, team.gpu, &error);
        if (!team.n) {
            fprintf (stderr, "wiremill work: %s\n", error.text);
            return error.fault == WM_EBATCH ? WM_EXIT_USAGE : WM_EXIT_ENGINE;
        }
    }
    if (wm_join_hand_on (&error))
        return wm_complain ("work", &error);
    add_words (&team, args, endpoint);
    if (gpus && !is_cuda)
        add (&team, "--device", "cuda");
    if (!team.n)
        return wm_beside_exec (team.argv[0], (char *const *) (uintptr_t) team.argv);
    add_threads (&team, args, threads);
    add (&team, "--parent", NULL);
    return work_together (&team);
}
