/* wm_judge.h - judges a general model when it is imported: two engines that share no code compute
   the same patches, and must agree.

   Patches are drawn in several distributions (kernels/judge/wm_draw.h). OpenVINO scores them in
   batches of several sizes and orders, ONNX Runtime each alone. Scores agree within 2e-5, or 1e-5
   of the range of their output if that is more (what half precision rounds, if the model computes
   in it); whole numbers exactly; NaN equals NaN. A score that changes by more when its patch
   changes by a rounding may differ by as much. Where they agree OpenVINO scores the model, which is
   faster. Where they do not, the first node that differs is named, and ONNX Runtime scores it.

   Then ONNX Runtime computes patches in batches: a model is refused if the scores of a patch depend
   on the others.  Private to kernels/.  Thread: one at a time.  */
#ifndef WM_JUDGE_H
#define WM_JUDGE_H

#include "kernels/onnx/wm_onnx.h"

#define WM_JUDGE_TEXT 300

/* Fills in the shapes of the outputs, whose names are given, as ONNX Runtime computes them of drawn
   patches; a size that changes is free. alone: no other engine knows the shapes, and all sizes of
   an output whose sizes a patch decides are free. WM_EBATCH: ONNX Runtime does not take the model,
   or the first dimension of an output is no batch; WM_EHOST: there is no ONNX Runtime, no
   memory.  */
wm_fault_t wm_judge_shapes (wm_onnx_t *onnx, bool whole, bool alone, const wm_model_parts_t *parts,
                            wm_port_t *output, wm_error_t *error);

typedef struct {
    bool whole;        /* inputs and outputs have no batch dimension */
    bool accept;       /* OpenVINO scores it, also where it computes something else */
    bool exact;        /* OpenVINO's narrower types count as another result (wm_wide.h) */
    bool other_shapes; /* the engines give its outputs other shapes; those of the model are ONNX
                          Runtime's, or OpenVINO's if that is accepted */
} wm_judge_how_t;

/* Judges the model of `parts`, which was written to the file `draft`. `text` gets what was found,
   for people. WM_EBATCH: a node makes the scores of a patch depend on other patches, or no engine
   computes the model; WM_EHOST: memory, engines.  */
wm_fault_t wm_judge (wm_onnx_t *onnx, const wm_judge_how_t *how, const char *draft,
                     const wm_model_parts_t *parts, wm_judged_t *judged, char text[WM_JUDGE_TEXT],
                     wm_error_t *error);

#endif
