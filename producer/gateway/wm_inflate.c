/* wm_inflate.c - zlib, in pieces: its counts are of 32 bits.  */
#include "producer/gateway/wm_inflate.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define EITHER (32 + MAX_WBITS) /* gzip or zlib, by the head */
#define PIECE_BYTES ((size_t) 1 << 30)
#define SCRATCH_BYTES (32u << 10)
#define FREE_BYTES ((size_t) 32 << 20) /* whatever it is made of */
#define RATIO 20                       /* more only as the message is larger */

static uInt piece (size_t bytes)
{
    return (uInt) (bytes < PIECE_BYTES ? bytes : PIECE_BYTES);
}

/* Inflates to `to`, or where it is NULL to nowhere. Returns whether the stream is whole, ends with
   the data, and has not more than `bytes_max` bytes.  */
static bool inflate_all (const uint8_t *data, size_t n, uint8_t *to, size_t bytes_max,
                         size_t *bytes)
{
    uint8_t scratch[SCRATCH_BYTES];
    z_stream z = { 0 };
    int rc = inflateInit2 (&z, EITHER);
    size_t in = 0, out = 0;
    while (rc == Z_OK && out <= bytes_max) {
        const uInt give = piece (n - in), room = to ? piece (bytes_max - out) : SCRATCH_BYTES;
        uint8_t none;
        z.next_in = (Bytef *) (uintptr_t) (data + in);
        z.avail_in = give;
        z.next_out = !to ? scratch : room ? to + out : &none;
        z.avail_out = room;
        rc = inflate (&z, Z_NO_FLUSH);
        in += give - z.avail_in;
        out += room - z.avail_out;
        if (rc == Z_BUF_ERROR)
            break;
    }
    inflateEnd (&z);
    *bytes = out;
    return rc == Z_STREAM_END && in == n && out <= bytes_max;
}

size_t wm_inflate_max (size_t bytes, size_t message_max)
{
    const size_t max =
        bytes < SIZE_MAX / RATIO - FREE_BYTES ? FREE_BYTES + RATIO * bytes : SIZE_MAX;
    return max < message_max ? max : message_max;
}

bool wm_inflate_count (const uint8_t *data, size_t n, size_t bytes_max, size_t *bytes)
{
    return inflate_all (data, n, NULL, bytes_max, bytes);
}

bool wm_inflate (const uint8_t *data, size_t n, uint8_t *to, size_t bytes)
{
    size_t got;
    return inflate_all (data, n, to, bytes, &got) && got == bytes;
}

uint8_t *wm_deflate (const uint8_t *data, size_t n, bool is_gzip, size_t *bytes)
{
    z_stream z = { 0 };
    if (n > PIECE_BYTES || deflateInit2 (&z, 1, Z_DEFLATED, is_gzip ? 16 + MAX_WBITS : MAX_WBITS, 8,
                                         Z_DEFAULT_STRATEGY) != Z_OK)
        return NULL;
    const uLong max = deflateBound (&z, (uLong) n);
    uint8_t *to = malloc (max);
    z.next_in = (Bytef *) (uintptr_t) data;
    z.avail_in = (uInt) n;
    z.next_out = to;
    z.avail_out = (uInt) max;
    const int rc = to ? deflate (&z, Z_FINISH) : Z_MEM_ERROR;
    *bytes = z.total_out;
    deflateEnd (&z);
    if (rc == Z_STREAM_END)
        return to;
    free (to);
    return NULL;
}
