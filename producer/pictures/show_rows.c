/* show_rows.c - a row of scores, and the scale of an event, for all of its pictures.  */
#include "producer/pictures/show_event.h"

#include "schema/wm_batch.h"

#include <math.h>

const char *wm_show_rows (const wm_show_t *self)
{
    static const char *const rows[] = { [WM_POINTS_HITS] = "hits",
                                        [WM_POINTS_SPACEPOINTS] = "space points",
                                        [WM_POINTS_WINDOWS] = "windows" };
    return rows[self->spec.points];
}

const char *wm_show_name (const wm_show_t *self, const char *what, uint32_t plane, char text[24])
{
    if (self->page_at)
        snprintf (text, 24, "%s-%u-%u", what, plane, self->page_at);
    else
        snprintf (text, 24, "%s-%u", what, plane);
    return text;
}

double wm_show_score (const wm_show_t *self, uint32_t k, uint32_t row)
{
    return (double) self->scores.score[(size_t) k * self->scores.n_row_max + row];
}

double wm_show_other (const wm_show_t *self, uint32_t k, uint32_t row)
{
    const size_t match = self->match[row];
    return match == UINT32_MAX ? (double) NAN
                               : self->other.score[(size_t) k * self->other.n_row_max + match];
}

uint32_t wm_show_label (const wm_show_t *self, uint32_t row)
{
    return self->scores.status[row] == WM_HIT_SCORED
               ? wm_call_by (&self->call, self->scores.score + row, self->scores.n_row_max)
               : self->scores.n_label;
}

double wm_show_trigger (const wm_show_t *show)
{
    const double offset = isfinite (show->spec.trigger_offset) ? show->spec.trigger_offset
                                                               : show->event.trigger_offset;
    return isfinite (offset) ? offset - (double) show->event.first_tick : 0;
}

double wm_show_tick_cm (const wm_show_t *show)
{
    const double tick_us = isfinite (show->spec.tick_us) ? show->spec.tick_us : show->event.tick_us;
    const double cm = show->event.drift_cm_us * tick_us;
    return cm > 0 && isfinite (cm) ? cm : 0;
}
