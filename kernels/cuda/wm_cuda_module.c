/* wm_cuda_module.c - the CUDA engines behind kernels/wm_device.h: what wm_cuda.so exports.

   "cuda" takes our kernels (wm_cuda.h) for networks of the family that they run, "cudnn" never.
   All else goes by wm_any.h.

   Precision fp32 is strict float32, without tensor cores: by our kernels with the bits and the
   signature of the CPU (kernels/README.md), by cuDNN in its own order. split is float32 as two
   halves on tensor cores where our kernels run (strict float32 elsewhere); fast is half with sums
   in float32, by wm_any.h where half holds the values. The GPU is the first that
   CUDA_VISIBLE_DEVICES leaves.  */
#include "kernels/cudnn/wm_any.h"
#include "kernels/cudnn/wm_any_net.h"
#include "kernels/gpu/wm_cuda.h"
#include "kernels/wm_backend_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    wm_cuda_t *cuda;
    wm_any_net_t *net; /* of wm_any_new, else NULL */
} engine_t;

static void engine_close (void *engine)
{
    engine_t *self = engine;
    wm_cuda_destroy (&self->cuda);
    wm_any_net_destroy (&self->net);
    free (self);
}

static wm_any_net_t *lower (const wm_model_t *model, bool strict, wm_error_t *error)
{
    size_t bytes;
    const void *original = wm_model_original (model, &bytes);
    return wm_model_net (model) ? wm_any_family_new (wm_model_net (model), strict, error)
                                : wm_any_net_new ("the model", original, bytes, error);
}

static void *open_engine (bool ours, const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    const wm_net_t *net = ours ? wm_model_net (model) : NULL;
    const bool fast = strcmp (config->precision, "fast") == 0,
               split = strcmp (config->precision, "split") == 0;
    wm_cuda_config_t cuda = { .precision = fast ? WM_GPU_F16 : WM_GPU_F32 };
    engine_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "no memory for the cuda engine");
        return NULL;
    }
    if (net && !wm_cuda_refuse (net, cuda.precision)) {
        cuda.precision = split ? WM_GPU_SPLIT : cuda.precision;
        self->cuda = wm_cuda_new (&wm_gpu_real, net, spec, &cuda, error);
    } else if ((self->net = lower (model, !fast, error)) != NULL)
        self->cuda = wm_any_new (&wm_gpu_real, self->net, spec, cuda.precision, 0, error);
    if (!self->cuda) {
        engine_close (self);
        return NULL;
    }
    const char *own = wm_cuda_signature (self->cuda);
    const bool is_strict = !self->net && cuda.precision == WM_GPU_F32;
    if (is_strict || (self->net && *wm_cuda_choice (self->cuda)))
        fprintf (stderr, "cuda: %s\n", is_strict ? own : wm_cuda_choice (self->cuda));
    snprintf (signature, 64, "%s", is_strict ? WM_SIGNATURE_FP32 : own);
    return self;
}

static uint32_t engine_fill (const void *engine)
{
    return wm_cuda_fill (((const engine_t *) engine)->cuda);
}

static wm_fault_t engine_submit (void *engine, uint32_t n, wm_job_t *const *job, wm_error_t *error)
{
    return wm_cuda_submit (((engine_t *) engine)->cuda, n, job, error);
}

static wm_fault_t engine_collect (void *engine, wm_job_t **job, wm_error_t *error)
{
    return wm_cuda_collect (((engine_t *) engine)->cuda, job, error);
}

static uint64_t engine_launches (const void *engine)
{
    return wm_cuda_launches (((const engine_t *) engine)->cuda);
}

static wm_fault_t engine_lend (void *engine, const void *memory, size_t bytes, wm_error_t *error)
{
    return wm_cuda_lend (((engine_t *) engine)->cuda, memory, bytes, error);
}

/* The symbols that are seen from outside. ours: with our kernels.  */
#define ENGINE(called, ours)                                                                       \
    static void *open_##called (const wm_model_t *model, const wm_spec_t *spec,                    \
                                const wm_device_config_t *config, char signature[64],              \
                                wm_error_t *error)                                                 \
    {                                                                                              \
        return open_engine (ours, model, spec, config, signature, error);                          \
    }                                                                                              \
    extern const wm_backend_t wm_backend_##called __attribute__ ((visibility ("default")));        \
    const wm_backend_t wm_backend_##called = {                                                     \
        .open = open_##called,                                                                     \
        .close = engine_close,                                                                     \
        .fill = engine_fill,                                                                       \
        .submit = engine_submit,                                                                   \
        .collect = engine_collect,                                                                 \
        .launches = engine_launches,                                                               \
        .lend = engine_lend,                                                                       \
    }
ENGINE (cuda, true);
ENGINE (cudnn, false);
