/* wm_onnx_write.h - writes a network of the EmTrkMichelId family as ONNX.

   Used to make seeded models and to let the general engine run family models. Operator set 13:
   [Reshape] Transpose (Conv, activation)... Transpose Flatten (Gemm, activation)... [Concat].
   Thread: any.  */
#ifndef WM_ONNX_WRITE_H
#define WM_ONNX_WRITE_H

#include "kernels/model/wm_model.h"

/* The network as ONNX bytes. Input `in` and outputs `out` (n_out) keep their names and shapes
   behind a batch dimension of any size, "N"; output i is fed by the dense layers whose columns lie
   in its range. *bytes is the caller's, to free. WM_EBATCH where the ports do not fit the network
   or the file would pass WM_MODEL_BYTES_MAX, WM_EHOST without memory.  */
wm_fault_t wm_onnx_write (const wm_net_t *net, const wm_port_t *in, const wm_port_t *out,
                          uint32_t n_out, uint8_t **bytes, size_t *size, wm_error_t *error);

#endif
