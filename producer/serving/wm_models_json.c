/* wm_models_json.c - metadata, configuration, statistics and the index of models, in the words of
   Triton's HTTP API.

   What config.pbtxt states is repeated; what it leaves out comes from the model.  */
#include "producer/net/wm_pbtxt.h"
#include "producer/serving/wm_models_private.h"
#include "schema/base/wm_text.h"
#include "schema/wm_limits.h"

#include <stdio.h>
#include <string.h>

/* ---- metadata -------------------------------------------------------------------------------- */

static json_int_t max_batch (const wm_version_t *self)
{
    if (self->signature.is_whole || self->signature.has_all_dims)
        return 0;
    return json_object_get (self->config, "max_batch_size")
               ? wm_pbtxt_number (self->config, "max_batch_size")
               : WM_MODELS_BATCH_MAX;
}

/* Clients read which framework a model is of: that of its file.  */
static const char *platform (const wm_version_t *self)
{
    const char *given = wm_pbtxt_text (self->config, "platform");
    if (given && *given)
        return given;
    return wm_text_ends (self->file, ".graphdef") || wm_text_ends (self->file, ".pb")
               ? "tensorflow_graphdef"
               : "onnxruntime_onnx";
}

static json_t *shape (const wm_signature_port_t *port, bool has_batch)
{
    json_t *list = json_array ();
    if (has_batch)
        json_array_append_new (list, json_integer (-1));
    for (uint32_t d = 0; d < port->n_dim; d++)
        json_array_append_new (list, json_integer (port->dim[d]));
    return list;
}

static json_t *metadata_ports (const wm_signature_t *signature, uint32_t n,
                               const wm_signature_port_t *port)
{
    json_t *list = json_array ();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new (list, json_pack ("{s:s, s:s, s:o}", "name", port[i].name, "datatype",
                                                wm_type_name (port[i].type), "shape",
                                                shape (&port[i], !signature->is_whole)));
    return list;
}

json_t *wm_models_metadata (wm_models_t *self, const char *model, const char *version,
                            wm_ks_error_t *error)
{
    const wm_version_t *one = wm_models_find (self, model, version, error);
    if (!one)
        return NULL;
    json_t *versions = json_array ();
    for (const wm_version_t *other = one->entry->version; other; other = other->next)
        if (other->state == WM_VERSION_READY) /* ascending, as Triton has them */
            json_array_insert_new (versions, 0, json_string (other->text));
    const wm_signature_t *signature = &one->signature;
    return json_pack ("{s:s, s:o, s:s, s:o, s:o}", "name", one->entry->name, "versions", versions,
                      "platform", platform (one), "inputs",
                      metadata_ports (signature, signature->n_input, signature->input), "outputs",
                      metadata_ports (signature, signature->n_output, signature->output));
}

json_t *wm_models_server_metadata (wm_models_t *self)
{
    json_t *metadata = json_pack ("{s:s, s:s, s:[s, s, s, s, s, s, s]}", "name", self->server_name,
                                  "version", WM_VERSION, "extensions", "classification",
                                  "model_repository", "schedule_policy", "model_configuration",
                                  "binary_tensor_data", "parameters", "statistics");
    if (wm_args_given (self->args, "shared-memory"))
        json_array_append_new (json_object_get (metadata, "extensions"),
                               json_string ("system_shared_memory"));
    return metadata;
}

/* ---- configuration --------------------------------------------------------------------------- */

static json_t *text_or (const json_t *given, const char *field, const char *otherwise)
{
    const char *text = wm_pbtxt_text (given, field);
    return json_string (text ? text : otherwise);
}

static json_t *batching (const wm_version_t *self)
{
    const wm_batching_t is = wm_config_batching (self->config);
    const json_t *sizes = json_object_get (wm_pbtxt_message (self->config, "dynamic_batching"),
                                           "preferred_batch_size");
    json_t *json =
        json_pack ("{s:b, s:I, s:o}", "preserve_ordering", 0, "max_queue_delay_microseconds",
                   (json_int_t) (is.has_delay ? is.delay_us : self->entry->models->max_delay_us),
                   "preferred_batch_size", sizes ? json_deep_copy (sizes) : json_array ());
    if (is.queue_max)
        json_object_set_new (json, "default_queue_policy",
                             json_pack ("{s:I}", "max_queue_size", (json_int_t) is.queue_max));
    return json;
}

static json_t *config_ports (uint32_t n, const wm_signature_port_t *port, const json_t *config,
                             bool is_input, bool has_batch)
{
    char type[24];
    json_t *list = json_array ();
    for (uint32_t i = 0; i < n; i++) {
        snprintf (type, sizeof type, "TYPE_%s", wm_type_name (port[i].type));
        json_t *one = json_pack ("{s:s, s:s, s:o, s:b, s:b}", "name", port[i].name, "data_type",
                                 type, "dims", shape (&port[i], has_batch), "is_shape_tensor", 0,
                                 "is_non_linear_format_io", 0);
        const json_t *stated = wm_config_port (config, is_input ? "input" : "output", port[i].name);
        const json_t *reshape = wm_pbtxt_message (stated, "reshape");
        if (reshape)
            json_object_set_new (one, "reshape",
                                 json_pack ("{s:O*}", "shape", json_object_get (reshape, "shape")));
        if (is_input) {
            json_object_set_new (one, "format", text_or (stated, "format", "FORMAT_NONE"));
            json_object_set_new (one, "allow_ragged_batch", json_false ());
            json_object_set_new (one, "optional", json_false ());
        } else
            json_object_set_new (one, "label_filename", text_or (stated, "label_filename", ""));
        json_array_append_new (list, one);
    }
    return list;
}

/* parameters { key: "k" value { string_value: "v" } }: {"k": {"string_value": "v"}}.  */
static json_t *parameters (const json_t *config)
{
    json_t *all = json_object ();
    const json_t *one;
    size_t i;
    json_array_foreach (json_object_get (config, "parameters"), i, one)
    {
        const char *key = wm_pbtxt_text (one, "key");
        const json_t *value = wm_pbtxt_message (one, "value");
        if (key && value)
            json_object_set_new (
                all, key, json_pack ("{s:o}", "string_value", text_or (value, "string_value", "")));
    }
    return all;
}

static json_t *version_policy (const json_t *config)
{
    const json_t *policy = wm_pbtxt_message (config, "version_policy");
    const json_t *specific = wm_pbtxt_message (policy, "specific");
    const json_int_t latest = wm_pbtxt_number (wm_pbtxt_message (policy, "latest"), "num_versions");
    if (wm_pbtxt_message (policy, "all"))
        return json_pack ("{s:{}}", "all");
    if (specific)
        return json_pack ("{s:{s:O?}}", "specific", "versions",
                          json_object_get (specific, "versions"));
    return json_pack ("{s:{s:I}}", "latest", "num_versions", latest > 0 ? latest : 1);
}

json_t *wm_models_config (wm_models_t *self, const char *model, const char *version,
                          wm_ks_error_t *error)
{
    const wm_version_t *one = wm_models_find (self, model, version, error);
    if (!one)
        return NULL;
    const wm_signature_t *signature = &one->signature;
    const json_int_t most = max_batch (one);
    const bool has_batch = most == 0 && !signature->is_whole; /* its dims have it then */
    const char *slash = strrchr (one->file, '/');
    json_t *config = json_pack (
        "{s:s, s:s, s:s, s:s, s:o, s:I, s:o, s:o, s:[], s:[]}", "name", one->entry->name,
        "platform", platform (one), "backend", "wiremill", "runtime", "", "version_policy",
        version_policy (one->config), "max_batch_size", most, "input",
        config_ports (signature->n_input, signature->input, one->config, true, has_batch), "output",
        config_ports (signature->n_output, signature->output, one->config, false, has_batch),
        "batch_input", "batch_output");
    json_t *rest =
        json_pack ("{s:o, s:[{s:s, s:s, s:i, s:[]}], s:s, s:{}, s:{}, s:o, s:[]}",
                   "dynamic_batching", batching (one), "instance_group", "name", one->entry->name,
                   "kind", "KIND_CPU", "count", (int) self->n_worker, "gpus",
                   "default_model_filename", slash ? slash + 1 : one->file, "cc_model_filenames",
                   "metric_tags", "parameters", parameters (one->config), "model_warmup");
    json_object_update_missing (config, rest);
    json_decref (rest);
    if (signature->is_whole)
        json_object_del (config, "dynamic_batching");
    return config;
}

/* ---- statistics ------------------------------------------------------------------------------ */

static json_t *duration (uint64_t count, uint64_t us)
{
    return json_pack ("{s:I, s:I}", "count", (json_int_t) count, "ns", (json_int_t) us * 1000);
}

static json_t *statistics_of (const wm_version_t *self)
{
    static const wm_gather_counts_t none;
    const wm_gather_counts_t *counts = self->gather ? wm_gather_counts (self->gather) : &none;
    json_t *batches = json_array ();
    for (uint32_t i = 0; i < WM_GATHER_SIZES; i++)
        if (counts->size_n[i])
            json_array_append_new (batches,
                                   json_pack ("{s:I, s:o, s:o, s:o}", "batch_size",
                                              (json_int_t) 1 << i, "compute_input",
                                              duration (counts->size_n[i], 0), "compute_infer",
                                              duration (counts->size_n[i], counts->size_us[i]),
                                              "compute_output", duration (counts->size_n[i], 0)));
    const uint64_t n = counts->n_success;
    json_t *inference = json_pack (
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "success", duration (n, counts->success_us),
        "fail", duration (counts->n_fault + counts->n_other, counts->fail_us), "queue",
        duration (n, counts->queue_us), "compute_input", duration (n, 0), "compute_infer",
        duration (n, counts->infer_us), "compute_output", duration (n, 0), "cache_hit",
        duration (0, 0), "cache_miss", duration (0, 0));
    return json_pack ("{s:s, s:s, s:I, s:I, s:I, s:o, s:{}, s:o, s:[]}", "name", self->entry->name,
                      "version", self->text, "last_inference", (json_int_t) counts->last_ms,
                      "inference_count", (json_int_t) counts->n_row, "execution_count",
                      (json_int_t) counts->n_batch, "inference_stats", inference, "response_stats",
                      "batch_stats", batches, "memory_usage");
}

json_t *wm_models_statistics (wm_models_t *self, const char *model, const char *version,
                              wm_ks_error_t *error)
{
    if (*model && !wm_models_find (self, model, version, error))
        return NULL;
    json_t *list = json_array ();
    for (const wm_model_entry_t *entry = self->first; entry; entry = entry->next)
        for (const wm_version_t *one = entry->version; one; one = one->next)
            if (one->state == WM_VERSION_READY && (!*model || strcmp (model, entry->name) == 0) &&
                (!*version || strcmp (version, one->text) == 0))
                json_array_append_new (list, statistics_of (one));
    return json_pack ("{s:o}", "model_stats", list);
}

void wm_models_counts (const wm_models_t *self, wm_models_count_t *each, void *argument)
{
    for (const wm_model_entry_t *entry = self->first; entry; entry = entry->next)
        for (const wm_version_t *one = entry->version; one; one = one->next)
            if (one->gather && one == wm_models_shown (entry, one->number))
                each (argument, entry->name, one->text, wm_gather_counts (one->gather),
                      wm_gather_n_waiting (one->gather),
                      one->state == WM_VERSION_READY && !*one->waits);
}

/* ---- index ----------------------------------------------------------------------------------- */

/* Why a version of this number is not there, or not as its files are by now; "": no reason.  */
static const char *reason_of (const wm_model_entry_t *entry, const wm_version_t *shown)
{
    const char *reason = *shown->fails ? shown->fails : shown->reason;
    for (const wm_version_t *one = entry->version; one && !*reason; one = one->next)
        if (one->number == shown->number && one->state == WM_VERSION_GONE)
            reason = one->reason;
    return reason;
}

static void index_versions (json_t *list, const wm_model_entry_t *entry, bool ready)
{
    static const char *const states[] = { "LOADING", "READY", "UNLOADING", "UNAVAILABLE" };
    for (const wm_version_t *one = entry->version; one; one = one->next) {
        const bool fails = *one->fails;
        if (one == wm_models_shown (entry, one->number) &&
            (!ready || (one->state == WM_VERSION_READY && !fails)))
            json_array_append_new (list, json_pack ("{s:s, s:s, s:s, s:s}", "name", entry->name,
                                                    "version", one->text, "state",
                                                    fails ? "UNAVAILABLE" : states[one->state],
                                                    "reason", reason_of (entry, one)));
    }
}

json_t *wm_models_index (wm_models_t *self, bool ready)
{
    json_t *list = json_array ();
    wm_repository_scan (self);
    for (const wm_model_entry_t *entry = self->first; entry; entry = entry->next) {
        if (!entry->version && !ready && *entry->reason)
            json_array_append_new (list, json_pack ("{s:s, s:s, s:s, s:s}", "name", entry->name,
                                                    "version", "", "state", "UNAVAILABLE", "reason",
                                                    entry->reason));
        else if (!entry->version && !ready)
            json_array_append_new (list, json_pack ("{s:s}", "name", entry->name));
        index_versions (list, entry, ready);
    }
    return list;
}
