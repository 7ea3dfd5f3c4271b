/* wm_speed.c - a decaying mean of the time per hit.  */
#include "broker/core/wm_speed.h"

/* A result ten results ago counts a third of the latest.  */
#define KEEP 0.9

void wm_speed_add (wm_speed_t *self, double ms, double hits)
{
    self->ms = self->ms * KEEP + ms;
    self->hits = self->hits * KEEP + hits;
}

double wm_speed_ms (const wm_speed_t *self, double hits)
{
    return hits * self->ms / self->hits;
}
