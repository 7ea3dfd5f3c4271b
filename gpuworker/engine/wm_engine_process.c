/* wm_engine_process.c - see wm_engine_process.h.  */
#include "gpuworker/engine/wm_engine_process.h"
#include "gpuworker/engine/wm_engine_device.h"
#include "gpuworker/engine/wm_cpu_limit.h"
#include "gpuworker/engine/wm_slots.h"
#include "kernels/judge/wm_watch.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_process.h"
#include "schema/wm_trace.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static_assert (sizeof (wm_watch_counts_t) == sizeof ((wm_control_t *) 0)->watch,
               "the watch's counts are copied");

enum { WAIT_MS = 2 }; /* for more batches: about as long as a full launch takes */

/* A slot's batch in a GPU.  */
typedef struct {
    wm_batch_t batch;
    wm_job_t job;
    double start_s;
} flight_t;

typedef struct {
    wm_slots_t slots;
    int line;
    _Atomic uint32_t n_hand; /* threads that score slots */
    bool waits;              /* the last wait brought more batches, so that the next one may, too */
    wm_model_t *model;
    wm_device_t *device, *judge;
    wm_watch_t *watch;     /* NULL: strict fp32 needs no checks */
    pthread_mutex_t check; /* around checks by strict fp32 */

    pthread_mutex_t lock; /* around what follows */
    pthread_cond_t ended; /* a call has */
    unsigned n_call;      /* calls of the device that run now */
    bool is_alone;        /* one of a slot that goes alone */
    double counted_s;     /* until when the time of calls is counted */
    int code;             /* of a call that failed: no other one begins */

    /* Of a GPU. The thread that submits and collects owns these: */
    flight_t flight[WM_SLOTS];
    unsigned n_flight;     /* submitted and not collected */
    uint64_t calls_before; /* of processes before this one */
    uint64_t flight_hits;
    bool flies_alone; /* one of a slot that goes alone */
    /* and with `lock` the one that checks: slots that were scored and are to be checked, in a ring.
       The first is at work until it leaves.  */
    wm_slot_t *unchecked[WM_SLOTS];
    unsigned first_unchecked, n_unchecked;
    bool checks_end;           /* no more will come */
    pthread_cond_t check_ring; /* these have changed */
} engine_t;

static _Thread_local wm_hand_t *hand; /* of a thread that scores slots */

/* Reports the fault that ends this process to the worker: the first, where two calls fail. Returns
   `code`.  */
static int fail (engine_t *self, int code, const wm_error_t *error)
{
    pthread_mutex_lock (&self->lock);
    if (!self->slots.control->error.fault)
        self->slots.control->error = *error;
    pthread_mutex_unlock (&self->lock);
    return code;
}

static int open_model (engine_t *self)
{
    const wm_control_t *control = self->slots.control;
    wm_error_t error = { 0 };
    self->model = wm_model_open (control->model_path, &error);
    if (!self->model)
        return fail (self, error.fault == WM_EBATCH ? WM_EXIT_INPUT : WM_EXIT_ENGINE, &error);
    if (strcmp (wm_model_sha256 (self->model), control->model) == 0 &&
        wm_model_n_output (self->model) == control->n_output &&
        wm_model_n_value (self->model) == control->n_value)
        return WM_EXIT_OK;
    wm_fault (&error, WM_EBATCH,
              "the model %.12s is not the one the campaign is pinned to (%.12s, %u values in, %u "
              "out)",
              wm_model_sha256 (self->model), control->model, control->n_value, control->n_output);
    return fail (self, WM_EXIT_INPUT, &error);
}

static int open_device (engine_t *self)
{
    wm_control_t *control = self->slots.control;
    wm_error_t error = { 0 };
    wm_spec_t spec;
    const bool has_spec = control->spec[0] != '\0';
    if (has_spec &&
        wm_spec_parse (&spec, control->spec, strlen (control->spec), "the broker's pins", &error))
        return fail (self, WM_EXIT_INPUT, &error);
    if (wm_engine_device_open (control, self->line, self->model, has_spec ? &spec : NULL,
                               &self->device, &self->judge, &error))
        return fail (self,
                     error.fault == WM_EBATCH   ? WM_EXIT_INPUT
                     : error.fault == WM_EAGAIN ? WM_EXIT_FAILURE
                                                : WM_EXIT_ENGINE,
                     &error);
    if (self->judge) {
        self->watch = wm_watch_new (self->model, self->judge, control->max_error);
        if (!self->watch) {
            wm_fault (&error, WM_EHOST, "no memory to check the engine");
            return fail (self, WM_EXIT_ENGINE, &error);
        }
    }
    const double start = wm_now_s ();
    WM_FAILPOINT ("engine-self-test");
    if (wm_device_self_test (self->device, &error))
        return fail (self, error.fault == WM_EPEER ? WM_EXIT_ENGINE : WM_EXIT_FAILURE, &error);
    control->test_s = wm_now_s () - start;
    control->fill = wm_device_fill (self->device);
    const bool is_gpu = wm_device_by (self->device)->is_gpu;
    snprintf (control->by, sizeof control->by, "%s", wm_device_by (self->device)->name);
    control->most_slots = is_gpu ? WM_SLOTS : control->fill ? WM_SLOTS_GATHER : WM_SLOTS_ONE;
    control->enough = (is_gpu ? WM_LAUNCHES + 2ull : 2ull) * control->fill;
    /* A GPU pins it all, and copies patches from there, but not the columns of planes.  */
    if (!has_spec &&
        wm_device_lend (self->device, self->slots.batch, self->slots.n * self->slots.bytes, &error))
        fprintf (stderr, "wiremill-worker: batches need one more copy to the GPU: %s\n",
                 error.text);
    return WM_EXIT_OK;
}

/* Returns the READY slot that was submitted first, NULL for none.  */
static wm_slot_t *next_slot (const engine_t *self)
{
    wm_slot_t *slot = self->slots.control->slot, *due = NULL;
    for (unsigned i = 0; i < self->slots.n; i++)
        if (atomic_load (&slot[i].state) == WM_SLOT_READY && (!due || slot[i].serial < due->serial))
            due = &slot[i];
    return due;
}

/* Marks the slot as RUNNING. false: the worker has taken it back meanwhile.  */
static bool take (wm_slot_t *slot)
{
    uint32_t ready = WM_SLOT_READY;
    return atomic_compare_exchange_strong (&slot->state, &ready, WM_SLOT_RUNNING);
}

static bool has_free_slot (const engine_t *self)
{
    unsigned n = 0;
    for (unsigned i = 0; i < self->slots.n; i++)
        n += atomic_load (&self->slots.control->slot[i].state) == WM_SLOT_FREE;
    return n > 0;
}

/* Waits until `end_s` for the worker to change a slot. false: it did not. It takes the byte of one
   slot: the next one's wakes the other thread, if this one takes no more.  */
static bool wait_for_more (const engine_t *self, double end_s)
{
    char byte;
    struct pollfd line = { .fd = self->line, .events = POLLIN };
    const double left_s = end_s - wm_now_s ();
    const struct timespec left = { .tv_nsec = left_s > 0 ? (long) (left_s * 1e9) : 0 };
    return ppoll (&line, 1, &left, NULL) > 0 && recv (self->line, &byte, 1, MSG_DONTWAIT) > 0;
}

/* Waits for the end of a call beside which the next slot must not begin, because one of the two
   goes alone. With the lock.  */
static void wait_for_end (engine_t *self)
{
    for (const wm_slot_t *slot; !self->code && self->n_call > 0 &&
                                (self->is_alone || ((slot = next_slot (self)) && slot->alone));)
        pthread_cond_wait (&self->ended, &self->lock);
}

/* Takes the slots to score next: one; or, if the device has room for more, those that are READY and
   those that become READY within WAIT_MS. After a wait that brought nothing there are no more waits
   until several slots are READY at once. A slot that goes alone waits for the other calls, and they
   for it. Returns how many it took.  */
static unsigned take_slots (engine_t *self, wm_slot_t *list[WM_SLOTS])
{
    const uint32_t fill = self->slots.control->fill;
    double end_s = 0;
    uint64_t hits = 0;
    unsigned n = 0;
    pthread_mutex_lock (&self->lock);
    wait_for_end (self);
    while (!self->code && !self->is_alone && n < self->slots.n && (n == 0 || hits < fill)) {
        wm_slot_t *slot = next_slot (self);
        if (slot && slot->alone && self->n_call > 0)
            break;
        if (slot && take (slot)) {
            list[n++] = slot;
            hits += slot->count;
            if (n == 1) {
                self->n_call++;
                atomic_store (&hand->serial, slot->serial);
            }
            self->is_alone = slot->alone;
            if (slot->alone || !fill)
                break;
        } else if (!slot) {
            if (n == 0 || !self->waits || !has_free_slot (self))
                break;
            end_s = end_s > 0 ? end_s : wm_now_s () + WAIT_MS * 1e-3;
            pthread_mutex_unlock (&self->lock);
            const bool came = wait_for_more (self, end_s);
            pthread_mutex_lock (&self->lock);
            if (!came)
                break;
        }
    }
    if (fill && n > 0)
        self->waits = n > 1;
    pthread_mutex_unlock (&self->lock);
    return n;
}

/* Returns the seconds since start_s that no other call has counted.  */
static double count_seconds (engine_t *self, double start_s)
{
    pthread_mutex_lock (&self->lock);
    const double now_s = wm_now_s (), seconds = now_s - fmax (start_s, self->counted_s);
    self->counted_s = now_s;
    pthread_mutex_unlock (&self->lock);
    return seconds;
}

/* Lets strict fp32 check some hits of some batches, or of the part that is scored. The worker does
   not take a thread that waits for the other one's check for one that hangs.  */
static wm_fault_t check (engine_t *self, wm_slot_t *slot, const wm_batch_t *batch,
                         wm_error_t *error)
{
    const unsigned i = (unsigned) (slot - self->slots.control->slot);
    bool again = false;
    slot->again = 0;
    if (!self->watch || !wm_watch_selects (self->watch, slot->draw, batch))
        return WM_OK;
    const uint64_t serial = atomic_exchange (&hand->serial, 0);
    pthread_mutex_lock (&self->check);
    atomic_store (&hand->serial, serial);
    const wm_fault_t fault = wm_watch_check (
        self->watch, slot->draw, batch, wm_slots_status (&self->slots, i) + slot->first,
        wm_slots_scores (&self->slots, i) + (size_t) slot->first * self->slots.control->n_output,
        &again, error);
    slot->again = again;
    const wm_watch_counts_t counts = wm_watch_counts (self->watch);
    memcpy (&self->slots.control->watch, &counts, sizeof counts);
    pthread_mutex_unlock (&self->check);
    return fault;
}

/* Begins a slot that was taken: the hits to score become *batch.  */
static void begin_slot (engine_t *self, const wm_slot_t *slot, wm_batch_t *batch)
{
    WM_FAILPOINT ("engine-slot-taken");
    wm_slots_part (&self->slots, (unsigned) (slot - self->slots.control->slot), batch);
}

static void end_slot (wm_slot_t *slot)
{
    WM_FAILPOINT ("engine-scored");
    atomic_store (&slot->state, WM_SLOT_DONE);
    WM_FAILPOINT ("engine-done");
}

static int score (engine_t *self, wm_slot_t *slot)
{
    const unsigned i = (unsigned) (slot - self->slots.control->slot);
    wm_error_t error = { 0 };
    wm_batch_t batch;
    begin_slot (self, slot, &batch);
    const double start = wm_now_s ();
    error.text[0] = '\0';
    wm_fault_t fault = wm_device_score (
        self->device, &batch, wm_slots_status (&self->slots, i) + slot->first,
        wm_slots_scores (&self->slots, i) + (size_t) slot->first * self->slots.control->n_output,
        &error);
    if (!fault)
        fault = check (self, slot, &batch, &error);
    slot->seconds = count_seconds (self, start);
    slot->error = error;
    slot->error.fault = fault;
    if (fault && fault != WM_EBATCH) /* the slot stays RUNNING, as after a crash */
        return fail (self, fault == WM_EPEER ? WM_EXIT_ENGINE : WM_EXIT_FAILURE, &error);
    end_slot (slot);
    return wm_device_is_worn (self->device, &error) ? fail (self, WM_EXIT_AGAIN, &error)
                                                    : WM_EXIT_OK;
}

/* Scores several slots in one call; if the engine refuses a batch of them, one by one.  */
static int score_many (engine_t *self, unsigned n, wm_slot_t *const *slot)
{
    wm_batch_t batch[WM_SLOTS];
    const wm_batch_t *batch_p[WM_SLOTS];
    uint8_t *status[WM_SLOTS];
    float *scores[WM_SLOTS];
    wm_error_t error = { 0 };
    uint64_t hits = 0;
    int code = WM_EXIT_OK;
    for (unsigned k = 0; k < n; k++) {
        const unsigned i = (unsigned) (slot[k] - self->slots.control->slot);
        begin_slot (self, slot[k], &batch[k]);
        batch_p[k] = &batch[k];
        status[k] = wm_slots_status (&self->slots, i) + slot[k]->first;
        scores[k] = wm_slots_scores (&self->slots, i) +
                    (size_t) slot[k]->first * self->slots.control->n_output;
        hits += slot[k]->count;
    }
    const double start = wm_now_s ();
    const wm_fault_t fault =
        wm_device_score_many (self->device, n, batch_p, status, scores, &error);
    const double seconds = count_seconds (self, start);
    if (fault && fault != WM_EBATCH)
        return fail (self, WM_EXIT_FAILURE, &error);
    for (unsigned k = 0; k < n && !code; k++) {
        if (fault) {
            code = score (self, slot[k]);
            continue;
        }
        slot[k]->seconds = seconds * slot[k]->count / (double) hits;
        slot[k]->error = (wm_error_t){ 0 };
        const wm_fault_t bad = check (self, slot[k], &batch[k], &slot[k]->error);
        if (bad)
            return fail (self, WM_EXIT_FAILURE, &slot[k]->error);
        end_slot (slot[k]);
    }
    return code;
}

/* Wakes the worker. If it has ended, the next read returns 0.  */
static void wake_worker (const engine_t *self)
{
    TEMP_FAILURE_RETRY (write (self->line, "", 1));
}

/* Ends a call of the device; after a failed one the threads end, too.  */
static void end_call (engine_t *self, int code)
{
    wm_control_t *control = self->slots.control;
    pthread_mutex_lock (&self->lock);
    self->n_call--;
    self->is_alone = false;
    pthread_cond_broadcast (&self->ended);
    if (!code) /* after a failed call the worker watches how the process ends */
        atomic_store (&hand->serial, 0);
    const wm_device_busy_t busy = wm_device_busy (self->device);
    control->busy_s = busy.busy_s, control->idle_s = busy.idle_s;
    if (code && !self->code) {
        self->code = code;
        shutdown (self->line, SHUT_RD); /* all reads return 0 */
    }
    pthread_mutex_unlock (&self->lock);
    wake_worker (self);
}

/* A thread that scores slots until the worker or a call ends. Where there are two, each reads a
   byte at a time, so that of two batches one wakes each.  */
static void *score_slots (void *arg)
{
    engine_t *self = arg;
    char byte;
    ssize_t n_byte;
    hand = &self->slots.control->hand[atomic_fetch_add (&self->n_hand, 1)];
    wm_device_count_here (&hand->progress);
    do {
        wm_slot_t *slot[WM_SLOTS];
        for (unsigned n; (n = take_slots (self, slot)) > 0;) {
            atomic_fetch_add (&self->slots.control->calls, 1);
            const double others_s = wm_cpu_limit_begin ();
            end_call (self, n == 1 ? score (self, slot[0]) : score_many (self, n, slot));
            wm_cpu_limit_end (others_s);
        }
        n_byte = read (self->line, &byte, 1);
    } while (n_byte > 0 || (n_byte < 0 && errno == EINTR));
    return NULL;
}

/* ---- a GPU: slots are submitted and collected ------------------------------------------------ */

static void finish_slot (engine_t *self, wm_slot_t *slot)
{
    end_slot (slot);
    wake_worker (self);
}

/* The thread that lets strict fp32 check what a GPU scored, so that the GPU does not wait for it.
   A check that fails ends the process, as a call that fails does.  */
static void *check_slots (void *argument)
{
    engine_t *self = argument;
    hand = &self->slots.control->hand[1];
    wm_device_count_here (&hand->progress);
    pthread_mutex_lock (&self->lock);
    while (!self->code && (self->n_unchecked > 0 || !self->checks_end)) {
        if (self->n_unchecked == 0) {
            pthread_cond_wait (&self->check_ring, &self->lock);
            continue;
        }
        wm_slot_t *slot = self->unchecked[self->first_unchecked];
        pthread_mutex_unlock (&self->lock);
        const flight_t *flight = &self->flight[slot - self->slots.control->slot];
        atomic_store (&hand->serial, slot->serial);
        const bool bad = check (self, slot, &flight->batch, &slot->error) != WM_OK;
        const int code = bad ? fail (self, WM_EXIT_FAILURE, &slot->error) : WM_EXIT_OK;
        if (!code)
            finish_slot (self, slot);
        atomic_store (&hand->serial, 0);
        pthread_mutex_lock (&self->lock);
        self->first_unchecked = (self->first_unchecked + 1) % WM_SLOTS;
        self->n_unchecked--;
        if (code && !self->code) {
            self->code = code;
            shutdown (self->line, SHUT_RD); /* all reads return 0 */
        }
        pthread_cond_broadcast (&self->check_ring);
    }
    pthread_mutex_unlock (&self->lock);
    return NULL;
}

/* Waits until everything that was scored is checked. false: a check has failed.  */
static bool await_checks (engine_t *self)
{
    pthread_mutex_lock (&self->lock);
    while (self->n_unchecked > 0 && !self->code)
        pthread_cond_wait (&self->check_ring, &self->lock);
    const bool fine = !self->code;
    pthread_mutex_unlock (&self->lock);
    return fine;
}

/* Makes a job of a slot that was taken.  */
static wm_job_t *begin_job (engine_t *self, wm_slot_t *slot)
{
    const unsigned i = (unsigned) (slot - self->slots.control->slot);
    flight_t *flight = &self->flight[i];
    begin_slot (self, slot, &flight->batch);
    flight->start_s = wm_now_s ();
    flight->job = (wm_job_t){ .batch = &flight->batch,
                              .status = wm_slots_status (&self->slots, i) + slot->first,
                              .scores = wm_slots_scores (&self->slots, i) +
                                        (size_t) slot->first * self->slots.control->n_output,
                              .owner = slot };
    if (self->n_flight++ == 0)
        atomic_store (&hand->serial, slot->serial);
    self->flight_hits += slot->count;
    self->flies_alone = slot->alone;
    return &flight->job;
}

/* Submits READY slots, as many as keep the device busy. One that goes alone waits until nothing
   else is at work, and nothing goes beside it. Returns an exit code.  */
static int submit_slots (engine_t *self)
{
    const uint64_t most = WM_LAUNCHES * (uint64_t) self->slots.control->fill;
    wm_job_t *job[WM_SLOTS];
    wm_error_t error = { 0 };
    unsigned n = 0;
    pthread_mutex_lock (&self->lock);
    const int code = self->code; /* of a check */
    pthread_mutex_unlock (&self->lock);
    if (code)
        return code;
    while (!self->flies_alone && (self->n_flight == 0 || self->flight_hits < most)) {
        wm_slot_t *slot = next_slot (self);
        if (!slot || (slot->alone && (self->n_flight > 0 || !await_checks (self))))
            break;
        if (take (slot))
            job[n++] = begin_job (self, slot);
    }
    if (n == 0)
        return WM_EXIT_OK;
    return wm_device_submit (self->device, n, job, &error) ? fail (self, WM_EXIT_FAILURE, &error)
                                                           : WM_EXIT_OK;
}

/* Collects a job: its slot is DONE, or is checked first. Returns an exit code.  */
static int collect_slot (engine_t *self)
{
    wm_job_t *job;
    wm_error_t error = { 0 };
    if (wm_device_collect (self->device, &job, &error))
        return fail (self, WM_EXIT_FAILURE, &error);
    assert (job);
    atomic_store (&self->slots.control->calls,
                  self->calls_before + wm_device_launches (self->device));
    wm_slot_t *slot = job->owner;
    const flight_t *flight = &self->flight[slot - self->slots.control->slot];
    self->n_flight--;
    self->flight_hits -= slot->count;
    self->flies_alone = false;
    atomic_store (&hand->serial, self->n_flight > 0 ? slot->serial : 0);
    slot->seconds = count_seconds (self, flight->start_s);
    slot->error = job->error;
    slot->again = 0;
    if (job->error.fault && job->error.fault != WM_EBATCH)
        return fail (self, WM_EXIT_FAILURE, &job->error);
    if (job->error.fault || !self->watch ||
        !wm_watch_selects (self->watch, slot->draw, &flight->batch)) {
        finish_slot (self, slot);
        return WM_EXIT_OK;
    }
    pthread_mutex_lock (&self->lock);
    self->unchecked[(self->first_unchecked + self->n_unchecked++) % WM_SLOTS] = slot;
    pthread_cond_broadcast (&self->check_ring);
    pthread_mutex_unlock (&self->lock);
    return WM_EXIT_OK;
}

/* Scores slots on a GPU until the worker or a call ends. One thread lays out the next batches while
   the GPU computes, and hands on whatever is finished; results leave in any order.  */
static void stream_slots (engine_t *self)
{
    char bytes[64];
    ssize_t n_byte = 1;
    pthread_t checker;
    const bool checks = self->watch && !pthread_create (&checker, NULL, check_slots, self);
    int code = WM_EXIT_OK;
    self->calls_before =
        atomic_load (&self->slots.control->calls) - wm_device_launches (self->device);
    hand = &self->slots.control->hand[0]; /* the device counts there, too */
    if (self->watch && !checks) {
        wm_error_t error;
        wm_fault (&error, WM_EHOST, "no thread to check the engine");
        code = fail (self, WM_EXIT_FAILURE, &error);
    }
    while (!code && (n_byte > 0 || (n_byte < 0 && errno == EINTR))) {
        code = submit_slots (self);
        if (!code && self->n_flight > 0)
            code = collect_slot (self);
        else if (!code) /* nothing is READY */
            n_byte = read (self->line, bytes, sizeof bytes);
    }
    pthread_mutex_lock (&self->lock);
    self->code = self->code ? self->code : code;
    self->checks_end = true;
    pthread_cond_broadcast (&self->check_ring);
    pthread_mutex_unlock (&self->lock);
    if (checks)
        pthread_join (checker, NULL);
}

static int serve (engine_t *self)
{
    int code = open_model (self);
    if (!code)
        code = open_device (self);
    if (code)
        return code;
    atomic_store (&self->slots.control->is_ready, 1);
    WM_FAILPOINT ("engine-ready");
    wake_worker (self);
    const uint32_t hands = wm_device_hands (self->device);
    pthread_t other;
    const bool has_other = hands > 1 && !pthread_create (&other, NULL, score_slots, self);
    if (hands > 0)
        score_slots (self);
    else
        stream_slots (self);
    if (has_other)
        pthread_join (other, NULL);
    const wm_key_t none = { 0 };
    WM_TRACE ("busy", &none, (int64_t) (1e9 * self->slots.control->busy_s));
    WM_TRACE ("idle", &none, (int64_t) (1e9 * self->slots.control->idle_s));
    return self->code;
}

static int inherited[2]; /* the line and the memory */

/* In a child that an engine forks: it must not keep the line, whose end is this process's end.  */
static void leave_child (void)
{
    close (inherited[0]);
    close (inherited[1]);
}

int wm_engine_process_main (const char *files)
{
    static engine_t self; /* large, and there is one */
    self = (engine_t){ .line = -1,
                       .waits = true,
                       .check = PTHREAD_MUTEX_INITIALIZER,
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .ended = PTHREAD_COND_INITIALIZER,
                       .check_ring = PTHREAD_COND_INITIALIZER };
    int memory;
    wm_error_t error = { 0 };
    /* The worker decides when this process ends, also after a signal to the whole group.  */
    static const int left_to_worker[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
    for (size_t i = 0; i < sizeof left_to_worker / sizeof *left_to_worker; i++)
        signal (left_to_worker[i], SIG_IGN);
    wm_process_name ("wiremill-engine");
    if (!files || sscanf (files, "%d,%d", &memory, &self.line) != 2 ||
        wm_slots_map (&self.slots, memory, &error)) {
        fprintf (stderr, "wiremill-worker: only a worker starts the mode %s\n", WM_ENGINE_MODE);
        return WM_EXIT_USAGE;
    }
    inherited[0] = self.line, inherited[1] = memory;
    for (size_t i = 0; i < 2; i++)
        fcntl (inherited[i], F_SETFD, FD_CLOEXEC);
    pthread_atfork (NULL, NULL, leave_child);
    dup2 (STDERR_FILENO, STDOUT_FILENO); /* engines may print */
    int code = WM_EXIT_AGAIN;
    if (wm_process_follow (self.slots.control->worker, SIGKILL))
        code = serve (&self);
    wm_watch_destroy (&self.watch);
    wm_device_destroy (&self.device);
    wm_device_destroy (&self.judge);
    wm_model_destroy (&self.model);
    wm_slots_clear (&self.slots);
    return code;
}
