/* wm_verify.c - see wm_verify.h.  */
#include "gpuworker/modes/wm_verify.h"
#include "gpuworker/modes/wm_stream.h"
#include "kernels/wm_device.h"
#include "schema/base/wm_grow.h"
#include "schema/wm_limits.h"
#include "schema/wm_pins.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIGNATURE_BYTES 257

typedef struct {
    wm_pins_t pins;
    wm_spec_t spec;
    wm_model_t *model;
    wm_device_t *device;
    wm_coder_t *coder;
    FILE *report; /* standard output, to which a plug-in must not print */
    wm_batch_t batch;
    uint8_t *frame;
    size_t frame_bytes;
    uint64_t *row; /* (hits of a batch) */
    uint32_t *by;  /* (hits of a batch) index into signature: the engine that scored them */
    float *stored, *again;
    uint8_t *status;
    unsigned long long n_scored, n_hit, n_bad;
    unsigned n_file, n_same, n_other;   /* signatures that scored them: of this engine or others */
    char (*signature)[SIGNATURE_BYTES]; /* (n_same + n_other) */
    double tolerance, bound;            /* of the command line, or 0; of the files, or 0 */
    double limit, largest;              /* of the engines; largest difference */
} verify_t;

/* ---- what to compare with -------------------------------------------------------------------- */

static wm_fault_t read_head (verify_t *self, wm_error_t *error)
{
    wm_fault_t fault = wm_stream_head ("sample", &self->pins, &self->spec, error);
    if (!fault && scanf ("total %llu %u\n", &self->n_scored, &self->n_file) != 2)
        fault = wm_stream_cut_short (error);
    return fault;
}

/* Opens the engine; "auto": the first that can, of those that share no code with what mostly scores
   such a model.  */
static wm_fault_t open_device (verify_t *self, const char *engine, int threads, wm_error_t *error)
{
    const char *name[] = { engine, NULL, NULL };
    if (wm_device_is_auto (engine) && wm_model_kind (self->model) == WM_MODEL_FAMILY)
        name[0] = "reference";
    else if (wm_device_is_auto (engine))
        name[0] = "onnxruntime", name[1] = "openvino";
    for (size_t i = 0; name[i] && !self->device; i++) {
        const wm_device_config_t config = { .engine = name[i],
                                            .precision = "fp32",
                                            .threads = threads };
        self->device = wm_device_new (self->model, &self->spec, &config, error);
    }
    return self->device ? WM_OK : error->fault;
}

static wm_fault_t start (verify_t *self, const char *engine, int threads, const char *cache,
                         wm_error_t *error)
{
    if (!(self->model = wm_stream_model (&self->pins, cache, error)) ||
        open_device (self, engine, threads, error) || wm_device_self_test (self->device, error))
        return error->fault;
    size_t n_output = wm_model_n_output (self->model);
    self->coder = wm_coder_new ();
    self->frame_bytes = wm_frame_bytes_max (self->pins.n_value, self->pins.n_output);
    self->frame = malloc (self->frame_bytes);
    self->row = malloc (WM_RAW_BYTES_MAX * sizeof *self->row / 4);
    self->by = malloc (WM_RAW_BYTES_MAX * sizeof *self->by / 4);
    self->status = malloc (WM_RAW_BYTES_MAX / 4);
    self->stored = malloc (WM_RAW_BYTES_MAX + n_output * sizeof (float));
    self->again = malloc (WM_RAW_BYTES_MAX + n_output * sizeof (float));
    if (!self->frame || !self->row || !self->by || !self->status || !self->stored || !self->again)
        return wm_fault (error, WM_EHOST, "no memory to compare");
    self->limit = wm_device_limit (self->model, wm_device_signature (self->device));
    fprintf (self->report, "engine %s\n", wm_device_signature (self->device));
    return WM_OK;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Returns how much the campaign's scores may differ; *from: where that is from. The bound that
   outputs state was measured against strict fp32, so the limit of strict fp32 itself is the
   least.  */
static double allowed (const verify_t *self, const char **from)
{
    const double strict = wm_device_limit (self->model, "");
    *from = self->tolerance > 0     ? "asked"
            : !(self->bound > 0)    ? "engines"
            : self->bound >= strict ? "files"
                                    : "fp32";
    return self->tolerance > 0 ? self->tolerance
           : self->bound > 0   ? fmax (self->bound, strict)
                               : self->limit;
}

/* Returns the largest difference of a hit's scores; *where: the output.  */
static double compare (const verify_t *self, const float *stored, const float *again,
                       uint32_t *where)
{
    double largest = 0;
    *where = 0;
    for (uint32_t k = 0; k < self->pins.n_output; k++) {
        const double off = wm_device_off ((double) stored[k], (double) again[k]);
        if (off > largest)
            largest = off, *where = k;
    }
    if (self->limit == 0 && largest == 0) { /* bits are promised, of a zero's sign, too */
        *where = (uint32_t) wm_bits_differ (stored, again, self->pins.n_output);
        largest = *where < self->pins.n_output ? DBL_MIN : 0;
    }
    return largest;
}

static wm_fault_t verify_batch (verify_t *self, uint32_t n_hit, size_t bytes, const char *from,
                                wm_error_t *error)
{
    const char *of;
    const double most = allowed (self, &of);
    size_t n_output = self->pins.n_output;
    if (bytes > self->frame_bytes || n_hit * n_output > WM_RAW_BYTES_MAX / 4 ||
        !wm_stream_bytes (self->row, n_hit * sizeof *self->row) ||
        !wm_stream_bytes (self->by, n_hit * sizeof *self->by) ||
        !wm_stream_bytes (self->stored, n_hit * n_output * sizeof *self->stored) ||
        !wm_stream_bytes (self->frame, bytes))
        return wm_stream_cut_short (error);
    wm_fault_t fault = wm_batch_decode (&self->batch, self->coder, self->frame, bytes, error);
    if (!fault && self->batch.n_hit != n_hit)
        fault = wm_stream_cut_short (error);
    if (!fault)
        fault = wm_device_score (self->device, &self->batch, self->status, self->again, error);
    for (uint32_t i = 0; i < n_hit && !fault; i++) {
        uint32_t k;
        const float *stored = self->stored + i * n_output, *again = self->again + i * n_output;
        double difference = compare (self, stored, again, &k);
        self->largest = fmax (self->largest, difference);
        if (difference > most && self->n_bad++ < WM_VERIFY_BAD_MAX)
            fprintf (self->report, "bad %s %llu %u %.9g %.9g %s\n", from,
                     (unsigned long long) self->row[i], k, (double) stored[k], (double) again[k],
                     self->by[i] < self->n_same + self->n_other ? self->signature[self->by[i]]
                                                                : "?");
    }
    self->n_hit += n_hit;
    return fault;
}

/* Reads a signature that scored them. The least precise engine of them decides the limit.  */
static wm_fault_t take_engine (verify_t *self, wm_error_t *error)
{
    const unsigned n_by = self->n_same + self->n_other;
    if (!wm_regrow (&self->signature, n_by + 1ul, sizeof *self->signature))
        return wm_fault (error, WM_EHOST, "no memory to compare");
    char *by = self->signature[n_by];
    const wm_engine_t *mine = wm_device_engine_of_signature (wm_device_signature (self->device));
    if (scanf (" %256[^\n]", by) != 1)
        return wm_stream_cut_short (error);
    if (wm_device_engine_of_signature (by) == mine)
        self->n_same++;
    else
        self->n_other++;
    self->limit = fmax (self->limit, wm_device_limit (self->model, by));
    return WM_OK;
}

static wm_fault_t verify_all (verify_t *self, wm_error_t *error)
{
    char word[8], from[128];
    wm_fault_t fault = WM_OK;
    while (!fault) {
        unsigned n_hit, file;
        size_t bytes;
        long long run, subrun, event;
        if (scanf ("%7s", word) != 1)
            return wm_stream_cut_short (error);
        if (strcmp (word, "end") == 0)
            break;
        if (strcmp (word, "by") == 0) {
            fault = take_engine (self, error);
            continue;
        }
        if (strcmp (word, "bound") == 0) {
            if (scanf ("%lf", &self->bound) != 1)
                return wm_stream_cut_short (error);
            continue;
        }
        if (strcmp (word, "batch") != 0 ||
            scanf ("%u %zu %u %lld %lld %lld", &n_hit, &bytes, &file, &run, &subrun, &event) != 6 ||
            getchar () != '\n')
            return wm_stream_cut_short (error);
        snprintf (from, sizeof from, "%u %lld %lld %lld", file, run, subrun, event);
        fault = verify_batch (self, n_hit, bytes, from, error);
    }
    return fault;
}

static void print_end (const verify_t *self)
{
    const char *from;
    const double most = allowed (self, &from);
    for (unsigned i = 0; i < self->n_same + self->n_other; i++)
        fprintf (self->report, "scored %s\n", self->signature[i]);
    fprintf (self->report, "tolerance %g %s\nby %u %u\ndone %llu %llu %.9g %llu %u\n", most, from,
             self->n_same, self->n_other, self->n_hit, self->n_bad, self->largest, self->n_scored,
             self->n_file);
}

int wm_verify_run (const char *engine, int threads, const char *cache, double tolerance)
{
    static verify_t self;
    wm_error_t error = { 0 };
    self.tolerance = tolerance;
    if (!(self.report = wm_stream_report ())) {
        fprintf (stderr, "wiremill-worker: no descriptor for the report: %s\n", strerror (errno));
        return WM_EXIT_FAILURE;
    }
    wm_fault_t fault = read_head (&self, &error), first = fault;
    if (!fault)
        fault = first = start (&self, engine, threads, cache, &error);
    if (!fault)
        fault = verify_all (&self, &error);
    if (!fault)
        print_end (&self);
    if (fclose (self.report) && !fault)
        fault = wm_fault (&error, WM_EHOST, "the report cannot be written: %s", strerror (errno));
    if (fault)
        fprintf (stderr, "wiremill-worker: %s\n", error.text);
    wm_device_destroy (&self.device);
    wm_model_destroy (&self.model);
    wm_coder_destroy (&self.coder);
    wm_batch_clear (&self.batch);
    free (self.frame);
    free (self.row);
    free (self.by);
    free (self.signature);
    free (self.status);
    free (self.stored);
    free (self.again);
    return !fault                                                ? WM_EXIT_OK
           : fault == WM_EBATCH || (fault == WM_EPEER && !first) ? WM_EXIT_INPUT
           : first                                               ? WM_EXIT_ENGINE
                                                                 : WM_EXIT_FAILURE;
}
