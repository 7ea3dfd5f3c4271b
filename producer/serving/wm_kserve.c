/* wm_kserve.c - types of tensors, and errors for clients.  */
#include "producer/serving/wm_kserve.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} types[WM_TYPES] = {
    [WM_TYPE_BOOL] = { "BOOL", 1 },     [WM_TYPE_UINT8] = { "UINT8", 1 },
    [WM_TYPE_UINT16] = { "UINT16", 2 }, [WM_TYPE_UINT32] = { "UINT32", 4 },
    [WM_TYPE_UINT64] = { "UINT64", 8 }, [WM_TYPE_INT8] = { "INT8", 1 },
    [WM_TYPE_INT16] = { "INT16", 2 },   [WM_TYPE_INT32] = { "INT32", 4 },
    [WM_TYPE_INT64] = { "INT64", 8 },   [WM_TYPE_FP16] = { "FP16", 2 },
    [WM_TYPE_FP32] = { "FP32", 4 },     [WM_TYPE_FP64] = { "FP64", 8 },
    [WM_TYPE_BF16] = { "BF16", 2 },     [WM_TYPE_BYTES] = { "BYTES", 0 },
};

const char *wm_type_name (wm_type_t type)
{
    return type < WM_TYPES ? types[type].name : "INVALID";
}

size_t wm_type_bytes (wm_type_t type)
{
    return type < WM_TYPES ? types[type].bytes : 0;
}

wm_type_t wm_type_of_name (const char *name)
{
    wm_type_t type = 0;
    while (type < WM_TYPES && strcmp (types[type].name, name) != 0)
        type++;
    return type;
}

wm_ks_code_t wm_ks_fail (wm_ks_error_t *error, wm_ks_code_t code, const char *format, ...)
{
    if (error) {
        va_list rest;
        va_start (rest, format);
        error->code = code;
        vsnprintf (error->text, sizeof error->text, format, rest);
        va_end (rest);
    }
    return code;
}
