/* wm_head.h - the last activation of a model's scores.

   A preset's labels apply only to the heads they were made for: track, em, none, michel to a
   softmax of three and a sigmoid of one (ops/campaign/wm_columns.h). Thread: any number may read
   one model.  */
#ifndef WM_HEAD_H
#define WM_HEAD_H

#include "kernels/model/wm_model.h"

#include <stdbool.h>

/* Returns whether the n scores from `column` on are one head: WM_ACT_SOFTMAX over these n and no
   others, or WM_ACT_SIGMOID. In a general model: an output of n values that such a node makes,
   whatever shape it gets afterwards. false also if unknown: several heads in one output of a
   general model, a graph that cannot be read.  */
bool wm_head_is (const wm_model_t *model, uint32_t column, uint32_t n, wm_act_t act);

#endif
