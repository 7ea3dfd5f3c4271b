/* wm_plan_measure.c - see wm_plan_measure.h.  */
#include "ops/plan/wm_plan_measure.h"
#include "kernels/wm_device.h"
#include "ops/ask/wm_ask.h"
#include "ops/campaign/wm_processes.h"
#include "ops/campaign/wm_setup.h"
#include "ops/process/wm_complain.h"
#include "ops/process/wm_memory.h"
#include "ops/process/wm_spawn.h"
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAMPLE_FILES 5       /* inputs that are read, spread over all */
#define SAMPLE_HITS "600000" /* of them, for the mean of an event */
#define STARTS 3             /* campaigns of one patch; the fastest counts, as if alone */
#define SMALL_FILES 64       /* of one patch, in one campaign */

typedef struct {
    const wm_args_t *args;
    wm_plan_given_t *given;
    char folder[PATH_MAX];
    wm_setup_t setup;
    wm_inputs_t inputs;
    char **path; /* (inputs.n_file) */
    double bytes, sample_bytes[SAMPLE_FILES];
    char sample_list[32]; /* memory file */
} measure_t;

static volatile sig_atomic_t stops;
static volatile pid_t running; /* a child that a signal ends; 0: none */

static void on_signal (int number)
{
    (void) number;
    stops = 1;
    if (running > 0)
        kill (running, SIGTERM);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Size of the file of "file.h5:/dataset", or of a plain path.  */
static double file_bytes (const char *path)
{
    char file[PATH_MAX];
    struct stat st;
    snprintf (file, sizeof file, "%s", path);
    char *dataset = strstr (file, ":/");
    if (dataset && stat (file, &st))
        *dataset = 0;
    return stat (file, &st) == 0 ? (double) st.st_size : 0;
}

static wm_fault_t list_inputs (measure_t *self, wm_error_t *error)
{
    char *line = NULL;
    size_t room = 0, n = 0;
    wm_fault_t fault = wm_setup_inputs (&self->inputs, self->args, 0, error);
    if (fault)
        return fault;
    self->path = calloc (self->inputs.n_file, sizeof *self->path);
    FILE *list = self->path ? fopen (self->inputs.path, "re") : NULL;
    for (ssize_t length;
         list && n < self->inputs.n_file && (length = getline (&line, &room, list)) > 0;) {
        line[length - (line[length - 1] == '\n')] = 0;
        self->path[n] = strdup (line);
        if (!self->path[n])
            break;
        self->bytes += file_bytes (self->path[n++]);
    }
    free (line);
    if (list)
        fclose (list);
    return n == self->inputs.n_file
               ? WM_OK
               : wm_fault (error, WM_EHOST, "the list of inputs cannot be kept in memory");
}

/* The inputs that are read: the middle one first, since first files are often odd ones.  */
static wm_fault_t choose_sample (measure_t *self, wm_error_t *error)
{
    static const double at[SAMPLE_FILES] = { 0.5, 0.1, 0.9, 0.3, 0.7 };
    const size_t n = self->inputs.n_file;
    char *text = NULL;
    size_t size = 0, used[SAMPLE_FILES], n_used = 0;
    int fd;
    FILE *out = open_memstream (&text, &size);
    for (int i = 0; i < SAMPLE_FILES && out; i++) {
        const size_t file = (size_t) (at[i] * (double) n);
        bool is_new = true;
        for (size_t k = 0; k < n_used; k++)
            is_new &= used[k] != file;
        if (!is_new)
            continue;
        self->sample_bytes[n_used] = file_bytes (self->path[file]);
        used[n_used++] = file;
        fprintf (out, "%s\n", self->path[file]);
    }
    if (!out || fclose (out))
        return wm_fault (error, WM_EHOST, "no memory for a list of inputs");
    const wm_fault_t fault = wm_memory_file ("sample", text, size, &fd, self->sample_list, error);
    free (text);
    return fault;
}

/* ---- wiremill bench -------------------------------------------------------------------------- */

/* Runs `wiremill bench`, and takes its JSON. NULL: it failed, *code is the exit code.  */
static json_t *bench (const char *const argv[], int *code)
{
    int out[2];
    if (pipe2 (out, O_CLOEXEC)) {
        fprintf (stderr, "wiremill plan: pipe: %s\n", strerror (errno));
        *code = WM_EXIT_FAILURE;
        return NULL;
    }
    sigset_t set, before;
    sigfillset (&set);
    sigprocmask (SIG_BLOCK, &set, &before);
    running = stops ? -1 : wm_spawn ("plan", argv, STDIN_FILENO, out[1]);
    sigprocmask (SIG_SETMASK, &before, NULL);
    close (out[1]);
    FILE *stream = fdopen (out[0], "r");
    json_t *answer = stream ? json_loadf (stream, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    if (stream)
        fclose (stream);
    *code = running > 0 ? wm_spawn_code ("plan", argv[0], running) : WM_EXIT_FAILURE;
    running = 0;
    if (!*code && answer)
        return answer;
    json_decref (answer);
    *code = stops ? WM_EXIT_AGAIN : *code ? *code : WM_EXIT_FAILURE;
    return NULL;
}

static void report (const measure_t *self, const char *what)
{
    if (!wm_args_given (self->args, "quiet"))
        fprintf (stderr, "wiremill plan: measuring %s\n", what);
}

/* The counts of all inputs, by those that were read.  */
static void take_counts (measure_t *self, const json_t *point)
{
    char from[48];
    const double n_file = wm_ask_real (point, "input_files"),
                 n_event = wm_ask_real (point, "input_events"), all = (double) self->inputs.n_file;
    double read_bytes = 0;
    for (int i = 0; i < SAMPLE_FILES && i < (int) n_file; i++)
        read_bytes += self->sample_bytes[i];
    const double by_size = n_file < all && read_bytes > 0 ? self->bytes / read_bytes : 1;
    wm_plan_given_set (self->given, WM_PLAN_FILES, all, "--input");
    if (n_file < all)
        snprintf (from, sizeof from, "%.0f files inspected, others by size", n_file);
    else
        snprintf (from, sizeof from, "inspected");
    wm_plan_given_set (self->given, WM_PLAN_EVENTS, fmax (1, round (n_event * by_size)), from);
}

static int measure_engine (measure_t *self)
{
    char workers[24] = "1", threads[24] = "1", batch[24];
    const int cpus = (int) wm_allowance ()->cpus;
    const uint64_t memory = wm_allowance ()->memory_bytes;
    const int fit =
        memory > WM_PROCESSES_BYTES + WM_PROCESSES_WORKER_BYTES
            ? (int) fmin (16, (double) (memory - WM_PROCESSES_BYTES) / WM_PROCESSES_WORKER_BYTES)
        : memory ? 1
                 : 16;
    const int team = (cpus + 3) / 4 < fit ? (cpus + 3) / 4 : fit; /* workers of wiremill run */
    if (team > 1)
        snprintf (workers, sizeof workers, "1,%d", team);
    if (cpus > 1)
        snprintf (threads, sizeof threads, "1,%d", cpus / team);
    snprintf (batch, sizeof batch, "%u", self->setup.pins.batch_hits);
    const char *argv[40] = { "wiremill",     "bench",
                             "engine",       "--quiet",
                             "--json",       "-",
                             "--folder",     self->folder,
                             "--model",      self->setup.wmm,
                             "--input-list", self->sample_list,
                             "--hits",       SAMPLE_HITS,
                             "--engine",     wm_args_text (self->args, "engine"),
                             "--precision",  wm_args_text (self->args, "precision"),
                             "--workers",    workers,
                             "--threads",    threads,
                             "--batch",      batch,
                             "--judged",     "0",
                             "--seconds",    wm_args_text (self->args, "seconds") };
    int n = 28, code;
    if (wm_args_given (self->args, "spec")) {
        argv[n++] = "--spec";
        argv[n++] = wm_args_text (self->args, "spec");
    }
    report (self, "engines, on some of the inputs");
    json_t *answer = bench (argv, &code);
    if (!answer)
        return code;
    wm_plan_given_points (self->given, answer, wm_args_text (self->args, "precision"),
                          "measured here");
    take_counts (self, json_array_get (json_object_get (answer, "points"), 0));
    json_decref (answer);
    return WM_EXIT_OK;
}

/* ---- campaigns of one patch ------------------------------------------------------------------ */

/* A patch of a simple pattern in the shape of the model's input, as a .npy file.  */
static wm_fault_t write_patch (const measure_t *self, const char *path, wm_error_t *error)
{
    char shape[160] = "", head[256];
    for (const char *at = self->setup.shape; *at; at += strspn (at, "x")) {
        const size_t n = strcspn (at, "x"), used = strlen (shape);
        snprintf (shape + used, sizeof shape - used, ", %.*s", (int) n, at);
        at += n;
    }
    const int n = snprintf (head, sizeof head,
                            "{'descr': '<f4', 'fortran_order': False, 'shape': (1%s), }", shape);
    const unsigned length = ((unsigned) n + 11 + 63) / 64 * 64 - 10; /* a multiple of 64 in all */
    FILE *file = fopen (path, "we");
    if (file) {
        fwrite ("\x93NUMPY\x01", 1, 7, file);
        fprintf (file, "%c%c%c%-*s\n", 0, (int) (length & 255), (int) (length >> 8),
                 (int) length - 1, head);
    }
    for (uint32_t i = 0; file && i < self->setup.pins.n_value; i++) {
        const float value = (float) (i % 7) / 8;
        fwrite (&value, sizeof value, 1, file);
    }
    if (!file || ferror (file) || fclose (file))
        return wm_fault (error, WM_EHOST, "%.300s: %s", path, strerror (errno));
    return WM_OK;
}

/* Seconds of a whole campaign of these files, the fastest of STARTS; NAN: it failed.  */
static double campaign_s (measure_t *self, const char *glob, json_t **last, int *code)
{
    char batch[64] = "";
    double best = NAN;
    for (int i = 0; i < STARTS; i++)
        snprintf (batch + strlen (batch), sizeof batch - strlen (batch), "%s%u", i ? "," : "",
                  self->setup.pins.batch_hits);
    const char *argv[] = { "wiremill",    "bench",
                           "pipeline",    "--quiet",
                           "--json",      "-",
                           "--folder",    self->folder,
                           "--model",     self->setup.wmm,
                           "--input",     glob,
                           "--engine",    wm_args_text (self->args, "engine"),
                           "--precision", wm_args_text (self->args, "precision"),
                           "--batch",     batch,
                           NULL };
    json_t *answer = bench (argv, code), *point;
    size_t i;
    json_array_foreach (json_object_get (answer, "points"), i, point)
    {
        if (wm_ask_real (point, "seconds") > 0 && !(best <= wm_ask_real (point, "seconds")))
            best = wm_ask_real (point, "seconds");
    }
    if (last && !isnan (best))
        *last = json_incref (json_array_get (json_object_get (answer, "points"), 0));
    json_decref (answer);
    return best;
}

static int measure_start (measure_t *self)
{
    char path[PATH_MAX + 64], glob[PATH_MAX + 64];
    wm_error_t error;
    int code = WM_EXIT_OK;
    if (!self->setup.shape[0] || strchr (self->setup.shape, '+')) {
        fprintf (stderr, "wiremill plan: a start is not measured: the model has several inputs; "
                         "give --start-s S\n");
        return WM_EXIT_OK;
    }
    report (self, "how long a campaign takes to start and to end, and what a file adds");
    for (int i = 0; i <= SMALL_FILES && !stops; i++) {
        snprintf (path, sizeof path, i ? "%s/many-%d.npy" : "%s/one.npy", self->folder, i);
        if (write_patch (self, path, &error))
            return wm_complain ("plan", &error);
    }
    snprintf (glob, sizeof glob, "%s/one.npy", self->folder);
    json_t *point = NULL;
    const double one_s = campaign_s (self, glob, &point, &code);
    if (!isnan (one_s))
        wm_plan_given_set (self->given, WM_PLAN_START, one_s, "measured here: a run of one patch");
    for (int i = 0; point && i < 4; i++) {
        static const char *const keys[] = { "memory_producer_mb", "memory_broker_mb",
                                            "memory_worker_mb", "memory_engine_mb" };
        self->given->memory_mb[i] = wm_ask_real (point, keys[i]);
    }
    json_decref (point);
    snprintf (glob, sizeof glob, "%s/many-*.npy", self->folder);
    const double many_s = code ? NAN : campaign_s (self, glob, NULL, &code);
    if (!isnan (many_s))
        wm_plan_given_set (self->given, WM_PLAN_FILE_S,
                           fmax (0, (many_s - one_s) / (SMALL_FILES - 1)),
                           "measured here: files of one patch");
    return code;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int measure (measure_t *self)
{
    char output[PATH_MAX + 16];
    wm_error_t error;
    snprintf (output, sizeof output, "%s/model", self->folder);
    const wm_args_t *args = self->args;
    const char *engine = wm_args_text (args, "engine");
    const wm_choices_t choices = { .model = wm_setup_model_path (wm_args_text (args, "model")),
                                   .plugin = wm_device_is_plugin (engine) ? engine : NULL,
                                   .output = output,
                                   .precision = wm_args_text (args, "precision"),
                                   .spec = wm_args_given (args, "spec")
                                               ? wm_args_text (args, "spec")
                                               : NULL,
                                   .batch_hits = (uint32_t) wm_args_number (args, "batch-hits") };
    wm_fault_t fault = list_inputs (self, &error);
    if (!fault)
        fault = choose_sample (self, &error);
    if (!fault)
        fault = wm_setup (&self->setup, &choices, &error);
    if (fault)
        return wm_complain ("plan", &error);
    wm_plan_given_set (self->given, WM_PLAN_BATCH, self->setup.pins.batch_hits,
                       wm_args_given (self->args, "batch-hits") ? "--batch-hits" : "of this model");
    wm_plan_given_set (self->given, WM_PLAN_SCORES, self->setup.pins.n_output, "of this model");
    int code = measure_engine (self);
    if (!code)
        code = measure_start (self);
    return stops ? WM_EXIT_AGAIN : code;
}

int wm_plan_measure (wm_plan_given_t *self, const wm_args_t *args)
{
    static measure_t job;
    wm_error_t error;
    job = (measure_t){ .args = args, .given = self };
    struct sigaction action = { .sa_handler = on_signal };
    sigaction (SIGINT, &action, NULL);
    sigaction (SIGTERM, &action, NULL);
    sigaction (SIGHUP, &action, NULL);
    if (wm_folder_temporary (job.folder, NULL, "wiremill-plan", &error))
        return wm_complain ("plan", &error);
    const int code = measure (&job);
    if (!wm_folder_remove (job.folder))
        fprintf (stderr, "wiremill plan: %s is left over\n", job.folder);
    for (size_t i = 0; job.path && i < job.inputs.n_file; i++)
        free (job.path[i]);
    free (job.path);
    return code;
}
