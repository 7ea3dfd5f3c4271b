/* wm_cuda_plane.h - a plane on the device: from the runs of a batch to one image there.

   Full view: the bins with margins of the zero level, as wm_plane.c lays them out. Own view: the
   images of the phases that its hits use, one above the other, and below them, side by side, the
   patches that are no window of one (clamped at tick 0; all of them with maxmean). So in either
   view the patch of every hit is patch_wire rows of patch_bin values of one image, from its offset
   on, n_col apart, equal bit for bit to what wm_plane_cut cuts on the host.

   Thread: one. Between two loads the stream of the first must be idle.  */
#ifndef WM_CUDA_PLANE_H
#define WM_CUDA_PLANE_H

#include "kernels/cuda/wm_gpu_api.h"
#include "kernels/wm_image.h"

typedef struct wm_cuda_plane_t wm_cuda_plane_t;

/* `api` and its opened `gpu`, which owns the memory, and `spec` are lent. cells_max: of the image.
   NULL without host memory, or with *text.  */
wm_cuda_plane_t *wm_cuda_plane_new (const wm_gpu_api_t *api, void *gpu, const wm_spec_t *spec,
                                    uint32_t cells_max, wm_gpu_text_t *text);
void wm_cuda_plane_destroy (wm_cuda_plane_t **self_p);
size_t wm_cuda_plane_bytes (uint32_t cells_max); /* of device memory */

/* Names pinned memory: the columns of batches in it are copied to the device from there.  */
void wm_cuda_plane_lend (wm_cuda_plane_t *self, const void *h, size_t bytes);

/* Copies the runs and lays them out, on `stream`; the batch must not change until the stream has
   passed the copies. Sets *laid to false and does nothing where the batch is too large for the
   device, or no plane of the specification's view: the host then cuts its patches.  */
wm_gpu_text_t wm_cuda_plane_load (wm_cuda_plane_t *self, const wm_batch_t *batch, void *stream,
                                  bool *laid);

/* Of the last batch that was laid: its image on the device, and the first value of each hit's patch
   in it (n_hit), which is host memory.  */
const float *wm_cuda_plane_image (const wm_cuda_plane_t *self, uint32_t *n_row, uint32_t *n_col);
const uint32_t *wm_cuda_plane_offset (const wm_cuda_plane_t *self);

#endif
