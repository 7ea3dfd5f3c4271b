/* wm_model_new.c - a seeded EmTrkMichelId network, from nothing.

   For tests, demonstrations and benchmarks: the arithmetic of the real network, with scales chosen
   so that the scores of detector-like patches spread over (0, 1). The same seed gives the same file
   on every machine: the weights are sums of integers, no library's logarithm is in them.  */
#include "kernels/import/wm_import.h"
#include "kernels/model/wm_seed.h"
#include "kernels/onnx/wm_onnx_write.h"
#include "kernels/onnx/wm_tensor.h"

#include <math.h>
#include <stdlib.h>

#define FILTERS 48u
#define KERNEL 5u

/* Nearly normal, variance 1: four uniform 16-bit parts of one draw, summed.  */
static float draw_normal (uint64_t *state)
{
    uint64_t z = wm_seed_next (state);
    int64_t sum = (int64_t) (z & 0xffff) + (int64_t) (z >> 16 & 0xffff) +
                  (int64_t) (z >> 32 & 0xffff) + (int64_t) (z >> 48) - 131070;
    return (float) ((double) sum * (1.7320508075688772 / 65536)); /* sqrt (3): 4 / 12 to 1 */
}

static float *draw_array (wm_arena_t *arena, uint64_t *state, uint64_t n, double scale)
{
    float *f = wm_arena_take (arena, n, sizeof *f);
    for (uint64_t i = 0; f && i < n; i++)
        f[i] = (float) scale * draw_normal (state);
    return f;
}

typedef struct {
    int32_t parent;
    uint32_t n_out;
    wm_act_t act;
    int32_t output;
    double gain, bias; /* weights are drawn with gain / sqrt (n_in) */
} plan_t;

/* Both heads read the second dense layer; the softmax's columns are track, em, none.  */
static const plan_t plan[] = {
    { -1, 128, WM_ACT_RELU, -1, 0.76, 0.1 },
    { 0, 32, WM_ACT_RELU, -1, 1.47, 0.1 },
    { 1, 3, WM_ACT_SOFTMAX, 0, 2.26, 0.3 },
    { 1, 1, WM_ACT_SIGMOID, 3, 2.26, 0.3 },
};

static int draw_net (wm_arena_t *arena, uint64_t state, uint32_t wire, uint32_t bin, wm_net_t *net)
{
    *net = (wm_net_t){ .height = wire, .width = bin, .channel = 1, .n_conv = 1, .n_dense = 4 };
    net->conv[0] = (wm_conv_t){ .kh = KERNEL,
                                .kw = KERNEL,
                                .c_in = 1,
                                .c_out = FILTERS,
                                .act = WM_ACT_RELU,
                                .weight = draw_array (arena, &state,
                                                      (uint64_t) KERNEL * KERNEL * FILTERS, 0.06),
                                .bias = draw_array (arena, &state, FILTERS, 0.05) };
    int ok = net->conv[0].weight && net->conv[0].bias;
    uint32_t flat = (wire - KERNEL + 1) * (bin - KERNEL + 1) * FILTERS;
    for (uint32_t i = 0; ok && i < net->n_dense; i++) {
        const plan_t *p = &plan[i];
        uint32_t n_in = p->parent < 0 ? flat : plan[p->parent].n_out;
        net->dense[i] =
            (wm_dense_t){ .parent = p->parent,
                          .n_in = n_in,
                          .n_out = p->n_out,
                          .act = p->act,
                          .output = p->output,
                          .weight = draw_array (arena, &state, (uint64_t) n_in * p->n_out,
                                                p->gain / sqrt (n_in)),
                          .bias = draw_array (arena, &state, p->n_out, p->bias) };
        ok = net->dense[i].weight && net->dense[i].bias;
    }
    return ok;
}

wm_fault_t wm_model_new_emtrkmichel (uint64_t seed, uint32_t wire, uint32_t bin, const char *path,
                                     wm_error_t *error)
{
    if (wire < KERNEL || bin < KERNEL || wire > 1024 || bin > 1024 || wire * bin > 40000)
        return wm_fault (
            error, WM_EBATCH,
            "no network for patches of %u x %u: at least %u x %u, at most 40,000 cells", wire, bin,
            KERNEL, KERNEL);
    const wm_port_t in = {
        .name = "main_input", .n_dim = 3, .dim = { wire, bin, 1 }, .n_value = wire * bin
    };
    const wm_port_t out[2] = {
        { .name = "em_trk_none_netout/Softmax", .n_dim = 1, .dim = { 3 }, .n_value = 3 },
        { .name = "michel_netout/Sigmoid", .n_dim = 1, .dim = { 1 }, .n_value = 1 }
    };
    wm_arena_t arena = { 0 };
    wm_net_t net;
    uint8_t *bytes = NULL;
    size_t size = 0;
    wm_fault_t fault =
        draw_net (&arena, seed, wire, bin, &net)
            ? wm_onnx_write (&net, &in, out, 2, &bytes, &size, error)
            : wm_fault (error, WM_EHOST, "no memory for a model of %u x %u", wire, bin);
    if (!fault)
        fault = wm_file_write (path, &(wm_part_t){ bytes, size }, 1, error);
    free (bytes);
    wm_arena_clear (&arena);
    return fault;
}
