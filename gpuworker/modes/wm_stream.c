/* wm_stream.c - see wm_stream.h.  */
#include "gpuworker/modes/wm_stream.h"
#include "schema/wm_limits.h"

#include <string.h>
#include <unistd.h>

FILE *wm_stream_report (void)
{
    FILE *report = fdopen (dup (STDOUT_FILENO), "w");
    return report && dup2 (STDERR_FILENO, STDOUT_FILENO) >= 0 ? report : NULL;
}

bool wm_stream_bytes (void *to, size_t size)
{
    return fread (to, 1, size, stdin) == size;
}

wm_fault_t wm_stream_cut_short (wm_error_t *error)
{
    return feof (stdin) ? wm_fault (error, WM_EBATCH,
                                    "standard input ends too early: wiremill-producer, which "
                                    "writes there, ended before, and reported why")
                        : wm_fault (error, WM_EBATCH,
                                    "what comes on standard input is not from wiremill-producer");
}

wm_fault_t wm_stream_head (const char *kind, wm_pins_t *pins, wm_spec_t *spec, wm_error_t *error)
{
    char text[WM_PINS_BYTES_MAX], word[16];
    size_t bytes;
    if (ungetc (getchar (), stdin) == EOF)
        return wm_fault (error, WM_EBATCH,
                         "nothing came on standard input: wiremill-producer, which writes there, "
                         "ended before, and reported why");
    if (scanf ("wiremill-%15[a-z] 1 pins %zu", word, &bytes) != 2 || getchar () != '\n' ||
        strcmp (word, kind) != 0 || bytes > sizeof text || !wm_stream_bytes (text, bytes))
        return wm_stream_cut_short (error);
    wm_fault_t fault = wm_pins_parse (pins, text, bytes, error);
    if (!fault)
        fault = wm_spec_parse (spec, pins->spec, strlen (pins->spec), "the pins", error);
    return fault;
}

wm_model_t *wm_stream_model (const wm_pins_t *pins, const char *cache, wm_error_t *error)
{
    char path[4096];
    snprintf (path, sizeof path, "%s/%s.wmm", cache, pins->wmm);
    return wm_model_open (path, error);
}
