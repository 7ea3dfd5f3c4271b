/* wm_sparse_engine.c - the engine behind kernels/wm_device.h, and the kernel that a model gets.

   A model gets the first kernel of the rank that can hold it. Whether a rounded kernel is precise
   enough depends on the network and on its hits: a campaign measures that
   (kernels/judge/wm_trial.h).  */
#include "kernels/sparse/wm_sparse.h"
#include "kernels/wm_backend_private.h"

#include <limits.h>
#include <stdio.h>

static void *engine_open (const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    const wm_net_t *net = wm_model_net (model);
    if (!net) {
        wm_fault (error, WM_EBATCH, "the sparse engine does not run this model: %s",
                  wm_model_why (model));
        return NULL;
    }
    const wm_sparse_kernel_t *rank[WM_SPARSE_RANKS];
    const uint32_t n = wm_sparse_kernel_rank (config->precision, config->isa, rank, error);
    if (n == 0)
        return NULL;
    uint32_t i = 0;
    while (i + 1 < n && !wm_sparse_kernel_holds (rank[i], net))
        i++;
    if (!wm_sparse_kernel_works (rank[i])) {
        wm_fault (error, WM_EHOST,
                  "the %s/%s loops compute a test wrongly: this CPU or its memory is faulty, or "
                  "memory is short",
                  rank[i]->isa, rank[i]->precision);
        return NULL;
    }
    char cache[PATH_MAX];
    const wm_sparse_config_t mine = {
        .kernel = rank[i],
        .threads = (uint32_t) (config->threads > 0 ? config->threads : 1),
        .pin = config->pin,
        .on_callers = config->on_callers,
        .cache = wm_model_cache (model, cache, sizeof cache) ? cache : NULL,
    };
    wm_sparse_t *self = wm_sparse_new (net, spec, &mine, error);
    if (self && wm_sparse_kernel_is_strict (rank[i]))
        snprintf (signature, 64, "%s", WM_SIGNATURE_FP32);
    else if (self)
        snprintf (signature, 64, "sparse/%s/%s/v1", rank[i]->isa, rank[i]->precision);
    return self;
}

static void engine_close (void *engine)
{
    wm_sparse_t *self = engine;
    wm_sparse_destroy (&self);
}

static wm_fault_t engine_score (void *engine, const wm_batch_t *batch, uint8_t *status,
                                float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    (void) status; /* wm_device.c sets it */
    return wm_sparse_score (engine, batch, scores, progress, error);
}

/* From this many hits on, reading the weights of the dense layers is a small part of a job.  */
static uint32_t engine_fill (const void *engine)
{
    (void) engine;
    return 64;
}

static wm_fault_t engine_score_many (void *engine, uint32_t n, const wm_batch_t *const *batch,
                                     float *const *scores, _Atomic uint64_t *progress,
                                     wm_error_t *error)
{
    return wm_sparse_score_many (engine, n, batch, scores, progress, error);
}

static uint64_t engine_madds (void *engine, bool count)
{
    for (wm_sparse_t *job = engine; job; job = job->other)
        job->count_madds = count;
    return wm_sparse_stats (engine).madds;
}

static uint32_t engine_hands (const void *engine)
{
    const wm_sparse_t *self = engine;
    return self->on_callers ? UINT32_MAX : self->other ? 2 : 1;
}

static wm_device_busy_t engine_busy (void *engine)
{
    wm_sparse_t *self = engine;
    return wm_sparse_pool_busy (self->pool);
}

/* The i-th kernel that the precision may take, "amx/bf16"; the last is "" for strict fp32.  */
static bool engine_candidate (const wm_model_t *model, const wm_device_config_t *config, uint32_t i,
                              char isa[32], wm_error_t *error)
{
    const wm_sparse_kernel_t *rank[WM_SPARSE_RANKS];
    const wm_net_t *net = wm_model_net (model);
    uint32_t n = net ? wm_sparse_kernel_rank (config->precision, config->isa, rank, error) : 0;
    for (uint32_t k = 0; k < n; k++) {
        if (k + 1 < n && !wm_sparse_kernel_holds (rank[k], net))
            continue;
        if (i-- > 0)
            continue;
        if (wm_sparse_kernel_is_strict (rank[k]))
            *isa = 0;
        else
            snprintf (isa, 32, "%s/%s", rank[k]->isa, rank[k]->precision);
        return true;
    }
    return false;
}

const wm_backend_t wm_backend_sparse = {
    .candidate = engine_candidate,
    .open = engine_open,
    .close = engine_close,
    .score = engine_score,
    .fill = engine_fill,
    .score_many = engine_score_many,
    .madds = engine_madds,
    .hands = engine_hands,
    .busy = engine_busy,
};
