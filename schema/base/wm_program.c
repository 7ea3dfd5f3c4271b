/* wm_program.c - see wm_program.h.  */
#include "schema/base/wm_program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char itself[] = "/proc/self/exe";

bool wm_program_beside (char path[PATH_MAX], const char *name)
{
    const ssize_t n = readlink (itself, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = 0;
    char *file = strrchr (path, '/') ? strrchr (path, '/') + 1 : path;
    const size_t room = PATH_MAX - (size_t) (file - path);
    const bool is_whole = file > path && (size_t) snprintf (file, room, "%s", name) < room;
    if (!is_whole)
        *path = 0;
    return is_whole;
}

const char *wm_program_again (const char *name, char path[PATH_MAX])
{
    const ssize_t n = readlink (itself, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = 0;
    const char *slash = strrchr (path, '/');
    if (!slash || strncmp (slash + 1, "ld-linux", 8) != 0)
        return itself;
    return wm_program_beside (path, name) ? path : itself;
}
