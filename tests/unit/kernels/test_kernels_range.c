/* test_kernels_range.c - the bound of a network's convolutions, against all patches of two
   convolutions of one number: there intervals are exact, but for what rounding adds.  */
#include "kernels/family/wm_range.h"
#include "kernels/model/wm_act.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 20000

/* The largest |value| of either convolution for numbers within +-limit.  */
static double worst_of (const wm_net_t *net, double limit)
{
    double worst = 0;
    for (int i = 0; i <= STEPS; i++) {
        double x = limit * (2. * i / STEPS - 1);
        for (uint32_t k = 0; k < net->n_conv; k++) {
            const wm_conv_t *conv = &net->conv[k];
            const double sum = (double) conv->bias[0] + (double) conv->weight[0] * x;
            worst = fmax (worst, fabs (sum));
            x = wm_sparse_activated (conv->act, conv->bend, sum);
        }
    }
    return worst;
}

static void the_bound_is_that_of_the_worst_patch (void **state)
{
    static const wm_act_t acts[] = { WM_ACT_NONE,  WM_ACT_RELU,      WM_ACT_SIGMOID,
                                     WM_ACT_TANH,  WM_ACT_LEAKY,     WM_ACT_ELU,
                                     WM_ACT_CLIP,  WM_ACT_GELU,      WM_ACT_GELU_TANH,
                                     WM_ACT_SWISH, WM_ACT_HARDSWISH, WM_ACT_SOFTPLUS,
                                     WM_ACT_MISH };
    static const float weight[] = { 1, -1, 3, -7 }, bias[] = { 0, 0.5f, -2 };
    for (size_t a = 0; a < sizeof acts / sizeof *acts; a++)
        for (int i = 0; i < 4 * 3 * 4 * 3 * 2; i++) {
            const float w[2] = { weight[i % 4], weight[i / 12 % 4] },
                        b[2] = { bias[i / 4 % 3], bias[i / 48 % 3] };
            const double limit = i / 144 ? 40 : 0.75;
            wm_net_t net = { .height = 1, .width = 1, .channel = 1, .n_conv = 2 };
            for (int k = 0; k < 2; k++)
                net.conv[k] = (wm_conv_t){ .kh = 1,
                                           .kw = 1,
                                           .c_in = 1,
                                           .c_out = 1,
                                           .act = acts[a],
                                           .bend = 0.75f,
                                           .weight = &w[k],
                                           .bias = &b[k] };
            const double worst = worst_of (&net, limit), bound = wm_range_bound (&net, limit),
                         first = fabs ((double) w[0]) * limit + fabs ((double) b[0]) + 1,
                         all = fabs ((double) w[1]) * first + fabs ((double) b[1]);
            if (!(bound >= worst && bound <= worst + (first + all) / 100))
                fail_msg ("activation %d, weights %g and %g, biases %g and %g, +-%g: %g, not %g",
                          (int) acts[a], (double) w[0], (double) w[1], (double) b[0], (double) b[1],
                          limit, bound, worst);
        }
}

/* Two inputs of a filter are at their worst together; of two filters the worse one counts.  */
static void channels_add_up (void **state)
{
    /* (1, 2, 2 channels, 2 filters): filter 0 is x0 - 2 x1 + 3 x2 - 4 x3, filter 1 one of them */
    const float weight[] = { 1, 0, -2, 0, 3, 0, -4, -1 }, bias[] = { -0.5f, 0 };
    const float next[] = { -1, 0 }, no_bias[] = { 0 };
    wm_net_t net = { .height = 1, .width = 2, .channel = 2, .n_conv = 2 };
    net.conv[0] = (wm_conv_t){
        .kh = 1, .kw = 2, .c_in = 2, .c_out = 2, .act = WM_ACT_RELU, .weight = weight, .bias = bias
    };
    net.conv[1] =
        (wm_conv_t){ .kh = 1, .kw = 1, .c_in = 2, .c_out = 1, .weight = next, .bias = no_bias };
    assert_in_range ((long) (1000 * wm_range_bound (&net, 8)), 80500, 81000); /* 10 * 8 + 0.5 */
    net.n_conv = 1;
    assert_in_range ((long) (1000 * wm_range_bound (&net, 8)), 80500, 81000);
    net.n_conv = 2;
    const float loud[] = { -3, 0 };
    net.conv[1].weight = loud; /* behind a ReLU: 3 (10 * 8 - 0.5) below zero */
    assert_in_range ((long) (1000 * wm_range_bound (&net, 8)), 238500, 241000);
    const float second[] = { 0, -30 }; /* of filter 1, which is within 8 */
    net.conv[1].weight = second;
    assert_in_range ((long) (1000 * wm_range_bound (&net, 8)), 240000, 243000);
}

/* What rounding adds is counted from the bias, too, and of either sign.  */
static void a_bias_is_rounded (void **state)
{
    const float weight = 0, bias[] = { 65450, -65450 };
    wm_net_t net = { .height = 1, .width = 1, .channel = 1, .n_conv = 1 };
    for (int i = 0; i < 2; i++) {
        net.conv[0] = (wm_conv_t){
            .kh = 1, .kw = 1, .c_in = 1, .c_out = 1, .weight = &weight, .bias = &bias[i]
        };
        assert_true (wm_range_bound (&net, 1) > WM_HALF_MAX);
    }
    const float steep = 30000, below = -30000, one = 1, none = 0; /* -60,000 to 0, and again */
    net.n_conv = 2;
    net.conv[0].weight = &steep, net.conv[0].bias = &below;
    net.conv[1] =
        (wm_conv_t){ .kh = 1, .kw = 1, .c_in = 1, .c_out = 1, .weight = &one, .bias = &none };
    assert_in_range ((long) wm_range_bound (&net, 1), 60200, 60250);
}

/* Some activations are lowest between the ends of an interval.  */
static void the_dip_of_an_activation (void **state)
{
    static const struct {
        wm_act_t act;
        float at;
    } dips[] = { { WM_ACT_GELU, -0.75f },
                 { WM_ACT_GELU_TANH, -0.75f },
                 { WM_ACT_SWISH, -1.7f },
                 { WM_ACT_HARDSWISH, -1.5f },
                 { WM_ACT_MISH, -1.2f } };
    const float half = 0.5f, steep = 1000, none = 0;
    for (size_t i = 0; i < sizeof dips / sizeof *dips; i++) {
        wm_net_t net = { .height = 1, .width = 1, .channel = 1, .n_conv = 2 };
        net.conv[0] = (wm_conv_t){ .kh = 1,
                                   .kw = 1,
                                   .c_in = 1,
                                   .c_out = 1,
                                   .act = dips[i].act,
                                   .bend = 0.75f,
                                   .weight = &half,
                                   .bias = &dips[i].at };
        net.conv[1] = (wm_conv_t){
            .kh = 1, .kw = 1, .c_in = 1, .c_out = 1, .weight = &steep, .bias = &none
        };
        const double worst = worst_of (&net, 1), bound = wm_range_bound (&net, 1);
        assert_true (bound >= worst && bound <= worst * 1.01);
    }
}

/* A patch of zeros is no reason to leave out what its pixels may be: they are within 2^-10. Of two
   convolutions that are beyond all bounds the first is named. Of dense layers those count that read
   convolutions.  */
static void what_half_cannot_hold (void **state)
{
    float weight = 65000, bias = 65350;
    const float none = 0, one = 1, much = 70000;
    double limit = 0;
    wm_error_t error = { 0 };
    wm_net_t net = { .height = 1, .width = 1, .channel = 1, .n_conv = 1 };
    net.conv[0] =
        (wm_conv_t){ .kh = 1, .kw = 1, .c_in = 1, .c_out = 1, .weight = &weight, .bias = &bias };
    assert_int_equal (wm_range_half (&net, 0, &limit, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "convolution 0 can reach"));
    net.n_conv = 2;
    net.conv[1] =
        (wm_conv_t){ .kh = 1, .kw = 1, .c_in = 1, .c_out = 1, .weight = &one, .bias = &none };
    assert_int_equal (wm_range_half (&net, 1e308, &limit, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "convolution 0 can reach inf"));
    weight = 1, bias = 0;
    net.n_dense = 1;
    net.dense[0] = (wm_dense_t){ .parent = 0, .n_in = 1, .n_out = 1, .weight = &much };
    assert_int_equal (wm_range_half (&net, 0, &limit, &error), WM_OK);
    net.dense[0].parent = -1;
    assert_int_equal (wm_range_half (&net, 0, &limit, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "a weight of 7e+04"));
}

static void half_is_taken_while_it_holds (void **state)
{
    float weight = -3, bias = 0;
    double limit = 0;
    wm_error_t error = { 0 };
    wm_net_t net = { .height = 1, .width = 1, .channel = 1, .n_conv = 1 };
    net.conv[0] =
        (wm_conv_t){ .kh = 1, .kw = 1, .c_in = 1, .c_out = 1, .weight = &weight, .bias = &bias };
    assert_int_equal (wm_range_half (&net, 0, &limit, &error), WM_OK);
    assert_true (limit == 16384); /* 3 times that and a 512th is below 65,504; twice is not */
    assert_int_equal (wm_range_half (&net, 10000, &limit, &error), WM_OK);
    assert_true (limit == 16384);
    assert_int_equal (wm_range_half (&net, 20000, &limit, &error), WM_OK);
    assert_true (limit == 20000);
    assert_int_equal (wm_range_half (&net, 22000, &limit, &error), WM_EBATCH);
    weight = -70000; /* cannot be held itself */
    assert_int_equal (wm_range_half (&net, 0, &limit, &error), WM_EBATCH);
    weight = 0, bias = 0; /* 0.5, then 70,000 - 30,000: but 70,000 is no half */
    const float down = -60000, much = 70000;
    net.n_conv = 2;
    net.conv[0].act = WM_ACT_SIGMOID;
    net.conv[1] =
        (wm_conv_t){ .kh = 1, .kw = 1, .c_in = 1, .c_out = 1, .weight = &down, .bias = &much };
    assert_true (wm_range_bound (&net, 1) < 42000);
    assert_int_equal (wm_range_half (&net, 0, &limit, &error), WM_EBATCH);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (the_bound_is_that_of_the_worst_patch),
        cmocka_unit_test (channels_add_up),
        cmocka_unit_test (a_bias_is_rounded),
        cmocka_unit_test (the_dip_of_an_activation),
        cmocka_unit_test (what_half_cannot_hold),
        cmocka_unit_test (half_is_taken_while_it_holds),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
