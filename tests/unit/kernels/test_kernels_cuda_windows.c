/* test_kernels_cuda_windows.c - our own kernels' engine on the stand-in for a GPU.

   The kernels are the product's, every thread a fiber (tests/standin/wm_gpu_fake_block.c): copies
   land late, warps run in random order, and reads of shared memory that would wait for each other
   are counted. Sizes are small: strips of 32 starts, slots of 192 rows and 256 hits, so that planes
   take several strips and slots.  */
#include "kernels/gpu/wm_cuda.h"
#include "kernels/gpu/wm_gpu_dense.cuh"
#include "tests/gpu/gpu_net.h"
#include "tests/proof.h"
#include "tests/standin/wm_gpu_fake.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HITS 300u

/* Segments of several positions, of one, of part of one (64 filters); conv rows that do not fill
   the splits.  */
static const gpu_shape_t narrow = { 12, 10, 1, 1, { 8 }, { 5 }, 16, 8, 3, false };
static const gpu_shape_t usual = { 14, 12, 1, 1, { 48 }, { 5 }, 128, 32, 1, false };
static const gpu_shape_t deep = { 9, 11, 1, 1, { 64 }, { 3 }, 40, 8, 1, true };
static const gpu_shape_t broad = { 5, 60, 1, 1, { 48 }, { 3 }, 40, 8, 1, false };
static const gpu_shape_t tall = { 32, 20, 1, 1, { 8 }, { 5 }, 16, 8, 1, false }; /* 7 rows a band */
static const gpu_shape_t full = { 8, 68, 1, 1, { 8 }, { 5 }, 16, 8, 1, false };  /* 64 positions */
/* By wm_gpu_precision_t. Split is off by 2.4e-7 on 14 planes of the small networks, by 4.5e-7 on
   2,000 hits of the real one; by 1.2e-6 where tensor cores, which cut off, sum over all
   positions.  */
static const double tolerance[] = { 1e-5, 0, 1e-3, 7e-7 };
static const wm_gpu_precision_t precisions[] = { WM_GPU_F32, WM_GPU_F16, WM_GPU_SPLIT };
static uint32_t strip = 32; /* starts of a strip; 0: as the product has it */
static uint32_t bands;      /* of a window's rows; 0: as the product has it */
static bool without_wide;   /* not by Hopper's instructions */

static wm_cuda_t *engine_of (const wm_net_t *net, const wm_spec_t *spec,
                             wm_gpu_precision_t precision, wm_error_t *error)
{
    wm_cuda_config_t config = { .precision = precision,
                                .plain = without_wide,
                                .hits = 256,
                                .cells = 40000,
                                .starts = strip,
                                .height = 192,
                                .bands = bands };
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

static void refuse (const wm_net_t *net, const wm_spec_t *spec, wm_gpu_precision_t precision,
                    wm_fault_t fault, const char *text)
{
    wm_error_t error = { 0 };
    assert_null (engine_of (net, spec, precision, &error));
    assert_int_equal (error.fault, fault);
    if (!strstr (error.text, text))
        fail_msg ("'%s' lacks '%s'", error.text, text);
}

static void reset (void)
{
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
}

static void nothing_is_wrong_beside (void)
{
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
    assert_int_equal (wm_gpu_fake.bank_conflicts, 0);
    assert_int_equal (wm_gpu_fake.ranges, 0);
}

/* The columns of a batch in memory, as wm_batch_reserve lays them.  */
static void *lie (char **at, const void *column, size_t n)
{
    void *here = *at;
    memcpy (here, column, n * 4);
    *at += n * 4;
    return here;
}

static void lie_in (wm_batch_t *self, const wm_batch_t *batch, char *memory)
{
    *self = *batch;
    if (batch->kind == WM_BATCH_PATCHES) {
        self->patch = lie (&memory, batch->patch, (size_t) batch->n_hit * batch->patch_values);
        return;
    }
    self->run_wire = lie (&memory, batch->run_wire, batch->n_run);
    self->run_first = lie (&memory, batch->run_first, batch->n_run);
    self->run_length = lie (&memory, batch->run_length, batch->n_run);
    self->hit_wire = lie (&memory, batch->hit_wire, batch->n_hit);
    self->hit_col = lie (&memory, batch->hit_col, batch->n_hit);
    self->value = lie (&memory, batch->value, batch->n_value);
}

/* ---- right answers --------------------------------------------------------------------------- */

static void agree (const gpu_shape_t *shape, wm_spec_view_t view, wm_gpu_precision_t precision,
                   uint32_t n_hit, uint32_t n_wire, uint32_t n_col)
{
    float *scores = calloc (n_hit * GPU_OUTPUTS, sizeof *scores);
    double allowed;
    wm_net_t *net = gpu_net_new (shape, 1);
    wm_spec_t spec = gpu_spec (net, view == WM_FULL_VIEW, view);
    wm_batch_t batch;
    gpu_plane_new (&batch, &spec, n_wire, n_col, n_hit, 1);
    wm_cuda_t *cuda = engine (net, &spec, precision);
    assert_non_null (strstr (wm_cuda_signature (cuda), "/v5"));
    _Atomic uint64_t progress = 0;
    for (int round = 0; round < 2; round++) { /* a plane leaves nothing behind for the next */
        memset (scores, 0xff, n_hit * GPU_OUTPUTS * sizeof *scores);
        assert_int_equal (wm_cuda_score (cuda, &batch, scores, &progress, NULL), WM_OK);
        double worst = gpu_worst (net, &spec, &batch, scores, 1);
        if (!(worst <= tolerance[precision]))
            fail_msg ("precision %d, %u filters: off by %g", precision, net->conv[0].c_out, worst);
        gpu_plane_free (&batch);
        gpu_plane_new (&batch, &spec, 50, 66, n_hit, 2);
    }
    assert_int_equal (progress, 2 * n_hit);
    const double residual = wm_cuda_residual (cuda, &allowed);
    assert_true (residual > 0 && residual < allowed / 2);
    gpu_plane_free (&batch);
    wm_cuda_destroy (&cuda);
    assert_null (cuda);
    gpu_net_destroy (&net);
    free (scores);
    nothing_is_wrong_beside ();
}

static void planes_agree_with_double (void **state)
{
    const uint32_t hits = (uint32_t) proof_size (90, HITS, HITS);
    reset ();
    for (int p = 0; p < 3; p++) {
        agree (&usual, WM_FULL_VIEW, precisions[p], hits, 60, 70);
        without_wide = true;
        agree (&usual, WM_FULL_VIEW, precisions[p], hits, 60, 70);
        without_wide = false;
        agree (&narrow, WM_FULL_VIEW, precisions[p], hits, 60, 70);
        agree (&full, WM_FULL_VIEW, precisions[p], 40, 60, 70);
        agree (&tall, WM_FULL_VIEW, precisions[p], hits, 60, 70);
        agree (&deep, WM_FULL_VIEW, precisions[p], hits, 60, 70);
    }
    agree (&usual, WM_OWN_VIEW, WM_GPU_F16, 90, 60, 70);
    agree (&usual, WM_FULL_VIEW, WM_GPU_F16, 90, 300, 70);   /* taller than a slot */
    agree (&narrow, WM_FULL_VIEW, WM_GPU_F16, 90, 300, 200); /* cut on the host */
    for (bands = 3; bands > 0; bands--)
        agree (&tall, WM_FULL_VIEW, WM_GPU_SPLIT, 90, 60, 70);
}

/* Windows begin in every word of a row of the maps, behind words that have entries, too.  */
static void strips_of_many_words_agree_with_double (void **state)
{
    const uint32_t hits = (uint32_t) proof_size (90, HITS, HITS);
    reset ();
    strip = 0;
    for (int p = 0; p < 6; p++) {
        without_wide = p % 2;
        agree (&usual, WM_FULL_VIEW, precisions[p / 2], hits, 60, 300);
        agree (&broad, WM_FULL_VIEW, precisions[p / 2], 90, 60, 300); /* three words */
    }
    strip = 32, without_wide = false;
}

/* The same bits with the shared memory of an H100, an A100, an RTX 4090 and a T4.  */
static void every_size_of_shared_memory_does (void **state)
{
    static const size_t bytes[] = { 232448, 166912, 101376, 65536 };
    static float scores[4][HITS * GPU_OUTPUTS];
    wm_net_t *net = gpu_net_new (&usual, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t batch;
    gpu_plane_new (&batch, &spec, 60, 70, HITS, 1);
    without_wide = true; /* which has other bits, and one size */
    static const char *const tile[][4] = { { "128 hits", "128 hits", "128 hits", "128 hits" },
                                           { "256 hits", "256 hits", "256 hits", "128 hits" },
                                           { "128 hits", "128 hits", "64 hits" } };
    for (int i = 0; i < 12; i++) {
        reset ();
        wm_gpu_fake.shared_bytes = bytes[i % 4];
        if (!tile[i / 4][i % 4]) {
            refuse (net, &spec, precisions[i / 4], WM_EBATCH, "64 KiB of shared memory");
            continue;
        }
        wm_cuda_t *cuda = engine (net, &spec, precisions[i / 4]);
        if (!strstr (wm_cuda_choice (cuda), tile[i / 4][i % 4]))
            fail_msg ("%zu bytes, precision %d: %s", bytes[i % 4], precisions[i / 4],
                      wm_cuda_choice (cuda));
        assert_int_equal (wm_cuda_score (cuda, &batch, scores[i % 4], NULL, NULL), WM_OK);
        assert_memory_equal (scores[i % 4], scores[0], sizeof scores[0]);
        wm_cuda_destroy (&cuda);
        nothing_is_wrong_beside ();
    }
    without_wide = false;
    gpu_plane_free (&batch);
    gpu_net_destroy (&net);
}

/* Hits of the network that the field uses; in `make test` test_kernels_cuda_event judges it.  */
static void the_real_network_agrees_with_double (void **state)
{
    const uint32_t hits = (uint32_t) proof_size (0, 64, 2000), n_wire = 120;
    if (!hits)
        skip ();
    reset ();
    agree (&gpu_shape_real, WM_FULL_VIEW, WM_GPU_F16, hits, n_wire, 90);
    agree (&gpu_shape_real, WM_FULL_VIEW, WM_GPU_SPLIT, hits, n_wire, 90);
    agree (&gpu_shape_real, WM_FULL_VIEW, WM_GPU_F32, hits, n_wire, 90);
}

static void bits_do_not_depend_on_grouping (void **state)
{
    reset ();
    static float all[HITS * GPU_OUTPUTS], parts[HITS * GPU_OUTPUTS];
    wm_net_t *net = gpu_net_new (&usual, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t plane, part[40];
    const wm_batch_t *part_p[40];
    float *scores_p[40];
    gpu_plane_new (&plane, &spec, 60, 70, HITS, 1);
    wm_batch_t patches = gpu_patches (net, &spec, &plane);
    for (int p = 0; p < 3; p++) {
        uint32_t parts_n = 0;
        wm_cuda_t *cuda = engine (net, &spec, precisions[p]);
        assert_int_equal (wm_cuda_score (cuda, &plane, all, NULL, NULL), WM_OK);
        for (uint32_t i = 0, n = 1; i < HITS; i += n, n = n * 5 % 37 + 1) {
            n = n < HITS - i ? n : HITS - i;
            part[parts_n] = gpu_slice (n % 2 ? &plane : &patches, i, n);
            part_p[parts_n] = &part[parts_n], scores_p[parts_n] = parts + i * GPU_OUTPUTS;
            assert_int_equal (wm_cuda_score (cuda, &part[parts_n], scores_p[parts_n], NULL, NULL),
                              WM_OK);
            parts_n++;
        }
        assert_memory_equal (all, parts, sizeof all);
        memset (parts, 0, sizeof parts);
        const uint32_t runs = wm_gpu_fake.graph_runs; /* batches together: few launches */
        assert_int_equal (wm_cuda_score_many (cuda, parts_n, part_p, scores_p, NULL, NULL), WM_OK);
        assert_memory_equal (all, parts, sizeof all);
        assert_true (wm_gpu_fake.graph_runs - runs < parts_n);
        wm_cuda_destroy (&cuda);
    }
    free (patches.patch);
    gpu_plane_free (&plane);
    gpu_net_destroy (&net);
    nothing_is_wrong_beside ();
}

/* Jobs that are submitted while others compute, on a GPU that works at random times: each comes
   back once, in some order, with the bits that it has alone; one that is refused spoils none.  */
static void jobs_come_back_once (void **state)
{
    enum { JOBS = 24, EACH = HITS / JOBS };
    static float all[HITS * GPU_OUTPUTS], parts[HITS * GPU_OUTPUTS];
    wm_net_t *net = gpu_net_new (&narrow, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t plane, part[JOBS];
    gpu_plane_new (&plane, &spec, 60, 70, JOBS * EACH, 1);
    wm_batch_t patches = gpu_patches (net, &spec, &plane);
    for (uint64_t seed = 1; seed <= proof_size (3, 30, 300); seed++) {
        reset ();
        wm_cuda_t *cuda = engine (net, &spec, WM_GPU_F16);
        assert_int_equal (wm_cuda_score (cuda, &plane, all, NULL, NULL), WM_OK);
        wm_gpu_fake.restless = seed;
        wm_job_t job[JOBS] = { { 0 } }, *job_p[JOBS], *done;
        uint32_t n_submitted = 0, n_collected = 0, round = 0;
        _Atomic uint64_t progress = 0;
        memset (parts, 0xff, sizeof parts);
        while (n_collected < JOBS) {
            const uint32_t n = (uint32_t) (seed + round * round) % 5; /* some calls submit none */
            round++;
            for (uint32_t i = n_submitted; i < JOBS && i < n_submitted + n; i++) {
                part[i] = gpu_slice (i % 3 ? &plane : &patches, i * EACH, EACH);
                if (i == 7)
                    part[i].kind = WM_BATCH_TICKS; /* not of this view */
                job[i] = (wm_job_t){ .batch = &part[i],
                                     .scores = parts + i * EACH * GPU_OUTPUTS,
                                     .n_left = EACH,
                                     .progress = &progress };
                job_p[i] = &job[i];
            }
            const uint32_t end = n_submitted + n < JOBS ? n_submitted + n : JOBS;
            assert_int_equal (wm_cuda_submit (cuda, end - n_submitted, job_p + n_submitted, NULL),
                              WM_OK);
            n_submitted = end;
            assert_int_equal (wm_cuda_collect (cuda, &done, NULL), WM_OK);
            if (!done) {
                assert_int_equal (n_collected, n_submitted); /* none is kept back */
                continue;
            }
            const uint32_t i = (uint32_t) (done - job);
            assert_ptr_equal (done->batch, &part[i]);
            done->batch = NULL; /* once */
            assert_int_equal (done->error.fault, i == 7 ? WM_EBATCH : WM_OK);
            if (i != 7)
                assert_memory_equal (done->scores, all + i * EACH * GPU_OUTPUTS,
                                     EACH * GPU_OUTPUTS * sizeof *all);
            n_collected++;
        }
        assert_int_equal (progress, (JOBS - 1) * EACH);
        assert_int_equal (wm_cuda_collect (cuda, &done, NULL), WM_OK);
        assert_null (done);
        wm_cuda_destroy (&cuda);
        nothing_is_wrong_beside ();
    }
    free (patches.patch);
    gpu_plane_free (&plane);
    gpu_net_destroy (&net);
}

/* The stand-in: work of two streams on the same memory that nothing orders is an error, whatever
   comes first; with an event, or a wait of the host, it is none.  */
static void what_nothing_orders_is_an_error (void **state)
{
    static const char *const calls[] = { "nothing", "event", "host", "late event", "reads" };
    const wm_gpu_api_t *api = &wm_gpu_stand_in;
    for (int i = 0; i < 5; i++) {
        wm_gpu_info_t info;
        void *gpu = api->make (), *load, *other, *event, *d_p, *h_p, *h_to;
        reset ();
        assert_null (api->open (gpu, &info));
        assert_null (api->stream_new (gpu, &load, true));
        assert_null (api->stream_new (gpu, &other, false));
        assert_null (api->event_new (gpu, &event, false));
        assert_null (api->device_new (gpu, &d_p, 64));
        assert_null (api->pinned_new (gpu, &h_p, 64));
        assert_null (api->pinned_new (gpu, &h_to, 64));
        memset (h_p, 0, 64);
        if (i == 3) /* it was recorded too early */
            assert_null (api->event_record (gpu, event, load));
        assert_null (api->copy_in (gpu, d_p, h_p, 64, load));
        if (i == 1 || i == 4)
            assert_null (api->event_record (gpu, event, load));
        if (i == 2)
            assert_null (api->stream_sync (gpu, load));
        else if (i > 0)
            assert_null (api->stream_wait (gpu, other, event));
        wm_gpu_fill_t args = { d_p, 16, 1 };
        const wm_gpu_launch_t fill = { WM_GPU_FILL, 1, 32, 0, &args };
        wm_gpu_text_t text =
            i == 4 ? api->copy_out (gpu, h_to, d_p, 64, other) : api->launch (gpu, &fill, other);
        const bool races = i == 0 || i == 3;
        if (races != (text != NULL))
            fail_msg ("%s: %s", calls[i], text ? text : "no error");
        assert_true (!races || strstr (text, "a write that nothing orders"));
        if (i == 4) { /* a write behind a read of another stream */
            text = api->launch (gpu, &fill, load);
            assert_true (text && strstr (text, "a write that nothing orders"));
        }
        if (i == 1) { /* a read behind a write of another stream */
            text = api->copy_out (gpu, h_to, d_p, 64, load);
            assert_true (text && strstr (text, "a read that nothing orders"));
        }
        api->destroy (gpu);
    }
}

/* A batch in memory that was pinned where it lies, or cannot be: the same bits. Patches are copied
   from there; the columns of planes are gathered for one copy.  */
static void lend_and_compare (wm_spec_view_t view, bool refused)
{
    enum { FEW = 40 };
    static float plain[FEW * GPU_OUTPUTS], lent[FEW * GPU_OUTPUTS];
    wm_error_t error = { 0 };
    wm_net_t *net = gpu_net_new (&narrow, 1);
    wm_spec_t spec = gpu_spec (net, true, view);
    wm_batch_t plane, lying = { 0 };
    reset ();
    wm_gpu_fake.pins_nothing = refused;
    gpu_plane_new (&plane, &spec, 60, 70, FEW, 1);
    wm_batch_t patches = gpu_patches (net, &spec, &plane), *batch[] = { &plane, &patches };
    wm_cuda_t *cuda = engine (net, &spec, WM_GPU_F16);
    char *memory = calloc (1, 4 << 20);
    assert_int_equal (wm_cuda_lend (cuda, memory, 4 << 20, &error), refused ? WM_EHOST : WM_OK);
    assert_true (!refused == !strstr (error.text, "cudaErrorNotSupported"));
    for (int b = 0; b < 2; b++) {
        assert_int_equal (wm_cuda_score (cuda, batch[b], plain, NULL, NULL), WM_OK);
        assert_true (wm_gpu_fake.lent_bytes == 0);
        lie_in (&lying, batch[b], memory);
        assert_int_equal (wm_cuda_score (cuda, &lying, lent, NULL, NULL), WM_OK);
        assert_memory_equal (lent, plain, sizeof plain);
        assert_true ((wm_gpu_fake.lent_bytes > 0) == (!refused && b == 1));
        wm_gpu_fake.lent_bytes = 0;
    }
    wm_cuda_destroy (&cuda);
    free (memory);
    free (patches.patch);
    gpu_plane_free (&plane);
    gpu_net_destroy (&net);
    nothing_is_wrong_beside ();
}

static void batches_are_taken_from_where_they_lie (void **state)
{
    lend_and_compare (WM_FULL_VIEW, false);
    lend_and_compare (WM_FULL_VIEW, true);
    lend_and_compare (WM_OWN_VIEW, false);
}

static void values_that_cannot_be_computed_hold_their_patch_only (void **state)
{
    reset ();
    const uint32_t n = 14 * 12;
    static float patch[4 * 14 * 12], scores[4 * GPU_OUTPUTS];
    wm_net_t *net = gpu_net_new (&usual, 1);
    for (uint32_t i = 0; i < 4 * n; i++)
        patch[i] = (float) (i % 7) / 7;
    patch[n] = NAN, patch[3 * n - 1] = 1e30f;
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES, .n_hit = 4, .patch_values = n, .patch = patch };
    for (int p = 0; p < 3; p++) {
        wm_cuda_t *cuda = engine (net, NULL, precisions[p]);
        assert_int_equal (wm_cuda_score (cuda, &batch, scores, NULL, NULL), WM_OK);
        for (uint32_t k = 0; k < GPU_OUTPUTS; k++) {
            assert_true (isfinite (scores[k]) && isfinite (scores[3 * GPU_OUTPUTS + k]));
            assert_true (isnan (scores[GPU_OUTPUTS + k]));
            /* Strict fp32 holds what the CPU holds.  */
            assert_int_equal (isnan (scores[2 * GPU_OUTPUTS + k]), precisions[p] != WM_GPU_F32);
        }
        wm_cuda_destroy (&cuda);
    }
    gpu_net_destroy (&net);
    nothing_is_wrong_beside ();
}

static void an_engine_that_is_timed_gives_the_same_bits (void **state)
{
    reset ();
    static float scores[HITS * GPU_OUTPUTS], timed[HITS * GPU_OUTPUTS];
    double ms[WM_CUDA_STAGES];
    wm_error_t error = { 0 };
    wm_net_t *net = gpu_net_new (&usual, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t batch, none;
    gpu_plane_new (&batch, &spec, 60, 70, HITS, 1);
    none = gpu_slice (&batch, 0, 0);
    wm_cuda_t *cuda = engine (net, &spec, WM_GPU_F16);
    assert_int_equal (wm_cuda_score (cuda, &none, NULL, NULL, NULL), WM_OK);
    assert_int_equal (wm_cuda_score (cuda, &batch, scores, NULL, NULL), WM_OK);
    wm_cuda_destroy (&cuda);
    wm_cuda_config_t config = { .precision = WM_GPU_F16,
                                .hits = 256,
                                .timed = true,
                                .cells = 40000,
                                .starts = 32,
                                .height = 192 };
    cuda = wm_cuda_new (&wm_gpu_stand_in, net, &spec, &config, &error);
    assert_non_null (cuda);
    assert_int_equal (wm_cuda_score (cuda, &batch, timed, NULL, NULL), WM_OK);
    assert_memory_equal (scores, timed, sizeof scores);
    wm_cuda_times (cuda, ms);
    for (int s = 0; s < WM_CUDA_STAGES; s++) /* the stand-in's clock: 1 ms each */
        assert_true (ms[s] >= 2 && ms[s] == ms[0]);
    wm_cuda_destroy (&cuda);
    cuda = engine (net, NULL, WM_GPU_F16);
    assert_int_equal (wm_cuda_score (cuda, &batch, timed, NULL, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "no specification"));
    wm_cuda_destroy (&cuda);
    gpu_plane_free (&batch);
    gpu_net_destroy (&net);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void what_cannot_be_run_is_refused_by_name (void **state)
{
    reset ();
    wm_net_t *net = gpu_net_new (&usual, 1), other = *net;
    wm_spec_t spec = gpu_spec (net, false, WM_FULL_VIEW);
    refuse (net, &spec, WM_GPU_TF32, WM_EBATCH, "no tf32");
    other.n_conv = 2;
    refuse (&other, &spec, WM_GPU_F16, WM_EBATCH, "one convolution");
    other = *net, other.conv[0].act = WM_ACT_TANH;
    refuse (&other, &spec, WM_GPU_F16, WM_EBATCH, "ReLU or nothing behind the convolution");
    other = *net, other.conv[0].c_out = 50;
    refuse (&other, &spec, WM_GPU_F16, WM_EBATCH, "multiple of 8");
    other = *net, other.conv[0].kw = 33;
    refuse (&other, &spec, WM_GPU_F16, WM_EBATCH, "wider than 32 columns");
    other = *net, other.width = 80;
    refuse (&other, NULL, WM_GPU_F16, WM_EBATCH, "wider than 64");
    other = *net, other.dense[0].n_out = 129;
    refuse (&other, &spec, WM_GPU_F16, WM_EBATCH, "more than 128 outputs");
    wm_spec_t cut = spec;
    cut.n_channel = 2, cut.patch_bin /= 2; /* as many values */
    refuse (net, &cut, WM_GPU_F16, WM_EBATCH, "the specification's is 2 x ");
    cut.n_channel = 1, cut.patch_wire *= 2;
    refuse (net, &cut, WM_GPU_F16, WM_EBATCH, "the specification's is 1 x ");
    float *weight = (float *) net->dense[0].weight, first[2] = { weight[0], weight[1] };
    weight[0] = 60000, weight[1] = -60000;
    refuse (net, &spec, WM_GPU_F16, WM_EBATCH, "input 0 of the first dense layer add up");
    weight[0] = first[0], weight[1] = first[1];
    weight = (float *) net->conv[0].weight, first[0] = weight[7];
    weight[7] = 20000; /* 4 times as much with this specification */
    refuse (net, &spec, WM_GPU_F16, WM_EBATCH, "half precision ends at 65,504, and convolution 0");
    wm_cuda_t *strict = engine (net, &spec, WM_GPU_F32);
    wm_cuda_destroy (&strict);
    weight[7] = 70000;
    refuse (net, &spec, WM_GPU_F16, WM_EBATCH, "a weight of 7e+04");
    weight[7] = first[0];
    other = *net, other.dense[1].n_out = 9000;
    refuse (&other, NULL, WM_GPU_F32, WM_EBATCH, "8192 outputs together");
    wm_gpu_fake.absent = true;
    refuse (net, &spec, WM_GPU_F32, WM_EHOST, "no NVIDIA GPU");
    wm_gpu_fake.absent = false;
    wm_gpu_fake.free_bytes = 1 << 20;
    refuse (net, &spec, WM_GPU_F16, WM_EHOST, "no room for a patch");
    wm_gpu_fake.free_bytes = 13 << 20; /* fewer rows, and the same scores */
    static float scores[2][HITS * GPU_OUTPUTS];
    wm_batch_t batch;
    gpu_plane_new (&batch, &spec, 60, 70, HITS, 1);
    for (int i = 0; i < 2; i++) {
        wm_cuda_t *cuda = engine (net, &spec, WM_GPU_F16);
        assert_int_equal (wm_cuda_score (cuda, &batch, scores[i], NULL, NULL), WM_OK);
        wm_cuda_destroy (&cuda);
        wm_gpu_fake.free_bytes = 0;
    }
    assert_memory_equal (scores[0], scores[1], sizeof scores[0]);
    gpu_plane_free (&batch);
    gpu_net_destroy (&net);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* A bit of a sum flips on its way: no score is released, and the engine is dead.  */
static void a_wrong_sum_is_caught_by_its_checksum (void **state)
{
    reset ();
    static float scores[HITS * GPU_OUTPUTS];
    wm_error_t error = { 0 };
    wm_net_t *net = gpu_net_new (&usual, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t batch;
    gpu_plane_new (&batch, &spec, 60, 70, HITS, 1);
    memset (scores, 0x55, sizeof scores);
    wm_cuda_t *cuda = engine (net, &spec, WM_GPU_F16);
    wm_gpu_fake.flip_launch = wm_gpu_fake.dense_launches + 1;
    assert_int_equal (wm_cuda_score (cuda, &batch, scores, NULL, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "checksum of the first dense layer"));
    assert_int_equal (wm_cuda_score (cuda, &batch, scores, NULL, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "checksum of the first dense layer"));
    for (uint32_t i = 0; i < 4 * HITS * GPU_OUTPUTS; i++)
        assert_int_equal (((uint8_t *) scores)[i], 0x55);
    wm_cuda_destroy (&cuda);
    gpu_plane_free (&batch);
    gpu_net_destroy (&net);
}

/* One engine from start to end with a failure at call k. Returns whether the failure showed.  */
static bool run_failing (const wm_net_t *net, const wm_spec_t *spec, const wm_batch_t *batch,
                         const float *right, uint32_t rounds, uint32_t k, bool late)
{
    static float scores[HITS * GPU_OUTPUTS];
    wm_error_t error = { 0 };
    reset ();
    wm_gpu_fake.fail_at = k, wm_gpu_fake.late = late;
    wm_cuda_t *cuda = engine_of (net, spec, WM_GPU_F16, &error);
    bool failed = !cuda;
    for (uint32_t round = 0; round < rounds && !failed; round++) {
        memset (scores, 0, sizeof scores);
        failed = wm_cuda_score (cuda, batch, scores, NULL, &error) != WM_OK;
        if (!failed)
            assert_memory_equal (scores, right, batch->n_hit * GPU_OUTPUTS * sizeof *scores);
    }
    if (cuda && failed) {
        wm_error_t again = { 0 };
        wm_gpu_fake.fail_at = 0; /* an engine that failed stays so, though the GPU works again */
        assert_int_equal (wm_cuda_score (cuda, batch, scores, NULL, &again), WM_EHOST);
        assert_non_null (strstr (again.text, "cudaErrorLaunchFailure"));
    }
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
    reset ();
    static float right[HITS * GPU_OUTPUTS];
    const uint32_t rounds = (uint32_t) proof_size (7, 28, 28); /* batches of an engine */
    wm_net_t *net = gpu_net_new (&narrow, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t batch;
    gpu_plane_new (&batch, &spec, 20, 24, 24, 1);
    wm_cuda_t *cuda = engine (net, &spec, WM_GPU_F16);
    for (uint32_t round = 0; round < rounds; round++)
        assert_int_equal (wm_cuda_score (cuda, &batch, right, NULL, NULL), WM_OK);
    wm_cuda_destroy (&cuda);
    const uint32_t calls = wm_gpu_fake.calls;
    assert_true (calls >= 12 * rounds);
    uint32_t tried = 0, late = 0;
    for (uint32_t k = 1; k <= calls; k += k < 60 ? 1 : (uint32_t) proof_size (6, 1, 1), tried++) {
        if (!run_failing (net, &spec, &batch, right, rounds, k, false))
            fail_msg ("call %u of %u failed, and no score or error showed it", k, calls);
        late += run_failing (net, &spec, &batch, right, rounds, k, true);
    }
    assert_true (late > tried / 6); /* copies and launches; other calls cannot fail late */
    assert_false (run_failing (net, &spec, &batch, right, rounds, calls + 1, false));
    gpu_plane_free (&batch);
    gpu_net_destroy (&net);
}

/* ---- what shows mistakes --------------------------------------------------------------------- */

/* Behind the words that a window touches lies memory that may never be read.  */
static void a_window_reads_only_the_words_that_it_touches (void **state)
{
    const size_t page = (size_t) sysconf (_SC_PAGESIZE);
    char *active =
        mmap (NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true (active != MAP_FAILED);
    char *index = active + 2 * page;
    assert_int_equal (mprotect (active + page, page, PROT_NONE), 0);
    assert_int_equal (mprotect (index + page, page, PROT_NONE), 0);
    for (uint32_t col = 0; col < 32; col++)
        for (uint32_t count = 1; count <= 64; count++) {
            const uint32_t n = (col + count + 31) / 32;
            uint32_t *word = (uint32_t *) (void *) (active + page) - n,
                     *first = (uint32_t *) (void *) (index + page) - n;
            memset (word, 0xff, n * sizeof *word);
            assert_true (wm_gpu_bits (word, col, count) == ~UINT64_C (0) >> (64 - count));
            const uint32_t last = col + count - 1; /* the only active position */
            memset (word, 0, n * sizeof *word);
            memset (first, 0xff, n * sizeof *first);
            word[last / 32] = 1u << last % 32, first[last / 32] = 7;
            const wm_gpu_dense_t args = { .active = word, .index = first };
            assert_true (wm_gpu_bits (word, col, count) == UINT64_C (1) << (count - 1));
            assert_int_equal (wm_gpu_dense_entry (&args, 0, col), 7);
        }
    munmap (active, 4 * page);
}

/* Scores, guards, bank conflicts and the checksum's tolerance of one engine: the mistakes of
   tests/plants show here.  */
static void a_small_engine_is_right_throughout (void **state)
{
    static float scores[HITS * GPU_OUTPUTS];
    double allowed;
    wm_net_t *net = gpu_net_new (&usual, 1);
    wm_spec_t spec = gpu_spec (net, true, WM_FULL_VIEW);
    wm_batch_t batch;
    reset ();
    gpu_plane_new (&batch, &spec, 60, 70, HITS, 1);
    wm_cuda_t *cuda = engine (net, &spec, WM_GPU_F16);
    wm_cuda_residual (cuda, &allowed);
    assert_true (allowed < 0x1p-20);
    memset (scores, 0xff, sizeof scores);
    assert_int_equal (wm_cuda_score (cuda, &batch, scores, NULL, NULL), WM_OK);
    assert_true (gpu_worst (net, &spec, &batch, scores, 1) <= tolerance[WM_GPU_F16]);
    wm_cuda_destroy (&cuda);
    gpu_plane_free (&batch);
    gpu_net_destroy (&net);
    nothing_is_wrong_beside ();
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (planes_agree_with_double),
        cmocka_unit_test (strips_of_many_words_agree_with_double),
        cmocka_unit_test (every_size_of_shared_memory_does),
        cmocka_unit_test (the_real_network_agrees_with_double),
        cmocka_unit_test (bits_do_not_depend_on_grouping),
        cmocka_unit_test (jobs_come_back_once),
        cmocka_unit_test (what_nothing_orders_is_an_error),
        cmocka_unit_test (batches_are_taken_from_where_they_lie),
        cmocka_unit_test (values_that_cannot_be_computed_hold_their_patch_only),
        cmocka_unit_test (an_engine_that_is_timed_gives_the_same_bits),
        cmocka_unit_test (what_cannot_be_run_is_refused_by_name),
        cmocka_unit_test (a_wrong_sum_is_caught_by_its_checksum),
        cmocka_unit_test (every_failure_is_named_and_releases_nothing),
        cmocka_unit_test (a_window_reads_only_the_words_that_it_touches),
        cmocka_unit_test (a_small_engine_is_right_throughout),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
