/* wm_beside.c - see wm_beside.h. */
#include "ops/process/wm_beside.h"
#include "ops/process/wm_complain.h"
#include "schema/base/wm_process.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

wm_fault_t wm_beside_path (char path[PATH_MAX], const char *name, wm_error_t *error)
{
    char self[PATH_MAX];
    const ssize_t n = readlink ("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return wm_fault (error, WM_EHOST, "/proc/self/exe cannot be read: %s", strerror (errno));
    self[n] = 0;
    if (snprintf (path, PATH_MAX, "%s/%s", dirname (self), name) >= PATH_MAX)
        return wm_fault (error, WM_EHOST, "the path of %s is too long", name);
    return WM_OK;
}

wm_fault_t wm_beside_find (char path[PATH_MAX], const char *name, wm_error_t *error)
{
    if (wm_beside_path (path, name, error))
        return error->fault;
    if (access (path, X_OK))
        return wm_fault (error, WM_EHOST,
                         "%s cannot be run (%s); build it with make, or keep the "
                         "four programs in one folder",
                         path, strerror (errno));
    return WM_OK;
}

int wm_beside_exec (const char *name, char *const argv[])
{
    char path[PATH_MAX];
    wm_error_t error;
    if (wm_beside_find (path, name, &error))
        return wm_complain (NULL, &error);
    wm_process_hand_over ((const char *const *) argv);
    execv (path, argv);
    wm_fault (&error, WM_EHOST, "%s cannot be run: %s", path, strerror (errno));
    return wm_complain (NULL, &error);
}
