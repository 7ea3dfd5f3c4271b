/* wm_version.c - one version of a model: its broker, its workers, its session, its end.

     LOADING    its broker and workers start; its session waits for the broker
     READY      the session has the campaign's facts, the model's ports are read, a worker can
                score (a farm's may come later); whatever ends is started again, and requests wait
                meanwhile. What keeps ending for a reason that may pass is started again more and
                more slowly, and is reported as not ready, as is a session that its broker refuses
                again and again. Requests wait for DOWN_US; then, and at once where no engine can
                score, the version is down: until it works they are answered with the reason
     UNLOADING  requests that it has are answered, then its session ends, then its processes; where
                it fails, they go to a version that is ready
     GONE       nothing runs; its reason is kept until it is loaded again  */
#include "kernels/model/wm_model.h"
#include "producer/serving/wm_models_private.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"

#include <czmq.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_BATCH "it has no batch dimension" /* the importer's reason, of such a model */
#define WAITS_FOR_ROOM "broker: disk full"   /* logged by one that does not serve yet */
#define CAN_SCORE "a worker can score"
#define ROW_BYTES "row_bytes"          /* a parameter of config.pbtxt */
#define HEAD_BYTES ((size_t) 64 << 10) /* of a message, beside its values */
#define TICK_US 20000
#define PROOF_US 20000000       /* a crew that failed and then runs for so long works */
#define FOLDER_PAUSE_US 5000000 /* between tries to make its folder */
#define DOWN_US 30000000        /* requests wait so long for what fails */
#define REFUSALS 3u             /* of its broker in a row, before people learn of it */
#define STOP_US 5000000         /* then what still runs is killed */

/* ---- its end --------------------------------------------------------------------------------- */

/* Whether another version has its number, and is ready.  */
static bool is_replaced (const wm_version_t *self)
{
    const wm_version_t *shown = wm_models_shown (self->entry, self->number);
    return shown && shown != self && shown->state == WM_VERSION_READY;
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
    wm_folder_remove (self->folder);
    wm_loaded_drop (&self->loaded);
    self->state = WM_VERSION_GONE;
    if (!*self->reason)
        fprintf (stderr, "wiremill gateway: model '%s' version %ld%s is unloaded\n",
                 self->entry->name, self->number, is_replaced (self) ? ", as it was before," : "");
    self->entry->models->changed (self->entry);
}

/* What it could not answer.  */
static void on_left (void *argument, wm_ks_request_t *request)
{
    const wm_version_t *self = argument;
    wm_ks_error_t error;
    wm_ks_fail (&error, WM_KS_UNAVAILABLE,
                "Request for unknown model: '%.120s' version %s is not at ready state: %s",
                self->entry->name, self->text,
                *self->reason  ? self->reason
                : *self->fails ? self->fails
                               : "the model was unloaded");
    self->entry->models->ask_again (self->entry->models, request, error.text);
}

/* Called by the loop alone, not by a call of the link or of a transport.  */
static void end_session (void *argument)
{
    wm_version_t *self = argument;
    wm_loop_t *loop = self->entry->models->loop;
    self->timer = NULL;
    if (self->gather && wm_gather_leave (self->gather, on_left, self))
        return; /* answers are made of scores that are there: on_empty comes when they are sent */
    wm_link_destroy (&self->link); /* before what it lends, which the gatherer frees */
    wm_gather_destroy (&self->gather, on_left, self);
    wm_region_destroy (&self->region);
    if (self->service)
        wm_respawn_stop (self->service, false);
    self->kill_us = wm_loop_now_us (loop) + STOP_US;
    self->timer = wm_loop_timer (loop, wm_loop_now_us (loop), on_tick, self);
}

/* Of one that is down. What it cannot answer, no version that is being loaded will.  */
static void leave (void *argument)
{
    wm_version_t *self = argument;
    self->timer = NULL;
    if (self->is_down && self->state == WM_VERSION_READY && !wm_models_is_loading (self->entry))
        wm_gather_leave (self->gather, on_left, self);
    wm_version_update (self); /* it may be unloaded by now */
}

void wm_version_update (wm_version_t *self)
{
    wm_loop_t *loop = self->entry->models->loop;
    const bool is_empty = !self->gather || !wm_gather_n_request (self->gather);
    const bool is_stuck = *self->reason || *self->fails;
    const bool may_leave = is_stuck && !wm_models_is_loading (self->entry);
    if (self->timer)
        return;
    if (self->state == WM_VERSION_UNLOADING && (is_empty || may_leave))
        self->timer = wm_loop_timer (loop, wm_loop_now_us (loop), end_session, self);
    else if (self->state == WM_VERSION_READY && self->is_down && may_leave &&
             wm_gather_is_asked (self->gather))
        self->timer = wm_loop_timer (loop, wm_loop_now_us (loop), leave, self);
}

void wm_version_unload (wm_version_t *self, const char *reason)
{
    if (self->state == WM_VERSION_UNLOADING && *reason) {
        snprintf (self->fails, sizeof self->fails, "%s", reason);
        wm_version_update (self);
    }
    if (self->state == WM_VERSION_UNLOADING || self->state == WM_VERSION_GONE)
        return;
    self->state = WM_VERSION_UNLOADING;
    self->is_tried = false;
    wm_loop_untimer (&self->proof);
    wm_loop_untimer (&self->begins);
    wm_loop_untimer (&self->down);
    snprintf (self->reason, sizeof self->reason, "%s", reason);
    if (*reason) {
        *self->fails = 0;
        fprintf (stderr, "wiremill gateway: model '%s' version %ld is %s until %s: %s\n",
                 self->entry->name, self->number,
                 is_replaced (self) ? "served as it was before" : "not served",
                 wm_models_remedy (self->entry), reason);
    }
    wm_version_update (self);
}

/* ---- bulk campaigns wait for its clients ----------------------------------------------------- */

/* Requests do not count while their version fails, or is a farm's: bulk campaigns go on.  */
static void count_busy (void *argument)
{
    wm_version_t *self = argument;
    const bool is_busy =
        self->gather && wm_gather_n_request (self->gather) && !*self->fails && !self->entry->broker;
    if (is_busy != self->is_busy)
        wm_idle_signal_count (self->entry->models->quiet, is_busy);
    self->is_busy = is_busy;
}

/* ---- failures that may pass ------------------------------------------------------------------ */

/* No request waits for it any more (wm_version_update).  */
static void on_down (void *argument)
{
    wm_version_t *self = argument;
    self->down = NULL;
    self->is_down = true;
    self->entry->models->changed (self->entry);
}

static void fails (wm_version_t *self, const char *reason)
{
    if (!*self->fails)
        fprintf (stderr,
                 "wiremill gateway: model '%s' version %ld is not ready, and is tried again: %s\n",
                 self->entry->name, self->number, reason);
    snprintf (self->fails, sizeof self->fails, "%s", reason);
    wm_loop_untimer (&self->proof);
    self->is_tried = self->is_hurried = self->has_ended = false;
    count_busy (self);
    wm_loop_t *loop = self->entry->models->loop;
    if (!self->down && !self->is_down && self->state == WM_VERSION_READY)
        self->down = wm_loop_timer (loop, wm_loop_now_us (loop) + DOWN_US, on_down, self);
    self->entry->models->changed (self->entry);
}

/* Its broker serves again, or its workers too.  */
static void recovers (wm_version_t *self)
{
    const bool was_tried = self->is_tried;
    wm_loop_untimer (&self->proof);
    wm_loop_untimer (&self->down);
    if (*self->fails)
        fprintf (stderr, "wiremill gateway: model '%s' version %ld works again\n",
                 self->entry->name, self->number);
    *self->fails = 0;
    self->is_tried = self->is_hurried = self->has_ended = self->is_down = false;
    count_busy (self);
    if (was_tried)
        self->entry->models->changed (self->entry);
}

static void works (wm_version_t *self)
{
    if (self->service)
        wm_respawn_works (self->service);
    recovers (self);
}

static void on_proof (void *argument)
{
    wm_version_t *self = argument;
    self->proof = NULL;
    works (self);
}

static void begin_at (wm_version_t *self, int64_t at_us);

static bool begin_now (wm_version_t *self)
{
    if (!self->begins)
        return false;
    begin_at (self, wm_loop_now_us (self->entry->models->loop));
    return true;
}

void wm_version_hurry (wm_version_t *self)
{
    if (self->service ? wm_respawn_now (self->service) : begin_now (self))
        self->is_tried = *self->fails;
    else if (self->has_ended && !self->is_tried)
        self->is_tried = self->is_hurried = true; /* what failed runs again already */
}

/* ---- events of its session ------------------------------------------------------------------- */

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
    self->signature =
        (wm_signature_t){ .is_whole = strstr (wm_model_why (model), NO_BATCH),
                          .takes_infinite = wm_model_kind (model) == WM_MODEL_GENERAL };
    for (uint32_t i = 0; i < n_input + n_output; i++) {
        const wm_port_t *port =
            i < n_input ? wm_model_input (model, i) : wm_model_output (model, i - n_input);
        if (type_of (port->type) == WM_TYPES)
            return wm_fault (error, WM_EBATCH,
                             "'%s' has a type of values that clients cannot send (ONNX's %u)",
                             port->name, port->type);
        wm_signature_add (&self->signature, i >= n_input, port->name, type_of (port->type),
                          port->n_dim, port->dim);
        if (port->is_exact)
            wm_signature_carry (&self->signature, i >= n_input, port->type);
    }
    if (self->signature.is_ragged) {
        self->signature.n_value = wm_model_n_value (model);
        self->signature.n_score = wm_model_n_output (model);
    }
    return WM_OK;
}

/* Refuses a model of which no client could send a row, or get its answer.  */
static wm_fault_t check_row (const wm_version_t *self, wm_error_t *error)
{
    const wm_signature_t *signature = &self->signature;
    const size_t most = self->entry->models->message_max;
    size_t bytes[2] = { 0, 0 }; /* of its inputs, of its largest output */
    for (uint32_t p = 0; p < signature->n_input; p++)
        bytes[0] += signature->input[p].n_value * wm_type_bytes (signature->input[p].type);
    for (uint32_t p = 0; p < signature->n_output; p++) { /* a request may ask for one */
        const size_t one = signature->output[p].n_value * wm_type_bytes (signature->output[p].type);
        bytes[1] = one > bytes[1] ? one : bytes[1];
    }
    const size_t row = bytes[0] > bytes[1] ? bytes[0] : bytes[1];
    return row < most
               ? WM_OK
               : wm_fault (error, WM_EBATCH,
                           "one row has %zu bytes of inputs and %zu of its largest output, and "
                           "a message at most %zu: give --max-message %zu and --memory %zu, "
                           "or more",
                           bytes[0], bytes[1], most, row + HEAD_BYTES, 2 * (row + HEAD_BYTES));
}

/* Reads the labels of outputs that have some.  */
static wm_fault_t take_labels (wm_version_t *self, wm_error_t *error)
{
    for (uint32_t p = 0; p < self->signature.n_output; p++) {
        wm_signature_port_t *port = &self->signature.output[p];
        const char *path =
            wm_repository_labels (wm_config_port (self->config, "output", port->name));
        if (path && !self->labels[p] && !(self->labels[p] = wm_labels_read (path, error)))
            return error->fault;
        port->labels = self->labels[p];
    }
    return WM_OK;
}

/* The gatherer has no request any more.  */
static void on_empty (void *argument)
{
    wm_version_update (argument);
}

static void print_ports (const wm_signature_t *signature, const wm_signature_port_t *port,
                         uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const char *comma = "";
        fprintf (stderr, "%s %s %s [", i ? "," : "", wm_type_name (port[i].type), port[i].name);
        if (!signature->is_whole) {
            fputs ("-1", stderr);
            comma = ",";
        }
        for (uint32_t k = 0; k < port[i].n_dim; k++, comma = ",")
            fprintf (stderr, "%s%lld", comma, (long long) port[i].dim[k]);
        fputc (']', stderr);
    }
}

/* One line: what clients send and get, its engine, how long it took to load.  */
static void report_ready (const wm_version_t *self)
{
    const wm_models_t *models = self->entry->models;
    const double seconds = (double) (wm_loop_now_us (models->loop) - self->begun_us) / 1e6;
    fprintf (stderr, "wiremill gateway: model '%s' version %ld is ready after %.1f s: takes",
             self->entry->name, self->number, seconds);
    print_ports (&self->signature, self->signature.input, self->signature.n_input);
    fputs ("; returns", stderr);
    print_ports (&self->signature, self->signature.output, self->signature.n_output);
    if (self->entry->broker)
        fprintf (stderr, "; scored by the workers of %s\n", self->endpoint);
    else
        fprintf (stderr, "; engine %s, %u x %u threads\n", models->engine ? models->engine : "auto",
                 models->n_worker, models->n_thread);
}

/* Its session has the facts, and a worker can score.  */
static void become_ready (wm_version_t *self)
{
    const wm_models_t *models = self->entry->models;
    const wm_gather_how_t how = { .model = self->entry->name,
                                  .version = self->text,
                                  .signature = &self->signature,
                                  .max_delay_us = models->max_delay_us,
                                  .batching = wm_config_batching (self->config),
                                  .in_flight_bytes = models->in_flight_bytes,
                                  .region = self->region,
                                  .default_priority = 100,
                                  .is_strict = models->is_strict,
                                  .is_empty = on_empty,
                                  .turns = count_busy,
                                  .argument = self };
    self->gather = wm_gather_new (models->loop, self->link, &how);
    self->state = WM_VERSION_READY;
    self->entry->models->has_served = true;
    report_ready (self);
    recovers (self);
    self->entry->models->changed (self->entry);
}

static void on_ready (void *argument, const wm_library_facts_t *facts)
{
    wm_version_t *self = argument;
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
             self->signature.n_score != facts->n_output ||
             self->signature.is_ragged != (facts->is_ragged != 0))
        wm_version_unload (self, "its broker serves another model than this file");
    else if (check_row (self, &error) || wm_config_check (self->config, &self->signature, &error) ||
             take_labels (self, &error))
        wm_version_unload (self, error.text);
    if (self->state != WM_VERSION_LOADING)
        return;
    self->has_ports = true;
    if (self->can_score)
        become_ready (self);
}

static void on_answered (void *argument, wm_link_batch_t *batch, const uint8_t *status,
                         const uint8_t *score, const char *text)
{
    wm_version_t *self = argument;
    works (self);
    wm_gather_answered (self->gather, batch, status, score, text);
    wm_version_update (self);
}

static void on_waits (void *argument, const char *text)
{
    wm_version_t *self = argument;
    if (*text && !*self->waits)
        fprintf (stderr, "wiremill gateway: model '%s' version %ld waits: %s\n", self->entry->name,
                 self->number, text);
    if (!*text && *self->waits && self->state == WM_VERSION_READY)
        fprintf (stderr, "wiremill gateway: model '%s' version %ld goes on\n", self->entry->name,
                 self->number);
    wm_loop_t *loop = self->entry->models->loop;
    if (!*text && strstr (self->fails, WAITS_FOR_ROOM))
        recovers (self);
    else if (!*text && *self->fails && !self->proof && !(self->is_down && self->service))
        self->proof = wm_loop_timer (loop, wm_loop_now_us (loop) + PROOF_US, on_proof, self);
    snprintf (self->waits, sizeof self->waits, "%s", text);
}

static void on_refused (void *argument, const char *text, unsigned n)
{
    wm_version_t *self = argument;
    if (n < REFUSALS || self->state != WM_VERSION_READY)
        on_waits (self, text);
    else
        fails (self, text);
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

/* A load that came while it ran is answered by one more try: this one may have begun before
   whatever was wrong was mended.  */
static void try_for_load (wm_version_t *self, bool is_over)
{
    self->is_hurried = false;
    if (!is_over) {
        wm_respawn_now (self->service);
        return;
    }
    wm_respawn_destroy (&self->service);
    begin (self);
}

static void on_crew_ended (void *argument, const char *reason, bool is_over)
{
    wm_version_t *self = argument;
    if (self->is_hurried) {
        try_for_load (self, is_over);
        return;
    }
    self->is_down |= !is_over && wm_respawn_lacks_engine (self->service);
    if (!is_over) {
        fails (self, reason);
        self->has_ended = true;
    } else if (!try_whole (self, reason))
        wm_version_unload (self, reason);
}

/* `run` shows what a broker logs until it serves, and when a worker has passed its self-test.  */
static void on_crew_says (void *argument, const char *line)
{
    wm_version_t *self = argument;
    if (strstr (line, WAITS_FOR_ROOM))
        fails (self, line);
    if (!strstr (line, CAN_SCORE))
        return;
    self->can_score = true;
    if (self->state == WM_VERSION_LOADING && self->has_ports)
        become_ready (self);
    else if (self->state == WM_VERSION_READY)
        recovers (self);
}

static void on_imported (void *argument, const char *reason, bool is_over)
{
    wm_version_t *self = argument;
    if (reason) {
        on_crew_ended (self, reason, is_over);
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
    const char *row_bytes = wm_config_parameter (self->config, ROW_BYTES);
    const char *argv[10] = { "wiremill", "import", "--output", made, self->file };
    uint32_t n = 5;
    if (row_bytes) {
        argv[n++] = "--row-bytes";
        argv[n++] = row_bytes;
    }
    if (self->is_whole)
        argv[n++] = "--whole";
    if (!self->entry->broker) /* a farm's rows are float32 where it was given the same file */
        argv[n] = "--exact-types";
    self->service =
        wm_respawn_once (self->entry->models->loop, "the import", argv, log, on_imported, self);
}

/* Adds --bulk of the gateway, and the keys of those brokers. Returns the number of words.  */
static uint32_t add_bulk (const wm_models_t *models, const char *argv[], uint32_t n)
{
    const wm_args_t *args = models->args;
    static const char *const names[][2] = { { "bulk", "--bulk" }, { "join-file", "--join-file" } };
    const char *value;
    if (!wm_args_given (args, "bulk"))
        return n;
    argv[n++] = "--bulk-share";
    argv[n++] = wm_args_text (args, "bulk-share");
    argv[n++] = "--bulk-when";
    argv[n++] = wm_idle_signal_path (models->quiet);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < WM_MODELS_BULK_MAX && (value = wm_args_each (args, names[k][0], i));
             i++) {
            argv[n++] = names[k][1];
            argv[n++] = value;
        }
    return n;
}

/* Broker and workers are one command, which keeps them alive.  */
static void start_crew (wm_version_t *self)
{
    const wm_models_t *models = self->entry->models;
    char campaign[PATH_MAX + 8], log[PATH_MAX + 16], what[192], workers[16], threads[16];
    const char *model = *self->wmm ? self->wmm : self->file;
    const char *argv[WM_RESPAWN_WORDS_MAX + 1] = { "wiremill",     "run",   "--clients",  "--quiet",
                                                   "--model",      model,   "--campaign", campaign,
                                                   "--workers",    workers, "--threads",  threads,
                                                   "--exact-types" };
    uint32_t n = 13;
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
    argv[add_bulk (models, argv, n)] = NULL;
    self->service =
        wm_respawn_new (models->loop, what, argv, log, on_crew_ended, on_crew_says, self);
}

/* Starts what the version still lacks. A farm's broker has the model already; the gateway needs the
   names of its inputs and outputs.  */
static void begin (wm_version_t *self)
{
    static const wm_link_calls_t calls = { on_ready, on_answered, on_waits, on_refused, on_failed };
    const wm_models_t *models = self->entry->models;
    const bool is_ours =
        self->entry->broker || self->is_whole || wm_config_parameter (self->config, ROW_BYTES);
    if (is_ours && !*self->wmm) {
        import (self);
        return;
    }
    if (!self->entry->broker)
        start_crew (self);
    if (self->link)
        return;
    if (self->entry->broker)
        fprintf (stderr, "wiremill gateway: model '%s' version %ld: connects to the broker at %s\n",
                 self->entry->name, self->number, self->endpoint);
    self->region = wm_region_new (models->in_flight_bytes);
    self->link =
        wm_link_new (models->loop, self->endpoint, models->join_file, self->region, &calls, self);
}

/* Its folder could not be made: the disk was full, or it may not be written.  */
static void on_begins (void *argument)
{
    wm_version_t *self = argument;
    wm_error_t error;
    self->begins = NULL;
    if (!wm_folder_make (self->folder, 0700, &error)) {
        begin (self);
        return;
    }
    begin_at (self, wm_loop_now_us (self->entry->models->loop) + FOLDER_PAUSE_US);
    fails (self, error.text);
}

static void begin_at (wm_version_t *self, int64_t at_us)
{
    wm_loop_untimer (&self->begins);
    self->begins = wm_loop_timer (self->entry->models->loop, at_us, on_begins, self);
}

wm_version_t *wm_version_new (wm_model_entry_t *entry, const wm_model_files_t *files, uint32_t i)
{
    wm_models_t *models = entry->models;
    const char *file = files->file[i];
    wm_version_t *self = zmalloc (sizeof *self);
    self->entry = entry;
    self->number = files->number[i];
    self->config = json_incref (files->config);
    self->loaded = wm_loaded_use (files->loaded);
    self->begun_us = wm_loop_now_us (models->loop);
    snprintf (self->text, sizeof self->text, "%ld", self->number);
    snprintf (self->file, sizeof self->file, "%s", file);
    wm_file_stamp (file, self->stamp);
    const char *dot = strrchr (file, '.');
    if (dot && strcmp (dot, ".wmm") == 0)
        strcpy (self->wmm, self->file);
    snprintf (self->folder, sizeof self->folder, "%.4000s/%u", models->state, models->n_folder++);
    self->is_whole = wm_config_is_whole (files->config);
    self->can_score = entry->broker != NULL;
    if (entry->broker)
        snprintf (self->endpoint, sizeof self->endpoint, "%s", entry->broker);
    else
        snprintf (self->endpoint, sizeof self->endpoint, "ipc://%.4000s/c/broker", self->folder);
    if (wm_folder_make (self->folder, 0700, NULL))
        begin_at (self, wm_loop_now_us (models->loop)); /* the model has it then */
    else
        begin (self);
    return self;
}

void wm_version_destroy (wm_version_t **self_p, int64_t ms)
{
    wm_version_t *self = *self_p;
    if (!self)
        return;
    wm_loop_untimer (&self->timer);
    wm_loop_untimer (&self->proof);
    wm_loop_untimer (&self->begins);
    wm_loop_untimer (&self->down);
    wm_link_destroy (&self->link);
    wm_gather_destroy (&self->gather, on_left, self);
    wm_region_destroy (&self->region);
    if (self->service) {
        wm_respawn_stop (self->service, false);
        wm_respawn_await (self->service, ms);
        wm_respawn_destroy (&self->service);
    }
    wm_folder_remove (self->folder);
    wm_loaded_drop (&self->loaded);
    for (uint32_t p = 0; p < WM_SIGNATURE_PORTS_MAX; p++)
        wm_labels_destroy (&self->labels[p]);
    json_decref (self->config);
    free (self);
    *self_p = NULL;
}
