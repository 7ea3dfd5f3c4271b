/* wm_client.h - a session with a broker: how producers, workers and operators talk to it.

   One session is one TCP or ipc connection (never reconnected, no routing id, numeric address): it
   begins with HELLO and WELCOME and ends when the connection closes, the broker is silent for 30 s,
   a send would block, or BYE/REJECT comes. Everything the session had (credit, claims) ends with
   it; the owner opens a new one. Nothing is resent inside a session.

   Thread: one at a time. The library's sockets live on the caller's thread.
   The endpoint is the broker's base address, several of them with commas, or the campaign's
   endpoint.json ("file:///out.wiremill/endpoint.json"), as wm_address.h describes; the role picks
   the port. The file and names are read again at each attempt, so that a session finds a broker
   that has moved.  */
#ifndef WM_CLIENT_H
#define WM_CLIENT_H

#include "schema/session/wm_msg.h"
#include "schema/wm_pins.h"
#include "schema/wm_wait.h"

#include <czmq.h>

typedef struct wm_client_t wm_client_t;

typedef enum {
    WM_CLIENT_MESSAGE, /* wm_client_msg and wm_client_payload return it */
    WM_CLIENT_EXTRA,   /* the owner's own descriptor is readable */
    WM_CLIENT_TIMEOUT, /* nothing within the time given */
    WM_CLIENT_CLOSED,  /* the session ended; wm_client_error has the reason */
} wm_client_event_t;

/* Makes a closed session. `label` names this process for people ("host:pid"); `signature` (workers)
   is the engine signature. An operator that only reads is a WM_ROLE_MONITOR: refusals ask for that
   key, and an operator's does as well. `extra` (may be NULL): a descriptor of the owner's that
   wm_client_wait watches too. Never NULL (without memory the process ends).  */
wm_client_t *wm_client_new (const char *endpoint, wm_role_t role, const char *label,
                            const char *signature, const int *extra);
void wm_client_destroy (wm_client_t **self_p);

/* Sets the class of machines that a worker's later HELLOs name (wm_device_class), and the largest
   error that it measured on n_hit hits (0, 0: it measured nothing); until then the class is "", and
   the broker gives it no work.  */
void wm_client_class (wm_client_t *self, const char *class, double error, uint32_t n_hit);

/* Of the keys that campaigns' folders offered (wm_join_offer) this session uses those of one folder
   alone, "" of none; before, those of all. `campaign` is lent.  */
void wm_client_keys_of (wm_client_t *self, const char *campaign);

/* Tries once to open a session, at most timeout_ms long: resolves the endpoint and gives each
   address its share of the time (the resolver has limits of its own): connects, sends HELLO with
   `hello` (hello_bytes, may be 0) as payload, waits for WELCOME. WM_OK: open, pins and epoch are
   known. WM_EAGAIN: not reachable now. WM_EPEER: refused, as the text explains; trying again is
   useless. WM_EKEY: the broker refused every key of this process (wm_join.h), or wants one and this
   process has none; trying again is useless, too. The instance id stays the same for the life of
   the object.  */
wm_fault_t wm_client_open (wm_client_t *self, const void *hello, size_t hello_bytes,
                           int64_t timeout_ms, wm_error_t *error);

/* Returns a pause of delay_ms / 2 to delay_ms, drawn at random: a farm that lost its broker does
   not come back at the same moment.  */
int64_t wm_client_pause_ms (int64_t delay_ms);

/* Calls wm_client_open again and again with back-off (also before the first time where the broker
   ended the last session as BUSY) until open, WM_EPEER, WM_EKEY, `give_up_ms`
   without a broker (WM_EAGAIN), or SIGINT/SIGTERM seen by czmq's zsys_interrupted (WM_EAGAIN).  */
wm_fault_t wm_client_open_patiently (wm_client_t *self, const void *hello, size_t hello_bytes,
                                     int64_t give_up_ms, wm_error_t *error);

bool wm_client_is_open (const wm_client_t *self);
uint64_t wm_client_epoch (const wm_client_t *self);
const wm_pins_t *wm_client_pins (const wm_client_t *self);      /* lent; valid while open */
const char *wm_client_shape (const wm_client_t *self);          /* of a ready-made patch; "": any */
const uint8_t *wm_client_pins_digest (const wm_client_t *self); /* (16) */
const uint8_t *wm_client_campaign (const wm_client_t *self);    /* (16) the campaign's id */
bool wm_client_wants_sample (const wm_client_t *self); /* a producer is to send SAMPLE first */
const wm_error_t *wm_client_error (const wm_client_t *self); /* why the session ended */

/* Returns the reason of the broker's BYE or REJECT that ended the last session; 0: it ended
   otherwise.  */
wm_reason_t wm_client_reason (const wm_client_t *self);

/* Lets open sessions end after so long without a byte of the broker, in place of silence_ms: at
   least three heartbeats, at most silence_ms.  */
void wm_client_silence (wm_client_t *self, int64_t ms);

/* Returns how long the broker had been silent when that ended the last session; 0: it ended
   otherwise.  */
int64_t wm_client_silent_ms (const wm_client_t *self);

/* Sends header and payload (copied; NULL for none). WM_EAGAIN: the session has ended.  */
wm_fault_t wm_client_send (wm_client_t *self, const wm_msg_t *msg, const void *payload,
                           size_t payload_bytes);

/* Sets what the broker gets now and with each automatic HEARTBEAT, also in later sessions: what
   this process waits for, and a text with the details; WM_WAIT_NONE and "" end it.  */
void wm_client_waits (wm_client_t *self, wm_wait_t wait, const char *text);

/* Waits for the next event, at most timeout_ms. Heartbeats of the broker are not returned; if
   nothing was sent for heartbeat_ms a HEARTBEAT is sent automatically (workers send richer ones);
   so an owner calls it at least every few seconds. A signal ends the wait early with TIMEOUT.
   Messages that arrived before a close are returned before CLOSED, up to the library's limit of
   1,000 unread messages (nothing may depend on the last message of a broker: it may not have
   arrived at all). Only messages that the broker may send to this role arrive; any other ends the
   session with WM_EPEER.  */
wm_client_event_t wm_client_wait (wm_client_t *self, int64_t timeout_ms);

/* Returns whether a large message is on its way over a slow link: nothing whole came for two
   heartbeats, and bytes came since. Who waits for an answer waits on.  */
bool wm_client_is_receiving (const wm_client_t *self);

/* The message of the last WM_CLIENT_MESSAGE; lent until the next wait.  */
const wm_msg_t *wm_client_msg (const wm_client_t *self);
const uint8_t *wm_client_payload (const wm_client_t *self, size_t *bytes);

/* Sends BYE with this reason and closes.  */
void wm_client_close (wm_client_t *self, wm_reason_t reason, const char *text);

#endif
