/* wm_input.h - one input file on its way: what is known of it, its events, its scores.

   Owns the reader, the scratch file and the writer while the input is claimed, and what must be
   kept of each event: before its results are all here its frames and rows, afterwards only the
   manifest, with which it is announced again to a broker that was restarted. Knows nothing of
   messages; wm_produce drives it. Thread: one.  */
#ifndef WM_INPUT_H
#define WM_INPUT_H

#include "producer/cutting/wm_pack.h"
#include "producer/layouts/wm_match.h"
#include "producer/writing/wm_writer.h"

typedef enum {
    WM_INPUT_IS_NEW,    /* not yet made known to the broker */
    WM_INPUT_IS_OPEN,   /* known, to be claimed */
    WM_INPUT_IS_BUSY,   /* another producer's */
    WM_INPUT_IS_OURS,   /* claimed in this session */
    WM_INPUT_IS_LOST,   /* written, but missing: FILE_LOST was sent, or the stager looks */
    WM_INPUT_IS_ENDING, /* INPUT_HELD is on its way */
    WM_INPUT_IS_WRITTEN,
    WM_INPUT_IS_HELD,
} wm_input_is_t;

typedef struct {
    wm_pack_t *pack;    /* NULL: never made */
    uint8_t announced;  /* in this session */
    uint8_t done;       /* the broker has reported in this epoch that it has all results */
    uint8_t complete;   /* they are in the scratch file */
    uint32_t n_wanted;  /* batches asked for */
    uint32_t n_fetched; /* batches that came */
} wm_input_event_t;

typedef struct {
    char *path;            /* real path or URL, with ":/dataset" where it was given so */
    char *given;           /* as it was given */
    const wm_pins_t *pins; /* of the campaign, lent; NULL: not known yet */
    uint64_t size;
    int64_t mtime_ns;
    char name[256]; /* of the output file */
    uint32_t id, generation;
    wm_input_is_t is;
    bool asked, claiming; /* INPUT is on its way; it claims */
    int64_t retry_ms;

    /* of a remote one (wm_stage.h): size is WM_SIZE_UNKNOWN until it is staged, and
       mtime_ns its adler32 from then on */
    bool remote;
    uint32_t line;        /* of the list of inputs */
    char *staged;         /* its path here, with ":/dataset"; NULL: it is not here */
    bool wanted;          /* the stager was asked */
    bool pinning, pinned; /* INPUT with its size is on its way; was answered, in this session */
    bool pin_retried;     /* --retry-held was asked for again, with its size */

    /* where outputs are remote (wm_produce_stage.c) */
    bool looking, storing; /* the stager was asked what has the name there; to copy the output */
    bool stored;           /* it is there */
    bool is_there;         /* an output that this process stored, the last or an earlier one */
    bool seen;             /* the stager looked there, after the list was made: */
    uint64_t seen_size;    /* of what has the name; UINT64_MAX: nothing */
    bool checking;         /* it was asked to look, to rename a changed output, or for: */
    bool has_sidecar;      /* one was stored for an output of an earlier process */
    uint32_t how;          /* wm_stage_how_t: what is done with what has the name there: */
    uint64_t there_size;
    uint32_t there_adler;

    /* from the claim to the written file */
    wm_reader_t *reader;
    wm_scratch_t scratch;
    wm_input_event_t *event; /* (n_event) */
    uint32_t n_event, n_done, n_complete;
    uint32_t next; /* events below are announced */
    uint64_t n_same_cell, n_empty, n_bad_channel;
    wm_cut_odd_t odd;
    wm_match_t match;
    bool end_sent, end_acked;
    wm_writer_t *writer;
    char *output;              /* path */
    bool committing;           /* with others */
    bool placed, written_sent; /* the output is in its place; FILE_WRITTEN is on its way */
    wm_writer_result_t result; /* of this producer, or what the broker knows of it */
    uint32_t n_lost;           /* so many times it was not as it was written */
    uint64_t n_held;           /* hits, once written */
    bool changed;              /* the input or its output, since that was written, which stays; */
    bool edited;               /* its output alone */
    bool touched;              /* the broker was told the output's new time */
    bool retried;              /* --retry-held was asked for */
} wm_input_t;

/* Looks at the file: its real path, size and time. A file that is not there gets the path as given
   and no size: it will be held when it is opened. WM_EBATCH: the path is too long.  */
wm_fault_t wm_input_init (wm_input_t *self, const char *name, wm_error_t *error);
void wm_input_clear (wm_input_t *self);

/* The name proposed for the output: "<stem>.scores.h5".  */
void wm_input_propose (const wm_input_t *self, char name[256]);

/* Reads size and time again, as wm_pair_stat does: the file is taken as it is now.  */
void wm_input_look_again (wm_input_t *self);

/* The path under which it is read; NULL: it is not here yet.  */
const char *wm_input_file (const wm_input_t *self);

/* Whether size or modification time differ from the last check.  */
bool wm_input_changed (const wm_input_t *self);

/* Opens reader and scratch file; a second call while open does nothing. `shape`: of the model's
   input, as of wm_reader_fits. WM_EBATCH: hold the input; WM_EAGAIN: disk full; WM_EHOST.  */
wm_fault_t wm_input_open (wm_input_t *self, const wm_spec_t *spec, const wm_pins_t *pins,
                          const char *shape, wm_error_t *error);

/* Forgets reader, scores and events.  */
void wm_input_close (wm_input_t *self);

/* Reads and packs event `ordinal`, keeps the pack and notes held hits in the scratch file.
   `content` is work space.  */
wm_fault_t wm_input_pack (wm_input_t *self, uint32_t ordinal, wm_packer_t *packer,
                          wm_event_t *content, wm_error_t *error);

/* The same for an event whose frames were freed; *pack is the caller's.  */
wm_fault_t wm_input_repack (wm_input_t *self, uint32_t ordinal, wm_packer_t *packer,
                            wm_event_t *content, wm_pack_t **pack, wm_error_t *error);

/* Bytes kept for an event: its frames, and the rows of its hits.  */
size_t wm_input_event_bytes (const wm_input_t *self, uint32_t ordinal);

/* Puts a batch's result in its rows: status bytes, then scores; `engine` from 1.  */
void wm_input_place (wm_input_t *self, uint32_t ordinal, uint32_t batch, const uint8_t *result,
                     uint16_t engine);

/* Holds all hits of a batch.  */
void wm_input_hold_batch (wm_input_t *self, uint32_t ordinal, uint32_t batch, uint8_t status);

/* All batches of the event are placed: frames and rows are freed.  */
void wm_input_complete (wm_input_t *self, uint32_t ordinal);

/* The session has ended. new_epoch: events that the broker reported as done must be announced
   again.  */
void wm_input_session_end (wm_input_t *self, bool new_epoch);

#endif
