/* wm_nan.h - where a model may lose a NaN that it made of a finite patch. Private to kernels/.

   Relu, Max, Exp, comparisons and the like make a number of a NaN in OpenVINO and ONNX Runtime, so
   that the score of a patch that has none would look right. So it is found which values may be NaN
   (the root of a negative number, 0 / 0, the difference of two infinities), and which of them must
   be looked at so that no such node gets one unseen.

   An infinity is a value: what a bound or an exponential makes of it is what ONNX says. What a
   model drops on purpose is not lost: Where (x > 0, Log (x), 0) is a number where x is negative.

   Bounds of all values are followed through the graph, from patches within +-2^40: a sum of squares
   has a root, and something divides by it where a positive number was added. Products of values may
   overflow; sums, products with weights and quotients by what is not 0 are taken as keeping the
   magnitude of what goes in. Graphs inside nodes (Loop, If, Scan) are not followed: such a node may
   make a NaN, and loses what it reads.  Thread: one at a time.  */
#ifndef WM_NAN_H
#define WM_NAN_H

#include "kernels/onnx/wm_onnx.h"

/* A value to look at, for the sake of a node that reads what becomes of it.  */
typedef struct {
    char *value;
    const Onnx__NodeProto *node;
    bool is_doubt; /* look also for infinities, which need not become NaN */
} wm_nan_t;

/* Finds the values to look at; the list is the arena's. None in a frozen graph. has_doubts: where
   one is NaN only where another is infinite, that other, which is looked at more cheaply. WM_EHOST:
   no memory.  */
wm_fault_t wm_nan_find (wm_onnx_t *onnx, bool has_doubts, const wm_nan_t **watch, size_t *n,
                        wm_error_t *error);

#endif
