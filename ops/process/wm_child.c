/* wm_child.c - see wm_child.h. */

#include "ops/process/wm_child.h"
#include "ops/process/wm_beside.h"
#include "ops/process/wm_words.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_process.h"
#include "schema/wm_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHOW_LINES_MAX 20
#define LOG_ROOM_BYTES 4096 /* of a child that logs why it cannot work: its disk may be full */

wm_fault_t wm_child_init (wm_child_t *self, const char *name, const char *folder, wm_error_t *error)
{
    memset (self, 0, sizeof *self);
    snprintf (self->name, sizeof self->name, "%s", name);
    if (folder &&
        snprintf (self->log, sizeof self->log, "%s/%s.log", folder, name) >= (int) sizeof self->log)
        return wm_fault (error, WM_EHOST, "the path is too long: %.200s...", folder);
    return WM_OK;
}

void wm_child_share (wm_child_t *self, int i, int n)
{
    cpu_set_t ours;
    CPU_ZERO (&self->cpus);
    if (sched_getaffinity (0, sizeof ours, &ours) || CPU_COUNT (&ours) < n)
        return;
    const int count = CPU_COUNT (&ours), from = count * i / n, to = count * (i + 1) / n;
    int k = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET (cpu, &ours) && k++ >= from && k <= to)
            CPU_SET (cpu, &self->cpus);
}

/* In the child, before exec: only async-signal-safe calls.  */
static void prepare (const void *argument)
{
    const wm_child_t *self = argument;
    if (CPU_COUNT (&self->cpus)) /* best effort; failure is ignored */
        sched_setaffinity (0, sizeof self->cpus, &self->cpus);
    WM_FAILPOINT ("ops-child-exec");
}

wm_fault_t wm_child_start (wm_child_t *self, const char *program, const char *const argv[],
                           wm_error_t *error)
{
    char path[PATH_MAX];
    wm_fault_t fault = wm_beside_find (path, program, error);
    if (fault)
        return fault;
    int log = -1;
    struct stat st;
    if (self->log[0]) {
        log = open (self->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (log < 0 || fstat (log, &st))
            return wm_fault (error, WM_EHOST, "the log %s cannot be opened: %s", self->log,
                             strerror (errno));
        self->began = self->shown = (long) st.st_size;
        if (self->reader)
            fclose (self->reader);
        self->reader = fopen (self->log, "re");
        if (fallocate (log, FALLOC_FL_KEEP_SIZE, st.st_size, LOG_ROOM_BYTES) &&
            wm_file_is_full (errno)) {
            close (log);
            log = -1;         /* it writes where we do, */
            self->began = -1; /* which counts as logged */
        }
    }
    WM_FAILPOINT ("ops-child-start");
    const wm_process_t process = {
        .program = path,
        .argv = argv,
        .in = WM_PROCESS_NULL,
        .out = log >= 0 ? log : 0,
        .err = log >= 0 ? log : 0,
        .keep = self->keep,
        .death_signal = SIGKILL,
        .drops_credentials = strcmp (program, "wiremill-producer") != 0, /* it copies inputs */
        .prepare = prepare,
        .argument = self,
    };
    const pid_t pid = wm_process_start (&process);
    const int saved = errno;
    if (log >= 0)
        close (log);
    if (pid < 0)
        return wm_fault (error, WM_EHOST, "%s cannot be started: %s", program, strerror (saved));
    self->pid = pid;
    wm_restart_started (&self->restart, wm_now_ms ());
    WM_FAILPOINT ("ops-child-started");
    return WM_OK;
}

bool wm_child_ended (wm_child_t *self)
{
    if (!self->pid)
        return false;
    int status;
    const pid_t pid = waitpid (self->pid, &status, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR))
        return false;
    self->status = pid < 0 ? 0 : status;
    self->pid = 0;
    WM_FAILPOINT ("ops-child-ended");
    return true;
}

void wm_child_signal (const wm_child_t *self, int signal)
{
    if (!self->pid)
        return;
    kill (self->pid, signal);
    kill (self->pid, SIGCONT); /* a stopped process takes it too */
}

const char *wm_child_how_ended (int status, char text[WM_CHILD_HOW_BYTES])
{
    const int number = WIFSIGNALED (status) ? WTERMSIG (status) : WEXITSTATUS (status);
    if (WIFSIGNALED (status)) {
        const char *name = sigabbrev_np (number);
        snprintf (text, WM_CHILD_HOW_BYTES, "signal %d (%s%s: %s)", number, name ? "SIG" : "",
                  name ? name : "real-time",
                  number == SIGKILL ? "somebody's kill -9, or the kernel where memory ran out"
                                    : strsignal (number));
    } else {
        const char *meaning = wm_exit_meaning (number);
        snprintf (text, WM_CHILD_HOW_BYTES, "exit code %d%s%s%s", number, meaning ? " (" : "",
                  meaning ? meaning : "", meaning ? ")" : "");
    }
    return text;
}

const char *wm_child_how (const wm_child_t *self, char text[WM_CHILD_HOW_BYTES])
{
    return wm_child_how_ended (self->status, text);
}

bool wm_child_crashed (const wm_child_t *self)
{
    if (!WIFSIGNALED (self->status))
        return false;
    switch (WTERMSIG (self->status)) {
    case SIGSEGV:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGSYS:
        return true;
    default:
        return false;
    }
}

bool wm_child_plan_return (wm_child_t *self, bool has_worked)
{
    static const wm_restart_rule_t rule = { 200, 10000, .quick = 10000, .give_up = 5 };
    return wm_restart_failed (&self->restart, &rule, wm_now_ms (), has_worked);
}

/* Reads the next line of the log. false: no line follows, or its end is still to come.  */
static bool next_line (const wm_child_t *self, char *line, size_t bytes)
{
    return fgets (line, (int) bytes, self->reader) &&
           (strchr (line, '\n') || strlen (line) + 1 == bytes || !self->pid);
}

bool wm_child_log_contains (const wm_child_t *self, const char *text)
{
    char line[1024];
    bool found = false;
    if (!self->reader || fseek (self->reader, self->began > 0 ? self->began : 0, SEEK_SET))
        return false;
    while (!found && next_line (self, line, sizeof line))
        found = strstr (line, text) != NULL;
    return found;
}

/* A line of the log without its time and the program's name: the child's stands before it.  */
static const char *words_of (const char *line)
{
    const char *text = wm_log_line (line), *colon = strstr (text, ": ");
    return strncmp (text, "wiremill", 8) == 0 && colon ? colon + 2 : text;
}

/* Keeps a line that is shown, without its end.  */
static void keep (wm_child_t *self, const char *line)
{
    const char *text = words_of (line);
    snprintf (self->said, sizeof self->said, "%.*s", (int) strcspn (text, "\n"), text);
}

void wm_child_show (wm_child_t *self, const char *with, FILE *out)
{
    char line[1024], time[WM_LOG_TIME_BYTES];
    int n = 0;
    if (!self->reader || fseek (self->reader, self->shown, SEEK_SET))
        return;
    while (next_line (self, line, sizeof line))
        n += strstr (line, with) != NULL;
    if (n > SHOW_LINES_MAX)
        fprintf (out, "%s  %s: ... %d lines before these in %s\n", wm_log_time (time), self->name,
                 n - SHOW_LINES_MAX, self->log);
    fseek (self->reader, self->shown, SEEK_SET);
    while (n && next_line (self, line, sizeof line)) {
        self->shown = ftell (self->reader);
        keep (self, line);
        if (strstr (line, with) && n-- <= SHOW_LINES_MAX)
            wm_words_print (out, "%s  %s: %.*s", wm_log_time (time), self->name,
                            (int) strcspn (words_of (line), "\n"), words_of (line));
    }
}

bool wm_child_has_logged (const wm_child_t *self)
{
    return self->shown > self->began;
}
