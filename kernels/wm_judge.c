/* wm_judge.c - see wm_judge.h.  */
#include "kernels/wm_judge.h"
#include "kernels/import/wm_draw.h"
#include "kernels/import/wm_flow.h"
#include "kernels/wm_backend_private.h"
#include "kernels/wm_seed.h"
#include "schema/base/wm_allowance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 64u              /* of a distribution */
#define VALUES_MAX (1u << 23) /* of the rows of a distribution */
#define WORK_MAX 2e11         /* multiply-adds of a distribution; fewer rows of larger models */
#define ROWS_LEAST 4u
#define THREADS_MAX 16
#define LEAST 2e-5 /* allowed difference, ... */
#define SHARE 1e-5 /* ... and as a share of the output's range */
#define SHARE_HALF 2e-3
#define SHARE_BF16 2e-2
#define MOVED 4 /* a score may differ by so many times what a rounding of its patch does */
#define ROUNDING 0x1p-20f

enum { OPENVINO, ONNXRUNTIME, ENGINES };
static const char *const engine_name[ENGINES] = { "openvino", "onnxruntime" };

typedef struct {
    wm_onnx_t *onnx;
    bool whole;
    const wm_model_parts_t *parts;
    double share;
    const wm_backend_t *backend[ENGINES]; /* NULL: it is not here */
    wm_model_t *model;
    wm_device_t *device[ENGINES]; /* NULL: it does not take the model, for this reason: */
    wm_error_t why[ENGINES];
    uint32_t n_value, n_output, rows;
    float *row, *scores[ENGINES], *moved; /* (rows) */
    uint8_t *status[ENGINES];
    uint64_t n_judged; /* patches */
    double off;        /* the largest difference as a share of its output's range */
    float *worst;      /* the first patch that differs, of n_worst values; NULL: all agree */
    uint32_t n_worst;
    double worst_off; /* by so much */
} judge_t;

/* ---- tensors that go in ---------------------------------------------------------------------- */

/* The inputs of `rows` dense patches, which are gathered by port into `gathered` (NULL: one).  */
static void put_dense (const judge_t *self, uint32_t rows, float *patch, float *gathered,
                       wm_probe_tensor_t in[WM_MODEL_PORTS_MAX])
{
    size_t from = 0;
    for (uint32_t i = 0; i < self->parts->n_input; i++) {
        const wm_port_t *port = &self->parts->input[i];
        in[i] = (wm_probe_tensor_t){ .n_dim = port->n_dim + !self->whole,
                                     .dim = { rows },
                                     .n_value = (uint64_t) rows * port->n_value,
                                     .value = patch + from };
        for (uint32_t d = 0; d < port->n_dim; d++)
            in[i].dim[d + !self->whole] = port->dim[d];
        for (uint32_t r = 0; r < rows && gathered; r++)
            memcpy (gathered + rows * from + (size_t) r * port->n_value,
                    patch + (size_t) r * self->n_value + from, port->n_value * sizeof *patch);
        if (gathered)
            in[i].value = gathered + rows * from;
        from += port->n_value;
    }
}

/* The inputs of a ragged row.  */
static void put_ragged (const judge_t *self, float *row, uint32_t n,
                        wm_probe_tensor_t in[WM_MODEL_PORTS_MAX])
{
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    uint32_t n_tensor;
    wm_ragged_read (row, n, &n_tensor, tensor);
    for (uint32_t i = 0; i < self->parts->n_input; i++) {
        in[i] = (wm_probe_tensor_t){ .n_dim = tensor[i].n_dim + !self->whole,
                                     .dim = { 1 },
                                     .n_value = tensor[i].n_value,
                                     .value = row + tensor[i].at };
        for (uint32_t d = 0; d < tensor[i].n_dim; d++)
            in[i].dim[d + !self->whole] = tensor[i].dim[d];
    }
}

static void free_tensors (wm_probe_tensor_t *tensor, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        free (tensor[i].value);
        tensor[i].value = NULL;
    }
}

static bool has_free (const wm_port_t *port, uint32_t n)
{
    bool is_free = false;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < port[i].n_dim; d++)
            is_free |= !port[i].dim[d];
    return is_free;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Whether the model computes in half precision somewhere, and so may round differently.  */
static double find_share (const wm_onnx_t *onnx)
{
    double share = SHARE;
    for (size_t i = 0; onnx->graph && i < onnx->graph->n_initializer; i++) {
        const int type = onnx->graph->initializer[i]->data_type;
        if (type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16)
            share = fmax (share, SHARE_HALF);
        if (type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16)
            share = fmax (share, SHARE_BF16);
    }
    for (size_t i = 0; i < onnx->n_node; i++) {
        const int64_t to = strcmp (wm_onnx_op (onnx->node[i]), "Cast") == 0
                               ? wm_onnx_int (onnx->node[i], "to", 0)
                               : 0;
        if (to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16)
            share = fmax (share, SHARE_HALF);
        if (to == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16)
            share = fmax (share, SHARE_BF16);
    }
    return share;
}

static double share_of (const judge_t *self, uint16_t type)
{
    return type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16    ? fmax (self->share, SHARE_HALF)
           : type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 ? fmax (self->share, SHARE_BF16)
                                                             : self->share;
}

static bool is_whole_type (uint16_t type)
{
    return type && type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 &&
           type != ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 &&
           type != ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE;
}

typedef struct {
    double least, most; /* of finite values */
} range_t;
#define NO_RANGE ((range_t){ INFINITY, -INFINITY })

static void widen (range_t *self, const float *value, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (isfinite (value[k])) {
            self->least = fmin (self->least, (double) value[k]);
            self->most = fmax (self->most, (double) value[k]);
        }
}

static double width (const range_t *self)
{
    return self->most > self->least ? self->most - self->least : 0;
}

/* The distance of two values; 0 where both are NaN, or equal.  */
static double distance (float a, float b)
{
    if (a == b || (isnan (a) && isnan (b)))
        return 0;
    const double off = fabs ((double) a - (double) b);
    return isnan (off) ? INFINITY : off;
}

/* The most that a value may be off, and how far the farthest of n is beyond it. `moved`, or NULL:
   the right ones of a patch a rounding away.  */
static double beyond (const float *value, const float *right, const float *moved, size_t n,
                      double allowed, double *off)
{
    double most = 0, shake = 0;
    for (size_t k = 0; k < n && moved; k++)
        shake = fmax (shake, distance (moved[k], right[k]));
    for (size_t k = 0; k < n; k++) {
        const double d = distance (value[k], right[k]);
        *off = isfinite (d) ? fmax (*off, d) : *off;
        if (!(d <= allowed + (allowed > 0 ? MOVED : 1) * shake))
            most = fmax (most, d);
    }
    return most;
}

/* ---- one distribution of dense patches ------------------------------------------------------- */

static wm_fault_t score (const judge_t *self, int engine, float *row, uint32_t n, uint8_t *status,
                         float *scores, wm_error_t *error)
{
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = n, .patch_values = self->n_value, .patch = row
    };
    return wm_device_score (self->device[engine], &batch, status, scores, error);
}

/* The scores, by ONNX Runtime, of a patch that is a rounding away.  */
static wm_fault_t score_moved (judge_t *self, const float *row, uint32_t n_value, wm_error_t *error)
{
    uint8_t status;
    float *moved = malloc (n_value * sizeof *moved);
    if (!moved)
        return wm_fault (error, WM_EHOST, "no memory to judge a model");
    for (uint32_t k = 0; k < n_value; k++)
        moved[k] =
            row[k] == nearbyintf (row[k]) ? row[k] : row[k] * (1 + (k % 2 ? ROUNDING : -ROUNDING));
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = n_value, .patch = moved
    };
    const wm_fault_t fault =
        wm_device_score (self->device[ONNXRUNTIME], &batch, &status, self->moved, error);
    free (moved);
    return fault;
}

/* Remembers the first patch that differs.  */
static wm_fault_t note_worst (judge_t *self, const float *row, uint32_t n_value, double off,
                              wm_error_t *error)
{
    if (self->worst)
        return WM_OK;
    self->worst = malloc (n_value * sizeof *row);
    if (!self->worst)
        return wm_fault (error, WM_EHOST, "no memory to judge a model");
    memcpy (self->worst, row, n_value * sizeof *row);
    self->n_worst = n_value;
    self->worst_off = off;
    return WM_OK;
}

/* How far a row of scores is beyond what is allowed.  */
static double row_beyond (judge_t *self, const float *value, const float *right, const float *moved,
                          const range_t *range)
{
    double most = 0;
    size_t from = 0;
    for (uint32_t i = 0; i < self->parts->n_output; i++) {
        const wm_port_t *port = &self->parts->output[i];
        const bool whole = is_whole_type (port->type);
        const double wide = width (&range[i]),
                     allowed = whole ? 0 : fmax (LEAST, share_of (self, port->type) * wide);
        double off = 0;
        most = fmax (most, beyond (value + from, right + from, moved ? moved + from : NULL,
                                   port->n_value, allowed, &off));
        self->off = fmax (self->off, off / fmax (1, wide));
        from += port->n_value;
    }
    return most;
}

/* Compares the scores of both engines.  */
static wm_fault_t compare_dense (judge_t *self, wm_error_t *error)
{
    range_t range[WM_MODEL_PORTS_MAX];
    size_t from = 0;
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < self->parts->n_output; i++) {
        range[i] = NO_RANGE;
        for (uint32_t r = 0; r < self->rows; r++)
            widen (&range[i], self->scores[ONNXRUNTIME] + (size_t) r * self->n_output + from,
                   self->parts->output[i].n_value);
        from += self->parts->output[i].n_value;
    }
    for (uint32_t r = 0; r < self->rows && !fault && !self->worst; r++) {
        const float *row = self->row + (size_t) r * self->n_value,
                    *mine = self->scores[OPENVINO] + (size_t) r * self->n_output,
                    *theirs = self->scores[ONNXRUNTIME] + (size_t) r * self->n_output;
        const double before = self->off;
        double off = row_beyond (self, mine, theirs, NULL, range);
        if (off > 0) {
            self->off = before;
            fault = score_moved (self, row, self->n_value, error);
            off = fault ? 0 : row_beyond (self, mine, theirs, self->moved, range);
        }
        if (off > 0)
            fault = note_worst (self, row, self->n_value, off, error);
    }
    self->n_judged += self->rows;
    return fault;
}

static void shuffle (uint32_t *order, uint32_t n, uint64_t seed)
{
    for (uint32_t r = 0; r < n; r++)
        order[r] = r;
    for (uint32_t r = n; r > 1; r--) {
        const uint32_t other = (uint32_t) (wm_seed_next (&seed) % r), was = order[r - 1];
        order[r - 1] = order[other];
        order[other] = was;
    }
}

static const uint32_t batch_size[] = { 1, 2, 7, 32 };
#define SIZES (sizeof batch_size / sizeof *batch_size)

/* Scores the same patches by OpenVINO in another order, in batches of several sizes: bits must not
   depend on them.  */
static wm_fault_t group_again (judge_t *self, float *shuffled, float *again, wm_error_t *error)
{
    uint32_t order[ROWS], done = 0;
    uint8_t status[ROWS];
    wm_fault_t fault = WM_OK;
    shuffle (order, self->rows, self->n_judged);
    for (uint32_t r = 0; r < self->rows; r++)
        memcpy (shuffled + (size_t) r * self->n_value,
                self->row + (size_t) order[r] * self->n_value, self->n_value * sizeof *shuffled);
    for (uint32_t turn = 0; done < self->rows && !fault; turn++) {
        const uint32_t left = self->rows - done, want = batch_size[turn % SIZES],
                       n = want < left ? want : left;
        fault = score (self, OPENVINO, shuffled + (size_t) done * self->n_value, n, status + done,
                       again + (size_t) done * self->n_output, error);
        done += n;
    }
    for (uint32_t r = 0; r < self->rows && !fault; r++)
        if (memcmp (again + (size_t) r * self->n_output,
                    self->scores[OPENVINO] + (size_t) order[r] * self->n_output,
                    self->n_output * sizeof *again) != 0)
            return note_worst (self, self->row + (size_t) order[r] * self->n_value, self->n_value,
                               INFINITY, error);
    return fault;
}

/* ---- each row alone -------------------------------------------------------------------------- */

static wm_fault_t refuse_mixing (judge_t *self, float *pair, wm_error_t *error);

/* Computes batches of shuffled patches by ONNX Runtime, whose rows must be what they are alone. A
   model that takes one patch only is computed so, and no other matters.  */
static wm_fault_t check_batches (judge_t *self, void *probe, float *shuffled, float *gathered,
                                 wm_error_t *error)
{
    uint32_t order[ROWS];
    shuffle (order, self->rows, 1 + self->n_judged);
    for (uint32_t r = 0; r < self->rows; r++)
        memcpy (shuffled + (size_t) r * self->n_value,
                self->row + (size_t) order[r] * self->n_value, self->n_value * sizeof *shuffled);
    for (size_t s = 1; s < SIZES; s++) {
        const uint32_t rows = batch_size[s] < self->rows ? batch_size[s] : self->rows;
        wm_probe_tensor_t in[WM_MODEL_PORTS_MAX], out[WM_MODEL_PORTS_MAX];
        wm_error_t refused;
        double most = 0;
        size_t from = 0;
        put_dense (self, rows, shuffled, gathered, in);
        const wm_fault_t fault = self->backend[ONNXRUNTIME]->probe_run (probe, in, out, &refused);
        if (fault) {
            if (fault == WM_EHOST)
                *error = refused;
            return fault == WM_EHOST ? fault : WM_OK;
        }
        uint32_t bad = 0;
        for (uint32_t i = 0; i < self->parts->n_output && !(most > 0); i++) {
            const wm_port_t *port = &self->parts->output[i];
            range_t range = NO_RANGE;
            double off = 0;
            if (out[i].n_value != (uint64_t) rows * port->n_value) {
                most = INFINITY;
                break;
            }
            widen (&range, out[i].value, out[i].n_value);
            const double allowed = is_whole_type (port->type)
                                       ? 0
                                       : fmax (LEAST, share_of (self, port->type) * width (&range));
            for (uint32_t r = 0; r < rows && !(most > 0); r++, bad = r) {
                const float *alone =
                    self->scores[ONNXRUNTIME] + (size_t) order[r] * self->n_output + from;
                if (self->status[ONNXRUNTIME][order[r]])
                    continue;
                const float *value = out[i].value + (size_t) r * port->n_value;
                most = beyond (value, alone, NULL, port->n_value, allowed, &off);
                if (most > 0 && score_moved (self, shuffled + (size_t) r * self->n_value,
                                             self->n_value, error)) {
                    free_tensors (out, self->parts->n_output);
                    return error->fault;
                }
                if (most > 0)
                    most = beyond (value, alone, self->moved + from, port->n_value, allowed, &off);
            }
            from += port->n_value;
        }
        free_tensors (out, self->parts->n_output);
        if (most > 0) {
            if (bad > 1) /* the pair that shows it: the first, and the one that differs */
                memmove (shuffled + self->n_value, shuffled + (size_t) (bad - 1) * self->n_value,
                         self->n_value * sizeof *shuffled);
            return refuse_mixing (self, shuffled, error);
        }
    }
    return WM_OK;
}

/* ---- which node ------------------------------------------------------------------------------ */

typedef struct {
    const Onnx__NodeProto **node; /* (n) that makes the tensor, in topological order */
    const char **name;            /* (n) of the tensors */
    size_t n;
} tensors_t;

/* The tensors inside the model whose elements a patch decides.  */
static wm_fault_t find_tensors (judge_t *self, tensors_t *tensors, wm_error_t *error)
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
static void *open_probe (judge_t *self, int engine, const tensors_t *tensors, size_t from,
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
static bool tensors_differ (const judge_t *self, const wm_probe_tensor_t *a,
                            const wm_probe_tensor_t *b, uint64_t from, uint64_t n)
{
    range_t range = NO_RANGE;
    double off = 0;
    widen (&range, b->value, n);
    const double allowed =
        a->is_whole || b->is_whole ? 0 : fmax (LEAST, self->share * width (&range));
    return beyond (a->value + from, b->value, NULL, n, allowed, &off) > 0;
}

/* Runs both engines on the same inputs. The first tensor of [from, to) that differs, or `to`.  */
static size_t find_difference (judge_t *self, const tensors_t *tensors, size_t from, size_t to,
                               char (*names)[16], const wm_probe_tensor_t *in)
{
    wm_probe_tensor_t out[ENGINES][WM_SHAPES_MAX];
    wm_error_t refused;
    int n_done = 0;
    size_t first = to;
    for (bool fine = true; n_done < ENGINES && fine; n_done += fine) {
        void *probe = open_probe (self, n_done, tensors, from, to, names);
        fine =
            probe && self->backend[n_done]->probe_run (probe, in, out[n_done], &refused) == WM_OK;
        self->backend[n_done]->probe_close (probe);
    }
    const bool fine = n_done == ENGINES;
    if (!fine && to - from > 1) { /* a sequence among them: those before it, then those behind it */
        const size_t middle = from + (to - from) / 2;
        first = find_difference (self, tensors, from, middle, names, in);
        first = first < middle ? first : find_difference (self, tensors, middle, to, names, in);
    }
    for (size_t i = from; fine && i < to && first == to; i++) {
        const wm_probe_tensor_t *mine = &out[OPENVINO][i - from],
                                *right = &out[ONNXRUNTIME][i - from];
        if (mine->n_value != right->n_value || tensors_differ (self, mine, right, 0, mine->n_value))
            first = i;
    }
    while (n_done-- > 0)
        free_tensors (out[n_done], (uint32_t) (to - from));
    return first;
}

/* Finds the first node that the engines compute differently on the worst patch. NULL: none is.  */
static const Onnx__NodeProto *find_node (judge_t *self, wm_error_t *error)
{
    wm_probe_tensor_t in[WM_MODEL_PORTS_MAX];
    tensors_t tensors = { 0 };
    char (*names)[16] = inner_names (WM_SHAPES_MAX);
    const Onnx__NodeProto *node = NULL;
    if (!names || find_tensors (self, &tensors, error)) {
        free (names);
        return NULL;
    }
    if (has_free (self->parts->input, self->parts->n_input) ||
        has_free (self->parts->output, self->parts->n_output))
        put_ragged (self, self->worst, self->n_worst, in);
    else
        put_dense (self, 1, self->worst, NULL, in);
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
static size_t find_mixing (judge_t *self, const tensors_t *tensors, size_t from, size_t to,
                           char (*names)[16], float *pair, float *gathered)
{
    const wm_backend_t *ort = self->backend[ONNXRUNTIME];
    wm_probe_tensor_t in[WM_MODEL_PORTS_MAX], out[3][WM_SHAPES_MAX];
    wm_error_t refused;
    void *probe = open_probe (self, ONNXRUNTIME, tensors, from, to, names);
    size_t first = to;
    int n = 0;
    for (bool fine = probe; n < 3 && fine; n += fine) {
        put_dense (self, n ? 1 : 2, pair + (n == 2 ? self->n_value : 0), n ? NULL : gathered, in);
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
        free_tensors (out[n], (uint32_t) (to - from));
    ort->probe_close (probe);
    return first;
}

/* Refuses a model whose rows depend on each other, and names the node.  */
static wm_fault_t refuse_mixing (judge_t *self, float *pair, wm_error_t *error)
{
    tensors_t tensors = { 0 };
    char (*names)[16] = inner_names (WM_SHAPES_MAX);
    float *gathered = malloc (2 * (size_t) self->n_value * sizeof *gathered);
    const Onnx__NodeProto *node = NULL;
    char text[240] = "a node";
    if (names && gathered && !find_tensors (self, &tensors, error))
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

/* ---- dense ----------------------------------------------------------------------------------- */

static wm_fault_t judge_dense (judge_t *self, wm_error_t *error)
{
    const size_t n_in = (size_t) self->rows * self->n_value,
                 n_out = (size_t) self->rows * self->n_output;
    const bool both = self->device[OPENVINO] && self->device[ONNXRUNTIME];
    float *shuffled = malloc (n_in * sizeof *shuffled),
          *gathered = malloc (n_in * sizeof *gathered), *again = malloc (n_out * sizeof *again);
    const char *name[WM_MODEL_PORTS_MAX];
    wm_fault_t fault = shuffled && gathered && again
                           ? WM_OK
                           : wm_fault (error, WM_EHOST, "no memory to judge a model");
    void *probe = NULL;
    for (uint32_t i = 0; i < self->parts->n_output; i++)
        name[i] = self->parts->output[i].name;
    if (!fault && self->device[ONNXRUNTIME] && !self->whole)
        probe = self->backend[ONNXRUNTIME]->probe_open (
            self->parts->original, self->parts->original_bytes, self->parts->input,
            self->parts->n_input, name, self->parts->n_output, error);
    for (int kind = 0; kind < WM_DRAW_KINDS && !fault; kind++) {
        for (uint32_t r = 0; r < self->rows && !fault; r++)
            fault = wm_draw_row (self->onnx, self->parts->input, self->parts->n_input,
                                 (wm_draw_t) kind, 1 + (uint64_t) kind * ROWS + r,
                                 self->row + (size_t) r * self->n_value, error);
        for (int e = 0; e < ENGINES && !fault; e++)
            if (self->device[e])
                fault =
                    score (self, e, self->row, self->rows, self->status[e], self->scores[e], error);
        if (!fault && both && !self->worst)
            fault = compare_dense (self, error);
        if (!fault && self->device[OPENVINO] && !self->worst)
            fault = group_again (self, shuffled, again, error);
        if (!fault && probe)
            fault = check_batches (self, probe, shuffled, gathered, error);
    }
    if (probe)
        self->backend[ONNXRUNTIME]->probe_close (probe);
    free (shuffled);
    free (gathered);
    free (again);
    return fault;
}

/* ---- ragged ---------------------------------------------------------------------------------- */

/* Scores a ragged row. Returns the values of its scores, 0 where it is refused.  */
static uint32_t score_ragged (const judge_t *self, int engine, float *row, uint32_t n,
                              float *scores, wm_error_t *error)
{
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = n, .patch = row
    };
    uint8_t status = WM_HIT_SCORED;
    error->fault = wm_device_score (self->device[engine], &batch, &status, scores, error);
    return error->fault || status == WM_HIT_HELD
               ? 0
               : wm_ragged_length (scores, wm_model_n_output (self->model));
}

/* How far scores of a ragged row are beyond what is allowed; all have the same shapes.  */
static double ragged_beyond (judge_t *self, const float *value, const float *right,
                             const float *moved, uint32_t n)
{
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    uint32_t n_tensor;
    double most = 0;
    wm_ragged_read (right, n, &n_tensor, tensor);
    for (uint32_t i = 0; i < self->parts->n_output; i++) {
        const wm_port_t *port = &self->parts->output[i];
        const size_t at = tensor[i].at;
        range_t range = NO_RANGE;
        double off = 0;
        widen (&range, right + at, tensor[i].n_value);
        const double wide = width (&range),
                     allowed = is_whole_type (port->type)
                                   ? 0
                                   : fmax (LEAST, share_of (self, port->type) * wide);
        most = fmax (most, beyond (value + at, right + at, moved ? moved + at : NULL,
                                   tensor[i].n_value, allowed, &off));
        self->off = fmax (self->off, off / fmax (1, wide));
    }
    return most;
}

static wm_fault_t compare_ragged (judge_t *self, float *row, uint32_t n, wm_error_t *error)
{
    uint32_t length[ENGINES];
    error->fault = WM_OK;
    for (int e = 0; e < ENGINES; e++) {
        length[e] = score_ragged (self, e, row, n, self->scores[e], error);
        if (error->fault)
            return error->fault;
    }
    self->n_judged++;
    if (!length[OPENVINO] && !length[ONNXRUNTIME])
        return WM_OK;
    const uint32_t n_score = length[ONNXRUNTIME];
    /* as many values, and the same shapes in front of them */
    double off = INFINITY, before = self->off;
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    uint32_t n_tensor;
    const bool same = length[OPENVINO] == n_score &&
                      !wm_ragged_read (self->scores[ONNXRUNTIME], n_score, &n_tensor, tensor) &&
                      memcmp (self->scores[OPENVINO], self->scores[ONNXRUNTIME],
                              tensor[0].at * sizeof (float)) == 0;
    if (same)
        off =
            ragged_beyond (self, self->scores[OPENVINO], self->scores[ONNXRUNTIME], NULL, n_score);
    if (same && off > 0) {
        self->off = before;
        if (score_moved (self, row, n, error))
            return error->fault;
        if (wm_ragged_length (self->moved, wm_model_n_output (self->model)) == n_score)
            off = ragged_beyond (self, self->scores[OPENVINO], self->scores[ONNXRUNTIME],
                                 self->moved, n_score);
    }
    return off > 0 ? note_worst (self, row, n, off, error) : WM_OK;
}

static wm_fault_t judge_ragged (judge_t *self, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < 2 * WM_DRAW_KINDS * WM_DRAW_SIZES && !fault && !self->worst; i++) {
        uint32_t n;
        fault = wm_draw_ragged (
            self->onnx, self->parts->input, self->parts->n_input, (wm_draw_t) (i % WM_DRAW_KINDS),
            1 + i, i / WM_DRAW_KINDS % WM_DRAW_SIZES, self->row, VALUES_MAX / 8, &n, error);
        if (!fault && n && self->device[OPENVINO] && self->device[ONNXRUNTIME])
            fault = compare_ragged (self, self->row, n, error);
    }
    return fault;
}

/* ---- together -------------------------------------------------------------------------------- */

static wm_fault_t open_engines (judge_t *self, wm_error_t *error)
{
    const int cpus = wm_allowance ()->cpus, threads = cpus < THREADS_MAX ? cpus : THREADS_MAX;
    for (int e = 0; e < ENGINES; e++) {
        const wm_device_config_t config = { .engine = engine_name[e],
                                            .precision = "fp32",
                                            .threads = threads,
                                            .keeps_infinite = true };
        self->backend[e] = wm_backend_find (wm_device_engine (engine_name[e]), &self->why[e]);
        self->device[e] =
            self->backend[e] ? wm_device_new (self->model, NULL, &config, &self->why[e]) : NULL;
        if (self->backend[e] && !self->device[e] && self->why[e].fault != WM_EBATCH) {
            *error = self->why[e];
            return error->fault;
        }
    }
    if (!self->device[OPENVINO] && !self->device[ONNXRUNTIME]) {
        *error = self->why[self->backend[OPENVINO] ? OPENVINO : ONNXRUNTIME];
        return error->fault;
    }
    return WM_OK;
}

static wm_fault_t take_memory (judge_t *self, wm_error_t *error)
{
    const bool ragged = wm_model_is_ragged (self->model, NULL);
    self->n_value = wm_model_n_value (self->model);
    self->n_output = wm_model_n_output (self->model);
    const uint64_t of_row = (uint64_t) self->n_value + self->n_output;
    const double work = (double) self->parts->madds;
    self->rows = ragged ? 1 : ROWS;
    while (self->rows > ROWS_LEAST &&
           (self->rows * of_row > VALUES_MAX || self->rows * work > WORK_MAX))
        self->rows /= 2;
    const size_t n = ragged ? VALUES_MAX / 8 : (size_t) self->rows * self->n_value,
                 n_score = ragged ? WM_RAGGED_VALUES_MAX : (size_t) self->rows * self->n_output;
    bool fine = (self->row = malloc (n * sizeof *self->row)) != NULL;
    fine &= (self->moved = malloc ((ragged ? n_score : self->n_output) * sizeof (float))) != NULL;
    for (int e = 0; e < ENGINES; e++) {
        fine &= (self->scores[e] = malloc (n_score * sizeof (float))) != NULL;
        fine &= (self->status[e] = malloc (self->rows)) != NULL;
    }
    return fine ? WM_OK : wm_fault (error, WM_EHOST, "no memory to judge a model");
}

/* Notes any patch as one that differs: the engines give its scores other shapes.  */
static wm_fault_t note_shapes (judge_t *self, wm_error_t *error)
{
    uint32_t n = self->n_value;
    const wm_fault_t fault =
        wm_model_is_ragged (self->model, NULL)
            ? wm_draw_ragged (self->onnx, self->parts->input, self->parts->n_input, WM_DRAW_SIGNED,
                              1, 0, self->row, VALUES_MAX / 8, &n, error)
            : wm_draw_row (self->onnx, self->parts->input, self->parts->n_input, WM_DRAW_SIGNED, 1,
                           self->row, error);
    wm_device_destroy (&self->device[OPENVINO]);
    return fault ? fault : note_worst (self, self->row, n, INFINITY, error);
}

/* Says what was found.  */
static wm_fault_t conclude (judge_t *self, wm_judged_t *judged, char text[WM_JUDGE_TEXT],
                            wm_error_t *error)
{
    const wm_device_t *mine = self->device[OPENVINO], *theirs = self->device[ONNXRUNTIME];
    if (theirs)
        snprintf (judged->judge, sizeof judged->judge, "%.*s",
                  (int) strcspn (wm_device_signature (theirs), "/"), wm_device_signature (theirs));
    if (self->worst) {
        const Onnx__NodeProto *node = find_node (self, error);
        judged->judgement = WM_JUDGED_OTHER;
        judged->off = isfinite (self->worst_off) ? (float) self->worst_off : 0;
        if (node)
            snprintf (text, WM_JUDGE_TEXT,
                      "ONNX Runtime scores it: OpenVINO computes node '%.100s' (%.60s) otherwise",
                      wm_onnx_node_name (node), wm_onnx_op (node));
        else
            snprintf (text, WM_JUDGE_TEXT,
                      "ONNX Runtime scores it: OpenVINO's scores differ by %.1g", self->worst_off);
    } else if (!theirs)
        snprintf (text, WM_JUDGE_TEXT, "judged by no other engine: %.200s",
                  self->why[ONNXRUNTIME].text);
    else if (!mine) {
        judged->judgement = WM_JUDGED_ALONE;
        *judged->judge = 0;
        snprintf (text, WM_JUDGE_TEXT, "ONNX Runtime scores it, judged by no other engine: %.200s",
                  self->why[OPENVINO].text);
    } else {
        judged->judgement = WM_JUDGED_EQUAL;
        judged->off = (float) self->off;
        snprintf (text, WM_JUDGE_TEXT, "judged by %s on %llu patches, largest difference %.1g",
                  judged->judge, (unsigned long long) self->n_judged, self->off);
    }
    return WM_OK;
}

wm_fault_t wm_judge (wm_onnx_t *onnx, bool whole, bool other_shapes, const char *draft,
                     const wm_model_parts_t *parts, wm_judged_t *judged, char text[WM_JUDGE_TEXT],
                     wm_error_t *error)
{
    judge_t self = { .onnx = onnx, .whole = whole, .parts = parts, .share = find_share (onnx) };
    *judged = (wm_judged_t){ .judgement = WM_JUDGED_BY_NONE };
    self.model = wm_model_open (draft, error);
    wm_fault_t fault = self.model ? open_engines (&self, error) : error->fault;
    if (!fault)
        fault = take_memory (&self, error);
    if (!fault && other_shapes)
        fault = note_shapes (&self, error);
    if (!fault)
        fault = wm_model_is_ragged (self.model, NULL) ? judge_ragged (&self, error)
                                                      : judge_dense (&self, error);
    if (!fault)
        fault = conclude (&self, judged, text, error);
    for (int e = 0; e < ENGINES; e++) {
        wm_device_destroy (&self.device[e]);
        free (self.scores[e]);
        free (self.status[e]);
    }
    wm_model_destroy (&self.model);
    free (self.row);
    free (self.moved);
    free (self.worst);
    return fault;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Takes the shape of an output, or frees the sizes that are others than before.  */
static wm_fault_t take_shape (const judge_t *self, const wm_probe_tensor_t *out, bool is_first,
                              wm_port_t *port, wm_error_t *error)
{
    const uint32_t first = !self->whole;
    uint64_t values = 1;
    if (out->n_dim < first || out->n_dim - first > WM_MODEL_DIMS_MAX ||
        (first && out->dim[0] != 1) || (!is_first && out->n_dim - first != port->n_dim))
        return wm_fault (error, WM_EBATCH,
                         "output '%.128s' has no fixed rank, or none behind a batch dimension; "
                         "leave it out with --outputs, or import with --whole a model without a "
                         "batch dimension",
                         port->name);
    port->n_dim = (uint16_t) (out->n_dim - first);
    for (uint32_t d = 0; d < port->n_dim; d++) {
        const uint32_t size = (uint32_t) out->dim[d + first];
        port->dim[d] = is_first || port->dim[d] == size ? size : 0;
        values *= port->dim[d];
    }
    port->n_value = (uint32_t) values;
    return WM_OK;
}

wm_fault_t wm_judge_shapes (wm_onnx_t *onnx, bool whole, const wm_model_parts_t *parts,
                            wm_port_t *output, wm_error_t *error)
{
    judge_t self = { .onnx = onnx, .whole = whole, .parts = parts };
    const wm_backend_t *ort = wm_backend_find (wm_device_engine ("onnxruntime"), error);
    const bool ragged = has_free (parts->input, parts->n_input);
    const char *name[WM_MODEL_PORTS_MAX];
    wm_probe_tensor_t in[WM_MODEL_PORTS_MAX], out[WM_MODEL_PORTS_MAX];
    wm_error_t refused = { .fault = WM_OK };
    bool is_first = true;
    for (uint32_t i = 0; i < parts->n_input; i++)
        self.n_value += parts->input[i].n_value;
    for (uint32_t i = 0; i < parts->n_output; i++)
        name[i] = output[i].name;
    void *probe = ort ? ort->probe_open (parts->original, parts->original_bytes, parts->input,
                                         parts->n_input, name, parts->n_output, error)
                      : NULL;
    float *row = malloc ((ragged ? VALUES_MAX / 8 : self.n_value) * sizeof *row + 1);
    wm_fault_t fault = !probe ? error->fault
                       : !row ? wm_fault (error, WM_EHOST, "no memory for a patch")
                              : WM_OK;
    for (uint32_t i = 0; i < WM_DRAW_KINDS * WM_DRAW_SIZES && !fault; i++) {
        const wm_draw_t kind = (wm_draw_t) (i % WM_DRAW_KINDS);
        uint32_t n = self.n_value;
        fault = ragged ? wm_draw_ragged (onnx, parts->input, parts->n_input, kind, 1 + i,
                                         i / WM_DRAW_KINDS, row, VALUES_MAX / 8, &n, error)
                       : wm_draw_row (onnx, parts->input, parts->n_input, kind, 1 + i, row, error);
        if (fault || !n)
            continue;
        if (ragged)
            put_ragged (&self, row, n, in);
        else
            put_dense (&self, 1, row, NULL, in);
        wm_fault_t refusal = ort->probe_run (probe, in, out, &refused);
        if (refusal == WM_EHOST) {
            *error = refused;
            fault = refusal;
        }
        for (uint32_t k = 0; k < parts->n_output && !refusal && !fault; k++)
            fault = take_shape (&self, &out[k], is_first, &output[k], error);
        if (!refusal) {
            free_tensors (out, parts->n_output);
            is_first = false;
        }
    }
    if (!fault && is_first) {
        *error = refused;
        fault = wm_fault (error, WM_EBATCH, "%.400s",
                          refused.fault ? refused.text : "every row of the test is too large");
    }
    if (probe)
        ort->probe_close (probe);
    free (row);
    return fault;
}
