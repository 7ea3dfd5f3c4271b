/* test_ops_points.c - what follows from a measured point: GFLOP/s, and the peak that they are a share of.  */
#include "ops/wm_points.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A peak for each kind of arithmetic; 0.1 GFLOP/s of multiply-adds. bf16x3 executes three products in
   bf16 for each of them. AMX has not run here: this holds its rule.  */
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
    (void) state;
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

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (each_engine_has_its_own_peak) };
    return cmocka_run_group_tests_name ("ops/points", tests, NULL, NULL);
}
