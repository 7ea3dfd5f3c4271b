/* wm_gpu_active.cuh - which positions of the convolution are active, and the convolution
   there, in one pass over a plane.

   A warp takes a row of positions. Its lanes look at a column of cells each, once for each row of
   the kernel; two ballots tell which of 64 columns hold anything but the zero level, and shifting
   them by the kernel's columns shows which of 32 positions see such a cell. The active ones get
   neighbouring entries of the list, in the order of columns, and their numbers go to shared memory;
   then the block's threads share what its warps found, 8 filters of a position each, so that
   lanes beside each other write one entry: float32, fused, from the bias on, rows, columns
   ascending. What is stored is relu (sum) - r, where r is 0 or what an inactive window gives
   (wm_cuda_pack.c has the formula).

   Where a row lies in the list depends on which warp came first; what an entry holds does not, and
   nothing sums over entries in the order of the list. So no bit depends on it.  */
#ifndef WM_GPU_ACTIVE_CUH
#define WM_GPU_ACTIVE_CUH

#include "kernels/gpu/wm_gpu_warp.cuh"

#define WM_GPU_FILTERS 8u                /* that a lane sums at a time */
#define WM_GPU_WEIGHTS_MAX (16u << 10) /* bytes of weights that are kept in shared memory */

/* Looks at cells of a column, one for each row of the kernel; where they are not `there`, the zero
   level is.  */
WM_GPU_CODE void wm_gpu_active_cells (const wm_gpu_active_t *args, const float *cell,
                                      uint32_t stride, uint32_t kh, bool there, bool *touched,
                                      bool *bad)
{
    WM_GPU_UNROLL
    for (uint32_t y = 0; y < kh; y++) { /* all are loaded before the first is looked at */
        float zero;
        memcpy (&zero, &args->zero, sizeof zero);
        const float value = there ? cell[(size_t) y * stride] : zero;
        uint32_t bits;
        memcpy (&bits, &value, sizeof bits);
        *touched |= bits != args->zero;
        *bad |= there && !(fabsf (value) <= args->limit);
    }
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
    const float *cell = args->image + row.from + col;
    const bool here = col < cells, beside = lane < args->kw - 1 && col + 32 < cells;
    bool near = false, far = false, near_bad = false, far_bad = false;
    if (args->kh == 5) { /* the usual one, as straight code */
        wm_gpu_active_cells (args, cell, row.stride, 5, here, &near, &near_bad);
        wm_gpu_active_cells (args, cell + 32, row.stride, 5, beside, &far, &far_bad);
    } else {
        wm_gpu_active_cells (args, cell, row.stride, args->kh, here, &near, &near_bad);
        wm_gpu_active_cells (args, cell + 32, row.stride, args->kh, beside, &far, &far_bad);
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
    bool any_bad = false;
    const bool clears = args->form != WM_GPU_FLOATS;
    *count = 0;
    for (uint32_t w = 0; w * 32 < row.count; w++) {
        uint32_t active, bad;
        const uint32_t col = 32 * w + lane;
        wm_gpu_active_word (args, row, w, lane, &active, &bad);
        if (lane == w)
            mine = active, mine_bad = bad, before = *count;
        if (active >> lane & 1)
            columns[*count + wm_gpu_count (active & ((1u << lane) - 1))] =
                (uint16_t) (col | (bad >> lane & 1 & clears ? WM_GPU_ROW_MAX : 0));
        *count += wm_gpu_count (active);
        any_bad |= bad != 0;
    }
    uint32_t first = 0;
    if (lane == 0 && *count > 0)
        first = wm_gpu_add (args->used, *count);
    if (lane == 0 && any_bad)
        wm_gpu_add (args->used + 1, 1);
    first = wm_gpu_first (first); /* and all columns are written */
    if (lane * 32 < row.count) {
        args->active[row.to + lane] = mine;
        if (mine)
            args->index[row.to + lane] = (first + before) | (mine_bad ? WM_GPU_BAD : 0);
        if (mine_bad)
            args->bad[row.to + lane] = mine_bad;
    }
    const float lead[4] = { 1, 0, 0, 0 };
    for (uint32_t k = lane; args->lead && k < *count; k += 32)
        wm_gpu_write16 (args->value + ((size_t) first + k) * args->entry_bytes - WM_GPU_LEAD, lead);
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

/* Sums 8 filters at a position: from the bias on, rows, columns ascending. `weight` is those
   filters' of the first cell.  */
WM_GPU_CODE void wm_gpu_active_sum (const wm_gpu_active_t *args, const float *cell, uint32_t stride,
                                    const float *weight, uint32_t kh, uint32_t kw,
                                    float sum[WM_GPU_FILTERS])
{
    WM_GPU_NO_UNROLL
    for (uint32_t y = 0; y < kh; y++) {
        WM_GPU_UNROLL
        for (uint32_t x = 0; x < kw; x++) {
            const float value = cell[(size_t) y * stride + x];
            float w[WM_GPU_FILTERS];
            memcpy (w, __builtin_assume_aligned (weight + (y * kw + x) * args->c_out, 16),
                    sizeof w);
            WM_GPU_UNROLL
            for (uint32_t i = 0; i < WM_GPU_FILTERS; i++)
                sum[i] = fmaf (value, w[i], sum[i]);
        }
    }
}

/* The convolution at one position, 8 filters from `filter` on; in halves zeros at a bad one.
   shared: NULL where the weights are not in shared memory.  */
WM_GPU_CODE void wm_gpu_active_convolve (const wm_gpu_active_t *args, const float *shared,
                                         const float *cell, bool bad, uint32_t stride,
                                         uint32_t filter, size_t entry)
{
    float sum[WM_GPU_FILTERS], reference[WM_GPU_FILTERS];
    wm_gpu_read32 (sum, args->bias + filter);
    wm_gpu_read32 (reference, args->reference + filter);
    if (shared && args->kh == 5 && args->kw == 5) /* the usual one, as straight code */
        wm_gpu_active_sum (args, cell, stride, shared + filter, 5, 5, sum);
    else
        wm_gpu_active_sum (args, cell, stride, (shared ? shared : args->weight) + filter, args->kh,
                           args->kw, sum);
    WM_GPU_UNROLL
    for (uint32_t i = 0; i < WM_GPU_FILTERS; i++)
        sum[i] = bad ? 0 : (args->relu && sum[i] < 0 ? 0 : sum[i]) - reference[i];
    wm_gpu_active_store (args, entry, filter, sum);
}

/* Floats of weights in shared memory, where they are not too many.  */
WM_GPU_CODE uint32_t wm_gpu_active_weights (const wm_gpu_active_t *args)
{
    const uint32_t n = args->kh * args->kw * args->c_out;
    return n * sizeof (float) <= WM_GPU_WEIGHTS_MAX ? n : 0;
}

/* Bytes of shared memory that a block of `threads` takes: weights, then for each warp how many
   positions it found, their first entry, and their columns.  */
WM_GPU_CODE uint32_t wm_gpu_active_bytes (const wm_gpu_active_t *args, uint32_t threads)
{
    return wm_gpu_active_weights (args) * (uint32_t) sizeof (float) +
           threads / 32 * (8 + WM_GPU_ROW_MAX * (uint32_t) sizeof (uint16_t));
}

/* Row `warp` of a block: blocks take rows that are far apart, so that each has some of those with
   much in them.  */
WM_GPU_CODE uint32_t wm_gpu_active_row (wm_gpu_at_t at, uint32_t warp)
{
    return warp * at.blocks + at.block;
}

WM_GPU_CODE void wm_gpu_active (const wm_gpu_active_t *args, float *shared, wm_gpu_at_t at)
{
    const uint32_t lane = at.thread % 32, warp = at.thread / 32, warps = at.threads / 32,
                   r = wm_gpu_active_row (at, warp), n = wm_gpu_active_weights (args),
                   octets = args->c_out / WM_GPU_FILTERS;
    uint32_t *count = (uint32_t *) (shared + n), *first = count + warps;
    uint16_t *columns = (uint16_t *) (first + warps);
    for (uint32_t i = at.thread; i < n; i += at.threads)
        shared[i] = args->weight[i];
    uint32_t mine = 0, entry = 0;
    if (r < args->n_row) /* a whole warp */
        entry = wm_gpu_active_find (args, args->row[r], columns + (size_t) warp * WM_GPU_ROW_MAX,
                                    lane, &mine);
    if (lane == 0)
        count[warp] = mine, first[warp] = entry;
    wm_gpu_meet ();
    for (uint32_t i = at.thread, w = 0, before = 0; w < warps; i += at.threads) {
        while (w < warps && i - before >= count[w] * octets)
            before += count[w++] * octets;
        if (w == warps)
            break;
        const uint32_t k = (i - before) / octets, filter = (i - before) % octets * WM_GPU_FILTERS,
                       column = columns[w * WM_GPU_ROW_MAX + k];
        const wm_gpu_row_t row = args->row[wm_gpu_active_row (at, w)];
        const float *cell = args->image + row.from + (column & (WM_GPU_ROW_MAX - 1));
        const bool bad = column & WM_GPU_ROW_MAX;
        wm_gpu_active_convolve (args, n > 0 ? shared : NULL, cell, bad, row.stride, filter,
                                (size_t) first[w] + k);
    }
}

#endif
