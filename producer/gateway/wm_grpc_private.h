/* wm_grpc_private.h - connections (wm_grpc.c), calls (wm_grpc_call.c) and the methods that are
   called (wm_grpc_method.c).

   A call is one HTTP/2 stream. Its messages are items: one of a unary method, any number of
   ModelStreamInfer, which are answered in their order. An item holds its bytes in the budget from
   the moment its length is known until its answer is sent. The window of a stream is opened beyond
   its first 64 KiB once its message holds its bytes. A call has one message at most that waits for
   memory: what comes behind it stays as it came, within the window.

   A call without a message holds nothing in the budget. Such calls, whose memory is their own and
   nghttp2's, are counted: beyond a limit of all connections, and a share of it for each address,
   a new call is refused.  */
#ifndef WM_GRPC_PRIVATE_H
#define WM_GRPC_PRIVATE_H

#include "producer/gateway/wm_acceptor.h"
#include "producer/gateway/wm_grpc.h"
#include "producer/net/wm_idle_list.h"
#include "producer/net/wm_inflate.h"
#include "producer/serving/wm_infer.h"

#include <nghttp2/nghttp2.h>

#define WM_GRPC_WINDOW_BYTES (16 << 20) /* of a connection */

typedef struct wm_call_t wm_call_t;
typedef struct wm_conn_t wm_conn_t;
typedef struct wm_item_t wm_item_t;
typedef struct wm_method_t wm_method_t;

/* One message, and its answer.  */
struct wm_item_t {
    wm_call_t *call;
    wm_item_t *next;
    wm_infer_t infer;
    wm_item_t **changes; /* points to this item while a model is loaded or unloaded for it */
    wm_hold_t hold;
    wm_timer_t *timer; /* of the request's own timeout */
    uint8_t *body;     /* room for body_max bytes, of `bytes` */
    size_t bytes, got, body_max;
    wm_zip_t *zip;      /* while it is inflated */
    wm_slice_t slice;   /* while values are read */
    bool is_whole;      /* all bytes have come */
    bool has_hold;      /* memory is granted */
    bool is_compressed; /* it is still to be inflated */
    bool is_ready;      /* the method may have it */
    bool is_pending;    /* the models have it */
    bool is_answered;   /* `out` is complete */
    int64_t begun_us;
    int64_t sends_us;   /* since when its answer could be sent */
    char *watched;      /* the service whose health it looks at; else NULL */
    const char *status; /* ... and its status as the client has it; NULL: not yet */
    wm_buffer_t out;    /* the answer, ... */
    wm_piece_t *piece;  /* ... and values of outputs that are sent between its bytes: n_piece */
    uint32_t n_piece, at_piece;
    size_t sent, sent_piece; /* bytes of `out`, of the next piece */
};

struct wm_call_t {
    wm_conn_t *conn;
    wm_call_t *next, *before;
    int32_t stream;
    const wm_method_t *method;
    wm_timer_t *timer; /* of the client's deadline */
    int64_t begun_us, deadline_us;
    int64_t moved_us; /* when the message that arrives began or got its memory, or the status */
    uint8_t head[5];  /* of a message */
    unsigned n_head;
    wm_item_t *first, *last;
    wm_item_t *arriving; /* the last, while it is not whole; else NULL */
    size_t n_unheld;     /* items without memory */
    wm_buffer_t rest;    /* what came behind them, of a stream; its first rest_at bytes are read */
    size_t rest_at;
    size_t owed;      /* bytes for which the stream's window was not opened again */
    size_t owed_conn; /* ... and the connection's */
    size_t bytes_in, bytes_out;
    size_t late; /* bytes that came behind the status */
    char path[96];
    bool is_post, is_grpc, can_inflate; /* what the headers say */
    bool has_bad_encoding;
    int64_t timeout_us; /* of grpc-timeout; 0: none */
    bool is_ended;      /* the client has sent all */
    bool is_waiting;    /* its answers come later (nghttp2 has deferred) */
    bool has_headers;   /* the response's are submitted */
    bool is_done;       /* its status is submitted */
    bool is_sent;       /* ... and sent */
    bool stops;         /* the stream is reset once it is */
    bool is_idle;       /* it has no message */
    bool is_refused;    /* because too many calls are idle */
    bool closes;        /* the gateway ends: it takes no more messages */
    wm_ks_code_t code;
    char *text; /* of the status; NULL: none */
    char model[64];
};

struct wm_conn_t {
    wm_grpc_t *grpc;
    wm_conn_t *next, *before;
    wm_io_t io;
    nghttp2_session *session;
    wm_loop_watch_t *watch;
    wm_share_t share;
    wm_idle_t idle; /* while it has no call */
    uint64_t number;
    char peer[WM_TCP_ADDRESS_BYTES];
    wm_buffer_t out;
    size_t sent;
    size_t extra; /* bytes that the budget counts of `out` */
    wm_call_t *calls;
    size_t n_idle, n_refused;
    size_t unheld;    /* bytes of messages that have no memory granted */
    size_t owed;      /* of these, bytes for which its window was not opened again */
    int64_t moved_us; /* when bytes were last taken by the peer, or none waited */
    bool is_marked, is_dead, is_greeted, is_warned, is_refusing, is_drained;
    bool lingers;   /* all is sent: what comes is dropped until the peer ends, too */
    size_t dropped; /* ... bytes of it */
};

struct wm_grpc_t {
    wm_front_t *front;
    const wm_grpc_methods_t *methods;
    wm_due_t *send_out; /* of a wm_conn_t */
    wm_tls_t *tls;
    wm_acceptor_t *acceptor; /* NULL: it accepts no more */
    wm_timer_t *sweep;
    wm_conn_t *conns;
    wm_idle_list_t idle;
    size_t n_conns;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    size_t unheld; /* bytes of messages that have no memory granted */
    size_t n_idle; /* calls without a message */
    uint8_t *in;   /* what is read, of one connection after the other */
    bool is_draining;
};

/* ---- methods --------------------------------------------------------------------------------- */

struct wm_method_t {
    const char *name;
    bool is_stream;
    /* Takes a whole message; answers it by wm_call_answer or wm_call_fail, now or later.  */
    void (*take) (wm_item_t *item);
    /* Of methods that answer with JSON at once.  */
    const wm_proto_field_t *request, *response;
    json_t *(*answer) (wm_front_t *front, const json_t *request, wm_ks_error_t *error);
};

struct wm_grpc_methods_t {
    /* The method of a path, or NULL.  */
    const wm_method_t *(*of) (const char *path);
    /* The models no longer shall answer this item.  */
    void (*cancel) (wm_item_t *item);
};
/* Reads the request of an item; NULL: it has been refused.  */
json_t *wm_method_request (wm_item_t *item);
/* `take` of methods that answer with JSON at once.  */
void wm_method_json (wm_item_t *item);
/* Those of grpc.health.v1.Health; without a name: the end.  */
extern const wm_method_t wm_health_methods[];

/* ---- calls ----------------------------------------------------------------------------------- */

wm_call_t *wm_call_new (wm_conn_t *conn, int32_t stream);
/* Ends it with all that it holds; nothing is sent.  */
void wm_call_destroy (wm_call_t **self_p);

void wm_call_header (wm_call_t *self, const char *name, size_t n_name, const char *value,
                     size_t n_value);
/* All headers are there.  */
void wm_call_begin (wm_call_t *self);
void wm_call_data (wm_call_t *self, const uint8_t *data, size_t bytes);
/* The client has sent all.  */
void wm_call_end (wm_call_t *self);
/* The gateway ends: a stream is answered what it has sent, and then UNAVAILABLE; one that watches
   health is so at once.  */
void wm_call_close (wm_call_t *self);
/* All of the response has been sent.  */
void wm_call_sent (wm_call_t *self);
/* Ends it where its message arrives, or its answer is taken, too slowly.  */
void wm_call_sweep (wm_call_t *self, int64_t now_us);

/* Answers an item with the message that the caller has put into item->out behind
   WM_CALL_HEAD_BYTES, and into item->piece.  */
#define WM_CALL_HEAD_BYTES 5
void wm_call_answer (wm_item_t *item);
/* Answers it by a status: the end of its call.  */
void wm_call_fail (wm_item_t *item, const wm_ks_error_t *error);
/* Appends an item without a message, for another answer to the last one.  */
wm_item_t *wm_call_item (wm_call_t *self);
/* Ends the call by a status, whatever its items are doing.  */
void wm_call_finish (wm_call_t *self, wm_ks_code_t code, const char *text);

/* ---- connections ----------------------------------------------------------------------------- */

/* Lets nghttp2 send what it has, before the loop waits again.  */
void wm_conn_mark (wm_conn_t *self);

#endif
