/* wm_writer_private.h - what the files of wm_writer share: its state.

   wm_writer.c       makes the file: from the scores to a complete file under its partial name
   wm_writer_rows.c  packs rows and writes them
   wm_writer_place.c makes complete files durable and gives them their names  */
#ifndef WM_WRITER_PRIVATE_H
#define WM_WRITER_PRIVATE_H

#include "producer/wm_writer.h"

#include <hdf5.h>
#include <xxhash.h>

enum { RUN, SUBRUN, EVENT, CRYOSTAT, TPC, PLANE, HIT_ID, IN_FIDUCIAL, STATUS, ENGINE, COLUMNS };

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

typedef enum { CREATE, ROWS, FINISH, READY, SYNCED, HASH, DONE } phase_t;

struct wm_writer_t {
    wm_writer_job_t job;
    phase_t phase;
    char part[1500];
    uint64_t row;          /* next to write */
    uint64_t n_held, held; /* in all; already written */
    uint64_t full_bytes;   /* room when the disk was full; 0: it is not */
    uint32_t full_tries;
    uint16_t *engine_index; /* number in the scratch -> index in the file */
    uint32_t piece_rows;    /* a step: PIECE_ROWS, or all rows of a smaller file */
    bool is_small;          /* made in memory */

    hid_t file, table, column[COLUMNS], *label; /* label: (n_output) */
    hid_t held_row, held_id, held_status, held_reason;
    XXH3_state_t *hash;
    uint64_t n_hashed; /* bytes */
    int fd;            /* of the file to sync, or being hashed */
    wm_writer_result_t result;
};

/* Makes `list` that of a column in packed chunks of `chunk` rows.  */
void wm_writer_packed (hid_t list, hsize_t chunk);

/* Writes rows first .. first+count-1 of a column from `count` values of `type`. false: the library
   says why (H5E), or there is no memory.  */
bool wm_writer_rows (hid_t dataset, hid_t type, uint64_t first, uint32_t count, const void *from);

/* The digest of all that was hashed is the file's, which is done.  */
void wm_writer_digest (wm_writer_t *self);

#endif
