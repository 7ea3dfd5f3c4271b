/* wm_farm_command.c - runs a command of a batch system, bounded in time.  */
#include "ops/farm/wm_farm.h"
#include "ops/process/wm_child.h"
#include "ops/process/wm_memory.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_process.h"
#include "schema/wm_limits.h"

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
    wm_log_sanitize (strrchr (text, '\n') ? strrchr (text, '\n') + 1 : text);
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

wm_fault_t wm_farm_command (const char *const argv[], const char *input, int lock, char **output,
                            wm_error_t *error)
{
    int status = 0, in = WM_PROCESS_NULL;
    char how[WM_CHILD_HOW_BYTES], path[32];
    *output = NULL;
    if (input && (wm_memory_file ("input", input, strlen (input), &in, path, error) ||
                  lseek (in, 0, SEEK_SET)))
        return WM_EAGAIN;
    const int out = memfd_create ("output", MFD_CLOEXEC),
              err = memfd_create ("errors", MFD_CLOEXEC);
    const wm_process_t process = {
        .program = argv[0], .argv = argv, .in = in, .out = out, .err = err, .keep = lock
    };
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
    if (in >= 0)
        close (in);
    if (out >= 0)
        close (out);
    if (err >= 0)
        close (err);
    return fault;
}
