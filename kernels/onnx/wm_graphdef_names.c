/* wm_graphdef_names.c - nodes of a frozen graph by name, their attributes, and inputs.  */
#include "kernels/onnx/wm_graphdef_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *wm_graphdef_take (wm_rewriter_t *self, uint64_t n, size_t size)
{
    void *memory = wm_arena_take (&self->onnx->arena, n ? n : 1, size);
    self->onnx->arena.failed |= !memory;
    return memory;
}

/* ---- names ----------------------------------------------------------------------------------- */

int wm_graphdef_by_name (const void *a, const void *b)
{
    return strcmp (wm_onnx_text (((const wm_named_t *) a)->node->name),
                   wm_onnx_text (((const wm_named_t *) b)->node->name));
}

/* The node of an input "name", "name:1" or "^name", and which output of it is meant.  */
wm_named_t *wm_graphdef_find (const wm_rewriter_t *self, const char *input, uint32_t *output)
{
    char name[1024];
    input += *input == '^';
    const char *colon = strrchr (input, ':');
    size_t length = colon ? (size_t) (colon - input) : strlen (input);
    *output = 0;
    if (length >= sizeof name)
        return NULL;
    if (colon) {
        char *end;
        unsigned long k = strtoul (colon + 1, &end, 10);
        if (*end || end == colon + 1 || k > 1024)
            return NULL;
        *output = (uint32_t) k;
    }
    snprintf (name, sizeof name, "%.*s", (int) length, input);
    Graphdef__Node node = { .name = name };
    wm_named_t key = { .node = &node };
    return bsearch (&key, self->named, self->n_named, sizeof key, wm_graphdef_by_name);
}

const Graphdef__Value *wm_graphdef_attr (const Graphdef__Node *node, const char *key)
{
    for (size_t i = 0; i < node->n_attr; i++)
        if (!strcmp (wm_onnx_text (node->attr[i]->key), key))
            return node->attr[i]->value;
    return NULL;
}

char *wm_graphdef_name (wm_rewriter_t *self, const char *part)
{
    const char *own = wm_onnx_text (self->from->name);
    size_t bytes = strlen (own) + strlen (part) + 2;
    char *made = wm_graphdef_take (self, bytes, 1);
    if (made)
        snprintf (made, bytes, *part ? "%s|%s" : "%s", own, part);
    return made ? made : (char *) "";
}

int wm_graphdef_type (int32_t type)
{
    static const uint8_t onnx[] = {
        [1] = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,   [2] = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE,
        [3] = ONNX__TENSOR_PROTO__DATA_TYPE__INT32,   [4] = ONNX__TENSOR_PROTO__DATA_TYPE__UINT8,
        [9] = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,   [10] = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL,
        [19] = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16
    };
    return type > 0 && (size_t) type < sizeof onnx ? onnx[type] : 0;
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

Onnx__ValueInfoProto *wm_graphdef_port (wm_rewriter_t *self, char *called,
                                        const Graphdef__Shape *shape, int type)
{
    Onnx__ValueInfoProto *info = wm_graphdef_take (self, 1, sizeof *info);
    Onnx__TypeProto *kind = wm_graphdef_take (self, 1, sizeof *kind);
    Onnx__TypeProto__Tensor *tensor = wm_graphdef_take (self, 1, sizeof *tensor);
    Onnx__TensorShapeProto *to = wm_graphdef_take (self, 1, sizeof *to);
    size_t n = shape && !shape->unknown_rank ? shape->n_dim : 0;
    Onnx__TensorShapeProto__Dimension *dim = wm_graphdef_take (self, n, sizeof *dim);
    if (!info || !kind || !tensor || !to || !dim ||
        !(to->dim = wm_graphdef_take (self, n, sizeof *to->dim)))
        return NULL;
    onnx__value_info_proto__init (info);
    onnx__type_proto__init (kind);
    onnx__type_proto__tensor__init (tensor);
    Onnx__TensorShapeProto__Dimension **list = to->dim;
    onnx__tensor_shape_proto__init (to);
    to->dim = list;
    to->n_dim = n;
    for (size_t d = 0; d < n; d++) {
        onnx__tensor_shape_proto__dimension__init (list[d] = &dim[d]);
        dim[d].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        dim[d].dim_value = shape->dim[d]->size;
    }
    info->name = called;
    info->type = kind;
    kind->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    kind->tensor_type = tensor;
    tensor->has_elem_type = 1;
    tensor->elem_type = type;
    tensor->shape = to;
    return info;
}

void wm_graphdef_input (wm_rewriter_t *self)
{
    const Graphdef__Value *type = wm_graphdef_attr (self->from, "dtype"),
                          *shape = wm_graphdef_attr (self->from, "shape");
    Onnx__GraphProto *g = self->graph;
    uint32_t ignored;
    if (!wm_graphdef_find (self, wm_onnx_text (self->from->name), &ignored)->read)
        return; /* a switch that no node reads any more */
    g->input[g->n_input] =
        wm_graphdef_port (self, wm_graphdef_name (self, ""), shape ? shape->shape : NULL,
                          wm_graphdef_type (type ? type->type : 0));
    g->n_input += g->input[g->n_input] != NULL;
}
