/* wm_produce_private.h - what the files of wm_produce share: its state, and how it ends things.

   wm_produce.c        sessions, messages, the loop, the sample; calls all others
   wm_produce_write.c  outputs: those that are there already; written one by one, committed together
   wm_produce_event.c  events: manifests, payloads on NEED, results
   wm_produce_stage.c  remote inputs and outputs: asked for, pinned, stored, given up
   wm_produce_input.c  the inputs: which there are, what they are, how they end, and what is sent
                       and reported of them; calls none of the others  */
#ifndef WM_PRODUCE_PRIVATE_H
#define WM_PRODUCE_PRIVATE_H

#include "producer/session/wm_input.h"
#include "producer/session/wm_produce.h"
#include "producer/session/wm_repeats.h"

/* Inputs that are worked on at a time, and some to spare.  */
#define WM_PRODUCE_ACTIVE_MAX 160u

/* An event whose results can be fetched.  */
typedef struct {
    wm_input_t *input;
    uint32_t ordinal;
} wm_produce_place_t;

typedef struct wm_produce_t {
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
    wm_input_t **by_path;                      /* (n_input), in the order of strcmp */
    uint32_t *by_id, n_slot;                   /* index + 1; open addressing, at most half full */
    wm_input_t *active[WM_PRODUCE_ACTIVE_MAX]; /* ours, or open with events of an old session */
    uint32_t n_active;                         /* and some that are no longer either */
    uint32_t open_max;                         /* small inputs worked on at a time, at most */
    uint32_t first_new, first_open;            /* none of those before is, but for asked ones */
    uint32_t n_ended;                          /* written or held */
    uint32_t n_written;                        /* by this process */
    int64_t ready_ms;                          /* since when an output waits to be committed */
    int64_t busy_ms;                           /* no BUSY input is asked for again before */
    uint32_t n_asked, n_claiming;              /* INPUTs on their way; those of them that claim */
    uint32_t n_open;                           /* events announced and not done */
    uint32_t n_kept;                           /* events with frames or results to fetch */
    uint64_t frame_bytes;                      /* of those */
    wm_produce_place_t fetch[WM_OPEN_EVENTS_MAX]; /* ring */
    uint32_t fetch_first, n_fetch;
    uint32_t n_fetching; /* FETCHes on their way */
    bool fetching_large; /* one of them is of a large batch: it goes alone */
    bool sampled;        /* the broker of this session has its sample, or does not want one */
    bool looked;         /* all inputs that were here were read for it */

    wm_produce_place_t rebuilt_for; /* the last event whose frames had to be made again */
    wm_pack_t *rebuilt;

    char **engine;        /* signatures, numbered from 1 */
    double *engine_error; /* what the campaign measured of each; 0: nothing, or it is strict */
    uint32_t n_engine;
    size_t engine_max, engine_error_max;

    wm_repeats_t *repeats;
    uint64_t n_repeat; /* events that carry another one's (run, subrun, event) */
    char repeat[720];  /* the first of them, for people */

    uint32_t n_checking;  /* inputs whose outputs elsewhere the stager looks at, or renames */
    bool told_low;        /* the command that started this process was */
    char trouble[480];    /* why outputs cannot be copied elsewhere; "": they can */
    wm_wait_t stage_wait; /* of the stager, for inputs; and its text: */
    char stage_text[480];

    int64_t full_ms;             /* disk full: no try before */
    const wm_input_t *full_with; /* the input that found it full, and has not gone on; NULL: none */
    char full_text[480];
    int exit_code; /* -1: go on */
    wm_error_t error;
} wm_produce_t;

/* ---- wm_produce_input.c ---------------------------------------------------------------------- */

/* The input being read, named by wm_produce_reading; "" between.  */
void wm_produce_set_reading (const char *path);

/* One line for people, unless --quiet.  */
void wm_produce_warn (const wm_produce_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

/* Logs `text` and ends the process with this code.  */
void wm_produce_fatal (wm_produce_t *self, int code, const char *text);

/* Sends; a failure shows as CLOSED at the next wait.  */
void wm_produce_send (wm_produce_t *self, const wm_msg_t *msg, const void *payload, size_t bytes);
static inline wm_key_t wm_produce_key (const wm_input_t *input, uint32_t ordinal, uint32_t batch)
{
    return (wm_key_t){ input->id, ordinal, batch, input->generation };
}

/* Sends the stager a message about an input, or about its output (with its name, and what is known
   of what has this name there).  */
void wm_produce_stager_send (wm_produce_t *self, const wm_input_t *input, wm_stage_kind_t kind);
void wm_produce_store_ask (wm_produce_t *self, const wm_input_t *input, wm_stage_kind_t kind);

/* Report to options->tell, if it is set: where outputs are; that an output has its name here; once,
   that little is left to do. wm_produce_set_is reports what an input has become.  */
void wm_produce_report_output (const wm_produce_t *self);
void wm_produce_report_placed (const wm_produce_t *self, const wm_input_t *input);
void wm_produce_report_low (wm_produce_t *self);

/* Makes the inputs from the options, in their order, without repeats. WM_EBATCH, WM_EHOST.  */
wm_fault_t wm_produce_inputs_make (wm_produce_t *self);
void wm_produce_inputs_clear (wm_produce_t *self);

/* Return the input of this path or number; NULL: no input has it.  */
wm_input_t *wm_produce_by_path (const wm_produce_t *self, const char *path);
wm_input_t *wm_produce_by_id (const wm_produce_t *self, uint32_t id);

/* Sets the number under which the broker knows the input.  */
void wm_produce_set_id (wm_produce_t *self, wm_input_t *input, uint32_t id);

/* Sets what an input is; nothing else may, but for wm_input_session_end.  */
void wm_produce_set_is (wm_produce_t *self, wm_input_t *input, wm_input_is_t is);

/* Prepares all inputs for a new session: each may have to be asked for again.  */
void wm_produce_inputs_session (wm_produce_t *self, bool new_epoch);

/* Returns the next input that was never asked for; NULL: none.  */
wm_input_t *wm_produce_next_new (wm_produce_t *self);

/* Returns the next input to claim, first those that were being worked on; NULL: none now.  */
wm_input_t *wm_produce_next_open (wm_produce_t *self);

/* Drops from `active` what no longer belongs there; returns how many are left.  */
uint32_t wm_produce_active (wm_produce_t *self);

/* Sends INPUT: code as schema/wire.abnf has it.  */
void wm_produce_ask (wm_produce_t *self, wm_input_t *input, uint32_t code);

/* Takes the input's events out of the counters and queues, and closes it.  */
void wm_produce_end (wm_produce_t *self, wm_input_t *input, wm_input_is_t is);

/* The broker ended the claim (held, kicked): the input is asked for again a little later.  */
void wm_produce_claim_over (wm_produce_t *self, wm_input_t *input);

/* The input waits for the stager: nothing is asked of the broker about it meanwhile.  */
void wm_produce_wait (wm_produce_t *self, wm_input_t *input);

/* Holds the whole input as bad: reports it to the broker and continues with the others.  */
void wm_produce_hold (wm_produce_t *self, wm_input_t *input, const char *text);

/* Reports that the output is "missing" or "changed", so that it is made again.  */
void wm_produce_lost (wm_produce_t *self, wm_input_t *input, const char *text);

/* Acts on a fault (self->error) met while working on an input.  */
void wm_produce_blame (wm_produce_t *self, wm_input_t *input, wm_fault_t fault);

/* WM_EBATCH if the file of the input was changed while it was worked on: scores of the old content
   must not pass for the new file's.  */
wm_fault_t wm_produce_is_changed (wm_produce_t *self, const wm_input_t *input);

/* Returns whether the disk was full a moment ago.  */
bool wm_produce_is_full (const wm_produce_t *self);

/* What was full has room again, if this input found it full.  */
static inline void wm_produce_has_room (wm_produce_t *self, const wm_input_t *input)
{
    if (self->full_with == input)
        self->full_with = NULL;
}

/* The stager no longer looks at the input's output, or renames it.  */
void wm_produce_check_end (wm_produce_t *self, wm_input_t *input);

/* The input's output is not to be stored any more.  */
void wm_produce_store_drop (wm_produce_t *self, wm_input_t *input);

/* ---- wm_produce_write.c ---------------------------------------------------------------------- */

/* Does the next step towards the output of an input whose results are here; false: none now, it
   waits to be committed, or for an answer. *fault: wm_produce_blame acts on it.  */
bool wm_produce_write (wm_produce_t *self, wm_input_t *input, wm_fault_t *fault);

/* Does a step of the commit of the outputs that are ready: all are synced, then renamed, then their
   folder is synced; FILE_WRITTEN is sent after that. *wait_ms is lowered to the time after which it
   is to be called again at the latest. false: there is nothing to do now.  */
bool wm_produce_commit (wm_produce_t *self, int64_t *wait_ms);

/* Returns whether a file that is not this campaign's has the output's name. That file stays, and
   the process ends.  */
bool wm_produce_in_the_way (wm_produce_t *self, const wm_input_t *input);

/* Whether the output lies there as it was written: with that size and time, or with that digest,
   where it was touched or copied; the broker then notes its time. *there: something has its name.
 */
bool wm_produce_as_written (wm_produce_t *self, wm_input_t *input, bool *there);

/* The broker reports the output as written: checks that the file is still there, and unchanged.  */
void wm_produce_written_check (wm_produce_t *self, wm_input_t *input, const wm_msg_t *msg);

/* All is written or held. For an output that is missing or changed since then, the broker is asked,
   because it knows what another producer wrote; wm_produce_written_check does the rest. false: all
   are there as written.  */
bool wm_produce_outputs_missed (wm_produce_t *self);

/* Warns of what the broker reports of an input. Where one of several files changed, which the
   broker does not see, the one that was modified last is named.  */
void wm_produce_warn_of (wm_produce_t *self, const wm_input_t *input, const char *head,
                         const char *text);

/* ---- wm_produce_stage.c ---------------------------------------------------------------------- */

/* Reads what the stager reports.  */
void wm_produce_stage_handle (wm_produce_t *self);

/* Takes the next step of a remote input of ours towards its copy. true: it is here, pinned, and its
   turn. unannounced: an input before it has events to announce.  */
bool wm_produce_stage_step (wm_produce_t *self, wm_input_t *input, bool unannounced);

/* Whether another input may be claimed to be staged ahead.  */
bool wm_produce_stage_more (const wm_produce_t *self);

/* Reports to the broker what this producer waits for, the worst first; where inputs wait for copies
   *wait_ms is
   lowered.  */
void wm_produce_stage_report (wm_produce_t *self, int64_t *wait_ms);

/* The pins are known: outputs are written in `spool`, where they go elsewhere. WM_EBATCH: the
   command and the campaign do not name the same folder.  */
wm_fault_t wm_produce_store_begin (wm_produce_t *self);

/* Whether an output has this input's name there, as far as is known. *size: UINT64_MAX where this
   process stored it, and the size was not read since.  */
bool wm_produce_store_has (const wm_produce_t *self, const wm_input_t *input, uint64_t *size);

/* The output seems to be missing or changed, from a list that may be older than it: asks what is
   there. The broker is asked about the input again after that. false: that was done.  */
bool wm_produce_store_look (wm_produce_t *self, wm_input_t *input);

/* Renames a changed output there; only after that is the output reported lost: the producer that
   makes it again removes what has the name.  */
void wm_produce_store_move (wm_produce_t *self, wm_input_t *input);

/* Has a sidecar stored for an output of an earlier process that has none. The broker is asked about
   the input again after that. false: it has one, or none is wanted.  */
bool wm_produce_store_sidecar (wm_produce_t *self, wm_input_t *input);

/* The input was claimed: asks what has its output's name there.  */
void wm_produce_store_claimed (wm_produce_t *self, wm_input_t *input);

/* Takes the next step towards storing a placed output. true: it is stored, and input->result as the
   server has it. *fault: wm_produce_blame acts on it.  */
bool wm_produce_store (wm_produce_t *self, wm_input_t *input, wm_fault_t *fault);

/* Acts on what the stager reports about outputs.  */
void wm_produce_store_told (wm_produce_t *self, const wm_stage_msg_t *msg);

/* ---- wm_produce_event.c ---------------------------------------------------------------------- */

/* Announces the next event of an input, making it if needed. wm_produce_blame acts on a fault.  */
wm_fault_t wm_produce_announce (wm_produce_t *self, wm_input_t *input);

/* FETCHes the next batch; false: no batch is left, or enough are on their way.  */
bool wm_produce_fetch (wm_produce_t *self);

void wm_produce_on_event_done (wm_produce_t *self, const wm_msg_t *msg);
void wm_produce_on_need (wm_produce_t *self, const wm_msg_t *msg);
void wm_produce_on_results (wm_produce_t *self, const wm_msg_t *msg);

#endif
