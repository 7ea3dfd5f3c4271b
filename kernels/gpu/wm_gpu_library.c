/* wm_gpu_library.c - finds cuDNN and what it opens, and formats the texts of errors.  */
#include "kernels/gpu/wm_gpu_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where libraries are: in these folders, below those of a variable that is set (a : between), or
   where the loader looks. Pythons are installed as root, by a user, in a virtual environment, by
   conda; those whose programs are on the PATH no other variable may name.  */
static const struct {
    const char *variable, *below; /* NULL: none */
} places[] = {
    { "WM_CUDA_LIBS", "" },
    { NULL, NULL },
    { NULL, "/usr/local/cuda/lib64" },
    { NULL, "/usr/local/lib/python3*/*-packages/nvidia/*/lib" },
    { NULL, "/usr/lib/python3*/*-packages/nvidia/*/lib" },
    { "VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/*/lib" },
    { "CONDA_PREFIX", "/lib/python3*/site-packages/nvidia/*/lib" },
    { "HOME", "/.local/lib/python3*/site-packages/nvidia/*/lib" },
    { NULL, "/opt/*/lib/python3*/site-packages/nvidia/*/lib" },
    { "PATH", "/../lib/python3*/*-packages/nvidia/*/lib" },
};

/* Opens the first of a pattern's matches that is a library; without one, what has that name.  */
static void *open_match (const char *pattern)
{
    glob_t found = { 0 };
    void *library = NULL;
    if (glob (pattern, GLOB_NOCHECK, NULL, &found) == 0)
        for (size_t i = 0; !library && i < found.gl_pathc; i++)
            library = dlopen (found.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
    globfree (&found);
    return library;
}

/* Opens a library of folders (a : between), below each of them.  */
static void *open_below (const char *folders, const char *below, const char *soname)
{
    char path[PATH_MAX];
    void *library = NULL;
    while (!library && folders) {
        const char *end = strchrnul (folders, ':');
        if (snprintf (path, sizeof path, "%.*s%s/%s", (int) (end - folders), folders, below,
                      soname) < (int) sizeof path)
            library = open_match (path);
        folders = *end ? end + 1 : NULL;
    }
    return library;
}

void *wm_gpu_library_open (const char *soname)
{
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof places / sizeof *places; i++) {
        const char *variable = places[i].variable, *folders = variable ? getenv (variable) : "";
        if (!places[i].below)
            library = dlopen (soname, RTLD_NOW | RTLD_GLOBAL);
        else if (!variable || (folders && *folders))
            library = open_below (folders, places[i].below, soname);
    }
    return library;
}

const char *wm_gpu_library_symbols (void *library, const char *names, void **symbol)
{
    static _Thread_local char name[64];
    while (*names) {
        size_t n = strcspn (names, " ");
        snprintf (name, sizeof name, "%.*s", (int) n, names);
        if (!(*symbol++ = dlsym (library, name)))
            return name;
        names += n + strspn (names + n, " ");
    }
    return NULL;
}

const char *wm_gpu_text (const char *format, ...)
{
    static _Thread_local char text[320];
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (text, sizeof text, format, arguments);
    va_end (arguments);
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = ' ';
    return text;
}
