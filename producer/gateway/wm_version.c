/* wm_version.c - one version of a model: its broker, its workers, its session, its end.

     LOADING    its broker and workers start; its session waits for the broker
     READY      the session told the campaign's facts, the model's ports are read; whatever ends is
                started again, and requests wait meanwhile
     UNLOADING  requests that it has are answered, then its session ends, then its processes
     GONE       nothing runs; its reason is kept until it is loaded again  */
#include "producer/gateway/wm_models_private.h"
#include "kernels/wm_model.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/wm_limits.h"

#include <czmq.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_BATCH "it has no batch dimension" /* the importer's reason, of such a model */
#define TICK_US 20000
#define STOP_US 5000000 /* then what still runs is killed */

/* ---- its end --------------------------------------------------------------------------------- */

static int remove_one (const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void) status, (void) type, (void) place;
    return remove (path), 0;
}

static void remove_folder (const wm_version_t *self)
{
    if (*self->folder)
        nftw (self->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void on_tick (void *argument)
{
    wm_version_t *self = argument;
    const int64_t now_us = wm_loop_now_us (self->entry->models->loop);
    self->timer = NULL;
    if (self->service && wm_respawn_runs (self->service)) {
        if (now_us > self->kill_us)
            wm_respawn_stop (self->service, true);
        self->timer = wm_loop_timer (self->entry->models->loop, now_us + TICK_US, on_tick, self);
        return;
    }
    wm_respawn_destroy (&self->service);
    remove_folder (self);
    self->state = WM_VERSION_GONE;
    wm_models_changed (self->entry);
}

/* Called by the loop alone, not by a call of the link or of a transport.  */
static void end_session (void *argument)
{
    wm_version_t *self = argument;
    wm_loop_t *loop = self->entry->models->loop;
    self->timer = NULL;
    wm_link_destroy (&self->link); /* before what it lends, which the gatherer frees */
    wm_gather_destroy (&self->gather, *self->reason ? self->reason : "the model was unloaded");
    if (self->service)
        wm_respawn_stop (self->service, false);
    self->kill_us = wm_loop_now_us (loop) + STOP_US;
    self->timer = wm_loop_timer (loop, wm_loop_now_us (loop), on_tick, self);
}

void wm_version_tend (wm_version_t *self)
{
    wm_loop_t *loop = self->entry->models->loop;
    if (self->state == WM_VERSION_UNLOADING && !self->timer &&
        (*self->reason || !self->gather || !wm_gather_n_request (self->gather)))
        self->timer = wm_loop_timer (loop, wm_loop_now_us (loop), end_session, self);
}

void wm_version_unload (wm_version_t *self, const char *reason)
{
    if (self->state == WM_VERSION_UNLOADING || self->state == WM_VERSION_GONE)
        return;
    self->state = WM_VERSION_UNLOADING;
    snprintf (self->reason, sizeof self->reason, "%s", reason);
    if (*reason)
        fprintf (stderr, "wiremill gateway: model '%s' version %ld: %s\n", self->entry->name,
                 self->number, reason);
    wm_version_tend (self);
}

/* ---- what its session tells ------------------------------------------------------------------ */

/* ONNX's numbers of types (TensorProto.DataType), as a .wmm has them; 0 is float32.  */
static wm_type_t type_of (uint16_t number)
{
    static const wm_type_t types[] = {
        [0] = WM_TYPE_FP32,    [1] = WM_TYPE_FP32,    [2] = WM_TYPE_UINT8, [3] = WM_TYPE_INT8,
        [4] = WM_TYPE_UINT16,  [5] = WM_TYPE_INT16,   [6] = WM_TYPE_INT32, [7] = WM_TYPE_INT64,
        [8] = WM_TYPES,        [9] = WM_TYPE_BOOL,    [10] = WM_TYPE_FP16, [11] = WM_TYPE_FP64,
        [12] = WM_TYPE_UINT32, [13] = WM_TYPE_UINT64, [14] = WM_TYPES,     [15] = WM_TYPES,
        [16] = WM_TYPE_BF16,
    };
    return number < sizeof types / sizeof *types ? types[number] : WM_TYPES;
}

static wm_fault_t take_ports (wm_version_t *self, const wm_model_t *model, wm_error_t *error)
{
    const uint32_t n_input = wm_model_n_input (model), n_output = wm_model_n_output_port (model);
    self->signature = (wm_signature_t){ .is_whole = strstr (wm_model_why (model), NO_BATCH) };
    for (uint32_t i = 0; i < n_input + n_output; i++) {
        const wm_port_t *port =
            i < n_input ? wm_model_input (model, i) : wm_model_output (model, i - n_input);
        if (type_of (port->type) == WM_TYPES)
            return wm_fault (error, WM_EBATCH,
                             "'%s' has a type of values that clients cannot send (ONNX's %u)",
                             port->name, port->type);
        wm_signature_add (&self->signature, i >= n_input, port->name, type_of (port->type),
                          port->n_dim, port->dim);
    }
    return WM_OK;
}

static void on_ready (void *argument, const wm_library_facts_t *facts)
{
    wm_version_t *self = argument;
    const wm_models_t *models = self->entry->models;
    wm_error_t error;
    char path[PATH_MAX + 96];
    if (self->state != WM_VERSION_LOADING)
        return;
    snprintf (path, sizeof path, "%s", self->wmm);
    if (!*path)
        snprintf (path, sizeof path, "%s/c/models/%.64s.wmm", self->folder, facts->model);
    wm_model_t *model = wm_model_open (path, &error);
    if (!model) {
        wm_version_unload (self, error.text);
        return;
    }
    const wm_fault_t fault = take_ports (self, model, &error);
    const bool is_same = strcmp (wm_model_sha256 (model), facts->model) == 0;
    wm_model_destroy (&model);
    if (fault)
        wm_version_unload (self, error.text);
    else if (!is_same || self->signature.n_value != facts->n_value ||
             self->signature.n_score != facts->n_output)
        wm_version_unload (self, "its broker serves another model than this file");
    else if (wm_config_check (self->entry->config, &self->signature, &error))
        wm_version_unload (self, error.text);
    if (self->state != WM_VERSION_LOADING)
        return;
    const wm_gather_how_t how = { .model = self->entry->name,
                                  .version = self->text,
                                  .signature = &self->signature,
                                  .max_delay_us = models->max_delay_us,
                                  .in_flight_bytes = models->in_flight_bytes,
                                  .default_priority = 100 };
    self->gather = wm_gather_new (models->loop, self->link, &how);
    self->state = WM_VERSION_READY;
    wm_models_changed (self->entry);
}

static void on_answered (void *argument, wm_link_batch_t *batch, const uint8_t *status,
                         const uint8_t *score, const char *text)
{
    wm_version_t *self = argument;
    wm_gather_answered (self->gather, batch, status, score, text);
    wm_version_tend (self);
}

static void on_waits (void *argument, const char *text)
{
    wm_version_t *self = argument;
    if (*text && !*self->waits)
        fprintf (stderr, "wiremill gateway: model '%s' version %ld waits: %s\n", self->entry->name,
                 self->number, text);
    snprintf (self->waits, sizeof self->waits, "%s", text);
}

static void on_failed (void *argument, wm_fault_t fault, const char *text)
{
    (void) fault;
    wm_version_unload (argument, text);
}

/* ---- its beginning --------------------------------------------------------------------------- */

static void begin (wm_version_t *self);
static void import (wm_version_t *self);

/* A model that the importer refuses for its batch dimension may have none.  */
static bool try_whole (wm_version_t *self, const char *reason)
{
    if (self->is_whole || self->state != WM_VERSION_LOADING ||
        !(strstr (reason, "--whole") || strstr (reason, "no batch dimension")))
        return false;
    self->is_whole = true;
    wm_respawn_destroy (&self->service);
    import (self);
    return true;
}

static void on_crew_ended (void *argument, const char *reason)
{
    wm_version_t *self = argument;
    if (!try_whole (self, reason))
        wm_version_unload (self, reason);
}

static void on_imported (void *argument, const char *reason)
{
    wm_version_t *self = argument;
    if (reason && try_whole (self, reason))
        return;
    if (reason) {
        wm_version_unload (self, reason);
        return;
    }
    wm_respawn_destroy (&self->service);
    snprintf (self->wmm, sizeof self->wmm, "%.4000s/model.wmm", self->folder);
    begin (self);
}

static void import (wm_version_t *self)
{
    char made[PATH_MAX + 16], log[PATH_MAX + 16];
    snprintf (made, sizeof made, "%s/model.wmm", self->folder);
    snprintf (log, sizeof log, "%s/log", self->folder);
    const char *const argv[] = { "wiremill", "import",   "--output",
                                 made,       self->file, self->is_whole ? "--whole" : NULL,
                                 NULL };
    self->service =
        wm_respawn_once (self->entry->models->loop, "the import", argv, log, on_imported, self);
}

/* Broker and workers are one command, which keeps them alive.  */
static void start_crew (wm_version_t *self)
{
    const wm_models_t *models = self->entry->models;
    char campaign[PATH_MAX + 8], log[PATH_MAX + 16], what[192], workers[16], threads[16];
    const char *model = *self->wmm ? self->wmm : self->file;
    const char *argv[24] = { "wiremill",   "run",    "--clients", "--quiet", "--model",   model,
                             "--campaign", campaign, "--workers", workers,   "--threads", threads };
    uint32_t n = 12;
    snprintf (campaign, sizeof campaign, "%s/c", self->folder);
    snprintf (log, sizeof log, "%s/log", self->folder);
    snprintf (what, sizeof what, "the broker of '%.127s' version %ld", self->entry->name,
              self->number);
    snprintf (workers, sizeof workers, "%u", models->n_worker);
    snprintf (threads, sizeof threads, "%u", models->n_thread);
    if (models->engine) {
        argv[n++] = "--engine";
        argv[n++] = models->engine;
    }
    if (models->device) {
        argv[n++] = "--device";
        argv[n++] = models->device;
    }
    self->service = wm_respawn_new (models->loop, what, argv, log, on_crew_ended, self);
}

/* Starts what the version still lacks. A farm's broker has the model already; the gateway needs the
   names of its inputs and outputs.  */
static void begin (wm_version_t *self)
{
    static const wm_link_calls_t calls = { on_ready, on_answered, on_waits, on_failed };
    const wm_models_t *models = self->entry->models;
    if (self->entry->broker && !*self->wmm) {
        import (self);
        return;
    }
    if (!self->entry->broker)
        start_crew (self);
    if (!self->link)
        self->link = wm_link_new (models->loop, self->endpoint, models->join_file, &calls, self);
}

wm_version_t *wm_version_new (wm_model_entry_t *entry, long number, const char *file)
{
    wm_models_t *models = entry->models;
    wm_error_t error;
    wm_version_t *self = zmalloc (sizeof *self);
    self->entry = entry;
    self->number = number;
    snprintf (self->text, sizeof self->text, "%ld", number);
    snprintf (self->file, sizeof self->file, "%s", file);
    wm_file_stamp (file, self->stamp);
    const char *dot = strrchr (file, '.');
    if (dot && strcmp (dot, ".wmm") == 0)
        strcpy (self->wmm, self->file);
    snprintf (self->folder, sizeof self->folder, "%.4000s/%u", models->state, models->n_folder++);
    if (entry->broker)
        snprintf (self->endpoint, sizeof self->endpoint, "%s", entry->broker);
    else
        snprintf (self->endpoint, sizeof self->endpoint, "ipc://%.4000s/c/broker", self->folder);
    if (wm_folder_make (self->folder, 0700, &error)) {
        *self->folder = 0;
        wm_version_unload (self, error.text);
        return self;
    }
    begin (self);
    return self;
}

void wm_version_destroy (wm_version_t **self_p, int64_t ms)
{
    wm_version_t *self = *self_p;
    if (!self)
        return;
    wm_loop_untimer (&self->timer);
    wm_link_destroy (&self->link);
    wm_gather_destroy (&self->gather, "the gateway ends");
    if (self->service) {
        wm_respawn_stop (self->service, false);
        wm_respawn_await (self->service, ms);
        wm_respawn_destroy (&self->service);
    }
    remove_folder (self);
    free (self);
    *self_p = NULL;
}
