/* wm_inflate.h - messages that a client has compressed by gzip or deflate (zlib's format).

   The size is counted first, without memory for it, so that it can be refused, or waited for.
   Thread: any.  */
#ifndef WM_INFLATE_H
#define WM_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most that a message of so many bytes may inflate to. Blank images shrink a thousandfold; what
   is larger than a few of them must not, for the loop waits while it inflates.  */
size_t wm_inflate_max (size_t bytes, size_t message_max);

/* Counts the bytes of what this inflates to. False: it is damaged, or more than bytes_max; then
   *bytes > bytes_max.  */
bool wm_inflate_count (const uint8_t *data, size_t n, size_t bytes_max, size_t *bytes);

/* Inflates to a block of exactly so many bytes.  */
bool wm_inflate (const uint8_t *data, size_t n, uint8_t *to, size_t bytes);

/* Compresses to a malloc'd block, the caller's; NULL without memory.  */
uint8_t *wm_deflate (const uint8_t *data, size_t n, bool is_gzip, size_t *bytes);

#endif
