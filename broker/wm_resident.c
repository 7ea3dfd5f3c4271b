/* wm_resident.c - keeps the broker's memory within its budget, beside what malloc keeps.  */
#include "broker/wm_resident.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#define STEP_BYTES (4u << 20)

static int statm_fd = -1;      /* -1: nothing is returned */
static uint64_t most;          /* bytes of payloads and of what malloc keeps, together */
static uint64_t not_of_malloc; /* resident bytes of stacks and libraries */
static uint64_t looked;        /* asked_bytes asked for at the last look */
static uint64_t stuck;         /* what malloc kept after it had returned what it could */

/* Anonymous memory; 0: unknown.  */
static uint64_t resident (void)
{
    char text[128] = "";
    unsigned long long all, file;
    if (pread (statm_fd, text, sizeof text - 1, 0) <= 0 ||
        sscanf (text, "%*u %llu %llu", &all, &file) != 2 || file > all)
        return 0;
    return (all - file) * (uint64_t) sysconf (_SC_PAGESIZE);
}

/* Resident bytes beyond `others` that are not in use.  */
static uint64_t kept_beyond (uint64_t others)
{
    const struct mallinfo2 info = mallinfo2 ();
    const uint64_t now = resident (), used = info.uordblks + info.hblkhd + others;
    return now > used ? now - used : 0;
}

void wm_resident_begin (uint64_t budget_bytes)
{
    statm_fd = open ("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    most = budget_bytes + WM_RESIDENT_SLACK;
    not_of_malloc = kept_beyond (0);
    stuck = looked = 0;
}

/* What the broker has beside payloads may grow: it is in use, and no call returns it. Nor is what
   malloc could not return last time tried again, until as much more is kept.  */
bool wm_resident_check (const wm_core_t *core)
{
    uint64_t asked;
    const uint64_t payloads = wm_core_payloads (core, &asked);
    if (asked - looked < STEP_BYTES || statm_fd < 0)
        return false;
    looked = asked;
    const uint64_t kept = kept_beyond (not_of_malloc);
    if (kept < stuck)
        stuck = kept;
    if (payloads + kept <= most || kept < stuck + STEP_BYTES)
        return false;
    malloc_trim (0);
    stuck = kept_beyond (not_of_malloc);
    return true;
}
