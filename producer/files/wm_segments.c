/* wm_segments.c - which ticks of a stream are read together.  */
#include "producer/files/wm_segments.h"

#include "producer/files/wm_event.h"
#include "schema/base/wm_bisect.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_ROWS 8192u

void wm_segments_clear (wm_segments_t *self)
{
    free (self->first);
    free (self->n_tick);
    memset (self, 0, sizeof *self);
}

static wm_fault_t lengths_read (wm_segments_t *self, const wm_column_t *n_tick, bool *any,
                                wm_error_t *error)
{
    int64_t piece[PIECE_ROWS];
    wm_fault_t fault = WM_OK;
    for (uint32_t row = 0; row < self->n_event && !fault; row += PIECE_ROWS) {
        const uint32_t left = self->n_event - row, count = left < PIECE_ROWS ? left : PIECE_ROWS;
        fault = wm_h5_read (n_tick, row, count, WM_H5_I64, piece, error);
        for (uint32_t i = 0; i < count && !fault; i++) {
            const int64_t ticks = piece[i];
            if (ticks <= WM_EVENT_TICKS_MAX || ticks > (int64_t) WM_STREAM_TICKS_MAX)
                continue;
            if (!self->n_tick)
                self->n_tick = calloc (self->n_event, sizeof *self->n_tick);
            if (!self->n_tick)
                return wm_fault (error, WM_EHOST, "out of memory");
            self->n_tick[row + i] = (uint64_t) ticks;
            *any = true;
        }
    }
    return fault;
}

wm_fault_t wm_segments_read (wm_segments_t *self, const wm_spec_t *spec, const wm_column_t *n_tick,
                             wm_error_t *error)
{
    bool any = false;
    memset (self, 0, sizeof *self);
    self->n_event = (uint32_t) n_tick->n_row;
    self->core_ticks = (uint64_t) WM_SEGMENT_BINS * spec->drift_window;
    self->beside_ticks = (uint64_t) ((spec->patch_bin + 1) / 2 + 1) * spec->drift_window;
    wm_fault_t fault = lengths_read (self, n_tick, &any, error);
    if (fault || !any)
        return fault;
    self->first = malloc ((self->n_event + 1ul) * sizeof *self->first);
    if (!self->first)
        return wm_fault (error, WM_EHOST, "out of memory");
    uint64_t ordinal = 0;
    for (uint32_t e = 0; e < self->n_event; e++) {
        self->first[e] = (uint32_t) ordinal;
        ordinal += self->n_tick[e] ? (self->n_tick[e] - 1) / self->core_ticks + 1 : 1;
        if (ordinal >= INT32_MAX)
            return wm_fault (error, WM_EBATCH,
                             "%s: its streams make more than %d segments of %llu ticks: split the "
                             "file",
                             wm_h5_path (n_tick->file), INT32_MAX,
                             (unsigned long long) self->core_ticks);
    }
    self->first[self->n_event] = (uint32_t) ordinal;
    return WM_OK;
}

bool wm_segments_any (const wm_segments_t *self)
{
    return self->first != NULL;
}

uint32_t wm_segments_count (const wm_segments_t *self)
{
    return self->first ? self->first[self->n_event] : self->n_event;
}

uint32_t wm_segments_event (const wm_segments_t *self, uint32_t ordinal, uint32_t *segment)
{
    const uint32_t n = self->n_event;
    *segment = 0;
    if (!self->first)
        return ordinal;
    if (ordinal >= self->first[n])
        return n + ordinal - self->first[n];
    const uint32_t at = WM_BISECT (1, n, i, self->first[i] <= ordinal) - 1;
    *segment = ordinal - self->first[at];
    return at;
}

void wm_segments_window (const wm_segments_t *self, uint32_t event, uint32_t segment,
                         uint64_t *first, uint64_t *end)
{
    const uint64_t core = segment * self->core_ticks, n_tick = self->n_tick[event];
    *first = core > self->beside_ticks ? core - self->beside_ticks : 0;
    *end = core + self->core_ticks + self->beside_ticks;
    *end = *end < n_tick ? *end : n_tick;
}

static uint32_t segments_of (const wm_segments_t *self, uint32_t event)
{
    return self->first[event + 1] - self->first[event];
}

uint32_t wm_segments_of_time (const wm_segments_t *self, uint32_t event, double time)
{
    const uint32_t last = segments_of (self, event) - 1;
    uint32_t segment = 0;
    if (time >= (double) self->n_tick[event])
        segment = last;
    else if (time > 0) /* false of NaN */
        segment = (uint32_t) ((uint64_t) time / self->core_ticks);
    return self->first[event] + segment;
}

void wm_segments_of_ticks (const wm_segments_t *self, uint32_t event, uint64_t tick, uint64_t count,
                           uint32_t *first, uint32_t *last)
{
    const uint64_t beside = self->beside_ticks, most = segments_of (self, event) - 1;
    uint64_t from = tick > beside ? (tick - beside) / self->core_ticks : 0;
    uint64_t to = (tick + count - 1 + beside) / self->core_ticks;
    from = from < most ? from : most;
    to = to < most ? to : most;
    *first = self->first[event] + (uint32_t) from;
    *last = self->first[event] + (uint32_t) to;
}
