/* wm_farm_watch.c - see wm_farm_watch.h.  */
#include "ops/farm/wm_farm_watch.h"
#include "ops/ask/wm_ask.h"
#include "ops/process/wm_child.h"
#include "schema/base/wm_log.h"
#include "schema/wm_limits.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES 512
#define LINES 3     /* of a log that are shown */
#define TOLD_MAX 3u /* jobs whose logs are shown until one connects */

/* ---- bad nodes ------------------------------------------------------------------------------- */

static void bad_path (const wm_farm_t *farm, char path[PATH_MAX + 16])
{
    snprintf (path, PATH_MAX + 16, "%s/bad-nodes", farm->folder);
}

/* A person may remove lines from the file before the farm starts.  */
void wm_farm_watch_init (wm_farm_watch_t *self, const wm_farm_t *farm,
                         const wm_farm_limits_t *limits)
{
    char path[PATH_MAX + 16], line[LINE_BYTES];
    memset (self, 0, sizeof *self);
    self->farm = farm;
    self->limits = limits;
    bad_path (farm, path);
    FILE *file = fopen (path, "re");
    while (file && limits->node_max && fgets (line, sizeof line, file)) {
        line[strcspn (line, " \n")] = 0;
        for (unsigned i = 0; *line && i < limits->node_max; i++)
            wm_farm_blamed (&self->failures, limits, line);
    }
    if (file)
        fclose (file);
}

void wm_farm_watch_free (wm_farm_watch_t *self)
{
    wm_farm_jobs_free (&self->jobs);
    wm_farm_jobs_free (&self->missing);
    wm_farm_jobs_free (&self->judged);
}

static void exclude (wm_farm_watch_t *self, const char *node, const char *why)
{
    char path[PATH_MAX + 16], text[LINE_BYTES];
    bad_path (self->farm, path);
    fprintf (stderr, "wiremill farm: node %s is excluded from now on: %s\n", node, why);
    FILE *file = fopen (path, "ae");
    snprintf (text, sizeof text, "%s %s\n", node, why);
    if (!file || fputs (text, file) < 0 || fclose (file))
        fprintf (stderr,
                 "wiremill farm: %s cannot be written; a farm that starts again will not "
                 "know that node\n",
                 path);
    self->has_bad = true;
}

/* ---- logs ------------------------------------------------------------------------------------ */

static FILE *open_log (const wm_farm_watch_t *self, const char *job, char path[PATH_MAX + 64])
{
    snprintf (path, PATH_MAX + 64, "%s/log/%.40s.log", self->farm->folder, job);
    return fopen (path, "re");
}

/* Whether a job's worker has connected, as its --state-file shows.  */
static bool has_connected (const wm_farm_watch_t *self, const char *job)
{
    char path[PATH_MAX + 64];
    struct stat st;
    snprintf (path, sizeof path, "%s/log/%.40s.json", self->farm->folder, job);
    json_t *state = stat (path, &st) == 0 && S_ISREG (st.st_mode) && st.st_size < LINE_BYTES
                        ? json_load_file (path, 0, NULL)
                        : NULL;
    const bool yes = json_is_true (json_object_get (state, "connected"));
    json_decref (state);
    return yes;
}

/* Prints "job 12_3 on n1: exit code 7 (...); its log PATH ends with" and its last lines.  */
static void tell (const wm_farm_watch_t *self, const char *job, const char *node, const char *how,
                  bool has_lines)
{
    char path[PATH_MAX + 64], line[LINES][LINE_BYTES];
    size_t n = 0;
    FILE *log = open_log (self, job, path);
    while (log && fgets (line[n % LINES], LINE_BYTES, log))
        n++;
    if (log)
        fclose (log);
    fprintf (stderr, "  job %s%s%s: %s; its log %s %s\n", job, *node ? " on " : "", node, how, path,
             !log        ? "is not there"
             : !n        ? "is empty"
             : has_lines ? "ends with"
                         : "has more");
    for (size_t i = n < LINES ? 0 : n - LINES; has_lines && i < n; i++) {
        char *one = line[i % LINES];
        one[strcspn (one, "\n")] = 0;
        wm_log_sanitize (one);
        fprintf (stderr, "    %s\n", wm_log_line (one));
    }
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void failed (wm_farm_watch_t *self, const char *job, const char *node, int code,
                    const char *how)
{
    self->failed++;
    self->code = code;
    fputs ("wiremill farm: a job failed to connect\n", stderr);
    tell (self, job, node, how, self->failures.in_a_row < TOLD_MAX);
    if (wm_farm_failed (&self->failures, self->limits, node, code))
        exclude (self, node, "jobs failed there before they connected");
}

static void connected (wm_farm_watch_t *self, wm_farm_job_t *job)
{
    if (job)
        job->was_connected = true;
    wm_farm_connected (&self->failures);
}

/* The script's exit code is a shell's: 128 and the signal's number.  */
static void ended (wm_farm_watch_t *self, const char *job, const char *node, int code)
{
    char how[WM_CHILD_HOW_BYTES];
    const bool had_connected = has_connected (self, job);
    wm_child_how_ended (code > 128 ? code - 128 : code << 8, how);
    if (had_connected)
        connected (self, NULL);
    if (code == WM_EXIT_OK || code == WM_EXIT_AGAIN)
        return;
    if (!had_connected) {
        failed (self, job, node, code, how);
        return;
    }
    fputs ("wiremill farm: a worker failed\n", stderr);
    tell (self, job, node, how, true);
    const bool is_nodes = code == WM_EXIT_FAILURE || code == WM_EXIT_ENGINE || code > 128;
    if (is_nodes && wm_farm_blamed (&self->failures, self->limits, node))
        exclude (self, node, "workers failed there");
}

static void forget (wm_farm_jobs_t *jobs, const char *id)
{
    wm_farm_job_t *job = wm_farm_jobs_find (jobs, id);
    if (job)
        *job = jobs->job[--jobs->n];
}

/* Takes what ended jobs left in FOLDER/end.  */
static void take_ends (wm_farm_watch_t *self)
{
    char path[PATH_MAX + 300], node[WM_FARM_NODE_BYTES];
    struct dirent *entry;
    int code;
    snprintf (path, sizeof path, "%s/end", self->farm->folder);
    DIR *folder = opendir (path);
    while (folder && (entry = readdir (folder))) {
        const char *name = entry->d_name;
        if (name[0] == '.' || strstr (name, ".part"))
            continue;
        snprintf (path, sizeof path, "%s/end/%s", self->farm->folder, name);
        FILE *file = fopen (path, "re");
        *node = 0;
        const bool is_sound = file && fscanf (file, "%d %63s", &code, node) >= 1;
        if (file)
            fclose (file);
        if (!is_sound || unlink (path))
            continue;
        wm_log_sanitize (node);
        forget (&self->missing, name);
        self->ended++;
        ended (self, name, node, code);
    }
    if (folder)
        closedir (folder);
}

static void miss (wm_farm_watch_t *self, const wm_farm_job_t *job)
{
    wm_farm_job_t *copy = wm_farm_jobs_add (&self->missing, job->id);
    *copy = *job;
    copy->since_ms = wm_now_ms ();
}

/* What missing jobs left may still appear. One that was neither seen running nor has a log was
   removed from the queue before it began.  */
static void judge_missing (wm_farm_watch_t *self)
{
    char path[PATH_MAX + 64];
    const int64_t now_ms = wm_now_ms ();
    for (size_t i = 0; i < self->missing.n;) {
        const wm_farm_job_t job = self->missing.job[i];
        if (now_ms - job.since_ms < wm_times ()->silence_ms) {
            i++;
            continue;
        }
        forget (&self->missing, job.id);
        FILE *log = open_log (self, job.id, path);
        if (log)
            fclose (log);
        if (!has_connected (self, job.id) && (log || job.is_running || job.has_failed))
            failed (self, job.id, job.node, -1,
                    *job.reason ? job.reason : "it is gone and left no exit code");
    }
}

/* Takes failed jobs out of the list: each is judged once, not those of an earlier farm.  */
static void take_failed (wm_farm_watch_t *self, wm_farm_jobs_t *now)
{
    for (size_t i = 0; i < now->n;) {
        const wm_farm_job_t job = now->job[i];
        if (!job.has_failed) {
            i++;
            continue;
        }
        if (!wm_farm_jobs_find (&self->judged, job.id)) {
            wm_farm_jobs_add (&self->judged, job.id);
            forget (&self->jobs, job.id);
            if (self->has_begun)
                miss (self, &job);
        }
        forget (now, job.id);
    }
    self->has_begun = true;
}

void wm_farm_watch_jobs (wm_farm_watch_t *self, wm_farm_jobs_t *now)
{
    take_failed (self, now);
    for (size_t i = 0; i < self->jobs.n; i++) {
        const wm_farm_job_t *old = &self->jobs.job[i];
        wm_farm_job_t *job = wm_farm_jobs_find (now, old->id);
        if (job) {
            job->was_connected = old->was_connected && job->is_running;
            job->was_blamed = old->was_blamed && job->is_running;
        } else if (!old->was_connected) /* else its end is the broker's business */
            miss (self, old);
    }
    for (size_t i = 0; i < now->n; i++)
        forget (&self->missing, now->job[i].id);
    take_ends (self);
    judge_missing (self);
    wm_farm_jobs_free (&self->jobs);
    self->jobs = *now;
    *now = (wm_farm_jobs_t){ 0 };
}

/* ---- workers --------------------------------------------------------------------------------- */

/* "jobs" has all, also of workers that are not listed; a broker of before does not have it.  */
static void take_connected (wm_farm_watch_t *self, const json_t *status)
{
    const json_t *one;
    size_t i;
    json_array_foreach (json_object_get (status, "jobs"), i, one)
    {
        wm_farm_job_t *job =
            json_is_string (one) ? wm_farm_jobs_find (&self->jobs, json_string_value (one)) : NULL;
        if (job && job->is_running && !job->was_connected)
            connected (self, job);
    }
}

void wm_farm_watch_workers (wm_farm_watch_t *self, const json_t *status)
{
    const json_t *one;
    size_t i;
    take_connected (self, status);
    json_array_foreach (json_object_get (status, "workers"), i, one)
    {
        const char *label = wm_ask_text (one, "label"), *slash = strrchr (label, '/');
        const char *why = wm_ask_text (one, "why");
        wm_farm_job_t *job = slash ? wm_farm_jobs_find (&self->jobs, slash + 1) : NULL;
        const char *state = wm_ask_text (one, "state");
        if (!job || !job->is_running || strcmp (state, "starting") == 0)
            continue; /* its engine may still fail to start */
        if (!job->was_connected)
            connected (self, job);
        if (!json_is_true (json_object_get (one, "failed")) || job->was_blamed)
            continue;
        job->was_blamed = true;
        fprintf (stderr, "wiremill farm: the broker sends the worker of job %s on %s away: %s\n",
                 job->id, job->node, why);
        if (wm_farm_blamed (&self->failures, self->limits, job->node))
            exclude (self, job->node, "the broker sent workers away that ran there");
    }
}

wm_farm_count_t wm_farm_watch_count (const wm_farm_watch_t *self)
{
    wm_farm_count_t count = { 0 };
    for (size_t i = 0; i < self->jobs.n; i++) {
        count.pending += !self->jobs.job[i].is_running;
        count.running += self->jobs.job[i].is_running;
        count.connected += self->jobs.job[i].was_connected;
    }
    return count;
}
