/* wm_classify.c - see wm_classify.h.

   The k highest of n values are kept in a heap, whose top is the lowest of them: k may be small and
   n millions.  */
#include "producer/serving/wm_classify.h"
#include "producer/net/wm_proto.h"
#include "schema/base/wm_text.h"

#include <czmq.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABELS_BYTES_MAX ((size_t) 16 << 20)
#define SINK_COST 256   /* of one in a large heap, whose memory is not near */
#define SCORE_BYTES 352 /* DBL_MAX has 309 digits, a sign, a point and six more */

/* ---- labels ---------------------------------------------------------------------------------- */

wm_labels_t *wm_labels_read (const char *path, wm_error_t *error)
{
    wm_labels_t *self = zmalloc (sizeof *self);
    size_t bytes, n = 0;
    if (wm_text_read (path, LABELS_BYTES_MAX, &self->text, &bytes, error)) {
        error->fault = error->fault == WM_EUSAGE ? WM_EBATCH : error->fault;
        free (self);
        return NULL;
    }
    for (size_t i = 0; i < bytes; i++)
        n += self->text[i] == '\n';
    self->line = zmalloc ((n + 1) * sizeof *self->line);
    for (char *at = self->text, *end = at + bytes; at < end; at++) {
        self->line[self->n++] = at;
        const size_t length = strcspn (at, "\n");
        self->longest = length > self->longest ? length : self->longest;
        if (!wm_text_is_utf8 (at, length)) {
            wm_fault (error, WM_EBATCH, "%.300s:%u: the label is not UTF-8", path, self->n);
            wm_labels_destroy (&self);
            return NULL;
        }
        at += length;
        *at = 0;
    }
    return self;
}

void wm_labels_destroy (wm_labels_t **self_p)
{
    if (*self_p) {
        free ((*self_p)->line);
        free ((*self_p)->text);
    }
    free (*self_p);
    *self_p = NULL;
}

static const char *label_of (const wm_labels_t *labels, size_t i)
{
    return labels && i < labels->n ? labels->line[i] : "";
}

/* ---- values ---------------------------------------------------------------------------------- */

bool wm_classify_has (wm_type_t type)
{
    return type != WM_TYPE_BOOL && type != WM_TYPE_FP16 && type != WM_TYPE_BF16 &&
           type != WM_TYPE_BYTES && type < WM_TYPES;
}

/* A value of a tensor, as it compares: one of the three is used, by the type.  */
typedef struct {
    double real;
    int64_t number;
    uint64_t natural;
} value_t;

static bool is_real (wm_type_t type)
{
    return type == WM_TYPE_FP32 || type == WM_TYPE_FP64;
}

static bool is_signed (wm_type_t type)
{
    return type >= WM_TYPE_INT8 && type <= WM_TYPE_INT64;
}

static value_t value_of (wm_type_t type, const uint8_t *data, size_t i)
{
    const size_t bytes = wm_type_bytes (type);
    value_t value = { 0 };
    float single;
    if (type == WM_TYPE_FP32) {
        memcpy (&single, data + i * bytes, bytes);
        value.real = (double) single;
    } else if (type == WM_TYPE_FP64)
        memcpy (&value.real, data + i * bytes, bytes);
    else
        memcpy (&value.natural, data + i * bytes, bytes);
    const int shift = (int) (64 - 8 * bytes);
    value.number = (int64_t) (value.natural << shift) >> shift;
    return value;
}

/* Whether the i-th value goes before the j-th.  */
static bool is_before (wm_type_t type, const uint8_t *data, size_t i, size_t j)
{
    const value_t a = value_of (type, data, i), b = value_of (type, data, j);
    const bool a_is_nan = is_real (type) && isnan (a.real);
    const bool b_is_nan = is_real (type) && isnan (b.real);
    if (a_is_nan != b_is_nan)
        return b_is_nan;
    if (is_real (type) && !a_is_nan && (a.real < b.real || a.real > b.real))
        return a.real > b.real;
    if (is_signed (type) && a.number != b.number)
        return a.number > b.number;
    if (!is_real (type) && !is_signed (type) && a.natural != b.natural)
        return a.natural > b.natural;
    return i < j;
}

/* ---- ranking --------------------------------------------------------------------------------- */

/* Moves the index at `at` down to its place in a heap of n, of which the first goes behind all.  */
static void sink (size_t *heap, size_t n, size_t at, wm_type_t type, const uint8_t *data)
{
    const size_t one = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && is_before (type, data, heap[child], heap[child + 1]))
            child++;
        if (is_before (type, data, heap[child], one))
            break;
        heap[at] = heap[child];
    }
    heap[at] = one;
}

static size_t print_score (char text[SCORE_BYTES], wm_type_t type, const uint8_t *data, size_t i)
{
    const value_t value = value_of (type, data, i);
    if (is_real (type))
        return (size_t) snprintf (text, SCORE_BYTES, "%f", value.real);
    if (is_signed (type))
        return (size_t) snprintf (text, SCORE_BYTES, "%" PRId64, value.number);
    return (size_t) snprintf (text, SCORE_BYTES, "%" PRIu64, value.natural);
}

static void put (wm_buffer_t *to, wm_type_t type, const uint8_t *data, size_t i, const char *label)
{
    char text[SCORE_BYTES + 24];
    size_t n = print_score (text, type, data, i);
    n += (size_t) sprintf (text + n, ":%zu%s", i, *label ? ":" : "");
    const uint32_t length = (uint32_t) (n + strlen (label));
    wm_buffer_put (to, &length, sizeof length);
    wm_buffer_put (to, text, n);
    wm_buffer_put (to, label, strlen (label));
}

size_t wm_classify_bytes (wm_type_t type, size_t n_list, size_t n_value, uint32_t k,
                          const wm_labels_t *labels)
{
    const size_t score = type == WM_TYPE_FP64 ? SCORE_BYTES : type == WM_TYPE_FP32 ? 48 : 21;
    const size_t each = sizeof (uint32_t) + score + 8 + (labels ? labels->longest + 1 : 0);
    return (n_list * each + sizeof (size_t)) * (k < n_value ? k : n_value);
}

/* What is done of a list, one after another.  */
enum { FILL, HEAP, SCAN, SORT, PRINT, PHASES };

static size_t steps_of (int phase, size_t k, size_t n)
{
    const size_t steps[PHASES] = { k, k / 2, k ? n - k : 0, k ? k - 1 : 0, k };
    return steps[phase];
}

/* One step towards the k highest of n values in their order. Returns what it cost.  */
static size_t step (wm_ranking_t *self, size_t k, wm_type_t type, const uint8_t *data,
                    const wm_labels_t *labels)
{
    size_t *index = self->index;
    const size_t at = self->at, last = k - 1 - at;
    switch (self->phase) {
    case FILL:
        index[at] = at;
        return sizeof *index;
    case HEAP:
        sink (index, k, k / 2 - 1 - at, type, data);
        return SINK_COST;
    case SCAN:
        if (!is_before (type, data, k + at, index[0]))
            return sizeof *index;
        index[0] = k + at;
        sink (index, k, 0, type, data);
        return SINK_COST;
    case SORT: {
        const size_t first = index[0];
        index[0] = index[last];
        index[last] = first;
        sink (index, last, 0, type, data);
        return SINK_COST;
    }
    default:
        put (&self->text, type, data, index[at], label_of (labels, index[at]));
        return SCORE_BYTES;
    }
}

bool wm_classify (wm_ranking_t *self, wm_kserve_tensor_t *tensor, bool by_row, uint32_t k,
                  const wm_labels_t *labels, size_t *left)
{
    const size_t n_list = by_row ? (size_t) tensor->dim[0] : 1;
    size_t n = 1;
    for (uint32_t d = by_row; d < tensor->n_dim; d++)
        n *= (size_t) tensor->dim[d];
    const size_t n_class = k < n ? k : n;
    if (!self->index) {
        self->index = zmalloc ((n_class + 1) * sizeof *self->index);
        wm_buffer_room (&self->text, wm_classify_bytes (tensor->type, n_list, n, k, labels) + 1);
    }
    for (; self->list < n_list; self->list++, self->phase = FILL) {
        const uint8_t *data = tensor->data + self->list * n * wm_type_bytes (tensor->type);
        for (; self->phase < PHASES; self->phase++, self->at = 0)
            for (; self->at < steps_of (self->phase, n_class, n); self->at++) {
                if (!*left)
                    return true;
                const size_t cost = step (self, n_class, tensor->type, data, labels);
                *left -= cost < *left ? cost : *left;
            }
    }
    free ((void *) (uintptr_t) tensor->data);
    tensor->type = WM_TYPE_BYTES;
    tensor->n_dim = by_row + 1;
    tensor->dim[by_row] = (int64_t) n_class;
    tensor->data = self->text.data;
    tensor->bytes = self->text.bytes;
    self->text = (wm_buffer_t){ 0 };
    wm_ranking_clear (self);
    return false;
}

void wm_ranking_clear (wm_ranking_t *self)
{
    free (self->index);
    free (self->text.data);
    *self = (wm_ranking_t){ .n_ranked = self->n_ranked };
}
