/* proof.h - how much a test tries, and the line that reports what survived (tests/proof.sh).  */
#ifndef TESTS_PROOF_H
#define TESTS_PROOF_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Returns one of the three, by WM_SIZE: in `make test`, `make proof`, `make soak`.  */
static inline unsigned long proof_size (unsigned long test, unsigned long proof, unsigned long soak)
{
    const char *size = getenv ("WM_SIZE");
    return size && !strcmp (size, "soak") ? soak : size && !strcmp (size, "proof") ? proof : test;
}

/* Returns seconds of a clock that only goes forward.  */
static inline double proof_clock (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

/* Prints the result of a test; start: proof_clock () at its beginning.  */
static inline void proof_line (const char *promise, unsigned long tried, unsigned long survived,
                               double start)
{
    printf ("proof: %s tried %lu survived %lu seconds %.1f\n", promise, tried, survived,
            proof_clock () - start);
    fflush (stdout);
}

#endif
