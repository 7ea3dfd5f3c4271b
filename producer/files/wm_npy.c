/* wm_npy.c - parses and writes .npy headers.  */
#include "producer/files/wm_npy.h"

#include <stdio.h>
#include <string.h>

/* The dictionary, read from left to right.  */
typedef struct {
    const char *at, *end;
} text_t;

static void skip_spaces (text_t *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\n'))
        text->at++;
}

static int take (text_t *text, const char *token)
{
    skip_spaces (text);
    size_t length = strlen (token);
    if ((size_t) (text->end - text->at) < length || memcmp (text->at, token, length))
        return 0;
    text->at += length;
    return 1;
}

static int take_number (text_t *text, uint64_t *number)
{
    skip_spaces (text);
    const char *first = text->at;
    *number = 0;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
        if (__builtin_mul_overflow (*number, 10, number) ||
            __builtin_add_overflow (*number, (uint64_t) (*text->at - '0'), number))
            return 0;
    return text->at > first;
}

/* (), (n,), (n, m), ...  */
static int take_shape (text_t *text, wm_npy_t *self)
{
    if (!take (text, "("))
        return 0;
    self->n_dim = 0;
    while (!take (text, ")")) {
        if (self->n_dim == WM_NPY_DIMS_MAX || !take_number (text, &self->dim[self->n_dim++]))
            return 0;
        if (!take (text, ",")) /* only the last may go without */
            return self->n_dim > 1 && take (text, ")");
    }
    return 1;
}

/* 'KIND BYTES' as NumPy names types: '<f4', '|i1'.  */
static const char *take_type (text_t *text, wm_npy_t *self)
{
    static const char *const type[] = { "f2", "f4", "f8", "i1", "i2", "i4",
                                        "i8", "u1", "u2", "u4", "u8" };
    char token[8];
    for (size_t i = 0; i < sizeof type / sizeof *type; i++) {
        snprintf (token, sizeof token, "'%c%s'", type[i][1] == '1' ? '|' : '<', type[i]);
        if (take (text, token)) {
            self->kind = type[i][0];
            self->value_bytes = (uint32_t) (type[i][1] - '0');
            return NULL;
        }
    }
    return take (text, "'|O'") ? "Python objects, not an array of numbers"
           : take (text, "'>") ? "big-endian numbers; save a.astype (a.dtype.newbyteorder ('<'))"
           : take (text, "'")  ? "neither floats nor integers; save a.astype ('<f4')"
                               : "neither floats nor integers";
}

static const char *dictionary_parse (wm_npy_t *self, text_t *text)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    unsigned seen = 0, key;
    if (!take (text, "{"))
        return "no dictionary";
    while (!take (text, "}")) {
        if (take (text, "'descr':")) {
            key = DESCR;
            const char *wrong = take_type (text, self);
            if (wrong)
                return wrong;
        } else if (take (text, "'fortran_order':")) {
            key = ORDER;
            self->is_fortran = take (text, "True");
            if (!self->is_fortran && !take (text, "False"))
                return "no valid fortran_order";
        } else if (take (text, "'shape':")) {
            key = SHAPE;
            if (!take_shape (text, self))
                return "no valid shape";
        } else
            return "unknown key in the header";
        if (seen & key)
            return "a key is there twice";
        seen |= key;
        if (!take (text, ",")) {
            if (!take (text, "}"))
                return "the header's dictionary does not end";
            break;
        }
    }
    skip_spaces (text);
    if (text->at != text->end)
        return "more text after the header's dictionary";
    return seen == (DESCR | ORDER | SHAPE) ? NULL : "descr, fortran_order or shape is missing";
}

wm_fault_t wm_npy_parse_any (wm_npy_t *self, const void *head, size_t bytes, const char *where,
                             wm_error_t *error)
{
    const uint8_t *byte = head;
    memset (self, 0, sizeof *self);
    const char *wrong = NULL;
    if (bytes < 12 || memcmp (byte, "\x93NUMPY", 6))
        wrong =
            bytes ? "not a .npy file, though its name ends in .npy" : "the file is empty (0 bytes)";
    else if (byte[7] != 0 || (byte[6] != 1 && byte[6] != 2))
        wrong = "a version of .npy other than 1.0 and 2.0";
    else {
        uint32_t start = byte[6] == 1 ? 10 : 12;
        uint32_t length = byte[8] | (uint32_t) byte[9] << 8;
        if (byte[6] == 2)
            length |= (uint32_t) byte[10] << 16 | (uint32_t) byte[11] << 24;
        if (length > WM_NPY_HEAD_MAX - start || length > bytes - start)
            wrong = "the header is longer than the file or than 4 KiB";
        else {
            text_t text = { (const char *) byte + start, (const char *) byte + start + length };
            self->head_bytes = start + length;
            wrong = dictionary_parse (self, &text);
        }
    }
    return wrong ? wm_fault (error, WM_EBATCH, "%s: %s", where, wrong) : WM_OK;
}

wm_fault_t wm_npy_parse (wm_npy_t *self, const void *head, size_t bytes, const char *where,
                         wm_error_t *error)
{
    const wm_fault_t fault = wm_npy_parse_any (self, head, bytes, where, error);
    if (fault)
        return fault;
    if (self->kind != 'f' || self->value_bytes > 4)
        return wm_fault (error, WM_EBATCH, "%s: %s", where,
                         self->kind == 'f'
                             ? "float64, but wiremill reads float32 and float16; save a.astype "
                               "('float32')"
                             : "neither float32 nor float16; save a.astype ('<f4')");
    if (self->is_fortran && self->n_dim > 1)
        return wm_fault (error, WM_EBATCH,
                         "%s: the array is in Fortran order; save numpy.ascontiguousarray (a)",
                         where);
    return WM_OK;
}

size_t wm_npy_print (const uint64_t *dim, uint32_t n_dim, size_t least, char head[WM_NPY_HEAD_MAX])
{
    int n = snprintf (head + 10, WM_NPY_HEAD_MAX - 10,
                      "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (uint32_t i = 0; i < n_dim; i++)
        n += snprintf (head + 10 + n, WM_NPY_HEAD_MAX - 10 - (size_t) n, "%llu, ",
                       (unsigned long long) dim[i]);
    n += snprintf (head + 10 + n, WM_NPY_HEAD_MAX - 10 - (size_t) n, "), }");
    const size_t needed = 10 + (size_t) n + 1;
    const size_t bytes = ((needed > least ? needed : least) + 63) / 64 * 64;
    memset (head + 10 + n, ' ', bytes - 10 - (size_t) n);
    head[bytes - 1] = '\n';
    memcpy (head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char) ((bytes - 10) & 255);
    head[9] = (char) ((bytes - 10) >> 8);
    return bytes;
}
