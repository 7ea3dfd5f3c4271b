/* wm_rate.h - how many per second: counts of the last ten seconds.

   A zeroed rate is empty. After a pause of ten seconds it starts again, so that the pause is not
   part of the mean. Thread: one at a time.  */
#ifndef WM_RATE_H
#define WM_RATE_H

#include <stdint.h>

#define WM_RATE_SECONDS 10

typedef struct {
    int64_t start_ms, second;
    uint32_t bucket[WM_RATE_SECONDS];
} wm_rate_t;

void wm_rate_add (wm_rate_t *self, int64_t now_ms, uint32_t count);
double wm_rate_per_s (const wm_rate_t *self, int64_t now_ms);

#endif
