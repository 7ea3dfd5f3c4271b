/* wm_http.h - the HTTP/1.1 server: KServe's API, version 2, and the page of numbers.

   Thread: the loop's; libmicrohttpd has none of its own.  */
#ifndef WM_HTTP_H
#define WM_HTTP_H

#include "producer/gateway/wm_front.h"

typedef struct wm_http_t wm_http_t;

/* Files, PEM; both are needed.  */
typedef struct {
    const char *certificate, *key;
} wm_http_tls_t;

/* Serves the listening descriptor, which it takes. `front` must outlive it; `tls` may be NULL. NULL
   with *error.  */
wm_http_t *wm_http_new (wm_front_t *front, int listener, const wm_http_tls_t *tls,
                        wm_error_t *error);
/* Cancels what is under way and closes all connections.  */
void wm_http_destroy (wm_http_t **self_p);

/* Accepts no more connections; those that are open end with their answers.  */
void wm_http_drain (wm_http_t *self);
/* Returns the number of requests that are not answered in full.  */
size_t wm_http_open (const wm_http_t *self);

#endif
