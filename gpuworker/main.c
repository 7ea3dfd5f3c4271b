/* main.c - wiremill-worker: the command line, the signals, the exit code.  */
#include "gpuworker/engine/wm_engine_process.h"
#include "gpuworker/modes/wm_bench.h"
#include "gpuworker/modes/wm_verify.h"
#include "gpuworker/wm_cache.h"
#include "gpuworker/wm_replay.h"
#include "gpuworker/wm_stride.h"
#include "gpuworker/wm_worker.h"
#include "kernels/wm_device.h"
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_fault.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_systemd.h"
#include "schema/option/wm_option.h"
#include "schema/session/wm_join.h"
#include "schema/wm_defaults.h"
#include "schema/wm_limits.h"
#include "schema/wm_made.h"

#include <assert.h>
#include <czmq.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <sys/epoll.h>
#include <signal.h>
#include <unistd.h>

#define SECONDS_MAX 1e9
#define SAME_MS 1000

/* clang-format off */
static const wm_option_t option_table[] = {
    {.name = "broker", .value = "ENDPOINT", .task = "what to do",
     .help = "score for this broker: tcp://host:port or ipc:///path, as the broker prints it; may "
             "be repeated: brokers for clients go first, several of a kind are served in rounds, "
             "one ending in =N as often as N others"},
    {.name = "bulk-share", .value = "PERCENT", .fallback = WM_DEFAULT_BULK_PERCENT, .least = 0,
     .most = WM_STRIDE_BULK_PERCENT_MAX,
     .help = "of the time, for bulk campaigns while clients of other brokers wait; 0: none"},
    WM_JOIN_OPTION,
    {.name = "replay", .value = "FILE", .path = WM_PATH_READ,
     .help = "score once more the hit that an engine died of, and report what happens"},
    {.name = "verify",
     .help = "score again a sample of wiremill-producer sample, from standard input, and compare"},
    {.name = "tolerance", .value = "X", .real_most = INFINITY, .is_above = true,
     .help = "with --verify: scores may differ by so much (default: what the outputs state, or "
             "else what their engines promise)"},
    {.name = "bench",
     .help = "measure the engine on batches of wiremill-producer batches, from standard input"},
    {.name = "seconds", .value = "S", .fallback = WM_DEFAULT_BENCH_SECONDS,
     .real_most = SECONDS_MAX,
     .help = "with --bench: for so long, after as long, 3 at most, to warm up"},
    {.name = "judged", .value = "N", .fallback = WM_DEFAULT_JUDGED, .least = 0, .most = 1000000,
     .help = "with --bench: so many hits are compared with the reference in double"},
    {.name = "workers", .value = "N", .fallback = "1", .least = 1, .most = WM_BENCH_WORKERS_MAX,
     .help = "with --bench: so many engines side by side, each of --threads"},

    {.name = "engine", .value = WM_ENGINE_NAMES, .one_of = true, .path = WM_PATH_READ,
     .fallback = "auto",
     .task = "engine", .help = "what computes the scores"},
    {.name = "device", .value = "NAME", .fallback = "auto",
     .help = "auto, cpu (declines a GPU), cuda, cuda:N, opencl or opencl:N: chooses the engine by "
             "what it computes on"},
    {.name = "isa", .value = "NAME",
     .help = "instruction set of the sparse engine: amx, avx512-vnni, avx512, avx-vnni, avx2, "
             "neon, c or sse2, also as amx/bf16 (default: by rule, see wiremill doctor)"},
    {.name = "threads", .value = "N", .least = 1, .most = 1024,
     .help = "threads it computes with (default: the CPUs it may use, see wiremill doctor)"},
    {.name = "pin", .help = "keep each thread on a CPU of its own"},
    {.name = "cache", .value = "DIR", .path = WM_PATH_FOLDER,
     .help = "where models are kept (default: $XDG_CACHE_HOME/wiremill)"},

    {.name = "model", .value = "SHA256", .task = "of wiremill run",
     .help = "check this model in --cache before the broker is reached"},
    {.name = "checked", .value = "STAMP", .may_be_empty = true,
     .help = "of `wiremill`, which has just checked that model: it is checked again only if the "
             "stamp is not its own any more"},
    {.name = "beside", .value = "ENDPOINT",
     .help = "also score for this broker of a bulk campaign whenever it is there, as --broker; its "
             "end ends nothing"},
    {.name = "bulk-when", .value = "/dev/fd/N", .path = WM_PATH_OPEN,
     .help = "while this inherited descriptor cannot be read, clients of other workers wait: "
             "bulk campaigns get --bulk-share only"},
    {.name = "after", .value = "FD", .least = 3, .most = INT_MAX,
     .help = "wait until this inherited pipe has no writer before reaching the broker"},

    {.name = "idle-timeout", .value = "TIME", .task = "when to leave",
     .help = "after so long without work (default: never)"},
    {.name = "wall-time", .value = "TIME", .help = "after so long in all (default: never)"},
    {.name = "give-up", .value = "TIME", .fallback = WM_DEFAULT_WORKER_GIVE_UP,
     .help = "after so long without a broker"},
    {.name = "parent", .help = "with the process that started it"},
    {.name = "state-file", .value = "FILE",
     .path = WM_PATH_WRITTEN, .writes = &wm_made_worker_state, .task = "for who started it",
     .help = "written as JSON when a broker first has this worker with its engine"},
    {.name = NULL},
};

static const char help_text[] =
    "SIGTERM or SIGINT: finish the batch that executes, give the rest back, leave; a second\n"
    "signal: leave at once.\n\n"
    "exit codes\n"
    "   0  idle, wall time, or the broker is done; with --replay: the engine survives the hit\n"
    "   1  this machine failed\n"
    "   2  usage\n"
    "   3  with --replay: the engine dies of the hit again\n"
    "   4  no broker\n"
    "   5  the model is refused\n"
    "   6  the engine cannot run here\n"
    "   7  the broker refused its key\n"
    "  75  stopped by a signal\n";

static int worker_main (const wm_args_t *args);
static const wm_verb_t verb = {
    .program = "wiremill-worker", .name = "",
    .summary = "pulls batches from brokers, scores them and returns the results",
    .text = help_text, .options = option_table, .run = worker_main };
static const wm_verb_t *const verbs[] = { &verb, NULL };

static const wm_program_t program = {
    .name = "wiremill-worker", .version = WM_VERSION,
    .summary = "scores batches", .verbs = verbs };
/* clang-format on */

/* Some batch systems signal a job's shell and all below it, and the shell hands SIGTERM on: two of
   them within SAME_MS are one.  */
static void on_signal (int number)
{
    static int64_t first_ms;
    if (zsys_interrupted && (number != SIGTERM || wm_now_ms () - first_ms > SAME_MS))
        _exit (WM_EXIT_AGAIN);
    if (!zsys_interrupted)
        first_ms = wm_now_ms ();
    zsys_interrupted = 1;
}

/* Takes every --broker, or --beside, "ENDPOINT" or "ENDPOINT=N". false: refused, and printed.  */
static bool take_brokers (const wm_args_t *args, const char *option, wm_worker_config_t *config)
{
    const char *given;
    for (int i = 0; (given = wm_args_each (args, option, i)); i++) {
        if (config->n_broker == WM_WORKER_BROKERS_MAX)
            return !wm_args_refuse (args, "--%s may be given at most %d times", option,
                                    WM_WORKER_BROKERS_MAX);
        unsigned long weight = 1;
        char *text = strdup (given), *equals = text ? strrchr (text, '=') : NULL;
        assert (text);
        config->broker[config->n_broker].endpoint = text; /* kept until the process ends */
        if (equals && equals[1] && !equals[1 + strspn (equals + 1, "0123456789")]) {
            weight = strtoul (equals + 1, NULL, 10);
            if (weight < 1 || weight > WM_WORKER_WEIGHT_MAX)
                return !wm_args_refuse (args, "--%s %s: the weight is 1 to %d", option, given,
                                        WM_WORKER_WEIGHT_MAX);
            *equals = '\0';
        }
        config->broker[config->n_broker].is_beside = strcmp (option, "beside") == 0;
        config->broker[config->n_broker++].weight = (unsigned) weight;
    }
    return true;
}

/* Leaves only GPU `number` of those that CUDA_VISIBLE_DEVICES leaves visible, which a batch system
   may have set: the engine and its health monitor see no other. false: it leaves fewer.  */
static bool choose_gpu (const char *number)
{
    const char *visible = getenv ("CUDA_VISIBLE_DEVICES");
    char name[96];
    if (!visible || !*visible)
        return !setenv ("CUDA_VISIBLE_DEVICES", number, 1);
    for (unsigned long n = strtoul (number, NULL, 10); n > 0 && *visible; n--) {
        visible += strcspn (visible, ",");
        visible += *visible == ',';
    }
    snprintf (name, sizeof name, "%.*s", (int) strcspn (visible, ","), visible);
    return *name && !setenv ("CUDA_VISIBLE_DEVICES", name, 1);
}

/* Takes --device, which wm_device_heeds has checked, as an engine and the GPU that it may use.
   false: CUDA_VISIBLE_DEVICES hides that GPU, which is printed.  */
static bool choose_device (const wm_args_t *args, wm_worker_config_t *config)
{
    const char *device = wm_args_text (args, "device");
    const size_t n = strcspn (device, ":");
    const bool cuda = n == 4 && strncmp (device, "cuda", n) == 0,
               opencl = n == 6 && strncmp (device, "opencl", n) == 0;
    const bool named = strcmp (config->engine, "auto") != 0;
    if ((cuda || opencl) && device[n]) {
        const char *number = device + n + 1;
        if (cuda && !choose_gpu (number))
            return !wm_args_refuse (args, "--device %s: CUDA_VISIBLE_DEVICES leaves only %s",
                                    device, getenv ("CUDA_VISIBLE_DEVICES"));
        if (opencl)
            setenv ("WM_OPENCL_DEVICE", number, 1);
    }
    setenv ("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0); /* CUDA numbers GPUs as NVML does */
    if ((cuda || opencl) && !named)
        config->engine = cuda ? "cuda" : "opencl";
    else if (strcmp (device, "cpu") == 0 && !named)
        config->engine = "cpu";
    return true;
}

/* Whether a descriptor can be waited for: that of a file cannot.  */
static bool can_wait (int fd)
{
    struct epoll_event event = { .events = 0 };
    const int set = epoll_create1 (EPOLL_CLOEXEC);
    const bool can = set >= 0 && !epoll_ctl (set, EPOLL_CTL_ADD, fd, &event);
    if (set >= 0)
        close (set);
    return can;
}

/* Takes --bulk-when. false: refused, and printed.  */
static bool take_quiet (const char *path, wm_worker_config_t *config)
{
    config->quiet = path ? wm_process_descriptor (path) : -1;
    return !path || (can_wait (config->quiet) && !fcntl (config->quiet, F_SETFD, FD_CLOEXEC)) ||
           !fprintf (stderr,
                     "wiremill-worker: --bulk-when %s: give an inherited descriptor as "
                     "/dev/fd/N\n",
                     path);
}

/* false: refused, and printed.  */
static bool take_options (const wm_args_t *args, wm_worker_config_t *config)
{
    const bool verify = wm_args_given (args, "verify"), bench = wm_args_given (args, "bench");
    *config = (wm_worker_config_t){ .engine = wm_args_text (args, "engine"),
                                    .cache = wm_args_text (args, "cache"),
                                    .state = wm_args_text (args, "state-file"),
                                    .bulk_percent = (unsigned) wm_args_number (args, "bulk-share"),
                                    .threads = (int) wm_args_number (args, "threads"),
                                    .pin = wm_args_given (args, "pin"),
                                    .idle_s = wm_args_seconds (args, "idle-timeout"),
                                    .wall_s = wm_args_seconds (args, "wall-time"),
                                    .give_up_s = wm_args_seconds (args, "give-up") };
    if (!config->threads)
        config->threads = wm_allowance ()->cpus;
    if (!take_quiet (wm_args_text (args, "bulk-when"), config))
        return false;
    if (!take_brokers (args, "broker", config))
        return false;
    const unsigned n_broker = config->n_broker;
    if (!take_brokers (args, "beside", config))
        return false;
    wm_error_t error;
    if (wm_join_take (args, &error))
        return !wm_args_refuse (args, "%s", error.text);
    if (wm_device_heeds (config->engine, wm_args_text (args, "device"), NULL,
                         wm_args_text (args, "isa"), &error))
        return !wm_args_refuse (args, "%s", error.text);
    if ((verify || bench) && !config->cache)
        return !wm_args_refuse (args, "--cache DIR is missing");
    if (!n_broker && !wm_args_given (args, "replay") && !verify && !bench)
        return !wm_args_refuse (args, "--broker ENDPOINT is missing");
    if (wm_args_text (args, "isa") && setenv ("WM_ISA", wm_args_text (args, "isa"), 1))
        return false; /* the engine process reads it, too */
    return choose_device (args, config);
}

static int bench (const wm_args_t *args, const wm_worker_config_t *config)
{
    return wm_bench_run (&(wm_bench_config_t){
        .engine = config->engine,
        .cache = config->cache,
        .threads = config->threads,
        .pin = config->pin,
        .workers = (int) wm_args_number (args, "workers"),
        .seconds = wm_args_real (args, "seconds"),
        .judged = (int) wm_args_number (args, "judged"),
        .cpus = wm_allowance ()->cpus,
    });
}

/* Waits until the pipe that `wiremill run` holds is closed. false: stopped by a signal.  */
static bool may_begin (int fd)
{
    struct pollfd item = { .fd = fd };
    while (!zsys_interrupted && poll (&item, 1, 100) <= 0)
        ; /* a signal just before poll is noticed within its time */
    close (fd);
    return !zsys_interrupted;
}

static int worker_main (const wm_args_t *args)
{
    /* its texts are used, and found by leak checkers, to the end */
    static wm_worker_config_t config;
    if (!take_options (args, &config))
        return WM_EXIT_USAGE;
    /* The kernel kills us when our parent ends, however it does; the batches we hold are scored
       again elsewhere.  */
    if (wm_args_given (args, "parent") && !wm_process_follow (0, SIGKILL)) {
        fputs ("wiremill-worker: the parent process has ended\n", stderr);
        return WM_EXIT_AGAIN;
    }
    if (wm_args_text (args, "replay"))
        return wm_replay_run (wm_args_text (args, "replay"), config.cache);
    if (wm_args_given (args, "bench"))
        return bench (args, &config);
    if (wm_args_given (args, "verify"))
        return wm_verify_run (config.engine, config.threads, config.cache,
                              wm_args_real (args, "tolerance"));
    wm_log_start ();
    if (!wm_args_given (args, "parent"))
        wm_systemd_start ();
    zsys_handler_set (NULL);
    zsys_init (); /* here, while there is one thread: lanes that came first together would end it */
    struct sigaction action = { .sa_handler = on_signal };
    sigaction (SIGTERM, &action, NULL);
    sigaction (SIGINT, &action, NULL);
    if (wm_args_text (args, "model") && config.cache)
        wm_cache_check (config.cache, wm_args_text (args, "model"), wm_args_text (args, "checked"));
    if (wm_args_given (args, "after") && !may_begin ((int) wm_args_number (args, "after")))
        return WM_EXIT_AGAIN;
    wm_allowance_print (wm_allowance (), (int) wm_args_number (args, "threads"),
                        "wiremill-worker: ");
    for (unsigned i = 0; i < config.n_broker; i++)
        fprintf (stderr, "wiremill-worker: connects to %s; engine %s, %d thread%s\n",
                 config.broker[i].endpoint, config.engine, config.threads,
                 config.threads == 1 ? "" : "s");
    char status[WM_SYSTEMD_STATUS_BYTES];
    snprintf (status, sizeof status, "works for %s%s", config.broker[0].endpoint,
              config.n_broker > 1 ? " and others" : "");
    wm_systemd_serves (status);
    return wm_worker_run (&config);
}

int main (int argc, char **argv)
{
    if (argc > 1 && strcmp (argv[1], WM_ENGINE_MODE) == 0) {
        wm_log_start ();
        return wm_engine_process_main (argc > 2 ? argv[2] : NULL);
    }
    return wm_program_run (&program, argc, argv);
}
