/* wm_farm_command.c - runs a command of a batch system, bounded in time.  */
#include "ops/farm/wm_farm.h"
#include "ops/process/wm_child.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_process.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_MS 30000
#define NAP_US 5000
#define OUTPUT_BYTES_MAX (16 << 20)

/* Its last line that is not empty, nor Grid Engine's last word.  */
static const char *last_line (char *text)
{
    static const char exiting[] = "\nExiting.";
    const size_t n_exiting = sizeof exiting - 1;
    size_t n = strlen (text);
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' ' ||
                 (n > n_exiting && strcmp (text + n - n_exiting, exiting) == 0)))
        text[n -= text[n - 1] == '.' ? n_exiting : 1] = 0;
    wm_log_tame (strrchr (text, '\n') ? strrchr (text, '\n') + 1 : text);
    return strrchr (text, '\n') ? strrchr (text, '\n') + 1 : text;
}

/* Waits for its end. false: it was killed, since it did not end.  */
static bool wait_for (pid_t pid, int *status)
{
    const int64_t end_ms = wm_now_ms () + LIMIT_MS;
    while (waitpid (pid, status, WNOHANG) == 0) {
        if (wm_now_ms () >= end_ms) {
            wm_process_kill (&pid);
            return false;
        }
        usleep (NAP_US);
    }
    return true;
}

wm_fault_t wm_farm_command (const char *const argv[], int lock, char **output, wm_error_t *error)
{
    int status = 0;
    char how[WM_CHILD_HOW_BYTES];
    const int out = memfd_create ("output", MFD_CLOEXEC),
              err = memfd_create ("errors", MFD_CLOEXEC);
    const wm_process_t process = { .program = argv[0],
                                   .argv = argv,
                                   .in = WM_PROCESS_NULL,
                                   .out = out,
                                   .err = err,
                                   .keep = lock };
    *output = NULL;
    const pid_t pid = out < 0 || err < 0 ? -1 : wm_process_start (&process);
    wm_fault_t fault = WM_OK;
    if (pid < 0)
        fault = wm_fault (error, WM_EAGAIN, "%s cannot be started: %s", argv[0], strerror (errno));
    else if (!wait_for (pid, &status))
        fault = wm_fault (error, WM_EAGAIN, "%s did not end within %d s", argv[0], LIMIT_MS / 1000);
    else if (status) {
        char *text = wm_process_output (err, OUTPUT_BYTES_MAX);
        fault = wm_fault (error, WM_EHOST, "%s ended by %s: %.300s", argv[0],
                          wm_child_how_ended (status, how), text ? last_line (text) : "");
        free (text);
    } else if (!(*output = wm_process_output (out, OUTPUT_BYTES_MAX)))
        fault = wm_fault (error, WM_EAGAIN, "%s printed more than %d MB, or memory is short",
                          argv[0], OUTPUT_BYTES_MAX >> 20);
    if (out >= 0)
        close (out);
    if (err >= 0)
        close (err);
    return fault;
}

wm_fault_t wm_farm_list (const char *const argv[], void (*take) (char *line, wm_farm_jobs_t *jobs),
                         wm_farm_jobs_t *jobs, wm_error_t *error)
{
    char *output, *line;
    const wm_fault_t fault = wm_farm_command (argv, 0, &output, error);
    if (fault)
        return fault;
    for (char *rest = output; (line = strsep (&rest, "\n"));)
        take (line, jobs);
    free (output);
    return WM_OK;
}

wm_fault_t wm_farm_command_ids (const char *const word[], int n, const wm_farm_jobs_t *jobs,
                                size_t *from, wm_error_t *error)
{
    const char *argv[WM_FARM_WORDS_MAX + WM_FARM_IDS_MAX + 1] = { 0 };
    char *output = NULL;
    assert (n <= WM_FARM_WORDS_MAX);
    memcpy (argv, word, (size_t) n * sizeof *argv);
    for (int i = 0; i < WM_FARM_IDS_MAX && *from < jobs->n; i++)
        argv[n++] = jobs->job[(*from)++].id;
    const wm_fault_t fault = wm_farm_command (argv, 0, &output, error);
    free (output);
    return fault;
}
