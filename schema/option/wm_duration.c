/* wm_duration.c - see wm_duration.h.  */
#include "schema/option/wm_duration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE_S 60
#define HOUR_S 3600
#define DAY_S 86400

/* "H:MM:SS"; NAN: it is not of this form.  */
static double clock_s (const char *text)
{
    unsigned hours, minutes, seconds;
    int end = 0;
    if (text[strspn (text, "0123456789:")] ||
        sscanf (text, "%6u:%2u:%2u%n", &hours, &minutes, &seconds, &end) != 3 || text[end] ||
        minutes > 59 || seconds > 59)
        return NAN;
    return (double) hours * HOUR_S + minutes * MINUTE_S + seconds;
}

static double unit_s (const char *unit)
{
    static const char letters[] = "smhdw";
    static const double each[] = { 1, MINUTE_S, HOUR_S, DAY_S, 7 * DAY_S };
    if (strcmp (unit, "ms") == 0)
        return 1e-3;
    const char *at = *unit ? strchr (letters, *unit) : letters;
    return at && (!*unit || !unit[1]) ? each[at - letters] : NAN;
}

double wm_duration_s (const char *text)
{
    char *end = NULL;
    /* strtod alone takes spaces, signs, hexadecimal numbers, "inf" and "nan", too.  */
    const size_t n = strspn (text, "0123456789.");
    const double number = n ? strtod (text, &end) : NAN;
    const double seconds = text[n] == ':'         ? clock_s (text)
                           : n && end == text + n ? number * unit_s (end)
                                                  : NAN;
    return seconds <= WM_DURATION_MOST_S ? seconds : NAN;
}
