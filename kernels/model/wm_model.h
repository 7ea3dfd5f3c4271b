/* wm_model.h - an imported model: a .wmm file, mapped.

   A .wmm holds a header, known answers, and either the network of the EmTrkMichelId family as a
   graph of ours (convolutions, then a tree of dense layers) or the original file for the engines of
   any model, or the facts of a plug-in and the file that it takes (kernels/plugin/wm_plugin.h).
   `wiremill import` makes it (kernels/import/wm_import.h); workers only map it.
   A model's identity is the SHA-256 of the file it was imported from, and of the data that this
   keeps in files beside it.
   wm_model_open checks everything that a .wmm states. Pointers into it live as long as the
   model. Thread: any number may read one model.  */
#ifndef WM_MODEL_H
#define WM_MODEL_H

#include "schema/base/wm_fault.h"
#include "schema/base/wm_file.h"
#include "schema/wm_exact.h"
#include "schema/wm_ragged.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WM_MODEL_CONVS_MAX 8
#define WM_MODEL_KERNEL_COLUMNS_MAX 64 /* bits of a word: the sparse engine keeps one a column */
#define WM_MODEL_DENSES_MAX 32
/* In the sentence of `why` on who judged the model, around what OpenVINO computes otherwise.  */
#define WM_MODEL_DIFFERS "OpenVINO computes "
#define WM_MODEL_OTHERWISE " otherwise"

#define WM_MODEL_PORTS_MAX 16 /* inputs, outputs */
#define WM_MODEL_DIMS_MAX 6

typedef enum {
    WM_ACT_NONE,
    WM_ACT_RELU,
    WM_ACT_SIGMOID,
    WM_ACT_TANH,
    WM_ACT_SOFTMAX,   /* over the layer's outputs; dense layers only */
    WM_ACT_LEAKY,     /* x, and below 0 bend * x */
    WM_ACT_ELU,       /* x, and below 0 bend * (e^x - 1) */
    WM_ACT_CLIP,      /* x, but at least 0 and at most bend */
    WM_ACT_GELU,      /* x times the share of a normal distribution that is below x */
    WM_ACT_GELU_TANH, /* about that, by its formula with tanh */
    WM_ACT_SWISH,     /* x / (1 + e^(-bend x)) */
    WM_ACT_HARDSWISH, /* x times (x + 3) / 6, and that from 0 to 1 */
    WM_ACT_SOFTPLUS,  /* log (1 + e^x) */
    WM_ACT_MISH,      /* x tanh (log (1 + e^x)) */
    WM_ACTS
} wm_act_t;

/* A valid convolution, stride 1: in (H, W, c_in) -> out (H-kh+1, W-kw+1, c_out), channels last.  */
typedef struct {
    uint32_t kh, kw, c_in, c_out;
    wm_act_t act;
    float bend;          /* of those activations that have one, else 0 */
    const float *weight; /* (kh, kw, c_in, c_out), 64-byte aligned */
    const float *bias;   /* (c_out) */
} wm_conv_t;

/* A dense layer. The first one(s) read the flattened convolution in (row, column, channel) order.
 */
typedef struct {
    int32_t parent; /* -1: the flattened convolution; else the index of an earlier dense layer */
    uint32_t n_in, n_out;
    wm_act_t act;
    float bend;          /* as a convolution's */
    int32_t output;      /* first column of the scores it fills, -1 for none */
    const float *weight; /* (n_in, n_out), 64-byte aligned */
    const float *bias;   /* (n_out) */
} wm_dense_t;

typedef struct {
    uint32_t height, width, channel; /* the input patch: (wire, drift, channel) */
    uint32_t n_conv, n_dense;
    wm_conv_t conv[WM_MODEL_CONVS_MAX];
    wm_dense_t dense[WM_MODEL_DENSES_MAX];
} wm_net_t;

/* An input or output of the model, without its batch dimension. Engines take and return float32,
   whatever `type` the model itself has there: 0: float32; else ONNX's number of a type
   (TensorProto.DataType), never a text's. Of a model that was imported for exact types a port may
   be carried exactly, each value in several float32s (schema/wm_exact.h). A model with a free
   dimension is ragged: its patches and their scores are ragged rows (schema/wm_ragged.h), of all
   inputs and of all outputs.  */
typedef struct {
    char name[128];
    uint8_t n_dim, is_exact; /* 0 or 1 */
    uint16_t type;
    uint32_t dim[WM_MODEL_DIMS_MAX]; /* 0: free, it changes from patch to patch */
    uint32_t n_value;                /* product of dim; 0 where one is free */
} wm_port_t;

/* Returns how many float32s have one value of a port.  */
static inline uint32_t wm_port_each (const wm_port_t *port)
{
    return port->is_exact ? wm_exact_each (port->type) : 1;
}

/* Returns whether a type (TensorProto.DataType, or 0: float32) is one of real numbers: FLOAT,
   FLOAT16, DOUBLE or BFLOAT16; the others hold whole numbers and truth values.  */
static inline bool wm_type_is_real (int type)
{
    return type == 0 || type == 1 || type == 10 || type == 11 || type == 16;
}

typedef enum { WM_MODEL_FAMILY = 1, WM_MODEL_GENERAL = 2, WM_MODEL_PLUGIN = 3 } wm_model_kind_t;

/* Which plug-in scores a model of that kind (gpuworker/wiremill_engine.h). The plug-in itself is
   not in the model: each machine has a file of this SHA-256.  */
typedef struct {
    char sha256[65];            /* of the shared object, hex */
    char name[32], version[32]; /* printable ASCII */
    uint8_t zero[59];           /* a file of its own begins on a 64-byte boundary */
    uint32_t flags;             /* of its description */
} wm_model_plugin_t;

/* Who judged a general model when it was imported, and so which engine "auto" takes for it.  */
typedef enum {
    WM_JUDGED_BY_NONE = 0, /* OpenVINO scores it, and no other engine could compute it here */
    WM_JUDGED_EQUAL = 1,   /* OpenVINO scores it, and ONNX Runtime computes the same */
    WM_JUDGED_TAKEN = 2,   /* OpenVINO scores it though it computes something else: as asked */
    WM_JUDGED_OTHER = 3,   /* ONNX Runtime scores it: OpenVINO computes something else */
    WM_JUDGED_ALONE = 4,   /* ONNX Runtime scores it: OpenVINO does not take it */
    WM_JUDGEMENTS
} wm_judgement_t;

typedef struct {
    uint8_t judgement; /* of wm_judgement_t */
    uint8_t lacked;    /* 1: OpenVINO or ONNX Runtime was not there */
    uint8_t zero[2];
    float off;      /* the largest difference between the two */
    char judge[40]; /* the engine that judged, "onnxruntime-1.32.0"; "": none */
} wm_judged_t;

typedef struct wm_model_t wm_model_t;

/* Maps and checks a .wmm. NULL with *error: WM_EBATCH, the file is damaged or not a model;
   WM_EHOST, it cannot be read.  */
wm_model_t *wm_model_open (const char *path, wm_error_t *error);
void wm_model_destroy (wm_model_t **self_p);

wm_model_kind_t wm_model_kind (const wm_model_t *self);
const char *wm_model_sha256 (const wm_model_t *self); /* hex, of the file given to import */
const char *wm_model_why (const wm_model_t *self);    /* which engine and why, one line */

/* Of a general model; of the family all zero.  */
const wm_judged_t *wm_model_judged (const wm_model_t *self);

/* Fills in which engine judged it, a line for outputs: "none", of a plug-in with its SHA-256,
   "onnxruntime-1.32.0", or after that,
   if OpenVINO computes something else, the engine that scores it and the first node that differs.
   "": a model of the family.  */
#define WM_MODEL_JUDGED_BYTES 256u
void wm_model_judged_by (const wm_model_t *self, char text[WM_MODEL_JUDGED_BYTES]);

/* Fills in what OpenVINO computes otherwise, "node 'up' (ConvTranspose)", of a judged model that it
   does not compute as ONNX Runtime does.  */
void wm_model_differing (const wm_model_t *self, char text[WM_MODEL_JUDGED_BYTES]);

/* Returns the engine that scores a model where no other is asked for: "sparse", "openvino",
   "onnxruntime" or "plugin".  */
const char *wm_model_scorer (const wm_model_t *self);

/* Returns the plug-in that scores the model; NULL: none does.  */
const wm_model_plugin_t *wm_model_plugin (const wm_model_t *self);

/* How the .wmm begins: with its size, and the digest of all that follows.  */
#define WM_MODEL_HEAD_BYTES 40
const uint8_t *wm_model_head (const wm_model_t *self);

uint32_t wm_model_n_input (const wm_model_t *self);
const wm_port_t *wm_model_input (const wm_model_t *self, uint32_t i);
uint32_t wm_model_n_output_port (const wm_model_t *self);
const wm_port_t *wm_model_output (const wm_model_t *self, uint32_t i);
/* Prints the shape of a patch: "(48, 48, 1)", of several inputs "(1, 48, 48) and (4)". Returns
   `text`.  */
#define WM_MODEL_SHAPE_BYTES 160
const char *wm_model_shape (const wm_model_t *self, char text[WM_MODEL_SHAPE_BYTES]);

/* Float32s of a patch, all inputs; of its scores, all outputs in order. Of a ragged model: the most
   that a row may have.  */
uint32_t wm_model_n_value (const wm_model_t *self);
uint32_t wm_model_n_output (const wm_model_t *self);

/* Returns whether a dimension is free; *port (may be NULL): the first that has one.  */
bool wm_model_is_ragged (const wm_model_t *self, const wm_port_t **port);

/* The refusal of a row whose scores have more than wm_model_n_output.  */
#define WM_MODEL_ROW_TOO_LARGE                                                                     \
    "the outputs have more values than a row of this model may have: import it with a larger "     \
    "--row-bytes, or state a larger row_bytes in config.pbtxt"

/* Returns whether a patch goes alone in its batch: it or its scores have more than
   WM_RAW_BYTES_MAX.  */
bool wm_model_is_large (const wm_model_t *self);

/* Returns the first port that is carried exactly; NULL: none.  */
const wm_port_t *wm_model_exact (const wm_model_t *self);

/* Reads a ragged row of n_value values, of anybody, which must have these n ports: their ranks,
   their fixed dimensions and what carries them. NULL, or what is wrong with it.  */
const char *wm_model_row (const wm_port_t *port, uint32_t n, const float *row, size_t n_value,
                          wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX]);
const wm_net_t *wm_model_net (const wm_model_t *self); /* NULL if general */

/* Returns the multiply-adds of one patch if nothing is skipped or shared. 0, for general models:
   not known; wm_model_why has the reason after WM_IMPORT_UNCOUNTED (without it: imported without
   OpenVINO).  */
uint64_t wm_model_madds (const wm_model_t *self);

/* Fills in how the names of files begin that are made from this model and shared by the processes
   of this machine: its own path, if its name is a hash, because then it lies in a cache of workers.
   false: it does not, or the name is too long.  */
bool wm_model_cache (const wm_model_t *self, char *path, size_t bytes);

/* Returns the file given to import. A family model keeps only its graph: NULL and *bytes = 0
   (wm_onnx_write makes an equivalent file), a plug-in may take none: likewise.  */
const void *wm_model_original (const wm_model_t *self, size_t *bytes);

/* Returns n, the number of known answers: inputs (n, n_value) and their scores (n, n_output),
   computed in double for the family, else by OpenVINO in fp32; of a ragged model n rows one behind
   the other. 0: there are none.  */
uint32_t wm_model_known (const wm_model_t *self, const float **inputs, const float **scores);

/* The content of a .wmm. `net` for the family, `original` for general models, `plugin` and perhaps
   `original` for plug-ins; the others NULL.  */
typedef struct {
    wm_model_kind_t kind;
    uint8_t sha256[32];
    const char *why;
    uint32_t n_input, n_output;
    const wm_port_t *input, *output;
    const wm_net_t *net;
    const wm_model_plugin_t *plugin;
    const void *original;
    size_t original_bytes;
    uint64_t madds; /* of a general model; 0: not known */
    wm_judged_t judged;
    uint32_t n_known;
    const float *known_inputs, *known_scores;
    uint32_t row_values;    /* of a ragged model: the most of a row; 0: WM_RAGGED_VALUES */
    size_t known_values[2]; /* of a ragged model: the values of all its rows of inputs, of scores */
} wm_model_parts_t;

/* Writes a .wmm, whole or not at all (wm_file_write).  */
wm_fault_t wm_model_write (const char *path, const wm_model_parts_t *parts, wm_error_t *error);

#endif
