/* wm_gpu_library.c - finds cuDNN and what it opens, and formats the texts of errors.  */
#include "kernels/cuda/wm_gpu_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Python installations: as root, by a user, in a virtual environment, conda's.  */
static const char *const pythons[] = {
    "/usr/local/lib/python3*/*-packages",      "/usr/lib/python3*/*-packages",
    "$VIRTUAL_ENV/lib/python3*/site-packages", "$CONDA_PREFIX/lib/python3*/site-packages",
    "$HOME/.local/lib/python3*/site-packages", "/opt/*/lib/python3*/site-packages",
};

static void *open_in (const char *folder, int bytes, const char *soname)
{
    char path[PATH_MAX];
    snprintf (path, sizeof path, "%.*s/%s", bytes, folder, soname);
    return dlopen (path, RTLD_NOW | RTLD_GLOBAL);
}

/* Opens the first of a pattern's matches.  */
static void *open_match (const char *pattern)
{
    glob_t found = { 0 };
    void *library = NULL;
    if (glob (pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; !library && i < found.gl_pathc; i++)
            library = dlopen (found.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
    globfree (&found);
    return library;
}

/* The Pythons whose programs are on the PATH: environments that no variable names.  */
static void *open_beside_path (const char *soname)
{
    char path[PATH_MAX];
    const char *folder = getenv ("PATH");
    void *library = NULL;
    while (!library && folder && *folder) {
        const char *end = strchrnul (folder, ':');
        if (snprintf (path, sizeof path, "%.*s/../lib/python3*/*-packages/nvidia/*/lib/%s",
                      (int) (end - folder), folder, soname) < (int) sizeof path)
            library = open_match (path);
        folder = *end ? end + 1 : end;
    }
    return library;
}

static void *open_in_python (const char *pattern, const char *soname)
{
    char path[PATH_MAX], head[PATH_MAX] = "";
    if (*pattern == '$') { /* a variable and what follows it */
        const char *slash = strchr (pattern, '/');
        char name[32];
        snprintf (name, sizeof name, "%.*s", (int) (slash - pattern - 1), pattern + 1);
        const char *value = getenv (name);
        if (!value || !*value)
            return NULL;
        snprintf (head, sizeof head, "%s", value);
        pattern = slash;
    }
    if (snprintf (path, sizeof path, "%s%s/nvidia/*/lib/%s", head, pattern, soname) >=
        (int) sizeof path)
        return NULL;
    return open_match (path);
}

void *wm_gpu_library_open (const char *soname)
{
    const char *told = getenv ("WM_CUDA_LIBS");
    void *library = NULL;
    while (!library && told && *told) {
        const char *end = strchrnul (told, ':');
        library = open_in (told, (int) (end - told), soname);
        told = *end ? end + 1 : end;
    }
    if (!library)
        library = dlopen (soname, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        library = open_in ("/usr/local/cuda/lib64", INT_MAX, soname);
    for (size_t i = 0; !library && i < sizeof pythons / sizeof *pythons; i++)
        library = open_in_python (pythons[i], soname);
    return library ? library : open_beside_path (soname);
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
