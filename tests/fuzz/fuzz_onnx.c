/* fuzz_onnx.c - models as ONNX files: everything of an import that reads the file, but for the
   general engine itself.  */
#include "tests/unit/family_graph.h"

#include "tests/fuzz/fuzz_model.h"

#include <string.h>

void fuzz_seeds (void)
{
    for (unsigned i = 0; i <= N_WAY; i++) {
        graph_t g = family (i < N_WAY ? 1u << i : 0);
        size_t size;
        uint8_t *bytes = packed (&g, &size);
        fuzz_seed (bytes, size);
        free (bytes);
        wm_arena_clear (&g.arena);
    }
}
