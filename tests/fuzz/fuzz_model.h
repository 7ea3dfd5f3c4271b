/* fuzz_model.h - the target of fuzz_onnx.c and fuzz_graphdef.c: an import without its engines.  */
#ifndef FUZZ_MODEL_H
#define FUZZ_MODEL_H

#include "kernels/family/wm_family.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

const size_t fuzz_bytes_max = 64u << 20;

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static wm_net_t net;
    wm_onnx_t onnx;
    wm_onnx_ports_t how = { .whole = false };
    wm_port_t input[WM_MODEL_PORTS_MAX], output[WM_MODEL_PORTS_MAX];
    uint32_t n_input, n_output;
    wm_arena_t arena = { 0 };
    wm_error_t error;
    char why[480] = "";
    const void *packed_bytes;
    size_t packed_size;
    bool found = false;
    if (!size)
        return 0;
    wm_fault_t fault = wm_onnx_open (&onnx, fuzz_file (data, size), NULL, &error);
    if (!fault)
        fault = wm_onnx_read (&onnx, NULL, &error);
    if (!fault)
        fault = wm_onnx_refuse (&onnx, &error);
    if (!fault)
        fault = wm_onnx_inputs (&onnx, &how, input, &n_input, &error);
    if (!fault && n_input == 1 && !how.other_type && !how.whole && !how.free)
        fault = wm_family_find (&onnx, &arena, input, how.fixed_batch, &net, output, &n_output,
                                &found, why, &error);
    FUZZ_CHECK (memchr (why, 0, sizeof why));
    if (!fault && found)
        for (uint32_t i = 0; i < net.n_dense; i++)
            FUZZ_CHECK (net.dense[i].parent < (int32_t) i);
    else if (!fault && !wm_onnx_pack (&onnx, NULL, 0, &packed_bytes, &packed_size, &error) &&
             !wm_onnx_outputs (&onnx, output, &n_output, &error)) {
        if (!onnx.graphdef)
            wm_onnx_output_shapes (&onnx, &how, output, &error);
        wm_onnx_fed (&onnx);
    }
    wm_arena_clear (&arena);
    wm_onnx_clear (&onnx);
    return 0;
}

#endif
