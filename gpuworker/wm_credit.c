/* wm_credit.c - the window of a worker.  */
#include "gpuworker/wm_credit.h"

/* Of work: longer than the round trips of a farm; than those of clients, who wait for it.  */
static const double ahead_s = 2, ahead_clients_s = 0.2;
/* Of the newest batch in the mean, which then follows a change within ten batches.  */
static const double weight = 0.2;

void wm_credit_init (wm_credit_t *self)
{
    *self = (wm_credit_t){ .most = WM_CREDIT_MAX, .window = 2, .ahead_s = ahead_s };
}

void wm_credit_bound (wm_credit_t *self, uint64_t row_bytes)
{
    const uint32_t fit =
        row_bytes > WM_RAGGED_BYTES ? (uint32_t) (WM_CREDIT_BYTES / row_bytes) : WM_CREDIT_MAX;
    self->most = fit > 3 ? fit : 3; /* one computes, one waits, one is not acknowledged */
}

void wm_credit_session (wm_credit_t *self, bool for_clients)
{
    self->ahead_s = for_clients ? ahead_clients_s : ahead_s;
    self->received = self->granted = 0;
    self->again = false;
}

void wm_credit_success (wm_credit_t *self, double seconds)
{
    if (seconds < 1e-6)
        seconds = 1e-6;
    self->batch_s += (self->batch_s > 0 ? weight : 1) * (seconds - self->batch_s);
    double fit = self->ahead_s / self->batch_s;
    uint32_t goal = fit >= self->most ? self->most : fit <= 2 ? 2 : (uint32_t) fit;
    self->window = self->window < goal ? self->window + 1 : goal;
}

void wm_credit_failure (wm_credit_t *self)
{
    self->window = 1;
}

void wm_credit_again (wm_credit_t *self)
{
    self->again = true;
}

uint64_t wm_credit_grant (wm_credit_t *self, uint32_t unscored, uint32_t all)
{
    uint32_t wanted = self->window > unscored ? self->window - unscored : 0;
    uint32_t room = all < self->most ? self->most - all : 0;
    uint64_t grant = self->received + (wanted < room ? wanted : room);
    if (grant <= self->granted && !self->again)
        return 0;
    self->again = false;
    self->granted = grant > self->granted ? grant : self->granted;
    return self->granted;
}
