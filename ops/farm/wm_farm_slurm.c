/* wm_farm_slurm.c - a farm's jobs as tasks of Slurm's job arrays, found again by their name.

   sbatch returns once the controller has the array, so squeue shows it from then on. --signal
   sends SIGTERM to the shell alone, which hands it on. A requeued task keeps its id, and appends
   to its log.  */
#include "ops/farm/wm_farm.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_MAX (32 + WM_FARM_OPTIONS_MAX)
#define TASKS_MAX 500u /* of an array: MaxArraySize is 1001 unless a site changed it */

static const char whoami[] =
    "job=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID} "
    "node=${SLURMD_NODENAME:-$(hostname)}";

/* ---- listing --------------------------------------------------------------------------------- */

static bool is_one_of (const char *state, const char *const states[])
{
    for (; *states; states++)
        if (strcmp (state, *states) == 0)
            return true;
    return false;
}

/* One line of squeue: id|state|node. Slurm lists a job for minutes after its end.  */
static void take_line (char *line, wm_farm_jobs_t *jobs)
{
    static const char *const failed[] = { "FAILED",    "NODE_FAIL", "OUT_OF_MEMORY",
                                          "BOOT_FAIL", "TIMEOUT",   NULL };
    static const char *const over[] = { "COMPLETED", "CANCELLED", "PREEMPTED",
                                        "DEADLINE",  "REVOKED",   NULL };
    static const char *const waits[] = { "PENDING",       "CONFIGURING",
                                         "REQUEUED",      "REQUEUE_FED",
                                         "REQUEUE_HOLD",  "SPECIAL_EXIT",
                                         "RESV_DEL_HOLD", NULL };
    char *field[3];
    for (int i = 0; i < 3; i++)
        if (!(field[i] = strsep (&line, "|")))
            return;
    if (!*field[0] || is_one_of (field[1], over))
        return;
    wm_farm_job_t *job = wm_farm_jobs_add (jobs, field[0]);
    job->has_failed = is_one_of (field[1], failed);
    if (job->has_failed)
        snprintf (job->reason, sizeof job->reason, "Slurm reports %.30s", field[1]);
    job->is_running = !job->has_failed && !is_one_of (field[1], waits);
    snprintf (job->node, sizeof job->node, "%.63s",
              job->is_running || job->has_failed ? field[2] : "");
}

static wm_fault_t list (const wm_farm_t *self, wm_farm_jobs_t *jobs, wm_error_t *error)
{
    const char *const argv[] = { "squeue",  "--me",         "--name", self->name,
                                 "--array", "--states=all", "-h",     "--format=%i|%T|%N",
                                 NULL };
    return wm_farm_list (argv, take_line, jobs, error);
}

/* ---- submitting and ending ------------------------------------------------------------------- */

typedef struct {
    const char *argv[WORDS_MAX];
    char text[16][PATH_MAX + 64];
    int n_word, n_text;
} words_t;

static void add (words_t *self, const char *word)
{
    self->argv[self->n_word++] = word;
}

/* Adds "--name=VALUE", if there is a value.  */
static void add_value (words_t *self, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    char *text = self->text[self->n_text++];
    snprintf (text, sizeof self->text[0], "%s=%s", name, value);
    add (self, text);
}

/* A path in which Slurm reads % as the beginning of a pattern.  */
static void add_log (words_t *self, const char *folder)
{
    char path[PATH_MAX];
    size_t n = 0;
    for (; *folder && n < sizeof path - 32; folder++) {
        path[n++] = *folder;
        if (*folder == '%')
            path[n++] = '%';
    }
    snprintf (path + n, sizeof path - n, "/log/%%A_%%a.log");
    add_value (self, "--output", path);
}

static wm_fault_t submit (const wm_farm_t *self, unsigned n, bool is_kept, FILE *dry,
                          wm_error_t *error)
{
    static words_t words;
    static char bad[PATH_MAX];
    char array[32], cpus[16], wall[48], signal[32], idle[24] = "", script[PATH_MAX + 16], *output;
    words.n_word = words.n_text = 0;
    snprintf (array, sizeof array, "1-%u", n < TASKS_MAX ? n : TASKS_MAX);
    snprintf (cpus, sizeof cpus, "%u", self->cpus ? self->cpus : 1);
    const long long wall_s = self->wall_s;
    snprintf (wall, sizeof wall, "%lld:%02lld:%02lld", wall_s / 3600, wall_s / 60 % 60,
              wall_s % 60);
    snprintf (signal, sizeof signal, "B:TERM@%lld", (long long) wm_farm_drain_s (wall_s));
    snprintf (script, sizeof script, "%s/worker.sh", self->folder);
    if (!is_kept)
        snprintf (idle, sizeof idle, "%lld", (long long) self->idle_s);
    wm_farm_bad_nodes (self, bad, sizeof bad);
    add (&words, "sbatch");
    add (&words, "--parsable");
    add_value (&words, "--job-name", self->name);
    add_value (&words, "--array", array);
    add_log (&words, self->folder);
    add (&words, "--open-mode=append");
    add (&words, "--requeue");
    add (&words, "--ntasks=1");
    add_value (&words, "--cpus-per-task", cpus);
    add_value (&words, "--mem", self->memory);
    add_value (&words, "--time", wall_s ? wall : NULL);
    add_value (&words, "--signal", wall_s ? signal : NULL);
    add_value (&words, "--partition", self->partition);
    add_value (&words, "--account", self->account);
    add_value (&words, "--exclude", bad);
    for (int i = 0; self->submit_option[i]; i++)
        add (&words, self->submit_option[i]);
    add (&words, script);
    add (&words, idle);
    add (&words, NULL);
    if (dry) {
        wm_farm_print (dry, self, whoami, words.argv);
        return WM_OK;
    }
    const wm_fault_t fault = wm_farm_command (words.argv, self->lock, &output, error);
    free (output);
    return fault;
}

/* Ids of jobs that have ended meanwhile are no error of scancel's.  */
static wm_fault_t end (const wm_farm_t *self, const wm_farm_jobs_t *jobs, wm_farm_end_t how,
                       wm_error_t *error)
{
    (void) self;
    for (size_t from = 0; from < jobs->n;) {
        const char *word[WM_FARM_WORDS_MAX] = { "scancel", "--quiet" };
        int n = 2;
        if (how == WM_FARM_WITHDRAW)
            word[n++] = "--state=PENDING";
        if (how == WM_FARM_DRAIN) {
            word[n++] = "--batch";
            word[n++] = "--signal=TERM";
        }
        const wm_fault_t fault = wm_farm_command_ids (word, n, jobs, &from, error);
        if (fault)
            return fault;
    }
    return WM_OK;
}

const wm_farm_system_t wm_farm_slurm = {
    .name = "slurm",
    .has_nodes = true,
    .whoami = whoami,
    .list = list,
    .submit = submit,
    .end = end,
};
