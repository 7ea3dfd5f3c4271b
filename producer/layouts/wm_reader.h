/* wm_reader.h - one interface to every layout of input files.

   exchange     wiremill's own (attribute layout = wiremill-exchange-1): events with detector facts,
                wire map, regions of interest, bad channels, hits
   OpenSamples  dense waveforms of wires, and hits
   dense        ready-made patches: a .npy file, an HDF5 file with one dataset, or "file.h5:/path"

   joined       hits of one file, planes of another, and a channel map

   The layout is recognised by the file's content. An input's rows are those of its hit table (or
   its patches): the output has one row for each, in the same order. Events are read one at a time.
   A patch file without event ids is cut into events of at most WM_READER_PATCH_BYTES, so that
   memory stays bounded; all of them are run 0, subrun 0, event 0. Thread: one for all readers.  */
#ifndef WM_READER_H
#define WM_READER_H

#include <stdbool.h>

#include "kernels/patch/wm_spec.h"
#include "producer/files/wm_event.h"
#include "schema/wm_pins.h"

#define WM_READER_PATCH_BYTES (32u << 20)

typedef struct wm_reader_t wm_reader_t;

/* What the output repeats of each row. */
typedef struct {
    int64_t *run, *subrun, *event, *hit_id;
    int32_t *cryostat, *tpc, *plane; /* -1: the layout has none */
    int32_t
        *wire; /* first wire of a window, and its first tick; -1: no window; NULL: not wanted */
    int64_t *time;
} wm_reader_rows_t;

/* Where the planes of an input's hits lie, where these are in a file of their own.  */
typedef struct {
    const char *planes, *channels; /* "FILE" or "FILE:/TAG" of frames; a channel map */
    const char *hit_time;          /* unit of the hits: "ticks", "us"; "": that of their table */
    const char *hit_offset, *pedestal; /* as wm_pins.h has them; NULL: "" */
} wm_reader_pair_t;

/* Opens by layout. NULL with WM_EBATCH: no layout we know, or broken in a way that concerns the
   whole file; WM_EHOST: out of memory. spec is lent.  */
wm_reader_t *wm_reader_open (const char *name, const wm_spec_t *spec, wm_error_t *error);

/* The same of hits whose planes lie elsewhere; hits, planes and map are joined by event, wire and
   channel. Known are numl's hit_table and larrecodnn's chargehits, with Wire-Cell's frames
   (wm_frames.h). With channels and without planes, of frames alone, whose windows are scored
   (points: windows). With neither, wm_reader_open.  */
wm_reader_t *wm_reader_open_pair (const char *name, const wm_reader_pair_t *pair,
                                  const wm_spec_t *spec, wm_error_t *error);

/* Opens `file`, the content of input `name`, as the campaign's pins tell, if wm_reader_fits.  */
wm_reader_t *wm_reader_open_input (const char *file, const char *name, const wm_pins_t *pins,
                                   const char *shape, const wm_spec_t *spec, wm_error_t *error);
void wm_reader_destroy (wm_reader_t **self_p);

/* Adds to *match whether the hits of an event that was read find charge; of hits alone, not of
   windows or space points.  */
struct wm_match_t;
void wm_reader_match (const wm_reader_t *self, const wm_event_t *event, struct wm_match_t *match);

/* Returns how hits and planes were joined ("hit_table/time read in us ..."), and what of the events
   that were read had no partner, for people; "": nothing. Lent until the next call.  */
const char *wm_reader_joined (wm_reader_t *self);
const char *wm_reader_unmatched (wm_reader_t *self);

bool wm_reader_has_planes (const wm_reader_t *self);    /* false: ready-made patches */

bool wm_reader_is_joined (const wm_reader_t *self);     /* hits and planes are of two files */
uint32_t wm_reader_n_event (const wm_reader_t *self);   /* those that only hits name included, */
uint32_t wm_reader_n_missing (const wm_reader_t *self); /* which are so many */
uint64_t wm_reader_n_row (const wm_reader_t *self);

/* Returns the ordinal of the event, or of the segment of a stream, whose hits have this row of the
   hit table; UINT32_MAX: none, or the layout has no such table. Reads nothing.  */
uint32_t wm_reader_of_row (wm_reader_t *self, uint64_t row);

/* Checks that the input gives what the model takes: `n_value` values a patch (0: any) of this
   `shape` ("3x32x32"; of several inputs "1x48x48+4"; "": any). WM_EBATCH names both shapes. Sizes
   of 1 do not count, and flat patches (N, values) are in the model's order.  */
wm_fault_t wm_reader_fits (const wm_reader_t *self, const char *name, uint32_t n_value,
                           const char *shape, wm_error_t *error);

/* Reads event `ordinal` into *event, reusing its memory. WM_EBATCH: the file is bad;
   WM_EHOST: out of memory.  */
wm_fault_t wm_reader_event (wm_reader_t *self, uint32_t ordinal, wm_event_t *event,
                            wm_error_t *error);

/* Reads of the event only who it is, n_tick, tick_us and its planes with their own n_wire, where
   the layout can; else all of it. As wm_reader_event.  */
wm_fault_t wm_reader_planes (wm_reader_t *self, uint32_t ordinal, wm_event_t *event,
                             wm_error_t *error);

/* Reads rows first .. first+count-1; the arrays hold `count`.  */
wm_fault_t wm_reader_rows (wm_reader_t *self, uint64_t first, uint32_t count,
                           const wm_reader_rows_t *rows, wm_error_t *error);

#endif
