/* wm_models.c - see wm_models.h.  */
#include "producer/gateway/wm_models_private.h"
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/wm_limits.h"

#include <czmq.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define STOP_MS 5000
#define SOCKET_PATH_MAX 80 /* of the state folder: below it lie sockets, whose paths are short */

/* ---- names ----------------------------------------------------------------------------------- */

wm_model_entry_t *wm_models_entry (const wm_models_t *models, const char *name)
{
    wm_model_entry_t *entry = models->first;
    while (entry && strcmp (entry->name, name) != 0)
        entry = entry->next;
    return entry;
}

wm_model_entry_t *wm_models_add (wm_models_t *models, const char *name)
{
    wm_model_entry_t *entry = zmalloc (sizeof *entry), **at = &models->first;
    entry->models = models;
    snprintf (entry->name, sizeof entry->name, "%s", name);
    while (*at && strcmp ((*at)->name, name) < 0)
        at = &(*at)->next;
    entry->next = *at;
    return *at = entry;
}

static bool is_loaded (const wm_version_t *version)
{
    return version->state == WM_VERSION_READY || version->state == WM_VERSION_LOADING;
}

wm_version_t *wm_models_find (wm_models_t *models, const char *model, const char *version,
                              wm_ks_error_t *error)
{
    const wm_model_entry_t *entry = wm_models_entry (models, model);
    wm_version_t *found = entry ? entry->version : NULL;
    if (!found) {
        wm_ks_fail (error, WM_KS_NOT_FOUND, "Request for unknown model: '%.120s' is not found",
                    model);
        return NULL;
    }
    while (found &&
           (*version ? strcmp (found->text, version) != 0 : found->state != WM_VERSION_READY))
        found = found->next;
    if (found && found->state == WM_VERSION_READY)
        return found;
    if (!*version)
        wm_ks_fail (error, WM_KS_UNAVAILABLE,
                    "Request for unknown model: '%.120s' has no available versions", model);
    else if (found)
        wm_ks_fail (error, WM_KS_UNAVAILABLE,
                    "Request for unknown model: '%.120s' version %s is not at ready state", model,
                    found->text);
    else
        wm_ks_fail (error, WM_KS_NOT_FOUND,
                    "Request for unknown model: '%.120s' version %.20s is not found", model,
                    version);
    return NULL;
}

/* ---- requests -------------------------------------------------------------------------------- */

void wm_models_infer (wm_models_t *self, wm_ks_request_t *request)
{
    wm_ks_error_t error;
    request->backend = NULL;
    wm_version_t *version = wm_models_find (self, request->model, request->version, &error);
    if (version) {
        wm_gather_add (version->gather, request);
        return;
    }
    const wm_ks_answer_t answer = {
        .code = error.code, .text = error.text, .model = request->model, .version = request->version
    };
    wm_transport_reply (request, &answer);
}

void wm_models_cancel (wm_models_t *self, wm_ks_request_t *request)
{
    if (request->backend)
        wm_gather_cancel (request);
    for (wm_model_entry_t *entry = self->first; entry; entry = entry->next)
        for (wm_version_t *version = entry->version; version; version = version->next)
            wm_version_tend (version);
}

bool wm_models_live (wm_models_t *self)
{
    (void) self;
    return true;
}

bool wm_models_ready (wm_models_t *self)
{
    for (const wm_model_entry_t *entry = self->first; entry; entry = entry->next) {
        bool any = false;
        for (const wm_version_t *version = entry->version; version; version = version->next)
            any |= version->state == WM_VERSION_READY;
        if (entry->is_wanted && !any)
            return false;
    }
    return true;
}

bool wm_models_model_ready (wm_models_t *self, const char *model, const char *version,
                            wm_ks_error_t *error)
{
    return wm_models_find (self, model, version, error) != NULL;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Frees versions that are gone and of which nobody wants the reason.  */
static void sweep (wm_model_entry_t *entry, bool all)
{
    for (wm_version_t **at = &entry->version; *at;) {
        wm_version_t *version = *at;
        if (version->state != WM_VERSION_GONE || (!all && *version->reason)) {
            at = &version->next;
            continue;
        }
        *at = version->next;
        wm_version_destroy (&version, 0);
    }
}

void wm_models_changed (wm_model_entry_t *entry)
{
    wm_ks_error_t error = { .code = WM_KS_OK };
    bool changes = false;
    for (const wm_version_t *version = entry->version; version; version = version->next) {
        changes |= version->state == WM_VERSION_LOADING || version->state == WM_VERSION_UNLOADING;
        if (version->state == WM_VERSION_GONE && *version->reason)
            wm_ks_fail (&error, WM_KS_INVALID, "failed to load '%.120s', version %ld: %.300s",
                        entry->name, version->number, version->reason);
    }
    if (changes)
        return;
    sweep (entry, false);
    const wm_ks_error_t none = { .code = WM_KS_OK };
    wm_waiter_t *waiter = entry->waiters;
    entry->waiters = NULL;
    for (wm_waiter_t *next; waiter; waiter = next) {
        next = waiter->next;
        if (waiter->done)
            waiter->done (waiter->argument, waiter->unloads ? &none : &error);
        free (waiter);
    }
}

static void wait_for (wm_model_entry_t *entry, wm_models_done_t *done, void *argument, bool unloads)
{
    wm_waiter_t *waiter = zmalloc (sizeof *waiter), **at = &entry->waiters;
    *waiter = (wm_waiter_t){ NULL, done, argument, unloads };
    while (*at)
        at = &(*at)->next;
    *at = waiter;
}

/* The version of this number and file that is loaded; NULL: none, or its file has changed.  */
static wm_version_t *same (const wm_model_entry_t *entry, long number, const char *file)
{
    char stamp[128] = "";
    wm_file_stamp (file, stamp);
    for (wm_version_t *one = entry->version; one; one = one->next)
        if (one->number == number && is_loaded (one) && strcmp (one->file, file) == 0 && *stamp &&
            strcmp (one->stamp, stamp) == 0)
            return one;
    return NULL;
}

static void insert (wm_model_entry_t *entry, wm_version_t *version)
{
    wm_version_t **at = &entry->version;
    while (*at && (*at)->number > version->number)
        at = &(*at)->next;
    version->next = *at;
    *at = version;
}

/* Loads what the files state: a version that is loaded from the same file stays, another replaces
   its predecessor, and those that are not there any more go.  */
static void load (wm_model_entry_t *entry, const wm_model_files_t *files)
{
    wm_version_t *kept[WM_MODELS_VERSIONS_MAX];
    const bool is_same =
        json_equal (entry->config, files->config) || (!entry->config && !files->config);
    json_decref (entry->config);
    entry->config = json_incref (files->config);
    sweep (entry, true);
    for (uint32_t i = 0; i < files->n_version; i++)
        kept[i] = is_same ? same (entry, files->number[i], files->file[i]) : NULL;
    for (wm_version_t *one = entry->version; one; one = one->next) {
        bool stays = false;
        for (uint32_t i = 0; i < files->n_version; i++)
            stays |= kept[i] == one;
        if (!stays)
            wm_version_unload (one, "");
    }
    for (uint32_t i = 0; i < files->n_version; i++)
        if (!kept[i])
            insert (entry, wm_version_new (entry, files->number[i], files->file[i]));
    entry->is_wanted = true;
}

void wm_models_load (wm_models_t *self, const char *model, wm_models_done_t *done, void *argument)
{
    wm_ks_error_t failed;
    wm_error_t error = { .text = "" };
    if (!wm_models_entry (self, model))
        wm_repository_scan (self);
    wm_model_entry_t *entry = wm_models_entry (self, model);
    wm_model_files_t *files = entry ? wm_repository_read (entry, &error) : NULL;
    if (!files) {
        wm_ks_fail (&failed, WM_KS_INVALID, "failed to load '%.120s', %.300s", model,
                    entry ? error.text : "failed to poll from model repository");
        if (done)
            done (argument, &failed);
        return;
    }
    wait_for (entry, done, argument, false);
    load (entry, files);
    if (!entry->given)
        wm_repository_free (&files);
    wm_models_changed (entry);
}

void wm_models_unload (wm_models_t *self, const char *model, wm_models_done_t *done, void *argument)
{
    wm_model_entry_t *entry = wm_models_entry (self, model);
    wm_ks_error_t failed;
    if (!entry || !entry->version) {
        wm_ks_fail (&failed, WM_KS_NOT_FOUND, "failed to unload '%.120s', model is not loaded",
                    model);
        done (argument, &failed);
        return;
    }
    entry->is_wanted = false;
    wait_for (entry, done, argument, true);
    for (wm_version_t *one = entry->version; one; one = one->next)
        wm_version_unload (one, "");
    sweep (entry, true);
    wm_models_changed (entry);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* 64M, 2G, 1000.  */
static size_t bytes_of (const char *text)
{
    char *end;
    const unsigned long long n = strtoull (text, &end, 10);
    const char *units = "KMG", *unit = *end ? strchr (units, *end) : NULL;
    if (end == text || (*end && (!unit || end[1])) || n > 1u << 30)
        return 0;
    return (size_t) n << (unit ? 10 * (unit - units + 1) : 0);
}

static wm_fault_t make_state (wm_models_t *self, const char *given, wm_error_t *error)
{
    const char *runtime = getenv ("XDG_RUNTIME_DIR");
    if (given) {
        if (!realpath (given, self->state) && wm_folder_make (given, 0700, error))
            return error->fault;
        if (!realpath (given, self->state) || strlen (self->state) > SOCKET_PATH_MAX)
            return wm_fault (error, WM_EUSAGE,
                             "--state %.200s: sockets lie there, whose paths are short: choose a "
                             "folder of at most %d characters",
                             given, SOCKET_PATH_MAX);
        self->lock = open (self->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (self->lock >= 0 && flock (self->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
            return wm_fault (error, WM_EHOST,
                             "--state %.200s: another gateway works there; choose another folder",
                             given);
        return WM_OK;
    }
    if (!runtime || !*runtime || strlen (runtime) > SOCKET_PATH_MAX / 2)
        runtime = "/tmp";
    snprintf (self->state, sizeof self->state, "%s/wiremill-gateway-XXXXXX", runtime);
    self->is_temporary = mkdtemp (self->state) != NULL;
    return self->is_temporary ? WM_OK
                              : wm_fault (error, WM_EHOST,
                                          "no folder can be made in %s: %s; "
                                          "choose one by --state",
                                          runtime, strerror (errno));
}

static wm_fault_t take_options (wm_models_t *self, const wm_args_t *args, wm_error_t *error)
{
    self->repository = wm_args_text (args, "model-repository");
    self->engine = wm_args_text (args, "engine");
    self->device = wm_args_text (args, "device");
    self->join_file = wm_args_text (args, "join-file");
    self->n_worker =
        wm_args_given (args, "workers") ? (uint32_t) wm_args_number (args, "workers") : 1;
    const uint32_t cpus = (uint32_t) wm_allowance ()->cpus;
    self->n_thread = wm_args_given (args, "threads") ? (uint32_t) wm_args_number (args, "threads")
                     : cpus > self->n_worker         ? cpus / self->n_worker
                                                     : 1;
    self->max_delay_us = (int64_t) (wm_args_seconds (args, "max-delay") * 1e6);
    self->in_flight_bytes = bytes_of (wm_args_text (args, "in-flight"));
    if (!self->in_flight_bytes)
        return wm_fault (error, WM_EUSAGE, "--in-flight %.40s: bytes, as 64M",
                         wm_args_text (args, "in-flight"));
    return make_state (self, wm_args_text (args, "state"), error);
}

wm_models_t *wm_models_new (wm_loop_t *loop, const wm_args_t *args, wm_error_t *error)
{
    wm_models_t *self = zmalloc (sizeof *self);
    self->loop = loop;
    self->lock = -1;
    if (take_options (self, args, error) || wm_repository_open (self, args, error)) {
        wm_models_destroy (&self);
        return NULL;
    }
    return self;
}

void wm_models_start (wm_models_t *self)
{
    for (wm_model_entry_t *entry = self->first; entry; entry = entry->next) {
        entry->is_wanted = true;
        wm_models_load (self, entry->name, NULL, NULL);
    }
}

void wm_models_destroy (wm_models_t **self_p)
{
    wm_models_t *self = *self_p;
    if (!self)
        return;
    const int64_t until_ms = wm_now_ms () + STOP_MS;
    for (wm_model_entry_t *entry = self->first, *next; entry; entry = next) {
        next = entry->next;
        for (wm_version_t *version = entry->version, *after; version; version = after) {
            after = version->next;
            wm_version_destroy (&version, until_ms - wm_now_ms ());
        }
        for (wm_waiter_t *waiter = entry->waiters, *after; waiter; waiter = after) {
            after = waiter->next;
            free (waiter);
        }
        wm_repository_free (&entry->given);
        json_decref (entry->config);
        free (entry);
    }
    if (self->is_temporary)
        rmdir (self->state);
    if (self->lock >= 0)
        close (self->lock);
    free (self);
    *self_p = NULL;
}
