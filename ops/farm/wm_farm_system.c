/* wm_farm_system.c - a farm's jobs in a batch system, by its profile: their script, how they are
   listed, submitted and ended.

   A job is found by its name, which all jobs of a farm have, and by nothing that this process
   remembers. `submit` returns once the batch system has the job, so that `list` shows it from then
   on; a submission that outlives this process holds the farm's lock until it has ended.  */
#include "ops/farm/wm_farm.h"
#include "ops/process/wm_command.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_log.h"

#include <assert.h>
#include <fnmatch.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRACE_S 10 /* more than the drain: to load, to say goodbye */
#define HOUR_S 3600
#define IDS_MAX 100 /* of one command */

/* ---- names and jobs -------------------------------------------------------------------------- */

size_t wm_farm_bad_nodes (const wm_farm_t *self, char *text, size_t bytes)
{
    size_t n = 0, used = 0;
    text[0] = 0;
    for (size_t i = 0; self->failures && i < self->failures->n_node; i++) {
        const char *name = self->failures->node[i].name;
        if (!self->failures->node[i].is_bad || used + strlen (name) + 2 > bytes)
            continue;
        used += (size_t) snprintf (text + used, bytes - used, "%s%s", n++ ? "," : "", name);
    }
    return n;
}

wm_farm_job_t *wm_farm_jobs_add (wm_farm_jobs_t *self, const char *id)
{
    wm_must_grow (&self->job, &self->capacity, self->n + 1, sizeof *self->job);
    wm_farm_job_t *job = &self->job[self->n++];
    memset (job, 0, sizeof *job);
    snprintf (job->id, sizeof job->id, "%s", id);
    return job;
}

wm_farm_job_t *wm_farm_jobs_find (const wm_farm_jobs_t *self, const char *id)
{
    for (size_t i = 0; i < self->n; i++)
        if (strcmp (self->job[i].id, id) == 0)
            return &self->job[i];
    return NULL;
}

void wm_farm_jobs_free (wm_farm_jobs_t *self)
{
    free (self->job);
    *self = (wm_farm_jobs_t){ 0 };
}

/* ---- values ---------------------------------------------------------------------------------- */

static void put_text (wm_farm_values_t *values, const char *name, const char *text)
{
    wm_farm_values_put (values, name, "%s", text ? text : "");
}

/* 0: the value is empty.  */
static void put_number (wm_farm_values_t *values, const char *name, int64_t number)
{
    wm_farm_values_put (values, name, number ? "%lld" : "", (long long) number);
}

static void put_options (wm_farm_values_t *values, const wm_farm_t *self)
{
    const long long wall_s = self->wall_s;
    put_text (values, "partition", self->partition);
    put_text (values, "account", self->account);
    put_text (values, "memory", self->memory);
    put_text (values, "image", self->image);
    put_text (values, "prometheus", self->prometheus);
    put_number (values, "cpus", self->cpus ? self->cpus : 1);
    put_number (values, "many-cpus", self->cpus > 1 ? self->cpus : 0);
    put_number (values, "wall-s", wall_s);
    wm_farm_values_put (values, "wall-hms", wall_s ? "%lld:%02lld:%02lld" : "", wall_s / 3600,
                        wall_s / 60 % 60, wall_s % 60);
    wm_farm_values_put (values, "drain-s", "%lld",
                        (long long) (wall_s ? wm_farm_drain_s (wall_s) : WM_FARM_DRAIN_S));
    put_number (values, "grace-s", self->drain_s + GRACE_S);
    put_number (values, "give-up-s", self->give_up_s);
    put_number (values, "window-s", self->idle_s < HOUR_S ? self->idle_s : HOUR_S);
    put_number (values, "interval-s", self->interval_s);
    wm_farm_values_list (values, "submit-option", self->submit_option);
    wm_farm_values_list (values, "work-option", self->work_option);
}

/* What each template of a profile may have in it.  */
static wm_farm_values_t values_for (const wm_farm_t *self, unsigned n, bool is_kept)
{
    wm_farm_values_t it = { 0 };
    char bad[PATH_MAX];
    const struct passwd *user = getpwuid (getuid ());
    const char *file = self->profile.file;
    wm_farm_bad_nodes (self, bad, sizeof bad);
    put_text (&it, "name", self->name);
    put_text (&it, "campaign", self->campaign);
    put_text (&it, "user", user ? user->pw_name : "*");
    put_text (&it, "broker", self->endpoint);
    put_text (&it, "join-file", self->join_file);
    put_text (&it, "folder", self->folder);
    wm_farm_values_put (&it, "script", "%s/worker.sh", self->folder);
    wm_farm_values_put (&it, "file", file ? "%s/%s" : "", self->folder, file);
    put_text (&it, "bad-nodes", bad);
    put_number (&it, "n", n);
    put_number (&it, "idle-s", is_kept ? 0 : self->idle_s);
    wm_farm_values_put (&it, "lock", self->lock < 0 ? "" : "%d", self->lock);
    wm_farm_values_put (&it, "min", "%u", self->limits.min);
    wm_farm_values_put (&it, "max", "%u", self->limits.max);
    put_number (&it, "batches-each", self->limits.batches_each);
    put_options (&it, self);
    return it;
}

static void put_job (wm_farm_values_t *values, const char *id, const char *state, const char *node,
                     const char *text)
{
    put_text (values, "id", id);
    put_text (values, "state", state);
    put_text (values, "node", node);
    put_text (values, "text", text);
}

/* ---- the profile ----------------------------------------------------------------------------- */

bool wm_farm_keeps_itself (const wm_farm_t *self)
{
    return !wm_farm_profile_has (&self->profile, WM_FARM_LIST);
}

bool wm_farm_is_here (const wm_farm_t *self)
{
    return wm_farm_profile_uses (&self->profile, "lock"); /* which other jobs do not inherit */
}

char *wm_farm_text (const wm_farm_t *self, wm_farm_key_t key)
{
    wm_farm_values_t values = values_for (self, 0, false);
    char *text = wm_farm_profile_text (&self->profile, key, &values);
    wm_farm_values_clear (&values);
    return text;
}

wm_fault_t wm_farm_open (wm_farm_t *self, const char *path, wm_error_t *error)
{
    static const char *const no_list[] = { NULL };
    if (wm_farm_profile_read (&self->profile, path, error))
        return error->fault;
    wm_farm_values_t all = values_for (self, 1, false), ends = values_for (self, 1, false),
                     job = { 0 };
    put_text (&ends, "ids", "");
    wm_farm_values_list (&ends, "id", no_list);
    put_job (&job, "", "", "", "");
    wm_fault_t fault = WM_OK;
    for (wm_farm_key_t key = 0; key < WM_FARM_KEYS && !fault; key++)
        fault = wm_farm_profile_check (&self->profile, key,
                                       key == WM_FARM_REASON                            ? &job
                                       : key >= WM_FARM_WITHDRAW && key <= WM_FARM_KILL ? &ends
                                                                                        : &all,
                                       error);
    wm_farm_values_clear (&all);
    wm_farm_values_clear (&ends);
    wm_farm_values_clear (&job);
    return fault;
}

/* Whether one of the patterns, blanks between them, matches.  */
static bool matches (const char *patterns, const char *state)
{
    char one[64];
    while (*(patterns += strspn (patterns, " \n"))) {
        const size_t n = strcspn (patterns, " \n");
        snprintf (one, sizeof one, "%.*s", (int) n, patterns);
        if (fnmatch (one, state, 0) == 0)
            return true;
        patterns += n;
    }
    return false;
}

/* The patterns, and behind a colon the sentence for a name that one of them matches.  */
wm_fault_t wm_farm_check_name (const wm_farm_t *self, wm_error_t *error)
{
    char *patterns = wm_farm_text (self, WM_FARM_NAMES_NOT), *why = strchr (patterns, ':');
    if (why)
        *why++ = 0;
    const wm_fault_t fault = matches (patterns, self->farm)
                                 ? wm_fault (error, WM_EUSAGE, "--name %s:%.*s", self->farm,
                                             why ? (int) strcspn (why, "\n") : 0, why ? why : "")
                                 : WM_OK;
    free (patterns);
    return fault;
}

/* ---- the script ------------------------------------------------------------------------------ */

/* One shell script for all batch systems. It starts `wiremill work` and waits for it. A batch
   system may signal the shell, or the shell and all below it: the script hands SIGTERM on, and a
   worker takes two of them in a moment as one. What ended a job is in FOLDER/end/JOB, renamed into
   place, since the farm reads it at any moment; FOLDER/log/JOB.json is there if its worker had
   connected (--state-file).  */

static void print_option (FILE *out, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    fprintf (out, " \\\n    %s ", name);
    wm_command_word (out, value);
}

static void print_number (FILE *out, const char *name, int64_t value)
{
    if (value > 0)
        fprintf (out, " \\\n    %s %lld", name, (long long) value);
}

static void print_worker (FILE *out, const wm_farm_t *self)
{
    fputs ("( trap '' USR2; exec ", out); /* Grid Engine sends both to all processes of a job */
    wm_command_word (out, self->program);
    fputs (" work", out);
    print_option (out, "--broker", self->endpoint);
    print_option (out, "--join-file", self->join_file);
    print_option (out, "--cache", self->cache);
    print_number (out, "--threads", self->cpus);
    print_number (out, "--wall-time", self->wall_s - wm_farm_drain_s (self->wall_s));
    print_number (out, "--give-up", self->give_up_s);
    fputs (" \\\n    --state-file \"$folder/log/$job.json\"", out);
    for (int i = 0; self->work_option[i]; i++) {
        fputs (" \\\n    ", out);
        wm_command_word (out, self->work_option[i]);
    }
    fputs (" \\\n    ${1:+--idle-timeout \"$1\"} ) &\n", out);
}

/* Writes the shell script that a job runs; its first argument is the idle time, "" for none.  */
static void write_script (FILE *out, const wm_farm_t *self)
{
    char *whoami = wm_farm_text (self, WM_FARM_JOB);
    fprintf (out,
             "#!/bin/bash\n"
             "# A worker of wiremill's farm %s, campaign %s; argument: leave after so many idle "
             "seconds.\n%s",
             self->farm, self->campaign, whoami);
    free (whoami);
    fputs ("folder=", out);
    wm_command_word (out, self->folder);
    fputs ("\nexport WM_JOB=$job WM_FARM=", out);
    wm_command_word (out, self->name);
    fputs ("\n", out);
    fputs ("record () { echo \"$1 $node\" >\"$folder/end/$job.part\" && "
           "mv \"$folder/end/$job.part\" \"$folder/end/$job\"; }\n"
           "worker= ended=\n"
           "trap '' USR1 # Grid Engine: the job will be suspended\n"
           "trap 'record $?' EXIT\n"
           "trap 'ended=1; [ -z \"$worker\" ] || kill -TERM $worker 2>/dev/null' TERM USR2\n"
           "rm -f \"$folder/log/$job.json\" # of the same job before it was requeued\n",
           out);
    if (self->prologue)
        fprintf (out, "%s\n", self->prologue);
    fputs ("[ -z \"$ended\" ] || { trap - EXIT; record 75; exit 0; }\n", out);
    print_worker (out, self);
    fputs ("worker=$!\n"
           "[ -z \"$ended\" ] || kill -TERM $worker 2>/dev/null\n"
           "until wait $worker; ! kill -0 $worker 2>/dev/null; do :; done # a signal ends a wait\n"
           "wait $worker\n"
           "code=$?\n"
           "trap - EXIT\n"
           "record $code\n"
           "[ $code = 75 ] || exit $code # 75: drained\n",
           out);
}

static char *text_of (const wm_farm_t *self, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream (&text, bytes);
    assert (out);
    write_script (out, self);
    fclose (out);
    assert (text);
    return text;
}

wm_fault_t wm_farm_write_script (const wm_farm_t *self, wm_error_t *error)
{
    char path[PATH_MAX + 16];
    size_t bytes;
    char *text = text_of (self, &bytes);
    snprintf (path, sizeof path, "%s/worker.sh", self->folder);
    wm_fault_t fault = wm_target_check (path, &wm_made_farm_script, -1, error);
    if (!fault)
        fault = wm_file_write (path, &(wm_part_t){ .bytes = text, .size = bytes }, 1, error);
    free (text);
    return fault;
}

/* ---- commands -------------------------------------------------------------------------------- */

/* Whether jobs that have ended meanwhile, or are removed already, explain this message.  */
static bool is_harmless (const wm_farm_t *self, const char *message)
{
    char *pattern = wm_farm_text (self, WM_FARM_HARMLESS);
    pattern[strcspn (pattern, "\n")] = 0;
    const bool yes = fnmatch (pattern, message, 0) == 0;
    free (pattern);
    return yes;
}

static void print_command (FILE *out, const char *head, const char *const argv[])
{
    fputs (head, out);
    for (int i = 0; argv[i]; i++) {
        if (i)
            fputc (' ', out);
        wm_command_word (out, argv[i]);
    }
    fputc ('\n', out);
}

/* Runs the commands of a key; *output, the caller's, is what the last one wrote. With `dry` they
   are printed there instead, each behind `head`.  */
static wm_fault_t run (const wm_farm_t *self, wm_farm_key_t key, const wm_farm_values_t *values,
                       char **output, FILE *dry, const char *head, wm_error_t *error)
{
    const char **argv;
    wm_fault_t fault = WM_OK;
    bool has_run = false;
    *output = NULL;
    for (unsigned i = 0;
         !fault && (argv = wm_farm_profile_command (&self->profile, key, i, values)); i++) {
        char *input = *output;
        has_run |= *argv != NULL;
        if (*argv && dry)
            print_command (dry, head, argv);
        else if (*argv) {
            fault = wm_farm_command (argv, input, key == WM_FARM_SUBMIT ? self->lock : 0, output,
                                     error);
            free (input);
        }
        if (fault == WM_EHOST && key > WM_FARM_LIST && is_harmless (self, error->text))
            fault = WM_OK;
        free (argv);
    }
    if (!fault && !has_run && key == WM_FARM_SUBMIT)
        fault = wm_fault (error, WM_EUSAGE,
                          "%s: `submit` has no command: its first line has a value that is empty",
                          self->profile.path);
    return fault;
}

/* ---- listing --------------------------------------------------------------------------------- */

/* What a batch system's words for a job mean, and the job that they are of.  */
typedef struct {
    const wm_farm_t *farm;
    wm_farm_jobs_t *jobs;
    char *over, *failed, *pending;
} reading_t;

/* Takes one line, ID|STATE|NODE|TEXT; the last two may be missing. Returns false if it has another
   form.  */
static bool take_line (const reading_t *self, char *line)
{
    char *id = strsep (&line, "|"), *state = strsep (&line, "|"), *node = strsep (&line, "|");
    if (!state || !*id || strlen (id) >= WM_FARM_JOB_BYTES || strchr (id, '/') ||
        strchr ("-.", *id))
        return false;
    if (matches (self->over, state))
        return true;
    wm_farm_job_t *job = wm_farm_jobs_add (self->jobs, id);
    job->has_failed = matches (self->failed, state);
    job->is_running = !job->has_failed && !matches (self->pending, state);
    if (node && (job->is_running || job->has_failed))
        snprintf (job->node, sizeof job->node, "%.63s", node);
    if (job->has_failed) {
        wm_farm_values_t values = { 0 };
        put_job (&values, id, state, job->node, line);
        char *reason = wm_farm_profile_text (&self->farm->profile, WM_FARM_REASON, &values);
        snprintf (job->reason, sizeof job->reason, "%.*s", (int) strcspn (reason, "\n"), reason);
        wm_farm_values_clear (&values);
        free (reason);
    }
    wm_log_sanitize (job->node);
    wm_log_sanitize (job->reason);
    return true;
}

wm_fault_t wm_farm_list (const wm_farm_t *self, wm_farm_jobs_t *jobs, wm_error_t *error)
{
    char *output, *line;
    wm_farm_values_t values = values_for (self, 0, false);
    wm_fault_t fault = run (self, WM_FARM_LIST, &values, &output, NULL, "", error);
    wm_farm_values_clear (&values);
    const reading_t reading = { self, jobs, wm_farm_text (self, WM_FARM_OVER),
                                wm_farm_text (self, WM_FARM_FAILED),
                                wm_farm_text (self, WM_FARM_PENDING) };
    for (char *rest = output; !fault && (line = strsep (&rest, "\n"));) {
        char shown[64];
        snprintf (shown, sizeof shown, "%s", line);
        if (*line && !take_line (&reading, line)) {
            wm_log_sanitize (shown);
            fault = wm_fault (error, WM_EHOST,
                              "%s: its `list` gave the line \"%s\", which is no ID|STATE|NODE|TEXT",
                              self->profile.path, shown);
        }
    }
    free (reading.over);
    free (reading.failed);
    free (reading.pending);
    free (output);
    return fault;
}

/* ---- submitting and ending ------------------------------------------------------------------- */

/* Writes or prints the profile's file. Its first line states whose it is: it may be replaced.  */
static wm_fault_t make_file (const wm_farm_t *self, const wm_farm_values_t *values, FILE *dry,
                             wm_error_t *error)
{
    char path[PATH_MAX + 64], head[128];
    wm_fault_t fault = WM_OK;
    if (!self->profile.file)
        return WM_OK;
    char *text = wm_farm_profile_text (&self->profile, WM_FARM_FILE, values);
    const int n = snprintf (head, sizeof head, "# Workers of wiremill's farm %s, campaign %s.\n",
                            self->farm, self->campaign);
    snprintf (path, sizeof path, "%s/%.60s", self->folder, self->profile.file);
    if (dry)
        fprintf (dry, "%s%s\n", head, text);
    else if (!(fault = wm_target_check (path, &wm_made_farm_file, -1, error)))
        fault = wm_file_write (
            path, (const wm_part_t[]){ { head, (size_t) n }, { text, strlen (text) } }, 2, error);
    free (text);
    return fault;
}

wm_fault_t wm_farm_submit (const wm_farm_t *self, unsigned n, bool is_kept, FILE *dry,
                           wm_error_t *error)
{
    const bool is_once = wm_farm_keeps_itself (self);
    const unsigned most = !wm_farm_profile_uses (&self->profile, "n") ? 1
                          : self->profile.at_once                     ? self->profile.at_once
                                                                      : n;
    char head[32] = "", *output;
    if (is_once)
        snprintf (head, sizeof head, "# ");
    else if (most == 1)
        snprintf (head, sizeof head, "%u times: ", n);
    wm_fault_t fault = WM_OK;
    for (unsigned left = n, now; left && !fault; left -= now) {
        now = left < most ? left : most;
        wm_farm_values_t values = values_for (self, now, is_kept);
        fault = make_file (self, &values, dry, error);
        if (!fault)
            fault = run (self, WM_FARM_SUBMIT, &values, &output, dry, head, error), free (output);
        wm_farm_values_clear (&values);
        if (dry && most == 1)
            break;
    }
    if (dry && !is_once) {
        fputc ('\n', dry);
        write_script (dry, self);
    }
    return fault;
}

wm_fault_t wm_farm_end (const wm_farm_t *self, const wm_farm_jobs_t *jobs, wm_farm_key_t how,
                        wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (size_t from = 0; from < jobs->n && !fault;) {
        const char *id[IDS_MAX + 1] = { 0 };
        char *output, ids[IDS_MAX * WM_FARM_JOB_BYTES] = "";
        for (size_t i = 0, n = 0; i < IDS_MAX && from < jobs->n; i++) {
            id[i] = jobs->job[from++].id;
            n += (size_t) snprintf (ids + n, sizeof ids - n, "%s%s", i ? "," : "", id[i]);
        }
        wm_farm_values_t values = values_for (self, 0, false);
        put_text (&values, "ids", ids);
        wm_farm_values_list (&values, "id", id);
        fault = run (self, how, &values, &output, NULL, "", error);
        free (output);
        wm_farm_values_clear (&values);
    }
    return fault;
}
