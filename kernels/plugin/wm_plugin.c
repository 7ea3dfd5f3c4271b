/* wm_plugin.c - see wm_plugin.h.  */
#include "kernels/plugin/wm_plugin.h"
#include "kernels/wm_device.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_text.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SYMBOL "wiremill_engine"
#define GRACE_S 5u  /* after its alarm */
#define LOOK_MS 100 /* whether the process is there */

static_assert (WIREMILL_ENGINE_TENSORS_MAX == WM_MODEL_PORTS_MAX &&
                   WIREMILL_ENGINE_DIMS_MAX == WM_MODEL_DIMS_MAX,
               "tensors are ports");

static bool is_object (const char *path)
{
    char head[4] = "";
    wm_error_t error;
    const int fd = wm_file_open (path, NULL, &error); /* not a pipe */
    const bool is = fd >= 0 && read (fd, head, 4) == 4 && memcmp (head, "\177ELF", 4) == 0;
    if (fd >= 0)
        close (fd);
    return is;
}

bool wm_plugin_is (const char *path)
{
    return wm_text_ends (path, ".so") && is_object (path);
}

wm_fault_t wm_plugin_identify (const char *path, const char *data, char own[65], char hex[65],
                               wm_error_t *error)
{
    char of_data[65], file[PATH_MAX];
    uint8_t sha256[32];
    wm_fault_t fault = wm_file_sha256 (wm_device_plugin_file (path, file), own, error);
    if (fault)
        return fault;
    memcpy (hex, own, 65);
    if (!data)
        return WM_OK;
    if ((fault = wm_file_sha256 (data, of_data, error)))
        return fault;
    wm_digest_t *digest = wm_digest_new ();
    wm_digest_add (digest, hex, 64);
    wm_digest_add (digest, of_data, 64);
    fault = wm_digest_finish (&digest, sha256, error);
    for (size_t i = 0; i < sizeof sha256 && !fault; i++)
        snprintf (hex + 2 * i, 3, "%02x", sha256[i]);
    return fault;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Adds a process.  */
static void add_memory (wm_plugin_memory_t *self, const char *process)
{
    char path[64];
    const uint64_t page = (uint64_t) sysconf (_SC_PAGESIZE);
    unsigned long long resident = 0, shared = 0, data = 0;
    snprintf (path, sizeof path, "/proc/%.20s/statm", process);
    FILE *file = fopen (path, "re");
    if (file && fscanf (file, "%*u %llu %llu %*u %*u %llu", &resident, &shared, &data) == 3) {
        self->used += (resident - shared) * page;
        self->largest = data * page > self->largest ? data * page : self->largest;
    }
    if (file)
        fclose (file);
}

wm_plugin_memory_t wm_plugin_memory (void)
{
    char path[64], child[24];
    wm_plugin_memory_t memory = { 0 };
    add_memory (&memory, "self");
    DIR *threads = opendir ("/proc/self/task");
    for (const struct dirent *one; threads && (one = readdir (threads));) {
        snprintf (path, sizeof path, "/proc/self/task/%.20s/children", one->d_name);
        FILE *file = *one->d_name == '.' ? NULL : fopen (path, "re");
        while (file && fscanf (file, "%20s", child) == 1)
            add_memory (&memory, child);
        if (file)
            fclose (file);
    }
    if (threads)
        closedir (threads);
    return memory;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Whether the bytes of the file that was loaded are as they were then.  */
static bool is_unwritten (const wm_plugin_t *self, const struct stat *now)
{
    const struct stat *was = &self->loaded;
    return now->st_size == was->st_size && now->st_mtim.tv_sec == was->st_mtim.tv_sec &&
           now->st_mtim.tv_nsec == was->st_mtim.tv_nsec;
}

/* A plug-in's text becomes one line of text.  */
static const char *tame (char text[WIREMILL_ENGINE_ERROR_BYTES])
{
    text[WIREMILL_ENGINE_ERROR_BYTES - 1] = 0;
    wm_log_sanitize (text);
    return *text ? text : "it gave no reason";
}

/* Before a call: the C locale for this thread, whatever the plug-in makes the process's.  */
static void enter (const wm_plugin_t *self, wm_plugin_guard_t *guard)
{
    fegetenv (&guard->modes);
    guard->locale = uselocale (self->locale);
}

static void leave (const wm_plugin_guard_t *guard)
{
    uselocale (guard->locale);
    fesetenv (&guard->modes);
}

unsigned wm_plugin_modes (void)
{
#if defined __SSE__
    return __builtin_ia32_stmxcsr () & ~0x3fu; /* without the exceptions that were raised */
#elif defined __aarch64__
    unsigned long modes;
    __asm__ volatile ("mrs %0, fpcr" : "=r"(modes));
    return (unsigned) modes;
#else
    return (unsigned) fegetround ();
#endif
}

/* After what no other thread runs beside: the process's locale is C again, too.  */
static void leave_alone (const wm_plugin_guard_t *guard)
{
    leave (guard);
    setlocale (LC_ALL, "C");
}

wm_fault_t wm_plugin_open (wm_plugin_t *self, wm_error_t *error)
{
    char text[WIREMILL_ENGINE_ERROR_BYTES] = "";
    wm_plugin_guard_t guard;
    enter (self, &guard);
    self->engine = self->table->open (&self->config, text);
    leave_alone (&guard);
    return self->engine
               ? WM_OK
               : wm_fault (error, WM_EHOST, "the plug-in cannot be opened: %s", tame (text));
}

wm_fault_t wm_plugin_score (const wm_plugin_t *self, uint32_t n, const float *in, float *out,
                            wm_error_t *error)
{
    char text[WIREMILL_ENGINE_ERROR_BYTES] = "";
    wm_plugin_guard_t guard;
    enter (self, &guard);
    const int bad = self->table->score (self->engine, n, in, out, text);
    leave (&guard);
    struct stat now;
    const bool is_there = fstat (self->file, &now) == 0;
    if (!is_there && errno != EBADF)
        return wm_fault (error, WM_EPEER,
                         "the plug-in's file is gone from its file system (%s): on a network file "
                         "system keep the old file until the workers have ended",
                         strerror (errno));
    if (!is_there || now.st_ino != self->loaded.st_ino || now.st_dev != self->loaded.st_dev)
        return wm_fault (error, WM_EPEER,
                         "the plug-in breaks its contract: it closed a descriptor that it did not "
                         "open; mend it, and begin a new campaign");
    if (!is_unwritten (self, &now)) /* its code has changed, too */
        return wm_fault (error, WM_EPEER,
                         "the plug-in's file was written to while it was at work: put back the "
                         "file of SHA-256 %s, and replace a plug-in only by mv",
                         self->sha256);
    return bad ? wm_fault (error, WM_EHOST, "the plug-in failed (%d): %s", bad, tame (text))
               : WM_OK;
}

/* ---- description ----------------------------------------------------------------------------- */

static void make_ascii (char *text, size_t bytes)
{
    text[bytes - 1] = 0;
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

/* Turns a tensor into a port. Returns what is wrong with it, or NULL.  */
static const char *read_tensor (const wiremill_engine_tensor_t *tensor, wm_port_t *port)
{
    uint64_t values = 1;
    if (!*tensor->name || !memchr (tensor->name, 0, sizeof tensor->name))
        return "has no name";
    if (tensor->n_dim > WIREMILL_ENGINE_DIMS_MAX)
        return "has too many dimensions";
    *port = (wm_port_t){ .n_dim = (uint8_t) tensor->n_dim };
    snprintf (port->name, sizeof port->name, "%s", tensor->name);
    for (uint32_t d = 0; d < tensor->n_dim; d++) {
        if (!tensor->dim[d])
            return "has a dimension of 0";
        if (__builtin_mul_overflow (values, tensor->dim[d], &values) || values > UINT32_MAX / 4)
            return "is too large";
        port->dim[d] = tensor->dim[d];
    }
    port->n_value = (uint32_t) values;
    return NULL;
}

static wm_fault_t read_tensors (const char *what, const wiremill_engine_tensor_t *tensor,
                                uint32_t n, wm_port_t *port, wm_error_t *error)
{
    if (n < 1 || n > WIREMILL_ENGINE_TENSORS_MAX)
        return wm_fault (error, WM_EBATCH, "the plug-in describes %u %ss: it must have 1 to %d", n,
                         what, WIREMILL_ENGINE_TENSORS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        const char *broken = read_tensor (&tensor[i], &port[i]);
        if (broken)
            return wm_fault (error, WM_EBATCH, "the plug-in describes %s %u, which %s", what, i,
                             broken);
    }
    return WM_OK;
}

wm_fault_t wm_plugin_describe (wm_plugin_t *self, wiremill_engine_description_t *description,
                               wm_port_t input[WM_MODEL_PORTS_MAX],
                               wm_port_t output[WM_MODEL_PORTS_MAX], wm_error_t *error)
{
    char text[WIREMILL_ENGINE_ERROR_BYTES] = "";
    wm_plugin_guard_t guard;
    memset (description, 0, sizeof *description);
    enter (self, &guard);
    const int bad = self->table->describe (&self->config, description, text);
    leave_alone (&guard);
    if (bad)
        return wm_fault (error, WM_EBATCH, "the plug-in describes nothing (%d): %s", bad,
                         tame (text));
    make_ascii (description->name, sizeof description->name);
    make_ascii (description->version, sizeof description->version);
    const uint32_t known = WIREMILL_ENGINE_CONCURRENT | WIREMILL_ENGINE_SAME_BITS;
    if (description->flags & ~known)
        return wm_fault (error, WM_EBATCH, "the plug-in has flags of a later version (0x%x)",
                         description->flags);
    wm_fault_t fault =
        read_tensors ("input", description->input, description->n_input, input, error);
    if (!fault)
        fault = read_tensors ("output", description->output, description->n_output, output, error);
    return fault;
}

/* ---- load ------------------------------------------------------------------------------------ */

/* Makes a file of the bytes of --model that has a path.  */
static wm_fault_t lend_model (wm_plugin_t *self, const void *data, size_t bytes, wm_error_t *error)
{
    if (!data)
        return WM_OK;
    size_t done = 0;
    self->model = memfd_create ("wiremill-model", MFD_CLOEXEC);
    while (self->model >= 0 && done < bytes) {
        const ssize_t n = write (self->model, (const uint8_t *) data + done, bytes - done);
        if (n < 0 && errno != EINTR)
            return wm_fault (error, WM_EHOST, "no memory for the plug-in's model: %s",
                             strerror (errno));
        done += n > 0 ? (size_t) n : 0;
    }
    if (self->model < 0)
        return wm_fault (error, WM_EHOST, "no memory for the plug-in's model: %s",
                         strerror (errno));
    /* Not /proc/self: a process that the plug-in starts may open it, too.  */
    snprintf (self->model_path, sizeof self->model_path, "/proc/%ld/fd/%d", (long) getpid (),
              self->model);
    self->config.model_path = self->model_path;
    self->config.model = data;
    self->config.model_bytes = bytes;
    return WM_OK;
}

/* Whether the path still names that file.  */
static bool is_unchanged (const wm_plugin_t *self, const char *path)
{
    struct stat now;
    return stat (path, &now) == 0 && now.st_dev == self->loaded.st_dev &&
           now.st_ino == self->loaded.st_ino && is_unwritten (self, &now);
}

static wm_fault_t open_object (wm_plugin_t *self, const char *path, const char *sha256,
                               wm_error_t *error)
{
    char real[PATH_MAX];
    wm_plugin_guard_t guard;
    if (!realpath (path, real) || (self->file = open (real, O_RDONLY | O_CLOEXEC)) < 0 ||
        fstat (self->file, &self->loaded))
        return wm_fault (error, WM_EHOST, "the plug-in %.300s cannot be read: %s", path,
                         strerror (errno));
    if (wm_file_sha256 (real, self->sha256, error))
        return error->fault;
    if (sha256 && strcmp (sha256, self->sha256) != 0)
        return wm_fault (error, WM_EPEER,
                         "the plug-in %.140s has SHA-256 %s, but the campaign's has %s: build it "
                         "from the same source by the same compiler, or copy the file",
                         path, self->sha256, sha256);
    if (!is_object (real))
        return wm_fault (error, WM_EBATCH, "%.300s is no shared object: not a plug-in%s", path,
                         wm_text_ends (path, ".py")
                             ? "; `python -m wiremill plugin FILE.py` makes one of it"
                             : "");
    const unsigned modes = wm_plugin_modes ();
    enter (self, &guard);
    void *object = dlopen (real, RTLD_NOW | RTLD_LOCAL); /* its constructors run */
    self->changes_modes = wm_plugin_modes () != modes;
    leave_alone (&guard);
    if (!object)
        return wm_fault (error, WM_EHOST, "the plug-in cannot be loaded: %.400s", dlerror ());
    if (!is_unchanged (self, real))
        return wm_fault (error, WM_EAGAIN, "the plug-in %.300s changed while it was loaded", path);
    self->table = dlsym (object, SYMBOL);
    if (!self->table)
        return wm_fault (error, WM_EBATCH,
                         "%.300s exports no symbol " SYMBOL ": not a plug-in (wiremill_engine.h)",
                         path);
    if (self->table->version != WIREMILL_ENGINE_VERSION)
        return wm_fault (error, WM_EBATCH,
                         "%.300s is a plug-in of version %u of the contract; this wiremill has "
                         "version %u: compile it with this wiremill_engine.h",
                         path, self->table->version, WIREMILL_ENGINE_VERSION);
    return self->table->describe && self->table->open && self->table->score && self->table->close
               ? WM_OK
               : wm_fault (error, WM_EBATCH, "%.300s leaves out a function of " SYMBOL, path);
}

static pid_t process; /* the one that a plug-in was loaded in */

/* In a child that a plug-in forks.  */
static void end_with_parent (void)
{
    if (!wm_process_follow (process, SIGKILL))
        _exit (1);
    process = getpid (); /* the parent of its own children */
}

wm_fault_t wm_plugin_load (wm_plugin_t *self, const char *path, const char *sha256,
                           const void *data, size_t bytes, uint32_t threads, wm_error_t *error)
{
    char file[PATH_MAX];
    *self = (wm_plugin_t){ .model = -1,
                           .file = -1,
                           .config = { .model_path = "", .threads = threads } };
    self->locale = newlocale (LC_ALL_MASK, "C", (locale_t) 0);
    if (!self->locale)
        return wm_fault (error, WM_EHOST, "no memory for a plug-in");
    if (!process)
        pthread_atfork (NULL, NULL, end_with_parent);
    process = getpid ();
    wm_fault_t fault = open_object (self, wm_device_plugin_file (path, file), sha256, error);
    return fault ? fault : lend_model (self, data, bytes, error);
}

/* ---- a process of its own -------------------------------------------------------------------- */

bool wm_plugin_hear (int end, pid_t pid, unsigned patience_s, void *answer, size_t bytes,
                     int *status)
{
    const int64_t until = wm_now_ms () + 1000 * (int64_t) (patience_s + GRACE_S);
    struct pollfd from = { .fd = end, .events = POLLIN };
    bool ended = false, late = false;
    int ready = 0;
    /* What the plug-in starts may keep the pipe open, so that no end of it shows.  */
    while (!ended && !late && (ready = poll (&from, 1, LOOK_MS)) <= 0) {
        ended = waitpid (pid, status, WNOHANG) == pid;
        late = wm_now_ms () >= until;
    }
    ready = ready > 0 ? ready : poll (&from, 1, 0); /* what it wrote before its end */
    const bool told =
        ready > 0 && TEMP_FAILURE_RETRY (read (end, answer, bytes)) == (ssize_t) bytes;
    while (!ended && !told && !late && waitpid (pid, status, WNOHANG) == 0) {
        late = wm_now_ms () >= until;
        poll (NULL, 0, 1); /* it has closed the pipe: most often, it ends */
    }
    if (!ended && (told || late)) {
        kill (pid, SIGKILL);
        TEMP_FAILURE_RETRY (waitpid (pid, status, 0));
    }
    if (late)
        *status = SIGALRM;
    return told;
}

void wm_plugin_clear (wm_plugin_t *self)
{
    if (self->engine)
        self->table->close (self->engine);
    if (self->model >= 0)
        close (self->model);
    if (self->file >= 0)
        close (self->file);
    if (self->locale)
        freelocale (self->locale);
    *self = (wm_plugin_t){ .model = -1, .file = -1 };
}
