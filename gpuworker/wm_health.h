/* wm_health.h - how the GPU at work is: temperature, power, load, memory, ECC errors, throttling.

   NVML is opened at run time ("libnvidia-ml.so.1", or what WM_NVML_SO names); what it cannot tell is
   absent, and without it there is no health at all. It is read by a thread of its own, since a sick
   GPU may keep it waiting: the worker only takes the last words.

   The GPU is the first of CUDA_VISIBLE_DEVICES (a number or a UUID), else number 0.
   Thread: wm_health_text and wm_health_ecc from any; the rest from one.  */
#ifndef WM_HEALTH_H
#define WM_HEALTH_H

#include <stddef.h>
#include <stdint.h>

#define WM_HEALTH_BYTES 400

typedef struct wm_health_t wm_health_t;

/* Reads every period_ms. NULL where NVML or the GPU cannot be opened: why says what was tried.  */
wm_health_t *wm_health_new (int64_t period_ms, char why[160]);

/* Ends the thread; one that hangs inside NVML is left behind after a second. NULL-safe.  */
void wm_health_destroy (wm_health_t **self_p);

/* The last reading as a JSON object; "" before the first one:
   {"gpu": "NVIDIA H200", "temperature_c": 61, "power_w": 512.3, "power_limit_w": 700.0,
    "load": 98, "memory_used_mb": 17512, "memory_mb": 143771, "ecc_corrected": 0,
    "ecc_uncorrected": 0, "throttled": "power, heat"}
   ECC errors are those since the driver was loaded; load is a percentage.  */
void wm_health_text (wm_health_t *self, char text[WM_HEALTH_BYTES]);

/* Uncorrectable ECC errors since the first reading; 0 where they are not told.  */
unsigned long long wm_health_ecc (wm_health_t *self);

#endif
