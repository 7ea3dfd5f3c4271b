/* wm_http_private.h - requests over HTTP (wm_http.c) and what they ask for (wm_http_routes.c).  */
#ifndef WM_HTTP_PRIVATE_H
#define WM_HTTP_PRIVATE_H

#include "producer/gateway/wm_http.h"
#include "producer/gateway/wm_infer.h"
#include "producer/gateway/wm_io.h"

#include <microhttpd.h>

/* A connection, for its share of the memory.  */
typedef struct {
    wm_share_t share;
    uint64_t number;
    char peer[WM_ADDRESS_BYTES];
} wm_web_t;

/* One request. Its connection is suspended while it waits for memory or for the models.  */
typedef struct wm_visit_t {
    wm_http_t *http;
    struct MHD_Connection *connection;
    wm_web_t *web;
    struct wm_visit_t *next, *before;
    char *line;       /* "POST /v2/..." */
    const char *path; /* in `line` */
    bool is_post;
    wm_hold_t hold;
    uint8_t *body;
    size_t bytes, body_max, inflated;
    const char *encoding; /* of the request: "gzip", "deflate"; NULL: none */
    bool is_suspended, is_whole, is_pending, is_answered;
    wm_watch_t *watch;           /* of a client that goes away while it is suspended */
    wm_timer_t *timer;           /* of the request's own timeout */
    struct wm_visit_t **changes; /* points to this while a model is loaded or unloaded for it */
    wm_infer_t infer;
    wm_ks_code_t code;
    char model[64];
    size_t bytes_out;
    int64_t begun_us, answered_us;
} wm_visit_t;

/* All of the request is there: answers it now or later.  */
void wm_visit_route (wm_visit_t *self);
/* The models no longer shall answer it.  */
void wm_visit_cancel (wm_visit_t *self);

/* Answer it; `json` and `data` are taken. header: NULL, or one more and its value.  */
void wm_visit_json (wm_visit_t *self, unsigned status, json_t *json);
void wm_visit_fail (wm_visit_t *self, const wm_ks_error_t *error);
void wm_visit_data (wm_visit_t *self, unsigned status, const char *type, uint8_t *data,
                    size_t bytes, const char *header, const char *value);

wm_front_t *wm_visit_front (const wm_visit_t *self);

#endif
