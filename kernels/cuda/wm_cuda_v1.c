/* wm_cuda_v1.c - the CUDA engine, version 1: patches, cuDNN, cuBLASLt, one tail kernel.

   A batch's runs are copied to the device and become the image of the plane (wm_cuda_plane.h); then chunks of
   `rows` hits go through gather -> convolution(s) -> product -> tail, each chunk in a slot with a
   stream of its own: while one computes, the other's copies run. The last chunk is filled up with
   patches of zeros, so that every launch has one shape.

   Planes beyond WM_CUDA_CELLS and dense patches come as patches: cut on the host (wm_plane_cut)
   into pinned memory, 9.2 kB a hit instead of a few bytes.

   Bits do not depend on grouping: one shape, one pinned algorithm each, sums per row of the last
   convolution's output, added in order (wm_gpu_cublas.c). That a library's algorithm treats every
   row of a launch alike is not believed but tried, when the engine is made: rows of equal patches
   must give equal bits, twice. The first candidates that do are pinned.

   Invariants: between two calls every stream is idle. A slot's pinned memory is written only after
   its event was waited for. Nothing is allocated after the engine is made.

   Check and time: make gpu-check.  */
#include "kernels/cuda/wm_cuda_v1.h"
#include "kernels/cuda/wm_cuda_net.h"
#include "kernels/cuda/wm_cuda_plane.h"
#include "kernels/cuda/wm_gpu_plant.h"
#include "kernels/wm_image.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 2u
#define CANDIDATES_MAX 16u /* algorithms tried of each library */
#define THREADS 256u
#define WORKSPACE_MAX (512u << 20) /* of a library; what asks for more is passed over */

typedef struct {
    void *stream, *done, *mark[WM_CUDA_STAGES + 1];
    uint32_t *h_offset, *d_offset; /* (rows) */
    float *h_source, *d_source;    /* (rows, n_value): patches that were cut on the host */
    void *d_patch;                 /* (rows, n_value) of the precision */
    void *d_y[2];                  /* convolutions' outputs, in turn */
    float *d_partial;              /* (splits, rows, n) */
    uint32_t *d_held;              /* (rows) */
    float *d_scores, *h_scores;    /* (rows, n_output) */
    void *d_workspace;
    bool busy;
    uint32_t first, count; /* hits it holds */
} slot_t;

struct wm_cuda_v1_t {
    const wm_gpu_api_t *api;
    void *gpu;
    wm_cuda_net_t net;
    wm_cuda_config_t config;
    wm_gpu_info_t info;
    char choice[160];
    uint32_t rows, cells_max;
    size_t n_value; /* of a patch */
    size_t device_bytes;

    char *d_constants;
    wm_conv_plan_t *conv[WM_MODEL_CONVS_MAX];
    wm_gemm_plan_t *gemm;
    size_t workspace_bytes;
    slot_t slot[SLOTS];
    double ms[WM_CUDA_STAGES];

    /* The plane at work.  */
    wm_spec_t spec;
    wm_plane_t *plane; /* cuts on the host; NULL: dense patches only */
    wm_cuda_plane_t *image;
    void *load, *loaded;
};

/* Calls the table; leaves the function with its words if it failed.  */
#define CALL(function, ...)                                                                        \
    do {                                                                                           \
        wm_gpu_words_t words_ = self->api->function (self->gpu, __VA_ARGS__);                      \
        if (words_)                                                                                \
            return words_;                                                                         \
    } while (0)

/* ---- memory ---------------------------------------------------------------------------------- */

static wm_gpu_words_t device_new (wm_cuda_v1_t *self, void *d_p, size_t bytes)
{
    void *p = NULL;
    CALL (device_new, &p, bytes);
    memcpy (d_p, &p, sizeof p); /* it is a float **, a uint32_t ** ... */
    return NULL;
}

static wm_gpu_words_t pinned_new (wm_cuda_v1_t *self, void *h_p, size_t bytes)
{
    void *p = NULL;
    CALL (pinned_new, &p, bytes);
    memcpy (h_p, &p, sizeof p);
    return NULL;
}

/* Bytes of the largest convolution's output among those in buffer `turn`.  */
static size_t conv_bytes (const wm_cuda_v1_t *self, uint32_t turn)
{
    size_t most = 0;
    for (uint32_t i = turn; i < self->net.net->n_conv; i += 2) {
        const wm_gpu_conv_t *c = &self->net.conv[i];
        size_t bytes = (size_t) self->rows * (c->h - c->kh + 1) * (c->w - c->kw + 1) * c->c_out *
                       self->net.each;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static size_t partial_bytes (const wm_cuda_v1_t *self)
{
    return (size_t) self->net.gemm.splits * self->rows * self->net.gemm.n * sizeof (float);
}

/* Device memory beside the libraries' workspace. */
static size_t need_bytes (const wm_cuda_v1_t *self)
{
    size_t slot = self->rows * (self->n_value * (sizeof (float) + self->net.each) +
                                self->net.tail.n_output * sizeof (float) + 8) +
                  conv_bytes (self, 0) + conv_bytes (self, 1) + partial_bytes (self);
    size_t plane = self->plane ? wm_cuda_plane_bytes (self->cells_max) : 0;
    return SLOTS * slot + plane + self->net.bytes;
}

static wm_gpu_words_t make_slot (wm_cuda_v1_t *self, slot_t *slot)
{
    const size_t rows = self->rows, n_output = self->net.tail.n_output;
    wm_gpu_words_t words = NULL;
    CALL (stream_new, &slot->stream);
    CALL (event_new, &slot->done, false);
    for (int i = 0; self->config.timed && i <= WM_CUDA_STAGES; i++)
        CALL (event_new, &slot->mark[i], true);
    if ((words = pinned_new (self, &slot->h_offset, rows * sizeof (uint32_t))) ||
        (words = device_new (self, &slot->d_offset, rows * sizeof (uint32_t))) ||
        (words = pinned_new (self, &slot->h_source, rows * self->n_value * sizeof (float))) ||
        (words = device_new (self, &slot->d_source, rows * self->n_value * sizeof (float))) ||
        (words = device_new (self, &slot->d_patch, rows * self->n_value * self->net.each)) ||
        (words = device_new (self, &slot->d_y[0], conv_bytes (self, 0))) ||
        (words = device_new (self, &slot->d_partial, partial_bytes (self))) ||
        (words = device_new (self, &slot->d_held, rows * sizeof (uint32_t))) ||
        (words = device_new (self, &slot->d_scores, rows * n_output * sizeof (float))) ||
        (words = pinned_new (self, &slot->h_scores, rows * n_output * sizeof (float))))
        return words;
    if (conv_bytes (self, 1))
        words = device_new (self, &slot->d_y[1], conv_bytes (self, 1));
    return words;
}

static wm_gpu_words_t make_plane (wm_cuda_v1_t *self)
{
    wm_gpu_words_t words;
    CALL (stream_new, &self->load);
    CALL (event_new, &self->loaded, false);
    if (!self->plane)
        return NULL;
    self->image = wm_cuda_plane_new (self->api, self->gpu, &self->spec, self->cells_max, &words);
    return self->image || words ? words : "no memory for a plane";
}

static wm_gpu_words_t load_constants (wm_cuda_v1_t *self)
{
    void *h_constants = NULL;
    wm_gpu_words_t words = device_new (self, &self->d_constants, self->net.bytes);
    if (words || (words = pinned_new (self, &h_constants, self->net.bytes)))
        return words;
    wm_cuda_net_fill (&self->net, h_constants);
    CALL (copy_in, self->d_constants, h_constants, self->net.bytes, self->load);
    CALL (stream_sync, self->load);
    return NULL;
}

/* ---- a chunk --------------------------------------------------------------------------------- */

static wm_gpu_words_t mark (wm_cuda_v1_t *self, slot_t *slot, int stage)
{
    if (self->config.timed)
        CALL (event_record, slot->mark[stage], slot->stream);
    return NULL;
}

static wm_gpu_words_t launch_tail (wm_cuda_v1_t *self, slot_t *slot)
{
    wm_gpu_tail_t args = self->net.tail;
    args.partial = slot->d_partial, args.held = slot->d_held, args.scores = slot->d_scores;
    for (uint32_t l = 0; l < args.n_layer; l++) {
        char *weight = self->d_constants + self->net.dense_weight[l],
             *bias = self->d_constants + self->net.dense_bias[l];
        args.layer[l].weight = (const float *) (void *) weight;
        args.layer[l].bias = (const float *) (void *) bias;
    }
    wm_gpu_launch_t launch = { WM_GPU_TAIL, self->rows, THREADS / 2,
                               args.n_value * (uint32_t) sizeof (float), &args };
    CALL (launch, &launch, slot->stream);
    return NULL;
}

/* From patches in d_patch to the partial sums. */
static wm_gpu_words_t run_libraries (wm_cuda_v1_t *self, slot_t *slot)
{
    const void *d_x = slot->d_patch;
    wm_gpu_words_t words;
    for (uint32_t i = 0; i < self->net.net->n_conv; i++) {
        CALL (conv_run, self->conv[i], d_x, self->d_constants + self->net.conv_weight[i],
              self->d_constants + self->net.conv_bias[i], slot->d_y[i % 2], slot->d_workspace,
              slot->stream);
        d_x = slot->d_y[i % 2];
    }
    if ((words = mark (self, slot, WM_CUDA_GEMM)))
        return words;
    CALL (gemm_run, self->gemm, d_x, self->d_constants + self->net.gemm_weight, slot->d_partial,
          slot->d_workspace, slot->stream);
    return NULL;
}

static wm_gpu_words_t gather (wm_cuda_v1_t *self, slot_t *slot, const float *d_source,
                              uint32_t stride)
{
    const wm_net_t *net = self->net.net;
    wm_gpu_gather_t args = {
        .source = d_source,
        .offset = slot->d_offset,
        .patch = slot->d_patch,
        .held = slot->d_held,
        .height = net->height,
        .row_values = net->width * net->channel,
        .stride = stride,
        .half = self->net.precision == WM_GPU_F16,
        .limit = self->net.limit,
    };
    wm_gpu_launch_t launch = { WM_GPU_GATHER, self->rows, THREADS, sizeof (uint32_t), &args };
    CALL (launch, &launch, slot->stream);
    return NULL;
}

/* Starts the slot's chunk: its offsets, and `cut` patches in h_source, are set.  */
static wm_gpu_words_t start (wm_cuda_v1_t *self, slot_t *slot, bool cut)
{
    const wm_net_t *net = self->net.net;
    wm_gpu_words_t words;
    if (!cut && !WM_PLANT (WM_PLANT_PLANE))
        CALL (stream_wait, slot->stream, self->loaded);
    if ((words = mark (self, slot, WM_CUDA_COPY_IN)))
        return words;
    CALL (copy_in, slot->d_offset, slot->h_offset, self->rows * sizeof (uint32_t), slot->stream);
    if (cut)
        CALL (copy_in, slot->d_source, slot->h_source, slot->count * self->n_value * sizeof (float),
              slot->stream);
    uint32_t n_row, stride = net->width * net->channel;
    const float *d_source =
        cut ? slot->d_source : wm_cuda_plane_image (self->image, &n_row, &stride);
    if ((words = mark (self, slot, WM_CUDA_GATHER)) ||
        (words = gather (self, slot, d_source, stride)) ||
        (words = mark (self, slot, WM_CUDA_CONV)) || (words = run_libraries (self, slot)) ||
        (words = mark (self, slot, WM_CUDA_TAIL)) || (words = launch_tail (self, slot)) ||
        (words = mark (self, slot, WM_CUDA_COPY_OUT)))
        return words;
    CALL (copy_out, slot->h_scores, slot->d_scores,
          slot->count * self->net.tail.n_output * sizeof (float), slot->stream);
    if ((words = mark (self, slot, WM_CUDA_STAGES)))
        return words;
    CALL (event_record, slot->done, slot->stream);
    slot->busy = true;
    return NULL;
}

/* Waits for a slot and takes its scores.  */
static wm_gpu_words_t collect (wm_cuda_v1_t *self, slot_t *slot, float *scores,
                               _Atomic uint64_t *progress)
{
    const size_t n_output = self->net.tail.n_output;
    if (!slot->busy)
        return NULL;
    if (!WM_PLANT (WM_PLANT_WAIT))
        CALL (event_sync, slot->done);
    slot->busy = false;
    for (int i = 0; self->config.timed && i < WM_CUDA_STAGES; i++) {
        float ms = 0;
        CALL (event_ms, slot->mark[i], slot->mark[i + 1], &ms);
        self->ms[i] += (double) ms;
    }
    memcpy (scores + slot->first * n_output, slot->h_scores,
            slot->count * n_output * sizeof (float));
    if (progress)
        atomic_fetch_add (progress, slot->count);
    return NULL;
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

/* Plans of these candidates, and workspace; *made is false where there are no such.  */
static wm_gpu_words_t make_plans (wm_cuda_v1_t *self, uint32_t conv, uint32_t gemm, bool *made)
{
    wm_gpu_choice_t choice = { 0 };
    wm_gpu_words_t words;
    size_t workspace = 0;
    *made = false;
    drop_plans (self);
    CALL (gemm_new, &self->net.gemm, gemm, &self->gemm, &choice);
    if (!self->gemm)
        return NULL;
    size_t said = (size_t) snprintf (self->choice, sizeof self->choice, "%s", choice.name);
    workspace = choice.workspace_bytes;
    for (uint32_t i = 0; i < self->net.net->n_conv; i++) {
        CALL (conv_new, &self->net.conv[i], conv, &self->conv[i], &choice);
        if (!self->conv[i])
            return NULL;
        workspace = choice.workspace_bytes > workspace ? choice.workspace_bytes : workspace;
        if (i == 0)
            snprintf (self->choice + said, sizeof self->choice - said, "; %s", choice.name);
    }
    if (workspace > WORKSPACE_MAX)
        return NULL;
    for (uint32_t s = 0; workspace > self->workspace_bytes && s < SLOTS; s++)
        if ((words = device_new (self, &self->slot[s].d_workspace, workspace)))
            return words;
    if (workspace > self->workspace_bytes)
        self->workspace_bytes = workspace;
    *made = true;
    return NULL;
}

/* Whether equal patches get equal partial sums in every row, twice.  */
static wm_gpu_words_t try_rows (wm_cuda_v1_t *self, float *h_sums, bool *alike)
{
    slot_t *slot = &self->slot[0];
    const size_t n = self->net.gemm.n;
    float *sums = h_sums + self->net.gemm.splits * n; /* before: row 0 of the first round */
    uint64_t seed = 1;
    for (size_t i = 0; i < self->n_value; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        slot->h_source[i] = (float) (seed >> 40) / (float) (1 << 24); /* [0, 1) */
    }
    memset (slot->h_offset, 0, self->rows * sizeof (uint32_t));
    slot->first = 0, slot->count = 1;
    *alike = true;
    for (int round = 0; round < 2 && *alike; round++) {
        wm_gpu_words_t words = start (self, slot, true);
        if (words)
            return words;
        for (uint32_t s = 0; s < self->net.gemm.splits && *alike; s++) {
            CALL (copy_out, sums, slot->d_partial + s * self->rows * n,
                  self->rows * n * sizeof (float), slot->stream);
            CALL (stream_sync, slot->stream);
            if (round == 0)
                memcpy (h_sums + s * n, sums, n * sizeof (float));
            for (uint32_t r = 0; r < self->rows && *alike; r++)
                *alike = memcmp (sums + r * n, h_sums + s * n, n * sizeof (float)) == 0;
        }
        slot->busy = false;
    }
    CALL (stream_sync, slot->stream);
    return NULL;
}

/* Pins the first candidates that treat all rows alike.  */
static wm_gpu_words_t pin (wm_cuda_v1_t *self, bool *found)
{
    const size_t row = self->net.gemm.n * sizeof (float);
    const uint32_t first = self->config.conv_candidate;
    float *h_sums;
    wm_gpu_words_t words = pinned_new (self, &h_sums, (self->net.gemm.splits + self->rows) * row);
    *found = false;
    for (uint32_t conv = first; !words && !*found && conv < first + CANDIDATES_MAX; conv++) {
        bool made = true;
        for (uint32_t gemm = self->config.gemm_candidate;
             !words && !*found && made && gemm < self->config.gemm_candidate + CANDIDATES_MAX;
             gemm++) {
            words = make_plans (self, conv, gemm, &made);
            if (!words && made)
                words = try_rows (self, h_sums, found);
            if (WM_PLANT (WM_PLANT_PIN))
                *found = made;
        }
    }
    return words;
}

/* ---- life ------------------------------------------------------------------------------------ */

static wm_gpu_words_t make_all (wm_cuda_v1_t *self, wm_error_t *error)
{
    wm_gpu_words_t words;
    bool found = false;
    size_t need = need_bytes (self);
    CALL (open, &self->info);
    if (need > self->info.free_bytes) {
        wm_fault (error, WM_EHOST, "the cuda engine needs %zu MiB of memory, %s has %zu MiB free",
                  need >> 20, self->info.device, self->info.free_bytes >> 20);
        return NULL;
    }
    if ((words = make_plane (self)) || (words = load_constants (self)))
        return words;
    for (uint32_t s = 0; s < SLOTS; s++)
        if ((words = make_slot (self, &self->slot[s])))
            return words;
    if ((words = pin (self, &found)))
        return words;
    if (!found)
        wm_fault (error, WM_EHOST,
                  "neither cuDNN nor cuBLASLt (%s) has an algorithm for this model on %s that "
                  "treats all rows alike: use --engine sparse",
                  self->info.libraries, self->info.device);
    memset (self->ms, 0, sizeof self->ms);
    return NULL;
}

wm_cuda_v1_t *wm_cuda_v1_new (const wm_gpu_api_t *api, const wm_net_t *net, const wm_spec_t *spec,
                              const wm_cuda_config_t *config, wm_gpu_info_t *info,
                              wm_error_t *error)
{
    wm_error_t fault = { 0 };
    wm_cuda_v1_t *self = calloc (1, sizeof *self);
    if (!self || !(self->gpu = api->make ()))
        wm_fault (&fault, WM_EHOST, "no memory for the cuda engine");
    else {
        self->api = api;
        self->config = *config;
        self->rows = config->rows ? config->rows : WM_CUDA_ROWS;
        self->cells_max = config->cells ? config->cells : WM_CUDA_CELLS;
        self->n_value = (size_t) net->height * net->width * net->channel;
        if (spec) {
            self->spec = *spec;
            if (!(self->plane = wm_plane_new (&self->spec)))
                wm_fault (&fault, WM_EHOST, "no memory for a plane");
        }
        if (!fault.fault)
            wm_cuda_net_plan (&self->net, net, spec, config->precision, self->rows, true, &fault);
        wm_gpu_words_t words = fault.fault ? NULL : make_all (self, &fault);
        if (words)
            wm_fault (&fault, WM_EHOST,
                      "the cuda engine cannot start: %s; --engine auto computes on the CPU", words);
    }
    if (fault.fault) {
        if (error)
            *error = fault;
        wm_cuda_v1_destroy (&self);
    } else
        *info = self->info;
    return self;
}

void wm_cuda_v1_destroy (wm_cuda_v1_t **self_p)
{
    wm_cuda_v1_t *self = *self_p;
    if (self) {
        if (self->gpu) {
            drop_plans (self);
            self->api->destroy (self->gpu);
        }
        wm_cuda_plane_destroy (&self->image);
        wm_plane_destroy (&self->plane);
        free (self);
        *self_p = NULL;
    }
}

wm_gpu_words_t wm_cuda_v1_lend (wm_cuda_v1_t *self, const void *h, size_t bytes)
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

/* Sets the slot's patches: places in the image, or the patches themselves.  */
static void fill_slot (wm_cuda_v1_t *self, slot_t *slot, const wm_batch_t *batch, bool cut)
{
    const uint32_t *offset = cut ? NULL : wm_cuda_plane_offset (self->image);
    for (uint32_t r = 0; r < self->rows; r++)
        slot->h_offset[r] = r >= slot->count ? WM_GPU_NO_PATCH
                            : cut            ? (uint32_t) (r * self->n_value)
                                             : offset[slot->first + r];
    if (batch->kind == WM_BATCH_PATCHES)
        memcpy (slot->h_source, batch->patch + slot->first * self->n_value,
                slot->count * self->n_value * sizeof (float));
    else if (cut)
        wm_plane_cut (self->plane, slot->first, slot->count, slot->h_source);
}

/* Lays a plane out on the device; *cut where its patches must be cut on the host.  */
static wm_gpu_words_t load_plane (wm_cuda_v1_t *self, const wm_batch_t *batch, bool *cut)
{
    bool laid = false;
    wm_gpu_words_t words = batch->kind == WM_BATCH_PATCHES
                               ? NULL
                               : wm_cuda_plane_load (self->image, batch, self->load, &laid);
    *cut = !laid;
    if (!words && laid)
        CALL (event_record, self->loaded, self->load);
    return words;
}

wm_fault_t wm_cuda_v1_score (wm_cuda_v1_t *self, const wm_batch_t *batch, float *scores,
                             _Atomic uint64_t *progress, wm_gpu_words_t *dead, wm_error_t *error)
{
    uint32_t turn = 0;
    bool cut;
    if (batch->n_hit == 0)
        return WM_OK; /* else its plane would be under way when the next one comes */
    if (!self->plane && batch->kind != WM_BATCH_PATCHES)
        return wm_fault (error, WM_EBATCH, "a plane, but no specification to cut patches by");
    wm_gpu_words_t words = load_plane (self, batch, &cut);
    if (!words && cut && batch->kind != WM_BATCH_PATCHES) {
        wm_fault_t fault = wm_plane_load (self->plane, batch, error);
        if (fault)
            return fault;
    }
    for (uint32_t hit = 0; !words && hit < batch->n_hit; turn++) {
        /* One slot where stages are timed: two would wait for each other's kernels.  */
        slot_t *slot = &self->slot[self->config.timed ? 0 : turn % SLOTS];
        if (WM_PLANT (WM_PLANT_REUSE))
            memset (slot->h_offset, 0, self->rows * sizeof (uint32_t));
        if ((words = collect (self, slot, scores, progress)))
            break;
        slot->first = hit;
        slot->count = batch->n_hit - hit < self->rows ? batch->n_hit - hit : self->rows;
        fill_slot (self, slot, batch, cut);
        words = start (self, slot, cut);
        hit += slot->count;
    }
    for (uint32_t s = 0; !words && s < SLOTS; s++, turn++)
        words = collect (self, &self->slot[turn % SLOTS], scores, progress);
    *dead = words;
    return words ? WM_EHOST : WM_OK;
}
