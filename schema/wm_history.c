/* wm_history.c - see wm_history.h.  */
#include "schema/wm_history.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

const char *const wm_step_names[WM_STEPS] = { "stage", "queue", "compute", "commit" };

#define WHAT(name, text, letter, what, burst_s) { text, letter, what, burst_s },
const struct wm_mark_what_t wm_mark_what[WM_N_MARK] = { WM_MARKS (WHAT) };

wm_mark_kind_t wm_mark_of (const char *name)
{
    wm_mark_kind_t kind = 0;
    while (kind < WM_N_MARK && strcmp (wm_mark_what[kind].name, name) != 0)
        kind++;
    return kind;
}

void wm_latency_add (wm_latency_t *self, uint32_t ms)
{
    unsigned bucket = ms ? 32 - (unsigned) __builtin_clz (ms) : 0;
    self->n++;
    self->sum_ms += ms;
    self->bucket[bucket < WM_LATENCY_BUCKETS ? bucket : WM_LATENCY_BUCKETS - 1]++;
}

void wm_tally_add (wm_tally_t *self, const wm_tally_t *more)
{
    for (int i = 0; i < WM_N_COUNT; i++)
        self->count[i] += more->count[i];
    for (int i = 0; i < WM_STEPS; i++) {
        self->step[i].n += more->step[i].n;
        self->step[i].sum_ms += more->step[i].sum_ms;
        for (int k = 0; k < WM_LATENCY_BUCKETS; k++)
            self->step[i].bucket[k] += more->step[i].bucket[k];
    }
}

void wm_tally_less (wm_tally_t *self, const wm_tally_t *other)
{
    for (int i = 0; i < WM_N_COUNT; i++)
        self->count[i] -= other->count[i];
    for (int i = 0; i < WM_STEPS; i++) {
        self->step[i].n -= other->step[i].n;
        self->step[i].sum_ms -= other->step[i].sum_ms;
        for (int k = 0; k < WM_LATENCY_BUCKETS; k++)
            self->step[i].bucket[k] -= other->step[i].bucket[k];
    }
}

uint32_t wm_history_rows_hash (const char *signature)
{
    return (uint32_t) XXH3_64bits (signature, strlen (signature));
}

void wm_history_rows_name (uint32_t hash, char name[WM_HISTORY_ROWS_BYTES])
{
    snprintf (name, WM_HISTORY_ROWS_BYTES, "rows-%08x", hash);
}
