/* wm_credit.c - the window of a worker.  */
#include "gpuworker/wm_credit.h"

static const double ahead_s = 2; /* of work in hand: a farm's round trips hide behind it */
static const double weight =
    0.2; /* of the newest batch in the mean: ten batches to follow a change */

void wm_credit_init (wm_credit_t *self)
{
    *self = (wm_credit_t){ .window = 2 };
}

void wm_credit_session (wm_credit_t *self)
{
    self->received = self->granted = 0;
    self->again = 0;
}

void wm_credit_success (wm_credit_t *self, double seconds)
{
    if (seconds < 1e-6)
        seconds = 1e-6;
    self->batch_s += (self->batch_s > 0 ? weight : 1) * (seconds - self->batch_s);
    double fit = ahead_s / self->batch_s;
    uint32_t goal = fit >= WM_CREDIT_MAX ? WM_CREDIT_MAX : fit <= 2 ? 2 : (uint32_t) fit;
    self->window = self->window < goal ? self->window + 1 : goal;
}

void wm_credit_failure (wm_credit_t *self)
{
    self->window = 1;
}

void wm_credit_again (wm_credit_t *self)
{
    self->again = 1;
}

uint64_t wm_credit_grant (wm_credit_t *self, uint32_t in_hand, uint32_t held)
{
    uint32_t wanted = self->window > in_hand ? self->window - in_hand : 0;
    uint32_t room = held < WM_CREDIT_MAX ? WM_CREDIT_MAX - held : 0;
    uint64_t grant = self->received + (wanted < room ? wanted : room);
    if (grant <= self->granted && !self->again)
        return 0;
    self->again = 0;
    self->granted = grant > self->granted ? grant : self->granted;
    return self->granted;
}
