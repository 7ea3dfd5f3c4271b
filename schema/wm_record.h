/* wm_record.h - one record of the journal, as it lies on disk.

   The journal is the truth: everything needed to continue a campaign can be rebuilt from these
   records alone, and each can be checked by itself. A record is the first WM_RECORD_HEAD_BYTES of
   wm_record_t, little-endian, then text, name and payload one after another, then zeros to a
   multiple of 8. Every type has the same head; a number that a type does not use is 0:

     CAMPAIGN      digest: the campaign's id; mtime_ns: when it was made (wall clock, for people);
                   text: the pins. The first record of a journal. code 1: the campaign begins again,
                   as another one; no record before this one counts (in none of those a score or an
                   output was committed), but PAUSE, DISTRUST and TOLD.
     INPUT         key.input (from 1), key.generation; size, mtime_ns of the file; text: its real
                   path; name: its output's name. Given again for the same input it replaces it
                   (that pins the file of an input that was kicked without knowing it, or that had
                   size -1: it lay elsewhere, and was not copied yet).
     INPUT_END     key.input; n_event: events of the input, all announced.
     RESULT        key, digest of the batch; n_batch of its event; n_hit, n_held (hits whose status
                   is not 0), attempt; text: engine signature; payload: wm_result_bytes of them.
     HELD          key, digest, n_batch, n_hit; code: wm_hit_status_t; text: why. batch WM_ALL: the
                   event as a whole; ordinal WM_ALL: the input as a whole.
     KICK          key with the new generation, ordinal and batch WM_ALL: the whole input begins
                   again; text: why; size and mtime_ns pin the file as it is now; size -1: the next
                   INPUT does.
     FILE_WRITTEN  key.input; size, mtime_ns, digest of the output file; totals that outlive the
                   results: n_event, n_hit, n_held (hits without scores), n_batch (batches held);
                   text: how many hits have nothing but zeros in their patch, "" for 0.
     FILE_LOST     key.input; text: why. The input is open again, all of it to be scored again
                   (rows that the file at hand can still give are read by the producer).
   Records that stand until the next of their type and name; each is durable before any record
   after it is appended:
     PAUSE         code 1: an operator paused the campaign; text: why. code 0: resumed it.
     ARITHMETIC    name: a class of machines; text: the signature that the campaign has for it;
                   n_event: its largest error on the sample, the bits of a float64; n_hit: hits that
                   it was measured on, 0: none.
     SAMPLE        payload: n_hit hits to measure on (wm_sample.h).
     DISTRUST      name: host and key of a machine; text: the label and signature of its worker, and
                   why, each of the five with a NUL behind it; code: WM_DISTRUST_..., 0: it is
                   trusted again. payload: its inputs that are to begin again, each until its next
                   KICK, or HELD as a whole: bit id % 8 of byte id / 8; none: no more than before.
     TOLD          what --on-done, --on-held and --on-pause have run for: code 1: all inputs, n_hit
                   of them, n_event written; n_held: hits and inputs held; size: a bit for each
                   pause (wm_wait_t).
   The journal's own (never shown to its users):
     EPOCH         first record of an epoch; code: its format (0: as 1), which any release reads
                   from this head; size: the epoch before it;
                   n_event: up to which sequence that epoch was found complete; n_hit: one more than
                   how many of those stay; 0: unknown.
     DROPPED       a RESULT segment was deleted, all its inputs written; n_event: its epoch; its
                   RESULTs were those from sequence n_hit to n_held of that epoch.

   A record is valid at one place only: segment and offset seed its checksums, so that neither a
   stale block nor a record inside a payload is ever taken for one.
   Thread: any.  */
#ifndef WM_RECORD_H
#define WM_RECORD_H

#include "schema/wm_batch.h"
#include "schema/base/wm_fault.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WM_RECORD_MAGIC 0x31524d57u /* "WMR1" */
#define WM_JOURNAL_FORMAT 3u        /* raised when an older release could not read a journal */
#define WM_RECORD_HEAD_BYTES 152u
#define WM_RECORD_TEXT_BYTES_MAX WM_PINS_BYTES_MAX
#define WM_RECORD_BYTES_MAX                                                                        \
    (WM_RECORD_HEAD_BYTES + WM_RECORD_TEXT_BYTES_MAX + 256u + WM_PATCH_BYTES_MAX + 8u)
#define WM_ALL 0xffffffffu

typedef enum {
    WM_RECORD_CAMPAIGN = 1,
    WM_RECORD_INPUT,
    WM_RECORD_INPUT_END,
    WM_RECORD_RESULT,
    WM_RECORD_HELD,
    WM_RECORD_KICK,
    WM_RECORD_FILE_WRITTEN,
    WM_RECORD_FILE_LOST,
    WM_RECORD_EPOCH,
    WM_RECORD_DROPPED,
    WM_RECORD_PAUSE, /* from here on those that stand */
    WM_RECORD_ARITHMETIC,
    WM_RECORD_SAMPLE,
    WM_RECORD_DISTRUST,
    WM_RECORD_TOLD,
    WM_RECORD_TYPE_END, /* one past the last */
} wm_record_type_t;

/* Of DISTRUST: whether anyone is refused that has its key, or its host.  */
enum { WM_DISTRUST_MACHINE = 1, WM_DISTRUST_KEY = 2, WM_DISTRUST_HOST = 4 };

typedef struct {
    uint32_t magic, bytes; /* set by encode; bytes: the whole record, padding included */
    uint32_t type;         /* wm_record_type_t */
    uint32_t code;
    uint64_t epoch, sequence; /* set by the journal; sequence counts from 1 in each epoch */
    uint64_t durable;         /* set by the journal: highest sequence synced before this */
    uint64_t n_kept; /* set by the journal: records of segments that stay, before this one */
    wm_key_t key;
    uint8_t digest[16];
    uint64_t n_event, n_hit, n_held;
    uint32_t n_batch, attempt;
    int64_t size, mtime_ns;
    uint32_t text_bytes, name_bytes, payload_bytes;
    uint32_t head_check; /* set by encode: of the head alone */
    uint64_t checksum;   /* set by encode: of everything, seeded by the place */
    /* From here on memory only. Not terminated; lent: to encode by its caller, from check by the
       buffer given. NULL where the size is 0.  */
    const char *text, *name;
    const uint8_t *payload;
} wm_record_t;

/* Where a record lies. segment 0: nowhere.  */
typedef struct {
    uint64_t segment; /* epoch << 24 | number in the epoch */
    uint32_t offset, bytes;
} wm_place_t;

static_assert (offsetof (wm_record_t, text) == WM_RECORD_HEAD_BYTES,
               "the head is what lies on disk");
static_assert (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little-endian");

/* "CAMPAIGN", "INPUT", ...; "?" for a type that does not exist.  */
const char *wm_record_name (uint32_t type);

/* Whether records of this type stand until the next of their type and name.  */
static inline bool wm_record_stands (uint32_t type)
{
    return type >= WM_RECORD_PAUSE && type < WM_RECORD_TYPE_END;
}

/* Zeroes *self and sets its type.  */
void wm_record_init (wm_record_t *self, wm_record_type_t type);

/* Points text at a C string, and sets its size.  */
void wm_record_text (wm_record_t *self, const char *text);

/* Size of the record once encoded, padding included. WM_EHOST where a part is larger than its
   limit (text WM_RECORD_TEXT_BYTES_MAX, name 255, payload WM_PATCH_BYTES_MAX): a caller that
   checked what its peers sent never sees that.  */
wm_fault_t wm_record_size (const wm_record_t *self, size_t *bytes, wm_error_t *error);

/* Encodes into `buffer` (at least wm_record_size long) for this place; fills magic, bytes and the
   checksums of *self too. Returns the bytes used. The sizes must have passed wm_record_size.  */
size_t wm_record_encode (wm_record_t *self, uint64_t segment, uint64_t offset, uint8_t *buffer);

/* Checks whether a head lies at `buffer` (WM_RECORD_HEAD_BYTES readable): returns the size of the
   whole record, or 0 if it is not a head. Cheap: never reads past the head.  */
size_t wm_record_peek (const uint8_t *buffer, uint64_t segment, uint64_t offset);

/* Checks the whole record at `buffer` (`bytes` readable) and decodes it; its pointers lend into
   `buffer`. Returns its size, or 0 if it is damaged, cut, or not of this place.  */
size_t wm_record_check (wm_record_t *self, const uint8_t *buffer, size_t bytes, uint64_t segment,
                        uint64_t offset);

#endif
