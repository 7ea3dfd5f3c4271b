/* wm_json.c - see wm_json.h.  */
#include "producer/serving/wm_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_MAX (UINT64_C (1) << 53) /* whole numbers up to here are doubles */
#define TENS_MAX 22                    /* 10^22 is a double, 10^23 is not */

/* ---- what jansson gets ----------------------------------------------------------------------- */

/* The text from a quote to behind the one that ends it, or to the end.  */
static const char *skip_text (const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\';
    return at < end ? at + 1 : end;
}

/* The text from a '[' to behind its ']'; NULL if that is missing.  */
static const char *skip_array (const char *at, const char *end)
{
    size_t depth = 0;
    while (at < end) {
        const char c = *at;
        if (c == '"') {
            at = skip_text (at, end);
            continue;
        }
        at++;
        depth += c == '[';
        if (c == ']' && --depth == 0)
            return at;
    }
    return NULL;
}

typedef struct {
    char *to;
    size_t bytes, max;
    bool is_full;
} copy_t;

static void copy (copy_t *self, const char *text, size_t bytes)
{
    self->is_full |= bytes > self->max - self->bytes;
    if (!self->is_full) {
        memcpy (self->to + self->bytes, text, bytes);
        self->bytes += bytes;
    }
}

static bool is (const char *text, const char *end, const char *what)
{
    return text && (size_t) (end - text) == strlen (what) &&
           memcmp (text, what, strlen (what)) == 0;
}

/* Whether it is a text that begins so.  */
static bool begins (const char *text, const char *end, const char *prefix)
{
    const size_t n = strlen (prefix);
    return (size_t) (end - text) > n && memcmp (text + 1, prefix, n) == 0;
}

/* "inputs" is a value of the outermost object, "data" one of an object in its array. A key with
   escapes is neither: its array goes to jansson, and is refused.  */
char *wm_json_skeleton (const char *text, size_t n, size_t bytes_max, wm_json_data_t *data,
                        size_t data_max, size_t *bytes)
{
    const char *at = text, *const end = text + n;
    const char *key = NULL, *key_end = NULL; /* the last text, quotes included */
    bool is_value = false;                   /* behind ':' */
    bool in_inputs = false;
    size_t depth = 0, n_input = 0;
    copy_t to = { .max = n < bytes_max / 2 ? 2 * n : bytes_max }; /* "true" may be longer */
    to.to = malloc (to.max + 1);
    memset (data, 0, data_max * sizeof *data);
    while (to.to && at < end && !to.is_full) {
        const char *from = at, c = *at;
        at = c == '"' ? skip_text (at, end) : at + 1;
        if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
            copy (&to, from, 1);
            continue;
        }
        const bool is_named = is_value;
        is_value = c == ':';
        if (c == '"') {
            key = from;
            key_end = at;
        } else if (c == '{' || c == '[') {
            depth++;
            if (depth == 2 && c == '[')
                in_inputs = is_named && is (key, key_end, "\"inputs\"");
            n_input += depth == 3 && c == '{' && in_inputs;
            const char *behind = NULL;
            if (depth == 4 && c == '[' && in_inputs && n_input && n_input <= data_max && is_named &&
                is (key, key_end, "\"data\""))
                behind = skip_array (from, end);
            if (behind) {
                data[n_input - 1] = (wm_json_data_t){ from, (size_t) (behind - from) };
                copy (&to, "true", 4);
                at = behind;
                depth--;
                continue;
            }
        } else if ((c == '}' || c == ']') && depth)
            in_inputs &= --depth > 1;
        copy (&to, from, (size_t) (at - from));
    }
    *bytes = to.bytes;
    if (!to.is_full)
        return to.to;
    free (to.to);
    return NULL;
}

char *wm_json_cut_texts (const char *text, size_t n, size_t bytes_max, const char *prefix,
                         wm_json_data_t *data, size_t data_max, size_t *n_data, size_t *bytes)
{
    const char *at = text, *const end = text + n;
    const char *key = text, *key_end = text; /* the last text, quotes included */
    bool is_value = false, in_parameters = false;
    size_t depth = 0;
    copy_t to = { .max = n < bytes_max / 2 ? 2 * n : bytes_max };
    to.to = malloc (to.max + 1);
    *n_data = 0;
    while (to.to && at < end && !to.is_full) {
        const char *from = at, c = *at;
        at = c == '"' ? skip_text (at, end) : at + 1;
        const bool is_blank = c == ' ' || c == '\n' || c == '\r' || c == '\t';
        const bool is_named = is_value;
        is_value = is_blank ? is_value : c == ':';
        if (c == '"' && is_named && depth == 2 && in_parameters && *n_data < data_max &&
            begins (key, key_end, prefix) && at - from >= 2) {
            data[(*n_data)++] = (wm_json_data_t){ from + 1, (size_t) (at - from) - 2 };
            copy (&to, "true", 4);
            continue;
        }
        if (c == '"') {
            key = from;
            key_end = at;
        } else if ((c == '{' || c == '[') && ++depth == 2)
            in_parameters = c == '{' && is_named && is (key, key_end, "\"parameters\"");
        else if ((c == '}' || c == ']') && depth)
            depth--;
        copy (&to, from, (size_t) (at - from));
    }
    *bytes = to.bytes;
    if (!to.is_full)
        return to.to;
    free (to.to);
    return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* A number as it is written: digits without the point, and ten's exponent of the last one.  */
typedef struct {
    uint64_t digits;
    int tens;
    bool is_negative, is_whole; /* is_whole: neither point nor exponent */
    bool is_long;               /* `digits` has not all of them */
} number_t;

static bool is_digit (char c)
{
    return c >= '0' && c <= '9';
}

static const char *take_digits (number_t *self, const char *at)
{
    for (; is_digit (*at); at++) {
        const uint64_t digit = (uint64_t) (*at - '0');
        self->is_long |= self->digits > (UINT64_MAX - digit) / 10;
        self->digits = 10 * self->digits + digit;
    }
    return at;
}

/* Reads a number. Returns what is behind it, with a ']' somewhere; NULL if it is no number.  */
static const char *take_number (number_t *self, const char *at)
{
    const char *const begin = at, *from;
    *self = (number_t){ .is_negative = *at == '-', .is_whole = true };
    at += self->is_negative;
    from = at;
    at = take_digits (self, at);
    if (at == from || (*from == '0' && at > from + 1))
        return NULL;
    if (*at == '.') {
        from = ++at;
        at = take_digits (self, at);
        if (at == from)
            return NULL;
        self->tens = at - from < WM_JSON_NUMBER_MAX ? (int) (from - at) : -WM_JSON_NUMBER_MAX;
        self->is_whole = false;
    }
    if (*at == 'e' || *at == 'E') {
        const bool is_less = at[1] == '-';
        number_t tens = { .is_whole = true };
        at += 1 + (is_less || at[1] == '+');
        from = at;
        at = take_digits (&tens, at);
        if (at == from)
            return NULL;
        self->is_long |= tens.is_long || tens.digits > WM_JSON_NUMBER_MAX;
        if (!self->is_long)
            self->tens += is_less ? -(int) tens.digits : (int) tens.digits;
        self->is_whole = false;
    }
    return at - begin > WM_JSON_NUMBER_MAX ? NULL : at;
}

/* The nearest double. Where digits and power of ten are doubles, one operation rounds once (W. D.
   Clinger, How to read floating point numbers accurately, 1990); else strtod.  */
static double real_of (const number_t *number, const char *text)
{
    static const double tens[TENS_MAX + 1] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                               1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                               1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    if (number->is_long || number->digits > EXACT_MAX || abs (number->tens) > TENS_MAX)
        return strtod (text, NULL);
    const double digits = (double) number->digits * (number->is_negative ? -1 : 1);
    return number->tens < 0 ? digits / tens[-number->tens] : digits * tens[number->tens];
}

/* Writes a number as a value of the type, little-endian. False if it is not one.  */
static bool put_number (uint8_t *to, wm_type_t type, const number_t *number, const char *text)
{
    const size_t bytes = wm_type_bytes (type);
    if (type == WM_TYPE_FP32 || type == WM_TYPE_FP64) {
        const double real = real_of (number, text);
        const float single = (float) real;
        memcpy (to, type == WM_TYPE_FP32 ? (const void *) &single : &real, bytes);
        return type == WM_TYPE_FP64 || isinf (real) || !isinf (single); /* 1e999 is an infinity */
    }
    const bool is_signed = type >= WM_TYPE_INT8 && type <= WM_TYPE_INT64;
    const uint64_t most = type == WM_TYPE_BOOL ? 1 : UINT64_MAX >> (64 - 8 * bytes + is_signed);
    const uint64_t value = number->is_negative ? -number->digits : number->digits;
    memcpy (to, &value, bytes);
    return type != WM_TYPE_FP16 && type != WM_TYPE_BF16 && number->is_whole && !number->is_long &&
           number->digits <= most + (is_signed && number->is_negative) &&
           (is_signed || !number->is_negative || !number->digits);
}

/* Reads a value that is a word. JSON has no NaN and no infinities: they come as what the gateway
   writes for them, or as Python's json and Triton's clients do.  */
static const char *take_word (const wm_json_reader_t *self, wm_type_t type)
{
    static const struct {
        const char *text;
        bool is_truth;
        float value;
    } words[] = {
        { "true", true, 1 },
        { "false", true, 0 },
        { "null", false, NAN },
        { "NaN", false, NAN },
        { "Infinity", false, INFINITY },
        { "-Infinity", false, -INFINITY },
    };
    const size_t rest = (size_t) (self->end - self->at);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t n = strlen (words[i].text);
        const float single = words[i].value;
        const double real = (double) single;
        if (words[i].is_truth != (type == WM_TYPE_BOOL) || rest <= n ||
            memcmp (self->at, words[i].text, n) != 0)
            continue;
        if (type == WM_TYPE_BOOL)
            *self->to = single != 0;
        else if (type == WM_TYPE_FP32)
            memcpy (self->to, &single, sizeof single);
        else if (type == WM_TYPE_FP64)
            memcpy (self->to, &real, sizeof real);
        else
            return NULL;
        return self->at + n;
    }
    return NULL;
}

/* Reads one value. Returns what is behind it; NULL if it is not of the type.  */
static const char *take_value (const wm_json_reader_t *self, wm_type_t type)
{
    number_t number;
    if (!is_digit (self->at[*self->at == '-']))
        return take_word (self, type);
    const char *behind = take_number (&number, self->at);
    return behind && put_number (self->to, type, &number, self->at) ? behind : NULL;
}

wm_json_reader_t wm_json_reader (wm_json_data_t data, uint8_t *to, size_t n)
{
    return (wm_json_reader_t){
        .at = data.text, .end = data.text + data.bytes, .to = to, .left = n, .is_value = true
    };
}

/* Reads one character that is no value. False: it does not belong here.  */
static bool take_mark (wm_json_reader_t *self)
{
    const char c = *self->at++;
    const bool wants_value = self->is_open || self->is_value;
    bool is_fine = false;
    if (c == '[') {
        is_fine = wants_value && self->depth++ < WM_JSON_DEPTH_MAX;
        self->is_open = true;
        self->is_value = false;
    } else if (c == ']') {
        is_fine = !self->is_value && self->depth-- > 0;
        self->is_open = false;
    } else if (c == ',') {
        is_fine = !wants_value && self->depth > 0;
        self->is_value = true;
    }
    return is_fine;
}

wm_json_state_t wm_json_read (wm_json_reader_t *self, wm_type_t type, size_t *bytes)
{
    const size_t size = wm_type_bytes (type);
    const char *from = self->at, *const until = (size_t) (self->end - from) > *bytes ? from + *bytes
                                                                                     : self->end;
    while (self->at < until) {
        const char c = *self->at;
        if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
            self->at++;
        } else if (c == '[' || c == ']' || c == ',') {
            if (!take_mark (self))
                return WM_JSON_BAD;
        } else {
            if (!self->is_open && !self->is_value)
                return WM_JSON_BAD;
            if (!self->left)
                return WM_JSON_MANY;
            const char *behind = self->depth ? take_value (self, type) : NULL;
            if (!behind)
                return WM_JSON_BAD;
            self->at = behind;
            self->to += size;
            self->left--;
            self->is_open = self->is_value = false;
        }
    }
    const size_t read = (size_t) (self->at - from);
    *bytes -= read < *bytes ? read : *bytes;
    if (self->at < self->end)
        return WM_JSON_MORE;
    return self->depth ? WM_JSON_BAD : WM_JSON_DONE;
}
