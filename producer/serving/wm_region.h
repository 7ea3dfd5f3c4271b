/* wm_region.h - memory that the gateway and the helper of a session both see: the rows of batches
   on their way are there, so that none of their bytes goes through a socket.

   A memory file of a fixed size, of which only what was used takes memory. Where there is no room
   its user takes memory of its own. Thread: the loop's.  */
#ifndef WM_REGION_H
#define WM_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wm_region_t wm_region_t;

/* NULL: the kernel gives none.  */
wm_region_t *wm_region_new (size_t bytes);
void wm_region_destroy (wm_region_t **self_p);

/* Takes a piece, aligned to a cache line, from the first place of the region that has room for it;
   NULL if the region is full. self may be NULL.  */
void *wm_region_take (wm_region_t *self, size_t bytes);
/* Gives a piece back. False: it is not of this region.  */
bool wm_region_give (wm_region_t *self, const void *piece);

/* Whether this is a piece of the region, and where: bytes from its beginning.  */
bool wm_region_place (const wm_region_t *self, const void *piece, uint64_t *place);

/* The file, whose number is above those that a helper's own descriptors have. Not of NULL.  */
int wm_region_fd (const wm_region_t *self);

#endif
