/* wm_ledger_apply.c - derives the ledger's rows from journal records, many in one transaction.

   What each record does; nothing else changes a row:
     CAMPAIGN      the campaign; one that begins again has no inputs and no batches
     INPUT         the input is open
     INPUT_END     its n_event
     RESULT, HELD of a batch or an event
                   a row in batch, if its input is open; it replaces the one before
     HELD of an input, KICK
                   its state; its batch rows are deleted
     FILE_WRITTEN  its state and totals; its batch rows are deleted
     FILE_LOST     the input is open again, without batches
     those that stand
                   a row in standing; it replaces that of the same type and name
     DISTRUST      also: its inputs are suspect, until KICK or HELD of the input
   Records of an older generation than their input's are ignored: they were appended while KICK was
   not durable. A record of a newer generation shows that a KICK was lost to damage: the KICK's
   effect is applied first, and the next INPUT pins the file. Records of an input that the ledger
   does not know are ignored: its INPUT was lost to damage, the loss has been reported, and its
   number may be given again.  */
#include "broker/disk/wm_ledger_private.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_grow.h"

#include <stdlib.h>
#include <string.h>

/* ---- pending --------------------------------------------------------------------------------- */

/* Copies a text into the pool, terminated; returns its offset.  */
static size_t keep_text (wm_ledger_t *self, const char *text, size_t bytes)
{
    wm_must_grow (&self->pool, &self->pool_max, self->pool_bytes + bytes + 1, 1);
    const size_t at = self->pool_bytes;
    if (bytes)
        memcpy (self->pool + at, text, bytes);
    self->pool[at + bytes] = 0;
    self->pool_bytes += bytes + 1;
    return at;
}

void wm_ledger_apply (wm_ledger_t *self, const wm_record_t *record, const wm_place_t *place)
{
    wm_must_grow (&self->pending, &self->pending_max, self->n_pending + 1, sizeof *self->pending);
    pending_t *pending = &self->pending[self->n_pending++];
    *pending = (pending_t){ .record = *record, .place = *place };
    wm_ledger_count_record (self, record);
    wm_ledger_mark_record (self, record);
    if (record->type == WM_RECORD_RESULT)
        pending->signature = wm_ledger_intern (self, record->text, record->text_bytes);
    else {
        pending->text = keep_text (self, record->text, record->text_bytes);
        pending->name = keep_text (self, record->name, record->name_bytes);
    }
    if (record->type == WM_RECORD_DISTRUST && record->payload_bytes)
        pending->payload = keep_text (self, (const char *) record->payload, record->payload_bytes);
}

size_t wm_ledger_pending (const wm_ledger_t *self)
{
    return self->n_pending;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int put_input (wm_ledger_t *self, input_row_t *row, const char *path, const char *name,
                      const char *text)
{
    return wm_ledger_put (self, SQL_PUT_INPUT, &wm_row_input, row, path, name, text);
}

static int delete_batches (wm_ledger_t *self, uint32_t input)
{
    sqlite3_bind_int64 (self->statement[SQL_DELETE_BATCHES], 1, input);
    const int code = wm_ledger_run (self, SQL_DELETE_BATCHES);
    if (code == SQLITE_OK)
        self->position.n_batch -= (uint64_t) sqlite3_changes (self->db);
    return code;
}

static int put_batch (wm_ledger_t *self, const pending_t *pending)
{
    const wm_record_t *record = &pending->record;
    const bool is_result = record->type == WM_RECORD_RESULT;
    const char *text = is_result ? "" : self->pool + pending->text;
    batch_row_t row = {
        .key = record->key,
        .state = is_result ? WM_LEDGER_RETURNED : WM_LEDGER_BATCH_HELD,
        .place = is_result ? pending->place : (wm_place_t){ 0 },
        .n_batch = record->n_batch,
        .n_hit = (uint32_t) record->n_hit,
        .n_held = (uint32_t) record->n_held,
        .attempt = record->attempt,
        .signature = pending->signature,
        .code = record->code,
    };
    memcpy (row.digest, record->digest, sizeof row.digest);
    int code = wm_ledger_put (self, SQL_ADD_BATCH, &wm_row_batch, &row, text, NULL, NULL);
    if (code != SQLITE_OK || sqlite3_changes (self->db)) {
        self->position.n_batch += code == SQLITE_OK;
        return code;
    }
    return wm_ledger_put (self, SQL_SET_BATCH, &wm_row_batch, &row, text, NULL, NULL);
}

/* A campaign begins again: it has no inputs, counts from 0, and measures again. The history of its
   workers and minutes goes on.  */
static int delete_all (wm_ledger_t *self)
{
    static const sql_t tables[] = { SQL_DELETE_ALL_BATCHES, SQL_DELETE_ALL_INPUTS,
                                    SQL_DELETE_COUNTERS, SQL_DELETE_MEASURED };
    size_t n_left = 0;
    int code = SQLITE_OK;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && code == SQLITE_OK; i++)
        code = wm_ledger_run (self, tables[i]);
    for (size_t i = 0; i < self->n_counter; i++)
        if (wm_ledger_is_of_history (self->counter[i].name))
            self->counter[n_left++] = self->counter[i];
    self->n_counter = n_left;
    self->is_standing_changed = true; /* they are counted again */
    self->position.n_batch = self->position.n_input = 0;
    return code;
}

static int new_campaign (wm_ledger_t *self, const pending_t *pending)
{
    const int code = pending->record.code ? delete_all (self) : SQLITE_OK;
    if (code != SQLITE_OK)
        return code;
    memcpy (self->campaign.id, pending->record.digest, sizeof self->campaign.id);
    self->campaign.created_ns = pending->record.mtime_ns;
    free (self->pins);
    self->pins = strdup (self->pool + pending->text);
    assert (self->pins);
    return wm_ledger_put (self, SQL_PUT_CAMPAIGN, &wm_row_campaign, &self->campaign, self->pins,
                          NULL, NULL);
}

static int new_input (wm_ledger_t *self, const pending_t *pending, bool is_known)
{
    const wm_record_t *record = &pending->record;
    input_row_t row = {
        .id = record->key.input,
        .generation = record->key.generation,
        .state = WM_LEDGER_OPEN,
        .size = record->size,
        .mtime_ns = record->mtime_ns,
        .n_event = -1,
    };
    self->position.n_input += !is_known;
    return put_input (self, &row, self->pool + pending->text, self->pool + pending->name, "");
}

static void kick (input_row_t *row, uint32_t generation, int64_t size, int64_t mtime_ns)
{
    row->state = WM_LEDGER_OPEN;
    row->is_suspect = false;
    row->generation = generation;
    row->size = size;
    row->mtime_ns = mtime_ns;
    row->n_event = -1;
}

/* Applies a record about a whole input to its row; returns whether its batch rows are deleted.  */
static bool change_input (input_row_t *row, const wm_record_t *record)
{
    switch (record->type) {
    case WM_RECORD_INPUT_END:
        row->n_event = (int64_t) record->n_event;
        return false;
    case WM_RECORD_HELD:
        row->state = WM_LEDGER_HELD;
        row->is_suspect = false;
        row->code = record->code;
        return true;
    case WM_RECORD_KICK:
        kick (row, record->key.generation, record->size, record->mtime_ns);
        return true;
    case WM_RECORD_FILE_WRITTEN:
        row->state = WM_LEDGER_WRITTEN;
        row->out_size = record->size;
        row->out_mtime_ns = record->mtime_ns;
        memcpy (row->out_digest, record->digest, sizeof row->out_digest);
        row->n_event = (int64_t) record->n_event;
        row->n_hit = record->n_hit;
        row->n_held = record->n_held;
        row->code = record->n_batch;
        return true;
    default: /* FILE_LOST */
        row->state = WM_LEDGER_OPEN;
        return true;
    }
}

/* Whether a record is about one batch or event, not about the whole input.  */
static bool is_of_batch (const wm_record_t *record)
{
    return record->type == WM_RECORD_RESULT ||
           (record->type == WM_RECORD_HELD && record->key.ordinal != WM_ALL);
}

/* Applies a record about a known input; `get` has stepped to its row.  */
static int change (wm_ledger_t *self, const pending_t *pending, input_row_t *row, sqlite3_stmt *get)
{
    const wm_record_t *record = &pending->record;
    const uint32_t generation = record->key.generation;
    const bool kick_lost = generation > row->generation && record->type != WM_RECORD_KICK;
    bool forget = kick_lost;
    if (generation < row->generation)
        return SQLITE_OK;
    if (kick_lost)
        kick (row, generation, -1, 0);
    if (!is_of_batch (record))
        forget |= change_input (row, record);
    else if (!kick_lost)
        return row->state == WM_LEDGER_OPEN ? put_batch (self, pending) : SQLITE_OK;

    const bool brings_text =
        record->type == WM_RECORD_FILE_WRITTEN || record->type == WM_RECORD_HELD;
    const char *text = row->state == WM_LEDGER_OPEN ? ""
                       : brings_text                ? self->pool + pending->text
                                                    : wm_ledger_text (get, &wm_row_input, 2);
    int code = put_input (self, row, wm_ledger_text (get, &wm_row_input, 0),
                          wm_ledger_text (get, &wm_row_input, 1), text);
    if (code == SQLITE_OK && forget)
        code = delete_batches (self, row->id);
    return code == SQLITE_OK && is_of_batch (record) ? put_batch (self, pending) : code;
}

/* Makes the input of this id suspect, if it is known.  */
static int suspect (wm_ledger_t *self, uint32_t id)
{
    sqlite3_stmt *get = self->statement[SQL_GET_INPUT];
    sqlite3_bind_int64 (get, 1, id);
    input_row_t row;
    int code = SQLITE_OK;
    if (sqlite3_step (get) == SQLITE_ROW) {
        code = wm_ledger_get_input (get, &row) ? SQLITE_OK : SQLITE_CORRUPT;
        row.is_suspect = true;
        if (code == SQLITE_OK)
            code = put_input (self, &row, wm_ledger_text (get, &wm_row_input, 0),
                              wm_ledger_text (get, &wm_row_input, 1),
                              wm_ledger_text (get, &wm_row_input, 2));
    }
    const int end = sqlite3_reset (get);
    return code == SQLITE_OK ? end : code;
}

static int put_standing (wm_ledger_t *self, const pending_t *pending)
{
    const bool names_inputs = pending->record.type == WM_RECORD_DISTRUST;
    const uint32_t n = names_inputs ? 8 * pending->record.payload_bytes : 0;
    int code = SQLITE_OK;
    for (uint32_t id = 1; id < n && code == SQLITE_OK; id++)
        if (self->pool[pending->payload + id / 8] >> id % 8 & 1)
            code = suspect (self, id);
    if (code != SQLITE_OK)
        return code;
    wm_record_t record = pending->record;
    record.text = self->pool + pending->text;
    record.name = self->pool + pending->name;
    return wm_ledger_put_standing (self, &record, &pending->place);
}

static int carry_out (wm_ledger_t *self, const pending_t *pending)
{
    if (pending->record.type == WM_RECORD_CAMPAIGN)
        return new_campaign (self, pending);
    if (wm_record_stands (pending->record.type))
        return put_standing (self, pending);
    sqlite3_stmt *get = self->statement[SQL_GET_INPUT];
    sqlite3_bind_int64 (get, 1, pending->record.key.input);
    input_row_t row = { 0 };
    int code = SQLITE_OK;
    if (sqlite3_step (get) == SQLITE_ROW && !wm_ledger_get_input (get, &row))
        code = SQLITE_CORRUPT; /* damaged since it was opened */
    else if (pending->record.type == WM_RECORD_INPUT)
        code = new_input (self, pending, row.id != 0);
    else if (row.id)
        code = change (self, pending, &row, get);
    const int end = sqlite3_reset (get);
    return code == SQLITE_OK ? end : code;
}

/* ---- commit ---------------------------------------------------------------------------------- */

static int put_signatures (wm_ledger_t *self)
{
    sqlite3_stmt *statement = self->statement[SQL_PUT_SIGNATURE];
    int code = SQLITE_OK;
    for (size_t i = self->n_signature_stored; i < self->n_signature && code == SQLITE_OK; i++) {
        const uint64_t id = i + 1;
        const uint64_t sum = wm_row_sum (&id, sizeof id, self->signature[i], NULL, NULL);
        sqlite3_bind_int64 (statement, 1, (int64_t) id);
        sqlite3_bind_text (statement, 2, self->signature[i], -1, SQLITE_STATIC);
        sqlite3_bind_int64 (statement, 3, (int64_t) sum);
        code = wm_ledger_run (self, SQL_PUT_SIGNATURE);
    }
    return code;
}

static int put_counters (wm_ledger_t *self)
{
    sqlite3_stmt *statement = self->statement[SQL_PUT_COUNTER];
    int code = SQLITE_OK;
    for (size_t i = 0; i < self->n_counter && code == SQLITE_OK; i++) {
        const counter_t *counter = &self->counter[i];
        const uint64_t sum =
            wm_row_sum (&counter->value, sizeof counter->value, counter->name, NULL, NULL);
        sqlite3_bind_text (statement, 1, counter->name, -1, SQLITE_STATIC);
        sqlite3_bind_int64 (statement, 2, (int64_t) counter->value);
        sqlite3_bind_int64 (statement, 3, (int64_t) sum);
        code = wm_ledger_run (self, SQL_PUT_COUNTER);
    }
    return code;
}

static int put_position (wm_ledger_t *self)
{
    const wm_record_t *last = &self->pending[self->n_pending - 1].record;
    self->position.epoch = last->epoch;
    self->position.sequence = last->sequence;
    return wm_ledger_put (self, SQL_PUT_POSITION, &wm_row_position, &self->position, NULL, NULL,
                          NULL);
}

wm_fault_t wm_ledger_commit (wm_ledger_t *self, wm_error_t *error)
{
    if (!self->n_pending && !wm_ledger_owes_history (self) && !self->history.is_changed)
        return WM_OK;
    const position_row_t before = self->position;
    /* IMMEDIATE: a deferred transaction that begins to write later can fail with SQLITE_BUSY.  */
    int code = sqlite3_exec (self->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    for (size_t i = 0; i < self->n_pending && code == SQLITE_OK; i++)
        code = carry_out (self, &self->pending[i]);
    if (code == SQLITE_OK)
        code = wm_ledger_put_history (self);
    if (code == SQLITE_OK)
        code = put_signatures (self);
    if (code == SQLITE_OK)
        code = wm_ledger_count_standing (self);
    if (code == SQLITE_OK)
        code = put_counters (self);
    if (code == SQLITE_OK && self->n_pending)
        code = put_position (self);
    if (code == SQLITE_OK) {
        WM_FAILPOINT ("broker-ledger-commit");
        code = sqlite3_exec (self->db, "COMMIT", NULL, NULL, NULL);
        WM_FAILPOINT ("broker-ledger-committed");
    }
    if (code != SQLITE_OK) {
        const wm_fault_t fault = wm_ledger_fault (self, code, "write", error);
        if (!sqlite3_get_autocommit (self->db))
            sqlite3_exec (self->db, "ROLLBACK", NULL, NULL, NULL);
        self->position = before;
        return fault;
    }
    wm_ledger_history_committed (self);
    self->n_signature_stored = self->n_signature;
    self->is_standing_changed = false;
    self->n_pending = 0;
    self->pool_bytes = 0;
    return WM_OK;
}
