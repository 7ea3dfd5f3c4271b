/* wm_scorer.c - see wm_scorer.h.

   wm_scorer_fd is an epoll descriptor that stays the same, while each process has a socket pair of
   its own (the line). The end of a process shows as the end of its line. A process that was killed
   and does not end, because a driver hangs in the kernel, is given up after engine_ms.  */
#include "gpuworker/engine/wm_scorer.h"
#include "gpuworker/engine/wm_engine_process.h"
#include "kernels/wm_device.h"
#include "schema/base/wm_program.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    TESTS = 10,         /* a slow model has this many durations of its self-test to finish a hit */
    HANG_MS_MIN = 2000, /* also with WM_TIME_SCALE: a loaded machine does not hang */
    REAP_MS = 20,       /* the process ends at most this long after its end of the line */
    LEAVE_MS = 2000,    /* to clean up */
};

struct wm_scorer_t {
    wm_slots_t slots;
    wm_batch_t batch[WM_SLOTS];
    struct {
        uint32_t first, count; /* as submitted: the copy in shared memory is not trusted */
    } part[WM_SLOTS];
    uint32_t n_output;
    bool is_ragged; /* scores are a ragged row of n_output at most */
    char signature[64], class[64], by[16], strict[64], refused[160];
    double measured;
    uint32_t n_measured;
    int epoll, line; /* line -1: the process has ended, or is ending */
    pid_t pid;       /* 0: none */
    bool is_ready;   /* this process has passed its self-test, and that was reported */
    bool is_due;     /* the next poll starts a process */
    bool has_run;    /* one was ready: later start failures are treated as transient */
    uint64_t serial;
    double ended_cpu_s; /* of processes that have ended */

    int64_t polled_ms; /* last poll */
    struct {
        int64_t ms;     /* its last progress */
        uint64_t moved; /* the progress then */
    } hand[WM_HANDS];
    int64_t killed_ms;            /* 0: not killed */
    char why[160];                /* the worker killed it; "" */
    unsigned long long oom_kills; /* of the machine, when the process was started */
};

/* Nothing hangs now.  */
static void moves (wm_scorer_t *self, int64_t now)
{
    for (unsigned i = 0; i < WM_HANDS; i++)
        self->hand[i].ms = now;
}

/* The slot in this state that was submitted first, WM_SLOTS for none.  */
static unsigned slot_in (const wm_scorer_t *self, wm_slot_state_t state)
{
    unsigned found = WM_SLOTS;
    const wm_slot_t *slot = self->slots.control->slot;
    for (unsigned i = 0; i < self->slots.n; i++)
        if (atomic_load (&slot[i].state) == state &&
            (found == WM_SLOTS || slot[i].serial < slot[found].serial))
            found = i;
    return found;
}

/* ---- start and end --------------------------------------------------------------------------- */

static wm_fault_t spawn (wm_scorer_t *self, int line, wm_error_t *error)
{
    char files[32], program[PATH_MAX];
    snprintf (files, sizeof files, "%d,%d", self->slots.fd, line);
    char *argv[] = { (char[]){ "wiremill-engine" }, (char[]){ WM_ENGINE_MODE }, files, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset (&none);
    sigfillset (&all);
    posix_spawn_file_actions_init (&actions);
    posix_spawnattr_init (&attributes);
    /* onto itself: it stays open over exec */
    posix_spawn_file_actions_adddup2 (&actions, self->slots.fd, self->slots.fd);
    posix_spawn_file_actions_adddup2 (&actions, line, line);
    posix_spawnattr_setsigmask (&attributes, &none);
    posix_spawnattr_setsigdefault (&attributes, &all);
    posix_spawnattr_setflags (&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const int rc = posix_spawn (&self->pid, wm_program_again ("wiremill-worker", program), &actions,
                                &attributes, argv, environ);
    posix_spawnattr_destroy (&attributes);
    posix_spawn_file_actions_destroy (&actions);
    if (rc) {
        self->pid = 0;
        return wm_fault (error, WM_EHOST, "cannot start an engine process: %s", strerror (rc));
    }
    return WM_OK;
}

/* Returns how many processes the kernel has killed because memory ran out, on this machine or in a
   cgroup of it; 0: not known.  */
static unsigned long long oom_kills (void)
{
    const char *path = getenv ("WM_VMSTAT"); /* of a test */
    FILE *file = fopen (path ? path : "/proc/vmstat", "re");
    unsigned long long n = 0;
    char line[128];
    while (file && fgets (line, sizeof line, file) && sscanf (line, "oom_kill %llu", &n) != 1)
        ;
    if (file)
        fclose (file);
    return n;
}

static wm_fault_t launch (wm_scorer_t *self, wm_error_t *error)
{
    wm_control_t *control = self->slots.control;
    int line[2];
    if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line))
        return wm_fault (error, WM_EHOST, "no line to an engine process: %s", strerror (errno));
    control->worker = getpid ();
    control->error = (wm_error_t){ 0 };
    atomic_store (&control->is_ready, 0);
    self->is_ready = false;
    self->killed_ms = 0;
    self->why[0] = '\0';
    moves (self, wm_now_ms ());
    for (unsigned i = 0; i < WM_HANDS; i++)
        atomic_store (&control->hand[i].serial, 0);
    self->oom_kills = oom_kills ();
    wm_fault_t fault = spawn (self, line[1], error);
    close (line[1]);
    if (fault) {
        close (line[0]);
        return fault;
    }
    self->line = line[0];
    fcntl (self->line, F_SETFL, O_NONBLOCK);
    struct epoll_event event = { .events = EPOLLIN };
    int rc = epoll_ctl (self->epoll, EPOLL_CTL_ADD, self->line, &event);
    assert (rc == 0);
    return WM_OK;
}

static void close_line (wm_scorer_t *self)
{
    if (self->line >= 0)
        close (self->line); /* which takes it out of the epoll set */
    self->line = -1;
}

static double seconds_of (const struct timeval *time)
{
    return (double) time->tv_sec + (double) time->tv_usec / 1e6;
}

double wm_scorer_cpu_s (const wm_scorer_t *self)
{
    clockid_t clock;
    struct timespec used;
    if (!self->pid || clock_getcpuclockid (self->pid, &clock) || clock_gettime (clock, &used))
        return self->ended_cpu_s;
    return self->ended_cpu_s + (double) used.tv_sec + (double) used.tv_nsec / 1e9;
}

/* Returns whether the process has ended; *status: how.  */
static bool reap (wm_scorer_t *self, int patience_ms, int *status)
{
    struct rusage used;
    for (int waited = 0;; waited++) {
        const pid_t pid = wait4 (self->pid, status, WNOHANG, &used);
        if (pid == self->pid)
            self->ended_cpu_s += seconds_of (&used.ru_utime) + seconds_of (&used.ru_stime);
        if (pid == self->pid || (pid < 0 && errno != EINTR)) {
            self->pid = 0;
            return 1;
        }
        if (waited >= patience_ms)
            return 0;
        usleep (1000);
    }
}

/* Whether the process has ended: a child of its engine may hold its line open.  */
static bool has_ended (const wm_scorer_t *self)
{
    siginfo_t info = { .si_pid = 0 };
    return waitid (P_PID, (id_t) self->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == self->pid;
}

static void kill_it (wm_scorer_t *self, int64_t now, const char *format, int64_t ms)
{
    snprintf (self->why, sizeof self->why, format, (long long) ms);
    kill (self->pid, SIGKILL);
    self->killed_ms = now;
}

/* ---- life ------------------------------------------------------------------------------------ */

static wm_fault_t set_up (wm_scorer_t *self, const wm_scorer_config_t *config, wm_error_t *error)
{
    self->epoll = epoll_create1 (EPOLL_CLOEXEC);
    if (self->epoll < 0)
        return wm_fault (error, WM_EHOST, "no descriptor for an engine: %s", strerror (errno));
    /* The engine process resolves "auto", mostly to an engine that gathers batches. Slots that it
       does not use take no memory, but a batch system may limit address space.  */
    static const unsigned sizes[] = { WM_SLOTS, WM_SLOTS_GATHER, WM_SLOTS_ONE };
    const bool is_auto = wm_device_is_auto (config->engine);
    const wm_engine_t *engine = is_auto ? NULL : wm_device_engine (config->engine);
    const unsigned first = is_auto || engine->is_gpu ? 0 : engine->gathers ? 1 : 2;
    const size_t bytes = wm_slots_bytes (config->pins->n_value, config->pins->n_output);
    unsigned k = first;
    wm_fault_t fault;
    while ((fault = wm_slots_make (&self->slots, sizes[k], bytes, error)) != WM_OK && k < 2) {
        wm_slots_clear (&self->slots);
        k++;
    }
    if (!fault && k > first && k == 2)
        fprintf (stderr,
                 "wiremill-worker: no address space for %u batches at a time, takes %u: small "
                 "batches are scored one by one; raise `ulimit -v`\n",
                 sizes[first], sizes[k]);
    if (fault)
        return fault;
    wm_control_t *control = self->slots.control;
    const wm_pins_t *pins = config->pins;
    if (strlen (config->engine) >= sizeof control->engine ||
        strlen (config->model_path) >= sizeof control->model_path)
        return wm_fault (error, WM_EBATCH,
                         "the name of the engine, or of the model's file, is too long");
    strcpy (control->engine, config->engine);
    strcpy (control->model_path, config->model_path);
    control->threads = config->threads;
    control->pin = config->pin;
    control->keeps_infinite = *pins->serves != 0;
    memcpy (control->precision, pins->precision, sizeof control->precision);
    control->max_error = wm_pins_max_error (pins);
    if (config->trial && strlen (config->trial) >= sizeof control->trial)
        return wm_fault (error, WM_EBATCH, "the name of the folder of models is too long");
    strcpy (control->trial, config->trial ? config->trial : "");
    control->n_output = self->n_output = pins->n_output;
    self->is_ragged = wm_pins_is_ragged (pins);
    control->n_value = pins->n_value;
    memcpy (control->model, pins->model, sizeof control->model);
    memcpy (control->spec, pins->spec, sizeof control->spec);
    for (unsigned i = 0; i < self->slots.n; i++)
        wm_slots_lend (&self->slots, i, &self->batch[i]);
    return launch (self, error);
}

wm_scorer_t *wm_scorer_new (const wm_scorer_config_t *config, wm_error_t *error)
{
    wm_scorer_t *self = calloc (1, sizeof *self);
    assert (self);
    self->epoll = self->line = -1;
    self->polled_ms = wm_now_ms ();
    if (set_up (self, config, error))
        wm_scorer_destroy (&self);
    return self;
}

void wm_scorer_stop (wm_scorer_t *self)
{
    int status;
    self->is_due = self->is_ready = false;
    close_line (self);
    if (!self->pid)
        return;
    if (slot_in (self, WM_SLOT_RUNNING) < WM_SLOTS)
        kill (self->pid, SIGKILL); /* its result is not wanted */
    if (!reap (self, LEAVE_MS, &status)) {
        kill (self->pid, SIGKILL);
        reap (self, LEAVE_MS, &status);
    }
    self->pid = 0;
    for (unsigned i = 0; i < self->slots.n; i++)
        atomic_store (&self->slots.control->slot[i].state, WM_SLOT_FREE);
}

void wm_scorer_destroy (wm_scorer_t **self_p)
{
    wm_scorer_t *self = *self_p;
    if (!self)
        return;
    if (self->slots.control)
        wm_scorer_stop (self);
    if (self->epoll >= 0)
        close (self->epoll);
    wm_slots_clear (&self->slots);
    free (self);
    *self_p = NULL;
}

int wm_scorer_fd (const wm_scorer_t *self)
{
    return self->epoll;
}

void wm_scorer_has_trial (wm_scorer_t *self)
{
    self->polled_ms = wm_now_ms ();
    moves (self, self->polled_ms); /* until now it may have waited for this */
    atomic_store (&self->slots.control->has_trial, 1);
    if (self->line >= 0)
        send (self->line, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Reads the line empty. false: it has ended.  */
static bool read_line (wm_scorer_t *self)
{
    char bytes[64];
    for (;;) {
        const ssize_t n = TEMP_FAILURE_RETRY (read (self->line, bytes, sizeof bytes));
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
    }
}

/* Returns when the hand that has made no progress for longest made its last. Before the process is
   ready only the first one works.  */
static int64_t moved_ms (wm_scorer_t *self, int64_t now)
{
    int64_t oldest = now;
    for (unsigned i = 0; i < WM_HANDS; i++) {
        const wm_hand_t *hand = &self->slots.control->hand[i];
        const uint64_t serial = atomic_load (&hand->serial);
        const uint64_t moved =
            atomic_load (&hand->progress) + (serial << 32); /* another slot is progress, too */
        if (moved != self->hand[i].moved || (!serial && (self->is_ready || i > 0))) {
            self->hand[i].moved = moved;
            self->hand[i].ms = now;
        }
        oldest = self->hand[i].ms < oldest ? self->hand[i].ms : oldest;
    }
    return oldest;
}

/* Kills a process that makes no progress: while it starts, or in one of the calls it runs.  */
static void watch (wm_scorer_t *self, int64_t now)
{
    const wm_times_t *times = wm_times ();
    const int64_t gap = now - self->polled_ms;
    self->polled_ms = now;
    if (gap > times->gap_ms) /* the worker was stopped, and perhaps the process, too */
        for (unsigned i = 0; i < WM_HANDS; i++)
            self->hand[i].ms += gap;
    const int64_t moved = moved_ms (self, now);
    int64_t limit = self->is_ready ? times->engine_ms : times->engine_start_ms;
    const double test_s = self->slots.control->test_s; /* implausible values are ignored */
    if (self->is_ready && test_s < 3600 && TESTS * test_s * 1e3 > (double) limit)
        limit = (int64_t) (TESTS * test_s * 1e3);
    if (limit < HANG_MS_MIN)
        limit = HANG_MS_MIN;
    if (!self->killed_ms && now - moved > limit)
        kill_it (self, now,
                 self->is_ready ? "one of its calls finished no hit for %lld ms, and it was killed"
                                : "it was not ready after %lld ms and was killed",
                 now - moved);
}

/* Explains why a process ended: as the worker, the process itself or the kernel knows.  */
static void explain_end (const wm_scorer_t *self, int status, wm_error_t *error)
{
    const wm_error_t *own = &self->slots.control->error;
    const wm_fault_t fault =
        own->fault == WM_EBATCH || own->fault == WM_EAGAIN || own->fault == WM_EPEER ? own->fault
                                                                                     : WM_EHOST;
    if (self->why[0])
        wm_fault (error, WM_EHOST, "%s", self->why);
    else if (WIFSIGNALED (status) && WTERMSIG (status) == SIGKILL && oom_kills () > self->oom_kills)
        wm_fault (error, WM_EAGAIN, "the kernel killed it because memory ran out");
    else if (WIFSIGNALED (status))
        wm_fault (error, WM_EHOST, "it died by signal %d (%s)", WTERMSIG (status),
                  strsignal (WTERMSIG (status)));
    else if (own->text[0])
        wm_fault (error, fault, "%.*s", (int) sizeof own->text - 1, own->text);
    else
        wm_fault (error, WM_EHOST, "it ended with exit code %d", WEXITSTATUS (status));
}

/* Returns the slots that the process was scoring, as bits.  */
static uint64_t running (const wm_scorer_t *self)
{
    uint64_t bits = 0;
    for (unsigned i = 0; i < self->slots.n; i++)
        if (atomic_load (&self->slots.control->slot[i].state) == WM_SLOT_RUNNING)
            bits |= UINT64_C (1) << i;
    return bits;
}

/* Makes these slots READY again, each alone.  */
static void split (wm_scorer_t *self, uint64_t bits)
{
    wm_slot_t *slot = self->slots.control->slot;
    for (unsigned i = 0; i < self->slots.n; i++)
        if (bits >> i & 1) {
            slot[i].alone = 1;
            atomic_store (&slot[i].state, WM_SLOT_READY);
        }
}

/* Whether the process ended while it tried the GPU: the next one tries what is left.  */
static bool tried_gpu (wm_control_t *control, const wm_error_t *error)
{
    if (control->gpu == WM_GPU_TRIED_CUDA) {
        control->gpu = WM_GPU_NOT_BY_CUDA;
        fprintf (stderr, "wiremill-worker: does not take the GPU by CUDA: %s\n", error->text);
    } else if (control->gpu == WM_GPU_TRIED_OPENCL) {
        control->gpu = WM_GPU_DECLINED;
        fprintf (stderr, "wiremill-worker: does not take the GPU by OpenCL, the CPU scores: %s\n",
                 error->text);
    } else
        return false;
    wm_slots_forget_engine (control);
    return true;
}

static wm_scorer_event_t ended (wm_scorer_t *self, int status, uint64_t *slot, wm_error_t *error)
{
    explain_end (self, status, error);
    close_line (self);
    const int code = WIFEXITED (status) ? WEXITSTATUS (status) : 0;
    const bool cannot = code == WM_EXIT_ENGINE || code == WM_EXIT_INPUT || code == WM_EXIT_USAGE;
    if (!self->has_run && tried_gpu (self->slots.control, error)) {
        self->is_due = true;
        return WM_SCORER_NOTHING;
    }
    if ((cannot && (!self->has_run || error->fault == WM_EPEER)) ||
        (!self->has_run && self->why[0])) /* the next one would take as long */
        return WM_SCORER_HOPELESS;
    self->is_due = true; /* unless the owner calls wm_scorer_stop */
    self->is_ready = false;
    const uint64_t bits = running (self);
    if (code == WM_EXIT_AGAIN && self->has_run && !bits) { /* as it should, between two batches */
        fprintf (stderr, "wiremill-worker: starts the engine again: %s\n", error->text);
        return WM_SCORER_NOTHING;
    }
    *slot = slot_in (self, WM_SLOT_RUNNING);
    if (bits & (bits - 1)) { /* more than one */
        split (self, bits);
        *slot = bits;
        return WM_SCORER_ENDED_MANY;
    }
    if (*slot < WM_SLOTS)
        atomic_store (&self->slots.control->slot[*slot].state, WM_SLOT_FREE);
    return WM_SCORER_ENDED;
}

/* The process has passed its self-test. Results carry the signature of the first process.  */
static wm_scorer_event_t ready (wm_scorer_t *self, wm_error_t *error)
{
    char signature[sizeof self->signature];
    memcpy (signature, self->slots.control->signature, sizeof signature);
    signature[sizeof signature - 1] = '\0';
    if (!self->has_run) {
        const wm_control_t *control = self->slots.control;
        strcpy (self->signature, signature);
        snprintf (self->class, sizeof self->class, "%.63s", control->class);
        snprintf (self->by, sizeof self->by, "%.15s", control->by);
        snprintf (self->strict, sizeof self->strict, "%.63s", control->strict);
        snprintf (self->refused, sizeof self->refused, "%.159s", control->refused);
        const double measured = control->measured;
        self->measured = measured >= 0 && measured < 1e30 ? measured : 0;
        self->n_measured = control->n_measured;
    } else if (strcmp (self->signature, signature) != 0) {
        wm_fault (error, WM_EHOST, "it was %s and came back as %s: start a new worker",
                  self->signature, signature);
        return WM_SCORER_HOPELESS;
    }
    self->has_run = true;
    return WM_SCORER_READY;
}

wm_scorer_event_t wm_scorer_poll (wm_scorer_t *self, uint64_t *slot, wm_error_t *error)
{
    const int64_t now = wm_now_ms ();
    int status;
    if (self->is_due) {
        self->is_due = false;
        if (launch (self, error))
            return WM_SCORER_HOPELESS;
    }
    if (!self->pid)
        return WM_SCORER_NOTHING;
    if (self->line >= 0 && !read_line (self))
        close_line (self);
    if (!self->is_ready && atomic_load (&self->slots.control->is_ready)) {
        self->is_ready = true;
        moves (self, now);
        return ready (self, error);
    }
    *slot = slot_in (self, WM_SLOT_DONE);
    if (*slot < WM_SLOTS)
        return WM_SCORER_SCORED;
    if ((self->line < 0 || has_ended (self)) && reap (self, REAP_MS, &status))
        return ended (self, status, slot, error);
    watch (self, now);
    if (self->killed_ms && now - self->killed_ms > wm_times ()->engine_ms + HANG_MS_MIN) {
        wm_fault (error, WM_EHOST, "process %d %s, but does not end: its driver hangs",
                  (int) self->pid, self->why);
        self->pid = 0; /* never reaped: stuck in the driver */
        return WM_SCORER_HOPELESS;
    }
    return WM_SCORER_NOTHING;
}

/* ---- slots ----------------------------------------------------------------------------------- */

wm_batch_t *wm_scorer_batch (wm_scorer_t *self, unsigned slot)
{
    return &self->batch[slot];
}

uint32_t wm_scorer_fill (const wm_scorer_t *self)
{
    return self->slots.control->fill;
}

uint64_t wm_scorer_enough (const wm_scorer_t *self)
{
    return self->slots.control->enough;
}

unsigned wm_scorer_slots (const wm_scorer_t *self)
{
    const uint32_t most = self->slots.control->most_slots;
    return most < self->slots.n ? most : self->slots.n;
}

void wm_scorer_submit (wm_scorer_t *self, unsigned slot, uint32_t first, uint32_t count, bool alone)
{
    wm_slot_t *at = &self->slots.control->slot[slot];
    assert (atomic_load (&at->state) == WM_SLOT_FREE && count);
    wm_slots_note (&self->slots, slot, &self->batch[slot]);
    at->first = self->part[slot].first = first;
    at->count = self->part[slot].count = count;
    at->serial = ++self->serial;
    at->alone = alone;
    atomic_store (&at->state, WM_SLOT_READY);
    /* If the line is full, the process is awake; if it has ended, the next one reads the slots.  */
    if (self->line >= 0)
        send (self->line, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool wm_scorer_take_back (wm_scorer_t *self, unsigned slot)
{
    uint32_t ready = WM_SLOT_READY;
    return atomic_compare_exchange_strong (&self->slots.control->slot[slot].state, &ready,
                                           WM_SLOT_FREE) ||
           ready == WM_SLOT_FREE;
}

bool wm_scorer_is_ready (const wm_scorer_t *self)
{
    return self->is_ready;
}

void wm_scorer_draw (wm_scorer_t *self, unsigned slot, uint64_t draw)
{
    self->slots.control->slot[slot].draw = draw;
}

wm_fault_t wm_scorer_answer (wm_scorer_t *self, unsigned slot, uint8_t *status, float *scores,
                             double *seconds, bool *again, wm_error_t *error)
{
    wm_slot_t *at = &self->slots.control->slot[slot];
    const size_t first = self->part[slot].first, count = self->part[slot].count;
    const size_t n = self->n_output;
    const wm_fault_t fault = at->error.fault ? WM_EBATCH : WM_OK;
    *seconds = at->seconds;
    *again = !fault && at->again == 1;
    if (fault || *again)
        wm_fault (error, fault, "%.*s", (int) sizeof at->error.text - 1, at->error.text);
    if (!fault) {
        memcpy (status + first, wm_slots_status (&self->slots, slot) + first, count);
        const float *from = wm_slots_scores (&self->slots, slot) + first * n;
        memcpy (scores + first * n, from,
                (self->is_ragged ? wm_ragged_length (from, n) : count * n) * sizeof *scores);
    }
    atomic_store (&at->state, WM_SLOT_FREE);
    return fault;
}

uint64_t wm_scorer_progress (const wm_scorer_t *self)
{
    uint64_t n_hit = 0;
    for (unsigned i = 0; i < WM_HANDS; i++)
        n_hit += atomic_load (&self->slots.control->hand[i].progress);
    return n_hit;
}

uint64_t wm_scorer_calls (const wm_scorer_t *self)
{
    return atomic_load (&self->slots.control->calls);
}

const char *wm_scorer_signature (const wm_scorer_t *self)
{
    return self->signature;
}

const char *wm_scorer_by (const wm_scorer_t *self)
{
    return self->by;
}

const char *wm_scorer_class (const wm_scorer_t *self)
{
    return self->class;
}

const char *wm_scorer_strict (const wm_scorer_t *self)
{
    return self->strict;
}

double wm_scorer_measured (const wm_scorer_t *self, uint32_t *n_hit, const char **refused)
{
    *n_hit = self->n_measured;
    *refused = self->refused;
    return self->measured;
}

double wm_scorer_watch_s (const wm_scorer_t *self)
{
    const double seconds = self->slots.control->watch.seconds;
    return seconds >= 0 && seconds < 1e9 ? seconds : 0;
}

double wm_scorer_idle (const wm_scorer_t *self)
{
    const double busy = self->slots.control->busy_s, idle = self->slots.control->idle_s;
    return busy > 0 && idle >= 0 ? idle / (busy + idle) : -1;
}

void wm_scorer_watched (const wm_scorer_t *self, char text[200])
{
    const wm_control_t *control = self->slots.control;
    *text = '\0';
    if (control->watch.n_hit > 0)
        snprintf (text, 200,
                  "strict fp32 checked %llu hits of %llu batches in %.2f s: largest error %.1e, "
                  "%llu batches scored again",
                  (unsigned long long) control->watch.n_hit,
                  (unsigned long long) control->watch.n_batch, control->watch.seconds,
                  control->watch.worst, (unsigned long long) control->watch.n_violated);
}
