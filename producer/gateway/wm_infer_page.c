/* wm_infer_page.c - responses as KServe's HTTP API has them: JSON, and behind it the bytes of
   tensors.

   Values in JSON take some 30 ns a byte: large answers are written a slice at a time.  */
#include "producer/serving/wm_infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* JSON has no NaN: null, which clients in Python make NaN again; nor an infinity: Triton's word, as
   its clients refuse a number that overflows. A "-0" would be read as an integer, without its
   sign.  */
static void put_real (wm_buffer_t *to, double value, int digits)
{
    char text[40];
    if (isnan (value))
        put_text (to, "null");
    else if (isinf (value))
        put_text (to, value < 0 ? "-Infinity" : "Infinity");
    else if (value == 0 && signbit (value))
        put_text (to, "-0.0");
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

/* Appends one value, and returns its bytes in the tensor.  */
static size_t put_value (wm_buffer_t *to, wm_type_t type, const uint8_t *at)
{
    float single;
    double real;
    uint32_t n;
    if (type == WM_TYPE_FP32) {
        memcpy (&single, at, sizeof single);
        put_real (to, (double) single, 9);
    } else if (type == WM_TYPE_FP64) {
        memcpy (&real, at, sizeof real);
        put_real (to, real, 17);
    } else if (type == WM_TYPE_BYTES) {
        memcpy (&n, at, sizeof n);
        put_string (to, (const char *) at + sizeof n, n);
        return sizeof n + n;
    } else
        put_number (to, type, at);
    return wm_type_bytes (type);
}

/* Appends values of a tensor from *at on, as one flat array, until *left bytes are written.  */
static bool put_data (wm_buffer_t *to, const wm_kserve_tensor_t *tensor, size_t *at, size_t *left)
{
    const size_t before = to->bytes;
    while (*at < tensor->bytes && to->bytes - before < *left) {
        put_text (to, *at ? "," : "[");
        *at += put_value (to, tensor->type, tensor->data + *at);
    }
    const size_t n = to->bytes - before;
    *left -= n < *left ? n : *left;
    if (*at < tensor->bytes)
        return true;
    put_text (to, tensor->bytes ? "]}" : "[]}");
    return false;
}

/* Where the values of an output are. Of those in shared memory Triton's clients want no word.  */
typedef enum { IN_JSON, IN_BINARY, IN_SHARED } place_t;

/* Appends what is known of an output, up to its data.  */
static void put_output (wm_buffer_t *to, const wm_kserve_tensor_t *tensor, place_t place)
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
    if (place == IN_SHARED)
        put_text (to, "]}");
    else if (place == IN_JSON)
        put_text (to, "],\"data\":");
    else {
        snprintf (text, sizeof text, "],\"parameters\":{\"binary_data_size\":%zu}}", tensor->bytes);
        put_text (to, text);
    }
}

static place_t place_of (const wm_infer_t *infer, uint32_t output)
{
    if (wm_infer_shared_out (infer, output))
        return IN_SHARED;
    return (infer->request.n_output ? infer->is_json[output] : infer->all_json) ? IN_JSON
                                                                                : IN_BINARY;
}

wm_ks_code_t wm_infer_page (wm_infer_page_t *self, const wm_infer_t *infer,
                            const wm_ks_answer_t *answer, wm_ks_error_t *error)
{
    const char *id = infer->request.id;
    wm_buffer_t *to = &self->to;
    char text[64];
    *self = (wm_infer_page_t){ .infer = infer, .answer = answer, .json_bytes = SIZE_MAX };
    for (uint32_t i = 0; i < answer->n_output; i++) {
        const wm_kserve_tensor_t *tensor = &answer->output[i];
        if (place_of (infer, i) == IN_JSON &&
            (tensor->type == WM_TYPE_FP16 || tensor->type == WM_TYPE_BF16))
            return wm_ks_fail (error, WM_KS_INVALID,
                               "JSON has no %s: ask for output '%.100s' with 'binary_data': true",
                               wm_type_name (tensor->type), tensor->name);
    }
    put_text (to, "{\"model_name\":");
    put_string (to, answer->model, strlen (answer->model));
    put_text (to, ",\"model_version\":");
    put_string (to, answer->version, strlen (answer->version));
    if (*id) {
        put_text (to, ",\"id\":");
        put_string (to, id, strlen (id));
    }
    if (answer->n_held) {
        snprintf (text, sizeof text, ",\"parameters\":{\"wiremill_held\":%u}", answer->n_held);
        put_text (to, text);
    }
    put_text (to, ",\"outputs\":[");
    return WM_KS_OK;
}

/* Appends the values of binary outputs until *left bytes are written.  */
static bool put_binary (wm_infer_page_t *self, size_t *left)
{
    const wm_ks_answer_t *answer = self->answer;
    for (uint32_t i; (i = self->n_written - answer->n_output) < answer->n_output;
         self->n_written++, self->at = 0) {
        const wm_kserve_tensor_t *tensor = &answer->output[i];
        const size_t more = place_of (self->infer, i) == IN_BINARY ? tensor->bytes - self->at : 0,
                     n = more < *left ? more : *left;
        if (n)
            wm_buffer_put (&self->to, tensor->data + self->at, n);
        self->at += n;
        *left -= n;
        if (n < more)
            return true;
    }
    return false;
}

bool wm_infer_write (wm_infer_page_t *self, size_t *left)
{
    const wm_ks_answer_t *answer = self->answer;
    for (; self->n_written < answer->n_output; self->n_written++) {
        const wm_kserve_tensor_t *tensor = &answer->output[self->n_written];
        const place_t place = place_of (self->infer, self->n_written);
        if (!self->is_begun) {
            put_text (&self->to, self->n_written ? "," : "");
            put_output (&self->to, tensor, place);
            self->is_begun = true;
            self->at = 0;
        }
        if (place == IN_JSON && put_data (&self->to, tensor, &self->at, left))
            return true;
        self->is_begun = false;
    }
    if (self->n_written == answer->n_output && !self->is_begun) {
        size_t bytes = 0;
        bool has_binary = false;
        put_text (&self->to, "]}");
        for (uint32_t i = 0; i < answer->n_output; i++)
            if (place_of (self->infer, i) == IN_BINARY) {
                has_binary = true;
                bytes += answer->output[i].bytes;
            }
        self->json_bytes = has_binary ? self->to.bytes : SIZE_MAX;
        self->is_begun = true;
        self->at = 0;
        wm_buffer_room (&self->to, bytes + 1);
    }
    return put_binary (self, left);
}

size_t wm_infer_text_bytes (const wm_infer_t *infer, const wm_ks_answer_t *answer)
{
    static const uint8_t most[WM_TYPES] = {
        [WM_TYPE_BOOL] = 6,  [WM_TYPE_UINT8] = 4,   [WM_TYPE_UINT16] = 6, [WM_TYPE_UINT32] = 11,
        [WM_TYPE_INT8] = 5,  [WM_TYPE_INT16] = 7,   [WM_TYPE_INT32] = 12, [WM_TYPE_INT64] = 21,
        [WM_TYPE_FP32] = 16, [WM_TYPE_UINT64] = 21, [WM_TYPE_FP64] = 25,  [WM_TYPE_BYTES] = 6,
    };
    size_t bytes = 0;
    for (uint32_t i = 0; i < answer->n_output; i++) {
        const wm_kserve_tensor_t *tensor = &answer->output[i];
        const size_t size = tensor->type == WM_TYPE_BYTES ? 1 : wm_type_bytes (tensor->type);
        const place_t place = place_of (infer, i);
        bytes += place == IN_JSON     ? tensor->bytes / size * most[tensor->type]
                 : place == IN_BINARY ? tensor->bytes
                                      : 0;
    }
    return bytes;
}

const wm_ks_answer_t *wm_infer_keep (wm_infer_t *self, const wm_ks_answer_t *answer)
{
    wm_ks_answer_t *kept = wm_infer_alloc (self, sizeof *kept);
    *kept = *answer;
    kept->output = wm_infer_alloc (self, answer->n_output * sizeof *kept->output);
    for (uint32_t i = 0; i < answer->n_output; i++) {
        const char *name = answer->output[i].name;
        kept->output[i] = answer->output[i];
        kept->output[i].name = wm_infer_text (self, name, strlen (name));
        answer->output[i].data = NULL;
    }
    kept->model = wm_infer_text (self, answer->model, strlen (answer->model));
    kept->version = wm_infer_text (self, answer->version, strlen (answer->version));
    return self->answer = kept;
}
