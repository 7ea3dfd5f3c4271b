/* wm_http.h - the HTTP/1.1 server: KServe's API, version 2, and the page of numbers.

   Thread: the loop's.  */
#ifndef WM_HTTP_H
#define WM_HTTP_H

#include "producer/gateway/wm_front.h"
#include "producer/gateway/wm_io.h"

typedef struct wm_http_t wm_http_t;

/* Serves the listening descriptor, which it takes. `front` and `tls` (or NULL) must outlive it.
   NULL with errno.  */
wm_http_t *wm_http_new (wm_front_t *front, int listener, wm_tls_t *tls);
/* Cancels what is under way and closes all connections.  */
void wm_http_destroy (wm_http_t **self_p);

/* Accepts no more connections; those that are open end with their answers.  */
void wm_http_drain (wm_http_t *self);
/* Returns the number of requests that are not answered in full.  */
size_t wm_http_open (const wm_http_t *self);

#endif
