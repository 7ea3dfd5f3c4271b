/* wm_produce_confine.c - see wm_produce_confine.h.

   Landlock confines a thread and those that it starts. The output folder is known only when the
   broker has answered, and libzmq's threads run by then; so these are started by a thread that has
   given up all files but those of name resolution, and they inherit that.

   Of the campaign's folder nothing stays open, but where it lies in the output folder: Landlock
   cannot leave out a folder below one that it opens.  */
#include "producer/session/wm_produce_confine.h"
#include "producer/files/wm_h5.h"
#include "producer/session/wm_produce_private.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_path.h"
#include "schema/confine/wm_confine.h"
#include "schema/confine/wm_file_opener.h"
#include "schema/session/wm_endpoint.h"
#include "schema/session/wm_join.h"
#include "schema/wm_limits.h"
#include "schema/wm_pair.h"

#include <pthread.h>
#include <stdlib.h>
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

/* A join file that was handed on is a file in memory, open already.  */
static bool is_inherited (const char *path)
{
    return strncmp (path, "/proc/self/fd/", 14) == 0;
}

/* The files that are read again for each session: where the broker is, and its keys.  */
static wm_fault_t send_courier (const char *broker, wm_error_t *error)
{
    const char *list[WM_FILE_OPENER_FILES_MAX];
    size_t n = 0;
    if (strncmp (broker, "file://", 7) == 0)
        list[n++] = broker + 7;
    for (size_t i = 0; wm_join_path (i); i++)
        if (!is_inherited (wm_join_path (i)))
            list[n++] = wm_join_path (i);
    return n ? wm_file_opener_start (list, n, wm_times ()->handshake_ms, error) : WM_OK;
}

wm_fault_t wm_produce_confine_calls (const char *broker, wm_error_t *error)
{
    pthread_t thread;
    if (send_courier (broker, error))
        return error->fault;
    wm_confine_calls ("wiremill-producer", is_ipc (broker) ? WM_CONFINE_IPC : WM_CONFINE_TCP);
    zsys_init (); /* on this thread: it remembers nothing of it, but signals are the process's */
    if (pthread_create (&thread, NULL, threads_start, NULL) == 0)
        pthread_join (thread, NULL);
    return WM_OK;
}

static void spare_folder_of (const char *path)
{
    char folder[PATH_MAX];
    snprintf (folder, sizeof folder, "%s", path);
    char *slash = strrchr (folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    wm_confine_spare (slash ? folder : ".");
}

/* The campaign's folder may lie in the folder of an input. Its name is known where it is on this
   machine: as it was given, by endpoint.json, as that of a key, or as that of the outputs.  */
static void spare_campaign (const wm_produce_t *self)
{
    char folder[PATH_MAX];
    if (self->options->folder && *self->options->folder)
        wm_confine_spare (self->options->folder);
    if (strncmp (self->options->broker, "file://", 7) == 0)
        spare_folder_of (self->options->broker + 7);
    for (size_t i = 0; wm_join_path (i); i++)
        if (!is_inherited (wm_join_path (i)))
            spare_folder_of (wm_join_path (i));
    if (wm_folder_find (self->pins.output, folder))
        wm_confine_spare (folder);
}

/* An input may be a file and a dataset in it.  */
static void add_input (wm_confine_files_t *files, const char *name)
{
    char path[WM_PATH_BYTES_MAX + 1];
    snprintf (path, sizeof path, "%.*s", (int) wm_path_length (name), name);
    wm_confine_files_beside (files, path);
}

/* Opens the folder that a file is to be written to.  */
static void add_folder_of (wm_confine_files_t *files, const char *path)
{
    const char *slash = strrchr (path, '/');
    char folder[WM_PATH_BYTES_MAX + 1];
    snprintf (folder, sizeof folder, "%.*s", slash ? (int) (slash + 1 - path) : 1,
              slash ? path : ".");
    wm_confine_files_write (files, folder);
}

static void confine (const char *const path[], size_t n, bool writes, const char *folder)
{
    wm_confine_calls ("wiremill-producer", WM_CONFINE_NO_NET);
    wm_confine_files_t *files = wm_confine_files_new ();
    for (size_t i = 0; i < n && files; i++) {
        add_input (files, path[i]);
        if (writes && !folder)
            add_folder_of (files, path[i]);
    }
    if (files && writes && folder)
        wm_confine_files_write (files, folder);
    wm_confine_files_apply (&files);
}

void wm_produce_confine_reader (const char *const path[], size_t n)
{
    confine (path, n, false, NULL);
}

const char **wm_produce_rest (const wm_args_t *args, size_t *n)
{
    for (*n = 0; wm_args_rest (args, (int) *n);)
        ++*n;
    const char **path = calloc (*n + 1, sizeof *path);
    for (size_t i = 0; i < *n && path; i++)
        path[i] = wm_args_rest (args, (int) i);
    return path;
}

static const char **confine_rest (const wm_args_t *args, bool writes, const char *folder, size_t *n)
{
    const char **path = wm_produce_rest (args, n);
    if (path) {
        confine (path, *n, writes, folder);
        wm_h5_init ();
    }
    return path;
}

const char **wm_produce_confine_rest (const wm_args_t *args, size_t *n)
{
    return confine_rest (args, false, NULL, n);
}

const char **wm_produce_confine_writer (const wm_args_t *args, const char *folder, size_t *n)
{
    return confine_rest (args, true, folder, n);
}

/* The planes of hits, and the channel map, where these are files of their own.  */
static void add_planes (const wm_produce_t *self, wm_confine_files_t *files)
{
    char path[PATH_MAX];
    for (uint32_t i = 0; i < self->n_input && files; i++)
        if (wm_pair_planes (&self->pins, self->input[i].path, path))
            add_input (files, path);
    if (*self->pins.channels && files)
        add_input (files, self->pins.channels);
}

void wm_produce_confine_files (const wm_produce_t *self)
{
    wm_confine_files_t *files = wm_confine_files_new ();
    spare_campaign (self);
    if (self->options->ahead)
        wm_confine_files_read (files, self->options->staged);
    for (uint32_t i = 0; i < self->n_input && files; i++)
        if (!self->input[i].remote)
            add_input (files, self->input[i].path);
    add_planes (self, files);
    wm_confine_files_write (files, self->pins.output);
    wm_confine_files_apply (&files);
    if (*wm_confine_lacks ())
        wm_produce_warn (self,
                         "hostile inputs are not fully confined on this machine: %s; see "
                         "`wiremill help confinement`",
                         wm_confine_lacks ());
}
