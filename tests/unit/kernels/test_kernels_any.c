/* test_kernels_any.c - the kernels for any CNN by their definitions; what they do in networks like
   those that people have: which values are checked, how much is read and written.  */
#include "kernels/cudnn/wm_any.h"
#include "kernels/cudnn/wm_any_place.h"
#include "kernels/gpu/wm_gpu_any.cuh"
#include "kernels/model/wm_seed.h"
#include "tests/gpu/gpu_any_count.h"
#include "tests/unit/onnx_graph.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define CASES 1000
#define ROOM 8192 /* elements of a side */

/* ---- kernels --------------------------------------------------------------------------------- */

static uint64_t seed;

static uint32_t draw (uint32_t n)
{
    return (uint32_t) (wm_seed_next (&seed) >> 33) % n;
}

/* Values as halves have them too; now and then one that is not finite, or that half lacks.  */
static float draw_value (void)
{
    static const float odd[] = { NAN, INFINITY, -INFINITY, 7e4f, -7e4f, 65519, 65520 };
    return draw (500) == 0 ? odd[draw (7)] : (float) ((int) draw (4096) - 2048) / 64;
}

typedef struct {
    __attribute__ ((aligned (64))) char memory[ROOM * 4 + 64];
    void *first;
    bool half;
} side_t;

/* Memory that mostly begins as the device's does; the rest where no 16 bytes begin.  */
static void draw_side (side_t *side)
{
    side->half = draw (2);
    side->first = side->memory + (draw (4) ? 0 : side->half ? 2 : 4);
    for (uint32_t i = 0; i < ROOM; i++)
        wm_gpu_store (side->first, i, side->half, draw_value ());
}

static uint32_t bits_of (const side_t *side, size_t i)
{
    const float value = wm_gpu_load (side->first, i, side->half);
    uint32_t bits;
    memcpy (&bits, &value, sizeof bits);
    return isnan (value) ? 0x7fc00000 : bits;
}

static bool is_finite (const side_t *side, size_t i)
{
    return isfinite (wm_gpu_load (side->first, i, side->half));
}

static void assert_same (const side_t *got, const side_t *want, const char *what, int at)
{
    for (size_t i = 0; i < ROOM; i++)
        if (bits_of (got, i) != bits_of (want, i))
            fail_msg ("%s, case %d, element %zu: %x for %x", what, at, i, bits_of (got, i),
                      bits_of (want, i));
}

typedef void kernel_t (const void *args, float *shared, wm_gpu_at_t at, uint32_t phase);

/* Runs a kernel on some grid; blocks 0: of any number.  */
static void run_grid (kernel_t *kernel, const void *args, uint32_t phases, uint32_t blocks)
{
    static float shared[WM_GPU_TILE_BYTES / 4];
    const uint32_t n = blocks ? blocks : 1 + draw (6), threads = 1 + draw (70);
    for (uint32_t b = 0; b < n; b++)
        for (uint32_t phase = 0; phase < phases; phase++)
            for (uint32_t t = 0; t < threads; t++)
                kernel (args, shared, (wm_gpu_at_t){ b, n, t, threads }, phase);
    assert_int_equal (wm_gpu_fake.misaligned, 0);
}

#define ANY_KERNEL(name)                                                                           \
    static void run_##name (const void *args, float *shared, wm_gpu_at_t at, uint32_t phase)       \
    {                                                                                              \
        wm_gpu_##name (args, shared, at, phase);                                                   \
    }
ANY_KERNEL (copy)
ANY_KERNEL (scan)
ANY_KERNEL (pool)
ANY_KERNEL (join)

/* Dimensions in any order, their neighbours in `from` anywhere, rows apart by more than they
   take.  */
static void draw_copy (wm_gpu_copy_t *args)
{
    static const uint32_t sizes[] = { 1, 2, 3, 4, 8, 16, 17, 24, 40 };
    uint32_t order[WM_GPU_COPY_DIMS] = { 0, 1, 2, 3, 4 };
    const uint32_t gap = draw (3) ? 0 : 1 + draw (8);
    args->n = 1;
    for (uint32_t k = WM_GPU_COPY_DIMS; k-- > 0;) {
        args->dim[k] = k > 2 || draw (3) == 0 ? sizes[draw (9)] : 1;
        if (args->n * args->dim[k] * args->rows > ROOM / 4)
            args->dim[k] = 1;
        args->to_stride[k] = args->n;
        args->n *= args->dim[k];
    }
    for (uint32_t k = WM_GPU_COPY_DIMS; k-- > 1 && draw (3);) { /* most runs stay runs */
        const uint32_t other = draw (k + 1), kept = order[k];
        order[k] = order[other], order[other] = kept;
    }
    for (uint32_t k = WM_GPU_COPY_DIMS, step = 1; k-- > 0;) {
        args->from_stride[order[k]] = step;
        step *= args->dim[order[k]];
    }
    args->from_row = args->n, args->to_row = args->n + gap, args->to_first = gap ? draw (gap) : 0;
}

/* Two rows of flags, one of them not always wanted.  */
static wm_gpu_checks_t draw_checks (uint32_t flag[2][4], uint32_t what)
{
    return (wm_gpu_checks_t){
        .flag = flag[0], .doubt = draw (3) ? flag[1] : NULL, .what = what, .bound = 31
    };
}

/* What is found at an element that is to be stored as `value`.  */
static void find (const wm_gpu_checks_t *checks, uint32_t bad[2][4], uint32_t row, uint32_t found,
                  float value)
{
    bad[0][row] |= (found & checks->what) != 0;
    bad[1][row] |= checks->doubt && !(fabsf (value) <= checks->bound);
}

static void copies_are_by_their_definition (void **state)
{
    static side_t from, to, want;
    uint32_t tiled = 0, widths[9] = { 0 };
    seed = 1;
    for (int c = 0; c < CASES; c++) {
        uint32_t flag[2][4] = { 0 }, bad[2][4] = { 0 }, held[4] = { 0, 0, draw (3) == 0, 0 };
        wm_gpu_copy_t args = { .rows = 1 + draw (4) };
        draw_side (&from), draw_side (&to), draw_copy (&args);
        want = to, want.first = want.memory + ((char *) to.first - to.memory);
        args.from = from.first, args.to = to.first;
        args.checks = draw_checks (flag, draw (2) ? WM_GPU_CHECK_FROM : WM_GPU_CHECK_TO);
        args.half_from = from.half, args.half_to = to.half;
        args.held = held[2] ? held : NULL;
        for (uint32_t e = 0; e < args.rows * args.n; e++) {
            const uint32_t row = e / args.n;
            size_t at = (size_t) row * args.from_row,
                   put = (size_t) row * args.to_row + args.to_first;
            for (uint32_t k = WM_GPU_COPY_DIMS, left = e % args.n; k-- > 0; left /= args.dim[k])
                at += left % args.dim[k] * args.from_stride[k],
                    put += left % args.dim[k] * args.to_stride[k];
            const float value = held[row] ? NAN : wm_gpu_load (from.first, at, from.half);
            wm_gpu_store (want.first, put, to.half, value);
            find (&args.checks, bad, row, is_finite (&want, put) ? 0 : ~0u, value);
        }
        const uint32_t tiles = wm_gpu_copy_tiles (&args);
        tiled += tiles > 0;
        widths[tiles ? 0 : wm_gpu_copy_width (&args)]++;
        run_grid (run_copy, &args, wm_gpu_copy_phases (&args), args.rows * tiles);
        assert_same (&to, &want, "copy", c);
        assert_memory_equal (flag, bad, sizeof flag);
    }
    assert_true (tiled > 20 && widths[1] > 20 && widths[4] > 20 && widths[8] > 5);
}

static void scans_are_by_their_definition (void **state)
{
    static side_t from;
    seed = 2;
    for (int c = 0; c < CASES; c++) {
        uint32_t flag[2][4] = { 0 }, bad[2][4] = { 0 }, only[4] = { 1, 0, 1, 0 };
        static const float limit[] = { WM_GPU_FINITE, 65504, 31 };
        wm_gpu_scan_t args = { .held = flag[0], .rows = 1 + draw (4), .n = 1 + draw (ROOM / 8) };
        draw_side (&from);
        args.from = from.first, args.half = from.half, args.limit = limit[draw (3)];
        args.each = draw (2), args.bound = 31.5f;
        args.only = draw (2) ? only : NULL, args.doubt = draw (2) ? flag[1] : NULL;
        for (uint32_t e = 0; e < args.rows * args.n; e++) {
            const float value = fabsf (wm_gpu_load (from.first, e, from.half));
            const uint32_t row = e / args.n;
            if (args.only && !only[row])
                continue;
            bad[0][row * args.each] |= !(value <= args.limit);
            bad[1][row] |= args.doubt && !(value <= args.bound);
        }
        run_grid (run_scan, &args, 1, 0);
        assert_memory_equal (flag, bad, sizeof flag);
    }
}

static void pools_are_by_their_definition (void **state)
{
    static side_t from, to, want;
    static const uint32_t channels[] = { 1, 3, 4, 8, 12, 16 };
    seed = 3;
    for (int c = 0; c < CASES; c++) {
        uint32_t flag[2][4] = { 0 }, bad[2][4] = { 0 };
        wm_gpu_pool_t args = { .rows = 1 + draw (4), .channels = channels[draw (6)] };
        draw_side (&from), draw_side (&to);
        want = to, want.first = want.memory + ((char *) to.first - to.memory);
        for (int s = 0; s < 2; s++) {
            args.in[s] = 1 + draw (8), args.kernel[s] = 1 + draw (3), args.stride[s] = 1 + draw (3);
            args.before[s] = draw (args.kernel[s]);
            args.out[s] = (args.in[s] + args.before[s] - 1) / args.stride[s] + 1;
        }
        args.mean = draw (2), args.count_padding = draw (2);
        args.checks = draw_checks (flag, draw (8));
        args.from = from.first, args.to = to.first;
        args.half_from = from.half, args.half_to = to.half;
        const uint32_t n = args.out[0] * args.out[1] * args.channels;
        for (uint32_t e = 0; e < args.rows * n; e++) {
            const uint32_t row = e / n, channel = e % args.channels,
                           oj = e / args.channels % args.out[1],
                           oi = e % n / args.channels / args.out[1];
            float most = -INFINITY, sum = 0, count = 0;
            uint32_t found = 0;
            for (uint32_t t = 0; t < args.kernel[0] * args.kernel[1]; t++) {
                const int i = (int) (oi * args.stride[0] + t / args.kernel[1]) -
                              (int) args.before[0],
                          j = (int) (oj * args.stride[1] + t % args.kernel[1]) -
                              (int) args.before[1];
                const bool inside =
                    i >= 0 && j >= 0 && i < (int) args.in[0] && j < (int) args.in[1];
                count += inside || args.count_padding ? 1 : 0;
                if (!inside)
                    continue;
                const size_t at =
                    (((size_t) row * args.in[0] + (size_t) i) * args.in[1] + (size_t) j) *
                        args.channels +
                    channel;
                const float value = wm_gpu_load (from.first, at, from.half);
                found |= isfinite (value) ? 0 : WM_GPU_CHECK_FROM;
                most = isnan (value) || isnan (most) ? NAN : value > most ? value : most;
                sum += value;
            }
            const float result = args.mean ? sum / count : most;
            wm_gpu_store (want.first, e, to.half, result);
            found |= is_finite (&want, e) ? 0 : WM_GPU_CHECK_TO;
            find (&args.checks, bad, row, found, result);
        }
        run_grid (run_pool, &args, 1, 0);
        assert_same (&to, &want, "pool", c);
        assert_memory_equal (flag, bad, sizeof flag);
    }
}

static void joins_are_by_their_definition (void **state)
{
    static side_t from, second, to, want;
    static const wm_act_t act[] = { WM_ACT_NONE, WM_ACT_RELU, WM_ACT_LEAKY, WM_ACT_CLIP,
                                    WM_ACT_TANH };
    static const float slope[5] = { 0.5f, 0.25f, -1, 2, 3 };
    seed = 4;
    for (int c = 0; c < CASES; c++) {
        uint32_t flag[2][4] = { 0 }, bad[2][4] = { 0 };
        wm_gpu_join_t args = { .rows = 1 + draw (4), .n = 1 + draw (ROOM / 8), WM_GPU_JOIN_PLAIN };
        const bool two = draw (2);
        draw_side (&from), draw_side (&second), draw_side (&to);
        want = to, want.first = want.memory + ((char *) to.first - to.memory);
        args.from = from.first, args.to = to.first;
        args.checks = draw_checks (flag, draw (8));
        args.half_from = from.half, args.half_to = to.half;
        if (two)
            args.second = second.first, args.half_second = second.half;
        args.act = act[draw (5)], args.bend = 0.5f, args.least = -3;
        if (args.act == WM_ACT_LEAKY && draw (2))
            args.slope = slope, args.n_slope = 5, args.slope_run = 1 + draw (3);
        for (uint32_t e = 0; e < args.rows * args.n; e++) {
            const uint32_t row = e / args.n, i = e % args.n;
            const float one = wm_gpu_load (from.first, e, from.half),
                        bend = args.slope ? slope[i / args.slope_run % 5] : args.bend;
            float value = two ? one + wm_gpu_load (second.first, e, second.half) : one;
            value = args.act == WM_ACT_CLIP ? (value > bend         ? bend
                                               : value < args.least ? args.least
                                                                    : value)
                                            : wm_gpu_activate (args.act, bend, value);
            wm_gpu_store (want.first, e, to.half, value);
            find (&args.checks, bad, row,
                  (isfinite (one) ? 0 : WM_GPU_CHECK_FROM) |
                      (two && !is_finite (&second, e) ? WM_GPU_CHECK_SECOND : 0) |
                      (is_finite (&want, e) ? 0 : WM_GPU_CHECK_TO),
                  value);
        }
        run_grid (run_join, &args, 1, 0);
        assert_same (&to, &want, "join", c);
        assert_memory_equal (flag, bad, sizeof flag);
    }
}

/* ---- networks -------------------------------------------------------------------------------- */

/* A constant of the graph; values that keep what flows through it within bounds.  */
static void constant (graph_t *g, const char *name, size_t n_dim, const int64_t *dim, float scale)
{
    size_t n = 1;
    for (size_t d = 0; d < n_dim; d++)
        n *= (size_t) dim[d];
    Onnx__TensorProto *t = tensor (g, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, n_dim, dim);
    t->n_float_data = n;
    t->float_data = take (g, n, sizeof (float));
    for (size_t i = 0; i < n; i++)
        t->float_data[i] = scale * ((float) draw (2001) / 1000 - 1);
    add_tensor (g, t);
}

/* in -> out: a convolution of side k, padded to keep places; with ReLU out of it.  */
static void conv (graph_t *g, const char *in, const char *out, int64_t c_in, int64_t c_out,
                  int64_t k, int64_t stride, bool relu)
{
    char names[80], sum[40];
    snprintf (names, sizeof names, "%s %s.w %s.b", in, out, out);
    snprintf (sum, sizeof sum, relu ? "%s.sum" : "%s", out);
    Onnx__NodeProto *n = node (g, "Conv", names, sum);
    set_ints (g, n, "kernel_shape", INTS (k, k));
    set_ints (g, n, "strides", INTS (stride, stride));
    set_ints (g, n, "pads", INTS (k / 2, k / 2, k / 2, k / 2));
    snprintf (names, sizeof names, "%s.w", out);
    constant (g, names, 4, (int64_t[]){ c_out, c_in, k, k }, 2 / sqrtf ((float) (c_in * k * k)));
    snprintf (names, sizeof names, "%s.b", out);
    constant (g, names, 1, &c_out, 0.1f);
    if (relu)
        node (g, "Relu", sum, out);
}

static void pool (graph_t *g, const char *op, const char *in, const char *out, int64_t k,
                  int64_t stride)
{
    Onnx__NodeProto *n = node (g, op, in, out);
    set_ints (g, n, "kernel_shape", INTS (k, k));
    set_ints (g, n, "strides", INTS (stride, stride));
}

static void dense (graph_t *g, const char *in, const char *out, int64_t n_in, int64_t n_out)
{
    char names[80];
    snprintf (names, sizeof names, "%s %s.w %s.b", in, out, out);
    node (g, "Gemm", names, out);
    snprintf (names, sizeof names, "%s.w", out);
    constant (g, names, 2, (int64_t[]){ n_in, n_out }, 2 / sqrtf ((float) n_in));
    snprintf (names, sizeof names, "%s.b", out);
    constant (g, names, 1, &n_out, 0.1f);
}

/* Clip to 0 .. 6: what is infinite no longer shows behind it.  */
static void clip (graph_t *g, const char *in, const char *out)
{
    char names[80];
    snprintf (names, sizeof names, "%s %s.least %s.most", in, out, out);
    Onnx__NodeProto *n = node (g, "Clip", names, out);
    (void) n;
    for (int most = 0; most < 2; most++) {
        snprintf (names, sizeof names, "%s.%s", out, most ? "most" : "least");
        constant (g, names, 0, NULL, 0);
        g->tensor[g->n_tensor - 1]->float_data[0] = most ? 6 : 0;
    }
}

/* 1x1 to few channels, then 1x1 and 3x3 of these, concatenated.  */
static void fire (graph_t *g, const char *in, const char *out, int64_t c_in, int64_t few,
                  int64_t many)
{
    char squeezed[40], one[40], three[40], both[80];
    snprintf (squeezed, sizeof squeezed, "%s.s", out);
    snprintf (one, sizeof one, "%s.1", out);
    snprintf (three, sizeof three, "%s.3", out);
    snprintf (both, sizeof both, "%s %s", one, three);
    conv (g, in, squeezed, c_in, few, 1, 1, true);
    conv (g, squeezed, one, few, many, 1, 1, true);
    conv (g, squeezed, three, few, many, 3, 1, true);
    set_int (g, node (g, "Concat", both, out), "axis", 1);
}

static void like_squeezenet (graph_t *g)
{
    input (g, "x", 4, (int64_t[]){ -1, 3, 33, 33 });
    conv (g, "x", "a", 3, 16, 3, 2, true);
    pool (g, "MaxPool", "a", "b", 3, 2);
    fire (g, "b", "c", 16, 8, 16);
    fire (g, "c", "d", 32, 8, 16);
    pool (g, "MaxPool", "d", "e", 2, 2);
    fire (g, "e", "f", 32, 16, 24);
    conv (g, "f", "h", 48, 10, 1, 1, true);
    clip (g, "h", "i");
    node (g, "GlobalAveragePool", "i", "j");
    node (g, "Flatten", "j", "k");
    node (g, "Softmax", "k", "y");
    output (g, "y", 2, (int64_t[]){ -1, 10 });
}

/* 1x1, 3x3, 1x1, added to what came in, or to a projection of it.  */
static void bottleneck (graph_t *g, const char *in, const char *out, int64_t c_in, int64_t few,
                        int64_t c_out)
{
    char name[4][40], both[90];
    for (int k = 0; k < 4; k++)
        snprintf (name[k], sizeof name[k], "%s.%d", out, k);
    conv (g, in, name[0], c_in, few, 1, 1, true);
    conv (g, name[0], name[1], few, few, 3, 1, true);
    conv (g, name[1], name[2], few, c_out, 1, 1, false);
    if (c_in != c_out)
        conv (g, in, name[3], c_in, c_out, 1, 1, false);
    snprintf (both, sizeof both, "%s %s", name[2], c_in == c_out ? in : name[3]);
    snprintf (name[0], sizeof name[0], "%s.sum", out);
    node (g, "Add", both, name[0]);
    node (g, "Relu", name[0], out);
}

static void like_resnet (graph_t *g)
{
    input (g, "x", 4, (int64_t[]){ -1, 3, 32, 32 });
    conv (g, "x", "a", 3, 16, 7, 2, true);
    pool (g, "MaxPool", "a", "b", 2, 2);
    bottleneck (g, "b", "c", 16, 8, 32);
    bottleneck (g, "c", "d", 32, 8, 32);
    conv (g, "d", "e", 32, 24, 1, 1, true);
    clip (g, "e", "f");
    node (g, "GlobalAveragePool", "f", "h");
    node (g, "Flatten", "h", "i");
    dense (g, "i", "y", 24, 10);
    output (g, "y", 2, (int64_t[]){ -1, 10 });
}

static void like_vgg (graph_t *g)
{
    input (g, "x", 4, (int64_t[]){ -1, 3, 24, 24 });
    conv (g, "x", "a", 3, 16, 3, 1, true);
    conv (g, "a", "b", 16, 16, 3, 1, true);
    pool (g, "MaxPool", "b", "c", 2, 2);
    conv (g, "c", "d", 16, 32, 3, 1, true);
    conv (g, "d", "e", 32, 32, 3, 1, true);
    pool (g, "MaxPool", "e", "f", 2, 2);
    node (g, "Flatten", "f", "h");
    dense (g, "h", "i.sum", 32 * 36, 64);
    node (g, "Relu", "i.sum", "i");
    dense (g, "i", "j.sum", 64, 64);
    clip (g, "j.sum", "j");
    dense (g, "j", "y", 64, 10);
    output (g, "y", 2, (int64_t[]){ -1, 10 });
}

/* One channel: a convolution reads the patch as it came, and so does an output.  */
static void like_its_input (graph_t *g)
{
    input (g, "x", 4, (int64_t[]){ -1, 1, 8, 8 });
    conv (g, "x", "a", 1, 8, 3, 1, true);
    clip (g, "a", "b");
    node (g, "GlobalAveragePool", "b", "c");
    node (g, "Flatten", "c", "y");
    node (g, "Flatten", "x", "z");
    output (g, "y", 2, (int64_t[]){ -1, 8 });
    output (g, "z", 2, (int64_t[]){ -1, 64 });
}

/* A pool that leaves out every other row and column of a convolution's result.  */
static void like_holes (graph_t *g)
{
    input (g, "x", 4, (int64_t[]){ -1, 1, 9, 9 });
    conv (g, "x", "a", 1, 8, 3, 1, true);
    pool (g, "MaxPool", "a", "b", 1, 2);
    conv (g, "b", "c", 8, 8, 1, 1, true);
    node (g, "GlobalMaxPool", "c", "d");
    node (g, "Flatten", "d", "y");
    output (g, "y", 2, (int64_t[]){ -1, 8 });
}

static wm_any_net_t *net_of (void (*make) (graph_t *g))
{
    graph_t *g = calloc (1, sizeof *g);
    char path[] = "/tmp/wm_any_XXXXXX";
    wm_error_t error = { 0 };
    size_t size;
    const int file = mkstemp (path);
    assert_true (g && file >= 0);
    seed = 7;
    make (g);
    uint8_t *bytes = packed (g, &size);
    assert_int_equal (write (file, bytes, size), size);
    close (file);
    wm_any_net_t *net = wm_any_net_new (path, NULL, 0, &error);
    if (!net)
        fail_msg ("%s", error.text);
    unlink (path);
    free (bytes);
    wm_arena_clear (&g->arena);
    free (g);
    return net;
}

#define ROWS 4u

/* Scores ROWS patches; the caller frees them.  */
static float *score (wm_cuda_t *any, const wm_any_net_t *net, const float *patch)
{
    float *scores = calloc (ROWS * net->size[WM_ANY_SCORES], sizeof *scores);
    const wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                               .n_hit = ROWS,
                               .patch_values = net->size[WM_ANY_INPUT],
                               .patch = (float *) patch };
    wm_error_t error = { 0 };
    if (wm_cuda_score (any, &batch, scores, NULL, &error))
        fail_msg ("%s", error.text);
    return scores;
}

static float *patches_of (const wm_any_net_t *net)
{
    float *patch = calloc (ROWS * net->size[WM_ANY_INPUT], sizeof *patch);
    for (size_t i = 0; i < (size_t) ROWS * net->size[WM_ANY_INPUT]; i++)
        patch[i] = (float) draw (1000) / 1000;
    return patch;
}

/* Row 2 is held, the others have their bits.  */
static void assert_held (const float *scores, const float *right, uint32_t n, const char *what,
                         uint32_t at)
{
    for (uint32_t i = 0; i < ROWS * n; i++)
        if (i / n == 2 ? !isnan (scores[i]) : memcmp (&scores[i], &right[i], sizeof *scores) != 0)
            fail_msg ("%s %u: score %u is %g for %g", what, at, i, (double) scores[i],
                      (double) right[i]);
}

/* A value beyond half's range, wherever a convolution leaves it, holds its patch alone, though
   nothing of it shows in the scores.  */
static void what_is_infinite_on_its_way_is_held (void **state)
{
    static void (*const make[]) (graph_t * g) = { like_squeezenet, like_resnet, like_vgg,
                                                  like_its_input, like_holes };
    for (size_t k = 0; k < sizeof make / sizeof *make; k++) {
        wm_any_net_t *net = net_of (make[k]);
        wm_any_place_t *place = calloc (1, sizeof *place);
        wm_error_t error = { 0 };
        wm_gpu_fake = (wm_gpu_fake_t){ 0 };
        wm_cuda_t *any = wm_any_new (&wm_gpu_stand_in, net, NULL, WM_GPU_F16, ROWS, &error);
        assert_true (any && place && wm_any_place (place, net, true, NULL));
        assert_string_equal (wm_cuda_choice (any), "");
        float *patch = patches_of (net), *right = score (any, net, patch);
        uint32_t run = 0, halves = 0;
        for (uint32_t s = 0; s < net->n_step; s++) {
            if (net->step[s].kind != WM_ANY_CONV)
                continue;
            run++;
            const bool proved = place->only[net->step[s].to] != WM_ANY_NONE; /* it cannot be */
            for (int place_of = 0; place_of < 4 && place->conv[s] && !proved; place_of++) {
                wm_gpu_fake.anyconvs = 0, wm_gpu_fake.spoil_conv = run, wm_gpu_fake.spoil_row = 2;
                wm_gpu_fake.spoil_place = place_of * 0.3333334 > 1 ? 1 : place_of * 0.3333334;
                float *scores = score (any, net, patch);
                assert_held (scores, right, net->size[WM_ANY_SCORES], net->step[s].name, s);
                free (scores);
            }
            wm_gpu_fake.spoil_conv = 0;
            halves += place->conv[s] && !proved;
        }
        assert_true (halves > 0);
        float *again = score (any, net, patch); /* nothing stays held */
        assert_memory_equal (again, right, ROWS * net->size[WM_ANY_SCORES] * sizeof *again);
        free (again), free (right), free (patch), free (place);
        wm_cuda_destroy (&any);
        wm_any_net_destroy (&net);
        assert_int_equal (wm_gpu_fake.broken_guards, 0);
    }
}

/* The network with the values of convolution k 64 times as large; what reads them takes as much
   less of them, and negative, or nothing, so that ReLU hides what is infinite.  */
static wm_any_net_t *louder (const wm_any_net_t *net, uint32_t k)
{
    wm_any_net_t *loud = malloc (sizeof *loud);
    *loud = *net;
    loud->constant = malloc (net->n_constant * sizeof (float));
    memcpy (loud->constant, net->constant, net->n_constant * sizeof (float));
    for (uint32_t s = 0; s < net->n_step; s++) {
        const wm_any_step_t *step = &net->step[s];
        const wm_gpu_anyconv_t *c = &step->conv;
        if (step->kind != WM_ANY_CONV || (s != k && step->from != net->step[k].to))
            continue;
        const size_t run = (size_t) c->kernel[0] * c->kernel[1] * (c->c_in / c->groups);
        for (size_t i = 0; i < c->c_out * run; i++) {
            float *weight = &loud->constant[step->weight + i];
            *weight = s == k ? *weight * 64 : i < run ? 0 : -fabsf (*weight) / 64;
        }
        if (s != k)
            loud->constant[step->bias] = 1;
        for (uint32_t o = 0; o < c->c_out && s == k; o++)
            loud->constant[step->bias + o] *= 64;
    }
    return loud;
}

/* Patches with larger and larger values: one is held where a convolution is infinite, and nowhere
   else, though what weights prove to be finite is not read.  */
static void what_weights_prove_is_so (void **state)
{
    static void (*const make[]) (graph_t * g) = { like_squeezenet, like_resnet, like_vgg };
    for (size_t k = 0; k < sizeof make / sizeof *make; k++) {
        wm_any_net_t *net = net_of (make[k]);
        wm_any_place_t *place = calloc (1, sizeof *place);
        uint32_t alone = 0, quiet = 0;
        float *patch = patches_of (net), *base = patches_of (net);
        const uint32_t n = net->size[WM_ANY_INPUT], n_score = net->size[WM_ANY_SCORES];
        for (uint32_t s = 0; s < net->n_step; s++) {
            if (net->step[s].kind != WM_ANY_CONV)
                continue;
            wm_any_net_t *loud = louder (net, s);
            wm_error_t error = { 0 };
            wm_gpu_fake = (wm_gpu_fake_t){ .spoil_row = 2 };
            wm_cuda_t *any = wm_any_new (&wm_gpu_stand_in, loud, NULL, WM_GPU_F16, ROWS, &error);
            assert_true (any && place && wm_any_place (place, loud, true, NULL));
            assert_string_equal (wm_cuda_choice (any), "");
            for (int j = 0; j < 15; j++) {
                for (uint32_t i = 0; i < n; i++)
                    patch[2 * n + i] = ldexpf (base[i], j);
                wm_gpu_fake.infinite = 0;
                float *scores = score (any, loud, patch);
                const bool held = isnan (scores[2 * n_score]), want = wm_gpu_fake.infinite > 0;
                if (held != want)
                    fail_msg ("network %zu, convolution %s, 2^%d: %s", k, net->step[s].name, j,
                              held ? "held" : "not held");
                alone += wm_gpu_fake.infinite == 1 && place->only[net->step[s].to] != WM_ANY_NONE;
                quiet += !want;
                free (scores);
            }
            wm_cuda_destroy (&any);
            wm_any_net_destroy (&loud);
        }
        print_message ("network %zu: %u times one alone, %u times none\n", k, alone, quiet);
        assert_true (alone > 0 && quiet > 0);
        free (place), free (patch), free (base);
        wm_any_net_destroy (&net);
    }
}

/* A patch with a value that is not finite, whatever reads it first, in each precision.  */
static void what_is_not_finite_in_a_patch_is_held (void **state)
{
    static void (*const make[]) (graph_t * g) = { like_squeezenet, like_its_input };
    for (size_t k = 0; k < 2 * 3; k++) {
        wm_any_net_t *net = net_of (make[k / 3]);
        wm_error_t error = { 0 };
        wm_gpu_fake = (wm_gpu_fake_t){ 0 };
        wm_cuda_t *any =
            wm_any_new (&wm_gpu_stand_in, net, NULL, (wm_gpu_precision_t) (k % 3), ROWS, &error);
        assert_non_null (any);
        const uint32_t n = net->size[WM_ANY_INPUT];
        float *patch = patches_of (net), *right = score (any, net, patch);
        for (int last = 0; last < 2; last++) {
            float *value = &patch[2 * n + (last ? n - 1 : 0)], kept = *value;
            *value = last ? -INFINITY : NAN;
            float *scores = score (any, net, patch);
            assert_held (scores, right, net->size[WM_ANY_SCORES], "patch of network", (uint32_t) k);
            *value = kept;
            free (scores);
        }
        free (right), free (patch);
        wm_cuda_destroy (&any);
        wm_any_net_destroy (&net);
    }
}

/* Which values a launch of its own checks: those that no kernel of ours reads.  */
static void only_what_nothing_of_ours_reads_is_scanned (void **state)
{
    static const struct {
        void (*make) (graph_t *g);
        uint32_t scans[2], proved; /* in float32, in half; of them by weights */
    } row[] = { { like_squeezenet, { 0, 3 }, 3 },
                { like_resnet, { 0, 4 }, 4 },
                { like_vgg, { 0, 3 }, 3 },
                { like_its_input, { 1, 0 }, 0 },
                { like_holes, { 1, 1 }, 1 } };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        for (int half = 0; half < 2; half++) {
            wm_any_net_t *net = net_of (row[k].make);
            wm_any_place_t *place = calloc (1, sizeof *place);
            uint32_t n = 0, proved = 0;
            assert_true (place && wm_any_place (place, net, half, NULL));
            for (uint32_t b = 0; b < net->n_buffer; b++)
                n += place->scanned[b], proved += place->only[b] != WM_ANY_NONE;
            if (n != row[k].scans[half] || proved != (half ? row[k].proved : 0))
                fail_msg ("network %zu, half %d: %u scans, %u proved", k, half, n, proved);
            free (place);
            wm_any_net_destroy (&net);
        }
}

/* What our kernels read and write for a patch, and how many launches a chunk takes: counted, and
   not to grow.  */
static void what_is_read_and_written_is_within_bounds (void **state)
{
    static const struct {
        void (*make) (graph_t *g);
        const char *name;
        uint32_t launches[2]; /* in float32, in half; at most, */
        double read[2], written[2];
        double wide[2]; /* and at least */
    } row[] = {
        { like_squeezenet,
          "like SqueezeNet",
          { 15, 18 },
          { 79.1e3, 46.1e3 },
          { 39.6e3, 19.9e3 },
          { 0.76, 0.69 } },
        { like_resnet,
          "like ResNet",
          { 8, 13 },
          { 73.9e3, 43.2e3 },
          { 39.2e3, 19.7e3 },
          { 0.77, 0.7 } },
        { like_vgg, "like VGG", { 7, 11 }, { 67.2e3, 37.3e3 }, { 25.7e3, 13.2e3 }, { 0.74, 0.69 } }
    };
    gpu_any_counted_head ();
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        for (int half = 0; half < 2; half++) {
            wm_any_net_t *net = net_of (row[k].make);
            gpu_any_counted_t counted;
            wm_error_t error = { 0 };
            if (!gpu_any_count (net, half ? WM_GPU_F16 : WM_GPU_F32, 16, &counted, &error))
                fail_msg ("%s", error.text);
            gpu_any_counted_print (&counted, row[k].name);
            assert_in_range (counted.launches, 1, row[k].launches[half]);
            assert_true (counted.read > 0 && counted.read <= row[k].read[half]);
            assert_true (counted.written > 0 && counted.written <= row[k].written[half]);
            assert_true (counted.wide >= row[k].wide[half]);
            wm_any_net_destroy (&net);
        }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (copies_are_by_their_definition),
        cmocka_unit_test (scans_are_by_their_definition),
        cmocka_unit_test (pools_are_by_their_definition),
        cmocka_unit_test (joins_are_by_their_definition),
        cmocka_unit_test (what_is_infinite_on_its_way_is_held),
        cmocka_unit_test (what_weights_prove_is_so),
        cmocka_unit_test (what_is_not_finite_in_a_patch_is_held),
        cmocka_unit_test (only_what_nothing_of_ours_reads_is_scanned),
        cmocka_unit_test (what_is_read_and_written_is_within_bounds),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
