/* fuzz_onnx.c - models as ONNX files: everything of an import that reads the file, but for the
   general engine itself.  */
#include "tests/unit/family_graph.h"

#include "tests/fuzz/fuzz_model.h"

static void seed (graph_t *g)
{
    size_t size;
    uint8_t *bytes = packed (g, &size);
    fuzz_seed (bytes, size);
    free (bytes);
    wm_arena_clear (&g->arena);
}

/* Calls in calls and in a graph inside a node, with an attribute by reference.  */
static void seed_functions (void)
{
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (-1, 3));
    output (&g, "y", INTS (-1, 3));
    Onnx__NodeProto *one = node (&g, "LeakyRelu", "a", "z");
    attribute (&g, one, "alpha")->ref_attr_name = copy (&g, "slope");
    function (&g, "F", "a", "z");
    Onnx__GraphProto *branch = take (&g, 1, sizeof *branch);
    onnx__graph_proto__init (branch);
    branch->node = take (&g, 1, sizeof *branch->node);
    branch->node[branch->n_node++] = call (&g, "F", "a", "r");
    branch->output = take (&g, 1, sizeof *branch->output);
    branch->output[branch->n_output++] =
        port (&g, "r", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INTS (-1, 3));
    g.n_node = 0;
    set_float (&g, call (&g, "F", "a", "b"), "slope", 0.5f);
    attribute (&g, node (&g, "If", "b", "z"), "then_branch")->g = branch;
    function (&g, "G", "a c", "z a");
    call (&g, "G", "x", "t u");
    node (&g, "Add", "t u", "y");
    seed (&g);
}

void fuzz_seeds (void)
{
    for (unsigned i = 0; i <= N_WAY; i++) {
        graph_t g = family (i < N_WAY ? 1u << i : 0);
        seed (&g);
    }
    seed_functions ();
}
