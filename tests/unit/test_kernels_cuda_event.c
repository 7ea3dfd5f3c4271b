/* test_kernels_cuda_event.c - a whole event through the CUDA engine on the stand-in for a GPU.

   The real event where it is at hand (../shared), else one of `wiremill synth`: every version in
   every precision that it has, in the sizes that the product takes, against the reference in
   double. `make soak` takes every hit, `make proof` 300 of them, `make test` a few, of the versions
   that the product chooses, in small launches.  */
#include "kernels/cuda/wm_cuda.h"
#include "tests/standin/wm_gpu_fake.h"
#include "kernels/wm_reference.h"
#include "producer/wm_reader.h"
#include "tests/gpu/gpu_event.h"
#include "tests/gpu/gpu_net.h"
#include "tests/proof.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define REAL "../shared/data/protodune-hd/pdhd_run27409_evt40896_apa1.h5"
#define SYNTHETIC_HITS 20000.

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
    wm_reader_t *reader = wm_reader_open (REAL, &spec, 0, &error);
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
    (void) state;
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
    (void) state;
    gpu_event_free (&event);
    gpu_net_destroy (&net);
    free (want);
    return 0;
}

static void agree (uint32_t version, wm_gpu_precision_t precision, double tolerance)
{
    const wm_cuda_config_t config = { .version = version,
                                      .precision = precision,
                                      .rows = version == 1 ? (uint32_t) proof_size (16, 0, 0) : 0 };
    const double start = proof_clock ();
    wm_error_t error = { 0 };
    const wm_batch_t **batch = calloc (event.n_batch, sizeof *batch);
    float *scores = calloc (event.n_hit, GPU_OUTPUTS * sizeof *scores), *at = scores,
          **to = calloc (event.n_batch, sizeof *to);
    double worst = 0;
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    wm_cuda_t *cuda = wm_cuda_new (&wm_gpu_stand_in, net, &spec, &config, &error);
    for (uint32_t b = 0; b < event.n_batch; at += event.batch[b++].n_hit * GPU_OUTPUTS)
        batch[b] = &event.batch[b], to[b] = at;
    if (!cuda || wm_cuda_score_many (cuda, event.n_batch, batch, to, NULL, &error))
        fail_msg ("version %u: %s", version, error.text);
    for (size_t i = 0; i < (size_t) event.n_hit * GPU_OUTPUTS; i++) {
        const double d = fabs ((double) scores[i] - (double) want[i]);
        worst = d <= worst ? worst : d;
    }
    print_message ("%s: off by %.1e at most, %.0f s\n", wm_cuda_signature (cuda), worst,
                   proof_clock () - start);
    assert_true (worst <= tolerance);
    wm_cuda_destroy (&cuda);
    assert_int_equal (wm_gpu_fake.broken_guards, 0);
    assert_int_equal (wm_gpu_fake.bank_conflicts, 0);
    free (batch);
    free (to);
    free (scores);
}

static void what_the_product_takes_agrees (void **state)
{
    (void) state;
    agree (1, WM_GPU_F32, 1e-5);
    agree (3, WM_GPU_F16, 1e-3);
}

static void every_other_version_and_precision_agrees (void **state)
{
    (void) state;
    if (!proof_size (0, 1, 1))
        skip ();
    agree (1, WM_GPU_F16, 1e-3);
    agree (2, WM_GPU_F16, 1e-3);
    for (uint32_t version = 1; version <= 3; version++)
        agree (version, WM_GPU_TF32, 5e-4);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (what_the_product_takes_agrees),
        cmocka_unit_test (every_other_version_and_precision_agrees),
    };
    return cmocka_run_group_tests (tests, set_up, tear_down);
}
