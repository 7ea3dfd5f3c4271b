/* wm_gpus.c - libcuda.so.1 and two of its functions, whose ABI has never changed.  */
#include "ops/wm_gpus.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned count_gpus (wm_error_t *error)
{
    int (*init) (unsigned), (*get_count) (int *), n = 0, code = -1;
    void *driver =
        dlopen ("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* never closed: it has threads */
    void *symbol[2] = { driver ? dlsym (driver, "cuInit") : NULL,
                        driver ? dlsym (driver, "cuDeviceGetCount") : NULL };
    if (!symbol[0] || !symbol[1]) {
        wm_fault (error, WM_EHOST,
                  "no NVIDIA driver here (libcuda.so.1 cannot be opened): leave out --gpus to "
                  "compute on the CPU");
        return 0;
    }
    memcpy (&init, &symbol[0], sizeof init);
    memcpy (&get_count, &symbol[1], sizeof get_count);
    if ((code = init (0)) != 0 || (code = get_count (&n)) != 0 || n < 1)
        wm_fault (error, WM_EHOST,
                  "the NVIDIA driver shows no GPU (code %d, %d GPUs): see nvidia-smi and "
                  "CUDA_VISIBLE_DEVICES",
                  code, n);
    return n < 1 || code ? 0 : n > WM_GPUS_MAX ? WM_GPUS_MAX : (unsigned) n;
}

/* The name of GPU i: its number, or what CUDA_VISIBLE_DEVICES has at that place.  */
static void name_gpu (unsigned i, char name[WM_GPU_BYTES])
{
    const char *visible = getenv ("CUDA_VISIBLE_DEVICES");
    for (unsigned k = 0; visible && *visible && k < i; k++) {
        visible = strchr (visible, ',');
        visible = visible ? visible + 1 : NULL;
    }
    if (visible && *visible)
        snprintf (name, WM_GPU_BYTES, "%.*s", (int) strcspn (visible, ","), visible);
    else
        snprintf (name, WM_GPU_BYTES, "%u", i);
}

unsigned wm_gpus_list (const char *wanted, char gpu[WM_GPUS_MAX][WM_GPU_BYTES], wm_error_t *error)
{
    const unsigned n = count_gpus (error);
    if (n && strcmp (wanted, "all") == 0) {
        for (unsigned i = 0; i < n; i++)
            name_gpu (i, gpu[i]);
        return n;
    }
    unsigned count = 0;
    for (const char *at = wanted; n && count < WM_GPUS_MAX; at++) {
        char *end;
        const unsigned long i = strtoul (at, &end, 10);
        if (end == at || (*end && *end != ',') || *at == '-' || i >= n) {
            wm_fault (error, WM_EBATCH,
                      "--gpus %.100s: give all, or numbers from 0 to %u with commas between them",
                      wanted, n - 1);
            return 0;
        }
        name_gpu ((unsigned) i, gpu[count++]);
        if (!*end)
            break;
        at = end;
    }
    return count;
}
