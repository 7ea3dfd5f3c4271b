/* test_kernels_nan_rules.c - what each operator may give for bounds of its inputs, and whether that
   may be NaN: by its definition in ONNX, by hand.  */
#include "kernels/onnx/wm_nan_private.h"
#include "tests/unit/onnx_graph.h"

#include <math.h>
#include <stdio.h>

#define L WM_NAN_LARGE
#define INF INFINITY

/* Rows leave out what is 0.  */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

typedef struct {
    double low, high;
    bool is_fixed, is_whole; /* a constant; integers */
} in_t;

typedef struct {
    const char *op, *in; /* inputs by their letters; "-" is left out */
    in_t value[5];       /* of a, b, c, d, e */
    double low, high;
    bool is_made;
    const char *name; /* of an attribute: a float */
    float number;
} case_t;

static wm_nan_seen_t seen (const case_t *one, const char *domain, bool is_limited,
                           wm_nan_way_t *way, bool *is_made)
{
    graph_t g = { .ways = 0 };
    wm_onnx_t onnx = { 0 };
    wm_error_t error;
    wm_nan_seen_t value[16] = { 0 };
    size_t size;
    for (int k = 0; k < 5; k++)
        input (&g, (char[]){ (char) ('a' + k), 0 }, INTS (-1, 4));
    Onnx__NodeProto *n = node (&g, one->op, one->in, "y");
    n->domain = domain ? copy (&g, domain) : NULL;
    if (one->name && !strcmp (one->name, "to"))
        set_int (&g, n, "to", (int64_t) one->number);
    else if (one->name)
        set_float (&g, n, one->name, one->number);
    output (&g, "y", INTS (-1, 4));
    uint8_t *bytes = packed (&g, &size);
    if (wm_onnx_lend (&onnx, "test", bytes, size, &error) || wm_onnx_read (&onnx, NULL, &error))
        fail_msg ("%s: %s", one->op, error.text);
    assert_true (onnx.n_value < 16);
    for (int k = 0; k < 5; k++) {
        const int64_t v = wm_onnx_find (&onnx, (char[]){ (char) ('a' + k), 0 });
        if (v >= 0)
            value[v] = (wm_nan_seen_t){ .low = one->value[k].low,
                                        .high = one->value[k].high,
                                        .is_fixed = one->value[k].is_fixed,
                                        .is_whole = one->value[k].is_whole };
    }
    wm_nan_eye_t eye = {
        .onnx = &onnx, .value = value, .node = onnx.node[0], .is_limited = is_limited
    };
    const wm_nan_seen_t out = wm_nan_see (&eye, way);
    *is_made = eye.is_made;
    wm_onnx_clear (&onnx);
    free (bytes);
    wm_arena_clear (&g.arena);
    return out;
}

static void bounds (void **state)
{
    static const case_t list[] = {
        { "Abs", "a", { { -3, 2 } }, 0, 3, 0 },
        { "Abs", "a", { { 1, 2 } }, 1, 2, 0 },
        { "Abs", "a", { { -5, -4 } }, 4, 5, 0 },
        { "Abs", "a", { { -5, 0 } }, 0, 5, 0 },
        { "Neg", "a", { { -3, 2 } }, -2, 3, 0 },
        { "Identity", "a", { { -3, 2 } }, -3, 2, 0 },
        { "Add", "a b", { { 1, 2 }, { 10, 20 } }, 11, 22, 0 },
        { "Sum", "a b c", { { 1, 2 }, { 3, 4 }, { 5, 6 } }, 9, 12, 0 },
        { "Add", "a b", { { 0, INF }, { -INF, 0 } }, -INF, INF, 1 },
        { "Add", "a b", { { -INF, 0 }, { 0, INF } }, -INF, INF, 1 },
        { "Add", "a b", { { 0, INF }, { 1, INF } }, 1, INF, 0 },
        { "Add", "a b", { { -INF, 0 }, { -INF, 1 } }, -INF, 1, 0 },
        { "Add", "a b", { { -L, L }, { -L, L } }, -L, L, 0 }, /* grows no further */
        { "Add", "a b", { { 0, 4 * L }, { 0, 1 } }, 0, 4 * L, 0 },
        { "Add", "a b", { { 0, 1 }, { -4 * L, 0 } }, -4 * L, 1, 0 },
        { "Sub", "a b", { { 1, 2 }, { 10, 20 } }, -19, -8, 0 },
        { "Sub", "a b", { { 0, INF }, { 0, INF } }, -INF, INF, 1 },
        { "Sub", "a b", { { 0, INF }, { -INF, 0 } }, 0, INF, 0 },
        { "Mul", "a b", { { 2, 3 }, { -5, 7 } }, -15, 21, 0 },
        { "Mul", "a b", { { -2, -1 }, { 3, 4 } }, -8, -3, 0 },
        { "Mul", "a a", { { -3, 2 } }, 0, 9, 0 },
        { "Mul", "a a", { { 2, 3 } }, 4, 9, 0 },
        { "Mul", "a a", { { -3, -2 } }, 4, 9, 0 },
        { "Mul", "a b", { { 0, INF }, { -1, 1 } }, -INF, INF, 1 },
        { "Mul", "a b", { { -1, 1 }, { 0, INF } }, -INF, INF, 1 },
        { "Mul", "a b", { { 1, INF }, { 2, 3 } }, 2, INF, 0 },
        { "Mul", "a b", { { 2, 3 }, { 1, INF } }, 2, INF, 0 },
        { "Mul", "a b", { { INF, INF }, { 0, 0 } }, 0, 0, 1 },
        { "Mul", "a b", { { 0, L }, { 0, 0x1p24 } }, 0, L, 0 }, /* a gate */
        { "Mul", "a b", { { 0, 0x1p24 }, { 0, L } }, 0, L, 0 },
        { "Mul", "a b", { { 0, L }, { 0, 0x1p25 } }, 0, 0x1p65, 0 },
        { "Mul", "a b", { { 0, L }, { 0, 0x1p30, true } }, 0, L, 0 }, /* a weight */
        { "Mul", "a b", { { 0, 0x1p50, true }, { 0, L } }, 0, L, 0 },
        { "Mul", "a b", { { 0, 4 * L }, { 0, 0x1p30, true } }, 0, 4 * L, 0 },
        { "Mul", "a b", { { 0, L }, { 0, 0x1p50, true } }, 0, L, 0 },
        { "Mul", "a b", { { 0, 0x1p70 }, { 0, 0x1p70 } }, 0, INF, 0 },
        { "Mul", "a b", { { 0x1p-100, 1 }, { 0x1p-100, 1 } }, 0, 1, 0 },
        { "Div", "a b", { { 1, 2 }, { 4, 8 } }, 0.125, 0.5, 0 },
        { "Div", "a b", { { -1, 2 }, { 4, 8 } }, -0.25, 0.5, 0 },
        { "Div", "a b", { { 0, 1 }, { 0, 1 } }, 0, INF, 1 },
        { "Div", "a b", { { 1, 2 }, { 0, 1 } }, 0, INF, 0 },
        { "Div", "a b", { { 1, 2 }, { -1, 1 } }, -INF, INF, 0 },
        { "Div", "a b", { { -2, -1 }, { 0, 1 } }, -INF, INF, 0 },
        { "Div", "a b", { { 1, INF }, { 1, INF } }, 0, INF, 1 },
        { "Div", "a b", { { 2, INF }, { 2, 4 } }, 0.5, INF, 0 },
        { "Div", "a b", { { 0, 4 }, { 2, INF } }, 0, 2, 0 },
        { "Div", "a b", { { 1, 2 }, { 0x1p-100, 1 } }, 1, L, 0 },
        { "Reciprocal", "a", { { 2, 4 } }, 0.25, 0.5, 0 },
        { "Reciprocal", "a", { { 0, 1 } }, 0, INF, 0 },
        { "Mod", "a b", { { 0, 9 }, { 1, 3 } }, -3, 3, 0 },
        { "Mod", "a b", { { 0, 9 }, { 0, 3 } }, -3, 3, 1 },
        { "Mod", "a b", { { 0, INF }, { 1, 3 } }, -3, 3, 1 },
        { "Pow", "a b", { { 2, 3 }, { 2, 2, true } }, 4, 9, 0 },
        { "Pow", "a b", { { 2, 3 }, { -1, 1 } }, 1. / 3, 3, 0 },
        { "Pow", "a b", { { -2, 3 }, { 2, 2, true } }, 0, 9, 0 },
        { "Pow", "a b", { { -2, 3 }, { 3, 3, true } }, -27, 27, 0 },
        { "Pow", "a b", { { -2, 4 }, { 0.5, 0.5, true } }, -2, 2, 1 },
        { "Pow", "a b", { { -2, 4 }, { 2, 2, false } }, -16, 16, 1 },
        { "Pow", "a b", { { -2, 4 }, { 1, 2, true } }, -16, 16, 1 },
        { "Pow", "a b", { { -1, 1 }, { -2, -2, true } }, 0, INF, 0 },
        { "Pow", "a b", { { -1, 1 }, { -1, -1, true } }, -INF, INF, 0 },
        { "Pow", "a b", { { 0, 1 }, { -1, -1, true } }, 0, INF, 0 },
        { "Pow", "a b", { { 0, 2 }, { 1, 3 } }, 0, 8, 0 },
        { "Pow", "a b", { { 0, 0.5 }, { 1, 3 } }, 0, 0.5, 0 },
        { "Max", "a b c", { { 1, 5 }, { 3, 4 }, { -9, 6 } }, 3, 6, 0 },
        { "Min", "a b c", { { 1, 5 }, { 3, 4 }, { -9, 6 } }, -9, 4, 0 },
        { "Clip", "a", { { -5, 5 } }, -5, 2, 0, "max", 2 },
        { "Clip", "a", { { -5, 5 } }, -1, 5, 0, "min", -1 },
        { "Clip", "a b c", { { -5, 5 }, { -1, -1, true }, { 2, 2, true } }, -1, 2, 0 },
        { "Clip", "a - c", { { -5, 5 }, { -1, -1, true }, { 2, 2, true } }, -5, 2, 0 },
        { "Clip", "a b", { { -5, 5 }, { -1, -1, true }, { 2, 2, true } }, -1, 5, 0 },
        { "Relu", "a", { { -3, 2 } }, 0, 2, 0 },
        { "Relu", "a", { { -3, -1 } }, 0, 0, 0 },
        { "Relu", "a", { { 1, 2 } }, 1, 2, 0 },
        { "LeakyRelu", "a", { { -3, 2 } }, -3, 3, 0 },
        { "PRelu", "a", { { 1, 2 } }, 0, 2, 0 },
        { "LeakyRelu", "a", { { 0, INF } }, 0, INF, 1 },
        { "Elu", "a", { { -3, 2 } }, -L, 2, 0 },
        { "Selu", "a", { { 1, 2 } }, 0, 2, 0 },
        { "Celu", "a", { { -3, -2 } }, -L, 0, 0 },
        { "Gelu", "a", { { -3, 2 } }, -L, 2, 0 },
        { "Swish", "a", { { -INF, 2 } }, -L, 2, 1 },
        { "Mish", "a", { { 0, INF } }, 0, INF, 0 },
        { "Floor", "a", { { -1.5, 2.5 } }, -2, 3, 0 },
        { "Ceil", "a", { { -1.5, 2.5 } }, -2, 3, 0 },
        { "Round", "a", { { -1.5, 2.5 } }, -2, 3, 0 },
        { "Sqrt", "a", { { 4, 9 } }, 2, 3, 0 },
        { "Sqrt", "a", { { 0, 9 } }, 0, 3, 0 },
        { "Sqrt", "a", { { -1, 4 } }, 0, 2, 1 },
        { "Sqrt", "a", { { -2, -1 } }, 0, 0, 1 },
        { "Log", "a", { { 1, 1 } }, 0, 0, 0 },
        { "Log", "a", { { 0, 1 } }, -INF, 0, 0 },
        { "Log", "a", { { -1, 1 } }, -INF, 0, 1 },
        { "Log", "a", { { -2, -1 } }, -INF, -INF, 1 },
        { "Exp", "a", { { 0, 0 } }, 1, 1, 0 },
        { "Exp", "a", { { -100, 88.5 } }, 0, INF, 0 },
        { "Sinh", "a", { { -1, 88 } }, -L, L, 0 },
        { "Sinh", "a", { { -89, 1 } }, -INF, INF, 0 },
        { "Cosh", "a", { { -1, 88 } }, 1, L, 0 },
        { "Cosh", "a", { { -89, 1 } }, 1, INF, 0 },
        { "Softplus", "a", { { -3, 0.5 } }, 0, 2, 0 },
        { "Softplus", "a", { { 0, 5 } }, 0, 6, 0 },
        { "Tanh", "a", { { -INF, INF } }, -1, 1, 0 },
        { "Atan", "a", { { -9, 9 } }, -1, 1, 0 },
        { "Erf", "a", { { -9, 9 } }, -1, 1, 0 },
        { "Sigmoid", "a", { { -INF, INF } }, 0, 1, 0 },
        { "Sin", "a", { { -9, 9 } }, -1, 1, 0 },
        { "Cos", "a", { { -INF, 9 } }, -1, 1, 1 },
        { "Tan", "a", { { -9, 9 } }, -L, L, 0 },
        { "Acos", "a", { { -1, 1 } }, -4, 4, 0 },
        { "Asin", "a", { { 0, 1.5 } }, -4, 4, 1 },
        { "Acos", "a", { { -2, 0 } }, -4, 4, 1 },
        { "Atanh", "a", { { -1, 1 } }, -INF, INF, 0 },
        { "Acosh", "a", { { 1, 5 } }, 0, 5, 0 },
        { "Acosh", "a", { { 0.5, 5 } }, 0, 5, 1 },
        { "Softmax", "a", { { -9, 9 } }, 0, 1, 0 },
        { "Softmax", "a", { { -INF, 9 } }, 0, 1, 1 },
        { "LogSoftmax", "a", { { -3, 2 } }, -2 * L, 0, 0 },
        { "LogSoftmax", "a", { { -4 * L, 2 } }, -8 * L, 0, 0 },
        { "LogSoftmax", "a", { { 0, INF } }, -INF, 0, 1 },
        { "Conv", "a b", { { -3, 2 }, { -1, 1, true } }, -L, L, 0 },
        { "Conv", "a b", { { 0, 0x1p50 }, { 0, 0x1p60, true } }, -0x1p50, 0x1p50, 0 },
        { "MatMul", "a b", { { 0, 0x1p50 }, { 0, 0x1p30 } }, -0x1p80, 0x1p80, 0 },
        { "MatMul", "a b", { { 0, 0x1p20 }, { 0, 0x1p50 } }, -0x1p50, 0x1p50, 0 },
        { "MatMul", "a b", { { 0, 0x1p50 }, { 0, 0x1p24 } }, -0x1p50, 0x1p50, 0 },
        { "MatMul", "a b", { { 0, 0x1p24 }, { 0, 0x1p50 } }, -0x1p50, 0x1p50, 0 },
        { "Gemm", "a b c", { { 0, 1 }, { 0, 1 }, { -INF, 0, true } }, -INF, INF, 1 },
        { "Gemm", "a b c", { { 0, INF }, { 0, 1 }, { 0, 1 } }, -INF, INF, 1 },
        { "AveragePool", "a", { { 1, 2 } }, 0, 2, 0 },
        { "GlobalAveragePool", "a", { { 1, 2 } }, 1, 2, 0 },
        { "ReduceMean", "a", { { -INF, INF } }, -INF, INF, 1 },
        { "ReduceMean", "a", { { -INF, 1 } }, -INF, 1, 0 },
        { "ReduceMean", "a", { { 1, INF } }, 1, INF, 0 },
        { "Resize", "a", { { -3, 2 } }, -3, 3, 0 },
        { "Resize", "a", { { -3, 2 } }, -7, 7, 0, "extrapolation_value", -7 },
        { "Resize", "a", { { -3, 2 } }, -3, 3, 1, "extrapolation_value", NAN },
        { "Upsample", "a", { { -INF, 2 } }, -INF, INF, 1 },
        { "ReduceSum", "a", { { 1, 2 } }, 1, L, 0 },
        { "ReduceSum", "a", { { -2, -1 } }, -L, -1, 0 },
        { "ReduceSum", "a", { { 0, 0 } }, 0, 0, 0 },
        { "ReduceSum", "a", { { -4 * L, 4 * L } }, -4 * L, 4 * L, 0 },
        { "CumSum", "a", { { 1, 2 } }, 0, L, 0 },
        { "ReduceL1", "a", { { -3, 2 } }, 0, L, 0 },
        { "ReduceL1", "a", { { 2, 4 * L } }, 2, 4 * L, 0 },
        { "ReduceSumSquare", "a", { { 2, 3 } }, 4, L, 0 },
        { "ReduceL2", "a", { { 2, 3 } }, 2, 0x1p20, 0 },
        { "LpPool", "a", { { -3, 2 } }, 0, 0x1p20, 0 },
        { "ReduceProd", "a", { { -1, 1 } }, -1, 1, 0 },
        { "ReduceProd", "a", { { 0, 1.5 } }, -INF, INF, 1 },
        { "ReduceLogSum", "a", { { 1, 1 } }, 0, 0x1.bb9d3beb8c86bp4, 0 }, /* 40 log 2 */
        { "ReduceLogSum", "a", { { -1, 1 } }, -INF, 0x1.bb9d3beb8c86bp4, 1 },
        { "ReduceLogSumExp", "a", { { 0, 1 } }, -INF, INF, 0 },
        { "ReduceLogSumExp", "a", { { 0, INF } }, -INF, INF, 1 },
        { "LayerNormalization", "a b c", { { -9, 9 }, { 0, 1 }, { 0, 1 } }, -L, L, 0 },
        { "LayerNormalization", "a", { { -9, 9 } }, -L, L, 1, "epsilon", 0 },
        { "InstanceNormalization", "a b c", { { 0, INF }, { 0, 1 }, { 0, 1 } }, -L, L, 1 },
        { "InstanceNormalization", "a b c", { { 0, 1 }, { 0, INF }, { 0, 1 } }, -L, L, 1 },
        { "InstanceNormalization", "a b c", { { 0, 1 }, { 0, 1 }, { -INF, 1 } }, -L, L, 1 },
        { "BatchNormalization",
          "a b c d e",
          { { -9, 9 }, { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 } },
          -L,
          L,
          0 },
        { "BatchNormalization",
          "a b c d e",
          { { -9, 4 * L }, { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 } },
          -4 * L,
          4 * L,
          0 },
        { "BatchNormalization",
          "a b c d e",
          { { 0, 9 }, { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 } },
          -L,
          L,
          1,
          "epsilon",
          0 },
        { "BatchNormalization",
          "a b c d e",
          { { 0, 9 }, { 0, 1 }, { 0, 1 }, { 0, 1 }, { -1, 1 } },
          -L,
          L,
          1 },
        { "BatchNormalization",
          "a b c d e",
          { { 0, 9 }, { 0, 1 }, { 0, 1 }, { 0, INF }, { 0, 1 } },
          -L,
          L,
          1 },
        { "BatchNormalization",
          "a b c d e",
          { { 0, INF }, { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 } },
          -INF,
          INF,
          1 },
        { "BatchNormalization",
          "a b c d e",
          { { 0, 9 }, { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, INF } },
          -L,
          L,
          0 },
        { "LRN", "a", { { -3, 2 } }, -L, L, 0 },
        { "LRN", "a", { { -3, 4 * L } }, -4 * L, 4 * L, 0 },
        { "LRN", "a", { { -3, 2 } }, -L, L, 1, "alpha", -1 },
        { "LRN", "a", { { -3, 2 } }, -L, L, 0, "alpha", 0 },
        { "LRN", "a", { { -3, 2 } }, -L, L, 1, "bias", 0 },
        { "LRN", "a", { { -3, INF } }, -INF, INF, 1 },
        { "LpNormalization", "a", { { 1, 2 } }, -1, 1, 1 },
        { "GRU", "a b c", { { 0, 1 }, { 0, 1 }, { 0, 1 } }, -L, L, 0 },
        { "LSTM", "a b c", { { 0, 1 }, { 0, 1 }, { 0, INF } }, -L, L, 1 },
        { "RNN", "a b c", { { 0, INF }, { 0, 1 }, { 0, 1 } }, -L, L, 1 },
        { "Where", "a b c", { { 0, 99 }, { 1, 2 }, { 5, 6 } }, 1, 6, 0 },
        { "OneHot", "a b c", { { 0, 99 }, { 9, 9 }, { 1, 2 } }, 1, 2, 0 },
        { "ScatterElements", "a b c", { { 1, 2 }, { 0, 99 }, { 5, 6 } }, 1, 6, 0 },
        { "ScatterND", "a b c", { { 5, 6 }, { 0, 99 }, { 1, 2 } }, 1, 6, 0 },
        { "Pad", "a b", { { 1, 2 }, { 0, 99 } }, 0, 2, 0 },
        { "Pad", "a b -", { { 1, 2 }, { 0, 99 } }, 0, 2, 0 },
        { "Pad", "a b c", { { 1, 2 }, { 0, 99 }, { 5, 6 } }, 1, 6, 0 },
        { "Concat", "a b c", { { 3, 4 }, { 1, 2 }, { 5, 6 } }, 1, 6, 0 },
        { "Trilu", "a", { { 1, 2 } }, 0, 2, 0 },
        { "Trilu", "a", { { -2, -1 } }, -2, 0, 0 },
        { "ConstantOfShape", "a", { { 1, 2 } }, 0, 0, 0 },
        { "Constant", "", { { 0 } }, 3, 3, 0, "value_float", 3 },
        { "Equal", "a b", { { 1, 2 }, { 1, 2 } }, 0, 1, 0 },
        { "ArgMax", "a", { { 1, 2 } }, -L, L, 0 },
        { "NoSuchOperator", "a", { { 1, 2 } }, -INF, INF, 1 },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        wm_nan_way_t way;
        bool is_made;
        const wm_nan_seen_t out = seen (&list[i], i % 2 ? NULL : "ai.onnx", false, &way, &is_made);
        if (out.low != list[i].low || out.high != list[i].high || is_made != list[i].is_made)
            fail_msg ("row %zu, %s: %a to %a, made %d", i, list[i].op, out.low, out.high, is_made);
    }
    const case_t sum = { "Identity", "a", { { -INF, INF } }, 0 },
                 other = { "Add", "a b", { { 0 } } };
    wm_nan_way_t way;
    bool is_made;
    wm_nan_seen_t out = seen (&sum, "", true, &way, &is_made); /* taken as finite */
    assert_true (out.low == -L && out.high == L);
    out = seen (&other, "mine", false, &way, &is_made);
    assert_true (out.low == -INFINITY && is_made && way == WM_NAN_LOSES);
}

/* ---- ways ------------------------------------------------------------------------------------ */

/* Operators of ONNX, by what they make of a NaN (measured: tests/golden/nan.t) and, as the
   specification has them, by whether their results are integers or truth values.  */
static const struct {
    wm_nan_way_t way;
    bool is_whole;
    const char *ops;
} ways[] = {
    { WM_NAN_KEEPS, false,
      "Abs Acos Acosh Add Asin Asinh Atan Atanh AveragePool BatchNormalization Cast Ceil Concat "
      "Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DepthToSpace Div Dropout Einsum "
      "Elu Erf Expand Flatten Floor Gelu Gemm GlobalAveragePool GlobalLpPool GroupNormalization "
      "HardSwish Identity InstanceNormalization LRN LayerNormalization LeakyRelu Log LogSoftmax "
      "LpNormalization LpPool MatMul Mean MeanVarianceNormalization Mish Mod Mul Neg PRelu Pow "
      "RMSNormalization Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceMean ReduceProd "
      "ReduceSum ReduceSumSquare Reshape Resize ReverseSequence Round Selu Sigmoid Sin Sinh "
      "Softmax Softplus Softsign SpaceToDepth Sqrt Squeeze Sub Sum Swish Tan Tanh Tile "
      "Transpose Unsqueeze Upsample" },
    { WM_NAN_LOSES, false,
      "CastLike Celu Clip DequantizeLinear Exp GRU GlobalMaxPool GridSample HardSigmoid Hardmax "
      "LSTM Max MaxPool Min RNN ReduceLogSumExp ReduceMax ReduceMin Relu RoiAlign Shrink Sign "
      "ThresholdedRelu TopK" },
    { WM_NAN_LOSES, true,
      "And ArgMax ArgMin BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor ConvInteger "
      "DynamicQuantizeLinear Equal Greater GreaterOrEqual Less LessOrEqual MatMulInteger "
      "NonMaxSuppression NonZero Not Or QLinearConv QLinearMatMul QuantizeLinear Xor" },
    { WM_NAN_DROPS, false,
      "CenterCropPad Compress EyeLike Gather GatherElements GatherND OneHot Pad Scatter "
      "ScatterElements ScatterND SequenceAt SequenceConstruct SequenceInsert Slice Split "
      "SplitToSequence Trilu Where" },
    { WM_NAN_DROPS, true, "IsInf IsNaN Shape Size" },
};

static void every_operator (void **state)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char op[64];
        int n;
        for (const char *at = ways[i].ops; sscanf (at, " %63s%n", op, &n) == 1; at += n) {
            case_t one = { op, "a b c", { { 0, 1 }, { 0, 1 }, { 0, 1 } }, 0 };
            wm_nan_way_t way;
            bool is_made;
            if (!strcmp (op, "Constant"))
                one.in = "", one.name = "value_float";
            const wm_nan_seen_t out = seen (&one, NULL, false, &way, &is_made);
            if (way != ways[i].way || out.is_whole != ways[i].is_whole)
                fail_msg ("%s: way %d, whole %d", op, way, out.is_whole);
        }
    }
}

/* Integers stay integers where an operator hands on the values of that input.  */
static void integers_stay (void **state)
{
    static const struct {
        case_t one;
        bool is_whole;
        wm_nan_way_t way;
    } list[] = {
        { { "Identity", "a", { { 0, 1, .is_whole = true } }, 0 }, true, WM_NAN_KEEPS },
        { { "Where", "a b c", { { 0, 1, .is_whole = true } }, 0 }, false, WM_NAN_DROPS },
        { { "Where", "a b c", { { 0, 1 }, { 0, 1, .is_whole = true } }, 0 }, true, WM_NAN_DROPS },
        { { "CastLike", "a b", { { 0, 1, .is_whole = true }, { 0, 1 } }, 0 }, false, WM_NAN_LOSES },
        { { "CastLike", "a b", { { 0, 1 }, { 0, 1, .is_whole = true } }, 0 }, true, WM_NAN_LOSES },
        { { "OneHot", "a b c", { { 0, 1, .is_whole = true }, { 0, 1 }, { 0, 1 } }, 0 },
          false,
          WM_NAN_DROPS },
        { { "OneHot", "a b c", { { 0, 1 }, { 0, 1 }, { 0, 1, .is_whole = true } }, 0 },
          true,
          WM_NAN_DROPS },
        { { "DequantizeLinear", "a b", { { 0, 1, .is_whole = true } }, 0 }, false, WM_NAN_LOSES },
        { { "Cast", "a", { { 0, 1 } }, 0, 0, 0, "to", 7 }, true, WM_NAN_LOSES },  /* INT64 */
        { { "Cast", "a", { { 0, 1 } }, 0, 0, 0, "to", 9 }, true, WM_NAN_LOSES },  /* BOOL */
        { { "Cast", "a", { { 0, 1 } }, 0, 0, 0, "to", 1 }, false, WM_NAN_KEEPS }, /* FLOAT */
        { { "Cast", "a", { { 0, 1, .is_whole = true } }, 0, 0, 0, "to", 11 },
          false,
          WM_NAN_KEEPS },                                            /* DOUBLE */
        { { "Equal", "a a", { { 0, 1 } }, 0 }, true, WM_NAN_DROPS }, /* it asks for a NaN */
        { { "Equal", "a b", { { 0, 1 } }, 0 }, true, WM_NAN_LOSES },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        wm_nan_way_t way;
        bool is_made;
        const wm_nan_seen_t out = seen (&list[i].one, NULL, false, &way, &is_made);
        if (way != list[i].way || out.is_whole != list[i].is_whole)
            fail_msg ("row %zu, %s: way %d, whole %d", i, list[i].one.op, way, out.is_whole);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (bounds),
                                        cmocka_unit_test (every_operator),
                                        cmocka_unit_test (integers_stay) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
