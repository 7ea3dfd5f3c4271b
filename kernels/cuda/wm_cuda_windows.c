/* wm_cuda_windows.c - the CUDA engine: hits are windows of strips.

   A plane becomes STRIPS: as much of it as the patches need that begin in `starts` columns. Of a
   strip only maps of its positions and the list of active ones are kept (wm_gpu_active.cuh), so
   that planes of several batches, patches that were cut on the host, and what own view makes of a
   plane, lie above each other in a slot and are worked off together. A UNIT is what the hits of one
   strip need of it, in rows of positions.

     load stream   runs -> image (wm_cuda_plane.h) -> active: maps and list of the slot
     slot stream   graph { hits in, dense, tail, scores out }

   Slots are a ring (wm_cuda_base.h); all share the load stream, whose work goes first, and
   convolves what is active in rows that are added to the open slot. Hits of a job may lie in
   several slots, and hits of several jobs in one; a job is finished when its last hit is scored.
   Launches have 256 (or 128) hits times a power of two; each of these sizes is a graph, made with
   the engine.

   Order between streams. Each of these waits is necessary; tests/plants removes them one at a time:
     - wm_windows_start: the slot's stream waits for `laid`, which the load stream records behind
       the slot's last row; else the product reads what has not been convolved.
     - wm_windows_complete: the host waits for `done` before it reads scores, and before the load
       stream writes the slot again; else it reads those of a batch before.
     - wm_cuda_plane_load, add_source: the host waits for an event behind the last copy from the
       pinned buffer that it is about to write, which is not the one before this but an older one.
   Only wm_windows_complete gives out scores, and only if the checksum of every hit of the slot
   holds. After an error of the GPU every call returns it again.

   The bits of a hit do not depend on the hits beside it (wm_gpu_active.cuh, wm_gpu_dense.cuh).

   Memory: at most 80 % of what is free when the engine is made; slots get as many rows as fit, and
   no more than ROWS_A_HIT for each of their hits. The list has room for all of their positions,
   though a plane fills a few percent of it: what is not written costs nothing but addresses.
   Nothing is allocated later.  */
#include "kernels/cuda/wm_cuda_windows_private.h"
#include "kernels/gpu/wm_gpu_library.h"

#define THREADS 256u
#define TAIL_WARPS 8u
#define TAIL_BYTES (48u << 10) /* of shared memory, which every GPU has */

/* Patches beside each other at the foot of a slot.  */
typedef struct {
    uint32_t n;   /* in the row that is being filled; 0: begin one */
    uint32_t row; /* its first */
} abreast_t;

/* ---- the device's work ----------------------------------------------------------------------- */

static wm_gpu_text_t mark (wm_windows_t *self, wm_windows_slot_t *slot, int i, void *stream)
{
    if (self->config.timed)
        CALL (event_record, slot->mark[i], stream);
    return NULL;
}

static wm_gpu_text_t launch (wm_windows_t *self, wm_gpu_kernel_t kernel, uint32_t blocks,
                             uint32_t threads, uint32_t shared_bytes, const void *args,
                             void *stream)
{
    const wm_gpu_launch_t l = { kernel, blocks, threads, shared_bytes, args };
    CALL (launch, &l, stream);
    return NULL;
}

static wm_gpu_text_t multiply (wm_windows_t *self, wm_windows_slot_t *slot, uint32_t hits)
{
    static const wm_gpu_kernel_t kernel[] = { WM_GPU_DENSE, WM_GPU_DENSE_SPLIT, WM_GPU_DENSE_FMA },
                                 wide[] = { WM_GPU_DENSE_WIDE, WM_GPU_DENSE_WIDE_SPLIT };
    wm_gpu_dense_t args = self->pack.dense;
    args.value = slot->d_value, args.hit = slot->d_hit, args.sum = slot->d_sum;
    args.active = slot->d_active, args.index = slot->d_index;
    const uint32_t blocks = hits / args.tile * args.bands;
    if (self->pack.wide)
        return launch (self, wide[self->by], blocks, WM_GPU_WIDE_THREADS,
                       args.stages * wm_gpu_wide_stage_bytes (wm_gpu_dense_parts (self->by)), &args,
                       slot->stream);
    return launch (self, kernel[self->by], blocks, 2 * args.tile /* which copy a hit's values */,
                   wm_gpu_dense_bytes (&args, self->by), &args, slot->stream);
}

static wm_gpu_text_t finish (wm_windows_t *self, wm_windows_slot_t *slot, uint32_t hits)
{
    wm_gpu_tail_t args = self->pack.tail;
    args.sum = slot->d_sum, args.scores = slot->d_scores, args.n_hit = hits;
    args.residual = slot->d_residual, args.hit = slot->d_hit;
    args.active = slot->d_active, args.index = slot->d_index, args.bad = slot->d_bad;
    args.any_bad = slot->d_used + 1;
    const uint32_t bytes = wm_gpu_tail_floats (&args) * (uint32_t) sizeof (float);
    uint32_t warps = TAIL_WARPS;
    while (warps > 1 && warps * bytes > TAIL_BYTES)
        warps /= 2;
    return launch (self, WM_GPU_TAIL, (hits + warps - 1) / warps, warps * 32, warps * bytes, &args,
                   slot->stream);
}

/* From hits in h_hit to scores in h_scores: what a graph is made of.  */
wm_gpu_text_t wm_windows_score_hits (wm_windows_t *self, wm_windows_slot_t *slot, uint32_t hits)
{
    CALL (copy_in, slot->d_hit, slot->h_hit, hits * sizeof (uint32_t), slot->stream);
    TRY (multiply (self, slot, hits));
    TRY (mark (self, slot, WM_CUDA_TAIL, slot->stream));
    TRY (finish (self, slot, hits));
    TRY (mark (self, slot, WM_CUDA_COPY_OUT, slot->stream));
    CALL (copy_out, slot->h_scores, slot->d_scores,
          (size_t) hits * self->pack.tail.n_output * sizeof (float), slot->stream);
    CALL (copy_out, slot->h_residual, slot->d_residual, hits * sizeof (float), slot->stream);
    return NULL;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Convolves the rows that were added since the last time, all of the image self->d_from.  */
static wm_gpu_text_t lay (wm_windows_t *self, wm_windows_slot_t *slot)
{
    const uint32_t first = slot->n_laid, n = slot->n_row - first;
    wm_gpu_active_t args = self->pack.active;
    if (n == 0)
        return NULL;
    args.image = self->d_from, args.row = slot->d_row + first, args.n_row = n;
    args.active = slot->d_active, args.bad = slot->d_bad, args.index = slot->d_index;
    args.used = slot->d_used, args.value = slot->d_value + (args.lead ? WM_GPU_LEAD : 0);
    slot->n_laid = slot->n_row;
    CALL (copy_in, slot->d_row + first, slot->h_row + first, n * sizeof (wm_gpu_row_t), self->load);
    return launch (self, WM_GPU_ACTIVE, (n + THREADS / 32 - 1) / (THREADS / 32), THREADS,
                   wm_gpu_active_bytes (&args, THREADS), &args, self->load);
}

/* Opens a free slot: its list is empty.  */
static wm_gpu_text_t open_slot (wm_windows_t *self, wm_windows_slot_t *slot)
{
    const wm_gpu_fill_t args = { (float *) (void *) slot->d_used, 2, 0 }; /* 0 has the bits of 0 */
    TRY (mark (self, slot, WM_CUDA_LOAD, self->load));
    slot->n_row = slot->n_laid = slot->used = slot->n_hit = 0;
    self->base.open = true;
    return launch (self, WM_GPU_FILL, 1, 32, 0, &args, self->load);
}

wm_gpu_text_t wm_windows_start (wm_cuda_t *base, uint32_t s)
{
    wm_windows_t *self = (wm_windows_t *) base;
    wm_windows_slot_t *slot = &self->slot[s];
    const uint32_t tile = self->pack.dense.tile;
    uint32_t graph = 0;
    TRY (lay (self, slot));
    while (tile << graph < slot->n_hit)
        graph++;
    const uint32_t hits = tile << graph;
    for (uint32_t i = slot->n_hit; i < hits; i++)
        slot->h_hit[i] = WM_GPU_NO_PATCH;
    CALL (event_record, slot->laid, self->load);
    CALL (stream_wait, slot->stream, slot->laid);
    TRY (mark (self, slot, WM_CUDA_DENSE, slot->stream));
    if (self->config.timed)
        TRY (wm_windows_score_hits (self, slot, hits));
    else
        CALL (graph_run, slot->graph[graph], slot->stream);
    TRY (mark (self, slot, WM_CUDA_STAGES, slot->stream));
    CALL (event_record, slot->done, slot->stream);
    return NULL;
}

/* Adds the times of the stages; the first is all that the load stream does for the slot.  */
static wm_gpu_text_t add_times (wm_windows_t *self, wm_windows_slot_t *slot)
{
    for (int i = 0; self->config.timed && i < WM_CUDA_STAGES; i++) {
        float ms = 0;
        CALL (event_ms, slot->mark[i], slot->mark[i + 1], &ms);
        self->ms[i] += (double) ms;
    }
    return NULL;
}

/* Copies a slot's scores to its jobs; what is counted together are hits of one job in a row.  */
static void release_scores (wm_windows_t *self, wm_windows_slot_t *slot)
{
    const size_t n = self->pack.tail.n_output;
    for (uint32_t i = 0, first = 0; i < slot->n_hit; i++) {
        wm_job_t *job = slot->of[i].job;
        memcpy (job->scores + slot->of[i].hit * n, slot->h_scores + i * n, n * sizeof (float));
        if (i + 1 == slot->n_hit || slot->of[i + 1].job != job) {
            wm_jobs_count (&self->base.finished, job, i + 1 - first);
            first = i + 1;
        }
    }
}

/* Gives out scores only if the checksum of each hit holds.  */
wm_gpu_text_t wm_windows_complete (wm_cuda_t *base, uint32_t s)
{
    wm_windows_t *self = (wm_windows_t *) base;
    wm_windows_slot_t *slot = &self->slot[s];
    CALL (event_sync, slot->done);
    for (uint32_t i = 0; i < slot->n_hit; i++) {
        const double residual = (double) slot->h_residual[i];
        if (residual > self->worst)
            self->worst = residual;
        if (!(residual <= self->pack.tolerance))
            return wm_gpu_text ("the checksum of the first dense layer does not hold: off by %.2g "
                                "of its magnitude, %.2g is allowed",
                                residual, self->pack.tolerance);
    }
    release_scores (self, slot);
    return add_times (self, slot);
}

/* An open slot with room for `rows` rows of the maps, and a hit. Starts the slot that has none.  */
static wm_gpu_text_t room (wm_windows_t *self, uint32_t rows, wm_windows_slot_t **slot_p)
{
    const wm_windows_slot_t *slot = &self->slot[self->base.current];
    if (self->base.open && (slot->used + rows > self->height || slot->n_hit == self->hits_max))
        TRY (wm_cuda_start (&self->base));
    *slot_p = &self->slot[self->base.current];
    if (self->base.open)
        return NULL;
    TRY (wm_cuda_free (&self->base));
    return open_slot (self, *slot_p);
}

/* ---- units ----------------------------------------------------------------------------------- */

/* Adds a hit whose window begins at a row and a bit of the maps.  */
static void add_hit (wm_windows_t *self, wm_windows_slot_t *slot, uint32_t row, uint32_t bit,
                     wm_job_t *job, uint32_t hit)
{
    slot->of[slot->n_hit] = (wm_windows_hit_t){ job, hit };
    slot->h_hit[slot->n_hit++] = row * self->pack.dense.n_word * 32 + bit;
}

/* Jobs whose planes lie in one image, and for each its hits' first number among all of them.  */
typedef struct {
    uint32_t n;
    wm_job_t *const *job;
    uint32_t first[WM_PLANES_MAX + 1];
} group_t;

/* Hits of a strip, `place` of them in the order of the curve: as many as fit a slot become a unit.
   offset: of their patches in the image, whose rows have n_col cells. Returns how many were
   added.  */
static uint32_t add_unit (wm_windows_t *self, wm_windows_slot_t *slot, const group_t *group,
                          const wm_cuda_place_t *place, uint32_t n, const uint32_t *offset,
                          uint32_t n_col)
{
    const uint32_t patch = self->pack.dense.patch_row, room = self->height - slot->used,
                   left = offset[place[0].hit] % n_col / self->starts * self->starts;
    uint32_t low = UINT32_MAX, high = 0, count = 0;
    for (; count < n && slot->n_hit + count < self->hits_max; count++) {
        const uint32_t row = offset[place[count].hit] / n_col, l = row < low ? row : low,
                       h = row > high ? row : high;
        if (h - l + patch > room)
            break;
        low = l, high = h;
    }
    const uint32_t width = self->pack.width, cells = n_col - left < width ? n_col - left : width;
    for (uint32_t r = low; r < high + patch && count > 0; r++)
        slot->h_row[slot->n_row++] = (wm_gpu_row_t){
            .from = r * n_col + left,
            .stride = n_col,
            .to = (slot->used + r - low) * self->pack.dense.n_word,
            .count = cells - self->pack.active.kw + 1,
        };
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = offset[place[i].hit], job = place[i].job;
        add_hit (self, slot, slot->used + at / n_col - low, at % n_col - left, group->job[job],
                 place[i].hit - group->first[job]);
    }
    slot->used += count > 0 ? high - low + patch : 0;
    return count;
}

/* Adds all hits of the image on the device, strip by strip in the order of the curve.  */
static wm_gpu_text_t add_image (wm_windows_t *self, const group_t *group)
{
    uint32_t n_row, n_col;
    wm_windows_slot_t *slot = NULL;
    const uint32_t *offset = wm_cuda_plane_offset (self->plane);
    self->d_from = wm_cuda_plane_image (self->plane, &n_row, &n_col);
    const uint32_t patch = self->pack.dense.patch_row, tall = self->height - patch + 1,
                   strips = n_col / self->starts + 1, n = group->first[group->n];
    for (uint32_t i = 0, job = 0; i < n; i++) {
        const uint32_t row = offset[i] / n_col, col = offset[i] % n_col;
        while (i == group->first[job + 1])
            job++;
        self->place[i] =
            (wm_cuda_place_t){ wm_cuda_curve_key (row / tall * strips + col / self->starts,
                                                  row % tall, col % self->starts),
                               i, job };
    }
    const wm_cuda_place_t *place = wm_cuda_curve_sort (self->place, self->spare, n);
    for (uint32_t i = 0, end; i < n;) {
        TRY (room (self, patch, &slot));
        for (end = i; end < n && place[end].key >> 32 == place[i].key >> 32; end++)
            ;
        i += add_unit (self, slot, group, place + i, end - i, offset, n_col);
        if (i < end)
            TRY (room (self, self->height, &slot));
    }
    return lay (self, slot); /* before the image changes */
}

/* Patches from the source, `first` and on of the job.  */
static wm_gpu_text_t add_patches (wm_windows_t *self, wm_job_t *job, uint32_t first, uint32_t n,
                                  abreast_t *abreast)
{
    const wm_net_t *net = self->pack.net;
    const uint32_t patch = self->pack.dense.patch_row;
    for (uint32_t i = 0; i < n; i++) {
        wm_windows_slot_t *slot;
        TRY (room (self, abreast->n ? 0 : patch, &slot));
        if (slot->n_hit == 0)
            abreast->n = 0; /* another slot */
        if (abreast->n == 0)
            abreast->row = slot->used, slot->used += patch;
        const uint32_t word = abreast->n * wm_windows_pitch (self);
        for (uint32_t r = 0; r < patch; r++)
            slot->h_row[slot->n_row++] = (wm_gpu_row_t){
                .from = i * self->n_value + r * net->width,
                .stride = net->width,
                .to = (abreast->row + r) * self->pack.dense.n_word + word,
                .count = self->pack.dense.patch_col,
            };
        add_hit (self, slot, abreast->row, 32 * word, job, first + i);
        abreast->n = (abreast->n + 1) % wm_windows_abreast (self);
        if (i + 1 == n)
            TRY (lay (self, slot)); /* before the source changes */
    }
    return NULL;
}

/* Dense patches, or a plane's that the host cuts.  */
static wm_gpu_text_t add_source (wm_windows_t *self, wm_job_t *job)
{
    const wm_batch_t *batch = job->batch;
    abreast_t abreast = { 0 };
    for (uint32_t first = 0, n; first < batch->n_hit; first += n) {
        n = batch->n_hit - first < self->source_max ? batch->n_hit - first : self->source_max;
        const uint32_t s = self->n_source++ % WM_WINDOWS_SOURCES;
        CALL (event_sync, self->source[s].copied);
        const float *h_from = wm_cuda_patches (&self->base, self->cutter, batch, first, n,
                                               self->n_value, self->source[s].h);
        CALL (copy_in, self->d_source, h_from, (size_t) n * self->n_value * sizeof (float),
              self->load);
        CALL (event_record, self->source[s].copied, self->load);
        self->d_from = self->d_source;
        TRY (add_patches (self, job, first, n, &abreast));
    }
    return NULL;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Lays out the planes of the first of n jobs, as many as fit one image: *added of them.  */
static wm_gpu_text_t add_planes (wm_windows_t *self, uint32_t n, wm_job_t *const *job,
                                 uint32_t *added)
{
    group_t group = { .job = job };
    TRY (wm_cuda_plane_load_jobs (self->plane, n, job, self->load, &group.n));
    for (uint32_t i = 0; i < group.n; i++)
        group.first[i + 1] = group.first[i] + job[i]->batch->n_hit;
    *added = group.n;
    return group.n == 0 ? NULL : add_image (self, &group);
}

/* Adds a job whose patches the host has, or cuts. A plane that cannot be cut is refused.  */
static wm_gpu_text_t add_patches_of (wm_windows_t *self, wm_job_t *job)
{
    wm_fault_t fault = WM_OK;
    if (job->batch->kind != WM_BATCH_PATCHES)
        fault = self->cutter ? wm_plane_load (self->cutter, job->batch, &job->error)
                             : wm_fault (&job->error, WM_EBATCH,
                                         "a plane, but no specification to cut patches by");
    if (!fault)
        return add_source (self, job);
    job->error.fault = fault;
    wm_jobs_push (&self->base.finished, job);
    return NULL;
}

wm_gpu_text_t wm_windows_submit (wm_cuda_t *base, uint32_t n, wm_job_t *const *job)
{
    wm_windows_t *self = (wm_windows_t *) base;
    base->api->range_begin (base->gpu, "lay out jobs");
    for (uint32_t i = 0, added; i < n; i += added) {
        added = 0;
        if (self->plane && job[i]->batch->kind != WM_BATCH_PATCHES)
            TRY (add_planes (self, n - i, job + i, &added));
        if (added == 0) {
            TRY (add_patches_of (self, job[i]));
            added = 1;
        }
    }
    base->api->range_end (base->gpu);
    return NULL;
}
