/* wm_any_net.h - any CNN as a list of steps: convolutions for cuDNN, the rest for kernels of ours.

   An ONNX graph is walked in order; every value becomes a buffer of so many floats a patch, every
   node a step, or nothing: constants are folded, BatchNormalization and ReLU go into the
   convolution before them, Gemm and MatMul are 1x1 convolutions, what only renames dimensions is an
   alias. Buffers of two or three dimensions lie channels last, which cuDNN's fast engines want,
   until something (Flatten, an output) needs ONNX's order: then a COPY is a step of its own.

   The operators are those of the two tables in wm_any_ops.c, and all that folds. Anything else is
   refused by node and operator; OpenVINO runs it.
   Pure C: no GPU, no CUDA. Private to kernels/cuda/.  Thread: one at a time.  */
#ifndef WM_ANY_NET_H
#define WM_ANY_NET_H

#include "kernels/gpu/wm_gpu_api.h"
#include "kernels/gpu/wm_gpu_args.h"

#define WM_ANY_STEPS_MAX 2048u
#define WM_ANY_BUFFERS_MAX 2048u
#define WM_ANY_VALUES_MAX (1u << 26) /* floats of a buffer, a patch */
#define WM_ANY_ROWS 64u /* patches a launch, at least; fewer where memory asks for it */
#define WM_ANY_INPUT 0u /* the buffer of the patch, in ONNX's order */
#define WM_ANY_NONE UINT32_MAX
#define WM_ANY_SCORES 1u /* the buffer of all outputs, one after another */

typedef enum { WM_ANY_CONV, WM_ANY_POOL, WM_ANY_JOIN, WM_ANY_COPY, WM_ANY_SPREAD } wm_any_kind_t;

typedef struct {
    wm_any_kind_t kind;
    char name[48];       /* of the node, for messages */
    uint32_t from, to;   /* buffers; a spread works in place */
    uint32_t second;     /* that a join reads, too; WM_ANY_NONE: none */
    size_t weight, bias; /* offsets in the constants, in floats; a join's slopes are its weight */
    union {              /* without pointers, rows and precision */
        wm_gpu_anyconv_t conv;
        wm_gpu_pool_t pool;
        wm_gpu_join_t join;
        wm_gpu_copy_t copy;
        wm_gpu_spread_t spread;
    };
} wm_any_step_t;

typedef struct {
    wm_any_step_t step[WM_ANY_STEPS_MAX];
    uint32_t n_step;
    uint32_t size[WM_ANY_BUFFERS_MAX]; /* of each buffer, floats a patch */
    uint32_t n_buffer;
    float *constant;
    size_t n_constant, constants_max;
} wm_any_net_t;

/* Lowers an ONNX file, or its bytes, which `path` then names in messages. NULL with *error:
   WM_EBATCH names the node and operator that it cannot lower, WM_EHOST without memory.  */
wm_any_net_t *wm_any_net_new (const char *path, const void *bytes, size_t size, wm_error_t *error);

/* The same of a network of the family, all of whose products then go by cuDNN: for --engine cudnn,
   and for networks that our kernels cannot run. Copies the weights. strict: for an engine in
   float32. NULL with *error: WM_EBATCH names a layer that is too large.  */
wm_any_net_t *wm_any_family_new (const wm_net_t *net, bool strict, wm_error_t *error);
void wm_any_net_destroy (wm_any_net_t **self_p);

/* A dense layer, or groups of them: a convolution of 1x1 over one place.  */
static inline wm_gpu_anyconv_t wm_any_product (uint32_t c_in, uint32_t c_out, uint32_t groups)
{
    return (wm_gpu_anyconv_t){ .c_in = c_in,
                               .c_out = c_out,
                               .groups = groups,
                               .in = { 1, 1 },
                               .out = { 1, 1 },
                               .kernel = { 1, 1 },
                               .stride = { 1, 1 },
                               .dilation = { 1, 1 } };
}

/* Weights of a filter.  */
static inline size_t wm_any_run (const wm_gpu_anyconv_t *conv)
{
    return (size_t) conv->kernel[0] * conv->kernel[1] * (conv->c_in / conv->groups);
}

/* All of a value of n channels becomes columns `first` and on of one with `all` channels, both
   channels last.  */
static inline wm_gpu_copy_t wm_any_columns (uint32_t places, uint32_t n, uint32_t all,
                                            uint32_t first)
{
    return (wm_gpu_copy_t){ .from_row = n * places,
                            .to_row = all * places,
                            .to_first = first,
                            .n = n * places,
                            .dim = { 1, 1, 1, places, n },
                            .from_stride = { 0, 0, 0, n, 1 },
                            .to_stride = { 0, 0, 0, all, 1 } };
}

#endif
