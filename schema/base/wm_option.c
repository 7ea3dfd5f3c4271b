/* wm_option.c - see wm_option.h. */

#include "schema/base/wm_option.h"
#include "schema/base/wm_fault.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_CHARS 32 /* longer names are near to nothing */
#define LEFT_WIDTH 28     /* of an option in --help; its words stand to the right, or below */

typedef struct {
    const wm_option_t *option; /* NULL: an argument that is no option */
    const char *value;
} given_t;

struct wm_args_t {
    const wm_verb_t *verb;
    int argc;
    char **argv;
    int n_given;
    given_t given[]; /* at most argc */
};

/* ---- nearest name ---------------------------------------------------------------------------- */

/* Edit distance of two short words (Levenshtein, one row).  */
static size_t distance (const char *a, const char *b)
{
    size_t row[NAME_MAX_CHARS + 1];
    const size_t n = strlen (b);
    if (n > NAME_MAX_CHARS || strlen (a) > NAME_MAX_CHARS)
        return NAME_MAX_CHARS;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            const size_t replace = diagonal + (a[i - 1] != b[j - 1]);
            const size_t least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = replace < least ? replace : least;
        }
    }
    return row[n];
}

/* Keeps the nearer of *best and `candidate`; near means at most half the word is wrong, or the one
   begins with the other.  */
static void nearer (const char *name, const char *candidate, const char **best, size_t *least)
{
    size_t d = distance (name, candidate);
    const size_t n = strlen (name);
    if (n >= 2 && strncmp (name, candidate, n) == 0)
        d = 1;
    if (d < *least && d <= (n + 1) / 2) {
        *least = d;
        *best = candidate;
    }
}

const char *wm_verb_nearest (const wm_verb_t *verbs, const char *name)
{
    const char *best = NULL;
    size_t least = NAME_MAX_CHARS;
    for (; verbs->name; verbs++)
        nearer (name, verbs->name, &best, &least);
    return best;
}

const char *wm_option_nearest (const wm_option_t *options, const char *name)
{
    const char *best = NULL;
    size_t least = NAME_MAX_CHARS;
    for (; options->name; options++)
        nearer (name, options->name, &best, &least);
    return best;
}

static const char *program_of (const wm_verb_t *verb)
{
    return verb->program ? verb->program : "wiremill";
}

/* ---- help ------------------------------------------------------------------------------------ */

void wm_verbs_help (const wm_verb_t *verbs)
{
    printf (
        "wiremill - scores every hit of many events with a CNN, and finishes whatever is killed\n"
        "\nusage: wiremill VERB [OPTIONS]     (wiremill VERB --help lists a verb's options)\n");
    for (const wm_verb_t *v = verbs; v->name; v++) {
        if (v->task)
            printf ("\n%s\n", v->task);
        printf ("  %-9s %s\n", v->name, v->summary);
    }
    printf ("\nexit codes: 0 all done, 1 failure, 2 usage, 3 finished with held events, 4 broker\n"
            "unreachable, 5 bad model, input or campaign folder, 6 the engine asked for cannot run "
            "here,\n75 try again (also: drained, the same command resumes)\n");
}

void wm_verb_help (const wm_verb_t *verb)
{
    printf ("%s %s - %s\n\nusage: %s %s [OPTIONS]%s%s\n", program_of (verb), verb->name,
            verb->summary, program_of (verb), verb->name, verb->rest ? " " : "",
            verb->rest ? verb->rest : "");
    for (const wm_option_t *o = verb->options; o->name; o++) {
        char left[64];
        if (o->task)
            printf ("\n%s\n", o->task);
        snprintf (left, sizeof left, "%s%c%s--%s%s%s", o->letter ? "-" : " ",
                  o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name,
                  o->value ? " " : "", o->value ? o->value : "");
        if (strlen (left) > LEFT_WIDTH)
            printf ("  %s\n  %-*s %s", left, LEFT_WIDTH, "", o->help);
        else
            printf ("  %-*s %s", LEFT_WIDTH, left, o->help);
        if (o->fallback)
            printf (" (default: %s)", o->fallback);
        printf ("\n");
    }
    if (verb->text)
        printf ("\n%s", verb->text);
}

/* ---- parsing --------------------------------------------------------------------------------- */

static const wm_option_t *find (const wm_verb_t *verb, const char *name, size_t n)
{
    for (const wm_option_t *o = verb->options; o->name; o++)
        if (strlen (o->name) == n && memcmp (o->name, name, n) == 0)
            return o;
    return NULL;
}

static const wm_option_t *find_letter (const wm_verb_t *verb, char letter)
{
    for (const wm_option_t *o = verb->options; o->name; o++)
        if (o->letter && o->letter == letter)
            return o;
    return NULL;
}

static int complain_unknown (const wm_verb_t *verb, const char *word)
{
    char name[NAME_MAX_CHARS + 1];
    snprintf (name, sizeof name, "%s", word + strspn (word, "-"));
    name[strcspn (name, "=")] = 0;
    const char *near = wm_option_nearest (verb->options, name);
    fprintf (stderr, "%s %s: there is no option '%s'%s%s%s; see %s %s --help\n", program_of (verb),
             verb->name, word, near ? ", did you mean --" : "", near ? near : "", near ? "?" : "",
             program_of (verb), verb->name);
    return -1;
}

static int is_one_of (const char *list, const char *value)
{
    const size_t n = strlen (value);
    for (const char *word = list; word; word = strchr (word, '|') ? strchr (word, '|') + 1 : NULL)
        if (strcspn (word, "|") == n && memcmp (word, value, n) == 0)
            return 1;
    return 0;
}

static int check_value (const wm_verb_t *verb, const wm_option_t *option, const char *value)
{
    if (option->one_of && !is_one_of (option->value, value)) {
        fprintf (stderr, "%s %s: --%s takes %s, not '%s'\n", program_of (verb), verb->name,
                 option->name, option->value, value);
        return -1;
    }
    if (!option->most)
        return 0;
    char *end;
    errno = 0;
    const long number = strtol (value, &end, 10);
    if (errno || end == value || *end || number < option->least || number > option->most) {
        fprintf (stderr, "%s %s: --%s takes a whole number from %ld to %ld, not '%s'\n",
                 program_of (verb), verb->name, option->name, option->least, option->most, value);
        return -1;
    }
    return 0;
}

/* Reads the option at argv[*i], moves *i past its value. 0 or -1 (printed).  */
static int parse_option (wm_args_t *self, int argc, char **argv, int *i)
{
    const wm_verb_t *verb = self->verb;
    const char *word = argv[*i], *value = NULL;
    const wm_option_t *option;
    if (word[1] == '-') {
        const size_t n = strcspn (word + 2, "=");
        option = find (verb, word + 2, n);
        if (word[2 + n] == '=')
            value = word + 2 + n + 1;
    } else {
        option = find_letter (verb, word[1]);
        if (option && word[2])
            value = word + 2;
    }
    if (!option)
        return complain_unknown (verb, word);
    if (!option->value && value) {
        fprintf (stderr, "%s %s: --%s takes no value\n", program_of (verb), verb->name,
                 option->name);
        return -1;
    }
    if (option->value && !value) {
        if (*i + 1 >= argc) {
            fprintf (stderr, "%s %s: --%s needs %s\n", program_of (verb), verb->name, option->name,
                     option->value);
            return -1;
        }
        value = argv[++*i];
    }
    if (value && check_value (verb, option, value))
        return -1;
    self->given[self->n_given++] = (given_t){ option, value ? value : "" };
    return 0;
}

wm_args_t *wm_args_new (const wm_verb_t *verb, int argc, char **argv, int *exit_code)
{
    wm_args_t *self = calloc (1, sizeof *self + (size_t) (argc + 1) * sizeof (given_t));
    assert (self);
    self->verb = verb;
    self->argc = argc;
    self->argv = argv;
    *exit_code = WM_EXIT_USAGE;
    int only_rest = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!only_rest && (strcmp (word, "--help") == 0 || strcmp (word, "-h") == 0)) {
            wm_verb_help (verb);
            *exit_code = WM_EXIT_OK;
            wm_args_destroy (&self);
            return NULL;
        }
        if (!only_rest && strcmp (word, "--") == 0)
            only_rest = 1;
        else if (!only_rest && word[0] == '-' && word[1]) {
            if (parse_option (self, argc, argv, &i)) {
                wm_args_destroy (&self);
                return NULL;
            }
        } else if (!verb->rest) {
            fprintf (stderr, "%s %s: '%s' is one word too many; see %s %s --help\n",
                     program_of (verb), verb->name, word, program_of (verb), verb->name);
            wm_args_destroy (&self);
            return NULL;
        } else
            self->given[self->n_given++] = (given_t){ NULL, word };
    }
    *exit_code = WM_EXIT_OK;
    return self;
}

void wm_args_destroy (wm_args_t **self_p)
{
    if (*self_p) {
        free (*self_p);
        *self_p = NULL;
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

const char *wm_args_each (const wm_args_t *self, const char *name, int i)
{
    for (int k = 0; k < self->n_given; k++)
        if (self->given[k].option && strcmp (self->given[k].option->name, name) == 0 && i-- == 0)
            return self->given[k].value;
    return NULL;
}

int wm_args_given (const wm_args_t *self, const char *name)
{
    int n = 0;
    while (wm_args_each (self, name, n))
        n++;
    return n;
}

const char *wm_args_text (const wm_args_t *self, const char *name)
{
    const wm_option_t *option = find (self->verb, name, strlen (name));
    assert (option); /* a verb reads only what its table has */
    const int n = wm_args_given (self, name);
    return n ? wm_args_each (self, name, n - 1) : option->fallback;
}

long wm_args_number (const wm_args_t *self, const char *name)
{
    const char *text = wm_args_text (self, name);
    return text ? strtol (text, NULL, 10) : 0;
}

const char *wm_args_rest (const wm_args_t *self, int i)
{
    for (int k = 0; k < self->n_given; k++)
        if (!self->given[k].option && i-- == 0)
            return self->given[k].value;
    return NULL;
}

const char *wm_args_word (const wm_args_t *self, int i)
{
    return i < self->argc ? self->argv[i] : NULL;
}
