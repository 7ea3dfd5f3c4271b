/* wm_ragged.h - a ragged row: the tensors of one patch whose shapes change from patch to patch.

   A model with free dimensions (NuGraph's lists of hits; images of any height and width) takes and
   returns such rows. A row goes alone in a batch of kind PATCHES, with as many values as it has;
   its result is one status and one row. The pins of such a campaign state `lengths: vary`, and
   their n_value and n_output are the most values that a row may have: WM_RAGGED_VALUES, or as many
   as the model was imported for.

   A row is float32 throughout, also the counts in its head, which are whole numbers below 2^24 and
   so exact: no row has a value that is not finite but in its tensors.

     values of the row | tensors | type and dimensions, sizes of each | values of the first, ...

   Type and dimensions are one count, 16 * type + dimensions. A tensor of type 0 has one float32 a
   value; another type is ONNX's number of one that is carried exactly, in several (wm_exact.h).

   A row of no tensors is a refusal: its values are the characters of a text, why the model cannot
   be computed on this row (lengths that do not fit each other). Thread: any; plain values.  */
#ifndef WM_RAGGED_H
#define WM_RAGGED_H

#include "schema/wm_limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WM_RAGGED_TENSORS_MAX 16u
#define WM_RAGGED_DIMS_MAX 8u
#define WM_RAGGED_VALUES (WM_RAGGED_BYTES / 4 - 1) /* of a row, unless its model has more */
#define WM_RAGGED_VALUES_MAX ((1u << 24) - 1)      /* of any: what its head can state, 64 MiB */

typedef struct {
    uint32_t n_dim, dim[WM_RAGGED_DIMS_MAX];
    int type;         /* 0, or one that is carried exactly */
    uint32_t n_value; /* the product of dim; set by the functions below */
    uint32_t n_float; /* float32s in the row; likewise */
    uint32_t at;      /* the first of them; likewise */
} wm_ragged_t;

/* Writes the head of a row of n tensors, whose n_dim, dim and type are set, into `row`, which has
   room for `most` float32s. Returns those of the whole row; 0: it has more than `most`, or
   WM_RAGGED_VALUES_MAX.  */
uint32_t wm_ragged_begin (float *row, size_t most, uint32_t n, wm_ragged_t *tensor);

/* Writes a refusal, of as much of the text as `most` allows. Returns its values.  */
uint32_t wm_ragged_refuse (float *row, size_t most, const char *text);

/* Returns the values of the row that begins here; 0: they are no row, or more than `most`. Reads
   only the first value, and the caller has one.  */
uint32_t wm_ragged_length (const float *row, size_t most);

/* Reads the head of a row of exactly `n_value` values, of anybody. *n: its tensors, 0 of a refusal.
   NULL, or what is wrong with it.  */
const char *wm_ragged_read (const float *row, size_t n_value, uint32_t *n,
                            wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX]);

/* Copies the text of a refusal that was read; characters that are none become '?'.  */
void wm_ragged_refusal (const float *row, size_t n_value, char *text, size_t bytes);

#endif
