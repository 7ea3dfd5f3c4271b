/* wm_http_private.h - requests over HTTP (wm_http.c) and what they ask for (wm_http_routes.c).  */
#ifndef WM_HTTP_PRIVATE_H
#define WM_HTTP_PRIVATE_H

#include "producer/gateway/wm_http.h"
#include "producer/net/wm_idle_list.h"
#include "producer/net/wm_inflate.h"
#include "producer/net/wm_io.h"
#include "producer/serving/wm_infer.h"
#include "schema/base/wm_h1.h"

#define WM_WEB_CONTINUE_BYTES 26 /* "HTTP/1.1 100 Continue" with its end */

typedef struct wm_visit_t wm_visit_t;

/* A connection. It has one request at a time: what comes behind it is read once it is answered.  */
typedef struct wm_web_t {
    wm_http_t *http;
    struct wm_web_t *next, *before;
    wm_io_t io;
    wm_loop_watch_t *watch;
    wm_share_t share;
    wm_idle_t idle; /* while it has no request */
    uint64_t number;
    char peer[WM_TCP_ADDRESS_BYTES];
    wm_visit_t *visit; /* NULL: none, or its head has not come */
    uint8_t *rest;     /* what came and is not read yet: rest_bytes from rest_at */
    size_t rest_at, rest_bytes;
    size_t piece;     /* ... of which so many are the body's */
    int64_t since_us; /* since when it is idle, waits for the end of a head, or lingers */
    int64_t moved_us; /* when a byte came or went last */
    size_t dropped;   /* bytes, while it lingers */
    bool has_head_begun, is_closing, lingers, is_marked, is_dead;
    wm_timer_t *turn;         /* until it goes on with what came; NULL: it need not wait */
    size_t out_at, out_bytes; /* of `out`, what is still to be sent */
    char out[WM_WEB_CONTINUE_BYTES + WM_H1_ANSWER_BYTES];
    wm_h1_t h1;
} wm_web_t;

/* An answer. `type` and `header` are literals.  */
typedef struct {
    unsigned status;
    const char *type, *header; /* header: NULL, or one more */
    char value[24];            /* of it */
    bool is_scores;            /* of an inference: the client may have it compressed */
    uint8_t *data;
    size_t bytes;
} wm_page_t;

/* One request. It is suspended while it waits for memory or for the models.  */
struct wm_visit_t {
    wm_http_t *http;
    wm_web_t *web;
    char *line;           /* "POST /v2/..." */
    const char *path;     /* in `line` */
    bool is_get, is_post; /* GET or HEAD; POST; of another method neither */
    wm_hold_t hold;
    uint8_t *body;
    size_t bytes, body_max;
    size_t announced;     /* bytes of the body, by its header; 0: none says it */
    size_t extra;         /* what the request costs beside it */
    wm_zip_t *zip;        /* while the body is inflated, or the answer compressed */
    wm_slice_t slice;     /* while values in JSON are read or written */
    const char *encoding; /* of the request: "gzip", "deflate"; NULL: none */
    bool is_suspended, is_whole, is_pending, is_answered;
    wm_timer_t *timer;           /* of the request's own timeout */
    struct wm_visit_t **changes; /* points to this while a model is loaded or unloaded for it */
    wm_infer_t infer;
    wm_infer_page_t written; /* the answer to it, while it is written */
    wm_page_t page;          /* the answer, while it is compressed, then while it is sent */
    size_t sent;             /* ... bytes of it */
    wm_ks_code_t code;
    char model[64];
    size_t bytes_out;
    int64_t begun_us;
    int64_t moves_us;    /* since when the client may send, or takes the answer */
    size_t moves_before; /* bytes that it had sent until then */
};

struct wm_http_routes_t {
    /* All of the request is there: answers it now or later.  */
    void (*serve) (wm_visit_t *self);
    /* The models no longer shall answer it.  */
    void (*cancel) (wm_visit_t *self);
};

/* Answer it; `json` and the page's data are taken.  */
void wm_visit_json (wm_visit_t *self, unsigned status, json_t *json);
void wm_visit_fail (wm_visit_t *self, const wm_ks_error_t *error);
/* Answers 405: the path takes these methods only.  */
void wm_visit_allow (wm_visit_t *self, const char *methods);
void wm_visit_page (wm_visit_t *self, const wm_page_t *page);

/* Takes memory for so many bytes in all. False: the request waits, suspended, until `granted`.  */
bool wm_visit_hold (wm_visit_t *self, size_t bytes, wm_due_t *granted);

wm_front_t *wm_visit_front (const wm_visit_t *self);

#endif
