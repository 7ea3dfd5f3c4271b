/* wm_sparse_door.c - the engine behind kernels/wm_device.h, and which kernel a model gets.

   What a kernel's precision does to a score depends on the network: how large its values are, how
   steep its outputs. So a kernel with rounded weights scores drawn patches before it is taken, and
   plain fp32 judges: if it is beyond half of what its class promises (the campaign's hits are many
   more, and others), the next of the rank is tried, down to plain fp32. The patches are drawn from a
   fixed seed around the specification's zero level: machines of one instruction set choose alike.  */
#include "kernels/sparse/wm_sparse.h"
#include "kernels/wm_known.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIED 64u /* patches */

typedef struct {
    const wm_net_t *net;
    const wm_spec_t *spec;
    uint32_t n_value, n_output;
    float *patch, *judged, *scored; /* (TRIED, n_value), (TRIED, n_output) twice */
} check_t;

static bool is_plain (const wm_sparse_kernel_t *kernel)
{
    return strcmp (kernel->precision, "fp32") == 0;
}

static wm_fault_t score_tried (const check_t *check, wm_sparse_t *engine, float *scores,
                               wm_error_t *error)
{
    const wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                               .n_hit = TRIED,
                               .patch_values = check->n_value,
                               .patch = check->patch };
    _Atomic uint64_t progress = 0;
    return wm_sparse_score (engine, &batch, scores, &progress, error);
}

/* Draws the patches and has them judged.  */
static wm_fault_t check_new (check_t *check, const wm_sparse_config_t *config, wm_error_t *error)
{
    const wm_spec_t *spec = check->spec;
    const float zero = spec ? wm_spec_zero (spec) : 0,
                unit = spec ? (float) ((spec->out_max - spec->out_min) / 20) : 1;
    wm_sparse_config_t plain = { .cache = config->cache };
    for (uint32_t i = 0; !plain.kernel || !is_plain (plain.kernel); i++)
        plain.kernel = wm_sparse_kernel (i); /* C's at the latest */
    check->patch = calloc ((size_t) TRIED * check->n_value, sizeof *check->patch);
    check->judged = calloc ((size_t) TRIED * check->n_output * 2, sizeof *check->judged);
    if (!check->patch || !check->judged)
        return wm_fault (error, WM_EHOST, "no memory to try a kernel");
    check->scored = check->judged + (size_t) TRIED * check->n_output;
    uint64_t state = 1;
    for (uint32_t i = 0; i < TRIED; i++)
        wm_known_draw (&state, check->net, zero, unit, check->patch + (size_t) i * check->n_value);
    wm_sparse_t *judge = wm_sparse_new (check->net, spec, &plain, error);
    wm_fault_t fault = judge ? score_tried (check, judge, check->judged, error) : error->fault;
    wm_sparse_destroy (&judge);
    return fault;
}

static double largest_off (const check_t *check)
{
    double most = 0;
    for (uint32_t i = 0; i < TRIED * check->n_output; i++) {
        const double judged = (double) check->judged[i];
        if (isfinite (judged)) /* what is no number in fp32 either is nobody's error */
            most = fmax (most, wm_device_off ((double) check->scored[i], judged));
    }
    return most;
}

/* The first of the rank that is precise enough. NULL with *error.  */
static wm_sparse_t *open_best (check_t *check, wm_sparse_config_t *config, const char *precision,
                               wm_error_t *error)
{
    const wm_sparse_kernel_t *rank[WM_SPARSE_RANKS];
    const uint32_t n = wm_sparse_kernel_rank (precision, rank, error);
    wm_sparse_t *self = NULL;
    double off = 0;
    wm_fault_t fault = n ? WM_OK : error->fault;
    for (uint32_t i = 0; i < n && !fault && !self; i++) {
        config->kernel = rank[i];
        if (i + 1 < n && !wm_sparse_kernel_holds (rank[i], check->net))
            continue;
        self = wm_sparse_new (check->net, check->spec, config, error);
        fault = self ? WM_OK : error->fault;
        if (fault || is_plain (rank[i]))
            break;
        if (!check->patch)
            fault = check_new (check, config, error);
        if (!fault)
            fault = score_tried (check, self, check->scored, error);
        off = fault ? 0 : largest_off (check);
        if (fault || off > rank[i]->off / 2)
            wm_sparse_destroy (&self);
    }
    if (!fault && !self)
        wm_fault (
            error, WM_EHOST,
            "WM_ISA=%s: no kernel of it is precise enough for this model (the last, %s/%s, is "
            "off by %.1e on test patches, allowed %.1e): unset WM_ISA for one that is",
            getenv ("WM_ISA"), config->kernel->isa, config->kernel->precision, off,
            config->kernel->off / 2);
    free (check->patch);
    free (check->judged);
    return self;
}

static void *engine_open (const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    const wm_net_t *net = wm_model_net (model);
    if (!net) {
        wm_fault (error, WM_EBATCH, "the sparse engine does not run this model: %s",
                  wm_model_why (model));
        return NULL;
    }
    char cache[PATH_MAX];
    wm_sparse_config_t mine = {
        .threads = (uint32_t) (config->threads > 0 ? config->threads : 1),
        .pin = config->pin,
        .cache = wm_model_cache (model, cache, sizeof cache) ? cache : NULL,
    };
    check_t check = { .net = net,
                      .spec = spec,
                      .n_value = wm_model_n_value (model),
                      .n_output = wm_model_n_output (model) };
    wm_sparse_t *self = open_best (&check, &mine, config->precision, error);
    if (self)
        snprintf (signature, 64, "sparse/%s/%s/v1", mine.kernel->isa, mine.kernel->precision);
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
    (void) status; /* the door's */
    return wm_sparse_score (engine, batch, scores, progress, error);
}

static uint64_t engine_madds (void *engine, bool count)
{
    wm_sparse_t *self = engine;
    self->count_madds = count;
    return self->stats.madds;
}

const wm_engine_t wm_engine_sparse = {
    .name = "sparse",
    .open = engine_open,
    .close = engine_close,
    .score = engine_score,
    .madds = engine_madds,
};
