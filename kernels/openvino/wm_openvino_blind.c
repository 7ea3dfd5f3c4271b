/* wm_openvino_blind.c - see wm_openvino_blind.h.

   A program of wiremill has removed these variables before OpenVINO is loaded; here is what is left
   for libwiremill, in a process of others: each library of OpenVINO gets another getenv
   (kernels/wm_blind.h).

   OpenVINO 2026.4 loads its plug-ins late, and reads the variables of arithmetic when it first
   computes. So the plug-ins that we use are loaded first, and then all are changed. What a library
   reads while it is loaded it still sees: Intel's tracing, TBB's memory, OV_TURBOQ_NORM_CORRECTION;
   tests/fault/environment.t finds no effect on scores.  */
#include "kernels/openvino/wm_openvino_blind.h"
#include "kernels/wm_blind.h"
#include "schema/base/wm_environment.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <openvino/c/openvino.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLUGIN "libopenvino_*_cpu_plugin.so" /* intel, arm */

/* The real path, with its slash, of the folder that holds the C interface.  */
static bool find_folder (char folder[PATH_MAX])
{
    ov_status_e (*const known) (ov_core_t **) = ov_core_create;
    void *address;
    memcpy (&address, &known, sizeof address);
    char *slash = wm_blind_file (address, folder) ? strrchr (folder, '/') : NULL;
    if (slash)
        slash[1] = 0;
    return slash != NULL;
}

/* Loads a library of OpenVINO, as OpenVINO will. false: it is not there, or, with RTLD_NOLOAD, not
   loaded yet.  */
static bool load (const char *folder, const char *pattern, int how)
{
    char path[PATH_MAX];
    glob_t found = { 0 };
    const bool is_there =
        snprintf (path, sizeof path, "%s%s", folder, pattern) < (int) sizeof path &&
        glob (path, 0, NULL, &found) == 0 &&
        dlopen (found.gl_pathv[0], RTLD_NOW | RTLD_LOCAL | how); /* never closed, as all of them */
    globfree (&found);
    return is_there;
}

static wm_fault_t blind (bool is_foreign, wm_error_t *error)
{
    static const char *const late[] = { PLUGIN, "libopenvino_onnx_frontend.so*",
                                        "libopenvino_tensorflow_frontend.so*", "libtbbbind*.so*" };
    const char *variable = wm_environment_finds (NULL, 0);
    char folder[PATH_MAX];
    if (!variable)
        return WM_OK;
    const int n = (int) strcspn (variable, "=");
    if (is_foreign)
        return wm_fault (error, WM_EHOST,
                         "%.100s is set, which may change OpenVINO's scores, and this process had "
                         "loaded OpenVINO before wiremill: start it without %.*s",
                         variable, n, variable);
    int failed = ENOENT;
    if (find_folder (folder)) {
        for (size_t i = 0; i < sizeof late / sizeof *late; i++)
            load (folder, late[i], 0);
        failed = wm_blind (folder);
    }
    return failed
               ? wm_fault (error, WM_EHOST,
                           "%.100s is set, which may change OpenVINO's scores, and OpenVINO cannot "
                           "be kept from reading it: %s; start the process without %.*s",
                           variable, strerror (failed), n, variable)
               : WM_OK;
}

wm_fault_t wm_openvino_blind (wm_error_t *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool is_known, is_foreign; /* whether the process had it before our first call */
    char folder[PATH_MAX];
    pthread_mutex_lock (&lock);
    if (!is_known)
        is_foreign = find_folder (folder) && load (folder, PLUGIN, RTLD_NOLOAD);
    is_known = true;
    const wm_fault_t fault = blind (is_foreign, error);
    pthread_mutex_unlock (&lock);
    return fault;
}
