/* wm_allowance.c - reads variables, the CPU affinity and cgroups; see wm_allowance.h.

   Cgroups: /proc/self/cgroup names this process's folder below a mount that /proc/self/mountinfo
   names. A container often sees only its own part of the tree: where the folder's name does not lie
   below the mount's root, the mount itself is taken.  */
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_log.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CPUS_MAX 65536
#define MEBIBYTE 1048576.

/* ---- variables ------------------------------------------------------------------------------- */

static void ignore (wm_allowance_t *self, const char *name, const char *value)
{
    const size_t n = strlen (self->ignored);
    snprintf (self->ignored + n, sizeof self->ignored - n, "%s%s='%.20s'", n ? ", " : "", name,
              value);
    wm_log_sanitize (self->ignored);
}

/* The whole number above 0 that the variable has, up to `end` if that follows it; 0: it is not set,
   or ignored.  */
static long from_variable (wm_allowance_t *self, const char *name, char end)
{
    char *rest;
    const char *text = getenv (name);
    if (!text || !*text)
        return 0;
    const long value = strtol (text, &rest, 10);
    if (*text < '0' || *text > '9' || (*rest && *rest != end) || value < 1 || value == LONG_MAX) {
        ignore (self, name, text);
        return 0;
    }
    return value;
}

/* ---- cgroups --------------------------------------------------------------------------------- */

/* Whether a list with commas has the word; a NULL word is in the empty list only.  */
static bool has_word (const char *list, const char *word)
{
    if (!word)
        return !*list;
    const size_t n = strlen (word);
    for (const char *at = list; (at = strstr (at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ','))
            return true;
    return false;
}

static FILE *open_below (const char *path)
{
    char below[4 * PATH_MAX];
    const char *root = getenv ("WM_CGROUP_ROOT");
    snprintf (below, sizeof below, "%s%s", root ? root : "", path);
    return fopen (below, "re");
}

/* This process's cgroup by the kernel: of v2 for a NULL controller, else of that controller's
   hierarchy of v1.  */
static bool cgroup_of_process (const char *controller, char path[PATH_MAX])
{
    char line[PATH_MAX + 256];
    bool found = false;
    FILE *file = open_below ("/proc/self/cgroup");
    while (file && !found && fgets (line, sizeof line, file)) {
        char *list = strchr (line, ':'), *name = list ? strchr (list + 1, ':') : NULL;
        if (!name)
            continue;
        *name++ = '\0';
        name[strcspn (name, "\n")] = '\0';
        found = has_word (list + 1, controller) && strlen (name) < PATH_MAX;
        if (found)
            strcpy (path, name);
    }
    if (file)
        fclose (file);
    return found;
}

/* Where that hierarchy is mounted, and which of its folders lies there.  */
static bool mount_of (const char *controller, char root[PATH_MAX], char mount[PATH_MAX])
{
    char line[2 * PATH_MAX], type[32], options[1024];
    bool found = false;
    static_assert (PATH_MAX == 4096, "the width below");
    FILE *file = open_below ("/proc/self/mountinfo");
    while (file && !found && fgets (line, sizeof line, file)) {
        const char *rest = strstr (line, " - ");
        found = rest && sscanf (line, "%*s %*s %*s %4095s %4095s", root, mount) == 2 &&
                sscanf (rest, " - %31s %*s %1023s", type, options) == 2 &&
                (controller ? strcmp (type, "cgroup") == 0 && has_word (options, controller)
                            : strcmp (type, "cgroup2") == 0);
    }
    if (file)
        fclose (file);
    return found;
}

/* Calls `limit` for this process's cgroup and its ancestors. Returns the least; INFINITY: none.  */
static double least (const char *controller, double (*limit) (const char *folder))
{
    char path[PATH_MAX], root[PATH_MAX], mount[PATH_MAX], folder[2 * PATH_MAX];
    double found = INFINITY;
    if (!cgroup_of_process (controller, path) || !mount_of (controller, root, mount))
        return found;
    const size_t n = strcmp (root, "/") == 0 ? 0 : strlen (root), top = strlen (mount);
    const bool below = strncmp (path, root, n) == 0 && (path[n] == '/' || !path[n]);
    snprintf (folder, sizeof folder, "%s%s", mount, below && !strstr (path, "/..") ? path + n : "");
    for (size_t end = strlen (folder); end > top && folder[end - 1] == '/';)
        folder[--end] = '\0';
    for (;;) {
        const double one = limit (folder);
        found = one > 0 && one < found ? one : found;
        if (strlen (folder) <= top)
            return found;
        *strrchr (folder, '/') = '\0';
    }
}

/* Reads one or two numbers of a file. Returns how many; "max" is INFINITY.  */
static int read_numbers (const char *folder, const char *name, double number[2])
{
    char path[2 * PATH_MAX + 32], line[64] = "";
    snprintf (path, sizeof path, "%s/%s", folder, name);
    FILE *file = open_below (path);
    int n = 0;
    if (file && fgets (line, sizeof line, file)) {
        n = sscanf (line, "%lf %lf", &number[0], &number[1]);
        if (strncmp (line, "max", 3) == 0)
            n = 1, number[0] = INFINITY;
    }
    if (file)
        fclose (file);
    return n;
}

/* CPUs of cgroup v2, and v1.  */
static double cpu_max (const char *folder)
{
    double number[2];
    return read_numbers (folder, "cpu.max", number) == 2 && number[1] > 0 ? number[0] / number[1]
                                                                          : INFINITY;
}

static double cpu_quota (const char *folder)
{
    double quota[2], period[2];
    return read_numbers (folder, "cpu.cfs_quota_us", quota) == 1 && quota[0] > 0 &&
                   read_numbers (folder, "cpu.cfs_period_us", period) == 1 && period[0] > 0
               ? quota[0] / period[0]
               : INFINITY;
}

/* Bytes of cgroup v2, and v1.  */
static double memory_max (const char *folder)
{
    double most[2] = { 0 }, high[2] = { 0 };
    const bool has_most = read_numbers (folder, "memory.max", most) == 1 && most[0] > 0;
    const bool has_high = read_numbers (folder, "memory.high", high) == 1 && high[0] > 0;
    return fmin (has_most ? most[0] : INFINITY, has_high ? high[0] : INFINITY);
}

static double memory_limit (const char *folder)
{
    double most[2];
    return read_numbers (folder, "memory.limit_in_bytes", most) == 1 ? most[0] : INFINITY;
}

/* ---- together -------------------------------------------------------------------------------- */

/* CPUs that the kernel lets this process run on; a machine may have more than cpu_set_t holds.  */
static int affinity (void)
{
    static const size_t bytes = CPUS_MAX / 8;
    cpu_set_t *set = malloc (bytes);
    const int n = set && sched_getaffinity (0, bytes, set) == 0 ? CPU_COUNT_S (bytes, set) : 0;
    free (set);
    return n > 0 ? n : (int) sysconf (_SC_NPROCESSORS_ONLN);
}

static void limit_cpus (wm_allowance_t *self, double n, const char *from)
{
    if (n >= self->cpus)
        return;
    self->cpus = n < 1 ? 1 : (int) n;
    snprintf (self->cpus_from, sizeof self->cpus_from, "%s", from);
}

static void find_cpus (wm_allowance_t *self)
{
    static const char *const names[] = { "WM_THREADS", "JUSTIN_PROCESSORS", "SLURM_CPUS_PER_TASK",
                                         "NSLOTS", "OMP_NUM_THREADS" };
    const long machine = sysconf (_SC_NPROCESSORS_ONLN);
    const char *from = NULL;
    long wanted = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        /* OMP_NUM_THREADS=4,2: four threads, each of which may have two */
        const long value = from_variable (self, names[i], i == 4 ? ',' : '\0');
        if (value && !wanted)
            wanted = value, from = names[i];
    }
    self->machine_cpus = self->cpus = machine > 0 ? (int) machine : 1;
    limit_cpus (self, affinity (), "affinity");
    limit_cpus (self, floor (fmin (least (NULL, cpu_max), least ("cpu", cpu_quota)) + 0.5),
                "cgroup");
    self->kernel_cpus = self->cpus;
    if (wanted && wanted <= self->cpus) { /* also where it is the same: this is what was meant */
        self->cpus = (int) wanted;
        snprintf (self->cpus_from, sizeof self->cpus_from, "%s", from);
    }
}

static void limit_memory (wm_allowance_t *self, double bytes, const char *from)
{
    if (bytes <= 0 || bytes >= (self->memory_bytes ? (double) self->memory_bytes : INFINITY))
        return;
    self->memory_bytes = (uint64_t) bytes;
    snprintf (self->memory_from, sizeof self->memory_from, "%s", from);
}

/* Slurm counts in MiB, and 0 stands for all that the node has.  */
static double slurm_bytes (wm_allowance_t *self, const char *name)
{
    const char *text = getenv (name);
    return text && strcmp (text, "0") == 0 ? 0
                                           : MEBIBYTE * (double) from_variable (self, name, '\0');
}

static void find_memory (wm_allowance_t *self)
{
    const double pages = (double) sysconf (_SC_PHYS_PAGES);
    limit_memory (self, pages * (double) sysconf (_SC_PAGESIZE), "");
    limit_memory (self, fmin (least (NULL, memory_max), least ("memory", memory_limit)), "cgroup");
    limit_memory (self, slurm_bytes (self, "SLURM_MEM_PER_CPU") * self->cpus, "SLURM_MEM_PER_CPU");
    limit_memory (self, slurm_bytes (self, "SLURM_MEM_PER_NODE"), "SLURM_MEM_PER_NODE");
}

void wm_allowance_find (wm_allowance_t *self)
{
    *self = (wm_allowance_t){ 0 };
    find_cpus (self);
    find_memory (self);
}

static wm_allowance_t of_process;

static void find_once (void)
{
    wm_allowance_find (&of_process);
}

const wm_allowance_t *wm_allowance (void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once (&once, find_once);
    return &of_process;
}

/* ---- using it -------------------------------------------------------------------------------- */

static const char *show_bytes (double bytes, char text[24])
{
    if (bytes < 1024 * MEBIBYTE)
        snprintf (text, 24, "%.0f MiB", ceil (bytes / MEBIBYTE));
    else
        snprintf (text, 24, "%.1f GiB", bytes / (1024 * MEBIBYTE));
    return text;
}

const char *wm_allowance_text (const wm_allowance_t *self, int threads,
                               char text[WM_ALLOWANCE_TEXT_BYTES])
{
    char bytes[24] = "memory not known";
    const char *from = threads > 0 ? "--threads" : self->cpus_from;
    if (self->memory_bytes)
        show_bytes ((double) self->memory_bytes, bytes);
    snprintf (text, WM_ALLOWANCE_TEXT_BYTES, "%d of %d CPU%s%s%s%s, %s%s%s%s",
              threads > 0 ? threads : self->cpus, self->machine_cpus,
              self->machine_cpus == 1 ? "" : "s", *from ? " (" : "", from, *from ? ")" : "", bytes,
              *self->memory_from ? " (" : "", self->memory_from, *self->memory_from ? ")" : "");
    return text;
}

void wm_allowance_print (const wm_allowance_t *self, int threads, const char *who)
{
    char text[WM_ALLOWANCE_TEXT_BYTES];
    fprintf (stderr, "%sallocation: %s\n", who, wm_allowance_text (self, threads, text));
    if (*self->ignored)
        fprintf (stderr, "%signored, since it is no whole number above 0: %s\n", who,
                 self->ignored);
}

uint64_t wm_allowance_part (const wm_allowance_t *self, unsigned divisor, uint64_t most)
{
    const uint64_t part = self->memory_bytes / divisor;
    return self->memory_bytes && part < most ? part : most;
}

wm_fault_t wm_allowance_check (const wm_allowance_t *self, uint64_t bytes, const char *what,
                               wm_error_t *error)
{
    char has[24], needs[24];
    if (!self->memory_bytes || self->memory_bytes >= bytes)
        return WM_OK;
    return wm_fault (error, WM_EHOST,
                     "this allocation has %s of memory (%s), and %s needs at least %s: ask the "
                     "batch system for more",
                     show_bytes ((double) self->memory_bytes, has),
                     *self->memory_from ? self->memory_from : "all of this machine", what,
                     show_bytes ((double) bytes, needs));
}
