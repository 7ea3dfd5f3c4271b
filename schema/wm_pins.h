/* wm_pins.h - what a campaign is pinned to at its first start.

   A small text that broker, producers and workers agree on; the broker stores and compares it
   without understanding the specification. Lines "key: value" in a fixed order, then a line "---",
   then the patch specification in its canonical form (kernels/patch/wm_spec.h). Thread: any.  */
#ifndef WM_PINS_H
#define WM_PINS_H

#include "schema/base/wm_fault.h"
#include "schema/wm_limits.h"

#include <stdbool.h>
#include <stddef.h>

#define WM_PINS_JUDGED_BYTES 256u /* of who judged its model */

typedef struct {
    char model[65];       /* SHA-256 of the model file given, hex: the model's identity */
    char wmm[65];         /* SHA-256 of the imported .wmm that workers fetch */
    char precision[8];    /* "fp32", "split" or "fast" */
    uint32_t n_output;    /* scores per hit */
    uint32_t n_value;     /* input values a patch (all the model's inputs together) */
    uint32_t batch_hits;  /* most hits per batch */
    uint32_t batch_bytes; /* most raw bytes a batch */
    char output[1025];    /* absolute folder the output files go to */
    char max_error[16];   /* of split and fast: the largest error of a score, "5e-03"; "": of fp32,
                             and of campaigns older than this pin */
    char cut[8]; /* "even": a plane's hits in batches of about equal size; "": in full batches and a
                    rest, as in campaigns older than this pin */
    char planes[320];   /* where planes of the hits of an input lie (wm_pair.h); "": in the input */
    char channels[320]; /* the channel map of those planes; "": none is given */
    char hit_time[8];   /* "ticks" or "us": the unit of hits beside planes; "": as their table's */
    char hit_offset[24]; /* ticks from those hits' time to their planes'; "": 0 */
    char pedestal[24];   /* "median", "none" or ADC, taken off those planes; "": as "none", but
                            planes that look like raw ADC are refused */
    char layout[9];      /* of outputs: "numl" or "both"; "": wiremill's own table */
    char serves[8];      /* "clients": programs that wait for scores (libwiremill), and nothing of
                            their patches is kept; "": files */
    char lengths[8];     /* "vary": patches and results are ragged rows (wm_ragged.h), n_value and
                            n_output the most that they have; "": all have so many */
    char types[8];       /* "exact": inputs or outputs of the model are carried exactly
                            (wm_exact.h), and n_value and n_output count their float32s; "": each
                            value is a float32 */
    /* Who judged a general model at its import (wm_model_judged_by); "": it is of the family, or
       the campaign older than this pin.  */
    char judged_by[WM_PINS_JUDGED_BYTES];
    char spec[WM_PINS_BYTES_MAX - 2608]; /* canonical specification; with table and labels */
} wm_pins_t;

/* Returns whether patches and results are ragged rows.  */
static inline bool wm_pins_is_ragged (const wm_pins_t *self)
{
    return *self->lengths != 0;
}

/* Prints the canonical text; returns its length (without NUL).  */
size_t wm_pins_print (const wm_pins_t *self, char text[WM_PINS_BYTES_MAX]);

/* Parses what wm_pins_print wrote; anything else is WM_EPEER with the line named.  */
wm_fault_t wm_pins_parse (wm_pins_t *self, const char *text, size_t bytes, wm_error_t *error);

/* What the rows of outputs with this canonical specification are, for people: "hits",
   "space points", "windows", or "tiles" of an image. Static text.  */
const char *wm_pins_rows (const char *spec);

/* The largest error of a score in this campaign, relative above 1; 0: fp32.  */
double wm_pins_max_error (const wm_pins_t *self);

/* XXH3-128 of the canonical text up to `output`: goes into every batch
   digest.  */
void wm_pins_digest (const wm_pins_t *self, uint8_t digest[16]);

/* Compares two campaigns' pins: WM_OK if equal, else WM_EBATCH names the first pin that differs. A
   campaign without max_error keeps what it was begun with, one without `cut` its own cut and
   default of batch_hits, one without judged_by goes on without it.  */
wm_fault_t wm_pins_compare (const wm_pins_t *pinned, const wm_pins_t *given, wm_error_t *error);

/* Prints the settings in which two campaigns differ, as people type them, and what they were:
   "--planes (was not given), tau_us (was input)". Cut at `bytes`.  */
void wm_pins_changes (const wm_pins_t *pinned, const wm_pins_t *given, char *text, size_t bytes);

#endif
