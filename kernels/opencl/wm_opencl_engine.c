/* wm_opencl_engine.c - the engine behind kernels/wm_device.h.

   Its signature is that of strict fp32 on the CPU, because the bits are the same.
   kernels/judge/wm_prove.h compares them, whatever the driver promises.  */
#include "kernels/opencl/wm_opencl.h"
#include "kernels/wm_backend_private.h"

#include <stdio.h>
#include <stdlib.h>

static void *engine_open (const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    const char *named = getenv ("WM_OPENCL_DEVICE"); /* of --device opencl:N */
    (void) config;                                   /* all of its arithmetic is strict fp32 */
    wm_opencl_t *self =
        wm_opencl_new (wm_model_net (model), spec, named && *named ? atoi (named) : -1, 0, error);
    if (!self)
        return NULL;
    const wm_opencl_info_t *info = wm_opencl_info (self);
    fprintf (stderr, "opencl: %s (%s %s)%s\n", info->name, info->platform, info->driver,
             info->has_double ? "" : "; the host computes the last layers");
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
