/* fuzz_graphdef.c - models as frozen TensorFlow graphs, as fuzz_onnx.c.  */
#include "tests/unit/frozen_graph.h"

#include "tests/fuzz/fuzz_model.h"

#include <stdlib.h>

void fuzz_seeds (void)
{
    for (unsigned i = 0; i <= N_WAY; i++) {
        tf_t g = family (i < N_WAY ? 1u << i : 0);
        Graphdef__Graph graph = GRAPHDEF__GRAPH__INIT;
        graph.n_node = g.n_node;
        graph.node = g.node;
        const size_t size = graphdef__graph__get_packed_size (&graph);
        uint8_t *bytes = malloc (size);
        FUZZ_CHECK (bytes);
        graphdef__graph__pack (&graph, bytes);
        fuzz_seed (bytes, size);
        free (bytes);
        wm_arena_clear (&g.arena);
    }
}
