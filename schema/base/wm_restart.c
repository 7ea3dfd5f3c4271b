/* wm_restart.c - see wm_restart.h.  */
#include "schema/base/wm_restart.h"

void wm_restart_started (wm_restart_t *self, int64_t now)
{
    self->started = now;
    self->at = 0;
}

bool wm_restart_failed (wm_restart_t *self, const wm_restart_rule_t *rule, int64_t now,
                        bool has_worked)
{
    const bool begins = has_worked && now - self->started >= rule->quick;
    self->in_row = begins ? 1 : self->in_row + 1;
    int64_t pause = rule->first;
    for (int i = 1; i < self->in_row && pause < rule->most; i++)
        pause *= 2;
    self->at = now + (pause < rule->most ? pause : rule->most);
    return !rule->give_up || self->in_row < rule->give_up;
}

bool wm_restart_is_due (const wm_restart_t *self, int64_t now)
{
    return self->at && now >= self->at;
}
