/* wm_live_private.h - the parts of the page of `wiremill serve`. Each writes a section; `s` is a
   status.  */
#ifndef WM_LIVE_PRIVATE_H
#define WM_LIVE_PRIVATE_H

#include "ops/serve/wm_live.h"

#include <stdbool.h>
#include <stdio.h>

/* Writes a page's begin, to behind its heading and the place for what the script reports; and its
   end, of one that has the script. every_s: how often the script, or without one the browser, asks
   for it again; 0: never.  */
void wm_live_head (FILE *out, const char *title, const char *heading, double every_s,
                   bool has_script);
void wm_live_foot (FILE *out);

/* Begins a section, hidden where there is nothing to show.  */
void wm_live_begin (FILE *out, const char *id, const char *heading, bool is_shown);
void wm_live_end (FILE *out);

/* Heads are separated by "|"; "#" begins one of numbers, "-" one that a narrow screen leaves out. A
   table that is too wide scrolls, also by keys.  */
void wm_live_table (FILE *out, const char *id, const char *class, const char *heads,
                    const char *caption);
void wm_live_table_end (FILE *out);

/* A cell with a number, by which its column is sorted.  */
void wm_live_number (FILE *out, const char *class, double value, const char *text);

/* Returns how a state is coloured: "good", "warn", "bad" or "".  */
const char *wm_live_class (const char *state);

/* Returns what is counted in "held_total": one, or several.  */
static inline const char *wm_live_held_rows (int64_t n)
{
    return n == 1 ? "input or batch" : "inputs or batches";
}

/* Rates of equal parts of a time. Texts are lent; per_s may be a peer's.  */
typedef struct {
    const char *id, *title, *per_s; /* per_s: the unit */
    double from_s, to_s;
    const float *rate; /* (n) below 0: not known */
    int n;
    const wm_history_query_t *past; /* its marks */
} wm_live_graph_t;
void wm_live_graph (FILE *out, const wm_live_graph_t *self);

void wm_live_workers (FILE *out, const json_t *s);
void wm_live_held (FILE *out, const json_t *s, const char *base);
void wm_live_said (FILE *out, const json_t *s);
void wm_live_inputs (FILE *out, const json_t *s);
void wm_live_latencies (FILE *out, const wm_history_query_t *past);
void wm_live_faults (FILE *out, const json_t *s, const wm_history_query_t *past);

#endif
