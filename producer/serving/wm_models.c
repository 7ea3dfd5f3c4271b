/* wm_models.c - see wm_models.h.  */
#include "producer/serving/wm_models_private.h"
#include "kernels/opencl/wm_opencl_device.h"
#include "kernels/wm_device.h"
#include "kernels/wm_driver.h"
#include "schema/base/wm_allowance.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_text.h"
#include "schema/wm_limits.h"

#include <czmq.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#define STOP_MS 5000
#define DRIVER_S 20        /* to start, of the driver */
#define LOADED_MAX 1000u   /* models that came with loads */
#define SOCKET_PATH_MAX 80 /* of the state folder: below it lie sockets, whose paths are short */

static bool is_loaded (const wm_version_t *version)
{
    return version->state == WM_VERSION_READY || version->state == WM_VERSION_LOADING;
}

/* Whether a version is there, or is tried again.  */
static bool any_loaded (const wm_models_t *self)
{
    for (const wm_model_entry_t *entry = self->first; entry; entry = entry->next)
        for (const wm_version_t *one = entry->version; one; one = one->next)
            if (is_loaded (one))
                return true;
    return false;
}

bool wm_models_any_loading (const wm_models_t *self)
{
    const wm_model_entry_t *entry = self->first;
    while (entry && !wm_models_is_loading (entry))
        entry = entry->next;
    return entry;
}

wm_models_start_t wm_models_started (const wm_models_t *self)
{
    bool any = false;
    for (const wm_model_entry_t *entry = self->first; entry; entry = entry->next)
        any |= entry->at_start;
    return self->has_served || !any ? WM_MODELS_STARTED
           : any_loaded (self)      ? WM_MODELS_STARTING
                                    : WM_MODELS_FAILED;
}

wm_version_t *wm_models_find (wm_models_t *models, const char *model, const char *version,
                              wm_ks_error_t *error)
{
    const wm_model_entry_t *entry = wm_models_entry (models, model);
    if (!entry || !entry->version) {
        wm_ks_fail (error, WM_KS_NOT_FOUND, "Request for unknown model: '%.120s' is not found",
                    model);
        return NULL;
    }
    bool is_known = false, loads = false;
    const char *why = "";
    for (wm_version_t *one = entry->version; one; one = one->next) {
        const bool is_it = !*version || strcmp (one->text, version) == 0;
        if (is_it && one->state == WM_VERSION_READY && !one->is_down)
            return one;
        is_known |= is_it;
        loads |= is_it && wm_version_is_loading (one);
        if (is_it && !*why)
            why = *one->fails ? one->fails : one->reason;
    }
    const char *colon = *why ? ": " : "";
    if (loads)
        wm_ks_fail (error, WM_KS_LOADING, "Model '%.120s'%s%.20s is loading: try again in a second",
                    model, *version ? " version " : "", version);
    else if (!*version)
        wm_ks_fail (error, WM_KS_UNAVAILABLE,
                    "Request for unknown model: '%.120s' has no available versions%s%.300s", model,
                    colon, why);
    else if (is_known)
        wm_ks_fail (error, WM_KS_UNAVAILABLE,
                    "Request for unknown model: '%.120s' version %.20s is not at ready state"
                    "%s%.300s",
                    model, version, colon, why);
    else
        wm_ks_fail (error, WM_KS_NOT_FOUND,
                    "Request for unknown model: '%.120s' version %.20s is not found", model,
                    version);
    return NULL;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void fail_request (wm_ks_request_t *request, wm_ks_code_t code, const char *text)
{
    const wm_ks_answer_t answer = {
        .code = code, .text = text, .model = request->model, .version = request->version
    };
    request->calls->reply (request, &answer);
}

void wm_models_infer (wm_models_t *self, wm_ks_request_t *request)
{
    wm_ks_error_t error;
    request->backend = NULL;
    wm_version_t *version = wm_models_find (self, request->model, request->version, &error);
    if (version)
        wm_gather_add (version->gather, request);
    else
        fail_request (request, error.code, error.text);
}

static void ask_again (wm_models_t *self, wm_ks_request_t *request, const char *text)
{
    const wm_version_t *version =
        self->ends ? NULL : wm_models_find (self, request->model, request->version, NULL);
    if (version)
        wm_gather_add (version->gather, request);
    else
        fail_request (request, WM_KS_UNAVAILABLE, text);
}

wm_ks_code_t wm_models_raw (wm_models_t *self, const char *model, const char *version, size_t bytes,
                            wm_kserve_tensor_t *tensor, wm_ks_error_t *error)
{
    const wm_version_t *found = wm_models_find (self, model, version, error);
    return found ? wm_signature_raw (&found->signature, model, bytes, tensor, error) : error->code;
}

size_t wm_models_need (wm_models_t *self, const wm_ks_request_t *request)
{
    const wm_version_t *version = wm_models_find (self, request->model, request->version, NULL);
    return version ? wm_gather_need (version->gather, request) : 0;
}

void wm_models_cancel (wm_models_t *self, wm_ks_request_t *request)
{
    if (request->backend)
        wm_gather_cancel (request);
    for (wm_model_entry_t *entry = self->first; entry; entry = entry->next)
        for (wm_version_t *version = entry->version; version; version = version->next)
            wm_version_update (version);
}

bool wm_models_ready (wm_models_t *self, wm_ks_error_t *error)
{
    for (const wm_model_entry_t *entry = self->first; entry; entry = entry->next) {
        bool any = false;
        for (const wm_version_t *version = entry->version; version; version = version->next)
            any |= version->state == WM_VERSION_READY && !*version->fails;
        if (!entry->at_start || !entry->is_wanted || any)
            continue;
        if (entry->version)
            wm_models_model_ready (self, entry->name, "", error);
        else
            wm_ks_fail (error, WM_KS_UNAVAILABLE, "Model '%.120s' is not loaded: %.300s",
                        entry->name, entry->reason);
        return false;
    }
    return true;
}

bool wm_models_model_ready (wm_models_t *self, const char *model, const char *version,
                            wm_ks_error_t *error)
{
    const wm_version_t *found = wm_models_find (self, model, version, error);
    if (found && *found->fails)
        wm_ks_fail (error, WM_KS_UNAVAILABLE,
                    "Request for unknown model: '%.120s' version %s is not at ready state: %.300s",
                    model, found->text, found->fails);
    return found && !*found->fails;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Frees versions that are gone, all of them or those whose reason is not shown.  */
static void sweep (wm_model_entry_t *entry, bool all)
{
    for (wm_version_t **at = &entry->version; *at;) {
        wm_version_t *version = *at;
        if (version->state != WM_VERSION_GONE || (!all && *version->reason && !version->leaves)) {
            at = &version->next;
            continue;
        }
        *at = version->next;
        wm_version_destroy (&version, 0);
    }
}

/* Whether what was asked for, loading or unloading, is still under way.  */
static bool is_under_way (const wm_model_entry_t *entry, bool unloads)
{
    bool any = wm_models_is_loading (entry);
    for (const wm_version_t *one = entry->version; one; one = one->next)
        any |= one->is_tried || (unloads && one->state == WM_VERSION_UNLOADING);
    return any;
}

/* Why the last load failed; "": it did not.  */
static wm_ks_error_t load_error (const wm_model_entry_t *entry)
{
    wm_ks_error_t error = { .code = WM_KS_OK };
    for (const wm_version_t *version = entry->version; version; version = version->next) {
        const char *reason = version->leaves                     ? ""
                             : version->state == WM_VERSION_GONE ? version->reason
                             : is_loaded (version)               ? version->fails
                                                                 : "";
        if (*reason)
            wm_ks_fail (&error, WM_KS_INVALID, "failed to load '%.120s', version %ld: %.300s",
                        entry->name, version->number, reason);
    }
    return error;
}

/* Unloads what a load has replaced, and where it is over and has not failed, what it removed.  */
static void end_leaving (wm_model_entry_t *entry, bool is_over, bool has_failed)
{
    for (wm_version_t *one = entry->version; one; one = one->next) {
        if (!one->leaves)
            continue;
        const wm_version_t *shown = wm_models_shown (entry, one->number);
        if (shown != one || (is_over && !has_failed))
            wm_version_unload (one, "");
        if (is_over && one->state == WM_VERSION_READY)
            one->leaves = false;
    }
}

/* Calls waiters whose load or unload is done by now.  */
static void call_waiters (wm_model_entry_t *entry, const wm_ks_error_t *error)
{
    const wm_ks_error_t none = { .code = WM_KS_OK };
    wm_waiter_t *waiter = entry->waiters, **kept = &entry->waiters;
    entry->waiters = NULL;
    for (wm_waiter_t *next; waiter; waiter = next) {
        next = waiter->next;
        waiter->next = NULL;
        if (is_under_way (entry, waiter->unloads)) {
            while (*kept)
                kept = &(*kept)->next;
            *kept = waiter;
            continue;
        }
        if (waiter->done)
            waiter->done (waiter->argument, waiter->unloads ? &none : error);
        free (waiter);
    }
}

static void changed (wm_model_entry_t *entry)
{
    const bool is_over = !is_under_way (entry, false);
    const wm_ks_error_t error = load_error (entry);
    end_leaving (entry, is_over, error.code != WM_KS_OK);
    for (wm_version_t *one = entry->version; one; one = one->next)
        wm_version_update (one);
    if (is_over)
        sweep (entry, false);
    call_waiters (entry, &error);
}

static void wait_for (wm_model_entry_t *entry, wm_models_done_t *done, void *argument, bool unloads)
{
    wm_waiter_t *waiter = zmalloc (sizeof *waiter), **at = &entry->waiters;
    *waiter = (wm_waiter_t){ NULL, done, argument, unloads };
    while (*at)
        at = &(*at)->next;
    *at = waiter;
}

/* The version of this number, file and configuration that is loaded; NULL: none, or one of them has
   changed.  */
static wm_version_t *same (const wm_model_entry_t *entry, long number, const char *file,
                           const json_t *config)
{
    char stamp[128] = "";
    wm_file_stamp (file, stamp);
    for (wm_version_t *one = entry->version; one; one = one->next)
        if (one->number == number && is_loaded (one) && strcmp (one->file, file) == 0 && *stamp &&
            strcmp (one->stamp, stamp) == 0 &&
            (one->config ? json_equal (one->config, config) : !config))
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

/* Loads what the files state. A version that is loaded from the same files stays. Another one, of
   which there are other files or none any more, serves until the new ones are ready; where they
   fail, it stays.  */
static void load (wm_model_entry_t *entry, const wm_model_files_t *files)
{
    wm_version_t *kept[WM_MODELS_VERSIONS_MAX];
    sweep (entry, true);
    for (uint32_t i = 0; i < files->n_version; i++)
        kept[i] = same (entry, files->number[i], files->file[i], files->config);
    for (wm_version_t *one = entry->version; one; one = one->next) {
        bool stays = false;
        for (uint32_t i = 0; i < files->n_version; i++)
            stays |= kept[i] == one;
        one->leaves = !stays && one->state == WM_VERSION_READY;
        one->is_tried &= !one->leaves;
        if (!stays && !one->leaves)
            wm_version_unload (one, "");
    }
    for (uint32_t i = 0; i < files->n_version; i++)
        if (kept[i])
            wm_version_hurry (kept[i]);
        else
            insert (entry, wm_version_new (entry, files, i));
    entry->is_wanted = true;
}

/* The entry of a model that a client may load: one that brings its files may be new. NULL: no
   model has this name, or there are too many.  */
static wm_model_entry_t *entry_of (wm_models_t *self, const char *model, const wm_override_t *given)
{
    wm_model_entry_t *entry = wm_models_entry (self, model);
    const bool brings_files = given && given->n_file;
    uint32_t n = 0;
    if (!entry)
        wm_repository_scan (self);
    entry = wm_models_entry (self, model);
    if (entry)
        return *entry->folder || entry->given || brings_files ? entry : NULL;
    for (const wm_model_entry_t *one = self->first; one; one = one->next)
        n += !*one->folder && !one->given;
    return brings_files && n < LOADED_MAX && wm_repository_is_name (model)
               ? wm_models_add (self, model)
               : NULL;
}

void wm_models_reload (wm_models_t *self, const char *model, const wm_override_t *given,
                       wm_models_done_t *done, void *argument)
{
    wm_ks_error_t failed;
    wm_error_t error = { .text = "" };
    const bool is_given = given && !wm_override_is_empty (given);
    wm_model_entry_t *entry = entry_of (self, model, given);
    wm_model_files_t *files = !entry     ? NULL
                              : is_given ? wm_repository_override (entry, given, &error)
                                         : wm_repository_read (entry, &error);
    if (entry && !is_given)
        snprintf (entry->reason, sizeof entry->reason, "%s", files ? "" : error.text);
    if (!files) {
        if (entry && !is_given)
            fprintf (stderr, "wiremill gateway: model '%s' is not loaded until %s: %s\n", model,
                     wm_models_remedy (entry), error.text);
        wm_ks_fail (&failed, WM_KS_INVALID, "failed to load '%.120s', %.300s", model,
                    entry ? error.text : "failed to poll from model repository");
        if (done)
            done (argument, &failed);
        return;
    }
    wait_for (entry, done, argument, false);
    load (entry, files);
    if (files != entry->given)
        wm_repository_free (&files);
    changed (entry);
}

void wm_models_drop (wm_models_t *self, const char *model, wm_models_done_t *done, void *argument)
{
    wm_model_entry_t *entry = wm_models_entry (self, model);
    wm_ks_error_t failed;
    if (!entry || !entry->version) {
        wm_ks_fail (&failed, WM_KS_NOT_FOUND, "failed to unload '%.120s', model is not loaded",
                    model);
        if (done)
            done (argument, &failed);
        return;
    }
    entry->is_wanted = false;
    wait_for (entry, done, argument, true);
    for (wm_version_t *one = entry->version; one; one = one->next)
        wm_version_unload (one, "");
    sweep (entry, true);
    changed (entry);
}

/* Refuses a client's wish where only the command line or the repository decides.  */
static bool is_refused (const wm_models_t *self, wm_models_done_t *done, void *argument)
{
    static const wm_ks_error_t error = {
        WM_KS_UNAVAILABLE,
        "explicit model load / unload is not allowed if polling is enabled, or models are fixed: "
        "see --model-control-mode"
    };
    if (self->is_fixed)
        done (argument, &error);
    return self->is_fixed;
}

void wm_models_load (wm_models_t *self, const char *model, const wm_override_t *given,
                     wm_models_done_t *done, void *argument)
{
    if (!is_refused (self, done, argument))
        wm_models_reload (self, model, given, done, argument);
}

void wm_models_unload (wm_models_t *self, const char *model, wm_models_done_t *done, void *argument)
{
    if (!is_refused (self, done, argument))
        wm_models_drop (self, model, done, argument);
}

/* ---- all of them ----------------------------------------------------------------------------- */

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
        wm_loaded_sweep (self->state);
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

/* Whether clients load and unload, and which models are loaded at the start.  */
static wm_fault_t take_mode (wm_models_t *self, const wm_args_t *args, wm_error_t *error)
{
    const char *mode = wm_args_text (args, "model-control-mode");
    const bool names = wm_args_given (args, "load-model");
    self->is_fixed = mode && strcmp (mode, "explicit") != 0;
    self->names_some = names || (mode && !self->is_fixed);
    if (mode && strcmp (mode, "poll") == 0)
        self->poll_us = (int64_t) (wm_args_seconds (args, "repository-poll") * 1e6);
    if (self->poll_us && !self->repository)
        return wm_fault (error, WM_EUSAGE,
                         "--model-control-mode poll: give the --model-repository to follow");
    if (names && self->is_fixed)
        return wm_fault (error, WM_EUSAGE,
                         "--load-model: with --model-control-mode %s every model is loaded; give "
                         "explicit",
                         mode);
    return WM_OK;
}

static wm_fault_t take_options (wm_models_t *self, const wm_args_t *args, wm_error_t *error)
{
    self->repository = wm_args_text (args, "model-repository");
    self->engine = wm_args_text (args, "engine");
    self->device = wm_args_text (args, "device");
    if (wm_device_heeds (self->engine ? self->engine : "auto", self->device, NULL, NULL, error))
        return error->fault;
    self->join_file = wm_args_text (args, "join-file");
    self->n_worker =
        wm_args_given (args, "workers") ? (uint32_t) wm_args_number (args, "workers") : 1;
    const uint32_t cpus = (uint32_t) wm_allowance ()->cpus;
    self->n_thread = wm_args_given (args, "threads") ? (uint32_t) wm_args_number (args, "threads")
                     : cpus > self->n_worker         ? cpus / self->n_worker
                                                     : 1;
    if (wm_args_each (args, "bulk", WM_MODELS_BULK_MAX))
        return wm_fault (error, WM_EUSAGE, "--bulk may be given at most %d times",
                         WM_MODELS_BULK_MAX);
    if (wm_args_given (args, "bulk") && !(self->quiet = wm_idle_signal_new ()))
        return wm_fault (error, WM_EHOST, "the kernel gives no descriptor: %s", strerror (errno));
    self->max_delay_us = (int64_t) (wm_args_seconds (args, "max-delay") * 1e6);
    if (take_mode (self, args, error))
        return error->fault;
    self->server_name = wm_args_text (args, "server-name");
    if (!wm_text_is_utf8 (self->server_name, strlen (self->server_name)))
        return wm_fault (error, WM_EUSAGE, "--server-name: give a name in UTF-8");
    self->is_strict = wm_args_given (args, "strict");
    self->in_flight_bytes = (size_t) wm_args_number (args, "in-flight");
    return make_state (self, wm_args_text (args, "state"), error);
}

/* Whether --load-model names it.  */
static bool is_named (const wm_models_t *self, const wm_model_entry_t *entry)
{
    const char *name;
    bool is_it = false;
    for (int i = 0; !is_it && (name = wm_args_each (self->args, "load-model", i)); i++)
        is_it = strcmp (name, "*") == 0 || strcmp (name, entry->name) == 0;
    return is_it;
}

static wm_fault_t check_named (const wm_models_t *self, wm_error_t *error)
{
    const char *name;
    for (int i = 0; (name = wm_args_each (self->args, "load-model", i)); i++)
        if (strcmp (name, "*") != 0 && !wm_models_entry (self, name))
            return wm_fault (error, WM_EUSAGE,
                             "--load-model %.120s: %.300s has no folder of this name", name,
                             self->repository ? self->repository : "without --model-repository it");
    return WM_OK;
}

wm_models_t *wm_models_new (wm_loop_t *loop, const wm_args_t *args, size_t loaded_max,
                            size_t message_max, wm_error_t *error)
{
    wm_models_t *self = zmalloc (sizeof *self);
    self->loop = loop;
    self->args = args;
    self->lock = -1;
    self->loaded.bytes_max = loaded_max;
    self->message_max = message_max;
    self->changed = changed;
    self->ask_again = ask_again;
    if (take_options (self, args, error) || wm_repository_open (self, args, error) ||
        check_named (self, error)) {
        wm_models_destroy (&self);
        return NULL;
    }
    return self;
}

/* The option because of which its workers must have a GPU, and its value. NULL: none is.  */
static const char *needs_gpu (const wm_models_t *self, const char **value)
{
    const bool by_engine = self->engine && wm_device_engine (self->engine)->is_gpu,
               by_device = self->device && (strncmp (self->device, "cuda", 4) == 0 ||
                                            strncmp (self->device, "opencl", 6) == 0);
    bool has_workers = self->repository != NULL;
    for (const wm_model_entry_t *entry = self->first; entry && !has_workers; entry = entry->next)
        has_workers = !entry->broker;
    *value = by_engine ? self->engine : self->device;
    return !has_workers ? NULL : by_engine ? "engine" : by_device ? "device" : NULL;
}

typedef struct {
    const char *option, *value;
} asked_t;

static int ask_driver (const void *asked_)
{
    const asked_t *asked = asked_;
    wm_error_t error = { 0 };
    if (strncmp (asked->value, "opencl", 6) == 0) {
        wm_opencl_info_t info[WM_OPENCL_DEVICES_MAX];
        uint32_t n;
        wm_opencl_list (info, &n, &error);
    } else {
        const wm_driver_t driver = wm_driver_open (WM_DRIVER_LEAST);
        if (driver.state != WM_DRIVER_GOOD)
            wm_fault (&error, WM_EHOST, "%s", driver.why);
    }
    if (error.fault)
        fprintf (stderr,
                 "wiremill gateway: --%s %s cannot run here: %s; --device cpu without --engine "
                 "computes on the CPU\n",
                 asked->option, asked->value, error.text);
    return error.fault ? WM_EXIT_ENGINE : WM_EXIT_OK;
}

/* A driver that crashes or hangs is left to the workers.  */
bool wm_models_lacks_gpu (const wm_models_t *self)
{
    asked_t asked;
    asked.option = needs_gpu (self, &asked.value);
    const int status =
        asked.option ? wm_process_apart ("wm-driver", DRIVER_S, ask_driver, &asked) : 0;
    return WIFEXITED (status) && WEXITSTATUS (status) == WM_EXIT_ENGINE;
}

void wm_models_start (wm_models_t *self)
{
    if (!self->first)
        fprintf (stderr, "wiremill gateway: %s has no models yet\n", self->repository);
    for (wm_model_entry_t *entry = self->first; entry; entry = entry->next) {
        if (self->names_some && !entry->given && !is_named (self, entry))
            continue;
        entry->is_wanted = entry->at_start = true;
        wm_models_reload (self, entry->name, NULL, NULL, NULL);
    }
}

void wm_models_destroy (wm_models_t **self_p)
{
    wm_models_t *self = *self_p;
    if (!self)
        return;
    const int64_t until_ms = wm_now_ms () + STOP_MS;
    self->ends = true;
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
        free (entry);
    }
    wm_loop_untimer (&self->poll);
    wm_idle_signal_destroy (&self->quiet);
    if (self->is_temporary)
        rmdir (self->state);
    if (self->lock >= 0)
        close (self->lock);
    free (self);
    *self_p = NULL;
}
