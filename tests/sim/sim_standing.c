/* sim_standing.c - records that stand: what the journal has of them, what was promised by them, and
   that a broker which starts knows it.

   Each is durable before the next record is appended. So the journal keeps the first n of them that
   were appended, and n is at least that of the last one that was acknowledged.  */
#include "tests/sim/sim.h"

#include <string.h>

void standing_begin (void)
{
    sim.standing.n_pause = 0;
    sim.standing.paused = false;
}

void standing_note (const wm_record_t *record)
{
    if (record->type != WM_RECORD_PAUSE)
        return;
    sim.standing.n_pause++;
    sim.standing.paused = record->code;
}

void standing_end (void)
{
    if (sim.standing.n_pause < sim.standing.promised_pause)
        fail ("%u pauses and resumes were acknowledged, and the journal has %u",
              sim.standing.promised_pause, sim.standing.n_pause);
}

void standing_restored (const wm_core_t *core)
{
    if (core->paused != sim.standing.paused)
        fail ("the journal's last PAUSE has code %d, and the broker is %spaused",
              sim.standing.paused, core->paused ? "" : "not ");
}

void standing_ordered (operator_t *operator, bool pauses)
{
    operator->pauses = pauses;
    operator->n_pause = sim.standing.n_pause;
}

void standing_acked (const operator_t *operator)
{
    if (sim.standing.promised_pause < operator->n_pause)
        sim.standing.promised_pause = operator->n_pause;
    sim.paused_promised = operator->pauses && operator->n_pause == sim.standing.n_pause;
}
