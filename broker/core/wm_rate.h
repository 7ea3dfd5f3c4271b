/* wm_rate.h - how many per second, and how long each takes.

   Thread: one at a time.  */
#ifndef WM_RATE_H
#define WM_RATE_H

#include <stdint.h>

#define WM_RATE_SECONDS 10

/* Counts of the last ten seconds. A zeroed rate is empty. After a pause of ten seconds it starts
   again, so that the pause is not part of the mean.  */
typedef struct {
    int64_t start_ms, second;
    uint32_t bucket[WM_RATE_SECONDS];
} wm_rate_t;

void wm_rate_add (wm_rate_t *self, int64_t now_ms, uint32_t count);
double wm_rate_per_s (const wm_rate_t *self, int64_t now_ms);

/* Time per hit, measured from results; older results count less and less. A zeroed speed is unknown
   (hits is 0).  */
typedef struct {
    double ms, hits;
} wm_speed_t;

/* Adds a result of so many hits that took so long.  */
void wm_speed_add (wm_speed_t *self, double ms, double hits);

/* The time that so many hits take; of a known speed only.  */
double wm_speed_ms (const wm_speed_t *self, double hits);

#endif
