/* wm_prove.c - see wm_prove.h.  */
#include "kernels/judge/wm_prove.h"
#include "kernels/model/wm_test_patches.h"
#include "kernels/wm_backend_private.h"

#include <stdio.h>
#include <stdlib.h>

#define PATCHES 8u

static wm_fault_t compare (const char *engine, const float *is, const float *should, size_t n,
                           wm_error_t *error)
{
    const size_t i = wm_bits_differ (is, should, n);
    if (i < n)
        return wm_fault (error, WM_EHOST,
                         "the device of the engine %s computes %a where the CPU computes %a: it, "
                         "or its driver, does not keep to IEEE 754, and is not used",
                         engine, (double) is[i], (double) should[i]);
    fprintf (stderr, "%s: the device has the bits of the CPU\n", engine);
    return WM_OK;
}

wm_fault_t wm_prove (wm_device_t *device, const char *engine, const wm_model_t *model,
                     const wm_spec_t *spec, wm_error_t *error)
{
    const wm_device_config_t config = { .engine = "sparse", .precision = "fp32", .threads = 1 };
    const size_t n_value = wm_model_n_value (model), n_output = wm_model_n_output (model);
    float *patch = calloc (PATCHES * n_value, sizeof *patch),
          *scores = calloc (2 * PATCHES * n_output, sizeof *scores);
    uint8_t status[PATCHES];
    uint64_t seed = 1;
    wm_device_t *judge = NULL;
    wm_fault_t fault = WM_OK;
    if (!patch || !scores)
        fault = wm_fault (error, WM_EHOST, "no memory to test the device of the engine %s", engine);
    else if (!(judge = wm_device_new (model, spec, &config, error)))
        fault = WM_EHOST;
    for (uint32_t i = 0; i < PATCHES && !fault; i++)
        wm_test_patches_draw (&seed, wm_model_net (model), spec ? wm_spec_zero (spec) : 0, 1,
                              patch + i * n_value);
    const wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                               .n_hit = PATCHES,
                               .patch_values = (uint32_t) n_value,
                               .patch = patch };
    if (!fault)
        fault = wm_device_score (judge, &batch, status, scores, error);
    if (!fault)
        fault = wm_device_score (device, &batch, status, scores + PATCHES * n_output, error);
    if (!fault)
        fault = compare (engine, scores + PATCHES * n_output, scores, PATCHES * n_output, error);
    wm_device_destroy (&judge);
    free (patch), free (scores);
    return fault;
}
