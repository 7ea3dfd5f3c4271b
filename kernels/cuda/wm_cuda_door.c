/* wm_cuda_door.c - the CUDA engine behind kernels/wm_device.h: what wm_cuda.so shows.

   Precision fp32 is strict float32, which the campaign's 1e-5 asks for; fast is half with sums in
   float32 (3.7e-4 at most, tf32 is no faster where it matters and needs twice the memory). The GPU
   is the first that CUDA_VISIBLE_DEVICES leaves.  */
#include "kernels/cuda/wm_cuda_v1.h"

#include <stdio.h>
#include <string.h>

static void *engine_open (const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    const wm_net_t *net = wm_model_net (model);
    if (!net) {
        wm_fault (error, WM_EBATCH, "the cuda engine does not run this model: %.200s",
                  wm_model_why (model));
        return NULL;
    }
    wm_cuda_config_t cuda = { .precision = WM_GPU_F32 };
    if (strcmp (config->precision, "fast") == 0)
        cuda.precision = WM_GPU_F16;
    wm_cuda_t *self = wm_cuda_new (&wm_gpu_real, net, spec, &cuda, error);
    if (self)
        snprintf (signature, 64, "%s", wm_cuda_signature (self));
    return self;
}

static void engine_close (void *engine)
{
    wm_cuda_t *self = engine;
    wm_cuda_destroy (&self);
}

static wm_fault_t engine_score (void *engine, const wm_batch_t *batch, uint8_t *status,
                                float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    (void) status; /* the door looks at the scores */
    return wm_cuda_score (engine, batch, scores, progress, error);
}

/* The one symbol that is seen from outside.  */
extern const wm_engine_t wm_engine_cuda __attribute__ ((visibility ("default")));
const wm_engine_t wm_engine_cuda = {
    .name = "cuda", .open = engine_open, .close = engine_close, .score = engine_score
};
