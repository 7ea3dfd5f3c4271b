/* wm_engine_device.h - the device of an engine process: which arithmetic it takes, and who watches it.

   fp32 is what it is. In split and fast the process reads what the campaign's broker sent (TRIAL):
   where its class of machines has a signature already, that one is opened; else it measures
   (kernels/wm_trial.h), and its worker tells the broker. What was taken stands in the control
   block, so that a process that is started again is what the first one was. Thread: one.  */
#ifndef WM_ENGINE_DEVICE_H
#define WM_ENGINE_DEVICE_H

#include "gpuworker/wm_slots.h"
#include "kernels/wm_device.h"

/* Opens *device, and *judge, which is strict fp32, or NULL where the device is. WM_EBATCH: the
   model or the trial is refused; WM_EAGAIN: a device failed while it was measured; WM_EHOST: this
   machine.  */
wm_fault_t wm_engine_device_open (wm_control_t *control, const wm_model_t *model,
                                  const wm_spec_t *spec, wm_device_t **device, wm_device_t **judge,
                                  wm_error_t *error);

#endif
