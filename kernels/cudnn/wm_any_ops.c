/* wm_any_ops.c - the operators of any CNN: each becomes steps, or changes one before it.  */
#include "kernels/cudnn/wm_any_private.h"

#include <math.h>
#include <string.h>

typedef wm_any_walk_t walk_t;
typedef wm_any_value_t value_t;

#define REFUSE(...) return wm_any_refuse (self, __VA_ARGS__)

static bool is (const walk_t *self, const char *op)
{
    return strcmp (wm_onnx_op (self->node), op) == 0;
}

/* Whether a text attribute equals `word`.  */
static bool is_word (const walk_t *self, const char *name, const char *word)
{
    const Onnx__AttributeProto *a = wm_onnx_attribute (self->node, name);
    return a && a->s.len == strlen (word) && !memcmp (a->s.data, word, a->s.len);
}

/* Sets a result; its other fields are kept (reads).  */
static void set (value_t *out, uint32_t buffer, uint32_t n_dim, const uint32_t *dim, bool last)
{
    out->kind = WM_ANY_BUFFER;
    out->buffer = buffer, out->n_dim = n_dim, out->last = last, out->step = -1;
    memmove (out->dim, dim, n_dim * sizeof *dim);
}

/* The result is the first input under other dimensions.  */
static bool alias (value_t *out, const value_t *in, uint32_t n_dim, const uint32_t *dim)
{
    set (out, in->buffer, n_dim, dim, in->last);
    out->step = in->reads == 1 ? in->step : -1;
    return true;
}

/* ---- windows: Conv and pools ----------------------------------------------------------------- */

/* Element d (of n, height before width) of a list attribute, or `otherwise`. A list of one
   element gives the width.  */
static int64_t element (const walk_t *self, const char *name, uint32_t n_dim, size_t d, int side,
                        int64_t otherwise)
{
    const Onnx__AttributeProto *a = wm_onnx_attribute (self->node, name);
    if (!a || n_dim < 2 || (n_dim == 2 && side == 0))
        return otherwise;
    const size_t per = n_dim - 1, at = d * per + (n_dim == 2 ? 0 : (size_t) side);
    return at < a->n_ints ? a->ints[at] : otherwise;
}

typedef enum { PAD_NOTSET, PAD_VALID, PAD_SAME_UPPER, PAD_SAME_LOWER, PAD_UNKNOWN } auto_pad_t;

static auto_pad_t auto_pad (const walk_t *self)
{
    static const char *const names[] = { "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER" };
    for (int i = 0; i < PAD_UNKNOWN; i++)
        if (is_word (self, "auto_pad", names[i]))
            return (auto_pad_t) i;
    return wm_onnx_attribute (self->node, "auto_pad") ? PAD_UNKNOWN : PAD_NOTSET;
}

/* Fills in the window of a convolution or pool whose kernel is known, and its input channels.  */
static bool window_of (walk_t *self, const value_t *in, wm_gpu_anyconv_t *w)
{
    uint32_t chw[3];
    const auto_pad_t mode = auto_pad (self);
    wm_any_plane (in, chw);
    w->c_in = chw[0];
    for (int s = 0; s < 2; s++) {
        const int64_t size = chw[1 + s], stride = element (self, "strides", in->n_dim, 0, s, 1),
                      dilation = element (self, "dilations", in->n_dim, 0, s, 1),
                      reach = (w->kernel[s] - 1) * dilation + 1;
        int64_t before = element (self, "pads", in->n_dim, 0, s, 0),
                after = element (self, "pads", in->n_dim, 1, s, 0);
        if (mode == PAD_UNKNOWN || stride < 1 || stride > 1 << 16 || dilation < 1 ||
            dilation > 1 << 16 || before < 0 || after < 0 || before > 1 << 16 || after > 1 << 16)
            REFUSE ("its strides, dilations or pads");
        if (mode >= PAD_SAME_UPPER) {
            int64_t pad = ((size + stride - 1) / stride - 1) * stride + reach - size;
            pad = pad > 0 ? pad : 0;
            before = mode == PAD_SAME_UPPER ? pad / 2 : pad - pad / 2, after = pad - before;
        } else if (mode == PAD_VALID)
            before = after = 0;
        const int64_t room = size + before + after - reach;
        if (room < 0)
            REFUSE ("a window of %lld over %lld", (long long) reach, (long long) size);
        if (wm_onnx_int (self->node, "ceil_mode", 0) && room % stride)
            REFUSE ("ceil_mode");
        w->in[s] = (uint32_t) size, w->out[s] = (uint32_t) (room / stride + 1);
        w->stride[s] = (uint32_t) stride, w->dilation[s] = (uint32_t) dilation;
        w->before[s] = (uint32_t) before, w->after[s] = (uint32_t) after;
    }
    return true;
}

/* A result of `channels` and the window's size, with the rank of the input, channels last.  */
static bool set_plane (walk_t *self, value_t *out, const value_t *in, wm_any_step_t *step,
                       uint32_t channels, const wm_gpu_anyconv_t *w)
{
    const uint32_t three[3] = { channels, w->out[0], w->out[1] }, two[2] = { channels, w->out[1] };
    const uint64_t places = (uint64_t) w->out[0] * w->out[1];
    const bool fits = places <= WM_ANY_VALUES_MAX && places * channels <= WM_ANY_VALUES_MAX;
    if (!wm_any_buffer (self, fits ? (uint32_t) (places * channels) : 0, &step->to))
        return false;
    set (out, step->to, in->n_dim, in->n_dim == 3 ? three : two, true);
    return true;
}

/* A convolution. Its weights are w(o, c, i, j): from one filter to the next, and from one channel,
   they lie so far apart.  */
static bool add_conv (walk_t *self, value_t *out, const value_t *in, const float *weight,
                      size_t to_filter, size_t to_channel, const float *bias,
                      const wm_gpu_anyconv_t *conv)
{
    const size_t c_in = conv->c_in / conv->groups, run = wm_any_run (conv), taps = run / c_in;
    wm_any_step_t *step = wm_any_step (self, WM_ANY_CONV, in->buffer);
    float *to = step ? wm_any_constants (self, conv->c_out * run, &step->weight) : NULL;
    if (!to)
        return false;
    for (size_t o = 0; o < conv->c_out; o++)
        for (size_t c = 0; c < c_in; c++)
            for (size_t t = 0; t < taps; t++) /* they become (o, i, j, c) */
                to[(o * taps + t) * c_in + c] = weight[o * to_filter + c * to_channel + t];
    if (!(to = wm_any_constants (self, conv->c_out, &step->bias)))
        return false;
    if (bias)
        memcpy (to, bias, conv->c_out * sizeof *to);
    step->conv = *conv;
    if (!set_plane (self, out, in, step, conv->c_out, conv))
        return false;
    out->step = (int32_t) (step - self->net->step);
    return true;
}

static bool visit_conv (walk_t *self, value_t *out)
{
    value_t *in = self->in[0];
    const wm_tensor_t *weight = wm_any_constant (self, 1), *bias = wm_any_constant (self, 2);
    const int64_t groups = wm_onnx_int (self->node, "group", 1);
    if (!weight || !weight->f || (self->n_in > 2 && self->in[2] && (!bias || !bias->f)))
        REFUSE ("its weights are no constants");
    if (in->n_dim < 2 || in->n_dim > 3 || weight->n_dim != in->n_dim + 1)
        REFUSE ("%u dimensions", in->n_dim + 1);
    if (groups < 1 || in->dim[0] % (uint64_t) groups ||
        (uint64_t) weight->dim[1] * (uint64_t) groups != in->dim[0] || weight->dim[0] % groups ||
        (bias && bias->n != (size_t) weight->dim[0]))
        REFUSE ("%lld groups of channels that do not fit", (long long) groups);
    wm_gpu_anyconv_t conv = { .c_out = (uint32_t) weight->dim[0],
                              .groups = (uint32_t) groups,
                              .kernel = { 1, 1 } };
    for (uint32_t d = 0; d + 1 < in->n_dim; d++)
        conv.kernel[d + 3 - in->n_dim] = (uint32_t) weight->dim[2 + d];
    const size_t taps = (size_t) conv.kernel[0] * conv.kernel[1];
    return window_of (self, in, &conv) && wm_any_last (self, in) &&
           add_conv (self, out, in, weight->f, (size_t) weight->dim[1] * taps, taps,
                     bias ? bias->f : NULL, &conv);
}

#define POOL_WINDOW (sizeof (wm_gpu_pool_t) - offsetof (wm_gpu_pool_t, in))
_Static_assert(POOL_WINDOW ==
                   offsetof (wm_gpu_anyconv_t, dilation) - offsetof (wm_gpu_anyconv_t, in),
               "a pool ends with the window of a convolution");

static bool visit_pool (walk_t *self, value_t *out)
{
    value_t *in = self->in[0];
    const int global = strncmp (wm_onnx_op (self->node), "Global", 6) == 0;
    wm_gpu_anyconv_t w = { 0 };
    uint32_t chw[3];
    wm_any_plane (in, chw);
    if (in->n_dim < 2 || in->n_dim > 3 || self->node->n_output > 1)
        REFUSE ("%u dimensions, or indices wanted", in->n_dim + 1);
    for (int s = 0; s < 2; s++) {
        int64_t k = global ? chw[1 + s] : element (self, "kernel_shape", in->n_dim, 0, s, 1);
        if (k < 1 || k > 1 << 16)
            REFUSE ("a window of %lld", (long long) k);
        w.kernel[s] = (uint32_t) k;
    }
    if (!window_of (self, in, &w) || !wm_any_last (self, in))
        return false;
    if (w.dilation[0] > 1 || w.dilation[1] > 1)
        REFUSE ("dilations");
    wm_any_step_t *step = wm_any_step (self, WM_ANY_POOL, in->buffer);
    if (!step)
        return false;
    step->pool = (wm_gpu_pool_t){
        .channels = chw[0],
        .mean = strstr (wm_onnx_op (self->node), "Average") != NULL,
        .count_padding = wm_onnx_int (self->node, "count_include_pad", 0) != 0,
    };
    memcpy (step->pool.in, w.in, POOL_WINDOW); /* the same pairs, in the same order */
    return set_plane (self, out, in, step, chw[0], &w);
}

/* ---- dense layers ---------------------------------------------------------------------------- */

/* y = x w + b for x (k): a convolution of 1x1 over one place.  */
static bool visit_gemm (walk_t *self, value_t *out)
{
    const int matmul = is (self, "MatMul");
    const wm_tensor_t *w = wm_any_constant (self, 1), *bias = wm_any_constant (self, 2);
    const Onnx__AttributeProto *alpha = wm_onnx_attribute (self->node, "alpha"),
                               *beta = wm_onnx_attribute (self->node, "beta");
    const bool turned = !matmul && wm_onnx_int (self->node, "transB", 0);
    value_t *in = self->in[0];
    if (!w || !w->f || w->n_dim != 2 || in->kind != WM_ANY_BUFFER)
        REFUSE ("its second factor is no constant matrix");
    const size_t n = (size_t) w->dim[turned ? 0 : 1], k = (size_t) w->dim[turned ? 1 : 0];
    if (!matmul && (wm_onnx_int (self->node, "transA", 0) || (alpha && alpha->f != 1) ||
                    (beta && beta->f != 1)))
        REFUSE ("transA, alpha or beta");
    if (!matmul && self->n_in > 2 && self->in[2] && (!bias || !bias->f || bias->n != n))
        REFUSE ("its third input is no row of constants");
    if (in->n_dim != 1 || in->dim[0] != k)
        REFUSE ("a product of %zu x %zu with %u dimensions", k, n, in->n_dim + 1);
    const wm_gpu_anyconv_t product = wm_any_product ((uint32_t) k, (uint32_t) n, 1);
    return wm_any_plain (self, in) && add_conv (self, out, in, w->f, turned ? k : 1, turned ? 1 : n,
                                                !matmul && bias ? bias->f : NULL, &product);
}

/* ---- after a convolution --------------------------------------------------------------------- */

/* The convolution that made a value, has its channels, and whose result nothing else reads; or
   NULL.  */
static wm_any_step_t *open_conv (walk_t *self, const value_t *in)
{
    wm_any_step_t *step = in->step >= 0 && in->reads == 1 ? &self->net->step[in->step] : NULL;
    return step && step->kind == WM_ANY_CONV && !step->conv.relu && step->conv.c_out == in->dim[0]
               ? step
               : NULL;
}

static bool visit_norm (walk_t *self, value_t *out)
{
    value_t *in = self->in[0];
    const wm_tensor_t *t[4];
    const Onnx__AttributeProto *a = wm_onnx_attribute (self->node, "epsilon");
    const double epsilon = a ? (double) a->f : 1e-5;
    const size_t n = in->dim[0];
    for (size_t k = 0; k < 4; k++) /* scale, shift, mean, variance */
        if (!(t[k] = wm_any_constant (self, k + 1)) || !t[k]->f || t[k]->n != n)
            REFUSE ("its statistics are no constants");
    wm_any_step_t *step = open_conv (self, in);
    if (!step) { /* a convolution of its own, a channel a group */
        static const float one = 1;
        wm_gpu_anyconv_t conv = wm_any_product (0, (uint32_t) n, (uint32_t) n);
        if (in->n_dim < 2)
            REFUSE ("not behind a convolution");
        if (!window_of (self, in, &conv) || !wm_any_last (self, in) ||
            !add_conv (self, out, in, &one, 0, 0, NULL, &conv))
            return false;
        step = &self->net->step[out->step];
    } else
        alias (out, in, in->n_dim, in->dim);
    float *weight = self->net->constant + step->weight, *bias = self->net->constant + step->bias;
    const size_t run = wm_any_run (&step->conv);
    for (size_t o = 0; o < n; o++) {
        const double scale = (double) t[0]->f[o] / sqrt ((double) t[3]->f[o] + epsilon);
        for (size_t i = 0; i < run; i++)
            weight[o * run + i] = (float) ((double) weight[o * run + i] * scale);
        bias[o] = (float) (((double) bias[o] - (double) t[2]->f[o]) * scale + (double) t[1]->f[o]);
    }
    return true;
}

static bool add_join (walk_t *self, value_t *out, value_t *in, const value_t *second)
{
    wm_any_step_t *step = wm_any_step (self, WM_ANY_JOIN, in->buffer);
    const uint32_t n = wm_any_values (in);
    if (!step || !wm_any_buffer (self, n, &step->to))
        return false;
    step->second = second ? second->buffer : WM_ANY_NONE;
    step->join = (wm_gpu_join_t){ .n = n, WM_GPU_JOIN_PLAIN };
    set (out, step->to, in->n_dim, in->dim, in->last);
    out->step = (int32_t) (step - self->net->step);
    return true;
}

/* A number that a node has as input k (newer operator sets), as an attribute, or `otherwise`.  */
static float number (walk_t *self, const char *name, size_t k, float otherwise)
{
    const wm_tensor_t *constant = k ? wm_any_constant (self, k) : NULL;
    const Onnx__AttributeProto *a = wm_onnx_attribute (self->node, name);
    if (constant && constant->f && constant->n == 1)
        return constant->f[0];
    if (k && k < self->n_in && self->in[k])
        return NAN; /* it has the input, but not as a constant */
    return a ? a->f : otherwise;
}

typedef struct {
    const char *op;
    wm_act_t act;
    float alpha; /* by default */
} act_t;

/* The row of a node that is an activation; NULL: it is not one.  */
static const act_t *find_act (const walk_t *self)
{
    static const act_t table[] = {
        { "Relu", WM_ACT_RELU, 0 },
        { "Sigmoid", WM_ACT_SIGMOID, 0 },
        { "Tanh", WM_ACT_TANH, 0 },
        { "Elu", WM_ACT_ELU, 1 },
        { "Celu", WM_ACT_ELU, 1 },
        { "Selu", WM_ACT_ELU, 1.67326319f },
        { "LeakyRelu", WM_ACT_LEAKY, 0.01f },
        { "PRelu", WM_ACT_LEAKY, 0 },
        { "Clip", WM_ACT_CLIP, 0 },
        { "HardSigmoid", WM_ACT_CLIP, 0.2f },
        { "Gelu", WM_ACT_GELU, 0 },
        { "HardSwish", WM_ACT_HARDSWISH, 0 },
        { "Mish", WM_ACT_MISH, 0 },
        { "Softplus", WM_ACT_SOFTPLUS, 0 },
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (is (self, table[k].op))
            return &table[k];
    return NULL;
}

/* The activation of a node, whose slopes are one (in `bend`) or a constant for each channel.  */
static bool act_of (walk_t *self, wm_gpu_join_t *how, const wm_tensor_t **slopes)
{
    const act_t *row = find_act (self);
    const float alpha = number (self, "alpha", 0, row->alpha);
    *how = (wm_gpu_join_t){ .act = row->act, .bend = alpha, WM_GPU_JOIN_PLAIN };
    if (is (self, "Celu"))
        how->bend = 1, how->scale = 1 / alpha, how->gain = alpha;
    else if (is (self, "Selu"))
        how->gain = number (self, "gamma", 0, 1.05070102f);
    else if (is (self, "HardSigmoid"))
        how->bend = 1, how->scale = alpha, how->shift = number (self, "beta", 0, 0.5f);
    else if (is (self, "Gelu"))
        how->act = is_word (self, "approximate", "tanh") ? WM_ACT_GELU_TANH : WM_ACT_GELU;
    else if (is (self, "PRelu")) {
        const wm_tensor_t *slope = wm_any_constant (self, 1);
        *slopes = slope && slope->f && slope->n > 1 ? slope : NULL;
        how->bend = *slopes ? 0 : number (self, "", 1, NAN);
    } else if (is (self, "Clip")) {
        how->least = number (self, "min", 1, -INFINITY);
        how->bend = number (self, "max", 2, INFINITY);
    }
    if (isnan (how->bend) || isnan (how->least) || isinf (how->scale))
        REFUSE ("its slope or its ends are no constants");
    return true;
}

/* A slope for each channel of `in`, for the join that its activation is.  */
static bool add_slopes (walk_t *self, const value_t *in, const wm_tensor_t *slopes,
                        wm_any_step_t *step)
{
    const uint32_t channels = in->dim[0], rank = slopes->n_dim;
    if (slopes->n != channels || rank < in->n_dim ||
        slopes->dim[rank - in->n_dim] != (int64_t) channels)
        REFUSE ("its slopes are not one, or one a channel");
    float *to = wm_any_constants (self, channels, &step->weight);
    if (!to)
        return false;
    memcpy (to, slopes->f, channels * sizeof *to);
    step->join.n_slope = channels;
    step->join.slope_run = in->last ? 1 : wm_any_values (in) / channels;
    return true;
}

static bool visit_act (walk_t *self, value_t *out)
{
    value_t *in = self->in[0];
    wm_any_step_t *step = in->step >= 0 && in->reads == 1 ? &self->net->step[in->step] : NULL;
    const wm_tensor_t *slopes = NULL;
    wm_gpu_join_t how;
    if (!act_of (self, &how, &slopes))
        return false;
    if (how.act == WM_ACT_RELU && open_conv (self, in)) {
        step->conv.relu = true;
        return alias (out, in, in->n_dim, in->dim);
    }
    if (step && step->kind == WM_ANY_JOIN && step->join.act == WM_ACT_NONE)
        alias (out, in, in->n_dim, in->dim);
    else if (!add_join (self, out, in, NULL))
        return false;
    else
        step = &self->net->step[out->step];
    how.n = step->join.n;
    step->join = how;
    return !slopes || add_slopes (self, in, slopes, step);
}

/* A constant added to a convolution's channels, or to a dense layer's outputs.  */
static bool add_bias (walk_t *self, value_t *out, value_t *in, const wm_tensor_t *constant)
{
    wm_any_step_t *step = open_conv (self, in);
    const size_t n = in->dim[0];
    if (!step || !constant->f || constant->n != n ||
        (in->n_dim == 1 ? constant->dim[constant->n_dim - 1] != (int64_t) n
                        : constant->n_dim < in->n_dim ||
                              constant->dim[constant->n_dim - in->n_dim] != (int64_t) n))
        REFUSE ("a constant that is no bias of a convolution or dense layer");
    for (size_t o = 0; o < n; o++)
        self->net->constant[step->bias + o] += constant->f[o];
    return alias (out, in, in->n_dim, in->dim);
}

static bool visit_add (walk_t *self, value_t *out)
{
    if (self->n_in == 2)
        for (size_t k = 0; k < 2; k++)
            if (wm_any_constant (self, k))
                return add_bias (self, out, self->in[1 - k], wm_any_constant (self, k));
    value_t sum = *self->in[0];
    if (self->n_in < 2)
        return alias (out, &sum, sum.n_dim, sum.dim);
    for (size_t k = 1; k < self->n_in; k++) {
        value_t *in = self->in[k];
        if (!in || in->kind != WM_ANY_BUFFER || in->n_dim != sum.n_dim ||
            memcmp (in->dim, sum.dim, in->n_dim * sizeof *in->dim))
            REFUSE ("terms of different shapes");
        if (in->n_dim <= 3 && in->last != sum.last &&
            (!wm_any_last (self, in) || !wm_any_last (self, &sum)))
            return false;
        if (!add_join (self, &sum, &sum, in))
            return false;
    }
    set (out, sum.buffer, sum.n_dim, sum.dim, sum.last);
    out->step = sum.step;
    return true;
}

/* ---- order and dimensions -------------------------------------------------------------------- */

static bool visit_concat (walk_t *self, value_t *out)
{
    const value_t *first = self->in[0];
    int64_t axis = wm_onnx_int (self->node, "axis", 1);
    uint32_t dim[WM_MODEL_DIMS_MAX] = { 0 }, buffer, places = 1, at = 0;
    axis += axis < 0 ? (int64_t) first->n_dim + 1 : 0;
    if (axis != 1 || first->n_dim < 1 || first->n_dim > 3)
        REFUSE ("axis %lld of %u dimensions", (long long) axis, first->n_dim + 1);
    memcpy (dim, first->dim, sizeof dim);
    for (uint32_t d = 1; d < first->n_dim; d++)
        places *= dim[d];
    dim[0] = 0;
    for (size_t k = 0; k < self->n_in; k++) {
        value_t *in = self->in[k];
        if (!in || in->kind != WM_ANY_BUFFER || in->n_dim != first->n_dim ||
            memcmp (in->dim + 1, dim + 1, (in->n_dim - 1) * sizeof *dim))
            REFUSE ("parts that do not fit");
        if (!wm_any_last (self, in) || (dim[0] += in->dim[0]) > WM_ANY_VALUES_MAX)
            return wm_any_refuse (self, "too many channels");
    }
    const uint64_t size = (uint64_t) dim[0] * places;
    if (!wm_any_buffer (self, size <= WM_ANY_VALUES_MAX ? (uint32_t) size : 0, &buffer))
        return false;
    for (size_t k = 0; k < self->n_in; k++) {
        const uint32_t c = self->in[k]->dim[0];
        wm_any_step_t *step = wm_any_step (self, WM_ANY_COPY, self->in[k]->buffer);
        if (!step)
            return false;
        step->to = buffer;
        step->copy = wm_any_columns (places, c, dim[0], at);
        at += c;
    }
    set (out, buffer, first->n_dim, dim, true);
    return true;
}

static bool visit_transpose (walk_t *self, value_t *out)
{
    value_t *in = self->in[0];
    const Onnx__AttributeProto *perm = wm_onnx_attribute (self->node, "perm");
    const uint32_t n = in->n_dim;
    uint32_t dim[WM_MODEL_DIMS_MAX], from[WM_MODEL_DIMS_MAX], stride[WM_MODEL_DIMS_MAX], step = 1;
    if (!perm || perm->n_ints != n + 1 || perm->ints[0] != 0 || n > WM_GPU_COPY_DIMS)
        REFUSE ("it moves the batch, or has %u dimensions", n + 1);
    if (!wm_any_plain (self, in))
        return false;
    for (uint32_t d = n; d-- > 0; step *= in->dim[d])
        from[d] = step;
    for (uint32_t d = 0; d < n; d++) {
        const int64_t p = perm->ints[d + 1];
        if (p < 1 || p > n)
            REFUSE ("its permutation");
        dim[d] = in->dim[p - 1], stride[d] = from[p - 1];
    }
    value_t moved = *in;
    if (!wm_any_move (self, &moved, n, dim, stride))
        return false;
    set (out, moved.buffer, n, dim, false);
    return true;
}

/* The dimensions that a Reshape asks for, without the batch.  */
static bool target_of (walk_t *self, const value_t *in, uint32_t *n_dim, uint32_t *dim)
{
    size_t n;
    const wm_tensor_t *const input[2] = { NULL, wm_any_constant (self, 1) };
    const int64_t *shape = wm_tensor_list (self->node, "shape", input, 2, 1, &n);
    uint64_t known = 1;
    size_t open = 0;
    const uint32_t all = wm_any_values (in);
    if (!shape || n < 2 || n > WM_MODEL_DIMS_MAX + 1)
        REFUSE ("its target is not known");
    for (size_t d = 1; d < n; d++) {
        int64_t size = shape[d] == 0 && d <= in->n_dim ? (int64_t) in->dim[d - 1] : shape[d];
        if (size == -1 && !open)
            open = d;
        else if (size < 1 || size > UINT32_MAX || (known *= (uint64_t) size) > all)
            REFUSE ("its target does not fit");
        dim[d - 1] = (uint32_t) size;
    }
    if (open)
        dim[open - 1] = (uint32_t) (all / known), known *= dim[open - 1];
    if (known != all || !(shape[0] == WM_TENSOR_BATCH || shape[0] == 0 ||
                          (shape[0] == -1 && !open) || (shape[0] == 1 && self->ports.fixed_batch)))
        REFUSE ("it does not keep the batch dimension");
    *n_dim = (uint32_t) n - 1;
    return true;
}

/* Squeeze and Unsqueeze, by their axes.  */
static bool axes_of (walk_t *self, const value_t *in, uint32_t *n_dim, uint32_t *dim)
{
    const bool insert = is (self, "Unsqueeze");
    size_t n;
    const wm_tensor_t *const input[2] = { NULL, wm_any_constant (self, 1) };
    const int64_t *axis = wm_tensor_list (self->node, "axes", input, 2, 1, &n);
    const int64_t rank = in->n_dim + 1 + (insert ? (int64_t) n : 0);
    uint32_t marked = 0, from = 0;
    if (!axis || rank > WM_MODEL_DIMS_MAX + 1)
        REFUSE ("its axes are not known");
    for (size_t k = 0; k < n; k++) {
        int64_t a = axis[k] < 0 ? axis[k] + rank : axis[k];
        if (a < 1 || a >= rank || (!insert && in->dim[a - 1] != 1))
            REFUSE ("axis %lld", (long long) axis[k]);
        marked |= 1u << a;
    }
    *n_dim = 0;
    for (int64_t d = 1; d < rank; d++) {
        const bool hit = marked >> d & 1;
        if (insert)
            dim[(*n_dim)++] = hit || from >= in->n_dim ? 1 : in->dim[from++];
        else if (!hit)
            dim[(*n_dim)++] = in->dim[d - 1];
    }
    return true;
}

static bool visit_reshape (walk_t *self, value_t *out)
{
    value_t *in = self->in[0];
    uint32_t n_dim = 1, dim[WM_MODEL_DIMS_MAX + 1] = { wm_any_values (in) };
    int fine = 1;
    if (is (self, "Flatten")) {
        const int64_t axis = wm_onnx_int (self->node, "axis", 1);
        if (axis != 1 && axis != -(int64_t) in->n_dim)
            REFUSE ("axis %lld", (long long) axis);
    } else
        fine = is (self, "Reshape") ? target_of (self, in, &n_dim, dim)
                                    : axes_of (self, in, &n_dim, dim);
    return fine && wm_any_plain (self, in) && alias (out, in, n_dim, dim);
}

static bool visit_softmax (walk_t *self, value_t *out)
{
    value_t *in = self->in[0];
    const int64_t old = self->onnx.opset < 13,
                  axis = wm_onnx_int (self->node, "axis", old ? 1 : -1),
                  at = axis < 0 ? axis + (int64_t) in->n_dim + 1 : axis;
    const uint32_t all = wm_any_values (in);
    /* Before opset 13 everything from the axis on is one group.  */
    if (at < 1 || at > in->n_dim || (!old && at != in->n_dim))
        REFUSE ("axis %lld of %u dimensions", (long long) axis, in->n_dim + 1);
    uint32_t n = 1;
    for (uint32_t d = (uint32_t) at; d <= in->n_dim; d++)
        n *= in->dim[d - 1];
    if (!wm_any_plain (self, in) || !add_join (self, out, in, NULL))
        return false;
    wm_any_step_t *step = wm_any_step (self, WM_ANY_SPREAD, out->buffer);
    if (!step)
        return false;
    step->to = out->buffer, out->step = -1;
    step->spread = (wm_gpu_spread_t){ .groups = all / n, .n = n };
    return true;
}

static bool visit_same (walk_t *self, value_t *out)
{
    return alias (out, self->in[0], self->in[0]->n_dim, self->in[0]->dim);
}

static bool visit_shape (walk_t *self, value_t *out)
{
    const value_t *in = self->in[0];
    int64_t *size = wm_arena_take (&self->arena, in->n_dim + 1, sizeof *size);
    if (!size)
        return false;
    size[0] = WM_TENSOR_BATCH;
    for (uint32_t d = 0; d < in->n_dim; d++)
        size[d + 1] = in->dim[d];
    out->kind = WM_ANY_CONSTANT;
    out->tensor =
        (wm_tensor_t){ .n_dim = 1, .dim = { in->n_dim + 1 }, .n = in->n_dim + 1, .i = size };
    return true;
}

/* Weights that a file does not spell out, as those of ONNX's own test networks.  */
bool wm_any_fill (walk_t *self, value_t *out)
{
    const wm_tensor_t *shape = wm_any_constant (self, 0);
    const Onnx__AttributeProto *a = wm_onnx_attribute (self->node, "value");
    wm_tensor_t *to = &out->tensor, value = { 0 };
    if (!shape || !shape->i || shape->n > WM_TENSOR_DIMS_MAX ||
        (a && a->t && (!wm_tensor_read (&self->arena, a->t, &value) || !value.f)))
        REFUSE ("it fills with no float32, or a shape that is not known");
    *to = (wm_tensor_t){ .n_dim = (uint32_t) shape->n, .n = 1 };
    for (size_t d = 0; d < shape->n; d++) {
        to->dim[d] = shape->i[d];
        if (shape->i[d] < 1 || (to->n *= (size_t) shape->i[d]) > 1u << 28)
            REFUSE ("its shape");
    }
    float *all = wm_arena_take (&self->arena, to->n, sizeof *all);
    for (size_t i = 0; all && value.f && i < to->n; i++)
        all[i] = value.f[0];
    to->f = all;
    out->kind = WM_ANY_CONSTANT;
    return all != NULL;
}

bool wm_any_operator (walk_t *self, value_t *out)
{
    static const struct {
        const char *op;
        bool (*visit) (walk_t *self, value_t *out);
    } table[] = {
        { "Conv", visit_conv },
        { "BatchNormalization", visit_norm },
        { "MaxPool", visit_pool },
        { "AveragePool", visit_pool },
        { "GlobalMaxPool", visit_pool },
        { "GlobalAveragePool", visit_pool },
        { "Add", visit_add },
        { "Sum", visit_add },
        { "Concat", visit_concat },
        { "Gemm", visit_gemm },
        { "MatMul", visit_gemm },
        { "Flatten", visit_reshape },
        { "Reshape", visit_reshape },
        { "Squeeze", visit_reshape },
        { "Unsqueeze", visit_reshape },
        { "Transpose", visit_transpose },
        { "Softmax", visit_softmax },
        { "Shape", visit_shape },
        { "Identity", visit_same },
        { "Dropout", visit_same },
    };
    const char *domain = self->node->domain;
    bool (*visit) (walk_t * self, value_t * out) = find_act (self) ? visit_act : NULL;
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (is (self, table[k].op))
            visit = table[k].visit;
    if (!visit || (domain && *domain && strcmp (domain, "ai.onnx")))
        REFUSE ("it is not known here");
    if ((!self->in[0] || self->in[0]->kind != WM_ANY_BUFFER) && visit != visit_add)
        REFUSE ("its first input is a constant");
    return visit (self, out);
}
