/* wm_http.c - connections and requests of HTTP/1.1: they are received, wait, and are answered.

   wm_h1.h reads requests, and refuses what is wrong with their framing; here are sockets, memory
   and time. A connection is in one of four states: it waits for a request's head, receives its
   body, waits (for memory or for the models; nothing is read from it then), or sends the answer. A
   body of a known length is received where it is kept; all else comes by a buffer that all
   connections share (`in`), and what of that cannot be read yet the connection keeps (`rest`).

   The kernel resets a connection that is closed with bytes unread, and the client may then see that
   in place of the last answer. So a connection lingers behind it: what comes is read and dropped
   until the client closes it, for LINGER_US and some bytes at most. Other connections have their
   turn after REQUESTS_MAX requests of one, or SEND_BYTES of its answers.  */
#include "producer/gateway/wm_http_private.h"
#include "producer/gateway/wm_acceptor.h"
#include "schema/base/wm_grow.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>

#define IN_BYTES (16u << 10)      /* read at once, and kept of what cannot be read yet */
#define DIRECT_BYTES (1u << 20)   /* ... into a body */
#define READS_MAX 4               /* ... before other connections have their turn */
#define SEND_BYTES (4u << 20)     /* as well */
#define REQUESTS_MAX 16           /* as well */
#define IDLE_US 60000000          /* a connection without a request is closed */
#define HEAD_US WM_FRONT_STALL_US /* from a head's first byte to its last */
#define DEFLATE_BYTES_MIN 1024    /* scores are compressed from here */
#define SWEEP_US 1000000
#define LINGER_US 30000000
#define DRAIN_SWEEP_US 50000  /* while it drains */
#define DRAIN_IDLE_US 1000000 /* a connection without a request has so long to send one */
#define DRAIN_LINGER_US 2000000
#define LINGER_TIMES 4 /* of the largest request: so much of one that is refused is read */
#define WEB_BYTES (sizeof (wm_web_t) + IN_BYTES)

struct wm_http_t {
    wm_front_t *front;
    const wm_http_routes_t *routes;
    wm_tls_t *tls;
    wm_acceptor_t *acceptor; /* NULL: it accepts no more */
    wm_timer_t *sweep;
    wm_web_t *webs;
    wm_idle_list_t idle;
    bool is_draining;
    int64_t drained_us;   /* since when */
    uint8_t in[IN_BYTES]; /* what is read, of one connection after the other */
};

wm_front_t *wm_visit_front (const wm_visit_t *self)
{
    return self->http->front;
}

static int64_t now_us (const wm_http_t *self)
{
    return wm_loop_now_us (self->front->loop);
}

/* ---- the state of a connection --------------------------------------------------------------- */

static void go_on (void *argument);

static void mark (wm_web_t *self)
{
    if (self->is_marked || self->is_dead)
        return;
    self->is_marked = true;
    wm_loop_later (self->http->front->loop, go_on, self);
}

/* Whether bytes of the client can be taken now.  */
static bool may_read (const wm_web_t *self)
{
    const wm_visit_t *visit = self->visit;
    return self->lingers || !visit ||
           (!visit->is_suspended && !visit->is_answered && !visit->is_whole);
}

static void watch_for (wm_web_t *self)
{
    uint32_t events = may_read (self) && !self->turn ? EPOLLIN : 0;
    if (self->visit && self->visit->is_suspended)
        events |= EPOLLRDHUP;
    const bool sends = self->out_bytes || (self->visit && self->visit->is_answered);
    if ((sends && !self->io.wants_read) || self->io.wants_write)
        events |= EPOLLOUT;
    wm_loop_change (self->watch, events);
}

static void resume (wm_visit_t *self)
{
    self->is_suspended = false;
    mark (self->web);
}

static void suspend (wm_visit_t *self)
{
    self->is_suspended = true;
    mark (self->web);
}

static void on_held (void *argument)
{
    wm_visit_t *self = argument;
    self->moves_us = now_us (self->http);
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
    const char *accepts = wm_h1_field (&self->web->h1, "Accept-Encoding");
    if (!accepts || !page->is_scores || page->bytes < DEFLATE_BYTES_MIN)
        return NULL;
    return takes (accepts, "gzip") ? "gzip" : takes (accepts, "deflate") ? "deflate" : NULL;
}

/* What the request had and has begun is over.  */
static void end_work (wm_visit_t *self)
{
    self->http->routes->cancel (self);
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

/* Begins to send an answer, whose data it takes. encoding: NULL or that of the data.  */
static void send_page (wm_visit_t *self, const wm_page_t *page, const char *encoding)
{
    wm_web_t *web = self->web;
    char fields[320];
    const bool keeps = self->is_whole && web->h1.keeps && !self->http->is_draining;
    snprintf (fields, sizeof fields, "Content-Type: %s\r\n%s%s%s%s%s%s%s", page->type,
              encoding ? "Content-Encoding: " : "", encoding ? encoding : "",
              encoding ? "\r\n" : "", page->header ? page->header : "", page->header ? ": " : "",
              page->header ? page->value : "", page->header ? "\r\n" : "");
    self->is_answered = true;
    self->bytes_out = page->bytes;
    self->moves_us = now_us (self->http);
    self->page = *page;
    wm_hold_set (self->http->front->budget, &self->hold, &web->share,
                 page->bytes + WM_FRONT_REQUEST_BYTES);
    web->is_closing = !keeps;
    memmove (web->out, web->out + web->out_at, web->out_bytes); /* of 100 Continue */
    if (!web->out_at && !web->io.ssl)                           /* TLS may have begun to send it */
        web->out_bytes = 0;
    web->out_at = 0;
    web->out_bytes += wm_h1_answer (&web->h1, web->out + web->out_bytes, page->status, page->bytes,
                                    keeps, fields);
    if (web->h1.method && strcmp (web->h1.method, "HEAD") == 0)
        self->page.bytes = 0;
    else if (page->bytes <= sizeof web->out - web->out_bytes) {
        memcpy (web->out + web->out_bytes, page->data, page->bytes);
        web->out_bytes += self->sent = page->bytes;
    }
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

/* Answers by a status and a text. header: NULL, or one more, a literal, and its value.  */
static void fail (wm_visit_t *self, unsigned status, const char *why, const char *header,
                  const char *value)
{
    json_t *text = json_string (why);
    json_t *json = json_pack ("{s:o}", "error", text ? text : json_string ("no reason is known"));
    wm_page_t page = { .status = status, .type = "application/json", .header = header };
    page.data = (uint8_t *) json_dumps (json, JSON_COMPACT);
    assert (page.data);
    page.bytes = strlen ((char *) page.data);
    snprintf (page.value, sizeof page.value, "%s", header ? value : "");
    json_decref (json);
    wm_visit_page (self, &page);
}

void wm_visit_allow (wm_visit_t *self, const char *methods)
{
    char why[320];
    snprintf (why, sizeof why, "%.200s: use %s", self->line, methods);
    self->code = WM_KS_INVALID;
    fail (self, 405, why, "Allow", methods);
}

void wm_visit_fail (wm_visit_t *self, const wm_ks_error_t *error)
{
    static const unsigned status[WM_KS_CODES] = {
        [WM_KS_OK] = 200,          [WM_KS_INVALID] = 400,   [WM_KS_NOT_FOUND] = 404,
        [WM_KS_UNAVAILABLE] = 503, [WM_KS_LOADING] = 503,   [WM_KS_DEADLINE] = 504,
        [WM_KS_CANCELLED] = 499,   [WM_KS_EXHAUSTED] = 413, [WM_KS_UNIMPLEMENTED] = 501,
        [WM_KS_INTERNAL] = 500,
    };
    self->code = error->code;
    fail (self, status[error->code], error->text,
          error->code == WM_KS_LOADING ? "Retry-After" : NULL, WM_KS_RETRY_S);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* In Triton's words, where it is known how large the request is.  */
static void too_large (wm_visit_t *self)
{
    const wm_h1_t *h1 = &self->web->h1;
    const size_t max = self->http->front->message_max;
    wm_ks_error_t error;
    if (!h1->is_chunked && h1->length > max)
        wm_ks_fail (&error, WM_KS_EXHAUSTED,
                    "request %ssize of %llu bytes exceeds the maximum allowed input size of %zu "
                    "bytes (--max-message)",
                    wm_h1_field (h1, "Inference-Header-Content-Length") ? "" : "JSON ",
                    (unsigned long long) h1->length, max);
    else
        wm_ks_fail (&error, WM_KS_EXHAUSTED,
                    "the request exceeds the maximum allowed input size of %zu bytes "
                    "(--max-message), or inflates to much more than it is",
                    max);
    wm_visit_fail (self, &error);
}

/* The head is there. Memory is taken when the body comes.  */
static void begin (wm_visit_t *self)
{
    wm_web_t *web = self->web;
    const size_t max = self->http->front->message_max;
    const char *encoding = wm_h1_field (&web->h1, "Content-Encoding");
    const wm_ks_error_t unknown = { WM_KS_UNIMPLEMENTED,
                                    "requests may be compressed by gzip or deflate only" };
    self->encoding = encoding && strcasecmp (encoding, "identity") != 0 ? encoding : NULL;
    self->extra = WM_FRONT_REQUEST_BYTES + (self->encoding ? WM_INFLATE_STATE_BYTES : 0);
    if (self->encoding && strcasecmp (encoding, "gzip") != 0 &&
        strcasecmp (encoding, "deflate") != 0)
        wm_visit_fail (self, &unknown);
    else if (web->h1.length > max)
        too_large (self);
    else {
        self->announced = (size_t) web->h1.length;
        if (web->h1.wants_continue)
            web->out_bytes = (size_t) snprintf (web->out, WM_WEB_CONTINUE_BYTES,
                                                "HTTP/1.1 100 Continue\r\n\r\n");
    }
}

/* Makes room for more bytes of the body. False: it waits for memory, which a body without a length
   takes as it grows, or is too large.  */
static bool make_room (wm_visit_t *self, size_t bytes)
{
    const size_t all = self->bytes + bytes, max = self->http->front->message_max;
    if (all <= self->body_max)
        return true;
    if (all > max) {
        too_large (self);
        return false;
    }
    const size_t twice = 2 * all < max ? 2 * all : max;
    const size_t room = all <= self->announced ? self->announced : twice;
    if (!wm_visit_hold (self, room + self->extra, on_held))
        return false;
    if (wm_grow_to (&self->body, &self->body_max, room, 1))
        return true;
    wm_visit_fail (self, &(wm_ks_error_t){ WM_KS_UNAVAILABLE, WM_FRONT_NO_MEMORY });
    return false;
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
        self->http->routes->serve (self);
    }
}

/* All of the body is there.  */
static void end (wm_visit_t *self)
{
    wm_front_t *front = self->http->front;
    self->is_whole = true;
    if (self->encoding && self->bytes)
        self->zip =
            wm_inflate_new (front->slices, self->body, self->bytes,
                            wm_inflate_max (self->bytes, front->message_max), on_inflated, self);
    else
        self->http->routes->serve (self);
    if (!self->is_answered)
        suspend (self);
}

static wm_visit_t *visit_new (wm_web_t *web)
{
    wm_visit_t *self = calloc (1, sizeof *self);
    const char *method = web->h1.method && web->h1.path ? web->h1.method : "?",
               *path = web->h1.path ? web->h1.path : "?";
    const size_t n = strlen (method), bytes = n + strlen (path) + 2;
    assert (self);
    self->http = web->http;
    self->web = web;
    self->begun_us = self->moves_us = now_us (web->http);
    self->is_get = strcmp (method, "GET") == 0 || strcmp (method, "HEAD") == 0;
    self->is_post = strcmp (method, "POST") == 0;
    self->line = malloc (bytes);
    assert (self->line);
    snprintf (self->line, bytes, "%s %s", method, path);
    self->path = self->line + n + 1;
    web->visit = self;
    wm_idle_leave (&web->idle);
    return self;
}

/* The answer is sent, or the connection has ended.  */
static void visit_destroy (wm_visit_t *self, bool is_sent)
{
    wm_http_t *http = self->http;
    const wm_front_line_t line = {
        .kind = WM_FRONT_HTTP,
        .peer = self->web->peer,
        .method = self->line,
        .model = self->model,
        .code = is_sent || self->code ? self->code : WM_KS_CANCELLED,
        .bytes_in = self->bytes,
        .bytes_out = self->bytes_out,
        .begun_us = self->begun_us,
    };
    wm_front_answered (http->front, &line);
    end_work (self);
    wm_hold_give (http->front->budget, &self->hold);
    self->web->visit = NULL;
    free (self->line);
    free (self);
}

/* Answers a request that is not read to its end: what the client sends is dropped from now on.  */
static void refuse (wm_web_t *self, unsigned status, const char *why)
{
    wm_visit_t *visit = self->visit ? self->visit : visit_new (self);
    visit->code = status == 408 ? WM_KS_CANCELLED : WM_KS_INVALID;
    fail (visit, status, why, NULL, NULL);
}

/* Bytes of the body. False: they wait for memory, or the request is answered.  */
static bool add_body (wm_visit_t *self, const uint8_t *data, size_t bytes)
{
    if (!make_room (self, bytes))
        return false;
    memcpy (self->body + self->bytes, data, bytes);
    self->bytes += bytes;
    return true;
}

/* After the parser has read something.  */
static void look (wm_web_t *self)
{
    if (self->h1.state == WM_H1_REFUSED) {
        refuse (self, self->h1.code, self->h1.why);
        return;
    }
    if (!self->visit && self->h1.state != WM_H1_HEAD)
        begin (visit_new (self));
    if (self->h1.state == WM_H1_END && !self->visit->is_answered && !self->visit->is_whole &&
        !self->piece)
        end (self->visit);
}

/* Reads n bytes, up to where the request waits or is answered. Returns how many it has read.  */
static size_t take (wm_web_t *self, const uint8_t *data, size_t n)
{
    size_t at = 0;
    while (at < n && may_read (self)) {
        if (self->lingers) {
            self->dropped += n - at;
            return n;
        }
        if (!self->piece) {
            at += wm_h1_read (&self->h1, data + at, n - at, &self->piece);
            at -= self->piece;
        }
        if (self->piece && add_body (self->visit, data + at, self->piece)) {
            at += self->piece;
            self->piece = 0;
        }
        if (may_read (self))
            look (self);
    }
    if (!self->visit && wm_h1_has_begun (&self->h1) && !self->has_head_begun) {
        self->has_head_begun = true;
        self->since_us = now_us (self->http);
        wm_idle_leave (&self->idle);
    }
    return at;
}

/* Reads what had to wait.  */
static void take_rest (wm_web_t *self)
{
    if (!self->rest || !may_read (self))
        return;
    const size_t n = take (self, self->rest + self->rest_at, self->rest_bytes);
    self->rest_at += n;
    self->rest_bytes -= n;
    if (self->rest_bytes)
        return;
    free (self->rest);
    self->rest = NULL;
}

/* Receives bytes of the body where it is kept. Returns as read.  */
static ssize_t receive_body (wm_web_t *self)
{
    wm_visit_t *visit = self->visit;
    const size_t room = visit->body_max - visit->bytes;
    const ssize_t n = wm_io_read (&self->io, visit->body + visit->bytes,
                                  room < DIRECT_BYTES ? room : DIRECT_BYTES);
    if (n <= 0)
        return n;
    self->moved_us = now_us (self->http);
    visit->bytes += (size_t) n;
    wm_h1_took (&self->h1, (uint64_t) n);
    look (self);
    return n;
}

static ssize_t receive_some (wm_web_t *self)
{
    const wm_visit_t *visit = self->visit;
    if (visit && !self->lingers && visit->announced && visit->body_max == visit->announced)
        return receive_body (self);
    const ssize_t n = wm_io_read (&self->io, self->http->in, IN_BYTES);
    if (n > 0)
        self->moved_us = now_us (self->http);
    const size_t taken = n > 0 ? take (self, self->http->in, (size_t) n) : 0;
    if (n > 0 && taken < (size_t) n) {
        self->rest_at = 0;
        self->rest_bytes = (size_t) n - taken;
        self->rest = malloc (self->rest_bytes);
        assert (self->rest);
        memcpy (self->rest, self->http->in + taken, self->rest_bytes);
    }
    return n;
}

/* False: the connection has ended.  */
static bool receive (wm_web_t *self)
{
    for (int i = 0; (i < READS_MAX || wm_io_has_more (&self->io)) && may_read (self); i++) {
        const ssize_t n = receive_some (self);
        if (n < 0 && errno == EPROTO) {
            wm_io_unseal (&self->io);
            refuse (self, 400, "this port speaks TLS, and the request has come without: use https");
            return true;
        }
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (n < 0)
            return true;
    }
    return !self->lingers || self->dropped < LINGER_TIMES * self->http->front->message_max;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* False: the connection has ended.  */
static bool send_some (wm_web_t *self)
{
    wm_visit_t *visit = self->visit;
    size_t all = 0;
    while (all < SEND_BYTES &&
           (self->out_bytes || (visit && visit->is_answered && visit->sent < visit->page.bytes))) {
        const bool is_head = self->out_bytes;
        const ssize_t n = is_head
                              ? wm_io_write (&self->io, self->out + self->out_at, self->out_bytes)
                              : wm_io_write (&self->io, visit->page.data + visit->sent,
                                             visit->page.bytes - visit->sent);
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        all += (size_t) n;
        self->moved_us = now_us (self->http);
        self->out_at += is_head ? (size_t) n : 0;
        self->out_bytes -= is_head ? (size_t) n : 0;
        if (!is_head)
            visit->sent += (size_t) n;
        if (!self->out_bytes)
            self->out_at = 0;
    }
    return true;
}

static void free_web (void *argument)
{
    wm_web_t *self = argument;
    free (self->rest);
    free (self);
}

/* Closes it; the memory is freed when no callback of it is put off any more.  */
static void kill_web (wm_web_t *self)
{
    self->is_dead = true;
    wm_idle_leave (&self->idle);
    if (self->visit)
        visit_destroy (self->visit, false);
    wm_loop_untimer (&self->turn);
    wm_loop_unwatch (&self->watch);
    wm_io_close (&self->io);
    wm_front_leave (self->http->front, WM_FRONT_HTTP, &self->share, WEB_BYTES);
    *(self->before ? &self->before->next : &self->http->webs) = self->next;
    if (self->next)
        self->next->before = self->before;
    wm_loop_later (self->http->front->loop, free_web, self);
}

/* The answer is sent. False: the connection has ended.  */
static bool end_answer (wm_web_t *self)
{
    visit_destroy (self->visit, true);
    self->since_us = now_us (self->http);
    self->has_head_begun = false;
    wm_idle_enter (&self->http->idle, &self->idle, self);
    if (!self->is_closing) {
        wm_h1_begin (&self->h1);
        return true;
    }
    self->lingers = true;
    self->dropped = self->piece = 0;
    return wm_io_end (&self->io);
}

static void on_turn (void *argument)
{
    wm_web_t *self = argument;
    self->turn = NULL;
    mark (self);
}

/* Sends, and reads what had to wait, until it must wait for the client, memory, the models or its
   next turn.  */
static void go_on (void *argument)
{
    wm_web_t *self = argument;
    wm_loop_t *loop = self->http->front->loop;
    self->is_marked = false;
    bool goes_on = !self->is_dead;
    for (unsigned n_answered = 0; goes_on && !self->turn;) {
        goes_on = send_some (self);
        if (!goes_on || self->out_bytes)
            break;
        if (self->visit && self->visit->is_answered) {
            if (self->visit->sent < self->visit->page.bytes)
                break;
            goes_on = end_answer (self);
            if (goes_on && ++n_answered == REQUESTS_MAX) /* due now, it would come in this round */
                self->turn = wm_loop_timer (loop, now_us (self->http) + 1, on_turn, self);
            continue;
        }
        const size_t before = self->rest_bytes;
        take_rest (self);
        if (self->rest_bytes != before)
            continue;
        if (self->rest || !may_read (self) || !wm_io_has_more (&self->io))
            break;
        goes_on = receive (self); /* a request in the TLS record of the one before */
    }
    if (!goes_on && !self->is_dead)
        kill_web (self);
    else if (!self->is_dead)
        watch_for (self);
}

static void on_ready (void *argument, uint32_t events)
{
    wm_web_t *self = argument;
    const bool is_gone = events & (EPOLLHUP | EPOLLERR) ||
                         (events & EPOLLRDHUP && self->visit && self->visit->is_suspended);
    if ((is_gone && !may_read (self)) || (may_read (self) && !self->rest && !receive (self)))
        kill_web (self);
    else
        mark (self);
}

/* ---- the server ------------------------------------------------------------------------------ */

/* Whether nothing of a request has come.  */
static bool is_idle (const wm_web_t *self)
{
    return !self->visit && !self->has_head_begun && !self->rest && wm_io_is_quiet (&self->io);
}

/* Whether the client, whose turn it is, is slow on the whole or has stopped.  */
static bool is_slow (const wm_web_t *self, size_t bytes)
{
    const int64_t now = now_us (self->http), turn_us = self->visit->moves_us;
    const int64_t moved_us = self->moved_us > turn_us ? self->moved_us : turn_us;
    return wm_front_is_slow (now - turn_us, bytes) || now - moved_us > WM_FRONT_STALL_US;
}

/* Whether the client has used up its time. If an answer can still be sent, it gets 408.  */
static bool is_late (wm_web_t *self)
{
    wm_visit_t *visit = self->visit;
    const int64_t now = now_us (self->http), since_us = now - self->since_us;
    const int64_t drained_us = self->http->is_draining ? self->http->drained_us : now;
    const int64_t draining_us = now - (drained_us > self->since_us ? drained_us : self->since_us);
    if (self->lingers)
        return since_us > (self->http->is_draining ? DRAIN_LINGER_US : LINGER_US);
    if (visit && visit->is_answered)
        return is_slow (self, visit->sent);
    const bool is_too_slow = visit ? !visit->is_suspended && !visit->is_whole &&
                                         is_slow (self, visit->bytes - visit->moves_before)
                                   : self->has_head_begun && since_us > HEAD_US;
    if (is_too_slow)
        refuse (self, 408, "the request has come too slowly");
    const bool has_begun = visit || self->has_head_begun || self->rest;
    if (!has_begun && (since_us > IDLE_US + HEAD_US || draining_us > HEAD_US))
        return true; /* what has come leads to nothing */
    return (since_us > IDLE_US || draining_us > DRAIN_IDLE_US) && is_idle (self);
}

static void sweep (void *argument)
{
    wm_http_t *self = argument;
    for (wm_web_t *web = self->webs, *next; web; web = next) {
        next = web->next;
        if (is_late (web))
            kill_web (web);
    }
    const int64_t pause_us = self->is_draining ? DRAIN_SWEEP_US : SWEEP_US;
    self->sweep = wm_loop_timer (self->front->loop, now_us (self) + pause_us, sweep, self);
}

static bool is_spare (const void *owner)
{
    return is_idle (owner);
}

static bool spare_web (void *argument, bool closes)
{
    wm_http_t *self = argument;
    wm_web_t *found = wm_idle_oldest (&self->idle, is_spare);
    if (found && closes)
        kill_web (found);
    return found;
}

static void open_web (void *argument, int fd, const char *peer)
{
    wm_http_t *self = argument;
    wm_web_t *web = calloc (1, sizeof *web);
    assert (web);
    web->http = self;
    if (!wm_io_open (&web->io, fd, self->tls) ||
        !(web->watch = wm_loop_watch (self->front->loop, fd, EPOLLIN, on_ready, web))) {
        if (web->io.fd >= 0)
            wm_io_close (&web->io);
        free (web);
        return;
    }
    web->number = ++self->front->clients;
    web->since_us = now_us (self);
    snprintf (web->peer, sizeof web->peer, "%s", peer);
    web->next = self->webs;
    if (web->next)
        web->next->before = web;
    self->webs = web;
    wm_idle_enter (&self->idle, &web->idle, web);
    wm_front_enter (self->front, WM_FRONT_HTTP, &web->share, peer, WEB_BYTES);
}

wm_http_t *wm_http_new (wm_front_t *front, int listener, wm_tls_t *tls,
                        const wm_http_routes_t *routes)
{
    static const wm_acceptor_how_t how = { WM_FRONT_HTTP, WEB_BYTES, open_web, spare_web };
    wm_http_t *self = calloc (1, sizeof *self);
    assert (self);
    self->front = front;
    self->tls = tls;
    self->routes = routes;
    self->sweep = wm_loop_timer (front->loop, now_us (self) + SWEEP_US, sweep, self);
    self->acceptor = wm_acceptor_new (front, &how, listener, self);
    return self;
}

bool wm_http_begin (wm_http_t *self)
{
    return wm_acceptor_begin (self->acceptor);
}

void wm_http_drain (wm_http_t *self)
{
    self->is_draining = true;
    self->drained_us = now_us (self);
    wm_acceptor_drain (&self->acceptor);
    wm_loop_untimer (&self->sweep);
    sweep (self);
}

size_t wm_http_open (const wm_http_t *self)
{
    return self->front->connections[WM_FRONT_HTTP] + (self->acceptor != NULL);
}

void wm_http_destroy (wm_http_t **self_p)
{
    wm_http_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    wm_acceptor_destroy (&self->acceptor);
    wm_loop_untimer (&self->sweep);
    while (self->webs)
        kill_web (self->webs);
    free (self);
}
