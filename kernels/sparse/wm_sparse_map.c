/* wm_sparse_map.c - which positions of an image are live, and their values.

   All of it is bits: a pixel is set if it is not bitwise Z, a position of a layer is active if one
   of its window below is, used if a cell's patch holds it (last layer) or a live position above
   reads it (the others), live if both. Live positions are numbered in row order; the number is the
   slot.

   A plane with few empty windows could ask for hundreds of megabytes of slots. So the cells of a
   job are worked on in groups: as many, in their order, as slot_bytes_max allows, and never less
   than one. Bits of scores do not depend on it.  */
#include "kernels/sparse/wm_sparse.h"

#include <string.h>

#define ROWS 32u /* rows of a task */

static uint32_t tasks_of (uint32_t rows)
{
    return (rows + ROWS - 1) / ROWS;
}

static bool map_reserve (wm_sparse_map_t *self, uint32_t n_row, uint32_t n_col, uint64_t *count)
{
    self->n_row = n_row, self->n_col = n_col, self->n_word = n_col / 64 + 2;
    if (!wm_sparse_reserve (&self->bits, (size_t) n_row * self->n_word, sizeof *self->bit, count) ||
        !wm_sparse_reserve (&self->ranks, (size_t) n_row * self->n_word, sizeof *self->rank, count))
        return false;
    self->bit = self->bits.data, self->rank = self->ranks.data;
    return true;
}

/* 64 bits of a row from bit `first` on; what lies outside the row is 0.  */
static uint64_t bits_at (const uint64_t *row, uint32_t n_word, int64_t first)
{
    int64_t word = first >= 0 ? first / 64 : -((63 - first) / 64);
    unsigned shift = (unsigned) (first - word * 64);
    uint64_t low = word >= 0 && word < n_word ? row[word] : 0;
    uint64_t high = word + 1 >= 0 && word + 1 < n_word ? row[word + 1] : 0;
    return shift ? low >> shift | high << (64 - shift) : low;
}

/* ---- active ---------------------------------------------------------------------------------- */

/* Phase: pixels that are not bitwise Z.  */
static void scan_rows (void *arg, uint32_t task, uint32_t thread)
{
    wm_sparse_t *self = arg;
    wm_sparse_map_t *map = &self->active[0];
    const uint32_t channel = self->net.channel, n = self->n_col * channel;
    uint32_t zero, last = (task + 1) * ROWS < self->n_row ? (task + 1) * ROWS : self->n_row;
    (void) thread;
    memcpy (&zero, &self->zero, sizeof zero);
    for (uint32_t y = task * ROWS; y < last; y++) {
        const float *pixel = self->image + (size_t) y * n;
        uint64_t *bit = map->bit + (size_t) y * map->n_word;
        memset (bit, 0, map->n_word * sizeof *bit);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t raw;
            memcpy (&raw, pixel + i, sizeof raw);
            if (raw != zero)
                bit[i / channel / 64] |= UINT64_C (1) << i / channel % 64;
        }
    }
}

/* Phase: active positions of layer `step` from those below.  */
static void activate_rows (void *arg, uint32_t task, uint32_t thread)
{
    wm_sparse_t *self = arg;
    const wm_sparse_conv_t *conv = &self->conv[self->step - 1];
    const wm_sparse_map_t *below = &self->active[self->step - 1];
    wm_sparse_map_t *map = &self->active[self->step];
    uint32_t last = (task + 1) * ROWS < map->n_row ? (task + 1) * ROWS : map->n_row;
    (void) thread;
    for (uint32_t y = task * ROWS; y < last; y++)
        for (uint32_t word = 0; word < map->n_word; word++) {
            uint64_t low = 0, high = 0, any;
            for (uint32_t dy = 0; dy < conv->kh; dy++) {
                const uint64_t *row = below->bit + (size_t) (y + dy) * below->n_word;
                low |= bits_at (row, below->n_word, (int64_t) word * 64);
                high |= bits_at (row, below->n_word, (int64_t) word * 64 + 64);
            }
            any = low;
            for (uint32_t dx = 1; dx < conv->kw; dx++)
                any |= low >> dx | high << (64 - dx);
            map->bit[(size_t) y * map->n_word + word] = any;
        }
}

wm_fault_t wm_sparse_scan (wm_sparse_t *self, wm_error_t *error)
{
    uint32_t n_row = self->n_row, n_col = self->n_col;
    for (uint32_t l = 0; l <= self->net.n_conv; l++) {
        if (l > 0) {
            n_row -= self->conv[l - 1].kh - 1;
            n_col -= self->conv[l - 1].kw - 1;
        }
        if (!map_reserve (&self->active[l], n_row, n_col, &self->stats.allocations) ||
            !map_reserve (&self->live[l], n_row, n_col, &self->stats.allocations))
            return wm_fault (error, WM_EAGAIN, "no memory for the maps of a plane of %u x %u",
                             self->n_row, self->n_col);
    }
    wm_sparse_pool_run (self->pool, scan_rows, self, tasks_of (self->n_row));
    for (self->step = 1; self->step <= self->net.n_conv; self->step++)
        wm_sparse_pool_run (self->pool, activate_rows, self,
                            tasks_of (self->active[self->step].n_row));
    return WM_OK;
}

/* ---- live ------------------------------------------------------------------------------------ */

static void set_bits (uint64_t *row, uint32_t first, uint32_t count)
{
    while (count > 0) {
        uint32_t shift = first % 64, n = count < 64 - shift ? count : 64 - shift;
        row[first / 64] |= (n == 64 ? UINT64_MAX : (UINT64_C (1) << n) - 1) << shift;
        first += n, count -= n;
    }
}

/* Phase: live positions of the last layer.  */
static void use_rows (void *arg, uint32_t task, uint32_t thread)
{
    wm_sparse_t *self = arg;
    const wm_sparse_map_t *active = &self->active[self->net.n_conv];
    wm_sparse_map_t *map = &self->live[self->net.n_conv];
    const wm_sparse_cell_t *cell = self->cell + self->group_first;
    uint32_t first = task * ROWS;
    uint32_t last = first + ROWS < map->n_row ? first + ROWS : map->n_row;
    (void) thread;
    memset (map->bit + (size_t) first * map->n_word, 0,
            (size_t) (last - first) * map->n_word * sizeof *map->bit);
    for (uint32_t i = 0; i < self->group_cells; i++) {
        uint32_t from = cell[i].row > first ? cell[i].row : first;
        uint32_t to = cell[i].row + self->pos_rows < last ? cell[i].row + self->pos_rows : last;
        for (uint32_t y = from; y < to; y++)
            set_bits (map->bit + (size_t) y * map->n_word, cell[i].col, self->pos_cols);
    }
    for (size_t w = (size_t) first * map->n_word; w < (size_t) last * map->n_word; w++)
        map->bit[w] &= active->bit[w];
}

/* Phase: live positions of layer `step`, which the live ones above it read.  */
static void need_rows (void *arg, uint32_t task, uint32_t thread)
{
    wm_sparse_t *self = arg;
    const wm_sparse_conv_t *conv = &self->conv[self->step];
    const wm_sparse_map_t *above = &self->live[self->step + 1], *active = &self->active[self->step];
    wm_sparse_map_t *map = &self->live[self->step];
    uint32_t last = (task + 1) * ROWS < map->n_row ? (task + 1) * ROWS : map->n_row;
    (void) thread;
    for (uint32_t y = task * ROWS; y < last; y++)
        for (uint32_t word = 0; word < map->n_word; word++) {
            uint64_t low = 0, high = 0, any;
            for (uint32_t dy = 0; dy < conv->kh; dy++)
                if (y >= dy && y - dy < above->n_row) {
                    const uint64_t *row = above->bit + (size_t) (y - dy) * above->n_word;
                    low |= bits_at (row, above->n_word, (int64_t) word * 64 - 64);
                    high |= bits_at (row, above->n_word, (int64_t) word * 64);
                }
            any = high;
            for (uint32_t dx = 1; dx < conv->kw; dx++)
                any |= high << dx | low >> (64 - dx);
            size_t at = (size_t) y * map->n_word + word;
            map->bit[at] = any & active->bit[at];
        }
}

/* Numbers the live positions. Returns false where 32 bits do not hold them.  */
static bool number (wm_sparse_map_t *map)
{
    uint64_t count = 0;
    for (size_t w = 0; w < (size_t) map->n_row * map->n_word; w++) {
        map->rank[w] = (uint32_t) count;
        count += (uint64_t) __builtin_popcountll (map->bit[w]);
    }
    map->count = (uint32_t) count;
    return count < UINT32_MAX;
}

/* Finds what is live for the group. Returns the bytes of its slots; 0 if they cannot be numbered.
 */
static uint64_t find_live (wm_sparse_t *self)
{
    const uint32_t n = self->net.n_conv;
    uint64_t bytes = 1;
    wm_sparse_pool_run (self->pool, use_rows, self, tasks_of (self->live[n].n_row));
    for (self->step = n - 1; self->step > 0; self->step--)
        wm_sparse_pool_run (self->pool, need_rows, self, tasks_of (self->live[self->step].n_row));
    for (uint32_t l = 1; l <= n; l++) {
        if (!number (&self->live[l]))
            return 0;
        size_t each = l < n ? self->conv[l - 1].c_pad * sizeof (float)
                            : self->values.stride_bytes + self->values.n_mask * sizeof (uint64_t);
        bytes += self->live[l].count * each;
    }
    return bytes;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The windows of a position of layer l as spans of contiguous values.  */
static void find_spans (const wm_sparse_t *self, uint32_t l, uint32_t y, uint32_t x,
                        const float **span)
{
    const wm_sparse_conv_t *conv = &self->conv[l - 1];
    if (l == 1) {
        for (uint32_t dy = 0; dy < conv->kh; dy++)
            span[dy] = self->image + ((size_t) (y + dy) * self->n_col + x) * conv->c_in;
        return;
    }
    const wm_sparse_map_t *below = &self->live[l - 1];
    const wm_sparse_conv_t *before = conv - 1;
    for (uint32_t dy = 0; dy < conv->kh; dy++)
        for (uint32_t dx = 0; dx < conv->kw; dx++) {
            bool on = wm_sparse_map_bits (below, y + dy, x + dx) & 1;
            *span++ = !on ? before->constant
                          : self->mid[l - 1] +
                                (size_t) wm_sparse_map_rank (below, y + dy, x + dx) * before->c_pad;
        }
}

/* Returns how many words of the last layer's slot are not 0.  */
static uint32_t store (wm_sparse_t *self, uint32_t l, uint32_t slot, const float *value)
{
    uint32_t words = 0;
    const wm_sparse_conv_t *conv = &self->conv[l - 1];
    if (l < self->net.n_conv) {
        memcpy (self->mid[l] + (size_t) slot * conv->c_pad, value, conv->c_pad * sizeof *value);
        return 0;
    }
    uint64_t *mask = (uint64_t *) self->masks.data + (size_t) slot * self->values.n_mask;
    self->kernel->store (value, conv->c_out, conv->c_pad,
                         (char *) self->slots.data + slot * self->values.stride_bytes, mask);
    for (uint32_t m = 0; m < self->values.n_mask; m++)
        words += (uint32_t) __builtin_popcountll (mask[m]);
    return words;
}

/* Phase: the values of layer `step`.  */
static void convolve_rows (void *arg, uint32_t task, uint32_t thread)
{
    wm_sparse_t *self = arg;
    const uint32_t l = self->step;
    const wm_sparse_map_t *map = &self->live[l];
    const wm_sparse_conv_t *conv = &self->conv[l - 1];
    wm_sparse_thread_t *mine = &self->thread[thread];
    uint32_t last = (task + 1) * ROWS < map->n_row ? (task + 1) * ROWS : map->n_row;
    uint32_t slot = map->rank[(size_t) task * ROWS * map->n_word], n = 0;
    uint64_t words = 0;
    for (uint32_t y = task * ROWS; y < last; y++)
        for (uint32_t word = 0; word < map->n_word; word++)
            for (uint64_t bits = map->bit[(size_t) y * map->n_word + word]; bits;
                 bits &= bits - 1) {
                find_spans (self, l, y, word * 64 + (uint32_t) __builtin_ctzll (bits),
                            mine->span + (size_t) n * conv->n_span);
                if (++n < WM_SPARSE_POSITIONS)
                    continue;
                self->kernel->conv (conv, mine->span, mine->value);
                for (uint32_t p = 0; p < n; p++)
                    words += store (self, l, slot++, mine->value + (size_t) p * conv->c_pad);
                n = 0;
            }
    for (uint32_t p = n; p < WM_SPARSE_POSITIONS && n > 0; p++)
        memcpy (mine->span + (size_t) p * conv->n_span, mine->span,
                conv->n_span * sizeof *mine->span);
    if (n > 0)
        self->kernel->conv (conv, mine->span, mine->value);
    for (uint32_t p = 0; p < n; p++)
        words += store (self, l, slot++, mine->value + (size_t) p * conv->c_pad);
    atomic_fetch_add (&self->words, words);
}

static bool reserve_slots (wm_sparse_t *self)
{
    const uint32_t n = self->net.n_conv;
    uint64_t *count = &self->stats.allocations;
    for (uint32_t l = 1; l < n; l++) {
        if (!wm_sparse_reserve (&self->mids[l], self->live[l].count,
                                self->conv[l - 1].c_pad * sizeof (float), count))
            return false;
        self->mid[l] = self->mids[l].data;
    }
    /* One more: that a kernel may read for a column that is not live.  */
    if (!wm_sparse_reserve (&self->slots, self->live[n].count + (size_t) 1,
                            self->values.stride_bytes, count) ||
        !wm_sparse_reserve (&self->masks, self->live[n].count,
                            self->values.n_mask * sizeof (uint64_t), count))
        return false;
    self->values.value = self->slots.data;
    self->values.mask = self->masks.data;
    return true;
}

wm_fault_t wm_sparse_convolve (wm_sparse_t *self, wm_error_t *error)
{
    self->group_cells = self->n_cell - self->group_first;
    for (;;) {
        uint64_t bytes = find_live (self);
        if (bytes > 0 && (bytes <= self->slot_bytes_max || self->group_cells == 1))
            break;
        double share = bytes ? (double) self->slot_bytes_max / (double) bytes : 0.5;
        uint32_t fewer = (uint32_t) (self->group_cells * share * 0.9);
        self->group_cells = fewer > 1 ? fewer : 1;
    }
    if (!reserve_slots (self))
        return wm_fault (error, WM_EAGAIN, "no memory for the values of %u positions",
                         self->live[self->net.n_conv].count);
    atomic_store (&self->words, 0);
    for (self->step = 1; self->step <= self->net.n_conv; self->step++) {
        wm_sparse_pool_run (self->pool, convolve_rows, self,
                            tasks_of (self->live[self->step].n_row));
        self->stats.positions += self->live[self->step].count;
        const wm_sparse_conv_t *conv = &self->conv[self->step - 1];
        if (self->count_madds)
            self->stats.madds +=
                (uint64_t) self->live[self->step].count * conv->n_span * conv->span * conv->c_pad;
    }
    const uint32_t unit = self->kernel->unit;
    double words = (double) self->live[self->net.n_conv].count *
                   ((self->conv[self->net.n_conv - 1].c_out + unit - 1) / unit);
    self->values.full = (double) atomic_load (&self->words) >= self->full_from * words;
    return WM_OK;
}
