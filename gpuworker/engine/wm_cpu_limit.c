/* wm_cpu_limit.c - see wm_cpu_limit.h.

   An engine that hangs is found by calls that do not end, so that a rest between calls is safe.  */
#include "gpuworker/engine/wm_cpu_limit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REST_S_MAX 2.
#define DEPTH_MAX 3 /* run, the process that copies URLs, the reader and xrdcp */

/* CPU time of a process; 0 where it has ended.  */
static double cpu_s (pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    return pid > 0 && clock_getcpuclockid (pid, &clock) == 0 && clock_gettime (clock, &t) == 0
               ? (double) t.tv_sec + 1e-9 * (double) t.tv_nsec
               : 0;
}

static pid_t parent_of (pid_t pid)
{
    char path[64], line[512];
    int parent = 0;
    snprintf (path, sizeof path, "/proc/%d/stat", (int) pid);
    FILE *file = fopen (path, "re");
    if (file && fgets (line, sizeof line, file)) {
        const char *rest = strrchr (line, ')'); /* the program's name may have spaces */
        if (!rest || sscanf (rest, ") %*c %d", &parent) != 1)
            parent = 0;
    }
    if (file)
        fclose (file);
    return parent;
}

/* CPU time of what `pid` started, and of what that started, but not of this worker's engines.  */
static double below_s (pid_t pid, int depth)
{
    char path[64];
    int child;
    double sum_s = 0;
    snprintf (path, sizeof path, "/proc/%d/task/%d/children", (int) pid, (int) pid);
    FILE *file = fopen (path, "re");
    while (file && fscanf (file, "%d", &child) == 1) {
        sum_s += cpu_s (child);
        if (child != getppid () && depth < DEPTH_MAX)
            sum_s += below_s (child, depth + 1);
    }
    if (file)
        fclose (file);
    return sum_s;
}

double wm_cpu_limit_begin (void)
{
    const char *asked = getenv ("WM_CPU_LIMIT");
    const pid_t above = asked && strcmp (asked, "1") == 0 ? parent_of (getppid ()) : 0;
    return above > 1 ? cpu_s (above) + below_s (above, 1) : -1;
}

void wm_cpu_limit_end (double begin_s)
{
    const double now_s = begin_s < 0 ? -1 : wm_cpu_limit_begin ();
    /* Less than before where one of them ended meanwhile.  */
    const double rest_s = now_s < begin_s ? 0 : fmin (now_s - begin_s, REST_S_MAX);
    const time_t whole_s = (time_t) rest_s;
    const struct timespec rest = { whole_s, (long) (1e9 * (rest_s - (double) whole_s)) };
    if (rest_s > 0)
        nanosleep (&rest, NULL);
}
