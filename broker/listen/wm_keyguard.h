/* wm_keyguard.h - which peers the broker's listeners admit, when, and which keys are still good.

   libzmq asks the guard about each connection before it reads a message of it, with keys or
   without: so the guard's owner decides how many are admitted while others are unread.

   With keys a listener takes CURVE connections only. libzmq asks the guard about each (ZAP, over
   a socket in the listener's context): a key of the campaign's table, of this listener's role,
   neither expired nor revoked, is admitted, and its id becomes the User-Id of all messages of its
   connection. The table is read again when it changed; a broken one is reported, and the one before
   stays. libzmq's CURVE admits every key where nothing answers ZAP: so messages without a User-Id
   are refused too, and the listener knocks at itself (wm_listener_test.h). There is no thread that
   could die: the listener's own asks for and answers requests.
   Thread: the listener's.  */
#ifndef WM_KEYGUARD_H
#define WM_KEYGUARD_H

#include "schema/session/wm_keys.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct wm_keyguard_t wm_keyguard_t;

/* Makes what keys the campaign lacks, reads its table and binds ZAP in this context of libzmq,
   before its sockets are bound. Without keys (`campaign` may be NULL) all peers are admitted, in
   turn. NULL and *error: keys that cannot be read or made.  */
wm_keyguard_t *wm_keyguard_new (void *context, bool has_keys, const char *campaign,
                                wm_error_t *error);
void wm_keyguard_destroy (wm_keyguard_t **self_p);

/* Names the key that a listener tries itself with: its refusals are not logged.  */
void wm_keyguard_expect (wm_keyguard_t *self, const uint8_t public_key[32]);

/* Lets a socket ask the guard, and with keys take CURVE only, for keys of this role. Call it before
   the socket is bound.  */
wm_fault_t wm_keyguard_protect (const wm_keyguard_t *self, void *socket, wm_role_t role,
                                wm_error_t *error);

/* Returns the socket on which requests come, to poll.  */
void *wm_keyguard_socket (const wm_keyguard_t *self);

/* Answers the requests that are there, until *room peers are admitted, and takes those from *room:
   the connections of other requests wait.  */
void wm_keyguard_answer (wm_keyguard_t *self, uint32_t *room);

/* Reads the table again where it changed. Call it several times a second.  */
void wm_keyguard_tick (wm_keyguard_t *self, int64_t now_ms);

/* Returns a number that rises whenever the answer of wm_keyguard_why_not may have changed.  */
uint64_t wm_keyguard_generation (const wm_keyguard_t *self);

/* Explains why this key (NULL: none) is not admitted to sessions of this role now; NULL: it is, and
   *reads_only is set.  */
const char *wm_keyguard_why_not (const wm_keyguard_t *self, const char *id, wm_role_t role,
                                 bool *reads_only);

/* Returns the broker's public key; (32).  */
const uint8_t *wm_keyguard_public (const wm_keyguard_t *self);

#endif
