/* test_kernels_cuda.c - the whole CUDA engine on the stand-in for a GPU.

   The engine, its kernels and its order of calls are those of the product, compiled for the host;
   loops that round alike take the place of NVIDIA's libraries. tests/gpu has what only a GPU can
   show. Each mistake in tests/plants must make the test that it names fail.  */
#include "kernels/cuda/wm_cuda.h"
#include "tests/standin/wm_gpu_fake.h"
#include "kernels/cuda/wm_gpu_kernels.cuh"
#include "kernels/cuda/wm_gpu_library.h"
#include "tests/gpu/gpu_net.h"
#include "tests/proof.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HITS 90u
#define ROWS 16u    /* patches a launch: several chunks, the last not full */
#define CELLS 40000 /* a plane's image */

static const gpu_shape_t small = { 12, 10, 1, 1, { 8 }, { 5 }, 16, 8, 3, false };
static const gpu_shape_t odd = { 9, 11, 1, 2, { 5, 6 }, { 3, 2 }, 13, 7, 3, true };
/* By wm_gpu_precision_t. Tf32 with factors that are cut off, not rounded, would be off by 4e-4.  */
static const double tolerance[] = { 1e-5, 2.5e-4, 1e-3 };

/* ---- helpers --------------------------------------------------------------------------------- */

static wm_cuda_t *engine_of (const wm_net_t *net, const wm_spec_t *spec,
                             wm_gpu_precision_t precision, wm_error_t *error)
{
    wm_cuda_config_t config = {
        .version = 1, .precision = precision, .rows = ROWS, .cells = CELLS
    };
    return wm_cuda_new (&wm_gpu_stand_in, net, spec, &config, error);
}

static wm_cuda_t *engine (const wm_net_t *net, const wm_spec_t *spec, wm_gpu_precision_t precision)
{
    wm_error_t error = { 0 };
    wm_cuda_t *self = engine_of (net, spec, precision, &error);
    if (!self)
        fail_msg ("%s", error.text);
    return self;
}

static void reset (void)
{
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
}

/* Every half, every tie between two, and both neighbours of the tie.  */
static void halves_round_to_nearest_even (void **state)
{
    (void) state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        const float x = wm_half_value ((uint16_t) h), next = wm_half_value ((uint16_t) (h + 1));
        const float tie = h < 0x7bff ? (x + next) / 2 : 65520;
        assert_true (h == 0 || x > wm_half_value ((uint16_t) (h - 1)));
        assert_int_equal (wm_half (x), h);
        assert_int_equal (wm_half (-x), h | 0x8000);
        assert_int_equal (wm_half (nextafterf (tie, 0)), h);
        assert_int_equal (wm_half (nextafterf (tie, 1e9f)), h + 1);
        assert_int_equal (wm_half (tie), h + h % 2);
    }
    assert_true (wm_half_value (1) == 0x1p-24f && wm_half_value (0x7bff) == 65504);
    assert_int_equal (wm_half (INFINITY), 0x7c00);
    assert_int_equal (wm_half (-1e30f), 0xfc00);
    assert_true (isinf (wm_half_value (0x7c00)) && isnan (wm_half_value (wm_half (NAN))));
}

/* ---- right answers --------------------------------------------------------------------------- */

static void agree_on_plane (const gpu_shape_t *shape, wm_spec_view_t view,
                            wm_gpu_precision_t precision, uint32_t n_hit, uint32_t n_wire,
                            uint32_t n_col)
{
    float *scores = calloc (n_hit * GPU_OUTPUTS, sizeof *scores);
    wm_net_t *net = gpu_net_new (shape, 1);
    wm_spec_t spec = gpu_spec (net, view == WM_FULL_VIEW, view);
    wm_batch_t batch;
    gpu_plane_new (&batch, &spec, n_wire, n_col, n_hit, 1);
    wm_cuda_t *cuda = engine (net, &spec, precision);
    _Atomic uint64_t progress = 0;
    for (int round = 0; round < 2; round++) { /* a plane leaves nothing behind for the next */
        memset (scores, 0xff, n_hit * GPU_OUTPUTS * sizeof *scores);
        assert_int_equal (wm_cuda_score (cuda, &batch, scores, &progress, NULL), WM_OK);
        double worst = gpu_worst (net, &spec, &batch, scores, 1);
        if (!(worst <= tolerance[precision]))
            fail_msg ("precision %d: off by %g", precision, worst);
        gpu_plane_free (&batch);
        gpu_plane_new (&batch, &spec, 50, 66, n_hit, 2);
    }
    assert_int_equal (progress, 2 * n_hit);
    gpu_plane_free (&batch);
    wm_cuda_destroy (&cuda);
    assert_null (cuda);
    gpu_net_destroy (&net);
    free (scores);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
    assert_int_equal (wm_gpu_fake.ranges, 0);
    assert_true (wm_gpu_fake.ranges_begun > 0);
}

static void agree_on (const gpu_shape_t *shape, wm_spec_view_t view, wm_gpu_precision_t precision,
                      uint32_t n_hit)
{
    agree_on_plane (shape, view, precision, n_hit, 60, 70);
}

static void planes_agree_with_double (void **state)
{
    (void) state;
    reset ();
    for (int p = WM_GPU_F32; p <= WM_GPU_F16; p++) {
        agree_on (&small, WM_FULL_VIEW, (wm_gpu_precision_t) p, HITS);
        agree_on (&odd, WM_FULL_VIEW, (wm_gpu_precision_t) p, HITS);
        agree_on (&small, WM_OWN_VIEW, (wm_gpu_precision_t) p, HITS);
    }
    /* An image that is too large for the device: patches are cut on the host.  */
    agree_on_plane (&small, WM_FULL_VIEW, WM_GPU_F32, HITS, 300, 200);
}

static void the_real_network_agrees_with_double (void **state)
{
    (void) state;
    reset ();
    for (int p = WM_GPU_F32; p <= WM_GPU_F16; p++)
        agree_on (&gpu_shape_real, WM_FULL_VIEW, (wm_gpu_precision_t) p, 24);
}

/* Every activation, behind convolutions and dense layers, in every precision.  */
static void every_activation_agrees_with_double (void **state)
{
    (void) state;
    static float scores[HITS * GPU_OUTPUTS];
    wm_net_t *net = gpu_net_new (&odd, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t batch;
    reset ();
    gpu_plane_new (&batch, &spec, 60, 70, HITS, 1);
    for (int k = 0; k < WM_ACTS; k++)
        for (int p = WM_GPU_F32; p <= WM_GPU_F16 && k != WM_ACT_SOFTMAX; p++) {
            const wm_act_t second =
                (wm_act_t) (k + 1 == WM_ACT_SOFTMAX ? WM_ACT_LEAKY : (k + 1) % WM_ACTS);
            net->conv[0].act = net->dense[0].act = (wm_act_t) k, net->conv[1].act = second;
            net->dense[1].act = second;
            net->conv[0].bend = net->dense[0].bend = 0.3f;
            net->conv[1].bend = net->dense[1].bend = 0.7f;
            wm_cuda_t *cuda = engine (net, &spec, (wm_gpu_precision_t) p);
            assert_int_equal (wm_cuda_score (cuda, &batch, scores, NULL, NULL), WM_OK);
            const double worst = gpu_worst (net, &spec, &batch, scores, 1);
            /* So small a network averages little: tf32, of half's mantissa, has half's
               tolerance.  */
            if (!(worst <= tolerance[p == WM_GPU_TF32 ? WM_GPU_F16 : p]))
                fail_msg ("activation %d, precision %d: off by %g", k, p, worst);
            wm_cuda_destroy (&cuda);
        }
    gpu_plane_free (&batch);
    gpu_net_destroy (&net);
}

static void bits_do_not_depend_on_grouping (void **state)
{
    (void) state;
    reset ();
    static float all[HITS * GPU_OUTPUTS], parts[HITS * GPU_OUTPUTS];
    wm_net_t *net = gpu_net_new (&small, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t plane;
    gpu_plane_new (&plane, &spec, 60, 70, HITS, 1);
    wm_batch_t patches = gpu_patches (net, &spec, &plane);
    for (int p = WM_GPU_F32; p <= WM_GPU_F16; p++) {
        wm_cuda_t *cuda = engine (net, &spec, (wm_gpu_precision_t) p);
        assert_int_equal (wm_cuda_score (cuda, &plane, all, NULL, NULL), WM_OK);
        for (uint32_t i = 0, n = 1; i < HITS; i += n, n = n * 5 % 37 + 1) {
            if (n > HITS - i)
                n = HITS - i;
            wm_batch_t part = gpu_slice (n % 2 ? &plane : &patches, i, n);
            assert_int_equal (wm_cuda_score (cuda, &part, parts + i * GPU_OUTPUTS, NULL, NULL),
                              WM_OK);
        }
        assert_memory_equal (all, parts, sizeof all);
        wm_cuda_destroy (&cuda);
    }
    free (patches.patch);
    gpu_plane_free (&plane);
    gpu_net_destroy (&net);
}

static void values_that_cannot_be_computed_hold_their_patch_only (void **state)
{
    (void) state;
    reset ();
    wm_net_t *net = gpu_net_new (&small, 1);
    static float patch[4 * 120], scores[4 * GPU_OUTPUTS];
    for (int i = 0; i < 4 * 120; i++)
        patch[i] = (float) (i % 7) / 7;
    patch[120 + 3] = NAN, patch[2 * 120 + 119] = 1e30f;
    wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = 4, .patch_values = 120, .patch = patch
    };
    for (int p = WM_GPU_F32; p <= WM_GPU_F16; p += 2) {
        wm_cuda_t *cuda = engine (net, NULL, (wm_gpu_precision_t) p);
        assert_int_equal (wm_cuda_score (cuda, &batch, scores, NULL, NULL), WM_OK);
        for (uint32_t k = 0; k < GPU_OUTPUTS; k++) {
            assert_true (isfinite (scores[k]) && isfinite (scores[3 * GPU_OUTPUTS + k]));
            assert_true (isnan (scores[GPU_OUTPUTS + k]));
            assert_int_equal (isnan (scores[2 * GPU_OUTPUTS + k]), p == WM_GPU_F16);
        }
        wm_cuda_destroy (&cuda);
    }
    gpu_net_destroy (&net);
}

static void an_engine_that_is_timed_gives_the_same_bits (void **state)
{
    (void) state;
    reset ();
    static float scores[HITS * GPU_OUTPUTS], timed[HITS * GPU_OUTPUTS];
    wm_error_t error = { 0 };
    double ms[WM_CUDA_STAGES];
    wm_net_t *net = gpu_net_new (&small, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t batch, none;
    gpu_plane_new (&batch, &spec, 60, 70, HITS, 1);
    none = gpu_slice (&batch, 0, 0);
    wm_cuda_t *cuda = engine (net, &spec, WM_GPU_F16);
    assert_int_equal (wm_cuda_score (cuda, &none, NULL, NULL, NULL), WM_OK);
    assert_int_equal (wm_cuda_score (cuda, &batch, scores, NULL, NULL), WM_OK);
    wm_cuda_destroy (&cuda);
    wm_cuda_config_t config = {
        .version = 1, .precision = WM_GPU_F16, .rows = ROWS, .cells = CELLS, .timed = true
    };
    cuda = wm_cuda_new (&wm_gpu_stand_in, net, &spec, &config, &error);
    assert_non_null (cuda);
    assert_int_equal (wm_cuda_score (cuda, &batch, timed, NULL, NULL), WM_OK);
    assert_memory_equal (scores, timed, sizeof scores);
    wm_cuda_times (cuda, ms);
    for (int s = 0; s < WM_CUDA_STAGES; s++)
        assert_true (ms[s] == (HITS + ROWS - 1) / ROWS); /* the stand-in's clock: 1 ms each */
    wm_cuda_times (cuda, ms);
    assert_true (ms[WM_CUDA_CONV] == 0);
    wm_cuda_destroy (&cuda);
    cuda = engine (net, NULL, WM_GPU_F16);
    assert_int_equal (wm_cuda_score (cuda, &batch, timed, NULL, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "no specification"));
    wm_cuda_destroy (&cuda);
    gpu_plane_free (&batch);
    gpu_net_destroy (&net);
}

/* ---- what a library offers ------------------------------------------------------------------- */

static void algorithms_that_depend_on_the_row_are_not_taken (void **state)
{
    (void) state;
    reset ();
    wm_error_t error = { 0 };
    wm_net_t *net = gpu_net_new (&small, 1);
    wm_gpu_fake.candidates = 5, wm_gpu_fake.bad_convs = 2, wm_gpu_fake.bad_gemms = 3;
    wm_gpu_fake.greedy = 3;
    wm_cuda_t *cuda = engine (net, NULL, WM_GPU_F32);
    wm_cuda_destroy (&cuda);
    wm_gpu_fake.bad_gemms = 5;
    assert_null (engine_of (net, NULL, WM_GPU_F32, &error));
    assert_int_equal (error.fault, WM_EHOST);
    assert_non_null (strstr (error.text, "treats all rows alike"));
    gpu_net_destroy (&net);
}

static void refuse (const wm_net_t *net, const wm_spec_t *spec, wm_gpu_precision_t precision,
                    wm_fault_t fault, const char *text)
{
    wm_error_t error = { 0 };
    assert_null (engine_of (net, spec, precision, &error));
    assert_int_equal (error.fault, fault);
    if (!strstr (error.text, text))
        fail_msg ("'%s' lacks '%s'", error.text, text);
}

static void what_cannot_be_run_is_refused_by_name (void **state)
{
    (void) state;
    reset ();
    wm_net_t *net = gpu_net_new (&small, 1);
    wm_spec_t spec = gpu_spec (net, false, WM_FULL_VIEW);
    float *weight = (float *) net->conv[0].weight, kept = weight[7];
    weight[7] = 20000; /* 4 times as much with this specification */
    refuse (net, &spec, WM_GPU_F16, WM_EBATCH, "half precision ends at 65,504, and convolution 0");
    wm_cuda_t *cuda = engine (net, &spec, WM_GPU_F32);
    wm_cuda_destroy (&cuda);
    weight[7] = 70000;
    refuse (net, &spec, WM_GPU_F16, WM_EBATCH, "a weight of 7e+04");
    weight[7] = kept;
    wm_net_t bare = *net, wide = *net;
    bare.n_conv = 0, wide.dense[0].n_out = 9000;
    refuse (&bare, NULL, WM_GPU_F32, WM_EBATCH, "needs a convolution");
    refuse (&wide, NULL, WM_GPU_F32, WM_EBATCH, "8192 outputs together");
    wm_gpu_fake.absent = true;
    refuse (net, &spec, WM_GPU_F32, WM_EHOST, "no NVIDIA GPU");
    wm_gpu_fake.absent = false;
    wm_gpu_fake.free_bytes = 1 << 20;
    refuse (net, &spec, WM_GPU_F32, WM_EHOST, "has 1 MiB free");
    gpu_net_destroy (&net);
}

/* A library is found in WM_CUDA_LIBS, and in a Python's nvidia packages.  */
static void libraries_are_found (void **state)
{
    (void) state;
    char root[] = "/tmp/wm_libs_XXXXXX", path[256], line[800];
    void *symbol[2];
    assert_non_null (mkdtemp (root));
    snprintf (path, sizeof path, "%s/lib/python3.1/site-packages/nvidia/cudnn/lib", root);
    snprintf (line, sizeof line,
              "mkdir -p %s && echo 'int wm_a = 1, wm_b = 2;' | ${CC:-gcc} -shared -fPIC -x c - -o "
              "%s/libwm_found.so.9",
              path, path);
    assert_int_equal (system (line), 0);
    assert_null (wm_gpu_library_open ("libwm_found.so.9"));
    setenv ("VIRTUAL_ENV", root, 1);
    void *found = wm_gpu_library_open ("libwm_found.so.9");
    assert_non_null (found);
    unsetenv ("VIRTUAL_ENV");
    snprintf (path + strlen (path), sizeof path - strlen (path), "/libwm_path.so.9");
    snprintf (line, sizeof line, "mkdir %s/bin && cp %.*s/libwm_found.so.9 %s", root,
              (int) (strrchr (path, '/') - path), path, path);
    assert_int_equal (system (line), 0);
    char *kept = strdup (getenv ("PATH"));
    snprintf (line, sizeof line, "/nowhere:%s/bin", root);
    assert_null (wm_gpu_library_open ("libwm_path.so.9"));
    setenv ("PATH", line, 1);
    assert_non_null (wm_gpu_library_open ("libwm_path.so.9"));
    setenv ("PATH", kept, 1);
    free (kept);
    assert_null (wm_gpu_library_symbols (found, "wm_a wm_b", symbol));
    assert_int_equal (*(int *) symbol[1], 2);
    assert_string_equal (wm_gpu_library_symbols (found, "wm_a wm_c", symbol), "wm_c");
    snprintf (line, sizeof line, "cp %s %s/libwm_named.so.9", path, root);
    assert_int_equal (system (line), 0);
    snprintf (line, sizeof line, "/nowhere:%s", root);
    setenv ("WM_CUDA_LIBS", line, 1);
    assert_non_null (wm_gpu_library_open ("libwm_named.so.9"));
    unsetenv ("WM_CUDA_LIBS");
    snprintf (line, sizeof line, "rm -r %s", root);
    assert_int_equal (system (line), 0);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* One engine from start to end with a failure at call k. Returns whether the failure showed.  */
static bool run_failing (const wm_net_t *net, const wm_spec_t *spec, const wm_batch_t *batch,
                         const float *right, uint32_t k, bool late)
{
    static float scores[HITS * GPU_OUTPUTS];
    wm_error_t error = { 0 };
    reset ();
    wm_gpu_fake.fail_at = k, wm_gpu_fake.late = late;
    wm_cuda_t *cuda = engine_of (net, spec, WM_GPU_F16, &error);
    bool failed = !cuda;
    if (cuda && wm_cuda_score (cuda, batch, scores, NULL, &error)) {
        failed = true;
        wm_error_t again = { 0 };
        wm_gpu_fake.fail_at = 0; /* an engine that failed stays so, though the GPU works again */
        assert_int_equal (wm_cuda_score (cuda, batch, scores, NULL, &again), WM_EHOST);
        assert_non_null (strstr (again.text, "cudaErrorLaunchFailure"));
    } else if (cuda)
        assert_memory_equal (scores, right, batch->n_hit * GPU_OUTPUTS * sizeof *scores);
    if (failed) {
        assert_int_equal (error.fault, WM_EHOST);
        assert_non_null (strstr (error.text, "cudaErrorLaunchFailure"));
    }
    wm_cuda_destroy (&cuda);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
    return failed;
}

static void every_failure_is_named_and_releases_nothing (void **state)
{
    (void) state;
    reset ();
    static float right[HITS * GPU_OUTPUTS];
    wm_net_t *net = gpu_net_new (&small, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t batch;
    gpu_plane_new (&batch, &spec, 60, 70, HITS, 1);
    wm_cuda_t *cuda = engine (net, &spec, WM_GPU_F16);
    assert_int_equal (wm_cuda_score (cuda, &batch, right, NULL, NULL), WM_OK);
    wm_cuda_destroy (&cuda);
    const uint32_t calls = wm_gpu_fake.calls;
    const double start = proof_clock ();
    assert_true (calls > 80);
    uint32_t late = 0;
    for (uint32_t k = 1; k <= calls; k++) {
        assert_true (run_failing (net, &spec, &batch, right, k, false));
        late += run_failing (net, &spec, &batch, right, k, true);
    }
    assert_true (late > 40); /* copies and launches; other calls cannot fail late */
    proof_line ("P9", 2 * calls, 2 * calls, start);
    assert_false (run_failing (net, &spec, &batch, right, calls + 1, false));
    gpu_plane_free (&batch);
    gpu_net_destroy (&net);
}

/* ---- what shows mistakes --------------------------------------------------------------------- */

/* Usual and large logits and own view, each hit also alone, a patch with a NaN: the mistakes of
   tests/plants show here.  */
static void a_small_engine_is_right_throughout (void **state)
{
    (void) state;
    static float scores[HITS * GPU_OUTPUTS], patch[120];
    const gpu_shape_t steep = { 12, 10, 1, 1, { 8 }, { 5 }, 16, 8, 4000, false };
    reset ();
    for (int s = 0; s < 3; s++) {
        wm_net_t *net = gpu_net_new (s == 1 ? &steep : &small, 1);
        wm_spec_t spec = gpu_spec (net, s < 2, s < 2 ? WM_FULL_VIEW : WM_OWN_VIEW);
        wm_batch_t batch, bad = { .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = 120 };
        gpu_plane_new (&batch, &spec, 60, 70, HITS, 1);
        wm_gpu_fake.candidates = 2, wm_gpu_fake.bad_gemms = 1;
        wm_cuda_t *cuda = engine (net, &spec, WM_GPU_F32);
        memset (scores, 0xff, sizeof scores);
        assert_int_equal (wm_cuda_score (cuda, &batch, scores, NULL, NULL), WM_OK);
        assert_true (gpu_worst (net, &spec, &batch, scores, 1) <=
                     (s == 1 ? 0.5 : tolerance[WM_GPU_F32]));
        for (uint32_t i = 0; i < HITS; i++) { /* alone, in row 0: the same bits */
            float alone[GPU_OUTPUTS];
            wm_batch_t part = gpu_slice (&batch, i, 1);
            assert_int_equal (wm_cuda_score (cuda, &part, alone, NULL, NULL), WM_OK);
            assert_memory_equal (alone, scores + i * GPU_OUTPUTS, sizeof alone);
        }
        patch[5] = NAN, bad.patch = patch;
        assert_int_equal (wm_cuda_score (cuda, &bad, scores, NULL, NULL), WM_OK);
        assert_true (isnan (scores[0]) && isnan (scores[3]));
        wm_cuda_destroy (&cuda);
        gpu_plane_free (&batch);
        gpu_net_destroy (&net);
    }
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (halves_round_to_nearest_even),
        cmocka_unit_test (planes_agree_with_double),
        cmocka_unit_test (the_real_network_agrees_with_double),
        cmocka_unit_test (every_activation_agrees_with_double),
        cmocka_unit_test (bits_do_not_depend_on_grouping),
        cmocka_unit_test (values_that_cannot_be_computed_hold_their_patch_only),
        cmocka_unit_test (an_engine_that_is_timed_gives_the_same_bits),
        cmocka_unit_test (libraries_are_found),
        cmocka_unit_test (algorithms_that_depend_on_the_row_are_not_taken),
        cmocka_unit_test (what_cannot_be_run_is_refused_by_name),
        cmocka_unit_test (every_failure_is_named_and_releases_nothing),
        cmocka_unit_test (a_small_engine_is_right_throughout),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
