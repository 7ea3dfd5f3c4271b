/* wm_seed.h - pseudorandom numbers, the same on every machine.  */
#ifndef WM_SEED_H
#define WM_SEED_H

#include <stddef.h>
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

/* Fills n rows to try an engine by: values around 0 up to 1, 64 and 4,096 in turn, because a
   threshold hides rows of small values.  */
static inline void wm_seed_rows (uint64_t seed, size_t n, size_t n_value, float *rows)
{
    static const float most[] = { 1, 64, 4096 };
    for (size_t i = 0; i < n * n_value; i++)
        rows[i] = wm_seed_unit (&seed) * most[i / n_value % (sizeof most / sizeof *most)];
}

#endif
