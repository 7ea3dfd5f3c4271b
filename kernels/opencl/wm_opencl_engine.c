/* wm_opencl_engine.c - the engine behind kernels/wm_device.h.

   In fp32 its signature is that of the CPU, because the bits are the same.
   kernels/judge/wm_prove.h compares them, whatever the driver promises. In fast the first dense
   layers read half: a campaign's trial decides whether they may (kernels/judge/wm_trial.h), and the
   signature has the device's name.  */
#include "kernels/family/wm_range.h"
#include "kernels/opencl/wm_opencl.h"
#include "kernels/wm_backend_private.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether half holds the network on the patches of the specification.  */
static wm_fault_t check_range (const wm_net_t *net, const wm_spec_t *spec, wm_error_t *error)
{
    double limit, need = spec ? fmax (fabs (spec->out_min), fabs (spec->out_max)) : 0;
    return wm_range_half (net, need, &limit, error);
}

/* The device's name, without what a signature cannot have.  */
static void sign (const wm_opencl_info_t *info, char signature[64])
{
    char name[32];
    size_t n = 0;
    for (const char *p = info->name; *p && n + 1 < sizeof name; p++)
        if (isalnum ((unsigned char) *p))
            name[n++] = *p;
        else if (n > 0 && name[n - 1] != '-')
            name[n++] = '-';
    name[n] = 0;
    snprintf (signature, 64, "opencl/%s/fp16/v1", name);
}

static void *engine_open (const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    const char *named = getenv ("WM_OPENCL_DEVICE"); /* of --device opencl:N */
    const wm_net_t *net = wm_model_net (model);
    const bool is_half = strcmp (config->precision, "fast") == 0;
    if (is_half && check_range (net, spec, error))
        return NULL;
    wm_opencl_t *self =
        wm_opencl_new (net, spec, named && *named ? atoi (named) : -1, is_half, 0, error);
    if (!self)
        return NULL;
    const wm_opencl_info_t *info = wm_opencl_info (self);
    fprintf (stderr, "opencl: %s (%s %s)%s%s\n", info->name, info->platform, info->driver,
             info->has_double ? "" : "; the host computes the last layers",
             is_half ? "; the first dense layers are in half" : "");
    if (is_half)
        sign (info, signature);
    else
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
