/* wm_inflate.h - messages compressed by gzip or deflate (zlib's format), worked on in slices.

   A message of a client is counted first, without memory for it, so that its size can be refused,
   or waited for. Thread: the loop's.  */
#ifndef WM_INFLATE_H
#define WM_INFLATE_H

#include "producer/net/wm_slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What zlib itself takes while it works on a message, at most.  */
#define WM_INFLATE_STATE_BYTES ((size_t) 48 << 10)
#define WM_DEFLATE_STATE_BYTES ((size_t) 272 << 10)

/* The most that a message of so many bytes may inflate to. Blank images shrink a thousandfold; what
   is larger than a few of them must not, for its work is far more than its client's.  */
size_t wm_inflate_max (size_t bytes, size_t message_max);

typedef struct wm_zip_t wm_zip_t;

typedef enum {
    WM_ZIP_COUNTED,   /* wm_zip_go is awaited */
    WM_ZIP_DONE,      /* wm_zip_take has it */
    WM_ZIP_DAMAGED,   /* no gzip or zlib stream, or not a whole one */
    WM_ZIP_TOO_LARGE, /* more than bytes_max */
} wm_zip_state_t;

/* Called by a slice, never by the calls below. May destroy the zip.  */
typedef void wm_zip_told_t (void *argument, wm_zip_state_t state);

/* Begins to count what `data`, which is lent until the end, inflates to. Then comes one of the
   states but DONE.  */
wm_zip_t *wm_inflate_new (wm_slices_t *slices, const uint8_t *data, size_t n, size_t bytes_max,
                          wm_zip_told_t *told, void *argument);
/* Begins to inflate what was counted. Then comes DONE, or DAMAGED.  */
void wm_zip_go (wm_zip_t *self);

/* Begins to compress; `data` is lent until the end. Then comes DONE.  */
wm_zip_t *wm_deflate_new (wm_slices_t *slices, const uint8_t *data, size_t n, bool is_gzip,
                          wm_zip_told_t *told, void *argument);

/* The bytes that were counted, or made.  */
size_t wm_zip_bytes (const wm_zip_t *self);
/* Gives what was made; the caller's, malloc'd.  */
uint8_t *wm_zip_take (wm_zip_t *self);
/* Whatever its state; NULL is fine.  */
void wm_zip_destroy (wm_zip_t **self_p);

#endif
