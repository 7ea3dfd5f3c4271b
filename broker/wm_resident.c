/* wm_resident.c - keeps the broker's memory within its budget, beside what malloc keeps.  */
#include "broker/wm_resident.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STEP_BYTES (4u << 20)

static int statm_fd = -1; /* -1: nothing is returned */
static uint64_t most;     /* resident bytes; where more could be, malloc returns what it keeps */
static uint64_t not_of_malloc; /* resident bytes of stacks and libraries */
static uint64_t looked;        /* asked_bytes asked for at the last look */

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

static uint64_t in_use (void)
{
    const struct mallinfo2 info = mallinfo2 ();
    return info.uordblks + info.hblkhd;
}

void wm_resident_begin (uint64_t budget_bytes)
{
    statm_fd = open ("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const uint64_t now = resident (), used = in_use ();
    most = now + budget_bytes + WM_RESIDENT_SLACK;
    not_of_malloc = now > used ? now - used : 0;
}

void wm_resident_check (const wm_core_t *core)
{
    uint64_t asked;
    const uint64_t due = wm_core_payloads_due (core, &asked);
    if (asked - looked < STEP_BYTES || statm_fd < 0)
        return;
    looked = asked;
    const uint64_t now = resident ();
    if (now + due > most && now > in_use () + not_of_malloc + STEP_BYTES)
        malloc_trim (0);
}
