/* farm.c - `wiremill farm`: as many workers in a batch system as the campaign has work for.

   Each round it asks the batch system for its jobs and the broker for its queue, decides
   (wm_farm_decide) and submits what is missing. It keeps nothing in memory that a farm which starts
   again would need: jobs are found by their name, bad nodes are in FOLDER/bad-nodes. FOLDER/lock is
   held by the farm, and by a submission that outlives it, so that the next farm lists jobs only
   when that one is complete.  */
#include "ops/ask/wm_ask.h"
#include "ops/campaign/wm_processes.h"
#include "ops/farm/wm_farm.h"
#include "ops/farm/wm_farm_watch.h"
#include "ops/process/wm_beside.h"
#include "ops/process/wm_complain.h"
#include "ops/verbs.h"
#include "schema/base/wm_address.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_program.h"
#include "schema/base/wm_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define NAME_BYTES_MAX 24
#define NAP_MS 100
#define SUFFIX ".profile"

/* clang-format off */
static const wm_option_t options[] = {
    WHERE_OPTIONS,
    {.name = "system", .was = "engine|e", .value = "NAME", .task = "where the workers run",
     .help = "the batch system: slurm, htcondor, sge, pbs, kubernetes; local: processes of this "
             "machine; or a profile of your own beside theirs"},
    {.name = "profile", .value = "FILE", .path = WM_PATH_READ, .text = "a profile",
     .help = "a profile, in place of --system: how another batch system is used"},
    {.name = "name", .value = "NAME", .fallback = "farm",
     .help = "name of this farm; its jobs are called wm-CAMPAIGN-NAME"},
    {.name = "folder", .value = "DIR", .path = WM_PATH_FOLDER,
     .help = "scripts and logs, at the same path on all nodes (default: CAMPAIGN/farm/NAME)"},
    {.name = "partition", .value = "NAME", .help = "the batch system's queue"},
    {.name = "account", .value = "NAME", .help = "the batch system's account"},
    {.name = "wall-time", .was = "walltime", .value = "TIME", .real_least = 1,
     .help = "wall time of a job"},
    {.name = "cpus", .value = "N", .fallback = "1", .least = 1, .most = 1024,
     .help = "CPUs of a job, and threads of its worker"},
    {.name = "memory", .value = "SIZE",
     .help = "memory of a job, as the batch system writes it: 2G"},
    {.name = "submit-option", .value = "WORD",
     .help = "a further option for the submission, --qos=low; of htcondor a further line of the "
             "submit file; may be repeated"},
    {.name = "work-option", .value = "WORD",
     .help = "a further option of wiremill work, --gpus=all; may be repeated"},
    {.name = "prologue", .value = "FILE",
     .path = WM_PATH_READ, .text = "a script", .help = "shell lines that a job runs first"},
    {.name = "cache", .value = "DIR",
     .path = WM_PATH_ELSEWHERE, .help = "where nodes keep models (wiremill work --cache)"},
    {.name = "program", .value = "FILE",
     .path = WM_PATH_ELSEWHERE, .help = "the nodes' wiremill (default: this one)"},
    {.name = "image", .value = "IMAGE", .help = "the pods' image, in Kubernetes"},
    {.name = "prometheus", .value = "URL",
     .help = "the server that KEDA asks, and that scrapes wiremill serve"},

    {.name = "min", .value = "N", .fallback = "0", .least = 0, .most = 100000,
     .task = "how many", .help = "jobs that stay while the queue is empty"},
    {.name = "max", .value = "N", .least = 1, .most = 100000, .is_needed = true,
     .help = "jobs at most"},
    {.name = "batches-each", .value = "N", .fallback = "4", .least = 1, .most = 1000000,
     .help = "submit one more job for every N batches in the queue"},
    {.name = "worth", .value = "TIME", .fallback = "60s",
     .help = "submit nothing while the connected workers need less than this for all batches"},
    {.name = "idle-timeout", .value = "TIME", .fallback = "60s", .real_least = 1,
     .help = "a worker leaves after so long without work"},

    {.name = "failures", .value = "N", .fallback = "3", .least = 1, .most = 1000,
     .task = "when it stops", .help = "end when so many jobs in a row failed to connect"},
    {.name = "node-failures", .value = "N", .fallback = "2", .least = 1, .most = 1000,
     .help = "exclude a node on which so many failed"},
    {.name = "give-up", .value = "TIME", .fallback = "2m", .real_least = 1,
     .help = "a worker gives up after so long without a broker"},
    {.name = "drain-time", .value = "TIME", .fallback = "2m",
     .help = "at the end workers have so long to finish their batches"},
    {.name = "interval", .value = "TIME", .fallback = "10s", .is_above = true, .task = "how",
     .help = "time between two rounds, which ask the broker and the batch system"},
    {.name = "dry-run", .letter = 'n', .help = "print what would be submitted now, and do nothing"},
    {.name = NULL},
};

static const char text[] =
    "  wiremill farm out/ --system slurm --max 200 --partition long --wall-time 12h\n"
    "  wiremill farm out/ --system local --max 4\n\n"
    "The farm submits jobs while the broker has more batches than workers for them; a worker that "
    "is idle leaves, so without work there is none. Ctrl-C or SIGTERM withdraws what is pending "
    "and drains the rest; the same command again continues, also after a kill: it finds its jobs "
    "by their name. When jobs fail before they reach the broker it ends and shows their logs. A "
    "node on which jobs fail is excluded and listed in FOLDER/bad-nodes; remove its line to use it "
    "again. Jobs read the worker's key from the campaign's join-worker, or from the --join-file "
    "with a worker's key, whose path all nodes must share.\n";

static int farm_main (const wm_args_t *args);
const wm_verb_t wm_verb_farm = {
    .name = "farm", .task = SPREAD_TASK, .rest = "[DIR]",
    .summary = "keep as many workers in a batch system as there is work for", .text = text,
    .common = "campaign broker join-file system profile folder partition wall-time cpus memory "
              "submit-option max dry-run",
    .options = options, .run = farm_main };
/* clang-format on */

typedef struct {
    wm_farm_t farm;
    wm_farm_watch_t watch;
    char campaign[4096]; /* its folder; "": only the address is known */
    wm_client_t *client;
    unsigned submitted, refused; /* jobs; submissions in a row */
    unsigned unseen, ended;      /* submissions of which no job was seen; watch.ended before them */
    wm_farm_count_t shown;
    unsigned shown_wanted;
    bool has_shown;
    wm_fault_t asked, listed; /* how the last round's questions ended: changes are printed */
    int64_t drain_ms, interval_ms;
} loop_t;

static volatile int stops;

/* ---- options --------------------------------------------------------------------------------- */

/* The file with a worker's key that jobs can read. false: refused, and printed.  */
static bool take_key (const wm_args_t *args, wm_farm_t *farm)
{
    wm_error_t error;
    wm_join_t join;
    const char *path;
    size_t n = 0;
    bool is_lasting = true;
    for (; (path = wm_join_path (n)); n++) {
        const bool is_workers = !wm_join_read (&join, path, &error) && join.role == WM_ROLE_WORKER;
        wm_join_wipe (&join);
        if (!is_workers || *farm->join_file)
            continue;
        is_lasting = realpath (path, farm->join_file) && strncmp (farm->join_file, "/proc/", 6) &&
                     strncmp (farm->join_file, "/dev/", 5);
        if (!is_lasting)
            *farm->join_file = 0;
    }
    if (!is_lasting && !*farm->join_file)
        return !wm_args_refuse (args, "jobs cannot read the worker's key from standard input or a "
                                      "pipe: name a file in a folder that all nodes share");
    if (n && !*farm->join_file)
        return !wm_args_refuse (args, "the jobs' workers need a key, too: give a second "
                                      "--join-file, with a worker's (join-worker)");
    return true;
}

/* The lines of --prologue, kept until the process ends. false: refused, and printed.  */
static bool take_prologue (const wm_args_t *args, wm_farm_t *farm)
{
    const char *path = wm_args_text (args, "prologue");
    char *lines;
    size_t bytes;
    wm_error_t error;
    if (!path)
        return true;
    if (wm_text_read (path, 1 << 20, &lines, &bytes, &error))
        return !wm_args_refuse (args, "--prologue %s", error.text);
    farm->prologue = lines;
    return true;
}

/* Where scripts and logs are, as an absolute path that a shell and a batch system can take.  */
static bool take_folder (const wm_args_t *args, loop_t *self)
{
    char given[PATH_MAX], here[PATH_MAX] = "";
    const char *folder = wm_args_text (args, "folder");
    if (!folder && !*self->campaign)
        return !wm_args_refuse (args, "--folder DIR is missing: with --broker the farm knows no "
                                      "folder that the nodes share");
    if (folder)
        snprintf (given, sizeof given, "%s", folder);
    else
        snprintf (given, sizeof given, "%.4000s/farm/%s", self->campaign, self->farm.farm);
    if (*given != '/' && !getcwd (here, sizeof here))
        *here = 0;
    const int n = snprintf (self->farm.folder, sizeof self->farm.folder, "%s%s%s", here,
                            *here ? "/" : "", given);
    if (n > PATH_MAX - 100 || strpbrk (self->farm.folder, "\n\\\""))
        return !wm_args_refuse (args,
                                "--folder %.60s: too long, or a character that batch systems "
                                "do not take",
                                given);
    if (!folder && !wm_farm_is_here (&self->farm) &&
        !wm_farm_keeps_itself (&self->farm)) /* a campaign lies on a disk of this machine */
        fprintf (stderr,
                 "wiremill farm: the nodes must see %s at this path; where they do not, give "
                 "--broker tcp://HOST:PORT, and --folder and --join-file in a folder that they "
                 "share\n",
                 self->campaign);
    return true;
}

static bool take_words (const wm_args_t *args, const char *name,
                        const char *list[WM_FARM_OPTIONS_MAX + 1])
{
    int i = 0;
    for (; wm_args_each (args, name, i); i++) {
        if (i == WM_FARM_OPTIONS_MAX)
            return !wm_args_refuse (args, "--%s: at most %d times", name, WM_FARM_OPTIONS_MAX);
        list[i] = wm_args_each (args, name, i);
    }
    return true;
}

/* Reads the profile. false: refused, and printed.  */
static bool take_profile (const wm_args_t *args, wm_farm_t *farm)
{
    char path[PATH_MAX], name[120];
    const char *system = wm_args_text (args, "system"), *file = wm_args_text (args, "profile");
    wm_error_t error;
    if (!system == !file)
        return !wm_args_refuse (args, system ? "--system and --profile: give one of the two"
                                             : "--system NAME is missing (or --profile FILE)");
    if (!file) {
        snprintf (name, sizeof name, WM_PROGRAM_DATA "/farm/%.60s" SUFFIX, system);
        if (!wm_program_beside (path, name) || access (path, F_OK))
            return !wm_args_refuse (args,
                                    "--system %.60s: there is no %s; that folder has those that "
                                    "there are, and --profile FILE takes one of your own",
                                    system, path);
    }
    return !wm_farm_open (farm, file ? file : path, &error) || !wm_complain ("farm", &error);
}

/* Options that go with some profiles only. false: refused, and printed.  */
static bool take_system (const wm_args_t *args, const wm_farm_t *farm)
{
    static const char *const own[] = { "image",   "prometheus", "partition",
                                       "account", "memory",     "submit-option" };
    static const char *const loops[] = { "wall-time", "prologue",      "cache", "program",
                                         "failures",  "node-failures", "worth" };
    const char *system = farm->profile.name;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        const bool is_used = wm_farm_profile_uses (&farm->profile, own[i]);
        if (is_used && i < 2 && !wm_args_given (args, own[i]))
            return !wm_args_refuse (args, "--%s is missing: --system %s needs it", own[i], system);
        if (!is_used && wm_args_given (args, own[i]))
            return !wm_args_refuse (args, "--%s does not go with --system %s", own[i], system);
    }
    for (size_t i = 0; wm_farm_keeps_itself (farm) && i < sizeof loops / sizeof *loops; i++)
        if (wm_args_given (args, loops[i]))
            return !wm_args_refuse (args, "--%s does not go with --system %s", loops[i], system);
    return true;
}

/* false: refused, and printed.  */
static bool take_options (const wm_args_t *args, loop_t *self)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    wm_farm_t *farm = &self->farm;
    wm_error_t error;
    farm->lock = -1;
    if (!take_profile (args, farm) || !take_system (args, farm))
        return false;
    farm->farm = wm_args_text (args, "name");
    if (strlen (farm->farm) > NAME_BYTES_MAX || farm->farm[strspn (farm->farm, letters)])
        return !wm_args_refuse (args, "--name %.60s: at most %d letters, digits and _ . -",
                                farm->farm, NAME_BYTES_MAX);
    if (wm_farm_check_name (farm, &error))
        return !wm_complain ("farm", &error);
    farm->partition = wm_args_text (args, "partition");
    farm->account = wm_args_text (args, "account");
    farm->memory = wm_args_text (args, "memory");
    farm->cache = wm_args_text (args, "cache");
    farm->cpus = (unsigned) wm_args_number (args, "cpus");
    farm->image = wm_args_text (args, "image");
    farm->prometheus = wm_args_text (args, "prometheus");
    farm->wall_s = (int64_t) wm_args_seconds (args, "wall-time");
    farm->idle_s = (int64_t) wm_args_seconds (args, "idle-timeout");
    farm->drain_s = (int64_t) wm_args_seconds (args, "drain-time");
    farm->give_up_s = (int64_t) wm_args_seconds (args, "give-up");
    self->drain_ms = 1000 * farm->drain_s;
    self->interval_ms = (int64_t) (1000 * wm_args_seconds (args, "interval"));
    farm->interval_s = self->interval_ms < 1000 ? 1 : self->interval_ms / 1000;
    if (!take_key (args, farm) || !take_prologue (args, farm) || !take_folder (args, self) ||
        !take_words (args, "submit-option", farm->submit_option) ||
        !take_words (args, "work-option", farm->work_option))
        return false;
    if (wm_args_text (args, "program"))
        snprintf (farm->program, sizeof farm->program, "%s", wm_args_text (args, "program"));
    else if (wm_beside_find (farm->program, "wiremill", &error))
        return !wm_complain ("farm", &error);
    farm->limits = (wm_farm_limits_t){
        .min = (unsigned) wm_args_number (args, "min"),
        .max = (unsigned) wm_args_number (args, "max"),
        .batches_each = (unsigned) wm_args_number (args, "batches-each"),
        .failures_max = (unsigned) wm_args_number (args, "failures"),
        .node_max = wm_farm_profile_uses (&farm->profile, "bad-nodes")
                        ? (unsigned) wm_args_number (args, "node-failures")
                        : 0,
        .worth_s = wm_args_seconds (args, "worth"),
    };
    return farm->limits.min <= farm->limits.max ||
           !wm_args_refuse (args, "--min %u is more than --max %u", farm->limits.min,
                            farm->limits.max);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static json_t *ask (loop_t *self, wm_error_t *error)
{
    return wm_ask_now (self->client, self->campaign, error);
}

static wm_farm_queue_t queue_of (const json_t *status)
{
    const json_t *eta = json_object_get (status, "eta_s");
    return (wm_farm_queue_t){
        .is_known = status != NULL,
        .takes_work = status && wm_ask_takes_work (status),
        .batches = wm_ask_demand (status),
        .eta_s = json_is_number (eta) ? json_number_value (eta) : -1,
    };
}

/* Prints a change between "it answers" and "it does not".  */
static void note (const char *whom, wm_fault_t *before, const wm_error_t *error)
{
    if (error->fault && error->fault != *before)
        fprintf (stderr, "wiremill farm: %s; the farm tries again and submits nothing meanwhile\n",
                 error->text);
    else if (!error->fault && *before)
        fprintf (stderr, "wiremill farm: %s answers again\n", whom);
    *before = error->fault;
}

/* ---- a round --------------------------------------------------------------------------------- */

/* FOLDER/farm.json, for programs: what the farm last saw. Best effort.  */
static void write_state (const loop_t *self, const wm_farm_decision_t *it,
                         const wm_farm_count_t *count, const wm_farm_queue_t *queue)
{
    char path[PATH_MAX + 16], bad[4096];
    wm_error_t error;
    wm_farm_bad_nodes (&self->farm, bad, sizeof bad);
    json_t *root = json_pack (
        "{s:s, s:s, s:s, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:s}", "schema", "wiremill-farm-1",
        "jobs_name", self->farm.name, "engine", self->farm.profile.name, "batches",
        (json_int_t) queue->batches, "wanted", (int) it->wanted, "submitted", (int) self->submitted,
        "pending", (int) count->pending, "running", (int) count->running, "connected",
        (int) count->connected, "failed", (int) self->watch.failed, "bad_nodes", bad);
    char *printed = root ? json_dumps (root, JSON_INDENT (2)) : NULL;
    snprintf (path, sizeof path, "%s/farm.json", self->farm.folder);
    if (printed)
        wm_file_write (path, &(wm_part_t){ printed, strlen (printed) }, 1, &error);
    free (printed);
    json_decref (root);
}

static void show (loop_t *self, const wm_farm_decision_t *it, const wm_farm_queue_t *queue)
{
    const wm_farm_count_t count = wm_farm_watch_count (&self->watch);
    write_state (self, it, &count, queue);
    if (self->has_shown && memcmp (&count, &self->shown, sizeof count) == 0 &&
        it->wanted == self->shown_wanted)
        return;
    fprintf (stderr,
             "wiremill farm: %lld batches; jobs: %u wanted, %u pending, %u running, %u of them "
             "connected\n",
             (long long) queue->batches, it->wanted, count.pending, count.running, count.connected);
    self->shown = count;
    self->shown_wanted = it->wanted;
    self->has_shown = true;
}

/* The pending jobs, at most n, the newest first; the caller's.  */
static wm_farm_jobs_t pending_of (const wm_farm_jobs_t *jobs, size_t n)
{
    wm_farm_jobs_t list = { 0 };
    for (size_t i = jobs->n; i-- && list.n < n;)
        if (!jobs->job[i].is_running)
            wm_farm_jobs_add (&list, jobs->job[i].id);
    return list;
}

static void withdraw (loop_t *self, size_t n)
{
    wm_error_t error;
    wm_farm_jobs_t list = pending_of (&self->watch.jobs, n);
    if (list.n && wm_farm_end (&self->farm, &list, WM_FARM_WITHDRAW, &error))
        fprintf (stderr, "wiremill farm: %s\n", error.text);
    wm_farm_jobs_free (&list);
}

static void submit (loop_t *self, unsigned n, bool is_kept)
{
    wm_error_t error;
    if (!n)
        return;
    if (wm_farm_submit (&self->farm, n, is_kept, NULL, &error)) {
        self->refused++;
        fprintf (stderr, "wiremill farm: nothing could be submitted: %s\n", error.text);
    } else {
        self->submitted += n;
        self->refused = 0;
    }
}

static void act (loop_t *self, const wm_farm_decision_t *it)
{
    if (self->watch.has_bad) { /* pending jobs may still go to the node: others take their place */
        self->watch.has_bad = false;
        withdraw (self, SIZE_MAX);
        return;
    }
    const size_t before = self->submitted;
    withdraw (self, it->retire);
    submit (self, it->submit_kept, true);
    submit (self, it->submit, false);
    self->unseen += self->submitted != before;
}

/* Prints why the farm ends. Returns the exit code.  */
static int stopped (loop_t *self)
{
    char bad[512];
    if (self->refused) {
        fprintf (stderr, "wiremill farm: ends: %s refused %u submissions in a row\n",
                 self->farm.profile.name, self->refused);
        return WM_EXIT_FAILURE;
    }
    if (self->unseen >= self->farm.limits.failures_max) {
        fprintf (stderr,
                 "wiremill farm: ends: %s took jobs %u times, but `list` of %s shows no job of "
                 "them, and none has left its end in %s/end; jobs called %s may still run: look "
                 "for them, and put that `list` right\n",
                 self->farm.profile.name, self->unseen, self->farm.profile.path, self->farm.folder,
                 self->farm.name);
        return WM_EXIT_FAILURE;
    }
    fprintf (stderr,
             "wiremill farm: ends: %u jobs in a row failed to connect; put right what their logs "
             "report, then type the same command again\n",
             self->watch.failures.in_a_row);
    if (wm_farm_bad_nodes (&self->farm, bad, sizeof bad))
        fprintf (stderr, "  excluded nodes (%s/bad-nodes): %s\n", self->farm.folder, bad);
    const int code = self->watch.code;
    return code >= WM_EXIT_USAGE && code <= WM_EXIT_REFUSED && code != WM_EXIT_HELD
               ? code
               : WM_EXIT_FAILURE;
}

#define GO_ON (-1)

/* Returns GO_ON or the exit code.  */
static int go_round (loop_t *self)
{
    wm_error_t error = { 0 };
    wm_farm_jobs_t jobs = { 0 };
    json_t *status = ask (self, &error);
    if (error.fault == WM_EKEY || error.fault == WM_EPEER)
        return wm_complain ("farm", &error);
    note ("the broker", &self->asked, &error);
    error.fault = WM_OK;
    const bool is_listed = wm_farm_list (&self->farm, &jobs, &error) == WM_OK;
    const bool is_seen = jobs.n;
    if (is_listed)
        wm_farm_watch_jobs (&self->watch, &jobs);
    if (is_seen || self->watch.ended != self->ended)
        self->unseen = 0;
    self->ended = self->watch.ended;
    wm_farm_jobs_free (&jobs);
    note (self->farm.profile.name, &self->listed, &error);
    wm_farm_watch_workers (&self->watch, status);
    wm_farm_queue_t queue = queue_of (status);
    json_decref (status);
    queue.is_known = queue.is_known && !error.fault;
    const wm_farm_count_t count = wm_farm_watch_count (&self->watch);
    const wm_farm_decision_t it =
        wm_farm_decide (&queue, &count, &self->watch.failures, &self->farm.limits);
    if (queue.is_known)
        show (self, &it, &queue);
    const unsigned most = self->farm.limits.failures_max;
    const bool is_blind = is_listed && self->unseen >= most; /* `list` could show them by now */
    if (!it.stop && !is_blind)
        act (self, &it);
    return it.stop || is_blind || self->refused >= most ? stopped (self) : GO_ON;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Sends one SIGTERM to each job that runs and withdraws the others.  */
static void drain (loop_t *self, wm_farm_jobs_t *jobs, wm_farm_jobs_t *told)
{
    wm_error_t error = { 0 };
    wm_farm_jobs_t waits = pending_of (jobs, SIZE_MAX), runs = { 0 };
    for (size_t i = 0; i < jobs->n; i++)
        if (jobs->job[i].is_running && !wm_farm_jobs_find (told, jobs->job[i].id)) {
            wm_farm_jobs_add (&runs, jobs->job[i].id);
            wm_farm_jobs_add (told, jobs->job[i].id);
        }
    if ((waits.n && wm_farm_end (&self->farm, &waits, WM_FARM_WITHDRAW, &error)) ||
        (runs.n && wm_farm_end (&self->farm, &runs, WM_FARM_DRAIN, &error)))
        fprintf (stderr, "wiremill farm: %s\n", error.text);
    wm_farm_jobs_free (&waits);
    wm_farm_jobs_free (&runs);
}

/* A batch system may list a job that has failed for a while.  */
static size_t count_alive (const wm_farm_jobs_t *jobs)
{
    size_t n = 0;
    for (size_t i = 0; i < jobs->n; i++)
        n += !jobs->job[i].has_failed;
    return n;
}

/* Ends all jobs: drained, after drain_ms or at a further signal killed.  */
static void end_jobs (loop_t *self)
{
    wm_error_t error = { 0 };
    wm_farm_jobs_t jobs = { 0 }, told = { 0 };
    const int64_t drain_end_ms = wm_now_ms () + self->drain_ms;
    const int64_t end_ms = drain_end_ms + wm_times ()->answer_ms * 2;
    const int signals = stops;
    int told_at = -1; /* signals when it was printed that the batch system does not answer */
    bool is_known = false, is_said = false;
    while (wm_now_ms () < end_ms) {
        wm_farm_jobs_t now = { 0 };
        is_known = !wm_farm_list (&self->farm, &now, &error);
        if (!is_known) {
            wm_farm_jobs_free (&now);
            if (told_at < 0) {
                told_at = stops;
                fprintf (stderr,
                         "wiremill farm: %s; the farm asks for its jobs for %lld s more, and ends "
                         "at once at a further signal\n",
                         error.text, (long long) (end_ms - wm_now_ms ()) / 1000);
            }
            for (int64_t left_ms = self->interval_ms; left_ms > 0 && stops == told_at;
                 left_ms -= NAP_MS)
                wm_processes_nap (left_ms < NAP_MS ? left_ms : NAP_MS);
            if (stops > told_at)
                break;
            continue;
        }
        wm_farm_jobs_free (&jobs);
        jobs = now;
        const size_t n_alive = count_alive (&jobs);
        if (!n_alive) {
            if (jobs.n) /* a batch system that holds failed jobs forgets them */
                wm_farm_end (&self->farm, &jobs, WM_FARM_WITHDRAW, &error);
            jobs.n = 0;
            break;
        }
        if (!is_said)
            fprintf (stderr,
                     "wiremill farm: draining %zu jobs: each worker finishes its batches within "
                     "%lld s\n",
                     n_alive, (long long) self->drain_ms / 1000);
        is_said = true;
        if (stops > signals || wm_now_ms () >= drain_end_ms)
            wm_farm_end (&self->farm, &jobs, WM_FARM_KILL, &error);
        else
            drain (self, &jobs, &told);
        wm_processes_nap (self->interval_ms < 1000 ? self->interval_ms : 1000);
    }
    if (!is_known)
        fprintf (stderr,
                 "wiremill farm: %s; jobs called %s may still run: look for them, and remove them "
                 "by hand\n",
                 error.text, self->farm.name);
    else if (jobs.n)
        fprintf (stderr, "wiremill farm: %zu jobs called %s still run: remove them by hand\n",
                 jobs.n, self->farm.name);
    wm_farm_jobs_free (&jobs);
    wm_farm_jobs_free (&told);
}

/* ---- the verb -------------------------------------------------------------------------------- */

/* Waits until the broker has told which campaign it serves: jobs are named after it.  */
static int learn_campaign (loop_t *self, bool is_patient)
{
    wm_error_t error;
    json_t *status;
    while (!(status = ask (self, &error))) {
        if (error.fault == WM_EKEY || error.fault == WM_EPEER || !is_patient)
            return wm_complain ("farm", &error);
        note ("the broker", &self->asked, &error);
        for (int64_t left_ms = self->interval_ms; left_ms > 0 && !stops; left_ms -= NAP_MS)
            wm_processes_nap (NAP_MS);
        if (stops)
            return WM_EXIT_AGAIN;
    }
    const char *id = wm_ask_text (status, "campaign.id");
    const bool is_hex = strspn (id, "0123456789abcdef") == strlen (id); /* a shell will read it */
    snprintf (self->farm.campaign, sizeof self->farm.campaign, "%.32s", is_hex ? id : "");
    snprintf (self->farm.name, sizeof self->farm.name, "wm-%.8s-%s", self->farm.campaign,
              self->farm.farm);
    json_decref (status);
    return GO_ON;
}

/* What workers connect to that see no folder of ours: a folder's endpoint.json is not there.  */
static void take_address (loop_t *self, const json_t *status)
{
    const char *first =
        json_string_value (json_array_get (json_object_get (status, "advertise"), 0));
    if (*self->campaign)
        snprintf (self->farm.endpoint, sizeof self->farm.endpoint, "%.255s",
                  first ? first : wm_ask_text (status, "endpoint"));
}

/* WM_EUSAGE: workers that know the broker's address alone cannot reach it.  */
static wm_fault_t check_address (const char *endpoint, wm_error_t *error)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    if (!wm_address_parse (list, endpoint, WM_ADDRESS_CONNECT, error))
        return WM_EUSAGE;
    if (list[0].scheme != WM_ADDRESS_TCP || strncmp (endpoint, "tcp://127.", 10) == 0 ||
        strncmp (endpoint, "tcp://localhost:", 16) == 0 ||
        strncmp (endpoint, "tcp://[::1]:", 12) == 0)
        return wm_fault (error, WM_EUSAGE,
                         "pods cannot reach the broker at %.150s; start it with --listen "
                         "tcp://*:5555 or --advertise tcp://HOST:PORT, or give --broker",
                         endpoint);
    return WM_OK;
}

/* Prints or submits what a batch system needs that itself keeps the number of workers.  */
static int submit_once (loop_t *self, bool is_dry)
{
    wm_error_t error = { 0 };
    json_t *status = ask (self, &error);
    if (!status)
        return wm_complain ("farm", &error);
    take_address (self, status);
    json_decref (status);
    if (check_address (self->farm.endpoint, &error) ||
        (!is_dry && wm_folder_make (self->farm.folder, 0777, &error)) ||
        wm_farm_submit (&self->farm, 1, false, is_dry ? stdout : NULL, &error))
        return wm_complain ("farm", &error);
    char *done = wm_farm_text (&self->farm, WM_FARM_DONE);
    if (!is_dry)
        fprintf (stderr, "wiremill farm: %s", done);
    free (done);
    return WM_EXIT_OK;
}

static int dry_run (loop_t *self)
{
    wm_error_t error = { 0 };
    wm_farm_jobs_t jobs = { 0 };
    json_t *status = ask (self, &error);
    if (!status)
        return wm_complain ("farm", &error);
    if (wm_farm_list (&self->farm, &jobs, &error))
        fprintf (stderr, "wiremill farm: %s; as if there were no jobs\n", error.text);
    wm_farm_watch_init (&self->watch, &self->farm, &self->farm.limits);
    wm_farm_watch_jobs (&self->watch, &jobs);
    const wm_farm_queue_t queue = queue_of (status);
    json_decref (status);
    const wm_farm_count_t count = wm_farm_watch_count (&self->watch);
    const wm_farm_decision_t it =
        wm_farm_decide (&queue, &count, &self->watch.failures, &self->farm.limits);
    const unsigned n[] = { it.submit, it.submit_kept };
    for (int i = 0; i < 2; i++)
        if (n[i] && wm_farm_submit (&self->farm, n[i], i, stdout, &error))
            return wm_complain ("farm", &error);
    if (!n[0] && !n[1])
        fprintf (stderr, "nothing would be submitted: %lld batches, %u jobs, %u wanted%s\n",
                 (long long) queue.batches, count.pending + count.running, it.wanted,
                 queue.takes_work ? "" : "; the campaign takes no work now");
    return WM_EXIT_OK;
}

/* Makes FOLDER and takes its lock.  */
static wm_fault_t take_lock (loop_t *self, wm_error_t *error)
{
    char path[PATH_MAX + 16];
    static const char *const parts[] = { "log", "end" };
    for (size_t i = 0; i < 2; i++) {
        snprintf (path, sizeof path, "%s/%s", self->farm.folder, parts[i]);
        if (wm_folder_make (path, 0777, error))
            return error->fault;
    }
    snprintf (path, sizeof path, "%s/lock", self->farm.folder);
    self->farm.lock = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (self->farm.lock < 0)
        return wm_fault (error, WM_EHOST, "%s: %s", path, strerror (errno));
    const int64_t end_ms = wm_now_ms () + wm_times ()->lock_ms;
    while (flock (self->farm.lock, LOCK_EX | LOCK_NB)) {
        if (wm_now_ms () >= end_ms || stops)
            return wm_fault (error, WM_EAGAIN,
                             "another farm called %s has %s; end it, or choose "
                             "another --name",
                             self->farm.farm, path);
        wm_processes_nap (NAP_MS);
    }
    return WM_OK;
}

static int run (loop_t *self)
{
    char state[PATH_MAX + 16];
    wm_error_t error;
    int code = GO_ON;
    if (take_lock (self, &error))
        return error.fault == WM_EAGAIN ? (wm_complain ("farm", &error), WM_EXIT_AGAIN)
                                        : wm_complain ("farm", &error);
    snprintf (state, sizeof state, "%s/farm.json", self->farm.folder);
    if (wm_target_check (state, &wm_made_farm_state, -1, &error) ||
        wm_farm_write_script (&self->farm, &error))
        return wm_complain ("farm", &error);
    wm_farm_watch_init (&self->watch, &self->farm, &self->farm.limits);
    self->farm.failures = &self->watch.failures;
    while (!stops && (code = go_round (self)) == GO_ON) {
        for (int64_t left_ms = self->interval_ms; left_ms > 0 && !stops; left_ms -= NAP_MS)
            wm_processes_nap (left_ms < NAP_MS ? left_ms : NAP_MS);
    }
    end_jobs (self);
    wm_farm_watch_free (&self->watch);
    return code == GO_ON ? WM_EXIT_AGAIN : code;
}

static int farm_main (const wm_args_t *args)
{
    static loop_t self;
    wm_error_t error;
    static const char head[] = "file://", tail[] = "/endpoint.json";
    const char *folder = wm_args_text (args, "campaign");
    if (wm_ask_lasting (args, folder ? folder : wm_args_rest (args, 0), self.farm.endpoint, &error))
        return wm_complain ("farm", &error);
    const size_t n = strlen (self.farm.endpoint);
    if (strncmp (self.farm.endpoint, head, sizeof head - 1) == 0)
        snprintf (self.campaign, sizeof self.campaign, "%.*s",
                  (int) (n - (sizeof head - 1) - (sizeof tail - 1)),
                  self.farm.endpoint + sizeof head - 1);
    if (!take_options (args, &self))
        return WM_EXIT_USAGE;
    const bool is_dry = wm_args_given (args, "dry-run");
    zsys_handler_set (NULL); /* signals are ours */
    if (!is_dry) {
        wm_log_start ();
        wm_processes_signals (&stops);
    }
    self.client = wm_client_new (self.farm.endpoint, WM_ROLE_OPERATOR, "wiremill farm", NULL, NULL);
    int code = learn_campaign (&self, !is_dry);
    if (code == GO_ON && wm_farm_keeps_itself (&self.farm))
        code = submit_once (&self, is_dry);
    else if (code == GO_ON)
        code = is_dry ? dry_run (&self) : run (&self);
    wm_client_destroy (&self.client);
    return code;
}
