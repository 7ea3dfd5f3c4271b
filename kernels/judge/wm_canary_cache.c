/* wm_canary_cache.c - see wm_canary_cache.h.  */
#include "kernels/judge/wm_canary_cache.h"
#include "kernels/model/wm_seed.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct wm_canary_cache_t {
    double share, start_s, next_s;
    bool kept; /* `first` is filled in */
    uint64_t seed;
    uint32_t n_value, n_output, n_known;
    const float *known;   /* (n_known, n_value): the model's, or probe */
    float *probe;         /* (WM_RECALLS, n_value) */
    float *first;         /* (n_known, n_output) */
    float *patch, *score; /* (WM_CANARY_CACHE_ROWS, ...) */

    /* The check that is under way.  */
    wm_job_t *held; /* NULL: none */
    wm_job_t job;
    wm_batch_t batch;
    uint8_t status[WM_CANARY_CACHE_ROWS];
    int source
        [WM_CANARY_CACHE_ROWS]; /* of a row: the known patch in it, or -1: a hit of the batch */
    uint32_t first_hit;         /* of the batch's hits among them */
};

/* Chooses the model's known inputs, or seeded patches.  */
static void choose (wm_canary_cache_t *self, const wm_model_t *model)
{
    const float *scores;
    uint64_t seed = 3;
    self->n_known = wm_model_known (model, &self->known, &scores);
    if (self->n_known == 0) {
        for (size_t i = 0; i < (size_t) WM_RECALLS * self->n_value; i++)
            self->probe[i] = wm_seed_unit (&seed);
        self->known = self->probe, self->n_known = WM_RECALLS;
    }
    self->n_known = self->n_known < WM_RECALLS ? self->n_known : WM_RECALLS;
}

wm_canary_cache_t *wm_canary_cache_new (const wm_model_t *model, double share, wm_error_t *error)
{
    wm_canary_cache_t *self = calloc (1, sizeof *self);
    const size_t n = wm_model_n_value (model), n_output = wm_model_n_output (model);
    if (self) {
        self->share = share, self->n_value = (uint32_t) n, self->n_output = (uint32_t) n_output;
        self->probe = calloc (WM_RECALLS * n, sizeof (float));
        self->first = calloc (WM_RECALLS * n_output, sizeof (float));
        self->patch = calloc (WM_CANARY_CACHE_ROWS * n, sizeof (float));
        self->score = calloc (WM_CANARY_CACHE_ROWS * n_output, sizeof (float));
    }
    if (!self || !self->probe || !self->first || !self->patch || !self->score ||
        getrandom (&self->seed, sizeof self->seed, 0) <= 0) {
        wm_fault (error, WM_EHOST, "no memory for canaries");
        wm_canary_cache_destroy (&self);
    } else
        choose (self, model);
    return self;
}

void wm_canary_cache_destroy (wm_canary_cache_t **self_p)
{
    wm_canary_cache_t *self = *self_p;
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
static uint32_t mix (wm_canary_cache_t *self, const wm_batch_t *batch, uint32_t first,
                     uint32_t rows, int source[WM_CANARY_CACHE_ROWS])
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

/* Sets the check's job: `rows` patches.  */
static void set_job (wm_canary_cache_t *self, const float *patch, uint32_t rows, float *scores)
{
    self->batch = (wm_batch_t){ .kind = WM_BATCH_PATCHES,
                                .n_hit = rows,
                                .patch_values = self->n_value,
                                .patch = (float *) patch /* engines only read a batch */ };
    self->job = (wm_job_t){
        .batch = &self->batch, .status = self->status, .scores = scores, .n_left = rows
    };
}

/* Sets it to known patches among hits of the batch that is held back.  */
static void set_mixed (wm_canary_cache_t *self)
{
    const wm_batch_t *batch = self->held->batch;
    const uint32_t most = WM_CANARY_CACHE_ROWS - self->n_known,
                   has = batch->kind == WM_BATCH_PATCHES ? batch->n_hit : 0,
                   own = has < most ? has : most, rows = own + self->n_known;
    self->first_hit = has > own ? (uint32_t) (wm_seed_next (&self->seed) % (has - own + 1)) : 0;
    const uint32_t mixed = mix (self, batch, self->first_hit, rows, self->source);
    assert (mixed == own);
    set_job (self, self->patch, rows, self->score);
}

bool wm_canary_cache_take (wm_canary_cache_t *self, wm_job_t *job)
{
    const double now_s = wm_now_s ();
    if (self->held || now_s < self->next_s)
        return false;
    self->held = job, self->start_s = now_s;
    if (self->kept)
        set_mixed (self);
    else
        set_job (self, self->known, self->n_known, self->first);
    return true;
}

wm_job_t *wm_canary_cache_job (wm_canary_cache_t *self)
{
    return &self->job;
}

/* Compares all rows with what they had.  */
static wm_fault_t compare_rows (const wm_canary_cache_t *self, wm_error_t *error)
{
    const size_t n = self->n_output;
    for (uint32_t r = 0, hit = self->first_hit; r < self->batch.n_hit; r++) {
        const bool own = self->source[r] < 0;
        const uint32_t which = own ? hit++ : (uint32_t) self->source[r];
        const float *should = own ? self->held->scores + which * n : self->first + which * n;
        if (memcmp (self->score + r * n, should, n * sizeof (float)) != 0)
            return wm_fault (error, WM_EHOST,
                             "a canary died: %s %u has other scores than before among %u patches: "
                             "this GPU, or its memory, computes wrongly; the batch's scores are "
                             "dropped",
                             own ? "hit" : "known patch", which, self->batch.n_hit);
    }
    return WM_OK;
}

wm_fault_t wm_canary_cache_compare (wm_canary_cache_t *self, wm_job_t **job, bool *again,
                                    wm_error_t *error)
{
    *job = NULL, *again = false;
    if (self->job.error.fault)
        return wm_fault (error, WM_EHOST, "known patches were refused: %.300s",
                         self->job.error.text);
    if (!self->kept) {
        self->kept = *again = true;
        set_mixed (self);
        return WM_OK;
    }
    const wm_fault_t fault = compare_rows (self, error);
    const double end_s = wm_now_s ();
    self->next_s = end_s + (end_s - self->start_s) * (1 / self->share - 1);
    *job = fault ? NULL : self->held;
    self->held = NULL;
    return fault;
}
