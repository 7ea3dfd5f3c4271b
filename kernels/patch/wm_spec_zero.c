/* wm_spec_zero.c - the zero level of a specification.

   A file of its own because engines need it where nothing that reads YAML is (tests/gpu).  */
#include "kernels/patch/wm_spec.h"

#include <math.h>

float wm_spec_zero (const wm_spec_t *self)
{
    double s = (self->out_max - self->out_min) / (self->adc_max - self->adc_min);
    double zero = self->out_min - s * self->adc_min;
    /* A scale such as 20 / 200 is not exact; what is left of a 0 must not be taken for a level.  */
    double most = fmax (fabs (self->out_min), fabs (self->out_max));
    return fabs (zero) <= 1e-12 * most ? 0 : (float) zero;
}
