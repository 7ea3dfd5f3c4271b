/* doctor.c - `wiremill doctor`: is this machine fit, and what to do if not.

   One line for each check: ok, warn (it will work, less well) or FAIL (it will not), and what to
   do. Nothing is changed, apart from a temporary file in the folder that is checked.  */

#include "kernels/wm_device.h"
#include "kernels/opencl/wm_opencl_device.h"
#include "kernels/wm_driver.h"
#include "ops/ask/wm_show.h"
#include "ops/campaign/wm_processes.h"
#include "ops/process/wm_beside.h"
#include "ops/verbs.h"
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_environment.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_process.h"
#include "schema/confine/wm_confine.h"

#include <czmq.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOW_DISK_BYTES 2e9 /* a few journal segments of 256 MiB */
#define LOW_FILES 1024
#define DRIVER_S 20u /* to answer */
#define SLOW_FSYNC_MS 50 /* ten times a group commit's share of a second */

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "campaign", .letter = 'c', .value = "DIR", .path = WM_PATH_FOLDER,
     .help = "the folder a campaign is in or will be in (default: here)"},
    {.name = NULL},
};

static int doctor_main (const wm_args_t *args);
const wm_verb_t wm_verb_doctor = {
    .name = "doctor", .task = SCORE_TASK, .rest = "[DIR]",
    .summary = "check whether this machine is fit, and advise",
    .text = "  wiremill doctor out/\n",
    .options = options, .run = doctor_main };
/* clang-format on */

typedef enum { GOOD, WARN, FAIL } verdict_t;

static int failures;

static void report (verdict_t verdict, const char *what, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));
static void report (verdict_t verdict, const char *what, const char *format, ...)
{
    static const char *const label[] = { "ok  ", "warn", "FAIL" };
    va_list args;
    printf ("%s  %-11s ", label[verdict], what);
    va_start (args, format);
    vprintf (format, args);
    va_end (args);
    putchar ('\n');
    failures += verdict == FAIL;
}

/* ---- the machine ----------------------------------------------------------------------------- */

#if defined __aarch64__
static void check_cpu (void)
{
    const unsigned long has = getauxval (AT_HWCAP), more = getauxval (AT_HWCAP2);
    report (GOOD, "cpu", "%ld cores, AArch64, NEON%s%s%s", sysconf (_SC_NPROCESSORS_ONLN),
            more & HWCAP2_BF16 ? " BF16" : "", more & HWCAP2_I8MM ? " I8MM" : "",
            has & HWCAP_SVE ? " SVE" : "");
}
#else
/* Whether /proc/cpuinfo's first flags line has this word.  */
static bool has_flag (const char *flags, const char *word)
{
    const size_t n = strlen (word);
    for (const char *p = flags; (p = strstr (p, word)); p += n)
        if (p[-1] == ' ' && (p[n] == ' ' || p[n] == '\n' || !p[n]))
            return true;
    return false;
}

static void check_cpu (void)
{
    char *line = NULL, model[128] = "unknown";
    size_t room = 0;
    bool avx2 = false, avx512 = false, bf16 = false, amx = false;
    FILE *file = fopen ("/proc/cpuinfo", "re");
    while (file && getline (&line, &room, file) > 0) {
        const char *colon = strchr (line, ':');
        if (colon && strncmp (line, "model name", 10) == 0)
            snprintf (model, sizeof model, "%.*s", (int) strcspn (colon + 2, "\n"), colon + 2);
        if (colon && strncmp (line, "flags", 5) == 0) {
            avx2 = has_flag (colon, "avx2") && has_flag (colon, "fma");
            avx512 = has_flag (colon, "avx512f") && has_flag (colon, "avx512bw");
            bf16 = has_flag (colon, "avx512_bf16");
            amx = has_flag (colon, "amx_bf16");
            break;
        }
    }
    free (line);
    if (file)
        fclose (file);
    report (avx2 ? GOOD : WARN, "cpu", "%ld cores, %s,%s%s%s%s%s", sysconf (_SC_NPROCESSORS_ONLN),
            model, avx2 ? " AVX2" : "", avx512 ? " AVX-512" : "", bf16 ? " BF16" : "",
            amx ? " AMX" : "", avx2 ? "" : " no AVX2: scoring works, slowly");
}
#endif

/* Which kernel each precision takes here: the first of the sparse engine's table that the CPU can
   run. */
static void check_kernels (void)
{
    char taken[3][64] = { "", "", "" }, more[3][160] = { "", "", "" };
    wm_rule_t rule;
    for (uint32_t i = 0; wm_device_rule (i, &rule); i++) {
        const bool allowed[3] = { rule.fp32, rule.split, rule.fast };
        for (int p = 0; p < 3; p++) {
            char word[32];
            snprintf (word, sizeof word, "/%s,", rule.arithmetic);
            if (!rule.here || !allowed[p] || strstr (taken[p], "fp32") ||
                strstr (more[p], "fp32") || strstr (more[p], word) ||
                (*more[p] && strncmp (strchr (taken[p], '/') + 1, rule.arithmetic, 8) == 0))
                continue;
            char *to = *taken[p] ? more[p] + strlen (more[p]) : taken[p];
            snprintf (to, 48, "%s%s/%s", to == taken[p] ? "" : ", ", rule.isa, rule.arithmetic);
        }
    }
    report (GOOD, "fp32", "%s: the same bits on every CPU", taken[0]);
    report (GOOD, "split", "%s%s: the first that is exact enough", taken[1], more[1]);
    report (GOOD, "fast", "%s%s: likewise", taken[2], more[2]);
    char missing[256] = "";
    const char *isa, *precision;
    for (uint32_t i = 0; (isa = wm_device_missing (i, &precision)) != NULL; i++) {
        const size_t n = strlen (missing);
        snprintf (missing + n, sizeof missing - n, "%s%s/%s", n ? ", " : "", isa, precision);
    }
    if (*missing)
        report (GOOD, "kernels", "this CPU cannot run %s", missing);
}

static void check_memory (void)
{
    char own[WM_ALLOWANCE_TEXT_BYTES];
    const wm_allowance_t *allowance = wm_allowance ();
    const double page = (double) sysconf (_SC_PAGESIZE);
    const double total = page * (double) sysconf (_SC_PHYS_PAGES);
    const double available = page * (double) sysconf (_SC_AVPHYS_PAGES);
    const double GiB = 1 << 30;
    report (GOOD, "memory", "%.1f GiB, %.1f GiB unused", total / GiB, available / GiB);
    wm_error_t error;
    wm_allowance_text (allowance, 0, own);
    if (wm_allowance_check (allowance, WM_PROCESSES_BYTES + WM_PROCESSES_WORKER_BYTES,
                            "wiremill run", &error))
        report (FAIL, "allocation", "%s: %s", own, error.text);
    else
        report (GOOD, "allocation", "%s", own);
    if (*allowance->ignored)
        report (WARN, "allocation", "ignored, since it is no whole number above 0: %s",
                allowance->ignored);
    struct rlimit files;
    if (getrlimit (RLIMIT_NOFILE, &files) == 0)
        report (files.rlim_max < LOW_FILES ? WARN : GOOD, "open files", "%llu allowed%s",
                (unsigned long long) files.rlim_max,
                files.rlim_max < LOW_FILES ? ": fewer workers can connect; raise it with ulimit -n"
                                           : "");
}

static void check_clock (void)
{
    struct timex state = { .modes = 0 };
    const time_t now = time (NULL);
    if (now < 1700000000) /* before this was written */
        report (WARN, "clock", "shows %.24s; set it: times in status are wrong, nothing else",
                ctime (&now));
    else if (adjtimex (&state) == TIME_ERROR)
        report (WARN, "clock", "not synchronised (only shown times depend on it)");
    else
        report (GOOD, "clock", "synchronised");
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* Writes, syncs and locks a file there; milliseconds of an fdatasync, -1 with errno.  */
static double try_folder (const char *folder)
{
    char path[PATH_MAX], block[4096] = { 0 };
    struct timespec a, b;
    if (snprintf (path, sizeof path, "%s/.wiremill-doctor-%ld", folder, (long) getpid ()) >=
        (int) sizeof path)
        return -1;
    const int fd = open (path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    const bool written = write (fd, block, sizeof block) == (ssize_t) sizeof block;
    clock_gettime (CLOCK_MONOTONIC, &a);
    const bool synced = written && fdatasync (fd) == 0;
    clock_gettime (CLOCK_MONOTONIC, &b);
    const int saved = errno;
    close (fd);
    unlink (path);
    errno = saved;
    return synced ? (double) (b.tv_sec - a.tv_sec) * 1e3 + (double) (b.tv_nsec - a.tv_nsec) / 1e6
                  : -1;
}

static void check_folder (const char *wanted)
{
    char folder[PATH_MAX], space[32];
    struct statvfs fs;
    snprintf (folder, sizeof folder, "%s", wanted);
    if (access (folder, F_OK))
        report (WARN, "folder", "%s does not exist; the folder that it would be made in is checked",
                wanted);
    while (access (folder, F_OK) && strrchr (folder, '/') > folder) /* not made yet: its parent */
        *strrchr (folder, '/') = 0;
    if (access (folder, F_OK))
        snprintf (folder, sizeof folder, *folder == '/' ? "/" : ".");
    const char *network = wm_folder_network (folder);
    if (network)
        report (FAIL, "folder",
                "%s is on a network file system (%s): put the campaign on a local disk "
                "with --campaign DIR",
                folder, network);
    const double ms = try_folder (folder);
    if (ms < 0)
        report (FAIL, "folder", "%s cannot be written: %s", folder, strerror (errno));
    else
        report (ms > SLOW_FSYNC_MS ? WARN : GOOD, "folder", "%s, local, an fdatasync takes %.2f ms",
                folder, ms);
    if (statvfs (folder, &fs))
        return;
    const double left = (double) fs.f_bavail * (double) fs.f_frsize;
    report (left < LOW_DISK_BYTES ? WARN : GOOD, "disk",
            "%s free; the journal needs 16 bytes a hit until its file is written%s",
            wm_show_bytes (left, space),
            left < LOW_DISK_BYTES ? "; a full disk pauses the campaign, nothing is lost" : "");
}

/* ---- libraries, sockets, devices ------------------------------------------------------------- */

static void check_libraries (void)
{
    int major, minor, patch;
    unsigned hmajor, hminor, hpatch;
    zmq_version (&major, &minor, &patch);
    report (major == 4 && minor >= 3 ? GOOD : FAIL, "libzmq", "%d.%d.%d", major, minor, patch);
    report (GOOD, "czmq", "%d.%d.%d", CZMQ_VERSION_MAJOR, CZMQ_VERSION_MINOR, CZMQ_VERSION_PATCH);
    H5get_libversion (&hmajor, &hminor, &hpatch);
    report (hmajor == 1 && hminor >= 10 ? GOOD : WARN, "hdf5", "%u.%u.%u", hmajor, hminor, hpatch);
    void *sqlite = dlopen ("libsqlite3.so.0", RTLD_LAZY);
    const char *(*version) (void);
    *(void **) &version = sqlite ? dlsym (sqlite, "sqlite3_libversion") : NULL;
    report (version ? GOOD : FAIL, "sqlite", "%s",
            version ? version () : "libsqlite3.so.0 is missing: apt-get install libsqlite3-0");
    if (sqlite)
        dlclose (sqlite);
}

static void check_programs (void)
{
    static const char *const names[] = { "wiremill-broker", "wiremill-producer",
                                         "wiremill-worker" };
    char path[PATH_MAX];
    wm_error_t error;
    bool missing = false;
    for (size_t i = 0; i < 3; i++)
        if (wm_beside_find (path, names[i], &error)) {
            report (FAIL, "programs", "%s", error.text);
            missing = true;
        }
    if (!missing)
        report (GOOD, "programs", "broker, producer and worker lie beside this one");
}

typedef struct {
    const char *name; /* its file's name begins so */
    char path[PATH_MAX];
} loaded_t;

static int find_loaded (struct dl_phdr_info *info, size_t size, void *wanted)
{
    loaded_t *self = wanted;
    const char *slash = strrchr (info->dlpi_name, '/');
    (void) size;
    return slash && strncmp (slash + 1, self->name, strlen (self->name)) == 0 &&
           realpath (info->dlpi_name, self->path);
}

/* What the library says of itself: ONNX Runtime, or OpenVINO's C interface. "": nothing.  */
static void read_version (const char *path, char text[40])
{
    struct {
        const char *build, *description;
    } version;
    const struct {
        void *api;
        const char *(*version) (void);
    } * (*base) (void);
    int (*ask) (void *);
    void (*release) (void *);
    void *library = dlopen (path, RTLD_LAZY | RTLD_NOLOAD);
    *(void **) &base = library ? dlsym (library, "OrtGetApiBase") : NULL;
    *(void **) &ask = library ? dlsym (library, "ov_get_openvino_version") : NULL;
    *(void **) &release = library ? dlsym (library, "ov_version_free") : NULL;
    *text = 0;
    if (base)
        snprintf (text, 40, "%.30s, ", base ()->version ());
    else if (ask && release && ask (&version) == 0) {
        snprintf (text, 40, "%.*s, ", (int) strcspn (version.build, "-"), version.build);
        release (&version);
    }
    if (library)
        dlclose (library);
}

static void check_general (const char *engine, const char *library, const char *without)
{
    char version[40];
    wm_error_t error;
    loaded_t found = { .name = library };
    if (!wm_device_is_here (engine, &error)) {
        report (WARN, engine, "%s: %s", without, error.text);
        return;
    }
    dl_iterate_phdr (find_loaded, &found);
    read_version (found.path, version);
    report (GOOD, engine, "%s%s", version, *found.path ? found.path : "it loads");
}

static void check_engines (void)
{
    static const char none[] = "no models outside the EmTrkMichelId family";
    wm_error_t error;
    const bool is_openvino = wm_device_is_here ("openvino", &error),
               is_other = wm_device_is_here ("onnxruntime", &error);
    check_general ("openvino", "libopenvino_c.so",
                   is_other ? "ONNX Runtime alone scores models outside the EmTrkMichelId family"
                            : none);
    check_general ("onnxruntime", "libonnxruntime.so",
                   is_openvino ? "no second engine checks OpenVINO where a model is imported"
                               : none);
}

/* What --engine torch would find. Another Python is no fault: nothing else needs it.  */
static void check_torch (void)
{
    char where[PATH_MAX] = "";
    FILE *said = popen ("exec timeout 20 \"${WIREMILL_PYTHON:-python3}\" -c 'import sys; "
                        "del sys.path[0]; import importlib.util as u; s = u.find_spec (\"torch\"); "
                        "print (s and s.origin or \"\")' 2>/dev/null",
                        "re");
    if (said && !fgets (where, sizeof where, said))
        *where = 0;
    if (said)
        pclose (said);
    where[strcspn (where, "\n")] = 0;
    report (GOOD, "torch", "%s%s", *where ? where : "none",
            *where ? "; --engine torch scores TorchScript by it"
                   : ": --engine torch needs pip install torch, apt-get install python3-torch, or "
                     "WIREMILL_PYTHON=PYTHON that has it");
}

static void check_sockets (void)
{
    if (zmq_has ("curve"))
        report (GOOD, "keys", "libzmq has CURVE: brokers for other machines ask for keys");
    else
        report (FAIL, "keys",
                "libzmq has no CURVE: only loopback, ipc and --insecure work; install a libzmq "
                "that is built with libsodium");
    zsock_t *tcp = zsock_new (ZMQ_DEALER);
    const int port = zsock_bind (tcp, "tcp://127.0.0.1:*");
    zsock_destroy (&tcp);
    report (port > 0 ? GOOD : FAIL, "loopback",
            port > 0 ? "a port can be bound" : "no port of 127.0.0.1 can be bound");
    const char *runtime = getenv ("XDG_RUNTIME_DIR");
    const char *folder = runtime && *runtime ? runtime : "/tmp";
    report (access (folder, W_OK) ? WARN : GOOD, "ipc", "sockets of long campaign paths go to %s%s",
            folder, access (folder, W_OK) ? ", which cannot be written" : "");
}

/* What holds the readers of events and the imports of models: schema/CONFINEMENT.md.  */
static void check_confinement (void)
{
    const int landlock = wm_confine_landlock ();
    const bool seccomp = wm_confine_seccomp ();
    char version[24] = "no Landlock";
    if (landlock)
        snprintf (version, sizeof version, "Landlock %d", landlock);
    report (seccomp && landlock ? GOOD : WARN, "confinement", "%s, %s%s",
            seccomp ? "seccomp" : "no seccomp", version,
            seccomp && landlock ? "" : ": hostile inputs and models are held by less");
}

static void check_environment (void)
{
    const char *removed = wm_environment_removed ();
    report (GOOD, "environment", "%s%s", *removed ? "without effect here: " : "as it is", removed);
}

static int check_gpu (const void *none)
{
    const wm_driver_t driver = wm_driver_open (WM_DRIVER_LEAST);
    (void) none;
    if (driver.state == WM_DRIVER_GOOD)
        report (GOOD, "gpu", "%d, driver for CUDA %d.%d; --engine auto and cuda try it",
                driver.n_gpu, driver.version / 1000, driver.version / 10 % 100);
    else
        report (driver.state == WM_DRIVER_NONE || driver.state == WM_DRIVER_NO_GPU ? GOOD : WARN,
                "gpu", "the CPU scores: %s", driver.why);
    return WM_EXIT_OK;
}

/* What opencl:N means here.  */
static int check_opencl (const void *none)
{
    wm_opencl_info_t info[WM_OPENCL_DEVICES_MAX];
    wm_error_t error;
    uint32_t n;
    (void) none;
    if (wm_opencl_list (info, &n, &error))
        report (GOOD, "opencl", "none: %s", error.text);
    for (uint32_t i = 0; i < n; i++)
        report (GOOD, "opencl", "%u: %s, %s, %.1f GiB (%s %s); --engine opencl %s%s", i,
                info[i].name, info[i].is_cpu ? "a CPU" : "a GPU",
                (double) info[i].memory_bytes / (1u << 30), info[i].platform, info[i].driver,
                *info[i].lacks   ? "does not take it: it lacks "
                : info[i].is_cpu ? "takes it, auto does not"
                                 : "and auto try it",
                info[i].lacks);
    return WM_EXIT_OK;
}

/* Asks drivers in a process of its own, which they may end.  */
static void check_drivers (const char *what, int (*check) (const void *none), const char *advice)
{
    const int status = wm_process_apart ("wm-driver", DRIVER_S, check, NULL),
              number = WIFSIGNALED (status) ? WTERMSIG (status) : 0;
    if (status == -1)
        report (WARN, what, "no process to ask its drivers: %s", strerror (errno));
    else if (number == SIGALRM)
        report (WARN, what, "a driver did not answer within %u s: %s", DRIVER_S, advice);
    else if (number)
        report (WARN, what, "a driver ended the process that asked it by signal %d (%s): %s",
                number, strsignal (number), advice);
    else if (WEXITSTATUS (status) != WM_EXIT_OK)
        report (WARN, what, "a driver ended the process that asked it with exit code %d: %s",
                WEXITSTATUS (status), advice);
}

static int doctor_main (const wm_args_t *args)
{
    const char *folder = wm_args_text (args, "campaign");
    if (!folder)
        folder = wm_args_rest (args, 0);
    zsys_handler_set (NULL);
    check_cpu ();
    check_kernels ();
    check_memory ();
    check_clock ();
    check_folder (folder ? folder : ".");
    check_libraries ();
    check_programs ();
    check_engines ();
    check_torch ();
    check_sockets ();
    check_confinement ();
    check_environment ();
    check_drivers ("gpu", check_gpu, "install NVIDIA's driver again, or use --device cpu");
    check_drivers ("opencl", check_opencl,
                   "find out which, by moving its .icd file out of /etc/OpenCL/vendors");
    if (failures)
        printf ("%d check%s failed\n", failures, failures == 1 ? "" : "s");
    return failures ? WM_EXIT_FAILURE : WM_EXIT_OK;
}
