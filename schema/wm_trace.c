/* wm_trace.c - opens the file before main and closes it when the process ends.  */
#include "schema/wm_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

FILE *wm_trace_file;

static int64_t ns_of (clockid_t clock)
{
    struct timespec now;
    clock_gettime (clock, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t wm_trace_now_ns (void)
{
    return ns_of (CLOCK_MONOTONIC);
}

static void __attribute__ ((constructor)) begin (void)
{
    char path[4096];
    const char *folder = getenv ("WM_TRACE");
    if (!folder || snprintf (path, sizeof path, "%s/%s-%ld", folder, program_invocation_short_name,
                             (long) getpid ()) >= (int) sizeof path)
        return;
    wm_trace_file = fopen (path, "we");
    if (!wm_trace_file)
        fprintf (stderr, "WM_TRACE: %s: cannot be written; there is no trace\n", path);
}

/* The largest resident memory of the process so far; 0 where it is unknown.  */
static int64_t peak_bytes (void)
{
    char line[128];
    long long kb = 0;
    FILE *file = fopen ("/proc/self/status", "re");
    while (file && fgets (line, sizeof line, file) && sscanf (line, "VmHWM: %lld kB", &kb) != 1)
        ;
    if (file)
        fclose (file);
    return 1024 * (int64_t) kb;
}

static void __attribute__ ((destructor)) end (void)
{
    const wm_key_t none = { 0 };
    WM_TRACE ("cpu", &none, ns_of (CLOCK_PROCESS_CPUTIME_ID));
    if (wm_trace_file)
        WM_TRACE ("memory", &none, peak_bytes ());
    if (wm_trace_file)
        fclose (wm_trace_file);
    wm_trace_file = NULL;
}

void wm_trace_write (int64_t ns, const char *what, const wm_key_t *key, int64_t amount)
{
    fprintf (wm_trace_file, "%" PRId64 " %s %u %u %u %" PRId64 "\n", ns, what, key->input,
             key->ordinal, key->batch, amount);
}
