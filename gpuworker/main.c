/* main.c - wiremill-worker: the command line, the signals, the exit code.  */
#include "gpuworker/wm_bench.h"
#include "gpuworker/wm_engine_process.h"
#include "gpuworker/wm_replay.h"
#include "gpuworker/wm_verify.h"
#include "gpuworker/wm_worker.h"
#include "kernels/wm_device.h"
#include "schema/base/wm_fault.h"
#include "schema/base/wm_log.h"

#include <czmq.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char usage[] =
    "usage: wiremill-worker --broker ENDPOINT [options]\n"
    "       wiremill-worker --replay FILE [--cache DIR]\n"
    "       wiremill-worker --verify --cache DIR [--tolerance X] <SAMPLE\n"
    "       wiremill-worker --bench --cache DIR [--seconds S] [--workers N] [--judged N] <BATCHES\n"
    "Pulls batches from brokers, scores them and returns the results.\n"
    "\n"
    "  --broker ENDPOINT   tcp://host:port or ipc:///path, as the broker prints it; several are\n"
    "                      served in turn, one ending in =N as often as N others\n"
    "  --replay FILE       score the hit that an engine died of once more, and say what happens\n"
    "  --verify            score a sample of wiremill-producer sample again and compare\n"
    "  --tolerance X       ... by so much scores may differ (default: what the outputs state, or "
    "else\n"
    "                      what their engines promise)\n"
    "  --bench             measure the engine on the batches of wiremill-producer batches\n"
    "  --seconds S         ... for so long (2), after as long, 3 at most, to warm up\n"
    "  --judged N          ... and so many hits against the reference in double (1000)\n"
    "  --workers N         ... so many engines side by side (1), each of --threads\n"
    "\n"
    "engine\n"
    "  --engine NAME       auto, sparse, openvino, cuda, cudnn or reference (auto)\n"
    "  --device NAME       auto, cpu, cuda or cuda:N: the same by what it computes on (auto)\n"
    "  --isa NAME          instruction set of the sparse engine: amx, avx512-vnni, avx512, "
    "avx-vnni,\n"
    "                      avx2, c or sse2, also as amx/bf16 (default: by rule, see wiremill "
    "doctor)\n"
    "  --threads N         threads it computes with (default: the CPUs it may use)\n"
    "  --pin               keep each thread on a CPU of its own\n"
    "  --cache DIR         where models are kept (default: $XDG_CACHE_HOME/wiremill)\n"
    "\n"
    "when to leave\n"
    "  --idle-timeout S    after so many seconds without work (default: never)\n"
    "  --wall-time S       after so many seconds in all (default: never)\n"
    "  --give-up S         after so many seconds without a broker (default: 600)\n"
    "  --parent            with the process that started it\n"
    "\n"
    "SIGTERM or SIGINT: finish what executes, give the rest back, leave; a second one: leave at "
    "once.\n"
    "exit: 0 idle, wall time, or the broker is done; 75 stopped by a signal; 4 no broker; 5 the "
    "model\n"
    "is refused; 6 the engine cannot run here; 1 this machine failed; 2 the command line.\n"
    "--replay: 3 the engine dies of it again, 0 it does not\n";

static void on_signal (int number)
{
    (void) number;
    if (zsys_interrupted)
        _exit (WM_EXIT_AGAIN);
    zsys_interrupted = 1;
}

/* Seconds, 0 or more; -1 for anything else.  */
static double seconds_of (const char *text)
{
    char *end;
    double value = strtod (text, &end);
    return end == text || *end || !isfinite (value) || value < 0 || value > 1e9 ? -1 : value;
}

static int cpus (void)
{
    cpu_set_t set;
    return sched_getaffinity (0, sizeof set, &set) ? 1 : CPU_COUNT (&set);
}

/* "ENDPOINT" or "ENDPOINT=N". 0: the weight is none, or there are too many.  */
static int add_broker (wm_worker_config_t *config, char *text)
{
    if (config->n_broker == WM_WORKER_BROKERS_MAX) {
        fprintf (stderr, "wiremill-worker: --broker is taken at most %d times\n",
                 WM_WORKER_BROKERS_MAX);
        return 0;
    }
    unsigned long weight = 1;
    char *equals = strrchr (text, '=');
    if (equals && equals[1] && !equals[1 + strspn (equals + 1, "0123456789")]) {
        weight = strtoul (equals + 1, NULL, 10);
        if (weight < 1 || weight > WM_WORKER_WEIGHT_MAX) {
            fprintf (stderr, "wiremill-worker: --broker %s: the weight is 1 to %d\n", text,
                     WM_WORKER_WEIGHT_MAX);
            return 0;
        }
        *equals = '\0';
    }
    config->broker[config->n_broker].endpoint = text;
    config->broker[config->n_broker++].weight = (unsigned) weight;
    return 1;
}

/* Leaves only GPU `number` of those that CUDA_VISIBLE_DEVICES leaves to see, which a batch system may
   have set: the engine, and its health, see no other. 0: it leaves fewer.  */
static int choose_gpu (const char *number)
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

/* "auto", "cpu", "cuda", "cuda:N" as an engine and the device it may see. 0: it is none of them, or
   not of the engine that was named.  */
static int choose_device (wm_worker_config_t *config, const char *device)
{
    const int cuda = strncmp (device, "cuda", 4) == 0 && (!device[4] || device[4] == ':');
    const int named = strcmp (config->engine, "auto") != 0;
    if (cuda && device[4]) {
        const char *number = device + 5;
        if (!*number || number[strspn (number, "0123456789")]) {
            fprintf (stderr, "wiremill-worker: --device %s: a GPU is cuda:N, N a number\n", device);
            return 0;
        }
        if (!choose_gpu (number)) {
            fprintf (stderr, "wiremill-worker: --device %s: CUDA_VISIBLE_DEVICES leaves only %s\n",
                     device, getenv ("CUDA_VISIBLE_DEVICES"));
            return 0;
        }
    }
    setenv ("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0); /* numbers mean what they mean to NVML */
    if (!cuda && strcmp (device, "auto") != 0 && strcmp (device, "cpu") != 0) {
        fprintf (stderr, "wiremill-worker: --device %s: there are auto, cpu, cuda and cuda:N\n",
                 device);
        return 0;
    }
    if (strcmp (device, "auto") != 0 && named &&
        cuda != wm_device_engine (config->engine)->is_gpu) {
        fprintf (stderr, "wiremill-worker: --device %s and --engine %s do not go together\n",
                 device, config->engine);
        return 0;
    }
    if (cuda && !named)
        config->engine = "cuda";
    return 1;
}

typedef struct {
    wm_worker_config_t config;
    const char *device, *replay;
    int parent, verify, bench, workers, judged;
    double tolerance, seconds;
} options_t;

static int check (options_t *self, int words_left)
{
    const wm_worker_config_t *config = &self->config;
    const char *wrong =
        words_left                                        ? "only options are taken"
        : (self->verify || self->bench) && !config->cache ? "--cache DIR is missing"
        : !config->n_broker && !self->replay && !self->verify && !self->bench
            ? "--broker ENDPOINT is missing"
        : self->judged < 0 || self->judged > 1000000                ? "--judged takes 0 to 1000000"
        : self->workers < 1 || self->workers > WM_BENCH_WORKERS_MAX ? "--workers takes 1 to 64"
        : config->threads < 1 || config->threads > 1024             ? "--threads takes 1 to 1024"
                                                                    : NULL;
    if (wrong)
        fprintf (stderr, "wiremill-worker: %s; try wiremill-worker --help\n", wrong);
    return !wrong && choose_device (&self->config, self->device);
}

enum {
    BROKER = 1,
    ENGINE,
    DEVICE,
    THREADS,
    PIN,
    CACHE,
    IDLE,
    WALL,
    GIVE_UP,
    PARENT,
    REPLAY,
    VERIFY,
    TOLERANCE,
    BENCH,
    SECONDS,
    WORKERS,
    JUDGED,
    ISA,
    HELP
};

/* One option. 0: its value is none.  */
static int take (options_t *self, int option, char *value)
{
    wm_worker_config_t *config = &self->config;
    double *const seconds[] = { &config->idle_s, &config->wall_s, &config->give_up_s };
    const char **const text[] = { [ENGINE] = &config->engine,
                                  [DEVICE] = &self->device,
                                  [CACHE] = &config->cache,
                                  [REPLAY] = &self->replay };
    switch (option) {
    case BROKER:
        return add_broker (config, value);
    case THREADS:
        config->threads = atoi (value);
        return 1;
    case PIN:
        config->pin = 1;
        return 1;
    case PARENT:
        self->parent = 1;
        return 1;
    case VERIFY:
        self->verify = 1;
        return 1;
    case TOLERANCE:
        self->tolerance = seconds_of (value);
        if (self->tolerance <= 0)
            fprintf (stderr, "wiremill-worker: --tolerance %s is no number above 0\n", value);
        return self->tolerance > 0;
    case ISA:
        return setenv ("WM_ISA", value, 1) == 0; /* the engine process reads it, too */
    case BENCH:
        self->bench = 1;
        return 1;
    case SECONDS:
        self->seconds = seconds_of (value);
        if (self->seconds < 0)
            fprintf (stderr, "wiremill-worker: --seconds %s is no number of seconds\n", value);
        return self->seconds >= 0;
    case WORKERS:
        self->workers = atoi (value);
        return 1;
    case JUDGED:
        self->judged = atoi (value);
        return 1;
    case IDLE:
    case WALL:
    case GIVE_UP:
        *seconds[option - IDLE] = seconds_of (value);
        if (*seconds[option - IDLE] < 0)
            fprintf (stderr, "wiremill-worker: %s is no number of seconds\n", value);
        return *seconds[option - IDLE] >= 0;
    default:
        *text[option] = value;
        return 1;
    }
}

/* 1: go on; else the exit code is in *code.  */
static int parse (int argc, char **argv, options_t *self, int *code)
{
    static const struct option options[] = {
        { "broker", 1, 0, BROKER },       { "engine", 1, 0, ENGINE },
        { "device", 1, 0, DEVICE },       { "pin", 0, 0, PIN },
        { "threads", 1, 0, THREADS },     { "cache", 1, 0, CACHE },
        { "replay", 1, 0, REPLAY },       { "verify", 0, 0, VERIFY },
        { "tolerance", 1, 0, TOLERANCE }, { "bench", 0, 0, BENCH },
        { "seconds", 1, 0, SECONDS },     { "workers", 1, 0, WORKERS },
        { "idle-timeout", 1, 0, IDLE },   { "wall-time", 1, 0, WALL },
        { "parent", 0, 0, PARENT },       { "give-up", 1, 0, GIVE_UP },
        { "judged", 1, 0, JUDGED },       { "isa", 1, 0, ISA },
        { "help", 0, 0, HELP },           { 0 },
    };
    int option;
    *code = WM_EXIT_USAGE;
    while ((option = getopt_long (argc, argv, "", options, NULL)) != -1) {
        if (option == HELP) {
            fputs (usage, stdout);
            *code = WM_EXIT_OK;
            return 0;
        }
        if (option == '?')
            fputs ("try wiremill-worker --help\n", stderr);
        if (option == '?' || !take (self, option, optarg))
            return 0;
    }
    return check (self, optind < argc);
}

int main (int argc, char **argv)
{
    if (argc > 1 && strcmp (argv[1], WM_ENGINE_MODE) == 0) {
        wm_log_start ();
        return wm_engine_process_main (argc > 2 ? argv[2] : NULL);
    }
    options_t options = { .config = { .engine = "auto", .threads = cpus (), .give_up_s = 600 },
                          .device = "auto",
                          .workers = 1,
                          .judged = 1000,
                          .seconds = 2 };
    int code;
    pid_t parent_pid = getppid ();
    if (!parse (argc, argv, &options, &code))
        return code;
    /* The kernel ends us with our parent, however that dies; what we hold is computed again.  */
    if (options.parent && (prctl (PR_SET_PDEATHSIG, SIGKILL) || getppid () != parent_pid)) {
        fputs ("wiremill-worker: its parent is gone\n", stderr);
        return WM_EXIT_AGAIN;
    }
    if (options.replay)
        return wm_replay_run (options.replay, options.config.cache);
    if (options.bench)
        return wm_bench_run (&(wm_bench_config_t){
            .engine = options.config.engine,
            .cache = options.config.cache,
            .threads = options.config.threads,
            .pin = options.config.pin,
            .workers = options.workers,
            .seconds = options.seconds,
            .judged = options.judged,
            .cpus = cpus (),
        });
    if (options.verify)
        return wm_verify_run (options.config.engine, options.config.threads, options.config.cache,
                              options.tolerance);
    wm_log_start ();
    zsys_handler_set (NULL);
    zsys_init (); /* here, while there is one thread: lanes that came first together would end it */
    struct sigaction action = { .sa_handler = on_signal };
    sigaction (SIGTERM, &action, NULL);
    sigaction (SIGINT, &action, NULL);
    return wm_worker_run (&options.config);
}
