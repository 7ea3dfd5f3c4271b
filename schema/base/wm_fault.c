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

bool wm_exit_is_final (int code)
{
    return code == WM_EXIT_USAGE || code == WM_EXIT_INPUT || code == WM_EXIT_REFUSED;
}

int wm_exit_of (wm_fault_t fault)
{
    switch (fault) {
    case WM_OK:
        return WM_EXIT_OK;
    case WM_EBATCH:
        return WM_EXIT_INPUT;
    case WM_EUSAGE:
        return WM_EXIT_USAGE;
    case WM_EAGAIN:
        return WM_EXIT_AGAIN;
    case WM_EKEY:
        return WM_EXIT_REFUSED;
    default:
        return WM_EXIT_FAILURE;
    }
}

const char *wm_exit_meaning (int code)
{
    switch (code) {
    case WM_EXIT_OK:
        return "all done";
    case WM_EXIT_FAILURE:
        return "failure";
    case WM_EXIT_USAGE:
        return "its command line was refused";
    case WM_EXIT_HELD:
        return "finished, something is held";
    case WM_EXIT_UNREACHABLE:
        return "no broker answers";
    case WM_EXIT_INPUT:
        return "bad model, input or campaign folder";
    case WM_EXIT_ENGINE:
        return "the engine cannot run here";
    case WM_EXIT_REFUSED:
        return "the broker refused its key";
    case WM_EXIT_AGAIN:
        return "try again later";
    case 126:
    case 127:
        return "the program could not be started";
    default:
        return NULL;
    }
}
