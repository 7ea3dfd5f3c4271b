/* wm_sparse_block.c - a group's cells through the roots, block by block.

   The cells are put in the order of a Z-curve, so that a block's patches overlap and their slots
   stay in the L2 cache, and cut into blocks of about equal work. A thread takes a block through all
   positions: per row of positions, per position, the list of cells live there; the weights of one
   position stay in L1 while the list is worked off.  */
#include "kernels/sparse/wm_sparse.h"
#include "schema/base/wm_failpoint.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#define WORK_CELLS 128u /* cells of a task that counts work */

/* Phase: live positions of each cell.  */
static void count_work (void *arg, uint32_t task, uint32_t thread)
{
    wm_sparse_t *self = arg;
    const wm_sparse_map_t *map = &self->live[self->net.n_conv];
    wm_sparse_cell_t *cell = self->cell + self->group_first;
    uint32_t first = task * WORK_CELLS;
    uint32_t last = first + WORK_CELLS < self->group_cells ? first + WORK_CELLS : self->group_cells;
    (void) thread;
    for (uint32_t i = first; i < last; i++) {
        uint32_t end = cell[i].col + self->pos_cols;
        cell[i].work = 0;
        for (uint32_t y = cell[i].row; y < cell[i].row + self->pos_rows; y++)
            cell[i].work +=
                wm_sparse_map_rank (map, y, end) - wm_sparse_map_rank (map, y, cell[i].col);
    }
}

static uint32_t spread (uint32_t x)
{
    x = (x | x << 8) & 0x00ff00ff;
    x = (x | x << 4) & 0x0f0f0f0f;
    x = (x | x << 2) & 0x33333333;
    return (x | x << 1) & 0x55555555;
}

/* Sorts the cells of the group by their place on a Z-curve (radix, stable).  */
static bool sort_cells (wm_sparse_t *self)
{
    const wm_sparse_cell_t *cell = self->cell + self->group_first;
    const uint32_t n = self->group_cells;
    uint32_t shift = 0;
    if (!wm_sparse_reserve (&self->orders, n, sizeof (uint64_t), &self->stats.allocations) ||
        !wm_sparse_reserve (&self->orders2, n, sizeof (uint64_t), &self->stats.allocations))
        return false;
    uint64_t *from = self->orders.data, *to = self->orders2.data;
    while (self->n_row >> shift > UINT16_MAX || self->n_col >> shift > UINT16_MAX)
        shift++;
    for (uint32_t i = 0; i < n; i++)
        from[i] = (uint64_t) (spread (cell[i].row >> shift) << 1 | spread (cell[i].col >> shift))
                      << 32 |
                  i;
    for (unsigned digit = 32; digit < 64; digit += 8) {
        uint32_t at[257] = { 0 };
        for (uint32_t i = 0; i < n; i++)
            at[(from[i] >> digit & 255) + 1]++;
        for (uint32_t d = 0; d < 256; d++)
            at[d + 1] += at[d];
        for (uint32_t i = 0; i < n; i++)
            to[at[from[i] >> digit & 255]++] = from[i];
        uint64_t *swap = from;
        from = to, to = swap;
    }
    self->order = from;
    return true;
}

/* Cuts the ordered cells into blocks: a multiple of the threads, of equal work.  */
static bool cut_blocks (wm_sparse_t *self)
{
    const wm_sparse_cell_t *cell = self->cell + self->group_first;
    const uint32_t n = self->group_cells, fixed = 16; /* positions' worth of work of any cell */
    uint32_t per = self->threads * self->kernel->cells,
             blocks = (n + per - 1) / per * self->threads;
    uint64_t work = 0, done = 0;
    for (uint32_t i = 0; i < n; i++)
        work += cell[i].work + fixed;
    if (!wm_sparse_reserve (&self->blocks, n / self->cells_max + blocks + 2, sizeof (uint32_t),
                            &self->stats.allocations))
        return false;
    self->block_first = self->blocks.data;
    self->block_first[0] = 0;
    self->n_block = 0;
    uint64_t share = (work + blocks - 1) / blocks, next = share;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = self->block_first[self->n_block];
        done += cell[(uint32_t) self->order[i]].work + fixed;
        if (i + 1 < n && done < next && i + 1 - first < self->cells_max)
            continue;
        self->block_first[++self->n_block] = i + 1;
        while (next <= done)
            next += share;
    }
    self->stats.pairs += work - (uint64_t) n * fixed;
    return true;
}

/* ---- one block ------------------------------------------------------------------------------- */

typedef struct {
    wm_sparse_t *self;
    wm_sparse_thread_t *mine;
    const uint64_t *order;
    uint32_t n; /* cells */
} block_t;

/* Loads which of 64 columns of a row of positions are live for each cell. Returns their union.  */
static uint64_t load_masks (const block_t *block, uint32_t row, uint32_t col)
{
    const wm_sparse_t *self = block->self;
    uint32_t left = self->pos_cols - col;
    return self->kernel->masks (&self->live[self->net.n_conv], self->cell + self->group_first,
                                block->order, block->n, row, col,
                                left < 64 ? (UINT64_C (1) << left) - 1 : UINT64_MAX,
                                block->mine->mask, block->mine->slot);
}

static void panel (const block_t *block, uint32_t row, uint32_t col, uint32_t bit)
{
    const wm_sparse_t *self = block->self;
    wm_sparse_thread_t *mine = block->mine;
    wm_sparse_list_t *list = &mine->list;
    self->kernel->list (mine->mask, mine->slot, (block->n + 15) / 16 * 16, bit, list);
    for (uint32_t i = 0; i < WM_SPARSE_AHEAD; i++) {
        list->cell[list->n + i] = list->cell[list->n - 1];
        list->slot[list->n + i] = list->slot[list->n - 1];
    }
    for (uint32_t r = 0; r < self->n_root; r++)
        self->kernel->dense (
            &self->root[r], row * self->panel_cols + (col + bit) / self->kernel->fuse,
            self->conv[self->net.n_conv - 1].c_out, &self->values, list, mine->row, self->stride);
}

/* The totals of a block's cells.  */
static void run_positions (const block_t *block)
{
    const wm_sparse_t *self = block->self;
    const wm_sparse_kernel_t *kernel = self->kernel;
    wm_sparse_thread_t *mine = block->mine;
    const uint64_t wanted = (UINT64_C (1) << kernel->fuse) - 1;
    const size_t floats = (size_t) block->n * self->stride;
    memset (mine->total, 0, floats * sizeof *mine->total);
    if (kernel->fold)
        memset (mine->row, 0, floats * sizeof *mine->row);
    if (kernel->begin)
        kernel->begin ();
    for (uint32_t row = 0; row < self->pos_rows; row++) {
        bool touched = false;
        for (uint32_t col = 0; col < self->pos_cols; col += 64) {
            uint64_t any = load_masks (block, row, col);
            touched |= any != 0;
            for (uint32_t bit = 0; bit < 64; bit += kernel->fuse)
                if (any >> bit & wanted)
                    panel (block, row, col, bit);
        }
        if (touched && kernel->fold)
            kernel->fold (mine->total, mine->row, floats);
    }
    if (kernel->end)
        kernel->end ();
}

/* Phase: the scores of one block.  */
static void run_block (void *arg, uint32_t task, uint32_t thread)
{
    wm_sparse_t *self = arg;
    wm_sparse_thread_t *mine = &self->thread[thread];
    block_t block = {
        .self = self,
        .mine = mine,
        .order = self->order + self->block_first[task],
        .n = self->block_first[task + 1] - self->block_first[task],
    };
    assert (block.n <= self->cells_max); /* a thread's memory holds no more */
    run_positions (&block);
    uint64_t hits = 0;
    for (uint32_t h = 0; h < block.n; h++) {
        uint32_t c = self->group_first + (uint32_t) block.order[h];
        wm_sparse_tail (self, mine->total + (size_t) h * self->stride, mine->tail,
                        self->cell_score + (size_t) c * self->n_output);
        hits += self->cell[c].n_hit;
    }
    WM_FAILPOINT ("engine-hits");
    if (self->progress)
        atomic_fetch_add (self->progress, hits);
}

static uint64_t count_madds (const wm_sparse_t *self)
{
    const wm_sparse_map_t *map = &self->live[self->net.n_conv];
    uint64_t count = 0;
    for (uint32_t i = 0; i < self->group_cells; i++) {
        const wm_sparse_cell_t *cell = self->cell + self->group_first + i;
        for (uint32_t y = cell->row; y < cell->row + self->pos_rows; y++) {
            uint32_t slot = wm_sparse_map_rank (map, y, cell->col);
            uint32_t end = wm_sparse_map_rank (map, y, cell->col + self->pos_cols);
            for (; slot < end; slot++)
                for (uint32_t m = 0; m < self->values.n_mask; m++)
                    count += (uint64_t) __builtin_popcountll (
                        self->values.mask[(size_t) slot * self->values.n_mask + m]);
        }
    }
    uint64_t tail = 0;
    for (uint32_t d = 0; d < self->net.n_dense; d++)
        tail += self->layer[d].weight ? (uint64_t) self->layer[d].n_in * self->layer[d].n_pad : 0;
    return count * self->stride * self->kernel->unit + tail * self->group_cells;
}

wm_fault_t wm_sparse_blocks (wm_sparse_t *self, wm_error_t *error)
{
    wm_sparse_pool_run (self->pool, count_work, self,
                        (self->group_cells + WORK_CELLS - 1) / WORK_CELLS);
    if (!sort_cells (self) || !cut_blocks (self))
        return wm_fault (error, WM_EAGAIN, "no memory to order %u cells", self->group_cells);
    wm_sparse_pool_run (self->pool, run_block, self, self->n_block);
    self->stats.cells += self->group_cells;
    if (self->count_madds)
        self->stats.madds += count_madds (self);
    return WM_OK;
}
