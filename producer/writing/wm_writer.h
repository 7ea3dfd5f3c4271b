/* wm_writer.h - the output file of one input.

   HDF5, opened by every reader at hand (shuffle + gzip only):
     <table>/   1-D columns, one row per hit of the input, in input order: run, subrun, event,
                cryostat, tpc, plane, hit_id, the labels (float32, NaN where held), in_fiducial,
                status (0: scored), engine (index into engine/signature; 65535: none)
     held/      row, hit_id, status, reason
   (in --layout numl or both also numl's tables: wm_writer_numl.c; of images no labels, but frames:
   wm_writer_frames.c)
     engine/    signature; in split and fast error, the largest that was measured of each on hits of
                the campaign before it was taken (0: strict fp32)
     attributes of the root: layout, model_sha256, precision, specification, wiremill_version,
                campaign; in split and fast max_error, what a score may be off; hits, hits_held,
                hits_same_cell, hits_bad_channel, hits_empty (nothing but zeros in the patch)
                and where it comes from: input_given (the path as it was typed), input (real path),
                input_bytes, input_mtime (ISO 8601, UTC), campaign_folder, command; the texts padded
                with NUL to a multiple of 1,024 bytes
   Nothing in it but the last line depends on when, where or by whom it was scored: equal content is
   equal bytes.

   Written under "<name>.part", fsynced, renamed, the folder fsynced. In steps, so that the session
   with the broker stays alive meanwhile.
   Thread: one for all writers and readers.  */
#ifndef WM_WRITER_H
#define WM_WRITER_H

#include "producer/layouts/wm_reader.h"
#include "producer/writing/wm_scratch.h"
#include "schema/wm_batch.h"
#include "schema/wm_pins.h"

#include <stdbool.h>

/* Where an output comes from; NULL: not known, written as "".  */
typedef struct {
    const char *given, *path; /* of the input: as it was typed, and its real path */
    uint64_t bytes;           /* of the input when it was added or kicked */
    int64_t mtime_ns;         /* of a URL: its adler32 */
    const char *folder;       /* of the campaign */
    const char *command;      /* that continues the campaign, with the folder where it was typed */
} wm_writer_origin_t;

/* What is written; all of it is lent until the writer is destroyed.  */
typedef struct {
    const char *path; /* of the output */
    const wm_spec_t *spec;
    const wm_pins_t *pins;
    const uint8_t *campaign; /* (16) */
    const wm_scratch_t *scratch;
    wm_reader_t *reader;
    const char *const *engine; /* signatures; the scratch counts them from 1 */
    const double *engine_error;
    uint32_t n_engine;
    uint64_t n_same_cell, n_empty, n_bad_channel;
    wm_writer_origin_t origin;
} wm_writer_job_t;

typedef struct {
    uint64_t size, n_held;
    int64_t mtime_ns;
    uint8_t digest[16]; /* XXH3-128 of the file */
} wm_writer_result_t;

typedef struct wm_writer_t wm_writer_t;

/* Whether a file can be written with these names, in this layout (wm_pins.h): WM_EBATCH names a
   label or table that is a column's or group's own name.  */
wm_fault_t wm_writer_check (const wm_spec_t *spec, uint32_t n_output, const char *layout,
                            wm_error_t *error);

/* Never NULL (asserts on memory). Nothing is touched before the first step.  */
wm_writer_t *wm_writer_new (const wm_writer_job_t *job);

/* Abandons an unfinished file and removes it.  */
void wm_writer_destroy (wm_writer_t **self_p);

/* Does a piece of the work, in well under a second. WM_OK with *done: the file is in its place,
   durable, and *result is filled in. WM_EAGAIN: the disk is full; call again later, it starts over
   when there is room. WM_EBATCH: the input cannot be read any more. WM_EHOST: anything else; a
   failed fsync among it, after which the process must end.  */
wm_fault_t wm_writer_step (wm_writer_t *self, bool *done, wm_writer_result_t *result,
                           wm_error_t *error);

/* Returns whether the file is written and closed, to be synced and then placed. wm_writer_step does
   that for one file; an owner of several does it with the two functions below instead.  */
bool wm_writer_is_ready (const wm_writer_t *self);

/* Makes the content of a ready file durable; nothing to do where it is already. WM_EHOST: fsync
   failed, and the process must end.  */
wm_fault_t wm_writer_sync (wm_writer_t *self, wm_error_t *error);

/* Gives n synced files their names and makes these durable, with one fsync where all of them lie in
   one folder. WM_OK: wm_writer_step goes on with each, and soon reports *done. WM_EHOST: the
   process must end; some may have their names.  */
wm_fault_t wm_writer_place (wm_writer_t *const *writer, uint32_t n, wm_error_t *error);

/* Whether `path` is an output of this campaign; false also where it is no file of ours at all.
 *n_held (may be NULL): its held hits.  */
bool wm_writer_is_ours (const char *path, const uint8_t campaign[16], uint64_t *n_held);

#endif
