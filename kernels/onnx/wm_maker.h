/* wm_maker.h - makes ONNX nodes, and each value once. Private to kernels/.

   A value is found again by what makes it and of what, so that two who need the same share it.
   Without memory the functions do nothing; arena->failed is checked once, at the end. Names and
   nodes are the arena's.  Thread: one at a time.  */
#ifndef WM_MAKER_H
#define WM_MAKER_H

#include "kernels/onnx/wm_arena.h"
#include "onnx/onnx.pb-c.h"

typedef struct {
    wm_arena_t *arena; /* lent; all else begins as zeros */
    void *made;        /* a tree of the values that were made */
    size_t n_made;
    Onnx__NodeProto **node; /* (n_node) in the order of their making */
    size_t n_node, node_max;
} wm_maker_t;

/* Return a node that makes `called` of up to three values (NULL ends them), and a node's only
   attribute, which has no value yet. NULL: no memory, or no node.  */
Onnx__NodeProto *wm_maker_node (wm_arena_t *arena, const char *op, char *called, char *a, char *b,
                                char *c);
Onnx__AttributeProto *wm_maker_attribute (wm_arena_t *arena, Onnx__NodeProto *node, const char *key,
                                          Onnx__AttributeProto__AttributeType type);

/* Gives a node its only attribute.  */
void wm_maker_int (wm_arena_t *arena, Onnx__NodeProto *node, const char *key, int64_t value);

/* Frees what is not the arena's.  */
void wm_maker_clear (wm_maker_t *self);

void *wm_maker_take (wm_maker_t *self, uint64_t n, size_t size);
char *wm_maker_name (wm_maker_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

/* Appends a node, or one as wm_maker_node returns it.  */
void wm_maker_append (wm_maker_t *self, Onnx__NodeProto *node);
Onnx__NodeProto *wm_maker_emit (wm_maker_t *self, const char *op, char *called, char *a, char *b,
                                char *c);

/* Returns the value that a key describes; *is_new: nothing makes it yet, and the caller does.  */
char *wm_maker_find (wm_maker_t *self, char *key, bool *is_new);

/* Returns the value of an operator without attributes on a and b (NULL: on a alone).  */
char *wm_maker_value (wm_maker_t *self, const char *op, char *a, char *b);

/* Return constants of int64: a list of n numbers (1 or 2), a list of one, a number by itself.  */
char *wm_maker_constant (wm_maker_t *self, size_t n, const int64_t *value);
char *wm_maker_list (wm_maker_t *self, int64_t value);
char *wm_maker_number (wm_maker_t *self, int64_t value);

/* Return a value as another type (TensorProto.DataType); all its elements as one list; the elements
   from `from` on and before `to`, a list of one number for each dimension.  */
char *wm_maker_cast (wm_maker_t *self, char *value, int type);
char *wm_maker_flat (wm_maker_t *self, char *value);
char *wm_maker_cut (wm_maker_t *self, char *value, char *from, char *to);

#endif
