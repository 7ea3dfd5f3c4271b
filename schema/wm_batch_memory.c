/* wm_batch_memory.c - where the columns of a batch lie. Needs no library: programs that only
   compute link it alone.  */
#include "schema/wm_batch.h"
#include "schema/wm_limits.h"

#include <stdlib.h>
#include <string.h>

uint64_t wm_batch_raw_bytes (const wm_batch_t *self)
{
    if (self->kind == WM_BATCH_PATCHES) { /* two 32-bit counts: their product may be 2^66 bytes */
        uint64_t bytes;
        return __builtin_mul_overflow (4 * (uint64_t) self->n_hit, self->patch_values, &bytes)
                   ? UINT64_MAX
                   : bytes;
    }
    return 12 * (uint64_t) self->n_run + 4 * (uint64_t) self->n_value +
           8 * (uint64_t) self->n_hit * wm_batch_cells (self);
}

bool wm_batch_repeats (const wm_batch_t *self, uint32_t hit)
{
    const size_t cells = wm_batch_cells (self), bytes = cells * sizeof *self->hit_wire;
    const uint32_t *wire = self->hit_wire + hit * cells;
    const int32_t *col = self->hit_col + hit * cells;
    return cells && hit > 0 && !memcmp (wire, wire - cells, bytes) &&
           !memcmp (col, col - cells, bytes);
}

void wm_batch_clear (wm_batch_t *self)
{
    if (self) {
        free (self->memory);
        memset (self, 0, sizeof *self);
    }
}

wm_fault_t wm_batch_reserve (wm_batch_t *self, wm_error_t *error)
{
    uint64_t raw = wm_batch_raw_bytes (self);
    const uint32_t most = wm_raw_bytes_max (self->kind == WM_BATCH_PATCHES ? self->n_hit : 0);
    if (raw > most)
        return wm_fault (error, WM_EBATCH, "batch of %llu raw bytes, more than %u",
                         (unsigned long long) raw, most);
    if (self->memory_bytes < raw || !self->memory) {
        if (self->is_lent)
            return wm_fault (error, WM_EBATCH,
                             "batch of %llu raw bytes, more than this campaign's batches have",
                             (unsigned long long) raw);
        void *memory = realloc (self->memory, raw ? raw : 1);
        if (!memory)
            return wm_fault (error, WM_EHOST, "out of memory for a batch of %llu bytes",
                             (unsigned long long) raw);
        self->memory = memory;
        self->memory_bytes = raw ? raw : 1;
    }
    uint32_t *word = self->memory;
    self->patch = self->value = NULL;
    self->run_wire = self->run_first = self->run_length = self->hit_wire = NULL;
    self->hit_col = NULL;
    if (self->kind == WM_BATCH_PATCHES) {
        self->patch = (float *) word;
        return WM_OK;
    }
    self->run_wire = word;
    self->run_first = word + self->n_run;
    self->run_length = self->run_first + self->n_run;
    self->hit_wire = self->run_length + self->n_run;
    const size_t n_cell = (size_t) self->n_hit * wm_batch_cells (self);
    self->hit_col = (int32_t *) (self->hit_wire + n_cell);
    self->value = (float *) (self->hit_col + n_cell);
    return WM_OK;
}
