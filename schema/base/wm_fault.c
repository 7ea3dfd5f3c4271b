/* wm_fault.c - writes the text of a fault.  */
#include "schema/base/wm_fault.h"

#include <stdarg.h>
#include <stdio.h>

wm_fault_t wm_fault (wm_error_t *error, wm_fault_t fault, const char *format, ...)
{
    if (error) {
        va_list arguments;
        va_start (arguments, format);
        error->fault = fault;
        vsnprintf (error->text, sizeof error->text, format, arguments);
        va_end (arguments);
    }
    return fault;
}
