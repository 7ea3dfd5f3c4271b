/* wm_gather.c - see wm_gather.h.

   Three kinds of object. A job is a request that was taken: it lives until its answer is sent and
   no batch has rows of it. A batch is what a worker gets: up to 256 rows, in parts, each some
   neighbouring rows of one job. A client is a connection with jobs that wait; its turn is the sum
   of their rows.

   The way of a job: wm_gather_add checks the request, counts the bytes of its answer, allocates its
   tensors, and puts it into the heap `waiting`. `pump` cuts batches from the front of the heap
   (cut_batch) and is called by a timer, never by another function, so that all requests of one
   round of the loop can share a batch. A large job stays in the heap until its last row is in a
   batch. When a batch comes back (wm_gather_answered), `scatter` puts each row of scores into the
   tensors of its job. The job with no row left is answered (job_answer): classes and shared memory
   may take long, so `finish` is a job of wm_slice.h. It ends with the transport's reply.

   What can go wrong, and where it is kept: a row that is held is NaN, and counted (hold_row); a job
   that cannot be answered has a `failure`, of its first such row. A batch that the broker gives up
   comes back without statuses (try_again). A request that is cancelled leaves its job behind with
   `request` NULL, while rows of it are under way.

   Invariants: n_left counts rows without scores, n_part the parts of a job in batches; a job is
   freed when `request` is NULL and n_part is 0. n_asked counts jobs with a request: the version
   (wm_version.c) waits for it to be 0. Callbacks may lead back into this file: to wm_gather_add
   from `left`, to wm_gather_cancel from a reply. So each function changes its lists first, and
   calls out last.  */
#include "producer/serving/wm_gather.h"
#include "producer/net/wm_heap.h"
#include "producer/net/wm_slice.h"
#include "schema/base/wm_table.h"
#include "schema/wm_batch.h"
#include "schema/wm_exact.h"
#include "schema/wm_limits.h"

#include <czmq.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH_ROWS_MAX 256u /* several workers share a request; 64 and more are fast */
#define BATCHES_MAX 256u
#define TURN_LEAST 64u /* the least that a request takes of its client's turn, in rows */
#define RETRIES 2
#define ROWS_NAMED 8 /* in an error's text */

/* The turns of a client with requests that wait.  */
typedef struct {
    uint64_t id, turn;
    uint32_t n_job;
} client_t;

/* A request. Its first n_taken rows are in batches.  */
typedef struct job_t {
    wm_heap_item_t item; /* first: among those that wait, by priority, turn, number */
    wm_gather_t *gather;
    wm_ks_request_t *request; /* NULL: cancelled */
    client_t *client;         /* while it waits */
    wm_tensor_plan_t plan;
    uint32_t n_row;                   /* to score: of a ragged request of none one, for shapes */
    uint32_t n_taken, n_left, n_held; /* rows: in batches; not scored; with NaN */
    uint32_t n_part;                  /* in batches that are not answered */
    uint32_t priority;
    uint32_t n_unfit; /* of those with NaN: that cannot be answered by it; the first are */
    uint32_t unfit[ROWS_NAMED];
    float **rows;           /* of a ragged model: (n_row), a row of scores each */
    size_t kept;            /* bytes of its answer, or of these rows */
    size_t n_value;         /* of one of its rows */
    wm_ks_error_t *failure; /* of the first row that cannot be answered; NULL: none */
    uint32_t failed_row;
    int64_t came_us, sent_us;
    wm_kserve_tensor_t *output; /* of the answer: scores are put there as they come */
    wm_ranking_t ranking;
    wm_placed_t placed;
    wm_slice_t slice;
    struct job_t *prev, *next; /* among those that are answered in slices */
} job_t;

/* Rows of one request in a batch.  */
typedef struct {
    job_t *job;
    uint32_t row, n;
} part_t;

typedef struct batch_t {
    wm_link_batch_t link; /* first: the link knows only this */
    struct batch_t *prev, *next;
    float *value;
    size_t n_value; /* of a row */
    size_t bytes;
    uint32_t n_row, n_part, n_retry;
    int64_t sent_us;
    part_t *part;
} batch_t;

struct wm_gather_t {
    wm_loop_t *loop;
    wm_link_t *link;
    wm_gather_how_t how;
    uint32_t rows_max;
    wm_heap_t waiting; /* in the order in which they are sent */
    uint64_t rows_waiting, last_number;
    uint32_t n_asked, n_job, n_batch; /* n_asked: jobs whose request is not answered */
    batch_t *batches;                 /* under way */
    size_t bytes;                     /* of them */
    job_t *sliced;                    /* scored, and answered in slices */
    uint64_t turn;                    /* of what was sent last */
    wm_table_t clients;
    wm_timer_t *timer; /* to look at the queue */
    int64_t timer_us;
    wm_gather_counts_t counts;
};

/* ---- requests -------------------------------------------------------------------------------- */

static client_t *client_of (wm_gather_t *self, uint64_t id)
{
    size_t at;
    client_t *client = wm_table_first (&self->clients, wm_table_mix (id), &at);
    if (client)
        return client;
    client = zmalloc (sizeof *client);
    client->id = id;
    if (wm_table_reserve (&self->clients))
        abort (); /* as zmalloc without memory */
    wm_table_put (&self->clients, wm_table_mix (id), client);
    return client;
}

/* The one that is sent next; NULL: none waits.  */
static job_t *first_of (const wm_gather_t *self)
{
    return (job_t *) wm_heap_first (&self->waiting);
}

static void leave_queue (job_t *job)
{
    wm_gather_t *self = job->gather;
    client_t *client = job->client;
    wm_heap_remove (&self->waiting, &job->item);
    job->client = NULL;
    self->rows_waiting -= job->n_row - job->n_taken;
    if (--client->n_job)
        return;
    wm_table_remove (&self->clients, wm_table_mix (client->id), client);
    free (client);
}

static void enter_queue (job_t *job)
{
    wm_gather_t *self = job->gather;
    const uint32_t n = job->n_row;
    client_t *client = job->client = client_of (self, job->request->client);
    client->n_job++;
    const uint64_t turn = client->turn > self->turn ? client->turn : self->turn;
    client->turn = turn + (n > TURN_LEAST ? n : TURN_LEAST);
    job->item = (wm_heap_item_t){ .key = { job->priority, turn, ++self->last_number } };
    wm_heap_add (&self->waiting, &job->item);
    self->rows_waiting += n;
}

static void free_rows (job_t *job)
{
    for (uint32_t i = 0; job->rows && i < job->n_row; i++)
        free (job->rows[i]);
    free (job->rows);
    job->rows = NULL;
}

/* Frees the scores: they are not wanted any more.  */
static void free_scores (job_t *job)
{
    free_rows (job);
    if (job->output)
        wm_signature_clear (&job->plan, job->output);
}

/* One more request, or one less. Called where nothing more is done that depends on others.  */
static void count_jobs (wm_gather_t *self, int more)
{
    self->n_job += (uint32_t) more;
    if (self->n_job == (more > 0) && self->how.turns)
        self->how.turns (self->how.argument);
}

/* Its answer was sent, or its request was cancelled.  */
static void end_answer (job_t *job)
{
    wm_gather_t *self = job->gather;
    if (job->slice.argument) {
        *(job->prev ? &job->prev->next : &self->sliced) = job->next;
        if (job->next)
            job->next->prev = job->prev;
    }
    wm_slice_end (&job->slice);
    wm_ranking_clear (&job->ranking);
    free (job->output);
}

static void job_free (job_t *job)
{
    count_jobs (job->gather, -1);
    free_scores (job);
    end_answer (job);
    free (job->failure);
    free (job);
}

static bool is_asked (const job_t *job, uint32_t output)
{
    for (uint32_t o = 0; o < job->plan.n_output; o++)
        if (job->plan.output[o] == output)
            return true;
    return false;
}

/* Whether NaN of a row is among the scores that matter: all of them, or those of integer outputs.
   score NULL: all are NaN. Another check finds a ragged row that is damaged.  */
static bool is_unfit (const job_t *job, const float *score)
{
    const wm_signature_t *signature = job->gather->how.signature;
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    uint32_t n_tensor;
    bool is_nan = false;
    if (job->rows && (wm_ragged_read (score, (size_t) score[0], &n_tensor, tensor) ||
                      n_tensor != signature->n_output))
        return false;
    for (uint32_t o = 0; o < signature->n_output; o++) {
        const wm_signature_port_t *port = &signature->output[o];
        const uint32_t at = job->rows ? tensor[o].at : port->at;
        const uint32_t n_value =
            job->rows ? tensor[o].n_float : port->n_value * wm_exact_each (port->exact);
        if (job->gather->how.is_strict || (port->type <= WM_TYPE_INT64 && is_asked (job, o)))
            for (uint32_t i = 0; i < n_value; i++)
                is_nan |= !score || isnan (score[at + i]);
    }
    return is_nan;
}

/* Counts a row with NaN, and remembers the first ones that are unfit.  */
static void hold_row (job_t *job, uint32_t row, const float *score)
{
    job->n_held++;
    if (!is_unfit (job, score))
        return;
    uint32_t at = job->n_unfit < ROWS_NAMED ? job->n_unfit : ROWS_NAMED;
    job->n_unfit++;
    for (; at > 0 && job->unfit[at - 1] > row; at--)
        if (at < ROWS_NAMED)
            job->unfit[at] = job->unfit[at - 1];
    if (at < ROWS_NAMED)
        job->unfit[at] = row;
}

/* Refuses held rows where they cannot be answered by NaN. INVALID names the first of them.  */
static wm_ks_code_t check_held (const job_t *job, wm_ks_error_t *error)
{
    char rows[ROWS_NAMED * 12] = "";
    if (!job->n_unfit)
        return WM_KS_OK;
    for (uint32_t i = 0; i < job->n_unfit && i < ROWS_NAMED; i++)
        sprintf (rows + strlen (rows), "%s%u", *rows ? ", " : "", job->unfit[i]);
    return wm_ks_fail (error, WM_KS_INVALID,
                       "%u of %u rows of the request to model '%.100s' have no scores, rows %s%s "
                       "(from 0): their inputs are not finite, an index of theirs lies outside its "
                       "table, or the model gives NaN; %s",
                       job->n_unfit, job->plan.n_row, job->gather->how.model, rows,
                       job->n_unfit > ROWS_NAMED ? " ..." : "",
                       job->gather->how.is_strict ? "the server runs with --strict"
                                                  : "an output of integers has no NaN for them");
}

/* Has room for classes in the place of scores. How many a ragged row has shows here.  */
static wm_ks_code_t keep_classes (const job_t *job, wm_ks_error_t *error)
{
    const wm_signature_t *signature = job->gather->how.signature;
    const size_t bytes = wm_signature_class_bytes (signature, &job->plan, job->output);
    if (bytes && signature->is_ragged &&
        !job->request->calls->keep (job->request, job->kept + bytes))
        return wm_ks_fail (error, WM_KS_EXHAUSTED,
                           "the classes that are asked of model '%.100s' may have %zu bytes, which "
                           "is larger than this server's limit (--max-message): ask for fewer",
                           job->gather->how.model, bytes);
    return WM_KS_OK;
}

/* Looks at the scores, which are all there. Those of ragged rows are joined to tensors.  */
static wm_ks_code_t job_output (job_t *job, wm_ks_error_t *error)
{
    const wm_signature_t *signature = job->gather->how.signature;
    if (job->failure) {
        *error = *job->failure;
        return error->code;
    }
    wm_ks_code_t code = check_held (job, error);
    if (!code && signature->is_ragged) {
        code = wm_signature_ragged_answer (signature, &job->plan, job->gather->how.model, job->rows,
                                           job->output, error);
        free_rows (job); /* the tensors have them: they are counted once */
    }
    return code ? code : keep_classes (job, error);
}

/* Replies, which ends the request. code OK: its outputs are made.  */
static void job_reply (job_t *job, wm_ks_code_t code, const char *text)
{
    wm_gather_t *self = job->gather;
    wm_ks_request_t *request = job->request;
    const int64_t now_us = wm_loop_now_us (self->loop);
    const wm_ks_answer_t answer = { .code = code,
                                    .text = text,
                                    .model = self->how.model,
                                    .version = self->how.version,
                                    .output = code ? NULL : job->output,
                                    .n_output = code ? 0 : job->plan.n_output,
                                    .n_held = job->n_held };
    job->request = NULL;
    request->backend = NULL;
    self->n_asked--;
    if (code == WM_KS_OK) {
        self->counts.n_success++;
        self->counts.n_row += job->plan.n_row;
        self->counts.n_held += job->n_held;
        self->counts.success_us += (uint64_t) (now_us - job->came_us);
        self->counts.queue_us += (uint64_t) (job->sent_us - job->came_us);
        self->counts.infer_us += (uint64_t) (now_us - job->sent_us);
        self->counts.last_ms = (int64_t) time (NULL) * 1000;
    } else {
        *(code == WM_KS_INTERNAL ? &self->counts.n_fault : &self->counts.n_other) += 1;
        self->counts.fail_us += (uint64_t) (now_us - job->came_us);
    }
    request->calls->reply (request, &answer);
    free_scores (job);
    if (!job->n_part)
        job_free (job);
}

static void pump_soon (wm_gather_t *self);

/* Puts classes where they are wanted, and outputs into shared memory, then replies. True: there is
   more to do.  */
static bool finish (void *argument, size_t *left)
{
    job_t *job = argument;
    wm_gather_t *self = job->gather;
    wm_ks_error_t error;
    if (wm_signature_classify (self->how.signature, &job->plan, job->output, &job->ranking, left) ||
        job->request->calls->place (job->request, job->output, job->plan.n_output, &job->placed,
                                    left, &error))
        return true;
    job_reply (job, error.code, error.code ? error.text : NULL);
    pump_soon (self);
    return false;
}

/* Answers a request. code OK: its rows are all scored. What takes long waits for its slices, and so
   do answers beyond what a round of the loop may make.  */
static void job_answer (job_t *job, wm_ks_code_t code, const char *text)
{
    wm_gather_t *self = job->gather;
    wm_ks_error_t error;
    if (job->client)
        leave_queue (job);
    if (code == WM_KS_OK && (code = job_output (job, &error)))
        text = error.text;
    if (code) {
        job_reply (job, code, text);
        return;
    }
    job->next = self->sliced;
    if (job->next)
        job->next->prev = job;
    self->sliced = job;
    wm_slice_now (job->request->calls->slices (job->request), &job->slice, finish, job);
}

/* ---- batches --------------------------------------------------------------------------------- */

static void batch_free (wm_gather_t *self, batch_t *batch)
{
    if (!wm_region_give (self->how.region, batch->value))
        free (batch->value);
    free (batch->part);
    free (batch);
}

static void batch_send (wm_gather_t *self, batch_t *batch)
{
    batch->prev = NULL;
    batch->next = self->batches;
    if (batch->next)
        batch->next->prev = batch;
    self->batches = batch;
    self->n_batch++;
    self->bytes += batch->bytes;
    batch->sent_us = wm_loop_now_us (self->loop);
    wm_link_send (self->link, &batch->link, batch->value, batch->n_row, batch->n_value);
}

static void batch_leave (wm_gather_t *self, batch_t *batch)
{
    *(batch->prev ? &batch->prev->next : &self->batches) = batch->next;
    if (batch->next)
        batch->next->prev = batch->prev;
    self->n_batch--;
    self->bytes -= batch->bytes;
}

static batch_t *batch_new (wm_gather_t *self, uint32_t n_row, size_t n_value, uint32_t n_part)
{
    batch_t *batch = zmalloc (sizeof *batch);
    batch->n_value = n_value;
    batch->bytes = n_row * n_value * sizeof (float);
    if (!self->how.signature->is_ragged)
        batch->value = wm_region_take (self->how.region, batch->bytes);
    if (!batch->value)
        batch->value = malloc (batch->bytes);
    batch->part = zmalloc (n_part * sizeof *batch->part);
    if (!batch->value)
        abort (); /* as zmalloc without memory */
    return batch;
}

/* Copies the next row of a request. false: a value is not finite.  */
static bool put_row (const wm_signature_t *signature, const job_t *job, float *to)
{
    if (!signature->is_ragged)
        return wm_signature_row (signature, job->request, &job->plan, job->n_taken, to);
    wm_signature_ragged_row (signature, job->request, &job->plan, job->n_taken, to, job->n_value);
    return true;
}

/* A row cannot be answered: so its request cannot. The first of its rows counts, and shows once all
   of them are scored.  */
static void fail_row (job_t *job, uint32_t row, const wm_ks_error_t *error)
{
    if (job->failure && job->failed_row <= row)
        return;
    if (!job->failure)
        job->failure = zmalloc (sizeof *job->failure);
    *job->failure = *error;
    job->failed_row = row;
}

/* Puts the scores of a row into the answer; NULL: it is held.  */
static void put_scores (job_t *job, uint32_t row, const float *score)
{
    const wm_signature_t *signature = job->gather->how.signature;
    wm_ks_error_t error;
    bool is_held = !score;
    for (size_t s = 0; score && s < signature->n_score; s++)
        is_held |= isnan (score[s]);
    if (is_held)
        hold_row (job, row, score);
    if (wm_signature_put (signature, &job->plan, job->gather->how.model, row, score, job->output,
                          &error))
        fail_row (job, row, &error);
}

/* Copies rows of a request until the batch is full.  */
static void take_rows (wm_gather_t *self, batch_t *batch, uint32_t rows_max, job_t *job)
{
    const wm_signature_t *signature = self->how.signature;
    part_t *part = NULL;
    for (; job->n_taken < job->n_row && batch->n_row < rows_max; job->n_taken++) {
        self->rows_waiting--;
        if (!put_row (signature, job, batch->value + (size_t) batch->n_row * batch->n_value)) {
            put_scores (job, job->n_taken, NULL); /* it is not sent */
            job->n_left--;
            part = NULL;
            continue;
        }
        if (!part) {
            part = &batch->part[batch->n_part++];
            *part = (part_t){ .job = job, .row = job->n_taken };
            job->n_part++;
        }
        part->n++;
        batch->n_row++;
    }
    if (!job->sent_us)
        job->sent_us = wm_loop_now_us (self->loop);
}

/* Cuts one batch from the front of the queue and sends it.  */
static void cut_batch (wm_gather_t *self)
{
    const uint32_t rows_max =
        self->rows_waiting < self->rows_max ? (uint32_t) self->rows_waiting : self->rows_max;
    batch_t *batch = batch_new (self, rows_max, first_of (self)->n_value, rows_max);
    for (job_t *job; (job = first_of (self)) && batch->n_row < rows_max;) {
        if (job->item.key[1] > self->turn)
            self->turn = job->item.key[1];
        take_rows (self, batch, rows_max, job);
        if (job->n_taken < job->n_row)
            break;
        leave_queue (job);
        if (!job->n_left) /* no row of it is finite */
            job_answer (job, WM_KS_OK, NULL);
    }
    if (!batch->n_row) {
        batch_free (self, batch);
        return;
    }
    batch_send (self, batch);
}

static void pump (void *argument);

/* Looks at the queue at this time, or before.  */
static void pump_at (wm_gather_t *self, int64_t at_us)
{
    if (self->timer && self->timer_us <= at_us)
        return;
    wm_loop_untimer (&self->timer);
    self->timer_us = at_us;
    self->timer = wm_loop_timer (self->loop, at_us, pump, self);
}

/* Looks at the queue once the callbacks that run now have added to it.  */
static void pump_soon (wm_gather_t *self)
{
    pump_at (self, wm_loop_now_us (self->loop));
}

/* Whether another batch may be under way. The first always may: so all go on.  */
static bool may_send (const wm_gather_t *self)
{
    return !self->n_batch ||
           (self->n_batch < BATCHES_MAX && self->bytes < self->how.in_flight_bytes &&
            (!self->how.signature->is_ragged ||
             first_of (self)->request->calls->has_room (first_of (self)->request)));
}

static void pump (void *argument)
{
    wm_gather_t *self = argument;
    self->timer = NULL;
    while (first_of (self) && may_send (self)) {
        /* of the first, which may not be the oldest: near enough */
        const wm_batching_t *own = &self->how.batching;
        const int64_t due_us =
            first_of (self)->came_us + (own->has_delay ? own->delay_us : self->how.max_delay_us);
        const bool waits = self->n_batch || own->delay_us > 0;
        const uint32_t full = own->full && own->full < self->rows_max ? own->full : self->rows_max;
        if (waits && self->rows_waiting < full && wm_loop_now_us (self->loop) < due_us) {
            pump_at (self, due_us);
            return;
        }
        cut_batch (self);
    }
    if (!self->n_asked && !self->timer && self->how.is_empty)
        self->how.is_empty (self->how.argument);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The request of a ragged row cannot be answered.  */
static void fail_ragged (job_t *job, wm_ks_code_t code, uint32_t row, const char *text)
{
    const char *model = job->gather->how.model;
    wm_ks_error_t error;
    if (job->plan.n_row)
        wm_ks_fail (&error, code, "model '%.100s' cannot compute row %u of the request: %s", model,
                    row, text);
    else
        wm_ks_fail (&error, code,
                    "the request has no rows, and a row of zeros does not show the shapes of the "
                    "outputs of model '%.100s': %s",
                    model, text);
    fail_row (job, row, &error);
}

/* Keeps n scores of a ragged row. NULL: that is more than an answer may have.  */
static float *keep_ragged (job_t *job, uint32_t row, const uint8_t *score, uint32_t n)
{
    const size_t bytes = n * sizeof (float);
    if (!job->request->calls->keep (job->request, job->kept + bytes)) {
        fail_ragged (job, WM_KS_EXHAUSTED, row,
                     "with its scores the answer is larger than this server's limit "
                     "(--max-message): send fewer rows in a request");
        return NULL;
    }
    job->kept += bytes;
    job->rows[row] = zmalloc (bytes);
    return memcpy (job->rows[row], score, bytes);
}

/* Keeps the row of scores of a ragged row, or the failure of its request.  */
static void scatter_ragged (const part_t *part, uint8_t status, const uint8_t *score)
{
    job_t *job = part->job;
    float length;
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    uint32_t n, n_tensor = 0;
    char text[320];
    snprintf (text, sizeof text, "%s",
              status == WM_HIT_POISON ? "the engine ends of it" : "it is held");
    if (score) {
        memcpy (&length, score, sizeof length);
        n = (uint32_t) length; /* the link has compared it */
        const float *row = keep_ragged (job, part->row, score, n);
        if (row && !wm_ragged_read (row, n, &n_tensor, tensor) && !n_tensor)
            wm_ragged_refusal (row, n, text, sizeof text);
    }
    if (!n_tensor)
        fail_ragged (job, score ? WM_KS_INVALID : WM_KS_INTERNAL, part->row, text);
    else if (status && job->plan.n_row)
        hold_row (job, part->row, job->rows[part->row]);
}

static void scatter (const wm_gather_t *self, const batch_t *batch, const uint8_t *status,
                     const uint8_t *score)
{
    const size_t n_score = self->how.signature->n_score;
    const float *row = (const float *) (const void *) score; /* the link has aligned it */
    uint32_t at = 0;
    for (uint32_t p = 0; p < batch->n_part; at += batch->part[p++].n) {
        const part_t *part = &batch->part[p];
        if (!part->job->request)
            continue; /* cancelled */
        if (self->how.signature->is_ragged)
            scatter_ragged (part, status[at], score);
        else
            for (uint32_t i = 0; i < part->n; i++)
                put_scores (part->job, part->row + i,
                            status[at + i] ? NULL : row + (at + i) * n_score);
    }
}

/* The rows of one request, in a batch of their own. Their values are at `at` in the old one.  */
static void send_alone (wm_gather_t *self, const batch_t *old, const part_t *part, uint32_t at)
{
    batch_t *batch = batch_new (self, part->n, old->n_value, 1);
    memcpy (batch->value, old->value + at * old->n_value, batch->bytes);
    batch->part[0] = *part;
    batch->n_part = 1;
    batch->n_row = part->n;
    batch->n_retry = old->n_retry + (old->n_part == 1);
    batch_send (self, batch);
}

/* The broker gave the batch up: its requests try again, each alone.  */
static void try_again (wm_gather_t *self, const batch_t *batch, const char *text)
{
    uint32_t at = 0;
    self->counts.n_again++;
    for (uint32_t p = 0; p < batch->n_part; at += batch->part[p++].n) {
        job_t *job = batch->part[p].job;
        if (job->request && (batch->n_part > 1 || batch->n_retry < RETRIES))
            send_alone (self, batch, &batch->part[p], at);
        else if (--job->n_part == 0 && !job->request)
            job_free (job);
        else if (job->request)
            job_answer (job, WM_KS_INTERNAL, text);
    }
}

static void count_batch (wm_gather_t *self, const batch_t *batch)
{
    const uint64_t took_us = (uint64_t) (wm_loop_now_us (self->loop) - batch->sent_us);
    uint32_t size = 0;
    static_assert (1u << (WM_GATHER_SIZES - 1) == BATCH_ROWS_MAX, "each batch has a size");
    while ((1u << size) < batch->n_row)
        size++;
    self->counts.n_batch++;
    self->counts.size_n[size]++;
    self->counts.size_us[size] += took_us;
}

void wm_gather_answered (wm_gather_t *self, wm_link_batch_t *link, const uint8_t *status,
                         const uint8_t *score, const char *text)
{
    batch_t *batch = (batch_t *) link;
    batch_leave (self, batch);
    if (!status) {
        try_again (self, batch, text);
        batch_free (self, batch);
        pump_soon (self);
        return;
    }
    count_batch (self, batch);
    scatter (self, batch, status, score);
    for (uint32_t p = 0; p < batch->n_part; p++) {
        job_t *job = batch->part[p].job;
        job->n_part--;
        job->n_left -= batch->part[p].n;
        if (job->request && !job->n_left)
            job_answer (job, WM_KS_OK, NULL);
        else if (!job->request && !job->n_part)
            job_free (job);
    }
    batch_free (self, batch);
    pump_soon (self);
}

/* ---- for the owner --------------------------------------------------------------------------- */

wm_gather_t *wm_gather_new (wm_loop_t *loop, wm_link_t *link, const wm_gather_how_t *how)
{
    wm_gather_t *self = zmalloc (sizeof *self);
    *self = (wm_gather_t){ .loop = loop, .link = link, .how = *how };
    const size_t task = how->signature->n_value * sizeof (float);
    const size_t result = 1 + how->signature->n_score * sizeof (float);
    size_t most = WM_RAW_BYTES_MAX / (task > result ? task : result);
    self->rows_max = most < 1 ? 1 : most < BATCH_ROWS_MAX ? (uint32_t) most : BATCH_ROWS_MAX;
    return self;
}

static void reject (wm_gather_t *self, wm_ks_request_t *request, const wm_ks_error_t *error,
                    uint64_t *count)
{
    const wm_ks_answer_t answer = { .code = error->code,
                                    .text = error->text,
                                    .model = self->how.model,
                                    .version = self->how.version };
    ++*count;
    request->calls->reply (request, &answer);
}

static void refuse (wm_gather_t *self, wm_ks_request_t *request, const wm_ks_error_t *error)
{
    reject (self, request, error, &self->counts.n_other);
}

/* Plans the request. *n_value: values of one of its rows.  */
static wm_ks_code_t plan_job (const wm_gather_t *self, const wm_ks_request_t *request,
                              wm_tensor_plan_t *plan, size_t *n_value, wm_ks_error_t *error)
{
    const wm_signature_t *signature = self->how.signature;
    *n_value = signature->n_value;
    wm_ks_code_t code = wm_signature_plan (signature, request, plan, error);
    if (!code && signature->is_ragged)
        code = wm_signature_ragged_check (signature, request, plan, n_value, error);
    return code ? code : wm_signature_exact (signature, request, plan, error);
}

/* Bytes to keep for a request from its beginning.  */
static size_t need (const wm_gather_t *self, const wm_tensor_plan_t *plan)
{
    const wm_signature_t *signature = self->how.signature;
    return signature->is_ragged ? (plan->n_row + (size_t) 1) * sizeof (float *)
                                : wm_signature_answer_bytes (signature, plan);
}

size_t wm_gather_need (const wm_gather_t *self, const wm_ks_request_t *request)
{
    wm_tensor_plan_t plan;
    return wm_signature_plan (self->how.signature, request, &plan, NULL) ? 0 : need (self, &plan);
}

void wm_gather_add (wm_gather_t *self, wm_ks_request_t *request)
{
    const wm_signature_t *signature = self->how.signature;
    wm_ks_error_t error;
    wm_tensor_plan_t plan;
    size_t n_value;
    if (plan_job (self, request, &plan, &n_value, &error)) {
        refuse (self, request, &error);
        return;
    }
    const size_t kept = need (self, &plan);
    const uint32_t n_row = plan.n_row || !signature->is_ragged ? plan.n_row : 1;
    const size_t queue_max = self->how.batching.queue_max;
    if (n_row && queue_max && self->waiting.n >= queue_max && !request->is_taken) {
        wm_ks_fail (&error, WM_KS_UNAVAILABLE, "Exceeds maximum queue size");
        reject (self, request, &error, &self->counts.n_late);
        return;
    }
    const bool fits = request->calls->keep (request, kept);
    job_t *job = zmalloc (sizeof *job);
    *job = (job_t){ .gather = self,
                    .request = request,
                    .plan = plan,
                    .n_row = n_row,
                    .n_left = n_row,
                    .priority = request->priority ? request->priority : self->how.default_priority,
                    .rows = signature->is_ragged && fits ? calloc (1, kept) : NULL,
                    .output = zmalloc (WM_SIGNATURE_PORTS_MAX * sizeof *job->output),
                    .kept = kept,
                    .n_value = n_value,
                    .came_us = wm_loop_now_us (self->loop) };
    count_jobs (self, 1);
    if (signature->is_ragged ? !job->rows
                             : !fits || !wm_signature_begin (signature, &plan, job->output)) {
        job_free (job);
        wm_ks_fail (&error, WM_KS_EXHAUSTED, "no memory for the scores of %u rows", plan.n_row);
        refuse (self, request, &error);
        return;
    }
    request->backend = job;
    self->n_asked++;
    if (!n_row) {
        job->sent_us = job->came_us;
        job_answer (job, WM_KS_OK, NULL);
        return;
    }
    request->is_taken = true;
    enter_queue (job);
    pump_soon (self);
}

static bool is_forgotten (const batch_t *batch)
{
    for (uint32_t p = 0; p < batch->n_part; p++)
        if (batch->part[p].job->request)
            return false;
    return true;
}

/* Forgets the request: what is not sent of it is dropped.  */
static void drop (wm_ks_request_t *request)
{
    job_t *job = request->backend;
    wm_gather_t *self = job->gather;
    request->backend = NULL;
    job->request = NULL;
    self->n_asked--;
    free_scores (job);
    if (job->client)
        leave_queue (job);
    for (batch_t *batch = self->batches, *next; batch && job->n_part; batch = next) {
        next = batch->next;
        if (!is_forgotten (batch) || !wm_link_take_back (self->link, &batch->link))
            continue;
        batch_leave (self, batch);
        for (uint32_t p = 0; p < batch->n_part; p++) {
            job_t *one = batch->part[p].job;
            if (--one->n_part == 0 && one != job)
                job_free (one);
        }
        batch_free (self, batch);
    }
    if (!job->n_part)
        job_free (job);
    pump_soon (self);
}

void wm_gather_cancel (wm_ks_request_t *request)
{
    const job_t *job = request->backend;
    wm_gather_t *self = job->gather;
    const bool is_late =
        request->deadline_ms && wm_loop_now_us (self->loop) / 1000 >= request->deadline_ms;
    *(is_late ? &self->counts.n_late : &self->counts.n_cancel) += 1;
    drop (request);
}

/* Returns a request whose scores are not all there; NULL if all are.  */
static wm_ks_request_t *any_request (const wm_gather_t *self)
{
    for (const batch_t *batch = self->batches; batch; batch = batch->next)
        for (uint32_t p = 0; p < batch->n_part; p++)
            if (batch->part[p].job->request)
                return batch->part[p].job->request;
    return first_of (self) ? first_of (self)->request : NULL;
}

bool wm_gather_leave (wm_gather_t *self, wm_gather_left_t *left, void *argument)
{
    for (wm_ks_request_t *request; (request = any_request (self));) {
        drop (request);
        self->counts.n_other++;
        left (argument, request);
    }
    return self->n_asked;
}

/* Nothing of the job is in a batch any more.  */
static void job_leave (job_t *job, wm_gather_left_t *left, void *argument)
{
    wm_ks_request_t *request = job->request;
    if (job->client)
        leave_queue (job);
    job_free (job);
    if (!request)
        return;
    request->backend = NULL;
    left (argument, request);
}

void wm_gather_destroy (wm_gather_t **self_p, wm_gather_left_t *left, void *argument)
{
    wm_gather_t *self = *self_p;
    if (!self)
        return;
    batch_t *batch = self->batches;
    self->batches = NULL; /* `left` may lead to wm_gather_cancel */
    for (batch_t *next; batch; batch = next) {
        next = batch->next;
        for (uint32_t p = 0; p < batch->n_part; p++) {
            job_t *job = batch->part[p].job;
            if (--job->n_part == 0 && !job->client) /* nothing of it waits */
                job_leave (job, left, argument);
        }
        batch_free (self, batch);
    }
    while (self->sliced)
        job_leave (self->sliced, left, argument);
    while (first_of (self))
        job_leave (first_of (self), left, argument);
    free (self->waiting.item);
    wm_loop_untimer (&self->timer);
    free (self->clients.slot);
    free (self);
    *self_p = NULL;
}

bool wm_gather_is_asked (const wm_gather_t *self)
{
    return any_request (self);
}

uint32_t wm_gather_n_request (const wm_gather_t *self)
{
    return self->n_job;
}

uint32_t wm_gather_n_waiting (const wm_gather_t *self)
{
    return (uint32_t) self->waiting.n;
}

const wm_gather_counts_t *wm_gather_counts (const wm_gather_t *self)
{
    return &self->counts;
}
