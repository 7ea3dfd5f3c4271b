/* wm_cuda_module.c - the CUDA engines behind kernels/wm_device.h: what wm_cuda.so exports.

   "cuda" takes the version of wm_cuda.h's rule, "cudnn" version 1, whose arithmetic is all
   NVIDIA's.

   Precision fp32 is strict float32, which the campaign's limit of 1e-5 needs; fast is half with
   sums in float32 (off by 3.7e-4 at most on the stand-in; tf32 needs twice the memory). Models
   outside the family run by wm_any.h, `fast` in half where half holds their values. The GPU is the
   first that CUDA_VISIBLE_DEVICES leaves.  */
#include "kernels/cuda/wm_any.h"
#include "kernels/cuda/wm_cuda.h"
#include "kernels/wm_backend_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    wm_cuda_t *family; /* or */
    wm_any_net_t *net;
    wm_any_t *any;
} engine_t;

static void engine_close (void *engine)
{
    engine_t *self = engine;
    wm_cuda_destroy (&self->family);
    wm_any_destroy (&self->any);
    wm_any_net_destroy (&self->net);
    free (self);
}

/* The ONNX file lies inside the model's file; the reader wants a path.  */
static wm_any_net_t *lower (const wm_model_t *model, wm_error_t *error)
{
    size_t bytes, done = 0;
    char path[32];
    const char *original = wm_model_original (model, &bytes);
    const int file = memfd_create ("wiremill-model", MFD_CLOEXEC);
    ssize_t n = 1;
    while (file >= 0 && done < bytes && (n = write (file, original + done, bytes - done)) > 0)
        done += (size_t) n;
    wm_any_net_t *net = NULL;
    snprintf (path, sizeof path, "/proc/self/fd/%d", file);
    if (file >= 0 && done == bytes)
        net = wm_any_net_new (path, error);
    else
        wm_fault (error, WM_EHOST, "no memory for the model's %zu bytes", bytes);
    if (file >= 0)
        close (file);
    return net;
}

static void *open_version (uint32_t version, const wm_model_t *model, const wm_spec_t *spec,
                           const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    const wm_net_t *net = wm_model_net (model);
    const bool fast = strcmp (config->precision, "fast") == 0;
    const wm_cuda_config_t cuda = { .precision = fast ? WM_GPU_F16 : WM_GPU_F32,
                                    .version = version };
    engine_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "no memory for the cuda engine");
        return NULL;
    }
    if (net)
        self->family = wm_cuda_new (&wm_gpu_real, net, spec, &cuda, error);
    else if ((self->net = lower (model, error)) != NULL)
        self->any =
            wm_any_new (&wm_gpu_real, self->net, spec, fast ? WM_GPU_F16 : WM_GPU_F32, 0, error);
    if (self->any && *wm_any_choice (self->any))
        fprintf (stderr, "cuda: %s\n", wm_any_choice (self->any));
    if (self->family || self->any)
        snprintf (signature, 64, "%s",
                  self->any ? wm_any_signature (self->any) : wm_cuda_signature (self->family));
    else {
        engine_close (self);
        self = NULL;
    }
    return self;
}

static void *open_cuda (const wm_model_t *model, const wm_spec_t *spec,
                        const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    return open_version (0, model, spec, config, signature, error);
}

static void *open_cudnn (const wm_model_t *model, const wm_spec_t *spec,
                         const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    return open_version (1, model, spec, config, signature, error);
}

static wm_fault_t engine_score (void *engine, const wm_batch_t *batch, uint8_t *status,
                                float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    engine_t *self = engine;
    (void) status; /* wm_device.c checks the scores */
    return self->any ? wm_any_score (self->any, batch, scores, progress, error)
                     : wm_cuda_score (self->family, batch, scores, progress, error);
}

static uint32_t engine_fill (const void *engine)
{
    const engine_t *self = engine;
    return self->family ? wm_cuda_fill (self->family) : wm_any_hits (self->any);
}

/* Called only where engine_fill is not 0.  */
static wm_fault_t engine_score_many (void *engine, uint32_t n, const wm_batch_t *const *batch,
                                     float *const *scores, _Atomic uint64_t *progress,
                                     wm_error_t *error)
{
    engine_t *self = engine;
    return self->any ? wm_any_score_many (self->any, n, batch, scores, progress, error)
                     : wm_cuda_score_many (self->family, n, batch, scores, progress, error);
}

static wm_fault_t engine_lend (void *engine, const void *memory, size_t bytes, wm_error_t *error)
{
    engine_t *self = engine;
    return self->family ? wm_cuda_lend (self->family, memory, bytes, error) : WM_OK;
}

/* The symbols that are seen from outside.  */
#define ENGINE(called)                                                                             \
    extern const wm_backend_t wm_backend_##called __attribute__ ((visibility ("default")));        \
    const wm_backend_t wm_backend_##called = {                                                     \
        .open = open_##called,                                                                     \
        .close = engine_close,                                                                     \
        .score = engine_score,                                                                     \
        .fill = engine_fill,                                                                       \
        .score_many = engine_score_many,                                                           \
        .lend = engine_lend,                                                                       \
    }
ENGINE (cuda);
ENGINE (cudnn);
