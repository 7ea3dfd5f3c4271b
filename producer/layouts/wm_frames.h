/* wm_frames.h - planes as Wire-Cell's HDF5FrameTap and FrameFileSink write them.

   HDF5FrameTap: a group for each frame, named by its number (of LArSoft's the event's), and in it
   for each tag
     frame_<tag>     float32 or int16 (channels, ticks): ADC above the pedestal
     channels_<tag>  integer (channels)
     tickinfo_<tag>  float64 (3): time, length of a tick (both in nanoseconds), tick of column 0
   FrameFileSink: the same arrays in an archive, and which ticks of which channels are bad
   (wm_frames_archive.h); these count 0 ADC.
   Frames are read when their event is. Thread: that of all readers.  */
#ifndef WM_FRAMES_H
#define WM_FRAMES_H

#include "producer/files/wm_h5.h"
#include "producer/layouts/wm_channels.h"

typedef struct wm_frames_t wm_frames_t;

/* Whether the groups of a file are numbered, as frames are.  */
bool wm_frames_are (const wm_h5_t *file);

/* Opens FILE or FILE:/TAG, HDF5 or an archive; a tag may be a pattern ("gauss*"). NULL with
   WM_EBATCH: not readable, or no frames are in it.  */
wm_frames_t *wm_frames_open (const char *name, wm_error_t *error);
void wm_frames_close (wm_frames_t **self_p);

/* What is taken off frames that are read from now on: "median" of each channel, "none", or a number
   of ADC. "" as "none", but wm_frames_read refuses frames that look like raw ADC.  */
void wm_frames_pedestal (wm_frames_t *self, const char *text);

const char *wm_frames_path (const wm_frames_t *self);
uint32_t wm_frames_count (const wm_frames_t *self);
int64_t wm_frames_number (const wm_frames_t *self, uint32_t i);    /* ascending */
uint32_t wm_frames_find (const wm_frames_t *self, int64_t number); /* UINT32_MAX: none */

/* Whether frame `number` has a tag that was chosen.  */
bool wm_frames_has (wm_frames_t *self, int64_t number);

/* Finds n_tick, tick_us and the planes of frame `number`; reads no samples. As wm_frames_read.  */
wm_fault_t wm_frames_planes (wm_frames_t *self, int64_t number, const wm_channels_t *map,
                             uint32_t n_wire, wm_event_t *event, const char *where,
                             wm_error_t *error);

/* Whether the frame that was read last calls this tick of a channel bad.  */
bool wm_frames_is_bad (const wm_frames_t *self, int32_t channel, double tick);

/* Reads frame `number` into the event: n_tick, tick_us, the planes that its channels are in, their
   regions. `where` names the event in errors. *channel (n): which channels it has, ascending, lent
   until the next call. WM_EBATCH: two tags have one channel, or something is damaged.  */
wm_fault_t wm_frames_read (wm_frames_t *self, int64_t number, const wm_channels_t *map,
                           uint32_t n_wire, wm_event_t *event, const char *where,
                           const int32_t **channel, uint32_t *n, wm_error_t *error);

#endif
