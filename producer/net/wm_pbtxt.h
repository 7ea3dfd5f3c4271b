/* wm_pbtxt.h - reads protobuf's text format, as Triton's config.pbtxt has it.

   Nothing is known of the fields' types here: every field becomes an array of what was given for
   it, strings and names as JSON strings, numbers as numbers, messages as objects. Thread: any.  */
#ifndef WM_PBTXT_H
#define WM_PBTXT_H

#include "schema/base/wm_fault.h"

#include <jansson.h>
#include <stdbool.h>

#define WM_PBTXT_BYTES_MAX (1u << 20)
#define WM_PBTXT_DEPTH_MAX 16

/* Returns {"name": ["m"], "input": [{...}, {...}], ...}, the caller's. NULL with WM_EBATCH:
   `where`, the line, and what is wrong there.  */
json_t *wm_pbtxt_parse (const char *text, const char *where, wm_error_t *error);

/* Return the last value of a field: text and names; a number; an object (lent). NULL and 0 where it
   is not there, or another kind.  */
const char *wm_pbtxt_text (const json_t *message, const char *field);
json_int_t wm_pbtxt_number (const json_t *message, const char *field);
json_t *wm_pbtxt_message (const json_t *message, const char *field);

#endif
