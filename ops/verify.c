/* verify.c - `wiremill verify`: random hits of a finished campaign scored again, and compared.

   wiremill-broker says what the campaign is pinned to and what it wrote, wiremill-producer cuts the
   sample's hits again, wiremill-worker scores and compares them; here they are put together.  */

#include "ops/verbs.h"
#include "ops/wm_ask.h"
#include "ops/wm_command.h"
#include "ops/wm_setup.h"
#include "ops/wm_show.h"
#include "ops/wm_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BAD_SHOWN_MAX 10

/* clang-format off */
const wm_option_t verify_options[] = {
    {.name = "campaign", .letter = 'c', .value = "DIR", .task = "of what",
     .help = "folder of the campaign or of its output (default: here)"},
    {.name = "sample", .value = "N", .fallback = "1000", .least = 1, .most = 1L << 40,
     .help = "so many hits; each is as likely as any other"},
    {.name = "seed", .value = "N", .least = 0, .most = 1L << 62,
     .help = "the same seed chooses the same hits (default: others each time)"},
    {.name = "engine", .letter = 'e', .value = ENGINE_WORDS, .one_of = 1,
     .fallback = "auto", .task = "how",
     .help = "who scores again, in fp32; auto: reference, or openvino where it cannot"},
    {.name = "threads", .letter = 't', .value = "N", .least = 1, .most = 1024,
     .help = "threads to compute with (default: the CPUs it may use)"},
    {.name = "tolerance", .value = "X", .help = "by so much scores may differ "
     "(default: as promised of the engines that scored: 1e-5 in fp32, int16 5e-4, bf16 3e-3, "
     "general models 1e-4; OpenVINO's 16 bits 0.02)"},
    {.name = "json", .help = "the result as JSON, schema wiremill-verify-1"},
    {.name = NULL},
};
/* clang-format on */

typedef struct {
    const json_t *written;
    char pins[32], list[32], models[PATH_MAX], seed[24];
    json_t *bad; /* at most WM_VERIFY_BAD_MAX */
    char engine[80];
    double tolerance, largest;
    long long n_hit, n_bad, n_scored;
    unsigned n_same, n_other; /* engines that scored them: the same as now, and others */
    int done;
} verify_t;

/* ---- the two programs ------------------------------------------------------------------------ */

/* Takes what the worker says.  */
static void listen_to (verify_t *self, FILE *worker)
{
    char line[256];
    while (fgets (line, sizeof line, worker)) {
        unsigned file, output;
        unsigned long long row;
        long long run, subrun, event;
        double stored, again;
        sscanf (line, "engine %79s", self->engine);
        sscanf (line, "tolerance %lf", &self->tolerance);
        sscanf (line, "by %u %u", &self->n_same, &self->n_other);
        self->done |= sscanf (line, "done %lld %lld %lf %lld", &self->n_hit, &self->n_bad,
                              &self->largest, &self->n_scored) == 4;
        if (sscanf (line, "bad %u %lld %lld %lld %llu %u %lf %lf", &file, &run, &subrun, &event,
                    &row, &output, &stored, &again) != 8)
            continue;
        const json_t *from = json_array_get (self->written, file);
        json_array_append_new (
            self->bad,
            json_pack ("{s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:o, s:o}", "input",
                       wm_ask_text (from, "input"), "output", wm_ask_text (from, "output"), "run",
                       (json_int_t) run, "subrun", (json_int_t) subrun, "event", (json_int_t) event,
                       "row", (json_int_t) row, "score", (int) output, "stored",
                       isfinite (stored) ? json_real (stored) : json_null (), "again",
                       isfinite (again) ? json_real (again) : json_null ()));
    }
}

static int run (verify_t *self, const wm_args_t *args)
{
    const char *const sample[] = { "wiremill-producer",
                                   "sample",
                                   "--pins",
                                   self->pins,
                                   "--list",
                                   self->list,
                                   "--seed",
                                   self->seed,
                                   "--sample",
                                   wm_args_text (args, "sample"),
                                   NULL };
    const char *again[16] = { "wiremill-worker", "--verify", "--cache",
                              self->models,      "--engine", wm_args_text (args, "engine") };
    int n = 6, hits[2], said[2];
    for (int i = 0; i < 2; i++) {
        const char *const name[] = { "threads", "tolerance" }, *const word[] = { "--threads",
                                                                                 "--tolerance" };
        if (wm_args_text (args, name[i])) {
            again[n++] = word[i];
            again[n++] = wm_args_text (args, name[i]);
        }
    }
    if (pipe2 (hits, O_CLOEXEC) || pipe2 (said, O_CLOEXEC)) {
        fprintf (stderr, "wiremill verify: pipe: %s\n", strerror (errno));
        return WM_EXIT_FAILURE;
    }
    const pid_t producer = wm_spawn ("verify", sample, STDIN_FILENO, hits[1]);
    close (hits[1]);
    const pid_t worker = wm_spawn ("verify", again, hits[0], said[1]);
    close (hits[0]);
    close (said[1]);
    FILE *lines = fdopen (said[0], "r");
    if (lines) {
        listen_to (self, lines);
        fclose (lines);
    }
    const int made = wm_spawn_code (producer), compared = wm_spawn_code (worker);
    return made ? made : compared ? compared : self->done ? WM_EXIT_OK : WM_EXIT_FAILURE;
}

/* ---- the result ------------------------------------------------------------------------------ */

static void show (const verify_t *self)
{
    char hits[32], all[32];
    size_t i;
    json_t *one;
    printf ("%s of %s hits scored again by %s: largest difference %.2g, tolerance %g\n",
            wm_show_count (self->n_hit, hits), wm_show_count (self->n_scored, all), self->engine,
            self->largest, self->tolerance);
    if (self->n_same)
        printf ("%s scored by the same engine before: of these it finds damage, and machines that "
                "compute differently, but no error of the engine itself\n",
                self->n_other ? "some were" : "they were");
    json_array_foreach (self->bad, i, one)
    {
        if (i == BAD_SHOWN_MAX)
            break;
        const json_t *stored = json_object_get (one, "stored");
        printf ("  %s: event %lld:%lld:%lld row %lld, score %lld is %.9g, again %.9g\n",
                wm_ask_text (one, "output"), (long long) wm_ask_int (one, "run"),
                (long long) wm_ask_int (one, "subrun"), (long long) wm_ask_int (one, "event"),
                (long long) wm_ask_int (one, "row"), (long long) wm_ask_int (one, "score"),
                json_is_real (stored) ? json_real_value (stored) : (double) NAN,
                wm_ask_real (one, "again"));
    }
    if (self->n_bad)
        printf ("%lld hits differ by more; the machine that scored them, or this one, computes "
                "wrongly: see engine/signature of their output, `wiremill kick` scores an input "
                "anew (--seed %s chooses the same hits)\n",
                self->n_bad, self->seed);
}

static void print_json (const verify_t *self)
{
    json_t *root = json_pack (
        "{s:s, s:s, s:b, s:s, s:I, s:I, s:I, s:f, s:o, s:O}", "schema", "wiremill-verify-1",
        "engine", self->engine, "same_engine", self->n_same > 0, "seed", self->seed, "hits",
        (json_int_t) self->n_hit, "scored", (json_int_t) self->n_scored, "differ",
        (json_int_t) self->n_bad, "tolerance", self->tolerance, "largest",
        isfinite (self->largest) ? json_real (self->largest) : json_null (), "bad", self->bad);
    json_dumpf (root, stdout, JSON_INDENT (2));
    putchar ('\n');
    json_decref (root);
}

/* ---- together -------------------------------------------------------------------------------- */

/* Two lines for each written input, as a file that the producer inherits.  */
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
    json_array_foreach (self->written, i, one)
    {
        const char *output = wm_ask_text (one, "output"), *input = wm_ask_text (one, "input");
        if (strchr (output, '\n') || strchr (input, '\n'))
            fault = wm_fault (error, WM_EBATCH, "a line break is in the name %s", input);
        fprintf (memory, "%s\n%s\n", output, input);
    }
    fclose (memory);
    if (!fault)
        fault = wm_setup_memory ("list", text, bytes, &fd, self->list, error);
    free (text);
    return fault;
}

/* An output that is gone cannot be compared: nobody's scores are wrong. Says what makes it again, or brings
   its folder back.  */
static int is_gone (const verify_t *self, const char *campaign)
{
    size_t i;
    json_t *one;
    json_array_foreach (self->written, i, one)
    {
        const char *output = wm_ask_text (one, "output");
        if (access (output, F_OK) == 0 || errno != ENOENT)
            continue;
        char folder[PATH_MAX];
        snprintf (folder, sizeof folder, "%.*s", (int) (strrchr (output, '/') - output), output);
        if (access (folder, R_OK | X_OK)) {
            fprintf (stderr,
                     "wiremill verify: the folder of the outputs, %s, cannot be read: %s; mount "
                     "it, or say where it is now with wiremill rebuild --output DIR\n",
                     folder, strerror (errno));
            return 1;
        }
        fprintf (stderr, "wiremill verify: the output %s is gone; ", output);
        wm_command_say (stderr, campaign, "makes it again");
        return 1;
    }
    return 0;
}

static int verify (verify_t *self, const wm_args_t *args, const char *campaign,
                   const json_t *outputs)
{
    wm_error_t error;
    const char *pins = wm_ask_text (outputs, "pins");
    int fd;
    self->written = json_object_get (outputs, "written");
    self->bad = json_array ();
    if (json_array_size (self->written) == 0) {
        fprintf (stderr, "wiremill verify: the campaign has no output yet\n");
        return WM_EXIT_FAILURE;
    }
    if (is_gone (self, campaign))
        return WM_EXIT_FAILURE;
    if (wm_setup_memory ("pins", pins, strlen (pins), &fd, self->pins, &error) ||
        make_list (self, &error))
        return wm_setup_complain ("verify", &error);
    if (wm_args_text (args, "seed"))
        snprintf (self->seed, sizeof self->seed, "%s", wm_args_text (args, "seed"));
    else
        snprintf (self->seed, sizeof self->seed, "%lld", (long long) time (NULL));
    const int code = run (self, args);
    if (code)
        return code;
    if (wm_args_given (args, "json"))
        print_json (self);
    else
        show (self);
    return self->n_bad ? WM_EXIT_FAILURE : WM_EXIT_OK;
}

int verify_main (const wm_args_t *args)
{
    static verify_t self;
    char endpoint[256], campaign[PATH_MAX];
    wm_error_t error;
    int code;
    if (wm_ask_at (NULL,
                   wm_args_text (args, "campaign") ? wm_args_text (args, "campaign")
                                                   : wm_args_rest (args, 0),
                   endpoint, campaign, &error))
        return wm_setup_complain ("verify", &error);
    json_t *outputs = wm_ask_ledger ("verify", "--outputs", campaign, &code);
    if (!outputs)
        return code ? code : WM_EXIT_FAILURE;
    if (snprintf (self.models, sizeof self.models, "%s/models", campaign) <
        (int) sizeof self.models)
        code = verify (&self, args, campaign, outputs);
    json_decref (self.bad);
    json_decref (outputs);
    return code;
}
