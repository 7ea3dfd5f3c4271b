/* wm_maker.c - see wm_maker.h.  */
#include "kernels/onnx/wm_maker.h"
#include "schema/base/wm_order.h"

#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A value that was made here. The key comes first: it is what a tree of search.h compares.  */
typedef struct {
    char *key, *name;
} made_t;

WM_ORDER_BY_TEXT (by_key, made_t, key)

Onnx__NodeProto *wm_maker_node (wm_arena_t *arena, const char *op, char *called, char *a, char *b,
                                char *c)
{
    Onnx__NodeProto *node = wm_arena_take (arena, 1, sizeof *node);
    char **names = wm_arena_take (arena, 4, sizeof *names);
    if (!node || !names) {
        arena->failed = true;
        return NULL;
    }
    onnx__node_proto__init (node);
    memcpy (names, (char *[]){ called, a, b, c }, 4 * sizeof *names);
    node->op_type = (char *) (uintptr_t) op;
    node->output = names;
    node->n_output = 1;
    node->input = names + 1;
    node->n_input = c ? 3 : b ? 2 : a ? 1 : 0;
    return node;
}

Onnx__AttributeProto *wm_maker_attribute (wm_arena_t *arena, Onnx__NodeProto *node, const char *key,
                                          Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *a = wm_arena_take (arena, 1, sizeof *a),
                         **list = wm_arena_take (arena, 1, sizeof *list);
    if (!node || !a || !list) {
        arena->failed = true;
        return NULL;
    }
    onnx__attribute_proto__init (a);
    a->name = (char *) (uintptr_t) key;
    a->has_type = 1;
    a->type = type;
    *list = a;
    node->attribute = list;
    node->n_attribute = 1;
    return a;
}

void wm_maker_int (wm_arena_t *arena, Onnx__NodeProto *node, const char *key, int64_t value)
{
    Onnx__AttributeProto *a =
        wm_maker_attribute (arena, node, key, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    if (a) {
        a->has_i = 1;
        a->i = value;
    }
}

void *wm_maker_take (wm_maker_t *self, uint64_t n, size_t size)
{
    void *memory = wm_arena_take (self->arena, n ? n : 1, size);
    self->arena->failed |= !memory;
    return memory;
}

char *wm_maker_name (wm_maker_t *self, const char *format, ...)
{
    va_list arguments, again;
    va_start (arguments, format);
    va_copy (again, arguments);
    const int n = vsnprintf (NULL, 0, format, again);
    char *made = wm_maker_take (self, (uint64_t) n + 1, 1);
    if (made)
        vsnprintf (made, (size_t) n + 1, format, arguments);
    va_end (again);
    va_end (arguments);
    return made ? made : (char *) "";
}

/* Names are short, because keys hold names.  */
char *wm_maker_find (wm_maker_t *self, char *key, bool *is_new)
{
    made_t *one = wm_maker_take (self, 1, sizeof *one);
    *is_new = false;
    if (!one)
        return key;
    one->key = key;
    made_t **found = tsearch (one, &self->made, by_key);
    self->arena->failed |= !found;
    if (!found || *found != one)
        return found ? (*found)->name : key;
    *is_new = true;
    return one->name = wm_maker_name (self, "wm|value%zu", self->n_made++);
}

void wm_maker_append (wm_maker_t *self, Onnx__NodeProto *node)
{
    if (self->n_node == self->node_max) {
        const size_t more = 2 * self->node_max + 64;
        Onnx__NodeProto **list = wm_maker_take (self, more, sizeof *list);
        if (!list)
            return;
        if (self->n_node)
            memcpy (list, self->node, self->n_node * sizeof *list);
        self->node = list;
        self->node_max = more;
    }
    self->node[self->n_node++] = node;
}

Onnx__NodeProto *wm_maker_emit (wm_maker_t *self, const char *op, char *called, char *a, char *b,
                                char *c)
{
    Onnx__NodeProto *node = wm_maker_node (self->arena, op, called, a, b, c);
    if (node)
        wm_maker_append (self, node);
    return node;
}

/* The value of an operator on one or two others, by a name of their own.  */
char *wm_maker_value (wm_maker_t *self, const char *op, char *a, char *b)
{
    bool is_new;
    char *called =
        wm_maker_find (self, wm_maker_name (self, "%s|%s|%s", op, a, b ? b : ""), &is_new);
    if (is_new)
        wm_maker_emit (self, op, called, a, b, NULL);
    return called;
}

/* Constants: a list of n numbers; a number by itself, of n 0.  */
char *wm_maker_constant (wm_maker_t *self, size_t n, const int64_t *value)
{
    bool is_new;
    char *called = wm_maker_find (
        self,
        wm_maker_name (self, "%zu|%lld|%lld", n, (long long) value[0], (long long) value[n > 1]),
        &is_new);
    if (!is_new)
        return called;
    Onnx__AttributeProto *a =
        wm_maker_attribute (self->arena, wm_maker_emit (self, "Constant", called, NULL, NULL, NULL),
                            "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
    Onnx__TensorProto *t = wm_maker_take (self, 1, sizeof *t);
    int64_t *dims = wm_maker_take (self, 1, sizeof *dims),
            *data = wm_maker_take (self, n ? n : 1, sizeof *data);
    if (!a || !t || !dims || !data)
        return called;
    memcpy (data, value, (n ? n : 1) * sizeof *data);
    onnx__tensor_proto__init (t);
    *dims = (int64_t) n;
    t->dims = dims;
    t->n_dims = n > 0;
    t->has_data_type = 1;
    t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
    t->int64_data = data;
    t->n_int64_data = n ? n : 1;
    a->t = t;
    return called;
}

char *wm_maker_number (wm_maker_t *self, int64_t value)
{
    return wm_maker_constant (self, 0, &value);
}

char *wm_maker_list (wm_maker_t *self, int64_t value)
{
    return wm_maker_constant (self, 1, &value);
}

char *wm_maker_cast (wm_maker_t *self, char *value, int type)
{
    bool is_new;
    char *called = wm_maker_find (self, wm_maker_name (self, "Cast|%s|%d", value, type), &is_new);
    if (is_new)
        wm_maker_int (self->arena, wm_maker_emit (self, "Cast", called, value, NULL, NULL), "to",
                      type);
    return called;
}

/* All elements as one list; of a number by itself, a list of one.  */
char *wm_maker_flat (wm_maker_t *self, char *value)
{
    return wm_maker_value (self, "Reshape", value, wm_maker_list (self, -1));
}

/* A piece of a value from its beginning: `to` elements of each dimension.  */
char *wm_maker_cut (wm_maker_t *self, char *value, char *from, char *to)
{
    bool is_new;
    char *called =
        wm_maker_find (self, wm_maker_name (self, "Slice|%s|%s|%s", value, from, to), &is_new);
    if (is_new)
        wm_maker_emit (self, "Slice", called, value, from, to);
    return called;
}

/* What is in the tree is the arena's.  */
static void leave (void *one)
{
    (void) one;
}

void wm_maker_clear (wm_maker_t *self)
{
    tdestroy (self->made, leave);
    *self = (wm_maker_t){ 0 };
}
