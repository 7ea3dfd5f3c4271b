/* test_kernels_sparse_engine.c - what the exact-sparse engine does beside scores: it takes many
   hits and many channels, holds non-finite values, allocates once, shares packed weights, pins
   threads, chooses a kernel, and refuses what it cannot run.  */
#include "tests/standin/wm_sparse_amx_twin.h"
#include "tests/unit/sparse_net.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

/* 200,000 hits at once, of 12,000 places: some against double, all against batches of few.  */
static void many_hits_are_scored_at_once (void **state)
{
    enum { HITS = 200000, CHECKS = 400 };
    const wm_sparse_kernel_t *kernel;
    wm_net_t net = net_new (&shapes[3]);
    wm_spec_t spec = spec_of (&shapes[3], WM_FULL_VIEW, WM_MEAN);
    wm_batch_t batch = plane_new (&spec, 120, 100, HITS, TRACKS);
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        if (is_twin (kernel))
            continue;
        wm_sparse_t *engine = engine_new (&net, &spec, 2, kernel);
        result_t all = score_with (engine, &batch);
        for (uint32_t check = 0; check < CHECKS; check++) {
            wm_batch_t few = batch;
            uint32_t first = random_below (HITS - 3);
            few.hit_wire += first, few.hit_col += first, few.n_hit = 1 + check % 3;
            result_t some = score_with (engine, &few);
            assert_memory_equal (some.scores, all.scores + (size_t) first * all.n_output,
                                 some.n * some.n_output * sizeof (float));
            assert_true (worst_of (&net, &spec, &few, some.scores) <= kernel->off);
            result_free (&some);
        }
        result_free (&all);
        wm_sparse_destroy (&engine);
    }
    plane_free (&batch);
    net_free (&net);
}

/* Half of the plane is full and half empty: blocks of equal work would be of more cells than a
   thread has room for, which ends some of them before.  */
static void a_block_is_never_larger_than_its_memory (void **state)
{
    enum { HITS = 12000, WIRES = 120, COLS = 100, CHECKS = 100 };
    wm_net_t net = net_new (&shapes[4]);
    wm_spec_t spec = spec_of (&shapes[4], WM_FULL_VIEW, WM_MEAN);
    wm_batch_t batch = plane_new (&spec, WIRES, COLS, HITS, NOISE);
    batch.n_run /= 2, batch.n_value /= 2; /* one run a wire */
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        if (is_twin (kernel))
            continue;
        wm_sparse_t *engine = engine_new (&net, &spec, 2, kernel);
        result_t all = score_with (engine, &batch);
        const wm_sparse_stats_t stats = wm_sparse_stats (engine);
        assert_true (stats.cells >
                     4 * engine->cells_max);          /* blocks that are cut by work alone ... */
        assert_true (stats.pairs > 16 * stats.cells); /* ... have thrice as many as fit */
        for (uint32_t check = 0; check < CHECKS; check++) {
            wm_batch_t one = batch;
            const uint32_t hit = random_below (HITS);
            one.hit_wire += hit, one.hit_col += hit, one.n_hit = 1;
            result_t some = score_with (engine, &one);
            assert_memory_equal (some.scores, all.scores + (size_t) hit * all.n_output,
                                 all.n_output * sizeof (float));
            result_free (&some);
        }
        result_free (&all);
        wm_sparse_destroy (&engine);
    }
    plane_free (&batch);
    net_free (&net);
}

static void channels_are_taken_dense (void **state)
{
    shape_t shape = shapes[6];
    shape.channel = 3;
    wm_net_t net = net_new (&shape);
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES, .n_hit = 9, .patch_values = 9 * 9 * 3 };
    batch.patch = random_floats (9 * 9 * 9 * 3, 1);
    for (uint32_t i = 0; i < batch.n_hit * batch.patch_values; i++)
        if (random_below (3))
            batch.patch[i] = 0;
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        wm_sparse_t *engine = engine_new (&net, NULL, 2, kernel);
        result_t result = score_with (engine, &batch);
        for (uint32_t i = 0; i < batch.n_hit; i++) {
            double want[16];
            judge (&net, batch.patch + i * batch.patch_values, want);
            for (uint32_t k = 0; k < 4; k++)
                assert_true (fabs (want[k] - (double) result.scores[i * 4 + k]) <= kernel->off);
        }
        result_free (&result);
        wm_sparse_destroy (&engine);
    }
    plane_free (&batch);
    net_free (&net);
}

/* Small batches go as one job, large ones alone, each with the bits that it has alone.  */
static void small_batches_are_joined (void **state)
{
    enum { N = 7, HITS = 160 };
    static const uint32_t n_hit[N] = { 2, 1, 0, 130, 2, 24, 1 };
    assert_true (wm_device_engine ("sparse")->gathers); /* a worker offers it several */
    shape_t shape = shapes[6];
    wm_net_t net = net_new (&shape);
    const uint32_t each = net.height * net.width * net.channel;
    wm_batch_t all = { .kind = WM_BATCH_PATCHES, .n_hit = HITS, .patch_values = each };
    all.patch = random_floats (HITS * each, 1);
    for (uint32_t i = 0; i < HITS * each; i++)
        if (random_below (3))
            all.patch[i] = 0;
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        wm_sparse_t *engine = engine_new (&net, NULL, 2, kernel);
        wm_batch_t batch[N];
        const wm_batch_t *batch_p[N];
        float *scores[N], *first = calloc (HITS * engine->n_output, sizeof *first);
        _Atomic uint64_t progress = 0;
        assert_non_null (first);
        for (uint32_t i = 0, at = 0; i < N; at += n_hit[i++]) {
            batch[i] = all;
            batch[i].n_hit = n_hit[i];
            batch[i].patch += (size_t) at * each;
            batch_p[i] = &batch[i];
            scores[i] = first + (size_t) at * engine->n_output;
        }
        assert_int_equal (wm_sparse_score_many (engine, N, batch_p, scores, &progress, NULL),
                          WM_OK);
        assert_int_equal (progress, HITS);
        assert_non_null (engine->many.data); /* some were joined */
        for (uint32_t i = 0; i < N; i++) {
            result_t alone = score_with (engine, &batch[i]);
            assert_memory_equal (scores[i], alone.scores,
                                 alone.n * alone.n_output * sizeof (float));
            result_free (&alone);
        }
        free (first);
        wm_sparse_destroy (&engine);
    }
    plane_free (&all);
    net_free (&net);
}

static void nonfinite_is_never_a_number (void **state)
{
    wm_net_t net = net_new (&shapes[0]);
    uint32_t each = net.height * net.width;
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES, .n_hit = 3, .patch_values = each };
    batch.patch = random_floats (3 * each, 1);
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++)
        for (int bad = 0; bad < 2; bad++) {
            wm_sparse_t *engine = engine_new (&net, NULL, 1, kernel);
            batch.patch[each + 40] = bad ? NAN : INFINITY;
            result_t result = score_with (engine, &batch);
            bool finite = true;
            for (uint32_t i = 0; i < 4; i++) {
                finite &= isfinite (result.scores[4 + i]) != 0;
                assert_true (isfinite (result.scores[i]) && isfinite (result.scores[8 + i]));
            }
            assert_false (finite); /* wm_device.c then holds it */
            result_free (&result);
            wm_sparse_destroy (&engine);
        }
    plane_free (&batch);
    net_free (&net);
}

static void nothing_is_allocated_after_warm_up (void **state)
{
    wm_net_t net = net_new (&shapes[0]);
    wm_spec_t spec = spec_of (&shapes[0], WM_FULL_VIEW, WM_MEAN);
    wm_sparse_t *engine = engine_new (&net, &spec, 2, NULL);
    wm_batch_t batch = plane_new (&spec, 60, 100, 300, NOISE);
    uint64_t before = 0;
    for (int i = 0; i < 5; i++) {
        result_t result = score_with (engine, &batch);
        result_free (&result);
        if (i == 0)
            before = wm_sparse_stats (engine).allocations;
        assert_int_equal (wm_sparse_stats (engine).allocations, before);
    }
    assert_true (before > 0);
    plane_free (&batch);
    wm_sparse_destroy (&engine);
    net_free (&net);
}

static size_t size_of (const char *path)
{
    struct stat stat_;
    return stat (path, &stat_) ? 0 : (size_t) stat_.st_size;
}

/* The file of a root's packed weights; whether the kernel needs it.  */
static bool packed_path (char path[128], const char *prefix, const wm_sparse_kernel_t *kernel,
                         const wm_dense_t *root, uint32_t index)
{
    snprintf (path, 128, "%s.%s-%s-%u", prefix, kernel->pack ? kernel->isa : "all",
              kernel->precision, index);
    return kernel->pack || root->n_out % 16;
}

/* The first engine keeps its packed weights to itself and leaves an empty file; the second makes it
   one for all, as are those that are only padded (the second root's rows are of 5); a file that is
   another's is not believed.  */
static void packed_weights_are_shared (void **state)
{
    char folder[] = "/tmp/wm-sparse-XXXXXX", path[2][128], prefix[64];
    assert_non_null (mkdtemp (folder));
    snprintf (prefix, sizeof prefix, "%s/model", folder);
    wm_net_t net = net_new (&shapes[4]); /* two roots */
    wm_spec_t spec = spec_of (&shapes[4], WM_FULL_VIEW, WM_MEAN);
    wm_batch_t batch = plane_new (&spec, 30, 75, 40, TRACKS);
    wm_error_t error = { 0 };
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        wm_sparse_config_t config = { .kernel = kernel, .cache = prefix };
        wm_sparse_t *alone = engine_new (&net, &spec, 1, kernel);
        result_t want = score_with (alone, &batch);
        wm_sparse_destroy (&alone);
        const bool packs[] = { packed_path (path[0], prefix, kernel, &net.dense[0], 0),
                               packed_path (path[1], prefix, kernel, &net.dense[4], 4) };
        enum { FIRST, SECOND, DAMAGED, SHORT, UNWRITABLE, TIMES };
        for (int time = FIRST; time < TIMES; time++) {
            for (int r = 0; r < 2; r++) {
                if (time == DAMAGED && packs[r]) {
                    int fd = open (path[r], O_WRONLY);
                    assert_int_equal (pwrite (fd, "XXXXX", 5, (off_t) size_of (path[r]) / 128 * 64),
                                      5); /* where no padding is */
                    close (fd);
                }
                if (time == SHORT && packs[r])
                    assert_int_equal (truncate (path[r], (off_t) size_of (path[r]) - 1), 0);
            }
            if (time == UNWRITABLE)
                config.cache = "/dev/null/nowhere";
            wm_sparse_t *engine = wm_sparse_new (&net, &spec, &config, &error);
            assert_non_null (engine);
            for (uint32_t r = 0; r < engine->n_root; r++) {
                const wm_sparse_root_t *root = &engine->root[r];
                const bool maps = packs[r] && time != FIRST && time != UNWRITABLE;
                assert_int_equal (root->mapped_bytes > 0, maps); /* else a copy of its own */
                assert_int_equal (root->packed != NULL, packs[r]);
                if (maps || (packs[r] && time == FIRST))
                    assert_int_equal (size_of (path[r]), root->mapped_bytes);
            }
            result_t result = score_with (engine, &batch);
            assert_memory_equal (result.scores, want.scores,
                                 want.n * want.n_output * sizeof (float));
            result_free (&result);
            wm_sparse_destroy (&engine);
        }
        result_free (&want);
        for (int r = 0; r < 2; r++)
            assert_int_equal (unlink (path[r]), packs[r] ? 0 : -1);
    }
    assert_int_equal (rmdir (folder), 0); /* nothing else was left */
    plane_free (&batch);
    net_free (&net);
}

static void check_where (void *arg, uint32_t task, uint32_t thread)
{
    cpu_set_t set;
    sched_getaffinity (0, sizeof set, &set);
    ((int *) arg)[thread] = CPU_COUNT (&set);
}

/* Asked to, each thread stays on one CPU; threads beyond the CPUs share them.  */
static void threads_are_pinned (void **state)
{
    cpu_set_t before;
    assert_int_equal (sched_getaffinity (0, sizeof before, &before), 0);
    for (int pin = 0; pin < 2; pin++) {
        int count[3] = { 0 };
        wm_sparse_pool_t *pool = wm_sparse_pool_new (3, pin);
        assert_non_null (pool);
        wm_sparse_pool_run (pool, check_where, count, 1000);
        for (int i = 0; i < 3; i++) /* a thread may come too late for any task */
            assert_true (count[i] == 0 || count[i] == (pin ? 1 : CPU_COUNT (&before)));
        assert_true (count[0] + count[1] + count[2] > 0);
        wm_sparse_pool_destroy (&pool);
    }
    assert_int_equal (sched_setaffinity (0, sizeof before, &before), 0);
}

static void wrong_dense (const wm_sparse_root_t *root, uint32_t panel, uint32_t c_out,
                         const wm_sparse_values_t *values, const wm_sparse_list_t *list, float *row,
                         size_t row_stride)
{
    wm_sparse_kernel_c.dense (root, panel, c_out, values, list, row, row_stride);
    row[5] *= 1.01f;
}

static void what_computes_wrongly_is_not_chosen (void **state)
{
    wm_sparse_kernel_t wrong = wm_sparse_kernel_c;
    wrong.dense = wrong_dense;
    assert_false (wm_sparse_kernel_works (&wrong));
    const wm_sparse_kernel_t *kernel;
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++)
        assert_true (wm_sparse_kernel_works (kernel));
}

static void what_it_cannot_run_is_refused (void **state)
{
    wm_error_t error = { 0 };
    const wm_sparse_config_t config = { .kernel = wm_sparse_kernel (0), .threads = 1 };
    wm_net_t net = net_new (&shapes[0]), bad;
    wm_spec_t spec = spec_of (&shapes[0], WM_FULL_VIEW, WM_MEAN);
    float scores[16], values[12 * 11] = { 0 }, *many = wm_sparse_floats (200000 * 16);
    const wm_sparse_kernel_t *kernel;

    bad = net, bad.n_conv = 0;
    assert_null (wm_sparse_new (&bad, &spec, &config, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    bad = net, bad.dense[0].n_in -= 1;
    assert_null (wm_sparse_new (&bad, &spec, &config, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    bad = net, bad.conv[0].kh = 13;
    assert_null (wm_sparse_new (&bad, NULL, &config, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    assert_non_null (strstr (error.text, "13 x 5 does not fit 12 x 11"));
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        const wm_sparse_config_t whole = { .kernel = kernel };
        bad = net, bad.conv[0].c_out = 200000, bad.conv[0].kh = bad.conv[0].kw = 1;
        bad.conv[0].weight = bad.conv[0].bias = many, bad.height = bad.width = 1;
        bad.dense[0].n_in = 200000, bad.dense[0].n_out = 16, bad.dense[0].weight = many;
        wm_sparse_t *wide = wm_sparse_new (&bad, NULL, &whole, &error);
        assert_int_equal (wide == NULL, kernel->sum_max > 0);
        assert_true (wide || strstr (error.text, "200000 filters are too many"));
        wm_sparse_destroy (&wide);
    }
    free (many);
    bad = net, bad.conv[0].kw = 65;
    assert_null (wm_sparse_new (&bad, NULL, &config, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    spec.patch_bin++;
    assert_null (wm_sparse_new (&net, &spec, &config, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    assert_non_null (strstr (error.text, "12 x 12"));
    spec.patch_bin--;

    wm_sparse_t *engine = engine_new (&net, NULL, 1, NULL);
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = 131 };
    batch.patch = values;
    assert_int_equal (wm_sparse_score (engine, &batch, scores, NULL, &error), WM_EBATCH);
    assert_string_equal (error.text, "patches of 131 values, the model takes (12, 11, 1)");
    batch.kind = WM_BATCH_BINS;
    assert_int_equal (wm_sparse_score (engine, &batch, scores, NULL, &error), WM_EBATCH);
    wm_sparse_destroy (&engine);
    engine = engine_new (&net, &spec, 1, NULL);
    batch.kind = WM_BATCH_TICKS;
    assert_int_equal (wm_sparse_score (engine, &batch, scores, NULL, &error), WM_EBATCH);
    batch.kind = WM_BATCH_PATCHES, batch.patch_values = 132, batch.n_hit = 0;
    assert_int_equal (wm_sparse_score (engine, &batch, scores, NULL, &error), WM_OK);
    wm_sparse_destroy (&engine);

    net_free (&net);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (many_hits_are_scored_at_once),
        cmocka_unit_test (a_block_is_never_larger_than_its_memory),
        cmocka_unit_test (channels_are_taken_dense),
        cmocka_unit_test (small_batches_are_joined),
        cmocka_unit_test (nonfinite_is_never_a_number),
        cmocka_unit_test (nothing_is_allocated_after_warm_up),
        cmocka_unit_test (packed_weights_are_shared),
        cmocka_unit_test (threads_are_pinned),
        cmocka_unit_test (what_computes_wrongly_is_not_chosen),
        cmocka_unit_test (what_it_cannot_run_is_refused),
    };
    return cmocka_run_group_tests_name ("kernels/sparse_engine", tests, NULL, NULL);
}
