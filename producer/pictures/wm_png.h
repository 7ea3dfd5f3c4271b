/* wm_png.h - encodes a picture of 256 colours as PNG, which SVG embeds. The same pixels give the
   same bytes. Thread: any.  */
#ifndef WM_PNG_H
#define WM_PNG_H

#include "schema/base/wm_fault.h"

#include <stddef.h>
#include <stdint.h>

/* Encodes pixels (height, width), rows from the top: each a colour of `palette` (256 x 3, red green
   blue). *bytes is the caller's to free. WM_EHOST: no memory, or more than 2^28 pixels.  */
wm_fault_t wm_png_encode (const uint8_t *pixel, uint32_t width, uint32_t height,
                          const uint8_t *palette, uint8_t **bytes, size_t *size, wm_error_t *error);

#endif
