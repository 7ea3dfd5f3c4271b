/* test_kernels_cuda_any.c - any CNN on the stand-in for a GPU: answers, grouping, every failure.

   The network is one of the family, taken as if it were any: so the reference engine, in double,
   judges. Other operators are compared with ONNX Runtime in tests/golden/anygpu.t.  */
#include "kernels/cudnn/wm_any.h"
#include "kernels/cudnn/wm_any_place.h"
#include "kernels/import/wm_import.h"
#include "tests/gpu/gpu_net.h"
#include "tests/proof.h"
#include "tests/standin/wm_gpu_fake.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HITS 30u
#define OUTPUTS 4u

static wm_any_net_t *net;
static wm_model_t *model;

static int set_up (void **state)
{
    char folder[] = "/tmp/wm_any_XXXXXX", onnx[64], wmm[64], why[480];
    wm_error_t error = { 0 };
    if (!mkdtemp (folder))
        return -1;
    snprintf (onnx, sizeof onnx, "%s/m.onnx", folder);
    snprintf (wmm, sizeof wmm, "%s/m.wmm", folder);
    if (wm_model_new_emtrkmichel (1, 12, 10, onnx, &error) ||
        wm_import (onnx, NULL, wmm, why, &error) || !(model = wm_model_open (wmm, &error)) ||
        !(net = wm_any_net_new (onnx, NULL, 0, &error)))
        print_message ("%s\n", error.text);
    unlink (onnx);
    unlink (wmm);
    rmdir (folder);
    return net && model ? 0 : -1;
}

static int tear_down (void **state)
{
    wm_any_net_destroy (&net);
    wm_model_destroy (&model);
    return 0;
}

static wm_cuda_t *engine_of (const wm_spec_t *spec, uint32_t rows, wm_gpu_precision_t precision)
{
    wm_error_t error = { 0 };
    wm_cuda_t *any = wm_any_new (&wm_gpu_stand_in, net, spec, precision, rows, &error);
    if (!any)
        fail_msg ("%s", error.text);
    return any;
}

static wm_cuda_t *engine (const wm_spec_t *spec, uint32_t rows)
{
    return engine_of (spec, rows, WM_GPU_F32);
}

static void known_answers_are_known (void **state)
{
    const float *inputs, *want;
    float scores[64 * OUTPUTS];
    _Atomic uint64_t progress = 0;
    const uint32_t known = wm_model_known (model, &inputs, &want);
    wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = known, .patch_values = 120, .patch = (float *) inputs
    };
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    assert_in_range (known, 1, 64);
    assert_int_equal (net->size[WM_ANY_SCORES], OUTPUTS);
    wm_cuda_t *any = engine (NULL, 5);
    assert_non_null (strstr (wm_cuda_signature (any), "/fp32/any5/"));
    assert_int_equal (wm_cuda_score (any, &batch, scores, &progress, NULL), WM_OK);
    assert_int_equal (progress, known);
    for (uint32_t i = 0; i < known * OUTPUTS; i++)
        if (!(fabsf (scores[i] - want[i]) <= 1e-5f))
            fail_msg ("answer %u: %g for %g", i, (double) scores[i], (double) want[i]);
    wm_cuda_destroy (&any);
    assert_null (any);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
}

/* Planes are cut; a patch has the same bits in every group.  */
static void agree (wm_gpu_precision_t precision, float tolerance)
{
    static float all[HITS * OUTPUTS], part[HITS * OUTPUTS];
    wm_error_t error = { 0 };
    const wm_net_t *family = wm_model_net (model);
    wm_spec_t spec = gpu_spec (family, true, WM_FULL_VIEW);
    wm_batch_t plane;
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    gpu_plane_new (&plane, &spec, 40, 50, HITS, 1);
    wm_cuda_t *any = engine_of (&spec, 7, precision);
    assert_string_equal (wm_cuda_choice (any), "");
    assert_int_equal (wm_cuda_score (any, &plane, all, NULL, &error), WM_OK);
    for (uint32_t i = 0; i < HITS; i++) {
        float want[OUTPUTS];
        wm_batch_t one = plane;
        one.n_hit = 1, one.hit_wire += i, one.hit_col += i;
        gpu_judge (family, &spec, &plane, i, want);
        for (uint32_t k = 0; k < OUTPUTS; k++)
            assert_true (fabsf (all[i * OUTPUTS + k] - want[k]) <= tolerance);
        assert_int_equal (wm_cuda_score (any, &one, part, NULL, &error), WM_OK);
        assert_memory_equal (part, all + i * OUTPUTS, OUTPUTS * sizeof (float));
    }
    wm_cuda_destroy (&any);
    gpu_plane_free (&plane);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
}

/* What the host copies to score a batch: bytes; its scores.  */
static double copied (wm_cuda_t *any, const wm_batch_t *batch, float *scores)
{
    wm_error_t error = { 0 };
    wm_gpu_fake.copied_in = 0;
    if (wm_cuda_score (any, batch, scores, NULL, &error))
        fail_msg ("%s", error.text);
    return wm_gpu_fake.copied_in;
}

/* Scores a batch in parts of 1, 2, ... hits, all in one call.  */
static void score_parts (wm_cuda_t *any, const wm_batch_t *batch, float *scores)
{
    wm_batch_t part[8];
    const wm_batch_t *part_p[8];
    float *of[8];
    uint32_t n = 0;
    wm_error_t error = { 0 };
    for (uint32_t hit = 0; hit < HITS; hit += part[n++].n_hit) {
        part[n] = gpu_slice (batch, hit, n + 1 < HITS - hit ? n + 1 : HITS - hit);
        part_p[n] = &part[n], of[n] = scores + hit * OUTPUTS;
    }
    if (wm_cuda_score_many (any, n, part_p, of, NULL, &error))
        fail_msg ("%s", error.text);
}

/* A plane's patches are windows of its image on the device, and the same patches bit for bit as by
   their definition. A plane that is too large for the device is cut on the host. With two channels
   a patch is two windows of half as many columns, of cells that are hits otherwise.  */
static void lay_out (wm_spec_view_t view, uint32_t n_wire, uint32_t n_col, uint32_t n_channel,
                     bool last)
{
    static float scores[HITS * OUTPUTS], want[HITS * OUTPUTS];
    wm_spec_t spec = gpu_spec (wm_model_net (model), view == WM_FULL_VIEW, view);
    const bool fits = n_wire * n_col < WM_CUDA_CELLS;
    wm_batch_t plane;
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    gpu_plane_new (&plane, &spec, n_wire, n_col, HITS * n_channel, 1);
    if (n_channel > 1) {
        spec.n_channel = n_channel, spec.patch_bin /= n_channel, spec.channels_last = last;
        plane.kind = WM_BATCH_STACK, plane.n_hit = HITS, plane.n_cell = n_channel;
    }
    wm_batch_t patches = gpu_patches (wm_model_net (model), &spec, &plane);
    wm_cuda_t *any = engine (&spec, 7);
    const double patch_bytes = HITS * 120 * sizeof (float),
                 columns = 3. * plane.n_run + 1 + plane.n_value;
    assert_true (copied (any, &patches, want) == patch_bytes);
    const double bytes = copied (any, &plane, scores);
    assert_memory_equal (scores, want, sizeof want);
    if (!fits)
        assert_true (bytes == patch_bytes);
    else if (view == WM_FULL_VIEW)
        assert_true (bytes == (columns + HITS * n_channel) * sizeof (float));
    else /* and three words for each patch that is cut to its place, on the device, too */
        assert_true (bytes > (columns + HITS) * sizeof (float) &&
                     bytes <= (columns + 4 * HITS) * sizeof (float));
    memset (scores, 0, sizeof scores);
    score_parts (any, &plane, scores);
    assert_memory_equal (scores, want, sizeof want);
    wm_cuda_destroy (&any);
    free (patches.patch);
    gpu_plane_free (&plane);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
}

static void planes_are_cut_on_the_device (void **state)
{
    lay_out (WM_FULL_VIEW, 40, 50, 1, false);
    lay_out (WM_OWN_VIEW, 40, 300, 1, false);
    lay_out (WM_FULL_VIEW, 4100, 4200, 1, false);
    lay_out (WM_FULL_VIEW, 40, 50, 2, false);
    lay_out (WM_FULL_VIEW, 40, 50, 2, true);
    lay_out (WM_FULL_VIEW, 4100, 4200, 2, true);
}

/* The image of a plane changes neither how many patches a launch has nor what fits. Where it would
   leave less than a fifth of the memory free, the host cuts the patches, with the same bits.  */
static void a_plane_takes_no_room_from_the_model (void **state)
{
    static float scores[HITS * OUTPUTS], want[HITS * OUTPUTS];
    static const struct {
        size_t free_mib;
        const char *rows;
        bool lays;
    } gpu[] = { /* 128 MiB are kept for cuDNN, an image takes 70 */
                { 280, "/any7/", true },
                { 240, "/any1/", false },
                { 150, "/any1/", false }
    };
    wm_spec_t spec = gpu_spec (wm_model_net (model), true, WM_FULL_VIEW);
    wm_batch_t plane;
    gpu_plane_new (&plane, &spec, 40, 50, HITS, 1);
    wm_batch_t patches = gpu_patches (wm_model_net (model), &spec, &plane);
    for (size_t i = 0; i < sizeof gpu / sizeof *gpu; i++) {
        wm_gpu_fake = (wm_gpu_fake_t){ .free_bytes = gpu[i].free_mib << 20 };
        wm_cuda_t *any = engine (&spec, 7);
        if (!strstr (wm_cuda_signature (any), gpu[i].rows))
            fail_msg ("%zu MiB: %s", gpu[i].free_mib, wm_cuda_signature (any));
        const double bytes = copied (any, &patches, want);
        assert_true ((copied (any, &plane, scores) < bytes) == gpu[i].lays);
        assert_memory_equal (scores, want, sizeof want);
        wm_cuda_destroy (&any);
    }
    free (patches.patch);
    gpu_plane_free (&plane);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
}

/* Patches in memory that the engine pinned are copied from there, others through its own.  */
static void patches_are_taken_from_where_they_lie (void **state)
{
    static float memory[(HITS + 5) * 120], scores[HITS * OUTPUTS], want[HITS * OUTPUTS];
    wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = HITS, .patch_values = 120, .patch = memory
    };
    wm_error_t error = { 0 };
    for (uint32_t i = 0; i < (HITS + 5) * 120; i++)
        memory[i] = (float) (i * 7919 % 1000) / 500 - 1;
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    wm_cuda_t *any = engine (NULL, 7);
    const double bytes = copied (any, &batch, want);
    assert_true (wm_gpu_fake.lent_bytes == 0);
    wm_gpu_fake.pins_nothing = true;
    assert_int_equal (wm_cuda_lend (any, memory, HITS * 120 * sizeof *memory, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "cudaErrorNotSupported"));
    wm_gpu_fake.pins_nothing = false;
    copied (any, &batch, scores);
    assert_true (wm_gpu_fake.lent_bytes == 0);
    assert_int_equal (wm_cuda_lend (any, memory, HITS * 120 * sizeof *memory, &error), WM_OK);
    copied (any, &batch, scores);
    assert_true ((double) wm_gpu_fake.lent_bytes == bytes);
    assert_memory_equal (scores, want, sizeof want);
    batch.patch += 5 * 120; /* the last chunks lie behind it */
    copied (any, &batch, scores);
    assert_true ((double) wm_gpu_fake.lent_bytes == bytes + 21 * 120 * sizeof *memory);
    assert_memory_equal (scores, want + 5 * OUTPUTS, (HITS - 5) * OUTPUTS * sizeof *want);
    wm_cuda_destroy (&any);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
}

static void planes_and_groups (void **state)
{
    agree (WM_GPU_F32, 1e-5f);
    agree (WM_GPU_TF32, 5e-4f);
    agree (WM_GPU_F16, 1e-3f);
}

/* Batches together share launches and have the bits they have alone; one that is refused spoils the
   call, and nothing after it.  */
static void batches_share_launches (void **state)
{
    static float alone[HITS * OUTPUTS], together[HITS * OUTPUTS], patch[5 * 120];
    wm_spec_t spec = gpu_spec (wm_model_net (model), true, WM_FULL_VIEW);
    wm_batch_t plane, part[9];
    const wm_batch_t *batch[9];
    float *scores[9];
    uint32_t n = 0, hit = 0;
    _Atomic uint64_t progress = 0;
    wm_error_t error = { 0 };
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    gpu_plane_new (&plane, &spec, 40, 50, HITS, 1);
    for (uint32_t i = 0; i < 5 * 120; i++)
        patch[i] = (float) (i % 13) / 13;
    for (; hit < HITS; n++) {
        part[n] = plane;
        part[n].hit_wire += hit, part[n].hit_col += hit;
        part[n].n_hit = n == 2   ? 0
                        : n == 1 ? 13
                        : n == 4 ? 5
                                 : 3; /* one has none, one fills chunks */
        if (n == 4)
            part[n] = (wm_batch_t){
                .kind = WM_BATCH_PATCHES, .n_hit = 5, .patch_values = 120, .patch = patch
            };
        part[n].n_hit = part[n].n_hit < HITS - hit ? part[n].n_hit : HITS - hit;
        batch[n] = &part[n], scores[n] = together + hit * OUTPUTS;
        hit += part[n].n_hit;
    }
    wm_cuda_t *any = engine (&spec, 4);
    assert_int_equal (wm_cuda_fill (any), 8);
    uint32_t before = wm_gpu_fake.calls;
    for (uint32_t b = 0; b < n; b++)
        assert_int_equal (wm_cuda_score (any, batch[b], alone + (scores[b] - together), NULL, NULL),
                          WM_OK);
    const uint32_t calls = wm_gpu_fake.calls - before;
    before = wm_gpu_fake.calls;
    assert_int_equal (wm_cuda_score_many (any, n, batch, scores, &progress, NULL), WM_OK);
    assert_int_equal (progress, HITS);
    assert_memory_equal (together, alone, sizeof alone);
    assert_in_range (wm_gpu_fake.calls - before, 1, calls * 8 / 10); /* 8 launches for 11 */
    wm_cuda_destroy (&any);
    any = engine (
        NULL, 4); /* it cuts no planes: the second batch is refused, in a chunk with the first */
    batch[0] = batch[2] = &part[4];
    assert_int_equal (wm_cuda_score_many (any, 3, batch, scores, NULL, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "no specification"));
    scores[0] = together;
    assert_int_equal (wm_cuda_score_many (any, 1, batch, scores, NULL, NULL), WM_OK);
    assert_memory_equal (together, alone + (scores[4] - together), 5 * OUTPUTS * sizeof (float));
    wm_cuda_destroy (&any);
    gpu_plane_free (&plane);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
}

static void planes_that_cannot_be_cut_are_refused (void **state)
{
    float scores[HITS * OUTPUTS];
    wm_error_t error = { 0 };
    wm_spec_t spec = gpu_spec (wm_model_net (model), true, WM_FULL_VIEW);
    wm_batch_t plane;
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    gpu_plane_new (&plane, &spec, 40, 50, HITS, 1);
    wm_cuda_t *any = engine (NULL, 7);
    assert_int_equal (wm_cuda_score (any, &plane, scores, NULL, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "no specification"));
    plane.kind = WM_BATCH_TICKS;
    wm_cuda_destroy (&any);
    any = engine (&spec, 7);
    assert_int_equal (wm_cuda_score (any, &plane, scores, NULL, &error), WM_EBATCH);
    wm_cuda_destroy (&any);
    spec.n_channel = 3, spec.patch_bin = 3;
    plane.kind = WM_BATCH_STACK, plane.n_cell = 2, plane.n_hit = HITS / 2;
    any = engine (&spec, 7); /* two cells a hit, three channels */
    assert_int_equal (wm_cuda_score (any, &plane, scores, NULL, &error), WM_EBATCH);
    wm_cuda_destroy (&any);
    spec.view = WM_OWN_VIEW, plane.kind = WM_BATCH_TICKS;
    any = engine (&spec, 7); /* one cell a hit, three channels */
    assert_int_equal (wm_cuda_score (any, &plane, scores, NULL, &error), WM_EBATCH);
    wm_cuda_destroy (&any);
    gpu_plane_free (&plane);
}

/* Values that half cannot hold: of a patch, it alone is held; of a node, it is float32 and
   named.  */
static void what_half_cannot_hold (void **state)
{
    static float patch[3 * 120], scores[3 * OUTPUTS], want[3 * OUTPUTS];
    wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = 3, .patch_values = 120, .patch = patch
    };
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    for (uint32_t i = 0; i < 3 * 120; i++)
        patch[i] = (float) (i % 11) / 11;
    patch[130] = 1e5f;
    for (int p = WM_GPU_F32; p <= WM_GPU_F16; p++) {
        wm_cuda_t *any = engine_of (NULL, 2, (wm_gpu_precision_t) p);
        patch[250] = p == WM_GPU_F32 ? NAN : 0;
        assert_int_equal (wm_cuda_score (any, &batch, scores, NULL, NULL), WM_OK);
        for (uint32_t k = 0; k < OUTPUTS; k++) {
            assert_true (isfinite (scores[k]));
            assert_int_equal (isnan (scores[OUTPUTS + k]), p == WM_GPU_F16);
            assert_int_equal (isnan (scores[2 * OUTPUTS + k]), p == WM_GPU_F32);
        }
        wm_cuda_destroy (&any);
    }
    wm_any_step_t *conv = net->step;
    while (conv->kind != WM_ANY_CONV)
        conv++;
    float *weight = net->constant + conv->weight, kept = *weight, all[5 * 5 * 64];
    const size_t n_weight = (size_t) conv->conv.kernel[0] * conv->conv.kernel[1] * conv->conv.c_out;
    assert_true (n_weight <= sizeof all / sizeof *all);
    memcpy (all, weight, n_weight * sizeof *all);
    for (size_t i = 0; i < n_weight; i++) /* ReLU would hide what is infinite */
        weight[i] = -fabsf (weight[i]);
    wm_cuda_t *negative = engine_of (NULL, 2, WM_GPU_F16);
    assert_int_equal (wm_cuda_score (negative, &batch, scores, NULL, NULL), WM_OK);
    assert_true (isfinite (scores[0]) && isnan (scores[OUTPUTS]));
    wm_cuda_destroy (&negative);
    memcpy (weight, all, n_weight * sizeof *all);
    patch[130] = 0;
    for (int round = 0; round < 3; round++) { /* values, a weight, no algorithm */
        *weight = round == 0 ? 2e4f : round == 1 ? 7e4f : kept;
        wm_gpu_fake.no_halves = round == 2;
        wm_cuda_t *tf32 = engine_of (NULL, 2, WM_GPU_TF32), *half = engine_of (NULL, 2, WM_GPU_F16);
        assert_int_equal (wm_cuda_score (tf32, &batch, want, NULL, NULL), WM_OK);
        assert_int_equal (wm_cuda_score (half, &batch, scores, NULL, NULL), WM_OK);
        for (uint32_t k = 0; k < 3 * OUTPUTS; k++)
            assert_true (fabsf (scores[k] - want[k]) <= 5e-3f);
        if (!strstr (wm_cuda_choice (half), conv->name) ||
            !strstr (wm_cuda_choice (half),
                     round == 2 ? "cuDNN has nothing" : "end of half's range") ||
            !strstr (wm_cuda_signature (half), "/fp16/any2+"))
            fail_msg ("%s: %s", wm_cuda_signature (half), wm_cuda_choice (half));
        wm_cuda_destroy (&tf32);
        wm_cuda_destroy (&half);
    }
    *weight = kept;
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
}

/* The network with values that are scale[0] (patches), [1] (convolution), [2] and [3] (dense
   layers) times as large, and the same scores: all are powers of two. Where weights or values are
   so small that half loses their bits, `node` (of the convolutions, -1: the patches) is named, and
   float32 keeps them.  */
static void keeps_its_bits (const double scale[4], int node, const char *text)
{
    float patch[8 * 120], scores[8 * OUTPUTS], want[8 * OUTPUTS];
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = 8, .patch_values = 120, .patch = patch
    };
    wm_spec_t spec = gpu_spec (wm_model_net (model), true, WM_FULL_VIEW);
    wm_any_net_t *const kept = net;
    static wm_any_net_t scaled;
    const char *name = "input";
    int n_conv = 0;
    for (uint32_t i = 0; i < 8 * 120; i++)
        patch[i] = (float) (i * 7 % 31) / 31;
    wm_cuda_t *any = engine_of (NULL, 8, WM_GPU_F32);
    assert_int_equal (wm_cuda_score (any, &batch, want, NULL, NULL), WM_OK);
    wm_cuda_destroy (&any);
    scaled = *net;
    scaled.constant = malloc (net->n_constant * sizeof (float));
    memcpy (scaled.constant, net->constant, net->n_constant * sizeof (float));
    for (uint32_t s = 0; s < net->n_step; s++) {
        const wm_any_step_t *step = &net->step[s];
        const wm_gpu_anyconv_t *c = &step->conv;
        if (step->kind != WM_ANY_CONV)
            continue;
        const double to = n_conv < 3 ? scale[n_conv + 1] : 1, from = scale[n_conv < 3 ? n_conv : 3];
        for (uint32_t i = 0; i < c->kernel[0] * c->kernel[1] * c->c_in * c->c_out; i++)
            scaled.constant[step->weight + i] *= (float) (to / from);
        for (uint32_t o = 0; o < c->c_out; o++)
            scaled.constant[step->bias + o] *= (float) to;
        name = n_conv++ == node ? step->name : name;
    }
    assert_int_equal (n_conv, 5);
    for (uint32_t i = 0; i < 8 * 120; i++)
        patch[i] *= (float) scale[0];
    spec.out_max = scale[0];
    net = &scaled;
    any = engine_of (&spec, 8, WM_GPU_F16);
    net = kept;
    assert_int_equal (wm_cuda_score (any, &batch, scores, NULL, NULL), WM_OK);
    for (uint32_t k = 0; k < 8 * OUTPUTS; k++)
        if (!(fabsf (scores[k] - want[k]) <= 1e-3f))
            fail_msg ("%s: %g for %g", wm_cuda_choice (any), (double) scores[k], (double) want[k]);
    if (!!*text != !!strstr (wm_cuda_signature (any), "/fp16/any8+") ||
        !strstr (wm_cuda_choice (any), text) || (*text && !strstr (wm_cuda_choice (any), name)))
        fail_msg ("%s: %s, not '%s' %s", wm_cuda_signature (any), wm_cuda_choice (any), name, text);
    wm_cuda_destroy (&any);
    free (scaled.constant);
}

static void what_half_would_lose (void **state)
{
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    keeps_its_bits ((double[]){ 1, 1, 1, 1 }, -1, "");
    keeps_its_bits ((double[]){ 0x1p12, 0x1p-8, 1, 1 }, 0, "has weights so small");
    keeps_its_bits ((double[]){ 1, 1, 0x1p8, 0x1p-10 }, 2, "has weights so small");
    keeps_its_bits ((double[]){ 0x1p-9, 0x1p-18, 0x1p-3, 1 }, 0, "has nothing above");
    keeps_its_bits ((double[]){ 0x1p-20, 0x1p-6, 1, 1 }, -1, "has nothing above");
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
}

/* A model whose first convolution reads the patch as it came, and in half: without a copy to
   channels last, because it has one channel.  */
static void a_first_convolution_reads_the_patch_in_half (void **state)
{
    static wm_any_net_t direct;
    static float patch[9 * 120], scores[9 * OUTPUTS], want[9 * OUTPUTS];
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = 9, .patch_values = 120, .patch = patch
    };
    wm_any_net_t *const kept = net;
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    for (uint32_t i = 0; i < 9 * 120; i++)
        patch[i] = (float) (i * 13 % 37) / 37;
    wm_cuda_t *any = engine (NULL, 4);
    assert_int_equal (wm_cuda_score (any, &batch, want, NULL, NULL), WM_OK);
    wm_cuda_destroy (&any);
    direct = *net;
    assert_true (net->step[0].kind == WM_ANY_COPY && net->step[1].kind == WM_ANY_CONV);
    direct.n_step--;
    memmove (direct.step, direct.step + 1, direct.n_step * sizeof *direct.step);
    direct.step[0].from = WM_ANY_INPUT;
    net = &direct;
    any = engine_of (NULL, 4, WM_GPU_F16);
    net = kept;
    assert_string_equal (wm_cuda_choice (any), "");
    assert_int_equal (wm_cuda_score (any, &batch, scores, NULL, NULL), WM_OK);
    for (uint32_t k = 0; k < 9 * OUTPUTS; k++)
        assert_true (fabsf (scores[k] - want[k]) <= 1e-3f);
    wm_cuda_destroy (&any);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
}

static void what_a_gpu_lacks_is_said (void **state)
{
    wm_error_t error = { 0 };
    wm_gpu_fake = (wm_gpu_fake_t){ .absent = true };
    assert_null (wm_any_new (&wm_gpu_stand_in, net, NULL, WM_GPU_F32, 4, &error));
    assert_int_equal (error.fault, WM_EHOST);
    assert_non_null (strstr (error.text, "no NVIDIA GPU"));
    wm_gpu_fake = (wm_gpu_fake_t){ .free_bytes = 1 << 20 };
    assert_null (wm_any_new (&wm_gpu_stand_in, net, NULL, WM_GPU_F32, 4, &error));
    assert_non_null (strstr (error.text, "has 1 MiB free"));
    /* The third is good, but asks for too much workspace.  */
    wm_gpu_fake = (wm_gpu_fake_t){ .candidates = 4, .bad_convs = 2, .greedy = 3 };
    wm_cuda_t *any = engine (NULL, 4);
    wm_cuda_destroy (&any);
    wm_gpu_fake = (wm_gpu_fake_t){ .candidates = 3, .bad_convs = 3 };
    assert_null (wm_any_new (&wm_gpu_stand_in, net, NULL, WM_GPU_F32, 4, &error));
    assert_non_null (strstr (error.text, "treat all rows alike"));
    assert_null (wm_any_net_new ("/proc/nowhere/m.onnx", NULL, 0, &error));
    assert_int_equal (error.fault, WM_EHOST);
}

/* Failing call k: no score of a failed launch comes out, now or later.  */
static void fail_each (wm_gpu_precision_t precision, bool captures)
{
    float patch[3 * 120] = { 1, 2, 3 }, right[3 * OUTPUTS], scores[3 * OUTPUTS];
    wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = 3, .patch_values = 120, .patch = patch
    };
    wm_gpu_fake = (wm_gpu_fake_t){ .captures = captures };
    wm_cuda_t *any = engine_of (NULL, 2, precision);
    assert_int_equal (wm_cuda_score (any, &batch, right, NULL, NULL), WM_OK);
    wm_cuda_destroy (&any);
    const uint32_t calls = wm_gpu_fake.calls;
    const double start = proof_clock ();
    assert_true (calls > 30);
    const uint32_t step = precision == WM_GPU_F16 ? (uint32_t) proof_size (3, 1, 1) : 1;
    uint32_t tried = 0;
    for (uint32_t k = 1; k <= 2 * calls; k += step, tried++) {
        wm_error_t error = { 0 };
        wm_gpu_fake =
            (wm_gpu_fake_t){ .fail_at = (k + 1) / 2, .late = k % 2, .captures = captures };
        any = wm_any_new (&wm_gpu_stand_in, net, NULL, precision, 2, &error);
        wm_fault_t fault = any ? wm_cuda_score (any, &batch, scores, NULL, &error) : error.fault;
        if (fault) {
            assert_int_equal (fault, WM_EHOST);
            assert_non_null (strstr (error.text, "cudaErrorLaunchFailure"));
            if (any) {
                wm_gpu_fake.fail_at = 0;
                assert_int_equal (wm_cuda_score (any, &batch, scores, NULL, NULL), WM_EHOST);
            }
        } else {
            assert_true (wm_gpu_fake.late); /* of a call that cannot fail late */
            assert_memory_equal (scores, right, sizeof right);
        }
        wm_cuda_destroy (&any);
    }
    proof_line ("P9", tried, tried, start);
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
}

/* The same for the calls of an engine that scores a plane.  */
static void fail_each_of_a_plane (void)
{
    static float right[HITS * OUTPUTS], scores[HITS * OUTPUTS];
    wm_spec_t spec = gpu_spec (wm_model_net (model), true, WM_FULL_VIEW);
    wm_batch_t plane;
    const double start = proof_clock ();
    uint32_t tried = 0, calls = 1;
    const uint32_t step = (uint32_t) proof_size (3, 1, 1);
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    gpu_plane_new (&plane, &spec, 40, 50, HITS, 1);
    for (uint32_t k = 0; k <= 2 * calls; k += step, tried++) {
        wm_error_t error = { 0 };
        wm_gpu_fake = (wm_gpu_fake_t){ 0 };
        wm_cuda_t *any = engine (&spec, 20);
        const uint32_t made = wm_gpu_fake.calls;
        wm_gpu_fake.fail_at = k > 0 ? made + (k + 1) / 2 : 0, wm_gpu_fake.late = k % 2;
        const wm_fault_t fault = wm_cuda_score (any, &plane, k == 0 ? right : scores, NULL, &error);
        if (k == 0)
            calls = wm_gpu_fake.calls - made;
        if (fault) {
            assert_int_equal (fault, WM_EHOST);
            assert_non_null (strstr (error.text, "cudaErrorLaunchFailure"));
            wm_gpu_fake.fail_at = 0;
            assert_int_equal (wm_cuda_score (any, &plane, scores, NULL, NULL), WM_EHOST);
        } else {
            assert_true (k == 0 || wm_gpu_fake.late); /* of a call that cannot fail late */
            assert_true (k == 0 || memcmp (scores, right, sizeof right) == 0);
        }
        wm_cuda_destroy (&any);
    }
    assert_true (calls > 30);
    proof_line ("P9", tried, tried, start);
    gpu_plane_free (&plane);
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
}

static void every_failure_is_named_and_releases_nothing (void **state)
{
    fail_each_of_a_plane ();
    fail_each (WM_GPU_F32, false);
    fail_each (WM_GPU_F32, true);
    fail_each (WM_GPU_F16, false);
}

/* One convolution of these places and channels decides.  */
static uint32_t rows_of (uint32_t places, uint32_t channels, int n_sm)
{
    wm_any_net_t *one = calloc (1, sizeof *one);
    assert_non_null (one);
    one->n_step = 2;
    one->step[0] = (wm_any_step_t){ .kind = WM_ANY_CONV,
                                    .conv = { .c_in = 64,
                                              .c_out = channels,
                                              .groups = 1,
                                              .out = { places, 1 },
                                              .kernel = { 3, 3 } } };
    one->step[1] = one->step[0]; /* a dense layer of few multiply-adds is never filled */
    one->step[1].conv = (wm_gpu_anyconv_t){
        .c_in = 64, .c_out = 1, .groups = 1, .out = { 1, 1 }, .kernel = { 1, 1 }
    };
    const uint32_t rows = wm_any_rows (one, n_sm);
    free (one);
    return rows;
}

static void launches_fill_the_device (void **state)
{
    assert_int_equal (rows_of (1936, 48, 1), 64);
    assert_int_equal (rows_of (1936, 48, 132), 64); /* 968 tiles, 264 are wanted */
    assert_int_equal (rows_of (169, 64, 132), 256); /* 128: 169 tiles; 256: 338 */
    assert_int_equal (rows_of (169, 128, 132), 128);
    assert_int_equal (rows_of (169, 65, 132), 128); /* a block begun is a tile */
    assert_int_equal (rows_of (1, 64, 132), 1024);  /* never more */
    wm_cuda_t *any;
    wm_error_t error = { 0 };
    assert_non_null (any = wm_any_new (&wm_gpu_stand_in, net, NULL, WM_GPU_F32, 0, &error));
    assert_non_null (strstr (wm_cuda_signature (any), "/any64/")); /* one multiprocessor */
    wm_cuda_destroy (&any);
    assert_true (wm_any_rows (net, 132) > 64);
}

/* Scores by graphs are those step by step, in few calls; graphs that fail leave the steps.  */
static void launches_are_graphs_where_they_can_be (void **state)
{
    enum { ROWS = 8, PATCHES = 20 };
    static float patch[PATCHES * 120], scores[2][PATCHES * OUTPUTS];
    wm_error_t error = { 0 };
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = PATCHES, .patch_values = 120, .patch = patch
    };
    for (uint32_t i = 0; i < PATCHES * 120; i++)
        patch[i] = (float) (i * 7919 % 1000) / 500 - 1;
    for (int p = WM_GPU_F32; p <= WM_GPU_F16; p++)
        for (int k = 0; k < 3; k++) {
            const bool captures = k == 1; /* 2: its graphs do nothing, which is noticed */
            wm_gpu_fake = (wm_gpu_fake_t){ .captures = k > 0, .forgets = k == 2 };
            wm_cuda_t *any =
                wm_any_new (&wm_gpu_stand_in, net, NULL, (wm_gpu_precision_t) p, ROWS, &error);
            assert_non_null (any);
            assert_true (wm_any_captured (any) == captures);
            const uint32_t runs = wm_gpu_fake.graph_runs;
            assert_int_equal (wm_cuda_score (any, &batch, scores[k > 0], NULL, &error), WM_OK);
            assert_int_equal (wm_gpu_fake.graph_runs - runs, captures ? 3 : 0);
            wm_cuda_destroy (&any);
            if (k > 0)
                assert_memory_equal (scores[0], scores[1], sizeof scores[0]);
        }
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (known_answers_are_known),
        cmocka_unit_test (planes_and_groups),
        cmocka_unit_test (planes_are_cut_on_the_device),
        cmocka_unit_test (a_plane_takes_no_room_from_the_model),
        cmocka_unit_test (patches_are_taken_from_where_they_lie),
        cmocka_unit_test (batches_share_launches),
        cmocka_unit_test (planes_that_cannot_be_cut_are_refused),
        cmocka_unit_test (what_half_cannot_hold),
        cmocka_unit_test (what_half_would_lose),
        cmocka_unit_test (a_first_convolution_reads_the_patch_in_half),
        cmocka_unit_test (launches_fill_the_device),
        cmocka_unit_test (launches_are_graphs_where_they_can_be),
        cmocka_unit_test (what_a_gpu_lacks_is_said),
        cmocka_unit_test (every_failure_is_named_and_releases_nothing),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, set_up, tear_down);
}
