/* wm_family.h - recognises the EmTrkMichelId family in an ONNX graph. Private to kernels/.

   The family: one patch, channels last in memory (or one channel, then NHWC and NCHW are the same
   bytes); a chain of valid convolutions of stride 1 with bias and activation; any flattening;
   a tree of dense layers (Gemm, or MatMul and Add); heads with activations, each an output or
   concatenated to one. Constants may scale and shift the patch and the channels of a layer, before
   and behind its activation (batch normalisation): they go into the weights. Thread: one at a
   time.  */
#ifndef WM_FAMILY_H
#define WM_FAMILY_H

#include "kernels/onnx/wm_tensor.h"

/* Fills in `net` and the ports of its outputs if the graph is of the family, else *found = false;
   `why` describes the network, or names the node that is not of the family and the reason. input:
   the graph's only input. The network's arrays live in `arena`. WM_EHOST: no memory; WM_EBATCH:
   weights that are not finite.  */
wm_fault_t wm_family_find (const wm_onnx_t *onnx, wm_arena_t *arena, const wm_port_t *input,
                           bool fixed_batch, wm_net_t *net, wm_port_t output[WM_MODEL_PORTS_MAX],
                           uint32_t *n_output, bool *found, char why[480], wm_error_t *error);

#endif
