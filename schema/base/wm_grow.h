/* wm_grow.h - arrays that grow.

   `array` is the address of a pointer that its owner frees; `max`: how many items have room there.
   Thread: the owner's.  */
#ifndef WM_GROW_H
#define WM_GROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `n` items of `bytes` each, and half as many more where it must grow. false: no
   memory; what is there stays.  */
static inline bool wm_grow (void *array, size_t *max, uint64_t n, size_t bytes)
{
    void *memory;
    const uint64_t room = n + n / 2;
    size_t all;
    if (n <= *max)
        return true;
    memcpy (&memory, array, sizeof memory);
    if (room < n || __builtin_mul_overflow (room, bytes, &all) || !(memory = realloc (memory, all)))
        return false;
    memcpy (array, &memory, sizeof memory);
    *max = room;
    return true;
}

/* The same of small arrays: ends the process where there is no memory.  */
static inline void wm_must_grow (void *array, size_t *max, uint64_t n, size_t bytes)
{
    if (!wm_grow (array, max, n, bytes))
        abort ();
}

#endif
