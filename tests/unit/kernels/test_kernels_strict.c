/* test_kernels_strict.c - strict fp32 is a contract: engines that claim it have the bits of the
   arithmetic in kernels/README.md, and that arithmetic has those of kernels_strict.txt.  */
#include "kernels/gpu/wm_cuda.h"
#include "kernels/model/wm_act.h"
#include "kernels/opencl/wm_opencl.h"
#include "tests/standin/wm_gpu_fake.h"
#include "tests/unit/sparse_net.h"
#include "tests/unit/strict_arithmetic.h"

#define BITS "tests/unit/kernels/kernels_strict.txt"
enum { HITS = 12 };

/* What an engine scores; an engine is held to the contract by one of these.  */
typedef void (*score_fn) (const void *engine, const wm_net_t *net, const wm_spec_t *spec,
                          const wm_batch_t *batch, float *scores);

static void score_by_kernel (const void *kernel, const wm_net_t *net, const wm_spec_t *spec,
                             const wm_batch_t *batch, float *scores)
{
    wm_sparse_t *engine = engine_new (net, spec, 2, kernel);
    result_t result = score_with (engine, batch);
    memcpy (scores, result.scores, (size_t) result.n * result.n_output * sizeof *scores);
    result_free (&result);
    wm_sparse_destroy (&engine);
}

/* is_small: with memory for one and a half patches, so that an image becomes many regions.  */
static void score_by_opencl (const void *is_small, const wm_net_t *net, const wm_spec_t *spec,
                             const wm_batch_t *batch, float *scores)
{
    wm_error_t error = { 0 };
    _Atomic uint64_t progress = 0;
    uint64_t bytes = (net->channel + 1) * sizeof (float); /* of a pixel */
    for (uint32_t i = 0; i < net->n_conv; i++)
        bytes += (net->conv[i].c_out + 1) * sizeof (float);
    wm_opencl_t *engine =
        wm_opencl_new (net, spec, -1, false, is_small ? 2 * bytes * net->height * net->width : 0,
                       &error);
    if (!engine || wm_opencl_score (engine, batch, scores, &progress, &error))
        fail_msg ("%s", error.text);
    assert_int_equal (progress, batch->n_hit);
    const wm_opencl_stats_t stats = wm_opencl_stats (engine);
    assert_int_equal (stats.hits, batch->n_hit);
    assert_true (is_small ? batch->n_hit == 1 || stats.regions > 2 : stats.regions == 1);
    wm_opencl_destroy (&engine);
}

static void score_by_contract (const void *none, const wm_net_t *net, const wm_spec_t *spec,
                               const wm_batch_t *batch, float *scores)
{
    const float zero = wm_spec_zero (spec);
    const size_t each = (size_t) net->height * net->width * net->channel;
    float *patch = calloc (each, sizeof *patch);
    for (uint32_t i = 0; i < batch->n_hit; i++) {
        wm_image_patch_reference (spec, batch, i, patch);
        strict_scores (net, zero, patch, scores + (size_t) i * n_output_of (net));
    }
    free (patch);
}

static void hold_shape (const char *name, score_fn score, const void *engine, uint32_t s,
                        uint32_t n_channel, fill_t fill)
{
    shape_t shape = shapes[s];
    shape.channel = n_channel;
    seed = 100 + s;
    wm_net_t net = net_new (&shape);
    wm_spec_t spec = spec_of (&shape, WM_FULL_VIEW, WM_MEAN);
    const uint32_t n_hit = fill == EMPTY ? 1 : HITS;
    wm_batch_t batch = plane_new (&spec, 30, 75, n_hit * n_channel, fill);
    if (n_channel > 1) { /* its planes are parts of this one, so many hits are one */
        spec.n_channel = n_channel, spec.channels_last = 1;
        batch.kind = WM_BATCH_STACK, batch.n_hit = n_hit, batch.n_cell = n_channel;
    }
    float want[HITS * 9], got[HITS * 9];
    score_by_contract (NULL, &net, &spec, &batch, want);
    score (engine, &net, &spec, &batch, got);
    for (uint32_t i = 0; i < n_hit * n_output_of (&net); i++)
        if (memcmp (&want[i], &got[i], sizeof *want))
            fail_msg ("%s, shape %u, %u channels, fill %d, score %u: %a, the contract has %a", name,
                      s, n_channel, (int) fill, i, (double) got[i], (double) want[i]);
    plane_free (&batch);
    net_free (&net);
}

/* Every shape of net, on planes of each kind, some with patches of several channels.  */
static void hold_to_contract (const char *name, score_fn score, const void *engine)
{
    for (uint32_t s = 0; s < SHAPES; s++)
        for (fill_t fill = EMPTY; fill <= NOISE; fill++) {
            hold_shape (name, score, engine, s, 1, fill);
            if (s % 3 == 0)
                hold_shape (name, score, engine, s, 2 + s % 2, fill);
        }
}

static uint32_t n_by_cuda; /* planes */

/* Of the networks that our kernels take; others are no claim of theirs. bands: that a window's rows
   are cut into, in strips and slots of which a plane has several.  */
static void score_by_cuda (const void *bands, const wm_net_t *net, const wm_spec_t *spec,
                           const wm_batch_t *batch, float *scores)
{
    const wm_cuda_config_t config = { .precision = WM_GPU_F32,
                                      .hits = 256,
                                      .cells = 40000,
                                      .starts = 32,
                                      .height = 64,
                                      .bands = *(const uint32_t *) bands };
    wm_error_t error = { 0 };
    if (wm_cuda_refuse (net, WM_GPU_F32)) {
        score_by_contract (NULL, net, spec, batch, scores);
        return;
    }
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    wm_cuda_t *engine = wm_cuda_new (&wm_gpu_stand_in, net, spec, &config, &error);
    if (!engine || wm_cuda_score (engine, batch, scores, NULL, &error))
        fail_msg ("%s", error.text);
    wm_cuda_destroy (&engine);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
    n_by_cuda++;
}

/* The kernels of CUDA on the stand-in for a GPU, whatever a block takes of a window.  */
static void cuda_keeps_the_contract (void **state)
{
    for (uint32_t bands = 1; bands <= 5; bands += 2)
        hold_to_contract ("cuda", score_by_cuda, &bands);
    assert_true (n_by_cuda >= 3 * 15);
}

/* Dense patches of values that are denormal, huge, infinite, or none: scored as the CPU scores
   them, beside others whose checksum holds.  */
static void cuda_keeps_the_contract_of_odd_values (void **state)
{
    static const float odd[] = { 0x1p-149f, -0x1p-127f, 0x1p-60f, 1e38f, INFINITY, NAN, -0.f };
    static const uint32_t bands = 2;
    for (uint32_t s = 0; s < SHAPES; s++) {
        seed = 40 + s;
        wm_net_t net = net_new (&shapes[s]);
        wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
        wm_batch_t plane = plane_new (&spec, 30, 75, 20, TRACKS);
        wm_batch_t patches = cut_patches (&spec, &plane);
        const uint32_t n = n_output_of (&net);
        float got[20 * 9], want[9];
        for (uint32_t i = 0; i < 14; i++)
            patches.patch[(size_t) i * patches.patch_values + 3 * i] = odd[i % 7];
        score_by_cuda (&bands, &net, &spec, &patches, got);
        for (uint32_t i = 0; i < 20 && !wm_cuda_refuse (&net, WM_GPU_F32); i++) {
            strict_scores (&net, wm_spec_zero (&spec),
                           patches.patch + (size_t) i * patches.patch_values, want);
            for (uint32_t o = 0; o < n; o++)
                if (memcmp (&want[o], &got[i * n + o], sizeof *want) &&
                    !(isnan (want[o]) && isnan (got[i * n + o])))
                    fail_msg ("shape %u, patch %u, output %u: %a, the contract has %a", s, i, o,
                              (double) got[i * n + o], (double) want[o]);
        }
        plane_free (&plane), plane_free (&patches);
        net_free (&net);
    }
}

static void engines_keep_the_contract (void **state)
{
    const wm_sparse_kernel_t *kernel;
    uint32_t n = 0;
    for (uint32_t i = 0; (kernel = wm_sparse_kernel (i)) != NULL; i++)
        if (wm_sparse_kernel_is_strict (kernel)) {
            hold_to_contract (kernel->isa, score_by_kernel, kernel);
            print_message ("%s\n", kernel->isa);
            n++;
        }
    assert_true (n > 0);
}

static void opencl_keeps_the_contract (void **state)
{
    wm_opencl_info_t info[WM_OPENCL_DEVICES_MAX];
    wm_error_t error = { 0 };
    uint32_t n;
    if (wm_opencl_list (info, &n, &error)) {
        print_message ("skipped: %s\n", error.text);
        skip ();
    }
    char folder[] = "/tmp/wm_opencl_XXXXXX", line[64]; /* what pocl compiles */
    assert_non_null (mkdtemp (folder));
    setenv ("POCL_CACHE_DIR", folder, 1);
    hold_to_contract ("opencl", score_by_opencl, NULL);
    hold_to_contract ("opencl, small", score_by_opencl, "small");
    snprintf (line, sizeof line, "rm -rf %s", folder);
    assert_int_equal (system (line), 0);
}

/* A line: shape, fill, and the scores of the first hits as the bits of a float. The file was
   written once; a different line means that old and new outputs of campaigns differ.  */
static void the_contract_has_its_bits (void **state)
{
    FILE *file = fopen (BITS, "r");
    assert_non_null (file);
    char line[512], made[512];
    for (uint32_t s = 0; s < SHAPES; s++)
        for (fill_t fill = TRACKS; fill <= NOISE; fill++) {
            seed = 100 + s;
            wm_net_t net = net_new (&shapes[s]);
            const wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
            wm_batch_t batch = plane_new (&spec, 30, 75, 3, fill);
            float scores[3 * 9];
            const uint32_t n = batch.n_hit * n_output_of (&net);
            score_by_contract (NULL, &net, &spec, &batch, scores);
            int length = snprintf (made, sizeof made, "%u %d", s, (int) fill);
            for (uint32_t i = 0; i < n; i++) {
                uint32_t raw;
                memcpy (&raw, &scores[i], sizeof raw);
                length += snprintf (made + length, sizeof made - (size_t) length, " %08x", raw);
            }
            assert_non_null (fgets (line, sizeof line, file));
            line[strcspn (line, "\n")] = 0;
            assert_string_equal (made, line);
            plane_free (&batch);
            net_free (&net);
        }
    assert_null (fgets (line, sizeof line, file));
    fclose (file);
}

/* In binary64: the rounding to binary32 would hide almost every fault of a polynomial.  */
static void activations_keep_the_contract (void **state)
{
    seed = 1;
    for (uint32_t i = 0; i < 20000; i++) {
        const double x = (double) random_float (i % 3 ? 4 : i % 2 ? 0.1 : 300);
        for (wm_act_t act = WM_ACT_NONE; act < WM_ACTS; act++) {
            if (act == WM_ACT_SOFTMAX)
                continue;
            const double got = wm_sparse_activated (act, 1.7f, x),
                         want = strict_act (act, (double) 1.7f, x);
            if (got != want)
                fail_msg ("activation %d of %a is %a, the contract has %a", (int) act, x, got,
                          want);
        }
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (engines_keep_the_contract),
        cmocka_unit_test (opencl_keeps_the_contract),
        cmocka_unit_test (cuda_keeps_the_contract),
        cmocka_unit_test (cuda_keeps_the_contract_of_odd_values),
        cmocka_unit_test (the_contract_has_its_bits),
        cmocka_unit_test (activations_keep_the_contract),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
