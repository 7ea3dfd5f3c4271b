/* wm_head.h - which activation a model's scores leave by.

   Labels mean something only for the heads they were made for: track, em, none, michel of a preset
   for a softmax of three and a sigmoid of one (ops/wm_columns.h).
   Thread: any number may ask of one model.  */
#ifndef WM_HEAD_H
#define WM_HEAD_H

#include "kernels/wm_model.h"

/* Whether the n scores from `column` on are one head: WM_ACT_SOFTMAX over these n and no others, or
   WM_ACT_SIGMOID. Of the family its network tells; of a general model its own graph, for an output
   of n values that such a node makes, whatever shape it is given afterwards. 0 also where nothing
   is known: several heads in one output of a general model, a graph that cannot be read.  */
int wm_head_is (const wm_model_t *model, uint32_t column, uint32_t n, wm_act_t act);

#endif
