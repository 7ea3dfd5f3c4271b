/* wm_openvino_graph.c - a model's file as an OpenVINO graph over float32.

   ONNX is read from memory. Frozen graphs OpenVINO reads from a path that ends in .pb only: the
   bytes are put into a memory file, and a link of that name points to it for as long as it
   reads.  */
#include "kernels/openvino/wm_openvino_graph.h"
#include "kernels/onnx/wm_wire.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where OpenVINO's text begins to describe the model: behind places in its own source.  */
static const char *skip_places (const char *text)
{
    static const char *const start[] = { "No conversion rule found for",
                                         "While validating ONNX node" };
    const char *next;
    for (size_t k = 0; k < sizeof start / sizeof *start; k++)
        if ((next = strstr (text, start[k])))
            return next;
    while ((next = strstr (text, "Exception from ")) && (next = strstr (next, ": ")))
        text = next + 2;
    return text;
}

wm_fault_t wm_openvino_failed (wm_error_t *error, wm_fault_t fault, const char *what)
{
    const char *why = ov_get_last_err_msg (), *from = skip_places (why ? why : "");
    wm_fault (error, fault, "OpenVINO cannot %s: %.380s", what, *from ? from : "no reason given");
    ov_free (why);
    char *advice = error ? strstr (error->text, "\nTo facilitate") : NULL; /* for who extends it */
    if (advice)
        *advice = 0;
    for (char *c = error ? error->text : NULL; c && *c; c++) /* its text has many lines */
        if (*c == '\n')
            *c = ' ';
    for (size_t n = error ? strlen (error->text) : 0; n && error->text[n - 1] == ' '; n--)
        error->text[n - 1] = 0;
    return fault;
}

/* ---- reading --------------------------------------------------------------------------------- */

static wm_fault_t read_frozen (wm_openvino_graph_t *self, ov_core_t *core, const uint8_t *bytes,
                               size_t size, wm_error_t *error)
{
    const char *base = getenv ("TMPDIR");
    char folder[PATH_MAX - 16], path[PATH_MAX], target[64];
    snprintf (folder, sizeof folder, "%s/wiremill-XXXXXX", base && *base ? base : "/tmp");
    int fd = memfd_create ("model.pb", MFD_CLOEXEC);
    snprintf (target, sizeof target, "/proc/%ld/fd/%d", (long) getpid (), fd);
    while (fd >= 0 && size) {
        ssize_t n = write (fd, bytes, size);
        if (n <= 0)
            break;
        bytes += n;
        size -= (size_t) n;
    }
    wm_fault_t fault = WM_OK;
    if (size || !mkdtemp (folder)) {
        fault = wm_fault (error, WM_EHOST,
                          "a frozen graph cannot be put into %.200s: no room or no "
                          "right; set TMPDIR",
                          folder);
    } else {
        snprintf (path, sizeof path, "%s/model.pb", folder);
        if (symlink (target, path))
            fault = wm_fault (error, WM_EHOST, "%.200s cannot be made; set TMPDIR", path);
        else if (ov_core_read_model (core, path, NULL, &self->graph) != OK)
            fault = wm_openvino_failed (error, WM_EBATCH, "read this frozen graph");
        unlink (path);
        rmdir (folder);
    }
    if (fd >= 0)
        close (fd);
    return fault;
}

/* Copies a name that a port has; "": it has none.  */
static void take_name (const ov_output_const_port_t *port, char name[132])
{
    char *any = NULL;
    *name = 0;
    if (port && ov_port_get_any_name (port, &any) == OK && strlen (any) < 132)
        strcpy (name, any);
    ov_free (any);
}

/* OpenVINO takes a node that hands a value on (Dropout) out of the graph, and its output's name
   becomes that of the input; an input that no node reads is gone. *n: its inputs; `is_ours`: the
   name of input k is that of one of ours.  */
static wm_fault_t list_inputs (wm_openvino_graph_t *self, size_t *n,
                               char name[WM_MODEL_PORTS_MAX][132], bool *is_ours, wm_error_t *error)
{
    if (ov_model_inputs_size (self->graph, n) != OK || *n > WM_MODEL_PORTS_MAX)
        return wm_openvino_failed (error, WM_EBATCH, "find the inputs of this model");
    for (size_t k = 0; k < *n; k++) {
        ov_output_const_port_t *port = NULL;
        ov_model_const_input_by_index (self->graph, k, &port);
        take_name (port, name[k]);
        ov_output_const_port_free (port);
    }
    for (uint32_t i = 0; i < self->n_input; i++) {
        ov_output_const_port_t *port = NULL;
        char any[132];
        if (ov_model_const_input_by_name (self->graph, self->input_name[i], &port) == OK) {
            take_name (port, any);
            for (size_t k = 0; k < *n; k++)
                is_ours[k] |= strcmp (any, name[k]) == 0;
        }
        ov_output_const_port_free (port);
    }
    return WM_OK;
}

/* Finds inputs whose names are gone: they have the others' places, in order, or are not read.  */
static wm_fault_t name_inputs (wm_openvino_graph_t *self, wm_error_t *error)
{
    char name[WM_MODEL_PORTS_MAX][132];
    bool is_ours[WM_MODEL_PORTS_MAX] = { false };
    size_t n, next = 0, n_other = 0;
    wm_fault_t fault = list_inputs (self, &n, name, is_ours, error);
    for (size_t k = 0; k < n && !fault; k++)
        n_other += !is_ours[k];
    uint32_t lost[WM_MODEL_PORTS_MAX], n_lost = 0;
    for (uint32_t i = 0; i < self->n_input && !fault; i++) {
        ov_output_const_port_t *port = NULL;
        if (ov_model_const_input_by_name (self->graph, self->input_name[i], &port) != OK)
            lost[n_lost++] = i;
        ov_output_const_port_free (port);
    }
    bool fine = !n_other || n_other == n_lost;
    for (uint32_t i = 0; i < n_lost && !fault && fine; i++) {
        while (next < n && is_ours[next])
            next++;
        fine = next == n || *name[next];
        strcpy (self->input_name[lost[i]], next < n ? name[next++] : "");
    }
    if (!fault && !fine)
        fault =
            wm_fault (error, WM_EBATCH,
                      "OpenVINO renames input '%.128s' of this model, and which of its own that "
                      "is is not known: leave out inputs that no node reads, or the Dropout "
                      "that reads this one",
                      n_lost ? self->input[lost[0]].name : "");
    return fault;
}

/* An output whose name is gone has the same place.  */
static void name_outputs (wm_openvino_graph_t *self)
{
    for (uint32_t i = 0; i < self->n_output; i++) {
        ov_output_const_port_t *port = NULL;
        if (ov_model_const_output_by_name (self->graph, self->output_name[i], &port) != OK) {
            ov_model_const_output_by_index (self->graph, i, &port);
            take_name (port, self->output_name[i]);
        }
        ov_output_const_port_free (port);
    }
}

/* Input i of the graph may lack the batch dimension that ports do not count.  */
static wm_fault_t look_at_inputs (wm_openvino_graph_t *self, wm_error_t *error)
{
    uint32_t n_whole = 0, n_read = 0;
    for (uint32_t i = 0; i < self->n_input; i++) {
        if (!*self->input_name[i])
            continue;
        ov_output_const_port_t *port = NULL;
        ov_partial_shape_t shape = { 0 };
        if (ov_model_const_input_by_name (self->graph, self->input_name[i], &port) != OK ||
            ov_port_get_partial_shape (port, &shape) != OK)
            return wm_openvino_failed (error, WM_EBATCH, "find an input of this model");
        n_whole += shape.rank.min == shape.rank.max && shape.rank.min == self->input[i].n_dim;
        n_read++;
        ov_partial_shape_free (&shape);
        ov_output_const_port_free (port);
    }
    self->whole = n_whole > 0;
    if (n_whole && n_whole != n_read)
        return wm_fault (error, WM_EBATCH,
                         "some inputs of this model have a batch dimension and "
                         "some have none");
    return WM_OK;
}

static bool is_float (ov_output_const_port_t *port)
{
    ov_element_type_e type;
    return ov_port_get_element_type (port, &type) == OK && type == F32;
}

static ov_status_e convert_input (ov_preprocess_prepostprocessor_t *process, const char *name)
{
    ov_preprocess_input_info_t *info = NULL;
    ov_preprocess_input_tensor_info_t *tensor = NULL;
    ov_status_e status =
        ov_preprocess_prepostprocessor_get_input_info_by_name (process, name, &info);
    if (status == OK)
        status = ov_preprocess_input_info_get_tensor_info (info, &tensor);
    if (status == OK)
        status = ov_preprocess_input_tensor_info_set_element_type (tensor, F32);
    ov_preprocess_input_tensor_info_free (tensor);
    ov_preprocess_input_info_free (info);
    return status;
}

static ov_status_e convert_output (ov_preprocess_prepostprocessor_t *process, const char *name)
{
    ov_preprocess_output_info_t *info = NULL;
    ov_preprocess_output_tensor_info_t *tensor = NULL;
    ov_status_e status =
        ov_preprocess_prepostprocessor_get_output_info_by_name (process, name, &info);
    if (status == OK)
        status = ov_preprocess_output_info_get_tensor_info (info, &tensor);
    if (status == OK)
        status = ov_preprocess_output_set_element_type (tensor, F32);
    ov_preprocess_output_tensor_info_free (tensor);
    ov_preprocess_output_info_free (info);
    return status;
}

/* Every input and output speaks float32: others are converted inside the graph.  */
static wm_fault_t convert (wm_openvino_graph_t *self, wm_error_t *error)
{
    ov_preprocess_prepostprocessor_t *process = NULL;
    ov_status_e status = ov_preprocess_prepostprocessor_create (self->graph, &process);
    uint32_t changes = 0;
    for (uint32_t i = 0; i < self->n_input + self->n_output && status == OK; i++) {
        const bool in = i < self->n_input;
        const char *name = in ? self->input_name[i] : self->output_name[i - self->n_input];
        ov_output_const_port_t *port = NULL;
        if (in && !*name)
            continue;
        status = in ? ov_model_const_input_by_name (self->graph, name, &port)
                    : ov_model_const_output_by_name (self->graph, name, &port);
        if (status == OK && !is_float (port)) {
            status = in ? convert_input (process, name) : convert_output (process, name);
            changes++;
        }
        ov_output_const_port_free (port);
        if (status != OK) {
            char what[200];
            snprintf (what, sizeof what, "find %s '%.128s' of this model, or convert it",
                      in ? "input" : "output", name);
            ov_preprocess_prepostprocessor_free (process);
            return wm_openvino_failed (error, WM_EBATCH, what);
        }
    }
    ov_model_t *made = NULL;
    if (status == OK && changes)
        status = ov_preprocess_prepostprocessor_build (process, &made);
    ov_preprocess_prepostprocessor_free (process);
    if (made) {
        ov_model_free (self->graph);
        self->graph = made;
    }
    return status == OK ? WM_OK : wm_openvino_failed (error, WM_EBATCH, "convert to float32");
}

/* A tensor of TensorFlow is called "node:0".  */
static void name_tensor (char to[132], const char *name, bool frozen)
{
    snprintf (to, 132, "%s%s", name, frozen && !strchr (name, ':') ? ":0" : "");
}

wm_fault_t wm_openvino_graph_read (wm_openvino_graph_t *self, ov_core_t *core, const void *bytes,
                                   size_t size, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    const bool frozen = wm_wire_is_graphdef (bytes, size);
    for (uint32_t i = 0; i < self->n_input; i++)
        name_tensor (self->input_name[i], self->input[i].name, frozen);
    for (uint32_t i = 0; i < self->n_output; i++)
        name_tensor (self->output_name[i], self->output[i].name, frozen);
    fault = wm_guard_new (&self->guard, &bytes, &size, self->input, self->n_input,
                          WM_GUARD_INDICES | (self->has_doubts ? WM_GUARD_DOUBTS : 0), error);
    if (fault)
        return fault;
    if (frozen)
        fault = read_frozen (self, core, bytes, size, error);
    else if (ov_core_read_model_from_memory_buffer (core, bytes, size, NULL, &self->graph) != OK)
        fault = wm_openvino_failed (error, WM_EBATCH, "read this model");
    wm_guard_forget (self->guard);
    if (!fault)
        fault = name_inputs (self, error);
    if (!fault) {
        name_outputs (self);
        fault = look_at_inputs (self, error);
    }
    return fault ? fault : convert (self, error);
}

void wm_openvino_graph_clear (wm_openvino_graph_t *self)
{
    ov_model_free (self->graph);
    self->graph = NULL;
    wm_guard_destroy (&self->guard);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

bool wm_openvino_graph_reshape (wm_openvino_graph_t *self, uint32_t rows)
{
    const char *name[WM_MODEL_PORTS_MAX];
    ov_partial_shape_t shape[WM_MODEL_PORTS_MAX];
    uint32_t made = 0;
    bool fine = !self->whole || rows == 1;
    for (uint32_t i = 0; i < self->n_input && fine; i++) {
        const wm_port_t *port = &self->input[i];
        if (!*self->input_name[i] || port->n_dim + !self->whole == 0)
            continue; /* not there; or a scalar, which is no other shape */
        ov_dimension_t dim[WM_MODEL_DIMS_MAX + 1] = { { rows, rows } };
        for (uint32_t k = 0; k < port->n_dim; k++) {
            const int64_t size = port->dim[k] ? (int64_t) port->dim[k] : -1; /* any size */
            dim[k + 1] = (ov_dimension_t){ size, size };
        }
        name[made] = self->input_name[i];
        fine = ov_partial_shape_create (port->n_dim + !self->whole, dim + self->whole,
                                        &shape[made]) == OK;
        made += fine; /* those to free */
    }
    fine = fine && (!made || ov_model_reshape (self->graph, name, shape, made) == OK);
    while (made-- > 0)
        ov_partial_shape_free (&shape[made]);
    return fine;
}

wm_fault_t wm_openvino_graph_compile (const wm_openvino_graph_t *self, ov_core_t *core, int streams,
                                      int threads, bool is_fast, ov_compiled_model_t **compiled,
                                      wm_error_t *error)
{
    char text[16], side[16];
    snprintf (text, sizeof text, "%d", threads);
    snprintf (side, sizeof side, "%d", streams);
    const ov_property_t property[] = {
        { ov_property_key_inference_num_threads, text },
        { ov_property_key_num_streams, side },
        { ov_property_key_hint_enable_cpu_pinning, "NO" },
        { ov_property_key_hint_inference_precision, "f32" },
    };
    const size_t n = sizeof property / sizeof property[0] - is_fast;
    if (ov_core_compile_model_props (core, self->graph, "CPU", n, property, compiled) != OK)
        return wm_openvino_failed (error, WM_EBATCH, "compile this model");
    return WM_OK;
}

bool wm_openvino_graph_shape (const wm_openvino_graph_t *self, uint32_t i, uint32_t rows,
                              wm_port_t *port)
{
    ov_output_const_port_t *output = NULL;
    ov_partial_shape_t shape = { 0 };
    int64_t first = !self->whole;
    uint64_t values = 1;
    bool fine = ov_model_const_output_by_name (self->graph, self->output_name[i], &output) == OK &&
                ov_port_get_partial_shape (output, &shape) == OK &&
                shape.rank.min == shape.rank.max && shape.rank.min >= first &&
                shape.rank.min - first <= WM_MODEL_DIMS_MAX &&
                (!first || (shape.dims[0].min == rows && shape.dims[0].max == rows));
    *port = self->output[i];
    port->n_dim = fine ? (uint8_t) (shape.rank.min - first) : 0;
    for (uint32_t k = 0; fine && k < port->n_dim; k++) {
        const ov_dimension_t dim = shape.dims[k + first];
        const int64_t size = dim.min == dim.max ? dim.min : 0;
        fine = (size > 0 || dim.min != dim.max) && size <= UINT32_MAX &&
               !__builtin_mul_overflow (values, (uint64_t) size, &values) && values <= UINT32_MAX;
        port->dim[k] = (uint32_t) size;
    }
    port->n_value = (uint32_t) values;
    ov_partial_shape_free (&shape);
    ov_output_const_port_free (output);
    return fine;
}

bool wm_openvino_tensor_shape (const ov_tensor_t *tensor, ov_shape_t *shape)
{
    size_t bytes;
    *shape = (ov_shape_t){ 0 };
    return ov_tensor_get_shape (tensor, shape) == OK ||
           (ov_tensor_get_byte_size (tensor, &bytes) == OK && bytes == sizeof (float));
}

/* ---- what the guard found -------------------------------------------------------------------- */

wm_guard_found_t wm_openvino_graph_find (const wm_openvino_graph_t *self,
                                         ov_infer_request_t *request, char *text, size_t bytes)
{
    const size_t n = wm_guard_numbers (self->guard);
    ov_tensor_t *output = NULL;
    size_t size = 0;
    void *number = NULL;
    wm_guard_found_t found = WM_GUARD_OUTSIDE;
    if (!n)
        return WM_GUARD_SOUND;
    if (ov_infer_request_get_tensor (request, WM_GUARD_OUTPUT, &output) != OK ||
        ov_tensor_get_byte_size (output, &size) != OK || size != n * sizeof (int64_t) ||
        ov_tensor_data (output, &number) != OK)
        snprintf (text, bytes, "OpenVINO does not report whether its indices are right");
    else
        found = wm_guard_find (self->guard, number, text, bytes);
    ov_tensor_free (output);
    return found;
}
