/* main.c - the `wiremill` command: the table of its verbs. */

#include "ops/verbs.h"
#include "schema/base/wm_fault.h"
#include "schema/wm_limits.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const wm_option_t no_options[] = { { .name = NULL } };

static const char run_text[] =
    "  wiremill run --model m.onnx --input 'data/*.h5' --output out/\n\n"
    "Killed at any moment, the same command continues; every hit is scored exactly once. The "
    "first\n"
    "Ctrl-C drains and prints the command that resumes, the second kills.\n";
static const char broker_text[] =
    "  wiremill broker  --model m.onnx --output out/ --listen tcp://127.0.0.1:5555\n"
    "  wiremill produce --broker tcp://127.0.0.1:5555 --input 'data/*.h5'\n"
    "  wiremill work    --broker tcp://127.0.0.1:5555\n\n"
    "The three of them are what `wiremill run` starts on one machine.\n";

static const char pause_text[] =
    "  wiremill pause --campaign out/ --why 'the disk is being moved'\n\n"
    "Workers stay, finish what they have and wait. A pause outlives its broker: it is noted in "
    "the\n"
    "campaign's folder until somebody resumes.\n";
static const char drain_text[] =
    "  wiremill drain --campaign out/ --worker node7:4711\n\n"
    "A worker finishes what it executes, gives back the rest, and ends; nothing counts as failed. "
    "With\n"
    "all drained, those that come are sent away too, until somebody resumes or the broker is "
    "started\n"
    "anew.\n";

static const char kick_text[] =
    "  wiremill kick --campaign out/ data/events-7.h5\n\n"
    "Inputs are named by path or number. Their results are forgotten and all of it is scored once\n"
    "more, from the file as it is then; an output that is there stays until the new one is "
    "written.\n"
    "Where no broker runs, `wiremill run --retry-held` does this for what is held or changed.\n";

static const char rebuild_text[] =
    "  wiremill rebuild --dry-run out/\n\n"
    "Reads the whole journal, every result and every byte of the outputs (their digest was noted\n"
    "when they were written). A ledger that is lost, damaged or of another time is made again; an\n"
    "output that is gone or not as it was written is made again by the next run, and what is "
    "there\n"
    "is kept as NAME.damaged-1. Also for a copy of a campaign that was running, and with --output\n"
    "for outputs that were moved or copied. No broker may run. Exit 1 of a dry run: something is "
    "wrong.\n";

static const char verify_text[] =
    "  wiremill verify out/ --confidence 0.999\n\n"
    "First reads every output and compares its digest with that of when it was written. Then cuts "
    "random\n"
    "hits again from the inputs, scores them, and compares with what the outputs hold, as long as "
    "no\n"
    "broker runs. Exit 1 names the files that changed, and the hits that differ by more than the "
    "campaign\n"
    "promises; another machine tells which of the two computations is wrong.\n";

static const char bench_text[] =
    "  wiremill bench engine --batch 1,16,64,256,1024,4096 --threads 1,2 --precision fp32,fast\n"
    "  wiremill bench engine --engine sparse,openvino --input data/events.h5 --csv engines.csv\n"
    "  wiremill bench all --json all.json\n\n"
    "engine is the engine alone on batches in memory; pipeline a whole campaign by real "
    "processes;\n"
    "broker a broker with workers that do no work. Ctrl-C prints what was measured so far.\n";

/* clang-format off */
static const wm_verb_t verbs[] = {
    {.name = "run", .task = "a whole campaign", .rest = "[FILES]",
     .summary = "score files on this machine, or continue", .text = run_text,
     .options = run_options, .run = run_main},
    {.name = "broker", .task = "the same by hand, on many machines",
     .summary = "hold a campaign: hand out work, keep results", .text = broker_text,
     .options = broker_options, .run = broker_main},
    {.name = "produce", .rest = "[FILES]", .summary = "send files, write their scores",
     .options = produce_options, .run = produce_main},
    {.name = "work", .summary = "score what a broker hands out", .options = work_options,
     .run = work_main},
    {.name = "pause", .rest = "[DIR]", .summary = "hand nothing out until wiremill resume",
     .text = pause_text, .options = pause_options, .run = pause_main},
    {.name = "resume", .rest = "[DIR]", .summary = "hand out again, after pause or drain",
     .options = resume_options, .run = resume_main},
    {.name = "drain", .rest = "[DIR]", .summary = "let workers finish and leave",
     .text = drain_text, .options = drain_options, .run = drain_main},
    {.name = "kick", .rest = "INPUT...", .summary = "begin inputs anew that are held, changed or written",
     .text = kick_text, .options = kick_options, .run = kick_main},
    {.name = "status", .task = "looking", .rest = "[DIR]",
     .summary = "how a campaign and its workers stand", .options = status_options,
     .run = status_main},
    {.name = "held", .rest = "[DIR]", .summary = "what is held, and why", .options = held_options,
     .run = held_main},
    {.name = "why", .rest = "[DIR] [INPUT]", .summary = "what holds a campaign or an input back",
     .options = why_options, .run = why_main},
    {.name = "verify", .rest = "[DIR]",
     .summary = "compare digests of the outputs; score random hits again, and compare",
     .text = verify_text, .options = verify_options, .run = verify_main},
    {.name = "bench", .rest = "[engine|pipeline|broker|all] [FILES]",
     .summary = "measure engines, the pipeline or brokers on this machine",
     .text = bench_text, .options = bench_options, .run = bench_main},
    {.name = "doctor", .rest = "[DIR]", .summary = "is this machine fit, and what to do if not",
     .options = doctor_options, .run = doctor_main},
    {.name = "rebuild", .task = "after damage", .rest = "[DIR]",
     .summary = "look at journal, ledger and outputs, make them whole", .text = rebuild_text,
     .options = rebuild_options, .run = rebuild_main},
    {.name = "import", .task = "models and events", .rest = "MODEL",
     .summary = "turn an ONNX model or a frozen .pb into a .wmm, saying which engine it gets",
     .options = import_options, .run = import_main},
    {.name = "model", .rest = "new emtrkmichel", .summary = "write a seeded network as ONNX",
     .options = model_options, .run = model_main},
    {.name = "synth", .summary = "write seeded synthetic events", .options = no_options,
     .pass = pass_to_producer},
    {.name = "cut", .summary = "cut patches to a .npy file, to train on or to look at",
     .options = no_options, .pass = pass_to_producer},
    {.name = "top", .task = "not built yet", .summary = "watch", .options = no_options},
    {.name = "report", .summary = "one HTML file", .options = no_options},
    {.name = "show", .summary = "a picture of a plane", .options = no_options},
    {.name = "plan", .summary = "what would run", .options = no_options},
    {.name = "keys", .summary = "who may come", .options = no_options},
    {.name = NULL},
};
/* clang-format on */

static int unknown (const char *name)
{
    const char *near = wm_verb_nearest (verbs, name);
    fprintf (stderr, "wiremill: there is no verb '%s'%s%s%s; see wiremill --help\n", name,
             near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
    return WM_EXIT_USAGE;
}

/* With 0, 1 or 2 closed the next file would take its place, and words would go into it.  */
static void open_standard_files (void)
{
    int fd;
    while ((fd = open ("/dev/null", O_RDWR)) >= 0 && fd <= 2)
        ;
    if (fd > 2)
        close (fd);
}

int main (int argc, char **argv)
{
    open_standard_files ();
    const char *name = argc > 1 ? argv[1] : "--help";
    if (strcmp (name, "--help") == 0 || strcmp (name, "-h") == 0 || strcmp (name, "help") == 0) {
        wm_verbs_help (verbs);
        return argc > 1 ? WM_EXIT_OK : WM_EXIT_USAGE;
    }
    if (strcmp (name, "--version") == 0) {
        printf ("wiremill %s\n", WM_VERSION);
        return WM_EXIT_OK;
    }
    const wm_verb_t *verb = verbs;
    while (verb->name && strcmp (verb->name, name) != 0)
        verb++;
    if (!verb->name)
        return unknown (name);
    if (verb->pass)
        return verb->pass (argc - 1, argv + 1);
    if (!verb->run) {
        fprintf (stderr, "wiremill %s: not built yet\n", name);
        return WM_EXIT_USAGE;
    }
    int code;
    wm_args_t *args = wm_args_new (verb, argc - 1, argv + 1, &code);
    if (args) {
        code = verb->run (args);
        wm_args_destroy (&args);
    }
    return code;
}
