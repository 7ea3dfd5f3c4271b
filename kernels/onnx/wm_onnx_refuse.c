/* wm_onnx_refuse.c - refuses nodes that would silently give wrong scores.

   A score must not depend on random numbers or on the other hits of its batch. OpenVINO 2026.4
   reads the fused operators of graphs that ONNX Runtime optimised (FusedConv), but computes them
   wrongly; it accepts a group of 0 or less, and crashes if a Conv has no weights.  */
#include "kernels/onnx/wm_onnx.h"
#include "kernels/onnx/wm_tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool draws (const char *op)
{
    static const char *const chance[] = {
        "Bernoulli",     "Multinomial",       "RandomNormal",         "RandomNormalLike",
        "RandomUniform", "RandomUniformLike", "RandomStandardNormal", "TruncatedNormal"
    };
    for (size_t k = 0; k < sizeof chance / sizeof *chance; k++)
        if (!strcmp (op, chance[k]))
            return true;
    return false;
}

/* The constant that a node's input k is, of the file; NULL: none.  */
static const Onnx__TensorProto *constant_of (const wm_onnx_t *self, const Onnx__NodeProto *node,
                                             size_t k)
{
    int64_t v = k < node->n_input ? wm_onnx_find (self, node->input[k]) : -1;
    if (v < 0)
        return NULL;
    const wm_onnx_value_t *value = &self->value[v];
    const Onnx__AttributeProto *a = value->node && !strcmp (wm_onnx_op (value->node), "Constant")
                                        ? wm_onnx_attribute (value->node, "value")
                                        : NULL;
    return value->initializer ? value->initializer : a ? a->t : NULL;
}

/* Whether a constant input of a node is true.  */
static bool is_true (wm_onnx_t *self, const Onnx__NodeProto *node, size_t k)
{
    const Onnx__TensorProto *proto = constant_of (self, node, k);
    wm_tensor_t tensor;
    return proto && wm_tensor_read (&self->arena, proto, &tensor) && tensor.i && tensor.i[0];
}

bool wm_onnx_find_nan (wm_onnx_t *self, char *text, size_t bytes)
{
    for (size_t i = 0; i < self->n_node; i++)
        for (size_t k = 0; k < self->node[i]->n_input; k++) {
            const Onnx__TensorProto *proto = constant_of (self, self->node[i], k);
            wm_tensor_t tensor;
            if (!proto || !wm_tensor_read (&self->arena, proto, &tensor) || !tensor.f)
                continue;
            for (size_t at = 0; at < tensor.n; at++)
                if (isnan (tensor.f[at])) {
                    snprintf (text, bytes, "value %zu of tensor '%.100s' is NaN", at,
                              self->node[i]->input[k]);
                    return true;
                }
        }
    return false;
}

/* By the number of outputs before operator set 14, by an attribute before 7; Dropout by an input,
   which may be a patch's.  */
static bool trains (wm_onnx_t *self, const Onnx__NodeProto *node)
{
    const char *op = wm_onnx_op (node);
    if (!strcmp (op, "Dropout"))
        return is_true (self, node, 2) ||
               (node->n_input > 2 && *node->input[2] && !constant_of (self, node, 2));
    if (strcmp (op, "BatchNormalization"))
        return false;
    int more = 0;
    for (size_t k = 1; k < node->n_output; k++)
        more |= *node->output[k] != 0;
    return wm_onnx_int (node, "training_mode", 0) || more ||
           (self->opset > 0 && self->opset < 7 && !wm_onnx_int (node, "is_test", 0));
}

/* Inputs that an operator cannot do without.  */
static size_t needs (const char *op)
{
    static const struct {
        const char *op;
        size_t inputs;
    } least[] = { { "Add", 2 },
                  { "BatchNormalization", 5 },
                  { "Constant", 0 },
                  { "Conv", 2 },
                  { "ConvTranspose", 2 },
                  { "Div", 2 },
                  { "Gather", 2 },
                  { "Gemm", 2 },
                  { "GRU", 3 },
                  { "LSTM", 3 },
                  { "MatMul", 2 },
                  { "Mul", 2 },
                  { "OptionalHasElement", 0 },
                  { "Pow", 2 },
                  { "PRelu", 2 },
                  { "RNN", 3 },
                  { "SequenceEmpty", 0 },
                  { "Sub", 2 },
                  { "Where", 3 } };
    for (size_t k = 0; k < sizeof least / sizeof *least; k++)
        if (!strcmp (op, least[k].op))
            return least[k].inputs;
    return 1;
}

/* Refuses a damaged graph.  */
static wm_fault_t refuse_damaged (const wm_onnx_t *self, wm_error_t *error)
{
    for (size_t i = 0; i < self->n_output; i++)
        if (wm_onnx_find (self, self->output[i]->name) < 0)
            return wm_fault (error, WM_EBATCH,
                             "%s: no node makes its output '%.100s': a damaged model", self->path,
                             self->output[i]->name);
    for (size_t i = 0; i < self->n_node; i++) {
        const Onnx__NodeProto *node = self->node[i];
        const char *name = wm_onnx_node_name (node), *op = wm_onnx_op (node);
        const int own = node->domain && *node->domain && strcmp (node->domain, "ai.onnx") != 0;
        if (!own && node->n_input < needs (op))
            return wm_fault (error, WM_EBATCH,
                             "%s: node '%.100s' (%.60s) has %zu inputs and needs %zu: a damaged "
                             "model",
                             self->path, name, op, node->n_input, needs (op));
        if (!own && !strncmp (op, "Conv", 4) && wm_onnx_int (node, "group", 1) < 1)
            return wm_fault (error, WM_EBATCH,
                             "%s: node '%.100s' (%.60s) has a group of %lld: a damaged model",
                             self->path, name, op, (long long) wm_onnx_int (node, "group", 1));
    }
    return WM_OK;
}

wm_fault_t wm_onnx_refuse (wm_onnx_t *self, wm_error_t *error)
{
    if (!self->tensorflow && refuse_damaged (self, error))
        return error->fault;
    for (size_t i = 0; i < self->n_node; i++) {
        const Onnx__NodeProto *node = self->node[i];
        const char *name = wm_onnx_node_name (node), *op = wm_onnx_op (node);
        if (node->domain && !strcmp (node->domain, "com.microsoft"))
            return wm_fault (
                error, WM_EBATCH,
                "%s: node '%.100s' (%.60s) is an operator of ONNX Runtime's own: give the "
                "model as it was exported, not as ONNX Runtime optimised it",
                self->path, name, op);
        if (node->n_input && !*node->input[0] && strcmp (op, "Loop")) /* OpenVINO 2026.4 crashes */
            return wm_fault (error, WM_EBATCH,
                             "%s: node '%.100s' (%.60s) has no first input: a damaged model",
                             self->path, name, op);
        if (draws (op))
            return wm_fault (error, WM_EBATCH,
                             "%s: node '%.100s' (%.60s) draws at random: a hit would have another "
                             "score each time; export the model for inference",
                             self->path, name, op);
        if (trains (self, node))
            return wm_fault (
                error, WM_EBATCH,
                "%s: node '%.100s' (%.60s) is in training mode, or a patch decides that: a "
                "hit's score would depend on its batch, or on chance; export the model "
                "for inference",
                self->path, name, op);
    }
    return WM_OK;
}
