/* wm_grpc_method.c - inference.GRPCInferenceService, a row a method; which method a path names.

   Those that answer with JSON at once are a function and two tables. Inference, and loading and
   unloading of models, answer when the models do.  */
#include "producer/gateway/wm_grpc_private.h"
#include "producer/gateway/wm_service.h"
#include "producer/serving/wm_override.h"
#include "producer/serving/wm_settings.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static wm_front_t *front_of (const wm_item_t *item)
{
    return item->call->conn->grpc->front;
}

static void begin_answer (wm_item_t *item)
{
    wm_buffer_room (&item->out, WM_CALL_HEAD_BYTES + 64);
    item->out.bytes = WM_CALL_HEAD_BYTES;
}

/* ---- methods that answer with JSON ----------------------------------------------------------- */

static const char *text_of (const json_t *request, const char *name)
{
    const char *text = json_string_value (json_object_get (request, name));
    return text ? text : "";
}

static json_t *live (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    (void) front, (void) request, (void) error;
    return json_pack ("{s:b}", "live", 1);
}

static json_t *ready (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    (void) request, (void) error;
    return json_pack ("{s:b}", "ready", wm_models_ready (front->models, NULL));
}

/* A model that is not there is not ready, which is no error.  */
static json_t *model_ready (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    return json_pack ("{s:b}", "ready",
                      wm_models_model_ready (front->models, text_of (request, "name"),
                                             text_of (request, "version"), error));
}

static json_t *server (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    (void) request, (void) error;
    return wm_models_server_metadata (front->models);
}

static json_t *metadata (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    return wm_models_metadata (front->models, text_of (request, "name"),
                               text_of (request, "version"), error);
}

static json_t *config (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    json_t *json = wm_models_config (front->models, text_of (request, "name"),
                                     text_of (request, "version"), error);
    return json ? json_pack ("{s:o}", "config", json) : NULL;
}

static json_t *statistics (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    return wm_models_statistics (front->models, text_of (request, "name"),
                                 text_of (request, "version"), error);
}

static json_t *repository_index (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    (void) error;
    json_t *json = wm_models_index (front->models,
                                    json_integer_value (json_object_get (request, "ready")) != 0);
    return json_pack ("{s:o}", "models", json);
}

static void note_model (wm_item_t *item, const char *model)
{
    snprintf (item->call->model, sizeof item->call->model, "%s", model);
}

json_t *wm_method_request (wm_item_t *item)
{
    json_t *request = wm_proto_json (item->call->method->request, item->body, item->bytes);
    if (!request)
        wm_call_finish (item->call, WM_KS_INVALID, "the request is no message of this method");
    return request;
}

void wm_method_json (wm_item_t *item)
{
    const wm_method_t *method = item->call->method;
    wm_ks_error_t error = { WM_KS_INTERNAL, "" };
    json_t *request = wm_method_request (item);
    if (!request)
        return;
    note_model (item, text_of (request, "name"));
    json_t *json = method->answer (front_of (item), request, &error);
    json_decref (request);
    if (!json) {
        wm_call_fail (item, &error);
        return;
    }
    begin_answer (item);
    wm_proto_put_json (&item->out, method->response, json);
    json_decref (json);
    wm_call_answer (item);
}

/* ---- inference ------------------------------------------------------------------------------- */

/* Answers one message of ModelInfer or ModelStreamInfer by an error.  */
static void fail_infer (wm_item_t *item, const wm_ks_error_t *error)
{
    if (!item->call->method->is_stream) {
        wm_call_fail (item, error);
        return;
    }
    wm_buffer_t response = { 0 };
    const wm_ks_request_t *request = &item->infer.request;
    wm_proto_put_text (&response, 1, request->model);
    wm_proto_put_text (&response, 2, request->version);
    wm_proto_put_text (&response, 3, request->id);
    begin_answer (item);
    wm_proto_put_text (&item->out, 1, *error->text ? error->text : "the request failed");
    wm_proto_put_bytes (&item->out, 2, response.data, response.bytes);
    free (response.data);
    wm_call_answer (item);
}

/* Entry of a response's parameters in a stream, {"triton_final_response": {bool_param: true}}: some
   clients wait for it.  */
static const char final_response[] = "\x0a\x15triton_final_response\x12\x02\x08\x01";

static void on_reply (wm_infer_t *infer, const wm_ks_answer_t *answer)
{
    wm_item_t *item = infer->owner;
    wm_buffer_t response = { 0 };
    wm_ks_error_t error;
    item->is_pending = false;
    if (answer->code) {
        wm_ks_fail (&error, answer->code, "%s", answer->text ? answer->text : "no reason is known");
        fail_infer (item, &error);
        return;
    }
    begin_answer (item);
    item->n_piece = answer->n_output;
    item->piece = calloc (item->n_piece + 1, sizeof *item->piece);
    assert (item->piece);
    if (!item->call->method->is_stream) {
        wm_infer_encode (&item->out, infer, answer, item->piece);
    } else {
        wm_proto_put_bytes (&response, 4, final_response, sizeof final_response - 1);
        const size_t values = wm_infer_encode (&response, infer, answer, item->piece);
        wm_proto_put_head (&item->out, 2, response.bytes + values);
        for (uint32_t i = 0; i < item->n_piece; i++)
            item->piece[i].before += item->out.bytes;
        wm_buffer_put (&item->out, response.data, response.bytes);
        free (response.data);
    }
    wm_call_answer (item);
}

static void cancel (wm_item_t *item)
{
    if (item->changes)
        *item->changes = NULL;
    item->changes = NULL;
    if (!item->is_pending)
        return;
    item->is_pending = false;
    wm_models_cancel (front_of (item)->models, &item->infer.request);
}

static void on_timeout (void *argument)
{
    wm_item_t *item = argument;
    const wm_ks_error_t error = WM_KS_EXPIRED;
    item->timer = NULL;
    wm_slice_end (&item->slice);
    cancel (item);
    fail_infer (item, &error);
}

/* Reads values in `contents` and in shared memory, and gives the request to the models when it has
   them all.  */
static bool read_values (void *argument, size_t *left)
{
    wm_item_t *item = argument;
    wm_ks_error_t error;
    if (wm_infer_values (&item->infer, left, &error))
        return true;
    if (error.code) {
        fail_infer (item, &error);
        return false;
    }
    item->is_pending = true;
    wm_models_infer (front_of (item)->models, &item->infer.request);
    return false;
}

/* The memory for values and for scores is there.  */
static void begin_infer (void *argument)
{
    wm_item_t *item = argument;
    size_t none = 0;
    if (item->infer.values_bytes)
        wm_slice_begin (front_of (item)->slices, &item->slice, read_values, item);
    else
        read_values (item, &none);
}

static void take_infer (wm_item_t *item)
{
    wm_call_t *call = item->call;
    wm_front_t *front = front_of (item);
    wm_ks_request_t *request = &item->infer.request;
    wm_ks_error_t error;
    size_t more = 0;
    item->infer.owner = item;
    item->infer.reply = on_reply;
    item->infer.front = front;
    item->infer.hold = &item->hold;
    item->infer.share = &call->conn->share;
    wm_ks_code_t code = wm_infer_decode (&item->infer, item->body, item->bytes, &error);
    if (!code)
        code = wm_infer_need (&item->infer, &more, &error);
    note_model (item, request->model);
    if (code) {
        fail_infer (item, &error);
        return;
    }
    request->client = call->conn->number;
    request->deadline_ms = call->deadline_us / 1000;
    if (item->infer.timeout_us) {
        const uint64_t most = INT64_MAX / 4;
        const uint64_t left = item->infer.timeout_us < most ? item->infer.timeout_us : most;
        const int64_t at_us = item->begun_us + (int64_t) left;
        item->timer = wm_loop_timer (front->loop, at_us, on_timeout, item);
        if (!request->deadline_ms || at_us / 1000 < request->deadline_ms)
            request->deadline_ms = at_us / 1000;
    }
    if (!more || wm_hold_take (front->budget, &item->hold, &call->conn->share,
                               item->hold.bytes + more, begin_infer, item))
        begin_infer (item);
}

/* ---- loading and unloading ------------------------------------------------------------------- */

/* `argument` is a cell that points to the item, or to nothing where the call has ended.  */
static void on_changed (void *argument, const wm_ks_error_t *error)
{
    wm_item_t **from = argument, *item = *from;
    if (item) {
        item->changes = NULL;
        if (error && error->code)
            wm_call_fail (item, error);
        else {
            begin_answer (item);
            wm_call_answer (item);
        }
    }
    free (from);
}

/* Makes the cell of on_changed.  */
static wm_item_t **changes (wm_item_t *item)
{
    item->changes = malloc (sizeof *item->changes);
    assert (item->changes);
    *item->changes = item;
    return item->changes;
}

static void take_load (wm_item_t *item)
{
    wm_override_t given;
    wm_ks_error_t error;
    json_t *request = wm_method_request (item);
    if (!request)
        return;
    const char *model = text_of (request, "model_name");
    note_model (item, model);
    if (wm_override_proto (&given, item->body, item->bytes, &error))
        wm_call_fail (item, &error);
    else
        wm_models_load (front_of (item)->models, model, &given, on_changed, changes (item));
    wm_override_clear (&given);
    json_decref (request);
}

static void take_unload (wm_item_t *item)
{
    json_t *request = wm_method_request (item);
    if (!request)
        return;
    const char *model = text_of (request, "model_name");
    note_model (item, model);
    wm_models_unload (front_of (item)->models, model, on_changed, changes (item));
    json_decref (request);
}

/* ---- system shared memory -------------------------------------------------------------------- */

static json_t *shared_status (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    json_t *regions = wm_shared_status (front->shared, text_of (request, "name"), error);
    return regions ? json_pack ("{s:o}", "regions", regions) : NULL;
}

static json_t *shared_register (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    return wm_shared_register (front->shared, text_of (request, "name"), request, error)
               ? NULL
               : json_object ();
}

static json_t *shared_unregister (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    return wm_shared_unregister (front->shared, text_of (request, "name"), error) ? NULL
                                                                                  : json_object ();
}

static json_t *cuda_register (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    wm_shared_cuda_register (front->shared, text_of (request, "name"), request, error);
    return NULL;
}

static json_t *cuda_none (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    (void) request;
    return wm_shared_cuda (front->shared, true, error) ? NULL : json_object ();
}

/* ---- settings -------------------------------------------------------------------------------- */

static bool has_model (wm_item_t *item, wm_ks_error_t *error)
{
    json_t *request = wm_proto_json (wm_message_settings, item->body, item->bytes);
    const char *model = text_of (request, "model_name");
    json_t *config = *model ? wm_models_config (front_of (item)->models, model, "", error) : NULL;
    const bool has = config || !*model;
    note_model (item, model);
    json_decref (config);
    json_decref (request);
    return has;
}

static void take_settings (wm_item_t *item, wm_settings_t of)
{
    wm_ks_error_t error;
    json_t *json = of == WM_SETTINGS_LOG || has_model (item, &error)
                       ? wm_settings_proto (of, item->body, item->bytes, &error)
                       : NULL;
    if (!json) {
        wm_call_fail (item, &error);
        return;
    }
    begin_answer (item);
    wm_proto_put_json (&item->out, item->call->method->response, json);
    json_decref (json);
    wm_call_answer (item);
}

static void take_trace (wm_item_t *item)
{
    take_settings (item, WM_SETTINGS_TRACE);
}

static void take_log (wm_item_t *item)
{
    take_settings (item, WM_SETTINGS_LOG);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const wm_method_t methods[] = {
    { "ModelInfer", false, take_infer, NULL, NULL, NULL },
    { "ModelStreamInfer", true, take_infer, NULL, NULL, NULL },
    { "ServerLive", false, wm_method_json, wm_message_empty, wm_message_live, live },
    { "ServerReady", false, wm_method_json, wm_message_empty, wm_message_ready, ready },
    { "ModelReady", false, wm_method_json, wm_message_model, wm_message_ready, model_ready },
    { "ServerMetadata", false, wm_method_json, wm_message_empty, wm_message_server, server },
    { "ModelMetadata", false, wm_method_json, wm_message_model, wm_message_metadata, metadata },
    { "ModelConfig", false, wm_method_json, wm_message_model, wm_message_config, config },
    { "ModelStatistics", false, wm_method_json, wm_message_model, wm_message_statistics,
      statistics },
    { "RepositoryIndex", false, wm_method_json, wm_message_index_request, wm_message_index,
      repository_index },
    { "RepositoryModelLoad", false, take_load, wm_message_repository, wm_message_empty, NULL },
    { "RepositoryModelUnload", false, take_unload, wm_message_repository, wm_message_empty, NULL },
    { "SystemSharedMemoryStatus", false, wm_method_json, wm_message_region, wm_message_regions,
      shared_status },
    { "SystemSharedMemoryRegister", false, wm_method_json, wm_message_region, wm_message_empty,
      shared_register },
    { "SystemSharedMemoryUnregister", false, wm_method_json, wm_message_region, wm_message_empty,
      shared_unregister },
    { "CudaSharedMemoryStatus", false, wm_method_json, wm_message_empty, wm_message_empty,
      cuda_none },
    { "CudaSharedMemoryRegister", false, wm_method_json, wm_message_cuda_region, wm_message_empty,
      cuda_register },
    { "CudaSharedMemoryUnregister", false, wm_method_json, wm_message_empty, wm_message_empty,
      cuda_none },
    { "TraceSetting", false, take_trace, NULL, wm_message_trace, NULL },
    { "LogSettings", false, take_log, NULL, wm_message_log, NULL },
    { NULL, false, NULL, NULL, NULL, NULL },
};

static const wm_method_t *method_of (const char *path)
{
    static const struct {
        const char *path;
        const wm_method_t *method;
    } services[] = {
        { "/" WM_SERVICE_INFERENCE "/", methods },
        { "/" WM_SERVICE_HEALTH "/", wm_health_methods },
    };
    for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
        const size_t n = strlen (services[i].path);
        const wm_method_t *method = services[i].method;
        if (strncmp (path, services[i].path, n) != 0)
            continue;
        while (method->name && strcmp (method->name, path + n) != 0)
            method++;
        return method->name ? method : NULL;
    }
    return NULL;
}

const wm_grpc_methods_t wm_grpc_methods = { method_of, cancel };
