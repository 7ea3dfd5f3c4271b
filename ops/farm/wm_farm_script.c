/* wm_farm_script.c - what a job of a farm runs: one shell script for all batch systems.

   It starts `wiremill work` and waits for it. A batch system may signal the shell, or the shell and
   all below it: the script hands SIGTERM on, and a worker takes two of them in a moment as one.
   What ended a job is in FOLDER/end/JOB, renamed into place, since the farm reads it at any
   moment; FOLDER/log/JOB.json is there if its worker had connected (--state-file).  */
#include "ops/farm/wm_farm.h"
#include "ops/process/wm_command.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_grow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

void wm_farm_script (FILE *out, const wm_farm_t *self)
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
    wm_farm_script (out, self);
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
