/* bad_weather.h - chance from a seed, and a clock, for programs that imitate a bad network.  */
#ifndef BAD_WEATHER_H
#define BAD_WEATHER_H

#include <stdint.h>
#include <time.h>

static uint64_t random_state; /* the seed, at first */

static uint32_t roll (uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (random_state >> 33) % below;
}

static int64_t now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#endif
