/* wm_wide.h - where OpenVINO computes in a narrower type than a model's. Private to kernels/.

   OpenVINO computes integers in 32 bits, some of them in float32, and FP64 in float32. Of most
   models that makes no difference: identifiers are looked up in a table, a mask is compared with 0.
   So it is found which values an input decides that may be integers above 2^24, or are FP64, and
   which node computes with them, or hands them out. What an input of 32 bits and more has itself is
   checked when it comes: it is one that float32 holds, within 32 bits, unless the model is carried
   exactly (schema/wm_exact.h).  Thread: one at a time.  */
#ifndef WM_WIDE_H
#define WM_WIDE_H

#include "kernels/onnx/wm_onnx.h"

#define WM_WIDE_TEXT 260

/* Finds the first place: "node 'sum' (Add: INT64)"; else "output 'x' (INT64)", which a patch's own
   values reach as they are; "": none. None in a frozen graph. WM_EHOST: no memory.  */
wm_fault_t wm_wide_find (wm_onnx_t *onnx, const wm_port_t *input, uint32_t n_input,
                         char text[WM_WIDE_TEXT], wm_error_t *error);

#endif
