/* wm_onnxruntime.c - the second general engine: any ONNX model, through ONNX Runtime's C API.

   It computes what OpenVINO refuses or computes otherwise than ONNX defines, and judges OpenVINO
   when a model is imported (kernels/judge/wm_judge.h). Built as a shared object of its own, opened
   by wm_engines.c; ONNX Runtime's library lies in onnxruntime/ beside it.

   Bits must not depend on how hits are grouped or on the number of threads: every patch is computed
   alone, as a batch of one, by one thread from end to end, and the engine's threads share one
   session. ONNX Runtime checks indices itself: a patch with one outside its table is held, and no
   other notices.  */
#include "kernels/onnxruntime/wm_onnxruntime_session.h"
#include "kernels/onnx/wm_index_guard.h"
#include "kernels/onnx/wm_onnx_write.h"
#include "kernels/onnx/wm_wire.h"
#include "kernels/patch/wm_image.h"
#include "kernels/sparse/wm_sparse.h"
#include "kernels/wm_backend_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_VALUES (1u << 20) /* of patches that are cut before they are computed */
#define BLOCK_MAX 256u
#define THREADS_MAX 256
#define NO_FLOAT32 "an output has a number that float32 does not hold"

typedef struct {
    const wm_model_t *model;
    wm_plane_t *plane;       /* NULL: dense patches only */
    wm_index_guard_t *guard; /* NULL: the model loses no NaN */
    uint32_t n_out;          /* the model's outputs, and the guard's */
    const char *name[WM_MODEL_PORTS_MAX + 1];
    wm_onnxruntime_session_t *session;
    wm_sparse_pool_t *pool;
    uint32_t block, threads;
    float *patch;         /* (block) patches cut from a plane */
    atomic_bool has_told; /* that a patch was held */
} engine_t;

/* ---- open ------------------------------------------------------------------------------------ */

static wm_fault_t read_model (engine_t *self, wm_error_t *error)
{
    const wm_net_t *net = wm_model_net (self->model);
    const wm_port_t *output = wm_model_output (self->model, 0),
                    *input = wm_model_input (self->model, 0);
    const uint32_t n_output = wm_model_n_output_port (self->model);
    size_t size = 0;
    uint8_t *made = NULL;
    const void *bytes = net ? NULL : wm_model_original (self->model, &size);
    wm_fault_t fault = WM_OK;
    if (net) {
        fault = wm_onnx_write (net, input, output, n_output, &made, &size, error);
        bytes = made;
    } else if (wm_wire_is_graphdef (bytes, size))
        fault = wm_fault (error, WM_EBATCH,
                          "ONNX Runtime reads no frozen graphs of TensorFlow: use openvino, or "
                          "convert the model by tf2onnx");
    else
        fault = wm_guard_new (&self->guard, &bytes, &size, input, wm_model_n_input (self->model),
                              false, error);
    for (uint32_t i = 0; i < n_output; i++)
        self->name[i] = output[i].name;
    self->n_out = n_output + (self->guard != NULL);
    self->name[n_output] = WM_GUARD_OUTPUT;
    if (!fault) {
        self->session = wm_onnxruntime_session_new (
            bytes, size, input, wm_model_n_input (self->model), self->name, self->n_out,
            wm_model_is_large (self->model), error);
        fault = self->session ? WM_OK : error->fault;
    }
    wm_guard_forget (self->guard);
    free (made);
    return fault;
}

/* The widest instructions, which decide the kernels of ONNX Runtime, and so the bits.  */
static const char *instruction_set (void)
{
#if defined __x86_64__
    __builtin_cpu_init ();
    return __builtin_cpu_supports ("amx-int8")     ? "amx"
           : __builtin_cpu_supports ("avx512vnni") ? "avx512-vnni"
           : __builtin_cpu_supports ("avx512f")    ? "avx512"
           : __builtin_cpu_supports ("avxvnni")    ? "avx-vnni"
           : __builtin_cpu_supports ("avx2")       ? "avx2"
                                                   : "sse";
#else
    return "neon";
#endif
}

static void engine_close (void *engine)
{
    engine_t *self = engine;
    wm_sparse_pool_destroy (&self->pool);
    wm_onnxruntime_session_destroy (&self->session);
    wm_plane_destroy (&self->plane);
    free (self->patch);
    wm_guard_destroy (&self->guard);
    free (self);
}

static void *engine_open (const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    snprintf (signature, 64, "onnxruntime-%.16s/%s/fp32/v1", wm_onnxruntime_version (),
              instruction_set ());
    if (config->threads < 1 || config->threads > THREADS_MAX) {
        wm_fault (error, WM_EBATCH, "%d threads: it takes 1 to %d", config->threads, THREADS_MAX);
        return NULL;
    }
    engine_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "no memory for ONNX Runtime");
        return NULL;
    }
    const uint32_t n_value = wm_model_n_value (model);
    self->model = model;
    self->threads = (uint32_t) config->threads;
    self->block = n_value < BLOCK_VALUES ? BLOCK_VALUES / n_value : 1;
    self->block = self->block < BLOCK_MAX ? self->block : BLOCK_MAX;
    self->plane = spec ? wm_plane_new (spec) : NULL;
    self->patch = spec ? calloc ((size_t) self->block * n_value, sizeof *self->patch) : NULL;
    self->pool = wm_sparse_pool_new (self->threads, config->pin);
    wm_fault_t fault = !self->pool || (spec && (!self->plane || !self->patch))
                           ? wm_fault (error, WM_EHOST, "no memory for ONNX Runtime")
                           : read_model (self, error);
    if (fault) {
        engine_close (self);
        return NULL;
    }
    return self;
}

/* ---- dense patches --------------------------------------------------------------------------- */

/* The inputs of a patch, which lie one behind the other in it.  */
static void put_inputs (const engine_t *self, const float *patch,
                        wm_onnxruntime_in_t in[WM_MODEL_PORTS_MAX])
{
    for (uint32_t i = 0; i < wm_model_n_input (self->model); i++) {
        const wm_port_t *port = wm_model_input (self->model, i);
        in[i] = wm_onnxruntime_in (self->session, i, port->n_dim, port->dim, patch);
        patch += (size_t) port->n_value * wm_port_each (port);
    }
}

/* Takes the outputs of a patch. WM_EBATCH: one has another shape, or a number that no float32
   is.  */
static wm_fault_t take_outputs (const engine_t *self, const wm_onnxruntime_out_t *out,
                                float *scores, wm_error_t *error)
{
    const uint32_t first = !wm_onnxruntime_session_whole (self->session);
    bool exact = true;
    for (uint32_t i = 0; i < wm_model_n_output_port (self->model); i++) {
        const wm_port_t *port = wm_model_output (self->model, i);
        bool fits = out[i].n_dim == port->n_dim + first && (!first || out[i].dim[0] == 1);
        for (uint32_t d = 0; d < port->n_dim && fits; d++)
            fits = out[i].dim[d + first] == (int64_t) port->dim[d];
        if (!fits)
            return wm_fault (error, WM_EBATCH,
                             "output '%.128s' has another shape than on the patches of its import",
                             port->name);
        exact &= wm_onnxruntime_take (&out[i], port, scores);
        scores += (size_t) port->n_value * wm_port_each (port);
    }
    return exact ? WM_OK : wm_fault (error, WM_EBATCH, "%s", NO_FLOAT32);
}

/* What the guard found; OUTSIDE with a text: what no engine computes as ONNX does.  */
static wm_guard_found_t find (const engine_t *self, const wm_onnxruntime_out_t *out, char text[300])
{
    const wm_onnxruntime_out_t *number = &out[wm_model_n_output_port (self->model)];
    if (!self->guard)
        return WM_GUARD_SOUND;
    if (number->n_value != wm_guard_numbers (self->guard))
        return WM_GUARD_NAN;
    return wm_guard_find (self->guard, number->data, text, 300);
}

static void note_held (engine_t *self, const char *text)
{
    if (!atomic_exchange (&self->has_told, true))
        fprintf (stderr, "onnxruntime: a patch is held, and every other one like it: %s\n", text);
}

/* Scores one patch. WM_EHOST only: a patch that the model does not take is held.  */
static wm_fault_t score_patch (engine_t *self, const float *patch, uint8_t *status, float *scores,
                               wm_error_t *error)
{
    wm_onnxruntime_in_t in[WM_MODEL_PORTS_MAX];
    wm_onnxruntime_out_t out[WM_MODEL_PORTS_MAX + 1];
    wm_guard_found_t found = WM_GUARD_SOUND;
    char text[300];
    put_inputs (self, patch, in);
    wm_fault_t fault = wm_onnxruntime_run (self->session, in, out, error);
    if (!fault) {
        fault = take_outputs (self, out, scores, error);
        found = find (self, out, text);
        wm_onnxruntime_release (self->session, out);
    }
    if (!fault && found == WM_GUARD_OUTSIDE)
        fault = wm_fault (error, WM_EBATCH, "%s", text);
    if (fault == WM_EBATCH || (!fault && found)) {
        if (fault)
            note_held (self, error->text);
        *status = fault ? WM_HIT_HELD : WM_HIT_NONFINITE;
        for (uint32_t k = 0; k < wm_model_n_output (self->model); k++)
            scores[k] = NAN;
        fault = WM_OK;
    }
    return fault;
}

typedef struct {
    engine_t *self;
    const wm_batch_t *batch;
    uint32_t first; /* the hit of task 0 */
    uint8_t *status;
    float *scores;
    _Atomic uint64_t *progress;
    wm_error_t *error; /* (threads) */
} work_t;

/* Scores the hit of a task, unless it has the patch of the hit before it.  */
static void score_task (void *argument, uint32_t task, uint32_t thread)
{
    const work_t *work = argument;
    engine_t *self = work->self;
    const uint32_t hit = work->first + task;
    const size_t n_value = wm_model_n_value (self->model);
    const float *patch = work->batch->kind == WM_BATCH_PATCHES ? work->batch->patch + hit * n_value
                                                               : self->patch + task * n_value;
    if (!work->error[thread].fault && !wm_batch_repeats (work->batch, hit))
        work->error[thread].fault = score_patch (
            self, patch, &work->status[hit],
            work->scores + (size_t) hit * wm_model_n_output (self->model), &work->error[thread]);
    atomic_fetch_add (work->progress, 1);
}

/* Returns the first fault of a thread.  */
static wm_fault_t first_fault (const wm_error_t *of_thread, uint32_t n, wm_error_t *error)
{
    for (uint32_t t = 0; t < n; t++)
        if (of_thread[t].fault) {
            if (error)
                *error = of_thread[t];
            return of_thread[t].fault;
        }
    return WM_OK;
}

static wm_fault_t score_dense (engine_t *self, const wm_batch_t *batch, uint8_t *status,
                               float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    wm_error_t of_thread[THREADS_MAX] = { { .fault = WM_OK } };
    const size_t n_output = wm_model_n_output (self->model);
    if (batch->kind != WM_BATCH_PATCHES && wm_plane_load (self->plane, batch, error))
        return error->fault;
    for (uint32_t first = 0; first < batch->n_hit; first += self->block) {
        const uint32_t left = batch->n_hit - first, n = left < self->block ? left : self->block;
        work_t work = { self, batch, first, status, scores, progress, of_thread };
        if (batch->kind != WM_BATCH_PATCHES)
            wm_plane_cut (self->plane, first, n, self->patch);
        wm_sparse_pool_run (self->pool, score_task, &work, n);
    }
    for (uint32_t hit = 1; hit < batch->n_hit; hit++)
        if (wm_batch_repeats (batch, hit)) {
            status[hit] = status[hit - 1];
            memcpy (scores + hit * n_output, scores + (hit - 1) * n_output,
                    n_output * sizeof *scores);
        }
    return first_fault (of_thread, self->threads, error);
}

/* ---- ragged rows ----------------------------------------------------------------------------- */

/* Takes the outputs of a ragged row. NULL, or why they are none.  */
static const char *take_row (const engine_t *self, const wm_onnxruntime_out_t *out, float *scores,
                             char text[300])
{
    const int64_t first = !wm_onnxruntime_session_whole (self->session);
    const uint32_t n = wm_model_n_output_port (self->model), most = wm_model_n_output (self->model);
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        const wm_port_t *port = wm_model_output (self->model, i);
        bool fits = out[i].n_dim == port->n_dim + first && (!first || out[i].dim[0] == 1);
        tensor[i] = (wm_ragged_t){ .n_dim = port->n_dim, .type = port->is_exact ? port->type : 0 };
        for (uint32_t d = 0; d < port->n_dim && fits; d++) {
            const int64_t size = out[i].dim[d + first];
            fits = size <= WM_RAGGED_VALUES_MAX && (!port->dim[d] || size == port->dim[d]);
            tensor[i].dim[d] = (uint32_t) size;
        }
        if (!fits)
            return "an output has another shape than the model states";
    }
    if (!wm_ragged_begin (scores, most, n, tensor))
        return WM_MODEL_ROW_TOO_LARGE;
    for (uint32_t i = 0; i < n; i++)
        if (!wm_onnxruntime_take (&out[i], wm_model_output (self->model, i), scores + tensor[i].at))
            return NO_FLOAT32;
    const wm_guard_found_t found = find (self, out, text);
    if (found == WM_GUARD_OUTSIDE)
        return text;
    for (uint32_t i = 0; i < n && found; i++)
        for (uint32_t k = 0; k < tensor[i].n_float; k++)
            scores[tensor[i].at + k] = NAN;
    return NULL;
}

static wm_fault_t score_row (engine_t *self, const wm_batch_t *batch, float *scores,
                             wm_error_t *error)
{
    const uint32_t n_input = wm_model_n_input (self->model);
    wm_onnxruntime_in_t in[WM_MODEL_PORTS_MAX] = { { .n_dim = 0 } };
    wm_onnxruntime_out_t out[WM_MODEL_PORTS_MAX + 1];
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    wm_error_t why = { .fault = WM_OK };
    char text[300];
    const char *broken = wm_model_row (wm_model_input (self->model, 0), n_input, batch->patch,
                                       batch->patch_values, tensor);
    for (uint32_t i = 0; i < n_input && !broken; i++)
        in[i] = wm_onnxruntime_in (self->session, i, tensor[i].n_dim, tensor[i].dim,
                                   batch->patch + tensor[i].at);
    if (!broken && !wm_onnxruntime_run (self->session, in, out, &why)) {
        broken = take_row (self, out, scores, text);
        wm_onnxruntime_release (self->session, out);
    }
    if (why.fault == WM_EHOST && error)
        *error = why;
    if (why.fault || broken)
        wm_ragged_refuse (scores, wm_model_n_output (self->model), broken ? broken : why.text);
    return why.fault == WM_EHOST ? WM_EHOST : WM_OK;
}

typedef struct {
    engine_t *self;
    const wm_batch_t *const *batch;
    float *const *scores;
    _Atomic uint64_t *progress;
    wm_error_t *error; /* (threads) */
} rows_t;

static void row_task (void *argument, uint32_t task, uint32_t thread)
{
    const rows_t *work = argument;
    if (!work->error[thread].fault)
        work->error[thread].fault =
            score_row (work->self, work->batch[task], work->scores[task], &work->error[thread]);
    atomic_fetch_add (work->progress, 1);
}

static wm_fault_t engine_score_many (void *engine, uint32_t n, const wm_batch_t *const *batch,
                                     float *const *scores, _Atomic uint64_t *progress,
                                     wm_error_t *error)
{
    engine_t *self = engine;
    wm_error_t of_thread[THREADS_MAX] = { { .fault = WM_OK } };
    rows_t work = { self, batch, scores, progress, of_thread };
    wm_sparse_pool_run (self->pool, row_task, &work, n);
    return first_fault (of_thread, self->threads, error);
}

static wm_fault_t engine_score (void *engine, const wm_batch_t *batch, uint8_t *status,
                                float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    engine_t *self = engine;
    return wm_model_is_ragged (self->model, NULL)
               ? engine_score_many (self, 1, &batch, &scores, progress, error)
               : score_dense (self, batch, status, scores, progress, error);
}

/* Ragged rows come one in a batch: as many as there are threads run at once.  */
static uint32_t engine_fill (const void *engine)
{
    const engine_t *self = engine;
    return wm_model_is_ragged (self->model, NULL) && self->threads > 1 ? self->threads : 0;
}

/* ---- for the importer ------------------------------------------------------------------------ */

typedef struct {
    wm_onnxruntime_session_t *session;
    uint32_t n_input, n_name;
    wm_onnxruntime_out_t *out; /* (n_name) */
} probe_t;

static void probe_close (void *probe)
{
    probe_t *self = probe;
    if (!self)
        return;
    wm_onnxruntime_session_destroy (&self->session);
    free (self->out);
    free (self);
}

static void *probe_open (const void *file, size_t bytes, const wm_port_t *input, uint32_t n_input,
                         const char *const *name, uint32_t n_name, wm_error_t *error)
{
    probe_t *self = calloc (1, sizeof *self);
    if (self) {
        *self = (probe_t){ .n_input = n_input, .n_name = n_name };
        self->out = calloc (n_name, sizeof *self->out);
    }
    if (!self || !self->out)
        wm_fault (error, WM_EHOST, "no memory for ONNX Runtime");
    else
        self->session =
            wm_onnxruntime_session_new (file, bytes, input, n_input, name, n_name, true, error);
    if (self && !self->session) {
        probe_close (self);
        self = NULL;
    }
    return self;
}

static wm_fault_t probe_run (void *probe, const wm_probe_tensor_t *in, wm_probe_tensor_t *out,
                             wm_error_t *error)
{
    probe_t *self = probe;
    wm_onnxruntime_in_t input[WM_MODEL_PORTS_MAX];
    for (uint32_t i = 0; i < self->n_input; i++) {
        input[i] = (wm_onnxruntime_in_t){ .n_dim = in[i].n_dim, .value = in[i].value };
        memcpy (input[i].dim, in[i].dim, sizeof input[i].dim);
    }
    memset (out, 0, self->n_name * sizeof *out);
    wm_fault_t fault = wm_onnxruntime_run (self->session, input, self->out, error);
    if (fault)
        return fault;
    for (uint32_t i = 0; i < self->n_name && !fault; i++) {
        const wm_onnxruntime_out_t *from = &self->out[i];
        out[i] = (wm_probe_tensor_t){ .n_dim = from->n_dim,
                                      .n_value = from->n_value,
                                      .value = malloc (from->n_value * sizeof (float) + 1),
                                      .is_whole = !wm_type_is_real (from->type) };
        memcpy (out[i].dim, from->dim, sizeof out[i].dim);
        if (out[i].value)
            out[i].is_exact = wm_onnxruntime_floats (from, out[i].value);
        else
            fault = wm_fault (error, WM_EHOST, "no memory for a tensor of %llu values",
                              (unsigned long long) from->n_value);
    }
    for (uint32_t i = 0; i < self->n_name && fault; i++) {
        free (out[i].value);
        out[i].value = NULL;
    }
    wm_onnxruntime_release (self->session, self->out);
    return fault;
}

const wm_backend_t wm_backend_onnxruntime = { .open = engine_open,
                                              .close = engine_close,
                                              .score = engine_score,
                                              .fill = engine_fill,
                                              .score_many = engine_score_many,
                                              .probe_open = probe_open,
                                              .probe_run = probe_run,
                                              .probe_close = probe_close };
