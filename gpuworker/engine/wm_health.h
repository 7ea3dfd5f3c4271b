/* wm_health.h - health of the GPU: temperature, power, load, memory, ECC errors, throttling.

   NVML is opened at run time ("libnvidia-ml.so.1", or the library that WM_NVML_SO names). Values
   that it does not know are left out. A thread of its own reads it, since NVML may block on a
   faulty GPU: the worker copies the last reading.

   The GPU is the first of CUDA_VISIBLE_DEVICES (a number or a UUID), else number 0.
   Thread: wm_health_text and wm_health_ecc from any; the rest from one.  */
#ifndef WM_HEALTH_H
#define WM_HEALTH_H

#include <stddef.h>
#include <stdint.h>

#define WM_HEALTH_BYTES 400

typedef struct wm_health_t wm_health_t;

/* Starts to read every period_ms. NULL if NVML or the GPU cannot be opened; `why` explains.  */
wm_health_t *wm_health_new (int64_t period_ms, char why[160]);

/* Ends the thread, or detaches it if it hangs inside NVML for a second. NULL-safe.  */
void wm_health_destroy (wm_health_t **self_p);

/* Copies the last reading as a JSON object; "" before the first one:
   {"gpu": "NVIDIA H200", "uuid": "GPU-...", "temperature_c": 61, "power_w": 512.3,
    "power_limit_w": 700.0, "energy_j": 81234, "load": 98, "memory_used_mb": 17512,
    "memory_mb": 143771, "ecc_corrected": 0, "ecc_uncorrected": 0, "throttled": "power, heat"}
   Energy and ECC errors count since the driver was loaded; load is a percentage.  */
void wm_health_text (wm_health_t *self, char text[WM_HEALTH_BYTES]);

/* Returns the uncorrectable ECC errors since the first reading; 0 also where NVML has none.  */
unsigned long long wm_health_ecc (wm_health_t *self);

#endif
