/* wm_acceptor.h - a listening socket in the loop: accepts connections while there is room for them.

   Thread: the loop's.  */
#ifndef WM_ACCEPTOR_H
#define WM_ACCEPTOR_H

#include "producer/gateway/wm_front.h"
#include "producer/gateway/wm_io.h"

typedef struct wm_acceptor_t wm_acceptor_t;

/* Takes a connection, which its address may have: a descriptor, and "ADDRESS:PORT" of its peer. It
   counts it in front->connections[kind].  */
typedef void wm_accepted_t (void *argument, int fd, const char *peer);

/* Takes the listening descriptor. NULL with errno: it is closed.  */
wm_acceptor_t *wm_acceptor_new (wm_front_t *front, wm_front_kind_t kind, int listener,
                                wm_accepted_t *enter, void *argument);
/* Accepts no more.  */
void wm_acceptor_destroy (wm_acceptor_t **self_p);

#endif
