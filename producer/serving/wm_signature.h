/* wm_signature.h - inputs and outputs of a served model, and how tensors become rows of a batch.

   wiremill's workers take rows of float32: all inputs of one patch, one behind the other, in the
   model's order; and return rows of float32, all outputs. A tensor of another type is converted
   here, and only where no value changes. Of a type that float32 does not hold, several float32s are
   a value (schema/wm_exact.h) where ONNX Runtime scores the model; else a value that float32 cannot
   hold is refused. The engine converts to the model's own types. A model with free dimensions takes
   ragged rows, with their shapes (schema/wm_ragged.h). Thread: any; plain values.  */
#ifndef WM_SIGNATURE_H
#define WM_SIGNATURE_H

#include "producer/serving/wm_classify.h"
#include "producer/serving/wm_kserve.h"
#include "schema/wm_ragged.h"

#define WM_SIGNATURE_PORTS_MAX 16

typedef struct {
    char name[128];
    wm_type_t type;
    uint32_t n_dim, n_model; /* as clients have it; as the model has its rows */
    int64_t dim[WM_TENSOR_DIM_MAX], model[WM_TENSOR_DIM_MAX]; /* without the rows of a request;
                                       -1: free, it changes from row to row. Both have as many */
    uint32_t n_value;          /* their product; 0 where one is free */
    uint32_t at;               /* first float32 in a row, unless rows are ragged */
    int exact;                 /* ONNX's number of the type, if it is carried exactly; or 0 */
    const wm_labels_t *labels; /* of an output, lent; NULL: none */
} wm_signature_port_t;

typedef struct {
    bool is_whole;       /* clients have no dimension of rows: a request is one */
    bool has_all_dims;   /* max_batch_size 0: classes are those of a whole output, not of a row */
    bool is_ragged;      /* a dimension is free: rows go one by one, as ragged rows */
    bool takes_infinite; /* infinities of a request are values; else as NaN */
    uint32_t n_input, n_output;
    uint32_t n_value, n_score; /* float32s of a row, or the most: of all inputs, all outputs */
    wm_signature_port_t input[WM_SIGNATURE_PORTS_MAX], output[WM_SIGNATURE_PORTS_MAX];
} wm_signature_t;

/* Writes a shape of at most WM_TENSOR_DIM_MAX sizes of any digits, as "[-1,3,4]" where has_rows.
   Returns text.  */
#define WM_SIGNATURE_SHAPE_BYTES 192
const char *wm_signature_shape (char text[WM_SIGNATURE_SHAPE_BYTES], bool has_rows, uint32_t n_dim,
                                const int64_t *dim);

/* What a request means for a model.  */
typedef struct {
    uint32_t n_row;
    uint32_t n_output;
    uint8_t input[WM_SIGNATURE_PORTS_MAX];    /* of the request, in the model's order */
    uint8_t output[WM_SIGNATURE_PORTS_MAX];   /* of the model, in the answer's order */
    uint32_t n_class[WM_SIGNATURE_PORTS_MAX]; /* of each of these: 0, or how many classes */
} wm_tensor_plan_t;

/* Adds a port behind the others. `n_dim` is at most WM_TENSOR_DIM_MAX - 1; 0 in `dim` is free.  */
void wm_signature_add (wm_signature_t *self, bool is_output, const char *name, wm_type_t type,
                       uint32_t n_dim, const uint32_t *dim);

/* Has the port that was added last carried exactly; `type`: ONNX's number of its type.  */
void wm_signature_carry (wm_signature_t *self, bool is_output, int type);

/* Fills *plan, or returns INVALID with a text in Triton's words.  */
wm_ks_code_t wm_signature_plan (const wm_signature_t *self, const wm_ks_request_t *request,
                                wm_tensor_plan_t *plan, wm_ks_error_t *error);

/* Fills in the only input of a request of one row that has its bytes alone. Its name is lent.
   INVALID: the model has several inputs, or free dimensions that the bytes leave open.  */
wm_ks_code_t wm_signature_raw (const wm_signature_t *self, const char *model, size_t bytes,
                               wm_kserve_tensor_t *tensor, wm_ks_error_t *error);

/* Returns whether every value of the request's rows is one that float32 holds and, of an integer,
   one of 32 bits, in which OpenVINO computes integers; else INVALID names the first. Only integers
   of 32 bits and more, and FP64, can have others, and only where they are not carried exactly.  */
wm_ks_code_t wm_signature_exact (const wm_signature_t *self, const wm_ks_request_t *request,
                                 const wm_tensor_plan_t *plan, wm_ks_error_t *error);

/* Copies one row (n_value). false: the model does not take one of its values.  */
bool wm_signature_row (const wm_signature_t *self, const wm_ks_request_t *request,
                       const wm_tensor_plan_t *plan, uint32_t row, float *to);

/* Returns the bytes of an answer's tensors, and of the classes that take their place, at most. Not
   of a ragged model.  */
size_t wm_signature_answer_bytes (const wm_signature_t *self, const wm_tensor_plan_t *plan);

/* Allocates the tensors of an answer; wm_signature_clear frees them. False: there is no memory.  */
bool wm_signature_begin (const wm_signature_t *self, const wm_tensor_plan_t *plan,
                         wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX]);

/* Stores the scores of a row (n_score); NULL: it is held, and has NaN. INVALID: an integer of 32 or
   64 bits is 2^24 or more, which float32 may have rounded.  */
wm_ks_code_t wm_signature_put (const wm_signature_t *self, const wm_tensor_plan_t *plan,
                               const char *model, uint32_t row, const float *score,
                               const wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX],
                               wm_ks_error_t *error);

/* ---- of ragged models: instead of _row, _begin and _put ------------------------------------ */

/* Returns the values of one row of the request as a ragged row in *n_value; or INVALID: they are
   too many, or the model does not take one of them.  */
wm_ks_code_t wm_signature_ragged_check (const wm_signature_t *self, const wm_ks_request_t *request,
                                        const wm_tensor_plan_t *plan, size_t *n_value,
                                        wm_ks_error_t *error);

/* Makes one row, of a request that was checked; of one that has no rows, a row of zeros.  */
void wm_signature_ragged_row (const wm_signature_t *self, const wm_ks_request_t *request,
                              const wm_tensor_plan_t *plan, uint32_t row, float *to,
                              size_t n_value);

/* Makes the tensors of an answer from ragged rows of scores (n_row; one where that is 0, for the
   shapes), each as long as it states.
   INVALID: rows of different shapes do not make a tensor, or integers may be rounded; INTERNAL:
   rows that are not this model's. Nothing is allocated then.  */
wm_ks_code_t wm_signature_ragged_answer (const wm_signature_t *self, const wm_tensor_plan_t *plan,
                                         const char *model, float *const *row,
                                         wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX],
                                         wm_ks_error_t *error);

/* Returns the bytes that the classes of these outputs have at most; 0: none are wanted.  */
size_t wm_signature_class_bytes (const wm_signature_t *self, const wm_tensor_plan_t *plan,
                                 const wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX]);

/* Puts classes in the place of scores, of answers' outputs that are wanted so, a slice at a time as
   wm_classify.  */
bool wm_signature_classify (const wm_signature_t *self, const wm_tensor_plan_t *plan,
                            wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX],
                            wm_ranking_t *ranking, size_t *left);

void wm_signature_clear (const wm_tensor_plan_t *plan,
                         wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX]);

#endif
