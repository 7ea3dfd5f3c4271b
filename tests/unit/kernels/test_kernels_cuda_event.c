/* test_kernels_cuda_event.c - a whole event through the CUDA engine on the stand-in for a GPU.

   The real event where it is at hand (../shared), else one of `wiremill synth`: our kernels in
   every precision, in the sizes that the product takes, against the reference in double. `make
   soak` takes every hit, `make proof` 300 of them, `make test` a few. From `make proof` on the same
   network by cuDNN's steps, too.  */
#include "kernels/cudnn/wm_any.h"
#include "kernels/cudnn/wm_any_net.h"
#include "kernels/gpu/wm_cuda.h"
#include "kernels/judge/wm_reference.h"
#include "producer/layouts/wm_reader.h"
#include "tests/gpu/gpu_event.h"
#include "tests/gpu/gpu_floor.h"
#include "tests/gpu/gpu_net.h"
#include "tests/proof.h"
#include "tests/standin/wm_gpu_fake.h"
#include "tests/unit/unit.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REAL "../shared/data/protodune-hd/pdhd_run27409_evt40896_apa1.h5"
#define SYNTHETIC_HITS 20000.
#define ROOM ((size_t) 6 << 30) /* bytes of the GPU where launches are counted */

static gpu_event_t event;
static float *want; /* (event.n_hit, GPU_OUTPUTS) */
static wm_net_t *net;
static wm_spec_t spec;

static void read_event (void)
{
    wm_event_t read = { 0 };
    wm_error_t error = { 0 };
    if (access (REAL, R_OK)) {
        print_message ("%s is not here: a synthetic event\n", REAL);
        gpu_event_new (&event, &spec, SYNTHETIC_HITS, 1, 1);
        return;
    }
    wm_reader_t *reader = wm_reader_open (REAL, &spec, &error);
    if (!reader || wm_reader_event (reader, 0, &read, &error))
        fail_msg ("%s", error.text);
    gpu_event_cut (&event, &spec, &read);
    wm_reader_destroy (&reader);
    wm_event_clear (&read);
}

/* Keeps about `n` hits, evenly over the planes.  */
static void thin (unsigned long n)
{
    const uint32_t step = event.n_hit > n ? (uint32_t) (event.n_hit / n) : 1;
    event.n_hit = 0;
    for (uint32_t b = 0; b < event.n_batch; b++) {
        wm_batch_t *batch = &event.batch[b];
        uint32_t kept = 0;
        for (uint32_t i = 0; i < batch->n_hit; i += step, kept++) {
            batch->hit_wire[kept] = batch->hit_wire[i];
            batch->hit_col[kept] = batch->hit_col[i];
        }
        event.n_hit += batch->n_hit = kept;
    }
}

static int set_up (void **state)
{
    const double start = proof_clock ();
    net = gpu_net_new (&gpu_shape_real, 1);
    if (wm_spec_preset (&spec, "protodune-2021", NULL))
        return -1;
    spec.lifetime = WM_LIFETIME_NONE;
    read_event ();
    const uint32_t all = event.n_hit;
    thin (proof_size (12, 300, ULONG_MAX));
    float *patch = calloc ((size_t) net->height * net->width, sizeof *patch), *to;
    wm_reference_t *reference = wm_reference_new (net);
    want = to = calloc (event.n_hit, GPU_OUTPUTS * sizeof *want);
    for (uint32_t b = 0; b < event.n_batch && to && patch && reference; b++)
        for (uint32_t i = 0; i < event.batch[b].n_hit; i++, to += GPU_OUTPUTS) {
            wm_image_patch_reference (&spec, &event.batch[b], i, patch);
            wm_reference_run (reference, patch, 1, to, GPU_OUTPUTS);
        }
    wm_reference_destroy (&reference);
    free (patch);
    print_message ("%u hits of %u in %u batches, judged in double in %.0f s\n", event.n_hit, all,
                   event.n_batch, proof_clock () - start);
    return to ? 0 : -1;
}

static int tear_down (void **state)
{
    gpu_event_free (&event);
    gpu_net_destroy (&net);
    free (want);
    return 0;
}

/* By our kernels, or by the steps that go to cuDNN.  */
static void agree (bool ours, wm_gpu_precision_t precision, double tolerance)
{
    const wm_cuda_config_t config = { .precision = precision };
    const double start = proof_clock ();
    wm_error_t error = { 0 };
    const wm_batch_t **batch = calloc (event.n_batch, sizeof *batch);
    float *scores = calloc (event.n_hit, GPU_OUTPUTS * sizeof *scores), *at = scores,
          **to = calloc (event.n_batch, sizeof *to);
    double worst = 0;
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    wm_any_net_t *steps = ours ? NULL : wm_any_family_new (net, precision == WM_GPU_F32, &error);
    wm_cuda_t *cuda = ours    ? wm_cuda_new (&wm_gpu_stand_in, net, &spec, &config, &error)
                      : steps ? wm_any_new (&wm_gpu_stand_in, steps, &spec, precision, 0, &error)
                              : NULL;
    for (uint32_t b = 0; b < event.n_batch; at += event.batch[b++].n_hit * GPU_OUTPUTS)
        batch[b] = &event.batch[b], to[b] = at;
    if (!cuda || wm_cuda_score_many (cuda, event.n_batch, batch, to, NULL, &error))
        fail_msg ("%s", error.text);
    for (size_t i = 0; i < (size_t) event.n_hit * GPU_OUTPUTS; i++) {
        const double d = fabs ((double) scores[i] - (double) want[i]);
        worst = d <= worst ? worst : d;
    }
    print_message ("%s: off by %.1e at most, %.0f s\n", wm_cuda_signature (cuda), worst,
                   proof_clock () - start);
    assert_true (worst <= tolerance);
    wm_cuda_destroy (&cuda);
    wm_any_net_destroy (&steps);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
    assert_int_equal (wm_gpu_fake.bank_conflicts, 0);
    free (batch);
    free (to);
    free (scores);
}

static void what_the_product_takes_agrees (void **state)
{
    agree (true, WM_GPU_F32, 1e-5);
    agree (true, WM_GPU_SPLIT, 1e-5);
    agree (true, WM_GPU_F16, 1e-3);
}

static void what_cudnn_computes_agrees (void **state)
{
    if (!proof_size (0, 1, 1))
        skip ();
    agree (false, WM_GPU_F32, 1e-5);
    agree (false, WM_GPU_F16, 1e-3);
}

/* The floors that times are judged by are of the kernels that there are: counted from the batches
   alone, they come near to what the launches do.  */
static void floors_are_near (const gpu_event_t *whole, const gpu_counted_t *counted)
{
    const wm_gpu_fake_work_t *dense = &counted->work[WM_GPU_DENSE_WIDE];
    gpu_work_t all = { 0 };
    for (uint32_t b = 0; b < whole->n_batch; b++) {
        gpu_work_t work;
        gpu_count_work (&whole->batch[b], &spec, &work);
        all.tensor_flop += work.tensor_flop, all.l2_bytes += work.l2_bytes;
        all.memory_bytes += work.memory_bytes;
    }
    print_message (
        "floors: %.3f of the operations, %.3f of the bytes of L2, %.2f of those written\n",
        all.tensor_flop / dense->flop, all.l2_bytes / dense->l2,
        all.memory_bytes / gpu_counted_written (counted) * 55000 / whole->n_hit);
    assert_true (fabs (all.tensor_flop / dense->flop - 1) <= 0.2);
    assert_true (fabs (all.l2_bytes / dense->l2 - 1) <= 0.2);
    assert_true (all.memory_bytes <= 4 * gpu_counted_written (counted) * whole->n_hit / 55000);
}

/* What our kernels write for 55,000 hits: the plane itself would be gigabytes. Half writes no more
   than 250 MB of the whole default event, half of it sums of bands; two halves and float32 twice
   the list of it, and float32 the sums of 44 rows in place of four bands'.  */
static void a_whole_event_writes_little (void **state)
{
    static const struct {
        wm_gpu_precision_t precision;
        wm_gpu_kernel_t dense;
        double written, flop; /* at most */
    } row[] = { { WM_GPU_F16, WM_GPU_DENSE_WIDE, 250e6, 1.6e12 },
                { WM_GPU_SPLIT, WM_GPU_DENSE_WIDE_SPLIT, 350e6, 4.8e12 },
                { WM_GPU_F32, WM_GPU_DENSE_FMA, 1600e6, 0.9e12 } };
    const uint32_t rows = (uint32_t) proof_size (1, 3, 3);
    gpu_event_t whole;
    gpu_event_new (&whole, &spec, (double) proof_size (20000, 55000, 55000), 1, 1);
    const wm_batch_t **batch = calloc (whole.n_batch, sizeof *batch);
    for (uint32_t b = 0; b < whole.n_batch; b++)
        batch[b] = &whole.batch[b];
    for (uint32_t r = 0; r < rows; r++) {
        gpu_counted_t counted;
        gpu_count_kernels (net, &spec, row[r].precision, whole.n_batch, batch, ROOM, &counted);
        gpu_counted_print (&counted, r == 0 ? "half" : r == 1 ? "split" : "float32");
        if (r == 0)
            floors_are_near (&whole, &counted);
        const double share = 55000. / counted.n_hit;
        const wm_gpu_fake_work_t *work = counted.work;
        assert_true (gpu_counted_written (&counted) <= row[r].written);
        assert_true (work[WM_GPU_ACTIVE].flop * share <= 3.2e9);
        assert_true (work[row[r].dense].flop * share <= row[r].flop);
        assert_true (work[row[r].dense].flop > 0 && work[WM_GPU_ACTIVE].flop > 0);
        assert_true (work[row[r].dense].launches == work[WM_GPU_TAIL].launches);
        assert_true (work[row[r].dense].launches * share <= 14);
        assert_true (work[WM_GPU_SCATTER].launches <= 2 * whole.n_batch);
        assert_true (work[WM_GPU_TAIL].written == counted.n_hit * (GPU_OUTPUTS + 1) * 4.);
    }
    free (batch);
    gpu_event_free (&whole);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (what_the_product_takes_agrees),
        cmocka_unit_test (what_cudnn_computes_agrees),
        cmocka_unit_test (a_whole_event_writes_little),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, set_up, tear_down);
}
