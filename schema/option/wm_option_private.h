/* wm_option_private.h - what the two files of wm_option share: parsing, and texts for people.  */
#ifndef WM_OPTION_PRIVATE_H
#define WM_OPTION_PRIVATE_H

#include "schema/option/wm_option.h"

#include <string.h>

/* Returns whether the option takes a duration (wm_duration.h).  */
static inline bool wm_option_is_time (const wm_option_t *option)
{
    return option->value && strcmp (option->value, "TIME") == 0;
}

/* Refuses a value that leads to something else than the option takes: a file that is to be read and
   does not exist or is a folder, a folder that is a file. The text begins with the path. Names of
   presets, URLs, patterns and templates are for the verb. WM_EUSAGE.  */
wm_fault_t wm_option_check_path (const wm_option_t *option, const char *value, wm_error_t *error);

/* Refuses files to write that are inputs of this command, or of another kind. WM_EUSAGE.  */
wm_fault_t wm_option_check_paths (const wm_args_t *args, wm_error_t *error);

/* Returns the verb whose command line this is.  */
const wm_verb_t *wm_args_verb (const wm_args_t *self);

/* Writes what people type for the verb: "wiremill run", "wiremill-broker".  */
const char *wm_verb_title (const wm_verb_t *verb, char title[64]);

/* Returns whether the program has verbs, not only one without a name.  */
bool wm_program_has_verbs (const wm_program_t *program);

/* Print the help of a program, of a verb.  */
void wm_program_help (const wm_program_t *program);
void wm_verb_help (const wm_verb_t *verb);

/* Print a man page: of a verb, of a program without verbs, or (verb NULL) of a program with all its
   verbs listed.  */
void wm_option_print_man (const wm_program_t *program, const wm_verb_t *verb);

/* Prints one line for each man page, "NAME PROGRAM [VERB]": PROGRAM --print-man VERB prints it.  */
void wm_option_print_pages (const wm_program_t *program);

/* Prints a line for each option with a value: program, verb, option, value, what it names (a path
   that is read, written ...), the kind of file that is written, and whether the verb has --force
   and the kind streams or is appended to; tabs between.  */
void wm_option_print_paths (const wm_program_t *program);

/* Prints a bash function that completes the program's command line.  */
void wm_option_print_completion (const wm_program_t *program);

#endif
