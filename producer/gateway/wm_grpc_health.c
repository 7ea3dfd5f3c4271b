/* wm_grpc_health.c - grpc.health.v1.Health: what Kubernetes' `grpc:` probes, grpc_health_probe and
   balancers ask (github.com/grpc/grpc, doc/health-checking.md).

   Services by name: "" and inference.GRPCInferenceService, SERVING while every model is ready (as
   ServerReady), and each model's name (as ModelReady). Check and List answer at once. Watch answers
   at once and then whenever the status changes: behind the answer that is sent there is always one
   item more, which looks again every WATCH_US. What changes meanwhile and changes back
   is not sent, so that a slow client has one answer at most that waits.  */
#include "producer/gateway/wm_grpc_private.h"
#include "producer/gateway/wm_service.h"

#include <assert.h>
#include <string.h>

#define WATCH_US 500000

static wm_models_t *models_of (const wm_item_t *item)
{
    return item->call->conn->grpc->front->models;
}

/* The status of a service; NULL: there is no such service.  */
static const char *status_of (wm_models_t *models, const char *service)
{
    wm_ks_error_t error = { WM_KS_OK, "" };
    const bool is_all = !*service || strcmp (service, WM_SERVICE_INFERENCE) == 0;
    const bool is_ready = is_all ? wm_models_ready (models, NULL)
                                 : wm_models_model_ready (models, service, "", &error);
    return is_ready ? "SERVING" : error.code == WM_KS_NOT_FOUND ? NULL : "NOT_SERVING";
}

static const char *service_of (const json_t *request)
{
    const char *service = json_string_value (json_object_get (request, "service"));
    return service ? service : "";
}

static json_t *check (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    const char *status = status_of (front->models, service_of (request));
    if (!status)
        wm_ks_fail (
            error, WM_KS_NOT_FOUND,
            "unknown service: '%.200s'; this server has \"\" (all models), " WM_SERVICE_INFERENCE
            " and the names of its models",
            service_of (request));
    return status ? json_pack ("{s:s}", "status", status) : NULL;
}

static json_t *list (wm_front_t *front, const json_t *request, wm_ks_error_t *error)
{
    (void) request, (void) error;
    static const char *const always[] = { "", WM_SERVICE_INFERENCE };
    json_t *all = json_object (), *index = wm_models_index (front->models, false), *row;
    size_t i;
    for (i = 0; i < sizeof always / sizeof *always; i++)
        json_object_set_new (all, always[i],
                             json_pack ("{s:s}", "status", status_of (front->models, always[i])));
    json_array_foreach (index, i, row)
    {
        const char *name = json_string_value (json_object_get (row, "name"));
        const char *status = name ? status_of (front->models, name) : NULL;
        if (status)
            json_object_set_new (all, name, json_pack ("{s:s}", "status", status));
    }
    json_decref (index);
    return json_pack ("{s:o}", "statuses", all);
}

/* ---- Watch ----------------------------------------------------------------------------------- */

static void look (void *argument);

static void look_later (wm_item_t *item)
{
    wm_loop_t *loop = item->call->conn->grpc->front->loop;
    item->timer = wm_loop_timer (loop, wm_loop_now_us (loop) + WATCH_US, look, item);
}

/* Answers by the item, and leaves another that goes on.  */
static void send_status (wm_item_t *item, const char *status)
{
    wm_call_t *call = item->call;
    wm_item_t *next = wm_call_item (call);
    json_t *json = json_pack ("{s:s}", "status", status);
    next->watched = item->watched;
    next->status = status;
    item->watched = NULL;
    wm_buffer_room (&item->out, WM_CALL_HEAD_BYTES + 64);
    item->out.bytes = WM_CALL_HEAD_BYTES;
    wm_proto_put_json (&item->out, wm_message_health, json);
    json_decref (json);
    look_later (next);
    wm_call_answer (item);
}

static void look (void *argument)
{
    wm_item_t *item = argument;
    item->timer = NULL;
    const char *found = status_of (models_of (item), item->watched);
    const char *status = found ? found : "SERVICE_UNKNOWN";
    if (item == item->call->first && (!item->status || strcmp (status, item->status) != 0))
        send_status (item, status);
    else
        look_later (item);
}

static void take_watch (wm_item_t *item)
{
    json_t *request = wm_method_request (item);
    if (!request)
        return;
    item->watched = strdup (service_of (request));
    assert (item->watched);
    json_decref (request);
    look (item);
}

const wm_method_t wm_health_methods[] = {
    { "Check", false, wm_method_json, wm_message_service, wm_message_health, check },
    { "List", false, wm_method_json, wm_message_empty, wm_message_healths, list },
    { "Watch", false, take_watch, wm_message_service, NULL, NULL },
    { NULL, false, NULL, NULL, NULL, NULL },
};
