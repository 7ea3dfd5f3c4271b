/* wm_sidecar_queue.c - see wm_sidecar_queue.h.  */
#include "ops/workflow/wm_sidecar_queue.h"
#include "ops/workflow/wm_sidecar.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_process.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEATHS_MAX 3
#define REPORT_FD 3 /* the only descriptor that the process has beside the first three */

static_assert (sizeof (wm_error_t) <= PIPE_BUF, "each report is one write");

void wm_sidecar_queue_add (wm_sidecar_queue_t *self, uint32_t input, const char *folder,
                           const char *output, const char *did)
{
    wm_must_grow (&self->item, &self->room, self->n + 1, sizeof *self->item);
    wm_sidecar_item_t *item = &self->item[self->n++];
    *item = (wm_sidecar_item_t){ input, folder ? strdup (folder) : NULL, strdup (output), did };
    assert (item->output && (item->folder || !folder));
}

/* The process: writes all sidecars that are not done. A fork has no other thread of the run, whose
   sockets it leaves alone.  */
static void write_all (const wm_sidecar_queue_t *self, int to)
{
    for (size_t i = self->n_done; i < self->n; i++) {
        wm_error_t error = { 0 };
        const wm_sidecar_item_t *item = &self->item[i];
        const char *folder = item->folder ? item->folder : self->folder;
        for (int tries = 0; tries < DEATHS_MAX; tries++) {
            error.fault = wm_sidecar_write (self->verb, folder, item->output, item->did,
                                            self->metadata, &error);
            if (error.fault != WM_EAGAIN)
                break;
        }
        if (TEMP_FAILURE_RETRY (write (to, &error, sizeof error)) < 0)
            _exit (WM_EXIT_FAILURE);
    }
    _exit (WM_EXIT_OK);
}

/* Leaves the process nothing but its pipe, which no program that it starts has: else sockets and
   the lock of the record of files outlive a run that is killed. Returns the pipe.  */
static int alone (int to)
{
    if (to != REPORT_FD && dup3 (to, REPORT_FD, O_CLOEXEC) < 0)
        _exit (WM_EXIT_FAILURE);
    close_range (REPORT_FD + 1, ~0u, 0);
    return REPORT_FD;
}

static wm_fault_t start (wm_sidecar_queue_t *self, wm_error_t *error)
{
    int ends[2];
    const pid_t parent = getpid ();
    if (pipe2 (ends, O_CLOEXEC))
        return wm_fault (error, WM_EAGAIN, "a pipe for sidecars: %s", strerror (errno));
    fcntl (ends[0], F_SETFL, O_NONBLOCK);
    fflush (NULL);
    self->pid = fork ();
    if (self->pid == 0) {
        wm_process_name ("wm-sidecars");
        if (!wm_process_follow (parent, SIGKILL))
            _exit (WM_EXIT_AGAIN);
        write_all (self, alone (ends[1]));
    }
    const int saved = errno;
    close (ends[1]);
    self->from = ends[0];
    self->n_given = self->n;
    if (self->pid > 0)
        return WM_OK;
    close (ends[0]);
    self->pid = 0;
    return wm_fault (error, WM_EAGAIN, "the process that writes sidecars cannot be started: %s",
                     strerror (saved));
}

size_t wm_sidecar_queue_step (wm_sidecar_queue_t *self,
                              void (*done) (void *argument, const wm_sidecar_item_t *item,
                                            const wm_error_t *error),
                              void *argument)
{
    wm_error_t error = { 0 };
    if (self->pid) {
        const bool has_ended = waitpid (self->pid, NULL, WNOHANG) == self->pid;
        while (self->n_done < self->n_given &&
               read (self->from, &error, sizeof error) == sizeof error) {
            self->deaths = 0;
            done (argument, &self->item[self->n_done++], &error);
        }
        if (has_ended) {
            close (self->from);
            self->pid = 0;
            self->deaths += self->n_done < self->n_given;
        }
    }
    if (self->pid || self->n_done == self->n)
        return self->n - self->n_done;
    wm_fault_t fault = WM_OK;
    if (self->deaths == DEATHS_MAX)
        fault = wm_fault (&error, WM_EAGAIN,
                          "the process that writes the sidecar of %.300s was killed %d times; look "
                          "for what kills it (memory?), then type the same command",
                          self->item[self->n_done].output, DEATHS_MAX);
    if (fault || start (self, &error)) {
        self->deaths = 0;
        done (argument, &self->item[self->n_done++], &error);
    }
    return self->n - self->n_done;
}

void wm_sidecar_queue_stop (wm_sidecar_queue_t *self)
{
    if (self->pid) {
        kill (self->pid, SIGKILL);
        TEMP_FAILURE_RETRY (waitpid (self->pid, NULL, 0));
        close (self->from);
    }
    self->pid = 0;
    self->n = self->n_done;
}
