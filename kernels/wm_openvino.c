/* wm_openvino.c - the general engine: any ONNX model on dense patches, through OpenVINO's C API.

   Built as a shared object of its own, opened by wm_device.c, which carries its own copy of what it
   needs from this folder.

   Bits must not depend on how hits are grouped or on the number of threads. So there is one
   compiled shape, of `rows` patches, whose last block is filled up with zeros, and every block is
   computed by one thread from end to end: `threads` streams of one thread each, not one stream of
   many. That is also the faster way (no barrier per layer), and blocks are cut while others are
   computed: there is one request more than streams.

   Pinning is off: several workers of a machine would pin themselves to the same first cores.  */
#include "kernels/wm_device.h"
#include "kernels/wm_image.h"
#include "kernels/wm_onnx_write.h"

#include <openvino/c/openvino.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 128u /* 64 to 512 run alike; fewer waste less in the last block */
#define BLOCK_VALUES_MAX                                                                           \
    (1u << 20) /* input values a block: keeps large inputs' activations small */
#define THREADS_MAX 256

typedef struct {
    ov_infer_request_t *request;
    float *input[WM_MODEL_PORTS_MAX];
    ov_tensor_t *in[WM_MODEL_PORTS_MAX], *out[WM_MODEL_PORTS_MAX];
    bool busy;
    uint32_t first, last; /* the hits it holds; hits of one cell share a row */
} slot_t;

typedef struct {
    const wm_model_t *model;
    wm_plane_t *plane; /* NULL: dense patches only */
    ov_core_t *core;
    ov_model_t *graph;
    ov_compiled_model_t *compiled;
    uint32_t rows, slots;
    slot_t *slot;
} engine_t;

static wm_fault_t failed (wm_error_t *error, wm_fault_t fault, const char *what)
{
    const char *why = ov_get_last_err_msg ();
    wm_fault (error, fault, "OpenVINO cannot %s: %.380s", what,
              why && *why ? why : "no reason given");
    ov_free (why);
    for (char *c = error ? error->text : NULL; c && *c; c++) /* its words run over many lines */
        if (*c == '\n')
            *c = ' ';
    return fault;
}

/* ---- open ------------------------------------------------------------------------------------ */

static wm_fault_t read_graph (engine_t *self, wm_error_t *error)
{
    const wm_net_t *net = wm_model_net (self->model);
    size_t size = 0;
    uint8_t *made = NULL;
    const void *bytes = net ? NULL : wm_model_original (self->model, &size);
    if (net) {
        wm_fault_t fault =
            wm_onnx_write (net, wm_model_input (self->model, 0), wm_model_output (self->model, 0),
                           wm_model_n_output_port (self->model), &made, &size, error);
        if (fault)
            return fault;
        bytes = made;
    }
    ov_status_e status =
        ov_core_read_model_from_memory_buffer (self->core, bytes, size, NULL, &self->graph);
    free (made);
    return status == OK ? WM_OK : failed (error, WM_EBATCH, "read this model");
}

/* Whether the graph's outputs are (rows, the port's shape): a model whose Reshape nodes hold a
   fixed number of patches takes another without a word.  */
static bool outputs_fit (const engine_t *self, uint32_t rows)
{
    bool fit = true;
    for (uint32_t i = 0; fit && i < wm_model_n_output_port (self->model); i++) {
        const wm_port_t *port = wm_model_output (self->model, i);
        ov_output_const_port_t *output = NULL;
        ov_shape_t shape = { 0 };
        ov_element_type_e type;
        fit = ov_model_const_output_by_name (self->graph, port->name, &output) == OK &&
              ov_port_get_element_type (output, &type) == OK && type == F32 &&
              ov_const_port_get_shape (output, &shape) == OK && shape.rank == port->n_dim + 1 &&
              shape.dims[0] == rows;
        for (uint32_t k = 0; fit && k < port->n_dim; k++)
            fit = shape.dims[k + 1] == port->dim[k];
        ov_shape_free (&shape);
        ov_output_const_port_free (output);
    }
    return fit;
}

static bool reshape (engine_t *self, uint32_t rows)
{
    const char *name[WM_MODEL_PORTS_MAX];
    ov_partial_shape_t shape[WM_MODEL_PORTS_MAX];
    uint32_t n = wm_model_n_input (self->model), made = 0;
    bool fine = true;
    for (; fine && made < n; made++) {
        const wm_port_t *port = wm_model_input (self->model, made);
        int64_t dim[WM_MODEL_DIMS_MAX + 1] = { rows };
        for (uint32_t k = 0; k < port->n_dim; k++)
            dim[k + 1] = port->dim[k];
        name[made] = port->name;
        fine = ov_partial_shape_create_static (port->n_dim + 1, dim, &shape[made]) == OK;
    }
    fine = fine && ov_model_reshape (self->graph, name, shape, n) == OK;
    while (made-- > 0)
        ov_partial_shape_free (&shape[made]);
    return fine && outputs_fit (self, rows);
}

/* The largest power of two of patches within the limits; one at a time where the model insists.  */
static wm_fault_t choose_rows (engine_t *self, wm_error_t *error)
{
    self->rows = ROWS_MAX;
    while (self->rows > 1 &&
           (uint64_t) self->rows * wm_model_n_value (self->model) > BLOCK_VALUES_MAX)
        self->rows /= 2;
    if (reshape (self, self->rows))
        return WM_OK;
    self->rows = 1;
    return reshape (self, 1) ? WM_OK
                             : failed (error, WM_EBATCH, "give this model a batch of patches");
}

static wm_fault_t compile (engine_t *self, const wm_device_config_t *config, wm_error_t *error)
{
    char threads[16];
    snprintf (threads, sizeof threads, "%d", config->threads);
    ov_property_t property[] = {
        { ov_property_key_inference_num_threads, threads },
        { ov_property_key_num_streams, threads },
        { ov_property_key_hint_enable_cpu_pinning, "NO" },
        { ov_property_key_hint_inference_precision, "f32" },
    };
    size_t n = sizeof property / sizeof property[0];
    if (strcmp (config->precision, "fast") == 0)
        n--;
    if (ov_core_compile_model_props (self->core, self->graph, "CPU", n, property,
                                     &self->compiled) != OK)
        return failed (error, WM_EBATCH, "compile this model");
    return WM_OK;
}

static wm_fault_t make_slot (engine_t *self, slot_t *slot, wm_error_t *error)
{
    if (ov_compiled_model_create_infer_request (self->compiled, &slot->request) != OK)
        return failed (error, WM_EHOST, "make a request");
    for (uint32_t i = 0; i < wm_model_n_input (self->model); i++) {
        void *data;
        size_t bytes,
            want = (size_t) self->rows * wm_model_input (self->model, i)->n_value * sizeof (float);
        if (ov_infer_request_get_tensor (slot->request, wm_model_input (self->model, i)->name,
                                         &slot->in[i]) != OK ||
            ov_tensor_data (slot->in[i], &data) != OK ||
            ov_tensor_get_byte_size (slot->in[i], &bytes) != OK || bytes != want)
            return failed (error, WM_EBATCH, "give this model float32 inputs");
        slot->input[i] = data;
    }
    for (uint32_t i = 0; i < wm_model_n_output_port (self->model); i++)
        if (ov_infer_request_get_tensor (slot->request, wm_model_output (self->model, i)->name,
                                         &slot->out[i]) != OK)
            return failed (error, WM_EHOST, "name this model's outputs");
    return WM_OK;
}

/* Widest instruction set: it decides which kernels OpenVINO takes, and so the bits.  */
static const char *instruction_set (void)
{
    __builtin_cpu_init ();
    if (__builtin_cpu_supports ("amx-tile"))
        return "amx";
    if (__builtin_cpu_supports ("avx512f"))
        return "avx512";
    return __builtin_cpu_supports ("avx2") ? "avx2" : "sse";
}

static void sign (const wm_device_config_t *config, char signature[64])
{
    ov_version_t version = { 0 };
    const char *number = "unknown";
    if (ov_get_openvino_version (&version) == OK && version.buildNumber)
        number = version.buildNumber;
    snprintf (signature, 64, "openvino-%.*s/%s/%.8s/v1", (int) strcspn (number, "-"), number,
              instruction_set (), config->precision);
    ov_version_free (&version);
}

static void engine_close (void *engine)
{
    engine_t *self = engine;
    for (uint32_t s = 0; self->slot && s < self->slots; s++) {
        slot_t *slot = &self->slot[s];
        for (uint32_t i = 0; i < WM_MODEL_PORTS_MAX; i++) {
            ov_tensor_free (slot->in[i]);
            ov_tensor_free (slot->out[i]);
        }
        ov_infer_request_free (slot->request);
    }
    free (self->slot);
    ov_compiled_model_free (self->compiled);
    ov_model_free (self->graph);
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
    if (self) {
        self->model = model;
        self->slots = (uint32_t) config->threads + 1;
        self->slot = calloc (self->slots, sizeof *self->slot);
        self->plane = spec ? wm_plane_new (spec) : NULL;
    }
    if (!self || !self->slot || (spec && !self->plane))
        fault = wm_fault (error, WM_EHOST, "no memory for the OpenVINO engine");
    else if (ov_core_create (&self->core) != OK)
        fault = failed (error, WM_EHOST, "start");
    else if (!(fault = read_graph (self, error)) && !(fault = choose_rows (self, error)) &&
             !(fault = compile (self, config, error)))
        for (uint32_t s = 0; !fault && s < self->slots; s++)
            fault = make_slot (self, &self->slot[s], error);
    if (fault && self)
        engine_close (self);
    sign (config, signature);
    return fault ? NULL : self;
}

/* ---- score ----------------------------------------------------------------------------------- */

/* Whether a hit has the cell of the hit before it, and so its patch. */
static bool repeats (const wm_batch_t *batch, uint32_t hit)
{
    return batch->kind != WM_BATCH_PATCHES && hit > 0 &&
           batch->hit_wire[hit] == batch->hit_wire[hit - 1] &&
           batch->hit_col[hit] == batch->hit_col[hit - 1];
}

static void put_patch (const engine_t *self, const slot_t *slot, const wm_batch_t *batch,
                       uint32_t hit, uint32_t row)
{
    if (batch->kind != WM_BATCH_PATCHES) {
        wm_plane_cut (self->plane, hit, 1,
                      slot->input[0] + (size_t) row * wm_model_n_value (self->model));
        return;
    }
    const float *patch = batch->patch + (size_t) hit * batch->patch_values;
    for (uint32_t i = 0; i < wm_model_n_input (self->model); i++) {
        size_t n = wm_model_input (self->model, i)->n_value;
        memcpy (slot->input[i] + row * n, patch, n * sizeof *patch);
        patch += n;
    }
}

/* Fills the slot with the patches from hit `first` on. Returns the first hit that is not in it.  */
static uint32_t fill (const engine_t *self, slot_t *slot, const wm_batch_t *batch, uint32_t first)
{
    uint32_t row = 0, hit = first;
    for (; hit < batch->n_hit; hit++) {
        if (hit > first && repeats (batch, hit))
            continue;
        if (row == self->rows)
            break;
        put_patch (self, slot, batch, hit, row++);
    }
    for (uint32_t i = 0; i < wm_model_n_input (self->model); i++) {
        size_t n = wm_model_input (self->model, i)->n_value;
        memset (slot->input[i] + row * n, 0, (self->rows - row) * n * sizeof (float));
    }
    slot->first = first, slot->last = hit;
    return hit;
}

/* Waits for a slot and takes its scores. */
static wm_fault_t collect (const engine_t *self, slot_t *slot, const wm_batch_t *batch,
                           float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    if (!slot->busy)
        return WM_OK;
    slot->busy = false;
    if (ov_infer_request_wait (slot->request) != OK)
        return failed (error, WM_EHOST, "compute a block of patches");
    uint32_t n_output = wm_model_n_output (self->model), column = 0;
    for (uint32_t i = 0; i < wm_model_n_output_port (self->model); i++) {
        size_t n = wm_model_output (self->model, i)->n_value, row = 0;
        void *data;
        if (ov_tensor_data (slot->out[i], &data) != OK)
            return failed (error, WM_EHOST, "hand out its scores");
        for (uint32_t hit = slot->first; hit < slot->last; hit++) {
            row += hit > slot->first && !repeats (batch, hit);
            memcpy (scores + (size_t) hit * n_output + column, (float *) data + row * n,
                    n * sizeof (float));
        }
        column += (uint32_t) n;
    }
    atomic_fetch_add (progress, slot->last - slot->first);
    return WM_OK;
}

static wm_fault_t engine_score (void *engine, const wm_batch_t *batch, uint8_t *status,
                                float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    engine_t *self = engine;
    (void) status; /* the door looks at the scores */
    wm_fault_t fault = WM_OK;
    if (batch->kind != WM_BATCH_PATCHES)
        fault = wm_plane_load (self->plane, batch, error);
    uint32_t turn = 0;
    for (uint32_t hit = 0; !fault && hit < batch->n_hit; turn++) {
        slot_t *slot = &self->slot[turn % self->slots];
        if ((fault = collect (self, slot, batch, scores, progress, error)))
            break;
        hit = fill (self, slot, batch, hit);
        if (ov_infer_request_start_async (slot->request) == OK)
            slot->busy = true;
        else
            fault = failed (error, WM_EHOST, "start a block of patches");
    }
    for (uint32_t s = 0; s < self->slots; s++, turn++) { /* all must rest, also after a fault */
        wm_fault_t late = collect (self, &self->slot[turn % self->slots], batch, scores, progress,
                                   fault ? NULL : error);
        if (!fault)
            fault = late;
    }
    return fault;
}

const wm_engine_t wm_engine_openvino = { "openvino", engine_open, engine_close, engine_score };
