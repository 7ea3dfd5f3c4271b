/* test_ops_points.c - what follows from a measured point: GFLOP/s, and the peak that they are a
   share of.  */
#include "ops/bench/wm_bench_points.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

/* A peak for each kind of arithmetic; 0.1 GFLOP/s of multiply-adds. bf16x3 executes three products
   in bf16 for each of them. AMX has not run here: this holds its rule.  */
static void each_engine_has_its_own_peak (void **state)
{
    static const struct {
        const char *signature;
        double gflops, peak;
    } cases[] = {
        { "sparse/avx512/fp32/v1", 100, 100 },
        { "sparse/avx512/bf16/v1", 100, 200 },
        { "sparse/avx512-vnni/int16/v1", 100, 200 },
        { "sparse/amx/bf16/v1", 100, 2000 },
        { "sparse/amx/bf16x3/v1", 300, 2000 },
        { "openvino-2026.4.1/amx/fast/v1", 100, 2000 },
        { "openvino-2026.4.1/amx/fp32/v1", 100, 100 },
        { "openvino-2026.4.1/avx512/fast/v1", 100, 200 },
    };
    wm_machine_t machine = { .peak_fp32 = 100, .peak_16bit = 200, .peak_amx = 2000 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *point =
            json_pack ("{s:s, s:f, s:f, s:f, s:i, s:i, s:f, s:f}", "signature", cases[i].signature,
                       "best_hits_s", 1e4, "hits", 1e4, "cpu_s", 2.0, "workers", 1, "threads", 2,
                       "executed_madds", 5e6, "dense_madds", 1e7);
        wm_point_complete (point, &machine);
        const double gflops = json_number_value (json_object_get (point, "gflops"));
        const double peak = json_number_value (json_object_get (point, "peak_gflops"));
        print_message ("%s\n", cases[i].signature);
        assert_true (gflops > cases[i].gflops * 0.999 && gflops < cases[i].gflops * 1.001);
        assert_true (peak == 2 * cases[i].peak);
        json_decref (point);
    }
}

/* Each reason of a dash is said once below the table.  */
static void what_is_not_known_is_said (void **state)
{
    const wm_machine_t machine = { .cpu = "one", .isa = "avx2", .cpus = 2, .peak_fp32 = 100 };
    static const char *const uncounted[] = { "nobody counts", "nobody counts", NULL };
    json_t *points = json_array ();
    char *said = NULL;
    size_t size;
    for (int i = 0; i < 3; i++) { /* the third was counted, but its precision has no peak here */
        json_t *point =
            json_pack ("{s:s, s:s, s:f, s:f, s:i, s:i, s:f, s:f, s:s*}", "bench", "engine",
                       "signature", "openvino-2026.4.1/avx2/fast/v1", "best_hits_s", 1e4, "cpu_s",
                       2.0, "workers", 1, "threads", 2, "executed_madds", i < 2 ? 0. : 5e6,
                       "dense_madds", i < 2 ? 0. : 5e6, "uncounted", uncounted[i]);
        wm_point_complete (point, &machine);
        json_array_append_new (points, point);
    }
    FILE *out = open_memstream (&said, &size);
    wm_points_table (out, points, "engine", &machine);
    fclose (out);
    assert_non_null (strstr (said, "GFLOP/s"));
    char *first = strstr (said, "-: not known: nobody counts\n");
    assert_non_null (first);
    assert_null (strstr (strchr (first, '\n'), "nobody counts"));
    assert_non_null (
        strstr (first, "-: not known: this CPU has no measured peak of its precision"));
    free (said);
    json_decref (points);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (each_engine_has_its_own_peak),
                                        cmocka_unit_test (what_is_not_known_is_said) };
    return cmocka_run_group_tests_name ("ops/points", tests, NULL, NULL);
}
