/* wm_driver.h - the NVIDIA driver of this machine: whether it is there, how old it is, and how many
   GPUs it shows.

   The driver is libcuda.so.1, which is opened at run time; nothing else of NVIDIA's is needed.
   Thread: any.  */
#ifndef WM_DRIVER_H
#define WM_DRIVER_H

#define WM_DRIVER_LEAST 12000 /* CUDA 12.0: no kernels of ours run with an older driver */

typedef enum {
    WM_DRIVER_GOOD,   /* it shows n_gpu GPUs, 1 or more */
    WM_DRIVER_NONE,   /* there is no libcuda.so.1 */
    WM_DRIVER_OLD,    /* it is for an older CUDA than was asked for */
    WM_DRIVER_NO_GPU, /* it shows none; perhaps CUDA_VISIBLE_DEVICES hides them */
    WM_DRIVER_BROKEN, /* it is there and does not work */
} wm_driver_state_t;

typedef struct {
    wm_driver_state_t state;
    void *library; /* of dlopen, never closed: it has threads. NULL: it was not found */
    int version;   /* the CUDA that it is for: 12040 is 12.4; 0: unknown */
    int n_gpu;
    char why[280]; /* what is wrong, and what to do; "" of a good one */
} wm_driver_t;

/* Opens the driver. least: the CUDA that it must be for, at least. The first call of a process
   takes a fraction of a second, as the driver starts; one that hangs blocks.  */
wm_driver_t wm_driver_open (int least);

/* Writes "it is for CUDA 11.8, needed is CUDA 12.0 (driver 525 or newer)".  */
void wm_driver_compare (char text[120], int version, int least);

#endif
