/* wm_writer_private.h - what the files of wm_writer share: its state.

   wm_writer.c       makes the file: from the scores to a complete file under its partial name
   wm_writer_facts.c what it tells of itself: attributes, engines
   wm_writer_form.c  closes it, or keeps its objects for the next
   wm_writer_names.c names of columns, and which an output has
   wm_writer_numl.c  the tables in numl's form
   wm_writer_frames.c images, stitched to frames
   wm_writer_rows.c  makes columns, packs rows and writes them
   wm_writer_place.c makes complete files durable and gives them their names  */
#ifndef WM_WRITER_PRIVATE_H
#define WM_WRITER_PRIVATE_H

#include "producer/writing/wm_writer.h"

#include <hdf5.h>
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

#define FORMS_MAX 16u /* below 200 KB each */
#define FORM_LABELS_MAX 64u
#define FORM_ATTRIBUTES_MAX 40u

/* A file of the library, in memory, whose objects stay open between outputs.  */
typedef struct {
    uint64_t n_row, n_held, layout_hash; /* what the objects' sizes follow from, with: */
    size_t signature_bytes;              /* of all engines */
    hid_t file, table, column[COLUMNS], label[FORM_LABELS_MAX];
    hid_t held_row, held_id, held_status, held_reason, signature, error;
    struct {
        hid_t id;
        const char *name; /* literal */
        size_t bytes;
    } attribute[FORM_ATTRIBUTES_MAX];
    uint32_t n_attribute, at; /* at: next to be written over */
    uint64_t used;            /* when: the least recently used one goes */
    bool is_busy;             /* a writer has its objects */
    bool again;               /* they are written over */
    bool fits;                /* all that was made is kept here */
} form_t;

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
extern const char *const wm_writer_column[COLUMNS];

/* The name of score i: its label, or out_i.  */
void wm_writer_label (const wm_spec_t *spec, uint32_t n_output, uint32_t i, char name[48]);

/* Whether an output has this column.  */
bool wm_writer_has (const wm_spec_t *spec, int column);

/* The status of a row.  */
uint8_t wm_writer_status (const wm_scratch_t *scratch, uint64_t row);

/* Whether the output has wiremill's own table (--layout wiremill or both).  */
bool wm_writer_has_own (const wm_writer_t *self);

/* Numl's tables, of all rows: `take` notes events and numbers of the rows self->row .. +count-1,
   then each `step` writes a column; the last leaves phase FINISH. false: the library says why, or
   there is no memory. `reset` forgets the rows. new: never NULL.  */
wm_writer_numl_t *wm_writer_numl_new (uint64_t n_row, bool has_place);
void wm_writer_numl_destroy (wm_writer_numl_t **self_p);
void wm_writer_numl_reset (wm_writer_t *writer);
bool wm_writer_numl_take (wm_writer_t *writer, const wm_reader_rows_t *rows, uint32_t count);
bool wm_writer_numl_step (wm_writer_t *writer);

/* The form that the library's file is; NULL: none, as it is not small.  */
form_t *wm_writer_form_of (hid_t file);

/* Whether no object's size depends on its values: all columns lie in headers.  */
bool wm_writer_has_form (const wm_writer_t *self);

/* Takes a form with as many rows and writes its attributes and engines over; false: there is none.
   One whose attributes have other sizes is no longer needed.  */
bool wm_writer_form_take (wm_writer_t *self);

/* The file that was just made becomes a form, in the place of the least recently used.  */
void wm_writer_form_begin (const wm_writer_t *self);

/* Puts the writer's objects into its form, which owns them from then on.  */
void wm_writer_form_keep (form_t *kept, wm_writer_t *self);

/* Closes all that is open; false if the library could not write what it still held.  */
bool wm_writer_close (wm_writer_t *self);

/* Writes the attributes of the root, and the engines that were used: their signatures in
   alphabetical order, whichever answered first. false: the library says why.  */
bool wm_writer_facts (const wm_writer_t *self);
bool wm_writer_engines (wm_writer_t *self);

/* A campaign's number as text; a type of texts of fixed length, which the caller closes.  */
void wm_writer_campaign (const uint8_t campaign[16], char text[33]);
hid_t wm_writer_text (size_t bytes);

/* Frames of all events: each step writes a plane; the last leaves phase FINISH. false: the library
   says why; *fault: the input cannot be read, or there is no memory. `reset` closes what is open
   and begins anew. new: never NULL.  */
wm_writer_frames_t *wm_writer_frames_new (void);
void wm_writer_frames_destroy (wm_writer_frames_t **self_p);
bool wm_writer_frames_reset (wm_writer_frames_t *self);
bool wm_writer_frames_step (wm_writer_t *writer, wm_fault_t *fault, wm_error_t *error);

/* Makes a column of `count` rows. Negative: the library says why.  */
hid_t wm_writer_dataset (hid_t group, const char *name, hid_t type, uint64_t count);

/* Makes `list` that of a column in packed chunks of `chunk` rows.  */
void wm_writer_packed (hid_t list, hsize_t chunk);

/* Makes a group without times, so that equal outputs have equal bytes. Negative: it cannot.  */
hid_t wm_writer_group (hid_t file, const char *name);

/* Writes rows first .. first+count-1 of a column from `count` values of `type`. false: the library
   says why (H5E), or there is no memory.  */
bool wm_writer_rows (hid_t dataset, hid_t type, uint64_t first, uint32_t count, const void *from);

/* The digest of all that was hashed is the file's, which is done.  */
void wm_writer_digest (wm_writer_t *self);

#endif
