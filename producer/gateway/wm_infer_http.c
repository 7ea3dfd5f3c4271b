/* wm_infer_http.c - inference requests and responses as KServe's HTTP API has them: JSON, and
   behind it the bytes of tensors (the binary tensor data extension).

   jansson makes a tree of the request's JSON, some 40 bytes for a value of two: so its size is
   bounded, and the tree is gone before the request is answered.  */
#include "producer/gateway/wm_infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define JSON_BYTES_MAX ((size_t) 64 << 20)
#define DEPTH_MAX (WM_TENSOR_DIM_MAX + 1) /* of nested arrays of values */

/* ---- values of a tensor as JSON -------------------------------------------------------------- */

/* Appends one value. False: it is none of the type.  */
static bool put_value (wm_buffer_t *to, wm_type_t type, const json_t *value)
{
    const double real = json_number_value (value);
    const int64_t number = json_integer_value (value);
    const size_t bytes = wm_type_bytes (type);
    const float single = (float) real;
    switch (type) {
    case WM_TYPE_BOOL: {
        const uint8_t truth = json_is_boolean (value) ? json_is_true (value) : number != 0;
        wm_buffer_put (to, &truth, 1);
        return json_is_boolean (value) || (json_is_integer (value) && (number | 1) == 1);
    }
    case WM_TYPE_FP32:
        wm_buffer_put (to, &single, 4);
        return json_is_number (value);
    case WM_TYPE_FP64:
        wm_buffer_put (to, &real, 8);
        return json_is_number (value);
    case WM_TYPE_BYTES: {
        const uint32_t n = (uint32_t) json_string_length (value);
        wm_buffer_put (to, &n, sizeof n);
        wm_buffer_put (to, json_string_value (value), n);
        return json_is_string (value);
    }
    case WM_TYPE_FP16:
    case WM_TYPE_BF16:
    case WM_TYPES:
        return false;
    default:
        break;
    }
    wm_buffer_put (to, &number, bytes); /* little-endian */
    const bool is_signed = type >= WM_TYPE_INT8 && type <= WM_TYPE_INT64;
    const int bits = (int) (8 * bytes) - is_signed;
    const int64_t most = bits >= 63 ? INT64_MAX : (INT64_C (1) << bits) - 1;
    return json_is_integer (value) && number <= most && number >= (is_signed ? -most - 1 : 0);
}

/* Appends the values of nested arrays in their order, without recursion.  */
static bool put_values (wm_buffer_t *to, wm_type_t type, const json_t *data)
{
    struct {
        const json_t *array;
        size_t next;
    } stack[DEPTH_MAX];
    int depth = 0;
    if (!json_is_array (data))
        return false;
    stack[depth].array = data;
    stack[depth++].next = 0;
    while (depth) {
        const json_t *value = json_array_get (stack[depth - 1].array, stack[depth - 1].next++);
        if (!value)
            depth--;
        else if (!json_is_array (value)) {
            if (!put_value (to, type, value))
                return false;
        } else if (depth == DEPTH_MAX)
            return false;
        else {
            stack[depth].array = value;
            stack[depth++].next = 0;
        }
    }
    return true;
}

/* ---- the request ----------------------------------------------------------------------------- */

static const json_t *parameter (const json_t *of, const char *name)
{
    return json_object_get (json_object_get (of, "parameters"), name);
}

/* Copies a text of an object; where it is missing, "" or a fault.  */
static wm_ks_code_t take_text (wm_infer_t *self, char **to, const json_t *object, const char *name,
                               bool is_needed, wm_ks_error_t *error)
{
    const json_t *value = json_object_get (object, name);
    const size_t n = json_string_length (value);
    if ((value ? !json_is_string (value) : is_needed) || n > WM_INFER_NAME_MAX)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "Unable to parse '%s': give a text of at most %d bytes", name,
                           WM_INFER_NAME_MAX);
    *to = wm_infer_text (self, n ? json_string_value (value) : "", n);
    return WM_KS_OK;
}

static wm_ks_code_t take_shape (wm_tensor_t *tensor, const json_t *shape, wm_ks_error_t *error)
{
    const size_t n = json_array_size (shape);
    if (!json_is_array (shape) || n > WM_TENSOR_DIM_MAX)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "Unable to parse 'shape' of input '%.100s': give an array of at most %d "
                           "integers",
                           tensor->name, WM_TENSOR_DIM_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get (shape, i);
        if (!json_is_integer (dim) || json_integer_value (dim) < 0)
            return wm_ks_fail (error, WM_KS_INVALID,
                               "Unable to parse 'shape' of input '%.100s': a dimension is no "
                               "integer of 0 or more",
                               tensor->name);
        tensor->dim[i] = json_integer_value (dim);
    }
    tensor->n_dim = (uint32_t) n;
    return WM_KS_OK;
}

/* The bytes behind the JSON that no tensor has taken yet.  */
typedef struct {
    const uint8_t *at;
    size_t left;
} tail_t;

static wm_ks_code_t take_data (wm_infer_t *self, wm_tensor_t *tensor, const json_t *input,
                               tail_t *tail, wm_ks_error_t *error)
{
    const json_t *size = parameter (input, "binary_data_size"),
                 *data = json_object_get (input, "data");
    if (parameter (input, "shared_memory_region"))
        return wm_ks_fail (error, WM_KS_UNIMPLEMENTED,
                           "shared memory is not supported: send the tensors in the request");
    if (size) {
        const json_int_t bytes = json_integer_value (size);
        if (!json_is_integer (size) || bytes < 0 || data)
            return wm_ks_fail (error, WM_KS_INVALID,
                               "input '%.100s': 'binary_data_size' must be an integer, and without "
                               "'data'",
                               tensor->name);
        if ((uint64_t) bytes > tail->left)
            return wm_ks_fail (
                error, WM_KS_INVALID,
                "unexpected size for input '%.100s', expecting %lld additional bytes "
                "for model '%.100s'",
                tensor->name, (long long) bytes - (long long) tail->left, self->request.model);
        tensor->data = tail->at;
        tensor->bytes = (size_t) bytes;
        tail->at += bytes;
        tail->left -= (size_t) bytes;
        return WM_KS_OK;
    }
    wm_buffer_t values = { 0 };
    const bool is_fine = put_values (&values, tensor->type, data);
    if (is_fine) {
        tensor->data = (uint8_t *) wm_infer_text (self, values.data, values.bytes);
        tensor->bytes = values.bytes;
    }
    free (values.data);
    return is_fine ? WM_KS_OK
                   : wm_ks_fail (error, WM_KS_INVALID,
                                 "Unable to parse 'data' of input '%.100s': give an array of %s "
                                 "values, or 'binary_data_size'",
                                 tensor->name, wm_type_name (tensor->type));
}

static wm_ks_code_t take_input (wm_infer_t *self, wm_tensor_t *tensor, const json_t *input,
                                tail_t *tail, wm_ks_error_t *error)
{
    char *type = NULL;
    wm_ks_code_t code = take_text (self, &tensor->name, input, "name", true, error);
    if (!code)
        code = take_text (self, &type, input, "datatype", true, error);
    if (!code && (tensor->type = wm_type_of_name (type)) == WM_TYPES)
        code = wm_ks_fail (error, WM_KS_INVALID, "invalid datatype '%.40s' for input '%.100s'",
                           type, tensor->name);
    if (!code)
        code = take_shape (tensor, json_object_get (input, "shape"), error);
    if (!code)
        code = take_data (self, tensor, input, tail, error);
    return code ? code : wm_infer_check (&self->request, tensor, error);
}

static wm_ks_code_t take_outputs (wm_infer_t *self, const json_t *outputs, wm_ks_error_t *error)
{
    const uint32_t n = (uint32_t) json_array_size (outputs);
    self->request.output = wm_infer_alloc (self, n * sizeof *self->request.output);
    self->is_json = wm_infer_alloc (self, n);
    self->request.n_output = n;
    for (uint32_t i = 0; i < n; i++) {
        const json_t *output = json_array_get (outputs, i),
                     *binary = parameter (output, "binary_data");
        const wm_ks_code_t code =
            take_text (self, &self->request.output[i], output, "name", true, error);
        if (code)
            return code;
        if (parameter (output, "shared_memory_region") ||
            json_integer_value (parameter (output, "classification")))
            return wm_ks_fail (error, WM_KS_UNIMPLEMENTED,
                               "shared memory and the classification extension are not supported: "
                               "ask for the scores");
        self->is_json[i] = binary ? !json_is_true (binary) : self->all_json;
    }
    return WM_KS_OK;
}

static wm_ks_code_t take_tree (wm_infer_t *self, const json_t *tree, tail_t *tail,
                               wm_ks_error_t *error)
{
    const json_t *inputs = json_object_get (tree, "inputs"),
                 *outputs = json_object_get (tree, "outputs");
    wm_ks_request_t *request = &self->request;
    const json_int_t priority = json_integer_value (parameter (tree, "priority")),
                     timeout = json_integer_value (parameter (tree, "timeout"));
    wm_ks_code_t code = take_text (self, &request->id, tree, "id", false, error);
    if (code)
        return code;
    if (!json_is_array (inputs) || json_array_size (inputs) > WM_INFER_TENSORS_MAX ||
        json_array_size (outputs) > WM_INFER_TENSORS_MAX || (outputs && !json_is_array (outputs)))
        return wm_ks_fail (error, WM_KS_INVALID,
                           "Unable to parse 'inputs' or 'outputs': give arrays of at most %d",
                           WM_INFER_TENSORS_MAX);
    request->priority = priority > 0 && priority <= UINT32_MAX ? (uint32_t) priority : 0;
    self->timeout_us = timeout > 0 ? (uint64_t) timeout : 0;
    self->all_json = !json_is_true (parameter (tree, "binary_data_output"));
    const uint32_t n = (uint32_t) json_array_size (inputs);
    request->input = wm_infer_alloc (self, n * sizeof *request->input);
    for (; !code && request->n_input < n; request->n_input++)
        code = take_input (self, &request->input[request->n_input],
                           json_array_get (inputs, request->n_input), tail, error);
    if (!code && tail->left)
        code = wm_ks_fail (error, WM_KS_INVALID,
                           "unexpected additional input data for model '%.100s': %zu bytes",
                           request->model, tail->left);
    return code ? code : take_outputs (self, outputs, error);
}

wm_ks_code_t wm_infer_decode_http (wm_infer_t *self, const void *data, size_t bytes,
                                   size_t json_bytes, wm_ks_error_t *error)
{
    json_error_t why;
    self->request.transport = self;
    self->request.id = "";
    if (json_bytes > bytes)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "Inference-Header-Content-Length is %zu, and the body has %zu bytes",
                           json_bytes, bytes);
    if (json_bytes > JSON_BYTES_MAX)
        return wm_ks_fail (error, WM_KS_EXHAUSTED,
                           "the request's JSON is %zu bytes: send more than %zu as binary tensors",
                           json_bytes, JSON_BYTES_MAX);
    json_t *tree = json_loadb (data ? data : "", json_bytes, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object (tree)) {
        json_decref (tree);
        return wm_ks_fail (error, WM_KS_INVALID,
                           "failed to parse the request JSON buffer: %.200s at %d",
                           tree ? "no object" : why.text, tree ? 0 : why.position);
    }
    tail_t tail = { (const uint8_t *) data + json_bytes, bytes - json_bytes };
    const wm_ks_code_t code = take_tree (self, tree, &tail, error);
    json_decref (tree);
    return code;
}

/* ---- the response ---------------------------------------------------------------------------- */

static void put_text (wm_buffer_t *to, const char *text)
{
    wm_buffer_put (to, text, strlen (text));
}

/* Appends a text with what JSON wants around it.  */
static void put_string (wm_buffer_t *to, const char *text, size_t bytes)
{
    json_t *string = json_stringn (text, bytes);
    char *quoted = string ? json_dumps (string, JSON_ENCODE_ANY) : NULL;
    put_text (to, quoted ? quoted : "\"\"");
    free (quoted);
    json_decref (string);
}

/* JSON has no NaN: null, which clients in Python make NaN again; an infinity is what overflows.  */
static void put_real (wm_buffer_t *to, double value, int digits)
{
    char text[40];
    if (isnan (value))
        put_text (to, "null");
    else if (isinf (value))
        put_text (to, value < 0 ? "-1e999" : "1e999");
    else {
        snprintf (text, sizeof text, "%.*g", digits, value);
        put_text (to, text);
    }
}

static void put_number (wm_buffer_t *to, wm_type_t type, const uint8_t *at)
{
    char text[32];
    const size_t bytes = wm_type_bytes (type);
    uint64_t value = 0;
    memcpy (&value, at, bytes);
    if (type >= WM_TYPE_INT8 && type <= WM_TYPE_INT64) {
        const int shift = (int) (64 - 8 * bytes);
        snprintf (text, sizeof text, "%lld", (long long) ((int64_t) (value << shift) >> shift));
    } else
        snprintf (text, sizeof text, "%llu", (unsigned long long) value);
    put_text (to, type != WM_TYPE_BOOL ? text : value ? "true" : "false");
}

/* Appends all values of a tensor, as one flat array.  */
static void put_data (wm_buffer_t *to, const wm_tensor_t *tensor)
{
    const uint8_t *at = tensor->data, *end = at + tensor->bytes;
    put_text (to, "[");
    for (bool is_first = true; at < end; is_first = false) {
        if (!is_first)
            put_text (to, ",");
        float single;
        double real;
        uint32_t n;
        if (tensor->type == WM_TYPE_FP32) {
            memcpy (&single, at, 4);
            put_real (to, (double) single, 9);
        } else if (tensor->type == WM_TYPE_FP64) {
            memcpy (&real, at, 8);
            put_real (to, real, 17);
        } else if (tensor->type == WM_TYPE_BYTES) {
            memcpy (&n, at, 4);
            put_string (to, (const char *) at + 4, n);
            at += 4 + n;
        } else
            put_number (to, tensor->type, at);
        at += wm_type_bytes (tensor->type);
    }
    put_text (to, "]");
}

static void put_output (wm_buffer_t *to, const wm_tensor_t *tensor, bool is_json)
{
    char text[64];
    put_text (to, "{\"name\":");
    put_string (to, tensor->name, strlen (tensor->name));
    put_text (to, ",\"datatype\":\"");
    put_text (to, wm_type_name (tensor->type));
    put_text (to, "\",\"shape\":[");
    for (uint32_t i = 0; i < tensor->n_dim; i++) {
        snprintf (text, sizeof text, "%s%lld", i ? "," : "", (long long) tensor->dim[i]);
        put_text (to, text);
    }
    if (is_json) {
        put_text (to, "],\"data\":");
        put_data (to, tensor);
        put_text (to, "}");
    } else {
        snprintf (text, sizeof text, "],\"parameters\":{\"binary_data_size\":%zu}}", tensor->bytes);
        put_text (to, text);
    }
}

wm_ks_code_t wm_infer_encode_http (wm_buffer_t *to, size_t *json_bytes, const wm_infer_t *self,
                                   const wm_ks_answer_t *answer, wm_ks_error_t *error)
{
    const wm_ks_request_t *request = &self->request;
    char text[64];
    bool has_binary = false;
    put_text (to, "{\"model_name\":");
    put_string (to, answer->model, strlen (answer->model));
    put_text (to, ",\"model_version\":");
    put_string (to, answer->version, strlen (answer->version));
    if (*request->id) {
        put_text (to, ",\"id\":");
        put_string (to, request->id, strlen (request->id));
    }
    if (answer->n_held) {
        snprintf (text, sizeof text, ",\"parameters\":{\"wiremill_held\":%u}", answer->n_held);
        put_text (to, text);
    }
    put_text (to, ",\"outputs\":[");
    for (uint32_t i = 0; i < answer->n_output; i++) {
        const wm_tensor_t *tensor = &answer->output[i];
        const bool is_json = request->n_output ? self->is_json[i] : self->all_json;
        if (is_json && (tensor->type == WM_TYPE_FP16 || tensor->type == WM_TYPE_BF16))
            return wm_ks_fail (error, WM_KS_INVALID,
                               "JSON has no %s: ask for output '%.100s' with 'binary_data': true",
                               wm_type_name (tensor->type), tensor->name);
        has_binary |= !is_json;
        put_text (to, i ? "," : "");
        put_output (to, tensor, is_json);
    }
    put_text (to, "]}");
    *json_bytes = has_binary ? to->bytes : SIZE_MAX;
    for (uint32_t i = 0; i < answer->n_output; i++)
        if (!(request->n_output ? self->is_json[i] : self->all_json))
            wm_buffer_put (to, answer->output[i].data, answer->output[i].bytes);
    return WM_KS_OK;
}
