/* test_kernels_opencl.c - the OpenCL engine: its declarations are Khronos's, its kernels are
   counted, and batches of each kind have the bits of the contract. Without a device the last two
   are skipped; test_kernels_strict.c has the shapes and activations.  */
#include "kernels/opencl/wm_opencl.h"
#include "tests/unit/sparse_net.h"
#include "tests/unit/strict_arithmetic.h"

#if __has_include(<CL/cl.h>)
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

static void numbers_are_khronos (void **state)
{
#define SAME(name, value) assert_int_equal ((int) WM_CL_##name, (int) CL_##name);
    WM_CL_NUMBERS (SAME)
    assert_int_equal (sizeof (wm_cl_int), sizeof (cl_int));
    assert_int_equal (sizeof (wm_cl_flags), sizeof (cl_mem_flags));
    assert_int_equal (sizeof (wm_cl_flags), sizeof (cl_device_type));
    assert_int_equal (sizeof (wm_cl_property), sizeof (cl_context_properties));
    assert_int_equal (sizeof (wm_cl_object), sizeof (cl_mem));
}
#else
static void numbers_are_khronos (void **state)
{
    print_message ("skipped: no headers of OpenCL (make deps-opencl)\n");
    skip ();
}
#endif

static char folder[] = "/tmp/wm_opencl_XXXXXX"; /* what pocl compiles */
static bool is_here;

static void need_device (void)
{
    if (is_here)
        return;
    print_message ("skipped: no device of OpenCL (make deps-opencl)\n");
    skip ();
}

static wm_opencl_t *engine_with (const wm_net_t *net, const wm_spec_t *spec, bool is_half,
                                 uint64_t memory)
{
    wm_error_t error = { 0 };
    wm_opencl_t *engine = wm_opencl_new (net, spec, -1, is_half, memory, &error);
    if (!engine)
        fail_msg ("%s", error.text);
    return engine;
}

static wm_opencl_t *engine_of (const wm_net_t *net, const wm_spec_t *spec)
{
    return engine_with (net, spec, false, 0);
}

/* Two for each convolution and each layer on the last one, one for any other and for softmax: of
   one hit and of many.  */
static void kernels_are_counted (void **state)
{
    need_device ();
    for (uint32_t s = 0; s < SHAPES; s += 7) {
        wm_net_t net = net_new (&shapes[s]);
        const wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
        wm_opencl_t *engine = engine_of (&net, &spec);
        uint64_t want = 0;
        float scores[30 * 9];
        for (uint32_t hits = 1; hits <= 30; hits += 29) {
            wm_batch_t batch = plane_new (&spec, 30, 75, hits, TRACKS);
            assert_int_equal (wm_opencl_score (engine, &batch, scores, NULL, NULL), WM_OK);
            want += 2 * net.n_conv;
            for (uint32_t i = 0; i < net.n_dense; i++)
                want += (net.dense[i].parent < 0 ? 2u : 1u) + (net.dense[i].act == WM_ACT_SOFTMAX);
            assert_int_equal (wm_opencl_stats (engine).launches, want);
            plane_free (&batch);
        }
        wm_opencl_destroy (&engine);
        net_free (&net);
    }
}

static void hold (wm_opencl_t *engine, const wm_net_t *net, const wm_spec_t *spec,
                  const wm_batch_t *batch)
{
    const uint32_t n = n_output_of (net);
    const size_t each = (size_t) net->height * net->width;
    float *patch = calloc (each, sizeof *patch),
          *got = calloc ((size_t) batch->n_hit * n, sizeof *got), want[9];
    wm_error_t error = { 0 };
    if (wm_opencl_score (engine, batch, got, NULL, &error))
        fail_msg ("%s", error.text);
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        if (batch->kind == WM_BATCH_PATCHES)
            memcpy (patch, batch->patch + i * each, each * sizeof *patch);
        else
            wm_image_patch_reference (spec, batch, i, patch);
        strict_scores (net, wm_spec_zero (spec), patch, want);
        for (uint32_t o = 0; o < n; o++)
            if (memcmp (&want[o], &got[i * n + o], sizeof *want) &&
                !(isnan (want[o]) && isnan (got[i * n + o])))
                fail_msg ("hit %u, output %u: %a, the contract has %a", i, o,
                          (double) got[i * n + o], (double) want[o]);
    }
    free (patch), free (got);
}

/* Planes in own view by each way to downscale, and dense patches, of one engine; some values are
   denormal, huge, infinite, or none.  */
static void batches_keep_the_contract (void **state)
{
    need_device ();
    static const float odd[] = { 0x1p-149f, -0x1p-127f, 0x1p-60f, 1e38f, INFINITY, NAN, -0.f };
    for (wm_downscale_t by = WM_MEAN; by <= WM_MAXMEAN; by++) {
        const shape_t *shape = &shapes[2 + 2 * by]; /* of Z = 0, as own view needs */
        seed = 40 + by;
        wm_net_t net = net_new (shape);
        const wm_spec_t spec = spec_of (shape, WM_OWN_VIEW, by);
        wm_opencl_t *engine = engine_of (&net, &spec);
        wm_batch_t plane = plane_new (&spec, 30, 600, 40, TRACKS);
        wm_batch_t patches = cut_patches (&spec, &plane);
        hold (engine, &net, &spec, &plane);
        hold (engine, &net, &spec, &patches);
        for (uint32_t i = 0; i < 35; i++)
            patches.patch[(i + 3) * patches.patch_values + i] = odd[i % 7];
        hold (engine, &net, &spec, &patches);
        plane_free (&plane), plane_free (&patches);
        wm_opencl_destroy (&engine);
        net_free (&net);
    }
}

/* In half: scores are close to the contract, but have other bits; which hits share a region and a
   batch changes none.  */
static void half_is_close (void **state)
{
    need_device ();
    uint32_t rounded = 0;
    for (uint32_t s = 0; s < SHAPES; s += 3) {
        wm_net_t net = net_new (&shapes[s]);
        const wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
        wm_batch_t plane = plane_new (&spec, 30, 75, 20, TRACKS);
        const uint32_t n = n_output_of (&net);
        float patch[1200], want[9], got[20 * 9], again[20 * 9];
        wm_opencl_t *engine = engine_with (&net, &spec, true, 0),
                    *small = engine_with (&net, &spec, true, 200000);
        assert_int_equal (wm_opencl_score (engine, &plane, got, NULL, NULL), WM_OK);
        assert_int_equal (wm_opencl_score (small, &plane, again, NULL, NULL), WM_OK);
        assert_true (wm_opencl_stats (small).regions > wm_opencl_stats (engine).regions);
        assert_memory_equal (got, again, 20 * n * sizeof *got);
        for (uint32_t i = 0; i < 20; i++) {
            wm_image_patch_reference (&spec, &plane, i, patch);
            strict_scores (&net, wm_spec_zero (&spec), patch, want);
            for (uint32_t o = 0; o < n; o++) {
                const float *is = &got[i * n + o];
                if (!(wm_device_off ((double) *is, (double) want[o]) < 1e-2))
                    fail_msg ("shape %u, hit %u, output %u: %g, in fp32 %g", s, i, o, (double) *is,
                              (double) want[o]);
                rounded += memcmp (is, &want[o], sizeof *is) != 0;
            }
        }
        wm_opencl_destroy (&engine), wm_opencl_destroy (&small);
        plane_free (&plane);
        net_free (&net);
    }
    assert_true (rounded > 100);
}

static int begin (void **state)
{
    wm_opencl_info_t info[WM_OPENCL_DEVICES_MAX];
    uint32_t n;
    is_here = wm_opencl_list (info, &n, NULL) == WM_OK;
    return !mkdtemp (folder) || setenv ("POCL_CACHE_DIR", folder, 1);
}

static int end (void **state)
{
    char line[64];
    snprintf (line, sizeof line, "rm -rf %s", folder);
    return system (line);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (numbers_are_khronos),
        cmocka_unit_test (kernels_are_counted),
        cmocka_unit_test (batches_keep_the_contract),
        cmocka_unit_test (half_is_close),
    };
    return cmocka_run_group_tests (tests, begin, end);
}
