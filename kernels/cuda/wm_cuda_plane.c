/* wm_cuda_plane.c - a plane on the device.

   The host decides where everything lies, the device fills it: first the zero level, then the runs
   (full view) or the bins of each phase and the patches that are no window (own view). One copy
   carries the columns of the runs and of those patches, one after another; columns of a batch that
   lies in pinned memory are copied from there.  */
#include "kernels/cuda/wm_cuda_plane.h"
#include "kernels/cuda/wm_cuda_base.h"
#include "kernels/cuda/wm_gpu_args.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 256u
/* Words of a batch's columns: 12 bytes a run, 4 a value and 8 a hit are at most WM_RAW_BYTES_MAX,
   and a hit whose patch is cut takes three words instead of two.  */
#define WORDS_MAX (WM_RAW_BYTES_MAX / 4 / 2 * 3 + 1)
#define HITS_MAX (WM_RAW_BYTES_MAX / 8)

struct wm_cuda_plane_t {
    const wm_gpu_api_t *api;
    void *gpu;
    wm_spec_t spec;
    uint32_t cells_max;
    uint32_t *h_words, *d_words, *offset;
    const char *lent; /* pinned memory of others */
    size_t lent_bytes;
    float *d_image;

    uint32_t n_image, n_row, n_col; /* of one image; full view has one */
    uint32_t rows;                  /* of all images and the patches below */
    uint32_t n_cut;
    uint8_t image_of[WM_GPU_PHASES_MAX]; /* of a phase; n_image: none */
};

static wm_gpu_text_t make (wm_cuda_plane_t *self)
{
    wm_gpu_text_t text = wm_cuda_both_new (self->api, self->gpu, &self->h_words, &self->d_words,
                                           WORDS_MAX * sizeof (uint32_t));
    return text ? text
                : wm_cuda_both_new (self->api, self->gpu, NULL, &self->d_image,
                                    self->cells_max * sizeof (float));
}

size_t wm_cuda_plane_bytes (uint32_t cells_max)
{
    return WORDS_MAX * sizeof (uint32_t) + cells_max * sizeof (float);
}

wm_cuda_plane_t *wm_cuda_plane_new (const wm_gpu_api_t *api, void *gpu, const wm_spec_t *spec,
                                    uint32_t cells_max, wm_gpu_text_t *text)
{
    wm_cuda_plane_t *self = calloc (1, sizeof *self);
    *text = NULL;
    if (self) {
        self->api = api, self->gpu = gpu, self->spec = *spec, self->cells_max = cells_max;
        self->offset = malloc (HITS_MAX * sizeof *self->offset);
        *text = self->offset ? make (self) : "no memory for a plane";
        if (*text)
            wm_cuda_plane_destroy (&self);
    }
    return self;
}

void wm_cuda_plane_destroy (wm_cuda_plane_t **self_p)
{
    if (*self_p) {
        free ((*self_p)->offset);
        free (*self_p);
        *self_p = NULL;
    }
}

void wm_cuda_plane_lend (wm_cuda_plane_t *self, const void *h, size_t bytes)
{
    self->lent = h, self->lent_bytes = bytes;
}

const float *wm_cuda_plane_image (const wm_cuda_plane_t *self, uint32_t *n_row, uint32_t *n_col)
{
    *n_row = self->rows, *n_col = self->n_col;
    return self->d_image;
}

const uint32_t *wm_cuda_plane_offset (const wm_cuda_plane_t *self)
{
    return self->offset;
}

/* ---- where everything lies ------------------------------------------------------------------- */

/* First tick of a hit's patch in own view; negative where it is clamped.  */
static int64_t first_tick (const wm_cuda_plane_t *self, const wm_batch_t *batch, uint32_t hit)
{
    return (int64_t) batch->hit_col[hit] - self->spec.drift_window * self->spec.patch_bin / 2;
}

/* Whether a patch that begins at tick d0 is a window of its phase's image. One of an odd number of
   ticks counts the last as 0 ADC.  */
static bool is_window (const wm_cuda_plane_t *self, int64_t d0)
{
    return d0 >= 0 && self->spec.downscale != WM_MAXMEAN &&
           self->spec.drift_window * self->spec.patch_bin % 2 == 0;
}

/* Counts the phases that hits use, and the patches that are cut.  */
static void choose_phases (wm_cuda_plane_t *self, const wm_batch_t *batch)
{
    self->n_image = self->n_cut = 0;
    memset (self->image_of, UINT8_MAX, sizeof self->image_of);
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        int64_t d0 = first_tick (self, batch, i);
        if (!is_window (self, d0))
            self->n_cut++;
        else if (self->image_of[d0 % self->spec.drift_window] == UINT8_MAX)
            self->image_of[d0 % self->spec.drift_window] = (uint8_t) self->n_image++;
    }
}

/* Sets the image's shape. False where it does not fit.  */
static bool shape (wm_cuda_plane_t *self, const wm_batch_t *batch)
{
    const wm_spec_t *spec = &self->spec;
    const bool own = spec->view == WM_OWN_VIEW;
    uint64_t n_row = (uint64_t) batch->n_wire + spec->patch_wire, rows,
             n_col = own ? (uint64_t) batch->n_col / spec->drift_window + 2 + spec->patch_bin
                         : (uint64_t) batch->n_col + 2 * spec->patch_bin;
    if (batch->kind != (own ? WM_BATCH_TICKS : WM_BATCH_BINS) || n_row > self->cells_max ||
        n_col > self->cells_max || batch->n_hit > HITS_MAX)
        return false;
    self->n_image = 1, self->n_cut = 0;
    if (own)
        choose_phases (self, batch);
    uint64_t abreast = n_col / spec->patch_bin;
    rows = self->n_image * n_row + (self->n_cut + abreast - 1) / abreast * spec->patch_wire;
    self->n_row = (uint32_t) n_row, self->n_col = (uint32_t) n_col, self->rows = (uint32_t) rows;
    return rows <= self->cells_max && rows * n_col <= self->cells_max &&
           3 * (uint64_t) batch->n_run + 1 + batch->n_value + 3 * (uint64_t) self->n_cut <=
               WORDS_MAX;
}

/* Where a hit's patch begins in its image, at most in the margin, which is the zero level like all
   behind it.  */
static uint32_t place_window (const wm_cuda_plane_t *self, const wm_batch_t *batch, uint32_t hit)
{
    const int64_t n = self->spec.patch_bin, right = (int64_t) self->n_col - n;
    uint32_t image = 0;
    int64_t col = (int64_t) batch->hit_col[hit] - n / 2 + n;
    if (self->spec.view == WM_OWN_VIEW) {
        int64_t d0 = first_tick (self, batch, hit);
        image = self->image_of[d0 % self->spec.drift_window];
        col = d0 / self->spec.drift_window;
    }
    col = col < 0 ? 0 : col > right ? right : col;
    return (image * self->n_row + batch->hit_wire[hit]) * self->n_col + (uint32_t) col;
}

/* Sets the offsets; the hits that are cut go to wire, col and to (n_cut).  */
static void place (wm_cuda_plane_t *self, const wm_batch_t *batch, uint32_t *wire, uint32_t *col,
                   uint32_t *to)
{
    const bool own = self->spec.view == WM_OWN_VIEW;
    const uint32_t abreast = self->n_col / self->spec.patch_bin;
    uint32_t n = 0;
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        if (!own || is_window (self, first_tick (self, batch, i))) {
            self->offset[i] = place_window (self, batch, i);
            continue;
        }
        uint32_t row = self->n_image * self->n_row + n / abreast * self->spec.patch_wire;
        self->offset[i] = to[n] = row * self->n_col + n % abreast * self->spec.patch_bin;
        wire[n] = batch->hit_wire[i], memcpy (&col[n], &batch->hit_col[i], sizeof *col);
        n++;
    }
    assert (n == self->n_cut);
}

/* ---- the device's work ----------------------------------------------------------------------- */

static wm_gpu_text_t fill (wm_cuda_plane_t *self, void *stream)
{
    wm_gpu_fill_t args = { self->d_image, self->rows * self->n_col, wm_spec_zero (&self->spec) };
    wm_gpu_launch_t launch = { WM_GPU_FILL, (args.count + 4 * THREADS - 1) / (4 * THREADS), THREADS,
                               0, &args };
    CALL (launch, &launch, stream);
    return NULL;
}

/* A warp takes each of `count` items.  */
static wm_gpu_text_t launch_warps (wm_cuda_plane_t *self, wm_gpu_kernel_t kernel, uint32_t count,
                                   const void *args, void *stream)
{
    wm_gpu_launch_t launch = { kernel, (count + THREADS / 32 - 1) / (THREADS / 32), THREADS, 0,
                               args };
    if (count > 0)
        CALL (launch, &launch, stream);
    return NULL;
}

static wm_gpu_text_t scatter (wm_cuda_plane_t *self, const wm_gpu_ticks_t *runs, void *stream)
{
    wm_gpu_scatter_t args = {
        .run_wire = runs->wire,
        .run_first = runs->first,
        .run_value = runs->begin,
        .value = runs->value,
        .image = self->d_image,
        .n_run = runs->n_run,
        .n_col = self->n_col,
        .top = self->spec.patch_wire / 2,
        .left = self->spec.patch_bin,
    };
    return launch_warps (self, WM_GPU_SCATTER, runs->n_run, &args, stream);
}

static wm_gpu_text_t downscale (wm_cuda_plane_t *self, const wm_gpu_ticks_t *runs, uint32_t plane,
                                void *stream)
{
    wm_gpu_phases_t args = {
        .ticks = *runs,
        .scaling = wm_image_scaling (&self->spec, plane),
        .image = self->d_image,
        .n_image = self->n_image,
        .n_row = self->n_row,
        .n_col = self->n_col,
        .top = self->spec.patch_wire / 2,
        .n_bin = self->n_col - self->spec.patch_bin,
        .window = self->spec.drift_window,
        .maxpool = self->spec.downscale == WM_MAXPOOL,
    };
    for (uint32_t phase = 0; phase < self->spec.drift_window; phase++)
        if (self->image_of[phase] != UINT8_MAX)
            args.phase[self->image_of[phase]] = (uint8_t) phase;
    return launch_warps (self, WM_GPU_PHASES, runs->n_run * self->n_image, &args, stream);
}

/* hits: (3, n_cut) on the device: wires, columns, offsets.  */
static wm_gpu_text_t cut (wm_cuda_plane_t *self, const wm_gpu_ticks_t *runs,
                          const wm_batch_t *batch, const uint32_t *d_hits, void *stream)
{
    wm_gpu_cut_t args = {
        .ticks = *runs,
        .scaling = wm_image_scaling (&self->spec, batch->plane),
        .hit_wire = d_hits,
        .hit_col = (const int32_t *) (d_hits + self->n_cut),
        .offset = d_hits + 2 * self->n_cut,
        .image = self->d_image,
        .n_wire = batch->n_wire,
        .height = self->spec.patch_wire,
        .width = self->spec.patch_bin,
        .stride = self->n_col,
        .window = self->spec.drift_window,
        .downscale = self->spec.downscale,
    };
    wm_gpu_launch_t launch = { WM_GPU_CUT, self->n_cut, THREADS, 0, &args };
    if (self->n_cut > 0)
        CALL (launch, &launch, stream);
    return NULL;
}

static bool is_lent (const wm_cuda_plane_t *self, const wm_batch_t *batch)
{
    const char *first = (const char *) batch->run_wire,
               *last = (const char *) (batch->value + batch->n_value);
    return self->lent && batch->run_first == batch->run_wire + batch->n_run && /* side by side */
           (const char *) batch->value >= first && first >= self->lent &&
           last <= self->lent + self->lent_bytes;
}

/* Copies the columns to the device: those made here from h_words, the rest from where they lie.  */
static wm_gpu_text_t copy_columns (wm_cuda_plane_t *self, const wm_batch_t *batch, size_t n_word,
                                   void *stream)
{
    const size_t n_run = batch->n_run, begin = 2 * n_run, value = begin + n_run + 1,
                 hits = value + batch->n_value, word = sizeof (uint32_t);
    if (!is_lent (self, batch)) {
        memcpy (self->h_words, batch->run_wire, n_run * word);
        memcpy (self->h_words + n_run, batch->run_first, n_run * word);
        memcpy (self->h_words + value, batch->value, batch->n_value * word);
        CALL (copy_in, self->d_words, self->h_words, n_word * word, stream);
        return NULL;
    }
    if (n_run > 0)
        CALL (copy_in, self->d_words, batch->run_wire, begin * word, stream);
    CALL (copy_in, self->d_words + begin, self->h_words + begin, (n_run + 1) * word, stream);
    if (batch->n_value > 0)
        CALL (copy_in, self->d_words + value, batch->value, batch->n_value * word, stream);
    if (n_word > hits)
        CALL (copy_in, self->d_words + hits, self->h_words + hits, (n_word - hits) * word, stream);
    return NULL;
}

wm_gpu_text_t wm_cuda_plane_load (wm_cuda_plane_t *self, const wm_batch_t *batch, void *stream,
                                  bool *laid)
{
    if (!(*laid = shape (self, batch)))
        return NULL;
    const size_t n_run = batch->n_run, begin = 2 * n_run, value = begin + n_run + 1,
                 hits = value + batch->n_value;
    self->h_words[begin] = 0;
    for (uint32_t r = 0; r < n_run; r++)
        self->h_words[begin + r + 1] = self->h_words[begin + r] + batch->run_length[r];
    uint32_t *h_hits = self->h_words + hits;
    place (self, batch, h_hits, h_hits + self->n_cut, h_hits + 2 * (size_t) self->n_cut);
    wm_gpu_text_t text = copy_columns (self, batch, hits + 3 * (size_t) self->n_cut, stream);
    const wm_gpu_ticks_t runs = { self->d_words, self->d_words + n_run, self->d_words + begin,
                                  (const float *) (const void *) (self->d_words + value),
                                  batch->n_run };
    if (!text)
        text = fill (self, stream);
    if (!text && self->spec.view != WM_OWN_VIEW)
        return scatter (self, &runs, stream);
    if (!text)
        text = downscale (self, &runs, batch->plane, stream);
    return text ? text : cut (self, &runs, batch, self->d_words + hits, stream);
}
