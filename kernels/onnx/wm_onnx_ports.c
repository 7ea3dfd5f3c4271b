/* wm_onnx_ports.c - reads the inputs and outputs of a model's graph.  */
#include "kernels/onnx/wm_onnx.h"
#include "schema/wm_limits.h"

#include <string.h>

/* The port being read, for messages.  */
typedef struct {
    const wm_onnx_t *onnx;
    wm_onnx_ports_t *how;
    const char *what;
} reader_t;

static int64_t dim_value (const Onnx__TensorShapeProto__Dimension *dim)
{
    return dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
                   dim->dim_value > 0
               ? dim->dim_value
               : -1;
}

static wm_fault_t read_name (const reader_t *self, const Onnx__ValueInfoProto *info,
                             wm_port_t *port, wm_error_t *error)
{
    const bool is_tensor =
        info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    const int type = is_tensor ? info->type->tensor_type->elem_type : 0;
    *port = (wm_port_t){ .n_dim = 0 };
    if (type > 0 && type <= UINT16_MAX && type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
        port->type = (uint16_t) type;
    if (!*wm_onnx_text (info->name))
        return wm_fault (error, WM_EBATCH, "%s: an %s of the graph has no name: a damaged model",
                         self->onnx->path, self->what);
    if (strlen (wm_onnx_text (info->name)) >= sizeof port->name)
        return wm_fault (error, WM_EBATCH, "%s: %s '%.140s': name longer than %zu bytes: rename it",
                         self->onnx->path, self->what, info->name, sizeof port->name - 1);
    strcpy (port->name, wm_onnx_text (info->name));
    return WM_OK;
}

static wm_fault_t read_sizes (const reader_t *self, const Onnx__TensorShapeProto *shape,
                              size_t first, wm_port_t *port, wm_error_t *error)
{
    uint64_t values = 1;
    port->n_dim = (uint8_t) (shape->n_dim - first);
    for (uint32_t d = 0; d < port->n_dim; d++) {
        int64_t size = dim_value (shape->dim[d + first]);
        if (size < 0) {
            self->how->free = true;
            size = 0;
        }
        if (size > UINT32_MAX || __builtin_mul_overflow (values, (uint64_t) size, &values) ||
            values > UINT32_MAX)
            return wm_fault (
                error, WM_EBATCH,
                "%s: %s '%s' is too large: export the model with other sizes, or with free ones",
                self->onnx->path, self->what, port->name);
        port->dim[d] = (uint32_t) size;
    }
    port->n_value = (uint32_t) values;
    return WM_OK;
}

static wm_fault_t read_shape (const reader_t *self, const Onnx__ValueInfoProto *info,
                              wm_port_t *port, wm_error_t *error)
{
    const Onnx__TypeProto__Tensor *tensor =
        info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
            ? info->type->tensor_type
            : NULL;
    const char *path = self->onnx->path;
    if (!tensor || tensor->elem_type <= 0 ||
        tensor->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__STRING)
        return wm_fault (
            error, WM_EBATCH,
            "%s: %s '%s' is not a tensor of numbers (text, a sequence?): export the model "
            "without the nodes that read it",
            path, self->what, port->name);
    self->how->other_type |= port->type != 0;
    const Onnx__TensorShapeProto *shape = tensor->shape;
    size_t first = self->how->whole ? 0 : 1;
    if (!shape || (self->onnx->tensorflow && !shape->n_dim)) /* a placeholder of any shape has 0 */
        return wm_fault (error, WM_EBATCH,
                         "%s: %s '%s' has no shape: export the model with its shapes", path,
                         self->what, port->name);
    if (shape->n_dim < first)
        return wm_fault (error, WM_EBATCH,
                         "%s: %s '%s' is one number, without a batch dimension: import the model "
                         "with --whole, or make it a constant",
                         path, self->what, port->name);
    if (shape->n_dim - first > WM_MODEL_DIMS_MAX)
        return wm_fault (error, WM_EBATCH, "%s: %s '%s' has %zu dimensions%s, and %d are possible",
                         path, self->what, port->name, shape->n_dim - first,
                         first ? " behind its batch dimension" : "", WM_MODEL_DIMS_MAX);
    int64_t batch = first ? dim_value (shape->dim[0]) : -1;
    if (batch > 1)
        return wm_fault (error, WM_EBATCH,
                         "%s: %s '%s' has a batch dimension fixed at %lld; export the model with "
                         "a dynamic one, or import it with --whole if it is not one",
                         path, self->what, port->name, (long long) batch);
    self->how->fixed_batch |= batch == 1;
    return read_sizes (self, shape, first, port, error);
}

/* The name of an input's first dimension where no size is given; NULL: it has none.  */
static const char *first_name (const Onnx__ValueInfoProto *info)
{
    const Onnx__TypeProto__Tensor *tensor =
        info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
            ? info->type->tensor_type
            : NULL;
    const Onnx__TensorShapeProto__Dimension *dim =
        tensor && tensor->shape && tensor->shape->n_dim ? tensor->shape->dim[0] : NULL;
    return dim && dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
                   *wm_onnx_text (dim->dim_param)
               ? dim->dim_param
               : NULL;
}

/* Whether the inputs are lists whose only dimensions have different names: a batch dimension is the
   same of all inputs, so these are lengths.  */
static bool are_lists (const wm_onnx_t *self)
{
    const Onnx__GraphProto *g = self->graph;
    const char *name = NULL;
    bool differ = false;
    for (size_t i = 0; i < g->n_input; i++) {
        const int64_t v = wm_onnx_find (self, wm_onnx_text (g->input[i]->name));
        if (v >= 0 && self->value[v].initializer)
            continue;
        const char *its = first_name (g->input[i]);
        if (!its || g->input[i]->type->tensor_type->shape->n_dim != 1)
            return false;
        differ |= name && strcmp (name, its) != 0;
        name = its;
    }
    return differ;
}

wm_fault_t wm_onnx_inputs (const wm_onnx_t *self, wm_onnx_ports_t *how,
                           wm_port_t port[WM_MODEL_PORTS_MAX], uint32_t *n, wm_error_t *error)
{
    const reader_t reader = { self, how, "input" };
    const Onnx__GraphProto *g = self->graph;
    uint64_t values = 0;
    how->whole = how->whole || are_lists (self);
    *n = 0;
    for (size_t i = 0; i < g->n_input; i++) {
        int64_t v = wm_onnx_find (self, wm_onnx_text (g->input[i]->name));
        if (v >= 0 && self->value[v].initializer)
            continue;
        if (*n == WM_MODEL_PORTS_MAX)
            return wm_fault (error, WM_EBATCH,
                             "%s: more than %d inputs: export the model with some of them joined",
                             self->path, WM_MODEL_PORTS_MAX);
        wm_fault_t fault = read_name (&reader, g->input[i], &port[*n], error);
        for (uint32_t k = 0; k < *n && !fault; k++)
            if (!strcmp (port[k].name, port[*n].name))
                fault = wm_fault (error, WM_EBATCH, "%s: input '%s' comes twice: a damaged model",
                                  self->path, port[k].name);
        if (!fault)
            fault = read_shape (&reader, g->input[i], &port[*n], error);
        if (fault)
            return fault;
        values += port[(*n)++].n_value;
    }
    if (*n == 0)
        return wm_fault (error, WM_EBATCH,
                         "%s: the graph has no input: every score would be the same; "
                         "export the model with what it is computed from as an input",
                         self->path);
    if (values > WM_PATCH_BYTES_MAX / 4)
        return wm_fault (error, WM_EBATCH,
                         "%s: a patch of %llu values has more than %u MiB as float32: export the "
                         "model with smaller inputs",
                         self->path, (unsigned long long) values, WM_PATCH_BYTES_MAX >> 20);
    return WM_OK;
}

wm_fault_t wm_onnx_outputs (const wm_onnx_t *self, wm_port_t port[WM_MODEL_PORTS_MAX], uint32_t *n,
                            wm_error_t *error)
{
    const reader_t reader = { self, NULL, "output" };
    if (self->n_output < 1 || self->n_output > WM_MODEL_PORTS_MAX)
        return wm_fault (error, WM_EBATCH,
                         "%s: %zu outputs; 1 to %d are possible: choose them by --outputs",
                         self->path, self->n_output, WM_MODEL_PORTS_MAX);
    for (size_t i = 0; i < self->n_output;
         i++) { /* OpenVINO 2026.4 crashes on one that is optional */
        const Onnx__TypeProto *type = self->output[i]->type;
        if (type && type->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET &&
            type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
            return wm_fault (
                error, WM_EBATCH,
                "%s: output '%.128s' is not a tensor (a sequence, a map, or optional): "
                "leave it out with --outputs",
                self->path, self->output[i]->name);
    }
    wm_fault_t fault = WM_OK;
    for (*n = 0; *n < self->n_output && !fault; ++*n)
        fault = read_name (&reader, self->output[*n], &port[*n], error);
    for (uint32_t i = 0; i < *n && !fault; i++)
        for (uint32_t k = 0; k < i && !fault; k++)
            if (!strcmp (port[k].name, port[i].name))
                fault = wm_fault (error, WM_EBATCH,
                                  "%s: output '%s' comes twice: choose outputs by --outputs",
                                  self->path, port[i].name);
    return fault;
}

wm_fault_t wm_onnx_output_shapes (const wm_onnx_t *self, wm_onnx_ports_t *how, wm_port_t *port,
                                  wm_error_t *error)
{
    const reader_t reader = { self, how, "output" };
    wm_fault_t fault = WM_OK;
    for (size_t i = 0; i < self->n_output && !fault; i++) {
        fault = read_shape (&reader, self->output[i], &port[i], error);
        for (uint32_t d = 0; d < port[i].n_dim && !fault; d++)
            if (!port[i].dim[d])
                fault = wm_fault (error, WM_EBATCH,
                                  "%s: output '%s': size %u is not stated, and without OpenVINO "
                                  "nobody knows it: install OpenVINO, or export the model with it",
                                  self->path, port[i].name, d);
    }
    return fault;
}
