/* wm_device.c - chooses an engine, checks batches and scores, runs the self-test.

   What all engines need is done here once: batches that do not fit the model or the specification
   are refused before the engine sees them, and a hit whose scores are not finite is held
   afterwards. Engines fill in scores and count progress, nothing else.

   The table of engines, and how their shared objects are opened: kernels/wm_engines.c.  */
#include "kernels/judge/wm_canary.h"
#include "kernels/judge/wm_canary_cache.h"
#include "kernels/judge/wm_prove.h"
#include "kernels/model/wm_seed.h"
#include "kernels/patch/wm_image.h"
#include "kernels/wm_backend_private.h"
#include "kernels/wm_jobs.h"
#include "schema/wm_defaults.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANARY_SHARE 0.05 /* of the time: a fast GPU has more batches than the CPU can check */
#define PROBES 3u         /* seeded patches if a model has no known answers */

typedef enum { HOLDS_NONFINITE, HOLDS_NAN, HOLDS_NOTHING } holds_t;

struct wm_device_t {
    const wm_model_t *model;
    wm_spec_t spec;
    bool has_spec, fast;
    holds_t holds; /* hits with such scores */
    double max_error;
    const wm_engine_t *engine;
    const wm_backend_t *backend;
    void *state;               /* the backend's */
    wm_canary_t *canary;       /* of a GPU and a family model; NULL: none */
    wm_canary_cache_t *recall; /* of a GPU and a general model; NULL: none */
    uint64_t n_job;            /* submitted and not collected */
    wm_jobs_t ready, scored;   /* refused or empty; scored where the backend has no submit */
    wm_error_t failure;        /* of a call that discarded jobs; fault WM_OK: none has */
    char signature[64];
    _Atomic uint64_t *progress, own_progress;
};

/* ---- engines --------------------------------------------------------------------------------- */

static const wm_engine_t *choose_engine (const char *name, const wm_model_t *model,
                                         wm_error_t *error)
{
    const bool family = wm_model_kind (model) == WM_MODEL_FAMILY;
    const wm_engine_t *engine =
        wm_device_engine (wm_device_is_auto (name) ? wm_model_scorer (model) : name);
    char names[160];
    if (strcmp (engine->name, "openvino") == 0 &&
        wm_model_judged (model)->judgement == WM_JUDGED_OTHER) {
        char differing[WM_MODEL_JUDGED_BYTES];
        wm_model_differing (model, differing);
        wm_fault (error, WM_EBATCH,
                  "OpenVINO computes %s of this model otherwise than ONNX defines: leave out "
                  "--engine, or import it with --accept-differences",
                  differing);
        return NULL;
    }
    const wm_port_t *exact = wm_model_exact (model);
    if (*engine->name && exact && strcmp (engine->name, "onnxruntime") != 0) {
        wm_fault (error, WM_EBATCH,
                  "'%.128s' of this model is carried exactly, as only the onnxruntime engine takes "
                  "it: leave out --engine, or import the model without --exact-types",
                  exact->name);
        return NULL;
    }
    const wm_model_plugin_t *plugin = wm_model_plugin (model);
    if (plugin && !wm_device_is_plugin (name)) {
        wm_fault (error, WM_EHOST,
                  "the campaign's engine is the plug-in %s %s: give its file on this machine, of "
                  "SHA-256 %s, by --engine %s; it comes over no network",
                  plugin->name, plugin->version, plugin->sha256,
                  strcmp (plugin->name, "torch") == 0 ? "torch" : "./FILE.so");
        return NULL;
    }
    if (wm_device_is_plugin (name) && !plugin) {
        wm_fault (error, WM_EBATCH,
                  "--engine %.200s: a plug-in, but the campaign was begun without one: leave out "
                  "--engine",
                  name);
        return NULL;
    }
    if (*engine->name && (family || engine->any_model))
        return engine;
    wm_device_engine_names (names);
    if (*engine->name)
        wm_fault (error, WM_EBATCH, "the %s engine cannot run this model (%.200s): use openvino",
                  name, wm_model_why (model));
    else
        wm_fault (error, WM_EBATCH, "no engine is called '%.64s': there are %s", name, names);
    return NULL;
}

/* The model must take exactly the patches that planes become.  */
static bool spec_fits (const wm_model_t *model, const wm_spec_t *spec)
{
    return wm_model_n_input (model) == 1 && !wm_model_is_ragged (model, NULL) &&
           wm_model_n_value (model) == wm_spec_values (spec);
}

/* Whether the model's input ends with the channels: (wire, bin, channel), as of the family. Sizes
   of 1 do not count; where it also begins with as many, it is (channel, wire, bin).  */
static bool ends_with_channels (const wm_model_t *model, const wm_spec_t *spec)
{
    const wm_port_t *input = wm_model_input (model, 0);
    uint32_t first = 0, last = 0;
    if (wm_model_kind (model) == WM_MODEL_FAMILY)
        return spec->n_channel > 1;
    for (uint32_t d = 0; d < input->n_dim; d++)
        if (input->dim[d] > 1) {
            first = first ? first : input->dim[d];
            last = input->dim[d];
        }
    return spec->n_channel > 1 && first != spec->n_channel && last == spec->n_channel;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The n-th part of a signature, ENGINE/ISA/ARITHMETIC/VERSION.  */
static void part_of (const char *signature, int n, char *part, size_t size)
{
    while (n-- > 0 && signature) {
        signature = strchr (signature, '/');
        signature = signature ? signature + 1 : NULL;
    }
    snprintf (part, size, "%.*s", signature ? (int) strcspn (signature, "/") : 0,
              signature ? signature : "");
}

/* Whether the arithmetic that a signature names has 16 bits.  */
static bool is_rounded (const char *signature)
{
    static const char *const part[] = { "/int16/", "/bf16/", "/fp16/", "/tf32/", "/fast/" };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (strstr (signature, part[i]))
            return true;
    return false;
}

static bool is_strict (const char *signature)
{
    return strstr (signature, "/fp32/") || strstr (signature, "/double/");
}

double wm_device_limit (const wm_model_t *model, const char *signature)
{
    const wm_engine_t *engine = wm_device_engine_of_signature (signature);
    const bool family = wm_model_kind (model) == WM_MODEL_FAMILY, rounded = is_rounded (signature);
    if (strncmp (signature, "plugin-same/", strlen ("plugin-same/")) == 0)
        return 0; /* the same bits are promised */
    return family    ? rounded ? engine->family.rounded : engine->family.fp32
           : rounded ? engine->general.rounded
                     : engine->general.fp32;
}

void wm_device_strict_isa (const char *isa, char strict[32])
{
    const char *named = isa && *isa ? isa : getenv ("WM_ISA");
    snprintf (strict, 32, "%.*s", named ? (int) strcspn (named, "/") : 0, named ? named : "");
}

bool wm_device_candidate (const wm_model_t *model, const wm_device_config_t *config, uint32_t i,
                          wm_candidate_t *candidate, wm_error_t *error)
{
    const wm_engine_t *engine = choose_engine (config->engine, model, error);
    const wm_backend_t *backend = engine ? wm_backend_find (engine, error) : NULL;
    bool there = backend != NULL;
    *candidate = (wm_candidate_t){ .isa = "" };
    snprintf (candidate->isa, sizeof candidate->isa, "%s", config->isa ? config->isa : "");
    if (backend && backend->candidate) {
        char isa[32];
        there = backend->candidate (model, config, i, isa, error);
        if (there && *isa)
            memcpy (candidate->isa, isa, sizeof isa);
        else
            wm_device_strict_isa (config->isa, candidate->isa);
        snprintf (candidate->precision, sizeof candidate->precision, "%s",
                  there && *isa ? config->precision : "fp32");
    } else {
        const bool rounds =
            engine && ((engine->rounds && strcmp (config->precision, "fast") == 0) ||
                       (engine->splits && wm_model_kind (model) == WM_MODEL_FAMILY &&
                        strcmp (config->precision, "split") == 0));
        there = there && i <= rounds;
        snprintf (candidate->precision, sizeof candidate->precision, "%s",
                  i == 0 && rounds ? config->precision : "fp32");
    }
    return there;
}

void wm_device_recall (const char *signature, const char *precision, wm_candidate_t *candidate)
{
    char isa[20], arithmetic[12];
    part_of (signature, 1, isa, sizeof isa);
    part_of (signature, 2, arithmetic, sizeof arithmetic);
    *candidate = (wm_candidate_t){ .isa = "" };
    const bool strict = strstr (signature, "/fp32/") != NULL; /* a GPU's has more parts */
    snprintf (candidate->precision, sizeof candidate->precision, "%s", strict ? "fp32" : precision);
    if (strict)
        wm_device_strict_isa (NULL, candidate->isa);
    else if (wm_device_engine_of_signature (signature)->has_isa)
        snprintf (candidate->isa, sizeof candidate->isa, "%s/%s", isa, arithmetic);
}

const char *wm_device_cpu (void)
{
#if defined __aarch64__
    return "aarch64";
#else
    return "x86-64";
#endif
}

void wm_device_class (const wm_model_t *model, const wm_device_config_t *config,
                      const char *signature, char name[64])
{
    const bool strict = strcmp (config->precision, "fp32") == 0,
               family = wm_model_kind (model) == WM_MODEL_FAMILY,
               gpu = wm_device_engine_of_signature (signature)->is_gpu,
               exact = wm_device_engine (config->engine)->is_gpu && !gpu; /* but signs as the CPU */
    char isa[32];
    wm_error_t error;
    size_t n = 0;
    if (!strict && exact && is_strict (signature))
        snprintf (name, 64, "%s", config->engine);
    else if (gpu || !family)
        part_of (signature, 1, name, 64);
    else
        name[0] = 0;
    for (uint32_t i = 0; family && !gpu && !strict && !exact && n < 64; i++) {
        if (!wm_backend_sparse.candidate (model, config, i, isa, &error) || !*isa)
            break;
        n += (size_t) snprintf (name + n, 64 - n, "%s%s", n ? "," : "", isa);
    }
    if (!*name)
        snprintf (name, 64, "%s", wm_device_cpu ());
}

double wm_device_off (double score, double right)
{
    const double off = score == right ? 0 : fabs (score - right) / fmax (1, fabs (right));
    return isnan (off) ? INFINITY : off;
}

double wm_device_row_off (const wm_model_t *model, const float *scores, const float *right,
                          size_t n, double unit, size_t *where)
{
    const uint32_t n_port = wm_model_n_output_port (model);
    const wm_port_t *port = wm_model_output (model, 0);
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    const bool ragged = wm_model_is_ragged (model, NULL);
    if (ragged && (wm_model_row (port, n_port, right, n, tensor) ||
                   memcmp (scores, right, tensor[0].at * sizeof *right) != 0))
        return INFINITY;
    double worst = 0;
    for (size_t p = 0, at = ragged ? tensor[0].at : 0; p < n_port; p++) {
        const uint32_t each = wm_port_each (&port[p]);
        const int type = each > 1 ? port[p].type : 0;
        const size_t end = at + (ragged ? tensor[p].n_float : (size_t) port[p].n_value * each);
        for (; at < end; at += each) {
            const double is = wm_exact_real (type, scores + at),
                         should = wm_exact_real (type, right + at),
                         off = isnan (should) ? 0 : wm_device_off (is / unit, should / unit);
            if (off > worst)
                worst = off, *where = at;
        }
    }
    return worst;
}

/* Compares a GPU that signs as the CPU with it, and creates what checks any GPU. false with
   *error.  */
static bool check_gpu (wm_device_t *self, wm_error_t *error)
{
    if (!self->engine->is_gpu)
        return true;
    const bool is_exact = strcmp (self->signature, WM_SIGNATURE_FP32) == 0;
    const wm_spec_t *spec = self->has_spec ? &self->spec : NULL;
    if (is_exact && wm_prove (self, self->engine->name, self->model, spec, error))
        return false;
    const double limit = is_exact ? 0 : wm_device_limit (self->model, self->signature);
    if (wm_model_kind (self->model) == WM_MODEL_FAMILY)
        self->canary = wm_canary_new (self->model, spec, limit, CANARY_SHARE, error);
    else
        self->recall = wm_canary_cache_new (self->model, CANARY_SHARE, error);
    return self->canary || self->recall;
}

wm_device_t *wm_device_new (const wm_model_t *model, const wm_spec_t *spec,
                            const wm_device_config_t *config, wm_error_t *error)
{
    const bool fast = strcmp (config->precision, "fast") == 0;
    if (!fast && strcmp (config->precision, "fp32") != 0 &&
        strcmp (config->precision, "split") != 0) {
        wm_fault (error, WM_EBATCH,
                  "no precision is called '%.64s': there are fp32, split and fast",
                  config->precision);
        return NULL;
    }
    const wm_port_t *port;
    if (wm_model_is_ragged (model, &port) &&
        (fast || (!wm_device_is_auto (config->engine) && strcmp (config->engine, "openvino") != 0 &&
                  strcmp (config->engine, "onnxruntime") != 0))) {
        wm_fault (error, WM_EBATCH,
                  "'%.128s' of this model has a free dimension: only the openvino and onnxruntime "
                  "engines take such a model, in fp32",
                  port->name);
        return NULL;
    }
    if (spec && !spec_fits (model, spec))
        spec = NULL; /* any CNN: it takes dense patches, planes are refused */
    const wm_engine_t *engine = choose_engine (config->engine, model, error);
    const wm_backend_t *backend = engine ? wm_backend_find (engine, error) : NULL;
    if (!backend)
        return NULL;
    wm_device_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "no memory for a device");
        return NULL;
    }
    self->model = model;
    self->fast = fast;
    self->holds = config->keeps_infinite ? HOLDS_NAN : HOLDS_NONFINITE;
    self->max_error =
        config->max_error > 0 ? config->max_error : wm_default_error (config->precision);
    self->engine = engine;
    self->backend = backend;
    self->progress = config->progress ? config->progress : &self->own_progress;
    if (spec) {
        self->spec = *spec;
        self->spec.channels_last = ends_with_channels (model, spec);
        self->has_spec = true;
    }
    self->state = backend->open (model, spec ? &self->spec : NULL, config, self->signature, error);
    if (!self->state || !check_gpu (self, error))
        wm_device_destroy (&self);
    return self;
}

void wm_device_destroy (wm_device_t **self_p)
{
    wm_device_t *self = *self_p;
    if (self) {
        if (self->state)
            self->backend->close (self->state);
        wm_canary_destroy (&self->canary);
        wm_canary_cache_destroy (&self->recall);
        free (self);
        *self_p = NULL;
    }
}

const char *wm_device_signature (const wm_device_t *self)
{
    return self->signature;
}

const wm_engine_t *wm_device_by (const wm_device_t *self)
{
    return self->engine;
}

static _Thread_local _Atomic uint64_t *count_here; /* NULL: as the device was told */

void wm_device_count_here (_Atomic uint64_t *progress)
{
    count_here = progress;
}

static _Atomic uint64_t *counter (wm_device_t *self)
{
    return count_here && self->progress != &self->own_progress ? count_here : self->progress;
}

uint64_t wm_device_progress (const wm_device_t *self)
{
    return atomic_load (self->progress);
}

uint64_t wm_device_madds (wm_device_t *self, bool count)
{
    return self->backend->madds ? self->backend->madds (self->state, count) : 0;
}

/* ---- score ----------------------------------------------------------------------------------- */

static wm_fault_t check_batch (const wm_device_t *self, const wm_batch_t *batch, wm_error_t *error)
{
    char takes[WM_MODEL_SHAPE_BYTES];
    if (wm_model_is_ragged (self->model, NULL))
        return batch->kind == WM_BATCH_PATCHES && batch->n_hit == 1
                   ? WM_OK
                   : wm_fault (error, WM_EBATCH,
                               "a batch of %u hits, but this model takes one ragged row a batch",
                               batch->n_hit);
    if (batch->kind == WM_BATCH_PATCHES) {
        if (batch->patch_values != wm_model_n_value (self->model))
            return wm_fault (error, WM_EBATCH, "patches of %u values, the model takes %s",
                             batch->patch_values, wm_model_shape (self->model, takes));
        return WM_OK;
    }
    if (!self->has_spec)
        return wm_fault (
            error, WM_EBATCH,
            "a plane came, but the specification's patch is not the input of this model: it takes "
            "dense patches of %s",
            wm_model_shape (self->model, takes));
    if (batch->kind != wm_image_kind (&self->spec) ||
        (batch->kind == WM_BATCH_STACK && batch->n_cell != self->spec.n_channel))
        return wm_fault (error, WM_EBATCH,
                         "a batch of kind %d, but the specification has view: %s, channels: %u",
                         (int) batch->kind, self->spec.view == WM_OWN_VIEW ? "own" : "full",
                         self->spec.n_channel);
    return WM_OK;
}

/* Makes all of a hit's scores NaN where one of them holds it. Returns whether one does.  */
static bool spoil (const wm_device_t *self, float *score, size_t n)
{
    float sum = 0; /* 0 x: NaN unless x is finite */
    bool any = false;
    for (size_t k = 0; k < n && self->holds == HOLDS_NONFINITE; k++)
        sum += 0 * score[k];
    for (size_t k = 0; k < n && self->holds == HOLDS_NAN; k++)
        any |= isnan (score[k]) != 0;
    if (sum == 0 && !any)
        return false;
    for (size_t k = 0; k < n; k++)
        score[k] = NAN;
    return true;
}

/* A ragged row keeps its head, so that its shapes are known.  */
static void hold_ragged (const wm_device_t *self, uint8_t *status, float *row)
{
    const wm_model_t *model = self->model;
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    const uint32_t length = wm_ragged_length (row, wm_model_n_output (model));
    if (wm_model_row (wm_model_output (model, 0), wm_model_n_output_port (model), row, length,
                      tensor))
        *status = WM_HIT_HELD; /* a refusal */
    else if (spoil (self, row + tensor[0].at, length - tensor[0].at))
        *status = WM_HIT_NONFINITE;
}

/* Holds the hits whose scores are not passed on.  */
static void hold (const wm_device_t *self, const wm_batch_t *batch, uint8_t *status, float *scores)
{
    const size_t n_output = wm_model_n_output (self->model);
    if (wm_model_is_ragged (self->model, NULL)) {
        hold_ragged (self, status, scores);
        return;
    }
    for (uint32_t i = 0; i < batch->n_hit; i++)
        if (spoil (self, scores + i * n_output, n_output))
            status[i] = status[i] ? status[i] : WM_HIT_NONFINITE; /* unless the engine says why */
}

/* On a GPU: a job by itself.  */
static wm_fault_t score_job (wm_device_t *self, const wm_batch_t *batch, uint8_t *status,
                             float *scores, wm_error_t *error)
{
    wm_job_t job = { .batch = batch, .status = status, .scores = scores }, *job_p = &job,
             *done = &job;
    assert (self->n_job == 0);
    wm_fault_t fault = wm_device_submit (self, 1, &job_p, error);
    if (!fault)
        fault = wm_device_collect (self, &done, error);
    assert (fault || done == &job);
    if (!fault && job.error.fault && error)
        *error = job.error;
    return fault ? fault : job.error.fault;
}

wm_fault_t wm_device_score (wm_device_t *self, const wm_batch_t *batch, uint8_t *status,
                            float *scores, wm_error_t *error)
{
    if (self->engine->is_gpu)
        return score_job (self, batch, status, scores, error);
    wm_fault_t fault = check_batch (self, batch, error);
    if (fault || batch->n_hit == 0)
        return fault;
    memset (status, WM_HIT_SCORED, batch->n_hit);
    fault = self->backend->score (self->state, batch, status, scores, counter (self), error);
    if (!fault)
        hold (self, batch, status, scores);
    return fault;
}

wm_fault_t wm_device_lend (wm_device_t *self, const void *memory, size_t bytes, wm_error_t *error)
{
    return self->backend->lend ? self->backend->lend (self->state, memory, bytes, error) : WM_OK;
}

uint32_t wm_device_fill (const wm_device_t *self)
{
    return self->backend->fill ? self->backend->fill (self->state) : 0;
}

bool wm_device_is_worn (const wm_device_t *self, wm_error_t *error)
{
    return self->backend->is_worn && self->backend->is_worn (self->state, error);
}

uint32_t wm_device_hands (const wm_device_t *self)
{
    return self->engine->is_gpu ? 0 : self->backend->hands ? self->backend->hands (self->state) : 1;
}

uint64_t wm_device_launches (const wm_device_t *self)
{
    return self->backend->launches ? self->backend->launches (self->state) : 0;
}

wm_device_busy_t wm_device_busy (wm_device_t *self)
{
    return self->backend->busy ? self->backend->busy (self->state) : (wm_device_busy_t){ 0 };
}

wm_fault_t wm_device_score_many (wm_device_t *self, uint32_t n, const wm_batch_t *const *batch,
                                 uint8_t *const *status, float *const *scores, wm_error_t *error)
{
    const bool together = self->backend->score_many != NULL;
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < n && !fault && !together; i++)
        fault = wm_device_score (self, batch[i], status[i], scores[i], error);
    for (uint32_t i = 0; i < n && !fault && together; i++) {
        fault = check_batch (self, batch[i], error);
        if (!fault)
            memset (status[i], WM_HIT_SCORED, batch[i]->n_hit);
    }
    if (!fault && together)
        fault = self->backend->score_many (self->state, n, batch, scores, counter (self), error);
    for (uint32_t i = 0; i < n && !fault && together; i++)
        hold (self, batch[i], status[i], scores[i]);
    return fault;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Gives jobs to the backend.  */
static wm_fault_t start_jobs (wm_device_t *self, uint32_t n, wm_job_t *const *job,
                              wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    if (self->backend->submit)
        return self->backend->submit (self->state, n, job, error);
    for (uint32_t i = 0; i < n && !fault; i++) {
        fault = self->backend->score (self->state, job[i]->batch, job[i]->status, job[i]->scores,
                                      job[i]->progress, &job[i]->error);
        job[i]->error.fault = fault;
        wm_jobs_push (&self->scored, job[i]);
        if (fault == WM_EHOST && error)
            *error = job[i]->error;
        fault = fault == WM_EHOST ? fault : WM_OK;
    }
    return fault;
}

/* Ends the device with the first fault: forgets all jobs, and calls the backend no more.  */
static wm_fault_t end_jobs (wm_device_t *self, wm_error_t *error)
{
    if (self->canary)
        wm_canary_discard (self->canary);
    self->ready = self->scored = (wm_jobs_t){ 0 };
    self->n_job = 0;
    if (error)
        *error = self->failure;
    return self->failure.fault;
}

wm_fault_t wm_device_submit (wm_device_t *self, uint32_t n, wm_job_t *const *job, wm_error_t *error)
{
    wm_fault_t fault = self->failure.fault;
    uint32_t first = 0; /* of those that are not started yet */
    for (uint32_t i = 0; i < n && !fault; i++) {
        job[i]->error = (wm_error_t){ 0 };
        job[i]->n_left = job[i]->batch->n_hit;
        job[i]->progress = counter (self);
        job[i]->error.fault = check_batch (self, job[i]->batch, &job[i]->error);
        if (!job[i]->error.fault && job[i]->n_left > 0) {
            memset (job[i]->status, WM_HIT_SCORED, job[i]->n_left);
            continue;
        }
        if (first < i)
            fault = start_jobs (self, i - first, job + first, &self->failure);
        wm_jobs_push (&self->ready, job[i]);
        first = i + 1;
    }
    if (!fault && first < n)
        fault = start_jobs (self, n - first, job + first, &self->failure);
    self->n_job += n;
    return fault ? end_jobs (self, error) : WM_OK;
}

/* Returns the next job that the backend has scored or refused in *job; NULL: it has none.  */
static wm_fault_t collect_scored (wm_device_t *self, wm_job_t **job, wm_error_t *error)
{
    *job = NULL;
    if (self->backend->submit)
        return self->backend->collect (self->state, job, error);
    *job = wm_jobs_pop (&self->scored);
    return WM_OK;
}

/* Starts the job of known patches.  */
static wm_fault_t start_recall (wm_device_t *self, wm_error_t *error)
{
    wm_job_t *job = wm_canary_cache_job (self->recall);
    return start_jobs (self, 1, &job, error);
}

/* Passes a scored job on, or holds it back until it is checked (*job NULL).  */
static wm_fault_t check_job (wm_device_t *self, wm_job_t *done, wm_job_t **job, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    bool again = false;
    *job = NULL;
    if (self->recall && done == wm_canary_cache_job (self->recall))
        fault = wm_canary_cache_compare (self->recall, job, &again, error);
    else if (self->recall && !done->error.fault && wm_canary_cache_take (self->recall, done))
        again = true;
    else if (!self->canary || done->error.fault || !wm_canary_take (self->canary, done))
        *job = done;
    return !fault && again ? start_recall (self, error) : fault;
}

wm_fault_t wm_device_collect (wm_device_t *self, wm_job_t **job, wm_error_t *error)
{
    wm_fault_t fault = self->failure.fault;
    *job = NULL;
    while (self->n_job > 0 && !fault && !*job) {
        wm_job_t *done = NULL;
        *job = wm_jobs_pop (&self->ready);
        if (!*job && self->canary)
            fault = wm_canary_collect (self->canary, false, job, &self->failure);
        if (!*job && !fault)
            fault = collect_scored (self, &done, &self->failure);
        if (done)
            fault = check_job (self, done, job, &self->failure);
        else if (!*job && !fault) { /* a check has the last one */
            assert (self->canary);
            fault = wm_canary_collect (self->canary, true, job, &self->failure);
            assert (*job || fault);
        }
    }
    if (fault)
        return end_jobs (self, error);
    self->n_job -= *job != NULL;
    if (*job && !(*job)->error.fault)
        hold (self, (*job)->batch, (*job)->status, (*job)->scores);
    return WM_OK;
}

/* ---- self-test ------------------------------------------------------------------------------- */

static wm_fault_t score_patches (wm_device_t *self, const float *inputs, uint32_t count,
                                 float *scores, wm_error_t *error)
{
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES,
        .n_hit = count,
        .patch_values = wm_model_n_value (self->model),
        .patch = (float *) (uintptr_t) inputs, /* engines only read a batch */
    };
    uint8_t *status = calloc (count, 1);
    const wm_fault_t fault = status ? wm_device_score (self, &batch, status, scores, error)
                                    : wm_fault (error, WM_EHOST, "no memory for the self-test");
    free (status);
    return fault;
}

/* Compares with the known answers of the model's file. In fast the error of a general model's
   scores is relative to the largest of them.  */
static wm_fault_t test_known (wm_device_t *self, const float *inputs, const float *want,
                              uint32_t count, float *scores, wm_error_t *error)
{
    const double limit = wm_device_limit (self->model, self->signature),
                 tolerance =
                     is_strict (self->signature) ? limit : fmax (0.05, 10 * self->max_error);
    const bool shared = self->fast && wm_model_kind (self->model) != WM_MODEL_FAMILY;
    const size_t n_output = wm_model_n_output (self->model), n = count * n_output;
    double unit = 1, worst = 0;
    size_t where = 0;
    wm_fault_t fault = score_patches (self, inputs, count, scores, error);
    if (fault)
        return fault;
    if (wm_model_plugin (self->model)) { /* it promises the same bits */
        where = wm_bits_differ (scores, want, n);
        return where == n ? WM_OK
                          : wm_fault (error, WM_EPEER,
                                      "self-test of %s failed: known answer %zu, output %zu is "
                                      "%.9g, and was %.9g where the campaign was begun: the "
                                      "plug-in does not keep its promise of the same bits",
                                      self->signature, where / n_output, where % n_output,
                                      (double) scores[where], (double) want[where]);
    }
    for (size_t i = 0; shared && i < n; i++) /* both are bounded by the .wmm */
        if (isfinite (want[i]))
            unit = fmax (unit, fabs ((double) want[i]));
    for (size_t i = 0; i < n; i += n_output) {
        size_t at = 0;
        const double off =
            wm_device_row_off (self->model, scores + i, want + i, n_output, unit, &at);
        if (off > worst)
            worst = off, where = i + at;
    }
    if (worst > tolerance)
        return wm_fault (error, WM_EHOST,
                         "self-test of %s failed: known answer %zu, output %zu differs by %.2g "
                         "(allowed %.0e): this machine, or its engine, computes wrongly",
                         self->signature, where / n_output, where % n_output, worst, tolerance);
    return WM_OK;
}

/* Compares with the known rows of a ragged model's file, each of its own length.  */
static wm_fault_t test_rows (wm_device_t *self, wm_error_t *error)
{
    const float *input, *want;
    const uint32_t count = wm_model_known (self->model, &input, &want);
    const size_t most = wm_model_n_output (self->model);
    const double limit = wm_device_limit (self->model, self->signature);
    float *scores = malloc (most * sizeof *scores);
    wm_fault_t fault = scores ? WM_OK : wm_fault (error, WM_EHOST, "no memory for the self-test");
    for (uint32_t i = 0; i < count && !fault; i++) {
        const uint32_t n_value = wm_ragged_length (input, SIZE_MAX),
                       n = wm_ragged_length (want, SIZE_MAX);
        uint8_t status = WM_HIT_SCORED;
        size_t where = 0;
        const wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                                   .n_hit = 1,
                                   .patch_values = n_value,
                                   .patch = (float *) (uintptr_t) input };
        fault = wm_device_score (self, &batch, &status, scores, error);
        const double worst = fault ? 0
                             : status || wm_ragged_length (scores, most) != n
                                 ? INFINITY
                                 : wm_device_row_off (self->model, scores, want, n, 1, &where);
        if (worst > limit)
            fault = wm_fault (error, WM_EHOST,
                              "self-test of %s failed: known answer %u, of %u values, differs by "
                              "%.2g (allowed %.0e): this machine, or its engine, computes wrongly",
                              self->signature, i, n, worst, limit);
        input += n_value;
        want += n;
    }
    free (scores);
    return fault;
}

/* Without known answers: the same patches, each alone or at another place beside others, must give
   the same bits.  */
static wm_fault_t test_grouping (wm_device_t *self, float *probe, float *scores, float *again,
                                 wm_error_t *error)
{
    size_t n_value = wm_model_n_value (self->model), n_output = wm_model_n_output (self->model);
    wm_seed_rows (1, PROBES, n_value, probe);
    wm_fault_t fault = score_patches (self, probe, PROBES, scores, error);
    if (!fault)
        fault = score_patches (self, probe, 1, again, error);
    if (!fault)
        fault = score_patches (self, probe + n_value, PROBES - 1, again + n_output, error);
    for (uint32_t i = 0; !fault && i < PROBES; i++)
        if (wm_bits_differ (again + i * n_output, scores + i * n_output, n_output) < n_output)
            fault = wm_fault (error, wm_model_plugin (self->model) ? WM_EPEER : WM_EHOST,
                              "self-test of %s failed: test patch %u has other scores in another "
                              "group of patches",
                              self->signature, i);
    return fault;
}

/* With known answers, where they can be compared, else without.  */
static wm_fault_t test (wm_device_t *self, wm_error_t *error)
{
    const float *inputs, *want;
    if (wm_model_is_ragged (self->model, NULL))
        return test_rows (self, error);
    const bool comparable =
        !self->fast || wm_model_kind (self->model) == WM_MODEL_FAMILY || self->engine->is_gpu;
    uint32_t known = comparable ? wm_model_known (self->model, &inputs, &want) : 0;
    size_t n_value = wm_model_n_value (self->model), n_output = wm_model_n_output (self->model);
    float *probe = known ? NULL : calloc (PROBES * n_value, sizeof *probe);
    float *scores = calloc ((known ? known : 2 * PROBES) * n_output, sizeof *scores);
    wm_fault_t fault;
    if (!scores || (!known && !probe))
        fault = wm_fault (error, WM_EHOST, "no memory for the self-test");
    else if (known)
        fault = test_known (self, inputs, want, known, scores, error);
    else
        fault = test_grouping (self, probe, scores, scores + PROBES * n_output, error);
    free (probe);
    free (scores);
    return fault;
}

wm_fault_t wm_device_self_test (wm_device_t *self, wm_error_t *error)
{
    const holds_t holds = self->holds;
    self->holds = HOLDS_NOTHING;
    const wm_fault_t fault = test (self, error);
    self->holds = holds;
    return fault;
}
