/* wm_stream.h - reads from standard input what wiremill-producer prints for modes of the worker.

   A stream begins with "wiremill-KIND 1\n", "pins BYTES\n" and the pins' text.  */
#ifndef WM_STREAM_H
#define WM_STREAM_H

#include "kernels/model/wm_model.h"
#include "kernels/patch/wm_spec.h"
#include "schema/wm_pins.h"

#include <stdbool.h>
#include <stdio.h>

/* Reads the head. WM_EBATCH: not such a stream, or its pins cannot be parsed.  */
wm_fault_t wm_stream_head (const char *kind, wm_pins_t *pins, wm_spec_t *spec, wm_error_t *error);

/* Opens the pins' model in the cache. NULL with *error as wm_model_open.  */
wm_model_t *wm_stream_model (const wm_pins_t *pins, const char *cache, wm_error_t *error);

/* Returns standard output, to which nothing else prints from now on: not a plug-in, whose prints go
   to standard error. NULL: no descriptor.  */
FILE *wm_stream_report (void);

/* Reads `size` bytes. false: there are fewer.  */
bool wm_stream_bytes (void *to, size_t size);

/* Reports that the stream ended too early, or that another program wrote it. Returns WM_EBATCH.  */
wm_fault_t wm_stream_cut_short (wm_error_t *error);

#endif
