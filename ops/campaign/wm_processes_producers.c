/* wm_processes_producers.c - producers of a crew: started, listened to, started again; see
   wm_processes.h.

   A place of the crew's senders is free while its list of inputs is empty. Exit codes 0, 3 and 5
   tell of a producer's own inputs only: the others go on. Any other code ends the campaign.  */

#include "ops/campaign/wm_crash_hold.h"
#include "ops/campaign/wm_processes.h"
#include "ops/campaign/wm_processes_private.h"
#include "ops/process/wm_memory.h"
#include "schema/session/wm_join.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PRODUCER_DEATHS_MAX 3
#define HEAR_MS 20
#define LOG_MS 500
#define AWAY_WAITS_MAX 64 /* pauses of 2 s to 128 s */

/* ---- starting -------------------------------------------------------------------------------- */

/* Fills in the next producer, which is not started yet.  */
wm_fault_t wm_processes_sender_init (wm_processes_t *self, const wm_inputs_t *inputs,
                                     uint32_t first, wm_error_t *error)
{
    char name[24] = "producer", memory[32];
    int fd, i = 0;
    while (i < self->n_sender && self->sender[i].inputs.n_file)
        i++;
    if (i)
        snprintf (name, sizeof name, "producer-%d", i + 1);
    assert (i < WM_PROCESSES_SENDERS_MAX); /* wm_processes_has_room */
    self->n_sender = i == self->n_sender ? i + 1 : self->n_sender;
    wm_sender_t *sender = &self->sender[i];
    *sender = (wm_sender_t){ .child = sender->child, .inputs = *inputs, .first = first };
    if (sender->child.name[0]) /* an earlier one's place, with its log */
        return WM_OK;
    if (self->setup)
        return wm_child_init (&sender->child, name, self->log_folder, error);
    /* a farm's broker: there is no campaign here to keep a log in */
    wm_fault_t fault = wm_child_init (&sender->child, name, NULL, error);
    if (!fault)
        fault = wm_memory_file ("producer.log", "", 0, &fd, memory, error);
    strcpy (sender->child.log, fault ? "" : memory);
    return fault;
}

/* A pipe of its own for each start, so that nothing of an earlier process is mixed up with it.  */
static wm_fault_t tell_open (wm_sender_t *sender, wm_error_t *error)
{
    for (int i = 0; i < 2; i++)
        if (sender->tell[i])
            close (sender->tell[i]);
    sender->n_line = 0;
    sender->low = sender->is_away = false;
    if (pipe2 (sender->tell, O_CLOEXEC) || fcntl (sender->tell[0], F_SETFL, O_NONBLOCK)) {
        sender->tell[0] = sender->tell[1] = 0;
        return wm_fault (error, WM_EHOST, "a pipe for the producer: %s", strerror (errno));
    }
    snprintf (sender->tell_name, sizeof sender->tell_name, "/proc/self/fd/%d", sender->tell[1]);
    return WM_OK;
}

wm_fault_t wm_processes_start_producer (wm_processes_t *self, wm_sender_t *sender,
                                        wm_error_t *error)
{
    const char *argv[28 + 2 * WM_JOIN_FILES_MAX] = {
        "wiremill-producer", "produce",   "--broker",    self->endpoint, "--input-list",
        sender->inputs.path, "--command", self->command, "--parent"
    };
    int n = 9;
    if (tell_open (sender, error))
        return error->fault;
    argv[n++] = "--tell";
    argv[n++] = sender->tell_name;
    sender->retry_held |= self->retry_held;
    self->retry_held = false;
    if (sender->retry_held && sender->n_retry++ <= PRODUCER_DEATHS_MAX)
        argv[n++] = "--retry-held";
    if (self->give_up) {
        argv[n++] = "--give-up";
        argv[n++] = self->give_up;
    }
    const char *const stage[][2] = { { "--scratch", *self->scratch ? self->scratch : NULL },
                                     { "--stage-ahead", self->stage_ahead },
                                     { "--stage-bytes", self->stage_bytes },
                                     { "--output", self->store } };
    for (size_t i = 0; i < sizeof stage / sizeof *stage; i++)
        if (stage[i][1]) {
            argv[n++] = stage[i][0];
            argv[n++] = stage[i][1];
        }
    if (self->store && self->sidecars)
        argv[n++] = "--sidecars";
    if (!self->setup && !self->asks)
        argv[n++] = "--summary";
    const bool has_own = wm_join_suffices (WM_ROLE_PRODUCER);
    for (size_t i = 0; !self->setup && wm_join_path (i); i++) {
        if (has_own && !wm_join_fits (i, WM_ROLE_PRODUCER))
            continue; /* a hostile event file shall not find an operator's key */
        argv[n++] = "--join-file";
        argv[n++] = wm_join_give (i);
    }
    return wm_child_start (&sender->child, argv[0], argv, error);
}

bool wm_processes_has_room (const wm_processes_t *self, bool when_low)
{
    bool room = self->n_sender < WM_PROCESSES_SENDERS_MAX, low = true;
    for (int i = 0; i < self->n_sender; i++) {
        const wm_sender_t *sender = &self->sender[i];
        room |= !sender->inputs.n_file;
        low &= !sender->inputs.n_file || sender->low;
    }
    return room && (low || !when_low);
}

int wm_processes_add (wm_processes_t *self, const wm_inputs_t *inputs, uint32_t first)
{
    wm_error_t error;
    wm_sender_t *sender = NULL;
    if (wm_processes_sender_init (self, inputs, first, &error))
        return wm_processes_failed (self, &error);
    for (int i = 0; i < self->n_sender; i++)
        if (self->sender[i].inputs.n_file && self->sender[i].first == first)
            sender = &self->sender[i];
    return wm_processes_start_producer (self, sender, &error) ? wm_processes_failed (self, &error)
                                                              : WM_PROCESSES_WORKING;
}

/* ---- listening ------------------------------------------------------------------------------- */

/* A producer logs warnings only: held inputs, a full disk. They are shown as they come.  */
static void show_producer_log (wm_processes_t *self, wm_sender_t *sender)
{
    struct stat st;
    const int64_t now = wm_now_ms ();
    if (now < sender->log_ms)
        return;
    sender->log_ms = now + LOG_MS;
    if (stat (sender->child.log, &st) || st.st_size <= sender->child.shown)
        return;
    wm_processes_show_log (self, &sender->child);
}

static bool is_name (const char *name)
{
    return *name && *name != '.' && !strchr (name, '/');
}

/* "SLOT NAME" of an output on its way to a server: SLOT is a number.  */
static void placed (wm_processes_t *self, uint32_t input, char *rest)
{
    char *name, folder[PATH_MAX + 40];
    const unsigned long slot = strtoul (rest, &name, 10);
    if (name == rest || *name != ' ' || !self->store || !self->sidecars || !is_name (name + 1))
        return;
    snprintf (folder, sizeof folder, "%s/%lu/out", self->scratch, slot);
    self->placed (self->told_argument, input, folder, name + 1);
}

/* Acts on a line of a producer, which a hostile file may have taken over: an output is named
   without its folder, and its input by a number of this producer's.  */
static void heard (wm_processes_t *self, wm_sender_t *sender, char *line)
{
    static const struct {
        const char *word;
        wm_file_source_is_t is;
    } words[] = { { "placed ", WM_FILE_SOURCE_WAITS },
                  { "written ", WM_FILE_SOURCE_WRITTEN },
                  { "held ", WM_FILE_SOURCE_HELD },
                  { "changed ", WM_FILE_SOURCE_CHANGED },
                  { "edited ", WM_FILE_SOURCE_EDITED } };
    char *end;
    size_t word = 0;
    if (strncmp (line, "output ", 7) == 0 && !self->output[0])
        snprintf (self->output, sizeof self->output, "%s", line + 7);
    sender->low |= strcmp (line, "low") == 0;
    sender->is_away |= strcmp (line, "away") == 0;
    while (word < sizeof words / sizeof *words &&
           strncmp (line, words[word].word, strlen (words[word].word)) != 0)
        word++;
    if (word == sizeof words / sizeof *words)
        return;
    const wm_file_source_is_t is = words[word].is;
    const char *number = line + strlen (words[word].word);
    const unsigned long n = strtoul (number, &end, 10);
    const bool has_name = is == WM_FILE_SOURCE_WAITS || is == WM_FILE_SOURCE_WRITTEN;
    if (end == number || n >= sender->inputs.n_file || *end != (has_name ? ' ' : 0))
        return;
    const uint32_t input = sender->first + (uint32_t) n;
    if (is == WM_FILE_SOURCE_WAITS)
        placed (self, input, end + 1);
    else if (!has_name || is_name (end + 1))
        self->told (self->told_argument, input, is, has_name ? end + 1 : NULL);
}

/* Acts on lines for HEAR_MS, since each may wait for a disk: a Ctrl-C is taken between calls.
   Returns whether there may be more.  */
static bool hear (wm_processes_t *self, wm_sender_t *sender)
{
    char text[512];
    ssize_t n = 1;
    for (const int64_t end_ms = wm_now_ms () + HEAR_MS; n > 0 && wm_now_ms () <= end_ms;) {
        n = sender->tell[0] ? read (sender->tell[0], text, sizeof text) : 0;
        for (ssize_t i = 0; i < n; i++)
            if (text[i] == '\n') {
                sender->line[sender->n_line] = 0;
                sender->n_line = 0;
                heard (self, sender, sender->line);
            } else if (sender->n_line < sizeof sender->line - 1)
                sender->line[sender->n_line++] = text[i];
    }
    return n > 0;
}

void wm_processes_read_reports (wm_processes_t *self)
{
    for (int i = 0; i < self->n_sender; i++) {
        wm_processes_show_log (self, &self->sender[i].child);
        while (hear (self, &self->sender[i]))
            ;
    }
}

/* ---- restarting them ------------------------------------------------------------------------- */

/* The outputs' server, which has answered another producer, does not answer this one: it is started
   again after a pause.  */
static int producer_waits (wm_processes_t *self, wm_sender_t *sender)
{
    const int64_t wait_ms = wm_times ()->stage_wait_ms, now = wm_now_ms ();
    const wm_restart_rule_t rule = { .first = wait_ms, .most = AWAY_WAITS_MAX * wait_ms };
    wm_restart_failed (&sender->away, &rule, now, false);
    sender->child.restart.at = sender->away.at;
    wm_processes_report (self,
                         "the outputs' server does not answer %s; starting it again in %.1f s, its "
                         "inputs wait",
                         sender->child.name, (double) (sender->away.at - now) / 1e3);
    return WM_PROCESSES_WORKING;
}

/* A producer was ended from outside, or crashed while it read no input: it is started again, but
   only PRODUCER_DEATHS_MAX times while the campaign makes no progress.  */
static int producer_killed (wm_processes_t *self, wm_sender_t *sender)
{
    wm_error_t error;
    static const wm_restart_rule_t rule = { .give_up = PRODUCER_DEATHS_MAX + 1 };
    const bool has_worked = self->progress != sender->progress;
    sender->progress = self->progress;
    if (!wm_restart_failed (&sender->killed, &rule, 0, has_worked)) {
        wm_processes_report_end (self, &sender->child,
                                 "that was %d times without progress: it is not started again",
                                 sender->killed.in_row);
        return wm_child_crashed (&sender->child) ? WM_EXIT_FAILURE : WM_EXIT_AGAIN;
    }
    wm_processes_report_end (self, &sender->child, "starting it again");
    return wm_processes_start_producer (self, sender, &error) ? wm_processes_failed (self, &error)
                                                              : WM_PROCESSES_WORKING;
}

/* A producer has ended. WM_PROCESSES_WORKING if it was started again.  */
static int producer_ended (wm_processes_t *self, wm_sender_t *sender)
{
    char how[WM_CHILD_HOW_BYTES];
    wm_error_t error;
    wm_child_t *child = &sender->child;
    const int code = wm_processes_code_of (child);
    wm_processes_show_log (self, child);
    if (sender->is_away && code == WM_EXIT_AGAIN && *self->output)
        return producer_waits (self, sender);
    if (WIFEXITED (child->status)) {
        if (!wm_child_has_logged (child) && code != WM_EXIT_OK && code != WM_EXIT_HELD)
            wm_processes_report_end (self, child, "it is not started again");
        return code;
    }
    if (WTERMSIG (child->status) == SIGTERM) { /* before it could take it as a request */
        wm_processes_report_end (self, child, "it is not started again");
        return WM_EXIT_AGAIN;
    }
    const bool has_crashed = wm_child_crashed (child);
    const char *input = has_crashed ? wm_crash_hold_input (child) : "";
    if (!*input)
        return producer_killed (self, sender);
    wm_child_how (child, how);
    static const wm_restart_rule_t rule = { .give_up = 10 };
    const bool again = strcmp (input, sender->crashed) == 0;
    if (!wm_restart_failed (&child->restart, &rule, wm_now_ms (), !again)) {
        wm_processes_report_end (self, child, "it is not started again");
        return WM_EXIT_FAILURE;
    }
    if (again) {
        wm_processes_report (self, "the producer crashed a second time on %s (%s): held as bad",
                             input, how);
        sender->retry_held = false; /* else this input would be tried again */
        if (wm_crash_hold_hold (self->endpoint, input, how, &error))
            return wm_processes_failed (self, &error);
    } else
        wm_processes_report (self, "the producer crashed by %s on %s; starting it again", how,
                             input);
    snprintf (sender->crashed, sizeof sender->crashed, "%s", input);
    return wm_processes_start_producer (self, sender, &error) ? wm_processes_failed (self, &error)
                                                              : WM_PROCESSES_WORKING;
}

/* A producer has ended for good with one of the codes that tell of its inputs only.  */
static void sender_done (wm_processes_t *self, wm_sender_t *sender, int code)
{
    self->ended[code == WM_EXIT_OK ? 0 : code == WM_EXIT_HELD ? 1 : 2]++;
    close (sender->inputs.fd);
    sender->inputs.n_file = 0;
    for (int i = 0; i < 2; i++)
        if (sender->tell[i])
            close (sender->tell[i]);
    sender->tell[0] = sender->tell[1] = 0;
}

/* The exit code of all producers together, once all have ended.  */
static int code_of_all (const wm_processes_t *self)
{
    for (int i = 0; i < self->n_sender; i++)
        if (self->sender[i].inputs.n_file)
            return WM_PROCESSES_WORKING;
    if (self->more)
        return WM_PROCESSES_WORKING;
    if (self->ended[2] && !self->ended[0] && !self->ended[1])
        return WM_EXIT_INPUT;
    return self->ended[1] || self->ended[2] ? WM_EXIT_HELD : WM_EXIT_OK;
}

/* Returns WM_PROCESSES_WORKING, or an exit code that ends the campaign.  */
int wm_processes_step_producers (wm_processes_t *self)
{
    wm_error_t error;
    for (int i = 0; i < self->n_sender; i++) {
        wm_sender_t *sender = &self->sender[i];
        if (!sender->inputs.n_file)
            continue;
        if (wm_restart_is_due (&sender->child.restart, wm_now_ms ()) &&
            wm_processes_start_producer (self, sender, &error))
            return wm_processes_failed (self, &error);
        sender->has_ended |= wm_child_ended (&sender->child);
        show_producer_log (self, sender);
        if (hear (self, sender) || !sender->has_ended)
            continue;
        sender->has_ended = false;
        const int code = producer_ended (self, sender);
        if (code == WM_EXIT_OK || code == WM_EXIT_HELD || code == WM_EXIT_INPUT)
            sender_done (self, sender, code);
        else if (code != WM_PROCESSES_WORKING)
            return code;
    }
    return code_of_all (self);
}
