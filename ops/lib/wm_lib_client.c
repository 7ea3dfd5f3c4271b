/* wm_lib_client.c - the client of a broker: its helper process (wm_lib_helper.c), and the thread
   that exchanges frames with it. wm_lib_client_private.h states who may do what.  */
#include "ops/lib/wm_lib_client_private.h"
#include "schema/base/wm_address.h"
#include "schema/base/wm_process.h"
#include "schema/wm_batch.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MEMORY_BYTES (128u << 20)
#define PATIENCE_MS 60000u

static_assert (sizeof (wiremill_connect_options_t) == 40, "size that programs were compiled with");
static_assert ((int) WIREMILL_POISON == WM_HIT_POISON, "statuses are those of outputs");

/* ---- tickets and batches --------------------------------------------------------------------- */

void wm_lib_ticket_free (ticket_t *ticket)
{
    if (!ticket)
        return;
    free (ticket->scores);
    free (ticket->status);
    free (ticket);
}

ticket_t *wm_lib_ticket_of (const wiremill_client_t *self, uint64_t number)
{
    size_t at;
    return wm_table_first (&self->tickets, wm_table_mix (number), &at);
}

static batch_t *batch_of (const wiremill_client_t *self, uint64_t number)
{
    size_t at;
    return wm_table_first (&self->batches, wm_table_mix (number), &at);
}

/* Its caller is done with it.  */
void wm_lib_ticket_end (wiremill_client_t *self, ticket_t *ticket)
{
    wm_table_remove (&self->tickets, wm_table_mix (ticket->number), ticket);
    ticket->is_forgotten = true;
    if (!ticket->n_batch)
        wm_lib_ticket_free (ticket);
}

static void batch_free (batch_t *batch)
{
    if (batch)
        free (batch->values);
    free (batch);
}

/* It is answered, or never will be.  */
static void batch_end (wiremill_client_t *self, batch_t *batch)
{
    ticket_t *ticket = batch->ticket;
    wm_table_remove (&self->batches, wm_table_mix (batch->frame.number), batch);
    self->bytes -= batch->frame.bytes;
    ticket->n_left -= batch->frame.n;
    if (!--ticket->n_batch && ticket->is_forgotten)
        wm_lib_ticket_free (ticket);
    batch_free (batch);
}

/* The helper is gone: what is under way fails.  */
static void life_end (wiremill_client_t *self, wm_fault_t fault, const char *text)
{
    wm_fault (&self->why, fault, "%s", text);
    for (size_t i = 0; self->batches.slot && i <= self->batches.mask;) {
        batch_t *batch = self->batches.slot[i].item;
        if (!batch) {
            i++;
            continue;
        }
        batch->ticket->error = self->why;
        batch_end (self, batch); /* another may move here */
    }
    self->first = self->last = NULL;
    self->is_alive = false;
    self->life++;
    self->bytes = 0;
    *self->waits = 0;
}

/* ---- io -------------------------------------------------------------------------------------- */

static void take_result (wiremill_client_t *self)
{
    const size_t n_output = self->facts.n_output;
    batch_t *batch = batch_of (self, self->frame.number);
    const size_t n = batch ? batch->frame.n : 0;
    if (!batch || self->frame.n != n || self->frame.bytes != n * (1 + n_output * sizeof (float)))
        return;
    ticket_t *ticket = batch->ticket;
    for (size_t i = 0; i < n; i++) {
        ticket->status[batch->row[i]] = self->body[i];
        memcpy (ticket->scores + batch->row[i] * n_output,
                self->body + n + i * n_output * sizeof (float), n_output * sizeof (float));
    }
    batch_end (self, batch);
}

/* A frame of the helper is here. Returns false where it was the last.  */
static bool take_frame (wiremill_client_t *self)
{
    char text[WM_TEXT_BYTES_MAX + 1] = "";
    if (self->frame.type != WM_LIBRARY_RESULT && self->body)
        snprintf (text, sizeof text, "%.*s", (int) self->frame.bytes, (const char *) self->body);
    switch (self->frame.type) {
    case WM_LIBRARY_RESULT:
        take_result (self);
        return true;
    case WM_LIBRARY_HELD: /* its rows are NaN and HELD already */
        if (batch_of (self, self->frame.number))
            batch_end (self, batch_of (self, self->frame.number));
        return true;
    case WM_LIBRARY_WAITS:
        memcpy (self->waits, text, sizeof text);
        return true;
    case WM_LIBRARY_FAILED:
        life_end (self, (wm_fault_t) self->frame.n, text);
        return false;
    default:
        return true;
    }
}

#define HELPER_ENDED                                                                               \
    "the helper process of libwiremill ended, perhaps somebody killed it; the next submission "    \
    "starts another"

/* Reads what is there. Returns false when the helper has ended.  */
static bool read_some (wiremill_client_t *self)
{
    const size_t head = sizeof self->frame;
    for (;;) {
        const size_t want = self->got < head ? head : head + (size_t) self->frame.bytes;
        uint8_t *at = self->got < head ? (uint8_t *) &self->frame + self->got
                                       : self->body + (self->got - head);
        const ssize_t n =
            want > self->got ? recv (self->fd, at, want - self->got, MSG_DONTWAIT) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n < 0 || (n == 0 && want > self->got)) {
            pthread_mutex_lock (&self->lock);
            life_end (self, WM_EHOST, HELPER_ENDED);
            pthread_mutex_unlock (&self->lock);
            return false;
        }
        self->got += (size_t) n;
        if (self->got == head) {
            free (self->body);
            self->body = self->frame.bytes ? malloc (self->frame.bytes) : NULL;
            if (self->frame.bytes && !self->body) {
                pthread_mutex_lock (&self->lock);
                life_end (self, WM_EHOST, "no memory for scores of the broker");
                pthread_mutex_unlock (&self->lock);
                return false;
            }
        }
        if (self->got < head || self->got < head + self->frame.bytes)
            continue;
        self->got = 0;
        pthread_mutex_lock (&self->lock);
        const bool goes_on = take_frame (self);
        pthread_cond_broadcast (&self->changed);
        pthread_mutex_unlock (&self->lock);
        if (!goes_on)
            return false;
    }
}

/* Writes what the socket takes. The end of the helper shows in reading.  */
static void write_some (wiremill_client_t *self)
{
    const size_t head = sizeof (wm_library_frame_t);
    for (;;) {
        pthread_mutex_lock (&self->lock);
        batch_t *batch = self->first; /* no other thread removes it */
        pthread_mutex_unlock (&self->lock);
        if (!batch)
            return;
        const uint8_t *from = batch->written < head
                                  ? (const uint8_t *) &batch->frame + batch->written
                                  : (const uint8_t *) batch->values + (batch->written - head);
        const size_t left =
            (batch->written < head ? head : head + (size_t) batch->frame.bytes) - batch->written;
        const ssize_t n = send (self->fd, from, left, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0)
            return;
        batch->written += (size_t) n;
        if (batch->written < head + batch->frame.bytes)
            continue;
        pthread_mutex_lock (&self->lock);
        self->first = batch->next;
        if (!self->first)
            self->last = NULL;
        free (batch->values);
        batch->values = NULL;
        pthread_mutex_unlock (&self->lock);
    }
}

static void *io_main (void *argument)
{
    wiremill_client_t *self = argument;
    uint64_t count;
    for (;;) {
        pthread_mutex_lock (&self->lock);
        const bool is_closing = self->is_closing;
        const short events = (short) (self->first ? POLLIN | POLLOUT : POLLIN);
        pthread_mutex_unlock (&self->lock);
        if (is_closing)
            break;
        struct pollfd items[2] = { { .fd = self->fd, .events = events },
                                   { .fd = self->wake, .events = POLLIN } };
        if (poll (items, 2, -1) < 0 && errno != EINTR)
            break; /* no memory in the kernel */
        if (items[1].revents && read (self->wake, &count, sizeof count) < 0)
            count = 0; /* nothing left to read */
        if (items[0].revents & POLLOUT)
            write_some (self);
        if (items[0].revents & (POLLIN | POLLHUP | POLLERR) && !read_some (self))
            break;
    }
    pthread_mutex_lock (&self->lock);
    if (self->is_alive)
        life_end (self, WM_EHOST, "the client is closed");
    pthread_cond_broadcast (&self->changed);
    pthread_mutex_unlock (&self->lock);
    return NULL;
}

void wm_lib_wake (const wiremill_client_t *self)
{
    const uint64_t one = 1;
    if (write (self->wake, &one, sizeof one) < 0)
        assert (errno == EAGAIN); /* it is awake */
}

/* ---- the helper's life ----------------------------------------------------------------------- */

static void io_end (wiremill_client_t *self)
{
    if (self->has_io)
        pthread_join (self->io, NULL);
    self->has_io = false;
    if (self->fd >= 0) {
        shutdown (self->fd, SHUT_RDWR); /* a child of fork has it open, too */
        close (self->fd);
    }
    self->fd = -1;
    free (self->body);
    self->body = NULL;
    self->got = 0;
}

/* Starts a helper, and io for it. Without the lock; no other thread does so at the same time.  */
static wm_fault_t helper_start (wiremill_client_t *self, wm_error_t *error)
{
    wm_library_facts_t facts;
    char (*labels)[WM_LIBRARY_LABEL_BYTES];
    io_end (self);
    wm_fault_t fault = wm_lib_helper_start (self->helper, self->broker, self->join_file,
                                            self->patience_ms, &self->fd, &facts, &labels, error);
    if (fault) {
        self->fd = -1;
        return fault;
    }
    if (!self->labels) {
        self->facts = facts;
        self->labels = labels;
    } else {
        free (labels);
        if (memcmp (&facts, &self->facts, sizeof facts))
            return wm_fault (error, WM_EHOST,
                             "another model is now at the broker %.200s: connect again to use it",
                             self->broker);
    }
    self->is_alive = true; /* io is the next to look */
    const int rc = wm_process_thread (&self->io, io_main, self);
    self->has_io = rc == 0;
    self->is_alive = rc == 0;
    return rc ? wm_fault (error, WM_EHOST, "no thread for the client of a broker: %s",
                          strerror (rc))
              : WM_OK;
}

/* Under the lock, which it gives back while it starts one.  */
wm_fault_t wm_lib_make_alive (wiremill_client_t *self, wm_error_t *error)
{
    while (self->is_starting)
        pthread_cond_wait (&self->changed, &self->lock);
    if (self->is_alive)
        return WM_OK;
    self->is_starting = true;
    pthread_mutex_unlock (&self->lock);
    const wm_fault_t fault = helper_start (self, error);
    pthread_mutex_lock (&self->lock);
    self->is_starting = false;
    pthread_cond_broadcast (&self->changed);
    return fault;
}

static wm_fault_t take_options (const char *broker, const wiremill_connect_options_t *given,
                                wiremill_connect_options_t *options, wm_error_t *error)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    *options = (wiremill_connect_options_t){ .size = sizeof *options };
    if (!broker || !*broker)
        return wm_fault (error, WM_EUSAGE, "wiremill_connect: no broker is named");
    if (wm_address_parse (list, broker, WM_ADDRESS_CONNECT, error) < 1)
        return error->fault = WM_EUSAGE;
    if (given && given->size != sizeof *options)
        return wm_fault (error, WM_EUSAGE,
                         "wiremill_connect_options_t: size is %zu, not %zu: zero the struct, then "
                         "set its size to sizeof (wiremill_connect_options_t)",
                         given->size, sizeof *options);
    if (given)
        *options = *given;
    if (options->reserved)
        return wm_fault (error, WM_EUSAGE, "wiremill_connect_options_t: `reserved` is not 0");
    if (!options->patience_ms)
        options->patience_ms = PATIENCE_MS;
    if (!options->memory)
        options->memory = MEMORY_BYTES;
    return WM_OK;
}

static wm_fault_t make_lock (wiremill_client_t *self, wm_error_t *error)
{
    pthread_condattr_t clock;
    int rc = pthread_mutex_init (&self->lock, NULL);
    if (!rc && (rc = pthread_condattr_init (&clock)) == 0) {
        pthread_condattr_setclock (&clock, CLOCK_MONOTONIC);
        rc = pthread_cond_init (&self->changed, &clock);
        pthread_condattr_destroy (&clock);
    }
    return rc ? wm_fault (error, WM_EHOST, "no lock for a client: %s", strerror (rc)) : WM_OK;
}

wiremill_client_t *wiremill_connect (const char *broker, const wiremill_connect_options_t *options,
                                     wiremill_error_t *error)
{
    wiremill_connect_options_t mine;
    wm_error_t why = { .fault = WM_OK };
    wm_fault_t fault = take_options (broker, options, &mine, &why);
    wiremill_client_t *self = fault ? NULL : calloc (1, sizeof *self);
    if (!fault && !self)
        fault = wm_fault (&why, WM_EHOST, "no memory for a client");
    if (self && (fault = make_lock (self, &why))) {
        free (self);
        self = NULL;
    }
    if (self) {
        self->owner = getpid ();
        self->fd = -1;
        self->wake = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
        self->broker = strdup (broker);
        self->join_file = mine.join_file ? strdup (mine.join_file) : NULL;
        self->helper = mine.helper ? strdup (mine.helper) : NULL;
        self->patience_ms = mine.patience_ms;
        self->memory = mine.memory;
        if (self->wake < 0 || !self->broker || (mine.join_file && !self->join_file) ||
            (mine.helper && !self->helper))
            fault = wm_fault (&why, WM_EHOST, "no memory or no descriptor for a client");
        if (!fault)
            fault = helper_start (self, &why);
        if (fault)
            wiremill_client_close (&self);
    }
    if (fault)
        wm_lib_fault (error, &why);
    return self;
}

void wiremill_client_close (wiremill_client_t **self_p)
{
    wiremill_client_t *self = self_p ? *self_p : NULL;
    if (!self)
        return;
    if (self->owner == getpid ()) {
        pthread_mutex_lock (&self->lock);
        self->is_closing = true;
        pthread_mutex_unlock (&self->lock);
        wm_lib_wake (self);
        io_end (self);
        pthread_cond_destroy (&self->changed);
        pthread_mutex_destroy (&self->lock);
        for (size_t i = 0; self->tickets.slot && i <= self->tickets.mask; i++)
            wm_lib_ticket_free (self->tickets.slot[i].item);
        free (self->tickets.slot);
        free (self->batches.slot);
    } else if (self->fd >= 0) /* a child: io is in the parent, and may have been at anything */
        close (self->fd);
    if (self->wake >= 0)
        close (self->wake);
    free (self->labels);
    free (self->broker);
    free (self->join_file);
    free (self->helper);
    free (self);
    *self_p = NULL;
}

/* ---- facts ----------------------------------------------------------------------------------- */

size_t wiremill_client_n_value (const wiremill_client_t *self)
{
    return self->facts.n_value;
}

size_t wiremill_client_n_output (const wiremill_client_t *self)
{
    return self->facts.n_output;
}

uint32_t wiremill_client_shape (const wiremill_client_t *self, uint32_t dim[WIREMILL_DIMS_MAX])
{
    static_assert (WIREMILL_DIMS_MAX >= WM_LIBRARY_DIMS_MAX, "every shape fits");
    memcpy (dim, self->facts.dim, self->facts.n_dim * sizeof *dim);
    return self->facts.n_dim;
}

const char *wiremill_client_label (const wiremill_client_t *self, size_t i)
{
    return i < self->facts.n_output && self->facts.n_output <= WM_OUTPUTS_MAX ? self->labels[i]
                                                                                : NULL;
}

const char *wiremill_client_sha256 (const wiremill_client_t *self)
{
    return self->facts.model;
}
