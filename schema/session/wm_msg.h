/* wm_msg.h - the messages between broker, producer, worker and operator.

   The grammar, and what each message means, is wire.abnf beside this file. A message is a header
   frame, a msgpack array [type, field, ...] of at most 4 KiB with the fields of its type in order,
   and at most one raw payload frame. wm_msg_t holds the header; payloads travel beside it.
   The decoder is strict: exact field count and kinds, lengths bounded, no trailing bytes.
   It never allocates. Thread: any.  */
#ifndef WM_MSG_H
#define WM_MSG_H

#include "schema/wm_batch.h"
#include "schema/wm_limits.h"

#include <stdbool.h>

typedef enum {
    /* session */
    WM_MSG_HELLO = 1,
    WM_MSG_WELCOME,
    WM_MSG_REJECT,
    WM_MSG_BYE,
    WM_MSG_HEARTBEAT,
    WM_MSG_ACK,
    /* producer <-> broker */
    WM_MSG_INPUT,
    WM_MSG_INPUT_ACK,
    WM_MSG_SUBMIT,
    WM_MSG_SUBMIT_ACK,
    WM_MSG_NEED,
    WM_MSG_BATCH,
    WM_MSG_EVENT_DONE,
    WM_MSG_INPUT_END,
    WM_MSG_FETCH,
    WM_MSG_RESULTS,
    WM_MSG_FILE_WRITTEN,
    WM_MSG_FILE_LOST,
    WM_MSG_INPUT_HELD,
    /* worker <-> broker */
    WM_MSG_MODEL_GET,
    WM_MSG_MODEL,
    WM_MSG_CREDIT,
    WM_MSG_TASK,
    WM_MSG_RESULT,
    WM_MSG_RESULT_ACK,
    WM_MSG_NACK,
    WM_MSG_REVOKE,
    WM_MSG_DRAIN,
    /* operator <-> broker */
    WM_MSG_STATUS,
    WM_MSG_STATUS_REPLY,
    WM_MSG_CONTROL,
    /* which arithmetic a campaign in split or fast takes */
    WM_MSG_SAMPLE,
    WM_MSG_TRIAL_GET,
    WM_MSG_TRIAL,
    WM_MSG_TYPE_END, /* one past the last */
} wm_msg_type_t;

/* MONITOR is the role of a key only: on the wire a monitor is an operator, who may only read.  */
typedef enum {
    WM_ROLE_WORKER = 1,
    WM_ROLE_PRODUCER = 2,
    WM_ROLE_OPERATOR = 3,
    WM_ROLE_MONITOR = 4,
} wm_role_t;

/* INPUT.size of a file that is not here yet: the next INPUT with its size pins it.  */
#define WM_SIZE_UNKNOWN UINT64_MAX

/* INPUT_ACK.code: the answer to a claim.  */
typedef enum {
    WM_INPUT_OPEN = 1,    /* known and not claimed by this INPUT (code 0) */
    WM_INPUT_CLAIMED = 2, /* claimed until the session ends: submit its events */
    WM_INPUT_BUSY = 3,    /* another producer holds the claim: ask again later */
    WM_INPUT_WRITTEN = 4, /* done; size and mtime_ns are those of the output file */
    WM_INPUT_HELD = 5,    /* held as a whole; text explains */
} wm_input_answer_t;

/* TRIAL.code */
typedef enum {
    WM_TRIAL_WAIT = 0,  /* no producer has sent the sample yet: ask again */
    WM_TRIAL_READY = 1, /* payload: the signatures of known classes, and the sample */
} wm_trial_code_t;

/* SUBMIT_ACK payload: one of these per batch */
typedef enum { WM_WANT = 0, WM_HAVE = 1, WM_HELD = 2 } wm_have_t;

/* REJECT.code, BYE.code */
typedef enum {
    WM_REASON_DONE = 1,     /* finished cleanly */
    WM_REASON_DRAINED = 2,  /* asked to stop */
    WM_REASON_PROTOCOL = 3, /* another version, or an invalid or unexpected message */
    WM_REASON_ROLE = 4,     /* wrong port for this role */
    WM_REASON_PINS = 5,     /* another model, precision, specification or limits */
    WM_REASON_BUSY = 6,     /* too many peers */
    WM_REASON_DIGEST = 7,   /* other bytes for a key that is known */
    WM_REASON_STALE = 8,    /* a key or claim of another epoch or generation */
    WM_REASON_STOPPING = 9, /* the broker stops */
    WM_REASON_FAILED = 10,  /* the peer failed, as the text explains */
    WM_REASON_KEY = 11,     /* the peer's key expired, or was revoked */
} wm_reason_t;

typedef struct {
    wm_msg_type_t type;
    wm_key_t key;
    uint8_t digest[16];   /* XXH3-128 */
    uint8_t instance[16]; /* of the sender's process, random; in WELCOME the campaign's id */
    uint32_t protocol, role, code;
    uint32_t n_batch, n_hit, n_held, attempt;
    uint64_t epoch, count, received, offset, size;
    int64_t mtime_ns, run, subrun, event;
    double error; /* of a score, largest on the sample; any bits: the broker checks them */
    char text[WM_TEXT_BYTES_MAX + 1];
    char name[256];
    char path[WM_PATH_BYTES_MAX + 1];
    char class[WM_CLASS_BYTES_MAX + 1]; /* of machines, as far as scores can differ */
} wm_msg_t;

/* One line of a SUBMIT payload: the batches first, then the held hits.  */
typedef struct {
    uint8_t digest[16];
    uint32_t n_hit, raw_bytes;
} wm_manifest_batch_t;
typedef struct {
    uint32_t row;    /* of the hit in the event, in input order */
    uint32_t status; /* wm_hit_status_t */
} wm_manifest_held_t;

/* HELLO payload of a worker: what it still holds.  */
typedef struct {
    wm_key_t key;
    uint8_t digest[16];
    uint32_t n_hit, unacked; /* unacked 1: a result that was sent and not acknowledged; 0: a task */
} wm_hello_held_t;

/* Zeroes *self and sets its type.  */
void wm_msg_init (wm_msg_t *self, wm_msg_type_t type);

/* "HELLO", "WELCOME", ...; "?" for a type that does not exist.  */
const char *wm_msg_name (wm_msg_type_t type);

/* Encodes the header into `frame` (WM_HEADER_BYTES_MAX long); returns its size. Asserts on strings
   that are not terminated; never fails otherwise (the fields of every type fit by construction). */
size_t wm_msg_encode (const wm_msg_t *self, uint8_t frame[WM_HEADER_BYTES_MAX]);

/* Decodes a header frame. WM_EPEER names what is wrong. Strings are terminated and hold no NUL.  */
wm_fault_t wm_msg_decode (wm_msg_t *self, const uint8_t *frame, size_t bytes, wm_error_t *error);

/* A header travels sealed: 8 bytes behind it are the XXH3-64 of the header, seeded with the sum of
   its payload's and of its number, so that a bit that flips in transit (TCP's own checksum is weak)
   ends a connection and never becomes a score. `number` counts the messages that this side sent in
   this connection, from 0: libzmq drops a frame whose COMMAND bit is set, and the next message then
   breaks the seal. wm_msg_check is the payload's, 0 of none (NULL). wm_msg_seal returns the size of
   the frame; wm_msg_unseal that of the header in it, or 0: damaged in transit, one before it was
   lost, or not a wiremill message.  */
uint64_t wm_msg_check (const void *payload, size_t bytes);
size_t wm_msg_seal (uint8_t frame[WM_HEADER_BYTES_MAX], size_t bytes, uint64_t payload_check,
                    uint64_t number);
size_t wm_msg_unseal (const uint8_t *frame, size_t bytes, uint64_t payload_check, uint64_t number);

/* Whether a message of this type carries a payload frame.  */
bool wm_msg_has_payload (wm_msg_type_t type);

/* Whether a broker sends messages of this type to sessions of this role. (What peers may send it is
   the broker's own table.)  */
bool wm_msg_is_for (wm_msg_type_t type, wm_role_t role);

#endif
