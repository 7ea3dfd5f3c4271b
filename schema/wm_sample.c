/* wm_sample.c - see wm_sample.h.  */
#include "schema/wm_sample.h"

#include <stdlib.h>
#include <string.h>

#define LENGTH sizeof (uint32_t)

static uint32_t number_at (const uint8_t *at)
{
    return (uint32_t) at[0] | (uint32_t) at[1] << 8 | (uint32_t) at[2] << 16 |
           (uint32_t) at[3] << 24;
}

static void number_put (uint8_t *at, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t) (number >> 8 * i);
}

size_t wm_sample_begin (uint8_t *payload)
{
    number_put (payload, 0);
    return LENGTH;
}

size_t wm_sample_add (uint8_t *payload, size_t bytes, const wm_batch_t *batch, wm_coder_t *coder)
{
    const uint32_t n = number_at (payload);
    const size_t bound = wm_batch_encode_bound (batch);
    uint8_t *frame = n < WM_SAMPLE_BATCHES_MAX ? malloc (bound) : NULL;
    size_t length = 0;
    wm_error_t error;
    const int fits = frame && !wm_batch_encode (batch, coder, frame, bound, &length, &error) &&
                     length + LENGTH <= WM_RAW_BYTES_MAX - bytes;
    if (fits) {
        number_put (payload + bytes, (uint32_t) length);
        memcpy (payload + bytes + LENGTH, frame, length);
        number_put (payload, n + 1);
    }
    free (frame);
    return fits ? bytes + LENGTH + length : 0;
}

wm_fault_t wm_sample_decode (const uint8_t *payload, size_t bytes, wm_coder_t *coder,
                             wm_batch_t *batch, uint32_t *n, wm_error_t *error)
{
    *n = 0;
    if (bytes < LENGTH || number_at (payload) > WM_SAMPLE_BATCHES_MAX)
        return wm_fault (error, WM_EPEER, "a sample of %zu bytes is none", bytes);
    const uint32_t count = number_at (payload);
    size_t at = LENGTH;
    for (uint32_t i = 0; i < count; i++) {
        if (bytes - at < LENGTH || number_at (payload + at) > bytes - at - LENGTH)
            return wm_fault (error, WM_EPEER, "batch %u of the sample is cut off", i);
        const size_t frame = number_at (payload + at);
        const wm_fault_t fault =
            wm_batch_decode (&batch[i], coder, payload + at + LENGTH, frame, error);
        if (fault)
            return fault;
        at += LENGTH + frame;
        *n = i + 1;
    }
    return at == bytes ? WM_OK
                       : wm_fault (error, WM_EPEER, "%zu bytes follow the sample", bytes - at);
}
