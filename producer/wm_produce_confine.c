/* wm_produce_confine.c - see wm_produce_confine.h.

   Landlock confines a thread and those that it starts. The output folder is known only when the
   broker has answered, and libzmq's threads run by then; so these are started by a thread that has
   given up all files but those of name resolution, and they inherit that.  */
#include "producer/wm_produce_confine.h"
#include "producer/wm_produce_private.h"
#include "schema/base/wm_confine.h"
#include "schema/base/wm_path.h"
#include "schema/wm_endpoint.h"
#include "schema/wm_join.h"

#include <pthread.h>
#include <string.h>

/* The first socket of a process starts libzmq's threads; they stay when it is gone.  */
static void *threads_start (void *unused)
{
    wm_confine_files_t *files = wm_confine_files_new ();
    wm_confine_files_apply (&files);
    zsock_t *socket = zsock_new (ZMQ_PAIR);
    zsock_destroy (&socket);
    return unused;
}

/* The address may stand in a campaign's endpoint.json; while that is not there, a network's.  */
static bool is_ipc (const char *broker)
{
    char list[WM_ENDPOINT_PLACES_MAX][WM_ADDRESS_BYTES];
    wm_error_t error;
    if (strncmp (broker, "file://", 7) == 0 &&
        wm_endpoint_resolve (broker, WM_ROLE_PRODUCER - WM_ROLE_WORKER, list, &error))
        broker = list[0];
    return strncmp (broker, "ipc:", 4) == 0;
}

void wm_produce_confine_calls (const char *broker)
{
    pthread_t thread;
    wm_confine_calls ("wiremill-producer", is_ipc (broker) ? WM_CONFINE_IPC : WM_CONFINE_TCP);
    zsys_init (); /* on this thread: it remembers nothing of it, but signals are the process's */
    if (pthread_create (&thread, NULL, threads_start, NULL) == 0)
        pthread_join (thread, NULL);
}

void wm_produce_confine_files (const wm_produce_t *self)
{
    wm_confine_files_t *files = wm_confine_files_new ();
    if (self->options->ahead)
        wm_confine_files_read (files, self->options->staged);
    for (uint32_t i = 0; i < self->n_input && files; i++) {
        if (self->input[i].remote)
            continue;
        char path[WM_PATH_BYTES_MAX + 1];
        snprintf (path, sizeof path, "%.*s", (int) wm_path_length (self->input[i].path),
                  self->input[i].path);
        wm_confine_files_beside (files, path);
    }
    for (size_t i = 0; wm_join_path (i); i++) /* they are read again for each session */
        wm_confine_files_read (files, wm_join_path (i));
    if (strncmp (self->options->broker, "file://", 7) == 0) {
        char folder[WM_PATH_BYTES_MAX + 1];
        snprintf (folder, sizeof folder, "%s", self->options->broker + 7);
        *strrchr (folder, '/') = 0; /* of endpoint.json, which a broker replaces */
        wm_confine_files_read (files, folder);
    }
    wm_confine_files_write (files, self->pins.output);
    wm_confine_files_apply (&files);
    if (*wm_confine_lacks ())
        wm_produce_warn (self,
                         "hostile inputs are not fully confined on this machine: %s; see "
                         "schema/CONFINEMENT.md",
                         wm_confine_lacks ());
}
