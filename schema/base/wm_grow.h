/* wm_grow.h - arrays that grow.

   `array` is the address of a pointer that its owner frees; `max`: how many items have room there.
   Thread: the owner's.  */
#ifndef WM_GROW_H
#define WM_GROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for exactly `n` items of `bytes` each. false: no memory; what is there stays.  */
static inline bool wm_grow_to (void *array, size_t *max, uint64_t n, size_t bytes)
{
    void *memory;
    size_t all;
    memcpy (&memory, array, sizeof memory);
    if (__builtin_mul_overflow (n, bytes, &all) || !(memory = realloc (memory, all)))
        return false;
    memcpy (array, &memory, sizeof memory);
    *max = n;
    return true;
}

/* The same of an array that its owner counts by itself.  */
static inline bool wm_regrow (void *array, uint64_t n, size_t bytes)
{
    size_t max;
    return wm_grow_to (array, &max, n, bytes);
}

/* Makes room for `n` items, and half as many more if it must grow.  */
static inline bool wm_grow (void *array, size_t *max, uint64_t n, size_t bytes)
{
    return n <= *max || (n + n / 2 >= n && wm_grow_to (array, max, n + n / 2, bytes));
}

/* The same of small arrays: ends the process where there is no memory.  */
static inline void wm_must_grow (void *array, size_t *max, uint64_t n, size_t bytes)
{
    if (!wm_grow (array, max, n, bytes))
        abort ();
}

#endif
