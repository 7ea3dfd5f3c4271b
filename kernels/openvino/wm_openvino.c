/* wm_openvino.c - the general engine: any model on dense patches, through OpenVINO's C API.

   Built as a shared object of its own, opened by wm_device.c, which carries its own copy of what it
   needs from this folder.

   Bits must not depend on how hits are grouped or on the number of threads. So there is one
   compiled shape, of `rows` patches, whose last block is filled up with zeros, and every block is
   computed by one thread from end to end: `threads` streams of one thread each, not one stream of
   many. That is also the faster way (no barrier per layer), and blocks are cut while others are
   computed: there is one request more than streams. A block's input is small, so that what is
   computed of it stays in the cache of one core.

   A model with free dimensions computes ragged rows (wm_openvino_ragged.h) on the same streams.

   A patch with an index outside its table, or of which the model makes a NaN and loses it, is held;
   the others of its block keep their scores (wm_openvino_alone.h). Where a model is guarded, the
   last block is filled up with its first patch again: zeros may be no indices.

   A program that sends patches one at a time gets another form, in which all threads share one
   patch, once it is shown to have the bits of the pinned one (wm_same_bits.h).

   With fewer CPUs than threads OpenVINO makes fewer streams. Threads are pinned by us
   (wm_openvino_pin.h).  */
#include "kernels/onnx/wm_onnx_write.h"
#include "kernels/openvino/wm_openvino_alone.h"
#include "kernels/openvino/wm_openvino_blind.h"
#include "kernels/openvino/wm_openvino_form.h"
#include "kernels/openvino/wm_openvino_graph.h"
#include "kernels/openvino/wm_openvino_pin.h"
#include "kernels/openvino/wm_openvino_probe.h"
#include "kernels/openvino/wm_openvino_ragged.h"
#include "kernels/patch/wm_image.h"
#include "kernels/wm_backend_private.h"
#include "kernels/judge/wm_same_bits.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 128u                /* 64 to 512 run alike; fewer waste less in the last block */
#define BLOCK_VALUES_MAX (80u << 10) /* input values a block: its activations stay in a CPU's L2 */
#define THREADS_MAX 256
#define SINGLES 4u /* batches of one patch, until it is worth to compute them otherwise */

typedef struct {
    const wm_model_t *model;
    wm_plane_t *plane; /* NULL: dense patches only */
    ov_core_t *core;
    wm_openvino_graph_t graph, sure; /* sure: that without doubts, once it is asked */
    uint32_t rows;
    int threads;
    wm_openvino_form_t form, single; /* single: a patch by all threads; rows 0: not there */
    uint32_t n_single;               /* batches of one patch */
    wm_openvino_ragged_t *ragged;    /* NULL: all patches have one shape */
    wm_openvino_alone_t *alone;      /* NULL: no block needed it yet */
    bool is_fast, has_told;          /* that a patch was held */
} engine_t;

/* ---- open ------------------------------------------------------------------------------------ */

static wm_fault_t read_graph (const engine_t *self, bool has_doubts, wm_openvino_graph_t *graph,
                              wm_error_t *error)
{
    const wm_net_t *net = wm_model_net (self->model);
    size_t size = 0;
    uint8_t *made = NULL;
    const void *bytes = net ? NULL : wm_model_original (self->model, &size);
    *graph = (wm_openvino_graph_t){ .input = wm_model_input (self->model, 0),
                                    .output = wm_model_output (self->model, 0),
                                    .n_input = wm_model_n_input (self->model),
                                    .n_output = wm_model_n_output_port (self->model),
                                    .has_doubts = has_doubts };
    wm_fault_t fault = WM_OK;
    if (net)
        fault =
            wm_onnx_write (net, graph->input, graph->output, graph->n_output, &made, &size, error);
    if (!fault)
        fault = wm_openvino_graph_read (graph, self->core, net ? made : bytes, size, error);
    free (made);
    return fault;
}

/* Whether the graph takes so many patches, and its outputs are (rows, the port's shape): a model
   whose Reshape nodes hold a fixed number of patches takes another without a word.  */
static bool reshape (engine_t *self, uint32_t rows)
{
    bool fit = wm_openvino_graph_reshape (&self->graph, rows);
    for (uint32_t i = 0; fit && i < self->graph.n_output; i++) {
        const wm_port_t *port = &self->graph.output[i];
        wm_port_t found;
        fit = wm_openvino_graph_shape (&self->graph, i, rows, &found) &&
              found.n_dim == port->n_dim &&
              memcmp (found.dim, port->dim, port->n_dim * sizeof *port->dim) == 0;
    }
    return fit;
}

/* The largest power of two of patches within the limits; one at a time where the model insists.  */
static wm_fault_t choose_rows (engine_t *self, wm_error_t *error)
{
    self->rows = self->graph.whole || wm_model_is_ragged (self->model, NULL) ? 1 : ROWS_MAX;
    while (self->rows > 1 &&
           (uint64_t) self->rows * wm_model_n_value (self->model) > BLOCK_VALUES_MAX)
        self->rows /= 2;
    if (reshape (self, self->rows))
        return WM_OK;
    self->rows = 1;
    return reshape (self, 1)
               ? WM_OK
               : wm_openvino_failed (error, WM_EBATCH, "give this model a batch of patches");
}

/* Widest instruction set: it decides which kernels OpenVINO takes, and so the bits.  */
static const char *instruction_set (void)
{
#if defined __x86_64__
    __builtin_cpu_init ();
    if (__builtin_cpu_supports ("amx-tile"))
        return "amx";
    if (__builtin_cpu_supports ("avx512f"))
        return "avx512";
    return __builtin_cpu_supports ("avx2") ? "avx2" : "sse";
#else
    return "neon";
#endif
}

static void sign (const wm_device_config_t *config, char signature[64])
{
    ov_version_t version = { 0 };
    const char *number = "unknown";
    if (ov_get_openvino_version (&version) == OK && version.buildNumber)
        number = version.buildNumber;
    snprintf (signature, 64, "openvino-%.*s/%s/%.8s/v2", (int) strcspn (number, "-"), number,
              instruction_set (), strcmp (config->precision, "fast") == 0 ? "fast" : "fp32");
    ov_version_free (&version);
}

static void engine_close (void *engine)
{
    engine_t *self = engine;
    wm_openvino_form_close (&self->form);
    wm_openvino_form_close (&self->single);
    wm_openvino_ragged_destroy (&self->ragged);
    wm_openvino_alone_destroy (&self->alone);
    wm_openvino_graph_clear (&self->graph);
    wm_openvino_graph_clear (&self->sure);
    ov_core_free (self->core);
    wm_plane_destroy (&self->plane);
    free (self);
}

static void *engine_open (const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    if (config->threads < 1 || config->threads > THREADS_MAX) {
        wm_fault (error, WM_EBATCH, "%d threads: it takes 1 to %d", config->threads, THREADS_MAX);
        return NULL;
    }
    engine_t *self = calloc (1, sizeof *self);
    wm_fault_t fault = WM_OK;
    if (config->pin)
        wm_openvino_pin_ready ();
    if (self) {
        self->model = model;
        self->is_fast = strcmp (config->precision, "fast") == 0;
        self->threads = config->threads;
        self->plane = spec ? wm_plane_new (spec) : NULL;
    }
    if (!self || (spec && !self->plane))
        fault = wm_fault (error, WM_EHOST, "no memory for the OpenVINO engine");
    else if (wm_openvino_blind (error))
        fault = error->fault;
    else if (ov_core_create (&self->core) != OK)
        fault = wm_openvino_failed (error, WM_EHOST, "start");
    else if (!(fault = read_graph (self, !wm_model_is_ragged (model, NULL), &self->graph, error)) &&
             !(fault = choose_rows (self, error)) && wm_model_is_ragged (model, NULL)) {
        self->ragged = wm_openvino_ragged_new (&self->graph, self->core, wm_model_n_output (model),
                                               config->threads, error);
        fault = self->ragged ? WM_OK : error->fault;
    } else if (!fault) {
        fault = wm_openvino_form_open (&self->form, &self->graph, self->core, self->rows,
                                       config->threads, config->threads, self->is_fast, error);
        if (!fault && config->pin)
            fault = wm_openvino_form_pin (&self->form, error);
    }
    if (fault && self)
        engine_close (self);
    sign (config, signature);
    return fault ? NULL : self;
}

/* ---- score ----------------------------------------------------------------------------------- */

/* Makes what computes patches by themselves, by a graph without doubts.  */
static wm_fault_t make_alone (engine_t *self, wm_error_t *error)
{
    const bool has_doubts = wm_guard_doubts (self->graph.guard);
    if (self->alone)
        return WM_OK;
    wm_openvino_graph_clear (&self->sure);
    if (has_doubts && read_graph (self, false, &self->sure, error))
        return error->fault;
    self->alone = wm_openvino_alone_new (has_doubts ? &self->sure : &self->graph, self->core,
                                         self->is_fast, error);
    return self->alone ? WM_OK : error->fault;
}

/* Finds the rows of a block that mean nothing, and why: all, where none does by itself, as of a
   model that adds rows together. The log gets the first of all.  */
static wm_fault_t find_broken (engine_t *self, const wm_openvino_form_t *form,
                               const wm_openvino_slot_t *slot, wm_guard_found_t found[ROWS_MAX],
                               wm_error_t *error)
{
    char text[300];
    memset (found, 0, ROWS_MAX * sizeof *found);
    wm_guard_found_t first =
        wm_openvino_graph_find (&self->graph, slot->request, text, sizeof text);
    const uint32_t n_alone = form->rows > 1 || first == WM_GUARD_DOUBT ? slot->n_row : 0;
    bool any = false;
    if (!first)
        return WM_OK;
    wm_fault_t fault = n_alone ? make_alone (self, error) : WM_OK;
    for (uint32_t row = 0; row < n_alone && !fault; row++) {
        char one[300];
        fault = wm_openvino_alone_check (self->alone, slot->input, row, &found[row], one,
                                         sizeof one, error);
        if (found[row] && !any)
            memcpy (text, one, sizeof text);
        any |= found[row] != WM_GUARD_SOUND;
    }
    if (first == WM_GUARD_DOUBT && !any)
        return fault; /* the infinities were values */
    for (uint32_t row = 0; row < slot->n_row && !any; row++)
        found[row] = first;
    if (!self->has_told)
        fprintf (stderr, "openvino: a patch is held, and every other one like it: %s\n", text);
    self->has_told = true;
    return fault;
}

/* Waits for a slot and takes its scores. */
static wm_fault_t collect (engine_t *self, const wm_openvino_form_t *form, wm_openvino_slot_t *slot,
                           const wm_batch_t *batch, uint8_t *status, float *scores,
                           _Atomic uint64_t *progress, wm_error_t *error)
{
    wm_guard_found_t found[ROWS_MAX];
    if (!slot->busy)
        return WM_OK;
    slot->busy = false;
    if (ov_infer_request_wait (slot->request) != OK)
        return wm_openvino_failed (error, WM_EHOST, "compute a block of patches");
    const wm_fault_t fault = find_broken (self, form, slot, found, error);
    if (fault)
        return fault;
    uint32_t n_output = wm_model_n_output (self->model), column = 0;
    for (uint32_t i = 0; i < wm_model_n_output_port (self->model); i++) {
        size_t n = wm_model_output (self->model, i)->n_value, row = 0;
        void *data;
        if (ov_tensor_data (slot->out[i], &data) != OK)
            return wm_openvino_failed (error, WM_EHOST, "hand out its scores");
        for (uint32_t hit = slot->first; hit < slot->last; hit++) {
            row += hit > slot->first && !wm_batch_repeats (batch, hit);
            float *to = scores + (size_t) hit * n_output + column;
            memcpy (to, (float *) data + row * n, n * sizeof *to);
            for (size_t k = 0; found[row] && k < n; k++)
                to[k] = NAN;
            if (found[row])
                status[hit] = found[row] == WM_GUARD_NAN ? WM_HIT_NONFINITE : WM_HIT_HELD;
        }
        column += (uint32_t) n;
    }
    atomic_fetch_add (progress, slot->last - slot->first);
    return WM_OK;
}

static wm_fault_t score_by (engine_t *self, wm_openvino_form_t *form, const wm_batch_t *batch,
                            uint8_t *status, float *scores, _Atomic uint64_t *progress,
                            wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    uint32_t turn = 0;
    for (uint32_t hit = 0; !fault && hit < batch->n_hit; turn++) {
        wm_openvino_slot_t *slot = &form->slot[turn % form->n_slot];
        if ((fault = collect (self, form, slot, batch, status, scores, progress, error)))
            break;
        hit = wm_openvino_form_fill (form, slot, self->plane, batch, hit);
        if (ov_infer_request_start_async (slot->request) == OK)
            slot->busy = true;
        else
            fault = wm_openvino_failed (error, WM_EHOST, "start a block of patches");
    }
    for (uint32_t s = 0; s < form->n_slot; s++, turn++) { /* all must rest, also after a fault */
        wm_error_t later;
        wm_fault_t late = collect (self, form, &form->slot[turn % form->n_slot], batch, status,
                                   scores, progress, fault ? &later : error);
        if (!fault)
            fault = late;
    }
    return fault;
}

/* ---- single patches -------------------------------------------------------------------------- */

static wm_fault_t score_pinned (void *engine, const wm_batch_t *batch, uint8_t *status,
                                float *scores, wm_error_t *error)
{
    engine_t *self = engine;
    _Atomic uint64_t progress = 0;
    return score_by (self, &self->form, batch, status, scores, &progress, error);
}

static wm_fault_t score_single (void *engine, const wm_batch_t *batch, uint8_t *status,
                                float *scores, wm_error_t *error)
{
    engine_t *self = engine;
    _Atomic uint64_t progress = 0;
    return score_by (self, &self->single, batch, status, scores, &progress, error);
}

/* Compiles the graph for one patch at a time by so many threads, and keeps it if it has the bits of
   the pinned form.  */
static bool make_single (engine_t *self, int threads)
{
    const bool has_told = self->has_told;
    self->has_told = true; /* of the patches that are compared the log gets nothing */
    const bool fine = wm_openvino_graph_reshape (&self->graph, 1) &&
                      !wm_openvino_form_open (&self->single, &self->graph, self->core, 1, 1,
                                              threads, self->is_fast, NULL) &&
                      wm_same_bits (self->model, score_pinned, score_single, self);
    self->has_told = has_told;
    if (!fine)
        wm_openvino_form_close (&self->single);
    return fine;
}

/* The form for a batch. In the pinned one a patch alone has one thread, and pays for the block that
   it does not fill; a program that sends several such gets another one, if the bits allow.  */
static wm_openvino_form_t *form_of (engine_t *self, const wm_batch_t *batch)
{
    if (batch->n_hit > 1 || (self->rows == 1 && self->threads == 1))
        return &self->form;
    if (self->n_single < SINGLES && ++self->n_single == SINGLES &&
        !(self->threads > 1 && make_single (self, self->threads)) && self->rows > 1)
        make_single (self, 1);
    return self->single.rows ? &self->single : &self->form;
}

static wm_fault_t engine_score (void *engine, const wm_batch_t *batch, uint8_t *status,
                                float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    engine_t *self = engine;
    if (self->ragged)
        return wm_openvino_ragged_score (self->ragged, 1, &batch, &scores, progress, error);
    wm_openvino_form_t *form = form_of (self, batch);
    const wm_fault_t fault =
        batch->kind == WM_BATCH_PATCHES ? WM_OK : wm_plane_load (self->plane, batch, error);
    return fault ? fault : score_by (self, form, batch, status, scores, progress, error);
}

/* Ragged rows come one in a batch: as many as there are streams run at once.  */
static uint32_t engine_fill (const void *engine)
{
    const engine_t *self = engine;
    return self->ragged && self->threads > 1 ? (uint32_t) self->threads : 0;
}

static wm_fault_t engine_score_many (void *engine, uint32_t n, const wm_batch_t *const *batch,
                                     float *const *scores, _Atomic uint64_t *progress,
                                     wm_error_t *error)
{
    const engine_t *self = engine;
    return wm_openvino_ragged_score (self->ragged, n, batch, scores, progress, error);
}

/* ---- for the importer ------------------------------------------------------------------------ */

static wm_fault_t engine_shape (const void *original, size_t bytes, const wm_port_t *input,
                                uint32_t n_input, wm_port_t *output, uint32_t n_output, int inner,
                                wm_error_t *error)
{
    wm_openvino_graph_t graph = {
        .input = input, .n_input = n_input, .output = output, .n_output = n_output
    };
    ov_core_t *core = NULL;
    wm_fault_t fault = wm_openvino_blind (error);
    if (!fault && ov_core_create (&core) != OK)
        fault = wm_openvino_failed (error, WM_EHOST, "start");
    else if (!fault && !(fault = wm_openvino_graph_read (&graph, core, original, bytes, error)) &&
             !wm_openvino_graph_reshape (&graph, 1))
        fault = wm_openvino_failed (error, WM_EBATCH, "give this model one patch");
    graph.whole |= inner;
    for (uint32_t i = 0; i < n_output && !fault; i++) {
        wm_port_t port;
        const bool fits = wm_openvino_graph_shape (&graph, i, 1, &port);
        bool is_free = false;
        for (uint32_t d = 0; d < port.n_dim; d++)
            is_free |= !port.dim[d];
        if (!fits || (inner && is_free))
            fault =
                wm_fault (error, WM_EBATCH,
                          "output '%.128s' has no fixed rank, or none behind a batch dimension; "
                          "leave it out with --outputs, or import with --whole a model without "
                          "a batch dimension",
                          output[i].name);
        output[i] = port;
    }
    wm_openvino_graph_clear (&graph);
    ov_core_free (core);
    return fault;
}

const wm_backend_t wm_backend_openvino = { .open = engine_open,
                                           .close = engine_close,
                                           .score = engine_score,
                                           .fill = engine_fill,
                                           .score_many = engine_score_many,
                                           .shape = engine_shape,
                                           .probe_open = wm_openvino_probe_open,
                                           .probe_run = wm_openvino_probe_run,
                                           .probe_close = wm_openvino_probe_close };
