/* wm_gpu_fake_order.c - vector clocks of streams, and which arguments kernels write to.  */
#include "tests/standin/wm_gpu_fake_order.h"
#include "kernels/gpu/wm_gpu_args.h"

#define WRITTEN_MAX 5

/* Offsets + 1, so that 0 is none.  */
#define AT(type, member) (offsetof (type, member) + 1)
static const size_t written[WM_GPU_KERNELS][WRITTEN_MAX] = {
    [WM_GPU_FILL] = { AT (wm_gpu_fill_t, to) },
    [WM_GPU_SCATTER] = { AT (wm_gpu_scatter_t, image) },
    [WM_GPU_WINDOW] = { AT (wm_gpu_window_t, to) },
    [WM_GPU_TAIL] = { AT (wm_gpu_tail_t, scores), AT (wm_gpu_tail_t, residual) },
    [WM_GPU_PHASES] = { AT (wm_gpu_phases_t, image) },
    [WM_GPU_CUT] = { AT (wm_gpu_cut_t, image) },
    [WM_GPU_COPY] = { AT (wm_gpu_copy_t, to), AT (wm_gpu_copy_t, checks.flag),
                      AT (wm_gpu_copy_t, checks.doubt) },
    [WM_GPU_SPREAD] = { AT (wm_gpu_spread_t, value) },
    [WM_GPU_POOL] = { AT (wm_gpu_pool_t, to), AT (wm_gpu_pool_t, checks.flag),
                      AT (wm_gpu_pool_t, checks.doubt) },
    [WM_GPU_JOIN] = { AT (wm_gpu_join_t, to), AT (wm_gpu_join_t, checks.flag),
                      AT (wm_gpu_join_t, checks.doubt) },
    [WM_GPU_SCAN] = { AT (wm_gpu_scan_t, held), AT (wm_gpu_scan_t, doubt) },
    [WM_GPU_ACTIVE] = { AT (wm_gpu_active_t, active), AT (wm_gpu_active_t, bad),
                        AT (wm_gpu_active_t, index), AT (wm_gpu_active_t, used),
                        AT (wm_gpu_active_t, value) },
    [WM_GPU_DENSE] = { AT (wm_gpu_dense_t, sum) },
    [WM_GPU_DENSE_SPLIT] = { AT (wm_gpu_dense_t, sum) },
    [WM_GPU_DENSE_FMA] = { AT (wm_gpu_dense_t, sum) },
    [WM_GPU_DENSE_WIDE] = { AT (wm_gpu_dense_t, sum) },
    [WM_GPU_DENSE_WIDE_SPLIT] = { AT (wm_gpu_dense_t, sum) },
};

void fake_order_begin (fake_order_t *self, uint32_t stream)
{
    fake_order_join (&self->stream[stream], &self->host);
    self->stream[stream].ended[stream]++;
}

bool fake_order_use (const fake_order_t *self, uint32_t stream, fake_use_t *use, bool writes)
{
    const fake_clock_t *clock = &self->stream[stream];
    bool ordered = use->written <= clock->ended[use->writer];
    for (uint32_t s = 0; s < FAKE_STREAMS_MAX && writes; s++)
        ordered &= use->read[s] <= clock->ended[s];
    if (writes)
        use->written = clock->ended[stream], use->writer = stream;
    else
        use->read[stream] = clock->ended[stream];
    return ordered;
}

void fake_order_join (fake_clock_t *to, const fake_clock_t *clock)
{
    for (uint32_t s = 0; s < FAKE_STREAMS_MAX; s++)
        if (to->ended[s] < clock->ended[s])
            to->ended[s] = clock->ended[s];
}

bool fake_order_writes (wm_gpu_kernel_t kernel, size_t offset)
{
    bool writes = false;
    for (int i = 0; i < WRITTEN_MAX; i++)
        writes |= written[kernel][i] == offset + 1;
    return writes;
}
