/* wm_infer_proto.c - ModelInferRequest and ModelInferResponse of inference.GRPCInferenceService.

   Bytes of raw inputs are not copied. Values in `contents`, which few clients send, are counted
   first, and later copied to what a raw input would have (wm_infer_values).  */
#include "producer/serving/wm_infer.h"

#include "schema/base/wm_text.h"

#include <stdlib.h>
#include <string.h>

/* What expands: a varint of one byte may stand for a value of eight.  */
#define CONTENTS_BYTES_MAX ((size_t) 16 << 20)

typedef struct {
    const uint8_t *data;
    size_t bytes;
} slice_t;

static slice_t slice (const wm_field_t *field)
{
    return (slice_t){ field->data, field->bytes };
}

static bool is (const wm_field_t *field, uint32_t tag, wm_proto_wire_t wire)
{
    return field->tag == tag && field->wire == wire;
}

static wm_ks_code_t malformed (wm_ks_error_t *error, const char *what)
{
    return wm_ks_fail (error, WM_KS_INVALID, "the bytes of %s are not what protobuf would write",
                       what);
}

/* Keeps a text, or refuses it.  */
static wm_ks_code_t keep (wm_infer_t *self, char **to, slice_t from, const char *what,
                          wm_ks_error_t *error)
{
    if (from.bytes > WM_INFER_NAME_MAX || !wm_text_is_utf8 (from.data, from.bytes))
        return wm_ks_fail (error, WM_KS_INVALID, "%s is not UTF-8 of at most %d bytes", what,
                           WM_INFER_NAME_MAX);
    *to = wm_infer_text (self, from.data, from.bytes);
    return WM_KS_OK;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Reads an entry of map<string, InferParameter>. Numbers of every kind become *value. text->data is
   NULL if the entry has no string.  */
static bool parameter (const wm_field_t *entry, slice_t *key, uint64_t *value, slice_t *text)
{
    wm_proto_t in = wm_proto_of (entry->data, entry->bytes), inner;
    wm_field_t field;
    *key = *text = (slice_t){ 0 };
    *value = 0;
    while (wm_proto_next (&in, &field)) {
        if (is (&field, 1, WM_WIRE_BYTES))
            *key = slice (&field);
        if (!is (&field, 2, WM_WIRE_BYTES))
            continue;
        inner = wm_proto_of (field.data, field.bytes);
        while (wm_proto_next (&inner, &field))
            if (field.wire == WM_WIRE_VARINT)
                *value = field.number;
            else if (is (&field, 3, WM_WIRE_BYTES))
                *text = slice (&field);
        if (inner.is_bad)
            return false;
    }
    return !in.is_bad;
}

static bool is_key (slice_t key, const char *name)
{
    return key.bytes == strlen (name) && memcmp (key.data, name, key.bytes) == 0;
}

/* Of a request: its priority and timeout. Others are for Triton's schedulers.  */
static wm_ks_code_t request_parameter (wm_infer_t *self, const wm_field_t *entry,
                                       wm_ks_error_t *error)
{
    slice_t key, text;
    uint64_t value;
    if (!parameter (entry, &key, &value, &text))
        return malformed (error, "a parameter");
    if (is_key (key, "priority"))
        self->request.priority = value > UINT32_MAX ? UINT32_MAX : (uint32_t) value;
    if (is_key (key, "timeout"))
        self->timeout_us = value;
    return WM_KS_OK;
}

/* Of an input or output: what would change its data is taken, the rest ignored. *n_class: of the
   classification extension.  */
static wm_ks_code_t tensor_parameter (wm_infer_t *self, const wm_field_t *entry,
                                      wm_shared_wish_t *wish, uint32_t *n_class,
                                      wm_ks_error_t *error)
{
    slice_t key, text;
    uint64_t value;
    if (!parameter (entry, &key, &value, &text))
        return malformed (error, "a parameter of a tensor");
    if (!wm_text_is_utf8 (text.data, text.bytes) || text.bytes > WM_INFER_NAME_MAX)
        text = (slice_t){ 0 }; /* no region has such a name */
    wm_infer_wish (self, wish,
                   &(wm_infer_parameter_t){ .key = (const char *) key.data,
                                            .key_bytes = key.bytes,
                                            .text = (const char *) text.data,
                                            .text_bytes = text.bytes,
                                            .number = (int64_t) value });
    if (is_key (key, "classification") && value > INT64_MAX)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "the parameter 'classification' is a number of classes");
    if (is_key (key, "classification"))
        *n_class = value > UINT32_MAX ? UINT32_MAX : (uint32_t) value;
    return WM_KS_OK;
}

/* ---- values in `contents` -------------------------------------------------------------------- */

/* The field of InferTensorContents that has the values of a type; 0: none has.  */
static uint32_t contents_tag (wm_type_t type)
{
    static const uint8_t tag[WM_TYPES] = {
        [WM_TYPE_BOOL] = 1,   [WM_TYPE_INT8] = 2,  [WM_TYPE_INT16] = 2,  [WM_TYPE_INT32] = 2,
        [WM_TYPE_INT64] = 3,  [WM_TYPE_UINT8] = 4, [WM_TYPE_UINT16] = 4, [WM_TYPE_UINT32] = 4,
        [WM_TYPE_UINT64] = 5, [WM_TYPE_FP32] = 6,  [WM_TYPE_FP64] = 7,
    };
    return tag[type];
}

/* Writes one value, unless `to` is NULL. False: it does not fit the type.  */
static bool put_value (wm_type_t type, uint64_t value, uint8_t *to)
{
    const size_t bytes = wm_type_bytes (type);
    const int64_t number = (int64_t) value;
    if ((type == WM_TYPE_INT8 && (number < INT8_MIN || number > INT8_MAX)) ||
        (type == WM_TYPE_INT16 && (number < INT16_MIN || number > INT16_MAX)) ||
        (type == WM_TYPE_UINT8 && value > UINT8_MAX) ||
        (type == WM_TYPE_UINT16 && value > UINT16_MAX))
        return false;
    if (type == WM_TYPE_BOOL)
        value = value != 0;
    if (to)
        memcpy (to, &value, bytes);
    return true;
}

/* Goes through the values of `contents`: adds their bytes to *bytes, and writes them where `to` is
   not NULL. False: malformed, or a value that does not fit. Counts no further than `most`.  */
static bool each_value (slice_t contents, wm_type_t type, uint8_t *to, size_t most, size_t *bytes)
{
    wm_proto_t in = wm_proto_of (contents.data, contents.bytes);
    wm_field_t field;
    const size_t size = wm_type_bytes (type);
    const wm_proto_wire_t wire = type == WM_TYPE_FP32   ? WM_WIRE_32
                                 : type == WM_TYPE_FP64 ? WM_WIRE_64
                                                        : WM_WIRE_VARINT;
    while (*bytes <= most && wm_proto_next (&in, &field)) {
        if (field.tag != contents_tag (type))
            continue;
        uint8_t *at = to ? to + *bytes : NULL;
        if (field.wire == wire) {
            if (!put_value (type, field.number, at))
                return false;
            *bytes += size;
        } else if (field.wire == WM_WIRE_BYTES && wire != WM_WIRE_VARINT) {
            if (field.bytes % size)
                return false;
            if (to)
                memcpy (at, field.data, field.bytes);
            *bytes += field.bytes;
        } else if (field.wire == WM_WIRE_BYTES) {
            wm_proto_t packed = wm_proto_of (field.data, field.bytes);
            for (; packed.at < packed.end && *bytes <= most; *bytes += size)
                if (!put_value (type, wm_proto_varint (&packed), to ? to + *bytes : NULL) ||
                    packed.is_bad)
                    return false;
        } else
            return false;
    }
    return !in.is_bad;
}

static bool read_contents (wm_infer_t *self, wm_kserve_tensor_t *tensor, uint8_t *to, size_t *bytes,
                           wm_ks_error_t *error)
{
    const wm_json_data_t values = self->values[self->n_read];
    size_t read = 0;
    (void) bytes, (void) error; /* it has been counted, and is bounded by CONTENTS_BYTES_MAX */
    each_value ((slice_t){ (const uint8_t *) values.text, values.bytes }, tensor->type, to,
                tensor->bytes, &read);
    return false;
}

static wm_ks_code_t count_contents (wm_infer_t *self, wm_kserve_tensor_t *tensor, slice_t contents,
                                    wm_ks_error_t *error)
{
    const size_t most = contents.bytes > CONTENTS_BYTES_MAX ? contents.bytes : CONTENTS_BYTES_MAX;
    size_t bytes = 0;
    if (!contents_tag (tensor->type))
        return wm_ks_fail (error, WM_KS_INVALID,
                           "input '%.100s' of type %s must be in raw_input_contents", tensor->name,
                           wm_type_name (tensor->type));
    if (!each_value (contents, tensor->type, NULL, most, &bytes))
        return wm_ks_fail (error, WM_KS_INVALID,
                           "the contents of input '%.100s' are malformed, or not values of %s",
                           tensor->name, wm_type_name (tensor->type));
    if (bytes > most)
        return wm_ks_fail (
            error, WM_KS_EXHAUSTED,
            "the contents of input '%.100s' become more than %zu bytes: send them in "
            "raw_input_contents",
            tensor->name, most);
    self->values[tensor - self->request.input] =
        (wm_json_data_t){ (const char *) contents.data, contents.bytes };
    self->values_bytes += bytes;
    tensor->bytes = bytes;
    return WM_KS_OK;
}

/* ---- the request ----------------------------------------------------------------------------- */

static bool take_shape (wm_kserve_tensor_t *tensor, const wm_field_t *field)
{
    wm_proto_t packed = wm_proto_of (field->data, field->bytes);
    if (field->wire == WM_WIRE_VARINT) {
        if (tensor->n_dim == WM_TENSOR_DIM_MAX)
            return false;
        tensor->dim[tensor->n_dim++] = (int64_t) field->number;
        return true;
    }
    while (field->wire == WM_WIRE_BYTES && packed.at < packed.end) {
        if (tensor->n_dim == WM_TENSOR_DIM_MAX)
            return false;
        tensor->dim[tensor->n_dim++] = (int64_t) wm_proto_varint (&packed);
    }
    return field->wire == WM_WIRE_BYTES && !packed.is_bad;
}

/* What an input has beside its shape: values, without data where there are none; a region.  */
typedef struct {
    slice_t contents;
    wm_shared_wish_t wish;
} source_t;

/* Reads an InferInputTensor.  */
static wm_ks_code_t take_input (wm_infer_t *self, const wm_field_t *message,
                                wm_kserve_tensor_t *tensor, source_t *source, wm_ks_error_t *error)
{
    wm_proto_t in = wm_proto_of (message->data, message->bytes);
    wm_field_t field;
    slice_t name = { 0 }, type = { 0 };
    char *type_name = NULL;
    uint32_t none;
    wm_ks_code_t code = WM_KS_OK;
    *source = (source_t){ 0 };
    while (!code && wm_proto_next (&in, &field)) {
        if (is (&field, 1, WM_WIRE_BYTES))
            name = slice (&field);
        else if (is (&field, 2, WM_WIRE_BYTES))
            type = slice (&field);
        else if (field.tag == 3 && !take_shape (tensor, &field))
            code = wm_ks_fail (error, WM_KS_INVALID,
                               "the shape of an input is malformed, or of more than %d dimensions",
                               WM_TENSOR_DIM_MAX);
        else if (is (&field, 4, WM_WIRE_BYTES))
            code = tensor_parameter (self, &field, &source->wish, &none, error);
        else if (is (&field, 5, WM_WIRE_BYTES))
            source->contents = slice (&field);
    }
    if (!code && in.is_bad)
        code = malformed (error, "an input");
    if (!code)
        code = keep (self, &tensor->name, name, "the name of an input", error);
    if (!code)
        code = keep (self, &type_name, type, "the data type of an input", error);
    if (code)
        return code;
    tensor->type = wm_type_of_name (type_name);
    if (tensor->type == WM_TYPES)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "invalid datatype '%.40s' for input '%.100s': KServe has BOOL, INT8 to "
                           "INT64, UINT8 to UINT64, FP16, FP32, FP64, BF16, BYTES",
                           type_name, tensor->name);
    return WM_KS_OK;
}

static wm_ks_code_t take_output (wm_infer_t *self, const wm_field_t *message, uint32_t output,
                                 wm_ks_error_t *error)
{
    wm_shared_wish_t wish = { 0 };
    wm_proto_t in = wm_proto_of (message->data, message->bytes);
    wm_field_t field;
    slice_t text = { 0 };
    wm_ks_code_t code = WM_KS_OK;
    while (!code && wm_proto_next (&in, &field)) {
        if (is (&field, 1, WM_WIRE_BYTES))
            text = slice (&field);
        else if (is (&field, 2, WM_WIRE_BYTES))
            code = tensor_parameter (self, &field, &wish, &self->request.n_class[output], error);
    }
    if (!code && in.is_bad)
        code = malformed (error, "a requested output");
    if (!code)
        code = keep (self, &self->request.output[output], text, "the name of an output", error);
    return code ? code : wm_infer_share_output (self, output, &wish, error);
}

/* The parts of a request, before there is memory for them.  */
typedef struct {
    slice_t model, version, id;
    uint32_t n_input, n_output, n_raw;
} parts_t;

static bool count_parts (wm_proto_t in, parts_t *parts)
{
    wm_field_t field;
    *parts = (parts_t){ 0 };
    while (wm_proto_next (&in, &field)) {
        if (field.wire != WM_WIRE_BYTES)
            continue;
        slice_t *text[] = { NULL, &parts->model, &parts->version, &parts->id };
        if (field.tag <= 3)
            *text[field.tag] = slice (&field);
        parts->n_input += field.tag == 5;
        parts->n_output += field.tag == 6;
        parts->n_raw += field.tag == 7;
    }
    return !in.is_bad;
}

static wm_ks_code_t take_names (wm_infer_t *self, const parts_t *parts, wm_ks_error_t *error)
{
    wm_ks_request_t *request = &self->request;
    wm_ks_code_t code = keep (self, &request->id, parts->id, "the request's id", error);
    if (!code)
        code = keep (self, &request->model, parts->model, "the model's name", error);
    if (!code)
        code = keep (self, &request->version, parts->version, "the model's version", error);
    if (!code && (parts->n_input > WM_INFER_TENSORS_MAX || parts->n_output > WM_INFER_TENSORS_MAX ||
                  parts->n_raw > WM_INFER_TENSORS_MAX))
        code = wm_ks_fail (error, WM_KS_INVALID, "a request has at most %d inputs and outputs",
                           WM_INFER_TENSORS_MAX);
    return code;
}

/* Finds where each input's data is: in its region, in `contents`, or in the next of raw.  */
static wm_ks_code_t take_data (wm_infer_t *self, const source_t *source, const slice_t *raw,
                               uint32_t n_raw, wm_ks_error_t *error)
{
    const wm_ks_request_t *request = &self->request;
    wm_ks_code_t code = WM_KS_OK;
    uint32_t n_wanted = request->n_input, at = 0;
    for (uint32_t i = 0; i < request->n_input; i++)
        n_wanted -= source[i].wish.region != NULL;
    if (n_raw && n_raw != n_wanted)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "expected %u raw input contents but got %u for model '%.100s'", n_wanted,
                           n_raw, request->model);
    for (uint32_t i = 0; !code && i < request->n_input; i++) {
        wm_kserve_tensor_t *tensor = &request->input[i];
        if (source[i].contents.data && (n_raw || source[i].wish.region))
            code = wm_ks_fail (error, WM_KS_INVALID,
                               "contents field must not be specified when using %s for '%.100s' "
                               "for model '%.100s'",
                               source[i].wish.region ? "shared memory" : "raw_input_contents",
                               tensor->name, request->model);
        else if (source[i].wish.region)
            code = wm_infer_share_input (self, tensor, &source[i].wish, error);
        else if (n_raw) {
            tensor->data = raw[at].data;
            tensor->bytes = raw[at++].bytes;
        } else
            code = count_contents (self, tensor, source[i].contents, error);
        if (!code)
            code = wm_infer_check (request, tensor, error);
    }
    return code;
}

wm_ks_code_t wm_infer_decode (wm_infer_t *self, const void *data, size_t bytes,
                              wm_ks_error_t *error)
{
    wm_ks_request_t *request = &self->request;
    wm_proto_t in = wm_proto_of (data, bytes);
    wm_field_t field;
    parts_t parts;
    source_t source[WM_INFER_TENSORS_MAX];
    request->model = request->version = request->id = "";
    wm_infer_begin (self);
    if (!count_parts (in, &parts))
        return malformed (error, "this ModelInferRequest");
    wm_ks_code_t code = take_names (self, &parts, error);
    if (code)
        return code;
    request->input = wm_infer_alloc (self, parts.n_input * sizeof *request->input);
    request->output = wm_infer_alloc (self, parts.n_output * sizeof *request->output);
    request->n_class = wm_infer_alloc (self, parts.n_output * sizeof *request->n_class);
    self->values = wm_infer_alloc (self, parts.n_input * sizeof *self->values);
    self->read = read_contents;
    uint32_t n_raw = 0;
    slice_t raw[WM_INFER_TENSORS_MAX];
    while (!code && wm_proto_next (&in, &field)) {
        if (is (&field, 4, WM_WIRE_BYTES))
            code = request_parameter (self, &field, error);
        else if (is (&field, 5, WM_WIRE_BYTES)) {
            const uint32_t i = request->n_input++;
            code = take_input (self, &field, &request->input[i], &source[i], error);
        } else if (is (&field, 6, WM_WIRE_BYTES))
            code = take_output (self, &field, request->n_output++, error);
        else if (is (&field, 7, WM_WIRE_BYTES))
            raw[n_raw++] = slice (&field);
    }
    return code ? code : take_data (self, source, raw, n_raw, error);
}

/* ---- the response ---------------------------------------------------------------------------- */

static void put_output (wm_buffer_t *to, const wm_kserve_tensor_t *tensor)
{
    wm_buffer_t inner = { 0 }, shape = { 0 };
    wm_proto_put_text (&inner, 1, tensor->name);
    wm_proto_put_text (&inner, 2, wm_type_name (tensor->type));
    for (uint32_t i = 0; i < tensor->n_dim; i++)
        wm_proto_put_varint (&shape, (uint64_t) tensor->dim[i]);
    if (tensor->n_dim)
        wm_proto_put_bytes (&inner, 3, shape.data, shape.bytes);
    wm_proto_put_bytes (to, 5, inner.data, inner.bytes);
    free (inner.data);
    free (shape.data);
}

size_t wm_infer_encode (wm_buffer_t *to, const wm_infer_t *infer, const wm_ks_answer_t *answer,
                        wm_piece_t piece[])
{
    const wm_ks_request_t *request = &infer->request;
    size_t bytes = 0;
    wm_proto_put_text (to, 1, answer->model);
    wm_proto_put_text (to, 2, answer->version);
    wm_proto_put_text (to, 3, request->id);
    if (answer->n_held) { /* map entry: key 1, value 2 (InferParameter: int64_param 2) */
        wm_buffer_t entry = { 0 }, value = { 0 };
        wm_proto_put_text (&entry, 1, "wiremill_held");
        wm_proto_put_number (&value, 2, answer->n_held);
        wm_proto_put_bytes (&entry, 2, value.data, value.bytes);
        wm_proto_put_bytes (to, 4, entry.data, entry.bytes);
        free (entry.data);
        free (value.data);
    }
    for (uint32_t i = 0; i < answer->n_output; i++)
        put_output (to, &answer->output[i]);
    for (uint32_t i = 0; i < answer->n_output; i++) { /* one for each output, as Triton has it */
        wm_kserve_tensor_t *tensor = &answer->output[i];
        const bool is_shared = wm_infer_shared_out (infer, i);
        wm_proto_put_head (to, 6, is_shared ? 0 : tensor->bytes);
        piece[i] = (wm_piece_t){ .before = to->bytes };
        if (is_shared)
            continue;
        piece[i].data = (uint8_t *) (uintptr_t) tensor->data;
        bytes += piece[i].bytes = tensor->bytes;
        tensor->data = NULL;
    }
    return bytes;
}
