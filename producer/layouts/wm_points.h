/* wm_points.h - rows that are no hits: windows side by side on the planes of an input.

   A reader over another reader, for specifications with `points: windows`. Of each event it takes
   the planes, and makes the hits itself: one for each window, plane by plane (cryostat, TPC,
   plane), wire by wire, time by time. The windows of a row begin at 0 and lie step_wire and
   step_bin apart; the last one is moved back so that it ends with the plane. A plane smaller than
   a window has one, with Z outside. To what reads hits, a window is the patch of a hit at its
   centre.
   Rows are numbered through the events of the file; hit_id is a window's number in its event.
   The sizes of all planes are read when the input is opened, because the number of rows follows
   from them: 24 bytes a plane and event are kept.  */
#ifndef WM_POINTS_H
#define WM_POINTS_H

#include "producer/layouts/wm_layout.h"

/* Takes *reader (nulled, also on failure), whose layout has `planes`. NULL with *error: WM_EBATCH,
   an event's planes cannot be read, or there are more windows than rows can be numbered; WM_EHOST:
   out of memory. spec is lent.  */
wm_reader_t *wm_points_open (wm_reader_t **reader, const wm_spec_t *spec, wm_error_t *error);

/* Returns how many windows of `patch` lie `step` apart on `size` wires or bins: 1 or more.  */
uint32_t wm_points_count (uint32_t size, uint32_t patch, uint32_t step);

/* Returns where window `i` of them begins.  */
uint32_t wm_points_at (uint32_t i, uint32_t size, uint32_t patch, uint32_t step);

#endif
