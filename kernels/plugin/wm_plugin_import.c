/* wm_plugin_import.c - makes the model of a campaign by a plug-in, in a process of its own: the
   plug-in's code runs there, and may crash or hang.  */
#include "kernels/model/wm_seed.h"
#include "kernels/plugin/wm_plugin.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_process.h"
#include "schema/wm_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KNOWN 3u

typedef struct {
    char why[480];
    wm_error_t error;
} answer_t;

typedef struct {
    const char *path, *wmm_path;
    const uint8_t *data;
    size_t bytes;
    char own[65]; /* the plug-in's SHA-256 */
    uint8_t sha256[32];
} job_t;

/* Lets the plug-in answer a few rows, whose bits each machine must give. `parts` has the answers
   then, which the process keeps to its end.  */
static wm_fault_t answer_known (wm_plugin_t *plugin, wm_model_parts_t *parts, wm_error_t *error)
{
    size_t n_value = 0, n_output = 0;
    for (uint32_t i = 0; i < parts->n_input; i++)
        n_value += parts->input[i].n_value;
    for (uint32_t i = 0; i < parts->n_output; i++)
        n_output += parts->output[i].n_value;
    float *in = calloc (KNOWN * n_value, sizeof *in), *out = calloc (KNOWN * n_output, sizeof *out);
    wm_fault_t fault = in && out
                           ? wm_plugin_open (plugin, error)
                           : wm_fault (error, WM_EHOST, "no memory for a plug-in's known answers");
    if (!fault)
        wm_seed_rows (1, KNOWN, n_value, in);
    if (!fault)
        fault = wm_plugin_score (plugin, KNOWN, in, out, error);
    parts->n_known = KNOWN;
    parts->known_inputs = in, parts->known_scores = out;
    return fault;
}

static wm_fault_t make (const job_t *job, char why[480], wm_error_t *error)
{
    static wiremill_engine_description_t about;
    wm_port_t input[WM_MODEL_PORTS_MAX], output[WM_MODEL_PORTS_MAX];
    wm_model_plugin_t facts = { .sha256 = "" };
    wm_plugin_t plugin;
    wm_fault_t fault = wm_plugin_load (&plugin, job->path, NULL, job->data, job->bytes, 1, error);
    if (!fault && strcmp (plugin.sha256, job->own) != 0)
        fault = wm_fault (error, WM_EAGAIN, "the plug-in %.300s changed meanwhile", job->path);
    if (!fault)
        fault = wm_plugin_describe (&plugin, &about, input, output, error);
    if (fault)
        return fault;
    memcpy (facts.sha256, plugin.sha256, sizeof facts.sha256);
    memcpy (facts.name, about.name, sizeof facts.name);
    memcpy (facts.version, about.version, sizeof facts.version);
    facts.flags = about.flags;
    snprintf (why, 480, "plug-in %s %s, SHA-256 %.12s", about.name, about.version, plugin.sha256);
    wm_model_parts_t parts = { .kind = WM_MODEL_PLUGIN,
                               .why = why,
                               .n_input = about.n_input,
                               .n_output = about.n_output,
                               .input = input,
                               .output = output,
                               .plugin = &facts,
                               .original = job->data,
                               .original_bytes = job->bytes };
    memcpy (parts.sha256, job->sha256, sizeof parts.sha256);
    if (about.flags & WIREMILL_ENGINE_SAME_BITS)
        fault = answer_known (&plugin, &parts, error);
    return fault ? fault : wm_model_write (job->wmm_path, &parts, error);
}

/* A description loads libraries, and a model, as an engine's start does.  */
static unsigned patience_s (void)
{
    const int64_t ms = wm_times ()->engine_start_ms;
    return ms > 2000 ? (unsigned) (ms / 1000) : 2;
}

static void __attribute__ ((noreturn)) be_apart (const job_t *job, int end, pid_t parent)
{
    static answer_t answer;
    wm_process_name ("wm-plugin");
    if (!wm_process_follow (parent, SIGKILL))
        _exit (1);
    dup2 (STDERR_FILENO, STDOUT_FILENO); /* a plug-in may print */
    if (end == STDERR_FILENO + 1 || dup3 (end, STDERR_FILENO + 1, O_CLOEXEC) >= 0) {
        end = STDERR_FILENO + 1;
        close_range ((unsigned) end + 1, ~0u, 0); /* the campaign's lock, sockets */
    }
    signal (SIGALRM, SIG_DFL);
    alarm (patience_s ());
    answer.error.fault = make (job, answer.why, &answer.error);
    alarm (0);
    const bool told = write (end, &answer, sizeof answer) == (ssize_t) sizeof answer;
    _exit (!told);
}

/* Explains how the process ended, which had no answer.  */
static wm_fault_t ended (const char *path, int status, wm_error_t *error)
{
    const int number = WIFSIGNALED (status) ? WTERMSIG (status) : 0;
    if (number == SIGKILL)
        return wm_fault (error, WM_EHOST, "the plug-in %.300s was killed while it described itself",
                         path);
    if (number == SIGALRM)
        return wm_fault (error, WM_EBATCH,
                         "the plug-in %.300s took more than %u s to describe itself", path,
                         patience_s ());
    if (number)
        return wm_fault (error, WM_EBATCH,
                         "the plug-in %.200s crashed while it described itself (signal %d, %s): "
                         "try `wiremill plugin check`",
                         path, number, strsignal (number));
    return wm_fault (error, WM_EBATCH, "the plug-in %.200s ended the process (exit code %d)", path,
                     WEXITSTATUS (status));
}

/* Runs the job in a process of its own.  */
static wm_fault_t run_apart (const job_t *job, char why[480], wm_error_t *error)
{
    answer_t answer = { .why = "" };
    int ends[2], status = 0;
    if (pipe2 (ends, O_CLOEXEC))
        return wm_fault (error, WM_EHOST, "no pipe for a plug-in: %s", strerror (errno));
    const pid_t parent = getpid ();
    fflush (NULL);
    const pid_t pid = fork ();
    if (pid == 0)
        be_apart (job, ends[1], parent);
    const int saved = errno;
    close (ends[1]);
    const bool told =
        pid > 0 && wm_plugin_hear (ends[0], pid, patience_s (), &answer, sizeof answer, &status);
    close (ends[0]);
    if (pid < 0)
        return wm_fault (error, WM_EHOST, "no process for a plug-in: %s", strerror (saved));
    if (!told)
        return ended (job->path, status, error);
    answer.why[sizeof answer.why - 1] = answer.error.text[sizeof answer.error.text - 1] = 0;
    wm_log_sanitize (answer.error.text);
    if ((unsigned) answer.error.fault > WM_EUSAGE)
        answer.error.fault = WM_EBATCH;
    memcpy (why, answer.why, sizeof answer.why);
    if (answer.error.fault && error)
        *error = answer.error;
    return answer.error.fault;
}

wm_fault_t wm_plugin_import (const char *path, const char *data, const char *wmm_path,
                             char why[480], wm_error_t *error)
{
    char hex[65], own[65], again[65];
    job_t job = { .path = path, .wmm_path = wmm_path };
    wm_fault_t fault = wm_plugin_identify (path, data, job.own, hex, error);
    if (!fault && data)
        fault = wm_file_map (data, WM_MODEL_BYTES_MAX, &job.data, &job.bytes, error);
    for (size_t i = 0; i < sizeof job.sha256 && !fault; i++)
        sscanf (hex + 2 * i, "%2hhx", &job.sha256[i]);
    const bool is_made = !fault && !(fault = run_apart (&job, why, error));
    if (is_made && !(fault = wm_plugin_identify (path, data, own, again, error)) &&
        strcmp (hex, again) != 0)
        fault = wm_fault (error, WM_EAGAIN, "the plug-in %.300s, or its model, changed meanwhile",
                          path);
    if (is_made && fault)
        unlink (wmm_path); /* it may have the bytes of another model than its SHA-256 */
    if (job.data)
        munmap ((void *) (uintptr_t) job.data, job.bytes);
    return fault;
}
