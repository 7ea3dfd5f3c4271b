/* plan.c - `wiremill plan`: what a campaign takes before it is begun: time, cores, network, disk.

   The numbers that it starts from are measured here (wm_plan_measure), read from a file, or given
   (wm_plan_given); wm_plan has the arithmetic. What is not known is printed as such.  */
#include "kernels/wm_device.h"
#include "ops/ask/wm_show.h"
#include "ops/plan/wm_plan.h"
#include "ops/plan/wm_plan_given.h"
#include "ops/plan/wm_plan_measure.h"
#include "ops/process/wm_complain.h"
#include "ops/verbs.h"
#include "schema/wm_defaults.h"
#include "schema/wm_limits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 80
#define ROWS_MAX 12u   /* 1, 4, 16 ... WM_PEERS_MAX workers, GPUs */
#define HITS_MOST 1e15 /* a campaign of more is a mistake in the options */

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "model", .letter = 'm', .value = "FILE",
     .path = WM_PATH_READ, .may_lack = true, .task = "measured here, in half a minute",
     .help = "ONNX file, or .wmm of wiremill import"},
    {.name = "input", .letter = 'i', .value = "GLOB", .path = WM_PATH_GLOB,
     .help = "files to score; may be repeated. A few are read, the others count by their size"},
    {.name = "input-list", .value = "FILE",
     .path = WM_PATH_LIST,
     .text = "a list of one path a line", .help = "one path a line; - is standard input"},
    {.name = "spec", .letter = 's', .value = "FILE|PRESET",
     .path = WM_PATH_READ,
     .text = "a specification in YAML", .may_lack = true, .fallback = WM_DEFAULT_SPEC,
     .help = "patch specification"},
    {.name = "precision", .value = "fp32|split|fast", .one_of = true, .fallback = "fp32",
     .help = "precision of the engine"},
    {.name = "engine", .letter = 'e', .value = WM_ENGINE_NAMES, .one_of = true,
     .path = WM_PATH_READ,
     .fallback = "auto", .help = "auto: sparse where the model is of its family, else openvino"},
    {.name = "seconds", .value = "S", .fallback = WM_DEFAULT_BENCH_SECONDS,
     .real_least = 0.01, .real_most = 600,
     .help = "duration of each measurement of an engine; its warm-up takes as long"},
    {.name = "bench", .value = "FILE", .path = WM_PATH_READ,
     .text = "JSON of wiremill bench or make bench",
     .help = "or take what wiremill bench --json FILE or make bench (build/bench.json) measured"},

    WM_PLAN_GIVEN_OPTIONS,

    {.name = "workers", .letter = 'w', .value = "N", .task = "with what", .least = 1,
     .most = WM_PLAN_WORKERS_MAX, .help = "workers of one core each (default: several numbers)"},
    {.name = "gpus", .value = "N", .least = 1, .most = 100000,
     .help = "GPUs, a worker each"},
    {.name = "insecure", .help = "the broker asks for no keys (its --insecure), and carries more"},
    {.name = "deadline", .value = "TIME", .is_above = true,
     .help = "the least number of workers that ends within this time"},

    {.name = "json", .task = "what is printed", .help = "as JSON: wiremill-plan-1"},
    {.name = "quiet", .letter = 'q', .help = "no progress"},
    {.name = NULL},
};

static const char text[] =
    "  wiremill plan --model m.onnx --input 'data/*.h5' --deadline 3d\n"
    "  wiremill plan --events 1e6 --hits-per-event 55000 --rate 17000 --workers 400\n\n"
    "It starts nothing and keeps nothing. Below the table of times it warns where one broker would "
    "carry more than half of what it was measured to carry. Numbers that are not known are not "
    "guessed: they are printed as unknown, and nothing is limited by them.\n";

static int plan_main (const wm_args_t *args);
const wm_verb_t wm_verb_plan = {
    .name = "plan", .task = SCORE_TASK, .rest = "[FILES]",
    .summary = "what a campaign will take: time, cores, network, disk", .text = text,
    .common = "model input input-list precision files events hits-per-event rate workers gpus "
              "deadline json",
    .options = options, .run = plan_main };
/* clang-format on */

typedef struct {
    const wm_args_t *args;
    wm_plan_given_t given;
    wm_plan_t plan;
    wm_plan_needs_t needs;
    double deadline_s; /* NAN: none */
    json_t *json;
    double row[ROWS_MAX]; /* workers of the rows that were printed, and their times */
    wm_plan_time_t time[ROWS_MAX];
    uint32_t n_row;
} plan_t;

/* ---- what was asked -------------------------------------------------------------------------- */

/* Refuses what is missing, or has no meaning together. Returns 0 or the exit code.  */
static int refuse (const wm_args_t *args)
{
    const bool has_input = wm_args_given (args, "input") || wm_args_given (args, "input-list") ||
                           wm_args_rest (args, 0),
               has_model = wm_args_given (args, "model") ||
                           wm_device_is_plugin (wm_args_text (args, "engine"));
    wm_error_t error;
    if (wm_device_heeds (wm_args_text (args, "engine"), NULL, wm_args_text (args, "precision"),
                         NULL, &error))
        return wm_args_refuse (args, "%s", error.text);
    if (has_input && wm_args_given (args, "bench"))
        return wm_args_refuse (args, "give --input, to measure here, or --bench, not both");
    if (has_input && !has_model)
        return wm_args_refuse (args, "--model FILE is missing");
    if (!has_input && has_model)
        return wm_args_refuse (args, "--input GLOB is missing: give the files to be scored");
    if (has_input)
        return 0;
    if (!wm_args_given (args, "events"))
        return wm_args_refuse (args, wm_args_given (args, "bench")
                                         ? "--events N is missing: --bench does not have it"
                                         : "give --input and --model, to measure here, or "
                                           "--events N and --rate or --bench");
    if (!wm_args_given (args, "bench") && !wm_args_given (args, "hits-per-event"))
        return wm_args_refuse (args, "--hits-per-event N is missing");
    if (!wm_args_given (args, "bench") && !wm_args_given (args, "rate") &&
        !wm_args_given (args, "gpu-rate"))
        return wm_args_refuse (args,
                               "--rate HITS/S is missing: `wiremill bench engine --threads 1` "
                               "measures it");
    return 0;
}

/* Takes measured numbers, then what replaces them. Returns 0 or the exit code.  */
static int take_numbers (plan_t *self)
{
    const wm_args_t *args = self->args;
    wm_plan_given_t *given = &self->given;
    wm_error_t error;
    int code = 0;
    wm_plan_given_init (given);
    if (wm_args_given (args, "bench") &&
        wm_plan_given_file (given, wm_args_text (args, "bench"), wm_args_text (args, "precision"),
                            &error))
        return wm_complain ("plan", &error);
    if (wm_args_given (args, "model") || wm_device_is_plugin (wm_args_text (args, "engine")))
        code = wm_plan_measure (given, args);
    if (code)
        return code;
    /* More files than were named: like them.  */
    const double was = given->fact[WM_PLAN_FILES].value;
    if (wm_args_given (args, "files") && was > 0)
        wm_plan_given_set (
            given, WM_PLAN_EVENTS,
            round (given->fact[WM_PLAN_EVENTS].value * wm_args_real (args, "files") / was),
            "as many a file as in those of --input");
    wm_plan_given_options (given, args);
    if (isnan (given->fact[WM_PLAN_BATCH].value))
        wm_plan_given_set (given, WM_PLAN_BATCH, WM_DEFAULT_BATCH_HITS,
                           "assumed, as of the sparse engine");
    if (isnan (given->fact[WM_PLAN_BATCHES].value))
        wm_plan_given_set (
            given, WM_PLAN_BATCHES,
            ceil (given->fact[WM_PLAN_HITS].value / given->fact[WM_PLAN_BATCH].value),
            "at least: its planes are not known");
    return 0;
}

/* ---- needs ----------------------------------------------------------------------------------- */

/* A number and its unit, or that it is not known and which option would say.  */
static void need (const char *title, double value, const char *unit, const char *option)
{
    char number[32];
    if (isnan (value))
        printf ("  %-19s unknown: give %s\n", title, option);
    else if (value >= 1000)
        printf ("  %-19s %s %s\n", title, wm_show_count ((int64_t) (value + 0.5), number), unit);
    else
        printf ("  %-19s %.3g %s\n", title, value, unit);
}

static void need_bytes (const char *title, double bytes, const char *what, const char *option)
{
    char number[32];
    if (isnan (bytes))
        printf ("  %-19s %s unknown: give %s\n", title, what, option);
    else
        printf ("  %-19s %s %s\n", title, wm_show_bytes (bytes, number), what);
}

static void show_memory (const wm_plan_given_t *given)
{
    const double *mb = given->memory_mb;
    if (isnan (mb[3]))
        puts ("  memory              unknown: measure here, or give a --bench with a pipeline");
    else
        printf (
            "  memory, at least    a worker %.0f MB, producer %.0f MB, broker %.0f MB and up to "
            "1 GiB\n",
            mb[2] + mb[3], mb[0], mb[1]);
}

static void show_needs (const plan_t *self)
{
    const wm_plan_needs_t *needs = &self->needs;
    puts ("\nNEEDS");
    need ("hits", needs->hits, "to be scored", "");
    need ("engines on cores", needs->core_s / 3600, "core-hours", "--rate");
    need ("engines on GPUs", needs->gpu_s / 3600, "GPU-hours, instead of the core-hours",
          "--gpu-rate");
    need ("producers", needs->producer_s / 3600, "core-hours", "--event-s");
    need_bytes ("through the broker", needs->task_bytes, "of payloads", "--event-bytes");
    need_bytes ("", needs->result_bytes, "of results", "--scores");
    need_bytes ("disk", needs->output_bytes, "of outputs", "--scores");
    need_bytes ("", needs->result_bytes, "of journal at most", "--scores");
    show_memory (&self->given);
    need ("producers per GPU", needs->producers_gpu, "of one core keep a GPU busy",
          "--gpu-rate and --event-s");
    need ("clients per GPU", needs->clients_gpu, "before they wait for it",
          "--gpu-rate and --client-s");
}

static json_t *needs_json (const plan_t *self)
{
    const wm_plan_needs_t *needs = &self->needs;
    const double *mb = self->given.memory_mb;
    return json_pack (
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "hits",
        wm_plan_real (needs->hits), "batches", wm_plan_real (needs->batches), "core_hours",
        wm_plan_real (needs->core_s / 3600), "gpu_hours", wm_plan_real (needs->gpu_s / 3600),
        "producer_hours", wm_plan_real (needs->producer_s / 3600), "payload_bytes",
        wm_plan_real (needs->task_bytes), "result_bytes", wm_plan_real (needs->result_bytes),
        "output_bytes", wm_plan_real (needs->output_bytes), "memory_producer_mb",
        wm_plan_real (mb[0]), "memory_broker_mb", wm_plan_real (mb[1]), "memory_worker_mb",
        wm_plan_real (mb[2] + mb[3]), "producers_a_gpu", wm_plan_real (needs->producers_gpu),
        "clients_a_gpu", wm_plan_real (needs->clients_gpu), "journal_bytes_most",
        wm_plan_real (needs->result_bytes));
}

/* ---- times ----------------------------------------------------------------------------------- */

typedef enum { ON_CORES, ON_GPUS, HERE } where_t;
static const char *const where_names[] = { "cores", "gpus", "here" };

/* Prints or keeps one row of times.  */
static void time_row (plan_t *self, where_t where, double workers, const wm_plan_time_t *time)
{
    char wall[32], name[40], rate[32], share[32];
    if (where != HERE && self->n_row < ROWS_MAX) {
        self->row[self->n_row] = workers;
        self->time[self->n_row++] = *time;
    }
    if (self->json) {
        json_array_append_new (
            json_object_get (self->json, "times"),
            json_pack ("{s:s, s:f, s:f, s:f, s:s, s:f, s:o, s:f, s:f, s:f}", "on",
                       where_names[where], "workers", workers, "wall_s", time->wall_s, "cpu_s",
                       time->cpu_s, "limit", wm_plan_limit_name (time->limit), "busy", time->busy,
                       "bytes_s", wm_plan_real (time->bytes_s), "batches_s", time->batches_s,
                       "broker", time->broker, "peers", time->peers));
        return;
    }
    snprintf (name, sizeof name,
              where == HERE      ? "%.0f here"
              : where == ON_GPUS ? "%.0f GPU"
                                 : "%.0f",
              workers);
    const bool is_known = !isnan (time->bytes_s);
    snprintf (rate, sizeof rate, is_known ? "%.2f" : "-", 1e-6 * time->bytes_s);
    snprintf (share, sizeof share, "%s%.1f", is_known ? "" : ">", 100 * time->broker);
    printf ("  %8s %12s  %-9s %4.0f %% %9s %10.2f %6s %% %5.1f %%\n", name,
            wm_show_time (time->wall_s, wall), wm_plan_limit_name (time->limit), 100 * time->busy,
            rate, time->batches_s, share, 100 * time->peers);
}

/* A warning in lines of at most WIDTH columns.  */
static void print_filled (const char *line)
{
    int column = printf ("  warning:");
    while (*line) {
        const int n = (int) strcspn (line, " ");
        if (column + 1 + n > WIDTH)
            column = printf ("\n          ") - 1;
        column += printf (" %.*s", n, line);
        line += n + (line[n] == ' ');
    }
    putchar ('\n');
}

static void warn (plan_t *self, const char *line)
{
    if (self->json)
        json_array_append_new (json_object_get (self->json, "warnings"), json_string (line));
    else
        print_filled (line);
}

static void check_broker (plan_t *self, double workers, const wm_plan_time_t *time)
{
    char line[200];
    if (time->broker >= WM_PLAN_BROKER_WARNS) {
        snprintf (line, sizeof line,
                  "%.0f workers: %.0f %% of what one broker carries; divide the inputs "
                  "among several campaigns, each with a broker of its own",
                  workers, 100 * time->broker);
        warn (self, line);
    }
    if (time->peers >= WM_PLAN_BROKER_WARNS) {
        snprintf (line, sizeof line,
                  "%.0f workers: a broker takes %u peers; give a worker more threads, or "
                  "divide the inputs among several campaigns",
                  workers, WM_PEERS_MAX);
        warn (self, line);
    }
}

/* Without --workers as many as one broker can have.  */
static void show_workers (plan_t *self)
{
    wm_plan_time_t time, before = { .limit = WM_PLAN_BY_WORKERS };
    const double asked = (double) wm_args_number (self->args, "workers");
    for (double n = asked > 0 ? asked : 1; n <= WM_PLAN_WORKERS_MAX; n *= 4) {
        wm_plan_time (&self->plan, n, &time);
        /* More workers than that change nothing.  */
        if (before.wall_s > 0 && (time.wall_s > 0.999 * before.wall_s || time.peers > 1))
            break;
        time_row (self, ON_CORES, n, &time);
        before = time;
        if (asked > 0)
            break;
    }
}

/* In workers of one core, or of one GPU where only its rate is known.  */
static void show_deadline (plan_t *self)
{
    char line[200], wall[32];
    wm_plan_time_t time;
    wm_plan_t plan = self->plan;
    const bool is_gpu = isnan (plan.core_hits_s);
    if (is_gpu)
        plan.core_hits_s = plan.gpu_hits_s;
    const double n = wm_plan_workers (&plan, self->deadline_s, &time);
    if (self->json)
        json_object_set_new (
            self->json, "deadline",
            json_pack ("{s:s, s:f, s:o, s:f, s:s}", "on", where_names[is_gpu ? ON_GPUS : ON_CORES],
                       "seconds", self->deadline_s, "workers", n > 0 ? json_real (n) : json_null (),
                       "wall_s", time.wall_s, "limit", wm_plan_limit_name (time.limit)));
    if (n > 0) {
        if (!self->json)
            printf ("\n  --deadline %s: at least %.0f %s%s; the campaign then takes %s\n",
                    wm_args_text (self->args, "deadline"), n, is_gpu ? "GPU" : "worker",
                    n == 1 ? "" : "s", wm_show_time (time.wall_s, wall));
        check_broker (self, n, &time);
        return;
    }
    snprintf (line, sizeof line,
              "--deadline %.20s cannot be met: with any number of workers the campaign takes %s, "
              "limited by %s",
              wm_args_text (self->args, "deadline"), wm_show_time (time.wall_s, wall),
              time.limit == WM_PLAN_BY_WORKERS ? "start and one batch"
                                               : wm_plan_limit_name (time.limit));
    warn (self, line);
}

static void show_times (plan_t *self)
{
    wm_plan_time_t time;
    const wm_plan_machine_t *here = &self->given.here;
    const double gpus = (double) wm_args_number (self->args, "gpus");
    if (!self->json)
        puts ("\n   WORKERS         WALL  LIMIT       BUSY      MB/s  BATCHES/s   BROKER   PEERS");
    if (here->hits_s > 0) {
        wm_plan_here (&self->plan, here->workers, here->hits_s, here->cores, &time);
        time_row (self, HERE, here->workers, &time);
    }
    if (self->plan.core_hits_s > 0)
        show_workers (self);
    if (self->plan.gpu_hits_s > 0) {
        wm_plan_time_gpu (&self->plan, gpus > 0 ? gpus : 1, &time);
        time_row (self, ON_GPUS, gpus > 0 ? gpus : 1, &time);
    }
    for (uint32_t i = 0; i < self->n_row; i++)
        check_broker (self, self->row[i], &self->time[i]);
    if (!isnan (self->deadline_s))
        show_deadline (self);
    if (here->others > 0) {
        char line[200];
        snprintf (line, sizeof line,
                  "other programs had up to %.0f %% of the CPUs during the measurement; times "
                  "are as if they had none",
                  100 * here->others);
        warn (self, line);
    }
    if (isnan (self->plan.event_s))
        warn (self, "the producer is not counted: its time is unknown (--event-s)");
    if (isnan (self->plan.start_s))
        warn (self, "start and end are not counted: their time is unknown (--start-s)");
}

/* ---- together -------------------------------------------------------------------------------- */

/* Prints what the campaign needs and how long it takes. Returns the exit code.  */
static int campaign (plan_t *self)
{
    wm_plan_given_plan (&self->given, &self->plan);
    self->plan.has_keys = !wm_args_given (self->args, "insecure");
    wm_plan_needs (&self->plan, &self->needs);
    if (!(self->needs.hits <= HITS_MOST))
        return wm_args_refuse (self->args,
                               "%.3g hits are more than any detector has: correct --events or "
                               "--hits-per-event",
                               self->needs.hits);
    if (self->json)
        json_object_set_new (self->json, "needs", needs_json (self));
    else {
        puts ("FROM");
        wm_plan_given_print (&self->given, stdout);
        show_needs (self);
    }
    show_times (self);
    return WM_EXIT_OK;
}

static int plan_main (const wm_args_t *args)
{
    static plan_t self;
    const char *deadline = wm_args_text (args, "deadline");
    self =
        (plan_t){ .args = args, .deadline_s = deadline ? wm_args_seconds (args, "deadline") : NAN };
    int code = refuse (args);
    if (!code)
        code = take_numbers (&self);
    if (code)
        return code;
    if (wm_args_given (args, "json"))
        self.json =
            json_pack ("{s:s, s:s, s:o, s:[], s:[]}", "schema", "wiremill-plan-1", "version",
                       WM_VERSION, "given", wm_plan_given_json (&self.given), "times", "warnings");
    code = campaign (&self);
    if (self.json && !code) {
        json_dumpf (self.json, stdout, JSON_INDENT (2) | JSON_REAL_PRECISION (9));
        putchar ('\n');
    }
    json_decref (self.json);
    return code;
}
