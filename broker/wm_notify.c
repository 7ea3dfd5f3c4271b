/* wm_notify.c - see wm_notify.h.  */
#include "broker/wm_notify.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_MS 20
#define PIPE_BYTES (1 << 20) /* of what a command prints between two turns, if it may */
#define PARTS_MAX 32         /* of 64 KiB, a turn */
#define VARIABLES 12
#define VALUE_BYTES 4600 /* a path, or a sentence with one */
#define VARIABLE_BYTES (VALUE_BYTES + 32)

static const char *const names[WM_NOTIFY_EVENTS] = { "pause", "held", "done" };

/* What people know of the campaign.  */
typedef struct {
    bool is_done;
    uint64_t stops;                  /* a bit for each wait that --on-pause has run for */
    uint64_t inputs, inputs_written; /* when it was done; and, not kept: */
    uint64_t n_closed;
    uint64_t n_held; /* hits and inputs */
} told_t;

struct wm_notify_t {
    wm_notify_config_t config;
    told_t told;
    wm_record_t kept; /* as it was kept last */
    int64_t next_ms[WM_NOTIFY_EVENTS];
    int64_t
        stop_ms[WM_WAIT_END]; /* of --on-pause for each wait: a new one is not held up by others */
    int64_t now_ms;           /* of this turn */
    pid_t pid;                /* of the command that runs, 0: none; and for it: */
    int event;
    int out_fd; /* what it prints */
    size_t n_printed;
    bool is_within_line; /* the last that it printed */
    told_t then;         /* what people know when it has ended */
    int64_t end_ms;
};

/* ---- the record ------------------------------------------------------------------------------ */

static uint64_t stops_of (const wm_brief_t *brief)
{
    uint64_t stops = 0;
    for (uint32_t i = 0; i < brief->n_stop; i++)
        stops |= 1ull << brief->stop[i].wait;
    return stops;
}

static wm_record_t record_of (const told_t *told)
{
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_TOLD);
    record.code = told->is_done;
    record.n_hit = told->inputs;
    record.n_event = told->inputs_written;
    record.n_held = told->n_held;
    record.size = (int64_t) told->stops;
    return record;
}

/* Records what the commands were told, if that changed and the recorder takes it.  */
static void note_keep (wm_notify_t *self)
{
    const wm_record_t record = record_of (&self->told);
    if (memcmp (&record, &self->kept, sizeof record) != 0 && self->config.keep (&record))
        self->kept = record;
}

void wm_notify_restore (wm_notify_t *self, const wm_record_t *record)
{
    if (!self)
        return;
    const uint64_t stops = self->told.stops; /* of a disk that was full meanwhile */
    self->told = (told_t){ .is_done = record->code,
                           .stops = (uint64_t) record->size,
                           .inputs = record->n_hit,
                           .inputs_written = record->n_event,
                           .n_held = record->n_held };
    self->kept = record_of (&self->told);
    self->told.stops |= stops;
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool is_done (const wm_brief_t *brief)
{
    return brief->inputs && brief->inputs == brief->inputs_written + brief->inputs_held;
}

static uint64_t held_of (const wm_brief_t *brief)
{
    return brief->hits_held + brief->inputs_held;
}

/* Forgets what was told and is not so any more.  */
static void forget (told_t *told, const wm_brief_t *brief)
{
    told->is_done &= is_done (brief) && told->inputs == brief->inputs &&
                     told->inputs_written == brief->inputs_written &&
                     told->n_closed == brief->n_closed;
    told->stops &= stops_of (brief);
    if (told->n_held > held_of (brief))
        told->n_held = held_of (brief);
}

static bool is_new (const wm_notify_t *self, wm_wait_t wait)
{
    return !(self->told.stops >> wait & 1) && self->now_ms >= self->stop_ms[wait];
}

/* The first that its command has not run for; NULL: none is due.  */
static const wm_brief_stop_t *new_stop (const wm_notify_t *self, const wm_brief_t *brief)
{
    for (uint32_t i = 0; i < brief->n_stop; i++)
        if (is_new (self, brief->stop[i].wait))
            return &brief->stop[i];
    return NULL;
}

static bool is_due (const wm_notify_t *self, int event, const wm_brief_t *brief, bool stops)
{
    if (!self->config.command[event] || !*self->config.command[event])
        return false;
    switch (event) {
    case WM_NOTIFY_PAUSE:
        return new_stop (self, brief) != NULL;
    case WM_NOTIFY_HELD:
        return held_of (brief) > self->told.n_held;
    default: /* a producer may announce more; where the broker stops, its BYE may not be read yet */
        return is_done (brief) && !self->told.is_done && (stops || !brief->n_producer);
    }
}

/* ---- the command ----------------------------------------------------------------------------- */

static const char *s_of (uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* A peer's wait holds up that peer, the broker's own ones all.  */
static void sentence_of_stop (const wm_notify_t *self, const wm_brief_stop_t *stop,
                              char text[VALUE_BYTES])
{
    const wm_wait_row_t *row = &wm_waits[stop->wait];
    char dir[VALUE_BYTES];
    wm_text_word (dir, sizeof dir, self->config.dir);
    if (row->by == WM_WAIT_BY_BROKER)
        snprintf (text, VALUE_BYTES,
                  "campaign %.2000s hands out nothing: %.480s; `wiremill why %.2000s` explains it",
                  self->config.dir, stop->text, dir);
    else
        snprintf (text, VALUE_BYTES,
                  "campaign %.2000s waits, %s: %.480s; `wiremill why %.2000s` explains it",
                  self->config.dir, row->name, stop->text, dir);
}

/* One plain sentence. What peers wrote stands within it, tamed.  */
static void sentence (const wm_notify_t *self, int event, const wm_brief_t *brief,
                      char text[VALUE_BYTES])
{
    const unsigned long long hits = brief->hits_held, inputs = brief->inputs_held;
    char dir[VALUE_BYTES];
    const int size = VALUE_BYTES;
    if (event == WM_NOTIFY_PAUSE)
        sentence_of_stop (self, new_stop (self, brief), text);
    else if (event == WM_NOTIFY_HELD)
        snprintf (text, size,
                  "campaign %.2000s: %llu hit%s and %llu input%s are held, %llu of them new; "
                  "`wiremill held %.2000s` lists them",
                  self->config.dir, hits, s_of (hits), inputs, s_of (inputs),
                  (unsigned long long) (held_of (brief) - self->told.n_held),
                  wm_text_word (dir, sizeof dir, self->config.dir));
    else
        snprintf (text, size,
                  "campaign %.4100s is done: %llu input%s written, %llu held; %llu hits scored, "
                  "%llu held",
                  self->config.dir, (unsigned long long) brief->inputs_written,
                  s_of (brief->inputs_written), inputs, (unsigned long long) brief->hits_done,
                  hits);
    wm_log_sanitize (text);
}

typedef struct {
    char text[VARIABLES][VARIABLE_BYTES];
    int n;
    char *pointer[]; /* of the new environment */
} environment_t;

static void add_text (environment_t *self, const char *name, const char *value)
{
    snprintf (self->text[self->n++], VARIABLE_BYTES, "WIREMILL_%.20s=%.*s", name, VALUE_BYTES - 1,
              value);
}

static void add_number (environment_t *self, const char *name, uint64_t value)
{
    snprintf (self->text[self->n++], VARIABLE_BYTES, "WIREMILL_%s=%llu", name,
              (unsigned long long) value);
}

/* The broker's own environment, and the facts. The caller's; NULL without memory.  */
static environment_t *environment_new (const wm_notify_t *self, int event, const wm_brief_t *brief)
{
    size_t n = 0;
    while (environ[n])
        n++;
    environment_t *made = calloc (1, sizeof *made + (n + VARIABLES + 1) * sizeof (char *));
    char text[VALUE_BYTES];
    if (!made)
        return NULL;
    sentence (self, event, brief, text);
    add_text (made, "EVENT", names[event]);
    add_text (made, "TEXT", text);
    add_text (made, "REASON",
              event == WM_NOTIFY_PAUSE ? wm_waits[new_stop (self, brief)->wait].name : "");
    add_text (made, "CAMPAIGN", self->config.dir);
    add_text (made, "OUTPUT", self->config.output);
    add_number (made, "INPUTS", brief->inputs);
    add_number (made, "INPUTS_WRITTEN", brief->inputs_written);
    add_number (made, "INPUTS_HELD", brief->inputs_held);
    add_number (made, "HITS", brief->hits_announced);
    add_number (made, "HITS_SCORED", brief->hits_done);
    add_number (made, "HITS_HELD", brief->hits_held);
    add_number (made, "HELD_NEW", held_of (brief) - self->told.n_held);
    char **to = made->pointer;
    for (int i = 0; i < made->n; i++)
        *to++ = made->text[i];
    for (size_t i = 0; i < n; i++)
        if (strncmp (environ[i], "WIREMILL_", strlen ("WIREMILL_")) != 0)
            *to++ = environ[i];
    return made;
}

/* In the child, before exec.  */
static void take_environment (const void *argument)
{
    const environment_t *made = argument;
    environ = (char **) (uintptr_t) made->pointer;
}

/* Passes on what the command has printed as far as the log may have it, and drops the rest: no
   command fills the campaign's disk. A command that never stops printing cannot hold up the
   loop.  */
static void pass_on (wm_notify_t *self)
{
    char part[1 << 16];
    ssize_t n;
    for (int i = 0; i < PARTS_MAX && (n = read (self->out_fd, part, sizeof part)) > 0; i++) {
        const size_t room = WM_NOTIFY_OUTPUT_BYTES - self->n_printed;
        const size_t more = (size_t) n < room ? (size_t) n : room;
        if (!more)
            continue;
        fwrite (part, 1, more, stderr);
        self->n_printed += more;
        self->is_within_line = part[more - 1] != '\n';
        if (more == room)
            fprintf (
                stderr,
                "%swiremill-broker: --on-%s: what its command prints from here on is dropped\n",
                self->is_within_line ? "\n" : "", names[self->event]);
        self->is_within_line &= more < room;
    }
}

/* The rest of it. Output of children that outlive the command is discarded.  */
static void end_output (wm_notify_t *self)
{
    pass_on (self);
    if (self->is_within_line)
        fputc ('\n', stderr);
    close (self->out_fd);
}

/* Kills the command that runs, if one does.  */
static void kill_it (wm_notify_t *self)
{
    if (!self->pid)
        return;
    wm_process_kill (&self->pid);
    end_output (self);
}

/* A pipe for what a command prints; -1: errno.  */
static int pipe_new (int pipe_fd[2])
{
    if (pipe2 (pipe_fd, O_CLOEXEC))
        return -1;
    fcntl (pipe_fd[0], F_SETPIPE_SZ, PIPE_BYTES); /* else it waits for a turn more often */
    return fcntl (pipe_fd[0], F_SETFL, O_NONBLOCK);
}

/* The time of its next one begins now also where it cannot be started.  */
static void start (wm_notify_t *self, int event, const wm_brief_t *brief, int64_t now_ms)
{
    const char *const argv[] = { "sh", "-c", self->config.command[event], NULL };
    const uint64_t stop =
        event == WM_NOTIFY_PAUSE ? 1ull << new_stop (self, brief)->wait : self->told.stops;
    environment_t *made = environment_new (self, event, brief);
    int out[2] = { -1, -1 };
    errno = ENOMEM;
    const bool failed = !made || pipe_new (out);
    const wm_process_t process = { .program = "/bin/sh",
                                   .argv = argv,
                                   .in = WM_PROCESS_NULL,
                                   .out = out[1],
                                   .err = out[1],
                                   .death_signal = SIGKILL,
                                   .drops_credentials = true,
                                   .prepare = take_environment,
                                   .argument = made };
    if (event == WM_NOTIFY_PAUSE)
        self->stop_ms[new_stop (self, brief)->wait] = now_ms + self->config.again_ms;
    else
        self->next_ms[event] = now_ms + self->config.again_ms;
    WM_FAILPOINT ("broker-notify-start");
    self->pid = failed ? -1 : wm_process_start (&process);
    const int error = errno;
    if (out[1] >= 0)
        close (out[1]);
    if (out[0] >= 0 && self->pid < 0)
        close (out[0]);
    self->out_fd = out[0];
    self->n_printed = 0;
    self->is_within_line = false;
    wm_log_level (self->pid < 0 || event != WM_NOTIFY_DONE ? WM_LOG_WARNING : WM_LOG_NOTICE);
    if (self->pid < 0)
        fprintf (stderr, "wiremill-broker: --on-%s: its command cannot be started: %s\n",
                 names[event], strerror (error));
    else
        fprintf (stderr, "wiremill-broker: runs the command of --on-%s: %s\n", names[event],
                 strchr (made->text[1], '=') + 1);
    self->pid = self->pid < 0 ? 0 : self->pid;
    free (made);
    self->event = event;
    self->end_ms = now_ms + self->config.limit_ms;
    self->then = (told_t){
        true, stop, brief->inputs, brief->inputs_written, brief->n_closed, held_of (brief)
    };
}

/* The command has ended, well or not: notes its event.  */
static void is_told (wm_notify_t *self)
{
    const told_t *then = &self->then;
    told_t *told = &self->told;
    WM_FAILPOINT ("broker-notify-ended");
    self->pid = 0;
    if (self->event == WM_NOTIFY_PAUSE)
        told->stops |= then->stops;
    else if (self->event == WM_NOTIFY_HELD)
        told->n_held = then->n_held;
    else {
        told->is_done = true;
        told->inputs = then->inputs;
        told->inputs_written = then->inputs_written;
        told->n_closed = then->n_closed;
    }
    note_keep (self);
}

/* Returns whether a command still runs.  */
static bool tend (wm_notify_t *self, int64_t now_ms)
{
    int status;
    if (!self->pid)
        return false;
    const pid_t ended = waitpid (self->pid, &status, WNOHANG);
    if (!ended && now_ms < self->end_ms) {
        pass_on (self);
        return true;
    }
    if (!ended)
        kill_it (self);
    else
        end_output (self);
    wm_log_level (WM_LOG_WARNING);
    if (!ended) {
        fprintf (
            stderr,
            "wiremill-broker: --on-%s: its command ran for longer than %.0f s and was killed\n",
            names[self->event], (double) self->config.limit_ms / 1e3);
    } else if (ended == self->pid && WIFSIGNALED (status))
        fprintf (stderr, "wiremill-broker: --on-%s: its command was ended by signal %d (%s)\n",
                 names[self->event], WTERMSIG (status), strsignal (WTERMSIG (status)));
    else if (ended == self->pid && WEXITSTATUS (status))
        fprintf (stderr, "wiremill-broker: --on-%s: its command failed with exit code %d\n",
                 names[self->event], WEXITSTATUS (status));
    wm_log_level (WM_LOG_INFO);
    is_told (self);
    return false;
}

/* ---- life ------------------------------------------------------------------------------------ */

wm_notify_t *wm_notify_new (const wm_notify_config_t *config)
{
    bool any = false;
    for (int i = 0; i < WM_NOTIFY_EVENTS; i++)
        any |= config->command[i] && *config->command[i];
    wm_notify_t *self = any ? calloc (1, sizeof *self) : NULL;
    if (any && !self)
        fputs ("wiremill-broker: no memory for --on-done, --on-held and --on-pause: their commands "
               "do not run\n",
               stderr);
    if (!self)
        return NULL;
    self->config = *config;
    self->kept = record_of (&self->told);
    return self;
}

void wm_notify_destroy (wm_notify_t **self_p)
{
    if (*self_p)
        kill_it (*self_p);
    free (*self_p);
    *self_p = NULL;
}

void wm_notify_turn (wm_notify_t *self, const wm_brief_t *brief, int64_t now_ms)
{
    if (!self || tend (self, now_ms))
        return;
    self->now_ms = now_ms;
    forget (&self->told, brief);
    note_keep (self);
    for (int event = 0; event < WM_NOTIFY_EVENTS && !self->pid; event++)
        if (now_ms >= self->next_ms[event] && is_due (self, event, brief, false))
            start (self, event, brief, now_ms);
}

/* Waits for the end of the command that runs.  */
static void await (wm_notify_t *self, const volatile sig_atomic_t *signals)
{
    while (tend (self, wm_now_ms ())) {
        if (*signals > 1) {
            fprintf (stderr, "wiremill-broker: --on-%s: its command is killed by a second signal\n",
                     names[self->event]);
            kill_it (self);
            return; /* not told: the next broker runs it again */
        }
        usleep (POLL_MS * 1000);
    }
}

void wm_notify_stop (wm_notify_t *self, const wm_brief_t *brief,
                     const volatile sig_atomic_t *signals)
{
    if (!self)
        return;
    const int64_t end_ms = wm_now_ms () + self->config.limit_ms;
    self->end_ms = self->end_ms < end_ms ? self->end_ms : end_ms;
    await (self, signals);
    self->now_ms = INT64_MAX; /* all that are due */
    if (brief)
        forget (&self->told, brief);
    for (int event = 0; brief && event < WM_NOTIFY_EVENTS && *signals < 2; event++) {
        if (!is_due (self, event, brief, true) || wm_now_ms () >= end_ms)
            continue;
        start (self, event, brief, wm_now_ms ());
        self->end_ms = end_ms;
        await (self, signals);
    }
}
