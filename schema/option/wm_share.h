/* wm_share.h - a share as people type it: "0.1%", "0.001", "0".  Thread: any.  */
#ifndef WM_SHARE_H
#define WM_SHARE_H

#include <stdlib.h>
#include <string.h>

/* Returns 0 and sets *share, from 0 to 1; -1: the text is no share.  */
static inline int wm_share_parse (const char *text, double *share)
{
    char *end;
    const double value = strtod (text, &end);
    const int is_percent = strcmp (end, "%") == 0;
    if (end == text || (*end && !is_percent) || !(value >= 0 && value <= (is_percent ? 100 : 1)))
        return -1;
    *share = is_percent ? value / 100 : value;
    return 0;
}

#endif
