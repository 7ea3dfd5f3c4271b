/* wm_engine_device.h - opens the device of an engine process: its arithmetic, and what checks it.

   fp32 has one arithmetic. In split and fast the process starts before the worker has the trial,
   and opens meanwhile what will be needed. When the worker has it, the process reads it: if its
   class of machines has a signature already, it opens that one; else it measures
   (kernels/judge/wm_trial.h), and its worker reports the outcome to the broker. The control block
   keeps the choice, so that a process that is started again makes the same one.

   The engine auto takes the GPU by rule, where it opens and passes its self-test, and prints that
   in one line; else the CPU's engine, and prints why if there is a driver. Nothing is timed.
   Thread: one.  */
#ifndef WM_ENGINE_DEVICE_H
#define WM_ENGINE_DEVICE_H

#include "gpuworker/engine/wm_slots.h"
#include "kernels/wm_device.h"

/* Opens *device, and *judge: strict fp32, or NULL if the device is strict fp32 itself. line: the
   worker writes to it when the trial is there, and closes it when it leaves. WM_EBATCH: the model
   or the trial is refused; WM_EAGAIN: a device failed while it was measured, or the worker left;
   WM_EHOST: this machine.  */
wm_fault_t wm_engine_device_open (wm_control_t *control, int line, const wm_model_t *model,
                                  const wm_spec_t *spec, wm_device_t **device, wm_device_t **judge,
                                  wm_error_t *error);

#endif
