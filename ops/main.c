/* main.c - the `wiremill` command: the table of its verbs.  */
#include "ops/verbs.h"
#include "schema/wm_limits.h"

#include <fcntl.h>
#include <unistd.h>

/* clang-format off */
static const char exit_codes[] =
    "exit codes\n"
    "   0  all done\n"
    "   1  failure\n"
    "   2  usage\n"
    "   3  finished with held events\n"
    "   4  broker unreachable\n"
    "   5  bad model, input or campaign folder\n"
    "   6  the engine asked for cannot run here\n"
    "  75  try again (also: drained, the same command resumes)\n";

static const char bench_text[] =
    "  wiremill bench engine --batch 1,16,64,256,1024,4096 --threads 1,2 --precision fp32,fast\n"
    "  wiremill bench engine --engine sparse,openvino --input data/events.h5 --csv engines.csv\n"
    "  wiremill bench all --json all.json\n\n"
    "engine: the engine alone on batches in memory; pipeline: a whole campaign by real processes;\n"
    "broker: a broker with workers that do no work. Ctrl-C prints what was measured so far.\n";

const wm_verb_t wm_verb_bench = {
    .name = "bench", .task = INSPECT_TASK, .rest = "[engine|pipeline|broker|all] [FILES]",
    .summary = "measure engines, the pipeline or brokers on this machine", .text = bench_text,
    .options = bench_options, .run = bench_main };
/* clang-format on */

#define ROW(name) &wm_verb_##name,
static const wm_verb_t *const verbs[] = { WM_VERBS (ROW) NULL };

static const wm_program_t program = {
    .name = "wiremill",
    .version = WM_VERSION,
    .summary = "scores every hit of many events with a CNN, and finishes whatever is killed",
    .text = exit_codes,
    .verbs = verbs,
};

/* With 0, 1 or 2 closed the next file would take its place, and messages would go into it.  */
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
    return wm_program_run (&program, argc, argv);
}
