/* produce.c - `wiremill-producer produce`: its command line, and what happens when it crashes.  */
#include "producer/verbs.h"

#include "producer/files/wm_h5.h"
#include "producer/session/wm_produce.h"
#include "producer/session/wm_produce_confine.h"
#include "producer/staging/wm_stage.h"
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_url.h"
#include "schema/session/wm_join.h"
#include "schema/wm_defaults.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES (64u << 10) /* of the list of inputs */
#define COMMAND_BYTES_MAX 6000 /* in each output; what is longer (many files by name) is cut */

/* clang-format off */
static const wm_option_t option_table[] = {
    {.name = "broker", .value = "ENDPOINT", .is_needed = true, .task = "what is sent where",
     .help = "the broker's base address: tcp://host:port or ipc:///path"},
    WM_JOIN_OPTION,
    {.name = "input-list", .value = "FILE", .path = WM_PATH_LIST,
     .text = "a list of one path a line", .is_needed = true,
     .help = "file with one path a line (file.h5:/dataset names a dataset of patches)"},
    {.name = "command", .value = "FILE", .path = WM_PATH_READ,
     .help = "the campaign's folder and, from the second line on, its command: outputs name both"},
    {.name = "output", .value = "URL", .path = WM_PATH_FOLDER,
     .help = "root:// folder of the campaign's outputs, where they lie on a server"},
    {.name = "sidecars",
     .help = "with it: each gets a sidecar there, which the process that reads --tell writes here"},
    {.name = "retry-held",
     .help = "score inputs again that are held, or changed since they were added or scored"},
    {.name = "scratch", .value = "DIR", .path = WM_PATH_FOLDER,
     .help = "folder for copies of remote inputs, and for outputs on their way to a server, "
             "of this user alone (default: wiremill-staged-UID in TMPDIR or /tmp)"},
    {.name = "stage-ahead", .value = "N", .least = 1, .most = WM_STAGE_AHEAD_MAX,
     .help = "so many copies before they are read (default: "
             WM_DEFAULT_TEXT (WM_DEFAULT_STAGE_AHEAD) ")"},
    {.name = "stage-bytes", .value = "BYTES", .least = 1, .most = 1L << 50,
     .help = "all copies together, but for one that is larger (default: "
             WM_DEFAULT_TEXT (WM_DEFAULT_STAGE_GIB) " GiB)"},
    {.name = "give-up", .value = "TIME", .fallback = WM_DEFAULT_PRODUCER_GIVE_UP, .real_least = 1,
     .task = "when to end", .help = "after so long without a broker"},
    {.name = "tell", .value = "PIPE", .path = WM_PATH_OPEN,
     .help = "open pipe (/proc/self/fd/N) on which each output is reported"},
    {.name = "parent", .help = "with the process that started this one"},
    {.name = "quiet", .task = "messages", .help = "no warnings"},
    {.name = "summary", .help = "log at the end what became of the inputs"},
    {.name = NULL},
};

static int produce_main (const wm_args_t *args);
const wm_verb_t wm_verb_produce = {
    .program = "wiremill-producer", .name = "produce", .task = "campaigns",
    .summary = "have the hits of files scored by a broker's workers, and write the scores",
    .text = "Writes one HDF5 file of scores for each input into the campaign's output folder.\n"
            "The same command again continues.\n",
    .options = option_table, .run = produce_main };
/* clang-format on */

/* A damaged file may crash the library that reads it; the log then names the file for `wiremill
   run`.  */
static void crashed (int signal_number)
{
    static const char text[] = "error: crashed on input: ";
    const char *path = wm_produce_reading ();
    if (path[0]) {
        ssize_t n = write (STDERR_FILENO, text, sizeof text - 1);
        n = write (STDERR_FILENO, path, strlen (path));
        n = write (STDERR_FILENO, "\n", 1);
        (void) n;
    }
    /* SA_RESETHAND removed the handler; an endless loop counts as a crash */
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

/* Reads the lines of a file. An exit code other than WM_EXIT_OK, after an error is printed: the
   file cannot be read to its end, or has no lines. Only *lines has what was read when it returns:
   URLs may have credentials.  */
static int list_read (const char *name, char ***lines, uint32_t *count)
{
    static char buffer[BUFSIZ];
    FILE *file = fopen (name, "re");
    char **list = NULL, *line = malloc (LINE_BYTES);
    size_t bytes = LINE_BYTES, room = 0;
    ssize_t n = -1;
    bool failed = !line;
    *count = 0;
    if (file)
        setvbuf (file, buffer, _IOFBF, sizeof buffer);
    while (file && !failed && (n = getline (&line, &bytes, file)) > 0 && bytes == LINE_BYTES) {
        if (line[n - 1] == '\n')
            line[--n] = 0;
        if (!n)
            continue;
        failed =
            !wm_grow (&list, &room, *count + 1, sizeof *list) || !(list[*count] = strdup (line));
        *count += !failed;
    }
    const bool is_long = bytes != LINE_BYTES;
    if (line)
        explicit_bzero (line, bytes);
    free (line);
    *lines = list;
    int code = *count ? WM_EXIT_OK : WM_EXIT_USAGE;
    if (!file || ferror (file))
        code = WM_EXIT_USAGE, fprintf (stderr, "error: %s: cannot be read\n", name);
    else if (is_long)
        code = WM_EXIT_USAGE,
        fprintf (stderr, "error: %s: a line is longer than %u bytes\n", name, LINE_BYTES);
    else if (failed || !feof (file))
        code = WM_EXIT_FAILURE, fprintf (stderr, "error: %s: no memory to read it\n", name);
    else if (!*count)
        fprintf (stderr, "error: %s: names no inputs\n", name);
    if (file)
        fclose (file);
    explicit_bzero (buffer, sizeof buffer);
    return code;
}

/* Reads what `wiremill` keeps as the command of a campaign into `text`: folder and command, each ""
   where it is not known.  */
static void command_read (const char *name, char text[COMMAND_BYTES_MAX],
                          wm_produce_options_t *options)
{
    FILE *file = name ? fopen (name, "re") : NULL;
    text[file ? fread (text, 1, COMMAND_BYTES_MAX - 1, file) : 0] = 0;
    if (file)
        fclose (file);
    char *end = text + strcspn (text, "\n"), *command = end + (*end != 0);
    *end = 0;
    for (size_t n = strlen (command); n && command[n - 1] == '\n';)
        command[--n] = 0;
    options->folder = text;
    options->command = command;
}

/* Becomes two processes where inputs or outputs are remote (wm_stage.h). -1 in the one that
   reads.  */
static int stage (const wm_args_t *args, char **list, wm_produce_options_t *options)
{
    static wm_stage_reader_t reader;
    static char spool[PATH_MAX];
    char usual[PATH_MAX];
    const char *scratch = wm_args_text (args, "scratch");
    wm_url_scratch (usual);
    const long ahead = wm_args_number (args, "stage-ahead"),
               most = wm_args_number (args, "stage-bytes");
    const wm_stage_options_t stage_options = { .scratch = scratch ? scratch : usual,
                                               .bytes_max =
                                                   most ? (uint64_t) most : WM_DEFAULT_STAGE_BYTES,
                                               .line = list,
                                               .n_line = options->n_input,
                                               .store = wm_args_text (args, "output"),
                                               .sidecars = options->sidecars };
    const int code = wm_stage_split (&stage_options, &reader);
    options->stager = reader.fd;
    if (reader.is_away && options->tell)
        dprintf (options->tell, "away\n");
    if (code < 0 && reader.fd >= 0) {
        int fd; /* the list has URLs as they were typed, with their credentials */
        if (sscanf (wm_args_text (args, "input-list"), "/proc/self/fd/%d", &fd) == 1)
            close (fd);
        options->ahead = ahead ? (uint32_t) ahead : WM_DEFAULT_STAGE_AHEAD;
        options->staged = reader.folder;
        options->store = stage_options.store;
        snprintf (spool, sizeof spool, "%.4000s/" WM_STAGE_OUT, reader.folder);
        options->spool = spool;
        options->there = reader.there;
        options->n_there = reader.n_there;
    }
    return code;
}

/* The pipe of --tell. 0: none was given. It is ours alone: no program started from here has it.  */
static int tell_take (const wm_args_t *args)
{
    int fd = 0;
    const char *given = wm_args_text (args, "tell");
    if (given && sscanf (given, "/proc/self/fd/%d", &fd) == 1 && fd > 2)
        fcntl (fd, F_SETFD, FD_CLOEXEC);
    return fd > 2 ? fd : 0;
}

static int produce_main (const wm_args_t *args)
{
    static char command[COMMAND_BYTES_MAX];
    wm_error_t why;
    if (wm_join_take (args, &why))
        return wm_args_refuse (args, "%s", why.text);
    wm_produce_options_t options = { .broker = wm_args_text (args, "broker"),
                                     .give_up_ms =
                                         (int64_t) (wm_args_seconds (args, "give-up") * 1000),
                                     .retry_held = wm_args_given (args, "retry-held"),
                                     .summary = wm_args_given (args, "summary"),
                                     .sidecars = wm_args_given (args, "sidecars"),
                                     .tell = tell_take (args),
                                     .quiet = wm_args_given (args, "quiet") };
    if (options.sidecars && (!options.tell || !wm_args_given (args, "output")))
        return wm_args_refuse (args, "--sidecars needs --output and --tell: the program that reads "
                                     "--tell writes them, as `wiremill produce --sidecars` does");
    if (wm_args_given (args, "parent") && !wm_process_follow (0, SIGTERM))
        return WM_EXIT_AGAIN;
    wm_log_start ();
    const wm_allowance_t *allowance = wm_allowance (); /* before the process is confined */
    if (!wm_args_given (args, "parent"))               /* `wiremill` has printed it */
        wm_allowance_print (allowance, 0, "wiremill-producer: ");
    command_read (wm_args_text (args, "command"), command, &options);
    char **list;
    int code = list_read (wm_args_text (args, "input-list"), &list, &options.n_input);
    const int staged = code == WM_EXIT_OK ? stage (args, list, &options) : -1;
    if (staged >= 0)
        code = staged;
    else if (code == WM_EXIT_OK) {
        wm_h5_init ();
        if (options.quiet)
            wm_h5_notes (NULL);
        crash_watch ();
        options.confined = true;
        options.input = (const char *const *) list;
        code = WM_EXIT_FAILURE;
        if (wm_produce_confine_calls (options.broker, &why))
            fprintf (stderr, "error: %s\n", why.text);
        else
            code = wm_produce (&options);
    }
    for (uint32_t i = 0; i < options.n_input; i++)
        free (list[i]);
    free (list);
    return code;
}
