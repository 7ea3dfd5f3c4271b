/* wm_recall.c - see wm_recall.h.  */
#include "kernels/wm_recall.h"
#include "kernels/wm_seed.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct wm_recall_t {
    double share, next_s;
    bool kept; /* `first` is filled in */
    uint64_t seed;
    uint32_t n_value, n_output, n_known;
    const float *known;        /* (n_known, n_value): the model's, or probe */
    float *probe;              /* (WM_RECALLS, n_value) */
    float *first;              /* (n_known, n_output) */
    float *patch, *score;      /* (WM_RECALL_ROWS, ...) */
    _Atomic uint64_t progress; /* of these patches, unused */
};

/* Chooses the model's known inputs, or seeded patches.  */
static void choose (wm_recall_t *self, const wm_model_t *model)
{
    const float *scores;
    uint64_t seed = 3;
    self->n_known = wm_model_known (model, &self->known, &scores);
    if (self->n_known == 0) {
        for (size_t i = 0; i < (size_t) WM_RECALLS * self->n_value; i++)
            self->probe[i] = (float) (wm_seed_next (&seed) >> 40) * 0x1p-23f - 1; /* [-1, 1) */
        self->known = self->probe, self->n_known = WM_RECALLS;
    }
    self->n_known = self->n_known < WM_RECALLS ? self->n_known : WM_RECALLS;
}

wm_recall_t *wm_recall_new (const wm_model_t *model, double share, wm_error_t *error)
{
    wm_recall_t *self = calloc (1, sizeof *self);
    const size_t n = wm_model_n_value (model), n_output = wm_model_n_output (model);
    if (self) {
        self->share = share, self->n_value = (uint32_t) n, self->n_output = (uint32_t) n_output;
        self->probe = calloc (WM_RECALLS * n, sizeof (float));
        self->first = calloc (WM_RECALLS * n_output, sizeof (float));
        self->patch = calloc (WM_RECALL_ROWS * n, sizeof (float));
        self->score = calloc (WM_RECALL_ROWS * n_output, sizeof (float));
    }
    if (!self || !self->probe || !self->first || !self->patch || !self->score ||
        getrandom (&self->seed, sizeof self->seed, 0) <= 0) {
        wm_fault (error, WM_EHOST, "no memory for canaries");
        wm_recall_destroy (&self);
    } else
        choose (self, model);
    return self;
}

void wm_recall_destroy (wm_recall_t **self_p)
{
    wm_recall_t *self = *self_p;
    if (self) {
        free (self->probe);
        free (self->first);
        free (self->patch);
        free (self->score);
        free (self);
        *self_p = NULL;
    }
}

/* Mixes `rows` patches: those of the batch from hit `first` on, and the known ones at random rows.
   source[r]: the known one in row r, or -1. Returns how many are the batch's.  */
static uint32_t mix (wm_recall_t *self, const wm_batch_t *batch, uint32_t first, uint32_t rows,
                     int source[WM_RECALL_ROWS])
{
    const size_t n = self->n_value;
    uint32_t own = 0;
    for (uint32_t r = 0; r < rows; r++)
        source[r] = -1;
    for (uint32_t k = 0; k < self->n_known;) {
        const uint32_t r = (uint32_t) (wm_seed_next (&self->seed) >> 32) % rows;
        if (source[r] < 0)
            source[r] = (int) k++;
    }
    for (uint32_t r = 0; r < rows; r++)
        memcpy (self->patch + r * n,
                source[r] < 0 ? batch->patch + (size_t) (first + own++) * n
                              : self->known + (size_t) source[r] * n,
                n * sizeof (float));
    return own;
}

static wm_fault_t score (wm_recall_t *self, const wm_backend_t *backend, void *engine,
                         const float *patch, uint32_t rows, float *scores, wm_error_t *error)
{
    uint8_t status[WM_RECALL_ROWS];
    const wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                               .n_hit = rows,
                               .patch_values = self->n_value,
                               .patch = (float *) patch /* engines only read a batch */ };
    return backend->score (engine, &batch, status, scores, &self->progress, error);
}

wm_fault_t wm_recall_check (wm_recall_t *self, const wm_backend_t *backend, void *engine,
                            const wm_batch_t *batch, const float *scores, wm_error_t *error)
{
    const double start_s = wm_now_s ();
    const size_t n = self->n_output, bytes = n * sizeof (float);
    int source[WM_RECALL_ROWS];
    wm_fault_t fault = WM_OK;
    if (!self->kept)
        fault = score (self, backend, engine, self->known, self->n_known, self->first, error);
    self->kept = !fault;
    if (fault || start_s < self->next_s)
        return fault;
    const uint32_t most = WM_RECALL_ROWS - self->n_known,
                   has = batch->kind == WM_BATCH_PATCHES ? batch->n_hit : 0,
                   own = has < most ? has : most, rows = own + self->n_known,
                   first =
                       has > own ? (uint32_t) (wm_seed_next (&self->seed) % (has - own + 1)) : 0;
    const uint32_t mixed = mix (self, batch, first, rows, source);
    assert (mixed == own);
    fault = score (self, backend, engine, self->patch, rows, self->score, error);
    for (uint32_t r = 0, hit = first; r < rows && !fault; r++) {
        const float *should =
            source[r] < 0 ? scores + (size_t) hit++ * n : self->first + (size_t) source[r] * n;
        if (memcmp (self->score + r * n, should, bytes) != 0)
            fault = wm_fault (error, WM_EHOST,
                              "a canary died: %s %u has other scores than before among %u patches: "
                              "this GPU, or its memory, computes wrongly; the batch's scores are "
                              "dropped",
                              source[r] < 0 ? "hit" : "known patch",
                              source[r] < 0 ? hit - 1 : (uint32_t) source[r], rows);
    }
    const double end_s = wm_now_s ();
    self->next_s = end_s + (end_s - start_s) * (1 / self->share - 1);
    return fault;
}
