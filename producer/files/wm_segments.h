/* wm_segments.h - a readout that does not fit memory, as events of their own: segments of ticks.

   An event of up to WM_EVENT_TICKS_MAX ticks is one event, as ever. A longer one (a stream) is read
   as consecutive segments, each with an ordinal of its own and the same run, subrun and event. A
   segment has a core of WM_SEGMENT_BINS drift bins, which partition the stream, and reads so many
   ticks on both sides that every patch of a hit of its core lies inside: half a patch, and one bin
   because maxmean looks at the neighbour of a sample. It begins at a whole bin, so that its bins
   are bins of the stream, with the same bits.

   The number of bins is a constant, not what memory has room for: a campaign that is stopped and
   continued must make the same batches, with the same digests. Changing it breaks open campaigns.
   4,096 bins of 6 ticks, of 800 wires that all have samples, are 80 MB.
   Thread: one at a time.  */
#ifndef WM_SEGMENTS_H
#define WM_SEGMENTS_H

#include "kernels/patch/wm_spec.h"
#include "producer/files/wm_h5.h"

#define WM_SEGMENT_BINS 4096u
#define WM_STREAM_TICKS_MAX (1ull << 32)

typedef struct {
    uint32_t n_event;
    uint32_t *first;  /* (n_event + 1): ordinal of an event's first segment */
    uint64_t *n_tick; /* (n_event): of a stream; 0: an event of one segment */
    uint64_t core_ticks, beside_ticks;
} wm_segments_t;

/* Reads the lengths of all events, and gives each its ordinals. Where no event is a stream, these
   are the events' own, and *self takes no memory. A length out of range is no fault: whoever reads
   that event refuses it.  */
wm_fault_t wm_segments_read (wm_segments_t *self, const wm_spec_t *spec, const wm_column_t *n_tick,
                             wm_error_t *error);
void wm_segments_clear (wm_segments_t *self);

/* Returns whether any event is a stream.  */
bool wm_segments_any (const wm_segments_t *self);

/* Returns the ordinals of all events: n_event where no event is a stream.  */
uint32_t wm_segments_count (const wm_segments_t *self);

/* Returns the event of an ordinal, and which of its segments it is; ordinals behind all segments
   are those of events behind n_event.  */
uint32_t wm_segments_event (const wm_segments_t *self, uint32_t ordinal, uint32_t *segment);

/* Fills in the ticks [*first, *end) that a segment reads.  */
void wm_segments_window (const wm_segments_t *self, uint32_t event, uint32_t segment,
                         uint64_t *first, uint64_t *end);

/* Returns the ordinal whose core a time lies in; the first or last where it is outside, or NaN.  */
uint32_t wm_segments_of_time (const wm_segments_t *self, uint32_t event, double time);

/* Fills in the ordinals [*first, *last] that read a tick of [tick, tick + count), count > 0, which
   lies within the stream.  */
void wm_segments_of_ticks (const wm_segments_t *self, uint32_t event, uint64_t tick, uint64_t count,
                           uint32_t *first, uint32_t *last);

#endif
