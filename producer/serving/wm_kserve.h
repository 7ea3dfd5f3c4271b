/* wm_kserve.h - what the gateway's transports (gRPC, HTTP) and its models agree on.

   A transport decodes an inference request of KServe's protocol, version 2, and hands it to the
   models (wm_models_infer); the models answer it once (wm_transport_calls_t, reply). Metadata,
   configuration, statistics exist once, as JSON in Triton's words; gRPC makes protobuf messages of
   the same JSON. Thread: all of it in the one of the loop (wm_loop.h).  */
#ifndef WM_KSERVE_H
#define WM_KSERVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What became of a request; the transports make gRPC's status and HTTP's code of it.  */
typedef enum {
    WM_KS_OK,
    WM_KS_INVALID,
    WM_KS_NOT_FOUND,
    WM_KS_UNAVAILABLE,
    WM_KS_LOADING, /* ... until a model is loaded: the client is asked to try again */
    WM_KS_DEADLINE,
    WM_KS_CANCELLED,
    WM_KS_EXHAUSTED,
    WM_KS_UNIMPLEMENTED,
    WM_KS_INTERNAL,
    WM_KS_CODES
} wm_ks_code_t;

typedef struct {
    wm_ks_code_t code;
    char text[480]; /* for the client */
} wm_ks_error_t;

/* When a client may try again what was LOADING.  */
#define WM_KS_RETRY_S "1"
#define WM_KS_RETRY_MS "1000"

/* The parameter `timeout` of a request is over: Triton's code and text.  */
#define WM_KS_EXPIRED                                                                              \
    {                                                                                              \
        WM_KS_UNAVAILABLE, "Request timeout expired"                                               \
    }

/* Fills *error (may be NULL) and returns `code`.  */
wm_ks_code_t wm_ks_fail (wm_ks_error_t *error, wm_ks_code_t code, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));

/* The types of tensors, as KServe names them.  */
typedef enum {
    WM_TYPE_BOOL,
    WM_TYPE_UINT8,
    WM_TYPE_UINT16,
    WM_TYPE_UINT32,
    WM_TYPE_UINT64,
    WM_TYPE_INT8,
    WM_TYPE_INT16,
    WM_TYPE_INT32,
    WM_TYPE_INT64,
    WM_TYPE_FP16,
    WM_TYPE_FP32,
    WM_TYPE_FP64,
    WM_TYPE_BF16,
    WM_TYPE_BYTES,
    WM_TYPES
} wm_type_t;

/* Return KServe's name ("FP32"), the bytes of one value (BYTES: 0, they vary), and the type of a
   name; WM_TYPES if no type has the name.  */
const char *wm_type_name (wm_type_t type);
size_t wm_type_bytes (wm_type_t type);
wm_type_t wm_type_of_name (const char *name);

/* A tensor. Little-endian, row-major. The transport has checked of an input that `bytes` is the
   product of the dimensions and the type's size, and that no dimension is negative.  */
#define WM_TENSOR_DIM_MAX 8
typedef struct {
    char *name;
    wm_type_t type;
    uint32_t n_dim;
    int64_t dim[WM_TENSOR_DIM_MAX];
    const uint8_t *data; /* not aligned */
    size_t bytes;
} wm_kserve_tensor_t;

/* One inference request, whoever sent it. Owned by the transport; the models may read it until
   they reply or it is cancelled.  */
typedef struct wm_ks_request_t {
    char *model, *version, *id; /* "" where the client gave none */
    wm_kserve_tensor_t *input;
    uint32_t n_input;
    char **output;       /* names of the outputs that are wanted */
    uint32_t n_output;   /* 0: all of them */
    uint32_t *n_class;   /* of each, 0: its scores; else so many classes; NULL: 0 for all */
    int64_t deadline_ms; /* by wm_loop_now_us / 1000; 0: none */
    uint32_t priority;   /* Triton's: 0 the model's default, 1 the most urgent */
    bool is_taken;       /* by a model's queue, which takes it back when the model is back */
    uint64_t client;     /* the connection it came by, for fairness; never 0 */
    const struct wm_transport_calls_t *calls; /* of the transport (below) */
    void *transport, *backend;                /* each side's own */
} wm_ks_request_t;

/* The answer. Names and data are the models', and lent until the call returns; but the transport
   may take the data of an output, which it frees, and then sets NULL here.  */
typedef struct {
    wm_ks_code_t code;
    const char *text;            /* of an error; else NULL */
    const char *model, *version; /* that computed it */
    wm_kserve_tensor_t *output;  /* in the order of the request, or of the model */
    uint32_t n_output;
    uint32_t n_held; /* rows with NaN */
} wm_ks_answer_t;

/* ---- models: called by the transports -------------------------------------------------------- */

typedef struct wm_models_t wm_models_t;

/* Takes the request. Calls its `reply` once, also of errors; may do so before it
   returns.  */
void wm_models_infer (wm_models_t *self, wm_ks_request_t *request);
/* Fills in the input of a request of one row that has its bytes alone, but for its data. Its name
   is lent until the caller returns. INVALID, or as wm_models_infer would refuse.  */
wm_ks_code_t wm_models_raw (wm_models_t *self, const char *model, const char *version, size_t bytes,
                            wm_kserve_tensor_t *tensor, wm_ks_error_t *error);
/* Returns the bytes that the models will keep for the request's answer as soon as they have it
   (wm_transport_calls_t, keep); 0 where they would refuse it.  */
size_t wm_models_need (wm_models_t *self, const wm_ks_request_t *request);
/* The client is gone, or its deadline over: no reply follows, the request is the transport's again.
   Only for a request that has not been answered.  */
void wm_models_cancel (wm_models_t *self, wm_ks_request_t *request);

/* Return whether every model is ready (else *error, which may be NULL,
   names one that is not), whether this one is ("" as version: the newest; false also for a model
   that there is not, with NOT_FOUND in *error).  */
bool wm_models_ready (wm_models_t *self, wm_ks_error_t *error);
bool wm_models_model_ready (wm_models_t *self, const char *model, const char *version,
                            wm_ks_error_t *error);

/* Return JSON in the words of Triton's HTTP API, the caller's; NULL with *error. An empty `model`
   of statistics: all models. `ready`: only models that are ready.  */
json_t *wm_models_server_metadata (wm_models_t *self);
json_t *wm_models_metadata (wm_models_t *self, const char *model, const char *version,
                            wm_ks_error_t *error);
json_t *wm_models_config (wm_models_t *self, const char *model, const char *version,
                          wm_ks_error_t *error);
json_t *wm_models_statistics (wm_models_t *self, const char *model, const char *version,
                              wm_ks_error_t *error);
json_t *wm_models_index (wm_models_t *self, bool ready);

/* Loads or unloads a model and then calls `done` once, possibly before it returns. `argument` must
   live until then. given: a configuration, and files, that came with the load (wm_override.h), lent
   until the call returns; NULL, or empty: those of the repository.  */
typedef void wm_models_done_t (void *argument, const wm_ks_error_t *error);
typedef struct wm_override_t wm_override_t;
void wm_models_load (wm_models_t *self, const char *model, const wm_override_t *given,
                     wm_models_done_t *done, void *argument);
void wm_models_unload (wm_models_t *self, const char *model, wm_models_done_t *done,
                       void *argument);

/* ---- transports: called by the models -------------------------------------------------------- */

/* How far the outputs of an answer are copied to shared memory. Zeroed at first.  */
typedef struct {
    uint32_t n_output; /* that are there; of the next one: */
    size_t bytes;
} wm_placed_t;

/* What a transport does for the models; each request names its own.  */
typedef struct wm_transport_calls_t {
    /* Answers the request and ends it: it must not be used any more. Copies what it needs.  */
    void (*reply) (wm_ks_request_t *request, const wm_ks_answer_t *answer);
    /* Counts what the models keep for a request that is not answered, `bytes` in all, as memory of
       the request. False, and nothing is counted: it is more than an answer may have.  */
    bool (*keep) (wm_ks_request_t *request, size_t bytes);
    /* Copies outputs of its answer to the shared memory where the client wants them, a slice at a
       time: takes what it copied from *left. True: there is more. False: they are there, or
       error->code is not OK. Before the reply.  */
    bool (*place) (wm_ks_request_t *request, const wm_kserve_tensor_t *output, uint32_t n_output,
                   wm_placed_t *placed, size_t *left, wm_ks_error_t *error);
    /* Returns the queue in which long work on an answer waits for its next slice.  */
    struct wm_slices_t *(*slices) (const wm_ks_request_t *request);
    /* Returns whether requests and answers together hold no more than they may.  */
    bool (*has_room) (const wm_ks_request_t *request);
} wm_transport_calls_t;

#endif
