/* wm_onnx_walk.c - see wm_onnx_walk.h. What is still to visit is a list of lists of nodes.  */
#include "kernels/onnx/wm_onnx_walk.h"

#include "schema/base/wm_grow.h"

#include <stdlib.h>

/* Nodes still to visit.  */
typedef struct {
    Onnx__NodeProto *const *node;
    size_t n_node;
} part_t;

typedef struct {
    const wm_onnx_walk_t *how;
    part_t *part;
    size_t n_part, part_max;
} walker_t;

static wm_fault_t visit_tensor (const walker_t *self, Onnx__TensorProto *t,
                                const Onnx__NodeProto *node, wm_error_t *error)
{
    return t ? self->how->tensor (self->how->argument, t, node, error) : WM_OK;
}

static wm_fault_t visit_sparse (const walker_t *self, const Onnx__SparseTensorProto *t,
                                const Onnx__NodeProto *node, wm_error_t *error)
{
    wm_fault_t fault = t ? visit_tensor (self, t->values, node, error) : WM_OK;
    return fault || !t ? fault : visit_tensor (self, t->indices, node, error);
}

static wm_fault_t add_part (walker_t *self, Onnx__NodeProto *const *node, size_t n_node,
                            wm_error_t *error)
{
    if (!wm_grow (&self->part, &self->part_max, self->n_part + 1, sizeof *self->part))
        return wm_fault (error, WM_EHOST, "no memory to read a model");
    self->part[self->n_part++] = (part_t){ node, n_node };
    return WM_OK;
}

static wm_fault_t visit_graph (walker_t *self, Onnx__GraphProto *g, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (size_t i = 0; g && i < g->n_initializer && !fault; i++)
        fault = visit_tensor (self, g->initializer[i], NULL, error);
    for (size_t i = 0; g && i < g->n_sparse_initializer && !fault; i++)
        fault = visit_sparse (self, g->sparse_initializer[i], NULL, error);
    if (g && !fault && self->how->graph)
        fault = self->how->graph (self->how->argument, g, error);
    return fault || !g ? fault : add_part (self, g->node, g->n_node, error);
}

static wm_fault_t visit_attribute (walker_t *self, Onnx__AttributeProto *a,
                                   const Onnx__NodeProto *node, wm_error_t *error)
{
    wm_fault_t fault = visit_tensor (self, a->t, node, error);
    for (size_t i = 0; i < a->n_tensors && !fault; i++)
        fault = visit_tensor (self, a->tensors[i], node, error);
    if (!fault)
        fault = visit_sparse (self, a->sparse_tensor, node, error);
    for (size_t i = 0; i < a->n_sparse_tensors && !fault; i++)
        fault = visit_sparse (self, a->sparse_tensors[i], node, error);
    if (!fault && self->how->attribute)
        fault = self->how->attribute (self->how->argument, a, node, error);
    if (!fault)
        fault = visit_graph (self, a->g, error);
    for (size_t i = 0; i < a->n_graphs && !fault; i++)
        fault = visit_graph (self, a->graphs[i], error);
    return fault;
}

wm_fault_t wm_onnx_walk (const wm_onnx_walk_t *how, Onnx__ModelProto *model, wm_error_t *error)
{
    walker_t self = { .how = how };
    wm_fault_t fault = visit_graph (&self, model->graph, error);
    for (size_t i = 0; i < model->n_functions && !fault; i++)
        fault = add_part (&self, model->functions[i]->node, model->functions[i]->n_node, error);
    while (self.n_part && !fault) {
        part_t part = self.part[--self.n_part];
        for (size_t i = 0; i < part.n_node && !fault; i++)
            for (size_t k = 0; k < part.node[i]->n_attribute && !fault; k++)
                fault = visit_attribute (&self, part.node[i]->attribute[k], part.node[i], error);
    }
    free (self.part);
    return fault;
}
