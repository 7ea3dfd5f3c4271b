/* wm_respawn.c - see wm_respawn.h.  */
#include "producer/serving/wm_respawn.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_program.h"
#include "schema/base/wm_restart.h"

#include <czmq.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAUSE_MAX_US 5000000 /* of one that is killed, or cannot be started */
#define QUICK_US 5000000     /* it ended so soon: the pause doubles */
#define OUTPUT_READS_MAX 17  /* 64 KiB, a pipe's fill, and the rest of a line */
#define QUICK_ENDS 3         /* by itself, in a row, before people learn of it */

static const wm_restart_rule_t killed = { 100000, PAUSE_MAX_US, .quick = QUICK_US },
                               exited = { 100000, 60000000, .quick = QUICK_US },
                               lacks_engine = { 1000000, 60000000, QUICK_US, .give_up = 5 };

struct wm_respawn_t {
    wm_loop_t *loop;
    char *word[WM_RESPAWN_WORDS_MAX + 1];
    char *log, *what;
    wm_respawn_ended_t *ended;
    wm_respawn_log_t *says; /* may be NULL */
    void *argument;
    pid_t pid;
    int pidfd;
    int status; /* of its last end */
    wm_loop_watch_t *watch, *watch_output;
    int output, copy; /* what it writes to standard error; the log. -1: none */
    char line[480];   /* the last one, without its time; "": none */
    char begun[1024]; /* a line that has no end yet: its first n_begun bytes */
    size_t n_begun;
    wm_timer_t *again;
    wm_restart_t restart;          /* in us */
    const wm_restart_rule_t *rule; /* of its last end: a row is of one kind */
    bool is_once, works, stops;    /* stops: it was asked to end */
};

/* ---- what it writes -------------------------------------------------------------------------- */

static void take_line (wm_respawn_t *self)
{
    self->begun[self->n_begun] = 0;
    self->n_begun = 0;
    const char *line = wm_log_line (self->begun);
    line += strspn (line, " ");
    const size_t program = strlen (self->word[0]),
                 verb = self->word[1] ? strlen (self->word[1]) : 0;
    if (verb && !strncmp (line, self->word[0], program) && line[program] == ' ' &&
        !strncmp (line + program + 1, self->word[1], verb) &&
        !strncmp (line + program + 1 + verb, ": ", 2))
        line += program + verb + 3; /* "wiremill run: ": what a client asked for is no such verb */
    if (!*line)
        return;
    snprintf (self->line, sizeof self->line, "%.479s", line);
    if (self->says && !self->stops)
        self->says (self->argument, self->line);
}

static void close_output (wm_respawn_t *self)
{
    wm_loop_unwatch (&self->watch_output);
    if (self->output >= 0)
        close (self->output);
    if (self->copy >= 0)
        close (self->copy);
    self->output = self->copy = -1;
}

/* Takes what is there, at most a pipe's fill. Its log is a copy for people: a full disk costs no
   more than that.  */
static void read_output (void *argument, uint32_t events)
{
    wm_respawn_t *self = argument;
    char text[4096];
    ssize_t n = -1;
    (void) events;
    for (int i_read = 0; i_read < OUTPUT_READS_MAX; i_read++) {
        if ((n = read (self->output, text, sizeof text)) <= 0)
            break;
        const ssize_t copied = self->copy >= 0 ? write (self->copy, text, (size_t) n) : 0;
        (void) copied;
        for (ssize_t i = 0; i < n; i++)
            if (text[i] == '\n')
                take_line (self);
            else if (self->n_begun < sizeof self->begun - 1)
                self->begun[self->n_begun++] = text[i];
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_output (self);
}

/* ---- its end --------------------------------------------------------------------------------- */

static bool is_final (int status)
{
    const int code = WIFEXITED (status) ? WEXITSTATUS (status) : -1;
    return wm_exit_is_final (code) || code == 127;
}

bool wm_respawn_lacks_engine (const wm_respawn_t *self)
{
    return WIFEXITED (self->status) && WEXITSTATUS (self->status) == WM_EXIT_ENGINE;
}

static void start (wm_respawn_t *self);

static void start_again (void *argument)
{
    wm_respawn_t *self = argument;
    self->again = NULL;
    start (self);
}

/* It ended, and may do better when it is started again. false: it has failed so too often.  */
static bool plan_return (wm_respawn_t *self, int status, const char *line)
{
    const int64_t now_us = wm_loop_now_us (self->loop);
    const wm_restart_rule_t *rule = wm_respawn_lacks_engine (self) ? &lacks_engine
                                    : WIFEXITED (status)           ? &exited
                                                                   : &killed;
    if (rule != self->rule)
        self->restart.in_row = 0;
    self->rule = rule;
    if (!wm_restart_failed (&self->restart, rule, now_us, self->works))
        return false;
    const int64_t pause_us = self->restart.at - now_us;
    fprintf (stderr, "wiremill gateway: %s ended with %s %d; starting it again", self->what,
             WIFEXITED (status) ? "exit code" : "signal",
             WIFEXITED (status) ? WEXITSTATUS (status) : WTERMSIG (status));
    if (pause_us > PAUSE_MAX_US)
        fprintf (stderr, " in %.0f s, or at once when it is loaded", (double) pause_us / 1e6);
    fprintf (stderr, "%s%s\n", *line ? ": " : "", line);
    self->again = wm_loop_timer (self->loop, self->restart.at, start_again, self);
    return true;
}

static void on_end (void *argument, uint32_t events)
{
    wm_respawn_t *self = argument;
    int status = 0;
    (void) events;
    if (waitpid (self->pid, &status, WNOHANG) == 0)
        return;
    wm_loop_unwatch (&self->watch);
    close (self->pidfd);
    self->pid = 0;
    self->status = status;
    if (self->output >= 0)
        read_output (self, 0);
    close_output (self);
    if (self->stops)
        return;
    const char *line = WIFEXITED (status) ? self->line : ""; /* killed, it wrote no reason */
    const char *reason = *line ? line : "it ended without a reason";
    const bool is_done = self->is_once && status == 0;
    if (is_done || is_final (status) || !plan_return (self, status, line)) {
        self->stops = true;
        self->ended (self->argument, is_done ? NULL : reason, true);
    } else if (WIFEXITED (status) &&
               (self->restart.in_row >= QUICK_ENDS || wm_respawn_lacks_engine (self)))
        self->ended (self->argument, reason, false);
}

void wm_respawn_works (wm_respawn_t *self)
{
    self->works = true;
}

bool wm_respawn_now (wm_respawn_t *self)
{
    if (!self->again)
        return false;
    wm_loop_untimer (&self->again);
    start (self);
    return true;
}

/* ---- its beginning --------------------------------------------------------------------------- */

static void start (wm_respawn_t *self)
{
    char path[PATH_MAX];
    int pair[2];
    wm_program_beside (path, self->word[0]);
    *self->line = 0;
    self->n_begun = 0;
    if (pipe2 (pair, O_CLOEXEC))
        pair[0] = pair[1] = -1;
    const wm_process_t process = { .program = path,
                                   .argv = (const char *const *) self->word,
                                   .in = WM_PROCESS_NULL,
                                   .out = WM_PROCESS_NULL,
                                   .err = pair[1] < 0 ? WM_PROCESS_NULL : pair[1],
                                   .death_signal = SIGTERM };
    const int64_t now_us = wm_loop_now_us (self->loop);
    wm_restart_started (&self->restart, now_us);
    self->works = false;
    self->pid = wm_process_start (&process);
    if (pair[1] >= 0) {
        close (pair[1]);
        self->output = pair[0];
        self->copy = open (self->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        fcntl (self->output, F_SETFL, O_NONBLOCK);
        self->watch_output = wm_loop_watch (self->loop, self->output, EPOLLIN, read_output, self);
    }
    self->pidfd = self->pid > 0 ? (int) syscall (SYS_pidfd_open, self->pid, 0) : -1;
    self->watch =
        self->pidfd >= 0 ? wm_loop_watch (self->loop, self->pidfd, EPOLLIN, on_end, self) : NULL;
    if (self->watch)
        return;
    fprintf (stderr, "wiremill gateway: %s cannot be started: %s; trying again\n", self->what,
             strerror (errno));
    close_output (self);
    if (self->pidfd >= 0)
        close (self->pidfd);
    wm_process_kill (&self->pid);
    self->again = wm_loop_timer (self->loop, now_us + PAUSE_MAX_US, start_again, self);
}

static wm_respawn_t *make (wm_loop_t *loop, const char *what, const char *const argv[],
                           const char *log, wm_respawn_ended_t *ended, wm_respawn_log_t *says,
                           void *argument)
{
    wm_respawn_t *self = zmalloc (sizeof *self);
    *self = (wm_respawn_t){ .loop = loop,
                            .ended = ended,
                            .says = says,
                            .argument = argument,
                            .pidfd = -1,
                            .output = -1,
                            .copy = -1 };
    self->log = strdup (log);
    self->what = strdup (what);
    for (int i = 0; argv[i] && i < WM_RESPAWN_WORDS_MAX; i++)
        self->word[i] = strdup (argv[i]);
    return self;
}

wm_respawn_t *wm_respawn_new (wm_loop_t *loop, const char *what, const char *const argv[],
                              const char *log, wm_respawn_ended_t *ended, wm_respawn_log_t *says,
                              void *argument)
{
    wm_respawn_t *self = make (loop, what, argv, log, ended, says, argument);
    start (self);
    return self;
}

wm_respawn_t *wm_respawn_once (wm_loop_t *loop, const char *what, const char *const argv[],
                               const char *log, wm_respawn_ended_t *ended, void *argument)
{
    wm_respawn_t *self = make (loop, what, argv, log, ended, NULL, argument);
    self->is_once = true;
    start (self);
    return self;
}

void wm_respawn_stop (wm_respawn_t *self, bool kills)
{
    self->stops = true;
    wm_loop_untimer (&self->again);
    if (self->pid > 0)
        kill (self->pid, kills ? SIGKILL : SIGTERM);
}

bool wm_respawn_runs (const wm_respawn_t *self)
{
    return self->pid > 0 || self->again;
}

void wm_respawn_await (wm_respawn_t *self, int64_t ms)
{
    struct pollfd item = { .fd = self->pidfd, .events = POLLIN };
    if (self->pid > 0 && ms > 0 && poll (&item, 1, (int) ms) > 0)
        on_end (self, 0);
}

void wm_respawn_destroy (wm_respawn_t **self_p)
{
    wm_respawn_t *self = *self_p;
    if (!self)
        return;
    wm_loop_untimer (&self->again);
    wm_loop_unwatch (&self->watch);
    close_output (self);
    if (self->pid > 0) {
        close (self->pidfd);
        wm_process_kill (&self->pid);
    }
    for (int i = 0; i < WM_RESPAWN_WORDS_MAX; i++)
        free (self->word[i]);
    free (self->log);
    free (self->what);
    free (self);
    *self_p = NULL;
}

/* ---- a process that ends by itself ----------------------------------------------------------- */

struct wm_reaped_t {
    pid_t pid;
    int pidfd;
    wm_loop_watch_t *watch;
    wm_reaped_t **self_p;
};

static void forget (wm_reaped_t *self)
{
    *self->self_p = NULL;
    wm_loop_unwatch (&self->watch);
    if (self->pidfd >= 0)
        close (self->pidfd);
    free (self);
}

static void on_reaped (void *argument, uint32_t events)
{
    wm_reaped_t *self = argument;
    (void) events;
    if (waitpid (self->pid, NULL, WNOHANG))
        forget (self);
}

void wm_respawn_reap (wm_loop_t *loop, pid_t pid, wm_reaped_t **self_p)
{
    wm_reaped_t *self = *self_p = zmalloc (sizeof *self);
    self->pid = pid;
    self->self_p = self_p;
    self->pidfd = (int) syscall (SYS_pidfd_open, pid, 0);
    if (self->pidfd >= 0)
        self->watch = wm_loop_watch (loop, self->pidfd, EPOLLIN, on_reaped, self);
    if (self->watch)
        return;
    TEMP_FAILURE_RETRY (waitpid (pid, NULL, 0));
    forget (self);
}

void wm_respawn_reap_now (wm_reaped_t **self_p)
{
    if (!*self_p)
        return;
    wm_process_kill (&(*self_p)->pid);
    forget (*self_p);
}
