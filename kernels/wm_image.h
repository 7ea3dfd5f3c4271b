/* wm_image.h - from waveforms to images to patches: downscale, scale, cut.

   Used by the producer (waveforms to the runs of a batch) and by whoever scores a batch (runs to
   patches). The definition is LArSoft's (larreco DataProviderAlg, larrecodnn PointIdAlg), restated:

   Full view: image[wire][tick / W], downscaled (mean, maxpool, maxmean of adc x lifetime factor)
   and scaled; the patch of a hit in (wire w, bin b) is rows w-h/2 .., columns b-n/2 .. , Z outside.
   Own view: ticks d0 = max(0, t - W n/2) .. are cut first, ticks from d1 = t + W n/2 on (after a
   clamp) and past the readout count 0 ADC, then downscaled and scaled inside the patch; Z must be 0.

   All images are float32, row-major (n_wire, n_col). Sums are taken in double.
   Thread: any, one at a time per object; all memory is the caller's unless said.  */
#ifndef WM_IMAGE_H
#define WM_IMAGE_H

#include "kernels/wm_spec.h"
#include "schema/wm_batch.h"

/* One waveform of one wire: ticks 0..n_tick-1 of adc, times the lifetime factor (n_tick; NULL = 1),
   downscaled to n_tick / W bins and scaled for `plane`.  */
void wm_image_downscale (const wm_spec_t *spec, uint32_t plane, const float *adc,
                         const float *factor, uint32_t n_tick, float *bins);


/* Scaled value of a downscaled adc: amplitude, clamp, scale. Non-finite in, non-finite out.  */
float wm_image_scale (const wm_spec_t *spec, uint32_t plane, double adc);

/* The patch of one hit of a PLANE batch by the plain definition, straight from the runs; slow, the
   judge of everything faster. patch: (patch_wire, patch_bin).  */
void wm_image_patch_reference (const wm_spec_t *spec, const wm_batch_t *batch, uint32_t hit,
                               float *patch);

/* A plane laid out densely with margins, from which patches are cut fast.  */
typedef struct wm_plane_t wm_plane_t;
wm_plane_t *wm_plane_new (const wm_spec_t *spec);
void wm_plane_destroy (wm_plane_t **self_p);

/* Lays out the runs of `batch` (BINS or TICKS), reusing memory. The batch is lent until the next
   load. WM_EHOST without memory.  */
wm_fault_t wm_plane_load (wm_plane_t *self, const wm_batch_t *batch, wm_error_t *error);

/* Cuts the patches of hits first .. first+count-1 to `patches` (count, patch_wire, patch_bin). */
void wm_plane_cut (wm_plane_t *self, uint32_t first, uint32_t count, float *patches);

#endif
