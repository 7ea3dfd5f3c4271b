/* wm_match.h - whether hits and planes belong together: whether hits find charge where they are.

   Each hit is compared with another time of its own wire, a quarter to three quarters of the
   readout away. Frames of another run, times in another unit or from another tick, a wrong channel
   map: then a hit's place is as good as any other one. Where hits and planes belong together, nearly
   every hit finds more charge at its own time.

   A test of hypotheses, so that its false alarms are bounded: an input is in doubt only where its
   counts are so unlikely, had it hits that belong to its planes (WM_MATCH_SURE), by Chernoff's bound
   of the binomial distribution, P (at most m of n) <= exp (-n D (m / n || p)), for hits that find
   their charge independently of each other. They do not quite (a track is lost as a whole), so the
   shares p that are asked for are far below what real detectors give:
   - of hits on wires with charge, a quarter find more charge at their time than elsewhere. (Two
     events of ProtoDUNE: 0.98 and 1.00, of other frames 0.06.) Less have frames of another run
     whose samples between signals are zero;
   - of hits that find different charge at both, 0.65 find more at their time. (0.98 and 1.00; with
     noise of half a mean signal added, 0.79.) Half do in frames of another run, whatever these are.
     Hits on dead wires, or below the threshold of the frames' zero suppression, find none at both,
     and do not count;
   - of hits, three quarters have a patch that is not empty. (All.)
   Few hits never suffice: 73, or 15 empty patches, are the least that are held.  */
#ifndef WM_MATCH_H
#define WM_MATCH_H

#include "producer/wm_event.h"

#define WM_MATCH_SURE 1e-9 /* such an input is held: once in 10^9 sound ones */
#define WM_MATCH_WARN 1e-4 /* and warned of */

/* Hits of the events of an input: on wires with charge, inside the readout.  */
typedef struct wm_match_t {
    uint64_t n;
    uint64_t n_more, n_less; /* find more, less charge at their time than at another one */
    uint64_t n_other;        /* find more where their times are read in us */
} wm_match_t;

/* Adds the hits of an arranged event. tick_us: length of a tick; not above 0: not known.  */
void wm_match_add (wm_match_t *self, const wm_event_t *event, double tick_us);

/* Returns a bound on the probability that hits that belong to their planes give such counts; 1: they
   are as expected.  */
double wm_match_chance (const wm_match_t *self);

/* The same of `n_empty` empty patches, more than half of `n_hit`.  */
double wm_match_empty_chance (uint64_t n_hit, uint64_t n_empty);

/* Whether most hits find more charge where their times are read in us, by more than chance.  */
bool wm_match_is_other (const wm_match_t *self);

/* The largest |ADC| of a wire of the plane at most `near` ticks from `time`; 0: none. Regions are in
   (wire, tick) order.  */
float wm_match_charge (const wm_event_t *event, const wm_event_plane_t *plane, uint32_t wire,
                       double time, double near);

#endif
