/* wm_pair.c - see wm_pair.h.  */
#include "schema/wm_pair.h"

#include "schema/base/wm_path.h"

#include <string.h>

/* Appends `n` bytes; false: there is no room.  */
static bool put (char path[PATH_MAX], size_t *at, const char *from, size_t n)
{
    if (n >= PATH_MAX - *at)
        return false;
    memcpy (path + *at, from, n);
    path[ *at += n] = 0;
    return true;
}

bool wm_pair_planes (const wm_pins_t *pins, const char *name, char path[PATH_MAX])
{
    const size_t length = wm_path_length (name);
    size_t base = length, dot, at = 0;
    while (base && name[base - 1] != '/')
        base--;
    for (dot = length; dot > base + 1 && name[dot - 1] != '.';)
        dot--;
    dot = dot > base + 1 ? dot - 1 : length;
    const size_t folder = base > 1 ? base - 1 : base;
    bool fits = *pins->planes != 0;
    *path = 0;
    for (const char *from = pins->planes; *from && fits;) {
        if (!strncmp (from, "{stem}", 6))
            fits = put (path, &at, name + base, dot - base), from += 6;
        else if (!strncmp (from, "{dir}", 5))
            fits = put (path, &at, folder ? name : ".", folder ? folder : 1), from += 5;
        else
            fits = put (path, &at, from++, 1);
    }
    return fits;
}

int wm_pair_stat (const wm_pins_t *pins, const char *name, uint64_t *size, int64_t *mtime_ns)
{
    char path[PATH_MAX];
    uint64_t bytes, all;
    int64_t time_ns, latest_ns;
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
            latest_ns = time_ns > latest_ns ? time_ns : latest_ns;
        }
    }
    *size = all;
    *mtime_ns = latest_ns;
    return 0;
}
