/* wm_query.h - prints what a campaign's ledger answers to a query, in views of schema/ledger.sql.

   Only reads: a statement that would change the ledger is refused. Thread: one.  */
#ifndef WM_QUERY_H
#define WM_QUERY_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stdio.h>

struct sqlite3;

/* Prints the rows that `sql` gives: in columns under their names, or as a JSON array of objects.
   With "" it prints the views and their columns. WM_EUSAGE: SQLite refuses the query, with its
   reason; WM_EHOST: the ledger cannot be read.  */
wm_fault_t wm_query_print (struct sqlite3 *ledger, const char *sql, bool as_json, FILE *out,
                           wm_error_t *error);

/* The same, of DIR/ledger-copy.db. WM_EBATCH: that cannot be opened.  */
wm_fault_t wm_query_copy (const char *dir, const char *sql, bool as_json, FILE *out,
                          wm_error_t *error);

#endif
