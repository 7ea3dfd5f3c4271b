/* wm_seed.h - pseudorandom numbers, the same on every machine.  */
#ifndef WM_SEED_H
#define WM_SEED_H

#include <stdint.h>

/* Returns the next number of a seeded sequence: splitmix64 (Steele, Lea, Flood 2014).  */
static inline uint64_t wm_seed_next (uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Returns the next one as a value in [-1, 1).  */
static inline float wm_seed_unit (uint64_t *state)
{
    return (float) (wm_seed_next (state) >> 40) * 0x1p-23f - 1;
}

#endif
