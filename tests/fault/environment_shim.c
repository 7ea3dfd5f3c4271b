/* environment_shim.c - writes down which variables the libraries below wiremill read (LD_PRELOAD).

   WM_SHIM_READ=FILE   a line "LIBRARY NAME" is added for each call of getenv or secure_getenv by
                       OpenVINO, TBB, ONNX Runtime, HDF5, czmq, pocl or OpenCL's loader; the file
                       must exist, and WM_CONFINE=0 let a reader of files write to it  */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *ask (const char *function, const char *name)
{
    char *(*real) (const char *);
    *(void **) &real = dlsym (RTLD_NEXT, function);
    return real (name);
}

static void note (const char *name, const void *caller)
{
    static const char *const watched[] = { "libopenvino", "libtbb", "libonnxruntime", "libhdf5",
                                           "libczmq",     "libpocl", "libOpenCL" };
    Dl_info in;
    char line[400];
    const char *path = ask ("getenv", "WM_SHIM_READ");
    if (!path || !dladdr (caller, &in) || !in.dli_fname)
        return;
    const char *slash = strrchr (in.dli_fname, '/'), *library = slash ? slash + 1 : in.dli_fname;
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
        if (strncmp (library, watched[i], strlen (watched[i])) == 0) {
            const int n = snprintf (line, sizeof line, "%s %s\n", library, name);
            const int fd = open (path, O_WRONLY | O_APPEND | O_CLOEXEC);
            if (fd < 0 || write (fd, line, (size_t) n) < 0 || close (fd))
                abort ();
        }
}

char *getenv (const char *name)
{
    note (name, __builtin_return_address (0));
    return ask ("getenv", name);
}

char *secure_getenv (const char *name)
{
    note (name, __builtin_return_address (0));
    return ask ("secure_getenv", name);
}
