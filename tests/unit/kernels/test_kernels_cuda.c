/* test_kernels_cuda.c - networks of the family as steps of any CNN, on the stand-in for a GPU: what
   --engine cudnn computes, and every network that our own kernels refuse.

   The engine, its kernels and its order of calls are those of the product, compiled for the host;
   loops that round alike take cuDNN's place. tests/gpu has what only a GPU can show. Mistakes in
   tests/plants must make the test that they name fail.  */
#include "kernels/cudnn/wm_any.h"
#include "kernels/cudnn/wm_any_net.h"
#include "kernels/gpu/wm_cuda.h"
#include "kernels/gpu/wm_gpu_kernels.cuh"
#include "kernels/gpu/wm_gpu_library.h"
#include "tests/gpu/gpu_net.h"
#include "tests/standin/wm_gpu_fake.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HITS 90u
#define ROWS 16u /* patches a launch: several chunks, the last not full */

static const gpu_shape_t small = { 12, 10, 1, 1, { 8 }, { 5 }, 16, 8, 3, false };
static const gpu_shape_t odd = { 9, 11, 1, 2, { 5, 6 }, { 3, 2 }, 13, 7, 3, true };
static const double tolerance[] = { 1e-5, 0, 1e-3 }; /* by wm_gpu_precision_t */

/* ---- helpers --------------------------------------------------------------------------------- */

typedef struct {
    wm_any_net_t *steps;
    wm_cuda_t *any;
} engine_t;

static engine_t engine (const wm_net_t *net, const wm_spec_t *spec, wm_gpu_precision_t precision)
{
    wm_error_t error = { 0 };
    engine_t self = { .steps = wm_any_family_new (net, precision == WM_GPU_F32, &error) };
    if (self.steps)
        self.any = wm_any_new (&wm_gpu_stand_in, self.steps, spec, precision, ROWS, &error);
    if (!self.any)
        fail_msg ("%s", error.text);
    return self;
}

static void engine_end (engine_t *self)
{
    wm_cuda_destroy (&self->any);
    wm_any_net_destroy (&self->steps);
}

static void score (const engine_t *self, const wm_batch_t *batch, float *scores)
{
    wm_error_t error = { 0 };
    if (wm_cuda_score (self->any, batch, scores, NULL, &error))
        fail_msg ("%s", error.text);
}

static void reset (void)
{
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
}

/* Every half, every tie between two, and both neighbours of the tie.  */
static void halves_round_to_nearest_even (void **state)
{
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

static void agree_on (const gpu_shape_t *shape, wm_spec_view_t view, wm_gpu_precision_t precision,
                      uint32_t n_hit)
{
    float *scores = calloc (n_hit * GPU_OUTPUTS, sizeof *scores);
    wm_net_t *net = gpu_net_new (shape, 1);
    wm_spec_t spec = gpu_spec (net, view == WM_FULL_VIEW, view);
    wm_batch_t batch;
    gpu_plane_new (&batch, &spec, 60, 70, n_hit, 1);
    engine_t cuda = engine (net, &spec, precision);
    for (int round = 0; round < 2; round++) { /* a plane leaves nothing behind for the next */
        memset (scores, 0xff, n_hit * GPU_OUTPUTS * sizeof *scores);
        score (&cuda, &batch, scores);
        double worst = gpu_worst (net, &spec, &batch, scores, 1);
        if (!(worst <= tolerance[precision]))
            fail_msg ("precision %d: off by %g", precision, worst);
        gpu_plane_free (&batch);
        gpu_plane_new (&batch, &spec, 50, 66, n_hit, 2);
    }
    gpu_plane_free (&batch);
    engine_end (&cuda);
    gpu_net_destroy (&net);
    free (scores);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
    assert_int_equal (wm_gpu_fake.ranges, 0);
    assert_true (wm_gpu_fake.ranges_begun > 0);
}

static void planes_agree_with_double (void **state)
{
    reset ();
    for (int p = WM_GPU_F32; p <= WM_GPU_F16; p += 2) {
        agree_on (&small, WM_FULL_VIEW, (wm_gpu_precision_t) p, HITS);
        agree_on (&odd, WM_FULL_VIEW, (wm_gpu_precision_t) p, HITS);
        agree_on (&small, WM_OWN_VIEW, (wm_gpu_precision_t) p, HITS);
    }
}

static void the_real_network_agrees_with_double (void **state)
{
    reset ();
    for (int p = WM_GPU_F32; p <= WM_GPU_F16; p += 2)
        agree_on (&gpu_shape_real, WM_FULL_VIEW, (wm_gpu_precision_t) p, 24);
}

/* Every activation, behind convolutions and dense layers, in every precision.  */
static void every_activation_agrees_with_double (void **state)
{
    static float scores[HITS * GPU_OUTPUTS];
    wm_net_t *net = gpu_net_new (&odd, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t batch;
    reset ();
    gpu_plane_new (&batch, &spec, 60, 70, HITS, 1);
    for (int k = 0; k < WM_ACTS; k++)
        for (int p = WM_GPU_F32; p <= WM_GPU_F16 && k != WM_ACT_SOFTMAX; p += 2) {
            const wm_act_t second =
                (wm_act_t) (k + 1 == WM_ACT_SOFTMAX ? WM_ACT_LEAKY : (k + 1) % WM_ACTS);
            net->conv[0].act = net->dense[0].act = (wm_act_t) k, net->conv[1].act = second;
            net->dense[1].act = second;
            net->conv[0].bend = net->dense[0].bend = 0.3f;
            net->conv[1].bend = net->dense[1].bend = 0.7f;
            engine_t cuda = engine (net, &spec, (wm_gpu_precision_t) p);
            score (&cuda, &batch, scores);
            const double worst = gpu_worst (net, &spec, &batch, scores, 1);
            /* So small a network averages little of what rounding to half does.  */
            if (!(worst <= (p == WM_GPU_F16 ? 2e-3 : tolerance[p])))
                fail_msg ("activation %d, precision %d: off by %g", k, p, worst);
            engine_end (&cuda);
        }
    gpu_plane_free (&batch);
    gpu_net_destroy (&net);
}

static void bits_do_not_depend_on_grouping (void **state)
{
    reset ();
    static float all[HITS * GPU_OUTPUTS], parts[HITS * GPU_OUTPUTS];
    wm_net_t *net = gpu_net_new (&small, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t plane;
    gpu_plane_new (&plane, &spec, 60, 70, HITS, 1);
    wm_batch_t patches = gpu_patches (net, &spec, &plane);
    for (int p = WM_GPU_F32; p <= WM_GPU_F16; p += 2) {
        engine_t cuda = engine (net, &spec, (wm_gpu_precision_t) p);
        score (&cuda, &plane, all);
        for (uint32_t i = 0, n = 1; i < HITS; i += n, n = n * 5 % 37 + 1) {
            if (n > HITS - i)
                n = HITS - i;
            wm_batch_t part = gpu_slice (n % 2 ? &plane : &patches, i, n);
            score (&cuda, &part, parts + i * GPU_OUTPUTS);
        }
        assert_memory_equal (all, parts, sizeof all);
        engine_end (&cuda);
    }
    free (patches.patch);
    gpu_plane_free (&plane);
    gpu_net_destroy (&net);
}

static void values_that_cannot_be_computed_hold_their_patch_only (void **state)
{
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
        engine_t cuda = engine (net, NULL, (wm_gpu_precision_t) p);
        score (&cuda, &batch, scores);
        for (uint32_t k = 0; k < GPU_OUTPUTS; k++) {
            assert_true (isfinite (scores[k]) && isfinite (scores[3 * GPU_OUTPUTS + k]));
            assert_true (isnan (scores[GPU_OUTPUTS + k]));
            assert_int_equal (isnan (scores[2 * GPU_OUTPUTS + k]), p == WM_GPU_F16);
        }
        engine_end (&cuda);
    }
    gpu_net_destroy (&net);
}

/* A network that our own kernels refuse is not lost: these steps run it.  */
static void what_cannot_be_run_is_refused_by_name (void **state)
{
    wm_error_t error = { 0 };
    wm_net_t *net = gpu_net_new (&odd, 1), large = *net;
    assert_non_null (wm_cuda_refuse (net, WM_GPU_F32));
    large.height = 1 << 16, large.width = 1 << 12;
    assert_null (wm_any_family_new (&large, true, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    assert_non_null (strstr (error.text, "67108864 values at most, not convolution 0"));
    engine_t cuda = { .steps = wm_any_family_new (net, true, &error) };
    reset ();
    wm_gpu_fake.no_libraries = true;
    assert_null (wm_any_new (&wm_gpu_stand_in, cuda.steps, NULL, WM_GPU_F32, ROWS, &error));
    assert_int_equal (error.fault, WM_EHOST);
    assert_non_null (strstr (error.text, "cannot start: open_cudnn: libcudnn.so.9 is not here"));
    engine_end (&cuda);
    gpu_net_destroy (&net);
}

/* A library is found in WM_CUDA_LIBS, and in a Python's nvidia packages.  */
static void libraries_are_found (void **state)
{
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
    snprintf (line, sizeof line, "/proc/nowhere:%s/bin", root);
    assert_null (wm_gpu_library_open ("libwm_path.so.9"));
    setenv ("PATH", line, 1);
    assert_non_null (wm_gpu_library_open ("libwm_path.so.9"));
    setenv ("PATH", kept, 1);
    free (kept);
    assert_null (wm_gpu_library_symbols (found, "wm_a wm_b", symbol));
    assert_int_equal (*(int *) symbol[1], 2);
    assert_string_equal (wm_gpu_library_symbols (found, "wm_a wm_c", symbol), "wm_c");
    snprintf (line, sizeof line, "mkdir '%s/[1]' && cp %s '%s/[1]/libwm_named.so.9'", root, path,
              root);
    assert_int_equal (system (line), 0);
    snprintf (line, sizeof line, "/proc/nowhere:%s/[1]", root); /* a name, not a pattern */
    setenv ("WM_CUDA_LIBS", line, 1);
    assert_non_null (wm_gpu_library_open ("libwm_named.so.9"));
    unsetenv ("WM_CUDA_LIBS");
    snprintf (line, sizeof line, "rm -r %s", root);
    assert_int_equal (system (line), 0);
}

/* ---- what shows mistakes --------------------------------------------------------------------- */

/* Usual and large logits and own view, each hit also alone, a patch with a NaN: the mistakes of
   tests/plants show here.  */
static void a_small_engine_is_right_throughout (void **state)
{
    static float scores[HITS * GPU_OUTPUTS], patch[120];
    const gpu_shape_t steep = { 12, 10, 1, 1, { 8 }, { 5 }, 16, 8, 4000, false };
    reset ();
    for (int s = 0; s < 3; s++) {
        wm_net_t *net = gpu_net_new (s == 1 ? &steep : &small, 1);
        wm_spec_t spec = gpu_spec (net, s < 2, s < 2 ? WM_FULL_VIEW : WM_OWN_VIEW);
        wm_batch_t batch, bad = { .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = 120 };
        gpu_plane_new (&batch, &spec, 60, 70, HITS, 1);
        engine_t cuda = engine (net, &spec, WM_GPU_F32);
        memset (scores, 0xff, sizeof scores);
        score (&cuda, &batch, scores);
        assert_true (gpu_worst (net, &spec, &batch, scores, 1) <=
                     (s == 1 ? 0.5 : tolerance[WM_GPU_F32]));
        for (uint32_t i = 0; i < HITS; i++) { /* alone, in row 0: the same bits */
            float alone[GPU_OUTPUTS];
            wm_batch_t part = gpu_slice (&batch, i, 1);
            score (&cuda, &part, alone);
            assert_memory_equal (alone, scores + i * GPU_OUTPUTS, sizeof alone);
        }
        patch[5] = NAN, bad.patch = patch;
        score (&cuda, &bad, scores);
        assert_true (isnan (scores[0]) && isnan (scores[3]));
        engine_end (&cuda);
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
        cmocka_unit_test (libraries_are_found),
        cmocka_unit_test (what_cannot_be_run_is_refused_by_name),
        cmocka_unit_test (a_small_engine_is_right_throughout),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
