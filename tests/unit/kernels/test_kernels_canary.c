/* test_kernels_canary.c - which hits of a GPU's batch are checked, and what each check finds.  */
#include "kernels/judge/wm_canary.h"
#include "kernels/judge/wm_canary_cache.h"
#include "kernels/model/wm_seed.h"
#include "tests/unit/family_graph.h"

#include <math.h>

enum { HITS = 120, VALUES = H * W, OUTPUTS = 4 };
#define TOLERANCE 1e-4

static wm_model_t *model;
static wm_device_t *cpu;
static float patch[HITS * VALUES], right[HITS * OUTPUTS], scores[HITS * OUTPUTS];
static uint8_t status[HITS];

static void score (const wm_batch_t *batch, float *to)
{
    assert_int_equal (wm_device_score (cpu, batch, status, to, NULL), WM_OK);
}

static wm_batch_t first_hits (uint32_t n)
{
    return (wm_batch_t){
        .kind = WM_BATCH_PATCHES, .n_hit = n, .patch_values = VALUES, .patch = patch
    };
}

static int set_up (void **state)
{
    char why[480];
    uint64_t seed = 7;
    if (make_folder (state))
        return -1;
    graph_t g = family (0);
    save_graph (&g);
    const wm_device_config_t config = { .engine = "sparse", .precision = "fp32", .threads = 1 };
    if (wm_import (model_path, NULL, wmm_path, why, NULL) ||
        !(model = wm_model_open (wmm_path, NULL)) ||
        !(cpu = wm_device_new (model, NULL, &config, NULL)))
        return -1;
    for (size_t i = 0; i < HITS * VALUES; i++)
        patch[i] = (float) (wm_seed_next (&seed) % 2000) / 1000 - 1;
    const wm_batch_t all = first_hits (HITS);
    score (&all, right);
    return 0;
}

static int tear_down (void **state)
{
    wm_device_destroy (&cpu);
    wm_model_destroy (&model);
    return remove_folder (state);
}

/* ---- on the CPU ------------------------------------------------------------------------------ */

static wm_fault_t check_with (wm_canary_t *canary, uint32_t from, uint32_t to, float by,
                              wm_error_t *error)
{
    const wm_batch_t all = first_hits (HITS);
    memcpy (scores, right, sizeof scores);
    for (uint32_t i = from; i < to; i++)
        scores[i * OUTPUTS + OUTPUTS - 1] += by;
    return wm_canary_check (canary, &all, scores, error);
}

/* A stretch of the batch with nothing but wrong scores is found at once, wherever it is, in the
   last output, above and below; and what is within the tolerance is no fault.  */
static void one_of_each_stretch (void **state)
{
    const uint32_t each = HITS / WM_CANARIES;
    wm_canary_t *canary = wm_canary_new (model, NULL, TOLERANCE, 1, NULL);
    assert_non_null (canary);
    for (int round = 0; round < 4; round++)
        for (uint32_t i = 0; i < WM_CANARIES; i++) {
            wm_error_t error = { 0 };
            const float by = round % 2 ? -1.5e-4f : 1.5e-4f;
            assert_int_equal (check_with (canary, 0, HITS, by / 2, &error), WM_OK);
            assert_int_equal (check_with (canary, i * each, (i + 1) * each, by, &error), WM_EHOST);
            assert_non_null (strstr (error.text, "a canary died: output 3 of hit "));
            unsigned hit = HITS;
            sscanf (strstr (error.text, "of hit ") + 7, "%u", &hit);
            assert_in_range (hit, i * each, (i + 1) * each - 1);
        }
    wm_canary_destroy (&canary);
}

/* Hits that are cut from a plane: those of their own places are compared, and no others.  */
static void hits_of_a_plane (void **state)
{
    enum { WIRES = 60, COLUMNS = 50 };
    static float value[WIRES * COLUMNS], should[HITS * OUTPUTS];
    static uint32_t wire[HITS], run_wire[WIRES], run_first[WIRES], run_length[WIRES];
    static int32_t col[HITS];
    const char *text = "patch: [8, 10]";
    const wm_device_config_t config = { .engine = "sparse", .precision = "fp32", .threads = 1 };
    const wm_batch_t batch = { .kind = WM_BATCH_BINS,
                               .n_hit = HITS,
                               .n_wire = WIRES,
                               .n_col = COLUMNS,
                               .n_run = WIRES,
                               .n_value = WIRES * COLUMNS,
                               .run_wire = run_wire,
                               .run_first = run_first,
                               .run_length = run_length,
                               .value = value,
                               .hit_wire = wire,
                               .hit_col = col };
    uint64_t seed = 11;
    wm_spec_t spec;
    wm_error_t error = { 0 };
    for (size_t i = 0; i < WIRES * COLUMNS; i++)
        value[i] = (float) (wm_seed_next (&seed) % 2000) / 1000 - 1;
    for (uint32_t w = 0; w < WIRES; w++)
        run_wire[w] = w, run_length[w] = COLUMNS;
    for (uint32_t i = 0; i < HITS; i++) {
        wire[i] = (uint32_t) (wm_seed_next (&seed) % WIRES);
        col[i] = (int32_t) (wm_seed_next (&seed) % COLUMNS);
    }
    assert_int_equal (wm_spec_parse (&spec, text, strlen (text), "test", &error), WM_OK);
    wm_device_t *device = wm_device_new (model, &spec, &config, &error);
    wm_canary_t *canary = wm_canary_new (model, &spec, TOLERANCE, 1, &error);
    assert_true (device && canary);
    assert_int_equal (wm_device_score (device, &batch, status, should, &error), WM_OK);
    for (int round = 0; round < 8; round++)
        if (wm_canary_check (canary, &batch, should, &error))
            fail_msg ("%s", error.text);
    memcpy (scores, should + OUTPUTS, sizeof should - OUTPUTS * sizeof *should);
    memcpy (scores + (HITS - 1) * OUTPUTS, should, OUTPUTS * sizeof *should);
    assert_int_equal (wm_canary_check (canary, &batch, scores, &error), WM_EHOST);
    wm_canary_destroy (&canary);
    wm_device_destroy (&device);
}

/* With tolerance 0 nothing but the CPU's bits passes: no NaN and no infinity.  */
static void the_same_bits (void **state)
{
    const wm_batch_t all = first_hits (HITS);
    static const float odd[] = { NAN, INFINITY, -INFINITY };
    wm_canary_t *canary = wm_canary_new (model, NULL, 0, 1, NULL);
    assert_non_null (canary);
    assert_int_equal (check_with (canary, 0, 0, 0, NULL), WM_OK);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_int_equal (check_with (canary, 0, HITS, odd[i], NULL), WM_EHOST);
    for (uint32_t i = 0; i < HITS; i++) /* a change of the last bit */
        scores[i * OUTPUTS] = nextafterf (right[i * OUTPUTS], INFINITY);
    assert_int_equal (wm_canary_check (canary, &all, scores, NULL), WM_EHOST);
    wm_canary_destroy (&canary);
}

/* A job that is taken comes back when it is checked; with a small share the next one is not taken,
   nor is one taken while another is checked.  */
static void jobs_in_their_share (void **state)
{
    const wm_batch_t all = first_hits (HITS);
    wm_error_t error = { 0 };
    for (int wrong = 0; wrong < 2; wrong++) {
        wm_job_t job = { .batch = &all, .status = status, .scores = scores }, *back;
        wm_canary_t *canary = wm_canary_new (model, NULL, TOLERANCE, 1e-9, NULL);
        memcpy (scores, right, sizeof scores);
        for (size_t i = 0; i < HITS * OUTPUTS && wrong; i++)
            scores[i] += 1;
        assert_true (wm_canary_take (canary, &job));
        assert_false (wm_canary_take (canary, &job));
        const wm_fault_t fault = wm_canary_collect (canary, true, &back, &error);
        assert_int_equal (fault, wrong ? WM_EHOST : WM_OK);
        assert_ptr_equal (back, wrong ? NULL : &job);
        assert_int_equal (wm_canary_collect (canary, true, &back, &error), WM_OK);
        assert_null (back);
        assert_false (wm_canary_take (canary, &job));
        wm_canary_destroy (&canary);
    }
}

/* ---- by what was known ----------------------------------------------------------------------- */

/* Scores the job of a check, of whose output `o` of row r is wrong; r -1: all are right.  */
static void score_job (wm_job_t *job, int64_t r, uint32_t o)
{
    score (job->batch, job->scores);
    if (r >= 0)
        job->scores[r * OUTPUTS + o] += 1e-6f + job->scores[r * OUTPUTS + o] / 1024;
}

/* A check of a batch of n hits, after the known patches were scored once.  */
static wm_canary_cache_t *begun (wm_job_t *job, double share)
{
    wm_canary_cache_t *cache = wm_canary_cache_new (model, share, NULL);
    wm_job_t *back;
    bool again;
    assert_non_null (cache);
    assert_true (wm_canary_cache_take (cache, job));
    assert_false (wm_canary_cache_take (cache, job));
    assert_int_equal (wm_canary_cache_job (cache)->batch->n_hit, WM_RECALLS);
    score_job (wm_canary_cache_job (cache), -1, 0);
    assert_int_equal (wm_canary_cache_compare (cache, &back, &again, NULL), WM_OK);
    assert_true (again && !back);
    return cache;
}

/* Every row is compared whole, hits and known patches.  */
static void every_row_is_compared (void **state)
{
    static const uint32_t sizes[] = { 1, 10, WM_CANARY_CACHE_ROWS - WM_RECALLS, HITS };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const wm_batch_t batch = first_hits (sizes[s]);
        const uint32_t has = sizes[s] + WM_RECALLS,
                       rows = has < WM_CANARY_CACHE_ROWS ? has : WM_CANARY_CACHE_ROWS;
        for (int64_t r = -1; r < rows; r++) {
            wm_job_t job = { .batch = &batch, .status = status, .scores = right }, *back;
            wm_canary_cache_t *cache = begun (&job, 1);
            bool again;
            wm_error_t error = { 0 };
            assert_int_equal (wm_canary_cache_job (cache)->batch->n_hit, rows);
            score_job (wm_canary_cache_job (cache), r, r % 2 ? 0 : OUTPUTS - 1);
            assert_int_equal (wm_canary_cache_compare (cache, &back, &again, &error),
                              r < 0 ? WM_OK : WM_EHOST);
            assert_ptr_equal (back, r < 0 ? &job : NULL);
            assert_false (again);
            if (r < 0) /* the next one is taken at once */
                assert_true (wm_canary_cache_take (cache, &job));
            wm_canary_cache_destroy (&cache);
        }
    }
}

/* Whether the job of a check has this hit.  */
static bool has_hit (const wm_job_t *job, uint32_t hit)
{
    for (uint32_t r = 0; r < job->batch->n_hit; r++)
        if (!memcmp (job->batch->patch + r * VALUES, patch + hit * VALUES, VALUES * sizeof *patch))
            return true;
    return false;
}

/* Of a large batch any stretch is sent along, the first and the last hit now and then, a middle one
   mostly.  */
static void any_stretch_of_a_large_batch (void **state)
{
    const wm_batch_t batch = first_hits (WM_CANARY_CACHE_ROWS - WM_RECALLS + 2);
    wm_job_t job = { .batch = &batch, .status = status, .scores = right };
    unsigned first = 0, last = 0;
    for (int i = 0; i < 200; i++) {
        wm_canary_cache_t *cache = begun (&job, 1);
        const wm_job_t *check = wm_canary_cache_job (cache);
        assert_true (has_hit (check, batch.n_hit / 2));
        first += has_hit (check, 0), last += has_hit (check, batch.n_hit - 1);
        wm_canary_cache_destroy (&cache);
    }
    assert_in_range (first, 1, 199); /* one of three each: 200 times none in 10^35 */
    assert_in_range (last, 1, 199);
}

static void checks_in_their_share (void **state)
{
    const wm_batch_t batch = first_hits (10);
    wm_job_t job = { .batch = &batch, .status = status, .scores = right }, *back;
    wm_canary_cache_t *cache = begun (&job, 1e-9);
    bool again;
    score_job (wm_canary_cache_job (cache), -1, 0);
    assert_int_equal (wm_canary_cache_compare (cache, &back, &again, NULL), WM_OK);
    assert_ptr_equal (back, &job);
    assert_false (wm_canary_cache_take (cache, &job));
    wm_canary_cache_destroy (&cache);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (one_of_each_stretch),          cmocka_unit_test (jobs_in_their_share),
        cmocka_unit_test (every_row_is_compared),        cmocka_unit_test (checks_in_their_share),
        cmocka_unit_test (any_stretch_of_a_large_batch), cmocka_unit_test (the_same_bits),
        cmocka_unit_test (hits_of_a_plane),
    };
    return cmocka_run_group_tests (tests, set_up, tear_down);
}
