/* wm_plan_given.c - see wm_plan_given.h.  */
#include "ops/plan/wm_plan_given.h"
#include "kernels/wm_device.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "schema/wm_defaults.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Bytes of a compressed file of scores, by its scores: measured 12.7 a hit of 4 scores (synthetic
   events, 235,584 hits), with all other columns.  */
#define OUTPUT_BYTES_SCORE 3.2
#define OTHERS_MOST 0.1 /* of the CPUs; a measurement beside more of them counts by CPU time */

typedef enum { COUNT, SECONDS, BYTES, BYTES_S } unit_t;

/* clang-format off */
static const struct {
    const char *option, *key, *title;
    unit_t unit;
    double scale; /* of the option */
} facts[WM_PLAN_FACTS] = {
    [WM_PLAN_FILES] = {"files", "files", "files", COUNT, 1},
    [WM_PLAN_EVENTS] = {"events", "events", "events", COUNT, 1},
    [WM_PLAN_HITS] = {"hits-per-event", "hits_per_event", "hits per event", COUNT, 1},
    [WM_PLAN_CORE] = {"rate", "core_hits_s", "hits/s per core", COUNT, 1},
    [WM_PLAN_GPU] = {"gpu-rate", "gpu_hits_s", "hits/s per GPU", COUNT, 1},
    [WM_PLAN_EVENT_S] = {"event-s", "producer_s_event", "producer, an event", SECONDS, 1},
    [WM_PLAN_FILE_S] = {"file-s", "s_file", "a file adds", SECONDS, 1},
    [WM_PLAN_BYTES] = {"event-bytes", "bytes_per_event", "payload per event", BYTES, 1},
    [WM_PLAN_BATCH] = {"batch-hits", "batch_hits", "hits per batch", COUNT, 1},
    [WM_PLAN_BATCHES] = {NULL, "batches_per_event", "batches per event", COUNT, 1},
    [WM_PLAN_SCORES] = {"scores", "scores", "scores per hit", COUNT, 1},
    [WM_PLAN_OUTPUT] = {NULL, "output_bytes_per_hit", "output per hit", BYTES, 1},
    [WM_PLAN_START] = {"start-s", "start_s", "start and end", SECONDS, 1},
    [WM_PLAN_CLIENT] = {"client-s", "client_s", "client, an event", SECONDS, 1},
    [WM_PLAN_DISK] = {"disk-rate", "disk_bytes_s", "disk", BYTES_S, 1e6},
    [WM_PLAN_PRODUCERS] = {"producers", "producers", "producers", COUNT, 1},
};
/* clang-format on */

void wm_plan_given_init (wm_plan_given_t *self)
{
    *self = (wm_plan_given_t){ .here = { .hits_s = NAN } };
    for (int i = 0; i < WM_PLAN_FACTS; i++)
        self->fact[i].value = NAN;
    for (int i = 0; i < 4; i++)
        self->memory_mb[i] = NAN;
    wm_plan_given_set (self, WM_PLAN_PRODUCERS, 1, "assumed; --producers N");
}

void wm_plan_given_set (wm_plan_given_t *self, wm_plan_fact_name_t name, double value,
                        const char *from)
{
    self->fact[name].value = value;
    snprintf (self->fact[name].from, sizeof self->fact[name].from, "%s", from);
    if (name == WM_PLAN_SCORES)
        wm_plan_given_set (self, WM_PLAN_OUTPUT, OUTPUT_BYTES_SCORE * value,
                           "as measured on synthetic events");
}

void wm_plan_given_options (wm_plan_given_t *self, const wm_args_t *args)
{
    char from[48];
    for (int i = 0; i < WM_PLAN_FACTS; i++) {
        const char *option = facts[i].option;
        if (!option || !wm_args_given (args, option))
            continue;
        snprintf (from, sizeof from, "--%s", option);
        const double value = i == WM_PLAN_BATCH || i == WM_PLAN_SCORES || i == WM_PLAN_PRODUCERS
                                 ? (double) wm_args_number (args, option)
                                 : wm_args_real (args, option);
        wm_plan_given_set (self, (wm_plan_fact_name_t) i, facts[i].scale * value, from);
    }
}

/* ---- measured points ------------------------------------------------------------------------- */

/* A number of a point; NAN where the point does not have it.  */
static double real (const json_t *point, const char *key)
{
    const json_t *value = json_object_get (point, key);
    return json_is_number (value) ? json_number_value (value) : NAN;
}

/* Hits a second of an engine on CPUs: mean of the measurement; by its CPU time where other programs
   took a part of the CPUs, which they may not take from the campaign.  */
static double cpu_rate (wm_plan_given_t *self, const json_t *point)
{
    const double threads = real (point, "workers") * real (point, "threads");
    const double had = real (point, "cpu_s") / (real (point, "seconds") * threads);
    if (!(had > 0 && had < 1 - OTHERS_MOST))
        return real (point, "hits_s");
    self->here.others = fmax (self->here.others, 1 - had);
    return real (point, "hits") / real (point, "cpu_s") * threads;
}

static void take_engine (wm_plan_given_t *self, const json_t *point, const char *from)
{
    const char *signature = wm_ask_text (point, "signature");
    const double workers = real (point, "workers"), threads = real (point, "threads");
    const bool is_gpu = wm_device_by_gpu (wm_ask_text (point, "engine"), signature);
    const double rate = is_gpu ? real (point, "hits_s") : cpu_rate (self, point);
    wm_plan_fact_t *fact = &self->fact[is_gpu ? WM_PLAN_GPU : WM_PLAN_CORE];
    char text[48];
    snprintf (text, sizeof text, "%s, %.24s", from, signature);
    if ((is_gpu || workers * threads == 1) && !(fact->value >= rate))
        wm_plan_given_set (self, is_gpu ? WM_PLAN_GPU : WM_PLAN_CORE, rate, text);
    if (!is_gpu && !(self->here.hits_s >= rate)) {
        self->here.hits_s = rate;
        self->here.workers = workers;
        self->here.threads = threads;
    }
    if (real (point, "events_s") > 0)
        wm_plan_given_set (self, WM_PLAN_HITS, real (point, "hits_s") / real (point, "events_s"),
                           from);
    const double most = self->fact[WM_PLAN_BATCH].value;
    if (real (point, "batch") >= (isnan (most) ? WM_DEFAULT_BATCH_HITS : most) &&
        real (point, "batches_per_event") > 0)
        wm_plan_given_set (self, WM_PLAN_BATCHES, real (point, "batches_per_event"), from);
    const double made_s = real (point, "read_s_event") + real (point, "pack_s_event");
    const double made_cpu_s = real (point, "cpu_s_event");
    if (!isnan (made_s))
        wm_plan_given_set (self, WM_PLAN_EVENT_S,
                           self->here.others > 0 && made_cpu_s > 0 ? made_cpu_s : made_s, from);
    if (!isnan (real (point, "bytes_per_event")))
        wm_plan_given_set (self, WM_PLAN_BYTES, real (point, "bytes_per_event"), from);
}

static void take_pipeline (wm_plan_given_t *self, const json_t *point, const char *from)
{
    static const char *const keys[] = { "memory_producer_mb", "memory_broker_mb",
                                        "memory_worker_mb", "memory_engine_mb" };
    const double outside = real (point, "lead_s") + real (point, "tail_s");
    const double first = self->fact[WM_PLAN_EVENT_S].value;
    if (outside > 0)
        wm_plan_given_set (self, WM_PLAN_START, fmax (0, outside - (first > 0 ? first : 0)), from);
    if (real (point, "bytes_per_event") > 0)
        wm_plan_given_set (self, WM_PLAN_BYTES, real (point, "bytes_per_event"), from);
    for (int i = 0; i < 4; i++)
        if (real (point, keys[i]) > 0)
            self->memory_mb[i] = real (point, keys[i]);
}

void wm_plan_given_points (wm_plan_given_t *self, const json_t *bench, const char *precision,
                           const char *from)
{
    size_t i;
    const json_t *point, *points = json_object_get (bench, "points");
    self->here.cores = wm_ask_real (bench, "machine.cpus");
    for (int pass = 0; pass < 2; pass++) /* engines first: a pipeline's start has one event in it */
        json_array_foreach (points, i, point)
        {
            const char *kind = wm_ask_text (point, "bench");
            if (json_object_get (point, "failed") ||
                strcmp (wm_ask_text (point, "precision"), precision) != 0)
                continue;
            if (pass == 0 && strcmp (kind, "engine") == 0)
                take_engine (self, point, from);
            if (pass == 1 && strcmp (kind, "pipeline") == 0)
                take_pipeline (self, point, from);
        }
    /* Several threads of one worker stand for as many cores where one alone was not measured.  */
    const double cores = self->here.workers * self->here.threads;
    char text[48];
    snprintf (text, sizeof text, "%s, of %.0f threads together", from, cores);
    if (isnan (self->fact[WM_PLAN_CORE].value) && self->here.hits_s > 0)
        wm_plan_given_set (self, WM_PLAN_CORE, self->here.hits_s / cores, text);
}

/* The report of `make bench`, which has medians by the name of what was measured.  */
static void take_report (wm_plan_given_t *self, const json_t *report, const char *precision)
{
    char key[64];
    const json_t *rates = json_object_get (report, "hits_s");
    const double cpus = real (report, "cpus");
    const bool is_fp32 = strcmp (precision, "fp32") == 0;
    snprintf (key, sizeof key, "synth_%s", precision);
    const double all = real (rates, key), alone = real (rates, "real_fp32_one_thread");
    snprintf (key, sizeof key, "%s%spipeline_first_hit_ms", is_fp32 ? "" : precision,
              is_fp32 ? "" : "_");
    const double first_ms = real (report, key);
    strcpy (strstr (key, "first_hit_ms"), "end_ms");
    const double end_ms = real (report, key);
    if (is_fp32 && alone > 0)
        wm_plan_given_set (self, WM_PLAN_CORE, alone, "--bench, real event, 1 thread");
    else if (all > 0 && cpus >= 1)
        wm_plan_given_set (self, WM_PLAN_CORE, all / cpus, "--bench, of all CPUs together");
    if (first_ms + end_ms > 0)
        wm_plan_given_set (self, WM_PLAN_START, 1e-3 * (first_ms + end_ms), "--bench");
}

wm_fault_t wm_plan_given_file (wm_plan_given_t *self, const char *path, const char *precision,
                               wm_error_t *error)
{
    json_error_t at;
    FILE *file = fopen (path, "re");
    if (!file)
        return wm_fault (error, WM_EUSAGE, "--bench %.300s: %s", path, strerror (errno));
    json_t *whole = json_loadf (file, 0, &at);
    fclose (file);
    if (!whole)
        return wm_fault (error, WM_EBATCH, "--bench %.300s:%d: %.100s", path, at.line, at.text);
    const bool is_points = strcmp (wm_ask_text (whole, "schema"), "wiremill-bench-1") == 0;
    const bool is_report = json_is_object (json_object_get (whole, "hits_s"));
    if (is_points)
        wm_plan_given_points (self, whole, precision, "--bench");
    else if (is_report)
        take_report (self, whole, precision);
    json_decref (whole);
    if (!is_points && !is_report)
        return wm_fault (error, WM_EBATCH,
                         "--bench %.300s is neither of wiremill bench --json nor of make bench",
                         path);
    if (isnan (self->fact[WM_PLAN_CORE].value) && isnan (self->fact[WM_PLAN_GPU].value))
        return wm_fault (error, WM_EBATCH,
                         "--bench %.300s has no engine in %s; choose another --precision, or type "
                         "wiremill bench engine --precision %s --json FILE",
                         path, precision, precision);
    return WM_OK;
}

/* ---- out ------------------------------------------------------------------------------------- */

void wm_plan_given_plan (const wm_plan_given_t *self, wm_plan_t *plan)
{
    const wm_plan_fact_t *fact = self->fact;
    *plan = (wm_plan_t){
        .files = fact[WM_PLAN_FILES].value,
        .events = fact[WM_PLAN_EVENTS].value,
        .hits_event = fact[WM_PLAN_HITS].value,
        .batch_hits = fact[WM_PLAN_BATCH].value,
        .n_output = fact[WM_PLAN_SCORES].value,
        .batches_event = fact[WM_PLAN_BATCHES].value,
        .bytes_event = fact[WM_PLAN_BYTES].value,
        .output_bytes_hit = fact[WM_PLAN_OUTPUT].value,
        .core_hits_s = fact[WM_PLAN_CORE].value,
        .gpu_hits_s = fact[WM_PLAN_GPU].value,
        .event_s = fact[WM_PLAN_EVENT_S].value,
        .file_s = fact[WM_PLAN_FILES].value > 0 ? fact[WM_PLAN_FILE_S].value : NAN,
        .start_s = fact[WM_PLAN_START].value,
        .client_s = fact[WM_PLAN_CLIENT].value,
        .disk_bytes_s = fact[WM_PLAN_DISK].value,
        .producers = fact[WM_PLAN_PRODUCERS].value,
    };
}

void wm_plan_given_print (const wm_plan_given_t *self, FILE *out)
{
    char text[40], number[32];
    for (int i = 0; i < WM_PLAN_FACTS; i++) {
        const double value = self->fact[i].value;
        if (isnan (value))
            continue;
        switch (facts[i].unit) {
        case COUNT:
            wm_show_count ((int64_t) (value + 0.5), text);
            break;
        case SECONDS:
            snprintf (text, sizeof text, "%.3g s", value);
            break;
        case BYTES:
            snprintf (text, sizeof text, "%s", wm_show_bytes (value, number));
            break;
        case BYTES_S:
            snprintf (text, sizeof text, "%s/s", wm_show_bytes (value, number));
            break;
        }
        fprintf (out, "  %-19s %15s  %s\n", facts[i].title, text, self->fact[i].from);
    }
}

json_t *wm_plan_real (double value)
{
    return isfinite (value) ? json_real (value) : json_null ();
}

json_t *wm_plan_given_json (const wm_plan_given_t *self)
{
    json_t *given = json_object ();
    for (int i = 0; i < WM_PLAN_FACTS; i++)
        json_object_set_new (given, facts[i].key,
                             isnan (self->fact[i].value)
                                 ? json_null ()
                                 : json_pack ("{s:f, s:s}", "value", self->fact[i].value, "from",
                                              self->fact[i].from));
    return given;
}
