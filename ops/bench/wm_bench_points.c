/* wm_bench_points.c - see wm_bench_points.h.  */
#include "ops/bench/wm_bench_points.h"
#include "kernels/judge/wm_peak.h"
#include "kernels/wm_device.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "schema/base/wm_allowance.h"
#include "schema/wm_limits.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ENGINE 1
#define PIPELINE 2
#define ALL (ENGINE | PIPELINE)

typedef enum { TEXT, COUNT, FIXED1, FIXED2, SHARE, SMALL } format_t;

/* clang-format off */
static const struct {
    const char *key, *title; /* title NULL: in JSON only */
    format_t format;
    int tables;
    const char *what;
} columns[] = {
    {"bench", NULL, TEXT, 0, "engine or pipeline"},
    {"engine", NULL, TEXT, 0, "as given on the command line"},
    {"signature", "engine", TEXT, ENGINE | PIPELINE,
     "what ran: engine, instruction set, precision, version"},
    {"precision", "asked", TEXT, ALL, "fp32, split or fast"},
    {"workers", "work", COUNT, ALL, "workers in parallel"},
    {"threads", "thr", COUNT, ENGINE | PIPELINE, "threads of each"},
    {"batch", "batch", COUNT, ALL, "most hits per batch"},
    {"input_hits", NULL, COUNT, 0, "in all batches"},
    {"hits", NULL, COUNT, 0, "scored during the measurement"},
    {"seconds", NULL, FIXED2, 0, "of the measurement; of the pipeline the whole command"},
    {"cpu_s", NULL, FIXED2, 0, "CPU time of the measurement"},
    {"hits_s", "hits/s", COUNT, ALL, "mean; of the pipeline while there was work"},
    {"best_hits_s", NULL, COUNT, 0, "of the fastest round over all batches"},
    {"whole_hits_s", "whole", COUNT, PIPELINE, "hits by the time of the whole command"},
    {"events_s", NULL, FIXED2, 0, "mean"},
    {"batches_s", NULL, COUNT, 0, "mean"},
    {"p50_ms", NULL, FIXED1, 0,
     "of a batch: scoring; pipeline: from the producer to the acknowledgement"},
    {"p90_ms", NULL, FIXED1, 0, "likewise"},
    {"p99_ms", "p99", FIXED1, ALL, "likewise"},
    {"queue_ms", NULL, FIXED1, 0, "mean of a batch: waiting or travelling"},
    {"stage_ms", NULL, FIXED2, 0, "... decoding"},
    {"compute_ms", NULL, FIXED1, 0, "... scoring"},
    {"commit_ms", NULL, FIXED2, 0,
     "... from its result to the acknowledgement"},
    {"lead_s", "first", FIXED2, PIPELINE, "s of the whole command before anything is scored"},
    {"tail_s", "last", FIXED2, PIPELINE, "s of it after everything was scored"},
    {"idle_share", NULL, SHARE, 0,
     "of the time of the engines' threads while they had a batch: they had nothing to do"},
    {"read_s_event", NULL, SMALL, 0, "of an event in the producer: reading"},
    {"pack_s_event", NULL, SMALL, 0, "... cutting, digesting and encoding"},
    {"cpu_s_event", NULL, SMALL, 0, "... CPU time of both"},
    {"bytes_per_event", NULL, COUNT, 0, "sent to workers"},
    {"batches_per_event", NULL, FIXED2, 0, "as campaigns cut them"},
    {"input_files", NULL, COUNT, 0, "that were read, in whole or in part"},
    {"input_events", NULL, COUNT, 0, "in these files"},
    {"cpu_producer_s", NULL, FIXED2, 0, "CPU time of the producer"},
    {"cpu_broker_s", NULL, FIXED2, 0, "... of the broker"},
    {"cpu_worker_s", NULL, FIXED2, 0, "... of all workers"},
    {"cpu_engine_s", NULL, FIXED2, 0, "... of all engine processes"},
    {"cpu_run_s", NULL, FIXED2, 0, "... of wiremill run"},
    {"memory_producer_mb", NULL, COUNT, 0, "most memory resident at once, of the producer"},
    {"memory_broker_mb", NULL, COUNT, 0, "... of the broker"},
    {"memory_worker_mb", NULL, COUNT, 0, "... of a worker"},
    {"memory_engine_mb", NULL, COUNT, 0, "... of its engine process, with the mapped model"},
    {"memory_run_mb", NULL, COUNT, 0, "... of wiremill run"},
    {"executed_madds", NULL, COUNT, 0, "multiply-adds executed a hit"},
    {"dense_madds", NULL, COUNT, 0, "... of the model's dense form"},
    {"gflops", NULL, FIXED1, 0,
     "executed in the fastest round, zeros skipped; of bf16x3 its three products in bf16"},
    {"peak_gflops", NULL, FIXED1, 0, "measured peak of so many threads in this precision"},
    {"peak_share", "peak", SHARE, ENGINE, "gflops by peak_gflops"},
    {"cpu_peak_share", NULL, SHARE, 0,
     "the same by CPU time: time that other programs took does not count"},
    {"dense_gflops", NULL, FIXED1, 0,
     "GFLOP/s that the dense form would need for these hits/s"},
    {"uncounted", NULL, TEXT, 0, "why multiply-adds are not known"},
    {"judged", NULL, COUNT, 0, "hits whose scores were compared with the reference in double"},
    {"error", "error", SMALL, ENGINE, "largest difference of their scores"},
    {"failed", NULL, TEXT, 0, "why it was not measured"},
};
/* clang-format on */
#define COLUMNS (sizeof columns / sizeof *columns)

/* ---- the machine ----------------------------------------------------------------------------- */

void wm_machine_inspect (wm_machine_t *self)
{
    static const char *const sets[] = { "avx2", "avx512f", "avx512_bf16", "avx512_vnni",
                                        "amx_bf16" };
    char *line = NULL;
    size_t room = 0;
    *self = (wm_machine_t){ .cpu = "unknown CPU" };
    self->cpus = wm_allowance ()->cpus;
    FILE *file = fopen ("/proc/cpuinfo", "re");
    while (file && getline (&line, &room, file) > 0 && !self->isa[0]) {
        sscanf (line, "model name : %95[^\n]", self->cpu);
        if (strncmp (line, "flags", 5) != 0)
            continue;
        for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
            const char *at = strstr (line, sets[i]);
            const size_t n = strlen (self->isa), length = strlen (sets[i]);
            if (at && at[-1] == ' ' && strchr (" \n", at[length]))
                snprintf (self->isa + n, sizeof self->isa - n, "%s%s", n ? " " : "", sets[i]);
        }
    }
    free (line);
    if (file)
        fclose (file);
    if (!self->isa[0])
        strcpy (self->isa, "no AVX2");
    self->peak_fp32 = wm_peak_gflops (WM_PEAK_FP32);
    self->peak_16bit = wm_peak_gflops (WM_PEAK_16BIT);
    self->peak_amx = wm_peak_gflops (WM_PEAK_AMX);
    const char *isa, *precision;
    for (uint32_t i = 0; (isa = wm_device_missing (i, &precision)) != NULL; i++) {
        const size_t n = strlen (self->missing);
        snprintf (self->missing + n, sizeof self->missing - n, "%s%s/%s", n ? " " : "", isa,
                  precision);
    }
}

/* ---- one point ------------------------------------------------------------------------------- */

static double number (const json_t *point, const char *key)
{
    return json_number_value (json_object_get (point, key));
}

static void set (json_t *point, const char *key, double value)
{
    if (value > 0)
        json_object_set_new (point, key, json_real (value));
}

void wm_point_complete (json_t *point, const wm_machine_t *machine)
{
    const char *signature = json_string_value (json_object_get (point, "signature"));
    const char *kind = signature ? strchr (signature, '/') : NULL; /* NAME/ISA/KIND/v1 */
    const double best = number (point, "best_hits_s");
    const double rate = best > 0 ? best : number (point, "hits_s");
    set (point, "dense_gflops", 2e-9 * number (point, "dense_madds") * rate);
    const char *engine = json_string_value (json_object_get (point, "engine"));
    if (!kind || best <= 0 || wm_device_by_gpu (engine ? engine : "", signature))
        return;
    const bool on_amx = strncmp (kind, "/amx/", 5) == 0;
    kind = strchr (kind + 1, '/') ? strchr (kind + 1, '/') + 1 : kind + 1;
    const bool is_fp32 = strncmp (kind, "fp32", 4) == 0 || strncmp (kind, "v1", 2) == 0;
    const bool three = strncmp (kind, "bf16x3/", 7) == 0; /* products in bf16 for one of fp32 */
    const double peak = is_fp32  ? machine->peak_fp32
                        : on_amx ? machine->peak_amx
                                 : machine->peak_16bit;
    const double threads = number (point, "workers") * number (point, "threads");
    const double executed = 2e-9 * number (point, "executed_madds") * (three ? 3 : 1);
    set (point, "gflops", executed * best);
    set (point, "peak_gflops", peak * threads);
    if (peak <= 0)
        return;
    set (point, "peak_share", executed * best / (peak * threads));
    set (point, "cpu_peak_share",
         executed * number (point, "hits") / number (point, "cpu_s") / peak);
}

/* ---- printing -------------------------------------------------------------------------------- */

static bool is_of (const json_t *point, const char *bench)
{
    return strcmp (json_string_value (json_object_get (point, "bench")), bench) == 0;
}

/* Whether the column is about an engine's work, and its value not known.  */
static bool is_unknown (const json_t *point, size_t c)
{
    return (strstr (columns[c].key, "gflops") || strstr (columns[c].key, "peak_share")) &&
           is_of (point, "engine") && !json_object_get (point, "failed") &&
           !json_object_get (point, columns[c].key);
}

/* Explains the dashes of a point, unless the point before had the same reason.  */
static void put_unknown (FILE *out, const json_t *point, const char **last)
{
    const char *why = json_string_value (json_object_get (point, "uncounted"));
    for (size_t c = 0; c < COLUMNS && !why; c++)
        why = is_unknown (point, c) ? "this CPU has no measured peak of its precision" : NULL;
    if (why && (!*last || strcmp (why, *last) != 0))
        fprintf (out, "  -: not known: %s\n", *last = why);
}

static const char *cell (const json_t *point, size_t c, char text[256])
{
    const json_t *value = json_object_get (point, columns[c].key);
    if (is_unknown (point, c))
        return "-";
    if (!value && strcmp (columns[c].key, "signature") == 0)
        value = json_object_get (point, "engine"); /* it did not run */
    const double x = json_number_value (value);
    text[0] = 0;
    if (json_is_string (value))
        snprintf (text, 256, "%s", json_string_value (value));
    if (!json_is_number (value))
        return text;
    switch (columns[c].format) {
    case TEXT:
    case COUNT:
        return wm_show_count ((int64_t) (x + 0.5), text);
    case FIXED1:
        snprintf (text, 256, "%.1f", x);
        break;
    case FIXED2:
        snprintf (text, 256, "%.2f", x);
        break;
    case SHARE:
        snprintf (text, 256, "%.0f %%", 100 * x);
        break;
    case SMALL:
        snprintf (text, 256, "%.1e", x);
        break;
    }
    return text;
}

/* The width of a column; 0: no point has it.  */
static int width_of (const json_t *points, const char *bench, size_t c)
{
    size_t i, width = 0;
    const json_t *point;
    char text[256];
    json_array_foreach (points, i, point)
    {
        const size_t n = is_of (point, bench) ? strlen (cell (point, c, text)) : 0;
        width = n > width ? n : width;
    }
    const size_t title = strlen (columns[c].title);
    return (int) (width && width < title ? title : width);
}

/* Words to the left, numbers to the right, nothing behind the last column.  */
static void put_cell (FILE *out, const char *text, size_t c, int width)
{
    if (width && (*text || c + 1 < COLUMNS))
        fprintf (out, columns[c].format == TEXT ? " %-*s" : " %*s", c + 1 < COLUMNS ? width : 0,
                 text);
}

static const char *const titles[] = { "engine alone", "pipeline" };
static const char *const benches[] = { "engine", "pipeline" };
static const char *const units[] = {
    "p99: ms of a batch; hits/s: mean; peak: share of the CPU's, fastest round",
    "p99: ms of a batch; whole: hits/s by wall time; first, last: s without scores",
};

void wm_points_table (FILE *out, const json_t *points, const char *bench,
                      const wm_machine_t *machine)
{
    size_t i, table = 0;
    const json_t *point;
    char text[256];
    int width[COLUMNS], found = 0;
    int64_t judged = 0; /* the least of all points */
    while (strcmp (benches[table], bench) != 0)
        table++;
    json_array_foreach (points, i, point)
    {
        const int64_t here = (int64_t) number (point, "judged");
        found += is_of (point, bench);
        judged = here > 0 && (judged == 0 || here < judged) ? here : judged;
    }
    if (!found)
        return;
    fprintf (out, "\n%s, on %s\n  %d CPUs: %s\n", titles[table], machine->cpu, machine->cpus,
             machine->isa);
    if (machine->peak_fp32 > 0)
        fprintf (out, "  peak of a thread, GFLOP/s: %.0f fp32", machine->peak_fp32);
    if (machine->peak_16bit > 0)
        fprintf (out, ", %.0f 16 bit", machine->peak_16bit);
    if (machine->peak_amx > 0)
        fprintf (out, ", %.0f AMX bf16", machine->peak_amx);
    fprintf (out, "%s ", machine->peak_fp32 > 0 ? "\n" : "");
    for (size_t c = 0; c < COLUMNS; c++) {
        const bool shown = columns[c].title && columns[c].tables & (1 << table);
        width[c] = shown ? width_of (points, bench, c) : 0;
        put_cell (out, columns[c].title, c, width[c]);
    }
    fprintf (out, "\n");
    const char *last = NULL;
    json_array_foreach (points, i, point)
    {
        if (!is_of (point, bench))
            continue;
        fprintf (out, " ");
        for (size_t c = 0; c < COLUMNS; c++) {
            put_cell (out, cell (point, c, text), c, width[c]);
            if (*wm_ask_text (point, "failed") && strcmp (columns[c].key, "batch") == 0)
                break; /* one that failed has no values behind it */
        }
        fprintf (out, "%s%s\n", *wm_ask_text (point, "failed") ? " " : "",
                 wm_ask_text (point, "failed"));
    }
    fprintf (out, "  %s\n", units[table]);
    if (judged > 0)
        fprintf (out, "  error: largest of %s hits, from double\n", wm_show_count (judged, text));
    json_array_foreach (points, i, point)
    {
        if (is_of (point, bench))
            put_unknown (out, point, &last);
    }
    if (table == 0 && machine->missing[0])
        fprintf (out, "  not tested here, this CPU cannot run them: %s\n", machine->missing);
}

void wm_points_json (FILE *out, json_t *points, const wm_machine_t *machine, json_t *about)
{
    json_t *meaning = json_object ();
    for (size_t c = 0; c < COLUMNS; c++)
        json_object_set_new (meaning, columns[c].key, json_string (columns[c].what));
    json_t *root = json_pack (
        "{s:s, s:s, s:{s:s, s:i, s:s, s:s, s:f, s:f, s:f}, s:O, s:o, s:O}", "schema",
        "wiremill-bench-1", "version", WM_VERSION, "machine", "cpu", machine->cpu, "cpus",
        machine->cpus, "isa", machine->isa, "not_tested", machine->missing, "peak_fp32_gflops",
        machine->peak_fp32, "peak_16bit_gflops", machine->peak_16bit, "peak_amx_gflops",
        machine->peak_amx, "about", about, "meaning", meaning, "points", points);
    json_dumpf (root, out, JSON_INDENT (2) | JSON_REAL_PRECISION (9));
    fputc ('\n', out);
    json_decref (root);
}
