/* produce.c - `wiremill-producer produce`: its command line, and what happens when it crashes.  */
#include "producer/verbs.h"

#include "producer/wm_h5.h"
#include "producer/wm_produce.h"
#include "schema/base/wm_log.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define GIVE_UP_S 60

static const char usage[] =
    "usage: wiremill-producer produce --broker ENDPOINT --input-list FILE [--parent]\n"
    "                                 [--retry-held] [--give-up S] [--quiet]\n"
    "Has the hits of input files scored through a broker, and writes one HDF5 file of scores for\n"
    "each into the campaign's output folder. The same command again continues.\n"
    "  --broker E       the broker's base address: tcp://host:port or ipc:///path\n"
    "  --input-list F   file with one path a line (file.h5:/dataset names a dataset of patches)\n"
    "  --retry-held     score inputs anew that are held, or changed since they were added or "
    "scored\n"
    "  --parent         end with the process that started this one\n"
    "  --give-up S      seconds without a broker before giving up (60)\n"
    "  --quiet          no warnings\n";

/* A damaged file may crash the library that reads it: whoever started us wants to know which.  */
static void crashed (int signal_number)
{
    static const char words[] = "error: crashed on input: ";
    const char *path = wm_produce_reading ();
    if (path[0]) {
        ssize_t n = write (STDERR_FILENO, words, sizeof words - 1);
        n = write (STDERR_FILENO, path, strlen (path));
        n = write (STDERR_FILENO, "\n", 1);
        (void) n;
    }
    /* the handler is gone by SA_RESETHAND; an endless loop counts as a crash */
    if (signal_number == SIGVTALRM)
        signal (signal_number = SIGABRT, SIG_DFL);
    raise (signal_number);
}

static void crash_watch (void)
{
    static char stack[65536]; /* a stack that overflowed is no place for a handler */
    const stack_t other = { .ss_sp = stack, .ss_size = sizeof stack };
    sigaltstack (&other, NULL);
    struct sigaction action = { .sa_handler = crashed,
                                .sa_flags = (int) (SA_RESETHAND | SA_ONSTACK | SA_NODEFER) };
    static const int list[] = { SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGVTALRM };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        sigaction (list[i], &action, NULL);
}

/* Ends with the parent; false: it is gone already.  */
static int parent_follow (void)
{
    pid_t parent = getppid ();
    prctl (PR_SET_PDEATHSIG, SIGTERM);
    return parent != 1 && getppid () == parent;
}

/* The lines of a file. Other than WM_EXIT_OK with a line said: it cannot be read to its end, or has
   none.  */
static int list_read (const char *name, char ***lines, uint32_t *count)
{
    FILE *file = fopen (name, "re");
    char **list = NULL, *line = NULL;
    size_t bytes = 0, room = 0;
    *count = 0;
    for (ssize_t n; file && (n = getline (&line, &bytes, file)) > 0;) {
        if (line[n - 1] == '\n')
            line[--n] = 0;
        if (!n)
            continue;
        if (*count == room) {
            char **grown = realloc (list, (room = room ? 2 * room : 64) * sizeof *list);
            if (!grown)
                break;
            list = grown;
        }
        list[(*count)++] = line;
        line = NULL;
        bytes = 0;
    }
    free (line);
    *lines = list;
    int code = *count ? WM_EXIT_OK : WM_EXIT_USAGE;
    if (!file || ferror (file))
        code = WM_EXIT_USAGE, fprintf (stderr, "error: %s: cannot be read\n", name);
    else if (!feof (file))
        code = WM_EXIT_FAILURE, fprintf (stderr, "error: %s: no memory to read it\n", name);
    else if (!*count)
        fprintf (stderr, "error: %s: names no inputs\n", name);
    if (file)
        fclose (file);
    return code;
}

static int usage_error (const char *format, const char *word)
{
    fprintf (stderr, format, word);
    fputs (usage, stderr);
    return WM_EXIT_USAGE;
}

int produce_main (int argc, char **argv)
{
    wm_produce_options_t options = { .give_up_ms = GIVE_UP_S * 1000 };
    const char *input_list = NULL;
    int parent = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        char *end;
        if (!strcmp (word, "--help"))
            return fputs (usage, stdout), WM_EXIT_OK;
        if (!strcmp (word, "--parent"))
            parent = 1;
        else if (!strcmp (word, "--retry-held"))
            options.retry_held = 1;
        else if (!strcmp (word, "--quiet"))
            options.quiet = 1;
        else if (strcmp (word, "--broker") && strcmp (word, "--input-list") &&
                 strcmp (word, "--give-up"))
            return usage_error ("unknown option %s\n", word);
        else if (!value)
            return usage_error ("%s takes a value\n", word);
        else if (i++, !strcmp (word, "--broker"))
            options.broker = value;
        else if (!strcmp (word, "--input-list"))
            input_list = value;
        else {
            long seconds = strtol (value, &end, 10);
            if (end == value || *end || seconds < 1 || seconds > 1 << 30)
                return usage_error ("--give-up %s is no number of seconds\n", value);
            options.give_up_ms = seconds * 1000;
        }
    }
    if (!options.broker || !input_list)
        return usage_error ("%s is missing\n", options.broker ? "--input-list" : "--broker");
    if (parent && !parent_follow ())
        return WM_EXIT_AGAIN;
    wm_log_start ();
    char **list;
    int code = list_read (input_list, &list, &options.n_input);
    if (code == WM_EXIT_OK) {
        wm_h5_init ();
        crash_watch ();
        options.input = (const char *const *) list;
        code = wm_produce (&options);
    }
    for (uint32_t i = 0; i < options.n_input; i++)
        free (list[i]);
    free (list);
    return code;
}
