/* wm_opencl_engine.c - the engine behind kernels/wm_device.h.

   Its signature is that of strict fp32 on the CPU, because the bits are the same. So it opens only
   if it has the bits of the CPU's engine on a few patches, whatever its driver promises; while it
   works, canaries compare with the CPU, bit for bit (is_exact of wm_engines.c).  */
#include "kernels/model/wm_test_patches.h"
#include "kernels/opencl/wm_opencl.h"
#include "kernels/wm_backend_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROOFS 8u /* patches */

static wm_fault_t compare (const wm_opencl_t *self, const float *is, const float *should, size_t n,
                           wm_error_t *error)
{
    const size_t i = wm_bits_differ (is, should, n);
    return i == n ? WM_OK
                  : wm_fault (error, WM_EHOST,
                              "the OpenCL device %.90s computes %a where the CPU computes %a: it, "
                              "or its driver, does not keep to IEEE 754, and is not used",
                              wm_opencl_info (self)->name, (double) is[i], (double) should[i]);
}

/* Scores test patches here and on the CPU.  */
static wm_fault_t prove (wm_opencl_t *self, const wm_model_t *model, const wm_spec_t *spec,
                         wm_error_t *error)
{
    const wm_device_config_t config = { .engine = "sparse", .precision = "fp32", .threads = 1 };
    const size_t n_value = wm_model_n_value (model), n_output = wm_model_n_output (model);
    float *patch = calloc (PROOFS * n_value, sizeof *patch),
          *scores = calloc (2 * PROOFS * n_output, sizeof *scores);
    uint8_t status[PROOFS] = { 0 };
    uint64_t seed = 1;
    _Atomic uint64_t progress = 0;
    char signature[64];
    if (!patch || !scores) {
        free (patch), free (scores);
        return wm_fault (error, WM_EHOST, "no memory to test the OpenCL device");
    }
    for (uint32_t i = 0; i < PROOFS; i++)
        wm_test_patches_draw (&seed, wm_model_net (model), spec ? wm_spec_zero (spec) : 0, 1,
                              patch + i * n_value);
    const wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                               .n_hit = PROOFS,
                               .patch_values = (uint32_t) n_value,
                               .patch = patch };
    void *judge = wm_backend_sparse.open (model, spec, &config, signature, error);
    wm_fault_t fault =
        judge ? wm_backend_sparse.score (judge, &batch, status, scores, &progress, error)
              : error->fault;
    if (!fault)
        fault = wm_opencl_score (self, &batch, scores + PROOFS * n_output, NULL, error);
    if (!fault)
        fault = compare (self, scores + PROOFS * n_output, scores, PROOFS * n_output, error);
    if (judge)
        wm_backend_sparse.close (judge);
    free (patch), free (scores);
    return fault;
}

static void *engine_open (const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    const char *named = getenv ("WM_OPENCL_DEVICE"); /* of --device opencl:N */
    (void) config;                                   /* all of its arithmetic is strict fp32 */
    wm_opencl_t *self =
        wm_opencl_new (wm_model_net (model), spec, named && *named ? atoi (named) : -1, 0, error);
    if (self && prove (self, model, spec, error))
        wm_opencl_destroy (&self);
    if (!self)
        return NULL;
    const wm_opencl_info_t *info = wm_opencl_info (self);
    fprintf (stderr, "opencl: %s (%s %s) has the bits of the CPU%s\n", info->name, info->platform,
             info->driver, info->has_double ? "" : "; the host computes the last layers");
    snprintf (signature, 64, "%s", WM_SIGNATURE_FP32);
    return self;
}

static void engine_close (void *engine)
{
    wm_opencl_t *self = engine;
    wm_opencl_destroy (&self);
}

static wm_fault_t engine_score (void *engine, const wm_batch_t *batch, uint8_t *status,
                                float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    (void) status; /* wm_device.c sets it */
    return wm_opencl_score (engine, batch, scores, progress, error);
}

static uint64_t engine_launches (const void *engine)
{
    return wm_opencl_stats (engine).regions;
}

const wm_backend_t wm_backend_opencl = {
    .open = engine_open,
    .close = engine_close,
    .score = engine_score,
    .launches = engine_launches,
};
