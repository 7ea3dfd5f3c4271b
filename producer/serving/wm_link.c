/* wm_link.c - see wm_link.h.

   Batches that are not answered are one list in the order in which they were made; `next` is the
   first that is not written to this helper, of which `written` bytes are.  */
#include "producer/serving/wm_link.h"
#include "producer/serving/wm_respawn.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_program.h"
#include "schema/base/wm_restart.h"
#include "schema/base/wm_table.h"
#include "schema/wm_batch.h"
#include "schema/wm_limits.h"
#include "schema/wm_ragged.h"

#include <czmq.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define SOCKET_BYTES (1 << 20)
#define BODY_BYTES_MAX (2ull * WM_PATCH_BYTES_MAX)

struct wm_link_t {
    wm_loop_t *loop;
    wm_link_calls_t calls;
    void *argument;
    const wm_region_t *region;
    char *endpoint, *join_file;
    int fd;               /* -1: there is no helper */
    wm_reaped_t *starter; /* the process that only starts the helper */
    wm_loop_watch_t *watch;
    uint32_t events;
    wm_timer_t *again;
    wm_restart_t restart;                 /* in us */
    unsigned n_refused;                   /* since the last answer */
    bool is_ready, was_ready, has_failed; /* in this session; ever; for good */
    wm_library_facts_t facts;
    wm_link_batch_t *first, *last, *next;
    size_t written; /* of `next`, with its header */
    uint64_t last_number;
    wm_table_t by_number;
    wm_library_frame_t frame; /* that is read */
    uint8_t *base, *body;     /* body: in it, so that scores behind n statuses are aligned */
    size_t room, got;         /* of base; of the frame and its body */
};

static void start (wm_link_t *self);

/* ---- the helper ------------------------------------------------------------------------------ */

static void start_again (void *argument)
{
    wm_link_t *self = argument;
    self->again = NULL;
    start (self);
}

/* The helper has ended: another gets all that was not answered.  */
static void life_end (wm_link_t *self)
{
    static const wm_restart_rule_t rule = { .first = 100000, .most = 2000000 };
    wm_loop_unwatch (&self->watch);
    if (self->fd >= 0)
        close (self->fd);
    self->fd = -1;
    self->is_ready = false;
    self->got = self->written = 0;
    self->next = self->first;
    if (self->has_failed || self->again)
        return;
    wm_restart_failed (&self->restart, &rule, wm_loop_now_us (self->loop), false);
    self->again = wm_loop_timer (self->loop, self->restart.at, start_again, self);
}

static void fail (wm_link_t *self, wm_fault_t fault, const char *text)
{
    self->has_failed = true;
    life_end (self);
    self->calls.failed (self->argument, fault, text);
}

/* In the child, before exec: the library's end of the pair has a number of its own.  */
static void place_descriptor (const void *argument)
{
    if (dup2 (*(const int *) argument, WM_LIBRARY_FD) < 0)
        _exit (WM_EXIT_FAILURE);
}

static void on_ready (void *argument, uint32_t events);

static void start (wm_link_t *self)
{
    char path[PATH_MAX], of[16], memory[32];
    int pair[2];
    wm_program_beside (path, "wiremill-producer");
    snprintf (of, sizeof of, "%ld", (long) getpid ());
    const char *argv[] = {
        "wiremill-producer", "client", "--of", of,   "--give-up", "8760h", "--broker",
        self->endpoint,      NULL,     NULL,   NULL, NULL,        NULL
    };
    self->fd = -1;
    if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        life_end (self);
        return;
    }
    const char **more = argv + 8;
    if (self->join_file)
        *more++ = "--join-file", *more++ = self->join_file;
    if (self->region) {
        snprintf (memory, sizeof memory, "/dev/fd/%d", wm_region_fd (self->region));
        *more++ = "--memory", *more++ = memory;
    }
    const wm_process_t process = { .program = path,
                                   .argv = argv,
                                   .in = WM_PROCESS_NULL,
                                   .keep = WM_LIBRARY_FD,
                                   .prepare = place_descriptor,
                                   .argument = &pair[1] };
    static const int socket_bytes = SOCKET_BYTES;
    for (int i = 0; i < 2; i++)
        setsockopt (pair[i], SOL_SOCKET, SO_SNDBUF, &socket_bytes, sizeof socket_bytes);
    wm_respawn_reap_now (&self->starter);
    const pid_t pid = wm_process_start (&process);
    close (pair[1]);
    if (pid > 0)
        wm_respawn_reap (self->loop, pid, &self->starter);
    self->fd = pair[0];
    self->events = EPOLLIN;
    self->watch = pid > 0 ? wm_loop_watch (self->loop, pair[0], EPOLLIN, on_ready, self) : NULL;
    if (!self->watch)
        life_end (self);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void unlink_batch (wm_link_t *self, wm_link_batch_t *batch)
{
    wm_table_remove (&self->by_number, wm_table_mix (batch->frame.number), batch);
    if (self->next == batch)
        self->next = batch->next;
    *(batch->prev ? &batch->prev->next : &self->first) = batch->next;
    *(batch->next ? &batch->next->prev : &self->last) = batch->prev;
}

/* Whether a result has the size of n rows, or of the ragged row that it begins with.  */
static bool result_fits (const wm_link_t *self, uint32_t n)
{
    const uint64_t bytes = self->frame.bytes, most = wm_result_bytes (n, self->facts.n_output);
    float length = 0;
    if (!self->facts.is_ragged)
        return bytes == most;
    if (bytes < 1 + sizeof length || bytes > most)
        return bytes == 1 && self->body[0];
    memcpy (&length, self->body + 1, sizeof length);
    return bytes == 1 + sizeof length * wm_ragged_length (&length, self->facts.n_output);
}

static void take_answer (wm_link_t *self, const char *text)
{
    size_t at;
    const uint32_t n = self->frame.n;
    wm_link_batch_t *batch =
        wm_table_first (&self->by_number, wm_table_mix (self->frame.number), &at);
    if (!batch || batch == self->next || batch->frame.n != n)
        return;
    const bool is_result = self->frame.type == WM_LIBRARY_RESULT;
    if (is_result && !result_fits (self, n))
        return;
    unlink_batch (self, batch);
    self->restart.in_row = 0; /* this helper works */
    self->n_refused = 0;
    if (is_result)
        self->calls.answered (self->argument, batch, self->body,
                              self->frame.bytes > n ? self->body + n : NULL, NULL);
    else
        self->calls.answered (self->argument, batch, NULL, NULL, text);
}

static void take_ready (wm_link_t *self)
{
    wm_library_facts_t facts;
    if (self->frame.bytes < sizeof facts)
        return;
    memcpy (&facts, self->body, sizeof facts);
    if (self->was_ready &&
        (facts.n_value != self->facts.n_value || facts.n_output != self->facts.n_output ||
         facts.is_ragged != self->facts.is_ragged || facts.is_exact != self->facts.is_exact ||
         strcmp (facts.model, self->facts.model) != 0)) {
        fail (self, WM_EHOST, "another model is now at this broker's address");
        return;
    }
    self->facts = facts;
    self->is_ready = true;
    if (self->was_ready) {
        self->calls.waits (self->argument, ""); /* for what the helper before this one did */
        return;
    }
    self->was_ready = true;
    self->calls.ready (self->argument, &self->facts);
}

/* A frame is here. Returns false where it was the session's last.  */
static bool take_frame (wm_link_t *self)
{
    char text[WM_TEXT_BYTES_MAX + 1] = "";
    if (self->frame.type != WM_LIBRARY_RESULT && self->frame.type != WM_LIBRARY_READY)
        snprintf (text, sizeof text, "%.*s",
                  (int) (self->frame.bytes < sizeof text ? self->frame.bytes : sizeof text - 1),
                  self->frame.bytes ? (const char *) self->body : "");
    switch (self->frame.type) {
    case WM_LIBRARY_READY:
        take_ready (self);
        break;
    case WM_LIBRARY_RESULT:
    case WM_LIBRARY_HELD:
        take_answer (self, text);
        break;
    case WM_LIBRARY_WAITS:
        self->calls.waits (self->argument, text);
        break;
    case WM_LIBRARY_FAILED:
        if (!self->was_ready || self->frame.n == WM_EKEY) {
            fail (self, (wm_fault_t) self->frame.n, text);
            break;
        }
        life_end (self); /* it served this model: what it found wrong may pass */
        self->calls.refused (self->argument, text, ++self->n_refused);
        break;
    default:
        break;
    }
    return self->fd >= 0;
}

/* Reads what is there, some frames at most, so that others have their turn. false: the helper has
   ended.  */
static bool read_some (wm_link_t *self)
{
    const size_t head = sizeof self->frame;
    for (int n_frame = 0; n_frame < 16;) {
        const size_t want = self->got < head ? head : head + (size_t) self->frame.bytes;
        uint8_t *to = self->got < head ? (uint8_t *) &self->frame + self->got
                                       : self->body + (self->got - head);
        const ssize_t n =
            want > self->got ? recv (self->fd, to, want - self->got, MSG_DONTWAIT) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n < 0 || (n == 0 && want > self->got))
            return false;
        self->got += (size_t) n;
        if (self->got == head && self->frame.bytes + sizeof (float) > self->room) {
            if (self->frame.bytes > BODY_BYTES_MAX)
                return false;
            free (self->base);
            self->room = (size_t) self->frame.bytes + sizeof (float);
            self->base = zmalloc (self->room);
        }
        if (self->got == head)
            self->body = self->base + (-self->frame.n & (sizeof (float) - 1));
        if (self->got < head || self->got < head + self->frame.bytes)
            continue;
        self->got = 0;
        n_frame++;
        if (!take_frame (self))
            return true;
    }
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void watch_for (wm_link_t *self, uint32_t events)
{
    if (self->watch && events != self->events)
        wm_loop_change (self->watch, self->events = events);
}

/* Writes what the socket takes. The end of the helper shows in reading.  */
static void write_some (wm_link_t *self)
{
    const size_t head = sizeof (wm_library_frame_t);
    while (self->is_ready && self->next) {
        wm_link_batch_t *batch = self->next;
        const size_t in_head = self->written < head ? self->written : head;
        const size_t in_body = self->written - in_head;
        struct iovec part[2] = { { (uint8_t *) &batch->frame + in_head, head - in_head },
                                 { (uint8_t *) (uintptr_t) batch->body + in_body,
                                   (size_t) batch->frame.bytes - in_body } };
        const struct msghdr message = { .msg_iov = part, .msg_iovlen = 2 };
        const ssize_t n =
            TEMP_FAILURE_RETRY (sendmsg (self->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL));
        if (n <= 0)
            break;
        self->written += (size_t) n;
        if (self->written < head + batch->frame.bytes)
            continue;
        self->written = 0;
        self->next = batch->next;
    }
    watch_for (self, self->is_ready && self->next ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void on_ready (void *argument, uint32_t events)
{
    wm_link_t *self = argument;
    if (events & ~(uint32_t) EPOLLOUT && !read_some (self))
        life_end (self);
    if (self->fd >= 0)
        write_some (self);
}

/* ---- for the owner --------------------------------------------------------------------------- */

wm_link_t *wm_link_new (wm_loop_t *loop, const char *endpoint, const char *join_file,
                        const wm_region_t *region, const wm_link_calls_t *calls, void *argument)
{
    wm_link_t *self = zmalloc (sizeof *self);
    *self = (wm_link_t){
        .loop = loop, .calls = *calls, .argument = argument, .region = region, .fd = -1
    };
    self->endpoint = strdup (endpoint);
    self->join_file = join_file ? strdup (join_file) : NULL;
    start (self);
    return self;
}

void wm_link_destroy (wm_link_t **self_p)
{
    wm_link_t *self = *self_p;
    if (!self)
        return;
    self->has_failed = true; /* it is not started again */
    life_end (self);
    wm_loop_untimer (&self->again);
    wm_respawn_reap_now (&self->starter);
    free (self->by_number.slot);
    free (self->base);
    free (self->endpoint);
    free (self->join_file);
    free (self);
    *self_p = NULL;
}

void wm_link_send (wm_link_t *self, wm_link_batch_t *batch, const float *value, uint32_t n,
                   size_t n_value)
{
    *batch = (wm_link_batch_t){ .prev = self->last, .value = value, .body = value };
    batch->frame = (wm_library_frame_t){ .type = WM_LIBRARY_BATCH,
                                         .n = n,
                                         .number = ++self->last_number,
                                         .bytes = (uint64_t) n * n_value * sizeof (float) };
    if (wm_region_place (self->region, value, &batch->place)) {
        batch->frame.type = WM_LIBRARY_SHARED;
        batch->frame.bytes = sizeof batch->place;
        batch->body = &batch->place;
    }
    if (wm_table_reserve (&self->by_number))
        abort (); /* as zmalloc without memory */
    wm_table_put (&self->by_number, wm_table_mix (batch->frame.number), batch);
    *(self->last ? &self->last->next : &self->first) = batch;
    self->last = batch;
    if (!self->next)
        self->next = batch;
    if (self->fd >= 0)
        write_some (self);
}

bool wm_link_take_back (wm_link_t *self, wm_link_batch_t *batch)
{
    bool is_written = true; /* those before `next` are */
    for (const wm_link_batch_t *one = self->next; one && is_written; one = one->next)
        is_written = one != batch;
    if (is_written || (batch == self->next && self->written))
        return false;
    unlink_batch (self, batch);
    return true;
}
