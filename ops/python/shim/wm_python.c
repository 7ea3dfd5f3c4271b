/* wm_python.c - a plug-in engine whose code is Python (gpuworker/wiremill_engine.h).

   A file NAME.so of `python -m wiremill plugin` is this shared object with a zip archive behind it,
   which Python runs as a program: `python3 NAME.so MODEL`. So the file's SHA-256 is that of the
   Python code, too: every process runs a copy that is taken while wiremill loads the file, also
   when another file has taken its place. Each call of score has a Python process of its own, at
   most one for each thread; they stay for later calls. A process gets requests at descriptor 3 and
   answers there:

     request   wm_python_request_t, then n rows
     answer    wm_python_answer_t, then `bytes` bytes: a description, n answers, or why not

   Processes end with the socket. One that crashes or raises ends the engine, as the contract has
   it: wiremill starts both again, and halves the rows.  */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <wiremill_engine.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FD 3

enum { DESCRIBE = 1, SCORE = 2 };

typedef struct {
    uint32_t type, n;
} wm_python_request_t;

typedef struct {
    uint32_t bad; /* 0: done; else the bytes are a text */
    uint32_t reserved;
    uint64_t bytes;
} wm_python_answer_t;

typedef struct python_t {
    struct python_t *next;
    pid_t pid;
    int fd;
} python_t;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    python_t *idle;
    uint32_t n, most; /* processes */
    wiremill_engine_description_t about;
    size_t n_value, n_output;
    char model_path[256];
} engine = { .lock = PTHREAD_MUTEX_INITIALIZER, .freed = PTHREAD_COND_INITIALIZER, .most = 1 };

static int code = -1; /* a memory file with a copy of this one; -1: it could not be made */
static int code_errno;

/* Before wiremill looks whether the file that it has hashed is the one that it has loaded.  */
static void __attribute__ ((constructor)) keep_code (void)
{
    Dl_info place;
    struct stat about;
    const int from =
        dladdr (&wiremill_engine, &place) ? open (place.dli_fname, O_RDONLY | O_CLOEXEC) : -1;
    off_t at = 0;
    code = from >= 0 && fstat (from, &about) == 0 ? memfd_create ("wiremill-python", MFD_CLOEXEC)
                                                  : -1;
    code_errno = code < 0 ? errno : 0;
    while (code >= 0 && at < about.st_size) {
        const ssize_t n = sendfile (code, from, &at, (size_t) (about.st_size - at));
        if (n > 0)
            continue;
        code_errno = n < 0 ? errno : ESTALE; /* 0: it is shorter now */
        close (code);
        code = -1;
    }
    if (from >= 0)
        close (from);
}

/* ---- a process ------------------------------------------------------------------------------- */

static const char *python (void)
{
    const char *name = getenv ("WIREMILL_PYTHON");
    return name && *name ? name : "python3";
}

/* The environment with one thread for each library of numbers: processes are the threads.  */
static char **make_environment (void)
{
    static char *const one[] = { "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1",
                                 "PYTHONDONTWRITEBYTECODE=1" };
    const size_t n_one = sizeof one / sizeof *one;
    size_t n = 0;
    while (environ[n])
        n++;
    char **all = calloc (n + n_one + 1, sizeof *all);
    if (!all)
        return NULL;
    memcpy (all, one, sizeof one); /* the first of a name counts */
    memcpy (all + n_one, environ, n * sizeof *all);
    return all;
}

/* It needs no wm_process_name (), which a plug-in does not have: it becomes Python at once.  */
static void __attribute__ ((noreturn)) be_python (int fd, char *const *argv, char *const *all)
{
    sigset_t none;
    sigemptyset (&none);
    sigprocmask (SIG_SETMASK, &none, NULL);
    if (fd == FD ? fcntl (fd, F_SETFD, 0) == 0 : dup2 (fd, FD) == FD) {
        close_range (FD + 1, ~0u, 0);
        execvpe (argv[0], argv, all);
    }
    _exit (127);
}

static python_t *start (char *error)
{
    char program[64];
    int pair[2] = { -1, -1 };
    python_t *self = calloc (1, sizeof *self);
    char **all = make_environment ();
    if (code < 0)
        errno = code_errno;
    if (!self || !all || code < 0 || socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        snprintf (error, WIREMILL_ENGINE_ERROR_BYTES, "no process for Python: %s",
                  strerror (errno));
        free (all);
        free (self);
        return NULL;
    }
    snprintf (program, sizeof program, "/proc/%ld/fd/%d", (long) getpid (), code);
    char *argv[] = { (char *) (uintptr_t) python (), program, engine.model_path, NULL };
    self->fd = pair[0];
    self->pid = fork ();
    if (self->pid == 0)
        be_python (pair[1], argv, all);
    close (pair[1]);
    free (all);
    if (self->pid > 0)
        return self;
    snprintf (error, WIREMILL_ENGINE_ERROR_BYTES, "no process for Python: %s", strerror (errno));
    close (pair[0]);
    free (self);
    return NULL;
}

/* Ends a process. `error` gets what became of it.  */
static void end (python_t *self, char *error)
{
    int status = 0;
    close (self->fd);
    kill (self->pid, SIGKILL); /* one that has ended keeps its status */
    while (waitpid (self->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (error && WIFSIGNALED (status))
        snprintf (error, WIREMILL_ENGINE_ERROR_BYTES, "Python was ended by signal %d (%s)",
                  WTERMSIG (status), strsignal (WTERMSIG (status)));
    else if (error)
        snprintf (error, WIREMILL_ENGINE_ERROR_BYTES,
                  WEXITSTATUS (status) == 127
                      ? "%.100s cannot be started; WIREMILL_PYTHON names another Python"
                      : "%.100s ended with %d",
                  python (), WEXITSTATUS (status));
    free (self);
}

static int put (const python_t *self, const void *data, size_t bytes)
{
    for (const uint8_t *at = data; bytes;) {
        const ssize_t n = send (self->fd, at, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        at += n, bytes -= (size_t) n;
    }
    return 0;
}

static int take (const python_t *self, void *to, size_t bytes)
{
    for (uint8_t *at = to; bytes;) {
        const ssize_t n = recv (self->fd, at, bytes, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        at += n, bytes -= (size_t) n;
    }
    return 0;
}

/* Asks for `bytes` bytes. -1: the process has ended, or gave the reason in error.  */
static int ask (const python_t *self, uint32_t type, uint32_t n, const float *in, void *to,
                size_t bytes, char *error)
{
    const wm_python_request_t request = { type, n };
    wm_python_answer_t answer;
    if (put (self, &request, sizeof request) ||
        (in && put (self, in, n * engine.n_value * sizeof *in)) ||
        take (self, &answer, sizeof answer))
        return -1;
    if (answer.bad) {
        if (answer.bytes >= WIREMILL_ENGINE_ERROR_BYTES || take (self, error, answer.bytes))
            return -1;
        error[answer.bytes] = 0;
        return -1;
    }
    return answer.bytes == bytes ? take (self, to, bytes) : -1;
}

/* ---- the contract ---------------------------------------------------------------------------- */

static size_t values (const wiremill_engine_tensor_t *tensor, uint32_t n)
{
    size_t all = 0;
    for (uint32_t i = 0; i < n && i < WIREMILL_ENGINE_TENSORS_MAX; i++) {
        size_t one = 1;
        for (uint32_t d = 0; d < tensor[i].n_dim && d < WIREMILL_ENGINE_DIMS_MAX; d++)
            one *= tensor[i].dim[d];
        all += one;
    }
    return all;
}

/* Starts a process, which describes itself; its predecessors have done so alike.  */
static python_t *begin (wiremill_engine_description_t *about, char *error)
{
    python_t *self = start (error);
    if (self && ask (self, DESCRIBE, 0, NULL, about, sizeof *about, error)) {
        end (self, *error ? NULL : error);
        self = NULL;
    }
    return self;
}

static int describe (const wiremill_engine_config_t *config,
                     wiremill_engine_description_t *description, char *error)
{
    snprintf (engine.model_path, sizeof engine.model_path, "%s", config->model_path);
    if (!engine.n) {
        engine.idle = begin (&engine.about, error);
        engine.n = engine.idle != NULL;
        engine.n_value = values (engine.about.input, engine.about.n_input);
        engine.n_output = values (engine.about.output, engine.about.n_output);
    }
    *description = engine.about;
    return !engine.n;
}

static void *open_engine (const wiremill_engine_config_t *config, char *error)
{
    (void) error;
    engine.most = config->threads;
    return &engine;
}

/* A process for one call: an idle one, or one more. NULL: the reason is in error.  */
static python_t *borrow (char *error)
{
    pthread_mutex_lock (&engine.lock);
    while (!engine.idle && engine.n >= engine.most)
        pthread_cond_wait (&engine.freed, &engine.lock);
    python_t *self = engine.idle;
    if (self)
        engine.idle = self->next;
    engine.n += !self;
    pthread_mutex_unlock (&engine.lock);
    if (self)
        return self;
    wiremill_engine_description_t about;
    self = begin (&about, error);
    if (self && memcmp (&about, &engine.about, sizeof about) != 0) {
        end (self, NULL);
        self = NULL;
        snprintf (error, WIREMILL_ENGINE_ERROR_BYTES,
                  "a second process of Python describes other inputs or outputs");
    }
    return self;
}

/* Gives it back; NULL: it has ended.  */
static void give_back (python_t *self)
{
    pthread_mutex_lock (&engine.lock);
    if (self) {
        self->next = engine.idle;
        engine.idle = self;
    } else
        engine.n--;
    pthread_cond_signal (&engine.freed);
    pthread_mutex_unlock (&engine.lock);
}

static int score (void *handle, uint32_t n, const float *in, float *out, char *error)
{
    (void) handle;
    python_t *self = borrow (error);
    const size_t bytes = n * engine.n_output * sizeof *out;
    if (self && ask (self, SCORE, n, in, out, bytes, error)) {
        end (self, *error ? NULL : error);
        self = NULL;
    }
    give_back (self);
    return !self;
}

static void close_engine (void *handle)
{
    (void) handle;
    for (python_t *self; (self = engine.idle); end (self, NULL))
        engine.idle = self->next;
    engine.n = 0;
}

const wiremill_engine_t wiremill_engine = { WIREMILL_ENGINE_VERSION, describe, open_engine, score,
                                            close_engine };
