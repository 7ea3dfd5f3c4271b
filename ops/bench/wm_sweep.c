/* wm_sweep.c - see wm_sweep.h.  */
#include "ops/bench/wm_sweep.h"
#include "schema/base/wm_fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain (const char *option, const char *what, const char *value)
{
    fprintf (stderr, "wiremill bench: --%s takes a list of %s, with commas between, not '%s'\n",
             option, what, value);
    return WM_EXIT_USAGE;
}

/* Splits at commas; 0, or the exit code.  */
static int split (wm_sweep_t *self, const char *option, const char *value)
{
    self->n = 0;
    if (strlen (value) >= sizeof self->memory)
        return complain (option, "fewer values", value);
    strcpy (self->memory, value);
    for (char *word = self->memory; word; self->n++) {
        if (self->n == WM_SWEEP_MAX)
            return complain (option, "at most 32 values", value);
        self->text[self->n] = word;
        if ((word = strchr (word, ',')))
            *word++ = 0;
    }
    return 0;
}

static const char *value_of (const wm_args_t *args, const char *option, const char *fallback)
{
    return fallback && !wm_args_given (args, option) ? fallback : wm_args_text (args, option);
}

int wm_sweep_words (wm_sweep_t *self, const wm_args_t *args, const char *option,
                    const char *fallback, const char *all)
{
    const char *value = value_of (args, option, fallback);
    const int code = split (self, option, value);
    for (int i = 0; i < self->n && !code; i++) {
        const size_t n = strlen (self->text[i]);
        const char *at = all;
        while (at && (strcspn (at, "|") != n || memcmp (at, self->text[i], n) != 0))
            at = strchr (at, '|') ? strchr (at, '|') + 1 : NULL;
        if (!at)
            return complain (option, all, value);
    }
    return code;
}

int wm_sweep_numbers (wm_sweep_t *self, const wm_args_t *args, const char *option,
                      const char *fallback, long least, long most)
{
    char *end, what[64];
    const char *value = value_of (args, option, fallback);
    const int code = split (self, option, value);
    for (int i = 0; i < self->n && !code; i++) {
        errno = 0;
        self->number[i] = strtol (self->text[i], &end, 10);
        if (!errno && end != self->text[i] && !*end && self->number[i] >= least &&
            self->number[i] <= most)
            continue;
        snprintf (what, sizeof what, "whole numbers from %ld to %ld", least, most);
        return complain (option, what, value);
    }
    return code;
}
