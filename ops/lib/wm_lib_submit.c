/* wm_lib_submit.c - what programs submit to the client of a broker, and wait for: tickets.  */
#include "ops/lib/wm_lib_client_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BATCH_PATCHES_MAX 256u /* several workers share a submission; 64 and more are fast */

/* ---- submit ---------------------------------------------------------------------------------- */

static struct timespec deadline_of (int timeout_ms)
{
    struct timespec at;
    clock_gettime (CLOCK_MONOTONIC, &at);
    at.tv_sec += timeout_ms / 1000;
    at.tv_nsec += timeout_ms % 1000 * 1000000l;
    if (at.tv_nsec >= 1000000000l)
        at.tv_sec++, at.tv_nsec -= 1000000000l;
    return at;
}

/* Waits for a change; false: the time is over.  */
static bool wait_change (wiremill_client_t *self, int timeout_ms, const struct timespec *until)
{
    if (timeout_ms < 0)
        return pthread_cond_wait (&self->changed, &self->lock) == 0;
    return pthread_cond_timedwait (&self->changed, &self->lock, until) != ETIMEDOUT;
}

/* The next batch of a ticket, from patch *at on. NULL: without memory, or there are no more
   (*at is then n).  */
static batch_t *make_batch (ticket_t *ticket, const float *patches, size_t n_value, size_t most,
                            size_t *at)
{
    size_t n = 0;
    while (*at < ticket->n && !wm_lib_is_finite (patches + *at * n_value, n_value)) {
        ticket->status[(*at)++] = WIREMILL_BAD_PIXEL;
        ticket->n_left--;
    }
    if (*at == ticket->n)
        return NULL;
    if (ticket->n - *at < most)
        most = ticket->n - *at;
    batch_t *batch = calloc (1, sizeof *batch + most * sizeof *batch->row);
    if (batch && !(batch->values = malloc (most * n_value * sizeof (float)))) {
        free (batch);
        batch = NULL;
    }
    for (; batch && n < most && *at < ticket->n; ++*at)
        if (wm_lib_is_finite (patches + *at * n_value, n_value)) {
            memcpy (batch->values + n * n_value, patches + *at * n_value, n_value * sizeof (float));
            batch->row[n++] = *at;
        } else {
            ticket->status[*at] = WIREMILL_BAD_PIXEL;
            ticket->n_left--;
        }
    if (batch)
        batch->frame = (wm_library_frame_t){ .type = WM_LIBRARY_BATCH,
                                             .n = (uint32_t) n,
                                             .bytes = n * n_value * sizeof (float) };
    return batch;
}

/* All rows are NaN and HELD until they are answered.  */
static ticket_t *make_ticket (const wiremill_client_t *self, size_t n)
{
    const size_t n_score = n * self->facts.n_output;
    ticket_t *ticket = calloc (1, sizeof *ticket);
    if (!ticket)
        return NULL;
    ticket->n = ticket->n_left = n;
    ticket->scores = malloc ((n_score ? n_score : 1) * sizeof *ticket->scores);
    ticket->status = malloc (n ? n : 1);
    if (!ticket->scores || !ticket->status) {
        wm_lib_ticket_free (ticket);
        return NULL;
    }
    for (size_t i = 0; i < n_score; i++)
        ticket->scores[i] = NAN;
    memset (ticket->status, WIREMILL_HELD, n);
    return ticket;
}

/* Cuts the patches into batches; NULL in *first: none is finite. -1: no memory.  */
static int make_batches (ticket_t *ticket, const float *patches, const wm_library_facts_t *facts,
                         batch_t **first)
{
    const size_t widest = facts->n_value > facts->n_output ? facts->n_value : facts->n_output;
    size_t most = WM_RAW_BYTES_MAX / sizeof (float) / widest;
    most = most < 1 ? 1 : most < BATCH_PATCHES_MAX ? most : BATCH_PATCHES_MAX;
    batch_t **end = first;
    for (size_t at = 0; at < ticket->n;) {
        batch_t *batch = make_batch (ticket, patches, facts->n_value, most, &at);
        if (!batch && at < ticket->n)
            return -1;
        if (!batch)
            break;
        batch->ticket = ticket;
        ticket->n_batch++;
        *end = batch;
        end = &batch->next;
    }
    return 0;
}

/* Gives a ticket and its batches to io. Under the lock. -1: no memory, and nothing has changed.  */
static int enter (wiremill_client_t *self, ticket_t *ticket, batch_t *list)
{
    batch_t *last = NULL, *batch = list;
    int rc = wm_table_reserve (&self->tickets);
    for (; batch && !rc; batch = batch->next) {
        rc = wm_table_reserve (&self->batches);
        if (rc)
            break;
        batch->frame.number = ++self->last_number;
        wm_table_put (&self->batches, wm_table_mix (batch->frame.number), batch);
        last = batch;
    }
    if (rc) {
        for (batch_t *one = list; one != batch; one = one->next)
            wm_table_remove (&self->batches, wm_table_mix (one->frame.number), one);
        return -1;
    }
    ticket->number = ++self->last_number;
    wm_table_put (&self->tickets, wm_table_mix (ticket->number), ticket);
    if (last) {
        *(self->last ? &self->last->next : &self->first) = list;
        self->last = last;
        wm_lib_wake (self);
    }
    return 0;
}

/* Waits until a helper is there and `bytes` more may be under way, and reserves them. Under the
   lock.  */
static wm_fault_t make_room (wiremill_client_t *self, size_t bytes, int timeout_ms,
                             wm_error_t *error)
{
    const struct timespec until = deadline_of (timeout_ms > 0 ? timeout_ms : 0);
    for (bool is_late = false;;) {
        const wm_fault_t fault = wm_lib_make_alive (self, error);
        if (fault)
            return fault;
        if (!self->bytes || (bytes <= self->memory && self->bytes <= self->memory - bytes))
            break;
        if (is_late)
            return wm_fault (error, WM_EAGAIN,
                             "patches of %zu bytes are under way, and there is room for %zu%s%s",
                             self->bytes, self->memory, *self->waits ? ": " : "", self->waits);
        is_late = !wait_change (self, timeout_ms, &until);
    }
    self->bytes += bytes;
    return WM_OK;
}

static wm_fault_t submit (wiremill_client_t *self, const float *patches, size_t n, int timeout_ms,
                          uint64_t *number, wm_error_t *error)
{
    const size_t n_value = self->facts.n_value, bytes = n * n_value * sizeof (float);
    pthread_mutex_lock (&self->lock);
    wm_fault_t fault = make_room (self, bytes, timeout_ms, error);
    const uint64_t life = self->life;
    pthread_mutex_unlock (&self->lock);
    if (fault)
        return fault;
    batch_t *list = NULL;
    ticket_t *ticket = make_ticket (self, n);
    if (!ticket || make_batches (ticket, patches, &self->facts, &list))
        fault = wm_fault (error, WM_EAGAIN, "no memory for %zu patches: try later", n);
    size_t unused = bytes; /* of what was reserved */
    for (const batch_t *batch = list; batch; batch = batch->next)
        unused -= batch->frame.bytes;
    pthread_mutex_lock (&self->lock);
    if (!fault && life != self->life)
        fault = wm_fault (error, self->why.fault, "%s", self->why.text);
    if (!fault && enter (self, ticket, list))
        fault = wm_fault (error, WM_EAGAIN, "no memory for %zu patches: try later", n);
    if (life == self->life)
        self->bytes -= fault ? bytes : unused;
    if (!fault)
        *number = ticket->number; /* once the lock is released another thread may end it */
    pthread_cond_broadcast (&self->changed);
    pthread_mutex_unlock (&self->lock);
    for (batch_t *next; fault && list; list = next) {
        next = list->next;
        free (list->values);
        free (list);
    }
    if (fault)
        wm_lib_ticket_free (ticket);
    return fault;
}

/* What every call checks first.  */
static wm_fault_t check (const wiremill_client_t *self, const char *function, wm_error_t *error)
{
    if (!self)
        return wm_fault (error, WM_EUSAGE, "%s: the client is NULL", function);
    if (self->owner != getpid ())
        return wm_fault (error, WM_EUSAGE,
                         "the client was connected before fork, and its thread is in the parent: "
                         "connect in the child");
    return WM_OK;
}

static wm_fault_t check_patches (const wiremill_client_t *self, const char *function,
                                 const float *patches, size_t n, size_t n_value, wm_error_t *error)
{
    size_t bytes;
    const wm_fault_t fault = check (self, function, error);
    if (fault)
        return fault;
    if (n && !patches)
        return wm_fault (error, WM_EUSAGE, "%s: patches is NULL", function);
    if (n_value != self->facts.n_value)
        return wm_lib_wrong_size (n_value, self->facts.dim, self->facts.n_dim, error);
    if (__builtin_mul_overflow (n, n_value * sizeof (float), &bytes) ||
        __builtin_mul_overflow (n, self->facts.n_output * sizeof (float), &bytes))
        return wm_fault (error, WM_EUSAGE, "%zu patches are more than memory can hold", n);
    return WM_OK;
}

wiremill_fault_t wiremill_submit (wiremill_client_t *self, const float *patches, size_t n,
                                  size_t n_value, int timeout_ms, uint64_t *ticket,
                                  wiremill_error_t *error)
{
    wm_error_t why = { .fault = WM_OK };
    wm_fault_t fault = check_patches (self, "wiremill_submit", patches, n, n_value, &why);
    if (!fault && !ticket)
        fault = wm_fault (&why, WM_EUSAGE, "wiremill_submit: ticket is NULL");
    if (!fault)
        fault = submit (self, patches, n, timeout_ms, ticket, &why);
    return fault ? wm_lib_fault (error, &why) : WIREMILL_OK;
}

/* ---- poll, wait, forget ---------------------------------------------------------------------- */

static wm_fault_t no_ticket (uint64_t ticket, wm_error_t *error)
{
    return wm_fault (error, WM_EUSAGE,
                     "there is no ticket %llu: it was waited for, or forgotten, or never was",
                     (unsigned long long) ticket);
}

wiremill_fault_t wiremill_poll (wiremill_client_t *self, uint64_t ticket, size_t *n_done,
                                wiremill_error_t *error)
{
    wm_error_t why = { .fault = WM_OK };
    wm_fault_t fault = check (self, "wiremill_poll", &why);
    if (fault)
        return wm_lib_fault (error, &why);
    pthread_mutex_lock (&self->lock);
    const ticket_t *known = wm_lib_ticket_of (self, ticket);
    if (!known)
        fault = no_ticket (ticket, &why);
    else if (known->n_batch)
        fault = wm_fault (&why, WM_EAGAIN, "%zu of %zu patches are answered%s%s",
                          known->n - known->n_left, known->n, *self->waits ? "; waiting: " : "",
                          self->waits);
    if (known && n_done)
        *n_done = known->n - known->n_left;
    pthread_mutex_unlock (&self->lock);
    return fault ? wm_lib_fault (error, &why) : WIREMILL_OK;
}

/* Copies what a ticket has, and ends it. Under the lock.  */
static wm_fault_t collect (wiremill_client_t *self, ticket_t *ticket, float *scores,
                           uint8_t *status, wm_error_t *error)
{
    const size_t n_score = ticket->n * self->facts.n_output;
    const wm_fault_t fault = ticket->error.fault;
    if (fault)
        *error = ticket->error;
    for (size_t i = 0; fault && i < n_score; i++)
        scores[i] = NAN;
    if (!fault && n_score)
        memcpy (scores, ticket->scores, n_score * sizeof *scores);
    if (status && ticket->n && fault)
        memset (status, WIREMILL_HELD, ticket->n);
    else if (status && ticket->n)
        memcpy (status, ticket->status, ticket->n);
    wm_lib_ticket_end (self, ticket);
    return fault;
}

wiremill_fault_t wiremill_wait (wiremill_client_t *self, uint64_t ticket, int timeout_ms,
                                float *scores, uint8_t *status, wiremill_error_t *error)
{
    wm_error_t why = { .fault = WM_OK };
    wm_fault_t fault = check (self, "wiremill_wait", &why);
    if (fault)
        return wm_lib_fault (error, &why);
    const struct timespec until = deadline_of (timeout_ms > 0 ? timeout_ms : 0);
    ticket_t *known;
    pthread_mutex_lock (&self->lock);
    for (bool is_late = false;
         (known = wm_lib_ticket_of (self, ticket)) && known->n_batch && !is_late;)
        is_late = !wait_change (self, timeout_ms, &until);
    if (!known)
        fault = no_ticket (ticket, &why);
    else if (known->n_batch)
        fault = wm_fault (&why, WM_EAGAIN, "%zu of %zu patches are answered after %d ms%s%s",
                          known->n - known->n_left, known->n, timeout_ms,
                          *self->waits ? "; waiting: " : "", self->waits);
    else if (known->n && !scores)
        fault = wm_fault (&why, WM_EUSAGE, "wiremill_wait: scores is NULL");
    else
        fault = collect (self, known, scores, status, &why);
    pthread_mutex_unlock (&self->lock);
    return fault ? wm_lib_fault (error, &why) : WIREMILL_OK;
}

void wiremill_forget (wiremill_client_t *self, uint64_t ticket)
{
    if (check (self, "wiremill_forget", NULL))
        return;
    pthread_mutex_lock (&self->lock);
    ticket_t *known = wm_lib_ticket_of (self, ticket);
    if (known)
        wm_lib_ticket_end (self, known);
    pthread_cond_broadcast (&self->changed); /* who waits for it learns that it is gone */
    pthread_mutex_unlock (&self->lock);
}

/* ---- both together --------------------------------------------------------------------------- */

static void hold_all (const wiremill_client_t *self, size_t n, float *scores, uint8_t *status)
{
    for (size_t i = 0; i < n * self->facts.n_output; i++)
        scores[i] = NAN;
    if (status)
        memset (status, WIREMILL_HELD, n);
}

wiremill_fault_t wiremill_client_score (wiremill_client_t *self, const float *patches, size_t n,
                                        size_t n_value, float *scores, uint8_t *status,
                                        wiremill_error_t *error)
{
    wm_error_t why = { .fault = WM_OK };
    wm_fault_t fault = check_patches (self, "wiremill_client_score", patches, n, n_value, &why);
    if (!fault && n && !scores)
        fault = wm_fault (&why, WM_EUSAGE, "wiremill_client_score: scores is NULL");
    if (fault || !n)
        return fault ? wm_lib_fault (error, &why) : WIREMILL_OK;
    /* A quarter of the memory at once: while one piece is answered, the next is copied.  */
    const size_t n_output = self->facts.n_output;
    size_t most = self->memory / 4 / (n_value * sizeof (float));
    most = most < BATCH_PATCHES_MAX ? BATCH_PATCHES_MAX : most - most % BATCH_PATCHES_MAX;
    const size_t n_piece = (n + most - 1) / most;
    uint64_t *ticket = calloc (n_piece, sizeof *ticket);
    if (!ticket)
        fault = wm_fault (&why, WM_EAGAIN, "no memory for %zu patches: try later", n);
    size_t n_sent = 0;
    for (size_t at = 0; at < n && !fault; at += most, n_sent += !fault)
        fault = submit (self, patches + at * n_value, n - at < most ? n - at : most, -1,
                        &ticket[n_sent], &why);
    wiremill_fault_t failed = fault ? wm_lib_fault (error, &why) : WIREMILL_OK;
    for (size_t i = 0; i < n_sent; i++)
        if (failed)
            wiremill_forget (self, ticket[i]);
        else
            failed = wiremill_wait (self, ticket[i], -1, scores + i * most * n_output,
                                    status ? status + i * most : NULL, error);
    free (ticket);
    if (failed)
        hold_all (self, n, scores, status);
    return failed;
}
