/* wm_test_patches.c - see wm_test_patches.h.  */
#include "kernels/model/wm_test_patches.h"
#include "kernels/model/wm_seed.h"

static double draw_below (uint64_t *state, double limit)
{
    return (double) (wm_seed_next (state) >> 11) * 0x1p-53 * limit;
}

/* A straight track: along the rows at a slope, two or three bins wide, up to 15 high.  */
static void draw_track (uint64_t *state, const wm_net_t *net, float zero, float unit, float *patch)
{
    double column = draw_below (state, net->width), slope = draw_below (state, 3) - 1.5;
    uint32_t first = (uint32_t) draw_below (state, net->height),
             length = (uint32_t) draw_below (state, net->height) + 1;
    for (uint32_t row = first; row < net->height && row < first + length; row++) {
        double at = column + slope * (row - first);
        for (int side = -1; side <= 1; side++) {
            double x = at + side, height = draw_below (state, side ? 6 : 15);
            if (x < 0 || x >= net->width)
                continue;
            float *cell = patch + ((size_t) row * net->width + (uint32_t) x) * net->channel;
            for (uint32_t c = 0; c < net->channel; c++)
                cell[c] = zero + unit * (float) height;
        }
    }
}

void wm_test_patches_draw (uint64_t *state, const wm_net_t *net, float zero, float unit,
                           float *patch)
{
    size_t n = (size_t) net->height * net->width * net->channel;
    for (size_t i = 0; i < n; i++)
        patch[i] = zero;
    for (uint64_t tracks = 1 + wm_seed_next (state) % 4; tracks > 0; tracks--)
        draw_track (state, net, zero, unit, patch);
    for (size_t i = 0; i < n / 50; i++) {
        float *cell = patch + wm_seed_next (state) % n;
        *cell = zero + unit * (float) (draw_below (state, 2) - 1);
    }
}
