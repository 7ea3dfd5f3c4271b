/* wm_farm_profile.h - a batch system as a text file: its commands as templates, and how to read
   what they print. ops/farm/PROFILES.md explains the format to those who write one.

   A profile is lines: `key = value`, further lines of a value (they begin with a blank), comments
   (#), and at the end perhaps [NAME] and the text of a file of that name. {name} in a line stands
   for a value. A line in which a value is empty is left out; one with a list is repeated for each
   of its elements. Thread: one.  */
#ifndef WM_FARM_PROFILE_H
#define WM_FARM_PROFILE_H

#include "schema/base/wm_fault.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum {
    WM_FARM_SUBMIT, /* commands: words, quoted as a shell's; each reads what the one before wrote */
    WM_FARM_LIST,
    WM_FARM_WITHDRAW,
    WM_FARM_DRAIN,
    WM_FARM_KILL,
    WM_FARM_HARMLESS, /* texts */
    WM_FARM_OVER,
    WM_FARM_FAILED,
    WM_FARM_PENDING,
    WM_FARM_REASON,
    WM_FARM_JOB,
    WM_FARM_AT_ONCE,
    WM_FARM_NAMES_NOT,
    WM_FARM_DONE,
    WM_FARM_FILE, /* the text after [NAME] */
    WM_FARM_KEYS
} wm_farm_key_t;

#define WM_FARM_VALUES_MAX 48

/* What names in a template stand for; zeroed before the first one is put.  */
typedef struct {
    size_t n;
    struct {
        const char *name;
        char *text;              /* its own */
        const char *const *list; /* lent, NULL ends it; NULL: it is a text */
    } value[WM_FARM_VALUES_MAX];
} wm_farm_values_t;

/* Puts a text, in place of an earlier one of this name; a list is lent.  */
void wm_farm_values_put (wm_farm_values_t *self, const char *name, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));
void wm_farm_values_list (wm_farm_values_t *self, const char *name, const char *const *list);
void wm_farm_values_clear (wm_farm_values_t *self);

typedef struct {
    char path[PATH_MAX], name[64]; /* "slurm" of ".../slurm.profile" */
    const char *file;              /* NAME of its [NAME]; NULL without one */
    unsigned at_once;              /* jobs of a submission at most; 0: any number */
    char *bytes;
    size_t n;
    struct wm_farm_profile_line *line;
} wm_farm_profile_t;

/* Reads a profile. WM_EUSAGE: it cannot be read, or has a mistake: which, on which line.  */
wm_fault_t wm_farm_profile_read (wm_farm_profile_t *self, const char *path, wm_error_t *error);
void wm_farm_profile_clear (wm_farm_profile_t *self);

/* Checks that each name in this key's lines is one of the values. WM_EUSAGE: it is not.  */
wm_fault_t wm_farm_profile_check (const wm_farm_profile_t *self, wm_farm_key_t key,
                                  const wm_farm_values_t *values, wm_error_t *error);

bool wm_farm_profile_has (const wm_farm_profile_t *self, wm_farm_key_t key);

/* Whether {name} is anywhere in it.  */
bool wm_farm_profile_uses (const wm_farm_profile_t *self, const char *name);

/* The lines of a key with their values, each with its end; the caller frees it.  */
char *wm_farm_profile_text (const wm_farm_profile_t *self, wm_farm_key_t key,
                            const wm_farm_values_t *values);

/* Words of a command; the caller frees it, with all that it points to. NULL: the profile has no
   turn-th command of this key. No word: its first line is left out, and so is the command.  */
const char **wm_farm_profile_command (const wm_farm_profile_t *self, wm_farm_key_t key,
                                      unsigned turn, const wm_farm_values_t *values);

#endif
