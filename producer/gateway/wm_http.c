/* wm_http.c - libmicrohttpd in the loop: requests are received, wait, and are answered.

   libmicrohttpd has an epoll descriptor, which the loop watches, and tells by MHD_get_timeout when
   it wants to be called again. It does not see that the client of a suspended connection goes away:
   the loop watches that descriptor too.  */
#include "producer/gateway/wm_http_private.h"
#include "producer/gateway/wm_linger.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define POOL_BYTES                                                                                 \
    (128u << 10)  /* libmicrohttpd's, of a connection: headers, then pieces of a body */
#define IDLE_S 60 /* a connection without a byte is closed */
#define DEFLATE_BYTES_MIN 1024 /* scores are compressed from here */
#define SWEEP_US 1000000
#define PEM_BYTES_MAX (256u << 10)
#define LINGER_TIMES 4 /* of the largest request: so much of one that is refused is read */

struct wm_http_t {
    wm_front_t *front;
    struct MHD_Daemon *daemon;
    wm_lingers_t *lingers;
    int listener, epoll;
    wm_watch_t *watch;
    wm_timer_t *timer, *sweep;
    wm_visit_t *visits;
    size_t n_visit;
    bool is_marked, is_draining;
    char *certificate, *key;
};

wm_front_t *wm_visit_front (const wm_visit_t *self)
{
    return self->http->front;
}

/* ---- libmicrohttpd in the loop --------------------------------------------------------------- */

static void run (wm_http_t *self);

static void on_due (void *argument)
{
    wm_http_t *self = argument;
    self->timer = NULL;
    run (self);
}

static void run (wm_http_t *self)
{
    MHD_UNSIGNED_LONG_LONG left_ms;
    self->is_marked = false;
    MHD_run (self->daemon);
    wm_loop_untimer (&self->timer);
    const int64_t now_us = wm_loop_now_us (self->front->loop);
    /* A timer that is due already would be called in this round, again and again while
       libmicrohttpd has a connection that waits for what the loop does besides.  */
    if (MHD_get_timeout (self->daemon, &left_ms) == MHD_YES)
        self->timer =
            wm_loop_timer (self->front->loop, now_us + (int64_t) left_ms * 1000 + 1, on_due, self);
}

static void on_ready (void *argument, uint32_t events)
{
    (void) events;
    run (argument);
}

static void run_later (void *argument)
{
    wm_http_t *self = argument;
    if (self->is_marked && self->daemon)
        run (self);
}

static void mark (wm_http_t *self)
{
    if (!self->is_marked)
        wm_loop_later (self->front->loop, run_later, self);
    self->is_marked = true;
}

/* ---- suspended requests ---------------------------------------------------------------------- */

static int fd_of (const wm_visit_t *self)
{
    return MHD_get_connection_info (self->connection, MHD_CONNECTION_INFO_CONNECTION_FD)
        ->connect_fd;
}

static void resume (wm_visit_t *self)
{
    wm_loop_unwatch (&self->watch);
    if (!self->is_suspended)
        return;
    self->is_suspended = false;
    MHD_resume_connection (self->connection);
    mark (self->http);
}

static void on_gone (void *argument, uint32_t events)
{
    (void) events;
    const wm_ks_error_t error = { WM_KS_CANCELLED, "the client has closed the connection" };
    wm_visit_fail (argument, &error);
}

static void suspend (wm_visit_t *self)
{
    if (self->is_suspended)
        return;
    self->is_suspended = true;
    MHD_suspend_connection (self->connection);
    self->watch = wm_loop_watch (self->http->front->loop, fd_of (self), EPOLLRDHUP, on_gone, self);
}

static void on_held (void *argument)
{
    wm_visit_t *self = argument;
    self->moves_us = wm_loop_now_us (self->http->front->loop);
    self->moves_before = self->bytes;
    resume (self);
}

bool wm_visit_hold (wm_visit_t *self, size_t bytes, wm_due_t *granted)
{
    if (bytes <= self->hold.bytes || wm_hold_take (self->http->front->budget, &self->hold,
                                                   &self->web->share, bytes, granted, self))
        return true;
    suspend (self);
    return false;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Whether a list of codings has this one, and not with the weight 0.  */
static bool takes (const char *list, const char *coding)
{
    const size_t n = strlen (coding);
    for (const char *at = list; *at; at += strcspn (at, ",")) {
        at += strspn (at, ", \t");
        if (strcspn (at, ",; \t") != n || strncasecmp (at, coding, n) != 0)
            continue;
        at += n + strspn (at + n, "; \t");
        if (strncasecmp (at, "q=0", 3) != 0)
            return true;
        const char *rest = at + 3 + strspn (at + 3, ".0");
        return *rest >= '1' && *rest <= '9';
    }
    return false;
}

/* How the client wants the page compressed; NULL: not. Triton compresses scores alone, and clients
   rely on that: tritonclient.http.aio asks for gzip always, and inflates scores only.  */
static const char *accepted (const wm_visit_t *self, const wm_page_t *page)
{
    const char *accepts = MHD_lookup_connection_value (self->connection, MHD_HEADER_KIND,
                                                       MHD_HTTP_HEADER_ACCEPT_ENCODING);
    if (!accepts || !page->is_scores || page->bytes < DEFLATE_BYTES_MIN)
        return NULL;
    return takes (accepts, "gzip") ? "gzip" : takes (accepts, "deflate") ? "deflate" : NULL;
}

/* What the request had and has begun is over.  */
static void end_work (wm_visit_t *self)
{
    wm_visit_cancel (self);
    wm_loop_untimer (&self->timer);
    wm_zip_destroy (&self->zip);
    wm_slice_end (&self->slice);
    wm_infer_free (&self->infer);
    free (self->written.to.data);
    self->written.to = (wm_buffer_t){ 0 };
    free (self->page.data);
    self->page.data = NULL;
    free (self->body);
    self->body = NULL;
}

/* Hands an answer to libmicrohttpd, which frees its data. encoding: NULL or that of the data.  */
static void send_page (wm_visit_t *self, const wm_page_t *page, const char *encoding)
{
    self->is_answered = true;
    self->bytes_out = page->bytes;
    self->moves_us = wm_loop_now_us (self->http->front->loop);
    wm_hold_set (self->http->front->budget, &self->hold, &self->web->share,
                 page->bytes + WM_FRONT_REQUEST_BYTES);
    struct MHD_Response *response =
        MHD_create_response_from_buffer (page->bytes, page->data, MHD_RESPMEM_MUST_FREE);
    assert (response);
    MHD_add_response_header (response, MHD_HTTP_HEADER_CONTENT_TYPE, page->type);
    if (encoding)
        MHD_add_response_header (response, MHD_HTTP_HEADER_CONTENT_ENCODING, encoding);
    if (page->header)
        MHD_add_response_header (response, page->header, page->value);
    if (self->http->is_draining)
        MHD_add_response_header (response, MHD_HTTP_HEADER_CONNECTION, "close");
    MHD_queue_response (self->connection, page->status, response);
    MHD_destroy_response (response);
    resume (self);
}

static void on_compressed (void *argument, wm_zip_state_t state)
{
    wm_visit_t *self = argument;
    wm_page_t page = self->page;
    assert (state == WM_ZIP_DONE);
    page.bytes = wm_zip_bytes (self->zip);
    page.data = wm_zip_take (self->zip);
    end_work (self);
    send_page (self, &page, accepted (self, &self->page));
}

void wm_visit_page (wm_visit_t *self, const wm_page_t *page)
{
    const char *encoding = accepted (self, page);
    end_work (self);
    if (!encoding) {
        send_page (self, page, NULL);
        return;
    }
    self->page = *page;
    wm_hold_set (self->http->front->budget, &self->hold, &self->web->share,
                 2 * page->bytes + WM_DEFLATE_STATE_BYTES);
    self->zip = wm_deflate_new (self->http->front->slices, page->data, page->bytes,
                                *encoding == 'g', on_compressed, self);
}

void wm_visit_json (wm_visit_t *self, unsigned status, json_t *json)
{
    char *text = json ? json_dumps (json, JSON_COMPACT) : strdup ("");
    assert (text);
    json_decref (json);
    const wm_page_t page = { .status = status,
                             .type = "application/json",
                             .data = (uint8_t *) text,
                             .bytes = strlen (text) };
    wm_visit_page (self, &page);
}

void wm_visit_fail (wm_visit_t *self, const wm_ks_error_t *error)
{
    static const unsigned status[WM_KS_CODES] = {
        [WM_KS_OK] = 200,          [WM_KS_INVALID] = 400,       [WM_KS_NOT_FOUND] = 404,
        [WM_KS_UNAVAILABLE] = 503, [WM_KS_DEADLINE] = 504,      [WM_KS_CANCELLED] = 499,
        [WM_KS_EXHAUSTED] = 413,   [WM_KS_UNIMPLEMENTED] = 501, [WM_KS_INTERNAL] = 500,
    };
    self->code = error->code;
    json_t *text = json_string (error->text);
    wm_visit_json (self, status[error->code],
                   json_pack ("{s:o}", "error", text ? text : json_string ("no reason is known")));
}

/* ---- receiving ------------------------------------------------------------------------------- */

static const char *header (const wm_visit_t *self, const char *name)
{
    return MHD_lookup_connection_value (self->connection, MHD_HEADER_KIND, name);
}

static void too_large (wm_visit_t *self)
{
    wm_ks_error_t error;
    wm_ks_fail (&error, WM_KS_EXHAUSTED,
                "the request is larger than this server's limit, %zu bytes (--max-message), or "
                "inflates to much more than it is",
                self->http->front->message_max);
    wm_visit_fail (self, &error);
}

/* The headers are there. Memory is taken when the body comes: libmicrohttpd 0.9.75 calls again with
   nothing, as at the end of a body, where this call has suspended the connection.  */
static void begin (wm_visit_t *self)
{
    const size_t max = self->http->front->message_max;
    const char *length = header (self, MHD_HTTP_HEADER_CONTENT_LENGTH),
               *encoding = header (self, MHD_HTTP_HEADER_CONTENT_ENCODING);
    const wm_ks_error_t unknown = { WM_KS_UNIMPLEMENTED,
                                    "requests may be compressed by gzip or deflate only" };
    const unsigned long long bytes = length ? strtoull (length, NULL, 10) : 0;
    self->encoding = encoding && strcmp (encoding, "identity") != 0 ? encoding : NULL;
    self->extra = WM_FRONT_REQUEST_BYTES + (self->encoding ? WM_INFLATE_STATE_BYTES : 0);
    if (self->encoding && strcmp (encoding, "gzip") != 0 && strcmp (encoding, "deflate") != 0)
        wm_visit_fail (self, &unknown);
    else if (bytes > max)
        too_large (self);
    else
        self->announced = (size_t) bytes;
    if (self->is_answered) /* libmicrohttpd will close the connection; the client may be sending */
        wm_linger (self->http->lingers, fd_of (self), LINGER_TIMES * max);
}

/* Copies a piece of the body. False: it waits for memory, which a body without a length takes as it
   grows. Of one that is too large the rest is dropped: its answer can be given at its end only.  */
static bool add_body (wm_visit_t *self, const char *data, size_t bytes)
{
    const size_t all = self->bytes + bytes, max = self->http->front->message_max;
    if (all > max) {
        self->is_too_large = true;
        self->dropped += bytes;
        if (self->dropped > max)
            shutdown (fd_of (self), SHUT_RDWR);
        return true;
    }
    if (all > self->body_max) {
        const size_t twice = 2 * all < max ? 2 * all : max;
        const size_t room = all <= self->announced ? self->announced : twice;
        if (!wm_visit_hold (self, room + self->extra, on_held))
            return false;
        self->body_max = room;
        self->body = realloc (self->body, room);
        assert (self->body);
    }
    memcpy (self->body + self->bytes, data, bytes);
    self->bytes = all;
    return true;
}

static void damaged (wm_visit_t *self)
{
    const wm_ks_error_t error = { WM_KS_INVALID, "the compressed request is damaged" };
    wm_visit_fail (self, &error);
}

static void inflate_now (void *argument)
{
    wm_visit_t *self = argument;
    wm_zip_go (self->zip);
}

static void on_inflated (void *argument, wm_zip_state_t state)
{
    wm_visit_t *self = argument;
    const size_t bytes = wm_zip_bytes (self->zip);
    if (state == WM_ZIP_TOO_LARGE)
        too_large (self);
    else if (state == WM_ZIP_DAMAGED)
        damaged (self);
    else if (state == WM_ZIP_COUNTED) {
        if (wm_visit_hold (self, self->hold.bytes + bytes, inflate_now))
            inflate_now (self);
    } else {
        free (self->body);
        self->body = wm_zip_take (self->zip);
        self->bytes = bytes;
        wm_zip_destroy (&self->zip);
        wm_hold_set (self->http->front->budget, &self->hold, &self->web->share,
                     bytes + WM_FRONT_REQUEST_BYTES);
        wm_visit_route (self);
    }
}

/* All of the body is there.  */
static void end (wm_visit_t *self)
{
    wm_front_t *front = self->http->front;
    self->is_whole = true;
    if (self->is_too_large)
        too_large (self);
    else if (self->encoding && self->bytes)
        self->zip =
            wm_inflate_new (front->slices, self->body, self->bytes,
                            wm_inflate_max (self->bytes, front->message_max), on_inflated, self);
    else
        wm_visit_route (self);
    if (!self->is_answered)
        suspend (self);
}

static wm_visit_t *visit_new (wm_http_t *http, struct MHD_Connection *connection, const char *url,
                              const char *method)
{
    wm_visit_t *self = calloc (1, sizeof *self);
    const size_t n = strlen (method);
    assert (self);
    self->http = http;
    self->connection = connection;
    self->web =
        MHD_get_connection_info (connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    self->begun_us = self->moves_us = wm_loop_now_us (http->front->loop);
    self->is_post = strcmp (method, MHD_HTTP_METHOD_POST) == 0;
    self->line = malloc (n + strlen (url) + 2);
    assert (self->line);
    sprintf (self->line, "%s %s", method, url);
    self->path = self->line + n + 1;
    self->next = http->visits;
    if (self->next)
        self->next->before = self;
    http->visits = self;
    http->n_visit++;
    return self;
}

static enum MHD_Result on_request (void *argument, struct MHD_Connection *connection,
                                   const char *url, const char *method, const char *version,
                                   const char *data, size_t *bytes, void **slot)
{
    wm_http_t *self = argument;
    wm_visit_t *visit = *slot;
    (void) version;
    if (!visit) {
        *slot = visit = visit_new (self, connection, url, method);
        begin (visit);
    } else if (visit->is_answered)
        *bytes = 0; /* what is still sent is of no use */
    else if (*bytes) {
        if (add_body (visit, data, *bytes))
            *bytes = 0;
    } else if (!visit->is_whole)
        end (visit);
    return MHD_YES;
}

/* The answer is sent, or the connection has ended.  */
static void on_completed (void *argument, struct MHD_Connection *connection, void **slot,
                          enum MHD_RequestTerminationCode code)
{
    wm_http_t *http = argument;
    wm_visit_t *self = *slot;
    (void) connection;
    if (!self)
        return;
    *slot = NULL;
    const bool is_fine = self->is_answered && code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    const wm_front_line_t line = {
        .kind = WM_FRONT_HTTP,
        .peer = self->web->peer,
        .method = self->line,
        .model = self->model,
        .code = is_fine || self->code ? self->code : WM_KS_CANCELLED,
        .bytes_in = self->bytes,
        .bytes_out = self->bytes_out,
        .begun_us = self->begun_us,
    };
    wm_front_answered (http->front, &line);
    end_work (self);
    wm_loop_unwatch (&self->watch);
    wm_hold_give (http->front->budget, &self->hold);
    *(self->before ? &self->before->next : &http->visits) = self->next;
    if (self->next)
        self->next->before = self->before;
    http->n_visit--;
    free (self->line);
    free (self);
}

static enum MHD_Result may_connect (void *argument, const struct sockaddr *from, socklen_t bytes)
{
    wm_http_t *self = argument;
    char peer[WM_ADDRESS_BYTES];
    (void) bytes;
    wm_io_address (from, peer);
    return wm_addresses_admit (self->front->addresses, peer) ? MHD_YES : MHD_NO;
}

static void on_connection (void *argument, struct MHD_Connection *connection, void **slot,
                           enum MHD_ConnectionNotificationCode code)
{
    wm_http_t *self = argument;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        self->front->connections[WM_FRONT_HTTP]--;
        wm_addresses_leave (self->front->addresses, &((wm_web_t *) *slot)->share.address);
        free (*slot);
        return;
    }
    wm_web_t *web = calloc (1, sizeof *web);
    assert (web);
    const struct sockaddr *from =
        MHD_get_connection_info (connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    wm_io_address (from, web->peer);
    web->number = ++self->front->clients;
    web->share.address = wm_addresses_enter (self->front->addresses, web->peer);
    self->front->connections[WM_FRONT_HTTP]++;
    *slot = web;
}

/* Whether the client has closed its side: libmicrohttpd 0.9.75 does not see it where the end has
   come together with the last bytes.  */
static bool is_gone (const wm_visit_t *self)
{
    char byte;
    return recv (fd_of (self), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Cuts off who is gone, and who sends or takes too slowly to hold memory.  */
static void sweep (void *argument)
{
    wm_http_t *self = argument;
    const int64_t now_us = wm_loop_now_us (self->front->loop);
    for (wm_visit_t *visit = self->visits; visit; visit = visit->next) {
        const size_t sent = visit->bytes + visit->dropped - visit->moves_before;
        const size_t bytes = visit->is_answered ? visit->bytes_out : sent;
        const bool arrives = !visit->is_answered && !visit->is_whole;
        if (!visit->is_suspended && (visit->is_answered || arrives) &&
            ((arrives && is_gone (visit)) || wm_front_is_slow (now_us - visit->moves_us, bytes)))
            shutdown (fd_of (visit), SHUT_RDWR);
    }
    self->sweep = wm_loop_timer (self->front->loop, now_us + SWEEP_US, sweep, self);
}

/* ---- the server ------------------------------------------------------------------------------ */

/* Reads a file of certificates; the caller's. NULL with *error.  */
static char *read_text (const char *path, wm_error_t *error)
{
    char *text = calloc (1, PEM_BYTES_MAX + 1);
    FILE *from = fopen (path, "re");
    assert (text);
    const size_t n = from ? fread (text, 1, PEM_BYTES_MAX, from) : 0;
    if (!n) {
        wm_fault (error, WM_EUSAGE, "%.200s cannot be read: %s", path,
                  from ? "it is empty" : strerror (errno));
        free (text);
        text = NULL;
    }
    if (from)
        fclose (from);
    return text;
}

static void start (wm_http_t *self, const wm_http_tls_t *tls)
{
    const struct MHD_OptionItem secure[] = {
        { MHD_OPTION_HTTPS_MEM_CERT, 0, self->certificate },
        { MHD_OPTION_HTTPS_MEM_KEY, 0, self->key },
        { MHD_OPTION_END, 0, NULL },
    };
    const unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (tls ? MHD_USE_TLS : 0);
    self->daemon = MHD_start_daemon (
        flags, 0, may_connect, self, on_request, self, MHD_OPTION_LISTEN_SOCKET, self->listener,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, self, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, self, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) POOL_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned) IDLE_S, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned) self->front->connections_max, MHD_OPTION_ARRAY, tls ? secure : &secure[2],
        MHD_OPTION_END);
}

wm_http_t *wm_http_new (wm_front_t *front, int listener, const wm_http_tls_t *tls,
                        wm_error_t *error)
{
    wm_http_t *self = calloc (1, sizeof *self);
    assert (self);
    *self = (wm_http_t){ .front = front, .listener = listener };
    self->lingers = wm_lingers_new (front->loop);
    if (!tls || ((self->certificate = read_text (tls->certificate, error)) &&
                 (self->key = read_text (tls->key, error)))) {
        start (self, tls);
        if (!self->daemon)
            wm_fault (error, WM_EHOST, "cannot serve HTTP%s",
                      tls ? " with this certificate and key" : "");
    }
    if (self->daemon) {
        self->epoll = MHD_get_daemon_info (self->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
        self->watch = wm_loop_watch (front->loop, self->epoll, EPOLLIN, on_ready, self);
        self->sweep =
            wm_loop_timer (front->loop, wm_loop_now_us (front->loop) + SWEEP_US, sweep, self);
        run (self);
        return self;
    }
    wm_http_destroy (&self);
    return NULL;
}

void wm_http_drain (wm_http_t *self)
{
    const MHD_socket listener = MHD_quiesce_daemon (self->daemon);
    self->is_draining = true;
    if (listener != MHD_INVALID_SOCKET)
        close (listener);
    self->listener = -1;
}

size_t wm_http_open (const wm_http_t *self)
{
    return self->n_visit;
}

void wm_http_destroy (wm_http_t **self_p)
{
    wm_http_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    const wm_ks_error_t error = { WM_KS_UNAVAILABLE, "the gateway ends" };
    wm_loop_untimer (&self->sweep);
    for (wm_visit_t *visit = self->visits; visit; visit = visit->next)
        if (visit->is_suspended)
            wm_visit_fail (visit, &error);
    wm_loop_unwatch (&self->watch);
    wm_loop_untimer (&self->timer);
    if (self->daemon)
        MHD_stop_daemon (self->daemon);
    else if (self->listener >= 0)
        close (self->listener);
    wm_lingers_destroy (&self->lingers);
    free (self->certificate);
    free (self->key);
    self->daemon = NULL;
    wm_loop_later (self->front->loop, free, self); /* behind what is put off already */
}
