/* wm_family_private.h - shared by the parts of the recogniser. Private to wm_family*.c.

   wm_family.c walks the graph and reports the result, wm_family_layers.c makes layers,
   wm_family_affine.c adds constants and activations to them, wm_family_curve.c finds activations
   that exporters write as several nodes; wm_family_node.c is below them all.  */
#ifndef WM_FAMILY_PRIVATE_H
#define WM_FAMILY_PRIVATE_H

#include "kernels/family/wm_family.h"
#include "kernels/family/wm_layer_view.h"

#define USES_MAX 256

/* Largest shift that is moved into a layer's sums and subtracted by its bias: it costs 2e-6.  */
#define MOVED_MAX 32

typedef enum { PATCH, CONV, DENSE } source_t;

/* One layer being built: both kinds have the same parts.  */
typedef struct {
    uint64_t n_in;
    uint32_t n_out;
    wm_act_t act;
    float bend;
    float *weight, *bias; /* (n_in, n_out), (n_out) */
    uint32_t version;
} layer_t;

/* A pending scale * x + shift by channel. The layer that reads the values takes it into its own
   weights.  */
typedef struct {
    uint32_t n; /* the layer's outputs; 1 for a patch */
    double *scale, *shift;
} affine_t;

typedef enum { NOTHING, CONSTANT, VIEW } kind_t;

typedef struct {
    kind_t kind;
    const Onnx__NodeProto *maker; /* of NOTHING: the node that could not be folded, or NULL; of a
                                     curve: the last one */
    wm_tensor_t tensor;           /* CONSTANT */
    wm_layer_view_t view;         /* VIEW, with the rest: */
    source_t source;
    uint32_t version;
    const affine_t *affine; /* or NULL */
    const double *curve;    /* function of the layer that is not a known activation yet, or NULL */
    uint32_t n_layer;       /* 1, or the heads that were concatenated */
    uint32_t layer[WM_MODEL_DENSES_MAX];
} state_t;

typedef struct {
    const wm_onnx_t *onnx;
    wm_arena_t *arena;
    bool fixed_batch;
    wm_net_t *net;
    layer_t conv[WM_MODEL_CONVS_MAX], dense[WM_MODEL_DENSES_MAX];
    struct {
        const layer_t *layer;
        uint32_t version;
        const Onnx__NodeProto *reader;
    } use[USES_MAX];
    uint32_t n_use;
    state_t **state;         /* per value of the graph */
    const uint32_t *readers; /* how many nodes of wm_family_curve.c read a value; NULL: not yet */
    const Onnx__NodeProto *node; /* being visited */
    state_t *in[8];
    size_t n_in;
    const state_t *nothing; /* one of `in` that is neither view nor constant, or NULL */
    char *why;
} family_t;

/* Writes why the graph is not of the family. Returns false.  */
bool wm_family_outside (family_t *self, const Onnx__NodeProto *node, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));

/* The same: the node needs a constant that could not be folded. Returns false.  */
bool wm_family_lacks (family_t *self);

bool wm_family_is (const family_t *self, const char *op);
float wm_family_float (const family_t *self, const char *name, float otherwise);
const wm_tensor_t *wm_family_constant (const family_t *self, size_t k); /* input k, or NULL */
layer_t *wm_family_layer (family_t *self, const state_t *s);            /* behind a view */

/* Remembers the version of a layer that the node reads.  */
void wm_family_use (family_t *self, const layer_t *layer, uint32_t version);

/* The activation of the layer behind a view.  */
bool wm_family_put (family_t *self, state_t *out, wm_act_t act, float bend);

/* A limit of Clip: an attribute, or input k in newer operator sets.  */
bool wm_family_limit (family_t *self, const char *name, size_t k, float *value);

/* Returns whether the node is one of several that compute an activation, for wm_family_curve.  */
bool wm_family_follows (family_t *self);
bool wm_family_curve (family_t *self, state_t *out);

/* Compute a node's result from in[0] (or, of two inputs, the view). false: not of the family.  */
bool wm_family_conv (family_t *self, state_t *out);
bool wm_family_gemm (family_t *self, state_t *out);
bool wm_family_matmul (family_t *self, state_t *out);
bool wm_family_arithmetic (family_t *self, state_t *out); /* Add, Sub, Mul, Div */
bool wm_family_batchnorm (family_t *self, state_t *out);
bool wm_family_activation (family_t *self, state_t *out);

#endif
