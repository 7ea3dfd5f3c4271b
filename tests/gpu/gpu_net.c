/* gpu_net.c - seeded networks of the family and seeded planes.  */
#include "tests/gpu/gpu_net.h"
#include "kernels/judge/wm_reference.h"
#include "kernels/model/wm_seed.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const gpu_shape_t gpu_shape_real = { 48, 48, 1, 1, { 48 }, { 5 }, 128, 32, 1, false };

/* ---- networks -------------------------------------------------------------------------------- */

static double uniform (uint64_t *seed)
{
    return (double) (wm_seed_next (seed) >> 11) * 0x1p-53;
}

/* Nearly normal: the sum of four uniform numbers.  */
static float *draw (uint64_t *seed, size_t n, double scale)
{
    float *x = aligned_alloc (64, (n * sizeof *x + 63) / 64 * 64);
    assert (x);
    for (size_t i = 0; i < n; i++) {
        double sum = -2;
        for (int k = 0; k < 4; k++)
            sum += uniform (seed);
        x[i] = (float) (sum * sqrt (3) * scale);
    }
    return x;
}

static wm_dense_t dense (uint64_t *seed, int32_t parent, uint32_t n_in, uint32_t n_out,
                         wm_act_t act, int32_t output, double gain, double bias)
{
    return (wm_dense_t){ parent,
                         n_in,
                         n_out,
                         act,
                         0,
                         output,
                         draw (seed, (size_t) n_in * n_out, gain / sqrt (n_in)),
                         draw (seed, n_out, bias) };
}

wm_net_t *gpu_net_new (const gpu_shape_t *shape, uint64_t seed)
{
    wm_net_t *net = calloc (1, sizeof *net);
    assert (net);
    uint32_t h = shape->height, w = shape->width, c = shape->channel;
    *net = (wm_net_t){ .height = h, .width = w, .channel = c, .n_conv = shape->n_conv };
    for (uint32_t i = 0; i < shape->n_conv; i++) {
        uint32_t k = shape->kernel[i], n = shape->filters[i];
        net->conv[i] = (wm_conv_t){ k,
                                    k,
                                    c,
                                    n,
                                    WM_ACT_RELU,
                                    0,
                                    draw (&seed, (size_t) k * k * c * n, i ? 0.2 : 0.06),
                                    draw (&seed, n, 0.05) };
        h -= k - 1, w -= k - 1, c = n;
    }
    const uint32_t flat = h * w * c;
    net->n_dense = 4;
    net->dense[0] = dense (&seed, -1, flat, shape->first, WM_ACT_RELU, -1, 0.76, 0.1);
    net->dense[1] = dense (&seed, 0, shape->first, shape->second, WM_ACT_RELU, -1, 1.47, 0.1);
    net->dense[2] =
        dense (&seed, 1, shape->second, 3, WM_ACT_SOFTMAX, 0, 2.26 * shape->logits, 0.3);
    net->dense[3] = shape->two_roots ? dense (&seed, -1, flat, 1, WM_ACT_SIGMOID, 3, 2.26, 0.3)
                                     : dense (&seed, 1, shape->second, 1, WM_ACT_SIGMOID, 3,
                                              2.26 * shape->logits, 0.3);
    return net;
}

void gpu_net_destroy (wm_net_t **self_p)
{
    wm_net_t *self = *self_p;
    if (!self)
        return;
    for (uint32_t i = 0; i < self->n_conv; i++) {
        free ((void *) self->conv[i].weight);
        free ((void *) self->conv[i].bias);
    }
    for (uint32_t i = 0; i < self->n_dense; i++) {
        free ((void *) self->dense[i].weight);
        free ((void *) self->dense[i].bias);
    }
    free (self);
    *self_p = NULL;
}

/* ---- planes ---------------------------------------------------------------------------------- */

wm_spec_t gpu_spec (const wm_net_t *net, bool odd, wm_spec_view_t view)
{
    return (wm_spec_t){ .patch_wire = net->height,
                        .patch_bin = net->width,
                        .drift_window = 6,
                        .downscale = WM_MEAN,
                        .view = view,
                        .adc_min = odd ? -10 : 0,
                        .adc_max = odd ? 30 : 40,
                        .out_min = 0,
                        .out_max = odd ? 2 : 4,
                        .n_amplitude = 1,
                        .amplitude = { 1 },
                        .tau_us = NAN,
                        .t0_us = 0,
                        .tick_us = NAN,
                        .trigger_offset = NAN };
}

static void *array (size_t n)
{
    void *p = calloc (n + 1, sizeof (uint32_t));
    assert (p);
    return p;
}

/* Straight tracks into an image of 0; a hit on each of their wires.  */
static uint32_t draw_tracks (float *image, const wm_batch_t *batch, uint32_t n_hit, uint32_t spread,
                             int32_t *place, uint64_t *seed)
{
    uint32_t n = 0;
    while (n < n_hit) {
        double col = uniform (seed) * batch->n_col, slope = (uniform (seed) - 0.5) * 4 * spread;
        uint32_t wire = (uint32_t) (uniform (seed) * batch->n_wire),
                 end = wire + 20 + (uint32_t) (uniform (seed) * 400);
        for (; wire < end && wire < batch->n_wire && n < n_hit; wire++, col += slope) {
            if (col < 2 * spread || col > batch->n_col - 2.0 * spread)
                break;
            for (uint32_t b = (uint32_t) col - spread; b < (uint32_t) col + 2 * spread; b++)
                image[(size_t) wire * batch->n_col + b] += (float) (0.3 + 3 * uniform (seed));
            place[2 * n] = (int32_t) wire, place[2 * n + 1] = (int32_t) col;
            n++;
        }
    }
    return n;
}

static int by_place (const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* The image's cells that are not 0, as runs.  */
static void find_runs (wm_batch_t *b, const float *image)
{
    for (uint32_t w = 0; w < b->n_wire; w++)
        for (uint32_t c = 0; c < b->n_col; c++) {
            float v = image[(size_t) w * b->n_col + c];
            if (v == 0)
                continue;
            if (c == 0 || image[(size_t) w * b->n_col + c - 1] == 0) {
                b->run_wire[b->n_run] = w, b->run_first[b->n_run] = c;
                b->run_length[b->n_run++] = 0;
            }
            b->run_length[b->n_run - 1]++;
            b->value[b->n_value++] = v;
        }
}

void gpu_plane_new (wm_batch_t *b, const wm_spec_t *spec, uint32_t n_wire, uint32_t n_col,
                    uint32_t n_hit, uint64_t seed)
{
    const bool own = spec->view == WM_OWN_VIEW;
    const uint32_t spread = own ? spec->drift_window : 1;
    *b = (wm_batch_t){ .kind = own ? WM_BATCH_TICKS : WM_BATCH_BINS, .n_hit = n_hit };
    b->n_wire = n_wire, b->n_col = n_col * spread;
    const size_t cells = (size_t) n_wire * b->n_col;
    float *image = array (cells);
    int32_t *place = array (2 * (size_t) n_hit);
    b->run_wire = array (cells), b->run_first = array (cells), b->run_length = array (cells);
    b->value = array (cells), b->hit_wire = array (n_hit), b->hit_col = array (n_hit);
    draw_tracks (image, b, n_hit, spread, place, &seed);
    find_runs (b, image);
    const int32_t edge[][2] = { { 0, 0 },
                                { 0, -3 },
                                { 0, -100000 },
                                { (int32_t) n_wire - 1, (int32_t) b->n_col - 1 },
                                { (int32_t) n_wire - 1, (int32_t) b->n_col + 5 },
                                { (int32_t) n_wire - 1, 1 << 30 },
                                { (int32_t) n_wire / 2, -(int32_t) spec->patch_bin } };
    for (uint32_t i = 0; i < sizeof edge / sizeof *edge && i < n_hit; i++)
        memcpy (place + 2 * (size_t) i, edge[i], sizeof edge[i]);
    for (uint32_t i = 10; i + 1 < n_hit; i += 17) /* some cells have two hits */
        memcpy (place + 2 * (size_t) i, place + 2 * (size_t) i + 2, 2 * sizeof *place);
    qsort (place, n_hit, 2 * sizeof *place, by_place);
    for (uint32_t i = 0; i < n_hit; i++) {
        b->hit_wire[i] = (uint32_t) place[2 * (size_t) i];
        b->hit_col[i] = place[2 * (size_t) i + 1];
    }
    free (image);
    free (place);
}

void gpu_plane_free (wm_batch_t *b)
{
    void *columns[] = {
        b->run_wire, b->run_first, b->run_length, b->value, b->hit_wire, b->hit_col
    };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        free (columns[i]);
    memset (b, 0, sizeof *b);
}

wm_batch_t gpu_patches (const wm_net_t *net, const wm_spec_t *spec, const wm_batch_t *plane)
{
    const uint32_t n = net->height * net->width;
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES, .n_hit = plane->n_hit, .patch_values = n };
    batch.patch = array ((size_t) n * plane->n_hit);
    for (uint32_t i = 0; i < plane->n_hit; i++)
        wm_image_patch_reference (spec, plane, i, batch.patch + (size_t) i * n);
    return batch;
}

wm_batch_t gpu_slice (const wm_batch_t *batch, uint32_t first, uint32_t count)
{
    wm_batch_t part = *batch;
    part.n_hit = count;
    if (batch->kind == WM_BATCH_PATCHES)
        part.patch += (size_t) first * batch->patch_values;
    else {
        part.hit_wire += (size_t) first * wm_batch_cells (batch);
        part.hit_col += (size_t) first * wm_batch_cells (batch);
    }
    return part;
}

void gpu_judge (const wm_net_t *net, const wm_spec_t *spec, const wm_batch_t *batch, uint32_t hit,
                float *scores)
{
    const size_t n = (size_t) net->height * net->width * net->channel;
    float *patch = array (n);
    if (batch->kind == WM_BATCH_PATCHES)
        memcpy (patch, batch->patch + hit * n, n * sizeof *patch);
    else
        wm_image_patch_reference (spec, batch, hit, patch);
    wm_reference_t *reference = wm_reference_new (net);
    assert (reference);
    wm_reference_run (reference, patch, 1, scores, GPU_OUTPUTS);
    wm_reference_destroy (&reference);
    free (patch);
}

double gpu_worst (const wm_net_t *net, const wm_spec_t *spec, const wm_batch_t *batch,
                  const float *scores, uint32_t step)
{
    double worst = 0;
    for (uint32_t i = 0; i < batch->n_hit; i += step) {
        float want[GPU_OUTPUTS];
        gpu_judge (net, spec, batch, i, want);
        for (uint32_t k = 0; k < GPU_OUTPUTS; k++) {
            double d = fabs ((double) scores[(size_t) i * GPU_OUTPUTS + k] - (double) want[k]);
            if (!isnan (worst) && !(d <= worst))
                worst = d; /* a NaN stays */
        }
    }
    return worst;
}
