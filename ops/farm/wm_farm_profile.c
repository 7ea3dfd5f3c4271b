/* wm_farm_profile.c - see wm_farm_profile.h.

   {name/A/B} replaces each A in the value by B, as often as /A/B is given; {?name} and {!name}
   print nothing: their line is left out if the value is empty, or is not. Braces around anything
   else are text, so that awk's programs stand in a profile as they are.  */
#include "ops/farm/wm_farm_profile.h"
#include "schema/base/wm_text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (1 << 18)
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

static const char *const key_name[WM_FARM_KEYS] = {
    "submit",  "list",   "withdraw", "drain",   "kill",      "harmless", "over",   "failed",
    "pending", "reason", "job",      "at-once", "names-not", "done",     "[FILE]",
};

struct wm_farm_profile_line {
    wm_farm_key_t key;
    unsigned turn, number; /* of the key's command, from 0; of the line, from 1 */
    const char *text;
};

/* ---- values ---------------------------------------------------------------------------------- */

static size_t place_of (const wm_farm_values_t *self, const char *name, size_t n)
{
    size_t i = 0;
    while (i < self->n && (strncmp (self->value[i].name, name, n) != 0 || self->value[i].name[n]))
        i++;
    return i;
}

static size_t place_for (wm_farm_values_t *self, const char *name)
{
    const size_t i = place_of (self, name, strlen (name));
    assert (i < WM_FARM_VALUES_MAX);
    self->n += i == self->n;
    free (self->value[i].text);
    self->value[i].name = name;
    self->value[i].text = NULL;
    self->value[i].list = NULL;
    return i;
}

void wm_farm_values_put (wm_farm_values_t *self, const char *name, const char *format, ...)
{
    va_list list;
    const size_t i = place_for (self, name);
    va_start (list, format);
    const int n = vasprintf (&self->value[i].text, format, list);
    va_end (list);
    assert (n >= 0);
}

void wm_farm_values_list (wm_farm_values_t *self, const char *name, const char *const *list)
{
    self->value[place_for (self, name)].list = list;
}

void wm_farm_values_clear (wm_farm_values_t *self)
{
    for (size_t i = 0; i < self->n; i++)
        free (self->value[i].text);
    self->n = 0;
}

/* ---- templates ------------------------------------------------------------------------------- */

typedef struct {
    char mark; /* ? or ! */
    const char *name, *pairs, *end;
    size_t n;
} hole_t;

/* Whether a name in braces begins here.  */
static bool take_hole (const char *at, hole_t *hole)
{
    if (*at++ != '{')
        return false;
    hole->mark = *at == '?' || *at == '!' ? *at++ : 0;
    hole->name = at;
    hole->n = strspn (at, LETTERS);
    hole->pairs = at += hole->n;
    at += strcspn (at, "}");
    hole->end = at + 1;
    return hole->n && *at && (*hole->pairs == '/' || *hole->pairs == '}');
}

/* Prints a value with its replacements.  */
static void print_value (FILE *out, const char *text, const char *pairs)
{
    while (*text) {
        const char *pair = pairs;
        for (bool is_done = false; *pair == '/' && !is_done;) {
            const char *a = pair + 1, *b = a + strcspn (a, "/") + 1;
            const size_t n_a = (size_t) (b - a) - 1, n_b = strcspn (b, "/}");
            is_done = strncmp (text, a, n_a) == 0;
            if (is_done) {
                fwrite (b, 1, n_b, out);
                text += n_a;
            } else
                pair = b + n_b;
        }
        if (*pair != '/')
            fputc (*text++, out);
    }
}

/* Returns the value for this turn of its line; NULL if it is empty.  */
static const char *value_of (const wm_farm_values_t *values, const hole_t *hole, size_t turn)
{
    const size_t i = place_of (values, hole->name, hole->n);
    assert (i < values->n); /* wm_farm_profile_check */
    const char *text = values->value[i].list ? values->value[i].list[turn] : values->value[i].text;
    return text && *text ? text : NULL;
}

/* How often the line appears, by its lists; 0: it is left out.  */
static size_t turns_of (const char *line, const wm_farm_values_t *values)
{
    hole_t hole;
    size_t n = 1;
    for (; *line; line++) {
        if (!take_hole (line, &hole))
            continue;
        if (!value_of (values, &hole, 0) != (hole.mark == '!'))
            return 0;
        const char *const *list = values->value[place_of (values, hole.name, hole.n)].list;
        for (; list && !hole.mark && list[n]; n++)
            ;
    }
    return n;
}

/* Prints a line; as words of a command without their quotes, each ended by NUL.  */
static void print_line (FILE *out, const char *line, const wm_farm_values_t *values, size_t turn,
                        bool is_words)
{
    hole_t hole;
    char quote = 0;
    bool is_word = false;
    while (*line) {
        if (take_hole (line, &hole)) {
            line = hole.end;
            if (hole.mark)
                continue;
            print_value (out, value_of (values, &hole, turn), hole.pairs);
            is_word = true;
        } else if (is_words && (quote ? *line == quote : *line == '\'' || *line == '"')) {
            quote = quote ? 0 : *line;
            is_word = true;
            line++;
        } else if (is_words && !quote && (*line == ' ' || *line == '\t')) {
            if (is_word)
                fputc (0, out);
            is_word = false;
            line++;
        } else {
            fputc (*line++, out);
            is_word = true;
        }
    }
    if (!is_words)
        fputc ('\n', out);
    else if (is_word)
        fputc (0, out);
}

char *wm_farm_profile_text (const wm_farm_profile_t *self, wm_farm_key_t key,
                            const wm_farm_values_t *values)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream (&text, &bytes);
    assert (out);
    for (size_t i = 0; i < self->n; i++) {
        const size_t n = self->line[i].key == key ? turns_of (self->line[i].text, values) : 0;
        for (size_t turn = 0; turn < n; turn++)
            print_line (out, self->line[i].text, values, turn, false);
    }
    fclose (out);
    assert (text);
    return text;
}

const char **wm_farm_profile_command (const wm_farm_profile_t *self, wm_farm_key_t key,
                                      unsigned turn, const wm_farm_values_t *values)
{
    char *text = NULL;
    size_t bytes = 0, n_word = 0;
    bool is_there = false, is_out = false;
    FILE *out = open_memstream (&text, &bytes);
    assert (out);
    for (size_t i = 0; i < self->n && !is_out; i++) {
        if (self->line[i].key != key || self->line[i].turn != turn)
            continue;
        const size_t n = turns_of (self->line[i].text, values);
        is_out = !is_there && !n;
        is_there = true;
        for (size_t k = 0; k < n; k++)
            print_line (out, self->line[i].text, values, k, true);
    }
    fclose (out);
    assert (text);
    const char **words = NULL;
    if (is_there) {
        for (size_t i = 0; i < bytes; i++)
            n_word += !text[i];
        words = malloc ((n_word + 1) * sizeof *words + bytes); /* the texts lie behind */
        assert (words);
        char *to = memcpy (words + n_word + 1, text, bytes);
        for (size_t i = 0; i < n_word; i++, to += strlen (to) + 1)
            words[i] = to;
        words[n_word] = NULL;
    }
    free (text);
    return words;
}

/* ---- reading --------------------------------------------------------------------------------- */

bool wm_farm_profile_has (const wm_farm_profile_t *self, wm_farm_key_t key)
{
    for (size_t i = 0; i < self->n; i++)
        if (self->line[i].key == key)
            return true;
    return false;
}

bool wm_farm_profile_uses (const wm_farm_profile_t *self, const char *name)
{
    hole_t hole;
    for (size_t i = 0; i < self->n; i++)
        for (const char *at = self->line[i].text; *at; at++)
            if (take_hole (at, &hole) && hole.n == strlen (name) &&
                strncmp (hole.name, name, hole.n) == 0)
                return true;
    return false;
}

/* Whether a quote that the text opens is not closed in it.  */
static bool is_open (const char *text)
{
    char quote = 0;
    for (; *text; text++)
        if (quote ? *text == quote : *text == '\'' || *text == '"')
            quote = quote ? 0 : *text;
    return quote;
}

static void add (wm_farm_profile_t *self, wm_farm_key_t key, unsigned turn, unsigned number,
                 const char *text)
{
    self->line[self->n++] = (struct wm_farm_profile_line){ key, turn, number, text };
}

/* Begins a key at "key = value"; *text moves to its value.  */
static wm_fault_t take_key (const wm_farm_profile_t *self, unsigned number, char **text,
                            wm_farm_key_t *key, unsigned *turn, wm_error_t *error)
{
    char *name = *text, *equals = strchr (name, '=');
    if (!equals)
        return wm_fault (error, WM_EUSAGE,
                         "%s:%u: \"%.40s\" is no `key = value`, and as a further line of a value "
                         "it would begin with a blank",
                         self->path, number, name);
    *equals = 0;
    *text = wm_text_trim (equals + 1);
    name = wm_text_trim (name);
    for (*key = 0; *key < WM_FARM_FILE && strcmp (key_name[*key], name) != 0;)
        ++*key;
    if (*key == WM_FARM_FILE)
        return wm_fault (
            error, WM_EUSAGE,
            "%s:%u: a profile has no key \"%.40s\"; it has submit, list, withdraw, drain, "
            "kill, harmless, over, failed, pending, reason, job, at-once, names-not "
            "and done",
            self->path, number, name);
    *turn = 0;
    for (size_t i = 0; i < self->n; i++)
        if (self->line[i].key == *key)
            *turn = self->line[i].turn + 1;
    if (*turn && *key > WM_FARM_KILL)
        return wm_fault (error, WM_EUSAGE, "%s:%u: a second `%s`", self->path, number, name);
    return WM_OK;
}

/* Takes [NAME], which begins the text of a file.  */
static wm_fault_t take_file (wm_farm_profile_t *self, unsigned number, char *text,
                             wm_error_t *error)
{
    char *name = text + 1;
    const size_t n = strcspn (name, "]");
    if (!n || name[n] != ']' || name[n + 1] || *name == '.' || memchr (name, '/', n))
        return wm_fault (error, WM_EUSAGE, "%s:%u: \"%.40s\" is no [NAME] of a file", self->path,
                         number, text);
    name[n] = 0;
    self->file = name;
    return WM_OK;
}

static wm_fault_t take_lines (wm_farm_profile_t *self, wm_error_t *error)
{
    char *rest = self->bytes, *text;
    unsigned number = 0, turn = 0;
    wm_farm_key_t key = WM_FARM_KEYS;
    while ((text = strsep (&rest, "\n"))) {
        const unsigned first = ++number;
        const bool is_more = *text == ' ' || *text == '\t';
        if (key == WM_FARM_FILE) {
            if (*text || rest)
                add (self, key, 0, number, text);
            continue;
        }
        if (*text == '#' || !text[strspn (text, " \t")])
            continue;
        if (*text == '[') {
            key = WM_FARM_FILE;
            if (take_file (self, number, text, error))
                return error->fault;
            continue;
        }
        if (is_more && key == WM_FARM_KEYS)
            return wm_fault (error, WM_EUSAGE, "%s:%u: a further line of no key", self->path,
                             number);
        if (!is_more && take_key (self, number, &text, &key, &turn, error))
            return error->fault;
        for (; key <= WM_FARM_KILL && is_open (text); number++) { /* more of a quoted word */
            if (!rest || (*rest != ' ' && *rest != '\t'))
                return wm_fault (error, WM_EUSAGE, "%s:%u: a quote is not closed", self->path,
                                 first);
            text[strlen (text)] = '\n';
            strsep (&rest, "\n");
        }
        text = wm_text_trim (text);
        if (*text)
            add (self, key, turn, first, text);
        if (key == WM_FARM_AT_ONCE && !(self->at_once = (unsigned) strtoul (text, NULL, 10)))
            return wm_fault (error, WM_EUSAGE, "%s:%u: `at-once` is a number, from 1 on",
                             self->path, first);
    }
    return WM_OK;
}

static wm_fault_t check_keys (const wm_farm_profile_t *self, wm_error_t *error)
{
    static const wm_farm_key_t needed[2][4] = {
        { WM_FARM_SUBMIT, WM_FARM_DRAIN, WM_FARM_KILL, WM_FARM_JOB },
        { WM_FARM_SUBMIT, WM_FARM_SUBMIT, WM_FARM_SUBMIT, WM_FARM_DONE }
    };
    for (size_t i = 0; i < 4; i++) {
        const wm_farm_key_t key = needed[!wm_farm_profile_has (self, WM_FARM_LIST)][i];
        if (!wm_farm_profile_has (self, key))
            return wm_fault (error, WM_EUSAGE,
                             "%s: `%s` is missing; a profile has submit, list, drain, kill and "
                             "job, or, where the batch system itself keeps the number of workers, "
                             "submit and done",
                             self->path, key_name[key]);
    }
    return WM_OK;
}

wm_fault_t wm_farm_profile_read (wm_farm_profile_t *self, const char *path, wm_error_t *error)
{
    size_t bytes, n = 1;
    const char *slash = strrchr (path, '/');
    *self = (wm_farm_profile_t){ 0 };
    snprintf (self->path, sizeof self->path, "%s", path);
    snprintf (self->name, sizeof self->name, "%.60s", slash ? slash + 1 : path);
    self->name[strcspn (self->name, ".")] = 0;
    if (wm_text_read (path, BYTES_MAX, &self->bytes, &bytes, error))
        return error->fault = WM_EUSAGE;
    for (size_t i = 0; i < bytes; i++)
        n += self->bytes[i] == '\n';
    self->line = calloc (n, sizeof *self->line);
    assert (self->line);
    return take_lines (self, error) ? error->fault : check_keys (self, error);
}

void wm_farm_profile_clear (wm_farm_profile_t *self)
{
    free (self->bytes);
    free (self->line);
    *self = (wm_farm_profile_t){ 0 };
}

/* Whether a hole's pairs are /A/B, once or more, with an A that is something.  */
static bool are_pairs (const char *at)
{
    while (*at == '/') {
        const size_t n = strcspn (at + 1, "/}");
        if (!n || at[n + 1] != '/')
            return false;
        at += n + 2;
        at += strcspn (at, "/}");
    }
    return true;
}

/* Whether line i has a list already, and this is another one. Keeps both.  */
static bool is_second (const wm_farm_values_t *values, size_t place, size_t i, size_t *line,
                       size_t *list)
{
    if (place == values->n || !values->value[place].list)
        return false;
    const bool is_another = *line == i && *list != place;
    *line = i;
    *list = place;
    return is_another;
}

wm_fault_t wm_farm_profile_check (const wm_farm_profile_t *self, wm_farm_key_t key,
                                  const wm_farm_values_t *values, wm_error_t *error)
{
    hole_t hole;
    char known[360] = "";
    size_t line = self->n, list = values->n; /* the list of that line */
    for (size_t i = 0; i < values->n; i++)
        snprintf (known + strlen (known), sizeof known - strlen (known), "%s%s", i ? " " : "",
                  values->value[i].name);
    for (size_t i = 0; i < self->n; i++)
        for (const char *at = self->line[i].text; self->line[i].key == key && *at; at++)
            if (!take_hole (at, &hole))
                continue;
            else if (is_second (values, place_of (values, hole.name, hole.n), i, &line, &list))
                return wm_fault (error, WM_EUSAGE,
                                 "%s:%u: {%.*s} is the second list of this line, which is repeated "
                                 "for the elements of one: write it into a line of its own",
                                 self->path, self->line[i].number, (int) hole.n, hole.name);
            else if (place_of (values, hole.name, hole.n) == values->n)
                return wm_fault (error, WM_EUSAGE,
                                 "%s:%u: {%.*s} is no value here; in `%s` there are: %s",
                                 self->path, self->line[i].number, (int) hole.n, hole.name,
                                 key_name[key], known);
            else if (!are_pairs (hole.pairs))
                return wm_fault (error, WM_EUSAGE,
                                 "%s:%u: %.*s: a replacement is {name/A/B}, with an A that is "
                                 "not empty",
                                 self->path, self->line[i].number, (int) (hole.end - at), at);
    return WM_OK;
}
