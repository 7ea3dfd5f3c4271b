/* gpu_check.h - the parts of gpu_check: tests, and benchmark.  */
#ifndef GPU_CHECK_H
#define GPU_CHECK_H

#include "kernels/gpu/wm_cuda.h"
#include "tests/gpu/gpu_net.h"

typedef enum {
    GPU_ALL_TESTS,
    GPU_QUICK_TESTS, /* on small networks, in this process */
    GPU_OWN_TESTS,   /* of those, what needs no library of NVIDIA's */
} gpu_tests_t;

/* Prints one line a test; returns how many failed.  */
int gpu_tests (gpu_tests_t which);

/* Runs `part` in a process of its own, for so many seconds at most. Returns its value; -1, with
   the reason on stdout, if it crashes or exceeds its time.  */
int gpu_apart (unsigned seconds, int (*part) (void *argument), void *argument);

/* Prints tables in Markdown. hits: of the synthetic event. Returns 0, or 1 if an engine failed.  */
int gpu_bench (double hits);

/* Prints the floors of the same events, which are counted. Returns 0.  */
int gpu_floors (double hits);

/* Prints this machine's ceilings. Returns 0, or 1 if something failed.  */
int gpu_ceilings (void);

/* Whether a plane in own view is laid out on the device bit for bit as on the host; else `text` is
   why not.  */
bool gpu_plane_agrees (wm_downscale_t downscale, char text[400]);

/* Whether this is the error of an engine that needs cuDNN, which is not here, or is not for the
   driver.  */
bool gpu_lacks (const char *text);

/* Whether any CNN's steps give on the GPU what they give on the stand-in; else `text` is why
   not.  */
bool gpu_any_agrees (wm_gpu_precision_t precision, char text[400]);

/* Writes weights, patches (half) and our scores to a folder, for tests/gpu/gpu_torch.py.  */
int gpu_dump (const char *folder, uint32_t hits);

#endif
