/* wm_option.h - command lines as tables: parsing, --help, man pages and errors come from them.

   A program (wm_program_t) has a table of verbs, a verb a table of options. wm_program_run chooses
   the verb, parses and calls its function, which only reads: names and values were checked while
   parsing. A program without verbs has one verb whose name is "". A new verb is one file and one
   row of its program's table. Texts are borrowed: tables are static, values are main's argv.
   Thread: one.  */
#ifndef WM_OPTION_H
#define WM_OPTION_H

#include "schema/base/wm_fault.h"
#include "schema/base/wm_target.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* What the value of an option is the name of. Parsing compares what is read with what is written
   (wm_target.h), so each option whose value is a path states it.  */
typedef enum {
    WM_PATH_NONE,
    WM_PATH_READ,      /* a file that is read; also FILE:/DATASET and NAME=FILE */
    WM_PATH_LIST,      /* a file that is read, and so are those that its lines name */
    WM_PATH_GLOB,      /* files that are read */
    WM_PATH_FOLDER,    /* a folder: a campaign, or where the verb has names of its own */
    WM_PATH_PRESENT,   /* a folder that exists */
    WM_PATH_ELSEWHERE, /* a file or folder of other machines, which may be something else here */
    WM_PATH_OPEN,      /* what the process that started this one has opened */
    WM_PATH_WRITTEN,   /* a file that is written, of kind `writes` */
} wm_path_use_t;

/* One option. Whoever leaves a member out gets 0, NULL or false.  */
typedef struct {
    const char *name;     /* long name without dashes; NULL ends the table */
    char letter;          /* one-letter form; 0: none */
    const char *value;    /* what it takes, for people ("FILE"); NULL: nothing, it is a flag */
    const char *fallback; /* the default, as one would type it; NULL: none */
    const char *help;     /* one line */
    long least, most;     /* if most > 0: the value is a whole number from least to most */
    double real_least; /* if real_most > 0: the value is a number from real_least to real_most; */
    double real_most;  /* INFINITY: without an upper limit */
    bool is_above;     /* ... and real_least itself is refused */
                       /* `value` is "TIME": a duration (wm_duration.h), at least real_least */
    const char *was;   /* names of earlier releases ("engine|e"): refused, with the new one */
    bool one_of;       /* `value` lists all that are allowed ("fp32|fast"); with path a file, too,
                          whose name has a '.' or a '/' */
    bool is_needed;    /* the command is refused without it */
    bool may_be_empty; /* "" is a value, else it is refused */
    wm_path_use_t path;
    bool once;     /* a second, other value is refused, as for files to write; of other options
                      the last value counts */
    bool may_lack; /* with path: no such file is for the verb, which knows other names, too */
    const char *text; /* of WM_PATH_READ and LIST: what it must be ("a channel map"); a file that is
                         no text (wm_kind.h) is refused */
    const wm_target_kind_t *writes; /* of WM_PATH_WRITTEN */
    const char *task; /* heading in --help of the group that begins here; NULL: the same group */
} wm_option_t;

/* The flag of a verb that writes a file.  */
#define WM_OPTION_FORCE                                                                            \
    {                                                                                              \
        .name = "force", .help = "replace what has the name of a file to write, whatever it is"    \
    }

typedef struct wm_args_t wm_args_t;

/* One verb. It has either `run` or `pass`.  */
typedef struct {
    const char *program; /* that has the verb; NULL: "wiremill" */
    const char *name;    /* "": the program itself, which has no verbs */
    const char *task;    /* heading of its group in the program's --help; verbs of a group follow
                            each other */
    const char *rest;    /* arguments beside options, for people; NULL: none are taken */
    const char *summary; /* one line */
    /* An example, then paragraphs; NULL: none. A line that begins with a space stays as it is,
       other lines are filled; an empty line separates.  */
    const char *text;
    const wm_option_t *options;
    const char *common;  /* names of the options that --help lists, with blanks between; --help-all
                            lists the others, too. NULL: --help lists all */
    int (*run) (const wm_args_t *args);  /* returns the exit code */
    int (*pass) (int argc, char **argv); /* the same, parsing for itself; argv[0] is the verb */
    const char *pass_to;                 /* with pass: the program whose table has the options */
} wm_verb_t;

typedef struct {
    const char *name, *version;
    const char *summary;           /* one line */
    const char *first;             /* before the list of verbs: lines to type; NULL: none */
    const char *text;              /* after the list of verbs; as wm_verb_t's */
    /* Prints a page of the manual for `help WORD`, where WORD is no verb. Returns -1 if no page
       has this name, else the exit code. NULL: this program has no pages.  */
    int (*page) (const char *word);
    const wm_verb_t *const *verbs; /* NULL ends the table */
} wm_program_t;

/* ---- programs -------------------------------------------------------------------------------- */

/* Runs the verb that argv names and returns the exit code. Answers --help, --help-all,
   "help [VERB|PAGE]", --version and -V (also behind a verb) and, for the build and its tests,
   --print-man [VERB], --print-markdown [VERB], --print-pages, --print-completion and --print-paths
   by itself. Where stdout could not be written, that is printed, and WM_EXIT_OK or WM_EXIT_HELD
   becomes WM_EXIT_FAILURE.  */
int wm_program_run (const wm_program_t *program, int argc, char **argv);

/* Parses for the verb and runs it. Returns the exit code.  */
int wm_verb_main (const wm_verb_t *verb, int argc, char **argv);

/* ---- parsing --------------------------------------------------------------------------------- */

/* Parses argv[1..] for `verb`. Understands --name value, --name=value, -x value, -xvalue and "--",
   behind which everything is an argument. Refuses empty values and arguments, paths with a "~"
   that the shell left there, a file to read that does not exist, is a folder or is no text where it
   must be one, a folder that is a file, and files to write that are inputs or of another kind
   (wm_target.h; each argument that is no option counts as an input). Returns NULL after --help or
   --help-all (*exit_code is WM_EXIT_OK) or after an error, which was printed (WM_EXIT_USAGE).  */
wm_args_t *wm_args_new (const wm_verb_t *verb, int argc, char **argv, int *exit_code);
void wm_args_destroy (wm_args_t **self_p);

/* Prints "wiremill run: TEXT; see wiremill run --help". Returns WM_EXIT_USAGE.  */
int wm_args_refuse (const wm_args_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

/* ---- reading --------------------------------------------------------------------------------- */

/* Fills in where the file of this option is written, and returns it (wm_target_place); NULL: the
   option was not given.  */
const char *wm_args_place (const wm_args_t *self, const char *name, char place[PATH_MAX]);

/* Checks that no option names `path`, a file that the verb only now knows to be an input, as a file
   to write; `what` describes it ("an input of the campaign"). WM_EUSAGE: one does.  */
wm_fault_t wm_args_spare (const wm_args_t *self, const char *path, const char *what,
                          wm_error_t *error);

/* Return the last value given, else the default, else NULL or 0. A name that is not in the verb's
   table is a bug.  */
const char *wm_args_text (const wm_args_t *self, const char *name);
long wm_args_number (const wm_args_t *self, const char *name);
double wm_args_real (const wm_args_t *self, const char *name);
double wm_args_seconds (const wm_args_t *self, const char *name); /* of a "TIME" */

/* Returns whether the option was typed.  */
bool wm_args_given (const wm_args_t *self, const char *name);

/* Return the i-th value of an option, the i-th argument that is no option; NULL past the last.  */
const char *wm_args_each (const wm_args_t *self, const char *name, int i);
const char *wm_args_rest (const wm_args_t *self, int i);

/* Returns the i-th word of the command as it was typed, the verb first; NULL past the last.  */
const char *wm_args_word (const wm_args_t *self, int i);

/* Return the name nearest to `name`; NULL if none is near. Of options that is also help or version;
   `options` may be NULL.  */
const char *wm_verb_nearest (const wm_verb_t *const *verbs, const char *name);
const char *wm_option_nearest (const wm_option_t *options, const char *name);

#endif
