/* wm_sparse.c - the exact-sparse CPU engine: opening it on a model, and batches as jobs.

   A job is one image and the cells of its hits: the plane of a batch in drift bins; each phase
   image of a batch in ticks, and the patches that are no window of one, cut; dense patches stacked,
   each its own window of an image as wide as a patch. From there on all jobs are the same.  */
#include "kernels/sparse/wm_sparse.h"
#include "schema/base/wm_allowance.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_BYTES_MAX (128u << 20) /* a full plane of noise would ask for more */
#define SLOT_PART 16                /* likewise, of the memory that this process may use */
#define FULL_FROM 0.8               /* measured, AVX-512 and AVX2 */
#define CUT_PATCHES 512u            /* patches cut at a time where they are no windows */
#define JOINED_PATCHES 128u         /* of small batches in one job */

/* ---- opening --------------------------------------------------------------------------------- */

/* Refuses a net that this engine cannot run.  */
static wm_fault_t check_net (const wm_net_t *net, const wm_spec_t *spec, wm_error_t *error)
{
    if (net->n_conv < 1)
        return wm_fault (error, WM_EBATCH, "the sparse engine needs a convolution in front");
    if (spec && (spec->patch_wire != net->height || spec->patch_bin != net->width ||
                 wm_spec_channels (spec) != net->channel))
        return wm_fault (error, WM_EBATCH,
                         "the specification's patch is %u x %u x %u, the model's %u x %u x %u",
                         spec->patch_wire, spec->patch_bin, wm_spec_channels (spec), net->height,
                         net->width, net->channel);
    uint32_t rows = net->height, cols = net->width;
    for (uint32_t i = 0; i < net->n_conv; i++) {
        const wm_conv_t *conv = &net->conv[i];
        if (conv->kw > WM_MODEL_KERNEL_COLUMNS_MAX)
            return wm_fault (error, WM_EBATCH,
                             "the sparse engine takes kernels of at most %d columns, not %u",
                             WM_MODEL_KERNEL_COLUMNS_MAX, conv->kw);
        if (conv->kh < 1 || conv->kw < 1 || conv->kh > rows || conv->kw > cols)
            return wm_fault (error, WM_EBATCH, "convolution %u of %u x %u does not fit %u x %u", i,
                             conv->kh, conv->kw, rows, cols);
        rows -= conv->kh - 1, cols -= conv->kw - 1;
    }
    return WM_OK;
}

/* A copy of what the net fixes. NULL without memory.  */
static wm_sparse_t *new_job (const wm_sparse_t *self)
{
    wm_sparse_t *job = malloc (sizeof *job);
    if (!job)
        return NULL;
    memcpy (job, self, offsetof (wm_sparse_t, other));
    job->stats = (wm_sparse_stats_t){ 0 };
    atomic_init (&job->other, NULL);
    atomic_flag_clear (&job->is_taken);
    return job;
}

wm_sparse_t *wm_sparse_new (const wm_net_t *net, const wm_spec_t *spec,
                            const wm_sparse_config_t *config, wm_error_t *error)
{
    if (check_net (net, spec, error))
        return NULL;
    wm_sparse_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "no memory for the sparse engine");
        return NULL;
    }
    self->net = *net;
    self->on_callers = config->on_callers;
    self->threads = config->threads > 0 && !self->on_callers ? config->threads : 1;
    self->pin = config->pin, self->cache = config->cache;
    self->slot_bytes_max = wm_allowance_part (wm_allowance (), SLOT_PART, SLOT_BYTES_MAX);
    self->full_from = FULL_FROM;
    self->kernel = config->kernel;
    if (spec) {
        self->has_spec = true;
        self->spec = *spec;
        self->zero = wm_spec_zero (spec);
    }
    wm_fault_t fault = wm_sparse_open (self, error);
    wm_sparse_t *other = !fault && self->threads > 1 ? new_job (self) : NULL;
    self->other = other; /* tried as it is: clang 14 takes no ! of an _Atomic */
    if (!fault && self->threads > 1 && !other)
        fault = wm_fault (error, WM_EHOST, "no memory for the sparse engine");
    for (wm_sparse_t *job = self; job && spec && !self->on_callers; job = job->other)
        job->plane = wm_plane_new (spec);
    if (fault)
        wm_sparse_destroy (&self);
    return self;
}

/* Frees what a job has of its own.  */
static void free_job (wm_sparse_t *self)
{
    wm_plane_destroy (&self->plane);
    for (uint32_t l = 0; l <= WM_MODEL_CONVS_MAX; l++) {
        wm_sparse_release (&self->active[l].bits);
        wm_sparse_release (&self->active[l].ranks);
        wm_sparse_release (&self->live[l].bits);
        wm_sparse_release (&self->live[l].ranks);
        wm_sparse_release (&self->mids[l]);
    }
    wm_sparse_buffer_t *buffer[] = { &self->cells,  &self->orders, &self->orders2, &self->blocks,
                                     &self->scores, &self->hits,   &self->patches, &self->many,
                                     &self->masks,  &self->slots };
    for (size_t i = 0; i < sizeof buffer / sizeof *buffer; i++)
        wm_sparse_release (buffer[i]);
    free (self);
}

void wm_sparse_destroy (wm_sparse_t **self_p)
{
    wm_sparse_t *self = *self_p;
    if (!self)
        return;
    wm_sparse_close (self);
    for (wm_sparse_t *job = self->other, *next; job; job = next) {
        next = job->other;
        if (self->on_callers)
            wm_sparse_close_threads (job);
        free_job (job);
    }
    free_job (self);
    *self_p = NULL;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void add_cell (wm_sparse_t *self, uint32_t hit, uint32_t row, uint32_t col)
{
    wm_sparse_cell_t *last = self->cell + self->n_cell - 1;
    if (self->n_cell == 0 || last->row != row || last->col != col) {
        *++last = (wm_sparse_cell_t){ .row = row, .col = col };
        self->n_cell++;
    }
    last->n_hit++;
    self->hit_cell[hit] = self->n_cell - 1;
}

/* Scores the cells of self->image.  */
static wm_fault_t run_cells (wm_sparse_t *self, wm_error_t *error)
{
    wm_fault_t fault = wm_sparse_scan (self, error);
    for (self->group_first = 0; self->group_first < self->n_cell && !fault;
         self->group_first += self->group_cells) {
        fault = wm_sparse_convolve (self, error);
        if (!fault)
            fault = wm_sparse_blocks (self, error);
    }
    return fault;
}

/* Copies the scores of the job's cells to its hits. (wm_device.c holds hits with non-finite
   scores.)  */
static void deliver (const wm_sparse_t *self, uint32_t n_hit, float *scores)
{
    for (uint32_t i = 0; i < n_hit; i++)
        if (self->hit_cell[i] != UINT32_MAX)
            memcpy (scores + (size_t) i * self->n_output,
                    self->cell_score + (size_t) self->hit_cell[i] * self->n_output,
                    self->n_output * sizeof *scores);
}

static wm_fault_t begin (wm_sparse_t *self, uint32_t n_hit, wm_error_t *error)
{
    uint64_t *count = &self->stats.allocations;
    if (!wm_sparse_reserve (&self->cells, n_hit, sizeof *self->cell, count) ||
        !wm_sparse_reserve (&self->hits, n_hit, sizeof *self->hit_cell, count) ||
        !wm_sparse_reserve (&self->scores, (size_t) n_hit * self->n_output, sizeof (float), count))
        return wm_fault (error, WM_EAGAIN, "no memory for %u hits", n_hit);
    self->cell = self->cells.data, self->hit_cell = self->hits.data;
    self->cell_score = self->scores.data;
    return WM_OK;
}

static void clear_job (wm_sparse_t *self, uint32_t n_hit)
{
    self->n_cell = 0;
    memset (self->hit_cell, 0xff, n_hit * sizeof *self->hit_cell);
}

/* Patches stacked to an image.  */
static wm_fault_t run_stack (wm_sparse_t *self, const float *patches, uint32_t count,
                             wm_error_t *error)
{
    self->image = patches;
    self->n_row = count * self->net.height, self->n_col = self->net.width;
    return run_cells (self, error);
}

static wm_fault_t score_patches (wm_sparse_t *self, const wm_batch_t *batch, float *scores,
                                 wm_error_t *error)
{
    const uint32_t want = self->net.height * self->net.width * self->net.channel;
    if (batch->patch_values != want)
        return wm_fault (error, WM_EBATCH, "patches of %u values, the model takes (%u, %u, %u)",
                         batch->patch_values, self->net.height, self->net.width, self->net.channel);
    if ((uint64_t) batch->n_hit * self->net.height > UINT32_MAX / 2)
        return wm_fault (error, WM_EBATCH, "%u patches are too many for a batch", batch->n_hit);
    clear_job (self, batch->n_hit);
    for (uint32_t i = 0; i < batch->n_hit; i++)
        add_cell (self, i, i * self->net.height, 0);
    wm_fault_t fault = run_stack (self, batch->patch, batch->n_hit, error);
    if (!fault)
        deliver (self, batch->n_hit, scores);
    return fault;
}

/* Leaves of the image the rows that cells read: a batch may be few hits of a large plane.  */
static void crop (wm_sparse_t *self)
{
    uint32_t first = UINT32_MAX, last = 0;
    for (uint32_t i = 0; i < self->n_cell; i++) {
        first = self->cell[i].row < first ? self->cell[i].row : first;
        last = self->cell[i].row > last ? self->cell[i].row : last;
    }
    self->image += (size_t) first * self->n_col * self->net.channel;
    self->n_row = last - first + self->net.height;
    for (uint32_t i = 0; i < self->n_cell; i++)
        self->cell[i].row -= first;
}

/* Hits whose patch is a window of image m of the loaded plane.  */
static wm_fault_t score_image (wm_sparse_t *self, const wm_batch_t *batch, uint32_t m,
                               float *scores, wm_error_t *error)
{
    self->image = wm_plane_image (self->plane, m, &self->n_row, &self->n_col);
    clear_job (self, batch->n_hit);
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        uint32_t image, row, col;
        if (wm_plane_place (self->plane, i, &image, &row, &col) && image == m)
            add_cell (self, i, row, col);
    }
    if (self->n_cell == 0)
        return WM_OK;
    crop (self);
    wm_fault_t fault = run_cells (self, error);
    if (!fault)
        deliver (self, batch->n_hit, scores);
    return fault;
}

/* Hits whose patch is no window: cut and stacked, some at a time.  */
static wm_fault_t score_rest (wm_sparse_t *self, const wm_batch_t *batch, float *scores,
                              wm_error_t *error)
{
    const size_t each = (size_t) self->net.height * self->net.width * self->net.channel;
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < batch->n_hit && !fault;) {
        uint32_t count = 0, image, row, col;
        clear_job (self, batch->n_hit);
        for (; i < batch->n_hit && count < CUT_PATCHES; i++) {
            if (wm_plane_place (self->plane, i, &image, &row, &col))
                continue;
            if (!wm_sparse_reserve (&self->patches, CUT_PATCHES * each, sizeof (float),
                                    &self->stats.allocations))
                return wm_fault (error, WM_EAGAIN, "no memory for %u patches", CUT_PATCHES);
            wm_plane_cut (self->plane, i, 1, (float *) self->patches.data + count * each);
            add_cell (self, i, count++ * self->net.height, 0);
        }
        if (count > 0 && !(fault = run_stack (self, self->patches.data, count, error)))
            deliver (self, batch->n_hit, scores);
    }
    return fault;
}

static wm_fault_t score_batch (wm_sparse_t *self, const wm_batch_t *batch, float *scores,
                               wm_error_t *error)
{
    if (batch->n_hit == 0)
        return WM_OK;
    wm_fault_t fault = begin (self, batch->n_hit, error);
    if (fault)
        return fault;
    if (batch->kind == WM_BATCH_PATCHES)
        return score_patches (self, batch, scores, error);
    if (!self->has_spec)
        return wm_fault (error, WM_EBATCH, "a plane, but no specification to cut patches by");
    if (!self->plane)
        return wm_fault (error, WM_EAGAIN, "no memory for a plane");
    fault = wm_plane_load (self->plane, batch, error);
    for (uint32_t m = 0; m < wm_plane_n_image (self->plane) && !fault; m++)
        fault = score_image (self, batch, m, scores, error);
    return fault ? fault : score_rest (self, batch, scores, error);
}

/* Copies these batches one after another, scores them as one, and takes the scores apart.  */
static wm_fault_t score_joined (wm_sparse_t *self, uint32_t n, const wm_batch_t *const *batch,
                                float *const *scores, uint32_t n_hit, wm_error_t *error)
{
    const size_t each = batch[0]->patch_values;
    uint64_t *count = &self->stats.allocations;
    if (!wm_sparse_reserve (&self->patches, n_hit * each, sizeof (float), count) ||
        !wm_sparse_reserve (&self->many, (size_t) n_hit * self->n_output, sizeof (float), count))
        return wm_fault (error, WM_EAGAIN, "no memory for %u patches", n_hit);
    const wm_batch_t all = { .kind = WM_BATCH_PATCHES,
                             .n_hit = n_hit,
                             .patch_values = batch[0]->patch_values,
                             .patch = self->patches.data };
    float *to = self->patches.data, *from = self->many.data;
    for (uint32_t i = 0; i < n; i++) {
        memcpy (to, batch[i]->patch, batch[i]->n_hit * each * sizeof *to);
        to += batch[i]->n_hit * each;
    }
    wm_fault_t fault = score_batch (self, &all, from, error);
    for (uint32_t i = 0; i < n && !fault; i++) {
        memcpy (scores[i], from, (size_t) batch[i]->n_hit * self->n_output * sizeof *from);
        from += (size_t) batch[i]->n_hit * self->n_output;
    }
    return fault;
}

typedef struct {
    wm_sparse_t *job;
    uint32_t n;
    const wm_batch_t *const *batch;
    float *const *scores;
    wm_fault_t fault;
    wm_error_t *error;
} call_t;

/* The one task of a call.  */
static void run_call (void *arg, uint32_t task, uint32_t thread)
{
    call_t *call = arg;
    const wm_batch_t *const *batch = call->batch;
    (void) task, (void) thread;
    for (uint32_t i = 0, next; i < call->n && !call->fault; i = next) {
        uint32_t n_hit = 0;
        for (next = i; next < call->n && batch[next]->kind == WM_BATCH_PATCHES &&
                       batch[next]->patch_values == batch[i]->patch_values &&
                       batch[next]->n_hit <= JOINED_PATCHES - n_hit;
             next++)
            n_hit += batch[next]->n_hit;
        if (next > i + 1)
            call->fault =
                score_joined (call->job, next - i, batch + i, call->scores + i, n_hit, call->error);
        else {
            next = i + 1;
            call->fault = score_batch (call->job, batch[i], call->scores[i], call->error);
        }
    }
}

/* Adds a job, taken by this call, with memory of its own for one thread. NULL with *error.  */
static wm_sparse_t *add_job (wm_sparse_t *self, wm_error_t *error)
{
    wm_sparse_t *job = new_job (self);
    wm_fault_t fault = job ? wm_sparse_open_threads (job, error) : WM_EAGAIN;
    if (job && !fault && job->has_spec && !(job->plane = wm_plane_new (&job->spec)))
        fault = WM_EAGAIN;
    if (fault && job) {
        wm_sparse_close_threads (job);
        free_job (job);
    }
    if (fault) {
        wm_fault (error, WM_EAGAIN, "no memory for one more call at once");
        return NULL;
    }
    atomic_flag_test_and_set (&job->is_taken);
    wm_sparse_t *first = self->other;
    do
        job->other = first;
    while (!atomic_compare_exchange_weak (&self->other, &first, job));
    return job;
}

wm_fault_t wm_sparse_score_many (wm_sparse_t *self, uint32_t n, const wm_batch_t *const *batch,
                                 float *const *scores, _Atomic uint64_t *progress,
                                 wm_error_t *error)
{
    call_t call = { .n = n, .batch = batch, .scores = scores, .error = error };
    call.job = self->on_callers ? self->other : self;
    while (call.job && atomic_flag_test_and_set (&call.job->is_taken))
        call.job = call.job->other;
    assert (call.job || self->on_callers); /* no more calls at once than jobs */
    if (!call.job && !(call.job = add_job (self, error)))
        return WM_EAGAIN;
    call.job->progress = progress;
    wm_sparse_pool_run (self->pool, run_call, &call, 1);
    atomic_flag_clear (&call.job->is_taken);
    return call.fault;
}

wm_fault_t wm_sparse_score (wm_sparse_t *self, const wm_batch_t *batch, float *scores,
                            _Atomic uint64_t *progress, wm_error_t *error)
{
    return wm_sparse_score_many (self, 1, &batch, &scores, progress, error);
}

wm_sparse_stats_t wm_sparse_stats (const wm_sparse_t *self)
{
    wm_sparse_stats_t sum = self->stats;
    for (const wm_sparse_t *job = self->other; job; job = job->other) {
        const wm_sparse_stats_t *other = &job->stats;
        sum.pairs += other->pairs, sum.positions += other->positions, sum.cells += other->cells;
        sum.madds += other->madds, sum.allocations += other->allocations;
    }
    return sum;
}
