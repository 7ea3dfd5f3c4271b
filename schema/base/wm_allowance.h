/* wm_allowance.h - the CPUs and the memory that this process may use: of a machine, of a
   batch system's allocation, of a container.

   CPUs: the first of WM_THREADS, JUSTIN_PROCESSORS, SLURM_CPUS_PER_TASK, NSLOTS and OMP_NUM_THREADS
   that has a usable value, but never more than the CPU affinity and the CPU quotas of cgroups (v2
   cpu.max, v1 cpu.cfs_quota_us) leave. Memory: the least of SLURM_MEM_PER_NODE, SLURM_MEM_PER_CPU
   times the CPUs, the limits of cgroups (v2 memory.max and memory.high, v1 memory.limit_in_bytes)
   and the machine's. A cgroup's limits are its own and those of all its ancestors.

   A quota of 1.5 CPUs is rounded to the nearest whole number, 2; at least 1. A variable whose value
   is no whole number above 0 ("abc", "-3", "4(x2)") is ignored, and named. What a person types
   (--threads) is not asked here: it is taken as typed.

   WM_CGROUP_ROOT=FOLDER reads FOLDER/proc/self/cgroup, FOLDER/proc/self/mountinfo and the mounts
   below FOLDER instead of the system's own, for tests. Thread: any.  */
#ifndef WM_ALLOWANCE_H
#define WM_ALLOWANCE_H

#include "schema/base/wm_fault.h"

#include <stdint.h>
#include <stdio.h>

#define WM_ALLOWANCE_FROM_BYTES 24
#define WM_ALLOWANCE_TEXT_BYTES 120

typedef struct {
    int cpus; /* threads that compute, at least 1 */
    int machine_cpus;
    int kernel_cpus; /* of affinity and cgroups: more than cpus where a variable asks for less */
    char cpus_from[WM_ALLOWANCE_FROM_BYTES]; /* who set them, "NSLOTS", "affinity", "cgroup"; "" */
    uint64_t memory_bytes;                   /* 0: not known */
    char memory_from[WM_ALLOWANCE_FROM_BYTES]; /* likewise; "": the machine has so much */
    char ignored[240];                         /* "NSLOTS='4(x2)', OMP_NUM_THREADS='abc'"; "" */
} wm_allowance_t;

/* Finds all of it. Never fails: what cannot be read does not limit.  */
void wm_allowance_find (wm_allowance_t *self);

/* The allowance of this process, found by the first call and kept.  */
const wm_allowance_t *wm_allowance (void);

/* Fills in "1 of 64 CPUs (JUSTIN_PROCESSORS), 2.0 GiB (cgroup)" and returns it. threads > 0: what a
   person chose by --threads.  */
const char *wm_allowance_text (const wm_allowance_t *self, int threads,
                               char text[WM_ALLOWANCE_TEXT_BYTES]);

/* Prints the line "allocation: TEXT" to stderr, after it a line with what was ignored; each begins
   with `who` ("wiremill-worker: " or "").  */
void wm_allowance_print (const wm_allowance_t *self, int threads, const char *who);

/* Returns a part of the memory, memory_bytes / divisor, but `most` at most; `most` where the memory
   is not known.  */
uint64_t wm_allowance_part (const wm_allowance_t *self, unsigned divisor, uint64_t most);

/* WM_EHOST, with what it needs, where the memory is less than `bytes`. `what` needs them: "a worker
   of 1 thread".  */
wm_fault_t wm_allowance_check (const wm_allowance_t *self, uint64_t bytes, const char *what,
                               wm_error_t *error);

#endif
