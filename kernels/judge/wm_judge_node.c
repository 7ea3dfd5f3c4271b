/* wm_judge_node.c - which node is it: tensors inside the model, computed by both engines, or of a
   batch and of each of its patches alone.  */
#include "kernels/judge/wm_judge_private.h"
#include "kernels/onnx/wm_flow.h"

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

typedef struct {
    const wm_backend_t *backend;
    void *probe;                     /* NULL: the engine does not take that */
    wm_arena_t arena;                /* of its file */
    const char *name[WM_SHAPES_MAX]; /* of what it computes */
} probe_t;

/* Opens a probe of tensors [from, to), of a file without the nodes behind them: one that refuses
   its inputs is not run for those before it.  */
static void open_probe (probe_t *probe, const wm_judge_t *self, int engine,
                        const tensors_t *tensors, size_t from, size_t to, char (*names)[16])
{
    wm_onnx_t *onnx = self->onnx;
    const wm_arena_t kept = onnx->arena;
    Onnx__NodeProto **const node = onnx->graph->node;
    const size_t n_node = onnx->graph->n_node, n_output = onnx->n_output;
    const void *bytes;
    size_t size, n = 0;
    wm_error_t refused;
    *probe = (probe_t){ .backend = self->backend[engine] };
    for (size_t i = from; i < to; i++)
        probe->name[i - from] = names[i - from];
    while (onnx->node[n++] != tensors->node[to - 1])
        ;
    onnx->arena = (wm_arena_t){ 0 };
    onnx->graph->node = (Onnx__NodeProto **) (uintptr_t) onnx->node;
    onnx->graph->n_node = n;
    onnx->n_output = 0;
    if (!wm_onnx_pack (onnx, tensors->name + from, to - from, &bytes, &size, &refused))
        probe->probe =
            probe->backend->probe_open (bytes, size, self->parts->input, self->parts->n_input,
                                        probe->name, (uint32_t) (to - from), &refused);
    probe->arena = onnx->arena;
    onnx->arena = kept;
    onnx->graph->node = node;
    onnx->graph->n_node = n_node;
    onnx->n_output = n_output;
}

static bool run_probe (const probe_t *self, const wm_probe_tensor_t *in, wm_probe_tensor_t *out)
{
    wm_error_t refused;
    return self->probe && self->backend->probe_run (self->probe, in, out, &refused) == WM_OK;
}

static void close_probe (probe_t *self)
{
    self->backend->probe_close (self->probe);
    wm_arena_clear (&self->arena);
}

/* Whether a tensor differs from the right one, whose `outer` blocks lie in it at `from`, and from
   there on at every `stride`.  */
static bool tensors_differ (const wm_judge_t *self, const wm_probe_tensor_t *a,
                            const wm_probe_tensor_t *right, uint64_t outer, uint64_t stride,
                            uint64_t from)
{
    const uint64_t n = outer ? right->n_value / outer : 0;
    wm_judge_range_t range = WM_JUDGE_NO_RANGE;
    double off = 0;
    wm_judge_widen (&range, right->value, right->n_value);
    const double allowed = wm_judge_allowed (
        self, a->is_whole || right->is_whole ? ONNX__TENSOR_PROTO__DATA_TYPE__INT64 : 0, &range);
    for (uint64_t o = 0; o < outer; o++)
        if (wm_judge_beyond (a->value + from + o * stride, right->value + o * n, NULL, n, allowed,
                             &off) > 0)
            return true;
    return false;
}

/* Runs both engines on the same inputs. The first tensor of [from, to) that differs, or `to`.  */
static size_t find_difference (wm_judge_t *self, const tensors_t *tensors, size_t from, size_t to,
                               char (*names)[16], const wm_probe_tensor_t *in)
{
    wm_probe_tensor_t out[WM_JUDGE_ENGINES][WM_SHAPES_MAX];
    int n_done = 0;
    size_t first = to;
    for (bool fine = true; n_done < WM_JUDGE_ENGINES && fine; n_done += fine) {
        probe_t probe;
        open_probe (&probe, self, n_done, tensors, from, to, names);
        fine = run_probe (&probe, in, out[n_done]);
        close_probe (&probe);
    }
    const bool fine = n_done == WM_JUDGE_ENGINES;
    if (!fine && to - from > 1) { /* a sequence among them, or a refusal */
        const size_t middle = from + (to - from) / 2;
        first = find_difference (self, tensors, from, middle, names, in);
        first = first < middle ? first : find_difference (self, tensors, middle, to, names, in);
    }
    for (size_t i = from; fine && i < to && first == to; i++) {
        const wm_probe_tensor_t *mine = &out[WM_JUDGE_OPENVINO][i - from],
                                *right = &out[WM_JUDGE_ONNXRUNTIME][i - from];
        if (mine->n_value != right->n_value || tensors_differ (self, mine, right, 1, 0, 0))
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

/* Whether the next row of a tensor of a batch is not what it is alone. *at: where it begins along
   the dimension of which a batch has more; it is moved behind the row.  */
static bool row_differs (const wm_judge_t *self, const wm_probe_tensor_t *batch,
                         const wm_probe_tensor_t *alone, int64_t *at)
{
    uint32_t n_other = 0, along = 0;
    uint64_t outer = 1, inner = 1;
    if (batch->n_dim != alone->n_dim)
        return true;
    for (uint32_t d = 0; d < batch->n_dim; d++)
        if (batch->dim[d] != alone->dim[d])
            n_other++, along = d;
    if (!n_other)
        return tensors_differ (self, batch, alone, 1, 0, 0);
    const int64_t from = *at;
    *at += alone->dim[along];
    if (n_other > 1 || *at > batch->dim[along])
        return true;
    for (uint32_t d = 0; d < batch->n_dim; d++)
        *(d < along ? &outer : d > along ? &inner : &(uint64_t){ 1 }) *= (uint64_t) batch->dim[d];
    return tensors_differ (self, batch, alone, outer, (uint64_t) batch->dim[along] * inner,
                           (uint64_t) from * inner);
}

/* Finds the first tensor of [from, to) of which a row of a batch is not what it is alone, or
   `to`.  */
static size_t find_mixing (wm_judge_t *self, const tensors_t *tensors, size_t from, size_t to,
                           char (*names)[16], uint32_t rows, float *patch, float *gathered)
{
    wm_probe_tensor_t in[WM_MODEL_PORTS_MAX], batch[WM_SHAPES_MAX], alone[WM_SHAPES_MAX];
    int64_t at[WM_SHAPES_MAX] = { 0 };
    const uint32_t n = (uint32_t) (to - from);
    size_t first = to;
    probe_t probe;
    open_probe (&probe, self, WM_JUDGE_ONNXRUNTIME, tensors, from, to, names);
    wm_judge_put_dense (self, rows, patch, gathered, in);
    const bool runs = run_probe (&probe, in, batch);
    bool fine = runs;
    for (uint32_t r = 0; r < rows && fine; r++) {
        wm_judge_put_dense (self, 1, patch + (size_t) r * self->n_value, NULL, in);
        fine = run_probe (&probe, in, alone);
        for (size_t i = from; i < first && fine; i++)
            if (row_differs (self, &batch[i - from], &alone[i - from], &at[i - from]))
                first = i;
        if (fine)
            wm_judge_free_tensors (alone, n);
    }
    if (runs)
        wm_judge_free_tensors (batch, n);
    close_probe (&probe);
    if (fine || n == 1)
        return fine ? first : to;
    /* a node refuses what a row, or the batch, brings: the tensors before it, then those behind */
    const size_t middle = from + n / 2;
    first = find_mixing (self, tensors, from, middle, names, rows, patch, gathered);
    return first < middle ? first
                          : find_mixing (self, tensors, middle, to, names, rows, patch, gathered);
}

/* Finds the first node of which a row of a batch is not what it is alone.  */
const Onnx__NodeProto *wm_judge_find_mixing (wm_judge_t *self, uint32_t rows, float *patch,
                                             wm_error_t *error)
{
    const size_t most = rows > 2 ? 1 + 2 * WM_SHAPES_MAX / rows : WM_SHAPES_MAX; /* at a time */
    tensors_t tensors = { 0 };
    char (*names)[16] = inner_names (WM_SHAPES_MAX);
    float *gathered = malloc ((size_t) rows * self->n_value * sizeof *gathered);
    const Onnx__NodeProto *node = NULL;
    if (names && gathered && !find_tensors (self, &tensors, error))
        for (size_t from = 0; from < tensors.n && !node; from += most) {
            const size_t left = tensors.n - from, to = from + (left < most ? left : most),
                         first =
                             find_mixing (self, &tensors, from, to, names, rows, patch, gathered);
            node = first < to ? tensors.node[first] : NULL;
        }
    free (names);
    free (gathered);
    return node;
}

/* Refuses a model of which rows of a batch depend on each other.  */
wm_fault_t wm_judge_refuse_mixing (const wm_judge_t *self, const Onnx__NodeProto *node,
                                   wm_error_t *error)
{
    char text[240] = "a node";
    if (node)
        snprintf (text, sizeof text, "node '%.100s' (%.60s)", wm_onnx_node_name (node),
                  wm_onnx_op (node));
    return wm_fault (error, WM_EBATCH,
                     "%s: %s makes the scores of a patch depend on the other patches of its batch: "
                     "a model must treat each by itself; import it with --whole if its first "
                     "dimension is no batch dimension",
                     self->onnx->path, text);
}
