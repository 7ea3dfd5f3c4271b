/* wm_cuda_base.h - what all CUDA engines begin, call and end with. Private to kernels/cuda/.  */
#ifndef WM_CUDA_BASE_H
#define WM_CUDA_BASE_H

#include "kernels/gpu/wm_cuda.h"
#include "kernels/patch/wm_image.h"
#include "kernels/wm_jobs.h"

#define WM_CUDA_WORKSPACE_MAX                                                                      \
    (512u << 20) /* of cuDNN's algorithm; one that asks for more is not taken */

#define WM_CUDA_SLOTS_MAX 3u

/* What every engine has: its own struct begins with one, called `base`.

   Slots are a ring. Each has memory and a stream, and is in one of three states:
     free   its memory belongs to the host
     open   hits are in it, or will be at once; only the current slot is ever open
     busy   (wm_cuda_start) the device works; the host touches none of its memory until it has
            waited (wm_cuda_free), which gives out the scores
   The current slot is started when it has no room, or when nothing computes: so a GPU that has
   nothing to do begins at once with little, and while it computes the next slots are filled.  */
struct wm_cuda_t {
    const wm_gpu_api_t *api;
    void *gpu;
    wm_gpu_info_t info;
    uint32_t fill;            /* as wm_cuda_fill */
    uint32_t n_slot, current; /* the next slot is the oldest, if it is busy */
    bool open, busy[WM_CUDA_SLOTS_MAX];
    uint64_t launches; /* slots started so far */
    const char *lent;  /* the caller's pinned memory: the device copies from there */
    size_t lent_bytes;
    wm_jobs_t finished; /* scored or refused */
    char signature[64], choice[200], failure[300];

    /* The engine's functions. submit as wm_cuda_submit: puts jobs into slots. start: queues a
       slot's work. complete: waits for it, and copies its scores to their jobs. clear frees what
       is neither the GPU's nor here.  */
    wm_gpu_text_t (*submit) (wm_cuda_t *self, uint32_t n, wm_job_t *const *job);
    wm_gpu_text_t (*start) (wm_cuda_t *self, uint32_t slot);
    wm_gpu_text_t (*complete) (wm_cuda_t *self, uint32_t slot);
    void (*clear) (wm_cuda_t *self);
};

/* Starts the current slot, which is open; the next one becomes current.  */
wm_gpu_text_t wm_cuda_start (wm_cuda_t *self);

/* Makes the current slot free, if it is busy.  */
wm_gpu_text_t wm_cuda_free (wm_cuda_t *self);

/* Returns where the device is to copy `n` patches of n_value values from: where they lie, if that
   is in the memory that was lent; else `own`, pinned, which they are copied to, or cut to out of
   the plane that `cutter` has loaded.  */
const float *wm_cuda_patches (const wm_cuda_t *self, wm_plane_t *cutter, const wm_batch_t *batch,
                              uint32_t first, uint32_t n, size_t n_value, float *own);

/* The function returns the error's text if this call failed.  */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        wm_gpu_text_t text_ = (call);                                                              \
        if (text_)                                                                                 \
            return text_;                                                                          \
    } while (0)

/* The same for a call of the table, by the `base` of `self`.  */
#define CALL(function, ...) TRY (self->base.api->function (self->base.gpu, __VA_ARGS__))

/* The same for memory on the host (pinned), on the device, or both: h_p and d_p are addresses of
   pointers of any type, or NULL.  */
#define BOTH_NEW(h_p, d_p, bytes)                                                                  \
    TRY (wm_cuda_both_new (self->base.api, self->base.gpu, h_p, d_p, bytes))
wm_gpu_text_t wm_cuda_both_new (const wm_gpu_api_t *api, void *gpu, void *h_p, void *d_p,
                                size_t bytes);

/* Whether an engine was made: no fault, and no error of the GPU (`text`). Else *error is set.  */
bool wm_cuda_stands (wm_error_t *fault, wm_gpu_text_t text, wm_error_t *error);

/* Sets the signature.  */
void wm_cuda_sign (wm_cuda_t *self, wm_gpu_precision_t precision, const char *version);

#endif
