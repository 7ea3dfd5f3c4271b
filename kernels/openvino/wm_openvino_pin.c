/* wm_openvino_pin.c - keeps OpenVINO's threads on CPUs.

   OpenVINO's own ENABLE_CPU_PINNING (2026.4) releases threads between inferences, and pinned only
   one of two. And the TBB inside it binds a thread to all CPUs of the process, through hwloc,
   whenever the thread begins to compute, which undoes any earlier binding. hwloc changes nothing
   where it believes that its topology is of another machine.

   OpenVINO does not tell which threads are the streams, and other threads may start before them. So
   the streams are found by their CPU time: the threads that ran most while a block was
   computed.  */
#include "kernels/openvino/wm_openvino_pin.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FAIR 8u /* a stream's share of the work is at least this part of another's */

uint32_t wm_openvino_tasks (wm_openvino_task_t task[WM_OPENVINO_TASKS_MAX])
{
    uint32_t n = 0;
    DIR *folder = opendir ("/proc/self/task");
    for (struct dirent *entry; folder && n < WM_OPENVINO_TASKS_MAX && (entry = readdir (folder));) {
        char path[300];
        unsigned long long ran_ns;
        task[n].thread = atoi (entry->d_name);
        if (task[n].thread <= 0 || task[n].thread == gettid ())
            continue;
        snprintf (path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
        FILE *file = fopen (path, "re");
        if (file && fscanf (file, "%llu", &ran_ns) == 1)
            task[n++].ran_ns = ran_ns;
        if (file)
            fclose (file);
    }
    if (folder)
        closedir (folder);
    return n;
}

void wm_openvino_pin_ready (void)
{
    setenv ("HWLOC_THISSYSTEM", "0", 1);
}

static int by_time (const void *a, const void *b)
{
    const uint64_t left = ((const wm_openvino_task_t *) a)->ran_ns,
                   right = ((const wm_openvino_task_t *) b)->ran_ns;
    return left < right ? 1 : left > right ? -1 : 0;
}

/* Keeps a thread on the i-th CPU of a set; where that is refused, it runs anywhere.  */
static void stay (int thread, const cpu_set_t *cpus, uint32_t i)
{
    cpu_set_t one;
    uint32_t left = i % (uint32_t) CPU_COUNT (cpus);
    CPU_ZERO (&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT (&one); cpu++)
        if (CPU_ISSET (cpu, cpus) && left-- == 0)
            CPU_SET (cpu, &one);
    sched_setaffinity (thread, sizeof one, &one);
}

bool wm_openvino_pin (const wm_openvino_task_t *before, uint32_t n_before, uint32_t n)
{
    wm_openvino_task_t now[WM_OPENVINO_TASKS_MAX];
    const uint32_t n_now = wm_openvino_tasks (now);
    cpu_set_t cpus;
    for (uint32_t i = 0; i < n_now; i++)
        for (uint32_t k = 0; k < n_before; k++)
            if (before[k].thread == now[i].thread)
                now[i].ran_ns -= before[k].ran_ns;
    qsort (now, n_now, sizeof *now, by_time);
    if (n == 0 || n_now < n || now[n - 1].ran_ns < now[0].ran_ns / FAIR ||
        sched_getaffinity (0, sizeof cpus, &cpus))
        return false;
    for (uint32_t i = 0; i < n; i++)
        stay (now[i].thread, &cpus, i);
    return true;
}
