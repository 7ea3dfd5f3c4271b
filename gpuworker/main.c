/* main.c - wiremill-worker: the command line, the signals, the exit code.  */
#include "gpuworker/wm_worker.h"
#include "schema/wm_fault.h"

#include <czmq.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char usage[] =
    "usage: wiremill-worker --broker ENDPOINT [options]\n"
    "Pulls batches from a broker, scores them and returns the results.\n"
    "\n"
    "  --broker ENDPOINT   tcp://host:port or ipc:///path, as the broker prints it\n"
    "\n"
    "engine\n"
    "  --engine NAME       auto, sparse, openvino, cuda or reference (auto)\n"
    "  --threads N         threads it computes with (default: the CPUs it may use)\n"
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
    "is refused; 1 this machine failed; 2 the command line\n";

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

/* 1: go on; else the exit code is in *code.  */
static int parse (int argc, char **argv, wm_worker_config_t *config, int *parent, int *code)
{
    enum { BROKER = 1, ENGINE, THREADS, CACHE, IDLE, WALL, GIVE_UP, PARENT, HELP };
    static const struct option options[] = {
        { "broker", 1, 0, BROKER },     { "engine", 1, 0, ENGINE },
        { "threads", 1, 0, THREADS },   { "cache", 1, 0, CACHE },
        { "idle-timeout", 1, 0, IDLE }, { "wall-time", 1, 0, WALL },
        { "give-up", 1, 0, GIVE_UP },   { "parent", 0, 0, PARENT },
        { "help", 0, 0, HELP },         { 0 },
    };
    *code = WM_EXIT_USAGE;
    int option;
    while ((option = getopt_long (argc, argv, "", options, NULL)) != -1) {
        double value = option >= IDLE && option <= GIVE_UP ? seconds_of (optarg) : 0;
        if (value < 0) {
            fprintf (stderr, "wiremill-worker: %s is no number of seconds\n", optarg);
            return 0;
        }
        switch (option) {
        case BROKER:
            config->endpoint = optarg;
            break;
        case ENGINE:
            config->engine = optarg;
            break;
        case THREADS:
            config->threads = atoi (optarg);
            break;
        case CACHE:
            config->cache = optarg;
            break;
        case IDLE:
            config->idle_s = value;
            break;
        case WALL:
            config->wall_s = value;
            break;
        case GIVE_UP:
            config->give_up_s = value;
            break;
        case PARENT:
            *parent = 1;
            break;
        case HELP:
            fputs (usage, stdout);
            *code = WM_EXIT_OK;
            return 0;
        default:
            fputs ("try wiremill-worker --help\n", stderr);
            return 0;
        }
    }
    if (optind < argc || !config->endpoint || config->threads < 1 || config->threads > 1024) {
        fprintf (stderr, "wiremill-worker: %s; try wiremill-worker --help\n",
                 optind < argc       ? "only options are taken"
                 : !config->endpoint ? "--broker ENDPOINT is missing"
                                     : "--threads takes 1 to 1024");
        return 0;
    }
    return 1;
}

int main (int argc, char **argv)
{
    wm_worker_config_t config = { .engine = "auto", .threads = cpus (), .give_up_s = 600 };
    int parent = 0, code;
    pid_t parent_pid = getppid ();
    if (!parse (argc, argv, &config, &parent, &code))
        return code;
    /* The kernel ends us with our parent, however that dies; what we hold is computed again.  */
    if (parent && (prctl (PR_SET_PDEATHSIG, SIGKILL) || getppid () != parent_pid)) {
        fputs ("wiremill-worker: its parent is gone\n", stderr);
        return WM_EXIT_AGAIN;
    }
    zsys_handler_set (NULL);
    struct sigaction action = { .sa_handler = on_signal };
    sigaction (SIGTERM, &action, NULL);
    sigaction (SIGINT, &action, NULL);
    setvbuf (stderr, NULL, _IOLBF, 0);

    wm_worker_t *worker = wm_worker_new (&config);
    code = wm_worker_run (worker);
    if (wm_worker_is_busy (worker))
        _exit (code); /* nobody wants what the engine still computes */
    wm_worker_destroy (&worker);
    return code;
}
