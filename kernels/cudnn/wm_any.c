/* wm_any.c - any CNN on the GPU.

   Bits: one shape a launch, pinned algorithms, kernels whose sums do not depend on the grid.

   Half is measured, not proved: nothing bounds the values of any CNN. When an engine in half is
   made, test patches go through an engine in tf32 first. A buffer stays float32 (wm_any_place.h) if
   its values come within WM_ANY_HEADROOM of the end of half's range there, if none of them reaches
   WM_ANY_TINY, at which half begins to lose bits, or if half cannot hold the weights that make it.
   When patches are scored, every value that becomes half is checked, and a patch with one beyond
   the range is held: its scores are NaN.  */
#include "kernels/cudnn/wm_any_engine_private.h"
#include "kernels/gpu/wm_gpu_any.cuh"
#include "kernels/model/wm_seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANDIDATES_MAX 8u
#define MEASURED 4u    /* test patches */
#define DENSE_LEVEL 4. /* largest value of a test patch without a specification */

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t row_bytes (const wm_any_t *self)
{
    size_t n = self->place.scratch_bytes +
               (1 + self->n_cell + self->place.n_doubt) * sizeof (uint32_t) +
               (self->n_value + self->n_output) * sizeof (float);
    for (uint32_t i = 0; i < self->place.n_slot; i++)
        n += self->place.slot_bytes[i];
    return WM_CHUNK_SLOTS * n;
}

/* ---- algorithms ------------------------------------------------------------------------------ */

static void drop_plans (wm_any_t *self)
{
    for (uint32_t s = 0; s < WM_ANY_STEPS_MAX; s++)
        if (self->plan[s])
            self->base.api->conv_destroy (self->base.gpu, &self->plan[s]);
}

/* Gives both slots `bytes` of cuDNN's workspace.  */
static wm_gpu_text_t make_workspace (wm_any_t *self, size_t bytes)
{
    if (bytes <= self->workspace_bytes)
        return NULL;
    for (uint32_t s = 0; s < WM_CHUNK_SLOTS; s++)
        CALL (device_new, &self->chunk[s].d_workspace, bytes);
    self->workspace_bytes = bytes;
    return NULL;
}

/* Makes the step's plan: candidate `first`, or the next that asks for little workspace; *made is
   false if no candidate is left.  */
static wm_gpu_text_t make_plan (wm_any_t *self, uint32_t s, uint32_t first, size_t *workspace,
                                bool *made)
{
    wm_gpu_anyconv_t conv = self->net->step[s].conv;
    wm_gpu_choice_t choice = { 0 };
    conv.rows = self->rows;
    conv.precision = self->place.conv[s]             ? WM_GPU_F16
                     : self->precision == WM_GPU_F32 ? WM_GPU_F32
                                                     : WM_GPU_TF32;
    for (uint32_t c = first; c < first + CANDIDATES_MAX; c++) {
        CALL (anyconv_new, &conv, c, &self->plan[s], &choice);
        if (!self->plan[s])
            break;
        if (choice.workspace_bytes <= WM_CUDA_WORKSPACE_MAX) {
            *workspace = choice.workspace_bytes > *workspace ? choice.workspace_bytes : *workspace;
            return NULL;
        }
        self->base.api->conv_destroy (self->base.gpu, &self->plan[s]);
    }
    *made = false;
    if (first == 0 && self->place.conv[s])
        self->unplanned = s;
    return NULL;
}

static wm_gpu_text_t make_plans (wm_any_t *self, uint32_t first, bool *made)
{
    size_t workspace = 1024;
    drop_plans (self);
    *made = true;
    for (uint32_t s = 0; s < self->net->n_step && *made; s++)
        if (self->net->step[s].kind == WM_ANY_CONV)
            TRY (make_plan (self, s, first, &workspace, made));
    return *made ? make_workspace (self, workspace) : NULL;
}

/* Whether equal patches get equal scores in every row of a chunk, twice; `kept` (n_output): these
   scores.  */
static wm_gpu_text_t try_rows (wm_any_t *self, wm_any_chunk_t *chunk, float *kept, bool *alike)
{
    const size_t n = self->n_value, bytes = self->n_output * sizeof (float);
    uint64_t seed = 1;
    for (size_t i = 0; i < n; i++) {
        const float value = (float) (wm_seed_next (&seed) >> 40) * 0x1p-24f;
        for (uint32_t r = 0; r < self->rows; r++)
            chunk->h_source[r * n + i] = value;
    }
    TRY (wm_chunks_send (self, chunk));
    *alike = true;
    for (int round = 0; round < 2 && *alike; round++) {
        memset (chunk->h_scores, 0xff, self->rows * bytes); /* NaN: a graph may do nothing */
        TRY (wm_any_start (self, chunk));
        CALL (stream_sync, chunk->stream);
        if (round == 0)
            memcpy (kept, chunk->h_scores, bytes);
        for (uint32_t r = 0; r < self->rows && *alike; r++)
            *alike = memcmp (chunk->h_scores + r * self->n_output, kept, bytes) == 0;
    }
    return NULL;
}

/* Makes each slot's work a CUDA graph: one call instead of one a step. An algorithm of cuDNN's that
   cannot be captured leaves the steps, and so do graphs that give other scores than `right`. A
   capture that fails ends with graph_end and harms nothing.  */
static wm_gpu_text_t capture (wm_any_t *self, const float *right, float *scores)
{
    bool captured = true;
    for (uint32_t s = 0; s < WM_CHUNK_SLOTS && captured; s++) {
        wm_any_chunk_t *chunk = &self->chunk[s];
        void *graph = NULL;
        CALL (graph_begin, chunk->stream);
        captured = !wm_any_start_steps (self, chunk);
        captured = !self->base.api->graph_end (self->base.gpu, chunk->stream, &graph) && captured;
        if (!captured)
            break;
        chunk->graph = graph;
        TRY (try_rows (self, chunk, scores, &captured));
        captured = captured && memcmp (scores, right, self->n_output * sizeof *scores) == 0;
    }
    for (uint32_t s = 0; s < WM_CHUNK_SLOTS && !captured; s++)
        self->chunk[s].graph = NULL;
    return NULL;
}

/* Takes the libraries' first algorithms that treat all rows alike; *alike is false where there are
   none.  */
static wm_gpu_text_t choose (wm_any_t *self, bool *alike)
{
    const size_t n = self->n_output;
    wm_gpu_text_t text = NULL;
    bool made = true;
    float *kept = calloc (2 * n, sizeof *kept);
    for (uint32_t c = 0; c < CANDIDATES_MAX && kept && made && !*alike && !text; c++) {
        text = make_plans (self, c, &made);
        if (self->measures)
            *alike = made; /* no scores come of it */
        else if (!text && made)
            text = try_rows (self, &self->chunk[0], kept, alike);
    }
    if (kept && *alike && !text && !self->measures)
        text = capture (self, kept, kept + n);
    free (kept);
    return kept ? text : "no memory";
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Rounds the weights of convolutions in tf32, which cuDNN may cut off instead, always towards
   0.  */
static void round_weights (const wm_any_t *self, float *constant)
{
    for (uint32_t s = 0; s < self->net->n_step; s++) {
        const wm_any_step_t *step = &self->net->step[s];
        const wm_gpu_anyconv_t *c = &step->conv;
        if (step->kind != WM_ANY_CONV || self->place.conv[s] || self->precision == WM_GPU_F32)
            continue;
        const size_t n = (size_t) c->c_out * c->kernel[0] * c->kernel[1] * (c->c_in / c->groups);
        for (size_t i = 0; i < n; i++)
            constant[step->weight + i] = wm_tf32 (constant[step->weight + i]);
    }
}

static wm_gpu_text_t make_constants (wm_any_t *self)
{
    const size_t n = self->net->n_constant;
    void *stream = self->chunk[0].stream;
    float *h;
    uint16_t *h_half;
    BOTH_NEW (&h, &self->d_constant, (n + 1) * sizeof *h);
    BOTH_NEW (&h_half, &self->d_half, (n + 1) * sizeof *h_half);
    if (n == 0)
        return NULL;
    memcpy (h, self->net->constant, n * sizeof *h);
    for (size_t i = 0; i < n; i++)
        h_half[i] = wm_half (h[i]);
    round_weights (self, h);
    CALL (copy_in, self->d_constant, h, n * sizeof *h, stream);
    CALL (copy_in, self->d_half, h_half, n * sizeof *h_half, stream);
    CALL (stream_sync, stream);
    return NULL;
}

static wm_gpu_text_t make_memory (wm_any_t *self)
{
    const wm_any_place_t *place = &self->place;
    TRY (wm_chunks_open (self));
    for (uint32_t s = 0; s < WM_CHUNK_SLOTS; s++) {
        wm_any_chunk_t *chunk = &self->chunk[s];
        for (uint32_t i = 0; i < place->n_slot; i++)
            BOTH_NEW (NULL, &chunk->d_buffer[i], self->rows * place->slot_bytes[i]);
        if (place->scratch_bytes)
            BOTH_NEW (NULL, &chunk->d_scratch, self->rows * place->scratch_bytes);
        BOTH_NEW (self->measures ? &self->h_held : NULL, &chunk->d_held,
                  wm_any_flags (self) * sizeof (uint32_t));
    }
    return make_constants (self);
}

static wm_gpu_text_t make_all (wm_any_t *self, wm_error_t *error)
{
    bool alike = false;
    const wm_gpu_info_t *info = &self->base.info;
    CALL (open, &self->base.info);
    CALL (open_cudnn, &self->base.info);
    if (self->sized)
        self->rows = wm_any_rows (self->net, info->n_sm);
    const size_t constants = self->net->n_constant * 6 + WM_CUDA_WORKSPACE_MAX / 4;
    while (self->rows > 1 && constants + self->rows * row_bytes (self) > info->free_bytes / 2)
        self->rows /= 2;
    self->base.fill = WM_CHUNK_SLOTS * self->rows;
    if (constants + self->rows * row_bytes (self) > info->free_bytes) {
        wm_fault (error, WM_EHOST, "this model needs %zu MiB of memory, %s has %zu MiB free",
                  (constants + row_bytes (self)) >> 20, info->device, info->free_bytes >> 20);
        return NULL;
    }
    self->lays = self->cutter &&
                 constants + self->rows * row_bytes (self) + wm_cuda_plane_bytes (WM_CUDA_CELLS) <=
                     info->free_bytes / 5 * 4;
    TRY (make_memory (self));
    TRY (choose (self, &alike));
    if (!alike)
        wm_fault (error, WM_EHOST,
                  "cuDNN (%s) has no algorithms for this model on %s that treat all rows alike: "
                  "use --engine openvino",
                  info->libraries, info->device);
    return NULL;
}

static void clear (wm_cuda_t *base)
{
    wm_any_t *self = (wm_any_t *) base;
    drop_plans (self);
    for (uint32_t s = 0; s < WM_CHUNK_SLOTS; s++)
        free (self->chunk[s].part);
    wm_cuda_plane_destroy (&self->plane);
    wm_plane_destroy (&self->cutter);
}

static void destroy (wm_any_t *self)
{
    wm_cuda_t *base = self ? &self->base : NULL;
    wm_cuda_destroy (&base);
}

/* Makes an engine whose buffers marked in `beyond` are float32. NULL with *error; *unplanned is
   then the convolution for which cuDNN has no plan in half, if that is why.  */
static wm_any_t *make (const wm_any_t *like, const wm_spec_t *spec, const bool *beyond,
                       uint32_t *unplanned, wm_error_t *error)
{
    wm_error_t fault = { 0 };
    wm_gpu_text_t text = NULL;
    wm_any_t *self = malloc (sizeof *self);
    if (!self)
        wm_fault (&fault, WM_EHOST, "no memory for the cuda engine");
    else {
        *self = *like;
        self->unplanned = self->net->n_step;
        if (spec)
            self->spec = *spec;
        if (!wm_any_place (&self->place, self->net, self->precision == WM_GPU_F16, beyond))
            wm_fault (&fault, WM_EHOST, "more than %u buffers at once, or no memory",
                      WM_ANY_SLOTS_MAX);
        else if (!(self->base.gpu = self->base.api->make ()) ||
                 (spec && !self->measures && !(self->cutter = wm_plane_new (&self->spec))))
            wm_fault (&fault, WM_EHOST, "no memory for the cuda engine");
        else
            text = make_all (self, &fault);
        *unplanned = self->unplanned;
    }
    if (wm_cuda_stands (&fault, text, error))
        return self;
    destroy (self);
    return NULL;
}

/* Draws test patches, from a quarter full to full, every other one with the largest values there
   are.  */
static void draw_patches (wm_any_t *self, const wm_spec_t *spec)
{
    const float low = spec ? (float) spec->out_min : (float) -DENSE_LEVEL,
                high = spec ? (float) spec->out_max : (float) DENSE_LEVEL,
                zero = spec ? wm_spec_zero (spec) : 0;
    const size_t n = self->n_value, rows = self->rows;
    uint64_t seed = 3;
    for (size_t i = 0; i < rows * n; i++) {
        const size_t r = i / n;
        const uint64_t draw = wm_seed_next (&seed);
        const float part = (float) (draw >> 40) * 0x1p-24f;
        const bool active = (draw & 0xffff) * rows <= (r + 1) << 16;
        self->chunk[0].h_source[i] = !active ? zero
                                     : r % 2 ? (part < 0.5f ? low : high)
                                             : low + part * (high - low);
    }
}

/* Why half does not hold a step's values and weights, or at n_step the patches; NULL: it does.  */
static const char *why_not (const wm_any_t *self, uint32_t index)
{
    const wm_any_net_t *net = self->net;
    const char *weights = index < net->n_step && net->step[index].kind == WM_ANY_CONV
                              ? wm_any_place_refuse (net, &net->step[index])
                              : NULL;
    if (self->h_held[index])
        return "comes within a factor of 4 of the end of half's range on test patches";
    if (weights)
        return weights;
    return self->h_held[net->n_step + 1 + index] ? NULL : "has nothing above 2^-12 on test patches";
}
_Static_assert(WM_ANY_HEADROOM == 4 && WM_ANY_TINY == 0x1p-12, "the texts of why_not");

/* Marks the buffers that half does not hold; `text` names the first step and why.  */
static wm_gpu_text_t measure (wm_any_t *self, const wm_spec_t *spec, bool *beyond, char text[200])
{
    const wm_any_net_t *net = self->net;
    wm_any_chunk_t *chunk = &self->chunk[0];
    draw_patches (self, spec);
    TRY (wm_chunks_send (self, chunk));
    TRY (wm_any_start (self, chunk));
    CALL (copy_out, self->h_held, chunk->d_held, wm_any_flags (self) * sizeof *self->h_held,
          chunk->stream);
    CALL (stream_sync, chunk->stream);
    for (uint32_t i = 0; i <= net->n_step; i++) { /* the patches first */
        const uint32_t s = i ? i - 1 : net->n_step;
        const bool patches = s == net->n_step;
        if (!patches && (net->step[s].to == WM_ANY_SCORES || !wm_any_leaves (net, s)))
            continue;
        const char *why = why_not (self, s);
        if (!why)
            continue;
        beyond[patches ? WM_ANY_INPUT : net->step[s].to] = true;
        if (!*text)
            snprintf (text, 200, "node '%s' %s", patches ? "input" : net->step[s].name, why);
    }
    return NULL;
}

static void sign (wm_any_t *self, const bool *beyond, const char *text)
{
    char version[32];
    uint32_t n = 0, all = 0;
    for (uint32_t s = 0; s < self->net->n_step; s++) {
        const wm_any_step_t *step = &self->net->step[s];
        if (step->kind != WM_ANY_CONV)
            continue;
        all++;
        n += beyond && !self->place.conv[s] && (beyond[step->to] || beyond[step->from]);
    }
    snprintf (version, sizeof version, n ? "any%u+%u" : "any%u", self->rows, n);
    wm_cuda_sign (&self->base, self->precision, version);
    if (*text)
        snprintf (self->base.choice, sizeof self->base.choice,
                  "%u of %u convolutions run in tf32: %.140s", n, all, text);
}

/* In half: measures, then makes engines until cuDNN has a plan for each convolution left in
   half.  */
static wm_any_t *make_half (const wm_any_t *like, const wm_spec_t *spec, wm_error_t *error)
{
    const wm_any_net_t *net = like->net;
    wm_any_t tf32 = *like, *self = NULL;
    char text[200] = "";
    uint32_t unplanned = net->n_step;
    bool *beyond = calloc (net->n_buffer, sizeof *beyond);
    wm_error_t fault = { 0 };
    if (!beyond) {
        wm_fault (error, WM_EHOST, "no memory for the cuda engine");
        return NULL;
    }
    tf32.precision = WM_GPU_TF32, tf32.measures = true, tf32.rows = MEASURED, tf32.sized = false;
    wm_any_t *measuring = make (&tf32, spec, NULL, &unplanned, &fault);
    wm_gpu_text_t dead = measuring ? measure (measuring, spec, beyond, text) : NULL;
    if (wm_cuda_stands (&fault, dead, error))
        for (bool again = true; again;) {
            self = make (like, spec, beyond, &unplanned, &fault);
            again = !self && unplanned < net->n_step;
            if (!self && !again && error)
                *error = fault;
            if (again)
                beyond[net->step[unplanned].to] = true;
            if (again && !*text)
                snprintf (text, sizeof text, "cuDNN has nothing for node '%s' in half",
                          net->step[unplanned].name);
        }
    if (self)
        sign (self, beyond, text);
    destroy (measuring);
    free (beyond);
    return self;
}

wm_cuda_t *wm_any_new (const wm_gpu_api_t *api, const wm_any_net_t *net, const wm_spec_t *spec,
                       wm_gpu_precision_t precision, uint32_t rows, wm_error_t *error)
{
    uint32_t unplanned;
    const wm_any_t like = {
        .base = { .api = api,
                  .n_slot = WM_CHUNK_SLOTS,
                  .submit = wm_chunks_submit,
                  .start = wm_chunks_start,
                  .complete = wm_chunks_complete,
                  .clear = clear },
        .net = net,
        .precision = precision,
        .sized = rows == 0,
        .rows = rows ? rows : WM_ANY_ROWS,
        .n_cell = spec && spec->n_channel > 1 ? spec->n_channel : 1,
        .n_value = net->size[WM_ANY_INPUT],
        .n_output = net->size[WM_ANY_SCORES],
    };
    wm_any_t *self;
    if (precision == WM_GPU_F16)
        self = make_half (&like, spec, error);
    else if ((self = make (&like, spec, NULL, &unplanned, error)) != NULL)
        sign (self, NULL, "");
    return self ? &self->base : NULL;
}

bool wm_any_captured (const wm_cuda_t *self)
{
    return ((const wm_any_t *) self)->chunk[0].graph != NULL;
}
