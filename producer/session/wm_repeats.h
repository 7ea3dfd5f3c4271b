/* wm_repeats.h - notices events that carry the (run, subrun, event) of another one.

   Simulated files repeat them, and so do files given under two names: both are scored, since an
   event is named by its place in its input, but readers of the outputs must know. It knows the
   events that were added since it was made: 16 bytes an event. Thread: one.  */
#ifndef WM_REPEATS_H
#define WM_REPEATS_H

#include <stdbool.h>
#include <stdint.h>

/* Where an event lies: the caller's number of its input, and its ordinal in there.  */
typedef struct {
    uint32_t input, ordinal;
} wm_repeats_at_t;

typedef struct wm_repeats_t wm_repeats_t;

wm_repeats_t *wm_repeats_new (void); /* never NULL (asserts on memory) */
void wm_repeats_destroy (wm_repeats_t **self_p);

/* True: another event had this name first, at *first. Asking twice about one event is no repeat. */
bool wm_repeats_add (wm_repeats_t *self, int64_t run, int64_t subrun, int64_t event,
                     wm_repeats_at_t at, wm_repeats_at_t *first);

#endif
