/* wm_onnxruntime_session.c - see wm_onnxruntime_session.h.  */
#include "kernels/onnxruntime/wm_onnxruntime_session.h"
#include "kernels/onnxruntime/wm_onnxruntime_api.h"
#include "kernels/wm_blind.h"
#include "onnx/onnx.pb-c.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IR_VERSION 0x08   /* key of ModelProto.ir_version */
#define IR_VERSION_MAX 12 /* of ModelProtos that the library reads */

struct wm_onnxruntime_session_t {
    ort_session_t *session;
    ort_memory_t *memory;
    uint32_t n_input, n_output;
    const wm_port_t *input;
    const char *input_name[WM_MODEL_PORTS_MAX];
    const char *const *output_name;
    int type[WM_MODEL_PORTS_MAX]; /* of the inputs */
    bool whole;
};

/* ---- the library ----------------------------------------------------------------------------- */

static const ort_api_t *api;
static ort_env_t *env; /* one a process, which ends with it */
static int failed_blind;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The official library reports its use over the network, unless a variable forbids it before the
   environment is made: it sees that variable, and none of those that wm_environment.h hides.  */
static void start (void)
{
    char path[PATH_MAX];
    const ort_base_t *(*const known) (void) = OrtGetApiBase;
    void *address;
    memcpy (&address, &known, sizeof address);
    failed_blind = wm_blind_file (address, path) ? wm_blind (path) : ENOENT;
    api = failed_blind ? NULL : OrtGetApiBase ()->GetApi (WM_ONNXRUNTIME_API);
    ort_status_t *status = api ? api->CreateEnv (ORT_LEVEL_FATAL, "wiremill", &env) : NULL;
    if (status)
        api->ReleaseStatus (status);
}

const char *wm_onnxruntime_version (void)
{
    return OrtGetApiBase ()->GetVersionString ();
}

/* Its texts begin with places in its own sources.  */
static const char *skip_places (const char *text)
{
    static const char *const behind[] = { "Status Message: ", " was false. ",
                                          "onnxruntime::common::Status)" };
    for (const char *next; (next = strstr (text, behind[0]));)
        text = next + strlen (behind[0]);
    const char *next = strstr (text, behind[1]);
    return next ? next + strlen (behind[1]) : text;
}

/* Writes why a call failed, and which node it names. Releases the status.  */
static wm_fault_t failed (wm_error_t *error, wm_fault_t fault, const char *what,
                          ort_status_t *status)
{
    const char *text = status ? api->GetErrorMessage (status) : "no reason given";
    const char *from = skip_places (text), *name = strstr (text, "Name:'"),
               *kind = strstr (text, "while running ");
    char node[200] = "";
    if (name && kind && kind < name)
        snprintf (node, sizeof node, "node '%.*s' (%.*s): ", (int) strcspn (name + 6, "'") & 127,
                  name + 6, (int) strcspn (kind + 14, " ") & 63, kind + 14);
    wm_fault (error, fault, "ONNX Runtime cannot %s: %s%.300s", what, node, from);
    for (char *c = error ? error->text : NULL; c && *c; c++)
        if (*c == '\n' || *c == '\r' || *c == '\t')
            *c = ' ';
    if (status)
        api->ReleaseStatus (status);
    return fault;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Finds input i of the ports among the session's: its type and its rank.  */
static ort_status_t *look_at_input (wm_onnxruntime_session_t *self, size_t k, int *type,
                                    size_t *n_dim)
{
    ort_type_t *info = NULL;
    const ort_shape_t *shape = NULL;
    *type = 0;
    ort_status_t *status = api->SessionGetInputTypeInfo (self->session, k, &info);
    if (!status)
        status = api->CastTypeInfoToTensorInfo (info, &shape);
    if (!status && shape)
        status = api->GetTensorElementType (shape, type);
    if (!status && shape)
        status = api->GetDimensionsCount (shape, n_dim);
    if (info)
        api->ReleaseTypeInfo (info);
    return status;
}

static wm_fault_t look_at_inputs (wm_onnxruntime_session_t *self, wm_error_t *error)
{
    void *allocator;
    size_t n = 0;
    uint32_t n_found = 0, n_whole = 0;
    ort_status_t *status = api->GetAllocatorWithDefaultOptions (&allocator);
    if (!status)
        status = api->SessionGetInputCount (self->session, &n);
    for (size_t k = 0; k < n && !status; k++) {
        char *name = NULL;
        int type;
        size_t n_dim = 0;
        status = api->SessionGetInputName (self->session, k, allocator, &name);
        if (!status)
            status = look_at_input (self, k, &type, &n_dim);
        for (uint32_t i = 0; i < self->n_input && !status; i++) {
            if (strcmp (self->input[i].name, name) != 0)
                continue;
            self->type[i] = type;
            n_whole += n_dim == self->input[i].n_dim;
            n_found++;
        }
        if (name)
            api->ReleaseStatus (api->AllocatorFree (allocator, name));
    }
    if (status)
        return failed (error, WM_EBATCH, "name the inputs of this model", status);
    if (n_found != self->n_input || (n_whole && n_whole != n_found))
        return wm_fault (error, WM_EBATCH,
                         n_found == self->n_input
                             ? "some inputs of this model have a batch dimension and some have none"
                             : "ONNX Runtime finds other inputs in this model");
    self->whole = n_whole > 0;
    return WM_OK;
}

static ort_status_t *open (wm_onnxruntime_session_t *self, const void *bytes, size_t size,
                           bool tight)
{
    ort_options_t *options = NULL;
    ort_status_t *status = api->CreateSessionOptions (&options);
    if (!status)
        status = api->SetIntraOpNumThreads (options, 1);
    if (!status)
        status = api->SetInterOpNumThreads (options, 1);
    if (!status)
        status = api->SetSessionGraphOptimizationLevel (options, ORT_OPTIMIZE_ALL);
    if (!status && tight)
        status = api->DisableCpuMemArena (options);
    if (!status)
        status = api->CreateSessionFromArray (env, bytes, size, options, &self->session);
    if (!status)
        status = api->CreateCpuMemoryInfo (ORT_ARENA, ORT_MEMORY_CPU, &self->memory);
    if (options)
        api->ReleaseSessionOptions (options);
    return status;
}

/* Opens a model whose file states a newer format than ONNX Runtime takes: the number, which is the
   first field as every writer has it, is lowered. What is new in a format that the library does not
   know, operators and types, it refuses by name.  */
static ort_status_t *open_any (wm_onnxruntime_session_t *self, const uint8_t *bytes, size_t size,
                               bool tight)
{
    if (size < 2 || bytes[0] != IR_VERSION || bytes[1] <= IR_VERSION_MAX || bytes[1] >= 0x80)
        return open (self, bytes, size, tight);
    uint8_t *older = malloc (size);
    if (!older)
        return open (self, bytes, size, tight);
    memcpy (older, bytes, size);
    older[1] = IR_VERSION_MAX;
    ort_status_t *status = open (self, older, size, tight);
    free (older);
    return status;
}

wm_onnxruntime_session_t *wm_onnxruntime_session_new (const void *bytes, size_t size,
                                                      const wm_port_t *input, uint32_t n_input,
                                                      const char *const *output_name,
                                                      uint32_t n_output, bool tight,
                                                      wm_error_t *error)
{
    pthread_once (&once, start);
    wm_onnxruntime_session_t *self = calloc (1, sizeof *self);
    if (!api || !env || !self) {
        wm_fault (error, WM_EHOST,
                  api && env ? "no memory for ONNX Runtime" : "ONNX Runtime %s does not start: %s",
                  wm_onnxruntime_version (),
                  failed_blind ? strerror (failed_blind) : "it has no such interface");
        free (self);
        return NULL;
    }
    *self = (wm_onnxruntime_session_t){
        .n_input = n_input, .n_output = n_output, .input = input, .output_name = output_name
    };
    for (uint32_t i = 0; i < n_input; i++)
        self->input_name[i] = input[i].name;
    ort_status_t *status = open_any (self, bytes, size, tight);
    const wm_fault_t fault = status ? failed (error, WM_EBATCH, "read this model", status)
                                    : look_at_inputs (self, error);
    if (fault)
        wm_onnxruntime_session_destroy (&self);
    return self;
}

void wm_onnxruntime_session_destroy (wm_onnxruntime_session_t **self_p)
{
    wm_onnxruntime_session_t *self = *self_p;
    if (!self)
        return;
    if (self->session)
        api->ReleaseSession (self->session);
    if (self->memory)
        api->ReleaseMemoryInfo (self->memory);
    free (self);
    *self_p = NULL;
}

bool wm_onnxruntime_session_whole (const wm_onnxruntime_session_t *self)
{
    return self->whole;
}

/* ---- types ----------------------------------------------------------------------------------- */

static float float_of_half (uint16_t half)
{
    _Float16 value;
    memcpy (&value, &half, sizeof value);
    return (float) value;
}

static float float_of_bf16 (uint16_t half)
{
    const uint32_t bits = (uint32_t) half << 16;
    float value;
    memcpy (&value, &bits, sizeof value);
    return value;
}

/* The nearest, ties to even; NaN stays one.  */
static uint16_t bf16_of_float (float value)
{
    uint32_t bits;
    memcpy (&bits, &value, sizeof bits);
    if (isnan (value))
        return (uint16_t) (bits >> 16 | 0x40);
    return (uint16_t) ((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static size_t bytes_of (int type)
{
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT8:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT8:
    case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
        return 1;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
        return 2;
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT32:
        return 4;
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT64:
        return 8;
    default:
        return 0;
    }
}

/* A whole number within the type's limits; NaN is 0.  */
#define WHOLE(type, low, high)                                                                     \
    do {                                                                                           \
        type *at = to;                                                                             \
        for (size_t k = 0; k < n; k++)                                                             \
            at[k] = isnan (from[k])             ? 0                                                \
                    : from[k] <= (float) (low)  ? (low)                                            \
                    : from[k] >= (float) (high) ? (high)                                           \
                                                : (type) from[k];                                  \
    } while (0)

/* Converts n values to the type of an input.  */
static void put (int type, const float *from, size_t n, void *to)
{
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT8:
        WHOLE (uint8_t, 0, UINT8_MAX);
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT8:
        WHOLE (int8_t, INT8_MIN, INT8_MAX);
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT16:
        WHOLE (uint16_t, 0, UINT16_MAX);
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT16:
        WHOLE (int16_t, INT16_MIN, INT16_MAX);
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
        WHOLE (int32_t, INT32_MIN, INT32_MAX);
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT32:
        WHOLE (uint32_t, 0, UINT32_MAX);
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
        WHOLE (int64_t, INT64_MIN, INT64_MAX);
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT64:
        WHOLE (uint64_t, 0, UINT64_MAX);
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
        for (size_t k = 0; k < n; k++)
            ((uint8_t *) to)[k] = from[k] != 0;
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
        for (size_t k = 0; k < n; k++) {
            const _Float16 value = (_Float16) from[k];
            memcpy ((uint16_t *) to + k, &value, sizeof value);
        }
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
        for (size_t k = 0; k < n; k++)
            ((uint16_t *) to)[k] = bf16_of_float (from[k]);
        break;
    default: /* DOUBLE */
        for (size_t k = 0; k < n; k++)
            ((double *) to)[k] = (double) from[k];
    }
}

#define FLOATS(type, as_float)                                                                     \
    do {                                                                                           \
        const type *at = out->data;                                                                \
        for (uint64_t k = 0; k < n; k++)                                                           \
            to[k] = as_float (at[k]);                                                              \
    } while (0)
/* Conversion rounds a whole number above 2^24, of which a comparison in the wider type notices.  */
#define WHOLES(type)                                                                               \
    do {                                                                                           \
        const type *at = out->data;                                                                \
        for (uint64_t k = 0; k < n; k++) {                                                         \
            to[k] = (float) at[k];                                                                 \
            equal &= (__int128) to[k] == (__int128) at[k];                                         \
        }                                                                                          \
    } while (0)

bool wm_onnxruntime_floats (const wm_onnxruntime_out_t *out, float *to)
{
    const uint64_t n = out->n_value;
    bool equal = true;
    switch (out->type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
        FLOATS (float, );
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT8:
    case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
        FLOATS (uint8_t, );
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT8:
        FLOATS (int8_t, );
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT16:
        FLOATS (uint16_t, );
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT16:
        FLOATS (int16_t, );
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
        FLOATS (uint16_t, float_of_half);
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
        FLOATS (uint16_t, float_of_bf16);
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
        WHOLES (int32_t);
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT32:
        WHOLES (uint32_t);
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
        WHOLES (int64_t);
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT64:
        WHOLES (uint64_t);
        break;
    default: { /* DOUBLE, of which the nearest float32 is the score if there is one */
        const double *at = out->data;
        for (uint64_t k = 0; k < n; k++) {
            to[k] = (float) at[k];
            equal &= isfinite (to[k]) == isfinite (at[k]);
        }
    }
    }
    return equal;
}

bool wm_onnxruntime_take (const wm_onnxruntime_out_t *out, const wm_port_t *port, float *to)
{
    if (!port->is_exact)
        return wm_onnxruntime_floats (out, to);
    wm_exact_put (port->type, out->data, out->n_value, to);
    return out->type == port->type;
}

/* ---- runs ------------------------------------------------------------------------------------ */

wm_onnxruntime_in_t wm_onnxruntime_in (const wm_onnxruntime_session_t *self, uint32_t i,
                                       uint32_t n_dim, const uint32_t *dim, const float *value)
{
    const uint32_t first = !self->whole;
    wm_onnxruntime_in_t in = {
        .n_dim = n_dim + first, .dim = { 1 }, .value = value, .is_exact = self->input[i].is_exact
    };
    for (uint32_t d = 0; d < n_dim; d++)
        in.dim[d + first] = dim[d];
    return in;
}

/* A tensor of an input's type; *made is what it was converted into, for free ().  */
static wm_fault_t make_input (wm_onnxruntime_session_t *self, uint32_t i,
                              const wm_onnxruntime_in_t *in, void **made, ort_value_t **tensor,
                              wm_error_t *error)
{
    const size_t each = bytes_of (self->type[i]);
    size_t n = 1;
    for (uint32_t d = 0; d < in->n_dim; d++)
        n *= (size_t) in->dim[d];
    void *data = (void *) (uintptr_t) in->value; /* it is only read */
    if (!each)
        return wm_fault (error, WM_EBATCH, "input '%.128s' is of a type that is not computed here",
                         self->input[i].name);
    if (self->type[i] != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT) {
        data = *made = malloc (n * each + 1);
        if (!data)
            return wm_fault (error, WM_EHOST, "no memory for an input");
        if (!in->is_exact)
            put (self->type[i], in->value, n, data);
        else if (!wm_exact_take (self->type[i], in->value, n, data))
            return wm_fault (error, WM_EBATCH,
                             "input '%.128s' has a value that its type cannot hold",
                             self->input[i].name);
    }
    ort_status_t *status = api->CreateTensorWithDataAsOrtValue (
        self->memory, data, n * each, in->dim, in->n_dim, self->type[i], tensor);
    return status ? failed (error, WM_EHOST, "take an input", status) : WM_OK;
}

static wm_fault_t look_at_output (wm_onnxruntime_out_t *out, const char *name, wm_error_t *error)
{
    int kind = 0;
    size_t n_dim = 0;
    void *data = NULL;
    ort_shape_t *shape = NULL;
    ort_status_t *status = out->tensor ? api->GetValueType (out->tensor, &kind) : NULL;
    if (!status && kind == ORT_IS_TENSOR)
        status = api->GetTensorTypeAndShape (out->tensor, &shape);
    if (!status && shape)
        status = api->GetTensorElementType (shape, &out->type);
    if (!status && shape)
        status = api->GetDimensionsCount (shape, &n_dim);
    if (!status && shape && n_dim <= WM_ONNXRUNTIME_DIMS_MAX)
        status = api->GetDimensions (shape, out->dim, n_dim);
    if (!status && shape && bytes_of (out->type))
        status = api->GetTensorMutableData (out->tensor, &data);
    if (shape)
        api->ReleaseTensorTypeAndShapeInfo (shape);
    if (status)
        return failed (error, WM_EHOST, "hand out its scores", status);
    if (!shape || n_dim > WM_ONNXRUNTIME_DIMS_MAX || !bytes_of (out->type))
        return wm_fault (error, WM_EBATCH, "output '%.128s' is not a tensor of numbers", name);
    out->data = data;
    out->n_dim = (uint32_t) n_dim;
    out->n_value = 1;
    for (size_t d = 0; d < n_dim; d++)
        out->n_value *= (uint64_t) out->dim[d];
    return WM_OK;
}

void wm_onnxruntime_release (wm_onnxruntime_session_t *self, wm_onnxruntime_out_t *out)
{
    for (uint32_t i = 0; i < self->n_output; i++) {
        if (out[i].tensor)
            api->ReleaseValue (out[i].tensor);
        out[i].tensor = NULL;
    }
}

wm_fault_t wm_onnxruntime_run (wm_onnxruntime_session_t *self, const wm_onnxruntime_in_t *in,
                               wm_onnxruntime_out_t *out, wm_error_t *error)
{
    ort_value_t *input[WM_MODEL_PORTS_MAX] = { NULL };
    ort_value_t **output = calloc (self->n_output, sizeof *output);
    void *made[WM_MODEL_PORTS_MAX] = { NULL };
    wm_fault_t fault = output ? WM_OK : wm_fault (error, WM_EHOST, "no memory for outputs");
    memset (out, 0, self->n_output * sizeof *out);
    for (uint32_t i = 0; i < self->n_input && !fault; i++)
        fault = make_input (self, i, &in[i], &made[i], &input[i], error);
    if (!fault) {
        ort_status_t *status =
            api->Run (self->session, NULL, self->input_name, (const ort_value_t *const *) input,
                      self->n_input, self->output_name, self->n_output, output);
        if (status)
            fault = failed (error, WM_EBATCH, "compute it", status);
    }
    for (uint32_t i = 0; i < self->n_output && output; i++)
        out[i].tensor = output[i];
    for (uint32_t i = 0; i < self->n_output && !fault; i++)
        fault = look_at_output (&out[i], self->output_name[i], error);
    if (fault)
        wm_onnxruntime_release (self, out);
    for (uint32_t i = 0; i < self->n_input; i++) {
        if (input[i])
            api->ReleaseValue (input[i]);
        free (made[i]);
    }
    free (output);
    return fault;
}
