/* main.c - wiremill-producer: events in, results out.  */
#include "producer/verbs.h"

#include "producer/wm_synth.h"
#include "schema/wm_limits.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: wiremill-producer VERB [options]     (--help after a verb explains it)\n"
    "  produce   read input files, have their hits scored by a broker, write the scores\n"
    "  cut       write the patches of a file's hits to a .npy file\n"
    "  sample    print random hits of finished outputs, for wiremill-worker --verify\n"
    "  batches   print the batches of files, for wiremill-worker --bench\n"
    "  synth     write synthetic events\n";

int main (int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run) (int argc, char **argv);
    } verbs[] = { { "produce", produce_main },
                  { "cut", cut_main },
                  { "sample", sample_main },
                  { "batches", batches_main },
                  { "synth", wm_synth_main } };
    const char *word = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp (word, verbs[i].name))
            return verbs[i].run (argc - 1, argv + 1);
    if (!strcmp (word, "--version"))
        return puts ("wiremill-producer " WM_VERSION), WM_EXIT_OK;
    int help = !strcmp (word, "--help");
    if (!help && *word)
        fprintf (stderr, "unknown verb %s\n", word);
    fputs (usage, help ? stdout : stderr);
    return help ? WM_EXIT_OK : WM_EXIT_USAGE;
}
