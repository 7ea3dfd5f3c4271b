/* wm_stream.h - what wiremill-producer prints for a worker's modes, read from standard input.

   A stream begins with "wiremill-KIND 1\n", "pins BYTES\n" and the pins' text.  */
#ifndef WM_STREAM_H
#define WM_STREAM_H

#include "kernels/wm_model.h"
#include "kernels/wm_spec.h"
#include "schema/wm_pins.h"

/* WM_EBATCH: it is no such stream, or its pins are none.  */
wm_fault_t wm_stream_head (const char *kind, wm_pins_t *pins, wm_spec_t *spec, wm_error_t *error);

/* The pins' model, from the cache. NULL as of wm_model_open.  */
wm_model_t *wm_stream_model (const wm_pins_t *pins, const char *cache, wm_error_t *error);

/* 0: there are fewer.  */
int wm_stream_bytes (void *to, size_t size);

/* WM_EBATCH.  */
wm_fault_t wm_stream_cut_short (wm_error_t *error);

#endif
