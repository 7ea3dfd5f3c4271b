/* wm_cuda_windows_open.c - versions 2 and 3: memory, the convolution's algorithm, the checksum's
   tolerance.  */
#include "kernels/cuda/wm_cuda_windows_private.h"
#include "kernels/cuda/wm_gpu_dense.cuh"
#include "kernels/wm_seed.h"
#include "schema/wm_limits.h"

#include <stdio.h>
#include <stdlib.h>

#define CANDIDATES_MAX 16u
#define HITS_MAX (WM_RAW_BYTES_MAX / 8) /* of a batch */
#define SOURCE_PATCHES 1024u            /* cut on the host, on their way to the device */
#define CALIBRATION 32u                 /* patches that measure the checksum's tolerance */
#define RESIDUALS 4.0
#define LEAST 0x1p-24

/* ---- memory ---------------------------------------------------------------------------------- */

/* Periods of the pattern that tests the convolution: odd, a little less than half a band.  */
static uint32_t period_rows (const wm_cuda_windows_t *self)
{
    return (self->band / 2 - 3) | 1;
}

static uint32_t period_cols (const wm_cuda_windows_t *self)
{
    return (self->pack.dense.n_col / 2 - 3) | 1;
}

static size_t pattern_values (const wm_cuda_windows_t *self)
{
    return (size_t) period_rows (self) * (self->pack.conv.w + period_cols (self));
}

/* Values of the source: patches, or the pattern that tests the convolution.  */
static size_t source_values (const wm_cuda_windows_t *self)
{
    const size_t patches = (size_t) self->source_max * self->n_value,
                 pattern = pattern_values (self);
    return patches > pattern ? patches : pattern;
}

static size_t map_bytes (const wm_cuda_windows_t *self)
{
    return (size_t) self->height * self->pack.dense.n_word * sizeof (uint32_t);
}

static size_t value_bytes (const wm_cuda_windows_t *self)
{
    return (size_t) self->height * self->pack.dense.n_col * self->pack.dense.position_bytes;
}

static size_t partial_bytes (const wm_cuda_windows_t *self)
{
    return (size_t) self->pack.dense.splits * self->hits_max * WM_GPU_SUMS * sizeof (float);
}

/* Device memory beside cuDNN's workspace.  */
static size_t need_bytes (const wm_cuda_windows_t *self)
{
    size_t slot = self->rows_max * sizeof (wm_gpu_row_t) +
                  wm_windows_cells (self) * self->pack.net.each + value_bytes (self) +
                  2 * map_bytes (self) + partial_bytes (self) +
                  self->hits_max * sizeof (float) * (self->pack.tail.n_output + 2);
    size_t source = source_values (self) * sizeof (float);
    uint32_t cells = self->config.cells ? self->config.cells : WM_CUDA_CELLS;
    return WM_WINDOWS_SLOTS * slot + source + self->pack.bytes +
           (self->cutter ? wm_cuda_plane_bytes (cells) : 0);
}

static wm_gpu_text_t both_new (wm_cuda_windows_t *self, void *h_p, void *d_p, size_t bytes)
{
    return wm_cuda_both_new (self->api, self->gpu, h_p, d_p, bytes);
}

static wm_gpu_text_t make_slot (wm_cuda_windows_t *self, wm_windows_slot_t *slot)
{
    const size_t hits = self->hits_max, scores = hits * self->pack.tail.n_output * sizeof (float);
    wm_gpu_text_t text;
    CALL (stream_new, &slot->stream);
    CALL (event_new, &slot->laid, false);
    CALL (event_new, &slot->done, false);
    for (int i = 0; self->config.timed && i <= WM_CUDA_STAGES; i++)
        CALL (event_new, &slot->mark[i], true);
    slot->to = calloc (hits, sizeof *slot->to);
    if (!slot->to)
        return "no memory for a slot";
    if ((text =
             both_new (self, &slot->h_row, &slot->d_row, self->rows_max * sizeof (wm_gpu_row_t))) ||
        (text = both_new (self, NULL, &slot->d_image,
                          wm_windows_cells (self) * self->pack.net.each)) ||
        (text = both_new (self, NULL, &slot->d_value, value_bytes (self))) ||
        (text = both_new (self, NULL, &slot->d_active, map_bytes (self))) ||
        (text = both_new (self, NULL, &slot->d_bad, map_bytes (self))) ||
        (text = both_new (self, &slot->h_hit, &slot->d_hit, hits * sizeof (uint32_t))) ||
        (text = both_new (self, NULL, &slot->d_partial, partial_bytes (self))) ||
        (text = both_new (self, &slot->h_scores, &slot->d_scores, scores)))
        return text;
    return both_new (self, &slot->h_residual, &slot->d_residual, hits * sizeof (float));
}

static wm_gpu_text_t make_load (wm_cuda_windows_t *self)
{
    wm_gpu_text_t text = NULL;
    void *h_block;
    const uint32_t cells = self->config.cells ? self->config.cells : WM_CUDA_CELLS;
    CALL (stream_new, &self->load);
    CALL (event_new, &self->copied, false);
    if ((text = both_new (self, &self->h_source, &self->d_source,
                          source_values (self) * sizeof (float))) ||
        (text = both_new (self, &h_block, &self->d_block, self->pack.bytes)))
        return text;
    wm_cuda_pack_fill (&self->pack, h_block);
    CALL (copy_in, self->d_block, h_block, self->pack.bytes, self->load);
    CALL (stream_sync, self->load);
    self->place = malloc (HITS_MAX * sizeof *self->place);
    self->spare = malloc (HITS_MAX * sizeof *self->spare);
    if (!self->place || !self->spare)
        return "no memory for hits";
    if (self->cutter) {
        self->plane = wm_cuda_plane_new (self->api, self->gpu, &self->spec, cells, &text);
        if (!self->plane && !text)
            return "no memory for a plane";
    }
    return text;
}

/* ---- pinning the convolution ----------------------------------------------------------------- */

static void drop_plan (wm_cuda_windows_t *self)
{
    if (self->conv)
        self->api->conv_destroy (self->gpu, &self->conv);
}

static wm_gpu_text_t make_plan (wm_cuda_windows_t *self, uint32_t candidate, bool *made)
{
    wm_gpu_choice_t choice = { 0 };
    *made = false;
    drop_plan (self);
    CALL (conv_new, &self->pack.conv, candidate, &self->conv, &choice);
    if (!self->conv || choice.workspace_bytes > WM_CUDA_WORKSPACE_MAX)
        return NULL;
    for (uint32_t s = 0; choice.workspace_bytes > self->workspace_bytes && s < WM_WINDOWS_SLOTS;
         s++) {
        wm_gpu_text_t text =
            both_new (self, NULL, &self->slot[s].d_workspace, choice.workspace_bytes);
        if (text)
            return text;
    }
    if (choice.workspace_bytes > self->workspace_bytes)
        self->workspace_bytes = choice.workspace_bytes;
    snprintf (self->choice, sizeof self->choice, "%s; strips of %u x %u, %u hits a block",
              choice.name, self->band, self->pack.conv.w, self->tile);
    *made = true;
    return NULL;
}

/* What one convolution makes.  */
static size_t band_bytes (const wm_cuda_windows_t *self)
{
    return (size_t) self->band * self->pack.dense.n_col * self->pack.dense.position_bytes;
}

/* A band whose cells repeat.  */
static void lay_pattern (wm_cuda_windows_t *self, wm_windows_slot_t *slot, float *h_pattern)
{
    const wm_gpu_conv_t *conv = &self->pack.conv;
    const uint32_t period = period_cols (self), n_col = conv->w + period;
    uint64_t seed = 1;
    for (size_t i = 0; i < pattern_values (self); i++)
        h_pattern[i] = i % n_col < period
                           ? (float) (wm_seed_next (&seed) >> 40) / (float) (1 << 24) /* [0, 1) */
                           : h_pattern[i - period];
    slot->n_row = slot->n_laid = 0;
    for (uint32_t r = 0; r < conv->h; r++)
        wm_windows_add_row (slot, r % period_rows (self) * n_col, r * conv->w, conv->w);
}

/* Whether the convolution of a repeated pattern repeats.  */
static bool repeats (const wm_cuda_windows_t *self, const char *h_value)
{
    const size_t each = self->pack.dense.position_bytes, bytes = self->pack.dense.n_col * each,
                 period = period_cols (self) * each;
    for (uint32_t r = 0; r < self->band; r++) {
        const char *row = h_value + r * bytes, *first = h_value + r % period_rows (self) * bytes;
        if (memcmp (row, first, bytes) != 0 || memcmp (row, row + period, bytes - period) != 0)
            return false;
    }
    return true;
}

static wm_gpu_text_t try_plan (wm_cuda_windows_t *self, float *h_pattern, char *h_value,
                               bool *alike)
{
    wm_windows_slot_t *slot = &self->slot[0];
    wm_gpu_text_t text;
    *alike = true;
    for (int round = 0; round < 2 && *alike; round++) {
        lay_pattern (self, slot, h_pattern);
        self->d_from = self->d_source;
        CALL (copy_in, self->d_source, h_pattern, pattern_values (self) * sizeof (float),
              self->load);
        if ((text = wm_windows_lay (self, slot)))
            return text;
        CALL (stream_sync, self->load);
        if ((text = wm_windows_convolve (self, slot, 1)))
            return text;
        CALL (copy_out, h_value, slot->d_value, band_bytes (self), slot->stream);
        CALL (stream_sync, slot->stream);
        *alike = repeats (self, h_value);
    }
    return NULL;
}

/* Pins the first candidate whose bits do not depend on the place.  */
static wm_gpu_text_t pin (wm_cuda_windows_t *self, bool *found)
{
    const uint32_t first = self->config.conv_candidate;
    float *h_pattern;
    char *h_value;
    wm_gpu_text_t text = both_new (self, &h_pattern, NULL, pattern_values (self) * sizeof (float));
    if (!text)
        text = both_new (self, &h_value, NULL, band_bytes (self));
    *found = false;
    for (uint32_t c = first; !text && !*found && c < first + CANDIDATES_MAX; c++) {
        bool made;
        text = make_plan (self, c, &made);
        if (!text && made)
            text = try_plan (self, h_pattern, h_value, found);
    }
    return text;
}

/* ---- the checksum's tolerance ---------------------------------------------------------------- */

/* Measures what fault-free sums lose, on seeded patches from nearly empty to full, and allows
   RESIDUALS times the largest; never less than LEAST, nor more than truncation can explain.
   It also makes the first launches, which are slow.  */
static wm_gpu_text_t calibrate (wm_cuda_windows_t *self)
{
    uint64_t seed = 2;
    const size_t n = self->n_value, n_output = self->pack.tail.n_output;
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                         .n_hit = CALIBRATION,
                         .patch_values = self->n_value,
                         .patch = malloc (CALIBRATION * n * sizeof (float)) };
    float *scores = malloc (CALIBRATION * n_output * sizeof *scores);
    wm_gpu_text_t text = batch.patch && scores ? NULL : "no memory for test patches";
    for (size_t i = 0; !text && i < CALIBRATION * n; i++) {
        const uint32_t draw = (uint32_t) (wm_seed_next (&seed) >> 32);
        const bool active = draw % CALIBRATION <= i / n;
        batch.patch[i] = active ? (float) (draw >> 8) / (float) (1 << 24) : self->pack.zero;
    }
    const wm_batch_t *batches = &batch;
    if (!text)
        wm_cuda_windows_score (self, 1, &batches, &scores, NULL, &text, NULL);
    const double measured = RESIDUALS * fmax (self->worst, LEAST);
    self->pack.tolerance = fmin (measured, self->pack.tolerance);
    self->worst = 0;
    memset (self->ms, 0, sizeof self->ms);
    free (batch.patch);
    free (scores);
    return text;
}

/* ---- life ------------------------------------------------------------------------------------ */

static wm_gpu_text_t make_graphs (wm_cuda_windows_t *self, wm_windows_slot_t *slot)
{
    for (uint32_t g = 0; g < self->n_graph && !self->config.timed; g++) {
        CALL (graph_begin, slot->stream);
        wm_gpu_text_t text = wm_windows_score_hits (self, slot, self->tile << g);
        if (text)
            return text;
        CALL (graph_end, slot->stream, &slot->graph[g]);
    }
    return NULL;
}

/* Sets hits a block, and stages, by the shared memory that there is.  */
static void fit_shared (wm_cuda_windows_t *self)
{
    wm_gpu_dense_t *d = &self->pack.dense;
    self->tile = 256, d->stages = 2;
    if (wm_gpu_dense_bytes (d, self->tile) > self->info.shared_bytes)
        self->tile = 128;
    while (d->stages < 5) {
        d->stages++;
        if (wm_gpu_dense_bytes (d, self->tile) > self->info.shared_bytes) {
            d->stages--;
            break;
        }
    }
}

/* Sizes by what is free; false where even the least does not fit.  */
static bool fit_memory (wm_cuda_windows_t *self)
{
    const uint32_t hits = self->config.rows ? self->config.rows : WM_CUDA_HITS,
                   patch = self->pack.net.net->height;
    for (self->n_graph = 1; self->tile << self->n_graph <= hits; self->n_graph++)
        ;
    self->hits_max = self->tile << (self->n_graph - 1);
    self->height = self->config.height ? self->config.height : WM_CUDA_HEIGHT;
    for (;; self->height /= 2) {
        self->height = self->height / self->band * self->band;
        self->rows_max = self->height * (wm_windows_abreast (self) + 1);
        if (self->height < patch || self->height < self->band)
            return false;
        if (need_bytes (self) <= self->info.free_bytes / 5 * 4)
            return true;
    }
}

static wm_gpu_text_t make_all (wm_cuda_windows_t *self, wm_error_t *error)
{
    wm_gpu_text_t text;
    bool found = false;
    CALL (open, &self->info);
    if (self->info.major < 8 && !self->pack.active.half) {
        wm_fault (error, WM_EBATCH, "%s (sm_%d%d) has no tf32: use half, or strict float32",
                  self->info.device, self->info.major, self->info.minor);
        return NULL;
    }
    fit_shared (self);
    if (!fit_memory (self)) {
        wm_fault (error, WM_EHOST,
                  "the cuda engine has no room for a patch of this model: %s has %zu MiB free",
                  self->info.device, self->info.free_bytes >> 20);
        return NULL;
    }
    if ((text = make_load (self)))
        return text;
    for (uint32_t s = 0; s < WM_WINDOWS_SLOTS; s++)
        if ((text = make_slot (self, &self->slot[s])) ||
            (text = make_graphs (self, &self->slot[s])))
            return text;
    if ((text = pin (self, &found)))
        return text;
    if (found)
        return calibrate (self);
    wm_fault (error, WM_EHOST,
              "cuDNN (%s) has no algorithm for this model on %s that treats all places alike: "
              "use --engine sparse",
              self->info.libraries, self->info.device);
    return NULL;
}

wm_cuda_windows_t *wm_cuda_windows_new (const wm_gpu_api_t *api, const wm_net_t *net,
                                        const wm_spec_t *spec, const wm_cuda_config_t *config,
                                        wm_gpu_info_t *info, wm_error_t *error)
{
    wm_error_t fault = { 0 };
    wm_gpu_text_t text = NULL;
    wm_cuda_windows_t *self = calloc (1, sizeof *self);
    if (!self || !(self->gpu = api->make ()))
        wm_fault (&fault, WM_EHOST, "no memory for the cuda engine");
    else {
        self->api = api, self->config = *config;
        self->starts = config->starts ? config->starts : WM_CUDA_STARTS;
        self->band = config->band ? config->band : WM_CUDA_BAND;
        self->n_value = net->height * net->width;
        self->source_max =
            config->rows && config->rows < SOURCE_PATCHES ? config->rows : SOURCE_PATCHES;
        if (spec) {
            self->spec = *spec;
            if (!(self->cutter = wm_plane_new (&self->spec)))
                wm_fault (&fault, WM_EHOST, "no memory for a plane");
        }
        if (!fault.fault)
            wm_cuda_pack_plan (&self->pack, net, spec, config->precision, config->version,
                               self->starts, self->band, &fault);
        text = fault.fault ? NULL : make_all (self, &fault);
    }
    if (wm_cuda_stands (&fault, text, error))
        *info = self->info;
    else
        wm_cuda_windows_destroy (&self);
    return self;
}

void wm_cuda_windows_destroy (wm_cuda_windows_t **self_p)
{
    wm_cuda_windows_t *self = *self_p;
    if (self) {
        if (self->gpu) {
            drop_plan (self);
            self->api->destroy (self->gpu);
        }
        for (uint32_t s = 0; s < WM_WINDOWS_SLOTS; s++)
            free (self->slot[s].to);
        wm_cuda_plane_destroy (&self->plane);
        wm_plane_destroy (&self->cutter);
        free (self->place);
        free (self->spare);
        free (self);
        *self_p = NULL;
    }
}

const char *wm_cuda_windows_refuse (const wm_net_t *net, wm_gpu_precision_t precision)
{
    return wm_cuda_pack_refuse (net, precision);
}

wm_gpu_text_t wm_cuda_windows_lend (wm_cuda_windows_t *self, const void *h, size_t bytes)
{
    CALL (pin, h, bytes);
    self->lent = h, self->lent_bytes = bytes;
    if (self->plane)
        wm_cuda_plane_lend (self->plane, h, bytes);
    return NULL;
}

uint32_t wm_cuda_windows_fill (const wm_cuda_windows_t *self)
{
    return self->hits_max;
}

const char *wm_cuda_windows_choice (const wm_cuda_windows_t *self)
{
    return self->choice;
}

double wm_cuda_windows_residual (const wm_cuda_windows_t *self, double *allowed)
{
    *allowed = self->pack.tolerance;
    return self->worst;
}

void wm_cuda_windows_times (wm_cuda_windows_t *self, double ms[WM_CUDA_STAGES])
{
    memcpy (ms, self->ms, sizeof self->ms);
    memset (self->ms, 0, sizeof self->ms);
}
