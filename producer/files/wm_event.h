/* wm_event.h - one event as a reader gives it: its planes with waveforms, and its hits.

   Waveforms are regions of interest (ROIs); ticks between them count 0 ADC. Wires of a wrapped
   channel share the samples of their ROIs. After wm_event_arrange planes are in (cryostat, tpc,
   plane, channel) order, ROIs in (plane, wire, tick) order without overlap; hits stay in input
   order.
   Dense patches are an event without planes: one patch a hit.
   Memory grows and is reused from event to event. Thread: one at a time.  */
#ifndef WM_EVENT_H
#define WM_EVENT_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WM_EVENT_TICKS_MAX (1u << 24)
#define WM_EVENT_WIRES_MAX (1u << 20)   /* a plane; both as schema/wm_batch.c checks them */
#define WM_EVENT_CELLS_MAX (1ull << 31) /* n_wire x n_tick of a plane */

typedef struct {
    int32_t cryostat, tpc, plane;
    uint32_t n_wire;
    uint32_t roi_first, roi_count; /* of its ROIs */
    uint32_t channel;              /* of frames with several tags; else 0 */
    float pitch_cm;                /* between two wires; 0: the input does not state it */
} wm_event_plane_t;

typedef struct {
    uint32_t plane, wire, tick, count; /* plane: index into the event's planes */
    uint64_t value;                    /* index of its first sample */
} wm_roi_t;

typedef struct {
    int32_t cryostat, tpc, plane, wire;
    float time;   /* ticks, of a segment from its first; rounded towards 0 there */
    uint32_t row; /* in the file's hit table */
} wm_hit_t;

/* Where one channel of a patch of several is cut: in plane 0, 1, ... of its hit's TPC (space
   points), or in channel 0, 1, ... of its hit's plane (windows).  */
typedef struct {
    int32_t wire; /* -1: nowhere, it is Z; below: there is no such hit, and the patch is held */
    float time;   /* ticks */
} wm_event_cell_t;
#define WM_EVENT_NO_CELL (-1)
#define WM_EVENT_BAD_CELL (-2)

typedef struct {
    int64_t run, subrun, event;
    uint32_t n_tick;
    /* A segment of a stream (wm_segments.h) has n_tick ticks from first_tick on, and its ROIs and
       hits count from there; stream_ticks is the length of the whole readout, else 0.  */
    uint32_t segment;
    uint64_t first_tick, stream_ticks;
    double tick_us, trigger_offset, tau_us; /* NaN: the input does not state it */
    double drift_cm_us;  /* speed of the drift, for pictures; 0 or NaN: not known */
    uint32_t n_lifetime; /* n_tick, or 0: no table of factors */

    uint32_t n_plane, n_roi, n_hit, n_bad_channel_hit;
    uint64_t n_sample;
    wm_event_plane_t *plane;
    wm_roi_t *roi;
    float *sample;
    float *lifetime;
    wm_hit_t *hit;
    wm_event_cell_t *cell; /* (n_hit, channels of the specification), where these are several */

    bool is_missing; /* only hits name it: there is nothing to cut, and all of them are held */

    uint32_t patch_values; /* 0: planes */
    float *patch;          /* (n_hit, patch_values) */

    /* capacities, in elements, and work space of wm_event_arrange */
    size_t plane_max, roi_max, sample_max, lifetime_max, hit_max, patch_max, sorted_max, start_max,
        cell_max;
    wm_roi_t *sorted;
    uint32_t *start;
} wm_event_t;

/* Forgets the content, keeps the memory.  */
void wm_event_reset (wm_event_t *self);

/* Frees the memory and zeroes the event. NULL-safe, idempotent.  */
void wm_event_clear (wm_event_t *self);

/* Prints the event's name for messages: "event 1:0:7", with the ticks where it is a segment.  */
const char *wm_event_format (const wm_event_t *self, char text[128]);

/* Makes room for `count` elements of `size` bytes at *memory; *capacity is in elements. Contents
   stay. WM_EHOST without memory, or where the size passes 64 bits.  */
wm_fault_t wm_event_reserve (void *memory_p, size_t *capacity, uint64_t count, size_t size,
                             wm_error_t *error);

/* Index of a plane (of its channel 0), or UINT32_MAX. Planes must be in order
   (wm_event_sort_planes).  */
uint32_t wm_event_plane (const wm_event_t *self, int32_t cryostat, int32_t tpc, int32_t plane);

/* Puts the planes in order; they have no ROIs yet. WM_EBATCH: one is there twice, or a size is
   beyond what a batch can hold. `where` names the event in the text.  */
wm_fault_t wm_event_sort_planes (wm_event_t *self, const char *where, wm_error_t *error);

/* Appends a ROI (count > 0). WM_EHOST without memory.  */
wm_fault_t wm_event_add_roi (wm_event_t *self, const wm_roi_t *roi, wm_error_t *error);

/* Sorts the ROIs and gives each plane its range. WM_EBATCH: two overlap, or one leaves its plane
   or the readout.  */
wm_fault_t wm_event_arrange (wm_event_t *self, const char *where, wm_error_t *error);

#endif
