/* wm_waves.h - waveforms: the rows of a large float dataset, one after another, at memory speed.

   HDF5's filter pipeline inflates with zlib, unshuffles byte by byte and copies each chunk; at the
   speed of our engines that is half of a producer's CPU time. So a dataset of little-endian float32
   in chunks, with deflate, shuffle or both, is read chunk by chunk as it lies on disk
   (H5Dread_chunk), inflated by libdeflate and unshuffled here. Everything else goes through
   H5Dread: other types, layouts and filters, chunks that were never written, and chunks with which
   anything is wrong, so that one place decides what an error is (wm_h5_read). Both ways give the
   same bits. Thread: that of the file.  */
#ifndef WM_WAVES_H
#define WM_WAVES_H

#include "producer/files/wm_event.h"
#include "producer/files/wm_h5.h"

typedef struct wm_waves_t wm_waves_t;

/* Prepares to read rows of `column`, (n, width) or (n), which is lent. One work space serves all: a
   row of chunks of at most 64 MiB, or 4 MiB and a row, with a chunk as stored and one inflated.
   NULL: out of memory (WM_EHOST).  */
wm_waves_t *wm_waves_new (const wm_column_t *column, wm_error_t *error);
void wm_waves_destroy (wm_waves_t **self_p);

/* Points *value to row `row` (width values), which stays until the next call for any waveforms; the
   caller will ask for the rows up to `end` (above row) next. WM_EBATCH: the file is damaged.  */
wm_fault_t wm_waves_row (wm_waves_t *self, uint64_t row, uint64_t end, const float **value,
                         wm_error_t *error);

/* Reads rows first .. first+count-1 into `to` (count x width). WM_EBATCH: the file is damaged, or
   has fewer rows.  */
wm_fault_t wm_waves_read (wm_waves_t *self, uint64_t first, uint64_t count, float *to,
                          wm_error_t *error);

/* Returns the index of the first value from `at` on that is neither 0 nor -0, or `n`.  */
uint32_t wm_waves_nonzero (const float *value, uint32_t at, uint32_t n);

/* A wire that a waveform fills.  */
typedef struct {
    uint32_t plane, wire; /* plane: index into the event's planes */
} wm_waves_place_t;

/* Adds what is not 0 of a waveform, whose first sample is that of tick `tick`, to the event as
   regions of each wire of `place` (n), which share the samples. Short stretches of 0 stay in one.
   WM_EHOST: no memory.  */
wm_fault_t wm_waves_keep (wm_event_t *event, const float *adc, uint32_t count, uint32_t tick,
                          const wm_waves_place_t *place, uint32_t n, wm_error_t *error);

/* Returns how many rows were read chunk by chunk, and how many by the library: for tests.  */
void wm_waves_count (const wm_waves_t *self, uint64_t *direct, uint64_t *library);

#endif
