/* wm_live_private.h - the parts of the page of `wiremill serve`. Each writes a section; `s` is a
   status.  */
#ifndef WM_LIVE_PRIVATE_H
#define WM_LIVE_PRIVATE_H

#include "ops/serve/wm_live.h"

#include <stdbool.h>
#include <stdio.h>

/* Begins a section, hidden where there is nothing to show.  */
void wm_live_begin (FILE *out, const char *id, const char *heading, bool is_shown);
void wm_live_end (FILE *out);

/* Returns how a state is coloured: "good", "warn", "bad" or "".  */
const char *wm_live_class (const char *state);

/* Rates of equal parts of a time. Texts are lent; per_s may be a peer's.  */
typedef struct {
    const char *id, *title, *per_s; /* per_s: the unit */
    double from_s, to_s;
    bool is_now;       /* it ends now */
    const float *rate; /* (n) below 0: not known */
    int n;
} wm_live_graph_t;
void wm_live_graph (FILE *out, const wm_live_graph_t *self);

void wm_live_workers (FILE *out, const json_t *s);
void wm_live_held (FILE *out, const json_t *s);
void wm_live_said (FILE *out, const json_t *s);
void wm_live_inputs (FILE *out, const json_t *s);
void wm_live_latencies (FILE *out, const wm_history_query_t *past);
void wm_live_faults (FILE *out, const json_t *s, const wm_history_query_t *past);

#endif
