/* wm_produce_doubt.c - what is odd about an input whose events are all scored: warnings, or a
   reason to hold it.

   An input is judged once, before its output is written, by all of its events together: one odd
   event is not enough. wm_match.h has the test and the bound on its false alarms.  */
#include "producer/session/wm_produce_private.h"

#include <inttypes.h>
#include <math.h>

#define REASON_BYTES 320
#define ALL_THE_SAME " If all is right, write hit_check: none into --spec"

/* Pixels beyond `adc`.  */
static void warn_clamped (wm_produce_t *self, const wm_input_t *input)
{
    const wm_cut_odd_t *odd = &input->odd;
    if (odd->n_clamped > odd->n_pixel / 2)
        wm_produce_warn (self,
                         "%s: %.0f %% of its pixels with charge lie beyond adc: [%g, %g] of the "
                         "specification and are set to that. Check that samples are in ADC; "
                         "amplitude in --spec scales them",
                         input->path, 100. * (double) odd->n_clamped / (double) odd->n_pixel,
                         self->spec.adc_min, self->spec.adc_max);
}

/* A lifetime far below the drift time: mostly one in another unit.  */
static void warn_lifetime (wm_produce_t *self, const wm_input_t *input)
{
    const wm_cut_odd_t *odd = &input->odd;
    const double us = odd->growth * odd->tau_us;
    if (!(odd->growth > 1))
        return;
    if (isfinite ((float) exp (odd->growth)))
        wm_produce_warn (self,
                         "%s: tau_us %g is shorter than the readout behind the trigger, %g us: its "
                         "end is multiplied by %.3g. tau_us is in microseconds",
                         input->path, odd->tau_us, us, exp (odd->growth));
    else
        wm_produce_warn (self,
                         "%s: the lifetime correction overflows: tau_us %g for a readout of %g us "
                         "behind the trigger? tau_us is in microseconds. Hits near pixels that "
                         "overflow are held as bad pixels",
                         input->path, odd->tau_us, us);
}

static void warn_outside (wm_produce_t *self, const wm_input_t *input)
{
    const wm_cut_odd_t *odd = &input->odd;
    const struct {
        uint64_t n;
        double tick;
        const char *where;
    } side[] = { { odd->n_early, odd->early, "before" }, { odd->n_late, odd->late, "behind" } };
    for (int i = 0; i < 2; i++)
        if (side[i].n)
            wm_produce_warn (self,
                             "%s: %" PRIu64 " hit%s held, time %s the readout: for example tick "
                             "%.6g, of a readout of %u ticks (%s)",
                             input->path, side[i].n, side[i].n == 1 ? " is" : "s are",
                             side[i].where, side[i].tick, odd->n_tick,
                             wm_reader_joined (input->reader));
}

/* Writes why hits and planes do not seem to belong together. Returns a bound on the probability of
   such counts if they do.  */
static double mismatch (const wm_input_t *input, char text[REASON_BYTES])
{
    const wm_match_t *match = &input->match;
    const uint64_t n_hit = wm_reader_n_row (input->reader);
    const double empty = wm_match_empty_chance (n_hit, input->n_empty),
                 missed = wm_match_chance (match);
    char found[140];
    if (missed > empty)
        snprintf (found, sizeof found,
                  "%" PRIu64 " of %" PRIu64 " have nothing but zeros in their patch",
                  input->n_empty, n_hit);
    else
        snprintf (found, sizeof found,
                  "%" PRIu64 " of %" PRIu64 " find more charge at their time than elsewhere on "
                  "their wire, %" PRIu64 " less",
                  match->n_more, match->n, match->n_less);
    snprintf (text, REASON_BYTES, "its hits miss the signal: %s (%.60s). %s", found,
              wm_reader_joined (input->reader),
              wm_match_is_other (match) ? "In us most find more: write the times in ticks."
              : wm_reader_is_joined (input->reader)
                  ? "Are the planes of another run, or do the times begin at another tick "
                    "(--hit-offset)?"
                  : "Are the times in ticks, and the wires those of this file?");
    return fmin (missed, empty);
}

bool wm_produce_doubt (wm_produce_t *self, wm_input_t *input)
{
    char text[REASON_BYTES], reason[WM_TEXT_BYTES_MAX + 1];
    const bool has_planes = wm_reader_has_planes (input->reader);
    if (self->spec.points == WM_POINTS_WINDOWS) /* most have no charge */
        return false;
    if (has_planes) {
        warn_outside (self, input);
        warn_lifetime (self, input);
        warn_clamped (self, input);
        const double chance = mismatch (input, text);
        if (chance < WM_MATCH_SURE && self->spec.hit_check == WM_HIT_CHECK_CHARGE) {
            const size_t more = strlen (text) + strlen (ALL_THE_SAME) + 2;
            snprintf (reason, sizeof reason, "%.*s: %s" ALL_THE_SAME,
                      (int) (WM_TEXT_BYTES_MAX - more), input->path, text);
            wm_produce_hold (self, input, reason);
            return true;
        }
        if (chance < WM_MATCH_WARN) {
            wm_produce_warn (self, "%s: %s", input->path, text);
            return false;
        }
    }
    if (input->n_empty)
        wm_produce_warn (self, "%s: %" PRIu64 " hit%s nothing but zeros in %s patch; %s scored%s",
                         input->path, input->n_empty, input->n_empty == 1 ? " has" : "s have",
                         input->n_empty == 1 ? "its" : "their",
                         input->n_empty == 1 ? "it is" : "they are",
                         has_planes ? ". Check that times are in ticks, and that hits and planes "
                                      "belong together"
                                    : "");
    return false;
}
