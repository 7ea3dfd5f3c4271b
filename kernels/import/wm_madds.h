/* wm_madds.h - counts the multiply-adds of a model for the general engine. Private to kernels/.
   Thread: one at a time.  */
#ifndef WM_MADDS_H
#define WM_MADDS_H

#include "kernels/onnx/wm_onnx.h"
#include "kernels/wm_backend_private.h"

/* Counts those of one patch: of convolutions, products of matrices and recurrent layers. `openvino`
   infers the shapes. 0: unknown, or there are none; `broken` explains.  */
uint64_t wm_madds_count (wm_onnx_t *onnx, const wm_backend_t *openvino, const wm_port_t *input,
                         uint32_t n_input, char broken[160]);

#endif
