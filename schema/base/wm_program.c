/* wm_program.c - see wm_program.h.  */
#include "schema/base/wm_program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *wm_program_again (const char *name, char path[PATH_MAX])
{
    static const char itself[] = "/proc/self/exe";
    const ssize_t n = readlink (itself, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr (path, '/');
    if (!slash || strncmp (slash + 1, "ld-linux", 8) != 0)
        return itself;
    const size_t room = PATH_MAX - (size_t) (slash + 1 - path);
    return (size_t) snprintf (slash + 1, room, "%s", name) < room ? path : itself;
}
