/* wm_sparse.c - the exact-sparse CPU engine: opening it on a model, and batches as jobs.

   A job is one image and the cells of its hits: the plane of a batch in drift bins; each phase
   image of a batch in ticks, and the patches that are no window of one, cut; dense patches stacked,
   each its own window of an image as wide as a patch. From there on all jobs are the same.  */
#include "kernels/wm_sparse.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES (2u << 20)
#define SLOT_BYTES_MAX (128u << 20) /* a full plane of noise would ask for more */
#define CUT_PATCHES 512u            /* patches cut at a time where they are no windows */
#define BLOCK_FLOATS (2048u * 128u) /* accumulators of a block at most: 1 MB, twice */

/* ---- memory that only grows ------------------------------------------------------------------ */

bool wm_sparse_reserve (wm_sparse_buffer_t *self, size_t count, size_t each, uint64_t *allocations)
{
    size_t bytes, align;
    if (__builtin_mul_overflow (count, each, &bytes) || bytes > SIZE_MAX / 4)
        return false;
    if (bytes <= self->bytes && self->data)
        return true;
    bytes += bytes / 4 + 256; /* so that planes that grow a little do not allocate every time */
    align = bytes >= 2 * HUGE_BYTES ? HUGE_BYTES : 64;
    bytes = (bytes + align - 1) / align * align;
    wm_sparse_release (self);
    self->data = aligned_alloc (align, bytes);
    if (!self->data)
        return false;
    if (align == HUGE_BYTES)
        madvise (self->data, bytes, MADV_HUGEPAGE); /* a wish */
    self->bytes = bytes;
    ++*allocations;
    return true;
}

void wm_sparse_release (wm_sparse_buffer_t *self)
{
    free (self->data);
    *self = (wm_sparse_buffer_t){ 0 };
}

/* ---- which kernels --------------------------------------------------------------------------- */

const wm_sparse_kernel_t *const *wm_sparse_kernels (void)
{
    static const wm_sparse_kernel_t *const all[] = {
#if defined __x86_64__
        &wm_sparse_kernel_avx512,
        &wm_sparse_kernel_avx2,
#endif
        &wm_sparse_kernel_c,
        NULL
    };
    uint32_t first = 0;
#if defined __x86_64__
    __builtin_cpu_init ();
    if (!__builtin_cpu_supports ("avx512f") || !__builtin_cpu_supports ("avx512bw") ||
        !__builtin_cpu_supports ("avx512dq") || !__builtin_cpu_supports ("avx512vl"))
        first = 1;
    if (first == 1 && (!__builtin_cpu_supports ("avx2") || !__builtin_cpu_supports ("fma")))
        first = 2;
#endif
    return all + first; /* what has the better one has the others */
}

const wm_sparse_kernel_t *wm_sparse_kernel_choose (const char *precision, wm_error_t *error)
{
    const char *isa = getenv ("WM_ISA");
    (void) precision;
    for (const wm_sparse_kernel_t *const *can = wm_sparse_kernels (); *can; can++)
        if (!isa || !*isa || strcmp ((*can)->isa, isa) == 0)
            return *can;
    wm_fault (error, WM_EHOST,
              "WM_ISA=%s: not a kernel this machine can run; avx512, avx2 and c are known, unset "
              "WM_ISA for the best",
              isa);
    return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static uint32_t padded (uint32_t n)
{
    return (n + 15) / 16 * 16;
}

float *wm_sparse_floats (size_t count)
{
    float *p = aligned_alloc (64, (count * sizeof *p + 63) / 64 * 64);
    if (p)
        memset (p, 0, count * sizeof *p);
    return p;
}

/* What the net must be for this engine.  */
static wm_fault_t check_net (const wm_net_t *net, const wm_spec_t *spec, wm_error_t *error)
{
    if (net->n_conv < 1)
        return wm_fault (error, WM_EBATCH, "the sparse engine needs a convolution in front");
    if (spec &&
        (spec->patch_wire != net->height || spec->patch_bin != net->width || net->channel != 1))
        return wm_fault (error, WM_EBATCH,
                         "the specification's patch is %u x %u, the model's %u x %u x %u",
                         spec->patch_wire, spec->patch_bin, net->height, net->width, net->channel);
    for (uint32_t i = 0; i < net->n_conv; i++)
        if (net->conv[i].kw > 64)
            return wm_fault (error, WM_EBATCH,
                             "the sparse engine takes kernels of at most 64 columns, not %u",
                             net->conv[i].kw);
    return WM_OK;
}

/* The convolution where its window holds the constant of the layer below (Z for the first).  */
static void find_constant (wm_sparse_conv_t *conv, const float *below, float zero)
{
    for (uint32_t f = 0; f < conv->c_pad; f++) {
        double sum = (double) conv->bias[f];
        for (uint32_t i = 0; i < conv->kh * conv->kw * conv->c_in; i++)
            sum += (double) (below ? below[i % conv->c_in] : zero) *
                   (double) conv->weight[(size_t) i * conv->c_pad + f];
        conv->constant[f] = (float) wm_sparse_activated (conv->act, sum);
    }
}

static wm_fault_t open_conv (wm_sparse_t *self, uint32_t i, wm_error_t *error)
{
    const wm_conv_t *from = &self->net.conv[i];
    wm_sparse_conv_t *conv = &self->conv[i];
    uint32_t n = from->kh * from->kw * from->c_in;
    *conv = (wm_sparse_conv_t){
        .kh = from->kh,
        .kw = from->kw,
        .c_in = from->c_in,
        .c_out = from->c_out,
        .c_pad = padded (from->c_out),
        .act = from->act,
        .n_span = i == 0 ? from->kh : from->kh * from->kw,
        .span = i == 0 ? from->kw * from->c_in : from->c_in,
    };
    conv->weight = wm_sparse_floats ((size_t) n * conv->c_pad);
    conv->bias = wm_sparse_floats (conv->c_pad);
    conv->constant = wm_sparse_floats (conv->c_pad);
    conv->reference = wm_sparse_floats (conv->c_pad);
    if (!conv->weight || !conv->bias || !conv->constant || !conv->reference)
        return wm_fault (error, WM_EHOST, "no memory for convolution %u", i);
    for (uint32_t k = 0; k < n; k++)
        memcpy (conv->weight + (size_t) k * conv->c_pad, from->weight + (size_t) k * from->c_out,
                from->c_out * sizeof (float));
    memcpy (conv->bias, from->bias, from->c_out * sizeof (float));
    find_constant (conv, i ? conv[-1].constant : NULL, self->zero);
    if (i + 1 == self->net.n_conv && conv->act != WM_ACT_RELU)
        memcpy (conv->reference, conv->constant, conv->c_pad * sizeof (float));
    return WM_OK;
}

/* The parts of a root that do not depend on the patch: base and inactive, in one pass in double. */
static wm_fault_t fold_constant (wm_sparse_t *self, wm_sparse_root_t *root, wm_error_t *error)
{
    const wm_sparse_conv_t *conv = &self->conv[self->net.n_conv - 1];
    const uint32_t n_position = self->pos_rows * self->pos_cols, n = root->n_pad;
    bool any = false, differs = false;
    for (uint32_t f = 0; f < conv->c_out; f++) {
        any |= conv->constant[f] != 0;
        differs |= conv->constant[f] != conv->reference[f];
    }
    double *sum = calloc (3 * (size_t) n, sizeof *sum);
    root->inactive = wm_sparse_floats (n);
    root->base = differs ? wm_sparse_floats ((size_t) n_position * n) : NULL;
    if (!sum || !root->inactive || (differs && !root->base)) {
        free (sum);
        return wm_fault (error, WM_EHOST, "no memory for dense layer %u", root->dense);
    }
    double *all = sum, *here = sum + n;
    for (uint32_t i = 0; i < root->n_out; i++)
        all[i] = (double) self->net.dense[root->dense].bias[i];
    for (uint32_t p = 0; any && p < n_position; p++) {
        memset (here, 0, n * sizeof *here);
        for (uint32_t f = 0; f < conv->c_out; f++) {
            const float *w = root->weight + ((size_t) p * conv->c_out + f) * n;
            const double c = (double) conv->constant[f], d = (double) conv->reference[f] - c;
            for (uint32_t i = 0; c != 0 && i < n; i++) {
                all[i] += c * (double) w[i];
                here[i] += d * (double) w[i];
            }
        }
        for (uint32_t i = 0; differs && i < n; i++)
            root->base[(size_t) p * n + i] = (float) here[i];
    }
    for (uint32_t i = 0; i < n; i++)
        root->inactive[i] = (float) all[i];
    free (sum);
    return WM_OK;
}

static wm_fault_t open_root (wm_sparse_t *self, uint32_t dense_index, wm_error_t *error)
{
    const wm_dense_t *dense = &self->net.dense[dense_index];
    const uint32_t n_row =
        self->pos_rows * self->pos_cols * self->net.conv[self->net.n_conv - 1].c_out;
    wm_sparse_root_t *root = &self->root[self->n_root++];
    *root = (wm_sparse_root_t){
        .n_out = dense->n_out,
        .n_pad = padded (dense->n_out),
        .offset = self->stride,
        .dense = dense_index,
        .weight = dense->weight,
    };
    self->stride += root->n_pad;
    if (dense->n_in != n_row)
        return wm_fault (error, WM_EBATCH, "dense layer %u takes %u values, the convolution has %u",
                         dense_index, dense->n_in, n_row);
    if (root->n_pad != root->n_out || (uintptr_t) root->weight % 64) {
        float *copy = wm_sparse_floats ((size_t) n_row * root->n_pad);
        if (!copy)
            return wm_fault (error, WM_EHOST, "no memory for dense layer %u", dense_index);
        for (uint32_t k = 0; k < n_row; k++)
            memcpy (copy + (size_t) k * root->n_pad, dense->weight + (size_t) k * root->n_out,
                    root->n_out * sizeof (float));
        root->weight = copy;
    }
    return fold_constant (self, root, error);
}

static wm_fault_t open_threads (wm_sparse_t *self, wm_error_t *error)
{
    uint32_t n_span = 0, c_pad = 0;
    for (uint32_t i = 0; i < self->net.n_conv; i++) {
        n_span = self->conv[i].n_span > n_span ? self->conv[i].n_span : n_span;
        c_pad = self->conv[i].c_pad > c_pad ? self->conv[i].c_pad : c_pad;
    }
    self->cells_max = BLOCK_FLOATS / self->stride / 16 * 16;
    if (self->cells_max < 64)
        self->cells_max = 64;
    const size_t cells = self->cells_max, list = cells + 16 + WM_SPARSE_AHEAD + 12;
    const size_t accumulators = cells * self->stride;
    const size_t values = WM_SPARSE_POSITIONS * (size_t) c_pad;
    const size_t count = 2 * accumulators + 2 * cells + cells + 2 * list + values +
                         (self->tail_floats + 15) / 16 * 16 +
                         2 * WM_SPARSE_POSITIONS * (size_t) n_span;
    self->thread = calloc (self->threads, sizeof *self->thread);
    for (uint32_t t = 0; self->thread && t < self->threads; t++) {
        wm_sparse_thread_t *mine = &self->thread[t];
        if (!wm_sparse_reserve (&mine->memory, count, sizeof (float), &self->stats.allocations))
            return wm_fault (error, WM_EHOST, "no memory for thread %u", t);
        float *p = mine->memory.data;
        mine->row = p, p += accumulators;
        mine->total = p, p += accumulators;
        mine->mask = (void *) p, p += 2 * cells;
        mine->slot = (void *) p, p += cells;
        mine->list_cell = (void *) p, p += list;
        mine->list_slot = (void *) p, p += list;
        mine->value = p, p += values;
        mine->tail = p, p += (self->tail_floats + 15) / 16 * 16;
        mine->span = (void *) p;
    }
    self->pool = wm_sparse_pool_new (self->threads);
    if (!self->thread || !self->pool)
        return wm_fault (error, WM_EHOST, "cannot start %u threads", self->threads);
    return WM_OK;
}

static wm_fault_t open_net (wm_sparse_t *self, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    self->pos_rows = self->net.height, self->pos_cols = self->net.width;
    for (uint32_t i = 0; i < self->net.n_conv && !fault; i++) {
        self->pos_rows -= self->net.conv[i].kh - 1;
        self->pos_cols -= self->net.conv[i].kw - 1;
        fault = open_conv (self, i, error);
    }
    for (uint32_t i = 0; i < self->net.n_dense && !fault; i++) {
        const wm_dense_t *dense = &self->net.dense[i];
        if (dense->output >= 0 && (uint32_t) dense->output + dense->n_out > self->n_output)
            self->n_output = (uint32_t) dense->output + dense->n_out;
        if (dense->parent < 0)
            fault = open_root (self, i, error);
    }
    if (!fault)
        fault = wm_sparse_tail_new (self, error);
    const wm_sparse_conv_t *conv = &self->conv[self->net.n_conv - 1];
    self->values.stride_bytes = (size_t) conv->c_pad * self->kernel->value_bytes;
    self->values.n_mask = (conv->c_out + 63) / 64;
    return fault ? fault : open_threads (self, error);
}

wm_sparse_t *wm_sparse_new (const wm_net_t *net, const wm_spec_t *spec, uint32_t threads,
                            const wm_sparse_kernel_t *kernel, wm_error_t *error)
{
    if (check_net (net, spec, error))
        return NULL;
    wm_sparse_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "no memory for the sparse engine");
        return NULL;
    }
    self->net = *net;
    self->threads = threads > 0 ? threads : 1;
    self->slot_bytes_max = SLOT_BYTES_MAX;
    self->kernel = kernel ? kernel : wm_sparse_kernels ()[0];
    if (spec) {
        self->has_spec = true;
        self->spec = *spec;
        self->zero = wm_spec_zero (spec);
        self->plane = wm_plane_new (spec);
    }
    if (open_net (self, error))
        wm_sparse_destroy (&self);
    return self;
}

void wm_sparse_destroy (wm_sparse_t **self_p)
{
    wm_sparse_t *self = *self_p;
    if (!self)
        return;
    wm_sparse_pool_destroy (&self->pool);
    for (uint32_t t = 0; self->thread && t < self->threads; t++)
        wm_sparse_release (&self->thread[t].memory);
    free (self->thread);
    for (uint32_t i = 0; i < self->net.n_conv; i++) {
        free (self->conv[i].weight);
        free (self->conv[i].bias);
        free (self->conv[i].constant);
        free (self->conv[i].reference);
    }
    for (uint32_t i = 0; i < self->n_root; i++) {
        if (self->root[i].weight != self->net.dense[self->root[i].dense].weight)
            free ((void *) (uintptr_t) self->root[i].weight);
        free (self->root[i].base);
        free (self->root[i].inactive);
    }
    wm_sparse_tail_destroy (self);
    wm_plane_destroy (&self->plane);
    for (uint32_t l = 0; l <= WM_MODEL_CONVS_MAX; l++) {
        wm_sparse_release (&self->active[l].bits);
        wm_sparse_release (&self->active[l].ranks);
        wm_sparse_release (&self->live[l].bits);
        wm_sparse_release (&self->live[l].ranks);
        wm_sparse_release (&self->mids[l]);
    }
    wm_sparse_buffer_t *buffer[] = { &self->cells,   &self->orders, &self->orders2,
                                     &self->blocks,  &self->scores, &self->hits,
                                     &self->patches, &self->masks,  &self->slots };
    for (size_t i = 0; i < sizeof buffer / sizeof *buffer; i++)
        wm_sparse_release (buffer[i]);
    free (self);
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

/* Copies the scores of the job's cells to its hits.  */
static void deliver (const wm_sparse_t *self, uint32_t n_hit, uint8_t *status, float *scores)
{
    for (uint32_t i = 0; i < n_hit; i++) {
        if (self->hit_cell[i] == UINT32_MAX)
            continue;
        const float *from = self->cell_score + (size_t) self->hit_cell[i] * self->n_output;
        float *to = scores + (size_t) i * self->n_output;
        bool finite = true;
        for (uint32_t k = 0; k < self->n_output; k++)
            finite &= isfinite (from[k]) != 0;
        for (uint32_t k = 0; k < self->n_output; k++)
            to[k] = finite ? from[k] : NAN;
        status[i] = finite ? WM_HIT_SCORED : WM_HIT_NONFINITE;
    }
}

static wm_fault_t begin (wm_sparse_t *self, uint32_t n_hit, wm_error_t *error)
{
    uint64_t *count = &self->stats.allocations;
    if (!wm_sparse_reserve (&self->cells, n_hit, sizeof *self->cell, count) ||
        !wm_sparse_reserve (&self->hits, n_hit, sizeof *self->hit_cell, count) ||
        !wm_sparse_reserve (&self->scores, (size_t) n_hit * self->n_output, sizeof (float), count))
        return wm_fault (error, WM_EHOST, "no memory for %u hits", n_hit);
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

static wm_fault_t score_patches (wm_sparse_t *self, const wm_batch_t *batch, uint8_t *status,
                                 float *scores, wm_error_t *error)
{
    const uint32_t want = self->net.height * self->net.width * self->net.channel;
    if (batch->patch_values != want)
        return wm_fault (error, WM_EBATCH, "patches of %u values, the model takes %u",
                         batch->patch_values, want);
    if ((uint64_t) batch->n_hit * self->net.height > UINT32_MAX / 2)
        return wm_fault (error, WM_EBATCH, "%u patches are too many for a batch", batch->n_hit);
    clear_job (self, batch->n_hit);
    for (uint32_t i = 0; i < batch->n_hit; i++)
        add_cell (self, i, i * self->net.height, 0);
    wm_fault_t fault = run_stack (self, batch->patch, batch->n_hit, error);
    if (!fault)
        deliver (self, batch->n_hit, status, scores);
    return fault;
}

/* Hits whose patch is a window of image m of the loaded plane.  */
static wm_fault_t score_image (wm_sparse_t *self, const wm_batch_t *batch, uint32_t m,
                               uint8_t *status, float *scores, wm_error_t *error)
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
    wm_fault_t fault = run_cells (self, error);
    if (!fault)
        deliver (self, batch->n_hit, status, scores);
    return fault;
}

/* Hits whose patch is no window: cut and stacked, some at a time.  */
static wm_fault_t score_rest (wm_sparse_t *self, const wm_batch_t *batch, uint8_t *status,
                              float *scores, wm_error_t *error)
{
    const size_t each = (size_t) self->net.height * self->net.width;
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < batch->n_hit && !fault;) {
        uint32_t count = 0, image, row, col;
        clear_job (self, batch->n_hit);
        for (; i < batch->n_hit && count < CUT_PATCHES; i++) {
            if (wm_plane_place (self->plane, i, &image, &row, &col))
                continue;
            if (!wm_sparse_reserve (&self->patches, CUT_PATCHES * each, sizeof (float),
                                    &self->stats.allocations))
                return wm_fault (error, WM_EHOST, "no memory for %u patches", CUT_PATCHES);
            wm_plane_cut (self->plane, i, 1, (float *) self->patches.data + count * each);
            add_cell (self, i, count++ * self->net.height, 0);
        }
        if (count > 0 && !(fault = run_stack (self, self->patches.data, count, error)))
            deliver (self, batch->n_hit, status, scores);
    }
    return fault;
}

wm_fault_t wm_sparse_score (wm_sparse_t *self, const wm_batch_t *batch, uint8_t *status,
                            float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    if (batch->n_hit == 0)
        return WM_OK;
    wm_fault_t fault = begin (self, batch->n_hit, error);
    self->progress = progress;
    if (fault)
        return fault;
    if (batch->kind == WM_BATCH_PATCHES)
        return score_patches (self, batch, status, scores, error);
    if (!self->has_spec)
        return wm_fault (error, WM_EBATCH, "a plane, but no specification to cut patches by");
    if (!self->plane)
        return wm_fault (error, WM_EHOST, "no memory for a plane");
    fault = wm_plane_load (self->plane, batch, error);
    for (uint32_t m = 0; m < wm_plane_n_image (self->plane) && !fault; m++)
        fault = score_image (self, batch, m, status, scores, error);
    return fault ? fault : score_rest (self, batch, status, scores, error);
}

wm_sparse_stats_t wm_sparse_stats (const wm_sparse_t *self)
{
    return self->stats;
}

/* ---- the door -------------------------------------------------------------------------------- */

static void *engine_open (const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    const wm_net_t *net = wm_model_net (model);
    if (!net) {
        wm_fault (error, WM_EBATCH, "the sparse engine does not run this model: %s",
                  wm_model_why (model));
        return NULL;
    }
    const wm_sparse_kernel_t *kernel = wm_sparse_kernel_choose (config->precision, error);
    if (!kernel)
        return NULL;
    wm_sparse_t *self = wm_sparse_new (
        net, spec, (uint32_t) (config->threads > 0 ? config->threads : 1), kernel, error);
    if (self)
        snprintf (signature, 64, "sparse/%s/%s/v1", kernel->isa, kernel->precision);
    return self;
}

static void engine_close (void *engine)
{
    wm_sparse_t *self = engine;
    wm_sparse_destroy (&self);
}

static wm_fault_t engine_score (void *engine, const wm_batch_t *batch, uint8_t *status,
                                float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    return wm_sparse_score (engine, batch, status, scores, progress, error);
}

const wm_engine_t wm_engine_sparse = {
    .name = "sparse",
    .open = engine_open,
    .close = engine_close,
    .score = engine_score,
};
