/* wm_any_family.h - a network of the family as steps of any CNN: all its products by cuDNN.

   For --engine cudnn, and for networks that our kernels cannot run. Private to kernels/cuda/.
   Thread: any.  */
#ifndef WM_ANY_FAMILY_H
#define WM_ANY_FAMILY_H

#include "kernels/cuda/wm_any_net.h"
#include "kernels/wm_model.h"

/* Copies the weights; `net` need not outlive the result, which wm_any_net_destroy frees. strict:
   for an engine in float32. NULL with *error: WM_EBATCH names a layer that is too large, WM_EHOST
   without memory.  */
wm_any_net_t *wm_any_family_new (const wm_net_t *net, bool strict, wm_error_t *error);

#endif
