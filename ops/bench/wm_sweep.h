/* wm_sweep.h - a list of values on the command line, "1,16,64".  */
#ifndef WM_SWEEP_H
#define WM_SWEEP_H

#include "schema/option/wm_option.h"

#define WM_SWEEP_MAX 32

typedef struct {
    const char *text[WM_SWEEP_MAX];
    long number[WM_SWEEP_MAX];
    int n;
    char memory[512];
} wm_sweep_t;

/* Reads the option's value, else `fallback` (NULL: the option's own); each word must be one of
   `all` ("a|b|c"). Returns 0, or WM_EXIT_USAGE after printing an error.  */
int wm_sweep_words (wm_sweep_t *self, const wm_args_t *args, const char *option,
                    const char *fallback, const char *all);
/* Reads it likewise; each must be a whole number in the range.  */
int wm_sweep_numbers (wm_sweep_t *self, const wm_args_t *args, const char *option,
                      const char *fallback, long least, long most);

#endif
