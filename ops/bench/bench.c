/* bench.c - `wiremill bench`: measures engines and the whole pipeline on this machine.

   engine    wiremill-producer cuts and encodes batches, wiremill-worker decodes all of them and
             then times the engine on them
   pipeline  `wiremill run`, in a folder of its own; each process writes a trace (WM_TRACE)

   Each point of a sweep is measured by processes of its own, so that none affects the next. A point
   that fails is reported and left out. Where the engine cannot run here the rest of its points is
   left out too; where the model or an input is bad, the whole sweep: the other points would fail
   the same way. A Ctrl-C prints the points that were measured.  */
#include "kernels/import/wm_import.h"
#include "kernels/wm_device.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/bench/wm_bench_points.h"
#include "ops/bench/wm_steps.h"
#include "ops/campaign/wm_setup.h"
#include "ops/process/wm_complain.h"
#include "ops/process/wm_memory.h"
#include "ops/process/wm_spawn.h"
#include "ops/verbs.h"
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_fault.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/option/wm_option.h"
#include "schema/wm_defaults.h"
#include "schema/wm_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMOVE_TRIES 50 /* of a folder in which killed processes may still write */

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "model", .letter = 'm', .value = "FILE",
     .path = WM_PATH_READ, .may_lack = true, .task = "what is scored",
     .help = "ONNX file, .wmm of wiremill import, or what a plug-in takes (default: wiremill model "
             "new --seed 1)"},
    {.name = "input", .letter = 'i', .value = "GLOB", .path = WM_PATH_GLOB,
     .help = "files to score; may be repeated (default: synthetic events)"},
    {.name = "input-list", .value = "FILE",
     .path = WM_PATH_LIST,
     .text = "a list of one path a line", .help = "one path a line; - is standard input"},
    {.name = "events", .value = "N", .fallback = "2", .least = 1, .most = 100000,
     .help = "synthetic events"},
    {.name = "spec", .letter = 's', .value = "FILE|PRESET",
     .path = WM_PATH_READ,
     .text = "a specification in YAML", .may_lack = true, .fallback = WM_DEFAULT_SPEC,
     .help = "patch specification"},
    {.name = "hits", .value = "N", .least = 1, .most = 1L << 40,
     .help = "most hits that an engine gets (default: all, up to 1 GiB)"},

    {.name = "engine", .letter = 'e', .value = "A,B", .fallback = "auto",
     .task = "sweeps, with commas between: every combination",
     .help = "auto, sparse, openvino, onnxruntime, cuda, cudnn, opencl, reference; alone: torch, "
             "or a plug-in ./x.so"},
    {.name = "precision", .value = "A,B",
     .help = "fp32, split, fast (default: all; of the pipeline fp32)"},
    {.name = "isa", .value = "NAME", .help = "instruction set of the sparse engine, also amx/bf16"},
    {.name = "workers", .letter = 'w', .value = "N,N",
     .help = "in parallel (default: 1 engine; as many workers as wiremill run starts)"},
    {.name = "threads", .letter = 't', .value = "N,N",
     .help = "of each (default: 1 and all CPUs; of the pipeline CPUs / workers)"},
    {.name = "batch", .letter = 'b', .value = "N,N",
     .help = "most hits per batch (default: 64,512,4096,16384; of the pipeline "
             WM_DEFAULT_TEXT (WM_DEFAULT_BATCH_HITS) ")"},
    {.name = "judged", .value = "N", .fallback = WM_DEFAULT_JUDGED, .least = 0, .most = 1000000,
     .help = "hits compared with the reference in double, which takes milliseconds each"},
    {.name = "pin", .help = "keep each thread of an engine on a CPU of its own"},

    {.name = "seconds", .value = "S", .fallback = WM_DEFAULT_BENCH_SECONDS,
     .real_least = 0.01, .real_most = 86400,
     .task = "how",
     .help = "of a measurement of an engine (after as many, 3 at most, to warm up)"},
    {.name = "folder", .value = "DIR", .path = WM_PATH_PRESENT,
     .help = "where campaigns are made and removed; the disk matters (default: TMPDIR or /tmp)"},
    {.name = "json", .value = "FILE",
     .path = WM_PATH_WRITTEN, .writes = &wm_made_bench_json, .task = "output",
     .help = "all columns as JSON, schema wiremill-bench-1; - is stdout, instead of the tables"},
    WM_OPTION_FORCE,
    {.name = "quiet", .letter = 'q', .help = "print no progress"},
    {.name = NULL},
};

static const char bench_text[] =
    "  wiremill bench engine --batch 1,64,4096 --threads 1,2 --precision fp32,fast\n"
    "  wiremill bench engine --engine sparse,openvino --input events.h5 --json e.json\n"
    "  wiremill bench all --json all.json\n\n"
    "engine: the engine alone on batches in memory; pipeline: a whole campaign by real processes.\n"
    "Ctrl-C prints what was measured so far.\n";

static int bench_main (const wm_args_t *args);
const wm_verb_t wm_verb_bench = {
    .name = "bench", .task = CARE_TASK, .rest = "[engine|pipeline|all] [FILES]",
    .summary = "measure engines or the pipeline on this machine", .text = bench_text,
    .common = "model input events engine precision workers threads batch seconds json",
    .options = options, .run = bench_main };
/* clang-format on */

/* ---- a list of values on the command line, "1,16,64" ----------------------------------------- */

#define WM_SWEEP_MAX 32

typedef struct {
    const char *text[WM_SWEEP_MAX];
    long number[WM_SWEEP_MAX];
    int n;
    char memory[512];
} wm_sweep_t;

static int complain (const char *option, const char *what, const char *value)
{
    fprintf (stderr, "wiremill bench: --%s takes a list of %s, with commas between, not '%s'\n",
             option, what, value);
    return WM_EXIT_USAGE;
}

/* Splits at commas; 0, or the exit code.  */
static int split (wm_sweep_t *self, const char *option, const char *value)
{
    self->n = 0;
    if (strlen (value) >= sizeof self->memory)
        return complain (option, "fewer values", value);
    strcpy (self->memory, value);
    for (char *word = self->memory; word; self->n++) {
        if (self->n == WM_SWEEP_MAX)
            return complain (option, "at most 32 values", value);
        self->text[self->n] = word;
        if ((word = strchr (word, ',')))
            *word++ = 0;
    }
    return 0;
}

static const char *value_of (const wm_args_t *args, const char *option, const char *fallback)
{
    return fallback && !wm_args_given (args, option) ? fallback : wm_args_text (args, option);
}

/* Reads the option's value, else `fallback` (NULL: the option's own); each word must be one of
   `all` ("a|b|c"). Returns 0, or WM_EXIT_USAGE after printing an error.  */
static int sweep_words (wm_sweep_t *self, const wm_args_t *args, const char *option,
                        const char *fallback, const char *all)
{
    const char *value = value_of (args, option, fallback);
    const int code = split (self, option, value);
    for (int i = 0; i < self->n && !code; i++) {
        const size_t n = strlen (self->text[i]);
        const char *at = all;
        while (at && (strcspn (at, "|") != n || memcmp (at, self->text[i], n) != 0))
            at = strchr (at, '|') ? strchr (at, '|') + 1 : NULL;
        if (!at)
            return complain (option, all, value);
    }
    return code;
}

/* Reads it likewise; each must be a whole number in the range.  */
static int sweep_numbers (wm_sweep_t *self, const wm_args_t *args, const char *option,
                          const char *fallback, long least, long most)
{
    char *end, what[64];
    const char *value = value_of (args, option, fallback);
    const int code = split (self, option, value);
    for (int i = 0; i < self->n && !code; i++) {
        errno = 0;
        self->number[i] = strtol (self->text[i], &end, 10);
        if (!errno && end != self->text[i] && !*end && self->number[i] >= least &&
            self->number[i] <= most)
            continue;
        snprintf (what, sizeof what, "whole numbers from %ld to %ld", least, most);
        return complain (option, what, value);
    }
    return code;
}

typedef struct {
    const wm_args_t *args;
    wm_machine_t machine;
    char folder[PATH_MAX]; /* ours, removed at the end */
    const char *model, *plugin;
    char made_model[PATH_MAX + 16];
    wm_inputs_t inputs;
    wm_sweep_t engine, precision, workers, threads, batch;
    json_t *points, *about;
    FILE *json;              /* NULL: not asked for */
    wm_file_new_t json_file; /* if it is a file */
    int code, n_point;
    int last; /* exit code of the point before */
} bench_t;

static const char *const benches[] = { "engine", "pipeline" };
enum { ENGINE, PIPELINE, BENCHES };

/* Options that only some benches use.  */
static const struct {
    const char *option, *only;
    unsigned benches;
} scopes[] = {
    { "hits", "engine", 1 << ENGINE },
    { "judged", "engine", 1 << ENGINE },
    { "seconds", "engine", 1 << ENGINE },
};

static volatile sig_atomic_t stops;
static volatile pid_t running[2]; /* processes that a Ctrl-C kills; 0: none */

/* Kills: the output of these processes is removed anyway, so that they need not end cleanly and
   print how to resume.  */
static void on_signal (int number)
{
    (void) number;
    stops = 1;
    for (int i = 0; i < 2; i++)
        if (running[i] > 0)
            kill (running[i], SIGKILL);
}

static void block_signals (int how)
{
    sigset_t set;
    sigemptyset (&set);
    sigaddset (&set, SIGINT);
    sigaddset (&set, SIGTERM);
    sigaddset (&set, SIGHUP);
    sigprocmask (how, &set, NULL);
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

/* Refuses options that would be ignored. Returns 0 or the exit code.  */
static int refuse_ignored (const wm_args_t *args, const char *bench, unsigned wanted)
{
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++)
        if (wm_args_given (args, scopes[i].option) && !(scopes[i].benches & wanted)) {
            wm_args_refuse (args, "%s: --%s is for %s only", bench, scopes[i].option,
                            scopes[i].only);
            return WM_EXIT_USAGE;
        }
    return 0;
}

/* Engines by name, or one plug-in.  */
static int sweep_engines (bench_t *self)
{
    int code = split (&self->engine, "engine", wm_args_text (self->args, "engine"));
    for (int i = 0; i < self->engine.n && !code; i++)
        if (wm_device_is_plugin (self->engine.text[i]))
            self->plugin = self->engine.text[i];
    if (!code && self->plugin && self->engine.n > 1)
        return wm_args_refuse (self->args,
                               "--engine: a plug-in has a model of its own: measure %s "
                               "alone",
                               self->plugin);
    return code || self->plugin
               ? code
               : sweep_words (&self->engine, self->args, "engine", NULL, WM_ENGINE_NAMES);
}

/* The sweeps of one bench.  */
static int sweeps (bench_t *self, int bench)
{
    const bool is_engine = bench == ENGINE;
    const wm_args_t *args = self->args;
    const int cpus = wm_allowance ()->cpus;
    const int team = (cpus + 3) / 4; /* as many as wiremill run starts */
    char threads[48], workers[16];
    snprintf (threads, sizeof threads, cpus > 1 ? "1,%d" : "1", cpus);
    snprintf (workers, sizeof workers, "%d", team < 16 ? team : 16);
    int code = sweep_engines (self);
    if (!code)
        code = sweep_words (&self->precision, args, "precision",
                            is_engine && !self->plugin ? "fp32,split,fast" : "fp32",
                            "fp32|split|fast");
    if (!code)
        code = sweep_numbers (&self->workers, args, "workers", is_engine ? "1" : workers, 1, 16);
    if (!is_engine)
        snprintf (threads, sizeof threads, "%d", cpus / team);
    if (!code)
        code = sweep_numbers (&self->threads, args, "threads", threads, 1, 1024);
    return code ? code
                : sweep_numbers (&self->batch, args, "batch",
                                 is_engine ? "64,512,4096,16384"
                                           : WM_DEFAULT_TEXT (WM_DEFAULT_BATCH_HITS),
                                 1, 1 << 20);
}

/* ---- one point ------------------------------------------------------------------------------- */

static long long count (const json_t *point, const char *key)
{
    return (long long) json_number_value (json_object_get (point, key));
}

static void progress (const bench_t *self, const json_t *point)
{
    if (wm_args_given (self->args, "quiet"))
        return;
    char hits[32];
    const char *engine = wm_ask_text (point, "engine"), *failed = wm_ask_text (point, "failed");
    const long long workers = count (point, "workers"), threads = count (point, "threads");
    fprintf (stderr, "%3d. %s, ", self->n_point, wm_ask_text (point, "bench"));
    if (*engine)
        fprintf (stderr, "%s %s, ", engine, wm_ask_text (point, "precision"));
    fprintf (stderr, "%lld worker%s", workers, workers == 1 ? "" : "s");
    if (threads)
        fprintf (stderr, " x %lld thread%s", threads, threads == 1 ? "" : "s");
    fprintf (stderr, ", batches of %lld: %s%s\n", count (point, "batch"),
             *failed ? failed : wm_show_count (count (point, "hits_s"), hits),
             *failed ? "" : " hits/s");
}

/* Keeps a point that was measured, or the reason why not. Takes it.  */
static void keep (bench_t *self, json_t *point, int code)
{
    if (stops) {
        json_decref (point);
        return;
    }
    self->n_point++;
    self->last = code;
    if (code) {
        char why[80];
        snprintf (why, sizeof why,
                  code == WM_EXIT_ENGINE ? "this engine cannot run here" : "exit %d", code);
        json_object_set_new (point, "failed", json_string (why));
        self->code = self->code ? self->code : code;
    } else
        wm_point_complete (point, &self->machine);
    progress (self, point);
    json_array_append_new (self->points, point);
}

/* Runs a program, whose standard input is the output of `before` (NULL: ours). Reads its standard
   output as JSON into *answer (NULL: it is not JSON). Returns its exit code.  */
static int ask_program (const char *const before[], const char *const argv[], json_t **answer)
{
    int in[2] = { -1, -1 }, out[2];
    *answer = NULL;
    if ((before && pipe2 (in, O_CLOEXEC)) || pipe2 (out, O_CLOEXEC)) {
        fprintf (stderr, "wiremill bench: pipe: %s\n", strerror (errno));
        return WM_EXIT_FAILURE;
    }
    block_signals (SIG_BLOCK);
    if (before) {
        running[1] = stops ? -1 : wm_spawn ("bench", before, STDIN_FILENO, in[1]);
        close (in[1]);
    }
    running[0] = stops ? -1 : wm_spawn ("bench", argv, before ? in[0] : STDIN_FILENO, out[1]);
    if (before)
        close (in[0]);
    close (out[1]);
    block_signals (SIG_UNBLOCK);
    FILE *stream = fdopen (out[0], "r");
    char text[65536];
    size_t n = 0;
    for (size_t more = 1; stream && more && n < sizeof text;) {
        more = fread (text + n, 1, sizeof text - n, stream);
        n += more;
        if (!more && ferror (stream) && errno == EINTR) {
            clearerr (stream);
            more = 1;
        }
    }
    if (stream)
        fclose (stream);
    const int made = before ? wm_spawn_code ("bench", before[0], running[1]) : 0,
              code = wm_spawn_code ("bench", argv[0], running[0]);
    running[0] = running[1] = 0;
    if (!made && (!code || code == WM_EXIT_HELD))
        *answer = json_loadb (text, n, 0, NULL);
    return made ? made : code;
}

static void folder_remove (const char *path)
{
    for (int i = 0; i < REMOVE_TRIES && !wm_folder_remove (path); i++)
        usleep (100000);
    if (access (path, F_OK) == 0)
        fprintf (stderr, "wiremill bench: %s is left over\n", path);
}

/* ---- model and inputs ------------------------------------------------------------------------ */

static wm_fault_t make_events (bench_t *self, wm_error_t *error)
{
    char path[PATH_MAX + 16];
    const int n = snprintf (path, sizeof path, "%s/events.h5\n", self->folder);
    path[n - 1] = 0;
    const char *const synth[] = { "wiremill-producer",
                                  "synth",
                                  "--seed",
                                  "1",
                                  "--output",
                                  path,
                                  "--events",
                                  wm_args_text (self->args, "events"),
                                  wm_args_given (self->args, "quiet") ? "--quiet" : NULL,
                                  NULL };
    if (!wm_args_given (self->args, "quiet"))
        fprintf (stderr, "making %s synthetic events, seed 1\n",
                 wm_args_text (self->args, "events"));
    json_t *answer;
    if (ask_program (NULL, synth, &answer) || stops)
        return wm_fault (error, stops ? WM_EAGAIN : WM_EHOST, "no events could be made");
    path[n - 1] = '\n';
    self->inputs.n_file = 1;
    return wm_memory_file ("inputs", path, (size_t) n, &self->inputs.fd, self->inputs.path, error);
}

/* The model and the inputs that were given, or made ones.  */
static wm_fault_t prepare (bench_t *self, wm_error_t *error)
{
    const wm_args_t *args = self->args;
    const bool has_input = wm_args_given (args, "input") || wm_args_given (args, "input-list") ||
                           wm_args_rest (args, 1);
    wm_fault_t fault =
        has_input ? wm_setup_inputs (&self->inputs, args, 1, error) : make_events (self, error);
    self->model = wm_setup_model_path (wm_args_text (args, "model"));
    if (!fault && self->model && !self->plugin)
        fault = wm_setup_model (self->model, error);
    if (!fault && !self->model && !self->plugin) {
        snprintf (self->made_model, sizeof self->made_model, "%s/model.onnx", self->folder);
        fault = wm_model_new_emtrkmichel (1, 48, 48, self->made_model, error);
        self->model = self->made_model;
    }
    char inputs[64], files[32];
    if (has_input)
        snprintf (inputs, sizeof inputs, "%s files",
                  wm_show_count ((int64_t) self->inputs.n_file, files));
    else
        snprintf (inputs, sizeof inputs, "%s synthetic events, seed 1",
                  wm_args_text (args, "events"));
    json_object_set_new (self->about, "inputs", json_string (inputs));
    json_object_set_new (self->about, "model",
                         json_string (self->made_model[0] ? "emtrkmichel, seed 1"
                                      : self->model       ? self->model
                                                          : self->plugin));
    json_object_set_new (self->about, "spec", json_string (wm_args_text (args, "spec")));
    return fault;
}

/* ---- points ---------------------------------------------------------------------------------- */

static json_t *point_new (const bench_t *self, const char *bench, int e, int p, int w, int t, int b)
{
    return json_pack ("{s:s, s:s, s:s, s:I, s:I, s:I}", "bench", bench, "engine",
                      self->engine.text[e], "precision", self->precision.text[p], "workers",
                      (json_int_t) self->workers.number[w], "threads",
                      (json_int_t) self->threads.number[t], "batch",
                      (json_int_t) self->batch.number[b]);
}

/* Whether the next point would fail as the last did.  */
static bool is_hopeless (const bench_t *self)
{
    return stops || self->last == WM_EXIT_INPUT || self->last == WM_EXIT_ENGINE;
}

static void each_point (bench_t *self,
                        void (*measure) (bench_t *self, int e, int p, int w, int t, int b))
{
    for (int e = 0; e < self->engine.n; e++)
        for (int p = 0; p < self->precision.n && !stops && self->last != WM_EXIT_INPUT; p++) {
            self->last = 0; /* an engine that fails in one precision may run in others */
            for (int w = 0; w < self->workers.n; w++)
                for (int t = 0; t < self->threads.n; t++)
                    for (int b = 0; b < self->batch.n && !is_hopeless (self); b++)
                        measure (self, e, p, w, t, b);
        }
}

/* ---- engine ---------------------------------------------------------------------------------- */

/* Notes why the number of executed multiply-adds is not known.  */
static void note_uncounted (json_t *point, const char *why)
{
    const char *because = strstr (why, WM_IMPORT_UNCOUNTED), *next;
    char sentence[480];
    if (because && (next = strstr (because, "; "))) { /* another follows */
        snprintf (sentence, sizeof sentence, "%.*s", (int) (next - because), because);
        because = sentence;
    }
    const char *signature = wm_ask_text (point, "signature");
    if (wm_device_by_gpu (wm_ask_text (point, "engine"), signature))
        because = "a GPU does not count what it executes";
    else if (strcmp (wm_device_engine_of_signature (signature)->name, "plugin") == 0)
        because = "a plug-in does not count what it executes";
    else if (!because)
        because = "the model was imported by an earlier wiremill, or without OpenVINO";
    if (json_object_set_new (point, "uncounted", json_string (because))) /* not UTF-8 */
        json_object_set_new (point, "uncounted", json_string ("wiremill import prints why"));
}

static void measure_engine (bench_t *self, int e, int p, int w, int t, int b)
{
    static wm_setup_t setup;
    char output[PATH_MAX + 16], models[PATH_MAX + 32];
    wm_error_t error;
    json_t *answer, *point = point_new (self, "engine", e, p, w, t, b);
    snprintf (output, sizeof output, "%s/engine", self->folder);
    const wm_choices_t choices = { .model = self->model,
                                   .plugin = self->plugin,
                                   .output = output,
                                   .precision = self->precision.text[p],
                                   .spec = wm_args_given (self->args, "spec")
                                               ? wm_args_text (self->args, "spec")
                                               : NULL,
                                   .batch_hits = (uint32_t) self->batch.number[b] };
    if (wm_setup (&setup, &choices, &error)) {
        keep (self, point, wm_complain ("bench", &error));
        return;
    }
    snprintf (models, sizeof models, "%s/models", setup.campaign);
    const char *hits = wm_args_text (self->args, "hits");
    const char *const batches[] = { "wiremill-producer",    "batches",      "--pins",
                                    setup.pins_path,        "--input-list", self->inputs.path,
                                    hits ? "--hits" : NULL, hits,           NULL };
    const char *const bench[] = { "wiremill-worker",
                                  "--bench",
                                  "--cache",
                                  models,
                                  "--engine",
                                  self->engine.text[e],
                                  "--workers",
                                  self->workers.text[w],
                                  "--threads",
                                  self->threads.text[t],
                                  "--seconds",
                                  wm_args_text (self->args, "seconds"),
                                  "--judged",
                                  wm_args_text (self->args, "judged"),
                                  wm_args_given (self->args, "pin") ? "--pin" : NULL,
                                  NULL };
    int code = ask_program (batches, bench, &answer);
    if (json_object_update (point, answer) && !code)
        code = WM_EXIT_FAILURE; /* its output was not JSON */
    json_decref (answer);
    if (!code && wm_ask_real (point, "executed_madds") <= 0)
        note_uncounted (point, setup.why);
    close (setup.pins_fd);
    keep (self, point, code);
}

/* ---- pipeline -------------------------------------------------------------------------------- */

/* Copies the summary of `wiremill run --json` into a point.  */
static void take_run (json_t *point, const json_t *run)
{
    const double hits = wm_ask_real (run, "status.hits.done"), whole = wm_ask_real (run, "seconds");
    const double rate = wm_ask_real (run, "hits_s"),
                 events = wm_ask_real (run, "status.events.done");
    const json_t *worker =
        json_array_get (json_object_get (json_object_get (run, "status"), "workers"), 0);
    json_object_set_new (point, "hits", json_real (hits));
    json_object_set_new (point, "seconds", json_real (whole));
    json_object_set_new (point, "hits_s", json_real (rate));
    json_object_set_new (point, "whole_hits_s", json_real (hits / whole));
    json_object_set_new (point, "events_s", json_real (hits > 0 ? rate * events / hits : 0));
    json_object_set_new (point, "bytes_per_event",
                         json_real (wm_ask_real (run, "bytes_per_event")));
    json_object_set_new (point, "signature", json_string (wm_ask_text (worker, "signature")));
}

static void measure_pipeline (bench_t *self, int e, int p, int w, int t, int b)
{
    char place[PATH_MAX + 48], output[PATH_MAX + 56], trace[PATH_MAX + 48];
    wm_error_t error;
    json_t *answer, *point = point_new (self, "pipeline", e, p, w, t, b);
    snprintf (place, sizeof place, "%s/run-%d", self->folder, self->n_point);
    snprintf (output, sizeof output, "%s/out", place); /* and the campaign beside it */
    snprintf (trace, sizeof trace, "%s/trace-%d", self->folder, self->n_point);
    if (mkdir (trace, 0700) || setenv ("WM_TRACE", trace, 1)) {
        wm_fault (&error, WM_EHOST, "%s: %s", trace, strerror (errno));
        keep (self, point, wm_complain ("bench", &error));
        return;
    }
    const char *run[32] = { "wiremill",     "run",
                            "--json",       "--quiet",
                            "--input-list", self->inputs.path,
                            "--output",     output,
                            "--engine",     self->engine.text[e],
                            "--precision",  self->precision.text[p],
                            "--workers",    self->workers.text[w],
                            "--threads",    self->threads.text[t],
                            "--batch-hits", self->batch.text[b] };
    int n = 18;
    if (self->model) {
        run[n++] = "--model";
        run[n++] = self->model;
    }
    if (wm_args_given (self->args, "spec")) {
        run[n++] = "--spec";
        run[n++] = wm_args_text (self->args, "spec");
    }
    if (wm_args_given (self->args, "pin"))
        run[n++] = "--pin";
    const int64_t start_ns = wm_trace_now_ns ();
    int code = ask_program (NULL, run, &answer);
    const int64_t end_ns = wm_trace_now_ns ();
    unsetenv ("WM_TRACE");
    if (code == WM_EXIT_HELD || !code) /* run reported what is held; the rest was scored */
        code = answer ? WM_EXIT_OK : WM_EXIT_FAILURE;
    if (!code && !stops) {
        take_run (point, answer);
        if (wm_steps_read (trace, start_ns, end_ns, point, &error))
            code = wm_complain ("bench", &error);
    }
    json_decref (answer);
    keep (self, point, code);
    folder_remove (place);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Opens a file for writing, or stdout, a pipe or a device. Returns 0 or the exit code.  */
static int open_json (bench_t *self)
{
    char place[PATH_MAX];
    struct stat st;
    wm_error_t error;
    const char *path = wm_args_place (self->args, "json", place);
    if (!path)
        return 0;
    const bool is_stream = wm_target_is_stream (path);
    if (strcmp (path, "-") == 0 || (is_stream && stat (path, &st) == 0 && S_ISREG (st.st_mode)))
        self->json = stdout;
    else if (is_stream)
        self->json = fopen (path, "we");
    else if (wm_file_begin (&self->json_file, path, false, &error))
        return wm_complain ("bench", &error);
    else
        self->json = fdopen (dup (self->json_file.fd), "w");
    if (self->json)
        return 0;
    fprintf (stderr, "wiremill bench: --json %s: %s\n", path, strerror (errno));
    return WM_EXIT_FAILURE;
}

/* Returns 0, or the exit code where the file is incomplete.  */
static int close_json (bench_t *self)
{
    wm_error_t error;
    bool fine = fflush (self->json) == 0 && !ferror (self->json);
    int failed = errno;
    if (self->json != stdout && fclose (self->json) && fine)
        fine = false, failed = errno;
    if (fine && self->json_file.fd >= 0)
        return wm_file_commit (&self->json_file, &error) ? wm_complain ("bench", &error) : 0;
    if (fine)
        return 0;
    wm_file_unwritten ("--json", failed, &error);
    wm_file_abort (&self->json_file);
    return wm_complain ("bench", &error);
}

static int print (bench_t *self)
{
    int code = 0;
    if (self->json != stdout)
        for (int k = 0; k < BENCHES; k++)
            wm_points_table (stdout, self->points, benches[k], &self->machine);
    if (self->json) {
        wm_points_json (self->json, self->points, &self->machine, self->about);
        code = close_json (self);
    }
    if (stops)
        fprintf (stderr, "stopped: these are the points that were measured\n");
    return stops ? WM_EXIT_AGAIN : self->code ? self->code : code;
}

/* Measures the benches of `wanted` (a bit each), in a folder of its own.  */
static int measure (bench_t *self, unsigned wanted)
{
    wm_error_t error;
    if (wm_folder_temporary (self->folder, wm_args_text (self->args, "folder"), "wiremill-bench",
                             &error))
        return wm_complain ("bench", &error);
    int code = 0;
    if (prepare (self, &error))
        code = wm_complain ("bench", &error);
    for (int k = 0; k < BENCHES && !code && !stops; k++) {
        if (!(wanted & 1u << k))
            continue;
        sweeps (self, k);
        each_point (self, k == ENGINE ? measure_engine : measure_pipeline);
    }
    folder_remove (self->folder);
    return code;
}

/* Refuses an instruction set that an engine of the list does not heed, and a precision that none of
   them does: their points would be those without it.  */
static int refuse_unheeded (const bench_t *self)
{
    const char *isa = wm_args_text (self->args, "isa");
    const bool is_given = wm_args_given (self->args, "precision");
    wm_error_t error;
    for (int e = 0; e < self->engine.n; e++)
        if (wm_device_heeds (self->engine.text[e], NULL, NULL, isa, &error))
            return wm_args_refuse (self->args, "%s", error.text);
    for (int p = 0; p < self->precision.n && is_given; p++) {
        int heeds = 0;
        for (int e = 0; e < self->engine.n; e++)
            heeds += !wm_device_heeds (self->engine.text[e], NULL, self->precision.text[p], NULL,
                                       &error);
        if (!heeds)
            return wm_args_refuse (self->args, "%s", error.text);
    }
    return 0;
}

static int bench_main (const wm_args_t *args)
{
    static bench_t self;
    const char *word = wm_args_rest (args, 0) ? wm_args_rest (args, 0) : "engine";
    unsigned wanted = strcmp (word, "all") == 0 ? (1u << BENCHES) - 1 : 0;
    for (int k = 0; k < BENCHES; k++)
        wanted |= strcmp (word, benches[k]) == 0 ? 1u << k : 0;
    self = (bench_t){ .args = args, .points = json_array (), .about = json_object () };
    self.json_file.fd = -1;
    take_isa (args);
    if (!wanted) {
        wm_args_refuse (args, "there are engine, pipeline and all, not '%s'", word);
        return WM_EXIT_USAGE;
    }
    /* Usage errors are reported before anything is measured.  */
    int code = refuse_ignored (args, word, wanted);
    for (int k = 0; k < BENCHES && !code; k++)
        code = wanted & 1u << k ? sweeps (&self, k) : 0;
    if (!code)
        code = refuse_unheeded (&self);
    if (!code)
        code = open_json (&self);
    if (code)
        return code;
    struct sigaction action = { .sa_handler = on_signal };
    sigaction (SIGPIPE, &action, NULL); /* without a reader the folder must be removed too */
    sigaction (SIGINT, &action, NULL);
    sigaction (SIGTERM, &action, NULL);
    sigaction (SIGHUP, &action, NULL);
    wm_machine_inspect (&self.machine);
    code = measure (&self, wanted);
    const int printed = code && !stops ? code : print (&self);
    wm_file_abort (&self.json_file);
    json_decref (self.points);
    json_decref (self.about);
    return printed;
}
