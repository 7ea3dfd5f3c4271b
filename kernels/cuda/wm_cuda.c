/* wm_cuda.c - the CUDA engine's versions behind one interface, and what an error of the GPU
   ends.  */
#include "kernels/cuda/wm_cuda.h"
#include "kernels/cuda/wm_cuda_base.h"
#include "kernels/cuda/wm_cuda_v1.h"
#include "kernels/cuda/wm_cuda_windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wm_cuda_t {
    wm_cuda_v1_t *v1; /* or */
    wm_cuda_windows_t *windows;
    uint32_t version;
    bool failed;
    char signature[64], failure[300];
};

wm_cuda_t *wm_cuda_new (const wm_gpu_api_t *api, const wm_net_t *net, const wm_spec_t *spec,
                        const wm_cuda_config_t *config, wm_error_t *error)
{
    wm_gpu_info_t info = { 0 };
    char version[16];
    wm_cuda_config_t chosen = *config;
    const char *refusal = wm_cuda_windows_refuse (net, config->precision);
    wm_cuda_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "no memory for the cuda engine");
        return NULL;
    }
    self->version = chosen.version = config->version ? config->version : refusal ? 1 : 3;
    if (self->version > 1 && refusal)
        wm_fault (error, WM_EBATCH, "version %u of the cuda engine cannot run this: %s",
                  self->version, refusal);
    else if (self->version > 1)
        self->windows = wm_cuda_windows_new (api, net, spec, &chosen, &info, error);
    else
        self->v1 = wm_cuda_v1_new (api, net, spec, &chosen, &info, error);
    if (!self->v1 && !self->windows)
        wm_cuda_destroy (&self);
    else {
        snprintf (version, sizeof version, "v%u", self->version);
        wm_cuda_sign (self->signature, &info, config->precision, version);
    }
    return self;
}

void wm_cuda_destroy (wm_cuda_t **self_p)
{
    wm_cuda_t *self = *self_p;
    if (self) {
        wm_cuda_v1_destroy (&self->v1);
        wm_cuda_windows_destroy (&self->windows);
        free (self);
        *self_p = NULL;
    }
}

/* Ends the engine with the first error's text, which later calls repeat.  */
static wm_fault_t fail (wm_cuda_t *self, wm_gpu_text_t text, wm_error_t *error)
{
    if (!self->failed)
        snprintf (self->failure, sizeof self->failure, "%s", text);
    self->failed = true;
    return wm_fault (error, WM_EHOST,
                     "the GPU failed, %s; scores of this batch are dropped, and this process must "
                     "end: a GPU that failed gives nothing right until it is opened again",
                     self->failure);
}

wm_fault_t wm_cuda_score_many (wm_cuda_t *self, uint32_t n, const wm_batch_t *const *batch,
                               float *const *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    wm_gpu_text_t text = NULL;
    wm_fault_t fault = WM_OK;
    if (self->failed)
        return fail (self, "", error);
    if (self->windows)
        fault = wm_cuda_windows_score (self->windows, n, batch, scores, progress, &text, error);
    for (uint32_t i = 0; self->v1 && i < n && !fault && !text; i++)
        fault = wm_cuda_v1_score (self->v1, batch[i], scores[i], progress, &text, error);
    return text ? fail (self, text, error) : fault;
}

wm_fault_t wm_cuda_lend (wm_cuda_t *self, const void *memory, size_t bytes, wm_error_t *error)
{
    wm_gpu_text_t text = self->v1 ? wm_cuda_v1_lend (self->v1, memory, bytes)
                                  : wm_cuda_windows_lend (self->windows, memory, bytes);
    return text ? wm_fault (error, WM_EHOST, "%s", text) : WM_OK;
}

wm_fault_t wm_cuda_score (wm_cuda_t *self, const wm_batch_t *batch, float *scores,
                          _Atomic uint64_t *progress, wm_error_t *error)
{
    return wm_cuda_score_many (self, 1, &batch, &scores, progress, error);
}

uint32_t wm_cuda_fill (const wm_cuda_t *self)
{
    return self->windows ? wm_cuda_windows_fill (self->windows) : 0;
}

const char *wm_cuda_signature (const wm_cuda_t *self)
{
    return self->signature;
}

const char *wm_cuda_choice (const wm_cuda_t *self)
{
    return self->v1 ? wm_cuda_v1_choice (self->v1) : wm_cuda_windows_choice (self->windows);
}

uint32_t wm_cuda_version (const wm_cuda_t *self)
{
    return self->version;
}

double wm_cuda_residual (const wm_cuda_t *self, double *allowed)
{
    *allowed = 0;
    return self->windows ? wm_cuda_windows_residual (self->windows, allowed) : 0;
}

void wm_cuda_times (wm_cuda_t *self, double ms[WM_CUDA_STAGES])
{
    if (self->v1)
        wm_cuda_v1_times (self->v1, ms);
    else
        wm_cuda_windows_times (self->windows, ms);
}
