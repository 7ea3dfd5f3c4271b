/* wm_farm_sge.c - a farm's jobs as tasks of Grid Engine's array jobs, found again by their name.

   qsub returns once the master has the array, so qstat shows it from then on. Grid Engine warns a
   job that it deletes or stops (-notify): all its processes get SIGUSR2, and are killed after the
   queue's notify time, 60 s unless the site changed it. The script turns that into SIGTERM. A job
   that cannot be started stays in the queue as Eqw: it counts as failed.  */
#include "ops/farm/wm_farm.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX (48 + WM_FARM_OPTIONS_MAX)
#define TASKS_MAX 500u /* of an array */

static const char whoami[] = "job=$JOB_ID.$SGE_TASK_ID node=${HOSTNAME:-$(hostname)}";

/* ---- listing --------------------------------------------------------------------------------- */

typedef struct {
    char number[16], name[96], state[16], queue[256], task[16];
} entry_t;

/* The text of <TAG>text</TAG>, if the line is that.  */
static void take_tag (const char *line, const char *tag, char *text, size_t bytes)
{
    char head[40];
    snprintf (head, sizeof head, "<%s>", tag);
    const char *at = strstr (line, head), *end = at ? strchr (at + strlen (head), '<') : NULL;
    if (end)
        snprintf (text, bytes, "%.*s", (int) (end - at - (int) strlen (head)), at + strlen (head));
}

static void take_entry (const entry_t *entry, const char *name, wm_farm_jobs_t *jobs)
{
    char id[WM_FARM_JOB_BYTES];
    if (strcmp (entry->name, name) != 0 || !*entry->number)
        return;
    snprintf (id, sizeof id, "%s.%s", entry->number, *entry->task ? entry->task : "1");
    wm_farm_job_t *job = wm_farm_jobs_add (jobs, id);
    const char *at = strchr (entry->queue, '@');
    snprintf (job->node, sizeof job->node, "%.63s", at ? at + 1 : "");
    job->has_failed = strchr (entry->state, 'E') != NULL;
    job->is_running = !job->has_failed && !strstr (entry->state, "qw");
    if (job->has_failed)
        snprintf (job->reason, sizeof job->reason,
                  "Grid Engine cannot start it (%s; qstat -j %s explains it)", entry->state,
                  entry->number);
}

/* qstat's table cuts names, its XML does not; each of its elements is on a line of its own.  */
static wm_fault_t list (const wm_farm_t *self, wm_farm_jobs_t *jobs, wm_error_t *error)
{
    const struct passwd *user = getpwuid (getuid ());
    const char *const argv[] = {
        "qstat", "-u", user ? user->pw_name : "*", "-g", "d", "-xml", NULL
    };
    char *output, *line;
    entry_t entry = { 0 };
    const wm_fault_t fault = wm_farm_command (argv, 0, &output, error);
    if (fault)
        return fault;
    for (char *rest = output; (line = strsep (&rest, "\n"));) {
        if (strstr (line, "<job_list "))
            entry = (entry_t){ 0 };
        take_tag (line, "JB_job_number", entry.number, sizeof entry.number);
        take_tag (line, "JB_name", entry.name, sizeof entry.name);
        take_tag (line, "state", entry.state, sizeof entry.state);
        take_tag (line, "queue_name", entry.queue, sizeof entry.queue);
        take_tag (line, "tasks", entry.task, sizeof entry.task);
        if (strstr (line, "</job_list>"))
            take_entry (&entry, self->name, jobs);
    }
    free (output);
    return WM_OK;
}

/* ---- submitting and ending ------------------------------------------------------------------- */

typedef struct {
    const char *argv[WORDS_MAX];
    int n;
} words_t;

static void add (words_t *self, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    self->argv[self->n++] = name;
    self->argv[self->n++] = value;
}

/* Asks for hosts that are none of the bad ones: "hostname=!(n1|n2)"; "": none is bad.  */
static void hosts_of (const wm_farm_t *self, char *text, size_t bytes)
{
    char bad[PATH_MAX];
    text[0] = 0;
    if (!wm_farm_bad_nodes (self, bad, sizeof bad))
        return;
    for (char *at = bad; *at; at++)
        if (*at == ',')
            *at = '|';
    snprintf (text, bytes, "hostname=!(%s)", bad);
}

static wm_fault_t submit (const wm_farm_t *self, unsigned n, bool is_kept, FILE *dry,
                          wm_error_t *error)
{
    static char hosts[PATH_MAX + 32], log[PATH_MAX + 64], script[PATH_MAX + 16];
    char array[32], cpus[16], wall[40] = "", memory[64] = "", idle[24] = "", *output = NULL;
    words_t words = { .argv = { "qsub", "-terse" }, .n = 2 };
    snprintf (array, sizeof array, "1-%u", n < TASKS_MAX ? n : TASKS_MAX);
    snprintf (cpus, sizeof cpus, "%u", self->cpus);
    snprintf (log, sizeof log, ":%s/log/$JOB_ID.$TASK_ID.log", self->folder);
    snprintf (script, sizeof script, "%s/worker.sh", self->folder);
    if (self->wall_s)
        snprintf (wall, sizeof wall, "h_rt=%lld", (long long) self->wall_s);
    if (self->memory)
        snprintf (memory, sizeof memory, "mem_free=%.40s", self->memory);
    if (!is_kept)
        snprintf (idle, sizeof idle, "%lld", (long long) self->idle_s);
    hosts_of (self, hosts, sizeof hosts);
    words.argv[words.n++] = "-notify";
    add (&words, "-N", self->name);
    add (&words, "-t", array);
    add (&words, "-r", "y");
    add (&words, "-j", "y");
    add (&words, "-o", log);
    add (&words, "-S", "/bin/bash");
    if (self->cpus > 1) {
        add (&words, "-pe", "smp");
        words.argv[words.n++] = cpus;
    }
    add (&words, "-l", wall);
    add (&words, "-l", memory);
    add (&words, "-l", hosts);
    add (&words, "-q", self->partition);
    add (&words, "-A", self->account);
    for (int i = 0; self->submit_option[i]; i++)
        words.argv[words.n++] = self->submit_option[i];
    words.argv[words.n++] = script;
    words.argv[words.n++] = idle;
    words.argv[words.n] = NULL;
    if (dry) {
        wm_farm_print (dry, self, whoami, words.argv);
        return WM_OK;
    }
    const wm_fault_t fault = wm_farm_command (words.argv, self->lock, &output, error);
    free (output);
    return fault;
}

/* qdel is the only signal there is: running jobs are warned by it. Ids of jobs that have ended
   meanwhile make it fail, after it has deleted the others.  */
static wm_fault_t end (const wm_farm_t *self, const wm_farm_jobs_t *jobs, wm_farm_end_t how,
                       wm_error_t *error)
{
    (void) self;
    for (size_t from = 0; from < jobs->n;) {
        static const char *const word[] = { "qdel", "-f" };
        if (wm_farm_command_ids (word, how == WM_FARM_KILL ? 2 : 1, jobs, &from, error) ==
            WM_EAGAIN)
            return WM_EAGAIN;
    }
    return WM_OK;
}

const wm_farm_system_t wm_farm_sge = {
    .name = "sge",
    .has_nodes = true,
    .whoami = whoami,
    .list = list,
    .submit = submit,
    .end = end,
};
