/* wm_opencl.c - batches on an OpenCL device.

   The patches of a batch are windows of images, as in the CPU's engine: of a plane, of each phase
   of one in own view, of patches that lie one above the other. Of an image the device gets REGIONS,
   the rectangles that its hits need, as large as its memory takes:

     see       which positions are live: their slots, and their list
     convolve  the values of the list; both for each convolution
     band      the sums of each row of positions, for each first dense layer and hits_max hits
     root, layer, softmax   the dense layers; then the host reads the scores

   All memory is reserved when the engine is made. The host never waits but for the scores.  */
#include "kernels/opencl/wm_opencl_private.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define HITS_MAX 2048u
#define CELLS_MAX (UINT64_C (1) << 26) /* positions are numbered in 32 bits */
#define MEMORY_PART 2u                 /* of the device's, at most */
#define MEMORY_MAX (UINT64_C (2) << 30)
#define ITEMS_MAX 128u /* of a group */
#define GROUPS_A_UNIT 16u
#define STRIP_ROWS 8u /* hits are taken in strips of so many rows, for tiles of neighbours */

/* ---- memory ---------------------------------------------------------------------------------- */

/* Bytes of a pixel of a region, on average, and the largest of one buffer.  */
static uint64_t bytes_of_cell (const wm_net_t *net, uint64_t *largest)
{
    uint64_t bytes = (net->channel + UINT64_C (1)) * sizeof (float);
    *largest = net->channel * sizeof (float);
    for (uint32_t l = 0; l < net->n_conv; l++) {
        const uint64_t values = net->conv[l].c_out * sizeof (float);
        bytes += values + sizeof (uint32_t);
        *largest = values > *largest ? values : *largest;
    }
    return bytes;
}

static uint64_t bytes_of_hit (const wm_opencl_t *self, uint64_t *largest)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < self->net.n_dense; i++)
        if (self->net.dense[i].parent < 0 && self->net.dense[i].n_out > n)
            n = self->net.dense[i].n_out;
    *largest = (uint64_t) self->pos_rows * n * sizeof (float);
    return *largest + (1 + self->floats + (uint64_t) self->n_output) * sizeof (float);
}

static wm_cl_object *buffer_of (wm_opencl_t *self, uint32_t i, uint64_t *bytes)
{
    uint64_t largest;
    bytes_of_hit (self, &largest);
    struct {
        wm_cl_object *buffer;
        uint64_t bytes;
    } all[] = {
        { &self->image, self->cells_max * self->net.channel * sizeof (float) },
        { &self->list, self->cells_max * sizeof (uint32_t) },
        { &self->count, WM_MODEL_CONVS_MAX * sizeof (uint32_t) },
        { &self->hit, self->hits_max * sizeof (uint32_t) },
        { &self->sum, self->hits_max * largest },
        { &self->layers, (uint64_t) self->hits_max * self->floats * sizeof (float) },
        { &self->scores, (uint64_t) self->hits_max * self->n_output * sizeof (float) },
    };
    const uint32_t n = sizeof all / sizeof *all, conv = i < n ? 0 : (i - n) / 2;
    if (i >= n + 2 * self->net.n_conv)
        return NULL;
    if (i < n)
        *bytes = all[i].bytes;
    else
        *bytes = self->cells_max * sizeof (float) *
                 ((i - n) % 2 ? self->net.conv[conv].c_out : 1u /* a slot */);
    return i < n ? all[i].buffer : (i - n) % 2 ? &self->conv[conv].value : &self->conv[conv].slot;
}

static void release_job (wm_opencl_t *self)
{
    wm_cl_object *buffer;
    uint64_t bytes;
    for (uint32_t i = 0; (buffer = buffer_of (self, i, &bytes)) != NULL; i++)
        wm_opencl_release (&self->device, buffer);
}

static bool reserve_job (wm_opencl_t *self)
{
    wm_cl_object *buffer;
    uint64_t bytes;
    for (uint32_t i = 0; (buffer = buffer_of (self, i, &bytes)) != NULL; i++)
        if (!(*buffer = wm_opencl_buffer (&self->device, bytes)) ||
            !wm_opencl_touch (&self->device, *buffer)) {
            release_job (self);
            return false;
        }
    return true;
}

/* Finds the largest regions that the device has memory for.  */
static wm_fault_t reserve (wm_opencl_t *self, uint64_t memory, wm_error_t *error)
{
    const wm_opencl_info_t *info = &self->device.info;
    uint64_t cell_largest, hit_largest;
    const uint64_t cell = bytes_of_cell (&self->net, &cell_largest),
                   hit = bytes_of_hit (self, &hit_largest),
                   least = (uint64_t) self->net.height * self->net.width;
    if (memory == 0)
        memory = info->memory_bytes / MEMORY_PART;
    for (memory = memory < MEMORY_MAX ? memory : MEMORY_MAX;; memory /= 2) {
        const uint64_t most = info->buffer_bytes / hit_largest, hits = memory / 4 / hit + 1,
                       cells = memory / 4 * 3 / cell, fit = info->buffer_bytes / cell_largest,
                       n = hits < most ? hits : most;
        self->hits_max = (uint32_t) (n < HITS_MAX ? n : HITS_MAX);
        self->cells_max = cells < fit ? cells : fit;
        self->cells_max = self->cells_max < CELLS_MAX ? self->cells_max : CELLS_MAX;
        if (self->hits_max < 1 || self->cells_max < least)
            return wm_fault (error, WM_EHOST,
                             "the OpenCL device %.90s has too little memory for a patch of this "
                             "model beside its weights",
                             info->name);
        if (reserve_job (self))
            break;
    }
    self->h_hit = calloc (self->hits_max, sizeof *self->h_hit);
    self->h_scores = calloc ((size_t) self->hits_max * self->n_output, sizeof *self->h_scores);
    if (!info->has_double)
        self->h_layers = calloc (self->hits_max, self->floats * sizeof *self->h_layers);
    self->cut = calloc ((size_t) WM_OPENCL_CUT * least * self->net.channel, sizeof *self->cut);
    self->plane = self->has_spec ? wm_plane_new (&self->spec) : NULL;
    return self->h_hit && self->h_scores && self->cut && (self->plane || !self->has_spec) &&
                   (self->h_layers || info->has_double)
               ? WM_OK
               : wm_fault (error, WM_EHOST, "no memory for the OpenCL engine");
}

/* ---- opening --------------------------------------------------------------------------------- */

static wm_fault_t check_net (const wm_net_t *net, const wm_spec_t *spec, wm_error_t *error)
{
    if (net->n_conv < 1)
        return wm_fault (error, WM_EBATCH, "the opencl engine needs a convolution in front");
    if (spec && (spec->patch_wire != net->height || spec->patch_bin != net->width ||
                 wm_spec_channels (spec) != net->channel))
        return wm_fault (error, WM_EBATCH,
                         "the specification's patch is %u x %u x %u, the model's %u x %u x %u",
                         spec->patch_wire, spec->patch_bin, wm_spec_channels (spec), net->height,
                         net->width, net->channel);
    return WM_OK;
}

/* Refuses activations that a device without float64 cannot compute.  */
static wm_fault_t check_activations (const wm_opencl_t *self, wm_error_t *error)
{
    for (uint32_t i = 0; i < self->net.n_conv && !self->device.info.has_double; i++) {
        const wm_act_t act = self->net.conv[i].act;
        if (act != WM_ACT_NONE && act != WM_ACT_RELU && act != WM_ACT_LEAKY && act != WM_ACT_CLIP)
            return wm_fault (error, WM_EHOST,
                             "the OpenCL device %.90s lacks float64, which the activation of "
                             "convolution %u needs",
                             self->device.info.name, i);
    }
    return WM_OK;
}

wm_opencl_t *wm_opencl_new (const wm_net_t *net, const wm_spec_t *spec, int number, bool is_half,
                            uint64_t memory, wm_error_t *error)
{
    if (check_net (net, spec, error))
        return NULL;
    wm_opencl_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "no memory for the OpenCL engine");
        return NULL;
    }
    self->net = *net, self->is_half = is_half;
    self->pos_rows = net->height, self->pos_cols = net->width;
    for (uint32_t i = 0; i < net->n_conv; i++)
        self->pos_rows -= net->conv[i].kh - 1, self->pos_cols -= net->conv[i].kw - 1;
    for (uint32_t i = 0; i < net->n_dense; i++)
        if (net->dense[i].output >= 0 &&
            (uint32_t) net->dense[i].output + net->dense[i].n_out > self->n_output)
            self->n_output = (uint32_t) net->dense[i].output + net->dense[i].n_out;
    if (spec) {
        self->has_spec = true;
        self->spec = *spec;
        self->zero = wm_spec_zero (spec);
    }
    if (wm_opencl_device_open (&self->device, number, is_half, error) ||
        check_activations (self, error) || wm_opencl_pack (self, error) ||
        reserve (self, memory, error) || wm_opencl_check (&self->device, error))
        wm_opencl_destroy (&self);
    return self;
}

void wm_opencl_destroy (wm_opencl_t **self_p)
{
    wm_opencl_t *self = *self_p;
    if (!self)
        return;
    if (self->device.queue)
        release_job (self);
    for (uint32_t i = 0; i < self->net.n_conv; i++) {
        wm_opencl_release (&self->device, &self->conv[i].weight);
        wm_opencl_release (&self->device, &self->conv[i].bias);
        wm_opencl_release (&self->device, &self->conv[i].constant);
        wm_opencl_release (&self->device, &self->conv[i].reference);
    }
    for (uint32_t i = 0; i < self->net.n_dense; i++) {
        wm_opencl_release (&self->device, &self->dense[i].weight);
        wm_opencl_release (&self->device, &self->dense[i].bias);
        wm_opencl_release (&self->device, &self->dense[i].base);
    }
    wm_opencl_device_close (&self->device);
    wm_plane_destroy (&self->plane);
    free (self->h_hit), free (self->h_scores), free (self->h_layers);
    free (self->cut), free (self->place);
    free (self);
    *self_p = NULL;
}

const wm_opencl_info_t *wm_opencl_info (const wm_opencl_t *self)
{
    return &self->device.info;
}

wm_opencl_stats_t wm_opencl_stats (const wm_opencl_t *self)
{
    wm_opencl_stats_t stats = self->stats;
    stats.launches = self->device.n_launch;
    return stats;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Work-items of a group for n of something: a power of two.  */
static uint32_t items_for (const wm_opencl_t *self, wm_opencl_kernel_t kernel, uint32_t n)
{
    uint32_t items = 1;
    while (items < n && items < ITEMS_MAX && 2 * items <= self->device.group_max[kernel])
        items *= 2;
    return items;
}

static uint32_t groups_for (uint64_t n, uint32_t each)
{
    return (uint32_t) ((n + each - 1) / each);
}

#define B WM_CL_BUFFER
#define V WM_CL_VALUE
#define LAUNCH(kernel, items, groups, argument)                                                    \
    wm_opencl_launch (&self->device, kernel, items, groups, argument,                              \
                      sizeof (argument) / sizeof *(argument))

/* Finds the live positions of convolution l; in_cols: columns of what it reads.  */
static void see (wm_opencl_t *self, uint32_t l, uint32_t in_cols)
{
    const wm_conv_t *net = &self->net.conv[l];
    const wm_opencl_conv_t *conv = &self->conv[l];
    const uint32_t n = conv->rows * conv->cols;
    const wm_opencl_kernel_t kernel = l == 0 ? WM_OPENCL_see : WM_OPENCL_see_above;
    const uint32_t items = items_for (self, kernel, ITEMS_MAX),
                   groups[3] = { groups_for (n, items), 1, 1 };
    uint32_t zero;
    memcpy (&zero, &self->zero, sizeof zero);
    const wm_opencl_argument_t first[] = {
        B (self->image), V (zero), V (in_cols),    V (net->c_in),   V (net->kh),     V (net->kw),
        V (conv->cols),  V (n),    B (conv->slot), B (self->list), B (self->count),
    };
    const wm_opencl_argument_t above[] = {
        B (l ? conv[-1].slot : NULL),
        V (in_cols),
        V (net->kh),
        V (net->kw),
        V (conv->cols),
        V (n),
        B (conv->slot),
        B (self->list),
        B (self->count),
        V (l),
    };
    if (l == 0)
        LAUNCH (kernel, items, groups, first);
    else
        LAUNCH (kernel, items, groups, above);
}

static void convolve (wm_opencl_t *self, uint32_t l, uint32_t in_cols)
{
    const wm_conv_t *net = &self->net.conv[l];
    const wm_opencl_conv_t *conv = &self->conv[l], *below = l ? conv - 1 : conv;
    const uint32_t items = items_for (self, WM_OPENCL_convolve, net->c_out),
                   groups[3] = { groups_for (net->c_out, items),
                                 GROUPS_A_UNIT * (self->device.info.n_unit + 1), 1 };
    const wm_opencl_argument_t argument[] = {
        B (l ? below->value : self->image),
        V (l > 0),
        B (below->slot),
        B (below->constant),
        V (in_cols),
        V (net->c_in),
        V (net->kh),
        V (net->kw),
        V (conv->cols),
        V (net->c_out),
        B (conv->weight),
        B (conv->bias),
        B (conv->reference),
        V (net->act),
        WM_CL_REAL (net->bend),
        B (self->list),
        B (self->count),
        V (l),
        B (conv->value),
        V (l + 1 == self->net.n_conv),
    };
    LAUNCH (WM_OPENCL_convolve, items, groups, argument);
}

/* The bands of a layer on the last convolution, and their sum.  */
static void multiply (wm_opencl_t *self, uint32_t i, uint32_t n_hit)
{
    const wm_dense_t *net = &self->net.dense[i];
    const wm_opencl_dense_t *dense = &self->dense[i];
    const wm_opencl_conv_t *conv = &self->conv[self->net.n_conv - 1];
    const uint32_t items = items_for (self, WM_OPENCL_band, net->n_out),
                   groups[3] = { groups_for (net->n_out, items), self->pos_rows,
                                 groups_for (n_hit, WM_OPENCL_TILE) };
    const wm_opencl_argument_t band[] = {
        B (conv->slot),
        V (conv->cols),
        B (conv->value),
        V (self->net.conv[self->net.n_conv - 1].c_out),
        B (self->hit),
        V (n_hit),
        V (self->pos_cols),
        V (net->n_out),
        B (dense->weight),
        B (dense->base ? dense->base : dense->weight),
        V (dense->base != NULL),
        B (self->sum),
    };
    LAUNCH (WM_OPENCL_band, items, groups, band);
    const uint32_t few = items_for (self, WM_OPENCL_root, net->n_out),
                   all[3] = { groups_for (net->n_out, few), n_hit, 1 },
                   act = self->device.info.has_double ? net->act : WM_ACT_NONE;
    const wm_opencl_argument_t root[] = {
        B (self->sum),         V (self->pos_rows), V (net->n_out),     B (dense->bias),
        V (act),               WM_CL_REAL (net->bend), B (self->layers), V (self->floats),
        V (dense->offset),     B (self->scores),   V (self->n_output), V ((uint32_t) net->output),
    };
    LAUNCH (WM_OPENCL_root, few, all, root);
}

static void layer (wm_opencl_t *self, uint32_t i, uint32_t n_hit)
{
    const wm_dense_t *net = &self->net.dense[i];
    const wm_opencl_dense_t *dense = &self->dense[i];
    const uint32_t items = items_for (self, WM_OPENCL_layer, net->n_out),
                   groups[3] = { groups_for (net->n_out, items), n_hit, 1 };
    const wm_opencl_argument_t argument[] = {
        V (self->dense[net->parent].offset),
        V (net->n_in),
        V (net->n_out),
        B (dense->weight),
        B (dense->bias),
        V (net->act),
        WM_CL_REAL (net->bend),
        B (self->layers),
        V (self->floats),
        V (dense->offset),
        B (self->scores),
        V (self->n_output),
        V ((uint32_t) net->output),
    };
    LAUNCH (WM_OPENCL_layer, items, groups, argument);
}

static void softmax (wm_opencl_t *self, uint32_t i, uint32_t n_hit)
{
    const wm_dense_t *net = &self->net.dense[i];
    const uint32_t items = items_for (self, WM_OPENCL_softmax, n_hit),
                   groups[3] = { groups_for (n_hit, items), 1, 1 };
    const wm_opencl_argument_t argument[] = {
        V (net->n_out),
        V (n_hit),
        B (self->layers),
        V (self->floats),
        V (self->dense[i].offset),
        B (self->scores),
        V (self->n_output),
        V ((uint32_t) net->output),
    };
    LAUNCH (WM_OPENCL_softmax, items, groups, argument);
}

/* ---- regions --------------------------------------------------------------------------------- */

/* The values of a region's live positions; from: its first pixel, n_col: columns of its image.  */
static void convolve_region (wm_opencl_t *self, const float *from, uint32_t rows, uint32_t cols,
                             uint32_t n_col)
{
    static const uint32_t zeros[WM_MODEL_CONVS_MAX];
    const size_t pixel = self->net.channel * sizeof (float);
    wm_opencl_write_rows (&self->device, self->image, from, rows, cols * pixel, n_col * pixel);
    wm_opencl_write (&self->device, self->count, zeros, sizeof zeros);
    for (uint32_t l = 0; l < self->net.n_conv; l++) {
        wm_opencl_conv_t *conv = &self->conv[l];
        const uint32_t in_cols = l ? conv[-1].cols : cols;
        conv->rows = (l ? conv[-1].rows : rows) - self->net.conv[l].kh + 1;
        conv->cols = in_cols - self->net.conv[l].kw + 1;
        see (self, l, in_cols);
        convolve (self, l, in_cols);
    }
    self->stats.regions++;
}

/* The scores of n hits of the region that begins at (row, col).  */
static void score_hits (wm_opencl_t *self, const wm_opencl_place_t *place, uint32_t n, uint32_t row,
                        uint32_t col, float *scores)
{
    const uint32_t map_cols = self->conv[self->net.n_conv - 1].cols, n_output = self->n_output;
    for (uint32_t i = 0; i < n; i++)
        self->h_hit[i] = (place[i].row - row) * map_cols + place[i].col - col;
    wm_opencl_write (&self->device, self->hit, self->h_hit, n * sizeof *self->h_hit);
    const bool has_double = self->device.info.has_double;
    for (uint32_t i = 0; i < self->net.n_dense; i++) {
        if (self->net.dense[i].parent < 0)
            multiply (self, i, n);
        else if (has_double)
            layer (self, i, n);
        if (has_double && self->net.dense[i].act == WM_ACT_SOFTMAX)
            softmax (self, i, n);
    }
    if (has_double)
        wm_opencl_read (&self->device, self->scores, self->h_scores,
                        (size_t) n * n_output * sizeof (float));
    else {
        wm_opencl_read (&self->device, self->layers, self->h_layers,
                        (size_t) n * self->floats * sizeof (float));
        wm_opencl_finish (self, n, self->h_layers, self->h_scores);
    }
    for (uint32_t i = 0; i < n; i++)
        memcpy (scores + (size_t) place[i].hit * n_output, self->h_scores + (size_t) i * n_output,
                n_output * sizeof *scores);
    self->stats.hits += n;
}

static int by_strip (const void *a_, const void *b_)
{
    const wm_opencl_place_t *a = a_, *b = b_;
    const uint32_t strip_a = a->row / STRIP_ROWS, strip_b = b->row / STRIP_ROWS;
    return strip_a != strip_b ? (strip_a > strip_b) - (strip_a < strip_b)
           : a->col != b->col ? (a->col > b->col) - (a->col < b->col)
                              : (a->hit > b->hit) - (a->hit < b->hit);
}

/* All n hits of an image.  */
static wm_fault_t score_image (wm_opencl_t *self, const float *image, uint32_t n_col,
                               wm_opencl_place_t *place, uint32_t n, float *scores,
                               _Atomic uint64_t *progress, wm_error_t *error)
{
    const uint32_t h = self->net.height, w = self->net.width;
    qsort (place, n, sizeof *place, by_strip);
    for (uint32_t i = 0, end; i < n; i = end) {
        uint32_t top = place[i].row, bottom = top, left = place[i].col, right = left;
        for (end = i + 1; end < n; end++) {
            const uint32_t row = place[end].row, col = place[end].col,
                           t = row < top ? row : top, b = row > bottom ? row : bottom,
                           l = col < left ? col : left, r = col > right ? col : right;
            if ((uint64_t) (b - t + h) * (r - l + w) > self->cells_max)
                break;
            top = t, bottom = b, left = l, right = r;
        }
        convolve_region (self, image + ((size_t) top * n_col + left) * self->net.channel,
                         bottom - top + h, right - left + w, n_col);
        for (uint32_t first = i, count; first < end; first += count) {
            count = end - first < self->hits_max ? end - first : self->hits_max;
            score_hits (self, place + first, count, top, left, scores);
            if (wm_opencl_check (&self->device, error))
                return WM_EHOST;
            if (progress)
                atomic_fetch_add (progress, count);
        }
    }
    return WM_OK;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* n patches that lie one behind the other; first: the hit of the first.  */
static wm_fault_t score_patches (wm_opencl_t *self, const float *patch, const uint32_t *hit,
                                 uint32_t n, float *scores, _Atomic uint64_t *progress,
                                 wm_error_t *error)
{
    for (uint32_t i = 0; i < n; i++)
        self->place[i] = (wm_opencl_place_t){ i * self->net.height, 0, hit ? hit[i] : i };
    return score_image (self, patch, self->net.width, self->place, n, scores, progress, error);
}

/* The hits of a plane whose patches are no windows of an image.  */
static wm_fault_t score_cut (wm_opencl_t *self, const wm_batch_t *batch, float *scores,
                             _Atomic uint64_t *progress, wm_error_t *error)
{
    const size_t each = (size_t) self->net.height * self->net.width * self->net.channel;
    uint32_t hit[WM_OPENCL_CUT], n = 0, image, row, col;
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i <= batch->n_hit && !fault; i++) {
        if (n == WM_OPENCL_CUT || (i == batch->n_hit && n > 0)) {
            fault = score_patches (self, self->cut, hit, n, scores, progress, error);
            n = 0;
        }
        if (i < batch->n_hit && !wm_plane_place (self->plane, i, &image, &row, &col)) {
            wm_plane_cut (self->plane, i, 1, self->cut + n * each);
            hit[n++] = i;
        }
    }
    return fault;
}

static wm_fault_t score_plane (wm_opencl_t *self, const wm_batch_t *batch, float *scores,
                               _Atomic uint64_t *progress, wm_error_t *error)
{
    wm_fault_t fault = wm_plane_load (self->plane, batch, error);
    for (uint32_t k = 0; !fault && k < wm_plane_n_image (self->plane); k++) {
        uint32_t n = 0, image, row, col, n_row, n_col;
        for (uint32_t i = 0; i < batch->n_hit; i++)
            if (wm_plane_place (self->plane, i, &image, &row, &col) && image == k)
                self->place[n++] = (wm_opencl_place_t){ row, col, i };
        const float *pixel = wm_plane_image (self->plane, k, &n_row, &n_col);
        fault = score_image (self, pixel, n_col, self->place, n, scores, progress, error);
    }
    return fault ? fault : score_cut (self, batch, scores, progress, error);
}

wm_fault_t wm_opencl_score (wm_opencl_t *self, const wm_batch_t *batch, float *scores,
                            _Atomic uint64_t *progress, wm_error_t *error)
{
    if (wm_opencl_check (&self->device, error))
        return WM_EHOST;
    const uint32_t n = batch->n_hit > WM_OPENCL_CUT ? batch->n_hit : WM_OPENCL_CUT;
    if (n > self->places_max) {
        wm_opencl_place_t *place = realloc (self->place, n * sizeof *place);
        if (!place)
            return wm_fault (error, WM_EAGAIN, "no memory for %u hits", n);
        self->place = place, self->places_max = n;
    }
    if (batch->kind == WM_BATCH_PATCHES)
        return score_patches (self, batch->patch, NULL, batch->n_hit, scores, progress, error);
    if (!self->plane)
        return wm_fault (error, WM_EBATCH, "a plane, but no specification to cut patches by");
    return score_plane (self, batch, scores, progress, error);
}
