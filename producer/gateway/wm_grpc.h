/* wm_grpc.h - the gRPC server: inference.GRPCInferenceService over HTTP/2.

   Thread: the loop's.  */
#ifndef WM_GRPC_H
#define WM_GRPC_H

#include "producer/net/wm_io.h"
#include "producer/serving/wm_front.h"

typedef struct wm_grpc_t wm_grpc_t;

/* What the server does with calls: wm_grpc_methods are the service's and grpc.health.v1.Health's.
 */
typedef struct wm_grpc_methods_t wm_grpc_methods_t;
extern const wm_grpc_methods_t wm_grpc_methods;

/* Serves the listening descriptor, which it takes, from wm_grpc_begin on. `front` and `tls`
   (or NULL) must outlive it, as `methods`. Never NULL.  */
wm_grpc_t *wm_grpc_new (wm_front_t *front, int listener, wm_tls_t *tls,
                        const wm_grpc_methods_t *methods);
/* Lets clients connect. False: with errno.  */
bool wm_grpc_begin (wm_grpc_t *self);
/* Cancels what is under way and closes all connections.  */
void wm_grpc_destroy (wm_grpc_t **self_p);

/* Accepts no more connections than those that wait for it, asks clients to go elsewhere, answers
   what was accepted, then closes each connection.  */
void wm_grpc_drain (wm_grpc_t *self);
/* Returns the number of connections that are still open, or to be accepted.  */
size_t wm_grpc_open (const wm_grpc_t *self);

#endif
