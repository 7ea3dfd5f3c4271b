/* wm_channels.h - a channel map: which wires a channel fills.

   A text file (CSV): the first line names the columns, of which channel, cryostat, tpc, plane and
   wire must be there, in any order; other columns are left aside, and lines that begin with '#'. A
   wire has one line; a wrapped channel has one for each of its wires. A negative plane or wire is
   that of a channel without wires. A map is read once: readers that are open at the same time share
   it. Thread: that of all readers.  */
#ifndef WM_CHANNELS_H
#define WM_CHANNELS_H

#include "producer/files/wm_event.h"
#include "producer/layouts/wm_wires.h"

#include <stdbool.h>

typedef struct {
    wm_wire_t *wire;         /* (n_wire), by channel */
    uint32_t *place;         /* (n_wire) indices into wire, by cryostat, TPC, plane, wire */
    wm_event_plane_t *plane; /* (n_plane) n_wire is the largest wire + 1; without regions */
    uint32_t n_wire, n_plane;
    uint32_t n_user;
    char *path;
    uint64_t size;
    int64_t mtime_ns;
} wm_channels_t;

/* Reads the map, or takes the one that another reader has. NULL with WM_EBATCH: it cannot be read,
   or is no such map, by line; WM_EHOST.  */
wm_channels_t *wm_channels_get (const char *path, wm_error_t *error);
void wm_channels_drop (wm_channels_t **self_p);

/* The map's row of the hit's wire; NULL: the map has no such row.  */
const wm_wire_t *wm_channels_find (const wm_channels_t *self, const wm_hit_t *hit);

/* The most channels of one frame that a map does not have; all zero: none.  */
typedef struct {
    uint32_t n;
    int64_t frame;
    int32_t first[3];
} wm_channels_lack_t;

/* Notes those of channel (n), where they are more than of the frames before.  */
void wm_channels_lack_note (wm_channels_lack_t *self, const wm_channels_t *map, int64_t frame,
                            const int32_t *channel, uint32_t n);

/* Prints how many, the first ones, and what to add to the map; "" where there are none.  */
void wm_channels_lack_text (const wm_channels_lack_t *self, const wm_channels_t *map, char *text,
                            size_t bytes_max);

/* Orders channel numbers (int32_t), for qsort and bsearch.  */
int wm_channel_compare (const void *a, const void *b);

#endif
