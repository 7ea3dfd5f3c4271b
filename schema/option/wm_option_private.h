/* wm_option_private.h - what the parser of command lines calls of wm_option_doc.c, and helpers of
   both.  */
#ifndef WM_OPTION_PRIVATE_H
#define WM_OPTION_PRIVATE_H

#include "schema/option/wm_option.h"

#include <stdio.h>
#include <string.h>

/* Returns whether the option takes a duration (wm_duration.h).  */
static inline bool wm_option_is_time (const wm_option_t *option)
{
    return option->value && strcmp (option->value, "TIME") == 0;
}

/* Writes what people type for the verb: "wiremill run", "wiremill-broker".  */
static inline const char *wm_verb_title (const wm_verb_t *verb, char title[64])
{
    snprintf (title, 64, "%s%s%s", verb->program ? verb->program : "wiremill",
              *verb->name ? " " : "", verb->name);
    return title;
}

/* Returns whether the program has verbs, not only one without a name.  */
static inline bool wm_program_has_verbs (const wm_program_t *program)
{
    return *program->verbs[0]->name != 0;
}

/* Print the help of a program, of a verb; with `all` every option.  */
void wm_program_help (const wm_program_t *program);
void wm_verb_help (const wm_verb_t *verb, bool all);

/* Prints a man page: of a verb, of a program without verbs, or (verb NULL) of a program with all
   its verbs listed.  */
void wm_option_print_man (const wm_program_t *program, const wm_verb_t *verb);

/* Prints the same as a page of the manual, in Markdown with definition lists.  */
void wm_option_print_markdown (const wm_program_t *program, const wm_verb_t *verb);

/* Prints one line for each man page, "NAME PROGRAM [VERB]": PROGRAM --print-man VERB prints it.  */
void wm_option_print_pages (const wm_program_t *program);

/* Prints a bash function that completes the program's command line.  */
void wm_option_print_completion (const wm_program_t *program);

#endif
