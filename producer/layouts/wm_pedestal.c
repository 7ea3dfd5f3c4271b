/* wm_pedestal.c - see wm_pedestal.h.  */
#include "producer/layouts/wm_pedestal.h"

#include "producer/files/wm_event.h"
#include "schema/base/wm_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* So many of the first channels are tried. One lies above a pedestal where its median is more than
   any noise: one with regions of interest only has more samples of 0 than others.  */
#define RAW_ROWS 16u
#define RAW_ADC 50.f

void wm_pedestal_choose (wm_pedestal_t *self, const char *text)
{
    self->how = !*text                     ? WM_PEDESTAL_CHECKED
                : !strcmp (text, "none")   ? WM_PEDESTAL_NONE
                : !strcmp (text, "median") ? WM_PEDESTAL_MEDIAN
                                           : WM_PEDESTAL_VALUE;
    self->adc = strtof (text, NULL);
}

void wm_pedestal_clear (wm_pedestal_t *self)
{
    free (self->row);
    free (self->sorted);
    memset (self, 0, sizeof *self);
}

void wm_pedestal_start (wm_pedestal_t *self)
{
    self->n_tried = self->n_raw = 0;
}

bool wm_pedestal_is_missed (const wm_pedestal_t *self)
{
    return self->n_raw > self->n_tried / 2;
}

WM_ORDER_NUMBERS (float_compare, float)

/* The value number k of n in ascending order, without sorting all (Hoare's quickselect).  */
static float select_kth (float *value, size_t n, size_t k)
{
    size_t first = 0, last = n - 1;
    while (last - first > 16) {
        const float a = value[first], b = value[(first + last) / 2], c = value[last];
        const float pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        size_t i = first, j = last;
        while (i <= j) {
            for (; value[i] < pivot;)
                i++;
            for (; value[j] > pivot;)
                j--;
            if (i <= j) {
                const float swap = value[i];
                value[i++] = value[j], value[j] = swap;
                if (!j--)
                    break;
            }
        }
        if (j != SIZE_MAX && k <= j)
            last = j;
        else if (k >= i)
            first = i;
        else
            return value[k];
    }
    qsort (value + first, last - first + 1, sizeof *value, float_compare);
    return value[k];
}

/* The median of the finite samples, as NumPy defines it; 0 where there are none.  */
static wm_fault_t median_find (wm_pedestal_t *self, const float *adc, uint32_t n, float *median,
                               wm_error_t *error)
{
    size_t count = 0;
    const wm_fault_t fault =
        wm_event_reserve (&self->sorted, &self->sorted_max, n, sizeof *self->sorted, error);
    if (fault)
        return fault;
    for (uint32_t i = 0; i < n; i++)
        if (isfinite (adc[i]))
            self->sorted[count++] = adc[i];
    *median = 0;
    if (!count)
        return WM_OK;
    *median = select_kth (self->sorted, count, count / 2);
    if (count % 2 == 0)
        *median = (*median + select_kth (self->sorted, count, count / 2 - 1)) / 2;
    return WM_OK;
}

wm_fault_t wm_pedestal_take (wm_pedestal_t *self, const float **adc, uint32_t n, wm_error_t *error)
{
    float pedestal = self->adc;
    wm_fault_t fault = WM_OK;
    if (self->how == WM_PEDESTAL_NONE ||
        (self->how == WM_PEDESTAL_CHECKED && self->n_tried == RAW_ROWS))
        return WM_OK;
    if (self->how != WM_PEDESTAL_VALUE && (fault = median_find (self, *adc, n, &pedestal, error)))
        return fault;
    if (self->how == WM_PEDESTAL_CHECKED) {
        self->n_tried++;
        self->n_raw += fabsf (pedestal) > RAW_ADC;
        return WM_OK;
    }
    fault = wm_event_reserve (&self->row, &self->row_max, n, sizeof *self->row, error);
    for (uint32_t i = 0; i < n && !fault; i++)
        self->row[i] = (*adc)[i] - pedestal;
    *adc = self->row;
    return fault;
}
