/* wm_sample.h - a few batches as one payload: the hits on which a campaign's arithmetic is
   measured.

   n, then for each batch its bytes (little-endian uint32 each) and its frame (wm_batch.h). At most
   WM_SAMPLE_BATCHES_MAX batches and WM_RAW_BYTES_MAX bytes in all. Thread: any.  */
#ifndef WM_SAMPLE_H
#define WM_SAMPLE_H

#include "schema/wm_batch.h"
#include "schema/wm_limits.h"

#define WM_SAMPLE_BATCHES_MAX 64u
#define WM_SAMPLE_HITS 2000u

/* Begins an empty sample in `payload` (WM_RAW_BYTES_MAX long); returns its bytes.  */
size_t wm_sample_begin (uint8_t *payload);

/* Adds a batch to a sample of `bytes` bytes; returns its bytes now, or 0: there is no room for it
   (the sample is as it was).  */
size_t wm_sample_add (uint8_t *payload, size_t bytes, const wm_batch_t *batch, wm_coder_t *coder);

/* Decodes the batches of a peer's sample into batch (WM_SAMPLE_BATCHES_MAX, zeroed), which the
   caller clears also after a fault. WM_EPEER names what is wrong.  */
wm_fault_t wm_sample_decode (const uint8_t *payload, size_t bytes, wm_coder_t *coder,
                             wm_batch_t *batch, uint32_t *n, wm_error_t *error);

#endif
