/* wm_index_guard.h - keeps the indices that a patch brings inside their tables, and reports NaNs
   that a model would lose. Private to kernels/.

   OpenVINO checks few indices: outside its table Gather gives zeros, GatherND reads beside it. So a
   graph is changed before OpenVINO reads it. Where a patch decides an index, or the size of its
   table (wm_flow.h):

     index -> Max (Min (index, size - 1), -size) -> the operator

   so that none outside reaches the operator, and one more output of the graph has for each such
   place how far the outermost lay outside, and the size; where one did, the scores mean nothing.
   Negative indices down to -size are legal, as in ONNX. An empty table has no legal index: the
   operator's result is then undefined, but OpenVINO does not compute it.

   In the same way other numbers are kept within bounds beyond which OpenVINO reads or writes beside
   a tensor: sizes of the indices of ScatterElements, repeats of Tile, negative pads, sizes of
   Split, steps of LSTM, GRU and RNN; the condition of Compress is cut to its table.

   What cannot be guarded so is refused by name: such operators in graphs inside nodes (Loop, If,
   Scan) or in frozen graphs, and those that hide their indices.
   The same output has, for each value that may be NaN where a node behind it makes a number of that
   (wm_nan.h), whether it is. So no patch gets a score that only looks like one.

   The changed file is ONNX for any engine; one that checks indices itself leaves their guards out.
   Thread: one at a time.  */
#ifndef WM_INDEX_GUARD_H
#define WM_INDEX_GUARD_H

#include "kernels/model/wm_model.h"

#define WM_GUARD_OUTPUT "wm|guard" /* int64; a frozen graph has none */

typedef struct wm_index_guard_t wm_index_guard_t;

/* What is guarded beside NaNs.  */
typedef enum {
    WM_GUARD_INDICES = 1,
    WM_GUARD_DOUBTS = 2 /* a cheaper graph, which finds WM_GUARD_DOUBT where it must ask one without
                           this */
} wm_guard_how_t;

/* Guards a model's file, of these inputs; how: of wm_guard_how_t. *guard is NULL where nothing
   needs it; else *bytes and *size become the changed file, which is the guard's. WM_EBATCH: a node
   cannot be guarded, the text names it; WM_EHOST: no memory.  */
wm_fault_t wm_guard_new (wm_index_guard_t **guard, const void **bytes, size_t *size,
                         const wm_port_t *port, uint32_t n_port, unsigned how, wm_error_t *error);

/* Frees the changed file, once it is read.  */
void wm_guard_forget (wm_index_guard_t *self);
void wm_guard_destroy (wm_index_guard_t **self_p);

/* Returns the numbers of the output; 0: the graph has no such output.  */
size_t wm_guard_numbers (const wm_index_guard_t *self);

/* Whether it may find a doubt.  */
bool wm_guard_doubts (const wm_index_guard_t *self);

typedef enum {
    WM_GUARD_SOUND,
    WM_GUARD_DOUBT,  /* of an infinity it may have made a NaN, and lost that */
    WM_GUARD_NAN,    /* the model made a NaN, and may have lost it */
    WM_GUARD_OUTSIDE /* an index lay outside its table, or scales no engine computes with */
} wm_guard_found_t;

/* Reads the output's numbers, those of all patches that were computed together. Where both were
   found it is the NaN, of which the index may have come. `text` gets the first: which value, of
   which node, and what the table has.  */
wm_guard_found_t wm_guard_find (const wm_index_guard_t *self, const int64_t *number, char *text,
                                size_t bytes);

#endif
