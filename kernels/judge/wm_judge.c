/* wm_judge.c - see wm_judge.h.  */
#include "kernels/judge/wm_judge_private.h"
#include "kernels/judge/wm_draw.h"
#include "kernels/model/wm_seed.h"
#include "kernels/onnx/wm_wide.h"
#include "schema/base/wm_allowance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 64u      /* of a distribution */
#define WORK_MAX 1e11 /* multiply-adds of a distribution; fewer rows of larger models */
#define GROUPED 2     /* distributions that OpenVINO scores in other groups, too */
#define ROWS_LEAST 4u
#define ROWS_LARGE 2u /* of patches that go alone in a batch, one at a time: memory */
#define THREADS_MAX 16
#define ROUNDING (-20) /* binary exponent of the largest rounding of a patch's values */
#define MOVES 4u       /* by so much, and by halves of it */

static const char *const engine_name[WM_JUDGE_ENGINES] = { "openvino", "onnxruntime" };

/* ---- one distribution of dense patches ------------------------------------------------------- */

static wm_fault_t score (const wm_judge_t *self, int engine, float *row, uint32_t n,
                         uint8_t *status, float *scores, wm_error_t *error)
{
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = n, .patch_values = self->n_value, .patch = row
    };
    return wm_device_score (self->device[engine], &batch, status, scores, error);
}

/* Finds how far roundings of a patch move its n scores by ONNX Runtime, each by itself: several
   patches that are a rounding away have those. Fills in self->shake (n).  */
static wm_fault_t shake (wm_judge_t *self, const float *row, uint32_t n_value, const float *right,
                         uint32_t n, wm_error_t *error)
{
    uint8_t status;
    wm_fault_t fault = WM_OK;
    float *moved = malloc (n_value * sizeof *moved);
    if (!moved)
        return wm_fault (error, WM_EHOST, "no memory to judge a model");
    memset (self->shake, 0, n * sizeof *self->shake);
    for (uint32_t turn = 0; turn < MOVES && !fault; turn++) {
        for (uint32_t k = 0; k < n_value; k++) {
            const float by = ldexpf (fmaxf (1, fabsf (row[k])), ROUNDING - (int) turn);
            moved[k] = row[k] == nearbyintf (row[k]) ? row[k] : row[k] + (k >> turn & 1 ? by : -by);
        }
        const wm_batch_t batch = {
            .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = n_value, .patch = moved
        };
        fault = wm_device_score (self->device[WM_JUDGE_ONNXRUNTIME], &batch, &status, self->moved,
                                 error);
        const bool same =
            !fault && (!wm_model_is_ragged (self->model, NULL) ||
                       wm_ragged_length (self->moved, wm_model_n_output (self->model)) == n);
        for (uint32_t k = 0; k < n && same; k++)
            self->shake[k] =
                fmaxf (self->shake[k], (float) wm_judge_distance (self->moved[k], right[k]));
    }
    free (moved);
    return fault;
}

/* Remembers the first patch that differs.  */
static wm_fault_t note_worst (wm_judge_t *self, const float *row, uint32_t n_value, double off,
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
static double row_beyond (wm_judge_t *self, const float *value, const float *right,
                          const float *shake, const wm_judge_range_t *range)
{
    double most = 0;
    size_t from = 0;
    for (uint32_t i = 0; i < self->parts->n_output; i++) {
        const wm_port_t *port = &self->parts->output[i];
        const double wide = wm_judge_width (&range[i]),
                     allowed = wm_judge_allowed (self, port->type, &range[i]);
        double off = 0;
        most = fmax (most, wm_judge_beyond (value + from, right + from, shake ? shake + from : NULL,
                                            port->n_value, allowed, &off));
        self->off = fmax (self->off, off / fmax (1, wide));
        from += port->n_value;
    }
    return most;
}

/* Compares the scores of both engines.  */
static wm_fault_t compare_dense (wm_judge_t *self, wm_error_t *error)
{
    wm_judge_range_t range[WM_MODEL_PORTS_MAX];
    size_t from = 0;
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < self->parts->n_output; i++) {
        range[i] = WM_JUDGE_NO_RANGE;
        for (uint32_t r = 0; r < self->rows; r++)
            wm_judge_widen (&range[i],
                            self->scores[WM_JUDGE_ONNXRUNTIME] + (size_t) r * self->n_output + from,
                            self->parts->output[i].n_value);
        from += self->parts->output[i].n_value;
    }
    for (uint32_t r = 0; r < self->rows; r++)
        self->n_right += self->status[WM_JUDGE_ONNXRUNTIME][r] != WM_HIT_HELD;
    for (uint32_t r = 0; r < self->rows && !fault && !self->worst; r++) {
        const float *row = self->row + (size_t) r * self->n_value,
                    *mine = self->scores[WM_JUDGE_OPENVINO] + (size_t) r * self->n_output,
                    *theirs = self->scores[WM_JUDGE_ONNXRUNTIME] + (size_t) r * self->n_output;
        const double before = self->off;
        double off = row_beyond (self, mine, theirs, NULL, range);
        if (off > 0) {
            self->off = before;
            fault = shake (self, row, self->n_value, theirs, self->n_output, error);
            off = fault ? 0 : row_beyond (self, mine, theirs, self->shake, range);
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
static wm_fault_t group_again (wm_judge_t *self, float *shuffled, float *again, wm_error_t *error)
{
    uint32_t order[ROWS], done = 0;
    uint8_t status[ROWS];
    shuffle (order, self->rows, self->n_judged);
    for (uint32_t r = 0; r < self->rows; r++)
        memcpy (shuffled + (size_t) r * self->n_value,
                self->row + (size_t) order[r] * self->n_value, self->n_value * sizeof *shuffled);
    for (uint32_t turn = 0; done < self->rows; turn++) {
        const uint32_t left = self->rows - done, want = batch_size[turn % SIZES],
                       n = want < left ? want : left;
        float *row = shuffled + (size_t) done * self->n_value;
        if (score (self, WM_JUDGE_OPENVINO, row, n, status, again, error))
            return error->fault;
        for (uint32_t r = 0; r < n; r++) {
            const float *before =
                self->scores[WM_JUDGE_OPENVINO] + (size_t) order[done + r] * self->n_output;
            if (memcmp (again + (size_t) r * self->n_output, before,
                        self->n_output * sizeof *again) != 0)
                return note_worst (self, row + (size_t) r * self->n_value, self->n_value, INFINITY,
                                   error);
        }
        done += n;
    }
    return WM_OK;
}

/* ---- each row alone -------------------------------------------------------------------------- */

/* Computes batches of shuffled patches by ONNX Runtime, whose rows must be what they are alone.
   Sizes that a model does not take do not matter: its patches are computed one by one.  */
static wm_fault_t check_batches (wm_judge_t *self, void *probe, float *shuffled, float *gathered,
                                 wm_error_t *error)
{
    uint32_t order[ROWS], n = 0;
    shuffle (order, self->rows, 1 + self->n_judged);
    for (uint32_t r = 0; r < self->rows; r++) /* a NaN beside it may do anything */
        if (!self->status[WM_JUDGE_ONNXRUNTIME][order[r]])
            order[n++] = order[r];
    for (uint32_t r = 0; r < n; r++)
        memcpy (shuffled + (size_t) r * self->n_value,
                self->row + (size_t) order[r] * self->n_value, self->n_value * sizeof *shuffled);
    for (size_t s = 1; s < SIZES && n > batch_size[s - 1]; s++) {
        const uint32_t rows = batch_size[s] < n ? batch_size[s] : n;
        wm_probe_tensor_t in[WM_MODEL_PORTS_MAX], out[WM_MODEL_PORTS_MAX];
        wm_error_t refused;
        double most = 0;
        size_t from = 0;
        wm_judge_put_dense (self, rows, shuffled, gathered, in);
        const wm_fault_t fault =
            self->backend[WM_JUDGE_ONNXRUNTIME]->probe_run (probe, in, out, &refused);
        if (fault == WM_EHOST) {
            *error = refused;
            return fault;
        }
        if (fault)
            continue;
        for (uint32_t i = 0; i < self->parts->n_output && !(most > 0); i++) {
            const wm_port_t *port = &self->parts->output[i];
            wm_judge_range_t range = WM_JUDGE_NO_RANGE;
            double off = 0;
            if (out[i].n_value != (uint64_t) rows * port->n_value) {
                most = INFINITY;
                break;
            }
            wm_judge_widen (&range, out[i].value, out[i].n_value);
            const double allowed = wm_judge_allowed (self, port->type, &range);
            for (uint32_t r = 0; r < rows && !(most > 0); r++) {
                const float *alone =
                    self->scores[WM_JUDGE_ONNXRUNTIME] + (size_t) order[r] * self->n_output + from;
                if (self->status[WM_JUDGE_ONNXRUNTIME][order[r]])
                    continue;
                const float *value = out[i].value + (size_t) r * port->n_value;
                most = wm_judge_beyond (value, alone, NULL, port->n_value, allowed, &off);
                if (most > 0 && shake (self, shuffled + (size_t) r * self->n_value, self->n_value,
                                       alone - from, self->n_output, error)) {
                    wm_judge_free_tensors (out, self->parts->n_output);
                    return error->fault;
                }
                if (most > 0)
                    most = wm_judge_beyond (value, alone, self->shake + from, port->n_value,
                                            allowed, &off);
            }
            from += port->n_value;
        }
        wm_judge_free_tensors (out, self->parts->n_output);
        if (most > 0)
            return wm_judge_refuse_mixing (self, wm_judge_find_mixing (self, rows, shuffled, error),
                                           error);
    }
    return WM_OK;
}

/* ---- dense ----------------------------------------------------------------------------------- */

static wm_fault_t judge_dense (wm_judge_t *self, wm_error_t *error)
{
    const size_t n_in = (size_t) self->rows * self->n_value,
                 n_out = (size_t) self->rows * self->n_output;
    const bool both = self->device[WM_JUDGE_OPENVINO] && self->device[WM_JUDGE_ONNXRUNTIME];
    float *shuffled = malloc (n_in * sizeof *shuffled),
          *gathered = self->parts->n_input > 1 ? malloc (n_in * sizeof *gathered) : NULL,
          *again = malloc (n_out * sizeof *again);
    const char *name[WM_MODEL_PORTS_MAX];
    wm_fault_t fault = shuffled && (gathered || self->parts->n_input < 2) && again
                           ? WM_OK
                           : wm_fault (error, WM_EHOST, "no memory to judge a model");
    void *probe = NULL;
    for (uint32_t i = 0; i < self->parts->n_output; i++)
        name[i] = self->parts->output[i].name;
    if (!fault && self->device[WM_JUDGE_ONNXRUNTIME] && !self->whole)
        probe = self->backend[WM_JUDGE_ONNXRUNTIME]->probe_open (
            self->parts->original, self->parts->original_bytes, self->parts->input,
            self->parts->n_input, name, self->parts->n_output, error);
    for (int kind = 0; kind < WM_DRAW_KINDS && !fault; kind++) {
        for (uint32_t r = 0; r < self->rows && !fault; r++)
            fault = wm_draw_row (self->onnx, self->parts->input, self->parts->n_input,
                                 (wm_draw_t) kind, 1 + (uint64_t) kind * ROWS + r,
                                 self->row + (size_t) r * self->n_value, error);
        for (int e = 0; e < WM_JUDGE_ENGINES && !fault; e++)
            if (self->device[e])
                fault =
                    score (self, e, self->row, self->rows, self->status[e], self->scores[e], error);
        if (!fault && both && !self->worst)
            fault = compare_dense (self, error);
        if (!fault && both && !self->worst && kind < GROUPED)
            fault = group_again (self, shuffled, again, error);
        /* of equal values ONNX Runtime takes another in a batch (ArgMin) */
        if (!fault && probe && kind != WM_DRAW_ZEROS && kind != WM_DRAW_INTEGERS)
            fault = check_batches (self, probe, shuffled, gathered, error);
    }
    if (probe)
        self->backend[WM_JUDGE_ONNXRUNTIME]->probe_close (probe);
    free (shuffled);
    free (gathered);
    free (again);
    return fault;
}

/* ---- ragged ---------------------------------------------------------------------------------- */

/* Scores a ragged row. Returns the values of its scores, 0 where it is refused.  */
static uint32_t score_ragged (const wm_judge_t *self, int engine, float *row, uint32_t n,
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
static double ragged_beyond (wm_judge_t *self, const float *value, const float *right,
                             const float *shake, uint32_t n)
{
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    uint32_t n_tensor;
    double most = 0;
    wm_ragged_read (right, n, &n_tensor, tensor);
    for (uint32_t i = 0; i < self->parts->n_output; i++) {
        const wm_port_t *port = &self->parts->output[i];
        const size_t at = tensor[i].at;
        wm_judge_range_t range = WM_JUDGE_NO_RANGE;
        double off = 0;
        wm_judge_widen (&range, right + at, tensor[i].n_value);
        const double wide = wm_judge_width (&range),
                     allowed = wm_judge_allowed (self, port->type, &range);
        most = fmax (most, wm_judge_beyond (value + at, right + at, shake ? shake + at : NULL,
                                            tensor[i].n_value, allowed, &off));
        self->off = fmax (self->off, off / fmax (1, wide));
    }
    return most;
}

static wm_fault_t compare_ragged (wm_judge_t *self, float *row, uint32_t n, wm_error_t *error)
{
    uint32_t length[WM_JUDGE_ENGINES];
    error->fault = WM_OK;
    for (int e = 0; e < WM_JUDGE_ENGINES; e++) {
        length[e] = score_ragged (self, e, row, n, self->scores[e], error);
        if (error->fault)
            return error->fault;
    }
    self->n_judged++;
    self->n_right += length[WM_JUDGE_ONNXRUNTIME] > 0;
    if (!length[WM_JUDGE_OPENVINO] && !length[WM_JUDGE_ONNXRUNTIME])
        return WM_OK;
    const uint32_t n_score = length[WM_JUDGE_ONNXRUNTIME];
    /* as many values, and the same shapes in front of them */
    double off = INFINITY, before = self->off;
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    uint32_t n_tensor;
    const bool same =
        length[WM_JUDGE_OPENVINO] == n_score &&
        !wm_ragged_read (self->scores[WM_JUDGE_ONNXRUNTIME], n_score, &n_tensor, tensor) &&
        memcmp (self->scores[WM_JUDGE_OPENVINO], self->scores[WM_JUDGE_ONNXRUNTIME],
                tensor[0].at * sizeof (float)) == 0;
    if (same)
        off = ragged_beyond (self, self->scores[WM_JUDGE_OPENVINO],
                             self->scores[WM_JUDGE_ONNXRUNTIME], NULL, n_score);
    if (same && off > 0) {
        self->off = before;
        if (shake (self, row, n, self->scores[WM_JUDGE_ONNXRUNTIME], n_score, error))
            return error->fault;
        off = ragged_beyond (self, self->scores[WM_JUDGE_OPENVINO],
                             self->scores[WM_JUDGE_ONNXRUNTIME], self->shake, n_score);
    }
    return off > 0 ? note_worst (self, row, n, off, error) : WM_OK;
}

static wm_fault_t judge_ragged (wm_judge_t *self, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < 2 * WM_DRAW_KINDS * WM_DRAW_SIZES && !fault && !self->worst; i++) {
        uint32_t n;
        fault = wm_draw_ragged (self->onnx, self->parts->input, self->parts->n_input,
                                (wm_draw_t) (i % WM_DRAW_KINDS), 1 + i,
                                i / WM_DRAW_KINDS % WM_DRAW_SIZES, self->row,
                                WM_JUDGE_VALUES_MAX / 8, &n, error);
        if (!fault && n && self->device[WM_JUDGE_OPENVINO] && self->device[WM_JUDGE_ONNXRUNTIME])
            fault = compare_ragged (self, self->row, n, error);
    }
    return fault;
}

/* ---- together -------------------------------------------------------------------------------- */

static wm_fault_t open_engines (wm_judge_t *self, wm_error_t *error)
{
    const int cpus = wm_allowance ()->cpus, most = cpus < THREADS_MAX ? cpus : THREADS_MAX,
              threads = wm_model_is_large (self->model) ? 1 : most;
    for (int e = 0; e < WM_JUDGE_ENGINES; e++) {
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
    if (!self->device[WM_JUDGE_OPENVINO] && !self->device[WM_JUDGE_ONNXRUNTIME]) {
        *error =
            self->why[self->backend[WM_JUDGE_OPENVINO] ? WM_JUDGE_OPENVINO : WM_JUDGE_ONNXRUNTIME];
        return error->fault;
    }
    return WM_OK;
}

static wm_fault_t take_memory (wm_judge_t *self, wm_error_t *error)
{
    const bool ragged = wm_model_is_ragged (self->model, NULL);
    self->n_value = wm_model_n_value (self->model);
    self->n_output = wm_model_n_output (self->model);
    const uint64_t of_row = (uint64_t) self->n_value + self->n_output;
    const double work = (double) self->parts->madds;
    self->rows = ragged ? 1 : ROWS;
    if (wm_model_is_large (self->model))
        self->rows = ROWS_LARGE;
    while (self->rows > ROWS_LEAST &&
           (self->rows * of_row > WM_JUDGE_VALUES_MAX || self->rows * work > WORK_MAX))
        self->rows /= 2;
    const size_t n = ragged ? WM_JUDGE_VALUES_MAX / 8 : (size_t) self->rows * self->n_value,
                 n_score = ragged ? self->n_output : (size_t) self->rows * self->n_output;
    bool fine = (self->row = malloc (n * sizeof *self->row)) != NULL;
    const size_t n_moved = ragged ? n_score : self->n_output;
    fine &= (self->moved = malloc (n_moved * sizeof (float))) != NULL;
    fine &= (self->shake = malloc (n_moved * sizeof (float))) != NULL;
    for (int e = 0; e < WM_JUDGE_ENGINES; e++) {
        fine &= (self->scores[e] = malloc (n_score * sizeof (float))) != NULL;
        fine &= (self->status[e] = malloc (self->rows)) != NULL;
    }
    return fine ? WM_OK : wm_fault (error, WM_EHOST, "no memory to judge a model");
}

/* Notes any patch as one that differs: the engines give its scores other shapes, and only one of
   them computes those of the model.  */
static wm_fault_t note_shapes (wm_judge_t *self, bool accept, wm_error_t *error)
{
    uint32_t n = self->n_value;
    const wm_fault_t fault =
        wm_model_is_ragged (self->model, NULL)
            ? wm_draw_ragged (self->onnx, self->parts->input, self->parts->n_input, WM_DRAW_SIGNED,
                              1, 0, self->row, WM_JUDGE_VALUES_MAX / 8, &n, error)
            : wm_draw_row (self->onnx, self->parts->input, self->parts->n_input, WM_DRAW_SIGNED, 1,
                           self->row, error);
    wm_device_destroy (&self->device[accept ? WM_JUDGE_ONNXRUNTIME : WM_JUDGE_OPENVINO]);
    return fault ? fault : note_worst (self, self->row, n, INFINITY, error);
}

static void name_judge (const wm_judge_t *self, wm_judged_t *judged)
{
    const wm_device_t *judge = self->device[WM_JUDGE_ONNXRUNTIME];
    if (judge)
        snprintf (judged->judge, sizeof judged->judge, "%.*s",
                  (int) strcspn (wm_device_signature (judge), "/"), wm_device_signature (judge));
}

/* If ONNX Runtime refuses every drawn patch it judges nothing: it does not compute the model's
   types, or is stricter than ONNX. Returns whether it is dropped. wide: as of conclude; then it has
   opened the model, and may have refused the patches for scores that no float32 is.  */
static bool drop_judge (wm_judge_t *self, const char *wide)
{
    if (*wide || !self->device[WM_JUDGE_OPENVINO] || !self->device[WM_JUDGE_ONNXRUNTIME] ||
        self->n_right > 0 || !self->n_judged)
        return false;
    wm_device_destroy (&self->device[WM_JUDGE_ONNXRUNTIME]);
    wm_fault (&self->why[WM_JUDGE_ONNXRUNTIME], WM_EBATCH,
              "ONNX Runtime computes none of the drawn patches");
    free (self->worst);
    self->worst = NULL;
    return true;
}

/* Refuses what OpenVINO alone would compute otherwise than ONNX defines. Values that are handed on
   are checked when they come (producer/serving/wm_signature.h).  */
static wm_fault_t refuse_unjudged (const wm_judge_t *self, const char *wide, wm_error_t *error)
{
    if (wm_onnx_refuse_unjudged (self->onnx, error))
        return error->fault;
    return strncmp (wide, "node", 4) == 0
               ? wm_fault (error, WM_EBATCH,
                           "%.200s: OpenVINO does not compute %s in that type, and ONNX Runtime "
                           "cannot score the model: %.150s",
                           self->onnx->path, wide, self->why[WM_JUDGE_ONNXRUNTIME].text)
               : WM_OK;
}

/* Says what was found. wide: what OpenVINO computes in a narrower type, or "".  */
static wm_fault_t conclude (wm_judge_t *self, bool accept, const char *wide, wm_judged_t *judged,
                            char text[WM_JUDGE_TEXT], wm_error_t *error)
{
    const wm_device_t *mine = self->device[WM_JUDGE_OPENVINO],
                      *theirs = self->device[WM_JUDGE_ONNXRUNTIME];
    const Onnx__NodeProto *node;
    const char *doubt;
    if (self->worst) {
        node = wm_judge_find_node (self, error);
        const char *who = accept ? "OpenVINO scores it, as was accepted" : "ONNX Runtime scores it";
        judged->judgement = accept ? WM_JUDGED_TAKEN : WM_JUDGED_OTHER;
        judged->off = isfinite (self->worst_off) ? (float) self->worst_off : 0;
        if (node)
            snprintf (text, WM_JUDGE_TEXT,
                      "%s: " WM_MODEL_DIFFERS "node '%.100s' (%.60s)" WM_MODEL_OTHERWISE, who,
                      wm_onnx_node_name (node), wm_onnx_op (node));
        else
            snprintf (text, WM_JUDGE_TEXT,
                      isfinite (self->worst_off)
                          ? "%s: " WM_MODEL_DIFFERS "its scores" WM_MODEL_OTHERWISE ", by %.1g"
                          : "%s: " WM_MODEL_DIFFERS "its scores" WM_MODEL_OTHERWISE
                            ": in another shape, or so that they depend on the batch",
                      who, self->worst_off);
    } else if (!theirs)
        snprintf (text, WM_JUDGE_TEXT, "judged by no other engine: %.200s",
                  self->why[WM_JUDGE_ONNXRUNTIME].text);
    else if (!mine) {
        judged->judgement = WM_JUDGED_ALONE;
        *judged->judge = 0;
        snprintf (text, WM_JUDGE_TEXT, "ONNX Runtime scores it, judged by no other engine: %.200s",
                  self->why[WM_JUDGE_OPENVINO].text);
    } else if (!accept && (node = wm_onnx_doubt (self->onnx, &doubt))) {
        judged->judgement = WM_JUDGED_OTHER;
        snprintf (text, WM_JUDGE_TEXT,
                  "ONNX Runtime scores it: " WM_MODEL_DIFFERS
                  "node '%.100s' (%.60s: %s)" WM_MODEL_OTHERWISE,
                  wm_onnx_node_name (node), wm_onnx_op (node), doubt);
    } else if (*wide) {
        judged->judgement = WM_JUDGED_OTHER;
        snprintf (text, WM_JUDGE_TEXT,
                  "ONNX Runtime scores it: " WM_MODEL_DIFFERS "%.200s" WM_MODEL_OTHERWISE, wide);
    } else {
        judged->judgement = WM_JUDGED_EQUAL;
        judged->off = (float) self->off;
        snprintf (text, WM_JUDGE_TEXT, "judged by %s on %llu patches, largest difference %.1g",
                  judged->judge, (unsigned long long) self->n_judged, self->off);
    }
    return WM_OK;
}

wm_fault_t wm_judge (wm_onnx_t *onnx, const wm_judge_how_t *how, const char *draft,
                     const wm_model_parts_t *parts, wm_judged_t *judged, char text[WM_JUDGE_TEXT],
                     wm_error_t *error)
{
    wm_judge_t self = {
        .onnx = onnx, .whole = how->whole, .parts = parts, .share = wm_judge_find_share (onnx)
    };
    char wide[WM_WIDE_TEXT] = "";
    *judged = (wm_judged_t){ .judgement = WM_JUDGED_BY_NONE };
    self.model = wm_model_open (draft, error);
    wm_fault_t fault = self.model ? open_engines (&self, error) : error->fault;
    if (!fault && how->exact && !how->accept)
        fault = wm_wide_find (onnx, parts->input, parts->n_input, wide, error);
    if (!fault && !self.device[WM_JUDGE_ONNXRUNTIME])
        fault = refuse_unjudged (&self, wide, error);
    if (!fault)
        fault = take_memory (&self, error);
    if (!fault) {
        judged->lacked = !self.backend[WM_JUDGE_OPENVINO] || !self.backend[WM_JUDGE_ONNXRUNTIME];
        name_judge (&self, judged);
    }
    if (!fault && how->other_shapes)
        fault = note_shapes (&self, how->accept, error);
    if (!fault)
        fault = wm_model_is_ragged (self.model, NULL) ? judge_ragged (&self, error)
                                                      : judge_dense (&self, error);
    if (!fault && !how->other_shapes && drop_judge (&self, wide))
        fault = refuse_unjudged (&self, wide, error);
    if (!fault)
        fault = conclude (&self, how->accept, wide, judged, text, error);
    for (int e = 0; e < WM_JUDGE_ENGINES; e++) {
        wm_device_destroy (&self.device[e]);
        free (self.scores[e]);
        free (self.status[e]);
    }
    wm_model_destroy (&self.model);
    free (self.row);
    free (self.moved);
    free (self.shake);
    free (self.worst);
    return fault;
}
