/* wm_grpc.c - connections of the gRPC server: sockets on one side, nghttp2 on the other.

   Nothing is read from a connection while more than OUT_BYTES_MAX wait to be sent to it: answers
   do not pile up if a client does not read. A connection that leaves refusals of
   its calls unread is ended. Limits of nghttp2 end connections that flood it with SETTINGS, PING,
   RST_STREAM or CONTINUATION.  */
#include "producer/gateway/wm_grpc_private.h"
#include "schema/base/wm_h1.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define IN_BYTES (256u << 10)      /* read at once */
#define READS_MAX 4                /* ... before other connections have their turn */
#define OUT_BYTES_MAX (256u << 10) /* waiting in a connection's buffer */
#define OUT_BYTES_KEPT (16u << 10) /* by a connection to which nothing waits to be sent */
#define SEND_BYTES (4u << 20)      /* sent before other connections have their turn */
#define CONN_BYTES (64u << 10)     /* what a connection takes, with nghttp2's and TLS's */
#define STREAMS_MAX 1024           /* of a connection */
#define REFUSED_MAX 32             /* ... whose refusal it does not read */
#define FRAME_BYTES_MAX (1 << 18)
#define RESET_BURST 1000 /* streams a client may cancel at once, and then a second */
#define RESET_RATE 200
#define ACKS_MAX 1000
#define SWEEP_US 1000000
#define LINGER_US 2000000 /* as over HTTP: an answer may be lost where a connection is reset */
#define LINGER_BYTES_MAX (64u << 20)
#define GREETING_US 10000000 /* a connection that has not spoken HTTP/2 by then is closed, */
                             /* as is one in the middle of a request's headers */

/* ---- the end of a connection ----------------------------------------------------------------- */

static void free_conn (void *argument)
{
    wm_conn_t *self = argument;
    nghttp2_session_del (self->session);
    free (self->out.data);
    free (self);
}

/* Closes it; the memory is freed later, when no callback of nghttp2 is under way.  */
static void kill_conn (wm_conn_t *self)
{
    if (self->is_dead)
        return;
    self->is_dead = true;
    wm_idle_leave (&self->idle);
    while (self->calls) {
        wm_call_t *call = self->calls;
        wm_call_destroy (&call);
    }
    wm_loop_unwatch (&self->watch);
    wm_io_close (&self->io);
    *(self->before ? &self->before->next : &self->grpc->conns) = self->next;
    if (self->next)
        self->next->before = self->before;
    self->grpc->n_conns--;
    wm_front_leave (self->grpc->front, WM_FRONT_GRPC, &self->share, CONN_BYTES + self->extra);
    wm_loop_later (self->grpc->front->loop, free_conn, self);
}

/* ---- sending --------------------------------------------------------------------------------- */

static size_t waiting (const wm_conn_t *self)
{
    return self->out.bytes - self->sent;
}

static void watch_for (wm_conn_t *self)
{
    uint32_t events = waiting (self) < OUT_BYTES_MAX ? EPOLLIN : 0;
    if ((waiting (self) && !self->io.wants_read) || self->io.wants_write)
        events |= EPOLLOUT;
    wm_loop_change (self->watch, events);
}

/* Takes from nghttp2 what it has to send, up to a buffer. False: the connection is of no use.  */
static bool fill_out (wm_conn_t *self)
{
    if (self->sent == self->out.bytes)
        self->sent = self->out.bytes = 0;
    while (waiting (self) < OUT_BYTES_MAX) {
        const uint8_t *data;
        const ssize_t n = nghttp2_session_mem_send (self->session, &data);
        if (n < 0)
            return false;
        if (n == 0)
            break;
        wm_buffer_put (&self->out, data, (size_t) n);
    }
    return true;
}

/* Counts what its buffer takes beside CONN_BYTES.  */
static void count_out (wm_conn_t *self)
{
    const size_t extra = self->out.max > OUT_BYTES_KEPT ? self->out.max - OUT_BYTES_KEPT : 0;
    if (extra != self->extra)
        wm_budget_set_aside (self->grpc->front->budget, extra - self->extra);
    self->extra = extra;
}

/* False: the connection has ended, or is of no use.  */
static bool flush (wm_conn_t *self)
{
    const int64_t now_us = wm_loop_now_us (self->grpc->front->loop);
    size_t all = 0;
    while (fill_out (self) && waiting (self)) {
        count_out (self);
        if (all >= SEND_BYTES)
            return true;
        const ssize_t n = wm_io_write (&self->io, self->out.data + self->sent, waiting (self));
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        all += (size_t) n;
        self->sent += (size_t) n;
        self->moved_us = now_us;
    }
    if (!waiting (self) && self->out.max > OUT_BYTES_KEPT) {
        free (self->out.data);
        self->out = (wm_buffer_t){ 0 };
        self->sent = 0;
        count_out (self);
    }
    return !waiting (self);
}

static void send_out (void *argument)
{
    wm_conn_t *self = argument;
    self->is_marked = false;
    if (self->is_dead || self->lingers)
        return;
    if (self->grpc->is_draining && !self->calls && !self->is_drained &&
        (self->is_refusing || (self->is_greeted && wm_io_is_quiet (&self->io)))) {
        /* A new one has until the next sweep.  */
        self->is_drained = true;
        nghttp2_session_terminate_session (self->session, NGHTTP2_NO_ERROR);
    }
    bool goes_on = flush (self);
    if (goes_on && !waiting (self) && !nghttp2_session_want_read (self->session) &&
        !nghttp2_session_want_write (self->session)) {
        self->lingers = true;
        self->moved_us = wm_loop_now_us (self->grpc->front->loop);
        goes_on = wm_io_end (&self->io);
    }
    if (!goes_on || (waiting (self) && self->n_refused > REFUSED_MAX))
        kill_conn (self);
    else
        watch_for (self);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Lets a client that speaks without TLS know that it should, be it by HTTP/2 or by HTTP/1.1. What
   has come is read: else the kernel would reset the connection, and drop the answer.  */
static void refuse_plain (wm_conn_t *self)
{
    static const char why[] = "this port speaks TLS, and the call has come without: use https\n";
    static const wm_h1_t of_none;
    char to[WM_H1_ANSWER_BYTES + sizeof why];
    wm_io_unseal (&self->io);
    const ssize_t n = wm_io_read (&self->io, self->grpc->in, IN_BYTES);
    if (n >= 3 && memcmp (self->grpc->in, "PRI", 3) == 0) {
        nghttp2_submit_goaway (self->session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_INADEQUATE_SECURITY,
                               (const uint8_t *) why, sizeof why - 2);
        flush (self);
    } else {
        const size_t head = wm_h1_answer (&of_none, to, 400, sizeof why - 1, false,
                                          "Content-Type: text/plain; charset=utf-8\r\n");
        memcpy (to + head, why, sizeof why);
        (void) wm_io_write (&self->io, to, head + sizeof why - 1);
    }
    wm_io_end (&self->io);
}

/* False: the connection has ended.  */
static bool receive (wm_conn_t *self)
{
    for (int i = 0; (i < READS_MAX || wm_io_has_more (&self->io)) && !self->is_dead; i++) {
        const ssize_t n = wm_io_read (&self->io, self->grpc->in, IN_BYTES);
        if (n == 0)
            return false;
        if (n < 0 && errno == EPROTO) {
            refuse_plain (self);
            return false;
        }
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        self->is_greeted = true;
        if (nghttp2_session_mem_recv (self->session, self->grpc->in, (size_t) n) < 0)
            return false;
        if ((size_t) n < IN_BYTES && !self->io.ssl)
            break;
    }
    return true;
}

/* Drops what comes. False: the connection has ended.  */
static bool drop (wm_conn_t *self)
{
    const ssize_t n = wm_io_read (&self->io, self->grpc->in, IN_BYTES);
    self->dropped += n > 0 ? (size_t) n : 0;
    return (n > 0 && self->dropped < LINGER_BYTES_MAX) ||
           (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void on_ready (void *argument, uint32_t events)
{
    wm_conn_t *self = argument;
    if (self->lingers) {
        if (!drop (self))
            kill_conn (self);
        return;
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR) || self->io.wants_write) && !receive (self)) {
        flush (self); /* a GOAWAY that says why */
        kill_conn (self);
        return;
    }
    wm_conn_mark (self);
}

/* ---- callbacks of nghttp2 -------------------------------------------------------------------- */

static int on_begin_headers (nghttp2_session *session, const nghttp2_frame *frame, void *argument)
{
    wm_conn_t *self = argument;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        nghttp2_session_set_stream_user_data (session, frame->hd.stream_id,
                                              wm_call_new (self, frame->hd.stream_id));
    return 0;
}

static int on_header (nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                      size_t n_name, const uint8_t *value, size_t n_value, uint8_t flags,
                      void *argument)
{
    (void) flags;
    (void) argument;
    wm_call_t *call = nghttp2_session_get_stream_user_data (session, frame->hd.stream_id);
    if (call && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        wm_call_header (call, (const char *) name, n_name, (const char *) value, n_value);
    return 0;
}

static int on_frame (nghttp2_session *session, const nghttp2_frame *frame, void *argument)
{
    (void) argument;
    wm_call_t *call = nghttp2_session_get_stream_user_data (session, frame->hd.stream_id);
    if (!call || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        wm_call_begin (call);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        wm_call_end (call);
    return 0;
}

static int on_sent (nghttp2_session *session, const nghttp2_frame *frame, void *argument)
{
    (void) argument;
    wm_call_t *call = nghttp2_session_get_stream_user_data (session, frame->hd.stream_id);
    if (call && frame->hd.type == NGHTTP2_HEADERS && frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        wm_call_sent (call);
    return 0;
}

static int on_data (nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
                    size_t bytes, void *argument)
{
    (void) flags;
    (void) argument;
    wm_call_t *call = nghttp2_session_get_stream_user_data (session, stream);
    if (call)
        wm_call_data (call, data, bytes);
    else
        nghttp2_session_consume (session, stream, bytes);
    return 0;
}

static int on_close (nghttp2_session *session, int32_t stream, uint32_t code, void *argument)
{
    (void) code;
    wm_conn_t *self = argument;
    wm_call_t *call = nghttp2_session_get_stream_user_data (session, stream);
    wm_call_destroy (&call);
    wm_conn_mark (self);
    return 0;
}

static void set_callbacks (nghttp2_session_callbacks *c)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback (c, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback (c, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback (c, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback (c, on_sent);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback (c, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback (c, on_close);
}

/* ---- the server ------------------------------------------------------------------------------ */

static void greet (wm_conn_t *self)
{
    const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_MAX },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WM_FRONT_WINDOW_BYTES },
        { NGHTTP2_SETTINGS_MAX_FRAME_SIZE, FRAME_BYTES_MAX },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 16384 },
    };
    nghttp2_submit_settings (self->session, NGHTTP2_FLAG_NONE, settings,
                             sizeof settings / sizeof settings[0]);
    nghttp2_session_set_local_window_size (self->session, NGHTTP2_FLAG_NONE, 0,
                                           WM_GRPC_WINDOW_BYTES);
    wm_conn_mark (self);
}

/* Closes a connection without calls. Its client sends again what may be on its way.  */
static void spare (wm_conn_t *self)
{
    nghttp2_session_terminate_session (self->session, NGHTTP2_NO_ERROR);
    flush (self);
    kill_conn (self);
}

static bool is_spare (const void *owner)
{
    const wm_conn_t *self = owner;
    return !waiting (self) && wm_io_is_quiet (&self->io);
}

static bool spare_conn (void *argument, bool closes)
{
    wm_grpc_t *self = argument;
    wm_conn_t *found = wm_idle_oldest (&self->idle, is_spare);
    if (found && closes)
        spare (found);
    return found;
}

static void open_conn (void *argument, int fd, const char *peer)
{
    wm_grpc_t *self = argument;
    wm_conn_t *conn = calloc (1, sizeof *conn);
    assert (conn);
    conn->grpc = self;
    if (!wm_io_open (&conn->io, fd, self->tls)) {
        free (conn);
        return;
    }
    conn->number = ++self->front->clients;
    conn->moved_us = wm_loop_now_us (self->front->loop);
    snprintf (conn->peer, sizeof conn->peer, "%s", peer);
    conn->watch = wm_loop_watch (self->front->loop, fd, EPOLLIN, on_ready, conn);
    if (!conn->watch ||
        nghttp2_session_server_new2 (&conn->session, self->callbacks, conn, self->option)) {
        wm_loop_unwatch (&conn->watch);
        wm_io_close (&conn->io);
        free (conn);
        return;
    }
    conn->next = self->conns;
    if (conn->next)
        conn->next->before = conn;
    self->conns = conn;
    wm_idle_enter (&self->idle, &conn->idle, conn);
    self->n_conns++;
    wm_front_enter (self->front, WM_FRONT_GRPC, &conn->share, peer, CONN_BYTES);
    greet (conn);
}

/* The client learns that it should go, and has until the next sweep for what is on its way.  */
static void warn (wm_conn_t *self)
{
    self->is_warned = true;
    nghttp2_submit_shutdown_notice (self->session);
    wm_conn_mark (self);
}

/* From now on new streams are ignored, and new messages in those that are open: what came until now
   is read first.  */
static void refuse (wm_conn_t *self)
{
    if (!receive (self)) {
        flush (self);
        kill_conn (self);
        return;
    }
    for (wm_call_t *call = self->calls; call; call = call->next)
        wm_call_close (call);
    self->is_refusing = true;
    nghttp2_submit_goaway (self->session, NGHTTP2_FLAG_NONE,
                           nghttp2_session_get_last_proc_stream_id (self->session),
                           NGHTTP2_NO_ERROR, NULL, 0);
    wm_conn_mark (self);
}

/* Ends connections that have stopped in the middle of something.  */
static void sweep (void *argument)
{
    wm_grpc_t *self = argument;
    const int64_t now_us = wm_loop_now_us (self->front->loop);
    for (wm_conn_t *conn = self->conns, *next; conn; conn = next) {
        next = conn->next;
        bool is_cut = false;
        for (wm_call_t *call = conn->calls, *after; call; call = after) {
            after = call->next;
            is_cut |= !call->method && !call->is_done && now_us - call->begun_us > GREETING_US;
            wm_call_sweep (call, now_us);
        }
        if (self->is_draining && !conn->is_warned)
            warn (conn);
        else if (self->is_draining && !conn->is_refusing && !conn->lingers)
            refuse (conn);
        const int64_t still_us = now_us - conn->moved_us;
        if (!conn->is_dead &&
            (is_cut || (waiting (conn) && still_us > WM_FRONT_STALL_US) ||
             (conn->lingers && still_us > LINGER_US) ||
             (!conn->is_greeted && still_us > GREETING_US && wm_io_is_quiet (&conn->io))))
            kill_conn (conn);
    }
    self->sweep = wm_loop_timer (self->front->loop, now_us + SWEEP_US, sweep, self);
}

wm_grpc_t *wm_grpc_new (wm_front_t *front, int listener, wm_tls_t *tls,
                        const wm_grpc_methods_t *methods)
{
    static const wm_acceptor_how_t how = { WM_FRONT_GRPC, CONN_BYTES, open_conn, spare_conn };
    wm_grpc_t *self = calloc (1, sizeof *self);
    assert (self);
    *self = (wm_grpc_t){ .front = front, .methods = methods, .send_out = send_out, .tls = tls };
    if (nghttp2_session_callbacks_new (&self->callbacks) || nghttp2_option_new (&self->option) ||
        !(self->in = malloc (IN_BYTES)))
        abort ();
    set_callbacks (self->callbacks);
    nghttp2_option_set_no_auto_window_update (self->option, 1);
    nghttp2_option_set_no_closed_streams (self->option, 1);
    nghttp2_option_set_max_outbound_ack (self->option, ACKS_MAX);
    nghttp2_option_set_stream_reset_rate_limit (self->option, RESET_BURST, RESET_RATE);
    nghttp2_option_set_max_send_header_block_length (self->option, 64 << 10);
    self->sweep = wm_loop_timer (front->loop, wm_loop_now_us (front->loop) + SWEEP_US, sweep, self);
    self->acceptor = wm_acceptor_new (front, &how, listener, self);
    return self;
}

bool wm_grpc_begin (wm_grpc_t *self)
{
    return wm_acceptor_begin (self->acceptor);
}

void wm_grpc_drain (wm_grpc_t *self)
{
    self->is_draining = true;
    wm_loop_untimer (&self->sweep); /* what was warned now has until the next one */
    self->sweep = wm_loop_timer (self->front->loop, wm_loop_now_us (self->front->loop) + SWEEP_US,
                                 sweep, self);
    wm_acceptor_drain (&self->acceptor);
    for (wm_conn_t *conn = self->conns; conn; conn = conn->next) {
        conn->is_warned = true;
        if (conn->calls)
            nghttp2_submit_shutdown_notice (conn->session);
        wm_conn_mark (conn);
    }
}

size_t wm_grpc_open (const wm_grpc_t *self)
{
    return self->n_conns + (self->acceptor != NULL);
}

void wm_grpc_destroy (wm_grpc_t **self_p)
{
    wm_grpc_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    wm_acceptor_destroy (&self->acceptor);
    wm_loop_untimer (&self->sweep);
    while (self->conns)
        kill_conn (self->conns);
    nghttp2_session_callbacks_del (self->callbacks);
    nghttp2_option_del (self->option);
    free (self->in);
    free (self);
}
