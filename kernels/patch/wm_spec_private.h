/* wm_spec_private.h - the keys of a patch specification.

   One table serves parsing, printing and error texts, so that a key cannot be in one and not in
   the others.  */
#ifndef WM_SPEC_PRIVATE_H
#define WM_SPEC_PRIVATE_H

#include "kernels/patch/wm_spec.h"

typedef enum {
    WM_SPEC_NAME,     /* char[64] */
    WM_SPEC_SIDES,    /* two uint32_t */
    WM_SPEC_COUNT,    /* uint32_t */
    WM_SPEC_CHOICE,   /* enum, one of `choice` */
    WM_SPEC_RANGE,    /* two doubles, the first smaller */
    WM_SPEC_FACTORS,  /* amplitude */
    WM_SPEC_FACT,     /* double, or the word input (NaN): a fact of the event */
    WM_SPEC_POSITIVE, /* the same, > 0 */
    WM_SPEC_WIRES,    /* uint32_t, or the word input (0) */
    WM_SPEC_NAMES,    /* labels */
    WM_SPEC_STEP,     /* uint32_t, or the word patch (0) */
    WM_SPEC_TAGS,     /* tags */
} wm_spec_kind_t;

typedef struct {
    const char *name;
    wm_spec_kind_t kind;
    size_t offset;
    const char *unit; /* of its value, or a comment on it, for people */
    const char *help; /* lines of at most 77 columns */
    const char *choice[4];
    uint32_t max;
} wm_spec_key_t;

enum { WM_SPEC_KEYS = 22, WM_SPEC_KEYS_FIRST = 15 }; /* the first are always printed */
extern const wm_spec_key_t wm_spec_keys[WM_SPEC_KEYS];

/* Returns whether an output file has a column of this name beside the labels.  */
int wm_spec_is_column (const char *name);

#endif
