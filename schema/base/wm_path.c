/* wm_path.c - finds the file behind an input's name, and behind links.  */
#include "schema/base/wm_path.h"
#include "schema/base/wm_url.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

size_t wm_path_length (const char *name)
{
    const size_t length = strlen (name);
    if (!wm_url_of (name) && access (name, F_OK) == 0)
        return length;
    const char *host = wm_url_of (name) ? strstr (name, "://") + strlen ("://") : name;
    const char *dataset = strstr (host, ":/");
    return dataset ? (size_t) (dataset - name) : length;
}

const char *wm_path_behind (const char *text, const char *name)
{
    const size_t whole = strlen (name);
    const char *dataset = strstr (wm_url_of (name) ? strstr (name, "://") + 3 : name, ":/");
    const size_t length[] = { whole, dataset ? (size_t) (dataset - name) : whole };
    for (size_t i = 0; i < 2; i++)
        if (length[i] && strncmp (text, name, length[i]) == 0 &&
            strncmp (text + length[i], ": ", 2) == 0)
            return text + length[i] + 2;
    return text;
}

int wm_path_stat (const char *name, uint64_t *size, int64_t *mtime_ns)
{
    struct stat status;
    char path[PATH_MAX];
    if (wm_url_of (name)) {
        errno = EREMOTE;
        return -1;
    }
    snprintf (path, sizeof path, "%.*s", (int) wm_path_length (name), name);
    if (stat (path, &status))
        return -1;
    *size = (uint64_t) status.st_size;
    *mtime_ns = wm_path_ns (status.st_mtim);
    return 0;
}

bool wm_path_follow (char path[PATH_MAX])
{
    char target[PATH_MAX], next[PATH_MAX];
    const ssize_t n = readlink (path, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = 0;
    const char *slash = *target == '/' ? NULL : strrchr (path, '/');
    if (snprintf (next, sizeof next, "%.*s%s", slash ? (int) (slash + 1 - path) : 0, path,
                  target) >= (int) sizeof next)
        return false;
    strcpy (path, next);
    return true;
}
