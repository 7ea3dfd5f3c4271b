/* wm_ledger_marks.c - marks of the time line: what was paused, lost, held, and which broker served.

   All are in memory, at most WM_MARKS_MAX: of one more, the older half of the kind that has most is
   forgotten, so that workers that are lost all day push no pause out. More of the same within a
   burst count in the mark before.

   A mark of a record (PAUSE, HELD, DISTRUST) goes into the same transaction as the record: a kill
   loses none and doubles none, since the replay makes those that were not committed, in the last
   second that is known, of a row or of a mark. A broker commits the mark of its begin at once. What
   else it marks itself (its end, lost workers, full disks) is lost if it is killed before the next
   commit, half a second later. A replay of the whole journal
   makes no marks: the sound ones of a damaged ledger are kept, and times of others are not
   known.  */
#include "broker/disk/wm_ledger_private.h"

#include "schema/base/wm_grow.h"

#include <stdio.h>
#include <string.h>

#define TEXT_BYTES (sizeof ((wm_mark_t *) 0)->text)

static struct ledger_mark_t *push (wm_ledger_t *self, const wm_mark_t *mark)
{
    marks_t *marks = &self->marks;
    wm_must_grow (&marks->mark, &marks->max, marks->n + 1, sizeof *marks->mark);
    struct ledger_mark_t *one = &marks->mark[marks->n++];
    *one = (struct ledger_mark_t){ .mark = *mark };
    if (marks->last_id < mark->id)
        marks->last_id = mark->id;
    return one;
}

/* Forgets the older half of the kind that has most.  */
static void forget_some (wm_ledger_t *self)
{
    marks_t *marks = &self->marks;
    size_t count[WM_N_MARK] = { 0 }, n_left = 0;
    int most = 0;
    for (size_t i = 0; i < marks->n; i++)
        count[marks->mark[i].mark.kind]++;
    for (int kind = 1; kind < WM_N_MARK; kind++)
        most = count[kind] > count[most] ? kind : most;
    size_t n_gone = (count[most] + 1) / 2;
    for (size_t i = 0; i < marks->n; i++)
        if ((int) marks->mark[i].mark.kind != most || !n_gone)
            marks->mark[n_left++] = marks->mark[i];
        else
            n_gone--;
    marks->n = n_left;
    marks->is_rewritten = true;
}

/* The mark that one more of its kind counts in; NULL: it gets one of its own. What a replay makes
   joins none that was committed, so that a second attempt can make it again.  */
static struct ledger_mark_t *burst_of (wm_ledger_t *self, wm_mark_kind_t kind, int64_t at_s)
{
    const marks_t *marks = &self->marks;
    size_t i = marks->n;
    while (i && marks->mark[i - 1].mark.kind != kind)
        i--;
    struct ledger_mark_t *last = i ? &marks->mark[i - 1] : NULL;
    return last && wm_mark_what[kind].burst_s && at_s >= last->mark.to_s &&
                   at_s - last->mark.to_s <= wm_mark_what[kind].burst_s &&
                   (!marks->is_catching_up || last->is_of_replay)
               ? last
               : NULL;
}

/* Copies whole characters.  */
static void copy_text (char to[TEXT_BYTES], const char *text)
{
    size_t n = strnlen (text, TEXT_BYTES);
    if (n == TEXT_BYTES)
        for (n--; n && (text[n] & 0xc0) == 0x80; n--)
            ;
    memcpy (to, text, n);
    to[n] = 0;
}

void wm_ledger_mark (wm_ledger_t *self, int64_t unix_s, wm_mark_kind_t kind, const char *text)
{
    struct ledger_mark_t *last = burst_of (self, kind, unix_s);
    if (last) {
        last->mark.to_s = unix_s;
        last->mark.n++;
    } else {
        wm_mark_t mark = { self->marks.last_id + 1, unix_s, unix_s, 1, kind, "" };
        copy_text (mark.text, text);
        if (self->marks.n == WM_MARKS_MAX)
            forget_some (self);
        last = push (self, &mark);
        last->is_of_replay = self->marks.is_catching_up;
    }
    last->is_changed = true;
}

void wm_ledger_mark_record (wm_ledger_t *self, const wm_record_t *record)
{
    const history_t *history = &self->history;
    const marks_t *marks = &self->marks;
    const int64_t mark_s = marks->n ? marks->mark[marks->n - 1].mark.to_s : 0,
                  known_s = mark_s > history->now.begin_s ? mark_s : history->now.begin_s,
                  at_s = history->sampled_s ? history->sampled_s : known_s;
    const int bytes = (int) record->text_bytes;
    char text[TEXT_BYTES + 1];
    if (history->is_replay || at_s <= 0)
        return;
    if (record->type == WM_RECORD_HELD) {
        snprintf (text, sizeof text, "input %u: ", record->key.input);
        if (record->key.ordinal == WM_ALL) /* its text names the file */
            *text = 0;
        const size_t n = strlen (text);
        snprintf (text + n, sizeof text - n, "%.*s", bytes, bytes ? record->text : "");
        wm_ledger_mark (self, at_s, WM_MARK_HELD, text);
    }
    snprintf (text, sizeof text, "%.*s", bytes, bytes ? record->text : "");
    if (record->type == WM_RECORD_PAUSE)
        wm_ledger_mark (self, at_s, record->code ? WM_MARK_PAUSED : WM_MARK_RESUMED, text);
    if (record->type == WM_RECORD_DISTRUST && record->code)
        wm_ledger_mark (self, at_s, WM_MARK_WRONG, text); /* the first of its texts: the machine */
}

void wm_ledger_marks_replay (wm_ledger_t *self, bool begins)
{
    marks_t *marks = &self->marks;
    size_t n_left = 0;
    for (size_t i = 0; i < marks->n; i++)
        if (!begins || !marks->mark[i].is_of_replay)
            marks->mark[n_left++] = marks->mark[i];
    marks->n = n_left;
    marks->is_catching_up = begins;
}

const wm_mark_t *wm_ledger_mark_at (const wm_ledger_t *self, size_t i)
{
    return i < self->marks.n ? &self->marks.mark[i].mark : NULL;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool get_mark (sqlite3_stmt *statement, wm_mark_t *mark)
{
    mark_row_t row;
    const char *kind = wm_ledger_text (statement, &wm_row_mark, 0),
               *text = wm_ledger_text (statement, &wm_row_mark, 1);
    if (!wm_row_get (&wm_row_mark, statement, &row, kind, text, NULL) ||
        wm_mark_of (kind) == WM_N_MARK)
        return false;
    *mark = (wm_mark_t){
        row.id, row.from_s, row.to_s, (uint32_t) row.n, wm_mark_of (kind), "",
    };
    copy_text (mark->text, text);
    return true;
}

bool wm_ledger_take_mark (wm_ledger_t *self, sqlite3_stmt *statement)
{
    wm_mark_t mark;
    if (!get_mark (statement, &mark))
        return false;
    push (self, &mark);
    return true;
}

void wm_ledger_salvage_marks (wm_ledger_t *self)
{
    wm_mark_t mark;
    sqlite3_stmt *statement = NULL;
    self->marks.n = 0;
    if (sqlite3_prepare_v2 (self->db, WM_LEDGER_MARKS, -1, &statement, NULL) == SQLITE_OK)
        while (sqlite3_step (statement) == SQLITE_ROW)
            if (get_mark (statement, &mark) && self->marks.n < WM_MARKS_MAX)
                push (self, &mark)->is_changed = true;
    sqlite3_finalize (statement);
}

bool wm_ledger_owes_marks (const wm_ledger_t *self)
{
    bool owes = self->marks.is_rewritten;
    for (size_t i = 0; i < self->marks.n && !owes; i++)
        owes = self->marks.mark[i].is_changed;
    return owes;
}

int wm_ledger_put_marks (wm_ledger_t *self)
{
    const marks_t *marks = &self->marks;
    int code = marks->is_rewritten ? wm_ledger_run (self, SQL_DELETE_MARKS) : SQLITE_OK;
    for (size_t i = 0; i < marks->n && code == SQLITE_OK; i++) {
        const wm_mark_t *mark = &marks->mark[i].mark;
        mark_row_t row = { mark->id, mark->from_s, mark->to_s, mark->n, 0 };
        if (marks->is_rewritten || marks->mark[i].is_changed)
            code = wm_ledger_put (self, SQL_PUT_MARK, &wm_row_mark, &row,
                                  wm_mark_what[mark->kind].name, mark->text, NULL);
    }
    return code;
}

void wm_ledger_marks_committed (wm_ledger_t *self)
{
    self->marks.is_rewritten = false;
    for (size_t i = 0; i < self->marks.n; i++)
        self->marks.mark[i].is_changed = self->marks.mark[i].is_of_replay = false;
}
