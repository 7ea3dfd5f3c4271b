/* wm_produce.h - a producer's session with a broker: inputs claimed, announced, sent, fetched,
   written.

   Flow of one input (schema/wire.abnf has the messages):
     INPUT 0 -> OPEN -> INPUT 1 -> CLAIMED -> SUBMIT event after event -> NEED: BATCH, EVENT_DONE:
     FETCH its batches -> INPUT_END -> the output is written -> FILE_WRITTEN -> WRITTEN
   Inputs are worked on in order and side by side, so that the end of one does not leave workers
   idle. Bounded: open events (256), the encoded bytes kept for them, inputs claimed at a time.
   Reading and writing go in pieces between messages, so that heartbeats go out.

   When all are written it checks that all outputs are still there as written; others are made
   again, twice at most.

   A session that ends is opened again: claims are made again, and every event not known to be done
   is announced again (to a new epoch of the broker, all of them, from their kept manifests).
   Thread: one.  */
#ifndef WM_PRODUCE_H
#define WM_PRODUCE_H

#include "producer/staging/wm_stage.h"
#include "schema/session/wm_client.h"

typedef struct {
    const char *broker;
    int64_t give_up_ms;           /* without a broker */
    bool quiet;                   /* no warnings */
    bool summary;                 /* log at the end what became of the inputs */
    bool retry_held;              /* inputs held or changed are kicked, and scored again */
    bool confined;                /* wm_produce_confine_files before the first input is read */
    const char *folder, *command; /* of the campaign, for its outputs to name; NULL: not known */
    const char *const *input;
    uint32_t n_input;
    uint32_t ahead;     /* copies of remote inputs that are not read yet; 0: no input is remote */
    int stager;         /* socket of the stager (wm_stage.h) */
    const char *staged; /* folder where it puts copies */
    int tell;           /* pipe to which each output is reported; 0: no reports */
    const char *store;  /* root:// folder of outputs; NULL: the campaign's is a folder here */
    bool sidecars;      /* each has one there, which who hears --tell writes */
    const char *spool;  /* folder here for outputs on their way there */
    const wm_stage_there_t *there; /* (n_there) what was there at the start */
    uint32_t n_there;
} wm_produce_options_t;

/* Runs to the end and returns an exit code: 0 all written; 3 some hits, batches or inputs are held,
   or changed since their output was written;
   4 no broker; 5 all inputs are bad, or a foreign file is in the way of an output; 75 drained; 1
   anything else. Writes to stderr only.  */
int wm_produce (const wm_produce_options_t *options);

/* Computing a single read of an input may take, in seconds; SIGVTALRM comes then, because a damaged
   file may send the library that reads it into an endless loop.  */
#define WM_PRODUCE_READ_S 120

/* Returns the input being read, to name it in a crash; "" between.  */
const char *wm_produce_reading (void);

#endif
