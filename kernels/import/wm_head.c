/* wm_head.c - see wm_head.h.  */
#include "kernels/import/wm_head.h"
#include "kernels/onnx/wm_onnx.h"

#include <string.h>

static bool is_layer (const wm_net_t *net, uint32_t column, uint32_t n, wm_act_t act)
{
    for (uint32_t i = 0; i < net->n_dense; i++) {
        const wm_dense_t *dense = &net->dense[i];
        if (dense->output >= 0 && (uint32_t) dense->output == column && dense->n_out == n &&
            dense->act == act)
            return true;
    }
    return false;
}

/* ---- general models -------------------------------------------------------------------------- */

/* Whether a node passes its first input on, at most in another shape.  */
static bool is_same (const char *op)
{
    static const char *const same[] = { "Identity",  "Reshape", "Flatten", "Squeeze",
                                        "Unsqueeze", "Dropout", "Cast" };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!strcmp (op, same[i]))
            return true;
    return false;
}

/* Returns the node that computes the values of `name`, NULL for none. Each step goes to an earlier
   node, and the graph has no cycle (wm_onnx_read), so this ends.  */
static const Onnx__NodeProto *maker (const wm_onnx_t *onnx, const char *name)
{
    for (;;) {
        const int64_t value = wm_onnx_find (onnx, name);
        const Onnx__NodeProto *node = value < 0 ? NULL : onnx->value[value].node;
        if (!node || !node->n_input || !is_same (wm_onnx_op (node)))
            return node;
        name = node->input[0];
    }
}

/* Returns the output that begins at this column of the scores, NULL for none.  */
static const wm_port_t *port_at (const wm_model_t *model, uint32_t column)
{
    for (uint32_t i = 0, at = 0; i < wm_model_n_output_port (model); i++) {
        const wm_port_t *port = wm_model_output (model, i);
        if (at == column)
            return port;
        at += port->n_value;
    }
    return NULL;
}

static bool is_node (const wm_model_t *model, uint32_t column, uint32_t n, wm_act_t act)
{
    size_t bytes;
    wm_onnx_t onnx;
    wm_error_t ignored;
    const wm_port_t *port = port_at (model, column);
    const void *original = wm_model_original (model, &bytes);
    if (!original || !port || port->n_value != n)
        return false;
    bool found = false;
    if (!wm_onnx_lend (&onnx, "the model", original, bytes, &ignored) &&
        !wm_onnx_read (&onnx, NULL, &ignored)) {
        const Onnx__NodeProto *node = maker (&onnx, port->name);
        found = node && (!node->domain || !*node->domain) &&
                !strcmp (wm_onnx_op (node), act == WM_ACT_SOFTMAX ? "Softmax" : "Sigmoid");
    }
    wm_onnx_clear (&onnx);
    return found;
}

bool wm_head_is (const wm_model_t *model, uint32_t column, uint32_t n, wm_act_t act)
{
    const wm_net_t *net = wm_model_net (model);
    if (act != WM_ACT_SOFTMAX && act != WM_ACT_SIGMOID)
        return false;
    return net ? is_layer (net, column, n, act) : is_node (model, column, n, act);
}
