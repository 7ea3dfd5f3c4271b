/* wm_writer_private.h - what the files of wm_writer share: its state.

   wm_writer.c        makes the file: from the scores to a complete file that has its name
   wm_writer_numl.c   the tables in numl's form
   wm_writer_frames.c images, stitched to frames  */
#ifndef WM_WRITER_PRIVATE_H
#define WM_WRITER_PRIVATE_H

#include "producer/writing/wm_writer.h"

#include <hdf5.h>
#include <stdio.h>
#include <xxhash.h>

enum {
    RUN,
    SUBRUN,
    EVENT,
    CRYOSTAT,
    TPC,
    PLANE,
    HIT_ID,
    WIRE, /* of windows, as TIME */
    TIME,
    IN_FIDUCIAL,
    STATUS,
    ENGINE,
    COLUMNS
};

#define PIECE_ROWS 65536u /* rows a step, and a chunk of every column */
#define REASON_BYTES 24
#define COMPACT_BYTES 2048u /* a column up to this size lies in its header, not in a chunk */

typedef enum { CREATE, ROWS, TABLES, FRAMES, FINISH, READY, SYNCED, HASH, DONE } phase_t;

typedef struct wm_writer_numl_t wm_writer_numl_t;
typedef struct wm_writer_frames_t wm_writer_frames_t;

struct wm_writer_t {
    wm_writer_job_t job;
    phase_t phase;
    char part[1500];
    uint64_t row;          /* next to write */
    uint64_t n_held, held; /* in all; already written */
    uint64_t full_bytes;   /* room when the disk was full; 0: it is not */
    uint32_t full_tries;
    uint16_t *engine_index;     /* number in the scratch -> index in the file */
    uint32_t piece_rows;        /* a step: PIECE_ROWS, or all rows of a smaller file */
    bool is_small;              /* made in memory */
    wm_writer_numl_t *numl;     /* numl's tables; NULL: they are not written */
    wm_writer_frames_t *frames; /* of images; NULL: the results are scores */
    uint32_t n_label;           /* columns of scores; 0: images */

    hid_t file, table, column[COLUMNS], *label; /* label: (n_label) */
    hid_t held_row, held_id, held_status, held_reason;
    XXH3_state_t *hash;
    uint64_t n_hashed; /* bytes */
    int fd;            /* of the file to sync, or being hashed */
    wm_writer_result_t result;
};

/* Names of the columns of the own table.  */
static const char *const wm_writer_column[COLUMNS] = { "run",  "subrun",      "event",  "cryostat",
                                                       "tpc",  "plane",       "hit_id", "wire",
                                                       "time", "in_fiducial", "status", "engine" };

/* The name of score i: its label, or out_i.  */
static inline void wm_writer_label (const wm_spec_t *spec, uint32_t n_output, uint32_t i,
                                    char name[48])
{
    if (spec->n_label == n_output)
        snprintf (name, 48, "%s", spec->label[i]);
    else
        snprintf (name, 48, "out_%u", i);
}

/* The status of a row.  */
static inline uint8_t wm_writer_status (const wm_scratch_t *scratch, uint64_t row)
{
    return scratch->state[row] ? (uint8_t) (scratch->state[row] - 1) : WM_HIT_NO_EVENT;
}

/* Numl's tables, of all rows: `take` notes events and numbers of the rows self->row .. +count-1,
   then each `step` writes a column; the last leaves phase FINISH. false: the library says why, or
   there is no memory. `reset` forgets the rows. new: never NULL.  */
wm_writer_numl_t *wm_writer_numl_new (uint64_t n_row, bool has_place);
void wm_writer_numl_destroy (wm_writer_numl_t **self_p);
void wm_writer_numl_reset (wm_writer_t *writer);
bool wm_writer_numl_take (wm_writer_t *writer, const wm_reader_rows_t *rows, uint32_t count);
bool wm_writer_numl_step (wm_writer_t *writer);

/* Frames of all events: each step writes a plane; the last leaves phase FINISH. false: the library
   says why; *fault: the input cannot be read, or there is no memory. `reset` closes what is open
   and begins anew. new: never NULL.  */
wm_writer_frames_t *wm_writer_frames_new (void);
void wm_writer_frames_destroy (wm_writer_frames_t **self_p);
bool wm_writer_frames_reset (wm_writer_frames_t *self);
bool wm_writer_frames_step (wm_writer_t *writer, wm_fault_t *fault, wm_error_t *error);

/* Makes a group without times, so that equal outputs have equal bytes. Negative: it cannot.  */
static inline hid_t wm_writer_group (hid_t file, const char *name)
{
    hid_t list = H5Pcreate (H5P_GROUP_CREATE);
    H5Pset_obj_track_times (list, false);
    hid_t group = H5Gcreate2 (file, name, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Pclose (list);
    return group;
}

#endif
