/* test_kernels_trial.c - which arithmetic is taken: the table, strict fp32's bits, the trial on a
   sample, the watch.  */
#include "kernels/judge/wm_trial.h"
#include "kernels/judge/wm_watch.h"
#include "tests/standin/wm_sparse_amx_twin.h"
#include "tests/unit/sparse_net.h"

#include <unistd.h>

/* wm_sparse_c.h is included for its fused multiply-add.  */
#include "kernels/sparse/wm_sparse_c.h"

enum { HITS = 210 };

/* ---- strict fp32 ----------------------------------------------------------------------------- */

static float bits (uint32_t raw)
{
    float x;
    memcpy (&x, &raw, sizeof x);
    return x;
}

/* A number whose sums are often halves of a last bit, denormal, or nothing in particular.  */
static float draw_float (int kind)
{
    const uint32_t raw = random_below (1u << 31) * 2 + random_below (2);
    return kind == 0   ? bits (raw)
           : kind == 1 ? bits ((raw & 0x807fffff) | (127 - random_below (40)) << 23)
           : kind == 2 ? bits ((raw & 0x807ff000) | 127u << 23)
                       : bits ((raw & 0x807fffff) | random_below (60) << 23);
}

static void portable_sums_are_fused (void **state)
{
    for (uint32_t i = 0; i < 400000; i++) {
        float a[4], b[4], c[4];
        for (int l = 0; l < 4; l++)
            a[l] = draw_float (i % 4), b[l] = draw_float (i % 4), c[l] = draw_float (i / 4 % 4);
        const vec got = V_FMA (((vec){ a[0], a[1], a[2], a[3] }), ((vec){ b[0], b[1], b[2], b[3] }),
                               ((vec){ c[0], c[1], c[2], c[3] }));
        for (int l = 0; l < 4; l++) {
            const float want = fmaf (a[l], b[l], c[l]), is = got[l];
            if (memcmp (&want, &is, sizeof is) && !(isnan (want) && isnan (is)))
                fail_msg ("%a * %a + %a is %a, not %a", (double) a[l], (double) b[l], (double) c[l],
                          (double) want, (double) is);
        }
    }
}

/* AVX-512, AVX2 and C; each net also in own view, and what the others compute differs.  */
static void strict_kernels_have_the_same_bits (void **state)
{
    uint32_t n_compared = 0, n_other = 0;
    for (uint32_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        seed = s + 1;
        wm_net_t net = net_new (&shapes[s]);
        const wm_spec_t spec = spec_of (&shapes[s], WM_FULL_VIEW, WM_MEAN);
        wm_batch_t batch = plane_new (&spec, 40, 60, 150, TRACKS);
        wm_sparse_t *first = engine_new (&net, &spec, 2, NULL);
        result_t want = score_with (first, &batch);
        const wm_sparse_kernel_t *kernel;
        for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
            if (!wm_sparse_kernel_is_strict (kernel) && kernel != &wm_sparse_kernel_sse2)
                continue;
            wm_sparse_t *engine = engine_new (&net, &spec, 1, kernel);
            result_t got = score_with (engine, &batch);
            const bool same = memcmp (got.scores, want.scores,
                                      (size_t) got.n * got.n_output * sizeof (float)) == 0;
            if (wm_sparse_kernel_is_strict (kernel) && !same)
                fail_msg ("shape %u: %s has other bits than %s", s, kernel->isa,
                          first->kernel->isa);
            n_compared += wm_sparse_kernel_is_strict (kernel), n_other += !same;
            result_free (&got);
            wm_sparse_destroy (&engine);
        }
        result_free (&want);
        wm_sparse_destroy (&first);
        plane_free (&batch);
        net_free (&net);
    }
    assert_true (n_compared >= sizeof shapes / sizeof *shapes);
    assert_true (n_other > 0); /* sse2 rounds twice: the comparison can tell */
}

/* ---- the table ------------------------------------------------------------------------------- */

static uint32_t rank_of (const char *precision, const char *isa, const wm_sparse_kernel_t **rank)
{
    wm_error_t error = { 0 };
    const uint32_t n = wm_sparse_kernel_rank (precision, isa, rank, &error);
    if (n == 0) {
        assert_int_equal (error.fault, WM_EHOST);
        assert_non_null (strstr (error.text, isa));
    } else if (!isa || strcmp (isa, "sse2") != 0)
        assert_true (wm_sparse_kernel_is_strict (rank[n - 1]));
    return n;
}

static void the_table_is_read_from_the_top (void **state)
{
    const wm_sparse_kernel_t *rank[WM_SPARSE_RANKS], *again[WM_SPARSE_RANKS], *kernel;
    assert_int_equal (rank_of ("fp32", NULL, rank), 1);
    for (int start = 0; start < 50; start++) { /* nothing is timed */
        assert_int_equal (rank_of ("fast", NULL, rank), rank_of ("fast", NULL, again));
        assert_ptr_equal (rank[0], again[0]);
    }
    assert_int_equal (rank_of ("fp32", "c", rank), 1);
    assert_ptr_equal (rank[0], &wm_sparse_kernel_c);
    assert_int_equal (rank_of ("fast", "c", rank), 1);
    assert_int_equal (rank_of ("split", "amx-twin", rank), 2);
    assert_ptr_equal (rank[0], &wm_sparse_kernel_amx_twin_bf16x3);
    assert_int_equal (rank_of ("fast", "amx-twin", rank), 3);
    assert_ptr_equal (rank[0], &wm_sparse_kernel_amx_twin_bf16);
    assert_int_equal (rank_of ("fp32", "amx-twin", rank), 1); /* what judges them */
    assert_ptr_equal (rank[0], &wm_sparse_kernel_c);
    assert_int_equal (rank_of ("fp32", "sse2", rank), 2);
    assert_ptr_equal (rank[0], &wm_sparse_kernel_sse2);
    assert_int_equal (rank_of ("fp32", "amx-twin/bf16", rank), 0);
    assert_int_equal (rank_of ("split", "amx-twin/bf16", rank), 0);
    assert_int_equal (rank_of ("fast", "c/int16", rank), 0);
    assert_int_equal (rank_of ("fp32", "pentium", rank), 0);
    for (uint32_t which = 0; (kernel = wm_sparse_kernel (which)) != NULL; which++) {
        char name[64];
        snprintf (name, sizeof name, "%s/%s", kernel->isa, kernel->precision);
        assert_true (rank_of ("fast", name, rank) > 0);
        assert_ptr_equal (rank[0], kernel);
    }
    setenv ("WM_ISA", "c", 1); /* as --isa hands it on */
    assert_int_equal (rank_of ("fp32", NULL, rank), 1);
    assert_ptr_equal (rank[0], &wm_sparse_kernel_c);
    unsetenv ("WM_ISA");
}

/* ---- the trial ------------------------------------------------------------------------------- */

/* A model of the net, as it is imported.  */
static wm_model_t *model_of (const wm_net_t *net)
{
    static const wm_port_t output[] = {
        { .name = "kind", .n_dim = 1, .dim = { 3 }, .n_value = 3 },
        { .name = "one", .n_dim = 1, .dim = { 1 }, .n_value = 1 },
    };
    const wm_port_t input = { .name = "patch",
                              .n_dim = 3,
                              .dim = { net->height, net->width, 1 },
                              .n_value = net->height * net->width };
    const wm_model_parts_t parts = { .kind = WM_MODEL_FAMILY,
                                     .why = "for a test",
                                     .n_input = 1,
                                     .input = &input,
                                     .n_output = 2,
                                     .output = output,
                                     .net = net };
    char path[] = "/tmp/wm_trial_XXXXXX";
    wm_error_t error = { 0 };
    close (mkstemp (path));
    if (wm_model_write (path, &parts, &error))
        fail_msg ("%s", error.text);
    wm_model_t *model = wm_model_open (path, &error);
    unlink (path);
    assert_non_null (model);
    return model;
}

typedef struct {
    wm_net_t net;
    wm_spec_t spec;
    wm_batch_t batch;
    wm_model_t *model;
} campaign_t;

/* A network whose heads are steeper by 4^step.  */
static campaign_t campaign_new (int step)
{
    shape_t shape = shapes[1];
    shape.zero = 0.7f;
    seed = 3;
    campaign_t c = { .net = net_new (&shape), .spec = spec_of (&shape, WM_FULL_VIEW, WM_MEAN) };
    float *w = (void *) (uintptr_t) c.net.dense[0].weight;
    for (uint32_t i = 0; i < c.net.dense[0].n_in * c.net.dense[0].n_out; i++)
        w[i] *= ldexpf (0.002f, step * 2);
    c.batch = plane_new (&c.spec, 40, 60, HITS, TRACKS);
    c.model = model_of (&c.net);
    return c;
}

static void campaign_free (campaign_t *c)
{
    wm_model_destroy (&c->model);
    plane_free (&c->batch);
    net_free (&c->net);
}

static wm_device_t *judge_of (campaign_t *c, const char *isa)
{
    const wm_device_config_t config = {
        .engine = "sparse", .precision = "fast", .isa = isa, .threads = 1
    };
    wm_error_t error = { 0 };
    wm_device_t *judge = wm_trial_judge (c->model, &c->spec, &config, &error);
    assert_non_null (judge);
    assert_string_equal (wm_device_signature (judge), WM_SIGNATURE_FP32);
    return judge;
}

static wm_device_t *taken_of (campaign_t *c, wm_device_t *judge, const char *isa,
                              const char *precision, double max_error, uint32_t n_batch,
                              wm_trial_t *trial)
{
    const wm_device_config_t config = {
        .engine = "sparse", .precision = precision, .isa = isa, .max_error = max_error, .threads = 1
    };
    wm_error_t error = { 0 };
    wm_device_t *device =
        wm_trial_open (c->model, &c->spec, &config, judge, NULL, &c->batch, n_batch, trial, &error);
    if (!device)
        fail_msg ("%s", error.text);
    if (wm_device_self_test (device, &error))
        fail_msg ("%s", error.text);
    return device;
}

static double off_of (campaign_t *c, wm_device_t *device)
{
    static float scores[HITS * 4];
    uint8_t status[HITS];
    wm_error_t error = { 0 };
    if (wm_device_score (device, &c->batch, status, scores, &error))
        fail_msg ("%s", error.text);
    return worst_of (&c->net, &c->spec, &c->batch, scores);
}

/* Ever steeper heads: the coarser a kernel, the sooner it is dropped; what is taken is as exact as
   the campaign asks, and strict fp32 is always left.  */
static void what_is_taken_is_precise_enough (void **state)
{
    static const struct {
        const char *isa, *precision;
        double max_error;
    } way[] = { { "amx-twin", "fast", 5e-4 },
                { "amx-twin", "split", 1e-6 },
                { "", "fast", 5e-3 },
                { "", "split", 1e-5 } };
    enum { WAYS = sizeof way / sizeof *way };
    uint32_t n_first[WAYS] = { 0 }, n_later[WAYS] = { 0 };
    for (int step = 0; step < 6; step++) {
        campaign_t c = campaign_new (step);
        for (int k = 0; k < WAYS; k++) {
            wm_trial_t trial;
            wm_device_t *judge = judge_of (&c, way[k].isa);
            wm_device_t *device =
                taken_of (&c, judge, way[k].isa, way[k].precision, way[k].max_error, 1, &trial);
            const bool strict = strcmp (wm_device_signature (device), WM_SIGNATURE_FP32) == 0;
            const double off = off_of (&c, device);
            assert_int_equal (trial.n_hit, HITS);
            assert_true (off <= way[k].max_error);
            assert_true (strict ? trial.error == 0
                                : trial.error > 0 &&
                                      trial.error * WM_TRIAL_MARGIN <= way[k].max_error);
            assert_true (strict == !strcmp (trial.candidate.precision, "fp32"));
            n_first[k] += !*trial.refused, n_later[k] += *trial.refused != 0;

            wm_candidate_t recalled; /* an engine that is started again */
            wm_device_recall (wm_device_signature (device), way[k].precision, &recalled);
            const wm_device_config_t config = { .engine = "sparse",
                                                .precision = recalled.precision,
                                                .isa = recalled.isa,
                                                .threads = 1 };
            wm_error_t error = { 0 };
            wm_device_t *again = wm_device_new (c.model, &c.spec, &config, &error);
            assert_string_equal (wm_device_signature (again), wm_device_signature (device));
            wm_device_destroy (&again);
            wm_device_destroy (&device);
            wm_device_destroy (&judge);
        }
        campaign_free (&c);
    }
    for (int k = 0; k < 2; k++) /* the twin: on every CPU */
        assert_true (n_first[k] > 0 && n_later[k] > 0);
}

static void max_error_and_sample_decide (void **state)
{
    campaign_t c = campaign_new (0);
    wm_device_t *judge = judge_of (&c, "amx-twin");
    wm_trial_t trial;
    wm_device_t *device = taken_of (&c, judge, "amx-twin", "fast", 0.5, 1, &trial);
    assert_string_equal (wm_device_signature (device), "sparse/amx-twin/bf16/v1");
    assert_string_equal (trial.refused, "");
    const double bf16 = trial.error;
    wm_device_destroy (&device);
    device = taken_of (&c, judge, "amx-twin", "fast", bf16, 1, &trial); /* less than the margin */
    assert_string_equal (wm_device_signature (device), "sparse/amx-twin/bf16x3/v1");
    assert_non_null (strstr (trial.refused, "amx-twin/bf16 "));
    wm_device_destroy (&device);
    device = taken_of (&c, judge, "amx-twin", "fast", 1e-9, 1, &trial);
    assert_string_equal (wm_device_signature (device), WM_SIGNATURE_FP32);
    wm_device_destroy (&device);
    device = taken_of (&c, judge, "amx-twin", "fast", 0.5, 0, &trial); /* no hits to measure on */
    assert_string_equal (wm_device_signature (device), WM_SIGNATURE_FP32);
    assert_int_equal (trial.n_hit, 0);
    wm_device_destroy (&device);
    wm_device_destroy (&judge);
    campaign_free (&c);
}

/* The candidate that was opened before there was a sample is the one that is tried first, and
   whether it is taken does not depend on that.  */
static void what_is_opened_ahead_is_tried_first (void **state)
{
    campaign_t c = campaign_new (0);
    wm_device_t *judge = judge_of (&c, "amx-twin");
    const double max_error[] = { 0.5, 1e-9 };
    for (int k = 0; k < 2; k++) {
        wm_trial_t plain, trial;
        wm_error_t error = { 0 };
        wm_device_t *device = taken_of (&c, judge, "amx-twin", "fast", max_error[k], 1, &plain);
        wm_device_destroy (&device);
        const wm_device_config_t config = { .engine = "sparse",
                                            .precision = "fast",
                                            .isa = "amx-twin",
                                            .max_error = max_error[k],
                                            .threads = 2 };
        wm_trial_ahead_t *ahead = wm_trial_ahead_new (c.model, &c.spec, &config);
        assert_non_null (ahead);
        device =
            wm_trial_open (c.model, &c.spec, &config, judge, &ahead, &c.batch, 1, &trial, &error);
        assert_non_null (device);
        assert_null (ahead); /* it was taken */
        assert_string_equal (trial.candidate.isa, plain.candidate.isa);
        assert_string_equal (trial.refused, plain.refused);
        assert_true (trial.error == plain.error && trial.n_hit == plain.n_hit);
        wm_device_destroy (&device);
    }
    wm_device_config_t config = { .engine = "sparse", .precision = "fast", .isa = "amx-twin" };
    wm_trial_ahead_t *ahead = wm_trial_ahead_new (c.model, &c.spec, &config);
    wm_device_t *device = wm_trial_ahead_end (&ahead); /* without a sample */
    assert_string_equal (wm_device_signature (device), "sparse/amx-twin/bf16/v1");
    assert_null (wm_trial_ahead_end (&ahead));
    wm_device_destroy (&device);
    config.isa = "c"; /* strict fp32 is all it has */
    assert_null (wm_trial_ahead_new (c.model, &c.spec, &config));
    wm_device_destroy (&judge);
    campaign_free (&c);
}

static void classes_are_what_scores_depend_on (void **state)
{
    campaign_t c = campaign_new (0);
    wm_device_config_t config = { .engine = "sparse", .precision = "fp32", .threads = 1 };
    char a[64], b[64];
    wm_device_class (c.model, &config, WM_SIGNATURE_FP32, a);
    config.isa = "c";
    wm_device_class (c.model, &config, WM_SIGNATURE_FP32, b);
    assert_string_equal (a, wm_device_cpu ());
    assert_string_equal (b, wm_device_cpu ());
    config.precision = "fast", config.isa = "amx-twin";
    wm_device_class (c.model, &config, WM_SIGNATURE_FP32, a);
    assert_string_equal (a, "amx-twin/bf16,amx-twin/bf16x3");
    config.isa = "c"; /* it has nothing but strict fp32 */
    wm_device_class (c.model, &config, WM_SIGNATURE_FP32, a);
    assert_string_equal (a, wm_device_cpu ());
    wm_device_class (c.model, &config, "cuda/H200/sm_90/fp16/v3", a);
    assert_string_equal (a, "H200");
    config.engine = "cuda", config.isa = NULL; /* a GPU of which half cannot hold the model */
    wm_device_class (c.model, &config, WM_SIGNATURE_FP32, a);
    assert_string_equal (a, "cuda");
    config.precision = "fp32";
    wm_device_class (c.model, &config, WM_SIGNATURE_FP32, a);
    assert_string_equal (a, wm_device_cpu ());
    campaign_free (&c);
}

/* ---- the watch ------------------------------------------------------------------------------- */

static void one_hit_in_two_thousand_is_looked_at (void **state)
{
    campaign_t c = campaign_new (0);
    wm_device_t *judge = judge_of (&c, "");
    static float right[HITS * 4], scores[HITS * 4];
    uint8_t status[HITS];
    wm_error_t error = { 0 };
    bool again;
    assert_int_equal (wm_device_score (judge, &c.batch, status, right, &error), WM_OK);
    wm_watch_t *watch = wm_watch_new (c.model, judge, 1e-3);
    assert_non_null (watch);
    memcpy (scores, right, sizeof scores);
    enum { DRAWS = 60000 };
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        assert_int_equal (wm_watch_check (watch, draw * 0x9e3779b97f4a7c15, &c.batch, status,
                                          scores, &again, &error),
                          WM_OK);
        assert_false (again);
    }
    const wm_watch_counts_t counts = wm_watch_counts (watch);
    const double share = (double) counts.n_hit / (DRAWS * (double) HITS);
    assert_true (share > 0.5 / WM_WATCH_SHARE && share < 2. / WM_WATCH_SHARE);
    assert_true (counts.worst == 0 && counts.n_violated == 0 && counts.n_batch > 0);
    wm_watch_destroy (&watch);
    wm_device_destroy (&judge);
    campaign_free (&c);
}

static void what_is_off_is_scored_again (void **state)
{
    campaign_t c = campaign_new (0);
    wm_device_t *judge = judge_of (&c, "");
    static float right[HITS * 4], scores[HITS * 4];
    uint8_t status[HITS];
    wm_error_t error = { 0 };
    bool again;
    uint64_t caught = 0, seen = 0;
    assert_int_equal (wm_device_score (judge, &c.batch, status, right, &error), WM_OK);
    wm_watch_t *watch = wm_watch_new (c.model, judge, 1e-3);
    for (uint64_t draw = 1; draw < 20000; draw++) {
        for (size_t i = 0; i < HITS * 4; i++) /* less than allowed but for hit 200 */
            scores[i] = right[i] + (i == 200 * 4 + 1 ? 2e-3f : 5e-4f);
        memset (status, 9, sizeof status);
        assert_int_equal (wm_watch_check (watch, draw, &c.batch, status, scores, &again, &error),
                          WM_OK);
        if (!again)
            continue;
        caught++;
        assert_memory_equal (scores, right, sizeof scores);
        assert_int_equal (status[7], WM_HIT_SCORED);
        assert_non_null (strstr (error.text, "hit 200, output 1"));
        bool repeated;
        scores[200 * 4 + 1] += 2e-3f; /* a rerun judges the same rows */
        wm_watch_check (watch, draw, &c.batch, status, scores, &repeated, &error);
        assert_true (repeated);
    }
    const wm_watch_counts_t counts = wm_watch_counts (watch);
    seen = counts.n_batch;
    assert_true (caught > 0 && caught < seen);
    assert_int_equal (counts.n_violated, 2 * caught);
    assert_true (counts.worst > 1.5e-3 && counts.worst < 2.5e-3);
    wm_watch_destroy (&watch);
    wm_device_destroy (&judge);
    campaign_free (&c);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (portable_sums_are_fused),
        cmocka_unit_test (strict_kernels_have_the_same_bits),
        cmocka_unit_test (the_table_is_read_from_the_top),
        cmocka_unit_test (what_is_taken_is_precise_enough),
        cmocka_unit_test (max_error_and_sample_decide),
        cmocka_unit_test (what_is_opened_ahead_is_tried_first),
        cmocka_unit_test (classes_are_what_scores_depend_on),
        cmocka_unit_test (one_hit_in_two_thousand_is_looked_at),
        cmocka_unit_test (what_is_off_is_scored_again),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("kernels/trial", tests, NULL, NULL);
}
