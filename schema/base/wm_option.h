/* wm_option.h - the command line as a table: parsing, help and errors come from it.

   A verb is one line of the table in main.c; its options are a table beside its code. Values are
   checked while parsing (numbers have a range), so that a verb's function only reads them.
   Everything here lives as long as main's argv. Thread: one.  */
#ifndef WM_OPTION_H
#define WM_OPTION_H

#include <stddef.h>

typedef struct {
    const char *name;     /* long name without dashes; NULL ends the table */
    char letter;          /* one-letter form, 0 for none */
    const char *value;    /* what it takes, for people ("FILE"); NULL: a flag */
    const char *fallback; /* the default as one would type it; NULL: none */
    const char *help;
    long least, most; /* a number in this range if most > 0 */
    int one_of;       /* value lists all it takes ("fp32|fast") */
    const char *task; /* heading in --help; NULL: as the option before */
} wm_option_t;

typedef struct wm_args_t wm_args_t;

typedef struct {
    const char *program; /* that has the verb; NULL: "wiremill" */
    const char *name;    /* "": the program itself, which has no verbs */
    const char *task;    /* heading in --help; NULL: as the verb before */
    const char *rest;    /* what may follow the options, for people; NULL: nothing may */
    const char *summary; /* one line */
    const char *text;    /* more, with an example; may be NULL */
    const wm_option_t *options;
    int (*run) (const wm_args_t *args);  /* returns the exit code; NULL: not built yet */
    int (*pass) (int argc, char **argv); /* instead of run: another program has the options */
} wm_verb_t;

/* Parses argv[1..] for `verb`. NULL after --help (*exit_code 0) or an error that has been printed
   (*exit_code WM_EXIT_USAGE). "--name value", "--name=value", "-x value", "--" are understood.  */
wm_args_t *wm_args_new (const wm_verb_t *verb, int argc, char **argv, int *exit_code);
void wm_args_destroy (wm_args_t **self_p);

/* The last value given, else the default, else NULL. The name must be in the verb's table.  */
const char *wm_args_text (const wm_args_t *self, const char *name);
int wm_args_given (const wm_args_t *self, const char *name); /* how many times */
long wm_args_number (const wm_args_t *self, const char *name);
const char *wm_args_each (const wm_args_t *self, const char *name, int i); /* NULL past the last */
const char *wm_args_rest (const wm_args_t *self, int i);                   /* likewise */

/* The words as they were typed, from the verb on. */
const char *wm_args_word (const wm_args_t *self, int i);

/* Help of all verbs, of one.  */
void wm_verbs_help (const wm_verb_t *verbs);
void wm_verb_help (const wm_verb_t *verb);

/* The name in verbs[] or options[] nearest to `name`, NULL if none is near. */
const char *wm_verb_nearest (const wm_verb_t *verbs, const char *name);
const char *wm_option_nearest (const wm_option_t *options, const char *name);

#endif
