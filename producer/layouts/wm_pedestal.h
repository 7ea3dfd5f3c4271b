/* wm_pedestal.h - takes the pedestal off waveforms of raw ADC, channel by channel.  */
#ifndef WM_PEDESTAL_H
#define WM_PEDESTAL_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: nothing is taken off, and nothing checked.  */
typedef struct {
    enum { WM_PEDESTAL_NONE, WM_PEDESTAL_CHECKED, WM_PEDESTAL_MEDIAN, WM_PEDESTAL_VALUE } how;
    float adc;           /* of all channels */
    float *row, *sorted; /* a channel without its pedestal; its samples to find the median in */
    size_t row_max, sorted_max;
    uint32_t n_tried, n_raw;
} wm_pedestal_t;

/* "median" of each channel, "none", a number of ADC, or "": nothing is taken off, but
   wm_pedestal_is_missed checks.  */
void wm_pedestal_choose (wm_pedestal_t *self, const char *text);
void wm_pedestal_clear (wm_pedestal_t *self);

/* Begins a frame.  */
void wm_pedestal_start (wm_pedestal_t *self);

/* Points *adc (n) to the samples without their pedestal: where there is one, a copy that stays
   until the next call. The median is that of the finite samples, as numpy.median has it.
   WM_EHOST: no memory.  */
wm_fault_t wm_pedestal_take (wm_pedestal_t *self, const float **adc, uint32_t n, wm_error_t *error);

/* Whether none was chosen, and most of the frame's first channels lie around a value other
   than 0.  */
bool wm_pedestal_is_missed (const wm_pedestal_t *self);

#endif
