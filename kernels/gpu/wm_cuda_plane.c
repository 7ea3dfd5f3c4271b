/* wm_cuda_plane.c - planes on the device.

   The host decides where everything lies, the device fills it: the runs (full view), or the bins of
   each phase and the patches that are no window (own view). All else holds the zero level: the
   whole image is filled with it once, and what a load writes becomes it again before the next one,
   while its runs are still there. Runs are a few percent of a plane. One copy carries the columns
   of the runs and of those patches, one after another. The runs of stacked planes become those of
   one plane: their wires count from the first plane's top.  */
#include "kernels/gpu/wm_cuda_plane.h"
#include "kernels/gpu/wm_cuda_base.h"
#include "kernels/gpu/wm_gpu_args.h"
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
    struct {
        const wm_gpu_api_t *api;
        void *gpu;
    } base; /* the engine's */
    wm_spec_t spec;
    uint32_t cells_max;
    struct {
        uint32_t *h_words;
        void *copied; /* event behind its last copy */
    } buffer[WM_PLANE_BUFFERS];
    uint32_t n_load;
    uint32_t *h_words; /* of the load at work */
    uint32_t *d_words, *offset;
    float *d_image;

    uint32_t n_image, n_row, n_col; /* of one image; full view has one */
    uint32_t rows;                  /* of all images and the patches below */
    uint32_t n_cut;
    uint32_t n_run, n_value;             /* of all planes */
    uint8_t image_of[WM_GPU_PHASES_MAX]; /* of a phase; n_image: none */

    /* What the last load wrote.  */
    bool filled; /* the zero level is everywhere else */
    wm_gpu_scatter_t scattered;
    wm_gpu_phases_t downscaled;
    wm_gpu_fill_t cut;
};

static wm_gpu_text_t make (wm_cuda_plane_t *self)
{
    const size_t bytes = WORDS_MAX * sizeof (uint32_t);
    BOTH_NEW (NULL, &self->d_words, bytes);
    BOTH_NEW (NULL, &self->d_image, self->cells_max * sizeof (float));
    for (uint32_t i = 0; i < WM_PLANE_BUFFERS; i++) {
        CALL (event_new, &self->buffer[i].copied, false);
        BOTH_NEW (&self->buffer[i].h_words, NULL, bytes);
    }
    return NULL;
}

size_t wm_cuda_plane_bytes (uint32_t cells_max)
{
    return WORDS_MAX * sizeof (uint32_t) + cells_max * sizeof (float);
}

wm_gpu_text_t wm_cuda_plane_new (wm_cuda_plane_t **self_p, const wm_gpu_api_t *api, void *gpu,
                                 const wm_spec_t *spec, uint32_t cells_max)
{
    wm_cuda_plane_t *self = *self_p = calloc (1, sizeof *self);
    if (!self || !(self->offset = malloc (HITS_MAX * sizeof *self->offset)))
        return "no memory for a plane";
    self->base.api = api, self->base.gpu = gpu;
    self->spec = *spec, self->cells_max = cells_max;
    return make (self);
}

void wm_cuda_plane_destroy (wm_cuda_plane_t **self_p)
{
    if (*self_p) {
        free ((*self_p)->offset);
        free (*self_p);
        *self_p = NULL;
    }
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

/* Sets the shape of the image of a plane in own view. False where it does not fit.  */
static bool shape_own (wm_cuda_plane_t *self, const wm_batch_t *batch)
{
    const wm_spec_t *spec = &self->spec;
    const uint64_t n_row = (uint64_t) batch->n_wire + spec->patch_wire,
                   n_col = (uint64_t) batch->n_col / spec->drift_window + 2 + spec->patch_bin;
    if (batch->kind != WM_BATCH_TICKS || wm_image_kind (spec) != WM_BATCH_TICKS ||
        n_row > self->cells_max || n_col > self->cells_max || batch->n_hit > HITS_MAX)
        return false;
    choose_phases (self, batch);
    const uint64_t abreast = n_col / spec->patch_bin,
                   rows = self->n_image * n_row +
                          (self->n_cut + abreast - 1) / abreast * spec->patch_wire;
    self->n_row = (uint32_t) n_row, self->n_col = (uint32_t) n_col, self->rows = (uint32_t) rows;
    self->n_run = batch->n_run, self->n_value = batch->n_value;
    return rows <= self->cells_max && rows * n_col <= self->cells_max &&
           3 * (uint64_t) batch->n_run + 1 + batch->n_value + 3 * (uint64_t) self->n_cut <=
               WORDS_MAX;
}

/* Whether a batch is what the specification makes of planes in full view.  */
static bool is_full (const wm_spec_t *spec, const wm_batch_t *batch)
{
    return batch->kind == wm_image_kind (spec) && batch->kind != WM_BATCH_TICKS &&
           (batch->kind == WM_BATCH_BINS || batch->n_cell == spec->n_channel);
}

/* Sets the shape of the image of planes of one width in full view. Returns how many fit.  */
static uint32_t shape_full (wm_cuda_plane_t *self, uint32_t n, const wm_batch_t *const *batch)
{
    const wm_spec_t *spec = &self->spec;
    uint64_t rows = 0, n_col = 0, n_run = 0, n_value = 0, n_hit = 0;
    uint32_t b = 0;
    for (; b < n && b < WM_PLANES_MAX && is_full (spec, batch[b]); b++) {
        const uint64_t wide = (uint64_t) batch[b]->n_col + 2 * spec->patch_bin;
        rows += (uint64_t) batch[b]->n_wire + spec->patch_wire;
        n_run += batch[b]->n_run, n_value += batch[b]->n_value;
        n_hit += batch[b]->n_hit * wm_batch_cells (batch[b]);
        if ((b > 0 && wide != n_col) || rows > self->cells_max || wide > self->cells_max ||
            rows * wide > self->cells_max || n_hit > HITS_MAX ||
            3 * n_run + 1 + n_value > WORDS_MAX)
            break;
        n_col = wide;
        self->n_run = (uint32_t) n_run, self->n_value = (uint32_t) n_value;
        self->rows = (uint32_t) rows;
    }
    self->n_image = 1, self->n_cut = 0;
    self->n_row = self->rows, self->n_col = (uint32_t) n_col;
    return b;
}

/* Where a hit's patch begins in its image, at most in the margin, which is the zero level like all
   behind it. top: row of its plane's first.  */
static uint32_t place_window (const wm_cuda_plane_t *self, const wm_batch_t *batch, uint32_t top,
                              uint32_t hit)
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
    return (image * self->n_row + top + batch->hit_wire[hit]) * self->n_col + (uint32_t) col;
}

/* Sets the offsets of stacked planes.  */
static void place_full (wm_cuda_plane_t *self, uint32_t n, const wm_batch_t *const *batch)
{
    uint32_t *offset = self->offset, top = 0;
    for (uint32_t b = 0; b < n; top += batch[b++]->n_wire + self->spec.patch_wire)
        for (uint32_t i = 0; i < batch[b]->n_hit * wm_batch_cells (batch[b]); i++)
            *offset++ = place_window (self, batch[b], top, i);
}

/* Sets the offsets in own view; the hits that are cut go to wire, col and to (n_cut).  */
static void place_own (wm_cuda_plane_t *self, const wm_batch_t *batch, uint32_t *wire,
                       uint32_t *col, uint32_t *to)
{
    const uint32_t abreast = self->n_col / self->spec.patch_bin;
    uint32_t n = 0;
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        if (is_window (self, first_tick (self, batch, i))) {
            self->offset[i] = place_window (self, batch, 0, i);
            continue;
        }
        uint32_t row = self->n_image * self->n_row + n / abreast * self->spec.patch_wire;
        self->offset[i] = to[n] = row * self->n_col + n % abreast * self->spec.patch_bin;
        wire[n] = batch->hit_wire[i], memcpy (&col[n], &batch->hit_col[i], sizeof *col);
        n++;
    }
    assert (n == self->n_cut);
}

/* Gathers the runs of n planes: wires, first cells, where their values begin, values.  */
static void gather_runs (wm_cuda_plane_t *self, uint32_t n, const wm_batch_t *const *batch)
{
    uint32_t *wire = self->h_words, *first = wire + self->n_run, *begin = first + self->n_run,
             *value = begin + self->n_run + 1, at = 0, top = 0;
    for (uint32_t b = 0; b < n; top += batch[b++]->n_wire + self->spec.patch_wire) {
        const uint32_t n_run = batch[b]->n_run;
        if (n_run == 0)
            continue; /* its columns may be NULL */
        for (uint32_t r = 0; r < n_run; r++) {
            *wire++ = top + batch[b]->run_wire[r];
            *begin++ = at;
            at += batch[b]->run_length[r];
        }
        memcpy (first, batch[b]->run_first, n_run * sizeof *first);
        memcpy (value, batch[b]->value, batch[b]->n_value * sizeof *value);
        first += n_run, value += batch[b]->n_value;
    }
    *begin = at;
}

/* ---- the device's work ----------------------------------------------------------------------- */

static wm_gpu_text_t fill (wm_cuda_plane_t *self, const wm_gpu_fill_t *args, void *stream)
{
    wm_gpu_launch_t launch = { WM_GPU_FILL, (args->count + 4 * THREADS - 1) / (4 * THREADS),
                               THREADS, 0, args };
    if (args->count > 0)
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
        .zero = wm_spec_zero (&self->spec),
    };
    self->scattered = args;
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
        .zero = wm_spec_zero (&self->spec),
    };
    for (uint32_t phase = 0; phase < self->spec.drift_window; phase++)
        if (self->image_of[phase] != UINT8_MAX)
            args.phase[self->image_of[phase]] = (uint8_t) phase;
    self->downscaled = args;
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
    const uint32_t first = self->n_image * self->n_row;
    self->cut = (wm_gpu_fill_t){ self->d_image + (size_t) first * self->n_col,
                                 (self->rows - first) * self->n_col, wm_spec_zero (&self->spec) };
    if (self->n_cut > 0)
        CALL (launch, &launch, stream);
    return NULL;
}

/* Makes the whole image the zero level; d_words has the runs of the last load.  */
static wm_gpu_text_t clean (wm_cuda_plane_t *self, void *stream)
{
    const wm_gpu_fill_t all = { self->d_image, self->cells_max, wm_spec_zero (&self->spec) };
    wm_gpu_scatter_t *runs = &self->scattered;
    wm_gpu_phases_t *bins = &self->downscaled;
    if (!self->filled)
        TRY (fill (self, &all, stream));
    self->filled = true, runs->value = NULL, bins->clear = 1;
    TRY (launch_warps (self, WM_GPU_SCATTER, runs->n_run, runs, stream));
    TRY (launch_warps (self, WM_GPU_PHASES, bins->ticks.n_run * bins->n_image, bins, stream));
    TRY (fill (self, &self->cut, stream));
    runs->n_run = bins->n_image = self->cut.count = 0;
    return NULL;
}

wm_gpu_text_t wm_cuda_plane_load (wm_cuda_plane_t *self, uint32_t n, const wm_batch_t *const *batch,
                                  void *stream, uint32_t *n_laid)
{
    const bool own = self->spec.view == WM_OWN_VIEW;
    *n_laid = own ? n > 0 && shape_own (self, *batch) : shape_full (self, n, batch);
    if (*n_laid == 0)
        return NULL;
    const size_t n_run = self->n_run, begin = 2 * n_run, value = begin + n_run + 1,
                 hits = value + self->n_value, word = sizeof (uint32_t);
    const uint32_t b = self->n_load++ % WM_PLANE_BUFFERS;
    CALL (event_sync, self->buffer[b].copied);
    self->h_words = self->buffer[b].h_words;
    gather_runs (self, *n_laid, batch);
    uint32_t *h_hits = self->h_words + hits;
    if (own)
        place_own (self, *batch, h_hits, h_hits + self->n_cut, h_hits + 2 * (size_t) self->n_cut);
    else
        place_full (self, *n_laid, batch);
    TRY (clean (self, stream));
    CALL (copy_in, self->d_words, self->h_words, (hits + 3 * (size_t) self->n_cut) * word, stream);
    CALL (event_record, self->buffer[b].copied, stream);
    const wm_gpu_ticks_t runs = { self->d_words, self->d_words + n_run, self->d_words + begin,
                                  (const float *) (const void *) (self->d_words + value),
                                  self->n_run };
    if (!own)
        return scatter (self, &runs, stream);
    TRY (downscale (self, &runs, batch[0]->plane, stream));
    return cut (self, &runs, batch[0], self->d_words + hits, stream);
}

wm_gpu_text_t wm_cuda_plane_load_jobs (wm_cuda_plane_t *self, uint32_t n, wm_job_t *const *job,
                                       void *stream, uint32_t *n_laid)
{
    const wm_batch_t *batch[WM_PLANES_MAX];
    uint32_t n_batch = 0;
    for (; n_batch < n && n_batch < WM_PLANES_MAX; n_batch++)
        batch[n_batch] = job[n_batch]->batch;
    return wm_cuda_plane_load (self, n_batch, batch, stream, n_laid);
}
