/* wm_service.c - the messages of inference.GRPCInferenceService: numbers and names of their fields,
   from the public protocol of KServe, version 2, and Triton's extensions of it; and those of gRPC's
   own service of health (grpc/health/v1/health.proto).

   ModelConfig has what clients read; the rest of Triton's says how Triton runs a model.  */
#include "producer/gateway/wm_service.h"

#define NUMBER(tag, name)                                                                          \
    {                                                                                              \
        tag, name, WM_KIND_NUMBER, NULL, NULL                                                      \
    }
#define TEXT(tag, name)                                                                            \
    {                                                                                              \
        tag, name, WM_KIND_TEXT, NULL, NULL                                                        \
    }
#define ENUM(tag, name, names)                                                                     \
    {                                                                                              \
        tag, name, WM_KIND_ENUM, NULL, names                                                       \
    }
#define MESSAGE(tag, name, message)                                                                \
    {                                                                                              \
        tag, name, WM_KIND_MESSAGE, message, NULL                                                  \
    }
#define MAP(tag, name, message)                                                                    \
    {                                                                                              \
        tag, name, WM_KIND_MAP, message, NULL                                                      \
    }
#define END                                                                                        \
    {                                                                                              \
        0, NULL, WM_KIND_NUMBER, NULL, NULL                                                        \
    }
typedef const wm_proto_field_t table_t[];

table_t wm_message_empty = { END };
table_t wm_message_live = { NUMBER (1, "live"), END };
table_t wm_message_ready = { NUMBER (1, "ready"), END };
table_t wm_message_model = { TEXT (1, "name"), TEXT (2, "version"), END };
table_t wm_message_repository = { TEXT (1, "repository_name"), TEXT (2, "model_name"), END };
table_t wm_message_index_request = { TEXT (1, "repository_name"), NUMBER (2, "ready"), END };

table_t wm_message_server = { TEXT (1, "name"), TEXT (2, "version"), TEXT (3, "extensions"), END };

static table_t tensor = { TEXT (1, "name"), TEXT (2, "datatype"), NUMBER (3, "shape"), END };
table_t wm_message_metadata = {
    TEXT (1, "name"),
    TEXT (2, "versions"),
    TEXT (3, "platform"),
    MESSAGE (4, "inputs", tensor),
    MESSAGE (5, "outputs", tensor),
    END,
};

/* ---- configuration --------------------------------------------------------------------------- */

static const char *const data_types[] = {
    "TYPE_INVALID", "TYPE_BOOL",   "TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32", "TYPE_UINT64",
    "TYPE_INT8",    "TYPE_INT16",  "TYPE_INT32", "TYPE_INT64",  "TYPE_FP16",   "TYPE_FP32",
    "TYPE_FP64",    "TYPE_STRING", "TYPE_BF16",  NULL,
};
static const char *const formats[] = { "FORMAT_NONE", "FORMAT_NHWC", "FORMAT_NCHW", NULL };
static const char *const group_kinds[] = { "KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL",
                                           NULL };

static table_t reshape = { NUMBER (1, "shape"), END };
static table_t input = {
    TEXT (1, "name"),
    ENUM (2, "data_type", data_types),
    ENUM (3, "format", formats),
    NUMBER (4, "dims"),
    MESSAGE (5, "reshape", reshape),
    NUMBER (6, "is_shape_tensor"),
    NUMBER (7, "allow_ragged_batch"),
    NUMBER (8, "optional"),
    END,
};
static table_t output = {
    TEXT (1, "name"),
    ENUM (2, "data_type", data_types),
    NUMBER (3, "dims"),
    TEXT (4, "label_filename"),
    MESSAGE (5, "reshape", reshape),
    NUMBER (6, "is_shape_tensor"),
    END,
};
static table_t latest = { NUMBER (1, "num_versions"), END };
static table_t specific = { NUMBER (1, "versions"), END };
static table_t version_policy = {
    MESSAGE (1, "latest", latest),
    MESSAGE (2, "all", wm_message_empty),
    MESSAGE (3, "specific", specific),
    END,
};
static table_t group = {
    TEXT (1, "name"), NUMBER (2, "count"), NUMBER (3, "gpus"), ENUM (4, "kind", group_kinds), END,
};
static table_t queue_policy = { NUMBER (4, "max_queue_size"), END };
static table_t dynamic_batching = {
    NUMBER (1, "preferred_batch_size"),
    NUMBER (2, "max_queue_delay_microseconds"),
    NUMBER (3, "preserve_ordering"),
    NUMBER (4, "priority_levels"),
    NUMBER (5, "default_priority_level"),
    MESSAGE (6, "default_queue_policy", queue_policy),
    END,
};
static table_t parameter = { TEXT (1, "string_value"), END };
static table_t transaction_policy = { NUMBER (1, "decoupled"), END };
static table_t config = {
    TEXT (1, "name"),
    TEXT (2, "platform"),
    MESSAGE (3, "version_policy", version_policy),
    NUMBER (4, "max_batch_size"),
    MESSAGE (5, "input", input),
    MESSAGE (6, "output", output),
    MESSAGE (7, "instance_group", group),
    TEXT (8, "default_model_filename"),
    MESSAGE (11, "dynamic_batching", dynamic_batching),
    MAP (14, "parameters", parameter),
    TEXT (17, "backend"),
    MESSAGE (19, "model_transaction_policy", transaction_policy),
    END,
};
table_t wm_message_config = { MESSAGE (1, "config", config), END };

/* ---- statistics, repository ------------------------------------------------------------------ */

static table_t duration = { NUMBER (1, "count"), NUMBER (2, "ns"), END };
static table_t inference = {
    MESSAGE (1, "success", duration),
    MESSAGE (2, "fail", duration),
    MESSAGE (3, "queue", duration),
    MESSAGE (4, "compute_input", duration),
    MESSAGE (5, "compute_infer", duration),
    MESSAGE (6, "compute_output", duration),
    MESSAGE (7, "cache_hit", duration),
    MESSAGE (8, "cache_miss", duration),
    END,
};
static table_t batch = {
    NUMBER (1, "batch_size"),
    MESSAGE (2, "compute_input", duration),
    MESSAGE (3, "compute_infer", duration),
    MESSAGE (4, "compute_output", duration),
    END,
};
static table_t statistics = {
    TEXT (1, "name"),
    TEXT (2, "version"),
    NUMBER (3, "last_inference"),
    NUMBER (4, "inference_count"),
    NUMBER (5, "execution_count"),
    MESSAGE (6, "inference_stats", inference),
    MESSAGE (7, "batch_stats", batch),
    END,
};
table_t wm_message_statistics = { MESSAGE (1, "model_stats", statistics), END };

static table_t entry = {
    TEXT (1, "name"), TEXT (2, "version"), TEXT (3, "state"), TEXT (4, "reason"), END,
};
table_t wm_message_index = { MESSAGE (1, "models", entry), END };

/* ---- system shared memory -------------------------------------------------------------------- */

table_t wm_message_region = {
    TEXT (1, "name"), TEXT (2, "key"), NUMBER (3, "offset"), NUMBER (4, "byte_size"), END,
};
table_t wm_message_cuda_region = { TEXT (1, "name"), NUMBER (4, "byte_size"), END };
table_t wm_message_regions = { MAP (1, "regions", wm_message_region), END };

/* ---- settings -------------------------------------------------------------------------------- */

static table_t trace_value = { TEXT (1, "value"), END };
static table_t log_value = {
    NUMBER (1, "bool_param"),
    NUMBER (2, "uint32_param"),
    TEXT (3, "string_param"),
    END,
};
table_t wm_message_trace = { MAP (1, "settings", trace_value), END };
table_t wm_message_log = { MAP (1, "settings", log_value), END };
table_t wm_message_settings = { TEXT (2, "model_name"), END };

/* ---- health ---------------------------------------------------------------------------------- */

static const char *const health_states[] = { "UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN",
                                             NULL };
table_t wm_message_service = { TEXT (1, "service"), END };
table_t wm_message_health = { ENUM (1, "status", health_states), END };
table_t wm_message_healths = { MAP (1, "statuses", wm_message_health), END };
