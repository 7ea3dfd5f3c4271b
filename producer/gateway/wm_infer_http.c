/* wm_infer_http.c - inference requests as KServe's HTTP API has them: JSON, and behind it the bytes
   of tensors (the binary tensor data extension).

   jansson gets the request's JSON without the values of tensors (wm_json.h), and its tree is gone
   before the next request: so one small tree at a time is all that no budget counts.  */
#include "producer/serving/wm_infer.h"

#include <stdlib.h>
#include <string.h>

#define JSON_BYTES_MAX ((size_t) 64 << 20)      /* values included */
#define SKELETON_BYTES_MAX ((size_t) 256 << 10) /* without them: its tree has 30 MB at worst */

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

static wm_ks_code_t take_shape (wm_kserve_tensor_t *tensor, const json_t *shape,
                                wm_ks_error_t *error)
{
    const size_t n = json_array_size (shape);
    if (!json_is_array (shape) || n > WM_TENSOR_DIM_MAX)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "Unable to parse 'shape' of input '%.100s': give an array of at most %d "
                           "integers",
                           tensor->name, WM_TENSOR_DIM_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get (shape, i);
        if (!json_is_integer (dim))
            return wm_ks_fail (error, WM_KS_INVALID,
                               "Unable to parse 'shape' of input '%.100s': a dimension is no "
                               "integer of 0 or more",
                               tensor->name);
        if (json_integer_value (dim) < 0) /* 500, as Triton's clients are tested to expect */
            return wm_ks_fail (error, WM_KS_INTERNAL,
                               "Unable to parse 'shape': attempt to access JSON non-unsigned-"
                               "integer as unsigned-integer (input '%.100s' has a negative "
                               "dimension)",
                               tensor->name);
        tensor->dim[i] = json_integer_value (dim);
    }
    tensor->n_dim = (uint32_t) n;
    return WM_KS_OK;
}

static wm_ks_code_t bad_values (const wm_kserve_tensor_t *tensor, wm_ks_error_t *error)
{
    return wm_ks_fail (error, WM_KS_INVALID,
                       "Unable to parse 'data' of input '%.100s': give an array of %s values, or "
                       "'binary_data_size'",
                       tensor->name, wm_type_name (tensor->type));
}

/* The bytes behind the JSON that no tensor has taken yet.  */
typedef struct {
    const uint8_t *at;
    size_t left;
} tail_t;

/* The values are still to be read, to as many bytes as the shape wants. Values take two characters
   each: a shape that wants more of them is refused before there is memory for it.  */
static wm_ks_code_t plan_values (wm_infer_t *self, wm_kserve_tensor_t *tensor, bool is_cut,
                                 wm_ks_error_t *error)
{
    wm_json_data_t *values = &self->values[tensor - self->request.input];
    size_t most;
    if (tensor->type == WM_TYPE_FP16 || tensor->type == WM_TYPE_BF16)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "receiving %s data via JSON is not supported: send input '%.100s' as a "
                           "binary tensor ('binary_data_size')",
                           wm_type_name (tensor->type), tensor->name);
    if (tensor->type == WM_TYPE_BYTES)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "input '%.100s' is of type BYTES, and models here take numbers: send "
                           "what the model '%.100s' states in its metadata",
                           tensor->name, self->request.model);
    if (!is_cut || !values->text)
        return bad_values (tensor, error);
    if (!wm_infer_bytes (tensor, &tensor->bytes))
        return wm_infer_misshapen (&self->request, tensor, error);
    if (__builtin_mul_overflow (values->bytes / 2, wm_type_bytes (tensor->type), &most) ||
        tensor->bytes > most)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "input byte size mismatch for input '%.100s' for model '%.100s'. Its "
                           "'data' has fewer values than its shape",
                           tensor->name, self->request.model);
    self->values_bytes += tensor->bytes ? tensor->bytes : 1;
    return WM_KS_OK;
}

static bool read_values (wm_infer_t *self, wm_kserve_tensor_t *tensor, uint8_t *to, size_t *bytes,
                         wm_ks_error_t *error)
{
    const size_t size = wm_type_bytes (tensor->type);
    if (!self->reader.at)
        self->reader = wm_json_reader (self->values[self->n_read], to, tensor->bytes / size);
    const wm_json_state_t state = wm_json_read (&self->reader, tensor->type, bytes);
    const size_t got = tensor->bytes - self->reader.left * size;
    if (state == WM_JSON_MORE)
        return true;
    if (state == WM_JSON_BAD && self->reader.depth > WM_JSON_DEPTH_MAX)
        wm_ks_fail (error, WM_KS_INVALID,
                    "Unable to parse 'data' of input '%.100s': JSON nesting depth exceeds maximum "
                    "allowed limit (%d)",
                    tensor->name, WM_JSON_DEPTH_MAX);
    else if (state == WM_JSON_BAD)
        bad_values (tensor, error);
    else if (state == WM_JSON_MANY || self->reader.left)
        wm_ks_fail (error, WM_KS_INVALID,
                    "input byte size mismatch for input '%.100s' for model '%.100s'. Expected %zu, "
                    "got %s%zu",
                    tensor->name, self->request.model, tensor->bytes,
                    state == WM_JSON_MANY ? "more than " : "", got);
    self->reader.at = NULL;
    return false;
}

/* Reads where a tensor wants to be, of its parameters.  */
static wm_ks_code_t take_wish (wm_infer_t *self, const json_t *object, const char *name,
                               wm_shared_wish_t *wish, wm_ks_error_t *error)
{
    const char *key;
    json_t *value;
    *wish = (wm_shared_wish_t){ 0 };
    json_object_foreach (json_object_get (object, "parameters"), key, value)
    {
        const bool is_text = strcmp (key, "shared_memory_region") == 0;
        if (strncmp (key, "shared_memory_", 14) == 0 &&
            (is_text ? !json_is_string (value) : !json_is_integer (value)))
            return wm_ks_fail (error, WM_KS_INVALID, "'%.40s' of '%.100s' is no %s", key, name,
                               is_text ? "text" : "integer");
        const wm_infer_parameter_t one = { .key = key,
                                           .key_bytes = strlen (key),
                                           .text = is_text ? json_string_value (value) : "",
                                           .text_bytes = is_text ? json_string_length (value) : 0,
                                           .number = json_integer_value (value) };
        wm_infer_wish (self, wish, &one);
    }
    return WM_KS_OK;
}

static wm_ks_code_t take_data (wm_infer_t *self, wm_kserve_tensor_t *tensor, const json_t *input,
                               tail_t *tail, wm_ks_error_t *error)
{
    const json_t *size = parameter (input, "binary_data_size"),
                 *data = json_object_get (input, "data");
    wm_shared_wish_t wish;
    const wm_ks_code_t code = take_wish (self, input, tensor->name, &wish, error);
    if (code)
        return code;
    if (wish.region && (size || data))
        return wm_ks_fail (error, WM_KS_INVALID,
                           "input '%.100s': 'shared_memory_region' goes without 'data' and "
                           "'binary_data_size'",
                           tensor->name);
    if (wish.region)
        return wm_infer_share_input (self, tensor, &wish, error);
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
    return plan_values (self, tensor, json_is_true (data), error);
}

static wm_ks_code_t take_input (wm_infer_t *self, wm_kserve_tensor_t *tensor, const json_t *input,
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
    self->request.n_class = wm_infer_alloc (self, n * sizeof *self->request.n_class);
    self->is_json = wm_infer_alloc (self, n);
    self->request.n_output = n;
    for (uint32_t i = 0; i < n; i++) {
        const json_t *output = json_array_get (outputs, i),
                     *binary = parameter (output, "binary_data"),
                     *classes = parameter (output, "classification");
        const json_int_t n_class = json_integer_value (classes);
        wm_shared_wish_t wish;
        wm_ks_code_t code = take_text (self, &self->request.output[i], output, "name", true, error);
        if (!code)
            code = take_wish (self, output, self->request.output[i], &wish, error);
        if (!code)
            code = wm_infer_share_output (self, i, &wish, error);
        if (code)
            return code;
        if (classes && (!json_is_integer (classes) || n_class < 0))
            return wm_ks_fail (error, WM_KS_INVALID,
                               "Unable to parse 'outputs': 'classification' of output '%.100s' is "
                               "a number of classes",
                               self->request.output[i]);
        self->request.n_class[i] = n_class > UINT32_MAX ? UINT32_MAX : (uint32_t) n_class;
        self->is_json[i] = binary ? !json_is_true (binary) : self->all_json;
    }
    return WM_KS_OK;
}

static wm_ks_code_t check_array (const json_t *value, const char *name, bool is_needed,
                                 wm_ks_error_t *error)
{
    if (!value && !is_needed)
        return WM_KS_OK;
    if (json_is_array (value) && json_array_size (value) <= WM_INFER_TENSORS_MAX)
        return WM_KS_OK;
    return wm_ks_fail (error, WM_KS_INVALID,
                       "Unable to parse '%s': %s; give an array of at most %d tensors", name,
                       !value                   ? "the request has none"
                       : !json_is_array (value) ? "it is not an array"
                                                : "there are too many",
                       WM_INFER_TENSORS_MAX);
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
    if ((code = check_array (inputs, "inputs", true, error)) ||
        (code = check_array (outputs, "outputs", false, error)))
        return code;
    request->priority = priority > 0 && priority <= UINT32_MAX ? (uint32_t) priority : 0;
    self->timeout_us = timeout > 0 ? (uint64_t) timeout : 0;
    self->all_json = !json_is_true (parameter (tree, "binary_data_output"));
    const uint32_t n = (uint32_t) json_array_size (inputs);
    request->input = wm_infer_alloc (self, n * sizeof *request->input);
    self->read = read_values;
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
    size_t left;
    wm_infer_begin (self);
    self->request.id = "";
    if (json_bytes > bytes)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "Inference-Header-Content-Length is %zu, and the body has %zu bytes",
                           json_bytes, bytes);
    if (json_bytes > JSON_BYTES_MAX)
        return wm_ks_fail (error, WM_KS_EXHAUSTED,
                           "the request's JSON is %zu bytes: send more than %zu as binary tensors",
                           json_bytes, JSON_BYTES_MAX);
    self->values = wm_infer_alloc (self, WM_INFER_TENSORS_MAX * sizeof *self->values);
    char *skeleton = wm_json_skeleton (data, json_bytes, SKELETON_BYTES_MAX, self->values,
                                       WM_INFER_TENSORS_MAX, &left);
    if (!skeleton)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "the request's JSON without the tensors' 'data' is more than %zu bytes",
                           SKELETON_BYTES_MAX);
    json_t *tree = json_loadb (skeleton, left, JSON_REJECT_DUPLICATES, &why);
    free (skeleton);
    if (!json_is_object (tree)) {
        json_decref (tree);
        return wm_ks_fail (error, WM_KS_INVALID,
                           "failed to parse the request JSON buffer: %.200s at %d (each array "
                           "'data' counted as 4 characters)",
                           tree ? "no object" : why.text, tree ? 0 : why.position);
    }
    tail_t tail = { (const uint8_t *) data + json_bytes, bytes - json_bytes };
    const wm_ks_code_t code = take_tree (self, tree, &tail, error);
    json_decref (tree);
    return code;
}

wm_ks_code_t wm_infer_decode_raw (wm_infer_t *self, const void *data, size_t bytes,
                                  wm_ks_error_t *error)
{
    wm_ks_request_t *request = &self->request;
    wm_kserve_tensor_t *tensor = request->input = wm_infer_alloc (self, sizeof *tensor);
    wm_infer_begin (self);
    request->id = "";
    request->n_input = 1;
    const wm_ks_code_t code =
        wm_models_raw (self->front->models, request->model, request->version, bytes, tensor, error);
    if (code)
        return code;
    tensor->name = wm_infer_text (self, tensor->name, strlen (tensor->name));
    tensor->data = data;
    return wm_infer_check (request, tensor, error);
}
