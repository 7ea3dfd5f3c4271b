/* wm_farm_htcondor.c - a farm's jobs as clusters in HTCondor's queue, found again by their batch
   name.

   Each submission is one cluster. condor_submit returns once the queue has it, so condor_q shows it
   from then on. An evicted job gets SIGTERM, goes back into the queue and keeps its id; one that is
   removed gets SIGTERM too, and stays in the queue as removed until it has drained. The script
   writes the log itself: HTCondor would begin it again with each start of the job. Never run in a
   pool: tests use stand-ins for HTCondor's commands, and its own parser for the submit file.  */
#include "ops/farm/wm_farm.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define IDS_MAX 100 /* of a condor_rm */
#define HELD_S 600  /* HTCondor removes a job that it has held for so long */

static const char whoami[] = "job=$WM_CONDOR_JOB node=$(sed -n 's/^Machine = \"\\(.*\\)\"$/\\1/p' "
                             "\"${_CONDOR_MACHINE_AD:-/dev/null}\")\n"
                             "node=${node:-$(hostname)}\n"
                             "exec >>\"${0%/*}/log/$job.log\" 2>&1";

/* ---- listing --------------------------------------------------------------------------------- */

enum { IDLE = 1, RUNNING, REMOVED, COMPLETED, HELD };

/* The machine of "slot1_2@machine".  */
static void copy_node (char node[WM_FARM_NODE_BYTES], const char *host)
{
    const char *at = strrchr (host, '@');
    if (strcmp (host, "undefined") != 0)
        snprintf (node, WM_FARM_NODE_BYTES, "%.63s", at ? at + 1 : host);
}

/* One line of condor_q: cluster, process, status, host, last host, why it is held.  */
static void take_line (char *line, wm_farm_jobs_t *jobs)
{
    unsigned cluster, process;
    int status, end = 0;
    char id[WM_FARM_JOB_BYTES], host[128], last_host[128];
    if (sscanf (line, "%u %u %d %127s %127s %n", &cluster, &process, &status, host, last_host,
                &end) < 5)
        return;
    const bool has_host = strcmp (host, "undefined") != 0;
    if (status == COMPLETED || (status == REMOVED && !has_host))
        return;
    snprintf (id, sizeof id, "%u.%u", cluster, process);
    wm_farm_job_t *job = wm_farm_jobs_add (jobs, id);
    job->has_failed = status == HELD;
    job->is_running = status != IDLE && status != HELD;
    copy_node (job->node, job->has_failed ? last_host : host);
    if (job->has_failed)
        snprintf (job->reason, sizeof job->reason, "HTCondor holds it: %.120s", line + end);
    wm_log_tame (job->node);
    wm_log_tame (job->reason);
}

static wm_fault_t list (const wm_farm_t *self, wm_farm_jobs_t *jobs, wm_error_t *error)
{
    char mine[96];
    snprintf (mine, sizeof mine, "JobBatchName == \"%s\"", self->name);
    const char *const argv[] = { "condor_q",       "-constraint", mine,        "-autoformat:t",
                                 "ClusterId",      "ProcId",      "JobStatus", "RemoteHost",
                                 "LastRemoteHost", "HoldReason",  NULL };
    return wm_farm_list (argv, take_line, jobs, error);
}

/* ---- submitting ------------------------------------------------------------------------------ */

/* A value in which HTCondor reads $ as the beginning of a macro; between single quotes a quote is
   written twice.  */
static void print_plain (FILE *out, const char *value, bool is_quoted)
{
    for (; *value; value++)
        if (*value == '$')
            fputs ("$(DOLLAR)", out);
        else if (*value == '\'' && is_quoted)
            fputs ("''", out);
        else
            fputc (*value, out);
}

/* What follows "requirements =" in a line of --submit-option; NULL: it is another line.  */
static const char *requirements_of (const char *option)
{
    static const char name[] = "requirements";
    if (strncasecmp (option, name, sizeof name - 1) != 0)
        return NULL;
    option += sizeof name - 1;
    option += strspn (option, " \t");
    return *option == '=' ? option + 1 : NULL;
}

/* Those that were given, and no bad node.  */
static void print_requirements (FILE *out, const wm_farm_t *self)
{
    const char *given = NULL, *separator = "";
    char bad[PATH_MAX], *node;
    for (int i = 0; self->submit_option[i]; i++)
        given = requirements_of (self->submit_option[i]) ? requirements_of (self->submit_option[i])
                                                         : given;
    const size_t n_bad = wm_farm_bad_nodes (self, bad, sizeof bad);
    if (!given && !n_bad)
        return;
    fputs ("requirements = ", out);
    if (given) {
        fprintf (out, "(%s)", given + strspn (given, " \t"));
        separator = " && ";
    }
    for (char *rest = bad; n_bad && (node = strsep (&rest, ","));) {
        fprintf (out, "%sTARGET.Machine != \"%s\"", separator, node);
        separator = " && ";
    }
    fputc ('\n', out);
}

static void print_submission (FILE *out, const wm_farm_t *self, unsigned n, bool is_kept)
{
    const int64_t wall_s = self->wall_s;
    fprintf (out, "# Workers of wiremill's farm %s, campaign %s.\nbatch_name = %s\n", self->farm,
             self->campaign, self->name);
    fputs ("executable = /bin/bash\narguments = \"'", out);
    print_plain (out, self->folder, true);
    fputs ("/worker.sh'", out);
    if (!is_kept)
        fprintf (out, " %lld", (long long) self->idle_s);
    fputs ("\"\nenvironment = \"WM_CONDOR_JOB=$(ClusterId).$(ProcId)\"\n"
           "transfer_executable = false\n"
           "should_transfer_files = no\n"
           "initialdir = ",
           out);
    print_plain (out, self->folder, false);
    fputs ("\noutput = /dev/null\nerror = /dev/null\nlog = ", out);
    print_plain (out, self->folder, false);
    fputs ("/htcondor.log\n", out);
    fprintf (out, "request_cpus = %u\n", self->cpus ? self->cpus : 1);
    if (self->memory)
        fprintf (out, "request_memory = %s\n", self->memory);
    if (self->account)
        fprintf (out, "accounting_group = %s\n", self->account);
    fprintf (out,
             "kill_sig = SIGTERM\n"
             "remove_kill_sig = SIGTERM\n"
             "want_graceful_removal = true\n"
             "job_max_vacate_time = %lld\n",
             (long long) (wall_s ? wm_farm_drain_s (wall_s) : WM_FARM_DRAIN_S));
    if (wall_s)
        fprintf (out, "allowed_job_duration = %lld\n", (long long) wall_s);
    fprintf (out, "periodic_remove = JobStatus == %d && time() - EnteredCurrentStatus > %d\n", HELD,
             HELD_S);
    print_requirements (out, self);
    for (int i = 0; self->submit_option[i]; i++)
        if (!requirements_of (self->submit_option[i]))
            fprintf (out, "%s\n", self->submit_option[i]);
    fprintf (out, "queue %u\n", n);
}

static wm_fault_t submit (const wm_farm_t *self, unsigned n, bool is_kept, FILE *dry,
                          wm_error_t *error)
{
    char path[PATH_MAX + 16], *text = NULL, *output = NULL;
    size_t bytes = 0;
    snprintf (path, sizeof path, "%s/worker.sub", self->folder);
    const char *const argv[] = { "condor_submit", "-terse", path, NULL };
    FILE *out = open_memstream (&text, &bytes);
    assert (out);
    print_submission (out, self, n, is_kept);
    fclose (out);
    assert (text);
    wm_fault_t fault = WM_OK;
    if (dry) {
        fprintf (dry, "%s\n", text);
        wm_farm_print (dry, self, whoami, argv);
    } else {
        if (!(fault = wm_target_check (path, &wm_made_farm_submit, -1, error)))
            fault = wm_file_write (path, &(wm_part_t){ text, bytes }, 1, error);
        if (!fault)
            fault = wm_farm_command (argv, self->lock, &output, error);
    }
    free (text);
    free (output);
    return fault;
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* Which jobs a condor_rm is for: the `n` from `from` on, of those with this status only.  */
static char *constraint_of (const wm_farm_jobs_t *jobs, size_t from, size_t n, const char *status)
{
    char *text = NULL;
    size_t bytes = 0;
    unsigned cluster, process;
    FILE *out = open_memstream (&text, &bytes);
    assert (out);
    fprintf (out, "%s(", status);
    for (size_t i = from; i < from + n; i++)
        if (sscanf (jobs->job[i].id, "%u.%u", &cluster, &process) == 2)
            fprintf (out, "%sClusterId == %u && ProcId == %u", i > from ? " || " : "", cluster,
                     process);
    fputs (")", out);
    fclose (out);
    assert (text);
    return text;
}

/* Jobs that have ended meanwhile, or are removed already, are no error.  */
static wm_fault_t remove_jobs (const char *constraint, bool is_forced, wm_error_t *error)
{
    char *output = NULL;
    const char *const argv[] = { "condor_rm", "-constraint", constraint,
                                 is_forced ? "-forcex" : NULL, NULL };
    wm_fault_t fault = wm_farm_command (argv, 0, &output, error);
    if (fault == WM_EHOST && strstr (error->text, "Couldn't find/remove"))
        fault = WM_OK;
    free (output);
    return fault;
}

/* Held jobs are pending, too: they never begin by themselves.  */
static wm_fault_t end (const wm_farm_t *self, const wm_farm_jobs_t *jobs, wm_farm_end_t how,
                       wm_error_t *error)
{
    (void) self;
    wm_fault_t fault = WM_OK;
    for (size_t from = 0, n; from < jobs->n && !fault; from += n) {
        n = jobs->n - from < IDS_MAX ? jobs->n - from : IDS_MAX;
        char *constraint = constraint_of (
            jobs, from, n, how == WM_FARM_WITHDRAW ? "(JobStatus == 1 || JobStatus == 5) && " : "");
        fault = remove_jobs (constraint, false, error);
        if (!fault && how == WM_FARM_KILL)
            fault = remove_jobs (constraint, true, error);
        free (constraint);
    }
    return fault;
}

static const char *const without[] = { "partition", NULL };

const wm_farm_system_t wm_farm_htcondor = {
    .name = "htcondor",
    .has_nodes = true,
    .without = without,
    .whoami = whoami,
    .list = list,
    .submit = submit,
    .end = end,
};
