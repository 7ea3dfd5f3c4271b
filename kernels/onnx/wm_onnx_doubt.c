/* wm_onnx_doubt.c - nodes that an engine is known to compute otherwise than ONNX defines.

   ONNX's own tests show them (tests/golden/onnx.t), for OpenVINO 2026.4 and ONNX Runtime 1.32. The
   judge finds most of OpenVINO's by itself. Some need values that it does not draw (equal ones, a
   threshold that is met), or a branch that drawn patches do not take: a model with such a node is
   scored by ONNX Runtime in any case. Where ONNX Runtime is missing, or lacks an operator of the
   model, any of them is refused.  */
#include "kernels/onnx/wm_onnx.h"
#include "kernels/onnx/wm_tensor.h"

#include <math.h>
#include <string.h>

static bool is_text (const Onnx__NodeProto *node, const char *name, const char *value)
{
    return wm_onnx_attribute_is (wm_onnx_attribute (node, name), value);
}

static bool has_input (const Onnx__NodeProto *node, size_t k)
{
    return k < node->n_input && *node->input[k];
}

static bool is_constant (const wm_onnx_t *self, const char *name)
{
    const int64_t v = wm_onnx_find (self, name);
    return v >= 0 &&
           (self->value[v].initializer ||
            (self->value[v].node && !strcmp (wm_onnx_op (self->value[v].node), "Constant")));
}

/* Whether an attribute is there and is not the only value that is computed right.  */
static bool is_other (const Onnx__NodeProto *node, const char *name, int64_t right)
{
    return wm_onnx_int (node, name, right) != right;
}

static bool pads_by_name (const Onnx__NodeProto *node)
{
    return is_text (node, "auto_pad", "SAME_UPPER") || is_text (node, "auto_pad", "SAME_LOWER");
}

/* What of a node OpenVINO computes otherwise; NULL: nothing that is known. inner: it lies in a
   graph inside a node, where wm_onnx_spell replaces nothing.  */
static const char *doubt_of_openvino (const wm_onnx_t *self, const Onnx__NodeProto *node,
                                      bool inner)
{
    const char *op = wm_onnx_op (node);
    const int64_t set = self->opset;
    const bool reduces =
        !strcmp (op, "ReduceL1") || !strcmp (op, "ReduceLogSum") || !strcmp (op, "ReduceLogSumExp");
    const bool walks = !strcmp (op, "LSTM") || !strcmp (op, "GRU") || !strcmp (op, "RNN");
    if ((!strcmp (op, "Softmax") ? inner : !strcmp (op, "LogSoftmax") || !strcmp (op, "Hardmax")) &&
        set < 13 && wm_onnx_int (node, "axis", 1) != -1)
        return "axis";
    if (!strcmp (op, "ConvTranspose"))
        return wm_onnx_attribute (node, "output_shape") ? "output_shape"
               : pads_by_name (node)                    ? "auto_pad"
                                                        : NULL;
    if (strstr (op, "Pool") && is_other (node, "ceil_mode", 0))
        return "ceil_mode";
    if (reduces && set >= 13 && set < 18 && wm_onnx_attribute (node, "axes"))
        return "axes";
    if (!strcmp (op, "Resize"))
        return is_other (node, "antialias", 0)         ? "antialias"
               : is_other (node, "exclude_outside", 0) ? "exclude_outside"
               : wm_onnx_attribute (node, "keep_aspect_ratio_policy") &&
                       !is_text (node, "keep_aspect_ratio_policy", "stretch")
                   ? "keep_aspect_ratio_policy"
                   : NULL;
    if (walks && is_other (node, "layout", 0))
        return "layout";
    if (!strcmp (op, "LSTM"))
        return has_input (node, 7)                  ? "peepholes"
               : is_other (node, "input_forget", 0) ? "input_forget"
                                                    : NULL;
    if (!strcmp (op, "Attention"))
        return is_other (node, "left_window_size", -1)    ? "left_window_size"
               : is_other (node, "right_window_size", -1) ? "right_window_size"
                                                          : NULL;
    if (!strcmp (op, "SpaceToDepth") && is_text (node, "mode", "CRD"))
        return "mode CRD";
    if ((!strcmp (op, "Cast") || !strcmp (op, "CastLike")) &&
        wm_onnx_int (node, "to", 0) > ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16)
        return "a type of less than 16 bits";
    if (!strcmp (op, "BitShift") || !strcmp (op, "DynamicQuantizeLinear") ||
        !strcmp (op, "NonMaxSuppression"))
        return "its results";
    if (!strcmp (op, "RoiAlign") && is_text (node, "mode", "max"))
        return "mode max";
    if (!strcmp (op, "Tile") && has_input (node, 1) && !is_constant (self, node->input[1]))
        return "repeats that are no constant";
    return NULL;
}

/* Whether drawn patches may not show what OpenVINO computes otherwise of a node.  */
static bool hides (const wm_onnx_t *self, const Onnx__NodeProto *node, bool inner)
{
    static const char *const by_values[] = { "BitShift",          "Cast",
                                             "CastLike",          "DynamicQuantizeLinear",
                                             "NonMaxSuppression", "Tile" };
    bool any = inner;
    for (size_t k = 0; k < sizeof by_values / sizeof *by_values; k++)
        any |= !strcmp (wm_onnx_op (node), by_values[k]);
    for (size_t k = 2; k < 4 && !strcmp (wm_onnx_op (node), "Resize"); k++)
        any |= has_input (node, k) && !is_constant (self, node->input[k]);
    return any;
}

/* Finds the first doubt of a node and the graphs inside it; all: also those that drawn patches
   show. NULL: none.  */
static const Onnx__NodeProto *find_doubt (const wm_onnx_t *self, const Onnx__NodeProto *node,
                                          bool inner, bool all, const char **doubt)
{
    *doubt = doubt_of_openvino (self, node, inner);
    const Onnx__NodeProto *found = *doubt && (all || hides (self, node, inner)) ? node : NULL;
    for (size_t a = 0; a < node->n_attribute && !found; a++) { /* the file's depth is bounded */
        const Onnx__AttributeProto *attribute = node->attribute[a];
        for (size_t g = 0; g < attribute->n_graphs + (attribute->g != NULL) && !found; g++) {
            const Onnx__GraphProto *graph =
                g < attribute->n_graphs ? attribute->graphs[g] : attribute->g;
            for (size_t i = 0; i < graph->n_node && !found; i++)
                found = find_doubt (self, graph->node[i], true, all, doubt);
        }
    }
    return found;
}

const Onnx__NodeProto *wm_onnx_doubt (const wm_onnx_t *self, const char **doubt)
{
    const Onnx__NodeProto *found = NULL;
    for (size_t i = 0; i < self->n_node && !found; i++) {
        found = find_doubt (self, self->node[i], false, false, doubt);
        if (!found && !strcmp (wm_onnx_op (self->node[i]), "TopK")) { /* ONNX: the first of them */
            found = self->node[i];
            *doubt = "the order of equal values";
        }
    }
    return found;
}

wm_fault_t wm_onnx_refuse_unjudged (const wm_onnx_t *self, wm_error_t *error)
{
    const char *doubt;
    const Onnx__NodeProto *node = NULL;
    for (size_t i = 0; i < self->n_node && !node; i++)
        node = find_doubt (self, self->node[i], false, true, &doubt);
    return node ? wm_fault (error, WM_EBATCH,
                            "%s: OpenVINO does not compute node '%.80s' (%.40s: %s) as ONNX "
                            "defines it, and ONNX Runtime cannot score the model",
                            self->path, wm_onnx_node_name (node), wm_onnx_op (node), doubt)
                : WM_OK;
}

/* ---- what both compute otherwise ------------------------------------------------------------- */

/* The size of dimension d of a value, as the file states it; 0: it does not.  */
static int64_t size_of (const wm_onnx_t *self, const char *name, size_t d)
{
    const Onnx__GraphProto *g = self->graph;
    for (size_t i = 0; i < g->n_input + g->n_value_info; i++) {
        const Onnx__ValueInfoProto *info =
            i < g->n_input ? g->input[i] : g->value_info[i - g->n_input];
        if (!info->name || strcmp (info->name, name) != 0 || !info->type ||
            info->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
            continue;
        const Onnx__TensorShapeProto *shape = info->type->tensor_type->shape;
        return shape && d < shape->n_dim &&
                       shape->dim[d]->value_case ==
                           ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE
                   ? shape->dim[d]->dim_value
                   : 0;
    }
    return 0;
}

/* Whether a Resize keeps the corners in a size that is no whole number: both engines round it
   before they place the pixels, ONNX after. Without the size, a scale of halves is trusted.  */
static bool keeps_rounded_corners (wm_onnx_t *self, const Onnx__NodeProto *node)
{
    const int64_t v = has_input (node, 2) ? wm_onnx_find (self, node->input[2]) : -1;
    wm_tensor_t scale;
    if (v < 0 || !self->value[v].initializer ||
        !is_text (node, "coordinate_transformation_mode", "align_corners") ||
        !wm_tensor_read (&self->arena, self->value[v].initializer, &scale) || !scale.f ||
        wm_onnx_attribute (node, "axes"))
        return false;
    for (size_t d = 0; d < scale.n; d++) {
        const int64_t size = size_of (self, node->input[0], d);
        const double scaled = (double) scale.f[d] * (size ? (double) size : 1024);
        if (fabs (scaled - nearbyint (scaled)) > 1e-6 * scaled)
            return true;
    }
    return false;
}

wm_fault_t wm_onnx_refuse_known (wm_onnx_t *self, wm_error_t *error)
{
    for (size_t i = 0; i < self->n_node && self->graph; i++) {
        if (!strcmp (wm_onnx_op (self->node[i]), "MaxUnpool") && has_input (self->node[i], 2))
            return wm_fault (error, WM_EBATCH,
                             "%s: node '%.80s' (MaxUnpool) has an output_shape, which no engine "
                             "here computes as ONNX defines it: export the model without it",
                             self->path, wm_onnx_node_name (self->node[i]));
        if (!strcmp (wm_onnx_op (self->node[i]), "Resize") &&
            keeps_rounded_corners (self, self->node[i]))
            return wm_fault (error, WM_EBATCH,
                             "%s: node '%.80s' (Resize) aligns the corners of a size that is no "
                             "whole number, which no engine here does as ONNX defines it: export "
                             "the model with sizes instead of scales",
                             self->path, wm_onnx_node_name (self->node[i]));
    }
    return WM_OK;
}
