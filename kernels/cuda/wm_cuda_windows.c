/* wm_cuda_windows.c - the CUDA engine, versions 2 and 3: hits are windows of strips.

   Planes become STRIPS on the device: images of one width, in half, above each other in a slot,
   with as much of a plane beside them as the patches need that begin in their first `starts`
   columns. So all that cuDNN ever sees is one shape, a BAND of rows, pinned when the engine is
   made; and planes of several batches, patches that were cut on the host, and what own view makes
   of a plane, lie in one slot and are worked off together. A UNIT is what the hits of one strip
   need of it, in rows.

     load stream   runs -> image (wm_cuda_plane.h) -> strip: rows of it to the slot
     slot stream   convolution of the bands -> active -> graph { hits in, dense, tail, scores out }

   Slots. Each of the two slots has memory, a stream and an event `done`; both share the load
   stream. A slot is in one of three states:
     free   its memory belongs to the host
     open   (open_slot) the host adds hits and rows; the load stream copies rows to d_image
     busy   (start) its stream convolves, multiplies and copies the scores out; the host touches
            none of its memory until collect () has waited for `done`, which frees the slot
   A slot is started when the next unit has no room in it, or no batch is left; then the other one
   is collected and opened. So one is laid out and copied to while the other computes. Launches have
   256 (or 128) hits times a power of two; each of these sizes is a graph, made with the engine.

   Order between streams. Each of these waits is necessary; tests/plants removes them one at a time:
     - start: the slot's stream waits for `laid`, which the load stream records behind the slot's
       last row; else the convolution reads rows that have not arrived.
     - collect: the host waits for `done` before it reads scores; else it reads those of a batch
       before.
     - add_batch, add_source: the host waits for `copied`, recorded behind the copy of a plane or of
       patches, before it writes that pinned memory again.
     - flush: when a call returns every stream is idle, so that the caller may change its batches.
   Only collect () gives out scores, and only if the checksum of every hit of the slot holds.

   The bits of a hit do not depend on the hits beside it (wm_gpu_dense.cuh). For cuDNN's convolution
   that is tested when the engine is made: a band of a repeated pattern must give repeated bits,
   twice.

   Memory: at most 80 % of what is free when the engine is made; strips get as many rows as fit,
   WM_CUDA_HEIGHT at most. For the usual network that is 1.2 GB. Nothing is allocated later.  */
#include "kernels/cuda/wm_cuda_windows_private.h"
#include "kernels/cuda/wm_gpu_dense.cuh"
#include "kernels/cuda/wm_gpu_library.h"

#include <stdatomic.h>

#define THREADS 256u

/* Patches beside each other at the foot of a slot.  */
typedef struct {
    uint32_t n;   /* in the row that is being filled; 0: begin one */
    uint32_t row; /* its first */
} abreast_t;

/* ---- the device's work ----------------------------------------------------------------------- */

static wm_gpu_text_t mark (wm_cuda_windows_t *self, wm_windows_slot_t *slot, int i, void *stream)
{
    if (self->config.timed)
        CALL (event_record, slot->mark[i], stream);
    return NULL;
}

static wm_gpu_text_t launch (wm_cuda_windows_t *self, wm_gpu_kernel_t kernel, uint32_t blocks,
                             uint32_t threads, uint32_t shared_bytes, const void *args,
                             void *stream)
{
    const wm_gpu_launch_t l = { kernel, blocks, threads, shared_bytes, args };
    CALL (launch, &l, stream);
    return NULL;
}

/* Convolves the slot's first `bands` bands.  */
wm_gpu_text_t wm_windows_convolve (wm_cuda_windows_t *self, wm_windows_slot_t *slot, uint32_t bands)
{
    const size_t in = (size_t) self->band * self->pack.conv.w * self->pack.net.each,
                 out =
                     (size_t) self->band * self->pack.dense.n_col * self->pack.dense.position_bytes;
    for (uint32_t b = 0; b < bands; b++)
        CALL (conv_run, self->conv, (char *) slot->d_image + b * in,
              self->d_block + self->pack.net.conv_weight[0],
              self->d_block + self->pack.net.conv_bias[0], (char *) slot->d_value + b * out,
              slot->d_workspace, slot->stream);
    return NULL;
}

static wm_gpu_text_t find_active (wm_cuda_windows_t *self, wm_windows_slot_t *slot, uint32_t n_row)
{
    wm_gpu_active_t args = self->pack.active;
    args.image = slot->d_image, args.value = slot->d_value;
    args.active = slot->d_active, args.bad = slot->d_bad;
    args.n_row = n_row;
    if (self->pack.subtracts)
        args.constant = (const float *) (const void *) (self->d_block + self->pack.constant);
    const uint32_t warps = n_row * ((args.n_col + 31) / 32);
    return launch (self, WM_GPU_ACTIVE, (warps + THREADS / 32 - 1) / (THREADS / 32), THREADS, 0,
                   &args, slot->stream);
}

static wm_gpu_text_t multiply (wm_cuda_windows_t *self, wm_windows_slot_t *slot, uint32_t hits)
{
    wm_gpu_dense_t args = self->pack.dense;
    args.value = slot->d_value, args.hit = slot->d_hit;
    args.active = self->pack.sparse ? slot->d_active : NULL;
    args.weight = self->d_block + self->pack.panel;
    args.partial = slot->d_partial, args.rows = hits;
    return launch (self, self->pack.active.half ? WM_GPU_DENSE : WM_GPU_DENSE_TF32,
                   hits / self->tile * args.splits, self->tile,
                   wm_gpu_dense_bytes (&args, self->tile), &args, slot->stream);
}

static wm_gpu_text_t finish (wm_cuda_windows_t *self, wm_windows_slot_t *slot, uint32_t hits)
{
    wm_gpu_tail_t args = self->pack.tail;
    args.partial = slot->d_partial, args.scores = slot->d_scores, args.rows = hits;
    args.residual = slot->d_residual, args.bad = slot->d_bad, args.hit = slot->d_hit;
    for (uint32_t l = 0; l < args.n_layer; l++) {
        args.layer[l].weight =
            (const float *) (const void *) (self->d_block + self->pack.net.dense_weight[l]);
        args.layer[l].bias =
            (const float *) (const void *) (self->d_block + self->pack.net.dense_bias[l]);
    }
    return launch (self, WM_GPU_TAIL, hits, THREADS / 2,
                   (args.n_value + args.n_sum + args.patch_row) * (uint32_t) sizeof (float), &args,
                   slot->stream);
}

/* From hits in h_hit to scores in h_scores: what a graph is made of.  */
wm_gpu_text_t wm_windows_score_hits (wm_cuda_windows_t *self, wm_windows_slot_t *slot,
                                     uint32_t hits)
{
    wm_gpu_text_t text;
    CALL (copy_in, slot->d_hit, slot->h_hit, hits * sizeof (uint32_t), slot->stream);
    if ((text = multiply (self, slot, hits)) ||
        (text = mark (self, slot, WM_CUDA_TAIL, slot->stream)) ||
        (text = finish (self, slot, hits)) ||
        (text = mark (self, slot, WM_CUDA_COPY_OUT, slot->stream)))
        return text;
    CALL (copy_out, slot->h_scores, slot->d_scores,
          (size_t) hits * self->pack.tail.n_output * sizeof (float), slot->stream);
    CALL (copy_out, slot->h_residual, slot->d_residual, hits * sizeof (float), slot->stream);
    return NULL;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Sends the rows that were added since the last time, all of the same image.  */
wm_gpu_text_t wm_windows_lay (wm_cuda_windows_t *self, wm_windows_slot_t *slot)
{
    const uint32_t first = slot->n_laid, n = slot->n_row - first;
    if (n == 0)
        return NULL;
    wm_gpu_strip_t args = {
        .source = self->d_from,
        .row = slot->d_row + first,
        .image = slot->d_image,
        .n_row = n,
        .half = self->pack.active.half,
        .limit = self->pack.net.limit,
    };
    slot->n_laid = slot->n_row;
    CALL (copy_in, slot->d_row + first, slot->h_row + first, n * sizeof (wm_gpu_row_t), self->load);
    return launch (self, WM_GPU_STRIP, (n + THREADS / 32 - 1) / (THREADS / 32), THREADS, 0, &args,
                   self->load);
}

/* Opens a free slot: all its strips hold the zero level.  */
static wm_gpu_text_t open_slot (wm_cuda_windows_t *self, wm_windows_slot_t *slot)
{
    const size_t cells = wm_windows_cells (self);
    wm_gpu_fill_t args = { slot->d_image, (uint32_t) cells, self->pack.zero };
    wm_gpu_text_t text = mark (self, slot, 0, self->load);
    slot->n_row = slot->n_laid = slot->used = slot->n_hit = 0;
    slot->open = true;
    if (self->pack.active.half) { /* two at a time; a pair of finite halves is a finite float32 */
        const uint32_t pair = self->pack.active.zero << 16 | self->pack.active.zero;
        memcpy (&args.value, &pair, sizeof pair);
        args.count = (uint32_t) (cells / 2);
    }
    return text ? text
                : launch (self, WM_GPU_FILL, (args.count + 4 * THREADS - 1) / (4 * THREADS),
                          THREADS, 0, &args, self->load);
}

/* Starts an open slot's work.  */
static wm_gpu_text_t start (wm_cuda_windows_t *self, wm_windows_slot_t *slot)
{
    const uint32_t rows = slot->used - self->pack.conv.kh + 1, /* positions' */
        bands = (rows + self->band - 1) / self->band;
    uint32_t graph = 0;
    wm_gpu_text_t text = wm_windows_lay (self, slot);
    if (text)
        return text;
    while (self->tile << graph < slot->n_hit)
        graph++;
    const uint32_t hits = self->tile << graph;
    for (uint32_t i = slot->n_hit; i < hits; i++)
        slot->h_hit[i] = WM_GPU_NO_PATCH;
    self->api->range_begin (self->gpu, "start a slot");
    CALL (event_record, slot->laid, self->load);
    CALL (stream_wait, slot->stream, slot->laid);
    if ((text = mark (self, slot, 1, slot->stream)) ||
        (text = wm_windows_convolve (self, slot, bands)) ||
        (text = mark (self, slot, 2, slot->stream)) ||
        (text = find_active (self, slot, bands * self->band)) ||
        (text = mark (self, slot, WM_CUDA_GEMM, slot->stream)))
        return text;
    if (self->config.timed) {
        if ((text = wm_windows_score_hits (self, slot, hits)))
            return text;
    } else
        CALL (graph_run, slot->graph[graph], slot->stream);
    if ((text = mark (self, slot, WM_CUDA_STAGES, slot->stream)))
        return text;
    CALL (event_record, slot->done, slot->stream);
    self->api->range_end (self->gpu);
    slot->open = false, slot->busy = true;
    return NULL;
}

/* Adds the times of the stages: marks 0 to 3 are before the load, the convolution, active,
   dense.  */
static wm_gpu_text_t add_times (wm_cuda_windows_t *self, wm_windows_slot_t *slot)
{
    static const wm_cuda_stage_t stage[] = { WM_CUDA_COPY_IN, WM_CUDA_CONV, WM_CUDA_GATHER,
                                             WM_CUDA_GEMM,    WM_CUDA_TAIL, WM_CUDA_COPY_OUT };
    for (int i = 0; self->config.timed && i < WM_CUDA_STAGES; i++) {
        float ms = 0;
        CALL (event_ms, slot->mark[i], slot->mark[i + 1], &ms);
        self->ms[stage[i]] += (double) ms;
    }
    return NULL;
}

/* Waits for a busy slot, and copies its scores to their batches if the checksum of each hit holds.
   A held hit of version 2 has NaN for its sums as for its scores.  */
static wm_gpu_text_t collect (wm_cuda_windows_t *self, wm_windows_slot_t *slot,
                              _Atomic uint64_t *progress)
{
    const size_t n = self->pack.tail.n_output;
    if (!slot->busy)
        return NULL;
    self->api->range_begin (self->gpu, "wait for a slot");
    CALL (event_sync, slot->done);
    self->api->range_end (self->gpu);
    slot->busy = false;
    for (uint32_t i = 0; i < slot->n_hit; i++) {
        const double residual = (double) slot->h_residual[i];
        if (residual > self->worst)
            self->worst = residual;
        if (!(residual <= self->pack.tolerance) && (self->pack.sparse || residual == residual ||
                                                    slot->h_scores[i * n] == slot->h_scores[i * n]))
            return wm_gpu_text ("the checksum of the first dense layer does not hold: off by %.2g "
                                "of its magnitude, %.2g is allowed",
                                residual, self->pack.tolerance);
    }
    for (uint32_t i = 0; i < slot->n_hit; i++)
        memcpy (slot->to[i], slot->h_scores + i * n, n * sizeof (float));
    if (progress)
        atomic_fetch_add (progress, slot->n_hit);
    return add_times (self, slot);
}

/* An open slot with room for `rows` rows, `copied` of them from an image, and a hit. Starts the
   slot that has no room for them.  */
static wm_gpu_text_t room (wm_cuda_windows_t *self, uint32_t rows, uint32_t copied,
                           _Atomic uint64_t *progress, wm_windows_slot_t **slot_p)
{
    wm_windows_slot_t *slot = &self->slot[self->current % WM_WINDOWS_SLOTS];
    wm_gpu_text_t text = NULL;
    if (slot->open && (slot->used + rows > self->height || slot->n_hit == self->hits_max ||
                       slot->n_row + copied > self->rows_max)) {
        text = start (self, slot);
        /* One slot where stages are timed: two would wait for each other's kernels.  */
        self->current += self->config.timed ? WM_WINDOWS_SLOTS : 1;
        slot = &self->slot[self->current % WM_WINDOWS_SLOTS];
    }
    if (!text && !slot->open && !(text = collect (self, slot, progress)))
        text = open_slot (self, slot);
    *slot_p = slot;
    return text;
}

/* ---- units ----------------------------------------------------------------------------------- */

void wm_windows_add_row (wm_windows_slot_t *slot, uint32_t from, uint32_t to, uint32_t count)
{
    slot->h_row[slot->n_row++] = (wm_gpu_row_t){ from, to, count };
}

static void add_hit (wm_cuda_windows_t *self, wm_windows_slot_t *slot, uint32_t row, uint32_t col,
                     uint32_t hit)
{
    slot->to[slot->n_hit] = self->scores + (size_t) hit * self->pack.tail.n_output;
    slot->h_hit[slot->n_hit++] = row * self->pack.dense.n_col + col;
}

/* Hits of a strip, `place` of them in the order of the curve: as many as fit a slot become a unit.
   offset: of their patches in the image, whose rows have n_col cells. Returns how many were
   added.  */
static uint32_t add_unit (wm_cuda_windows_t *self, wm_windows_slot_t *slot,
                          const wm_cuda_place_t *place, uint32_t n, const uint32_t *offset,
                          uint32_t n_col)
{
    const uint32_t patch = self->pack.net.net->height, room = self->height - slot->used,
                   left = offset[place[0].hit] % n_col / self->starts * self->starts;
    uint32_t low = UINT32_MAX, high = 0, count = 0;
    for (; count < n && slot->n_hit + count < self->hits_max; count++) {
        const uint32_t row = offset[place[count].hit] / n_col, l = row < low ? row : low,
                       h = row > high ? row : high;
        if (h - l + patch > room || slot->n_row + (h - l + patch) > self->rows_max)
            break;
        low = l, high = h;
    }
    const uint32_t width = self->pack.conv.w, cells = n_col - left < width ? n_col - left : width;
    for (uint32_t r = low; r < high + patch && count > 0; r++)
        wm_windows_add_row (slot, r * n_col + left, (slot->used + r - low) * self->pack.conv.w,
                            cells);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = offset[place[i].hit];
        add_hit (self, slot, slot->used + at / n_col - low, at % n_col - left, place[i].hit);
    }
    slot->used += count > 0 ? high - low + patch : 0;
    return count;
}

/* Adds all hits of an image on the device, strip by strip in the order of the curve.  */
static wm_gpu_text_t add_image (wm_cuda_windows_t *self, const wm_batch_t *batch,
                                _Atomic uint64_t *progress)
{
    uint32_t n_row, n_col;
    const uint32_t *offset = wm_cuda_plane_offset (self->plane);
    self->d_from = wm_cuda_plane_image (self->plane, &n_row, &n_col);
    const uint32_t patch = self->pack.net.net->height, tall = self->height - patch + 1,
                   strips = n_col / self->starts + 1;
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        const uint32_t row = offset[i] / n_col, col = offset[i] % n_col;
        self->place[i].hit = i;
        self->place[i].key = wm_cuda_curve_key (row / tall * strips + col / self->starts,
                                                row % tall, col % self->starts);
    }
    const wm_cuda_place_t *place = wm_cuda_curve_sort (self->place, self->spare, batch->n_hit);
    for (uint32_t i = 0, end; i < batch->n_hit;) {
        wm_windows_slot_t *slot;
        wm_gpu_text_t text = room (self, patch, patch, progress, &slot);
        if (text)
            return text;
        for (end = i; end < batch->n_hit && place[end].key >> 32 == place[i].key >> 32; end++)
            ;
        const uint32_t n = add_unit (self, slot, place + i, end - i, offset, n_col);
        if ((text = wm_windows_lay (self, slot)))
            return text;
        i += n;
        if (i < end && (text = room (self, self->height, 0, progress, &slot)))
            return text;
    }
    return NULL;
}

/* Patches from the source, `first` and on of the batch.  */
static wm_gpu_text_t add_patches (wm_cuda_windows_t *self, uint32_t first, uint32_t n,
                                  abreast_t *abreast, _Atomic uint64_t *progress)
{
    const wm_net_t *net = self->pack.net.net;
    for (uint32_t i = 0; i < n; i++) {
        wm_windows_slot_t *slot;
        wm_gpu_text_t text =
            room (self, abreast->n ? 0 : net->height, net->height, progress, &slot);
        if (text)
            return text;
        if (slot->n_hit == 0)
            abreast->n = 0; /* another slot */
        if (abreast->n == 0)
            abreast->row = slot->used, slot->used += net->height;
        const uint32_t col = abreast->n * net->width;
        for (uint32_t r = 0; r < net->height; r++)
            wm_windows_add_row (slot, i * self->n_value + r * net->width,
                                (abreast->row + r) * self->pack.conv.w + col, net->width);
        add_hit (self, slot, abreast->row, col, first + i);
        abreast->n = (abreast->n + 1) % wm_windows_abreast (self);
        if (i + 1 == n && (text = wm_windows_lay (self, slot))) /* before the source changes */
            return text;
    }
    return NULL;
}

static bool is_lent (const wm_cuda_windows_t *self, const float *patch, size_t bytes)
{
    const char *c = (const char *) patch;
    return self->lent && c >= self->lent && c + bytes <= self->lent + self->lent_bytes;
}

/* Dense patches, or a plane's that the host cuts.  */
static wm_gpu_text_t add_source (wm_cuda_windows_t *self, const wm_batch_t *batch,
                                 _Atomic uint64_t *progress)
{
    abreast_t abreast = { 0 };
    for (uint32_t first = 0, n; first < batch->n_hit; first += n) {
        n = batch->n_hit - first < self->source_max ? batch->n_hit - first : self->source_max;
        const size_t bytes = (size_t) n * self->n_value * sizeof (float);
        const float *h_from = self->h_source;
        CALL (event_sync, self->copied);
        if (batch->kind != WM_BATCH_PATCHES)
            wm_plane_cut (self->cutter, first, n, self->h_source);
        else if (is_lent (self, batch->patch + (size_t) first * self->n_value, bytes))
            h_from = batch->patch + (size_t) first * self->n_value;
        else
            memcpy (self->h_source, batch->patch + (size_t) first * self->n_value, bytes);
        CALL (copy_in, self->d_source, h_from, bytes, self->load);
        CALL (event_record, self->copied, self->load);
        self->d_from = self->d_source;
        wm_gpu_text_t text = add_patches (self, first, n, &abreast, progress);
        if (text)
            return text;
    }
    return NULL;
}

/* ---- a call ---------------------------------------------------------------------------------- */

static wm_fault_t add_batch (wm_cuda_windows_t *self, const wm_batch_t *batch,
                             _Atomic uint64_t *progress, wm_gpu_text_t *text, wm_error_t *error)
{
    bool laid = false;
    if (!self->cutter && batch->kind != WM_BATCH_PATCHES)
        return wm_fault (error, WM_EBATCH, "a plane, but no specification to cut patches by");
    self->api->range_begin (self->gpu, "lay out a batch");
    if (batch->kind != WM_BATCH_PATCHES) {
        *text = self->api->event_sync (self->gpu, self->copied);
        if (!*text)
            *text = wm_cuda_plane_load (self->plane, batch, self->load, &laid);
        if (!*text && laid)
            *text = self->api->event_record (self->gpu, self->copied, self->load);
    }
    wm_fault_t fault = WM_OK;
    if (!*text && !laid && batch->kind != WM_BATCH_PATCHES)
        fault = wm_plane_load (self->cutter, batch, error);
    if (!*text && !fault)
        *text = laid ? add_image (self, batch, progress) : add_source (self, batch, progress);
    self->api->range_end (self->gpu);
    return *text ? WM_EHOST : fault;
}

/* Starts the open slot and collects both; every stream is idle after it.  */
static wm_gpu_text_t flush (wm_cuda_windows_t *self, _Atomic uint64_t *progress)
{
    wm_windows_slot_t *slot = &self->slot[self->current % WM_WINDOWS_SLOTS];
    wm_gpu_text_t text = slot->open ? start (self, slot) : NULL;
    for (uint32_t s = 0; s < WM_WINDOWS_SLOTS && !text; s++)
        text = collect (self, &self->slot[(self->current + 1 + s) % WM_WINDOWS_SLOTS], progress);
    return text;
}

wm_fault_t wm_cuda_windows_score (wm_cuda_windows_t *self, uint32_t n,
                                  const wm_batch_t *const *batch, float *const *scores,
                                  _Atomic uint64_t *progress, wm_gpu_text_t *text,
                                  wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    *text = NULL;
    for (uint32_t i = 0; i < n && !fault; i++)
        if (batch[i]->n_hit > 0) {
            self->scores = scores[i];
            fault = add_batch (self, batch[i], progress, text, error);
        }
    if (!*text)
        *text = flush (self, progress);
    return *text ? WM_EHOST : fault;
}
