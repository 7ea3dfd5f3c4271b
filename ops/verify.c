/* verify.c - `wiremill verify`: every byte of a campaign's outputs, then random hits of them scored
   again.

   wiremill-broker prints what the campaign is pinned to and compares the outputs with the digests
   of when they were written, which finds whatever changed since. What was wrong before it was
   written only another computation finds: wiremill-producer cuts hits again from the inputs,
   wiremill-worker scores and compares them. So many that a share of wrong hits is found with the
   confidence asked for: each hit of the sample misses the share S of wrong ones with the chance 1 -
   S, all n of them with (1 - S)^n.

   A difference shows that two computations disagree, not which is right: no machine is blamed.  */

#include "kernels/wm_device.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/process/wm_command.h"
#include "ops/process/wm_complain.h"
#include "ops/process/wm_memory.h"
#include "ops/process/wm_spawn.h"
#include "ops/verbs.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_url.h"
#include "schema/wm_pins.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BAD_SHOWN_MAX 10
#define CHANGED_SHOWN_MAX 20

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "campaign", .letter = 'c', .value = "DIR",
     .path = WM_PATH_FOLDER, .task = "which campaign",
     .help = "its folder, or the folder of its output (default: here)"},
    {.name = "output", .letter = 'o', .value = "DIR", .path = WM_PATH_PRESENT,
     .help = "copies of its outputs, where these lie on a server (root://)"},
    {.name = "share", .value = "S", .fallback = "0.001",
     .task = "how many hits; each is as likely as any other",
     .help = "the smallest share of wrong hits that must be found (0.1% is 0.001)"},
    {.name = "confidence", .value = "P", .fallback = "0.99",
     .help = "... with this confidence (99% is 0.99)"},
    {.name = "sample", .value = "N", .least = 1, .most = 1L << 40,
     .help = "so many instead; all, if there are fewer"},
    {.name = "seed", .value = "N", .least = 0, .most = 1L << 62,
     .help = "the same seed chooses the same hits (default: others each time)"},
    {.name = "engine", .letter = 'e', .value = WM_ENGINE_NAMES, .one_of = true,
     .path = WM_PATH_READ,
     .fallback = "auto", .task = "how",
     .help = "the engine that scores again, in fp32; auto: reference, else onnxruntime, else "
             "openvino"},
    {.name = "threads", .letter = 't', .value = "N", .least = 1, .most = 1024,
     .help = "threads to compute with (default: the CPUs it may use)"},
    {.name = "tolerance", .value = "X", .real_most = INFINITY, .is_above = true,
     .help = "scores may differ by so much, relative above 1 (default: the max_error that all "
             "outputs state, else what the engines that scored promise: " WM_DEFAULT_TEXT (
                 WM_DEFAULT_ERROR_FP32) " in fp32, " WM_DEFAULT_TEXT (WM_DEFAULT_ERROR_FAST) " in "
             "16 bits; general models " WM_DEFAULT_TEXT (WM_DEFAULT_ERROR_GENERAL) " and "
             WM_DEFAULT_TEXT (WM_DEFAULT_ERROR_ROUNDED) ")"},
    {.name = "against", .value = "FILE", .path = WM_PATH_READ,
     .help = "score nothing: compare all outputs with scores that others wrote, for example "
             "LArSoft, in numl's form (wiremill compare has details)"},
    {.name = "table", .value = "GROUP",
     .help = "the group of those scores in FILE (default: emtrkmichel_table)"},
    {.name = "page", .value = "FILE", .path = WM_PATH_WRITTEN, .writes = &wm_made_comparison,
     .help = "with --against: also write one HTML page with tables and pictures, to look at, "
             "print and sign"},
    WM_OPTION_FORCE,
    {.name = "json", .help = "the result as JSON, schema wiremill-verify-1"},
    {.name = NULL},
};

static const char verify_text[] =
    "  wiremill verify out/ --confidence 0.999\n"
    "  wiremill verify out/ --against larsoft.h5 --page larsoft.html\n\n"
    "First reads every output and compares its digest with the one stored when it was written.\n"
    "Then cuts random hits again from the inputs, scores them and compares them with the outputs.\n"
    "No broker may run. Exit 1: files changed, or hits differ by more than the campaign promises;\n"
    "both are listed. To learn which of the two computations is wrong, verify elsewhere too.\n";

static int verify_main (const wm_args_t *args);
const wm_verb_t wm_verb_verify = {
    .name = "verify", .task = LOOK_TASK, .rest = "[DIR]",
    .summary = "compare outputs with their digests; score random hits again",
    .text = verify_text, .options = options, .run = verify_main };
/* clang-format on */

typedef struct {
    char folder[PATH_MAX];   /* what people type for the campaign */
    const json_t *written;   /* all outputs */
    json_t *sound, *changed; /* those that are as they were written, and the others */
    long long n_left_out, n_bytes;
    const char *rows;         /* what they hold: "hits", "windows", ... */
    double share, confidence; /* what the sample finds, and how surely; 1: it is all hits */
    char sample[24], seed[24];
    char pins[32], list[32], models[PATH_MAX];

    /* what the worker reported */
    json_t *bad;       /* at most WM_VERIFY_BAD_MAX */
    json_t *scored_by; /* signatures */
    char engine[80], bound[16];
    double tolerance, largest;
    long long n_hit, n_bad, n_scored;
    unsigned n_same, n_other; /* engines that scored them: the same as now, and others */
    bool done;
} verify_t;

/* ---- how many hits --------------------------------------------------------------------------- */

/* "0.99" or "99%". 0 or -1 (printed).  */
static int take_share (const wm_args_t *args, const char *name, double *share)
{
    const char *text = wm_args_text (args, name);
    char *end;
    *share = strtod (text, &end);
    if (end != text && *end == '%') {
        *share /= 100;
        end++;
    }
    if (end != text && !*end && *share > 0 && *share < 1)
        return 0;
    wm_args_refuse (args, "--%s takes a number above 0 and below 1, as 0.01 or 1%%, not '%s'", name,
                    text);
    return -1;
}

/* Options that no table checks: before anything is read, which may take long. 0 or -1
   (printed).  */
static int take_options (verify_t *self, const wm_args_t *args)
{
    const char *sample = wm_args_text (args, "sample");
    if (take_share (args, "share", &self->share) ||
        take_share (args, "confidence", &self->confidence))
        return -1;
    const double wanted = ceil (log1p (-self->confidence) / log1p (-self->share));
    snprintf (self->sample, sizeof self->sample, "%.0f", fmin (wanted, 1e15)); /* all, by far */
    if (sample) {
        snprintf (self->sample, sizeof self->sample, "%s", sample);
        self->confidence = -expm1 (strtod (sample, NULL) * log1p (-self->share));
    }
    snprintf (self->seed, sizeof self->seed, "%lld", (long long) time (NULL));
    if (wm_args_text (args, "seed"))
        snprintf (self->seed, sizeof self->seed, "%s", wm_args_text (args, "seed"));
    return 0;
}

/* "if one hit in 1,000 were wrong, this would find it with 99 % confidence".  */
static void print_worth (const verify_t *self)
{
    char count[32], rows[64];
    const double one_in = 1 / self->share, percent = 100 * self->confidence;
    if (self->n_hit == self->n_scored) {
        printf ("that is all of them, so any wrong one is found\n");
        return;
    }
    if (one_in < 1e15 && fabs (one_in - round (one_in)) < 1e-6 * one_in)
        printf ("if %s in %s were wrong, ", wm_show_rows (1, self->rows, rows),
                wm_show_count (llround (one_in), count));
    else
        printf ("if %.4g %% of the %s were wrong, ", 100 * self->share, self->rows);
    if (percent > 99.99)
        printf ("this would find it with more than 99.99 %% confidence\n");
    else
        printf ("this would find it with %.4g %% confidence\n", percent);
}

/* ---- the two programs ------------------------------------------------------------------------ */

/* Reads what the worker prints.  */
static void read_report (verify_t *self, FILE *worker)
{
    char line[512], by[257];
    while (fgets (line, sizeof line, worker)) {
        unsigned file, output;
        unsigned long long row;
        long long run, subrun, event;
        double stored, again;
        sscanf (line, "engine %79s", self->engine);
        if (sscanf (line, "scored %256[^\n]", by) == 1)
            json_array_append_new (self->scored_by, json_string (by));
        sscanf (line, "tolerance %lf %15s", &self->tolerance, self->bound);
        sscanf (line, "by %u %u", &self->n_same, &self->n_other);
        self->done |= sscanf (line, "done %lld %lld %lf %lld", &self->n_hit, &self->n_bad,
                              &self->largest, &self->n_scored) == 4;
        if (sscanf (line, "bad %u %lld %lld %lld %llu %u %lf %lf %256[^\n]", &file, &run, &subrun,
                    &event, &row, &output, &stored, &again, by) != 9)
            continue;
        const json_t *from = json_array_get (self->sound, file);
        json_array_append_new (
            self->bad,
            json_pack ("{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:i, s:o, s:o, s:s}", "input",
                       wm_ask_text (from, "input"), "output", wm_ask_text (from, "output"),
                       "input_changed", json_is_true (json_object_get (from, "input_changed")),
                       "run", (json_int_t) run, "subrun", (json_int_t) subrun, "event",
                       (json_int_t) event, "row", (json_int_t) row, "score", (int) output, "stored",
                       isfinite (stored) ? json_real (stored) : json_null (), "again",
                       isfinite (again) ? json_real (again) : json_null (), "stored_by", by));
    }
    if (self->done && self->n_hit == self->n_scored)
        self->confidence = 1;
}

static int run (verify_t *self, const wm_args_t *args)
{
    const char *const sample[] = {
        "wiremill-producer", "sample",   "--pins",     self->pins, "--list", self->list, "--seed",
        self->seed,          "--sample", self->sample, NULL
    };
    const char *again[16] = { "wiremill-worker", "--verify", "--cache",
                              self->models,      "--engine", wm_args_text (args, "engine") };
    int n = 6, hits[2], report[2];
    for (int i = 0; i < 2; i++) {
        const char *const name[] = { "threads", "tolerance" }, *const word[] = { "--threads",
                                                                                 "--tolerance" };
        if (wm_args_text (args, name[i])) {
            again[n++] = word[i];
            again[n++] = wm_args_text (args, name[i]);
        }
    }
    if (pipe2 (hits, O_CLOEXEC) || pipe2 (report, O_CLOEXEC)) {
        fprintf (stderr, "wiremill verify: pipe: %s\n", strerror (errno));
        return WM_EXIT_FAILURE;
    }
    const pid_t producer = wm_spawn ("verify", sample, STDIN_FILENO, hits[1]);
    close (hits[1]);
    const pid_t worker = wm_spawn ("verify", again, hits[0], report[1]);
    close (hits[0]);
    close (report[1]);
    FILE *lines = fdopen (report[0], "r");
    if (lines) {
        read_report (self, lines);
        fclose (lines);
    }
    const int made = wm_spawn_code ("verify", sample[0], producer),
              compared = wm_spawn_code ("verify", again[0], worker);
    return made ? made : compared ? compared : self->done ? WM_EXIT_OK : WM_EXIT_FAILURE;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* A command about the campaign, for people to type.  */
static void print_hint (const verify_t *self, const char *verb)
{
    printf ("`wiremill %s ", verb);
    wm_command_word (stdout, self->folder);
    putchar ('`');
}

static bool has_damaged (const verify_t *self)
{
    size_t i;
    json_t *one;
    bool found = false;
    json_array_foreach (self->changed, i, one)
    {
        found |= strcmp (wm_ask_text (one, "state"), "damaged") == 0;
    }
    return found;
}

/* Before anything is scored: that may take long.  */
static void show_outputs (const verify_t *self)
{
    char bytes[32];
    size_t i;
    json_t *one;
    const size_t n = json_array_size (self->written), n_changed = json_array_size (self->changed);
    printf ("%zu output%s, %s: ", n, n == 1 ? "" : "s",
            wm_show_bytes ((double) self->n_bytes, bytes));
    if (n_changed)
        printf ("%zu %s written\n", n_changed,
                n_changed == 1 ? "is not as it was" : "are not as they were");
    else
        printf ("every digest is as it was written\n");
    json_array_foreach (self->changed, i, one)
    {
        if (i == CHANGED_SHOWN_MAX)
            break;
        printf ("  %s %s\n", wm_ask_text (one, "output"), wm_ask_text (one, "why"));
    }
    if (n_changed > CHANGED_SHOWN_MAX)
        printf ("  and %zu more: --json names them\n", n_changed - CHANGED_SHOWN_MAX);
    if (has_damaged (self)) {
        printf ("a changed file is no evidence against the machines that scored it: ");
        print_hint (self, "rebuild");
        printf (" renames it, and the next run writes the output again\n");
    }
    if (self->n_left_out) {
        printf ("not compared: %lld with a name that is no UTF-8; ", self->n_left_out);
        print_hint (self, "rebuild --dry-run");
        printf (" reads them too\n");
    }
    fflush (stdout);
}

static double number_or_nan (const json_t *one, const char *name)
{
    const json_t *number = json_object_get (one, name);
    return json_is_real (number) ? json_real_value (number) : (double) NAN;
}

/* Each row that differs, and what shows which of the two is wrong.  */
static void show_bad (const verify_t *self)
{
    size_t i;
    json_t *one;
    char text[64];
    bool input_changed = false;
    json_array_foreach (self->bad, i, one)
    {
        input_changed |= json_is_true (json_object_get (one, "input_changed"));
        if (i >= BAD_SHOWN_MAX)
            continue;
        printf ("  row %lld of %s (event %lld:%lld:%lld, score %lld): stored %.9g by %s, computed "
                "again %.9g by %s, allowed %g\n",
                (long long) wm_ask_int (one, "row"), wm_ask_text (one, "output"),
                (long long) wm_ask_int (one, "run"), (long long) wm_ask_int (one, "subrun"),
                (long long) wm_ask_int (one, "event"), (long long) wm_ask_int (one, "score"),
                number_or_nan (one, "stored"), wm_ask_text (one, "stored_by"),
                number_or_nan (one, "again"), self->engine, self->tolerance);
    }
    if (self->n_bad > BAD_SHOWN_MAX)
        printf ("  and %lld more: --json names up to 1,000\n", self->n_bad - BAD_SHOWN_MAX);
    printf ("%s differ%s by more: one of the two computations is wrong. On another machine, "
            "`wiremill verify --seed %s --sample %s ",
            wm_show_rows (self->n_bad, self->rows, text), self->n_bad == 1 ? "s" : "", self->seed,
            self->sample);
    wm_command_word (stdout, self->folder);
    printf ("` scores the same %s:\n"
            "  if that machine agrees with this one, the stored rows were computed wrongly, by the "
            "engine that is named with them; while a broker runs, `wiremill kick -c ",
            self->rows);
    wm_command_word (stdout, self->folder);
    putchar (' ');
    wm_command_word (stdout, wm_ask_text (json_array_get (self->bad, 0), "input"));
    printf ("` scores this input again\n"
            "  if it agrees with the outputs, the scores were computed wrongly here\n");
    if (input_changed)
        printf ("an input of these changed since it was scored, which explains differences: "
                "restore it, or run again with --retry-held\n");
}

static void show_sample (const verify_t *self)
{
    static const char *const origins[] = {
        "asked",   "given by --tolerance",
        "files",   "as the outputs state (max_error)",
        "fp32",    "as strict fp32 holds; the outputs state less (max_error)",
        "engines", "as the engines that scored promise"
    };
    char hits[32], all[64];
    const char *from = "";
    size_t n;
    json_t *one;
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i += 2)
        from = strcmp (self->bound, origins[i]) ? from : origins[i + 1];
    printf ("%s of %s scored again by %s: ", wm_show_count (self->n_hit, hits),
            wm_show_rows (self->n_scored, self->rows, all), self->engine);
    print_worth (self);
    printf ("largest difference %.2g", self->largest);
    json_array_foreach (self->scored_by, n, one)
        printf ("%s %s", n ? "," : " from", json_string_value (one));
    printf (", allowed %g, %s\n", self->tolerance, from);
    if (self->n_same)
        printf (
            "%s scored by the same engine before: this comparison finds damage, and machines that "
            "compute differently, but no error of the engine itself\n",
            self->n_other ? "some were" : "they were");
    if (self->n_bad)
        show_bad (self);
}

static void print_json (const verify_t *self)
{
    json_t *changed = json_array (), *one;
    size_t i;
    json_array_foreach (self->changed, i, one) json_array_append_new (
        changed, json_pack ("{s:s, s:s, s:s, s:s}", "input", wm_ask_text (one, "input"), "output",
                            wm_ask_text (one, "output"), "state", wm_ask_text (one, "state"), "why",
                            wm_ask_text (one, "why")));
    json_t *root =
        json_pack ("{s:s, s:I, s:I, s:I, s:o, s:b, s:s, s:O, s:b, s:s, s:f, s:f}", "schema",
                   "wiremill-verify-1", "outputs", (json_int_t) json_array_size (self->written),
                   "bytes", (json_int_t) self->n_bytes, "left_out", (json_int_t) self->n_left_out,
                   "changed", changed, "sampled", self->done, "engine", self->engine, "scored_by",
                   self->scored_by, "same_engine", self->n_same > 0, "seed", self->seed, "share",
                   self->share, "confidence", self->done ? self->confidence : 0.0);
    json_t *scored = json_pack (
        "{s:I, s:I, s:I, s:f, s:s, s:o, s:O}", "hits", (json_int_t) self->n_hit, "scored",
        (json_int_t) self->n_scored, "differ", (json_int_t) self->n_bad, "tolerance",
        self->tolerance, "tolerance_from", self->bound, "largest",
        isfinite (self->largest) ? json_real (self->largest) : json_null (), "bad", self->bad);
    json_object_update (root, scored);
    json_decref (scored);
    json_dumpf (root, stdout, JSON_INDENT (2));
    putchar ('\n');
    json_decref (root);
}

/* ---- together -------------------------------------------------------------------------------- */

/* Two lines for each input whose output is as it was written, as a file that the producer
   inherits.  */
static wm_fault_t make_list (verify_t *self, wm_error_t *error)
{
    char *text = NULL;
    size_t bytes = 0, i;
    json_t *one;
    int fd;
    wm_fault_t fault = WM_OK;
    FILE *memory = open_memstream (&text, &bytes);
    if (!memory)
        return wm_fault (error, WM_EHOST, "no memory for a list of outputs");
    json_array_foreach (self->sound, i, one)
    {
        const char *output = wm_ask_text (one, "output"), *input = wm_ask_text (one, "input");
        if (strchr (output, '\n') || strchr (input, '\n'))
            fault = wm_fault (error, WM_EBATCH, "a line break is in the name %s", input);
        fprintf (memory, "%s\n%s\n", output, input);
    }
    fclose (memory);
    if (!fault)
        fault = wm_memory_file ("list", text, bytes, &fd, self->list, error);
    free (text);
    return fault;
}

/* Where the folder of the outputs cannot be read nothing changed: a file system is not mounted, or
   the outputs were moved. Prints what brings it back.  */
static bool is_folder_gone (const verify_t *self)
{
    const json_t *one = json_array_get (self->changed, 0);
    if (!one || !strcmp (wm_ask_text (one, "state"), "damaged"))
        return false;
    const char *output = wm_ask_text (one, "output");
    char folder[PATH_MAX];
    snprintf (folder, sizeof folder, "%.*s", (int) (strrchr (output, '/') - output), output);
    if (access (folder, R_OK | X_OK) == 0)
        return false;
    if (wm_url_of (folder)) {
        fprintf (stderr,
                 "wiremill verify: the outputs lie on a server; copy them, `xrdcp --recursive %s "
                 "COPIES/`, and give their folder with --output\n",
                 folder);
        return true;
    }
    fprintf (
        stderr,
        "wiremill verify: the folder of the outputs, %s, cannot be read: %s; mount it, or give "
        "its new place with `wiremill rebuild %s --output DIR`\n",
        folder, strerror (errno), self->folder);
    return true;
}

/* A missing output cannot be compared; no score is wrong. Prints the command that writes it again,
   last, so that it is the last line.  */
static void print_missing (const verify_t *self, const char *campaign)
{
    size_t i;
    json_t *one;
    json_array_foreach (self->changed, i, one)
    {
        if (strcmp (wm_ask_text (one, "state"), "missing"))
            continue;
        fflush (stdout);
        fprintf (stderr, "wiremill verify: the output %s %s; ", wm_ask_text (one, "output"),
                 wm_ask_text (one, "why"));
        wm_command_advise (stderr, campaign, "to write it again");
        return;
    }
}

static void sort_outputs (verify_t *self, const json_t *outputs)
{
    size_t i;
    json_t *one;
    self->written = json_object_get (outputs, "written");
    self->n_left_out = wm_ask_int (outputs, "left_out");
    self->sound = json_array ();
    self->changed = json_array ();
    self->bad = json_array ();
    self->scored_by = json_array ();
    json_array_foreach (self->written, i, one)
    {
        const char *state = wm_ask_text (one, "state");
        self->n_bytes += wm_ask_int (one, "bytes");
        json_array_append (!strcmp (state, "fine") || !strcmp (state, "touched") ? self->sound
                                                                                 : self->changed,
                           one);
    }
}

/* The exit code of the sample alone.  */
static int sample (verify_t *self, const wm_args_t *args, const char *pins)
{
    wm_error_t error;
    int fd;
    if (json_array_size (self->sound) == 0)
        return WM_EXIT_OK; /* no output is left to draw hits from */
    self->rows = wm_pins_rows (pins);
    if (strcmp (self->rows, "tiles") == 0) {
        fprintf (stderr, "wiremill verify: the results are images, which overlap in the outputs: "
                         "no tile is scored again\n");
        return WM_EXIT_OK;
    }
    if (wm_memory_file ("pins", pins, strlen (pins), &fd, self->pins, &error) ||
        make_list (self, &error))
        return wm_complain ("verify", &error);
    const int code = run (self, args);
    return code ? code : self->n_bad ? WM_EXIT_FAILURE : WM_EXIT_OK;
}

/* What the page cannot know: which campaign, and whether its outputs are as they were written.  */
static void note_write (const verify_t *self, char note[PATH_MAX + 256])
{
    const size_t n = json_array_size (self->written), n_changed = json_array_size (self->changed);
    int at = snprintf (note, PATH_MAX + 256,
                       "A is the campaign %s, of which %zu output%s: ", self->folder, n,
                       n == 1 ? " was written" : "s were written");
    if (n_changed || self->n_left_out)
        snprintf (note + at, PATH_MAX + 256 - (size_t) at,
                  "%zu of them changed since and %lld could not be read; neither is compared.",
                  n_changed, self->n_left_out);
    else
        snprintf (note + at, PATH_MAX + 256 - (size_t) at, "every digest is as it was written.");
}

/* Compares the outputs that are as they were written with independently computed scores. The exit
   code of wiremill-producer compare.  */
static int against (const verify_t *self, const wm_args_t *args)
{
    static const char *const handed_on[][2] = { { "tolerance", "--tolerance" },
                                                { "table", "--table" },
                                                { "page", "--page" } };
    enum { HANDED_ON = sizeof handed_on / sizeof *handed_on };
    char note[PATH_MAX + 256];
    const char **argv = calloc (json_array_size (self->sound) + 15, sizeof *argv);
    size_t n = 0, i;
    json_t *one;
    if (!argv)
        return WM_EXIT_FAILURE;
    argv[n++] = "wiremill-producer";
    argv[n++] = "compare";
    for (i = 0; i < HANDED_ON; i++)
        if (wm_args_text (args, handed_on[i][0])) {
            argv[n++] = handed_on[i][1];
            argv[n++] = wm_args_text (args, handed_on[i][0]);
        }
    if (wm_args_text (args, "page")) {
        note_write (self, note);
        argv[n++] = "--note";
        argv[n++] = note;
    }
    for (i = 0; i < 2; i++)
        if (wm_args_given (args, i ? "force" : "json"))
            argv[n++] = i ? "--force" : "--json";
    argv[n++] = "--";
    json_array_foreach (self->sound, i, one)
    {
        argv[n++] = wm_ask_text (one, "output");
    }
    argv[n++] = wm_args_text (args, "against");
    const bool has_outputs = json_array_size (self->sound) > 0;
    if (!has_outputs && wm_args_text (args, "page"))
        fprintf (stderr, "wiremill verify: no output is as it was written, so that nothing is "
                         "compared and no page is written\n");
    const int code = has_outputs
                         ? wm_spawn_code ("verify", argv[0],
                                          wm_spawn ("verify", argv, STDIN_FILENO, STDOUT_FILENO))
                         : WM_EXIT_OK;
    free (argv);
    return code;
}

static int verify (verify_t *self, const wm_args_t *args, const char *campaign,
                   const json_t *outputs)
{
    const bool json = wm_args_given (args, "json");
    sort_outputs (self, outputs);
    if (json_array_size (self->written) == 0 && !self->n_left_out) {
        fprintf (stderr, "wiremill verify: the campaign has no output yet\n");
        return WM_EXIT_FAILURE;
    }
    if (is_folder_gone (self))
        return WM_EXIT_FAILURE;
    if (!json)
        show_outputs (self);
    const int code = wm_args_text (args, "against")
                         ? against (self, args)
                         : sample (self, args, wm_ask_text (outputs, "pins"));
    const size_t n_changed = json_array_size (self->changed);
    if (json && wm_args_text (args, "against") && n_changed)
        fprintf (stderr, "wiremill verify: %zu output%s changed since written: not compared\n",
                 n_changed, n_changed == 1 ? "" : "s");
    else if (json && (self->done || n_changed))
        print_json (self);
    else if (self->done)
        show_sample (self);
    print_missing (self, campaign);
    return n_changed || self->n_left_out ? WM_EXIT_FAILURE : code;
}

static int verify_main (const wm_args_t *args)
{
    static verify_t self;
    char endpoint[256], campaign[PATH_MAX];
    wm_error_t error;
    int code;
    if (take_options (&self, args))
        return WM_EXIT_USAGE;
    if (wm_args_text (args, "table") && !wm_args_text (args, "against"))
        return wm_args_refuse (args, "--table names a group of the file of --against");
    if (wm_args_text (args, "page") && !wm_args_text (args, "against"))
        return wm_args_refuse (args, "--page is for what is compared with --against");
    if (wm_args_given (args, "force") && !wm_args_text (args, "page"))
        return wm_args_refuse (args, "--force is for --page");
    if (wm_ask_at (NULL,
                   wm_args_text (args, "campaign") ? wm_args_text (args, "campaign")
                                                   : wm_args_rest (args, 0),
                   endpoint, campaign, &error))
        return wm_complain ("verify", &error);
    json_t *outputs =
        wm_ask_ledger ("verify", "--outputs", campaign, wm_args_text (args, "output"), &code);
    if (!outputs)
        return code ? code : WM_EXIT_FAILURE;
    wm_folder_output (campaign, self.folder);
    if (snprintf (self.models, sizeof self.models, "%s/models", campaign) <
        (int) sizeof self.models)
        code = verify (&self, args, campaign, outputs);
    json_decref (self.bad);
    json_decref (self.sound);
    json_decref (self.changed);
    json_decref (outputs);
    return code;
}
