/* wm_prove.h - whether a device that signs as strict fp32 of the CPU has the CPU's bits.

   A signature is a promise that drivers, compilers and GPUs have to keep, too. So such a device is
   compared when it is opened, whatever it promises; while it works, canaries compare, bit for bit
   (wm_canary.h). Private to kernels/.  Thread: one at a time.  */
#ifndef WM_PROVE_H
#define WM_PROVE_H

#include "kernels/wm_device.h"

/* Scores a few test patches of a network of the family by the device and by the sparse engine.
   engine: its name, for messages. WM_EHOST: a bit differs, or it cannot score.  */
wm_fault_t wm_prove (wm_device_t *device, const char *engine, const wm_model_t *model,
                     const wm_spec_t *spec, wm_error_t *error);

#endif
