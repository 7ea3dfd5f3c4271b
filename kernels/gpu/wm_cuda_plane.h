/* wm_cuda_plane.h - planes on the device: from the runs of batches to one image there.

   Full view: the bins with margins of the zero level, as wm_plane.c lays them out. Own view: the
   images of the phases that its hits use, one above the other, and below them, side by side, the
   patches that are no window of one (clamped at tick 0; all of them with maxmean). So in either
   view the patch of every hit is patch_wire rows of patch_bin values of one image, from its offset
   on, n_col apart, equal bit for bit to what wm_plane_cut cuts on the host.

   A stack of planes (WM_BATCH_STACK) is one plane in full view, with an offset for each cell.

   In full view planes of several batches lie one above the other in that image: one copy, one fill
   and one scatter for all of them. Their columns are gathered in pinned memory, WM_PLANE_BUFFERS
   of them in turn, so that the host waits for a copy only if it is so many loads ahead.

   Thread: one. All loads go to one stream, which also reads the image.  */
#ifndef WM_CUDA_PLANE_H
#define WM_CUDA_PLANE_H

#include "kernels/gpu/wm_gpu_api.h"
#include "kernels/patch/wm_image.h"
#include "kernels/wm_jobs.h"

#define WM_PLANE_BUFFERS 4u
#define WM_PLANES_MAX 64u /* of a load */

typedef struct wm_cuda_plane_t wm_cuda_plane_t;

/* `api` and its opened `gpu`, which owns the memory, and `spec` are lent. cells_max: of the image.
   After an error, too, *self_p is to be destroyed.  */
wm_gpu_text_t wm_cuda_plane_new (wm_cuda_plane_t **self_p, const wm_gpu_api_t *api, void *gpu,
                                 const wm_spec_t *spec, uint32_t cells_max);
void wm_cuda_plane_destroy (wm_cuda_plane_t **self_p);
size_t wm_cuda_plane_bytes (uint32_t cells_max); /* of device memory */

/* Lays out the first batches of n: as many as fit beside each other, *n_laid of them, on `stream`.
   The batches may change when it returns. *n_laid is 0, and nothing is done, where the first one is
   too large for the device, or no plane of the specification's view: the host then cuts its
   patches.  */
wm_gpu_text_t wm_cuda_plane_load (wm_cuda_plane_t *self, uint32_t n, const wm_batch_t *const *batch,
                                  void *stream, uint32_t *n_laid);

/* The same for the batches of n jobs.  */
wm_gpu_text_t wm_cuda_plane_load_jobs (wm_cuda_plane_t *self, uint32_t n, wm_job_t *const *job,
                                       void *stream, uint32_t *n_laid);

/* Of the last load: its image on the device, and the first value of each cell's patch in it, the
   cells of one batch after those of the other, which is host memory.  */
const float *wm_cuda_plane_image (const wm_cuda_plane_t *self, uint32_t *n_row, uint32_t *n_col);
const uint32_t *wm_cuda_plane_offset (const wm_cuda_plane_t *self);

#endif
