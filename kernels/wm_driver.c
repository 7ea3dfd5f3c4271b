/* wm_driver.c - libcuda.so.1 and three of its functions, whose ABI has never changed.  */
#include "kernels/wm_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_DEVICE 100 /* CUDA_ERROR_NO_DEVICE */
#define STUB 34       /* CUDA_ERROR_STUB_LIBRARY */

/* Where a driver lies that the loader does not look for: that of wiremill's bundle knows nothing of
   the host's folders.  */
static const char *const places[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
    "/usr/lib/wsl/lib",          "/usr/local/nvidia/lib64",    "/run/opengl-driver/lib",
    "/.singularity.d/libs",
};

typedef struct {
    int (*init) (unsigned), (*count) (int *), (*version) (int *);
} calls_t;

void wm_driver_compare (char text[120], int version, int least)
{
    const char *release = least / 1000 == 12   ? " (driver 525 or newer)"
                          : least / 1000 == 13 ? " (driver 580 or newer)"
                                               : "";
    snprintf (text, 120, "it is for CUDA %d.%d, needed is CUDA %d.%d%s", version / 1000,
              version / 10 % 100, least / 1000, least / 10 % 100, release);
}

/* NULL: *error is why, that of a driver that was found, if one was.  */
static void *open_library (char error[200])
{
    char path[64];
    void *library = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    snprintf (error, 200, "%s", library ? "" : dlerror ());
    for (size_t i = 0; !library && i < sizeof places / sizeof *places; i++) {
        if (!strstr (error, "No such file"))
            break;
        snprintf (path, sizeof path, "%s/libcuda.so.1", places[i]);
        if (!(library = dlopen (path, RTLD_NOW | RTLD_LOCAL)))
            snprintf (error, 200, "%s", dlerror ());
    }
    return library;
}

static void explain_none (wm_driver_t *self, const char *error)
{
    self->state = strstr (error, "No such file") ? WM_DRIVER_NONE : WM_DRIVER_BROKEN;
    if (self->state == WM_DRIVER_NONE)
        snprintf (self->why, sizeof self->why,
                  "there is no NVIDIA driver (libcuda.so.1 is not found; a container gets it by "
                  "docker run --gpus all, apptainer --nv)");
    else
        snprintf (self->why, sizeof self->why, "the NVIDIA driver cannot be opened: %.200s", error);
}

static void explain_no_gpu (wm_driver_t *self)
{
    const char *visible = getenv ("CUDA_VISIBLE_DEVICES");
    self->state = WM_DRIVER_NO_GPU;
    if (visible)
        snprintf (self->why, sizeof self->why,
                  "the NVIDIA driver shows no GPU: CUDA_VISIBLE_DEVICES is '%.100s'%s", visible,
                  *visible ? ", compare nvidia-smi -L" : ", which hides them all");
    else
        snprintf (self->why, sizeof self->why,
                  "the NVIDIA driver shows no GPU: see nvidia-smi -L (in a container: are "
                  "/dev/nvidia0 and the like passed in?)");
}

static void start (wm_driver_t *self, const calls_t *call, int least)
{
    int code = call->version (&self->version);
    if (!code && self->version < least) {
        char text[120];
        self->state = WM_DRIVER_OLD;
        wm_driver_compare (text, self->version, least);
        snprintf (self->why, sizeof self->why, "the NVIDIA driver is too old: %s", text);
        return;
    }
    code = code ? code : call->init (0);
    code = code ? code : call->count (&self->n_gpu);
    if (code == NO_DEVICE || (!code && self->n_gpu < 1))
        explain_no_gpu (self);
    else if (code) {
        self->state = WM_DRIVER_BROKEN;
        snprintf (
            self->why, sizeof self->why, "the NVIDIA driver does not start (error %d): %s", code,
            code == STUB ? "this libcuda.so.1 is the stub of a CUDA toolkit, leave its folder "
                           "out of LD_LIBRARY_PATH"
                         : "does nvidia-smi work? After an update of the driver: reboot");
    }
    if (self->state != WM_DRIVER_GOOD)
        self->n_gpu = 0;
}

wm_driver_t wm_driver_open (int least)
{
    static const char *const names[] = { "cuInit", "cuDeviceGetCount", "cuDriverGetVersion" };
    char error[200];
    wm_driver_t self = { .library = open_library (error) };
    calls_t call = { 0 };
    void *symbol[sizeof names / sizeof *names];
    if (!self.library) {
        explain_none (&self, error);
        return self;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(symbol[i] = dlsym (self.library, names[i]))) {
            self.state = WM_DRIVER_BROKEN;
            snprintf (self.why, sizeof self.why, "libcuda.so.1 is no NVIDIA driver: it has no %s",
                      names[i]);
            return self;
        }
    memcpy (&call, symbol, sizeof call);
    start (&self, &call, least);
    return self;
}
