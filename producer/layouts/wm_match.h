/* wm_match.h - whether hits and planes belong together: whether hits find charge where they are.

   Each hit is compared with another time of its own wire, a quarter to three quarters of the
   readout away. If the frames are of another run, if times are in another unit or count from
   another tick, or if the channel map is wrong, a hit's own time is as good as the other. If hits
   and planes belong together, nearly every hit finds more charge at its own time.

   The decision is a test of hypotheses with a bound on false alarms. Let p be the least share of
   hits of a sound input that find charge. Of n hits m find it. An input is in doubt only if
   P (at most m of n) <= exp (-n D (m / n || p)), Chernoff's bound for the binomial distribution, is
   below a level: WM_MATCH_SURE to hold it, WM_MATCH_WARN to warn. The bound is that of independent
   hits. Hits of a track are not, so each p is far below what detectors give. Three shares count:
   - of hits on wires with charge, 0.25 find more charge at their time than elsewhere. (Two events
     of ProtoDUNE have 0.98 and 1.00, with other frames 0.06.) Frames of another run have less, if
     the samples between their signals are zero.
   - of hits that find different charge at both times, 0.65 find more at their own. (0.98 and 1.00;
     0.79 with noise added, half as large as the mean signal.) In frames of another run half do,
     with or without noise. Hits on dead wires, and those below the threshold of the frames' zero
     suppression, find none at both times and do not count.
   - of all hits, 0.75 have a patch that is not empty. (All.)
   An input of few hits is never held: it takes 73 of them, or 15 whose patches are empty.  */
#ifndef WM_MATCH_H
#define WM_MATCH_H

#include "producer/files/wm_event.h"

#define WM_MATCH_SURE 1e-9 /* the chance that a sound input is held */
#define WM_MATCH_WARN 1e-4 /* ... or warned of */

/* Hits of the events of an input: on wires with charge, inside the readout.  */
typedef struct wm_match_t {
    uint64_t n;
    uint64_t n_more, n_less; /* find more, less charge at their time than at another one */
    uint64_t n_other;        /* find more where their times are read in us */
} wm_match_t;

/* Adds the hits of an arranged event. tick_us: length of a tick; not above 0: not known.  */
void wm_match_add (wm_match_t *self, const wm_event_t *event, double tick_us);

/* Returns a bound on the probability that hits that belong to their planes give such counts; 1:
   they are as expected.  */
double wm_match_chance (const wm_match_t *self);

/* The same of `n_empty` empty patches, more than half of `n_hit`.  */
double wm_match_empty_chance (uint64_t n_hit, uint64_t n_empty);

/* Whether most hits find more charge where their times are read in us, by more than chance.  */
bool wm_match_is_other (const wm_match_t *self);

/* Returns the largest |ADC| of a wire of the plane at most `near` ticks from `time`; 0: none.
   Regions are in (wire, tick) order.  */
float wm_match_charge (const wm_event_t *event, const wm_event_plane_t *plane, uint32_t wire,
                       double time, double near);

#endif
