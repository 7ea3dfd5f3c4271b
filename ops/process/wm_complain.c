/* wm_complain.c - see wm_complain.h. */
#include "ops/process/wm_complain.h"

#include "ops/process/wm_words.h"

#include <stdio.h>

int wm_complain (const char *verb, const wm_error_t *error)
{
    wm_words_print (stderr, "wiremill%s%s: %s", verb ? " " : "", verb ? verb : "", error->text);
    return wm_exit_of (error->fault);
}
