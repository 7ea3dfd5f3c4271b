/* wm_ragged.c - see wm_ragged.h.  */
#include "schema/wm_ragged.h"
#include "schema/wm_exact.h"

#include <assert.h>

#define HEAD 2u /* values of the row; tensors */
#define COUNT_MAX (1u << 24)
#define TYPED 16u /* of a tensor's first count: times its type, ... */
static_assert (WM_RAGGED_DIMS_MAX < TYPED, "... and its dimensions");

uint32_t wm_ragged_begin (float *row, size_t most, uint32_t n, wm_ragged_t *tensor)
{
    uint64_t total = HEAD;
    most = most < WM_RAGGED_VALUES_MAX ? most : WM_RAGGED_VALUES_MAX;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t values = 1;
        for (uint32_t d = 0; d < tensor[i].n_dim; d++)
            if (tensor[i].dim[d] >= COUNT_MAX ||
                __builtin_mul_overflow (values, tensor[i].dim[d], &values))
                return 0;
        if (values > most ||
            (total += values * wm_exact_each (tensor[i].type) + 1 + tensor[i].n_dim) > most)
            return 0;
        tensor[i].n_value = (uint32_t) values;
        tensor[i].n_float = (uint32_t) values * wm_exact_each (tensor[i].type);
    }
    size_t at = 0;
    row[at++] = (float) total;
    row[at++] = (float) n;
    for (uint32_t i = 0; i < n; i++) {
        row[at++] = (float) (TYPED * (uint32_t) tensor[i].type + tensor[i].n_dim);
        for (uint32_t d = 0; d < tensor[i].n_dim; d++)
            row[at++] = (float) tensor[i].dim[d];
    }
    for (uint32_t i = 0; i < n; at += tensor[i++].n_float)
        tensor[i].at = (uint32_t) at;
    return (uint32_t) total;
}

uint32_t wm_ragged_refuse (float *row, size_t most, const char *text)
{
    uint32_t at = HEAD;
    for (; *text && at < most; text++)
        row[at++] = (float) (unsigned char) *text;
    row[0] = (float) at;
    row[1] = 0;
    return at;
}

/* The count at this place of a row; -1: the value is no count.  */
static int64_t count_at (const float *row, size_t at)
{
    const float value = row[at];
    if (!(value >= 0 && value < (float) COUNT_MAX))
        return -1;
    const uint32_t count = (uint32_t) value;
    return (float) count == value ? (int64_t) count : -1;
}

uint32_t wm_ragged_length (const float *row, size_t most)
{
    const int64_t n = count_at (row, 0);
    return n < (int64_t) HEAD || (uint64_t) n > most ? 0 : (uint32_t) n;
}

const char *wm_ragged_read (const float *row, size_t n_value, uint32_t *n,
                            wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX])
{
    *n = 0;
    if (n_value < HEAD || n_value > WM_RAGGED_VALUES_MAX ||
        wm_ragged_length (row, n_value) != n_value)
        return "its number of values is not the one that it states";
    const int64_t n_tensor = count_at (row, 1);
    if (n_tensor < 0 || n_tensor > WM_RAGGED_TENSORS_MAX)
        return "its number of tensors is none";
    size_t at = HEAD;
    uint64_t values = 0;
    for (uint32_t i = 0; i < n_tensor; i++) {
        const int64_t first = at < n_value ? count_at (row, at++) : -1, n_dim = first % TYPED;
        const int type = (int) (first / TYPED);
        if (first < 0 || n_dim > WM_RAGGED_DIMS_MAX || (size_t) n_dim > n_value - at)
            return "the dimensions of a tensor are none";
        if (type && wm_exact_each (type) == 1)
            return "the type of a tensor is none that is carried so";
        uint64_t product = 1;
        tensor[i] = (wm_ragged_t){ .n_dim = (uint32_t) n_dim, .type = type };
        for (uint32_t d = 0; d < n_dim; d++) {
            const int64_t size = count_at (row, at++);
            if (size < 0 || __builtin_mul_overflow (product, (uint64_t) size, &product))
                return "the size of a tensor is none";
            tensor[i].dim[d] = (uint32_t) size;
        }
        if (product > n_value)
            return "a tensor is larger than the row";
        tensor[i].n_value = (uint32_t) product;
        tensor[i].n_float = (uint32_t) product * wm_exact_each (type);
        values += tensor[i].n_float;
    }
    if (n_tensor && at + values != n_value)
        return "its tensors are not what it holds";
    for (uint32_t i = 0; i < n_tensor; at += tensor[i++].n_float)
        tensor[i].at = (uint32_t) at;
    *n = (uint32_t) n_tensor;
    return NULL;
}

void wm_ragged_refusal (const float *row, size_t n_value, char *text, size_t bytes)
{
    size_t n = 0;
    for (size_t at = HEAD; at < n_value && n + 1 < bytes; at++) {
        const int64_t code = count_at (row, at);
        text[n++] = code >= ' ' && code < 127 ? (char) code : '?';
    }
    text[n] = 0;
}
