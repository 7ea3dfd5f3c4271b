/* wm_linger.h - reads on what a client still sends after its answer.

   A request that is refused by its headers is answered while its body comes. If its connection were
   closed then, the kernel would reset it, and the client would see that in place of the answer. So
   a second descriptor keeps the connection open after libmicrohttpd has closed its own, until the
   client closes it: for WM_LINGER_US and some bytes at most. What comes is dropped. Thread: the
   loop's.  */
#ifndef WM_LINGER_H
#define WM_LINGER_H

#include "producer/gateway/wm_loop.h"

#include <stddef.h>

#define WM_LINGER_US 30000000
#define WM_LINGERS_MAX 256 /* connections; further ones are closed at once */

typedef struct wm_lingers_t wm_lingers_t;

wm_lingers_t *wm_lingers_new (wm_loop_t *loop);
/* Closes all of them.  */
void wm_lingers_destroy (wm_lingers_t **self_p);

/* Keeps the connection open, by a descriptor of its own: `fd` may be closed.  */
void wm_linger (wm_lingers_t *self, int fd, size_t bytes_max);

#endif
