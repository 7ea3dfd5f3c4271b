/* wm_cuda_base.c - what all CUDA engines begin, call and end with.  */
#include "kernels/cuda/wm_cuda_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

wm_gpu_text_t wm_cuda_both_new (const wm_gpu_api_t *api, void *gpu, void *h_p, void *d_p,
                                size_t bytes)
{
    void *p = NULL;
    wm_gpu_text_t text = h_p ? api->pinned_new (gpu, &p, bytes) : NULL;
    if (!text && h_p)
        memcpy (h_p, &p, sizeof p); /* it is a float **, a uint32_t ** ... */
    if (!text && d_p)
        text = api->device_new (gpu, &p, bytes);
    if (!text && d_p)
        memcpy (d_p, &p, sizeof p);
    return text;
}

bool wm_cuda_stands (wm_error_t *fault, wm_gpu_text_t text, wm_error_t *error)
{
    if (text)
        wm_fault (fault, WM_EHOST,
                  "the cuda engine cannot start: %s; --device cpu computes on the CPU", text);
    if (fault->fault && error)
        *error = *fault;
    return !fault->fault;
}

void wm_cuda_sign (char signature[64], const wm_gpu_info_t *info, wm_gpu_precision_t precision,
                   const char *version)
{
    static const char *const name[] = { "fp32", "tf32", "fp16", "fp16x3" };
    char device[20];
    snprintf (device, sizeof device, "%.18s",
              info->device + (strncmp (info->device, "NVIDIA ", 7) == 0 ? 7 : 0));
    for (char *c = device; *c; c++)
        if (*c == ' ' || *c == '/')
            *c = '-';
    snprintf (signature, 64, "cuda/%s/sm_%d%d/%s/%s/%.20s", device, info->major, info->minor,
              name[precision], version, info->libraries);
}

wm_fault_t wm_cuda_score_jobs (void *engine, wm_cuda_submit_fn *submit, wm_cuda_collect_fn *collect,
                               uint32_t n, const wm_batch_t *const *batch, float *const *scores,
                               _Atomic uint64_t *progress, wm_error_t *error)
{
    wm_job_t *job = calloc (n ? n : 1, sizeof *job), **job_p = calloc (n ? n : 1, sizeof *job_p);
    uint32_t n_job = 0;
    wm_fault_t fault = job && job_p ? WM_OK : wm_fault (error, WM_EHOST, "no memory for jobs");
    for (uint32_t i = 0; i < n && !fault; i++)
        if (batch[i]->n_hit > 0) {
            job[n_job] = (wm_job_t){ .batch = batch[i],
                                     .scores = scores[i],
                                     .n_left = batch[i]->n_hit,
                                     .progress = progress };
            job_p[n_job] = &job[n_job];
            n_job++;
        }
    if (!fault)
        fault = submit (engine, n_job, job_p, error);
    for (wm_job_t *done = job; done && !fault;)
        fault = collect (engine, &done, error);
    for (uint32_t i = 0; i < n_job && !fault; i++)
        if ((fault = job[i].error.fault) != WM_OK && error)
            *error = job[i].error;
    free (job);
    free (job_p);
    return fault;
}
