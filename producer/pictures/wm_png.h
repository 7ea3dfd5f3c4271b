/* wm_png.h - writes a picture as PNG. The same pixels give the same bytes. Thread: any.  */
#ifndef WM_PNG_H
#define WM_PNG_H

#include "schema/base/wm_fault.h"

#include <stddef.h>
#include <stdint.h>

/* Encodes pixels, rows from the top. `palette` (256 x 3, red green blue): one byte a pixel, its
   colour; NULL: three bytes a pixel. *bytes is the caller's to free. WM_EHOST: no memory, or more
   than 2^28 pixels.  */
wm_fault_t wm_png_encode (const uint8_t *pixel, uint32_t width, uint32_t height,
                          const uint8_t *palette, uint8_t **bytes, size_t *size, wm_error_t *error);

#endif
