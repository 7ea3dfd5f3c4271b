/* wm_image.h - from waveforms to images to patches: downscale, scale, cut.

   Producers make the runs of a batch from waveforms, engines make patches from runs. The definition
   is LArSoft's (larreco DataProviderAlg, larrecodnn PointIdAlg), restated:

   Full view: image[wire][tick / W], downscaled (mean, maxpool, maxmean of adc x lifetime factor)
   and scaled; the patch of a hit in (wire w, bin b) is rows w-h/2 .., columns b-n/2 .. , Z outside.
   Own view: ticks d0 = max(0, t - W n/2) .. are cut first, ticks from d1 = t + W n/2 on (after a
   clamp) and past the readout count 0 ADC, then downscaled and scaled inside the patch; Z must be
   0.

   A PLANE batch carries, full view: the scaled bins that differ from Z (kind BINS, n_col = bins);
   own view: adc x lifetime factor of the ticks that differ from 0, as float32 (kind TICKS,
   n_col = ticks). wm_image_downscale_range and wm_image_touched serve a producer that copies the
   regions of interest of one wire into a zeroed row of n_tick floats, downscales the touched bins
   region by region, and zeroes the regions again.

   All images are float32, row-major (n_wire, n_col). Sums are taken in double. A non-finite sample
   makes every bin it enters non-finite, in every mode.
   Thread: any, one at a time per object; memory is the caller's unless stated.  */
#ifndef WM_IMAGE_H
#define WM_IMAGE_H

#include "kernels/patch/wm_spec.h"
#include "schema/wm_batch.h"

#include <stdbool.h>

/* ---- waveforms to images (the producer's side) ----------------------------------------------- */

/* Returns the columns of the plane that a batch carries: n_tick / W in full view, n_tick in own
   view.  */
uint32_t wm_image_n_col (const wm_spec_t *spec, uint32_t n_tick);

/* Returns the kind of the batches that planes become.  */
static inline wm_batch_kind_t wm_image_kind (const wm_spec_t *spec)
{
    return spec->n_channel > 1          ? WM_BATCH_STACK
           : spec->view == WM_FULL_VIEW ? WM_BATCH_BINS
                                        : WM_BATCH_TICKS;
}

/* Returns the column of a hit at `time` (ticks): (int)((float) time / W) in full view, (int) time
   in own view; may lie outside the plane. time: finite and within +-2^30, which the caller has
   checked.  */
int32_t wm_image_col (const wm_spec_t *spec, float time);

/* Fills in f(t) = exp (((t - trigger_offset) tick_us - t0_us) / tau_us), t = first_tick ..
   first_tick + n_tick - 1, kept as float32.  */
void wm_image_lifetime (double tau_us, double t0_us, double tick_us, double trigger_offset,
                        uint64_t first_tick, uint32_t n_tick, float *factor);

/* Fills in the bins [*bin_first, *bin_last) that the ticks [first, last) of a wire enter: with
   maxmean one more on either side. Both are at most n_tick / W: ticks after the last whole
   bin enter no bin, but for the first of them as a neighbour.  */
void wm_image_touched (const wm_spec_t *spec, uint32_t n_tick, uint32_t first, uint32_t last,
                       uint32_t *bin_first, uint32_t *bin_last);

/* Downscales one waveform of one wire: adc (n_tick) times the lifetime factor (n_tick; NULL = 1),
   to n_tick / W bins, and scales them for `plane`. bins: (n_tick / W).  */
void wm_image_downscale (const wm_spec_t *spec, uint32_t plane, const float *adc,
                         const float *factor, uint32_t n_tick, float *bins);

/* Bins [bin_first, bin_last) of the same; bins: (bin_last - bin_first), bins[0] is bin_first.
   bin_last <= n_tick / W.  */
void wm_image_downscale_range (const wm_spec_t *spec, uint32_t plane, const float *adc,
                               const float *factor, uint32_t n_tick, uint32_t bin_first,
                               uint32_t bin_last, float *bins);

/* The scaling of a downscaled adc to a pixel of `plane`, in double:
     v = adc amplitude;  pixel = (float) (zero + slope clamped (v) + 0 v)
   evaluated in this order; kernels/cuda/ does the same, with the same bits.  */
typedef struct {
    double zero, slope, amplitude, adc_min, adc_max;
} wm_image_scaling_t;
wm_image_scaling_t wm_image_scaling (const wm_spec_t *spec, uint32_t plane);

/* Returns the pixel of a downscaled adc. Non-finite in, non-finite out.  */
float wm_image_scale (const wm_spec_t *spec, uint32_t plane, double adc);

/* Returns whether the patch of a hit in (hit_wire, hit_col) reads the cell (wire, col) of the plane
   that its batch carries. If that cell is not finite, the hit is held.  */
bool wm_image_covers (const wm_spec_t *spec, uint32_t hit_wire, int32_t hit_col, uint32_t wire,
                      uint32_t col);

/* ---- images to patches (the engines' side) --------------------------------------------------- */

/* Cuts the patch of one hit of a PLANE batch by the definition, directly from the runs; slow, and
   the reference for everything faster. patch: (patch_wire, patch_bin), of a STACK (n_channel,
   patch_wire, patch_bin), or with channels_last (patch_wire, patch_bin, n_channel).  */
void wm_image_patch_reference (const wm_spec_t *spec, const wm_batch_t *batch, uint32_t hit,
                               float *patch);

/* A plane laid out densely with margins, from which patches are cut fast
   (kernels/patch/wm_plane.c). Full view: one image. Own view: one image per phase d0 mod W that its
   hits use, since a patch that is not clamped is an exact window of its phase's image.  */
typedef struct wm_plane_t wm_plane_t;
wm_plane_t *wm_plane_new (const wm_spec_t *spec);
void wm_plane_destroy (wm_plane_t **self_p);

/* Lays out the runs of `batch` (BINS, TICKS or STACK), reusing memory. It is lent until the next
   load. WM_EBATCH: the wrong kind for the specification's view, or a plane of more than 2^28 cells;
   WM_EAGAIN without memory.  */
wm_fault_t wm_plane_load (wm_plane_t *self, const wm_batch_t *batch, wm_error_t *error);

/* Cuts the patches of hits first .. first+count-1 to `patches`, (count) times a patch as above.  */
void wm_plane_cut (wm_plane_t *self, uint32_t first, uint32_t count, float *patches);

/* For engines that share work between patches: the images of the loaded plane, row-major without
   gaps, their margins (Z) included.  */
uint32_t wm_plane_n_image (const wm_plane_t *self);
const float *wm_plane_image (const wm_plane_t *self, uint32_t image, uint32_t *n_row,
                             uint32_t *n_col);

/* Fills in where a hit's patch lies. true: it is rows row.. and columns col.. of an image; false:
   it is no window of an image (own view: clamped at tick 0, or maxmean; a patch of several
   channels) and must be cut.  */
bool wm_plane_place (const wm_plane_t *self, uint32_t hit, uint32_t *image, uint32_t *row,
                     uint32_t *col);

#endif
