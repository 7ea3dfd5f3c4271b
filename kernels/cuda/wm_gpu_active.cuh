/* wm_gpu_active.cuh - which positions of the convolution are active, and the convolution
   there, in one pass over a plane.

   A warp takes a row of positions. Its lanes look at a column of cells each, once for each row of
   the kernel; two ballots tell which of 64 columns hold anything but the zero level, and shifting
   them by the kernel's columns tells which of 32 positions see such a cell. The active ones get
   neighbouring entries of the list, in the order of columns, and their numbers go to shared memory;
   then a lane takes a position, 8 filters at a time: float32, fused, from the bias on, rows,
   columns ascending. What is stored is relu (sum) - c, where c is what an inactive window gives
   (wm_cuda_pack.c has the formula).

   Where a row lies in the list depends on which warp came first; what an entry holds does not, and
   nothing sums over entries in the order of the list. So no bit depends on it.  */
#ifndef WM_GPU_ACTIVE_CUH
#define WM_GPU_ACTIVE_CUH

#include "kernels/cuda/wm_gpu_warp.cuh"

#define WM_GPU_FILTERS 8u /* that a lane sums at a time */

/* Looks at one cell, whose place in a word of columns is `lane`; where it is not `there`, the zero
   level is.  */
WM_GPU_CODE void wm_gpu_active_cell (const wm_gpu_active_t *args, size_t at, bool there,
                                     bool *touched, bool *bad)
{
    if (!there)
        return;
    const float cell = args->image[at];
    uint32_t bits;
    memcpy (&bits, &cell, sizeof bits);
    *touched = *touched || bits != args->zero;
    *bad = *bad || !(fabsf (cell) <= args->limit);
}

/* Bits of the positions among 32 that see one of 64 columns.  */
WM_GPU_CODE uint32_t wm_gpu_active_spread (uint32_t low, uint32_t high, uint32_t kw)
{
    const uint64_t columns = low | (uint64_t) high << 32;
    uint32_t bits = 0;
    for (uint32_t x = 0; x < kw; x++)
        bits |= (uint32_t) (columns >> x);
    return bits;
}

/* Positions 32 w and on of a row: sets those that are active and those that are bad.  */
WM_GPU_CODE void wm_gpu_active_word (const wm_gpu_active_t *args, wm_gpu_row_t row, uint32_t w,
                                     uint32_t lane, uint32_t *active, uint32_t *bad)
{
    const uint32_t col = 32 * w + lane, cells = row.count + args->kw - 1, rest = row.count - 32 * w;
    const uint32_t all = rest < 32 ? (1u << rest) - 1 : ~0u;
    bool near = false, far = false, near_bad = false, far_bad = false;
    for (uint32_t y = 0; y < args->kh; y++) {
        const size_t at = row.from + (size_t) y * row.stride + col;
        wm_gpu_active_cell (args, at, col < cells, &near, &near_bad);
        wm_gpu_active_cell (args, at + 32, lane < args->kw - 1 && col + 32 < cells, &far, &far_bad);
    }
    const uint32_t low = wm_gpu_ballot (near), high = wm_gpu_ballot (far);
    const uint32_t low_bad = wm_gpu_ballot (near_bad), high_bad = wm_gpu_ballot (far_bad);
    *bad = wm_gpu_active_spread (low_bad, high_bad, args->kw) & all;
    *active = (wm_gpu_active_spread (low, high, args->kw) & all) | *bad;
}

/* Finds the active positions of a row and gives them entries; columns (32 words of them) is the
   warp's. Returns the first entry, and sets how many there are.  */
WM_GPU_CODE uint32_t wm_gpu_active_find (const wm_gpu_active_t *args, wm_gpu_row_t row,
                                         uint16_t *columns, uint32_t lane, uint32_t *count)
{
    uint32_t mine = 0, mine_bad = 0, before = 0; /* of word `lane` */
    *count = 0;
    for (uint32_t w = 0; w * 32 < row.count; w++) {
        uint32_t active, bad;
        const uint32_t col = 32 * w + lane;
        wm_gpu_active_word (args, row, w, lane, &active, &bad);
        if (lane == w)
            mine = active, mine_bad = bad, before = *count;
        if (active >> lane & 1)
            columns[*count + wm_gpu_count (active & ((1u << lane) - 1))] =
                (uint16_t) (col | (bad >> lane & 1 ? WM_GPU_ROW_MAX : 0));
        *count += wm_gpu_count (active);
    }
    uint32_t first = 0;
    if (lane == 0 && *count > 0)
        first = wm_gpu_add (args->used, *count);
    first = wm_gpu_first (first); /* and all columns are written */
    if (lane * 32 < row.count) {
        args->active[row.to + lane] = mine;
        if (mine)
            args->index[row.to + lane] = (first + before) | (mine_bad ? WM_GPU_BAD : 0);
        if (mine_bad)
            args->bad[row.to + lane] = mine_bad;
    }
    return first;
}

/* Stores 8 values of an entry, from filter `filter` on, 16 bytes at a time.  */
WM_GPU_CODE void wm_gpu_active_store (const wm_gpu_active_t *args, size_t entry, uint32_t filter,
                                      const float value[WM_GPU_FILTERS])
{
    const uint32_t part = args->c_out * 2; /* bytes of an entry's halves */
    char *to = args->value + entry * args->entry_bytes + (size_t) filter * 2;
    uint32_t high[4], low[4];
    if (args->form == WM_GPU_FLOATS) {
        wm_gpu_write16 (to + (size_t) filter * 2, value);
        wm_gpu_write16 (to + (size_t) filter * 2 + 16, value + 4);
        return;
    }
    for (uint32_t i = 0; i < WM_GPU_FILTERS / 2; i++) {
        const float x = value[2 * i] * args->scale, y = value[2 * i + 1] * args->scale;
        const uint16_t a = wm_half (x), b = wm_half (y);
        high[i] = a | (uint32_t) b << 16;
        low[i] = wm_half (x - wm_half_value (a)) | (uint32_t) wm_half (y - wm_half_value (b)) << 16;
    }
    wm_gpu_write16 (to, high);
    if (args->form == WM_GPU_HALVES_TWICE)
        wm_gpu_write16 (to + part, low);
}

/* The convolution at one position, all filters; zeros at a bad one.  */
WM_GPU_CODE void wm_gpu_active_convolve (const wm_gpu_active_t *args, const float *cell, bool bad,
                                         uint32_t stride, size_t entry)
{
    for (uint32_t f = 0; f < args->c_out; f += WM_GPU_FILTERS) {
        float sum[WM_GPU_FILTERS], weight[WM_GPU_FILTERS];
        const float *from = args->weight + f;
        wm_gpu_read32 (sum, args->bias + f);
        for (uint32_t y = 0; y < args->kh; y++)
            for (uint32_t x = 0; x < args->kw; x++, from += args->c_out) {
                const float value = cell[(size_t) y * stride + x];
                wm_gpu_read32 (weight, from);
                WM_GPU_UNROLL
                for (uint32_t i = 0; i < WM_GPU_FILTERS; i++)
                    sum[i] = fmaf (value, weight[i], sum[i]);
            }
        wm_gpu_read32 (weight, args->constant + f);
        WM_GPU_UNROLL
        for (uint32_t i = 0; i < WM_GPU_FILTERS; i++)
            sum[i] = bad ? 0 : (args->relu && sum[i] < 0 ? 0 : sum[i]) - weight[i];
        wm_gpu_active_store (args, entry, f, sum);
    }
}

WM_GPU_CODE void wm_gpu_active (const wm_gpu_active_t *args, float *shared, wm_gpu_at_t at)
{
    const uint32_t lane = at.thread % 32, warp = at.thread / 32,
                   r = at.block * (at.threads / 32) + warp;
    if (r >= args->n_row) /* a whole warp */
        return;
    const wm_gpu_row_t row = args->row[r];
    uint16_t *columns = (uint16_t *) shared + (size_t) warp * WM_GPU_ROW_MAX;
    uint32_t count;
    const uint32_t first = wm_gpu_active_find (args, row, columns, lane, &count);
    for (uint32_t i = lane; i < count; i += 32)
        wm_gpu_active_convolve (args, args->image + row.from + (columns[i] & (WM_GPU_ROW_MAX - 1)),
                                columns[i] & WM_GPU_ROW_MAX, row.stride, (size_t) first + i);
}

#endif
