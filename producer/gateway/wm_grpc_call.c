/* wm_grpc_call.c - one call: its headers, messages, answers and status (grpc.io,
   "gRPC over HTTP2").  */
#include "producer/gateway/wm_grpc_private.h"
#include "schema/base/wm_grow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Messages without memory may have so many bytes, of one address; then their connections wait.  */
#define UNHELD_SHARE 4 /* of the budget: one in */
/* Beyond so many, or half of the budget, connections of the address that has most of them may have
   so many each; more messages are refused.  */
#define UNHELD_MAX (64u << 20)
#define UNHELD_CONN_MAX (512u << 10)
/* Calls without a message: of all connections, and those that each connection may have.  */
#define IDLE_MAX 65536
#define IDLE_CONN_MIN 8
/* Of a connection's window so much is owed at most. nghttp2 opens the window by what was consumed
   when that is half of it, so that a quarter is always left for messages with memory.  */
#define OWED_MAX (WM_GRPC_WINDOW_BYTES / 4)
#define LATE_BYTES_MAX (256u << 10) /* a status waits for so much of the rest of a message */
#define LATE_US 1000000
#define STREAM_WINDOW_MAX (16 << 20)

void wm_conn_mark (wm_conn_t *self)
{
    if (self->is_marked || self->is_dead)
        return;
    self->is_marked = true;
    wm_loop_later (self->grpc->front->loop, self->grpc->send_out, self);
}

static wm_front_t *front_of (const wm_call_t *self)
{
    return self->conn->grpc->front;
}

static int64_t now_us (const wm_call_t *self)
{
    return wm_loop_now_us (front_of (self)->loop);
}

/* ---- the window ------------------------------------------------------------------------------ */

/* Lets the client send as many bytes as these were.  */
static void consume (wm_call_t *self, size_t stream, size_t conn)
{
    if (stream)
        nghttp2_session_consume_stream (self->conn->session, self->stream, stream);
    if (conn)
        nghttp2_session_consume_connection (self->conn->session, conn);
    wm_conn_mark (self->conn);
}

/* So many more bytes have come for which there is no memory; modulo SIZE_MAX + 1.  */
static void count_unheld (wm_call_t *self, size_t more)
{
    self->owed += more;
    self->conn->unheld += more;
    self->conn->share.address->unheld += more;
    self->conn->grpc->unheld += more;
}

/* The connection's window is not opened for so many more bytes; modulo SIZE_MAX + 1.  */
static void owe (wm_call_t *self, size_t more)
{
    self->owed_conn += more;
    self->conn->owed += more;
}

/* What is owed since memory for its message was not there.  */
static void pay (wm_call_t *self)
{
    const size_t owed = self->owed;
    const size_t owed_conn = self->owed_conn;
    count_unheld (self, -owed);
    owe (self, -owed_conn);
    consume (self, owed, owed_conn);
}

/* ---- beginning and end of calls, items ------------------------------------------------------- */

static void count_idle (wm_call_t *self, bool is_idle)
{
    const size_t more = (size_t) is_idle - (size_t) self->is_idle; /* modulo SIZE_MAX + 1 */
    self->is_idle = is_idle;
    self->conn->n_idle += more;
    self->conn->share.address->n_idle += more;
    self->conn->grpc->n_idle += more;
}

wm_call_t *wm_call_new (wm_conn_t *conn, int32_t stream)
{
    wm_call_t *self = calloc (1, sizeof *self);
    assert (self);
    self->conn = conn;
    self->stream = stream;
    self->begun_us = self->moved_us = now_us (self);
    self->next = conn->calls;
    if (self->next)
        self->next->before = self;
    conn->calls = self;
    wm_idle_leave (&conn->idle);
    count_idle (self, true);
    return self;
}

static void forget (wm_item_t *item)
{
    item->call->conn->grpc->methods->cancel (item);
    wm_loop_untimer (&item->timer);
    wm_zip_destroy (&item->zip);
    wm_slice_end (&item->slice);
    wm_infer_free (&item->infer);
    free (item->body);
    item->body = NULL;
}

static void free_item (wm_item_t *item)
{
    forget (item);
    wm_hold_give (front_of (item->call)->budget, &item->hold);
    free (item->watched);
    free (item->out.data);
    for (uint32_t i = 0; i < item->n_piece; i++)
        free (item->piece[i].data);
    free (item->piece);
    free (item);
}

static void free_items (wm_call_t *self)
{
    while (self->first) {
        wm_item_t *item = self->first;
        self->first = item->next;
        free_item (item);
    }
    self->last = self->arriving = NULL;
    self->n_unheld = 0;
    count_idle (self, true);
}

void wm_call_destroy (wm_call_t **self_p)
{
    wm_call_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    wm_conn_t *conn = self->conn;
    const wm_front_line_t line = {
        .kind = WM_FRONT_GRPC,
        .peer = conn->peer,
        .method = self->method ? self->method->name : self->path,
        .model = self->model,
        .code = self->is_done ? self->code : WM_KS_CANCELLED,
        .bytes_in = self->bytes_in,
        .bytes_out = self->bytes_out,
        .begun_us = self->begun_us,
    };
    wm_front_answered (front_of (self), &line);
    free_items (self);
    free (self->text);
    free (self->rest.data);
    wm_loop_untimer (&self->timer);
    nghttp2_session_set_stream_user_data (conn->session, self->stream, NULL);
    pay (self);
    *(self->before ? &self->before->next : &conn->calls) = self->next;
    if (self->next)
        self->next->before = self->before;
    if (!conn->calls && !conn->is_dead)
        wm_idle_enter (&conn->grpc->idle, &conn->idle, conn);
    conn->n_refused -= self->is_refused;
    count_idle (self, false);
    free (self);
}

/* ---- the response ---------------------------------------------------------------------------- */

#define NV(name, value)                                                                            \
    {                                                                                              \
        (uint8_t *) (uintptr_t) (name), (uint8_t *) (uintptr_t) (value), strlen (name),            \
            strlen (value), NGHTTP2_NV_FLAG_NONE                                                   \
    }

static const char *status_of (wm_ks_code_t code)
{
    static const char *const status[WM_KS_CODES] = {
        [WM_KS_OK] = "0",           [WM_KS_INVALID] = "3",   [WM_KS_NOT_FOUND] = "5",
        [WM_KS_UNAVAILABLE] = "14", [WM_KS_LOADING] = "14",  [WM_KS_DEADLINE] = "4",
        [WM_KS_CANCELLED] = "1",    [WM_KS_EXHAUSTED] = "8", [WM_KS_UNIMPLEMENTED] = "12",
        [WM_KS_INTERNAL] = "13",
    };
    return status[code];
}

/* Encodes a message for people: '%' and what is not printable ASCII become %XX.  */
static void percent (char *to, size_t max, const char *text)
{
    size_t n = 0;
    for (; *text && n + 4 < max; text++)
        if (*text >= ' ' && *text < 127 && *text != '%')
            to[n++] = *text;
        else
            n += (size_t) sprintf (to + n, "%%%02X", (unsigned) (uint8_t) *text);
    to[n] = 0;
}

static void submit_trailers (wm_call_t *self)
{
    const nghttp2_nv trailers[] = { NV ("grpc-status", status_of (self->code)),
                                    NV ("grpc-message", self->text ? self->text : ""),
                                    NV ("grpc-retry-pushback-ms", WM_KS_RETRY_MS) };
    nghttp2_submit_trailer (self->conn->session, self->stream, trailers,
                            !self->text                   ? 1
                            : self->code == WM_KS_LOADING ? 3
                                                          : 2);
}

/* Copies what is not sent of an answer, and frees values that are. Returns how many bytes.  */
static size_t copy_answer (wm_item_t *item, uint8_t *to, size_t max)
{
    size_t n = 0;
    while (n < max && (item->sent < item->out.bytes || item->at_piece < item->n_piece)) {
        wm_piece_t *piece = item->at_piece < item->n_piece ? &item->piece[item->at_piece] : NULL;
        const bool is_piece = piece && item->sent == piece->before;
        const size_t all = is_piece ? piece->bytes : piece ? piece->before : item->out.bytes;
        size_t *sent = is_piece ? &item->sent_piece : &item->sent;
        const size_t bytes = all - *sent < max - n ? all - *sent : max - n;
        if (bytes)
            memcpy (to + n, (is_piece ? piece->data : item->out.data) + *sent, bytes);
        *sent += bytes;
        n += bytes;
        if (!is_piece || *sent < all)
            continue;
        free (piece->data);
        piece->data = NULL;
        item->at_piece++;
        item->sent_piece = 0;
    }
    return n;
}

/* Copies answers, in their order, into a frame; behind the last one come the trailers.  */
static ssize_t read_answers (nghttp2_session *session, int32_t stream, uint8_t *to, size_t max,
                             uint32_t *flags, nghttp2_data_source *source, void *argument)
{
    (void) session;
    (void) stream;
    (void) argument;
    wm_call_t *self = source->ptr;
    size_t n = 0;
    while (self->first && self->first->is_answered && n < max) {
        wm_item_t *item = self->first;
        n += copy_answer (item, to + n, max - n);
        if (item->sent < item->out.bytes || item->at_piece < item->n_piece)
            break;
        self->first = item->next;
        if (self->first)
            self->first->sends_us = now_us (self);
        else {
            self->last = NULL;
            count_idle (self, true);
        }
        free_item (item);
    }
    self->bytes_out += n;
    if (!self->first && !self->is_done && (self->is_ended || (self->closes && !self->n_head))) {
        self->is_done = true;
        self->code = self->is_ended ? WM_KS_OK : WM_KS_UNAVAILABLE;
        self->text = self->is_ended ? NULL : strdup ("the gateway ends");
    }
    if (self->is_done && !self->first) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers (self);
        return (ssize_t) n;
    }
    self->is_waiting = n == 0;
    return n ? (ssize_t) n : NGHTTP2_ERR_DEFERRED;
}

/* Begins the response, or goes on with it.  */
static void respond (wm_call_t *self)
{
    const nghttp2_nv headers[] = { NV (":status", "200"), NV ("content-type", "application/grpc"),
                                   NV ("grpc-accept-encoding", "identity,deflate,gzip") };
    const nghttp2_data_provider provider = { .source.ptr = self, .read_callback = read_answers };
    if (!self->has_headers) {
        self->has_headers = true;
        nghttp2_submit_response (self->conn->session, self->stream, headers, 3, &provider);
    } else if (self->is_waiting) {
        self->is_waiting = false;
        nghttp2_session_resume_data (self->conn->session, self->stream);
    }
    wm_conn_mark (self->conn);
}

static void send_status (wm_call_t *self)
{
    if (self->has_headers) { /* what of the answers is not sent yet stays away */
        respond (self);
        return;
    }
    const nghttp2_nv headers[] = {
        NV (":status", "200"),
        NV ("content-type", "application/grpc"),
        NV ("grpc-accept-encoding", "identity,deflate,gzip"),
        NV ("grpc-status", status_of (self->code)),
        NV ("grpc-message", self->text),
        NV ("grpc-retry-pushback-ms", WM_KS_RETRY_MS),
    };
    self->has_headers = true;
    nghttp2_submit_response (self->conn->session, self->stream, headers,
                             self->code == WM_KS_LOADING ? 6 : 5, NULL);
    wm_conn_mark (self->conn);
}

/* A status that comes while the client still sends its message confuses some: it waits for the end
   of the message, unless that is far.  */
void wm_call_finish (wm_call_t *self, wm_ks_code_t code, const char *text)
{
    char message[1500];
    if (self->is_done)
        return;
    self->is_done = true;
    self->code = code;
    self->moved_us = now_us (self);
    free_items (self);
    wm_loop_untimer (&self->timer);
    pay (self);
    percent (message, sizeof message, text);
    self->text = strdup (message);
    assert (self->text);
    if (self->is_ended || (self->method && self->method->is_stream))
        send_status (self);
}

void wm_call_answer (wm_item_t *item)
{
    wm_call_t *self = item->call;
    size_t values = 0;
    for (uint32_t i = 0; i < item->n_piece; i++)
        values += item->piece[i].bytes;
    const size_t bytes = item->out.bytes - WM_CALL_HEAD_BYTES + values;
    forget (item);
    if (bytes > UINT32_MAX) {
        wm_call_finish (self, WM_KS_EXHAUSTED, "the answer is larger than gRPC's 4 GiB");
        return;
    }
    const uint8_t head[] = { 0, (uint8_t) (bytes >> 24), (uint8_t) (bytes >> 16),
                             (uint8_t) (bytes >> 8), (uint8_t) bytes };
    memcpy (item->out.data, head, sizeof head);
    item->is_answered = true;
    wm_hold_set (front_of (self)->budget, &item->hold, &self->conn->share,
                 item->out.max + values + WM_FRONT_REQUEST_BYTES);
    item->sends_us = now_us (self);
    if (self->first == item)
        respond (self);
}

void wm_call_fail (wm_item_t *item, const wm_ks_error_t *error)
{
    wm_call_finish (item->call, error->code, error->text);
}

/* ---- the request's headers ------------------------------------------------------------------- */

static bool is (const char *name, size_t n, const char *what)
{
    return n == strlen (what) && memcmp (name, what, n) == 0;
}

/* Reads grpc-timeout: up to 8 digits and a unit. 0 if it is not that.  */
static int64_t timeout_us (const char *text, size_t n)
{
    int64_t number = 0;
    if (n < 2 || n > 9)
        return 0;
    for (size_t i = 0; i + 1 < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        number = 10 * number + text[i] - '0';
    }
    switch (text[n - 1]) {
    case 'H':
        return number * 3600 * 1000000;
    case 'M':
        return number * 60 * 1000000;
    case 'S':
        return number * 1000000;
    case 'm':
        return number * 1000;
    case 'u':
        return number ? number : 1;
    case 'n':
        return number / 1000 + 1;
    }
    return 0;
}

void wm_call_header (wm_call_t *self, const char *name, size_t n_name, const char *value,
                     size_t n_value)
{
    if (is (name, n_name, ":path"))
        snprintf (self->path, sizeof self->path, "%.*s", (int) (n_value < 95 ? n_value : 95),
                  value);
    else if (is (name, n_name, ":method"))
        self->is_post = is (value, n_value, "POST");
    else if (is (name, n_name, "content-type"))
        self->is_grpc = n_value >= 16 && memcmp (value, "application/grpc", 16) == 0;
    else if (is (name, n_name, "grpc-timeout"))
        self->timeout_us = timeout_us (value, n_value);
    else if (is (name, n_name, "grpc-encoding")) {
        self->can_inflate = is (value, n_value, "gzip") || is (value, n_value, "deflate");
        self->has_bad_encoding = !self->can_inflate && !is (value, n_value, "identity");
    }
}

/* Answers what is not gRPC as HTTP has it.  */
static void refuse_http (wm_call_t *self, const char *status)
{
    const nghttp2_nv headers[] = { NV (":status", status), NV ("allow", "POST") };
    const bool is_method = strcmp (status, "405") == 0;
    self->is_done = self->has_headers = true;
    self->code = WM_KS_INVALID;
    nghttp2_submit_response (self->conn->session, self->stream, headers, is_method ? 2 : 1, NULL);
    wm_conn_mark (self->conn);
}

static void on_deadline (void *argument)
{
    wm_call_t *self = argument;
    self->timer = NULL;
    wm_call_finish (self, WM_KS_DEADLINE, "Deadline Exceeded");
}

static void stop (wm_call_t *self);

/* Whether so many calls have no message that this one is too many.  */
static bool is_too_many (const wm_call_t *self)
{
    const wm_conn_t *conn = self->conn;
    const size_t all = conn->grpc->n_idle;
    return conn->n_idle > IDLE_CONN_MIN &&
           (all > IDLE_MAX || !wm_budget_shares (front_of (self)->budget,
                                                 conn->share.address->n_idle, IDLE_MAX - all));
}

static void refuse_idle (wm_call_t *self)
{
    char text[200];
    snprintf (
        text, sizeof text,
        "%zu calls of this address have sent no message, more than its share of %d: end some, "
        "or send their messages, and try again",
        self->conn->share.address->n_idle, IDLE_MAX);
    self->is_refused = true;
    self->conn->n_refused++;
    wm_call_finish (self, WM_KS_EXHAUSTED, text);
    stop (self);
}

void wm_call_begin (wm_call_t *self)
{
    char text[160];
    if (!self->is_post || !self->is_grpc) {
        refuse_http (self, self->is_post ? "415" : "405");
        return;
    }
    self->method = self->conn->grpc->methods->of (self->path);
    if (!self->method) {
        snprintf (text, sizeof text, "there is no method %s", self->path);
        wm_call_finish (self, WM_KS_UNIMPLEMENTED, text);
        return;
    }
    if (self->has_bad_encoding) {
        wm_call_finish (self, WM_KS_UNIMPLEMENTED,
                        "messages may be compressed by gzip or deflate only");
        return;
    }
    if (is_too_many (self)) {
        refuse_idle (self);
        return;
    }
    if (self->timeout_us) {
        self->deadline_us = self->begun_us + self->timeout_us;
        self->timer = wm_loop_timer (front_of (self)->loop, self->deadline_us, on_deadline, self);
    }
}

/* ---- the request's messages ------------------------------------------------------------------ */

static void advance (wm_item_t *item);

/* The memory for what the message inflates to is there.  */
static void inflate_now (void *argument)
{
    wm_item_t *item = argument;
    wm_zip_go (item->zip);
}

static void refuse_inflated (wm_item_t *item, wm_zip_state_t state, size_t max)
{
    char text[160];
    if (state == WM_ZIP_DAMAGED) {
        wm_call_finish (item->call, WM_KS_INTERNAL, "the compressed message is damaged");
        return;
    }
    snprintf (text, sizeof text,
              "a message of %zu bytes inflates to more than %zu: send it as it is", item->bytes,
              max);
    wm_call_finish (item->call, WM_KS_EXHAUSTED, text);
}

static size_t inflated_max (const wm_item_t *item)
{
    return wm_inflate_max (item->bytes, front_of (item->call)->message_max);
}

static void on_zip (void *argument, wm_zip_state_t state)
{
    wm_item_t *item = argument;
    wm_budget_t *budget = front_of (item->call)->budget;
    wm_share_t *share = &item->call->conn->share;
    const size_t bytes = wm_zip_bytes (item->zip);
    if (state == WM_ZIP_COUNTED) {
        if (wm_hold_take (budget, &item->hold, share, item->hold.bytes + bytes, inflate_now, item))
            inflate_now (item);
    } else if (state == WM_ZIP_DONE) {
        free (item->body);
        item->body = wm_zip_take (item->zip);
        item->bytes = bytes;
        item->is_compressed = false;
        wm_zip_destroy (&item->zip);
        wm_hold_set (budget, &item->hold, share, bytes + WM_FRONT_REQUEST_BYTES);
        advance (item);
    } else
        refuse_inflated (item, state, inflated_max (item));
}

/* Goes on with a message once all of it and the memory for it are there. May free it.  */
static void advance (wm_item_t *item)
{
    wm_call_t *self = item->call;
    if (!item->is_whole || !item->has_hold)
        return;
    if (item->is_compressed) {
        item->zip = wm_inflate_new (front_of (self)->slices, item->body, item->bytes,
                                    inflated_max (item), on_zip, item);
        return;
    }
    item->is_ready = true;
    if (self->method->is_stream || self->is_ended)
        self->method->take (item);
}

/* Makes room for so many bytes of a message. Without memory it ends the call, frees the item and
   returns false.  */
static bool grow_body (wm_item_t *item, size_t bytes)
{
    if (wm_grow_to (&item->body, &item->body_max, bytes, 1))
        return true;
    wm_call_finish (item->call, WM_KS_UNAVAILABLE, WM_FRONT_NO_MEMORY);
    return false;
}

/* Memory for the message is granted: its stream may send all of it. May free the item.  */
static void on_held (wm_item_t *item)
{
    wm_call_t *self = item->call;
    item->has_hold = true;
    self->n_unheld--;
    if (item->body_max < item->bytes && !grow_body (item, item->bytes))
        return;
    const size_t window =
        item->bytes + 64 < STREAM_WINDOW_MAX ? item->bytes + 64 : STREAM_WINDOW_MAX;
    if (!self->method->is_stream && window > WM_FRONT_WINDOW_BYTES)
        nghttp2_session_set_local_window_size (self->conn->session, NGHTTP2_FLAG_NONE, self->stream,
                                               (int32_t) window);
    self->moved_us = now_us (self);
    advance (item);
}

static void read_rest (wm_call_t *self);

/* The message had to wait for its memory, and so did what came behind it.  */
static void on_granted (void *argument)
{
    wm_item_t *item = argument;
    wm_call_t *self = item->call;
    on_held (item);
    read_rest (self);
    if (!self->n_unheld)
        pay (self);
}

static wm_item_t *add_item (wm_call_t *self)
{
    wm_item_t *item = calloc (1, sizeof *item);
    assert (item);
    item->call = self;
    item->begun_us = now_us (self);
    *(self->last ? &self->last->next : &self->first) = item;
    self->last = item;
    count_idle (self, false);
    return item;
}

wm_item_t *wm_call_item (wm_call_t *self)
{
    wm_item_t *item = add_item (self);
    item->is_whole = item->has_hold = item->is_ready = true;
    wm_hold_set (front_of (self)->budget, &item->hold, &self->conn->share, WM_FRONT_REQUEST_BYTES);
    return item;
}

/* The five bytes before a message are there.  */
static void begin_message (wm_call_t *self)
{
    wm_front_t *front = front_of (self);
    char text[160];
    const size_t bytes = (size_t) self->head[1] << 24 | (size_t) self->head[2] << 16 |
                         (size_t) self->head[3] << 8 | self->head[4];
    if (self->head[0] > 1 || (self->head[0] && !self->can_inflate)) {
        wm_call_finish (self, WM_KS_INTERNAL, "a message is compressed, and no header says how");
        return;
    }
    if (!self->method->is_stream && self->first) {
        wm_call_finish (self, WM_KS_INTERNAL, "this method takes one message");
        return;
    }
    if (bytes > front->message_max) {
        snprintf (text, sizeof text,
                  "a message of %zu bytes is larger than this server's limit, "
                  "%zu (--max-message)",
                  bytes, front->message_max);
        wm_call_finish (self, WM_KS_EXHAUSTED, text);
        return;
    }
    wm_item_t *item = self->arriving = add_item (self);
    item->bytes = bytes;
    item->is_compressed = self->head[0];
    self->n_unheld++;
    if (wm_hold_take (front->budget, &item->hold, &self->conn->share,
                      bytes + WM_FRONT_REQUEST_BYTES +
                          (item->is_compressed ? WM_INFLATE_STATE_BYTES : 0),
                      on_granted, item))
        on_held (item);
}

/* Copies what arrives of a message. May end the call.  */
static size_t add_body (wm_item_t *item, const uint8_t *data, size_t bytes)
{
    const size_t left = item->bytes - item->got, n = bytes < left ? bytes : left;
    if (item->got + n > item->body_max) { /* no memory is granted: it grows with what comes */
        const size_t all = item->got + n, twice = 2 * all;
        const size_t max = all < WM_FRONT_WINDOW_BYTES && twice > WM_FRONT_WINDOW_BYTES
                               ? WM_FRONT_WINDOW_BYTES
                               : twice;
        if (!grow_body (item, max < item->bytes ? max : item->bytes))
            return n;
    }
    if (n)
        memcpy (item->body + item->got, data, n);
    item->got += n;
    return n;
}

/* Whether so much waits that windows do not bound it: those of 500 connections are 8 GB.  */
static bool is_crowd (const wm_call_t *self)
{
    const wm_conn_t *conn = self->conn;
    const size_t half = wm_budget_max (conn->grpc->front->budget) / 2;
    const size_t max = half > UNHELD_MAX ? half : UNHELD_MAX;
    return conn->grpc->unheld > max && conn->share.address->unheld > max / 2 &&
           conn->unheld > UNHELD_CONN_MAX;
}

/* Opens the windows again, or owes it while memory is not there.  */
static void settle (wm_call_t *self, size_t bytes)
{
    wm_grpc_t *grpc = self->conn->grpc;
    if (!self->n_unheld) {
        consume (self, bytes, bytes);
        return;
    }
    count_unheld (self, bytes);
    if (is_crowd (self)) {
        owe (self, bytes);
        wm_call_finish (self, WM_KS_UNAVAILABLE,
                        "too many requests of this address wait for memory: send fewer at once");
    } else if (self->conn->owed >= OWED_MAX ||
               self->conn->share.address->unheld <
                   wm_budget_max (grpc->front->budget) / UNHELD_SHARE)
        consume (self, 0, bytes);
    else
        owe (self, bytes);
}

static void reset (wm_call_t *self)
{
    nghttp2_submit_rst_stream (self->conn->session, NGHTTP2_FLAG_NONE, self->stream,
                               NGHTTP2_NO_ERROR);
    wm_conn_mark (self->conn);
}

/* Sends the status to a client that still sends, and then lets it know that it need not: nghttp2
   drops frames of a stream that wait behind its RST_STREAM.  */
static void stop (wm_call_t *self)
{
    self->stops = true;
    if (!self->has_headers)
        send_status (self);
    if (self->is_sent)
        reset (self);
}

void wm_call_sent (wm_call_t *self)
{
    self->is_sent = true;
    if (self->stops)
        reset (self);
}

/* Reads messages, and returns how many bytes it took: all, unless a message of a stream waits for
   memory, behind which none begins. A client that sends messages of few bytes would have the
   memory of millions of items otherwise.  */
static size_t read_messages (wm_call_t *self, const uint8_t *data, size_t bytes)
{
    size_t at = 0;
    while (at < bytes && !self->is_done) {
        if (!self->arriving && self->n_unheld && self->method->is_stream)
            return at;
        if (self->closes && !self->arriving && !self->n_head && !self->rest.bytes)
            break;
        if (!self->arriving && self->n_head < sizeof self->head) {
            self->moved_us = self->n_head ? self->moved_us : now_us (self);
            self->head[self->n_head++] = data[at++];
            if (self->n_head < sizeof self->head)
                continue;
            begin_message (self);
            if (self->is_done)
                break;
        }
        wm_item_t *item = self->arriving;
        at += add_body (item, data + at, bytes - at);
        if (self->is_done)
            break;
        if (item->got == item->bytes) {
            item->is_whole = true;
            self->arriving = NULL;
            self->n_head = 0;
            advance (item);
        }
    }
    return bytes;
}

void wm_call_data (wm_call_t *self, const uint8_t *data, size_t bytes)
{
    self->bytes_in += bytes;
    const size_t taken = self->rest.bytes ? 0 : read_messages (self, data, bytes);
    if (taken < bytes && !self->is_done)
        wm_buffer_put (&self->rest, data + taken, bytes - taken);
    settle (self, bytes);
    if (self->is_done && (self->late += bytes) > LATE_BYTES_MAX && !self->stops)
        stop (self);
}

/* The client has sent all, and it is read.  */
static void end_messages (wm_call_t *self)
{
    if (self->n_head || (!self->first && !self->method->is_stream))
        wm_call_finish (self, WM_KS_INTERNAL, "the call has ended in the middle of a message");
    else if (self->method->is_stream)
        respond (self);
    else if (self->first->is_ready)
        self->method->take (self->first);
}

/* Goes on with what came behind a message that had no memory.  */
static void read_rest (wm_call_t *self)
{
    wm_buffer_t *rest = &self->rest;
    if (!rest->bytes)
        return;
    self->rest_at += read_messages (self, rest->data + self->rest_at, rest->bytes - self->rest_at);
    if (self->rest_at < rest->bytes)
        return;
    free (rest->data);
    *rest = (wm_buffer_t){ 0 };
    self->rest_at = 0;
    if (self->is_ended && !self->is_done)
        end_messages (self);
}

void wm_call_end (wm_call_t *self)
{
    if (self->is_ended)
        return;
    self->is_ended = true;
    if (self->is_done) {
        if (!self->has_headers)
            send_status (self);
    } else if (!self->rest.bytes)
        end_messages (self);
}

void wm_call_close (wm_call_t *self)
{
    if (self->last && self->last->watched)
        wm_call_finish (self, WM_KS_UNAVAILABLE, "the gateway ends");
    if (self->is_done || !self->method || !self->method->is_stream)
        return;
    self->closes = true;
    if (!self->first)
        respond (self);
}

/* Bytes of an answer that are sent.  */
static size_t sent_of (const wm_item_t *item)
{
    size_t sent = item->sent + item->sent_piece;
    for (uint32_t i = 0; i < item->at_piece; i++)
        sent += item->piece[i].bytes;
    return sent;
}

void wm_call_sweep (wm_call_t *self, int64_t now)
{
    const bool is_awaited =
        !self->is_done && !self->first && self->method && !self->method->is_stream;
    const bool arrives = (self->n_head || is_awaited) && !self->n_unheld;
    if (self->stops)
        reset (self); /* the status could not be sent since */
    else if (self->is_done && !self->is_ended && now - self->moved_us > LATE_US)
        stop (self);
    if (!self->is_done && !self->is_ended && arrives &&
        wm_front_is_slow (now - self->moved_us, self->arriving ? self->arriving->got : 0))
        wm_call_finish (self, WM_KS_CANCELLED, "the message has come too slowly");
    else if (!self->is_done && self->first && self->first->is_answered &&
             wm_front_is_slow (now - self->first->sends_us, sent_of (self->first)))
        wm_call_finish (self, WM_KS_CANCELLED, "the answer has been taken too slowly");
}
