/* test_kernels_sparse.c - scores of the exact-sparse engine: double's, and the same bits however
   hits are grouped, in every instruction set here.  */
#include "tests/proof.h"
#include "tests/standin/wm_sparse_amx_twin.h"
#include "tests/unit/sparse_net.h"

/* Prints the kernels that this machine cannot run, which a green test does not cover.  */
static int name_the_untested (void **state)
{
    const char *isa, *precision;
    for (uint32_t i = 0; (isa = wm_device_missing (i, &precision)) != NULL; i++)
        print_message ("NOT TESTED, this machine cannot run it: %s/%s\n", isa, precision);
    return 0;
}

/* Twins, and sums that are fused by hand: tried on fewer hits.  */
static bool is_slow (const wm_sparse_kernel_t *kernel)
{
    return is_twin (kernel) || kernel == &wm_sparse_kernel_c;
}

/* Every kernel on one plane, which is judged once.  */
static void every_kernel_equals_double (const wm_net_t *net, const wm_spec_t *spec,
                                        const wm_batch_t *batch, uint32_t threads, double *worst)
{
    double *want = judge_batch (net, spec, batch);
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        wm_batch_t part = *batch;
        part.n_hit = is_slow (kernel) && batch->n_hit > 40 ? 40 : batch->n_hit; /* twins are slow */
        wm_sparse_t *engine = engine_new (net, spec, threads, kernel);
        result_t result = score_with (engine, &part);
        const double d =
            largest_difference (want, result.scores, (size_t) result.n * result.n_output);
        worst[which] = fmax (worst[which], d);
        if (!(d <= kernel->off))
            fail_msg ("%s/%s: %g from double", kernel->isa, kernel->precision, d);
        result_free (&result);
        wm_sparse_destroy (&engine);
        assert_null (engine);
    }
    free (want);
}

static void equals_double_on_planes (void **state)
{
    double worst[32] = { 0 };
    for (uint32_t s = 0; s < SHAPES; s++) {
        wm_net_t net = net_new (&shapes[s]);
        wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
        for (fill_t fill = EMPTY; fill <= NOISE; fill++) {
            wm_batch_t batch = plane_new (&spec, 30, 75, fill == EMPTY ? 1 : 60, fill);
            print_message ("shape %u, fill %d\n", s, (int) fill);
            every_kernel_equals_double (&net, &spec, &batch, 1 + s % 2, worst);
            plane_free (&batch);
        }
        net_free (&net);
    }
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++)
        print_message ("%s/%s: largest difference from double %.2g\n", kernel->isa,
                       kernel->precision, worst[which]);
}

static void equals_double_in_own_view (void **state)
{
    double worst[32] = { 0 };
    wm_net_t net = net_new (&shapes[0]);
    for (wm_downscale_t d = WM_MEAN; d <= WM_MAXMEAN; d++)
        for (uint32_t window = 3; window <= 6; window += 3) { /* 3 x 11 ticks: an odd number */
            wm_spec_t spec = spec_of (&shapes[0], WM_OWN_VIEW, d);
            spec.drift_window = window;
            wm_batch_t batch = plane_new (&spec, 20, 333, 80, TRACKS);
            print_message ("downscale %d, window %u\n", (int) d, window);
            every_kernel_equals_double (&net, &spec, &batch, 2, worst);
            plane_free (&batch);
        }
    net_free (&net);
}

/* Bits: the whole plane by one thread, against random slices by two or three, against dense
   patches, against groups of a few cells.  */
static void grouping_never_changes_bits (void **state)
{
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++)
        for (uint32_t s = 0; s < SHAPES; s++) {
            if (is_slow (kernel) && s % proof_size (3, 1, 1)) /* twins are slow */
                continue;
            wm_net_t net = net_new (&shapes[s]);
            wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
            wm_sparse_t *one = engine_new (&net, &spec, 1, kernel);
            wm_sparse_t *many = engine_new (&net, &spec, 2 + s % 2, kernel);
            wm_batch_t batch = plane_new (&spec, 40, 90, is_slow (kernel) ? 90 : 500, TRACKS);
            wm_batch_t dense = cut_patches (&spec, &batch);
            result_t whole = score_with (one, &batch), again = score_with (many, &batch);
            result_t patches = score_with (many, &dense);
            const size_t bytes = batch.n_hit * whole.n_output * sizeof (float);
            assert_memory_equal (whole.scores, again.scores, bytes);
            assert_memory_equal (whole.scores, patches.scores, bytes);
            for (uint32_t first = 0; first < batch.n_hit;) {
                wm_batch_t slice = batch;
                uint32_t left = batch.n_hit - first;
                slice.n_hit = 1 + random_below (random_below (2) ? 3 : 200);
                slice.n_hit = slice.n_hit < left ? slice.n_hit : left;
                slice.hit_wire += first, slice.hit_col += first;
                many->slot_bytes_max = random_below (2) ? 128u << 20 : 1 + random_below (200000);
                many->full_from = random_below (3) * 0.8; /* always, sometimes, never */
                result_t part = score_with (many, &slice);
                assert_memory_equal (whole.scores + (size_t) first * whole.n_output, part.scores,
                                     slice.n_hit * whole.n_output * sizeof (float));
                first += slice.n_hit;
                result_free (&part);
            }
            result_free (&whole), result_free (&again), result_free (&patches);
            plane_free (&batch), plane_free (&dense);
            wm_sparse_destroy (&one), wm_sparse_destroy (&many);
            net_free (&net);
        }
}

/* Bits again: any hits of a plane in any order, some of them several times, by 1 to 4 threads.  */
static void any_grouping_gives_the_same_bits (void **state)
{
    const wm_sparse_kernel_t *kernel;
    uint32_t groupings = 0;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++)
        for (uint32_t s = 0; s < SHAPES; s++) {
            if (is_slow (kernel) && s % proof_size (3, 1, 1)) /* twins are slow */
                continue;
            wm_net_t net = net_new (&shapes[s]);
            wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
            wm_batch_t batch = plane_new (&spec, 40, 90, 60, s % 3 ? TRACKS : NOISE);
            wm_sparse_t *engine[4];
            for (uint32_t t = 0; t < 4; t++)
                engine[t] = engine_new (&net, &spec, t + 1, kernel);
            result_t whole = score_with (engine[0], &batch);
            const size_t each = whole.n_output * sizeof (float);
            uint32_t wire[64], from[64];
            int32_t col[64];
            for (uint32_t round = 0; round < (is_slow (kernel) ? 4 : 100); round++, groupings++) {
                wm_batch_t part = batch;
                part.n_hit = 1 + random_below (round % 4 ? 6 : 64);
                part.hit_wire = wire, part.hit_col = col;
                for (uint32_t i = 0; i < part.n_hit; i++) {
                    from[i] = random_below (batch.n_hit);
                    wire[i] = batch.hit_wire[from[i]], col[i] = batch.hit_col[from[i]];
                }
                result_t result = score_with (engine[round % 4], &part);
                for (uint32_t i = 0; i < part.n_hit; i++)
                    assert_memory_equal (result.scores + i * whole.n_output,
                                         whole.scores + from[i] * whole.n_output, each);
                result_free (&result);
            }
            result_free (&whole);
            for (uint32_t t = 0; t < 4; t++)
                wm_sparse_destroy (&engine[t]);
            plane_free (&batch);
            net_free (&net);
        }
    print_message ("%u groupings\n", groupings);
}

#if defined __x86_64__
/* On a machine with AMX: tiles and their twins give the same bits.  */
static void twins_equal_the_tiles (void **state)
{
    const wm_sparse_kernel_t *const pairs[][2] = {
        { &wm_sparse_kernel_amx_bf16, &wm_sparse_kernel_amx_twin_bf16 },
        { &wm_sparse_kernel_amx_bf16x3, &wm_sparse_kernel_amx_twin_bf16x3 },
    };
    const wm_sparse_kernel_t *kernel;
    uint32_t which = 0, compared = 0;
    for (; (kernel = wm_sparse_kernel (which)) != NULL; which++)
        for (size_t p = 0; p < 2; p++)
            for (uint32_t s = 0; s < SHAPES && kernel == pairs[p][0]; s++, compared++) {
                wm_net_t net = net_new (&shapes[s]);
                wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
                wm_sparse_t *real = engine_new (&net, &spec, 2, kernel);
                wm_sparse_t *twin = engine_new (&net, &spec, 2, pairs[p][1]);
                wm_batch_t batch = plane_new (&spec, 30, 75, 60, s % 2 ? TRACKS : NOISE);
                result_t a = score_with (real, &batch), b = score_with (twin, &batch);
                assert_memory_equal (a.scores, b.scores, a.n * a.n_output * sizeof (float));
                result_free (&a), result_free (&b);
                plane_free (&batch);
                wm_sparse_destroy (&real), wm_sparse_destroy (&twin);
                net_free (&net);
            }
    if (compared == 0)
        skip ();
}
#endif

/* Integers are exact, and all else has one order: every instruction set gives the same bits.  */
static void integers_are_the_same_everywhere (void **state)
{
    for (uint32_t s = 0; s < SHAPES; s++) {
        wm_net_t net = net_new (&shapes[s]);
        wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
        wm_batch_t batch = plane_new (&spec, 30, 75, 60, s % 2 ? TRACKS : NOISE);
        const wm_sparse_kernel_t *kernel;
        result_t first = { 0 };
        for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
            if (kernel->sum_max == 0)
                continue;
            wm_sparse_t *engine = engine_new (&net, &spec, 1, kernel);
            result_t one = score_with (engine, &batch);
            wm_sparse_destroy (&engine);
            if (!first.scores) {
                first = one;
                continue;
            }
            assert_memory_equal (one.scores, first.scores, one.n * one.n_output * sizeof (float));
            result_free (&one);
        }
        result_free (&first);
        plane_free (&batch);
        net_free (&net);
    }
}

/* The sums of integers at their very largest: all filters of a position alike, all its weights of
   one sign, every value the largest. Beside each, an output with one large weight among small.  */
static void integers_never_overflow (void **state)
{
    for (int act = 0; act < 2; act++) {
        shape_t shape = { 6, 6,  1, 1,   { 1 }, { 1 }, { 130 }, act ? WM_ACT_NONE : WM_ACT_RELU,
                          2, 16, 0, 0.2, 0 };
        wm_net_t net = net_new (&shape);
        float *conv = (float *) (uintptr_t) net.conv[0].weight;
        float *bias = (float *) (uintptr_t) net.conv[0].bias;
        float *dense = (float *) (uintptr_t) net.dense[4].weight;
        for (uint32_t f = 0; f < 130; f++)
            conv[f] = 1, bias[f] = 0;
        for (uint32_t i = 0; i < net.dense[4].n_in * 5; i++) {
            const float sign = i % 5 % 2 ? -1 : 1, small = i / 5 % 130 ? 1e-4f : 1;
            dense[i] = sign * 1e-3f * (i % 5 < 3 ? 1 : small) * (i / 5 / 130 == 7 ? 4 : 1);
        }
        wm_spec_t spec = spec_of (&shape, WM_FULL_VIEW, WM_MEAN);
        wm_batch_t batch = plane_new (&spec, 30, 75, 60, NOISE);
        const wm_sparse_kernel_t *kernel;
        for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
            if (kernel->sum_max == 0)
                continue;
            wm_sparse_t *engine = engine_new (&net, &spec, 1, kernel);
            result_t result = score_with (engine, &batch);
            double d = worst_of (&net, &spec, &batch, result.scores);
            if (!(d <= kernel->off))
                fail_msg ("%s/%s: %g from double", kernel->isa, kernel->precision, d);
            result_free (&result);
            wm_sparse_destroy (&engine);
        }
        plane_free (&batch);
        net_free (&net);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (equals_double_on_planes),
        cmocka_unit_test (equals_double_in_own_view),
        cmocka_unit_test (grouping_never_changes_bits),
        cmocka_unit_test (any_grouping_gives_the_same_bits),
#if defined __x86_64__
        cmocka_unit_test (twins_equal_the_tiles),
#endif
        cmocka_unit_test (integers_are_the_same_everywhere),
        cmocka_unit_test (integers_never_overflow),
    };
    return cmocka_run_group_tests_name ("kernels/sparse", tests, name_the_untested, NULL);
}
