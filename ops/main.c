/* main.c - the `wiremill` command: the table of its verbs.  */
#include "ops/help.h"
#include "ops/verbs.h"
#include "schema/wm_limits.h"

/* clang-format off */
static const char exit_codes[] =
    "exit codes\n"
    "   0  all done\n"
    "   1  failure\n"
    "   2  usage; also a file on the command line that does not exist\n"
    "   3  finished; something is held, or changed (wiremill held)\n"
    "   4  broker unreachable\n"
    "   5  bad model, input or campaign folder\n"
    "   6  the engine asked for cannot run here\n"
    "   7  the broker refused the key (--join-file)\n"
    "  75  try again (also: drained, the same command resumes)\n";

/* clang-format on */

#define ROW(name) &wm_verb_##name,
static const wm_verb_t *const verbs[] = { WM_VERBS (ROW) NULL };

static const char first[] =
    "  wiremill doctor                          check whether this machine is fit\n"
    "  wiremill synth --output events.h5        make events to begin with\n"
    "  wiremill run --model synthetic --input events.h5 --output out/\n"
    "  wiremill status out/                     how far it is\n"
    "  wiremill show out/events.scores.h5       the first scores\n";

static const wm_program_t program = {
    .name = "wiremill",
    .version = WM_VERSION,
    .summary = "scores every hit of many events with a CNN and resumes what is killed",
    .first = first,
    .text = exit_codes,
    .page = wm_help_page,
    .verbs = verbs,
};

int main (int argc, char **argv)
{
    return wm_program_run (&program, argc, argv);
}
