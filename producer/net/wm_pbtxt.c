/* wm_pbtxt.c - see wm_pbtxt.h.  */
#include "producer/net/wm_pbtxt.h"

#include "schema/base/wm_text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *at, *where;
    unsigned line;
    wm_error_t *error;
    json_t *open[WM_PBTXT_DEPTH_MAX]; /* messages that have not ended, the outermost first */
    char close[WM_PBTXT_DEPTH_MAX];
    unsigned depth;
} reader_t;

static bool fail (reader_t *self, const char *what)
{
    wm_fault (self->error, WM_EBATCH, "%.200s:%u: %s", self->where, self->line, what);
    return false;
}

static void skip_space (reader_t *self)
{
    for (size_t n;; self->at += n) {
        if (*self->at == '#')
            self->at += strcspn (self->at, "\n");
        n = *self->at == '\n' || *self->at == '\r' ? 1 : wm_text_blank (self->at);
        self->line += *self->at == '\n';
        if (!n)
            return;
    }
}

static size_t word_length (const char *at)
{
    size_t n = 0;
    while (isalnum ((unsigned char) at[n]) || (at[n] && strchr ("_.+-", at[n])))
        n++;
    return n;
}

/* One character of a string, behind a backslash too. -1: not a character.  */
static int take_character (reader_t *self)
{
    static const char names[] = "nrtabfv\\'\"?", values[] = "\n\r\t\a\b\f\v\\'\"?";
    if (*self->at != '\\')
        return (unsigned char) *self->at++;
    const char *known = self->at[1] ? strchr (names, self->at[1]) : NULL;
    char *end;
    char digits[4] = "";
    if (known) {
        self->at += 2;
        return values[known - names];
    }
    const int base = self->at[1] == 'x' || self->at[1] == 'X' ? 16 : 8;
    self->at += base == 16 ? 2 : 1;
    strncpy (digits, self->at, base == 16 ? 2 : 3);
    if (!isxdigit ((unsigned char) *digits))
        return -1;
    const long value = strtol (digits, &end, base);
    self->at += end - digits;
    return end == digits || value < 1 || value > 255 ? -1 : (int) value;
}

/* "a" 'b' is one string.  */
static json_t *take_string (reader_t *self)
{
    char *text = malloc (strlen (self->at) + 1);
    size_t n = 0;
    bool is_good = text != NULL;
    while (is_good && (*self->at == '"' || *self->at == '\'')) {
        const char quote = *self->at++;
        while (is_good && *self->at && *self->at != quote && *self->at != '\n') {
            const int one = take_character (self);
            is_good = one >= 0;
            text[n++] = (char) one;
        }
        is_good = is_good && *self->at == quote;
        self->at += is_good;
        if (is_good)
            skip_space (self);
    }
    json_t *value = is_good ? json_stringn (text, n) : NULL;
    free (text);
    if (!value)
        fail (self, "a string does not end, or is not UTF-8");
    return value;
}

static json_t *take_word (reader_t *self)
{
    char word[256], *end;
    const size_t n = word_length (self->at);
    if (!n || n >= sizeof word) {
        fail (self, "a value is missing");
        return NULL;
    }
    memcpy (word, self->at, n);
    word[n] = 0;
    self->at += n;
    const long long whole = strtoll (word, &end, 0);
    if (!*end)
        return json_integer (whole);
    const double real = strtod (word, &end);
    if ((!*end || (*end == 'f' && !end[1])) && isfinite (real)) /* JSON has no inf */
        return json_real (real);
    return json_string (word);
}

/* Adds a value to the field of the innermost message. Takes the reference.  */
static bool add (reader_t *self, const char *field, json_t *value)
{
    json_t *message = self->open[self->depth - 1];
    json_t *list = json_object_get (message, field);
    if (!value)
        return false;
    if (!list && json_object_set_new (message, field, list = json_array ()))
        list = NULL;
    return json_array_append_new (list, value) == 0 || fail (self, "no memory");
}

/* The innermost message gets one more inside.  */
static bool begin_message (reader_t *self, const char *field)
{
    json_t *message = json_object ();
    if (self->depth == WM_PBTXT_DEPTH_MAX) {
        json_decref (message);
        return fail (self, "messages are nested too deep");
    }
    if (!add (self, field, message))
        return false;
    self->close[self->depth] = *self->at++ == '{' ? '}' : '>';
    self->open[self->depth++] = message;
    return true;
}

static bool take_value (reader_t *self, const char *field)
{
    skip_space (self);
    if (*self->at == '{' || *self->at == '<')
        return begin_message (self, field);
    return add (self, field,
                *self->at == '"' || *self->at == '\'' ? take_string (self) : take_word (self));
}

/* "field: value", "field { ...", "field: [ value, ...". A list of messages: one after another, each
   with its end; `list` says that one is open at this depth.  */
typedef struct {
    char field[64];
    unsigned depth; /* 0: no list is open */
} list_t;

static bool take_field (reader_t *self, list_t *list)
{
    char field[64];
    const size_t n = word_length (self->at);
    if (!n || n >= sizeof field)
        return fail (self, "the name of a field is missing");
    memcpy (field, self->at, n);
    field[n] = 0;
    self->at += n;
    skip_space (self);
    const bool has_colon = *self->at == ':';
    self->at += has_colon;
    skip_space (self);
    if (!has_colon && *self->at != '{' && *self->at != '<' && *self->at != '[')
        return fail (self, "a ':' or '{' is missing behind the name of a field");
    if (*self->at != '[')
        return take_value (self, field);
    self->at++;
    *list = (list_t){ .depth = self->depth };
    memcpy (list->field, field, sizeof field);
    return true;
}

static bool take_one (reader_t *self, list_t *list)
{
    if (*self->at == ',' || *self->at == ';') {
        self->at++;
        return true;
    }
    if (list->depth == self->depth && *self->at == ']') {
        self->at++;
        list->depth = 0;
        return true;
    }
    if (list->depth == self->depth)
        return take_value (self, list->field);
    if (self->depth > 1 && *self->at == self->close[self->depth - 1]) {
        self->at++;
        self->depth--;
        return true;
    }
    return take_field (self, list);
}

json_t *wm_pbtxt_parse (const char *text, const char *where, wm_error_t *error)
{
    reader_t self = { .at = text, .where = where, .line = 1, .error = error };
    list_t outer[WM_PBTXT_DEPTH_MAX] = { { "", 0 } }; /* a list of each depth */
    self.open[self.depth++] = json_object ();
    bool is_good = self.open[0] != NULL;
    for (skip_space (&self); is_good && *self.at; skip_space (&self)) {
        const unsigned depth = self.depth;
        is_good = take_one (&self, &outer[depth - 1]);
        if (self.depth > depth)
            outer[self.depth - 1] = (list_t){ .depth = 0 };
    }
    if (is_good && (self.depth > 1 || outer[0].depth))
        is_good = fail (&self, "the file ends inside a message or a list");
    if (is_good)
        return self.open[0];
    json_decref (self.open[0]);
    return NULL;
}

/* ---- reading it ------------------------------------------------------------------------------ */

static json_t *last (const json_t *message, const char *field)
{
    const json_t *list = json_object_get (message, field);
    return json_array_size (list) ? json_array_get (list, json_array_size (list) - 1) : NULL;
}

const char *wm_pbtxt_text (const json_t *message, const char *field)
{
    return json_string_value (last (message, field));
}

json_int_t wm_pbtxt_number (const json_t *message, const char *field)
{
    return json_integer_value (last (message, field));
}

json_t *wm_pbtxt_message (const json_t *message, const char *field)
{
    json_t *value = last (message, field);
    return json_is_object (value) ? value : NULL;
}
