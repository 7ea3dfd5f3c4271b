/* wm_openvino_blind.h - keeps OpenVINO's libraries from reading variables of the environment that
   change scores (schema/base/wm_environment.h), in a process whose environment is not ours.

   Private to kernels/. Thread: any.  */
#ifndef WM_OPENVINO_BLIND_H
#define WM_OPENVINO_BLIND_H

#include "schema/base/wm_fault.h"

/* Before OpenVINO computes anything, at each opening: in a process with such a variable its
   libraries no longer see any. WM_EHOST: the process had loaded OpenVINO by itself, which may have
   read them, or the libraries cannot be changed; the text names the variable.  */
wm_fault_t wm_openvino_blind (wm_error_t *error);

#endif
