/* wm_cuda_base.c - what all CUDA engines begin, call and end with.  */
#include "kernels/cuda/wm_cuda_base.h"

#include <stdio.h>
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
                  "the cuda engine cannot start: %s; --engine auto computes on the CPU", text);
    if (fault->fault && error)
        *error = *fault;
    return !fault->fault;
}

void wm_cuda_sign (char signature[64], const wm_gpu_info_t *info, wm_gpu_precision_t precision,
                   const char *version)
{
    static const char *const name[] = { "fp32", "tf32", "fp16" };
    char device[20];
    snprintf (device, sizeof device, "%.18s",
              info->device + (strncmp (info->device, "NVIDIA ", 7) == 0 ? 7 : 0));
    for (char *c = device; *c; c++)
        if (*c == ' ' || *c == '/')
            *c = '-';
    snprintf (signature, 64, "cuda/%s/sm_%d%d/%s/%s/%.20s", device, info->major, info->minor,
              name[precision], version, info->libraries);
}
