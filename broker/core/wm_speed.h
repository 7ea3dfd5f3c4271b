/* wm_speed.h - time per hit, measured from results; older results count less and less.

   A zeroed speed is unknown (hits is 0). Thread: one at a time.  */
#ifndef WM_SPEED_H
#define WM_SPEED_H

typedef struct {
    double ms, hits;
} wm_speed_t;

/* Adds a result of so many hits that took so long.  */
void wm_speed_add (wm_speed_t *self, double ms, double hits);

/* The time that so many hits take; of a known speed only.  */
double wm_speed_ms (const wm_speed_t *self, double hits);

#endif
