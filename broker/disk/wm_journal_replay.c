/* wm_journal_replay.c - puts the records of a journal in order again, and finds which are missing.

   An epoch is what one broker wrote between its start and its end. Its records lie in two chains of
   segments: records that stay (.keep), and RESULTs (.result), whose segments are deleted when no
   input needs them. One sequence runs through both chains, and each chain is in order: merging them
   by sequence gives the order of appending. Epochs follow each other.

   Each record has a checksum that covers its position. Where no valid record begins, the reader
   moves on, word by word, to the next valid one: zeros are space not used yet, other bytes are
   damage. A segment is synced and read from the disk before its records are shown, because they may
   have been in the page cache only.

   A sequence number without a record is a hole. There are three kinds:
     torn tail  above everything known durable in its epoch. Its fdatasync had not returned, so no
                effect of the record left the broker. This is how a crash ends an epoch.
     deleted    RESULTs of a segment that was deleted; a DROPPED record names their sequences. How
                many of the missing records were RESULTs is known exactly: each record carries the
                number of .keep records before it (n_kept), EPOCH that of the epoch before.
     damage     the rest. It is counted and named; the batches concerned are scored again.
   What is known durable comes from three places: each record's `durable` (what was synced when it
   was appended), the EPOCH record of the next epoch (how far its predecessor was found complete),
   and the position of the ledger, which never runs ahead of the journal's fdatasync.
   Holes are therefore judged last, when everything is read.

   A hole may lie in the middle of a torn tail: the records above it are adopted, and the ledger's
   position passes it. When that start ends before it has written its EPOCH record, the next start
   replays from above the hole. So the ledger's position says nothing about the records below it: a
   replay looks again at all that the last epoch's own records do not call durable, and its EPOCH
   record says "complete" only up to the first hole there.  */
#include "broker/disk/wm_journal_private.h"

#include "schema/base/wm_grow.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (1u << 20)  /* read ahead */
#define BLOCK_BYTES 4096u       /* skipped where the disk cannot read */
#define BUFFER_BYTES (5u << 20) /* at first: more where a record is larger */

typedef struct {
    uint64_t epoch, first, last; /* missing sequences; last UINT64_MAX: up to what is durable */
    uint64_t n_result;           /* of them RESULTs; UINT64_MAX: unknown */
    uint64_t n_kept;             /* records that stay, before it */
} hole_t;

/* What is known durable of an epoch: 1..last. kept: records that stay up to kept_last, and one; 0:
   unknown.  */
typedef struct {
    uint64_t epoch, last, kept_last, kept;
} durable_t;

typedef struct {
    uint64_t epoch, first, last;
} range_t;

/* One chain of an epoch: reads its segments one after another.  */
typedef struct {
    wm_journal_t *journal;
    wm_journal_found_t *found;
    segment_kind_t kind;
    size_t next, end;   /* segments still to read: indices into the journal's table */
    segment_t *segment; /* being read; NULL: none */
    uint64_t position;  /* in it, of the next record */
    uint8_t *buffer;    /* (buffer_max) */
    size_t buffer_max;
    uint64_t buffer_offset; /* of the buffer in the segment */
    size_t buffer_bytes;
    wm_record_t record; /* the current record, if `has` */
    wm_place_t place;
    bool has, lacks_memory;
} chain_t;

typedef struct {
    wm_journal_t *journal;
    wm_journal_found_t *found;
    uint64_t epoch, sequence; /* records up to here are not shown */
    uint64_t looked_after;    /* records of the epoch being read are looked for only after this */
    uint64_t called_durable;  /* by records of the journal's last epoch */
    wm_journal_each_fn *each;
    void *argument;
    chain_t chain[2]; /* by kind */
    hole_t *hole;
    size_t n_hole, hole_max;
    range_t *dropped;
    size_t n_dropped, dropped_max;
    durable_t *durable; /* one an epoch */
    size_t n_durable, durable_max;
} replay_t;

static wm_fault_t no_memory (wm_error_t *error)
{
    return wm_fault (error, WM_EHOST, "out of memory while reading the journal");
}

/* ---- one chain ------------------------------------------------------------------------------- */

/* Reads on into the buffer. A block that the disk cannot read counts as zeros: the hole shows the
   damage.  */
static void fill (chain_t *chain)
{
    const wm_storage_ops_t *ops = chain->journal->ops;
    const uint64_t at = chain->buffer_offset + chain->buffer_bytes;
    const uint64_t left = chain->segment->size - at;
    const size_t space = chain->buffer_max - chain->buffer_bytes;
    const size_t want = left < space ? (size_t) left : space;
    uint8_t *to = chain->buffer + chain->buffer_bytes;
    const ssize_t got = ops->read (ops->context, chain->segment->fd, to, want, (int64_t) at);
    if (got > 0) {
        chain->buffer_bytes += (size_t) got;
        return;
    }
    if (got < 0 && errno == EINTR)
        return;
    size_t skip = BLOCK_BYTES - at % BLOCK_BYTES;
    skip = skip < want ? skip : want;
    memset (to, 0, skip);
    chain->buffer_bytes += skip;
    chain->found->damaged_bytes += skip;
}

/* The bytes at the position, at least `bytes` of them; NULL where the segment ends before, or
   without memory.  */
static const uint8_t *peek (chain_t *chain, size_t bytes)
{
    if (chain->position + bytes > chain->segment->size)
        return NULL;
    if (chain->position + bytes > chain->buffer_offset + chain->buffer_bytes) {
        const size_t used = (size_t) (chain->position - chain->buffer_offset);
        const size_t kept = chain->buffer_bytes > used ? chain->buffer_bytes - used : 0;
        if (kept)
            memmove (chain->buffer, chain->buffer + used, kept);
        chain->buffer_offset = chain->position;
        chain->buffer_bytes = kept;
        if (bytes > chain->buffer_max) { /* its head has the right checksum */
            chain->lacks_memory =
                !wm_grow_to (&chain->buffer, &chain->buffer_max, bytes + CHUNK_BYTES, 1);
            if (chain->lacks_memory)
                return NULL;
        }
        while (chain->buffer_bytes < bytes)
            fill (chain);
    }
    return chain->buffer + (chain->position - chain->buffer_offset);
}

/* Moves on to where the next record may begin: past zeros (space not used yet) and damage.  */
static void skip (chain_t *chain)
{
    uint64_t word;
    const uint8_t *at = peek (chain, sizeof word);
    do {
        if (!at) {
            chain->position = chain->segment->size;
            return;
        }
        memcpy (&word, at, sizeof word);
        chain->found->damaged_bytes += word ? sizeof word : 0;
        chain->position += sizeof word;
        at = peek (chain, sizeof word);
    } while (!at || memcmp (at, &(uint32_t){ WM_RECORD_MAGIC }, 4) != 0);
}

static bool parse (chain_t *chain)
{
    const uint64_t id = chain->segment->id;
    const uint8_t *at = peek (chain, WM_RECORD_HEAD_BYTES);
    const size_t bytes = at ? wm_record_peek (at, id, chain->position) : 0;
    if (!bytes || !(at = peek (chain, bytes)) ||
        !wm_record_check (&chain->record, at, bytes, id, chain->position) ||
        chain->record.epoch != SEGMENT_EPOCH (id))
        return false;
    chain->place = (wm_place_t){ id, (uint32_t) chain->position, (uint32_t) bytes };
    chain->position += bytes;
    return true;
}

/* Opens the chain's next segment, made durable and read from the disk, not from the cache.  */
static wm_fault_t open_next (chain_t *chain, wm_error_t *error)
{
    wm_journal_t *journal = chain->journal;
    while (chain->next < chain->end && journal->segment[chain->next]->kind != chain->kind)
        chain->next++;
    if (chain->next == chain->end)
        return WM_OK;
    segment_t *segment = journal->segment[chain->next++];
    if (wm_journal_fd (journal, segment) < 0) {
        char path[PATH_MAX];
        wm_journal_path (journal, segment, path);
        return wm_fault (error, WM_EHOST, "cannot open %s: %s", path, strerror (errno));
    }
    wm_journal_sync_segment (journal, segment);
    journal->ops->forget (journal->ops->context, segment->fd);
    chain->segment = segment;
    chain->position = chain->buffer_offset = 0;
    chain->buffer_bytes = 0;
    return WM_OK;
}

/* Makes the next record of the chain the current one; !has at its end.  */
static wm_fault_t advance (chain_t *chain, wm_error_t *error)
{
    chain->has = false;
    for (;;) {
        if (!chain->segment) {
            const wm_fault_t fault = open_next (chain, error);
            if (fault != WM_OK || !chain->segment)
                return fault;
        }
        while (chain->position < chain->segment->size)
            if (parse (chain)) {
                chain->has = true;
                return WM_OK;
            } else if (chain->lacks_memory)
                return no_memory (error);
            else
                skip (chain);
        wm_journal_close (chain->journal, chain->segment);
        chain->segment = NULL;
    }
}

/* ---- holes ----------------------------------------------------------------------------------- */

static const durable_t *durable_of (const replay_t *self, uint64_t epoch)
{
    static const durable_t nothing;
    for (size_t i = self->n_durable; i-- > 0;)
        if (self->durable[i].epoch == epoch)
            return &self->durable[i];
    return &nothing;
}

/* kept as in durable_t.  */
static wm_fault_t note_durable (replay_t *self, uint64_t epoch, uint64_t last, uint64_t kept,
                                wm_error_t *error)
{
    durable_t *durable = (durable_t *) (uintptr_t) durable_of (self, epoch);
    if (!durable->epoch) {
        if (!wm_grow (&self->durable, &self->durable_max, self->n_durable + 1, sizeof *durable))
            return no_memory (error);
        durable = &self->durable[self->n_durable++];
        *durable = (durable_t){ .epoch = epoch };
    }
    if (durable->last < last)
        durable->last = last;
    if (kept) {
        durable->kept = kept;
        durable->kept_last = last;
    }
    return WM_OK;
}

static wm_fault_t note_dropped (replay_t *self, const wm_record_t *record, wm_error_t *error)
{
    if (!wm_grow (&self->dropped, &self->dropped_max, self->n_dropped + 1, sizeof *self->dropped))
        return no_memory (error);
    self->dropped[self->n_dropped++] = (range_t){ record->n_event, record->n_hit, record->n_held };
    return WM_OK;
}

static wm_fault_t note_hole (replay_t *self, hole_t hole, wm_error_t *error)
{
    if (!wm_grow (&self->hole, &self->hole_max, self->n_hole + 1, sizeof hole))
        return no_memory (error);
    self->hole[self->n_hole++] = hole;
    return WM_OK;
}

static uint64_t smaller (uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Counts the missing sequences first..last of an epoch that DROPPED records name.  */
static uint64_t n_deleted (const replay_t *self, uint64_t epoch, uint64_t first, uint64_t last)
{
    uint64_t n = 0;
    for (size_t i = 0; i < self->n_dropped; i++) {
        const range_t *range = &self->dropped[i];
        const uint64_t low = range->first > first ? range->first : first;
        const uint64_t high = smaller (range->last, last);
        if (range->epoch == epoch && low <= high)
            n += high - low + 1;
    }
    return smaller (n, last - first + 1);
}

/* The journal's last epoch is not known to be complete after this sequence.  */
static void complete_at_most (wm_journal_t *journal, uint64_t sequence)
{
    if (sequence < journal->complete) {
        journal->complete = sequence;
        journal->complete_kept = 0;
    }
}

/* Whether an earlier replay has judged this hole, and what lies above it is in the ledger.  */
static bool is_below_ledger (const replay_t *self, const hole_t *hole)
{
    return hole->epoch == self->epoch && hole->last <= self->sequence;
}

/* Decides for each hole whether it is a torn tail, deleted, or damage.  */
static void judge (replay_t *self)
{
    wm_journal_t *journal = self->journal;
    for (size_t i = 0; i < self->n_hole; i++) {
        const hole_t *hole = &self->hole[i];
        if (is_below_ledger (self, hole)) {
            if (hole->last > self->called_durable)
                complete_at_most (journal, hole->first - 1 > self->called_durable
                                               ? hole->first - 1
                                               : self->called_durable);
            continue;
        }
        const durable_t *known = durable_of (self, hole->epoch);
        const uint64_t durable = known->last, last = smaller (hole->last, durable);
        uint64_t lost = 0;
        if (hole->first <= last) {
            lost = last - hole->first + 1;
            uint64_t n_result = smaller (hole->n_result, lost);
            if (hole->n_result == UINT64_MAX && known->kept && known->kept_last == last)
                n_result = lost - smaller (lost, known->kept - 1 - hole->n_kept);
            lost -= smaller (n_deleted (self, hole->epoch, hole->first, last), n_result);
        }
        if (lost && !self->found->n_lost)
            snprintf (self->found->text, sizeof self->found->text,
                      "epoch %" PRIu64 ": %" PRIu64 " of the records %" PRIu64 " to %" PRIu64
                      " are missing or damaged",
                      hole->epoch, lost, hole->first, last);
        self->found->n_lost += lost;
        if (hole->last == UINT64_MAX || hole->last <= durable)
            continue;
        self->found->n_torn += hole->last - (last < hole->first ? hole->first - 1 : last);
        const uint64_t before = durable < hole->first ? hole->first - 1 : durable;
        if (hole->epoch == journal->epoch_max)
            complete_at_most (journal, before);
    }
}

/* ---- replay ---------------------------------------------------------------------------------- */

static wm_fault_t show (replay_t *self, const chain_t *chain, wm_error_t *error)
{
    const wm_record_t *record = &chain->record;
    if (record->epoch == self->epoch && record->sequence <= self->sequence)
        return WM_OK;
    self->found->n_record++;
    return self->each (self->argument, record, &chain->place, error);
}

/* Records that stay, up to this one and with it; `record` may be none (sequence 0).  */
static uint64_t kept_after (const wm_record_t *record)
{
    return record->n_kept + (record->sequence && record->type != WM_RECORD_RESULT);
}

/* One record of the merged order, after `before` (sequence 0: none in this epoch).  */
static wm_fault_t take (replay_t *self, const chain_t *chain, const wm_record_t *before,
                        wm_error_t *error)
{
    const wm_record_t *record = &chain->record;
    const uint64_t shown = record->epoch == self->epoch ? self->sequence : 0;
    const uint64_t low = before->sequence > shown ? before->sequence : shown;
    wm_fault_t fault = note_durable (self, record->epoch, record->durable, 0, error);
    const uint64_t below = smaller (record->sequence - 1, shown);
    if (record->epoch == self->journal->epoch_max) {
        if (record->durable > self->called_durable)
            self->called_durable = record->durable;
        if (fault == WM_OK && below > before->sequence && below > self->looked_after)
            fault = note_hole (self, (hole_t){ record->epoch, before->sequence + 1, below, 0, 0 },
                               error);
    }
    if (fault == WM_OK && record->sequence > low + 1) {
        const uint64_t n = record->sequence - low - 1;
        const uint64_t kept_before = kept_after (before);
        const uint64_t kept = record->n_kept > kept_before ? record->n_kept - kept_before : 0;
        const hole_t hole = { record->epoch, low + 1, record->sequence - 1, kept < n ? n - kept : 0,
                              kept_before };
        fault = note_hole (self, hole, error);
    }
    if (fault != WM_OK)
        return fault;
    if (record->type == WM_RECORD_EPOCH)
        return note_durable (self, (uint64_t) record->size, record->n_event, record->n_hit, error);
    if (record->type == WM_RECORD_DROPPED)
        return note_dropped (self, record, error);
    return show (self, chain, error);
}

/* One epoch: the segments begin..end of the journal's table.  */
static wm_fault_t take_epoch (replay_t *self, uint64_t epoch, size_t begin, size_t end,
                              wm_error_t *error)
{
    chain_t *keep = &self->chain[KEEP], *result = &self->chain[RESULT];
    keep->next = result->next = begin;
    keep->end = result->end = end;
    self->looked_after = epoch == self->epoch ? self->sequence : 0;
    if (epoch == self->journal->epoch_max) {
        uint64_t durable = 0;
        for (size_t i = begin; i < end; i++)
            if (self->journal->segment[i]->durable > durable)
                durable = self->journal->segment[i]->durable;
        self->looked_after = smaller (self->looked_after, durable);
        self->called_durable = durable;
    }
    for (size_t i = begin; i < end && epoch == self->epoch; i++) {
        const segment_t *segment = self->journal->segment[i];
        if (segment->kind == RESULT && segment->first && segment->first <= self->looked_after + 1)
            result->next = i; /* those before have only records that are not looked for */
    }
    wm_record_t before = { 0 };
    wm_fault_t fault = advance (keep, error);
    if (fault == WM_OK)
        fault = advance (result, error);
    while (fault == WM_OK && (keep->has || result->has)) {
        const bool keep_first =
            !result->has || (keep->has && keep->record.sequence <= result->record.sequence);
        chain_t *chain = keep_first ? keep : result;
        fault = take (self, chain, &before, error);
        if (chain->record.sequence > before.sequence)
            before = chain->record;
        if (fault == WM_OK)
            fault = advance (chain, error);
    }
    if (epoch == self->journal->epoch_max) {
        self->journal->complete = before.sequence;
        self->journal->complete_kept = kept_after (&before) + 1;
    }
    const hole_t tail = { epoch, before.sequence + 1, UINT64_MAX, UINT64_MAX,
                          kept_after (&before) };
    return fault == WM_OK ? note_hole (self, tail, error) : fault;
}

/* Epochs first..last, of which every segment is missing: each had records.  */
static wm_fault_t take_missing (replay_t *self, uint64_t first, uint64_t last, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (uint64_t epoch = first; epoch <= last && fault == WM_OK; epoch++) {
        fault = note_durable (self, epoch, 1, 0, error);
        if (fault == WM_OK)
            fault = note_hole (self, (hole_t){ epoch, 1, UINT64_MAX, UINT64_MAX, 0 }, error);
    }
    return fault;
}

static wm_fault_t take_all (replay_t *self, wm_error_t *error)
{
    wm_journal_t *journal = self->journal;
    uint64_t next = self->epoch ? self->epoch : 1;
    wm_fault_t fault = note_durable (self, self->epoch, self->sequence, 0, error);
    for (size_t begin = 0, end; fault == WM_OK && begin < journal->n_segment; begin = end) {
        const uint64_t epoch = SEGMENT_EPOCH (journal->segment[begin]->id);
        for (end = begin; end < journal->n_segment; end++)
            if (SEGMENT_EPOCH (journal->segment[end]->id) != epoch)
                break;
        if (epoch < next)
            continue;
        if (epoch > next)
            fault = take_missing (self, next, epoch - 1, error);
        if (fault == WM_OK)
            fault = take_epoch (self, epoch, begin, end, error);
        next = epoch + 1;
    }
    if (fault == WM_OK && self->epoch > journal->epoch_max)
        fault = note_hole (self, (hole_t){ self->epoch, 1, UINT64_MAX, UINT64_MAX, 0 }, error);
    return fault;
}

wm_fault_t wm_journal_replay (wm_journal_t *journal, uint64_t epoch, uint64_t sequence,
                              wm_journal_each_fn *each, void *argument, wm_journal_found_t *found,
                              wm_error_t *error)
{
    assert (journal->epoch == 0);
    memset (found, 0, sizeof *found);
    replay_t self = { .journal = journal,
                      .found = found,
                      .epoch = epoch,
                      .sequence = sequence,
                      .each = each,
                      .argument = argument };
    wm_fault_t fault = WM_OK;
    for (segment_kind_t kind = KEEP; kind <= RESULT; kind++) {
        self.chain[kind] = (chain_t){
            .journal = journal,
            .found = found,
            .kind = kind,
            .buffer = malloc (BUFFER_BYTES),
            .buffer_max = BUFFER_BYTES,
        };
        if (!self.chain[kind].buffer)
            fault = no_memory (error);
    }
    if (fault == WM_OK)
        fault = take_all (&self, error);
    if (fault == WM_OK)
        judge (&self);
    for (segment_kind_t kind = KEEP; kind <= RESULT; kind++) {
        if (self.chain[kind].segment)
            wm_journal_close (journal, self.chain[kind].segment);
        free (self.chain[kind].buffer);
    }
    free (self.hole);
    free (self.dropped);
    free (self.durable);
    return fault;
}
