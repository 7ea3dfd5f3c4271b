/* wm_rate.c - counts per second in a ring of ten buckets, and a decaying mean of the time per
   hit.  */
#include "broker/core/wm_rate.h"

/* A result ten results ago counts a third of the latest.  */
#define KEEP 0.9

static void advance (wm_rate_t *self, int64_t now_ms)
{
    int64_t second = now_ms / 1000;
    for (int64_t i = self->second + 1; i <= second && i <= self->second + WM_RATE_SECONDS; i++)
        self->bucket[i % WM_RATE_SECONDS] = 0;
    self->second = second;
}

void wm_rate_add (wm_rate_t *self, int64_t now_ms, uint32_t count)
{
    if (now_ms / 1000 >= self->second + WM_RATE_SECONDS)
        self->start_ms = now_ms;
    if (now_ms / 1000 > self->second)
        advance (self, now_ms);
    self->bucket[self->second % WM_RATE_SECONDS] += count;
}

double wm_rate_per_s (const wm_rate_t *self, int64_t now_ms)
{
    double sum = 0;
    for (int64_t i = 0; i < WM_RATE_SECONDS; i++) {
        int64_t second = self->second - i;
        if (second >= 0 && second > now_ms / 1000 - WM_RATE_SECONDS)
            sum += self->bucket[second % WM_RATE_SECONDS];
    }
    double seconds = (double) (now_ms - self->start_ms) / 1000;
    return sum / (seconds < 1 ? 1 : seconds > WM_RATE_SECONDS ? WM_RATE_SECONDS : seconds);
}

void wm_speed_add (wm_speed_t *self, double ms, double hits)
{
    self->ms = self->ms * KEEP + ms;
    self->hits = self->hits * KEEP + hits;
}

double wm_speed_ms (const wm_speed_t *self, double hits)
{
    return hits * self->ms / self->hits;
}
