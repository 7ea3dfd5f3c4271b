/* wm_any.c - any CNN on the GPU.

   Buffers share memory: one is given a slot when the first step writes it, and leaves it after the
   last one that reads it.  */
#include "kernels/cuda/wm_any.h"
#include "kernels/cuda/wm_cuda_inside.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 256u
#define BLOCKS_MAX 4096u
#define SLOTS_MAX 48u
#define CANDIDATES_MAX 8u

struct wm_any_t {
    const wm_gpu_api_t *api;
    void *gpu, *stream;
    const wm_any_net_t *net;
    wm_gpu_precision_t precision;
    wm_gpu_info_t info;
    uint32_t rows, n_value, n_output, n_slot;
    size_t slot_size[SLOTS_MAX]; /* floats a patch */
    float *d_slot[SLOTS_MAX];
    uint8_t slot_of[WM_ANY_BUFFERS_MAX];
    wm_conv_plan_t *plan[WM_ANY_STEPS_MAX];
    float *d_constant, *h_in, *h_out;
    void *d_workspace;
    size_t workspace_bytes;
    wm_plane_t *plane; /* cuts on the host; NULL: dense patches only */
    char signature[64], death[300];
};

/* ---- memory ---------------------------------------------------------------------------------- */

/* Steps that touch each buffer: the first and the last.  */
static void find_lives (const wm_any_net_t *net, uint32_t *first, uint32_t *last)
{
    for (uint32_t b = 0; b < net->n_buffer; b++)
        first[b] = UINT32_MAX, last[b] = 0;
    for (uint32_t s = 0; s < net->n_step; s++) {
        const wm_any_step_t *step = &net->step[s];
        const bool two = step->kind == WM_ANY_JOIN && step->second != WM_ANY_NONE;
        const uint32_t touched[3] = { step->from, step->to, two ? step->second : step->to };
        for (int k = 0; k < 3; k++) {
            first[touched[k]] = first[touched[k]] < s ? first[touched[k]] : s;
            last[touched[k]] = s;
        }
    }
    first[WM_ANY_INPUT] = 0, last[WM_ANY_INPUT] = UINT32_MAX;
    first[WM_ANY_SCORES] = 0, last[WM_ANY_SCORES] = UINT32_MAX;
}

/* The free slot that fits best; one that has to grow where none does; a new one. SLOTS_MAX: none. */
static uint32_t choose_slot (const wm_any_t *self, const bool *taken, uint32_t size)
{
    uint32_t best = self->n_slot;
    for (uint32_t i = 0; i < self->n_slot; i++) {
        const bool fits = self->slot_size[i] >= size;
        if (taken[i])
            continue;
        if (best == self->n_slot)
            best = i;
        else if (fits != (self->slot_size[best] >= size))
            best = fits ? i : best;
        else if (fits == (self->slot_size[i] < self->slot_size[best]))
            best = i;
    }
    return best;
}

static bool place_buffers (wm_any_t *self)
{
    const wm_any_net_t *net = self->net;
    uint32_t *first = calloc (2 * (size_t) net->n_buffer, sizeof *first);
    uint32_t *last = first + net->n_buffer;
    bool taken[SLOTS_MAX] = { false }, fine = first != NULL;
    if (fine)
        find_lives (net, first, last);
    for (uint32_t s = 0; s < net->n_step && fine; s++) {
        for (uint32_t b = 0; b < net->n_buffer && fine; b++) {
            if (first[b] != s)
                continue;
            const uint32_t slot = choose_slot (self, taken, net->size[b]);
            fine = slot < SLOTS_MAX;
            if (!fine)
                break;
            self->n_slot += slot == self->n_slot;
            if (self->slot_size[slot] < net->size[b])
                self->slot_size[slot] = net->size[b];
            taken[slot] = true;
            self->slot_of[b] = (uint8_t) slot;
        }
        for (uint32_t b = 0; b < net->n_buffer && fine; b++)
            if (last[b] == s && first[b] <= s)
                taken[self->slot_of[b]] = false;
    }
    free (first);
    return fine;
}

static size_t row_bytes (const wm_any_t *self)
{
    size_t n = 0;
    for (uint32_t i = 0; i < self->n_slot; i++)
        n += self->slot_size[i] * sizeof (float);
    return n;
}

static float *at (const wm_any_t *self, uint32_t buffer)
{
    return self->d_slot[self->slot_of[buffer]];
}

/* ---- steps ----------------------------------------------------------------------------------- */

static wm_gpu_words_t launch (wm_any_t *self, wm_gpu_kernel_t kernel, size_t items,
                              const void *args)
{
    const size_t blocks = (items + THREADS - 1) / THREADS;
    wm_gpu_launch_t what = { kernel, (uint32_t) (blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX),
                             THREADS, 0, args };
    CALL (launch, &what, self->stream);
    return NULL;
}

static wm_gpu_words_t run_step (wm_any_t *self, uint32_t s)
{
    const wm_any_step_t *step = &self->net->step[s];
    const size_t rows = self->rows;
    const float *from = at (self, step->from);
    float *to = at (self, step->to);
    switch (step->kind) {
    case WM_ANY_CONV:
        CALL (conv_run, self->plan[s], from, self->d_constant + step->weight,
              self->d_constant + step->bias, to, self->d_workspace, self->stream);
        return NULL;
    case WM_ANY_POOL: {
        wm_gpu_pool_t args = step->pool;
        args.from = from, args.to = to, args.rows = self->rows;
        return launch (self, WM_GPU_POOL, rows * args.out[0] * args.out[1] * args.channels, &args);
    }
    case WM_ANY_JOIN: {
        wm_gpu_join_t args = step->join;
        args.from = from, args.to = to, args.rows = self->rows;
        args.second = step->second == WM_ANY_NONE ? NULL : at (self, step->second);
        return launch (self, WM_GPU_JOIN, rows * args.n, &args);
    }
    case WM_ANY_COPY: {
        wm_gpu_copy_t args = step->copy;
        args.from = from, args.to = to, args.rows = self->rows;
        return launch (self, WM_GPU_COPY, rows * args.n, &args);
    }
    default: {
        wm_gpu_spread_t args = step->spread;
        args.value = to, args.rows = self->rows;
        return launch (self, WM_GPU_SPREAD, rows * args.groups, &args);
    }
    }
}

/* Patches of h_in to scores of h_out.  */
static wm_gpu_words_t run (wm_any_t *self)
{
    wm_gpu_words_t words;
    CALL (copy_in, at (self, WM_ANY_INPUT), self->h_in,
          (size_t) self->rows * self->n_value * sizeof (float), self->stream);
    for (uint32_t s = 0; s < self->net->n_step; s++)
        if ((words = run_step (self, s)))
            return words;
    CALL (copy_out, self->h_out, at (self, WM_ANY_SCORES),
          (size_t) self->rows * self->n_output * sizeof (float), self->stream);
    CALL (stream_sync, self->stream);
    return NULL;
}

/* ---- algorithms ------------------------------------------------------------------------------ */

static void drop_plans (wm_any_t *self)
{
    for (uint32_t s = 0; s < WM_ANY_STEPS_MAX; s++)
        if (self->plan[s])
            self->api->conv_destroy (self->gpu, &self->plan[s]);
}

/* The step's plan: candidate `first`, or the next that asks for little workspace; *made is false
   where there is none.  */
static wm_gpu_words_t make_plan (wm_any_t *self, uint32_t s, uint32_t first, size_t *workspace,
                                 bool *made)
{
    wm_gpu_anyconv_t conv = self->net->step[s].conv;
    wm_gpu_choice_t choice = { 0 };
    conv.precision = self->precision, conv.rows = self->rows;
    for (uint32_t c = first; c < first + CANDIDATES_MAX; c++) {
        CALL (anyconv_new, &conv, c, &self->plan[s], &choice);
        if (!self->plan[s])
            break;
        if (choice.workspace_bytes <= WM_CUDA_WORKSPACE_MAX) {
            *workspace = choice.workspace_bytes > *workspace ? choice.workspace_bytes : *workspace;
            return NULL;
        }
        self->api->conv_destroy (self->gpu, &self->plan[s]);
    }
    *made = false;
    return NULL;
}

static wm_gpu_words_t make_plans (wm_any_t *self, uint32_t first, bool *made)
{
    size_t workspace = 1024;
    drop_plans (self);
    *made = true;
    for (uint32_t s = 0; s < self->net->n_step && *made; s++) {
        wm_gpu_words_t words = self->net->step[s].kind == WM_ANY_CONV
                                   ? make_plan (self, s, first, &workspace, made)
                                   : NULL;
        if (words)
            return words;
    }
    if (*made && workspace > self->workspace_bytes) {
        CALL (device_new, &self->d_workspace, workspace);
        self->workspace_bytes = workspace;
    }
    return NULL;
}

/* Whether equal patches get equal scores in every row, twice.  */
static wm_gpu_words_t try_rows (wm_any_t *self, bool *alike)
{
    const size_t bytes = self->n_output * sizeof (float);
    uint64_t seed = 1;
    float *kept = malloc (bytes);
    wm_gpu_words_t words = kept ? NULL : "no memory";
    for (uint32_t i = 0; i < self->n_value; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        for (uint32_t r = 0; r < self->rows; r++)
            self->h_in[(size_t) r * self->n_value + i] = (float) (seed >> 40) * 0x1p-24f;
    }
    *alike = true;
    for (int round = 0; round < 2 && !words && *alike; round++) {
        words = run (self);
        if (!words && round == 0)
            memcpy (kept, self->h_out, bytes);
        for (uint32_t r = 0; r < self->rows && !words && *alike; r++)
            *alike = memcmp (self->h_out + (size_t) r * self->n_output, kept, bytes) == 0;
    }
    free (kept);
    return words;
}

/* ---- life ------------------------------------------------------------------------------------ */

static wm_gpu_words_t make_memory (wm_any_t *self)
{
    void *d, *h;
    const size_t bytes = self->net->n_constant * sizeof (float);
    CALL (stream_new, &self->stream);
    for (uint32_t i = 0; i < self->n_slot; i++) {
        CALL (device_new, &d, self->rows * self->slot_size[i] * sizeof (float));
        self->d_slot[i] = d;
    }
    CALL (pinned_new, &h, (size_t) self->rows * self->n_value * sizeof (float));
    self->h_in = h;
    CALL (pinned_new, &h, (size_t) self->rows * self->n_output * sizeof (float));
    self->h_out = h;
    CALL (device_new, &d, bytes + sizeof (float));
    self->d_constant = d;
    CALL (pinned_new, &h, bytes + sizeof (float));
    if (bytes) {
        memcpy (h, self->net->constant, bytes);
        CALL (copy_in, d, h, bytes, self->stream);
        CALL (stream_sync, self->stream);
    }
    return NULL;
}

static wm_gpu_words_t make_all (wm_any_t *self, wm_error_t *error)
{
    wm_gpu_words_t words;
    bool made = true, alike = false;
    char version[16];
    CALL (open, &self->info);
    const size_t constants = self->net->n_constant * sizeof (float) + WM_CUDA_WORKSPACE_MAX / 4;
    while (self->rows > 1 && constants + self->rows * row_bytes (self) > self->info.free_bytes / 2)
        self->rows /= 2;
    if (constants + self->rows * row_bytes (self) > self->info.free_bytes) {
        wm_fault (error, WM_EHOST, "this model needs %zu MiB of memory, %s has %zu MiB free",
                  (constants + row_bytes (self)) >> 20, self->info.device,
                  self->info.free_bytes >> 20);
        return NULL;
    }
    if ((words = make_memory (self)))
        return words;
    for (uint32_t c = 0; c < CANDIDATES_MAX && made && !alike; c++)
        if ((words = make_plans (self, c, &made)) || (made && (words = try_rows (self, &alike))))
            return words;
    if (!alike)
        wm_fault (error, WM_EHOST,
                  "cuDNN (%s) has no algorithms for this model on %s that treat all rows alike: "
                  "use --engine openvino",
                  self->info.libraries, self->info.device);
    snprintf (version, sizeof version, "any%u", self->rows);
    wm_cuda_sign (self->signature, &self->info, self->precision, version);
    return NULL;
}

wm_any_t *wm_any_new (const wm_gpu_api_t *api, const wm_any_net_t *net, const wm_spec_t *spec,
                      wm_gpu_precision_t precision, uint32_t rows, wm_error_t *error)
{
    wm_error_t fault = { 0 };
    wm_gpu_words_t words = NULL;
    wm_any_t *self = calloc (1, sizeof *self);
    if (!self || !(self->gpu = api->make ()))
        wm_fault (&fault, WM_EHOST, "no memory for the cuda engine");
    else {
        self->api = api, self->net = net, self->precision = precision;
        self->rows = rows ? rows : WM_ANY_ROWS;
        self->n_value = net->size[WM_ANY_INPUT], self->n_output = net->size[WM_ANY_SCORES];
        if (!place_buffers (self) || (spec && !(self->plane = wm_plane_new (spec))))
            wm_fault (&fault, WM_EHOST, "more than %u buffers at once, or no memory", SLOTS_MAX);
        words = fault.fault ? NULL : make_all (self, &fault);
    }
    if (!wm_cuda_stands (&fault, words, error))
        wm_any_destroy (&self);
    return self;
}

void wm_any_destroy (wm_any_t **self_p)
{
    wm_any_t *self = *self_p;
    if (self) {
        if (self->gpu) {
            drop_plans (self);
            self->api->destroy (self->gpu);
        }
        wm_plane_destroy (&self->plane);
        free (self);
        *self_p = NULL;
    }
}

const char *wm_any_signature (const wm_any_t *self)
{
    return self->signature;
}

wm_fault_t wm_any_score (wm_any_t *self, const wm_batch_t *batch, float *scores,
                         _Atomic uint64_t *progress, wm_error_t *error)
{
    const size_t n = self->n_value;
    const bool cut = batch->kind != WM_BATCH_PATCHES;
    if (cut && !self->plane)
        return wm_fault (error, WM_EBATCH, "a plane, but no specification to cut patches by");
    wm_fault_t fault = cut ? wm_plane_load (self->plane, batch, error) : WM_OK;
    if (fault)
        return fault;
    for (uint32_t hit = 0; hit < batch->n_hit && !*self->death; hit += self->rows) {
        const uint32_t left = batch->n_hit - hit, count = left < self->rows ? left : self->rows;
        memset (self->h_in, 0, self->rows * n * sizeof (float));
        if (cut)
            wm_plane_cut (self->plane, hit, count, self->h_in);
        else
            memcpy (self->h_in, batch->patch + hit * n, count * n * sizeof (float));
        wm_gpu_words_t words = run (self);
        if (words)
            snprintf (self->death, sizeof self->death, "%s", words);
        else {
            memcpy (scores + (size_t) hit * self->n_output, self->h_out,
                    (size_t) count * self->n_output * sizeof (float));
            if (progress)
                atomic_fetch_add (progress, count);
        }
    }
    return *self->death
               ? wm_fault (error, WM_EHOST,
                           "the GPU failed, %s; scores of this batch are dropped, and this "
                           "process must end",
                           self->death)
               : WM_OK;
}
