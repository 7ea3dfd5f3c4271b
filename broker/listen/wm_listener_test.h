/* wm_listener_test.h - the broker tries its own listeners, as a stranger would: by an unknown key,
   and without any.

   libzmq's CURVE admits every peer if nothing answers its questions about keys, and whoever
   changes the broker may forget to protect a listener. So each listener is tried at the start and
   every minute. Thread: the listener's.  */
#ifndef WM_LISTENER_TEST_H
#define WM_LISTENER_TEST_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wm_listener_test_t wm_listener_test_t;

/* Makes one for `n` addresses, copied, of listeners with this public key. Never NULL.  */
wm_listener_test_t *wm_listener_test_new (void *context, const uint8_t public_key[32],
                                          const char *const address[], size_t n);
void wm_listener_test_destroy (wm_listener_test_t **self_p);

/* Returns the unknown key; (32).  */
const uint8_t *wm_listener_test_stranger (const wm_listener_test_t *self);

/* Begins a round where none is running.  */
void wm_listener_test_begin (wm_listener_test_t *self);

/* Returns whether a round is running, and the socket that has its news.  */
bool wm_listener_test_is_running (const wm_listener_test_t *self);
void *wm_listener_test_socket (const wm_listener_test_t *self);

/* Returns whether every listener refused the stranger in the last round.  */
bool wm_listener_test_was_refused (const wm_listener_test_t *self);

/* Goes on with the round. WM_EHOST: a listener let the stranger in.  */
wm_fault_t wm_listener_test_read (wm_listener_test_t *self, int64_t now_ms, wm_error_t *error);

#endif
