/* wm_ledger_columns.c - binds the rows of the ledger to their columns, and reads them.  */
#include "broker/disk/wm_ledger_columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef enum { UINT16, UINT32, INT64, BLOB16, LATENCY } wm_row_at_type_t;

#define LATENCY_BYTES (WM_LATENCY_BUCKETS * 11 + 2) /* as text: numbers between commas */

/* clang-format off */
#define ROW(name, struct_t, columns)                                                               \
    _Static_assert (sizeof ((struct_t *) 0)->sum == 8, "a row ends in its sum");                   \
    static const wm_row_at_t name##_columns[] = { columns (COLUMN_OF_##name) };                    \
    const wm_row_t wm_row_##name = { name##_columns, sizeof name##_columns / sizeof (wm_row_at_t), \
                                     offsetof (struct_t, sum) };
#define COLUMN_OF_campaign(type, name, member) { type, offsetof (campaign_row_t, member) },
#define COLUMN_OF_position(type, name, member) { type, offsetof (position_row_t, member) },
#define COLUMN_OF_input(type, name, member) { type, offsetof (input_row_t, member) },
#define COLUMN_OF_batch(type, name, member) { type, offsetof (batch_row_t, member) },
#define COLUMN_OF_minute(type, name, member) { type, offsetof (minute_row_t, member) },
#define COLUMN_OF_worker(type, name, member) { type, offsetof (worker_row_t, member) },
#define COLUMN_OF_mark(type, name, member) { type, offsetof (mark_row_t, member) },
/* clang-format on */

ROW (campaign, campaign_row_t, WM_ROW_CAMPAIGN)
ROW (position, position_row_t, WM_ROW_POSITION)
ROW (input, input_row_t, WM_ROW_INPUT)
ROW (batch, batch_row_t, WM_ROW_BATCH)
ROW (minute, minute_row_t, WM_ROW_MINUTE)
ROW (worker, worker_row_t, WM_ROW_WORKER)
ROW (mark, mark_row_t, WM_ROW_MARK)

uint64_t wm_row_sum (const void *row, size_t bytes, const char *a, const char *b, const char *c)
{
    uint64_t sum = XXH3_64bits (row, bytes);
    const char *const texts[] = { a, b, c };
    for (size_t i = 0; i < 3 && texts[i]; i++)
        sum = XXH3_64bits_withSeed (texts[i], strlen (texts[i]), sum);
    return sum;
}

static void bind_latency (sqlite3_stmt *statement, int to, const uint32_t *bucket)
{
    char text[LATENCY_BYTES];
    size_t bytes = 0;
    for (int i = 0; i < WM_LATENCY_BUCKETS; i++)
        bytes += (size_t) snprintf (text + bytes, sizeof text - bytes, "%s%" PRIu32, i ? "," : "",
                                    bucket[i]);
    sqlite3_bind_text (statement, to, text, (int) bytes, SQLITE_TRANSIENT);
}

void wm_row_bind (const wm_row_t *self, sqlite3_stmt *statement, void *row, const char *a,
                  const char *b, const char *c)
{
    const uint64_t sum = wm_row_sum (row, self->bytes, a, b, c);
    memcpy ((char *) row + self->bytes, &sum, sizeof sum);
    for (size_t i = 0; i < self->n; i++) {
        const void *member = (const char *) row + self->column[i].at;
        const int to = (int) i + 1;
        if (self->column[i].type == UINT16)
            sqlite3_bind_int64 (statement, to, *(const uint16_t *) member);
        else if (self->column[i].type == UINT32)
            sqlite3_bind_int64 (statement, to, *(const uint32_t *) member);
        else if (self->column[i].type == INT64)
            sqlite3_bind_int64 (statement, to, *(const int64_t *) member);
        else if (self->column[i].type == BLOB16)
            sqlite3_bind_blob (statement, to, member, 16, SQLITE_STATIC);
        else
            bind_latency (statement, to, member);
    }
    sqlite3_bind_int64 (statement, (int) self->n + 1, (int64_t) sum);
}

static bool get_latency (sqlite3_stmt *statement, int from, uint32_t *bucket)
{
    const char *text = (const char *) sqlite3_column_text (statement, from);
    for (int i = 0; i < WM_LATENCY_BUCKETS; i++) {
        char *end;
        if (!text || (i && *text++ != ','))
            return false;
        bucket[i] = (uint32_t) strtoul (text, &end, 10);
        text = end;
    }
    return !*text;
}

bool wm_row_get (const wm_row_t *self, sqlite3_stmt *statement, void *row, const char *a,
                 const char *b, const char *c)
{
    memset (row, 0, self->bytes);
    for (size_t i = 0; i < self->n; i++) {
        void *member = (char *) row + self->column[i].at;
        const int from = (int) i;
        bool is_sound = true;
        if (self->column[i].type == UINT16) {
            const int64_t number = sqlite3_column_int64 (statement, from);
            is_sound = number >= 0 && number <= UINT16_MAX;
            *(uint16_t *) member = (uint16_t) number;
        } else if (self->column[i].type == UINT32) {
            const int64_t number = sqlite3_column_int64 (statement, from);
            is_sound = number >= 0 && number <= UINT32_MAX;
            *(uint32_t *) member = (uint32_t) number;
        } else if (self->column[i].type == INT64)
            *(int64_t *) member = sqlite3_column_int64 (statement, from);
        else if (self->column[i].type == LATENCY)
            is_sound = get_latency (statement, from, member);
        else if ((is_sound = sqlite3_column_bytes (statement, from) == 16))
            memcpy (member, sqlite3_column_blob (statement, from), 16);
        if (!is_sound)
            return false;
    }
    const uint64_t sum = (uint64_t) sqlite3_column_int64 (statement, (int) self->n);
    memcpy ((char *) row + self->bytes, &sum, sizeof sum);
    return sum == wm_row_sum (row, self->bytes, a, b, c);
}
