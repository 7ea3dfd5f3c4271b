/* wm_query.c - see wm_query.h.

   Columns are as wide as their longest cell, so all rows are kept until the last is known: as
   texts, one behind the other.  */
#include "broker/wm_query.h"
#include "broker/disk/wm_ledger.h"
#include "schema/base/wm_log.h"

#include <jansson.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* A line of at most so many characters of columns each.  */
#define VIEWS                                                                                      \
    "WITH column AS (SELECT m.rowid AS place, m.name AS view, c.cid, c.name,"                      \
    " sum (length (c.name) + 2) OVER (PARTITION BY m.rowid ORDER BY c.cid) / 64 AS line"           \
    " FROM sqlite_schema m, pragma_table_info (m.name) c WHERE m.sql LIKE 'CREATE VIEW%')"         \
    " SELECT CASE line WHEN 0 THEN view ELSE '' END AS view, group_concat (name, ', ') AS columns" \
    " FROM (SELECT * FROM column ORDER BY place, cid) GROUP BY place, line ORDER BY place, line"

/* ---- as JSON --------------------------------------------------------------------------------- */

static json_t *value_of (sqlite3_stmt *query, int column)
{
    switch (sqlite3_column_type (query, column)) {
    case SQLITE_NULL:
        return json_null ();
    case SQLITE_INTEGER:
        return json_integer (sqlite3_column_int64 (query, column));
    case SQLITE_FLOAT:
        return isfinite (sqlite3_column_double (query, column))
                   ? json_real (sqlite3_column_double (query, column))
                   : json_null ();
    default: {
        json_t *text = json_string ((const char *) sqlite3_column_text (query, column));
        return text ? text : json_string ("(not UTF-8)");
    }
    }
}

static int print_json (sqlite3_stmt *query, FILE *out)
{
    int code;
    putc ('[', out);
    for (size_t n = 0; (code = sqlite3_step (query)) == SQLITE_ROW; n++) {
        json_t *row = json_object ();
        for (int i = 0; i < sqlite3_column_count (query); i++)
            json_object_set_new (row, sqlite3_column_name (query, i), value_of (query, i));
        fputs (n ? ",\n " : "", out);
        json_dumpf (row, out, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION (15));
        json_decref (row);
    }
    fputs (code == SQLITE_DONE ? "]\n" : "\n", out);
    return code;
}

/* ---- in columns ------------------------------------------------------------------------------ */

typedef struct {
    FILE *cells; /* each a text and its NUL */
    char *text;
    size_t bytes;
    int n; /* columns */
    struct {
        int width; /* in characters */
        bool is_number;
    } * column;
} table_t;

/* Characters of UTF-8.  */
static int width_of (const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

static void add (table_t *self, int column, const char *text)
{
    char *cell = strdup (text ? text : "");
    if (!cell)
        return; /* the caller finds the stream short */
    wm_log_sanitize (cell);
    const int width = width_of (cell);
    if (width > self->column[column].width)
        self->column[column].width = width;
    fwrite (cell, 1, strlen (cell) + 1, self->cells);
    free (cell);
}

static void print_table (const table_t *self, FILE *out)
{
    const char *cell = self->text;
    for (size_t i = 0; cell < self->text + self->bytes; i++) {
        const int column = (int) (i % (size_t) self->n), width = self->column[column].width;
        const int blanks = width - width_of (cell);
        const bool is_last = column + 1 == self->n;
        if (self->column[column].is_number)
            fprintf (out, "%*s%s%s", blanks, "", cell, is_last ? "\n" : "  ");
        else
            fprintf (out, "%s%*s%s", cell, is_last ? 0 : blanks, "", is_last ? "\n" : "  ");
        cell += strlen (cell) + 1;
    }
}

static int print_columns (sqlite3_stmt *query, FILE *out)
{
    table_t table = { .n = sqlite3_column_count (query) };
    int code = SQLITE_NOMEM;
    table.column = calloc ((size_t) table.n, sizeof *table.column);
    table.cells = table.column ? open_memstream (&table.text, &table.bytes) : NULL;
    if (!table.cells)
        goto out;
    for (int i = 0; i < table.n; i++) {
        table.column[i].is_number = true;
        add (&table, i, sqlite3_column_name (query, i));
    }
    while ((code = sqlite3_step (query)) == SQLITE_ROW)
        for (int i = 0; i < table.n; i++) {
            const int type = sqlite3_column_type (query, i);
            table.column[i].is_number &=
                type == SQLITE_INTEGER || type == SQLITE_FLOAT || type == SQLITE_NULL;
            add (&table, i, (const char *) sqlite3_column_text (query, i));
        }
    if (fclose (table.cells))
        code = SQLITE_NOMEM;
    if (code == SQLITE_DONE)
        print_table (&table, out);
out:
    free (table.text);
    free (table.column);
    return code;
}

/* ---- the query ------------------------------------------------------------------------------- */

static wm_fault_t refuse (const char *why, wm_error_t *error)
{
    return wm_fault (error, WM_EUSAGE,
                     "%.300s; `wiremill sql DIR` without a query lists the views and their columns",
                     why);
}

static bool has_twice (sqlite3_stmt *query)
{
    for (int i = 0; i < sqlite3_column_count (query); i++)
        for (int j = 0; j < i; j++)
            if (strcmp (sqlite3_column_name (query, i), sqlite3_column_name (query, j)) == 0)
                return true;
    return false;
}

wm_fault_t wm_query_print (sqlite3 *ledger, const char *sql, bool as_json, FILE *out,
                           wm_error_t *error)
{
    sqlite3_stmt *query = NULL;
    const char *rest = "";
    sqlite3_exec (ledger, "PRAGMA query_only = 1", NULL, NULL, NULL);
    int code = sqlite3_prepare_v2 (ledger, *sql ? sql : VIEWS, -1, &query, &rest);
    if (code != SQLITE_OK)
        return refuse (sqlite3_errmsg (ledger), error);
    rest += strspn (rest, " \t\r\n;");
    wm_fault_t fault = WM_OK;
    if (!query || !sqlite3_column_count (query) || !sqlite3_stmt_readonly (query))
        fault = refuse ("the query is no SELECT", error);
    else if (*rest)
        fault = refuse ("the query has more than one statement", error);
    else if (as_json && has_twice (query))
        fault = refuse ("two columns have one name, which JSON has once: name them by AS", error);
    if (!fault)
        code = as_json ? print_json (query, out) : print_columns (query, out);
    if (!fault && code != SQLITE_DONE)
        fault = code == SQLITE_ERROR ? refuse (sqlite3_errmsg (ledger), error)
                                     : wm_fault (error, WM_EHOST, "the ledger cannot be read: %s",
                                                 sqlite3_errmsg (ledger));
    sqlite3_finalize (query);
    return fault;
}

wm_fault_t wm_query_copy (const char *dir, const char *sql, bool as_json, FILE *out,
                          wm_error_t *error)
{
    sqlite3 *ledger = NULL;
    char *uri = sqlite3_mprintf ("%s/" WM_LEDGER_COPY, dir);
    const int code =
        uri ? sqlite3_open_v2 (uri, &ledger, SQLITE_OPEN_READONLY, NULL) : SQLITE_NOMEM;
    wm_fault_t fault = code == SQLITE_OK
                           ? wm_query_print (ledger, sql, as_json, out, error)
                           : wm_fault (error, WM_EBATCH, "cannot open %s/" WM_LEDGER_COPY ": %s",
                                       dir, sqlite3_errstr (code));
    sqlite3_free (uri);
    sqlite3_close (ledger);
    return fault;
}
