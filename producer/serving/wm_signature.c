/* wm_signature.c - see wm_signature.h.  */
#include "producer/serving/wm_signature_private.h"
#include "schema/wm_exact.h"

#include <czmq.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void wm_signature_add (wm_signature_t *self, bool is_output, const char *name, wm_type_t type,
                       uint32_t n_dim, const uint32_t *dim)
{
    uint32_t *n = is_output ? &self->n_output : &self->n_input;
    uint32_t *all = is_output ? &self->n_score : &self->n_value;
    wm_signature_port_t *port = &(is_output ? self->output : self->input)[(*n)++];
    *port = (wm_signature_port_t){
        .type = type, .n_dim = n_dim, .n_model = n_dim, .n_value = 1, .at = *all
    };
    snprintf (port->name, sizeof port->name, "%s", name);
    for (uint32_t d = 0; d < n_dim; d++) {
        port->dim[d] = port->model[d] = dim[d] ? (int64_t) dim[d] : -1;
        port->n_value *= dim[d];
        self->is_ragged |= !dim[d];
    }
    *all += port->n_value;
}

void wm_signature_carry (wm_signature_t *self, bool is_output, int type)
{
    wm_signature_port_t *port =
        is_output ? &self->output[self->n_output - 1] : &self->input[self->n_input - 1];
    port->exact = type;
    *(is_output ? &self->n_score : &self->n_value) += port->n_value * (wm_exact_each (type) - 1);
}

/* ---- what a request means -------------------------------------------------------------------- */

const char *wm_signature_shape (char text[WM_SIGNATURE_SHAPE_BYTES], bool has_rows, uint32_t n_dim,
                                const int64_t *dim)
{
    int n = sprintf (text, "[%s", has_rows ? "-1" : "");
    for (uint32_t d = 0; d < n_dim; d++)
        n += sprintf (text + n, "%s%" PRId64, d || has_rows ? "," : "", dim[d]);
    strcpy (text + n, "]");
    return text;
}

size_t wm_signature_row_values (const wm_signature_t *self, const wm_signature_port_t *port,
                                const wm_kserve_tensor_t *tensor)
{
    size_t n = 1;
    if (!self->is_ragged)
        return port->n_value;
    for (uint32_t d = !self->is_whole; d < tensor->n_dim; d++)
        n *= (size_t) tensor->dim[d]; /* the transport has checked their product */
    return n;
}

static wm_ks_code_t check_input (const wm_signature_t *self, const wm_signature_port_t *port,
                                 const wm_kserve_tensor_t *tensor, const char *model,
                                 uint32_t *n_row, wm_ks_error_t *error)
{
    char expected[WM_SIGNATURE_SHAPE_BYTES], got[WM_SIGNATURE_SHAPE_BYTES];
    if (tensor->type != port->type)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "inference input '%s' data-type is '%s', but model '%s' expects '%s'",
                           tensor->name, wm_type_name (tensor->type), model,
                           wm_type_name (port->type));
    const uint32_t first = !self->is_whole;
    bool fits = tensor->n_dim == port->n_dim + first;
    for (uint32_t d = 0; d < port->n_dim && fits; d++)
        fits = tensor->dim[d + first] == port->dim[d] || port->dim[d] < 0;
    if (!fits)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "unexpected shape for input '%s' for model '%s'. Expected %s, got %s",
                           tensor->name, model,
                           wm_signature_shape (expected, first, port->n_dim, port->dim),
                           wm_signature_shape (got, false, tensor->n_dim, tensor->dim));
    const int64_t rows = first ? tensor->dim[0] : 1;
    if (rows > UINT32_MAX / 2 || (*n_row != UINT32_MAX && rows != *n_row))
        return wm_ks_fail (error, WM_KS_INVALID,
                           "input '%s' batch size does not match other inputs for '%s'",
                           tensor->name, model);
    *n_row = (uint32_t) rows;
    const size_t bytes =
        (size_t) rows * wm_signature_row_values (self, port, tensor) * wm_type_bytes (port->type);
    return tensor->bytes == bytes
               ? WM_KS_OK
               : wm_ks_fail (error, WM_KS_INVALID,
                             "input byte size mismatch for input '%s' for model '%s'. Expected "
                             "%zu, got %zu",
                             tensor->name, model, bytes, tensor->bytes);
}

static wm_ks_code_t plan_inputs (const wm_signature_t *self, const wm_ks_request_t *request,
                                 wm_tensor_plan_t *plan, wm_ks_error_t *error)
{
    if (request->n_input != self->n_input)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "expected %u inputs but got %u inputs for model '%s'", self->n_input,
                           request->n_input, request->model);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < request->n_input; i++) {
        const wm_kserve_tensor_t *tensor = &request->input[i];
        uint32_t p = 0;
        while (p < self->n_input && strcmp (self->input[p].name, tensor->name) != 0)
            p++;
        if (p == self->n_input)
            return wm_ks_fail (error, WM_KS_INVALID,
                               "unexpected inference input '%.120s' for model '%s'", tensor->name,
                               request->model);
        if (seen >> p & 1)
            return wm_ks_fail (error, WM_KS_INVALID, "input '%s' already exists in request",
                               tensor->name);
        seen |= 1u << p;
        plan->input[p] = (uint8_t) i;
        const wm_ks_code_t code =
            check_input (self, &self->input[p], tensor, request->model, &plan->n_row, error);
        if (code)
            return code;
    }
    return WM_KS_OK;
}

wm_ks_code_t wm_signature_plan (const wm_signature_t *self, const wm_ks_request_t *request,
                                wm_tensor_plan_t *plan, wm_ks_error_t *error)
{
    *plan = (wm_tensor_plan_t){ .n_row = UINT32_MAX };
    if (request->n_input > WM_SIGNATURE_PORTS_MAX || request->n_output > WM_SIGNATURE_PORTS_MAX)
        return wm_ks_fail (error, WM_KS_INVALID, "more than %d inputs or outputs for model '%s'",
                           WM_SIGNATURE_PORTS_MAX, request->model);
    const wm_ks_code_t code = plan_inputs (self, request, plan, error);
    if (code)
        return code;
    plan->n_output = request->n_output ? request->n_output : self->n_output;
    uint32_t asked = 0;
    for (uint32_t i = 0; i < plan->n_output; i++) {
        uint32_t p = request->n_output ? 0 : i;
        while (request->n_output && p < self->n_output &&
               strcmp (self->output[p].name, request->output[i]) != 0)
            p++;
        if (p == self->n_output)
            return wm_ks_fail (error, WM_KS_INVALID,
                               "unexpected inference output '%.120s' for model '%s'",
                               request->output[i], request->model);
        if (asked >> p & 1)
            return wm_ks_fail (error, WM_KS_INVALID, "output '%s' already exists in request",
                               request->output[i]);
        asked |= 1u << p;
        plan->output[i] = (uint8_t) p;
        plan->n_class[i] = request->n_output && request->n_class ? request->n_class[i] : 0;
        if (plan->n_class[i] && !wm_classify_has (self->output[p].type))
            return wm_ks_fail (error, WM_KS_INVALID,
                               "class result not available for output '%s' of model '%s' due to "
                               "unsupported type '%s'",
                               self->output[p].name, request->model,
                               wm_type_name (self->output[p].type));
    }
    return WM_KS_OK;
}

wm_ks_code_t wm_signature_raw (const wm_signature_t *self, const char *model, size_t bytes,
                               wm_kserve_tensor_t *tensor, wm_ks_error_t *error)
{
    const wm_signature_port_t *port = &self->input[0];
    const uint32_t first = !self->is_whole;
    size_t fixed = wm_type_bytes (port->type);
    uint32_t n_free = 0, free_at = 0;
    *tensor = (wm_kserve_tensor_t){ .name = (char *) (uintptr_t) port->name,
                                    .type = port->type,
                                    .n_dim = port->n_dim + first,
                                    .dim = { 1 },
                                    .bytes = bytes };
    for (uint32_t d = 0; d < port->n_dim; d++) {
        tensor->dim[d + first] = port->dim[d];
        if (port->dim[d] >= 0)
            fixed *= (size_t) port->dim[d];
        else {
            n_free++;
            free_at = d + first;
        }
    }
    if (self->n_input != 1)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "Raw request must only have 1 input (found 1) to be deduced but got %u "
                           "inputs in '%s' model configuration: send JSON before the bytes",
                           self->n_input, model);
    if (n_free > 1)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "The shape of the raw input '%s' can not be deduced because there are "
                           "more than one variable-sized dimension: send JSON before the bytes",
                           port->name);
    if (n_free && bytes % fixed)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "input byte size mismatch for input '%s' for model '%s'. Expected a "
                           "multiple of %zu, got %zu",
                           port->name, model, fixed, bytes);
    if (n_free)
        tensor->dim[free_at] = (int64_t) (bytes / fixed);
    return WM_KS_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

static float half_to_float (uint16_t half)
{
    const uint32_t sign = (uint32_t) (half & 0x8000u) << 16, exponent = half >> 10 & 31;
    const uint32_t mantissa = half & 0x3ffu;
    uint32_t bits = sign | (exponent + 112) << 23 | mantissa << 13;
    float value;
    if (exponent == 31)
        bits = sign | 0x7f800000u | mantissa << 13;
    memcpy (&value, &bits, sizeof value);
    if (exponent == 0) {
        value = (float) mantissa * 0x1p-24f;
        return sign ? -value : value;
    }
    return value;
}

/* Rounds to nearest, ties to even.  */
static uint16_t float_to_half (float value)
{
    uint32_t bits;
    memcpy (&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t) (bits >> 16 & 0x8000u);
    const uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return sign | 0x7e00u;
    if (size >= 0x477ff000u)
        return sign | 0x7c00u; /* rounds beyond 65,504 */
    if (size < 0x38800000u)    /* below 2^-14: a multiple of 2^-24 */
        return (uint16_t) (sign | (uint16_t) lrintf (fabsf (value) * 0x1p24f));
    const uint32_t rounded = size + 0xfffu + (size >> 13 & 1);
    return (uint16_t) (sign | (uint16_t) ((rounded - (112u << 23)) >> 13));
}

/* As above; bfloat16 is the first half of a float.  */
static uint16_t float_to_bf16 (float value)
{
    uint32_t bits;
    memcpy (&bits, &value, sizeof bits);
    if (isnan (value))
        return (uint16_t) (bits >> 16 | 0x40u);
    return (uint16_t) ((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

#define TAKE(type_, from, i, value)                                                                \
    do {                                                                                           \
        type_ one_;                                                                                \
        memcpy (&one_, (from) + (i) * sizeof one_, sizeof one_);                                   \
        (value) = (double) one_;                                                                   \
    } while (0)

double wm_signature_value (wm_type_t type, const uint8_t *from, size_t i)
{
    double value = 0;
    uint16_t half;
    uint32_t bits;
    float one;
    switch (type) {
    case WM_TYPE_BOOL:
        return from[i] != 0;
    case WM_TYPE_UINT8:
        return from[i];
    case WM_TYPE_UINT16:
        TAKE (uint16_t, from, i, value);
        return value;
    case WM_TYPE_UINT32:
        TAKE (uint32_t, from, i, value);
        return value;
    case WM_TYPE_UINT64:
        TAKE (uint64_t, from, i, value);
        return value;
    case WM_TYPE_INT8:
        TAKE (int8_t, from, i, value);
        return value;
    case WM_TYPE_INT16:
        TAKE (int16_t, from, i, value);
        return value;
    case WM_TYPE_INT32:
        TAKE (int32_t, from, i, value);
        return value;
    case WM_TYPE_INT64:
        TAKE (int64_t, from, i, value);
        return value;
    case WM_TYPE_FP16:
        memcpy (&half, from + 2 * i, sizeof half);
        return (double) half_to_float (half);
    case WM_TYPE_BF16:
        memcpy (&half, from + 2 * i, sizeof half);
        bits = (uint32_t) half << 16;
        memcpy (&one, &bits, sizeof one);
        return (double) one;
    case WM_TYPE_FP64:
        TAKE (double, from, i, value);
        return value;
    default:
        TAKE (float, from, i, value);
        return value;
    }
}

/* Returns why an engine would compute with another value, or NULL. Integers up to 2^24 are exact in
   float32, and larger ones that end in zeros.  */
static const char *why_inexact (wm_type_t type, const uint8_t *from, size_t i)
{
    const double value = wm_signature_value (type, from, i);
    const bool is_long = type == WM_TYPE_INT64 || type == WM_TYPE_UINT64 || type == WM_TYPE_UINT32;
    if (isnan (value))
        return NULL;
    if ((double) (float) value != value)
        return "is not one that FP32 holds, in which wiremill computes";
    if (is_long && (value < -0x1p31 || value >= 0x1p31))
        return "lies outside -2147483648 to 2147483647: OpenVINO computes integers in 32 bits";
    return NULL;
}

wm_ks_code_t wm_signature_exact (const wm_signature_t *self, const wm_ks_request_t *request,
                                 const wm_tensor_plan_t *plan, wm_ks_error_t *error)
{
    for (uint32_t p = 0; p < self->n_input; p++) {
        const wm_signature_port_t *port = &self->input[p];
        const wm_kserve_tensor_t *tensor = &request->input[plan->input[p]];
        if (wm_type_bytes (port->type) < 4 || port->type == WM_TYPE_FP32 || port->exact)
            continue;
        const size_t n = plan->n_row * wm_signature_row_values (self, port, tensor);
        for (size_t i = 0; i < n; i++) {
            const char *why = why_inexact (port->type, tensor->data, i);
            if (why)
                return wm_ks_fail (error, WM_KS_INVALID,
                                   "input '%s' of model '%s': value %zu, %.17g, %s", port->name,
                                   request->model, i,
                                   wm_signature_value (port->type, tensor->data, i), why);
        }
    }
    return WM_KS_OK;
}

bool wm_signature_takes (const wm_signature_t *self, const float *value, size_t n)
{
    const uint32_t most = self->takes_infinite ? 0x7f800000u : 0x7f7fffffu;
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy (&bits, &value[i], sizeof bits);
        bad |= (bits & 0x7fffffffu) > most;
    }
    return !bad;
}

void wm_signature_load (const wm_signature_port_t *port, const uint8_t *from, size_t n, float *to)
{
    if (port->exact)
        wm_exact_put (port->exact, from, n, to);
    else if (port->type == WM_TYPE_FP32 && n)
        memcpy (to, from, n * sizeof *to);
    else
        for (size_t i = 0; i < n; i++)
            to[i] = (float) wm_signature_value (port->type, from, i);
}

bool wm_signature_row (const wm_signature_t *self, const wm_ks_request_t *request,
                       const wm_tensor_plan_t *plan, uint32_t row, float *to)
{
    for (uint32_t p = 0; p < self->n_input; p++) {
        const wm_signature_port_t *port = &self->input[p];
        const size_t n = port->n_value, bytes = n * wm_type_bytes (port->type);
        const uint8_t *from = request->input[plan->input[p]].data + row * bytes;
        wm_signature_load (port, from, n, to + port->at);
    }
    return wm_signature_takes (self, to, self->n_value);
}

/* ---- answers --------------------------------------------------------------------------------- */

#define PUT(type_, to, i, value)                                                                   \
    do {                                                                                           \
        const type_ one_ = (type_) (value);                                                        \
        memcpy ((to) + (i) * sizeof one_, &one_, sizeof one_);                                     \
    } while (0)

static double within (double value, double least, double most)
{
    return isnan (value) ? 0 : value < least ? least : value > most ? most : nearbyint (value);
}

void wm_signature_put_value (wm_type_t type, uint8_t *to, size_t i, float score)
{
    const double value = (double) score;
    switch (type) {
    case WM_TYPE_BOOL:
        to[i] = !isnan (value) && value != 0;
        return;
    case WM_TYPE_UINT8:
        to[i] = (uint8_t) within (value, 0, UINT8_MAX);
        return;
    case WM_TYPE_UINT16:
        PUT (uint16_t, to, i, within (value, 0, UINT16_MAX));
        return;
    case WM_TYPE_UINT32:
        PUT (uint32_t, to, i, within (value, 0, UINT32_MAX));
        return;
    case WM_TYPE_UINT64:
        PUT (uint64_t, to, i, within (value, 0, 0x1.fffffep63));
        return;
    case WM_TYPE_INT8:
        PUT (int8_t, to, i, within (value, INT8_MIN, INT8_MAX));
        return;
    case WM_TYPE_INT16:
        PUT (int16_t, to, i, within (value, INT16_MIN, INT16_MAX));
        return;
    case WM_TYPE_INT32:
        PUT (int32_t, to, i, within (value, INT32_MIN, INT32_MAX));
        return;
    case WM_TYPE_INT64:
        PUT (int64_t, to, i, within (value, -0x1p63, 0x1.fffffep62));
        return;
    case WM_TYPE_FP16: {
        const uint16_t half = float_to_half (score);
        memcpy (to + 2 * i, &half, sizeof half);
        return;
    }
    case WM_TYPE_FP64:
        PUT (double, to, i, value);
        return;
    case WM_TYPE_BF16: {
        const uint16_t half = float_to_bf16 (score);
        memcpy (to + 2 * i, &half, sizeof half);
        return;
    }
    default:
        PUT (float, to, i, score);
        return;
    }
}

void wm_signature_store (const wm_signature_port_t *port, const float *score, size_t n, uint8_t *to)
{
    if (port->exact)
        wm_exact_take (port->exact, score, n, to);
    else if (port->type == WM_TYPE_FP32 && n)
        memcpy (to, score, n * sizeof *score);
    else
        for (size_t i = 0; i < n; i++)
            wm_signature_put_value (port->type, to, i, score[i]);
}

bool wm_signature_is_unsure (wm_type_t type, const float *score, size_t n)
{
    bool unsure = false;
    if (type != WM_TYPE_INT32 && type != WM_TYPE_INT64 && type != WM_TYPE_UINT32 &&
        type != WM_TYPE_UINT64)
        return false;
    for (size_t i = 0; i < n; i++)
        unsure |= fabsf (score[i]) >= 0x1p24f;
    return unsure;
}

wm_ks_code_t wm_signature_unsure (const wm_signature_port_t *port, const char *model, size_t row,
                                  wm_ks_error_t *error)
{
    return wm_ks_fail (error, WM_KS_INVALID,
                       "output '%s' of model '%s': row %zu has a number of 2^24 or more; FP32, in "
                       "which wiremill computes, may have rounded it",
                       port->name, model, row);
}

size_t wm_signature_answer_bytes (const wm_signature_t *self, const wm_tensor_plan_t *plan)
{
    size_t bytes = 0;
    for (uint32_t o = 0; o < plan->n_output; o++) {
        const wm_signature_port_t *port = &self->output[plan->output[o]];
        const size_t n_row = plan->n_row, n_value = port->n_value;
        const bool is_one = self->is_whole || self->has_all_dims;
        bytes += n_row * n_value * wm_type_bytes (port->type);
        if (plan->n_class[o])
            bytes += wm_classify_bytes (port->type, is_one ? 1 : n_row,
                                        is_one ? n_row * n_value : n_value, plan->n_class[o],
                                        port->labels);
    }
    return bytes;
}

bool wm_signature_begin (const wm_signature_t *self, const wm_tensor_plan_t *plan,
                         wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX])
{
    const uint32_t first = !self->is_whole;
    bool is_good = true;
    for (uint32_t o = 0; o < plan->n_output; o++) {
        const wm_signature_port_t *port = &self->output[plan->output[o]];
        wm_kserve_tensor_t *tensor = &output[o];
        *tensor = (wm_kserve_tensor_t){ .name = (char *) (uintptr_t) port->name,
                                        .type = port->type,
                                        .n_dim = port->n_dim + first };
        tensor->bytes = (size_t) plan->n_row * port->n_value * wm_type_bytes (port->type);
        if (first)
            tensor->dim[0] = plan->n_row;
        memcpy (tensor->dim + first, port->dim, port->n_dim * sizeof *port->dim);
        tensor->data = malloc (tensor->bytes + 1);
        is_good &= tensor->data != NULL;
    }
    return is_good;
}

/* Stores n values that are NaN.  */
static void store_nan (const wm_signature_port_t *port, size_t n, uint8_t *to)
{
    enum { BLOCK = 64 };
    float nan[BLOCK * 4]; /* a value is carried in four at most */
    for (size_t i = 0; i < BLOCK * 4; i++)
        nan[i] = NAN;
    for (size_t at = 0; at < n; at += BLOCK)
        wm_signature_store (port, nan, n - at < BLOCK ? n - at : BLOCK,
                            to + at * wm_type_bytes (port->type));
}

wm_ks_code_t wm_signature_put (const wm_signature_t *self, const wm_tensor_plan_t *plan,
                               const char *model, uint32_t row, const float *score,
                               const wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX],
                               wm_ks_error_t *error)
{
    wm_ks_code_t code = WM_KS_OK;
    for (uint32_t o = 0; o < plan->n_output; o++) {
        const wm_signature_port_t *port = &self->output[plan->output[o]];
        uint8_t *to = (uint8_t *) (uintptr_t) output[o].data +
                      (size_t) row * port->n_value * wm_type_bytes (port->type);
        if (!score)
            store_nan (port, port->n_value, to);
        else
            wm_signature_store (port, score + port->at, port->n_value, to);
        if (score && !code && wm_signature_is_unsure (port->type, score + port->at, port->n_value))
            code = wm_signature_unsure (port, model, row, error);
    }
    return code;
}

size_t wm_signature_class_bytes (const wm_signature_t *self, const wm_tensor_plan_t *plan,
                                 const wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX])
{
    const size_t n_list = self->is_whole || self->has_all_dims ? 1 : plan->n_row;
    size_t bytes = 0;
    for (uint32_t o = 0; o < plan->n_output; o++)
        if (plan->n_class[o] && n_list)
            bytes += wm_classify_bytes (output[o].type, n_list,
                                        output[o].bytes / wm_type_bytes (output[o].type) / n_list,
                                        plan->n_class[o], self->output[plan->output[o]].labels);
    return bytes;
}

bool wm_signature_classify (const wm_signature_t *self, const wm_tensor_plan_t *plan,
                            wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX],
                            wm_ranking_t *ranking, size_t *left)
{
    for (uint32_t o; (o = ranking->n_ranked) < plan->n_output; ranking->n_ranked++)
        if (plan->n_class[o] &&
            wm_classify (ranking, &output[o], !self->is_whole && !self->has_all_dims,
                         plan->n_class[o], self->output[plan->output[o]].labels, left))
            return true;
    return false;
}

void wm_signature_clear (const wm_tensor_plan_t *plan,
                         wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX])
{
    for (uint32_t o = 0; o < plan->n_output; o++) {
        free ((void *) (uintptr_t) output[o].data);
        output[o].data = NULL;
    }
}
