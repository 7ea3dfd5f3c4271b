/* wm_canary.c - compares with the exact-sparse engine in fp32, on one thread.

   The check's thread waits for state TAKEN, and makes it CHECKED. Only its owner makes it TAKEN and
   IDLE again, so that at most one side uses the judge.  */
#include "kernels/judge/wm_canary.h"
#include "kernels/model/wm_seed.h"
#include "kernels/wm_backend_private.h"
#include "schema/wm_limits.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct wm_canary_t {
    const wm_model_t *model;
    void *judge;
    double tolerance, share, next_s;
    uint64_t seed;
    _Atomic uint64_t progress; /* of the judge, unused */
    float *patch, *score;      /* (WM_CANARIES, n_value), (WM_CANARIES, n_output) */

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* around what follows */
    pthread_cond_t changed;
    enum { IDLE, TAKEN, CHECKED, LEAVES } state;
    wm_job_t *job;
    wm_error_t error; /* of the check */
};

/* The check's own thread.  */
static void *check_jobs (void *argument)
{
    wm_canary_t *self = argument;
    pthread_mutex_lock (&self->lock);
    while (self->state != LEAVES) {
        if (self->state != TAKEN) {
            pthread_cond_wait (&self->changed, &self->lock);
            continue;
        }
        pthread_mutex_unlock (&self->lock);
        self->error.fault =
            wm_canary_check (self, self->job->batch, self->job->scores, &self->error);
        pthread_mutex_lock (&self->lock);
        self->state = CHECKED;
        pthread_cond_signal (&self->changed);
    }
    pthread_mutex_unlock (&self->lock);
    return NULL;
}

wm_canary_t *wm_canary_new (const wm_model_t *model, const wm_spec_t *spec, double tolerance,
                            double share, wm_error_t *error)
{
    const wm_device_config_t config = { .engine = "sparse", .precision = "fp32", .threads = 1 };
    char signature[64];
    wm_canary_t *self = calloc (1, sizeof *self);
    if (self) {
        self->model = model, self->tolerance = tolerance, self->share = share;
        pthread_mutex_init (&self->lock, NULL);
        pthread_cond_init (&self->changed, NULL);
        self->patch = calloc ((size_t) WM_CANARIES * wm_model_n_value (model), sizeof (float));
        self->score = calloc ((size_t) WM_CANARIES * wm_model_n_output (model), sizeof (float));
        if (self->patch && self->score && getrandom (&self->seed, sizeof self->seed, 0) > 0)
            self->judge = wm_backend_sparse.open (model, spec, &config, signature, error);
        else
            wm_fault (error, WM_EHOST, "no memory for canaries");
        if (!self->judge)
            wm_canary_destroy (&self);
    } else
        wm_fault (error, WM_EHOST, "no memory for canaries");
    return self;
}

void wm_canary_destroy (wm_canary_t **self_p)
{
    wm_canary_t *self = *self_p;
    if (self) {
        if (self->has_thread) {
            wm_canary_discard (self);
            pthread_mutex_lock (&self->lock);
            self->state = LEAVES;
            pthread_cond_signal (&self->changed);
            pthread_mutex_unlock (&self->lock);
            pthread_join (self->thread, NULL);
        }
        pthread_mutex_destroy (&self->lock);
        pthread_cond_destroy (&self->changed);
        if (self->judge)
            wm_backend_sparse.close (self->judge);
        free (self->patch);
        free (self->score);
        free (self);
        *self_p = NULL;
    }
}

/* Makes a batch of `count` hits at random places, in their order.  */
static void draw (wm_canary_t *self, const wm_batch_t *batch, uint32_t count, uint32_t *place,
                  wm_batch_t *few, uint32_t *wire, int32_t *col)
{
    const size_t n = batch->patch_values;
    *few = *batch;
    few->n_hit = count;
    for (uint32_t i = 0; i < count; i++) { /* one of each stretch of the batch */
        uint64_t first = (uint64_t) batch->n_hit * i / count,
                 last = (uint64_t) batch->n_hit * (i + 1) / count;
        place[i] = (uint32_t) (first + wm_seed_next (&self->seed) % (last - first));
        if (batch->kind == WM_BATCH_PATCHES)
            memcpy (self->patch + i * n, batch->patch + place[i] * n, n * sizeof (float));
        else
            wire[i] = batch->hit_wire[place[i]], col[i] = batch->hit_col[place[i]];
    }
    few->hit_wire = wire, few->hit_col = col, few->patch = self->patch;
}

static bool is_finite (const float *row, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite (row[i]))
            return false;
    return true;
}

/* Returns the first of a row's outputs that is wrong; n: none. With tolerance 0 the bits of a row
   that is finite on the CPU must be the same. Otherwise values that are not finite on one side are
   not compared.  */
static uint32_t wrong_output (const wm_canary_t *self, const float *is, const float *should,
                              uint32_t n)
{
    const bool exact = self->tolerance == 0 && is_finite (should, n);
    for (uint32_t i = 0; i < n; i++)
        if (exact ? memcmp (&is[i], &should[i], sizeof *is) != 0
                  : isfinite (is[i]) && isfinite (should[i]) &&
                        fabs ((double) is[i] - (double) should[i]) > self->tolerance)
            return i;
    return n;
}

wm_fault_t wm_canary_check (wm_canary_t *self, const wm_batch_t *batch, const float *scores,
                            wm_error_t *error)
{
    const double start_s = wm_now_s ();
    const uint32_t count = batch->n_hit < WM_CANARIES ? batch->n_hit : WM_CANARIES,
                   n = wm_model_n_output (self->model);
    uint32_t place[WM_CANARIES], wire[WM_CANARIES];
    int32_t col[WM_CANARIES];
    uint8_t status[WM_CANARIES] = { 0 };
    wm_batch_t few;
    if (count == 0 || start_s < self->next_s)
        return WM_OK;
    draw (self, batch, count, place, &few, wire, col);
    wm_fault_t fault =
        wm_backend_sparse.score (self->judge, &few, status, self->score, &self->progress, error);
    for (uint32_t i = 0; !fault && i < count; i++) {
        const float *is = scores + (size_t) place[i] * n, *should = self->score + (size_t) i * n;
        const uint32_t output = wrong_output (self, is, should, n);
        if (output < n)
            fault = wm_fault (error, WM_EHOST,
                              "a canary died: output %u of hit %u is %.6f, on the CPU %.6f "
                              "(allowed %.0e): this GPU, or its memory, computes wrongly; the "
                              "batch's scores are dropped",
                              output, place[i], (double) is[output], (double) should[output],
                              self->tolerance);
    }
    const double end_s = wm_now_s ();
    self->next_s = end_s + (end_s - start_s) * (1 / self->share - 1);
    return fault;
}

bool wm_canary_take (wm_canary_t *self, wm_job_t *job)
{
    pthread_mutex_lock (&self->lock);
    const bool idle = self->state == IDLE && wm_now_s () >= self->next_s;
    if (idle && !self->has_thread) /* without a thread this job is not checked; the next one is */
        self->has_thread = pthread_create (&self->thread, NULL, check_jobs, self) == 0;
    const bool takes = idle && self->has_thread;
    if (takes) {
        self->job = job;
        self->error = (wm_error_t){ 0 };
        self->state = TAKEN;
        pthread_cond_signal (&self->changed);
    }
    pthread_mutex_unlock (&self->lock);
    return takes;
}

wm_fault_t wm_canary_collect (wm_canary_t *self, bool waits, wm_job_t **job, wm_error_t *error)
{
    *job = NULL;
    pthread_mutex_lock (&self->lock);
    while (waits && self->state == TAKEN)
        pthread_cond_wait (&self->changed, &self->lock);
    const wm_fault_t fault = self->state == CHECKED ? self->error.fault : WM_OK;
    if (self->state == CHECKED) {
        if (!fault)
            *job = self->job;
        else if (error)
            *error = self->error;
        self->state = IDLE;
    }
    pthread_mutex_unlock (&self->lock);
    return fault;
}

void wm_canary_discard (wm_canary_t *self)
{
    wm_job_t *job;
    wm_canary_collect (self, true, &job, NULL);
}
