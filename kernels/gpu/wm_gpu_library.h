/* wm_gpu_library.h - finds cuDNN and what it opens, which the machine provides (1 GB).  */
#ifndef WM_GPU_LIBRARY_H
#define WM_GPU_LIBRARY_H

/* Opens a library by its soname ("libcudnn.so.9"): in the folders of WM_CUDA_LIBS (a : between),
   on the loader's path, in /usr/local/cuda/lib64, in the `nvidia` packages of a Python (those on
   the PATH, too). NULL if it is nowhere. Never closed: its threads may outlive ours.  */
void *wm_gpu_library_open (const char *soname);

/* Sets symbol[0..n) to what `names` (a blank between, n of them) are in the library, and returns 0;
   or the name of the first that is not there.  */
const char *wm_gpu_library_symbols (void *library, const char *names, void **symbol);

/* Formats the text of an error, valid until the thread's next one.  */
const char *wm_gpu_text (const char *format, ...) __attribute__ ((format (printf, 1, 2)));

#endif
