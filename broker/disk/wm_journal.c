/* wm_journal.c - writes the journal, reads records back, deletes what is no longer needed.

   Two segments are written at a time, one of each kind; sequences run through both, so that the
   replay (wm_journal_replay.c) can put the records in order again and see when one is missing.
   Each RESULT segment has a bitmap of the inputs that need it: input ids are small and dense, an
   append sets a bit, FILE_WRITTEN clears a bit in all segments. A segment without bits is deleted.
 */
#include "broker/disk/wm_journal_private.h"

#include "schema/base/wm_bisect.h"
#include "schema/base/wm_grow.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A segment's largest size, and the largest step in which its space is taken. Steps begin at
   STEP_BYTES_MIN and double the segment, so that a short campaign, or one started often, does not
   fill a small disk with zeros, and a long one extends its file seldom.  */
static const uint64_t bytes_max[2] = { [KEEP] = 16u << 20, [RESULT] = 256u << 20 };
static const uint64_t step_bytes_max[2] = { [KEEP] = 256u << 10, [RESULT] = 16u << 20 };
#define STEP_BYTES_MIN (256u << 10)
static const char *const suffixes[2] = { [KEEP] = "keep", [RESULT] = "result" };

#define INPUT_MAX (1u << 24) /* 2 MiB of bitmap: more files than a campaign has */
#define NUMBER_MAX 0xffffffu

/* ---- segments -------------------------------------------------------------------------------- */

void wm_journal_path (const wm_journal_t *self, const segment_t *segment, char path[PATH_MAX])
{
    snprintf (path, PATH_MAX, "%s/%010" PRIu64 "-%06" PRIu64 ".%s", self->folder,
              SEGMENT_EPOCH (segment->id), SEGMENT_NUMBER (segment->id), suffixes[segment->kind]);
}

int wm_journal_fd (wm_journal_t *self, segment_t *segment)
{
    if (segment->fd < 0) {
        char path[PATH_MAX];
        wm_journal_path (self, segment, path);
        segment->fd = self->ops->open (self->ops->context, path);
    }
    return segment->fd;
}

void wm_journal_close (wm_journal_t *self, segment_t *segment)
{
    if (segment->fd >= 0)
        self->ops->close (self->ops->context, segment->fd);
    segment->fd = -1;
}

/* The kernel marks pages clean after a failed write-back: a second fsync would succeed although
   data is lost (Rebello et al., "Can applications recover from fsync failures?", USENIX ATC 2020).
 */
static void __attribute__ ((noreturn)) die (const char *what, const char *path)
{
    fprintf (stderr,
             "wiremill-broker: %s of %s failed: %s; nothing unsynced was acknowledged; check the "
             "disk, then the same command again continues\n",
             what, path, strerror (errno));
    _exit (1);
}

void wm_journal_sync_segment (wm_journal_t *self, segment_t *segment)
{
    if (self->ops->sync (self->ops->context, segment->fd) == 0) {
        segment->dirty = false;
        return;
    }
    char path[PATH_MAX];
    wm_journal_path (self, segment, path);
    die ("fdatasync", path);
}

static void sync_folder (wm_journal_t *self)
{
    if (self->ops->sync_folder (self->ops->context, self->folder) != 0)
        die ("fsync", self->folder);
}

static void segment_destroy (wm_journal_t *self, segment_t *segment)
{
    wm_journal_close (self, segment);
    free (segment->live);
    free (segment);
}

/* A new entry at the end of the table, or NULL without memory.  */
static segment_t *segment_add (wm_journal_t *self, uint64_t id, segment_kind_t kind)
{
    if (!wm_grow (&self->segment, &self->segment_max, self->n_segment + 1, sizeof *self->segment))
        return NULL;
    segment_t *segment = calloc (1, sizeof *segment);
    if (!segment)
        return NULL;
    *segment = (segment_t){ .id = id, .kind = kind, .fd = -1 };
    self->segment[self->n_segment++] = segment;
    return segment;
}

static segment_t *segment_find (const wm_journal_t *self, uint64_t id)
{
    const size_t at = WM_BISECT (0, self->n_segment, i, self->segment[i]->id < id);
    return at < self->n_segment && self->segment[at]->id == id ? self->segment[at] : NULL;
}

static wm_fault_t no_memory (wm_error_t *error)
{
    return wm_fault (error, WM_EHOST, "out of memory in the journal");
}

static wm_fault_t disk_fault (wm_error_t *error, const char *what, const char *path)
{
    if (errno == ENOSPC || errno == EDQUOT)
        return wm_fault (error, WM_EAGAIN,
                         "disk full at %s: waiting; free some space there and it goes on by itself",
                         path);
    return wm_fault (error, WM_EHOST, "cannot %s %s: %s", what, path, strerror (errno));
}

/* ---- live inputs ----------------------------------------------------------------------------- */

static int live_set (segment_t *segment, uint32_t input)
{
    const size_t word = input / 64;
    if (word >= segment->live_words) {
        const size_t words = word + word / 2 + 1;
        uint64_t *grown = realloc (segment->live, words * sizeof *grown);
        if (!grown)
            return -1;
        memset (grown + segment->live_words, 0, (words - segment->live_words) * sizeof *grown);
        segment->live = grown;
        segment->live_words = words;
    }
    const uint64_t bit = UINT64_C (1) << input % 64;
    segment->n_live += !(segment->live[word] & bit);
    segment->live[word] |= bit;
    return 0;
}

static void live_clear (segment_t *segment, uint32_t input)
{
    const uint64_t bit = UINT64_C (1) << input % 64;
    if (input / 64 < segment->live_words && segment->live[input / 64] & bit) {
        segment->live[input / 64] &= ~bit;
        segment->n_live--;
    }
}

bool wm_journal_hold (wm_journal_t *self, const wm_place_t *place, uint32_t input)
{
    if (!self->held || self->held->id != place->segment)
        self->held = segment_find (self, place->segment);
    const segment_t *segment = self->held;
    return segment && segment->kind == RESULT && input <= INPUT_MAX &&
           place->bytes >= WM_RECORD_HEAD_BYTES &&
           (uint64_t) place->offset + place->bytes <= segment->size &&
           live_set (self->held, input) == 0;
}

/* ---- open ------------------------------------------------------------------------------------ */

typedef struct {
    wm_journal_t *journal;
    int failed;
} listing_t;

static void add_listed (void *argument, const char *name)
{
    listing_t *listing = argument;
    uint64_t epoch, number;
    char suffix[8], again[64];
    if (sscanf (name, "%10" SCNu64 "-%6" SCNu64 ".%7s", &epoch, &number, suffix) != 3)
        return;
    for (segment_kind_t kind = KEEP; kind <= RESULT; kind++) {
        snprintf (again, sizeof again, "%010" PRIu64 "-%06" PRIu64 ".%s", epoch, number,
                  suffixes[kind]);
        if (strcmp (again, name) == 0 && epoch > 0 && number > 0 &&
            !segment_add (listing->journal, epoch << 24 | number, kind))
            listing->failed = 1;
    }
}

static int by_id (const void *a, const void *b)
{
    const segment_t *const *x = a, *const *y = b;
    return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

static wm_fault_t read_first_record (wm_journal_t *self, segment_t *segment, wm_error_t *error)
{
    char path[PATH_MAX];
    wm_journal_path (self, segment, path);
    const int fd = wm_journal_fd (self, segment);
    if (fd < 0)
        return disk_fault (error, "open", path);
    const int64_t size = self->ops->size (self->ops->context, fd);
    if (size < 0)
        return disk_fault (error, "read", path);
    segment->size = (uint64_t) size;
    wm_record_t head;
    const ssize_t got =
        self->ops->read (self->ops->context, fd, self->scratch, WM_RECORD_HEAD_BYTES, 0);
    if (got == WM_RECORD_HEAD_BYTES && wm_record_peek (self->scratch, segment->id, 0)) {
        memcpy (&head, self->scratch, WM_RECORD_HEAD_BYTES);
        segment->first = head.sequence;
        segment->durable = head.durable;
        if (head.type == WM_RECORD_EPOCH && head.code > WM_JOURNAL_FORMAT)
            return wm_fault (error, WM_EBATCH,
                             "%s has format %u, this wiremill (" WM_VERSION ") knows up to %u: "
                             "continue this campaign with the newer wiremill",
                             path, head.code, WM_JOURNAL_FORMAT);
    }
    wm_journal_close (self, segment);
    return WM_OK;
}

/* Makes room for a record of so many bytes: a campaign's records are as large as its results.  */
static wm_fault_t scratch_fit (wm_journal_t *self, size_t bytes, wm_error_t *error)
{
    if (bytes <= self->scratch_bytes)
        return WM_OK;
    return wm_grow_to (&self->scratch, &self->scratch_bytes, bytes, 1) ? WM_OK : no_memory (error);
}

static wm_fault_t open_all (wm_journal_t *self, const char *dir, wm_error_t *error)
{
    const wm_storage_ops_t *ops = self->ops;
    if (snprintf (self->folder, sizeof self->folder, "%s/journal", dir) >=
        (int) sizeof self->folder)
        return wm_fault (error, WM_EHOST, "the path of the campaign is too long: %.300s", dir);
    if (ops->make_folder (ops->context, self->folder) != 0)
        return disk_fault (error, "make", self->folder);
    if (ops->sync_folder (ops->context, dir) != 0)
        die ("fsync", dir);
    if (scratch_fit (self, WM_RECORD_HEAD_BYTES, error))
        return error->fault;

    listing_t listing = { .journal = self };
    if (ops->list (ops->context, self->folder, add_listed, &listing) != 0)
        return disk_fault (error, "list", self->folder);
    if (listing.failed)
        return no_memory (error);
    if (self->n_segment)
        qsort (self->segment, self->n_segment, sizeof *self->segment, by_id);
    for (size_t i = 0; i < self->n_segment; i++) {
        const wm_fault_t fault = read_first_record (self, self->segment[i], error);
        if (fault != WM_OK)
            return fault;
        self->epoch_max = SEGMENT_EPOCH (self->segment[i]->id);
    }
    return WM_OK;
}

wm_journal_t *wm_journal_open (const char *dir, const wm_storage_ops_t *ops, wm_error_t *error)
{
    wm_journal_t *self = calloc (1, sizeof *self);
    if (!self) {
        no_memory (error);
        return NULL;
    }
    self->ops = ops ? ops : &wm_storage_posix;
    if (open_all (self, dir, error) != WM_OK)
        wm_journal_destroy (&self);
    return self;
}

void wm_journal_destroy (wm_journal_t **self_p)
{
    wm_journal_t *self = *self_p;
    if (!self)
        return;
    for (size_t i = 0; i < self->n_segment; i++)
        segment_destroy (self, self->segment[i]);
    free (self->segment);
    free (self->scratch);
    free (self);
    *self_p = NULL;
}

uint64_t wm_journal_epoch (const wm_journal_t *self)
{
    return self->epoch_max;
}

/* ---- append and sync ------------------------------------------------------------------------- */

/* The size, within the limit of the storage.  */
static uint64_t at_most (const wm_journal_t *self, uint64_t bytes)
{
    const uint64_t max = self->ops->segment_bytes_max;
    return max && max < bytes ? max : bytes;
}

/* Reserves space for `bytes` more in a segment, so that a record is written only where all of it
   fits.  */
static wm_fault_t segment_reserve (wm_journal_t *self, segment_t *segment, size_t bytes,
                                   wm_error_t *error)
{
    if (segment->end + bytes <= segment->size)
        return WM_OK;
    uint64_t step = STEP_BYTES_MIN;
    while (step < segment->size && step < step_bytes_max[segment->kind])
        step *= 2;
    step = at_most (self, step);
    const uint64_t size = (segment->end + bytes + step - 1) / step * step;
    if (self->ops->allocate (self->ops->context, segment->fd, (int64_t) segment->size,
                             (int64_t) (size - segment->size)) != 0) {
        char path[PATH_MAX];
        wm_journal_path (self, segment, path);
        return disk_fault (error, "take space for", path);
    }
    segment->size = size;
    return WM_OK;
}

/* Removes a segment that never had a record.  */
static void segment_undo (wm_journal_t *self, segment_t *segment)
{
    char path[PATH_MAX];
    wm_journal_path (self, segment, path);
    self->ops->remove (self->ops->context, path);
    self->n_segment--;
    segment_destroy (self, segment);
}

static wm_fault_t segment_new (wm_journal_t *self, segment_kind_t kind, size_t bytes,
                               wm_error_t *error)
{
    if (self->number == NUMBER_MAX)
        return wm_fault (error, WM_EHOST,
                         "%s has no segment numbers left in epoch %" PRIu64
                         ": start the broker again",
                         self->folder, self->epoch);
    segment_t *segment = segment_add (self, self->epoch << 24 | (self->number + 1), kind);
    if (!segment)
        return no_memory (error);
    char path[PATH_MAX];
    wm_journal_path (self, segment, path);
    segment->fd = self->ops->create (self->ops->context, path);
    if (segment->fd < 0) {
        const wm_fault_t fault = disk_fault (error, "create", path);
        self->n_segment--;
        segment_destroy (self, segment);
        return fault;
    }
    const wm_fault_t fault = segment_reserve (self, segment, bytes, error);
    if (fault != WM_OK) {
        segment_undo (self, segment);
        return fault;
    }
    sync_folder (self);
    self->number++;
    self->active[kind] = segment;
    return WM_OK;
}

/* The segment that the next record of this kind goes to, with space for it.  */
static wm_fault_t segment_for (wm_journal_t *self, segment_kind_t kind, size_t bytes,
                               segment_t **segment, wm_error_t *error)
{
    segment_t *active = self->active[kind];
    if (active && active->end + bytes > at_most (self, bytes_max[kind]))
        active = NULL;
    const wm_fault_t fault = active ? segment_reserve (self, active, bytes, error)
                                    : segment_new (self, kind, bytes, error);
    *segment = self->active[kind];
    return fault;
}

static int write_all (wm_journal_t *self, segment_t *segment, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t wrote =
            self->ops->write (self->ops->context, segment->fd, self->scratch + done, bytes - done,
                              (int64_t) (segment->end + done));
        if (wrote == 0)
            errno = ENOSPC;
        if (wrote == 0 || (wrote < 0 && errno != EINTR))
            return -1;
        done += wrote > 0 ? (size_t) wrote : 0;
    }
    return 0;
}

/* Whether no earlier result of its input is needed after this record.  */
static int lets_go (const wm_record_t *record)
{
    return record->type == WM_RECORD_FILE_WRITTEN ||
           ((record->type == WM_RECORD_KICK || record->type == WM_RECORD_HELD) &&
            record->key.ordinal == WM_ALL);
}

wm_fault_t wm_journal_append (wm_journal_t *self, wm_record_t *record, wm_place_t *place,
                              wm_error_t *error)
{
    assert (self->epoch);
    const segment_kind_t kind = record->type == WM_RECORD_RESULT ? RESULT : KEEP;
    size_t bytes;
    segment_t *segment;
    wm_fault_t fault = wm_record_size (record, &bytes, error);
    if (fault == WM_OK && record->key.input > INPUT_MAX)
        fault = wm_fault (error, WM_EHOST, "input %u: a campaign has at most %u", record->key.input,
                          INPUT_MAX);
    if (fault == WM_OK)
        fault = scratch_fit (self, bytes, error);
    if (fault == WM_OK)
        fault = segment_for (self, kind, bytes, &segment, error);
    if (fault == WM_OK && kind == RESULT && live_set (segment, record->key.input) != 0)
        fault = no_memory (error);
    if (fault != WM_OK)
        return fault;

    record->epoch = self->epoch;
    record->sequence = self->sequence + 1;
    record->durable = self->durable;
    record->n_kept = self->n_kept;
    wm_record_encode (record, segment->id, segment->end, self->scratch);
    segment->dirty = true;
    if (write_all (self, segment, bytes) != 0) {
        char path[PATH_MAX];
        wm_journal_path (self, segment, path);
        self->active[kind] = NULL; /* its end is unknown now: never written again */
        return disk_fault (error, "write", path);
    }
    if (place)
        *place = (wm_place_t){ segment->id, (uint32_t) segment->end, (uint32_t) bytes };
    if (segment->first == 0)
        segment->first = record->sequence;
    segment->end += bytes;
    self->sequence++;
    self->n_kept += kind == KEEP;
    if (lets_go (record))
        for (size_t i = 0; i < self->n_segment; i++)
            live_clear (self->segment[i], record->key.input);
    return WM_OK;
}

void wm_journal_sync (wm_journal_t *self)
{
    if (self->durable == self->sequence)
        return;
    for (size_t i = self->n_segment; i-- > 0;)
        if (self->segment[i]->dirty)
            wm_journal_sync_segment (self, self->segment[i]);
    self->durable = self->sequence;
}

wm_fault_t wm_journal_start (wm_journal_t *self, uint64_t epoch, wm_error_t *error)
{
    assert (self->epoch == 0 && epoch > self->epoch_max);
    self->epoch = epoch;
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_EPOCH);
    record.code = WM_JOURNAL_FORMAT;
    record.size = (int64_t) self->epoch_max;
    record.n_event = self->complete;
    record.n_hit = self->complete_kept;
    const wm_fault_t fault = wm_journal_append (self, &record, NULL, error);
    if (fault == WM_OK) {
        wm_journal_sync (self);
        self->epoch_max = epoch;
    } else
        self->epoch = 0;
    return fault;
}

/* ---- read, sweep ----------------------------------------------------------------------------- */

static int read_all (wm_journal_t *self, segment_t *segment, const wm_place_t *place)
{
    for (size_t done = 0; done < place->bytes;) {
        const ssize_t got = self->ops->read (self->ops->context, segment->fd, self->scratch + done,
                                             place->bytes - done, (int64_t) (place->offset + done));
        if (got == 0)
            errno = ENODATA;
        if (got == 0 || (got < 0 && errno != EINTR))
            return -1;
        done += got > 0 ? (size_t) got : 0;
    }
    return 0;
}

wm_fault_t wm_journal_read (wm_journal_t *self, const wm_place_t *place, wm_record_t *record,
                            wm_error_t *error)
{
    segment_t *segment = segment_find (self, place->segment);
    if (!segment || place->bytes > WM_RECORD_BYTES_MAX)
        return wm_fault (error, WM_EHOST,
                         "the journal has no segment %" PRIu64 "-%" PRIu64 " any more",
                         SEGMENT_EPOCH (place->segment), SEGMENT_NUMBER (place->segment));
    if (scratch_fit (self, place->bytes, error))
        return error->fault;
    char path[PATH_MAX];
    wm_journal_path (self, segment, path);
    if (wm_journal_fd (self, segment) < 0)
        return wm_fault (error, WM_EHOST, "cannot open %s: %s", path, strerror (errno));
    if (read_all (self, segment, place) != 0)
        return wm_fault (error, WM_EHOST, "cannot read %u bytes at %u of %s: %s", place->bytes,
                         place->offset, path, strerror (errno));
    if (wm_record_check (record, self->scratch, place->bytes, segment->id, place->offset) !=
        place->bytes)
        return wm_fault (error, WM_EHOST,
                         "the record of %u bytes at %u of %s is damaged: its batch is scored again",
                         place->bytes, place->offset, path);
    return WM_OK;
}

/* Records that this segment is deleted, so that a replay does not count its records as lost.  */
static wm_fault_t append_dropped (wm_journal_t *self, size_t i)
{
    const segment_t *segment = self->segment[i];
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_DROPPED);
    record.n_event = SEGMENT_EPOCH (segment->id);
    record.n_hit = segment->first ? segment->first : 1;
    record.n_held = UINT64_MAX;
    for (size_t next = i + 1; next < self->n_segment && record.n_held == UINT64_MAX; next++) {
        const segment_t *later = self->segment[next];
        if (SEGMENT_EPOCH (later->id) == record.n_event && later->kind == RESULT && later->first)
            record.n_held = later->first - 1;
    }
    return wm_journal_append (self, &record, NULL, NULL);
}

static bool is_dead (const wm_journal_t *self, const segment_t *segment)
{
    return segment->kind == RESULT && segment->n_live == 0 && segment != self->active[RESULT];
}

size_t wm_journal_sweep (wm_journal_t *self)
{
    size_t n_dead = 0, n_left = 0;
    for (size_t i = 0; i < self->n_segment; i++)
        n_dead += is_dead (self, self->segment[i]);
    if (!n_dead)
        return 0;
    n_dead = 0;
    wm_journal_sync (self); /* so that DROPPED proves all before it */
    segment_t **dead = calloc (self->n_segment + 1, sizeof *dead);
    /* append_dropped may add a segment to the table: only those there now are tested.  */
    const size_t n_segment = dead ? self->n_segment : 0;
    for (size_t i = 0; i < n_segment; i++) {
        segment_t *segment = self->segment[i];
        if (is_dead (self, segment) && append_dropped (self, i) == WM_OK)
            dead[n_dead++] = segment;
    }
    if (n_dead) {
        wm_journal_sync (self);
        self->held = NULL;
        for (size_t i = 0, next = 0; i < self->n_segment; i++) {
            segment_t *segment = self->segment[i];
            char path[PATH_MAX];
            wm_journal_path (self, segment, path);
            if (next < n_dead && segment == dead[next] &&
                (next++, self->ops->remove (self->ops->context, path) == 0))
                segment_destroy (self, segment);
            else
                self->segment[n_left++] = segment;
        }
        n_dead = self->n_segment - n_left;
        self->n_segment = n_left;
        sync_folder (self);
    }
    free (dead);
    return n_dead;
}

uint64_t wm_journal_bytes (const wm_journal_t *self)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < self->n_segment; i++)
        bytes += self->segment[i]->size;
    return bytes;
}
