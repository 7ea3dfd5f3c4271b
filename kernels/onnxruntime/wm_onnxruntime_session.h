/* wm_onnxruntime_session.h - a model's file as a session of ONNX Runtime.

   Computes tensors of any shape that the model takes; values are float32 on our side, of some types
   several of a value (schema/wm_exact.h), and are converted from and to the types of the model's
   inputs and outputs. Every run is one thread from
   end to end.  Thread: several may run one session at once.  */
#ifndef WM_ONNXRUNTIME_SESSION_H
#define WM_ONNXRUNTIME_SESSION_H

#include "kernels/model/wm_model.h"

#define WM_ONNXRUNTIME_DIMS_MAX 16

typedef struct wm_onnxruntime_session_t wm_onnxruntime_session_t;

/* A tensor that goes in.  */
typedef struct {
    uint32_t n_dim;
    int64_t dim[WM_ONNXRUNTIME_DIMS_MAX];
    const float *value; /* lent */
    bool is_exact;      /* several float32s are a value */
} wm_onnxruntime_in_t;

/* A tensor that came out; wm_onnxruntime_release frees what it holds.  */
typedef struct {
    struct OrtValue *tensor;
    const void *data; /* of the tensor */
    int type;         /* TensorProto.DataType */
    uint32_t n_dim;
    int64_t dim[WM_ONNXRUNTIME_DIMS_MAX];
    uint64_t n_value;
} wm_onnxruntime_out_t;

/* Reads an ONNX file that has these inputs and outputs; the ports and the names are lent for the
   session's life, the bytes for this call. tight: memory is taken as a run needs it and given back,
   not in regions that double and are kept. NULL with *error: WM_EBATCH, ONNX Runtime does not take
   the model; WM_EHOST, no memory.  */
wm_onnxruntime_session_t *wm_onnxruntime_session_new (const void *bytes, size_t size,
                                                      const wm_port_t *input, uint32_t n_input,
                                                      const char *const *output_name,
                                                      uint32_t n_output, bool tight,
                                                      wm_error_t *error);
void wm_onnxruntime_session_destroy (wm_onnxruntime_session_t **self_p);

/* Returns whether the model's inputs have no batch dimension in front of the ports'.  */
bool wm_onnxruntime_session_whole (const wm_onnxruntime_session_t *self);

/* Returns input i of a row: its values, and the n_dim dimensions behind the batch's.  */
wm_onnxruntime_in_t wm_onnxruntime_in (const wm_onnxruntime_session_t *self, uint32_t i,
                                       uint32_t n_dim, const uint32_t *dim, const float *value);

/* Computes the outputs of these inputs, one of each port. WM_EBATCH with the node and the reason:
   the model cannot be computed on them (an index outside its table); then nothing is held.  */
wm_fault_t wm_onnxruntime_run (wm_onnxruntime_session_t *self, const wm_onnxruntime_in_t *in,
                               wm_onnxruntime_out_t *out, wm_error_t *error);
void wm_onnxruntime_release (wm_onnxruntime_session_t *self, wm_onnxruntime_out_t *out);

/* Converts the values of an output. false: one is an integer, or a double, that no float32 equals,
   or comes near to.  */
bool wm_onnxruntime_floats (const wm_onnxruntime_out_t *out, float *to);

/* The same for the output of a port, which may be carried exactly; n_value * wm_port_each.  */
bool wm_onnxruntime_take (const wm_onnxruntime_out_t *out, const wm_port_t *port, float *to);

/* Returns the library's version, "1.32.0".  */
const char *wm_onnxruntime_version (void);

#endif
