/* wm_gpu_driver.c - the driver's own calls, and our kernels by them.  */
#include "kernels/gpu/wm_gpu_driver.h"
#include "kernels/gpu/wm_gpu_library.h"
#include "kernels/wm_driver.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Kernel "fill" is the function wm_gpu_fill_kernel.  */
static const char *const kernel_names[WM_GPU_KERNELS] = {
    [WM_GPU_FILL] = "fill",
    [WM_GPU_SCATTER] = "scatter",
    [WM_GPU_WINDOW] = "window",
    [WM_GPU_TAIL] = "tail",
    [WM_GPU_PHASES] = "phases",
    [WM_GPU_CUT] = "cut",
    [WM_GPU_COPY] = "copy",
    [WM_GPU_SPREAD] = "spread",
    [WM_GPU_POOL] = "pool",
    [WM_GPU_JOIN] = "join",
    [WM_GPU_SCAN] = "scan",
    [WM_GPU_ACTIVE] = "active",
    [WM_GPU_DENSE] = "dense",
    [WM_GPU_DENSE_SPLIT] = "densesplit",
    [WM_GPU_DENSE_FMA] = "densefma",
    [WM_GPU_DENSE_WIDE] = "densewide",
    [WM_GPU_DENSE_WIDE_SPLIT] = "densewidesplit",
};

/* Made by the linker: where the section begins and ends.  */
extern const wm_cu_image_t __start_wm_gpu_images[] __attribute__ ((visibility ("hidden")));
extern const wm_cu_image_t __stop_wm_gpu_images[] __attribute__ ((visibility ("hidden")));

const char *wm_cu_kernel_name (wm_gpu_kernel_t kernel)
{
    return kernel_names[kernel];
}

wm_gpu_text_t wm_cu_failed (const wm_cu_t *cu, const char *what, CUresult result)
{
    const char *name = NULL, *text = NULL;
    if (!result)
        return NULL;
    if (cu && (cu->error_name (result, &name) || cu->error_text (result, &text)))
        name = NULL;
    return name ? wm_gpu_text ("%s: %s (%s)", what, name, text)
                : wm_gpu_text ("%s: CUDA error %d", what, (int) result);
}

/* ---- the driver ------------------------------------------------------------------------------ */

/* The CUDA that a driver has to be for to run an image: PTX is compiled by a driver as new as the
   toolkit; machine code runs with all of its major version.  */
static int needs (const wm_cu_image_t *image)
{
    return image->is_ptx ? image->toolkit : image->toolkit / 1000 * 1000;
}

const wm_cu_t *wm_cu_open (wm_gpu_text_t *text)
{
#define SYMBOL(name, function, symbol) symbol " "
    static wm_cu_t self;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const wm_cu_image_t *image = __start_wm_gpu_images;
    void *symbol[offsetof (wm_cu_t, version) / sizeof (void *)];
    int least = needs (image);
    for (; image < __stop_wm_gpu_images; image++)
        least = needs (image) < least ? needs (image) : least;
    const wm_driver_t driver = wm_driver_open (least);
    *text = driver.state == WM_DRIVER_GOOD ? NULL : wm_gpu_text ("%s", driver.why);
    const char *missing =
        *text ? NULL : wm_gpu_library_symbols (driver.library, WM_CU_CALLS (SYMBOL), symbol);
    if (missing)
        *text = wm_gpu_text ("the NVIDIA driver has no %s", missing);
    if (*text)
        return NULL;
    pthread_mutex_lock (&lock);
    memcpy (&self, symbol, sizeof symbol);
    self.version = driver.version;
    pthread_mutex_unlock (&lock);
    return &self;
}

/* ---- our kernels ----------------------------------------------------------------------------- */

const wm_cu_image_t *wm_cu_choose (const wm_cu_image_t *image, size_t n, int version,
                                   int capability, int *least)
{
    const wm_cu_image_t *best = NULL;
    *least = 0;
    for (const wm_cu_image_t *end = image + n; image < end; image++) {
        const int architecture = image->architecture;
        const bool fits = image->arch_specific ? architecture == capability
                          : image->is_ptx
                              ? architecture <= capability
                              : architecture / 10 == capability / 10 && architecture <= capability;
        if (!fits)
            continue;
        if (version < needs (image))
            *least = !*least || needs (image) < *least ? needs (image) : *least;
        else if (!best || (best->is_ptx && !image->is_ptx) ||
                 (best->is_ptx == image->is_ptx && 2 * best->architecture + best->arch_specific <
                                                       2 * architecture + image->arch_specific))
            best = image;
    }
    return best;
}

static wm_gpu_text_t load (const wm_cu_t *cu, wm_cu_kernels_t *self, int capability,
                           size_t shared_bytes)
{
    char name[64], what[128];
    int least, own_bytes = 0;
    CUmodule module = NULL;
    const wm_cu_image_t *image = wm_cu_choose (
        __start_wm_gpu_images, (size_t) (__stop_wm_gpu_images - __start_wm_gpu_images), cu->version,
        capability, &least);
    if (!image && least) {
        wm_driver_compare (what, cu->version, least);
        return wm_gpu_text ("the NVIDIA driver is too old: %s", what);
    }
    if (!image)
        return wm_gpu_text ("wm_cuda.so has no kernels for a GPU of capability %d.%d",
                            capability / 10, capability % 10);
    CUresult result = cu->module_load (&module, image->begin);
    snprintf (what, sizeof what, "loading our kernels for sm_%d", (int) image->architecture);
    for (int k = 0; k < WM_GPU_KERNELS && !result; k++) {
        snprintf (name, sizeof name, "wm_gpu_%s_kernel", kernel_names[k]);
        snprintf (what, sizeof what, "loading kernel %s", kernel_names[k]);
        result = cu->module_function (&self->function[k], module, name);
        if (!result)
            result = cu->function_get (&own_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                                       self->function[k]);
        if (!result)
            result = cu->function_set (self->function[k],
                                       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                       (int) shared_bytes - own_bytes);
    }
    if (!result)
        self->toolkit = image->toolkit, self->arch_specific = image->arch_specific;
    return wm_cu_failed (cu, what, result);
}

const wm_cu_kernels_t *wm_cu_kernels (const wm_cu_t *cu, int capability, size_t shared_bytes,
                                      wm_gpu_text_t *text)
{
    static wm_cu_kernels_t self;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock (&lock);
    *text = self.toolkit ? NULL : load (cu, &self, capability, shared_bytes);
    pthread_mutex_unlock (&lock);
    return *text ? NULL : &self;
}
