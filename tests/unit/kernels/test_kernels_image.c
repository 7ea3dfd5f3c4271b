/* test_kernels_image.c - bins and patches: by hand, and the fast cutter against the plain
   definition.

   The numbers written out here are worked out on paper from the definition in wm_image.h, because
   cutter and reference share the arithmetic of a bin.  */
#include "kernels/patch/wm_image.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- helpers --------------------------------------------------------------------------------- */

static uint64_t seed;

static uint32_t draw (uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (seed >> 33) % below;
}

static wm_spec_t spec_of (const char *text)
{
    wm_spec_t spec;
    wm_error_t error = { 0 };
    if (wm_spec_parse (&spec, text, strlen (text), "test", &error))
        fail_msg ("%s", error.text);
    return spec;
}

/* A plane batch from dense cells (n_wire, n_col); cells equal to `zero` lie between the runs.  */
static void batch_of (wm_batch_t *batch, const wm_spec_t *spec, const float *cell, uint32_t n_wire,
                      uint32_t n_col, uint32_t n_hit)
{
    float zero = wm_spec_zero (spec);
    *batch = (wm_batch_t){
        .kind = spec->view == WM_OWN_VIEW ? WM_BATCH_TICKS : WM_BATCH_BINS,
        .n_hit = n_hit,
        .plane = 1,
        .n_wire = n_wire,
        .n_col = n_col,
        .n_run = n_wire * n_col,
        .n_value = n_wire * n_col,
    };
    assert_int_equal (wm_batch_reserve (batch, NULL), WM_OK);
    uint32_t runs = 0, values = 0;
    for (uint32_t w = 0; w < n_wire; w++)
        for (uint32_t c = 0; c < n_col; c++) {
            float v = cell[w * n_col + c];
            if (v == zero)
                continue;
            if (!c || cell[w * n_col + c - 1] == zero) {
                batch->run_wire[runs] = w;
                batch->run_first[runs] = c;
                batch->run_length[runs++] = 0;
            }
            batch->run_length[runs - 1]++;
            batch->value[values++] = v;
        }
    batch->n_run = runs, batch->n_value = values;
}

static void random_cells (float *cell, uint32_t n_wire, uint32_t n_col, float zero)
{
    for (uint32_t w = 0; w < n_wire; w++)
        for (uint32_t c = 0; c < n_col;) {
            uint32_t quiet = draw (40), loud = 1 + draw (30);
            bool empty = draw (6) == 0;
            for (; quiet-- && c < n_col; c++)
                cell[w * n_col + c] = zero;
            for (; loud-- && c < n_col; c++)
                cell[w * n_col + c] = empty ? zero : (float) draw (4000) / 64 - 12;
        }
}

static void near (double a, double b)
{
    if (!(fabs (a - b) < 2e-6))
        fail_msg ("%.9g is not %.9g", a, b);
}

/* ---- by hand --------------------------------------------------------------------------------- */

#define PLAIN "amplitude: [1, 2]\nadc: [-10, 30]\nout: [-5, 15]\n" /* s = 0.5, Z = 0 */

static void bins_by_hand (void **state)
{
    const float adc[] = { 0, 3, 6, 5, 9, 9, -60, -60, 0, 0, 0, 8, 100 }; /* W = 3: four bins */
    float bins[4];
    wm_spec_t spec = spec_of (PLAIN "drift_window: 3\ndownscale: mean\n");
    wm_image_downscale (&spec, 0, adc, NULL, 13, bins);
    near (bins[0], 0.5 * 3);
    near (bins[1], 0.5 * 23 / 3);
    near (bins[2], -5); /* -40 is below the clamp */
    near (bins[3], 0.5 * 8 / 3);
    wm_image_downscale (&spec, 1, adc, NULL, 13, bins);
    near (bins[1], 0.5 * 2 * 23 / 3); /* amplitude before clamp and scale */
    wm_image_downscale (&spec, 5, adc, NULL, 13, bins);
    near (bins[0], 3); /* a plane beyond the list takes the last amplitude */

    spec.downscale = WM_MAXPOOL;
    wm_image_downscale (&spec, 0, adc, NULL, 13, bins);
    near (bins[0], 3);
    near (bins[2], 0);
    near (bins[3], 4);

    spec.downscale = WM_MAXMEAN;
    wm_image_downscale (&spec, 0, adc, NULL, 13, bins);
    near (bins[0], 0.5 * (3 + 6 + 5) / 3); /* a neighbour in the next bin */
    near (bins[1], 0.5 * (5 + 9 + 9) / 3); /* the first of two largest */
    near (bins[2], -5);                    /* -60, 0 and 0 around the first 0: -20, clamped */
    near (bins[3], 15);                    /* 0, 8, 100: beyond the last whole bin */
    wm_image_downscale (&spec, 0, adc, NULL, 12, bins);
    near (bins[3], 0.5 * (0 + 8) / 2); /* the wire ends: one neighbour */
}

static void lifetime_multiplies_each_tick (void **state)
{
    float factor[4], bins[2];
    wm_image_lifetime (100, 4, 0.5, 2, 0, 4, factor);
    near (factor[0], exp (-0.05));
    near (factor[3], exp (-0.035));
    wm_spec_t spec = spec_of (PLAIN "drift_window: 2");
    const float adc[] = { 10, 20, 6, -6 }, twice[] = { 2, 0.5f, 1, 1 };
    wm_image_downscale (&spec, 0, adc, twice, 4, bins);
    near (bins[0], 0.5 * 15);
    near (bins[1], 0);
    spec.downscale = WM_MAXPOOL;
    wm_image_downscale (&spec, 0, adc, twice, 4, bins);
    near (bins[0], 0.5 * 20);
}

static void zero_adc_is_exactly_the_zero_level (void **state)
{
    const char *texts[] = { "adc: [-20, 30]", "adc: [-50, 150]", "adc: [-0.1, 0.7]\nout: [0, 1]" };
    const float adc[12] = { 0 };
    for (size_t i = 0; i < 3; i++)
        for (int mode = WM_MEAN; mode <= WM_MAXMEAN; mode++) {
            wm_spec_t spec = spec_of (texts[i]);
            float bins[2], zero = wm_spec_zero (&spec);
            spec.downscale = (wm_downscale_t) mode;
            wm_image_downscale (&spec, 0, adc, NULL, 12, bins);
            assert_memory_equal (&bins[1], &zero, sizeof zero);
        }
}

static void a_sample_that_is_no_number_poisons_its_bin (void **state)
{
    const float poisons[] = { NAN, INFINITY, -INFINITY };
    for (int p = 0; p < 3; p++)
        for (int mode = WM_MEAN; mode <= WM_MAXMEAN; mode++)
            for (uint32_t t = 6; t < 12; t++) {
                wm_spec_t spec = spec_of (PLAIN);
                spec.downscale = (wm_downscale_t) mode;
                float adc[24] = { 0 }, bins[4];
                adc[8] = 40;
                adc[t] = poisons[p];
                wm_image_downscale (&spec, 0, adc, NULL, 24, bins);
                assert_true (!isfinite (bins[1]));
                assert_true (isfinite (bins[3]));
            }
    wm_spec_t spec = spec_of (PLAIN);
    assert_true (!isfinite (wm_image_scale (&spec, 0, INFINITY)));
}

static void columns_of_hits (void **state)
{
    wm_spec_t full = spec_of ("drift_window: 6"), own = spec_of ("view: own");
    assert_int_equal (wm_image_col (&full, 5.9999995f), 0);
    assert_int_equal (wm_image_col (&full, 6), 1);
    assert_int_equal (wm_image_col (&full, -5), 0);
    assert_int_equal (wm_image_col (&full, -12.5f), -2);
    assert_int_equal (wm_image_col (&own, 145.99f), 145);
    assert_int_equal (wm_image_n_col (&full, 1001), 166);
    assert_int_equal (wm_image_n_col (&own, 1001), 1001);
}

/* The bins of regions of interest, taken region by region, are the bins of the whole wire.  */
static void touched_bins_are_all_that_differ (void **state)
{
    enum { N = 203 };
    const char *texts[] = { "adc: [-20, 30]\n", "adc: [-20, 30]\nlifetime: none\ndrift_window: 1\n",
                            "drift_window: 7\n" };
    seed = 3;
    for (int round = 0; round < 300; round++) {
        wm_spec_t spec = spec_of (texts[draw (3)]);
        spec.downscale = (wm_downscale_t) draw (3);
        float adc[N] = { 0 }, whole[N], taken[N];
        uint32_t n_bin = N / spec.drift_window, first = draw (N), last = first + 1 + draw (40), a,
                 b;
        if (last > N)
            last = N;
        for (uint32_t t = first; t < last; t++)
            adc[t] = (float) draw (400) / 8 - 20;
        for (uint32_t i = 0; i < n_bin; i++)
            taken[i] = wm_spec_zero (&spec);
        wm_image_touched (&spec, N, first, last, &a, &b);
        assert_true (a <= b && b <= n_bin);
        wm_image_downscale_range (&spec, 0, adc, NULL, N, a, b, taken + a);
        wm_image_downscale (&spec, 0, adc, NULL, N, whole);
        assert_memory_equal (whole, taken, n_bin * sizeof *whole);
    }
}

/* A 2 x 2 patch in own view, W = 2: ticks t-2 .. t+1.  */
static void own_view_by_hand (void **state)
{
    wm_spec_t spec = spec_of ("adc: [-10, 30]\nout: [-5, 15]\namplitude: [1, 1]\nview: own\npatch: "
                              "[2, 2]\ndrift_window: 2");
    const float tick[2][6] = { { 2, 4, 6, 8, 10, 12 }, { 0, 0, 20, 0, 0, 0 } };
    const int32_t col[] = { 3, 1, -7, 5, 9 };
    const float want[][2] = {
        { 0.5f * 5, 0.5f * 9 }, /* ticks 1 2 | 3 4 */
        { 0.5f * 3, 0.5f * 3 }, /* clamped: 0 1 | 2, freed */
        { 0, 0 },               /* before the readout */
        { 0.5f * 9, 0.5f * 6 }, /* 3 4 | 5, beyond */
        { 0, 0 },
    };
    wm_batch_t batch;
    batch_of (&batch, &spec, tick[0], 2, 6, 5);
    for (uint32_t i = 0; i < 5; i++) {
        batch.hit_wire[i] = 0;
        batch.hit_col[i] = col[i];
    }
    for (uint32_t i = 0; i < 5; i++) {
        float patch[4];
        wm_image_patch_reference (&spec, &batch, i, patch);
        near (patch[0], 0); /* the row above wire 0 */
        near (patch[1], 0);
        near (patch[2], want[i][0]);
        near (patch[3], want[i][1]);
    }
    /* maxmean: neighbours only inside the cut ticks 1 2 3 4 (values 4 6 8 10).  */
    float patch[4];
    spec.downscale = WM_MAXMEAN;
    wm_image_patch_reference (&spec, &batch, 0, patch);
    near (patch[2], 0.5 * (4 + 6 + 8) / 3.0);
    near (patch[3], 0.5 * (8 + 10) / 2.0);
    wm_batch_clear (&batch);
}

static void full_view_by_hand (void **state)
{
    wm_spec_t spec = spec_of ("adc: [-20, 30]\nout: [-5, 15]\npatch: [3, 4]"); /* Z = 3 */
    const float bins[2][3] = { { 1, 2, 3 }, { 4, 3, 6 } };
    wm_batch_t batch;
    batch_of (&batch, &spec, bins[0], 2, 3, 2);
    assert_int_equal (batch.n_run, 3);
    batch.hit_wire[0] = 0, batch.hit_col[0] = 1;
    batch.hit_wire[1] = 1, batch.hit_col[1] = -1000000;
    const float want[3][4] = { { 3, 3, 3, 3 },
                               { 3, 1, 2, 3 },
                               { 3, 4, 3, 6 } }; /* the hit at [1][2] */
    float patch[12];
    wm_image_patch_reference (&spec, &batch, 0, patch);
    for (int i = 0; i < 12; i++)
        near (patch[i], want[i / 4][i % 4]);
    wm_image_patch_reference (&spec, &batch, 1, patch);
    for (int i = 0; i < 12; i++)
        near (patch[i], 3);
    wm_batch_clear (&batch);
}

/* ---- the cutter ------------------------------------------------------------------------------ */

static const char *const sides[] = {
    "[48, 48]", "[44, 48]", "[5, 7]", "[1, 1]", "[3, 2]", "[20, 1]"
};

static wm_spec_t random_spec (bool own)
{
    char text[200];
    snprintf (text, sizeof text, "view: %s\nadc: [%s, 30]\npatch: %s\ndrift_window: %u\n",
              own ? "own" : "full", own || draw (2) ? "-10" : "-20", sides[draw (6)],
              draw (3) ? 6 : 1 + draw (9));
    wm_spec_t spec = spec_of (text);
    spec.downscale = (wm_downscale_t) draw (3);
    return spec;
}

static void random_hits (const wm_spec_t *spec, wm_batch_t *batch)
{
    int32_t reach = (int32_t) (spec->drift_window * spec->patch_bin);
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        const int32_t edge[] = { 0,
                                 reach / 2,
                                 reach / 2 - 1,
                                 (int32_t) batch->n_col - 1,
                                 (int32_t) batch->n_col - reach / 2,
                                 -1,
                                 INT32_MIN,
                                 INT32_MAX };
        batch->hit_wire[i] = draw (5) ? draw (batch->n_wire) : draw (2) ? batch->n_wire - 1 : 0;
        batch->hit_col[i] = draw (3) ? (int32_t) draw (batch->n_col + 100) - 50 : edge[draw (8)];
    }
}

static void check_cuts (wm_plane_t *plane, const wm_spec_t *spec, const wm_batch_t *batch)
{
    size_t cells = (size_t) spec->patch_wire * spec->patch_bin;
    float *fast = malloc (batch->n_hit * cells * sizeof *fast);
    float *plain = malloc (cells * sizeof *plain);
    wm_plane_cut (plane, 0, batch->n_hit / 2, fast);
    wm_plane_cut (plane, batch->n_hit / 2, batch->n_hit - batch->n_hit / 2,
                  fast + batch->n_hit / 2 * cells);
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        uint32_t image, row, col, n_row, n_col;
        wm_image_patch_reference (spec, batch, i, plain);
        if (memcmp (plain, fast + i * cells, cells * sizeof *plain) != 0)
            fail_msg ("hit %u at wire %u column %d, view %d mode %d W %u patch %u x %u", i,
                      batch->hit_wire[i], batch->hit_col[i], (int) spec->view,
                      (int) spec->downscale, spec->drift_window, spec->patch_wire, spec->patch_bin);
        if (!wm_plane_place (plane, i, &image, &row, &col))
            continue;
        const float *cell = wm_plane_image (plane, image, &n_row, &n_col);
        assert_true (image < wm_plane_n_image (plane));
        assert_true (row + spec->patch_wire <= n_row && col + spec->patch_bin <= n_col);
        for (uint32_t r = 0; r < spec->patch_wire; r++)
            assert_memory_equal (cell + (size_t) (row + r) * n_col + col,
                                 plain + r * spec->patch_bin, spec->patch_bin * sizeof *plain);
    }
    free (fast);
    free (plain);
}

/* One cutter takes planes of different sizes one after another: what the last one left must go.  */
static void cutter_agrees_with_the_definition (void **state)
{
    seed = 1;
    for (int round = 0; round < 120; round++) {
        wm_spec_t spec = random_spec (round % 2);
        wm_plane_t *plane = wm_plane_new (&spec);
        for (int load = 0; load < 3; load++) {
            uint32_t n_wire = 1 + draw (60), n_col = 1 + draw (spec.view == WM_OWN_VIEW ? 500 : 90);
            float *cell = malloc ((size_t) n_wire * n_col * sizeof *cell);
            random_cells (cell, n_wire, n_col, wm_spec_zero (&spec));
            wm_batch_t batch;
            batch_of (&batch, &spec, cell, n_wire, n_col, 1 + draw (40));
            random_hits (&spec, &batch);
            wm_error_t error;
            assert_int_equal (wm_plane_load (plane, &batch, &error), WM_OK);
            check_cuts (plane, &spec, &batch);
            wm_batch_clear (&batch);
            free (cell);
        }
        wm_plane_destroy (&plane);
        assert_null (plane);
    }
}

/* A stack of three planes: channel k of a patch is the patch of plane k at its cell, first or last
   in the patch; nothing of another plane is in it.  */
static void a_stack_is_its_planes (void **state)
{
    enum { N_WIRE = 20, N_COL = 60, H = 6, W = 8, TALL = 3 * N_WIRE + 2 * H, HITS = 40 };
    seed = 4;
    for (uint32_t last = 0; last < 2; last++) {
        wm_spec_t spec =
            spec_of ("points: spacepoints\nchannels: 3\npatch: [6, 8]\nadc: [-20, 30]");
        spec.channels_last = last;
        static float cell[3][N_WIRE * N_COL], tall[TALL * N_COL], fast[HITS * 3 * H * W];
        wm_batch_t plane[3], batch, all;
        wm_spec_t one = spec_of ("patch: [6, 8]\nadc: [-20, 30]");
        for (int i = 0; i < TALL * N_COL; i++)
            tall[i] = wm_spec_zero (&spec);
        for (int k = 0; k < 3; k++) {
            random_cells (cell[k], N_WIRE, N_COL, wm_spec_zero (&spec));
            memcpy (tall + k * (N_WIRE + H) * N_COL, cell[k], sizeof cell[k]);
            batch_of (&plane[k], &one, cell[k], N_WIRE, N_COL, HITS);
            random_hits (&one, &plane[k]);
        }
        batch_of (&all, &one, tall, TALL, N_COL, HITS);
        batch = (wm_batch_t){ .kind = WM_BATCH_STACK,
                              .n_hit = HITS,
                              .n_cell = 3,
                              .n_wire = TALL,
                              .n_col = N_COL,
                              .n_run = all.n_run,
                              .n_value = all.n_value };
        assert_int_equal (wm_batch_reserve (&batch, NULL), WM_OK);
        memcpy (batch.run_wire, all.run_wire, 4ul * all.n_run);
        memcpy (batch.run_first, all.run_first, 4ul * all.n_run);
        memcpy (batch.run_length, all.run_length, 4ul * all.n_run);
        memcpy (batch.value, all.value, 4ul * all.n_value);
        for (uint32_t i = 0; i < 3 * HITS; i++) {
            batch.hit_wire[i] = plane[i % 3].hit_wire[i / 3] + i % 3 * (N_WIRE + H);
            batch.hit_col[i] = plane[i % 3].hit_col[i / 3];
        }
        wm_plane_t *cutter = wm_plane_new (&spec);
        assert_int_equal (wm_plane_load (cutter, &batch, NULL), WM_OK);
        wm_plane_cut (cutter, 0, HITS, fast);
        for (uint32_t i = 0; i < HITS; i++) {
            float plain[3 * H * W], want[H * W];
            wm_image_patch_reference (&spec, &batch, i, plain);
            assert_memory_equal (plain, fast + i * 3 * H * W, sizeof plain);
            for (uint32_t k = 0; k < 3; k++) {
                wm_image_patch_reference (&one, &plane[k], i, want);
                for (uint32_t c = 0; c < H * W; c++)
                    assert_true (plain[last ? c * 3 + k : k * H * W + c] == want[c]);
            }
        }
        batch.n_cell = 2;
        wm_error_t error;
        assert_int_equal (wm_plane_load (cutter, &batch, &error), WM_EBATCH);
        assert_non_null (strstr (error.text, "channels: 3"));
        wm_plane_destroy (&cutter);
        wm_batch_clear (&batch);
        wm_batch_clear (&all);
        for (int k = 0; k < 3; k++)
            wm_batch_clear (&plane[k]);
    }
}

/* Changing a cell changes the patches that cover it, and no other.  */
static void covers_says_which_patches_read_a_cell (void **state)
{
    seed = 2;
    for (int round = 0; round < 400; round++) {
        wm_spec_t spec = random_spec (round % 2);
        spec.downscale = WM_MEAN; /* so that every covered cell shows */
        uint32_t n_wire = 1 + draw (60), n_col = 1 + draw (300);
        float *cell = malloc ((size_t) n_wire * n_col * sizeof *cell);
        float *before = calloc (512 * 48, sizeof *before),
              *after = calloc (512 * 48, sizeof *after);
        for (uint32_t i = 0; i < n_wire * n_col; i++)
            cell[i] = wm_spec_zero (&spec);
        wm_batch_t batch;
        batch_of (&batch, &spec, cell, n_wire, n_col, 1);
        random_hits (&spec, &batch);
        wm_image_patch_reference (&spec, &batch, 0, before);
        uint32_t wire = draw (n_wire), col = draw (n_col), hit_wire = batch.hit_wire[0];
        int32_t hit_col = batch.hit_col[0];
        cell[wire * n_col + col] = 7;
        wm_batch_clear (&batch);
        batch_of (&batch, &spec, cell, n_wire, n_col, 1);
        batch.hit_wire[0] = hit_wire, batch.hit_col[0] = hit_col;
        wm_image_patch_reference (&spec, &batch, 0, after);
        assert_int_equal (wm_image_covers (&spec, hit_wire, hit_col, wire, col),
                          memcmp (before, after, 512 * 48 * sizeof *before) != 0);
        wm_batch_clear (&batch);
        free (cell);
        free (before);
        free (after);
    }
}

static void planes_that_do_not_fit_are_refused (void **state)
{
    wm_error_t error = { 0 };
    wm_spec_t spec = spec_of ("view: full");
    wm_plane_t *plane = wm_plane_new (&spec);
    wm_batch_t batch = { .kind = WM_BATCH_TICKS, .n_wire = 1, .n_col = 1 };
    assert_int_equal (wm_plane_load (plane, &batch, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "view: full"));
    batch = (wm_batch_t){ .kind = WM_BATCH_BINS, .n_wire = 1u << 20, .n_col = 1u << 24 };
    assert_int_equal (wm_plane_load (plane, &batch, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "cells"));
    wm_plane_destroy (&plane);
    wm_plane_destroy (&plane);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (bins_by_hand),
        cmocka_unit_test (lifetime_multiplies_each_tick),
        cmocka_unit_test (zero_adc_is_exactly_the_zero_level),
        cmocka_unit_test (a_sample_that_is_no_number_poisons_its_bin),
        cmocka_unit_test (columns_of_hits),
        cmocka_unit_test (touched_bins_are_all_that_differ),
        cmocka_unit_test (own_view_by_hand),
        cmocka_unit_test (full_view_by_hand),
        cmocka_unit_test (cutter_agrees_with_the_definition),
        cmocka_unit_test (covers_says_which_patches_read_a_cell),
        cmocka_unit_test (a_stack_is_its_planes),
        cmocka_unit_test (planes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
