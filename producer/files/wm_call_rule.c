/* wm_call_rule.c - see wm_call_rule.h.  */
#include "producer/files/wm_call_rule.h"

#include <stdio.h>
#include <string.h>

#define SIGMOID "michel"

wm_call_rule_t wm_call_rule_new (const char (*label)[48], uint32_t n, double least)
{
    wm_call_rule_t self = { .n_label = n, .sigmoid = n, .least = least };
    for (uint32_t k = 0; k < n && n > 1; k++)
        if (!strcmp (label[k], SIGMOID))
            self.sigmoid = k;
    return self;
}

uint32_t wm_call_by (const wm_call_rule_t *self, const double *score, size_t stride)
{
    const uint32_t first = self->sigmoid == 0 && self->n_label > 1;
    uint32_t best = first;
    if (self->sigmoid < self->n_label && score[self->sigmoid * stride] >= self->least)
        return self->sigmoid;
    for (uint32_t k = first + 1; k < self->n_label; k++)
        if (k != self->sigmoid && score[k * stride] > score[best * stride])
            best = k;
    return best;
}

const char *wm_call_rule_text (const wm_call_rule_t *self, char text[WM_CALL_TEXT_BYTES])
{
    if (self->sigmoid < self->n_label)
        snprintf (text, WM_CALL_TEXT_BYTES,
                  SIGMOID " if its score is at least %g, else the largest of the others",
                  self->least);
    else
        snprintf (text, WM_CALL_TEXT_BYTES, "the largest score");
    return text;
}
