/* wm_core_restore.c - takes over what the ledger knows of a campaign, before any session.  */
#include "broker/core/wm_core_check_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int wm_core_restore_input (wm_core_t *self, const wm_ledger_input_t *row)
{
    if (row->id != self->inputs.n + 1)
        wm_core_log (self, "ledger: input %u follows input %u", row->id, self->inputs.n);
    /* Ids are given one by one: a missing row was never acknowledged, but its id is taken.  */
    while (self->inputs.n + 1 < row->id) {
        char path[32];
        snprintf (path, sizeof path, "?%u", self->inputs.n + 1);
        input_t *hole = wm_core_input_add (self, strdup (path), strdup (path));
        if (!hole)
            return -1;
        hole->state = WM_LEDGER_HELD;
        wm_core_input_set_text (hole, "its record is missing");
        self->inputs.n_held++;
    }
    input_t *input = wm_core_input_add (self, strdup (row->path), strdup (row->name));
    if (!input)
        return -1;
    input->generation = row->generation;
    input->unpinned = row->size < 0;
    input->size = input->unpinned ? 0 : (uint64_t) row->size;
    input->mtime_ns = row->mtime_ns;
    input->state = row->state;
    if (row->is_suspect)
        wm_input_set_add (&self->distrust.to_redo, row->id);
    self->distrust.has_verdict |= row->is_suspect;
    if (row->n_event >= 0) {
        input->ended = true;
        input->end_count = (uint64_t) row->n_event;
    }
    if (input->state == WM_LEDGER_WRITTEN) {
        input->out_size = (uint64_t) row->out_size;
        input->out_mtime_ns = row->out_mtime_ns;
        memcpy (input->out_digest, row->out_digest, 16);
        input->n_event = input->n_done = input->end_count;
        input->n_hit = row->n_hit;
        input->n_hit_held = row->n_held;
        input->n_hit_done = row->n_hit - row->n_held;
        input->n_hit_empty = strtoull (row->text, NULL, 10);
        self->totals.hits_empty += input->n_hit_empty;
        input->n_batch = input->n_batch_held = row->n_batch_held;
        self->totals.written_batches_held += row->n_batch_held;
        self->inputs.n_written++;
        self->totals.events_written += input->n_done;
    }
    if (input->state == WM_LEDGER_HELD) {
        wm_core_input_set_text (input, row->text);
        self->inputs.n_held++;
    }
    self->totals.events_known += input->n_event;
    self->totals.events_done += input->n_done;
    self->totals.hits_known += input->n_hit;
    self->totals.hits_done += input->n_hit_done;
    self->totals.hits_held += input->n_hit_held;
    return 0;
}

int wm_core_restore_batch (wm_core_t *self, const wm_ledger_batch_t *row, const char *signature)
{
    input_t *input = wm_core_input_find (self, row->key.input);
    if (!input || input->state != WM_LEDGER_OPEN || row->key.batch >= row->n_batch ||
        row->n_batch > WM_EVENT_BATCHES_MAX || row->key.generation != input->generation)
        return 0;
    event_t *event = wm_core_event_find (self, input->id, row->key.ordinal);
    if (!event)
        event = wm_core_event_new (self, input, row->key.ordinal, row->n_batch);
    if (!event)
        return -1;
    if (event->n_batch != row->n_batch)
        return 0;
    batch_t *batch = wm_core_event_batch (event, row->key.batch);
    if (!batch)
        batch = wm_core_event_add (self, event, row->key.batch);
    if (!batch)
        return -1;
    if (batch->state != BATCH_NONE)
        return 0;
    memcpy (batch->digest, row->digest, 16);
    batch->n_hit = row->n_hit;
    batch->flags |= BATCH_DIGEST;
    batch->signature = wm_core_signature (self, signature);
    if (row->state == WM_LEDGER_BATCH_HELD) {
        wm_core_batch_held (self, batch, row->text);
        wm_core_note_reason (self, row->key, row->text);
        return 0;
    }
    batch->n_held = row->n_held < row->n_hit ? row->n_held : row->n_hit;
    wm_core_batch_return (self, batch, &row->place);
    char text[80];
    snprintf (text, sizeof text, "%u of its hits have no scores: their statuses give the reason",
              batch->n_held);
    if (batch->n_held)
        wm_core_note_reason (self, row->key, text);
    return 0;
}

void wm_core_restore_standing (wm_core_t *self, const wm_record_t *record, const wm_place_t *place)
{
    if (record->type == WM_RECORD_PAUSE) {
        self->paused = record->code;
        snprintf (self->why, sizeof self->why, "%.*s", (int) record->text_bytes,
                  record->text_bytes ? record->text : "");
    } else if (record->type == WM_RECORD_ARITHMETIC)
        wm_core_arithmetic_restore (self, record);
    else if (record->type == WM_RECORD_SAMPLE)
        wm_core_sample_restore (self, place);
    else if (record->type == WM_RECORD_DISTRUST)
        wm_core_distrust_restore (self, record);
}

void wm_core_compare_output (wm_core_t *self, uint32_t id, const char *what)
{
    input_t *input = wm_core_input_find (self, id);
    if (!input || input->state != WM_LEDGER_WRITTEN)
        return;
    wm_core_input_reopen (self, input);
    input->lost = what;
}

void wm_core_compare_input (wm_core_t *self, uint32_t id, uint64_t size, int64_t mtime_ns,
                            const char *last)
{
    input_t *input = wm_core_input_find (self, id);
    if (input && !input->unpinned)
        wm_core_input_compare (self, input, size, mtime_ns, last);
}

void wm_core_output_changed (wm_core_t *self, uint32_t id, const char *what)
{
    input_t *input = wm_core_input_find (self, id);
    if (!input || input->state != WM_LEDGER_WRITTEN)
        return;
    input->changed = true;
    wm_core_input_set_text (input, what);
}
