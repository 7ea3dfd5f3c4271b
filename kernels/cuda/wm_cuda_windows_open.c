/* wm_cuda_windows_open.c - the CUDA engine: memory, and the checksum's tolerance.  */
#include "kernels/cuda/wm_cuda_windows_private.h"
#include "kernels/gpu/wm_gpu_library.h"
#include "kernels/model/wm_seed.h"
#include "schema/wm_limits.h"

#include <stdio.h>
#include <stdlib.h>

#define HITS_MAX (WM_RAW_BYTES_MAX / 8) /* of a batch */
#define SOURCE_PATCHES 1024u            /* cut on the host, on their way to the device */
#define ROWS_A_HIT 2u                   /* of the maps: events need 0.5 to 2, patches 3 */
#define CALIBRATION 32u                 /* patches that measure the checksum's tolerance */
#define RESIDUALS 4.0
#define LEAST 0x1p-24

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t source_bytes (const wm_windows_t *self)
{
    return (size_t) self->source_max * self->n_value * sizeof (float);
}

static size_t map_bytes (const wm_windows_t *self)
{
    return (size_t) self->height * self->pack.dense.n_word * sizeof (uint32_t);
}

static size_t list_bytes (const wm_windows_t *self)
{
    return (size_t) self->height * self->pack.dense.n_word * 32 * self->pack.active.entry_bytes;
}

static size_t sum_bytes (const wm_windows_t *self)
{
    return (size_t) self->pack.tail.bands * self->hits_max * WM_GPU_SUMS * sizeof (float);
}

/* Of device memory.  */
static size_t need_bytes (const wm_windows_t *self)
{
    size_t slot = self->rows_max * sizeof (wm_gpu_row_t) + list_bytes (self) +
                  3 * map_bytes (self) + sum_bytes (self) +
                  self->hits_max * sizeof (float) * (self->pack.tail.n_output + 2);
    return WM_WINDOWS_SLOTS * slot + source_bytes (self) + self->pack.bytes +
           (self->cutter ? wm_cuda_plane_bytes (self->config.cells) : 0);
}

static wm_gpu_text_t make_slot (wm_windows_t *self, wm_windows_slot_t *slot)
{
    const size_t hits = self->hits_max;
    CALL (stream_new, &slot->stream, false);
    CALL (event_new, &slot->laid, false);
    CALL (event_new, &slot->done, false);
    for (int i = 0; self->config.timed && i <= WM_CUDA_STAGES; i++)
        CALL (event_new, &slot->mark[i], true);
    slot->of = calloc (hits, sizeof *slot->of);
    if (!slot->of)
        return "no memory for a slot";
    BOTH_NEW (&slot->h_row, &slot->d_row, self->rows_max * sizeof (wm_gpu_row_t));
    BOTH_NEW (NULL, &slot->d_value, list_bytes (self));
    BOTH_NEW (NULL, &slot->d_used, 2 * sizeof (uint32_t));
    BOTH_NEW (NULL, &slot->d_active, map_bytes (self));
    BOTH_NEW (NULL, &slot->d_bad, map_bytes (self));
    BOTH_NEW (NULL, &slot->d_index, map_bytes (self));
    BOTH_NEW (&slot->h_hit, &slot->d_hit, hits * sizeof (uint32_t));
    BOTH_NEW (NULL, &slot->d_sum, sum_bytes (self));
    BOTH_NEW (&slot->h_scores, &slot->d_scores, hits * self->pack.tail.n_output * sizeof (float));
    BOTH_NEW (&slot->h_residual, &slot->d_residual, hits * sizeof (float));
    return NULL;
}

static wm_gpu_text_t make_load (wm_windows_t *self)
{
    void *h_block;
    char *d_block;
    CALL (stream_new, &self->load, true);
    BOTH_NEW (NULL, &self->d_source, source_bytes (self));
    BOTH_NEW (&h_block, &d_block, self->pack.bytes);
    for (uint32_t i = 0; i < WM_WINDOWS_SOURCES; i++) {
        CALL (event_new, &self->source[i].copied, false);
        BOTH_NEW (&self->source[i].h, NULL, source_bytes (self));
    }
    wm_cuda_pack_fill (&self->pack, h_block, d_block);
    CALL (copy_in, d_block, h_block, self->pack.bytes, self->load);
    CALL (stream_sync, self->load);
    self->place = malloc (HITS_MAX * sizeof *self->place);
    self->spare = malloc (HITS_MAX * sizeof *self->spare);
    if (!self->place || !self->spare)
        return "no memory for hits";
    return self->cutter ? wm_cuda_plane_new (&self->plane, self->base.api, self->base.gpu,
                                             &self->spec, self->config.cells)
                        : NULL;
}

/* ---- the checksum's tolerance ---------------------------------------------------------------- */

/* Measures what fault-free sums lose, on seeded patches from nearly empty to full, and allows
   RESIDUALS times the largest; never less than LEAST, nor more than truncation can explain.
   It also makes the first launches, which are slow.  */
static wm_gpu_text_t calibrate (wm_windows_t *self)
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
    wm_error_t error = { 0 };
    if (!text && wm_cuda_score (&self->base, &batch, scores, NULL, &error))
        text = *self->base.failure ? self->base.failure : wm_gpu_text ("%s", error.text);
    const double measured = RESIDUALS * fmax (self->worst, LEAST);
    self->pack.tolerance = fmin (measured, self->pack.tolerance);
    self->worst = 0;
    memset (self->ms, 0, sizeof self->ms);
    free (batch.patch);
    free (scores);
    return text;
}

/* ---- life ------------------------------------------------------------------------------------ */

static wm_gpu_text_t make_graphs (wm_windows_t *self, wm_windows_slot_t *slot)
{
    for (uint32_t g = 0; g < self->n_graph && !self->config.timed; g++) {
        CALL (graph_begin, slot->stream);
        TRY (wm_windows_score_hits (self, slot, self->pack.dense.tile << g));
        CALL (graph_end, slot->stream, &slot->graph[g]);
    }
    return NULL;
}

/* Sets the arithmetic. Returns whether Hopper's instructions do it; then hits a block and stages
   are theirs, else not valid.  */
static bool fit_wide (wm_windows_t *self)
{
    wm_gpu_dense_t *d = &self->pack.dense;
    self->by = self->pack.active.form == WM_GPU_FLOATS         ? WM_GPU_BY_FMA
               : self->pack.active.form == WM_GPU_HALVES_TWICE ? WM_GPU_BY_SPLIT
                                                               : WM_GPU_BY_HALF;
    const uint32_t parts = wm_gpu_dense_parts (self->by);
    d->tile = wm_gpu_wide_tile (parts), d->stages = 6;
    while (d->stages > 2 &&
           d->stages * wm_gpu_wide_stage_bytes (parts) > self->base.info.shared_bytes)
        d->stages--;
    self->pack.wide = !self->config.plain && self->base.info.wide && self->by != WM_GPU_BY_FMA &&
                      d->position_chunks == WM_GPU_CHUNKS && d->stages > 2;
    return self->pack.wide;
}

/* Sets hits a block, and stages, by the shared memory that there is. False where even the least
   tile has no room.  */
static bool fit_shared (wm_windows_t *self)
{
    wm_gpu_dense_t *d = &self->pack.dense;
    if (fit_wide (self))
        return true;
    d->stages = 2;
    for (d->tile = self->by == WM_GPU_BY_HALF ? 256 : 128; d->tile >= 64; d->tile /= 2)
        if (wm_gpu_dense_bytes (d, self->by) <= self->base.info.shared_bytes)
            break;
    for (d->stages = 5; d->stages > 2; d->stages--)
        if (wm_gpu_dense_bytes (d, self->by) <= self->base.info.shared_bytes)
            break;
    return d->tile >= 64;
}

/* Sizes by what is free, at most a quarter of it for sums; false where even the least does not
   fit.  */
static bool fit_memory (wm_windows_t *self)
{
    const uint32_t tile = self->pack.dense.tile, patch = self->pack.dense.patch_row;
    for (self->n_graph = 1; tile << self->n_graph <= self->config.hits; self->n_graph++) {
        self->hits_max = tile << self->n_graph;
        if (WM_WINDOWS_SLOTS * sum_bytes (self) > self->base.info.free_bytes / 4)
            break;
    }
    self->hits_max = self->base.fill = tile << (self->n_graph - 1);
    self->height = self->config.height ? self->config.height : ROWS_A_HIT * self->hits_max;
    for (;; self->height -= self->height / 8 + 1) {
        self->rows_max = self->height * wm_windows_abreast (self);
        if (self->height < patch)
            return false;
        if (need_bytes (self) <= self->base.info.free_bytes / 5 * 4)
            return true;
    }
}

static wm_gpu_text_t make_all (wm_windows_t *self, wm_error_t *error)
{
    CALL (open, &self->base.info);
    if (!fit_shared (self)) {
        wm_fault (error, WM_EBATCH,
                  "%s (sm_%d%d) has %zu KiB of shared memory a block, too little for this model in "
                  "this precision: use --precision fp32, or --engine cudnn",
                  self->base.info.device, self->base.info.major, self->base.info.minor,
                  self->base.info.shared_bytes >> 10);
        return NULL;
    }
    if (!fit_memory (self)) {
        wm_fault (error, WM_EHOST,
                  "the cuda engine has no room for a patch of this model: %s has %zu MiB free",
                  self->base.info.device, self->base.info.free_bytes >> 20);
        return NULL;
    }
    TRY (make_load (self));
    for (uint32_t s = 0; s < WM_WINDOWS_SLOTS; s++) {
        TRY (make_slot (self, &self->slot[s]));
        TRY (make_graphs (self, &self->slot[s]));
    }
    snprintf (self->base.choice, sizeof self->base.choice,
              "rows of %u words, %u at most; %u hits a block, %u stages%s", self->pack.dense.n_word,
              self->height, self->pack.dense.tile, self->pack.dense.stages,
              self->pack.wide ? ", warpgroups" : "");
    return calibrate (self);
}

/* As many as a row of the maps has room for.  */
static uint32_t starts_of (const wm_net_t *net)
{
    const uint32_t most = WM_GPU_ROW_MAX - net->width;
    return most < WM_CUDA_STARTS ? most : WM_CUDA_STARTS;
}

static void clear (wm_cuda_t *base)
{
    wm_windows_t *self = (wm_windows_t *) base;
    for (uint32_t s = 0; s < WM_WINDOWS_SLOTS; s++)
        free (self->slot[s].of);
    wm_cuda_plane_destroy (&self->plane);
    wm_plane_destroy (&self->cutter);
    free (self->place);
    free (self->spare);
}

wm_cuda_t *wm_cuda_new (const wm_gpu_api_t *api, const wm_net_t *net, const wm_spec_t *spec,
                        const wm_cuda_config_t *config, wm_error_t *error)
{
    wm_error_t fault = { 0 };
    wm_gpu_text_t text = NULL;
    const char *refusal = wm_cuda_refuse (net, config->precision);
    wm_windows_t *self = calloc (1, sizeof *self);
    wm_cuda_t *base = self ? &self->base : NULL;
    if (base)
        *base = (wm_cuda_t){ .api = api,
                             /* Two that are timed would wait for each other's kernels.  */
                             .n_slot = config->timed ? 1 : WM_WINDOWS_SLOTS,
                             .submit = wm_windows_submit,
                             .start = wm_windows_start,
                             .complete = wm_windows_complete,
                             .clear = clear };
    if (refusal)
        wm_fault (&fault, WM_EBATCH, "the cuda engine's own kernels cannot run this: %s", refusal);
    else if (!self || !(base->gpu = api->make ()))
        wm_fault (&fault, WM_EHOST, "no memory for the cuda engine");
    else {
        self->config = *config;
        self->config.hits = config->hits ? config->hits : WM_CUDA_HITS;
        self->config.cells = config->cells ? config->cells : WM_CUDA_CELLS;
        self->starts = config->starts ? config->starts : starts_of (net);
        self->n_value = net->height * net->width;
        self->source_max = self->config.hits < SOURCE_PATCHES ? self->config.hits : SOURCE_PATCHES;
        if (spec) {
            self->spec = *spec;
            if (!(self->cutter = wm_plane_new (&self->spec)))
                wm_fault (&fault, WM_EHOST, "no memory for a plane");
        }
        if (!fault.fault)
            wm_cuda_pack_plan (&self->pack, net, spec, config->precision, self->starts, &fault);
        if (config->bands)
            wm_cuda_pack_bands (&self->pack, config->bands);
        text = fault.fault ? NULL : make_all (self, &fault);
    }
    if (wm_cuda_stands (&fault, text, error))
        wm_cuda_sign (base, config->precision, self->pack.wide ? "v5w" : "v5");
    else
        wm_cuda_destroy (&base);
    return base;
}

double wm_cuda_residual (const wm_cuda_t *base, double *allowed)
{
    const wm_windows_t *self = (const wm_windows_t *) base;
    *allowed = self->pack.tolerance;
    return self->worst;
}

void wm_cuda_times (wm_cuda_t *base, double ms[WM_CUDA_STAGES])
{
    wm_windows_t *self = (wm_windows_t *) base;
    memcpy (ms, self->ms, sizeof self->ms);
    memset (self->ms, 0, sizeof self->ms);
}
