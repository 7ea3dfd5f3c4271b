/* test_kernels_cuda_door.c - the CUDA engine through the door, on whatever machine this is.

   Without wm_cuda.so, without a driver or a GPU: one line that says so, and the CPU scores. With a
   GPU: known answers in both precisions, and the bits of one engine in another's grouping.  */
#include "kernels/wm_device.h"
#include "kernels/wm_import.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static wm_model_t *model;

static int set_up (void **state)
{
    (void) state;
    char folder[] = "/tmp/wm_cuda_XXXXXX", onnx[64], wmm[64], why[480];
    wm_error_t error = { 0 };
    if (!mkdtemp (folder))
        return -1;
    snprintf (onnx, sizeof onnx, "%s/m.onnx", folder);
    snprintf (wmm, sizeof wmm, "%s/m.wmm", folder);
    if (wm_model_new_emtrkmichel (1, 12, 10, onnx, &error) || wm_import (onnx, wmm, why, &error) ||
        !(model = wm_model_open (wmm, &error)))
        print_message ("%s\n", error.text);
    unlink (onnx);
    unlink (wmm);
    rmdir (folder);
    return model ? 0 : -1;
}

static int tear_down (void **state)
{
    (void) state;
    wm_model_destroy (&model);
    return 0;
}

static wm_device_t *device_of (const char *engine, const char *precision, wm_error_t *error)
{
    const wm_device_config_t config = { .engine = engine, .precision = precision, .threads = 1 };
    return wm_device_new (model, NULL, &config, error);
}

static void a_machine_without_it_says_so_in_a_line (void **state)
{
    (void) state;
    wm_error_t error = { 0 };
    setenv ("WM_CUDA_SO", "/nowhere/wm_cuda.so", 1);
    assert_null (device_of ("cuda", "fast", &error));
    unsetenv ("WM_CUDA_SO");
    assert_int_equal (error.fault, WM_EHOST);
    assert_non_null (strstr (error.text, "/nowhere/wm_cuda.so"));
    wm_device_t *device = device_of ("cuda", "fast", &error);
    if (!device) {
        print_message ("here: %s\n", error.text);
        assert_int_equal (error.fault, WM_EHOST);
        assert_null (strchr (error.text, '\n'));
        assert_non_null (strstr (error.text, "the cuda engine cannot"));
        assert_null (getenv ("WM_REQUIRE_GPU"));
    }
    wm_device_destroy (&device);
}

static void the_cpu_scores_where_there_is_no_gpu (void **state)
{
    (void) state;
    wm_error_t error = { 0 };
    wm_device_t *device = device_of ("auto", "fp32", &error);
    assert_non_null (device);
    assert_int_equal (wm_device_self_test (device, &error), WM_OK);
    wm_device_destroy (&device);
}

static void a_gpu_knows_the_answers (void **state)
{
    (void) state;
    static const char *const precision[] = { "fp32", "fast" };
    for (int p = 0; p < 2; p++) {
        wm_error_t error = { 0 };
        wm_device_t *device = device_of ("cuda", precision[p], &error);
        if (!device)
            skip ();
        print_message ("%s\n", wm_device_signature (device));
        assert_int_equal (strncmp (wm_device_signature (device), "cuda/", 5), 0);
        if (wm_device_self_test (device, &error))
            fail_msg ("%s", error.text);
        wm_device_destroy (&device);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (a_machine_without_it_says_so_in_a_line),
        cmocka_unit_test (the_cpu_scores_where_there_is_no_gpu),
        cmocka_unit_test (a_gpu_knows_the_answers),
    };
    return cmocka_run_group_tests (tests, set_up, tear_down);
}
