/* wm_frames_archive.h - frames as Wire-Cell's FrameFileSink writes them, in an archive.

   Its members, arrays of NumPy, for each frame and tag:
     frame_<tag>_<number>.npy     float32 or int16 (channels, ticks), mostly in Fortran order
     channels_<tag>_<number>.npy  integer (channels)
     tickinfo_<tag>_<number>.npy  float64 (3)
     chanmask_bad_<number>.npy    integer (n, 3): channel, first tick, tick behind the last
   in any order; members of other names are passed over. Opening reads the archive once and keeps
   what is small (channels, tickinfo, masks) and where waveforms begin. These are unpacked when
   their event is read; in the archive's order that is one more pass.
   Thread: that of all readers.  */
#ifndef WM_FRAMES_ARCHIVE_H
#define WM_FRAMES_ARCHIVE_H

#include "producer/files/wm_archive.h"

typedef struct wm_frames_archive_t wm_frames_archive_t;

#define WM_FRAMES_TAG_BYTES 64u

/* One tag of one frame.  */
typedef struct {
    int64_t number;
    char tag[WM_FRAMES_TAG_BYTES];
    uint64_t n_row;
    uint32_t width; /* ticks */
    const int32_t *channel;
    uint32_t n_channel, n_info; /* 0: the tag has no such array */
    double info[3];
    uint64_t at; /* in the archive */
    uint32_t value_bytes;
    char kind;
    bool is_fortran;
} wm_frames_packed_t;

/* Ticks of a channel that its maker calls bad.  */
typedef struct {
    int32_t channel, first, end; /* end: behind the last */
} wm_frames_bad_t;

/* Takes the archive (nulled, also on failure). NULL: WM_EBATCH, a member is no such array or there
   twice, or the archive is damaged; WM_EHOST.  */
wm_frames_archive_t *wm_frames_archive_new (wm_archive_t **archive, wm_error_t *error);
void wm_frames_archive_destroy (wm_frames_archive_t **self_p);

/* All tags that have waveforms, ascending by number, then by tag.  */
const wm_frames_packed_t *wm_frames_archive_list (const wm_frames_archive_t *self, uint32_t *n);

/* The bad ticks of a frame, ascending by channel, then by tick, and apart from each other: *bad
   (n), lent until the next call. WM_EHOST.  */
wm_fault_t wm_frames_archive_bad (wm_frames_archive_t *self, int64_t number,
                                  const wm_frames_bad_t **bad, uint32_t *n, wm_error_t *error);

/* Unpacks the waveforms: *value is (n_row, width), lent until the next call or wm_frames_archive_
   free. Memory is taken where samples are not 0 only. WM_EBATCH: the archive changed since, or is
   damaged; WM_EHOST.  */
wm_fault_t wm_frames_archive_load (wm_frames_archive_t *self, const wm_frames_packed_t *frame,
                                   const float **value, wm_error_t *error);
void wm_frames_archive_free (wm_frames_archive_t *self);

#endif
