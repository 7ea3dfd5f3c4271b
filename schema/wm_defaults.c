/* wm_defaults.c - see wm_defaults.h.  */
#include "schema/wm_defaults.h"

#include <string.h>

double wm_default_error (const char *precision)
{
    return strcmp (precision, "fast") == 0    ? WM_DEFAULT_ERROR_FAST
           : strcmp (precision, "split") == 0 ? WM_DEFAULT_ERROR_SPLIT
                                              : WM_DEFAULT_ERROR_FP32;
}
