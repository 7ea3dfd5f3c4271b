/* wm_farm_local.c - a farm's jobs as processes of this machine.

   They outlive the farm, like a batch system's. A farm finds those of the one before in /proc: a
   job is the process whose environment names the farm (WM_FARM) and itself as the job (WM_JOB);
   its worker has the same variables and another pid.  */
#include "ops/farm/wm_farm.h"
#include "schema/base/wm_process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENVIRON_BYTES_MAX (1 << 20)

static const char whoami[] = "job=$$ node=$(hostname)";

/* Whether an environment, as /proc has it, contains this text.  */
static bool contains (const char *environment, size_t bytes, const char *text)
{
    for (size_t at = 0; at < bytes; at += strlen (environment + at) + 1)
        if (strcmp (environment + at, text) == 0)
            return true;
    return false;
}

static bool is_job (const char *pid, const char *farm, char *environment)
{
    char path[64], job[64];
    snprintf (path, sizeof path, "/proc/%.20s/environ", pid);
    snprintf (job, sizeof job, "WM_JOB=%.20s", pid);
    const int fd = open (path, O_RDONLY | O_CLOEXEC);
    size_t bytes = 0;
    ssize_t n = 0;
    while (fd >= 0 && bytes < ENVIRON_BYTES_MAX &&
           (n = read (fd, environment + bytes, ENVIRON_BYTES_MAX - bytes)) > 0)
        bytes += (size_t) n;
    if (fd >= 0)
        close (fd);
    environment[bytes] = 0;
    return contains (environment, bytes, farm) && contains (environment, bytes, job);
}

static wm_fault_t list (const wm_farm_t *self, wm_farm_jobs_t *jobs, wm_error_t *error)
{
    char farm[96];
    struct dirent *entry;
    snprintf (farm, sizeof farm, "WM_FARM=%s", self->name);
    char *environment = malloc (ENVIRON_BYTES_MAX + 1);
    DIR *folder = environment ? opendir ("/proc") : NULL;
    if (!folder) {
        free (environment);
        return wm_fault (error, WM_EAGAIN, "/proc cannot be read: %s", strerror (errno));
    }
    while ((entry = readdir (folder))) {
        if (!isdigit ((unsigned char) entry->d_name[0]))
            continue;
        waitpid ((pid_t) strtol (entry->d_name, NULL, 10), NULL, WNOHANG); /* one that we started */
        if (!is_job (entry->d_name, farm, environment))
            continue;
        wm_farm_job_t *job = wm_farm_jobs_add (jobs, entry->d_name);
        job->is_running = true;
        gethostname (job->node, sizeof job->node - 1);
    }
    closedir (folder);
    free (environment);
    return WM_OK;
}

/* In the child, which has the farm's lock until exec. The environment is set before: from exec on
   /proc shows the job.  */
static void prepare (const void *argument)
{
    const wm_farm_t *self = argument;
    char log[PATH_MAX + 64], pid[24];
    snprintf (pid, sizeof pid, "%d", (int) getpid ());
    snprintf (log, sizeof log, "%s/log/%s.log", self->folder, pid);
    setenv ("WM_FARM", self->name, 1);
    setenv ("WM_JOB", pid, 1);
    const int out = open (log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (out < 0 || dup2 (out, STDOUT_FILENO) < 0 || dup2 (out, STDERR_FILENO) < 0)
        _exit (127);
}

static wm_fault_t submit (const wm_farm_t *self, unsigned n, bool is_kept, FILE *dry,
                          wm_error_t *error)
{
    char script[PATH_MAX + 16], idle[24] = "";
    if (!is_kept)
        snprintf (idle, sizeof idle, "%lld", (long long) self->idle_s);
    snprintf (script, sizeof script, "%s/worker.sh", self->folder);
    const char *const argv[] = { "bash", script, idle, NULL };
    const wm_process_t process = {
        .program = "bash", .argv = argv, .in = WM_PROCESS_NULL, .prepare = prepare, .argument = self
    };
    if (dry) {
        fprintf (dry, "%u times: ", n);
        wm_farm_print (dry, self, whoami, argv);
        return WM_OK;
    }
    for (unsigned i = 0; i < n; i++)
        if (wm_process_start (&process) < 0)
            return wm_fault (error, WM_EAGAIN, "a worker cannot be started: %s", strerror (errno));
    return WM_OK;
}

/* Every job runs. The script hands SIGTERM on; else its whole process group is killed, and an
   engine, which has a group of its own, ends with its worker.  */
static wm_fault_t end (const wm_farm_t *self, const wm_farm_jobs_t *jobs, wm_farm_end_t how,
                       wm_error_t *error)
{
    (void) self, (void) error;
    for (size_t i = 0; i < jobs->n; i++) {
        const pid_t pid = (pid_t) strtol (jobs->job[i].id, NULL, 10);
        if (how == WM_FARM_DRAIN)
            kill (pid, SIGTERM);
        else if (how == WM_FARM_KILL)
            kill (-pid, SIGKILL);
    }
    return WM_OK;
}

static const char *const without[] = { "partition", "account", "memory", "submit-option", NULL };

const wm_farm_system_t wm_farm_local = {
    .name = "local",
    .without = without,
    .whoami = whoami,
    .list = list,
    .submit = submit,
    .end = end,
};
