/* wm_openvino_probe.h - any tensors of a model, of one patch: probe_open, probe_run, probe_close of
   wm_backend_t. `is_whole` is not known here, and false. Private to wm_openvino*.c.  */
#ifndef WM_OPENVINO_PROBE_H
#define WM_OPENVINO_PROBE_H

#include "kernels/wm_backend_private.h"

void *wm_openvino_probe_open (const void *file, size_t bytes, const wm_port_t *input,
                              uint32_t n_input, const char *const *name, uint32_t n_name,
                              wm_error_t *error);
wm_fault_t wm_openvino_probe_run (void *probe, const wm_probe_tensor_t *in, wm_probe_tensor_t *out,
                                  wm_error_t *error);
void wm_openvino_probe_close (void *probe);

#endif
