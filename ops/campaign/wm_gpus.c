/* wm_gpus.c - which GPUs the driver shows, and their names.  */
#include "ops/campaign/wm_gpus.h"
#include "kernels/wm_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned count_gpus (wm_error_t *error)
{
    const wm_driver_t driver = wm_driver_open (WM_DRIVER_LEAST);
    if (driver.state != WM_DRIVER_GOOD)
        wm_fault (error, WM_EHOST, "%s: leave out --gpus to compute on the CPU", driver.why);
    return driver.n_gpu > WM_GPUS_MAX ? WM_GPUS_MAX : (unsigned) driver.n_gpu;
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
