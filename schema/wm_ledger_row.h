/* wm_ledger_row.h - what the ledger knows of an input and of a batch, as wm_core takes it over.

   Thread: any.  */
#ifndef WM_LEDGER_ROW_H
#define WM_LEDGER_ROW_H

#include "schema/wm_record.h"

/* The state of an input, in the ledger and in wm_core. (What a producer is answered when it claims
   an input is wm_input_answer_t; where it stands in its own work, producer/session/wm_input.h.)  */
typedef enum {
    WM_LEDGER_ADDING = 0, /* in wm_core only: its INPUT is not durable yet */
    WM_LEDGER_OPEN = 1,
    WM_LEDGER_WRITTEN = 2,
    WM_LEDGER_HELD = 3, /* as a whole */
} wm_ledger_input_state_t;

typedef struct {
    uint32_t id, generation;
    wm_ledger_input_state_t state;
    const char *path, *name; /* terminated, lent for the call */
    int64_t size, mtime_ns;  /* size -1: kicked or not staged yet, the next INPUT pins it */
    int64_t n_event;         /* -1 until INPUT_END */
    bool is_suspect;         /* DISTRUST names it, and no KICK or HELD came since */
    /* of the output; WRITTEN only */
    int64_t out_size, out_mtime_ns;
    uint8_t out_digest[16];
    uint64_t n_hit, n_held;
    uint32_t n_batch_held;
    /* HELD only */
    uint32_t code;
    const char *text; /* of WRITTEN how many hits have an empty patch, "" for 0; "" otherwise */
} wm_ledger_input_t;

typedef enum {
    WM_LEDGER_RETURNED = 1,   /* place: of its RESULT in the journal */
    WM_LEDGER_BATCH_HELD = 2, /* code and text give the reason; no place */
} wm_ledger_batch_state_t;

/* key.batch is WM_ALL where the whole event was held.  */
typedef struct {
    wm_key_t key;
    wm_ledger_batch_state_t state;
    uint8_t digest[16];
    uint32_t n_batch, n_hit, n_held, attempt;
    wm_place_t place;
    uint32_t signature; /* wm_ledger_signature */
    uint32_t code;
    const char *text; /* "" unless held; terminated, lent for the call */
} wm_ledger_batch_t;

#endif
