/* wm_judge_node.c - which node is it: tensors inside the model, computed by both engines, or of two
   patches side by side and of each alone.  */
#include "kernels/judge/wm_judge_private.h"
#include "kernels/import/wm_flow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- which node ------------------------------------------------------------------------------ */

typedef struct {
    const Onnx__NodeProto **node; /* (n) that makes the tensor, in topological order */
    const char **name;            /* (n) of the tensors */
    size_t n;
} tensors_t;

/* The tensors inside the model whose elements a patch decides.  */
static wm_fault_t find_tensors (wm_judge_t *self, tensors_t *tensors, wm_error_t *error)
{
    wm_onnx_t *onnx = self->onnx;
    wm_flow_t flow;
    size_t n_max = 0;
    if (wm_flow_find (&flow, onnx, self->parts->input, self->parts->n_input, error))
        return error->fault;
    for (size_t i = 0; i < onnx->n_node; i++)
        n_max += onnx->node[i]->n_output;
    tensors->node = wm_arena_take (&onnx->arena, n_max + 1, sizeof *tensors->node);
    tensors->name = wm_arena_take (&onnx->arena, n_max + 1, sizeof *tensors->name);
    if (!tensors->node || !tensors->name)
        return wm_fault (error, WM_EHOST, "no memory to judge a model");
    for (size_t i = 0; i < onnx->n_node; i++)
        for (size_t k = 0; k < onnx->node[i]->n_output; k++) {
            if (!(wm_flow_bits (&flow, onnx->node[i]->output[k]) & WM_FLOW_FED))
                continue;
            tensors->node[tensors->n] = onnx->node[i];
            tensors->name[tensors->n++] = onnx->node[i]->output[k];
        }
    return WM_OK;
}

/* The names that wm_onnx_pack gives to tensors inside the model.  */
static char (*inner_names (size_t n))[16]
{
    char (*name)[16] = calloc (n, sizeof *name);
    for (size_t i = 0; name && i < n; i++)
        snprintf (name[i], sizeof *name, WM_ONNX_INNER, i);
    return name;
}

/* Opens a probe of tensors [from, to). NULL: the engine does not take that.  */
static void *open_probe (wm_judge_t *self, int engine, const tensors_t *tensors, size_t from,
                         size_t to, char (*names)[16])
{
    const char *name[WM_SHAPES_MAX];
    const void *bytes;
    size_t size;
    wm_error_t refused;
    for (size_t i = from; i < to; i++)
        name[i - from] = names[i - from];
    if (wm_onnx_pack (self->onnx, tensors->name + from, to - from, &bytes, &size, &refused))
        return NULL;
    return self->backend[engine]->probe_open (bytes, size, self->parts->input, self->parts->n_input,
                                              name, (uint32_t) (to - from), &refused);
}

/* Whether a tensor of two engines, or of a batch and of its rows, differs.  */
static bool tensors_differ (const wm_judge_t *self, const wm_probe_tensor_t *a,
                            const wm_probe_tensor_t *b, uint64_t from, uint64_t n)
{
    wm_judge_range_t range = WM_JUDGE_NO_RANGE;
    double off = 0;
    wm_judge_widen (&range, b->value, n);
    const double allowed = a->is_whole || b->is_whole
                               ? 0
                               : fmax (WM_JUDGE_LEAST, self->share * wm_judge_width (&range));
    return wm_judge_beyond (a->value + from, b->value, NULL, n, allowed, &off) > 0;
}

/* Runs both engines on the same inputs. The first tensor of [from, to) that differs, or `to`.  */
static size_t find_difference (wm_judge_t *self, const tensors_t *tensors, size_t from, size_t to,
                               char (*names)[16], const wm_probe_tensor_t *in)
{
    wm_probe_tensor_t out[WM_JUDGE_ENGINES][WM_SHAPES_MAX];
    wm_error_t refused;
    int n_done = 0;
    size_t first = to;
    for (bool fine = true; n_done < WM_JUDGE_ENGINES && fine; n_done += fine) {
        void *probe = open_probe (self, n_done, tensors, from, to, names);
        fine =
            probe && self->backend[n_done]->probe_run (probe, in, out[n_done], &refused) == WM_OK;
        self->backend[n_done]->probe_close (probe);
    }
    const bool fine = n_done == WM_JUDGE_ENGINES;
    if (!fine && to - from > 1) { /* a sequence among them: those before it, then those behind it */
        const size_t middle = from + (to - from) / 2;
        first = find_difference (self, tensors, from, middle, names, in);
        first = first < middle ? first : find_difference (self, tensors, middle, to, names, in);
    }
    for (size_t i = from; fine && i < to && first == to; i++) {
        const wm_probe_tensor_t *mine = &out[WM_JUDGE_OPENVINO][i - from],
                                *right = &out[WM_JUDGE_ONNXRUNTIME][i - from];
        if (mine->n_value != right->n_value || tensors_differ (self, mine, right, 0, mine->n_value))
            first = i;
    }
    while (n_done-- > 0)
        wm_judge_free_tensors (out[n_done], (uint32_t) (to - from));
    return first;
}

/* Finds the first node that the engines compute differently on the worst patch. NULL: none is.  */
const Onnx__NodeProto *wm_judge_find_node (wm_judge_t *self, wm_error_t *error)
{
    wm_probe_tensor_t in[WM_MODEL_PORTS_MAX];
    tensors_t tensors = { 0 };
    char (*names)[16] = inner_names (WM_SHAPES_MAX);
    const Onnx__NodeProto *node = NULL;
    if (!names || find_tensors (self, &tensors, error)) {
        free (names);
        return NULL;
    }
    if (wm_judge_has_free (self->parts->input, self->parts->n_input) ||
        wm_judge_has_free (self->parts->output, self->parts->n_output))
        wm_judge_put_ragged (self, self->worst, self->n_worst, in);
    else
        wm_judge_put_dense (self, 1, self->worst, NULL, in);
    for (size_t from = 0; from < tensors.n && !node; from += WM_SHAPES_MAX) {
        const size_t left = tensors.n - from,
                     to = from + (left < WM_SHAPES_MAX ? left : WM_SHAPES_MAX),
                     first = find_difference (self, &tensors, from, to, names, in);
        node = first < to ? tensors.node[first] : NULL;
    }
    free (names);
    return node;
}

/* Finds the first tensor of which two patches side by side are not what they are alone.  */
static size_t find_mixing (wm_judge_t *self, const tensors_t *tensors, size_t from, size_t to,
                           char (*names)[16], float *pair, float *gathered)
{
    const wm_backend_t *ort = self->backend[WM_JUDGE_ONNXRUNTIME];
    wm_probe_tensor_t in[WM_MODEL_PORTS_MAX], out[3][WM_SHAPES_MAX];
    wm_error_t refused;
    void *probe = open_probe (self, WM_JUDGE_ONNXRUNTIME, tensors, from, to, names);
    size_t first = to;
    int n = 0;
    for (bool fine = probe; n < 3 && fine; n += fine) {
        wm_judge_put_dense (self, n ? 1 : 2, pair + (n == 2 ? self->n_value : 0),
                            n ? NULL : gathered, in);
        fine = ort->probe_run (probe, in, out[n], &refused) == WM_OK;
    }
    for (size_t i = 0; i < to - from && n == 3 && first == to; i++) {
        const wm_probe_tensor_t *both = &out[0][i], *a = &out[1][i], *b = &out[2][i];
        const bool split = both->n_value == a->n_value + b->n_value;
        if (!split ? both->n_value != a->n_value || tensors_differ (self, both, a, 0, a->n_value) ||
                         tensors_differ (self, both, b, 0, b->n_value)
                   : tensors_differ (self, both, a, 0, a->n_value) ||
                         tensors_differ (self, both, b, a->n_value, b->n_value))
            first = from + i;
    }
    while (n-- > 0)
        wm_judge_free_tensors (out[n], (uint32_t) (to - from));
    ort->probe_close (probe);
    return first;
}

/* Refuses a model whose rows depend on each other, and names the node.  */
wm_fault_t wm_judge_refuse_mixing (wm_judge_t *self, float *pair, wm_error_t *error)
{
    tensors_t tensors = { 0 };
    char (*names)[16] = inner_names (WM_SHAPES_MAX);
    float *gathered = malloc (2 * (size_t) self->n_value * sizeof *gathered);
    const Onnx__NodeProto *node = NULL;
    char text[240] = "a node";
    if (pair && names && gathered && !find_tensors (self, &tensors, error))
        for (size_t from = 0; from < tensors.n && !node; from += WM_SHAPES_MAX) {
            const size_t left = tensors.n - from,
                         to = from + (left < WM_SHAPES_MAX ? left : WM_SHAPES_MAX),
                         first = find_mixing (self, &tensors, from, to, names, pair, gathered);
            node = first < to ? tensors.node[first] : NULL;
        }
    if (node)
        snprintf (text, sizeof text, "node '%.100s' (%.60s)", wm_onnx_node_name (node),
                  wm_onnx_op (node));
    free (names);
    free (gathered);
    return wm_fault (error, WM_EBATCH,
                     "%s: %s makes the scores of a patch depend on the other patches of its batch: "
                     "a model must treat each by itself; import it with --whole if its first "
                     "dimension is no batch dimension",
                     self->onnx->path, text);
}
