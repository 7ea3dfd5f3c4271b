/* test_kernels_cudnn.c - cuDNN's plans for GPUs that are not here.

   cuDNN makes execution plans for a device of which it knows only the properties, so that any
   machine with cuDNN can show that the engine's convolutions have a plan on an H200, an A100 and a
   T4 (tests/gpu/gpu_property.h), with how much workspace and whether on tensor cores.

   Without libcudnn.so.9, or with one that does not know the descriptor (before 9.8), the tests are
   skipped, with the reason printed.  */
#include "kernels/gpu/wm_gpu_cudnn.h"
#include "tests/gpu/gpu_property.h"
#include "tests/unit/unit.h"

#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL and a reason where this machine's cuDNN cannot do it.  */
static wm_cudnn_t *cudnn_for (const gpu_t *gpu)
{
    wm_gpu_text_t text;
    wm_cudnn_t *cudnn = wm_cudnn_new (gpu_property (gpu), 0, &text);
    if (!cudnn)
        print_message ("skipped: %s\n", text);
    return cudnn;
}

static const char *const precisions[] = { "fp32", "tf32", "fp16" };

/* A valid convolution with ReLU, stride 1.  */
static wm_gpu_anyconv_t conv_of (wm_gpu_precision_t precision, uint32_t rows, uint32_t h,
                                 uint32_t w, uint32_t c_in, uint32_t kh, uint32_t kw,
                                 uint32_t c_out)
{
    return (wm_gpu_anyconv_t){ .precision = precision,
                               .relu = true,
                               .rows = rows,
                               .c_in = c_in,
                               .c_out = c_out,
                               .groups = 1,
                               .in = { h, w },
                               .out = { h - kh + 1, w - kw + 1 },
                               .kernel = { kh, kw },
                               .stride = { 1, 1 },
                               .dilation = { 1, 1 } };
}

/* Prints the first plan of a convolution in a line.  */
static wm_gpu_choice_t first_plan (wm_cudnn_t *cudnn, const gpu_t *gpu,
                                   const wm_gpu_anyconv_t *conv)
{
    wm_conv_plan_t *plan;
    wm_gpu_choice_t choice = { 0 };
    wm_gpu_text_t text = wm_cudnn_anyconv_new (cudnn, conv, 0, &plan, &choice);
    if (text || !plan)
        fail_msg ("%s, %s, %u channels: %s", gpu->name, precisions[conv->precision], conv->c_in,
                  text ? text : "no plan");
    print_message ("%-22s %s %ux%ux%u: %s, workspace %zu\n", gpu->name, precisions[conv->precision],
                   conv->in[0], conv->in[1], conv->c_in, choice.name, choice.workspace_bytes);
    wm_cudnn_conv_destroy (cudnn, &plan);
    assert_null (plan);
    return choice;
}

static void the_network_s_convolution_has_plans (void **state)
{
    for (size_t g = 0; g < GPUS; g++) {
        wm_cudnn_t *cudnn = cudnn_for (&gpus[g]);
        if (!cudnn)
            skip ();
        wm_gpu_anyconv_t conv = conv_of (WM_GPU_F16, 1024, 48, 48, 1, 5, 5, 48);
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

/* The first dense layer of the network, too: a convolution of 1x1 over one place.  */
static void other_shapes_have_plans_on_every_gpu (void **state)
{
    const wm_gpu_anyconv_t convs[] = {
        conv_of (WM_GPU_F16, 1024, 44, 48, 1, 5, 5, 48),
        conv_of (WM_GPU_F16, 1024, 1, 1, 92928, 1, 1, 128),
        conv_of (WM_GPU_F32, 1024, 1, 1, 92928, 1, 1, 128),
        conv_of (WM_GPU_F16, 1024, 44, 44, 48, 3, 3, 64),
        conv_of (WM_GPU_F32, 1024, 44, 44, 48, 3, 3, 64),
        conv_of (WM_GPU_F16, 1024, 12, 10, 3, 5, 3, 8),
        conv_of (WM_GPU_F32, 16, 9, 11, 1, 3, 3, 5),
    };
    for (size_t g = 0; g < GPUS; g++) {
        wm_cudnn_t *cudnn = cudnn_for (&gpus[g]);
        if (!cudnn)
            skip ();
        for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
            first_plan (cudnn, &gpus[g], &convs[i]);
        wm_cudnn_destroy (&cudnn);
    }
}

/* Candidates end: no error, no plan.  */
static void candidates_end (void **state)
{
    wm_cudnn_t *cudnn = cudnn_for (&gpus[0]);
    if (!cudnn)
        skip ();
    const wm_gpu_anyconv_t conv = conv_of (WM_GPU_F16, 64, 48, 48, 1, 5, 5, 48);
    wm_conv_plan_t *plan;
    wm_gpu_choice_t choice;
    assert_null (wm_cudnn_anyconv_new (cudnn, &conv, 1000, &plan, &choice));
    assert_null (plan);
    wm_cudnn_destroy (&cudnn);
}

static void wrong_shapes_and_properties_are_errors (void **state)
{
    wm_gpu_text_t text = NULL;
    wm_cudnn_t *cudnn = cudnn_for (&gpus[0]);
    if (!cudnn)
        skip ();
    const wm_gpu_anyconv_t conv = conv_of (WM_GPU_F16, 64, 4, 48, 1, 5, 5, 48); /* 4 < 5 */
    wm_conv_plan_t *plan;
    wm_gpu_choice_t choice;
    text = wm_cudnn_anyconv_new (cudnn, &conv, 0, &plan, &choice);
    assert_non_null (text);
    assert_null (plan);
    assert_non_null (strstr (text, "CUDNN_STATUS_"));
    wm_cudnn_destroy (&cudnn);
    assert_null (wm_cudnn_new ("{\"deviceVer\":900}", 0, &text));
    assert_non_null (strstr (text, "device properties"));
}

static void without_a_library_it_says_so (void **state)
{
    wm_gpu_text_t text = NULL;
    wm_cudnn_t *cudnn = wm_cudnn_new (NULL, 0, &text); /* for the GPU that is here */
    if (cudnn) {
        print_message ("a GPU is here: tests/gpu has the tests for it\n");
        wm_cudnn_destroy (&cudnn);
        return;
    }
    assert_non_null (text);
    assert_true (strstr (text, "libcudnn") || strstr (text, "CUDNN_STATUS_"));
}

/* A library like libcudnn.so.9 (fake_cudnn.h) in front of the real one: it refuses heuristics.  */
static void a_heuristic_that_fails_leaves_the_next (void **state)
{
    wm_gpu_text_t text;
    wm_cudnn_t *real = cudnn_for (&gpus[0]), *cudnn;
    char folder[] = "/tmp/wm_cudnn_XXXXXX", line[400];
    if (!real)
        skip ();
    assert_non_null (mkdtemp (folder));
    snprintf (
        line, sizeof line,
        "${CC:-gcc} -shared -fPIC -D_GNU_SOURCE -w -DMODE=%d -DMODE_A=%d -DMODE_FALLBACK=%d -x c "
        "tests/unit/fake_cudnn.h -o %s/libcudnn.so.9",
        CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK, folder);
    assert_int_equal (system (line), 0);
    char *kept = getenv ("WM_CUDA_LIBS") ? strdup (getenv ("WM_CUDA_LIBS")) : NULL;
    setenv ("WM_CUDA_LIBS", folder, 1);
    assert_non_null (cudnn = wm_cudnn_new (gpu_property (&gpus[0]), 0, &text));
    const wm_gpu_anyconv_t conv = conv_of (WM_GPU_F16, 64, 48, 48, 1, 5, 5, 48);
    wm_conv_plan_t *plan;
    wm_gpu_choice_t choice;
    for (uint32_t c = 0; c < 2; c++) { /* the fallback's candidates count from 0 on, too */
        setenv ("WM_FAKE_CUDNN", "A", 1);
        assert_null (wm_cudnn_anyconv_new (cudnn, &conv, c, &plan, &choice));
        assert_non_null (plan);
        wm_cudnn_conv_destroy (cudnn, &plan);
    }
    setenv ("WM_FAKE_CUDNN", "AF", 1);
    text = wm_cudnn_anyconv_new (cudnn, &conv, 0, &plan, &choice);
    assert_null (plan);
    assert_non_null (text);
    assert_non_null (strstr (text, "cuDNN heuristic: "));
    setenv ("WM_FAKE_CUDNN", "F", 1); /* after the last of mode A */
    assert_null (wm_cudnn_anyconv_new (cudnn, &conv, 1000, &plan, &choice));
    assert_null (plan);
    unsetenv ("WM_FAKE_CUDNN");
    wm_cudnn_destroy (&cudnn);
    assert_null (wm_cudnn_new (NULL, 11080, &text)); /* no cuDNN 9 is for CUDA 11 alone */
    assert_non_null (strstr (text, ", the NVIDIA driver for CUDA 11.8: `pip install"));
    if (kept)
        setenv ("WM_CUDA_LIBS", kept, 1);
    else
        unsetenv ("WM_CUDA_LIBS");
    free (kept);
    wm_cudnn_destroy (&real);
    snprintf (line, sizeof line, "rm -r %s", folder);
    assert_int_equal (system (line), 0);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (the_network_s_convolution_has_plans),
        cmocka_unit_test (other_shapes_have_plans_on_every_gpu),
        cmocka_unit_test (candidates_end),
        cmocka_unit_test (wrong_shapes_and_properties_are_errors),
        cmocka_unit_test (without_a_library_it_says_so),
        cmocka_unit_test (a_heuristic_that_fails_leaves_the_next),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
