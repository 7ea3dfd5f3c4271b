/* wm_pair.c - see wm_pair.h.  */
#include "schema/wm_pair.h"

#include "schema/base/wm_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFFSET_MAX 16777216. /* ticks: the longest readout */
#define PEDESTAL_MAX 1e6     /* ADC: of 16 bits and more */

/* Appends `n` bytes; false: there is no room.  */
static bool put (char path[PATH_MAX], size_t *at, const char *from, size_t n)
{
    if (n >= PATH_MAX - *at)
        return false;
    memcpy (path + *at, from, n);
    path[ *at += n] = 0;
    return true;
}

bool wm_pair_expand (const char *pattern, const char *name, char path[PATH_MAX])
{
    const size_t length = wm_path_length (name);
    size_t base = length, dot, at = 0;
    while (base && name[base - 1] != '/')
        base--;
    for (dot = length; dot > base + 1 && name[dot - 1] != '.';)
        dot--;
    dot = dot > base + 1 ? dot - 1 : length;
    const size_t folder = base > 1 ? base - 1 : base;
    bool fits = *pattern != 0;
    *path = 0;
    for (const char *from = pattern; *from && fits;) {
        if (!strncmp (from, "{stem}", 6))
            fits = put (path, &at, name + base, dot - base), from += 6;
        else if (!strncmp (from, "{dir}", 5))
            fits = put (path, &at, folder ? name : ".", folder ? folder : 1), from += 5;
        else
            fits = put (path, &at, from++, 1);
    }
    return fits;
}

bool wm_pair_planes (const wm_pins_t *pins, const char *name, char path[PATH_MAX])
{
    return wm_pair_expand (pins->planes, name, path);
}

/* Nine digits, so that 1.50 and 15e-1 are the same. false: no number up to `most`.  */
static bool number_take (const char *given, double most, double *number, char pin[24])
{
    char *end;
    *number = strtod (given, &end);
    if (end == given || *end || !(*number >= -most && *number <= most))
        return false;
    snprintf (pin, 24, "%.9g", *number);
    return true;
}

wm_fault_t wm_pair_offset (const char *given, char pin[24], wm_error_t *error)
{
    double number;
    if (!number_take (given, OFFSET_MAX, &number, pin))
        return wm_fault (error, WM_EUSAGE,
                         "--hit-offset %.40s: it is a number of ticks, such as -6 or 0.5", given);
    if (number == 0)
        *pin = 0;
    return WM_OK;
}

wm_fault_t wm_pair_pedestal (const char *given, char pin[24], wm_error_t *error)
{
    double number;
    if (!strcmp (given, "median") || !strcmp (given, "none"))
        snprintf (pin, 24, "%s", given);
    else if (!number_take (given, PEDESTAL_MAX, &number, pin))
        return wm_fault (error, WM_EUSAGE,
                         "--pedestal %.40s: it is median, none or a number of ADC, such as 900",
                         given);
    return WM_OK;
}

/* As wm_pair_stat; *last (0: hits, 1: planes, 2: map): which was modified last.  */
static int stat_all (const wm_pins_t *pins, const char *name, uint64_t *size, int64_t *mtime_ns,
                     char path[PATH_MAX], int *last)
{
    uint64_t bytes, all;
    int64_t time_ns, latest_ns;
    *last = 0;
    if (wm_path_stat (name, &all, &latest_ns))
        return -1;
    if (!wm_pair_planes (pins, name, path))
        *path = 0;
    const char *const other[] = { path, pins->channels }; /* frames alone have the map only */
    for (int i = 0; i < 2; i++) {
        if (*other[i] && wm_path_stat (other[i], &bytes, &time_ns))
            return -1;
        if (*other[i]) {
            all += bytes;
            *last = time_ns > latest_ns ? i + 1 : *last;
            latest_ns = time_ns > latest_ns ? time_ns : latest_ns;
        }
    }
    *size = all;
    *mtime_ns = latest_ns;
    return 0;
}

int wm_pair_stat (const wm_pins_t *pins, const char *name, uint64_t *size, int64_t *mtime_ns)
{
    char path[PATH_MAX];
    int last;
    return stat_all (pins, name, size, mtime_ns, path, &last);
}

bool wm_pair_last (const wm_pins_t *pins, const char *name, char path[PATH_MAX])
{
    uint64_t size;
    int64_t mtime_ns;
    int last;
    if (stat_all (pins, name, &size, &mtime_ns, path, &last) || (!*path && !*pins->channels))
        return false;
    if (last != 1)
        snprintf (path, PATH_MAX, "%s", last ? pins->channels : name);
    return true;
}
