/* wm_beside.c - see wm_beside.h. */
#include "ops/process/wm_beside.h"
#include "ops/process/wm_complain.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_program.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

wm_fault_t wm_beside_find (char path[PATH_MAX], const char *name, wm_error_t *error)
{
    if (!wm_program_beside (path, name))
        return wm_fault (error, WM_EHOST, "this program's own file cannot be found, so %s cannot",
                         name);
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
