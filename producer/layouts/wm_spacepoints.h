/* wm_spacepoints.h - rows that are space points: each has a patch around its hit in every plane.

   A reader over another reader, for specifications with `points: spacepoints`. It reads numl's
   spacepoint_table {event_id (n, 3), spacepoint_id, hit_id (n, channels), -1: none} of the file
   that the hits lie in. Channel k of a patch is cut around hit_id[k], which must be in plane k;
   all hits of a space point are of one TPC. A row that names a hit that its event has not, or one
   elsewhere, is held as a bad wire, and so is one without any hit.
   Rows are those of spacepoint_table, in the same order; hit_id of the output is spacepoint_id,
   and cryostat, tpc and plane are -1.  */
#ifndef WM_SPACEPOINTS_H
#define WM_SPACEPOINTS_H

#include "producer/layouts/wm_layout.h"

/* Takes *reader (nulled, also on failure), whose layout has hits. NULL with *error: WM_EBATCH,
   the table is missing or broken; WM_EHOST: out of memory. spec is lent.  */
wm_reader_t *wm_spacepoints_open (wm_reader_t **reader, const wm_spec_t *spec, wm_error_t *error);

#endif
