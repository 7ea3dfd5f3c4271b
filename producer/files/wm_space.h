/* wm_space.h - memory that is used again, and grows to the largest use.  */
#ifndef WM_SPACE_H
#define WM_SPACE_H

#include <stdbool.h>
#include <stdlib.h>

/* At least `bytes` at *memory, which has *bytes_max of them; what it held is lost when it grows.
   false: no memory is left, and *memory is NULL. The caller owns and frees it. Thread: the
   owner's.  */
static inline bool wm_space_grow (void **memory, size_t *bytes_max, size_t bytes)
{
    if (bytes <= *bytes_max)
        return true;
    free (*memory);
    *memory = malloc (bytes);
    *bytes_max = *memory ? bytes : 0;
    return *memory != NULL;
}

#endif
