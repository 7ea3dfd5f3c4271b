/* wm_steps.c - see wm_steps.h.

   The steps of a batch: the producer's BATCH, then TASK, stage, compute, RESULT and RESULT_ACK of
   the worker whose result was acknowledged first. Time that is neither decoding, nor scoring, nor
   after the result is counted as waiting and travelling (queue_ms).  */
#include "ops/bench/wm_steps.h"

#include "schema/base/wm_grow.h"
#include "schema/base/wm_order.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = { "BATCH", "TASK", "stage", "compute", "RESULT", "RESULT_ACK" };
enum { BATCH, TASK, STAGE, COMPUTE, RESULT, ACK, NAMES };

typedef struct {
    uint32_t input, ordinal, batch, step, process;
    int64_t ns, amount;
} line_t;

typedef struct {
    line_t *line;
    size_t n, max;
    float *total_ms; /* (n at most) */
    size_t n_done;
    double queue, stage, compute, commit; /* ns, sums over the n_done batches */
    int64_t first_ns, last_ns;            /* start of the first and end of the last scoring */
    double busy, idle;                    /* ns of the engines' threads while they had a batch */
    json_t *point;
} steps_t;

static int by_batch (const void *a, const void *b)
{
    const line_t *x = a, *y = b;
    return x->input != y->input       ? (x->input > y->input) - (x->input < y->input)
           : x->ordinal != y->ordinal ? (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal)
           : x->batch != y->batch     ? (x->batch > y->batch) - (x->batch < y->batch)
                                      : (x->ns > y->ns) - (x->ns < y->ns);
}

WM_ORDER_NUMBERS (by_size, float)

/* ---- reading --------------------------------------------------------------------------------- */

/* The line that a process writes at its end: CPU times are added, of memory the largest counts.
   "wiremill-engine-123" is an engine, "wiremill-123" wiremill run.  */
static void add_end (steps_t *self, const char *file, const char *what, int64_t amount)
{
    char key[48];
    const bool is_cpu = strcmp (what, "cpu") == 0;
    const char *name = file + strlen ("wiremill-");
    const bool is_run = *name >= '0' && *name <= '9';
    snprintf (key, sizeof key, is_cpu ? "cpu_%.*s_s" : "memory_%.*s_mb",
              is_run ? 3 : (int) strcspn (name, "-"), is_run ? "run" : name);
    const double before = json_number_value (json_object_get (self->point, key));
    const double value = (is_cpu ? 1e-9 : 1e-6) * (double) amount;
    json_object_set_new (self->point, key,
                         json_real (is_cpu ? before + value : fmax (before, value)));
}

static wm_fault_t add_line (steps_t *self, const char *file, uint32_t process, const char *text,
                            wm_error_t *error)
{
    char what[24];
    long long ns, amount;
    line_t line = { .process = process };
    if (sscanf (text, "%lld %23s %u %u %u %lld", &ns, what, &line.input, &line.ordinal, &line.batch,
                &amount) != 6)
        return WM_OK; /* half a line, of a process that was killed */
    if (strcmp (what, "cpu") == 0 || strcmp (what, "memory") == 0)
        add_end (self, file, what, amount);
    if (strcmp (what, "busy") == 0)
        self->busy += (double) amount;
    if (strcmp (what, "idle") == 0)
        self->idle += (double) amount;
    while (line.step < NAMES && strcmp (names[line.step], what) != 0)
        line.step++;
    if (line.step == NAMES)
        return WM_OK;
    if (!wm_grow (&self->line, &self->max, self->n + 1, sizeof *self->line))
        return wm_fault (error, WM_EHOST, "no memory for the trace");
    line.ns = ns;
    line.amount = amount;
    if (line.step == COMPUTE) {
        self->first_ns = ns - amount < self->first_ns ? ns - amount : self->first_ns;
        self->last_ns = ns > self->last_ns ? ns : self->last_ns;
    }
    self->line[self->n++] = line;
    return WM_OK;
}

static wm_fault_t read_folder (steps_t *self, const char *folder, wm_error_t *error)
{
    char path[PATH_MAX], text[256];
    struct dirent *entry;
    wm_fault_t fault = WM_OK;
    DIR *dir = opendir (folder);
    for (uint32_t process = 0; dir && !fault && (entry = readdir (dir)); process++) {
        if (strncmp (entry->d_name, "wiremill-", 9) != 0)
            continue;
        snprintf (path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = fopen (path, "re");
        while (file && !fault && fgets (text, sizeof text, file))
            fault = add_line (self, entry->d_name, process, text, error);
        if (file)
            fclose (file);
    }
    if (!dir)
        return wm_fault (error, WM_EHOST, "%s: %s", folder, strerror (errno));
    closedir (dir);
    return fault;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Adds one batch: all its lines, in order of time.  */
static void follow (steps_t *self, const line_t *line, size_t n)
{
    const line_t *step[NAMES] = { 0 };
    for (size_t i = 0; i < n && !step[ACK]; i++)
        if (line[i].step == ACK)
            step[ACK] = &line[i];
    for (size_t i = 0; i < n && step[ACK] && &line[i] < step[ACK]; i++)
        if (line[i].step == BATCH || line[i].process == step[ACK]->process)
            step[line[i].step] = &line[i];
    for (int s = 0; s < NAMES; s++)
        if (!step[s])
            return;
    const double total = (double) (step[ACK]->ns - step[BATCH]->ns);
    const double commit = (double) (step[ACK]->ns - step[RESULT]->ns);
    const double stage = (double) step[STAGE]->amount, compute = (double) step[COMPUTE]->amount;
    self->stage += stage;
    self->compute += compute;
    self->commit += commit;
    self->queue += total - stage - compute - commit;
    self->total_ms[self->n_done++] = (float) (1e-6 * total);
}

static void report (steps_t *self)
{
    const size_t n = self->n_done;
    const double ms = 1e-6 / (double) n;
    const struct {
        const char *key;
        double value;
    } values[] = {
        { "p50_ms", (double) self->total_ms[n / 2] },
        { "p90_ms", (double) self->total_ms[n * 9 / 10] },
        { "p99_ms", (double) self->total_ms[n * 99 / 100] },
        { "queue_ms", self->queue * ms },
        { "stage_ms", self->stage * ms },
        { "compute_ms", self->compute * ms },
        { "commit_ms", self->commit * ms },
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        json_object_set_new (self->point, values[i].key, json_real (values[i].value));
}

wm_fault_t wm_steps_read (const char *folder, int64_t start_ns, int64_t end_ns, json_t *point,
                          wm_error_t *error)
{
    steps_t self = { .point = point, .first_ns = INT64_MAX };
    wm_fault_t fault = read_folder (&self, folder, error);
    self.total_ms = malloc ((self.n + 1) * sizeof *self.total_ms);
    if (!fault && !self.total_ms)
        fault = wm_fault (error, WM_EHOST, "no memory for the trace");
    if (!fault && self.n)
        qsort (self.line, self.n, sizeof *self.line, by_batch);
    for (size_t i = 0, end; i < self.n && !fault; i = end) {
        const line_t *first = &self.line[i];
        for (end = i + 1; end < self.n; end++)
            if (self.line[end].input != first->input || self.line[end].ordinal != first->ordinal ||
                self.line[end].batch != first->batch)
                break;
        follow (&self, first, end - i);
    }
    if (!fault && !self.n_done)
        fault = wm_fault (error, WM_EHOST,
                          "%s: no batch went from a producer to its acknowledgement", folder);
    if (!fault) {
        qsort (self.total_ms, self.n_done, sizeof *self.total_ms, by_size);
        report (&self);
        json_object_set_new (point, "lead_s",
                             json_real (1e-9 * (double) (self.first_ns - start_ns)));
        json_object_set_new (point, "tail_s", json_real (1e-9 * (double) (end_ns - self.last_ns)));
        if (self.busy > 0)
            json_object_set_new (point, "idle_share",
                                 json_real (self.idle / (self.busy + self.idle)));
    }
    free (self.line);
    free (self.total_ms);
    return fault;
}
