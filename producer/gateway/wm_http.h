/* wm_http.h - the HTTP/1.1 server: KServe's API, version 2, and the page of numbers.

   Thread: the loop's.  */
#ifndef WM_HTTP_H
#define WM_HTTP_H

#include "producer/net/wm_io.h"
#include "producer/serving/wm_front.h"

typedef struct wm_http_t wm_http_t;

/* What the server does with requests: wm_http_routes is KServe's API and the page of numbers.  */
typedef struct wm_http_routes_t wm_http_routes_t;
extern const wm_http_routes_t wm_http_routes;

/* Serves the listening descriptor, which it takes, from wm_http_begin on. `front` and `tls`
   (or NULL) must outlive it, as `routes`. Never NULL.  */
wm_http_t *wm_http_new (wm_front_t *front, int listener, wm_tls_t *tls,
                        const wm_http_routes_t *routes);
/* Lets clients connect. False: with errno.  */
bool wm_http_begin (wm_http_t *self);
/* Cancels what is under way and closes all connections.  */
void wm_http_destroy (wm_http_t **self_p);

/* Accepts no more connections than those that wait for it. Each ends with its next answer, or
   where it has none to send for a second.  */
void wm_http_drain (wm_http_t *self);
/* Returns the number of connections that are still open, or to be accepted.  */
size_t wm_http_open (const wm_http_t *self);

#endif
