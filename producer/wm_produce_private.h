/* wm_produce_private.h - what the files of wm_produce share: its state, and how it ends things.

   wm_produce.c        sessions, inputs, outputs, the loop
   wm_produce_sample.c the hits that split and fast measure on
   wm_produce_event.c  events: manifests, payloads on NEED, results  */
#ifndef WM_PRODUCE_PRIVATE_H
#define WM_PRODUCE_PRIVATE_H

#include "producer/wm_input.h"
#include "producer/wm_produce.h"
#include "producer/wm_repeats.h"

/* An event whose results can be fetched.  */
typedef struct {
    wm_input_t *input;
    uint32_t ordinal;
} wm_produce_place_t;

typedef struct {
    const wm_produce_options_t *options;
    wm_client_t *client;
    uint64_t epoch;
    uint8_t campaign[16], pins_digest[16];
    wm_pins_t pins;
    wm_spec_t spec;
    wm_packer_t *packer;
    wm_event_t content; /* work space */

    wm_input_t *input;
    uint32_t n_input;
    uint32_t n_asked;                             /* INPUTs on their way */
    uint32_t n_open;                              /* events announced and not done */
    uint32_t n_kept;                              /* events with frames or results to fetch */
    uint64_t frame_bytes;                         /* of those */
    wm_produce_place_t fetch[WM_OPEN_EVENTS_MAX]; /* ring */
    uint32_t fetch_first, n_fetch;
    bool fetching;
    bool sampled; /* the broker of this session has its sample, or does not want one */

    wm_produce_place_t rebuilt_for; /* the last event whose frames had to be made again */
    wm_pack_t *rebuilt;

    char **engine;        /* signatures, numbered from 1 */
    double *engine_error; /* what the campaign measured of each; 0: nothing, or it is strict */
    uint32_t n_engine;
    size_t engine_max, engine_error_max;

    wm_repeats_t *repeats;
    uint64_t n_repeat; /* events that carry another one's (run, subrun, event) */
    char repeat[720];  /* the first of them, for people */

    int64_t full_ms; /* disk full: no try before */
    bool full_is_logged;
    int exit_code; /* -1: go on */
    wm_error_t error;
} wm_produce_t;

/* The input being read, named by wm_produce_reading; "" between.  */
void wm_produce_set_reading (const char *path);

/* One line for people, unless --quiet.  */
void wm_produce_warn (const wm_produce_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

/* The broker ended the claim (held, kicked): the input is asked for again a little later.  */
void wm_produce_claim_over (wm_produce_t *self, wm_input_t *input);

/* Logs `text` and ends the process with this code.  */
void wm_produce_fatal (wm_produce_t *self, int code, const char *text);

/* Sends; a failure shows as CLOSED at the next wait.  */
void wm_produce_send (wm_produce_t *self, const wm_msg_t *msg, const void *payload, size_t bytes);
wm_key_t wm_produce_key (const wm_input_t *input, uint32_t ordinal, uint32_t batch);

/* Holds the whole input as bad: reports it to the broker and continues with the others.  */
void wm_produce_hold (wm_produce_t *self, wm_input_t *input, const char *text);

/* Acts on a fault (self->error) met while working on an input.  */
void wm_produce_blame (wm_produce_t *self, wm_input_t *input, wm_fault_t fault);

/* ---- wm_produce_sample.c --------------------------------------------------------------------- */

/* Sends SAMPLE, of a session whose broker wants it.  */
void wm_produce_sample (wm_produce_t *self);

/* ---- wm_produce_event.c ---------------------------------------------------------------------- */

/* Announces the next event of an input, making it if needed.  */
void wm_produce_announce (wm_produce_t *self, wm_input_t *input);

/* FETCHes the next batch; there must be one, and none on its way.  */
void wm_produce_fetch (wm_produce_t *self);

void wm_produce_on_event_done (wm_produce_t *self, const wm_msg_t *msg);
void wm_produce_on_need (wm_produce_t *self, const wm_msg_t *msg);
void wm_produce_on_results (wm_produce_t *self, const wm_msg_t *msg);

#endif
