/* wm_png.c - see wm_png.h. RFC 2083: signature, IHDR, PLTE, IDAT, IEND; every row begins with its
   filter: 0, none, which suits pictures of few colours.  */
#include "producer/pictures/wm_png.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#define PIXELS_MAX (1u << 28)
#define LEVEL 6

static void put_number (uint8_t *to, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t) (n >> (24 - 8 * i));
}

/* Adds a chunk; what is in it may lie there already.  */
static uint8_t *put_chunk (uint8_t *to, const char *type, const void *body, size_t size)
{
    put_number (to, (uint32_t) size);
    memcpy (to + 4, type, 4);
    if (size && body != to + 8)
        memcpy (to + 8, body, size);
    put_number (to + 8 + size, libdeflate_crc32 (0, to + 4, size + 4));
    return to + 12 + size;
}

wm_fault_t wm_png_encode (const uint8_t *pixel, uint32_t width, uint32_t height,
                          const uint8_t *palette, uint8_t **bytes, size_t *size, wm_error_t *error)
{
    const size_t raw = ((size_t) width + 1) * height;
    if (!width || !height || (uint64_t) width * height > PIXELS_MAX)
        return wm_fault (error, WM_EHOST, "a picture of %u x %u pixels is too large", width,
                         height);
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor (LEVEL);
    const size_t most = compressor ? libdeflate_zlib_compress_bound (compressor, raw) : 0;
    uint8_t *rows = malloc (raw), *to = malloc (most + 1024), head[13] = { 0 };
    if (!compressor || !rows || !to) {
        libdeflate_free_compressor (compressor);
        free (rows);
        free (to);
        return wm_fault (error, WM_EHOST, "out of memory for a picture of %u x %u pixels", width,
                         height);
    }
    for (uint32_t y = 0; y < height; y++) {
        rows[(size_t) y * (width + 1)] = 0;
        memcpy (&rows[(size_t) y * (width + 1) + 1], &pixel[(size_t) y * width], width);
    }
    put_number (head, width);
    put_number (head + 4, height);
    head[8] = 8;
    head[9] = 3; /* a palette */
    memcpy (to, "\x89PNG\r\n\x1a\n", 8);
    uint8_t *at = put_chunk (to + 8, "IHDR", head, sizeof head);
    at = put_chunk (at, "PLTE", palette, 768);
    at = put_chunk (at, "IDAT", at + 8,
                    libdeflate_zlib_compress (compressor, rows, raw, at + 8, most));
    at = put_chunk (at, "IEND", NULL, 0);
    libdeflate_free_compressor (compressor);
    free (rows);
    *bytes = to;
    *size = (size_t) (at - to);
    return WM_OK;
}
