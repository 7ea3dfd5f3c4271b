/* wm_io.h - a listening socket and its connections, plain or by TLS; nothing blocks.

   Thread: the loop's.  */
#ifndef WM_IO_H
#define WM_IO_H

#include "schema/base/wm_fault.h"
#include "schema/base/wm_tcp.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* As wm_tcp_listen, of a descriptor that another process listens on, too.  */
int wm_io_inherit (int listener, char address[WM_TCP_ADDRESS_BYTES], wm_error_t *error);

/* False: with errno.  */
bool wm_io_begin (int listener);
/* From now on no client begins to connect here: the kernel drops its first packet, and it tries
   again in a second. Those that have begun can still be accepted. Closing the descriptor would
   reset them.  */
void wm_io_drain (int listener);

/* Accepts a connection; `peer` is its address. -1 with errno.  */
int wm_io_accept (int listener, char peer[WM_TCP_ADDRESS_BYTES]);

/* ---- TLS ------------------------------------------------------------------------------------- */

typedef struct wm_tls_t wm_tls_t;

/* Reads the server's certificate chain and key (PEM); `clients` (or NULL): authorities whose
   certificates clients must have; is_h2: clients speak HTTP/2, else HTTP/1.1. NULL with *error.  */
wm_tls_t *wm_tls_new (const char *certificate, const char *key, const char *clients, bool is_h2,
                      wm_error_t *error);
void wm_tls_destroy (wm_tls_t **self_p);

/* ---- connections ----------------------------------------------------------------------------- */

typedef struct {
    int fd;
    struct ssl_st *ssl; /* NULL: plain */
    bool wants_write;   /* TLS must write before it can read */
    bool wants_read;    /* ... must read before it can write */
    bool is_known;      /* the peer has begun to speak, by TLS or not */
} wm_io_t;

/* Takes the descriptor. `tls` may be NULL. False: no memory; the descriptor is closed.  */
bool wm_io_open (wm_io_t *self, int fd, wm_tls_t *tls);
void wm_io_close (wm_io_t *self);
/* Says that nothing more is written; it can still be read. False: the connection has ended.  */
bool wm_io_end (wm_io_t *self);

/* As read and send: -1 with EAGAIN where nothing can be had now. A read by TLS fails with EPROTO
   where the peer speaks HTTP without TLS: wm_io_unseal leaves a plain connection, of which nothing
   is read yet.  */
ssize_t wm_io_read (wm_io_t *self, void *to, size_t bytes);
ssize_t wm_io_write (wm_io_t *self, const void *from, size_t bytes);
void wm_io_unseal (wm_io_t *self);
/* Whether nothing has come that is not read yet.  */
bool wm_io_is_quiet (const wm_io_t *self);
/* Whether bytes wait inside TLS, which the kernel does not tell of.  */
bool wm_io_has_more (const wm_io_t *self);

#endif
