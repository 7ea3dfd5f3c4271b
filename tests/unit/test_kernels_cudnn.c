/* test_kernels_cudnn.c - cuDNN's plans for GPUs that are not here.

   cuDNN makes execution plans for a device of which it knows only the properties, so that any
   machine with cuDNN can show that the engine's convolutions have a plan on an H200, an A100 and a
   T4 (tests/gpu/gpu_property.h), with how much workspace and whether on tensor cores.
   On any machine, the error of a launch names the kernel.

   Without libcudnn.so.9, or with one that does not know the descriptor (before 9.8), the tests are
   skipped, with the reason printed.  */
#include "kernels/cuda/wm_cuda.h"
#include "kernels/cuda/wm_gpu_cudnn.h"
#include "tests/gpu/gpu_property.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* NULL and a reason where this machine's cuDNN cannot do it.  */
static wm_cudnn_t *cudnn_for (const gpu_t *gpu)
{
    wm_gpu_text_t text;
    wm_cudnn_t *cudnn = wm_cudnn_new (gpu_property (gpu), &text);
    if (!cudnn)
        print_message ("skipped: %s\n", text);
    return cudnn;
}

static const char *const precisions[] = { "fp32", "tf32", "fp16" };

/* Prints the first plan of a convolution in a line.  */
static wm_gpu_choice_t first_plan (wm_cudnn_t *cudnn, const gpu_t *gpu, const wm_gpu_conv_t *conv)
{
    wm_conv_plan_t *plan;
    wm_gpu_choice_t choice = { 0 };
    wm_gpu_text_t text = wm_cudnn_conv_new (cudnn, conv, 0, &plan, &choice);
    if (text || !plan)
        fail_msg ("%s, %s, %u channels: %s", gpu->name, precisions[conv->precision], conv->c_in,
                  text ? text : "no plan");
    print_message ("%-22s %s %ux%ux%u: %s, workspace %zu\n", gpu->name, precisions[conv->precision],
                   conv->h, conv->w, conv->c_in, choice.name, choice.workspace_bytes);
    wm_cudnn_conv_destroy (cudnn, &plan);
    assert_null (plan);
    return choice;
}

static void the_network_s_convolution_has_plans (void **state)
{
    (void) state;
    for (size_t g = 0; g < GPUS; g++) {
        wm_cudnn_t *cudnn = cudnn_for (&gpus[g]);
        if (!cudnn)
            skip ();
        wm_gpu_conv_t conv = { WM_GPU_F16, true, 1024, 48, 48, 1, 5, 5, 48 };
        wm_gpu_choice_t half = first_plan (cudnn, &gpus[g], &conv);
        assert_true (half.tensor_core);
        assert_int_equal (half.workspace_bytes, 0);
        conv.precision = WM_GPU_F32;
        assert_false (first_plan (cudnn, &gpus[g], &conv).tensor_core);
        conv.precision = WM_GPU_TF32; /* a T4 has none; it computes in float32 */
        assert_true (first_plan (cudnn, &gpus[g], &conv).tensor_core == (gpus[g].version >= 800));
        wm_cudnn_destroy (&cudnn);
    }
}

static void other_shapes_have_plans (void **state)
{
    (void) state;
    static const wm_gpu_conv_t convs[] = {
        { WM_GPU_F16, true, 1024, 44, 48, 1, 5, 5, 48 },
        { WM_GPU_F16, true, 1, 1008, 1096, 1, 5, 5, 48 }, /* a whole plane, once: v2 */
        { WM_GPU_F32, true, 1, 1008, 1096, 1, 5, 5, 48 },
        { WM_GPU_F16, true, 1024, 44, 44, 48, 3, 3, 64 },
        { WM_GPU_F32, true, 1024, 44, 44, 48, 3, 3, 64 },
        { WM_GPU_F16, false, 1024, 12, 10, 3, 5, 3, 8 },
        { WM_GPU_F32, false, 16, 9, 11, 1, 3, 3, 5 },
    };
    wm_cudnn_t *cudnn = cudnn_for (&gpus[0]);
    if (!cudnn)
        skip ();
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
        first_plan (cudnn, &gpus[0], &convs[i]);
    wm_cudnn_destroy (&cudnn);
}

/* A whole plane convolved once, 48 filters channels last: what versions 2 and 3 need, in full
   view (one image) and in own view (six, one above the other). In half on tensor cores and without
   workspace.  */
static void planes_have_plans_on_every_gpu (void **state)
{
    (void) state;
    static const uint32_t side[][2] = { { 2448, 1096 }, { 1196, 1096 }, { 6 * 1196, 1050 } };
    for (size_t g = 0; g < GPUS; g++) {
        wm_cudnn_t *cudnn = cudnn_for (&gpus[g]);
        if (!cudnn)
            skip ();
        for (size_t i = 0; i < 3 * (sizeof side / sizeof *side); i++) {
            const wm_gpu_precision_t precision = (wm_gpu_precision_t) (i % 3);
            const wm_gpu_conv_t conv = { precision, true, 1, side[i / 3][0], side[i / 3][1], 1,
                                         5,         5,    48 };
            const wm_gpu_choice_t choice = first_plan (cudnn, &gpus[g], &conv);
            assert_true (
                choice.tensor_core ==
                (precision == WM_GPU_F16 || (precision == WM_GPU_TF32 && gpus[g].version >= 800)));
            assert_in_range (choice.workspace_bytes, 0, precision == WM_GPU_F16 ? 0 : 64 << 20);
        }
        const wm_gpu_conv_t band = { WM_GPU_F16, true, 1, WM_CUDA_BAND + 4, WM_CUDA_STARTS + 48, 1,
                                     5,          5,    48 };
        const wm_gpu_choice_t choice = first_plan (cudnn, &gpus[g], &band);
        assert_true (choice.tensor_core && choice.workspace_bytes == 0);
        wm_cudnn_destroy (&cudnn);
    }
}

/* Candidates end: no error, no plan.  */
static void candidates_end (void **state)
{
    (void) state;
    wm_cudnn_t *cudnn = cudnn_for (&gpus[0]);
    if (!cudnn)
        skip ();
    const wm_gpu_conv_t conv = { WM_GPU_F16, true, 64, 48, 48, 1, 5, 5, 48 };
    wm_conv_plan_t *plan;
    wm_gpu_choice_t choice;
    assert_null (wm_cudnn_conv_new (cudnn, &conv, 1000, &plan, &choice));
    assert_null (plan);
    wm_cudnn_destroy (&cudnn);
}

static void wrong_shapes_and_properties_are_errors (void **state)
{
    (void) state;
    wm_gpu_text_t text = NULL;
    wm_cudnn_t *cudnn = cudnn_for (&gpus[0]);
    if (!cudnn)
        skip ();
    const wm_gpu_conv_t conv = { WM_GPU_F16, true, 64, 4, 48, 1, 5, 5, 48 }; /* 4 < 5 */
    wm_conv_plan_t *plan;
    wm_gpu_choice_t choice;
    text = wm_cudnn_conv_new (cudnn, &conv, 0, &plan, &choice);
    assert_non_null (text);
    assert_null (plan);
    assert_non_null (strstr (text, "CUDNN_STATUS_"));
    wm_cudnn_destroy (&cudnn);
    assert_null (wm_cudnn_new ("{\"deviceVer\":900}", &text));
    assert_non_null (strstr (text, "device properties"));
}

static void without_a_library_it_says_so (void **state)
{
    (void) state;
    wm_gpu_text_t text = NULL;
    wm_cudnn_t *cudnn = wm_cudnn_new (NULL, &text); /* for the GPU that is here */
    if (cudnn) {
        print_message ("a GPU is here: tests/gpu has the tests for it\n");
        wm_cudnn_destroy (&cudnn);
        return;
    }
    assert_non_null (text);
    assert_true (strstr (text, "libcudnn") || strstr (text, "CUDNN_STATUS_"));
}

/* Of no blocks: refused with a GPU and without one. */
static void a_launch_that_fails_names_its_kernel (void **state)
{
    (void) state;
    static const char args[4096];
    char text[WM_GPU_KERNELS][120];
    void *gpu = wm_gpu_real.make ();
    for (int k = 0; k < WM_GPU_KERNELS; k++) {
        const wm_gpu_launch_t launch = { (wm_gpu_kernel_t) k, 0, 256, 0, args };
        snprintf (text[k], sizeof text[k], "%s", wm_gpu_real.launch (gpu, &launch, NULL));
        assert_non_null (strstr (text[k], "launch of kernel "));
        for (int i = 0; i < k; i++)
            assert_string_not_equal (text[i], text[k]);
    }
    assert_non_null (strstr (text[WM_GPU_SCAN], "kernel scan: cudaError"));
    assert_non_null (strstr (text[WM_GPU_DENSE_TF32], "kernel dense in tf32: cudaError"));
    wm_gpu_real.destroy (gpu);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (the_network_s_convolution_has_plans),
        cmocka_unit_test (other_shapes_have_plans),
        cmocka_unit_test (planes_have_plans_on_every_gpu),
        cmocka_unit_test (candidates_end),
        cmocka_unit_test (wrong_shapes_and_properties_are_errors),
        cmocka_unit_test (without_a_library_it_says_so),
        cmocka_unit_test (a_launch_that_fails_names_its_kernel),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
