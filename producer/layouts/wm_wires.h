/* wm_wires.h - a table of wires must have one row for each.

   The samples of two rows would both fill it: where they overlap that is refused
   (wm_event_arrange), elsewhere scores would change without an error.  */
#ifndef WM_WIRES_H
#define WM_WIRES_H

#include "schema/base/wm_fault.h"

#include <stdint.h>

typedef struct {
    int32_t channel, cryostat, tpc, plane, wire;
    uint32_t row; /* in the file's wire_table, from 0 */
} wm_wire_t;

/* Orders rows by channel, then by row.  */
void wm_wires_by_channel (wm_wire_t *row, uint64_t n);

/* Returns the rows of a channel, and how many there are; rows are in that order.  */
const wm_wire_t *wm_wires_of (const wm_wire_t *row, uint32_t n, int32_t channel, uint32_t *count);

/* Compares two places as qsort wants it: by cryostat, TPC, plane, wire.  */
int wm_wires_order (const wm_wire_t *a, const wm_wire_t *b);

/* Orders the rows by cryostat, TPC, plane, wire. WM_EBATCH: two are of one wire (a negative plane
   or wire is not one); `where` (the file, or the event) and `rows` (what
   a row is called) come before the text, `advice` behind it.
   Linear for rows that are in order.  */
wm_fault_t wm_wires_check (wm_wire_t *row, uint64_t n, const char *where, const char *rows,
                           const char *advice, wm_error_t *error);

#endif
