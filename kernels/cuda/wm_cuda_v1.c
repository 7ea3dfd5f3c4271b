/* wm_cuda_v1.c - the CUDA engine, version 1: patches, cuDNN, cuBLASLt, one tail kernel.

   A batch's runs are copied to the device and become the image of the plane (wm_cuda_plane.h); then
   chunks of `rows` hits (wm_cuda_chunks.h) go through gather -> convolution(s), with an
   activation of ours where it is not ReLU -> product -> tail.

   Planes beyond WM_CUDA_CELLS and dense patches come as patches: cut on the host (wm_plane_cut)
   into pinned memory, 9.2 kB a hit instead of a few bytes.

   Bits do not depend on grouping: one shape, one pinned algorithm each, sums per row of the last
   convolution's output, added in order (wm_gpu_cublas.c). Whether a library's algorithm treats
   every row of a launch alike is tested when the engine is made: rows of equal patches must give
   equal bits, twice. The first candidates that pass are pinned.

   Check and time: make gpu-check.  */
#include "kernels/cuda/wm_cuda_v1.h"
#include "kernels/cuda/wm_cuda_chunks.h"
#include "kernels/cuda/wm_cuda_net.h"
#include "kernels/cuda/wm_cuda_plane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANDIDATES_MAX 16u /* algorithms tried of each library */
#define THREADS 256u
#define BLOCKS 4096u /* of a kernel that runs with any grid */

/* A chunk's memory beside its patches and scores.  */
typedef struct {
    void *mark[WM_CUDA_STAGES + 1];
    uint32_t *h_offset, *d_offset; /* (rows) */
    void *d_patch;                 /* (rows, n_value) of the precision */
    void *d_y[2];                  /* convolutions' outputs, alternating */
    float *d_partial;              /* (splits, rows, n) */
    uint32_t *d_held;              /* (rows) */
} extra_t;

struct wm_cuda_v1_t {
    const wm_gpu_api_t *api;
    void *gpu; /* of the chunks */
    wm_chunks_t chunks;
    extra_t extra[WM_CHUNK_SLOTS];
    wm_cuda_net_t net;
    wm_cuda_config_t config;
    char choice[160];
    uint32_t cells_max;

    char *d_constants;
    wm_conv_plan_t *conv[WM_MODEL_CONVS_MAX];
    wm_gemm_plan_t *gemm;
    double ms[WM_CUDA_STAGES];

    wm_cuda_plane_t *image; /* the plane at work */
    void *load, *loaded;
    bool cut; /* it is not on the device: its patches are cut on the host */
};

/* ---- memory ---------------------------------------------------------------------------------- */

static wm_gpu_text_t both_new (wm_cuda_v1_t *self, void *h_p, void *d_p, size_t bytes)
{
    return wm_cuda_both_new (self->api, self->gpu, h_p, d_p, bytes);
}

/* Bytes of the largest convolution's output among those in buffer `which`.  */
static size_t conv_bytes (const wm_cuda_v1_t *self, uint32_t which)
{
    size_t most = 0;
    for (uint32_t i = which; i < self->net.net->n_conv; i += 2) {
        const wm_gpu_conv_t *c = &self->net.conv[i];
        size_t bytes = (size_t) self->chunks.rows * (c->h - c->kh + 1) * (c->w - c->kw + 1) *
                       c->c_out * self->net.each;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static size_t partial_bytes (const wm_cuda_v1_t *self)
{
    return (size_t) self->net.gemm.splits * self->chunks.rows * self->net.gemm.n * sizeof (float);
}

/* Device memory beside the libraries' workspace. */
static size_t need_bytes (const wm_cuda_v1_t *self)
{
    const wm_chunks_t *c = &self->chunks;
    size_t extra = c->rows * (c->n_value * self->net.each + 2 * sizeof (uint32_t)) +
                   conv_bytes (self, 0) + conv_bytes (self, 1) + partial_bytes (self);
    size_t plane = c->plane ? wm_cuda_plane_bytes (self->cells_max) : 0;
    return WM_CHUNK_SLOTS * extra + wm_chunks_bytes (c) + plane + self->net.bytes;
}

static wm_gpu_text_t make_extra (wm_cuda_v1_t *self, extra_t *extra)
{
    const size_t rows = self->chunks.rows, word = sizeof (uint32_t);
    wm_gpu_text_t text = NULL;
    for (int i = 0; self->config.timed && i <= WM_CUDA_STAGES; i++)
        CALL (event_new, &extra->mark[i], true);
    if ((text = both_new (self, &extra->h_offset, &extra->d_offset, rows * word)) ||
        (text = both_new (self, NULL, &extra->d_patch,
                          rows * self->chunks.n_value * self->net.each)) ||
        (text = both_new (self, NULL, &extra->d_y[0], conv_bytes (self, 0))) ||
        (text = both_new (self, NULL, &extra->d_partial, partial_bytes (self))) ||
        (text = both_new (self, NULL, &extra->d_held, rows * word)))
        return text;
    return conv_bytes (self, 1) ? both_new (self, NULL, &extra->d_y[1], conv_bytes (self, 1))
                                : NULL;
}

static wm_gpu_text_t make_plane (wm_cuda_v1_t *self)
{
    wm_gpu_text_t text;
    CALL (stream_new, &self->load);
    CALL (event_new, &self->loaded, false);
    if (!self->chunks.plane)
        return NULL;
    self->image =
        wm_cuda_plane_new (self->api, self->gpu, &self->chunks.spec, self->cells_max, &text);
    return self->image || text ? text : "no memory for a plane";
}

static wm_gpu_text_t load_constants (wm_cuda_v1_t *self)
{
    void *h_constants = NULL;
    wm_gpu_text_t text = both_new (self, &h_constants, &self->d_constants, self->net.bytes);
    if (text)
        return text;
    wm_cuda_net_fill (&self->net, h_constants);
    CALL (copy_in, self->d_constants, h_constants, self->net.bytes, self->load);
    CALL (stream_sync, self->load);
    return NULL;
}

/* ---- a chunk --------------------------------------------------------------------------------- */

static wm_gpu_text_t mark (wm_cuda_v1_t *self, uint32_t s, int stage)
{
    if (self->config.timed)
        CALL (event_record, self->extra[s].mark[stage], self->chunks.slot[s].stream);
    return NULL;
}

static wm_gpu_text_t launch_tail (wm_cuda_v1_t *self, uint32_t s)
{
    wm_gpu_tail_t args = self->net.tail;
    args.partial = self->extra[s].d_partial, args.held = self->extra[s].d_held;
    args.scores = self->chunks.slot[s].d_scores;
    for (uint32_t l = 0; l < args.n_layer; l++) {
        char *weight = self->d_constants + self->net.dense_weight[l],
             *bias = self->d_constants + self->net.dense_bias[l];
        args.layer[l].weight = (const float *) (void *) weight;
        args.layer[l].bias = (const float *) (void *) bias;
    }
    wm_gpu_launch_t launch = { WM_GPU_TAIL, self->chunks.rows, THREADS / 2,
                               args.n_value * (uint32_t) sizeof (float), &args };
    CALL (launch, &launch, self->chunks.slot[s].stream);
    return NULL;
}

/* Applies in place the activation that cuDNN does not; and in tf32 rounds the next factors, which a
   library may cut off instead, always towards 0.  */
static wm_gpu_text_t activate (wm_cuda_v1_t *self, uint32_t s, uint32_t conv, void *d_y)
{
    const wm_conv_t *c = &self->net.net->conv[conv];
    const wm_gpu_conv_t *op = &self->net.conv[conv];
    const uint32_t half = self->net.precision == WM_GPU_F16;
    const bool rounds = self->net.precision == WM_GPU_TF32 && conv + 1 == self->net.net->n_conv;
    const wm_gpu_join_t args = {
        .from = d_y,
        .to = d_y,
        .rows = self->chunks.rows,
        .n = (op->h - op->kh + 1) * (op->w - op->kw + 1) * op->c_out,
        .half_from = half,
        .half_to = half,
        .tf32 = rounds,
        .act = c->act,
        .bend = c->bend,
        WM_GPU_JOIN_PLAIN,
    };
    const wm_gpu_launch_t launch = { WM_GPU_JOIN, BLOCKS, THREADS, 0, &args };
    if (rounds || (c->act != WM_ACT_RELU && c->act != WM_ACT_NONE))
        CALL (launch, &launch, self->chunks.slot[s].stream);
    return NULL;
}

/* From patches in d_patch to the partial sums. */
static wm_gpu_text_t run_libraries (wm_cuda_v1_t *self, uint32_t s)
{
    const wm_chunk_t *slot = &self->chunks.slot[s];
    extra_t *extra = &self->extra[s];
    const void *d_x = extra->d_patch;
    wm_gpu_text_t text;
    for (uint32_t i = 0; i < self->net.net->n_conv; i++) {
        CALL (conv_run, self->conv[i], d_x, self->d_constants + self->net.conv_weight[i],
              self->d_constants + self->net.conv_bias[i], extra->d_y[i % 2], slot->d_workspace,
              slot->stream);
        if ((text = activate (self, s, i, extra->d_y[i % 2])))
            return text;
        d_x = extra->d_y[i % 2];
    }
    if ((text = mark (self, s, WM_CUDA_GEMM)))
        return text;
    CALL (gemm_run, self->gemm, d_x, self->d_constants + self->net.gemm_weight, extra->d_partial,
          slot->d_workspace, slot->stream);
    return NULL;
}

static wm_gpu_text_t gather (wm_cuda_v1_t *self, uint32_t s, const float *d_source, uint32_t stride)
{
    const wm_net_t *net = self->net.net;
    wm_gpu_gather_t args = {
        .source = d_source,
        .offset = self->extra[s].d_offset,
        .patch = self->extra[s].d_patch,
        .held = self->extra[s].d_held,
        .height = net->height,
        .row_values = net->width * net->channel,
        .stride = stride,
        .half = self->net.precision == WM_GPU_F16,
        .limit = self->net.limit,
    };
    wm_gpu_launch_t launch = { WM_GPU_GATHER, self->chunks.rows, THREADS, sizeof (uint32_t),
                               &args };
    CALL (launch, &launch, self->chunks.slot[s].stream);
    return NULL;
}

/* Queues the slot's work, whose offsets, or patches in h_source, are set.  */
static wm_gpu_text_t start (void *engine, uint32_t s)
{
    wm_cuda_v1_t *self = engine;
    const wm_chunk_t *slot = &self->chunks.slot[s];
    const wm_net_t *net = self->net.net;
    uint32_t n_row, stride = net->width * net->channel;
    wm_gpu_text_t text;
    if (!self->cut)
        CALL (stream_wait, slot->stream, self->loaded);
    if ((text = mark (self, s, WM_CUDA_COPY_IN)))
        return text;
    CALL (copy_in, self->extra[s].d_offset, self->extra[s].h_offset,
          self->chunks.rows * sizeof (uint32_t), slot->stream);
    if (self->cut)
        CALL (copy_in, slot->d_source, slot->h_source,
              slot->count * self->chunks.n_value * sizeof (float), slot->stream);
    const float *d_source =
        self->cut ? slot->d_source : wm_cuda_plane_image (self->image, &n_row, &stride);
    if ((text = mark (self, s, WM_CUDA_GATHER)) || (text = gather (self, s, d_source, stride)) ||
        (text = mark (self, s, WM_CUDA_CONV)) || (text = run_libraries (self, s)) ||
        (text = mark (self, s, WM_CUDA_TAIL)) || (text = launch_tail (self, s)) ||
        (text = mark (self, s, WM_CUDA_COPY_OUT)))
        return text;
    CALL (copy_out, slot->h_scores, slot->d_scores,
          slot->count * self->chunks.n_output * sizeof (float), slot->stream);
    return mark (self, s, WM_CUDA_STAGES);
}

static wm_gpu_text_t add_times (void *engine, uint32_t s)
{
    wm_cuda_v1_t *self = engine;
    void **at = self->extra[s].mark;
    for (int i = 0; self->config.timed && i < WM_CUDA_STAGES; i++) {
        float ms = 0;
        CALL (event_ms, at[i], at[i + 1], &ms);
        self->ms[i] += (double) ms;
    }
    return NULL;
}

/* Sets the slot's patches: places in the image, or the patches themselves.  */
static wm_fault_t fill (void *engine, uint32_t s, const wm_batch_t *batch, uint32_t first,
                        uint32_t count, uint32_t at, wm_error_t *error)
{
    wm_cuda_v1_t *self = engine;
    const uint32_t *offset = self->cut ? NULL : wm_cuda_plane_offset (self->image);
    (void) at, (void) error; /* one batch at a time, which is loaded already */
    for (uint32_t r = 0; r < self->chunks.rows; r++)
        self->extra[s].h_offset[r] = r >= count  ? WM_GPU_NO_PATCH
                                     : self->cut ? (uint32_t) (r * self->chunks.n_value)
                                                 : offset[first + r];
    if (self->cut)
        wm_chunks_cut (&self->chunks, s, batch, first, count, 0);
    return WM_OK;
}

/* ---- pinning algorithms ---------------------------------------------------------------------- */

static void drop_plans (wm_cuda_v1_t *self)
{
    for (uint32_t i = 0; i < WM_MODEL_CONVS_MAX; i++)
        if (self->conv[i])
            self->api->conv_destroy (self->gpu, &self->conv[i]);
    if (self->gemm)
        self->api->gemm_destroy (self->gpu, &self->gemm);
}

/* Makes the plans of these candidates, and workspace; *made is false where there are none.  */
static wm_gpu_text_t make_plans (wm_cuda_v1_t *self, uint32_t conv, uint32_t gemm, bool *made)
{
    wm_gpu_choice_t choice = { 0 };
    size_t workspace = 0;
    *made = false;
    drop_plans (self);
    CALL (gemm_new, &self->net.gemm, gemm, &self->gemm, &choice);
    if (!self->gemm)
        return NULL;
    size_t n_char = (size_t) snprintf (self->choice, sizeof self->choice, "%s", choice.name);
    workspace = choice.workspace_bytes;
    for (uint32_t i = 0; i < self->net.net->n_conv; i++) {
        CALL (conv_new, &self->net.conv[i], conv, &self->conv[i], &choice);
        if (!self->conv[i])
            return NULL;
        workspace = choice.workspace_bytes > workspace ? choice.workspace_bytes : workspace;
        if (i == 0)
            snprintf (self->choice + n_char, sizeof self->choice - n_char, "; %s", choice.name);
    }
    if (workspace > WM_CUDA_WORKSPACE_MAX)
        return NULL;
    *made = true;
    return wm_chunks_workspace (&self->chunks, workspace);
}

/* Whether equal patches get equal partial sums in every row, twice.  */
static wm_gpu_text_t try_rows (wm_cuda_v1_t *self, float *h_sums, bool *alike)
{
    wm_chunk_t *slot = &self->chunks.slot[0];
    const size_t rows = self->chunks.rows;
    const size_t n = self->net.gemm.n;
    float *sums = h_sums + self->net.gemm.splits * n; /* before: row 0 of the first round */
    uint64_t seed = 1;
    for (size_t i = 0; i < self->chunks.n_value; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        slot->h_source[i] = (float) (seed >> 40) / (float) (1 << 24); /* [0, 1) */
    }
    memset (self->extra[0].h_offset, 0, rows * sizeof (uint32_t));
    slot->count = 1, self->cut = true;
    *alike = true;
    for (int round = 0; round < 2 && *alike; round++) {
        wm_gpu_text_t text = start (self, 0);
        if (text)
            return text;
        for (uint32_t s = 0; s < self->net.gemm.splits && *alike; s++) {
            CALL (copy_out, sums, self->extra[0].d_partial + s * rows * n,
                  rows * n * sizeof (float), slot->stream);
            CALL (stream_sync, slot->stream);
            if (round == 0)
                memcpy (h_sums + s * n, sums, n * sizeof (float));
            for (uint32_t r = 0; r < rows && *alike; r++)
                *alike = memcmp (sums + r * n, h_sums + s * n, n * sizeof (float)) == 0;
        }
    }
    CALL (stream_sync, slot->stream);
    return NULL;
}

/* Pins the first candidates that treat all rows alike.  */
static wm_gpu_text_t pin (wm_cuda_v1_t *self, bool *found)
{
    const size_t row = self->net.gemm.n * sizeof (float);
    const uint32_t first = self->config.conv_candidate;
    float *h_sums;
    wm_gpu_text_t text =
        both_new (self, &h_sums, NULL, (self->net.gemm.splits + self->chunks.rows) * row);
    *found = false;
    for (uint32_t conv = first; !text && !*found && conv < first + CANDIDATES_MAX; conv++) {
        bool made = true;
        for (uint32_t gemm = self->config.gemm_candidate;
             !text && !*found && made && gemm < self->config.gemm_candidate + CANDIDATES_MAX;
             gemm++) {
            text = make_plans (self, conv, gemm, &made);
            if (!text && made)
                text = try_rows (self, h_sums, found);
        }
    }
    return text;
}

/* ---- life ------------------------------------------------------------------------------------ */

static wm_gpu_text_t make_all (wm_cuda_v1_t *self, wm_error_t *error)
{
    wm_gpu_text_t text;
    bool found = false;
    size_t need = need_bytes (self);
    const wm_gpu_info_t *info = &self->chunks.info;
    CALL (open, &self->chunks.info);
    if (need > info->free_bytes) {
        wm_fault (error, WM_EHOST, "the cuda engine needs %zu MiB of memory, %s has %zu MiB free",
                  need >> 20, info->device, info->free_bytes >> 20);
        return NULL;
    }
    if ((text = make_plane (self)) || (text = load_constants (self)) ||
        (text = wm_chunks_open (&self->chunks)))
        return text;
    for (uint32_t s = 0; s < WM_CHUNK_SLOTS; s++)
        if ((text = make_extra (self, &self->extra[s])))
            return text;
    if ((text = pin (self, &found)))
        return text;
    if (!found)
        wm_fault (error, WM_EHOST,
                  "neither cuDNN nor cuBLASLt (%s) has an algorithm for this model on %s that "
                  "treats all rows alike: use --engine sparse",
                  info->libraries, info->device);
    memset (self->ms, 0, sizeof self->ms);
    return NULL;
}

wm_cuda_v1_t *wm_cuda_v1_new (const wm_gpu_api_t *api, const wm_net_t *net, const wm_spec_t *spec,
                              const wm_cuda_config_t *config, wm_gpu_info_t *info,
                              wm_error_t *error)
{
    wm_error_t fault = { 0 };
    wm_gpu_text_t text = NULL;
    const uint32_t rows = config->rows ? config->rows : WM_CUDA_ROWS;
    wm_cuda_v1_t *self = calloc (1, sizeof *self);
    if (!self)
        wm_fault (&fault, WM_EHOST, "no memory for the cuda engine");
    else if (!wm_cuda_net_plan (&self->net, net, spec, config->precision, rows, true, &fault) &&
             !wm_chunks_make (&self->chunks, api, spec, rows,
                              (size_t) net->height * net->width * net->channel,
                              self->net.tail.n_output, &fault)) {
        self->api = api, self->gpu = self->chunks.gpu;
        self->config = *config;
        self->cells_max = config->cells ? config->cells : WM_CUDA_CELLS;
        self->chunks.engine = self, self->chunks.alone = config->timed;
        self->chunks.fill = fill, self->chunks.start = start, self->chunks.after = add_times;
        text = make_all (self, &fault);
    }
    if (wm_cuda_stands (&fault, text, error))
        *info = self->chunks.info;
    else
        wm_cuda_v1_destroy (&self);
    return self;
}

void wm_cuda_v1_destroy (wm_cuda_v1_t **self_p)
{
    wm_cuda_v1_t *self = *self_p;
    if (self) {
        drop_plans (self);
        wm_chunks_clear (&self->chunks);
        wm_cuda_plane_destroy (&self->image);
        free (self);
        *self_p = NULL;
    }
}

wm_gpu_text_t wm_cuda_v1_lend (wm_cuda_v1_t *self, const void *h, size_t bytes)
{
    CALL (pin, h, bytes);
    if (self->image)
        wm_cuda_plane_lend (self->image, h, bytes);
    return NULL;
}

const char *wm_cuda_v1_choice (const wm_cuda_v1_t *self)
{
    return self->choice;
}

void wm_cuda_v1_times (wm_cuda_v1_t *self, double ms[WM_CUDA_STAGES])
{
    memcpy (ms, self->ms, sizeof self->ms);
    memset (self->ms, 0, sizeof self->ms);
}

/* ---- a batch --------------------------------------------------------------------------------- */

/* Lays a plane out on the device, if it fits there.  */
static wm_gpu_text_t load_plane (wm_cuda_v1_t *self, const wm_batch_t *batch)
{
    bool laid = false;
    wm_gpu_text_t text = batch->kind == WM_BATCH_PATCHES || !self->image
                             ? NULL
                             : wm_cuda_plane_load (self->image, batch, self->load, &laid);
    self->cut = !laid;
    if (!text && laid)
        CALL (event_record, self->loaded, self->load);
    return text;
}

wm_fault_t wm_cuda_v1_score (wm_cuda_v1_t *self, const wm_batch_t *batch, float *scores,
                             _Atomic uint64_t *progress, wm_gpu_text_t *dead, wm_error_t *error)
{
    if (batch->n_hit == 0)
        return WM_OK; /* else its plane would be under way when the next one comes */
    *dead = load_plane (self, batch);
    wm_fault_t fault = WM_OK;
    if (!*dead && self->cut && (fault = wm_chunks_load (&self->chunks, batch, error)))
        return fault;
    if (!*dead)
        *dead = wm_chunks_score (&self->chunks, 1, &batch, &scores, progress, &fault, error);
    return *dead ? WM_EHOST : WM_OK;
}
