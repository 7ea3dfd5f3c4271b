/* wm_trial.c - see wm_trial.h.  */
#include "kernels/judge/wm_trial.h"
#include "schema/wm_defaults.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

wm_device_t *wm_trial_judge (const wm_model_t *model, const wm_spec_t *spec,
                             const wm_device_config_t *config, wm_error_t *error)
{
    wm_device_config_t strict = *config;
    char isa[32];
    wm_device_strict_isa (config->isa, isa);
    strict.precision = "fp32", strict.isa = isa;
    if (wm_device_engine (config->engine)->is_gpu)
        strict.engine = "auto";
    return wm_device_new (model, spec, &strict, error);
}

/* Scores all batches one after another, (hits, n_output). NULL with *error.  */
static float *score_all (wm_device_t *device, const wm_batch_t *batch, uint32_t n, size_t n_hit,
                         uint32_t n_output, wm_error_t *error)
{
    float *scores = calloc (n_hit * n_output + 1, sizeof *scores), *to = scores;
    uint8_t *status = calloc (n_hit + 1, 1);
    wm_fault_t fault =
        scores && status ? WM_OK : wm_fault (error, WM_EHOST, "no memory for a trial");
    for (uint32_t i = 0; i < n && !fault; i++) {
        fault = wm_device_score (device, &batch[i], status, to, error);
        to += (size_t) batch[i].n_hit * n_output;
    }
    free (status);
    if (fault) {
        free (scores);
        scores = NULL;
    }
    return scores;
}

/* Scores the sample by strict fp32, up to WM_TRIAL_HITS and a batch. Batches that it refuses
   (planes that do not fit the model: their campaign holds them) are left out: *batch and *n become
   those in `mine`.  */
static wm_fault_t judge_all (wm_device_t *judge, const wm_batch_t **batch, uint32_t *n,
                             wm_batch_t mine[WM_TRIAL_BATCHES], uint32_t n_output, float **right,
                             size_t *n_hit, wm_error_t *error)
{
    uint32_t taken = 0;
    for (uint32_t i = 0; i < *n && taken < WM_TRIAL_BATCHES && *n_hit < WM_TRIAL_HITS; i++) {
        float *scores = score_all (judge, &(*batch)[i], 1, (*batch)[i].n_hit, n_output, error);
        if (!scores && error->fault == WM_EBATCH)
            continue;
        const size_t more = (size_t) (*batch)[i].n_hit * n_output, have = *n_hit * n_output;
        float *all = scores ? realloc (*right, (have + more + 1) * sizeof *all) : NULL;
        if (!all) {
            const wm_fault_t fault =
                scores ? wm_fault (error, WM_EHOST, "no memory for a trial") : error->fault;
            free (scores), free (*right);
            return fault;
        }
        memcpy (all + have, scores, more * sizeof *all);
        free (scores);
        *right = all;
        *n_hit += (*batch)[i].n_hit;
        mine[taken++] = (*batch)[i];
    }
    *batch = mine, *n = taken;
    return WM_OK;
}

/* The largest error, except where strict fp32 is not finite either.  */
static double largest_error (const float *scores, const float *right, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite (right[i]))
            most = fmax (most, wm_device_off ((double) scores[i], (double) right[i]));
    return most;
}

static void note_refused (wm_trial_t *trial, const wm_candidate_t *candidate, double error)
{
    const size_t n = strlen (trial->refused);
    snprintf (trial->refused + n, sizeof trial->refused - n, "%s%s %.1e", n ? ", " : "",
              *candidate->isa ? candidate->isa : candidate->precision, error);
}

/* Opens one candidate.  */
static wm_device_t *open_one (const wm_model_t *model, const wm_spec_t *spec,
                              const wm_device_config_t *config, const wm_candidate_t *candidate,
                              wm_error_t *error)
{
    wm_device_config_t one = *config;
    one.precision = candidate->precision, one.isa = candidate->isa;
    return wm_device_new (model, spec, &one, error);
}

static bool is_strict (const wm_candidate_t *candidate)
{
    return strcmp (candidate->precision, "fp32") == 0;
}

/* ---- ahead of the sample --------------------------------------------------------------------- */

struct wm_trial_ahead_t {
    const wm_model_t *model;
    const wm_spec_t *spec;
    wm_device_config_t config;
    wm_candidate_t candidate;
    wm_device_t *device;
    pthread_t thread;
};

static void *run_ahead (void *argument)
{
    wm_trial_ahead_t *self = argument;
    wm_error_t error; /* wm_trial_open meets it again */
    self->device = open_one (self->model, self->spec, &self->config, &self->candidate, &error);
    return NULL;
}

wm_trial_ahead_t *wm_trial_ahead_new (const wm_model_t *model, const wm_spec_t *spec,
                                      const wm_device_config_t *config)
{
    wm_candidate_t first;
    wm_error_t error;
    const bool quick =
        wm_model_kind (model) == WM_MODEL_FAMILY &&
        (wm_device_is_auto (config->engine) || wm_device_engine (config->engine)->has_isa) &&
        wm_device_candidate (model, config, 0, &first, &error);
    wm_trial_ahead_t *self = quick && !is_strict (&first) ? calloc (1, sizeof *self) : NULL;
    if (!self)
        return NULL;
    *self =
        (wm_trial_ahead_t){ .model = model, .spec = spec, .config = *config, .candidate = first };
    if (pthread_create (&self->thread, NULL, run_ahead, self)) {
        free (self);
        self = NULL;
    }
    return self;
}

wm_device_t *wm_trial_ahead_end (wm_trial_ahead_t **self_p)
{
    wm_trial_ahead_t *self = *self_p;
    if (!self)
        return NULL;
    pthread_join (self->thread, NULL);
    wm_device_t *device = self->device;
    free (self);
    *self_p = NULL;
    return device;
}

/* ---- the trial ------------------------------------------------------------------------------- */

wm_device_t *wm_trial_open (const wm_model_t *model, const wm_spec_t *spec,
                            const wm_device_config_t *config, wm_device_t *judge,
                            wm_trial_ahead_t **ahead, const wm_batch_t *batch, uint32_t n,
                            wm_trial_t *trial, wm_error_t *error)
{
    const uint32_t n_output = wm_model_n_output (model);
    const double max_error =
        config->max_error > 0 ? config->max_error : wm_default_error (config->precision);
    wm_batch_t mine[WM_TRIAL_BATCHES];
    float *right = NULL;
    size_t n_hit = 0;
    *trial = (wm_trial_t){ .n_hit = 0 };
    if (judge_all (judge, &batch, &n, mine, n_output, &right, &n_hit, error))
        return NULL;
    trial->n_hit = (uint32_t) n_hit;
    wm_device_t *device = NULL;
    wm_candidate_t candidate;
    error->fault = WM_OK;
    for (uint32_t i = 0; !device && wm_device_candidate (model, config, i, &candidate, error);
         i++) {
        const bool strict = is_strict (&candidate);
        if (!strict && !n_hit)
            continue; /* nothing to measure it on */
        if (i == 0 && ahead)
            device = wm_trial_ahead_end (ahead);
        if (!device)
            device = open_one (model, spec, config, &candidate, error);
        if (!device && !strict && error->fault == WM_EBATCH)
            continue; /* 16 bits that cannot hold this model */
        trial->candidate = candidate, trial->error = 0;
        if (!device || strict)
            break;
        float *scores = score_all (device, batch, n, n_hit, n_output, error);
        const wm_fault_t failed = scores ? WM_OK : error->fault;
        trial->error = scores ? largest_error (scores, right, n_hit * n_output) : INFINITY;
        free (scores);
        if (!(trial->error * WM_TRIAL_MARGIN <= max_error)) {
            note_refused (trial, &candidate, trial->error);
            wm_device_destroy (&device);
        }
        if (failed && failed != WM_EBATCH) { /* not because of the arithmetic */
            error->fault = WM_EAGAIN;
            break;
        }
        error->fault = WM_OK;
    }
    free (right);
    if (!device && !error->fault)
        wm_fault (error, WM_EHOST, "no arithmetic of precision %s can be opened here",
                  config->precision);
    return device;
}
