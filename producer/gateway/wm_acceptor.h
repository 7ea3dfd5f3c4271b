/* wm_acceptor.h - a listening socket in the loop: accepts connections while there are places.

   Where all are taken, the connection that is idle for longest makes place for a new one. Where
   none is idle, clients wait in the kernel.
   Thread: the loop's.  */
#ifndef WM_ACCEPTOR_H
#define WM_ACCEPTOR_H

#include "producer/net/wm_io.h"
#include "producer/serving/wm_front.h"

typedef struct wm_acceptor_t wm_acceptor_t;

typedef struct {
    wm_front_kind_t kind;
    size_t bytes; /* that a connection takes, as wm_front_enter has them */
    /* Takes a connection, which its address may have: a descriptor, and "ADDRESS:PORT" of its
       peer. It counts it (wm_front_enter).  */
    void (*enter) (void *argument, int fd, const char *peer);
    /* Returns whether a connection is idle. closes: closes the one that is so for longest.  */
    bool (*spare) (void *argument, bool closes);
} wm_acceptor_how_t;

/* Takes the listening descriptor; `how` is lent. Never NULL.  */
wm_acceptor_t *wm_acceptor_new (wm_front_t *front, const wm_acceptor_how_t *how, int listener,
                                void *argument);
/* Lets clients connect. False: with errno.  */
bool wm_acceptor_begin (wm_acceptor_t *self);
/* Accepts those that have connected, or are about to, and destroys *self_p: later, when none is
   left. Those of a socket that another process has, too, are its own.  */
void wm_acceptor_drain (wm_acceptor_t **self_p);
/* Accepts no more, at once.  */
void wm_acceptor_destroy (wm_acceptor_t **self_p);

#endif
