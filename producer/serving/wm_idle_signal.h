/* wm_idle_signal.h - a descriptor that can be read while no client waits for this machine.

   Each model has workers of its own, which know of their own clients only. With --bulk all of them
   inherit this descriptor, and begin no batch of a bulk campaign while it cannot be read
   (gpuworker/wm_stride.h). Thread: the loop's.  */
#ifndef WM_IDLE_SIGNAL_H
#define WM_IDLE_SIGNAL_H

#include <stdbool.h>

typedef struct wm_idle_signal_t wm_idle_signal_t;

/* NULL: the kernel gives no descriptor.  */
wm_idle_signal_t *wm_idle_signal_new (void);
void wm_idle_signal_destroy (wm_idle_signal_t **self_p);

/* One more model has requests that are not answered, or one less. self may be NULL.  */
void wm_idle_signal_count (wm_idle_signal_t *self, bool is_more);

/* Names the descriptor, "/dev/fd/N", as children take it.  */
const char *wm_idle_signal_path (const wm_idle_signal_t *self);

#endif
