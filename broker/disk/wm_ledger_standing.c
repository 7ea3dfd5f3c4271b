/* wm_ledger_standing.c - the records that stand (wm_record_stands): a row for the latest of each
   type and name, in the order in which they came.

   How many rows there are is a counter, so that one that went missing is missed.  */
#include "broker/disk/wm_ledger_private.h"

#include <string.h>
#include <xxhash.h>

/* The `data` of a row.  */
typedef struct {
    uint8_t head[WM_RECORD_HEAD_BYTES]; /* of the record */
    wm_place_t place;
    uint64_t sum; /* of all before, the name and the text */
} standing_row_t;

static_assert (sizeof (standing_row_t) == WM_RECORD_HEAD_BYTES + 24, "no padding");

static uint64_t sum_of (const standing_row_t *row, const wm_record_t *record)
{
    uint64_t sum = XXH3_64bits (row, offsetof (standing_row_t, sum));
    sum = XXH3_64bits_withSeed (record->name, record->name_bytes, sum);
    return XXH3_64bits_withSeed (record->text, record->text_bytes, sum);
}

/* Takes the current row of the statement; what it points to is valid until the next step. false: it
   is damaged.  */
static bool get (sqlite3_stmt *statement, wm_record_t *record, wm_place_t *place)
{
    standing_row_t row;
    if (sqlite3_column_bytes (statement, 3) != sizeof row)
        return false;
    memcpy (&row, sqlite3_column_blob (statement, 3), sizeof row);
    *record = (wm_record_t){ 0 };
    memcpy (record, row.head, sizeof row.head);
    *place = row.place;
    if (record->type != sqlite3_column_int64 (statement, 0) ||
        record->name_bytes != (uint32_t) sqlite3_column_bytes (statement, 1) ||
        record->text_bytes != (uint32_t) sqlite3_column_bytes (statement, 2))
        return false;
    record->name = sqlite3_column_blob (statement, 1);
    record->text = sqlite3_column_blob (statement, 2);
    return row.sum == sum_of (&row, record);
}

bool wm_ledger_take_standing (wm_ledger_t *self, sqlite3_stmt *statement)
{
    wm_record_t record;
    wm_place_t place;
    self->n_standing++;
    return get (statement, &record, &place);
}

bool wm_ledger_misses_standing (const wm_ledger_t *self)
{
    uint64_t n = 0;
    for (size_t i = 0; i < self->n_counter; i++)
        if (strcmp (self->counter[i].name, WM_LEDGER_ROWS) == 0)
            n = self->counter[i].value;
    return n != self->n_standing;
}

/* No bytes are not NULL.  */
static void bind_bytes (sqlite3_stmt *statement, int at, const char *from, uint32_t bytes)
{
    sqlite3_bind_blob (statement, at, bytes ? from : "", (int) bytes, SQLITE_STATIC);
}

int wm_ledger_put_standing (wm_ledger_t *self, const wm_record_t *record, const wm_place_t *place)
{
    sqlite3_stmt *statement = self->statement[SQL_PUT_STANDING];
    standing_row_t row = { .place = *place };
    memcpy (row.head, record, sizeof row.head);
    row.sum = sum_of (&row, record);
    sqlite3_bind_int64 (statement, 1, record->type);
    bind_bytes (statement, 2, record->name, record->name_bytes);
    bind_bytes (statement, 3, record->text, record->text_bytes);
    sqlite3_bind_blob (statement, 4, &row, sizeof row, SQLITE_STATIC);
    self->is_standing_changed = true;
    return wm_ledger_run (self, SQL_PUT_STANDING);
}

int wm_ledger_count_standing (wm_ledger_t *self)
{
    sqlite3_stmt *statement = self->statement[SQL_COUNT_STANDING];
    if (!self->is_standing_changed)
        return SQLITE_OK;
    if (sqlite3_step (statement) == SQLITE_ROW)
        wm_ledger_counter (self, WM_LEDGER_ROWS, (uint64_t) sqlite3_column_int64 (statement, 0));
    return sqlite3_reset (statement);
}

int wm_ledger_load_standing (wm_ledger_t *self, const wm_ledger_load_t *to, void *argument)
{
    sqlite3_stmt *statement = NULL;
    wm_record_t record;
    wm_place_t place;
    int code = sqlite3_prepare_v2 (self->db, WM_LEDGER_STANDING, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return code;
    while ((code = sqlite3_step (statement)) == SQLITE_ROW && get (statement, &record, &place))
        to->standing (argument, &record, &place);
    sqlite3_finalize (statement);
    return code;
}

/* An equal one; of its type and name there may be several in a commit. Of payloads only that of
   DISTRUST is in the pool.  */
static bool is_pending (const wm_ledger_t *self, const pending_t *one, const wm_record_t *record)
{
    const wm_record_t *as = &one->record;
    return as->type == record->type && as->code == record->code &&
           as->name_bytes == record->name_bytes &&
           as->text_bytes == record->text_bytes && as->payload_bytes == record->payload_bytes &&
           (!as->name_bytes || !memcmp (self->pool + one->name, record->name, as->name_bytes)) &&
           (!as->text_bytes || !memcmp (self->pool + one->text, record->text, as->text_bytes)) &&
           (as->type != WM_RECORD_DISTRUST || !as->payload_bytes ||
            !memcmp (self->pool + one->payload, record->payload, as->payload_bytes));
}

bool wm_ledger_has_standing (wm_ledger_t *self, const wm_record_t *record)
{
    for (size_t i = 0; i < self->n_pending; i++)
        if (is_pending (self, &self->pending[i], record))
            return true;
    sqlite3_stmt *statement = self->statement[SQL_HAS_STANDING];
    sqlite3_bind_int64 (statement, 1, record->type);
    bind_bytes (statement, 2, record->name, record->name_bytes);
    const bool has = sqlite3_step (statement) == SQLITE_ROW;
    sqlite3_reset (statement);
    return has;
}
