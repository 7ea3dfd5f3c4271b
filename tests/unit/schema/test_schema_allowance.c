/* test_schema_allowance.c - CPUs and memory that a job has: variables, affinity, cgroups v1 and v2.

   The machine is made up: 64 CPUs, 16 GiB. Its /proc and /sys/fs/cgroup lie in a folder of the
   test (WM_CGROUP_ROOT).  */
#include "schema/base/wm_allowance.h"
#include "tests/unit/unit.h"

#include <dlfcn.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GIB (1ull << 30)

static char root[] = "/tmp/wm-allowance-XXXXXX";
static size_t affine; /* CPUs that the kernel leaves; 0: its call fails */

/* In the place of the C library's.  */
int sched_getaffinity (pid_t pid, size_t bytes, cpu_set_t *set)
{
    assert_int_equal (pid, 0);
    CPU_ZERO_S (bytes, set);
    for (size_t i = 0; i < affine; i++)
        CPU_SET_S (2 * i, bytes, set);
    return affine ? 0 : -1;
}

long sysconf (int name)
{
    long (*next) (int);
    *(void **) &next = dlsym (RTLD_NEXT, "sysconf");
    return name == _SC_NPROCESSORS_ONLN ? 64
           : name == _SC_PHYS_PAGES     ? (long) (16 * GIB) / next (_SC_PAGESIZE)
                                        : next (name);
}

/* Writes a file below the root, and the folders above it.  */
static void put (const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf (path, sizeof path, "%s%s", root, name);
    for (char *slash = path + strlen (root); (slash = strchr (slash + 1, '/')) != NULL;) {
        *slash = '\0';
        mkdir (path, 0777);
        *slash = '/';
    }
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fputs (text, file);
    fclose (file);
}

static int remove_one (const char *path, const struct stat *status, int type, struct FTW *at)
{
    return remove (path);
}

static const char *const variables[] = { "WM_THREADS",          "JUSTIN_PROCESSORS",
                                         "SLURM_CPUS_PER_TASK", "NSLOTS",
                                         "OMP_NUM_THREADS",     "SLURM_MEM_PER_CPU",
                                         "SLURM_MEM_PER_NODE" };

static int fresh (void **state)
{
    nftw (root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    mkdir (root, 0777);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv (variables[i]);
    affine = 64;
    return 0;
}

static int begin (void **state)
{
    return mkdtemp (root) && setenv ("WM_CGROUP_ROOT", root, 1) == 0 ? 0 : -1;
}

static int end (void **state)
{
    nftw (root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return 0;
}

static wm_allowance_t found;
static char text[WM_ALLOWANCE_TEXT_BYTES];

static void assert_finds (const char *wanted)
{
    wm_allowance_find (&found);
    assert_string_equal (wm_allowance_text (&found, 0, text), wanted);
}

/* The machine's cgroups of version 2, and this process in one of them.  */
static void second_version (const char *folder)
{
    char line[PATH_MAX];
    snprintf (line, sizeof line, "0::%s\n", folder);
    put ("/proc/self/cgroup", line);
    put ("/proc/self/mountinfo",
         "22 26 0:20 / /proc rw - proc proc rw\n"
         "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
}

static void a_machine_of_its_own (void **state)
{
    assert_finds ("64 of 64 CPUs, 16.0 GiB"); /* neither /proc nor cgroups */
    second_version ("/");
    assert_finds ("64 of 64 CPUs, 16.0 GiB"); /* the uppermost cgroup has no files of limits */
    assert_string_equal (found.ignored, "");
    assert_string_equal (wm_allowance_text (&found, 7, text), "7 of 64 CPUs (--threads), 16.0 GiB");
    affine = 3;
    assert_finds ("3 of 64 CPUs (affinity), 16.0 GiB");
    affine = 0;
    assert_finds ("64 of 64 CPUs, 16.0 GiB");
}

static void variables_in_their_order (void **state)
{
    for (size_t i = 5; i-- > 0;) { /* the last first: each is before those below it */
        char value[8], wanted[80];
        snprintf (value, sizeof value, "%zu", i + 2);
        setenv (variables[i], value, 1);
        snprintf (wanted, sizeof wanted, "%zu of 64 CPUs (%s), 16.0 GiB", i + 2, variables[i]);
        assert_finds (wanted);
    }
    affine = 2;
    assert_finds ("2 of 64 CPUs (WM_THREADS), 16.0 GiB"); /* the same: this is what was meant */
    affine = 1;
    assert_finds ("1 of 64 CPUs (affinity), 16.0 GiB"); /* and never more than that */
    affine = 64;
    setenv ("WM_THREADS", "", 1);
    assert_finds ("3 of 64 CPUs (JUSTIN_PROCESSORS), 16.0 GiB");
    assert_string_equal (found.ignored, "");
    setenv ("WM_THREADS", "1000000", 1);
    assert_finds ("64 of 64 CPUs, 16.0 GiB");
}

static void values_that_are_none (void **state)
{
    static const char *const bad[] = { "abc", "0",  "-3",  "4(x2)", "99999999999999999999",
                                       " 4",  "+4", "4,2", "1.5" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char wanted[80];
        setenv ("JUSTIN_PROCESSORS", bad[i], 1);
        assert_finds ("64 of 64 CPUs, 16.0 GiB");
        snprintf (wanted, sizeof wanted, "JUSTIN_PROCESSORS='%.20s'", bad[i]);
        assert_string_equal (found.ignored, wanted);
        setenv ("NSLOTS", "5", 1); /* the next one counts */
        assert_finds ("5 of 64 CPUs (NSLOTS), 16.0 GiB");
        assert_string_equal (found.ignored, wanted);
        unsetenv ("NSLOTS");
    }
    setenv ("JUSTIN_PROCESSORS", "4\n\033[2J", 1); /* named, and no terminal obeys it */
    setenv ("SLURM_MEM_PER_NODE", "2G", 1);
    setenv ("OMP_NUM_THREADS", "6,2", 1); /* this one's own form: six, each of two more */
    assert_finds ("6 of 64 CPUs (OMP_NUM_THREADS), 16.0 GiB");
    assert_string_equal (found.ignored, "JUSTIN_PROCESSORS='4??[2J', SLURM_MEM_PER_NODE='2G'");
}

static void quotas_of_version_2 (void **state)
{
    static const struct {
        const char *quota, *wanted;
    } ways[] = { { "400000 100000\n", "4 of 64 CPUs (cgroup), 16.0 GiB" },
                 { "150000 100000\n", "2 of 64 CPUs (cgroup), 16.0 GiB" },
                 { "149000 100000\n", "1 of 64 CPUs (cgroup), 16.0 GiB" },
                 { "10000 100000\n", "1 of 64 CPUs (cgroup), 16.0 GiB" },
                 { "25000 50000\n", "1 of 64 CPUs (cgroup), 16.0 GiB" },
                 { "9900000 100000\n", "64 of 64 CPUs, 16.0 GiB" },
                 { "max 100000\n", "64 of 64 CPUs, 16.0 GiB" },
                 { "100000 0\n", "64 of 64 CPUs, 16.0 GiB" },
                 { "-5 100000\n", "64 of 64 CPUs, 16.0 GiB" },
                 { "100000\n", "64 of 64 CPUs, 16.0 GiB" },
                 { "", "64 of 64 CPUs, 16.0 GiB" } };
    second_version ("/slurm/job_7");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        put ("/sys/fs/cgroup/slurm/job_7/cpu.max", ways[i].quota);
        assert_finds (ways[i].wanted);
    }
    put ("/sys/fs/cgroup/slurm/job_7/cpu.max", "800000 100000\n"); /* an ancestor has less */
    put ("/sys/fs/cgroup/slurm/cpu.max", "300000 100000\n");
    assert_finds ("3 of 64 CPUs (cgroup), 16.0 GiB");
    put ("/sys/fs/cgroup/slurm/cpu.max", "max 100000\n");
    assert_finds ("8 of 64 CPUs (cgroup), 16.0 GiB");
    put ("/sys/fs/cgroup/cpu.max", "100000 100000\n"); /* and where the tree is mounted */
    assert_finds ("1 of 64 CPUs (cgroup), 16.0 GiB");
    setenv ("JUSTIN_PROCESSORS", "4", 1);
    assert_finds ("1 of 64 CPUs (cgroup), 16.0 GiB");
    setenv ("JUSTIN_PROCESSORS", "1", 1);
    assert_finds ("1 of 64 CPUs (JUSTIN_PROCESSORS), 16.0 GiB");
    assert_int_equal (found.kernel_cpus, 1);
    put ("/sys/fs/cgroup/cpu.max", "max 100000\n");
    assert_finds ("1 of 64 CPUs (JUSTIN_PROCESSORS), 16.0 GiB");
    assert_int_equal (found.kernel_cpus, 8);
}

static void memory_of_version_2 (void **state)
{
    second_version ("/a/b");
    put ("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put ("/sys/fs/cgroup/a/b/memory.high", "max\n");
    assert_finds ("64 of 64 CPUs, 16.0 GiB");
    put ("/sys/fs/cgroup/a/b/memory.max", "2147483648\n");
    assert_finds ("64 of 64 CPUs, 2.0 GiB (cgroup)");
    put ("/sys/fs/cgroup/a/b/memory.high", "1073741824\n");
    assert_finds ("64 of 64 CPUs, 1.0 GiB (cgroup)");
    put ("/sys/fs/cgroup/a/memory.max", "536870912\n");
    assert_finds ("64 of 64 CPUs, 512 MiB (cgroup)");
    put ("/sys/fs/cgroup/a/memory.max", "99999999999999\n");
    assert_finds ("64 of 64 CPUs, 1.0 GiB (cgroup)");
}

/* A container that sees its own part of the tree only.  */
static void a_container (void **state)
{
    put ("/proc/self/cgroup", "0::/kubepods/pod1/box\n");
    put ("/proc/self/mountinfo", "30 23 0:26 /kubepods/pod1 /sys/fs/cgroup rw - cgroup2 x rw\n");
    put ("/sys/fs/cgroup/box/cpu.max", "500000 100000\n");
    assert_finds ("5 of 64 CPUs (cgroup), 16.0 GiB");
    put ("/proc/self/mountinfo",
         "30 23 0:26 /kubepods/pod1/box /sys/fs/cgroup rw - cgroup2 x rw\n");
    put ("/sys/fs/cgroup/cpu.max", "600000 100000\n");
    assert_finds ("6 of 64 CPUs (cgroup), 16.0 GiB");
    put ("/proc/self/cgroup", "0::/elsewhere\n"); /* the mount is the container's own */
    assert_finds ("6 of 64 CPUs (cgroup), 16.0 GiB");
    put ("/proc/self/cgroup", "0::/kubepods/pod1/boxes\n"); /* no folder below .../box */
    assert_finds ("6 of 64 CPUs (cgroup), 16.0 GiB");
    put ("/proc/self/cgroup", "0::/../../other\n"); /* of another namespace */
    put ("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 x rw\n");
    assert_finds ("6 of 64 CPUs (cgroup), 16.0 GiB");
    put ("/proc/self/cgroup", "nonsense\n\n:\n0:\n");
    assert_finds ("64 of 64 CPUs, 16.0 GiB");
}

static void quotas_of_version_1 (void **state)
{
    put ("/proc/self/cgroup", "9:name=systemd:/x\n8:cpuset:/set\n4:memory:/m/job\n"
                              "3:cpu,cpuacct:/c/job\n0::/\n");
    put ("/proc/self/mountinfo",
         "31 30 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
         "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
         "33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
         "34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put ("/sys/fs/cgroup/cpu,cpuacct/c/job/cpu.cfs_period_us", "100000\n");
    put ("/sys/fs/cgroup/cpu,cpuacct/c/job/cpu.cfs_quota_us", "-1\n");
    put ("/sys/fs/cgroup/memory/m/job/memory.limit_in_bytes", "9223372036854771712\n");
    assert_finds ("64 of 64 CPUs, 16.0 GiB");
    put ("/sys/fs/cgroup/cpu,cpuacct/c/job/cpu.cfs_quota_us", "200000\n");
    put ("/sys/fs/cgroup/memory/m/job/memory.limit_in_bytes", "2147483648\n");
    assert_finds ("2 of 64 CPUs (cgroup), 2.0 GiB (cgroup)");
    put ("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "50000\n");
    put ("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "50000\n");
    put ("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "1073741824\n");
    assert_finds ("1 of 64 CPUs (cgroup), 1.0 GiB (cgroup)");
    put ("/sys/fs/cgroup/unified/memory.max", "536870912\n"); /* both versions at a time */
    assert_finds ("1 of 64 CPUs (cgroup), 512 MiB (cgroup)");
}

static void memory_of_slurm (void **state)
{
    setenv ("SLURM_MEM_PER_CPU", "1500", 1);
    setenv ("SLURM_CPUS_PER_TASK", "2", 1);
    assert_finds ("2 of 64 CPUs (SLURM_CPUS_PER_TASK), 2.9 GiB (SLURM_MEM_PER_CPU)");
    setenv ("SLURM_MEM_PER_NODE", "2048", 1);
    assert_finds ("2 of 64 CPUs (SLURM_CPUS_PER_TASK), 2.0 GiB (SLURM_MEM_PER_NODE)");
    second_version ("/job");
    put ("/sys/fs/cgroup/job/memory.max", "1073741824\n");
    assert_finds ("2 of 64 CPUs (SLURM_CPUS_PER_TASK), 1.0 GiB (cgroup)");
    unsetenv ("SLURM_MEM_PER_CPU");
    put ("/sys/fs/cgroup/job/memory.max", "max\n");
    setenv ("SLURM_MEM_PER_NODE", "0", 1); /* all that the node has */
    assert_finds ("2 of 64 CPUs (SLURM_CPUS_PER_TASK), 16.0 GiB");
    assert_string_equal (found.ignored, "");
}

static void parts_of_the_memory (void **state)
{
    wm_error_t error;
    setenv ("SLURM_MEM_PER_NODE", "2048", 1);
    wm_allowance_find (&found);
    assert_true (wm_allowance_part (&found, 4, GIB) == GIB / 2);
    assert_true (wm_allowance_part (&found, 4, GIB / 4) == GIB / 4);
    assert_int_equal (wm_allowance_check (&found, 2 * GIB, "a run", &error), WM_OK);
    assert_int_equal (wm_allowance_check (&found, 2 * GIB + 1, "a run", &error), WM_EHOST);
    assert_string_equal (error.text,
                         "this allocation has 2.0 GiB of memory (SLURM_MEM_PER_NODE), and a "
                         "run needs at least 2.0 GiB: ask the batch system for more");
    found.memory_bytes = 0; /* not known: nothing is refused, and what is usual is used */
    assert_true (wm_allowance_part (&found, 4, GIB) == GIB);
    assert_int_equal (wm_allowance_check (&found, GIB, "a run", &error), WM_OK);
    assert_non_null (strstr (wm_allowance_text (&found, 0, text), "memory not known"));
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup (a_machine_of_its_own, fresh),
        cmocka_unit_test_setup (variables_in_their_order, fresh),
        cmocka_unit_test_setup (values_that_are_none, fresh),
        cmocka_unit_test_setup (quotas_of_version_2, fresh),
        cmocka_unit_test_setup (memory_of_version_2, fresh),
        cmocka_unit_test_setup (a_container, fresh),
        cmocka_unit_test_setup (quotas_of_version_1, fresh),
        cmocka_unit_test_setup (memory_of_slurm, fresh),
        cmocka_unit_test_setup (parts_of_the_memory, fresh),
    };
    return cmocka_run_group_tests (tests, begin, end);
}
