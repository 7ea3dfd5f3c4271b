/* test_kernels_inline.c - calls of a model's functions become nodes: names, attributes, bounds.  */
#include "kernels/onnx/wm_onnx.h"
#include "tests/unit/onnx_graph.h"

#include <stdio.h>

static wm_error_t error;
static wm_onnx_t onnx;
static uint8_t *bytes;

static wm_fault_t read_graph (graph_t *g)
{
    size_t size;
    bytes = packed (g, &size);
    const wm_fault_t fault = wm_onnx_lend (&onnx, "m", bytes, size, &error);
    return fault ? fault : wm_onnx_read (&onnx, NULL, &error);
}

static void done (graph_t *g)
{
    wm_onnx_clear (&onnx);
    free (bytes);
    wm_arena_clear (&g->arena);
    *g = (graph_t){ .ways = 0 };
}

static void refused (graph_t *g, const char *what)
{
    if (read_graph (g) != WM_EBATCH || !strstr (error.text, what))
        fail_msg ("no '%s' in: %s", what, error.text);
    done (g);
}

static void ports (graph_t *g)
{
    input (g, "x", INTS (-1, 3));
    output (g, "y", INTS (-1, 3));
}

/* An attribute by reference.  */
static Onnx__AttributeProto *refer (graph_t *g, Onnx__NodeProto *n, const char *name,
                                    const char *to)
{
    Onnx__AttributeProto *a = attribute (g, n, name);
    a->ref_attr_name = copy (g, to);
    return a;
}

/* The nodes as "Op in in > out", one a line.  */
static const char *nodes (void)
{
    static char all[2000];
    size_t n = 0;
    for (size_t i = 0; i < onnx.graph->n_node; i++) {
        const Onnx__NodeProto *one = onnx.graph->node[i];
        n += (size_t) snprintf (all + n, sizeof all - n, "%s", one->op_type);
        for (size_t k = 0; k < one->n_input; k++)
            n += (size_t) snprintf (all + n, sizeof all - n, " %s", one->input[k]);
        for (size_t k = 0; k < one->n_output; k++)
            n += (size_t) snprintf (all + n, sizeof all - n, " > %s", one->output[k]);
        n += (size_t) snprintf (all + n, sizeof all - n, "\n");
    }
    return all;
}

static void becomes (graph_t *g, const char *what)
{
    if (read_graph (g))
        fail_msg ("%s", error.text);
    assert_string_equal (nodes (), what);
    assert_int_equal (onnx.model->n_functions, 0);
}

static void act (graph_t *g)
{
    node (g, "Sigmoid", "a", "s");
    node (g, "Mul", "a s", "z");
    function (g, "Act", "a", "z");
}

static void names_are_apart (void **state)
{
    graph_t g = { .ways = 0 };
    ports (&g);
    act (&g);
    node (&g, "Neg", "x", "s"); /* the body's s is another */
    call (&g, "Act", "s", "z");
    call (&g, "Act", "z", "y");
    becomes (&g, "Neg x > s\nSigmoid s > wm|f0|s\nMul s wm|f0|s > z\n"
                 "Sigmoid z > wm|f1|s\nMul z wm|f1|s > y\n");
    assert_string_equal (onnx.graph->node[1]->name, "z/s");
    done (&g);
    ports (&g);
    act (&g);
    node (&g, "Neg", "x", "wm|f0|s"); /* the prefix is taken */
    call (&g, "Act", "wm|f0|s", "y");
    becomes (&g, "Neg x > wm|f0|s\nSigmoid wm|f0|s > wm|f|0|s\nMul wm|f0|s wm|f|0|s > y\n");
    done (&g);
}

static void calls_lie_in_calls (void **state)
{
    graph_t g = { .ways = 0 };
    ports (&g);
    act (&g);
    call (&g, "Act", "a", "s");
    call (&g, "Act", "s", "z");
    function (&g, "Twice", "a", "z");
    call (&g, "Twice", "x", "y");
    becomes (&g, "Sigmoid x > wm|f1|s\nMul x wm|f1|s > wm|f0|s\n"
                 "Sigmoid wm|f0|s > wm|f2|s\nMul wm|f0|s wm|f2|s > y\n");
    done (&g);
}

/* Left out inputs are left out in the body, outputs that are left out are made in vain, an input
   that is an output is copied.  */
static void ends_fit (void **state)
{
    graph_t g = { .ways = 0 };
    ports (&g);
    node (&g, "Clip", "a low high", "z");
    function (&g, "Limit", "a low high", "z a z");
    call (&g, "Limit", "x - x", "- p q");
    node (&g, "Add", "p q", "y");
    becomes (&g, "Clip x  x > q\nIdentity x > p\nAdd p q > y\n");
    done (&g);
    ports (&g);
    node (&g, "Clip", "a low high", "z");
    function (&g, "Limit", "a low high", "z low");
    call (&g, "Limit", "x", "p y");
    refused (&g, "output 'low', an input that is left out");
    ports (&g);
    act (&g);
    call (&g, "Act", "x x", "y");
    refused (&g, "fewer inputs");
    ports (&g);
    act (&g);
    call (&g, "Act", "x", "y t");
    refused (&g, "too few outputs");
}

/* Attributes are the call's, the function's defaults, or the operator's.  */
static void attributes_are_the_calls (void **state)
{
    graph_t g = { .ways = 0 };
    ports (&g);
    Onnx__NodeProto *one = node (&g, "Softmax", "a", "z");
    refer (&g, one, "axis", "where");
    refer (&g, one, "other", "nothing");
    Onnx__FunctionProto *f = function (&g, "S", "a", "z");
    Onnx__NodeProto *holder = node (&g, "Neg", "x", "unused");
    set_int (&g, holder, "where", 7);
    f->n_attribute_proto = 1;
    f->attribute_proto = holder->attribute;
    g.n_node = 0;
    call (&g, "S", "x", "t");
    set_int (&g, call (&g, "S", "t", "y"), "where", -1);
    if (read_graph (&g))
        fail_msg ("%s", error.text);
    assert_int_equal (wm_onnx_int (onnx.graph->node[0], "axis", 0), 7);
    assert_int_equal (wm_onnx_int (onnx.graph->node[1], "axis", 0), -1);
    assert_int_equal (onnx.graph->node[0]->n_attribute, 1);
    done (&g);
    ports (&g);
    refer (&g, node (&g, "Softmax", "x", "y"), "axis", "where");
    refused (&g, "lies in none");
    ports (&g);
    one = node (&g, "Softmax", "a", "z");
    refer (&g, one, "axis", "where")->has_type = 1;
    one->attribute[0]->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    function (&g, "S", "a", "z");
    set_int (&g, call (&g, "S", "x", "y"), "where", 1);
    refused (&g, "another type of attribute 'where'");
}

/* Graphs in bodies read the body's values under their new names, and so do graphs in those.  */
static void graphs_are_renamed (void **state)
{
    graph_t g = { .ways = 0 };
    ports (&g);
    Onnx__NodeProto *inner = call (&g, "Act", "a", "r");
    Onnx__GraphProto *branch = take (&g, 1, sizeof *branch);
    onnx__graph_proto__init (branch);
    branch->n_node = branch->n_output = 1;
    branch->node = take (&g, 1, sizeof *branch->node);
    branch->node[0] = inner;
    branch->output = take (&g, 1, sizeof *branch->output);
    branch->output[0] = port (&g, "r", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INTS (-1, 3));
    g.n_node = 0;
    act (&g);
    Onnx__NodeProto *choose = node (&g, "If", "a", "z");
    attribute (&g, choose, "then_branch")->g = branch;
    function (&g, "Choose", "a", "z");
    call (&g, "Choose", "x", "y");
    becomes (&g, "If x > y\n");
    const Onnx__GraphProto *made = onnx.graph->node[0]->attribute[0]->g;
    assert_string_equal (made->output[0]->name, "wm|f0|r");
    assert_int_equal (made->n_node, 2);
    assert_string_equal (made->node[0]->input[0], "x");
    assert_string_equal (made->node[1]->output[0], "wm|f0|r");
    done (&g);
}

static void bounds_hold (void **state)
{
    char name[2][8];
    graph_t g = { .ways = 0 };
    ports (&g);
    act (&g);
    g.function[0]->name = copy (&g, "Relu"); /* of ONNX's own domain */
    g.function[0]->domain = copy (&g, "ai.onnx");
    node (&g, "Relu", "x", "y");
    refused (&g, "the name of ONNX's own operator");
    ports (&g);
    act (&g);
    act (&g);
    call (&g, "Act", "x", "y");
    refused (&g, "is defined twice");
    ports (&g);
    call (&g, "B", "a", "z");
    function (&g, "A", "a", "z");
    call (&g, "A", "a", "z");
    function (&g, "B", "a", "z");
    call (&g, "A", "x", "y");
    refused (&g, "calls itself");
    ports (&g);
    for (int i = 0; i < 8; i++) { /* 8 ^ 8 calls, of nothing at last */
        snprintf (name[0], sizeof name[0], "F%d", i);
        snprintf (name[1], sizeof name[1], "F%d", i + 1);
        for (int k = 0; k < 8 && i < 7; k++)
            call (&g, name[1], "a", "-");
        function (&g, name[0], "a", "a");
    }
    call (&g, "F0", "x", "y");
    refused (&g, "more than 200000 nodes");
    ports (&g);
    node (&g, "Add", "a x", "z");
    function (&g, "A", "a", "z");
    call (&g, "A", "x", "y");
    refused (&g, "reads 'x', which nothing");
    ports (&g);
    node (&g, "Neg", "a", "z");
    node (&g, "Abs", "a", "z");
    function (&g, "A", "a", "z");
    call (&g, "A", "x", "y");
    refused (&g, "defines 'z' twice");
    ports (&g);
    act (&g);
    Onnx__OperatorSetIdProto set = ONNX__OPERATOR_SET_ID_PROTO__INIT, *sets = &set;
    set.has_version = 1, set.version = 12;
    g.function[0]->opset_import = &sets;
    g.function[0]->n_opset_import = 1;
    call (&g, "Act", "x", "y");
    refused (&g, "operator set 12, the model of 13");
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (names_are_apart),    cmocka_unit_test (calls_lie_in_calls),
        cmocka_unit_test (ends_fit),           cmocka_unit_test (attributes_are_the_calls),
        cmocka_unit_test (graphs_are_renamed), cmocka_unit_test (bounds_hold),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
