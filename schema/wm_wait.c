/* wm_wait.c - see wm_wait.h.  */
#include "schema/wm_wait.h"

#include <string.h>

const wm_wait_row_t wm_waits[WM_WAIT_END] = { [WM_WAIT_NONE] = { "", "", "", WM_WAIT_INFO, false,
                                                                 WM_WAIT_BY_NO_ONE },
#define WM_WAIT_ROW(id, number, name, severity, is_pause, by, sentence, advice)                    \
    [WM_WAIT_##id] = { name, sentence, advice, WM_WAIT_##severity, is_pause, WM_WAIT_BY_##by },
                                              WM_WAITS (WM_WAIT_ROW) };

const char *const wm_wait_severities[3] = { "info", "warning", "critical" };

wm_wait_t wm_wait_find (const char *name)
{
    for (int i = 1; i < WM_WAIT_END; i++)
        if (strcmp (name, wm_waits[i].name) == 0)
            return (wm_wait_t) i;
    return WM_WAIT_NONE;
}

bool wm_wait_is_of (const char *name, const char *family)
{
    const size_t n = strlen (family);
    return strncmp (name, family, n) == 0 && (!name[n] || strncmp (name + n, " (", 2) == 0);
}
