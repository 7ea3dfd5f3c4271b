/* wm_gpu_fake_count.c - what our kernels do: bytes that they write to the device's memory, floating
   point operations, bytes that Dense-1 asks of the L2 cache. Counted from a launch's arguments and
   from what it left in memory, so it holds for a GPU, too. The kernels for any CNN count each
   access themselves.  */
#include "tests/standin/wm_gpu_fake_count.h"
#include "kernels/gpu/wm_gpu_any.cuh"
#include "kernels/gpu/wm_gpu_wide.cuh"

/* Entries of the list and words of the maps that a launch of `active` made.  */
static void count_active (const wm_gpu_active_t *args, uint32_t used_before,
                          wm_gpu_fake_work_t *work)
{
    const double entries = *args->used - used_before;
    for (uint32_t r = 0; r < args->n_row; r++)
        for (uint32_t w = 0; w * 32 < args->row[r].count; w++)
            work->written += args->active[args->row[r].to + w] ? 8 : 4;
    work->written += entries * args->entry_bytes;
    work->flop += entries * 2 * args->kh * args->kw * args->c_out;
}

/* One row of the windows of a tile: its segments that 8 hits read, and bytes of values.  */
static void count_row (const wm_gpu_dense_t *args, uint32_t tile, uint32_t row, bool wide,
                       double *groups, double *panels, double *value_bytes)
{
    uint64_t any = 0, live[32] = { 0 }; /* of 8 hits each */
    for (uint32_t i = 0; i < args->tile; i++) {
        const uint32_t hit = args->hit[tile * args->tile + i];
        if (hit == WM_GPU_NO_PATCH)
            continue;
        const uint64_t bits = wm_gpu_bits (args->active + hit / 32 + (size_t) row * args->n_word,
                                           hit % 32, args->patch_col);
        live[i / 8] |= bits, any |= bits;
        *value_bytes += wm_gpu_count (bits) * (double) args->entry_bytes;
    }
    for (uint32_t s = 0; s < args->segments; s++) {
        const uint32_t from = s * WM_GPU_CHUNKS / args->position_chunks,
                       last = (s * WM_GPU_CHUNKS + WM_GPU_CHUNKS - 1) / args->position_chunks;
        const uint64_t range =
            ~UINT64_C (0) << from & (~UINT64_C (0) >> (63 - (last < 63 ? last : 63)));
        *panels += wide || (any & range) != 0;
        for (uint32_t g = 0; g < args->tile / 8; g++)
            *groups += wide || (live[g] & range) != 0;
    }
}

uint32_t wm_gpu_fake_bands (const wm_gpu_dense_t *args, wm_gpu_kernel_t kernel)
{
    return kernel == WM_GPU_DENSE_FMA ? args->patch_row : args->bands;
}

static void count_dense (const wm_gpu_dense_t *args, wm_gpu_kernel_t kernel, uint32_t tiles,
                         wm_gpu_fake_work_t *work)
{
    const bool wide = kernel == WM_GPU_DENSE_WIDE || kernel == WM_GPU_DENSE_WIDE_SPLIT,
               split = kernel == WM_GPU_DENSE_SPLIT || kernel == WM_GPU_DENSE_WIDE_SPLIT,
               fma = kernel == WM_GPU_DENSE_FMA;
    const double step = 9. * 16 * 8 * 16 * 2; /* 8 tiles of outputs and the checksum's */
    double groups = 0, panels = 0, value_bytes = 0;
    tiles /= args->bands;
    for (; tiles > 0 && args->hit[(tiles - 1) * args->tile] == WM_GPU_NO_PATCH; tiles--)
        ; /* these blocks do nothing */
    for (uint32_t t = 0; t < tiles; t++)
        for (uint32_t row = 0; row < args->patch_row; row++)
            count_row (args, t, row, wide, &groups, &panels, &value_bytes);
    work->flop += groups * (fma     ? 8. * WM_GPU_SEGMENT / 4 * (WM_GPU_OUTPUTS + 3) * 2
                            : split ? 3 * WM_GPU_STEPS * step
                                    : WM_GPU_STEPS * step);
    work->l2 += panels * (split ? 2 : 1) * (double) WM_GPU_PANEL + value_bytes;
    work->written += (double) tiles * wm_gpu_fake_bands (args, kernel) * args->tile *
                     (WM_GPU_OUTPUTS + 3) * sizeof (float);
}

static void count_tail (const wm_gpu_tail_t *args, wm_gpu_fake_work_t *work)
{
    for (uint32_t i = 0; i < args->n_hit; i++) {
        if (args->hit[i] == WM_GPU_NO_PATCH)
            continue;
        work->written += (args->n_output + 1) * sizeof (float);
        for (uint32_t l = 0; l < args->n_layer; l++)
            work->flop +=
                2. * args->layer[l].n_out * (args->layer[l].n_in ? args->layer[l].n_in : 1);
    }
}

static wm_gpu_kernel_t running;

void wm_gpu_fake_count_for (wm_gpu_kernel_t kernel)
{
    running = kernel;
}

void wm_gpu_access (const void *p, uint32_t bytes, bool writes)
{
    wm_gpu_fake_work_t *work = &wm_gpu_fake.work[running];
    *(writes ? &work->written : &work->read) += bytes;
    work->accesses++;
    work->wide += bytes == 16;
    wm_gpu_fake.misaligned += bytes <= 16 && (uintptr_t) p % (bytes & -bytes) != 0;
}

void wm_gpu_fake_count (const wm_gpu_launch_t *launch, const void *args, uint32_t used_before)
{
    wm_gpu_fake_work_t *work = &wm_gpu_fake.work[launch->kernel];
    work->launches++;
    if (launch->kernel == WM_GPU_FILL)
        work->written += ((const wm_gpu_fill_t *) args)->count * sizeof (float);
    else if (launch->kernel == WM_GPU_SCATTER) {
        const wm_gpu_scatter_t *runs = args;
        work->written += runs->run_value[runs->n_run] * sizeof (float);
    } else if (launch->kernel == WM_GPU_ACTIVE)
        count_active (args, used_before, work);
    else if (launch->kernel >= WM_GPU_DENSE)
        count_dense (args, launch->kernel, launch->blocks, work);
    else if (launch->kernel == WM_GPU_TAIL)
        count_tail (args, work);
}
