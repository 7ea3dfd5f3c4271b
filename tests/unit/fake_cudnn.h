/* fake_cudnn.h - a library like libcudnn.so.9, compiled by the tests: it calls the real one, which
   must be open, but refuses heuristics.

   WM_FAKE_CUDNN has the letters of the modes that fail: A, and F for fallback. The numbers of
   cudnn.h come from who compiles it.  */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void *refused; /* descriptor */

static void *real (const char *name)
{
    return dlsym (dlopen ("libcudnn.so.9", RTLD_NOLOAD | RTLD_LAZY), name);
}

#define FORWARD(type, name)                                                                        \
    type name (long a, long b, long c, long d, long e, long f)                                     \
    {                                                                                              \
        type (*call) (long, long, long, long, long, long) = real (#name);                          \
        return call (a, b, c, d, e, f);                                                            \
    }
FORWARD (int, cudnnCreate)
FORWARD (int, cudnnDestroy)
FORWARD (int, cudnnSetStream)
FORWARD (size_t, cudnnGetVersion)
FORWARD (size_t, cudnnGetCudartVersion)
FORWARD (const char *, cudnnGetErrorString)
FORWARD (int, cudnnGetLastErrorString)
FORWARD (int, cudnnBackendCreateDescriptor)
FORWARD (int, cudnnBackendDestroyDescriptor)
FORWARD (int, cudnnBackendGetAttribute)
FORWARD (int, cudnnBackendExecute)

int cudnnBackendSetAttribute (void *descriptor, int name, int type, long count, const int *value)
{
    int (*call) (void *, int, int, long, const int *) = real ("cudnnBackendSetAttribute");
    const char *modes = getenv ("WM_FAKE_CUDNN");
    if (name == MODE && modes &&
        ((*value == MODE_A && strchr (modes, 'A')) ||
         (*value == MODE_FALLBACK && strchr (modes, 'F'))))
        refused = descriptor;
    return call (descriptor, name, type, count, value);
}

int cudnnBackendFinalize (void *descriptor)
{
    int (*call) (void *) = real ("cudnnBackendFinalize");
    if (descriptor != refused)
        return call (descriptor);
    refused = NULL;
    return 3000; /* CUDNN_STATUS_NOT_SUPPORTED */
}
