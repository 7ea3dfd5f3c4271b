/* wm_journal_private.h - what wm_journal.c (writes, reads back, deletes) and wm_journal_replay.c
   (finds what was written) share. No other file includes this.  */
#ifndef WM_JOURNAL_PRIVATE_H
#define WM_JOURNAL_PRIVATE_H

#include "broker/disk/wm_journal.h"

#include <limits.h>

typedef enum { KEEP = 0, RESULT = 1 } segment_kind_t;

typedef struct {
    uint64_t id; /* epoch << 24 | number */
    segment_kind_t kind;
    int fd;            /* -1: not open */
    bool dirty;        /* written to since the last sync */
    uint64_t first;    /* sequence of its first record; 0: not known, or none */
    uint64_t durable;  /* `durable` of its first record; 0: not known */
    uint64_t size;     /* allocated */
    uint64_t end;      /* where the next record goes; the active segments only */
    uint64_t *live;    /* RESULT: one bit an input with a live result here */
    size_t live_words; /* allocated */
    size_t n_live;     /* bits set */
} segment_t;

struct wm_journal_t {
    const wm_storage_ops_t *ops;
    char folder[PATH_MAX - 64]; /* so that any name fits behind it */
    segment_t **segment;        /* (n_segment), by id; those that are there */
    size_t n_segment, segment_max;
    segment_t *active[2]; /* by kind; NULL: the next append opens one */
    segment_t *held;      /* the one wm_journal_hold found last */
    uint64_t epoch_max;   /* that ever opened a segment */
    uint64_t epoch;       /* being written; 0 until wm_journal_start */
    uint32_t number;      /* of the last segment of this epoch */
    uint64_t sequence, durable, n_kept;
    uint64_t complete;      /* up to where epoch_max was found complete by replay */
    uint64_t complete_kept; /* records that stay, up to there, and one; 0: unknown */
    uint8_t *scratch;       /* (scratch_bytes) one record on its way in or out */
    size_t scratch_bytes;
};

#define SEGMENT_EPOCH(id) ((id) >> 24)
#define SEGMENT_NUMBER(id) ((id) &0xffffff)

void wm_journal_path (const wm_journal_t *self, const segment_t *segment, char path[PATH_MAX]);

/* Opens a segment that is not; -1 and errno on failure.  */
int wm_journal_fd (wm_journal_t *self, segment_t *segment);
void wm_journal_close (wm_journal_t *self, segment_t *segment);

/* fdatasync, or the end of the process.  */
void wm_journal_sync_segment (wm_journal_t *self, segment_t *segment);

#endif
